r"""Whether a likelihood of a linear predictor has a maximum, and which coefficients stay finite where it has none.

Minus the log-likelihood of a binary outcome, of a count or of a level never rises along a direction ``d`` for which
:math:`s'd \ge 0` for all *signed rows* ``s``, and falls for ever where some :math:`s'd > 0` (Albert and Anderson 1984):

* ``x`` where a binary outcome is 1, ``-x`` where it is 0, whatever the link;
* ``-x`` where a count is 0, and both ``x`` and ``-x`` where it is not;
* ``x_k - x_j`` for the level ``k`` that a row has, and every other level ``j``.

So there is a maximum, and only one, if no such direction exists and no column is a combination of others. Both are
decided exactly:

* A point near a maximum proves it (`has_maximum`): no linear programme is solved where there is nothing to find.
* Else linear programmes look for directions (Konis 2007): the sum of all :math:`s'd` is maximised over those with
  :math:`s'd \ge 0` and ``|d_j| <= 1``. Rows that a direction moves away are set aside, and the search goes on among the
  rest, until there is none.

At the end the rest ``R`` overlap. All directions with :math:`s'd = 0` for ``R`` then leave the likelihood's supremum as
it is, so that a coefficient is finite if none of them moves it; its value is that of the rest alone, which is the limit
that ``glm`` comes near. This is what R's ``detectseparation`` decides (Kosmidis and Schumacher 2021).
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy

from hdpstats._base.errors import HdpError, HdpWarning
from hdpstats._base.typing import BoolArray, FloatArray, IntArray

AWAY = 1e-6
"""A signed row that a direction moves by more, rows and direction being of sizes about 1, is moved away."""

FEASIBLE = 1e-9
"""A signed row that a direction moves back by less is not moved back."""

AT_FIRST, AT_A_TIME = 2000, 1000
"""Signed rows in the first linear programme, and those that are added where its solution moves them back."""

FLAT = 1e-12
"""A direction along which rows of sizes about 1 vary by a smaller share, as squares, is one in which they do not."""

MOVED = 1e-6
"""A coefficient that such a direction, of length 1, moves by more is not determined."""

FARTHEST = 50.0
"""How far the rows that are moved away are moved."""

FAR = (
    "some rows are very far from the others, which hides how these vary, and the likelihood's maximum may not have "
    "been reached: some coefficients and standard errors mean little"
)

POLISHED = 25
"""The most Newton steps from where a fit ended to the finite coefficients."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SignedRows:
    """Signed rows ``sign_i (left[l_i], right[r_i])`` (m, e + p), never formed all at once.

    Attributes
    ----------
    left : (k, e) float64
        What rows begin with: whole rows, or baseline features of intervals.
    right : (n, p) float64
        What they end with: covariates of people, or nothing.
    l, r : (m,) int64
        Which of these a row has.
    sign : (m,) float64
        1 or -1.
    """

    left: FloatArray
    right: FloatArray
    l: IntArray  # noqa: E741
    r: IntArray
    sign: FloatArray

    @classmethod
    def of(cls, rows: FloatArray) -> "SignedRows":
        """Return rows (m, D) that have their signs."""
        m = len(rows)
        none = np.zeros(m, dtype=np.int64)
        return cls(left=rows, right=np.zeros((1, 0)), l=np.arange(m), r=none, sign=np.ones(m))

    def products(self, direction: FloatArray) -> FloatArray:
        """Return ``s'd`` (m,)."""
        e = self.left.shape[1]
        return self.sign * ((self.left @ direction[:e])[self.l] + (self.right @ direction[e:])[self.r])

    def total(self, among: BoolArray) -> FloatArray:
        """Return the sum of some rows (D,)."""
        sign = self.sign * among
        left, right = (
            np.bincount(place, sign, minlength=len(each)) @ each
            for place, each in ((self.l, self.left), (self.r, self.right))
        )
        return np.concatenate([left, right])

    def take(self, places: IntArray) -> FloatArray:
        """Return some rows (b, D)."""
        rows = np.column_stack([self.left[self.l[places]], self.right[self.r[places]]])
        return self.sign[places, None] * rows

    def gram(self, among: BoolArray) -> FloatArray:
        """Return the sum of some rows' squares ``s s'`` (D, D)."""
        shape = (len(self.left), len(self.right))
        often = scipy.sparse.csr_array((among.astype(np.float64), (self.l, self.r)), shape=shape)
        by_left, by_right = np.asarray(often.sum(axis=1)), np.asarray(often.sum(axis=0))
        cross = self.left.T @ (often @ self.right)
        left, right = (
            each.T @ (weight[:, None] * each) for each, weight in ((self.left, by_left), (self.right, by_right))
        )
        return np.block([[left, cross], [cross.T, right]])


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Existence:
    """What of a maximum exists: which coefficients are ``finite`` (D,), and a step (D,) along which the others grow.

    The step makes the likelihood of the rows that it moves 1 but for ``e^-50``. It is 0 where no row is moved.
    """

    finite: BoolArray
    away: FloatArray


def binary_rows(X: FloatArray, y: FloatArray) -> SignedRows:
    """Return the signed rows of binary outcomes ``y`` (n,) with design rows ``X`` (n, D)."""
    return SignedRows.of(np.where(y > 0.0, 1.0, -1.0)[:, None] * X)


def count_rows(X: FloatArray, y: FloatArray) -> SignedRows:
    """Return the signed rows of counts."""
    return SignedRows.of(np.vstack([np.where(y > 0.0, 1.0, -1.0)[:, None] * X, -X[y > 0.0]]))


def level_rows(X: FloatArray, y: IntArray, *, others: int) -> SignedRows:
    """Return the signed rows of levels 0 to ``others``: coefficients are those of the others, level by level."""
    code = np.vstack([np.zeros(others), np.eye(others)])
    rows = [np.einsum("ij,ik->ijk", code[y] - code[level], X)[y != level] for level in range(others + 1)]
    return SignedRows.of(np.concatenate(rows).reshape(-1, others * X.shape[1]))


def has_maximum(
    gradient: FloatArray, hessian: FloatArray, longest: Callable[[FloatArray], float], *, bound: float
) -> bool:
    r"""Return whether a sum of convex losses is proved to have a minimum near a point.

    With gradient ``g`` and Hessian ``H`` at the point, let :math:`\nu = (g'H^{-1}g)^{1/2}`; ``longest`` gives
    :math:`R = \max_i (x_i'H^{-1}x_i)^{1/2}` from :math:`H^{-1}`. Where :math:`|\ell'''| \le M \ell''`, ``M`` being the
    ``bound``, the sum at a distance ``v`` is above its value by at least :math:`\|v\|_H^2 \phi(M s) - \nu \|v\|_H` with
    :math:`s = \max_i |x_i'v|` and :math:`\phi(t) = (e^{-t} + t - 1) / t^2` (Bach 2010, proposition 1). Where ``s = 1 /
    M``, :math:`\|v\|_H \ge 1 / (M R)`, so that it is above by more than 0 if :math:`\nu R M < 1 / e`: then the minimum
    is within. NaN proves nothing.
    """
    try:
        inverse: FloatArray = np.asarray(np.linalg.inv(hessian))
    except np.linalg.LinAlgError:
        return False
    return bool(lengths(gradient[None, :], inverse)[0] * longest(inverse) * bound < math.exp(-1.0))


def longest_of(rows: FloatArray, inverse: FloatArray) -> float:
    """Return the largest of the lengths of rows, 0 without any."""
    return float(np.max(lengths(rows, inverse), initial=0.0))


def lengths(rows: FloatArray, inverse: FloatArray) -> FloatArray:
    """Return ``(x'H^-1 x)^(1/2)`` of rows (n, D); NaN where that is no square."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.sqrt(np.sum((rows @ inverse) * rows, axis=1)), dtype=np.float64)


def existence(rows: SignedRows) -> Existence:
    """Return which coefficients are finite."""
    D = rows.left.shape[1] + rows.right.shape[1]
    left, direction = np.ones(len(rows.sign), dtype=bool), np.zeros(D)
    while (found := _improving(rows, left)) is not None:
        moved, before = rows.products(found), rows.products(direction)
        size = 1.0 + float(np.max(-2.0 * moved[~left] / before[~left], initial=0.0))
        direction = size * direction + found
        direction /= np.max(np.abs(direction))
        left &= moved <= AWAY
    still = _unmoving(rows.gram(left))
    along = still @ (still.T @ direction)
    least = float(np.min(rows.products(along)[~left], initial=np.inf))
    return Existence(
        finite=np.max(np.abs(still), axis=1, initial=0.0) <= MOVED,
        away=FARTHEST / least * along if 0.0 < least < np.inf else np.zeros(D),
    )


def _improving(rows: SignedRows, among: BoolArray) -> FloatArray | None:
    """Return a direction (D,) that moves some of the rows away and none of them back, or None.

    Rows are added to the linear programme where its solution moves them back.
    """
    places = np.flatnonzero(among)
    if not len(places):
        return None
    aim = rows.total(among)
    scale = float(np.max(np.abs(aim), initial=0.0)) or 1.0
    listed = places[np.unique(np.linspace(0, len(places) - 1, AT_FIRST).astype(np.int64))]
    while True:
        found = scipy.optimize.linprog(
            -aim / scale,
            A_ub=-rows.take(listed),
            b_ub=np.zeros(len(listed)),
            bounds=(-1.0, 1.0),
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if found.status != 0:
            raise HdpError("whether the public rows have a maximum-likelihood fit could not be decided")
        if float(aim @ found.x) <= AWAY:
            return None
        moved = rows.products(found.x)[places]
        worst = np.argsort(moved)[:AT_A_TIME]
        back = np.setdiff1d(places[worst[moved[worst] < -FEASIBLE]], listed)
        if not len(back):
            return np.asarray(found.x, dtype=np.float64) if np.max(moved) > AWAY else None
        listed = np.concatenate([listed, back])


def _unmoving(gram: FloatArray) -> FloatArray:
    """Return orthonormal directions (D, k) along which rows with these squares do not vary."""
    eigenvalues, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors[:, eigenvalues <= FLAT * max(float(np.max(eigenvalues, initial=0.0)), 1e-300)])


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FarFit:
    """Coefficients (D,), of which some grow without end, and the inverse information of those that are finite."""

    theta: FloatArray
    covariance: FloatArray
    reached: bool
    """Whether no direction was left out as flat, and less than a thousandth of a standard error is left to go."""

    def warn(self) -> None:
        """Warn where all coefficients are finite, and these are not."""
        if not self.reached:
            warnings.warn(FAR, HdpWarning, stacklevel=6)


def polished(
    theta: FloatArray,
    away: FloatArray,
    *,
    gradient: Callable[[FloatArray], FloatArray],
    hessian: Callable[[FloatArray], FloatArray],
) -> FarFit:
    """Return the finite coefficients of a fit that ended at ``theta``, whose other ones go along ``away``."""
    theta = theta + away
    for _ in range(POLISHED):
        inverse = np.linalg.pinv(hessian(theta), rcond=1e-11, hermitian=True)
        step = inverse @ gradient(theta)
        theta = theta - step
        if np.max(np.abs(step), initial=0.0) < 1e-12:
            break
    covariance, left = np.asarray(inverse, dtype=np.float64), gradient(theta)
    whole = int(np.linalg.matrix_rank(covariance, hermitian=True)) == len(theta)
    return FarFit(theta=theta, covariance=covariance, reached=whole and float(left @ covariance @ left) <= 1e-6)
