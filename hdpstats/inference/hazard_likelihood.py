"""Maximum likelihood of a discrete-time hazard on public spells: what R's ``glm`` computes on person-periods."""

import warnings

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.data.spells import Spells
from hdpstats.inference.estimate import Estimate
from hdpstats.inference.likelihood import identified
from hdpstats.solvers.hazard import HazardData, fit_hazard


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
    aliased = [term for term, value in zip(terms, values.ravel(), strict=True) if np.isnan(value)]
    note = f"A coefficient that public rows do not identify is NaN: {', '.join(aliased)}." if aliased else None
    return Estimate(
        label="maximum likelihood",
        terms=terms,
        values=values.ravel(),
        sampling=covariance,
        privacy=0.0 * covariance,
        note=note,
    )


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
