"""What the sites of a fit gave, in one round or in several.

Fits by rounds ask the sites until there is nothing left to ask.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final

from hdpstats.models.site_records import RecordCounts, SiteRecords
from hdpstats.records.query import Query, Release, of_kind
from hdpstats.records.several import RoundQuery, RoundRelease, RoundsQuery, RoundsRelease
from hdpstats.sites import Study
from hdpstats.sites.asking import Missing, ask

Q = TypeVar("Q", bound=Query)
R = TypeVar("R", bound=Release)
Asked = TypeVar("Asked", bound=RoundQuery)
Given = TypeVar("Given", bound=RoundRelease)
E = TypeVar("E")

Next = Callable[[Sequence[Mapping[str, Asked]], Sequence[Mapping[str, Given]]], Mapping[str, Asked] | E]
"""From the rounds so far the queries of the next one, by site; after the last round the estimate."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Contribution(Generic[Q, R]):
    """One site's part in a fit: query, release, and what was known of its people before."""

    query: Q
    release: R
    people: SiteRecords

    @property
    def charged(self) -> tuple[Release, ...]:
        """What the site was charged for the fit."""
        return (*self.people.charged, self.release)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Contributions(Generic[Q, R]):
    """What the sites of a fit gave.

    Attributes
    ----------
    given : mapping of str to Contribution
        The sites that answered.
    missing : tuple of Missing
        The sites that did not, with reasons.
    alone : mapping of str to SiteRecords
        The sites that were charged before and then answered nothing else: their people were charged too.
    """

    given: Mapping[str, Contribution[Q, R]]
    missing: tuple[Missing, ...]
    alone: Mapping[str, SiteRecords]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class AnsweredRounds(Generic[Asked, Given]):
    """The rounds of a fit in their order, by site, and the sites that did not answer."""

    asked: Sequence[Mapping[str, Asked]]
    answered: Sequence[Mapping[str, Given]]
    missing: tuple[Missing, ...]

    def contributions(self, counts: RecordCounts) -> Contributions[Any, Any]:
        """Return what each site gave, its queries and its releases as one record each.

        Sites that answered no round are left out.
        """
        given = {}
        for name, site in counts.sites.items():
            releases = tuple(each[name] for each in self.answered if name in each)
            if releases:
                queries = tuple(each[name] for each in self.asked[: len(releases)])
                whole = RoundsRelease(rounds=releases, entry=releases[-1].entry)
                given[name] = Contribution(query=RoundsQuery(rounds=queries), release=whole, people=site)
        return Contributions(given=given, missing=(*counts.missing, *self.missing), alone=counts.alone(given))


def ask_rounds(
    study: Study, advance: Next[Asked, Given, E], kind: type[Given]
) -> tuple[E, AnsweredRounds[Asked, Given]]:
    """Ask the sites of a study until ``advance`` has no more queries for them; their releases must be of a kind."""
    asked: list[Mapping[str, Asked]] = []
    answered: list[Mapping[str, Given]] = []
    missing: list[Missing] = []
    while isinstance(step := advance(asked, answered), Mapping):
        given = ask(study, step, round=len(asked) + 1)
        asked.append(step)
        answered.append({name: of_kind(release, kind) for name, release in given.releases.items()})
        missing += given.missing
    return step, AnsweredRounds(asked=asked, answered=answered, missing=tuple(missing))
