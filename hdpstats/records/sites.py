"""The queries and releases of a fit at several sites, by the names of the sites: records for results.

A site answers the query of its own name, not these.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

from hdpstats._base.errors import MechanismError, SiteError
from hdpstats.privacy.event import PrivacyEvent
from hdpstats.records.query import LedgerEntry, Placed, Query, Release
from hdpstats.records.rounds import ReleaseOfRounds


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SitesQuery(Query):
    """What each of several sites was asked.

    ``epsilon`` and ``delta`` are the largest over sites: every person is at one of them.
    """

    kind: ClassVar[str] = "sites/1"
    sites: tuple[tuple[str, Query], ...]

    def __post_init__(self) -> None:
        """Refuse queries that are not those of one fit."""
        if not self.sites or len(dict(self.sites)) != len(self.sites):
            raise MechanismError("a fit at several sites names every one of them once")
        if len({(each.replicate, each.schema_sha256, each.public_sha256) for _, each in self.sites}) != 1:
            raise MechanismError("the queries of a fit agree in the schema, the public rows and the number of the draw")

    @property
    def epsilon(self) -> Fraction:  # type: ignore[override]
        """The largest epsilon over sites."""
        return max(each.epsilon for _, each in self.sites)

    @property
    def delta(self) -> Fraction:  # type: ignore[override]
        """The largest delta over sites."""
        return max(each.delta for _, each in self.sites)

    @property
    def replicate(self) -> int:  # type: ignore[override]
        """The number of the draw."""
        return self.sites[0][1].replicate

    @property
    def schema_sha256(self) -> str:  # type: ignore[override]
        """The schema."""
        return self.sites[0][1].schema_sha256

    @property
    def public_sha256(self) -> str | None:  # type: ignore[override]
        """The public frame."""
        return self.sites[0][1].public_sha256


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SitesRelease(Release):
    """What each of several sites handed out, each with its own place in its own ledger; ``entry`` is None."""

    kind: ClassVar[str] = "sites/1"
    sites: tuple[tuple[str, Release], ...]
    entry: Placed = None

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:  # type: ignore[override]
        """What ran, site by site; nobody is in more than one site, so that they do not add up."""
        return tuple(event for _, each in self.sites for event in each.events)

    def at(self, entry: LedgerEntry) -> "SitesRelease":
        """Refuse: the releases of several sites have no common place."""
        raise SiteError(f"releases of several sites are in ledgers of their own, not at entry {entry.number} of one")


def answers_in(release: Release) -> tuple[Release, ...]:
    """Return the releases that were charged one by one: those of sites, the rounds of a fit, or the release itself."""
    if isinstance(release, SitesRelease):
        return tuple(answer for _, each in release.sites for answer in answers_in(each))
    return release.rounds if isinstance(release, ReleaseOfRounds) else (release,)


def charged_events(release: Release | None) -> tuple[PrivacyEvent, ...]:
    """Return what people paid for a release: its events, as often as its request was charged.

    A request is charged again where a process that computed it ended before; which draw is handed out may then depend
    on each of them (`hdpstats.sites.attempts`).
    """
    answers = () if release is None else answers_in(release)
    return tuple(
        event
        for each in answers
        for event in each.events
        for _ in range(1 if each.entry is None else each.entry.attempt)
    )
