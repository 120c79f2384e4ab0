"""Weighted sums of squares of public rows, in a compiled loop: few products of columns are in registers at a time."""

import numpy as np

from hdpstats._base.caching import remembered
from hdpstats._base.compiled import compiled_reordered
from hdpstats._base.typing import FloatArray, IntArray

LANES = 512
"""Rows that are handled at a time."""


def weighted_squares(X: FloatArray, w: FloatArray) -> FloatArray:
    """Return ``sum_i w_i x_i x_i'`` (k, B, D, D) of rows (B, n, D) with weights (k, B, n)."""
    out = np.zeros((*w.shape[:2], X.shape[2], X.shape[2]))
    _add_lower(np.require(np.moveaxis(X, 2, 0), requirements=("C", "W")), w, out)
    i, j = _above(X.shape[2])
    out[:, :, i, j] = out[:, :, j, i]
    return out


@remembered(8)
def _above(D: int) -> tuple[IntArray, IntArray]:
    """Return the places (i, j) above the diagonal of a matrix (D, D)."""
    i, j = np.triu_indices(D, 1)
    return i, j


@compiled_reordered
def _add_lower(columns: FloatArray, weights: FloatArray, out: FloatArray) -> None:
    """Add products of columns (D, B, n) to the lower triangles, three columns times three at a time.

    So many sums fit into the registers of any processor with vectors. Where columns are no multiple of three the last
    one stands for those that lack: its products are written twice or thrice, not added.
    """
    D, B, n = columns.shape
    weighted = np.empty((D, LANES))
    for b in range(B):
        for start in range(0, n, LANES):
            end = min(start + LANES, n)
            rows = end - start
            for k in range(len(weights)):
                of_rows, total = weights[k, b, start:end], out[k, b]
                for i in range(D):
                    own, to = columns[i, b, start:end], weighted[i]
                    for row in range(rows):
                        to[row] = own[row] * of_rows[row]
                for i in range(0, D, 3):
                    i1, i2 = min(i + 1, D - 1), min(i + 2, D - 1)
                    w0, w1, w2 = weighted[i], weighted[i1], weighted[i2]
                    for j in range(0, i + 1, 3):
                        j1, j2 = min(j + 1, D - 1), min(j + 2, D - 1)
                        c0, c1, c2 = columns[j, b, start:end], columns[j1, b, start:end], columns[j2, b, start:end]
                        s00, s01, s02, s10, s11, s12, s20, s21, s22 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
                        for row in range(rows):
                            s00 += w0[row] * c0[row]
                            s01 += w0[row] * c1[row]
                            s02 += w0[row] * c2[row]
                            s10 += w1[row] * c0[row]
                            s11 += w1[row] * c1[row]
                            s12 += w1[row] * c2[row]
                            s20 += w2[row] * c0[row]
                            s21 += w2[row] * c1[row]
                            s22 += w2[row] * c2[row]
                        s00, s01, s02 = total[i, j] + s00, total[i, j1] + s01, total[i, j2] + s02
                        s10, s11, s12 = total[i1, j] + s10, total[i1, j1] + s11, total[i1, j2] + s12
                        s20, s21, s22 = total[i2, j] + s20, total[i2, j1] + s21, total[i2, j2] + s22
                        total[i, j], total[i, j1], total[i, j2] = s00, s01, s02
                        total[i1, j], total[i1, j1], total[i1, j2] = s10, s11, s12
                        total[i2, j], total[i2, j1], total[i2, j2] = s20, s21, s22
