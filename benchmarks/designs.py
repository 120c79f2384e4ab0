"""Synthetic data with known coefficients."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def ar_design(
    n: int, d: int, public: int, seed: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Draw private and public rows of a logistic regression on correlated covariates in the unit ball.

    Covariates are Gaussian with correlation 0.5 ** |j - k|, divided by the 99% quantile of the public
    rows' Euclidean norms and clipped to norm 1. The slopes have a random direction and a length that
    gives the linear predictor a standard deviation of 1.5; the intercept is 0. Outcomes are drawn after
    clipping, so the model holds exactly.

    Parameters
    ----------
    n, d, public : int
        Private rows, covariates and public rows (at least one).
    seed : int
        Seed of the generator.

    Returns
    -------
    tuple of numpy.ndarray
        X (n, d), y (n,), X_public (public, d), y_public (public,) and beta (1 + d,), intercept first.
    """
    rng = np.random.default_rng(seed)  # noqa: TID251  (data for a benchmark, not noise of a release)
    position = np.arange(d)
    correlation = 0.5 ** np.abs(position[:, None] - position[None, :])
    X = rng.standard_normal((public + n, d)) @ np.linalg.cholesky(correlation).T
    X /= np.quantile(np.linalg.norm(X[:public], axis=1), 0.99)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    slopes = rng.standard_normal(d)
    slopes *= 1.5 / np.std(X @ slopes)
    y = (rng.random(public + n) < 1.0 / (1.0 + np.exp(-X @ slopes))).astype(np.float64)
    return X[public:], y[public:], X[:public], y[:public], np.concatenate([[0.0], slopes])
