"""`hdpstats` objects in R: S3 objects with plain contents, or with a handle where the object cannot leave Python."""

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd

import hdpstats.api as hdp
from r_bridge.many import aggregate
from r_bridge.session import helper
from r_bridge.strings import from_r_strings, to_r_strings

_held: dict[str, object] = {}

_RELEASES = """local({
  ids <- character()
  drop <- function(e) ids <<- c(ids, e$id)
  list(
    ref = function(id) { e <- new.env(parent = emptyenv()); e$id <- id; reg.finalizer(e, drop); e },
    dropped = function() { found <- ids; ids <<- character(); found }
  )
})"""
"""R's side: an environment per handle, and the names of those that R has thrown away since somebody asked."""


@final
@dataclass(frozen=True, kw_only=True)
class Matrix:
    """A table that is a matrix in R."""

    table: pd.DataFrame


def keep(value: object) -> str:
    """Keep an object for R and return its name, which no other session knows."""
    name = uuid.uuid4().hex
    _held[name] = value
    return name


def held(name: object) -> Any:
    """Return the object of that name.

    Raises
    ------
    ArgumentError
        If there is none: R's object came from another session, through ``saveRDS`` or ``.RData``.
    """
    if name not in _held:
        raise hdp.ArgumentError("this object belongs to a session that has ended: make it again", argument="data")
    return _held[str(name)]


def sweep() -> None:
    """Let go of the objects whose handles R has thrown away."""
    for name in from_r_strings(helper(_RELEASES)[1]()):
        _held.pop(str(name), None)


def stands_for(kinds: list[str]) -> bool:
    """Whether an R object of these classes stands for a Python object."""
    return any(kind in _REVIVED for kind in kinds)


def revived(kinds: list[str], field: Callable[[str], Any]) -> Any:
    """Return the Python object that an R object stands for; ``field`` returns its elements."""
    return next(_REVIVED[kind] for kind in kinds if kind in _REVIVED)(field)


def has_form(value: object) -> bool:
    """Whether a Python object has an R form of its own."""
    return type(value) in _FORMS


def form(value: object) -> tuple[list[str], dict[str, object]]:
    """Return the S3 class and the contents of a Python object's R form."""
    return _FORMS[type(value)](value)


def _handle(kind: str, text: Callable[[Any], str]) -> Callable[[Any], tuple[list[str], dict[str, object]]]:
    def make(value: object) -> tuple[list[str], dict[str, object]]:
        name = keep(value)
        return [kind], {"id": name, "text": text(value), "ref": helper(_RELEASES)[0](to_r_strings([name]))}

    return make


def _site(site: hdp.RemoteSite) -> tuple[list[str], dict[str, object]]:
    _, handle = _handle("dp_site", repr)(site)
    facts = {"schema": site.schema, "records": site.records, "analyst": site.analyst, "permissions": site.permissions}
    return ["dp_site"], handle | facts


def _schema(schema: hdp.Schema) -> tuple[list[str], dict[str, object]]:
    return ["dp_schema"], {"json": json.dumps(schema.to_dict()), "text": repr(schema), "columns": list(schema)}


def _budget(budget: hdp.Budget) -> tuple[list[str], dict[str, object]]:
    return ["dp_budget"], {"epsilon": float(budget.epsilon), "delta": float(budget.delta), "text": str(budget)}


def _plan(plan: hdp.Plan) -> tuple[list[str], dict[str, object]]:
    return ["dp_plan"], {
        "frame": plan.frame,
        "table": Matrix(table=plan.table),
        "text": str(plan),
        "records": plan.records,
        "declared": plan.declared,
        "assumption": plan.assumption,
        "verdicts": pd.Series({f"{epsilon:g}": words for epsilon, words in plan.verdicts.items()}),
    }


def _result(result: hdp.Result) -> tuple[list[str], dict[str, object]]:
    facts, guarantee, entry = result.facts, result.guarantee, result.ledger_entry
    kind = "dp_hazard" if facts.hazard is not None else f"dp_{facts.model.lower()}"
    return [kind, "dp_result"], {
        "json": result.to_json(),
        "coefficients": result.params,
        "vcov": Matrix(table=result.cov_params()),
        "bse": result.bse,
        "nobs": facts.records if facts.records is not None else facts.public_rows,
        "public_rows": facts.public_rows,
        "formula": facts.formula,
        "response": facts.response,
        "model": facts.model,
        "method": facts.method,
        "epsilon": np.nan if guarantee is None else float(guarantee.epsilon),
        "delta": np.nan if guarantee is None else float(guarantee.delta),
        "guarantee": None if guarantee is None else str(guarantee),
        "statement": None if guarantee is None else guarantee.statement(),
        "ledger_entry": None if entry is None else entry.to_dict(),
        "sites": result.sites,
    }


def _aggregate(found: hdp.Aggregate) -> tuple[list[str], dict[str, object]]:
    return ["dp_aggregate"], {
        "coefficients": found.params,
        "vcov": Matrix(table=found.cov_params()),
        "bse": found.bse,
        "model": found.facts.model,
        "text": str(found),
    }


def _sample(sample: hdp.WeightedSample) -> tuple[list[str], dict[str, object]]:
    facts, guarantee = sample.facts, sample.guarantee
    return ["dp_weighted_sample"], {
        "json": sample.to_json(),
        "frame": sample.frame,
        "weight_name": sample.weight_name,
        "method": facts.method,
        "columns": list(facts.columns),
        "formula": facts.formula,
        "records": facts.records,
        "notes": pd.Series(facts.notes, dtype=str),
        "effective_size": sample.effective_size,
        "max_weight": sample.max_weight,
        "overlap": sample.overlap,
        "epsilon": float(guarantee.epsilon),
        "delta": float(guarantee.delta),
        "guarantee": str(guarantee),
        "statement": guarantee.statement(),
    }


_FORMS: dict[type, Callable[[Any], tuple[list[str], dict[str, object]]]] = {
    hdp.Study: _handle("dp_study", repr),
    hdp.Ledger: _handle("dp_ledger", str),
    hdp.RemoteSite: _site,
    hdp.Schema: _schema,
    hdp.Budget: _budget,
    hdp.Plan: _plan,
    hdp.Result: _result,
    hdp.Aggregate: _aggregate,
    hdp.WeightedSample: _sample,
}

_MADE_OF = ("results", "between", "interval", "name")
"""What an aggregate is made of, and made from again."""

_REVIVED: dict[str, Callable[[Callable[[str], Any]], Any]] = {
    "dp_study": lambda field: held(field("id")),
    "dp_ledger": lambda field: held(field("id")),
    "dp_site": lambda field: held(field("id")),
    "dp_schema": lambda field: hdp.Schema.from_dict(json.loads(field("json"))),
    "dp_budget": lambda field: hdp.Budget(field("epsilon"), field("delta")),
    "dp_result": lambda field: hdp.Result.from_json(field("json")),
    "dp_aggregate": lambda field: aggregate(
        **{name: field(name) for name in ("results", "between", "interval", "name")}
    ),
    "dp_weighted_sample": lambda field: hdp.WeightedSample.from_json(field("json")),
}
