"""Spells at risk on the intervals of a discrete-time model: one total map for every form of survival data.

A row says that its person was followed over ``(start, stop]`` and what ended that: 0 for nothing, k for an event of
cause k. The map turns the rows of a person into spells: a spell is at risk in the intervals ``entry + 1 .. exit`` and
has the covariates of one row. `person_period` writes public spells out as rows, as ordinary regression software reads a
discrete-time model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError, forgets_rows
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.records.model import TimeGrid
from hdpstats.schema import cell_maps
from hdpstats.schema.persons import persons_of
from hdpstats.schema.table import AdmittedTable


@final
@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Spells:
    """Spells at risk (m,), those of a person together and in the order of time.

    Attributes
    ----------
    row : int64 array (m,)
        The row of the table that the spell's covariates are those of.
    person : int64 array (m,)
        Whose spell it is, 0 to ``people - 1``.
    entry, exit : int64 array (m,)
        At risk in the intervals ``entry + 1 .. exit``, never empty: ``0 <= entry < exit <= q``.
    cause : int64 array (m,)
        0 where the spell was survived, k where an event of cause k happened in the interval ``exit``.
    people : int
        The number of people, those without a spell included. As private as the rows.
    """

    row: IntArray
    person: IntArray
    entry: IntArray
    exit: IntArray
    cause: IntArray
    people: int

    def __repr__(self) -> str:
        return "<spells at risk>"


def spells(
    *,
    stop: FloatArray,
    event: FloatArray | IntArray,
    beyond: BoolArray,
    grid: TimeGrid,
    start: FloatArray | None = None,
    person: IntArray | None = None,
    most_rows: int | None = None,
) -> Spells:
    """Map rows to spells at risk; total, and person by person.

    The rule, for the rows of one person:

    1. A row with ``stop <= start`` contributes nothing. Times beyond the horizon are the horizon, and an event there
       does not count. Without ``start`` every row starts at 0, and a ``stop`` of 0 (or less) is in the first interval.
    2. The rows are put in the order of start, then stop, then event, then their order in the table.
    3. An interval belongs to the first row in that order that reaches into it, and a row is at risk from the first
       interval that begins at or after its start: ``entry = max(interval(start), the largest interval(stop) of the
       rows before it)``, ``exit = interval(stop)``.
    4. The first interval e in which any row ends in an event ends the follow-up: ``exit = min(exit, e)``. The event
       counts, with the cause of the first such row, if the person is at risk in e. (A row that lies within one interval
       hands its event to the row that the interval belongs to.)
    5. Spells with ``entry >= exit`` vanish, and of the others the first ``most_rows`` are kept.

    Parameters
    ----------
    stop, start : float64 array (rows,)
        Times since the origin, as admitted (clipped) or as they are.
    event : array (rows,)
        0 or less: no event; k > 0: an event of cause k at ``stop``.
    beyond : bool array (rows,)
        Where ``stop`` was beyond the schema's horizon before it was clipped.
    grid : TimeGrid
        The public intervals ``1..q``.
    person : int64 array (rows,), optional
        Whose row it is, from 0; less than 0: nobody's, contributes nothing. By default every row is a person.
    most_rows : int, optional
        The most spells of a person that are kept; by default all.

    Notes
    -----
    Let ``(a_j, b_j]`` be the intervals ``entry_j + 1 .. exit_j`` of a person's spells that are left, in their order.

    (a) *At most one spell per person and interval.* For j < k, step 3 gives ``a_k >= interval(stop_j) >= b_j``, since
    step 4 only lowers ``b_j`` and row j stands before row k. So the spells are disjoint and in the order of time.

    (b) *At most one event per person, on the last spell at risk.* A cause is given only to a spell with ``b_j = e``. By
    step 4 all ``b_k <= e``, and by (a) the ``b_j`` increase strictly: the spell is the last one, and the only one.

    (c) *At most ``most_rows`` spells per person*: step 5. (At most q in any case, by (a).)

    (d) *A person's spells depend on that person's rows alone.* Steps 1 and 3 to 5 use maxima, minima and ranks within a
    person; step 2 compares rows of the same person, and the last comparison is of the order of a person's own rows
    among themselves, which rows of others do not change. So replacing all rows of one person, wherever they stand,
    changes no spell of another but for the numbers of rows and persons. Reordering a table changes the spells only
    where rows of a person are equal in start, stop and event.

    Work O(rows log rows), memory O(rows), whatever a single person brings.

    Examples
    --------
    >>> grid = TimeGrid((10.0, 20.0, 30.0))
    >>> found = spells(
    ...     start=np.array([12.0, 0.0]), stop=np.array([30.0, 12.0]), event=np.array([1, 0]),
    ...     beyond=np.array([False, False]), person=np.array([0, 0]), grid=grid,
    ... )
    >>> found.row, found.entry, found.exit, found.cause
    (array([1, 0]), array([0, 2]), array([2, 3]), array([0, 1]))
    """
    rows = len(stop)
    begin = np.zeros(rows) if start is None else np.clip(start, 0.0, grid.horizon)
    end = np.clip(stop, 0.0, grid.horizon)
    late = beyond | (stop > grid.horizon)
    cause = np.where((event > 0) & ~late, event, 0).astype(np.int64)
    enters, leaves = grid.interval_of(begin), grid.interval_of(end)
    if start is None:
        leaves = np.maximum(leaves, 1)
    if person is None:  # each row is a person: steps 2 to 4 compare nothing
        kept = np.flatnonzero(enters < leaves)
        return Spells(row=kept, person=kept, entry=enters[kept], exit=leaves[kept], cause=cause[kept], people=rows)
    order = np.lexsort((cause, end, begin, person))
    forward = (end > begin) if start is not None else np.ones(rows, dtype=np.bool_)
    order = order[(forward & (person >= 0))[order]]
    people = int(person.max(initial=-1)) + 1
    whose = person[order]
    entry, exit_, cause = _at_risk(
        whose=whose, enters=enters[order], leaves=leaves[order], cause=cause[order], people=people
    )
    first = _first(entry < exit_, whose=whose, most=most_rows)
    return Spells(
        row=order[first], person=whose[first], entry=entry[first], exit=exit_[first], cause=cause[first], people=people
    )


def _at_risk(
    *, whose: IntArray, enters: IntArray, leaves: IntArray, cause: IntArray, people: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Return entry, exit and cause of rows in order (steps 3 and 4 of `spells`)."""
    width = int(leaves.max(initial=0)) + 1
    reached = np.maximum.accumulate(whose * width + leaves)  # a person's rows stand together, and leaves < width
    before = np.zeros_like(reached)
    before[1:] = reached[:-1] - whose[1:] * width  # negative where another person's row stands before
    entry = np.maximum(enters, before)

    ends = np.full(people, width, dtype=np.int64)
    eventful = np.flatnonzero(cause > 0)
    np.minimum.at(ends, whose[eventful], leaves[eventful])
    ending = eventful[leaves[eventful] == ends[whose[eventful]]]
    named = np.zeros(people, dtype=np.int64)
    named[whose[ending][::-1]] = cause[ending][::-1]  # the first of a person is written last, so it stays

    exit_ = np.minimum(leaves, ends[whose])
    return entry, exit_, np.where(exit_ == ends[whose], named[whose], 0)


def _first(wanted: BoolArray, *, whose: IntArray, most: int | None) -> BoolArray:
    """Return which of the wanted rows are among the first ``most`` wanted ones of their person."""
    if most is None:
        return wanted
    counted = np.cumsum(wanted)
    begins = np.flatnonzero(np.diff(whose, prepend=-1))
    earlier: IntArray = np.repeat(counted[begins] - wanted[begins], np.diff(begins, append=len(whose)))
    return np.asarray(wanted & (counted - earlier <= most))


def spells_of(
    table: AdmittedTable,
    *,
    start: str | None,
    stop: str,
    event: str,
    level: int | None = None,
    grid: TimeGrid,
    most_rows: int | None,
) -> Spells:
    """Return the spells of an admitted table, private or public, from the names of its columns.

    Where people have several rows, one with a missing cell is nobody's. Where a row is a person it has its spells, in
    which missing cells stand for nothing: whoever reads them leaves the row out (`AdmittedTable.complete`).
    ``event`` is a binary column, or a categorical one whose first level is no event and whose others are causes; with a
    ``level`` that one is the event, and whatever else ended follow-up did so by censoring.
    """
    person = None if table.persons is None else np.where(table.complete, table.persons, -1)
    happened: Any = table.numeric[event] if event in table.numeric else table.codes[event]
    if level is not None:
        happened = (happened == level).astype(np.int64)
    return spells(
        start=None if start is None else table.numeric[start],
        stop=table.numeric[stop],
        event=happened,
        beyond=table.beyond[stop],
        person=person,
        grid=grid,
        most_rows=most_rows,
    )


def stratum_of(table: AdmittedTable, strata: Sequence[tuple[str, int]]) -> IntArray:
    """Return the stratum of each row (n,) from 0: its levels of some columns, of which the last one changes fastest."""
    code = np.zeros(table.rows, dtype=np.int64)
    for name, levels in strata:
        level = table.codes[name] if name in table.codes else table.numeric[name].astype(np.int64)
        code = code * levels + np.clip(level, 0, levels - 1)
    return code


def in_strata(of_people: Spells, table: AdmittedTable, strata: Sequence[tuple[str, int]], *, intervals: int) -> Spells:
    """Return spells with the intervals of every stratum after those of the one before: 1 to q of the first stratum, ….

    So a stratum has a baseline of its own, and a spell is at risk in as many intervals as before: a total map, row by
    row, that moves no spell to another stratum than its row's.

    Parameters
    ----------
    found : Spells
        The spells of the rows of ``table``.
    table : AdmittedTable
        The rows.
    strata : sequence of (str, int)
        Columns with the numbers of their levels; the last one changes fastest.
    intervals : int
        ``q``.
    """
    shift = stratum_of(table, strata)[of_people.row] * intervals
    return replace(of_people, entry=of_people.entry + shift, exit=of_people.exit + shift)


@forgets_rows
def person_period(
    frame: pd.DataFrame,
    *,
    time: str,
    event: str,
    intervals: TimeGrid | Sequence[float],
    start: str | None = None,
    unit: str | None = None,
) -> pd.DataFrame:
    """Expand people into a row for every interval in which they were at risk.

    A binary regression of ``event`` on features of ``interval`` and on covariates maximises the likelihood of the
    discrete-time hazard model with the same link (Singer and Willett 1993). `hdpstats` fits that model without
    these rows; they are for other software, for plots and for checking. The expansion is
    for data that anybody may see: it raises on what it cannot use.

    Parameters
    ----------
    frame : pandas.DataFrame
        A row per person, or several with ``start`` and ``unit``.
    time, event : str
        Columns: when follow-up ended, and whether with an event. The event is 0 or 1, a truth value, or
        categorical with a first level for no event and further levels for causes.
    intervals : sequence of float or TimeGrid
        Cut points ``0 < c_1 < ... < c_q``; interval s is ``(c_{s-1}, c_s]`` with ``c_0 = 0``. A time beyond ``c_q`` is
        censored there.
    start : str, optional
        Column with the beginning of a row's follow-up, for late entry and covariates that change: a row is at risk
        from the first interval that begins at or after it.
    unit : str, optional
        Column with the person, where a person has several rows: an interval that two of them reach into belongs to
        the earlier one, and follow-up ends with the first event. Read by `hdpstats.schema.persons.persons_of`.

    Returns
    -------
    pandas.DataFrame
        The columns of the frame, with ``interval`` (1 to q) first and ``event`` as it stood at the end of the interval.
        Rows keep the order of the frame, or that of persons and time; the index counts them.

    Raises
    ------
    ArgumentError
        If a column is missing or cannot be read, or the cut points do not increase from above 0.

    References
    ----------
    Singer and Willett (1993), It's about time. *Journal of Educational Statistics* 18, 155-195.

    Examples
    --------
    >>> people = pd.DataFrame({"age": [61, 48], "months": [14.0, 30.0], "relapse": [1, 0]})
    >>> person_period(people, time="months", event="relapse", intervals=[12, 24])
       interval  age  months  relapse
    0         1   61    14.0        0
    1         2   61    14.0        1
    2         1   48    30.0        0
    3         2   48    30.0        0
    """
    grid = intervals if isinstance(intervals, TimeGrid) else TimeGrid(tuple(float(cut) for cut in intervals))
    for name, column in {"time": time, "event": event, "start": start, "unit": unit}.items():
        if column is not None and column not in frame:
            raise ArgumentError(f"{name} must be a column of the frame, and {column!r} is none", argument=name)
    if "interval" in frame:
        raise ArgumentError("frame has a column 'interval', which the result needs; rename it", argument="frame")
    stop = _times(frame, time, name="time")
    of_rows = spells(
        start=None if start is None else _times(frame, start, name="start"),
        stop=stop,
        event=_causes(frame, event),
        beyond=stop > grid.horizon,
        person=None if unit is None else _persons(frame, unit),
        grid=grid,
    )
    lengths = of_rows.exit - of_rows.entry
    ends = np.cumsum(lengths)
    expanded = frame.iloc[np.repeat(of_rows.row, lengths)].reset_index(drop=True)
    interval = np.arange(len(expanded)) - np.repeat(ends - lengths - of_rows.entry, lengths) + 1
    happened = np.zeros(len(expanded), dtype=np.int64)
    happened[ends - 1] = of_rows.cause
    expanded.insert(0, "interval", interval)
    return expanded.assign(**{event: _as_recorded(happened, frame[event])})


def _times(frame: pd.DataFrame, column: str, *, name: str) -> FloatArray:
    values = cell_maps.numbers(frame[column])
    if np.isnan(values).any():
        raise ArgumentError(
            f"{name} must have a number in every row, and {column!r} has {int(np.isnan(values).sum())} without; "
            f"drop these rows or fill them",
            argument=name,
        )
    return np.asarray(values)


def _causes(frame: pd.DataFrame, column: str) -> IntArray:
    """Return 0 for no event and k for the k-th cause."""
    values = frame[column]
    if isinstance(values.dtype, pd.CategoricalDtype):
        codes = values.cat.codes.to_numpy(dtype=np.int64)
        is_cause = codes >= 0
    else:
        numbers = cell_maps.numbers(values)
        is_cause = (numbers == 0.0) | (numbers == 1.0)
        codes = np.asarray(np.where(is_cause, numbers, 0.0), dtype=np.int64)
    if not is_cause.all():
        raise ArgumentError(
            f"event must be 0 or 1 or categorical in every row, and {column!r} is not in {int((~is_cause).sum())}",
            argument="event",
        )
    return np.asarray(codes, dtype=np.int64)


def _persons(frame: pd.DataFrame, column: str) -> IntArray:
    persons = persons_of(frame[column])
    if (persons < 0).any():
        raise ArgumentError(
            f"unit must name a person in every row, and {column!r} names nobody in {int((persons < 0).sum())}: fill "
            "them, and read ids of more than 15 digits as text or 'Int64'",
            argument="unit",
        )
    return persons


def _as_recorded(causes: IntArray, recorded: "pd.Series[int]") -> "IntArray | pd.Categorical[int]":
    """Return causes in the type of the column that recorded them."""
    if isinstance(recorded.dtype, pd.CategoricalDtype):
        return pd.Categorical.from_codes(causes.tolist(), dtype=recorded.dtype)
    return causes
