"""The effects that a result answers: average effects of variables, and average slopes of columns of the design."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError, SchemaError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice, real
from hdpstats.records.estimate import Estimate
from hdpstats.results.hazard_curves import read_times
from hdpstats.results.effects import AverageEffects, Effects, differences, levels_of, widened
from hdpstats.results.facts import check_identified, design_of
from hdpstats.results.margins import MarginalEffects, Standardised, combined, marginal_effects, standardise
from hdpstats.results.population import Population, population
from hdpstats.results.tested import chosen
from hdpstats.schema.columns import Binary, Categorical, Column, NumericColumn

if TYPE_CHECKING:
    from hdpstats.results.result import Result

Stencil = tuple[tuple[float, float], ...]
"""Steps with their weights."""

CENTRAL: Final[Stencil] = ((-2.0, 1.0 / 12.0), (-1.0, -2.0 / 3.0), (1.0, 2.0 / 3.0), (2.0, -1.0 / 12.0))
FORWARD: Final[Stencil] = ((0.0, -25.0 / 12.0), (1.0, 4.0), (2.0, -3.0), (3.0, 4.0 / 3.0), (4.0, -0.25))
"""Derivatives by differences of the fourth order, from both sides and from one."""

STEP: Final = 1e-4
"""Its step, in widths of the declared range."""


def average_effects(
    fit: "Result",
    variable: str,
    over: object,
    *,
    values: Sequence[object] | None,
    times: float | Iterable[float] | None,
    cause: str | None,
    weights: object,
    estimate: str | None,
    alpha: float,
) -> AverageEffects:
    """Return what `Result.average_effects` does."""
    found = chosen(fit, estimate)
    level = real(alpha, name="alpha", lower=0.001, upper=0.999)
    check_identified(found)
    fit = _with_estimate(fit, found)
    by, which = _times(fit, times), _cause(fit, cause)
    rows = population(fit, fit.public_rows, over, weights)
    given = _values(fit, variable, values)

    def at(frame: pd.DataFrame, row_weights: FloatArray) -> tuple[Effects, Effects]:
        return _effects(fit, variable, given, Population(frame=frame, weights=row_weights, words=""), by, which)

    effects, means = at(rows.frame, rows.weights)
    if rows.draws:
        drawn = [at(*each) for each in rows.draws]
        effects = effects.with_draws([each for each, _ in drawn])
        means = means.with_draws([each for _, each in drawn])
    return AverageEffects(
        variable=variable, effects=effects, means=means, estimate=found, population=rows.words, alpha=level
    )


def average_slopes(
    fit: "Result", at: str, method: str, *, dummy: bool, over: object, estimate: str | None
) -> MarginalEffects:
    """Return what `Result.get_margeff` does."""
    found = chosen(fit, estimate)
    check_identified(found)
    fit = _with_estimate(fit, found)
    rows = population(fit, fit.public_rows, over)
    effects = marginal_effects(fit, rows, at=at, method=method, dummy=dummy)
    if not rows.draws:
        return effects
    others = [replace(rows, frame=frame, weights=weights) for frame, weights in rows.draws]
    drawn = [marginal_effects(fit, each, at=at, method=method, dummy=dummy).margeff for each in others]
    away = np.array(drawn) - effects.margeff
    return replace(effects, estimate=widened(effects.estimate, away.T @ away / len(away)))


def _with_estimate(fit: "Result", estimate: Estimate) -> "Result":
    return fit if estimate is fit.estimate else replace(fit, estimate=estimate)


def _times(fit: "Result", times: float | Iterable[float] | None) -> FloatArray:
    if fit.facts.hazard is None:
        if times is not None:
            raise ArgumentError("times must be left out: this is no hazard model", argument="times")
        return np.zeros(0)
    found = read_times(fit.facts.hazard.grid.horizon if times is None else times, fit.facts.hazard)
    if not len(found) or not (found > 0.0).all():
        raise ArgumentError("times must be one or more times above 0", argument="times")
    return found


def _cause(fit: "Result", cause: str | None) -> str | None:
    causes = () if fit.facts.hazard is None else fit.facts.hazard.causes
    if len(causes) > 1:
        return choice(causes[0] if cause is None else cause, name="cause", options=causes)
    if cause is not None:
        raise ArgumentError("cause must be left out: this model has no causes to choose from", argument="cause")
    return None


def _column(fit: "Result", variable: str) -> Column:
    if fit.facts.family is not None:
        raise ArgumentError("a distribution without covariates has no effects: see params", argument="variable")
    design = design_of(fit)
    read = [name for name in design.needs if name != design.response]
    times = () if fit.facts.hazard is None else (fit.facts.hazard.stop, fit.facts.hazard.start)
    options = [name for name in read if name not in times] or ["a column of the formula, which has none"]
    return fit.schema[choice(variable, name="variable", options=options)]


def _values(fit: "Result", variable: str, values: Sequence[object] | None) -> list[object] | None:
    """Return the values to compare; None for a derivative."""
    column = _column(fit, variable)
    if isinstance(column, Categorical | Binary):
        levels = column.levels if isinstance(column, Categorical) else (column.labels or (0, 1))
        given: list[object] = list(levels) if values is None else _listed(values)
        strange = [value for value in given if value not in levels]
        if strange:
            listed = ", ".join(map(repr, levels))
            raise ArgumentError(
                f"values: {strange[0]!r} is no level of {variable}; they are {listed}", argument="values"
            )
        return given
    if values is None:
        return None
    return [real(value, name="values", lower=-math.inf, upper=math.inf) for value in _listed(values)]


def _with(frame: pd.DataFrame, variable: str, value: Any) -> pd.DataFrame:
    """Return rows with one value, or values, of a variable."""
    return frame.assign(**{variable: value})


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _listed(values: Sequence[object]) -> list[object]:
    listed = [] if isinstance(values, str | bytes) else list(values)
    if len(listed) < 2:
        raise ArgumentError("values must be a list of two or more values, the reference first", argument="values")
    return listed


def _effects(
    fit: "Result",
    variable: str,
    values: Sequence[object] | None,
    rows: Population,
    times: FloatArray,
    cause: str | None,
) -> tuple[Effects, Effects]:
    """Return the effects in some rows, and the standardised means themselves."""

    def standardised(frame: pd.DataFrame) -> Standardised:
        return standardise(fit, frame, rows.weights, times=times, cause=cause)

    if values is None:
        slopes = _derivative(fit, variable, rows.frame, standardised)
        return slopes, levels_of(standardised(rows.frame), name="as it is", derivative=False)
    first = values[0]
    parts = [standardised(_with(rows.frame, variable, value)) for value in values]
    pairs = zip(values[1:], parts[1:], strict=True)
    effects = differences([(f"{_shown(value)} - {_shown(first)}", parts[0], part) for value, part in pairs])
    named = zip(values, parts, strict=True)
    return effects, _stacked([levels_of(part, name=_shown(value), derivative=False) for value, part in named])


def _derivative(
    fit: "Result", variable: str, frame: pd.DataFrame, standardised: Callable[[pd.DataFrame], Standardised]
) -> Effects:
    """Return average derivatives in a number, from one side where the model is not defined on the other."""
    column = _column(fit, variable)
    if not isinstance(column, NumericColumn) or variable not in frame:
        raise ArgumentError(
            f"over must have the column {variable!r}, in which the derivative is taken", argument="over"
        )
    own = frame[variable]

    def by(stencil: Stencil, step: float) -> Effects:
        parts = [standardised(_with(frame, variable, own + k * step)) for k, _ in stencil]
        return levels_of(combined(parts, [c / step for _, c in stencil]), name="per unit", derivative=True)

    step = STEP * (column.upper - column.lower)
    try:
        return by(CENTRAL, step)
    except SchemaError:
        standardised(frame)  # the rows themselves may be at fault
    for sign in (1.0, -1.0):
        try:
            found, half = by(FORWARD, sign * step), by(FORWARD, sign * step / 2.0)
        except SchemaError:
            continue
        if np.allclose(found.values, half.values, rtol=1e-4, atol=1e-12):
            return found
        break
    raise ArgumentError(
        f"values must be given, such as two quantiles of {variable}: the model has no slope in it at the ends of its "
        "declared range, where some rows are, so that there is no average derivative",
        argument="values",
    )


def _stacked(parts: Sequence[Effects]) -> Effects:
    return Effects(
        keys=pd.concat([part.keys for part in parts], ignore_index=True),
        values=np.concatenate([np.asarray(part.values) for part in parts]),
        gradient=np.concatenate([part.gradient for part in parts]),
        frame_error=np.concatenate([part.frame_error for part in parts]),
        ratio=tuple(each for part in parts for each in part.ratio),
    )
