"""The logistic loss and its constants, in exact arithmetic."""

import mpmath
import numpy as np
import pytest

from hdpstats.losses import BY_NAME, LogisticLoss, logistic

LOSS = LogisticLoss()
UNIT = 2.0**-53


def etas() -> np.ndarray:
    rng = np.random.default_rng(0)
    small = np.concatenate([[0.0, 5e-324, 1e-308, 1e-20], np.geomspace(1e-16, 1.0, 400)])
    large = np.concatenate([rng.uniform(0.0, 50.0, 4000), np.linspace(30.0, 760.0, 800), [1e3, 1e9, 1e15, 1e300]])
    positive = np.concatenate([small, large])
    return np.concatenate([positive, -positive])


def exact_p(eta: float) -> mpmath.mpf:
    return 1 / (1 + mpmath.exp(-mpmath.mpf(eta)))


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_the_score_errs_by_at_most_eight_units(y: float) -> None:
    eta = etas()
    score = LOSS.score(eta, np.full(len(eta), y))
    with mpmath.workprec(200):
        errors = [
            abs(mpmath.mpf(float(s)) - (exact_p(max(-1e4, min(1e4, e))) - y))
            for s, e in zip(score, eta.tolist(), strict=True)
        ]
        assert max(errors) <= 8 * UNIT


def test_a_score_in_single_precision_would_be_noticed() -> None:
    eta = etas()
    single = LOSS.score(eta, np.zeros(len(eta))).astype(np.float32)
    assert np.max(np.abs(single - LOSS.score(eta, np.zeros(len(eta))))) > 1e3 * 8 * UNIT


def test_value_and_derivatives_belong_together() -> None:
    rng = np.random.default_rng(1)
    for eta, y in zip(rng.uniform(-30.0, 30.0, 60).tolist(), rng.integers(0, 2, 60).tolist(), strict=True):
        with mpmath.workprec(200):
            value = mpmath.log1p(mpmath.exp(eta)) - y * mpmath.mpf(eta)
            p = exact_p(eta)
            one, label = np.array([eta]), np.array([float(y)])
            assert float(LOSS.value(one, label)[0]) == pytest.approx(float(value), rel=1e-13, abs=1e-14)
            assert float(LOSS.score(one, label)[0]) == pytest.approx(float(p - y), rel=1e-10, abs=1e-15)
            assert float(LOSS.curvature(one, label)[0]) == pytest.approx(float(p * (1 - p)), rel=1e-3, abs=1e-15)


def test_derivatives_are_those_of_the_value() -> None:
    eta, step = np.linspace(-8.0, 8.0, 33), 1e-5
    for y in (np.zeros(33), np.ones(33)):
        slope = (LOSS.value(eta + step, y) - LOSS.value(eta - step, y)) / (2.0 * step)
        slope_of_score = (LOSS.score(eta + step, y) - LOSS.score(eta - step, y)) / (2.0 * step)
        assert LOSS.score(eta, y) == pytest.approx(slope, abs=1e-9)
        assert LOSS.curvature(eta, y) == pytest.approx(slope_of_score, abs=1e-9)


def test_constants_are_attained_and_never_exceeded() -> None:
    eta = etas()
    for y in (np.zeros(len(eta)), np.ones(len(eta))):
        steep, curvature = np.abs(LOSS.score(eta, y)), LOSS.curvature(eta, y)
        assert np.max(steep) == float(LOSS.lipschitz) == 1.0
        assert np.max(curvature) == float(LOSS.smoothness) == 0.25
        assert np.all(curvature >= 0.0)


def test_score_and_curvature_are_coupled() -> None:
    eta = etas()
    for y in (0.0, 1.0):
        labels = np.full(len(eta), y)
        score, curvature = LOSS.score(eta, labels), LOSS.curvature(eta, labels)
        assert np.all(curvature <= np.abs(score) * (1.0 - np.abs(score)) + 4 * UNIT)
        assert np.all(score <= 0.0) if y else np.all(score >= 0.0)
    assert LOSS.coupled


def test_the_registry_names_each_loss_by_its_own_name() -> None:
    assert BY_NAME["logistic"].name == "logistic"
    assert all(name == loss.name for name, loss in BY_NAME.items())


def test_outcomes_of_another_shape_are_spread_without_a_warning() -> None:
    """Also once the loop is loaded, which then runs for few numbers: numpy warns of flags of what it broadcasts."""
    eta, y = np.linspace(-3.0, 3.0, 6).reshape(2, 3), np.array([[0.0, 1.0, 0.0]])
    one = np.zeros(1)
    logistic.residuals(one, one.copy(), one.copy())
    found = logistic.logistic_residual(eta, y)
    np.testing.assert_array_equal(found, logistic.logistic_residual(eta, np.tile(y, (2, 1))))
    assert found.shape == (2, 3)
    assert float(logistic.logistic_residual(0.0, 1.0)) == -0.5
