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
from hdpstats._base.work import Operations
from hdpstats.formulas import splines
from hdpstats.formulas.lexer import quoted
from hdpstats.formulas.operations import LARGEST, PAIRED, RULES, Interval, refusal


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
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

    def image(self, *operands: Interval) -> Interval:
        """Return the interval of the values, given those of the operands; an error where it is not defined."""
        rule = RULES[self.rule]
        argument = self.operands[-1].source
        if not rule.admits(operands[-1]):
            reason = f"the schema lets {argument} be {rule.offends(operands[-1]):.6g}"
            raise refusal(self.source, reason, rule.remedy.format(x=argument))
        return _checked(rule.image(*operands), self.source)

    def values(self, *operands: FloatArray | float) -> FloatArray | float:
        """Return the values in every row, given those of the operands."""
        return RULES[self.rule].values(*operands)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Piecewise:
    """A piecewise polynomial of an expression."""

    pieces: splines.Pieces
    operand: "Expression"
    source: str = field(compare=False)

    @property
    def operands(self) -> tuple["Expression", ...]:
        """The expression, as those of an operation."""
        return (self.operand,)

    def image(self, operand: Interval) -> Interval:
        """Return the interval of the values, given that of the expression."""
        return _checked(splines.image(self.pieces, operand), self.source)

    def values(self, operand: FloatArray | float) -> FloatArray | float:
        """Return the values in every row, given those of the expression."""
        return splines.values(self.pieces, np.asarray(operand))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Categories:
    """A column read as categories, ``C(x)`` or ``factor(x)``.

    ``reference`` is the level that others are compared with; empty for the first one.
    """

    name: str
    reference: str = ""
    source: str = field(compare=False)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LevelIs:
    """Whether a column has a level, ``I(x == "level")``."""

    name: str
    level: str
    source: str = field(compare=False)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The intervals of ``cut(…)``, read as categories.

    Attributes
    ----------
    operand : Expression
        What is cut.
    breaks : tuple of float
        The ends of the intervals, increasing, perhaps infinite.
    right : bool
        Whether intervals hold their right ends, as in R, or their left ones.
    lowest : bool
        Whether the outermost end belongs to its interval too.
    labels : tuple of str
        The names of the intervals; empty for those that R gives.
    """

    operand: "Expression"
    breaks: tuple[float, ...]
    right: bool
    lowest: bool
    labels: tuple[str, ...]
    source: str = field(compare=False)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A column that is no term: ``offset(x)``, ``strata(x)`` or ``cluster(x)``."""

    role: str
    name: str
    source: str = field(compare=False)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Splines:
    """The columns ``bs(…)``, ``ns(…)`` or ``rcs(…)`` of an expression; see `hdpstats.formulas.bases`.

    Attributes
    ----------
    function : str
        ``"bs"``, ``"ns"`` or ``"rcs"``.
    operand : Expression
        The expression.
    degree : int
        The degree of the polynomials.
    knots : tuple of float or int
        The interior knots, or how many there are; of ``rcs`` all of them.
    lower, upper : float or None
        The boundary knots; None for the bounds of the expression.
    source : str
        The name of the factor: the call without boundary knots, and without knots where it says how many there are.
    call : str
        The whole call.
    """

    function: str
    operand: "Expression"
    degree: int
    knots: tuple[float, ...] | int
    lower: float | None
    upper: float | None
    source: str = field(compare=False)
    call: str = field(compare=False)


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


Expression = Variable | Number | Operation | Piecewise
Basis = Splines | Powers
"""A factor with several columns."""
Factor = Variable | Operation | Categories | LevelIs | Cut | Role | Basis
"""What the terms of a formula are made of."""


def columns_of(factor: Expression | Factor) -> Iterator[str]:
    """Yield the names of the columns of an expression from left to right, repeated as they are."""
    if isinstance(factor, Variable | Categories | LevelIs | Role):
        yield factor.name
    elif isinstance(factor, Splines | Powers | Cut):
        yield from columns_of(factor.operand)
    elif not isinstance(factor, Number):
        for operand in factor.operands:
            yield from columns_of(operand)


def written(expression: Expression) -> str:
    """Return a text that reads as the expression, with all parentheses: equal expressions have equal texts.

    A curve of a spline has none of its own, and stands as its factor's.

    >>> age = Variable(name="age", source="age")
    >>> written(Operation(rule="log", operands=(age,), source="log( age )"))
    'log(age)'
    """
    if isinstance(expression, Variable):
        return quoted(expression.name)
    if isinstance(expression, Number):
        return repr(expression.value) if expression.value >= 0.0 else f"(-{-expression.value!r})"
    parts = [written(operand) for operand in expression.operands]
    if isinstance(expression, Piecewise):
        return f"{expression.source}({parts[0]})"
    if expression.rule == "I":
        return parts[0]
    if expression.rule == "negative":
        return f"(-{parts[0]})"
    if expression.rule.startswith("^"):
        return f"({parts[0]}{expression.rule})"
    if expression.rule in PAIRED:
        return f"{expression.rule}({parts[0]}, {parts[1]})"
    if len(parts) == 2:
        return f"({parts[0]} {expression.rule} {parts[1]})"
    return f"{expression.rule}{parts[0]}" if parts[0].startswith("(") else f"{expression.rule}({parts[0]})"


def called(factor: Factor) -> str:
    """Return a text that reads as the factor: its name, or the whole call of a spline."""
    return factor.call if isinstance(factor, Splines) else factor.source


def bounds_of(expression: Expression, boxes: Mapping[str, Interval]) -> Interval:
    """Return the interval of an expression's values, given the intervals of its columns.

    Raises
    ------
    FormulaError
        If an operation is not defined everywhere in the bounds, or values can exceed 1e150 in size.

    Examples
    --------
    >>> nodes = Variable(name="nodes", source="nodes")
    >>> bounds_of(Operation(rule="^2", operands=(nodes,), source="nodes^2"), {"nodes": Interval(-1.0, 3.0)})
    Interval(lower=0.0, upper=9.0)
    """
    if isinstance(expression, Variable):
        return boxes[expression.name]
    if isinstance(expression, Number):
        return Interval(expression.value, expression.value)
    with np.errstate(all="ignore"):
        return expression.image(*(bounds_of(operand, boxes) for operand in expression.operands))


def evaluation_work(expression: Expression, rows: int) -> Operations:
    """Return what `bounded_values_of` takes in so many rows at most."""
    if isinstance(expression, Number):
        return Operations(steps=2.0)
    if isinstance(expression, Variable):
        return Operations(steps=10.0, passes=2.0 * rows)
    below = [evaluation_work(operand, rows) for operand in expression.operands]
    of_factor = Operations(steps=40.0, passes=6.0 * rows, functions=4.0 * rows)
    if isinstance(expression, Piecewise):
        of_factor = of_factor + splines.evaluation_work(expression.pieces, rows)
    return sum(below, of_factor)


def _checked(image: Interval, source: str) -> Interval:
    if not image.magnitude <= LARGEST:
        raise refusal(source, f"its values can exceed {LARGEST:g}", "scale the column first")
    return image


def values_of(expression: Expression, columns: Mapping[str, FloatArray]) -> FloatArray | float:
    """Return the value of an expression in every row; where an operation is not defined, it is not finite."""
    if isinstance(expression, Variable):
        return columns[expression.name]
    if isinstance(expression, Number):
        return expression.value
    with np.errstate(all="ignore"):
        return expression.values(*(values_of(operand, columns) for operand in expression.operands))


def bounded_values_of(
    expression: Expression, columns: Mapping[str, FloatArray], boxes: Mapping[str, Interval]
) -> tuple[FloatArray | float, Interval]:
    """Return the value of an expression in every row, and the interval in which all of them lie.

    Each step is clipped to its interval. Within the declared bounds that corrects nothing but the last digit
    of ``log``, ``exp`` and the like, and makes the map total: no step leaves the domain of the next one.
    """
    if isinstance(expression, Number):
        return expression.value, Interval(expression.value, expression.value)
    if isinstance(expression, Variable):
        image = boxes[expression.name]
        return np.clip(columns[expression.name], image.lower, image.upper), image
    pairs = [bounded_values_of(operand, columns, boxes) for operand in expression.operands]
    with np.errstate(all="ignore"):
        image = expression.image(*(interval for _, interval in pairs))
        values = expression.values(*(value for value, _ in pairs))
        return np.clip(values, image.lower, image.upper), image
