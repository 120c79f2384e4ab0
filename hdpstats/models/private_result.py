"""What the sites of a fit gave, and the result: its estimates with queries, releases, guarantee and sites.

Fits by rounds ask the sites until there is nothing left to ask.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, final

from hdpstats.families.spec import ModelSpec
from hdpstats.families.stacked import OverlapSide
from hdpstats.inference import draws
from hdpstats.models.estimates import assumed
from hdpstats.models.request import FitRequest
from hdpstats.models.site_records import RecordCounts, SiteRecords
from hdpstats.privacy.budget import OWN, over_sites
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.averages import CohortMoments
from hdpstats.records.estimate import Estimates
from hdpstats.records.query import Query, Release, of_kind
from hdpstats.records.several import (
    RoundQuery,
    RoundRelease,
    RoundsQuery,
    RoundsRelease,
    SitesQuery,
    SitesRelease,
    answers_in,
)
from hdpstats.results import FittedRows, ModelFacts, Released, Result, SiteContribution
from hdpstats.results.adjustment import Adjustment
from hdpstats.results.propensity import imbalance_left, resting_on
from hdpstats.results.sites import DescribedCohort, entries_of
from hdpstats.sites import Study
from hdpstats.sites.asking import Answered, Missing, ask
from hdpstats.sites.study import guarantee_of

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


def answers_to(
    queries: Mapping[str, Q], answered: Answered, counts: RecordCounts, kind: type[R]
) -> Contributions[Q, R]:
    """Return what sites gave that were asked one query each; their releases must be of a kind."""
    given = {
        name: Contribution(query=queries[name], release=of_kind(release, kind), people=counts.sites[name])
        for name, release in answered.releases.items()
    }
    return Contributions(given=given, missing=(*counts.missing, *answered.missing), alone=counts.alone(given))


def ask_rounds(
    study: Study, advance: Next[Asked, Given, E], kind: type[Given]
) -> tuple[E, AnsweredRounds[Asked, Given]]:
    """Ask the sites of a study until ``advance`` has no more queries for them; their releases must be of a kind."""
    asked: list[Mapping[str, Asked]] = []
    answered: list[Mapping[str, Given]] = []
    missing: list[Missing] = []
    while isinstance(step := advance(asked, answered), Mapping):
        if not asked:
            for name in (name for name, query in step.items() if query.ahead):
                study.sites[name].check_later(step[name])
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
    released = _released(spec, request, contributions, found)
    if not request.describe and (note := declined(spec)):
        found = found.noted(note, instead=assumed(spec.public_side))
    if spec.few_public is not None:
        found = found.ending(spec.few_public)
    if found.pooled is not None and found.share_words is not None:
        found = replace(found, pooled=found.pooled.ending(found.share_words))
    sd = math.hypot(*(each.people.records_sd for each in contributions.given.values()))
    if released.count is None and sd:  # descriptions told the number of people
        facts = replace(facts, records_sd=sd, complete_rows=spec.study.schema.leaves_out(spec.needs))
    facts = _with_numbers_of_rows(facts, [each.people.cohort for each in contributions.given.values()])
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


def _with_numbers_of_rows(facts: ModelFacts, cohorts: Sequence[CohortMoments | None]) -> ModelFacts:
    """Return facts with the number of rows of people with several, where all sites told it."""
    told = [(each.rows, each.rows_sd) for each in cohorts if each is not None]
    known = [(rows, sd) for rows, sd in told if rows is not None and sd is not None]
    if facts.several_rows is None or not known or len(known) < len(cohorts):
        return facts
    rows, sd = sum(rows for rows, _ in known), math.hypot(*(sd for _, sd in known))
    return replace(facts, several_rows=replace(facts.several_rows, rows=rows, rows_sd=sd))


def declined(spec: ModelSpec) -> str | None:
    """Return what intervals assume where a fit was told not to describe the cohort; None where nothing."""
    taken = ["no missing cells"] if spec.study.schema.leaves_out(spec.needs) else []
    if spec.public_side is not None:
        taken.append(f"{spec.public_side.taken_alike} distributed as the public ones")
    return f"Intervals assume {' and '.join(taken)} (describe=False)." if taken else None


def adjustment_of(spec: ModelSpec) -> Adjustment | None:
    """Return how people were weighted by their chance of treatment; None where they were not."""
    side = spec.public_side
    if spec.overlap is None or not isinstance(side, OverlapSide):
        return None
    propensity = spec.overlap.propensity
    rng = draws.generator(*(each.sha256 for each in propensity.releases), "imbalance")
    left = imbalance_left(side.standing, propensity.estimate.privacy, propensity.estimate.terms, rng)
    return Adjustment(
        formula=propensity.formula,
        before=propensity.releases,
        errors=None,
        imbalance=left,
        effective_share=side.standing.effective_share,
        public_rows=side.rows,
    )


def public_adjustment(spec: ModelSpec, rows: int) -> Adjustment | None:
    """Return how so many public rows were weighted by a propensity model of their own; None where they were not."""
    if spec.overlap is None:
        return None
    formula = spec.overlap.propensity.formula
    return Adjustment(formula=formula, before=(), errors=None, imbalance=(), effective_share=None, public_rows=rows)


def _released(
    spec: ModelSpec, request: FitRequest, contributions: Contributions[Any, Any], found: Estimates
) -> Released:
    """Return queries, releases and guarantee; of a study with one site that site's own records.

    The guarantee counts the propensity model of weighted people.
    """
    own = _released_alone(spec.study, request, contributions, found)
    if spec.overlap is None or own.guarantee is None:
        return own
    guarantee = resting_on(own.guarantee, spec.overlap, own_name=OWN)
    return replace(own, guarantee=guarantee, adjustment=adjustment_of(spec))


def _released_alone(
    study: Study, request: FitRequest, contributions: Contributions[Any, Any], found: Estimates
) -> Released:
    """Return the same without what a propensity model guarantees."""
    given = contributions.given
    guarantees = [guarantee_of(study, *each.charged) for each in given.values()]
    guarantees += [guarantee_of(study, *each.charged) for each in contributions.alone.values()]
    sites = _site_facts(study, request, contributions, found)
    described = _description(request, given)
    if len(study.sites) == 1:
        (only,) = given.values()
        return Released(
            query=only.query,
            release=only.release,
            guarantee=guarantees[0],
            count=only.people.count,
            counting=only.people.counting,
            description=described,
            sites=sites,
            disagreement=found.disagreement,
        )
    counts = tuple((name, each.people.count) for name, each in given.items() if each.people.count is not None)
    asked = tuple((name, each.people.counting) for name, each in given.items() if each.people.counting is not None)
    return Released(
        query=SitesQuery(sites=tuple((name, each.query) for name, each in given.items())),
        release=SitesRelease(sites=tuple((name, each.release) for name, each in given.items())),
        guarantee=over_sites(guarantees),
        count=SitesRelease(sites=counts) if counts else None,
        counting=SitesQuery(sites=asked) if asked else None,
        description=described,
        sites=sites,
        heterogeneity=found.heterogeneity,
        disagreement=found.disagreement,
    )


def _description(request: FitRequest, given: Mapping[str, Contribution[Any, Any]]) -> DescribedCohort | None:
    """Return the descriptions that a fit rests on, with what they cost; None without one.

    Of a description that was charged before they are those of all its sites, also of one that gave nothing else: what
    the others were asked may depend on it.
    """
    before = request.description
    if before is not None:
        return DescribedCohort(charged=False, queries=before.queries, releases=before.releases)
    known = [(name, each.people.description) for name, each in given.items() if each.people.description is not None]
    if not known:
        return None
    return DescribedCohort(
        charged=True,
        queries=tuple((name, each.query) for name, each in known),
        releases=tuple((name, each.release) for name, each in known),
    )


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
