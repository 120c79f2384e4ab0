"""A normal distribution on integers of an interval, tilted towards one of its points, sampled exactly.

It is what a convex function allows to propose: above its smallest value on an interval such a function grows at least
linearly, where the interval ends there, and by a square.

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
L. Devroye (1987), A simple generator for discrete log-concave distributions.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import final

from hdpstats._base.errors import ArgumentError
from hdpstats._base.loops import full_length
from hdpstats.noise.discrete import bernoulli_exp, bernoulli_exp_one
from hdpstats.noise.entropy import below, bits
from hdpstats.noise.lattice import positive_rational

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

    def __post_init__(self) -> None:
        """Validate, and find the width of a block."""
        if not self.lower <= 0 <= self.upper or self.lower == self.upper:
            raise ArgumentError("lower and upper must enclose 0 and be apart", argument="lower")
        if not self.slope >= 0:
            raise ArgumentError("slope must be at least 0", argument="slope")
        object.__setattr__(self, "curvature", positive_rational(self.curvature, name="curvature"))
        low, high = 0, max(-self.lower, self.upper) + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.exponent(middle) >= 1 else (middle, high)
        object.__setattr__(self, "_width", high)

    def exponent(self, k: int) -> Fraction:
        """Return ``slope |k| + curvature k²``."""
        return self.slope * abs(k) + self.curvature * (k * k)

    def draw(self) -> int:
        """Return one draw."""
        kept, least = None, PROPOSALS if full_length() else 0
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
            excess = self.exponent(k) - blocks
            if bernoulli_exp(excess.numerator, excess.denominator) and kept is None:
                kept = k
        return kept
