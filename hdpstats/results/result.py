"""The result of a fit: one class for every model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import choice, real
from hdpstats.display import Report, Reported
from hdpstats.privacy.budget import Guarantee
from hdpstats.public.follow_up import PublicCheck
from hdpstats.records.estimate import Estimate, Heterogeneity
from hdpstats.records.query import LedgerEntry, Query, Release
from hdpstats.records.saved import Saved
from hdpstats.results import comparison, plots, reporting, tables
from hdpstats.results.averaged import Averaged
from hdpstats.results.evaluation import NOT_CHECKED, DeferredCheck
from hdpstats.results.facts import covariates
from hdpstats.results.population import NO_ROWS, PUBLIC, FittedRows, population, standard_deviations
from hdpstats.results.prediction import Predictor
from hdpstats.results.reporting import methods_text
from hdpstats.results.sites import NOTHING_RELEASED, Counts, Released, SiteContribution, sites_table
from hdpstats.results.summary import parts_of, report_of
from hdpstats.results.tested import ESTIMATES, Disagreement, Tested

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Result(Predictor, Tested, Averaged, Reported, Saved):
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
    Tables of several results for a paper: ``maketables.ETable([result, other], model_stats=["N", "se_type"],
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
        found, public, private = self.released.disagreement, self.penalised, self.private_only
        if found is None or public is None or private is None:
            return None
        return Disagreement(found=found, public=public, private=private)

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
            What to write in the place of terms: ``{"size[T.>50]": "tumour over 50 mm"}``.
        terms : sequence of str, optional
            Which coefficients to draw, in their order; by default all but the intercept and the baseline.
        scale : {"unit", "sd"}
            With "sd" a number's coefficient is that of one standard deviation in the rows ``over``, so that covariates
            of other units can be compared; indicators stay as they are.
        estimates : bool
            Whether to write the numbers beside the intervals.
        over : "public", DataFrame, WeightedSample or Study
            The rows of the standard deviations: the public rows of this fit by default.

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
            names=labels,
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
        label = f"{name}{self.estimate.terms[place]}"
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

    def disclosure(self) -> dict[str, Any]:
        """Return the privacy record for an output checker, as JSON values.

        It says which variant of differential privacy holds with which loss, which mechanisms ran, where the ledger
        keeps the release, where bounds come from, which software computed it (the version that writes this record),
        and what is not protected.
        """
        return reporting.disclosure(self)

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
