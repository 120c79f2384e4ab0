r"""Ordinary fits to public rows by any loss: what R's ``lm``, ``glm``, ``survreg``, ``rq`` and ``rlm`` compute.

No noise, no penalty, no cost, and no bounds: `PredictorLoss.plain` is the loss without its caps. Covariances are those
that the software of the field prints by default:

* likelihoods: the inverse observed information;
* least squares: the same times the residual variance with ``n - p`` degrees of freedom;
* Huber's loss and somebody's own: the sandwich :math:`A^{-1} B A^{-1} n / (n - p)`;
* quantiles: the exact linear programme (Koenker and Bassett 1978), with Powell's sandwich, the density at the quantile
  being counted in a window of 1.3 residual scales times ``n^(-1/5)``.
"""

import numpy as np
from scipy.optimize import linprog

from hdpstats._base.errors import HdpError
from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.losses import BoundedSquares, ExponentialTimes, PoissonLoss, PredictorLoss, SmoothedQuantile
from hdpstats.losses.located import scale_of, window
from hdpstats.public.likelihood import identified, maximum_likelihood
from hdpstats.records.estimate import Estimate

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


def _spread(kept: BoolArray, values: FloatArray, covariance: FloatArray, *, terms: tuple[str, ...]) -> Estimate:
    """Return an estimate with NaN for the coefficients that the rows do not identify."""
    whole, square = np.full(len(kept), np.nan), np.full((len(kept), len(kept)), np.nan)
    whole[kept], square[np.ix_(kept, kept)] = values, covariance
    aliased = ", ".join(term for term, is_kept in zip(terms, kept, strict=True) if not is_kept)
    return Estimate(
        label="ordinary fit",
        terms=terms,
        values=whole,
        sampling=square,
        privacy=0.0 * square,
        note=f"A coefficient that public rows do not identify is NaN: {aliased}." if aliased else None,
    )
