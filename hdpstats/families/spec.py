"""What a model must say about itself so that fitting, planning and reading are the same for all of them.

`may_count` tells outcomes that may be counts: quantiles of tied outcomes are steps, which smooth quantile regression
has not.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, ClassVar, Self, TypeVar, cast, final

import numpy as np

from hdpstats._base.errors import ArgumentError, MechanismError, SchemaError
from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats._base.validation import real
from hdpstats.families.base import PersonLoss, declared_bound
from hdpstats.families.outcomes import Outcomes, OutcomesOfRows
from hdpstats.families.regression.likelihood import is_tied
from hdpstats.families.several_rows import SeveralRows, checked_correlation, estimand, row_weights
from hdpstats.formulas import Design, compile_design
from hdpstats.formulas.column_space import CanonicalDesign
from hdpstats.formulas.compiler import SurvivalDesign
from hdpstats.mechanisms.clipped_newton import ClippedNewton
from hdpstats.mechanisms.clipped_newton.estimate import ALIKE, ALIKE_IN_ROWS
from hdpstats.mechanisms.perturbation import ObjectivePerturbation, ObjectiveQuery
from hdpstats.mechanisms.perturbation.request import Asked, Recommended
from hdpstats.public.enough import few, least_rows, rare_values, rarer, too_few
from hdpstats.public.moments import Coverage, Moments, PublicSide, WhitenedRows
from hdpstats.public.row_weights import APART, Allowance, reach
from hdpstats.records.averages import CohortMoments
from hdpstats.records.estimate import Estimate
from hdpstats.records.geometry import Geometry
from hdpstats.records.model import AnyModel, QueryModel, TimeGrid
from hdpstats.records.query import MechanismOptions, PointQuery
from hdpstats.records.sandwich import SandwichPart
from hdpstats.results import NOT_CHECKED, DeferredCheck, ModelFacts, RowsOfPeople
from hdpstats.results.propensity import Weighting
from hdpstats.schema.columns import Categorical, NumericColumn
from hdpstats.schema.schema import declared_column
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import AdmittedTable
from hdpstats.sites import Study
from hdpstats.sites.study import site_facts_of

M = TypeVar("M", bound=QueryModel)
S = TypeVar("S", bound=PublicSide)

KEPT = 16
"""Choices of geometry, centre and ridge that a model keeps; they follow from public facts."""

CLEARLY = 0.8
"""How much smaller, as variances, errors of a regression by noisy Newton steps must be predicted to be chosen.

Without a description predictions take private covariates to be distributed as the public ones. Where they are not,
estimates by matched sums are biased, those by objective perturbation hardly, and only their standard errors are wrong.
With Rotterdam's patients as private and GBSG's as public records, whose numbers of nodes spread half as widely, the
former were off by 4 to 6 standard errors of the ordinary fit, the latter by 1. Hazards rest on public people alike by
either mechanism.
"""

FROM_PUBLIC = "Predicted from public rows: covariates and effects are taken to be distributed as in them."
FROM_SCHEMA = (
    "Without public rows the prediction assumes covariates spread evenly over the schema's bounds and no effects."
)


class ModelSpec(ABC):
    """A model on a study: everything here is public.

    Attributes
    ----------
    kind : str
        "regression", "multinomial", "hazard" or "distribution".
    study : Study
        The data.
    """

    study: Study
    kind: ClassVar[str]

    @property
    @abstractmethod
    def formula(self) -> str:
        """The formula as it was given."""

    @property
    @abstractmethod
    def terms(self) -> tuple[str, ...]:
        """The names of the coefficients."""

    @property
    @abstractmethod
    def needs(self) -> tuple[str, ...]:
        """The columns of the schema that the model reads: a row without a cell of one of them is left out."""

    @property
    def outcome(self) -> tuple[str, ...]:
        """The columns of the outcome, times first."""
        return self.needs[:1]

    @property
    def outcome_apart(self) -> str | None:
        """The outcome, where people have several rows and it is averaged: other rows may have it than the rest."""
        return None

    @property
    def follow_up(self) -> tuple[str, ...]:
        """The columns of ``Surv()``, times first; empty where the model is none of hazards."""
        return ()

    @property
    def weighting(self) -> str | None:
        """The column of case weights; None without any."""
        return None

    @property
    def largest_weight(self) -> float:
        """The declared bound on a case weight; 1 without weights."""
        return declared_bound(self.study.schema, self.weighting, kind="weight", default=1.0)

    @property
    def overlap(self) -> Weighting | None:
        """How people are weighted by their chance of treatment; None where they are not."""
        return None

    @property
    def extra(self) -> tuple[str, ...]:
        """The columns of weights and offset, where there are any."""
        return ()

    @property
    def loss_title(self) -> str:
        """The loss as users name it; empty where they do not."""
        return ""

    def planned_for(self, records: int) -> Self:  # noqa: ARG002
        """Return the model that a study of so many private people would fit: this one, where it does not depend on it.

        Numbers of losses that a user leaves out may follow from how many people there are.
        """
        return self

    @property
    def clearly(self) -> float:
        """How much smaller, as variances, errors by another mechanism than the plain one must be to be chosen."""
        return CLEARLY

    @abstractmethod
    def candidates(self, delta: Fraction) -> tuple[MechanismOptions, ...]:
        """Return the mechanisms among which a fit chooses, the plain one first."""

    @property
    def public_side(self) -> PublicSide | None:
        """The public side of a model of losses; None without one."""
        return None

    @property
    def few_public(self) -> str | None:
        """That public rows are few for the model, in words (`hdpstats.public.enough`); None where they are not."""
        return None

    @property
    def averaged_times(self) -> tuple[str | None, tuple[float, ...]] | None:
        """None where errors do not follow from averages of covariates, else the time of follow-up and from when.

        The column of the end of follow-up, and the times after which shares of people at risk tell more; None and no
        times where the model is none of hazards.
        """
        return None

    def canonical(self, formula: str) -> str:
        """Return what a formula says, in one spelling."""
        return compile_design(formula, self.study.schema).canonical

    def risk(self, values: FloatArray, cause: object) -> "Risk":  # noqa: ARG002
        """Return what orders people by risk at coefficients that `terms` name; of several causes for one.

        Raises
        ------
        MechanismError, ArgumentError
            If the model has no such order.
        """
        raise MechanismError("evaluate is for hazard models and for binary outcomes")

    @property
    def fits_weighted(self) -> bool:
        """Whether `weighted` fits weighted rows."""
        return False

    @property
    def fits_cells(self) -> bool:
        """Whether rows may be centres of cells of a histogram, which change the outcome by up to half a cell."""
        return self.fits_weighted

    def flat_between_cells(self) -> tuple[float, float] | None:
        """Return up to which residual the loss has curvature, and the least that would do; None where it does.

        The study's public rows are centres of cells of a histogram: between two outcomes the curvature must not be 0.
        Both are in the unit of the outcome.
        """
        return None

    @property
    def stretch(self) -> float:
        """How much a unit of the loss is in units of the outcome."""
        return 1.0

    @property
    def origin(self) -> FloatArray:
        """What is added to the coefficients that `terms` name, once they are in the outcome's unit."""
        return np.zeros(len(self.terms))

    def weighted(self, weights: FloatArray) -> "WeightedFit":  # noqa: ARG002
        """Return the fit to the public rows, weighted (n,), in the scale of the loss."""
        raise ArgumentError("this model cannot be fitted to weighted rows", argument="model")

    def on(self, study: Study) -> Self:
        """Return the same model on another study."""
        changed: Any = self
        return cast(Self, replace(changed, study=study))

    @property
    @abstractmethod
    def assumption(self) -> str:
        """What predicted errors rest on, in words."""

    @property
    def largest_sd(self) -> float | None:
        """The largest standard deviation that residuals can have, where nothing public tells it; None elsewhere."""
        return None

    @property
    def describes_outcome(self) -> bool:
        """Whether a fit asks how much the outcome varies, as nothing public tells it."""
        return False

    def with_residual_sd(self, sd: float) -> Self:  # noqa: ARG002
        """Return the model with another standard deviation of residuals for errors, where these rest on one."""
        return self

    @property
    def classical(self) -> str:
        """How public rows alone are fitted, in words."""
        return "maximum likelihood on public rows"

    @abstractmethod
    def facts(
        self, method: str, *, records: int | None, public: int | None = None, model: QueryModel | None = None
    ) -> ModelFacts:
        """Return the public facts of a fit; ``model`` is that of its query, None for a fit to public rows alone."""

    @property
    def several(self) -> SeveralRows | None:
        """How rows of a person count, of a regression where people have several; None elsewhere."""
        return None

    def with_correlation(self, correlation: float) -> Self:  # noqa: ARG002
        """Return the model with another ``r``, of people with several rows; this one elsewhere."""
        return self

    @abstractmethod
    def likelihood(self, *, small_sample: bool = False) -> tuple[Estimate, int]:
        """Return the maximum-likelihood fit to the public rows as they are, and their number.

        Errors over people with several rows are corrected for a ``small_sample``.
        """

    @property
    @abstractmethod
    def compares(self) -> bool:
        """Whether a fit shows `public_only`: there are public rows enough, and their outcome is public."""

    @cached_property
    def public_only(self) -> Estimate | None:
        """The ordinary fit to public rows that a private fit is shown beside, that of `likelihood`; None without."""
        return replace(self.likelihood()[0], label="public only") if self.compares else None

    def check(self, facts: ModelFacts, values: FloatArray) -> DeferredCheck:  # noqa: ARG002
        """Return how coefficients (p,) discriminate and calibrate on the public rows; survival models only."""
        return NOT_CHECKED

    def site_facts(self, records: int) -> SiteFacts:
        """Return the public facts about a site's records, as far as the study states them."""
        return site_facts_of(self.study, records)

    def public_rows(self, needs: Sequence[str], *, outcome: Sequence[str], words: str = "the outcome") -> AdmittedTable:
        """Return public rows that are complete in some columns, as they are; refuse a table without the outcome."""
        table = self.study.public
        if table is None or any(name not in table.names for name in outcome):
            message = f"fit_public needs public rows with {words}; give the study public="
            raise ArgumentError(message, argument="public")
        return table.raw(needs)


class LossSpec(ModelSpec):
    """A model whose coefficients minimise the sum of people's losses."""

    design: Design | SurvivalDesign
    weights: str | None
    offset: str | None

    def candidates(self, delta: Fraction) -> tuple[MechanismOptions, ...]:
        """Return objective perturbation, with a delta and public people also noisy Newton steps."""
        if self.public is None or delta == 0:
            return (ObjectivePerturbation(),)
        return ObjectivePerturbation(), ClippedNewton()

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns of the design, of weights and of offset, and what a weighting by propensity reads besides."""
        weighting = () if self.overlap is None else self.overlap.record.columns
        return tuple(dict.fromkeys((*self.design.needs, *self.extra, *weighting)))

    @property
    @abstractmethod
    def columns(self) -> CanonicalDesign:
        """The columns that a query is about."""

    @property
    def question(self) -> str:
        """The formula of a query."""
        return self.columns.design.canonical

    @property
    def assumption(self) -> str:
        """What predicted errors rest on, in words."""
        return FROM_SCHEMA if self.public is None else FROM_PUBLIC

    @property
    @abstractmethod
    def public(self) -> PublicSide | None:
        """The public side; None where public rows are absent or too few for a geometry."""

    @property
    def public_side(self) -> PublicSide | None:
        """The same."""
        return self.public

    @property
    def least_public_rows(self) -> int:
        """How many complete public rows the model needs; with fewer they are not used."""
        return least_rows(len(self.columns.design.names))

    @cached_property
    def few_public(self) -> str | None:
        """That public rows are few for the model, or too few, in words; None where they are not, or there are none."""
        side, table, schema = self.public, self.study.public, self.study.schema
        if table is None:
            return None
        if side is None:
            rows = table.admitted([name for name in self.needs if name in table.names]).rows
            return too_few(rows, least=self.least_public_rows)
        covariates = [name for name in self.needs if name not in (*self.outcome, *self.extra)]
        levels = [name for name in self.outcome if name in table.names and isinstance(schema[name], Categorical)]
        cells = list(rare_values(table, schema, [*covariates, *levels]))
        events = rarer(table, schema, self.outcome[-1])
        return few(side.seen_rows, events, cells, coefficients=side.dimension)

    @property
    def weighting(self) -> str | None:
        """The column of case weights; None without any."""
        return self.weights

    def check_listed(self) -> None:
        """Refuse a model whose outcomes cannot be listed; all can be but those of some losses."""

    @abstractmethod
    def expected_outcomes(self, *, censoring: str) -> tuple[AnyModel, Outcomes]:
        """Return what is asked with the outcomes that public people might have, where there is a public fit.

        ``censoring`` says how long people of a hazard model are followed: "administrative" stands for the horizon.

        Raises
        ------
        MechanismError
            If sums of clipped scores are not proved for the model.
        """

    @property
    def restricts_outcomes(self) -> bool:
        """Whether the model restricts outcomes so much that the public people's own ones may speak against it."""
        return True

    @property
    def residuals_grow(self) -> float:
        """By how many public ones residuals of unseen people may grow with each public standard deviation of distance.

        0 where a person's score is no longer than the person's row, whatever the outcome is. Free light chains of
        flchain, whose far people a clip cut without it: a slope was 3.8 and 3.0 (epsilon 1 and 3) standard errors from
        the ordinary one with 300,000 people, with half of it 2.1 and 1.1, with it .2 and .0, for 3 and 9 % of a
        standard error.
        """
        return 1.0

    def raked_starts(self, *, censoring: str) -> FloatArray:  # noqa: ARG002
        """Return where intervals begin at which raked people are at risk as described; none where they follow."""
        return np.zeros(0)

    def likeness(self, *, censoring: str) -> str:  # noqa: ARG002
        """Return in what private people are taken to be as public ones, in words."""
        return ALIKE if self.several is None else ALIKE_IN_ROWS

    def covered_unlike(self, censoring: str) -> Coverage | None:  # noqa: ARG002
        """Return what 95 % intervals of clipped scores covered in a study with unlike private people.

        None where that was not measured. Of models that take public rows as they are:
        ``tests/statistical/test_taken_alike_rounds.py`` measures it.
        """
        return None

    @property
    def outcome_notes(self) -> tuple[str, ...]:
        """What else is assumed of outcomes, in words."""
        return ()

    @property
    def compares(self) -> bool:
        """Whether there is a public fit, of people who are not weighted by a chance of treatment of other people."""
        return self.public is not None and self.public.fit is not None and self.overlap is None

    @property
    @abstractmethod
    def meat(self) -> float | None:
        """A bound on the score's covariance over the Hessian, for a released Hessian; None without one."""

    @property
    def loss_words(self) -> str:
        """The loss, in words."""
        return "this loss"

    @property
    def releases_sandwich(self) -> bool:
        """Whether a fit may ask for its people's own Hessians and squared scores; no, where nothing else is said."""
        return False

    def noisy_part(self, model: AnyModel, square: float, *, epsilon: Fraction, records: int) -> float:  # noqa: ARG002
        """Return the share of privacy noise in the variance of a score with a mean ``square`` of one person.

        It is 1, which no share exceeds, for families that say nothing smaller.
        """
        return 1.0

    @property
    def largest_offset(self) -> float:
        """The declared bound on the size of an offset; 0 without one."""
        return declared_bound(self.study.schema, self.offset, kind="offset", default=0.0)

    @property
    def extra(self) -> tuple[str, ...]:
        """The columns of weights and offset, where there are any."""
        return tuple(name for name in (self.weights, self.offset) if name is not None)

    @property
    def public_sha256(self) -> str | None:
        """The hash of the public rows that a query rests on; None without them."""
        table = self.study.public
        return None if table is None or self.public is None else table.sha256

    @abstractmethod
    def choose_model(self, sites: Sequence[Asked], *, share: Fraction) -> AnyModel:
        """Return what all sites of a study are asked about: one geometry, and one set of caps.

        ``share`` of each epsilon is spent on a noisy Hessian.
        """

    @abstractmethod
    def choose_ridge(self, model: QueryModel, *, epsilon: Fraction, share: Fraction, records: int) -> Recommended:
        """Return centre and ridge of a fit by objective perturbation to one site."""

    @property
    def apart(self) -> float:
        """How far apart coefficients of people who count more and less may be, as public people tell it."""
        return APART if self.public is None else self.public.apart

    @abstractmethod
    def allowance(self, model: QueryModel, sites: Sequence[tuple[int, CohortMoments | None]] = ()) -> Allowance | None:
        """Return what weights and caps of people may do to an estimate; None where nobody is weighted.

        ``sites`` are the number of people at each and what is known of these, None where nothing is.
        """

    def weights_rows(self, geometry: Geometry) -> bool:
        """Return whether a row within the schema's bounds may be so long that it is weighted down."""
        design, first = self.columns.design, int(geometry.intercept)
        farthest = reach(geometry, lower=np.array(design.lower[first:]), upper=np.array(design.upper[first:]))
        return farthest > geometry.radius * (1.0 + 1e-9)

    def ask(
        self,
        *,
        epsilon: Fraction,
        records: int,
        share: Fraction,
        replicate: int,
        sites: Sequence[Asked] = (),
        sandwich: Callable[[AnyModel], SandwichPart | None] | None = None,
    ) -> ObjectiveQuery:
        """Return the query of one fit by objective perturbation to a site.

        ``sites`` are all of the study, or it; ``sandwich`` says what is asked for standard errors in a geometry. The
        geometry, which all sites share, does not depend on it.
        """
        if share and self.meat is None:
            raise MechanismError(
                f"se_share is spent on a Hessian, which does not give standard errors of {self.loss_words}; "
                "leave it out: they come from public rows with the outcome",
                available=("objective", "output", "exponential"),
            )
        among = tuple(sorted(sites or (Asked(records=records, epsilon=epsilon),), key=attrgetter("records", "epsilon")))
        model = self._chosen(among, share=share)
        part = None if sandwich is None else sandwich(model)
        spent = share if part is None else share + part.share
        choice = self._pulled(model, epsilon=epsilon, share=spent, records=records)
        return ObjectiveQuery(
            model=model,
            centre=tuple(choice.centre.tolist()),
            ridge=Fraction(choice.ridge),
            epsilon=epsilon,
            schema_sha256=self.study.schema.sha256,
            public_sha256=self.public_sha256,
            hessian_share=share,
            replicate=replicate,
            sandwich=part,
        )

    @cached_property
    def _chosen(self) -> Callable[..., AnyModel]:
        """`choose_model`, which keeps some answers: a plan, the check before a charge and the fit ask for the same."""
        return lru_cache(maxsize=KEPT)(self.choose_model)

    @cached_property
    def _pulled(self) -> Callable[..., Recommended]:
        """`choose_ridge`, which keeps some answers."""
        return lru_cache(maxsize=KEPT)(self.choose_ridge)

    @abstractmethod
    def person_loss(self, model: QueryModel) -> PersonLoss:
        """Return one person's loss under the query's model."""

    @abstractmethod
    def side(self, model: QueryModel) -> PublicSide | None:
        """Return the public side at the query's geometry and cap."""

    @abstractmethod
    def reference(self, model: QueryModel, described: CohortMoments | None = None) -> PublicSide:
        """Return rows in place of public ones, for a plan: spread evenly over the schema, or as described."""

    def expected_moments(self, query: PointQuery, *, records: int, described: CohortMoments | None = None) -> Moments:
        """Return the score's moments to expect of private people, were they like public rows, else as `reference`."""
        side = self.side(query.model) or self.reference(query.model, described)
        return side.moments(np.array(query.centre), records=max(records, 1))

    @abstractmethod
    def to_terms(self, model: QueryModel) -> FloatArray:
        """Return the matrix (p, D) from whitened coefficients to those that `terms` name."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Risk:
    """How a model orders people by risk.

    Attributes
    ----------
    formula : str
        The model's formula, in one spelling.
    coefficients : tuple of float
        Of the columns that `matrix` returns.
    covariates : tuple of str
        The columns of the schema that are read.
    matrix : callable
        From rows that are complete in these to the columns (n, p).
    grid : TimeGrid or None
        The intervals of a hazard model.
    causes : tuple of str
        Its causes; else the outcome.
    cause : int
        Which of them counts.
    """

    formula: str
    coefficients: tuple[float, ...]
    covariates: tuple[str, ...]
    matrix: Callable[[AdmittedTable], FloatArray]
    grid: TimeGrid | None
    causes: tuple[str, ...]
    cause: int


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WeightedScores:
    """Scores (n, D) of a sample's rows at ``values`` (D,), zero where a row is incomplete, and ``A`` (D, D)."""

    values: FloatArray
    scores: FloatArray
    bread: FloatArray


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WeightedFit:
    """A fit to weighted rows: the first estimate, by weights that are not negative, and scores elsewhere.

    Attributes
    ----------
    estimate : Estimate
        The first estimate.
    at : callable
        From the identified coefficients to `WeightedScores`.
    """

    estimate: Estimate
    at: Callable[[FloatArray], WeightedScores]


def refusal(reason: str) -> MechanismError:
    """Return the error that names a mechanism which has a proof in place of this one."""
    return MechanismError(f"{reason}; use mechanism='objective'", available=("objective",))


RADIUS = 1000.0
"""Where scores are clipped rows are weighted down only beyond it: the clip bounds a person, not the length of a row."""


def fitted(side: S | None) -> S:
    """Return a public side that has a fit, or refuse a study without one."""
    if side is None or side.fit is None:
        raise refusal("clipped_newton needs (40 complete) public rows with the outcome, to compare with")
    return side


def spread_scores(scores: FloatArray, complete: BoolArray) -> FloatArray:
    """Return scores of all rows, zero where a row is incomplete."""
    whole = np.zeros((len(complete), scores.shape[1]))
    whole[complete] = scores
    return whole


def sample_rows(spec: LossSpec) -> tuple[AdmittedTable, BoolArray]:
    """Return the complete rows of a weighted sample, and which rows these are."""
    table = spec.study.public
    if table is None:
        raise ArgumentError("fit needs the sample's rows", argument="sample")
    return table.raw(spec.needs), table.complete(spec.needs)


def of_model(model: QueryModel, kind: type[M]) -> M:
    """Return the model of a query, or refuse one of another type."""
    if not isinstance(model, kind):
        raise MechanismError("the query is about a model of another kind")
    return model


def case_weights(rows: AdmittedTable, column: str | None) -> FloatArray:
    """Return the weights (n,) of rows; 1 without a column."""
    return np.ones(rows.rows) if column is None else rows.numeric[column]


def offsets(rows: AdmittedTable, column: str | None) -> FloatArray:
    """Return the offsets (n,) of rows; 0 without a column."""
    return np.zeros(rows.rows) if column is None else rows.numeric[column]


def checked_row_norm(row_norm: object, *, has_public: bool) -> float | None:
    """Return a declared bound on the scaled row norm, for the geometry of the schema's box."""
    if row_norm is None:
        return None
    if has_public:
        raise ArgumentError("row_norm must be left out with public rows: they give the geometry", argument="row_norm")
    return real(row_norm, name="row_norm", lower=1e-3, upper=1e3)


FIXED = "is, in a regression, what factor() is: every stratum has its own intercept; write factor(x) or C(x)"


def offset_column(study: Study, given: object, design: Design) -> str | None:
    """Return the column of an offset, given as an argument or written as ``offset(o)`` in the formula.

    It shifts the predictor of a loss whose score is bounded whatever the predictor, so that a person's score keeps its
    bound. What does depend on its size (caps of hazards, rounding, the work of a minimisation) takes the bound that the
    schema declares, as `Offset`.
    """
    written = design.role("offset")
    if written is not None and given is not None:
        raise ArgumentError(
            f"offset must be given once: the formula has offset({written}); leave offset= out", argument="offset"
        )
    if written is not None and study.schema.get(written) is not None and study.schema[written].kind != "offset":
        raise SchemaError(
            f"offset({written}): proofs need the bounds of an offset, and the schema declares {written!r} as "
            f"{study.schema[written].kind}; declare it as {written}=Offset(lower, upper), or its logarithm as a column",
            argument="formula",
        )
    return declared_column(study.schema, given if written is None else written, kind="offset", argument="offset")


def check_cluster(study: Study, design: Design) -> None:
    """Refuse ``cluster(id)`` unless it names the study's unit: the person, who is protected with all rows."""
    written = design.role("cluster")
    if written is not None and written != study.unit:
        reason = "has none" if study.unit is None else f"is {study.unit!r}"
        raise ArgumentError(
            f"cluster({written}) names the person whose rows belong together; that is the study's unit, and this one "
            f'{reason}: give the study unit="{written}" and max_rows_per_unit=, which protects all rows of a person',
            argument="formula",
        )


def several_rows(study: Study, correlation: object) -> SeveralRows | None:
    """Return how rows of a person count in a regression on a study; None where a person has one row."""
    most = 1 if study.unit is None else study.most_rows
    used = sorted({site.most_rows for site in study.sites.values()})
    if len(used) > 1:
        raise ArgumentError(
            f"the sites must use as many rows of a person, not up to {', '.join(map(str, used))}: weights and standard "
            "errors are for one number. Have the sites declare the same max_rows_per_unit, or fit each by itself",
            argument="data",
        )
    checked = checked_correlation(correlation, most_rows=most)
    return None if checked is None else SeveralRows(most_rows=most, correlation=checked)


def rows_of_people(study: Study, several: SeveralRows, needs: Sequence[str]) -> RowsOfPeople:
    """Return how rows of a person count, for results."""
    table = study.public
    known = table is not None and table.persons is not None and all(name in table.names for name in needs)
    persons = None if table is None or not known else table.raw(needs).persons
    return RowsOfPeople(
        unit=str(study.unit),
        most_rows=several.most_rows,
        correlation=several.correlation,
        estimand=estimand(several.correlation),
        total=float(several.total),
        public_people=None if persons is None else len(np.unique(persons)),
    )


def outcomes_of_rows(side: WhitenedRows, several: SeveralRows | None, t: FloatArray | None) -> OutcomesOfRows | None:
    """Return how public rows of people with several count where their outcomes are listed; None for one row each."""
    if several is None:
        return None
    if side.person is None or t is None:
        raise refusal(
            "clipped_newton needs public people (40 complete ones) whose rows say whose they are, with the outcome: "
            "how those of a person go together is taken from them"
        )
    counts = row_weights(side.person, np.ones(len(side.person), dtype=np.bool_), several.correlation)
    return OutcomesOfRows(person=side.person, counts=counts, t=t.reshape(len(counts), -1))


def check_no_strata(design: Design, *, remedy: str) -> None:
    """Refuse ``strata(x)``, with what the same model is written as here."""
    written = design.role("strata")
    if written is not None:
        raise ArgumentError(f"strata({written}) {remedy}", argument="formula")


MOST_COUNTS = 200.0
"""The largest upper bound of an outcome that is taken for a count."""

TIES = (
    "{outcome} may be a count, as it is declared from 0 to a whole number: quantiles of tied outcomes are steps in the "
    "covariates, and what is estimated is a smoothed one whose intervals need not cover them. hdpf.poisson has a model "
    "of counts; {outcome} ~ 1 covers the quantile itself."
)


def may_count(study: Study, outcome: str) -> bool:
    """Return whether an outcome is declared as a count might be, of 0 and 1 or from 0 to a whole number.

    Public outcomes that hardly ever agree say that it is none.
    """
    column, public = study.schema[outcome], study.public
    if public is not None and outcome in public.names and not is_tied(public.raw([outcome]).numeric[outcome]):
        return False
    if column.kind == "binary":
        return True
    low, high = (column.lower, column.upper) if isinstance(column, NumericColumn) else (1.0, 1.0)
    return column.kind == "continuous" and low == 0.0 and high == int(high) and high <= MOST_COUNTS
