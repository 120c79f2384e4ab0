"""The subsets of the paper: its data, its algorithm against a brute-force reading, and where its analysis is wrong."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from hdpstats._base.errors import ArgumentError
from hdpstats.papers import wang as paper
from hdpstats.papers.wang import SHARES, distinct_points, rescaled

PAIR = paper.simulated_hospitals(private=800, public=300, seed=3)


@pytest.mark.wide
def test_the_simulation_has_the_papers_shape():
    pair = paper.simulated_hospitals(
        private=200_000, public=200_000, seed=1, beta_private=np.array([0.5, -1.0]), beta_public=np.array([0.2, 0.4])
    )
    np.testing.assert_allclose(pair.private.X.var(axis=0), [1.0, 1.0], rtol=0.02)
    np.testing.assert_allclose(pair.public.X.var(axis=0), [0.5, 1.0], rtol=0.02)
    np.testing.assert_allclose(paper.fit(pair.private), [0.5, -1.0], atol=0.03)
    np.testing.assert_allclose(paper.fit(pair.public), [0.2, 0.4], atol=0.03)
    high = paper.simulated_hospitals(100, private=50_000, public=50_000, seed=1)
    assert high.public.X.var() == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize(("public", "sizes"), [("gbsg", (1533, 555)), ("rotterdam", (555, 1533))])
def test_the_substitute_hospitals_have_nine_indicators(public, sizes):
    pair = paper.breast_cancer_hospitals(public)
    assert (pair.private.records, pair.public.records) == sizes
    assert pair.private.X.shape[1] == 10
    assert set(np.unique(pair.private.X)) == {0.0, 1.0}
    private, frame = pair.frames()
    assert list(frame.columns) == [*pair.names, "y"]
    assert set(pair.schema()) == {*pair.names, "y"}
    assert len(private) == sizes[0]


def test_the_fit_is_the_maximum_of_the_likelihood():
    weights = np.random.default_rng(0).uniform(0, 3, PAIR.public.records)
    X, y = PAIR.public.X, PAIR.public.y

    def loss(b):
        return weights @ (np.logaddexp(0, X @ b) - y * (X @ b))

    np.testing.assert_allclose(
        paper.fit(PAIR.public, weights), minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-9}).x, atol=1e-5
    )


def test_records_are_rescaled_by_the_public_range_and_clipped():
    points = rescaled(PAIR, PAIR.public)
    assert points.min() == 0.0
    assert points.max() == 1.0
    private = rescaled(PAIR, PAIR.private)
    low, high = PAIR.public.X.min(axis=0), PAIR.public.X.max(axis=0)
    inside = np.all((low <= PAIR.private.X) & (high >= PAIR.private.X), axis=1)
    assert not inside.all()
    np.testing.assert_allclose(private[inside][:, :2] * (high - low) + low, PAIR.private.X[inside])
    assert private.min() >= 0.0
    assert private.max() <= 1.0


def test_duplicates_are_merged():
    pair = paper.breast_cancer_hospitals()
    points, first = distinct_points(pair)
    assert len(np.unique(points, axis=0)) == len(points) < pair.public.records
    np.testing.assert_array_equal(rescaled(pair, pair.public)[first], points)


def test_without_noise_the_curve_is_that_of_brute_force():
    points, first = distinct_points(PAIR)
    found = paper.tradeoff(PAIR, np.array([20, len(points)]), epsilon=1e9, seed=1)
    private = rescaled(PAIR, PAIR.private)
    nearest = np.argmin(((private[:, None] - points[None]) ** 2).sum(axis=2), axis=1)
    hospital = paper.Hospital(X=PAIR.public.X[first], y=PAIR.public.y[first])
    theta = paper.fit(hospital, np.bincount(nearest, minlength=len(points)).astype(float))
    expected = np.linalg.norm(expit(PAIR.private.X @ theta) - expit(PAIR.private.X @ found.best))
    assert found.curve["without_noise"][1] == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(found.curve["printed"], found.curve["without_noise"], rtol=1e-3)


@pytest.mark.wide
def test_the_printed_algorithm_divides_its_budget_among_the_sizes():
    sizes = np.arange(20, 220, 20)
    runs = [paper.tradeoff(PAIR, sizes, epsilon=1.0, seed=seed).curve for seed in range(12)]
    excess = {name: np.mean([np.abs(run[name] - run["without_noise"]).mean() for run in runs]) for name in runs[0]}
    assert sum(SHARES) == 2.0
    assert excess["printed"] > 2 * excess["unsplit"]


def test_the_histogram_of_private_records_alone_comes_near_with_much_epsilon():
    exact = paper.fit(PAIR.private)
    near = paper.grid_fit(PAIR, epsilon=1e6, bins=40, seed=0)
    assert np.linalg.norm(near - exact) < 0.05
    assert np.linalg.norm(paper.grid_fit(PAIR, epsilon=0.1, bins=40, seed=0) - exact) > 0.2


@pytest.mark.parametrize("records", [101, 1001])
def test_one_record_moves_the_performance_by_half_the_root_of_n(records):
    agrees, contradicts = paper.curve_counterexample(records)
    assert agrees - contradicts > 0.95 * np.sqrt(records) / 2


@pytest.mark.parametrize("sizes", [[], [0, 10], [10, 10], [20, 10], [10, 100_000]])
def test_sizes_must_increase_within_the_public_points(sizes):
    with pytest.raises(ArgumentError, match="sizes must increase"):
        paper.tradeoff(PAIR, np.array(sizes), epsilon=1.0, seed=0)
