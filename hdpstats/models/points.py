"""Fits whose coefficients are released by one query: what is asked, the noise, predicted errors, the result."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final, cast, final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.families.base import PersonLoss
from hdpstats.families.regression.public import FEWEST_ROWS, WhitenedPublic
from hdpstats.inference.combination import ReleasedPoint
from hdpstats.inference.information import (
    InObjective,
    OnMinimiser,
    OverPublicPeople,
    PublicInformation,
    ScoreNoise,
    Smoothed,
    Tempered,
    chance_of_clear,
)
from hdpstats.inference.pooling import SCALE
from hdpstats.inference.sandwich import (
    PlannedPoint,
    PredictedCovariance,
    PredictedErrors,
    averaged,
    of_point,
    planned_covariance,
    predicted_errors,
)
from hdpstats.mechanisms.count import CountRelease
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
from hdpstats.models.estimates import as_continuous, estimates, has_steps, is_flat, is_plain, tied_quantile
from hdpstats.models.model_spec import LossSpec
from hdpstats.models.own_description import averaged_variables
from hdpstats.models.private_result import Contribution, Contributions, answers_to, private_result
from hdpstats.models.request import FitRequest
from hdpstats.models.site_records import SiteRecords, planned_records, record_counts
from hdpstats.noise.distributions import NoiseDistribution, NormalDistribution
from hdpstats.noise.knorm import BallNoise
from hdpstats.privacy.budget import total
from hdpstats.privacy.sensitivity import BallNorm, Norm
from hdpstats.public.moments import PublicSide
from hdpstats.raking.information import raked_information
from hdpstats.raking.posterior import redrawn
from hdpstats.records.limits import MOST_WITH_HESSIAN
from hdpstats.records.query import MechanismOptions, PointQuery, PointRelease
from hdpstats.results import Result, RowWeights
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

    ``described`` says whether errors are predicted for people as they are described.
    ``refusal`` says why a fit is refused that would report none though they are wanted, ``risk`` what may give NaN
    yet; ``sites`` is what is known of each site's people before; ``unlike`` (p,) are standard
    deviations of what is not reported: what private people who are unlike public ones may do to an estimate.
    """

    mechanism: MechanismOptions
    errors: PredictedErrors
    reported: bool
    described: bool = False
    refusal: str | None = None
    risk: str = ""
    sites: Mapping[str, SiteRecords] = field(default_factory=dict)
    unlike: FloatArray | None = None


SHARES: Final = tuple(Fraction(k, 20) for k in (1, 2, 3, 4, 6, 8, 10, 12, 14))
"""The shares of epsilon for a noisy Hessian among which a fit chooses."""

SPREADS: Final = (0.2, 0.3, 0.5, 0.7, 1.0)
"""What the smallest curvature of private people may be, over that of people who are spread evenly over the schema.

In 14 designs, six of them of Rotterdam's patients, it was .29 to .94 in 13; in one, with a skewed number of nodes that
was not made a logarithm, .03.
"""

DESCRIBED: Final = (0.5,)
"""The same over that of people who are spread as a description of the private ones says, each column by itself.

In 14 fits to Rotterdam's patients with descriptions of epsilon .5 and 2, with the number of nodes as it is among the
covariates of eight of them, it was .59 to .94.
"""

SKEWED: Final = 0.03
"""The least smallest curvature among those designs: a share is chosen for it too, where that is cheap."""

DESIGNS: Final = 14
"""`SKEWED` counts as one in so many."""

OPEN: Final = 12
"""Draws of what the noise leaves open of a description."""

LIKELY: Final = 0.6
"""How likely a fit that chooses the share must be to report standard errors, averaged over `SPREADS`."""

SURE: Final = 0.9
"""The same where a description tells how private people spread, averaged over `DESCRIBED`."""

MORE: Final = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0)
"""How many times the epsilon a refusal may name."""

HOPELESS: Final = 0.05
"""The chance, with people spread evenly over the schema, below which a share that was asked for is refused."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """What a fit would spend on standard errors, and whether it would report any: from public facts.

    Attributes
    ----------
    mechanism : PointMechanism
        The mechanism, its share settled.
    reported : bool
        Whether standard errors are to be expected.
    refusal : str or None
        Where standard errors are wanted and would be NaN, why: the fit is refused before it is charged.
    risk : str
        What may yet hide a noisy Hessian, in words; empty where it is not known, or nothing more can be known of it.
    """

    mechanism: PointMechanism
    reported: bool = True
    refusal: str | None = None
    risk: str = ""


People = Mapping[str, int] | Mapping[str, SiteRecords]
"""The numbers of people of sites as they are known before a fit, or what is known once they were asked for."""


def outlook(spec: LossSpec, mechanism: PointMechanism, request: FitRequest, people: People) -> Outlook:
    r"""Return the share of epsilon that a fit spends on a noisy Hessian, and whether it would report standard errors.

    Public rows that tell the curvature suffice: the share is 0 unless one was asked for. Elsewhere it is the one among
    `SHARES`, of those that are likely to give standard errors (`LIKELY`), with the least

    .. math:: \frac{1}{p} \sum_j \log v_j - 3 \log P,

    ``v_j`` being the predicted variance of a coefficient and ``P`` the chance that the Hessian stands clear of its
    noise, averaged over `SPREADS`, and over `SKEWED` with the weight of one in `DESIGNS`; where the request has a
    description, over `DESCRIBED` and what noise leaves open of it. Everything follows from public rows, from
    declarations, and from what was released before.
    """
    told = _told(spec)
    if request.share == 0 or told:
        return Outlook(mechanism=_settled(mechanism, request.share or Fraction(0)), reported=told)
    alone = _settled(mechanism, Fraction(0))
    query = next(_queries(spec, alone, request, people))[1]
    if isinstance(mechanism, ExponentialMechanism) or (spec.meat is None and not request.share):
        return Outlook(mechanism=alone, reported=False, refusal=_untold(spec))
    asked = _bought(spec, mechanism, request.share, request, people) if request.share else None
    if asked is not None and asked.chance((1.0,)) >= HOPELESS:
        return Outlook(mechanism=_settled(mechanism, asked.share), risk=_risk(spec, asked))
    best = _best(spec, mechanism, request, people) if query.dimension <= MOST_WITH_HESSIAN else None
    likely = best is not None and best.likely
    if asked is None and best is not None and likely:
        return Outlook(mechanism=_settled(mechanism, best.share), risk=_risk(spec, best))
    return Outlook(
        mechanism=_settled(mechanism, request.share or Fraction(0)),
        reported=False,
        refusal=_hidden(spec, request, best=best, likely=likely),
    )


def _told(spec: LossSpec) -> bool:
    """Return whether public rows tell the curvature, at the public fit at least."""
    public = spec.public
    if public is None or not public.known:
        return False
    return not public.located or not is_flat(public.moments(public.centre, records=1).H)


def _settled(mechanism: PointMechanism, share: Fraction) -> PointMechanism:
    """Return a mechanism with a share, where it takes one."""
    if isinstance(mechanism, ExponentialMechanism) or mechanism.share == share:
        return mechanism
    return replace(mechanism, se_share=float(share))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Bought:
    """What a share buys: the Hessian that is expected of all sites' people, its noise, and the coefficients' variances.

    ``H`` (B, D, D) are draws of it where a description of the private people tells it (``described``), else one matrix.
    """

    share: Fraction
    H: FloatArray
    noise_sd: float
    variances: FloatArray
    described: bool = False

    @property
    def likely(self) -> bool:
        """Whether a fit that chooses the share may expect standard errors."""
        return self.chance(DESCRIBED) >= SURE if self.described else self.chance(SPREADS) >= LIKELY

    def chance(self, spreads: Sequence[float]) -> float:
        """Return how likely the Hessian is to stand clear of its noise."""
        return float(np.mean([chance_of_clear(H, noise_sd=self.noise_sd, spreads=spreads) for H in self.H]))

    def times(self, k: float) -> "_Bought":
        """Return what the share would buy with ``k`` times the epsilon, about."""
        return replace(self, noise_sd=self.noise_sd / k)

    @property
    def loss(self) -> float:
        """What the chosen share makes least; infinite where standard errors are out of the question."""
        chance = self.chance(DESCRIBED if self.described else SPREADS)
        if not self.described:
            chance += (self.chance((SKEWED,)) - chance) / DESIGNS
        return float(np.mean(np.log(self.variances))) - 3.0 * math.log(chance) if chance > 0.0 else math.inf


def _best(spec: LossSpec, mechanism: PointMechanism, request: FitRequest, people: People) -> _Bought:
    """Return what the best share buys: of those that are likely to give standard errors, else of all."""
    found = [_bought(spec, mechanism, share, request, people) for share in SHARES]
    likely = [each for each in found if each.likely]
    return min(likely, key=lambda each: each.loss) if likely else max(found, key=lambda each: each.share)


def _queries(
    spec: LossSpec, mechanism: PointMechanism, request: FitRequest, people: People
) -> Iterator[tuple[SiteRecords, PointQuery]]:
    """Yield what is known of each site's people, and the query to it."""
    counted = {name: each for name, each in people.items() if isinstance(each, SiteRecords)}
    before = {name: each for name, each in people.items() if not isinstance(each, SiteRecords)}
    planned = planned_records(spec, request, before, averages=rests_on_averages(mechanism), expected=False)
    for site in (*planned.values(), *counted.values()):
        yield site, _query_of(spec, mechanism, site)


def _bought(spec: LossSpec, mechanism: PointMechanism, share: Fraction, request: FitRequest, people: People) -> _Bought:
    """Return what a share would buy. The sites' Hessians are read together where one is not clear by itself.

    Where some site's is expected to be flat, as that of a mean that is cut to the declared range, it buys nothing.
    """
    points, total, square, described = [], np.zeros(()), 0.0, True
    for site, query in _queries(spec, _settled(mechanism, share), request, people):
        noise, sd = _planned_noise(spec, query, site)
        H = spec.expected_moments(query, records=site.records, described=site.cohort).H
        if is_flat(H):
            return _Bought(share=share, H=H[None], noise_sd=sd or math.inf, variances=np.full(len(spec.terms), np.inf))
        inverse = np.linalg.inv(H)
        sampling = np.asarray((spec.meat or 1.0) * inverse, dtype=np.float64)
        points.append(PredictedCovariance(sampling=sampling, privacy=inverse @ noise.covariance(H) @ inverse))
        total = total + _possible(spec, query, site, H)
        square, described = square + (sd or 0.0) ** 2, described and site.cohort is not None
    T = spec.to_terms(query.model)
    variances = np.einsum("ij,jk,ik->i", T, averaged(points).covariance, T)
    return _Bought(share=share, H=total, noise_sd=math.sqrt(square), variances=variances, described=described)


def _possible(spec: LossSpec, query: PointQuery, site: SiteRecords, H: FloatArray) -> FloatArray:
    """Return what a site's Hessian may be (B, D, D), for what noise leaves open of a description; else ``H``."""
    if site.cohort is None:
        return H[None]
    may_be = redrawn(site.cohort, count=OPEN)
    return np.array([spec.expected_moments(query, records=site.records, described=each).H for each in may_be])


UNDESCRIBED: Final = (
    "a column in which private people spread little, for what the schema declares, would hide it and give NaN: "
    "fit(description=hdp.describe(...)) knows before the charge"
)


def _risk(spec: LossSpec, bought: _Bought) -> str:
    """Return what may yet hide a noisy Hessian, where a description could tell."""
    return "" if bought.described or averaged_variables(spec) is None else UNDESCRIBED


ALONE: Final = "se_share=0 asks for coefficients alone"


def _untold(spec: LossSpec) -> str:
    """Return why nothing that a fit could spend would give standard errors."""
    if spec.meat is None:
        return (
            f"the loss has no model that gives its curvature, and there are not {FEWEST_ROWS} complete public "
            f"rows with the outcome whose residuals vary. Give the study such rows; {ALONE}"
        )
    return (
        f"this mechanism releases no noisy Hessian, and there are not {FEWEST_ROWS} complete public rows that "
        f"tell the curvature. Use mechanism='objective', or give the study public rows; {ALONE}"
    )


def _hidden(spec: LossSpec, request: FitRequest, *, best: _Bought | None, likely: bool) -> str:
    """Return why no noisy Hessian would give standard errors, or not the one that was asked for."""
    p, few = len(spec.terms), f"there are not {FEWEST_ROWS} complete public rows that tell the curvature"
    if best is None:
        return f"{few}, and a noisy Hessian of {p} coefficients is too large. Take fewer terms; {ALONE}"
    share = f"with se_share={float(request.share):g}" if request.share else "at any share"
    said = (
        f"{few}, and the noisy Hessian of {p} coefficients that they then need would probably be hidden by its noise "
        f"at epsilon={float(request.epsilon):g} {share}. "
    )
    if likely:
        return f"{said}Use se_share={float(best.share):g} or 'auto'; {ALONE}"
    risky = f"se_share={float(best.share):g} tries it, and may report NaN; " if best.chance((1.0,)) >= HOPELESS else ""
    more = next((k for k in MORE if best.times(k).likely), MORE[-1])
    return (
        f"{said}It takes about {more:g} times the epsilon or the number of records, or fewer terms, public rows, or a "
        f"declared row_norm; {risky}{ALONE}"
    )


def fit_points(spec: LossSpec, mechanism: PointMechanism, request: FitRequest) -> Result:
    """Ask every site for coefficients by one query, made for its own number of people and its own epsilon.

    Raises
    ------
    ArgumentError
        If standard errors are wanted and would be NaN (`outlook`): before anything is charged, by the declared numbers
        of people, and where these are private once more by the numbers that were released, which stay charged.
    """
    found = outlook(spec, mechanism, request, {name: site.records for name, site in spec.study.sites.items()})
    if found.refusal is not None:
        raise ArgumentError(
            f"standard errors would be NaN, and nothing was charged: {found.refusal}", argument="se_share"
        )
    settled = found.mechanism

    def query_of(site: SiteRecords) -> PointQuery:
        return _query_of(spec, settled, site)

    counts = record_counts(spec, request, query_of, averages=rests_on_averages(settled))
    counted = [each.count for each in counts.sites.values() if each.count is not None]
    if counted:
        found = outlook(spec, mechanism, request, counts.sites)
        if found.refusal is not None:
            raise _refused_after(counted, found.refusal)
        settled = found.mechanism
    queries = {name: query_of(each) for name, each in counts.sites.items()}
    return read_points(spec, request, answers_to(queries, ask(spec.study, queries), counts, PointRelease))


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


def rests_on_averages(mechanism: PointMechanism) -> bool:
    """Return whether errors of a mechanism follow from averages of private people; not where a Hessian is asked for."""
    return isinstance(mechanism, ObjectivePerturbation | OutputPerturbation) and not mechanism.share


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


def _query_of(spec: LossSpec, mechanism: PointMechanism, site: SiteRecords) -> PointQuery:
    """Return the query to a site. Samples are certain to be accepted, for any number of complete rows."""
    request, records, share = site.request, site.records, Fraction(0)
    if isinstance(mechanism, ObjectivePerturbation):
        return ask_objective(spec, mechanism, request, records=records, most=site.most, among=site.among)
    if isinstance(mechanism, OutputPerturbation):
        share = mechanism.share or Fraction(0)
    else:
        records = site.most
    query = spec.ask(
        epsilon=request.epsilon, records=records, share=share, replicate=request.replicate, sites=site.among
    )
    person_loss, side = spec.person_loss(query.model), spec.side(query.model)
    if isinstance(mechanism, ExponentialMechanism):
        return choose_exponential(query, person_loss, side, records=records, delta=request.delta)
    relation = spec.study.relation
    return choose_output(query, person_loss, side, records=records, delta=request.delta, relation=relation)


def predict_points(
    spec: LossSpec, mechanism: PointMechanism, request: FitRequest, people: Mapping[str, int]
) -> Prediction:
    """Return what a fit by one query to each site would report, from the very queries and constants of a fit."""
    expected = outlook(spec, mechanism, request, people)
    settled = expected.mechanism
    points, planned, described = [], [], True
    sites = planned_records(spec, request, people, averages=rests_on_averages(settled))
    for site in sites.values():
        query = _query_of(spec, settled, site)
        side = spec.side(query.model) or spec.reference(query.model, site.cohort)
        noise, hessian_sd = _planned_noise(spec, query, site)
        known = _planned_information(side, site)
        described = described and site.cohort is not None
        points.append(of_point(side, noise=noise, records=site.records, known=known))
        if known is not None and hessian_sd is None and spec.public is not None and side.invented is None:
            planned.append(PlannedPoint(noise=noise, ridge=float(query.ridge), information=known))
    private = planned_covariance(planned, side.fit) if len(planned) == len(points) else averaged(points)
    weights, T = spec.allowance(query.model), spec.to_terms(query.model)
    whole = private.allowing(None if weights is None else weights.covariance)
    return Prediction(
        mechanism=settled,
        errors=predicted_errors(whole, side.fit, T=T),
        reported=expected.reported,
        described=described,
        refusal=expected.refusal,
        risk=expected.risk,
        sites=sites,
    )


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
    found = calibrate(cast("Any", query), person_loss, records=site.most, relation=relation)
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
    weights = spec.allowance(first.model)
    allowance = None if weights is None else weights.covariance
    found = estimates(parts, T=T, terms=spec.terms, meat=spec.meat, allowance=allowance)
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
    if weights is not None and not np.isnan(found.private_only.privacy).all():
        of_terms = T @ weights.covariance @ T.T
        facts = replace(facts, row_weights=RowWeights.of(weights.share, of_terms))
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
