r"""Subsample and aggregate (Smith 2008; Chen and Sung, algorithm 1, corrected): pure epsilon, replace-one.

Row ``i`` of ``n`` belongs to block ``floor(i k / n)``. In each of the ``k`` blocks the parameters of a family are
estimated by maximum likelihood, corrected for bias by the size ``t`` of the *block*, and **projected** on a public box
:math:`\Theta = \prod_j [l_j, l_j + \Lambda_j]`. Each estimate is rounded to an integer number of :math:`2^{-20}
\Lambda_j` from :math:`l_j`, between 0 and :math:`2^{20}` whatever the rows of its block are; integers are added; and
the sums are released with integer noise

.. math:: P[z] \propto e^{-\rho \max_j |z_j|}, \qquad \rho = \epsilon / 2^{20}

(`hdpstats.noise.knorm`). For the mean of the blocks that is noise of scale :math:`\Lambda / (k \epsilon)`.

**Sensitivity.** Replacing the record of a row changes one block, hence one estimate, which moves by at most
:math:`2^{20}` in each coordinate: :math:`2^{20}` in the maximum norm, attained where a block's estimate jumps from one
corner of the box to the opposite one. A row with a missing cell is left out of its block, whose estimate is then that
of its other rows, or the middle of the box where there are none: within the box in any case. Without the projection
there is no bound: one record of 1e6 moves a mean of ten blocks of ten rows by 10,000. Nor is there one unless the
blocks are made without a look at values, in one of two ways.

*By rows, where their order is declared.* Neighbours are two tables of ``n`` rows of which the same row, say number
``r``, holds different records, all others being equal and at equal numbers. Blocks depend on numbers of rows and on the
public ``n`` only, so that row ``r`` is in one block, the same in both tables, and the other blocks are equal. Whether
two *sets* of people that differ in one person lead to such tables is decided by whoever wrote them down. If the order
was made without a look at values (of arrival, of a register, by chance), the person who takes another's place stands
where that one stood, or, for an order by chance, the orders of both sets can be paired so that this holds in each pair,
and an average over pairs has the same guarantee. In a table sorted by a value it is false: one person moved from one
end to the other shifts all rows between by one place, every block changes, and the sum moves by up to ``k`` times
:math:`2^{20}`. No program can see from rows how they were ordered. So the *site* must declare it
(`hdpstats.sites.site.SiteTerms.row_order`), as it declares bounds; a query cannot, and is refused without.

*By persons, where they are named* (a unit, one row each, the first). A person's block is a hash of the name, whatever
the order of rows, so that a row moves the block of its own name and no other. But whoever replaces a person has another
name: **two** blocks change, the sensitivity is :math:`2 \cdot 2^{20}`, and :math:`\rho = \epsilon / 2^{21}`. A name
must not be made from values either, such as a person's rank: that the names of the others stay is what neighbours are
under a unit. A column that identifies people is used for this where it is declared as the unit, and not otherwise:
whether a column of the schema has a name of its own for every person cannot be seen from rows.

**Guarantee.** The exponents of an output under neighbours differ by at most :math:`\rho 2^{20} = \epsilon`: epsilon-DP
for the whole vector, once, not once per block. Independent Laplace noise with the Euclidean diameter of the box as its
scale, as a vector is printed, is only :math:`\sqrt d \epsilon`-DP.

**How many blocks.** The query follows from public facts. For a scalar, the mean squared error is, to first order,

.. math:: \frac{1}{n I} + \frac{2 \Lambda^2}{k^2 \epsilon^2} + \frac{C k^3}{n^3},

sampling, noise, and the square of what the correction leaves of the bias, :math:`O(t^{-3/2})`; it is least at
:math:`k^* = (4 \Lambda^2 n^3 / (3 C \epsilon^2))^{1/5}`. With ``d`` parameters the 2 is :math:`(d + 1)(d + 2) / 3`.
A mean over ``M`` sites has an ``M``-th of the first two terms and all of the third, as sites share their bias: then
:math:`k^* = (4 \Lambda^2 n^3 / (3 C M \epsilon^2))^{1/5}`. Where sites differ in size, a site that holds a share
:math:`w` of all records, and thus has that weight, is one of ``M = 1 / w``: the derivative of the error in its ``k`` is
:math:`w^2` times that of its noise plus ``w`` times that of the common bias.

References
----------
A. Smith (2008), Efficient, differentially private point estimators. W.-N. Chen, J. Sung, Differentially private
parameter estimation from distributed sources.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.work import Operations, sorting
from hdpstats.losses.families import Family, corrected
from hdpstats.mechanisms.base import DistributionMethod, DistributionTask, Prepared
from hdpstats.mechanisms.statistics import UNITS, in_units
from hdpstats.mechanisms.statistics.estimate import from_blocks, inside
from hdpstats.mechanisms.statistics.site import family_at, statistics_work
from hdpstats.mechanisms.subsample import SubsampleAggregate, SubsampleQuery, SubsampleRelease
from hdpstats.noise.distributions import box_variance
from hdpstats.noise.knorm import BoxNoise
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.schema.partitions import Parts
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import AdmittedTable, joined, marks_key

FEWEST_IN_BLOCK = 25
"""Rows that a block should have: with fewer, estimates of order 1/t are far from their limits."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedSubsample(Prepared):
    """Estimates from blocks with their noise fixed; ``records`` is the public number of people."""

    query: SubsampleQuery
    family: Family
    noise: BoxNoise
    records: int

    @property
    def whole(self) -> bool:
        """It is no sum over partitions."""
        return True

    def work(self, rows: int) -> Operations:
        """Return what the statistics of so many rows and the estimates of the blocks take at most."""
        d, blocks = len(self.family.parameters), self.query.blocks
        dealt = Operations(steps=100.0, passes=(20.0 + 10.0 * d) * rows, sorts=2.0 * sorting(rows))
        estimates = Operations(steps=200.0, passes=100.0 * (d + 1.0) * blocks, functions=60.0 * d * blocks)
        return self.noise.work + statistics_work(rows, d) + dealt + estimates

    def compute(self, rows: Parts[AdmittedTable]) -> SubsampleRelease:
        """Draw the noise, estimate in blocks, project, sum, add and release."""
        table = rows.gathered(joined)
        noise = self.noise.draw()
        units = (units_of_blocks if self.query.by == "rows" else units_of_persons)(self.query, self.family, table)
        return SubsampleRelease(
            units=tuple(z + int(total) for z, total in zip(noise, units.sum(axis=0), strict=True)),
            noise_rate=float(self.noise.rate),
            records=self.records,
            blocks=self.query.blocks,
            events=self.events,
        )


def prepare(query: SubsampleQuery, site_facts: SiteFacts) -> PreparedSubsample:
    """Fix the noise, or refuse what the proof does not cover."""
    named = query.by == "persons"
    if named and site_facts.unit is None:
        raise MechanismError("blocks by persons need people who are named: this site's have no unit")
    if not named and site_facts.unit is None:
        check_order(site_facts.row_order)
    family = family_at(query.family, query.column, site_facts, named=named)
    d = len(family.parameters)
    if len(query.box) != d:
        raise MechanismError(f"the box must have an interval for each of {', '.join(family.parameters)}")
    if query.blocks > site_facts.records:
        raise MechanismError(f"{site_facts.records} people cannot be divided into {query.blocks} blocks")
    noise = BoxNoise(dimension=d, rate=query.epsilon / (UNITS * blocks_of_neighbours(query.by)))
    return PreparedSubsample(
        needs=(query.column,),
        events=(
            PrivacyEvent(ran=MechanismName.SUBSAMPLE, epsilon=query.epsilon),
        ),  # once, whatever the number of blocks
        key=marks_key(query.schema_sha256) if named else None,  # of the hash that deals people to blocks
        query=query,
        family=family,
        noise=noise,
        records=site_facts.records,
    )


def check_order(row_order: str) -> None:
    """Refuse blocks of rows where whoever holds them has not declared that their order was not made from values."""
    if row_order != "arbitrary":
        raise MechanismError(
            "subsample and aggregate makes blocks of consecutive rows, which is private only where the order of rows "
            "was not made from their values (sorted by none), and the site has not declared that. Where it is so, who "
            "holds the rows declares it: hdp.Study(..., row_order='arbitrary'), hdp.LocalSite(..., "
            "row_order='arbitrary'), or 'persons: {row_order: arbitrary}' in the settings of a service. Else name "
            "people by unit=..., max_rows_per_unit=1, at twice the noise; or use 'statistics', which needs no order",
            available=("statistics",),
            row_order=row_order,
        )


def units_of_blocks(query: SubsampleQuery, family: Family, table: AdmittedTable) -> IntArray:
    """Return the projected estimate of each block (k, d), in 2^-20 of the box: a row depends on its block's rows."""
    starts, complete = starts_of_blocks(table.rows, query.blocks), table.complete.astype(np.float64)
    values = family.statistics(table.numeric[query.column]) * complete[:, None]
    return _in_units(
        query, family, sums=np.add.reduceat(values, starts, axis=0), counts=np.add.reduceat(complete, starts)
    )


def units_of_persons(query: SubsampleQuery, family: Family, table: AdmittedTable) -> IntArray:
    """Return the projected estimate of each block (k, d), people being dealt to blocks by their marks.

    Of a person's rows the first complete one counts; rows that name nobody do not. Sums are taken block by block in the
    order of rows, so that a row moves nothing in another block.
    """
    if table.marks is None or table.persons is None:
        raise MechanismError("blocks by persons need people who are named")
    who, first = np.unique(np.where(table.complete, table.persons, -1), return_index=True)
    kept = first[who >= 0]
    block = table.marks[kept] % query.blocks
    values = family.statistics(table.numeric[query.column][kept])
    counts = np.bincount(block, minlength=query.blocks).astype(np.float64)
    sums = np.column_stack([np.bincount(block, weights=column, minlength=query.blocks) for column in values.T])
    return _in_units(query, family, sums=np.asarray(sums, dtype=np.float64), counts=counts)


def _in_units(query: SubsampleQuery, family: Family, *, sums: FloatArray, counts: FloatArray) -> IntArray:
    """Return projected estimates (k, d) from the sums (k, d) of statistics of so many rows (k,) in each block."""
    with np.errstate(all="ignore"):
        means = sums / counts[:, None]
    return in_units(corrected(family, means, counts), query.box)


def blocks_of_neighbours(by: str) -> int:
    """Return how many blocks change where one person is replaced: 1 by rows, 2 by a hash of who it is."""
    return 1 if by == "rows" else 2


def starts_of_blocks(rows: int, blocks: int) -> IntArray:
    """Return the first row of each block (k,), row ``i`` of ``n`` being in block ``floor(i k / n)``.

    >>> starts_of_blocks(10, 3).tolist()
    [0, 4, 7]
    """
    return np.asarray(-(-np.arange(blocks, dtype=np.int64) * rows // blocks))


def optimal_blocks(
    records: int, *, epsilon: float, widths: FloatArray, spreads: FloatArray, parties: float = 1.0
) -> int:
    """Return ``k*``, with blocks of 25 rows or more.

    Parameters
    ----------
    records
        ``n``.
    epsilon
        What the release costs.
    widths : (d,)
        The lengths of the box.
    spreads : (d,)
        Square roots of the diagonal of the inverse information of one value. The bias that is left is taken to be of
        the size ``spreads / t^(3/2)``, that is ``C = 1 / I``, and parameters count by their relative errors.
    parties
        ``M``: the records at all sites over those at this one.

    Examples
    --------
    >>> optimal_blocks(4000, epsilon=2.0, widths=np.array([1.5]), spreads=np.array([1.0]))
    137
    """
    ratio = float(np.mean((widths / spreads) ** 2))
    best = (2.0 * box_variance(len(widths), epsilon) * ratio * float(records) ** 3 / (3.0 * parties)) ** 0.2
    return int(max(1, min(round(best), records // FEWEST_IN_BLOCK)))


ROUNDS = 50
"""Of the search for the number of blocks, which decides how wide a window is, which decides the number."""


def query_of_blocks(options: SubsampleAggregate, task: DistributionTask) -> SubsampleQuery:
    """Return the query of a fit by blocks: on the ranges, or on a window around the public estimate."""
    by, records = "rows" if task.unit is None else "persons", task.records
    place = inside(task.guess, task.ranges, records=records)
    spreads = np.sqrt(np.diag(np.linalg.inv(task.family.information(place))))
    ranges = np.array(task.ranges, dtype=np.float64).T

    def box(blocks: int) -> FloatArray:
        if not task.public or options.window is None:
            return ranges
        half = options.window * spreads * np.sqrt(blocks / records + 1.0 / task.public)
        return np.asarray(np.clip([place - half, place + half], ranges[0], ranges[1]))

    def best(blocks: int) -> int:
        (lower, upper), parties = box(blocks), task.people / records
        epsilon = float(task.epsilon) / blocks_of_neighbours(by)
        return optimal_blocks(records, epsilon=epsilon, widths=upper - lower, spreads=spreads, parties=parties)

    if options.blocks is not None and options.blocks > records:
        raise MechanismError(f"blocks must be at most {records}, the people at a site, not {options.blocks}")
    blocks = options.blocks or 1
    for _ in range(0 if options.blocks else ROUNDS):
        blocks = best(blocks)
    return SubsampleQuery(
        column=task.column,
        family=task.family.name,
        box=tuple((float(low), float(high)) for low, high in box(blocks).T),
        blocks=blocks,
        by=by,
        epsilon=task.epsilon,
        schema_sha256=task.schema_sha256,
        replicate=task.replicate,
    )


def _words(releases: Sequence[SubsampleRelease]) -> str:
    """Return how many blocks there were at a site, and how small."""
    low, high = min(each.blocks for each in releases), max(each.blocks for each in releases)
    fewest, number = min(each.records // each.blocks for each in releases), low if low == high else f"{low} to {high}"
    return f"subsample and aggregate (Chen and Sung, algorithm 1), {number} blocks of {fewest} people or more"


def _check(row_order: str, unit: str | None) -> None:
    if unit is None:
        check_order(row_order)


def _expected(query: SubsampleQuery, place: FloatArray, site_facts: SiteFacts) -> SubsampleRelease:
    """Return what a site would release but for the noise, where the estimate of every block is a place (d,)."""
    prepared, (lower, upper) = prepare(query, site_facts), np.array(query.box).T
    share = np.clip((place - lower) / (upper - lower), 0.0, 1.0)
    return SubsampleRelease(
        units=tuple(np.rint(query.blocks * share * UNITS).astype(np.int64).tolist()),
        noise_rate=float(prepared.noise.rate),
        records=prepared.records,
        blocks=query.blocks,
        events=prepared.events,
    )


METHOD: Final = DistributionMethod(
    words=_words, ask=query_of_blocks, read=from_blocks, check=_check, expected=_expected
)
"""How blocks of people fit a distribution."""
