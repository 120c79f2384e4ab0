"""A statistical audit of the lattice noise: no evidence against its epsilon, and evidence against half the noise.

The bound holds with confidence 1 - 1e-9 (Clopper-Pearson), so a right sampler exceeds epsilon no more often.
What other bounds must exceed is 8 or more standard deviations below their means (measured over 16 seeds).
"""

from fractions import Fraction

import numpy as np
import pytest

from hdpstats.audit import epsilon_lower_bound
from hdpstats.audit.outputs import score_between
from hdpstats.noise import BallNoise
from tests import seeded

ALPHA = 1e-9
DRAWS = 16_000
DISTANCE = 64
"""How far one person moves the query, in lattice steps; epsilon is 1 at the right rate."""


@seeded.remembered
def draws(rate: Fraction) -> np.ndarray:
    noise = BallNoise(dimension=2, rate=rate)
    return np.array([noise.draw() for _ in range(DRAWS)], dtype=float)


def bound(rate: Fraction, *, distance: int = DISTANCE) -> float:
    """Return the lower bound on epsilon from draws around two points at a distance.

    The draws around both points are the same: the bound is made of a threshold, chosen on other draws, and of two
    intervals, each of which fails with half of ``ALPHA`` at most, whether they are independent or not.
    """
    first, second = np.zeros(2), np.array([float(distance), 0.0])
    here, there = draws(rate), draws(rate) + second
    return epsilon_lower_bound(score_between(here, first, second), score_between(there, first, second), alpha=ALPHA)


@pytest.mark.entropy
def test_the_noise_has_its_guarantee_and_half_of_it_does_not() -> None:
    right, halved = bound(Fraction(1, DISTANCE)), bound(Fraction(2, DISTANCE))
    assert 0.4 < right <= 1.0
    assert halved > 1.1


@pytest.mark.wide
@pytest.mark.entropy
def test_a_person_who_moves_the_query_twice_as_far_is_noticed() -> None:
    assert bound(Fraction(1, DISTANCE), distance=2 * DISTANCE) > 1.1


@pytest.mark.entropy
def test_equal_data_show_no_difference() -> None:
    first, second = np.zeros(2), np.array([float(DISTANCE), 0.0])
    here, there = np.split(score_between(draws(Fraction(1, DISTANCE)), first, second), 2)
    assert epsilon_lower_bound(here, there, alpha=ALPHA) <= 0.0


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.2), (0.9, 0.3), (0.01, 0.0)])
def test_the_bound_is_below_the_exact_ratio_of_coins(p: float, q: float) -> None:
    rng = np.random.default_rng(1)
    one, two = (rng.uniform(size=20_000) < p).astype(float), (rng.uniform(size=20_000) < q).astype(float)
    found = epsilon_lower_bound(one, two, alpha=1e-3)
    if q > 0.0:
        exact = max(abs(np.log(p / q)), abs(np.log((1.0 - p) / (1.0 - q))))
        assert 0.8 * exact < found <= exact
    else:
        # An event that one side never shows: the bound is finite, and grows with the number of outputs.
        assert 1.0 < found < np.log(0.02 * 20_000)


def test_a_delta_lowers_the_bound() -> None:
    rng = np.random.default_rng(2)
    one, two = (rng.uniform(size=20_000) < 0.05).astype(float), np.zeros(20_000)
    pure = epsilon_lower_bound(one, two)
    assert epsilon_lower_bound(one, two, delta=0.04) < pure
    assert epsilon_lower_bound(one, two, delta=0.06) <= 0.0


@pytest.mark.wide
def test_outputs_of_one_distribution_rarely_contradict_it() -> None:
    rng = np.random.default_rng(3)
    found = [epsilon_lower_bound(*rng.standard_normal((2, 2000)), alpha=0.01) for _ in range(60)]
    assert max(found) <= 0.0
