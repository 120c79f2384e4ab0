"""The bounds of `tests.chance`, against enumeration and against exact distributions."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, expon, norm

from tests import chance

LEVELS = [0.3, 0.05, 1e-3]


def compositions(total, cells):
    """Return all counts of so many cells with this sum."""
    for bars in itertools.combinations(range(total + cells - 1), cells - 1):
        ends = (-1, *bars, total + cells - 1)
        yield [after - before - 1 for before, after in itertools.pairwise(ends)]


def probability_of(counts, distribution):
    """Return the multinomial probability of counts."""
    logs = [math.lgamma(sum(counts) + 1)]
    logs += [count * math.log(p) - math.lgamma(count + 1) for count, p in zip(counts, distribution, strict=True)]
    return math.exp(math.fsum(logs))


@pytest.mark.parametrize("alarm", LEVELS)
@pytest.mark.parametrize(
    ("trials", "distribution"), [(30, (0.5, 0.3, 0.2)), (14, (0.25,) * 4), (12, (0.9, 0.05, 0.03, 0.02))]
)
def test_counts_of_the_distribution_are_rejected_no_more_often_than_said(alarm, trials, distribution):
    each = list(compositions(trials, len(distribution)))
    assert math.fsum(probability_of(counts, distribution) for counts in each) == pytest.approx(1.0)
    rejected = [
        probability_of(counts, distribution)
        for counts in each
        if not chance.counts_fit(counts, distribution, alarm=alarm)
    ]
    assert math.fsum(rejected) <= alarm


@pytest.mark.parametrize("alarm", LEVELS)
@pytest.mark.parametrize("wrong", [(0.2, 0.3, 0.5), (0.7, 0.2, 0.1), (0.1, 0.1, 0.8)])
def test_a_miss_of_counts_bounds_how_often_another_distribution_passes(alarm, wrong):
    distribution, trials = (0.5, 0.3, 0.2), 40
    accepted = [
        probability_of(counts, wrong)
        for counts in compositions(trials, 3)
        if chance.counts_fit(counts, distribution, alarm=alarm)
    ]
    assert math.fsum(accepted) <= chance.miss_of_counts(distribution, wrong, trials, alarm=alarm) + 1e-12


def test_many_draws_leave_no_miss():
    distribution, wrong = (0.5, 0.3, 0.2), (0.4, 0.35, 0.25)
    assert chance.miss_of_counts(distribution, wrong, 5000) < chance.ALARM
    assert chance.miss_of_counts(distribution, wrong, 50) > 0.5
    assert chance.miss_of_counts(distribution, distribution, 5000) == 1.0


def test_a_cell_that_cannot_be_is_no_chance():
    assert not chance.counts_fit([50, 1], [1.0, 0.0])
    assert chance.counts_fit([50, 0], [1.0, 0.0])


@pytest.mark.parametrize("alarm", LEVELS)
@pytest.mark.parametrize("probability", [0.02, 0.4, (0.3, 0.5)])
def test_shares_are_rejected_no_more_often_than_said(alarm, probability):
    hits = np.arange(61)
    truths = probability if isinstance(probability, tuple) else (probability,)
    for truth in truths:
        fits = np.array([chance.share_fits(k, 60, probability, alarm=alarm) for k in hits])
        assert binom.pmf(hits, 60, truth)[~fits].sum() <= alarm
        assert chance.miss_of_share(probability, 0.9, 60, alarm=alarm) == pytest.approx(
            binom.pmf(hits, 60, 0.9)[fits].sum()
        )


def test_so_many_trials_tell_two_shares_apart():
    trials = chance.least_trials(0.5, 0.6)
    assert chance.miss_of_share(0.5, 0.6, trials) <= chance.ALARM
    assert chance.miss_of_share(0.5, 0.6, trials * 3 // 4) > chance.ALARM


def test_values_on_quantiles_follow_their_distribution_and_moved_ones_do_not():
    values = norm.ppf((np.arange(2000) + 0.5) / 2000)
    assert chance.follows(values, norm.cdf)
    assert not chance.follows(1.5 * values, norm.cdf)
    assert not chance.follows(values + 0.3, norm.cdf)
    near = np.linspace(-4, 4, 801)
    assert chance.miss_of_cdf(norm.cdf, norm(0, 1.5).cdf, 8000, near=near) < chance.ALARM
    assert chance.miss_of_cdf(norm.cdf, norm(0, 1.05).cdf, 2000, near=near) > 0.5


@pytest.mark.wide
def test_a_miss_of_a_distribution_function_bounds_how_often_another_one_passes():
    """By 400 seeded samples, where the bound is far from 0 and 1."""
    rng, near = np.random.default_rng(1), np.linspace(0, 8, 801)
    truth = expon(0, 1.35)
    passed = np.mean([chance.follows(truth.rvs(100, random_state=rng), expon.cdf, alarm=0.01) for _ in range(400)])
    assert passed <= chance.miss_of_cdf(expon.cdf, truth.cdf, 100, near=near, alarm=0.01) + 0.05
    assert passed > 0.02


def test_sums_of_gamma_variables_have_their_exact_tails():
    shape = 3000
    for factor, fits in ((1.0, True), (1.11, True), (1.13, False), (1 / 1.13, False)):
        assert chance.gamma_sum_fits(factor * shape, shape) is fits
    assert chance.miss_of_gamma_sum(shape, 1.0) == pytest.approx(1 - chance.ALARM, abs=1e-12)
    assert chance.miss_of_gamma_sum(shape, 1.5) < 1e-30
    assert chance.square_sum_fits(np.full(400, 2.0), 2.0)
    assert not chance.square_sum_fits(np.full(400, 3.0), 2.0)


def test_a_distribution_keeps_points_that_come_often_apart():
    distribution = chance.OutcomeDistribution({z: math.exp(-abs(z)) for z in range(-30, 31)})
    assert sum(distribution.of.values()) == pytest.approx(1.0)
    cells = distribution.cells(1000)
    assert cells == [-2, -1, 0, 1, 2]
    assert distribution.shares(cells)[-1] == pytest.approx(1 - sum(distribution.of[z] for z in cells))
    draws = [z for z in distribution.of for _ in range(round(5000 * distribution.of[z]))]
    wrong = chance.OutcomeDistribution({z: math.exp(-abs(z) / 1.5) for z in range(-30, 31)})
    assert distribution.fits(draws)
    assert not wrong.fits(draws)
    assert wrong.miss(distribution, len(draws)) < chance.ALARM
    assert chance.normal_reach() == pytest.approx(6.109, abs=1e-3)
    trials = chance.enough(distribution, wrong)
    assert wrong.miss(distribution, trials) <= chance.ALARM < wrong.miss(distribution, trials * 3 // 4)
