r"""Exact noise of the K-norm mechanism (Hardt & Talwar 2010) on the integer lattice: for a ball, a cylinder and a box.

**Ball.** The Euclidean norm: P[z] ∝ exp(-rate ||z||_2) on Z^d, sampled by recursive halving. For one coordinate it is
the discrete Laplace distribution. For m = m_a + m_b coordinates, let a and b be independent draws of the halves with
rates r_a, r_b such that r_a² + r_b² <= r². By Cauchy-Schwarz

    r_a ||a|| + r_b ||b|| <= sqrt(r_a² + r_b²) sqrt(||a||² + ||b||²) <= r ||(a, b)||,

so exp(-(r ||(a, b)|| - r_a ||a|| - r_b ||b||)) is a probability; keeping (a, b) with it, and else starting
again, leaves exactly the distribution ∝ exp(-r ||(a, b)||). Any such rates give the exact distribution; r_a ≈ r
sqrt(m_a/m) gives the largest probability of keeping: for small r it is .785 for 1 + 1 coordinates, .75 for 2 + 2, and
tends to 1/sqrt(2). A draw costs about d^1.5 draws of the discrete Laplace distribution, where rejection from d of them
at once would cost 1.3^d. Whether a proposal is kept does not depend on any query; what the time of a draw discloses
about the noise, and how long it may be, is in `hdpstats.noise.exact`.

**Cylinder.** One axis and a Euclidean ball bound together, for regression with an intercept. The score of one row (1,
x) of a regression is c (1, x): with |c| <= 1 and ||x||_2 <= R its first coordinate t and the others v are bounded
separately, |t| <= 1 and ||v||_2 <= R. The K-norm mechanism (Hardt & Talwar 2010) for that cylinder has a smaller total
variance than the one for the ball around it, in any dimension D >= 2 and for any R (compare
`hdpstats.noise.distributions`).

On the lattice, t in Z stands for t grid_axis and v in Z^(D-1) for v grid_ball, and

    K(t, v) = max(|t| grid_axis, ||v||_2 grid_ball / radius).

The distribution P[(t, v)] ∝ exp(-rate K(t, v)) is sampled by rejection. Propose t from the discrete Laplace
distribution with rate r_t and v from `BallNoise` with rate r_v, where r_t <= rate a grid_axis and r_v <= rate (1 - a)
grid_ball / radius. As a maximum is at least any mixture, r_t |t| + r_v ||v|| <= rate K(t, v), so exp(-(rate K - r_t |t|
- r_v ||v||)) is a probability; keeping the proposal with it leaves exactly the distribution. The exponent uses the
rounded rates of the proposals themselves. For fine grids a proposal is kept with probability D a (1-a)^(D-1),
which is largest at a = 1/D: 1 for D = 1, 1/2 for D = 2, and above 1/e = .368 always. Whether it is kept does
not depend on any query; for the time see `hdpstats.noise.exact`.

**Box.** Every coordinate bound on its own, for columns of zeros and ones. Where each of d coordinates of a query moves
by at most 1, whatever the others do, the K-norm mechanism (Hardt and Talwar 2010) for the box has the variance (d +
1)(d + 2) / 3 in each coordinate at epsilon 1, against d (d + 1) for the ball around the box and 2 d^2 for independent
Laplace noise. The distribution on integers is

.. math:: P[k] \propto e^{-\rho \max_j |k_j|}, \qquad k \in \mathbb{Z}^d.

It is sampled as follows. With :math:`q = e^{-\rho}`, :math:`q^m = (1 - q) \sum_{M \ge m} q^M`: the distribution is a
mixture of uniform distributions on cubes :math:`\{-M, \dots, M\}^d`, which have :math:`(2 M + 1)^d` points, with
:math:`P[M] \propto q^M (2 M + 1)^d`. The sum of d + 1 independent geometric numbers, :math:`P[y] \propto q^y`, has the
distribution :math:`\propto q^M \prod_{i=1}^d (M + i)`. It is kept with probability :math:`\prod_{i=1}^d (2 M + 1) / (2
M + 2 i) \le 1`, a product of rational coins, which leaves exactly :math:`q^M (2 M + 1)^d`. Then each coordinate is
uniform on :math:`\{-M, \dots, M\}`. Integers and bits only: nothing is rounded. A proposal is kept with probability
above :math:`1 - d^2 / (2 M)`, nearly always on a fine lattice. With ``M`` near :math:`d / \rho` that is about
:math:`e^{-\rho d / 2}`, so lattices with :math:`\rho d > 8` are refused.

References
----------
M. Hardt, K. Talwar (2010), On the geometry of differential privacy.
J. Awan, A. Slavković (2021), Structure and sensitivity in differential privacy: comparing K-norm mechanisms.
T. Steinke, J. Ullman (2016), Between pure and approximate differential privacy (noise in the maximum norm).
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import final

from hdpstats._base.caching import remembered
from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import integer
from hdpstats._base.work import Operations
from hdpstats.noise.discrete import (
    TwoSidedGeometric,
    bernoulli,
    bernoulli_exp_roots,
    discrete_laplace,
    geometric,
    length_of,
)
from hdpstats.noise.exact import WHOLE, below, positive_rational, repeated, round_down, sqrt_down

LARGEST_DIMENSION = 100_000
RATE_BITS = 32


@final
@dataclass(frozen=True, slots=True)
class _Leaf:
    """One coordinate: its rate as a reduced fraction."""

    rate: Fraction
    numerator: int
    denominator: int


@final
@dataclass(frozen=True, slots=True)
class _Node:
    """Several coordinates: the rate of the whole, the halves and minus their rates, the three rates as doubles."""

    rate: Fraction
    first: "_Leaf | _Node"
    second: "_Leaf | _Node"
    minus: tuple[Fraction, Fraction]
    doubles: tuple[float, float, float]


def _halve(
    dimension: int, rate: Fraction, made: dict[tuple[int, Fraction], _Leaf | _Node] | None = None
) -> _Leaf | _Node:
    """Halve the coordinates down to single ones; rates are rounded down to short numbers, never to 0.

    Halves of one size and one rate are ``made`` once.
    """
    if dimension == 1:
        return _Leaf(rate, rate.numerator, rate.denominator)
    made = {} if made is None else made
    if (dimension, rate) not in made:
        size = dimension // 2
        shares = (Fraction(size, dimension), Fraction(dimension - size, dimension))
        low, high = (round_down(sqrt_down(rate * rate * share), RATE_BITS) for share in shares)
        first, second = _halve(size, low, made), _halve(dimension - size, high, made)
        made[dimension, rate] = _Node(rate, first, second, (-low, -high), (float(rate), float(low), float(high)))
    return made[dimension, rate]


@remembered(8)
def _halved(dimension: int, rate: Fraction) -> _Leaf | _Node:
    """Return what `_halve` does: laid out for the first draw, as plans ask for distributions that nobody draws from."""
    return _halve(dimension, rate)


def _draw(node: _Leaf | _Node) -> tuple[tuple[int, ...], int]:
    """Return a draw and its squared norm."""
    if isinstance(node, _Leaf):
        z = discrete_laplace(node.numerator, node.denominator)
        return (z,), z * z
    rate, low, high = node.doubles
    while True:
        a, a_square = _draw(node.first)
        b, b_square = _draw(node.second)
        whole = rate * math.sqrt(a_square + b_square)
        parts = low * math.sqrt(a_square) + high * math.sqrt(b_square)
        terms = (
            (node.rate, a_square + b_square),
            (node.minus[0], a_square),
            (node.minus[1], b_square),
        )
        if bernoulli_exp_roots(whole - parts, whole + parts, terms):
            return a + b, a_square + b_square


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BallNoise:
    """Integer noise with P[z] ∝ exp(-rate ||z||_2) on Z^dimension, exact.

    Adding it to lattice points that one person moves by at most Δ in the Euclidean norm is (rate
    Δ)-differentially private, pure: | ||y - z|| - ||y - z'|| | <= ||z - z'|| <= Δ for every output y. For a
    query q of doubles with ||q - q'||_2 <= S, rounded onto grid·Z^d, each coordinate moves by at
    most 1/2 on each side, so Δ = S/grid + sqrt(d) and rate = epsilon / (S/grid + sqrt(d)), rounded down,
    gives epsilon. A grid of 2^-20 S/sqrt(d) costs a millionth of the noise.

    Attributes
    ----------
    dimension
        Number of coordinates d, from 1 to 100,000.
    rate
        Privacy loss (nats) per unit of Euclidean distance on the lattice, in [2^-256, 2^256].

    Raises
    ------
    ArgumentError
        If an attribute is out of range.

    Examples
    --------
    >>> from fractions import Fraction
    >>> noise = BallNoise(dimension=3, rate=Fraction(1, 1000))
    >>> len(noise.draw())
    3
    """

    dimension: int
    rate: Fraction

    def __post_init__(self) -> None:
        """Validate."""
        dimension = integer(self.dimension, name="dimension", lower=1, upper=LARGEST_DIMENSION)
        rate = positive_rational(self.rate, name="rate")
        object.__setattr__(self, "dimension", dimension)
        object.__setattr__(self, "rate", rate)

    @property
    def _root(self) -> _Leaf | _Node:
        """How the coordinates are halved."""
        return _halved(self.dimension, self.rate)

    def draw(self) -> tuple[int, ...]:
        """Return one draw, a point of Z^dimension."""
        root = self._root
        return [_draw(root) for _ in repeated()][-1][0]

    @property
    def work(self) -> Operations:
        """What a draw takes at most: `WHOLE` draws, each of d^1.5 coordinates and as many coins."""
        return Operations(draws=2.0 * WHOLE * self.dimension**1.5)


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

    @property
    def work(self) -> Operations:
        """What a draw takes at most: with a probability above 1/e the axis and the ball are kept."""
        return Operations(draws=2.0 * math.e * WHOLE * (2.0 + max(self.dimension - 1, 0) ** 1.5))

    def draw(self) -> tuple[int, ...]:
        """Return one draw, a point (t, v_1, ..., v_(D-1)) of Z^dimension."""
        plan = self._proposals
        if isinstance(plan, TwoSidedGeometric):
            return [(plan.draw(),) for _ in repeated()][-1]
        root = plan.ball._root
        for _ in repeated():
            kept = False
            while not kept:
                t = plan.axis.draw()
                v, v_square = _draw(root)  # once, in rehearsals as well: these repeat the whole draw
                face = plan.end if plan.t_weight * t * t >= plan.v_weight * v_square else plan.side
                kept = face.keeps(t, v_square)
        return (t, *v)


COARSEST = 8
"""The largest rate times dimension: beyond, proposals would hardly ever be kept."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BoxNoise:
    """Integer noise with P[k] ∝ exp(-rate max_j |k_j|) on Z^dimension, exact.

    Adding it to lattice points that one person moves by at most Δ in each coordinate is (rate Δ)-differentially
    private, pure: the maximum norm is a norm, so that the exponents of a point under neighbours differ by at most
    rate Δ.

    Attributes
    ----------
    dimension
        Number of coordinates d, from 1 to 100,000.
    rate
        Privacy loss (nats) per lattice step, from 2^-256 to 8 / d: a lattice fine beside the noise.

    Raises
    ------
    ArgumentError
        If an attribute is out of range.

    Examples
    --------
    >>> from fractions import Fraction
    >>> len(BoxNoise(dimension=3, rate=Fraction(1, 1000)).draw())
    3
    """

    dimension: int
    rate: Fraction

    def __post_init__(self) -> None:
        """Validate."""
        dimension = integer(self.dimension, name="dimension", lower=1, upper=LARGEST_DIMENSION)
        object.__setattr__(self, "dimension", dimension)
        rate = positive_rational(self.rate, name="rate")
        if rate * dimension > COARSEST:
            raise ArgumentError(f"rate must be at most {COARSEST} / dimension: take a finer lattice", argument="rate")
        object.__setattr__(self, "rate", rate)

    def draw(self) -> tuple[int, ...]:
        """Return one draw, a point of Z^dimension."""
        return [self._draw() for _ in repeated()][-1]

    @property
    def work(self) -> Operations:
        """What a draw takes at most: a proposal of d + 1 coordinates is kept with a probability of exp(-rate d / 2)."""
        proposals = math.exp(0.5 * float(self.rate) * self.dimension)
        return Operations(draws=WHOLE * length_of(self.rate) * (2.0 * self.dimension + 1.0) * proposals)

    def _draw(self) -> tuple[int, ...]:
        size = self._size()
        return tuple(below(2 * size + 1) - size for _ in range(self.dimension))

    def _size(self) -> int:
        """Draw ``M`` with P[M] ∝ exp(-rate M) (2 M + 1)^d."""
        top, bottom = self.rate.numerator, self.rate.denominator
        while True:
            size = sum(geometric(top, bottom) for _ in range(self.dimension + 1))
            if all(bernoulli(2 * size + 1, 2 * (size + i)) for i in range(1, self.dimension + 1)):
                return size
