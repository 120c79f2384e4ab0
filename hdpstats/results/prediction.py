"""Predictions for public rows, by the delta method."""

import numpy as np
import pandas as pd
from scipy.special import ndtri

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import real
from hdpstats.data.schema import Schema
from hdpstats.design import compile_design
from hdpstats.design.survival import compile_survival
from hdpstats.inference.estimate import Estimate
from hdpstats.losses import MEANS, ExponentialTimes
from hdpstats.results.facts import ModelFacts
from hdpstats.results.rows import check_identified, read_rows


def predict(
    *, facts: ModelFacts, schema: Schema, estimate: Estimate, frame: pd.DataFrame, ci: bool, alpha: float
) -> "pd.Series[float] | pd.DataFrame":
    """Return predicted means of public rows; see `hdpstats.results.Result.predict`."""
    if facts.loss is None:
        raise ArgumentError(
            "a hazard model predicts a curve, not one mean; ask predict_survival(frame, times), predict_hazard(frame) "
            "or predict_median(frame)",
            argument="frame",
        )
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
