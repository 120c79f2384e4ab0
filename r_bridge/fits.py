"""Fits, plans and weighted samples for R: arguments are given to the model or to its method, whichever takes them."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from r_bridge.arguments import (
    argument_names,
    by_name,
    check,
    checked_call,
    choice,
    column_names,
    elements,
    instance,
    per_site,
    whole,
)
from r_bridge.handles import in_python, in_r, plan_in_r

MODELS: Final[dict[str, Callable[..., Any]]] = {name: getattr(hdpf, name) for name in hdpf.__all__ if name != "survfit"}


def _run(name: str, verb: str, /, **given: Any) -> Any:
    """Make the model ``name`` and call its method ``verb``: each takes the arguments that are its own."""
    constructor, study, epsilon = MODELS[name], given.get("data"), given.get("epsilon")
    if verb == "fit" and isinstance(study, hdp.Study):
        requirement = "be a number, or a number for each of the study's sites:"
        given["epsilon"] = per_site(epsilon, study.sites, name="epsilon", requirement=requirement)
    elif isinstance(epsilon, pd.Series):
        given["epsilon"] = elements(epsilon)
    own = {key: given.pop(key) for key in argument_names(constructor) if key in given}
    model = checked_call(constructor, own, name=name)
    check(getattr(model, verb), given, name=name, also=argument_names(constructor))
    schema = study.schema if isinstance(study, hdp.Study) and name != "distribution" else None
    if "std_error" in given:
        wanted = by_name(given["std_error"])
        given["std_error"] = wanted if schema is None else in_python(wanted, own["formula"], schema)
    try:
        found = getattr(model, verb)(**given)
    except hdp.ArgumentError as error:
        raise error if schema is None else in_r(error, own["formula"], schema) from None
    if isinstance(found, hdp.Plan) and schema is not None:
        return plan_in_r(found, own["formula"], schema)
    return found


def hybrid_weights(study: hdp.Study, columns: Any, **given: Any) -> Any:
    """Return a weighted sample with weights from counts at public points."""
    names = column_names(columns, len(study.schema) if isinstance(study, hdp.Study) else 0)
    return checked_call(hdp.hybrid_weights, {"study": study, "columns": names, **given}, name="hybrid_weights")


def describe(study: hdp.Study, columns: Any, times: Any = None, **given: Any) -> Any:
    """Return a description, or without an epsilon the request for one."""
    names = column_names(columns, 1 + len(study.schema) if isinstance(study, hdp.Study) else 0)
    given |= {"study": study, "columns": names, "times": _ends(times)}
    return checked_call(hdp.describe, given, name="describe")


def _ends(times: Any) -> Any:
    """Return ends of intervals; one number is how many."""
    ends = elements(times) if isinstance(times, pd.Series | list) else times
    return whole(ends[0]) if isinstance(ends, list) and len(ends) == 1 else whole(ends)


def _survfit(
    verb: str,
    /,
    formula: str,
    data: hdp.Study,
    times: Any = None,
    weights: Any = None,
    recorded: str = "within",
    **given: Any,
) -> Any:
    """Ask for survival curves, plan them, or return those of public rows."""
    own = {"formula": formula, "data": data, "times": _ends(times), "weights": weights, "recorded": recorded}
    request = checked_call(hdpf.survfit, own, name="survfit")
    if verb == "plan":
        given["epsilon"] = elements(given.get("epsilon"))
    return checked_call(getattr(request, verb), given, name="survfit")


def describe_plan(request: hdp.DescriptionRequest, epsilon: Any, n: int | None = None) -> Any:
    """Return what a description would find at each epsilon."""
    return instance(request, hdp.DescriptionRequest, argument="request").plan(elements(epsilon), n=n)


def sample_fit(sample: hdp.WeightedSample, formula: str, model: str, **given: Any) -> Any:
    """Fit the model of that name to the rows of a weighted sample."""
    choice(model, "model", tuple(MODELS))
    check(MODELS[model], {"formula": formula, "data": None, **given}, name=model)
    return instance(sample, hdp.WeightedSample).fit(MODELS[model], formula, **given)


SEVERAL_EPSILONS: Final = frozenset({*MODELS, *(f"{name}_plan" for name in (*MODELS, "describe", "survfit"))})
"""The functions that take several epsilons: one for each site, or those to plan for."""

FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **{name: partial(_run, name, "fit") for name in MODELS},
    **{f"{name}_plan": partial(_run, name, "plan") for name in MODELS},
    **{f"{name}_public": partial(_run, name, "fit_public") for name in MODELS},
    "survfit": partial(_survfit, "fit"),
    "survfit_plan": partial(_survfit, "plan"),
    "survfit_public": partial(_survfit, "fit_public"),
    "describe": describe,
    "describe_plan": describe_plan,
    "hybrid_weights": hybrid_weights,
    "importance_weights": hdp.importance_weights,
    "sample_fit": sample_fit,
}
"""The functions by the names that R uses."""
