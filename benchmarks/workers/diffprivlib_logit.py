"""Differentially private logistic regression by diffprivlib, with the design's norm bound."""

from typing import NamedTuple

import numpy as np
from diffprivlib.models import LogisticRegression

from benchmarks.workers.measure import main


class Prepared(NamedTuple):
    """The rows and diffprivlib's settings: total epsilon and inverse penalty C."""

    X: np.ndarray
    y: np.ndarray
    epsilon: float
    C: float


def prepare(data: dict[str, np.ndarray], *, epsilon: float, C: float) -> Prepared:
    """Return rows and settings."""
    return Prepared(X=data["X"], y=data["y"], epsilon=epsilon, C=C)


def fit(prepared: Prepared) -> np.ndarray:
    """Return intercept and slopes of a fresh release."""
    model = LogisticRegression(epsilon=prepared.epsilon, data_norm=1.0, C=prepared.C)
    model.fit(prepared.X, prepared.y)
    return np.concatenate([model.intercept_, model.coef_[0]])


if __name__ == "__main__":
    main(prepare=prepare, fit=fit, packages=["diffprivlib", "scikit-learn", "numpy"])
