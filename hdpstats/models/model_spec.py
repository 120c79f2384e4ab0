"""What a model must say about itself so that fitting, planning and reading are the same for all of them.

`may_count` tells outcomes that may be counts: quantiles of tied outcomes are steps, which smooth quantile regression
has not.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import TypeVar

import numpy as np

from hdpstats._base.errors import ArgumentError, MechanismError, SchemaError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import real
from hdpstats.families.base import PersonLoss, declared_bound
from hdpstats.families.regression.likelihood import is_tied
from hdpstats.formulas import Design
from hdpstats.formulas.column_space import CanonicalDesign
from hdpstats.formulas.compiler import SurvivalDesign
from hdpstats.mechanisms.perturbation import ObjectiveQuery
from hdpstats.mechanisms.perturbation.request import Asked, Recommended
from hdpstats.public.moments import Moments, PublicSide
from hdpstats.public.row_weights import Allowance, reach
from hdpstats.records.averages import CohortMoments
from hdpstats.records.estimate import Estimate
from hdpstats.records.geometry import Geometry
from hdpstats.records.model import AnyModel, QueryModel
from hdpstats.records.query import PointQuery
from hdpstats.results import NOT_CHECKED, DeferredCheck, ModelFacts
from hdpstats.schema.columns import NumericColumn
from hdpstats.schema.schema import declared_column
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import AdmittedTable
from hdpstats.sites import Study
from hdpstats.sites.study import site_facts_of

M = TypeVar("M", bound=QueryModel)

KEPT = 16
"""Choices of geometry, centre and ridge that a model keeps; they follow from public facts."""

FROM_PUBLIC = "Predicted from public rows: covariates and effects are taken to be distributed as in them."
FROM_SCHEMA = (
    "Without public rows the prediction assumes covariates spread evenly over the schema's bounds and no effects."
)


class ModelSpec(ABC):
    """A model on a study: everything here is public.

    Attributes
    ----------
    study : Study
        The data.
    """

    study: Study

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
    @abstractmethod
    def assumption(self) -> str:
        """What predicted errors rest on, in words."""

    @property
    def classical(self) -> str:
        """How public rows alone are fitted, in words."""
        return "maximum likelihood on public rows"

    @abstractmethod
    def facts(
        self, method: str, *, records: int | None, public: int | None = None, model: QueryModel | None = None
    ) -> ModelFacts:
        """Return the public facts of a fit; ``model`` is that of its query, None for a fit to public rows alone."""

    @abstractmethod
    def likelihood(self) -> tuple[Estimate, int]:
        """Return the maximum-likelihood fit to the public rows as they are, and their number."""

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

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns of the design, of weights and of offset."""
        return (*self.design.needs, *self.extra)

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
    def compares(self) -> bool:
        """Whether there is a public fit."""
        return self.public is not None and self.public.fit is not None

    @property
    @abstractmethod
    def meat(self) -> float | None:
        """A bound on the score's covariance over the Hessian, for a released Hessian; None without one."""

    @property
    def origin(self) -> FloatArray:
        """What is added to the coefficients that `terms` name, once `to_terms` made them."""
        return np.zeros(len(self.terms))

    @property
    def largest_weight(self) -> float:
        """The declared bound on a case weight; 1 without weights."""
        return declared_bound(self.study.schema, self.weights, kind="weight", default=1.0)

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

    @abstractmethod
    def allowance(self, model: QueryModel) -> Allowance | None:
        """Return what weights and caps of people may do to an estimate; None where nobody is weighted."""

    def weights_rows(self, geometry: Geometry) -> bool:
        """Return whether a row within the schema's bounds may be so long that it is weighted down."""
        design, first = self.columns.design, int(geometry.intercept)
        farthest = reach(geometry, lower=np.array(design.lower[first:]), upper=np.array(design.upper[first:]))
        return farthest > geometry.radius * (1.0 + 1e-9)

    def ask(
        self, *, epsilon: Fraction, records: int, share: Fraction, replicate: int, sites: Sequence[Asked] = ()
    ) -> ObjectiveQuery:
        """Return the query of one fit by objective perturbation to a site; ``sites`` are all of the study, or it."""
        among = tuple(sorted(sites or (Asked(records=records, epsilon=epsilon),), key=attrgetter("records", "epsilon")))
        model = self._chosen(among, share=share)
        choice = self._pulled(model, epsilon=epsilon, share=share, records=records)
        return ObjectiveQuery(
            model=model,
            centre=tuple(choice.centre.tolist()),
            ridge=Fraction(choice.ridge),
            epsilon=epsilon,
            schema_sha256=self.study.schema.sha256,
            public_sha256=self.public_sha256,
            hessian_share=share,
            replicate=replicate,
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
