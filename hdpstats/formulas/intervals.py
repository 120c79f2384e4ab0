"""Interval arithmetic: what values an expression can take when its columns stay within their declared bounds.

An interval [a, b] holds every value that is reachable, and perhaps more: ``x - x`` gives [a - b, b - a].
Sums, products, quotients and powers are computed at the end points by the same rounded operations as the
values themselves; rounding keeps order, so no computed value falls outside.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

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
