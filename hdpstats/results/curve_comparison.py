"""A model's survival, averaged over people, against the curves of the people themselves."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.results.description_tables import frame_of
from hdpstats.results.population import population
from hdpstats.results.result import Result
from hdpstats.results.survival import hazard_facts
from hdpstats.results.tables import normal_quantile
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema

if TYPE_CHECKING:
    from hdpstats.results.survival_curves import SurvivalCurves

NUMBERS = ("time", "estimate", "model", "difference", "std_error", "conf_low", "conf_high")


def compare(curves: "SurvivalCurves", result: object, over: object, *, alpha: float) -> pd.DataFrame:
    """Return the comparison; see `hdpstats.results.SurvivalCurves.compare`."""
    if not isinstance(result, Result):
        raise ArgumentError(f"result must be that of a hazard model, not {type(result).__name__}", argument="result")
    horizon, z = hazard_facts(result.facts).grid.horizon, normal_quantile(alpha)
    people = population(result, result.public_rows, over)
    frame, weights = people.frame.reset_index(drop=True), people.weights
    lacking = [name for name in curves.grouping if name not in frame]
    if lacking:
        raise ArgumentError(f"over must have the curves' groups as columns: {', '.join(lacking)}", argument="over")
    times = curves.times[curves.times <= horizon]
    if not len(times):
        raise ArgumentError("the model's last interval ends before the first end of the curves", argument="result")
    group, predicted = _groups(curves, frame), _predicted(result, frame, times)
    rows: list[tuple[Any, ...]] = []
    for place, (label, curve) in enumerate(zip(curves.groups, curves.curves(), strict=True)):
        own = (group == place) & np.isfinite(predicted).all(axis=1) & (weights > 0.0)
        model = weights[own] @ predicted[own] / weights[own].sum() if own.any() else np.full(len(times), np.nan)
        band = curve.survival(times, z)
        apart = band.value - model
        numbers = (times, band.value, model, apart, band.std_error, apart - z * band.std_error)
        rows += [(label, *each) for each in zip(*numbers, apart + z * band.std_error, strict=True)]
    return frame_of(rows, texts=("group",), numbers=NUMBERS)


def _groups(curves: "SurvivalCurves", frame: pd.DataFrame) -> IntArray:
    """Return the group of each row; -1 where it lacks a cell."""
    place = np.zeros(len(frame), dtype=np.int64)
    if not curves.grouping:
        return place
    table = PublicTable.from_frame(frame, Schema({name: curves.schema[name] for name in curves.grouping}))
    known = table.complete(curves.grouping)
    for name in curves.grouping:
        codes = table.codes[name] if name in table.codes else np.nan_to_num(table.numbers[name]).astype(np.int64)
        place = place * len(curves.levels(name)) + codes
    return np.where(known, place, -1)


def _predicted(result: Result, frame: pd.DataFrame, times: FloatArray) -> FloatArray:
    """Return predicted survival (n, T)."""
    found = result.predict_survival(frame, times.tolist(), ci=False)
    return found["survival"].to_numpy(dtype=float).reshape(len(frame), len(times))
