"""Ordinary fits of discrete-time hazards to public rows: what R's ``glm`` computes on rows of persons and periods.

These rows are never formed. Coefficients that have no finite value are NaN (`hdpstats.public.existence`).
"""

import warnings
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import scipy

from hdpstats._base.typing import FloatArray
from hdpstats.losses import LINKS
from hdpstats.public.existence import Existence, SignedRows, existence, has_maximum, lengths, polished
from hdpstats.public.hazard_fit import PublicSpells
from hdpstats.public.likelihood import ALIASED_IN_GLM, identified, orthogonal, unidentified
from hdpstats.records.estimate import Estimate
from hdpstats.solvers.hazard_likelihood import HazardData, HazardFit, Likelihood, fit_hazard

NUMBERS = 2**20
"""Numbers of terms that are held at a time, however many spells there are."""


def hazard_likelihood(
    rows: PublicSpells,
    features: FloatArray,
    *,
    link: str,
    causes: int,
    terms: tuple[str, ...],
    decided: bool = True,
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
    decided
        Whether coefficients that have no finite value are NaN. Else they stay where the iteration ended, and a
        `RuntimeWarning` says so.

    Notes
    -----
    A covariate that the spells do not identify is NaN (R's NA): of aliased columns the first is kept.
    """
    X = rows.X[:, 1:]
    e, p = features.shape[1], X.shape[1]
    kept = identified(np.column_stack([np.ones(len(X)), X])[rows.weights > 0], tolerance=ALIASED_IN_GLM)[1:]
    Z, back = _standardised(X[:, kept], features, rows.weights)
    places = np.concatenate([np.ones(e, dtype=bool), kept])
    values = np.full((causes, e + p), np.nan)
    covariance = np.full((causes * (e + p), causes * (e + p)), np.nan)
    aliased, infinite = np.tile(~places, (causes, 1)), np.zeros((causes, e + p), dtype=bool)
    for cause in range(causes):
        data = rows.data(features, Z, cause=cause + 1)
        fit = fit_hazard(data, link)
        theta, inverse = fit.theta, np.linalg.pinv(fit.information)
        known = np.ones(len(theta), dtype=bool)
        if not decided:
            _warn_of_separation(fit)
        elif not _is_certain(data, fit, link):
            found = _existence(data, X[:, kept])
            likelihood = Likelihood(data, LINKS[link])
            away: FloatArray = np.asarray(np.linalg.solve(back, found.away))
            far = polished(theta, away, gradient=likelihood.gradient, hessian=likelihood.hessian)
            theta, inverse, known = far.theta, far.covariance, found.finite
            aliased[cause, places], infinite[cause, places] = ~known & (found.away == 0), ~known & (found.away != 0)
        values[cause, places] = np.where(known, back @ theta, np.nan)
        where = cause * (e + p) + np.flatnonzero(places)[known]
        covariance[np.ix_(where, where)] = (back @ inverse @ back.T)[np.ix_(known, known)]
    if causes > 1:
        finite = np.isfinite(np.diag(covariance))
        block = np.kron(np.eye(causes), np.ones((e + p, e + p))) == 0
        covariance[block & finite[:, None] & finite[None, :]] = 0.0
    return Estimate(
        label="maximum likelihood",
        terms=terms,
        values=values.ravel(),
        sampling=covariance,
        privacy=0.0 * covariance,
        note=unidentified(*([terms[i] for i in np.flatnonzero(which)] for which in (aliased, infinite)), of=len(terms)),
    )


def _warn_of_separation(fit: HazardFit) -> None:
    if not fit.converged:
        warnings.warn(
            "fitted hazards numerically 0 or 1 occurred: the public rows are separated (an interval or a level "
            "without events) and the likelihood has no maximum; some coefficients and standard errors mean little",
            RuntimeWarning,
            stacklevel=5,
        )


def _is_certain(data: HazardData, fit: HazardFit, link: str) -> bool:
    """Return whether there is a maximum near where the iteration ended."""
    e, known, here = data.A.shape[1], LINKS[link], fit.reached
    try:
        inverse: FloatArray = np.asarray(np.linalg.inv(here.hessian))
    except np.linalg.LinAlgError:
        return False
    along_a, along_eta = data.A @ here.theta[:e], data.Z @ here.theta[e:] + data.offset
    ends = np.array([np.min(along_a) + np.min(along_eta), np.max(along_a) + np.max(along_eta)])
    longest = np.max(lengths(data.A, inverse[:e, :e])) + np.max(lengths(data.Z, inverse[e:, e:]), initial=0.0)
    decrement = float(lengths(here.gradient[None, :], inverse)[0])
    return has_maximum(decrement, float(longest), bound=known.self_concordance(ends))


def _existence(data: HazardData, X: FloatArray) -> Existence:
    """Return which coefficients of the baseline and of covariates ``X`` (m, p) are finite, and how the others grow."""
    entry, spans = data.entry, np.where(data.weights > 0.0, data.exit - data.entry, 0)
    r = np.repeat(np.arange(len(spans)), spans)
    l = entry[r] + np.arange(len(r)) - np.repeat(np.cumsum(spans) - spans, spans)  # noqa: E741
    happened = (data.event[r] == 1) & (l == data.exit[r] - 1)
    scale = np.concatenate([np.max(np.abs(each), axis=0, initial=1e-150) for each in (data.A, X)])
    e = data.A.shape[1]
    rows = SignedRows(left=data.A / scale[:e], right=X / scale[e:], l=l, r=r, sign=np.where(happened, 1.0, -1.0))
    found = existence(rows)
    return replace(found, away=found.away / scale)


def _standardised(X: FloatArray, features: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return centred covariates that are orthogonal, and the matrix (e + p, e + p) back to coefficients of ``X``."""
    e, p = features.shape[1], X.shape[1]
    location = np.average(X, axis=0, weights=weights) if np.sum(weights) > 0 else np.zeros(p)
    scale = np.sqrt(np.maximum(np.mean((X - location) ** 2, axis=0), np.finfo(float).tiny))
    constant = np.linalg.lstsq(features, np.ones(len(features)), rcond=None)[0]
    Z, apart = orthogonal((X - location) / scale)
    back = np.eye(e + p)
    back[:e, e:] = -np.outer(constant, (location / scale) @ apart)
    back[e:, e:] = apart / scale[:, None]
    return Z, back


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
    return SpellScores(scores=scores, information=scipy.linalg.block_diag(*information))
