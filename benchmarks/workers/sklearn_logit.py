"""Unpenalised logistic regression by scikit-learn; no privacy."""

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.workers.measure import main


def prepare(data: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return covariates and outcome."""
    return data["X"], data["y"]


def fit(prepared: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return intercept and slopes."""
    model = LogisticRegression(C=np.inf).fit(*prepared)
    return np.concatenate([model.intercept_, model.coef_[0]])


if __name__ == "__main__":
    main(prepare=prepare, fit=fit, packages=["scikit-learn", "numpy"])
