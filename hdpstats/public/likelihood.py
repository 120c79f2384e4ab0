"""Ordinary maximum likelihood on public rows: what R's ``glm`` computes, no noise, no penalty, no cost."""

import warnings

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.losses import PredictorLoss
from hdpstats.records.estimate import Estimate
from hdpstats.solvers import LinearObjective, minimise

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
    values, covariance = np.full(len(kept), np.nan), np.full((len(kept), len(kept)), np.nan)
    values[kept] = theta / scale
    covariance[np.ix_(kept, kept)] = np.linalg.pinv(information) / np.outer(scale, scale)
    aliased = ", ".join(term for term, is_kept in zip(terms, kept, strict=True) if not is_kept)
    note = f"A coefficient that public rows do not identify is NaN: {aliased}." if aliased else None
    return Estimate(
        label="maximum likelihood", terms=terms, values=values, sampling=covariance, privacy=0.0 * covariance, note=note
    )


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
