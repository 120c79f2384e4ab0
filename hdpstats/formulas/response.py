r"""The outcome of a regression: which columns it is read from, and on which scale its loss works.

A loss of residuals works on ``y = (outcome - shift) / scale``, whose declared range has length 1 (with an intercept,
[-1/2, 1/2]; without one nothing may be shifted, and the larger bound becomes 1): grids and certificates then fit,
whatever the unit. Times are counted in horizons. All other losses see the outcome as it is.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import final

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats.formulas.compiler import compile_design, compile_survival, compile_terms, covariates_of
from hdpstats.formulas.design import Design
from hdpstats.formulas.parser import parse, plain_outcome
from hdpstats.formulas.readings import declared
from hdpstats.losses import BY_NAME, PredictorLoss, Table
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
            return np.asarray((outcome - self.shift) / self.scale)
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


@lru_cache(maxsize=64)
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
