"""A family of distributions on a study: arguments checked, queries asked, answers read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.errors import ArgumentError, FormulaError, MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice, real
from hdpstats.data.public import PublicTable
from hdpstats.design import compile_design
from hdpstats.inference.estimate import Estimate
from hdpstats.inference.exponential_family import from_statistics, likelihood, projected
from hdpstats.losses.families import FAMILIES, Family, Interval
from hdpstats.mechanisms.base import Custody
from hdpstats.mechanisms.options import FamilyMechanism, SufficientStatistics
from hdpstats.mechanisms.statistics import family_at, family_of
from hdpstats.models.request import FitRequest
from hdpstats.privacy.accountant import guarantee
from hdpstats.queries import Query, Release, StatisticsQuery, StatisticsRelease
from hdpstats.results import ModelFacts, Result
from hdpstats.sites import Study

NAME = "ExponentialFamily"
METHODS = {SufficientStatistics: "noisy sufficient statistics (Chen and Sung, algorithm 3)"}
FEWEST_PUBLIC = 25


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FamilyModel:
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
    def public(self) -> FloatArray | None:
        """The public rows' numbers (m,), as they are; None without public rows of the column."""
        table: PublicTable | None = self.study.public
        return (
            None if table is None or self.column not in table.names else table.raw([self.column]).numeric[self.column]
        )

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

    def custody(self, records: int) -> Custody:
        """Return the public facts about the site's records."""
        study = self.study
        return Custody(
            schema=study.schema,
            relation=study.relation,
            records=records,
            unit=study.unit,
            most_rows=study.most_rows,
        )


def open_family(formula: str, study: object, *, family: object, ranges: object) -> FamilyModel:
    """Check the arguments against the schema."""
    if not isinstance(study, Study):
        raise ArgumentError(f"data must be an hdp.Study, not {type(study).__name__}", argument="data")
    design = compile_design(formula, study.schema)
    if design.names != ("Intercept",):
        raise FormulaError(
            f"a family describes one column: write {design.response} ~ 1, without covariates; hdpf.linear, hdpf.logit "
            "and hdpf.mestimate take them"
        )
    name = choice(family, name="family", options=FAMILIES)
    law = family_of(name, design.response, study.schema)
    return FamilyModel(study=study, formula=formula, column=design.response, family=law, ranges=_ranges(law, ranges))


def _ranges(family: Family, given: object) -> tuple[Interval, ...]:
    """Return the interval of each parameter: the declared one, else what the column's bounds tell."""
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
            f"do not limit the {name} of a {family.name} law, and nothing is learned from private rows",
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


def fit_family(model: FamilyModel, request: FitRequest) -> Result:
    """Ask the site and read its answer: the only function here that spends."""
    site = model.study.site
    if site is None:
        raise ArgumentError("fit needs private records; this study has none: use fit_public", argument="private")
    mechanism = request.mechanism or SufficientStatistics()
    if not isinstance(mechanism, FamilyMechanism):
        raise MechanismError(
            "a family of distributions takes mechanism 'statistics': other mechanisms perturb regressions",
            available=("statistics",),
        )
    family_at(model.family.name, model.column, model.custody(site.records))
    query = ask(model, request)
    release = site.answer(query)
    return read(model, query, release, method=METHODS[type(mechanism)])


def ask(model: FamilyModel, request: FitRequest) -> StatisticsQuery:
    """Return the query of a fit."""
    return StatisticsQuery(
        column=model.column,
        family=model.family.name,
        epsilon=request.epsilon,
        schema_sha256=model.study.schema.sha256,
        replicate=request.replicate,
    )


def read(model: FamilyModel, query: Query, release: Release, *, method: str) -> Result:
    """Return the result of a release: post-processing of released and public numbers."""
    if not isinstance(release, StatisticsRelease):
        raise MechanismError("the site answered with a release of another kind")
    estimate = from_statistics(model.family, release, ranges=model.ranges)
    public = model.public_estimate
    return Result(
        facts=facts_of(model, method, records=release.records),
        schema=model.study.schema,
        estimate=estimate,
        public_only=public,
        private_only=estimate,
        pooled=None,
        query=query,
        release=release,
        guarantee=guarantee(release.events, relation=model.study.relation, most_rows=model.study.most_rows),
    )


def fit_public_rows(model: FamilyModel) -> Result:
    """Return maximum likelihood from the public rows as they are."""
    x = model.public
    if x is None or not len(x):
        raise ArgumentError("fit_public needs public rows with the column; give the study public=", argument="public")
    if bool((x < model.family.least).any()) or (model.family.exceeds and bool((x <= model.family.least).any())):
        raise ArgumentError(f"public rows hold values that a {model.family.name} law does not have", argument="public")
    return Result(
        facts=facts_of(model, "maximum likelihood on public rows", records=None),
        schema=model.study.schema,
        estimate=likelihood(model.family, x, label="maximum likelihood"),
        public_only=None,
        private_only=None,
        pooled=None,
        query=None,
        release=None,
        guarantee=None,
    )


def facts_of(model: FamilyModel, method: str, *, records: int | None) -> ModelFacts:
    """Return the public facts of a fit."""
    x = model.public
    return ModelFacts(
        model=NAME,
        formula=model.formula,
        response=model.column,
        method=f"{method}; {model.family.name} law",
        records=records,
        public_rows=None if x is None else len(x),
        weights=None,
        offset=None,
        loss=None,
        exponentiated="exponential",
        family=model.family.name,
    )
