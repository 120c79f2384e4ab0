"""Discrete-time hazard by glum, on person-period rows."""

import numpy as np
from glum import GeneralizedLinearRegressor

from benchmarks.spells import Spells
from benchmarks.workers.hazard import main


def prepare(spells: Spells) -> tuple[np.ndarray, np.ndarray]:
    """Return a row for every person and interval, and whether the event happened in it."""
    person = np.repeat(np.arange(len(spells.exit)), spells.exit)
    ends = np.cumsum(spells.exit)
    interval = np.arange(len(person)) - np.repeat(ends - spells.exit, spells.exit)
    y = np.zeros(len(person))
    y[ends - 1] = spells.event
    return np.hstack([spells.A[interval], spells.Z[person]]), y


def fit(rows: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the coefficients at the tolerance that gives eight digits."""
    model = GeneralizedLinearRegressor(family="binomial", alpha=0.0, fit_intercept=False, gradient_tol=1e-9)
    return np.asarray(model.fit(*rows).coef_)


if __name__ == "__main__":
    main(prepare=prepare, fit=fit, packages=["glum", "numpy"])
