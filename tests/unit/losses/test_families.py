"""Exponential families: mean maps and their inverses, information and bias against simulation and numerical slopes."""

import functools

import numpy as np
import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.losses.families import (
    FAMILIES,
    BernoulliFamily,
    ExponentialTimeFamily,
    GammaFamily,
    NormalFamily,
    PoissonFamily,
    corrected,
)

CASES = {
    "bernoulli": (BernoulliFamily(lower=0.0, upper=1.0), [0.3], lambda rng, size: (rng.random(size) < 0.3) * 1.0),
    "poisson": (PoissonFamily(lower=0.0, upper=60.0), [3.0], lambda rng, size: rng.poisson(3.0, size) * 1.0),
    "exponential": (
        ExponentialTimeFamily(lower=0.0, upper=60.0),
        [2.0],
        lambda rng, size: rng.exponential(0.5, size),
    ),
    "normal": (
        NormalFamily(lower=50.0, upper=210.0),
        [130.0, 15.0],
        lambda rng, size: rng.normal(130.0, 15.0, size),
    ),
    "gamma": (GammaFamily(lower=1e-4, upper=90.0), [2.5, 0.7], lambda rng, size: rng.gamma(2.5, 1 / 0.7, size)),
}
SIZE = 40


@functools.cache
def estimates(name, repeats=40_000):
    """Return maximum likelihood estimates from samples of `SIZE`, and the means of statistics."""
    family, _, draw = CASES[name]
    x = draw(np.random.default_rng(0), (repeats, SIZE))
    values = family.statistics(x.ravel())
    tau = values.reshape(repeats, SIZE, -1).mean(axis=1)
    return family.solve(tau), tau


def test_every_family_has_a_case():
    assert set(CASES) == set(FAMILIES)


@pytest.mark.parametrize("name", CASES)
def test_the_mean_map_has_its_inverse_and_its_slope(name):
    family, theta, _ = CASES[name]
    theta = np.array(theta)
    assert family.solve(family.mean(theta)[None])[0] == pytest.approx(theta, rel=1e-9)
    steps = np.diag(1e-6 * theta)
    numeric = np.column_stack([(family.mean(theta + h) - family.mean(theta - h)) / (2 * h.sum()) for h in steps])
    assert family.slope(theta) == pytest.approx(numeric, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_statistics_of_admitted_numbers_lie_in_the_box_and_attain_it(name):
    family = CASES[name][0]
    values = family.statistics(np.linspace(family.lower, family.upper, 1001))
    for column, (low, high) in zip(values.T, family.box, strict=True):
        assert column.min() == pytest.approx(low, abs=1e-6)
        assert column.max() == pytest.approx(high)
        assert ((column >= low) & (column <= high)).all()


@pytest.mark.parametrize("name", CASES)
def test_information_is_the_inverse_covariance_of_estimates(name):
    family, theta, _ = CASES[name]
    _, tau = estimates(name)
    # through the mean map there is no term of order 1/n: Cov(T) = slope I^-1 slope'
    slope, inverse = family.slope(np.array(theta)), np.linalg.inv(family.information(np.array(theta)))
    expected = slope @ inverse @ slope.T
    assert SIZE * np.cov(tau.T).reshape(expected.shape) == pytest.approx(expected, rel=0.05, abs=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_bias_correction_removes_the_bias_of_order_one_over_n(name):
    family, theta, _ = CASES[name]
    found, tau = estimates(name)
    better = corrected(family, tau, np.full(len(tau), float(SIZE)))
    error = found.std(axis=0) / np.sqrt(len(found))
    before, after = np.abs(found.mean(axis=0) - theta), np.abs(better.mean(axis=0) - theta)
    assert (after <= 4 * error + 0.15 * before).all()
    biased = np.abs(family.bias(np.array([theta]))[0]) > 0
    assert (before[biased] > 6 * error[biased]).all()  # so that a wrong sign or factor would be seen


@pytest.mark.parametrize("name", CASES)
def test_means_that_no_sample_has_give_numbers_and_no_warning(name):
    family = CASES[name][0]
    d = len(family.parameters)
    strange = np.array([[0.0] * d, [-1e9] * d, [1e9] * d, [np.nan] * d])
    assert corrected(family, strange, np.zeros(4)).shape == (4, d)


@pytest.mark.parametrize(
    ("name", "lower", "upper"), [("bernoulli", 0, 2), ("poisson", -1, 5), ("exponential", -1, 5), ("gamma", 0, 5)]
)
def test_bounds_that_a_family_never_has_are_refused(name, lower, upper):
    with pytest.raises(ArgumentError, match=f"family '{name}'"):
        FAMILIES[name](lower=float(lower), upper=float(upper))
