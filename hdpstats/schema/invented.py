"""Invented rows on which a computation takes the longest: nobody is behind them, they follow from the schema alone.

What a computation costs is measured on rows that are as costly as any (`hdpstats._base.loops`), before private rows
are touched. Most of the cost depends on the number of rows only. Survival models go through the intervals in which
people are at risk: here everybody is followed from time 0 to the horizon, in as many spells as a person may have, and
the last one ends in an event.
"""

import hashlib
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.records.model import TimeGrid
from hdpstats.schema.columns import Binary, Categorical, Column, NumericColumn
from hdpstats.schema.schema import Schema


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUpColumns:
    """The columns of a survival outcome, and the intervals in which people are at risk.

    Attributes
    ----------
    start : str or None
        The column of the time at which a row comes under observation; None where that is always 0.
    stop, event : str
        The columns of the time at which observation ends, and of what ended it.
    grid : TimeGrid
        The intervals.
    """

    start: str | None
    stop: str
    event: str
    grid: TimeGrid


def costly_frame(
    schema: Schema, *, rows: int, unit: str | None = None, most_rows: int = 1, follow_up: FollowUpColumns | None = None
) -> pd.DataFrame:
    """Return so many invented rows of a schema, as `hdpstats.schema.table.PrivateTable.from_frame` takes them.

    Cells are spread over the declared values, columns apart from each other: a function of the arguments, the same each
    time. Rows stand in no order.

    Parameters
    ----------
    schema
        The declared columns.
    rows
        How many rows, from 1.
    unit, most_rows
        The column that names the person and the number of rows of each one; None and 1 where a row is a person.
    follow_up
        The outcome of a survival model: then everybody is at risk in every interval that the schema allows, in
        ``most_rows`` spells or as many as there are intervals, the last of which ends in an event.

    Examples
    --------
    >>> from hdpstats.schema.columns import Duration
    >>> schema = Schema(entry=Duration(30), exit=Duration(30), died=Binary())
    >>> outcome = FollowUpColumns(start="entry", stop="exit", event="died", grid=TimeGrid((10.0, 20.0, 30.0)))
    >>> frame = costly_frame(schema, rows=4, unit="person", most_rows=2, follow_up=outcome)
    >>> frame.sort_values(["person", "entry"]).to_numpy().tolist()[:2]
    [[0.0, 10.0, 0.0, 'person-1'], [10.0, 30.0, 1.0, 'person-1']]
    """
    columns: dict[str, Any] = {name: cells(column, name, rows) for name, column in schema.items()}
    if follow_up is not None:
        columns |= _followed(follow_up, schema, rows=rows, most_rows=most_rows)
    if unit is not None:
        columns[unit] = [f"person-{i // most_rows + 1}" for i in range(rows)]
    frame = pd.DataFrame(columns)
    return frame.iloc[np.argsort(shares("order of rows", rows))].reset_index(drop=True)


def shares(name: str, count: int) -> FloatArray:
    """Return numbers (count,) in [0, 1) without apparent relation to each other, made from a name."""
    digest = hashlib.shake_256(name.encode("utf-8", "surrogatepass")).digest(4 * count)
    return np.frombuffer(digest, dtype="<u4") / 2.0**32


def cells(column: Column, name: str, rows: int) -> Any:
    """Return the cells of a column (rows,), every declared value as often as any other, made from a name."""
    share = shares(name, rows)
    if isinstance(column, Categorical):
        return np.array(column.levels, dtype=object)[(share * len(column.levels)).astype(np.int64)]
    if isinstance(column, Binary):
        return _of_binary(column, np.floor(2.0 * share))
    if isinstance(column, NumericColumn):
        return column.lower + share * (column.upper - column.lower)
    raise TypeError(f"{type(column).__name__} is no kind of column")


def _followed(outcome: FollowUpColumns, schema: Schema, *, rows: int, most_rows: int) -> dict[str, Any]:
    """Return the columns of an outcome: everybody is followed to the horizon, spell after spell."""
    stop = schema[outcome.stop]
    horizon = stop.upper if isinstance(stop, NumericColumn) else outcome.grid.horizon
    times = np.array([0.0, *(cut for cut in outcome.grid.cuts if cut < horizon), min(outcome.grid.horizon, horizon)])
    intervals = len(times) - 1
    spells = min(most_rows, intervals) if outcome.start is not None else 1
    number: IntArray = np.arange(rows) % most_rows % spells
    found: dict[str, Any] = {outcome.stop: times[(number + 1) * intervals // spells]}
    if outcome.start is not None:
        found[outcome.start] = times[number * intervals // spells]
    ends = number == spells - 1
    event = schema[outcome.event]
    if isinstance(event, Categorical):
        cause = 1 + (shares(outcome.event, rows) * (len(event.levels) - 1)).astype(np.int64)
        found[outcome.event] = np.array(event.levels, dtype=object)[np.where(ends, cause, 0)]
    else:
        found[outcome.event] = _of_binary(event, ends.astype(np.float64))
    return found


def _of_binary(column: Column, values: FloatArray) -> Any:
    """Return zeros and ones as the cells of a column."""
    labels = column.labels if isinstance(column, Binary) else None
    return values if labels is None else np.array(labels, dtype=object)[values.astype(np.int64)]
