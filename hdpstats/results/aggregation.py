"""Results in groups of groups, such as schools in states in a country: one estimate per group, level by level.

Chen and Sung name it as what is missing: schools give what they release to their state, and states give what they have
to the federation. All of it is post-processing of results, which costs nobody anything: a level needs neither records
nor trust of the level below it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from hdpstats._base import canonical
from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice
from hdpstats.inference import draws
from hdpstats.inference.across_sites import (
    BETWEEN,
    Part,
    all_drawn,
    between_variances,
    combined,
    from_model,
    from_spread,
    part_of,
    scatter,
    shares,
    spread_variance,
)
from hdpstats.inference.estimate import Estimate
from hdpstats.results.aggregated import Aggregate, Node
from hdpstats.results.result import Result

INTERVALS: Final = ("model", "across_sites")
FEWEST: Final = 2


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Group:
    """A place in the tree: an estimate of a result, or names with what stands under them.

    ``release`` is the SHA-256 of the release that the estimate rests on; None for a public fit or one of several sites.
    """

    path: tuple[str, ...]
    result: Result | None = None
    estimate: Estimate | None = None
    release: str | None = None
    groups: tuple["_Group", ...] = ()

    @property
    def level(self) -> int:
        """How far below the top."""
        return len(self.path) - 1

    @property
    def everybody(self) -> list["_Group"]:
        """The place itself and all below it, in their order."""
        return [self, *(each for group in self.groups for each in group.everybody)]


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Known:
    """A place whose part is known; ``spread`` are the numbers (m, p) and their variances that stand for it above."""

    node: Node
    part: Part
    units: tuple[tuple[FloatArray, FloatArray], ...]


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

    Parameters
    ----------
    results
        Results by name, or groups of them by name, to any depth: ``{"North": {"Oslo": result, "Bergen": result},
        "South": [result, result]}``. Members of a list are called 1, 2, .... All have the same terms and come from the
        same model, and nobody's records are in two of them. Or one result of several sites, whose members are the
        sites' own estimates; what these have in common, such as public rows, is then in no variance.
    between
        How the variance between the members of a group is estimated: ``"paule_mandel"``, ``"dersimonian_laird"``, or
        None where they are taken to have the same parameters. One for all levels, or one per level from the top: with
        ``(None, "paule_mandel")`` schools of a state differ, and states do not. Groups of one level share a variance
        per term.
    interval
        ``"model"``: from the variances of the results. ``"across_sites"``: from how far the members of a group are
        apart, by Student's law with one degree of freedom less than members (Hartung and Knapp 2001; Sidik and Jonkman
        2002): it takes no variance of a result for granted, only their ratios, and needs many members. A group whose
        members are taken to have the same parameters is no member above: its own members are.
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
    >>> schema = hdp.Schema(died=hdp.Binary())
    >>> def school(deaths, n=1000):
    ...     people = pd.DataFrame({"died": np.arange(n) < deaths})
    ...     study = hdp.Study(private=people, schema=schema, budget=hdp.Budget(epsilon=2))
    ...     return hdpf.family("died ~ 1", data=study, family="bernoulli").fit(epsilon=2)
    >>> found = aggregate({"North": [school(300), school(320)], "South": [school(310), school(280)]})
    >>> found.frame["level"].tolist(), found.frame["name"].tolist()
    ([0, 1, 2, 2, 1, 2, 2], ['all', 'North', '1', '2', 'South', '1', '2'])
    >>> bool(abs(found.params["probability"] - 0.3025) < 0.05)
    True
    """
    top = _sites_of(results, name) if isinstance(results, Result) else _tree(results, path=(name,))
    leaves = [each for each in top.everybody if each.result is not None]
    _check_alike(leaves)
    depth = max(each.level for each in leaves)
    methods = _methods(between, depth=depth)
    kind = choice(interval, name="interval", options=INTERVALS)
    known = _estimated(top, leaves, methods=methods, across=kind == "across_sites")
    promises = [each.result.guarantee for each in leaves if each.result is not None]
    return Aggregate(
        nodes=tuple(known[each.path].node for each in top.everybody),
        between=methods,
        interval=kind,
        facts=_result(leaves[0]).facts,
        guarantees=tuple(promise for promise in promises if promise is not None),
    )


def _sites_of(result: Result, name: str) -> _Group:
    """Return the sites of a result as members."""
    sites = tuple(
        _Group(path=(name, site.site), result=result, estimate=site.estimate)
        for site in result.site_facts
        if site.estimate is not None
    )
    if not sites:
        raise ArgumentError(
            "results must be a dictionary or a list of results, or one result of several sites that have estimates of "
            "their own",
            argument="results",
        )
    return _Group(path=(name,), groups=sites)


def _tree(given: object, *, path: tuple[str, ...]) -> _Group:
    """Read a tree, or refuse what is none."""
    if isinstance(given, Result):
        own = given.estimate if given.private_only is None else given.private_only
        release = None if given.release is None else given.release.sha256
        return _Group(path=path, result=given, estimate=own, release=release)
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
    groups = tuple(_tree(each, path=(*path, name)) for name, each in listed.items())
    return _Group(path=path, groups=groups)


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


def _result(leaf: _Group) -> Result:
    if leaf.result is None:
        raise TypeError("a leaf has a result")
    return leaf.result


def _own(leaf: _Group) -> Estimate:
    """Return what a member adds to others: without the public rows, which others may share."""
    if leaf.estimate is None:
        raise TypeError("a leaf has an estimate")
    return leaf.estimate


def _check_alike(leaves: Sequence[_Group]) -> None:
    """Refuse results of different models, twice the same one, and those without standard errors."""
    first = _result(leaves[0])
    given = [leaf.release for leaf in leaves if leaf.release is not None]
    if len(set(given)) < len(given):
        raise ArgumentError("results hold the same release twice; it would count twice", argument="results")
    for leaf in leaves:
        result, where = _result(leaf), " / ".join(leaf.path[1:])
        own = _own(leaf)
        if _meaning(result) != _meaning(first) or own.terms != _own(leaves[0]).terms:
            raise ArgumentError(
                f"results must come from one model with the same terms; {where!r} is another than "
                f"{' / '.join(leaves[0].path[1:])!r}",
                argument="results",
            )
        variances = np.diag(own.sampling) + np.diag(own.privacy)
        if not (np.isfinite(own.values).all() and np.isfinite(variances).all() and (variances > 0).all()):
            raise ArgumentError(
                f"results must have standard errors of every term, from which weights are made; {where!r} lacks some",
                argument="results",
            )


def _meaning(result: Result) -> tuple[object, ...]:
    """Return what the terms of a model mean."""
    facts = result.facts
    time = None if facts.hazard is None else (facts.hazard.link, facts.hazard.grid, facts.hazard.baseline)
    return facts.model, facts.loss, facts.family, facts.exponentiated, time


def _estimated(
    top: _Group, leaves: Sequence[_Group], *, methods: Sequence[str | None], across: bool
) -> dict[tuple[str, ...], _Known]:
    """Return what is known about every place, from the deepest level to the top."""
    rng = draws.generator(_seed(leaves))
    terms = _own(leaves[0]).terms
    parts = all_drawn([part_of(_own(leaf), rng) for leaf in leaves], rng)
    known = {leaf.path: _leaf(leaf, part) for leaf, part in zip(leaves, parts, strict=True)}
    for level in reversed(range(len(methods))):
        groups = [each for each in top.everybody if each.level == level and each.groups]
        squares = _squares(groups, known, method=methods[level])
        for group in groups:
            members = [known[each.path] for each in group.groups]
            known[group.path] = _joined(group, members, squares, rng=rng, across=across, terms=terms)
    return known


def _seed(leaves: Sequence[_Group]) -> str:
    numbers = [[*_own(leaf).values, *_own(leaf).bse] for leaf in leaves]
    return canonical.sha256([[float(each) for each in row] for row in numbers])


def _leaf(leaf: _Group, part: Part) -> _Known:
    nothing = np.full(len(part.values), np.nan)
    node = Node(path=leaf.path, estimate=_own(leaf), members=0, weights=(), tau=nothing, scatter=nothing, degrees=0)
    return _Known(node=node, part=part, units=((part.values, part.variances),))


def _squares(
    groups: Sequence[_Group], known: Mapping[tuple[str, ...], _Known], *, method: str | None
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
    group: _Group,
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
    estimate = _across(part, units, label=label, terms=terms) if across else from_model(part, label=label, terms=terms)
    values, variances = (np.array(each) for each in zip(*((p.values, p.variances) for p in alone), strict=True))
    node = Node(
        path=group.path,
        estimate=estimate,
        members=len(members),
        weights=tuple(np.diag(weight) for weight in weights),
        tau=np.zeros(len(terms)) if squares is None else np.sqrt(squares),
        scatter=scatter(values, variances),
        degrees=len(members) - 1,
    )
    return _Known(node=node, part=part, units=units)


def _across(
    part: Part, units: Sequence[tuple[FloatArray, FloatArray]], *, label: str, terms: tuple[str, ...]
) -> Estimate:
    if len(units) < FEWEST:
        raise ArgumentError(
            f"interval 'across_sites' needs two members or more in every group, and {label!r} has one: their spread is "
            "all it rests on",
            argument="interval",
        )
    values, variances = (np.array(each) for each in zip(*units, strict=True))
    return from_spread(part, spread_variance(values, 1.0 / variances), label=label, terms=terms, degrees=len(units) - 1)
