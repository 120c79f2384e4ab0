"""How many private people a fit reckons with: the public number, the declared one, or one that it buys first."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

from hdpstats.mechanisms.count.query import CountQuery, CountRelease
from hdpstats.mechanisms.registry import prepare
from hdpstats.models.model_spec import ModelSpec
from hdpstats.models.request import FitRequest
from hdpstats.privacy.accountant import total
from hdpstats.privacy.budget import EPSILON_GRAIN, rounded_down
from hdpstats.privacy.relation import Relation
from hdpstats.records.query import Query, of_kind
from hdpstats.sites.asking import Missing
from hdpstats.sites.asking import ask as ask_sites

SHARE = Fraction(1, 50)
"""Part of a fit's epsilon that buys the number of people: a standard deviation of 71 people at epsilon 1.

The number sets scales (radius, ridge, the curvature to expect), on which an estimate depends smoothly, so that a
relative error of it is about one of the standard errors.
"""

ONLY = "site"
"""What a site is called where it does not matter which one it is."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Reckoning:
    """What a fit goes by at a site: how many people, the release that told it, and what is left of the request."""

    records: int
    count: CountRelease | None
    request: FitRequest


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Reckoned:
    """What a fit goes by at each site, and the sites that did not tell."""

    sites: Mapping[str, Reckoning]
    missing: tuple[Missing, ...]

    def alone(self, contributing: Collection[str]) -> dict[str, CountRelease]:
        """Return the numbers that were bought of sites which are not among those that contribute."""
        counts = {name: each.count for name, each in self.sites.items() if name not in contributing}
        return {name: count for name, count in counts.items() if count is not None}


def left_for_fit(epsilon: Fraction, relation: Relation) -> Fraction:
    """Return what is left of an epsilon once the number of people is bought, where it must be.

    >>> left_for_fit(Fraction(1), Relation.ADD_OR_REMOVE_ONE), left_for_fit(Fraction(1), Relation.REPLACE_ONE)
    (Fraction(49, 50), Fraction(1, 1))
    """
    if relation is Relation.REPLACE_ONE:
        return epsilon
    return epsilon - rounded_down(epsilon * SHARE, EPSILON_GRAIN)


def reckon(spec: ModelSpec, request: FitRequest, *, ask: Callable[[FitRequest, int], Query]) -> Reckoned:
    """Return how many people of each site a fit reckons with, and buy these numbers first where they are protected.

    ``ask`` returns the first query of the fit to a site, from what is left of the request there and the number of
    people. It is tried with the declared numbers, so that a fit that no proof covers, or that could not be paid, is
    refused before a number is bought. Fits of one epsilon to the same people share a number: the same question is
    answered once.
    """
    study = spec.study
    if study.relation is Relation.REPLACE_ONE:
        known = {
            name: Reckoning(records=site.records, count=None, request=request.at(name))
            for name, site in study.sites.items()
        }
        return Reckoned(sites=known, missing=())
    left, queries = {}, {}
    for name, site in study.sites.items():
        own = request.at(name)
        left[name] = replace(own, epsilon=left_for_fit(own.epsilon, study.relation))
        prepared = prepare(ask(left[name], site.records), spec.site_facts(site.records))
        queries[name] = CountQuery(
            epsilon=own.epsilon - left[name].epsilon,
            ahead=(total(prepared.events), *prepared.ahead),
            schema_sha256=study.schema.sha256,
            replicate=own.replicate,
        )
    answered = ask_sites(study, queries, round=0)
    bought = {}
    for name, release in answered.releases.items():
        count = of_kind(release, CountRelease)
        bought[name] = Reckoning(records=count.count, count=count, request=left[name])
    return Reckoned(sites=bought, missing=answered.missing)
