r"""Rows of bounded length: whitening and weighting by a public geometry.

The mechanisms want rows :math:`w\,(1, z)` of bounded size in a metric in which the private rows are round. Public rows
give that metric (`from_public`): location and covariance of similar records. Without them the schema's bounds
do (`from_box`): every column is scaled to [-1, 1].
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.records.geometry import Geometry, Source

LARGEST = 1e50
"""Bound on the size of a whitened number. Numbers of the order of the radius are far below it."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """Whitened rows ``X`` (n, D), intercept first, and their weights (n,) in (0, 1]."""

    X: FloatArray
    weights: FloatArray


def whiten(geometry: Geometry, X: FloatArray) -> Rows:
    """Return ``(1, A (x - m))`` and the Mallows weights of design rows ``X`` (n, D).

    Elementwise arithmetic only: the result for a row depends on that row alone, not on its position. Whitened numbers
    are clipped to `LARGEST` in size, so that squares, norms and their products with weights stay finite.
    """
    m, A = geometry.arrays()
    first = int(geometry.intercept)
    z = np.zeros((len(X), len(m)))
    for j, location in enumerate(m):
        centred = X[:, first + j] - location
        for k in range(len(m)):
            z[:, k] += A[k, j] * centred
    np.clip(z, -LARGEST, LARGEST, out=z)
    square = np.zeros(len(X))
    for k in range(len(m)):
        square += z[:, k] * z[:, k]
    rows = np.column_stack([np.ones(len(X)), z]) if geometry.intercept else z
    return Rows(X=rows, weights=mallows_weights(square, geometry))


def mallows_weights(square: FloatArray, geometry: Geometry) -> FloatArray:
    """Return ``min(1, R / ||z||, L / (i + ||z||^2))`` from squared norms (n,); ``i`` is 1 with an intercept, else 0."""
    positive = np.maximum(square, 1e-200)
    by_leverage = geometry.leverage / (float(geometry.intercept) + positive)
    return np.minimum(1.0, np.minimum(geometry.radius / np.sqrt(positive), by_leverage))


def from_box(
    lower: Sequence[float], upper: Sequence[float], *, intercept: bool, row_norm: float | None = None
) -> Geometry:
    """Return the geometry of the schema's box: columns centred at the middle and scaled to [-1, 1].

    Without an intercept the columns are only scaled. The radius is ``row_norm`` where it is declared (a bound
    on the scaled row norm that most rows keep; longer rows are weighted down), else the norm of the box's
    corner. The leverage is that of a row on the radius.
    """
    low, high = np.array(lower, dtype=float), np.array(upper, dtype=float)
    middle = (low + high) / 2.0 if intercept else np.zeros(len(low))
    reach = np.maximum(np.abs(low - middle), np.abs(high - middle))
    scale = np.where(reach > 0, reach, 1.0)
    corner = math.sqrt(float(np.sum((reach / scale) ** 2)))
    radius = float(row_norm if row_norm is not None else max(corner, 1.0))
    return Geometry(
        location=tuple(middle.tolist()),
        whitening=tuple(tuple(row) for row in np.diag(1.0 / scale).tolist()),
        radius=radius,
        leverage=float(intercept) + radius**2,
        intercept=intercept,
        source=Source.SCHEMA_BOX,
    )


def from_public(
    X: FloatArray, *, lower: Sequence[float], upper: Sequence[float], intercept: bool, radius: float
) -> Geometry:
    """Return the geometry that whitens public design rows ``X`` (n, D; intercept first).

    Columns are scaled by their public standard deviation, with one pseudo-row spread over the declared box so that no
    scale is zero; the correlation matrix is shrunk (`ledoit_wolf`) and inverted: ``A = C^(-1/2) S^(-1)``. Without an
    intercept nothing is centred. Rows beyond the radius keep the weight ``R / ||z||`` until the leverage ``1 + 2 R^2``
    binds: less weight is lost than with ``(R / ||z||)^2``, while the Hessian stays bounded.
    """
    n = len(X)
    columns = X[:, int(intercept) :]
    spread = (np.array(upper) - np.array(lower)) ** 2 / 12.0
    location = columns.mean(axis=0) if intercept else np.zeros(columns.shape[1])
    centred = columns - location
    scale = np.sqrt((n * np.mean(centred**2, axis=0) + spread) / (n + 1))
    scale = np.where(scale > 0, scale, 1.0)
    eigenvalues, vectors = np.linalg.eigh(ledoit_wolf(centred / scale))
    floor = 1e-6 * float(np.max(eigenvalues, initial=0.0)) or 1.0  # 1 where every column is constant
    root = (vectors / np.sqrt(np.maximum(eigenvalues, floor))) @ vectors.T
    return Geometry(
        location=tuple(location.tolist()),
        whitening=tuple(tuple(row) for row in (root / scale).tolist()),
        radius=radius,
        leverage=leverage_at(radius, intercept=intercept),
        intercept=intercept,
        source=Source.PUBLIC_ROWS,
    )


def at_radius(geometry: Geometry, radius: float) -> Geometry:
    """Return a public geometry with another radius, and its leverage."""
    return replace(geometry, radius=radius, leverage=leverage_at(radius, intercept=geometry.intercept))


def leverage_at(radius: float, *, intercept: bool) -> float:
    """Return the leverage of a public geometry: twice a row's squared length on the radius, plus the intercept's."""
    return float(intercept) + 2.0 * radius**2


def ledoit_wolf(centred: FloatArray) -> FloatArray:
    """Return the shrunken second-moment matrix of centred rows (n, d) (Ledoit and Wolf 2004, lemma 3.3).

    >>> import numpy as np
    >>> ledoit_wolf(np.array([[1.0, 0.0], [-1.0, 0.0]])).round(3).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    n, d = centred.shape
    if d == 0:
        return np.zeros((0, 0))
    sample = centred.T @ centred / n
    level = float(np.trace(sample)) / d
    distance = float(np.sum((sample - level * np.eye(d)) ** 2))
    noise = float(np.sum(np.sum(centred**2, axis=1) ** 2)) / n**2 - float(np.sum(sample**2)) / n
    shrinkage = min(1.0, max(0.0, noise / distance)) if distance > 0 else 1.0
    return np.asarray((1.0 - shrinkage) * sample + shrinkage * level * np.eye(d))
