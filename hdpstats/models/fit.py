"""Fits of a model: to private records through the site, and to public rows alone."""

from hdpstats._base.errors import ArgumentError, MechanismError
from hdpstats.inference.objective import estimates
from hdpstats.inference.parts import Part
from hdpstats.mechanisms.options import FamilyMechanism, NoisyNewton, ObjectivePerturbation, PerturbedHistogram
from hdpstats.models.counting import reckon
from hdpstats.models.gradient import fit_gradient, recommended
from hdpstats.models.histogram import fit_histogram
from hdpstats.models.points import ask_point, method_of, noise_of
from hdpstats.models.request import FitRequest
from hdpstats.models.specification import Specification
from hdpstats.privacy.accountant import guarantee
from hdpstats.queries import CountRelease, PointQuery, PointRelease
from hdpstats.results import Result


def fit_private(spec: Specification, request: FitRequest) -> Result:
    """Ask the site and read its answer. The only function here that spends."""
    site = spec.study.site
    if site is None:
        raise ArgumentError("fit needs private records; this study has none: use fit_public", argument="private")
    mechanism = request.mechanism or recommended(spec, request) or ObjectivePerturbation()
    if isinstance(mechanism, FamilyMechanism):
        raise MechanismError(
            "this mechanism is for distributions, hdpf.family('x ~ 1', ...), not for regressions",
            available=("objective", "output", "gradient", "sampling", "histogram"),
        )
    if isinstance(mechanism, NoisyNewton):
        return fit_gradient(spec, site, mechanism, request)
    if isinstance(mechanism, PerturbedHistogram):
        return fit_histogram(spec, mechanism, request)

    def ask(left: FitRequest, records: int) -> PointQuery:
        return ask_point(spec, mechanism, left, records=records)

    reckoning = reckon(spec, site, request, ask=ask)
    query = ask(reckoning.request, reckoning.records)
    release = site.answer(query)
    if not isinstance(release, PointRelease):
        raise MechanismError("the site answered with a release of another kind")
    return read(spec, query, release, count=reckoning.count)


def read(spec: Specification, query: PointQuery, release: PointRelease, *, count: CountRelease | None = None) -> Result:
    """Return the result of a release: post-processing of released and public numbers.

    ``count`` is the noisy number of people, where it was bought.
    """
    records = release.records if count is None else count.count
    public = spec.side(query.model)
    contrast = spec.contrast(query.model)
    part = Part(
        query=query,
        release=release,
        noise=noise_of(query, release, contrast),
        public=public,
        records=records,
        curvature=float(contrast.trace) / (2.0 * contrast.dimension),
    )
    found = estimates([part], T=spec.to_terms(query.model), terms=spec.terms, meat=spec.meat).moved(spec.origin)
    facts = spec.facts(
        method_of(query, whitened=spec.public is not None, few=spec.study.public is not None),
        records=records,
        public=None if public is None else public.people,
        model=query.model,
    )
    return Result(
        facts=facts,
        schema=spec.study.schema,
        estimate=found.chosen,
        public_only=found.public_only,
        private_only=found.private_only,
        pooled=found.pooled,
        query=query,
        release=release,
        guarantee=guarantee(
            (*(() if count is None else count.events), *release.events),
            relation=spec.study.relation,
            most_rows=spec.study.most_rows,
        ),
        count=count,
        public_check=spec.check(facts, found.chosen.values),
    )


def fit_likelihood(spec: Specification) -> Result:
    """Return the maximum-likelihood fit to the public rows as they are."""
    estimate, people = spec.likelihood()
    facts = spec.facts(spec.classical, records=None, public=people, model=None)
    return Result(
        facts=facts,
        schema=spec.study.schema,
        estimate=estimate,
        public_only=None,
        private_only=None,
        pooled=None,
        query=None,
        release=None,
        guarantee=None,
        public_check=spec.check(facts, estimate.values),
    )
