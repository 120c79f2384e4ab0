"""What the sites of a fit released, and what each contributed: public facts, as records, a table, rows of a summary."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Annotated, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats.display import Block, columns
from hdpstats.mechanisms.count import CountRelease
from hdpstats.mechanisms.description import DescriptionQuery, DescriptionRelease
from hdpstats.privacy.budget import OWN, Guarantee, MechanismName, Part, as_pair, total
from hdpstats.records.codec import LEFT_OUT, Record
from hdpstats.records.estimate import Estimate, Heterogeneity
from hdpstats.records.query import LedgerEntry, Query, Release
from hdpstats.records.several import SitesRelease, answers_in, charged_events
from hdpstats.results.adjustment import Adjustment

_DAY = len("2026-01-31")
DESCRIBED: Final = "the description it rests on"
Counts = CountRelease | SitesRelease
"""A noisy number of people: of one site, or of each of several."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SiteContribution:
    """What is publicly known about one site's part in a fit.

    Attributes
    ----------
    site : str
        Its name.
    records : int or None
        Its public number of people, or the noisy one that was released; None where it is protected.
    epsilon, delta : Fraction
        What the fit was to cost its people.
    rounds : int
        How many rounds it answered.
    missing : str or None
        Why it did not answer another one; None where it answered all.
    weight : float
        Its share of the combined private estimate, from 0 to 1.
    entries : tuple of LedgerEntry
        Where its ledger keeps the releases.
    estimate : Estimate or None
        The estimate from its records alone.
    """

    site: str
    records: int | None
    epsilon: Fraction
    delta: Fraction
    rounds: int
    missing: str | None
    weight: float
    entries: tuple[LedgerEntry, ...]
    estimate: Estimate | None

    @property
    def status(self) -> str:
        """Whether it answered, in words."""
        return "answered" if self.missing is None else f"did not answer round {self.rounds + 1}: {self.missing}"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DescribedCohort(Record):
    """The description of private people that a fit rests on, of each site.

    Attributes
    ----------
    charged : bool
        Whether the fit asked for it, and its guarantee includes it; False where it was charged before.
    queries, releases : tuple of (str, DescriptionQuery) and of (str, DescriptionRelease)
        What each site was asked and what it answered.
    """

    charged: bool
    queries: tuple[tuple[str, DescriptionQuery], ...]
    releases: tuple[tuple[str, DescriptionRelease], ...]

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """Where the ledgers keep the releases."""
        return tuple(each.entry for _, each in self.releases if each.entry is not None)

    @property
    def part(self) -> Part:
        """What it guarantees by itself, as a part of what a result rests on: the largest epsilon and delta of sites."""
        pairs, places = [as_pair(total(charged_events(each))) for _, each in self.releases], self.entries
        return Part(
            what=DESCRIBED,
            epsilon=max(each.epsilon for each in pairs),
            delta=max(each.delta for each in pairs),
            releases=tuple(sorted(each.head for each in places)) if len(places) == len(self.releases) else (),
        )

    def added_to(self, guarantee: Guarantee, *, own: str) -> Guarantee:
        """Return the guarantee of a result that rests on it; as it is where that includes it already.

        Who is at two of its sites was charged at both, also where one of them gave the result nothing else.
        """
        if self.charged or guarantee.parts:
            return guarantee
        together = guarantee.resting_on(self.part, own=own)
        return replace(together, sites=max(guarantee.sites, len(self.releases)))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Released:
    """What was asked, what the sites released and what that guarantees; nothing of it in a fit to public rows alone.

    The fields are those of `hdpstats.results.Result`; ``sites`` is its ``site_facts``. ``description`` is what the fit
    knew of the private people: part of what it asked for, or charged before. ``sample`` are all releases of the
    weighted sample that was fitted, of which ``release`` is the last; None for other fits. ``counting`` and
    ``sample_queries`` are what ``count`` and ``sample`` answer. ``guarantee`` is of everything that the fit rests on:
    what a description cost that was charged before is added to it. ``adjustment`` says how people were weighted by
    their chance of treatment, where they were, and has the releases of that model.

    Raises
    ------
    ArgumentError
        If query, release and guarantee are not given together.
    """

    query: Query | None = None
    release: Release | None = None
    guarantee: Guarantee | None = None
    count: Counts | None = None
    sites: tuple[SiteContribution, ...] = ()
    heterogeneity: Heterogeneity | None = None
    disagreement: Annotated[Heterogeneity | None, LEFT_OUT] = None
    description: Annotated[DescribedCohort | None, LEFT_OUT] = None
    sample: Annotated[tuple[Release, ...] | None, LEFT_OUT] = None
    counting: Annotated[Query | None, LEFT_OUT] = None
    sample_queries: Annotated[tuple[Query, ...] | None, LEFT_OUT] = None
    adjustment: Annotated[Adjustment | None, LEFT_OUT] = None

    @property
    def before(self) -> list[Release]:
        """What was charged before, and the fit rests on: a propensity model and a description, each release once."""
        known = [] if self.adjustment is None else self.adjustment.before
        every = [*known, *charged_before(self.description)]
        return list({each.sha256: each for each in every}.values())

    def __post_init__(self) -> None:
        """Refuse a release without a guarantee and a guarantee without a release; add what was charged before."""
        given = {part is None for part in (self.query, self.release, self.guarantee)}
        if len(given) > 1:
            raise ArgumentError("query, release and guarantee must be given together or not at all", argument="release")
        if self.guarantee is not None and self.description is not None:
            object.__setattr__(self, "guarantee", self.description.added_to(self.guarantee, own=OWN))


NOTHING_RELEASED: Final = Released()


def charged_releases(released: Released) -> list[Release]:
    """Return what a fit was charged for, in the order of the charges."""
    if released.sample is not None:
        return list(released.sample)
    own = released.description is not None and released.description.charged
    described = [each for _, each in released.description.releases] if own and released.description else []
    return [each for each in (released.count, *described, released.release) if each is not None]


def charged_before(known: DescribedCohort | None) -> list[Release]:
    """Return the releases of a description that was charged before what rests on it."""
    return [] if known is None or known.charged else [each for _, each in known.releases]


def cohort_row(known: DescribedCohort) -> tuple[str, str]:
    """Return which description that was charged before a result rests on, as a name and a value."""
    entries = "; ".join(f"data set {e.dataset!r}, version {e.version}, entry {e.number}" for e in known.entries)
    return "Cohort:", f"described before, at {known.part.amount} ({entries})"


FOR_ERRORS: Final = (MechanismName.HESSIAN, MechanismName.CURVATURE, MechanismName.SQUARES)
"""What standard errors are bought with."""


def described_rows(released: Released) -> list[tuple[str, str]]:
    """Return what a fit spent beside its coefficients, or which description it rests on, as names and values."""
    known, guarantee = released.description, released.guarantee
    rows: list[tuple[str, str]] = []
    parts: list[tuple[str, Fraction]] = []
    if known is not None and not known.charged:
        rows.append(cohort_row(known))
    elif released.count is not None:
        counted = any(each.columns for each in counts_in(released.count))
        parts.append(("the number of complete rows" if counted else "the number of people", _most(released.count)))
    if known is not None and known.charged:
        parts.append(("averages of the private people", _most(SitesRelease(sites=known.releases))))
    if released.release is not None and (spent := spent_on(released.release, FOR_ERRORS)):
        share = spent / _most(released.release)
        parts.append((f"standard errors (se_share = {float(share):g})", spent))
    if guarantee is None or not guarantee.epsilon or not parts:
        return rows
    words = [f"{float(spent / guarantee.epsilon):.1%} for {what}" for what, spent in parts]
    return [*rows, ("Of epsilon:", " and ".join(words))]


def spent_on(release: Release, names: Sequence[MechanismName]) -> Fraction:
    """Return what parts of a release cost together, each as much as at the site where it cost most."""
    return sum((_most(release, of=each) for each in names), Fraction(0))


def _most(release: Release, *, of: MechanismName | None = None) -> Fraction:
    """Return the largest epsilon of a release among sites, or of one mechanism's part in it."""
    return max(
        sum((event.epsilon for event in each.events if of in (None, event.ran)), Fraction(0))
        for each in answers_in(release)
    )


def entries_of(release: Release | None) -> tuple[LedgerEntry, ...]:
    """Return where the releases that were charged one by one are kept."""
    charged = () if release is None else answers_in(release)
    return tuple(each.entry for each in charged if each.entry is not None)


def stored_rows(places: Sequence["LedgerEntry | DataSet"]) -> list[tuple[str, str]]:
    """Return which numbers came from the ledger and were not computed anew, as names and values; nothing where none."""
    kept = Counter((each.stored[:_DAY], each.dataset, each.version) for each in places if each.stored)
    several = len({each.dataset for each in places}) > 1
    rows: list[tuple[str, str]] = []
    for (day, dataset, version), number in kept.items():
        words = f"stored release of {day}, version {version}" + (f" of data set {dataset!r}" if several else "")
        if kept.total() < len(places):
            words += f" ({number} of {len(places)} releases; {len(places) - kept.total()} new)"
        rows.append(("" if rows else "Source:", words))
    return rows


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DataSet:
    """A data set whose people a result was charged to.

    Attributes
    ----------
    dataset, version : str, int
        What its custodian calls it.
    account : str
        The identity of its account. Data sets and versions with one account are of the same people; empty where it is
        not known.
    stored : str or None
        When the release was charged, where it came from the ledger and was not computed anew.
    """

    dataset: str
    version: int
    account: str
    stored: Annotated[str | None, LEFT_OUT] = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"data set {self.dataset!r}, version {self.version}"


def _data_set(entry: LedgerEntry) -> DataSet:
    return DataSet(dataset=entry.dataset, version=entry.version, account=entry.account, stored=entry.stored)


_NOT_KNOWN: Final = DataSet(dataset="", version=0, account="")
"""The data set of a release that says nothing of where it is kept."""


def data_sets_of(
    releases: Sequence[Release | None], sites: Sequence[SiteContribution], before: Sequence[Release | None] = ()
) -> tuple[DataSet, ...]:
    """Return the data sets of releases, and of all that sites were charged, each once.

    Accounts of ledgers show whether two results are of the same people. The data sets are all that were charged: also
    of a site that released its number of people and then gave nothing else. A release that has no place in a ledger is
    of a data set without a name and an account.

    Parameters
    ----------
    releases
        The release of a fit, and the number of people that was released before it.
    sites
        The sites that were asked, also those that are in no release.
    before
        What was charged before and the fit rests on: its data sets are added where they are others.
    """
    entries = [entry for each in releases for entry in entries_of(each)]
    entries += [entry for site in sites for entry in site.entries]
    data_sets: dict[DataSet, DataSet] = {}
    for each in map(_data_set, entries):
        if each.stored or each not in data_sets:
            data_sets[each] = each
    for each in [_data_set(entry) for whole in before for entry in entries_of(whole)]:
        data_sets.setdefault(each, each)
    given = [each for whole in (*releases, *before) if whole is not None for each in answers_in(whole)]
    return (*data_sets.values(), *([_NOT_KNOWN] if any(each.entry is None for each in given) else []))


def accounts_of(data_sets: Sequence[DataSet]) -> frozenset[str]:
    """Return the identities of the accounts of data sets, where they are known."""
    return frozenset(each.account for each in data_sets if each.account)


def known_accounts(releases: Sequence[Release | None], sites: Sequence[SiteContribution]) -> frozenset[str]:
    """Return the accounts that all of these were charged to; none where one of them is not known.

    Who has none may be anybody: a result of which an account is not known may be of the same people as any other.
    The arguments are those of `data_sets_of`.
    """
    data_sets = data_sets_of(releases, sites)
    return accounts_of(data_sets) if all(each.account for each in data_sets) else frozenset()


def sites_table(sites: Sequence[SiteContribution]) -> pd.DataFrame:
    """Return a row per site: site, status, records, epsilon, delta, rounds, weight, dataset, entry (the last one)."""
    last = [site.entries[-1] if site.entries else None for site in sites]
    return pd.DataFrame(
        {
            "site": [site.site for site in sites],
            "status": [site.status for site in sites],
            "records": pd.array([site.records for site in sites], dtype="Int64"),
            "epsilon": [float(site.epsilon) for site in sites],
            "delta": [float(site.delta) for site in sites],
            "rounds": [site.rounds for site in sites],
            "weight": [site.weight for site in sites],
            "dataset": [None if entry is None else entry.dataset for entry in last],
            "entry": pd.array([None if entry is None else entry.number for entry in last], dtype="Int64"),
        }
    )


def site_rows(sites: Sequence[SiteContribution]) -> list[tuple[str, str]]:
    """Return what each site contributed as names and values, for a summary."""
    rows = []
    for place, site in enumerate(sites):
        known = "protected" if site.records is None else str(site.records)
        share = f"weight {site.weight:.1%}" if site.rounds else "no part in the estimate"
        words = f"{site.site}: {site.status}; records {known}, epsilon {float(site.epsilon):g}, {share}"
        rows.append(("Sites:" if place == 0 else "", words))
    return rows


def sites_block(sites: Sequence[SiteContribution]) -> Block:
    """Return the table of what each site contributed, for a page."""
    rows = [
        [
            site.status,
            "protected" if site.records is None else str(site.records),
            f"{float(site.epsilon):g}",
            f"{float(site.delta):g}",
            f"{site.weight:.1%}" if site.rounds else "none",
            "; ".join(f"{each.dataset} {each.version}, no. {each.number}" for each in site.entries[-1:]),
        ]
        for site in sites
    ]
    headers = ("status", "people", "epsilon", "delta", "weight", "ledger entry")
    return columns(headers, [site.site for site in sites], rows, title="Sites", aligns="llrrrrl", only="page")


def people(count: Counts) -> tuple[int, float]:
    """Return the noisy number of people, at all sites together, and the standard deviation of its noise."""
    counts = counts_in(count)
    return sum(each.count for each in counts), float(np.sqrt(sum(each.noise_sd**2 for each in counts)))


def counts_in(count: Counts) -> list[CountRelease]:
    """Return the noisy number of each site."""
    return [each for each in answers_in(count) if isinstance(each, CountRelease)]
