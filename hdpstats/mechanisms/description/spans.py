"""From several rows of a person to one span of follow-up: a total map, person by person."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.schema.table import AdmittedTable


@final
@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class Spans:
    """One span of follow-up per person, in the order of persons; everything here is private.

    Attributes
    ----------
    start, stop : (n,) float64
        When it begins and ends.
    event : (n,) int64
        What ended it: 0 for nothing, k for an event of cause k.
    beyond : (n,) bool
        Whether it reaches beyond the horizon.
    absent : (n,) bool
        Who has no row that says anything.
    """

    start: FloatArray
    stop: FloatArray
    event: IntArray
    beyond: BoolArray
    absent: BoolArray

    def __repr__(self) -> str:
        return "<spans>"


def causes_of(codes: IntArray, level: int | None) -> IntArray:
    """Return the cause of each end of follow-up, 0 for none: the code itself, or 1 where one level is the event."""
    return codes if level is None else (codes == level).astype(np.int64)


def spans_of(table: AdmittedTable, *, start: str, time: str, event: str, level: int | None = None) -> Spans:
    """Return the span of each person who has a row, ordered as `people_of` orders them.

    A row counts if it has start, stop and event and stops after it starts. A span begins with the earliest start. It
    ends with the earliest event (of two at one time, that of the smaller code), else with the latest stop; an event
    beyond the horizon is none. Where one ``level`` is the event, others are none. Gaps between rows count as
    followed. A person's span depends on that person's rows alone.
    """
    persons = np.zeros(0, dtype=np.int64) if table.persons is None else table.persons
    begin, end = table.numeric[start], table.numeric[time]
    happened: Any = table.numeric[event] if event in table.numeric else table.codes[event]
    late = table.beyond[time]
    code = np.where(late, 0, causes_of(np.asarray(happened).astype(np.int64), level))
    named, whose = np.unique(persons[persons >= 0], return_inverse=True)
    n = len(named)
    place = np.full(len(persons), n, dtype=np.int64)
    place[persons >= 0] = whose
    lacking = table.missing[start] | table.missing[time] | table.missing[event]
    place = np.where(lacking | (begin >= end), n, place)

    first, last, ended = np.full(n + 1, np.inf), np.full(n + 1, -np.inf), np.full(n + 1, np.inf)
    stays = np.zeros(n + 1, dtype=np.bool_)
    np.minimum.at(first, place, begin)
    np.maximum.at(last, place, end)
    np.logical_or.at(stays, place, late)
    np.minimum.at(ended, np.where(code > 0, place, n), end)
    at_end = (code > 0) & (place < n) & (end == ended[place])
    cause = np.full(n + 1, np.iinfo(np.int64).max)
    np.minimum.at(cause, np.where(at_end, place, n), np.where(at_end, code, 0))
    failed = np.isfinite(ended[:-1])
    absent = ~np.isfinite(first[:-1])
    return Spans(
        start=np.where(absent, 0.0, first[:-1]),
        stop=np.where(absent, 0.0, np.where(failed, ended[:-1], last[:-1])),
        event=np.where(failed, cause[:-1] if level is None else level, 0 if level is None else -1),
        beyond=stays[:-1] & ~failed,
        absent=absent,
    )
