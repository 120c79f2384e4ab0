r"""The loss of one person under a discrete-time hazard model, with capped losses (`hdpstats.losses.hazard_links`).

A person's spells are mapped to intervals by a total map (`hdpstats.schema.spells`). Where the caps of a person add up
to more than ``H``, over causes and the intervals from entry to the horizon, the person's weight is multiplied by ``H``
over that sum: a function of entry, covariates and public numbers, whatever the follow-up, as the Mallows weight is. The
weights multiply the whole loss, baseline included, and where the model is true the estimate stays consistent. *Where
covariates vary within a person* that sum is not known at entry, and a weight that depends on later covariates would
depend on how long the person was followed. There, and in queries that were asked before there were such weights
(`hdpstats.records.model.HazardCap.weighs`), follow-up ends before the sum of the caps passes ``H``: censoring by a
function of covariates, which tells nothing about the event where the model is true.

**Work** is bounded by public facts: sums of caps, the objective and scores go through every interval of every spell,
whatever its follow-up (`hdpstats.solvers.kernels`); losses and noisy Hessians person by person through those at
risk, at most all intervals of every person. Rows on which that is attained are those of `hdpstats.mechanisms.base`.

*Not bounded* is the work before a person's first ``most_rows`` spells are chosen: all rows of the table are whitened,
and those of each person sorted in the order of time. Which of them are kept depends on the columns and the intervals of
the query, so no cut beforehand keeps the same ones. A person with more than ``most_rows`` rows adds to the time of an
answer in proportion to the number. Tables of at most ``records * most_rows`` rows take no longer than is predicted.

**Strata.** With ``strata(x)`` the intervals of the second stratum come after those of the first, and so on, and a
baseline row has the features of its own stratum and zeros. Such a row is as long as the features, and a person is at
risk in at most q intervals, all of one stratum: bounds of gradients and of traces are those of a model without strata.
Where covariates vary within a person, strata may too, each spell in its own.

**Missing cells.** A row with a missing cell (times, event, covariates, weight, offset) is left out; other rows of the
same person count as if it were not there. So the person is not at risk in its time, as with R's ``na.omit``. A row that
is a person stays as spells of weight 0. Either way the contribution is that of fewer rows, or zero, within all bounds.

**Weights by propensity.** Where people are weighted by their chance of treatment, the case weight ``a`` of a person is
an overlap weight (`hdpstats.families.overlap_weights`): a number from 0 to 1 that is a function of the own row, at
coefficients that are public when the query is asked. So every bound holds with ``a_max = 1``. *Proof.* Given the row
``a`` is a constant factor of all of the person's loss, as the Mallows weight and what the caps leave are, and constants
are for any such factor that is at most 1, after which ``||g|| <= N(C, e)`` with ``C <= H`` and ``e <= 1``: gradient,
curvature and their coupling are in ``a C`` and ``a e``, which lie in the same rectangle. ``a (k_c H + k_e)`` is no
larger either, and ``a H`` no larger than ``H``. Neighbours differ in one row, the arm included, both of whose
contributions are within the bounds. QED. The cap of an interval is that of an unweighted person, arm and all, and
``min(1, H / sum of caps)`` is formed before ``a`` multiplies. The coefficients come from releases of the same people,
whose cost is added to it by sequential composition (`hdpstats.privacy.budget.Guarantee.resting_on`). A row that lacks a
cell which only the weight reads weighs 0 as well.

Constants: `hdpstats.privacy.hazard_sensitivity`, the same for both rules. Where covariates vary within a person every
spell has its own Mallows weight, caps add up over the person's spells, and the bound for time-varying rows holds.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import final

import numpy as np

from hdpstats._base.compiled import Loops
from hdpstats._base.errors import MechanismError, SiteError
from hdpstats._base.typing import FloatArray
from hdpstats._base.work import Operations, sorting
from hdpstats.families.base import (
    NUMBERS,
    ROUNDING,
    DeclaredLoss,
    LossWork,
    declared_bound,
    numbers_of,
)
from hdpstats.families.hazard.rows import HazardRows, spell_error, spells_work
from hdpstats.families.hazard.spells import CappedSpells, cap_sums_work, scores_work
from hdpstats.families.overlap_weights import weighting_design
from hdpstats.families.parted import people_in_parts
from hdpstats.formulas.compiler import SurvivalDesign, compile_survival
from hdpstats.formulas.design import whitened_rows
from hdpstats.losses import LINKS, HazardLink
from hdpstats.losses.base import FARTHEST
from hdpstats.noise.exact import round_down
from hdpstats.privacy.hazard_sensitivity import HazardBounds, flat_determinant, hazard_bounds, hazard_noise
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.geometry import Geometry
from hdpstats.records.model import HazardModel
from hdpstats.schema.partitions import Parts
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.spells import in_strata, spells_of
from hdpstats.schema.table import AdmittedTable, joined
from hdpstats.solvers.kernels import product_work
from hdpstats.solvers.objective import SUMS, UNIT, RowBounds, Rows, rounded_cells


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HazardPersonLoss(DeclaredLoss):
    """A hazard model with the declared bounds of its weights and offsets.

    ``most_rows`` is the largest number of rows of a person, ``time_varying`` whether covariates may vary within one.
    """

    model: HazardModel
    design: SurvivalDesign
    largest_offset: float
    most_rows: int
    time_varying: bool

    @property
    def loss(self) -> HazardLink:
        """The capped losses of the link."""
        return LINKS[self.model.link]

    @property
    def bounds(self) -> HazardBounds:
        """The constants of a person of weight 1."""
        return self.bounds_of(self.model.geometry, total=self.total)

    def bounds_of(self, geometry: Geometry, *, total: float) -> HazardBounds:
        """Return the same in another geometry and with another largest sum of caps."""
        loss = self.loss
        return hazard_bounds(
            total=total,
            radius=geometry.radius,
            leverage=geometry.leverage,
            causes=self.model.causes,
            time_varying=self.time_varying,
            smoothness=None if loss.coupled else (float(loss.survived_smoothness), float(loss.event_smoothness)),
        )

    @property
    def total(self) -> float:
        """``H``: the largest sum of a person's caps."""
        return self.model.cap.total

    @property
    def gradient_bound(self) -> Fraction:
        """``a_max G``."""
        return self.half * Fraction(self.bounds.gradient_bound)

    @property
    def euclidean_bound(self) -> Fraction:
        """The same: the norm is Euclidean."""
        return self.gradient_bound

    @property
    def trace(self) -> Fraction:
        """A bound on the trace of one person's Hessian."""
        return self.half * Fraction(self.bounds.trace) * ROUNDING

    @property
    def rank(self) -> int:
        """``e + 1`` for every cause: a person's rows ``(A_s, z)`` span no more; D where covariates vary."""
        if self.time_varying:
            return self.dimension
        return min(self.dimension, self.model.causes * (len(self.model.baseline[0]) + 1))

    @property
    def loops(self) -> frozenset[Loops]:
        """Those of covariates, and those over spells."""
        return frozenset({Loops.REGRESSIONS, Loops.HAZARDS})

    @property
    def valued(self) -> bool:
        """Whether the link's losses have values in closed form."""
        return LINKS[self.model.link].valued

    @property
    def needs(self) -> tuple[str, ...]:
        """The design's columns, case weights and offsets, and what a weighting by propensity reads besides."""
        return self.with_needs_of_weights(self.design.needs)

    def noise_rate(self, epsilon: Fraction, *, ridge: Fraction, cell: Fraction, relation: Relation) -> Fraction:
        """Return ``rho`` with ``rho cell + hazard loss <= epsilon`` (`hdpstats.privacy.hazard_sensitivity`).

        The loss is at least ``rho`` times the distance of neighbours' gradients, so what is set aside for the cell, its
        share of that distance, is enough.
        """
        width = relation.persons_changed * self.gradient_bound
        target = epsilon * (1 - cell / width)
        noise = hazard_noise(self.bounds, epsilon=target, curvature=self.half / ridge, relation=relation)
        return round_down(noise / self.half, 90)

    def jacobian(self, ridge: Fraction) -> Fraction:
        """Return a bound on ``log det(I + H / ridge)``: the trace's, or the determinant itself for a flat cap."""
        by_rank = self.rank * math.log1p(float(self.trace / ridge) / self.rank)
        bound = min(float(self.trace / ridge), by_rank) * (1.0 + 2.0**-30)
        if self.model.cap.is_flat and self.model.causes == 1 and not self.time_varying:
            half, cap = float(self.half), self._largest_flat_cap()
            tight = flat_determinant(
                np.array(self.model.baseline),
                radius=math.sqrt(self.model.geometry.leverage),
                survived=half * cap * float(self.loss.survived_smoothness),
                event=half * float(self.loss.event_smoothness),
                ridge=float(ridge),
            )
            bound = min(bound, tight)
        return Fraction(bound)

    def _largest_flat_cap(self) -> float:
        """Return the cap of every interval where it is flat, with the largest offset that the site declares."""
        level = np.array([self.model.cap.baseline[0][0] + self.largest_offset])
        return float(np.exp(self.loss.caps(level, self.model.cap.margin))[0])

    def largest_loss(self, centre: FloatArray) -> float:
        """Return a bound on one person's loss at ``centre``: it grows by ``H + 1`` per unit of distance from the cap.

        With ``log u = eta - log h`` losses are at least 0 and at most ``h asinh(u)`` and ``asinh(1/u)``, and
        ``asinh(e^x) <= 1 + max(x, 0)``; for other scales they are smaller where caps are not raised, as every scale's
        logarithm rises by 1 or more (`HazardLink.log_scale`). At the predictor of the caps ``log u`` is the margin.
        Where a cap is raised to the smallest one, the loss of an event grows by less than the predictor of the cap is
        beyond. A person who is weighed down has caps that add up to at most ``H`` once they are multiplied by the
        weight.
        """
        e, block, apart, raised = len(self.model.baseline[0]), self.model.block, 0.0, 0.0
        A, length = np.array(self.model.baseline), math.sqrt(self.model.geometry.leverage)
        for cause, (baseline, slopes) in enumerate(zip(self.model.cap.baseline, self.model.cap.slopes, strict=True)):
            part = centre[cause * block : (cause + 1) * block]
            level = float(np.max(np.abs(A @ part[:e] - np.array(baseline))))
            apart = max(apart, level + length * float(np.linalg.norm(part[e:] - np.array(slopes))))
            away = float(np.max(np.abs(baseline))) + length * float(np.linalg.norm(slopes)) + self.largest_offset
            raised = max(raised, away + abs(self.model.cap.margin) - (0.0 if self.loss.smallest_cap else FARTHEST))
        return self.largest_weight * (self.total + 1.0) * (2.0 + abs(self.model.cap.margin) + apart + raised)

    def rounding(self, size: float, *, people: int) -> float:
        """Return what `HazardRows.sum_error` is for bounded rows: see `RegressionPersonLoss.rounding`.

        What scores are off is in proportion to caps, which over all spells of a person add up to ``H`` at most, and to
        the event; every spell is rounded to the grid by itself.
        """
        geometry = self.model.geometry
        slopes = max(math.hypot(*row, 0.0) for row in self.model.cap.slopes)
        level = max(abs(value) for row in self.model.cap.baseline for value in row) + abs(self.model.cap.margin) + 1.0
        sizes = geometry.leverage / geometry.length * (size + slopes) + 2.0 * self.largest_offset + level
        error = spell_error(
            self.loss, self.model.block, total=self.total, intervals=self.model.grid.intervals, sizes=sizes
        )
        largest = self.largest_weight * geometry.length * (float(error) + SUMS * UNIT * (self.total + 1.0))
        cells = rounded_cells(people * self.most_rows, self.dimension, summand=self._row_bounds.summand)
        return people * largest + cells

    def loss_rounding(self, size: float) -> float:
        """Return ``(2 D + 2 q + 64) u`` of the sizes: a cell's loss is at most its cap times ``1 + |eta - log h|``."""
        length = math.sqrt(self.model.geometry.leverage)
        slopes = max(math.hypot(*row, 0.0) for row in self.model.cap.slopes)
        level = max(abs(value) for row in self.model.cap.baseline for value in row) + abs(self.model.cap.margin)
        sizes = length * (size + slopes) + 2.0 * self.largest_offset + level + 2.0
        units = (2.0 * self.dimension + 2.0 * len(self.model.baseline) + 64.0) * UNIT
        return units * self.largest_weight * (self.total + 1.0) * self.model.causes * sizes

    def work(self, rows: int) -> LossWork:
        """Return what spells take at most: as many as rows, each in all intervals of all strata."""
        p, q = self.model.geometry.dimension - 1, len(self.model.baseline)
        e, causes, several = len(self.model.baseline[0]), self.model.causes, self.time_varying
        of_spells = partial(spells_work, p=p, q=q, e=e, causes=causes, functions=self.loss.functions)
        D = self.dimension
        people = Operations(steps=200.0, passes=80.0 * rows, functions=10.0 * rows, sorts=5.0 * sorting(rows))
        ended = cap_sums_work(rows, p=p, q=q, causes=causes, functions=self.loss.functions)
        if several:
            steps = 40.0 + 12.0 * min(self.most_rows, rows)  # the second spells of everybody, then the third ones
            ended = 2.0 * ended + Operations(steps=steps, passes=30.0 * rows, sorts=2.0 * sorting(rows))
        cells = float(rows) * q * causes
        intervals = Operations(steps=60.0 * q * causes, passes=20.0 * cells)
        chunks = 2.0 * (rows / max(1.0, NUMBERS // D**2) + 2.0)
        of_moments = Operations(
            steps=chunks * causes * (q * (60.0 + 8.0 * e**2) + 60.0),
            passes=cells * (24.0 + 10.0 * e**2) + 60.0 * rows * D**2,
            functions=self.loss.functions * cells,
        )
        values = intervals + Operations(functions=4.0 * self.loss.functions * cells, passes=20.0 * rows)
        predictors = 2.0 * causes * product_work(rows, p)
        return LossWork(
            read=self.design.covariates.whitening_work(rows)
            + self.weighting_work(rows)
            + people
            + ended
            + Operations(passes=2.0 * rows * p),
            sums=of_spells(rows),
            scores=scores_work(rows, p=p, q=q, e=e, causes=causes, functions=self.loss.functions)
            + Operations(steps=10.0 * D, passes=10.0 * rows * D),
            losses=predictors + values,
            stacked=predictors + of_moments + Operations(passes=2.0 * chunks * q),
        )

    @property
    def in_parts(self) -> bool:
        """Where everybody enters at time 0 with one row, so that there are as many spells as rows."""
        return self.design.start is None and not self.time_varying

    def people_of(self, rows: Parts[AdmittedTable]) -> Rows:
        """Return the private people of all partitions."""
        if not self.in_parts:
            return self.people(rows.gathered(joined))
        in_parts: Callable[[Parts[HazardRows]], Rows] = partial(people_in_parts, rows, self._row_bounds, None)
        return rows.as_one(self.people, in_parts)

    def people(self, table: AdmittedTable) -> HazardRows:
        """Return the spells of an admitted table, capped and weighted; rows with a missing cell count for nothing."""
        design, grid = self.design, self.model.grid
        found = spells_of(
            table,
            start=design.start,
            stop=design.stop,
            event=design.event,
            level=design.level,
            grid=grid,
            most_rows=self.most_rows,
        )
        found = in_strata(found, table, design.strata, intervals=grid.intervals)
        rows = whitened_rows(self.design.covariates, self.model.geometry, table)
        whole = CappedSpells(
            loss=self.loss,
            A=np.array(self.model.baseline),
            Z=np.take(rows.X.T[1:], found.row, axis=1).T,
            entry=found.entry,
            last=found.exit,
            cause=found.cause,
            weights=(rows.weights * self.case_weights(table) * table.complete)[found.row],
            offset=numbers_of(table, self.model.offset, otherwise=0.0)[found.row],
            cap_baseline=np.array(self.model.cap.baseline),
            cap_slopes=np.array(self.model.cap.slopes).reshape(self.model.causes, -1),
            margin=self.model.cap.margin,
            total=self.model.cap.total,
        )
        if self.model.cap.weighs:
            spells = whole.weighed(intervals=grid.intervals)
        else:
            spells = whole.ended(found.person, several=self.time_varying)
        return HazardRows(spells=spells, person=found.person, number=found.people, bounds=self._row_bounds)

    @property
    def _row_bounds(self) -> RowBounds:
        """What a spell contributes at most.

        With caps that add up to ``C`` at most and an event ``e``, a feature's coordinate is at most ``C + e``, that of
        a covariate, which multiplies the difference of the two, ``max(C, e) ||z||``; weighted, ``C`` is at most ``H``,
        ``e`` is 1 and ``||z||`` is ``R``. Up to rounding, for which 2^50 multiples of the grid leave room.
        """
        geometry, H = self.model.geometry, self.total
        return RowBounds(
            summand=self.largest_weight * max(H + 1.0, max(H, 1.0) * geometry.radius) * (1.0 + 2.0**-20),
            root=math.sqrt(4.0 * geometry.leverage * (H + 1.0) * self.largest_weight),
        )


def hazard_person_loss(model: HazardModel, site_facts: SiteFacts) -> HazardPersonLoss:
    """Return the loss of a person under a model at a site, or raise where the model does not fit the site's schema."""
    design = compile_survival(model.formula, site_facts.schema)
    if model.link not in LINKS:
        raise MechanismError(f"no link is called {model.link!r}; there are {', '.join(LINKS)}")
    if len(design.covariates.columns) != model.geometry.dimension:
        raise SiteError("the query's geometry does not fit its formula")
    causes = len(design.causes(site_facts.schema))
    copies = math.prod(levels for _, levels in design.strata)
    if len(model.baseline) != copies * model.grid.intervals:
        raise SiteError(f"the query's baseline must have a row for each interval of {copies} strata")
    if causes != model.causes:
        raise SiteError(f"the query has caps for {model.causes} causes; this site's schema declares {causes}")
    if site_facts.unit is not None and model.cap.weighs:
        raise SiteError("this site's people have several rows each: follow-up must end where caps add up to the total")
    if site_facts.unit is not None and design.start is None:
        raise SiteError("this site's people have several rows each: the outcome must be Surv(start, stop, event)")
    if site_facts.unit is not None and model.weighting is not None:
        raise SiteError("this site's people have several rows each: a person has one weight by propensity")
    return HazardPersonLoss(
        model=model,
        design=design,
        largest_weight=declared_bound(site_facts.schema, model.weights, kind="weight", default=1.0),
        largest_offset=declared_bound(site_facts.schema, model.offset, kind="offset", default=0.0),
        most_rows=site_facts.most_rows,
        time_varying=site_facts.unit is not None,
        propensity=None if model.weighting is None else weighting_design(model.weighting, site_facts.schema),
    )
