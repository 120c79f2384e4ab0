r"""Ordinary fits to public rows by any loss: what R's ``lm``, ``glm``, ``survreg``, ``rq`` and ``rlm`` compute.

No noise, no penalty, no cost, and no bounds: `PredictorLoss.plain` is the loss without its caps. Covariances are those
that the software of the field prints by default:

* likelihoods: the inverse observed information;
* least squares: the same times the residual variance with ``n - p`` degrees of freedom;
* Huber's loss and somebody's own: the sandwich :math:`A^{-1} B A^{-1} n / (n - p)`;
* quantiles: the exact linear programme (Koenker and Bassett 1978), with Powell's sandwich, the density at the quantile
  being counted in a window of 1.3 residual scales times ``n^(-1/5)``.

`maximum_likelihood` is what R's ``glm`` computes, `hazard_likelihood` what it computes on rows of persons and periods.
"""

import warnings
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from scipy.linalg import block_diag
from scipy.optimize import linprog

from hdpstats._base.errors import HdpError
from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.losses import LINKS, BoundedSquares, ExponentialTimes, PoissonLoss, SmoothedQuantile
from hdpstats.losses.located import scale_of, window
from hdpstats.public.hazard_fit import PublicSpells
from hdpstats.records.estimate import Estimate
from hdpstats.solvers import LinearObjective, minimise, ridge_objective
from hdpstats.solvers.hazard import Likelihood, fit_hazard

ALIASED = 1e-7
"""A column whose part outside the span of the columns before it is relatively smaller than this is not identified."""


def maximum_likelihood(rows: LinearObjective, *, terms: tuple[str, ...]) -> Estimate:
    """Return the maximum-likelihood fit with its model-based covariance (the inverse of the observed information).

    ``rows`` have no ridge; their weights are prior weights as in ``glm``. A coefficient that the rows do not identify
    is NaN (R's NA): of aliased columns the first is kept. Where the likelihood has no maximum (perfect separation) a
    `RuntimeWarning` says so.
    """
    kept = identified(rows.X[rows.weights > 0])
    columns = rows.X[:, kept]
    scale = (
        np.sqrt(np.maximum(np.mean(columns**2, axis=0), np.finfo(float).tiny)) if len(columns) else np.ones(sum(kept))
    )
    objective = ridge_objective(rows.loss, columns / scale, rows.y, weights=rows.weights, offset=rows.offset)
    theta = minimise(objective, start=objective.centre).theta
    information = objective.hessian(theta)
    separated = len(theta) and rows.loss.modelled and np.max(np.abs(objective.predictor(theta)), initial=0.0) > 30.0
    if separated:
        warnings.warn(
            "fitted probabilities numerically 0 or 1 occurred: the public rows are separated and the likelihood has no "
            "maximum; coefficients and standard errors mean little",
            RuntimeWarning,
            stacklevel=3,
        )
    covariance = np.linalg.pinv(information) / np.outer(scale, scale)
    return _spread(kept, theta / scale, covariance, terms=terms, label="maximum likelihood")


def identified(X: FloatArray) -> BoolArray:
    """Return which columns (p,) are not linear combinations of the columns before them (Gram-Schmidt, twice)."""
    basis = np.zeros((len(X), 0))
    kept = np.zeros(X.shape[1], dtype=bool)
    for j, column in enumerate(X.T):
        rest = column - basis @ (basis.T @ column)
        rest = rest - basis @ (basis.T @ rest)
        size, left = float(np.linalg.norm(column)), float(np.linalg.norm(rest))
        if left > ALIASED * size:
            kept[j] = True
            basis = np.column_stack([basis, rest / left])
    return kept


SHORTEST = 1e-12
"""Time of follow-up, in horizons, that stands for none."""


def classical_fit(rows: LinearObjective, *, terms: tuple[str, ...]) -> Estimate:
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
    bent, steep = rows.weights * loss.curvature(found, y), rows.weights * loss.score(found, y)
    return _estimate(rows.X, kept, estimate.values[kept], bent=bent, steep=steep, terms=terms)


def _least_squares(rows: LinearObjective, *, terms: tuple[str, ...]) -> Estimate:
    kept = identified(rows.X[rows.weights > 0])
    columns, root = rows.X[:, kept], np.sqrt(rows.weights)
    size = np.maximum(np.linalg.norm(columns, axis=0), np.finfo(float).tiny)
    Q, R = np.linalg.qr(root[:, None] * columns / size)
    values = np.linalg.solve(R, Q.T @ (root * (rows.y - rows.offset))) / size
    residual = rows.y - rows.offset - columns @ values
    free = int(np.sum(rows.weights > 0)) - int(kept.sum())
    variance = float(rows.weights @ residual**2) / free if free > 0 else np.nan
    inverse = np.linalg.inv(R) / size[:, None]
    return _spread(kept, values, variance * (inverse @ inverse.T), terms=terms)


def _quantile(rows: LinearObjective, q: float, *, terms: tuple[str, ...]) -> Estimate:
    """Return the minimiser of the check loss itself, not smoothed."""
    kept = identified(rows.X[rows.weights > 0])
    columns, target, weights = rows.X[:, kept], rows.y - rows.offset, rows.weights
    n, p = columns.shape
    found = linprog(
        np.concatenate([np.zeros(p), q * weights, (1.0 - q) * weights]),
        A_eq=np.hstack([columns, np.eye(n), -np.eye(n)]) if n < 500 else _sparse(columns),
        b_eq=target,
        bounds=[(None, None)] * p + [(0.0, None)] * (2 * n),
        method="highs",
    )
    if found.status != 0:
        raise HdpError("the quantile of the public rows could not be computed; are they complete and finite?")
    values = np.asarray(found.x[:p], dtype=np.float64)
    residual = target - columns @ values
    wide = window(scale_of(residual), n)
    bent = weights * (np.abs(residual) <= wide) / (2.0 * wide)
    return _estimate(rows.X, kept, values, bent=bent, steep=weights * ((residual < 0.0) - q), terms=terms)


def _sparse(columns: FloatArray) -> object:
    from scipy.sparse import csr_array, eye_array, hstack

    one = eye_array(len(columns))
    return hstack([csr_array(columns), one, -one], format="csc")


def _estimate(
    X: FloatArray, kept: BoolArray, values: FloatArray, *, bent: FloatArray, steep: FloatArray, terms: tuple[str, ...]
) -> Estimate:
    """Return an estimate with the sandwich of rows with curvatures and scores (n,)."""
    columns, (n, p) = X[:, kept], (len(X), len(values))
    inverse = np.linalg.pinv(columns.T @ (bent[:, None] * columns))
    meat = columns.T @ ((steep**2)[:, None] * columns)
    return _spread(kept, values, inverse @ meat @ inverse * (n / max(n - p, 1)), terms=terms)


def _spread(
    kept: BoolArray, values: FloatArray, covariance: FloatArray, *, terms: tuple[str, ...], label: str = "ordinary fit"
) -> Estimate:
    """Return an estimate with NaN for the coefficients that the rows do not identify."""
    whole, square = np.full(len(kept), np.nan), np.full((len(kept), len(kept)), np.nan)
    whole[kept], square[np.ix_(kept, kept)] = values, covariance
    return _noted(whole, square, terms=terms, label=label)


def _noted(values: FloatArray, covariance: FloatArray, *, terms: tuple[str, ...], label: str) -> Estimate:
    """Return an estimate with a note that names the coefficients that are NaN."""
    aliased = ", ".join(term for term, value in zip(terms, values, strict=True) if np.isnan(value))
    return Estimate(
        label=label,
        terms=terms,
        values=values,
        sampling=covariance,
        privacy=0.0 * covariance,
        note=f"A coefficient that public rows do not identify is NaN: {aliased}." if aliased else None,
    )


NUMBERS = 2**20
"""Numbers of terms that are held at a time, however many spells there are."""


def hazard_likelihood(
    rows: PublicSpells, features: FloatArray, *, link: str, causes: int, terms: tuple[str, ...]
) -> Estimate:
    """Return the maximum-likelihood fit, cause by cause, with its model-based covariance.

    Parameters
    ----------
    rows
        Spells; their weights are prior weights as in ``glm``.
    features
        Baseline features (q, e), among which a constant can be formed.
    link, causes
        The link, and how many kinds of event there are.
    terms
        Names of the coefficients, baseline first, for each cause.

    Notes
    -----
    A covariate that the spells do not identify is NaN (R's NA): of aliased columns the first is kept. Where the
    likelihood has no maximum a `RuntimeWarning` says so.
    """
    X = rows.X[:, 1:]
    e, p = features.shape[1], X.shape[1]
    kept = identified(np.column_stack([np.ones(len(X)), X])[rows.weights > 0])[1:]
    Z, back = _standardised(X[:, kept], features, rows.weights)
    places = np.concatenate([np.ones(e, dtype=bool), kept])
    values = np.full((causes, e + p), np.nan)
    covariance = np.full((causes * (e + p), causes * (e + p)), np.nan)
    for cause in range(causes):
        fit = fit_hazard(rows.data(features, Z, cause=cause + 1), link)
        if not fit.converged:
            warnings.warn(
                "fitted hazards numerically 0 or 1 occurred: the public rows are separated (an interval or a level "
                "without events) and the likelihood has no maximum; some coefficients and standard errors mean little",
                RuntimeWarning,
                stacklevel=4,
            )
        values[cause, places] = back @ fit.theta
        where = cause * (e + p) + np.flatnonzero(places)
        covariance[np.ix_(where, where)] = back @ np.linalg.pinv(fit.information) @ back.T
    if causes > 1:
        known = np.isfinite(np.diag(covariance))
        block = np.kron(np.eye(causes), np.ones((e + p, e + p))) == 0
        covariance[block & known[:, None] & known[None, :]] = 0.0
    return _noted(values.ravel(), covariance, terms=terms, label="maximum likelihood")


def _standardised(X: FloatArray, features: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return covariates of mean 0 and variance 1, and the matrix (e + p, e + p) back to coefficients of ``X``."""
    e, p = features.shape[1], X.shape[1]
    location = np.average(X, axis=0, weights=weights) if np.sum(weights) > 0 else np.zeros(p)
    scale = np.sqrt(np.maximum(np.mean((X - location) ** 2, axis=0), np.finfo(float).tiny))
    constant = np.linalg.lstsq(features, np.ones(len(features)), rcond=None)[0]
    back = np.eye(e + p)
    back[:e, e:] = -np.outer(constant, location / scale)
    back[e:, e:] = np.diag(1.0 / scale)
    return (X - location) / scale, back


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SpellScores:
    """The scores of spells (m, D) at some coefficients, and the weighted sum of their Hessians (D, D)."""

    scores: FloatArray
    information: FloatArray


def spell_scores(
    rows: PublicSpells, features: FloatArray, *, values: FloatArray, link: str, causes: int
) -> SpellScores:
    """Return each spell's gradient of minus the log-likelihood, and the weighted information.

    Arguments are those of `hazard_likelihood`, with identified coefficients ``values`` (causes (e + p),).
    """
    X, known = rows.X[:, 1:], LINKS[link]
    e, blocks = features.shape[1], values.reshape(causes, -1)
    scores = np.zeros((len(X), values.size))
    size = max(1, NUMBERS // len(features))
    intervals = np.arange(1, len(features) + 1)
    for start in range(0, len(X), size):
        part = slice(start, start + size)
        Z, exit_ = X[part], rows.exit[part, None]
        at_risk = (intervals > rows.entry[part, None]) & (intervals <= exit_)
        for cause, theta in enumerate(blocks):
            eta = features @ theta[:e] + (Z @ theta[e:] + rows.offset[part])[:, None]
            ends = (rows.cause[part, None] == cause + 1) & (intervals == exit_)
            score = np.where(at_risk, np.where(ends, known.event(eta).score, known.survive(eta).score), 0.0)
            block = slice(cause * len(theta), (cause + 1) * len(theta))
            scores[part, block] = np.column_stack([score @ features, score.sum(axis=1)[:, None] * Z])
    information = [
        Likelihood(rows.data(features, X, cause=cause + 1), known).hessian(theta) for cause, theta in enumerate(blocks)
    ]
    return SpellScores(scores=scores, information=block_diag(*information))
