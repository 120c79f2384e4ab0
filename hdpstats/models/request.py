"""What a fit asks for, and what the sites gave.

Epsilon, delta and mechanism are checked before anything is charged. The number of people at a site is the public one,
the declared one for a plan, or a noisy one that is released first. Fits by rounds ask the sites until there is nothing
left to ask. What the sites gave is the private side of a result.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Generic, TypeVar, final

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import integer
from hdpstats.mechanisms.count.query import CountQuery, CountRelease
from hdpstats.mechanisms.objective.query import ObjectivePerturbation
from hdpstats.mechanisms.registry import named, prepare
from hdpstats.models.model_spec import ModelSpec
from hdpstats.noise.geometric import TwoSidedGeometric
from hdpstats.privacy.accountant import Guarantee, guarantee, over_sites, total
from hdpstats.privacy.budget import EPSILON_GRAIN, release_delta, release_epsilon, rounded_down
from hdpstats.privacy.relation import Relation
from hdpstats.records.estimate import Estimates
from hdpstats.records.query import MechanismOptions, Query, Release, of_kind
from hdpstats.records.several import (
    RoundQuery,
    RoundRelease,
    RoundsQuery,
    RoundsRelease,
    SitesQuery,
    SitesRelease,
    answers_in,
    charged_events,
)
from hdpstats.results import ModelFacts, Released, Result, SiteContribution
from hdpstats.results.sites import entries_of
from hdpstats.sites import Study
from hdpstats.sites.study import Missing, ask


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FitRequest:
    """One fit that may spend ``epsilon`` and ``delta`` on a mechanism; ``replicate`` numbers independent draws.

    Without a mechanism the model chooses. ``epsilons`` are those of sites by name where they differ; ``epsilon`` is
    then the largest.
    """

    epsilon: Fraction
    delta: Fraction
    mechanism: MechanismOptions | None
    replicate: int
    epsilons: Mapping[str, Fraction] = field(default_factory=dict)

    def at(self, site: str) -> "FitRequest":
        """Return what one site is asked to spend."""
        return replace(self, epsilon=self.epsilons.get(site, self.epsilon), epsilons={})

    def check(self, sites: Collection[str]) -> None:
        """Raise ArgumentError unless epsilon is one number, or one for each site of the study."""
        if self.epsilons and set(self.epsilons) != set(sites):
            raise ArgumentError(
                f"epsilon must be a number, or a number for each of the study's sites: {', '.join(map(repr, sites))}",
                argument="epsilon",
            )


def fit_request(
    epsilon: object,
    delta: object = 0,
    mechanism: object = "auto",
    se_share: float = 0.0,
    *,
    replicate: object = 1,
    allow_large_epsilon: bool = False,
) -> FitRequest:
    """Check the arguments of `fit`."""
    several = epsilon if isinstance(epsilon, Mapping) else {}
    amounts = {
        str(site): release_epsilon(value, allow_large_epsilon=allow_large_epsilon) for site, value in several.items()
    }
    amount = max(amounts.values()) if amounts else release_epsilon(epsilon, allow_large_epsilon=allow_large_epsilon)
    slack = release_delta(delta)
    options, with_hessian = named(mechanism), ObjectivePerturbation(se_share=se_share)
    plain = options is None or options == ObjectivePerturbation()
    if with_hessian.share and not plain:
        raise ArgumentError(
            "se_share must be given once, to fit or to an ObjectivePerturbation; no other mechanism takes it",
            argument="se_share",
        )
    return FitRequest(
        epsilon=amount,
        delta=slack,
        mechanism=with_hessian if with_hessian.share else options,
        replicate=integer(replicate, name="replicate", lower=1, upper=10**9),
        epsilons=amounts,
    )


def epsilons_of(epsilon: float | Iterable[float]) -> list[Fraction]:
    """Check the values that `plan` is asked for."""
    values = list(epsilon) if isinstance(epsilon, Iterable) else [epsilon]
    if not values:
        raise ArgumentError("epsilon must name at least one value to plan for", argument="epsilon")
    return [release_epsilon(value, allow_large_epsilon=True) for value in values]


def people_of(study: Study, n: object) -> int:
    """Return the number of private people to plan for: the study's, where none is named."""
    if n is not None:
        return integer(n, name="n", lower=1, upper=10**12)
    if study.records is None:
        raise ArgumentError("n must be given, the number of private records: the study has none", argument="n")
    return study.records


SHARE = Fraction(1, 50)
"""Part of a fit's epsilon that pays for the number of people: a standard deviation of 71 people at epsilon 1.

The number sets scales (radius, ridge, the curvature to expect), on which an estimate depends smoothly, so that a
relative error of it is about one of the standard errors.
"""

LEAST_SHARE, MOST_SHARE = Fraction(1, 100), Fraction(1, 10)
"""Bounds of the part of epsilon that pays for the number of complete rows, where the number of all rows is public."""

SHARE_GRAIN = Fraction(1, 10_000)
"""Such a part has four digits."""

RELATIVE_ERROR = Fraction(1, 20)
"""The standard deviation of the number of complete rows, over that of all rows, which that part is to reach."""

ONLY = "site"
"""What a site is called where it does not matter which one it is."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SiteRecords:
    """A site's number of people who count, the release of that number where there is one, and what is left to spend.

    ``most`` is the public or declared number of all people.
    """

    records: int
    most: int
    count: CountRelease | None
    request: FitRequest

    @property
    def records_sd(self) -> float:
        """The standard deviation of the noise in the number; 0 where it is public."""
        return 0.0 if self.count is None else self.count.noise_sd


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RecordCounts:
    """The number of people at each site, and the sites that did not answer."""

    sites: Mapping[str, SiteRecords]
    missing: tuple[Missing, ...]

    def alone(self, contributing: Collection[str]) -> dict[str, CountRelease]:
        """Return the numbers that were released by sites which are not among those that contribute."""
        counts = {name: each.count for name, each in self.sites.items() if name not in contributing}
        return {name: count for name, count in counts.items() if count is not None}


def left_for_fit(study: Study, needs: Sequence[str], epsilon: Fraction, *, records: int) -> Fraction:
    """Return what is left of an epsilon once the number of people who count is paid for, where it is private.

    Under ``add_or_remove_one`` it always is. Under ``replace_one`` it is where rows may be left out, as some column of
    the model is not declared complete: the part is then what gives a relative error of `RELATIVE_ERROR`, between
    `LEAST_SHARE` and `MOST_SHARE`. It follows from public numbers.
    """
    return epsilon - rounded_down(epsilon * share_of_count(study, needs, epsilon, records=records), EPSILON_GRAIN)


def share_of_count(study: Study, needs: Sequence[str], epsilon: Fraction, *, records: int) -> Fraction:
    """Return the part of epsilon that pays for the number of people who count; 0 where that is public."""
    if study.relation is not Relation.REPLACE_ONE:
        return SHARE
    if not study.schema.leaves_out(needs):
        return Fraction(0)
    exact = Fraction(math.isqrt(2 * 10**12), 10**6) / (RELATIVE_ERROR * max(records, 1) * epsilon)
    return min(max(rounded_down(exact, SHARE_GRAIN), LEAST_SHARE), MOST_SHARE)


def count_sd(paid: Fraction) -> float:
    """Return the standard deviation of the noise in a number of people that is paid for with some epsilon."""
    return TwoSidedGeometric(rate=paid).variance ** 0.5 if paid else 0.0


def planned_records(spec: ModelSpec, request: FitRequest, people: Mapping[str, int]) -> dict[str, SiteRecords]:
    """Return numbers of people to plan a fit with, and what is left of the request once they are paid for."""
    found = {}
    for name, records in people.items():
        own = request.at(name)
        left = replace(own, epsilon=left_for_fit(spec.study, spec.needs, own.epsilon, records=records))
        found[name] = SiteRecords(records=records, most=records, count=None, request=left)
    return found


def record_counts(spec: ModelSpec, request: FitRequest, first_query: Callable[[SiteRecords], Query]) -> RecordCounts:
    """Return the number of people of each site who count, released first where it is private.

    ``first_query`` returns the first query of the fit to a site. It is tried with the declared numbers, so that a fit
    that no proof covers, or that could not be paid, is refused before a number is released. Fits of one epsilon to the
    same columns of the same people share a number: the same question is answered once.
    """
    study = spec.study
    planned = planned_records(spec, request, {name: site.records for name, site in study.sites.items()})
    may_lack = study.schema.leaves_out(spec.needs)
    if study.relation is Relation.REPLACE_ONE and not may_lack:
        return RecordCounts(sites=planned, missing=())
    queries = {}
    for name, site in planned.items():
        site_facts = replace(spec.site_facts(site.records), row_order=study.sites[name].terms.row_order)
        prepared = prepare(first_query(site), site_facts)
        queries[name] = CountQuery(
            epsilon=request.at(name).epsilon - site.request.epsilon,
            columns=tuple(sorted(set(spec.needs))) if may_lack else None,
            ahead=(total(prepared.events), *prepared.ahead),
            schema_sha256=study.schema.sha256,
            replicate=request.replicate,
        )
    answered = ask(study, queries, round=0)
    counts = {name: of_kind(release, CountRelease) for name, release in answered.releases.items()}
    released = {name: replace(planned[name], records=count.count, count=count) for name, count in counts.items()}
    return RecordCounts(sites=released, missing=answered.missing)


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
                given[name] = Contribution(query=RoundsQuery(rounds=queries), release=whole, count=site.count)
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
    return Result(
        facts=facts,
        schema=spec.study.schema,
        estimate=found.chosen,
        public_only=found.public_only,
        private_only=found.private_only,
        pooled=found.pooled,
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
    """Return the noisy number of a site's people who count, else the public one; None where neither is known."""
    if study.relation is Relation.REPLACE_ONE and count is None:
        return study.sites[name].records
    return None if count is None else count.count
