r"""Model-based moments of the private score, from public rows.

At coefficients ``theta`` the private score of ``n`` records has Hessian and covariance

.. math:: H = n\,E[a\,w\,p(1-p)\,x x'], \qquad J = n\,E[a^2 w^2\,p(1-p)\,x x'],

with case weight ``a`` and Mallows weight ``w``; the expectation is over public rows, shrunk towards a multiple
of the identity on the slopes by ``n_public / (n_public + D)``, the whitened design being close to round.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.losses import Loss
from hdpstats.protocols.public import WhitenedPublic


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Moments:
    """Hessian ``H`` and score covariance ``J`` of the private records, (D, D) or a stack (B, D, D)."""

    H: FloatArray
    J: FloatArray


def moments(
    public: WhitenedPublic, loss: Loss, *, theta: FloatArray, records: int, row_weights: FloatArray | None = None
) -> Moments:
    """Return ``H`` and ``J`` at ``theta``; ``row_weights`` (B, n_public) gives one pair per bootstrap weighting."""
    curvature = loss.curvature(public.X @ theta + public.offset, np.zeros(len(public.X)))
    weight = public.weights * public.mallows
    n = len(public.X)
    flat = np.full((1, n), 1.0 / n) if row_weights is None else row_weights
    D = public.X.shape[1]
    i, j = np.triu_indices(D)
    products = public.X[:, i] * public.X[:, j]
    triangles = ((flat * (each * curvature)) @ products for each in (weight, weight**2))
    first = int(public.geometry.intercept)
    H, J = (records * _shrunk(_symmetric(triangle, D), rows=n, first=first) for triangle in triangles)
    return Moments(H=H, J=J) if row_weights is not None else Moments(H=H[0], J=J[0])


def _symmetric(triangles: FloatArray, dimension: int) -> FloatArray:
    """Return symmetric matrices (B, D, D) from their upper triangles (B, D (D + 1) / 2)."""
    i, j = np.triu_indices(dimension)
    matrices = np.empty((len(triangles), dimension, dimension))
    matrices[:, i, j] = triangles
    matrices[:, j, i] = triangles
    return matrices


def _shrunk(stack: FloatArray, *, rows: int, first: int) -> FloatArray:
    """Shrink each matrix (B, D, D) towards its diagonal, the slopes' diagonal being levelled."""
    D = stack.shape[1]
    diagonal = np.diagonal(stack, axis1=1, axis2=2).copy()
    if first < D:
        diagonal[:, first:] = diagonal[:, first:].mean(axis=1, keepdims=True)
    target = np.zeros_like(stack)
    target[:, np.arange(D), np.arange(D)] = diagonal
    share = rows / (rows + D)
    return np.asarray(share * stack + (1.0 - share) * target)
