r"""What private people are to public points: how many each point stands for, how far they are, how many points to use.

Every private person is mapped into the unit cube by public ranges (`hdpstats.schema.public`) and counted at the
nearest of the public points, the first of several at the same distance (`hdpstats.solvers.nearest_points`).

**One count per person.** A row is a person; a site whose people have several rows is refused. The point that a row is
counted at depends on that row and public constants alone, to the last bit: were a rounded distance to depend on the
rows beside it, one person could move the counts of many. Were a person counted at *every* nearest point, as where
points come twice, one could move as many counts as there are ties. Were the cube scaled by the range of all rows, one
could move everybody. A person with a missing cell is counted at no point, is at no distance and costs nothing.

**Work.** At most all pairs of a row and a point are compared, with which search does not depend on the number of rows
where that is private (`hdpstats.solvers.nearest_points`).

**Counts** (`NeighboursQuery`). The numbers of people at each point with two-sided geometric noise: sensitivity and
guarantee are in `hdpstats.mechanisms.base`. It is algorithm 1 of Wang et al. (2018) with what it leaves unsaid:
points that are different, ties that a public rule breaks, public ranges.

**Sum of distances** (`DistanceQuery`). Each private person adds the distance from the point that the person is counted
at, at most ``reach``, rounded down to an integer number of :math:`2^{-20}` ``reach``; the integer sum is released with
two-sided geometric noise. The distance is that of the row as the schema admits it, not of its image in the public
range: who lies outside is far. A person's number is from 0 to :math:`2^{20}`, whatever the row: adding, removing and
replacing a person move the sum by at most :math:`2^{20}`, all attained. Rate :math:`\epsilon / 2^{20}` is epsilon-DP
under either relation.

**Choices** are those of `hdpstats.mechanisms.base`; ``R`` there is as follows.

*Sizes of a nested support* (`SelectionQuery`). A person costs the distance to the nearest point, at most ``reach``, in
integer parts :math:`0, \ldots, U = 2^{20}` of it. The first points of an order are nested, so for each person the
distances fall from each size to the next, exactly in doubles too, as all are the least of the same numbers; rounding
keeps the order. Hence :math:`f_i - f_j \in [0, U]` for :math:`i < j`. Adding or removing a person changes a difference
of costs by at most ``U``; replacing one, by the difference of two numbers in :math:`[0, U]`, at most ``U`` again:
:math:`R = U` under either relation, half of what a bound on each cost alone would give.

*Coefficients* (`LossSelectionQuery`). The loss of a logistic model, :math:`\log(1 + e^{\eta}) - y \eta`, of a person
under each candidate, in integer parts of ``reach``; a person costs each candidate its excess over the candidate that
fits that person best, at most ``U``. Excesses are in :math:`[0, U]`, their differences in :math:`[-U, U]`:
:math:`R = U` (add-or-remove-one) and :math:`2 U` (replace-one). To subtract a person's best, the same number from all
candidates, changes no choice.

References
----------
Wang, Ji, Kim, Wang, Xiong and Jiang (2018), Selecting optimal subset to release under differentially private
    M-estimators from hybrid datasets. Section 5 suggests to choose the size by a private mechanism; the sensitivity
    that its algorithm 2 states for its own criterion does not hold (``vignettes/explanation/hybrid-weights.md``).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from typing import final

import numpy as np

from hdpstats._base.errors import SiteError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.validation import check_size
from hdpstats._base.work import Operations
from hdpstats.formulas import Design
from hdpstats.mechanisms.base import (
    Prepared,
    PreparedCounts,
    binary_design,
    check_one_row,
    counted,
    noise_of_counts,
)
from hdpstats.mechanisms.hybrid_weights import (
    UNITS,
    DistanceQuery,
    DistanceRelease,
    LossSelectionQuery,
    NeighboursQuery,
    NeighboursRelease,
    SelectionQuery,
    SelectionRelease,
)
from hdpstats.noise.discrete import PermuteAndFlip, TwoSidedGeometric
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.records.geometry import PointSpace
from hdpstats.records.limits import MOST_NUMBERS, MOST_POINTS
from hdpstats.schema.partitions import Parts
from hdpstats.schema.public import check_space, distinct, embed
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import AdmittedTable
from hdpstats.solvers.kernels import product_work, row_products
from hdpstats.solvers.nearest_points import Nearest, blocks, load_search, search_among, search_work, squared_distances

MOST_LOSS = 2.0**30
"""In units of ``reach``: larger losses count as this, so that integers hold them."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Landscape:
    """Public points (m, p) of a space, in an order that breaks ties; ``records`` is the public number of rows."""

    space: PointSpace
    points: FloatArray
    records: int

    def work(self, rows: int, sizes: Sequence[int]) -> Operations:
        """Return what the nearest of the first so many points take at most, for so many rows."""
        p, found = self.space.dimension, len(blocks(rows, dimension=self.space.dimension)) + 1.0
        embedded = Operations(steps=found * (20.0 * len(self.space.columns) + 60.0), passes=(40.0 * p + 40.0) * rows)
        return embedded + search_work(len(self.points), sizes, rows=rows, declared=self.records, dimension=p)

    def load(self) -> None:
        """Load the compiled code of the search, or compile it."""
        load_search(len(self.points), rows=self.records, dimension=self.space.dimension)

    def neighbours(self, table: AdmittedTable, sizes: Sequence[int]) -> Iterator[tuple[slice, Nearest]]:
        """Yield blocks of rows with the nearest of the first so many points; rows are mapped block by block."""
        search = search_among(self.points, sizes, rows=self.records)
        for part in blocks(table.rows, dimension=self.space.dimension):
            yield part, search.answer(embed(self.space, table, part=part))

    def squared_distances(self, table: AdmittedTable) -> FloatArray:
        """Return the squared distance (n,) of each row as it is, not clipped to the public ranges, from its point."""
        found = np.empty(table.rows)
        for part, block in self.neighbours(table, [len(self.points)]):
            rows = embed(self.space, table, part=part, clip=False)
            found[part] = squared_distances(rows, self.points[block.place[0]])
        return found

    def counts(self, table: AdmittedTable) -> IntArray:
        """Return the number of complete rows (m,) to which each point is the nearest."""
        found, complete = np.zeros(len(self.points), dtype=np.int64), table.complete
        for part, block in self.neighbours(table, [len(found)]):
            found += counted(block.place[0], complete[part], len(found))
        return found


def landscape_of(
    space: PointSpace, support: tuple[int, ...] | None, public_sha256: str | None, site_facts: SiteFacts
) -> Landscape:
    """Return the public points that a query names, from the public table that the site keeps.

    Raises
    ------
    SiteError
        If people have several rows, the site does not have the table, or the table not the rows.
    MechanismError
        If there are too many points.
    """
    check_one_row(site_facts, "nearest points count people")
    check_space(space, site_facts.schema)
    public = site_facts.table(public_sha256).admitted(space.names)
    fewer = "take fewer public rows"
    check_size("cells of public rows", public.rows * len(space.columns), MOST_NUMBERS, remedy=fewer)
    rows = distinct(space, public) if support is None else np.array(support, dtype=np.int64)
    if not len(rows) or int(rows.max()) >= public.rows:
        raise SiteError("the query names public rows that are not complete in its columns; write it for this table")
    check_size("public points", len(rows), MOST_POINTS, remedy="name fewer rows of the public table")
    check_size("numbers in public points", len(rows) * space.dimension, MOST_NUMBERS, remedy=fewer)
    return Landscape(space=space, points=embed(space, public, part=rows), records=site_facts.records)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedNeighbours(PreparedCounts):
    """Counts at public points with their noise fixed."""

    release = NeighboursRelease
    landscape: Landscape

    def counting_work(self, rows: int) -> Operations:
        """Return what the nearest points take at most."""
        return self.landscape.work(rows, [self.cells])

    @property
    def loads(self) -> tuple[Callable[[], None], ...]:
        """The code of the search."""
        return (self.landscape.load,)

    def counts(self, table: AdmittedTable) -> IntArray:
        """Return the number of people at each point."""
        return self.landscape.counts(table)


def prepare_neighbours(query: NeighboursQuery, site_facts: SiteFacts) -> PreparedNeighbours:
    """Find the public points and fix the noise."""
    landscape = landscape_of(query.space, query.support, query.public_sha256, site_facts)
    return PreparedNeighbours(
        needs=query.space.names,
        events=(PrivacyEvent(ran=MechanismName.HISTOGRAM, epsilon=query.epsilon),),
        ahead=query.ahead,
        cells=len(landscape.points),
        noise=noise_of_counts(query.epsilon, site_facts),
        landscape=landscape,
    )


def in_units(squared: FloatArray, reach: float) -> IntArray:
    """Return distances in integer parts of ``reach``, from 0 to `UNITS`: never more for a smaller square."""
    return np.asarray(np.floor(np.minimum(np.sqrt(squared) / reach, 1.0) * UNITS), dtype=np.int64)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedDistance(Prepared):
    """A sum of distances with its noise fixed."""

    query: DistanceQuery
    landscape: Landscape
    noise: TwoSidedGeometric

    def work(self, rows: int) -> Operations:
        """Return what the nearest points and the distances from them take at most."""
        p, points = self.landscape.space.dimension, len(self.landscape.points)
        distances = Operations(steps=200.0 + 20.0 * p, passes=(60.0 * p + 40.0) * rows)
        return self.noise.work() + self.landscape.work(rows, [points]) + distances

    @property
    def loads(self) -> tuple[Callable[[], None], ...]:
        """The code of the search."""
        return (self.landscape.load,)

    def compute(self, rows: Parts[AdmittedTable]) -> DistanceRelease:
        """Draw the noise, sum, add and release."""
        noise = self.noise.draw()
        return DistanceRelease(
            units=noise + rows.total(self.units), noise_sd=self.noise.variance**0.5, events=self.events
        )

    def units(self, table: AdmittedTable) -> int:
        """Return the sum of distances of a table, in units."""
        return int((in_units(self.landscape.squared_distances(table), self.query.reach) * table.complete).sum())


def prepare_distance(query: DistanceQuery, site_facts: SiteFacts) -> PreparedDistance:
    """Find the public points and fix the noise."""
    return PreparedDistance(
        needs=query.space.names,
        events=(PrivacyEvent(ran=MechanismName.DISTANCE, epsilon=query.epsilon),),
        query=query,
        landscape=landscape_of(query.space, query.support, query.public_sha256, site_facts),
        noise=TwoSidedGeometric(rate=query.epsilon / UNITS),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedChoice(Prepared, ABC):
    """A choice among candidates, with everything public fixed."""

    choice: PermuteAndFlip

    @abstractmethod
    def costs(self, table: AdmittedTable) -> IntArray:
        """Return what the rows of a table add to the cost of each candidate."""

    @property
    def fixed(self) -> Sequence[int]:
        """What is public in the cost of each candidate."""
        return ()

    def compute(self, rows: Parts[AdmittedTable]) -> SelectionRelease:
        """Sum the costs, choose and release."""
        costs = rows.total(self.costs).tolist()
        costs = [cost + penalty for cost, penalty in zip_longest(costs, self.fixed, fillvalue=0)]
        return SelectionRelease(choice=self.choice.draw(costs), events=self.events)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedSelection(PreparedChoice):
    """A choice among sizes; ``penalties`` in integer units."""

    query: SelectionQuery
    landscape: Landscape
    penalties: tuple[int, ...]

    @property
    def fixed(self) -> Sequence[int]:
        """The penalty of each size."""
        return self.penalties

    def work(self, rows: int) -> Operations:
        """Return what the nearest points for each size, their distances and the choice take at most."""
        K = len(self.query.sizes)
        distances = Operations(steps=100.0 + 20.0 * K, passes=20.0 * K * rows)
        return self.choice.work(K) + self.landscape.work(rows, self.query.sizes) + distances

    @property
    def loads(self) -> tuple[Callable[[], None], ...]:
        """The code of the search."""
        return (self.landscape.load,)

    def costs(self, table: AdmittedTable) -> IntArray:
        """Return the sum of distances for each size."""
        return distance_units(self.query, self.landscape, table)


def distance_units(query: SelectionQuery, landscape: Landscape, table: AdmittedTable) -> IntArray:
    """Return the sum over complete rows of the distance to the nearest of the first points, for each size (K,)."""
    totals, complete = np.zeros(len(query.sizes), dtype=np.int64), table.complete
    for part, block in landscape.neighbours(table, query.sizes):
        totals += (in_units(block.squared, query.reach) * complete[part]).sum(axis=1)
    return totals


def prepare_selection(query: SelectionQuery, site_facts: SiteFacts) -> PreparedSelection:
    """Find the public points and fix the rate."""
    return PreparedSelection(
        needs=query.space.names,
        events=(PrivacyEvent(ran=MechanismName.SELECTION, epsilon=query.epsilon),),
        ahead=query.ahead,
        query=query,
        landscape=landscape_of(query.space, query.order, query.public_sha256, site_facts),
        penalties=tuple(round(Fraction(value) / Fraction(query.reach) * UNITS) for value in query.penalties),
        choice=PermuteAndFlip(rate=query.epsilon / UNITS),
    )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedLossSelection(PreparedChoice):
    """A choice among coefficients."""

    query: LossSelectionQuery
    design: Design

    def work(self, rows: int) -> Operations:
        """Return what the losses of all candidates and the choice take at most."""
        D, K = len(self.query.candidates[0]), len(self.query.candidates)
        of_one = product_work(rows, D, by_columns=False)
        losses = K * (of_one + Operations(steps=20.0, passes=30.0 * rows, functions=4.0 * rows))
        return self.choice.work(K) + self.design.work(rows) + losses + Operations(steps=60.0)

    def costs(self, table: AdmittedTable) -> IntArray:
        """Return the sum of excess losses of each candidate."""
        return np.asarray(excess_units(self.query, self.design, table).sum(axis=1))


def excess_units(query: LossSelectionQuery, design: Design, table: AdmittedTable) -> IntArray:
    """Return how much more than the best candidate each one (K,) costs each row (n,), in units from 0 to `UNITS`.

    A row with a missing cell costs nothing.
    """
    X, y = design.matrix(table), table.numeric[design.response]
    eta = np.stack([row_products(X, np.array(candidate)) for candidate in query.candidates])
    losses = np.floor(np.minimum(_loss(eta, y) / query.reach, MOST_LOSS) * UNITS).astype(np.int64)
    return np.asarray(np.minimum(losses - losses.min(axis=0), UNITS) * table.complete)


def _loss(eta: FloatArray, y: FloatArray) -> FloatArray:
    """Return the logistic loss; linear predictors are finite, as columns and coefficients are bounded."""
    return np.asarray(np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta))) - y * eta)


def prepare_loss(query: LossSelectionQuery, site_facts: SiteFacts) -> PreparedLossSelection:
    """Read the formula and fix the rate."""
    check_one_row(site_facts, "a choice by loss is for people")
    width = len(query.candidates[0])
    design = binary_design(query.formula, site_facts.schema, coefficients=width, what="a choice by loss")
    return PreparedLossSelection(
        needs=design.needs,
        events=(PrivacyEvent(ran=MechanismName.SELECTION, epsilon=query.epsilon),),
        ahead=query.ahead,
        query=query,
        design=design,
        choice=PermuteAndFlip(rate=query.epsilon / (UNITS * site_facts.relation.persons_changed)),
    )
