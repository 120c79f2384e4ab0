"""The compiled loops and their numpy versions are the same function."""

import numpy as np
import pytest

from hdpstats.solvers import kernels


@pytest.fixture(params=[(0, 3), (1, 1), (257, 4), (70_001, 3)])
def problem(request):
    rng = np.random.default_rng(3)
    n, D = request.param
    scale = 10.0 ** rng.uniform(-8, 4, size=(n, D))
    return rng.standard_normal((n, D)) * scale, rng.standard_normal(n), rng.standard_normal(D)


def test_compiled_and_numpy_agree_bit_for_bit(problem, monkeypatch):
    X, residual, theta = problem
    results = []
    for cells in (0, 10**12):
        monkeypatch.setattr(kernels, "COMPILED_CELLS", cells)
        results.append((kernels.row_products(X, theta), kernels.grid_sum(X, residual, bits=30)))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


def test_sum_is_exact_and_does_not_depend_on_the_order_of_rows(problem):
    X, residual, _ = problem
    order = np.random.default_rng(4).permutation(len(X))
    exact = sum(
        (
            np.array([int(v) for v in np.rint(row * r * 2.0**30)], dtype=object)
            for row, r in zip(X, residual, strict=True)
        ),
        start=np.zeros(X.shape[1], dtype=object),
    )
    assert kernels.grid_sum(X, residual, bits=30).tolist() == list(exact)
    np.testing.assert_array_equal(
        kernels.grid_sum(X, residual, bits=30), kernels.grid_sum(X[order], residual[order], bits=30)
    )
