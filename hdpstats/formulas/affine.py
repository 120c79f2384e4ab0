r"""Functions of ``a x + b`` in a form of their own: one for all that differ in the unit and the origin of ``x`` alone.

With ``a > 0``, :math:`\log(a x + b) = \log a + \log(x + b / a)`, :math:`\sqrt{a x + b} = \sqrt a \sqrt{x + b / a}` and
:math:`1 / (a x + b) = a^{-1} / (x + b / a)`; :math:`|a x + b| = |a| |x + b / a|` and :math:`e^{a x + b} = e^b e^{a x}`
whatever the sign of ``a``. Numbers ``a`` and ``b`` are fractions.
A form is given only where the numbers that it writes are exactly those that a float holds; logarithms, roots and
exponentials of ``a`` and ``b`` are coefficients, which may be rounded: whichever they are, the same function is meant.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import exp, log, sqrt
from typing import Final, final

from hdpstats.formulas.expressions import Number, Operation, Variable

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
