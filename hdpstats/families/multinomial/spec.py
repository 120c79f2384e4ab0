"""A multinomial logistic regression on a study."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self, final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.families.base import PersonLoss
from hdpstats.families.multinomial.bounds import MultinomialPersonLoss
from hdpstats.families.multinomial.public import MultinomialSide, multinomial_likelihood, multinomial_side
from hdpstats.families.outcomes import LevelOutcomes, Outcomes
from hdpstats.families.row_spec import RowSpec
from hdpstats.families.several_rows import SeveralRows, row_weights
from hdpstats.families.spec import (
    FIXED,
    RADIUS,
    case_weights,
    check_cluster,
    check_no_strata,
    checked_row_norm,
    fitted,
    of_model,
    outcomes_of_rows,
    rows_of_people,
    several_rows,
)
from hdpstats.formulas import Design
from hdpstats.formulas.column_space import CanonicalDesign, canonical_design, check_independent
from hdpstats.formulas.design import reference_matrix
from hdpstats.formulas.knots import with_public_knots
from hdpstats.formulas.outcome import categorical_design
from hdpstats.losses import multinomial
from hdpstats.mechanisms.perturbation import ObjectivePerturbation
from hdpstats.mechanisms.perturbation.request import MultinomialCost
from hdpstats.public.enough import least_rows
from hdpstats.records.averages import CohortMoments
from hdpstats.records.estimate import Estimate
from hdpstats.records.geometry import Geometry, whiten
from hdpstats.records.model import MultinomialModel, QueryModel
from hdpstats.records.query import LEAST_SMOOTHING, MechanismOptions
from hdpstats.results import ModelFacts
from hdpstats.schema.columns import Categorical
from hdpstats.schema.schema import declared_column
from hdpstats.sites import Study
from hdpstats.sites.study import checked_study


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class MultinomialSpec(RowSpec):
    """A multinomial model on a study: everything here is public.

    Attributes
    ----------
    name : str
        What tables call the model.
    study, design : Study, Design
        The data and the columns of the formula; the outcome is categorical.
    asked : CanonicalDesign
        The columns that a query is about: those of the formula span the same.
    weights : str or None
        A column of the schema.
    row_norm : float or None
        Declared bound on the scaled row norm, for the geometry of the schema's box.
    several : SeveralRows or None
        How rows of a person count; None where a person has one.
    """

    name: str
    study: Study
    design: Design
    asked: CanonicalDesign
    weights: str | None
    row_norm: float | None
    offset: str | None = None
    several: SeveralRows | None = None
    kind: ClassVar[str] = MultinomialModel.kind

    @property
    def formula(self) -> str:
        """The formula as it was given."""
        return self.design.formula

    @property
    def levels(self) -> tuple[str, ...]:
        """The outcome's levels, the reference first."""
        column = self.study.schema[self.design.response]
        return column.levels if isinstance(column, Categorical) else ()

    @property
    def others(self) -> int:
        """``M``: levels beside the reference."""
        return len(self.levels) - 1

    @property
    def terms(self) -> tuple[str, ...]:
        """The design's columns, level by level."""
        return tuple(f"{level}:{name}" for level in self.levels[1:] for name in self.design.names)

    @property
    def averaged_times(self) -> tuple[str | None, tuple[float, ...]] | None:
        """No times; None for several rows of a person where public people do not tell how these correlate."""
        return (None, ()) if self.several is None or (self.public is not None and self.public.known) else None

    @property
    def loss_title(self) -> str:
        """The loss as users name it."""
        return multinomial.Multinomial.__name__

    @property
    def meat(self) -> float:
        """The declared bound on a person's weight: the loss is a likelihood's."""
        return self.largest_weight * (1.0 if self.several is None else float(self.several.total))

    def candidates(self, delta: Fraction) -> tuple[MechanismOptions, ...]:
        """Return objective perturbation, with a delta, public people and one row each also noisy Newton steps."""
        return RowSpec.candidates(self, delta) if self.several is None else (ObjectivePerturbation(),)

    def with_correlation(self, correlation: float) -> Self:
        """Return the model with another ``r``, of people with several rows."""
        if self.several is None or self.several.correlation == correlation:
            return self
        return replace(self, several=replace(self.several, correlation=correlation))

    @property
    def least_public_rows(self) -> int:
        """How many complete public rows the model needs, for the coefficients of all levels."""
        return least_rows(len(self.terms))

    @cached_property
    def public(self) -> MultinomialSide | None:
        """The public side; None where public rows are absent or too few for a geometry."""
        table = self.study.public
        return (
            None
            if table is None
            else multinomial_side(
                table,
                self.asked.design,
                self.study.schema,
                others=self.others,
                weights=self.weights,
                several=self.several,
            )
        )

    def model_at(self, geometry: Geometry) -> MultinomialModel:
        """Return what a query is about, in a geometry."""
        return MultinomialModel(
            formula=self.asked.design.canonical,
            others=self.others,
            geometry=geometry,
            weights=self.weights,
            correlation=None if self.several is None else self.several.correlation,
        )

    def cost(self, epsilon: Fraction, *, share: Fraction) -> MultinomialCost:
        """Return what noise and what ridge a site's epsilon asks for."""
        return MultinomialCost(
            others=self.others,
            epsilon=float(epsilon * (1 - share - LEAST_SMOOTHING)),
            persons=self.study.relation.persons_changed,
            largest_weight=self.meat,
            rank=self.others * min(self._most_rows, len(self.asked.design.columns)),
        )

    @property
    def _most_rows(self) -> int:
        return 1 if self.several is None else self.several.most_rows

    def person_loss(self, model: QueryModel) -> PersonLoss:
        """Return the loss of one row, or of all rows of a person."""
        return MultinomialPersonLoss(
            model=of_model(model, MultinomialModel),
            design=self.asked.design,
            largest_weight=self.largest_weight,
            most_rows=self._most_rows,
        )

    def reference(self, model: QueryModel, described: CohortMoments | None = None) -> MultinomialSide:
        """Return rows in place of public ones, spread evenly or as described."""
        rows = whiten(model.geometry, reference_matrix(self.asked.design, self.study.schema, described))
        return MultinomialSide(
            others=self.others,
            geometry=model.geometry,
            X=rows.X,
            mallows=rows.weights,
            weights=np.full(len(rows.X), 1.0 if self.several is None else float(self.several.total)),
            fit=None,
        )

    def expected_outcomes(self, *, censoring: str) -> tuple[MultinomialModel, Outcomes]:  # noqa: ARG002
        """Return public people with every level of the outcome."""
        side = fitted(self.public).at_radius(RADIUS)
        rows, weights = outcomes_of_rows(side, self.several, side.t), side.weights * side.mallows
        if rows is not None:
            weights = weights / rows.counts
        levels = LevelOutcomes(others=self.others, X=side.X, weights=weights, rows=rows)
        return self.model_at(side.geometry), levels

    def to_terms(self, model: QueryModel) -> FloatArray:
        """Return the matrix from whitened coefficients to the formula's, a block per level."""
        block = self.asked.to_terms @ model.geometry.to_raw()
        return np.asarray(np.kron(np.eye(self.others), block), dtype=np.float64)

    def facts(
        self, method: str, *, records: int | None, public: int | None = None, model: QueryModel | None = None
    ) -> ModelFacts:
        """Return the public facts of a fit; those of a fit to public rows alone have no ``model``."""
        words = "" if model is None else f"; multinomial logistic loss, reference level {self.levels[0]!r}"
        return ModelFacts(
            model=self.name,
            formula=self.design.formula,
            response=self.design.response,
            method=method + words,
            records=records,
            public_rows=public,
            weights=self.weights,
            offset=None,
            loss=multinomial.NAME,
            exponentiated="odds ratio",
            several_rows=None if self.several is None else rows_of_people(self.study, self.several, self.needs),
        )

    def likelihood(self, *, small_sample: bool = False) -> tuple[Estimate, int]:
        """Return the maximum-likelihood fit to public rows as they are; of a person with several, as many as are used.

        Errors are then over people, for a ``small_sample`` corrected.
        """
        several, rows = self.several, self.public_rows(self.needs, outcome=[self.design.response])
        if several is not None:
            rows = rows.used(most_rows=several.most_rows)
        weights, person = case_weights(rows, self.weights), None
        if several is not None:
            person = np.arange(rows.rows) if rows.persons is None else rows.persons
            weights = weights * row_weights(person, np.ones(rows.rows, dtype=np.bool_), several.correlation)
        estimate = multinomial_likelihood(
            self.design.evaluate_unclipped(rows),
            rows.codes[self.design.response],
            others=self.others,
            weights=weights,
            terms=self.terms,
            person=person,
            small_sample=small_sample,
        )
        return estimate, rows.rows


def open_multinomial(
    formula: str,
    data: object,
    *,
    name: str,
    weights: object = None,
    offset: object = None,
    row_norm: object = None,
    correlation: object = "person",
) -> MultinomialSpec:
    """Check the arguments against the schema and prepare the public side."""
    study = checked_study(data)
    design = categorical_design(with_public_knots(formula, study.public), study.schema)
    check_independent(design, study.schema)
    several = several_rows(study, correlation)
    check_no_strata(design, remedy=FIXED)
    check_cluster(study, design)
    if offset is not None or design.role("offset") is not None:
        raise ArgumentError("offset must be left out: a multinomial model has a predictor per level", argument="offset")
    spec = MultinomialSpec(
        name=name,
        study=study,
        design=design,
        asked=canonical_design(design, study.schema),
        weights=declared_column(study.schema, weights, kind="weight", argument="weights"),
        row_norm=None,
        several=several,
    )
    norm = checked_row_norm(row_norm, has_public=spec.public is not None)
    return spec if norm is None else replace(spec, row_norm=norm)
