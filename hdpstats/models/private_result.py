"""The result of a private fit: its estimates with queries, releases, guarantee and sites."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hdpstats.inference.released import assumed
from hdpstats.models.contributions import Contribution, Contributions
from hdpstats.models.model_spec import LossSpec, ModelSpec
from hdpstats.models.request import FitRequest
from hdpstats.models.site_records import SiteRecords
from hdpstats.privacy.accountant import Guarantee, guarantee, over_sites
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.estimate import Estimates
from hdpstats.records.query import Release
from hdpstats.records.several import SitesQuery, SitesRelease, answers_in, charged_events
from hdpstats.results import FittedRows, ModelFacts, Released, Result, SiteContribution
from hdpstats.results.sites import DescribedCohort, entries_of
from hdpstats.sites import Study


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
        found = found.noted(note, instead=assumed(spec.public) if isinstance(spec, LossSpec) else "")
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
    taken = ["no missing cells"] if spec.study.schema.leaves_out(spec.needs) else []
    if isinstance(spec, LossSpec) and spec.public:
        taken.append(f"{spec.public.taken_alike} distributed as the public ones")
    return f"Intervals assume {' and '.join(taken)} (describe=False)." if taken else None


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
