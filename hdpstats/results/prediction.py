"""Predictions for public rows, by the delta method."""

import numpy as np
import pandas as pd
from scipy.special import ndtri

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import real
from hdpstats.data.schema import Schema
from hdpstats.design import compile_design
from hdpstats.inference.estimate import Estimate
from hdpstats.losses import BY_NAME
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
    mean = BY_NAME[facts.loss].mean
    level = real(alpha, name="alpha", lower=0.001, upper=0.999)
    check_identified(estimate)
    rows = read_rows(frame, schema, compile_design(facts.formula, schema), offset=facts.offset, name="frame")
    eta = rows.X @ estimate.params.to_numpy() + rows.offset
    predicted = rows.spread(mean(eta))
    if not ci:
        return pd.Series(predicted, index=rows.index, name="predicted")
    variance = np.einsum("ij,jk,ik->i", rows.X, estimate.sampling + estimate.privacy, rows.X)
    half = -float(ndtri(level / 2.0)) * np.sqrt(np.maximum(variance, 0.0))
    return pd.DataFrame(
        {
            "predicted": predicted,
            "conf_low": rows.spread(mean(eta - half)),
            "conf_high": rows.spread(mean(eta + half)),
        },
        index=rows.index,
    )
