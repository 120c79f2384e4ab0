"""What a fit asks for: epsilon, delta and mechanism, checked before anything is charged, and the number of people.

The number of people is the public one, the declared one for a plan, or a noisy one that is released first.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import final

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import integer
from hdpstats.mechanisms.count.query import CountQuery, CountRelease
from hdpstats.mechanisms.options import Mechanism, ObjectivePerturbation, named
from hdpstats.mechanisms.registry import prepare
from hdpstats.models.model_spec import ModelSpec
from hdpstats.privacy.accountant import total
from hdpstats.privacy.budget import EPSILON_GRAIN, release_delta, release_epsilon, rounded_down
from hdpstats.privacy.relation import Relation
from hdpstats.records.query import Query, of_kind
from hdpstats.sites import Study
from hdpstats.sites.asking import Missing, ask


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FitRequest:
    """One fit that may spend ``epsilon`` and ``delta`` on a mechanism; ``replicate`` numbers independent draws.

    Without a mechanism the model chooses. ``epsilons`` are those of sites by name where they differ; ``epsilon`` is
    then the largest.
    """

    epsilon: Fraction
    delta: Fraction
    mechanism: Mechanism | None
    replicate: int
    epsilons: Mapping[str, Fraction] = field(default_factory=dict)

    def at(self, site: str) -> "FitRequest":
        """Return what one site is asked to spend."""
        return replace(self, epsilon=self.epsilons.get(site, self.epsilon), epsilons={})

    def check(self, sites: Collection[str]) -> None:
        """Raise ArgumentError unless epsilon is one number, or one for each site of the study."""
        if self.epsilons and set(self.epsilons) != set(sites):
            raise ArgumentError(
                f"epsilon must be a number, or a number for each of the study's sites: {', '.join(map(repr, sites))}",
                argument="epsilon",
            )


def fit_request(
    *,
    epsilon: object,
    delta: object,
    mechanism: object,
    se_share: float,
    replicate: object,
    allow_large_epsilon: bool,
) -> FitRequest:
    """Check the arguments of `fit`."""
    several = epsilon if isinstance(epsilon, Mapping) else {}
    amounts = {
        str(site): release_epsilon(value, allow_large_epsilon=allow_large_epsilon) for site, value in several.items()
    }
    amount = max(amounts.values()) if amounts else release_epsilon(epsilon, allow_large_epsilon=allow_large_epsilon)
    slack = release_delta(delta)
    options, with_hessian = named(mechanism), ObjectivePerturbation(se_share=se_share)
    plain = options is None or options == ObjectivePerturbation()
    if with_hessian.share and not plain:
        raise ArgumentError(
            "se_share must be given once, to fit or to an ObjectivePerturbation; no other mechanism takes it",
            argument="se_share",
        )
    return FitRequest(
        epsilon=amount,
        delta=slack,
        mechanism=with_hessian if with_hessian.share else options,
        replicate=integer(replicate, name="replicate", lower=1, upper=10**9),
        epsilons=amounts,
    )


def epsilons_of(epsilon: float | Iterable[float]) -> list[Fraction]:
    """Check the values that `plan` is asked for."""
    values = list(epsilon) if isinstance(epsilon, Iterable) else [epsilon]
    if not values:
        raise ArgumentError("epsilon must name at least one value to plan for", argument="epsilon")
    return [release_epsilon(value, allow_large_epsilon=True) for value in values]


def people_of(study: Study, n: object) -> int:
    """Return the number of private people to plan for: the study's, where none is named."""
    if n is not None:
        return integer(n, name="n", lower=1, upper=10**12)
    if study.records is None:
        raise ArgumentError("n must be given, the number of private records: the study has none", argument="n")
    return study.records


SHARE = Fraction(1, 50)
"""Part of a fit's epsilon that pays for the number of people: a standard deviation of 71 people at epsilon 1.

The number sets scales (radius, ridge, the curvature to expect), on which an estimate depends smoothly, so that a
relative error of it is about one of the standard errors.
"""

ONLY = "site"
"""What a site is called where it does not matter which one it is."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SiteRecords:
    """A site's number of people, the release of that number where there is one, and what is left of the request."""

    records: int
    count: CountRelease | None
    request: FitRequest

    @property
    def records_sd(self) -> float:
        """The standard deviation of the noise in the number; 0 where it is public."""
        return 0.0 if self.count is None else self.count.noise_sd


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RecordCounts:
    """The number of people at each site, and the sites that did not answer."""

    sites: Mapping[str, SiteRecords]
    missing: tuple[Missing, ...]

    def alone(self, contributing: Collection[str]) -> dict[str, CountRelease]:
        """Return the numbers that were released by sites which are not among those that contribute."""
        counts = {name: each.count for name, each in self.sites.items() if name not in contributing}
        return {name: count for name, count in counts.items() if count is not None}


def left_for_fit(epsilon: Fraction, relation: Relation) -> Fraction:
    """Return what is left of an epsilon once the number of people is paid for, where it must be.

    >>> left_for_fit(Fraction(1), Relation.ADD_OR_REMOVE_ONE), left_for_fit(Fraction(1), Relation.REPLACE_ONE)
    (Fraction(49, 50), Fraction(1, 1))
    """
    if relation is Relation.REPLACE_ONE:
        return epsilon
    return epsilon - rounded_down(epsilon * SHARE, EPSILON_GRAIN)


def planned_records(spec: ModelSpec, request: FitRequest, people: Mapping[str, int]) -> dict[str, SiteRecords]:
    """Return numbers of people to plan a fit with, and what is left of the request once they are paid for."""
    found = {}
    for name, records in people.items():
        own = request.at(name)
        left = replace(own, epsilon=left_for_fit(own.epsilon, spec.study.relation))
        found[name] = SiteRecords(records=records, count=None, request=left)
    return found


def record_counts(spec: ModelSpec, request: FitRequest, first_query: Callable[[SiteRecords], Query]) -> RecordCounts:
    """Return the number of people of each site, released first where it is protected.

    ``first_query`` returns the first query of the fit to a site. It is tried with the declared numbers, so that a fit
    that no proof covers, or that could not be paid, is refused before a number is released. Fits of one epsilon to the
    same people share a number: the same question is answered once.
    """
    study = spec.study
    planned = planned_records(spec, request, {name: site.records for name, site in study.sites.items()})
    if study.relation is Relation.REPLACE_ONE:
        return RecordCounts(sites=planned, missing=())
    queries = {}
    for name, site in planned.items():
        prepared = prepare(first_query(site), spec.site_facts(site.records))
        queries[name] = CountQuery(
            epsilon=request.at(name).epsilon - site.request.epsilon,
            ahead=(total(prepared.events), *prepared.ahead),
            schema_sha256=study.schema.sha256,
            replicate=request.replicate,
        )
    answered = ask(study, queries, round=0)
    counts = {name: of_kind(release, CountRelease) for name, release in answered.releases.items()}
    released = {name: replace(planned[name], records=count.count, count=count) for name, count in counts.items()}
    return RecordCounts(sites=released, missing=answered.missing)
