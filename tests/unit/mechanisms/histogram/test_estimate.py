"""Weights from noisy counts: projections against their definitions, errors against simulation."""

from fractions import Fraction

import numpy as np
import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.mechanisms.histogram import estimate as module
from hdpstats.mechanisms.histogram.estimate import HistogramWeights, project, project_nested
from hdpstats.noise.discrete import TwoSidedGeometric

M, N, RECORDS = 30, 120, 3000
RNG = np.random.default_rng(3)
CELL = np.concatenate([np.arange(M), RNG.integers(0, M, N - M)])
COUNTS = RNG.poisson(RECORDS / M, M) + RNG.integers(-9, 9, M)
ORDER = RNG.permutation(M)
VALUES = RNG.normal(size=(N, 2))


def distribution_of(**changes):
    fields = {
        "counts": COUNTS,
        "rate": Fraction(1, 2),
        "cell": CELL,
        "records": RECORDS,
        "projection": "simplex",
        "seed": "ab12",
    }
    return HistogramWeights(**(fields | changes))


@pytest.mark.parametrize("total", [0.0, 1.0, 50.0])
def test_the_projection_is_the_nearest_point_of_the_simplex(total):
    """The conditions of the minimum: what is above 0 moved by the same amount, what is 0 by no more."""
    values = np.random.default_rng(0).normal(0, 5, (20, 9))
    found = project(values, np.full(20, total))
    np.testing.assert_allclose(found.sum(axis=1), total, atol=1e-9)
    for row, point in zip(values, found, strict=True):
        assert np.all(point >= 0)
        moved = (row - point)[point > 0]
        if moved.size:
            np.testing.assert_allclose(moved, moved[0], atol=1e-9)
            assert np.all((row - point)[point == 0] <= moved[0] + 1e-9)


def test_the_nested_projection_keeps_totals_and_signs():
    values, totals = np.random.default_rng(1).normal(5, 20, (50, 37)), np.random.default_rng(2).uniform(1, 500, 50)
    found = project_nested(values, totals, np.random.default_rng(3).permutation(37))
    assert np.all(found >= 0)
    np.testing.assert_allclose(found.sum(axis=1), totals)


def test_the_nested_projection_corrects_by_the_number_of_cells_and_changes_nothing_consistent():
    order = np.arange(5)
    np.testing.assert_allclose(project_nested(np.full((1, 5), 7.0), np.array([40.0]), order), 8.0)
    exact = np.array([[3.0, 0.0, 5.0, 1.0, 2.0]])
    np.testing.assert_allclose(project_nested(exact, exact.sum(axis=1), order[::-1]), exact)


def test_noise_in_empty_cells_is_taken_from_neighbours_and_not_from_afar():
    """A full region far from an empty one loses nothing on average; by one simplex for all it loses much."""
    truth = np.concatenate([np.full(256, 10.0), np.zeros(768)])
    noise = np.random.default_rng(5).laplace(0, 4, (300, 1024))
    total = np.full(300, truth.sum())
    nested = project_nested(truth + noise, total, np.arange(1024))[:, :256].sum(axis=1).mean()
    flat = project(truth + noise, total)[:, :256].sum(axis=1).mean()
    assert abs(nested - 2560) < 100
    assert flat < 2560 - 400


@pytest.mark.covering(1)
@pytest.mark.parametrize("projection", ["simplex", "clip", "none"])
@pytest.mark.parametrize("order", [None, ORDER])
@pytest.mark.parametrize("records", [RECORDS, None])
def test_the_covariance_is_that_of_draws(projection, order, records):
    distribution = distribution_of(projection=projection, order=order, records=records)
    residuals = VALUES - distribution.weights @ VALUES / distribution.weights.sum()
    claimed = sum(distribution.covariance(residuals))
    drawn = np.cov((distribution.draws(3000) @ residuals).T)
    np.testing.assert_allclose(np.diag(claimed), np.diag(drawn), rtol=0.12)


def test_without_projection_the_privacy_part_is_the_noise_of_cell_means():
    distribution = distribution_of(projection="none", cell=np.arange(M))
    _, privacy = distribution.covariance(VALUES[:M])
    np.testing.assert_allclose(privacy, TwoSidedGeometric(rate=Fraction(1, 2)).variance * VALUES[:M].T @ VALUES[:M])
    assert distribution.linear
    assert not distribution_of().linear


def test_the_covariance_is_that_of_the_whole_way_from_people_to_weights():
    """Simulate people, public rows and noise of a known population, and compare with what one outcome announces."""
    rng, m, people, rows = np.random.default_rng(8), 6, 4000, 40
    shares, means = np.array([0.3, 0.25, 0.2, 0.15, 0.07, 0.03]), rng.normal(size=m)
    sums, claimed = [], []
    for _ in range(800):
        cell = np.repeat(np.arange(m), rows)
        values = means[cell] + rng.normal(0, 2, len(cell))
        noise = rng.geometric(1 - np.exp(-0.1), m) - rng.geometric(1 - np.exp(-0.1), m)
        counts = rng.multinomial(people, shares) + noise
        distribution = HistogramWeights(
            counts=counts, rate=Fraction(1, 10), cell=cell, records=people, projection="none", seed="1"
        )
        centred = values - shares @ means
        sums.append(distribution.weights @ centred)
        claimed.append(sum(distribution.covariance(centred[:, None]))[0, 0])
    assert np.mean(claimed) == pytest.approx(np.var(sums), rel=0.15)


def test_merged_counts_carry_the_noise_of_all_of_them():
    noises = np.full(M, 9)
    single, merged = (distribution_of(projection="none", noises=each).covariance(VALUES)[1] for each in (None, noises))
    np.testing.assert_allclose(merged, 9 * single)
    distribution = distribution_of(projection="none", noises=noises)
    residuals = VALUES - distribution.weights @ VALUES / distribution.weights.sum()
    drawn = np.cov((distribution.draws(3000) @ residuals).T)
    np.testing.assert_allclose(np.diag(sum(distribution.covariance(residuals))), np.diag(drawn), rtol=0.12)


def test_rows_of_a_cell_share_its_weight_equally():
    distribution = distribution_of(order=ORDER)
    for cell in range(M):
        own = distribution.weights[cell == CELL]
        np.testing.assert_allclose(own, distribution.cell_weights[cell] / len(own))
    assert distribution.weights.sum() == pytest.approx(RECORDS)


@pytest.mark.parametrize("projection", ["simplex", "clip"])
def test_where_the_number_is_protected_weights_sum_to_the_noisy_counts(projection):
    distribution = distribution_of(records=None, projection=projection)
    assert distribution.weights.sum() == pytest.approx(COUNTS.sum())
    nobody = distribution_of(records=None, projection=projection, counts=np.full(M, -3))
    assert nobody.weights.sum() == pytest.approx(1.0)
    assert np.all(np.isfinite(nobody.draws(20)))


def test_draws_are_those_of_the_release():
    np.testing.assert_array_equal(distribution_of().draws(5), distribution_of().draws(5))
    assert not np.array_equal(distribution_of().draws(5), distribution_of(seed="cd34").draws(5))


@pytest.mark.parametrize("kept", [0, 10**9])
def test_draws_are_made_once_where_they_may_be_kept_and_sums_are_theirs_either_way(monkeypatch, kept):
    made = []
    draw = module.HistogramWeights._draw
    monkeypatch.setattr(module, "KEPT", kept)
    monkeypatch.setattr(module, "BATCH", 7 * N)
    monkeypatch.setattr(module.HistogramWeights, "_draw", lambda *given: made.append(given[-1]) or draw(*given))
    distribution = distribution_of()
    first, again, other = (
        distribution.drawn_sums(residuals, 50) for residuals in (VALUES, VALUES, 2.0 * VALUES[:, :1])
    )
    np.testing.assert_allclose(first, distribution_of().draws(50) @ VALUES, rtol=1e-12)
    np.testing.assert_array_equal(again, first)
    np.testing.assert_allclose(other, 2.0 * first[:, :1], rtol=1e-12)
    assert made == ([7] * 7 + [1]) * ((1 if kept else 3) + 1)


@pytest.mark.parametrize("changes", [{}, {"order": ORDER}, {"noises": np.full(M, 2), "records": None}])
def test_round_trip(changes):
    distribution = distribution_of(**changes)
    again = HistogramWeights.from_dict(distribution.to_dict())
    np.testing.assert_array_equal(again.weights, distribution.weights)
    np.testing.assert_array_equal(again.draws(3), distribution.draws(3))
    assert again.to_dict() == distribution.to_dict()


@pytest.mark.parametrize(
    "changes", [{"projection": "x"}, {"cell": CELL + 1}, {"order": np.zeros(M, dtype=int)}, {"counts": COUNTS[:0]}]
)
def test_nonsense_is_refused(changes):
    with pytest.raises(ArgumentError):
        distribution_of(**changes)
