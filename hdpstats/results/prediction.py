"""Predictions for public rows, by the delta method."""

import numpy as np
import pandas as pd
from scipy.special import ndtri

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats._base.validation import real
from hdpstats.data.public import PublicTable
from hdpstats.data.schema import Schema
from hdpstats.data.table import check_frame
from hdpstats.design import compile_design
from hdpstats.inference.estimate import Estimate
from hdpstats.losses import BY_NAME
from hdpstats.results.facts import ModelFacts


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
    _check_identified(estimate)
    X, offset, complete, index = _rows(facts, schema, frame)
    eta = X @ estimate.params.to_numpy() + offset
    predicted = _spread(mean(eta), complete)
    if not ci:
        return pd.Series(predicted, index=index, name="predicted")
    variance = np.einsum("ij,jk,ik->i", X, estimate.sampling + estimate.privacy, X)
    half = -float(ndtri(level / 2.0)) * np.sqrt(np.maximum(variance, 0.0))
    return pd.DataFrame(
        {
            "predicted": predicted,
            "conf_low": _spread(mean(eta - half), complete),
            "conf_high": _spread(mean(eta + half), complete),
        },
        index=index,
    )


def _check_identified(estimate: Estimate) -> None:
    missing = [term for term, value in zip(estimate.terms, estimate.values, strict=True) if np.isnan(value)]
    if missing:
        raise ArgumentError(
            f"predict needs every coefficient, and the rows of this fit do not identify {', '.join(missing)}; "
            "drop those terms from the formula, or fit with private records",
            argument="frame",
        )


def _rows(facts: ModelFacts, schema: Schema, frame: pd.DataFrame) -> tuple[FloatArray, FloatArray, BoolArray, pd.Index]:
    """Return design and offset of the complete rows, which rows those are, and the index of all rows."""
    plain = check_frame(frame, name="frame")
    design = compile_design(facts.formula, schema)
    offset = [] if facts.offset is None else [facts.offset]
    needs = [*dict.fromkeys([*design.needs[1:], *offset])]
    read = plain.loc[:, [label in needs for label in plain.columns]]
    table = PublicTable.from_frame(read, schema, required=needs).raw(needs)
    complete = read.notna().all(axis=1).to_numpy(dtype=bool)
    X = design.evaluate_unclipped(table)
    shift = table.numeric[facts.offset] if facts.offset is not None else np.zeros(len(X))
    return X, shift, complete, plain.index


def _spread(values: FloatArray, complete: BoolArray) -> FloatArray:
    """Return one value per row, NaN in the rows that are not complete."""
    spread = np.full(len(complete), np.nan)
    spread[complete] = values
    return spread
