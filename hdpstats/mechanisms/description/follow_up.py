"""Noisy numbers of follow-up by group and public interval: post-processing of a release."""

from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.mechanisms.description.blocks import FEWEST, DescribedNumbers


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FollowUpTable:
    """Noisy numbers of follow-up, by group and interval.

    Attributes
    ----------
    events : (G, J, K) float64
        Events of each cause.
    censored, at_risk : (G, J) float64
        Censorings in an interval, and people at risk when it begins, which never grows.
    sd, at_risk_sd : float64 arrays
        Standard deviations of the noise: of each event and censoring, and of `at_risk` (J,).
    known : (G,) bool
        Which groups are large enough for their noise.
    """

    events: FloatArray
    censored: FloatArray
    at_risk: FloatArray
    sd: float
    at_risk_sd: FloatArray
    known: BoolArray


def follow_up_table(numbers: DescribedNumbers) -> FollowUpTable | None:
    """Return the numbers of follow-up; None where none were asked for.

    Where the number of people is public, all cells are shifted by as much as makes their sum that number.
    """
    query, asked = numbers.query, numbers.query.follow_up
    if asked is None:
        return None
    counts, sd = numbers.follow_up, float(numbers.sds[2])
    if numbers.records is not None:
        counts = counts + (numbers.records - counts.sum()) / len(counts)
    table = counts[:-1].reshape(query.groups, asked.cells)
    stayed, inner = table[:, -1:], table[:, :-1].reshape(query.groups, len(asked.ends), asked.causes + 1)
    left = inner.sum(axis=2)
    at_risk = stayed + np.cumsum(left[:, ::-1], axis=1)[:, ::-1]
    after = np.arange(len(asked.ends), 0, -1) * (asked.causes + 1.0) + 1.0
    return FollowUpTable(
        events=inner[:, :, :-1] * query.largest_weight,
        censored=inner[:, :, -1] * query.largest_weight,
        at_risk=np.minimum.accumulate(np.maximum(at_risk, 0.0), axis=1) * query.largest_weight,
        sd=sd * query.largest_weight,
        at_risk_sd=sd * np.sqrt(after) * query.largest_weight,
        known=at_risk[:, 0] >= FEWEST * sd * np.sqrt(float(asked.cells)),
    )
