r"""Average effects: how standardised means differ between values of a variable, with intervals by the drawn errors.

An effect is a function :math:`g(m_a, m_b)` of the standardised means (`hdpstats.results.standardised_means`): their
difference, the logarithm of their ratio or of the ratio of their odds. To first order its error is that of the
contrast :math:`\nabla g(\theta)' \beta` of the coefficients, so that p-values and limits come from the draws of the
errors of that contrast; those of ratios are exponentials of the logarithm's (delta method; a fit to public rows alone
has the normal distribution). The effect is that in the rows averaged over. Where these are a sample of a larger
population, they add an error of their own,

.. math:: \Bigl\{\sum_i w_i^2 (d_i - \bar d)^2\Bigr\}^{1/2},

with :math:`d_i` the effect's linear part in row ``i`` (of people with several rows these add up first, person by
person): the column ``frame_error``, which is no part of the intervals.
Where the rows are raked to a noisy description of the private people, the effect at draws of what is described says
how far it may be off for that; this error is in the intervals, added as a normal one.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError, SchemaError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice, real
from hdpstats.display import Report, Reported, columns, named_values, number, p_value
from hdpstats.inference import draws
from hdpstats.privacy.budget import Guarantee
from hdpstats.records.estimate import ErrorDistribution, Estimate
from hdpstats.results.contrasts import DRAWN
from hdpstats.results.facts import check_identified, chosen, design_of
from hdpstats.results.hazard_curves import read_times
from hdpstats.results.labels import labels_of_terms
from hdpstats.results.population import Population, guarantee_over, population
from hdpstats.results.standardised_means import (
    MEAN,
    POSITIVE,
    RESTRICTED,
    RISK,
    AveragedOutcome,
    Standardised,
    combined,
    standardise,
)
from hdpstats.results.summary import guarantee_badges, guarantee_details, limit_headers
from hdpstats.results.tables import cost_columns
from hdpstats.schema.columns import Binary, Categorical, Column, NumericColumn

if TYPE_CHECKING:
    from hdpstats.results.result import Result


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """A scale of effects: its name, the link ``h`` of ``h(m_b) - h(m_a)``, its derivative, and whether to exponentiate.

    ``kinds`` are the kinds of outcomes that have it.
    """

    name: str
    link: Callable[[FloatArray], FloatArray]
    derivative: Callable[[FloatArray], FloatArray]
    ratio: bool
    kinds: tuple[str, ...]


def _odds(m: FloatArray) -> FloatArray:
    return np.asarray(np.log(m) - np.log1p(-m))


SCALES: Final = (
    Scale(name="risk difference", link=np.asarray, derivative=np.ones_like, ratio=False, kinds=(RISK,)),
    Scale(name="risk ratio", link=np.log, derivative=np.reciprocal, ratio=True, kinds=(RISK,)),
    Scale(name="odds ratio", link=_odds, derivative=lambda m: 1.0 / (m * (1.0 - m)), ratio=True, kinds=(RISK,)),
    Scale(name="difference", link=np.asarray, derivative=np.ones_like, ratio=False, kinds=(MEAN, POSITIVE)),
    Scale(name="ratio", link=np.log, derivative=np.reciprocal, ratio=True, kinds=(POSITIVE,)),
    Scale(
        name="restricted mean difference", link=np.asarray, derivative=np.ones_like, ratio=False, kinds=(RESTRICTED,)
    ),
)
"""The scales, in the order of the tables."""

DERIVATIVES: Final = {
    RISK: "risk derivative",
    MEAN: "derivative",
    POSITIVE: "derivative",
    RESTRICTED: "restricted mean derivative",
}
"""What the average derivative of each kind of outcome is called."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Effects:
    """Effects as linear functions of the coefficients: ``values`` (E,) on the link's scale, ``gradient`` (E, p).

    ``frame_error`` (E,) is that of the rows as a sample; ``ratio`` (E,) says which are exponentiated; ``keys`` has the
    columns that name them; ``described`` (E, E) is the covariance of errors that the noise of a description of the
    rows makes, None where they are known.
    """

    keys: pd.DataFrame
    values: FloatArray
    gradient: FloatArray
    frame_error: FloatArray
    ratio: tuple[bool, ...]
    described: FloatArray | None = None

    def with_draws(self, drawn: Sequence["Effects"]) -> "Effects":
        """Return the effects with the errors of rows that are known from a description, from those at its draws."""
        away = np.array([np.asarray(each.values) for each in drawn]) - self.values
        return replace(self, described=away.T @ away / len(away))


def differences(pairs: Sequence[tuple[str, Standardised, Standardised]]) -> Effects:
    """Return the effects of pairs of standardised means, ``(name, at a, at b)``, on every scale that they have."""
    keys, values, gradients, errors, ratio = [], [], [], [], []
    for name, low, high in pairs:
        m_a, m_b = low.means, high.means
        for place, outcome in enumerate(low.outcomes):
            for scale in SCALES:
                if outcome.kind in scale.kinds:
                    with np.errstate(divide="ignore", invalid="ignore"):
                        h_a, h_b = scale.link(m_a[[place]])[0], scale.link(m_b[[place]])[0]
                        d_a, d_b = scale.derivative(m_a[[place]])[0], scale.derivative(m_b[[place]])[0]
                    keys.append(_key(scale.name, name, outcome))
                    values.append(h_b - h_a)
                    gradients.append(d_b * high.gradient[place] - d_a * low.gradient[place])
                    errors.append(_spread(d_b * high.rows[:, place] - d_a * low.rows[:, place], low))
                    ratio.append(scale.ratio)
    return Effects(
        keys=pd.DataFrame(keys),
        values=np.array(values),
        gradient=np.array(gradients),
        frame_error=np.array(errors),
        ratio=tuple(ratio),
    )


def levels_of(found: Standardised, *, name: str, derivative: bool) -> Effects:
    """Return standardised means, or average derivatives, by themselves."""
    keys = [
        _key(DERIVATIVES[outcome.kind] if derivative else outcome.kind.removeprefix("positive "), name, outcome)
        for outcome in found.outcomes
    ]
    return Effects(
        keys=pd.DataFrame(keys),
        values=found.means,
        gradient=found.gradient,
        frame_error=np.array([_spread(row, found) for row in found.rows.T]),
        ratio=(False,) * len(keys),
    )


def _key(effect: str, contrast: str, outcome: AveragedOutcome) -> dict[str, object]:
    of = {} if outcome.of is None else {"outcome": outcome.of}
    return {"effect": effect, "contrast": contrast, **of, **({} if outcome.time is None else {"time": outcome.time})}


def _spread(values: FloatArray, rows: Standardised) -> float:
    """Return the standard error of a weighted mean over rows (n,): over people, where these have several."""
    away = rows.weights * (values - rows.weights @ values)
    if rows.people is not None:
        away = np.asarray(np.bincount(rows.people, weights=away), dtype=np.float64)
    return float(np.sqrt(np.sum(np.square(away))))


def tabulated(effects: Effects, estimate: Estimate, *, alpha: float) -> pd.DataFrame:
    """Return a row per effect: its keys, estimate, std_error, p_value, conf_low, conf_high, frame_error.

    The standard error of a ratio is the delta method's; p-values of ratios are those of a logarithm of 0.
    """
    names = tuple(map(str, range(len(effects.values))))
    linear = estimate.linear(effects.gradient, names, values=effects.values)
    if effects.described is not None:
        linear = widened(linear, effects.described)
    low, high = linear.conf_int(alpha).to_numpy().T
    ratio = np.array(effects.ratio, dtype=bool)

    def shown(values: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.where(ratio, np.exp(np.where(ratio, values, 0.0)), values)

    factor = np.where(ratio, shown(effects.values), 1.0)
    return effects.keys.assign(
        estimate=shown(effects.values),
        std_error=factor * linear.bse.to_numpy(),
        p_value=linear.pvalues.to_numpy(),
        conf_low=shown(low),
        conf_high=shown(high),
        frame_error=factor * effects.frame_error,
    )


def widened(estimate: Estimate, covariance: FloatArray) -> Estimate:
    """Return an estimate with one more error, normal and apart from the others: that of a noisy description."""
    own = estimate.distribution
    if own is not None:
        errors = own.joint().exact
        own = ErrorDistribution.of_draws(errors + draws.normal(draws.nodes(), covariance, len(errors)))
    return replace(estimate, privacy=estimate.privacy + covariance, distribution=own)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class AverageEffects(Reported):
    """Average effects of a variable; `hdpstats.results.Result.average_effects` makes them.

    Attributes
    ----------
    variable : str
        The variable.
    effects : Effects
        The effects.
    means : Effects
        The standardised means themselves, one for each value; without p-values of their own.
    estimate : Estimate
        The coefficients that they are functions of.
    population : str
        What they are averaged over, in words.
    alpha : float
        One minus the level of the intervals.
    guarantee : Guarantee or None
        What all releases guarantee together that the effects rest on: those of the fit, and of a description or a
        weighted sample that is averaged over. None where no private record was used.
    label : str
        What readers call the variable, by the schema; empty where it has no label.
    """

    variable: str
    effects: Effects
    means: Effects
    estimate: Estimate
    population: str
    alpha: float
    guarantee: Guarantee | None
    label: str = ""

    @property
    def frame(self) -> pd.DataFrame:
        """A row per effect: effect, contrast, outcome and time where there are some, then numbers.

        The numbers are estimate, std_error, p_value, conf_low, conf_high and frame_error, the standard error that the
        rows add where they are a sample; it is no part of the limits.
        """
        return tabulated(self.effects, self.estimate, alpha=self.alpha)

    @property
    def standardised(self) -> pd.DataFrame:
        """The standardised means, a row per value of the variable; columns as in `frame`, without a p-value."""
        table = tabulated(self.means, self.estimate, alpha=self.alpha)
        return table.rename(columns={"contrast": self.variable, "effect": "mean"}).drop(columns="p_value")

    def summary_frame(self, alpha: float | None = None) -> pd.DataFrame:
        """Return `frame` with intervals of another level."""
        level = self.alpha if alpha is None else real(alpha, name="alpha", lower=0.001, upper=0.999)
        return tabulated(self.effects, self.estimate, alpha=level)

    def tidy(self, conf_level: float = 0.95) -> pd.DataFrame:
        """Return a row per effect: the columns of `frame` with limits of a level in [0.001, 0.999]."""
        return self.summary_frame(1.0 - real(conf_level, name="conf_level", lower=0.001, upper=0.999))

    def glance(self) -> pd.DataFrame:
        """Return one row: variable, population, epsilon, delta, effects (their number)."""
        return pd.DataFrame(
            {
                "variable": [self.variable],
                "population": [self.population],
                **cost_columns(self.guarantee),
                "effects": [len(self.effects.values)],
            }
        )

    def _report(self, alpha: float = 0.05) -> Report:
        table = self.summary_frame(alpha)
        floor = self.estimate.p_floor
        where = [name for name in ("outcome", "time") if name in table]
        names = [
            ", ".join(
                [
                    row["effect"],
                    row["contrast"],
                    *(f"time {row[name]:g}" if name == "time" else row[name] for name in where),
                ]
            )
            for row in table.to_dict("records")
        ]
        rows = [
            [number(row["estimate"]), number(row["std_error"], 3), p_value(row["p_value"], floor)]
            + [number(row[name], 3) for name in ("conf_low", "conf_high", "frame_error")]
            for row in table.to_dict("records")
        ]
        headers = ["estimate", "std err", "P>|z|", *limit_headers(alpha), "frame err"]
        called = f"{self.label} ({self.variable})" if self.label else self.variable
        facts = [("Variable:", called), ("Averaged over:", self.population), ("Estimate:", self.estimate.label)]
        facts += [] if self.guarantee is None else [("Guarantee:", str(self.guarantee))]
        notes = [
            "frame err: the standard error that the rows add where they are a sample; it is no part of the intervals."
        ]
        drawn = [] if self.estimate.distribution is None else [DRAWN]
        if self.effects.described is not None:
            drawn.append("The noise of the description that the rows are raked to is in the intervals.")
        return Report(
            title=f"Average effects of {self.variable}" if self.variable.isidentifier() else "Average effects",
            blocks=[named_values(facts), columns(headers, names, rows)],
            notes=[*drawn, *notes],
            badges=guarantee_badges(self.guarantee),
            ending=guarantee_details(self.guarantee),
        )

    def __repr__(self) -> str:
        return f"<average effects of {self.variable} over {self.population}>"


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
    averaged = chosen(fit, estimate)
    level = real(alpha, name="alpha", lower=0.001, upper=0.999)
    check_identified(averaged)
    rows = population(fit, fit.public_rows, over, weights)
    guarantee = guarantee_over(fit, averaged, rows)
    fit = with_estimate(fit, averaged)
    by, which = _times(fit, times), _cause(fit, cause)
    given = _values(fit, variable, values)

    def at(frame: pd.DataFrame, row_weights: FloatArray) -> tuple[Effects, Effects]:
        some = Population(frame=frame, weights=row_weights, words="", people=rows.people)
        return _effects(fit, variable, given, some, by, which)

    effects, means = at(rows.frame, rows.weights)
    if rows.draws:
        drawn = [at(*each) for each in rows.draws]
        effects = effects.with_draws([each for each, _ in drawn])
        means = means.with_draws([each for _, each in drawn])
    return AverageEffects(
        variable=variable,
        effects=effects,
        means=means,
        estimate=averaged,
        population=rows.words,
        alpha=level,
        guarantee=guarantee,
        label=labels_of_terms([variable], fit.schema).get(variable, ""),
    )


def with_estimate(fit: "Result", estimate: Estimate) -> "Result":
    """Return a result of which one of its estimates is that of `params`."""
    return fit if estimate is fit.estimate else replace(fit, estimate=estimate)


def _times(fit: "Result", times: float | Iterable[float] | None) -> FloatArray:
    if fit.facts.hazard is None:
        if times is not None:
            raise ArgumentError("times must be left out: this is no hazard model", argument="times")
        return np.zeros(0)
    instants = read_times(fit.facts.hazard.grid.horizon if times is None else times, fit.facts.hazard)
    if not len(instants) or not (instants > 0.0).all():
        raise ArgumentError("times must be one or more times above 0", argument="times")
    return instants


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
        return standardise(fit, frame, rows.weights, times=times, cause=cause, people=rows.people)

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
            slopes, half = by(FORWARD, sign * step), by(FORWARD, sign * step / 2.0)
        except SchemaError:
            continue
        if np.allclose(slopes.values, half.values, rtol=1e-4, atol=1e-12):
            return slopes
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
