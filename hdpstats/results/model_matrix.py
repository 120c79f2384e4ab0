"""A result as R's generics see it: names and order of coefficients, terms, and the design of public rows.

They are those of ``model.matrix``; a result itself has patsy's names, in the order of its own formula.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.formulas.coding import Category, boxes_of, is_comparison, reading_of
from hdpstats.formulas.coefficients import MatrixColumn, columns_in_r, in_r, parsed
from hdpstats.formulas.compiler import compile_terms
from hdpstats.formulas.design import Design
from hdpstats.formulas.expressions import Factor, Powers, Splines, Variable
from hdpstats.formulas.knots import without_public_knots
from hdpstats.formulas.parser import ParsedFormula, Term
from hdpstats.losses import MEAN_LINKS
from hdpstats.records.estimate import Estimate
from hdpstats.results import population
from hdpstats.results.facts import ModelFacts
from hdpstats.results.population import NO_ROWS, FittedRows
from hdpstats.results.result import Result
from hdpstats.results.summary import rows_of
from hdpstats.schema.columns import Binary, Categorical, Continuous
from hdpstats.schema.columns import Column as Declared
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema, check_frame

__all__ = [
    "Coefficient",
    "ModelVariable",
    "Terms",
    "coefficients",
    "design",
    "factor_levels",
    "of_result",
    "order",
    "renamed",
    "standard_deviations",
    "summary_rows",
    "terms",
    "terms_in_python",
    "variables",
    "with_coefficients",
    "with_public_rows",
]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Coefficient:
    """A coefficient in R: its name, the number of its term (None for a baseline's), and a key that sorts as R does."""

    name: str
    term: int | None
    key: tuple[int, ...]


def coefficients(formula: str, schema: Schema, terms: Sequence[str]) -> list[Coefficient]:
    """Return coefficients as R has them, in Python's order; those of a baseline are of no term.

    ``terms`` are their names in Python, or in R.
    """
    named, outcome = columns_in_r(formula, schema), schema[parsed(formula, schema).response]
    columns = {column.name: column for column in named.values()} | named
    prefixes = tuple(f"{level}:" for level in outcome.levels) if isinstance(outcome, Categorical) else ()
    made = [_coefficient(term, columns, prefixes) for term in terms]
    if len({each.name for each in made}) < len(made):  # two columns of one name, which Python tells apart
        made = [replace(each, name=term) for each, term in zip(made, terms, strict=True)]
    return made


def terms_in_python(formula: str, schema: Schema) -> dict[str, str]:
    """Return Python's names of the columns of a formula's design by R's."""
    return {column.name: term for term, column in columns_in_r(formula, schema).items()}


def _coefficient(term: str, columns: Mapping[str, MatrixColumn], prefixes: Sequence[str]) -> Coefficient:
    for number, prefix in enumerate(("", *prefixes)):
        blank = " " if prefix and term.startswith(f"{prefix} ") else ""
        column = columns.get(term.removeprefix(prefix + blank))
        if term.startswith(prefix) and column is not None:
            name, key = f"{prefix}{blank}{column.name}", (number, column.term, *column.place)
            return Coefficient(name=name, term=column.term, key=key)
    number = next((number for number, prefix in enumerate(prefixes, start=1) if term.startswith(prefix)), 0)
    return Coefficient(name=term, term=None, key=(number, -1))


def of_result(result: Result) -> list[Coefficient]:
    """Return a result's coefficients as R has them, in Python's order; a distribution's are of no term."""
    facts, terms = result.facts, result.estimate.terms
    if facts.family is not None:
        return [Coefficient(name=term, term=None, key=(place,)) for place, term in enumerate(terms)]
    return coefficients(facts.formula, result.schema, terms)


def order(result: Result) -> list[int]:
    """Return the places of a result's coefficients in the order of R's columns."""
    coefficients = of_result(result)
    return sorted(range(len(coefficients)), key=lambda place: coefficients[place].key)


def renamed(result: Result) -> Result:
    """Return a result whose coefficients have R's names, in Python's order."""
    names = tuple(each.name for each in of_result(result))

    def with_names(estimate: Estimate | None) -> Estimate | None:
        return None if estimate is None else replace(estimate, terms=names)

    sites = tuple(replace(each, estimate=with_names(each.estimate)) for each in result.site_facts)
    return replace(
        result,
        estimate=replace(result.estimate, terms=names),
        public_only=with_names(result.public_only),
        private_only=with_names(result.private_only),
        pooled=with_names(result.pooled),
        released=replace(result.released, sites=sites),
    )


def with_coefficients(result: Result, values: FloatArray) -> Result:
    """Return the result with other coefficients (p,), in R's order, as numerical derivatives of predictions need."""
    places = order(result)
    if values.shape != (len(places),):
        raise ArgumentError(f"coefficients must be {len(places)} numbers", argument="coefficients")
    in_our_order = np.empty(len(places))
    in_our_order[places] = values
    return replace(result, estimate=replace(result.estimate, values=in_our_order))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Terms:
    """What R's generics ask of a model.

    Attributes
    ----------
    loss, link : str
        What was fitted: a loss, or "hazard"; and the link of its linear predictor.
    covariates : list of int
        The places, from 0 and in R's order, of the coefficients that are of no baseline.
    assign : list of int
        The number of the term of each of these, 0 for the intercept.
    columns : list of str
        The columns that the terms read.
    levels : mapping of str to list of str
        The declared levels of those, and of columns of the outcome, that are factors in R.
    parts : int
        How many causes or levels have coefficients of their own.
    beside : list of str
        The columns of the outcome, of weights, offsets and strata: a row that misses one took no part in the fit.
    """

    loss: str
    link: str
    covariates: list[int]
    assign: list[int]
    columns: list[str]
    levels: Mapping[str, list[str]]
    parts: int
    beside: list[str]


def terms(result: Result) -> Terms:
    """Return what R's generics ask of a model.

    Raises
    ------
    ArgumentError
        If it is a distribution, which has no terms.
    """
    facts, coefficients = result.facts, of_result(result)
    ordered = [coefficients[place].term for place in order(result)]
    columns, outcome = _columns(_design(result, result.schema)), result.schema.get(facts.response)
    others = len(_levels(outcome)) - 1 if facts.loss == "multinomial" and outcome is not None else 1
    whole = _parsed(result, result.schema)
    outcomes = [] if whole.left is None else list(whole.left.columns)
    others_read = [facts.weights, facts.offset, *(role.name for role in whole.roles if role.role != "cluster")]
    return Terms(
        loss="hazard" if facts.hazard is not None else str(facts.loss),
        link=_link(facts),
        covariates=[place for place, term in enumerate(ordered) if term is not None],
        assign=[term for term in ordered if term is not None],
        columns=columns,
        levels={name: levels for name in [*columns, *outcomes] if (levels := _levels(result.schema[name]))},
        parts=others if facts.hazard is None else len(facts.hazard.causes),
        beside=list(dict.fromkeys([*outcomes, *(name for name in others_read if name is not None)])),
    )


def design(result: Result, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the design of public rows: NaN where a covariate is missing, R's columns in R's order.

    A hazard's columns are those of its covariates, without the intercept. A binary column may have any number, as the
    average of one does.
    """
    plain = check_frame(frame, name="newdata")
    schema = _schema_of(result, plain)
    compiled = _design(result, schema)
    X = _values(compiled, plain, schema)
    columns = columns_in_r(result.facts.formula, result.schema)
    kept = [name for name in columns if result.facts.hazard is None or columns[name].term > 0]
    kept = sorted(kept, key=lambda name: (columns[name].term, columns[name].place))
    table = pd.DataFrame(X, columns=list(compiled.names), index=plain.index)[kept]
    return table.set_axis([columns[name].name for name in kept], axis=1)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ModelVariable:
    """What a formula multiplies, a column or a function of columns, as a variable of R's model frame.

    Attributes
    ----------
    kind : str
        "factor", "logical" (a comparison), "numeric", or "matrix" (a basis of several columns).
    levels : list of str
        The levels of a factor, the reference first.
    cells : (n, k) float64 or None
        The variable in given rows, NaN where a column is missing: a number, the columns of a basis, the place of a
        factor's level from 1, or 1 where a comparison holds and 0 elsewhere.
    size : int
        How many columns the cells have.
    """

    kind: str
    levels: list[str]
    cells: FloatArray | None
    size: int


def variables(result: Result, frame: pd.DataFrame | None = None) -> dict[str, ModelVariable]:
    """Return the variables of the formula's right side as R writes them, with their values in public rows."""
    plain = None if frame is None else check_frame(frame, name="newdata")
    schema = result.schema if plain is None else _schema_of(result, plain)
    terms = _parsed(result, schema).terms
    factors = dict.fromkeys(factor for term in terms for factor in term.factors)
    names = {factor: factor.name if isinstance(factor, Variable) else in_r(factor.source) for factor in factors}
    return {name: _variable(factor, schema, plain) for factor, name in names.items()}


def named_formula(result: Result) -> str:
    """Return the formula as its coefficients are named: without the knots that public rows gave."""
    return without_public_knots(result.facts.formula)


def factor_levels(result: Result) -> dict[str, list[str]]:
    """Return the levels of each factor of the formula by its name in R: what R calls ``xlevels``."""
    if result.facts.family is not None:
        return {}
    return {name: variable.levels for name, variable in variables(result).items() if variable.kind == "factor"}


def _variable(factor: Factor, schema: Schema, plain: pd.DataFrame | None) -> ModelVariable:
    alone = ParsedFormula(text=factor.source, left=None, terms=(Term(factors=(factor,)),), intercept=False)
    compiled, reading = compile_terms(alone, schema), reading_of(factor, schema, dict(boxes_of(alone, schema)))
    values = None if plain is None else _values(compiled, plain, schema)
    column = schema[factor.name] if isinstance(factor, Variable) else None
    kind, levels, size = "numeric", [], 1
    if isinstance(reading, Category):
        first = reading.reference
        places = [first, *(place for place in range(len(reading.names)) if place != first)]
        kind, levels = "factor", [reading.names[place] for place in places]
        values = None if values is None else values[:, places] @ np.arange(1.0, len(places) + 1.0)[:, None]
        if is_comparison(factor):
            kind, levels, values = "logical", [], None if values is None else values - 1.0
    elif isinstance(column, Binary) and column.labels is not None:
        kind, levels, values = "factor", list(column.labels), None if values is None else values + 1.0
    elif isinstance(reading, Splines | Powers):
        kind, size = "matrix", len(compiled.names)
    return ModelVariable(kind=kind, levels=levels, cells=values, size=size)


def _schema_of(result: Result, frame: pd.DataFrame) -> Schema:
    return Schema({name: _with_averages(column, frame, name) for name, column in result.schema.items()})


def _values(compiled: Design, frame: pd.DataFrame, schema: Schema) -> FloatArray:
    """Return a design of public rows (n, p): NaN where a column is missing."""
    needs = _columns(compiled)
    rows = PublicTable.from_frame(frame.loc[:, [label in needs for label in frame.columns]], schema, required=needs)
    X = np.full((len(frame), len(compiled.names)), np.nan)
    X[rows.complete(needs)] = compiled.evaluate_unclipped(rows.raw(needs))
    return X


def summary_rows(result: Result) -> tuple[list[tuple[str, str]], list[tuple[str, str]], list[str]]:
    """Return a summary without coefficients: the model and the privacy as names and values, and the notes."""
    return rows_of(result)


def with_public_rows(result: Result, table: PublicTable | None) -> Result:
    """Return the result with public rows at hand, those of the study that it was fitted with."""
    return replace(result, public_rows=FittedRows(table=table))


def standard_deviations(result: Result, frame: pd.DataFrame) -> FloatArray:
    """Return for each coefficient (p,), in Python's order, the standard deviation of its column; 1 for indicators."""
    return population.standard_deviations(result, population.population(result, NO_ROWS, frame))


def _design(result: Result, schema: Schema) -> Design:
    return compile_terms(_parsed(result, schema), schema)


def _parsed(result: Result, schema: Schema) -> ParsedFormula:
    if result.facts.family is not None:
        raise ArgumentError("a distribution without covariates has no terms: see its coefficients", argument="x")
    return parsed(result.facts.formula, schema)


def _columns(design: Design) -> list[str]:
    """Return the columns that the terms read."""
    return [name for name in design.needs if name != design.response]


def _levels(column: Declared) -> list[str]:
    """Return the levels of a column that is a factor in R."""
    if isinstance(column, Categorical):
        return list(column.levels)
    return list(column.labels or ()) if isinstance(column, Binary) else []


def _with_averages(column: Declared, frame: pd.DataFrame, name: str) -> Declared:
    """Return the declaration of a column, or that of a number where a binary one has other numbers than 0 and 1."""
    if not isinstance(column, Binary) or column.labels is not None or list(frame.columns).count(name) != 1:
        return column
    cells = frame[name]
    averaged = pd.api.types.is_float_dtype(cells.dtype) and not cells.dropna().isin([0.0, 1.0]).all()
    return Continuous(0.0, 1.0) if averaged else column


def _link(facts: ModelFacts) -> str:
    if facts.hazard is not None:
        return facts.hazard.link
    return "identity" if facts.loss is None else MEAN_LINKS[facts.loss]


def __dir__() -> list[str]:
    return __all__
