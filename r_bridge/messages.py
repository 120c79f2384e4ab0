"""Messages of `hdpstats` in the words of R: ``dp_schema()`` for ``hdp.Schema(…)``, ``TRUE`` for ``True``."""

import re
from collections.abc import Callable
from typing import Final

_FUNCTIONS: Final = {
    "Ledger": "dp_ledger_open",
    "LocalSite": "dp_study",
    "losses.Squares": '"squares"',
    "losses.Huber": '"huber"',
    "Result": "dp_result",
    "WeightedSample": "dp_weighted_sample",
    "Description": "dp_description",
    "DescriptionRequest": "dp_description_request",
    "datasets": "the data sets of hdpstats",
}
"""What R calls a public name of Python, where that is not the name itself after ``dp_``."""

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


def _public(found: "re.Match[str]") -> str:
    name = found[1].removesuffix("." if found[1].endswith(".") else "")
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
    (re.compile(r"(\w)\[T\.([^\]]+)\]"), r"\1\2"),
    (re.compile(r"(?<![(\w])Intercept\b"), "(Intercept)"),
    (
        re.compile(r"\bas ((?:Continuous|Binary|Categorical|Duration|Weight|Offset))\b(?!\()"),
        lambda found: f"as dp_{found[1].lower()}()",
    ),
    (re.compile(r"\bplan\((?=n=)"), "dp_plan("),
    (re.compile(r"^constraints: "), "hypothesis: "),
    (re.compile(r"^term_name "), "term "),
    (re.compile(r"\bnp\.\w+\(([^()]*)\)"), r"\1"),
    (re.compile(r"\ban object of hdp\.mechanisms\b(?!\.)"), "a list with its name and options"),
    (re.compile(r"\bhdp\.(mechanisms\.\w+)(?:\([^()]*\))?"), _public),
    (re.compile(r"\bhdp\.(losses\.\w+)(?:\([^()]*\))?"), _public),
    (re.compile(r"\bhdpf?\.(\w+)"), _public),
    (re.compile(rf"\b(?<!dp_)({_KINDS})(?=\()"), _public),
    (re.compile(r"\bnot (\w+)(?=[;:.,]|$)"), lambda found: f"not {_TYPES.get(found[1], found[1])}"),
    (re.compile(r"\ban dp_"), "a dp_"),
    (re.compile(r"\ba pandas DataFrame\b"), "a data frame"),
    (re.compile(r"\bDataFrames?\b"), "data frame"),
    (re.compile(r"(?<!dp_)\bfit_public\b(?:\(\))?"), "dp_fit_public()"),
    (re.compile(r"(?<!dp_schema_)\bfrom_public\b"), "dp_schema_from_public()"),
    (re.compile(r"\bconf_int\(\)"), "confint()"),
    (re.compile(r"\bcov_params\(\)"), "vcov()"),
    (re.compile(r"\bNone\b"), "NULL"),
    (re.compile(r"\bNaN\b"), "NA"),
    (re.compile(r"\bTrue\b"), "TRUE"),
    (re.compile(r"\bFalse\b"), "FALSE"),
    (re.compile(r"(?<=[\w\"])=(?=[\w\"'.\[(-])(?!=)"), " = "),
)


def in_r(message: str) -> str:
    """Return a message as a user of R reads it.

    Texts in quotation marks, which may be names of columns and formulas, stay as they are.

    >>> in_r("give budget=hdp.Budget(epsilon=1), not np.int64(3); complete=True says so")
    'give budget = dp_budget(epsilon = 1), not 3; complete = TRUE says so'
    >>> in_r("column 'True=None' is missing: age=Continuous(18, 100)")
    "column 'True=None' is missing: age = dp_continuous(18, 100)"
    """
    pieces = re.split(r"('[^']*'|\"[^\"]*\")", message)
    return "".join(each if place % 2 else _plain(each) for place, each in enumerate(pieces))


def _plain(text: str) -> str:
    for pattern, written in _RULES:
        text = pattern.sub(written, text)
    return text
