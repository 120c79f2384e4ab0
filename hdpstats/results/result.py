"""The result of a fit: one class for every model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import real
from hdpstats.display import EscapedSummary
from hdpstats.inference.across_sites import Heterogeneity
from hdpstats.inference.sandwich import Estimates
from hdpstats.mechanisms.count.query import CountRelease
from hdpstats.privacy.guarantee import Guarantee
from hdpstats.public.check import PublicCheck
from hdpstats.records.estimate import Estimate
from hdpstats.records.query import LedgerEntry, Query, Release
from hdpstats.records.sites import SitesRelease
from hdpstats.results import (
    comparing,
    disclosure,
    forest,
    plotting,
    prediction,
    refused,
    serialization,
    survival,
    survival_plots,
    tables,
)
from hdpstats.results.comparison import Comparison
from hdpstats.results.facts import ModelFacts
from hdpstats.results.fit_record import Purchase
from hdpstats.results.page import result_page
from hdpstats.results.sites import SiteContribution, forest_rows, sites_table
from hdpstats.results.summary import summarise
from hdpstats.schema.schema import Schema

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Result:
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
        The three estimates side by side, where public rows were used.
    query : Query or None
        What was asked of the site; None for a fit to public rows alone.
    release : Release or None
        What the site answered.
    guarantee : Guarantee or None
        What the release promises to every person in the private records.
    public_check : PublicCheck or None
        How a hazard model does on the public rows: concordance, Brier scores, calibration.
    count : CountRelease, SitesRelease or None
        The noisy number of private records (of each site), bought where it is protected; the guarantee includes it.
    site_facts : tuple of SiteContribution
        What each site contributed; `sites` is their table.
    heterogeneity : Heterogeneity or None
        Whether several sites agree: Cochran's Q, in all coefficients and in each.

    Raises
    ------
    ArgumentError
        If query, release and guarantee are not given together.

    Examples
    --------
    A fit hands out a result; one made by hand from known numbers:

    >>> import numpy as np
    >>> from hdpstats.schema.columns import Binary, Continuous
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
    ...     facts=facts, schema=Schema(age=Continuous(20, 90), dead=Binary()), estimate=estimate, public_only=None,
    ...     private_only=None, pooled=None, query=None, release=None, guarantee=None,
    ... )
    >>> result
    <Logit result: 2 coefficients, public rows only>
    >>> result.odds_ratios().loc["age"].round(3).to_dict()
    {'estimate': 1.051, 'conf_low': 1.031, 'conf_high': 1.072, 'std_error': 0.011}
    >>> result.predict(pd.DataFrame({"age": [60, 80]})).round(3).tolist()
    [0.5, 0.731]
    """

    facts: ModelFacts
    schema: Schema
    estimate: Estimate
    public_only: Estimate | None
    private_only: Estimate | None
    pooled: Estimate | None
    query: Query | None
    release: Release | None
    guarantee: Guarantee | None
    public_check: PublicCheck | None = None
    count: CountRelease | SitesRelease | None = None
    site_facts: tuple[SiteContribution, ...] = ()
    heterogeneity: Heterogeneity | None = None

    def __post_init__(self) -> None:
        """Refuse a release without a guarantee and a guarantee without a release."""
        given = {part is None for part in (self.query, self.release, self.guarantee)}
        if len(given) > 1:
            raise ArgumentError("query, release and guarantee must be given together or not at all", argument="release")

    @classmethod
    def of(
        cls,
        *,
        facts: ModelFacts,
        schema: Schema,
        estimates: Estimates,
        purchase: Purchase,
        public_check: PublicCheck | None = None,
    ) -> "Result":
        """Return the result of a private fit from its parts."""
        return cls(
            facts=facts,
            schema=schema,
            estimate=estimates.chosen,
            public_only=estimates.public_only,
            private_only=estimates.private_only,
            pooled=estimates.pooled,
            query=purchase.query,
            release=purchase.release,
            guarantee=purchase.guarantee,
            public_check=public_check,
            count=purchase.count,
            site_facts=purchase.sites,
            heterogeneity=purchase.heterogeneity,
        )

    @property
    def params(self) -> "pd.Series[float]":
        """The coefficients by term."""
        return self.estimate.params

    @property
    def bse(self) -> "pd.Series[float]":
        """Standard errors of the coefficients: sampling and privacy noise together."""
        return self.estimate.bse

    @property
    def tvalues(self) -> "pd.Series[float]":
        """Coefficients over standard errors."""
        return self.estimate.tvalues

    @property
    def pvalues(self) -> "pd.Series[float]":
        """Two-sided p-values for a zero coefficient."""
        return self.estimate.pvalues

    @property
    def cov_sampling(self) -> pd.DataFrame:
        """Covariance of the coefficients due to sampling (p, p)."""
        return self.estimate.cov_sampling

    @property
    def cov_privacy(self) -> pd.DataFrame:
        """Covariance of the coefficients due to privacy noise (p, p); zero for a public fit."""
        return self.estimate.cov_privacy

    @property
    def ledger_entry(self) -> LedgerEntry | None:
        """Where the custodian's ledger keeps the release; None for several sites, whose entries `sites` has."""
        return None if self.release is None else self.release.entry

    @property
    def sites(self) -> pd.DataFrame:
        """What each site contributed, a row per site: public facts only.

        Columns site, status ("answered", or which round it did not answer and why), records, epsilon, delta, rounds,
        weight (its share of the combined private estimate), dataset and entry (where its ledger keeps the last
        release). Every person is at one site, and pays that site's epsilon.
        """
        return sites_table(self.site_facts)

    def cov_params(self) -> pd.DataFrame:
        """Return the covariance of the coefficients (p, p): ``cov_sampling + cov_privacy``."""
        return self.estimate.cov_params()

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return confidence limits of level ``1 - alpha``, columns 0 and 1; ``alpha`` in [0.001, 0.999]."""
        return self.estimate.conf_int(alpha)

    def summary(self, alpha: float = 0.05) -> EscapedSummary:
        """Return statsmodels' `Summary`: the coefficients, the estimates side by side, the privacy block.

        ``print`` shows its text; ``as_html()``, ``as_latex()`` and ``as_csv()`` give the other forms. ``alpha`` in
        [0.001, 0.999] is one minus the level of the intervals.
        """
        return summarise(
            facts=self.facts,
            estimate=self.estimate,
            parts=self._parts(),
            purchase=self._purchase(),
            check=self.public_check,
            alpha=real(alpha, name="alpha", lower=0.001, upper=0.999),
        )

    def tidy(self, exponentiate: bool = False, conf_level: float = 0.95) -> pd.DataFrame:
        """Return one row per coefficient, in broom's words.

        Columns term, estimate, std_error, statistic, p_value, conf_low, conf_high. ``exponentiate`` applies to the
        estimate and its limits, as in broom, not to the standard error. ``conf_level`` in [0.001, 0.999].
        """
        return tables.tidy(self.estimate, exponentiate=exponentiate, conf_level=conf_level)

    def glance(self) -> pd.DataFrame:
        """Return one row of public facts; ``nobs`` is the number of private records, noisy where it is protected."""
        return tables.glance(self.facts, self.estimate, self.guarantee)

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
    ) -> Comparison:
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
        other = reference._fitted() if isinstance(reference, Result) else reference
        return comparing.compare(self._fitted(), other, cause=cause, label=label)

    def rate_ratios(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return rate ratios by term: estimate, conf_low, conf_high, std_error, as `odds_ratios`.

        Incidence rate ratios of a Poisson model, ratios of the rates of an event of an exponential one. The exponential
        of the intercept is the mean, or the rate per unit of time, where every covariate is 0.
        """
        return tables.ratios(self.facts, self.estimate, kind="rate ratio", alpha=alpha)

    def predict(self, frame: pd.DataFrame, ci: bool = False, alpha: float = 0.05) -> "pd.Series[float] | pd.DataFrame":
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

        Returns
        -------
        Series or DataFrame
            The means with the frame's index, NaN where a covariate is missing; with ``ci`` the columns predicted,
            conf_low and conf_high.

        Raises
        ------
        SchemaError
            If a column is absent, a level is not declared or a transform is not defined for a value.
        ArgumentError
            If ``frame`` is no DataFrame, a coefficient is not identified, or this is a hazard model.
        """
        return prediction.predict(
            facts=self.facts, schema=self.schema, estimate=self.estimate, frame=frame, ci=ci, alpha=alpha
        )

    def baseline_hazard(self, alpha: float = 0.05, at: pd.DataFrame | None = None) -> pd.DataFrame:
        """Return the probability of the event in each interval for those who reach it, where every covariate is 0.

        ``at`` is one row with other covariates. Columns interval, start, stop, cause (where there are several), hazard,
        conf_low, conf_high; the limits are those of the linear predictor (`cov_params`). Errors: `predict_survival`.
        """
        return survival.baseline_hazard(self._fitted(), at, alpha=alpha)

    def predict_hazard(self, frame: pd.DataFrame, ci: bool = False, alpha: float = 0.05) -> pd.DataFrame:
        """Return the hazards of public rows: for each row (its label in the frame) a row per interval and cause.

        Columns row, interval, start, stop, cause (where there are several), hazard and, with ``ci``, conf_low and
        conf_high as in `baseline_hazard`. The frame and the errors are those of `predict_survival`.
        """
        return survival.predict_hazard(self._fitted(), frame, ci=ci, alpha=alpha)

    def predict_survival(
        self, frame: pd.DataFrame, times: float | Iterable[float] | None = None, ci: bool = True, alpha: float = 0.05
    ) -> pd.DataFrame:
        r"""Return the probability that nothing has happened to public rows by certain times.

        :math:`S(t) = \prod_s (1 - \sum_k p_{ks})` over the intervals that have ended by ``t``, with the hazards
        :math:`p_{ks}` of all causes: a step function that is 1 at time 0 and falls at the ends of intervals.

        Parameters
        ----------
        frame : DataFrame
            Public rows as for `predict`; outcome and entry times are not needed.
        times : number or iterable of numbers, optional
            Times from 0 up to the horizon; 0 and the end of every interval by default.
        ci : bool
            Whether to return pointwise limits, by the delta method on :math:`\log(-\log S)` and the normal
            distribution. They allow for sampling and privacy noise (`cov_params`), and are NaN where the standard
            errors are.
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
        return survival.predict_survival(self._fitted(), frame, times, ci=ci, alpha=alpha)

    def predict_incidence(
        self, frame: pd.DataFrame, times: float | Iterable[float] | None = None, ci: bool = True, alpha: float = 0.05
    ) -> pd.DataFrame:
        r"""Return the probability that an event of each cause has happened to public rows by certain times.

        :math:`F_k(t) = \sum_s S_{s-1} p_{ks}` over the intervals that have ended by ``t`` (Aalen and Johansen 1978):
        the incidences and event-free survival add up to 1. Arguments and errors are those of `predict_survival`.
        Columns row, cause (where there are several), time, incidence and, with ``ci``, conf_low and conf_high, by the
        delta method on :math:`\log(-\log(1 - F))`.
        """
        return survival.predict_incidence(self._fitted(), frame, times, ci=ci, alpha=alpha)

    def predict_median(self, frame: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
        """Return median event-free times of public rows: columns median, conf_low, conf_high, the frame's index.

        The median is the end of the first interval by which survival is 0.5 or less, and the limits are where those of
        survival are (Brookmeyer and Crowley 1982); infinite where that is not reached, NaN where a covariate or the
        standard errors are missing. Errors are those of `predict_survival`.
        """
        return survival.predict_median(self._fitted(), frame, alpha=alpha)

    def plot_coefficients(self, ax: "Axes | None" = None, exponentiate: bool = False) -> "Axes":
        """Draw the coefficients with 95 % intervals, the three estimates side by side where there are three.

        The baseline of a hazard model is left out: `plot_hazard` draws it.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        exponentiate : bool
            Whether to draw the exponentials, on a logarithmic axis.

        Raises
        ------
        HdpError
            If matplotlib is not installed.
        """
        label = self.facts.exponentiated if exponentiate else "coefficient"
        parts = self._parts() or [self.estimate]
        places = tables.covariates(self.facts, self.estimate)
        return plotting.plot_coefficients(parts, places, label=label, exponentiate=exponentiate, ax=ax)

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
        rows = forest_rows(self.site_facts, self._parts() or [self.estimate])
        place = tables.place_of(self.estimate, term)
        name = f"{self.facts.exponentiated} of " if exponentiate else ""
        label = f"{name}{self.estimate.terms[place]}"
        return forest.plot(rows, place, label=label, exponentiate=exponentiate, ax=ax)

    def plot_survival(
        self,
        frame: pd.DataFrame | None = None,
        ax: "Axes | None" = None,
        ci: bool = True,
        labels: Sequence[str] | None = None,
    ) -> "Axes":
        """Draw event-free survival of public rows as steps with pointwise 95 % bands (sampling and privacy noise).

        ``frame`` has one to seven rows, named by ``labels`` or by its index; by default the curve is at the model's
        typical covariates (`facts`), or at zeros where it has none. Errors: `predict_survival`, `plot_coefficients`.
        """
        return survival_plots.plot_survival(self._fitted(), frame, labels=labels, ci=ci, ax=ax)

    def plot_hazard(self, ax: "Axes | None" = None, ci: bool = True, at: pd.DataFrame | None = None) -> "Axes":
        """Draw the hazard of every interval with pointwise 95 % bands, a curve per cause.

        ``at`` is one public row; by default the curves are at the covariates of `plot_survival`. Errors are the same.
        """
        return survival_plots.plot_hazard(self._fitted(), at, ci=ci, ax=ax)

    def plot_calibration(self, ax: "Axes | None" = None, cause: str | None = None) -> "Axes":
        """Draw observed against predicted incidence in groups of public rows (`public_check`), one line per time.

        ``cause`` is the first one by default. ArgumentError where the fit had no public rows with outcomes that enter
        at time 0.
        """
        return survival_plots.plot_calibration(facts=self.facts, check=self.public_check, cause=cause, ax=ax)

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """Return the result as JSON text, and write it to a file where a path is given. Nothing is rounded."""
        text = serialization.write(
            serialization.Fields(
                facts=self.facts,
                schema=self.schema,
                estimate=self.estimate,
                public_only=self.public_only,
                private_only=self.private_only,
                pooled=self.pooled,
                query=self.query,
                release=self.release,
                guarantee=self.guarantee,
                public_check=self.public_check,
                count=self.count,
                site_facts=self.site_facts,
                heterogeneity=self.heterogeneity,
            )
        )
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    @classmethod
    def from_json(cls, path_or_text: str | PathLike[str]) -> "Result":
        """Read what `to_json` wrote, from a file or from the text itself.

        Raises
        ------
        ArgumentError
            If there is no such file, or the text is not a result of a format that this version reads.
        """
        return cls(**serialization.read(serialization.text_of(path_or_text)))

    def disclosure(self) -> dict[str, Any]:
        """Return the privacy record for an output checker, as JSON values.

        It says which variant of differential privacy holds with which loss, which mechanisms ran, where the ledger
        keeps the release, where bounds come from, which software computed it (the version that writes this record),
        and what is not protected.
        """
        return disclosure.disclosure(facts=self.facts, schema=self.schema, purchase=self._purchase())

    def _fitted(self) -> survival.Fitted:
        return survival.Fitted(facts=self.facts, schema=self.schema, estimate=self.estimate)

    def _purchase(self) -> Purchase:
        return Purchase(
            query=self.query,
            release=self.release,
            guarantee=self.guarantee,
            count=self.count,
            sites=self.site_facts,
            heterogeneity=self.heterogeneity,
        )

    def _parts(self) -> list[Estimate]:
        """Return the estimates to show side by side."""
        return [part for part in (self.public_only, self.private_only, self.pooled) if part is not None]

    def __str__(self) -> str:
        return self.summary().as_text()

    def __repr__(self) -> str:
        promise = "public rows only" if self.guarantee is None else str(self.guarantee)
        return f"<{self.facts.model} result: {len(self.estimate.terms)} coefficients, {promise}>"

    def _repr_html_(self) -> str:
        return result_page(
            facts=self.facts,
            estimate=self.estimate,
            parts=self._parts(),
            purchase=self._purchase(),
            check=self.public_check,
        )

    def _repr_latex_(self) -> str:
        return self.summary().as_latex()

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
            public = name != "guarantee" and self.guarantee is None
            raise AttributeError(refused.explain(name, public=public), name=name, obj=self)
