r"""How far apart two sources may be: random effects, as in a meta-analysis (DerSimonian and Laird 1986).

Sources that differ seldom differ in everything alike: one hospital's patients may be sicker and yet respond to age as
those of others. So coefficients come in *parts*, orthonormal directions ``P_j``, and what separates the sources is
taken to have the covariance :math:`\sum_j \tau_j^2 P_j P_j'`.
"""

from collections.abc import Sequence

import numpy as np

from hdpstats._base.typing import FloatArray

BETWEEN = np.concatenate([[0.0], np.geomspace(1e-4, 30.0, 80)])
"""Candidate values of each variance between the sources, in whitened coordinates."""

SWEEPS = 4
"""How often each variance is chosen anew, given the others."""


def between_covariance(difference: FloatArray, covariance: FloatArray, *, parts: Sequence[FloatArray]) -> FloatArray:
    r"""Return :math:`\sum_j \tau_j^2 P_j P_j'` of largest likelihood, ``difference ~ N(0, covariance + that)``.

    One variance at a time, the others fixed. With ``R`` all but part ``j``, the eigenvalues ``l_i`` of ``P_j'R^-1 P_j``
    and the coordinates ``a_i`` of ``P_j'R^-1 d`` along their vectors, minus twice the log-likelihood is
    :math:`\sum_i \log(1 + \tau^2 l_i) - \tau^2 a_i^2 / (1 + \tau^2 l_i)` plus a constant.
    """
    identity = np.eye(len(difference))
    floor, parts = 1e-12 * identity, tuple(parts) or (identity,)
    spread = [np.zeros_like(covariance) for _ in parts]
    for _ in range(SWEEPS if len(parts) > 1 else 1):
        for j, part in enumerate(parts):
            rest = covariance + floor + sum(spread[k] for k in range(len(parts)) if k != j)
            spread[j] = _best(difference, rest, part) * (part @ part.T)
    return np.asarray(sum(spread), dtype=np.float64)


def _best(difference: FloatArray, rest: FloatArray, part: FloatArray) -> float:
    """Return the candidate of largest likelihood for one part."""
    solved = np.linalg.solve(rest, np.column_stack([part, difference]))
    eigenvalues, vectors = np.linalg.eigh(part.T @ solved[:, :-1])
    square = (vectors.T @ (part.T @ solved[:, -1])) ** 2
    scale = 1.0 + BETWEEN[:, None] * np.maximum(eigenvalues, 0.0)[None, :]
    minus = np.sum(np.log(scale) - BETWEEN[:, None] * square[None, :] / scale, axis=1)
    return float(BETWEEN[int(np.argmin(minus))])
