"""The lattice noise on fine grids in 10 and 50 dimensions, against the continuous law, by Kolmogorov-Smirnov.

A draw from a density ∝ exp(-K) has K ~ Gamma(D), and a direction that is independent of K. Every check has a
level of 1e-9 with a fixed number of draws, and the same check must reject a scale that is wrong by a factor
1.5.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta, gamma, kstest

from hdpstats.noise import BallNoise, CylinderNoise

ALPHA = 1e-9
STEP = Fraction(1, 2**20)
DRAWS = {10: 300, 50: 150}

Cdf = Callable[[np.ndarray], np.ndarray]


def follows(values: np.ndarray, cdf: Cdf) -> bool:
    return bool(kstest(values, cdf).pvalue > ALPHA)


def share_of_axis_cdf(dimension: int) -> Cdf:
    """CDF of |t| / (||v|| / R) in a cylinder, where |t| and (||v|| / R)^(D-1) are independent and U(0, 1)."""

    def cdf(ratio: np.ndarray) -> np.ndarray:
        inside = ratio * (dimension - 1) / dimension
        beyond = 1 - np.maximum(ratio, 1.0) ** (1.0 - dimension) / dimension
        return np.where(ratio <= 1, inside, beyond)

    return cdf


@pytest.mark.parametrize("dimension", [10, 50])
def test_ball(dimension: int) -> None:
    noise = BallNoise(dimension=dimension, rate=STEP)
    draws = float(STEP) * np.array([noise.draw() for _ in range(DRAWS[dimension])], dtype=float)
    radii = np.linalg.norm(draws, axis=1)
    assert follows(radii, gamma(dimension).cdf)
    assert not follows(1.5 * radii, gamma(dimension).cdf)
    assert not follows(radii / 1.5, gamma(dimension).cdf)
    half = (dimension - 1) / 2
    for coordinate in (0, dimension // 2, dimension - 1):
        cosine = draws[:, coordinate] / radii
        assert follows((1 + cosine) / 2, beta(half, half).cdf)
        assert not follows((1 + np.abs(cosine)) / 2, beta(half, half).cdf)


@pytest.mark.parametrize("dimension", [10, 50])
@pytest.mark.parametrize("radius", [Fraction(1, 3), Fraction(2)])
def test_cylinder(dimension: int, radius: Fraction) -> None:
    noise = CylinderNoise(dimension=dimension, rate=Fraction(1), radius=radius, grid_axis=STEP, grid_ball=STEP / 8)
    draws = np.array([noise.draw() for _ in range(DRAWS[dimension])], dtype=float)
    axis = np.abs(draws[:, 0]) * float(STEP)
    side = np.linalg.norm(draws[:, 1:], axis=1) * float(STEP / 8 / radius)
    size = np.maximum(axis, side)
    assert follows(size, gamma(dimension).cdf)
    assert not follows(1.5 * size, gamma(dimension).cdf)
    assert not follows(size / 1.5, gamma(dimension).cdf)
    assert follows(axis / side, share_of_axis_cdf(dimension))
    assert not follows(2.5 * axis / side, share_of_axis_cdf(dimension))
    assert abs(np.mean(draws[:, 0] > 0) - 0.5) < 3.5 / math.sqrt(len(draws))
