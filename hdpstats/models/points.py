"""Fits that buy coefficients with one query: what is asked, what the noise is worth, what the method is called."""

from fractions import Fraction

import numpy as np

from hdpstats.inference.noise import InObjective, OnMinimiser, ScoreNoise, Smoothed, Tempered
from hdpstats.mechanisms.exponential.query import ExponentialQuery, ExponentialRelease
from hdpstats.mechanisms.exponential.request import choose_exponential
from hdpstats.mechanisms.objective import site as objective
from hdpstats.mechanisms.objective.query import ObjectiveQuery, ObjectiveRelease
from hdpstats.mechanisms.objective.site import widest_smoothing
from hdpstats.mechanisms.options import ExponentialMechanism, ObjectivePerturbation, OutputPerturbation
from hdpstats.mechanisms.output.query import OutputQuery
from hdpstats.mechanisms.output.request import choose_output, with_normal_noise
from hdpstats.mechanisms.person_loss.base import PersonLoss
from hdpstats.models.model_spec import ModelSpec
from hdpstats.models.request import FitRequest
from hdpstats.noise.distributions import NoiseDistribution, NormalDistribution
from hdpstats.privacy.sensitivity import BallNorm
from hdpstats.public.fit import FEWEST_ROWS
from hdpstats.records.point import PointQuery, PointRelease

PointMechanism = ObjectivePerturbation | OutputPerturbation | ExponentialMechanism

NAMES: dict[type[PointQuery], str] = {
    ObjectiveQuery: "objective perturbation",
    OutputQuery: "output perturbation",
    ExponentialQuery: "exponential sampling",
}


def ask_point(spec: ModelSpec, mechanism: PointMechanism, request: FitRequest, *, records: int) -> PointQuery:
    """Return the query of a fit, with normal noise where the request's delta makes that the smaller one."""
    if isinstance(mechanism, ObjectivePerturbation):
        return ask_objective(spec, mechanism, request, records=records)
    share = Fraction(0) if isinstance(mechanism, ExponentialMechanism) else mechanism.share
    query = spec.ask(epsilon=request.epsilon, records=records, share=share, replicate=request.replicate)
    person_loss, relation = spec.person_loss(query.model), spec.study.relation
    if isinstance(mechanism, ExponentialMechanism):
        return choose_exponential(query, person_loss, spec.side(query.model), records=records, delta=request.delta)
    side = spec.side(query.model)
    return choose_output(query, person_loss, side, records=records, delta=request.delta, relation=relation)


def ask_objective(
    spec: ModelSpec, mechanism: ObjectivePerturbation, request: FitRequest, *, records: int
) -> ObjectiveQuery:
    """Return the query of a fit by objective perturbation, with normal noise where delta makes that the smaller one."""
    query = spec.ask(epsilon=request.epsilon, records=records, share=mechanism.share, replicate=request.replicate)
    if request.delta == Fraction(0):
        return query
    person_loss, relation = spec.person_loss(query.model), spec.study.relation
    rate = objective.calibrate(query, person_loss, records=records, relation=relation).noise_rate
    pure = NoiseDistribution(norm=person_loss.norm, dimension=person_loss.dimension, rate=float(rate)).variance
    return with_normal_noise(query, person_loss, variance=float(np.mean(pure)), delta=request.delta, relation=relation)


def noise_of(query: PointQuery, release: PointRelease, person_loss: PersonLoss) -> ScoreNoise:
    """Return what the noise of a release is worth in the score, the smoothing of a computed minimiser included."""
    if isinstance(release, ExponentialRelease):
        return Tempered(temperature=release.temperature, ridge=float(query.ridge))
    output = isinstance(query, OutputQuery)
    distribution: NoiseDistribution | NormalDistribution
    if release.noise_sd > 0.0:
        distribution = NormalDistribution(dimension=person_loss.dimension, sd=release.noise_sd)
    else:
        norm = BallNorm() if output else person_loss.norm
        distribution = NoiseDistribution(norm=norm, dimension=person_loss.dimension, rate=release.noise_rate)
    if output:
        return OnMinimiser(distribution=distribution, ridge=float(query.ridge))
    after = widest_smoothing(release) if isinstance(release, ObjectiveRelease) else None
    inside = InObjective(distribution=distribution)
    return (
        inside
        if after is None
        else Smoothed(inside=inside, after=OnMinimiser(distribution=after, ridge=float(query.ridge)))
    )


def method_of(query: PointQuery, *, whitened: bool, few: bool, sites: int) -> str:
    """Return the method in words; ``few`` says that there are public rows, though too few where not ``whitened``."""
    normal = query.delta > 0 and not isinstance(query, ExponentialQuery)
    name = NAMES[type(query)] + (" with normal noise" if normal else "")
    name += f" at {sites} sites, combined by inverse variance" if sites > 1 else ""
    if whitened:
        return f"{name}, whitened by public rows"
    return f"{name}, scaled by the schema" + (f" (fewer than {FEWEST_ROWS} complete public rows)" if few else "")
