"""Fits whose coefficients are released by one query: what is asked, the noise, predicted errors, the result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, cast, final

import numpy as np

from hdpstats.inference.cohort import raked_information
from hdpstats.inference.combination import ReleasedPoint
from hdpstats.inference.information import (
    InObjective,
    OnMinimiser,
    OverPublicPeople,
    PublicInformation,
    ScoreNoise,
    Smoothed,
    Tempered,
    is_clear,
)
from hdpstats.inference.released import as_continuous, estimates, has_steps, is_plain, tied_quantile
from hdpstats.inference.sandwich import (
    PlannedPoint,
    PredictedErrors,
    averaged,
    of_point,
    planned_covariance,
    predicted_errors,
)
from hdpstats.mechanisms.exponential import ExponentialMechanism, ExponentialQuery, ExponentialRelease
from hdpstats.mechanisms.exponential import site as exponential
from hdpstats.mechanisms.exponential.request import choose_exponential
from hdpstats.mechanisms.person_loss.base import PersonLoss
from hdpstats.mechanisms.perturbation import (
    ObjectivePerturbation,
    ObjectiveQuery,
    ObjectiveRelease,
    OutputPerturbation,
    OutputQuery,
)
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.mechanisms.perturbation.request import choose_output, with_normal_noise
from hdpstats.mechanisms.perturbation.site import smoothing_distribution, widest_smoothing
from hdpstats.models.model_spec import LossSpec
from hdpstats.models.private_result import Contribution, Contributions, answers_to, private_result
from hdpstats.models.request import FitRequest
from hdpstats.models.site_records import SiteRecords, planned_records, record_counts
from hdpstats.noise.distributions import NoiseDistribution, NormalDistribution
from hdpstats.noise.knorm import BallNoise
from hdpstats.privacy.sensitivity import BallNorm, Norm
from hdpstats.public.fit import FEWEST_ROWS, WhitenedPublic
from hdpstats.public.moments import PublicSide
from hdpstats.records.query import MechanismOptions, PointQuery, PointRelease
from hdpstats.results import Result
from hdpstats.sites.asking import ask

PointMechanism = ObjectivePerturbation | OutputPerturbation | ExponentialMechanism

NAMES: dict[type[PointQuery], str] = {
    ObjectiveQuery: "objective perturbation",
    OutputQuery: "output perturbation",
    ExponentialQuery: "exponential sampling",
}


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Prediction:
    """What a fit by a mechanism would report, and whether it would report standard errors at all.

    ``sites`` is what is known of each site's people before.
    """

    mechanism: MechanismOptions
    errors: PredictedErrors
    reported: bool
    sites: Mapping[str, SiteRecords] = field(default_factory=dict)


def fit_points(spec: LossSpec, mechanism: PointMechanism, request: FitRequest) -> Result:
    """Ask every site for coefficients by one query, made for its own number of people and its own epsilon."""

    def query_of(site: SiteRecords) -> PointQuery:
        return _query_of(spec, mechanism, site)

    counts = record_counts(spec, request, query_of, averages=rests_on_averages(mechanism))
    queries = {name: query_of(each) for name, each in counts.sites.items()}
    return read_points(spec, request, answers_to(queries, ask(spec.study, queries), counts, PointRelease))


def rests_on_averages(mechanism: PointMechanism) -> bool:
    """Return whether errors of a mechanism follow from averages of private people; not where a Hessian is asked for."""
    return isinstance(mechanism, ObjectivePerturbation) and not mechanism.share


def ask_objective(
    spec: LossSpec, mechanism: ObjectivePerturbation, request: FitRequest, *, records: int
) -> ObjectiveQuery:
    """Return the query of a fit by objective perturbation, with normal noise where delta makes that the smaller one."""
    query = spec.ask(epsilon=request.epsilon, records=records, share=mechanism.share, replicate=request.replicate)
    if request.delta == Fraction(0):
        return query
    person_loss, relation = spec.person_loss(query.model), spec.study.relation
    rate = perturbation.calibrate_objective(query, person_loss, records=records, relation=relation).noise_rate
    pure = NoiseDistribution(norm=person_loss.norm, dimension=person_loss.dimension, rate=float(rate)).variance
    return with_normal_noise(query, person_loss, variance=float(np.mean(pure)), delta=request.delta, relation=relation)


def _query_of(spec: LossSpec, mechanism: PointMechanism, site: SiteRecords) -> PointQuery:
    """Return the query to a site. That samples are accepted is certain beforehand, whoever of the people counts."""
    request, records, share = site.request, site.records, Fraction(0)
    if isinstance(mechanism, ObjectivePerturbation):
        return ask_objective(spec, mechanism, request, records=records)
    if isinstance(mechanism, OutputPerturbation):
        share = mechanism.share
    else:
        records = site.most
    query = spec.ask(epsilon=request.epsilon, records=records, share=share, replicate=request.replicate)
    person_loss, side = spec.person_loss(query.model), spec.side(query.model)
    if isinstance(mechanism, ExponentialMechanism):
        return choose_exponential(query, person_loss, side, records=records, delta=request.delta)
    relation = spec.study.relation
    return choose_output(query, person_loss, side, records=records, delta=request.delta, relation=relation)


def predict_points(
    spec: LossSpec, mechanism: PointMechanism, request: FitRequest, people: Mapping[str, int]
) -> Prediction:
    """Return what a fit by one query to each site would report, from the very queries and constants of a fit."""
    points, planned, clear = [], [], True
    sites = planned_records(spec, request, people, averages=rests_on_averages(mechanism))
    for site in sites.values():
        query = _query_of(spec, mechanism, site)
        side = spec.side(query.model) or spec.reference(query.model)
        noise, hessian_sd = _planned_noise(spec, query, site)
        known = _planned_information(side, site)
        points.append(of_point(side, noise=noise, records=site.records, known=known))
        if known is not None and hessian_sd is None and spec.public is not None and side.invented is None:
            planned.append(PlannedPoint(noise=noise, ridge=float(query.ridge), information=known))
        H = side.moments(side.centre, records=site.records).H
        clear = clear and hessian_sd is not None and is_clear(H, noise_sd=hessian_sd)
    private = planned_covariance(planned, side.fit) if len(planned) == len(points) else averaged(points)
    errors = predicted_errors(private, side.fit, T=spec.to_terms(query.model))
    return Prediction(mechanism=mechanism, errors=errors, reported=spec.public is not None or clear, sites=sites)


def _planned_information(side: PublicSide, site: SiteRecords) -> OverPublicPeople | None:
    """Return what a fit would know of curvature from public rows; None where they tell nothing of it."""
    if not side.known:
        return None
    if site.cohort is not None:
        told = raked_information(side, site.cohort, records=site.records, records_sd=site.records_sd)
        if told is not None:
            return told
    return PublicInformation(public=side, records=max(site.records, 1), records_sd=site.records_sd)


def _planned_noise(spec: LossSpec, query: PointQuery, site: SiteRecords) -> tuple[ScoreNoise, float | None]:
    """Return the noise that a site's release will have, and that of the Hessian where it is asked for."""
    person_loss, relation = spec.person_loss(query.model), spec.study.relation
    if isinstance(query, ExponentialQuery):
        sampled = exponential.calibrate(query, person_loss, records=site.most)
        return Tempered(temperature=float(sampled.temperature), ridge=float(query.ridge)), None
    calibrate = perturbation.calibrate_output if isinstance(query, OutputQuery) else perturbation.calibrate_objective
    found = calibrate(cast("Any", query), person_loss, records=site.records, relation=relation)
    hessian_sd = None if found.hessian is None else found.hessian.noise_sd
    rate, sd = float(found.noise_rate), float(found.noise_sd)
    if isinstance(query, OutputQuery):
        return _output_noise(query, person_loss, rate=rate, sd=sd), hessian_sd
    after = smoothing_distribution(cast("BallNoise", found.noise), found.grid)
    return _objective_noise(query, person_loss, rate=rate, sd=sd, after=after), hessian_sd


def read_points(spec: LossSpec, request: FitRequest, points: Contributions[PointQuery, PointRelease]) -> Result:
    """Return the result of the sites' releases: post-processing of released and public numbers."""
    parts = [_part(spec, point) for point in points.given.values()]
    first = parts[0].query
    T = spec.to_terms(first.model)
    found = estimates(parts, T=T, terms=spec.terms, meat=spec.meat)
    public = parts[0].public
    if isinstance(public, WhitenedPublic) and has_steps(public):
        covered = len(parts) == 1 and is_plain(public)
        found = tied_quantile(found, parts[0], public, T=T) if covered else as_continuous(found)
    found = found.moved(spec.origin)
    facts = spec.facts(
        _method(first, whitened=spec.public is not None, few=spec.study.public is not None, sites=len(parts)),
        records=sum(part.records for part in parts),
        public=None if public is None else public.seen,
        model=first.model,
    )
    return private_result(spec, request, points, facts=facts, found=found)


def _part(spec: LossSpec, point: Contribution[PointQuery, PointRelease]) -> ReleasedPoint:
    person_loss = spec.person_loss(point.query.model)
    return ReleasedPoint(
        query=point.query,
        release=point.release,
        noise=noise_of(point.query, point.release, person_loss),
        public=spec.side(point.query.model),
        records=point.people.records,
        records_sd=point.people.records_sd,
        cohort=point.people.cohort,
        curvature=float(person_loss.trace) / (2.0 * person_loss.dimension),
    )


def noise_of(query: PointQuery, release: PointRelease, person_loss: PersonLoss) -> ScoreNoise:
    """Return the noise of a release in the score, the smoothing of a computed minimiser included."""
    if isinstance(release, ExponentialRelease):
        return Tempered(temperature=release.temperature, ridge=float(query.ridge))
    if isinstance(query, OutputQuery):
        return _output_noise(query, person_loss, rate=release.noise_rate, sd=release.noise_sd)
    after = widest_smoothing(release) if isinstance(release, ObjectiveRelease) else None
    return _objective_noise(query, person_loss, rate=release.noise_rate, sd=release.noise_sd, after=after)


def _output_noise(query: PointQuery, person_loss: PersonLoss, *, rate: float, sd: float) -> OnMinimiser:
    distribution = _distribution(BallNorm(), person_loss, rate=rate, sd=sd)
    return OnMinimiser(distribution=distribution, ridge=float(query.ridge))


def _objective_noise(
    query: PointQuery, person_loss: PersonLoss, *, rate: float, sd: float, after: NoiseDistribution | None
) -> InObjective | Smoothed:
    inside = InObjective(distribution=_distribution(person_loss.norm, person_loss, rate=rate, sd=sd))
    if after is None:
        return inside
    return Smoothed(inside=inside, after=OnMinimiser(distribution=after, ridge=float(query.ridge)))


def _distribution(
    norm: Norm, person_loss: PersonLoss, *, rate: float, sd: float
) -> NoiseDistribution | NormalDistribution:
    """Return normal noise where its standard deviation is not 0, else pure noise of a rate."""
    if sd > 0.0:
        return NormalDistribution(dimension=person_loss.dimension, sd=sd)
    return NoiseDistribution(norm=norm, dimension=person_loss.dimension, rate=rate)


def _method(query: PointQuery, *, whitened: bool, few: bool, sites: int) -> str:
    """Return the method in words; ``few`` says that there are public rows, though too few where not ``whitened``."""
    normal = query.delta > 0 and not isinstance(query, ExponentialQuery)
    name = NAMES[type(query)] + (" with normal noise" if normal else "")
    name += f" at {sites} sites, combined by inverse variance" if sites > 1 else ""
    if whitened:
        return f"{name}, whitened by public rows"
    return f"{name}, scaled by the schema" + (f" (fewer than {FEWEST_ROWS} complete public rows)" if few else "")
