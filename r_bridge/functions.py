"""What R may call, by name: thin functions with keyword arguments over the public names of `hdpstats`.

R has no whole numbers by default and no vector of one element that is not a vector: numbers that count are made whole
here, and single values lists where a list is meant.
"""

import json
import platform
from collections.abc import Callable, Mapping
from typing import Any, Final

import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from r_bridge.arguments import accepted, check, checked_call, many, of_sites, whole
from r_bridge.handles import Matrix
from r_bridge.many import MANY
from r_bridge.remote import REMOTE
from r_bridge.samples import SAMPLES, checked

_COUNTS = frozenset(
    {"replicate", "n", "df", "n_max", "max_rows_per_unit", "version", "rounds", "bins", "blocks", "quorum"}
)
_LISTS = frozenset({"knots", "times"})
_KINDS = {
    "continuous": hdp.Continuous,
    "binary": hdp.Binary,
    "categorical": hdp.Categorical,
    "duration": hdp.Duration,
    "weight": hdp.Weight,
    "offset": hdp.Offset,
}
_MODELS: dict[str, Callable[..., Any]] = {
    "logit": hdpf.logit,
    "hazard": hdpf.hazard,
    "linear": hdpf.linear,
    "quantile": hdpf.quantile,
    "mestimate": hdpf.mestimate,
    "distribution": hdpf.distribution,
}
_LOSSES: dict[str, Callable[..., Any]] = {
    "squares": hdp.losses.Squares,
    "huber": hdp.losses.Huber,
    "quantile": hdp.losses.Quantile,
    "absolute": hdp.losses.Absolute,
    "logistic": hdp.losses.Logistic,
    "poisson": hdp.losses.Poisson,
    "exponential": hdp.losses.Exponential,
    "multinomial": hdp.losses.Multinomial,
}
EPSILONS = frozenset({*_MODELS, *(f"{name}_plan" for name in _MODELS)})
"""The functions that take several epsilons: one for each site, or those to plan for."""


def amount(value: Any) -> "pd.Series[float]":
    """Return an amount of privacy as R's ``c(epsilon = , delta = )``."""
    return pd.Series({"epsilon": float(value.epsilon), "delta": float(value.delta)})


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments in the types that Python's functions expect."""
    options = {key: whole(value) if key in _COUNTS else value for key, value in given.items()}
    options |= {key: many(options[key]) for key in _LISTS & options.keys()}
    if "intervals" in options:
        cuts = options["intervals"]
        options["intervals"] = many(cuts) if isinstance(cuts, pd.Series | list) else whole(cuts)
    if isinstance(options.get("epsilon"), pd.Series):
        options["epsilon"] = many(options["epsilon"])
    if options.get("loss") is not None:
        options["loss"] = _loss(options["loss"])
    if isinstance(options.get("mechanism"), dict):
        options["mechanism"] = _mechanism(options["mechanism"])
    if options.get("ranges") is not None:
        options["ranges"] = _ranges(options["ranges"])
    return options


def _ranges(given: Any) -> dict[str, tuple[float, float]]:
    """Return the ranges of ``list(rate = c(0.1, 10))``; what is none is refused and not quoted."""
    pairs = {name: many(pair) for name, pair in given.items()} if isinstance(given, dict) else {}
    numbers = [isinstance(each, int | float) for pair in pairs.values() for each in pair]
    if not pairs or not all(numbers) or {len(pair) for pair in pairs.values()} != {2}:
        raise hdp.ArgumentError("ranges must name pairs of numbers: list(rate = c(0.1, 10))", argument="ranges")
    return {name: (low, high) for name, (low, high) in pairs.items()}


def _loss(given: Any) -> Any:
    """Return the loss of "huber", or of ``list(name = "huber", c = 4)``."""
    options = dict(given) if isinstance(given, dict) else {"name": given}
    name = options.pop("name", None)
    if not isinstance(name, str) or name not in _LOSSES:
        raise hdp.ArgumentError(f"loss must be one of {', '.join(_LOSSES)}, or a list with that name", argument="loss")
    return checked_call(_LOSSES[name], options, name=f"loss {name!r}")


def _mechanism(given: dict[str, Any]) -> Any:
    """Return the mechanism of ``list(name = "clipped_newton", rounds = 2)``."""
    options = dict(given)
    name = options.pop("name", None)
    if name not in hdp.mechanisms.BY_NAME:
        names = ", ".join(hdp.mechanisms.BY_NAME)
        raise hdp.MechanismError(f"mechanism must be a list with name = one of {names}, not {name!r}")
    return checked_call(hdp.mechanisms.BY_NAME[name], _options(options), name=f"mechanism {name!r}")


def column(kind: str, **declared: Any) -> dict[str, Any]:
    """Check the declaration of a column and return it in full."""
    return dict(_made(kind, declared).to_dict())


def _made(kind: Any, declared: Mapping[str, Any]) -> Any:
    if kind not in _KINDS:
        raise hdp.SchemaError(f"kind must be one of {', '.join(_KINDS)}, not {kind!r}")
    options = dict(declared)
    for name in {"levels", "other"} & options.keys():  # R's 3 is the level "3"
        levels = [str(whole(level)) for level in many(options[name])]
        options[name] = levels if name == "levels" else levels[0]
    return checked_call(_KINDS[kind], options, name=f"a {kind} column")


def _columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(columns, Mapping):
        raise hdp.SchemaError("columns must be declared by name, for example age = dp_continuous(18, 100)")
    return {name: _declared(name, entry) for name, entry in columns.items()}


def _declared(name: str, entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        raise hdp.SchemaError(f"column {name!r} must be declared, for example by dp_continuous(18, 100)", column=name)
    return _made(entry.get("kind"), {key: value for key, value in entry.items() if value is not None and key != "kind"})


def schema(columns: Mapping[str, Any]) -> hdp.Schema:
    """Return the schema of declared columns."""
    return hdp.Schema(_columns(columns))


def schema_from_public(frame: pd.DataFrame, columns: Mapping[str, Any] | None = None) -> hdp.Schema:
    """Return a schema from public rows, but for the columns that are declared."""
    return hdp.Schema.from_public(frame, **_columns(columns or {}))


def schema_to_yaml(schema: hdp.Schema, path: str) -> None:
    """Write a data dictionary."""
    schema.to_yaml(path)


def ledger(path: str | None = None, **terms: Any) -> Any:
    """Open or create a ledger; without a path one in memory."""
    return checked_call(hdp.Ledger, {"path_or_url": path} | _options(terms), name="ledger")


def ledger_open(path: str, **terms: Any) -> Any:
    """Open a ledger that exists, on its own terms."""
    return checked_call(hdp.Ledger.open_existing, {"path_or_url": path} | _options(terms), name="ledger")


def _account(ledger: object) -> hdp.Ledger:
    found = ledger.ledger if isinstance(ledger, hdp.Study) else ledger
    if not isinstance(found, hdp.Ledger):
        raise hdp.ArgumentError("ledger must be a dp_ledger or a dp_study", argument="ledger")
    return found


def ledger_show(ledger: hdp.Ledger | hdp.Study | hdp.RemoteSite) -> dict[str, Any]:
    """Return what an account says, totals and history; of several sites what each of theirs says.

    Of a site in another process it is the asker's own part.
    """
    if isinstance(ledger, hdp.Study) and len(ledger.sites) > 1:
        return {"sites": {name: ledger_show(ledger.at(name)) for name in ledger.sites}}
    site = ledger.site if isinstance(ledger, hdp.Study) else ledger
    return _received(site) if isinstance(site, hdp.RemoteSite) else _said(_account(ledger))


def _received(site: hdp.RemoteSite) -> dict[str, Any]:
    own = site.account()
    return {
        "text": str(own),
        "dataset": site.facts.dataset,
        "version": site.facts.version,
        "spent": amount(own.spent),
        "remaining": None if own.remaining is None else amount(own.remaining),
        "history": own.history,
    }


def _said(account: hdp.Ledger) -> dict[str, Any]:
    return {
        "text": str(account),
        "dataset": account.dataset,
        "version": account.version,
        "total": amount(account.budget),
        "spent": amount(account.spent),
        "remaining": amount(account.remaining),
        "history": account.history(),
    }


def ledger_history(ledger: hdp.Ledger | hdp.Study) -> pd.DataFrame:
    """Return one row per charge."""
    return _account(ledger).history()


def ledger_verify(ledger: hdp.Ledger | hdp.Study, head: str | None = None) -> str:
    """Recompute every hash and sum, and return the verdict."""
    return str(_account(ledger).verify(head))


def ledger_export(ledger: hdp.Ledger | hdp.Study, path: str) -> None:
    """Write an account to a file."""
    _account(ledger).export(path)


def study(**parts: Any) -> Any:
    """Return a study."""
    options = _options(parts)
    for name in [each for each in ("n_max", "row_order") if options.get(each) is not None]:
        found = of_sites(options[name], _frames(options.get("private")), name=name, words="have a value for each of")
        several = isinstance(found, dict)
        options[name] = {site: whole(each) for site, each in found.items()} if several else whole(found)
    return checked_call(hdp.Study, options, name="study")


def _frames(private: Any) -> list[str]:
    """Return the names of the sites whose rows were given; the only one, which has no name, is called as in Python."""
    if isinstance(private, dict):
        return [name for name, each in private.items() if not isinstance(each, hdp.Site)]
    return ["private"]


_ONE_EACH: Final = "be a number, or a number for each of the study's sites:"


def _ask(name: str, method: str, given: Mapping[str, Any]) -> Any:
    """Make the model ``name`` and call its ``method``: each takes the arguments that are its own."""
    constructor, study = _MODELS[name], given.get("data")
    if method == "fit" and isinstance(study, hdp.Study):
        given = {**given, "epsilon": of_sites(given.get("epsilon"), study.sites, name="epsilon", words=_ONE_EACH)}
    asked = _options(given)
    own = {key: asked.pop(key) for key in accepted(constructor) if key in asked}
    check(constructor, own, name=name)
    model = constructor(**own)
    check(getattr(model, method), asked, name=name, also=accepted(constructor))
    return getattr(model, method)(**asked)


def _asking(name: str, method: str) -> Callable[..., Any]:
    def ask(**given: Any) -> Any:
        return _ask(name, method, given)

    return ask


def confint(result: hdp.Result | hdp.Aggregate, level: float = 0.95) -> Matrix:
    """Return confidence limits, a row per coefficient."""
    outside = (1.0 - level) / 2.0
    names = [f"{100.0 * share:.3g} %" for share in (outside, 1.0 - outside)]
    return Matrix(table=result.conf_int(alpha=1.0 - level).set_axis(names, axis=1))


def summary_text(result: hdp.Result, alpha: float = 0.05) -> str:
    """Return the summary as text."""
    return str(result.summary(alpha).as_text())


def _method(name: str) -> Callable[..., Any]:
    """Return a method of results as a function of ``result``; R's ``newdata`` is Python's ``frame``."""

    def run(result: hdp.Result, **options: Any) -> Any:
        asked = _options(options)
        if "newdata" in asked:
            asked["frame"] = _counted_from_one(asked.pop("newdata"))
        return checked_call(getattr(_result(result), name), asked, name=name)

    return run


def _result(result: object) -> hdp.Result:
    if not isinstance(result, hdp.Result):
        raise hdp.ArgumentError(f"x must be a dp_result, not {type(result).__name__}", argument="x")
    return result


def _counted_from_one(frame: object) -> object:
    """Return a frame whose rows, where they have no names of their own, are numbered as R numbers them."""
    if isinstance(frame, pd.DataFrame) and isinstance(frame.index, pd.RangeIndex):
        return frame.set_axis(pd.RangeIndex(1, len(frame) + 1), axis=0)
    return frame


def result_to_json(result: hdp.Result, path: str | None = None) -> str:
    """Return a result as JSON text, and write it to a file where a path is given."""
    return _result(result).to_json(path)


def estimates(result: hdp.Result, conf_level: float = 0.95) -> pd.DataFrame:
    """Return the public, private and pooled estimates below each other, or the only one there is.

    Columns label, term, baseline (whether the term is of a hazard's baseline), estimate, std_error, conf_low and
    conf_high.
    """
    result = _result(result)
    parts = [each for each in (result.public_only, result.private_only, result.pooled) if each is not None]
    hazard = result.facts.hazard
    own = 1 if hazard is None else len(result.params) // len(hazard.causes)
    width = 0 if hazard is None else len(hazard.baseline_names)
    tables = []
    for part in parts or [result.estimate]:
        limits = part.conf_int(1.0 - conf_level)
        table = {
            "label": part.label,
            "term": list(part.terms),
            "baseline": [place % own < width for place in range(len(part.terms))],
            "estimate": part.params.to_numpy(),
            "std_error": part.bse.to_numpy(),
            "conf_low": limits[0].to_numpy(),
            "conf_high": limits[1].to_numpy(),
        }
        tables.append(pd.DataFrame(table))
    return pd.concat(tables, ignore_index=True)


def compare(
    result: hdp.Result,
    reference: hdp.Result | None = None,
    frame: pd.DataFrame | None = None,
    model: str | None = None,
    formula: str | None = None,
    cause: str | None = None,
    label: str | None = None,
) -> dict[str, Any]:
    """Return a comparison with a result, or with a table of terms that comes from a ``model`` by a ``formula``."""
    other = pd.DataFrame() if frame is None else frame
    other.attrs |= {"model": model, "formula": formula}
    found = _result(result).compare(other if reference is None else reference, cause=cause, label=label)
    hazard = result.facts.hazard
    names = () if hazard is None else hazard.baseline_names
    baseline = [str(term).endswith(names) for term in found.frame["term"]] if names else False
    return {
        "table": found.frame.assign(baseline=baseline),
        "relative_error": found.relative_error,
        "result_only": list(found.result_only),
        "reference_only": list(found.reference_only),
        "note": found.note,
        "label": found.label,
        "text": str(found),
    }


def refused(result: hdp.Result, name: str) -> None:
    """Raise what Python raises for what a result does not have, as an error of `hdpstats`."""
    try:
        getattr(result, name)
    except AttributeError as error:
        raise hdp.ArgumentError(str(error), argument=name) from None


def disclosure(result: hdp.Result | hdp.WeightedSample) -> str:
    """Return the privacy record for an output checker, as JSON text."""
    shown = result if isinstance(result, hdp.WeightedSample) else _result(result)
    return json.dumps(shown.disclosure())


def sample_fit(sample: hdp.WeightedSample, formula: str, model: str, **options: Any) -> Any:
    """Fit the model of that name to the rows of a weighted sample."""
    if model not in _MODELS:
        raise hdp.ArgumentError(f"model must be one of {', '.join(_MODELS)}, not {model!r}", argument="model")
    constructor, own = _MODELS[model], _options(options)
    check(constructor, {"formula": formula, "data": None, **own}, name=model)
    return checked(sample).fit(constructor, formula, **own)


def person_period(**arguments: Any) -> pd.DataFrame:
    """Return the rows of people and intervals of public records."""
    return pd.DataFrame(checked_call(hdp.person_period, _options(arguments), name="person_period"))


def versions() -> dict[str, str]:
    """Return the versions of what runs."""
    return {"hdpstats": hdp.__version__, "python": platform.python_version(), "pandas": pd.__version__}


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "column": column,
    "schema": schema,
    "schema_from_public": schema_from_public,
    "schema_from_yaml": hdp.Schema.from_yaml,
    "schema_to_yaml": schema_to_yaml,
    "budget": hdp.Budget,
    "ledger": ledger,
    "ledger_open": ledger_open,
    "ledger_show": ledger_show,
    "ledger_history": ledger_history,
    "ledger_verify": ledger_verify,
    "ledger_export": ledger_export,
    "study": study,
    **{name: _asking(name, "fit") for name in _MODELS},
    **{f"{name}_public": _asking(name, "fit_public") for name in _MODELS},
    **{f"{name}_plan": _asking(name, "plan") for name in _MODELS},
    "result_from_json": hdp.Result.from_json,
    "result_to_json": result_to_json,
    "disclosure": disclosure,
    "estimates": estimates,
    "compare": compare,
    "refused": refused,
    "summary_text": summary_text,
    "confint": confint,
    **{
        name: _method(name)
        for name in (
            "tidy",
            "glance",
            "odds_ratios",
            "hazard_ratios",
            "predict",
            "predict_survival",
            "predict_hazard",
            "predict_incidence",
            "predict_median",
            "baseline_hazard",
        )
    },
    "load_rotterdam": hdp.datasets.load_rotterdam,
    "load_gbsg": hdp.datasets.load_gbsg,
    "load_flchain": hdp.datasets.load_flchain,
    "load_nwtco": hdp.datasets.load_nwtco,
    "person_period": person_period,
    **MANY,
    **REMOTE,
    **SAMPLES,
    "sample_fit": sample_fit,
    "versions": versions,
}
"""The functions by the names that R uses."""
