"""What the factors of a formula are, given a schema: numbers, bases of several columns, levels, categories.

Levels and bounds are the schema's, and every error names what is declared instead.

**Coding.** A category within a term is coded by *treatment contrasts* (one 0/1 column per level but the first, the
reference) or by *dummies* (one 0/1 column per level). R decides so (``terms.formula``, after Chambers and
Hastie 1992, *Statistical Models in S*, p. 38; ``model.matrix`` for the second half):

* contrasts, if the term without that factor is empty or part of an earlier term, otherwise dummies;
* in a model without intercept, dummies for the first category of the first term that has one.
"""

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar, final

from hdpstats.formulas.design import Level
from hdpstats.formulas.expressions import (
    Basis,
    Categories,
    Cut,
    Expression,
    Factor,
    LevelIs,
    Number,
    Operation,
    Variable,
    bounds_of,
    columns_of,
)
from hdpstats.formulas.levels import interval_indicators, interval_names
from hdpstats.formulas.lexer import quoted
from hdpstats.formulas.operations import COMPARED, Interval, refusal
from hdpstats.formulas.parser import ParsedFormula
from hdpstats.schema.columns import Binary, Categorical, Column, NumericColumn, Offset, Weight
from hdpstats.schema.schema import Schema

BINARY_LEVELS = ("0", "1")
TRUTHS = ("False", "True")
_SHOWN_COLUMNS = 20


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """A factor that is coded by its levels: the indicator of each, and which one is the reference.

    ``indicators`` are levels of a column, or expressions that are 0 or 1.
    """

    names: tuple[str, ...]
    indicators: tuple[Level | Expression, ...]
    reference: int = 0


Reading = Category | Variable | Operation | Basis
"""The levels of a category, the expression of a number, or a basis of several columns."""


def declared(name: str, schema: Schema) -> Column:
    """Return the declaration of a column that a formula names."""
    if name in schema:
        return schema[name]
    close = get_close_matches(name, list(schema), n=1)
    listed = ", ".join(itertools.islice(schema, _SHOWN_COLUMNS))
    odd = next((label for label in schema if quoted(label) != label and label.startswith(name)), None)
    remedy = f"did you mean {close[0]}?" if close else f"declared are {listed}"
    if odd is not None:
        remedy = f"did you mean {quoted(odd)}, in backticks?"
    raise refusal(name, "the schema has no such column", remedy)


def reading_of(factor: Factor, schema: Schema, boxes: Mapping[str, Interval]) -> Reading:
    """Return the levels of a factor that is a category, its level if it is one, and any other factor as it is."""
    if isinstance(factor, Cut):
        indicators = interval_indicators(factor, bounds_of(factor.operand, boxes))
        return Category(names=interval_names(factor), indicators=indicators)
    level = _compared(factor, schema)
    if level is not None:
        code = code_of(level, schema)
        return Category(
            names=TRUTHS,
            indicators=tuple(Level(column=level.name, code=code, negated=negated) for negated in (True, False)),
        )
    if is_comparison(factor):
        return Category(names=TRUTHS, indicators=_indicators(factor, boxes))
    if not isinstance(factor, Variable | Categories):
        return factor  # type: ignore[return-value]  # roles stand beside the terms
    column = declared(factor.name, schema)
    if not isinstance(column, Categorical) and isinstance(factor, Variable):
        return factor
    if not isinstance(column, Categorical | Binary):
        reason = f"a {column.kind} column has no levels"
        remedy = f"write {factor.name}, cut({factor.name}, c(...)), or declare it as Categorical with its levels"
        raise refusal(factor.source, reason, remedy)
    names = column.levels if isinstance(column, Categorical) else BINARY_LEVELS
    named = LevelIs(name=factor.name, level=getattr(factor, "reference", ""), source=factor.source)
    return Category(
        names=names,
        indicators=tuple(Level(column=factor.name, code=code) for code in range(len(names))),
        reference=code_of(named, schema) if named.level else 0,
    )


def is_comparison(factor: Factor) -> bool:
    """Return whether a factor is nothing but a comparison: R and patsy code it as a category, by false and true."""
    if isinstance(factor, LevelIs):
        return True
    inner = factor.operands[0] if isinstance(factor, Operation) and factor.rule == "I" else None
    return isinstance(inner, Operation) and inner.rule in COMPARED


def _indicators(factor: Factor, boxes: Mapping[str, Interval]) -> tuple[Expression, Expression]:
    """Return the indicators of a comparison's falsehood and truth, or refuse one that never, or always, holds."""
    if not isinstance(factor, Operation):
        raise TypeError("a level has no expression")
    bounds, one = bounds_of(factor, boxes), Number(value=1.0, source="1")
    if bounds.lower == bounds.upper:
        whom = "every row" if bounds.lower else "no row"
        raise refusal(factor.source, f"it holds for {whom} that the schema admits", "compare with a number in between")
    return Operation(rule="-", operands=(one, factor), source=factor.source), factor


def _compared(factor: Factor, schema: Schema) -> LevelIs | None:
    """Return the level that a factor asks for, ``I(x == "b")``, or ``I(x == 2)`` where x has levels."""
    if isinstance(factor, LevelIs):
        return factor
    if not isinstance(factor, Operation) or factor.rule != "I":
        return None
    (inner,) = factor.operands
    if not isinstance(inner, Operation) or inner.rule != "==" or not isinstance(inner.operands[0], Variable):
        return None
    name, number = inner.operands[0].name, inner.operands[1].source
    is_level = name in schema and isinstance(schema[name], Categorical)
    return LevelIs(name=name, level=number, source=factor.source) if is_level else None


def code_of(level: LevelIs, schema: Schema) -> int:
    """Return the place of a level among those of its column, by the names that the schema declares."""
    column = declared(level.name, schema)
    if isinstance(column, Categorical):
        names = column.levels
    elif isinstance(column, Binary):
        names = column.labels if column.labels and level.level in column.labels else BINARY_LEVELS
    else:
        reason = f"{level.name} is declared as {column.kind} and has no levels"
        raise refusal(level.source, reason, f"compare it with a number, as in I({level.name} > 50)")
    if level.level not in names:
        close = get_close_matches(level.level, names, n=1)
        listed = ", ".join(map(repr, itertools.islice(names, _SHOWN_COLUMNS)))
        remedy = f"did you mean {close[0]!r}?" if close else f"declared are {listed}"
        raise refusal(level.source, f"{level.name} has no level {level.level!r}", remedy)
    return names.index(level.level)


def boxes_of(parsed: ParsedFormula, schema: Schema) -> Iterator[tuple[str, Interval]]:
    """Yield the declared bounds of every column that is read as a number."""
    for term in parsed.terms:
        for factor in term.factors:
            if isinstance(factor, Categories) or _compared(factor, schema) is not None:
                continue
            if isinstance(factor, Variable) and isinstance(declared(factor.name, schema), Categorical):
                continue
            for name in columns_of(factor):
                yield name, _box(name, factor.source, schema)


def _box(name: str, source: str, schema: Schema) -> Interval:
    column = declared(name, schema)
    if isinstance(column, Weight):
        raise refusal(source, f"{name} is declared as a weight", f'give the model weights="{name}"')
    if isinstance(column, Offset):
        raise refusal(source, f"{name} is declared as an offset", f'write offset({name}), or offset="{name}"')
    if not isinstance(column, NumericColumn):
        remedy = f'write {name} or C({name}) on its own, or I({name} == "level")'
        raise refusal(source, f"{name} is a category, not a number", remedy)
    return Interval(column.lower, column.upper)


F = TypeVar("F", bound=Hashable)


def dummy_coded(
    terms: Sequence[Sequence[F]], *, categorical: Callable[[F], bool], intercept: bool
) -> tuple[frozenset[F], ...]:
    """Return, for each term, which of its factors are coded by dummies; its other categories are contrasts.

    Parameters
    ----------
    terms : sequence of sequences of factors
        The terms by increasing degree, without the intercept.
    categorical : callable
        Whether a factor is a category.
    intercept : bool
        Whether the model has an intercept.

    Examples
    --------
    >>> dummy_coded([("a",), ("a", "b")], categorical=str.islower, intercept=True)
    (frozenset(), frozenset({'a'}))
    """
    coded: list[frozenset[F]] = []
    earlier: list[frozenset[F]] = []
    first_is_due = not intercept
    for term in terms:
        members = frozenset(term)
        categories = [factor for factor in term if categorical(factor)]
        dummies = {factor for factor in categories if not _spanned(members - {factor}, earlier)}
        if first_is_due and categories:
            dummies.add(categories[0])
            first_is_due = False
        coded.append(frozenset(dummies))
        earlier.append(members)
    return tuple(coded)


def coded_levels(
    source: str, levels: Sequence[str], *, dummies: bool, reference: int = 0
) -> tuple[tuple[int, str], ...]:
    """Return the code of the level and the name of the column for each column of a category.

    Examples
    --------
    >>> coded_levels("size", ["<=20", "20-50", ">50"], dummies=False)
    ((1, 'size[T.20-50]'), (2, 'size[T.>50]'))
    >>> coded_levels("C(g)", ["a", "b"], dummies=True)
    ((0, 'C(g)[a]'), (1, 'C(g)[b]'))
    """
    if dummies:
        return tuple((code, f"{source}[{level}]") for code, level in enumerate(levels))
    return tuple((code, f"{source}[T.{level}]") for code, level in enumerate(levels) if code != reference)


def _spanned(rest: frozenset[F], earlier: Sequence[frozenset[F]]) -> bool:
    return not rest or any(rest <= term for term in earlier)
