"""What a fitted model says about public rows: predictions, hazards and survival, as tables and plots."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats.losses import MEANS, multinomial
from hdpstats.records.estimate import normal_quantile
from hdpstats.results import curves, survival_plots
from hdpstats.results.facts import Fitted, check_identified, design_of, read_rows
from hdpstats.results.margins import slope
from hdpstats.schema.columns import Categorical

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hdpstats.results.survival_curves import SurvivalCurves


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Predictor(Fitted):
    """A fitted model with its predictions. They need the facts, the schema and the estimate, and nothing else."""

    def predict(
        self, frame: pd.DataFrame, ci: bool = False, alpha: float = 0.05, cov: bool = False
    ) -> "pd.Series[float] | pd.DataFrame | tuple[pd.Series[float], pd.DataFrame]":
        """Predict the mean of the outcome (a probability for a binary one) of public rows.

        A quantile regression predicts the quantile, an exponential model the mean time until the event, a multinomial
        one the probability of every level: a column each, with ``ci`` a row each.

        A hazard model has no such mean, and software differs in what ``predict`` gives for one (a linear predictor in
        R, a relative hazard in statsmodels): ask `predict_survival`, `predict_hazard` or `predict_median`.

        Parameters
        ----------
        frame : DataFrame
            Public rows with the covariates of the formula, and the offset where the model has one; the outcome is not
            needed. Values are taken as they are, also beyond the schema's bounds.
        ci : bool
            Whether to return confidence limits of the mean, by the delta method on the linear predictor and the normal
            distribution (`cov_params` holds sampling and privacy noise); they are NaN where the standard errors are.
        alpha : float
            One minus the level of the limits, in [0.001, 0.999].
        cov : bool
            Whether to return the covariance of the predicted means too, by the delta method: what an average or a
            difference of them needs. Not with ``ci``, nor for a multinomial model.

        Returns
        -------
        Series, DataFrame, or a tuple of both
            The means with the frame's index, NaN where a covariate is missing; with ``ci`` the columns predicted,
            conf_low and conf_high; with ``cov`` the means and their covariance (n, n).

        Raises
        ------
        SchemaError
            If a column is absent, a level is not declared or a transform is not defined for a value.
        ArgumentError
            If ``frame`` is no DataFrame, a coefficient is not identified, or this is a hazard model.
        """
        if cov:
            return _with_covariance(self, frame, ci=ci)
        return _predicted(self, frame, ci=ci, alpha=alpha)

    def baseline_hazard(self, alpha: float = 0.05, at: pd.DataFrame | None = None) -> pd.DataFrame:
        """Return the probability of the event in each interval for those who reach it, where every covariate is 0.

        ``at`` is one row with other covariates. Columns interval, start, stop, cause (where there are several), hazard,
        conf_low, conf_high; the limits are those of the linear predictor (`cov_params`). Errors: `predict_survival`.
        """
        curves.check_one_row(at)
        opened = curves.curves_at_zero(self) if at is None else curves.open_curves(self, at)
        return curves.hazard_table(opened, alpha=alpha).drop(columns="row")

    def predict_hazard(self, frame: pd.DataFrame, ci: bool = False, alpha: float = 0.05) -> pd.DataFrame:
        """Return the hazards of public rows: for each row (its label in the frame) a row per interval and cause.

        Columns row, interval, start, stop, cause (where there are several), hazard and, with ``ci``, conf_low and
        conf_high as in `baseline_hazard`. The frame and the errors are those of `predict_survival`.
        """
        return curves.hazard_table(curves.open_curves(self, frame), alpha=alpha if ci else None)

    def predict_survival(
        self, frame: pd.DataFrame, times: float | Iterable[float] | None = None, ci: bool = True, alpha: float = 0.05
    ) -> pd.DataFrame:
        r"""Return the probability that nothing has happened to public rows by certain times.

        :math:`S(t) = \prod_s (1 - \sum_k p_{ks})` over the intervals that have ended by ``t``, with the hazards
        :math:`p_{ks}` of all causes. Within an interval the hazard of continuous time is taken as constant: when a part
        ``u`` of the interval ``s`` has passed, the last factor is :math:`(1 - \sum_k p_{ks})^u`.

        Parameters
        ----------
        frame : DataFrame
            Public rows as for `predict`; outcome and entry times are not needed.
        times : number or iterable of numbers, optional
            Times from 0 up to the horizon; 0 and the end of every interval by default.
        ci : bool
            Whether to return pointwise limits, by the delta method on :math:`\log(-\log S)` and the normal
            distribution. They allow for sampling and privacy noise (`cov_params`), and are NaN where the standard
            errors are. Between ends of intervals they are wider by what a hazard that changes within an interval may
            bend the curve, as the hazards of neighbouring intervals show. They hold as far as the baseline can follow
            the hazard (``df`` of the model).
        alpha : float
            One minus the level of the limits, in [0.001, 0.999].

        Returns
        -------
        DataFrame
            Columns row (its label in the frame), time, survival and, with ``ci``, conf_low and conf_high; NaN where a
            covariate is missing.

        Raises
        ------
        SchemaError
            If a column is absent, a level is not declared or a transform is not defined for a value.
        ArgumentError
            If this is no hazard model, an argument is none, a time lies beyond the horizon, or a coefficient is not
            identified.
        """
        opened = curves.open_curves(self, frame)
        at = curves.read_times(times, opened.facts)
        curve = opened.survival(at, alpha=alpha if ci else None)
        n, T = curve.value.shape
        keys = {"row": opened.rows.index.repeat(T), "time": np.tile(at, n)}
        return curves.curve_table(keys, "survival", curve, ci=ci)

    def predict_incidence(
        self, frame: pd.DataFrame, times: float | Iterable[float] | None = None, ci: bool = True, alpha: float = 0.05
    ) -> pd.DataFrame:
        r"""Return the probability that an event of each cause has happened to public rows by certain times.

        :math:`F_k(t) = \sum_s S_{s-1} p_{ks}` over the intervals that have ended by ``t`` (Aalen and Johansen 1978),
        and with constant hazards in the one that goes on: the incidences and event-free survival add up to 1. Arguments
        and errors are those of `predict_survival`. Columns row, cause (where there are several), time, incidence and,
        with ``ci``, conf_low and conf_high, by the delta method on :math:`\log(-\log(1 - F))`.
        """
        opened = curves.open_curves(self, frame)
        at, causes = curves.read_times(times, opened.facts), opened.facts.causes
        found = [opened.incidence(at, k, alpha=alpha if ci else None) for k in range(len(causes))]
        curve = curves.CurveWithLimits(*(np.stack(part, axis=1) for part in zip(*found, strict=True)))
        n, K, T = curve.value.shape
        labels = {"row": opened.rows.index.repeat(K * T), **curves.cause_column(causes, before=n, after=T)}
        return curves.curve_table({**labels, "time": np.tile(at, n * K)}, "incidence", curve, ci=ci)

    def predict_median(self, frame: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
        """Return median event-free times of public rows: columns median, conf_low, conf_high, the frame's index.

        The median is when the curve of `predict_survival` is 0.5, with constant hazards within intervals. The limits
        are when those of survival at the ends of intervals, joined in the same way, are (Brookmeyer and Crowley 1982).
        Infinite where that is not reached, NaN where a covariate or the standard errors are missing. Errors are those
        of `predict_survival`.
        """
        opened = curves.open_curves(self, frame)
        cuts = np.array(opened.facts.grid.cuts)
        value, low, high = (curves.crossing(part, cuts, level=0.5) for part in opened.survival(cuts, alpha=alpha))
        return pd.DataFrame({"median": value, "conf_low": low, "conf_high": high}, index=opened.rows.index)

    def plot_survival(
        self,
        frame: pd.DataFrame | None = None,
        ax: "Axes | None" = None,
        ci: bool = True,
        labels: Sequence[str] | None = None,
        *,
        at_risk: "SurvivalCurves | None" = None,
        time_unit: str | None = None,
    ) -> "Axes":
        """Draw event-free survival of public rows with pointwise 95 % bands (sampling and privacy noise).

        The curve is that of `predict_survival`, with constant hazards within intervals.

        ``frame`` has one to seven rows, named by ``labels`` or by its index; by default the curve is at the model's
        typical covariates (`facts`), or at zeros where it has none. ``at_risk`` are survival curves whose numbers at
        risk stand below the axis; ``time_unit`` is as in `SurvivalCurves.plot`. Errors: `predict_survival`,
        `plot_coefficients`.
        """
        return survival_plots.plot_survival(
            self, frame, labels=labels, ci=ci, at_risk=at_risk, time_unit=time_unit, ax=ax
        )

    def plot_hazard(
        self,
        ax: "Axes | None" = None,
        ci: bool = True,
        at: pd.DataFrame | None = None,
        *,
        time_unit: str | None = None,
    ) -> "Axes":
        """Draw the hazard of every interval, held for its length, with pointwise 95 % bands, a curve per cause.

        ``at`` is one public row; by default the curves are at the covariates of `plot_survival`. ``time_unit`` and
        errors are as there.
        """
        return survival_plots.plot_hazard(self, at, ci=ci, time_unit=time_unit, ax=ax)


def _predicted(fit: Fitted, frame: pd.DataFrame, *, ci: bool, alpha: float) -> "pd.Series[float] | pd.DataFrame":
    """Return predicted means of public rows."""
    facts, estimate = fit.facts, fit.estimate
    if facts.family is not None:
        raise ArgumentError("a distribution without covariates predicts the same for every row: see params")
    if facts.loss is None:
        raise ArgumentError(
            "a hazard model predicts a curve, not one mean; ask predict_survival(frame, times), predict_hazard(frame) "
            "or predict_median(frame)",
            argument="frame",
        )
    if facts.loss == multinomial.NAME:
        return _of_levels(fit, frame, ci=ci, alpha=alpha)
    mean = MEANS[facts.loss]
    z = normal_quantile(alpha)
    check_identified(estimate)
    rows = read_rows(fit, frame, design_of(fit))
    eta = rows.X @ estimate.params.to_numpy() + rows.offset
    predicted = rows.spread(mean(eta))
    if not ci:
        return pd.Series(predicted, index=rows.index, name="predicted")
    variance = np.einsum("ij,jk,ik->i", rows.X, estimate.sampling + estimate.privacy, rows.X)
    half = z * np.sqrt(np.maximum(variance, 0.0))
    limits = mean(eta - half), mean(eta + half)
    return pd.DataFrame(
        {
            "predicted": predicted,
            "conf_low": rows.spread(np.minimum(*limits)),
            "conf_high": rows.spread(np.maximum(*limits)),
        },
        index=rows.index,
    )


def _with_covariance(fit: Fitted, frame: pd.DataFrame, *, ci: bool) -> "tuple[pd.Series[float], pd.DataFrame]":
    """Return predicted means and their covariance, by the delta method."""
    predicted = _predicted(fit, frame, ci=False, alpha=0.05)
    if ci or not isinstance(predicted, pd.Series):
        raise ArgumentError("cov=True needs ci=False and a model with one mean", argument="cov")
    rows, mean = read_rows(fit, frame, design_of(fit)), MEANS[str(fit.facts.loss)]
    gradient = slope(mean, rows.X @ fit.estimate.params.to_numpy() + rows.offset)[:, None] * rows.X
    covariance = np.full((len(predicted), len(predicted)), np.nan)
    covariance[np.ix_(rows.complete, rows.complete)] = gradient @ fit.estimate.cov_params().to_numpy() @ gradient.T
    return predicted, pd.DataFrame(covariance, index=predicted.index, columns=predicted.index)


def _of_levels(fit: Fitted, frame: pd.DataFrame, *, ci: bool, alpha: float) -> pd.DataFrame:
    """Return a column of probabilities per level; with ``ci`` a row per row and level, by the delta method."""
    facts, estimate, z = fit.facts, fit.estimate, normal_quantile(alpha)
    check_identified(estimate)
    design, outcome = design_of(fit), fit.schema[facts.response]
    levels = outcome.levels if isinstance(outcome, Categorical) else ()
    rows, others = read_rows(fit, frame, design), len(levels) - 1
    p = multinomial.probabilities(rows.X @ estimate.params.to_numpy().reshape(others, -1).T)
    whole = np.column_stack([1.0 - p.sum(axis=1), p])
    predicted = pd.DataFrame(rows.spread(whole), index=rows.index, columns=list(levels))
    if not ci:
        return predicted
    half = np.empty_like(whole)
    for k in range(len(levels)):
        slopes = whole[:, k, None] * ((np.arange(1, others + 1) == k) - p)
        gradient = (slopes[:, :, None] * rows.X[:, None, :]).reshape(len(p), -1)
        variance = np.einsum("ij,jk,ik->i", gradient, estimate.sampling + estimate.privacy, gradient)
        half[:, k] = z * np.sqrt(np.maximum(variance, 0.0))
    return pd.DataFrame(
        {
            "row": np.repeat(rows.index.to_numpy(), len(levels)),
            "level": np.tile(list(levels), len(rows.index)),
            "predicted": rows.spread(whole).ravel(),
            "conf_low": rows.spread(np.maximum(whole - half, 0.0)).ravel(),
            "conf_high": rows.spread(np.minimum(whole + half, 1.0)).ravel(),
        }
    )
