"""What losses say of public rows that are moved: curvature and squared scores where private people are."""

import numpy as np
import pytest

import hdpstats.api as hdp
from hdpstats.losses.counts import ExponentialTimes, events_among

LOG_COSH = {
    "value": lambda eta, y: np.logaddexp(eta - y, y - eta),
    "score": lambda eta, y: np.tanh(eta - y),
    "lipschitz": 1.0,
    "smoothness": 1.0,
}


def followed(rate, rows, seed):
    """Return times and events of rows whose follow-up ends evenly over [0, 2], and at 1 at the latest."""
    rng = np.random.default_rng(seed)
    time, leaves = rng.exponential(1.0 / rate, rows), np.minimum(rng.uniform(0.0, 2.0, rows), 1.0)
    return np.minimum(time, leaves), time <= leaves


@pytest.mark.parametrize("rate", [1e-9, 0.01, 0.5, 3.0, 40.0, 1e6])
def test_the_chance_of_an_event_without_censoring_is_that_of_the_horizon(rate):
    happens = events_among(np.ones(5), events=np.zeros(5, dtype=bool))
    assert happens(np.array([rate]))[0] == pytest.approx(-np.expm1(-rate), rel=0.01)


def test_the_chance_of_an_event_is_that_of_other_rates_under_the_same_follow_up():
    """Follow-up that ends evenly over [0, 2], and at 1: half of it is whole; rows of one rate tell of others."""
    times, events = followed(1.0, 200_000, 1)
    happens = events_among(times, events=events)
    for rate in (0.1, 0.5, 2.0, 5.0):
        ended = 0.5 * (1.0 - -np.expm1(-rate) / rate) + 0.5 * -np.expm1(-rate)
        assert happens(np.array([rate]))[0] == pytest.approx(ended, rel=0.01)


def test_of_rows_that_nobody_moved_sums_are_those_of_their_outcomes():
    times, events = followed(np.exp(np.linspace(-1.0, 1.0, 500)), 500, 2)
    loss, eta, y = ExponentialTimes(h=2.0), np.linspace(-1.2, 0.8, 500), np.where(events, -times, times)
    curvature, square = loss.over(np.stack([eta, eta]), own=eta, y=y)
    np.testing.assert_allclose(curvature.sum(axis=1), loss.curvature(eta, y).sum(), rtol=1e-9)
    np.testing.assert_allclose(square.sum(axis=1), np.sum(loss.score(eta, y) ** 2), rtol=1e-9)


def test_of_moved_rows_exponential_times_have_the_means_of_people_there():
    """By 400,000 people at each of two predictors: .5 % is five standard errors."""
    loss, here, there = ExponentialTimes(h=2.0), -0.5, 0.7
    times, events = followed(np.exp(here), 400_000, 3)
    y = np.where(events, -times, times)
    found = loss.over(np.full((1, 1), there), own=np.full(len(y), here), y=y)
    times, events = followed(np.exp(there), 400_000, 4)
    y = np.where(events, -times, times)
    eta = np.full(len(y), there)
    for one, seen in zip(found, (loss.curvature(eta, y), loss.score(eta, y) ** 2), strict=True):
        assert one[0, 0] == pytest.approx(seen.mean(), rel=0.01)


def test_own_losses_of_residuals_alone_keep_them():
    of_residuals = hdp.losses.Loss(**LOG_COSH, residual=(-9.0, 9.0)).tabulate(
        lower=0.0, upper=4.0, outcomes=np.linspace(0.0, 4.0, 9)
    )
    own, y = np.array([0.5, 2.0, 3.0]), np.array([1.0, 1.5, 3.2])
    curvature, square = of_residuals.over(own + np.array([[0.0], [2.0]]), own=own, y=y)
    assert of_residuals.raked
    np.testing.assert_array_equal(curvature, np.tile(of_residuals.curvature(own, y), (2, 1)))
    np.testing.assert_array_equal(square, np.tile(of_residuals.score(own, y) ** 2, (2, 1)))


def test_own_losses_of_predictors_and_of_uneven_residuals_are_not_raked():
    by_predictor = hdp.losses.Loss(**LOG_COSH, predictor=(-2.0, 2.0))
    uneven = hdp.losses.Loss(
        value=lambda eta, y: (1.0 + 0.1 * y) * np.logaddexp(eta - y, y - eta),
        score=lambda eta, y: (1.0 + 0.1 * y) * np.tanh(eta - y),
        lipschitz=1.4,
        smoothness=1.4,
        residual=(-9.0, 9.0),
    )
    for loss in (by_predictor, uneven):
        table = loss.tabulate(lower=0.0, upper=1.0, outcomes=np.linspace(0.0, 1.0, 9))
        assert not table.raked
