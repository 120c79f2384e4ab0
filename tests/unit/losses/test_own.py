"""Which own losses depend on residuals alone, and what they say of public rows that are moved."""

import numpy as np

import hdpstats.api as hdp

LOG_COSH = {
    "value": lambda eta, y: np.logaddexp(eta - y, y - eta),
    "score": lambda eta, y: np.tanh(eta - y),
    "lipschitz": 1.0,
    "smoothness": 1.0,
}


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
