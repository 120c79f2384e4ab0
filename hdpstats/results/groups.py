"""The tree of results that are to be combined: groups of groups, read and checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats.records.estimate import Estimate
from hdpstats.records.query import Release
from hdpstats.records.several import SitesRelease, answers_in
from hdpstats.results.aggregated import Aggregate, leaf
from hdpstats.results.facts import ModelFacts
from hdpstats.results.result import Result
from hdpstats.results.sites import DataSet, data_sets_of


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Group:
    """A place in the tree: a member, or a name with what stands under it.

    A member is an aggregate that was made before, or one of a single result or site. The estimate of a result is that
    from private records alone where there is one, as others may share the public rows.
    """

    path: tuple[str, ...]
    member: Aggregate | None = None
    groups: tuple["Group", ...] = ()

    @property
    def level(self) -> int:
        """How far below the top."""
        return len(self.path) - 1

    @property
    def where(self) -> str:
        """Its place below the top, for messages."""
        return repr(" / ".join(self.path[1:]))

    @property
    def places(self) -> list["Group"]:
        """The place itself and all below it, in their order."""
        return [self, *(each for group in self.groups for each in group.places)]


def tree_of(given: object, *, name: str) -> Group:
    """Read a tree of results, or the sites of one result; refuse what is none, and what cannot be combined."""
    top = _sites_of(given, name) if isinstance(given, Result) else _group(given, path=(name,))
    _check_alike([(each, each.member) for each in top.places if each.member is not None])
    return top


def _sites_of(result: Result, name: str) -> Group:
    """Return the sites of a result; the first one stands for those too that were charged and gave no estimate."""
    given, counts = _by_site(result.release), _by_site(result.count)
    used = [(site, site.estimate) for site in result.site_facts if site.estimate is not None]
    others = [site for site in result.site_facts if site.estimate is None]
    sites = []
    for place, (site, estimate) in enumerate(used):
        release = given.get(site.site)
        known = data_sets_of((release, counts.get(site.site)), [site] if place else [site, *others])
        member = _alone(result, estimate, release=release, data_sets=known, name=site.site)
        sites.append(Group(path=(name, site.site), member=member))
    if not sites:
        raise ArgumentError(
            "results must be a dictionary or a list of results, or one result of several sites that have estimates of "
            "their own",
            argument="results",
        )
    return Group(path=(name,), groups=tuple(sites))


def _by_site(release: Release | None) -> dict[str, Release]:
    return dict(release.sites) if isinstance(release, SitesRelease) else {}


def _group(given: object, *, path: tuple[str, ...]) -> Group:
    if isinstance(given, Result):
        own = given.estimate if given.private_only is None else given.private_only
        known = data_sets_of((given.release, given.count), given.site_facts)
        return Group(path=path, member=_alone(given, own, release=given.release, data_sets=known, name=path[-1]))
    if isinstance(given, Aggregate) and len(path) > 1:
        return Group(path=path, member=given)
    listed: Mapping[Any, Any] | None = given if isinstance(given, Mapping) else None
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        listed = {str(place): each for place, each in enumerate(given, start=1)}
    if not listed or not all(isinstance(name, str) and name for name in listed):
        where = "results" if len(path) == 1 else f"results[{']['.join(map(repr, path[1:]))}]"
        raise ArgumentError(
            f"{where} must be a dictionary from names to results or to groups of them, or a list of such, not "
            f"{type(given).__name__}{'' if listed is None or listed else ' without members'}",
            argument="results",
        )
    return Group(path=path, groups=tuple(_group(each, path=(*path, name)) for name, each in listed.items()))


def _alone(
    result: Result, estimate: Estimate, *, release: Release | None, data_sets: tuple[DataSet, ...], name: str
) -> Aggregate:
    """Return the aggregate of one result, or of one of its sites."""
    return Aggregate(
        nodes=(leaf((name,), estimate),),
        between=(),
        interval="model",
        facts=result.facts,
        guarantees=() if result.guarantee is None else (result.guarantee,),
        releases=() if release is None else tuple(each.sha256 for each in answers_in(release)),
        data_sets=() if result.guarantee is None else (data_sets,),
    )


def _check_alike(members: Sequence[tuple[Group, Aggregate]]) -> None:
    """Refuse results of different models, twice the same one, and those without standard errors."""
    first, like = members[0]
    given = [release for _, each in members for release in each.releases]
    if len(set(given)) < len(given):
        raise ArgumentError("results hold the same release twice; it would count twice", argument="results")
    _check_apart(members)
    for place, each in members:
        own = each.estimate
        if _meaning(each.facts) != _meaning(like.facts) or own.terms != like.estimate.terms:
            raise ArgumentError(
                f"results must come from one model with the same terms; {place.where} is another than {first.where}",
                argument="results",
            )
        variances = np.diag(own.sampling) + np.diag(own.privacy)
        if not (np.isfinite(own.values).all() and np.isfinite(variances).all() and (variances > 0).all()):
            raise ArgumentError(
                f"results must have standard errors of every term, for weights; {place.where} lacks some",
                argument="results",
            )


def _check_apart(members: Sequence[tuple[Group, Aggregate]]) -> None:
    """Refuse results of the same people: their errors are taken to be independent, and their guarantees add up."""
    given: dict[str, tuple[Group, DataSet]] = {}
    for place, member in members:
        for known in {each.account: each for sets in member.data_sets for each in sets if each.account}.values():
            other, same = given.setdefault(known.account, (place, known))
            if other is not place:
                raise ArgumentError(
                    f"results must be of different people: {other.where} ({same}) and {place.where} ({known}) were "
                    "charged to one account. Their epsilons add up, and combined as if they were independent their "
                    "errors would be too small; keep one of them, or fit once with a larger epsilon",
                    argument="results",
                )


def _meaning(facts: ModelFacts) -> tuple[object, ...]:
    """Return what the terms of a model mean."""
    time = None if facts.hazard is None else (facts.hazard.link, facts.hazard.grid, facts.hazard.baseline)
    return facts.model, facts.loss, facts.family, facts.exponentiated, time
