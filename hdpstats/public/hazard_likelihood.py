"""Maximum likelihood of a discrete-time hazard on public spells: what R's ``glm`` computes on person-periods."""

import warnings
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.losses import LINKS
from hdpstats.public.likelihood import identified
from hdpstats.records.estimate import Estimate
from hdpstats.schema.spells import Spells
from hdpstats.solvers.hazard import HazardData, fit_hazard

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
