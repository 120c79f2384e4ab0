"""Arguments of reference fits, checked before R sees them."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Final

import pandas as pd

from hdpstats.api import ArgumentError

_MOST_INTERVALS: Final = 10_000
_MOST_KNOTS: Final = 20


def choice(value: object, name: str, options: Sequence[str]) -> str:
    """Return one of some words."""
    if not isinstance(value, str) or value not in options:
        raise ArgumentError(f"{name} must be one of {', '.join(options)}, not {value!r}", argument=name)
    return value


def number(value: object, name: str, *, above: float = float("-inf")) -> float:
    """Return a finite number, above a bound where there is one."""
    if isinstance(value, bool) or not isinstance(value, Real) or not above < float(value) < float("inf"):
        bound = f" above {above:g}" if above > float("-inf") else ""
        raise ArgumentError(f"{name} must be a finite number{bound}, not {value!r}", argument=name)
    return float(value)


def level_of(value: object) -> float:
    """Return a level of confidence."""
    level = number(value, "conf_level", above=0.0)
    if not level < 1.0:
        raise ArgumentError(f"conf_level must be below 1, not {value!r}", argument="conf_level")
    return level


def grid_of(intervals: object, horizon: float | None) -> tuple[Any, int]:
    """Return the cut points, or ``{"count": q}`` where R finds them, and how many there are."""
    if not isinstance(intervals, bool) and isinstance(intervals, Integral):
        count = int(intervals)
        if not 1 <= count <= _MOST_INTERVALS:
            raise ArgumentError(
                f"intervals must be 1 to {_MOST_INTERVALS} in number, not {count}", argument="intervals"
            )
        return {"count": count}, count
    if isinstance(intervals, str | Real) or not isinstance(intervals, Iterable):
        raise ArgumentError("intervals must be a whole number or cut points", argument="intervals")
    cuts = _increasing(intervals, "intervals")
    if cuts[0] <= 0.0 or (horizon is not None and cuts[-1] > horizon):
        raise ArgumentError("intervals must have cut points above 0 and up to the horizon", argument="intervals")
    cuts += [] if horizon is None or cuts[-1] == horizon else [horizon]
    return pd.Series(cuts), len(cuts)


def knots_of(df: object, knots: Sequence[float] | None, intervals: int) -> "pd.Series[float]":
    """Return the knots of the baseline's spline, shares of the number of intervals."""
    most = min(_MOST_KNOTS, intervals)
    if most < 2:
        raise ArgumentError("a spline needs 2 intervals or more; choose baseline='dummies'", argument="baseline")
    if knots is None:
        if not isinstance(df, Integral) or not 2 <= int(df) <= most:
            raise ArgumentError(f"df must be a whole number from 2 to {most}, not {df!r}", argument="df")
        return pd.Series([place / (int(df) - 1) for place in range(int(df))])
    places = _increasing(knots, "knots")
    if not 2 <= len(places) <= most or places[0] < 0.0 or places[-1] > 1.0:
        raise ArgumentError(f"knots must be 2 to {most} shares from 0 to 1", argument="knots")
    return pd.Series(places)


def _increasing(values: Iterable[Any], name: str) -> list[float]:
    numbers = [number(value, name) for value in values]
    if not numbers or not all(a < b for a, b in pairwise(numbers)):
        raise ArgumentError(f"{name} must be numbers that increase", argument=name)
    return numbers
