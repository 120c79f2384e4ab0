"""Fits, plans and weighted samples for R: arguments in the types that Python's models expect.

R has no whole numbers by default and no vector of one element that is not a vector: numbers that count are made whole
here, and single values lists where a list is meant.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from r_bridge.arguments import (
    argument_names,
    check,
    checked_call,
    choice,
    column_names,
    elements,
    instance,
    per_site,
    whole,
    whole_counts,
)

MODELS: Final[dict[str, Callable[..., Any]]] = {
    name: getattr(hdpf, name)
    for name in ("logit", "hazard", "linear", "quantile", "mestimate", "poisson", "multinomial", "distribution")
}
_LOSSES: Final[dict[str, Callable[..., Any]]] = {
    name.lower(): getattr(hdp.losses, name)
    for name in ("Squares", "Huber", "Quantile", "Absolute", "Logistic", "Poisson", "Exponential", "Multinomial")
}


def options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments in the types that Python's functions expect."""
    found = whole_counts(given)
    converted: dict[str, Callable[[Any], Any]] = {
        "knots": elements,
        "times": elements,
        "intervals": lambda cuts: elements(cuts) if isinstance(cuts, pd.Series | list) else whole(cuts),
        "epsilon": lambda several: elements(several) if isinstance(several, pd.Series) else several,
        "loss": _loss,
        "mechanism": lambda named: _mechanism(named) if isinstance(named, dict) else named,
        "ranges": _ranges,
    }
    return found | {name: converted[name](found[name]) for name in converted.keys() & found.keys()}


def _ranges(given: Any) -> dict[str, tuple[float, float]]:
    """Return the ranges of ``list(rate = c(0.1, 10))``; what is none is refused and not quoted."""
    pairs = {name: elements(pair) for name, pair in given.items()} if isinstance(given, dict) else {}
    numbers = [isinstance(each, int | float) for pair in pairs.values() for each in pair]
    if not pairs or not all(numbers) or {len(pair) for pair in pairs.values()} != {2}:
        raise hdp.ArgumentError("ranges must name pairs of numbers: list(rate = c(0.1, 10))", argument="ranges")
    return {name: (low, high) for name, (low, high) in pairs.items()}


def _loss(given: Any) -> Any:
    """Return the loss of "huber", or of ``list(name = "huber", c = 4)``."""
    own = dict(given) if isinstance(given, dict) else {"name": given}
    name = own.pop("name", None)
    if not isinstance(name, str) or name not in _LOSSES:
        raise hdp.ArgumentError(f"loss must be one of {', '.join(_LOSSES)}, or a list with that name", argument="loss")
    return checked_call(_LOSSES[name], own, name=f"loss {name!r}")


def _mechanism(given: dict[str, Any]) -> Any:
    """Return the mechanism of ``list(name = "clipped_newton", rounds = 2)``."""
    own = dict(given)
    name = own.pop("name", None)
    if name not in hdp.mechanisms.BY_NAME:
        names = ", ".join(hdp.mechanisms.BY_NAME)
        raise hdp.MechanismError(f"mechanism must be a list with name = one of {names}, not {name!r}")
    return checked_call(hdp.mechanisms.BY_NAME[name], options(own), name=f"mechanism {name!r}")


def _run(name: str, method: str, /, **given: Any) -> Any:
    """Make the model ``name`` and call its ``method``: each takes the arguments that are its own."""
    constructor, study = MODELS[name], given.get("data")
    if method == "fit" and isinstance(study, hdp.Study):
        requirement = "be a number, or a number for each of the study's sites:"
        given["epsilon"] = per_site(given.get("epsilon"), study.sites, name="epsilon", requirement=requirement)
    asked = options(given)
    own = {key: asked.pop(key) for key in argument_names(constructor) if key in asked}
    check(constructor, own, name=name)
    model = constructor(**own)
    check(getattr(model, method), asked, name=name, also=argument_names(constructor))
    return getattr(model, method)(**asked)


def hybrid_weights(study: hdp.Study, columns: Any, **given: Any) -> Any:
    """Return a weighted sample with weights from counts at public points."""
    names = column_names(columns, len(study.schema) if isinstance(study, hdp.Study) else 0)
    asked = {"study": study, "columns": names, **whole_counts(given)}
    return checked_call(hdp.hybrid_weights, asked, name="hybrid_weights")


def importance_weights(study: hdp.Study, formula: str, **given: Any) -> Any:
    """Return a weighted sample with weights from a density ratio."""
    asked = {"study": study, "formula": formula, **whole_counts(given)}
    return checked_call(hdp.importance_weights, asked, name="importance_weights")


def sample_fit(sample: hdp.WeightedSample, formula: str, model: str, **given: Any) -> Any:
    """Fit the model of that name to the rows of a weighted sample."""
    choice(model, "model", tuple(MODELS))
    own = options(given)
    check(MODELS[model], {"formula": formula, "data": None, **own}, name=model)
    return instance(sample, hdp.WeightedSample).fit(MODELS[model], formula, **own)


def person_period(**arguments: Any) -> pd.DataFrame:
    """Return the rows of people and intervals of public records."""
    return pd.DataFrame(checked_call(hdp.person_period, options(arguments), name="person_period"))


SEVERAL_EPSILONS: Final = frozenset({*MODELS, *(f"{name}_plan" for name in MODELS)})
"""The functions that take several epsilons: one for each site, or those to plan for."""

FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **{name: partial(_run, name, "fit") for name in MODELS},
    **{f"{name}_plan": partial(_run, name, "plan") for name in MODELS},
    **{f"{name}_public": partial(_run, name, "fit_public") for name in MODELS},
    "hybrid_weights": hybrid_weights,
    "importance_weights": importance_weights,
    "sample_fit": sample_fit,
    "person_period": person_period,
}
"""The functions by the names that R uses."""
