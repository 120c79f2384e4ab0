r"""Exponential tilting: the weights nearest to others among those with given averages.

Of all weights under which features :math:`f_i` have the averages :math:`t`, the nearest ones to base weights :math:`b`
in Kullback-Leibler divergence are :math:`w_i \propto b_i \exp(a'f_i)` (Deming and Stephan 1940; Deville and Särndal
1992; Hainmueller 2012) with

.. math:: a = \arg\min \log \sum_i b_i e^{a'f_i} - a't + \tfrac12 \sum_j \lambda_j a_j^2, \qquad \lambda = 0.

With a penalty :math:`\lambda` averages are nearly ``t``, and there is a solution where no weights have these averages.
Newton's method with steps that are cut to a length finds ``a``, for many base weights and averages at a time.

References
----------
W. E. Deming, F. F. Stephan (1940), On a least squares adjustment of a sampled frequency table. J.-C. Deville,
C.-E. Särndal (1992), Calibration estimators in survey sampling. J. Hainmueller (2012), Entropy balancing for causal
effects.
"""

import numpy as np

from hdpstats._base.typing import FloatArray

LONGEST = 1.5
"""The longest step of a tilt."""

WEAK = 1e-4
"""The least ridge of a step, without which features that depend on each other have none."""

TOLERANCE = 1e-10
"""Tilts that no step changes by more are found."""


def tilts(
    features: FloatArray,
    base: FloatArray,
    targets: FloatArray,
    *,
    start: FloatArray,
    steps: int,
    penalty: FloatArray | float = 0.0,
    largest: float = np.inf,
) -> FloatArray:
    """Return the tilts ``a`` (B, k) with which rows have given averages of features (n, k).

    Parameters
    ----------
    features
        (n, k).
    base, targets
        B sets of base weights (B, n), none below 0, and of averages (B, k).
    start
        Where the steps begin (k,).
    steps
        How many steps are taken at most.
    penalty
        ``lambda``: one number, or (k,).
    largest
        Tilts are cut to it, up and down.
    """
    k = features.shape[1]
    tilt = np.broadcast_to(start, (len(base), k)).copy()
    ridge = np.broadcast_to(np.maximum(penalty, WEAK), (k,))
    i, j = np.triu_indices(k)
    products, spread = features[:, i] * features[:, j], np.empty((len(base), k, k))
    for _ in range(steps if k else 0):
        w = tilted_weights(features, base, tilt)
        means = w @ features
        spread[:, i, j] = spread[:, j, i] = w @ products
        hessian = spread - means[:, :, None] * means[:, None, :] + np.diag(ridge)
        step = np.linalg.solve(hessian, (targets - means - penalty * tilt)[:, :, None])[:, :, 0]
        size = np.max(np.abs(step), axis=1, keepdims=True)
        tilt = np.clip(tilt + step * np.minimum(1.0, LONGEST / np.maximum(size, LONGEST)), -largest, largest)
        if np.max(size) < TOLERANCE:
            break
    return tilt


def tilted_weights(features: FloatArray, base: FloatArray, tilts: FloatArray) -> FloatArray:
    """Return weights (B, n), 1 in sum, of rows with base weights (B, n) and features (n, k) under tilts (B, k)."""
    if not features.shape[1]:
        return np.asarray(base / base.sum(axis=1, keepdims=True))
    logs = tilts @ features.T
    top = np.max(logs, axis=1, keepdims=True, where=base > 0.0, initial=-np.inf)
    raw = base * np.exp(np.minimum(logs - top, 0.0))
    return np.asarray(raw / raw.sum(axis=1, keepdims=True))
