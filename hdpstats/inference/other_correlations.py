r"""How far standard errors would go if private covariates correlated otherwise than public rows: one sentence.

Where correlations of private people are not released (`hdpstats.models.own_description`) curvature takes those of
public rows. With the curvature ``S`` of the slopes of one predictor, given the intercept, and :math:`R` its matrix in
units of its diagonal, the variance of slope ``j`` is in proportion to :math:`(R^{-1})_{jj}`. For each pair of
covariates :math:`R_{jk}` is moved by `MOVED` up and down, as far as the matrix stays positive definite. Of a slope the
largest root of :math:`(R'^{-1})_{jj} / (R^{-1})_{jj}` over its partners is told. Post-processing of public numbers.
"""

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray

MOVED: Final = 0.5
"""By how much a correlation is moved."""

PARTS: Final = (0.2, 0.4, 0.6, 0.8, 1.0)
"""The parts of it that are tried."""

LEAST: Final = 0.05
"""The least eigenvalue of a matrix of moved correlations."""

MOST_COVARIATES: Final = 40
LISTED: Final = 6
"""Covariates of which the growth is listed: those of the largest growth."""

SENTENCE = (
    "Correlations of private covariates were not released. Were that of a covariate with one other {moved:g} larger or "
    "smaller than in public rows, standard errors would be larger by up to {listed}."
)


def correlations_note(H: FloatArray, T: FloatArray, *, terms: Sequence[str], blocks: Sequence[IntArray]) -> str:
    """Return in words how far errors of slopes would go; empty where there are no two covariates.

    Parameters
    ----------
    H
        The curvature that public rows tell (D, D), in whitened coordinates.
    T
        From whitened coefficients to those that ``terms`` name (p, D).
    blocks
        The coordinates of slopes of each predictor.
    """
    if T.shape[0] != T.shape[1]:
        return ""
    back = np.linalg.inv(T)
    curvature = back.T @ H @ back
    grown: dict[str, float] = {}
    for block in blocks:
        names = [terms[place].partition(":")[2] if len(blocks) > 1 else terms[place] for place in block]
        found = growth(_given_others(curvature, block), names)
        grown |= {terms[place]: size for place, size in zip(block, found, strict=True) if size > 1.0}
    first = sorted(grown, key=lambda name: -grown[name])[:LISTED]
    if not first:
        return ""
    listed = ", ".join(f"{100.0 * (grown[name] - 1.0):.0f} % ({name})" for name in first)
    rest = "" if len(first) == len(grown) else "; less of others"
    return SENTENCE.format(moved=MOVED, listed=listed + rest)


def growth(S: FloatArray, names: Sequence[str]) -> FloatArray:
    r"""Return by which factor (p,) errors of slopes would grow at most, given their curvature ``S`` (p, p).

    With :math:`G = R^{-1}` and an entry of ``R`` moved by :math:`\delta`, the inverse of the moved one has, in the rows
    and columns of the pair, the inverse of what the pair's part of ``G`` inverts to, moved likewise. So both variances
    grow by the factor :math:`d / (G_{jj} G_{kk} - (\delta d - G_{jk})^2)`, with :math:`d = G_{jj} G_{kk} - G_{jk}^2`.
    """
    p = len(S)
    found, size = np.ones(p), np.sqrt(np.diag(S))
    if not 2 <= p <= MOST_COVARIATES:
        return found
    R = S / np.outer(size, size)
    j, k = _apart([_variables(name) for name in names])
    step = _steps(R, j, k)
    G = np.linalg.inv(R)
    of_both, between = G[j, j] * G[k, k], G[j, k]
    det = of_both - between**2
    ratio = np.sqrt(np.max(det / (of_both - (step * det - between) ** 2), axis=0, initial=1.0))
    np.maximum.at(found, j, ratio)
    np.maximum.at(found, k, ratio)
    return found


def _apart(variables: Sequence[set[str]]) -> tuple[IntArray, IntArray]:
    """Return the places of pairs of terms that mention no column in common."""
    pairs = [(j, k) for j in range(len(variables)) for k in range(j) if not variables[j] & variables[k]]
    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return first, second


def _steps(R: FloatArray, j: IntArray, k: IntArray) -> FloatArray:
    r"""Return by how much entries (pairs,) of a matrix are moved up and down (2, pairs).

    That is `MOVED`, or the largest of `PARTS` of it at which no eigenvalue falls below ``l``, `LEAST` or half the least
    of ``R``. With :math:`G = (R - l I)^{-1}`, the determinant of :math:`R - l I` changes by the factor
    :math:`(1 + \delta G_{jk})^2 - \delta^2 G_{jj} G_{kk}`: the matrix stays positive definite as long as, on the way to
    :math:`\delta`, it is not 0.
    """
    least = min(LEAST, 0.5 * float(np.linalg.eigvalsh(R)[0]))
    G = np.linalg.inv(R - least * np.eye(len(R)))
    found = np.zeros((2, len(j)))
    for part in PARTS:  # from the smallest
        step = np.array([[part * MOVED], [-part * MOVED]])
        found = np.where(1.0 + step * G[j, k] > np.abs(step) * np.sqrt(G[j, j] * G[k, k]), step, found)
    return found


def _given_others(H: FloatArray, block: IntArray) -> FloatArray:
    """Return the curvature of some coefficients once all others are fitted as well."""
    others = np.setdiff1d(np.arange(len(H)), block)
    inside = H[np.ix_(block, block)]
    if not len(others):
        return inside
    across = H[np.ix_(others, block)]
    return np.asarray(inside - across.T @ np.linalg.solve(H[np.ix_(others, others)], across))


def _variables(name: str) -> set[str]:
    """Return the columns that the name of a term mentions: names that no parenthesis follows, and no level."""
    return set(re.findall(r"[^\W\d][\w.]*(?![\w.(])", re.sub(r"\[[^\]]*\]", "", name)))
