r"""Marginal effects: average slopes of columns of the design, as statsmodels' ``get_margeff`` has them.

They have statsmodels' words. With the mean :math:`\mu(\eta_i)`, the slope in column ``j`` is
:math:`\mu'(\eta_i) \beta_j`, averaged over rows; its gradient in the coefficients is :math:`\mu'(\eta_i) 1_j +
\mu''(\eta_i) \beta_j x_i`. Elasticities multiply by :math:`x_{ij}`, divide by :math:`\mu(\eta_i)`, or both. Derivatives
of the mean are differences of the fourth order.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice, truth
from hdpstats.display import Report, Reported, columns, number, p_value
from hdpstats.losses import MEANS, multinomial
from hdpstats.privacy.budget import Guarantee
from hdpstats.records.estimate import Estimate
from hdpstats.results.average_effects import widened, with_estimate
from hdpstats.results.contrasts import DRAWN
from hdpstats.results.facts import check_identified, chosen, design_of, read_rows
from hdpstats.results.labels import labels_of_terms
from hdpstats.results.population import Population, guarantee_over, population
from hdpstats.results.standardised_means import slope
from hdpstats.results.summary import guarantee_badges, guarantee_details, limit_headers
from hdpstats.results.tables import cost_columns, tidy

if TYPE_CHECKING:
    from hdpstats.results.result import Result

METHODS: Final = {"dydx": "dy/dx", "eyex": "d(lny)/d(lnx)", "dyex": "dy/d(lnx)", "eydx": "d(lny)/dx"}
"""The methods with statsmodels' headers."""

PLACES: Final = ("overall", "mean", "median", "zero")
"""Where slopes are taken."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class MarginalEffects(Reported):
    """Average slopes: ``estimate`` has them as linear functions of the coefficients, ``header`` says which they are.

    ``guarantee`` is that of all releases that they rest on; None where no private record was used. ``labels`` are what
    a page calls the columns that have labels in the schema.
    """

    estimate: Estimate
    header: str
    population: str
    guarantee: Guarantee | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

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
        columns = (self.margeff, self.margeff_se, self.tvalues, self.pvalues, low, high)
        return pd.DataFrame(dict(zip(headers, columns, strict=True)), index=pd.Index(self.estimate.terms))

    def tidy(self, conf_level: float = 0.95) -> pd.DataFrame:
        """Return a row per slope, in broom's words; the columns of `hdpstats.results.Result.tidy`."""
        return tidy(self.estimate, conf_level=conf_level)

    def glance(self) -> pd.DataFrame:
        """Return one row: population, epsilon, delta, terms (their number)."""
        return pd.DataFrame(
            {
                "population": [self.population],
                **cost_columns(self.guarantee),
                "terms": [len(self.estimate.terms)],
            }
        )

    def _report(self, alpha: float = 0.05) -> Report:
        rows = [
            [number(b), number(se, 3), number(z, 3), p_value(p, self.estimate.p_floor), number(low, 3), number(high, 3)]
            for b, se, z, p, low, high in self.summary_frame(alpha).to_numpy()
        ]
        headers = [self.header, "std err", "z", "P>|z|", *limit_headers(alpha)]
        shown = [self.labels.get(term, term) for term in self.estimate.terms]
        notes = [f"Averaged over {self.population}."]
        notes += [] if self.estimate.distribution is None else [DRAWN]
        notes += [] if self.guarantee is None else [f"Guarantee: {self.guarantee}."]
        return Report(
            title="Marginal effects",
            blocks=[columns(headers, list(self.estimate.terms), rows, labels=shown)],
            notes=notes,
            badges=guarantee_badges(self.guarantee),
            ending=guarantee_details(self.guarantee),
        )

    def __repr__(self) -> str:
        return f"<marginal effects {self.header} over {self.population}>"


def average_slopes(
    fit: "Result", at: str, method: str, *, dummy: bool, over: object, estimate: str | None
) -> MarginalEffects:
    """Return what `Result.get_margeff` does."""
    averaged = chosen(fit, estimate)
    check_identified(averaged)
    rows = population(fit, fit.public_rows, over)
    guarantee = guarantee_over(fit, averaged, rows)
    fit = with_estimate(fit, averaged)
    effects = replace(marginal_effects(fit, rows, at=at, method=method, dummy=dummy), guarantee=guarantee)
    if not rows.draws:
        return effects
    others = [replace(rows, frame=frame, weights=weights) for frame, weights in rows.draws]
    drawn = [marginal_effects(fit, each, at=at, method=method, dummy=dummy).margeff for each in others]
    away = np.array(drawn) - effects.margeff
    return replace(effects, estimate=widened(effects.estimate, away.T @ away / len(away)))


def marginal_effects(fit: "Result", rows: Population, *, at: str, method: str, dummy: bool) -> MarginalEffects:
    """Return average slopes of a model with one mean; see `hdpstats.results.Result.get_margeff`."""
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
    rows_read = read_rows(fit, rows.frame, design)
    w = rows.weights[rows_read.complete]
    if not w.sum() > 0.0:
        raise ArgumentError("over must have a complete row with a weight above 0", argument="over")
    X, offset = _placed(rows_read.X, rows_read.offset, w, at=at)
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
        if discrete and np.isin(rows_read.X[:, j], (0.0, 1.0)).all():
            values[place], gradient[place] = _jump(placed, j, log=method.startswith("ey"))
        else:
            values[place], gradient[place] = _slope(placed, j, method=method)
    names = tuple(design.columns[j].name for j in own)
    estimate = fit.estimate.linear(gradient, names, values=values)
    return MarginalEffects(
        estimate=estimate,
        header=METHODS[method],
        population=rows.words,
        labels=labels_of_terms(names, fit.schema),
    )


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
