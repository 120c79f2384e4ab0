r"""Exact noise for a box: every coordinate bound on its own, for columns of zeros and ones.

Where each of d coordinates of a query moves by at most 1, whatever the others do, the K-norm mechanism (Hardt and
Talwar 2010) for the box has the variance (d + 1)(d + 2) / 3 in each coordinate at epsilon 1, against d (d + 1) for the
ball around the box and 2 d^2 for independent Laplace noise. The distribution on integers is

.. math:: P[k] \propto e^{-\rho \max_j |k_j|}, \qquad k \in \mathbb{Z}^d.

**Sampling.** With :math:`q = e^{-\rho}`, :math:`q^m = (1 - q) \sum_{M \ge m} q^M`: the distribution is a mixture of
uniform distributions on cubes :math:`\{-M, \dots, M\}^d`, which have :math:`(2 M + 1)^d` points, with :math:`P[M]
\propto q^M (2 M + 1)^d`. The sum of d + 1 independent geometric numbers, :math:`P[y] \propto q^y`, has the distribution
:math:`\propto q^M \prod_{i=1}^d (M + i)`. It is kept with probability
:math:`\prod_{i=1}^d (2 M + 1) / (2 M + 2 i) \le 1`, a product of rational coins, which leaves exactly
:math:`q^M (2 M + 1)^d`. Then each coordinate is uniform on :math:`\{-M, \dots, M\}`. Integers and bits only: nothing
is rounded. A proposal is kept with probability above :math:`1 - d^2 / (2 M)`, nearly always on a fine lattice. With
``M`` near :math:`d / \rho` that is about :math:`e^{-\rho d / 2}`, so lattices with :math:`\rho d > 8` are refused.

References
----------
M. Hardt, K. Talwar (2010), On the geometry of differential privacy.
T. Steinke, J. Ullman (2016), Between pure and approximate differential privacy (noise in the maximum norm).
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import final

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import integer
from hdpstats.noise.ball import LARGEST_DIMENSION
from hdpstats.noise.bernoulli import bernoulli
from hdpstats.noise.entropy import below
from hdpstats.noise.geometric import geometric
from hdpstats.noise.lattice import positive_rational
from hdpstats.noise.length import at_length

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
        return at_length(self._draw)

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
