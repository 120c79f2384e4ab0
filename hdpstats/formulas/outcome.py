r"""The outcome of a model: which columns it is read from, on which scale its loss works; intervals of follow-up.

A loss of residuals works on ``y = (outcome - shift) / scale``, whose declared range has length 1 (with an intercept,
[-1/2, 1/2]; without one nothing may be shifted, and the larger bound becomes 1): grids and certificates then fit,
whatever the unit. Times are counted in horizons. All other losses see the outcome as it is.

**The baseline hazard.** Interval ``s`` of ``q`` has a row :math:`A_s` of features, and its hazard has the linear
predictor :math:`A_s'\alpha + x'\beta`. Nothing here reads a row of data: horizon, cut points and knots are public.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Real
from typing import final

import numpy as np

from hdpstats._base.caching import remembered
from hdpstats._base.errors import ArgumentError, MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import integer, real
from hdpstats.formulas.coding import declared
from hdpstats.formulas.compiler import compile_design, compile_survival, compile_terms, covariates_of
from hdpstats.formulas.design import Design
from hdpstats.formulas.parser import parse, plain_outcome
from hdpstats.losses import BY_NAME, PredictorLoss, Table
from hdpstats.records.model import MOST_INTERVALS, TimeGrid
from hdpstats.schema.columns import Duration, NumericColumn
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import AdmittedTable


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Response:
    r"""Where an outcome comes from, and what its coefficients become on the scale of the formula.

    Attributes
    ----------
    column : str
        The outcome, or the event.
    stop : str or None
        The time of follow-up where the outcome is ``Surv(time, event)``; then ``|y|`` is the time over `scale` and the
        sign bit says whether it ended with the event.
    shift, scale : float
        ``y = (outcome - shift) / scale``.
    lower, upper : float
        The range of ``y``.
    stretch : float
        Coefficients of the loss's predictor are multiplied by it.
    origin : float
        It is then added to the intercept.
    """

    column: str
    stop: str | None = None
    shift: float = 0.0
    scale: float = 1.0
    lower: float = 0.0
    upper: float = 1.0
    stretch: float = 1.0
    origin: float = 0.0

    def of(self, table: AdmittedTable) -> FloatArray:
        """Return ``y`` of admitted rows (n,), within its range: a total map, row by row."""
        if self.stop is None:
            return np.clip(self.unclipped(table), self.lower, self.upper)
        return self.unclipped(table)

    def unclipped(self, table: AdmittedTable) -> FloatArray:
        """Return ``y`` of public rows as they are (n,); times beyond the horizon are censored there."""
        outcome = table.numeric[self.column]
        if self.stop is None:
            moved = outcome if self.shift == 0.0 else outcome - self.shift
            return np.asarray(moved if self.scale == 1.0 else moved / self.scale)
        time = np.clip(table.numeric[self.stop] / self.scale, 0.0, 1.0)
        happened = (outcome == 1.0) & ~table.beyond[self.stop]
        return np.asarray(np.where(happened, -time, time))


def design_of(formula: str, loss: str, schema: Schema) -> Design:
    """Return the design of a formula; where the loss is one of times it must be ``Surv(time, event) ~ terms``.

    The columns that are read come first among `Design.needs`.
    """
    if BY_NAME[loss].outcomes:
        return compile_design(formula, schema)
    design = compile_survival(formula, schema)
    if design.start is not None or design.level is not None:
        raise MechanismError("an exponential model is for people who enter at time 0, and one event: Surv(time, event)")
    return replace(design.covariates, needs=(design.stop, *design.covariates.needs))


def categorical_design(formula: str, schema: Schema) -> Design:
    """Return the design of a formula whose outcome is declared as `Categorical`.

    Raises
    ------
    FormulaError
        As `compile_design`.
    MechanismError
        If the outcome is something else.
    """
    parsed = parse(formula, covariates_of(schema))
    plain_outcome(parsed.left)
    if declared(parsed.response, schema).kind != "categorical":
        raise MechanismError(
            f"the multinomial loss is proved for a categorical outcome; the schema declares {parsed.response!r} as "
            f"{schema[parsed.response].kind}",
            column=parsed.response,
        )
    return compile_terms(parsed, schema)


def response_of(design: Design, loss: str, schema: Schema) -> Response:
    """Return the outcome of a design as a loss reads it.

    Raises
    ------
    MechanismError
        If the loss has no proof for a column of that kind.
    """
    kinds, column = BY_NAME[loss].outcomes, schema[design.response]
    if not kinds:
        return _time(design, schema)
    if column.kind not in kinds or not isinstance(column, NumericColumn):
        raise MechanismError(
            f"the {loss} loss is proved for a {' or '.join(kinds)} outcome; the schema declares "
            f"{design.response!r} as {column.kind}",
            column=design.response,
        )
    if not BY_NAME[loss].located:
        return Response(column=design.response, lower=column.lower, upper=column.upper)
    if design.intercept:
        shift, scale = column.lower + (column.upper - column.lower) / 2.0, column.upper - column.lower
    else:
        shift, scale = 0.0, max(abs(column.lower), abs(column.upper))
    return Response(
        column=design.response,
        shift=shift,
        scale=scale,
        lower=-0.5 if design.intercept else column.lower / scale,
        upper=0.5 if design.intercept else column.upper / scale,
        stretch=scale,
        origin=shift,
    )


def _time(design: Design, schema: Schema) -> Response:
    """Return the outcome ``Surv(time, event)``, the time in horizons: rates are per horizon."""
    stop = design.needs[0]
    duration, event = schema[stop], schema[design.response]
    if not isinstance(duration, Duration) or event.kind != "binary":
        raise MechanismError(
            f"an exponential model needs a Duration and a Binary event; the schema declares {design.response!r} as "
            f"{event.kind}",
            column=design.response,
        )
    return Response(
        column=design.response,
        stop=stop,
        scale=duration.horizon,
        lower=-1.0,
        origin=-float(np.log(duration.horizon)),
    )


@remembered(64)
def made(name: str, parameters: tuple[float, ...], table: Table, response: Response) -> PredictorLoss:
    """Return the loss of a query for an outcome. Parameters in the outcome's unit become ones of ``y``.

    Raises
    ------
    MechanismError
        If there is no such loss, or its numbers are none.
    """
    if name not in BY_NAME:
        raise MechanismError(f"no loss is called {name!r}; there are {', '.join(BY_NAME)}")
    if BY_NAME[name].located:
        lengths = parameters[-1:] if parameters else ()
        parameters = (*parameters[:-1], *(length / response.scale for length in lengths))
    try:
        return BY_NAME[name].made(parameters, table, lower=response.lower, upper=response.upper)
    except ValueError:
        raise MechanismError(f"the {name} loss has other parameters than {parameters!r}") from None


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
    return natural_spline(np.arange(1, grid.intervals + 1) / grid.intervals, _knots(grid, df, knots))


def log_spline(grid: TimeGrid, df: int = 4, *, knots: Sequence[float] | None = None) -> FloatArray:
    r"""Return the natural cubic spline of the logarithm of time, shape (q, e) (Royston and Parmar 2002).

    It is that of `spline` in :math:`y_s = \log(1 + 100 t_s) / \log 101`, where :math:`t_s = (s - 1/2) / q` is the
    middle of an interval: the logarithm of time, but for the first hundredth of follow-up, so that rows stay of
    moderate size with many intervals. A line in ``y`` is nearly the hazard of a Weibull distribution, which a spline in
    time follows badly where it rises or falls steeply at the beginning.

    Parameters
    ----------
    grid : TimeGrid
        The intervals.
    df : int
        The number of knots, at the shares :math:`(j / (e - 1))^{3/2}` of the intervals, :math:`j = 0, \dots, e - 1`; at
        least 2, at most 10 and the number of intervals.
    knots : sequence of float, optional
        The shares instead, increasing between 0 and 1.

    Raises
    ------
    ArgumentError
        As `spline`.

    Examples
    --------
    >>> log_spline(TimeGrid((1.0, 2.0, 3.0, 4.0)), df=2).round(3).tolist()
    [[1.0, 0.564], [1.0, 0.791], [1.0, 0.899], [1.0, 0.971]]
    """
    shares = _knots(grid, df, knots, most=10)
    if knots is None:
        shares = shares**1.5
    return natural_spline(log_time(grid), np.log1p(100.0 * shares) / np.log(101.0))


def log_time(grid: TimeGrid) -> FloatArray:
    """Return ``y`` of `log_spline`, shape (q,)."""
    return np.asarray(np.log1p(100.0 * (np.arange(grid.intervals) + 0.5) / grid.intervals) / np.log(101.0))


def natural_spline(t: FloatArray, knots: FloatArray) -> FloatArray:
    """Return the basis of `spline` at places ``t`` (q,), for knots (e,)."""
    cubes = np.maximum(t[:, None] - knots, 0.0) ** 3
    d = (cubes[:, :-1] - cubes[:, -1:]) / (knots[-1] - knots[:-1])
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


def _knots(grid: TimeGrid, df: object, knots: object, *, most: int = MOST_KNOTS) -> FloatArray:
    most = min(most, grid.intervals)
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
