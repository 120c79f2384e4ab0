r"""Standardised means: averages over rows of what a model predicts if a variable had one value.

They are what a model predicts for every row of a population if a variable had one value
(g-computation). With rows :math:`x_i(a)`, in which the variable has the value ``a`` and everything else is as it is,
and weights :math:`w_i` that add up to 1, the mean outcome is :math:`m_a(\theta) = \sum_i w_i \mu(x_i(a), \theta)`
(Robins 1986, *A new approach to causal inference in mortality studies*). Its gradient in the coefficients, in closed
form, gives errors by the delta method. The mean outcome is a risk (of each level, or of each cause by a time), a mean,
a quantile, or a restricted mean time: the area under the event-free curve up to a time, linear between the ends of
intervals (the actuarial assumption).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.losses import MEANS, multinomial
from hdpstats.results.facts import design_of, read_rows
from hdpstats.results.hazard_curves import CurveParts, HazardCurves, hazard_facts, open_curves
from hdpstats.schema.columns import Categorical

if TYPE_CHECKING:
    from hdpstats.results.result import Result

STEP = 1e-3
"""The step of derivatives of the mean in the linear predictor."""

RISK, POSITIVE, MEAN, RESTRICTED = "risk", "positive mean", "mean", "restricted mean"
"""Kinds of outcomes: there are ratios and odds of risks, ratios of positive means too."""

_BLOCK = 2**22


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class AveragedOutcome:
    """What is averaged: a kind, the level or the cause, and the time."""

    kind: str
    of: str | None = None
    time: float | None = None


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Standardised:
    """Means of Q outcomes over rows.

    Attributes
    ----------
    outcomes : tuple of AveragedOutcome
        What is averaged (Q).
    rows : (m, Q) float64
        The outcome of each complete row.
    weights : (m,) float64
        Their weights, 1 in sum.
    gradient : (Q, p) float64
        The gradient of the means in the coefficients.
    people : (m,) int64 or None
        Whose each row is; None where every row is a person.
    """

    outcomes: tuple[AveragedOutcome, ...]
    rows: FloatArray
    weights: FloatArray
    gradient: FloatArray
    people: IntArray | None = None

    @property
    def means(self) -> FloatArray:
        """The weighted means (Q,)."""
        return np.asarray(self.weights @ self.rows)


def combined(parts: Sequence[Standardised], weights: Sequence[float]) -> Standardised:
    """Return a linear combination of means over the same rows."""
    return Standardised(
        outcomes=parts[0].outcomes,
        rows=np.asarray(sum(c * part.rows for c, part in zip(weights, parts, strict=True))),
        weights=parts[0].weights,
        gradient=np.asarray(sum(c * part.gradient for c, part in zip(weights, parts, strict=True))),
        people=parts[0].people,
    )


def standardise(
    fit: "Result",
    frame: pd.DataFrame,
    weights: FloatArray,
    *,
    times: FloatArray,
    cause: str | None,
    people: IntArray | None = None,
) -> Standardised:
    """Return the means over the complete rows of a frame as it is.

    Parameters
    ----------
    fit : Result
        The model; every coefficient identified.
    frame : DataFrame
        Public rows.
    weights : (n,) float64
        Their weights, not all 0.
    times : (T,) float64
        For hazard models: by when.
    cause : str or None
        For hazard models of several causes: of which one risks are.
    people : (n,) int64 or None
        Whose each row is, of a regression of people with several rows.
    """
    if fit.facts.hazard is not None:
        return _of_hazards(fit, frame, weights, times=times, cause=cause)
    rows = read_rows(fit, frame, design_of(fit))
    w = _normalised(weights[rows.complete])
    people = None if people is None else people[rows.complete]
    if fit.facts.loss == multinomial.NAME:
        return replace(_of_levels(fit, rows.X, w), people=people)
    mean = MEANS[str(fit.facts.loss)]
    eta = rows.X @ fit.estimate.params.to_numpy() + rows.offset
    kind = {"odds ratio": RISK, "exponential": MEAN}.get(fit.facts.exponentiated, POSITIVE)
    return Standardised(
        outcomes=(AveragedOutcome(kind=kind),),
        rows=mean(eta)[:, None],
        weights=w,
        gradient=((w * slope(mean, eta)) @ rows.X)[None, :],
        people=people,
    )


def slope(mean: Callable[[FloatArray], FloatArray], eta: FloatArray) -> FloatArray:
    """Return the derivative of a mean in its linear predictor, by differences of the fourth order."""
    near, far = mean(eta + STEP) - mean(eta - STEP), mean(eta + 2.0 * STEP) - mean(eta - 2.0 * STEP)
    return np.asarray((8.0 * near - far) / (12.0 * STEP))


def _normalised(weights: FloatArray) -> FloatArray:
    total = float(weights.sum())
    if not total > 0.0:
        raise ArgumentError(
            "over must have a row that is complete in the model's columns and has a weight above 0", argument="over"
        )
    return weights / total


def _of_levels(fit: "Result", X: FloatArray, w: FloatArray) -> Standardised:
    """Return the mean probability of every level of a categorical outcome."""
    outcome = fit.schema[fit.facts.response]
    levels = outcome.levels if isinstance(outcome, Categorical) else ()
    others = len(levels) - 1
    p = multinomial.probabilities(X @ fit.estimate.params.to_numpy().reshape(others, -1).T)
    whole = np.column_stack([1.0 - p.sum(axis=1), p])
    slopes = whole[:, :, None] * (np.eye(others + 1)[:, 1:] - p[:, None, :])
    gradient = np.einsum("n,nkj,nd->kjd", w, slopes, X).reshape(len(levels), -1)
    return Standardised(
        outcomes=tuple(AveragedOutcome(kind=RISK, of=level) for level in levels),
        rows=whole,
        weights=w,
        gradient=gradient,
    )


def _of_hazards(
    fit: "Result", frame: pd.DataFrame, weights: FloatArray, *, times: FloatArray, cause: str | None
) -> Standardised:
    """Return the risk of a cause and the restricted mean time at every time, by blocks of rows."""
    opened = open_curves(fit, frame)
    w = _normalised(weights[opened.rows.complete])
    facts, X, offset = hazard_facts(fit.facts), opened.rows.X, opened.rows.offset
    place = 0 if cause is None else facts.causes.index(cause)
    widest = max(opened.theta.size, len(times) * len(facts.causes), 1)
    size = max(_BLOCK // ((facts.grid.intervals + 1) * widest), 1)
    rows, gradient = [], np.zeros((2 * len(times), opened.theta.size))
    for first in range(0, len(X), size):
        block = slice(first, first + size)
        risks, slopes = _risks_and_areas(opened, X[block], offset[block], w[block], times=times, cause=place)
        rows.append(risks)
        gradient += slopes
    of = facts.causes[place] if len(facts.causes) > 1 else None
    outcomes = [AveragedOutcome(kind=RISK, of=of, time=float(time)) for time in times]
    outcomes += [AveragedOutcome(kind=RESTRICTED, time=float(time)) for time in times]
    return Standardised(outcomes=tuple(outcomes), rows=np.concatenate(rows), weights=w, gradient=gradient)


def _risks_and_areas(
    opened: HazardCurves, X: FloatArray, offset: FloatArray, w: FloatArray, *, times: FloatArray, cause: int
) -> tuple[FloatArray, FloatArray]:
    """Return risks and areas of rows (n, 2 T) and the weighted sums of their gradients (2 T, P)."""
    parts, features, grid = CurveParts.of(opened, X, offset), opened.facts.features, opened.facts.grid
    at = grid.passed(times)
    slopes = np.einsum("n,ntkd->tkd", w, parts.incidence_gradient(cause, at, features, X))
    area, by_predictor = parts.areas(at, np.diff((0.0, *grid.cuts)))
    falls = np.concatenate(
        [np.einsum("n,ntsk,se->tke", w, by_predictor, features), np.einsum("n,ntsk,np->tkp", w, by_predictor, X)],
        axis=2,
    )
    gradient = np.concatenate([slopes, falls])
    return np.column_stack([parts.incidence(cause, at), area]), gradient.reshape(2 * len(times), -1)
