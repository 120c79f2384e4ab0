r"""How many private people each of a set of public points stands for: nearest points, pure epsilon.

Every private person is mapped into the unit cube by public ranges (`hdpstats.formulas.points`) and counted at the
nearest of the public points, the first of several at the same distance (`hdpstats.solvers.nearest`); the counts are
released with independent two-sided geometric noise, exact in integers (`hdpstats.noise.geometric`). It is algorithm 1
of Wang et al. (2018) with what it leaves unsaid: points that are different, ties that a public rule breaks, public
ranges.

**One count per person.** A row is a person; a site whose people have several rows is refused. The point that a row is
counted at depends on that row and public constants alone, to the last bit: were a rounded distance to depend on the
rows beside it, one person could move the counts of many. Were a person counted at *every* nearest point, as where
points come twice, one could move as many counts as there are ties. Were the cube scaled by the range of all rows, one
could move everybody.

**Sensitivity.** In the L1 norm: adding or removing a person changes one count by 1; replacing one takes 1 from a count
and adds 1 to another: 1 and 2, both attained.

**Work.** At most all pairs of a row and a point are compared, with which search does not depend on the number of rows
where that is private (`hdpstats.solvers.nearest`).

**Guarantee.** With rate :math:`\rho` the probabilities of released counts under neighbours differ by at most
:math:`\exp(\rho \|c - c'\|_1)`: :math:`\rho = \epsilon / 2` (replace-one) or :math:`\epsilon` (add-or-remove-one) is
epsilon-DP.

References
----------
Wang, Ji, Kim, Wang, Xiong and Jiang (2018), Selecting optimal subset to release under differentially private
    M-estimators from hybrid datasets.
Ghosh, Roughgarden and Sundararajan (2012), Universally utility-maximizing privacy mechanisms.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.errors import SiteError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.formulas.points import check_space, distinct, embed
from hdpstats.mechanisms.base import Prepared, SiteFacts
from hdpstats.mechanisms.neighbours.query import NeighboursQuery, NeighboursRelease
from hdpstats.mechanisms.person_loss.base import sensitivity_factor
from hdpstats.noise.geometric import TwoSidedGeometric
from hdpstats.privacy.event import MechanismName, PrivacyEvent
from hdpstats.records.limits import MOST_NUMBERS, MOST_POINTS, check_size
from hdpstats.records.points import PointSpace
from hdpstats.schema.table import AdmittedTable
from hdpstats.solvers.nearest import Nearest, blocks, search_among, squared_distances


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Landscape:
    """Public points (m, p) of a space, in an order that breaks ties; ``records`` is the public number of rows."""

    space: PointSpace
    points: FloatArray
    records: int

    def neighbours(self, table: AdmittedTable, sizes: Sequence[int]) -> Iterator[Nearest]:
        """Yield the nearest of the first so many points for blocks of rows, which are mapped block by block."""
        search = search_among(self.points, sizes, rows=self.records)
        for part in blocks(table.rows, dimension=self.space.dimension):
            yield search.answer(embed(self.space, table, part=part))

    def squared_distances(self, table: AdmittedTable) -> FloatArray:
        """Return the squared distance (n,) of each row as it is, not clipped to the public ranges, from its point."""
        found = np.empty(table.rows)
        parts = blocks(table.rows, dimension=self.space.dimension)
        for part, block in zip(parts, self.neighbours(table, [len(self.points)]), strict=True):
            rows = embed(self.space, table, part=part, clip=False)
            found[part] = squared_distances(rows, self.points[block.place[0]])
        return found

    def counts(self, table: AdmittedTable) -> IntArray:
        """Return the number of rows (m,) to which each point is the nearest."""
        found = np.zeros(len(self.points), dtype=np.int64)
        for block in self.neighbours(table, [len(found)]):
            found += np.bincount(block.place[0], minlength=len(found))
        return found


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedNeighbours(Prepared):
    """A histogram over public points with its noise fixed."""

    query: NeighboursQuery
    landscape: Landscape
    noise: TwoSidedGeometric

    def compute(self, table: AdmittedTable) -> NeighboursRelease:
        """Draw the noise, count, add and release."""
        noise = self.noise.draws(len(self.landscape.points))
        counts = self.landscape.counts(table).tolist()
        return NeighboursRelease(
            counts=tuple(count + z for count, z in zip(counts, noise, strict=True)),
            noise_variance=self.noise.variance,
            events=self.events,
        )


def prepare(query: NeighboursQuery, site_facts: SiteFacts) -> PreparedNeighbours:
    """Find the public points and fix the noise."""
    landscape = landscape_of(query.space, query.support, query.public_sha256, site_facts)
    rate = query.epsilon / sensitivity_factor(site_facts.relation)
    return PreparedNeighbours(
        needs=query.space.names,
        events=(PrivacyEvent(ran=MechanismName.HISTOGRAM, epsilon=query.epsilon),),
        ahead=query.ahead,
        query=query,
        landscape=landscape,
        noise=TwoSidedGeometric(rate=rate),
    )


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
    if site_facts.unit is not None:
        raise SiteError("this site's people have several rows each; nearest points count people with one row")
    check_space(space, site_facts.schema)
    public = site_facts.table(public_sha256).admitted(space.names)
    check_size("numbers in public points", public.rows * space.dimension, MOST_NUMBERS, remedy="take fewer public rows")
    points = embed(space, public)
    rows = distinct(points)[0] if support is None else np.array(support, dtype=np.int64)
    if not len(rows) or int(rows.max()) >= len(points):
        raise SiteError("the query names public rows that are not complete in its columns; write it for this table")
    check_size("public points", len(rows), MOST_POINTS, remedy="name fewer rows of the public table")
    return Landscape(space=space, points=np.ascontiguousarray(points[rows]), records=site_facts.records)
