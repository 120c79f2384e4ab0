r"""Treatment effects of separate sites in one: by inverse variance, each contrast on its own scale.

Each site has a propensity model of its own and an effect of its own, with errors that count sampling, the estimation of
the weights and all privacy noise. Differences are combined as they are, ratios and odds ratios by their logarithms:
with the variances :math:`v_i` of one contrast at the sites, and :math:`\tau^2` between them,

.. math:: \hat\theta = \sum_i w_i \theta_i \Big/ \sum_i w_i, \qquad w_i = 1 / (v_i + \tau^2),

and :math:`Q = \sum_i (\theta_i - \hat\theta)^2 / v_i` with :math:`\tau^2 = 0`; its p-value is from draws of the sites'
errors (`hdpstats.inference.meta_analysis`). It is post-processing of what the sites released, and costs nothing.

Where :math:`\tau^2` is estimated, limits and p-values are Student's with as many degrees of freedom as there are sites
less one, at the variance :math:`\max(1, q) / \sum_i w_i` with Hartung and Knapp's ``q``: normal limits take the
estimate for the truth, and of three sites that differ held theirs 84 times in 100. Else they are those of drawn errors.

Weights are one over *estimated* variances, with which ratios of few events go: by chance fewer of them among the
untreated make a ratio and the variance of its logarithm larger. Of risks of .03 to .04, at an epsilon of 2 to 3,
logarithms of combined ratios were .06 to .13 too small.

Errors of sites are taken to be independent: nobody is at two of them. What public rows tell wrongly of outcomes is the
same everywhere, and takes part in standard errors alone.
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, final

import numpy as np
import pandas as pd

from hdpstats import __version__
from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice, real
from hdpstats.display import Report, Reported, columns, named_values, number, p_equals, p_value, percent
from hdpstats.inference import draws
from hdpstats.inference.meta_analysis import (
    BETWEEN,
    agreement,
    all_drawn,
    between_variances,
    combined,
    from_model,
    from_spread,
    part_of,
    spread_variance,
)
from hdpstats.privacy.budget import Guarantee
from hdpstats.records import codec
from hdpstats.records.codec import LEFT_OUT, Record
from hdpstats.records.estimate import CochranQ, ErrorDistribution, Estimate
from hdpstats.records.saved import Saved
from hdpstats.results.aggregated import BETWEEN_WORDS, guarantees_in_words
from hdpstats.results.plots import ForestRow, plot_forest
from hdpstats.results.sites import DataSet, accounts_of, data_sets_of, stored_rows
from hdpstats.results.summary import limit_headers
from hdpstats.results.tables import frame_of
from hdpstats.results.treatment_effect import RATIOS, TIDY, TreatmentEffect, effects_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEANS: Final = 2
"""The first terms of an effect: the means of the arms, which are not combined."""

ALIKE: Final = ("treatment", "outcome", "is_binary", "arms")
"""What effects that are combined have in common, besides the bounds of a number."""

LABEL: Final = 66
"""The longest line of the label of a forest plot's axis, in characters."""

PER_SITE: Final = (
    "Each site's effect is that among its own people whose treatment was in doubt, by its own propensity model; the "
    "combination weighs sites by precision. Means of arms are not combined: they are of unlike people."
)
FREE: Final = "Combining results is post-processing: it reads released numbers and costs nothing."


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EffectOfSite(Record):
    """The effect of one site among those that are combined.

    Attributes
    ----------
    name : str
        What the site is called.
    propensity : str
        The formula of its propensity model.
    estimate : Estimate
        Its contrasts; ratios as logarithms.
    weight : float
        The total weight of both arms, in people.
    guarantee : Guarantee
        What is guaranteed to each of its people by all releases that its effect rests on.
    releases : tuple of str
        The SHA-256 of these releases.
    data_sets : tuple of DataSet
        The data sets that they were charged to.
    """

    name: str
    propensity: str
    estimate: Estimate
    weight: float
    guarantee: Guarantee
    releases: tuple[str, ...]
    data_sets: tuple[DataSet, ...]

    @property
    def accounts(self) -> frozenset[str]:
        """The accounts of its data sets; none where one of them is not known."""
        return accounts_of(self.data_sets) if all(each.account for each in self.data_sets) else frozenset()


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class CombinedEffect(Reported, Saved):
    """The effect of a treatment from effects of separate sites. `hdpstats.api.combine_effects` makes one.

    Attributes
    ----------
    outcome, treatment : str
        The columns.
    binary : bool
        Whether the outcome is binary.
    label : str
        What the outcome is called on axes.
    estimate : Estimate
        The combined contrasts; ratios as logarithms.
    sites : tuple of EffectOfSite
        The sites' own.
    between : str or None
        How the variance between sites was estimated; None where sites are taken to have the same effect.
    weights : (k, p) float64
        The weight of each site in each contrast, 1 in sum.
    tau : (p,) float64
        The standard deviation between sites.
    agreement : tuple of CochranQ
        Of each contrast, whether sites differ by more than sampling and noise explain.
    degrees : int or None
        Of freedom of Student's limits, where a variance between sites was estimated; None where limits are those of the
        sites' own errors.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(
    ...     age=hdp.Continuous(20, 90, complete=True), hormon=hdp.Binary(complete=True),
    ...     event=hdp.Binary(complete=True),
    ... )
    >>> people = hdp.datasets.load_rotterdam()
    >>> def effect(rows):
    ...     study = hdp.Study(
    ...         private=rows, public=hdp.datasets.load_gbsg(), schema=schema, budget=hdp.Budget(epsilon=4)
    ...     )
    ...     w = hdp.propensity("hormon ~ age", data=study, epsilon=2).weights("overlap")
    ...     return hdp.treatment_effect("event ~ hormon", data=study, weighting=w, epsilon=2)
    >>> found = hdp.combine_effects({"A": effect(people[:1500]), "B": effect(people[1500:])})
    >>> found
    <effect of hormon on event, of 2 sites>
    >>> found.tidy()["effect"].tolist()
    ['risk difference', 'risk ratio', 'odds ratio', 'number needed to treat']
    """

    _format: ClassVar[int] = 1
    _what: ClassVar[str] = "a combined effect"

    outcome: str
    treatment: str
    binary: bool
    label: str
    estimate: Estimate
    sites: tuple[EffectOfSite, ...]
    between: str | None
    weights: FloatArray
    tau: FloatArray
    agreement: tuple[CochranQ, ...]
    degrees: Annotated[int | None, LEFT_OUT] = None

    def tidy(self, conf_level: float = 0.95) -> pd.DataFrame:
        """Return a row per effect.

        Columns: effect, estimate, std_error, conf_low, conf_high, p_value, tau, Q, df, Q_p_value, I2. Effects
        are the difference; of risks the ratio, the odds ratio and the number needed to treat; of numbers from 0 on the
        ratio. ``tau`` is the standard deviation between sites (of logarithms of ratios), ``Q`` Cochran's
        statistic of the sites as if there were none, ``I2`` the share of it that chance does not explain.
        """
        level = real(conf_level, name="conf_level", lower=0.001, upper=0.999)
        frame = effects_frame(self.estimate, binary=self.binary, alpha=1.0 - level, means=0)
        blank = [np.nan] * (len(frame) - len(self.agreement))
        return frame.assign(
            tau=[*self.tau.tolist(), *blank],
            Q=[*(each.statistic for each in self.agreement), *blank],
            df=[*(float(each.df) for each in self.agreement), *blank],
            Q_p_value=[*(each.pvalue for each in self.agreement), *blank],
            I2=[*(each.i2 for each in self.agreement), *blank],
        )

    def by_site(self, conf_level: float = 0.95) -> pd.DataFrame:
        """Return a row per site and effect.

        Columns: site, effect, estimate, std_error, conf_low, conf_high, share, epsilon, delta. ``share`` is the
        site's weight in the combination; ``epsilon`` and ``delta`` are all that its effect cost each of its people, the
        propensity model and a stated balance included.
        """
        level = real(conf_level, name="conf_level", lower=0.001, upper=0.999)
        rows = []
        for site, shares in zip(self.sites, self.weights, strict=True):
            frame = effects_frame(site.estimate, binary=self.binary, alpha=1.0 - level, means=0)
            cost = float(site.guarantee.epsilon), float(site.guarantee.delta)
            for row, share in zip(frame.to_dict("records"), shares.tolist(), strict=False):  # not the number needed
                rows.append((site.name, *(row[name] for name in TIDY[:5]), share, *cost))
        return frame_of(rows, texts=("site", "effect"), numbers=(*TIDY[1:5], "share", "epsilon", "delta"))

    def heterogeneity(self, effect: str | None = None) -> CochranQ:
        """Return Cochran's Q of an effect, by default of the difference."""
        return self.agreement[self._place(effect)]

    def glance(self) -> pd.DataFrame:
        """Return one row: outcome, treatment, sites (their number), weight, Q, df, Q_p_value, I2, epsilon, delta.

        The weight is that of all, in people. Q is that of the difference; epsilon and delta are the largest of a site.
        """
        found = self.heterogeneity()
        return pd.DataFrame(
            {
                "outcome": [self.outcome],
                "treatment": [self.treatment],
                "sites": [len(self.sites)],
                "weight": [sum(site.weight for site in self.sites)],
                "Q": [found.statistic],
                "df": [found.df],
                "Q_p_value": [found.pvalue],
                "I2": [found.i2],
                "epsilon": [max(float(site.guarantee.epsilon) for site in self.sites)],
                "delta": [max(float(site.guarantee.delta) for site in self.sites)],
            }
        )

    def plot(self, effect: str | None = None, ax: "Axes | None" = None) -> "Axes":
        """Draw a forest plot: the combined effect (a diamond) and each site's (a square), with 95 % intervals.

        Parameters
        ----------
        effect
            A name of `tidy` but the number needed to treat; by default the difference. Ratios are drawn on a
            logarithmic axis.
        ax
            Where to draw; a new figure by default.
        """
        place = self._place(effect)
        name = self.estimate.terms[place]
        rows = [ForestRow(label="all sites", depth=0, estimate=self.estimate, is_group=True)]
        rows += [ForestRow(label=site.name, depth=1, estimate=site.estimate, is_group=False) for site in self.sites]
        label = textwrap.fill(f"{name}{'' if self.binary else ' of means'}: {self.label}", LABEL)
        return plot_forest(rows, place, label=label, exponentiate=name in RATIOS, ax=ax)

    def _place(self, effect: str | None) -> int:
        terms = self.estimate.terms
        return terms.index(choice(effect, name="effect", options=terms)) if effect is not None else 0

    def methods_text(self) -> str:
        """Return a paragraph for a paper: what was combined, how, and what it cost at each site."""
        found = self.heterogeneity()
        how = (
            "sites were taken to have the same effect"
            if self.between is None
            else f"a variance between sites was estimated ({BETWEEN_WORDS[self.between]})"
        )
        limits = "" if self.degrees is None else f" Limits and p-values are {self._student()}."
        costs = "; ".join(f"{site.name}: {site.guarantee}" for site in self.sites)
        formulas = list(dict.fromkeys(site.propensity for site in self.sites))
        models = formulas[0] if len(formulas) == 1 else "; ".join(formulas)
        return (
            f"The effect of {self.treatment} on {self.outcome} was estimated at each of {len(self.sites)} sites, among "
            f"its people weighted by overlap weights from a propensity model of its own ({models}), and combined by "
            f"inverse variance: {how}.{limits} Differences were combined as they are, ratios by their logarithms. "
            f"Sites' differences had Cochran's Q = {found.statistic:.2f} on {found.df} degrees of freedom "
            f"({p_equals(found.pvalue)}; I2 {percent(found.i2)}). Standard errors count sampling, the estimation of "
            f"the weights and all privacy noise. The releases of each site kept differential privacy: {costs}. "
            f"Combining them read released numbers alone. Computed with hdpstats {__version__}."
        )

    def _report(self, alpha: float = 0.05) -> Report:
        table, floor = self.tidy(1.0 - alpha), self.estimate.p_floor
        tested = "P>|z|" if self.degrees is None else "P>|t|"
        rows = [
            [
                *(number(row[name], 3) for name in ("estimate", "std_error")),
                "" if np.isnan(row["p_value"]) else p_value(row["p_value"], floor),
                *(number(row[name], 3) if np.isfinite(row[name]) else "" for name in ("conf_low", "conf_high")),
            ]
            for row in table.to_dict("records")
        ]
        return Report(
            title=f"Effect of {self.treatment} on {self.outcome}, of {len(self.sites)} sites, differentially private",
            heading=f"Effect of {self.treatment} on {self.outcome}, of {len(self.sites)} sites",
            blocks=[
                named_values(self._head()),
                columns(["estimate", "std err", tested, *limit_headers(alpha)], table["effect"].tolist(), rows),
                self._agreement_block(),
                self._sites_block(alpha),
            ],
            notes=[PER_SITE, FREE],
            badges=[f"{len(self.sites)} sites", "post-processing"],
        )

    def _agreement_block(self) -> Any:
        cells = [
            [f"{each.statistic:.2f}", str(each.df), p_value(each.pvalue, 0.0), percent(each.i2), number(tau, 2)]
            for each, tau in zip(self.agreement, self.tau.tolist(), strict=True)
        ]
        headers = ["Cochran's Q", "df", "p", "I2", "tau"]
        return columns(headers, list(self.estimate.terms), cells, title="Do the sites agree?")

    def _sites_block(self, alpha: float) -> Any:
        frame = self.by_site(1.0 - alpha)
        own = frame[frame["effect"] == self.estimate.terms[0]].to_dict("records")
        cells = [
            [*(number(row[name], 3) for name in TIDY[1:5]), percent(row["share"]), f"{row['epsilon']:.6g}"]
            for row in own
        ]
        headers = [self.estimate.terms[0], "std err", *limit_headers(alpha), "share", "epsilon"]
        return columns(headers, [row["site"] for row in own], cells, title=f"Sites: {self.estimate.terms[0]}")

    def _head(self) -> list[tuple[str, str]]:
        formulas = list(dict.fromkeys(site.propensity for site in self.sites))
        rows = [
            ("Propensity models:", "; ".join(formulas) + ", one of each site"),
            ("Weight, in people:", f"{sum(site.weight for site in self.sites):.0f}"),
            ("Sites:", BETWEEN_WORDS[self.between].replace("parameters", "effect")),
        ]
        own = "from the errors of the sites: sampling and privacy noise"
        rows += [("Limits:", own if self.degrees is None else self._student())]
        rows += stored_rows([each for site in self.sites for each in site.data_sets])
        words = guarantees_in_words([(site.accounts, site.guarantee) for site in self.sites])
        return rows + [("" if place else "Privacy:", each) for place, each in enumerate(words)]

    def _student(self) -> str:
        freedom = "1 degree" if self.degrees == 1 else f"{self.degrees} degrees"
        return (
            f"by Student's distribution with {freedom} of freedom (Hartung and Knapp), never narrower than for sites "
            "that have the same effect"
        )

    def __repr__(self) -> str:
        return f"<effect of {self.treatment} on {self.outcome}, of {len(self.sites)} sites>"


def combine_effects(
    effects: Mapping[str, TreatmentEffect] | Sequence[TreatmentEffect], *, between: str | None = None
) -> CombinedEffect:
    """Combine treatment effects of separate sites, each with a propensity model of its own: post-processing.

    Where one logistic model describes who is treated at all sites, a study of all of them has less noise
    (``hdp.Study(private={"A": ..., "B": ...})``). Where they treat by different rules, or only results can leave them,
    each estimates its own effect, and these are combined by inverse variance, difference, ratio and odds ratio each on
    its own scale, with Cochran's Q and I2.

    Parameters
    ----------
    effects
        Results of `hdpstats.api.treatment_effect` by name of the site; those of a list are called 1, 2, .... All are of
        the same outcome and treatment; nobody is in two of them (effects of one account are refused).
    between
        How a variance between sites is estimated: ``"paule_mandel"`` or ``"dersimonian_laird"``. Limits are Student's
        then, with one degree of freedom less than there are sites (Hartung and Knapp): 13 standard errors to each side
        for two sites, 4.3 for three, 2.8 for five. None takes sites to have the same effect.

    Returns
    -------
    CombinedEffect
        ``tidy()``, ``by_site()``, ``plot()``, and what each site's effect cost in all.

    Raises
    ------
    ArgumentError
        If there are fewer than two effects, they are of other outcomes or of the same people, or one of them has an arm
        with too little weight for its noise.

    Examples
    --------
    See `hdpstats.api.CombinedEffect`.
    """
    members = _members(effects)
    method = None if between is None else choice(between, name="between", options=BETWEEN)
    rng = draws.generator(codec.sha256([each for site in members for each in site.releases]))
    alone = all_drawn([part_of(site.estimate, rng) for site in members], rng)
    values, variances = (np.array([getattr(part, name) for part in alone]) for name in ("values", "variances"))
    squares = np.zeros(values.shape[1])
    if method is not None:
        squares = between_variances([values], [variances], method=method)
    weights, alike = _shares(variances + squares), combined(alone, weights=_diagonal(_shares(variances)))
    estimate = from_model(alike, label="all sites", terms=members[0].estimate.terms)
    if method is not None:
        together = combined([part.apart(squares, rng) for part in alone], weights=_diagonal(weights))
        estimate = from_spread(
            together,
            np.maximum(spread_variance(values, weights), together.variances),
            label=estimate.label,
            terms=estimate.terms,
            degrees=len(members) - 1,
            alike=estimate,
        )
    first = next(iter(_named(effects).values()))
    return CombinedEffect(
        outcome=first.outcome,
        treatment=first.treatment,
        binary=first.is_binary,
        label=f"{first.schema.label(first.outcome)}, {_arms(first)}",
        estimate=estimate,
        sites=members,
        between=method,
        weights=weights,
        tau=np.sqrt(squares),
        agreement=agreement(alone),
        degrees=None if method is None else len(members) - 1,
    )


def _shares(variances: FloatArray) -> FloatArray:
    """Return weights in proportion to one over variances (k, p), 1 in sum."""
    return np.asarray((1.0 / variances) / (1.0 / variances).sum(axis=0))


def _diagonal(weights: FloatArray) -> FloatArray:
    return np.array([np.diag(each) for each in weights])


def _arms(effect: TreatmentEffect) -> str:
    untreated, treated = effect.arms
    return f"{effect.schema.label(effect.treatment)} = {treated} against {untreated}"


def _named(effects: object) -> dict[str, TreatmentEffect]:
    """Return effects by name, or refuse what is no list or dictionary of two effects or more."""
    listed: Any = effects
    if isinstance(effects, Sequence) and not isinstance(effects, str | bytes):
        listed = {str(place): each for place, each in enumerate(effects, start=1)}
    known = isinstance(listed, Mapping) and all(isinstance(name, str) and name for name in listed)
    if not known or len(listed) < 2 or not all(isinstance(each, TreatmentEffect) for each in listed.values()):
        raise ArgumentError(
            "effects must be a dictionary from names of sites to what hdp.treatment_effect returned, or a list of "
            "such, two or more",
            argument="effects",
        )
    return dict(listed)


def _members(effects: object) -> tuple[EffectOfSite, ...]:
    """Return the sites that are combined, or refuse effects that are not alike, not apart or not known."""
    named = _named(effects)
    like_name, like = next(iter(named.items()))
    for name, effect in named.items():
        differs = [what for what in ALIKE if getattr(effect, what) != getattr(like, what)]
        if differs or (effect.query.lower, effect.query.upper) != (like.query.lower, like.query.upper):
            what = differs[0].removeprefix("is_") if differs else "range of the outcome"
            raise ArgumentError(
                f"effects must be of one outcome and treatment, declared alike: {name!r} has another {what} than "
                f"{like_name!r}",
                argument="effects",
            )
        if not np.isfinite(effect.estimate.values).all():
            raise ArgumentError(
                f"effects: an arm of {name!r} has too little weight for its noise, and so no effect to combine; leave "
                "it out, or ask there with more epsilon",
                argument="effects",
            )
    members = tuple(_member(name, effect) for name, effect in named.items())
    _check_apart(members)
    return members


def _member(name: str, effect: TreatmentEffect) -> EffectOfSite:
    releases = effect.all_releases
    return EffectOfSite(
        name=name,
        propensity=effect.query.weighting.formula,
        estimate=_contrasts(effect.estimate),
        weight=float(effect.cells.totals.sum()),
        guarantee=effect.guarantee,
        releases=tuple(each.sha256 for each in releases),
        data_sets=data_sets_of(releases, ()),
    )


def _contrasts(estimate: Estimate) -> Estimate:
    """Return the contrasts of an effect, with the distribution of each by itself."""
    known, kept = estimate.distribution, slice(MEANS, None)
    return Estimate(
        label=estimate.label,
        terms=estimate.terms[kept],
        values=estimate.values[kept],  # noqa: PD011
        sampling=estimate.sampling[kept, kept],
        privacy=estimate.privacy[kept, kept],
        distribution=None
        if known is None
        else ErrorDistribution(levels=known.levels, quantiles=known.quantiles[:, kept]),
    )


def _check_apart(members: Sequence[EffectOfSite]) -> None:
    """Refuse effects of the same people: errors are taken to be independent, and guarantees would add up."""
    for place, one in enumerate(members):
        for other in members[:place]:
            accounts = accounts_of(one.data_sets) & accounts_of(other.data_sets)
            apart = one.accounts and other.accounts
            if accounts or (not apart and set(one.releases) & set(other.releases)):
                raise ArgumentError(
                    f"effects must be of different people: {other.name!r} and {one.name!r} were charged to one "
                    "account. Combined as if they were independent their errors would be too small; keep one of them, "
                    "or ask once with a larger epsilon",
                    argument="effects",
                )
