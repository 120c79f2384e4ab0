"""A family of distributions on a study: arguments checked, queries asked, answers read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, final

import numpy as np

from hdpstats._base import canonical
from hdpstats._base.errors import ArgumentError, FormulaError, MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice, real
from hdpstats.formulas import compile_design
from hdpstats.inference.sandwich import PredictedErrors
from hdpstats.losses.families import FAMILIES, Family, Interval
from hdpstats.mechanisms.count.query import CountRelease
from hdpstats.mechanisms.statistics.estimate import (
    from_blocks,
    from_statistics,
    inside,
    likelihood,
    predicted,
    projected,
)
from hdpstats.mechanisms.statistics.query import StatisticsQuery, StatisticsRelease, SufficientStatistics
from hdpstats.mechanisms.statistics.site import family_of
from hdpstats.mechanisms.subsample.query import SubsampleAggregate, SubsampleQuery, SubsampleRelease
from hdpstats.mechanisms.subsample.site import blocks_of_neighbours, check_order, optimal_blocks
from hdpstats.models.model_spec import ModelSpec, checked_study
from hdpstats.models.points import Prediction
from hdpstats.models.request import (
    Contribution,
    Contributions,
    FitRequest,
    count_sd,
    planned_records,
    private_result,
    record_counts,
)
from hdpstats.records.estimate import Estimate, Estimates
from hdpstats.records.model import QueryModel
from hdpstats.records.query import Release, of_kind
from hdpstats.results import ModelFacts, Result
from hdpstats.sites import Study
from hdpstats.sites.study import ask

AT_PUBLIC = "Predicted for noisy statistics at the public rows' parameters."
AT_MIDDLE = "Without 25 public rows the prediction, for noisy statistics, is at the middle of the ranges."

METHODS = {
    SufficientStatistics: "noisy sufficient statistics (Chen and Sung, algorithm 3)",
    SubsampleAggregate: "subsample and aggregate (Chen and Sung, algorithm 1)",
}
ROUNDS = 50
"""Of the search for the number of blocks, which decides how wide a window is, which decides the number."""

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
    def public_estimate(self) -> Estimate | None:
        """Maximum likelihood from public rows; None where there are fewer than 25."""
        x = self.public
        if x is None or len(x) < FEWEST_PUBLIC:
            return None
        return likelihood(self.family, np.clip(x, self.family.lower, self.family.upper), label="public only")

    @property
    def guess(self) -> FloatArray:
        """Parameters to plan with: the public rows', else the middle of the ranges."""
        found = self.public_estimate
        middle = np.array(self.ranges, dtype=np.float64).mean(axis=1)
        return middle if found is None else projected(found.values, self.ranges)

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
        if bool((x < family.least).any()) or (family.exceeds and bool((x <= family.least).any())):
            raise ArgumentError(
                f"public rows hold values that a {family.name} distribution does not have", argument="public"
            )
        return likelihood(family, x, label="maximum likelihood"), len(x)


def open_distribution(formula: str, data: object, *, family: object, ranges: object) -> DistributionSpec:
    """Check the arguments against the schema."""
    study = checked_study(data)
    design = compile_design(formula, study.schema)
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


def fit_distribution(
    model: DistributionSpec, mechanism: SufficientStatistics | SubsampleAggregate, request: FitRequest
) -> Result:
    """Ask every site for noisy statistics, or for blocks, and read the answers."""
    sites = model.study.sites
    request = replace(request, delta=Fraction(0))  # whatever was offered: both mechanisms are pure
    if isinstance(mechanism, SubsampleAggregate) and model.study.unit is None:
        for site in sites.values():  # each would refuse for itself, when others have been charged
            check_order(site.terms.row_order)
    whole = sum(site.records for site in sites.values())
    counts = record_counts(
        model, request, lambda site: question(model, mechanism, site.request, records=site.records, people=whole)
    )
    people = sum(site.records for site in counts.sites.values())
    queries = {
        name: question(model, mechanism, site.request, records=site.records, people=people)
        for name, site in counts.sites.items()
    }
    answered = ask(model.study, queries)
    given = {
        name: answer_to(queries[name], release, counts.sites[name].count) for name, release in answered.releases.items()
    }
    missing = (*counts.missing, *answered.missing)
    contributions = Contributions(given=given, missing=missing, alone=counts.alone(given))
    return read_distribution(model, request, contributions, method=METHODS[type(mechanism)])


def predict_statistics(
    model: DistributionSpec, mechanism: SufficientStatistics, request: FitRequest, people: Mapping[str, int]
) -> Prediction:
    """Return what a fit by noisy sufficient statistics would report."""
    public, sites = model.public_estimate, planned_records(model, request, people)
    place = inside(model.guess, model.ranges, records=sum(people.values()))
    parts = predicted(
        model.family,
        place,
        records=[site.records for site in sites.values()],
        epsilons=[float(site.request.epsilon) for site in sites.values()],
        counts_sd=[count_sd(request.at(name).epsilon - site.request.epsilon) for name, site in sites.items()],
    )
    sampling, privacy = (np.sqrt(np.diag(part)) for part in parts)
    errors = PredictedErrors(
        reported=np.hypot(sampling, privacy),
        sampling=sampling,
        privacy=privacy,
        public=None if public is None else np.sqrt(np.diag(public.sampling + public.privacy)),
    )
    return Prediction(mechanism=mechanism, errors=errors, reported=True)


Answer = Contribution[StatisticsQuery | SubsampleQuery, StatisticsRelease | SubsampleRelease]


def answer_to(query: StatisticsQuery | SubsampleQuery, release: Release, count: CountRelease | None) -> Answer:
    """Return a site's part in a fit, if its release answers the query; ``count`` is that of its complete rows."""
    found: StatisticsRelease | SubsampleRelease
    if isinstance(query, SubsampleQuery):
        found = of_kind(release, SubsampleRelease)
    else:
        found = of_kind(release, StatisticsRelease)
    return Contribution(query=query, release=found, count=count)


def question(
    model: DistributionSpec,
    mechanism: SufficientStatistics | SubsampleAggregate,
    request: FitRequest,
    *,
    records: int,
    people: int,
) -> StatisticsQuery | SubsampleQuery:
    """Return what a site of so many records is asked, when ``people`` are at all sites together."""
    if isinstance(mechanism, SubsampleAggregate):
        return question_of_blocks(model, mechanism, request, records=records, people=people)
    return StatisticsQuery(
        column=model.column,
        family=model.family.name,
        epsilon=request.epsilon,
        schema_sha256=model.study.schema.sha256,
        replicate=request.replicate,
    )


def question_of_blocks(
    model: DistributionSpec, options: SubsampleAggregate, request: FitRequest, *, records: int, people: int
) -> SubsampleQuery:
    """Return the query of a fit by blocks: on the ranges, or on a window around the public estimate."""
    by = "rows" if model.study.unit is None else "persons"
    public = model.public
    place = inside(model.guess, model.ranges, records=records)
    spreads = np.sqrt(np.diag(np.linalg.inv(model.family.information(place))))
    ranges = np.array(model.ranges, dtype=np.float64).T

    def box(blocks: int) -> FloatArray:
        if public is None or model.public_estimate is None or options.window is None:
            return ranges
        half = options.window * spreads * np.sqrt(blocks / records + 1.0 / len(public))
        return np.asarray(np.clip([place - half, place + half], ranges[0], ranges[1]))

    def best(blocks: int) -> int:
        lower, upper = box(blocks)
        epsilon = float(request.epsilon) / blocks_of_neighbours(by)
        return optimal_blocks(records, epsilon=epsilon, widths=upper - lower, spreads=spreads, parties=people / records)

    if options.blocks is not None and options.blocks > records:
        raise MechanismError(f"blocks must be at most {records}, the people at a site, not {options.blocks}")
    blocks = options.blocks or 1
    for _ in range(0 if options.blocks else ROUNDS):
        blocks = best(blocks)
    return SubsampleQuery(
        column=model.column,
        family=model.family.name,
        box=tuple((float(low), float(high)) for low, high in box(blocks).T),
        blocks=blocks,
        by=by,
        epsilon=request.epsilon,
        schema_sha256=model.study.schema.sha256,
        replicate=request.replicate,
    )


def read_distribution(
    model: DistributionSpec, request: FitRequest, answers: Contributions[Any, Any], *, method: str
) -> Result:
    """Return the result of the sites' releases: post-processing of released and public numbers."""
    releases = [each.release for each in answers.given.values()]
    blocks = [release for release in releases if isinstance(release, SubsampleRelease)]
    records = sum(people for people, _ in sizes(answers.given))
    facts = model.facts(f"{method}, {_blocks(blocks)}" if blocks else method, records=records)
    return private_result(model, request, answers, facts=facts, found=estimates_of(model, answers.given))


def sizes(answers: Mapping[str, Answer]) -> list[tuple[int, float]]:
    """Return the number of people of each site who count, and the standard deviation of the noise in it."""
    return [
        (each.release.records, 0.0) if each.count is None else (each.count.count, each.count.noise_sd)
        for each in answers.values()
    ]


def estimates_of(model: DistributionSpec, answers: Mapping[str, Answer]) -> Estimates:
    """Return the estimates from the answers of one or several sites."""
    given = [each.release for each in answers.values()]
    sha256 = given[0].sha256 if len(given) == 1 else canonical.sha256([each.sha256 for each in given])
    statistics = [each for each in given if isinstance(each, StatisticsRelease)]
    blocks = [each for each in given if isinstance(each, SubsampleRelease)]
    if statistics:
        found = from_statistics(model.family, statistics, people=sizes(answers), ranges=model.ranges, sha256=sha256)
    else:
        boxes = [each.query.box for each in answers.values() if isinstance(each.query, SubsampleQuery)]
        found = from_blocks(
            model.family,
            blocks,
            people=[number for number, _ in sizes(answers)],
            boxes=boxes,
            ranges=model.ranges,
            sha256=sha256,
        )
    return replace(found, public_only=model.public_estimate)


def _blocks(releases: Sequence[SubsampleRelease]) -> str:
    """Return how many blocks there were at a site, and how small, in words."""
    low, high = min(each.blocks for each in releases), max(each.blocks for each in releases)
    fewest = min(each.records // each.blocks for each in releases)
    return f"{low if low == high else f'{low} to {high}'} blocks of {fewest} people or more"
