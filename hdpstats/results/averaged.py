"""The effects that a result answers: average effects of variables, and average slopes of columns of the design."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice, real
from hdpstats.records.estimate import Estimate
from hdpstats.results.blocks import design_of
from hdpstats.results.effects import AverageEffects, Effects, differences, levels_of
from hdpstats.results.fitted import Fitted, check_identified
from hdpstats.results.margins import MarginalEffects, marginal_effects
from hdpstats.results.population import PUBLIC, FittedRows, Population, population
from hdpstats.results.standardised import Standardised, combined, standardise
from hdpstats.results.survival import read_times
from hdpstats.results.tested import HasEstimates, chosen, fitted
from hdpstats.schema.columns import Binary, Categorical, Column, NumericColumn

STENCIL: Final = ((-2.0, 1.0 / 12.0), (-1.0, -2.0 / 3.0), (1.0, 2.0 / 3.0), (2.0, -1.0 / 12.0))
"""A derivative by differences of the fourth order."""

STEP: Final = 1e-4
"""Its step, in widths of the declared range."""


class _HasRows(HasEstimates, Protocol):
    @property
    def public_rows(self) -> FittedRows: ...


class Averaged:
    """Effects averaged over rows: post-processing that costs no privacy (`hdpstats.results.effects`)."""

    __slots__ = ()

    def average_effects(
        self: _HasRows,
        variable: str,
        over: object = PUBLIC,
        *,
        values: Sequence[object] | None = None,
        times: float | Iterable[float] | None = None,
        cause: str | None = None,
        weights: object = None,
        estimate: str | None = None,
        alpha: float = 0.05,
    ) -> AverageEffects:
        """Return how much the mean outcome changes with a variable, averaged over rows (g-computation).

        Every row is predicted with each value of the variable and everything else as it is. A binary outcome has the
        risk difference, risk ratio and odds ratio of the mean risks; a count or a time the difference and ratio of
        means; other outcomes the difference. A hazard model has those of the risk of an event by a time, and the
        difference of the restricted mean time. They are effects of the variable only as far as the model's other
        covariates account for who has which value.

        Parameters
        ----------
        variable : str
            A column that the formula reads.
        over : "public", DataFrame, WeightedSample, Study or Description
            The rows: the public rows of this fit by default. What the effect is depends on them. With a description of
            the private people these rows are raked to its averages; its own noise is not in the intervals.
        values : sequence of two or more values, optional
            The values to compare, the reference first. By default all levels of a factor, its first one the reference;
            for a number the average derivative.
        times : number or iterable of numbers, optional
            For hazard models: by when, up to the horizon, which is the default.
        cause : str, optional
            For hazard models of several causes: of which one risks are; the first by default.
        weights : array or str, optional
            A weight for each row, or the column that has them.
        estimate : str, optional
            "public_only", "private_only" or "pooled"; that of `params` by default.
        alpha : float
            One minus the level of the intervals.

        Returns
        -------
        AverageEffects
            ``frame`` has a row per effect, ``standardised`` the mean outcomes themselves.

        Raises
        ------
        ArgumentError
            If an argument is none, or a coefficient is not identified.
        SchemaError
            If the rows lack a column of the model, or have a value that the schema does not declare.
        """
        fit = fitted(self)
        found = chosen(self, estimate)
        level = real(alpha, name="alpha", lower=0.001, upper=0.999)
        check_identified(found)
        fit = _with_estimate(fit, found)
        at, which = _times(fit, times), _cause(fit, cause)
        rows = population(fit, self.public_rows, over, weights)
        given = _values(fit, variable, values)

        def standardised(value: object) -> Standardised:
            return standardise(fit, _with(rows.frame, variable, value), rows.weights, times=at, cause=which)

        if given is None:
            effects = _derivative(fit, variable, rows, times=at, cause=which)
            whole = standardise(fit, rows.frame, rows.weights, times=at, cause=which)
            means = levels_of(whole, name="as it is", derivative=False)
        else:
            parts = [standardised(value) for value in given]
            effects = differences(
                [
                    (f"{_shown(value)} - {_shown(given[0])}", parts[0], part)
                    for value, part in zip(given[1:], parts[1:], strict=True)
                ]
            )
            means = _stacked(
                [
                    levels_of(part, name=_shown(value), derivative=False)
                    for value, part in zip(given, parts, strict=True)
                ]
            )
        return AverageEffects(
            variable=variable, effects=effects, means=means, estimate=found, population=rows.words, alpha=level
        )

    def get_margeff(
        self: _HasRows,
        at: str = "overall",
        method: str = "dydx",
        *,
        dummy: bool = False,
        over: object = PUBLIC,
        estimate: str | None = None,
    ) -> MarginalEffects:
        """Return average slopes of the columns of the design, as statsmodels' ``get_margeff`` does.

        A column that is a transform of a variable moves by itself; for effects of variables see `average_effects`.

        Parameters
        ----------
        at : {"overall", "mean", "median", "zero"}
            Averaged over the rows, or at their means, medians, or zeros.
        method : {"dydx", "eyex", "dyex", "eydx"}
            Derivatives, elasticities, or one of both.
        dummy : bool
            Whether columns of zeros and ones have the difference between 1 and 0 in the place of a derivative.
        over : "public", DataFrame, WeightedSample or Study
            The rows; the public rows of this fit by default.
        estimate : str, optional
            Which estimate; see `average_effects`.

        Returns
        -------
        MarginalEffects
            ``margeff``, ``margeff_se``, ``pvalues``, ``conf_int()`` and ``summary_frame()``.

        Raises
        ------
        ArgumentError
            As `average_effects`; also for hazard and multinomial models.
        """
        found = chosen(self, estimate)
        check_identified(found)
        fit = _with_estimate(fitted(self), found)
        return marginal_effects(fit, population(fit, self.public_rows, over), at=at, method=method, dummy=dummy)


def _with_estimate(fit: Fitted, estimate: Estimate) -> Fitted:
    return fit if estimate is fit.estimate else replace(fit, estimate=estimate)


def _times(fit: Fitted, times: float | Iterable[float] | None) -> FloatArray:
    if fit.facts.hazard is None:
        if times is not None:
            raise ArgumentError("times must be left out: this is no hazard model", argument="times")
        return np.zeros(0)
    found = read_times(fit.facts.hazard.grid.horizon if times is None else times, fit.facts.hazard)
    if not len(found) or not (found > 0.0).all():
        raise ArgumentError("times must be one or more times above 0", argument="times")
    return found


def _cause(fit: Fitted, cause: str | None) -> str | None:
    causes = () if fit.facts.hazard is None else fit.facts.hazard.causes
    if len(causes) > 1:
        return choice(causes[0] if cause is None else cause, name="cause", options=causes)
    if cause is not None:
        raise ArgumentError("cause must be left out: this model has no causes to choose from", argument="cause")
    return None


def _column(fit: Fitted, variable: str) -> Column:
    if fit.facts.family is not None:
        raise ArgumentError("a distribution without covariates has no effects: see params", argument="variable")
    design = design_of(fit)
    read = [name for name in design.needs if name != design.response]
    times = () if fit.facts.hazard is None else (fit.facts.hazard.stop, fit.facts.hazard.start)
    options = [name for name in read if name not in times] or ["a column of the formula, which has none"]
    return fit.schema[choice(variable, name="variable", options=options)]


def _values(fit: Fitted, variable: str, values: Sequence[object] | None) -> list[object] | None:
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


def _derivative(fit: Fitted, variable: str, rows: Population, *, times: FloatArray, cause: str | None) -> Effects:
    """Return average derivatives in a number."""
    column = _column(fit, variable)
    if not isinstance(column, NumericColumn) or variable not in rows.frame:
        raise ArgumentError(
            f"over must have the column {variable!r}, in which the derivative is taken", argument="over"
        )
    step = STEP * (column.upper - column.lower)
    own = rows.frame[variable]
    parts = [
        standardise(fit, _with(rows.frame, variable, own + k * step), rows.weights, times=times, cause=cause)
        for k, _ in STENCIL
    ]
    return levels_of(combined(parts, [c / step for _, c in STENCIL]), name="per unit", derivative=True)


def _stacked(parts: Sequence[Effects]) -> Effects:
    return Effects(
        keys=pd.concat([part.keys for part in parts], ignore_index=True),
        values=np.concatenate([np.asarray(part.values) for part in parts]),
        gradient=np.concatenate([part.gradient for part in parts]),
        frame_error=np.concatenate([part.frame_error for part in parts]),
        ratio=tuple(each for part in parts for each in part.ratio),
    )
