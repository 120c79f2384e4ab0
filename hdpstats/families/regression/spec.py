"""A regression on a study: the loss with all its numbers, the public side, the query that a fit asks.

Numbers of a loss that were left out come from public facts. Arguments are checked against the schema.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import ClassVar, Self, final

import numpy as np
from scipy.special import expit

from hdpstats._base.errors import ArgumentError, HdpWarning, MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats.families.base import PersonLoss
from hdpstats.families.outcomes import ListedOutcomes, Outcomes, ResidualOutcomes, centred_residuals
from hdpstats.families.overlap_spec import COUNTS_ONCE, FROM_WEIGHTED, both_arms, check_weighted, treated_rows
from hdpstats.families.regression.bounds import OF_MEANS, RegressionPersonLoss
from hdpstats.families.regression.likelihood import classical_fit, clustered_fit, maximum_likelihood
from hdpstats.families.regression.public import PublicRows, WhitenedPublic, public_rows, whitened_public
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.families.regression.weighted import (
    WeightedPublic,
    weighted_fit,
    weighted_public,
)
from hdpstats.families.row_spec import RowSpec
from hdpstats.families.several_rows import SeveralRows, row_weights
from hdpstats.families.spec import (
    FIXED,
    FROM_PUBLIC,
    FROM_SCHEMA,
    RADIUS,
    TIES,
    Risk,
    WeightedFit,
    WeightedScores,
    case_weights,
    check_cluster,
    check_no_strata,
    checked_row_norm,
    fitted,
    may_count,
    of_model,
    offset_column,
    offsets,
    outcomes_of_rows,
    refusal,
    rows_of_people,
    sample_rows,
    several_rows,
    spread_scores,
)
from hdpstats.formulas import Design
from hdpstats.formulas.column_space import CanonicalDesign, canonical_design, check_independent
from hdpstats.formulas.design import reference_matrix
from hdpstats.formulas.knots import with_public_knots
from hdpstats.formulas.outcome import Response, design_of, made, response_of
from hdpstats.losses import (
    BY_NAME,
    BoundedSquares,
    HuberLoss,
    ListedLoss,
    LogisticLoss,
    PredictorLoss,
    SmoothedQuantile,
    Table,
    options,
)
from hdpstats.losses.base import OutcomeFacts
from hdpstats.losses.options import LossOption
from hdpstats.mechanisms.perturbation import ObjectivePerturbation
from hdpstats.mechanisms.perturbation.request import RegressionCost
from hdpstats.public.enough import FEWEST_ROWS, check_some_vary, least_rows
from hdpstats.public.moments import Coverage
from hdpstats.public.row_weights import Allowance, UnseenPeople
from hdpstats.records.averages import CohortMoments
from hdpstats.records.estimate import Estimate
from hdpstats.records.geometry import Geometry, whiten
from hdpstats.records.model import QueryModel, RegressionModel
from hdpstats.records.query import LEAST_SMOOTHING, MechanismOptions
from hdpstats.results import ModelFacts
from hdpstats.results.propensity import Weighting, checked_weighting, rows_for_errors
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import declared_column
from hdpstats.sites import Study
from hdpstats.sites.study import checked_study

ROUNDED = 1e-9
"""A relative difference that rounding may make."""

NOTHING = 1e-20
"""A covariance of whitened coefficients that is rounding error."""

COVERED_UNLIKE = {
    "squares": Coverage(fits="linear regressions by clipped scores, of people with two rows each", share=0.85)
}
"""See `LossSpec.covered_unlike`: of people with several rows, by the loss."""

MOST_COUNTS = 200
"""The largest count up to which counts are listed."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ChosenLoss:
    """A loss with all its numbers.

    Attributes
    ----------
    loss : PredictorLoss
        On the scale of ``response``.
    response : Response
        Where the outcome comes from.
    parameters, table
        What a query says of the loss, in the outcome's unit.
    bread : PredictorLoss or None
        The loss whose curvature public rows tell.
    words : str
        The loss, for the summary; empty where the model's name says it all.
    label : str
        The name that results keep, one of `hdpstats.losses.MEANS`.
    exponentiated : str
        What the exponential of a coefficient is.
    """

    loss: PredictorLoss
    response: Response
    parameters: tuple[float, ...] = ()
    table: Table = ()
    bread: PredictorLoss | None = None
    words: str = ""
    label: str
    exponentiated: str = "exponential"


def loss_name(option: object) -> str:
    """Return the word that queries use for a loss, or refuse what is none."""
    if isinstance(option, options.LossOption) and option.loss in BY_NAME:
        return option.loss
    names = ", ".join(f"hdp.losses.{each.title}" for each in options.OPTIONS if each.loss in BY_NAME)
    raise ArgumentError(f"loss must be one of {names}, with parentheses, not {option!r}", argument="loss")


def chosen_loss(
    option: options.LossOption,
    design: Design,
    study: Study,
    *,
    weights: str | None,
    offset: str | None,
    records: int | None = None,
) -> ChosenLoss:
    """Return a loss with all its numbers, for so many private people; for those of the study where none are said.

    Raises
    ------
    MechanismError
        If the loss has no proof for the outcome as it is declared.
    ArgumentError
        If a number must be given, or somebody's own loss is not what is declared of it.
    """
    response = response_of(design, loss_name(option), study.schema)
    column, rows = study.schema[response.column], None
    if study.public is not None:
        rows = public_rows(study.public, design, response, weights=weights, offset=offset)
    seen: FloatArray = np.zeros(0) if rows is None or rows.y is None else rows.y
    residuals = _residuals(rows)
    numbers = option.numbers(
        OutcomeFacts(
            lower=response.lower,
            upper=response.upper,
            scale=response.scale,
            shift=response.shift,
            binary=column.kind == "binary",
            seen=seen,
            residuals=residuals,
            rows=FEWEST_ROWS,
            records=records or study.records or len(seen),
            coefficients=0 if rows is None else rows.X.shape[1],
        )
    )
    loss = made(option.loss, numbers.parameters, numbers.table, response)
    return ChosenLoss(
        loss=loss,
        response=response,
        parameters=numbers.parameters,
        table=numbers.table,
        bread=None if residuals is None else loss.broadened(residuals),
        words=numbers.words,
        label=numbers.label or loss.name,
        exponentiated=numbers.exponentiated or loss.exponentiated,
    )


def _residuals(rows: PublicRows | None) -> FloatArray | None:
    """Return residuals of public rows about their least-squares fit, on the loss's scale; None where they are few."""
    if rows is None or rows.y is None or len(rows.y) < FEWEST_ROWS:
        return None
    target = rows.y - rows.offset
    return np.asarray(target - rows.X @ np.linalg.lstsq(rows.X, target, rcond=None)[0])


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RegressionSpec(RowSpec):
    """A model of one linear predictor on a study: everything here is public.

    Attributes
    ----------
    name : str
        What tables call the model.
    study, design
        The data and the columns of the formula.
    asked : CanonicalDesign
        The columns that a query is about: those of the formula span the same.
    option : LossOption
        The loss as it was asked for.
    chosen : ChosenLoss
        The loss, its outcome and its numbers.
    weights, offset : str or None
        Columns of the schema.
    row_norm : float or None
        Declared bound on the scaled row norm, for the geometry of the schema's box.
    public : WhitenedPublic or None
        The public side; None where public rows are absent or too few for a geometry.
    several : SeveralRows or None
        How rows of a person count; None where a person has one.
    overlap : Weighting or None
        How people are weighted by their chance of treatment; None where they are not.
    first : bool
        Whether of people with several rows only the first complete one counts; public rows are then one for each.
    averaged : int or None
        Of weighted people with several rows the most of which the outcome is averaged; public rows are then one for
        each, with the mean.
    """

    name: str
    study: Study
    design: Design
    asked: CanonicalDesign
    option: options.LossOption
    chosen: ChosenLoss
    weights: str | None
    offset: str | None
    row_norm: float | None
    public: WhitenedPublic | WeightedPublic | None
    several: SeveralRows | None = None
    overlap: Weighting | None = None
    first: bool = False
    averaged: int | None = None
    kind: ClassVar[str] = RegressionModel.kind

    @property
    def formula(self) -> str:
        """The formula as it was given."""
        return self.design.formula

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of the design's columns."""
        return self.design.names

    def planned_for(self, records: int) -> Self:
        """Return the model that a study of so many private people would fit; see `ModelSpec.planned_for`."""
        chosen = chosen_loss(
            self.option, self.asked.design, self.study, weights=self.weights, offset=self.offset, records=records
        )
        if chosen.parameters == self.chosen.parameters:
            return self
        return replace(self, chosen=chosen)._with_public()

    @property
    def loss(self) -> PredictorLoss:
        """The loss."""
        return self.chosen.loss

    @property
    def response(self) -> Response:
        """Where the outcome comes from, and on which scale the loss works."""
        return self.chosen.response

    @property
    def meat(self) -> float | None:
        """The declared bound on a person's weight times the loss's own; None where it has none, or none holds.

        Estimated weights by propensity make a score's covariance another than its Hessian.
        """
        return None if self.loss.meat is None or self.overlap is not None else self._heaviest * self.loss.meat

    @property
    def _heaviest(self) -> float:
        """The largest weight of a person: that of a case, times that of all rows where there are several."""
        return self.largest_weight if self.several is None else self.largest_weight * float(self.several.total)

    def candidates(self, delta: Fraction) -> tuple[MechanismOptions, ...]:
        """Return objective perturbation, with a delta, public people and one row each also noisy Newton steps."""
        plain = self.several is None and self.overlap is None
        return RowSpec.candidates(self, delta) if plain else (ObjectivePerturbation(),)

    @property
    def assumption(self) -> str:
        """What predicted errors rest on, in words."""
        if isinstance(self.public, WeightedPublic):
            return FROM_WEIGHTED
        return FROM_SCHEMA if self.public is None else FROM_PUBLIC

    @property
    def few_public(self) -> str | None:
        """What is said of few public rows, and of private people who may have fewer rows than public ones."""
        few = RowSpec.few_public.__get__(self)
        fewer = self.public.of_fewer_rows if isinstance(self.public, WeightedPublic) else ""
        return " ".join(filter(None, (few, fewer))) or None

    @property
    def loss_words(self) -> str:
        """The loss, in words."""
        return f"the {self.loss.name} loss" if self.overlap is None else "people weighted by a propensity model"

    @property
    def largest_sd(self) -> float | None:
        """Half the declared range of least squares, without public rows with the outcome, in the outcome's unit."""
        if not self.loss.bounds_variance or self.overlap is not None:
            return None
        if isinstance(self.public, WhitenedPublic) and self.public.y is not None:
            return None
        return self.response.scale * (self.response.upper - self.response.lower) / 2.0

    @property
    def describes_outcome(self) -> bool:
        """Yes, of people with one row, where the model has an intercept: residuals vary no more than outcomes then.

        Of 0 and 1 the declared range tells enough: a standard deviation of .5 at most.
        """
        least_squares = self.largest_sd is not None and self.several is None and self.offset is None
        binary = self.study.schema[self.response.column].kind == "binary"
        return least_squares and self.asked.design.intercept and not binary

    def with_residual_sd(self, sd: float) -> Self:
        """Return the model with another standard deviation of residuals for errors, in the outcome's unit."""
        if not isinstance(self.loss, BoundedSquares):
            return self
        loss = replace(self.loss, variance=(sd / self.response.scale) ** 2)
        found = replace(self, chosen=replace(self.chosen, loss=loss))
        return found if self.public is None else found._with_public()

    @property
    def releases_sandwich(self) -> bool:
        """Yes, where public rows say how large private people's parts are, of people with several rows by outcomes."""
        return isinstance(self.public, WhitenedPublic) and (self.several is None or self.public.known)

    @property
    def origin(self) -> FloatArray:
        """The outcome's shift, which the intercept takes up, in coefficients of the formula."""
        origin = np.zeros(len(self.terms))
        origin[: int(self.asked.design.intercept)] = self.response.origin
        return np.asarray(self.asked.to_terms @ origin)

    @property
    def outcome(self) -> tuple[str, ...]:
        """The columns of the outcome, times first."""
        response = self.response
        return self.needs[:1] if response.stop is None else (response.stop, response.column)

    @property
    def outcome_apart(self) -> str | None:
        """The outcome, where it is averaged."""
        return None if self.averaged is None else self.response.column

    @property
    def averaged_times(self) -> tuple[str | None, tuple[float, ...]] | None:
        """No times; None for losses over raked rows that were not measured to cover.

        None, too, for several rows of a person where public people do not tell how these correlate.
        """
        told = self.several is None or (self.public is not None and self.public.known)
        told = told and self.overlap is None  # a propensity model's description has told them
        return (None, ()) if self.loss.raked and told else None

    @property
    def loss_title(self) -> str:
        """The loss as users name it."""
        return type(self.option).__name__

    @property
    def stretch(self) -> float:
        """How much a unit of the loss is in units of the outcome."""
        return self.response.stretch

    def risk(self, values: FloatArray, cause: object) -> Risk:
        """Return the order by a binary outcome's linear predictor; people who are evaluated are not weighted."""
        if self.overlap is not None:
            raise MechanismError(COUNTS_ONCE)
        if self.loss.name != LogisticLoss.name:
            return RowSpec.risk(self, values, cause)
        return Risk(
            formula=self.design.canonical,
            coefficients=tuple(values.tolist()),
            covariates=tuple(name for name in self.design.needs if name != self.design.response),
            matrix=self.design.matrix,
            grid=None,
            causes=(self.design.response,),
            cause=0,
        )

    @property
    def fits_weighted(self) -> bool:
        """Yes, of people who are not weighted by their chance of treatment."""
        return self.overlap is None

    @property
    def fits_cells(self) -> bool:
        """Yes, but for quantiles: at centres of cells they are one of few numbers, whose errors nothing tells."""
        return self.loss.name != SmoothedQuantile.name

    def flat_between_cells(self) -> tuple[float, float] | None:
        """Return the ``c`` of Huber's loss, and half the widest gap between public outcomes where that is larger.

        In the middle of that gap no outcome is within ``c``: the curvature is 0 there, whatever the cells hold.
        """
        loss = self.loss
        if not isinstance(loss, HuberLoss):
            return None
        gaps = np.diff(np.unique(self.response.unclipped(sample_rows(self)[0])))
        widest = float(np.max(gaps, initial=0.0))
        if loss.c >= (0.5 - ROUNDED) * widest:
            return None
        return loss.c * self.response.stretch, 0.5 * widest * self.response.stretch

    def weighted(self, weights: FloatArray) -> WeightedFit:
        """Return the fit to the public rows, weighted (n,), in the scale of the loss."""
        rows, complete = sample_rows(self)
        X, y, loss = self.design.evaluate_unclipped(rows), self.response.unclipped(rows), self.loss.plain
        own = case_weights(rows, self.weights)
        offset = offsets(rows, self.offset) / self.response.stretch
        case = weights[complete] * own
        sample = RegressionRows.of(loss, X, y, weights=np.maximum(case, 0.0), offset=offset)
        estimate = maximum_likelihood(sample, terms=self.terms, decided=False)
        columns = X[:, np.isfinite(estimate.values)]

        def at(theta: FloatArray) -> WeightedScores:
            eta = columns @ theta + offset
            scores = (own * loss.score(eta, y))[:, None] * columns
            bread = columns.T @ ((case * loss.curvature(eta, y))[:, None] * columns)
            return WeightedScores(values=theta, scores=spread_scores(scores, complete), bread=bread)

        return WeightedFit(estimate=estimate, at=at)

    def check_listed(self) -> None:
        """Refuse losses whose outcomes cannot be listed."""
        loss, response = self.loss, self.response
        if loss.by_residuals or (isinstance(loss, ListedLoss) and not loss.counts):
            return
        counts = loss.counts and response.lower == 0.0 and response.upper == int(response.upper)
        if not counts or response.upper > MOST_COUNTS:
            raise MechanismError(
                "clipped_newton lists all outcomes that public people might have: it is for binary and categorical "
                f"outcomes, least squares, counts from 0 to a whole number of at most {MOST_COUNTS}, and hazards; use "
                "mechanism='objective', 'output' or (with a delta) 'exponential'",
                available=("objective", "output", "exponential"),
            )

    def expected_outcomes(self, *, censoring: str) -> tuple[RegressionModel, Outcomes]:  # noqa: ARG002
        """Return public people with outcomes 0 and 1, with every count, or with everybody's residuals."""
        public = self.public
        if isinstance(public, WeightedPublic):
            raise refusal("clipped_newton does not count people weighted by their chance of treatment")
        side = fitted(public).at_radius(RADIUS)
        loss, weights, offset = self.loss, side.weights * side.mallows, side.offset
        rows = outcomes_of_rows(side, self.several, side.t)
        if rows is not None:
            weights = weights / rows.counts
        outcomes: Outcomes
        if isinstance(loss, ListedLoss):
            outcomes = ListedOutcomes(loss=loss, X=side.X, weights=weights, offset=offset, rows=rows)
        elif side.y is not None and side.fit is not None:
            theta = side.fit.theta
            residuals = centred_residuals(side.y - side.X @ theta - offset)
            if rows is not None:  # their own are scores, of a standard deviation that residuals tell
                spread = np.sqrt(np.mean(loss.score(np.zeros(len(residuals)), residuals) ** 2))
                rows = replace(rows, t=rows.t / max(float(spread), 1e-300))
            outcomes = ResidualOutcomes(
                loss=loss, X=side.X, weights=weights, offset=offset, rows=rows, residuals=residuals, theta=theta
            )
        else:
            raise refusal("clipped_newton needs public outcomes, whose residuals private ones are taken to have")
        return self.model_at(side.geometry), outcomes

    @property
    def residuals_grow(self) -> float:
        """Those of a logistic model do not."""
        return 0.0 if self.loss.coupled else 1.0

    def covered_unlike(self, censoring: str) -> Coverage | None:  # noqa: ARG002
        """Of linear models of people with several rows."""
        return COVERED_UNLIKE.get(self.loss.name) if self.several is not None else None

    @property
    def outcome_notes(self) -> tuple[str, ...]:
        """What else is assumed of outcomes, in words."""
        if self.loss.by_residuals:
            return ("Residuals are taken to be distributed as the public ones, and not to depend on covariates.",)
        if self.loss.counts:
            return (f"Counts are taken to be {self.loss.counts}, those above the largest one cut to it.",)
        return ()

    @property
    def classical(self) -> str:
        """How public rows alone are fitted, in words."""
        several = "" if self.several is None else ", errors over people (GEE, independence working correlation)"
        if self.overlap is not None:
            several = " weighted by overlap weights, errors by stacked equations with the propensity model"
        return f"{self.loss.classical} on public rows{several}"

    def model_at(self, geometry: Geometry) -> RegressionModel:
        """Return what a query is about, in a geometry."""
        return RegressionModel(
            formula=self.asked.design.canonical,
            loss=self.loss.name,
            geometry=geometry,
            weights=self.weights,
            offset=self.offset,
            parameters=self.chosen.parameters,
            table=self.chosen.table,
            correlation=None if self.several is None else self.several.correlation,
            weighting=None if self.overlap is None else self.overlap.record,
            first=self.first or None,
            averaged=self.averaged,
        )

    def allowance(self, model: QueryModel, sites: Sequence[tuple[int, CohortMoments | None]] = ()) -> Allowance | None:
        """Return what weights of rows may do to an estimate.

        It is None for people weighted by their chance of treatment where weights do nothing to it: where no row can be
        so long, or where all rows are shortened alike, as those of two arms that weigh the same are.
        """
        found = RowSpec.allowance(self, model, sites)
        if self.overlap is None or found is None:
            return found
        return found if float(np.max(np.abs(found.covariance))) > NOTHING else None

    def cost(self, epsilon: Fraction, *, share: Fraction) -> RegressionCost:
        """Return what noise and what ridge a site's epsilon asks for."""
        return RegressionCost(
            loss=self.loss,
            epsilon=float(epsilon * (1 - share - LEAST_SMOOTHING)),
            persons=self.study.relation.persons_changed,
            largest_weight=self._heaviest,
            rank=1 if self.several is None else min(self.several.most_rows, len(self.asked.design.columns)),
        )

    def person_loss(self, model: QueryModel) -> PersonLoss:
        """Return the loss of one row, or of all rows of a person."""
        return RegressionPersonLoss(
            model=of_model(model, RegressionModel),
            design=self.asked.design,
            response=self.response,
            largest_weight=self.largest_weight,
            largest_offset=self.largest_offset,
            most_rows=1 if self.several is None else self.several.most_rows,
        )

    @cached_property
    def _reference_matrix(self) -> Callable[[CohortMoments | None], FloatArray]:
        """`reference_matrix` of the design, which keeps some answers: every share of epsilon is tried with the same."""
        return lru_cache(maxsize=32)(partial(reference_matrix, self.asked.design, self.study.schema))

    def reference(self, model: QueryModel, described: CohortMoments | None = None) -> WhitenedPublic:
        """Return rows in place of public ones, spread evenly or as described.

        Where people have several rows each stands for all rows of a person who has as many as are used.
        """
        rows = whiten(model.geometry, self._reference_matrix(described))
        n = len(rows.X)
        return WhitenedPublic(
            loss=self.loss,
            geometry=model.geometry,
            X=rows.X,
            mallows=rows.weights,
            weights=np.full(n, 1.0 if self.several is None else float(self.several.total)),
            offset=np.zeros(n),
            fit=None,
        )

    def to_terms(self, model: QueryModel) -> FloatArray:
        """Return the matrix from whitened coefficients to the formula's, in the outcome's unit."""
        return np.asarray(self.asked.to_terms @ (self.response.stretch * model.geometry.to_raw()))

    def facts(
        self, method: str, *, records: int | None, public: int | None = None, model: QueryModel | None = None
    ) -> ModelFacts:
        """Return the public facts of a fit; those of a fit to public rows alone have no ``model``."""
        stop = self.response.stop
        return ModelFacts(
            model=self.name,
            formula=self.design.formula,
            response=self.design.response if stop is None else f"Surv({stop}, {self.design.response})",
            method=f"{method}; {self.chosen.words}" if self.chosen.words and model is not None else method,
            records=records,
            public_rows=public,
            weights=self.weights,
            offset=self.offset,
            loss=self.chosen.label,
            exponentiated=self.chosen.exponentiated,
            several_rows=None if self.several is None else rows_of_people(self.study, self.several, self.needs),
            propensity=None if self.overlap is None else self.overlap.propensity.formula,
            first_row=self.study.unit if self.first or self.averaged is not None else None,
            averaged=self.averaged,
        )

    def with_correlation(self, correlation: float) -> Self:
        """Return the model with another ``r``, of people with several rows."""
        if self.several is None or self.several.correlation == correlation:
            return self
        return replace(self, several=replace(self.several, correlation=correlation))._with_public()

    def opened(self, row_norm: object) -> Self:
        """Return the model with its public side, and the declared bound on rows where there is none."""
        found = self._with_public()
        return replace(found, row_norm=checked_row_norm(row_norm, has_public=found.public is not None))

    def _with_public(self) -> Self:
        """Return the model with the public side that belongs to all else."""
        if self.overlap is not None:
            return replace(self, public=_weighted(self.study, self.asked, self.chosen, self.overlap))
        public = _public(
            self.study, self.asked.design, self.chosen, weights=self.weights, offset=self.offset, several=self.several
        )
        return replace(self, public=public)

    def likelihood(self, *, small_sample: bool = False) -> tuple[Estimate, int]:
        """Return the ordinary fit to the public rows as they are; of a person with several, as many as are used.

        Errors are then over people, for a ``small_sample`` corrected (`hdpstats.families.regression.clustered`).
        """
        response, several = self.response, self.several
        if self.overlap is not None:
            return self._weighted_likelihood(self.overlap)
        outcome = [name for name in (response.stop, response.column) if name is not None]
        rows = self.public_rows(self.needs, outcome=outcome)
        if several is not None:
            rows = rows.used(most_rows=several.most_rows)
        weights = case_weights(rows, self.weights)
        if several is not None and rows.persons is not None:
            weights = weights * row_weights(rows.persons, np.ones(rows.rows, dtype=np.bool_), several.correlation)
        observed = RegressionRows.of(
            self.loss,
            self.design.evaluate_unclipped(rows),
            response.unclipped(rows),
            weights=weights,
            offset=offsets(rows, self.offset) / response.stretch,
        )
        if several is None:
            estimate = classical_fit(observed, terms=self.design.names)
        else:
            observed = replace(observed, person=rows.persons)
            estimate = clustered_fit(observed, terms=self.design.names, small_sample=small_sample)
        return self._scaled(estimate), rows.rows

    def _scaled(self, estimate: Estimate) -> Estimate:
        """Return an estimate on the scale of the loss in the outcome's unit."""
        return replace(
            estimate,
            values=self.stretch * estimate.values + self.origin,
            sampling=self.stretch**2 * estimate.sampling,
        )

    def _weighted_likelihood(self, overlap: Weighting) -> tuple[Estimate, int]:
        """Return the fit to public rows that are weighted by a propensity model of the same rows."""
        treated = treated_rows(overlap, self.study, self.needs)
        rows = self.public_rows(self.needs, outcome=[self.response.column])
        observed = RegressionRows.of(self.loss, self.design.evaluate_unclipped(rows), self.response.unclipped(rows))
        return self._scaled(weighted_fit(observed, treated, terms=self.design.names)), rows.rows


def open_regression(
    formula: str,
    data: object,
    option: LossOption,
    *,
    name: str,
    weights: object = None,
    offset: object = None,
    row_norm: object = None,
    correlation: object = "person",
    weighting: object = None,
    first: object = False,
) -> RegressionSpec:
    """Check the arguments against the schema and prepare the public side.

    With ``first`` only the first complete row of each person counts, where the study has a unit; public rows are to be
    one for each person (`Study.by_person`).
    """
    study, averaged = checked_study(data), None
    if weighting is not None and study.unit is not None:
        study, averaged = _by_person(study, formula, option, weighting, correlation)
        first = True
    design = design_of(with_public_knots(formula, study.public), loss_name(option), study.schema)
    check_independent(design, study.schema)
    check_no_strata(design, remedy=FIXED)
    check_cluster(study, design)
    several = None if first is True else several_rows(study, correlation)
    if loss_name(option) == SmoothedQuantile.name and len(design.names) > 1 and may_count(study, design.response):
        warnings.warn(TIES.format(outcome=design.response), HdpWarning, stacklevel=5)
    weight_column = declared_column(study.schema, weights, kind="weight", argument="weights")
    shift = offset_column(study, offset, design)
    asked = canonical_design(design, study.schema)
    chosen = chosen_loss(option, asked.design, study, weights=weight_column, offset=shift)
    overlap = None
    if weighting is not None:
        overlap = checked_weighting(weighting, study)
        if not isinstance(chosen.loss, OF_MEANS):
            raise ArgumentError(
                "weighting is for hdpf.logit, hdpf.linear (least squares) and hdpf.poisson, whose scores are the mean "
                f"less the outcome, and for hdpf.hazard, not for the {chosen.loss.name} loss",
                argument="weighting",
            )
        outcome, *terms = design.needs
        given = {"weights": weights, "offset": shift}
        check_weighted(overlap, study, outcome=[outcome], terms=terms, given=given)
    return RegressionSpec(
        name=name,
        study=study,
        design=design,
        asked=asked,
        option=option,
        chosen=chosen,
        weights=weight_column,
        offset=shift,
        row_norm=None,
        public=None,
        several=several,
        overlap=overlap,
        first=first is True and study.unit is not None and averaged is None,
        averaged=averaged,
    ).opened(row_norm)


def _public(
    study: Study,
    design: Design,
    chosen: ChosenLoss,
    *,
    weights: str | None,
    offset: str | None,
    several: SeveralRows | None,
) -> WhitenedPublic | None:
    if study.public is None:
        return None
    rows = public_rows(study.public, design, chosen.response, weights=weights, offset=offset, several=several)
    if len(rows.X) < least_rows(rows.X.shape[1]):
        return None
    outcome = [name for name in (chosen.response.stop, chosen.response.column) if name is not None]
    whole = rows.completed(design, study.schema, outcome=outcome)
    check_some_vary(whole.X, design.names)
    side = whitened_public(whole, design, chosen.loss, bread=chosen.bread, several=several)
    unseen = UnseenPeople.of(design, design.needs, study.schema, side.geometry)
    return replace(side, unseen=unseen.unlike(intercept=side.geometry.intercept))


def _by_person(
    study: Study, formula: str, option: LossOption, weighting: object, correlation: object
) -> tuple[Study, int]:
    """Return the study with one public row of each person, the outcome averaged, and over how many rows at most."""
    several, given = several_rows(study, correlation), checked_weighting(weighting, study)
    if correlation != "person":
        raise ArgumentError(
            "correlation must be left out with weighting=: a person counts once, with the mean of the outcomes",
            argument="correlation",
        )
    outcome = design_of(with_public_knots(formula, study.public), loss_name(option), study.schema).response
    most = 1 if several is None else several.most_rows
    return study.by_person(given.record.columns, averaged=outcome), most


def _within(public: PublicTable | None, needs: Sequence[str]) -> FloatArray | float:
    """Return the variances within persons of the rows that are complete in the columns; 0 where each has one row."""
    return 0.0 if public is None or public.within is None else public.within[public.complete(needs)]


def _weighted(study: Study, asked: CanonicalDesign, chosen: ChosenLoss, overlap: Weighting) -> WeightedPublic:
    """Return the public side of people weighted by their chance of treatment, or refuse too few public rows."""
    fit, response = overlap.propensity.fit, chosen.response
    standing, propensity, table = rows_for_errors(study, overlap, (response.column,), what="a weighted regression")
    X, treated = propensity.matrix(table), table.numeric[overlap.treatment]
    e = expit(X @ fit.estimate.values)
    rows = PublicRows(
        table=table,
        X=asked.design.matrix(table),
        y=response.of(table),
        weights=np.where(treated == 1.0, 1.0 - e, e),
        offset=np.zeros(table.rows),
    )
    return weighted_public(
        rows,
        asked.design,
        chosen.loss,
        propensity=X,
        treated=treated,
        within=_within(study.public, (*propensity.needs, response.column)) / response.stretch**2,
        arms=both_arms(overlap, study, asked.design),
        standing=standing,
        noise=fit.estimate.privacy,
        raked=fit.released.description is not None,
    )
