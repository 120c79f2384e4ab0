"""Mechanisms that release the coefficients by one query to each site: what is asked, expected, and read."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, cast, final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.families.base import PersonLoss
from hdpstats.families.regression.public import WhitenedPublic
from hdpstats.families.spec import LossSpec
from hdpstats.families.stacked import OverlapSide
from hdpstats.inference.combination import ReleasedPoint
from hdpstats.inference.information import InObjective, OnMinimiser, ScoreNoise, Smoothed, Tempered
from hdpstats.inference.pooling import SCALE
from hdpstats.inference.sandwich import predicted_errors
from hdpstats.mechanisms.count import CountRelease
from hdpstats.mechanisms.exponential import ExponentialMechanism, ExponentialQuery, ExponentialRelease
from hdpstats.mechanisms.exponential import site as exponential
from hdpstats.mechanisms.exponential.request import choose_exponential
from hdpstats.mechanisms.minimiser import PointCalibration
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
from hdpstats.models.estimates import (
    as_continuous,
    estimates,
    has_steps,
    is_plain,
    open_residuals,
    planned,
    planned_people,
    tied_quantile,
    told_by_description,
    unknown_alone,
    with_residual_sds,
)
from hdpstats.models.fit_mechanism import FitMechanism, Prediction
from hdpstats.models.hessian_share import PointOptions, curvature_is_known, plan_standard_errors
from hdpstats.models.private_result import Contributions, answers_to, private_result
from hdpstats.models.request import FitRequest
from hdpstats.models.sandwich_share import chosen_part
from hdpstats.models.site_records import SiteRecords, planned_records, record_counts, taken_sd, taken_sds
from hdpstats.noise.distributions import NoiseDistribution, NormalDistribution
from hdpstats.noise.knorm import BallNoise
from hdpstats.privacy.budget import total
from hdpstats.privacy.sensitivity import BallNorm, Norm
from hdpstats.public.moments import PublicSide
from hdpstats.public.row_weights import Allowance
from hdpstats.public.sandwich import sandwich_side
from hdpstats.records.model import AnyModel
from hdpstats.records.query import PointQuery, PointRelease, stack
from hdpstats.records.sandwich import NoisySandwich, SandwichPart
from hdpstats.results import Result, RowWeights
from hdpstats.sites.asking import ask


class PointMechanism(FitMechanism):
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

    def rests_on_averages(self, options: PointOptions) -> bool:
        """Return whether errors follow from averages of private people; not where a Hessian is asked for."""
        return self.releases_hessian and not options.share

    def settled(self, options: PointOptions, share: Fraction) -> PointOptions:
        """Return options with a share, where there is one."""
        changed: Any = options
        if not self.releases_hessian or options.share == share:
            return options
        return cast(PointOptions, replace(changed, se_share=float(share)))

    def is_normal(self, query: PointQuery) -> bool:
        """Return whether the noise is normal."""
        return query.delta > 0

    @abstractmethod
    def ask(self, spec: LossSpec, options: Any, site: SiteRecords) -> PointQuery:
        """Return the query to a site. That samples are accepted is certain beforehand, for any number of people."""

    @abstractmethod
    def expected(self, spec: LossSpec, query: Any, site: SiteRecords) -> tuple[PointRelease, ScoreNoise]:
        """Return what a site is expected to release, but for the noise, and the distribution of that.

        Coefficients are the public ones. The noise is known from its constants; of smoothing a release tells it up to
        a factor only.
        """

    @abstractmethod
    def noise_of(self, query: PointQuery, release: PointRelease, person_loss: PersonLoss) -> ScoreNoise:
        """Return the noise of a release in the score, the smoothing of a computed minimiser included."""

    def fit(self, spec: LossSpec, options: PointOptions, request: FitRequest) -> Result:
        """Ask every site for coefficients, with a query made for its own number of people and its own epsilon.

        Raises
        ------
        ArgumentError
            If standard errors are wanted and would be NaN (`hdpstats.models.hessian_share`): before anything is
            charged, by the declared numbers of people, and where these are private once more by the numbers that were
            released, which stay charged.
        """
        found = plan_standard_errors(
            spec, self, options, request, {name: site.records for name, site in spec.study.sites.items()}
        )
        if found.refusal is not None:
            raise ArgumentError(
                f"standard errors would be NaN, and nothing was charged: {found.refusal}", argument="se_share"
            )
        chosen = found.options
        counts = record_counts(
            spec, request, lambda site: self.ask(spec, chosen, site), averages=self.rests_on_averages(chosen)
        )
        counted = [each.count for each in counts.sites.values() if each.count is not None]
        if counted:
            found = plan_standard_errors(spec, self, options, request, counts.sites)
            if found.refusal is not None:
                raise _refused_after(counted, found.refusal)
        queries = {name: self.ask(spec, found.options, each) for name, each in counts.sites.items()}
        return self.read(spec, request, answers_to(queries, ask(spec.study, queries), counts, PointRelease))

    def plan(self, spec: LossSpec, options: PointOptions, request: FitRequest, people: Mapping[str, int]) -> Prediction:
        """Read what the sites are expected to release, from the very queries and constants of a fit."""
        found = plan_standard_errors(spec, self, options, request, people)
        sites = planned_records(spec, request, people, averages=self.rests_on_averages(found.options))
        parts, sides, spent = [], [], Fraction(0)
        for site in sites.values():
            query = self.ask(spec, found.options, site)
            spent = max(spent, Fraction(0) if query.sandwich is None else query.sandwich.share)
            release, noise = self.expected(spec, query, site)
            informed = _informed(spec, site)
            public = informed.side(query.model)
            parts.append(_part(informed, query, release, noise, site, public=public))
            sides.append(public or informed.reference(query.model, site.cohort))
        parts = _sharing(spec, parts)
        T, weights = spec.to_terms(query.model), _weights(spec, parts)
        allowance = _allowance(parts, weights)
        alone, known = planned(parts, stand_ins=sides, meat=spec.meat)
        private = alone.allowing(allowance)
        given = request.description is not None
        described = all(site.cohort is not None for site in sites.values())
        told = told_by_description(known, described=described and spec.public is None) if given else (False, False)
        largest, taken = int(np.argmax([part.records for part in parts])), taken_sds(spec, sites.values())
        fit = sides[0].fit if spec.overlap is None else None  # weighted people are not pooled with public ones
        return Prediction(
            mechanism=found.options,
            errors=predicted_errors(private, fit, T=T, side=sides[0], weights=weights),
            reported=found.reported,
            described=described,
            refusal=found.refusal,
            risk=found.risk,
            sites=sites,
            for_sandwich=spent,
            unknown=unknown_alone(parts, T=T, meat=spec.meat),
            residual_sds=taken,
            people=planned_people(
                spec,
                alone,
                side=sides[largest],
                known=known[largest],
                noise=parts[largest].noise.covariance,
                T=T,
                fit=fit,
                weights=weights,
                allowance=allowance,
                told=told,
                residuals=open_residuals(taken, released=spent > 0),
            ),
        )

    def read(self, spec: LossSpec, request: FitRequest, points: Contributions[PointQuery, PointRelease]) -> Result:
        """Return the result of the sites' releases: post-processing of released and public numbers."""
        parts = []
        for each in points.given.values():
            noise = self.noise_of(each.query, each.release, spec.person_loss(each.query.model))
            informed = _informed(spec, each.people)
            side = informed.side(each.query.model)
            if isinstance(side, OverlapSide):
                side = side.followed_as(each.people.cohort)
            parts.append(_part(informed, each.query, each.release, noise, each.people, public=side))
        first, public = parts[0].query, parts[0].public
        T, weights = spec.to_terms(first.model), _weights(spec, parts)
        unlike = 0.0 if weights is None else weights.unlike
        allowance = _allowance(parts, weights)
        told = partial(estimates, T=T, terms=spec.terms, meat=spec.meat, allowance=allowance, unlike=unlike)
        found = told(_sharing(spec, parts))
        if spec.overlap is not None:
            found = found.alone
        if spec.overlap is not None and len(parts) > 1:
            found = found.with_sites_of(told(_sharing(spec, parts, share=0.0)))
        if isinstance(public, WhitenedPublic) and has_steps(public):
            covered = len(parts) == 1 and is_plain(public)
            found = tied_quantile(found, parts[0], public, T=T) if covered else as_continuous(found)
        taken = taken_sds(spec, [each.people for each in points.given.values()])
        found = with_residual_sds(found, taken).moved(spec.origin)
        facts = spec.facts(
            self._method(
                first,
                whitened=spec.public is not None,
                least=None if spec.study.public is None else spec.least_public_rows,
                sites=len(parts),
            ),
            records=sum(part.records for part in parts),
            public=None if public is None else public.seen_rows,
            model=first.model,
        )
        if weights is not None and not np.isnan(found.private_only.privacy).all():
            of_terms = T @ weights.covariance @ T.T
            facts = replace(facts, row_weights=RowWeights.of(weights.share, of_terms))
        return private_result(spec, request, points, facts=facts, found=found)

    def _method(self, query: PointQuery, *, whitened: bool, least: int | None, sites: int) -> str:
        """Return the method in words; of public rows ``least`` are needed, and there are fewer if not ``whitened``."""
        name = self.words + (" with normal noise" if self.is_normal(query) else "")
        name += f" at {sites} sites, combined by inverse variance" if sites > 1 else ""
        if query.hessian_share and query.model.several_rows is not None:
            name += ", with errors that hold for any correlation of a person's rows"
        if whitened:
            return f"{name}, whitened by public rows"
        return f"{name}, scaled by the schema" + (f" (fewer than {least} complete public rows)" if least else "")


def _part(
    spec: LossSpec,
    query: PointQuery,
    release: PointRelease,
    noise: ScoreNoise,
    site: SiteRecords,
    *,
    public: PublicSide | None,
) -> ReleasedPoint:
    """Return a site's release, or the expected one, with what it is read with."""
    person_loss = spec.person_loss(query.model)
    return ReleasedPoint(
        query=query,
        release=release,
        noise=noise,
        public=public,
        meat=spec.meat,
        records=site.records,
        records_sd=site.records_sd,
        cohort=site.cohort,
        curvature=float(person_loss.trace) / (2.0 * person_loss.dimension),
    )


def _sharing(spec: LossSpec, parts: Sequence[ReleasedPoint], *, share: float | None = None) -> list[ReleasedPoint]:
    """Return the parts with the share of the propensity model's people that all of them are, where people are weighted.

    A ``share`` takes its place: 0 where what sites have in common is not to count.
    """
    if spec.overlap is None:
        return list(parts)
    of_model = spec.overlap.propensity.fit.facts.records
    if share is None:
        share = min(sum(part.records for part in parts) / max(of_model, 1), 1.0) if of_model is not None else 1.0
    return [
        replace(part, public=part.public.sharing(share)) if isinstance(part.public, OverlapSide) else part
        for part in parts
    ]


def _weights(spec: LossSpec, parts: Sequence[ReleasedPoint]) -> Allowance | None:
    """Return what weights of people may do to an estimate, as far as is known of the people of each site."""
    return spec.allowance(parts[0].query.model, [(part.records, part.cohort) for part in parts])


def _allowance(parts: Sequence[ReleasedPoint], weights: Allowance | None) -> FloatArray | None:
    """Return the covariance (D, D) of an error that all sites share; None where there is none.

    It is what ``weights`` of rows may do to an estimate, and of people weighted by their chance of treatment what the
    noise of the propensity model does.
    """
    first = parts[0]
    allowance = None if weights is None else weights.covariance
    if not isinstance(first.public, OverlapSide):
        return allowance
    moved = first.public.of_propensity(np.mean([part.theta for part in parts], axis=0))
    return moved if allowance is None else allowance + moved


def _refused_after(counted: Sequence[CountRelease], refusal: str) -> ArgumentError:
    """Return the refusal of a fit of which nothing was charged but the numbers of people."""
    people, dearest = sum(each.count for each in counted), max(total(each.events).epsilon for each in counted)
    where = "" if len(counted) == 1 else " at a site"
    return ArgumentError(
        f"standard errors would be NaN, as about {people} people count. Their number stays charged (epsilon = "
        f"{float(dearest):g}{where}), and fits of the same epsilon to the same columns have it for free; nothing else "
        f"was charged: {refusal}",
        argument="se_share",
    )


def _expected(spec: LossSpec, query: PointQuery, site: SiteRecords, calibration: PointCalibration) -> PointRelease:
    """Return what a site would release but for the noise: the coefficients, and the Hessian where it is asked for."""
    hessian = None
    if calibration.hessian is not None:
        H = spec.expected_moments(query, records=site.records, described=site.cohort).H
        hessian = tuple(stack(H).tolist())
    sandwich, side = None, sandwich_side(_informed(spec, site).side(query.model))
    if calibration.sandwich is not None and query.sandwich is not None and side is not None:
        people, at = max(site.records, 1), calibration.sandwich
        _, cut = side.cut_moments(np.array(query.centre), query.sandwich)
        sandwich = NoisySandwich(
            hessian=tuple(stack(people * cut.H).tolist()),
            scores=tuple(stack(people * cut.J).tolist()),
            hessian_sd=at.curvature.noise_sd,
            scores_sd=at.scores.noise_sd,
        )
    return calibration.released(query.centre, hessian, sandwich)


def _asks_sandwich(
    spec: LossSpec, options: PointOptions, site: SiteRecords
) -> Callable[[AnyModel], SandwichPart | None] | None:
    """Return what is asked of private Hessians and squared scores in a geometry; None where nothing is.

    It is where public rows tell enough to read them, unless a share of 0 was asked for, or that nothing is described.
    """
    share = options.share
    if share == 0 or (share is None and not site.request.describe):
        return None
    if not (spec.releases_sandwich and curvature_is_known(spec)):
        return None

    def chosen(model: AnyModel) -> SandwichPart | None:
        side = sandwich_side(spec.side(model))
        return None if side is None else chosen_part(spec, side, site, model, share=share)

    return chosen


def _informed(spec: LossSpec, site: SiteRecords) -> LossSpec:
    """Return the model with what errors take for a site's residuals, where no public row tells it."""
    taken = taken_sd(spec, site)
    return spec if taken is None or taken.unknown else spec.with_residual_sd(taken.value)


@final
class Objective(PointMechanism):
    """Noise in the objective."""

    options = ObjectivePerturbation
    words = "objective perturbation"

    def ask(self, spec: LossSpec, options: ObjectivePerturbation, site: SiteRecords) -> ObjectiveQuery:
        """Return the query to a site."""
        return ask_objective(
            spec,
            options,
            site.request,
            records=site.records,
            most=site.most,
            among=site.among,
            sandwich=_asks_sandwich(spec, options, site),
        )

    def expected(
        self, spec: LossSpec, query: ObjectiveQuery, site: SiteRecords
    ) -> tuple[PointRelease, InObjective | Smoothed]:
        """Return what a site is expected to release, and the noise."""
        person_loss, relation = spec.person_loss(query.model), spec.study.relation
        found = perturbation.calibrate_objective(query, person_loss, records=site.most, relation=relation)
        after = smoothing_distribution(cast("BallNoise", found.noise), found.grid)
        release = _expected(spec, query, site, found)
        return release, _objective_noise(query, release, person_loss, after=after)

    def noise_of(self, query: PointQuery, release: PointRelease, person_loss: PersonLoss) -> ScoreNoise:
        """Return the noise of a release in the score, the smoothing of a computed minimiser included."""
        after = widest_smoothing(cast(ObjectiveRelease, release))
        return _objective_noise(query, release, person_loss, after=after)


@final
class Output(PointMechanism):
    """Noise on the minimiser."""

    options = OutputPerturbation
    words = "output perturbation"

    def ask(self, spec: LossSpec, options: OutputPerturbation, site: SiteRecords) -> OutputQuery:
        """Return the query to a site."""
        request = site.request
        sandwich = _asks_sandwich(spec, options, site)
        query = spec.ask(
            epsilon=request.epsilon,
            records=site.records,
            share=Fraction(0) if sandwich else options.share or Fraction(0),
            replicate=request.replicate,
            sites=site.among,
            sandwich=sandwich,
        )
        return choose_output(
            query,
            spec.person_loss(query.model),
            spec.side(query.model),
            records=site.records,
            delta=request.delta,
            relation=spec.study.relation,
        )

    def expected(self, spec: LossSpec, query: OutputQuery, site: SiteRecords) -> tuple[PointRelease, ScoreNoise]:
        """Return what a site is expected to release, and the noise."""
        person_loss, relation = spec.person_loss(query.model), spec.study.relation
        found = perturbation.calibrate_output(query, person_loss, records=site.most, relation=relation)
        release = _expected(spec, query, site, found)
        return release, self.noise_of(query, release, person_loss)

    def noise_of(self, query: PointQuery, release: PointRelease, person_loss: PersonLoss) -> ScoreNoise:
        """Return the noise of a release in the score."""
        return OnMinimiser(distribution=_distribution(BallNorm(), release, person_loss), ridge=float(query.ridge))


@final
class Exponential(PointMechanism):
    """A sample."""

    options = ExponentialMechanism
    words = "exponential sampling"

    @property
    def releases_hessian(self) -> bool:
        """No."""
        return False

    def is_normal(self, query: PointQuery) -> bool:  # noqa: ARG002
        """Return no: delta is the probability that no proposal is accepted."""
        return False

    def ask(self, spec: LossSpec, options: ExponentialMechanism, site: SiteRecords) -> ExponentialQuery:  # noqa: ARG002
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

    def expected(self, spec: LossSpec, query: ExponentialQuery, site: SiteRecords) -> tuple[PointRelease, ScoreNoise]:
        """Return what a site is expected to release, and the noise; there is no Hessian."""
        person_loss = spec.person_loss(query.model)
        release = exponential.calibrate(query, person_loss, records=site.most).released(query.centre)
        return release, self.noise_of(query, release, person_loss)

    def noise_of(self, query: PointQuery, release: PointRelease, person_loss: PersonLoss) -> ScoreNoise:  # noqa: ARG002
        """Return the noise of a release in the score."""
        return Tempered(
            temperature=cast(ExponentialRelease, release).temperature,
            ridge=float(query.ridge),
            dimension=query.dimension,
        )


def ask_objective(
    spec: LossSpec,
    mechanism: ObjectivePerturbation,
    request: FitRequest,
    *,
    records: int,
    most: int | None = None,
    among: Sequence[Asked] = (),
    sandwich: Callable[[AnyModel], SandwichPart | None] | None = None,
) -> ObjectiveQuery:
    """Return the query of a fit by objective perturbation: kind of noise, ridge and share for smoothing settled.

    Noise is normal where delta makes that the smaller one. ``records`` count; ``most`` are all people of the site, as
    many where nothing else is said; ``among`` are all sites that are asked, none for this one alone; ``sandwich`` says
    what is asked for standard errors in place of the mechanism's share for a noisy Hessian.
    """
    query = spec.ask(
        epsilon=request.epsilon,
        records=records,
        share=Fraction(0) if sandwich else mechanism.share or Fraction(0),
        replicate=request.replicate,
        sites=among,
        sandwich=sandwich,
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


def _objective_noise(
    query: PointQuery, release: PointRelease, person_loss: PersonLoss, *, after: NoiseDistribution | None
) -> InObjective | Smoothed:
    inside = InObjective(distribution=_distribution(person_loss.norm, release, person_loss))
    if after is None:
        return inside
    return Smoothed(inside=inside, after=OnMinimiser(distribution=after, ridge=float(query.ridge)))


def _distribution(norm: Norm, release: PointRelease, person_loss: PersonLoss) -> NoiseDistribution | NormalDistribution:
    """Return normal noise where its standard deviation is not 0, else pure noise of a rate."""
    if release.noise_sd > 0.0:
        return NormalDistribution(dimension=person_loss.dimension, sd=release.noise_sd)
    return NoiseDistribution(norm=norm, dimension=person_loss.dimension, rate=release.noise_rate)
