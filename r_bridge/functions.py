"""What R may call by name, and the one Python function that it calls: arguments in, a tagged list out.

rpy2 turns an exception of a Python function that R calls into NULL. So everything is caught here, and R's side
(``backend.R``) raises what the reply says. A reply holds no traceback, and only those messages that are written for
users: errors of `hdpstats`, of R functions, of files and imports. Other exceptions could quote cells; of them the reply
has the type and the place in the code. Messages are in the words of R: ``dp_schema()`` for ``hdp.Schema(…)``, ``TRUE``
for ``True`` (`in_words_of_r`).
"""

import contextlib
import inspect
import io
import platform
import re
import traceback
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pandas as pd
import rpy2.rinterface as ri

import hdpstats.api as hdp
from hdpstats._base.progress import notes_worded
from hdpstats.api import ArgumentError, HdpError
from r_bridge import guard, handles, results, studies
from r_bridge.arguments import check, converted, single_values
from r_bridge.durations import in_declared_units
from r_bridge.from_r import from_r
from r_bridge.guard import RError, condition_class
from r_bridge.handles import r_names
from r_bridge.to_r import to_r

_FUNCTIONS: Final = {
    "Ledger": "dp_ledger_open",
    "LocalSite": "dp_study",
    "losses.Squares": '"squares"',
    "losses.Huber": '"huber"',
    "Result": "dp_result",
    "WeightedSample": "dp_weighted_sample",
    "Description": "dp_description",
    "DescriptionRequest": "dp_description_request",
    "Propensity": "dp_propensity",
    "Weighting": "dp_weights",
    "TreatmentEffect": "dp_treatment_effect",
    "TreatmentEffectRequest": "dp_effect_request",
    "CombinedEffect": "dp_combined_effect",
    "Balance": "dp_weighted_balance",
    "BalanceRequest": "dp_balance_request",
    "datasets": "the data sets of hdpstats",
}
"""What R calls a public name of Python, where that is not the name itself after ``dp_``."""

_READERS: Final = {
    "Result": "dp_read_result()",
    "SurvivalCurves": "dp_read_curves()",
    "Description": "dp_read_description()",
    "WeightedSample": "dp_read_sample()",
    "TreatmentEffect": "dp_read_effect()",
    "CombinedEffect": "dp_read_combined_effect()",
}
"""What R calls the functions that read files."""

_TYPES: Final = {
    **dict.fromkeys(("int", "float", "int64", "float64"), "a number"),
    **dict.fromkeys(("dict", "list", "tuple"), "a list"),
    "str": "a text",
    "bool": "TRUE or FALSE",
    "DataFrame": "a data frame",
    "Series": "a vector",
    "Result": "a dp_result",
    "NoneType": "NULL",
}
"""What R calls the types of Python's values."""

_KINDS: Final = "Continuous|Binary|Categorical|Duration|Weight|Offset"


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _in_r(match: "re.Match[str]") -> str:
    name = match[1].removesuffix("." if match[1].endswith(".") else "")
    if name.startswith("mechanisms."):
        return f'list(name = "{_snake(name.removeprefix("mechanisms."))}", ...)'
    return _FUNCTIONS.get(name, f"dp_{_snake(name)}")


_Written = str | Callable[["re.Match[str]"], str]
_RULES: Final[tuple[tuple["re.Pattern[str]", _Written], ...]] = (
    (
        re.compile(
            r"^(logit|hazard|linear|quantile|mestimate|poisson|multinomial|distribution|describe|survfit|average_effects|"
            r"hybrid_weights|importance_weights|study)(?= (has no|needs))"
        ),
        r"dp_\1",
    ),
    (re.compile(r"(?<==) ?\[([^\]]*)\]"), r"c(\1)"),
    (re.compile(r"(?<=\blabels=)\("), "c("),
    (re.compile(r"`hdpstats warm-up`"), "dp_warm_up()"),
    (re.compile(r"(\w)\[T\.([^\]]+)\]"), r"\1\2"),
    (re.compile(r"(?<![(\w])Intercept\b"), "(Intercept)"),
    (
        re.compile(r"\bas ((?:Continuous|Binary|Categorical|Duration|Weight|Offset))\b(?!\()"),
        lambda match: f"as dp_{match[1].lower()}()",
    ),
    (re.compile(r"\bplan\((?=n=)"), "dp_plan("),
    (re.compile(r"^constraints: "), "hypothesis: "),
    (re.compile(r"^term_name "), "term "),
    (re.compile(r"\bnp\.\w+\(([^()]*)\)"), r"\1"),
    (re.compile(r"\ban object of hdp\.mechanisms\b(?!\.)"), "a list with its name and options"),
    (re.compile(r"\bhdp\.(mechanisms\.\w+)(?:\([^()]*\))?"), _in_r),
    (re.compile(r"\bhdp\.(losses\.\w+)(?:\([^()]*\))?"), _in_r),
    (
        re.compile(
            r"\bhdp\.(Result|SurvivalCurves|Description|WeightedSample|TreatmentEffect|CombinedEffect)\.from_json"
        ),
        lambda match: _READERS[match[1]],
    ),
    (re.compile(r"\bhdpf?\.(\w+)"), _in_r),
    (re.compile(rf"\b(?<!dp_)({_KINDS})(?=\()"), _in_r),
    (re.compile(r"\bnot (\w+)(?=[;:.,]|$)"), lambda match: f"not {_TYPES.get(match[1], match[1])}"),
    (re.compile(r"\ban dp_"), "a dp_"),
    (re.compile(r"\ba pandas DataFrame\b"), "a data frame"),
    (re.compile(r"\bDataFrames?\b"), "data frame"),
    (re.compile(r"(?<!dp_)\bfit_public\b(?:\(\))?"), "dp_fit_public()"),
    (re.compile(r"(?<!dp_schema_)\bfrom_public\b"), "dp_schema_from_public()"),
    (re.compile(r"\bconf_int\(\)"), "confint()"),
    (re.compile(r"\bcov_params\(\)"), "vcov()"),
    (
        re.compile(r"^alpha must be a number in \[0\.001, 0\.999\], not (-?[\d.]+)"),
        lambda match: f"the level must be a number in [0.001, 0.999], not {1.0 - float(match[1]):.6g}",
    ),
    (re.compile(r"\bconf_level\b"), "conf.level"),
    (re.compile(r"(?<=, )row (\d+)(?=:)"), lambda match: f"row {int(match[1]) + 1}"),
    (re.compile(r"(?<![\w.])(Study|Schema)(?=\()"), _in_r),
    (re.compile(r"\bhazard \(dp_hazard in R\)"), "dp_hazard()"),
    (re.compile(r"\bsurvfit \(dp_survfit\)"), "dp_survfit()"),
    (re.compile(r"(?<!dp_)\bsurvfit(?= of )"), "dp_survfit()"),
    (re.compile(r"(?<![\w.])describe(?=\()"), "dp_describe"),
    (re.compile(rf"\ba ({_KINDS})(?= with\b)"), lambda match: f"a dp_{match[1].lower()}"),
    (re.compile(r"(?<=not )(-?\d+)\.0(?![\d.])"), r"\1"),
    (re.compile(r"\bNone\b"), "NULL"),
    (re.compile(r"\bNaN\b"), "NA"),
    (re.compile(r"\bTrue\b"), "TRUE"),
    (re.compile(r"\bFalse\b"), "FALSE"),
    (re.compile(r"(?<=[\w\"])=(?=[\w\"'.\[(-])(?!=)"), " = "),
    (re.compile(r"(?<=\w)=(?=[,) ])"), " = "),
    (re.compile(r"(?<=\w) =  "), " = "),
)


def in_words_of_r(message: str) -> str:
    """Return a message as a user of R reads it.

    Texts in quotation marks, which may be names of columns and formulas, stay as they are.

    >>> in_words_of_r("give budget=hdp.Budget(epsilon=1), not np.int64(3); complete=True says so")
    'give budget = dp_budget(epsilon = 1), not 3; complete = TRUE says so'
    >>> in_words_of_r("column 'True=None' is missing: age=Continuous(18, 100)")
    "column 'True=None' is missing: age = dp_continuous(18, 100)"
    >>> in_words_of_r("the other way round it is Binary(labels=('2', '1')); `hdpstats warm-up` does it beforehand")
    "the other way round it is dp_binary(labels = c('2', '1')); dp_warm_up() does it beforehand"
    """
    pieces = re.split(r"('[^']*'|\"[^\"]*\")", message)
    return "".join(piece if place % 2 else _plain(piece) for place, piece in enumerate(pieces))


def _plain(text: str) -> str:
    for pattern, written in _RULES:
        text = pattern.sub(written, text)
    return text


_FOR_USERS = (HdpError, RError, OSError, ImportError)


def versions() -> dict[str, str]:
    """Return the versions of what runs."""
    return {"hdpstats": hdp.__version__, "python": platform.python_version(), "pandas": pd.__version__}


def _public(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """Return the public functions that a module defines, by name."""
    functions = inspect.getmembers(module, inspect.isfunction)
    return {
        name: function
        for name, function in functions
        if function.__module__ == module.__name__ and not name.startswith("_")
    }


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **_public(studies),
    **_public(results),
    **studies.FUNCTIONS,
    **results.METHODS,
    "aggregate": handles.aggregate,
    "budget": hdp.Budget,
    "combine_effects": handles.combine_effects,
    "combined_effect_from_json": hdp.CombinedEffect.from_json,
    "curves_from_json": hdp.SurvivalCurves.from_json,
    "effect_from_json": hdp.TreatmentEffect.from_json,
    "description_from_json": hdp.Description.from_json,
    "result_from_json": hdp.Result.from_json,
    "sample_from_json": hdp.WeightedSample.from_json,
    "schema_from_yaml": hdp.Schema.from_yaml,
    "versions": versions,
    "warm_up": hdp.warm_up,
    **{
        f"load_{name}": getattr(hdp.datasets, f"load_{name}")
        for name in ("rotterdam", "gbsg", "flchain", "nwtco", "colon", "pbcseq")
    },
}
"""The functions by the names that R uses."""


@cache
def dispatcher() -> Any:
    """Return the R function of ``(name, arguments)``."""
    return ri.rternalize(answer)


def answer(name: Any, arguments: Any) -> Any:
    """Run the function of that name and return the reply: ``status`` is "value", "error" or "interrupt"."""
    printed = io.StringIO()
    # What is around Python's part is not interrupted: a signal that comes so late is seen once R has the reply.
    with (
        guard.suspending(),
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(printed),
        notes_worded(in_words_of_r),
    ):
        for kind in (RuntimeWarning, UserWarning):  # in R they are warnings, whatever Python's filters make of them
            warnings.simplefilter("always", kind)
        try:
            with guard.in_python():
                value = _run(name, arguments)
                return to_r({"status": "value", "value": value, **_said(printed, caught)})
        except KeyboardInterrupt:
            return to_r({"status": "interrupt"})
        except BaseException as error:
            return _report(error, _said(printed, caught))


def _said(printed: io.StringIO, caught: list[warnings.WarningMessage]) -> dict[str, Any]:
    """Return what a function printed and warned of, also where an error ended it."""
    messages = [in_words_of_r(warning) for warning in dict.fromkeys(str(warning.message) for warning in caught)]
    return {"warnings": messages, "printed": printed.getvalue()}


def _run(name: Any, arguments: Any) -> Any:
    handles.release_collected()
    function = FUNCTIONS.get(name[0])
    if function is None:
        raise HdpError(f"this version of hdpstats has no function {name[0]!r}: install the R package that came with it")
    with r_names():
        given = from_r(arguments) if len(arguments) else {}
    if not isinstance(given, dict):
        raise ArgumentError("arguments must all have names", argument="arguments")
    check(function, given, name=str(name[0]))
    given = in_declared_units(given, private="frame" if function is studies.rows_check else "private")
    given = single_values(given, vectors=("epsilon",) if name[0] in studies.SEVERAL_EPSILONS else ())
    return function(**converted(given))


def _report(error: BaseException, said: dict[str, Any]) -> Any:
    try:
        facts = error.facts.items() if isinstance(error, HdpError) else ()
        fields = {key: _fact(value) for key, value in facts}
        if isinstance(fields.get("row"), int):
            fields["row"] += 1  # R counts rows from 1
        filled = {key: value for key, value in fields.items() if value is not None}
        return to_r(
            {"status": "error", "classes": _classes(error), "message": _message(error), "fields": filled, **said}
        )
    except BaseException as second:
        return to_r(
            {"status": "error", "classes": ["dp_internal_error"], "message": type(second).__name__, "fields": {}}
        )


def _classes(error: BaseException) -> list[str]:
    """Return the S3 classes of an error, most special first, without "error" and "condition"."""
    if isinstance(error, HdpError):
        return [condition_class(kind) for kind in type(error).__mro__ if issubclass(kind, HdpError)]
    if isinstance(error, RError):
        return [kind for kind in error.classes if kind not in ("error", "condition")]
    return ["dp_error"] if isinstance(error, _FOR_USERS) else ["dp_internal_error", "dp_error"]


def _message(error: BaseException) -> str:
    if isinstance(error, HdpError):
        return in_words_of_r(str(error))
    if isinstance(error, _FOR_USERS):
        return str(error)
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"an internal error of type {type(error).__name__}{place}; please report it"


def _fact(value: Any) -> Any:
    """Return a fact of an error as R can hold it: a number, a text, or an amount as c(epsilon=, delta=); else None."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list) and all(isinstance(text, str) for text in value):
        return list(value)
    return handles.amount(value) if hasattr(value, "epsilon") and hasattr(value, "delta") else None
