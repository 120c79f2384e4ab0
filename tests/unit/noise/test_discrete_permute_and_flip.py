"""Permute-and-flip: its distribution by enumeration of all permutations, and its guarantee."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.noise import PermuteAndFlip
from tests import chance
from tests.known_noise import choices

COSTS, RATE = (3, 0, 1, 7), Fraction(2, 5)
CHOICE = PermuteAndFlip(rate=RATE)


def distribution_of(costs, rate):
    return chance.OutcomeDistribution(dict(enumerate(choices(costs, rate))))


@pytest.mark.entropy
def test_draws_follow_the_distribution_and_not_that_of_a_rate_that_is_off_by_a_third():
    """False alarm and miss of a rate 4/3 times as large, or exponential noise's, are at most 1e-9 (`tests.chance`)."""
    drawn = [CHOICE.draw(COSTS) for _ in range(12_000)]
    heights = np.exp(-float(RATE) * np.array(COSTS))  # the exponential mechanism, with the same rate
    chance.tells(
        distribution_of(COSTS, RATE),
        drawn,
        distribution_of(COSTS, RATE * Fraction(4, 3)),
        chance.OutcomeDistribution(dict(enumerate(heights))),
    )


def test_the_distribution_is_that_of_the_least_cost_less_exponential_noise():
    rng = np.random.default_rng(0)
    noisy = np.array(COSTS) - rng.exponential(1 / float(RATE), (200_000, len(COSTS)))
    shares = np.bincount(noisy.argmin(axis=1), minlength=len(COSTS)) / len(noisy)
    np.testing.assert_allclose(shares, choices(COSTS, RATE), atol=5e-3)


def test_a_change_of_differences_by_reach_changes_odds_by_at_most_their_product():
    """Rate epsilon / R is epsilon-DP for changes of differences by R, and R / 2 as bound on costs would waste half."""
    worst, reach = 0.0, 10
    for costs in itertools.product((0, 4, 10, 40), repeat=3):
        for change in itertools.product((-5, 0, 5), repeat=3):
            if max(change) - min(change) <= reach:
                moved = [cost + step for cost, step in zip(costs, change, strict=True)]
                ratio = np.abs(np.log(choices(costs, Fraction(1, reach)) / choices(moved, Fraction(1, reach)))).max()
                worst = max(worst, ratio)
    assert 0.97 < worst <= 1 + 1e-12


def test_a_common_change_of_costs_changes_nothing():
    np.testing.assert_allclose(choices(COSTS, RATE), choices([cost + 100 for cost in COSTS], RATE))


@pytest.mark.entropy
def test_the_cheapest_is_certain_when_the_others_are_hopeless():
    assert {PermuteAndFlip(rate=Fraction(1)).draw([10**12, 10**12, 5]) for _ in range(50)} == {2}


@pytest.mark.entropy
def test_equal_costs_are_equally_likely():
    """Exact binomial tails: a false alarm has probability 1e-9 at most, and 0.35 instead of 0.5 passes with no more."""
    firsts = sum(CHOICE.draw([4, 4]) == 0 for _ in range(2000))
    assert chance.share_fits(firsts, 2000, 0.5)
    assert chance.miss_of_share(0.5, 0.35, 2000) <= chance.ALARM


@pytest.mark.parametrize(("costs", "rate"), [([], RATE), ([1], 0.5), ([1], Fraction(0))])
def test_nonsense_is_refused(costs, rate):
    with pytest.raises(ArgumentError):
        PermuteAndFlip(rate=rate).draw(costs)
