"""Fits by noisy Newton steps with clipped scores: what may be asked, the rounds at the site, the result."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats.inference.gradient import ALIKE, ALIKE_IN_FOLLOW_UP, ASSUMED, FOLLOWED_TO_HORIZON, estimates
from hdpstats.losses import HAZARDS, BoundedSquares, Logistic, Loss, PoissonLoss
from hdpstats.mechanisms import objective
from hdpstats.mechanisms.contrast import sensitivity_factor
from hdpstats.mechanisms.knorm import NoiseLaw
from hdpstats.mechanisms.options import NoisyNewton
from hdpstats.models.counting import reckon
from hdpstats.models.hazard_specification import HazardSpecification
from hdpstats.models.multinomial import Multinomial
from hdpstats.models.regression import Regression
from hdpstats.models.request import FitRequest
from hdpstats.models.specification import Specification
from hdpstats.privacy.accountant import guarantee
from hdpstats.privacy.gaussian import mu_of
from hdpstats.protocols.gradient import Rounds, SiteRounds, advance, check_enough, clip_at, costs_of, first_queries
from hdpstats.protocols.hazard import HazardSide
from hdpstats.protocols.hazard import with_radius as geometry_at
from hdpstats.protocols.listed import CountOutcomes, LevelOutcomes
from hdpstats.protocols.matching import Matched
from hdpstats.protocols.moments import PublicFit
from hdpstats.protocols.multinomial import MultinomialSide, side_at
from hdpstats.protocols.outcomes import (
    BinaryOutcomes,
    Outcomes,
    SurvivalOutcomes,
    followed_as_public,
    followed_to_horizon,
)
from hdpstats.protocols.public import WhitenedPublic, with_radius
from hdpstats.protocols.residuals import ResidualOutcomes, centred_residuals
from hdpstats.queries import AnyModel, CountRelease, HazardCap, HazardModel, MultinomialModel, RegressionModel
from hdpstats.queries.gradient import GradientQuery, GradientRelease, RoundsQuery, RoundsRelease
from hdpstats.results import ModelFacts, Result

MOST_COUNTS = 200
"""The largest count up to which counts are listed."""

RADIUS = 1000.0
"""Rows are weighted down only beyond it: the clip bounds a person, not the length of a row."""

ONLY = "site"

LARGEST_TOTAL = 1e4
"""The largest total of a hazard cap."""


def fit_gradient(spec: Specification, options: NoisyNewton, request: FitRequest) -> Result:
    """Ask the site round by round and read its answers.

    Raises
    ------
    MechanismError, InsufficientBudget
        Before anything is charged: what all rounds cost must be left before the first is asked.
    """

    def opened(left: FitRequest, records: int) -> Rounds:
        return rounds_of(spec, options, left, records=records)

    def first(left: FitRequest, records: int) -> GradientQuery:
        return first_queries(opened(left, records))[ONLY]

    site = spec.study.site
    (reckoning,) = reckon(spec, request, ask=first).sites.values()
    state = opened(reckoning.request, reckoning.records)
    if reckoning.count is not None:
        known = replace(state.sites[ONLY], records_sd=reckoning.count.noise_sd)
        state = replace(state, sites={ONLY: known})
    asked: list[dict[str, GradientQuery]] = []
    answered: list[dict[str, GradientRelease]] = []
    while not isinstance(step := advance(state, asked, answered), Matched):
        release = site.answer(step[ONLY])  # type: ignore[union-attr]
        if not isinstance(release, GradientRelease):
            raise MechanismError("the site answered with a release of another kind")
        asked.append(dict(step))
        answered.append({ONLY: release})
    queries, releases = [each[ONLY] for each in asked], [each[ONLY] for each in answered]
    return _read(spec, options, state, step, queries, releases, reckoning.count)


def rounds_of(spec: Specification, options: NoisyNewton, request: FitRequest, *, records: int) -> Rounds:
    """Return everything public about a fit, or raise MechanismError where no proof covers it."""
    if spec.study.unit is not None:
        raise _refusal("the gradient mechanism is proved for one row per person: covariates must not vary in time")
    costs = costs_of(request.epsilon, request.delta, rounds=options.rounds)
    model, outcomes, fit = _opened(spec, options)
    check_enough(outcomes)
    public = spec.study.public
    return Rounds(
        model=model,
        outcomes=outcomes,
        fit=fit,
        clip=clip_at(outcomes, fit.theta, level=options.clip_quantile),
        sites={
            ONLY: SiteRounds(records=records, records_sd=0.0, epsilon=request.epsilon, delta=request.delta, costs=costs)
        },
        schema_sha256=spec.study.schema.sha256,
        public_sha256=None if public is None else public.sha256,
        replicate=request.replicate,
    )


def recommended(spec: Specification, request: FitRequest) -> NoisyNewton | None:
    r"""Return the gradient mechanism where it is the best one that its proof covers, else None.

    For hazards whenever there is a delta. For logistic regressions where normal noise beats the pure noise of objective
    perturbation: with ``D`` coefficients its variance is ``1 / mu^2`` against ``(D + 1) / epsilon^2``. For others where
    the noise is smaller, as it is where scores are usually much shorter than they might be.
    """
    options, epsilon = NoisyNewton(), request.epsilon
    if request.delta == 0:
        return None
    few = len(spec.terms) + 1 <= (epsilon / mu_of(epsilon, request.delta)) ** 2
    logistic = isinstance(spec, Regression) and spec.loss.coupled
    if few and logistic:
        return None
    try:
        state = rounds_of(spec, options, request, records=spec.study.records or 1)
    except MechanismError:
        return None
    return options if logistic or isinstance(spec, HazardSpecification) or _quieter(spec, state) else None


def _quieter(spec: Specification, state: Rounds) -> bool:
    """Return whether clipped scores need less noise than objective perturbation, whose people weigh what they might."""
    relation = spec.study.relation
    site = state.sites[ONLY]
    query = spec.ask(epsilon=site.epsilon, records=site.records, share=Fraction(0), replicate=1)
    contrast = spec.contrast(query.model)
    rate = objective.calibrate(query, contrast, records=site.records, relation=relation).noise_rate
    pure = NoiseLaw(norm=contrast.norm, dimension=contrast.dimension, rate=float(rate)).variance
    clipped = float((sensitivity_factor(relation) * state.clip) ** 2 / sum(site.costs))
    return clipped < float(np.mean(pure))


def _opened(spec: Specification, options: NoisyNewton) -> tuple[AnyModel, Outcomes, PublicFit]:
    """Return the model that is asked about, public people with all their outcomes, and the public fit."""
    _check_listed(spec)
    public = spec.public
    fit = None if public is None else public.fit
    if public is None or fit is None:
        raise _refusal("the gradient mechanism needs (40 complete) public rows with the outcome, to compare with")
    if isinstance(spec, HazardSpecification) and isinstance(public, HazardSide):
        model, outcomes = _hazard(spec, public, censoring=options.censoring)
        return model, outcomes, fit
    if isinstance(spec, Multinomial) and isinstance(public, MultinomialSide):
        levels = side_at(public, RADIUS)
        multinomial = MultinomialModel(
            formula=spec.design.canonical, others=spec.others, geometry=levels.geometry, weights=spec.weights
        )
        listed = LevelOutcomes(others=spec.others, X=levels.X, weights=levels.weights * levels.mallows)
        return multinomial, listed, fit
    if isinstance(spec, Regression) and isinstance(public, WhitenedPublic):
        side = with_radius(public, RADIUS)
        regression = RegressionModel(
            formula=spec.design.canonical,
            loss=spec.loss.name,
            geometry=side.geometry,
            weights=spec.weights,
            offset=spec.offset,
            parameters=spec.chosen.parameters,
        )
        return regression, _listed(spec.loss, side, fit), fit
    raise _refusal("the gradient mechanism is not for this model")


def _check_listed(spec: Specification) -> None:
    """Refuse models whose outcomes cannot be listed."""
    if not isinstance(spec, Regression) or isinstance(spec.loss, Logistic | BoundedSquares):
        return
    response = spec.response
    counts = isinstance(spec.loss, PoissonLoss) and response.lower == 0.0 and response.upper == int(response.upper)
    if not counts or response.upper > MOST_COUNTS:
        raise MechanismError(
            "the gradient mechanism lists all outcomes that public people might have: it is for binary and categorical "
            f"outcomes, least squares, counts from 0 to a whole number of at most {MOST_COUNTS}, and hazards; use "
            "mechanism='objective', 'output' or (with a delta) 'sampling'",
            available=("objective", "output", "sampling"),
        )


def _listed(loss: Loss, side: WhitenedPublic, fit: PublicFit) -> Outcomes:
    """Return public people with outcomes 0 and 1, with every count, or with everybody's residuals."""
    weights = side.weights * side.mallows
    if isinstance(loss, BoundedSquares) and side.y is not None:
        residuals = centred_residuals(side.y - side.X @ fit.theta - side.offset)
        return ResidualOutcomes(
            loss=loss, X=side.X, weights=weights, offset=side.offset, residuals=residuals, theta=fit.theta
        )
    if isinstance(loss, PoissonLoss):
        return CountOutcomes(loss=loss, X=side.X, weights=weights, offset=side.offset)
    return BinaryOutcomes(loss=loss, X=side.X, weights=weights, offset=side.offset)


def _hazard(spec: HazardSpecification, public: HazardSide, *, censoring: str) -> tuple[HazardModel, SurvivalOutcomes]:
    """Return the model with a cap that ends nobody's follow-up, and the public people in it."""
    if len(spec.causes) != 1:
        raise _refusal("the gradient mechanism is proved for one kind of event, not for competing ones")
    q, p, level = spec.grid.intervals, len(public.geometry.location), spec.largest_offset
    highest = float(np.exp(HAZARDS[spec.link].caps(np.array(level + spec.largest_offset), 0.0)))
    total = max(1.0, q * highest * (1.0 + 1e-9))
    if total > LARGEST_TOTAL:
        raise _refusal("the gradient mechanism cannot bound hazards with offsets of this size")
    model = HazardModel(
        formula=spec.design.canonical,
        link=spec.link,
        grid=spec.grid,
        baseline=tuple(tuple(row) for row in public.baseline.mixed.tolist()),
        geometry=geometry_at(public.geometry, RADIUS),
        cap=HazardCap(total=total, margin=0.0, baseline=((level,) * q,), slopes=((0.0,) * p,)),
        weights=spec.weights,
        offset=spec.offset,
    )
    side = public.at(model.geometry, model.cap)
    spells = side.spells
    followed = (
        followed_to_horizon(spells.entry, q)
        if censoring == "administrative"
        else followed_as_public(entry=spells.entry, last=spells.last, event=spells.cause, intervals=q)
    )
    return model, SurvivalOutcomes(spells=spells, followed=followed, whole=side.number)


def _read(
    spec: Specification,
    options: NoisyNewton,
    state: Rounds,
    matched: Matched,
    asked: list[GradientQuery],
    answered: list[GradientRelease],
    count: CountRelease | None,
) -> Result:
    """Return the result of the rounds: post-processing of released and public numbers."""
    last = answered[-1]
    found = estimates(
        matched,
        state.fit,
        [last],
        T=spec.to_terms(state.model),
        terms=spec.terms,
        note=_note(spec, options),
    ).moved(spec.origin)
    facts = _facts(spec, options, state)
    release = RoundsRelease(rounds=tuple(answered), entry=last.entry)
    return Result(
        facts=facts,
        schema=spec.study.schema,
        estimate=found.chosen,
        public_only=found.public_only,
        private_only=found.private_only,
        pooled=found.pooled,
        query=RoundsQuery(rounds=tuple(asked)),
        release=release,
        guarantee=guarantee(
            (*(() if count is None else count.events), *release.events),
            relation=spec.study.relation,
            most_rows=spec.study.most_rows,
        ),
        count=count,
        public_check=spec.check(facts, found.chosen.values),
    )


def _facts(spec: Specification, options: NoisyNewton, state: Rounds) -> ModelFacts:
    rounds = "1 round" if options.rounds == 1 else f"{options.rounds} rounds"
    facts = spec.facts(
        f"noisy Newton in {rounds}, whitened by public rows",
        records=sum(site.records for site in state.sites.values()),
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


def _note(spec: Specification, options: NoisyNewton) -> str:
    if isinstance(spec, Regression) and isinstance(spec.loss, BoundedSquares):
        return f"{ASSUMED} in their covariates and residuals, and residuals not to depend on covariates."
    if isinstance(spec, Regression) and isinstance(spec.loss, PoissonLoss):
        return f"{ALIKE} Counts are taken to be Poisson, those above the largest one cut to it."
    if not isinstance(spec, HazardSpecification):
        return ALIKE
    return FOLLOWED_TO_HORIZON if options.censoring == "administrative" else ALIKE_IN_FOLLOW_UP


def _refusal(reason: str) -> MechanismError:
    return MechanismError(f"{reason}; use mechanism='objective'", available=("objective",))
