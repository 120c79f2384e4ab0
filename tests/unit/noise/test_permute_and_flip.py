"""Permute-and-flip: its law by enumeration of all permutations, and its guarantee."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from hdpstats._base.errors import ArgumentError
from hdpstats.noise.permute_and_flip import permute_and_flip

COSTS, RATE = (3, 0, 1, 7), Fraction(2, 5)


def law(costs, rate):
    """Return the probability of each choice: the average over permutations of the first coin that shows heads."""
    heads = [math.exp(-float(rate) * (cost - min(costs))) for cost in costs]
    found = np.zeros(len(costs))
    orders = list(itertools.permutations(range(len(costs))))
    for order in orders:
        left = 1.0
        for place in order:
            found[place] += left * heads[place] / len(orders)
            left *= 1 - heads[place]
    return found


def p_value(rate_drawn, rate_claimed, draws=6000):
    seen = Counter(permute_and_flip(COSTS, rate_drawn) for _ in range(draws))
    return chisquare([seen[place] for place in range(len(COSTS))], draws * law(COSTS, rate_claimed)).pvalue


def test_draws_follow_the_law():
    assert p_value(RATE, RATE) > 1e-6


def test_the_test_finds_a_rate_that_is_off_by_a_third():
    assert p_value(RATE, RATE * Fraction(4, 3)) < 1e-6


def test_the_law_is_that_of_the_least_cost_less_exponential_noise():
    rng = np.random.default_rng(0)
    noisy = np.array(COSTS) - rng.exponential(1 / float(RATE), (200_000, len(COSTS)))
    shares = np.bincount(noisy.argmin(axis=1), minlength=len(COSTS)) / len(noisy)
    np.testing.assert_allclose(shares, law(COSTS, RATE), atol=5e-3)


def test_a_change_of_differences_by_reach_changes_odds_by_at_most_their_product():
    """Rate epsilon / R is epsilon-DP for changes of differences by R, and R / 2 as bound on costs would waste half."""
    worst, reach = 0.0, 10
    for costs in itertools.product((0, 4, 10, 40), repeat=3):
        for change in itertools.product((-5, 0, 5), repeat=3):
            if max(change) - min(change) <= reach:
                moved = [cost + step for cost, step in zip(costs, change, strict=True)]
                ratio = np.abs(np.log(law(costs, Fraction(1, reach)) / law(moved, Fraction(1, reach)))).max()
                worst = max(worst, ratio)
    assert 0.97 < worst <= 1 + 1e-12


def test_a_common_change_of_costs_changes_nothing():
    np.testing.assert_allclose(law(COSTS, RATE), law([cost + 100 for cost in COSTS], RATE))


def test_the_cheapest_is_certain_when_the_others_are_hopeless():
    assert {permute_and_flip([10**12, 10**12, 5], Fraction(1)) for _ in range(50)} == {2}


def test_equal_costs_are_equally_likely():
    seen = Counter(permute_and_flip([4, 4], RATE) for _ in range(2000))
    assert 850 < seen[0] < 1150


@pytest.mark.parametrize(("costs", "rate"), [([], RATE), ([1], 0.5), ([1], Fraction(0))])
def test_nonsense_is_refused(costs, rate):
    with pytest.raises(ArgumentError):
        permute_and_flip(costs, rate)
