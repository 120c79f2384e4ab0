r"""Coefficients of a density ratio: a logistic regression of who is private, in which only private rows are protected.

With coded rows ``x``, Mallows weights ``w(x)`` and ``lambda`` per private person, the objective

.. math:: \sum_{i \in D} w_i \log(1 + e^{-\beta'x_i}) + \frac{n_D}{n_E} \sum_{j \in E} w_j \log(1 + e^{\beta'x_j})
          + \frac{n_D \lambda}{2} \|\beta\|^2

is ``n_D`` times that of Ji and Elkan (2013), ``n_D`` being the public number of private rows, or a noisy number of
those without a missing cell that was released before and is not larger: two samples of (about) equal total weight,
whose log density ratio is :math:`\beta'x` where the model holds. The weights, a function of the row alone, cancel in
the ratio. The weight of a public row is then :math:`e^{\beta'x}`: post-processing of released coefficients.

**What a person moves.** Public rows and the ridge are the same for neighbours. As ``n_D`` stands in the objective, the
only relation is ``replace_one``. All private people have the same label: a person's gradient is :math:`-\sigma w x`
with :math:`\sigma = 1 / (1 + e^{\beta'x})` in (0, 1). Gradients of opposite labels, which a logistic regression must
allow for, do not occur, and the difference of two gradients is :math:`t' x' - t x` with ``t`` in [0, w] and ``t'`` in
[0, w'].

* *Box* (`hdpstats.mechanisms.importance_weights.coding`): in each column both products lie between the box's sides,
  which 0 is between, so their difference is at most its side: ``K = max_j |b_j| / side_j`` of it is at most 1. So it is
  for zeros and ones, whether centred or not; columns on [-1, 1] have the side 2.
* *Geometry* (`hdpstats.records.geometry`): the first coordinate moves by at most 1 and the others by at most ``2 R``:
  ``K = max(|t|, ||v|| / 2 R)`` is at most 1.

Euclidean distances are the diameter of `hdpstats.mechanisms.importance_weights.coding.extent`, :math:`\sqrt{2 m + k}`
for ``m`` categories and ``k`` columns in [0, 1], and :math:`\sqrt{1 + 4 R^2}` in a geometry. Neither is the length of
the longest row: two different levels are :math:`\sqrt{2}` apart.

A private row with a missing cell has the weight 0: ``t`` is 0, which the bounds allow for any row.

**Half of it.** `PersonLoss.gradient_bound` is what one person moves on his own, half of what a replaced one moves. Take
a public constant ``g`` off every person's gradient: the objective changes by the public function :math:`n_D g'\beta`,
which neighbours share. With half the distance as `gradient_bound`, twice that is the distance that the proofs use
(`hdpstats.mechanisms.perturbation.site`); they use no other property of it under
``replace_one``.

**Determinant.** A person's Hessian :math:`w \sigma (1 - \sigma) x x'` has rank one and a trace of at most a quarter of
``sup w ||x||^2``, intercept included; the Hessian of the public rows adds to the matrix that neighbours share. So it
costs :math:`J = \log(1 + \sup w \|x\|^2 / 4 n_D \lambda)`, once (`hdpstats.privacy.sensitivity`). It counts in full: a
person with a small ``sigma`` has a small gradient, but the other one of two neighbours need not, and with weights the
coupled analysis fails for distances below the sum of both.

References
----------
Z. Ji, C. Elkan (2013), Differential privacy based on importance weighting, *Machine Learning* 93 (corrected: their
    bound on the length of a row is no bound on the distance of two).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.errors import MechanismError, SiteError
from hdpstats._base.typing import ExactArray, FloatArray
from hdpstats._base.validation import check_size
from hdpstats._base.work import Operations
from hdpstats.families.base import ROUNDING, LossWork, People, PersonLoss
from hdpstats.families.regression.bounds import RegressionPeople, row_work
from hdpstats.families.regression.rows import TwoSampleObjective, linear_work, row_error
from hdpstats.formulas.compiler import compile_one_sided
from hdpstats.formulas.design import Design
from hdpstats.losses.logistic import LogisticLoss
from hdpstats.mechanisms.base import Prepared, check_one_row
from hdpstats.mechanisms.importance_weights import ColumnBox, DensityRatioModel, ImportanceWeightsQuery
from hdpstats.mechanisms.importance_weights.coding import Extent, coded_rows, extent
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.noise.exact import round_down
from hdpstats.privacy.sensitivity import (
    BallNorm,
    BoxNorm,
    CylinderNorm,
    Norm,
    Relation,
    rank_one_jacobian,
    uncoupled_rate,
)
from hdpstats.records.geometry import Rows
from hdpstats.records.limits import MOST_PUBLIC_NUMBERS
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import AdmittedTable
from hdpstats.solvers.objective import UNIT, rounded_cells

LARGEST_LEVERAGE = 1e13

HALF = Fraction(1, 2) * ROUNDING
"""Half of what a replaced person moves in ``K``."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DensityRatioPersonLoss(PersonLoss):
    """A person's loss in the logistic regression of who is private; public rows come along.

    Attributes
    ----------
    model : DensityRatioModel
        Columns and coding.
    design : Design
        The columns that the formula makes of the site's schema.
    public : Rows
        The coded public rows.
    records : int
        ``n_D``.
    """

    model: DensityRatioModel
    design: Design
    public: Rows
    records: int

    @property
    def dimension(self) -> int:
        """D."""
        return self.model.dimension

    @property
    def norm(self) -> Norm:
        """The norm in which a replaced person moves the gradient by at most 1."""
        coding = self.model.coding
        if isinstance(coding, ColumnBox):
            sides = (Fraction(high) - Fraction(low) for low, high in zip(coding.lower, coding.upper, strict=True))
            return BoxNorm(radii=(*([Fraction(1)] if coding.intercept else []), *sides))
        radius = 2 * Fraction(coding.radius)
        return CylinderNorm(radius=radius) if coding.intercept else BallNorm(radius=radius)

    @property
    def extent(self) -> Extent:
        """How large coded rows are."""
        coding = self.model.coding
        if isinstance(coding, ColumnBox):
            places = kept(self.model, self.design)
            return extent(coding, [self.design.columns[place] for place in places])
        return Extent(leverage=coding.leverage, diameter=math.sqrt(float(coding.intercept) + 4.0 * coding.radius**2))

    @property
    def gradient_bound(self) -> Fraction:
        """One half: see the module."""
        return HALF

    @property
    def euclidean_bound(self) -> Fraction:
        """Half the diameter of all gradients."""
        return HALF * Fraction(self.extent.diameter) * ROUNDING

    @property
    def trace(self) -> Fraction:
        """A quarter of ``sup w ||x||^2``."""
        return Fraction(self.extent.leverage) / 4 * ROUNDING * ROUNDING

    @property
    def rank(self) -> int:
        """1: every gradient of a person is a multiple of the row."""
        return 1

    @property
    def fixed_sign(self) -> bool:
        """Every gradient is a nonnegative multiple of minus the row."""
        return True

    @property
    def charges_determinant(self) -> bool:
        """The determinant has its own part of epsilon."""
        return True

    @property
    def valued(self) -> bool:
        """Losses have values in closed form."""
        return True

    @property
    def needs(self) -> tuple[str, ...]:
        """The design's columns."""
        return self.design.needs

    def noise_rate(self, epsilon: Fraction, *, ridge: Fraction, cell: Fraction, relation: Relation) -> Fraction:
        """Return ``rho`` with ``rho (1 + cell) + J <= epsilon``; only under ``replace_one`` is there any."""
        _check_relation(relation)
        return round_down(uncoupled_rate(epsilon, jacobian=self.jacobian(ridge), width=2 * HALF + cell), 90)

    def jacobian(self, ridge: Fraction) -> Fraction:
        """Return ``log(1 + trace / ridge)``, rounded up."""
        return rank_one_jacobian(self.trace / ridge)

    def largest_loss(self, centre: FloatArray) -> float:
        """Return a bound on the loss of one private row and its share of the public ones at ``centre``."""
        return 2.0 * (math.log(2.0) + math.sqrt(self.extent.leverage) * float(np.linalg.norm(centre)))

    def rounding(self, size: float, *, people: int) -> float:
        """Return what `TwoSampleObjective.gradient_error` is for private rows and public ones of the same weight."""
        length, public = math.sqrt(self.extent.leverage), max(1, len(self.public.X))
        per_weight = length * (float(row_error(LogisticLoss(), self.dimension, sizes=length * size)) + 8.0 * UNIT)
        cells = rounded_cells(people, self.dimension, summand=length)
        cells += rounded_cells(public, self.dimension, summand=people / public * length)
        return 2.0 * people * per_weight + cells

    def curvature(self, people: int) -> float:
        """Return twice that of the private rows: public ones have the same total weight."""
        return 2.0 * people * float(self.trace)

    def slope(self, people: int) -> float:
        """Return a bound for both samples: a gradient is at most ``w ||x||``."""
        return 2.0 * people * math.sqrt(self.extent.leverage) * float(ROUNDING)

    def counted(self, people: int) -> int:
        """Return the number of private and public rows."""
        return people + len(self.public.X)

    def loss_rounding(self, size: float) -> float:
        """Return ``(2 D + 64) u`` of the sizes."""
        return (2.0 * self.dimension + 64.0) * UNIT * (math.sqrt(self.extent.leverage) * size + 2.0)

    def work(self, rows: int) -> LossWork:
        """Return what private and public rows take at most."""
        D, every = self.dimension, rows + len(self.public.X)
        sums = linear_work(every, D, functions=LogisticLoss.functions, in_one_loop=True, bounded=False)
        joined = Operations(steps=40.0, passes=(12.0 * D + 20.0) * every)
        read = self.design.whitening_work(rows) + joined
        return row_work(read, every, sums, functions=LogisticLoss.functions)

    def people(self, table: AdmittedTable) -> "RatioPeople":
        """Return private rows with outcome 1 and public rows with outcome 0, each sample of total weight ``n_D``."""
        private = coded(self.model, self.design, table)
        share = self.records / max(1, len(self.public.X))
        return RatioPeople(
            private=_sample(private, private.weights * table.complete, outcome=1.0),
            public=_sample(self.public, share * self.public.weights, outcome=0.0),
        )


def _sample(rows: Rows, weights: FloatArray, *, outcome: float) -> RegressionPeople:
    """Return rows as people with the same outcome, kept column by column."""
    n = len(rows.X)
    X = np.ascontiguousarray(rows.X.T).T
    return RegressionPeople(loss=LogisticLoss(), X=X, y=np.full(n, outcome), weights=weights, offset=np.zeros(n))


@final
@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class RatioPeople(People):
    """Private people, and the public rows that come along in their objective."""

    private: RegressionPeople
    public: RegressionPeople

    @property
    def count(self) -> int:
        """The number of private and public rows."""
        return self.private.count + self.public.count

    def objective(self, *, ridge: FloatArray, centre: FloatArray, linear: FloatArray) -> TwoSampleObjective:
        """Return the penalised, perturbed sum of losses of both samples."""
        zeros = np.zeros(len(ridge))
        one, two = (each.objective(ridge=zeros, centre=zeros, linear=zeros) for each in (self.private, self.public))
        return TwoSampleObjective(samples=(one, two), ridge=ridge, centre=centre, linear=linear)

    def scores(self, theta: FloatArray) -> FloatArray:
        """Return the gradient of each private person's weighted loss (n, D)."""
        return self.private.scores(theta)

    def losses(self, theta: FloatArray) -> FloatArray:
        """Return each private person's weighted loss (n,)."""
        return self.private.losses(theta)

    def stacked_hessian(self, theta: FloatArray, *, grid: float) -> ExactArray:
        """Return the exact integer sum of the private people's stacked Hessians."""
        return self.private.stacked_hessian(theta, grid=grid)


def prepare(query: ImportanceWeightsQuery, site_facts: SiteFacts) -> Prepared:
    """Fix the constants of a density ratio at a site, or refuse what the proof does not cover."""
    person_loss = density_ratio_person_loss(query.model, site_facts, public=site_facts.table(query.public_sha256))
    if query.perturbs == "output":
        return perturbation.prepare_output(query, person_loss, site_facts)
    return perturbation.prepare_objective(query, person_loss, site_facts)


def density_ratio_person_loss(
    model: DensityRatioModel, site_facts: SiteFacts, *, public: PublicTable
) -> DensityRatioPersonLoss:
    """Return the loss of a person under a density ratio at a site.

    Raises
    ------
    SiteError
        If people have several rows, the model or its coding does not fit the schema, or no public row is complete.
    MechanismError
        Under ``add_or_remove_one``, or if public rows times columns are too many.
    """
    _check_relation(site_facts.relation)
    check_one_row(site_facts, "a density ratio is of people")
    design = ratio_design(model, site_facts.schema)
    size, remedy = public.rows * len(design.names), "take fewer public rows or terms"
    check_size("numbers in public rows of a density ratio", size, MOST_PUBLIC_NUMBERS, remedy=remedy)
    rows = coded(model, design, public.admitted(design.needs))
    if not len(rows.X):
        raise SiteError("no public row is complete in the formula's columns; a density ratio needs one at least")
    weigh = site_facts.records if model.complete is None else model.complete
    if not 1 <= weigh <= max(site_facts.records, 1):
        raise SiteError("the query says that more private rows are complete than there are")
    person_loss = DensityRatioPersonLoss(model=model, design=design, public=rows, records=weigh)
    if not person_loss.extent.leverage <= LARGEST_LEVERAGE:
        raise SiteError(
            f"coded rows of this site's schema can have a leverage above {LARGEST_LEVERAGE:g}, beyond which weights "
            "are not exact to their last digits; use larger scales"
        )
    return person_loss


def ratio_design(model: DensityRatioModel, schema: Schema) -> Design:
    """Return the design of a model, or raise where the model does not fit it."""
    design = compile_one_sided(model.formula, schema)
    if design.intercept != model.coding.intercept or not set(model.columns) <= set(design.names) - {"Intercept"}:
        raise SiteError("the query's columns and coding do not fit its formula")
    return design


def kept(model: DensityRatioModel, design: Design) -> list[int]:
    """Return the places of the model's columns in its design."""
    return [design.names.index(name) for name in model.columns]


def coded(model: DensityRatioModel, design: Design, table: AdmittedTable) -> Rows:
    """Return the coded rows of a table: a total map, each row from itself alone."""
    return coded_rows(model.coding, design.by_columns(table)[kept(model, design)].T, by_columns=True)


def _check_relation(relation: Relation) -> None:
    if relation is not Relation.REPLACE_ONE:
        raise MechanismError(
            "importance weights are proved under replace_one only, as the number of private records weighs the public "
            "rows; use hybrid weights, or a study whose number of records is public"
        )
