"""Times between R, which counts seconds or days since 1970 in doubles, and pandas, which counts ticks in integers."""

import math
from typing import Any

import numpy as np
import pandas as pd


def from_counts(counts: Any, *, seconds: float) -> Any:
    """Return times from counts of units of so many seconds since 1970; what is beyond reckoning is missing.

    To the microsecond, or to the nanosecond where a double says more than microseconds and the years allow.
    """
    with np.errstate(all="ignore"):
        elapsed = counts * seconds
        known = np.abs(elapsed) < 9.2e12  # NaN and infinity are not
    elapsed = np.where(known, elapsed, 0.0)
    whole = np.floor(elapsed)
    times = _ticks(whole, elapsed - whole, 10**6)
    exact = bool((whole + (times.astype(np.int64) % 10**6) / 1e6 == elapsed).all())
    if not exact and bool((np.abs(elapsed) < 9.2e9).all()):
        times = _ticks(whole, elapsed - whole, 10**9)
    times[~known] = np.datetime64("NaT")
    return times


def _ticks(whole: Any, part: Any, per_second: int) -> Any:
    counts = whole.astype(np.int64) * per_second + np.round(part * per_second).astype(np.int64)
    return counts.astype("datetime64[us]" if per_second == 10**6 else "datetime64[ns]")


def zone(times: "pd.Series[Any]") -> str | None:
    """Return the name of a column's time zone, None where it has none."""
    return None if times.dt.tz is None else str(times.dt.tz)


def to_seconds(times: "pd.Series[Any]") -> Any:
    """Return seconds since 1970, NaN where missing; exact where doubles allow."""
    plain = times if times.dt.tz is None else times.dt.tz_convert("UTC").dt.tz_localize(None)
    cells = plain.to_numpy()
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[np.datetime_data(cells.dtype)[0]]
    ticks = cells.astype(np.int64)
    seconds = ticks // per_second + (ticks % per_second) / per_second
    return np.where(np.isnat(cells), math.nan, seconds)
