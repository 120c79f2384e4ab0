"""Between doubles and the lattice grid·Z^d, without error: lifting, and bounds of rationals.

The last bits of a released double must not disclose what it was computed from (Mironov 2012; Haney et al.
2022). So a query is rounded onto a public grid first, exactly; integer noise is added; and the integers are
turned back into doubles, which is post-processing. Rounding moves each coordinate by at most half a grid
step, hence neighbouring queries with ||q - q'||_2 <= S have lattice points with ||z - z'||_2 <= S/grid +
sqrt(d).

References
----------
I. Mironov (2012), On significance of the least significant bits for differential privacy.
S. Haney, D. Desfontaines, L. Hartman, R. Shrestha, M. Hay (2022), Precision-based attacks.
"""

import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from numbers import Rational

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray

_ROOT_BITS = 64
_LARGEST_EXPONENT = 256


def positive_rational(value: object, *, name: str) -> Fraction:
    """Return a rate, a grid step or a radius of a noise distribution as a fraction in [2^-256, 2^256].

    Floats are refused: whether 0.1 means 1/10 or the double next to it is the caller's to say. Within these
    limits the squared norm of a draw is a finite double, so a sampler built from them never raises.
    """
    if isinstance(value, bool) or not isinstance(value, Rational):
        raise ArgumentError(f"{name} must be a Fraction, not {type(value).__name__}", argument=name)
    number = Fraction(int(value.numerator), int(value.denominator))
    if not Fraction(1, 1 << _LARGEST_EXPONENT) <= number <= 1 << _LARGEST_EXPONENT:
        raise ArgumentError(
            f"{name} must be between 2^-{_LARGEST_EXPONENT} and 2^{_LARGEST_EXPONENT}; rescale the query",
            argument=name,
        )
    return number


def lift(integers: Sequence[int], grid: Fraction) -> FloatArray:
    """Return the doubles nearest to integers · grid.

    Beyond the range of doubles that is the largest double of that sign. The conversion is exact while the
    grid is a power of two and |integer| <= 2^53. It is post-processing in any case.

    Examples
    --------
    >>> lift([3, -1], Fraction(1, 4)).tolist()
    [0.75, -0.25]
    """
    top, bottom = grid.numerator, grid.denominator
    return np.array([_nearest(integer * top, bottom) for integer in integers], dtype=np.float64)


def _nearest(top: int, bottom: int) -> float:
    """Return the double nearest to top / bottom, as Python divides integers; beyond the range the largest one."""
    try:
        return top / bottom
    except OverflowError:
        return sys.float_info.max if top > 0 else -sys.float_info.max


def exact(value: float) -> Fraction:
    """Return the rational number that a finite double is: 0.1 is 3602879701896397 / 2^55, not 1/10.

    For computed constants, where the double itself is the bound. What a user typed is read by
    `hdpstats._base.validation.exact`, which returns 1/10.
    """
    if not math.isfinite(value):
        raise ArgumentError("value must be a finite number", argument="value")
    return Fraction(value)


def power_of_two_below(x: Fraction) -> Fraction:
    """Return the largest power of two (of either sign of exponent) that is at most x > 0.

    Examples
    --------
    >>> power_of_two_below(Fraction(3, 10))
    Fraction(1, 4)
    """
    if not x > 0:
        raise ArgumentError("x must be above 0 to have a power of two below it", argument="x")
    power = Fraction(2) ** (x.numerator.bit_length() - x.denominator.bit_length())
    return power if power <= x else power / 2


def round_down(x: Fraction, bits: int) -> Fraction:
    """Return a dyadic number in [x - 2^(1-bits) |x|, x], so never 0 for x > 0, with a short numerator.

    Rates are rounded down: less privacy loss, and short integers in the samplers.
    """
    unit = Fraction(2) ** (x.numerator.bit_length() - x.denominator.bit_length() - bits)
    return math.floor(x / unit) * unit


def sqrt_down(x: Fraction) -> Fraction:
    """Return a dyadic r with r <= sqrt(x) <= r (1 + 2^-63), equal where the root is a short dyadic number."""
    return _root(x)[0]


def sqrt_up(x: Fraction) -> Fraction:
    """Return a dyadic r with r (1 - 2^-63) <= sqrt(x) <= r, equal where the root is a short dyadic number.

    Examples
    --------
    >>> sqrt_up(Fraction(2)) ** 2 > 2 > sqrt_down(Fraction(2)) ** 2
    True
    """
    return _root(x)[1]


def _root(x: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds of sqrt(x) from the integer root of x 4^shift, which has 64 binary digits or more."""
    if x < 0:
        raise ArgumentError("x must be at least 0 to have a square root", argument="x")
    shift = max(0, _ROOT_BITS + 1 - (x.numerator.bit_length() - x.denominator.bit_length()) // 2)
    scaled = x * (1 << (2 * shift))
    root = math.isqrt(math.floor(scaled))
    return Fraction(root, 1 << shift), Fraction(root + (root * root != scaled), 1 << shift)
