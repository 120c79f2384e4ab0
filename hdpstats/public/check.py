"""How a survival model does on public rows: one record of concordance, Brier scores and calibration."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pandas as pd
from scipy.special import ndtri

from hdpstats._base.typing import FloatArray
from hdpstats.public.follow_up import (
    Concordance,
    FollowUp,
    brier_scores,
    concordance,
    integrated_brier,
    kaplan_meier,
    reaches,
)
from hdpstats.records.arrays import Frame
from hdpstats.records.codec import Record

GROUPS: Final = 5
"""Groups of predicted risk."""
_SCORES: Final = {"cause": "object"} | dict.fromkeys(("time", "brier", "reference"), "float64")
_CALIBRATION: Final = {"cause": "object", "time": "float64", "group": "int64", "rows": "int64"} | dict.fromkeys(
    ("predicted", "observed", "conf_low", "conf_high"), "float64"
)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicCheck(Record):
    """What public rows say about a survival model; those rows took part in the fit, which flatters it a little.

    Attributes
    ----------
    rows : int
        How many public rows were used.
    causes : tuple of str
        The causes, one where risks do not compete.
    concordance : tuple of Concordance
        One per cause: how the linear predictor orders the events.
    scores : DataFrame
        Columns cause, time, brier, reference: the Brier score of the model, and that of one curve for everybody.
    calibration : DataFrame
        Columns cause, time, group, rows, predicted, observed, conf_low, conf_high: in each group of predicted risk, the
        mean prediction, and the product-limit estimate with 95 % limits.
    """

    rows: int
    causes: tuple[str, ...]
    concordance: tuple[Concordance, ...]
    scores: Frame
    calibration: Frame

    def integrated(self) -> pd.DataFrame:
        """Return integrated Brier scores by cause: columns brier, reference, until (the last time in the integral)."""
        found = {}
        for cause in self.causes:
            part = self.scores[self.scores["cause"] == cause]
            times = part["time"].to_numpy(dtype=float)
            brier, until = integrated_brier(times, part["brier"].to_numpy(dtype=float))
            reference, _ = integrated_brier(times, part["reference"].to_numpy(dtype=float))
            found[cause] = (brier, reference, until)
        return pd.DataFrame.from_dict(found, orient="index", columns=["brier", "reference", "until"])


def check(
    rows: FollowUp,
    score: FloatArray,
    *,
    causes: Sequence[str],
    times: FloatArray,
    incidence: FloatArray,
    shown: Sequence[int],
) -> PublicCheck:
    """Check predictions on public rows.

    Parameters
    ----------
    rows : FollowUp
        What happened.
    score : (n, K) float64
        Linear predictors by cause.
    causes : sequence of str
        The names of the K causes.
    times : (T,) float64
        When to compare; none where a row's covariates may change later, so that no curve belongs to it.
    incidence : (n, T, K) float64
        Predicted cumulative incidence.
    shown : sequence of int
        The places among ``times`` at which to tabulate calibration.
    """
    places = range(len(causes))
    scores = [_scores(rows, name, k, times, incidence[:, :, k]) for k, name in zip(places, causes, strict=True)]
    tables = [
        calibration(rows, incidence[:, place, k], time=float(times[place]), cause=k + 1).assign(cause=causes[k])
        for k in places
        for place in shown
    ]
    return PublicCheck(
        rows=len(rows.time),
        causes=tuple(causes),
        concordance=tuple(concordance(rows, score[:, k], cause=k + 1) for k in places),
        scores=_frame(scores, _SCORES),
        calibration=_frame(tables, _CALIBRATION),
    )


def calibration(rows: FollowUp, incidence: FloatArray, *, time: float, cause: int = 1) -> pd.DataFrame:
    """Return predicted and observed incidence at a time in groups of equal size of predicted risk (n,).

    Columns time, group (from 1, the lowest risk), rows, predicted, observed, conf_low, conf_high. The limits are those
    of ``log(-log(1 - F))``; NaN where a group's rows do not reach the time. Equal predictions share a group.
    """
    inner = np.quantile(incidence, np.arange(1, GROUPS) / GROUPS) if len(incidence) else np.zeros(GROUPS - 1)
    group = np.searchsorted(inner, incidence, side="right")
    at, z = np.array([time]), -float(ndtri(0.025))
    found = []
    for number in np.unique(group):
        part = rows.take(group == number)
        curves = kaplan_meier(part)
        observed, error = (
            float(curves.at(values[:, cause - 1], at, start=0.0)[0]) for values in (curves.incidence, curves.std_error)
        )
        if not reaches(part, at)[0]:
            observed = error = np.nan
        low, high = _limits(observed, error, z)
        predicted = float(np.average(incidence[group == number], weights=part.case_weights))
        found.append((time, int(number) + 1, len(part.time), predicted, observed, low, high))
    columns = [name for name in _CALIBRATION if name != "cause"]
    return pd.DataFrame(found, columns=columns)


def _limits(incidence: float, error: float, z: float) -> tuple[float, float]:
    rest = np.log1p(-min(incidence, 1.0)) if incidence < 1.0 else -np.inf
    if not -np.inf < rest < 0.0:
        return np.nan, np.nan
    with np.errstate(over="ignore"):  # an infinite factor is a limit of 0 or 1
        factor = np.exp(z * error / (1.0 - incidence) / -rest)
        return float(-np.expm1(rest / factor)), float(-np.expm1(rest * factor))


def _scores(rows: FollowUp, name: str, k: int, times: FloatArray, incidence: FloatArray) -> pd.DataFrame:
    curves = kaplan_meier(rows)
    everybody = np.broadcast_to(curves.at(curves.incidence[:, k], times, start=0.0), incidence.shape)
    return pd.DataFrame(
        {
            "cause": name,
            "time": times,
            "brier": brier_scores(rows, incidence, times, cause=k + 1),
            "reference": brier_scores(rows, everybody, times, cause=k + 1),
        }
    )


def _frame(parts: Sequence[pd.DataFrame], kinds: dict[str, str]) -> pd.DataFrame:
    """Return tables one below the other with the types of their columns, however many rows there are."""
    columns = {name: [value for part in parts for value in part[name].tolist()] for name in kinds}
    return pd.DataFrame({name: pd.Series(values, dtype=kinds[name]) for name, values in columns.items()})
