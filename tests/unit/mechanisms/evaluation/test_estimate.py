"""Statistics of a noisy table: without noise those of the rows, with noise unbiased and with honest errors."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from hdpstats.mechanisms.evaluation import EvaluationQuery
from hdpstats.mechanisms.evaluation import estimate as noisy_table
from hdpstats.mechanisms.evaluation.estimate import NoisyTable, limits, measure, monotone
from hdpstats.public.follow_up import FollowUp, brier_scores, kaplan_meier
from hdpstats.public.follow_up import concordance as concordance_of_rows
from hdpstats.records.model import TimeGrid

q = 12


def query_of(*, groups=4, ends=tuple(range(1, q + 1)), causes=1, survival=True):
    return EvaluationQuery(
        formula="Surv(time, event) ~ x" if survival else "y ~ x",
        coefficients=(1.0,),
        offset=None,
        cuts=tuple(float(k) for k in range(groups - 1)),
        grid=TimeGrid(tuple(float(s) for s in range(1, q + 1))) if survival else None,
        ends=ends if survival else (),
        causes=causes,
        epsilon=Fraction(1),
        schema_sha256="0" * 64,
        public_sha256=None,
    )


def people(number, *, causes=1, groups=4, seed=1):
    """Return group, interval of exit and cause of people, higher groups at higher risk."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, groups, number)
    hazard = 0.04 * np.exp(0.5 * (group - 1.5))
    time = rng.geometric(hazard)
    censored = rng.integers(1, 2 * q, number)
    exit_ = np.minimum(np.minimum(time, censored), q)
    event = (time <= censored) & (time <= q)
    return group, exit_, np.where(event, rng.integers(1, causes + 1, number), 0)


def counts_of(query, group, exit_, cause):
    """Return the table of people in the order of the query."""
    ends, bins = np.array(query.ends), len(query.ends)
    completed = (ends <= exit_[:, None]).sum(axis=1)
    here = (cause - 1) * bins + (ends >= exit_[:, None]).argmax(axis=1)
    places = group * query.width + np.where(cause, here, query.causes * bins + completed)
    return np.bincount(places, minlength=query.cells).astype(float)


def table_of(query, rows, *, noise_variance=0.0, noise=0.0):
    return NoisyTable(query=query, counts=counts_of(query, *rows) + noise, noise_variance=noise_variance)


def follow_up(rows, *, causes=1, keep=slice(None)):
    _, exit_, cause = rows
    return FollowUp(time=exit_[keep].astype(float), cause=cause[keep], causes=causes)


@pytest.mark.parametrize("causes", [1, 2])
def test_without_noise_incidence_is_the_product_limit_estimate_of_the_rows(causes):
    rows = people(900, causes=causes)
    table = table_of(query_of(causes=causes), rows)
    times = np.arange(1.0, q + 1)
    for k in range(causes):
        found = measure(table, partial(noisy_table.incidence, cause=k))
        for g in range(4):
            curves = kaplan_meier(follow_up(rows, causes=causes, keep=rows[0] == g))
            assert found.value[g] == pytest.approx(curves.at(curves.incidence[:, k], times, start=0.0), abs=1e-12)
            errors = curves.at(curves.std_error[:, k], times, start=0.0)
            assert found.std_error[g] == pytest.approx(errors, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("causes", [1, 2])
def test_without_noise_concordance_is_that_of_the_rows(causes):
    rows = people(900, causes=causes)
    table = table_of(query_of(causes=causes), rows)
    for k in range(causes):
        expected = concordance_of_rows(follow_up(rows, causes=causes), rows[0].astype(float), cause=k + 1)
        found = measure(table, partial(noisy_table.concordance, cause=k))
        assert float(found.value) == pytest.approx(expected.value, abs=1e-12)
        assert float(found.std_error) == pytest.approx(expected.std_error, rel=1e-4)


@pytest.mark.parametrize("causes", [1, 2])
def test_without_noise_brier_scores_are_those_of_the_rows(causes):
    rows = people(900, causes=causes)
    predicted = np.linspace(0.05, 0.6, 4)[:, None] * np.linspace(0.1, 1.0, q)
    table = table_of(query_of(causes=causes), rows)
    for k in range(causes):
        expected = brier_scores(follow_up(rows, causes=causes), predicted[rows[0]], np.arange(1.0, q + 1), cause=k + 1)
        found = noisy_table.brier(table.cells, predicted, k)
        assert found == pytest.approx(expected, abs=1e-12)


def test_wide_bins_come_close_to_narrow_ones():
    """Whom censoring within a bin takes away is at risk for a part of it: not for all of it, and not for nothing."""
    rows = people(40_000)
    narrow, wide = (table_of(query_of(ends=ends), rows) for ends in (tuple(range(1, q + 1)), (4, 8, 12)))
    fine, coarse = (noisy_table.incidence(table.cells, 0) for table in (narrow, wide))
    assert coarse == pytest.approx(fine[:, [3, 7, 11]], abs=0.005)
    predicted = fine
    assert noisy_table.brier(wide.cells, predicted[:, [3, 7, 11]], 0) == pytest.approx(
        noisy_table.brier(narrow.cells, predicted, 0)[[3, 7, 11]], abs=0.003
    )
    c_fine, c_coarse = (float(noisy_table.concordance(table.cells, 0)) for table in (narrow, wide))
    assert c_fine < c_coarse < c_fine + 0.012
    assert noisy_table.observed_over_expected(narrow.cells, fine, 0)[-1] == pytest.approx(1.0, abs=0.01)


def test_a_binary_outcome_is_a_table_of_one_bin():
    query = query_of(survival=False, groups=3)
    counts = np.array([80.0, 20.0, 60.0, 40.0, 30.0, 70.0])
    table = NoisyTable(query=query, counts=counts, noise_variance=0.0)
    shares = np.array([[0.2], [0.4], [0.7]])
    found = measure(table, partial(noisy_table.incidence, cause=0))
    assert found.value == pytest.approx(shares)
    assert found.std_error == pytest.approx(np.sqrt(shares * (1 - shares) / 100), rel=1e-6)
    events, others = counts[1::2], counts[::2]
    wins = sum(events[g] * (others[:g].sum() + others[g] / 2) for g in range(3))
    assert float(noisy_table.concordance(table.cells, 0)) == pytest.approx(wins / events.sum() / others.sum())
    predicted = np.array([[0.1], [0.5], [0.8]])
    brier = sum(20 * 0.81 * (g == 0) + 0 for g in range(1)) + 80 * 0.01 + 40 * 0.25 + 60 * 0.25 + 70 * 0.04 + 30 * 0.64
    assert noisy_table.brier(table.cells, predicted, 0) == pytest.approx([brier / 300])
    assert noisy_table.observed_over_expected(table.cells, predicted, 0) == pytest.approx([1.3 / 1.4])


def simulated(statistic, *, repeats=400, number=1500, variance=8.0, ends=(2, 4, 6, 8, 10, 12)):
    """Return estimates and standard errors of a statistic from tables of fresh people with fresh noise."""
    query, rng = query_of(ends=ends), np.random.default_rng(7)
    values, errors = [], []
    for seed in range(repeats):
        noise = rng.normal(scale=np.sqrt(variance), size=query.cells).round()
        table = table_of(query, people(number, seed=seed), noise_variance=variance, noise=noise)
        found = measure(table, statistic)
        values.append(found.value)
        errors.append(found.std_error)
    return np.array(values), np.array(errors)


def test_noise_biases_nothing_and_is_counted():
    truth = table_of(query_of(ends=(2, 4, 6, 8, 10, 12)), people(60_000, seed=99))

    def statistic(cells):
        last = noisy_table.incidence(cells, 0)[..., -1]
        return np.concatenate([last, noisy_table.concordance(cells, 0)[..., None]], axis=-1)

    expected = statistic(truth.cells)
    values, errors = simulated(statistic)
    spread = values.std(axis=0)
    assert values.mean(axis=0) == pytest.approx(expected, abs=0.012)
    assert np.sqrt((errors**2).mean(axis=0)) == pytest.approx(spread, rel=0.15)
    covered = (np.abs(values - expected) <= 1.96 * errors).mean(axis=0)
    assert ((covered >= 0.91) & (covered <= 0.985)).all()
    # Standard errors without the noise would be too small.
    blind, _ = simulated(statistic, variance=0.0, repeats=60)
    assert (spread > 1.15 * blind.std(axis=0))[:3].all()


def test_cells_that_are_raised_to_zero_would_bias():
    """The control of the choice to leave negative cells as they are."""
    query, rng = query_of(groups=8), np.random.default_rng(3)
    rows = people(400, groups=8)
    clean = float(noisy_table.concordance(table_of(query, rows).cells, 0))
    kept, raised = [], []
    for _ in range(300):
        counts = counts_of(query, *rows) + rng.normal(scale=2.8, size=query.cells).round()
        for cells, found in ((counts, kept), (np.maximum(counts, 0.0), raised)):
            found.append(
                float(noisy_table.concordance(NoisyTable(query=query, counts=cells, noise_variance=8).cells, 0))
            )
    assert np.mean(kept) == pytest.approx(clean, abs=0.02)
    assert np.mean(raised) < clean - 0.05


def test_sets_that_drown_in_noise_tell_nothing():
    query = query_of(groups=3, ends=(6, 12))
    counts = np.zeros((3, query.width))
    counts[0] = [50, 50, 10, 10, 80]
    counts[1] = [2, 0, 3, 0, 9]
    counts[2] = [-3, 1, -2, 0, 2]
    table = NoisyTable(query=query, counts=counts.ravel(), noise_variance=2.0)
    assert table.is_clear.tolist() == [[True, True], [True, True], [False, False]]
    drowned = NoisyTable(query=query, counts=counts.ravel(), noise_variance=50.0)
    assert drowned.is_clear.tolist() == [[True, True], [False, False], [False, False]]


@pytest.mark.parametrize("level", [0.0, 0.4])
def test_nothing_raises_or_warns_whatever_the_noise(level):
    """A table of noise alone, or of nobody."""
    query, rng = query_of(groups=10, causes=2), np.random.default_rng(1)
    counts = np.round(level * rng.normal(scale=30.0, size=query.cells))
    table = NoisyTable(query=query, counts=counts, noise_variance=900.0)
    predicted = np.full((10, q), 0.3)
    for cause in (0, 1):
        for statistic in (
            partial(noisy_table.incidence, cause=cause),
            partial(noisy_table.concordance, cause=cause),
            partial(noisy_table.brier, predicted=predicted, cause=cause),
            partial(noisy_table.observed_over_expected, predicted=predicted, cause=cause),
        ):
            measure(table, statistic)


def test_curves_are_made_to_increase_within_bounds():
    assert monotone(np.array([0.1, 0.05, 0.3, 1.2])) == pytest.approx([0.075, 0.075, 0.3, 1.0])
    assert monotone(np.array([-0.1, 0.2])).tolist() == [0.0, 0.2]
    increasing = np.array([0.0, 0.2, 0.2, 0.9])
    assert monotone(increasing) == pytest.approx(increasing)


def test_limits_lie_around_the_estimate_and_within_bounds():
    value, error = np.array([0.001, 0.1, 0.5, 0.97, 0.999, -0.02, 1.01]), np.full(7, 0.02)
    low, high = limits(value, error, alpha=0.05)
    assert (low >= 0.0).all()
    assert (high <= 1.0).all()
    assert (low <= np.clip(value, 0.0, 1.0)).all()
    assert (high >= np.clip(value, 0.0, 1.0)).all()
    assert (high - low)[2] == pytest.approx(2 * 1.96 * 0.02, rel=0.02)
