"""Fits of a model: to private records through their sites, and to public rows alone."""

from collections.abc import Mapping, Sequence

from hdpstats._base.errors import ArgumentError, MechanismError
from hdpstats.inference.combination import ReleasedPoint
from hdpstats.inference.objective import estimates
from hdpstats.mechanisms.count.query import CountRelease
from hdpstats.mechanisms.options import ClippedNewton, DistributionMechanism, PerturbedHistogram, PublicHessian
from hdpstats.models.clipped_newton import fit_clipped_newton
from hdpstats.models.contributions import NOTHING_ALONE, Contribution, purchase
from hdpstats.models.forecast import recommended
from hdpstats.models.histogram import fit_histogram
from hdpstats.models.model_spec import ModelSpec
from hdpstats.models.points import PointMechanism, ask_point, method_of, noise_of
from hdpstats.models.public_hessian import fit_public_hessian
from hdpstats.models.record_counts import reckon
from hdpstats.models.request import FitRequest
from hdpstats.records.point import PointQuery, PointRelease
from hdpstats.records.query import of_kind
from hdpstats.results import Result
from hdpstats.sites.asking import Missing
from hdpstats.sites.asking import ask as ask_sites


def fit_private(spec: ModelSpec, request: FitRequest) -> Result:
    """Ask the sites and read their answers. The only function here that spends."""
    study = spec.study
    if not study.sites:
        raise ArgumentError("fit needs private records; this study has none: use fit_public", argument="private")
    request.check(study.sites)
    mechanism = request.mechanism or recommended(spec, request)
    if isinstance(mechanism, DistributionMechanism):
        raise MechanismError(
            "this mechanism is for distributions, hdpf.distribution('x ~ 1', ...), not for regressions",
            available=("objective", "output", "clipped_newton", "exponential", "histogram"),
        )
    if isinstance(mechanism, ClippedNewton):
        return fit_clipped_newton(spec, mechanism, request)
    if isinstance(mechanism, PublicHessian):
        return fit_public_hessian(spec, mechanism, request)
    if isinstance(mechanism, PerturbedHistogram):
        return fit_histogram(spec, mechanism, request)
    return fit_points(spec, mechanism, request)


def fit_points(spec: ModelSpec, mechanism: PointMechanism, request: FitRequest) -> Result:
    """Buy coefficients of every site with one query each, made for its own number of people and its own epsilon."""

    def ask(left: FitRequest, records: int) -> PointQuery:
        return ask_point(spec, mechanism, left, records=records)

    reckoned = reckon(spec, request, ask=ask)
    queries = {name: ask(each.request, each.records) for name, each in reckoned.sites.items()}
    answered = ask_sites(spec.study, queries)
    points: dict[str, Point] = {}
    for name, release in answered.releases.items():
        point = of_kind(release, PointRelease)
        points[name] = Contribution(query=queries[name], release=point, count=reckoned.sites[name].count)
    missing = (*reckoned.missing, *answered.missing)
    return read(spec, request, points, missing=missing, alone=reckoned.alone(points))


Point = Contribution[PointQuery, PointRelease]


def read(
    spec: ModelSpec,
    request: FitRequest,
    points: Mapping[str, Point],
    *,
    missing: Sequence[Missing] = (),
    alone: Mapping[str, CountRelease] = NOTHING_ALONE,
) -> Result:
    """Return the result of the sites' releases: post-processing of released and public numbers."""
    first = next(iter(points.values())).query
    found = estimates(
        [_part(spec, point) for point in points.values()],
        T=spec.to_terms(first.model),
        terms=spec.terms,
        meat=spec.meat,
    ).moved(spec.origin)
    public = spec.side(first.model)
    facts = spec.facts(
        method_of(first, whitened=spec.public is not None, few=spec.study.public is not None, sites=len(points)),
        records=sum(_records(point) for point in points.values()),
        public=None if public is None else public.people,
        model=first.model,
    )
    return Result.of(
        facts=facts,
        schema=spec.study.schema,
        estimates=found,
        released=purchase(spec.study, request, points, missing, found=found, alone=alone),
        checked=spec.check(facts, found.chosen.values),
    )


def _records(point: Point) -> int:
    """Return a site's number of people, as far as is publicly known."""
    return point.release.records if point.count is None else point.count.count


def _part(spec: ModelSpec, point: Point) -> ReleasedPoint:
    person_loss = spec.person_loss(point.query.model)
    return ReleasedPoint(
        query=point.query,
        release=point.release,
        noise=noise_of(point.query, point.release, person_loss),
        public=spec.side(point.query.model),
        records=_records(point),
        curvature=float(person_loss.trace) / (2.0 * person_loss.dimension),
    )


def fit_likelihood(spec: ModelSpec) -> Result:
    """Return the maximum-likelihood fit to the public rows as they are."""
    estimate, people = spec.likelihood()
    facts = spec.facts(spec.classical, records=None, public=people, model=None)
    return Result(
        facts=facts,
        schema=spec.study.schema,
        estimate=estimate,
        checked=spec.check(facts, estimate.values),
    )
