"""What is known of the people of each site before its part in a fit, and what is left of epsilon then.

The number of people at a site is the public one, the declared one for a plan, or a noisy one that is released first.
What averages of their variables are comes from a description, or is asked for after their number
(`hdpstats.models.own_description`).
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import final

from hdpstats.families.spec import ModelSpec
from hdpstats.mechanisms.count import CountQuery, CountRelease
from hdpstats.mechanisms.description import DescriptionQuery, DescriptionRelease
from hdpstats.mechanisms.perturbation.request import Asked
from hdpstats.mechanisms.registry import prepare
from hdpstats.models.own_description import (
    MOST_AVERAGES,
    MOST_OF_ALL,
    OwnDescription,
    ResidualSd,
    SiteDescription,
    described_sites,
    outcome_description,
    own_description,
    residual_sd,
)
from hdpstats.models.request import FitRequest
from hdpstats.noise.discrete import TwoSidedGeometric
from hdpstats.privacy.budget import EPSILON_GRAIN, rounded_down, total
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.averages import CohortMoments
from hdpstats.records.query import Query, Release, of_kind
from hdpstats.sites import Study
from hdpstats.sites.asking import Answered, Missing, ask

SHARE = Fraction(1, 50)
"""Part of a fit's epsilon that is spent on the number of people: a standard deviation of 71 people at epsilon 1.

The number sets scales (radius, ridge, the curvature to expect), on which an estimate depends smoothly, so that a
relative error of it is about one of the standard errors.
"""

LEAST_SHARE, MOST_SHARE = Fraction(1, 100), Fraction(1, 10)
"""Bounds of the part of epsilon spent on the number of complete rows, where the number of all rows is public."""

SHARE_GRAIN = Fraction(1, 10_000)
"""Such a part has four digits."""

RELATIVE_ERROR = Fraction(1, 20)
"""The standard deviation of the number of complete rows, over that of all rows, which that part is to reach."""


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
    averages : OwnDescription or None
        What the fit asks about its people beside their number, where it asks for something.
    counting, count : CountQuery and CountRelease, or None
        What the fit asked about the number, and the release, where it asked.
    description : SiteDescription or None
        The description that the fit rests on.
    cohort : CohortMoments or None
        What that tells of the variables of the model, where the fit has use for it.
    among : tuple of Asked
        All sites of a study of several, by public or declared numbers of people and what they are to spend.
        Nothing that a site answers is in it: the question to a site depends neither on noise nor on who is absent.
    """

    records: int
    records_sd: float
    most: int
    request: FitRequest
    for_count: Fraction = Fraction(0)
    for_averages: Fraction = Fraction(0)
    averages: OwnDescription | None = None
    counting: CountQuery | None = None
    count: CountRelease | None = None
    description: SiteDescription | None = None
    cohort: CohortMoments | None = None
    among: tuple[Asked, ...] = ()

    @property
    def charged(self) -> tuple[Release, ...]:
        """What the site was charged for the fit already."""
        own = [] if self.description is None or self.request.description is not None else [self.description.release]
        return tuple(each for each in (self.count, *own) if each is not None)


def taken_sd(spec: ModelSpec, site: SiteRecords) -> ResidualSd | None:
    """Return what errors take for the standard deviation of residuals at a site; see `residual_sd`."""
    people = (float(site.records), site.records_sd)
    return residual_sd(spec, site.description, people, awaited=site.averages is not None)


def taken_sds(spec: ModelSpec, sites: Iterable[SiteRecords]) -> tuple[ResidualSd, ...]:
    """Return the same of each site; nothing where public rows tell it."""
    return tuple(taken for site in sites if (taken := taken_sd(spec, site)) is not None)


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


def planned_records(
    spec: ModelSpec, request: FitRequest, people: Mapping[str, int], *, averages: bool = False, expected: bool = True
) -> dict[str, SiteRecords]:
    """Return what to plan a fit with: what is known of people, and what is left of the request once that is charged.

    ``averages`` says whether the mechanism has use for averages of private people, ``expected`` whether those that are
    to be asked for are predicted from public rows.
    """
    asks, own = request.describe and request.description is None, None
    if asks and averages and spec.study.public is not None:
        own = own_description(spec)
    if asks and own is None and request.share != 0:
        own = outcome_description(spec)
    given = {} if request.description is None else described_sites(spec, request.description)
    found = {}
    for name, records in people.items():
        known = SiteRecords(records=records, records_sd=0.0, most=records, request=request.at(name))
        if name in given:
            known = _described(spec, known, given[name])
        counted = _counted(spec, known)
        if own is not None:
            counted = _averaged(own, counted, whole=request.at(name).epsilon)
            if expected and counted.averages is not None and counted.averages.columns:
                of = (float(counted.records), counted.records_sd)
                cohort = counted.averages.expected(counted.for_averages, records=counted.most, people=of)
                counted = replace(counted, cohort=cohort)
        found[name] = counted
    if len(found) == 1:
        return found
    among = tuple(Asked(records=each.most, epsilon=each.request.epsilon) for each in found.values())
    return {name: replace(each, among=among) for name, each in found.items()}


def _averaged(own: OwnDescription, site: SiteRecords, *, whole: Fraction) -> SiteRecords:
    """Return a site with less to spend where averages of its people are to be asked for.

    With their number they cost at most `MOST_OF_ALL`.
    """
    chosen, most = own.affordable(whole, records=site.most), min(MOST_AVERAGES, MOST_OF_ALL - site.for_count / whole)
    spent = rounded_down(whole * chosen.share(whole, records=site.most, most=most), EPSILON_GRAIN)
    if not spent:
        return site
    left = replace(site.request, epsilon=site.request.epsilon - spent)
    return replace(site, for_averages=spent, averages=chosen, request=left)


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
    spent = epsilon - left
    sd = TwoSidedGeometric(rate=spent).variance ** 0.5 if spent else 0.0
    return replace(site, records_sd=sd, for_count=spent, request=replace(site.request, epsilon=left))


def record_counts(
    spec: ModelSpec, request: FitRequest, first_query: Callable[[SiteRecords], Query], *, averages: bool = False
) -> RecordCounts:
    """Return what is known of the people of each site who count, released first where it is private and not described.

    ``first_query`` returns the first query of the fit to a site. It is tried with the declared numbers, so that a fit
    that no proof covers, or that no account affords, is refused before anything is released. Fits of one epsilon to the
    same columns of the same people share a number: the same question is answered once. What is asked about averages
    does not depend on the number that was released before.
    """
    study = spec.study
    planned = planned_records(
        spec,
        request,
        {name: site.records for name, site in study.sites.items()},
        averages=averages,
        expected=False,
    )
    before = {name: _queries_before(spec, request, name, site, first_query) for name, site in planned.items()}
    counting = {name: each.count for name, each in before.items() if each.count is not None}
    counted = ask(study, counting, round=0) if counting else Answered(releases={}, missing=())
    known = {
        name: _with_count(site, counting.get(name), counted.releases.get(name))
        for name, site in planned.items()
        if name not in counting or name in counted.releases
    }
    describing = {name: each.description for name, each in before.items() if each.description and name in known}
    others = len(known) - len(describing)
    described = ask(study, describing, round=0, besides=others) if describing else Answered(releases={}, missing=())
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
    own_query = first_query(site)
    prepared = prepare(own_query, site_facts)
    study.sites[name].check_permitted(own_query, prepared.needs)
    ahead, count, description = (total(prepared.events), *prepared.ahead), None, None
    if site.averages is not None:
        description = site.averages.query(site.for_averages, ahead=ahead, replicate=request.replicate)
        prepared = prepare(description, site_facts)
        study.sites[name].check_later(description)
        ahead = (total(prepared.events), *ahead)
    if site.for_count:
        may_lack = request.describe and study.schema.leaves_out(spec.needs)
        count = CountQuery(
            epsilon=site.for_count,
            columns=tuple(sorted(set(spec.needs))) if may_lack else None,
            apart=spec.outcome_apart if may_lack else None,
            ahead=ahead,
            schema_sha256=study.schema.sha256,
            replicate=request.replicate,
        )
    return _Before(count=count, description=description)


def _with_count(site: SiteRecords, query: CountQuery | None, release: Release | None) -> SiteRecords:
    if query is None or release is None:
        return site
    count = of_kind(release, CountRelease)
    return replace(site, records=count.count, records_sd=count.noise_sd, counting=query, count=count)


def _with_averages(
    spec: ModelSpec, site: SiteRecords, query: DescriptionQuery | None, release: Release | None
) -> SiteRecords:
    if query is None or release is None:
        return site
    known = SiteDescription(query=query, release=of_kind(release, DescriptionRelease))
    return replace(site, description=known, cohort=known.moments(spec, (float(site.records), site.records_sd)))


def left_for_fit(study: Study, needs: Sequence[str], epsilon: Fraction, *, records: int) -> Fraction:
    """Return what is left of an epsilon once the number of people who count is charged for, where it is private.

    Under ``add_or_remove_one`` it always is. Under ``replace_one`` it is where rows may be left out, as some column of
    the model is not declared complete: the part is then what gives a relative error of `RELATIVE_ERROR`, between
    `LEAST_SHARE` and `MOST_SHARE`. It follows from public numbers.
    """
    return epsilon - rounded_down(epsilon * share_of_count(study, needs, epsilon, records=records), EPSILON_GRAIN)


def share_of_count(study: Study, needs: Sequence[str], epsilon: Fraction, *, records: int) -> Fraction:
    """Return the part of epsilon that is spent on the number of people who count; 0 where that is public."""
    if study.relation is not Relation.REPLACE_ONE:
        return SHARE
    if not study.schema.leaves_out(needs):
        return Fraction(0)
    exact = Fraction(math.isqrt(2 * 10**12), 10**6) / (RELATIVE_ERROR * max(records, 1) * epsilon)
    return min(max(rounded_down(exact, SHARE_GRAIN), LEAST_SHARE), MOST_SHARE)
