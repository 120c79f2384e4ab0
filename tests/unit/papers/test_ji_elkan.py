"""The importance weights of the paper against direct minimisation, and its two statements that do not hold."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from hdpstats._base.errors import ArgumentError
from hdpstats.papers import ji_elkan as paper

RNG = np.random.default_rng(0)
PRIVATE = (RNG.uniform(size=(400, 4)) < [0.2, 0.5, 0.7, 0.4]).astype(float)
PUBLIC = (RNG.uniform(size=(300, 4)) < [0.5, 0.5, 0.4, 0.4]).astype(float)


@pytest.mark.parametrize("ridge", [0.5, 0.1, 0.01])
def test_the_fit_minimises_the_two_means_and_the_penalty(ridge):
    def objective(b):
        return np.logaddexp(0, -PRIVATE @ b).mean() + np.logaddexp(0, PUBLIC @ b).mean() + 0.5 * ridge * float(b @ b)

    expected = minimize(objective, np.zeros(4), method="BFGS", options={"gtol": 1e-10}).x
    np.testing.assert_allclose(paper.density_ratio(PRIVATE, PUBLIC, ridge=ridge), expected, atol=1e-5)


def test_the_noise_has_the_printed_length():
    draws = paper.noisy_density_ratio(PRIVATE, PUBLIC, ridge=0.1, epsilon=0.5, seed=1, draws=20_000)
    noise = draws - paper.density_ratio(PRIVATE, PUBLIC, ridge=0.1)
    scale = 2.0 / (400 * 0.1 * 0.5)
    assert np.mean(np.sum(noise**2, axis=1)) == pytest.approx(4 * 5 * scale**2, rel=0.05)
    np.testing.assert_allclose(noise.mean(axis=0), 0.0, atol=5 * scale / np.sqrt(20_000) * 3)


def test_a_strong_ridge_gives_the_public_mean_and_a_weak_one_the_private_mean():
    values = PUBLIC[:, 0]
    weak, strong = (
        float(paper.weighted_mean(PUBLIC, values, paper.density_ratio(PRIVATE, PUBLIC, ridge=ridge)))
        for ridge in (1e-3, 1e3)
    )
    assert strong == pytest.approx(values.mean(), abs=1e-3)
    assert abs(weak - PRIVATE[:, 0].mean()) < 0.05
    assert abs(values.mean() - PRIVATE[:, 0].mean()) > 0.25


def test_the_printed_variance_is_four_times_the_one_that_repetition_shows():
    values = PUBLIC[:, 0] + PUBLIC[:, 2]
    best = paper.density_ratio(PRIVATE, PUBLIC, ridge=0.2)
    noisy = paper.noisy_density_ratio(PRIVATE, PUBLIC, ridge=0.2, epsilon=3.0, seed=2, draws=20_000)
    corrected, printed = paper.variance_bound(PUBLIC, values, best, records=400, ridge=0.2, epsilon=3.0)
    sampling, _ = paper.variance_bound(PUBLIC, values, best, records=400, ridge=0.2, epsilon=1e9)
    drawn = paper.weighted_mean(PUBLIC, values, noisy).var()
    assert drawn == pytest.approx(corrected - sampling, rel=0.1)
    assert printed == pytest.approx(4 * corrected)


def test_the_radius_of_rows_does_not_bound_the_sensitivity():
    assert 1.2 < paper.radius_counterexample(0.1) < 2.0
    assert 1.35 < paper.radius_counterexample(0.003) < 2.0


def test_dummies_leave_out_the_first_level():
    frame = pd.DataFrame({"g": ["a", "b", "c", "a"], "n": [0, 1, 0, 1]})
    assert paper.dummies(frame, ["g", "n"]).tolist() == [[0, 0, 0], [1, 0, 1], [0, 1, 0], [0, 0, 1]]
    many = paper.dummies(pd.DataFrame({"x": np.arange(100.0)}), ["x"])
    assert many.shape == (100, 3)
    assert many.sum(axis=0).tolist() == [25, 25, 25]


@pytest.mark.parametrize(("private", "public"), [(PRIVATE, PUBLIC[:, :3]), (PRIVATE[:0], PUBLIC), (PRIVATE[0], PUBLIC)])
def test_tables_must_match(private, public):
    with pytest.raises(ArgumentError, match="same columns"):
        paper.density_ratio(private, public, ridge=0.1)
