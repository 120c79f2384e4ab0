"""Weighted means and quantiles against repetition: the distribution of weights is known, so errors can be counted."""

from typing import Any, final

import numpy as np
import pytest

from hdpstats.inference.weighted_moments import (
    WeightDistribution,
    effective_size,
    overlap,
    sum_covariance,
    weighted_means,
    weighted_quantile,
)


@final
class PoissonWeights(WeightDistribution):
    """Weights that are independent with variance ``v_i``, of which a share is noise."""

    kind = "poisson"

    def __init__(self, weights: np.ndarray, *, noise: float, linear: bool = True) -> None:
        self._weights, self.noise, self._linear = weights, noise, linear

    @property
    def weights(self) -> np.ndarray:
        return self._weights

    @property
    def linear(self) -> bool:
        return self._linear

    def covariance(self, residuals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return residuals.T @ (self._weights[:, None] * residuals), self.noise * residuals.T @ residuals

    def draws(self, number: int) -> np.ndarray:
        rng = np.random.default_rng(7)
        spread = np.sqrt(self._weights + self.noise)
        return self._weights + spread * rng.standard_normal((number, len(self._weights)))

    def to_dict(self) -> dict[str, Any]:
        return {}


@pytest.fixture
def distribution() -> PoissonWeights:
    return PoissonWeights(np.random.default_rng(1).uniform(30.0, 90.0, 300), noise=9.0)


def repeated(distribution: PoissonWeights, statistic: Any, number: int = 4000) -> np.ndarray:
    return np.array([statistic(np.maximum(w, 0.0)) for w in distribution.draws(number)])


def test_the_error_of_a_mean_is_that_of_repetition(distribution):
    f = np.random.default_rng(2).normal(3.0, 2.0, 300)
    found = weighted_means(distribution, f[:, None])
    error = float(np.sqrt(found.sampling + found.privacy)[0, 0])
    assert found.estimates[0] == pytest.approx(np.average(f, weights=distribution.weights))
    assert error == pytest.approx(repeated(distribution, lambda w: np.average(f, weights=w)).std(), rel=0.05)


def test_a_constant_has_no_error(distribution):
    found = weighted_means(distribution, np.full((300, 1), 5.0))
    assert found.estimates[0] == pytest.approx(5.0)
    assert abs(float((found.sampling + found.privacy)[0, 0])) < 1e-20


def test_sampling_and_noise_are_told_apart(distribution):
    r = np.random.default_rng(3).normal(size=(300, 2))
    sampling, privacy = sum_covariance(distribution, r)
    np.testing.assert_allclose(privacy, 9.0 * r.T @ r)
    np.testing.assert_allclose(sampling, (r * distribution.weights[:, None]).T @ r)


def test_draws_serve_where_weights_are_not_linear_in_the_noise(distribution):
    r = np.random.default_rng(3).normal(size=(300, 2))
    drawn = PoissonWeights(distribution.weights, noise=9.0, linear=False)
    whole = sum(sum_covariance(drawn, r))
    np.testing.assert_allclose(np.diag(whole), np.diag(sum(sum_covariance(distribution, r))), rtol=0.25)


def test_limits_of_a_quantile_cover_the_spread_of_repetition(distribution):
    f = np.random.default_rng(4).exponential(size=300)
    found = weighted_quantile(distribution, f, 0.5, alpha=0.05)
    medians = repeated(distribution, lambda w: np.sort(f)[np.searchsorted(np.cumsum(w[np.argsort(f)]), 0.5 * w.sum())])
    assert found.lower < found.value < found.upper
    inside = np.mean((medians >= found.lower) & (medians <= found.upper))
    assert 0.93 < inside < 0.996  # the limits are public values: a little wide


@pytest.mark.parametrize(("q", "value"), [(0.25, 1.0), (0.26, 2.0), (0.5, 2.0), (0.75, 3.0), (0.999, 4.0)])
def test_a_quantile_is_the_least_value_with_that_share(q, value):
    even = PoissonWeights(np.ones(4), noise=0.0)
    assert weighted_quantile(even, np.array([4.0, 2.0, 1.0, 3.0]), q, alpha=0.05).value == value


def test_weights_decide_a_quantile():
    distribution = PoissonWeights(np.array([1.0, 1.0, 8.0]), noise=0.0)
    assert weighted_quantile(distribution, np.array([1.0, 2.0, 3.0]), 0.5, alpha=0.05).value == 3.0


def test_effective_size_and_overlap():
    assert effective_size(np.full(10, 3.0)) == pytest.approx(10.0)
    assert effective_size(np.array([1.0, 0.0, 0.0])) == pytest.approx(1.0)
    assert overlap(np.full(10, 3.0)) == pytest.approx(1.0)
    assert overlap(np.array([1.0, 0.0, 0.0, 0.0])) == pytest.approx(0.25)
    assert overlap(np.zeros(3)) == 0.0
