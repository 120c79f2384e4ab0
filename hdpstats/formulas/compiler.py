"""From a formula and a schema to a design, before any row is read.

Levels, the reference level and the bounds of every column come from the schema: the bounds by interval
arithmetic (`hdpstats.formulas.operations`), which also proves that every transform is defined on all that the
schema admits. `compile_survival` reads ``Surv(time, event) ~ …`` and ``Surv(start, stop, event) ~ …``.
"""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from hdpstats.formulas.bases import expand
from hdpstats.formulas.coding import (
    BINARY_LEVELS,
    Category,
    Reading,
    boxes_of,
    code_of,
    coded_levels,
    declared,
    dummy_coded,
    reading_of,
)
from hdpstats.formulas.design import Design, DesignColumn, Level
from hdpstats.formulas.expressions import (
    Expression,
    Factor,
    LevelIs,
    Powers,
    Splines,
    bounds_of,
    columns_of,
)
from hdpstats.formulas.lexer import quoted
from hdpstats.formulas.operations import LARGEST, Interval, multiply, refusal
from hdpstats.formulas.parser import (
    ParsedFormula,
    no_outcome,
    parse,
    parse_one_sided,
    parse_survival,
    plain_outcome,
    survival_outcome,
)
from hdpstats.schema.columns import Binary, Categorical, Duration, Offset, Weight
from hdpstats.schema.schema import Schema

MOST_COLUMNS = 500
_INDICATOR = Interval(0.0, 1.0)
_INTERCEPT = DesignColumn(name="Intercept", lower=1.0, upper=1.0, expressions=(), levels=())


def compile_design(formula: ParsedFormula | str, schema: Schema) -> Design:
    """Return the design that a formula asks for, with levels and bounds from the schema.

    Parameters
    ----------
    formula : ParsedFormula or str
        The formula.
    schema : Schema
        The declared columns.

    Raises
    ------
    FormulaError
        If the formula cannot be read, names a column that is not declared or of the wrong kind, asks for a
        transform that is not defined everywhere within the declared bounds, or has more than 500 columns. The
        facts are ``term``, ``reason`` and ``remedy``.

    Examples
    --------
    >>> from hdpstats.schema.columns import Binary, Categorical, Continuous
    >>> schema = Schema(dead=Binary(), nodes=Continuous(0, 40), size=Categorical(["<=20", "20-50", ">50"]))
    >>> design = compile_design("dead ~ sqrt(nodes) + size", schema)
    >>> design.names
    ('Intercept', 'sqrt(nodes)', 'size[T.20-50]', 'size[T.>50]')
    >>> design.columns[1].lower, design.columns[1].upper
    (0.0, 6.324555320336759)
    """
    parsed = formula if isinstance(formula, ParsedFormula) else parse(formula, covariates_of(schema))
    plain_outcome(parsed.left)
    _check_response(parsed.response, schema)
    return compile_terms(parsed, schema)


def compile_one_sided(formula: ParsedFormula | str, schema: Schema) -> Design:
    """Return the design of a formula without an outcome; `Design.response` is empty.

    Raises
    ------
    FormulaError
        For the reasons of `compile_design`, or if there is an outcome.

    Examples
    --------
    >>> from hdpstats.schema.columns import Categorical, Continuous
    >>> schema = Schema(age=Continuous(20, 90), grade=Categorical(["1", "2", "3"]))
    >>> design = compile_one_sided("~ age + C(grade)", schema)
    >>> design.names, design.needs
    (('Intercept', 'age', 'C(grade)[T.2]', 'C(grade)[T.3]'), ('age', 'grade'))
    """
    parsed = formula if isinstance(formula, ParsedFormula) else parse_one_sided(formula, covariates_of(schema))
    if parsed.left is not None:
        raise no_outcome(parsed.left.source)
    return without_roles(compile_terms(parsed, schema))


def covariates_of(schema: Schema, *, times: bool = True) -> tuple[str, ...]:
    """Return the columns that ``.`` may stand for: all but weights, offsets and, where they explain, times."""
    left_out = (Weight, Offset) if times else (Weight, Offset, Duration)
    return tuple(name for name, column in schema.items() if not isinstance(column, left_out))


def without_roles(design: Design) -> Design:
    """Return a design, or refuse it for an offset, strata or clusters, where no model reads them."""
    for role in design.roles:
        raise refusal(role.source, f"nothing here has {role.role} columns", "give it to a regression or a hazard model")
    return design


def compile_terms(parsed: ParsedFormula, schema: Schema) -> Design:
    """Return the design of a formula's right side, whatever its outcome; errors are those of `compile_design`."""
    boxes = dict(boxes_of(parsed, schema))
    readings = {factor: reading_of(factor, schema, boxes) for term in parsed.terms for factor in term.factors}
    coded = dummy_coded(
        [term.factors for term in parsed.terms],
        categorical=lambda factor: isinstance(readings[factor], Category),
        intercept=parsed.intercept,
    )
    columns = [_INTERCEPT] if parsed.intercept else []
    for term, dummies in zip(parsed.terms, coded, strict=True):
        choices = [
            _factor_columns(factor, readings[factor], boxes, dummies=factor in dummies) for factor in term.factors
        ]
        if len(columns) + math.prod(map(len, choices)) > MOST_COLUMNS:
            raise refusal(term.source, f"the design would exceed {MOST_COLUMNS} columns", "drop terms or levels")
        columns.extend(replace(column, term=term.source) for column in _term_columns(choices))
    return _assemble(parsed, boxes, columns)


def _assemble(parsed: ParsedFormula, boxes: Mapping[str, Interval], columns: Sequence[DesignColumn]) -> Design:
    seen: set[str] = set()
    for column in columns:
        if column.name in seen:
            raise refusal(column.name, "two columns of the design have this name", "rename a column or a level")
        seen.add(column.name)
    read = (name for term in parsed.terms for factor in term.factors for name in columns_of(factor))
    return Design(
        formula=parsed.text,
        canonical=parsed.canonical,
        response=parsed.response,
        columns=tuple(columns),
        intercept=parsed.intercept,
        needs=tuple(dict.fromkeys((*([parsed.response] if parsed.response else []), *read))),
        boxes=tuple(boxes.items()),
        roles=parsed.roles,
    )


def _check_response(name: str, schema: Schema) -> None:
    column = declared(name, schema)
    if isinstance(column, Categorical | Weight | Offset):
        reason = f"a {column.kind} column cannot be the outcome"
        remedy = "choose a binary, continuous or duration column"
        if isinstance(column, Categorical):
            remedy += "; hdpf.multinomial models all levels, and a Binary with labels= is of two levels"
        raise refusal(name, reason, remedy)


def _factor_columns(
    factor: Factor, reading: Reading, boxes: Mapping[str, Interval], *, dummies: bool
) -> tuple[DesignColumn, ...]:
    """Return the columns of a factor on its own."""
    if isinstance(reading, Splines | Powers):
        expressions = expand(reading, bounds_of(reading.operand, boxes))
        names = [f"{factor.source}[{number}]" for number in range(1, len(expressions) + 1)]
        return tuple(
            _design_column(name, bounds_of(expression, boxes), expressions=(expression,))
            for name, expression in zip(names if len(names) > 1 else [factor.source], expressions, strict=True)
        )
    if not isinstance(reading, Category):
        bounds = bounds_of(reading, boxes)
        if bounds.lower == bounds.upper:
            reason = f"it is {bounds.lower:g} whatever the columns are between their declared bounds"
            raise refusal(factor.source, reason, "leave it out, or change the number in it")
        return (_design_column(factor.source, bounds, expressions=(reading,)),)
    coded = coded_levels(factor.source, reading.names, dummies=dummies, reference=reading.reference)
    return tuple(_indicator(label, reading.indicators[code]) for code, label in coded)


def _indicator(label: str, indicator: Level | Expression) -> DesignColumn:
    if isinstance(indicator, Level):
        return _design_column(label, _INDICATOR, levels=(indicator,))
    return _design_column(label, _INDICATOR, expressions=(indicator,))


def _term_columns(choices: Sequence[tuple[DesignColumn, ...]]) -> tuple[DesignColumn, ...]:
    """Return the products of the factors' columns; the levels of the first factor change fastest, as in R."""
    products = itertools.product(*reversed(choices))
    return tuple(functools.reduce(_times, reversed(product)) for product in products)


def _times(a: DesignColumn, b: DesignColumn) -> DesignColumn:
    name = f"{a.name}:{b.name}"
    bounds = multiply(Interval(a.lower, a.upper), Interval(b.lower, b.upper))
    if not bounds.magnitude <= LARGEST:
        raise refusal(name, f"its values can exceed {LARGEST:g}", "scale the columns first")
    return _design_column(name, bounds, expressions=a.expressions + b.expressions, levels=a.levels + b.levels)


def _design_column(
    name: str, bounds: Interval, *, expressions: tuple[Expression, ...] = (), levels: tuple[Level, ...] = ()
) -> DesignColumn:
    return DesignColumn(name=name, lower=bounds.lower, upper=bounds.upper, expressions=expressions, levels=levels)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SurvivalDesign:
    """What a survival model reads: times, event and covariates; made by `compile_survival`.

    Attributes
    ----------
    covariates : Design
        The columns of the right side. The intercept is the first; it decides the coding of categories, as in R,
        and the baseline hazard takes its place in the model. Its outcome is the event.
    start : str or None
        The column of the time at which a row comes under observation; None where everybody does so at 0.
    stop : str
        The column of the time at which observation of a row ends.
    event : str
        The column that says whether, or by which cause, it ended with the event.
    level : int or None
        The one code of that column that is the event, as in ``Surv(time, status == 2)``; all others are censored then.
    strata : tuple of (str, int)
        The columns of ``strata(x)``, in alphabetical order, with the numbers of their levels.
    """

    covariates: Design
    start: str | None
    stop: str
    event: str
    level: int | None = None
    strata: tuple[tuple[str, int], ...] = ()

    @property
    def formula(self) -> str:
        """The formula as given."""
        return self.covariates.formula

    @property
    def canonical(self) -> str:
        """The formula with every term written out and canonical spacing: two spellings of one model agree."""
        return " + ".join([self.covariates.canonical, *(f"strata({quoted(name)})" for name, _ in self.strata)])

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns of the schema that the model reads: times, event, covariates."""
        start = () if self.start is None else (self.start,)
        of_outcome = (*start, self.stop, *self.covariates.needs)
        return tuple(dict.fromkeys((*of_outcome, *(name for name, _ in self.strata))))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the covariates' columns, without the intercept."""
        return self.covariates.names[1:]

    def causes(self, schema: Schema) -> tuple[str, ...]:
        """Return the kinds of event: the levels but the first, or the one that the formula names."""
        column = schema[self.event]
        names = column.levels if isinstance(column, Categorical) else BINARY_LEVELS
        if self.level is not None:
            return (f"{self.event} == {names[self.level]}",)
        return names[1:] if isinstance(column, Categorical) else (self.event,)


def compile_survival(formula: ParsedFormula | str, schema: Schema) -> SurvivalDesign:
    """Return what a survival formula asks for, with levels and bounds from the schema.

    Parameters
    ----------
    formula : ParsedFormula or str
        ``Surv(time, event) ~ terms``, or ``Surv(start, stop, event) ~ terms`` with one row per person and spell.
    schema : Schema
        The declared columns. Times are `Duration` columns. The event is a `Binary` column, or a `Categorical` one
        whose first level means no event and whose other levels are competing causes.

    Raises
    ------
    FormulaError
        For the reasons of `compile_design`; if times or event are declared as something else; if the formula takes
        the intercept away; if a duration stands on the right side, where time would explain itself.

    Examples
    --------
    >>> from hdpstats.schema.columns import Continuous
    >>> schema = Schema(time=Duration(2557), event=Binary(), age=Continuous(20, 90), size=Categorical(["s", "m", "l"]))
    >>> design = compile_survival("Surv(time, event) ~ age + size", schema)
    >>> design.names, design.needs
    (('age', 'size[T.m]', 'size[T.l]'), ('time', 'event', 'age', 'size'))
    """
    covariates = covariates_of(schema, times=False)
    parsed = formula if isinstance(formula, ParsedFormula) else parse_survival(formula, covariates)
    left = survival_outcome(parsed.left)
    *times, event = left.columns
    for name in times:
        if not isinstance(declared(name, schema), Duration):
            reason = f"a {schema[name].kind} column cannot be a time of follow-up"
            raise refusal(name, reason, f"declare it as {name}=Duration(horizon)")
    if not isinstance(declared(event, schema), Binary | Categorical):
        reason = f"a {schema[event].kind} column cannot be the event"
        raise refusal(event, reason, "declare it as Binary, or as Categorical with the level of no event first")
    _check_no_duration_explains(parsed, schema)
    strata = {role.name for role in parsed.roles if role.role == "strata"}
    if strata & {*times, event}:
        raise refusal("strata()", "the outcome cannot be its own stratum", "name a column that is known at the start")
    level = code_of(LevelIs(name=event, level=left.level, source=left.source), schema) if left.level else None
    if level == 1 and isinstance(schema[event], Binary):
        source = f"{left.function}({', '.join(map(quoted, left.columns))})"
        parsed, level = replace(parsed, left=replace(left, source=source, level="")), None
    return SurvivalDesign(
        covariates=compile_terms(parsed, schema),
        start=times[0] if len(times) == 2 else None,
        stop=times[-1],
        event=event,
        level=level,
        strata=tuple((name, _levels_of(name, schema)) for name in sorted(strata)),
    )


def _levels_of(name: str, schema: Schema) -> int:
    """Return how many strata a column makes."""
    column = declared(name, schema)
    if not isinstance(column, Categorical | Binary):
        reason = f"{name} is declared as {column.kind} and has no levels"
        raise refusal(f"strata({name})", reason, "declare the strata as a Categorical column")
    return len(column.levels) if isinstance(column, Categorical) else 2


def _check_no_duration_explains(parsed: ParsedFormula, schema: Schema) -> None:
    for term in parsed.terms:
        for factor in term.factors:
            for name in columns_of(factor):
                if isinstance(declared(name, schema), Duration):
                    reason = f"{name} is a time of follow-up, and time would explain itself"
                    remedy = "leave it out; declare a time that is known when follow-up begins as Continuous"
                    raise refusal(factor.source, reason, remedy)
