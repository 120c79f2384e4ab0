"""What mechanisms that release one noisy point do, each in one object: the query, the noise, what it rests on."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Final, cast, final

import numpy as np

from hdpstats.families.base import PersonLoss
from hdpstats.inference.information import InObjective, OnMinimiser, ScoreNoise, Smoothed, Tempered
from hdpstats.inference.pooling import SCALE
from hdpstats.mechanisms.exponential import ExponentialMechanism, ExponentialQuery, ExponentialRelease
from hdpstats.mechanisms.exponential import site as exponential
from hdpstats.mechanisms.exponential.request import choose_exponential
from hdpstats.mechanisms.perturbation import (
    ObjectivePerturbation,
    ObjectiveQuery,
    ObjectiveRelease,
    OutputPerturbation,
    OutputQuery,
)
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.mechanisms.perturbation.request import MISTRUST, Asked, choose_output, with_normal_noise
from hdpstats.mechanisms.perturbation.site import smoothing_distribution, widest_smoothing
from hdpstats.mechanisms.perturbation.smoothing import ExpectedPeople, variance_of, with_smoothing
from hdpstats.models.model_spec import LossSpec
from hdpstats.models.request import FitRequest
from hdpstats.models.site_records import SiteRecords
from hdpstats.noise.distributions import NoiseDistribution, NormalDistribution
from hdpstats.noise.knorm import BallNoise
from hdpstats.privacy.sensitivity import BallNorm, Norm
from hdpstats.records.query import MechanismOptions, PointQuery, PointRelease, WithHessianShare

PointOptions = ObjectivePerturbation | OutputPerturbation | ExponentialMechanism


class PointMechanism(ABC):
    """A mechanism that releases coefficients by one query to each site.

    Attributes
    ----------
    words : str
        What the fit is called.
    """

    words: ClassVar[str]

    @property
    def releases_hessian(self) -> bool:
        """Whether a share of epsilon can be spent on a noisy Hessian."""
        return True

    def rests_on_averages(self, options: Any) -> bool:
        """Return whether errors follow from averages of private people; not where a Hessian is asked for."""
        return self.releases_hessian and not options.share

    def is_normal(self, query: PointQuery) -> bool:
        """Return whether the noise is normal."""
        return query.delta > 0

    @abstractmethod
    def query_of(self, spec: LossSpec, options: Any, site: SiteRecords) -> PointQuery:
        """Return the query to a site. That samples are accepted is certain beforehand, for any number of people."""

    @abstractmethod
    def planned_noise(self, spec: LossSpec, query: Any, site: SiteRecords) -> tuple[ScoreNoise, float | None]:
        """Return the noise that a site's release will have, and that of the Hessian where it is asked for."""

    @abstractmethod
    def noise_of(self, query: PointQuery, release: PointRelease, person_loss: PersonLoss) -> ScoreNoise:
        """Return the noise of a release in the score, the smoothing of a computed minimiser included."""


@final
class _Objective(PointMechanism):
    """Noise in the objective."""

    words = "objective perturbation"

    def query_of(self, spec: LossSpec, options: ObjectivePerturbation, site: SiteRecords) -> ObjectiveQuery:
        """Return the query to a site."""
        return ask_objective(spec, options, site.request, records=site.records, most=site.most, among=site.among)

    def planned_noise(
        self, spec: LossSpec, query: ObjectiveQuery, site: SiteRecords
    ) -> tuple[ScoreNoise, float | None]:
        """Return the noise that a site's release will have, and that of the Hessian where it is asked for."""
        person_loss, relation = spec.person_loss(query.model), spec.study.relation
        found = perturbation.calibrate_objective(query, person_loss, records=site.most, relation=relation)
        hessian_sd = None if found.hessian is None else found.hessian.noise_sd
        after = smoothing_distribution(cast("BallNoise", found.noise), found.grid)
        rate, sd = float(found.noise_rate), float(found.noise_sd)
        return _objective_noise(query, person_loss, rate=rate, sd=sd, after=after), hessian_sd

    def noise_of(self, query: PointQuery, release: PointRelease, person_loss: PersonLoss) -> ScoreNoise:
        """Return the noise of a release in the score, the smoothing of a computed minimiser included."""
        after = widest_smoothing(cast(ObjectiveRelease, release))
        return _objective_noise(query, person_loss, rate=release.noise_rate, sd=release.noise_sd, after=after)


@final
class _Output(PointMechanism):
    """Noise on the minimiser."""

    words = "output perturbation"

    def query_of(self, spec: LossSpec, options: OutputPerturbation, site: SiteRecords) -> OutputQuery:
        """Return the query to a site."""
        request = site.request
        query = spec.ask(
            epsilon=request.epsilon,
            records=site.records,
            share=options.share or Fraction(0),
            replicate=request.replicate,
            sites=site.among,
        )
        return choose_output(
            query,
            spec.person_loss(query.model),
            spec.side(query.model),
            records=site.records,
            delta=request.delta,
            relation=spec.study.relation,
        )

    def planned_noise(self, spec: LossSpec, query: OutputQuery, site: SiteRecords) -> tuple[ScoreNoise, float | None]:
        """Return the noise that a site's release will have, and that of the Hessian where it is asked for."""
        person_loss, relation = spec.person_loss(query.model), spec.study.relation
        found = perturbation.calibrate_output(query, person_loss, records=site.most, relation=relation)
        hessian_sd = None if found.hessian is None else found.hessian.noise_sd
        return _output_noise(query, person_loss, rate=float(found.noise_rate), sd=float(found.noise_sd)), hessian_sd

    def noise_of(self, query: PointQuery, release: PointRelease, person_loss: PersonLoss) -> ScoreNoise:
        """Return the noise of a release in the score."""
        return _output_noise(query, person_loss, rate=release.noise_rate, sd=release.noise_sd)


@final
class _Exponential(PointMechanism):
    """A sample."""

    words = "exponential sampling"

    @property
    def releases_hessian(self) -> bool:
        """No."""
        return False

    def is_normal(self, query: PointQuery) -> bool:  # noqa: ARG002
        """Return no: delta is the probability that no proposal is accepted."""
        return False

    def query_of(self, spec: LossSpec, options: ExponentialMechanism, site: SiteRecords) -> ExponentialQuery:  # noqa: ARG002
        """Return the query to a site, for its largest number of people."""
        request = site.request
        query = spec.ask(
            epsilon=request.epsilon,
            records=site.most,
            share=Fraction(0),
            replicate=request.replicate,
            sites=site.among,
        )
        person_loss, side = spec.person_loss(query.model), spec.side(query.model)
        return choose_exponential(query, person_loss, side, records=site.most, delta=request.delta)

    def planned_noise(
        self, spec: LossSpec, query: ExponentialQuery, site: SiteRecords
    ) -> tuple[ScoreNoise, float | None]:
        """Return the noise that a site's release will have; there is no Hessian."""
        sampled = exponential.calibrate(query, spec.person_loss(query.model), records=site.most)
        return Tempered(temperature=float(sampled.temperature), ridge=float(query.ridge)), None

    def noise_of(self, query: PointQuery, release: PointRelease, person_loss: PersonLoss) -> ScoreNoise:  # noqa: ARG002
        """Return the noise of a release in the score."""
        return Tempered(temperature=cast(ExponentialRelease, release).temperature, ridge=float(query.ridge))


_OBJECTIVE, _OUTPUT, _EXPONENTIAL = _Objective(), _Output(), _Exponential()

_BY_OPTIONS: Final[Mapping[type[MechanismOptions], PointMechanism]] = {
    ObjectivePerturbation: _OBJECTIVE,
    OutputPerturbation: _OUTPUT,
    ExponentialMechanism: _EXPONENTIAL,
}

_BY_QUERY: Final[Mapping[type[PointQuery], PointMechanism]] = {
    ObjectiveQuery: _OBJECTIVE,
    OutputQuery: _OUTPUT,
    ExponentialQuery: _EXPONENTIAL,
}


def mechanism_of(options: PointOptions) -> PointMechanism:
    """Return the mechanism that options are of."""
    return _BY_OPTIONS[type(options)]


def mechanism_asked(query: PointQuery) -> PointMechanism:
    """Return the mechanism that answers a query."""
    return _BY_QUERY[type(query)]


def settled(options: PointOptions, share: Fraction) -> PointOptions:
    """Return options with a share, where there is one."""
    changed: Any = options
    if not mechanism_of(options).releases_hessian or changed.share == share:
        return options
    return cast(PointOptions, replace(cast(WithHessianShare, changed), se_share=float(share)))


def ask_objective(
    spec: LossSpec,
    mechanism: ObjectivePerturbation,
    request: FitRequest,
    *,
    records: int,
    most: int | None = None,
    among: Sequence[Asked] = (),
) -> ObjectiveQuery:
    """Return the query of a fit by objective perturbation: kind of noise, ridge and share for smoothing settled.

    Noise is normal where delta makes that the smaller one. ``records`` count; ``most`` are all people of the site, as
    many where nothing else is said; ``among`` are all sites that are asked, none for this one alone.
    """
    query = spec.ask(
        epsilon=request.epsilon,
        records=records,
        share=mechanism.share or Fraction(0),
        replicate=request.replicate,
        sites=among,
    )
    person_loss, relation = spec.person_loss(query.model), spec.study.relation
    if request.delta > 0:
        pure = variance_of(perturbation.perturbation_of(query, person_loss, relation=relation), person_loss)
        variance = float(np.mean(pure))
        query = with_normal_noise(query, person_loss, variance=variance, delta=request.delta, relation=relation)
    public = spec.public
    expected = ExpectedPeople(
        moments=spec.expected_moments(query, records=records),
        missed=MISTRUST if query.hessian_share else 1.0,
        apart=SCALE * (1.0 if public is None or public.fit is None else public.fit.unit),
    )
    return with_smoothing(query, person_loss, expected, records=records if most is None else most, relation=relation)


def noise_of(query: PointQuery, release: PointRelease, person_loss: PersonLoss) -> ScoreNoise:
    """Return the noise of a release in the score, the smoothing of a computed minimiser included."""
    return mechanism_asked(query).noise_of(query, release, person_loss)


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
