"""Asking sites round by round: what they answered decides what is asked next, until there is nothing left to ask."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, final

from hdpstats.records.query import Query, Release, of_kind
from hdpstats.sites import Study
from hdpstats.sites.asking import Missing, ask

Q = TypeVar("Q", bound=Query)
R = TypeVar("R", bound=Release)
E = TypeVar("E")

Next = Callable[[Sequence[Mapping[str, Q]], Sequence[Mapping[str, R]]], Mapping[str, Q] | E]
"""From the rounds so far the queries of the next one, by site; after the last round what ends it."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation(Generic[Q, R]):
    """The rounds of a fit in their order, by site, and who did not answer."""

    asked: Sequence[Mapping[str, Q]]
    answered: Sequence[Mapping[str, R]]
    missing: tuple[Missing, ...]

    def by_site(self, names: Sequence[str]) -> dict[str, tuple[tuple[Q, ...], tuple[R, ...]]]:
        """Return the answers of each site, with their queries; sites that answered no round are left out."""
        found = {}
        for name in names:
            releases = tuple(each[name] for each in self.answered if name in each)
            if releases:
                found[name] = tuple(each[name] for each in self.asked[: len(releases)]), releases
        return found


def converse(study: Study, advance: Next[Q, R, E], kind: type[R]) -> tuple[E, Conversation[Q, R]]:
    """Ask the sites of a study until ``advance`` has no more queries for them; their releases must be of a kind."""
    asked: list[Mapping[str, Q]] = []
    answered: list[Mapping[str, R]] = []
    missing: list[Missing] = []
    while isinstance(step := advance(asked, answered), Mapping):
        given = ask(study, step, round=len(asked) + 1)
        asked.append(step)
        answered.append({name: of_kind(release, kind) for name, release in given.releases.items()})
        missing += given.missing
    return step, Conversation(asked=asked, answered=answered, missing=tuple(missing))
