r"""Private rows of a design, whitened and weighted, in one array that is kept column by column.

The same numbers as ``whiten(geometry, design.matrix(table))``, to the last bit, without a copy of the design: the
whitening replaces the columns of the design, in pieces of rows that stay in cache. What is computed of a row depends on
that row alone: the sums over columns run in their order in every lane of a vector (`hdpstats._base.compiled`).
"""

import numpy as np

from hdpstats._base.compiled import SMALLEST_COMPILED, compiled, products
from hdpstats._base.typing import FloatArray
from hdpstats.formulas.design import Design
from hdpstats.records.geometry import LARGEST, Geometry, Rows, mallows_weights, whiten
from hdpstats.schema.table import AdmittedTable

PIECE = 128
"""Rows that are whitened at a time."""


def whitened_rows(design: Design, geometry: Geometry, table: AdmittedTable) -> Rows:
    """Return the rows of an admitted table (n, D), whitened, and their Mallows weights: a total, row-wise map.

    ``X.T`` is contiguous where there are many rows: see `hdpstats.solvers.kernels`.
    """
    if table.rows < SMALLEST_COMPILED:
        return whiten(geometry, design.matrix(table))
    return _by_columns(geometry, design.by_columns(table))


def whitened_matrix(geometry: Geometry, X: FloatArray) -> Rows:
    """Return ``whiten(geometry, X)`` of design rows (n, D), to the last bit, kept as `whitened_rows` does."""
    return whiten(geometry, X) if len(X) < SMALLEST_COMPILED else _by_columns(geometry, np.array(X.T, order="C"))


def _by_columns(geometry: Geometry, columns: FloatArray) -> Rows:
    """Return the rows whose columns (D, n) are replaced by whitened ones."""
    m, A = geometry.arrays()
    square = np.zeros(columns.shape[1])
    whiten_columns(columns[int(geometry.intercept) :], m, A, square)
    return Rows(X=columns.T, weights=mallows_weights(square, geometry))


@compiled
def whiten_columns(columns: FloatArray, m: FloatArray, A: FloatArray, square: FloatArray) -> None:
    """Replace columns (d, n) by whitened ones, and add their squares (n,)."""
    d = len(columns)
    centred, z = np.zeros((d, PIECE)), np.empty((d, PIECE))
    for start in range(0, len(square), PIECE):
        rows = min(PIECE, len(square) - start)
        squares = square[start : start + rows]
        for j in range(d):
            column, to, location = columns[j, start : start + rows], centred[j], m[j]
            for i in range(rows):
                to[i] = column[i] - location
        if d > 0:
            products(A, centred, z)
        for k in range(d):
            column, own = columns[k, start : start + rows], z[k]
            for i in range(rows):
                value = min(max(own[i], -LARGEST), LARGEST)
                column[i] = value
                squares[i] += value * value
