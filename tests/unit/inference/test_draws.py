"""Draws in opposite pairs and matched draws: exact where they say so, of their distribution everywhere else."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest

from hdpstats.inference import draws
from hdpstats.inference.information import InObjective, OnMinimiser
from hdpstats.noise.distributions import NoiseDistribution
from hdpstats.privacy.sensitivity import BallNorm
from hdpstats.records.query import stack
from tests.unit.inference.several import part, read

KEY = "ab" * 32


def hessian():
    root = np.random.default_rng(1).standard_normal((3, 3))
    return 4000.0 * (root @ root.T / 3.0 + np.eye(3))


@pytest.mark.parametrize(("count", "columns"), [(4000, 9), (100, 3), (8, 1)])
def test_matched_draws_have_their_moments_exactly(count, columns):
    drawn = draws.generator(KEY).laplace(size=(count, columns)) / np.sqrt(2.0)
    found = draws.matched(drawn)
    assert np.allclose(found.mean(axis=0), 0.0, atol=1e-12)
    assert np.allclose(found.T @ found / count, np.eye(columns), atol=1e-12)
    assert np.abs(drawn.T @ drawn / count - np.eye(columns)).max() > 1e-3  # as they were not


def test_too_few_draws_are_left_as_they_are():
    drawn = draws.generator(KEY).standard_normal((8 * 5 - 1, 5))
    assert draws.matched(drawn) is drawn


def test_matched_draws_keep_heavy_tails():
    # Of two-sided exponential noise; a fifth of a standard deviation at 1 of 1,000 would be seen.
    drawn = draws.generator(KEY).laplace(size=(40_000, 4)) / np.sqrt(2.0)
    assert draws.matched(drawn) == pytest.approx(drawn, abs=0.15)
    assert np.quantile(np.abs(draws.matched(drawn)), 0.999) == pytest.approx(np.log(1000.0) / np.sqrt(2.0), rel=0.02)


@pytest.mark.parametrize("count", [10, 11])
def test_opposite_draws_are_opposite(count):
    half, other = (count + 1) // 2, count // 2
    normal = draws.opposite_normals(draws.generator(KEY), count, 3)
    assert normal.shape == (count, 3)
    assert np.array_equal(normal[half:], -normal[:other])
    uniform = draws.opposite_uniforms(draws.generator(KEY), count)
    assert uniform[half:] == pytest.approx(1.0 - uniform[:other])
    parts = np.floor(uniform * 2 * half).astype(int)
    assert len(set(parts.tolist())) == count  # each in a part of its own


def test_weights_in_opposite_pairs_have_the_distribution_of_the_bayesian_bootstrap():
    rows, count = 5, 40_000
    found = draws.dirichlet(draws.generator(KEY), rows, count, opposite=True)
    assert found.sum(axis=1) == pytest.approx(np.ones(count))
    for half in (found[: count // 2], found[count // 2 :]):  # weights of one row: Beta(1, rows - 1)
        assert kstest(half[:, 0], "beta", args=(1.0, rows - 1.0)).pvalue > 1e-6
    assert np.corrcoef(found[: count // 2, 0], found[count // 2 :, 0])[0, 1] < -0.4
    many = draws.dirichlet(draws.generator(KEY), 400, 20, opposite=True)
    alone = draws.dirichlet(draws.generator(KEY), 400, 20)
    assert np.std(many.mean(axis=0)) < 0.7 * np.std(alone.mean(axis=0))


def test_groups_have_a_factor_in_common_in_opposite_pairs_too():
    groups = np.array([0, 0, 1, 1])
    found = draws.dirichlet(draws.generator(KEY), 4, 20_000, groups=groups, opposite=True)
    logs = np.log(found)
    assert np.corrcoef(logs[:, 2] - logs[:, 0], logs[:, 3] - logs[:, 1])[0, 1] > 0.3


def test_standard_errors_of_a_known_curvature_have_no_error_of_chance():
    # H is known to the last digits: what is reported is the sandwich in closed form. With 4,000 draws that are
    # independent of each other it errs by about 2 %.
    H = hessian()
    for noise in (
        InObjective(distribution=NoiseDistribution(norm=BallNorm(), dimension=3, rate=0.05)),
        OnMinimiser(distribution=NoiseDistribution(norm=BallNorm(), dimension=3, rate=150.0), ridge=200.0),
    ):
        site = replace(part(None, np.zeros(3), ridge=200.0, hessian=stack(H), sd=1e-9), noise=noise)
        found = read(site, meat=0.5).private_only
        T, inverse = site.query.model.geometry.to_raw(), np.linalg.inv(H)
        expected = T @ (inverse @ noise.covariance(H) @ inverse) @ T.T
        scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        assert np.abs((found.privacy - expected) / scale).max() < 1e-6
        expected = T @ (0.5 * inverse) @ T.T
        scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        assert np.abs((found.sampling - expected) / scale).max() < 1e-6


@pytest.mark.parametrize("count", [1, 5, 100])
def test_uniform_draws_at_one_place_are_uniform_and_independent_of_those_of_another_call(count):
    rng = draws.generator(KEY)
    first, second = (np.array([draws.opposite_uniforms(rng, count) for _ in range(4000)]) for _ in range(2))
    limit = 6.0 / np.sqrt(12.0 * 4000)
    assert abs(first[:, 0].mean() - 0.5) < limit
    assert abs(first[:, -1].mean() - 0.5) < limit
    assert abs(np.corrcoef(first[:, 0], second[:, 0])[0, 1]) < 6.0 / np.sqrt(4000)
    together = [np.mean((a - 0.5) * (b - 0.5)) * 12.0 for a, b in zip(first, second, strict=True)]
    assert abs(np.mean(together)) < 0.15  # of two sites, or of shares and means, whose variances are drawn by two calls
