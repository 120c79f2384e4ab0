"""Exact normal noise: rounded to a lattice, and on the integers of an interval, tilted towards one of them.

**Rounded** normal noise is the Gaussian mechanism without floating point. A real number of the normal distribution is
drawn digit by digit in integer arithmetic, and only as many of its digits as deciding needs: its rounding to the
lattice is exact, and the rest of it is never drawn. For a query whose values lie on the lattice, adding the rounded
draw is the same as adding the real one and rounding the sum, which is post-processing. So what holds for the Gaussian
mechanism on real numbers holds here without a correction: the release is exactly mu-GDP, and composes exactly (Dong,
Roth and Su 2022). A discrete normal distribution on the lattice (Canonne, Kamath and Steinke 2020) is close to that,
but only close.

The sampler is Karney's (2016, algorithm N). A positive y of density ∝ exp(-y²/2) is k + x with a whole number k and
x in [0, 1):

1. k has probability ∝ exp(-k/2), by coins for exp(-1/2) until tails;
2. it is kept with probability exp(-k(k-1)/2), which makes that ∝ exp(-k²/2);
3. x, uniform, is kept with probability exp(-x(2k + x)/2), which makes that ∝ exp(-(k + x)²/2); else start again.

The coin of step 3 has an irrational exponent of which only some digits are known; `bernoulli_exp_real` asks for
more digits *of the same x* when it cannot decide without them. Whatever is decided holds for all digits that are
not drawn yet, so these stay uniform, and the rounding continues with the same x. An attempt is kept with
probability .49. How many are needed does not depend on any query; for the time see `hdpstats.noise.exact`.

**Tilted** normal noise on the integers of an interval is what a convex function allows to propose: above its smallest
value on an interval such a function grows at least linearly, where the interval ends there, and by a square.

The sampler is Devroye's for logarithmically concave distributions. With ``f(j) = slope j + curvature j^2`` and the
smallest ``w`` at which ``f(w) >= 1``, convexity gives ``f(j) >= b`` for all ``j >= b w``. So a block ``b`` of ``w``
integers is proposed with probability ∝ exp(-b), an integer of it uniformly, and it is kept with probability exp(b -
f(j)).

**Work.** As ``f < 1`` below ``w``, where the block ``b = 0`` is proposed with probability 1 - 1/e, an integer of one
side is kept with probability at least (1 - 1/e) / e = .23, and of two sides, one of which may be cut short, .116. How
often depends on the interval, which may be private: at most 8.7 proposals on average. A rehearsal makes `PROPOSALS`,
so that what many draws need in all stays below it; what one draw needs is short.

References
----------
C. F. F. Karney (2016), Sampling exactly from the normal distribution. ACM Transactions on Mathematical Software.
J. Dong, A. Roth, W. J. Su (2022), Gaussian differential privacy.
C. L. Canonne, G. Kamath, T. Steinke (2020), The discrete Gaussian for differential privacy.
L. Devroye (1987), A simple generator for discrete log-concave distributions.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import final

from hdpstats._base.errors import ArgumentError
from hdpstats._base.rehearsal import full_length
from hdpstats._base.validation import integer
from hdpstats._base.work import Operations
from hdpstats.noise.discrete import bernoulli_exp, bernoulli_exp_one, bernoulli_exp_real, decide_exactly, exp_bounds
from hdpstats.noise.exact import below, bits, most_drawn, positive_rational, spare
from hdpstats.noise.knorm import LARGEST_DIMENSION

_DIGITS = 64
_ULP = 2.0**-_DIGITS
_HALF_LOWER, _HALF_UPPER = exp_bounds(1 << (_DIGITS - 1), 1 << (_DIGITS - 1), precision=_DIGITS)


@final
class _Uniform:
    """A real number x in [0, 1) of which the first binary digits are known: x is in [digits, digits + 1) 2^-known."""

    __slots__ = ("digits", "known")

    def __init__(self) -> None:
        self.digits, self.known = bits(_DIGITS), _DIGITS

    def extend(self, known: int) -> None:
        """Draw further digits, up to so many in all. Those already seen stay."""
        if known > self.known:
            self.digits = (self.digits << (known - self.known)) | bits(known - self.known)
            self.known = known


def _half_coin() -> bool:
    """Return True with probability exactly exp(-1/2)."""
    digits = bits(_DIGITS)
    if digits < _HALF_LOWER:
        return True
    if digits >= _HALF_UPPER:
        return False
    return decide_exactly(digits, _DIGITS, lambda precision: (1 << (precision - 1), 1 << (precision - 1)))


def _keep(x: _Uniform, whole: int) -> bool:
    """Return True with probability exactly exp(-t), t = x (2 whole + x) / 2.

    In doubles, x is off by at most 2^-53 and 2^-64 for its unknown digits, so t by (whole + 1) 2^-52 and three
    roundings of it, together below (whole + 1) 2^-50. With n digits of x, t is known to (whole + 1) 2^-n.
    """

    def bounds(precision: int) -> tuple[int, int]:
        x.extend(precision + whole.bit_length() + 1)
        n, lower = x.known, x.digits
        upper = lower + 1
        shift = 2 * n + 1 - precision
        top = 2 * whole << n
        return lower * (top + lower) >> shift, -(-upper * (top + upper) >> shift)

    estimate = x.digits * _ULP
    return bernoulli_exp_real(estimate * (2 * whole + estimate) / 2, (whole + 1) * 2.0**-50, bounds)


def _half_normal() -> tuple[int, _Uniform]:
    """Return the whole part and the fraction of a draw of the density ∝ exp(-y²/2), y > 0."""
    while True:
        whole = 0
        while _half_coin():
            whole += 1
        if whole > 1 and not bernoulli_exp(whole * (whole - 1), 2):
            continue
        x = _Uniform()
        if _keep(x, whole):
            return whole, x


def _rounded(whole: int, x: _Uniform, ratio: Fraction) -> int:
    """Return the whole number nearest to ratio (whole + x); draw digits of x until it is the same for all the rest."""
    p, q = ratio.numerator, ratio.denominator
    while True:
        lower, half = (whole << x.known) + x.digits, q << x.known
        nearest = (2 * p * lower + half) // (2 * half)
        if nearest == (2 * p * (lower + 1) + half) // (2 * half):
            return nearest
        x.extend(2 * x.known + p.bit_length())


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedNormal:
    """Integer noise: round(X / grid) for X exactly normal with variance sd² in each of independent coordinates.

    *As a mechanism.* Let z be a vector of integers, so that z grid is the query, and let neighbours satisfy
    ||z - z'||_2 grid <= S. Then z + draw = round((z grid + X) / grid), coordinate by coordinate: the release is a
    function of z grid + X, hence exactly (S / sd)-GDP, and for adaptive draws the squares of S / sd add up. A query
    of doubles with ||q - q'||_2 <= S that is rounded onto the lattice needs S + grid sqrt(dimension) in
    place of S.

    *As a perturbation.* X is a vector of the continuous distribution, and ||draw grid - X||_2 <= grid sqrt(dimension) /
    2, surely. So a mechanism that needs a perturbation of exactly that density, as objective perturbation does, may use
    draw grid in its place if a displacement of that length is covered otherwise.

    Attributes
    ----------
    dimension
        Number of coordinates, from 1 to 100,000.
    sd
        Standard deviation of X, in the unit of the query.
    grid
        Step of the lattice, in the same unit. Both are in [2^-256, 2^256].

    Raises
    ------
    ArgumentError
        If an attribute is out of range.

    Examples
    --------
    >>> from fractions import Fraction
    >>> noise = RoundedNormal(dimension=3, sd=Fraction(10), grid=Fraction(1, 1024))
    >>> len(noise.draw())
    3
    """

    dimension: int
    sd: Fraction
    grid: Fraction
    _ratio: Fraction = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Validate."""
        dimension = integer(self.dimension, name="dimension", lower=1, upper=LARGEST_DIMENSION)
        object.__setattr__(self, "dimension", dimension)
        for name in ("sd", "grid"):
            object.__setattr__(self, name, positive_rational(getattr(self, name), name=name))
        object.__setattr__(self, "_ratio", self.sd / self.grid)

    def draw(self) -> tuple[int, ...]:
        """Return one draw, a point of Z^dimension."""
        drawn = [self._coordinate() for _ in range(self.dimension + spare(self.dimension))]
        return tuple(drawn[: self.dimension])

    @property
    def work(self) -> Operations:
        """What a draw takes at most."""
        return Operations(draws=3.0 * most_drawn(self.dimension))

    def _coordinate(self) -> int:
        whole, x = _half_normal()
        magnitude = _rounded(whole, x, self._ratio)
        return -magnitude if bits(1) else magnitude


PROPOSALS = 18
"""How many proposals a draw makes in a rehearsal, or more: twice what it needs on average where that is most."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TiltedNormal:
    """Integers from ``lower`` to ``upper`` with P[k] ∝ exp(-slope |k| - curvature k²), exact for rational parameters.

    Attributes
    ----------
    lower, upper
        The interval, 0 in it and more than 0.
    slope
        At least 0.
    curvature
        In [2^-256, 2^256].

    Raises
    ------
    ArgumentError
        If an attribute is out of range.

    Examples
    --------
    >>> distribution = TiltedNormal(lower=0, upper=9, slope=Fraction(1, 3), curvature=Fraction(1, 50))
    >>> 0 <= distribution.draw() <= 9
    True
    """

    lower: int
    upper: int
    slope: Fraction
    curvature: Fraction
    _width: int = field(init=False, repr=False, compare=False)
    _parts: tuple[int, int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Validate, bring slope and curvature to one denominator, and find the width of a block."""
        if not self.lower <= 0 <= self.upper or self.lower == self.upper:
            raise ArgumentError("lower and upper must enclose 0 and be apart", argument="lower")
        if not self.slope >= 0:
            raise ArgumentError("slope must be at least 0", argument="slope")
        object.__setattr__(self, "curvature", positive_rational(self.curvature, name="curvature"))
        bottom = math.lcm(self.slope.denominator, self.curvature.denominator)
        object.__setattr__(self, "_parts", (int(self.slope * bottom), int(self.curvature * bottom), bottom))
        low, high = 0, max(-self.lower, self.upper) + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._scaled(middle) >= bottom else (middle, high)
        object.__setattr__(self, "_width", high)

    def exponent(self, k: int) -> Fraction:
        """Return ``slope |k| + curvature k²``."""
        return Fraction(self._scaled(k), self._parts[2])

    def _scaled(self, k: int) -> int:
        """Return the exponent times the common denominator."""
        slope, curvature, _ = self._parts
        return slope * abs(k) + curvature * k * k

    @staticmethod
    def work(count: int) -> Operations:
        """Return what so many draws of any of these distributions take at most."""
        return Operations(draws=2.0 * PROPOSALS * count)

    def draw(self) -> int:
        """Return one draw."""
        kept, least, bottom = None, PROPOSALS if full_length() else 0, self._parts[2]
        while kept is None or least > 0:
            least -= 1
            blocks = 0
            while bernoulli_exp_one():
                blocks += 1
            size = blocks * self._width + below(self._width)
            negative = bool(bits(1)) if self.lower and self.upper else self.lower < 0
            k = -size if negative else size
            if not self.lower <= k <= self.upper or (negative and size == 0 and self.upper > 0):
                continue
            if bernoulli_exp(self._scaled(k) - blocks * bottom, bottom) and kept is None:
                kept = k
        return kept
