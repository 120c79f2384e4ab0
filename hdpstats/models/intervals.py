"""The public intervals in which follow-up is counted."""

import itertools
from collections.abc import Iterable
from typing import Final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import integer, real
from hdpstats.schema.columns import Column, Duration

FEWEST_INTERVALS: Final = 6
MOST_INTERVALS: Final = 28
MOST_ASKED: Final = 200
"""No larger number of even intervals is asked for: it is more likely to be meant as a time."""
PEOPLE_OF_AN_INTERVAL: Final = 60.0
"""People of a group times the square of epsilon that an interval takes: noise is then at most half of sampling."""


def checked_times(times: object, column: Column) -> tuple[float, ...] | int | None:
    """Return the ends of intervals that a user gives, without 0, or their number; None stays None."""
    if times is None:
        return None
    if not isinstance(times, Iterable) or isinstance(times, str):
        number = times if isinstance(times, int | float) else 0
        if number > MOST_ASKED:
            raise ArgumentError(
                f"times must be a number of intervals up to {MOST_ASKED}, or their ends; {number:g} is more: a single "
                "end is given with 0 before it",
                argument="times",
            )
        return integer(times, name="times", lower=1, upper=MOST_ASKED)
    ends = tuple(real(each, name="times", lower=0.0) for each in times)
    ends = ends[1:] if ends[:1] == (0.0,) else ends
    if not ends or any(a >= b for a, b in itertools.pairwise(ends)):
        raise ArgumentError("times must be numbers above 0 that increase", argument="times")
    if isinstance(column, Duration) and ends[-1] > column.horizon:
        raise ArgumentError(f"times must end at {column.horizon:g} at most, the declared horizon", argument="times")
    return ends


def number_of_intervals(people: float, epsilon: float) -> int:
    """Return how many intervals suit a group of so many people, at an epsilon under replace-one.

    >>> number_of_intervals(1500, 0.3), number_of_intervals(1500, 1.0), number_of_intervals(10**4, 1.0)
    (6, 25, 28)
    """
    return int(np.clip(round(epsilon**2 * people / PEOPLE_OF_AN_INTERVAL), FEWEST_INTERVALS, MOST_INTERVALS))


def ends_of(
    times: tuple[float, ...] | int | None, column: Column, *, people: float, epsilon: float
) -> tuple[float, ...]:
    """Return the ends of intervals: those that are given, or so many even ones up to the horizon."""
    if isinstance(times, tuple):
        return times
    number = number_of_intervals(people, epsilon) if times is None else times
    horizon = column.horizon if isinstance(column, Duration) else 0.0
    return tuple(float(f"{end:.8g}") for end in np.linspace(0.0, horizon, number + 1)[1:])
