"""Raked public people in a geometry, with the second moments that no coefficients change.

Columns of rows lie one after the other in memory, (D, B, n): every column is made and read by itself.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from hdpstats._base.compiled import compiled_reordered
from hdpstats._base.typing import FloatArray
from hdpstats.public.raking import RakedPeople
from hdpstats.records.geometry import Geometry, mallows_weights

LANES = 512
"""Rows that are handled at a time."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class WhitenedPeople:
    """Raked people in a geometry: rows ``(1, A (x - m))`` (B, n, D) and Mallows weights (B, n).

    As of `RakedPeople.X`, columns of ``X`` lie one after the other in memory.
    """

    raked: RakedPeople
    X: FloatArray
    mallows: FloatArray
    slopes: slice

    @property
    def weights(self) -> FloatArray:
        """The people's weights (B, n)."""
        return self.raked.weights

    @property
    def z(self) -> FloatArray:
        """The rows without the intercept (B, n, d)."""
        return self.X[:, :, self.slopes]

    def predictor(self, theta: FloatArray) -> FloatArray:
        """Return ``x'theta`` of each row (B, n)."""
        columns = np.moveaxis(self.X, 2, 0)
        return np.asarray((theta @ columns.reshape(len(theta), -1)).reshape(columns.shape[1:]), dtype=np.float64)

    @cached_property
    def share(self) -> FloatArray:
        """How far curvature over them is believed (B, 1, 1)."""
        effective = np.sum(self.weights, axis=1) ** 2 / np.sum(self.weights**2, axis=1)
        return np.asarray((effective / (effective + self.X.shape[2]))[:, None, None])

    @cached_property
    def squares(self) -> FloatArray:
        """``sum_i w_i x_i x_i'`` (B, D, D)."""
        return np.asarray(weighted_squares(self.X, self.weights[None])[0])

    @cached_property
    def rounded(self) -> FloatArray:
        """The same, with that of slopes `rounded`."""
        found, own, total = self.squares.copy(), self.slopes, np.sum(self.weights, axis=1)
        mean = weighted_sums(self.z, self.weights) / total[:, None]
        found[:, own, own] = rounded(self.squares[:, own, own], mean=mean, total=total)
        return found


def whitened_people(geometry: Geometry, people: RakedPeople) -> WhitenedPeople:
    """Return raked people in a geometry."""
    first, (m, A) = int(geometry.intercept), geometry.arrays()
    columns = np.moveaxis(people.X, 2, 0)
    whitened = np.ones((geometry.dimension, *columns.shape[1:]))
    z = whitened[first:]
    np.matmul(A, (columns[first:] - m[:, None, None]).reshape(len(m), -1), out=z.reshape(len(m), -1))
    return WhitenedPeople(
        raked=people,
        X=np.moveaxis(whitened, 0, 2),
        mallows=mallows_weights(np.sum(z * z, axis=0), geometry),
        slopes=slice(first, None),
    )


def rounded(square: FloatArray, *, mean: FloatArray, total: FloatArray) -> FloatArray:
    """Return second moments (B, p, p) whose covariance is averaged with a multiple of the identity of its trace.

    The identity is the covariance of the public people who were whitened. ``mean`` (B, p) is the average and ``total``
    (B,) the sum of the weights.
    """
    p = square.shape[1]
    if not p:
        return square
    own = total[:, None, None] * mean[:, :, None] * mean[:, None, :]
    level = np.trace(square - own, axis1=1, axis2=2) / p
    return np.asarray(0.5 * (square + own + level[:, None, None] * np.eye(p)))


def weighted_squares(X: FloatArray, w: FloatArray) -> FloatArray:
    """Return ``sum_i w_i x_i x_i'`` (k, B, D, D) of rows (B, n, D) with weights (k, B, n)."""
    out = np.zeros((*w.shape[:2], X.shape[2], X.shape[2]))
    _add_lower(np.ascontiguousarray(np.moveaxis(X, 2, 0)), w, out)
    i, j = np.triu_indices(X.shape[2], 1)
    out[:, :, i, j] = out[:, :, j, i]
    return out


@compiled_reordered
def _add_lower(columns: FloatArray, weights: FloatArray, out: FloatArray) -> None:
    """Add products of columns (D, B, n), two at a time, to the lower triangles."""
    D, B, n = columns.shape
    lanes = np.empty(LANES)
    for b in range(B):
        for start in range(0, n, LANES):
            end = min(start + LANES, n)
            weighted = lanes[: end - start]
            for k in range(len(weights)):
                of_rows = weights[k, b, start:end]
                for i in range(D):
                    own = columns[i, b, start:end]
                    for row in range(len(weighted)):
                        weighted[row] = own[row] * of_rows[row]
                    for j in range(0, i + 1, 2):
                        left, right = columns[j, b, start:end], columns[min(j + 1, i), b, start:end]
                        first, second = 0.0, 0.0
                        for row in range(len(weighted)):
                            first += weighted[row] * left[row]
                            second += weighted[row] * right[row]
                        out[k, b, i, j] += first
                        if j < i:
                            out[k, b, i, j + 1] += second


def weighted_sums(X: FloatArray, w: FloatArray) -> FloatArray:
    """Return ``sum_i w_i x_i`` (B, D) of rows (B, n, D) with weights (B, n)."""
    return np.asarray((np.swapaxes(X, 1, 2) @ w[:, :, None])[:, :, 0])
