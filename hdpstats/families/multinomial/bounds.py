r"""The loss of one person under a multinomial logistic regression (`hdpstats.losses.multinomial`).

With row ``x = (1, z)`` of a geometry, Mallows weight ``w`` and case weight ``a`` the gradient is
:math:`a w\,(p - e_y) \otimes x`, of length at most :math:`a_{max}\sqrt{2 (i + R^2)}`, and the trace of the Hessian at
most :math:`a_{max} L\,t_M`. A Hessian has rank M, and by concavity of the logarithm :math:`\log\det(I + H/\lambda) \le
M \log\{1 + \mathrm{tr}/(M \lambda)\}`. Score and curvature are not coupled (`hdpstats.privacy.sensitivity`). A row with
a missing cell weighs 0: gradient and Hessian are zero, which lies within all of these bounds.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.errors import SiteError
from hdpstats._base.typing import FloatArray
from hdpstats._base.work import Operations
from hdpstats.families.base import (
    ROUNDING,
    LossWork,
    RowLoss,
    declared_bound,
    several_work,
    stacking_work,
)
from hdpstats.families.multinomial.rows import MultinomialRows, several_error
from hdpstats.families.regression.rows import linear_work
from hdpstats.formulas.design import whitened_rows
from hdpstats.formulas.outcome import categorical_design
from hdpstats.losses.multinomial import steepest, trace_bound
from hdpstats.noise.exact import round_down, sqrt_up
from hdpstats.privacy.sensitivity import Relation, jacobian_of_rank, uncoupled_rate
from hdpstats.records.model import MultinomialModel
from hdpstats.schema.columns import Categorical
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import AdmittedTable
from hdpstats.solvers.kernels import PIECE, product_work
from hdpstats.solvers.objective import SUMS, UNIT, ObjectiveWork, rounded_cells


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class MultinomialPersonLoss(RowLoss):
    """A multinomial model with the declared bound of its weights; ``design`` may be None where only constants count."""

    model: MultinomialModel

    @property
    def gradient_bound(self) -> Fraction:
        """``a_max sqrt(2 (i + R^2))``."""
        square = Fraction(self.model.geometry.radius) ** 2 + int(self.model.geometry.intercept)
        return self.half * steepest(self.model.others) * sqrt_up(square)

    @property
    def euclidean_bound(self) -> Fraction:
        """The same: the norm is Euclidean."""
        return self.gradient_bound

    @property
    def trace(self) -> Fraction:
        """``a_max L t_M``."""
        return self.half * trace_bound(self.model.others) * Fraction(self.model.geometry.leverage) * ROUNDING

    @property
    def rank(self) -> int:
        """M for each row: gradients of a row are ``v (x) x``."""
        return min(self.dimension, self.model.others * self.most_rows)

    @property
    def charges_determinant(self) -> bool:
        """Yes."""
        return True

    def noise_rate(self, epsilon: Fraction, *, ridge: Fraction, cell: Fraction, relation: Relation) -> Fraction:
        """Return ``rho`` with ``rho (width + cell) + J <= epsilon``."""
        width = relation.persons_changed * self.gradient_bound
        return round_down(uncoupled_rate(epsilon, jacobian=self.jacobian(ridge), width=width + cell), 90)

    def jacobian(self, ridge: Fraction) -> Fraction:
        """Return ``k log(1 + trace / (k ridge))``, rounded up; ``k`` is the rank."""
        return jacobian_of_rank(self.trace / ridge, self.rank)

    def largest_loss(self, centre: FloatArray) -> float:
        """Return a bound on the losses of a person's rows at ``centre``; they are never below 0."""
        size = math.sqrt(self.model.geometry.leverage) * float(np.linalg.norm(centre))
        return self.largest_weight * float(self.total) * (math.log(self.model.others + 1.0) + 2.0 * size)

    def rounding(self, size: float, *, people: int) -> float:
        """Return `MultinomialRows.sum_error` for bounded rows: see `RegressionPersonLoss.rounding`."""
        geometry, summand = self.model.geometry, self.largest_weight * self.model.geometry.length
        sizes = geometry.leverage / geometry.length * size
        per_row = summand * float(several_error(self.model.others, geometry.dimension, sizes=sizes))
        cells = rounded_cells(people * self.most_rows, self.dimension, summand=summand)
        return people * float(self.total) * (per_row + 1.5 * SUMS * UNIT * summand) + cells

    def loss_rounding(self, size: float) -> float:
        """Return ``(2 D + 64 + M) u`` of the sizes, twice: of the sum and of the own predictor."""
        length = math.sqrt(self.model.geometry.leverage)
        units = (2.0 * self.model.geometry.dimension + self.model.others + 64.0) * UNIT
        return units * self.largest_weight * (2.0 * length * size + 2.0 + math.log(self.model.others + 1.0))

    def work(self, rows: int) -> LossWork:
        """Return what rows take at most: a predictor and an exponential for each other level, blocks for each pair."""
        D, M = self.model.geometry.dimension, float(self.model.others)
        predictors = M * product_work(rows, D)
        chances = Operations(steps=40.0 + 4.0 * M, passes=60.0 * (M + 1.0) * rows, functions=4.0 * (M + 1.0) * rows)
        pieces = rows // PIECE + 1.0
        pairs = 0.5 * M * (M + 1.0)
        block = Operations(steps=20.0, passes=(4.0 * D + 6.0) * rows + 6.0 * D**2, squares=float(rows) * D**2)
        one = linear_work(rows, D, functions=0.0)
        sums = ObjectiveWork(
            dimension=self.dimension,
            gradient=pieces * Operations(steps=60.0 + 8.0 * M) + chances + predictors + M * one.gradient,
            hessian=predictors + chances + pairs * block,
            error=one.error,
        )
        found = LossWork(
            read=self.read.whitening_work(rows) + Operations(steps=60.0, passes=20.0 * rows),
            sums=sums,
            scores=predictors + chances + Operations(steps=10.0 * M, passes=8.0 * rows * self.dimension),
            losses=predictors + chances,
            stacked=predictors + chances + 2.0 * stacking_work(rows, self.dimension),
        )
        several = self.most_rows > 1
        return several_work(found, rows, self.dimension, columns=len(self.needs)) if several else found

    def people(self, table: AdmittedTable) -> MultinomialRows:
        """Return whitened, weighted rows of an admitted table, incomplete ones of weight 0.

        A total map, row by row, and where people have several rows person by person.
        """
        table = table.used(most_rows=self.most_rows)
        rows = whitened_rows(self.read, self.model.geometry, table)
        return MultinomialRows(
            others=self.model.others,
            X=rows.X,
            y=table.codes[self.read.response],
            weights=rows.weights * self.row_weights(table),
            person=None if self.most_rows == 1 else table.persons,
            counts=self.counts(table),
        )


def multinomial_person_loss(model: MultinomialModel, schema: Schema, *, most_rows: int = 1) -> MultinomialPersonLoss:
    """Return the loss of a person under a model at a site, or raise where the model does not fit the site's schema."""
    design = categorical_design(model.formula, schema)
    geometry, outcome = model.geometry, schema[design.response]
    if len(design.columns) != geometry.dimension or design.intercept != geometry.intercept:
        raise SiteError("the query's geometry does not fit its formula")
    if not isinstance(outcome, Categorical) or len(outcome.levels) != model.others + 1:
        raise SiteError("the query's number of levels is not that of the outcome in this site's schema")
    return MultinomialPersonLoss(
        model=model,
        design=design,
        largest_weight=declared_bound(schema, model.weights, kind="weight", default=1.0),
        most_rows=most_rows,
    )
