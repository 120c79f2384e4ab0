r"""How far standard errors would go if private covariates correlated otherwise than public rows: one sentence.

Where correlations of private people are not released (`hdpstats.models.own_description`) curvature takes those of
public rows. Columns of the design are grouped by the variables that they mention: all columns of a spline or of a
factor are one variable, and a product is a group of its own, without what the variables in it tell (so that it does not
matter whether they are centred). With the curvature ``S`` of the slopes of one predictor, given the intercept, groups
are made of columns ``y = L z`` that have no correlation within a group, and :math:`R = L S L'`. For a slope
:math:`\beta_j = c_j' \gamma` the part ``a`` of its own group that it rests on, and the part ``b`` of another group with
which that correlates, are moved: :math:`R' = R + \delta (a b' + b a')`, with :math:`\delta` `MOVED` up and down as far
as the matrix stays positive definite. The variance of the slope is in proportion to :math:`c_j' R^{-1} c_j`. Of a
variable the largest root of the ratio of both over its slopes and their partners is told. Post-processing of public
numbers.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray, IntArray

MOVED: Final = 0.5
"""By how much a correlation is moved."""

PARTS: Final = (0.2, 0.4, 0.6, 0.8, 1.0)
"""The parts of it that are tried."""

LEAST: Final = 0.05
"""The least eigenvalue of a matrix of moved correlations."""

FLAT: Final = 1e-9
"""The least eigenvalue of a matrix in units of its diagonal below which columns are taken to depend on each other."""

MOST_COVARIATES: Final = 40
CONSTANTS: Final = ("True", "False", "None", "TRUE", "FALSE")
"""Words in the name of a term that are no columns."""
LISTED: Final = 6
"""Variables of which the growth is listed: those of the largest growth."""

SENTENCE = (
    "Correlations of private covariates were not released{where}. Were that of a covariate with one other {moved:g} "
    "larger or smaller than in public rows, standard errors would be larger by up to {listed}; those of the "
    "private-only estimate, as far as they are by noise, by up to twice as much."
)

OF_SOME = " by sites with {share:.0f} % of the people"

NEXT_TO_NONE = 0.01
"""Where sites have no larger share of the people nothing is said of their correlations."""


def correlations_note(
    H: FloatArray, T: FloatArray, *, terms: Sequence[str], blocks: Sequence[IntArray], share: float = 1.0
) -> str:
    """Return in words how far errors of slopes would go, by variable; empty where there are no two of them.

    Errors by sampling follow from the root of the inverse curvature, those by noise from the inverse itself.

    Parameters
    ----------
    H
        The curvature that public rows tell (D, D), in whitened coordinates.
    T
        From whitened coefficients to those that ``terms`` name (p, D).
    blocks
        The coordinates of slopes of each predictor.
    share
        Of the people, those of sites of which the correlations are not known.
    """
    if T.shape[0] != T.shape[1] or share <= NEXT_TO_NONE:
        return ""
    back = np.linalg.inv(T)
    curvature = back.T @ H @ back
    grown: dict[str, float] = {}
    for block in blocks:
        names = names_of(terms, block, predictors=len(blocks))
        found = growth(given_others(curvature, block), names)
        for name, size in zip(_labels(names), found, strict=True):
            grown[name] = max(grown.get(name, 1.0), 1.0 + share * (size - 1.0))
    grown = {name: size for name, size in grown.items() if size > 1.0}
    first = sorted(grown, key=lambda name: -grown[name])[:LISTED]
    if not first:
        return ""
    listed = ", ".join(f"{100.0 * (grown[name] - 1.0):.0f} % ({name})" for name in first)
    rest = "" if len(first) == len(grown) else "; less of others"
    where = OF_SOME.format(share=100.0 * share) if share < 1.0 else ""
    return SENTENCE.format(where=where, moved=MOVED, listed=listed + rest)


def names_of(terms: Sequence[str], block: IntArray, *, predictors: int) -> list[str]:
    """Return the names of slopes of one predictor, without that of the predictor where there are several."""
    return [terms[place].partition(":")[2] if predictors > 1 else terms[place] for place in block]


def growth(S: FloatArray, names: Sequence[str]) -> FloatArray:
    """Return by which factor (p,) errors of slopes would grow at most, given their curvature ``S`` (p, p)."""
    moves = moved_correlations(S, names)
    return np.ones(len(S)) if moves is None else np.asarray(np.max(moves.ratios, axis=0, initial=1.0))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MovedCorrelations:
    r"""Correlations of variables, moved one by one.

    Attributes
    ----------
    L : (p, p)
        From columns of the design to those without correlation within a group.
    R : (p, p)
        The correlations of the latter.
    a, b : (m, p)
        The two parts of which a correlation is moved.
    steps : (m,)
        By how much.
    ratios : (m, p)
        The standard error of the slope for which a move is over that without it; 1 of all others.
    """

    L: FloatArray
    R: FloatArray
    a: FloatArray
    b: FloatArray
    steps: FloatArray
    ratios: FloatArray

    def columns(self, move: int) -> FloatArray:
        """Return the matrix (p, p) that columns of the design are multiplied by so that they correlate as moved."""
        a, b = self.a[move], self.b[move]
        moved = self.R + self.steps[move] * (np.outer(a, b) + np.outer(b, a))
        turned = np.linalg.cholesky(moved) @ np.linalg.inv(np.linalg.cholesky(self.R))
        return np.asarray(np.linalg.solve(self.L, turned @ self.L))


def moved_correlations(S: FloatArray, names: Sequence[str]) -> MovedCorrelations | None:
    r"""Return the moves of correlations between variables; None where there are no two, or too many columns.

    With :math:`G = R^{-1}`, ``U = [a b]`` and the 2 x 2 matrix ``E`` of ones off the diagonal the inverse of a moved
    matrix is :math:`G - G U (E / \delta + U' G U)^{-1} U' G`.
    """
    p, groups = len(S), [frozenset(_variables(name)) for name in names]
    size = np.sqrt(np.diag(S))
    if not 2 <= p <= MOST_COVARIATES or len(set(groups)) < 2 or not size.all():
        return None
    if np.linalg.eigvalsh(S / np.outer(size, size))[0] < FLAT:
        return None
    L = _apart(S, groups)
    R = L @ S @ L.T
    a, b, own = _pairs(L, R, groups)
    steps = _steps(R, a, b)
    a, b, own = np.tile(a, (2, 1)), np.tile(b, (2, 1)), np.tile(own, (2, 1))
    G = np.linalg.inv(R)
    before, of_a, of_b = np.einsum("ij,ik,kj->j", L, G, L), a @ G @ L, b @ G @ L
    aa, bb = np.einsum("mi,ij,mj->m", a, G, a), np.einsum("mi,ij,mj->m", b, G, b)
    ab = np.einsum("mi,ij,mj->m", a, G, b)
    moves = steps != 0.0
    across = ab + 1.0 / np.where(moves, steps, 1.0)
    less = (bb[:, None] * of_a**2 - 2.0 * across[:, None] * of_a * of_b + aa[:, None] * of_b**2) / (
        aa * bb - across**2
    )[:, None]
    ratios = np.sqrt(np.maximum(1.0 - less / before, 0.0))
    return MovedCorrelations(L=L, R=R, a=a, b=b, steps=steps, ratios=np.where(own & moves[:, None], ratios, 1.0))


def _apart(S: FloatArray, groups: Sequence[frozenset[str]]) -> FloatArray:
    """Return the matrix ``L`` (p, p): products without what their variables tell, no correlation within a group."""
    L = np.eye(len(S))
    for group in sorted(set(groups), key=lambda each: (len(each), sorted(each))):
        own = np.array([k for k, each in enumerate(groups) if each == group])
        lower = np.array([k for k, each in enumerate(groups) if each < group], dtype=np.int64)
        if len(lower):
            L[np.ix_(own, lower)] = -np.linalg.solve(S[np.ix_(lower, lower)], S[np.ix_(lower, own)]).T
        inside = L[own] @ S @ L[own].T
        L[own] = np.linalg.solve(np.linalg.cholesky(inside), L[own])
    return L


def _pairs(L: FloatArray, R: FloatArray, groups: Sequence[frozenset[str]]) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return the parts (m, p) of two groups whose correlations are moved, and for which slope (m, p) they are.

    A pair for every slope, group on which it rests and other group: what of the one the slope rests on, and with what
    of the other that correlates; the other's first column where it does not.
    """
    first, second, own = [], [], []
    places = [np.array([each == group for each in groups]) for group in dict.fromkeys(groups)]
    for j, slope in enumerate(L.T):
        rests_on = [one for one in places if slope[one].any()]
        for one, other in itertools.product(rests_on, places):
            if other is one:
                continue
            a = np.where(one, slope, 0.0)
            a /= np.linalg.norm(a)
            b = np.where(other, R @ a, 0.0)
            if np.linalg.norm(b) < 1e-6:
                b = np.where(np.arange(len(R)) == np.argmax(other), 1.0, 0.0)
            first.append(a)
            second.append(b / np.linalg.norm(b))
            own.append(np.arange(len(R)) == j)
    return np.array(first), np.array(second), np.array(own)


def _steps(R: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    r"""Return by how much correlations of pairs (m,) are moved up, then down (2 m,).

    That is `MOVED`, or the largest of `PARTS` of it at which no eigenvalue falls below ``l``, `LEAST` or half the least
    of ``R``. With :math:`G = (R - l I)^{-1}`, the determinant of :math:`R - l I` changes by the factor
    :math:`(1 + \delta a'Gb)^2 - \delta^2 a'Ga \, b'Gb`: the matrix stays positive definite as long as, on the way to
    :math:`\delta`, it is not 0.
    """
    least = min(LEAST, 0.5 * float(np.linalg.eigvalsh(R)[0]))
    G = np.linalg.inv(R - least * np.eye(len(R)))
    aa, bb = np.einsum("mi,ij,mj->m", a, G, a), np.einsum("mi,ij,mj->m", b, G, b)
    ab = np.einsum("mi,ij,mj->m", a, G, b)
    found = np.zeros((2, len(a)))
    for part in PARTS:  # from the smallest
        step = np.array([[part * MOVED], [-part * MOVED]])
        found = np.where(1.0 + step * ab > np.abs(step) * np.sqrt(aa * bb), step, found)
    return found.ravel()


def given_others(H: FloatArray, block: IntArray) -> FloatArray:
    """Return the curvature of some coefficients once all others are fitted as well."""
    others = np.setdiff1d(np.arange(len(H)), block)
    inside = H[np.ix_(block, block)]
    if not len(others):
        return inside
    across = H[np.ix_(others, block)]
    return np.asarray(inside - across.T @ np.linalg.solve(H[np.ix_(others, others)], across))


def _labels(names: Sequence[str]) -> list[str]:
    """Return what columns are called in words: by their variable, a product by its variables in order."""
    return [":".join(_variables(name)) for name in names]


def _variables(name: str) -> list[str]:
    """Return the columns that the name of a term mentions, in order; the name itself where it mentions none.

    They are names that no parenthesis follows: no levels, strings, names of arguments or constants.
    """
    bare = re.sub(r"\[[^\]]*\]|'[^']*'|\"[^\"]*\"|\b\w+\s*=(?!=)", " ", name)
    found = [each for each in re.findall(r"[^\W\d][\w.]*(?![\w.(])", bare) if each not in CONSTANTS]
    return list(dict.fromkeys(found)) or [name]
