r"""Ordinary fits to public rows by any loss: what R's ``lm``, ``glm``, ``survreg``, ``rq`` and ``rlm`` compute.

No noise, no penalty, no cost, and no bounds: `PredictorLoss.plain` is the loss without its caps. Covariances are those
that the software of the field prints by default:

* likelihoods: the inverse observed information;
* least squares: the same times the residual variance with ``n - p`` degrees of freedom;
* Huber's loss and somebody's own: the sandwich :math:`A^{-1} B A^{-1} n / (n - p)`;
* quantiles: the exact linear programme (Koenker and Bassett 1978), with Powell's sandwich, the density at the quantile
  being counted in a window of 1.3 residual scales times ``n^(-1/5)``.

Where people have several rows coefficients are the same, and covariances are sandwiches with people in their middle
(`clustered_fit`): what ``geepack::geeglm`` and statsmodels' ``GEE`` print.

`maximum_likelihood` is what R's ``glm`` computes, but for coefficients that have no finite value: of these ``glm``
shows where its iteration ended, and here they are NaN (`hdpstats.families.existence`).
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import scipy

from hdpstats._base.errors import HdpError, HdpWarning
from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.families.existence import (
    SignedRows,
    binary_rows,
    count_rows,
    existence,
    has_maximum,
    longest_of,
    polished,
)
from hdpstats.families.regression.clustered import clustered_meat
from hdpstats.families.regression.rows import RegressionRows, whose
from hdpstats.losses import (
    BoundedSquares,
    ExponentialTimes,
    HuberLoss,
    LogisticLoss,
    PoissonLoss,
    PredictorLoss,
    SmoothedQuantile,
)
from hdpstats.losses.located import scale_of, window
from hdpstats.records.estimate import Estimate
from hdpstats.solvers import Penalised, minimise

ALIASED, ALIASED_IN_GLM = 1e-7, 1e-11
"""A column whose part outside the span of the columns before it is relatively smaller than this is not identified: in
R's ``lm``, and in ``glm``, whose default is the smaller one."""


def signed_rows(loss: PredictorLoss) -> Callable[[FloatArray, FloatArray], SignedRows] | None:
    """Return what makes signed rows for a loss whose fit may not exist; it has ``|l'''| <= l''``, see `has_maximum`."""
    if isinstance(loss, LogisticLoss):
        return binary_rows
    return count_rows if loss.counts else None


def maximum_likelihood(rows: RegressionRows, *, terms: tuple[str, ...], decided: bool = True) -> Estimate:
    """Return the maximum-likelihood fit with its model-based covariance (the inverse of the observed information).

    Weights are prior weights as in ``glm``. A coefficient that the rows do not identify
    is NaN (R's NA): of aliased columns the first is kept. So is one that has no finite value, as rows are separated;
    where that is not to be ``decided`` it stays where the iteration ended, and a `RuntimeWarning` says so.
    """
    kept = identified(rows.X[rows.weights > 0], tolerance=ALIASED_IN_GLM)
    columns = rows.X[:, kept]
    scale = (
        np.sqrt(np.maximum(np.mean(columns**2, axis=0), np.finfo(float).tiny)) if len(columns) else np.ones(sum(kept))
    )
    basis, back = orthogonal(columns / scale)
    whole = replace(rows, X=basis)
    objective = whole.penalised(ridge=np.zeros(whole.dimension))
    found_at = minimise(objective, start=_start(whole)).theta
    theta, covariance = back @ found_at, back @ np.linalg.pinv(objective.hessian(found_at)) @ back.T
    infinite, signed = np.zeros(len(theta), dtype=bool), signed_rows(rows.loss)
    if not decided:
        _warn_of_separation(whole, found_at)
    elif signed is not None and not _is_certain(objective, whole, found_at):
        scaled = columns / scale
        objective = replace(rows, X=scaled).penalised(ridge=np.zeros(len(scale)))
        part = rows.weights > 0
        found = existence(signed(scaled[part], rows.y[part]))
        infinite = ~found.finite
        far = polished(theta, found.away, gradient=objective.gradient, hessian=objective.hessian)
        if np.all(found.finite):
            far.warn()
        theta, covariance = far.theta, far.covariance
    return spread(
        kept,
        np.where(infinite, np.nan, theta / scale),
        covariance / np.outer(scale, scale),
        terms=terms,
        label="maximum likelihood",
    )


def _start(rows: RegressionRows) -> FloatArray:
    """Return where Newton's method begins.

    Huber's loss has no curvature farther than ``c`` from an outcome, and from there no step leads back. It begins at
    least squares, and goes on with sizes ``2^k c`` from the largest residual down.
    """
    loss, zeros = rows.loss, np.zeros(rows.dimension)
    if not isinstance(loss, HuberLoss):
        return zeros
    root = np.sqrt(rows.weights)
    found = np.linalg.lstsq(root[:, None] * rows.X, root * (rows.y - rows.offset))[0]
    theta: FloatArray = np.asarray(found, dtype=np.float64)
    farthest = float(np.max(np.abs(rows.predictor(theta) - rows.y), initial=loss.c))
    for k in range(math.ceil(math.log2(farthest / loss.c)) - 1, 0, -1):
        wider = replace(rows, loss=replace(loss, c=2.0**k * loss.c))
        theta = minimise(wider.penalised(ridge=zeros), start=theta).theta
    return theta


def _is_certain(objective: Penalised, rows: RegressionRows, theta: FloatArray) -> bool:
    """Return whether there is a maximum near where the iteration ended."""
    longest = partial(longest_of, rows.X[rows.weights > 0])
    return has_maximum(objective.gradient(theta), objective.hessian(theta), longest, bound=1.0)


def _warn_of_separation(rows: RegressionRows, theta: FloatArray) -> None:
    if len(theta) and rows.loss.modelled and np.max(np.abs(rows.predictor(theta)), initial=0.0) > 30.0:
        warnings.warn(
            "fitted probabilities numerically 0 or 1 occurred: the public rows are separated and the likelihood has no "
            "maximum; coefficients and standard errors mean little",
            HdpWarning,
            stacklevel=4,
        )


def identified(X: FloatArray, *, tolerance: float = ALIASED) -> BoolArray:
    """Return which columns (p,) are not linear combinations of the columns before them (Gram-Schmidt, twice)."""
    if _triangle(X) is not None:
        return np.ones(X.shape[1], dtype=bool)
    columns, basis = np.ascontiguousarray(X.T), np.empty(X.T.shape)
    kept = np.zeros(X.shape[1], dtype=bool)
    for j, column in enumerate(columns):
        known = basis[: int(kept.sum())]
        rest = column - (known @ column) @ known
        rest -= (known @ rest) @ known
        size, left = float(np.linalg.norm(column)), float(np.linalg.norm(rest))
        if left > tolerance * size:
            basis[len(known)] = rest / left
            kept[j] = True
    return kept


def orthogonal(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return columns of mean square 1 that span those of ``X`` (n, p), and ``M`` with ``X M`` equal to them.

    Where columns hardly differ from each other's span, as powers of a year do, equations in these are solved exactly.
    """
    root, found = np.sqrt(max(len(X), 1)), _triangle(X)
    if found is not None:
        back = np.asarray(root * np.linalg.inv(found))
        return X @ back, back
    Q, R = np.linalg.qr(X)
    return Q * root, np.asarray(np.linalg.inv(R / root))


APART = 1e-3
"""A column is plainly no combination of those before it where this share of its length is outside their span."""

SHORT = 1e-100
"""Columns at most so long are none that squares tell much of."""


def _triangle(X: FloatArray) -> FloatArray | None:
    """Return upper triangular ``R`` with ``R'R = X'X`` where all columns are plainly apart, else None.

    It is the Cholesky factor of the matrix of cosines, with the columns' lengths taken back. A diagonal element of the
    factor is the share of a column's length outside the span of those before it. Its square errs by rounding of about
    ``n 2^-53``, far below that of `APART`: so columns that other tolerances would call aliased are not taken for apart.
    """
    with np.errstate(all="ignore"):
        gram = X.T @ X
        sizes = np.sqrt(np.diag(gram))
        if not (np.isfinite(sizes).all() and (sizes > SHORT).all()):
            return None
        try:
            factor = np.linalg.cholesky(gram / np.outer(sizes, sizes)).T
        except np.linalg.LinAlgError:
            return None
    apart = np.min(np.diag(factor), initial=1.0) > APART
    return np.asarray(factor * sizes) if apart else None


SHORTEST = 1e-12
"""Time of follow-up, in horizons, that stands for none."""


def clustered_fit(rows: RegressionRows, *, terms: tuple[str, ...], small_sample: bool) -> Estimate:
    """Return the fit to people with several rows, with errors over people (`hdpstats.families.regression.clustered`).

    Coefficients are those of `classical_fit` with the same weights; the covariance is CR0, or CR2 for a
    ``small_sample``.
    """
    estimate = classical_fit(replace(rows, person=None), terms=terms)
    known, loss = np.isfinite(estimate.values), rows.loss.plain
    columns, theta, offset, y = rows.X[:, known], estimate.values[known], rows.offset, rows.y
    eta = columns @ theta + offset
    if isinstance(loss, SmoothedQuantile):
        wide = window(scale_of(y - eta), len(y))
        curvatures, scores = (np.abs(y - eta) <= wide) / (2.0 * wide), (y < eta) - loss.q
    elif isinstance(loss, ExponentialTimes):
        time, event = np.maximum(np.abs(y), SHORTEST), np.signbit(y).astype(np.float64)
        curvatures = np.exp(eta) * time
        scores = curvatures - event
    else:
        curvatures, scores = loss.curvature(eta, y), loss.score(eta, y)
    inverse = np.asarray(np.linalg.pinv(columns.T @ ((rows.weights * curvatures)[:, None] * columns)), dtype=np.float64)
    modelled = curvatures if rows.loss.modelled else np.full(len(y), np.mean(curvatures))
    meat = clustered_meat(
        columns,
        whose(rows),
        weights=rows.weights,
        curvatures=modelled,
        scores=np.asarray(scores, dtype=np.float64),
        inverse=inverse if small_sample else None,
    )
    square = np.full_like(estimate.sampling, np.nan)
    square[np.ix_(known, known)] = inverse @ meat @ inverse
    return replace(estimate, sampling=square)


def classical_fit(rows: RegressionRows, *, terms: tuple[str, ...]) -> Estimate:
    """Return the fit with its covariance; weights are prior weights, aliased columns have NaN coefficients."""
    loss, y = rows.loss, rows.y
    if isinstance(loss, BoundedSquares):
        return _least_squares(rows, terms=terms)
    if isinstance(loss, SmoothedQuantile):
        return _quantile(rows, loss.q, terms=terms)
    if isinstance(loss, ExponentialTimes):  # exactly: its likelihood is that of a Poisson count of events
        time, event = np.maximum(np.abs(y), SHORTEST), np.signbit(y).astype(np.float64)
        counts = replace(rows, loss=PoissonLoss(upper=1.0, cap=1.0), y=event, offset=rows.offset + np.log(time))
        return classical_fit(counts, terms=terms)
    estimate = maximum_likelihood(replace(rows, loss=loss.plain), terms=terms)
    if loss.meat == 1.0:
        return estimate
    kept = np.isfinite(estimate.values)
    found = rows.X[:, kept] @ estimate.values[kept] + rows.offset
    curvatures, scores = rows.weights * loss.curvature(found, y), rows.weights * loss.score(found, y)
    return _estimate(rows.X, kept, estimate.values[kept], curvatures=curvatures, scores=scores, terms=terms)


def _least_squares(rows: RegressionRows, *, terms: tuple[str, ...]) -> Estimate:
    kept = identified(rows.X[rows.weights > 0])
    columns, root = rows.X[:, kept], np.sqrt(rows.weights)
    size = np.maximum(np.linalg.norm(columns, axis=0), np.finfo(float).tiny)
    Q, R = np.linalg.qr(root[:, None] * columns / size)
    values = np.linalg.solve(R, Q.T @ (root * (rows.y - rows.offset))) / size
    residual = rows.y - rows.offset - columns @ values
    free = int(np.sum(rows.weights > 0)) - int(kept.sum())
    variance = float(rows.weights @ residual**2) / free if free > 0 else np.nan
    inverse = np.linalg.inv(R) / size[:, None]
    return spread(kept, values, variance * (inverse @ inverse.T), terms=terms)


DISTINCT = 0.95
"""Outcomes are tied where fewer than this share of them differ."""


def is_tied(y: FloatArray) -> bool:
    """Return whether outcomes (n,) have ties enough to have steps in their distribution function."""
    return len(np.unique(y)) < DISTINCT * len(y)


def _quantile(rows: RegressionRows, q: float, *, terms: tuple[str, ...]) -> Estimate:
    """Return the minimiser of the check loss itself, not smoothed."""
    kept = identified(rows.X[rows.weights > 0])
    columns, target, weights = rows.X[:, kept], rows.y - rows.offset, rows.weights
    size = np.maximum(np.max(np.abs(columns), axis=0, initial=0.0), np.finfo(float).tiny)
    found = scipy.optimize.linprog(  # the dual programme: coefficients are its multipliers
        -target,
        A_eq=(columns / size).T,
        b_eq=(1.0 - q) * (columns / size).T @ weights,
        bounds=np.column_stack([np.zeros(len(weights)), weights]),
        method="highs",
    )
    if found.status != 0:
        raise HdpError("the quantile of the public rows could not be computed; are they complete and finite?")
    values = -np.asarray(found.eqlin.marginals, dtype=np.float64) / size
    residual = target - columns @ values
    wide = window(scale_of(residual), len(target))
    curvatures = weights * (np.abs(residual) <= wide) / (2.0 * wide)
    return _estimate(rows.X, kept, values, curvatures=curvatures, scores=weights * ((residual < 0.0) - q), terms=terms)


def _estimate(
    X: FloatArray,
    kept: BoolArray,
    values: FloatArray,
    *,
    curvatures: FloatArray,
    scores: FloatArray,
    terms: tuple[str, ...],
) -> Estimate:
    """Return an estimate with the sandwich of rows with curvatures and scores (n,)."""
    columns, (n, p) = X[:, kept], (len(X), len(values))
    inverse = np.linalg.pinv(columns.T @ (curvatures[:, None] * columns))
    meat = columns.T @ ((scores**2)[:, None] * columns)
    return spread(kept, values, inverse @ meat @ inverse * (n / max(n - p, 1)), terms=terms)


def spread(
    kept: BoolArray, values: FloatArray, covariance: FloatArray, *, terms: tuple[str, ...], label: str = "ordinary fit"
) -> Estimate:
    """Return an estimate with NaN for the coefficients that the rows do not identify, or that ``values`` lack."""
    whole, square = np.full(len(kept), np.nan), np.full((len(kept), len(kept)), np.nan)
    known = np.flatnonzero(kept)[np.isfinite(values)]
    whole[known] = values[np.isfinite(values)]
    square[np.ix_(known, known)] = covariance[np.ix_(np.isfinite(values), np.isfinite(values))]
    aliased = [term for term, is_kept in zip(terms, kept, strict=True) if not is_kept]
    infinite = [term for term, value, is_kept in zip(terms, whole, kept, strict=True) if is_kept and np.isnan(value)]
    return Estimate(
        label=label,
        terms=terms,
        values=whole,
        sampling=square,
        privacy=0.0 * square,
        note=unidentified(aliased, infinite, of=len(terms)),
    )


def unidentified(aliased: Sequence[str], infinite: Sequence[str], *, of: int) -> str | None:
    """Return what is said of coefficients that are NaN, in a fit ``of`` so many; where all are infinite, unnamed."""
    which = "every coefficient" if len(infinite) == of else ", ".join(infinite)
    parts = [
        f"A coefficient that public rows do not identify is NaN: {', '.join(aliased)} (a level that they lack, or a "
        "combination of other columns).",
        "Perfect separation or prediction in the public rows: a coefficient whose maximum-likelihood estimate is "
        f"infinite is NaN: {which}.",
    ]
    return " ".join(part for part, names in zip(parts, (aliased, infinite), strict=True) if names) or None
