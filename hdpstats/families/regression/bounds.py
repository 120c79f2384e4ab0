r"""The loss of one linear predictor, person by person.

With row ``x = (1, z)`` of a geometry, weight ``w`` and case weight ``a`` the gradient is ``a w l'(eta) x`` and the
Hessian ``a w l''(eta) x x'``: both of rank one. As ``w ||z|| <= R``, ``w <= 1`` and ``w ||x||^2 <= L``, in the cylinder
norm ``K(t, v) = max(|t|, ||v|| / R)`` the gradient is at most ``a_max sup|l'|``, and the trace of the Hessian at most
``a_max L sup l''``. A row with a missing cell weighs 0: its gradient and its Hessian are zero, which lies within all
of these bounds, and in the time it takes it is a row like any other.

Where people have several rows, these weigh at most ``W`` together (`hdpstats.families.several_rows`): gradients, in any
norm, and traces are at most ``W`` times those of a row, and a Hessian has a rank of at most the number of rows. The
determinant is coupled as that of one row is (`hdpstats.privacy.sensitivity`).

**First rows.** Of people with several rows a query may take one each, the first that is complete in its columns
(`AdmittedTable.first_complete`), or the first, which weighs 0, where none is. Which one follows from that person's rows
and their order alone. So whatever rows a person has, or another brings in their place, one row's loss is what the
person contributes: every bound of a row holds, and neighbours differ by one person's rows as tables of one row each
differ by a row.

**Averaged outcomes.** Of weighted people with several rows the one row is the first that is complete but for the
outcome, and the outcome is the person's mean over the rows that have it (`AdmittedTable.averaged`): a number within the
outcome's bounds, by a total map of that person's rows. *Proof.* The losses here (`OF_MEANS`) have scores ``mean - y``,
whose sizes are bounded for every ``y`` within the bounds, and curvatures without ``y``: so every bound of a row holds.
Of the logistic loss the sign of the score is not fixed by the outcome any more, which `fixed_sign` says, and the
coupling remains: with ``y`` the mean of outcomes ``y_j`` of 0 or 1 the score is the mean of those at each ``y_j``, all
at the same row ``x``, so that the person is one of several rows of the weights ``1 / n``
(`hdpstats.privacy.sensitivity`) with ``W = 1``, and its Hessian, a multiple of ``x x'``, has a rank of one. QED.

**Weights by propensity.** Where people are weighted by their chance of treatment, ``a`` is an overlap weight
(`hdpstats.families.overlap_weights`): a number from 0 to 1 that is a function of the own row, at coefficients that are
public when the query is asked. So every bound above holds with ``a_max = 1``. *Proof.* Given the row ``a`` is a
constant factor of the row's loss. The loss stays convex and its gradient stays ``a w l'(eta) x``, a nonnegative
multiple, by ``a <= 1``, of that of the unweighted row: of the same direction and sign, in any norm no longer, and of a
Hessian that is positive semidefinite, of rank one, with a trace that is no larger. Neighbours are bounded by the sum of
what any two rows may contribute, or by what one may: a change of the treatment, or of a covariate, changes the weight
with the rest of the row, and both rows are within the bounds. QED. The coefficients come from releases of the same
people, whose cost is added to it by sequential composition (`hdpstats.privacy.budget.Guarantee.resting_on`). A row that
lacks a cell which only the weight reads weighs 0 as well.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final, final

import numpy as np

from hdpstats._base.errors import MechanismError, SiteError
from hdpstats._base.typing import FloatArray
from hdpstats._base.work import Operations
from hdpstats.families.base import (
    ROUNDING,
    LossWork,
    RowLoss,
    averaging_work,
    declared_bound,
    numbers_of,
    several_work,
    stacking_work,
)
from hdpstats.families.overlap_weights import weighting_design
from hdpstats.families.parted import people_in_parts
from hdpstats.families.regression.one_pass import StoredRows, everywhere, stored_rows
from hdpstats.families.regression.rows import RegressionRows, linear_work, row_error
from hdpstats.formulas.design import whitened_rows
from hdpstats.formulas.outcome import Response, design_of, made, response_of
from hdpstats.losses import BY_NAME, BoundedSquares, LogisticLoss, PoissonLoss, PredictorLoss
from hdpstats.noise.exact import round_down, sqrt_up
from hdpstats.privacy.sensitivity import (
    BallNorm,
    CylinderNorm,
    Norm,
    Relation,
    coupled_noise_epsilon,
    jacobian_of_rank,
    uncoupled_rate,
)
from hdpstats.records.geometry import Geometry
from hdpstats.records.model import RegressionModel
from hdpstats.schema.partitions import Parts
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import AdmittedTable, joined
from hdpstats.solvers.kernels import product_work
from hdpstats.solvers.objective import SUMS, UNIT, ObjectiveWork, RowBounds, Rows, rounded_cells, score_bits

OF_MEANS: Final = (LogisticLoss, BoundedSquares, PoissonLoss)
"""Losses whose score is the mean less the outcome: those that a weighting by propensity is worked out for."""

BETWEEN_0_AND_1 = Response(column="")
"""Where an outcome in [0, 1] comes from, for who asks for constants only."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RegressionPersonLoss(RowLoss):
    """A regression model with the declared bounds of its weights and offsets (as the formula has them).

    ``response`` is where the outcome comes from: by default one that is in [0, 1]. ``design`` may be None where only
    constants are asked.
    """

    model: RegressionModel
    largest_offset: float
    response: Response = BETWEEN_0_AND_1

    @property
    def loss(self) -> PredictorLoss:
        """The loss of one row."""
        return made(self.model.loss, self.model.parameters, self.model.table, self.response)

    @property
    def _offset(self) -> float:
        """The largest offset on the scale of the loss."""
        return self.largest_offset / self.response.stretch

    @property
    def norm(self) -> Norm:
        """The cylinder, or without an intercept the ball."""
        return score_norm(self.model.geometry)

    @property
    def gradient_bound(self) -> Fraction:
        """``a_max sup|l'|``."""
        return self.half * self.loss.lipschitz

    @property
    def euclidean_bound(self) -> Fraction:
        """``a_max sup|l'| sqrt(i + R^2)``."""
        square = Fraction(self.model.geometry.radius) ** 2 + int(self.model.geometry.intercept)
        return self.gradient_bound * sqrt_up(square)

    @property
    def trace(self) -> Fraction:
        """``a_max L sup l''``."""
        return self.half * self.loss.smoothness * Fraction(self.model.geometry.leverage) * ROUNDING

    @property
    def rank(self) -> int:
        """The number of rows: every gradient of a person is a sum of multiples of these."""
        return min(self.dimension, self.most_rows)

    @property
    def releases_sandwich(self) -> bool:
        """Yes: of a person with several rows the summed Hessian and the square of the summed score are cut."""
        return True

    @property
    def fixed_sign(self) -> bool:
        """Whether ``l'`` keeps its sign given the outcome, as losses do that are coupled, and there is one row's."""
        return self.loss.coupled and self.most_rows == 1 and self.model.averaged is None

    @property
    def charges_determinant(self) -> bool:
        """Whether the determinant is charged for, as losses without a coupling do."""
        return not self.loss.coupled

    def noise_rate(self, epsilon: Fraction, *, ridge: Fraction, cell: Fraction, relation: Relation) -> Fraction:
        """Return ``rho``: coupled (`hdpstats.privacy.sensitivity`) or else with the determinant charged for.

        *Coupled*: the noise epsilon, ``2 rho half`` under replace-one and ``rho half`` under add-or-remove, is solved
        for ``epsilon`` less the share of a cell in it, which bounds ``rho cell``. *Not coupled*
        (`hdpstats.privacy.sensitivity`): ``rho (width + cell) + log(1 + trace / ridge) <= epsilon``.
        """
        width = relation.persons_changed * self.gradient_bound
        if not self.loss.coupled:
            return round_down(uncoupled_rate(epsilon, jacobian=self.jacobian(ridge), width=width + cell), 90)
        target, ratio = epsilon * (1 - cell / width), self.trace / ridge
        return round_down(coupled_noise_epsilon(target, ratio, relation=relation, rank=self.rank) / width, 90)

    def jacobian(self, ridge: Fraction) -> Fraction:
        """Return ``k log(1 + trace / (k ridge))``, rounded up: the Hessian has a rank of at most ``k``."""
        return jacobian_of_rank(self.trace / ridge, self.rank)

    def largest_loss(self, centre: FloatArray) -> float:
        """Return how far the losses of a person's rows at ``centre`` can be above their infimum."""
        size = math.sqrt(self.model.geometry.leverage) * float(np.linalg.norm(centre))
        return (
            self.largest_weight
            * float(self.total)
            * (self.loss.at_zero + float(self.loss.lipschitz) * (size + self._offset))
        )

    def rounding(self, size: float, *, people: int) -> float:
        """Return what `RegressionRows.sum_error` is for bounded rows: ``w ||x|| <= l`` and ``w ||x||^2 <= L``.

        What is in proportion to ``w ||x|| (||x|| ||theta|| + |o|)`` is at most ``l (L / l ||theta|| + |o|)``. A
        person's rows weigh at most ``W`` together, and each of them is rounded to the grid by itself.
        """
        geometry, summand = self.model.geometry, self._bounds.summand
        sizes = geometry.leverage / geometry.length * size + self._offset
        per_row = row_error(self.loss, self.dimension, sizes=sizes)
        each = self.largest_weight * geometry.length * per_row + SUMS * UNIT * summand
        cells = rounded_cells(people * self.most_rows, self.dimension, summand=summand)
        return people * float(self.total) * float(each) + cells

    def loss_rounding(self, size: float) -> float:
        """Return ``(2 D + 64) u`` of the sizes: predictors err by ``2 (D + 2) u`` of their terms, losses by a few u."""
        length = math.sqrt(self.model.geometry.leverage)
        sizes = float(self.loss.lipschitz) * (length * size + self._offset) + self.loss.magnitude
        return (2.0 * self.dimension + 64.0) * UNIT * self.largest_weight * sizes

    def work(self, rows: int) -> LossWork:
        """Return what rows take at most."""
        sums = linear_work(rows, self.dimension, functions=self.loss.functions, in_one_loop=self.loss.in_one_loop)
        read = self.read.whitening_work(rows) + self.weighting_work(rows)
        if self.model.averaged is not None:
            read = read + averaging_work(rows)
        found = row_work(read, rows, sums, functions=self.loss.functions)
        one = self.most_rows == 1 and not self.model.first_rows
        return found if one else several_work(found, rows, self.dimension, columns=len(self.needs))

    @property
    def in_parts(self) -> bool:
        """What a row contributes is bounded beforehand, so that sums over partitions are on one grid.

        People with several rows are in memory: theirs may be in any partition.
        """
        return self.most_rows == 1

    def people_of(self, rows: Parts[AdmittedTable]) -> Rows:
        """Return the private people of all partitions."""
        if not self.in_parts:
            return self.people(rows.gathered(joined))
        read_once = self._stored if self.loss.in_one_loop else None
        in_parts: Callable[[Parts[RegressionRows]], Rows] = partial(people_in_parts, rows, self._bounds, read_once)
        return rows.as_one(self.people, in_parts)

    def _stored(self, bounds: RowBounds, table: AdmittedTable) -> StoredRows:
        """Return the rows of a partition, of which the scores are summed while they are read."""
        offset, plain = self.model.offset, self.model.weights is None and self.model.overlap is None
        return stored_rows(
            self.read,
            self.model.geometry,
            table,
            y=self.response.of(table),
            weights=everywhere(1.0) if plain else self.case_weights(table),
            offset=(everywhere(0.0) if offset is None else table.numeric[offset]) / self.response.stretch,
            bits=score_bits(bounds.summand),
        )

    def people(self, table: AdmittedTable) -> RegressionRows:
        """Return whitened, weighted rows of an admitted table, incomplete ones of weight 0.

        A total map, row by row, and where people have several rows person by person.
        """
        table = self._used(table)
        rows = whitened_rows(self.read, self.model.geometry, table)
        return RegressionRows(
            loss=self.loss,
            X=rows.X,
            y=self.response.of(table),
            weights=rows.weights * self.row_weights(table),
            offset=numbers_of(table, self.model.offset, otherwise=0.0) / self.response.stretch,
            bounds=self._bounds,
            person=None if self.most_rows == 1 else table.persons,
            counts=self.counts(table),
        )

    def _used(self, table: AdmittedTable) -> AdmittedTable:
        """Return the rows of a table that count."""
        if self.model.averaged is not None:
            return table.averaged(self.response.column, most_rows=self.model.averaged)
        return table.first_complete() if self.model.first_rows else table.used(most_rows=self.most_rows)

    @property
    def _bounds(self) -> RowBounds:
        """What a row contributes at most: ``w ||x||`` and ``w ||x||^2`` are bounded by the geometry."""
        geometry = self.model.geometry
        square = self.largest_weight * float(self.loss.smoothness) * geometry.leverage
        return RowBounds(
            summand=float(self.loss.lipschitz) * self.largest_weight * geometry.length,
            root=math.sqrt(square) * (1.0 + 2.0**-20),
        )


def row_work(read: Operations, rows: int, sums: ObjectiveWork, *, functions: float) -> LossWork:
    """Return what the losses of one linear predictor take at most; ``read``: what the whitened rows take."""
    D, predictors = sums.dimension, product_work(rows, sums.dimension)
    values = Operations(steps=40.0, passes=10.0 * rows, functions=3.0 * functions * rows)
    return LossWork(
        read=read + Operations(steps=60.0, passes=20.0 * rows),
        sums=sums,
        scores=predictors + values + Operations(passes=8.0 * rows * D),
        losses=predictors + values,
        stacked=predictors + values + stacking_work(rows, D),
        sandwich=2.0 * (predictors + values + Operations(passes=(10.0 + 2.0 * D) * rows) + stacking_work(rows, D)),
    )


def regression_person_loss(model: RegressionModel, schema: Schema, *, most_rows: int = 1) -> RegressionPersonLoss:
    """Return the loss of a person under a model at a site, or raise where the model does not fit the site's schema."""
    if model.loss not in BY_NAME:
        raise MechanismError(f"no loss is called {model.loss!r}; there are {', '.join(BY_NAME)}")
    design = design_of(model.formula, model.loss, schema)
    geometry = model.geometry
    if len(design.columns) != geometry.dimension or design.intercept != geometry.intercept:
        raise SiteError("the query's geometry does not fit its formula")
    person_loss = RegressionPersonLoss(
        model=model,
        design=design,
        response=response_of(design, model.loss, schema),
        largest_weight=declared_bound(schema, model.weights, kind="weight", default=1.0),
        largest_offset=declared_bound(schema, model.offset, kind="offset", default=0.0),
        most_rows=most_rows,
        propensity=None if model.weighting is None else weighting_design(model.weighting, schema),
    )
    loss = made(model.loss, model.parameters, model.table, person_loss.response)
    if model.averaged is not None and not isinstance(loss, OF_MEANS):
        raise MechanismError(f"no proof covers a mean of several outcomes in the {model.loss} loss")
    return person_loss


def score_norm(geometry: Geometry) -> Norm:
    """Return the norm in which scores of a linear predictor are measured."""
    radius = Fraction(geometry.radius)
    return CylinderNorm(radius=radius) if geometry.intercept else BallNorm(radius=radius)
