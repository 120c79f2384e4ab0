"""How a fitted model does on private people: risk groups from public ones, one noisy table, statistics of it."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.validation import integer
from hdpstats.families.spec import ModelSpec, Risk
from hdpstats.losses import MEANS
from hdpstats.mechanisms.evaluation import MOST_BINS, MOST_GROUPS, EvaluationQuery, EvaluationRelease
from hdpstats.privacy.budget import OWN, Guarantee, requested
from hdpstats.records.query import of_kind
from hdpstats.results import Result
from hdpstats.results.evaluation import Evaluation, spread_out, times_of
from hdpstats.results.facts import DesignRows, check_identified
from hdpstats.results.hazard_curves import curves_at, hazard_facts
from hdpstats.results.sites import charged_releases, known_accounts
from hdpstats.sites.recipes import answer, in_its_recipe
from hdpstats.sites.study import guarantee_of

PER_GROUP, PER_BIN = 15.0, 30.0
"""People times epsilon over the sensitivity for each risk group and each bin of time, per number of them."""

FEWEST_PER_GROUP = 10
"""Public people in a risk group, at least, on average."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Opened:
    """A model at public people: what a query says of it, and the linear predictor of each of them (n,)."""

    risk: Risk
    rows: DesignRows
    score: FloatArray


@in_its_recipe
def evaluate(
    spec: ModelSpec,
    result: object,
    epsilon: object,
    *,
    groups: object,
    replicate: object,
    allow_large_epsilon: bool,
    cause: object = None,
    times: object = None,
) -> Evaluation:
    """Ask the site for the noisy table of a result's model, and read it; see `hdpstats.models.Logit.evaluate`."""
    asked = requested(epsilon, replicate=replicate, allow_large_epsilon=allow_large_epsilon)
    asked_groups = None if groups is None else integer(groups, name="groups", lower=2, upper=MOST_GROUPS)
    asked_bins = None if times is None else integer(times, name="times", lower=1, upper=MOST_BINS)
    site = spec.study.site
    if site is None:
        raise ArgumentError("evaluate needs private records; this study has none", argument="private")
    checked = _belonging(spec, result)
    opened = _opened(spec, checked, cause)
    people = site.records if checked.facts.records is None else checked.facts.records
    strength = people * float(asked.epsilon) / spec.study.relation.persons_changed
    by_default = min(_by(strength / PER_GROUP, MOST_GROUPS), len(opened.score) // FEWEST_PER_GROUP)
    bins = _by(strength / PER_BIN, MOST_BINS) if asked_bins is None else asked_bins
    public = spec.study.public
    query = EvaluationQuery(
        formula=opened.risk.formula,
        coefficients=opened.risk.coefficients,
        offset=checked.facts.offset,
        cuts=_cuts(opened.score, by_default if asked_groups is None else asked_groups),
        grid=opened.risk.grid,
        ends=() if opened.risk.grid is None else tuple((spread_out(opened.risk.grid.intervals, bins) + 1).tolist()),
        causes=len(opened.risk.causes),
        epsilon=asked.epsilon,
        schema_sha256=spec.study.schema.sha256,
        public_sha256=None if public is None else public.sha256,
        replicate=asked.replicate,
    )
    release = of_kind(answer(site, query), EvaluationRelease)
    return Evaluation(
        query=query,
        release=release,
        facts=checked.facts,
        causes=opened.risk.causes,
        place=opened.risk.cause,
        fitted=checked.guarantee,
        predicted=_predicted(checked, opened, query),
        guarantee=_together(guarantee_of(spec.study, release), release, checked),
    )


def _together(own: Guarantee, release: EvaluationRelease, result: Result) -> Guarantee:
    """Return what an evaluation guarantees together with the fit that it is of, where they may be of the same people.

    That is where they were charged to one account, or an account is not known; it is then for those who are at one of
    the sites of both only. The fit of other people has a guarantee of its own, which says nothing of those who are in
    the evaluation.
    """
    fitted = result.guarantee
    if fitted is None or (fitted.relation, fitted.unit) != (own.relation, own.unit):  # an account has one of each
        return own
    mine = known_accounts([release], ())
    fits = [*result.released.before, *charged_releases(result.released)]
    theirs = known_accounts(fits, result.site_facts)
    if mine and theirs and not mine & theirs:
        return own
    both = own.resting_on(*fitted.as_parts(OWN), own="the evaluation")
    sites = max(own.sites, fitted.sites, len(mine | theirs))
    return replace(both.with_rows_of([fitted]), sites=sites)


def _belonging(spec: ModelSpec, result: object) -> Result:
    """Refuse a result that is none of this model: on another schema, of another formula, on other intervals."""
    if not isinstance(result, Result):
        raise ArgumentError(f"result must be an hdp.Result, not {type(result).__name__}", argument="result")
    facts, schema = result.facts, spec.study.schema
    if result.schema.sha256 != schema.sha256:
        raise ArgumentError("result must be of a fit with this study's schema", argument="result")
    mine = spec.facts("", records=None)
    same = (facts.model, facts.loss, facts.offset) == (mine.model, mine.loss, mine.offset)
    if same and facts.hazard is not None and mine.hazard is not None:
        one, other = facts.hazard, mine.hazard
        same = (one.link, one.grid, one.baseline, one.causes) == (other.link, other.grid, other.baseline, other.causes)
    if not same or spec.canonical(facts.formula) != spec.canonical(spec.formula):
        raise ArgumentError(
            f"result must be of this model, {spec.formula} with the same link, intervals, baseline and offset; its own "
            f"formula is {facts.formula}",
            argument="result",
        )
    check_identified(result.estimate)
    return result


def _opened(spec: ModelSpec, result: Result, cause: object) -> _Opened:
    """Return the model at public people; their outcomes are not needed."""
    risk = spec.risk(np.asarray(result.params.to_numpy(), dtype=np.float64), cause)
    rows = _public(spec, risk, result.facts.offset)
    score = np.asarray(rows.X @ np.array(risk.coefficients) + rows.offset)
    return _Opened(risk=risk, rows=rows, score=score)


def _public(spec: ModelSpec, risk: Risk, offset: str | None) -> DesignRows:
    """Return the public rows that are complete in the covariates, clipped to the bounds as private ones are."""
    table = spec.study.public
    needs = (*risk.covariates, *(() if offset is None else (offset,)))
    if table is None or any(name not in table.names for name in needs):
        raise ArgumentError(
            "evaluate needs public rows with the covariates: risk groups are cut where their linear predictors lie; "
            "give the study public=",
            argument="public",
        )
    rows = table.admitted(needs)
    if rows.rows < 2 * FEWEST_PER_GROUP:
        raise ArgumentError(
            f"evaluate needs {2 * FEWEST_PER_GROUP} complete public rows or more to cut risk groups, not {rows.rows}",
            argument="public",
        )
    return DesignRows(
        X=np.ascontiguousarray(risk.matrix(rows)),
        offset=np.zeros(rows.rows) if offset is None else rows.numeric[offset],
        complete=np.ones(rows.rows, dtype=np.bool_),
        index=pd.RangeIndex(rows.rows),
    )


def _by(strength: float, most: int) -> int:
    return max(2, min(most, int(np.sqrt(max(strength, 0.0)))))


def _cuts(score: FloatArray, groups: int) -> tuple[float, ...]:
    """Return where risk groups meet: quantiles of public people, six digits each, no group without anybody."""
    inner = np.quantile(score, np.arange(1, groups) / groups)
    cuts = sorted({float(f"{value:.6g}") for value in inner.tolist()})
    while cuts:
        counts = np.bincount(_groups(score, cuts), minlength=len(cuts) + 1)
        empty = np.flatnonzero(counts == 0)
        if not empty.size:
            return tuple(cuts)
        del cuts[max(int(empty[0]) - 1, 0)]
    raise ArgumentError(
        "evaluate needs public people of different risk: the linear predictor is the same for all of them",
        argument="public",
    )


def _groups(score: FloatArray, cuts: list[float] | tuple[float, ...]) -> IntArray:
    return np.asarray(np.searchsorted(np.array(cuts), score, side="right"), dtype=np.int64)


def _predicted(result: Result, opened: _Opened, query: EvaluationQuery) -> FloatArray:
    """Return the mean predicted incidence of the public people in each group at the end of each bin (G, B)."""
    times = times_of(query)
    if times is None:
        mean = MEANS[result.facts.loss] if result.facts.loss is not None else np.asarray
        own = mean(opened.score)[:, None]
    else:
        values = np.asarray(result.params.to_numpy(), dtype=np.float64)
        curves = curves_at(hazard_facts(result.facts), values, opened.rows)
        own = curves.incidence(times, opened.risk.cause, alpha=None).value
    group = _groups(opened.score, query.cuts)
    return np.stack([own[group == number].mean(axis=0) for number in range(query.groups)])
