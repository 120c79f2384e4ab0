"""Results from R have R's names of coefficients while a call lasts; their JSON text keeps Python's."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import hdpstats.api as hdp

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
    return hdp.model_matrix.renamed(result) if _in_r_names.get() else result


def plan_in_r(plan: hdp.Plan, formula: str, schema: hdp.Schema) -> hdp.Plan:
    """Return the plan of a formula whose coefficients have R's names."""
    terms = list(dict.fromkeys(plan.frame["term"]))
    names = [each.name for each in hdp.model_matrix.coefficients(formula, schema, terms)]
    in_r = dict(zip(terms, names, strict=True))
    wanted = tuple(replace(each, term=in_r[each.term]) for each in plan.wanted)
    return replace(plan, frame=plan.frame.assign(term=plan.frame["term"].map(in_r)), wanted=wanted)


def in_python(named: Any, formula: str, schema: hdp.Schema) -> Any:
    """Return values by R's names of coefficients as values by Python's; what has no names as it is."""
    if not isinstance(named, dict):
        return named
    terms = hdp.model_matrix.terms_in_python(formula, schema)
    return {terms.get(name, name): value for name, value in named.items()}


def in_r(error: hdp.ArgumentError, formula: str, schema: hdp.Schema) -> hdp.ArgumentError:
    """Return an error that quotes R's names of coefficients in the place of Python's."""
    text = str(error)
    for name, term in hdp.model_matrix.terms_in_python(formula, schema).items():
        text = text.replace(f"{term!r}", f"{name!r}")
    return hdp.ArgumentError(text, **error.facts)
