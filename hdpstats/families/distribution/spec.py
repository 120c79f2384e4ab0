"""A family of distributions on a study: arguments checked against the schema, and public facts."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

import numpy as np

from hdpstats._base.errors import ArgumentError, FormulaError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice, real
from hdpstats.families.spec import ModelSpec
from hdpstats.formulas import compile_design
from hdpstats.formulas.compiler import without_roles
from hdpstats.losses.families import FAMILIES, Family, Interval
from hdpstats.mechanisms.statistics import SufficientStatistics
from hdpstats.mechanisms.statistics.estimate import likelihood, projected
from hdpstats.mechanisms.statistics.site import family_of
from hdpstats.records.estimate import Estimate
from hdpstats.records.model import QueryModel
from hdpstats.records.query import MechanismOptions
from hdpstats.results import ModelFacts
from hdpstats.sites import Study
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
    kind: ClassVar[str] = "distribution"

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

    def candidates(self, delta: Fraction) -> tuple[MechanismOptions, ...]:  # noqa: ARG002
        """Return noisy statistics."""
        return (SufficientStatistics(),)

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

    def likelihood(self, *, small_sample: bool = False) -> tuple[Estimate, int]:  # noqa: ARG002
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
