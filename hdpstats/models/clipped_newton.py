"""Fits by noisy Newton steps with clipped scores: the rounds at the sites, and the result."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from hdpstats.losses import BoundedSquares, PoissonLoss
from hdpstats.mechanisms.clipped_newton.estimate import (
    ALIKE,
    ALIKE_IN_FOLLOW_UP,
    ASSUMED,
    FOLLOWED_TO_HORIZON,
    Matched,
    estimates,
)
from hdpstats.mechanisms.clipped_newton.query import (
    ClippedNewtonQuery,
    ClippedNewtonRelease,
    ClippedNewtonRounds,
    ClippedNewtonRoundsRelease,
)
from hdpstats.mechanisms.clipped_newton.request import Rounds, advance, first_queries
from hdpstats.mechanisms.count.query import CountRelease
from hdpstats.mechanisms.options import ClippedNewton
from hdpstats.models.contributions import Contribution, purchase
from hdpstats.models.first_round import open_rounds, site_rounds
from hdpstats.models.hazard_spec import HazardSpec
from hdpstats.models.model_spec import ModelSpec
from hdpstats.models.record_counts import ONLY, reckon
from hdpstats.models.regression_spec import Regression
from hdpstats.models.request import FitRequest
from hdpstats.models.rounds import converse
from hdpstats.results import ModelFacts, Result
from hdpstats.sites.asking import Missing


def fit_clipped_newton(spec: ModelSpec, options: ClippedNewton, request: FitRequest) -> Result:
    """Ask the sites round by round and read their answers.

    Raises
    ------
    MechanismError, InsufficientBudget
        Before anything is charged: what all rounds cost must be left before the first is asked.
    """
    state = open_rounds(spec, options, replicate=request.replicate)

    def first(left: FitRequest, records: int) -> ClippedNewtonQuery:
        return first_queries(replace(state, sites={ONLY: site_rounds(options, left, records=records)}))[ONLY]

    reckoned = reckon(spec, request, ask=first)
    sites = {
        name: site_rounds(options, each.request, records=each.records, count=each.count)
        for name, each in reckoned.sites.items()
    }
    state = replace(state, sites=sites)
    matched, rounds = converse(spec.study, partial(advance, state), ClippedNewtonRelease)
    parts = {
        name: Contribution(
            query=ClippedNewtonRounds(rounds=queries),
            release=ClippedNewtonRoundsRelease(rounds=releases, entry=releases[-1].entry),
            count=reckoned.sites[name].count,
        )
        for name, (queries, releases) in rounds.by_site(tuple(state.sites)).items()
    }
    missing, alone = (*reckoned.missing, *rounds.missing), reckoned.alone(parts)
    return _read(spec, options, request, state, matched, parts, missing, alone)


def _read(
    spec: ModelSpec,
    options: ClippedNewton,
    request: FitRequest,
    state: Rounds,
    matched: Matched,
    parts: Mapping[str, Contribution[ClippedNewtonRounds, ClippedNewtonRoundsRelease]],
    missing: Sequence[Missing],
    alone: Mapping[str, CountRelease],
) -> Result:
    """Return the result of the rounds: post-processing of released and public numbers."""
    found = estimates(
        matched,
        state.fit,
        [part.release.rounds[-1] for part in parts.values()],
        T=spec.to_terms(state.model),
        terms=spec.terms,
        note=_note(spec, options),
    ).moved(spec.origin)
    facts = _facts(spec, options, state, tuple(parts))
    return Result.of(
        facts=facts,
        schema=spec.study.schema,
        estimates=found,
        released=purchase(spec.study, request, parts, missing, found=found, alone=alone),
        checked=spec.check(facts, found.chosen.values),
    )


def _facts(spec: ModelSpec, options: ClippedNewton, state: Rounds, sites: Sequence[str]) -> ModelFacts:
    rounds = "1 round" if options.rounds == 1 else f"{options.rounds} rounds"
    together = f" at {len(sites)} sites, weighted by people and noise" if len(sites) > 1 else ""
    facts = spec.facts(
        f"noisy Newton in {rounds}{together}, whitened by public rows",
        records=sum(state.sites[name].records for name in sites),
        public=state.outcomes.whole,
        model=state.model,
    )
    if facts.hazard is None:
        return facts
    clip = (
        f"a person's score counts up to a length of {float(state.clip):.3g}, which the public fit predicts for "
        f"{options.clip_quantile:.0%} of people"
    )
    return replace(facts, hazard=replace(facts.hazard, cap=clip))


def _note(spec: ModelSpec, options: ClippedNewton) -> str:
    if isinstance(spec, Regression) and isinstance(spec.loss, BoundedSquares):
        return f"{ASSUMED} in their covariates and residuals, and residuals not to depend on covariates."
    if isinstance(spec, Regression) and isinstance(spec.loss, PoissonLoss):
        return f"{ALIKE} Counts are taken to be Poisson, those above the largest one cut to it."
    if not isinstance(spec, HazardSpec):
        return ALIKE
    return FOLLOWED_TO_HORIZON if options.censoring == "administrative" else ALIKE_IN_FOLLOW_UP
