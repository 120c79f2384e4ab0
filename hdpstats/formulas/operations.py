"""The operations of a formula: how each maps a column, how it maps bounds, and where it is defined.

Every operation works element by element, so that the value of a row depends on that row alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.formulas import intervals
from hdpstats.formulas.intervals import Interval

LARGEST_EXPONENT = 4
_LARGEST_EXP = 50.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What one operation does.

    Attributes
    ----------
    values : callable
        The map of one or two columns, element by element.
    image : callable
        The same map of intervals.
    admits : callable
        Whether the operation is defined on every member of an interval (of its last operand).
    offends : callable
        A member of the interval on which it is not defined, to be named in the error.
    remedy : str
        What to write instead; ``{x}`` stands for the operand.
    """

    values: Callable[..., FloatArray]
    image: Callable[..., Interval]
    admits: Callable[[Interval], bool] = lambda _: True
    offends: Callable[[Interval], float] = lambda a: a.lower
    remedy: str = ""


def _positive(a: Interval) -> bool:
    return a.lower > 0.0


def _power_values(values: FloatArray, *, exponent: int) -> FloatArray:
    square = np.multiply(values, values)
    if exponent == 1:
        return values
    if exponent == 2:
        return square
    return np.multiply(square, values if exponent == 3 else square)


def _logarithm(function: Callable[..., FloatArray]) -> Rule:
    return Rule(
        values=function,
        image=intervals.increasing(function),  # type: ignore[arg-type]  # a scalar gives a scalar
        admits=_positive,
        remedy="write log1p({x}) or declare a lower bound above 0",
    )


BINARY: Mapping[str, Rule] = MappingProxyType({
    "+": Rule(values=np.add, image=intervals.add),
    "-": Rule(values=np.subtract, image=intervals.subtract),
    "*": Rule(values=np.multiply, image=intervals.multiply),
    "/": Rule(
        values=np.divide,
        image=intervals.divide,
        admits=lambda a: not a.lower <= 0.0 <= a.upper,
        offends=lambda _: 0.0,
        remedy="divide by something that its bounds keep away from 0",
    ),
})  # fmt: skip

FUNCTIONS: Mapping[str, Rule] = MappingProxyType({
    "I": Rule(values=lambda values: values, image=intervals.identity),
    "log": _logarithm(np.log),
    "log2": _logarithm(np.log2),
    "log10": _logarithm(np.log10),
    "log1p": Rule(
        values=np.log1p,
        image=intervals.increasing(np.log1p),
        admits=lambda a: a.lower > -1.0,
        remedy="declare a lower bound above -1",
    ),
    "sqrt": Rule(
        values=np.sqrt,
        image=intervals.increasing(np.sqrt),
        admits=lambda a: a.lower >= 0.0,
        remedy="declare a lower bound of 0 or more",
    ),
    "exp": Rule(
        values=np.exp,
        image=intervals.increasing(np.exp),
        admits=lambda a: a.upper <= _LARGEST_EXP,
        offends=lambda a: a.upper,
        remedy=f"scale it so that the exponent stays below {_LARGEST_EXP:g}",
    ),
    "abs": Rule(values=np.abs, image=intervals.absolute),
})  # fmt: skip

RULES: Mapping[str, Rule] = MappingProxyType({
    **BINARY,
    **FUNCTIONS,
    "negative": Rule(values=np.negative, image=intervals.negative),
    **{
        f"^{exponent}": Rule(
            values=partial(_power_values, exponent=exponent), image=intervals.power(exponent)
        )
        for exponent in range(1, LARGEST_EXPONENT + 1)
    },
})  # fmt: skip
