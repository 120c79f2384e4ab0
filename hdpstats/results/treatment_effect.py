"""The effect of a treatment among people weighted by their chance of it: means by arm and their contrasts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Protocol, final, runtime_checkable

import numpy as np
import pandas as pd
from scipy.special import chdtrc

from hdpstats import __version__
from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import real
from hdpstats.display import Report, Reported, columns, named_values, number, p_equals, p_value, percent
from hdpstats.inference.meta_analysis import scatter
from hdpstats.mechanisms.treatment_effect import TreatmentEffectQuery, TreatmentEffectRelease
from hdpstats.mechanisms.treatment_effect.estimate import Cells, cells_of
from hdpstats.privacy.budget import Guarantee
from hdpstats.privacy.proof_index import PRIVACY, PROOFS
from hdpstats.records.codec import NAN_IS_NULL, Record
from hdpstats.records.estimate import CochranQ, Estimate
from hdpstats.records.query import LedgerEntry, Release
from hdpstats.records.saved import Saved
from hdpstats.records.several import answers_in
from hdpstats.results.adjustment import Imbalance, largest_imbalance
from hdpstats.results.plots import plot_effects
from hdpstats.results.reporting import (
    accounting_of,
    filled_form,
    guarantee_sentence,
    ledger_entry,
    privacy_record,
    query_sha256,
)
from hdpstats.results.summary import (
    guarantee_badges,
    guarantee_details,
    guarantee_rows,
    limit_headers,
    privacy_blocks,
)
from hdpstats.results.tables import cost_columns, frame_of
from hdpstats.schema.columns import Binary
from hdpstats.schema.schema import Schema, labels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DIFFERENCE: Final = {True: "risk difference", False: "difference"}
"""What the difference of means is called, of risks and of numbers."""

RATIOS: Final = ("risk ratio", "odds ratio", "ratio")
"""Effects whose estimates are exponentials of what is estimated."""

TIDY: Final = ("effect", "estimate", "std_error", "conf_low", "conf_high", "p_value")

NEEDED: Final = "number needed to treat"
DRAWN: Final = (
    "Standard errors, limits and p-values are from draws of the error: sampling of outcomes and of the propensity "
    "model together, and all privacy noise."
)
TARGET: Final = (
    "Weighted by overlap (treated by 1 less their chance of treatment, untreated by that chance): the effect is that "
    "among people whose treatment was in doubt."
)
NO_LIMITS: Final = "The number needed to treat has no limits where those of the difference are on both sides of 0."
NOT_CLEAR: Final = "N/A: an arm has too little weight for the noise, so that its mean would say nothing."


BALANCE: Final = "the balance"
"""What the releases of a balance table are called among those that are stated."""


@runtime_checkable
class HasBalance(Protocol):
    """A balance table (`hdpstats.describe.Balance`)."""

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed by all of its releases."""

    @property
    def propensity(self) -> tuple[Release, ...]:
        """The releases of the propensity model."""

    @property
    def releases(self) -> tuple[Release, ...]:
        """Its own releases."""

    def glance(self) -> pd.DataFrame:
        """Return one row, with the largest differences."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class BalanceBeside(Record):
    """A balance table that is stated with an effect.

    Attributes
    ----------
    releases : tuple of Release
        Its releases.
    largest : float
        The largest standardised difference of the weighted arms, noise included.
    """

    releases: tuple[Release, ...]
    largest: Annotated[float, NAN_IS_NULL]


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class TreatmentEffect(Reported, Saved):
    """The effect of a treatment. `hdpstats.api.treatment_effect` makes one.

    Attributes
    ----------
    schema : Schema
        The declared columns.
    formula : str
        ``"outcome ~ treatment"``.
    treatment : str
        The column of the treatment.
    estimate : Estimate
        The means by arm and their contrasts; ratios as logarithms.
    queries, releases : tuple of (str, TreatmentEffectQuery) and of (str, TreatmentEffectRelease)
        What each site was asked and what it answered.
    missing : tuple of (str, str)
        The sites that did not answer, and why.
    guarantee : Guarantee
        What is guaranteed to every person by all releases that the effect rests on: its own and the propensity's.
    before : tuple of Release
        The releases of the propensity model.
    imbalance : tuple of Imbalance
        What the noise of the propensity is expected to leave.
    effective_share : float
        Kish's effective size over the number of people, predicted among raked public people.
    public_rows : int
        The public rows that errors rest on.
    per_weight : tuple of float
        Of each arm the sampling variance of its mean's place in the range, at weights that do not move, times its
        weight.
    beside : BalanceBeside or None
        The balance table that is stated with the effect (`with_balance`).

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(
    ...     age=hdp.Continuous(20, 90, complete=True), hormon=hdp.Binary(complete=True),
    ...     event=hdp.Binary(complete=True),
    ... )
    >>> study = hdp.Study(
    ...     private=hdp.datasets.load_rotterdam(), public=hdp.datasets.load_gbsg(), schema=schema,
    ...     budget=hdp.Budget(epsilon=2),
    ... )
    >>> w = hdp.propensity("hormon ~ age", data=study, epsilon=1).weights("overlap")
    >>> effect = hdp.treatment_effect("event ~ hormon", data=study, weighting=w, epsilon=1)
    >>> effect.tidy()["effect"].tolist()
    ['risk, hormon = 0', 'risk, hormon = 1', 'risk difference', 'risk ratio', 'odds ratio', 'number needed to treat']
    >>> print(effect.guarantee)
    2-differential privacy (pure) in all: 1 for the effect, 1 for the propensity model
    """

    _format: ClassVar[int] = 1
    _what: ClassVar[str] = "a treatment effect"

    schema: Schema
    formula: str
    treatment: str
    estimate: Estimate
    queries: tuple[tuple[str, TreatmentEffectQuery], ...]
    releases: tuple[tuple[str, TreatmentEffectRelease], ...]
    missing: tuple[tuple[str, str], ...]
    guarantee: Guarantee
    before: tuple[Release, ...]
    imbalance: tuple[Imbalance, ...]
    effective_share: float
    public_rows: int
    per_weight: tuple[float, float]
    beside: BalanceBeside | None = None

    def __post_init__(self) -> None:
        """Refuse releases that are not those of the queries."""
        if not self.queries or [name for name, _ in self.queries] != [name for name, _ in self.releases]:
            raise ArgumentError("queries and releases must be of the same sites", argument="releases")

    @property
    def query(self) -> TreatmentEffectQuery:
        """What was asked: the same of every site."""
        return self.queries[0][1]

    @property
    def outcome(self) -> str:
        """The column of the outcome."""
        return self.query.outcome

    @property
    def is_binary(self) -> bool:
        """Whether the outcome is binary, and means are risks."""
        return isinstance(self.schema[self.outcome], Binary)

    @property
    def arms(self) -> tuple[str, str]:
        """The labels of the arms, the untreated first."""
        untreated, treated = labels_of(self.schema, self.treatment)
        return untreated, treated

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that answered."""
        return tuple(name for name, _ in self.releases)

    @property
    def ledger_entries(self) -> tuple[LedgerEntry, ...]:
        """Where the custodians' ledgers keep the releases of the effect."""
        return tuple(release.entry for _, release in self.releases if release.entry is not None)

    @property
    def cells(self) -> Cells:
        """The weights by arm and outcome as released, of all sites together."""
        return cells_of(self.query, [release for _, release in self.releases])

    @property
    def weights(self) -> pd.DataFrame:
        """The total weight of each arm, in people, with the standard deviation of its noise: arm, weight, noise_sd."""
        found = self.cells
        noise = found.sd * self.query.cells**0.5
        return pd.DataFrame({"arm": list(self.arms), "weight": found.totals, "noise_sd": [noise, noise]})

    def by_site(self) -> pd.DataFrame:
        """Return the difference of the arms at each site: site, weight (of both arms), estimate, std_error.

        The standard error is what a site has to itself: the sampling of its people and the noise of its cells. What
        the common propensity model moves all sites by is not in it. NaN where an arm has too little weight for the
        noise.
        """
        width, rows = self.query.upper - self.query.lower, []
        for name, release in self.releases:
            cells = cells_of(self.query, [release])
            untreated, treated = (width * cells.places(cells.weights)).tolist()
            own = np.array(self.per_weight) / np.maximum(cells.totals, 1e-3) + cells.noise_of_places
            numbers = (treated - untreated, width * float(np.sqrt(own.sum()))) if cells.is_clear else (np.nan, np.nan)
            rows.append((name, float(cells.totals.sum()), *numbers))
        return frame_of(rows, texts=("site",), numbers=("weight", "estimate", "std_error"))

    def heterogeneity(self) -> CochranQ:
        """Return Cochran's Q of the sites' differences: whether they differ by more than sampling and noise explain.

        Errors of the common propensity model move all sites alike, and so do their covariances with each site's
        sampling: to first order they take no part in differences between sites, and Q is that of `by_site`.

        Raises
        ------
        ArgumentError
            If fewer than two sites have enough weight for their noise.
        """
        frame = self.by_site().dropna()
        if len(frame) < 2:
            raise ArgumentError("heterogeneity needs two sites with enough weight for their noise", argument="self")
        variances = frame["std_error"].to_numpy(dtype=float)[:, None] ** 2
        Q, df = float(scatter(frame["estimate"].to_numpy(dtype=float)[:, None], variances)[0]), len(frame) - 1
        return CochranQ(statistic=Q, df=df, pvalue=float(chdtrc(df, max(Q, 0.0))))

    def with_balance(self, balance: HasBalance) -> "TreatmentEffect":
        """Return the same effect with a balance table stated beside it: every statement counts what that cost too.

        Parameters
        ----------
        balance : Balance
            What ``hdp.describe(..., weighting=)`` returned with the weighting of the effect.

        Raises
        ------
        ArgumentError
            If it is no balance, or rests on another propensity model, or one is stated already.
        """
        if self.beside is not None or not isinstance(balance, HasBalance):
            what = "is stated already" if self.beside is not None else "must be what hdp.describe(weighting=) returned"
            raise ArgumentError(f"balance {what}", argument="balance")
        known = [each.sha256 for each in self.before]
        if [each.sha256 for each in balance.propensity] != known:
            raise ArgumentError("balance must rest on the propensity model of the effect", argument="balance")
        own = [part for part in balance.guarantee.as_parts(BALANCE) if part.what == BALANCE]
        largest = balance.glance()["weighted"].iloc[0]
        return replace(
            self,
            guarantee=self.guarantee.resting_on(*own),
            beside=BalanceBeside(releases=balance.releases, largest=float(largest)),
        )

    @property
    def all_releases(self) -> tuple[Release, ...]:
        """All releases that it rests on: the propensity model's, a stated balance's and its own."""
        return (*self._earlier, *(release for _, release in self.releases))

    @property
    def _earlier(self) -> tuple[Release, ...]:
        """The releases of the propensity model and of a balance that is stated."""
        return (*self.before, *(() if self.beside is None else self.beside.releases))

    def tidy(self, conf_level: float = 0.95) -> pd.DataFrame:
        """Return a row per effect: effect, estimate, std_error, conf_low, conf_high, p_value.

        Effects are the mean of each arm (a risk of a binary outcome), which has no p-value; their difference; of risks
        the ratio, the odds ratio and the number needed to treat for one more, or one less, outcome; of numbers from 0
        on the ratio. The standard error of a ratio is the delta method's; its limits are exponentials of those of its
        logarithm. The limits of the number needed to treat are the reciprocals of those of the difference.
        """
        level = real(conf_level, name="conf_level", lower=0.001, upper=0.999)
        return effects_frame(self.estimate, binary=self.is_binary, alpha=1.0 - level)

    def glance(self) -> pd.DataFrame:
        """Return one row: outcome, treatment, weight (of both arms, in people), effective_share, epsilon, delta."""
        return pd.DataFrame(
            {
                "outcome": [self.outcome],
                "treatment": [self.treatment],
                "weight": [float(self.cells.totals.sum())],
                "effective_share": [self.effective_share],
                **cost_columns(self.guarantee),
            }
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the means of both arms and their difference with 95 % intervals."""
        treatment, named = f"{self.treatment} = ", f"{self.schema.label(self.treatment)} = "
        table = self.tidy()
        shown = table.assign(effect=[name.replace(treatment, named) for name in table["effect"]])
        return plot_effects(shown, outcome=self.schema.label(self.outcome), binary=self.is_binary, ax=ax)

    def methods_text(self) -> str:
        """Return a paragraph for a paper: what was estimated, how people were weighted, what was protected."""
        propensity = self.query.weighting.formula
        means = "risks" if self.is_binary else "means"
        sentences = [
            f"The effect of {self.treatment} on {self.outcome} was estimated by comparing weighted {means} of the two "
            f"arms. People were weighted by overlap weights from a logistic propensity model with the formula "
            f"{propensity}, so that the effect is that among people whose treatment was in doubt.",
            *([self._several] if self.query.most_rows is not None else []),
            *([f"Records without a value of {', '.join(holes)} were left out."] if (holes := self._holes()) else []),
            guarantee_sentence(
                self.guarantee, how="two-sided geometric noise on the weight in each cell of arm and outcome"
            ),
            "Standard errors, confidence intervals and p-values are from draws of the error, by stacked estimating "
            "equations: they count sampling, the estimation of the propensity model and all privacy noise. Averages in "
            f"them are over {self.public_rows} public rows that stand for the private people.",
        ]
        if self.imbalance:
            worst = max(self.imbalance, key=lambda each: each.difference)
            sentences.append(
                "The noise of the propensity model is expected to leave standardised differences between the weighted "
                f"arms of at most {worst.difference:.3f} (root mean square; {worst.name})."
            )
        if self.beside is not None:
            sentences.append(
                "In a noisy balance table the largest standardised difference of the weighted arms was "
                f"{self.beside.largest:.3f}."
            )
        sentences.append(f"Computed with hdpstats {__version__}.")
        references = "\n".join(f"- {each}" for each in self._references())
        return f"{' '.join(sentences)}\n\nReferences\n\n{references}"

    @property
    def _several(self) -> str:
        """What is taken of people with several rows, as a sentence."""
        return (
            "Of a person with several records the treatment and the covariates are those of the first one that has "
            f"them all, and the {self._averaged}; weights, errors and the guarantee are over persons."
        )

    @property
    def _averaged(self) -> str:
        """What the outcome is, of people with several rows."""
        rows = "the one used" if self.query.most_rows == 1 else f"{self.query.most_rows} rows at most"
        return f"outcome is a person's mean over {rows}"

    def _holes(self) -> list[str]:
        return [name for name in self.query.names if self.schema[name].leaves_out]

    def _references(self) -> tuple[str, ...]:
        releases = [
            each for whole in (*self._earlier, *(each for _, each in self.releases)) for each in answers_in(whole)
        ]
        sources = [source for each in releases for event in each.events for source in PROOFS[event.ran].sources]
        return tuple(dict.fromkeys([PRIVACY, *sources]))

    def disclosure(self, form: str | None = None, *, statements: Mapping[str, Any] | None = None) -> Any:
        """Return the privacy record for an output checker, or a form: see `hdpstats.results.Result.disclosure`."""
        query, releases = self.query, dict(self.releases)
        if form is not None:
            return filled_form(
                form,
                statements,
                what="a treatment effect",
                guarantee=self.guarantee,
                schema=self.schema,
                releases=[*self._earlier, *releases.values()],
                formula=self.formula,
                columns=query.names,
            )
        return privacy_record(
            self.guarantee,
            self.schema,
            accounting=accounting_of(query.kind, [*self._earlier, *releases.values()], several=len(releases) > 1),
            about={
                "treatment_effect": {
                    "formula": self.formula,
                    "outcome": self.outcome,
                    "treatment": self.treatment,
                    "weighting": query.weighting.to_dict(),
                },
                "query_sha256": query_sha256(query),
                "release_sha256": {name: each.sha256 for name, each in releases.items()},
                "ledger": {name: ledger_entry(each) for name, each in releases.items()},
                **({} if self.beside is None else {"balance": [each.sha256 for each in self.beside.releases]}),
                "propensity": [{"release_sha256": each.sha256, "ledger": ledger_entry(each)} for each in self.before],
            },
            post_processing="everything else in the effect is computed from the releases and from public rows",
        )

    def _report(self, alpha: float = 0.05) -> Report:
        table, floor = self.tidy(1.0 - alpha), self.estimate.p_floor
        rows = [
            [
                *(number(row[name], 3) if np.isfinite(row[name]) else "N/A" for name in ("estimate", "std_error")),
                "" if np.isnan(row["p_value"]) else p_value(row["p_value"], floor),
                *(number(row[name], 3) if np.isfinite(row[name]) else "" for name in ("conf_low", "conf_high")),
            ]
            for row in table.to_dict("records")
        ]
        block = columns(["estimate", "std err", "P>|z|", *limit_headers(alpha)], table["effect"].tolist(), rows)
        given, before = [each for _, each in self.releases], self._earlier
        return Report(
            title=f"Effect of {self.treatment} on {self.outcome}, differentially private",
            heading=f"Effect of {self.treatment} on {self.outcome}",
            blocks=[
                named_values(self._head()),
                block,
                *privacy_blocks(guarantee_rows(self.guarantee, given, before), self.guarantee, given, before),
            ],
            notes=self._notes(table),
            badges=guarantee_badges(self.guarantee),
            ending=guarantee_details(self.guarantee),
        )

    def _head(self) -> list[tuple[str, str]]:
        arms = " and ".join(
            f"{row['weight']:.0f} (noise {row['noise_sd']:.1f}) in {self.treatment} = {row['arm']}"
            for row in self.weights.to_dict("records")
        )
        rows = [
            ("Propensity model:", self.query.weighting.formula),
            ("Weight, in people:", arms),
            ("Effective size:", f"{percent(self.effective_share)} of all people, predicted"),
        ]
        if self.query.most_rows is not None:
            rows.append(("Rows of a person:", f"arm and covariates of the first complete one; {self._averaged}"))
        if self.imbalance:
            rows.append(("Imbalance left:", largest_imbalance(self.imbalance)))
        if self.beside is not None:
            rows.append(("Balance, weighted:", f"largest difference {self.beside.largest:.3f} in a noisy table"))
        rows += [("Sites:", ", ".join(self.sites))] if len(self.sites) > 1 else []
        if self.by_site()["estimate"].notna().sum() > 1:
            found = self.heterogeneity()
            said = f"Cochran's Q = {found.statistic:.2f} on {found.df} df, {p_equals(found.pvalue)}"
            rows.append(("Sites' differences:", said))
        return rows + [("No answer:", f"{site}: {reason}") for site, reason in self.missing]

    def _notes(self, table: pd.DataFrame) -> list[str]:
        notes = [TARGET, DRAWN]
        if not np.isfinite(self.estimate.values).all():
            return [*notes, NOT_CLEAR]
        needed = table[table["effect"] == NEEDED]
        return [*notes, NO_LIMITS] if len(needed) and needed["conf_low"].isna().any() else notes

    def __repr__(self) -> str:
        return f"<effect of {self.treatment} on {self.outcome}: {self.guarantee}>"


def terms_of(schema: Schema, treatment: str, *, binary: bool, positive: bool) -> tuple[str, ...]:
    """Return the names of the contrasts of `hdpstats.inference.overlap_errors.contrasts_of`."""
    what = "risk" if binary else "mean"
    means = [f"{what}, {treatment} = {label}" for label in labels_of(schema, treatment)]
    ratios = ["risk ratio", "odds ratio"] if binary else ["ratio"] if positive else []
    return (*means, DIFFERENCE[binary], *ratios)


def effects_frame(estimate: Estimate, *, binary: bool, alpha: float, means: int = 2) -> pd.DataFrame:
    """Return a row per effect: see `TreatmentEffect.tidy`. So many ``means`` of arms are the first of the terms."""
    terms = list(estimate.terms)
    ratio = np.array([term in RATIOS for term in terms])
    mean = np.arange(len(terms)) < means
    values, errors = estimate.values, estimate.bse.to_numpy()  # noqa: PD011
    low, high = estimate.conf_int(alpha).to_numpy().T
    if binary:
        low, high = (np.where(mean, np.clip(limit, 0.0, 1.0), limit) for limit in (low, high))
    with np.errstate(over="ignore"):
        shown = [np.where(ratio, np.exp(each), each) for each in (values, low, high)]
    rows = [
        (term, shown[0][k], shown[0][k] * errors[k] if ratio[k] else errors[k], shown[1][k], shown[2][k], p)
        for k, (term, p) in enumerate(zip(terms, np.where(mean, np.nan, estimate.pvalues.to_numpy()), strict=True))
    ]
    if binary:
        rows.append((NEEDED, *_needed(values[means], errors[means], low[means], high[means]), np.nan))
    return frame_of(rows, texts=TIDY[:1], numbers=TIDY[1:])


def _needed(difference: float, error: float, low: float, high: float) -> tuple[float, float, float, float]:
    """Return the reciprocal of the size of a difference, its standard error and limits; NaN where these include 0."""
    with np.errstate(divide="ignore"):
        needed = float(np.divide(1.0, abs(difference)))
    limits = sorted([1.0 / abs(low), 1.0 / abs(high)]) if low * high > 0.0 else [np.nan, np.nan]
    return needed, error * needed**2, limits[0], limits[1]
