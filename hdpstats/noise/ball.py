"""Exact noise for the Euclidean norm: P[z] ∝ exp(-rate ||z||_2) on the integer lattice Z^d.

The distribution is the K-norm mechanism of Hardt & Talwar (2010) for the Euclidean ball, on a lattice. It is sampled
by recursive halving. For one coordinate it is the discrete Laplace distribution. For m = m_a + m_b coordinates, let a
and b be independent draws of the halves with rates r_a, r_b such that r_a² + r_b² <= r². By Cauchy-Schwarz

    r_a ||a|| + r_b ||b|| <= sqrt(r_a² + r_b²) sqrt(||a||² + ||b||²) <= r ||(a, b)||,

so exp(-(r ||(a, b)|| - r_a ||a|| - r_b ||b||)) is a probability; keeping (a, b) with it, and else starting
again, leaves exactly the distribution ∝ exp(-r ||(a, b)||). Any such rates give the exact distribution; r_a ≈ r
sqrt(m_a/m) gives the largest probability of keeping: for small r it is .785 for 1 + 1 coordinates, .75 for 2 + 2, and
tends to 1/sqrt(2). A draw costs about d^1.5 draws of the discrete Laplace distribution, where rejection from d of them
at once would cost 1.3^d. Whether a proposal is kept does not depend on any query; what the time of a draw discloses
about the noise, and how long it may be, is in `hdpstats.noise.length`.

References
----------
M. Hardt, K. Talwar (2010), On the geometry of differential privacy.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import final

from hdpstats._base.validation import integer
from hdpstats.noise.bernoulli import bernoulli_exp_roots
from hdpstats.noise.geometric import discrete_laplace
from hdpstats.noise.lattice import positive_rational, round_down, sqrt_down
from hdpstats.noise.length import at_length

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
    """Several coordinates: the rate of the whole, the two halves, and the three rates as doubles."""

    rate: Fraction
    first: "_Leaf | _Node"
    second: "_Leaf | _Node"
    doubles: tuple[float, float, float]


def _halve(dimension: int, rate: Fraction) -> _Leaf | _Node:
    """Halve the coordinates down to single ones; rates are rounded down to short numbers, never to 0."""
    if dimension == 1:
        return _Leaf(rate, rate.numerator, rate.denominator)
    size = dimension // 2
    shares = (Fraction(size, dimension), Fraction(dimension - size, dimension))
    low, high = (round_down(sqrt_down(rate * rate * share), RATE_BITS) for share in shares)
    first, second = _halve(size, low), _halve(dimension - size, high)
    return _Node(rate, first, second, (float(rate), float(low), float(high)))


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
            (-node.first.rate, a_square),
            (-node.second.rate, b_square),
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
    _root: _Leaf | _Node = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Validate, and lay out the halves once for all draws."""
        dimension = integer(self.dimension, name="dimension", lower=1, upper=LARGEST_DIMENSION)
        rate = positive_rational(self.rate, name="rate")
        object.__setattr__(self, "dimension", dimension)
        object.__setattr__(self, "rate", rate)
        object.__setattr__(self, "_root", _halve(dimension, rate))

    def draw(self) -> tuple[int, ...]:
        """Return one draw, a point of Z^dimension."""
        return at_length(self.draw_with_square)[0]

    def draw_with_square(self) -> tuple[tuple[int, ...], int]:
        """Return one draw and its squared Euclidean norm, an integer: for proposals, which are short in rehearsals."""
        return _draw(self._root)
