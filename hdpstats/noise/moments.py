"""Variances of the noise distributions, for standard errors and planning: doubles, and no noise.

The lattice distributions are close to the continuous ones of density ∝ exp(-rate K(x)) while a grid step is small
against 1/rate (the relative difference is of the order of its square). In D dimensions such a vector is r u,
with u uniform in the unit ball of K and r ~ Gamma(D + 1, 1/rate) independent of it (Hardt & Talwar 2010), and
E r² = (D + 1)(D + 2) / rate².
"""

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import integer, real


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
