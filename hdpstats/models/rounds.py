"""Fits by noisy Newton steps with clipped scores: rounds, predictions, results."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.families.outcomes import Outcomes
from hdpstats.families.spec import LossSpec, fitted, refusal
from hdpstats.inference.information import PublicInformation
from hdpstats.inference.sandwich import PredictedCovariance, few_by, not_estimable, predicted_errors, undetermined
from hdpstats.mechanisms.clipped_newton import (
    ClippedNewton,
    ClippedNewtonQuery,
    ClippedNewtonRelease,
)
from hdpstats.mechanisms.clipped_newton import site as clipped_newton
from hdpstats.mechanisms.clipped_newton.clip import Clipping
from hdpstats.mechanisms.clipped_newton.estimate import (
    estimates,
)
from hdpstats.mechanisms.clipped_newton.expectations import RakedSite, raked_site
from hdpstats.mechanisms.clipped_newton.request import (
    Rounds,
    advance,
    check_enough,
    clip_at,
    costs_of,
    covariance_over,
    expected_estimate,
    first_queries,
    noise_of_clip,
    of_sums,
    shares_of,
    with_public_correlations,
)
from hdpstats.mechanisms.score_sums import SiteRounds
from hdpstats.models.estimates import Reportable, is_flat, measured, planned_people, sensitivity
from hdpstats.models.fit_mechanism import FitMechanism, Prediction
from hdpstats.models.private_result import ask_rounds, private_result
from hdpstats.models.request import ONLY, FitRequest
from hdpstats.models.site_records import SiteRecords, planned_records, record_counts
from hdpstats.privacy.sensitivity import Relation
from hdpstats.public.moments import PublicFit, PublicSide
from hdpstats.raking.curvature import rakeable
from hdpstats.raking.information import UNUSABLE
from hdpstats.results import ModelFacts, Result, RowWeights
from hdpstats.solvers.objective import Rows


def rounds_of_sites(
    counts: Mapping[str, SiteRecords], costs: Callable[[Fraction, Fraction], tuple[Fraction, ...]]
) -> dict[str, SiteRounds]:
    """Return what sites are asked to spend in the rounds of a fit; ``costs`` are those of an epsilon and a delta."""
    return {
        name: SiteRounds(
            records=site.records,
            records_sd=site.records_sd,
            epsilon=site.request.epsilon,
            delta=site.request.delta,
            costs=costs(site.request.epsilon, site.request.delta),
        )
        for name, site in counts.items()
    }


@final
class NoisyNewton(FitMechanism):
    """Noisy Newton steps: in every round sites release noisy sums of clipped scores."""

    options = ClippedNewton

    def fit(self, spec: LossSpec, options: ClippedNewton, request: FitRequest) -> Result:
        """Ask the sites round by round and read their answers.

        Raises
        ------
        MechanismError, InsufficientBudget
            Before anything is charged: what all rounds cost must be left before the first is asked.
        """
        state = open_rounds(spec, options, request, {name: site.records for name, site in spec.study.sites.items()})
        costs = partial(costs_of, rounds=options.rounds)

        def first(site: SiteRecords) -> ClippedNewtonQuery:
            return first_queries(replace(state, sites=rounds_of_sites({ONLY: site}, costs)))[ONLY]

        counts = record_counts(spec, request, first, averages=True)
        state = replace(
            state, sites=rounds_of_sites(counts.sites, costs), raked=_raked(spec, state, options, counts.sites)
        )
        matched, rounds = ask_rounds(spec.study, partial(advance, state), ClippedNewtonRelease)
        parts = rounds.contributions(counts)
        answered = replace(state, sites={name: state.sites[name] for name in parts.given})
        numbers = {name: len(part.release.rounds) for name, part in parts.given.items()}
        rules = _reportable(spec, answered, numbers)
        found = estimates(
            matched,
            state.fit,
            [part.release.rounds[-1] for part in parts.given.values()],
            T=spec.to_terms(state.model),
            terms=spec.terms,
            note=_note(spec, options, answered, counts.sites.values()),
            missing=rules.missing,
        )
        found = rules.reported(found).moved(spec.origin)
        allowance = state.allowance.covariance if matched.private.allowance is None else matched.private.allowance
        state = replace(state, allowance=replace(state.allowance, covariance=allowance))
        facts = _facts(spec, options, state, tuple(parts.given))
        return private_result(spec, request, parts, facts=facts, found=found)

    def plan(
        self, spec: LossSpec, options: ClippedNewton, request: FitRequest, people: Mapping[str, int]
    ) -> Prediction:
        """Read the sums that are expected of private people like the public ones, or as they were described."""
        state = open_rounds(spec, options, request, people)
        sites = planned_records(spec, request, people, averages=True)
        costs = partial(costs_of, rounds=options.rounds)
        state = replace(state, sites=rounds_of_sites(sites, costs), raked=_raked(spec, state, options, sites))
        private = expected_estimate(state, _noise(spec, state), people=_public_people(spec, state))
        found, T, moved = of_sums(private), spec.to_terms(state.model), private.theta - state.fit.theta
        errors, side = predicted_errors(found, state.fit, T=T, apart=moved), fitted(spec.public)
        unknown, (few, _) = _not_told(spec, state, dict.fromkeys(sites, options.rounds))
        return Prediction(
            mechanism=options,
            errors=errors.without(not_estimable(errors.reported, side, T=T)),
            reported=True,
            sites=sites,
            unlike=np.sqrt(np.diag(T @ _unlike(side, state.fit) @ T.T)),
            unknown=tuple(np.flatnonzero(unknown | few).tolist()),
            people=planned_people(
                spec,
                found,
                side=side,
                known=PublicInformation(public=side, records=sum(site.records for site in sites.values())),
                noise=lambda H: np.eye(len(H)),
                T=T,
                fit=state.fit,
                apart=moved,
                told=(request.description is not None and len(state.raked) == len(sites), False),
            ),
        )


def _noise(spec: LossSpec, state: Rounds) -> dict[str, float]:
    """Return the standard deviation of the noise in an average of all rounds by what they cost, by site."""
    relation, total = spec.study.relation, spec.person_loss(state.model).total_of_cut
    return {name: _averaged_sd(query, relation, total) for name, query in first_queries(state).items()}


def _not_told(
    spec: LossSpec, state: Rounds, rounds: Mapping[str, int]
) -> tuple[BoolArray, tuple[BoolArray, BoolArray]]:
    """Return of which coefficients (p,) private people are predicted to tell too little, after so many rounds by site.

    First those of which public rows say nothing, then slopes about which the private and the pooled estimate rest on
    less than a few persons (`hdpstats.inference.sandwich.few_by`).
    """
    side, T = fitted(spec.public), spec.to_terms(state.model)
    raised = state.averaging.raised
    noise = {name: sd * raised[rounds[name] - 1] ** 0.5 for name, sd in _noise(spec, state).items()}

    def predicted(places: Sequence[FloatArray], known: bool) -> FloatArray:
        return covariance_over(state, noise, places, known=known)

    unknown = np.zeros(len(T), dtype=bool)
    if state.fit.unknown is not None:
        covariance = predicted((state.fit.theta,), True)
        private = PredictedCovariance(sampling=covariance, privacy=np.zeros_like(covariance))
        unknown = undetermined(private, state.fit, T=T)
    return unknown, few_by(predicted, side, T=T)


def _reportable(spec: LossSpec, state: Rounds, rounds: Mapping[str, int]) -> Reportable:
    """Return which coefficients are reported."""
    unknown, (alone, pooled) = _not_told(spec, state, rounds)
    T = spec.to_terms(state.model)
    return Reportable(public=fitted(spec.public), T=T, undetermined=unknown, alone=alone, pooled=pooled)


def _unlike(side: PublicSide, fit: PublicFit) -> FloatArray:
    """Return the covariance (D, D) of what private people who are unlike public ones may do to matched sums.

    Clipped scores are compared with those that the model expects of public people. Where covariates, or outcomes given
    these, are distributed in another way, estimates differ by as much as coefficients of people who count more and less
    may do by whom rows are weighted, whatever the clip: ``tau u`` along every slope (`hdpstats.public.row_weights`).
    Rotterdam's patients as private and a trial's as public ones: up to .2 for the logistic loss at a clip of 95 % and
    .1 at one of 99.9 %.
    """
    own, tau = side.counted, side.apart
    found = np.zeros((len(fit.theta), len(fit.theta)))
    found[own, own] = (tau * fit.unit) ** 2
    return found


def _public_people(spec: LossSpec, state: Rounds) -> Rows | None:
    """Return the public people with their own outcomes; None where the model hardly restricts outcomes."""
    table = spec.study.public
    if table is None or not spec.restricts_outcomes:
        return None
    return spec.person_loss(state.model).people(table.admitted(spec.needs))


def _averaged_sd(query: ClippedNewtonQuery, relation: Relation, total: Fraction) -> float:
    """Return the standard deviation of the noise in the average of all rounds, which weighs as one round for all."""
    whole = replace(query, mu_squared=query.mu_squared + query.ahead, ahead=Fraction(0))
    return clipped_newton.calibrate(whole, relation=relation, total=total).noise_sd


def _facts(spec: LossSpec, options: ClippedNewton, state: Rounds, sites: Sequence[str]) -> ModelFacts:
    rounds = "1 round" if options.rounds == 1 else f"{options.rounds} rounds"
    together = f" at {len(sites)} sites, weighted by people and noise" if len(sites) > 1 else ""
    facts = spec.facts(
        f"noisy Newton in {rounds}{together}, whitened by public rows",
        records=sum(state.sites[name].records for name in sites),
        public=state.outcomes.whole if spec.public is None else spec.public.seen_rows,
        model=state.model,
    )
    of_terms = spec.to_terms(state.model) @ state.allowance.covariance @ spec.to_terms(state.model).T
    facts = replace(facts, row_weights=RowWeights.of(state.allowance.share, of_terms, clipped=True))
    if facts.hazard is None:
        return facts
    clip = f"a person's score counts up to a length of {float(state.clip):.3g}"
    if options.clip_quantile is not None:
        clip += f", which the public fit predicts for {options.clip_quantile:.0%} of people"
    return replace(facts, hazard=replace(facts.hazard, cap=clip))


def _raked(
    spec: LossSpec, state: Rounds, options: ClippedNewton, sites: Mapping[str, SiteRecords]
) -> dict[str, RakedSite]:
    """Return the people that sums of sites are compared with, where these were described."""
    starts, found = spec.raked_starts(censoring=options.censoring), {}
    for name, site in sites.items():
        if site.cohort is not None and spec.public is not None:
            people = raked_site(spec.public, state.outcomes, state.model.geometry, site.cohort, starts=starts)
            if people is not None:
                found[name] = people
    return found


def _note(spec: LossSpec, options: ClippedNewton, state: Rounds, sites: Collection[SiteRecords]) -> str:
    """Return what estimates rest on: raked people of each site that answered, or the likeness of public ones."""
    raked = [state.raked.get(name) for name in state.sites]
    described = [each for each in raked if each is not None]
    if len(described) == len(raked):
        words = list(dict.fromkeys(note for each in described for note in each.notes))
    else:
        words = [spec.likeness(censoring=options.censoring), measured(spec.covered_unlike(options.censoring)).strip()]
    told = rakeable(spec.public) is not None and all(site.cohort is not None for site in sites)
    if told and len(described) < len(raked):
        words.append(UNUSABLE)
    return " ".join(each for each in (*words, *spec.outcome_notes, _sensitivity(spec, state)) if each)


def _sensitivity(spec: LossSpec, state: Rounds) -> str:
    """Return how far errors would go with other correlations, where those of public people are taken at some site."""
    H = with_public_correlations(state)
    if H is None or is_flat(H):
        return ""
    return sensitivity(fitted(spec.public), H, T=spec.to_terms(state.model), terms=spec.terms)


def open_rounds(spec: LossSpec, options: ClippedNewton, request: FitRequest, people: Mapping[str, int]) -> Rounds:
    """Return everything public about a fit but its sites, or raise MechanismError where no proof covers it.

    The clip and the average of rounds follow from the public or declared numbers of ``people`` of all sites, and what
    they are to spend.
    """
    spec.check_listed()
    side = fitted(spec.public)
    if side.fit is None:
        raise refusal("clipped_newton needs a public fit")
    (model, outcomes), fit = spec.expected_outcomes(censoring=options.censoring), side.fit
    check_enough(outcomes)
    public, clipping = spec.study.public, _clipping(spec, outcomes, fit, options)
    total = float(spec.person_loss(model).total_of_cut)
    noises = _noises(spec, options, request, people, dimension=outcomes.dimension, total=total)
    if options.clip_quantile is None:
        clip = clipping.chosen(noises)
    else:
        clip = clip_at(outcomes, fit.theta, level=options.clip_quantile)
    averaging = clipping.averaging(clip, noises)
    return Rounds(
        model=model,
        outcomes=outcomes,
        fit=fit,
        clip=clip,
        averaging=averaging,
        allowance=clipping.allowance(clip, averaging),
        sites={},
        schema_sha256=spec.study.schema.sha256,
        public_sha256=None if public is None else public.sha256,
        replicate=request.replicate,
    )


def _noises(
    spec: LossSpec,
    options: ClippedNewton,
    request: FitRequest,
    people: Mapping[str, int],
    *,
    dimension: int,
    total: float,
) -> list[tuple[int, float]]:
    """Return the number of people of each site, and the standard deviation of the noise for a clip of 1.

    A person's score is no longer than ``total`` clips.
    """
    sites = planned_records(spec, request, people, averages=True, expected=False)
    return [
        (
            site.most,
            total
            * noise_of_clip(
                site.request.epsilon,
                site.request.delta,
                rounds=options.rounds,
                dimension=dimension,
                relation=spec.study.relation,
            ),
        )
        for site in sites.values()
    ]


def _clipping(spec: LossSpec, outcomes: Outcomes, fit: PublicFit, options: ClippedNewton) -> Clipping:
    """Return what a choice of the clip, and the allowance for it, rest on."""
    side = fitted(spec.public)
    blocks, first = side.row_blocks
    return Clipping(
        outcomes=outcomes,
        theta=fit.theta,
        own=side.counted,
        apart=spec.apart * fit.unit,
        unit=fit.unit,
        unseen=side.far_people,
        blocks=blocks,
        first=first,
        costs=shares_of(options.rounds),
        grows=spec.residuals_grow,
    )
