"""What the sites of a fit gave, as the private side of a result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar, final

from hdpstats.inference.sandwich import Estimates
from hdpstats.mechanisms.count.query import CountRelease
from hdpstats.models.request import FitRequest
from hdpstats.privacy.accountant import guarantee, over_sites
from hdpstats.privacy.guarantee import Guarantee
from hdpstats.privacy.relation import Relation
from hdpstats.records.query import Query, Release
from hdpstats.records.sites import SitesQuery, SitesRelease, answers_in, charged_events
from hdpstats.results import Released, SiteContribution
from hdpstats.results.sites import entries_of
from hdpstats.sites import Study
from hdpstats.sites.asking import Missing

NOTHING_ALONE: Final[Mapping[str, CountRelease]] = MappingProxyType({})

Q = TypeVar("Q", bound=Query, covariant=True)
R = TypeVar("R", bound=Release, covariant=True)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Contribution(Generic[Q, R]):
    """One site's part in a fit: what it was asked, what it answered, and its number of people where that was bought."""

    query: Q
    release: R
    count: CountRelease | None


def purchase(
    study: Study,
    request: FitRequest,
    contributions: Mapping[str, Contribution[Any, Any]],
    missing: Sequence[Missing],
    *,
    found: Estimates,
    alone: Mapping[str, CountRelease] = NOTHING_ALONE,
) -> Released:
    """Return what a fit was bought with; of a study with one site that site's own records.

    ``found.sites`` are the estimates of the contributing sites, in their order; none where they were not made.
    ``alone`` are the numbers of people that sites sold which then answered nothing else: their people paid too.
    """
    guarantees = [_promise(study, (each.count, each.release)) for each in contributions.values()]
    guarantees += [_promise(study, (count,)) for count in alone.values()]
    sites = _site_facts(study, request, contributions, missing, found=found, alone=alone)
    if len(study.sites) == 1:
        (only,) = contributions.values()
        return Released(query=only.query, release=only.release, guarantee=guarantees[0], count=only.count, sites=sites)
    counts = tuple((name, each.count) for name, each in contributions.items() if each.count is not None)
    return Released(
        query=SitesQuery(sites=tuple((name, each.query) for name, each in contributions.items())),
        release=SitesRelease(sites=tuple((name, each.release) for name, each in contributions.items())),
        guarantee=over_sites(guarantees),
        count=SitesRelease(sites=counts) if counts else None,
        sites=sites,
        heterogeneity=found.heterogeneity,
    )


def _promise(study: Study, releases: Sequence[Release | None]) -> Guarantee:
    events = [event for each in releases for event in charged_events(each)]
    return guarantee(events, relation=study.relation, most_rows=study.most_rows)


def _site_facts(
    study: Study,
    request: FitRequest,
    contributions: Mapping[str, Contribution[Any, Any]],
    missing: Sequence[Missing],
    *,
    found: Estimates,
    alone: Mapping[str, CountRelease],
) -> tuple[SiteContribution, ...]:
    """Return the public facts of every site of the study, also of those that gave nothing."""
    why = {each.site: each for each in missing}
    own = dict(zip(contributions, found.sites, strict=False))
    return tuple(
        SiteContribution(
            site=name,
            records=_people(study, name, count := _count(given := contributions.get(name), alone.get(name))),
            epsilon=request.at(name).epsilon,
            delta=request.delta,
            rounds=0 if given is None else len(answers_in(given.release)),
            missing=why[name].reason if name in why else None,
            weight=own[name].weight if name in own else 0.0,
            entries=(*entries_of(count), *entries_of(None if given is None else given.release)),
            estimate=own[name].estimate if name in own and len(study.sites) > 1 else None,
        )
        for name in study.sites
    )


def _count(given: Contribution[Any, Any] | None, alone: CountRelease | None) -> CountRelease | None:
    return alone if given is None else given.count


def _people(study: Study, name: str, count: CountRelease | None) -> int | None:
    """Return the public number of a site's people, or the noisy one; None where it is protected and was not bought."""
    if study.relation is Relation.REPLACE_ONE:
        return study.sites[name].records
    return None if count is None else count.count
