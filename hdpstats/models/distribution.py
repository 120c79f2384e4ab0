"""Fits of a distribution's parameters: every site is asked once, and answers, or expected ones, are read together."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, final

import numpy as np

from hdpstats.families.distribution.spec import DistributionSpec
from hdpstats.inference.sandwich import PredictedErrors
from hdpstats.mechanisms.base import DistributionMethod, DistributionTask
from hdpstats.mechanisms.registry import MECHANISMS
from hdpstats.mechanisms.statistics.estimate import inside
from hdpstats.models.fit_mechanism import FitMechanism, Prediction
from hdpstats.models.private_result import answers_to, private_result
from hdpstats.models.request import FitRequest
from hdpstats.models.site_records import SiteRecords, planned_records, record_counts
from hdpstats.records import codec
from hdpstats.records.estimate import Estimates
from hdpstats.records.query import MechanismOptions, Query, Release
from hdpstats.results import Result
from hdpstats.sites.asking import ask


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DistributionFits(FitMechanism):
    """A mechanism that fits the parameters of a distribution.

    Attributes
    ----------
    options : type of MechanismOptions
        What users name it by.
    release : type of Release
        What a site answers.
    method : DistributionMethod
        How it asks, and reads.
    """

    options: type[MechanismOptions]
    release: type[Release]
    method: DistributionMethod

    def fit(self, spec: DistributionSpec, options: MechanismOptions, request: FitRequest) -> Result:
        """Ask every site for noisy statistics, or for blocks, and read the answers."""
        request = replace(request, delta=Fraction(0))  # whatever was offered: these mechanisms are pure
        self._check(spec)  # each site would refuse for itself, when others have been charged
        whole = sum(site.records for site in spec.study.sites.values())
        counts = record_counts(spec, request, lambda site: self._ask(spec, options, site, people=whole))
        people = sum(site.records for site in counts.sites.values())
        queries = {name: self._ask(spec, options, site, people=people) for name, site in counts.sites.items()}
        answers = answers_to(queries, ask(spec.study, queries), counts, self.release)
        given = answers.given.values()
        found = self._read(spec, [(each.query, each.release, each.people) for each in given])
        facts = spec.facts(
            self.method.words([each.release for each in given]), records=sum(each.people.records for each in given)
        )
        return private_result(spec, request, answers, facts=facts, found=found)

    def plan(
        self, spec: DistributionSpec, options: MechanismOptions, request: FitRequest, people: Mapping[str, int]
    ) -> Prediction:
        """Read what the sites are expected to release, at the public rows' parameters."""
        sites = planned_records(spec, request, people)
        self._check(spec)
        place = inside(spec.guess, spec.ranges, records=sum(people.values()))
        whole = sum(site.records for site in sites.values())
        orders = [each.terms.row_order for each in spec.study.sites.values()] or ["arbitrary"]
        expected: list[tuple[Query, Release, SiteRecords]] = []
        for site in sites.values():
            query = self._ask(spec, options, site, people=whole)
            site_facts = replace(spec.site_facts(site.records), row_order=orders[0])
            expected.append((query, self.method.expected(query, place, site_facts), site))
        private = self._read(spec, expected).private_only
        sampling, privacy = (np.sqrt(np.diag(part)) for part in (private.sampling, private.privacy))
        errors = PredictedErrors(
            reported=np.hypot(sampling, privacy),
            sampling=sampling,
            privacy=privacy,
            public=None if spec.public_only is None else np.sqrt(np.diag(spec.public_only.sampling)),
        )
        return Prediction(mechanism=options, errors=errors, reported=True, sites=sites)

    def _check(self, spec: DistributionSpec) -> None:
        """Refuse a study of which some site has people that no proof covers."""
        for site in spec.study.sites.values():
            self.method.check(site.terms.row_order, spec.study.unit)

    def _ask(self, spec: DistributionSpec, options: MechanismOptions, site: SiteRecords, *, people: int) -> Query:
        """Return the query to a site, when so many ``people`` are at all sites together."""
        public = spec.public if spec.public_estimate is not None else None
        task = DistributionTask(
            family=spec.family,
            column=spec.column,
            ranges=spec.ranges,
            guess=spec.guess,
            public=0 if public is None else len(public),
            unit=spec.study.unit,
            records=site.records,
            people=people,
            epsilon=site.request.epsilon,
            schema_sha256=spec.study.schema.sha256,
            replicate=site.request.replicate,
        )
        return self.method.ask(options, task)

    def _read(self, spec: DistributionSpec, answers: list[tuple[Any, Any, SiteRecords]]) -> Estimates:
        """Return the estimates from the query and the release of each site: post-processing."""
        releases = [release for _, release, _ in answers]
        return self.method.read(
            spec.family,
            [query for query, _, _ in answers],
            releases,
            people=[(site.records, site.records_sd) for _, _, site in answers],
            ranges=spec.ranges,
            sha256=releases[0].sha256 if len(releases) == 1 else codec.sha256([each.sha256 for each in releases]),
        )


OF_DISTRIBUTIONS: Final[Mapping[type[MechanismOptions], FitMechanism]] = {
    entry.options: DistributionFits(options=entry.options, release=entry.releases[0], method=entry.distribution)
    for entry in MECHANISMS
    if entry.options is not None and entry.distribution is not None
}
"""What fits the parameters of a distribution, by the options that users give."""
