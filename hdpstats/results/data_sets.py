"""Which data sets a result rests on: accounts of ledgers tell whether two results are of the same people.

Those are all whose people paid for it: also of a site that sold its number of people and then gave nothing else.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

from hdpstats.records.query import LedgerEntry, Release
from hdpstats.results.sites import SiteContribution, entries_of


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DataSet:
    """A data set whose people paid for a result.

    Attributes
    ----------
    dataset, version : str, int
        What its custodian calls it.
    account : str
        The identity of its account. Data sets and versions with one account are of the same people; empty where it is
        not known.
    """

    dataset: str
    version: int
    account: str

    def __str__(self) -> str:
        return f"data set {self.dataset!r}, version {self.version}"


def data_sets_of(releases: Sequence[Release | None], sites: Sequence[SiteContribution]) -> tuple[DataSet, ...]:
    """Return the data sets of releases, and of all that sites were charged, each once.

    Parameters
    ----------
    releases
        The release of a fit, and the number of people that was bought before it.
    sites
        The sites that were asked, also those that are in no release.
    """
    entries = [entry for each in releases for entry in entries_of(each)]
    return _named([*entries, *(entry for site in sites for entry in site.entries)])


def _named(entries: Iterable[LedgerEntry]) -> tuple[DataSet, ...]:
    found = (DataSet(dataset=entry.dataset, version=entry.version, account=entry.account) for entry in entries)
    return tuple(dict.fromkeys(found))
