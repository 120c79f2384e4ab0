"""What a formula may do with columns: how each operation maps values and bounds, and how anything else is refused.

Every operation works element by element, so that the value of a row depends on that row alone. Bounds are mapped by
interval arithmetic: what values an expression can take when its columns stay within their declared bounds.

An interval [a, b] holds every value that is reachable, and perhaps more: ``x - x`` gives [a - b, b - a].
Sums, products, quotients and powers are computed at the end points by the same rounded operations as the
values themselves; rounding keeps order, so no computed value falls outside.

A refusal names the offending piece, the reason and the remedy. Functions that formula users know from R, patsy or
formulaic, and that cannot be offered, have their remedy here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import final

import numpy as np

from hdpstats._base.errors import FormulaError
from hdpstats._base.typing import BoolArray, FloatArray

LARGEST = 1e150
"""Intervals that reach beyond this size are not used: a sum of squares of their values could overflow."""


@final
@dataclass(frozen=True, slots=True)
class Interval:
    """The closed interval [lower, upper].

    Examples
    --------
    >>> multiply(Interval(-1.0, 2.0), Interval(3.0, 4.0))
    Interval(lower=-4.0, upper=8.0)
    """

    lower: float
    upper: float

    @property
    def magnitude(self) -> float:
        """The largest absolute value."""
        return max(abs(self.lower), abs(self.upper))


def hull(*values: float) -> Interval:
    """Return the smallest interval that holds the values."""
    return Interval(min(values), max(values))


def identity(a: Interval) -> Interval:
    """Return the interval itself."""
    return a


def negative(a: Interval) -> Interval:
    """Return the image of a under x → -x."""
    return Interval(-a.upper, -a.lower)


def absolute(a: Interval) -> Interval:
    """Return the image of a under x → |x|."""
    if a.lower <= 0.0 <= a.upper:
        return Interval(0.0, a.magnitude)
    return hull(abs(a.lower), abs(a.upper))


def add(a: Interval, b: Interval) -> Interval:
    """Return the sums of members of a and b."""
    return Interval(a.lower + b.lower, a.upper + b.upper)


def subtract(a: Interval, b: Interval) -> Interval:
    """Return the differences of members of a and b."""
    return Interval(a.lower - b.upper, a.upper - b.lower)


def multiply(a: Interval, b: Interval) -> Interval:
    """Return the products of members of a and b."""
    return hull(a.lower * b.lower, a.lower * b.upper, a.upper * b.lower, a.upper * b.upper)


def divide(a: Interval, b: Interval) -> Interval:
    """Return the quotients of members of a and b; b must not hold zero."""
    return hull(a.lower / b.lower, a.lower / b.upper, a.upper / b.lower, a.upper / b.upper)


def larger(a: Interval, b: Interval) -> Interval:
    """Return the larger ones of members of a and b."""
    return Interval(max(a.lower, b.lower), max(a.upper, b.upper))


def smaller(a: Interval, b: Interval) -> Interval:
    """Return the smaller ones of members of a and b."""
    return Interval(min(a.lower, b.lower), min(a.upper, b.upper))


def power(exponent: int) -> Callable[[Interval], Interval]:
    """Return the map of an interval under x → x^exponent, for an exponent from 1 to 4."""

    def image(a: Interval) -> Interval:
        ends = hull(raise_to(a.lower, exponent), raise_to(a.upper, exponent))
        crosses = exponent % 2 == 0 and a.lower < 0.0 < a.upper
        return Interval(0.0, ends.upper) if crosses else ends

    return image


def raise_to(value: float, exponent: int) -> float:
    """Return value^exponent for an exponent from 1 to 4, by multiplication."""
    square = value * value
    return (value, square, square * value, square * square)[exponent - 1]


def increasing(function: Callable[[float], float]) -> Callable[[Interval], Interval]:
    """Return the map of an interval under an increasing function."""

    def image(a: Interval) -> Interval:
        return Interval(float(function(a.lower)), float(function(a.upper)))

    return image


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
        image=increasing(function),  # type: ignore[arg-type]  # a scalar gives a scalar
        admits=_positive,
        remedy="write log1p({x}) or declare a lower bound above 0",
    )


def _comparison(holds: Callable[..., BoolArray], *, increasing: bool) -> Rule:
    """Return the rule of a comparison, 1 where it holds, that increases or decreases in its first operand."""

    def image(a: Interval, b: Interval) -> Interval:
        low, high = (a.lower, a.upper) if increasing else (a.upper, a.lower)
        least, most = (b.upper, b.lower) if increasing else (b.lower, b.upper)
        return Interval(float(holds(low, least)), float(holds(high, most)))

    return Rule(values=_as_numbers(holds), image=image)


def _as_numbers(holds: Callable[..., BoolArray]) -> Callable[..., FloatArray]:
    def values(a: FloatArray, b: FloatArray) -> FloatArray:
        return np.asarray(holds(a, b), dtype=np.float64)

    return values


def _equality(a: Interval, b: Interval) -> Interval:
    apart, alike = a.upper < b.lower or b.upper < a.lower, a.lower == a.upper == b.lower == b.upper
    return Interval(float(alike), float(not apart))


def _inequality(a: Interval, b: Interval) -> Interval:
    equal = _equality(a, b)
    return Interval(1.0 - equal.upper, 1.0 - equal.lower)


COMPARED: Mapping[str, Rule] = MappingProxyType({
    ">": _comparison(np.greater, increasing=True),
    ">=": _comparison(np.greater_equal, increasing=True),
    "<": _comparison(np.less, increasing=False),
    "<=": _comparison(np.less_equal, increasing=False),
    "==": Rule(values=_as_numbers(np.equal), image=_equality),
    "!=": Rule(values=_as_numbers(np.not_equal), image=_inequality),
})  # fmt: skip

BINARY: Mapping[str, Rule] = MappingProxyType({
    "+": Rule(values=np.add, image=add),
    "-": Rule(values=np.subtract, image=subtract),
    "*": Rule(values=np.multiply, image=multiply),
    "/": Rule(
        values=np.divide,
        image=divide,
        admits=lambda a: not a.lower <= 0.0 <= a.upper,
        offends=lambda _: 0.0,
        remedy="divide by something that its bounds keep away from 0",
    ),
})  # fmt: skip

FUNCTIONS: Mapping[str, Rule] = MappingProxyType({
    "I": Rule(values=lambda values: values, image=identity),
    "log": _logarithm(np.log),
    "log2": _logarithm(np.log2),
    "log10": _logarithm(np.log10),
    "log1p": Rule(
        values=np.log1p,
        image=increasing(np.log1p),
        admits=lambda a: a.lower > -1.0,
        remedy="declare a lower bound above -1",
    ),
    "sqrt": Rule(
        values=np.sqrt,
        image=increasing(np.sqrt),
        admits=lambda a: a.lower >= 0.0,
        remedy="declare a lower bound of 0 or more",
    ),
    "exp": Rule(
        values=np.exp,
        image=increasing(np.exp),
        admits=lambda a: a.upper <= _LARGEST_EXP,
        offends=lambda a: a.upper,
        remedy=f"scale it so that the exponent stays below {_LARGEST_EXP:g}",
    ),
    "abs": Rule(values=np.abs, image=absolute),
})  # fmt: skip

PAIRED: Mapping[str, Rule] = MappingProxyType({
    "pmax": Rule(values=np.maximum, image=larger),
    "pmin": Rule(values=np.minimum, image=smaller),
})  # fmt: skip
"""Functions of two expressions."""

RULES: Mapping[str, Rule] = MappingProxyType({
    **BINARY,
    **COMPARED,
    **FUNCTIONS,
    **PAIRED,
    "negative": Rule(values=np.negative, image=negative),
    **{
        f"^{exponent}": Rule(
            values=partial(_power_values, exponent=exponent), image=power(exponent)
        )
        for exponent in range(1, LARGEST_EXPONENT + 1)
    },
})  # fmt: skip


_LONGEST_PIECE = 60

_LEARNS = "its value for one row depends on the other rows, so it would have to be learned from private rows"
_KNOTS = "its knots and constraints would be learned from private rows"
_SCALE = "write scale(x, mean=50, sd=10) with numbers that you know or that come from public rows"
_SPLINES = "write ns(x, knots=[40, 60]), ns(x, df=3) or rcs(x, 4), whose knots are declared or follow from public rows"
_NUMBER = "write a number that you know or that comes from public rows"
_CUT = "write cut(x, c(0, 50, 60, 100)) with the ends of the intervals"
_LEVELS = "declare the groups as a Categorical column of the schema"
_ORDER = "the order of the levels is the schema's"
_RENAMED = "it has another name here"
_SURVIVAL = "it belongs to another kind of model"

_FUNCTIONS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("center", "standardize", "std", "rescale", "zscore"), (_LEARNS, _SCALE)),
    **dict.fromkeys(("cr", "cc", "cs", "te", "pspline", "s"), (_KNOTS, _SPLINES)),
    **dict.fromkeys(("qcut", "bin", "ntile", "findInterval"), (_LEARNS, _CUT)),
    **dict.fromkeys(("hashed", "interval", "ifelse", "where"), ("it makes new groups", _LEVELS)),
    **dict.fromkeys(("lag", "lead", "diff", "cumsum"), (_LEARNS, "prepare such a column and declare it")),
    **dict.fromkeys(("rank", "mean", "median", "sd", "var", "min", "max", "sum", "quantile"), (_LEARNS, _NUMBER)),
    **dict.fromkeys(("ordered", "Treatment", "Sum", "Poly"), (_ORDER, 'write C(x, Treatment("level"))')),
    **dict.fromkeys(("Factor", "category"), (_RENAMED, "write factor(x) or C(x)")),
    **dict.fromkeys(("as.numeric", "float", "int"), ("a level is not a number", "declare it as Continuous")),
    "frailty": ("random effects of groups are not fitted", "factor(group) gives every group a fixed effect of its own"),
    "tt": (
        "an effect that changes in time is written in rows",
        "write Surv(start, stop, event) with a row for each spell",
    ),
    "ridge": ("penalties belong to the mechanism, which unshrinks them", "write the columns one by one"),
    "id": (_RENAMED, 'write cluster(id), and give the study unit="id"'),
    "Surv": (_SURVIVAL, "write it on the left of ~"),
    "interaction": (_RENAMED, "write a:b"),
    "pow": (_RENAMED, "write I(x^2)"),
    "ln": (_RENAMED, "write log(x)"),
    "np.maximum": (_RENAMED, "write pmax(x, 50)"),
    "np.minimum": (_RENAMED, "write pmin(x, 50)"),
    "weights": ("weights are not a term", 'give the model weights="column"'),
}

_NAMES = (
    *(
        "I",
        "C",
        "factor",
        "relevel",
        "cut",
        "scale",
        "log",
        "log2",
        "log10",
        "log1p",
        "sqrt",
        "exp",
        "abs",
        "pmax",
        "pmin",
    ),
    *("bs", "ns", "rcs", "poly", "offset", "strata", "cluster"),
)
_OFFERED = f"the functions are {', '.join(_NAMES)}"


def refusal(piece: str, reason: str, remedy: str) -> FormulaError:
    """Return the error ``piece: reason; remedy``, whose facts are ``term``, ``reason`` and ``remedy``."""
    shown = piece if len(piece) <= _LONGEST_PIECE else f"{piece[: _LONGEST_PIECE - 3]}..."
    shown = shown if shown.isprintable() else ascii(shown)[1:-1]
    return FormulaError(f"{shown}: {reason}; {remedy}", term=shown, reason=reason, remedy=remedy)


def function_refusal(name: str) -> FormulaError:
    """Return the error for a function that a formula cannot call."""
    close = get_close_matches(name, _NAMES, n=1) or get_close_matches(name.lower(), _NAMES, n=1)
    remedy = f"did you mean {close[0]}()?" if close else _OFFERED
    reason, remedy = _FUNCTIONS.get(name, ("a formula does not know this function", remedy))
    return refusal(f"{name}()", reason, remedy)
