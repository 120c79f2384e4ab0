"""Predictions for public rows, by the delta method."""

import numpy as np
import pandas as pd
from scipy.special import ndtri

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import real
from hdpstats.formulas import compile_design
from hdpstats.formulas.response import categorical_design
from hdpstats.formulas.survival import compile_survival
from hdpstats.losses import MEANS, ExponentialTimes, multinomial
from hdpstats.records.estimate import Estimate
from hdpstats.results.facts import ModelFacts
from hdpstats.results.rows import check_identified, read_rows
from hdpstats.schema.columns import Categorical
from hdpstats.schema.schema import Schema


def predict(
    *, facts: ModelFacts, schema: Schema, estimate: Estimate, frame: pd.DataFrame, ci: bool, alpha: float
) -> "pd.Series[float] | pd.DataFrame":
    """Return predicted means of public rows; see `hdpstats.results.Result.predict`."""
    if facts.family is not None:
        raise ArgumentError("a distribution without covariates predicts the same for every row: see params")
    if facts.loss is None:
        raise ArgumentError(
            "a hazard model predicts a curve, not one mean; ask predict_survival(frame, times), predict_hazard(frame) "
            "or predict_median(frame)",
            argument="frame",
        )
    if facts.loss == multinomial.NAME:
        return _of_levels(facts, schema, estimate, frame, ci=ci, alpha=alpha)
    mean = MEANS[facts.loss]
    level = real(alpha, name="alpha", lower=0.001, upper=0.999)
    check_identified(estimate)
    timed = facts.loss == ExponentialTimes.name
    design = compile_survival(facts.formula, schema).covariates if timed else compile_design(facts.formula, schema)
    rows = read_rows(frame, schema, design, offset=facts.offset, name="frame")
    eta = rows.X @ estimate.params.to_numpy() + rows.offset
    predicted = rows.spread(mean(eta))
    if not ci:
        return pd.Series(predicted, index=rows.index, name="predicted")
    variance = np.einsum("ij,jk,ik->i", rows.X, estimate.sampling + estimate.privacy, rows.X)
    half = -float(ndtri(level / 2.0)) * np.sqrt(np.maximum(variance, 0.0))
    limits = mean(eta - half), mean(eta + half)
    return pd.DataFrame(
        {
            "predicted": predicted,
            "conf_low": rows.spread(np.minimum(*limits)),
            "conf_high": rows.spread(np.maximum(*limits)),
        },
        index=rows.index,
    )


def _of_levels(
    facts: ModelFacts, schema: Schema, estimate: Estimate, frame: pd.DataFrame, *, ci: bool, alpha: float
) -> pd.DataFrame:
    """Return a column of probabilities per level; with ``ci`` a row per row and level, by the delta method."""
    level = real(alpha, name="alpha", lower=0.001, upper=0.999)
    check_identified(estimate)
    design, outcome = categorical_design(facts.formula, schema), schema[facts.response]
    levels = outcome.levels if isinstance(outcome, Categorical) else ()
    rows, others = read_rows(frame, schema, design, offset=None, name="frame"), len(levels) - 1
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
        half[:, k] = -float(ndtri(level / 2.0)) * np.sqrt(np.maximum(variance, 0.0))
    return pd.DataFrame(
        {
            "row": np.repeat(rows.index.to_numpy(), len(levels)),
            "level": np.tile(list(levels), len(rows.index)),
            "predicted": rows.spread(whole).ravel(),
            "conf_low": rows.spread(np.maximum(whole - half, 0.0)).ravel(),
            "conf_high": rows.spread(np.minimum(whole + half, 1.0)).ravel(),
        }
    )
