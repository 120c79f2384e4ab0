"""What the sites of a fit are asked, round by round, and what they gave, as the private side of a result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final

from hdpstats.inference.sandwich import Estimates
from hdpstats.mechanisms.count.query import CountRelease
from hdpstats.models.model_spec import ModelSpec
from hdpstats.models.request import FitRequest, RecordCounts
from hdpstats.privacy.accountant import guarantee, over_sites
from hdpstats.privacy.guarantee import Guarantee
from hdpstats.privacy.relation import Relation
from hdpstats.records.query import Query, Release, of_kind
from hdpstats.records.sites import SitesQuery, SitesRelease, answers_in, charged_events
from hdpstats.results import ModelFacts, Released, Result, SiteContribution
from hdpstats.results.sites import entries_of
from hdpstats.sites import Study
from hdpstats.sites.asking import Missing, ask

Q = TypeVar("Q", bound=Query)
R = TypeVar("R", bound=Release)
E = TypeVar("E")

Next = Callable[[Sequence[Mapping[str, Q]], Sequence[Mapping[str, R]]], Mapping[str, Q] | E]
"""From the rounds so far the queries of the next one, by site; after the last round the estimate."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Contribution(Generic[Q, R]):
    """One site's part in a fit: query, release, and its number of people where that was released too."""

    query: Q
    release: R
    count: CountRelease | None


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
    alone : mapping of str to CountRelease
        The numbers of people of sites that answered nothing else: their people paid too.
    """

    given: Mapping[str, Contribution[Q, R]]
    missing: tuple[Missing, ...]
    alone: Mapping[str, CountRelease]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class AnsweredRounds(Generic[Q, R]):
    """The rounds of a fit in their order, by site, and the sites that did not answer."""

    asked: Sequence[Mapping[str, Q]]
    answered: Sequence[Mapping[str, R]]
    missing: tuple[Missing, ...]

    def contributions(
        self, counts: RecordCounts, *, query: Callable[..., Query], release: Callable[..., Release]
    ) -> Contributions[Any, Any]:
        """Return what each site gave, its queries and its releases as one record of each type.

        Sites that answered no round are left out.
        """
        given = {}
        for name, site in counts.sites.items():
            releases = tuple(each[name] for each in self.answered if name in each)
            if releases:
                queries = tuple(each[name] for each in self.asked[: len(releases)])
                whole = release(rounds=releases, entry=releases[-1].entry)
                given[name] = Contribution(query=query(rounds=queries), release=whole, count=site.count)
        return Contributions(given=given, missing=(*counts.missing, *self.missing), alone=counts.alone(given))


def ask_rounds(study: Study, advance: Next[Q, R, E], kind: type[R]) -> tuple[E, AnsweredRounds[Q, R]]:
    """Ask the sites of a study until ``advance`` has no more queries for them; their releases must be of a kind."""
    asked: list[Mapping[str, Q]] = []
    answered: list[Mapping[str, R]] = []
    missing: list[Missing] = []
    while isinstance(step := advance(asked, answered), Mapping):
        given = ask(study, step, round=len(asked) + 1)
        asked.append(step)
        answered.append({name: of_kind(release, kind) for name, release in given.releases.items()})
        missing += given.missing
    return step, AnsweredRounds(asked=asked, answered=answered, missing=tuple(missing))


def private_result(
    spec: ModelSpec,
    request: FitRequest,
    contributions: Contributions[Any, Any],
    *,
    facts: ModelFacts,
    found: Estimates,
) -> Result:
    """Return the result of a private fit.

    ``found.sites`` are the estimates of the contributing sites, in their order; empty where they were not made.
    """
    return Result.of(
        facts=facts,
        schema=spec.study.schema,
        estimates=found,
        released=_released(spec.study, request, contributions, found),
        checked=spec.check(facts, found.chosen.values),
    )


def _released(study: Study, request: FitRequest, contributions: Contributions[Any, Any], found: Estimates) -> Released:
    """Return queries, releases and guarantee; of a study with one site that site's own records."""
    given = contributions.given
    guarantees = [_guarantee(study, (each.count, each.release)) for each in given.values()]
    guarantees += [_guarantee(study, (count,)) for count in contributions.alone.values()]
    sites = _site_facts(study, request, contributions, found)
    if len(study.sites) == 1:
        (only,) = given.values()
        return Released(query=only.query, release=only.release, guarantee=guarantees[0], count=only.count, sites=sites)
    counts = tuple((name, each.count) for name, each in given.items() if each.count is not None)
    return Released(
        query=SitesQuery(sites=tuple((name, each.query) for name, each in given.items())),
        release=SitesRelease(sites=tuple((name, each.release) for name, each in given.items())),
        guarantee=over_sites(guarantees),
        count=SitesRelease(sites=counts) if counts else None,
        sites=sites,
        heterogeneity=found.heterogeneity,
    )


def _guarantee(study: Study, releases: Sequence[Release | None]) -> Guarantee:
    events = [event for each in releases for event in charged_events(each)]
    return guarantee(events, relation=study.relation, most_rows=study.most_rows)


def _site_facts(
    study: Study, request: FitRequest, contributions: Contributions[Any, Any], found: Estimates
) -> tuple[SiteContribution, ...]:
    """Return the public facts of every site of the study, also of those that gave nothing."""
    reasons = {each.site: each.reason for each in contributions.missing}
    own = dict(zip(contributions.given, found.sites, strict=False))
    facts = []
    for name in study.sites:
        given = contributions.given.get(name)
        count, release = (contributions.alone.get(name), None) if given is None else (given.count, given.release)
        facts.append(
            SiteContribution(
                site=name,
                records=_people(study, name, count),
                epsilon=request.at(name).epsilon,
                delta=request.delta,
                rounds=0 if release is None else len(answers_in(release)),
                missing=reasons.get(name),
                weight=own[name].weight if name in own else 0.0,
                entries=(*entries_of(count), *entries_of(release)),
                estimate=own[name].estimate if name in own and len(study.sites) > 1 else None,
            )
        )
    return tuple(facts)


def _people(study: Study, name: str, count: CountRelease | None) -> int | None:
    """Return the public number of a site's people, or the noisy one; None where it is protected and not released."""
    if study.relation is Relation.REPLACE_ONE:
        return study.sites[name].records
    return None if count is None else count.count
