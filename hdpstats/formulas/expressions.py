"""Expressions of a formula, and their two readings: the values they take and the bounds of those values.

An expression is a tree of columns, numbers, the operations of `hdpstats.formulas.operations` and the curves of
`hdpstats.formulas.splines`; nothing else can be built, and nothing is handed to an evaluator of Python. Two expressions
are equal when they mean the same, however they are spelled: ``I(x^2)`` is ``I(x**2)``, ``factor(x)`` is ``C(x)``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.formulas import splines
from hdpstats.formulas.intervals import LARGEST, Interval
from hdpstats.formulas.operations import RULES
from hdpstats.formulas.refusals import refusal


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the schema."""

    name: str
    source: str = field(compare=False)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number written in the formula."""

    value: float
    source: str = field(compare=False)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A rule of `operations.RULES` applied to one or two expressions."""

    rule: str
    operands: tuple["Expression", ...]
    source: str = field(compare=False)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A piecewise polynomial of an expression."""

    pieces: splines.Pieces
    operand: "Expression"
    source: str = field(compare=False)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Categories:
    """A column read as categories, ``C(x)`` or ``factor(x)``."""

    name: str
    source: str = field(compare=False)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Splines:
    """The columns ``bs(…)`` or ``ns(…)`` of an expression; see `hdpstats.formulas.bases`.

    Attributes
    ----------
    function : str
        ``"bs"`` or ``"ns"``.
    operand : Expression
        The expression.
    degree : int
        The degree of the polynomials.
    knots : tuple of float or int
        The interior knots, or how many equally spaced ones there are.
    lower, upper : float or None
        The boundary knots; None for the bounds of the expression.
    """

    function: str
    operand: "Expression"
    degree: int
    knots: tuple[float, ...] | int
    lower: float | None
    upper: float | None
    source: str = field(compare=False)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Powers:
    """The columns ``poly(…)``: powers of ``(expression - centre) / spread``.

    Without ``centre`` and ``spread`` these are the middle and half the width of the expression's bounds.
    """

    operand: "Expression"
    degree: int
    centre: float | None
    spread: float | None
    source: str = field(compare=False)


Expression = Column | Number | Operation | Curve
Basis = Splines | Powers
"""A factor with several columns."""
Factor = Column | Operation | Categories | Basis
"""What the terms of a formula are made of."""


def columns_of(factor: Expression | Factor) -> Iterator[str]:
    """Yield the names of the columns of an expression from left to right, repeated as they are."""
    if isinstance(factor, Column | Categories):
        yield factor.name
    elif isinstance(factor, Curve | Splines | Powers):
        yield from columns_of(factor.operand)
    elif isinstance(factor, Operation):
        for operand in factor.operands:
            yield from columns_of(operand)


def bounds_of(expression: Expression, boxes: Mapping[str, Interval]) -> Interval:
    """Return the interval of an expression's values, given the intervals of its columns.

    Raises
    ------
    FormulaError
        If an operation is not defined everywhere in the bounds, or values can exceed 1e150 in size.

    Examples
    --------
    >>> nodes = Column(name="nodes", source="nodes")
    >>> bounds_of(Operation(rule="^2", operands=(nodes,), source="nodes^2"), {"nodes": Interval(-1.0, 3.0)})
    Interval(lower=0.0, upper=9.0)
    """
    if isinstance(expression, Column):
        return boxes[expression.name]
    if isinstance(expression, Number):
        return Interval(expression.value, expression.value)
    if isinstance(expression, Curve):
        return _curve_image(expression, bounds_of(expression.operand, boxes))
    return _image(expression, tuple(bounds_of(operand, boxes) for operand in expression.operands))


def _image(operation: Operation, operands: tuple[Interval, ...]) -> Interval:
    rule = RULES[operation.rule]
    argument = operation.operands[-1].source
    if not rule.admits(operands[-1]):
        reason = f"the schema lets {argument} be {rule.offends(operands[-1]):.6g}"
        raise refusal(operation.source, reason, rule.remedy.format(x=argument))
    with np.errstate(all="ignore"):
        return _checked(rule.image(*operands), operation.source)


def _curve_image(curve: Curve, operand: Interval) -> Interval:
    return _checked(splines.image(curve.pieces, operand), curve.source)


def _checked(image: Interval, source: str) -> Interval:
    if not image.magnitude <= LARGEST:
        raise refusal(source, f"its values can exceed {LARGEST:g}", "scale the column first")
    return image


def values_of(expression: Expression, columns: Mapping[str, FloatArray]) -> FloatArray | float:
    """Return the value of an expression in every row; where an operation is not defined, it is not finite."""
    if isinstance(expression, Column):
        return columns[expression.name]
    if isinstance(expression, Number):
        return expression.value
    if isinstance(expression, Curve):
        return splines.values(expression.pieces, np.asarray(values_of(expression.operand, columns)))
    operands = [values_of(operand, columns) for operand in expression.operands]
    with np.errstate(all="ignore"):
        return RULES[expression.rule].values(*operands)


def bounded_values_of(
    expression: Expression, columns: Mapping[str, FloatArray], boxes: Mapping[str, Interval]
) -> tuple[FloatArray | float, Interval]:
    """Return the value of an expression in every row, and the interval in which all of them lie.

    Each step is clipped to its interval. Within the declared bounds that corrects nothing but the last digit
    of ``log``, ``exp`` and the like, and makes the map total: no step leaves the domain of the next one.
    """
    if isinstance(expression, Number):
        return expression.value, Interval(expression.value, expression.value)
    if isinstance(expression, Column):
        image = boxes[expression.name]
        return np.clip(columns[expression.name], image.lower, image.upper), image
    if isinstance(expression, Curve):
        values, within = bounded_values_of(expression.operand, columns, boxes)
        image = _curve_image(expression, within)
        return np.clip(splines.values(expression.pieces, np.asarray(values)), image.lower, image.upper), image
    pairs = [bounded_values_of(operand, columns, boxes) for operand in expression.operands]
    image = _image(expression, tuple(interval for _, interval in pairs))
    with np.errstate(all="ignore"):
        values = RULES[expression.rule].values(*(value for value, _ in pairs))
        return np.clip(values, image.lower, image.upper), image
