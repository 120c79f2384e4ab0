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
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.optimize import linprog

from hdpstats._base.errors import HdpError
from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.losses import LINKS, BoundedSquares, ExponentialTimes, PoissonLoss, PredictorLoss, SmoothedQuantile
from hdpstats.losses.located import scale_of, window
from hdpstats.records.estimate import Estimate
from hdpstats.schema.spells import Spells
from hdpstats.solvers import LinearObjective, minimise
from hdpstats.solvers.hazard import HazardData, fit_hazard

ALIASED = 1e-7
"""A column whose part outside the span of the columns before it is relatively smaller than this is not identified."""


def maximum_likelihood(
    X: FloatArray,
    y: FloatArray,
    *,
    weights: FloatArray,
    offset: FloatArray,
    loss: PredictorLoss,
    terms: tuple[str, ...],
) -> Estimate:
    """Return the maximum-likelihood fit with its model-based covariance (the inverse of the observed information).

    ``weights`` are prior weights as in ``glm``. A coefficient that the rows do not identify is NaN (R's NA): of aliased
    columns the first is kept. Where the likelihood has no maximum (perfect separation) a `RuntimeWarning` says so.
    """
    kept = identified(X[weights > 0])
    p = int(kept.sum())
    columns = X[:, kept]
    scale = np.sqrt(np.maximum(np.mean(columns**2, axis=0), np.finfo(float).tiny)) if len(X) else np.ones(p)
    zero = np.zeros(p)
    objective = LinearObjective(
        loss=loss, X=columns / scale, y=y, weights=weights, offset=offset, ridge=zero, centre=zero, linear=zero
    )
    theta = minimise(objective, start=zero).theta
    information = objective.hessian(theta)
    if p and loss.modelled and float(np.max(np.abs(objective.predictor(theta)), initial=0.0)) > 30.0:
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


def classical_fit(
    X: FloatArray,
    y: FloatArray,
    *,
    weights: FloatArray,
    offset: FloatArray,
    loss: PredictorLoss,
    terms: tuple[str, ...],
) -> Estimate:
    """Return the fit with its covariance; ``weights`` are prior weights, aliased columns have NaN coefficients."""
    if isinstance(loss, BoundedSquares):
        return _least_squares(X, y, weights=weights, offset=offset, terms=terms)
    if isinstance(loss, SmoothedQuantile):
        return _quantile(X, y, weights=weights, offset=offset, loss=loss, terms=terms)
    if isinstance(loss, ExponentialTimes):  # exactly: its likelihood is that of a Poisson count of events
        time, event = np.maximum(np.abs(y), SHORTEST), np.signbit(y).astype(np.float64)
        return classical_fit(
            X, event, weights=weights, offset=offset + np.log(time), loss=PoissonLoss(upper=1.0, cap=1.0), terms=terms
        )
    estimate = maximum_likelihood(X, y, weights=weights, offset=offset, loss=loss.plain, terms=terms)
    if loss.meat == 1.0:
        return estimate
    kept = np.isfinite(estimate.values)
    found = X[:, kept] @ estimate.values[kept] + offset
    bent, steep = weights * loss.curvature(found, y), weights * loss.score(found, y)
    return _estimate(X, kept, estimate.values[kept], bent=bent, steep=steep, terms=terms)


def _least_squares(
    X: FloatArray, y: FloatArray, *, weights: FloatArray, offset: FloatArray, terms: tuple[str, ...]
) -> Estimate:
    kept = identified(X[weights > 0])
    columns, root = X[:, kept], np.sqrt(weights)
    size = np.maximum(np.linalg.norm(columns, axis=0), np.finfo(float).tiny)
    Q, R = np.linalg.qr(root[:, None] * columns / size)
    values = np.linalg.solve(R, Q.T @ (root * (y - offset))) / size
    residual = y - offset - columns @ values
    free = int(np.sum(weights > 0)) - int(kept.sum())
    variance = float(weights @ residual**2) / free if free > 0 else np.nan
    inverse = np.linalg.inv(R) / size[:, None]
    return _spread(kept, values, variance * (inverse @ inverse.T), terms=terms)


def _quantile(
    X: FloatArray,
    y: FloatArray,
    *,
    weights: FloatArray,
    offset: FloatArray,
    loss: SmoothedQuantile,
    terms: tuple[str, ...],
) -> Estimate:
    """Return the minimiser of the check loss itself, not smoothed."""
    kept = identified(X[weights > 0])
    columns, target = X[:, kept], y - offset
    n, p = columns.shape
    found = linprog(
        np.concatenate([np.zeros(p), loss.q * weights, (1.0 - loss.q) * weights]),
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
    steep = weights * ((residual < 0.0) - loss.q)
    return _estimate(X, kept, values, bent=bent, steep=steep, terms=terms)


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
    features: FloatArray,
    X: FloatArray,
    spells: Spells,
    *,
    weights: FloatArray,
    offset: FloatArray,
    link: str,
    causes: int,
    terms: tuple[str, ...],
) -> Estimate:
    """Return the maximum-likelihood fit, cause by cause, with its model-based covariance.

    Parameters
    ----------
    features
        Baseline features (q, e), among which a constant can be formed.
    X
        Covariates of the spells (m, p), without an intercept.
    spells
        Where they are at risk, and what ended them (m,).
    weights, offset
        Prior weights as in ``glm``, and known terms (m,).
    link, causes
        The link, and how many kinds of event there are.
    terms
        Names of the coefficients, baseline first, for each cause.

    Notes
    -----
    A covariate that the spells do not identify is NaN (R's NA): of aliased columns the first is kept. Where the
    likelihood has no maximum a `RuntimeWarning` says so.
    """
    e, p = features.shape[1], X.shape[1]
    kept = identified(np.column_stack([np.ones(len(X)), X])[weights > 0])[1:]
    Z, back = _standardised(X[:, kept], features, weights)
    places = np.concatenate([np.ones(e, dtype=bool), kept])
    values = np.full((causes, e + p), np.nan)
    covariance = np.full((causes * (e + p), causes * (e + p)), np.nan)
    for cause in range(causes):
        data = HazardData(
            A=features,
            Z=Z,
            entry=spells.entry,
            exit=spells.exit,
            event=(spells.cause == cause + 1).astype(np.int64),
            weights=weights,
            offset=offset,
        )
        fit = fit_hazard(data, link)
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
    features: FloatArray,
    X: FloatArray,
    spells: Spells,
    *,
    values: FloatArray,
    weights: FloatArray,
    offset: FloatArray,
    link: str,
    causes: int,
) -> SpellScores:
    """Return each spell's gradient of minus the log-likelihood, and the weighted information.

    Arguments are those of `hazard_likelihood`, with identified coefficients ``values`` (causes (e + p),).
    """
    e, width = features.shape[1], features.shape[1] + X.shape[1]
    blocks = values.reshape(causes, width)
    scores, information = np.zeros((len(X), causes * width)), np.zeros((causes * width, causes * width))
    size = max(1, NUMBERS // len(features))
    intervals = np.arange(1, len(features) + 1)
    for start in range(0, len(X), size):
        part = slice(start, start + size)
        Z, exit_ = X[part], spells.exit[part, None]
        at_risk = (intervals > spells.entry[part, None]) & (intervals <= exit_)
        for cause, theta in enumerate(blocks):
            eta = features @ theta[:e] + (Z @ theta[e:] + offset[part])[:, None]
            ends = (spells.cause[part, None] == cause + 1) & (intervals == exit_)
            survive, event = LINKS[link].survive(eta), LINKS[link].event(eta)
            score = np.where(at_risk, np.where(ends, event.score, survive.score), 0.0)
            curvature = np.where(at_risk, np.where(ends, event.curvature, survive.curvature), 0.0)
            block = slice(cause * width, (cause + 1) * width)
            scores[part, block] = np.column_stack([score @ features, score.sum(axis=1)[:, None] * Z])
            information[block, block] += _information(features, Z, curvature * weights[part, None])
    return SpellScores(scores=scores, information=information)


def _information(features: FloatArray, Z: FloatArray, curvature: FloatArray) -> FloatArray:
    """Return ``sum_is k_is x_is x_is'`` over spells and intervals, with ``x_is = (A_s, z_i)``."""
    mixed = features.T @ curvature.T @ Z
    return np.block(
        [
            [features.T @ (curvature.sum(axis=0)[:, None] * features), mixed],
            [mixed.T, Z.T @ (curvature.sum(axis=1)[:, None] * Z)],
        ]
    )
