"""Which mechanism would give the smaller standard errors: what `plan` shows, and what ``mechanism="auto"`` goes by.

Everything is computed from public rows and declarations, so that the choice tells nothing and costs nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast, final

from hdpstats._base.errors import MechanismError
from hdpstats.inference.information import is_clear
from hdpstats.inference.noise import InObjective, OnMinimiser, Smoothed
from hdpstats.mechanisms.clipped_newton import site as gradient
from hdpstats.mechanisms.clipped_newton.plan import SiteSums, foreseen
from hdpstats.mechanisms.clipped_newton.query import ClippedNewtonQuery
from hdpstats.mechanisms.clipped_newton.request import PROPORTIONS, first_queries
from hdpstats.mechanisms.minimiser import PointCalibration
from hdpstats.mechanisms.objective import site as objective
from hdpstats.mechanisms.objective.query import ObjectiveQuery
from hdpstats.mechanisms.objective.site import smoothing_distribution
from hdpstats.mechanisms.options import ClippedNewton, ObjectivePerturbation
from hdpstats.mechanisms.person_loss.base import PersonLoss
from hdpstats.mechanisms.planning import PredictedErrors, averaged, of_point, of_sums, predicted_errors
from hdpstats.models.first_round import open_rounds, site_rounds
from hdpstats.models.hazard_spec import HazardSpec
from hdpstats.models.model_spec import ModelSpec
from hdpstats.models.points import ask_objective
from hdpstats.models.record_counts import left_for_fit
from hdpstats.models.request import FitRequest
from hdpstats.noise.ball import BallNoise
from hdpstats.noise.distributions import NoiseDistribution, NormalDistribution
from hdpstats.noise.geometric import TwoSidedGeometric
from hdpstats.privacy.relation import Relation

CLEARLY = 0.8
"""How much smaller, as variances, errors of a regression by noisy Newton steps must be predicted to be chosen.

Predictions take private covariates to be distributed as the public ones. Where they are not, estimates by matched sums
are biased, those by objective perturbation hardly, and only their standard errors are wrong. With Rotterdam's patients
as private and GBSG's as public records, whose numbers of nodes spread half as widely, the former were off by 4 to 6
standard errors of the ordinary fit, the latter by 1. Hazards rest on public people alike by either mechanism.
"""

Foretold = ObjectivePerturbation | ClippedNewton
"""The mechanisms whose errors are known beforehand."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Forecast:
    """What a fit by a mechanism would report, and whether it would report standard errors at all."""

    mechanism: Foretold
    errors: PredictedErrors
    reported: bool

    @property
    def name(self) -> str:
        """The mechanism's name, as `fit` takes it."""
        return "clipped_newton" if isinstance(self.mechanism, ClippedNewton) else "objective"


def forecast(spec: ModelSpec, request: FitRequest, people: Mapping[str, int]) -> Forecast:
    """Return what a fit would report; ``people`` are the numbers of private people by site.

    Without a mechanism in the request one is chosen: objective perturbation, or noisy Newton steps where there is a
    delta, they have a proof, there are public people enough, and their errors are predicted to be smaller (of
    regressions by the factor `CLEARLY`).

    Raises
    ------
    MechanismError
        If the request names a mechanism whose errors are not known beforehand, or that has no proof for the model.
    """
    if isinstance(request.mechanism, ClippedNewton):
        return _by_gradient(spec, request.mechanism, request, people)
    if isinstance(request.mechanism, ObjectivePerturbation):
        return _by_objective(spec, request.mechanism, request, people)
    if request.mechanism is not None:
        raise MechanismError(
            "standard errors are predicted for mechanism='objective' and 'clipped_newton' only",
            available=("objective", "clipped_newton"),
        )
    plain = _by_objective(spec, ObjectivePerturbation(), request, people)
    if request.delta == 0:
        return plain
    try:
        rounds = _by_gradient(spec, ClippedNewton(), request, people)
    except MechanismError:
        return plain
    factor = 1.0 if isinstance(spec, HazardSpec) else CLEARLY
    return rounds if rounds.errors.against_public < factor * plain.errors.against_public else plain


def recommended(spec: ModelSpec, request: FitRequest) -> Foretold:
    """Return the mechanism of a request that names none: the one of smaller predicted errors.

    Nothing is predicted where there is no choice: noisy Newton steps need public people, and are chosen with a delta.
    """
    if spec.public is None or request.delta == 0:
        return ObjectivePerturbation()
    people = {name: site.records for name, site in spec.study.sites.items()}
    return forecast(spec, request, people).mechanism


def _by_objective(
    spec: ModelSpec, mechanism: ObjectivePerturbation, request: FitRequest, people: Mapping[str, int]
) -> Forecast:
    """Return what objective perturbation would report, from the very queries and constants of a fit."""
    relation, points, clear = spec.study.relation, [], True
    for name, records in people.items():
        query = ask_objective(spec, mechanism, _left(spec, request, name), records=records)
        person_loss = spec.person_loss(query.model)
        constants = objective.calibrate(query, person_loss, records=records, relation=relation)
        side = spec.side(query.model) or spec.reference(query.model)
        points.append(of_point(side, noise=_noise(query, constants, person_loss), records=records))
        if constants.hessian is not None:
            H = side.moments(side.centre, records=records).H
            clear = clear and is_clear(H, noise_sd=constants.hessian.noise_sd)
    errors = predicted_errors(averaged(points), side.fit, T=spec.to_terms(query.model))
    bought = mechanism.share > 0 and clear
    return Forecast(mechanism=mechanism, errors=errors, reported=spec.public is not None or bought)


def _noise(query: ObjectiveQuery, constants: PointCalibration, person_loss: PersonLoss) -> Smoothed:
    smoothing = cast(BallNoise, constants.noise)  # as it is wherever noise entered the objective
    distribution = smoothing_distribution(smoothing, constants.grid)
    inside: NoiseDistribution | NormalDistribution
    if constants.noise_sd > 0:
        inside = NormalDistribution(dimension=person_loss.dimension, sd=float(constants.noise_sd))
    else:
        inside = NoiseDistribution(
            norm=person_loss.norm, dimension=person_loss.dimension, rate=float(constants.noise_rate)
        )
    return Smoothed(
        inside=InObjective(distribution=inside), after=OnMinimiser(distribution=distribution, ridge=float(query.ridge))
    )


def _by_gradient(spec: ModelSpec, options: ClippedNewton, request: FitRequest, people: Mapping[str, int]) -> Forecast:
    """Return what noisy Newton steps would report: all rounds count as asked at the public fit."""
    state = open_rounds(spec, options, replicate=1)
    left = {name: _left(spec, request, name) for name in people}
    sites = {name: site_rounds(options, left[name], records=records) for name, records in people.items()}
    queries = first_queries(replace(state, sites=sites))
    sums = [
        SiteSums(
            records=records,
            records_sd=_count_sd(spec, request, name),
            noise_sd=_averaged_sd(queries[name], spec.study.relation),
        )
        for name, records in people.items()
    ]
    proportions = PROPORTIONS[options.rounds]
    shares = [part / sum(proportions) for part in proportions]
    private = foreseen(state.outcomes, state.fit, sums, shares=shares, clip=float(state.clip))
    errors = predicted_errors(of_sums(private), state.fit, T=spec.to_terms(state.model))
    return Forecast(mechanism=options, errors=errors, reported=True)


def _averaged_sd(query: ClippedNewtonQuery, relation: Relation) -> float:
    """Return the standard deviation of the noise in the average of all rounds, which weighs as one round for all."""
    whole = replace(query, mu_squared=query.mu_squared + query.ahead, ahead=Fraction(0))
    return gradient.calibrate(whole, relation=relation).noise_sd


def _left(spec: ModelSpec, request: FitRequest, name: str) -> FitRequest:
    """Return what a site's people still give once their number is bought, where it must be."""
    own = request.at(name)
    return replace(own, epsilon=left_for_fit(own.epsilon, spec.study.relation))


def _count_sd(spec: ModelSpec, request: FitRequest, name: str) -> float:
    """Return the standard deviation of the noise in a site's number of people."""
    paid = request.at(name).epsilon - _left(spec, request, name).epsilon
    return TwoSidedGeometric(rate=paid).variance ** 0.5 if paid else 0.0
