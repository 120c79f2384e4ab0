"""Results in groups of groups, such as schools in states in a country: one estimate per group, level by level.

Chen and Sung name it as what is missing: schools give what they release to their state, and states give what they have
to the federation. All of it is post-processing of results, which costs no privacy: a level needs neither records
nor trust of the level below it.

`tree_of` reads and checks the tree of the results that are combined.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice
from hdpstats.inference import draws
from hdpstats.inference.combination import shares
from hdpstats.inference.meta_analysis import (
    BETWEEN,
    SiteSummary,
    all_drawn,
    between_variances,
    combined,
    from_model,
    from_spread,
    part_of,
    scatter,
    spread_variance,
)
from hdpstats.records import codec
from hdpstats.records.estimate import Estimate
from hdpstats.records.query import Release
from hdpstats.records.several import SitesRelease, answers_in
from hdpstats.results.aggregated import Aggregate, Node, leaf
from hdpstats.results.facts import ModelFacts
from hdpstats.results.result import Result
from hdpstats.results.sites import DataSet, accounts_of, charged_releases, data_sets_of


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
    given, counts, known = _by_site(result.release), _by_site(result.count), result.released.description
    described = {} if known is None else dict(known.releases)
    used = [(site, site.estimate) for site in result.site_facts if site.estimate is not None]
    others = [site for site in result.site_facts if site.estimate is None]
    sites = []
    for place, (site, estimate) in enumerate(used):
        release = given.get(site.site)
        own = [site] if place else [site, *others]
        data_sets = data_sets_of(
            [each.get(one.site) for one in own for each in (given, counts)],
            own,
            [described.get(one.site) for one in own],
        )
        member = _alone(result, estimate, release=release, data_sets=data_sets, name=site.site)
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
        released = given.released
        known = data_sets_of(charged_releases(released), given.site_facts, released.before)
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
    """Return the aggregate of one result, or of one of its sites, that all have the allowance of the result."""
    weights = result.facts.row_weights
    return Aggregate(
        nodes=(leaf((name,), estimate, allowance=None if weights is None else weights.factor),),
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
    _check_once([each for _, each in members])
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


def _check_once(members: Sequence[Aggregate]) -> None:
    """Refuse a release that is there twice; sites of other people may have released the same numbers."""
    given: dict[str, list[Aggregate]] = {}
    for member in members:
        for release in set(member.releases):
            same = given.setdefault(release, [])
            if not all(_is_apart(member, other) for other in same):
                raise ArgumentError("results hold the same release twice; it would count twice", argument="results")
            same.append(member)


def _is_apart(one: Aggregate, other: Aggregate) -> bool:
    """Whether two results are known to be of other accounts."""
    places = [[place for sets in each.data_sets for place in sets] for each in (one, other)]
    known = all(listed and all(place.account for place in listed) for listed in places)
    return known and accounts_of(places[0]).isdisjoint(accounts_of(places[1]))


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
    rows = None if facts.several_rows is None else (facts.several_rows.correlation, facts.several_rows.most_rows)
    return facts.model, facts.loss, facts.family, facts.exponentiated, time, rows, facts.propensity


INTERVALS: Final = ("model", "across_sites")
FEWEST: Final = 2


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Known:
    """A place whose part is known, without what all results have in common.

    ``units`` are the numbers (m, p) and their variances that stand for it above.
    """

    node: Node
    part: SiteSummary
    units: tuple[tuple[FloatArray, FloatArray], ...]

    @property
    def common(self) -> FloatArray | None:
        """What is allowed for weights of people, which ``part`` and ``units`` are without."""
        return self.node.allowance


def aggregate(
    results: Mapping[str, Any] | Sequence[Any] | Result,
    *,
    between: str | Sequence[str | None] | None = None,
    interval: str = "model",
    name: str = "all",
) -> Aggregate:
    r"""Combine results in groups of groups, level by level, into one estimate per group: post-processing.

    Every group is estimated from its members by inverse variance, sampling and privacy noise of both counted, and is
    an `Estimate` with a covariance, to be combined with others in the group above it. With ``between=None`` everywhere
    the top is what all results give without groups.

    Results that used public rows enter with their ``private_only`` estimate: a public fit that was pooled into each of
    them would count as often as there are results. `fit_public` may be one more member.

    What weights of people may do (``facts.row_weights`` of a result) is taken to be common to all results, as the same
    model is wrong in the same way everywhere: the allowance is taken off the covariances that give weights, variances
    between members and tests of them, and is added once, by the same weights. It does not average out.

    Parameters
    ----------
    results
        Results by name, or groups of them by name, to any depth: ``{"North": {"Oslo": result, "Bergen": result},
        "South": [result, result]}``. Members of a list are called 1, 2, .... All have the same terms and come from the
        same model, and nobody's records are in two of them (results of one account, such as two fits
        to one data set or to versions of it, are refused); each may be of one site or of several, and may be an
        aggregate, such as a state has sent as a file. Or one result of several sites, whose members are the sites' own
        estimates; what these have in common, such as public rows, is then in no variance.
    between
        How the variance between the members of a group is estimated: ``"paule_mandel"``, ``"dersimonian_laird"``, or
        None where they are taken to have the same parameters. One for all levels, or one per level from the top: with
        ``(None, "paule_mandel")`` schools of a state differ, and states do not. Groups of one level share a variance
        per term.
    interval
        ``"model"``: from the variances of the results. ``"across_sites"``: from how far the members of a group are
        apart, by Student's distribution with one degree of freedom less than members (Hartung and Knapp 2001; Sidik and
        Jonkman 2002): it takes no variance of a result for granted, only their ratios, and needs many members. A group
        whose members are taken to have the same parameters is no member above: its own members are.
    name
        What the top is called.

    Returns
    -------
    Aggregate
        ``estimate`` of the top, ``at("North")`` of a group, ``frame`` with a row per group and term, ``plot()``.

    Raises
    ------
    ArgumentError
        If an argument is no such tree, results differ in their model or terms, one is there twice or has no standard
        errors, or a group is too small for what was asked.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> import hdpstats.api as hdp
    >>> import hdpstats.formula.api as hdpf
    >>> schema = hdp.Schema(died=hdp.Binary(complete=True))
    >>> def school(deaths, n=1000):
    ...     people = pd.DataFrame({"died": np.arange(n) < deaths})
    ...     study = hdp.Study(private=people, schema=schema, budget=hdp.Budget(epsilon=2))
    ...     return hdpf.distribution("died ~ 1", data=study, family="bernoulli").fit(epsilon=2)
    >>> found = aggregate({"North": [school(300), school(320)], "South": [school(310), school(280)]})
    >>> found.frame["level"].tolist(), found.frame["name"].tolist()
    ([0, 1, 2, 2, 1, 2, 2], ['all', 'North', '1', '2', 'South', '1', '2'])
    >>> bool(abs(found.params["probability"] - 0.3025) < 0.05)
    True
    """
    top = tree_of(results, name=name)
    members = [each.member for each in top.places if each.member is not None]
    methods = _methods(between, depth=max(each.level for each in top.places))
    kind = choice(interval, name="interval", options=INTERVALS)
    known = _estimated(top, methods=methods, across=kind == "across_sites")
    return Aggregate(
        nodes=tuple(known[each.path].node for each in top.places),
        between=methods,
        interval=kind,
        facts=members[0].facts,
        guarantees=tuple(one for each in members for one in each.guarantees),
        releases=tuple(release for each in members for release in each.releases),
        data_sets=tuple(sets for each in members for sets in each.data_sets),
    )


def _methods(between: object, *, depth: int) -> tuple[str | None, ...]:
    """Return how the variance between members is estimated at each level, from the top."""
    listed = [between] * depth if between is None or isinstance(between, str) else between
    if not isinstance(listed, Sequence) or len(listed) != depth:
        raise ArgumentError(
            f"between must be one of {', '.join(map(repr, BETWEEN))} or None, or one of these for each of the {depth} "
            f"levels below the top, not {between!r}",
            argument="between",
        )
    return tuple(None if each is None else choice(each, name="between", options=BETWEEN) for each in listed)


def _estimated(top: Group, *, methods: Sequence[str | None], across: bool) -> dict[tuple[str, ...], _Known]:
    """Return what is known about every place, from the deepest level to the top."""
    members = {each.path: each.member.nodes[0] for each in top.places if each.member is not None}
    estimates = [each.estimate for each in members.values()]
    rng, terms = draws.generator(_seed(estimates)), estimates[0].terms
    alone = [part_of(each.estimate, rng).without(each.allowance) for each in members.values()]
    known = {
        path: _Known(
            node=leaf(path, each.estimate.marginal, allowance=each.allowance),
            part=part,
            units=((part.values, part.variances),),
        )
        for (path, each), part in zip(members.items(), all_drawn(alone, rng), strict=True)
    }
    for level in reversed(range(len(methods))):
        groups = [each for each in top.places if each.level == level and each.groups]
        squares = _squares(groups, known, method=methods[level])
        for group in groups:
            below = [known[each.path] for each in group.groups]
            known[group.path] = _joined(group, below, squares, rng=rng, across=across, terms=terms)
    return known


def _seed(estimates: Sequence[Estimate]) -> str:
    numbers = [[*each.values, *each.bse] for each in estimates]
    return codec.sha256([[float(each) for each in row] for row in numbers])


def _squares(
    groups: Sequence[Group], known: Mapping[tuple[str, ...], _Known], *, method: str | None
) -> FloatArray | None:
    """Return the variances (p,) between the members of each of the groups of a level; None for none."""
    if method is None or not groups:
        return None
    parts = [[known[each.path].part for each in group.groups] for group in groups]
    several = [members for members in parts if len(members) >= FEWEST]
    if not several:
        raise ArgumentError(
            f"between {method!r} needs a group of two members or more at its level: those of "
            f"{' / '.join(groups[0].path)!r} have one",
            argument="between",
        )
    return between_variances(
        [np.array([part.values for part in members]) for members in several],
        [np.array([part.variances for part in members]) for members in several],
        method=method,
    )


def _joined(
    group: Group,
    members: Sequence[_Known],
    squares: FloatArray | None,
    *,
    rng: draws.Generator,
    across: bool,
    terms: tuple[str, ...],
) -> _Known:
    """Return a group from its members, which differ by variances (p,), or by nothing."""
    alone = [each.part for each in members]
    parts = alone if squares is None else [part.apart(squares, rng) for part in alone]
    covariances = np.array([np.diag(part.variances) if across else part.covariance for part in parts])
    weights = shares(covariances)
    part = combined(parts, weights=weights)
    if squares is None:
        units = tuple(unit for each in members for unit in each.units)
    else:
        units = tuple((each.values, each.variances) for each in parts)
    label = group.path[-1]
    shared = [weight @ each.common for weight, each in zip(weights, members, strict=True) if each.common is not None]
    common = np.asarray(sum(shared)) if shared else None
    if across:
        estimate = _across(part, units, label=label, terms=terms, common=common)
    else:
        estimate = from_model(part.with_common(common, rng), label=label, terms=terms)
    values, variances = (np.array(each) for each in zip(*((p.values, p.variances) for p in alone), strict=True))
    node = Node(
        path=group.path,
        estimate=estimate,
        members=len(members),
        weights=tuple(np.diag(weight) for weight in weights),
        tau=np.zeros(len(terms)) if squares is None else np.sqrt(squares),
        scatter=scatter(values, variances),
        degrees=len(members) - 1,
        allowance=common,
    )
    return _Known(node=node, part=part, units=units)


def _across(
    part: SiteSummary,
    units: Sequence[tuple[FloatArray, FloatArray]],
    *,
    label: str,
    terms: tuple[str, ...],
    common: FloatArray | None,
) -> Estimate:
    if len(units) < FEWEST:
        raise ArgumentError(
            f"interval 'across_sites' needs two members or more in every group, and {label!r} has one: their spread is "
            "all it rests on",
            argument="interval",
        )
    values, variances = (np.array(each) for each in zip(*units, strict=True))
    spread = spread_variance(values, 1.0 / variances)
    return from_spread(part, spread, label=label, terms=terms, degrees=len(units) - 1, common=common)
