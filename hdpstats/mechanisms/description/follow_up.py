"""Noisy numbers of follow-up by group and public interval: post-processing of a release."""

from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.inference.life_tables import LifeTable
from hdpstats.mechanisms.description.blocks import FEWEST, DescribedNumbers
from hdpstats.mechanisms.description.cells import FollowUpCells


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FollowUpTable:
    """Noisy numbers of follow-up, by group and interval.

    Attributes
    ----------
    events : (G, J, K) float64
        Events of each cause.
    censored, at_risk : (G, J) float64
        Censorings in an interval, and people at risk when it begins.
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
    """Return the numbers of follow-up; None where none were asked for."""
    asked = numbers.query.follow_up
    if asked is None:
        return None
    tables, weight = life_tables(numbers), numbers.query.largest_weight
    after = np.arange(len(asked.ends), 0, -1) * (asked.cells - 1.0) / len(asked.ends) + 1.0
    return FollowUpTable(
        events=np.array([each.events for each in tables]) * weight,
        censored=np.array([each.censored for each in tables]) * weight,
        at_risk=np.array([each.at_risk[:-1] for each in tables]) * weight,
        sd=float(numbers.sds[2]) * weight,
        at_risk_sd=float(numbers.sds[2]) * np.sqrt(after) * weight,
        known=np.array([is_known(each, asked) for each in tables]),
    )


def life_tables(numbers: DescribedNumbers, *, half: float = 0.5) -> tuple[LifeTable, ...]:
    """Return the table of each group, in people of the largest weight; there must be numbers of follow-up.

    ``half`` is the part of an interval that censored people are not exposed for, see `LifeTable`.

    Where the number of people is public, the counts of ends of follow-up are all shifted by as much as makes their sum
    that number.
    """
    query, asked = numbers.query, numbers.query.follow_up
    if asked is None:
        return ()
    counts, sd, J = numbers.follow_up, float(numbers.sds[2]), len(asked.ends)
    table, incomplete = counts[:-1].reshape(query.groups, asked.cells), float(counts[-1])
    exits, begins = table[:, : asked.exits], table[:, asked.exits :]
    if numbers.records is not None:
        exits = exits + (numbers.records - exits.sum() - incomplete) / (exits.size + 1)
    inner = exits[:, :-1].reshape(query.groups, J, asked.causes + 1)
    return tuple(
        LifeTable(
            cuts=np.array((0.0, *asked.ends)),
            events=inner[group, :, :-1],
            censored=inner[group, :, -1],
            stayed=float(exits[group, -1]),
            entered=begins[group] if asked.start else None,
            sd=sd,
            half=half,
        )
        for group in range(query.groups)
    )


def is_known(table: LifeTable, asked: FollowUpCells) -> bool:
    """Return whether a group's number of people, the sum of its ends of follow-up, is clear of its noise."""
    people = float(table.events.sum() + table.censored.sum()) + table.stayed
    return people >= FEWEST * table.sd * float(np.sqrt(asked.exits))
