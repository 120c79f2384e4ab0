"""A family of distributions on a study: arguments checked, queries asked, answers read."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, final

import numpy as np

from hdpstats._base.errors import ArgumentError, FormulaError, MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice, real
from hdpstats.formulas import compile_design
from hdpstats.formulas.compiler import without_roles
from hdpstats.inference.sandwich import PredictedErrors
from hdpstats.losses.families import FAMILIES, Family, Interval
from hdpstats.mechanisms.base import DistributionMethod, DistributionTask
from hdpstats.mechanisms.registry import entry_of
from hdpstats.mechanisms.statistics.estimate import inside, likelihood, projected
from hdpstats.mechanisms.statistics.site import family_of
from hdpstats.models.model_spec import ModelSpec
from hdpstats.models.points import Prediction
from hdpstats.models.private_result import Contributions, answers_to, private_result
from hdpstats.models.request import FitRequest
from hdpstats.models.site_records import SiteRecords, planned_records, record_counts
from hdpstats.records import codec
from hdpstats.records.estimate import Estimate
from hdpstats.records.model import QueryModel
from hdpstats.records.query import MechanismOptions, Query
from hdpstats.results import ModelFacts, Result
from hdpstats.sites import Study
from hdpstats.sites.asking import ask
from hdpstats.sites.study import checked_study

AT_PUBLIC = "Predicted for noisy statistics at the public rows' parameters."
AT_MIDDLE = "Without 25 public rows the prediction, for noisy statistics, is at the middle of the ranges."

FEWEST_PUBLIC = 25


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DistributionSpec(ModelSpec):
    """A family of distributions of one column: everything here is public.

    Attributes
    ----------
    study : Study
        The data.
    formula, column : str
        ``column ~ 1``, and the column.
    family : Family
        The family, between the column's declared bounds.
    ranges : tuple of (float, float)
        The declared interval of each parameter.
    """

    study: Study
    formula: str
    column: str
    family: Family
    ranges: tuple[Interval, ...]

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return self.family.parameters

    @property
    def needs(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    @property
    def assumption(self) -> str:
        """What predicted errors rest on, in words."""
        return AT_MIDDLE if self.public_estimate is None else AT_PUBLIC

    @property
    def public(self) -> FloatArray | None:
        """The public rows' numbers (m,), as they are; None without public rows of the column."""
        table = self.study.public
        if table is None or self.column not in table.names:
            return None
        return table.raw([self.column]).numeric[self.column]

    @property
    def compares(self) -> bool:
        """Whether there are 25 public rows, all of them numbers that the family has."""
        x = self.public
        return x is not None and len(x) >= FEWEST_PUBLIC and self._has(x)

    def _has(self, x: FloatArray) -> bool:
        """Return whether numbers (m,) are all such as the family has."""
        least = self.family.least
        return bool((x > least).all() if self.family.exceeds else (x >= least).all())

    @property
    def public_estimate(self) -> Estimate | None:
        """Maximum likelihood from public rows, clipped as private ones are; None where there are fewer than 25."""
        x = self.public
        if x is None or len(x) < FEWEST_PUBLIC:
            return None
        return likelihood(self.family, np.clip(x, self.family.lower, self.family.upper), label="public, clipped")

    @property
    def guess(self) -> FloatArray:
        """Parameters to plan with: the public rows', else the middle of the ranges."""
        found = self.public_estimate
        middle = np.array(self.ranges, dtype=np.float64).mean(axis=1)
        return middle if found is None else projected(found.values, self.ranges)

    def task(self, site: SiteRecords, *, people: int) -> DistributionTask:
        """Return what a site is asked for, when ``people`` are at all sites together."""
        return DistributionTask(
            family=self.family,
            column=self.column,
            ranges=self.ranges,
            guess=self.guess,
            public=0 if self.public is None or self.public_estimate is None else len(self.public),
            unit=self.study.unit,
            records=site.records,
            people=people,
            epsilon=site.request.epsilon,
            schema_sha256=self.study.schema.sha256,
            replicate=site.request.replicate,
        )

    def facts(
        self,
        method: str,
        *,
        records: int | None,
        public: int | None = None,  # noqa: ARG002
        model: QueryModel | None = None,  # noqa: ARG002
    ) -> ModelFacts:
        """Return the public facts of a fit."""
        x = self.public
        return ModelFacts(
            model="Distribution",
            formula=self.formula,
            response=self.column,
            method=f"{method}; {self.family.name} distribution",
            records=records,
            public_rows=None if x is None else len(x),
            weights=None,
            offset=None,
            loss=None,
            exponentiated="exponential",
            family=self.family.name,
        )

    def likelihood(self) -> tuple[Estimate, int]:
        """Return maximum likelihood from the public rows as they are, not clipped."""
        x, family = self.public, self.family
        if x is None or not len(x):
            message = "fit_public needs public rows with the column; give the study public="
            raise ArgumentError(message, argument="public")
        if not self._has(x):
            raise ArgumentError(
                f"public rows hold values that a {family.name} distribution does not have", argument="public"
            )
        return likelihood(family, x, label="maximum likelihood"), len(x)


def open_distribution(formula: str, data: object, *, family: object, ranges: object) -> DistributionSpec:
    """Check the arguments against the schema."""
    study = checked_study(data)
    design = without_roles(compile_design(formula, study.schema))
    if design.names != ("Intercept",):
        raise FormulaError(
            f"a family describes one column: write {design.response} ~ 1, without covariates; hdpf.linear, hdpf.logit "
            "and hdpf.mestimate take them"
        )
    name = choice(family, name="family", options=FAMILIES)
    distribution = family_of(name, design.response, study.schema)
    return DistributionSpec(
        study=study, formula=formula, column=design.response, family=distribution, ranges=_ranges(distribution, ranges)
    )


def _ranges(family: Family, given: object) -> tuple[Interval, ...]:
    """Return the interval of each parameter: the declared one, else what follows from the column's bounds."""
    declared = {} if given is None else given
    if not isinstance(declared, Mapping) or not set(declared) <= set(family.parameters):
        raise ArgumentError(
            f"ranges must be a dictionary from {', '.join(map(repr, family.parameters))} to pairs (lower, upper), "
            f"not {given!r}",
            argument="ranges",
        )
    known = zip(family.parameters, family.ranges(), strict=True)
    return tuple(_interval(family, name, declared.get(name, default)) for name, default in known)


def _interval(family: Family, name: str, pair: object) -> Interval:
    if pair is None:
        raise ArgumentError(
            f"ranges must have an interval for {name!r}, such as ranges={{{name!r}: (0.1, 10)}}: bounds of the column "
            f"do not limit the {name} of a {family.name} distribution, and nothing is learned from private rows",
            argument="ranges",
        )
    try:
        low, high = (real(value, name=f"ranges[{name!r}]", lower=-1e12, upper=1e12) for value in pair)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise ArgumentError(
            f"ranges[{name!r}] must be a pair of numbers (lower, upper), not {pair!r}", argument="ranges"
        ) from None
    free = family.parameters[0] == "mean" and name == "mean" and family.name == "normal"
    positive = not free and name not in ("probability", "mean")
    if not low < high or (positive and low <= 0) or (not free and low < 0) or (name == "probability" and high > 1):
        raise ArgumentError(
            f"ranges[{name!r}] must increase and hold values that a {name} can have, not {pair!r}", argument="ranges"
        )
    return low, high


def fit_distribution(model: DistributionSpec, mechanism: MechanismOptions, request: FitRequest) -> Result:
    """Ask every site for noisy statistics, or for blocks, and read the answers."""
    method = method_of(mechanism)
    request = replace(request, delta=Fraction(0))  # whatever was offered: these mechanisms are pure
    for site in model.study.sites.values():  # each would refuse for itself, when others have been charged
        method.check(site.terms.row_order, model.study.unit)

    def query_of(site: SiteRecords, people: int) -> Query:
        return method.ask(mechanism, model.task(site, people=people))

    whole = sum(site.records for site in model.study.sites.values())
    counts = record_counts(model, request, lambda site: query_of(site, whole))
    people = sum(site.records for site in counts.sites.values())
    queries = {name: query_of(site, people) for name, site in counts.sites.items()}
    answers = answers_to(queries, ask(model.study, queries), counts, entry_of(mechanism).releases[0])
    return read_distribution(model, mechanism, request, answers)


def method_of(mechanism: MechanismOptions) -> DistributionMethod:
    """Return how a mechanism fits a distribution."""
    method = entry_of(mechanism).distribution
    if method is None:
        raise MechanismError("this mechanism does not fit distributions")
    return method


def predict_distribution(
    model: DistributionSpec, mechanism: MechanismOptions, request: FitRequest, people: Mapping[str, int]
) -> Prediction:
    """Return what a fit by a mechanism whose errors are known beforehand would report."""
    sites = planned_records(model, request, people)
    method = method_of(mechanism)
    place = inside(model.guess, model.ranges, records=sum(people.values()))
    if method.predicted is not None:
        parts = method.predicted(
            model.family,
            place,
            records=[site.records for site in sites.values()],
            epsilons=[float(site.request.epsilon) for site in sites.values()],
            counts_sd=[site.records_sd for site in sites.values()],
        )
    else:
        parts = _as_expected(model, mechanism, sites, place)
    sampling, privacy = (np.sqrt(np.diag(part)) for part in parts)
    errors = PredictedErrors(
        reported=np.hypot(sampling, privacy),
        sampling=sampling,
        privacy=privacy,
        public=None if model.public_only is None else np.sqrt(np.diag(model.public_only.sampling)),
    )
    return Prediction(mechanism=mechanism, errors=errors, reported=True, sites=sites)


def _as_expected(
    model: DistributionSpec, mechanism: MechanismOptions, sites: Mapping[str, SiteRecords], place: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the covariances that are read from the releases of sites as they would be without noise."""
    method, whole = method_of(mechanism), sum(site.records for site in sites.values())
    if method.expected is None:
        raise MechanismError("the errors of this mechanism are not known beforehand")
    for site in model.study.sites.values():
        method.check(site.terms.row_order, model.study.unit)
    queries = [method.ask(mechanism, model.task(site, people=whole)) for site in sites.values()]
    orders = [each.terms.row_order for each in model.study.sites.values()] or ["arbitrary"]
    releases = [
        method.expected(query, place, replace(model.site_facts(site.most), row_order=orders[0]))
        for query, site in zip(queries, sites.values(), strict=True)
    ]
    known = [(site.records, site.records_sd) for site in sites.values()]
    sha256 = codec.sha256([each.sha256 for each in releases])
    found = method.read(model.family, queries, releases, people=known, ranges=model.ranges, sha256=sha256)
    return found.private_only.sampling, found.private_only.privacy


def read_distribution(
    model: DistributionSpec, mechanism: MechanismOptions, request: FitRequest, answers: Contributions[Any, Any]
) -> Result:
    """Return the result of the sites' releases: post-processing of released and public numbers."""
    method, given = method_of(mechanism), answers.given.values()
    releases = [each.release for each in given]
    people = [(each.people.records, each.people.records_sd) for each in given]
    sha256 = releases[0].sha256 if len(releases) == 1 else codec.sha256([each.sha256 for each in releases])
    queries = [each.query for each in given]
    found = method.read(model.family, queries, releases, people=people, ranges=model.ranges, sha256=sha256)
    facts = model.facts(method.words(releases), records=sum(number for number, _ in people))
    return private_result(model, request, answers, facts=facts, found=found)
