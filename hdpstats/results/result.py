"""The result of a fit: one class for every model."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import choice, real
from hdpstats.display import Report, Reported
from hdpstats.ledger import VerifyingKey
from hdpstats.privacy.budget import Guarantee
from hdpstats.public.follow_up import PublicCheck
from hdpstats.records.estimate import Estimate, HasCoefficients, Heterogeneity
from hdpstats.records.query import LedgerEntry, Query, Release
from hdpstats.records.saved import Saved
from hdpstats.results import (
    average_effects,
    comparison,
    contrasts,
    hazard_curves,
    margeff,
    plots,
    prediction,
    reporting,
    survival_plots,
    tables,
)
from hdpstats.results.average_effects import AverageEffects
from hdpstats.results.contrasts import ContrastResults, PairwiseTests, WaldTest, WaldTestTerms
from hdpstats.results.disagreement import Disagreement
from hdpstats.results.evaluation import NOT_CHECKED, DeferredCheck
from hdpstats.results.facts import ESTIMATES, ModelFacts, chosen, covariates
from hdpstats.results.labels import coefficient_labels, labels_of_terms
from hdpstats.results.margeff import MarginalEffects
from hdpstats.results.population import NO_ROWS, PUBLIC, FittedRows, population, standard_deviations
from hdpstats.results.reporting import methods_text
from hdpstats.results.sites import NOTHING_RELEASED, Counts, Released, SiteContribution, sites_table
from hdpstats.results.summary import parts_of, report_of
from hdpstats.schema.schema import Schema
from hdpstats.schema.synthetic import INVENTED_DATASET

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hdpstats.results.survival_curves import SurvivalCurves


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Result(HasCoefficients, Reported, Saved):
    """A fitted model: coefficients, their uncertainty, and what the fit cost in privacy.

    A result is post-processing: it holds released and public numbers only, and nothing with one entry per private
    record. What would need the rows (`resid`, `llf`, ...) raises an AttributeError that says what to ask instead.

    Attributes
    ----------
    facts : ModelFacts
        What was fitted, to which columns, how.
    schema : Schema
        The declared columns.
    estimate : Estimate
        The estimate that `params`, `bse` and the other attributes speak of.
    public_only, private_only, pooled : Estimate or None
        The three estimates side by side, where public rows were used. ``public_only`` is the ordinary fit of
        `fit_public`: maximum likelihood, ordinary least squares, the usual M-estimate or quantile.
    penalised : Estimate or None
        The public fit that pooling takes, where it takes one: a mode under a weak prior, which its note names.
    released : Released
        What was asked, what the sites released and what that guarantees: `query`, `release`, `guarantee`, `count`,
        `site_facts`, `heterogeneity`.
    checked : DeferredCheck
        How a hazard model does on the public rows: `public_check`.
    public_rows : FittedRows
        The public rows of the fit, for effects that are averaged over them. A file or a copy has none.

    Notes
    -----
    Tables of several results for a paper: `hdpstats.api.regression_table`, with reference levels and epsilon; or
    ``maketables.ETable([result, other], model_stats=["N", "se_type"],
    custom_model_stats={"epsilon": [result.guarantee.epsilon, other.guarantee.epsilon]})``, and its method ``make`` with
    ``"docx"``, ``"tex"``, ``"typst"`` or ``"gt"``. The package maketables reads a result by the names it shares with
    those of statsmodels, so that estimates, standard errors, p-values and limits are those of ``summary()``; epsilon
    is not among them, and is given as above. One result alone: ``summary().to_docx(path)``,
    ``.as_latex()``, ``.as_html()``, ``.as_csv()``. In R: ``modelsummary::modelsummary(list(fit, other))``.

    Examples
    --------
    A fit returns a result; one made by hand from known numbers:

    >>> import numpy as np
    >>> from hdpstats.results.facts import ModelFacts
    >>> from hdpstats.schema.columns import Binary, Continuous
    >>> from hdpstats.schema.schema import Schema
    >>> facts = ModelFacts(
    ...     model="Logit", formula="dead ~ age", response="dead", method="maximum likelihood on public rows",
    ...     records=None, public_rows=686, weights=None, offset=None, loss="logistic",
    ...     exponentiated="odds ratio",
    ... )
    >>> estimate = Estimate(
    ...     label="maximum likelihood", terms=("Intercept", "age"), values=np.array([-3.0, 0.05]),
    ...     sampling=np.diag([0.25, 0.0001]), privacy=np.zeros((2, 2)),
    ... )
    >>> result = Result(
    ...     facts=facts, schema=Schema(age=Continuous(20, 90), dead=Binary()), estimate=estimate,
    ... )
    >>> result
    <Logit result: 2 coefficients, public rows only>
    >>> result.odds_ratios().loc["age"].round(3).to_dict()
    {'estimate': 1.051, 'conf_low': 1.031, 'conf_high': 1.072, 'std_error': 0.011}
    >>> result.predict(pd.DataFrame({"age": [60, 80]})).round(3).tolist()
    [0.5, 0.731]
    """

    _format: ClassVar[int] = 7
    _what: ClassVar[str] = "a result"

    facts: ModelFacts
    schema: Schema
    estimate: Estimate
    public_only: Estimate | None = None
    private_only: Estimate | None = None
    pooled: Estimate | None = None
    penalised: Estimate | None = None
    released: Released = NOTHING_RELEASED
    checked: DeferredCheck = NOT_CHECKED
    public_rows: FittedRows = NO_ROWS

    @classmethod
    def _shortened(cls, entries: dict[str, Any]) -> dict[str, Any]:
        """Write an estimate that is there twice by its name: the draws of its errors are most of a file."""
        same = [name for name in ESTIMATES if entries[name] is not None and entries[name] == entries["estimate"]]
        return entries | {"estimate": same[0]} if same else entries

    @classmethod
    def _completed(cls, entries: dict[str, Any]) -> dict[str, Any]:
        """Return the estimate that is written by its name."""
        return entries | {"estimate": entries[entries["estimate"]]} if isinstance(entries["estimate"], str) else entries

    @property
    def query(self) -> Query | None:
        """What was asked of the sites; None for a fit to public rows alone."""
        return self.released.query

    @property
    def release(self) -> Release | None:
        """What the sites answered."""
        return self.released.release

    @property
    def guarantee(self) -> Guarantee | None:
        """What the release guarantees to every person in the private records."""
        return self.released.guarantee

    @property
    def count(self) -> Counts | None:
        """The noisy number of private records (of each site), where it is protected; the guarantee includes it."""
        return self.released.count

    @property
    def site_facts(self) -> tuple[SiteContribution, ...]:
        """What each site contributed; `sites` is their table."""
        return self.released.sites

    @property
    def heterogeneity(self) -> Heterogeneity | None:
        """Whether several sites agree: Cochran's Q, in all coefficients and in each."""
        return self.released.heterogeneity

    @property
    def disagreement(self) -> Disagreement | None:
        """Whether private and public coefficients disagree: Cochran's Q of all and of each; None where not pooled."""
        statistics, public, private = self.released.disagreement, self.penalised, self.private_only
        if statistics is None or public is None or private is None:
            return None
        return Disagreement(found=statistics, public=public, private=private)

    @property
    def public_check(self) -> PublicCheck | None:
        """How a hazard model does on the public rows: concordance, Brier scores, calibration; computed when asked."""
        return self.checked.found

    @property
    def nobs(self) -> int | None:
        """The number of records: private ones (noisy where it is protected), or public ones of a fit to them alone."""
        return self.facts.public_rows if self.guarantee is None else self.facts.records

    @property
    def endog_names(self) -> str:
        """The outcome, by statsmodels' name."""
        return self.facts.response

    @property
    def cov_type(self) -> str:
        """What standard errors count, by statsmodels' name: sampling, or sampling and privacy noise."""
        return str(tables.statistic("se_type", self.facts, self.guarantee))

    @property
    def rests_on_invented_rows(self) -> bool:
        """Whether private rows were invented ones, of `hdpstats.Schema.synthetic`: no number is a finding then."""
        return any(entry.dataset == INVENTED_DATASET for site in self.site_facts for entry in site.entries)

    @property
    def ledger_entry(self) -> LedgerEntry | None:
        """Where the custodian's ledger keeps the release; None for several sites, whose entries `sites` has."""
        return None if self.release is None else self.release.entry

    @property
    def sites(self) -> pd.DataFrame:
        """What each site contributed, a row per site: public facts only.

        Columns site, status ("answered", or which round it did not answer and why), records, epsilon, delta, rounds,
        weight (its share of the combined private estimate), dataset and entry (where its ledger keeps the last
        release). Every person is at one site, and is charged that site's epsilon.
        """
        return sites_table(self.site_facts)

    def _report(self, alpha: float = 0.05) -> Report:
        return report_of(self, real(alpha, name="alpha", lower=0.001, upper=0.999))

    def tidy(self, exponentiate: bool = False, conf_level: float = 0.95) -> pd.DataFrame:
        """Return one row per coefficient, in broom's words.

        Columns term, estimate, std_error, statistic, p_value, conf_low, conf_high. ``exponentiate`` applies to the
        estimate and its limits, as in broom, not to the standard error. ``conf_level`` in [0.001, 0.999].
        """
        return tables.tidy(self.estimate, exponentiate=exponentiate, conf_level=conf_level)

    def glance(self) -> pd.DataFrame:
        """Return one row of public facts; ``nobs`` is the number of private records, noisy where it is protected.

        Where private and public coefficients were pooled, ``q_statistic, q_df, q_p_value`` test whether they agree.
        """
        return tables.glance(self.facts, self.estimate, self.guarantee, self.disagreement)

    def odds_ratios(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return odds ratios by term: estimate, conf_low, conf_high, std_error.

        The limits are the exponentials of the coefficient's limits; the standard error is the delta method's. The
        exponential of the intercept is the odds where every covariate is 0. In a hazard model the odds are those of an
        event in an interval, and the baseline is left out.

        Raises
        ------
        ArgumentError
            If the exponential of a coefficient of this model is no odds ratio.
        """
        return tables.ratios(self.facts, self.estimate, kind="odds ratio", alpha=alpha)

    def hazard_ratios(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return hazard ratios of the covariates: estimate, conf_low, conf_high, std_error.

        With the complementary log-log link they are ratios of the hazards in continuous time, as in Cox's model,
        whatever the intervals (Prentice and Gloeckler 1978). ArgumentError for any other link.
        """
        return tables.ratios(self.facts, self.estimate, kind="hazard ratio", alpha=alpha)

    def compare(
        self, reference: "Result | pd.DataFrame", *, cause: str | None = None, label: str | None = None
    ) -> comparison.Comparison:
        """Return this result beside a reference: estimates, standard errors and differences term by term.

        ``print`` shows a table, ``.frame`` holds it, ``.plot()`` draws it. It reads released and public numbers only.

        Parameters
        ----------
        reference : Result or DataFrame
            Another result, or a row per term with the columns term, estimate and std_error from any software, in
            broom's shape: those of `r_bridge.reference`, of R's ``broom::tidy``, of `tidy`. Terms are matched by name,
            also where R or patsy write it differently (``size20-50``, ``size[T.20-50]``). A hazard model beside a Cox
            model, another link or other intervals is compared in the covariates only, and a note says why.
        cause : str, optional
            Which cause of several the reference is a model of.
        label : str, optional
            What to call the reference.

        Raises
        ------
        ArgumentError
            If the reference has no such columns or no term in common, or ``cause`` is none.
        """
        return comparison.compare(self, reference, cause=cause, label=label)

    def rate_ratios(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return rate ratios by term: estimate, conf_low, conf_high, std_error, as `odds_ratios`.

        Incidence rate ratios of a Poisson model, ratios of the rates of an event of an exponential one. The exponential
        of the intercept is the mean, or the rate per unit of time, where every covariate is 0.
        """
        return tables.ratios(self.facts, self.estimate, kind="rate ratio", alpha=alpha)

    def t_test(
        self,
        r_matrix: object,
        *,
        estimate: str | None = None,
        names: Sequence[str] | None = None,
    ) -> ContrastResults:
        """Test contrasts of coefficients, each by itself.

        Parameters
        ----------
        r_matrix : str, list of str, array, or tuple of an array and values
            ``"size[T.>50] - size[T.20-50] = 0"``, several constraints separated by commas, or a matrix with a column
            per coefficient, alone (for values of 0) or with the values.
        estimate : str, optional
            "public_only", "private_only" or "pooled"; that of `params` by default.
        names : sequence of str, optional
            What texts call the coefficients, where not as `params` does.

        Returns
        -------
        ContrastResults
            ``effect``, ``sd``, ``statistic``, ``pvalue``, ``conf_int()`` and ``summary_frame()``, as in statsmodels.

        Raises
        ------
        ArgumentError
            If constraints cannot be read, or the result has no such estimate.
        """
        tested = chosen(self, estimate)
        shown = labels_of_terms(tested.terms, self.schema)
        return contrasts.t_test(tested, contrasts.constraints(tested, r_matrix, names), labels=shown)

    def wald_test(
        self,
        r_matrix: object,
        *,
        estimate: str | None = None,
        names: Sequence[str] | None = None,
    ) -> WaldTest:
        """Test constraints jointly; arguments and errors are those of `t_test`.

        ``statistic``, ``pvalue`` and ``df_constraint`` are numbers. A constraint that follows from the others is
        refused.
        """
        tested = chosen(self, estimate)
        return contrasts.wald_test(tested, contrasts.constraints(tested, r_matrix, names))

    def wald_test_terms(self, *, skip_single: bool = False, estimate: str | None = None) -> WaldTestTerms:
        """Test for each term of the formula that all its coefficients are 0: factors and splines as a whole.

        These are tests of type III: each given all other terms, as R's ``car::Anova(type = 3)`` has them. With several
        causes every cause has its own; of a multinomial model a term is tested in all levels together.

        Parameters
        ----------
        skip_single : bool
            Whether to leave out terms of one coefficient.
        estimate : str, optional
            Which estimate; see `t_test`.

        Returns
        -------
        WaldTestTerms
            ``table`` has a row per term: statistic, pvalue, df_constraint.
        """
        return contrasts.tests_of_terms(self, chosen(self, estimate), skip_single=skip_single)

    def t_test_pairwise(
        self,
        term_name: str,
        *,
        method: str = "hs",
        alpha: float = 0.05,
        cause: str | None = None,
        estimate: str | None = None,
    ) -> PairwiseTests:
        """Compare all levels of a factor with each other, the reference level too.

        Parameters
        ----------
        term_name : str
            A term of the formula that is one categorical or binary column, such as "size" or "C(grade)", or that
            column, "grade", where one term only is its levels. Where it is part of an interaction too, differences are
            those where the other factors of the interaction are 0.
        method : str
            How p-values are adjusted for the number of pairs: a method of statsmodels' ``multipletests``, by default
            that of Holm and Sidak.
        alpha : float
            One minus the level of the intervals, and that of the decisions.
        cause : str, optional
            Which cause of several; the first by default.
        estimate : str, optional
            Which estimate; see `t_test`.

        Returns
        -------
        PairwiseTests
            ``result_frame`` has a row per pair, "20-50 - <=20" and so on.
        """
        tested = chosen(self, estimate)
        label = labels_of_terms([term_name], self.schema).get(term_name, "")
        return contrasts.pairwise(
            tested, contrasts.pairs(self, term_name, cause), method=method, alpha=alpha, label=label
        )

    def average_effects(
        self,
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
            the private people these rows are raked to its averages, and its noise is in the intervals too.
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
        return average_effects.average_effects(
            self,
            variable,
            over,
            values=values,
            times=times,
            cause=cause,
            weights=weights,
            estimate=estimate,
            alpha=alpha,
        )

    def get_margeff(
        self,
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
        return margeff.average_slopes(self, at, method, dummy=dummy, over=over, estimate=estimate)

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
            return prediction.with_covariance(self, frame, ci=ci)
        return prediction.predicted(self, frame, ci=ci, alpha=alpha)

    def baseline_hazard(self, alpha: float = 0.05, at: pd.DataFrame | None = None) -> pd.DataFrame:
        """Return the probability of the event in each interval for those who reach it, where every covariate is 0.

        ``at`` is one row with other covariates. Columns interval, start, stop, cause (where there are several), hazard,
        conf_low, conf_high; the limits are those of the linear predictor (`cov_params`). Errors: `predict_survival`.
        """
        hazard_curves.check_one_row(at)
        opened = hazard_curves.curves_at_zero(self) if at is None else hazard_curves.open_curves(self, at)
        return hazard_curves.hazard_table(opened, alpha=alpha).drop(columns="row")

    def predict_hazard(self, frame: pd.DataFrame, ci: bool = False, alpha: float = 0.05) -> pd.DataFrame:
        """Return the hazards of public rows: for each row (its label in the frame) a row per interval and cause.

        Columns row, interval, start, stop, cause (where there are several), hazard and, with ``ci``, conf_low and
        conf_high as in `baseline_hazard`. The frame and the errors are those of `predict_survival`.
        """
        return hazard_curves.hazard_table(hazard_curves.open_curves(self, frame), alpha=alpha if ci else None)

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
        opened = hazard_curves.open_curves(self, frame)
        at = hazard_curves.read_times(times, opened.facts)
        curve = opened.survival(at, alpha=alpha if ci else None)
        n, T = curve.value.shape
        keys = {"row": opened.rows.index.repeat(T), "time": np.tile(at, n)}
        return hazard_curves.curve_table(keys, "survival", curve, ci=ci)

    def predict_incidence(
        self, frame: pd.DataFrame, times: float | Iterable[float] | None = None, ci: bool = True, alpha: float = 0.05
    ) -> pd.DataFrame:
        r"""Return the probability that an event of each cause has happened to public rows by certain times.

        :math:`F_k(t) = \sum_s S_{s-1} p_{ks}` over the intervals that have ended by ``t`` (Aalen and Johansen 1978),
        and with constant hazards in the one that goes on: the incidences and event-free survival add up to 1. Arguments
        and errors are those of `predict_survival`. Columns row, cause (where there are several), time, incidence and,
        with ``ci``, conf_low and conf_high, by the delta method on :math:`\log(-\log(1 - F))`.
        """
        opened = hazard_curves.open_curves(self, frame)
        at, causes = hazard_curves.read_times(times, opened.facts), opened.facts.causes
        curves = [opened.incidence(at, k, alpha=alpha if ci else None) for k in range(len(causes))]
        curve = hazard_curves.CurveWithLimits(*(np.stack(part, axis=1) for part in zip(*curves, strict=True)))
        n, K, T = curve.value.shape
        labels = {"row": opened.rows.index.repeat(K * T), **hazard_curves.cause_column(causes, before=n, after=T)}
        return hazard_curves.curve_table({**labels, "time": np.tile(at, n * K)}, "incidence", curve, ci=ci)

    def predict_median(self, frame: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
        """Return median event-free times of public rows: columns median, conf_low, conf_high, the frame's index.

        The median is when the curve of `predict_survival` is 0.5, with constant hazards within intervals. The limits
        are when those of survival at the ends of intervals, joined in the same way, are (Brookmeyer and Crowley 1982).
        Infinite where that is not reached, NaN where a covariate or the standard errors are missing. Errors are those
        of `predict_survival`.
        """
        opened = hazard_curves.open_curves(self, frame)
        cuts = np.array(opened.facts.grid.cuts)
        value, low, high = (
            hazard_curves.crossing(part, cuts, level=0.5) for part in opened.survival(cuts, alpha=alpha)
        )
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

        ``frame`` has one to thirty rows, named by ``labels`` or by its index; more than seven have a panel each, of
        which the first is returned. By default the curve is at the model's typical covariates (`facts`), or at zeros
        where it has none. ``at_risk`` are survival curves whose numbers at risk stand below the axis; ``time_unit`` is
        as in `SurvivalCurves.plot`. Errors: `predict_survival`, `plot_coefficients`.
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

    def plot_coefficients(
        self,
        ax: "Axes | None" = None,
        exponentiate: bool = False,
        *,
        labels: Mapping[str, str] | None = None,
        terms: Sequence[str] | None = None,
        scale: str = "unit",
        estimates: bool = False,
        over: object = PUBLIC,
    ) -> "Axes":
        """Draw the coefficients with 95 % intervals, the three estimates side by side where there are three.

        The baseline of a hazard model is left out: `plot_hazard` draws it.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        exponentiate : bool
            Whether to draw the exponentials, on a logarithmic axis.
        labels : mapping of str to str, optional
            What to write in the place of terms: ``{"size[T.>50]": "tumour over 50 mm"}``; by default the labels of the
            schema.
        terms : sequence of str, optional
            Which coefficients to draw, in their order; by default all but the intercept and the baseline.
        scale : {"unit", "sd"}
            With "sd" a number's coefficient is that of one standard deviation in the rows ``over``, so that covariates
            of other units can be compared; indicators stay as they are.
        estimates : bool
            Whether to write the numbers beside the intervals.
        over : "public", DataFrame, WeightedSample, Description or Study
            The rows of the standard deviations: the public rows of this fit by default. What is drawn rests on the
            releases of a description or of a weighted sample as well.

        Raises
        ------
        ArgumentError
            If ``labels`` or ``terms`` name no coefficient, or there are no such rows.
        HdpError
            If matplotlib is not installed.
        """
        unknown = [name for name in labels or {} if name not in self.estimate.terms]
        if unknown:
            raise ArgumentError(f"labels: there is no coefficient {unknown[0]!r}; see params", argument="labels")
        standard = choice(scale, name="scale", options=("unit", "sd")) == "sd"
        label = self.facts.exponentiated if exponentiate else "coefficient"
        return plots.plot_coefficients(
            parts_of(self) or [self.estimate],
            [tables.place_of(self.estimate, term) for term in terms or ()] or covariates(self.facts, self.estimate),
            label=f"{label}, of numbers per standard deviation" if standard else label,
            exponentiate=exponentiate,
            names={**dict(zip(self.estimate.terms, coefficient_labels(self), strict=True)), **(labels or {})},
            factors=standard_deviations(self, population(self, self.public_rows, over)) if standard else None,
            numbers=estimates,
            ax=ax,
        )

    def plot_sites(self, term: str | None = None, ax: "Axes | None" = None, exponentiate: bool = False) -> "Axes":
        """Draw one coefficient as the sites estimate it together and each by itself: a forest plot.

        Diamonds are the combined estimates, as wide as the 95 % interval; squares are sites, their area the precision.

        Parameters
        ----------
        term : str, optional
            Which coefficient; the first that is not the intercept by default.
        ax, exponentiate
            See `plot_coefficients`.

        Raises
        ------
        ArgumentError
            If the result has no such coefficient, or is not of several sites.
        """
        rows = plots.forest_of_sites(self.site_facts, parts_of(self) or [self.estimate])
        place = tables.place_of(self.estimate, term)
        name = f"{self.facts.exponentiated} of " if exponentiate else ""
        label = f"{name}{coefficient_labels(self)[place]}"
        return plots.plot_forest(rows, place, label=label, exponentiate=exponentiate, ax=ax)

    def plot_calibration(self, ax: "Axes | None" = None, cause: str | None = None) -> "Axes":
        """Draw observed against predicted incidence in groups of public rows (`public_check`), one line per time.

        ``cause`` is the first one by default. ArgumentError where the fit had no public rows with outcomes that enter
        at time 0.
        """
        return plots.plot_calibration(facts=self.facts, check=self.public_check, cause=cause, ax=ax)

    def methods_text(self) -> str:
        """Return a paragraph for the methods section of a paper, with references.

        It names the model, the guarantee, the mechanism, the description of the private people that standard errors
        rest on, which records were left out, and what the intervals count; all of it is public.
        """
        return methods_text(self)

    def verify(self, *keys: VerifyingKey | str | Path) -> int:
        """Check that every release in this result was signed with one of the sites' keys; return how many there are.

        Each signature is of the release, of what was asked, and of its place in the ledger. What is computed from
        releases (coefficients, errors) is not signed: read the result again, or fit it again at no charge.

        Parameters
        ----------
        *keys
            Public keys: of the site, of each of several sites, of before a rotation; each the file STEM.pub or its
            text.

        Raises
        ------
        SignatureError
            A release is not signed, was signed with another key, or is not what was signed; the fact ``reason`` says
            which.
        ArgumentError
            The fit uses public rows alone, no key is given, or one is no public key.
        """
        if self.release is None:
            message = "the result has no release to verify: it is a fit to public rows alone"
            raise ArgumentError(message, argument="keys")
        return reporting.check_signatures(self, [VerifyingKey.read(key) for key in keys])

    def disclosure(self, form: str | None = None, *, statements: Mapping[str, Any] | None = None) -> Any:
        """Return the privacy record for an output checker, as JSON values, or a form that is filled in.

        It says which variant of differential privacy holds with which loss, which mechanisms ran, where the ledger
        keeps the release, where bounds come from, which software computed it (the version that writes this record),
        and what is not protected.

        Parameters
        ----------
        form
            Without one, a record of JSON values. ``"nist"``, ``"registry"`` and ``"text"`` are forms for readers, as
            those of a whole data set (`hdpstats.ledger.Ledger.disclosure`).
        statements
            What only the custodian knows, for a form (`hdpstats.ledger.Statements`).
        """
        return reporting.disclosure(self) if form is None else reporting.result_form(self, form, statements)

    def __repr__(self) -> str:
        cost = "public rows only" if self.guarantee is None else str(self.guarantee)
        return f"<{self.facts.model} result: {len(self.estimate.terms)} coefficients, {cost}>"

    @property
    def __maketables_coef_table__(self) -> pd.DataFrame:
        return tables.maketables(self.estimate)

    def __maketables_stat__(self, key: str) -> int | float | str | None:
        return tables.statistic(key, self.facts, self.guarantee)

    @property
    def __maketables_depvar__(self) -> str:
        return self.facts.response

    @property
    def __maketables_vcov_info__(self) -> dict[str, Any]:
        return {"vcov_type": tables.statistic("se_type", self.facts, self.guarantee), "clustervar": None}

    @property
    def __maketables_default_stat_keys__(self) -> list[str]:
        return ["N", "public_rows"] if self.guarantee is None else ["N", "public_rows", "epsilon", "delta"]

    if not TYPE_CHECKING:  # so that a type checker still knows which attributes there are

        def __getattr__(self, name: str) -> None:
            public = name not in ("released", "guarantee") and self.guarantee is None
            raise AttributeError(tables.explain(name, public=public), name=name, obj=self)
