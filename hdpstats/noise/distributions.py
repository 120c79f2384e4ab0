"""Lattice noise in the norm of a person's loss, and normal noise: grids, distributions, variances.

Variances are for standard errors and planning: doubles, and no noise. The lattice distributions are close to the
continuous ones of density ∝ exp(-rate K(x)) while a grid step is small against 1/rate (the relative difference is of
the order of its square). In D dimensions such a vector is r u, with u uniform in the unit ball of K and independent
r ~ Gamma(D + 1, 1 / rate) (Hardt & Talwar 2010), and E r² = (D + 1)(D + 2) / rate².
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import integer, real
from hdpstats.noise.exact import power_of_two_below, round_down, sqrt_up
from hdpstats.noise.knorm import BallNoise, BoxNoise, CylinderNoise
from hdpstats.privacy.sensitivity import BoxNorm, CylinderNorm, Norm


def ball_variance(dimension: int, rate: float) -> float:
    """Return the variance of each coordinate under the density ∝ exp(-rate ||b||_2): (d + 1) / rate².

    ||b|| ~ Gamma(d, 1/rate), so E ||b||² = d (d + 1) / rate², shared equally by d uncorrelated coordinates.

    Examples
    --------
    >>> ball_variance(3, 2.0)
    1.0
    """
    dimension = integer(dimension, name="dimension", lower=1, upper=2**31)
    rate = real(rate, name="rate", lower=0.0, open_lower=True)
    return (dimension + 1) / rate**2


def box_variance(dimension: int, rate: float) -> float:
    """Return the variance of each coordinate under the density ∝ exp(-rate max_j |b_j|): (d + 1)(d + 2) / (3 rate²).

    Uniform in the box, a coordinate has variance 1/3.

    Examples
    --------
    >>> box_variance(3, 2.0)
    1.6666666666666667
    """
    dimension = integer(dimension, name="dimension", lower=1, upper=2**31)
    rate = real(rate, name="rate", lower=0.0, open_lower=True)
    return (dimension + 1) * (dimension + 2) / (3.0 * rate**2)


def cylinder_variance(dimension: int, rate: float, radius: float) -> FloatArray:
    """Return the variances, shape (D,), under the density ∝ exp(-rate max(|t|, ||v||_2 / radius)), t first.

    Uniform in the cylinder, t has variance 1/3 and each of the D - 1 coordinates of v has radius²/(D + 1). So
    Var t = (D + 1)(D + 2) / (3 rate²) and Var v_j = (D + 2) radius² / rate²; all coordinates are
    uncorrelated.

    Examples
    --------
    >>> cylinder_variance(2, 2.0, 0.5).tolist()
    [1.0, 0.25]
    """
    dimension = integer(dimension, name="dimension", lower=1, upper=2**31)
    rate = real(rate, name="rate", lower=0.0, open_lower=True)
    radius = real(radius, name="radius", lower=0.0, open_lower=True)
    variances = np.full(dimension, (dimension + 2) * (radius / rate) ** 2)
    variances[0] = (dimension + 1) * (dimension + 2) / (3.0 * rate**2)
    return variances


LatticeNoise = BallNoise | CylinderNoise | BoxNoise

FINENESS = Fraction(1, 2**36)
"""Grid of the noise relative to its scale."""


def lattice(norm: Norm, dimension: int, *, scale: Fraction) -> tuple[tuple[Fraction, ...], Fraction]:
    """Return the lattice steps of the noise (D,) and the widening ``cell`` of the K-norm by rounding to them.

    Two points of one cell differ by less than a step in each coordinate, hence by ``max(g_t, g_v sqrt(d) / R)`` in the
    cylinder norm; the steps are chosen so that the second is at most the first. In the box norm a step is that share of
    each radius which makes cells cubes in ``K``. ``scale`` is the noise's in ``K``.
    """
    step = power_of_two_below(scale) * FINENESS
    if isinstance(norm, BoxNorm):
        return tuple(step * radius for radius in norm.radii), step
    if isinstance(norm, CylinderNorm) and dimension == 1:
        return (step,), step
    d = dimension - 1 if isinstance(norm, CylinderNorm) else dimension
    ball = power_of_two_below(step * norm.radius / sqrt_up(Fraction(d)))
    if isinstance(norm, CylinderNorm):
        return (step, *(ball,) * d), step
    return (ball,) * d, ball * sqrt_up(Fraction(d)) / norm.radius


def lattice_noise(norm: Norm, *, rate: Fraction, grids: tuple[Fraction, ...]) -> LatticeNoise:
    """Return the lattice distribution with probability proportional to ``exp(-rate K(b))``."""
    if isinstance(norm, BoxNorm):
        return BoxNoise(dimension=len(grids), rate=round_down(rate * grids[0] / norm.radii[0], 90))
    if isinstance(norm, CylinderNorm):
        return CylinderNoise(
            dimension=len(grids), rate=rate, radius=norm.radius, grid_axis=grids[0], grid_ball=grids[-1]
        )
    return BallNoise(dimension=len(grids), rate=round_down(rate * grids[0] / norm.radius, 90))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class NoiseDistribution:
    """The distribution of a perturbation (D,): density proportional to ``exp(-rate K(b))``."""

    kind: ClassVar[str] = "K-norm"
    norm: Norm
    dimension: int
    rate: float

    @property
    def variance(self) -> FloatArray:
        """The variance of each coordinate (D,)."""
        if isinstance(self.norm, BoxNorm):
            radii = np.array([float(radius) for radius in self.norm.radii])
            return np.asarray(box_variance(self.dimension, self.rate) * radii**2)
        radius = float(self.norm.radius)
        if isinstance(self.norm, CylinderNorm):
            return cylinder_variance(self.dimension, self.rate, radius)
        return np.full(self.dimension, ball_variance(self.dimension, self.rate / radius))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class NormalDistribution:
    """Independent centred normal coordinates (D,) with one standard deviation."""

    kind: ClassVar[str] = "normal"
    dimension: int
    sd: float

    @property
    def variance(self) -> FloatArray:
        """The variance of each coordinate (D,)."""
        return np.full(self.dimension, self.sd**2)
