"""The coupled analysis against the supremum that it states, by brute force, and against its own proof."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from hdpstats._base.errors import MechanismError
from hdpstats.privacy.sensitivity import coupled_loss, coupled_noise_epsilon

NOISE = [1e-6, 0.01, 0.3, 1.0, 3.0, 20.0, 200.0]
RATIOS = [1e-9, 0.001, 0.02, 0.13, 0.5, 2.0, 40.0, 1e4]


def by_brute_force(noise_epsilon: float, r: float) -> float:
    """Return e/2 + the largest of e (1 - p) / 2 + log(1 + 4 r p (1 - p)) over a grid, refined once."""
    half, grid = noise_epsilon / 2.0, np.linspace(0.0, 1.0, 20_001)
    for _ in range(3):
        values = half * (1.0 - grid) + np.log1p(4.0 * r * grid * (1.0 - grid))
        at = int(np.argmax(values))
        low, high = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
        grid = np.linspace(low, high, 20_001)
    return half + float(np.max(values))


@pytest.mark.parametrize("noise_epsilon", NOISE)
@pytest.mark.parametrize("r", RATIOS)
def test_the_loss_is_the_largest_over_the_probability(noise_epsilon: float, r: float) -> None:
    loss, brute = coupled_loss(noise_epsilon, r), by_brute_force(noise_epsilon, r)
    assert loss == pytest.approx(brute, rel=1e-9)
    assert loss >= brute * (1.0 - 1e-13)
    assert noise_epsilon <= loss <= noise_epsilon + math.log1p(r) + 1e-12


def test_the_determinant_is_free_up_to_an_eighth_and_not_beyond() -> None:
    assert coupled_loss(1.0, 0.125) == 1.0
    assert coupled_loss(1.0, 0.1251) > 1.0
    assert coupled_loss(1.0, 0.2) > 1.01
    assert coupled_noise_epsilon(Fraction(1), Fraction(1, 8)) == 1
    assert coupled_noise_epsilon(Fraction(1), Fraction(1, 7)) < 1


EPSILONS = [Fraction(1, 100), Fraction(1, 10), Fraction(1), Fraction(7, 2), Fraction(50)]
SHARES = [Fraction(1, 1000), Fraction(1, 9), Fraction(1, 8), Fraction(1, 6), Fraction(1, 4), Fraction(2, 5)]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("share", SHARES)
def test_the_noise_of_an_epsilon_costs_what_was_offered(epsilon: Fraction, share: Fraction) -> None:
    ratio = share * epsilon
    noise = coupled_noise_epsilon(epsilon, ratio)
    assert 0 < noise <= epsilon
    cost = by_brute_force(float(noise), float(ratio))
    assert cost <= float(epsilon) * (1.0 + 1e-15)
    assert cost >= float(epsilon) * (1.0 - 1e-8)
    assert coupled_loss(float(noise), float(ratio)) <= float(epsilon)


def test_more_epsilon_gives_a_larger_noise_rate_and_more_curvature_a_smaller_one() -> None:
    along = [coupled_noise_epsilon(Fraction(k, 10), Fraction(1, 4)) for k in range(5, 60)]
    assert all(a < b for a, b in pairwise(along))
    against = [coupled_noise_epsilon(Fraction(1), Fraction(k, 100)) for k in range(13, 100, 3)]
    assert all(a > b for a, b in pairwise(against))


def test_a_determinant_above_epsilon_is_refused() -> None:
    with pytest.raises(MechanismError, match="larger ridge") as caught:
        coupled_noise_epsilon(Fraction(1, 10), Fraction(1))
    assert caught.value.facts["epsilon"] == Fraction(1, 10)
    # Just affordable: log(1 + r) a little below epsilon.
    assert coupled_noise_epsilon(Fraction(1), Fraction(171, 100)) > 0
    with pytest.raises(MechanismError):
        coupled_noise_epsilon(Fraction(1), Fraction(172, 100))


@pytest.mark.parametrize("r", [1e100, 1e160, 1e300])
def test_no_ratio_is_too_large_to_be_charged(r: float) -> None:
    """The square of such a ratio overflows."""
    assert coupled_loss(0.0, r) == pytest.approx(math.log1p(r), rel=1e-12)
    assert coupled_loss(1.0, r) == pytest.approx(by_brute_force(1.0, r), rel=1e-9)
    with pytest.raises(MechanismError, match="larger ridge"):
        coupled_noise_epsilon(Fraction(1), Fraction(r))
