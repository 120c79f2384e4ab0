r"""Columns of a design as polynomials: sums of products of atoms, with exact coefficients.

An *atom* is what the algebra of a formula does not take apart: a column, a function of one such as ``log(age)``, a
comparison, one column of a spline, or the indicator of one level of a category. With the rules

* ``1 = sum of all level indicators``, by which that of the first level is written as 1 less the others,
* an indicator times itself is itself, and indicators of two levels of one category exclude each other,
* a function of ``a x + b``, with a column ``x``, is one of ``x`` in a form of its own
  (`Affine`): ``log(2 * x)`` is ``log(x)`` and a constant, ``2 * x > 4`` is ``x > 2``,

two expressions are the same function of a row wherever their polynomials are equal. Coefficients are fractions, so that
nothing is rounded: ``scale(age, mean=50, sd=10)`` is ``age / 10 - 5``.

**Affine arguments.** Functions of ``a x + b`` have one form for all that differ in the unit and the origin of ``x``
alone. With ``a > 0``, :math:`\log(a x + b) = \log a + \log(x + b / a)`, :math:`\sqrt{a x + b} = \sqrt a \sqrt{x + b /
a}` and :math:`1 / (a x + b) = a^{-1} / (x + b / a)`; :math:`|a x + b| = |a| |x + b / a|` and :math:`e^{a x + b} = e^b
e^{a x}` whatever the sign of ``a``. Numbers ``a`` and ``b`` are fractions. A form is given only where the numbers that
it writes are exactly those that a float holds; logarithms, roots and exponentials of ``a`` and ``b`` are coefficients,
which may be rounded: whichever they are, the same function is meant.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import exp, log, sqrt
from typing import Final, final

from hdpstats.formulas.design import Design, DesignColumn, Level
from hdpstats.formulas.expressions import Expression, Number, Operation, Piecewise, Variable, written
from hdpstats.formulas.lexer import literal, quoted
from hdpstats.schema.columns import Categorical
from hdpstats.schema.schema import Schema

LOGARITHMS: Final = {"log": 1.0, "log2": log(2.0), "log10": log(10.0), "log1p": 1.0}
"""What logarithms are divided by to be those of another base; ``log1p`` is the logarithm of what is 1 more."""

_LARGEST_EXPONENT: Final = 300.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Affine:
    """``slope x + constant`` with a column ``x``; the slope is not 0."""

    variable: Variable
    slope: Fraction
    constant: Fraction

    @property
    def shift(self) -> Fraction:
        """``constant / slope``."""
        return self.constant / self.slope

    @property
    def is_exact(self) -> bool:
        """Whether the shift is a float."""
        return exactly(self.shift)

    @property
    def at_zero(self) -> tuple[Variable, Number]:
        """The column, and the value of it where the expression is 0."""
        return self.variable, number(-self.shift)

    @property
    def moved(self) -> Variable | Operation:
        """The column plus the shift."""
        if not self.shift:
            return self.variable
        return Operation(rule="+", operands=(self.variable, number(self.shift)), source="")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OwnForm:
    """``constant + factor * function``."""

    function: Operation
    factor: Fraction
    constant: Fraction = Fraction(0)


def exactly(value: Fraction) -> bool:
    """Return whether a number is one that a float holds."""
    return abs(value) < 2**1000 and Fraction(float(value)) == value


def number(value: Fraction) -> Number:
    """Return a number as formulas have it."""
    return Number(value=float(value), source=f"{float(value):g}")


def in_form(rule: str, argument: Affine) -> OwnForm | None:
    """Return a function of ``a x + b`` in its form; None where the function, or its numbers, have none.

    Examples
    --------
    >>> x = Variable(name="x", source="x")
    >>> found = in_form("log10", Affine(variable=x, slope=Fraction(10), constant=Fraction(10)))
    >>> found.function.rule, float(found.constant), round(float(found.factor), 6)
    ('log1p', 1.0, 0.434294)
    """
    if rule in LOGARITHMS:
        whole = argument
        if rule == "log1p":
            whole = Affine(variable=argument.variable, slope=argument.slope, constant=argument.constant + 1)
        if whole.slope < 0 or not whole.is_exact:
            return None
        base = LOGARITHMS[rule]
        function = (
            Operation(rule="log1p", operands=(whole.variable,), source="")
            if whole.shift == 1
            else Operation(rule="log", operands=(whole.moved,), source="")
        )
        constant = Fraction(0) if whole.slope == 1 else Fraction(log(whole.slope) / base)
        return OwnForm(function=function, factor=Fraction(1 / base), constant=constant)
    if rule == "exp":
        if not exactly(argument.slope) or abs(argument.constant) > _LARGEST_EXPONENT:
            return None
        scaled = Operation(rule="*", operands=(number(argument.slope), argument.variable), source="")
        operand = argument.variable if argument.slope == 1 else scaled
        return OwnForm(
            function=Operation(rule="exp", operands=(operand,), source=""), factor=Fraction(exp(argument.constant))
        )
    if not argument.is_exact:
        return None
    if rule == "sqrt" and argument.slope > 0:
        root = Operation(rule="sqrt", operands=(argument.moved,), source="")
        return OwnForm(function=root, factor=Fraction(sqrt(argument.slope)))
    if rule == "abs":
        size = Operation(rule="abs", operands=(argument.moved,), source="")
        return OwnForm(function=size, factor=abs(argument.slope))
    if rule == "/":
        inverse = Operation(rule="/", operands=(number(Fraction(1)), argument.moved), source="")
        return OwnForm(function=inverse, factor=1 / argument.slope)
    return None


MOST_MONOMIALS = 4000
"""A design whose columns have more summands in all is not taken apart."""

_COMPLEMENTS = {"<=": ">", "<": ">=", "!=": "=="}
_COMPARISONS = (">", ">=", "==")
COMPARED = (*_COMPARISONS, *_COMPLEMENTS)
"""The comparisons of expressions."""


class TooLargeError(Exception):
    """A polynomial has too many summands to be written out."""


@final
@dataclass(frozen=True, slots=True, order=True)
class Atom:
    """What is not taken apart.

    Attributes
    ----------
    text : str
        How it is written in a formula, inside ``I( )`` where it stands in parentheses; its identity.
    block : str
        The factor of several columns that it belongs to: a category's name or a spline; empty for a number.
    index, size : int
        Which column of the block it is, from 1, and how many there are, that of a reference level aside.
    once : bool
        Whether it is 0 or 1, hence equal to its square.
    """

    text: str
    block: str = ""
    index: int = 0
    size: int = 0
    once: bool = False


Monomial = tuple[tuple[Atom, int], ...]
"""Atoms with their powers, in order."""
Polynomial = Mapping[Monomial, Fraction]

ONE: dict[Monomial, Fraction] = {(): Fraction(1)}


def times(a: Monomial, b: Monomial) -> Monomial | None:
    """Return the product of two monomials; None where it is 0."""
    powers = dict(a)
    for atom, power in b:
        powers[atom] = 1 if atom.once else powers.get(atom, 0) + power
    levels = [atom.block for atom in powers if atom.once and atom.block]
    return None if len(set(levels)) < len(levels) else tuple(sorted(powers.items()))


def add(a: Polynomial, b: Polynomial, factor: Fraction = ONE[()]) -> Polynomial:
    """Return ``a + factor b``."""
    total = dict(a)
    for monomial, value in b.items():
        total[monomial] = total.get(monomial, Fraction(0)) + factor * value
    return {monomial: value for monomial, value in total.items() if value}


def multiply(a: Polynomial, b: Polynomial) -> Polynomial:
    """Return ``a b``; raise `TooLargeError` where it has too many summands."""
    if len(a) * len(b) > MOST_MONOMIALS:
        raise TooLargeError
    product: dict[Monomial, Fraction] = {}
    for one, left in a.items():
        for other, right in b.items():
            both = times(one, other)
            if both is not None:
                product[both] = product.get(both, Fraction(0)) + left * right
    return {monomial: value for monomial, value in product.items() if value}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What is needed to write the columns of designs on one schema as polynomials.

    Attributes
    ----------
    schema : Schema
        The declared columns.
    splines : mapping of Piecewise to Atom
        What a curve is as an atom.
    """

    schema: Schema
    splines: Mapping[Piecewise, Atom]

    def of(self, design: Design) -> list[Polynomial]:
        """Return the columns of a design; raise `TooLargeError` where they have too many summands."""
        found, size = [], 0
        for column in design.columns:
            found.append(self._column(column))
            size += len(found[-1])
            if size > MOST_MONOMIALS:
                raise TooLargeError
        return found

    def _column(self, column: DesignColumn) -> Polynomial:
        levels = map(self._indicator, column.levels)
        return reduce(multiply, (*map(self._expression, column.expressions), *levels), ONE)

    def _indicator(self, level: Level) -> Polynomial:
        own = self._level(level.column, level.code)
        return add(ONE, own, Fraction(-1)) if level.negated else own

    def _level(self, name: str, code: int) -> Polynomial:
        declared = self.schema[name]
        levels = declared.levels if isinstance(declared, Categorical) else ("0", "1")

        def atom(place: int) -> Atom:
            if not isinstance(declared, Categorical):  # 0 or 1, read as a category
                return Atom(quoted(name), once=True)
            text = f"({quoted(name)} == {literal(levels[place])})"
            return Atom(text, quoted(name), place, len(levels) - 1, once=True)

        if code:
            return _single(atom(code))
        return ONE | {((atom(place), 1),): Fraction(-1) for place in range(1, len(levels))}

    def _expression(self, expression: Expression) -> Polynomial:
        if isinstance(expression, Number):
            return {(): Fraction(expression.value)} if expression.value else {}
        if isinstance(expression, Variable):
            return _single(Atom(quoted(expression.name), once=self.schema[expression.name].kind == "binary"))
        if isinstance(expression, Piecewise):
            return _single(self.splines[expression])
        return self._operation(expression)

    def _operation(self, operation: Operation) -> Polynomial:
        rule, (first, *rest) = operation.rule, operation.operands
        if rule == "I":
            return self._expression(first)
        if rule in ("+", "-"):
            sign = Fraction(1 if rule == "+" else -1)
            return add(self._expression(first), self._expression(rest[0]), sign)
        if rule == "negative":
            return add({}, self._expression(first), Fraction(-1))
        if rule == "*":
            return multiply(self._expression(first), self._expression(rest[0]))
        if rule.startswith("^"):
            return reduce(multiply, [self._expression(first)] * int(rule[1:]))
        if rule == "/" and isinstance(rest[0], Number):
            return add({}, self._expression(first), 1 / Fraction(rest[0].value))
        if rule == "==" and isinstance(first, Variable) and self.schema[first.name].kind == "binary":
            other = self._expression(rest[0])
            if other in ({}, ONE):
                one = self._expression(first)
                return one if other else add(ONE, one, Fraction(-1))
        if rule in _COMPLEMENTS:
            whole = Operation(rule=_COMPLEMENTS[rule], operands=operation.operands, source="")
            return add(ONE, self._operation(whole), Fraction(-1))
        return self._function(operation)

    def _function(self, operation: Operation) -> Polynomial:
        """Return what is no algebra: a function, a quotient or a comparison, in its own form where it has one."""
        rule, (first, *rest) = operation.rule, operation.operands
        if rule in _COMPARISONS:
            difference = self.affine(Operation(rule="-", operands=(first, rest[0]), source=""))
            if difference is not None and difference.slope < 0 and rule != "==":
                opposite = Operation(rule="<" if rule == ">" else "<=", operands=difference.at_zero, source="")
                return self._operation(opposite) if difference.is_exact else _single(_atom(operation))
            if difference is not None and difference.is_exact:
                return _single(_atom(Operation(rule=rule, operands=difference.at_zero, source="")))
            return _single(_atom(operation))
        argument = self.affine(rest[0] if rule == "/" else first)
        found = None if argument is None else in_form(rule, argument)
        if found is None:
            return _single(_atom(operation))
        own = add({(): found.constant} if found.constant else {}, _single(_atom(found.function)), found.factor)
        return multiply(self._expression(first), own) if rule == "/" else own

    def affine(self, expression: Expression) -> Affine | None:
        """Return an expression as ``a x + b`` with a column ``x``; None where it is none, or more than that."""
        polynomial = dict(self._expression(expression))
        constant = polynomial.pop((), Fraction(0))
        if len(polynomial) != 1:
            return None
        ((monomial, slope),) = polynomial.items()
        names = {quoted(name): name for name, column in self.schema.items() if not isinstance(column, Categorical)}
        if len(monomial) != 1 or monomial[0][1] != 1 or monomial[0][0].text not in names or monomial[0][0].block:
            return None
        name = names[monomial[0][0].text]
        return Affine(variable=Variable(name=name, source=quoted(name)), slope=slope, constant=constant)

    def settles(self, expression: Expression) -> bool:
        """Whether an expression is a polynomial in columns and in functions of ``a x + b`` that have a form here."""
        if isinstance(expression, Variable | Number):
            return True
        if isinstance(expression, Piecewise):
            return False
        rule, (first, *rest) = expression.rule, expression.operands
        if rule in ("I", "+", "-", "*", "negative") or rule.startswith("^"):
            return all(map(self.settles, expression.operands))
        if rule == "/" and isinstance(rest[0], Number):
            return self.settles(first)
        if rule in COMPARED:
            found = self.affine(Operation(rule="-", operands=(first, rest[0]), source=""))
        else:
            found = self.affine(rest[0] if rule == "/" else first)
        return found is not None and found.is_exact


def _atom(operation: Operation) -> Atom:
    return Atom(written(operation), once=operation.rule in _COMPARISONS)


def _single(atom: Atom) -> Polynomial:
    return {((atom, 1),): Fraction(1)}
