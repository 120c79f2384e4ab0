"""A description of the private cohort: its numbers with their errors, a first table, differences from public rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, cast, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import choice, integer, real
from hdpstats.describe.knots import described_knots
from hdpstats.describe.tables import (
    CORRELATIONS,
    TIDY,
    FirstTable,
    PublicCohort,
    correlations_frame,
    differences,
    first_table,
    follow_up_frame,
    groups_of,
    sums_frame,
    tidy_frame,
)
from hdpstats.display import Report, Reported, columns, named_values
from hdpstats.formulas.bases import MOST_KNOTS
from hdpstats.formulas.operations import Interval
from hdpstats.mechanisms.description import DescriptionQuery, DescriptionRelease
from hdpstats.mechanisms.description.blocks import DescribedNumbers, numbers_of
from hdpstats.mechanisms.description.estimate import read
from hdpstats.mechanisms.description.moments import moments_of
from hdpstats.privacy.budget import Guarantee
from hdpstats.raking.rows import raked_rows
from hdpstats.records import codec
from hdpstats.records.estimate import normal_quantile
from hdpstats.records.query import LedgerEntry
from hdpstats.records.saved import Saved
from hdpstats.results.facts import design_of
from hdpstats.results.labels import group_name
from hdpstats.results.plots import plot_differences
from hdpstats.results.population import FittedRows, Population, no_rows, rows_of
from hdpstats.results.reporting import accounting_of, filled_form, ledger_entry, privacy_record, query_sha256
from hdpstats.results.summary import guarantee_badges, guarantee_details, guarantee_rows, privacy_blocks
from hdpstats.results.tables import cost_columns
from hdpstats.schema.columns import NumericColumn
from hdpstats.schema.schema import Schema, labels_of
from hdpstats.sites import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hdpstats.results.result import Result

MOST_BESIDE = 2
"""Groups that are shown beside those of public rows; more have columns of their own only."""

HALF = "After ± stands half the width of the {level:.0%} interval: sampling and privacy noise together."
AVAILABLE = "N/A: too few people for the noise, so that the number would say nothing."
EACH = "Each number is of the cells that are there; missing is the share of people without one."
COMPLETE = "Only people count who are complete in all columns; n is their noisy number."
QUARTILES = "Intervals of quartiles are in tidy()."
PUBLIC = "SMD is the standardised difference of private from public people."


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Description(Reported, Saved):
    """What a description of the private cohort found. `hdpstats.api.describe` makes one.

    Attributes
    ----------
    schema : Schema
        The declared columns.
    queries, releases : tuple of (str, DescriptionQuery) and of (str, DescriptionRelease)
        What each site was asked and what it answered.
    missing : tuple of (str, str)
        The sites that did not answer, and why.
    guarantee : Guarantee
        What is guaranteed to every person.
    public : PublicCohort or None
        The public rows described in the same way.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True))
    >>> people = hdp.datasets.load_rotterdam()
    >>> study = hdp.Study(private=people, schema=schema, budget=hdp.Budget(epsilon=1))
    >>> description = hdp.describe(study, ["age"], epsilon=1)
    >>> description.tidy()["statistic"].tolist()
    ['n', 'mean', 'sd', 'q1', 'median', 'q3']
    >>> description.sites
    ('private',)
    """

    _format: ClassVar[int] = 1
    _what: ClassVar[str] = "a description"

    schema: Schema
    queries: tuple[tuple[str, DescriptionQuery], ...]
    releases: tuple[tuple[str, DescriptionRelease], ...]
    missing: tuple[tuple[str, str], ...]
    guarantee: Guarantee
    public: PublicCohort | None
    _read: dict[tuple[str | None, float], pd.DataFrame] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse releases that are not those of the queries."""
        if not self.queries or [name for name, _ in self.queries] != [name for name, _ in self.releases]:
            raise ArgumentError("queries and releases must be of the same sites", argument="releases")

    @property
    def query(self) -> DescriptionQuery:
        """What was asked: the same of every site."""
        return self.queries[0][1]

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that answered."""
        return tuple(name for name, _ in self.releases)

    @property
    def groups(self) -> tuple[str | None, ...]:
        """The groups' labels; one None without ``by``."""
        return groups_of(self.query, self.schema)

    @property
    def ledger_entries(self) -> tuple[LedgerEntry, ...]:
        """Where the custodians' ledgers keep the releases."""
        return tuple(release.entry for _, release in self.releases if release.entry is not None)

    def tidy(self, conf_level: float = 0.95, *, site: str | None = None) -> pd.DataFrame:
        """Return a row per number, of all sites together or of one.

        Columns: group (None without ``by``), variable (None of ``n``), level (of a share), statistic (``n``,
        ``missing``, ``share``, ``mean``, ``sd``, ``q1``, ``median`` or ``q3``), estimate, std_error, conf_low,
        conf_high. Not available numbers are NaN. Standard errors and limits count sampling and noise; ``n`` is of the
        people in the data, and its error is noise alone.
        """
        level = real(conf_level, name="conf_level", lower=0.001, upper=0.999)
        return self._frame(1.0 - level, site)[list(TIDY)].copy()

    def with_noise(self) -> pd.DataFrame:
        """Return `tidy` with a column ``noise``: the part of each standard error that is privacy noise."""
        return self._frame(0.05, None).copy()

    def glance(self) -> pd.DataFrame:
        """Return one row: people (noisy where protected, NaN where not asked), columns, groups, epsilon, delta."""
        found = self.tidy()
        people = found.loc[found["statistic"] == "n", "estimate"]
        return pd.DataFrame(
            {
                "people": [float(people.sum()) if len(people) else np.nan],
                "columns": [len(self.query.columns)],
                "groups": [len(self.groups)],
                **cost_columns(self.guarantee),
            }
        )

    def sums(self, site: str | None = None) -> pd.DataFrame:
        """Return the noisy sums as released, in people: what everything else is read from.

        Columns: group, variable, level, feature, total, noise_sd. ``people`` is half the number of people that count
        (with weights half their total); of a column each feature is centred as
        `hdpstats.mechanisms.description.site` says.
        """
        return sums_frame(self._numbers(site, draws=0), self.schema)

    def correlations(self, conf_level: float = 0.95, *, site: str | None = None) -> pd.DataFrame:
        """Return the correlations of all pairs of columns, of all sites together or of one.

        Columns: variable, level (of an indicator), other, other_level, estimate, std_error, conf_low, conf_high.
        Numbers are cut to 2.5 standard deviations of public rows about their mean. Standard errors and limits count
        sampling and noise.

        Raises
        ------
        ArgumentError
            If no correlations were described.

        Examples
        --------
        >>> import hdpstats.api as hdp
        >>> schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True), nodes=hdp.Continuous(0, 40, complete=True))
        >>> people = hdp.datasets.load_rotterdam()
        >>> study = hdp.Study(private=people, schema=schema, budget=hdp.Budget(epsilon=1))
        >>> description = hdp.describe(study, ["age", "nodes"], correlations=True, epsilon=1)
        >>> description.correlations()["other"].tolist()
        ['nodes']
        """
        level = real(conf_level, name="conf_level", lower=0.001, upper=0.999)
        if self.query.pairs is None:
            raise ArgumentError("correlations need describe(..., correlations=True)", argument="self")
        frame = correlations_frame(self._numbers(site, draws=1000), self.schema, alpha=1.0 - level)
        return frame[list(CORRELATIONS)]

    def follow_up(self, site: str | None = None) -> pd.DataFrame:
        """Return noisy numbers of events, censorings and people at risk of public intervals.

        Columns: group, after, until, events (or one for each cause), censored, at_risk (when an interval begins),
        noise_sd (of events and censorings), at_risk_noise_sd.

        Raises
        ------
        ArgumentError
            If no ``Surv()`` term was described.
        """
        frame = follow_up_frame(self._numbers(site, draws=0), self.schema)
        if frame is None:
            raise ArgumentError("follow_up needs a Surv(time, event) term among the columns that were described")
        return frame

    def knots(self, column: str, count: int, *, function: str = "ns", site: str | None = None) -> list[float]:
        """Return knots of a spline at quantiles of the private people, for ``knots=`` of a formula.

        Formulas have their knots at quantiles of public rows. Where private people are elsewhere these are better. They
        cost nothing: the quantiles are read from the counts of cells that were released for the quartiles, and rounded
        to four significant digits, or to as many as keep them apart.

        Any of the three functions takes them: they increase strictly between the declared bounds. Where many people
        share a value, as 0 lymph nodes, quantiles can coincide or lie at a bound: the others stay then, and each of
        these is replaced by a value with as many people as possible between it and its neighbours.

        Parameters
        ----------
        column : str
            A column of numbers that is described with quartiles.
        count : int
            How many knots, at least 1; 3 for ``"rcs"``.
        function : {"ns", "bs", "rcs"}
            For which function: interior knots of ``ns`` and ``bs`` cut people into equal parts; those of ``rcs`` are at
            Harrell's quantiles.
        site : str, optional
            The people of one site; of all by default.

        Raises
        ------
        ArgumentError
            If the column has no quartiles in this description, or too few people for the noise; if the described people
            are in groups; if people have too few different values for so many knots.

        Examples
        --------
        >>> import hdpstats.api as hdp
        >>> schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True))
        >>> people = hdp.datasets.load_rotterdam()
        >>> study = hdp.Study(private=people, schema=schema, budget=hdp.Budget(epsilon=1))
        >>> knots = hdp.describe(study, ["age"], epsilon=1).knots("age", 2)
        >>> f"Surv(time, event) ~ ns(age, knots={knots})"  # doctest: +ELLIPSIS
        'Surv(time, event) ~ ns(age, knots=[..., ...])'
        """
        choice(function, name="function", options=("ns", "bs", "rcs"))
        whole = integer(count, name="count", lower=3 if function == "rcs" else 1, upper=MOST_KNOTS)
        if self.query.groups > 1:
            raise ArgumentError("knots are of all people: describe them without by=", argument="column")
        of = cast(NumericColumn, self.schema[self._with_quartiles(column)])
        place = [each.name for each in self.query.columns].index(column)
        numbers = self._numbers(site, draws=0)
        return described_knots(numbers, place, Interval(of.lower, of.upper), function=function, count=whole)

    def _with_quartiles(self, column: str) -> str:
        """Return the name of a column with quartiles; raise where it has none."""
        described = [each.name for each in self.query.columns if not each.levels and each.squares is None]
        names = [each.name for each in self.query.columns if each.cuts]
        if not described:
            raise ArgumentError("knots need a column of numbers among those that were described", argument="column")
        choice(column, name="column", options=names or described)
        if not names:
            raise ArgumentError(
                f"column: this description has no quantiles of {column!r}, as it was made with quantiles=False; "
                "describe with quantiles=True, which is another query and is charged, or take knots from public rows "
                "or the literature",
                argument="column",
            )
        return column

    def balance(self, alpha: float = 0.05, *, between: str | None = None) -> pd.DataFrame:
        """Return standardised differences of means and shares.

        Columns: group, variable, level, difference, std_error, conf_low, conf_high. Of two levels the second is shown.

        Parameters
        ----------
        alpha
            One minus the level of the limits.
        between
            ``"public"``: private less public people, the default where there are public rows. ``"groups"``: each group
            less the first one.

        Raises
        ------
        ArgumentError
            If there is nothing to compare with.
        """
        default = "groups" if self.public is None else "public"
        kind = choice(default if between is None else between, name="between", options=("public", "groups"))
        z, own = normal_quantile(alpha), self._shown(self.tidy(1.0 - alpha))
        if kind == "public":
            if self.public is None:
                raise ArgumentError("between='public' needs public rows with the groups", argument="between")
            return differences(own, self.public.frame, z=z)
        first, *others = self.groups
        if not others:
            raise ArgumentError("between='groups' needs groups: describe with by=", argument="between")
        reference = own[own["group"] == first]
        parts = [differences(own[own["group"] == group], reference.assign(group=group), z=z) for group in others]
        return pd.concat(parts, ignore_index=True)

    def _shown(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows without the first of two levels, which says the same as the second."""
        labels = {each.name: labels_of(self.schema, each.name) for each in self.query.columns if each.levels == 2}
        first = [(name, level) in {(key, two[0]) for key, two in labels.items()} for name, level in _pairs(frame)]
        return frame[~np.array(first, dtype=bool)]

    def plot(self, *, between: str | None = None, ax: "Axes | None" = None) -> "Axes":
        """Draw the standardised differences with 95 % intervals, a line per variable or level: a balance plot.

        See `balance`. Differences within 0.1 are shaded.
        """
        kind = between or ("groups" if self.public is None else "public")
        by = None if self.query.by is None else self.schema.label(self.query.by)
        of = "private less public people" if kind == "public" else f"from {by} = {self.groups[0]}"
        return plot_differences(self.balance(between=between), by=by, label=of, ax=ax, labels=self.schema.labels)

    def to_docx(self, path: str | PathLike[str]) -> None:
        """Write the summary's tables to a Word file. Needs ``pip install python-docx``."""
        self.summary().to_docx(path)

    def disclosure(self, form: str | None = None, *, statements: Mapping[str, Any] | None = None) -> Any:
        """Return the privacy record for an output checker, or a form: see `hdpstats.results.Result.disclosure`."""
        query, releases = self.query, dict(self.releases)
        if form is not None:
            return filled_form(
                form,
                statements,
                what="a description of the cohort",
                guarantee=self.guarantee,
                schema=self.schema,
                releases=list(releases.values()),
                columns=[each.name for each in query.columns],
                public_sha256=query.public_sha256,
            )
        return privacy_record(
            self.guarantee,
            self.schema,
            accounting=accounting_of(query.kind, list(releases.values()), several=len(releases) > 1),
            about={
                "description": {
                    "columns": [each.name for each in query.columns],
                    "by": query.by,
                    "complete": query.complete,
                    "follow_up": None if query.follow_up is None else query.follow_up.to_dict(),
                },
                "public_sha256": query.public_sha256,
                "query_sha256": query_sha256(query),
                "release_sha256": {name: each.sha256 for name, each in releases.items()},
                "ledger": {name: ledger_entry(each) for name, each in releases.items()},
            },
            post_processing="everything else in the description is computed from the releases and from public rows",
            used_public_rows=self.public is not None,
        )

    def _numbers(self, site: str | None, *, draws: int) -> DescribedNumbers:
        named = dict(self.releases)
        if site is not None:
            choice(site, name="site", options=self.sites)
        asked = list(named.values()) if site is None else [named[site]]
        return numbers_of(self.query, asked, draws)

    def _frame(self, alpha: float, site: str | None) -> pd.DataFrame:
        key = (site, alpha)
        if key not in self._read:
            kurtosis = {} if self.public is None else dict(self.public.kurtosis)
            chosen = [release.sha256 for name, release in self.releases if site in (None, name)]
            numbers = self._numbers(site, draws=1000)
            estimates = read(numbers, seed=codec.sha256(["sampling", *chosen]), kurtosis=kurtosis, alpha=alpha)
            self._read[key] = tidy_frame(estimates, self.query, self.schema)
        return self._read[key]

    def first_table(self, labels: Mapping[str, str] | None = None, *, conf_level: float = 0.95) -> FirstTable:
        """Return the paper's first table alone: what `summary` has of the cohort.

        Up to two groups of private people stand beside the public rows, with standardised differences.

        Parameters
        ----------
        labels : mapping of str to str, optional
            What to write for a column (``"size"``) or a level (``">50"``); columns have the labels of the schema by
            default.
        conf_level : float
            The level of the intervals, in [0.001, 0.999], half the width of which stands after ±.

        Returns
        -------
        FirstTable
            ``print`` shows it; ``to_docx(path)``, ``to_csv(path)``, ``summary().as_latex()`` and
            ``summary().as_html()`` are for papers.

        Raises
        ------
        ArgumentError
            If ``labels`` name nothing in the table, or nothing but follow-up was described.

        Examples
        --------
        >>> import hdpstats.api as hdp
        >>> schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True, label="Age (years)"))
        >>> people = hdp.datasets.load_rotterdam()
        >>> study = hdp.Study(private=people, schema=schema, budget=hdp.Budget(epsilon=1))
        >>> hdp.describe(study, ["age"], epsilon=1).first_table().names[1]
        'Age (years), mean (SD)'
        """
        level = real(conf_level, name="conf_level", lower=0.001, upper=0.999)
        if not self.query.columns:
            raise ArgumentError("first_table needs columns: follow_up() has what was described", argument="self")
        names = [each.name for each in self.query.columns]
        known = [*names, *(level for name in names for level in labels_of(self.schema, name))]
        unknown = [name for name in labels or {} if name not in known]
        if unknown:
            raise ArgumentError(
                f"labels: there is no {unknown[0]!r}; there are {', '.join(dict.fromkeys(known))}", argument="labels"
            )
        return replace(self._first_table(1.0 - level, labels), notes=tuple(self._notes_of_table(1.0 - level)))

    def _first_table(self, alpha: float, labels: Mapping[str, str] | None = None) -> FirstTable:
        table = first_table(self._columns(alpha), self.query, self.schema, labels)
        if not self._beside:
            return table
        balance = self.balance()
        parts = [_of_group(balance, group) for group in self.groups]
        return table.with_differences(
            [
                {
                    (row["variable"], row["level"] if isinstance(row["level"], str) else None): row["difference"]
                    for row in part.to_dict("records")
                }
                for part in parts
            ]
        )

    def _report(self, alpha: float = 0.05) -> Report:
        blocks = [named_values(self._head())]
        if self.query.columns:
            table = self._first_table(alpha)
            blocks.append(columns(table.headers, table.names, table.cells, title="The cohort"))
        if self.query.pairs is not None:
            blocks.append(self._correlations_block(1.0 - alpha))
        if len(self.sites) > 1 and self.query.columns:
            blocks += [self._of_site(site, alpha) for site in self.sites]
        if self.query.follow_up is not None:
            blocks.append(self._follow_up_block())
        given = [each for _, each in self.releases]
        blocks += privacy_blocks(guarantee_rows(self.guarantee, given), self.guarantee, given)
        return Report(
            title="Description of the private cohort, differentially private",
            heading="Description of the private cohort",
            blocks=blocks,
            notes=self._notes(alpha),
            badges=guarantee_badges(self.guarantee),
            ending=guarantee_details(self.guarantee),
        )

    @property
    def _beside(self) -> bool:
        return self.public is not None and len(self.groups) <= MOST_BESIDE

    def _head(self) -> list[tuple[str, str]]:
        query = self.query
        rows = [("People:", "complete in all columns" if query.complete else "all, each cell that is there")]
        rows += [("Groups:", self.schema.label(query.by))] if query.by else []
        rows += [("Weights:", query.weights)] if query.weights else []
        rows += [("Weights:", f"overlap, {query.weighting.formula}")] if query.weighting else []
        rows += [("Sites:", ", ".join(self.sites))] if len(self.sites) > 1 else []
        return rows + [("No answer:", f"{site}: {reason}") for site, reason in self.missing]

    def _columns(self, alpha: float) -> list[tuple[str, pd.DataFrame]]:
        """Return the columns of the first table: each group of private people, and of public ones beside it."""
        own, columns = self._frame(alpha, None), []
        for group in self.groups:
            name = "private" if self.query.by is None else group_name(self.query.by, str(group), self.schema)
            columns.append((name, _of_group(own, group)))
            if self._beside and self.public is not None:
                columns.append(("public", _of_group(self.public.frame, group)))
        return columns

    def _of_site(self, site: str, alpha: float) -> Any:
        own = self._frame(alpha, site)
        parts = [(site if group is None else f"{site}: {group}", _of_group(own, group)) for group in self.groups]
        cells = first_table(parts, self.query, self.schema)
        return columns(cells.headers, cells.names, cells.cells, title=f"At {site}", folded=True)

    def _correlations_block(self, level: float) -> Any:
        rows = self.correlations(level).to_dict("records")
        names = [
            " and ".join(
                str(row[name]) if not isinstance(row[own], str) else f"{row[name]} = {row[own]}"
                for name, own in (("variable", "level"), ("other", "other_level"))
            )
            for row in rows
        ]
        cells = [[f"{row['estimate']:.2f} ± {(row['conf_high'] - row['conf_low']) / 2:.2f}"] for row in rows]
        return columns(["correlation"], names, cells, title="Correlations")

    def _follow_up_block(self) -> Any:
        frame = self.follow_up()
        unit = getattr(self.schema[self.query.follow_up.time], "unit", None) if self.query.follow_up else None
        shown = [name for name in frame if name not in ("group", "after", "until", "noise_sd", "at_risk_noise_sd")]
        names = [
            (f"{row.group}: " if isinstance(row.group, str) else "") + f"({row.after:g}, {row.until:g}]"
            for row in frame.itertuples()
        ]
        rows = [
            [f"{value:.0f}" if np.isfinite(value) else "N/A" for value in row] for row in frame[shown].to_numpy(float)
        ]
        headers = [str(name).replace("at_risk", "at risk") for name in shown]
        title = "Follow-up" if unit is None else f"Follow-up, {unit}"
        return columns(headers, names, rows, title=title)

    def _notes_of_table(self, alpha: float) -> list[str]:
        query = self.query
        if not query.columns:
            return []
        notes = [COMPLETE if query.complete else EACH, HALF.format(level=1.0 - alpha)]
        notes += [AVAILABLE] if bool(self._frame(alpha, None)["estimate"].isna().any()) else []
        notes += [QUARTILES] if query.with_cells else []
        return notes + ([PUBLIC] if self._beside else [])

    def _notes(self, alpha: float) -> list[str]:
        query, notes = self.query, self._notes_of_table(alpha)
        if query.follow_up is not None:
            follow_up = self.follow_up()
            notes.append(
                f"Counts of follow-up have noise of standard deviation {follow_up['noise_sd'].iloc[0]:.1f} each, "
                f"people at risk of {follow_up['at_risk_noise_sd'].max():.1f} at most."
            )
        return notes

    def __repr__(self) -> str:
        names = ", ".join(each.name for each in self.query.columns) or "follow-up"
        return f"<description of {names}: {self.guarantee}>"


def refused(reason: str) -> ArgumentError:
    """Return the error that a description cannot be used."""
    return ArgumentError(f"description must {reason}", argument="description")


def checked_description(given: object, *, call: str) -> Description:
    """Return a description, or refuse what is none; ``call`` is what makes one."""
    if not isinstance(given, Description):
        raise refused(
            f"be what {call} returned, not {type(given).__name__}; without epsilon it returns a request, which "
            "describes nothing yet"
        )
    return given


def check_described_study(study: Study, description: Description) -> None:
    """Refuse a description of other records, or under other terms."""
    if description.schema.sha256 != study.schema.sha256:
        raise refused("be of a study with the same schema; describe this study")
    given = description.guarantee
    if (given.relation, given.most_rows) != (study.relation, study.most_rows):
        raise refused(
            f"be of a study with the same relation and max_rows_per_unit, {study.relation.value} and "
            f"{study.most_rows}; describe this study"
        )
    if set(description.sites) != set(study.sites):
        raise refused(
            f"be of the same sites: it is of {', '.join(description.sites)}, the study of "
            f"{', '.join(study.sites) or 'none'}; describe this study, or fit study.at(...) of the described sites"
        )
    for name, release in description.releases:
        held, entry = study.sites[name].held, release.entry
        if held is None:
            continue
        if entry is None:
            raise refused("say to which account it was charged, as what describe returned does; describe this study")
        if (entry.dataset, entry.version) != (held.dataset, held.version):
            raise refused(
                f"be of the same data: it is of data set {entry.dataset!r}, version {entry.version}, and the study has "
                f"{held.dataset!r}, version {held.version}; describe this study"
            )
        if entry.account and held.account and entry.account != held.account:
            raise refused(
                f"be of the same people: it was charged to another account than this study's, although both have a "
                f"data set called {entry.dataset!r}; describe this study"
            )


@rows_of.register(Description)
def _(over: Description, fit: "Result", rows: FittedRows) -> Population:
    """Return the public rows of a fit raked to what is described."""
    if rows.table is None:
        raise no_rows()
    if over.query.groups > 1 or over.schema.sha256 != fit.schema.sha256:
        raise ArgumentError(
            "over must be a description without by=, of a study with the schema of the fit", argument="over"
        )
    design, hazard = design_of(fit), fit.facts.hazard
    times = () if hazard is None else (hazard.stop, hazard.start)
    variables = [name for name in design.needs if name not in (design.response, *times)]
    if not {column.name for column in over.query.columns} & set(variables):
        raise ArgumentError(
            f"over: the description has none of the model's variables, {', '.join(variables)}", argument="over"
        )
    releases = [release for _, release in over.releases]
    known = moments_of(numbers_of(over.query, releases, 0), variables=variables, sha256=releases[0].sha256)
    raked = raked_rows(rows.table, over.schema, known, variables=variables, releases=[each.sha256 for each in releases])
    words = f"{len(raked.frame)} public rows raked to a description"
    return Population(
        frame=raked.frame,
        weights=raked.weights,
        words=words,
        draws=raked.draws,
        guarantee=over.guarantee,
        rests=tuple((part, tuple(releases)) for part in over.guarantee.as_parts("the description averaged over")),
    )


def _pairs(frame: pd.DataFrame) -> list[tuple[object, object]]:
    return list(zip(frame["variable"], frame["level"], strict=True))


def _of_group(frame: pd.DataFrame, group: str | None) -> pd.DataFrame:
    return frame[frame["group"].isna()] if group is None else frame[frame["group"] == group]
