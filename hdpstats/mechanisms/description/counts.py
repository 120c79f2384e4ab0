"""The noisy counts of a description in people, of cells of quartiles and of follow-up: post-processing of a release."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.mechanisms.description.query import UNITS, DescribedColumn, DescriptionQuery, DescriptionRelease

FEWEST: Final = 4.0
"""So many standard deviations of noise are the fewest people of whom anything is said."""


def cells_in(
    query: DescriptionQuery, releases: Sequence[DescriptionRelease], group: int, column: DescribedColumn
) -> tuple[FloatArray, float]:
    """Return the noisy counts of a column's cells in a group, in people, and the standard deviation of their noise."""
    scale = UNITS if query.weights is not None else 1
    place = query.with_cells.index(column)
    first, last = (group * query.first_cells[-1] + query.first_cells[place + after] for after in (0, 1))
    counts = sum(np.array(release.cells[first:last], dtype=np.float64) for release in releases) / scale
    return np.asarray(counts), float(np.sqrt(sum(release.cells_sd**2 for release in releases)))


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


def follow_up_table(query: DescriptionQuery, releases: Sequence[DescriptionRelease]) -> FollowUpTable | None:
    """Return the numbers of follow-up at the sites of these releases together; None where none were asked for.

    Where the number of people is public, all cells are shifted by as much as makes their sum that number.
    """
    asked = query.follow_up
    if asked is None:
        return None
    scale = UNITS if query.weights is not None else 1
    counts = np.asarray(sum(np.array(release.follow_up, dtype=np.float64) for release in releases)) / scale
    sd = float(np.sqrt(sum(release.follow_up_sd**2 for release in releases)))
    known = [release.records for release in releases]
    if None not in known:
        counts = counts + (sum(each or 0 for each in known) - counts.sum()) / len(counts)
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
