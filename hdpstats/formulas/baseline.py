r"""The baseline hazard: intervals within a declared horizon, and the features of an interval.

Interval ``s`` of ``q`` has a row :math:`A_s` of features, and its hazard has the linear predictor
:math:`A_s'\alpha + x'\beta`. Nothing here reads a row of data: horizon, cut points and knots are public.
"""

from collections.abc import Sequence
from itertools import pairwise
from numbers import Real

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import integer, real
from hdpstats.records.model import MOST_INTERVALS, TimeGrid
from hdpstats.schema.columns import Duration

MOST_KNOTS = 20


def grid_of(intervals: int | Sequence[float], duration: Duration) -> TimeGrid:
    """Return the intervals of follow-up: a number of equal ones, or those between given cut points.

    Parameters
    ----------
    intervals : int or sequence of float
        How many intervals of equal length lie up to the horizon; or cut points above 0 that increase, in the unit
        of the duration. Where the last cut point is below the horizon, the horizon is added.
    duration : Duration
        The declared column of times.

    Raises
    ------
    ArgumentError
        If the number is not a whole one from 1 to 10000, or the cut points do not increase from above 0 up to the
        horizon.

    Examples
    --------
    >>> grid_of(4, Duration(2, unit="years")).cuts
    (0.5, 1.0, 1.5, 2.0)
    >>> grid_of([0.5, 1], Duration(2, unit="years")).cuts
    (0.5, 1.0, 2.0)
    """
    end = duration.horizon
    if isinstance(intervals, Real):
        count = integer(intervals, name="intervals", lower=1, upper=MOST_INTERVALS)
        return TimeGrid((*(end * s / count for s in range(1, count)), end))
    cuts = _numbers(intervals, name="intervals", lower=0.0, upper=end, most=MOST_INTERVALS)
    if cuts[0] == 0.0:
        raise ArgumentError("intervals must begin above 0: time 0 is where follow-up begins", argument="intervals")
    return TimeGrid(cuts if cuts[-1] == end else (*cuts, end))


def spline(grid: TimeGrid, df: int = 3, *, knots: Sequence[float] | None = None) -> FloatArray:
    r"""Return the natural cubic spline of ``s / q`` in each interval, shape (q, e) (Nguyen and Hui 2017, section 3.2).

    With knots :math:`k_1 < \dots < k_e` and :math:`d_j(t) = \{(t - k_j)_+^3 - (t - k_e)_+^3\} / (k_e - k_j)`,

    .. math:: b_1 = 1, \quad b_2 = t, \quad b_{j+2} = d_j(t) - d_{e-1}(t), \; j = 1, \dots, e - 2.

    It is linear before the first knot and after the last one. The time scale is that of the intervals, not of days:
    ``t`` runs up to 1, so that the rows are of bounded size.

    Parameters
    ----------
    grid : TimeGrid
        The intervals.
    df : int
        The number of knots, equally spaced on [0, 1]; at least 2, at most 20 and the number of intervals.
    knots : sequence of float, optional
        The knots instead, increasing shares of the number of intervals between 0 and 1.

    Raises
    ------
    ArgumentError
        If there are too few or too many knots, or they do not increase within [0, 1].

    Examples
    --------
    >>> spline(TimeGrid((1.0, 2.0, 3.0, 4.0)))[[1, 3]].tolist()
    [[1.0, 0.5, 0.125], [1.0, 1.0, 0.75]]
    """
    places = _knots(grid, df, knots)
    t = np.arange(1, grid.intervals + 1) / grid.intervals
    cubes = np.maximum(t[:, None] - places, 0.0) ** 3
    d = (cubes[:, :-1] - cubes[:, -1:]) / (places[-1] - places[:-1])
    return np.column_stack([np.ones(len(t)), t, d[:, :-1] - d[:, -1:]])


def spline_names(size: int) -> tuple[str, ...]:
    """Return the names of the columns of `spline`.

    >>> spline_names(3)
    ('baseline[1]', 'baseline[2]', 'baseline[3]')
    """
    return tuple(f"baseline[{number}]" for number in range(1, size + 1))


def dummies(grid: TimeGrid) -> FloatArray:
    """Return one indicator per interval, shape (q, q): the baseline hazard is free in each.

    >>> dummies(TimeGrid((1.0, 2.0))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return np.eye(grid.intervals)


def dummy_names(grid: TimeGrid) -> tuple[str, ...]:
    """Return the names of the columns of `dummies`.

    >>> dummy_names(TimeGrid((1.0, 2.0)))
    ('interval[1]', 'interval[2]')
    """
    return tuple(f"interval[{number}]" for number in range(1, grid.intervals + 1))


def _knots(grid: TimeGrid, df: object, knots: object) -> FloatArray:
    most = min(MOST_KNOTS, grid.intervals)
    if most < 2:
        raise ArgumentError('a spline needs 2 intervals or more; choose baseline="dummies"', argument="baseline")
    if knots is None:
        return np.linspace(0.0, 1.0, integer(df, name="df", lower=2, upper=most))
    places = _numbers(knots, name="knots", lower=0.0, upper=1.0, most=most)
    if len(places) < 2:
        raise ArgumentError("knots must be 2 or more, the first and the last being the boundaries", argument="knots")
    return np.array(places)


def _numbers(values: object, *, name: str, lower: float, upper: float, most: int) -> tuple[float, ...]:
    """Return public numbers that increase within bounds."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray):
        raise ArgumentError(f"{name} must be a list of numbers, not {type(values).__name__}", argument=name)
    if not 1 <= len(values) <= most:
        raise ArgumentError(f"{name} must be 1 to {most} in number, not {len(values)}", argument=name)
    numbers = tuple(real(value, name=name, lower=lower, upper=upper) for value in values)
    if not all(a < b for a, b in pairwise(numbers)):
        raise ArgumentError(f"{name} must increase", argument=name)
    return numbers
