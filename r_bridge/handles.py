"""`hdpstats` objects in R: S3 objects with plain contents, or with a handle where the object cannot leave Python.

Results from R have R's names of coefficients while a call lasts; their JSON text keeps Python's.
"""

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import pandas as pd

import hdpstats.api as hdp
from hdpstats.results import model_matrix
from hdpstats.results.labels import group_names
from r_bridge.arguments import elements
from r_bridge.session import r_function
from r_bridge.vectors import from_r_strings, to_r_strings

_objects: dict[str, object] = {}

_Contents = dict[str, object]


@final
@dataclass(frozen=True, kw_only=True)
class Matrix:
    """A table that is a matrix in R, with an S3 class where it has methods of its own."""

    table: pd.DataFrame
    kind: str | None = None


def keep(value: object) -> str:
    """Keep an object for R and return its name, which no other session knows."""
    name = uuid.uuid4().hex
    _objects[name] = value
    return name


def kept(name: object) -> Any:
    """Return the object of that name.

    Raises
    ------
    ArgumentError
        If there is none: R's object came from another session, through ``saveRDS`` or ``.RData``.
    """
    if name not in _objects:
        raise hdp.ArgumentError("this object belongs to a session that has ended: make it again", argument="data")
    return _objects[str(name)]


def release_collected() -> None:
    """Release the objects whose handles R has collected."""
    for name in from_r_strings(r_function("collected_handles")()):
        _objects.pop(str(name), None)


def is_object(kinds: list[str]) -> bool:
    """Whether an R object of these classes is the R form of a Python object."""
    return any(kind in _FROM_R for kind in kinds)


def object_from_r(kinds: list[str], field: Callable[[str], Any]) -> Any:
    """Return the Python object of an R form; ``field`` returns its elements."""
    return next(_FROM_R[kind] for kind in kinds if kind in _FROM_R)(field)


def form(value: object) -> tuple[list[str], _Contents]:
    """Return the S3 class and the contents of a Python object's R form."""
    return FORMS[type(value)](value)


def amount(value: Any) -> "pd.Series[float] | None":
    """Return an amount of privacy as R's ``c(epsilon = , delta = )``."""
    return None if value is None else pd.Series({"epsilon": float(value.epsilon), "delta": float(value.delta)})


def aggregate(results: Any, between: Any = None, **options: Any) -> hdp.Aggregate:
    """Return results in groups of groups; ``between`` may have NA for members that have the same parameters."""
    options["between"] = elements(between) if isinstance(between, pd.Series | list | tuple) else between
    if not isinstance(results, dict | list | hdp.Result):
        raise hdp.ArgumentError("results must be a list of results, or of groups of them", argument="results")
    return hdp.aggregate(results, **options)


def combine_effects(effects: Any, between: str | None = None) -> hdp.CombinedEffect:
    """Return effects of separate sites in one."""
    if not isinstance(effects, dict | list):
        raise hdp.ArgumentError("effects must be a list of effects", argument="effects")
    return hdp.combine_effects(effects, between=between)


def _handle(kind: str, text: Callable[[Any], str]) -> Callable[[Any], tuple[list[str], _Contents]]:
    def make(value: object) -> tuple[list[str], _Contents]:
        name = keep(value)
        return [kind], {"id": name, "text": text(value), "ref": r_function("new_handle")(to_r_strings([name]))}

    return make


def _site(site: hdp.RemoteSite) -> tuple[list[str], _Contents]:
    kinds, handle = _handle("dp_site", repr)(site)
    facts = {"schema": site.schema, "records": site.records, "analyst": site.analyst, "permissions": site.permissions}
    return kinds, handle | facts


def _schema(schema: hdp.Schema) -> tuple[list[str], _Contents]:
    return ["dp_schema"], {"json": json.dumps(schema.to_dict()), "text": repr(schema), "columns": list(schema)}


def _budget(budget: hdp.Budget) -> tuple[list[str], _Contents]:
    return ["dp_budget"], {"epsilon": float(budget.epsilon), "delta": float(budget.delta), "text": str(budget)}


def _plan(plan: hdp.Plan) -> tuple[list[str], _Contents]:
    return ["dp_plan"], {
        **{name: getattr(plan, name) for name in ("frame", "records", "declared", "assumption")},
        "table": Matrix(table=plan.table),
        "text": str(plan).replace("plan(n=...)", "dp_plan(n = ...)"),
        "html": plan._repr_html_().replace("plan(n=...)", "dp_plan(n = ...)"),
        "verdicts": pd.Series({f"{epsilon:g}": words for epsilon, words in plan.verdicts.items()}),
        "labels": pd.Series(dict(plan.labels), dtype=str) if plan.labels else None,
    }


def guarantee_in_r(guarantee: Any) -> _Contents:
    """Return what R has of a guarantee: amounts, and words; NA and NULL where no private record was used."""
    if guarantee is None:
        return {"epsilon": np.nan, "delta": np.nan, "guarantee": None, "statement": None}
    amounts = {"epsilon": float(guarantee.epsilon), "delta": float(guarantee.delta)}
    return {**amounts, "guarantee": str(guarantee), "statement": guarantee.statement()}


def _estimates(result: hdp.Result | hdp.Aggregate, order: list[int] | None = None) -> _Contents:
    places = list(range(len(result.params))) if order is None else order
    names = result.params.index[places]
    return {
        "coefficients": result.params[names],
        "vcov": Matrix(table=result.cov_params().loc[names, names], kind="dp_vcov"),
        "bse": result.bse[names],
        "kind": result.facts.model,
    }


def fingerprint(public: Any) -> str | None:
    """Return the SHA-256 of the schema and the values of public rows, 64 hex digits; None where there are none."""
    return None if public is None else hashlib.sha256(f"{public.schema.sha256} {public.sha256}".encode()).hexdigest()


def _result(result: hdp.Result) -> tuple[list[str], _Contents]:
    facts, entry = result.facts, result.ledger_entry
    kind = "dp_hazard" if facts.hazard is not None else f"dp_{facts.model.lower()}"
    return [kind, "dp_result"], {
        "json": result.to_json(),
        **_estimates(model_matrix.renamed(result), model_matrix.order(result)),
        **{name: getattr(facts, name) for name in ("public_rows", "response", "method")},
        "formula": model_matrix.named_formula(result),
        "nobs": facts.records if facts.records is not None else facts.public_rows,
        **guarantee_in_r(result.guarantee),
        "ledger_entry": None if entry is None else entry.to_dict(),
        "sites": result.sites,
        "xlevels": {name: list(levels) for name, levels in model_matrix.factor_levels(result).items()},
        "public_fingerprint": fingerprint(result.public_rows.table),
    }


def _aggregate(aggregate: hdp.Aggregate) -> tuple[list[str], _Contents]:
    return ["dp_aggregate"], {**_estimates(aggregate), "text": str(aggregate)}


def _sample(sample: hdp.WeightedSample) -> tuple[list[str], _Contents]:
    facts = sample.facts
    attributes = ("frame", "weight_name", "effective_size", "max_weight", "overlap")
    return ["dp_weighted_sample"], {
        "json": sample.to_json(),
        **{name: getattr(sample, name) for name in attributes},
        **{name: getattr(facts, name) for name in ("method", "formula", "records")},
        "columns": list(facts.columns),
        "notes": pd.Series(facts.notes, dtype=str),
        **guarantee_in_r(sample.guarantee),
    }


def _description(description: hdp.Description) -> tuple[list[str], _Contents]:
    return ["dp_description"], {
        "json": description.to_json(),
        "table": description.tidy(),
        "columns": [column.name for column in description.query.columns],
        "by": description.query.by,
        "sites": list(description.sites),
        **guarantee_in_r(description.guarantee),
    }


def _curves(curves: hdp.SurvivalCurves) -> tuple[list[str], _Contents]:
    return ["dp_curves"], {
        "json": curves.to_json(),
        "table": curves.tidy(),
        "medians": curves.median(),
        "formula": curves.formula,
        "groups": ["all" if label is None else label for label in curves.groups],
        "names": group_names(curves.grouping, curves.schema),
        "label_of_time": curves.schema[curves.asked.time].label,
        "causes": list(curves.causes),
        "times": curves.times.tolist(),
        "unit_of_time": curves.unit_of_time,
        "source": curves.source,
        "sites": list(curves.sites),
        **guarantee_in_r(curves.guarantee),
    }


def _curves_plan(plan: hdp.CurvesPlan) -> tuple[list[str], _Contents]:
    return ["dp_curves_plan"], {
        **{name: getattr(plan, name) for name in ("frame", "tests", "records")},
        "text": str(plan),
        "html": plan._repr_html_(),
    }


def _propensity(propensity: hdp.Propensity) -> tuple[list[str], _Contents]:
    kinds, contents = _result(propensity.fit)
    known = propensity.fit.public_rows.table is not None
    return ["dp_propensity", *kinds], {
        **contents,
        "treatment": propensity.treatment,
        "overlap": propensity.overlap() if known else None,
        "effective_size": propensity.effective_size() if known else None,
    }


def _weighting(weighting: hdp.Weighting) -> tuple[list[str], _Contents]:
    return ["dp_weights"], {
        "json": weighting.propensity.to_json(),
        "kind": weighting.record.kind,
        "formula": weighting.record.formula,
        "treatment": weighting.treatment,
        "text": repr(weighting),
    }


def _effect(effect: hdp.TreatmentEffect) -> tuple[list[str], _Contents]:
    return ["dp_treatment_effect"], {
        "json": effect.to_json(),
        "table": effect.tidy(),
        "weight": float(effect.cells.totals.sum()),
        **{name: getattr(effect, name) for name in ("formula", "outcome", "treatment", "effective_share")},
        "sites": list(effect.sites),
        **guarantee_in_r(effect.guarantee),
    }


def _combined_effect(effect: hdp.CombinedEffect) -> tuple[list[str], _Contents]:
    return ["dp_combined_effect"], {
        "json": effect.to_json(),
        "table": effect.tidy(),
        "glance": effect.glance(),
        **{name: getattr(effect, name) for name in ("outcome", "treatment", "label", "between")},
        "sites": [site.name for site in effect.sites],
        "text": str(effect),
    }


def _effect_plan(plan: hdp.TreatmentEffectPlan | hdp.SplitPlan) -> tuple[list[str], _Contents]:
    return ["dp_effect_plan"], {
        "frame": plan.frame,
        "records": plan.records,
        "text": str(plan),
        "html": plan._repr_html_(),
    }


def _balance(balance: hdp.Balance) -> tuple[list[str], _Contents]:
    return ["dp_weighted_balance"], {
        "json": balance.to_json(),
        "table": balance.tidy(),
        "treatment": balance.treatment,
        **guarantee_in_r(balance.guarantee),
    }


def _description_plan(plan: hdp.DescriptionPlan) -> tuple[list[str], _Contents]:
    return ["dp_description_plan"], {
        "frame": plan.frame,
        "records": plan.records,
        "assumption": plan.assumption,
        "text": str(plan),
        "html": plan._repr_html_(),
        "verdicts": pd.Series({f"{epsilon:g}": words for epsilon, words in plan.verdicts.items()}),
    }


FORMS: dict[type, Callable[[Any], tuple[list[str], _Contents]]] = {
    hdp.Study: _handle("dp_study", repr),
    hdp.Ledger: _handle("dp_ledger", str),
    hdp.RemoteSite: _site,
    hdp.Schema: _schema,
    hdp.Budget: _budget,
    hdp.Plan: _plan,
    hdp.Result: _result,
    hdp.Aggregate: _aggregate,
    hdp.WeightedSample: _sample,
    hdp.Description: _description,
    hdp.DescriptionPlan: _description_plan,
    hdp.DescriptionRequest: _handle("dp_description_request", repr),
    hdp.SurvivalCurves: _curves,
    hdp.CurvesPlan: _curves_plan,
    hdp.Propensity: _propensity,
    hdp.Weighting: _weighting,
    hdp.TreatmentEffect: _effect,
    hdp.CombinedEffect: _combined_effect,
    hdp.TreatmentEffectPlan: _effect_plan,
    hdp.SplitPlan: _effect_plan,
    hdp.TreatmentEffectRequest: _handle("dp_effect_request", repr),
    hdp.Balance: _balance,
    hdp.BalanceRequest: _handle("dp_balance_request", repr),
}
"""The R forms of Python objects."""

_KEPT = ("dp_study", "dp_ledger", "dp_site", "dp_description_request", "dp_effect_request", "dp_balance_request")
"""Classes of objects that stay in Python."""

_FROM_R: dict[str, Callable[[Callable[[str], Any]], Any]] = {
    **dict.fromkeys(_KEPT, lambda field: kept(field("id"))),
    "dp_schema": lambda field: hdp.Schema.from_dict(json.loads(field("json"))),
    "dp_budget": lambda field: hdp.Budget(field("epsilon"), field("delta")),
    "dp_result": lambda field: result_from_r(field("json")),
    "dp_aggregate": lambda field: aggregate(
        **{name: field(name) for name in ("results", "between", "interval", "name")}
    ),
    "dp_weights": lambda field: hdp.Propensity.from_json(field("json")).weights(field("kind")),
    "dp_treatment_effect": lambda field: hdp.TreatmentEffect.from_json(field("json")),
    "dp_combined_effect": lambda field: hdp.CombinedEffect.from_json(field("json")),
    "dp_weighted_balance": lambda field: hdp.Balance.from_json(field("json")),
    "dp_curves": lambda field: hdp.SurvivalCurves.from_json(field("json")),
    "dp_description": lambda field: hdp.Description.from_json(field("json")),
    "dp_weighted_sample": lambda field: hdp.WeightedSample.from_json(field("json")),
}


_in_r_names: ContextVar[bool] = ContextVar("in_r_names", default=False)


@contextmanager
def r_names() -> Iterator[None]:
    """While this lasts, results that come from R have R's names of coefficients."""
    token = _in_r_names.set(True)
    try:
        yield
    finally:
        _in_r_names.reset(token)


def result_from_r(json: str) -> hdp.Result:
    """Return the result of a JSON text, with R's names within `r_names`."""
    result = hdp.Result.from_json(json)
    return model_matrix.renamed(result) if _in_r_names.get() else result


def plan_in_r(plan: hdp.Plan, formula: str, schema: hdp.Schema) -> hdp.Plan:
    """Return the plan of a formula whose coefficients have R's names."""
    terms = list(dict.fromkeys(plan.frame["term"]))
    names = [coefficient.name for coefficient in model_matrix.coefficients(formula, schema, terms)]
    in_r = dict(zip(terms, names, strict=True))
    wanted = tuple(replace(wanted, term=in_r[wanted.term]) for wanted in plan.wanted)
    frame, others = plan.frame, plan.correlations
    return replace(
        plan,
        frame=frame.assign(term=frame["term"].map(in_r)),
        wanted=wanted,
        correlations=None if others is None else others.assign(term=others["term"].map(in_r)),
        labels={in_r[term]: label for term, label in plan.labels.items()},
    )


def in_python(named: Any, formula: str, schema: hdp.Schema) -> Any:
    """Return values by R's names of coefficients as values by Python's; what has no names as it is."""
    if not isinstance(named, dict):
        return named
    terms = model_matrix.terms_in_python(formula, schema)
    return {terms.get(name, name): value for name, value in named.items()}


def in_r(error: hdp.ArgumentError, formula: str, schema: hdp.Schema) -> hdp.ArgumentError:
    """Return an error that quotes R's names of coefficients in the place of Python's."""
    text = str(error)
    for name, term in model_matrix.terms_in_python(formula, schema).items():
        text = text.replace(f"{term!r}", f"{name!r}")
    return hdp.ArgumentError(text, **error.facts)
