"""The tree of results that are to be combined: groups of groups, read and checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats.privacy.accountant import Guarantee
from hdpstats.records.estimate import Estimate
from hdpstats.records.query import Release
from hdpstats.records.several import SitesRelease, answers_in
from hdpstats.results.aggregated import Aggregate
from hdpstats.results.facts import ModelFacts
from hdpstats.results.result import Result
from hdpstats.results.sites import DataSet, data_sets_of


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Member:
    """What a result, one site of it, or an aggregate adds to others.

    ``estimate`` is that from private records alone where there is one, as others may share the public rows.
    ``releases`` are the SHA-256 of the releases that it rests on, those of every site and round; none for a public fit.
    ``data_sets`` are those that each of the guarantees is for: of all people that paid, if only for their number.
    """

    path: tuple[str, ...]
    facts: ModelFacts
    estimate: Estimate
    guarantees: tuple[Guarantee, ...]
    releases: tuple[str, ...]
    data_sets: tuple[tuple[DataSet, ...], ...]

    @property
    def where(self) -> str:
        """Its place below the top, for messages."""
        return repr(" / ".join(self.path[1:]))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Group:
    """A place in the tree: a member, or a name with what stands under it."""

    path: tuple[str, ...]
    member: Member | None = None
    groups: tuple["Group", ...] = ()

    @property
    def level(self) -> int:
        """How far below the top."""
        return len(self.path) - 1

    @property
    def places(self) -> list["Group"]:
        """The place itself and all below it, in their order."""
        return [self, *(each for group in self.groups for each in group.places)]

    @property
    def members(self) -> list[Member]:
        """The members below."""
        return [each.member for each in self.places if each.member is not None]


def tree_of(given: object, *, name: str) -> Group:
    """Read a tree of results, or the sites of one result; refuse what is none, and what cannot be combined."""
    top = _sites_of(given, name) if isinstance(given, Result) else _group(given, path=(name,))
    _check_alike(top.members)
    return top


def _sites_of(result: Result, name: str) -> Group:
    """Return the sites of a result; the first one stands for those too whose people paid and that gave no estimate."""
    given, counts = _by_site(result.release), _by_site(result.count)
    used = [(site, site.estimate) for site in result.site_facts if site.estimate is not None]
    others = [site for site in result.site_facts if site.estimate is None]
    sites = []
    for place, (site, estimate) in enumerate(used):
        path, paid = (name, site.site), (given.get(site.site), counts.get(site.site))
        known = data_sets_of(paid, [site] if place else [site, *others])
        sites.append(Group(path=path, member=_member(result, path, estimate, release=paid[0], data_sets=known)))
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
        return Group(path=path, member=_member(given, path, own, release=given.release, data_sets=known))
    if isinstance(given, Aggregate) and len(path) > 1:
        return Group(path=path, member=_sent(given, path))
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


def _member(
    result: Result,
    path: tuple[str, ...],
    estimate: Estimate,
    *,
    release: Release | None,
    data_sets: tuple[DataSet, ...],
) -> Member:
    return Member(
        path=path,
        facts=result.facts,
        estimate=estimate,
        guarantees=() if result.guarantee is None else (result.guarantee,),
        releases=() if release is None else tuple(each.sha256 for each in answers_in(release)),
        data_sets=() if result.guarantee is None else (data_sets,),
    )


def _sent(given: Aggregate, path: tuple[str, ...]) -> Member:
    return Member(
        path=path,
        facts=given.facts,
        estimate=given.estimate,
        guarantees=given.guarantees,
        releases=given.releases,
        data_sets=given.data_sets,
    )


def _check_alike(members: Sequence[Member]) -> None:
    """Refuse results of different models, twice the same one, and those without standard errors."""
    first = members[0]
    given = [release for each in members for release in each.releases]
    if len(set(given)) < len(given):
        raise ArgumentError("results hold the same release twice; it would count twice", argument="results")
    _check_apart(members)
    for each in members:
        own = each.estimate
        if _meaning(each.facts) != _meaning(first.facts) or own.terms != first.estimate.terms:
            raise ArgumentError(
                f"results must come from one model with the same terms; {each.where} is another than {first.where}",
                argument="results",
            )
        variances = np.diag(own.sampling) + np.diag(own.privacy)
        if not (np.isfinite(own.values).all() and np.isfinite(variances).all() and (variances > 0).all()):
            raise ArgumentError(
                f"results must have standard errors of every term, for weights; {each.where} lacks some",
                argument="results",
            )


def _check_apart(members: Sequence[Member]) -> None:
    """Refuse results of the same people: their errors are taken to be independent, and their guarantees add up."""
    given: dict[str, tuple[Member, DataSet]] = {}
    for member in members:
        for known in {each.account: each for sets in member.data_sets for each in sets if each.account}.values():
            other, same = given.setdefault(known.account, (member, known))
            if other is not member:
                raise ArgumentError(
                    f"results must be of different people: {other.where} ({same}) and {member.where} ({known}) were "
                    "charged to one account. Their epsilons add up, and combined as if they were independent their "
                    "errors would be too small; keep one of them, or fit once with a larger epsilon",
                    argument="results",
                )


def _meaning(facts: ModelFacts) -> tuple[object, ...]:
    """Return what the terms of a model mean."""
    time = None if facts.hazard is None else (facts.hazard.link, facts.hazard.grid, facts.hazard.baseline)
    return facts.model, facts.loss, facts.family, facts.exponentiated, time
