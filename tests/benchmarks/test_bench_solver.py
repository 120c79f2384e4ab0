"""What the compiled loops save, and a whole minimisation."""

import numpy as np
import pytest

from hdpstats.families.regression.rows import LinearObjective
from hdpstats.losses import LogisticLoss
from hdpstats.solvers import kernels, minimise


def _objective(n: int, D: int) -> LinearObjective:
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, D - 1))])
    y = (rng.random(n) < 0.5).astype(float)
    zero = np.zeros(D)
    ones = np.ones(n)
    return LinearObjective(
        loss=LogisticLoss(), X=X, y=y, weights=ones, offset=0 * ones, ridge=np.full(D, 10.0), centre=zero, linear=zero
    )


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("shape", [(100_000, 11), (100_000, 51), (1_000_000, 11)])
def test_gradient(benchmark, monkeypatch, shape, compiled):
    monkeypatch.setattr(kernels, "SMALLEST_COMPILED", 0 if compiled else 10**12)
    objective = _objective(*shape)
    theta = np.full(shape[1], 0.1)
    objective.gradient(theta)
    benchmark(objective.gradient, theta)


@pytest.mark.parametrize("shape", [(10_000, 11), (100_000, 11)])
def test_minimise(benchmark, shape):
    objective = _objective(*shape)
    benchmark(minimise, objective, start=np.zeros(shape[1]))
