"""The lattice noise on fine grids in 10 and 50 dimensions, against the continuous distribution, by Kolmogorov-Smirnov.

A draw from a density ∝ exp(-K) has K ~ Gamma(D), and a direction that is independent of K. The checks of a test have
levels of 1e-9 together (exact), and the same check rejects a scale that is wrong by a factor 1.5 but with a probability
of 1e-9, which is computed.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta, gamma

from hdpstats.noise import BallNoise, CylinderNoise
from tests import chance

STEP = Fraction(1, 2**20)
DRAWS = {10: 300, 50: 150}

Cdf = Callable[[np.ndarray], np.ndarray]

pytestmark = pytest.mark.entropy


def tells(values: np.ndarray, cdf: Cdf, scales: Sequence[float], near: np.ndarray, alarm: float) -> None:
    """Assert that values have it, and that other scales are told from it."""
    assert chance.follows(values, cdf, alarm=alarm)
    for scale in scales:
        truth = lambda x, scale=scale: cdf(np.asarray(x) / scale)  # noqa: E731
        assert chance.miss_of_cdf(cdf, truth, len(values), near=near, alarm=alarm) <= chance.ALARM
        assert not chance.follows(scale * values, cdf, alarm=alarm)


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
    alarm = chance.ALARM / 4
    tells(radii, gamma(dimension).cdf, (1.5, 1 / 1.5), np.linspace(0, 3 * dimension, 300), alarm)
    half = (dimension - 1) / 2
    for coordinate in (0, dimension // 2, dimension - 1):
        cosine = draws[:, coordinate] / radii
        assert chance.follows((1 + cosine) / 2, beta(half, half).cdf, alarm=alarm)
        folded = (1 + np.abs(cosine)) / 2  # none is below the median
        assert not chance.follows(folded, beta(half, half).cdf, alarm=alarm)


@pytest.mark.parametrize(
    ("dimension", "radius"), [(10, Fraction(2)), pytest.param(50, Fraction(1, 3), marks=pytest.mark.wide)]
)
def test_cylinder(dimension: int, radius: Fraction) -> None:
    noise = CylinderNoise(dimension=dimension, rate=Fraction(1), radius=radius, grid_axis=STEP, grid_ball=STEP / 8)
    draws = np.array([noise.draw() for _ in range(DRAWS[dimension])], dtype=float)
    axis = np.abs(draws[:, 0]) * float(STEP)
    side = np.linalg.norm(draws[:, 1:], axis=1) * float(STEP / 8 / radius)
    size = np.maximum(axis, side)
    alarm = chance.ALARM / 3
    tells(size, gamma(dimension).cdf, (1.5, 1 / 1.5), np.linspace(0, 3 * dimension, 300), alarm)
    tells(axis / side, share_of_axis_cdf(dimension), (4.0,), np.linspace(0, 2, 300), alarm)
    assert chance.share_fits(int(np.sum(draws[:, 0] > 0)), len(draws), 0.5, alarm=alarm)
