r"""Averages over rows of what a model predicts: standardised means, and average slopes of columns of the design.

**Standardised means** are what a model predicts for every row of a population if a variable had one value
(g-computation). With rows :math:`x_i(a)`, in which the variable has the value ``a`` and everything else is as it is,
and weights :math:`w_i` that add up to 1, the mean outcome is :math:`m_a(\theta) = \sum_i w_i \mu(x_i(a), \theta)`
(Robins 1986, *A new approach to causal inference in mortality studies*). Its gradient in the coefficients, in closed
form, gives errors by the delta method. The mean outcome is a risk (of each level, or of each cause by a time), a mean,
a quantile, or a restricted mean time: the area under the event-free curve up to a time, linear between the ends of
intervals (the actuarial assumption).

**Average slopes** have statsmodels' words. With the mean :math:`\mu(\eta_i)`, the slope in column ``j`` is
:math:`\mu'(\eta_i) \beta_j`, averaged over rows; its gradient in the coefficients is :math:`\mu'(\eta_i) 1_j +
\mu''(\eta_i) \beta_j x_i`. Elasticities multiply by :math:`x_{ij}`, divide by :math:`\mu(\eta_i)`, or both. Derivatives
of the mean are differences of the fourth order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice, truth
from hdpstats.display import Report, Reported, columns, number, p_value
from hdpstats.losses import MEANS, multinomial
from hdpstats.records.estimate import Estimate
from hdpstats.results.contrasts import DRAWN
from hdpstats.results.hazard_curves import CurveParts, HazardCurves, hazard_facts, open_curves
from hdpstats.results.facts import design_of, read_rows
from hdpstats.results.population import Population
from hdpstats.results.summary import limit_headers
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
    """

    outcomes: tuple[AveragedOutcome, ...]
    rows: FloatArray
    weights: FloatArray
    gradient: FloatArray

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
    )


def standardise(
    fit: "Result", frame: pd.DataFrame, weights: FloatArray, *, times: FloatArray, cause: str | None
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
    """
    if fit.facts.hazard is not None:
        return _of_hazards(fit, frame, weights, times=times, cause=cause)
    rows = read_rows(fit, frame, design_of(fit))
    w = _normalised(weights[rows.complete])
    if fit.facts.loss == multinomial.NAME:
        return _of_levels(fit, rows.X, w)
    mean = MEANS[str(fit.facts.loss)]
    eta = rows.X @ fit.estimate.params.to_numpy() + rows.offset
    kind = {"odds ratio": RISK, "exponential": MEAN}.get(fit.facts.exponentiated, POSITIVE)
    return Standardised(
        outcomes=(AveragedOutcome(kind=kind),),
        rows=mean(eta)[:, None],
        weights=w,
        gradient=((w * slope(mean, eta)) @ rows.X)[None, :],
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
        found, slopes = _risks_and_areas(opened, X[block], offset[block], w[block], times=times, cause=place)
        rows.append(found)
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


METHODS: Final = {"dydx": "dy/dx", "eyex": "d(lny)/d(lnx)", "dyex": "dy/d(lnx)", "eydx": "d(lny)/dx"}
"""The methods with statsmodels' headers."""

PLACES: Final = ("overall", "mean", "median", "zero")
"""Where slopes are taken."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class MarginalEffects(Reported):
    """Average slopes: ``estimate`` has them as linear functions of the coefficients, ``header`` says which they are."""

    estimate: Estimate
    header: str
    population: str

    @property
    def margeff(self) -> FloatArray:
        """The slopes, one for each column of the design but the intercept."""
        return np.asarray(self.estimate.params)

    @property
    def margeff_se(self) -> FloatArray:
        """Their standard errors."""
        return np.asarray(self.estimate.bse)

    @property
    def margeff_cov(self) -> FloatArray:
        """Their covariance."""
        return np.asarray(self.estimate.cov_params())

    @property
    def tvalues(self) -> FloatArray:
        """Slopes over standard errors."""
        return np.asarray(self.estimate.tvalues)

    @property
    def pvalues(self) -> FloatArray:
        """Two-sided p-values."""
        return np.asarray(self.estimate.pvalues)

    def conf_int(self, alpha: float = 0.05) -> FloatArray:
        """Return confidence limits, a row per slope."""
        return self.estimate.conf_int(alpha).to_numpy()

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return a row per slope, under statsmodels' headers."""
        low, high = self.conf_int(alpha).T
        headers = (self.header, "Std. Err.", "z", "Pr(>|z|)", "Conf. Int. Low", "Cont. Int. Hi.")
        found = (self.margeff, self.margeff_se, self.tvalues, self.pvalues, low, high)
        return pd.DataFrame(dict(zip(headers, found, strict=True)), index=pd.Index(self.estimate.terms))

    def _report(self, alpha: float = 0.05) -> Report:
        rows = [
            [number(b), number(se, 3), number(z, 3), p_value(p, self.estimate.p_floor), number(low, 3), number(high, 3)]
            for b, se, z, p, low, high in self.summary_frame(alpha).to_numpy()
        ]
        headers = [self.header, "std err", "z", "P>|z|", *limit_headers(alpha)]
        notes = [f"Averaged over {self.population}."]
        notes += [] if self.estimate.distribution is None else [DRAWN]
        return Report(title="Marginal effects", blocks=[columns(headers, list(self.estimate.terms), rows)], notes=notes)

    def __repr__(self) -> str:
        return f"<marginal effects {self.header} over {self.population}>"


def marginal_effects(fit: "Result", rows: Population, *, at: str, method: str, dummy: bool) -> MarginalEffects:
    """Return average slopes of a model with one mean; see `hdpstats.results.averaged.Averaged.get_margeff`."""
    choice(at, name="at", options=PLACES)
    choice(method, name="method", options=METHODS)
    facts, discrete = fit.facts, truth(dummy, name="dummy")
    if discrete and (method.endswith("ex") or at in ("median", "zero")):
        raise ArgumentError(
            "dummy=True needs method 'dydx' or 'eydx', at 'overall' or 'mean': a column of zeros and ones has no "
            "logarithm and no other place",
            argument="dummy",
        )
    if facts.loss is None or facts.loss == multinomial.NAME:
        raise ArgumentError("this model has no single mean to take slopes of; ask average_effects", argument="self")
    design = design_of(fit)
    found = read_rows(fit, rows.frame, design)
    w = rows.weights[found.complete]
    if not w.sum() > 0.0:
        raise ArgumentError("over must have a complete row with a weight above 0", argument="over")
    X, offset = _placed(found.X, found.offset, w, at=at)
    beta = np.asarray(fit.estimate.params)
    placed = _Rows(
        X=X,
        offset=offset,
        weights=w / w.sum() if at == "overall" else np.ones(1),
        beta=beta,
        mean=MEANS[facts.loss],
    )
    own = [k for k, column in enumerate(design.columns) if column.term != "Intercept"]
    values, gradient = np.zeros(len(own)), np.zeros((len(own), len(beta)))
    for place, j in enumerate(own):
        if discrete and np.isin(found.X[:, j], (0.0, 1.0)).all():
            values[place], gradient[place] = _jump(placed, j, log=method.startswith("ey"))
        else:
            values[place], gradient[place] = _slope(placed, j, method=method)
    names = tuple(design.columns[j].name for j in own)
    estimate = fit.estimate.linear(gradient, names, values=values)
    return MarginalEffects(estimate=estimate, header=METHODS[method], population=rows.words)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Rows:
    """Rows of the design with offsets and weights, 1 in sum; the coefficients and the mean."""

    X: FloatArray
    offset: FloatArray
    weights: FloatArray
    beta: FloatArray
    mean: Callable[[FloatArray], FloatArray]


def _placed(X: FloatArray, offset: FloatArray, w: FloatArray, *, at: str) -> tuple[FloatArray, FloatArray]:
    """Return the rows where slopes are taken: all, or one; the intercept stays 1."""
    if at == "overall":
        return X, offset
    if at == "zero":
        constant = (X == 1.0).all(axis=0)
        return constant.astype(np.float64)[None, :], np.zeros(1)
    if at == "mean":
        return (w @ X / w.sum())[None, :], np.array([w @ offset / w.sum()])
    return np.median(X[w > 0.0], axis=0)[None, :], np.array([np.median(offset[w > 0.0])])


def _slope(at: "_Rows", j: int, *, method: str) -> tuple[float, FloatArray]:
    """Return one average slope and its gradient."""
    X, w, beta, mean = at.X, at.weights, at.beta, at.mean
    eta = X @ beta + at.offset
    first = partial(slope, mean)
    level, rise, second = mean(eta), first(eta), slope(first, eta)
    scale = X[:, j] if method.endswith("ex") else np.ones(len(X))
    outer, inner = scale * rise, scale * second
    if method.startswith("ey"):
        outer, inner = outer / level, scale * (second / level - (rise / level) ** 2)
    gradient = beta[j] * ((w * inner) @ X)
    gradient[j] += w @ outer
    return float(beta[j] * (w @ outer)), np.asarray(gradient)


def _jump(at: "_Rows", j: int, *, log: bool) -> tuple[float, FloatArray]:
    """Return the average difference between 1 and 0 in one column, and its gradient."""
    value, gradient = 0.0, np.zeros(len(at.beta))
    for sign, to in ((1.0, 1.0), (-1.0, 0.0)):
        moved = at.X.copy()
        moved[:, j] = to
        eta = moved @ at.beta + at.offset
        level, rise = at.mean(eta), slope(at.mean, eta)
        value += sign * float(at.weights @ (np.log(level) if log else level))
        gradient += sign * ((at.weights * (rise / level if log else rise)) @ moved)
    return value, gradient
