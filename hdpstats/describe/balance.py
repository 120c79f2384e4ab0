"""Whether weights make two arms alike: standardised differences of the covariates before and after weighting.

Two descriptions of the same complete people by arm are asked for: of them as they are, for two fifths of epsilon,
and weighted, for the rest, as fewer people count then. Of people with several rows both are of the row that the
propensity model counts, the first that is complete in its columns: arm, weight and values are those of that row. A
standardised difference is that of two means or shares over the pooled standard deviation of the people as they are,
before and after alike, so that the two can be compared (Austin 2009).

Limits are about the balance of *these* people, and count the noise of the descriptions. They count no sampling: what is
left after weighting is an imbalance of the people at hand, which estimated weights make smaller than chance would.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import real
from hdpstats.describe.description import Description
from hdpstats.describe.plan import planned_numbers
from hdpstats.describe.tables import NO_SEED, public_cohort, tidy_frame
from hdpstats.display import Report, Reported, columns, named_values
from hdpstats.mechanisms.description import DescriptionQuery
from hdpstats.mechanisms.description.estimate import read
from hdpstats.mechanisms.description.request import described_columns
from hdpstats.mechanisms.description.site import prepare
from hdpstats.privacy.budget import Guarantee, epsilons_of, release_epsilon, total
from hdpstats.records.estimate import normal_quantile
from hdpstats.records.query import Release
from hdpstats.records.saved import Saved
from hdpstats.results.labels import group_name
from hdpstats.results.plots import plot_love
from hdpstats.results.propensity import Weighting, resting_on
from hdpstats.results.reporting import accounting_of, filled_form, ledger_entry, privacy_record, query_sha256
from hdpstats.results.summary import guarantee_badges, guarantee_details, guarantee_rows, limit_headers, privacy_blocks
from hdpstats.results.tables import cost_columns, frame_of
from hdpstats.results.treatment_effect import BALANCE
from hdpstats.schema.schema import labels_of
from hdpstats.sites import Study
from hdpstats.sites.recipes import in_its_recipe
from hdpstats.sites.study import check_private, people_of, site_facts_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEFORE, AFTER = "unweighted", "weighted"
"""The two samples."""

FIRST: Final = Fraction(2, 5)
"""The part of epsilon for people as they are."""

NAMES: Final = ("sample", "variable", "level", "difference", "std_error", "conf_low", "conf_high")
NOTE: Final = (
    "Differences of treated from untreated people, over the pooled standard deviation of unweighted people. Limits are "
    "about the balance of these people: they count privacy noise, and no sampling."
)


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BalanceRequest:
    """A balance table that may be asked for: `plan` says how exact it would be, `release` spends.

    Attributes
    ----------
    study : Study
        The data; of people with several public rows one each (`hdpstats.sites.Study.by_person`).
    columns : tuple of str
        The columns that are compared.
    weighting : Weighting
        How people are weighted; the arms are those of its treatment.
    replicate : int
        The number of the draw.
    """

    study: Study
    columns: tuple[str, ...]
    weighting: Weighting
    replicate: int

    def queries(self, epsilon: Fraction, people: Mapping[str, int]) -> tuple[DescriptionQuery, DescriptionQuery]:
        """Return what each site is asked first and then: people as they are, and weighted."""
        study, schema = self.study, self.study.schema
        treatment, first = self.weighting.treatment, epsilon * FIRST
        after = DescriptionQuery(
            columns=described_columns(schema, self.columns, study.public, cells=0),
            by=treatment,
            groups=len(labels_of(schema, treatment)),
            complete=True,
            weighting=self.weighting.record,
            first=None if study.unit is None else self.weighting.record.columns,
            epsilon=epsilon - first,
            schema_sha256=schema.sha256,
            public_sha256=None if study.public is None else study.public.sha256,
            replicate=self.replicate,
        )
        spent = total(prepare(after, site_facts_of(study, max(people.values()))).events)
        before = replace(
            after, weighting=None, epsilon=first, besides=tuple(sorted(after.extra)) or None, followed_by=(spent,)
        )
        return before, after

    def plan(self, epsilon: float | Iterable[float], *, n: int | None = None) -> pd.DataFrame:
        """Return predicted standard errors of the differences by epsilon; nothing is spent.

        Columns: epsilon, sample, variable, level, std_error. ``n`` is the number of private people, by default that of
        the study.
        """
        people = {"": people_of(self.study, n)}
        if n is None and self.study.sites:
            people = {name: site.records for name, site in self.study.sites.items()}
        parts = []
        for amount in epsilons_of(epsilon):
            frames = [
                tidy_frame(
                    read(planned_numbers(self.study, dict.fromkeys(people, query), people), seed=NO_SEED, kurtosis={}),
                    query,
                    self.study.schema,
                )
                for query in self.queries(amount, people)
            ]
            found = differences_of(frames[0], frames[1], labels_of(self.study.schema, self.weighting.treatment))
            parts.append(found.assign(epsilon=float(amount)))
        return pd.concat(parts, ignore_index=True)[["epsilon", *NAMES[:3], "std_error"]]

    @in_its_recipe
    def release(self, epsilon: object, *, allow_large_epsilon: bool = False) -> "Balance":
        """Ask the sites, and return the balance. Both halves are checked before the first: permission, size, budget."""
        from hdpstats.describe.request import released

        study = self.study
        amount = release_epsilon(epsilon, allow_large_epsilon=allow_large_epsilon)
        check_private(study, "describe")
        people = {name: site.records for name, site in study.sites.items()}
        queries, found = self.queries(amount, people), []
        for name, site in study.sites.items():  # of the second half, before the first is charged
            site.check_permitted(queries[1], prepare(queries[1], site_facts_of(study, people[name])).needs)
        for query in queries:
            answers = released(study, dict.fromkeys(study.sites, query))
            public = None if query.weighting is not None else public_cohort(query, study.schema, study.public)
            found.append(Description(schema=study.schema, public=public, **answers))
        before, after = found
        return Balance(
            before=before,
            after=after,
            guarantee=self._guarantee(before.guarantee, after.guarantee),
            propensity=self.weighting.propensity.releases,
        )

    def _guarantee(self, before: Guarantee, after: Guarantee) -> Guarantee:
        own = replace(before, epsilon=before.epsilon + after.epsilon, delta=before.delta + after.delta)
        return resting_on(own, self.weighting, own_name=BALANCE)

    def __repr__(self) -> str:
        return f"<balance to ask for: {', '.join(self.columns)} by {self.weighting.treatment}>"


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Balance(Reported, Saved):
    """Standardised differences between two arms, before and after weighting. `hdpstats.api.describe` makes one.

    Attributes
    ----------
    before, after : Description
        The complete people as they are, and weighted.
    guarantee : Guarantee
        What is guaranteed by all releases: both descriptions, and the propensity model.
    propensity : tuple of Release
        The releases of the propensity model.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True), hormon=hdp.Binary(complete=True))
    >>> study = hdp.Study(
    ...     private=hdp.datasets.load_rotterdam(), public=hdp.datasets.load_gbsg(), schema=schema,
    ...     budget=hdp.Budget(epsilon=2),
    ... )
    >>> w = hdp.propensity("hormon ~ age", data=study, epsilon=1).weights("overlap")
    >>> balance = hdp.describe(study, ["age"], by="hormon", weighting=w, epsilon=1)
    >>> balance.tidy()["sample"].tolist()
    ['unweighted', 'weighted']
    """

    _format: ClassVar[int] = 1
    _what: ClassVar[str] = "a balance table"

    before: Description
    after: Description
    guarantee: Guarantee
    propensity: tuple[Release, ...]

    @property
    def treatment(self) -> str:
        """The column of the arms."""
        return str(self.after.query.by)

    @property
    def releases(self) -> tuple[Release, ...]:
        """What the sites answered, the unweighted descriptions first."""
        return tuple(release for each in (self.before, self.after) for _, release in each.releases)

    def tidy(self, conf_level: float = 0.95) -> pd.DataFrame:
        """Return a row per sample and difference: sample, variable, level, difference, std_error, conf_low, conf_high.

        Of two levels the second is shown. The standard error is that of the noise, about the balance of these people.
        """
        alpha = 1.0 - real(conf_level, name="conf_level", lower=0.001, upper=0.999)
        before, after = (each.with_noise() for each in (self.before, self.after))
        return differences_of(before, after, labels_of(self.after.schema, self.treatment), alpha=alpha)

    def glance(self) -> pd.DataFrame:
        """Return one row: the largest difference before and after, epsilon, delta."""
        largest = self.tidy().assign(size=lambda each: each["difference"].abs()).groupby("sample")["size"].max()
        return pd.DataFrame(
            {BEFORE: [largest.get(BEFORE, np.nan)], AFTER: [largest.get(AFTER, np.nan)], **cost_columns(self.guarantee)}
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the differences before and after weighting with 95 % limits, a line per variable or level: a love plot.

        Differences within 0.1 are shaded.
        """
        return plot_love(self.tidy(), labels=self.after.schema.labels, ax=ax)

    def disclosure(self, form: str | None = None, *, statements: Mapping[str, Any] | None = None) -> Any:
        """Return the privacy record for an output checker, or a form: see `hdpstats.results.Result.disclosure`."""
        query = self.after.query
        if form is not None:
            return filled_form(
                form,
                statements,
                what="a balance table",
                guarantee=self.guarantee,
                schema=self.after.schema,
                releases=[*self.propensity, *self.releases],
                columns=query.names,
                public_sha256=query.public_sha256,
            )
        return privacy_record(
            self.guarantee,
            self.after.schema,
            accounting=accounting_of(
                query.kind, [*self.propensity, *self.releases], several=len(self.after.releases) > 1
            ),
            about={
                "balance": {
                    "columns": [each.name for each in query.columns],
                    "by": query.by,
                    "weighting": None if query.weighting is None else query.weighting.to_dict(),
                },
                "query_sha256": [query_sha256(each.query) for each in (self.before, self.after)],
                "release_sha256": [each.sha256 for each in self.releases],
                "ledger": [ledger_entry(each) for each in self.releases],
            },
            post_processing="everything else in the balance is computed from the releases and from public rows",
        )

    def _report(self, alpha: float = 0.05) -> Report:
        table, schema = self.tidy(1.0 - alpha), self.after.schema
        first = table[table["sample"] == BEFORE]
        keys = list(zip(first["variable"], first["level"], strict=True))
        rows = [[cell for sample in (BEFORE, AFTER) for cell in _cells(table, sample, key)] for key in keys]
        headers = [f"{name}" for sample in (BEFORE, AFTER) for name in (sample, *limit_headers(alpha))]
        names = [schema.label(variable) + (f" = {level}" if isinstance(level, str) else "") for variable, level in keys]
        arms = [group_name(self.treatment, label, schema) for label in labels_of(schema, self.treatment)]
        given = list(self.releases)
        return Report(
            title="Balance before and after weighting, differentially private",
            heading="Balance before and after weighting",
            blocks=[
                named_values([("Arms:", f"{arms[1]} less {arms[0]}"), ("Weights:", self._weights())]),
                columns(headers, names, rows, title="Standardised differences"),
                *privacy_blocks(
                    guarantee_rows(self.guarantee, given, self.propensity), self.guarantee, given, self.propensity
                ),
            ],
            notes=[NOTE],
            badges=guarantee_badges(self.guarantee),
            ending=guarantee_details(self.guarantee),
        )

    def _weights(self) -> str:
        weighting = self.after.query.weighting
        return "none" if weighting is None else f"overlap, {weighting.formula}"

    def __repr__(self) -> str:
        names = ", ".join(each.name for each in self.after.query.columns)
        return f"<balance of {names} by {self.treatment}: {self.guarantee}>"


def _cells(table: pd.DataFrame, sample: str, key: tuple[Any, Any]) -> list[str]:
    for row in table[table["sample"] == sample].to_dict("records"):
        if (row["variable"], row["level"]) == key and np.isfinite(row["difference"]):
            return [f"{row[name]:+.3f}" for name in ("difference", "conf_low", "conf_high")]
    return ["N/A", "", ""]


def differences_of(
    before: pd.DataFrame, after: pd.DataFrame, arms: tuple[str, ...], *, alpha: float = 0.05
) -> pd.DataFrame:
    """Return standardised differences of the second arm from the first one, of two descriptions in tidy form.

    The frames have a column ``noise``, the standard deviation of the noise of each number.
    """
    spread, z = _spreads(before, arms), normal_quantile(alpha)
    rows = []
    for sample, frame in ((BEFORE, before), (AFTER, after)):
        own = {
            (row["group"], row["variable"], row["level"]): (row["estimate"], row["noise"])
            for row in frame.to_dict("records")
            if row["statistic"] in ("mean", "share")
        }
        for (arm, variable, level), (value, noise) in own.items():
            if arm != arms[1] or (variable, level) not in spread:
                continue
            other, other_noise = own[arms[0], variable, level]
            unit = spread[variable, level]
            difference, error = (value - other) / unit, float(np.hypot(noise, other_noise)) / unit
            rows.append((sample, variable, level, difference, error, difference - z * error, difference + z * error))
    return frame_of(rows, texts=NAMES[:3], numbers=NAMES[3:])


def _spreads(before: pd.DataFrame, arms: tuple[str, ...]) -> dict[tuple[Any, Any], float]:
    """Return the pooled standard deviation of each variable or level, but for the first of two levels."""
    squares: dict[tuple[Any, Any], list[float]] = {}
    levels: dict[Any, list[Any]] = {}
    for row in before.to_dict("records"):
        if row["group"] not in arms:
            continue
        if row["statistic"] == "sd":
            squares.setdefault((row["variable"], None), []).append(row["estimate"] ** 2)
        if row["statistic"] == "share":
            squares.setdefault((row["variable"], row["level"]), []).append(row["estimate"] * (1.0 - row["estimate"]))
            known = levels.setdefault(row["variable"], [])
            known += [row["level"]] if row["level"] not in known else []
    first = {(variable, known[0]) for variable, known in levels.items() if len(known) == 2}
    return {key: unit if (unit := _pooled(each)) > 0.0 else np.nan for key, each in squares.items() if key not in first}


def _pooled(variances: list[float]) -> float:
    """Return the root of the mean variance of the arms of which it is known; NaN where it is of none."""
    known = [each for each in variances if np.isfinite(each)]
    return float(np.sqrt(np.mean(known))) if known else np.nan


def checked_arms(by: object, weighting: Weighting) -> None:
    """Refuse groups that are not the arms of a weighting."""
    if by is not None and by != weighting.treatment:
        raise ArgumentError(
            f"by must be left out, or be {weighting.treatment!r}, the treatment of the weighting", argument="by"
        )
