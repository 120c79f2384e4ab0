"""Designs less kind than the benchmark's: rare outcomes, many columns, heavy tails, rare levels, other effects."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

import hdpstats.api as hdp


@dataclass(frozen=True)
class Design:
    """How covariates are drawn, within which bounds, and the true model; sizes of the two sets of records."""

    name: str
    columns: int
    column: hdp.Continuous | hdp.Binary
    covariates: Callable[[np.random.Generator, int, int], np.ndarray]
    intercept: float
    spread: float
    records: int
    public: int
    shift: float = 0.0

    def simulate(self, seed: int) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
        """Return private rows, public rows (whose coefficients differ by ``shift``) and the private coefficients."""
        rng = np.random.default_rng(seed)
        beta = np.append(self.intercept, rng.standard_normal(self.columns) * self.spread)
        other = beta + self.shift * rng.standard_normal(len(beta))
        return self._rows(rng, self.records, beta), self._rows(rng, self.public, other), beta

    def schema(self) -> hdp.Schema:
        """Return the schema of the columns and the outcome y."""
        return hdp.Schema({f"x{j}": self.column for j in range(self.columns)} | {"y": hdp.Binary(complete=True)})

    @property
    def formula(self) -> str:
        """The model with every column."""
        return "y ~ " + " + ".join(f"x{j}" for j in range(self.columns))

    def _rows(self, rng: np.random.Generator, n: int, beta: np.ndarray) -> pd.DataFrame:
        X = self.covariates(rng, n, self.columns)
        y = rng.random(n) < 1.0 / (1.0 + np.exp(-(beta[0] + X @ beta[1:])))
        return pd.DataFrame(X, columns=[f"x{j}" for j in range(self.columns)]).assign(y=y.astype(float))


def _normal(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return np.clip(rng.standard_normal((n, d)), -4.0, 4.0)


def _heavy(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return np.clip(rng.standard_t(2.5, (n, d)), -20.0, 20.0)


def _levels(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return (rng.random((n, d)) < np.linspace(0.02, 0.5, d)).astype(float)


_PLAIN = hdp.Continuous(-4, 4, complete=True)

DESIGNS = (
    Design("rare outcome (about 4 %)", 5, _PLAIN, _normal, -3.2, 0.36, 20_000, 500),
    Design("20 columns", 20, _PLAIN, _normal, -0.3, 0.18, 10_000, 300),
    Design(
        "heavy tails (t with 2.5 degrees of freedom)",
        6,
        hdp.Continuous(-20, 20, complete=True),
        _heavy,
        -0.3,
        0.33,
        5_000,
        200,
    ),
    Design("0/1 columns, the rarest 2 %", 8, hdp.Binary(complete=True), _levels, -1.0, 0.7, 5_000, 300),
    Design("public coefficients differ (standard deviation 0.4)", 5, _PLAIN, _normal, -0.3, 0.36, 5_000, 300, 0.4),
)
