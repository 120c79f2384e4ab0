r"""What exact samplers are made of: random bits of the operating system, and numbers without rounding errors.

How long a draw made of these bits may take is said here too.

Every bit that protects a release is read from the kernel's generator (`os.urandom`) when it is first used. There is no
seed and no generator of our own. When the kernel cannot deliver, the error of `os.urandom` propagates; there is no
second source.

**One charge, one draw.** A proof about a mechanism speaks of one draw of its noise. Were the noise drawn anew when a
computation that was interrupted or failed is done again, the release would be the first draw that did not fail, or the
fastest of several, and no proof covers that. So the bits of one charged request are those of one `Draw`: while it is in
use, what the operating system delivered is kept in order, and a computation that begins again meets the same bits. The
release is then a function of the rows and of one random sequence, whenever and however often it is computed. A draw
lives in the memory of one process, for as long as its request has no release.

**Length.** Every sampler of this package proposes and keeps, and every loop in it ends at each turn with a probability
that is known beforehand. So a draw has no longest time, and the time of one draw varies about its mean.

**What the time discloses.** Proposals that are not kept, and how many there were, are independent of the one that is
kept, hence of the noise; and they are independent of all records. A draw that takes very long because of them discloses
nothing. What depends on the size of the noise is the number of coins of the proposal that *is* kept: a
coordinate at z takes about ``rate |z|`` coins for exp(-1) (`hdpstats.noise.discrete`), in `hdpstats.noise.normal`
|z| / sd coins for exp(-1/2). More than u of them have probability at most :math:`e^{-u}` for a coordinate, so 42 are
exceeded with a probability below :math:`2^{-60}`; the mean of a whole draw is above that for all but a few
coordinates, and a coin takes a microsecond.

**Public lengths.** In a rehearsal (`hdpstats._base.rehearsal`) a draw is made as often as its time is ever exceeded by
one draw:

* a vector that is kept or rejected as a whole (ball, cylinder, box): `WHOLE` times. The moment generating functions of
  the halves give, for each dimension (tested up to 465), that a draw takes more than 16, 23 and 44 times its mean with
  probabilities below :math:`2^{-20}`, :math:`2^{-30}` and :math:`2^{-60}`. (With a fourth of its proposals kept, a
  number that is geometric exceeds 16 times its mean with a probability below :math:`2^{-23}`.)
* ``n`` independent numbers: `spare` (n) more; one number takes microseconds and is drawn once. With at least .28 of its
  proposals kept, the sum of n geometric numbers of proposals exceeds the mean of :math:`n + 64 + 8 \sqrt n` of them
  with a probability below :math:`2^{-60}` (Chernoff's bound); the other :math:`8 \sqrt n` allow as much for the
  rehearsal itself.

**Numbers.** Rates and grids are rational. The last bits of a released double must not disclose what it was computed
from (Mironov 2012; Haney et al. 2022). So a query is rounded onto a public grid first, exactly; integer noise is added;
and the integers are turned back into doubles, which is post-processing. Rounding moves each coordinate by at most half
a grid step, hence neighbouring queries with ||q - q'||_2 <= S have lattice points with ||z - z'||_2 <= S/grid +
sqrt(d).

References
----------
I. Mironov (2012), On significance of the least significant bits for differential privacy.
S. Haney, D. Desfontaines, L. Hartman, R. Shrestha, M. Hay (2022), Precision-based attacks.
"""

import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from numbers import Rational
from typing import Final, final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.rehearsal import full_length
from hdpstats._base.typing import FloatArray


def system_bytes(count: int) -> bytes:
    """Return bytes of the operating system's generator: the one place where entropy is read."""
    return os.urandom(count)


@final
class Draw:
    """The random bytes of one charged request: read once, and the same ones in the same order ever after.

    Where a thread computes under a draw (`drawing`) nobody else may: a lock of the caller's keeps others waiting. The
    bytes are as secret as the noise that is made of them.
    """

    __slots__ = ("_kept", "_place", "_process")

    def __init__(self) -> None:
        self._process = os.getpid()
        self._kept = bytearray()
        self._place = 0

    def read(self, count: int) -> bytes:
        """Return the next bytes, from memory where they were read before; in a forked process nothing."""
        if self._process != os.getpid():
            raise RuntimeError("a draw belongs to the process that began it")
        end = self._place + count
        if self._place == len(self._kept):
            content = system_bytes(count)
            self._kept += content
        else:
            if end > len(self._kept):
                self._kept += system_bytes(end - len(self._kept))
            content = bytes(self._kept[self._place : end])
        self._place = end
        return content

    def is_here(self) -> bool:
        """Whether this process began the draw: a fork of it must not use the same bytes."""
        return self._process == os.getpid()

    def begin(self) -> None:
        """Go back to the first byte."""
        self._place = 0

    def __repr__(self) -> str:
        return "<draw>"


_CURRENT: ContextVar[Draw | None] = ContextVar("the draw that bits come from", default=None)


@contextmanager
def drawing(draw: Draw) -> Iterator[None]:
    """Let all bits that this thread uses come from one draw, beginning with its first."""
    draw.begin()
    token = _CURRENT.set(draw)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def bits(count: int) -> int:
    """Return an integer uniform on {0, ..., 2^count - 1}."""
    size = (count + 7) >> 3
    draw = _CURRENT.get()
    read = system_bytes(size) if draw is None else draw.read(size)
    return int.from_bytes(read, "little") >> (-count & 7)


def below(bound: int) -> int:
    """Return an integer uniform on {0, ..., bound - 1}, by rejection: exact for every bound >= 1."""
    if bound < 1:
        raise ArgumentError(f"bound must be at least 1, not {bound}", argument="bound")
    length = (bound - 1).bit_length()
    while True:
        value = bits(length)
        if value < bound:
            return value


WHOLE: Final = 32
"""How often a vector is drawn in a rehearsal that is kept or rejected as a whole."""


def repeated() -> range:
    """Return how often such a vector is drawn: `WHOLE` times in a rehearsal, else once. The last one counts."""
    return range(WHOLE if full_length() else 1)


def spare(count: int) -> int:
    """Return how many numbers are drawn in a rehearsal beside so many independent ones; none else.

    >>> spare(100)
    0
    """
    return most_drawn(count) - count if full_length() else 0


def most_drawn(count: int) -> int:
    """Return how many numbers take as long as so many independent ones ever do.

    >>> most_drawn(100)
    324
    """
    return count + 64 + 16 * math.isqrt(count)


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
