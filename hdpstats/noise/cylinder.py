"""Exact noise for a cylinder: one axis and a Euclidean ball bound together, for regression with an intercept.

The score of one row (1, x) of a regression is c (1, x): with |c| <= 1 and ||x||_2 <= R its first coordinate t
and the others v are bounded separately, |t| <= 1 and ||v||_2 <= R. The K-norm mechanism (Hardt & Talwar 2010)
for that cylinder has a smaller total variance than the one for the ball around it, in any dimension D >= 2
and for any R (compare `hdpstats.noise.distributions`).

On the lattice, t in Z stands for t grid_axis and v in Z^(D-1) for v grid_ball, and

    K(t, v) = max(|t| grid_axis, ||v||_2 grid_ball / radius).

The distribution P[(t, v)] ∝ exp(-rate K(t, v)) is sampled by rejection. Propose t from the discrete Laplace
distribution with rate r_t and v from `BallNoise` with rate r_v, where r_t <= rate a grid_axis and r_v <= rate (1 - a)
grid_ball / radius. As a maximum is at least any mixture, r_t |t| + r_v ||v|| <= rate K(t, v), so exp(-(rate K - r_t |t|
- r_v ||v||)) is a probability; keeping the proposal with it leaves exactly the distribution. The exponent uses the
rounded rates of the proposals themselves. For fine grids a proposal is kept with probability D a (1-a)^(D-1),
which is largest at a = 1/D: 1 for D = 1, 1/2 for D = 2, and above 1/e = .368 always. Whether it is kept does
not depend on any query; for the time see `hdpstats.noise.length`.

References
----------
M. Hardt, K. Talwar (2010), On the geometry of differential privacy.
J. Awan, A. Slavković (2021), Structure and sensitivity in differential privacy: comparing K-norm mechanisms.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import final

from hdpstats._base.validation import integer
from hdpstats.noise.ball import LARGEST_DIMENSION, RATE_BITS, BallNoise
from hdpstats.noise.bernoulli import bernoulli_exp_roots
from hdpstats.noise.geometric import TwoSidedGeometric
from hdpstats.noise.lattice import positive_rational, round_down
from hdpstats.noise.length import at_length


@final
@dataclass(frozen=True, slots=True)
class _Face:
    """One of the two arguments of the maximum is the larger: the exponent is axis |t| + ball ||v||."""

    axis: Fraction
    ball: Fraction
    doubles: tuple[float, float]

    def keeps(self, t: int, v_square: int) -> bool:
        """Keep a proposal with probability exp(-(axis |t| + ball sqrt(v_square))), exactly."""
        axis = self.doubles[0] * abs(t)
        ball = self.doubles[1] * math.sqrt(v_square)
        return bernoulli_exp_roots(axis + ball, abs(axis) + abs(ball), ((self.axis, t * t), (self.ball, v_square)))


def _face(axis: Fraction, ball: Fraction) -> _Face:
    return _Face(axis, ball, (float(axis), float(ball)))


@final
@dataclass(frozen=True, slots=True)
class _Proposals:
    """The distributions of t and v, and the faces: `end` where t_weight t² >= v_weight ||v||², else `side`."""

    axis: TwoSidedGeometric
    ball: BallNoise
    t_weight: int
    v_weight: int
    end: _Face
    side: _Face


def _propose(dimension: int, per_t: Fraction, per_v: Fraction) -> _Proposals:
    """Lay out the rejection, given K in lattice units: rate K(t, v) = max(per_t |t|, per_v ||v||)."""
    share = Fraction(1, dimension)
    axis = TwoSidedGeometric(rate=round_down(share * per_t, RATE_BITS))
    ball = BallNoise(dimension=dimension - 1, rate=round_down((1 - share) * per_v, RATE_BITS))
    ratio = (per_t / per_v) ** 2
    return _Proposals(
        axis=axis,
        ball=ball,
        t_weight=ratio.numerator,
        v_weight=ratio.denominator,
        end=_face(per_t - axis.rate, -ball.rate),
        side=_face(-axis.rate, per_v - ball.rate),
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CylinderNoise:
    """Integer noise with P[(t, v)] ∝ exp(-rate K(t, v)) on Z^dimension, exact.

    K(t, v) = max(|t| grid_axis, ||v||_2 grid_ball / radius), with t the first coordinate. Adding it to
    lattice points that one person moves by at most Δ in K is (rate Δ)-differentially private, pure. For a
    query (t, v) of doubles that one person moves by at most S in max(|t|, ||v||_2 / radius), rounded onto the
    two grids, rounding moves each coordinate by at most half a step on each side, so

        Δ = S + max(grid_axis, grid_ball sqrt(dimension - 1) / radius)

    and rate = epsilon / Δ, rounded down, gives epsilon. Take grid_ball at most grid_axis radius divided by
    sqrt(dimension - 1): with one grid for both and a small radius, rounding alone would cost many steps.

    Attributes
    ----------
    dimension
        Number of coordinates D, from 1 (discrete Laplace noise, the radius is void) to 100,000.
    rate
        Privacy loss (nats) per unit of K.
    radius
        Radius R of the ball, in units of v per unit of t.
    grid_axis, grid_ball
        Grid steps of t and of v. All four are in [2^-256, 2^256], and so must be rate grid_axis / dimension
        and rate grid_ball / radius.

    Raises
    ------
    ArgumentError
        If an attribute is out of range.

    Examples
    --------
    >>> from fractions import Fraction
    >>> step = Fraction(1, 1024)
    >>> noise = CylinderNoise(
    ...     dimension=3, rate=Fraction(1), radius=Fraction(2), grid_axis=step, grid_ball=step
    ... )
    >>> len(noise.draw())
    3
    """

    dimension: int
    rate: Fraction
    radius: Fraction
    grid_axis: Fraction
    grid_ball: Fraction
    _proposals: _Proposals | TwoSidedGeometric = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Validate, and lay out the proposals once for all draws."""
        dimension = integer(self.dimension, name="dimension", lower=1, upper=LARGEST_DIMENSION)
        object.__setattr__(self, "dimension", dimension)
        for name in ("rate", "radius", "grid_axis", "grid_ball"):
            object.__setattr__(self, name, positive_rational(getattr(self, name), name=name))
        per_t, per_v = self.rate * self.grid_axis, self.rate * self.grid_ball / self.radius
        axis_only = dimension == 1
        plan = TwoSidedGeometric(rate=per_t) if axis_only else _propose(dimension, per_t, per_v)
        object.__setattr__(self, "_proposals", plan)

    def draw(self) -> tuple[int, ...]:
        """Return one draw, a point (t, v_1, ..., v_(D-1)) of Z^dimension."""
        return at_length(self._draw)

    def _draw(self) -> tuple[int, ...]:
        plan = self._proposals
        if isinstance(plan, TwoSidedGeometric):
            return (plan.draw(),)
        while True:
            t = plan.axis.draw()
            v, v_square = plan.ball.draw_with_square()
            face = plan.end if plan.t_weight * t * t >= plan.v_weight * v_square else plan.side
            if face.keeps(t, v_square):
                return (t, *v)
