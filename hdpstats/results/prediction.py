"""What a fitted model says about public rows: predictions, hazards and survival, as tables and plots."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats.losses import MEANS, multinomial
from hdpstats.records.estimate import normal_quantile
from hdpstats.results.facts import check_identified, design_of, read_rows
from hdpstats.results.standardised_means import slope
from hdpstats.schema.columns import Categorical

if TYPE_CHECKING:
    from hdpstats.results.result import Result


def predicted(fit: "Result", frame: pd.DataFrame, *, ci: bool, alpha: float) -> "pd.Series[float] | pd.DataFrame":
    """Return predicted means of public rows."""
    facts, estimate = fit.facts, fit.estimate
    if facts.family is not None:
        raise ArgumentError("a distribution without covariates predicts the same for every row: see params")
    if facts.loss is None:
        raise ArgumentError(
            "a hazard model predicts a curve, not one mean; ask predict_survival(frame, times), predict_hazard(frame) "
            "or predict_median(frame)",
            argument="frame",
        )
    if facts.loss == multinomial.NAME:
        return _of_levels(fit, frame, ci=ci, alpha=alpha)
    mean = MEANS[facts.loss]
    z = normal_quantile(alpha)
    check_identified(estimate)
    rows = read_rows(fit, frame, design_of(fit))
    eta = rows.X @ estimate.params.to_numpy() + rows.offset
    predicted = rows.spread(mean(eta))
    if not ci:
        return pd.Series(predicted, index=rows.index, name="predicted")
    variance = np.einsum("ij,jk,ik->i", rows.X, estimate.sampling + estimate.privacy, rows.X)
    half = z * np.sqrt(np.maximum(variance, 0.0))
    limits = mean(eta - half), mean(eta + half)
    return pd.DataFrame(
        {
            "predicted": predicted,
            "conf_low": rows.spread(np.minimum(*limits)),
            "conf_high": rows.spread(np.maximum(*limits)),
        },
        index=rows.index,
    )


def with_covariance(fit: "Result", frame: pd.DataFrame, *, ci: bool) -> "tuple[pd.Series[float], pd.DataFrame]":
    """Return predicted means and their covariance, by the delta method."""
    means = predicted(fit, frame, ci=False, alpha=0.05)
    if ci or not isinstance(means, pd.Series):
        raise ArgumentError("cov=True needs ci=False and a model with one mean", argument="cov")
    rows, mean = read_rows(fit, frame, design_of(fit)), MEANS[str(fit.facts.loss)]
    gradient = slope(mean, rows.X @ fit.estimate.params.to_numpy() + rows.offset)[:, None] * rows.X
    covariance = np.full((len(means), len(means)), np.nan)
    covariance[np.ix_(rows.complete, rows.complete)] = gradient @ fit.estimate.cov_params().to_numpy() @ gradient.T
    return means, pd.DataFrame(covariance, index=means.index, columns=means.index)


def _of_levels(fit: "Result", frame: pd.DataFrame, *, ci: bool, alpha: float) -> pd.DataFrame:
    """Return a column of probabilities per level; with ``ci`` a row per row and level, by the delta method."""
    facts, estimate, z = fit.facts, fit.estimate, normal_quantile(alpha)
    check_identified(estimate)
    design, outcome = design_of(fit), fit.schema[facts.response]
    levels = outcome.levels if isinstance(outcome, Categorical) else ()
    rows, others = read_rows(fit, frame, design), len(levels) - 1
    p = multinomial.probabilities(rows.X @ estimate.params.to_numpy().reshape(others, -1).T)
    whole = np.column_stack([1.0 - p.sum(axis=1), p])
    predicted = pd.DataFrame(rows.spread(whole), index=rows.index, columns=list(levels))
    if not ci:
        return predicted
    half = np.empty_like(whole)
    for k in range(len(levels)):
        slopes = whole[:, k, None] * ((np.arange(1, others + 1) == k) - p)
        gradient = (slopes[:, :, None] * rows.X[:, None, :]).reshape(len(p), -1)
        variance = np.einsum("ij,jk,ik->i", gradient, estimate.sampling + estimate.privacy, gradient)
        half[:, k] = z * np.sqrt(np.maximum(variance, 0.0))
    return pd.DataFrame(
        {
            "row": np.repeat(rows.index.to_numpy(), len(levels)),
            "level": np.tile(list(levels), len(rows.index)),
            "predicted": rows.spread(whole).ravel(),
            "conf_low": rows.spread(np.maximum(whole - half, 0.0)).ravel(),
            "conf_high": rows.spread(np.minimum(whole + half, 1.0)).ravel(),
        }
    )
