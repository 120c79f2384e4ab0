"""How loops are compiled, and the two loops over rows that every gradient makes, in numpy or compiled.

Both versions do the same operations in the same order and agree bit for bit: which one runs is a matter of time only.
Compiling takes half a second a process, so it takes less time from a few million cells on; measured in
``tests/benchmarks/test_bench_solver.py``.
"""

import math
from collections.abc import Callable
from typing import Any, cast

import numba
import numpy as np

from hdpstats._base.typing import FloatArray, IntArray


def compiled(loop: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile a loop, once per machine where there is a place to keep compiled code, else once per process.

    Without options nothing is reordered or fused: numbers are those of numpy to the last bit.
    """
    options = {"nogil": True, "error_model": "numpy"} | options
    try:
        return cast("Callable[..., Any]", numba.njit(cache=True, **options)(loop))
    except RuntimeError:
        return cast("Callable[..., Any]", numba.njit(**options)(loop))


COMPILED_CELLS = 4_000_000
"""Rows times columns from which the compiled loops are used."""

BLOCK = 65_536
"""Rows that numpy handles at a time: keeps temporaries in cache and memory flat."""


def row_products(X: FloatArray, theta: FloatArray) -> FloatArray:
    """Return ``X theta`` (n,), each row's number depending on that row alone, which BLAS does not ensure."""
    if X.size >= COMPILED_CELLS:
        return np.asarray(_compiled_products(X, theta))
    products = np.zeros(len(X))
    for column, coefficient in zip(X.T, theta, strict=True):
        products += column * coefficient
    return products


def grid_sum(X: FloatArray, residual: FloatArray, *, bits: int) -> IntArray:
    """Return the exact sum (D,) over rows of ``residual_i x_i``, each summand rounded to a multiple of 2^-bits."""
    if X.size >= COMPILED_CELLS:
        return np.asarray(_compiled_sum(X, residual, math.ldexp(1.0, bits)))
    total = np.zeros(X.shape[1], dtype=np.int64)
    for start in range(0, len(X), BLOCK):
        rows = slice(start, start + BLOCK)
        summands = np.rint(X[rows] * residual[rows, None] * math.ldexp(1.0, bits))
        total += summands.astype(np.int64).sum(axis=0)
    return total


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def _compiled_products(X: FloatArray, theta: FloatArray) -> FloatArray:
    n, D = X.shape
    products = np.zeros(n)
    for i in range(n):
        total = 0.0
        for j in range(D):
            total += X[i, j] * theta[j]
        products[i] = total
    return products


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def _compiled_sum(X: FloatArray, residual: FloatArray, scale: float) -> IntArray:
    n, D = X.shape
    total = np.zeros(D, dtype=np.int64)
    for i in range(n):
        for j in range(D):
            total[j] += np.int64(np.rint(X[i, j] * residual[i] * scale))
    return total
