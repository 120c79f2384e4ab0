"""The effect of a treatment among people weighted by their chance of it: means by arm and their contrasts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

import numpy as np
import pandas as pd

from hdpstats import __version__
from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import real
from hdpstats.display import Report, Reported, columns, named_values, number, p_value, percent
from hdpstats.mechanisms.treatment_effect import BINARY, TreatmentEffectQuery, TreatmentEffectRelease
from hdpstats.mechanisms.treatment_effect.estimate import Cells, cells_of
from hdpstats.privacy.budget import Guarantee
from hdpstats.privacy.proofs import PRIVACY, PROOFS
from hdpstats.records.estimate import Estimate
from hdpstats.records.query import LedgerEntry, Release
from hdpstats.records.saved import Saved
from hdpstats.records.several import answers_in
from hdpstats.results.plots import plot_effects
from hdpstats.results.propensity import Imbalance, largest_imbalance
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
        return self.query.cells == BINARY

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
        return plot_effects(self.tidy(), outcome=self.schema.label(self.outcome), binary=self.is_binary, ax=ax)

    def methods_text(self) -> str:
        """Return a paragraph for a paper: what was estimated, how people were weighted, what was protected."""
        propensity = self.query.weighting.formula
        means = "risks" if self.is_binary else "means"
        sentences = [
            f"The effect of {self.treatment} on {self.outcome} was estimated by comparing weighted {means} of the two "
            f"arms. People were weighted by overlap weights from a logistic propensity model with the formula "
            f"{propensity}, so that the effect is that among people whose treatment was in doubt.",
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
        sentences.append(f"Computed with hdpstats {__version__}.")
        references = "\n".join(f"- {each}" for each in self._references())
        return f"{' '.join(sentences)}\n\nReferences\n\n{references}"

    def _holes(self) -> list[str]:
        return [name for name in self.query.names if self.schema[name].leaves_out]

    def _references(self) -> tuple[str, ...]:
        releases = [
            each for whole in (*self.before, *(each for _, each in self.releases)) for each in answers_in(whole)
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
                releases=[*self.before, *releases.values()],
                formula=self.formula,
                columns=query.names,
            )
        return privacy_record(
            self.guarantee,
            self.schema,
            accounting=accounting_of(query.kind, [*self.before, *releases.values()], several=len(releases) > 1),
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
        given = [each for _, each in self.releases]
        return Report(
            title=f"Effect of {self.treatment} on {self.outcome}, differentially private",
            heading=f"Effect of {self.treatment} on {self.outcome}",
            blocks=[
                named_values(self._head()),
                block,
                *privacy_blocks(guarantee_rows(self.guarantee, given, self.before), self.guarantee, given, self.before),
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
        if self.imbalance:
            rows.append(("Imbalance left:", largest_imbalance(self.imbalance)))
        rows += [("Sites:", ", ".join(self.sites))] if len(self.sites) > 1 else []
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
    """Return the names of the contrasts of `hdpstats.inference.overlap.contrasts_of`."""
    what = "risk" if binary else "mean"
    means = [f"{what}, {treatment} = {label}" for label in labels_of(schema, treatment)]
    ratios = ["risk ratio", "odds ratio"] if binary else ["ratio"] if positive else []
    return (*means, DIFFERENCE[binary], *ratios)


def effects_frame(estimate: Estimate, *, binary: bool, alpha: float) -> pd.DataFrame:
    """Return a row per effect: see `TreatmentEffect.tidy`."""
    terms = list(estimate.terms)
    ratio = np.array([term in RATIOS for term in terms])
    mean = np.arange(len(terms)) < 2
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
        rows.append((NEEDED, *_needed(values[2], errors[2], low[2], high[2]), np.nan))
    return frame_of(rows, texts=TIDY[:1], numbers=TIDY[1:])


def _needed(difference: float, error: float, low: float, high: float) -> tuple[float, float, float, float]:
    """Return the reciprocal of the size of a difference, its standard error and limits; NaN where these include 0."""
    with np.errstate(divide="ignore"):
        needed = float(np.divide(1.0, abs(difference)))
    limits = sorted([1.0 / abs(low), 1.0 / abs(high)]) if low * high > 0.0 else [np.nan, np.nan]
    return needed, error * needed**2, limits[0], limits[1]
