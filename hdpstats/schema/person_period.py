"""Person-period rows: what a discrete-time hazard model would look like to ordinary regression software."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.records.timegrid import TimeGrid
from hdpstats.schema.spells import spells


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
        the earlier one, and follow-up ends with the first event.

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
    found = spells(
        start=None if start is None else _times(frame, start, name="start"),
        stop=stop,
        event=_causes(frame, event),
        beyond=stop > grid.horizon,
        person=None if unit is None else _persons(frame, unit),
        grid=grid,
    )
    lengths = found.exit - found.entry
    ends = np.cumsum(lengths)
    expanded = frame.iloc[np.repeat(found.row, lengths)].reset_index(drop=True)
    interval = np.arange(len(expanded)) - np.repeat(ends - lengths - found.entry, lengths) + 1
    happened = np.zeros(len(expanded), dtype=np.int64)
    happened[ends - 1] = found.cause
    expanded.insert(0, "interval", interval)
    return expanded.assign(**{event: _as_recorded(happened, frame[event])})


def _times(frame: pd.DataFrame, column: str, *, name: str) -> FloatArray:
    values = pd.to_numeric(frame[column], errors="coerce").to_numpy(dtype=np.float64)
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
        known = codes >= 0
    else:
        numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        known = (numbers == 0.0) | (numbers == 1.0)
        codes = np.asarray(np.where(known, numbers, 0.0), dtype=np.int64)
    if not known.all():
        raise ArgumentError(
            f"event must be 0 or 1 or categorical in every row, and {column!r} is not in {int((~known).sum())}",
            argument="event",
        )
    return np.asarray(codes, dtype=np.int64)


def _persons(frame: pd.DataFrame, column: str) -> IntArray:
    if frame[column].isna().any():
        raise ArgumentError(f"unit must name a person in every row, and {column!r} is missing in some", argument="unit")
    return np.asarray(pd.factorize(frame[column])[0], dtype=np.int64)


def _as_recorded(causes: IntArray, recorded: "pd.Series[int]") -> "IntArray | pd.Categorical[int]":
    """Return causes in the type of the column that recorded them."""
    if isinstance(recorded.dtype, pd.CategoricalDtype):
        return pd.Categorical.from_codes(causes.tolist(), dtype=recorded.dtype)
    return causes
