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
from hdpstats._base.validation import integer, truth
from hdpstats.inference.released import ASSUMED
from hdpstats.mechanisms.count.query import CountQuery, CountRelease
from hdpstats.mechanisms.description.query import DescriptionQuery, DescriptionRelease
from hdpstats.mechanisms.objective.query import ObjectivePerturbation
from hdpstats.mechanisms.registry import named, prepare
from hdpstats.models.cohort import OwnDescription, SiteDescription, described_sites, own_description
from hdpstats.models.model_spec import LossSpec, ModelSpec
from hdpstats.noise.geometric import TwoSidedGeometric
from hdpstats.privacy.accountant import Guarantee, guarantee, over_sites, total
from hdpstats.privacy.budget import EPSILON_GRAIN, release_delta, release_epsilon, rounded_down
from hdpstats.privacy.relation import Relation
from hdpstats.records.cohort import CohortMoments
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
from hdpstats.results import FittedRows, ModelFacts, Released, Result, SiteContribution
from hdpstats.results.description import Description
from hdpstats.results.sites import DescribedCohort, entries_of
from hdpstats.sites import Study
from hdpstats.sites.study import Answered, Missing, ask


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FitRequest:
    """One fit that may spend ``epsilon`` and ``delta`` on a mechanism; ``replicate`` numbers independent draws.

    Without a mechanism the model chooses. ``epsilons`` are those of sites by name where they differ; ``epsilon`` is
    then the largest. ``description`` is one of the private cohort that was paid for before; without it the fit asks
    for what it needs to know of the cohort, unless not told to ``describe``.
    """

    epsilon: Fraction
    delta: Fraction
    mechanism: MechanismOptions | None
    replicate: int
    epsilons: Mapping[str, Fraction] = field(default_factory=dict)
    description: Description | None = None
    describe: bool = True

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
    description: Description | None = None,
    describe: object = True,
) -> FitRequest:
    """Check the arguments of `fit`."""
    if describe is False and description is not None:
        raise ArgumentError(
            "describe=False declines what description= gives; leave one of them out", argument="describe"
        )
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
        description=description,
        describe=truth(describe, name="describe"),
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
    """What is known of a site's people before its part in a fit, and what is left to spend.

    Attributes
    ----------
    records, records_sd : int, float
        The number of people who count, and the standard deviation of the noise in it: 0 where it is public.
    most : int
        The public or declared number of all people.
    request : FitRequest
        What is left of the request.
    for_count, for_averages : Fraction
        The parts of epsilon for their number and for averages of their variables.
    count : CountRelease or None
        The release of the number, where the fit asked for it.
    description : SiteDescription or None
        The description that the fit rests on.
    cohort : CohortMoments or None
        What that tells of the variables of the model, where the fit has use for it.
    """

    records: int
    records_sd: float
    most: int
    request: FitRequest
    for_count: Fraction = Fraction(0)
    for_averages: Fraction = Fraction(0)
    count: CountRelease | None = None
    description: SiteDescription | None = None
    cohort: CohortMoments | None = None

    @property
    def charged(self) -> tuple[Release, ...]:
        """What the site was charged for the fit already."""
        own = [] if self.description is None or self.request.description is not None else [self.description.release]
        return tuple(each for each in (self.count, *own) if each is not None)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RecordCounts:
    """What is known of the people of each site, and the sites that did not answer.

    ``left`` are those of them that answered something and then nothing more.
    """

    sites: Mapping[str, SiteRecords]
    missing: tuple[Missing, ...]
    left: Mapping[str, SiteRecords] = field(default_factory=dict)

    def alone(self, contributing: Collection[str]) -> dict[str, SiteRecords]:
        """Return the sites that were charged already and are not among those that contribute."""
        known = {**self.sites, **self.left}
        return {name: each for name, each in known.items() if name not in contributing and each.charged}


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


def planned_records(
    spec: ModelSpec, request: FitRequest, people: Mapping[str, int], *, averages: bool = False
) -> dict[str, SiteRecords]:
    """Return what to plan a fit with: what is known of people, and what is left of the request once that is paid for.

    ``averages`` says whether the mechanism has use for averages of private people.
    """
    own = own_description(spec) if averages and request.describe and request.description is None else None
    given = {} if request.description is None else described_sites(spec, request.description)
    found = {}
    for name, records in people.items():
        known = SiteRecords(records=records, records_sd=0.0, most=records, request=request.at(name))
        if name in given:
            known = _described(spec, known, given[name])
        counted = _counted(spec, known)
        found[name] = counted if own is None else _averaged(own, counted, whole=request.at(name).epsilon)
    return found


def _averaged(own: OwnDescription, site: SiteRecords, *, whole: Fraction) -> SiteRecords:
    """Return a site with less to spend where averages of its people are to be asked for, and what these may be."""
    paid = rounded_down(whole * own.share(whole, records=site.most), EPSILON_GRAIN)
    if not paid:
        return site
    return replace(
        site,
        for_averages=paid,
        cohort=own.expected(paid, records=site.most, people=(float(site.records), site.records_sd)),
        request=replace(site.request, epsilon=site.request.epsilon - paid),
    )


def _described(spec: ModelSpec, site: SiteRecords, description: SiteDescription) -> SiteRecords:
    """Return a site with what a description tells of it."""
    number, sd = description.people or (float(site.records), site.records_sd)
    records = min(max(round(number), 1), site.most)
    return replace(
        site,
        records=records,
        records_sd=sd,
        description=description,
        cohort=description.moments(spec, (float(records), sd)),
    )


def _counted(spec: ModelSpec, site: SiteRecords) -> SiteRecords:
    """Return a site with less to spend where the number of its people must be asked for."""
    if site.description is not None and site.description.people is not None:
        return site
    epsilon = site.request.epsilon
    needs = spec.needs if site.request.describe else ()
    left = left_for_fit(spec.study, needs, epsilon, records=site.most)
    paid = epsilon - left
    return replace(site, records_sd=count_sd(paid), for_count=paid, request=replace(site.request, epsilon=left))


def record_counts(
    spec: ModelSpec, request: FitRequest, first_query: Callable[[SiteRecords], Query], *, averages: bool = False
) -> RecordCounts:
    """Return what is known of the people of each site who count, released first where it is private and not described.

    ``first_query`` returns the first query of the fit to a site. It is tried with the declared numbers, so that a fit
    that no proof covers, or that could not be paid, is refused before anything is released. Fits of one epsilon to the
    same columns of the same people share a number: the same question is answered once. What is asked about averages
    does not depend on the number that was released before.
    """
    study = spec.study
    planned = planned_records(
        spec, request, {name: site.records for name, site in study.sites.items()}, averages=averages
    )
    before = {name: _queries_before(spec, request, name, site, first_query) for name, site in planned.items()}
    counting = {name: each.count for name, each in before.items() if each.count is not None}
    counted = ask(study, counting, round=0) if counting else Answered(releases={}, missing=())
    known = {
        name: _with_count(site, counted.releases.get(name))
        for name, site in planned.items()
        if name not in counting or name in counted.releases
    }
    describing = {name: each.description for name, each in before.items() if each.description and name in known}
    described = ask(study, describing, round=0) if describing else Answered(releases={}, missing=())
    left = {name: site for name, site in known.items() if name in describing and name not in described.releases}
    return RecordCounts(
        sites={
            name: _with_averages(spec, site, describing.get(name), described.releases.get(name))
            for name, site in known.items()
            if name not in left
        },
        missing=(*counted.missing, *described.missing),
        left=left,
    )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class _Before:
    """What a site is asked before its part in a fit."""

    count: CountQuery | None = None
    description: DescriptionQuery | None = None


def _queries_before(
    spec: ModelSpec, request: FitRequest, name: str, site: SiteRecords, first_query: Callable[[SiteRecords], Query]
) -> _Before:
    """Return what a site is asked before its part in a fit; each query says what is charged after it."""
    if not (site.for_count or site.for_averages):
        return _Before()
    study = spec.study
    site_facts = replace(spec.site_facts(site.most), row_order=study.sites[name].terms.row_order)
    prepared = prepare(first_query(site), site_facts)
    ahead, count, description = (total(prepared.events), *prepared.ahead), None, None
    if site.for_averages and (own := own_description(spec)) is not None:
        description = own.query(site.for_averages, ahead=ahead, replicate=request.replicate)
        ahead = (total(prepare(description, site_facts).events), *ahead)
    if site.for_count:
        may_lack = request.describe and study.schema.leaves_out(spec.needs)
        count = CountQuery(
            epsilon=site.for_count,
            columns=tuple(sorted(set(spec.needs))) if may_lack else None,
            ahead=ahead,
            schema_sha256=study.schema.sha256,
            replicate=request.replicate,
        )
    return _Before(count=count, description=description)


def _with_count(site: SiteRecords, release: Release | None) -> SiteRecords:
    if release is None:
        return site
    count = of_kind(release, CountRelease)
    return replace(site, records=count.count, records_sd=count.noise_sd, count=count)


def _with_averages(
    spec: ModelSpec, site: SiteRecords, query: DescriptionQuery | None, release: Release | None
) -> SiteRecords:
    if query is None or release is None:
        return site
    known = SiteDescription(query=query, release=of_kind(release, DescriptionRelease))
    return replace(site, description=known, cohort=known.moments(spec, (float(site.records), site.records_sd)))


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
        The sites that were charged before and then answered nothing else: their people paid too.
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
    released = _released(spec.study, request, contributions, found)
    if not request.describe and (note := declined(spec)):
        found = found.noted(note, instead=ASSUMED)
    if released.count is None and (sd := _described_sd(contributions)):
        facts = replace(facts, records_sd=sd, complete_rows=spec.study.schema.leaves_out(spec.needs))
    return Result(
        facts=facts,
        schema=spec.study.schema,
        estimate=found.chosen,
        public_only=spec.public_only,
        penalised=found.penalised,
        private_only=found.private_only,
        pooled=found.pooled,
        released=released,
        checked=spec.check(facts, found.chosen.values),
        public_rows=FittedRows(table=spec.study.public),
    )


def declined(spec: ModelSpec) -> str | None:
    """Return what intervals assume where a fit was told not to describe the cohort; None where nothing."""
    assumed = ["no missing cells"] if spec.study.schema.leaves_out(spec.needs) else []
    assumed += ["covariates distributed as the public ones"] if isinstance(spec, LossSpec) and spec.public else []
    return f"Intervals assume {' and '.join(assumed)} (describe=False)." if assumed else None


def _described_sd(contributions: Contributions[Any, Any]) -> float:
    """Return the standard deviation of the noise in the number of people of all sites, as descriptions tell it."""
    return math.hypot(*(each.people.records_sd for each in contributions.given.values()))


def _released(study: Study, request: FitRequest, contributions: Contributions[Any, Any], found: Estimates) -> Released:
    """Return queries, releases and guarantee; of a study with one site that site's own records."""
    given = contributions.given
    guarantees = [_guarantee(study, each.charged) for each in given.values()]
    guarantees += [_guarantee(study, each.charged) for each in contributions.alone.values()]
    sites = _site_facts(study, request, contributions, found)
    described = _description(request, given)
    if len(study.sites) == 1:
        (only,) = given.values()
        return Released(
            query=only.query,
            release=only.release,
            guarantee=guarantees[0],
            count=only.people.count,
            description=described,
            sites=sites,
            disagreement=found.disagreement,
        )
    counts = tuple((name, each.people.count) for name, each in given.items() if each.people.count is not None)
    return Released(
        query=SitesQuery(sites=tuple((name, each.query) for name, each in given.items())),
        release=SitesRelease(sites=tuple((name, each.release) for name, each in given.items())),
        guarantee=over_sites(guarantees),
        count=SitesRelease(sites=counts) if counts else None,
        description=described,
        sites=sites,
        heterogeneity=found.heterogeneity,
        disagreement=found.disagreement,
    )


def _description(request: FitRequest, given: Mapping[str, Contribution[Any, Any]]) -> DescribedCohort | None:
    """Return the descriptions that a fit rests on, with what they cost; None without one."""
    known = [(name, each.people.description) for name, each in given.items() if each.people.description is not None]
    if not known:
        return None
    return DescribedCohort(
        charged=request.description is None,
        queries=tuple((name, each.query) for name, each in known),
        releases=tuple((name, each.release) for name, each in known),
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
        known, release = (contributions.alone.get(name), None) if given is None else (given.people, given.release)
        before = () if known is None else known.charged
        facts.append(
            SiteContribution(
                site=name,
                records=_people(study, name, known),
                epsilon=request.at(name).epsilon,
                delta=request.delta,
                rounds=0 if release is None else len(answers_in(release)),
                missing=reasons.get(name),
                weight=own[name].weight if name in own else 0.0,
                entries=tuple(entry for each in (*before, release) for entry in entries_of(each)),
                estimate=own[name].estimate.marginal if name in own and len(study.sites) > 1 else None,
            )
        )
    return tuple(facts)


def _people(study: Study, name: str, known: SiteRecords | None) -> int | None:
    """Return a site's number of people who count, noisy where it is private; None where neither is known."""
    if known is not None:
        return known.records
    return study.sites[name].records if study.relation is Relation.REPLACE_ONE else None
