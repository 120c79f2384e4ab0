"""Fits that buy coefficients with one query: what is asked, what the noise is worth, what the method is called."""

from fractions import Fraction

import numpy as np

from hdpstats.inference.noise import InObjective, OnMinimiser, ScoreNoise, Smoothed, Tempered
from hdpstats.mechanisms import objective
from hdpstats.mechanisms.contrast import Contrast
from hdpstats.mechanisms.knorm import NoiseLaw, NormalLaw
from hdpstats.mechanisms.options import ExponentialSampling, ObjectivePerturbation, OutputPerturbation
from hdpstats.mechanisms.smoothing import widest_smoothing
from hdpstats.models.request import FitRequest
from hdpstats.models.specification import Specification
from hdpstats.privacy.sensitivity import BallNorm
from hdpstats.protocols.output import choose_output, with_normal_noise
from hdpstats.protocols.public import FEWEST_ROWS
from hdpstats.protocols.sampling import choose_sampling
from hdpstats.queries import (
    ObjectiveQuery,
    ObjectiveRelease,
    OutputQuery,
    PointQuery,
    PointRelease,
    SamplingQuery,
    SamplingRelease,
)

PointMechanism = ObjectivePerturbation | OutputPerturbation | ExponentialSampling

NAMES: dict[type[PointQuery], str] = {
    ObjectiveQuery: "objective perturbation",
    OutputQuery: "output perturbation",
    SamplingQuery: "exponential sampling",
}


def ask_point(spec: Specification, mechanism: PointMechanism, request: FitRequest, *, records: int) -> PointQuery:
    """Return the query of a fit, with normal noise where the request's delta makes that the smaller one."""
    if isinstance(mechanism, ObjectivePerturbation):
        return ask_objective(spec, mechanism, request, records=records)
    share = Fraction(0) if isinstance(mechanism, ExponentialSampling) else mechanism.share
    query = spec.ask(epsilon=request.epsilon, records=records, share=share, replicate=request.replicate)
    contrast, relation = spec.contrast(query.model), spec.study.relation
    if isinstance(mechanism, ExponentialSampling):
        return choose_sampling(query, contrast, spec.side(query.model), records=records, delta=request.delta)
    side = spec.side(query.model)
    return choose_output(query, contrast, side, records=records, delta=request.delta, relation=relation)


def ask_objective(
    spec: Specification, mechanism: ObjectivePerturbation, request: FitRequest, *, records: int
) -> ObjectiveQuery:
    """Return the query of a fit by objective perturbation, with normal noise where delta makes that the smaller one."""
    query = spec.ask(epsilon=request.epsilon, records=records, share=mechanism.share, replicate=request.replicate)
    if request.delta == Fraction(0):
        return query
    contrast, relation = spec.contrast(query.model), spec.study.relation
    rate = objective.calibrate(query, contrast, records=records, relation=relation).noise_rate
    pure = NoiseLaw(norm=contrast.norm, dimension=contrast.dimension, rate=float(rate)).variance
    return with_normal_noise(query, contrast, variance=float(np.mean(pure)), delta=request.delta, relation=relation)


def noise_of(query: PointQuery, release: PointRelease, contrast: Contrast) -> ScoreNoise:
    """Return what the noise of a release is worth in the score, the smoothing of a computed minimiser included."""
    if isinstance(release, SamplingRelease):
        return Tempered(temperature=release.temperature, ridge=float(query.ridge))
    output = isinstance(query, OutputQuery)
    law: NoiseLaw | NormalLaw
    if release.noise_sd > 0.0:
        law = NormalLaw(dimension=contrast.dimension, sd=release.noise_sd)
    else:
        norm = BallNorm() if output else contrast.norm
        law = NoiseLaw(norm=norm, dimension=contrast.dimension, rate=release.noise_rate)
    if output:
        return OnMinimiser(law=law, ridge=float(query.ridge))
    after = widest_smoothing(release) if isinstance(release, ObjectiveRelease) else None
    inside = InObjective(law=law)
    return inside if after is None else Smoothed(inside=inside, after=OnMinimiser(law=after, ridge=float(query.ridge)))


def method_of(query: PointQuery, *, whitened: bool, few: bool, sites: int) -> str:
    """Return the method in words; ``few`` says that there are public rows, though too few where not ``whitened``."""
    normal = query.delta > 0 and not isinstance(query, SamplingQuery)
    name = NAMES[type(query)] + (" with normal noise" if normal else "")
    name += f" at {sites} sites, combined by inverse variance" if sites > 1 else ""
    if whitened:
        return f"{name}, whitened by public rows"
    return f"{name}, scaled by the schema" + (f" (fewer than {FEWEST_ROWS} complete public rows)" if few else "")
