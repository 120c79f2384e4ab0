"""What is public about a fit by rounds before the first: its model, public people with all outcomes, the costs."""

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats.formulas.geometry import at_radius
from hdpstats.losses import HAZARDS, BoundedSquares, Logistic, Loss, PoissonLoss
from hdpstats.mechanisms.clipped_newton.request import Rounds, check_enough, clip_at, costs_of
from hdpstats.mechanisms.count.query import CountRelease
from hdpstats.mechanisms.objective.multinomial_request import MultinomialSide, side_at
from hdpstats.mechanisms.options import ClippedNewton
from hdpstats.mechanisms.score_sums import SiteRounds
from hdpstats.models.hazard_spec import HazardSpec
from hdpstats.models.model_spec import ModelSpec
from hdpstats.models.multinomial_spec import Multinomial
from hdpstats.models.regression_spec import Regression
from hdpstats.models.request import FitRequest
from hdpstats.public.fit import WhitenedPublic, with_radius
from hdpstats.public.hazard import HazardSide
from hdpstats.public.listed import BinaryOutcomes, CountOutcomes, LevelOutcomes, ResidualOutcomes, centred_residuals
from hdpstats.public.moments import PublicFit
from hdpstats.public.outcomes import Outcomes, SurvivalOutcomes, followed_as_public, followed_to_horizon
from hdpstats.records.model import AnyModel, HazardCap, HazardModel, MultinomialModel, RegressionModel

MOST_COUNTS = 200
"""The largest count up to which counts are listed."""

RADIUS = 1000.0
"""Rows are weighted down only beyond it: the clip bounds a person, not the length of a row."""

LARGEST_TOTAL = 1e4
"""The largest total of a hazard cap."""


def open_rounds(spec: ModelSpec, options: ClippedNewton, *, replicate: int) -> Rounds:
    """Return everything public about a fit but its sites, or raise MechanismError where no proof covers it."""
    if spec.study.unit is not None:
        raise _refusal("the gradient mechanism is proved for one row per person: covariates must not vary in time")
    model, outcomes, fit = _opened(spec, options)
    check_enough(outcomes)
    public = spec.study.public
    return Rounds(
        model=model,
        outcomes=outcomes,
        fit=fit,
        clip=clip_at(outcomes, fit.theta, level=options.clip_quantile),
        sites={},
        schema_sha256=spec.study.schema.sha256,
        public_sha256=None if public is None else public.sha256,
        replicate=replicate,
    )


def site_rounds(
    options: ClippedNewton, request: FitRequest, *, records: int, count: CountRelease | None = None
) -> SiteRounds:
    """Return what a site is asked to spend in the rounds of a fit; ``count`` is the noisy number of people."""
    return SiteRounds(
        records=records,
        records_sd=0.0 if count is None else count.noise_sd,
        epsilon=request.epsilon,
        delta=request.delta,
        costs=costs_of(request.epsilon, request.delta, rounds=options.rounds),
    )


def _opened(spec: ModelSpec, options: ClippedNewton) -> tuple[AnyModel, Outcomes, PublicFit]:
    """Return the model that is asked about, public people with all their outcomes, and the public fit."""
    _check_listed(spec)
    public = spec.public
    fit = None if public is None else public.fit
    if public is None or fit is None:
        raise _refusal("the gradient mechanism needs (40 complete) public rows with the outcome, to compare with")
    if isinstance(spec, HazardSpec) and isinstance(public, HazardSide):
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


def _check_listed(spec: ModelSpec) -> None:
    """Refuse models whose outcomes cannot be listed."""
    if not isinstance(spec, Regression) or isinstance(spec.loss, Logistic | BoundedSquares):
        return
    response = spec.response
    counts = isinstance(spec.loss, PoissonLoss) and response.lower == 0.0 and response.upper == int(response.upper)
    if not counts or response.upper > MOST_COUNTS:
        raise MechanismError(
            "the gradient mechanism lists all outcomes that public people might have: it is for binary and categorical "
            f"outcomes, least squares, counts from 0 to a whole number of at most {MOST_COUNTS}, and hazards; use "
            "mechanism='objective', 'output' or (with a delta) 'exponential'",
            available=("objective", "output", "exponential"),
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


def _hazard(spec: HazardSpec, public: HazardSide, *, censoring: str) -> tuple[HazardModel, SurvivalOutcomes]:
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
        geometry=at_radius(public.geometry, RADIUS),
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


def _refusal(reason: str) -> MechanismError:
    return MechanismError(f"{reason}; use mechanism='objective'", available=("objective",))
