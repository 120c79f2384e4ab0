r"""A description of the cohort: box noise on centred features of groups, geometric noise on counts of cells.

**What is summed.** A person of group ``g`` has a block of features, each in :math:`[-1/2, 1/2]`; the blocks of all
other groups are 0. A block has :math:`t_0 = 1/2`, and for each column

* whether the cell is missing: 1/2 if so, else -1/2 (not for columns that the schema declares complete, nor where only
  complete rows count);
* of a number at the place ``a`` of its range, cut to [0, 1]: :math:`a - 1/2`, and :math:`(a - c)^2 / \max(c, 1 - c)^2 -
  1/2` about a public centre ``c`` (in the query of a fit not of numbers that are 0 or 1 in public rows);
* of a category with ``L`` levels: for each level but the last 1/2 if it is that of the cell, else -1/2;

for each of some public times, in the query of a fit, 1/2 if follow-up ends after it, else -1/2; for each pair of some
columns, where everybody who counts has their cells, half of the product of both values about public centres in public
units, cut and divided by what it is cut to (`DescribedPairs`); and where numbers of rows are described (people have
several) for each public group of numbers but the last 1/2 if a person's number of rows is in it, else -1/2, and that
number over the largest one, less 1/2. The query of a fit may cut numbers to a range inside the declared one, and has no
:math:`t_0`: the number of people is asked for by itself.

*Missing means left out:* where the cell is missing, the features of its value are 0. A person of whom the group or the
weight is missing, or where only complete rows count any cell, has features that are all 0. With case weights between 0
and a declared :math:`w_{max}` a block is multiplied by :math:`b = w / w_{max}`, and :math:`b^2 / 2` stands beside
:math:`t_0`: then the first two sums are half the total of weights and half that of their squares. Where the number of
people is public and everybody counts, :math:`t_0` is left out.

Overlap weights (`hdpstats.families.overlap_weights`) are such a ``b``: in [0, 1], a function of the row of that person
that is described and of public coefficients. Who lacks a cell of the query weighs 0, in the cell "incomplete" of
follow-up too.

Each feature is rounded to an integer number of :math:`2^{-20}`, at most :math:`2^{19}` in size; integers are added,
exactly and in any order. The map from a person to integers is total and depends on that person's rows alone. Of a
person with several rows (a unit) it is the first row that is complete in all columns of the query, or in those that it
names for this (``first``), else the first one; rows that name nobody are nobody's. Where follow-up has a beginning, the
rows of a person are joined to one span (`hdpstats.mechanisms.description.people`). *All rows:* the query of a fit to
people with several rows takes of each the weighted sum of the blocks of the complete rows that are used, ``n`` of them
at most ``m``, with the weights :math:`w(n) / W` times :math:`w / w_{max}` (`hdpstats.families.several_rows`). They add
up to ``b`` in [0, 1], so that the sum lies in the convex hull of 0 and the blocks of rows: its entries are at most 1/2
in size. Groups of numbers of rows are multiplied by ``b``, and :math:`b / 2` stands first where ``b`` is not 1 for
everybody; the number of rows is not multiplied. Each entry is rounded once more, person by person, which the cut to
:math:`\pm 1/2` keeps in the bound. A person is one unit: whoever takes another's place may bring any rows, of any
number and order.

**Sensitivity of sums.** In the norm :math:`\|T\| = \sum_g \max_j |T_{gj}|`, with ``d`` sums in a group: 1 under
replace-one and 1/2 under add-or-remove-one, in units of :math:`2^{20}`. *Proof.* Adding or removing a person adds or
takes away one block of maximum norm at most 1/2. If a person is replaced by one of the same group, one block changes,
each entry by at most 1/2 + 1/2. If by one of another group, one block loses and another one gains a vector of maximum
norm at most 1/2: 1/2 + 1/2. A person who does not count has a block of zeros, a special case of each. QED. So groups
cost no epsilon under either relation, although the group is private. (Features in [0, 1] would have 2 where the group
changes.) All three are attained.

**Noise of sums.** Each group has its own box noise of dimension ``d`` (`hdpstats.noise.knorm`), independent of the
others:

.. math:: P[V] \propto \exp(-\rho \sum_g \max_j |V_{gj}|)

with :math:`\rho = \epsilon / 2^{20}` under replace-one and twice that under add-or-remove-one. *Guarantee.* The
exponents of an output under neighbours differ by at most :math:`\rho \|T - T'\| \le \epsilon` (triangle inequality),
for the whole vector. The standard deviation of a sum is :math:`\sqrt{(d + 1)(d + 2) / 3} / \epsilon` people (half of it
under add-or-remove-one), the same in every group.

**Cells.** For its quartiles the range of a column is cut into public cells, one more for missing cells where these are
counted; a person is in one cell of each of ``c`` columns, of the own group. Cells of follow-up are a table of one cell
per person: group, interval and what happened in it, or group and "stayed on", or "incomplete" for everybody of whom
group, time or event is missing. Where follow-up may begin after time 0, a person who begins in an interval is in a
second cell, of group and that interval. *Sensitivity* in the L1 norm: ``c`` counts (for follow-up 1, or 2 with
beginnings) under add-or-remove-one, twice that under replace-one, whether or not the group changes; with weights as
many times :math:`2^{20}` units. *Proof.* The table is a sum over people of vectors with at most ``c`` entries that are
not 0, each at most 1 in size. Adding or removing a person adds or takes away one of them; replacing a person takes one
away and adds another. QED. All are attained, by people whose cells all differ. *Noise:* two-sided geometric at the
rate epsilon over that (`hdpstats.noise.discrete`).

**Gaussian.** With a delta each part has rounded normal noise instead (`hdpstats.noise.normal`), exactly
:math:`\mu`-GDP with :math:`\mu = \Delta_2 / s`. In the Euclidean norm counts have the square ``c`` or ``2 c`` (entries
that differ are +-1, in different cells), and sums that of
`square_sensitivity`. Weighted descriptions, and those with pairs, are pure.

**Parts.** Sums, cells and follow-up are mechanisms on the same records that are fixed before any of them runs: their
epsilons add up to the query's, or their squares of :math:`\mu` to one that implies its (epsilon, delta).

References
----------
M. Hardt, K. Talwar (2010), On the geometry of differential privacy. A. Ghosh, T. Roughgarden, M. Sundararajan (2012),
Universally utility-maximizing privacy mechanisms. R. S. Woodruff (1952), Confidence intervals for medians and other
position measures.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np

from hdpstats._base.caching import remembered
from hdpstats._base.compiled import SMALLEST_COMPILED, Loops
from hdpstats._base.errors import MechanismError, SchemaError, SiteError
from hdpstats._base.typing import IntArray
from hdpstats._base.work import Operations, sorting
from hdpstats.families.overlap_weights import weighting_design, weighting_work
from hdpstats.formulas import Design
from hdpstats.mechanisms.base import Prepared
from hdpstats.mechanisms.description import UNITS, DescribedColumn, DescriptionQuery, DescriptionRelease
from hdpstats.mechanisms.description.people import (
    cells_of,
    follow_up_of,
    pairs_in_one_pass,
    people_of,
    sums_in_one_pass,
    sums_of,
)
from hdpstats.noise.discrete import TwoSidedGeometric
from hdpstats.noise.distributions import box_variance
from hdpstats.noise.exact import sqrt_up
from hdpstats.noise.knorm import BoxNoise
from hdpstats.noise.normal import RoundedNormal
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.privacy.sensitivity import Relation
from hdpstats.schema.columns import Binary, Categorical, Column, Duration, NumericColumn, Weight
from hdpstats.schema.partitions import Parts
from hdpstats.schema.schema import Schema
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import AdmittedTable

CountNoise = TwoSidedGeometric | RoundedNormal


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedDescription(Prepared):
    """A description with its noise fixed.

    Attributes
    ----------
    query : DescriptionQuery
        What is described.
    noise : tuple of BoxNoise or of RoundedNormal
        That of the sums: a box for each group, or one vector for all of them; empty without sums.
    cells, follow_up : TwoSidedGeometric, RoundedNormal or None
        That of the counts.
    sds : tuple of float
        The standard deviations of the noise of sums, cells and follow-up, in people.
    records : int or None
        The number of people where it is public and all of them count.
    design : Design or None
        That of the model by which people are weighted.
    """

    query: DescriptionQuery
    noise: tuple[BoxNoise | RoundedNormal, ...]
    cells: CountNoise | None
    follow_up: CountNoise | None
    sds: tuple[float, float, float]
    records: int | None
    design: Design | None = None

    @property
    def loops(self) -> frozenset[Loops]:
        """Those over features, and those of a fit that may follow: see `PreparedCount`."""
        features = Loops.SUMS if sums_in_one_pass(self.query) else Loops.DESCRIPTIONS
        return frozenset({features, Loops.REGRESSIONS} | ({Loops.PAIRS} if self.query.pairs else set()))

    def work(self, rows: int) -> Operations:
        """Return what so many rows take at most: a few operations for each sum of a group, and for each table."""
        query = self.query
        noise = sum((part.work for part in self.noise), Operations(steps=100.0))
        for part, count in ((self.cells, query.cells), (self.follow_up, query.follow_up_cells)):
            if part is not None:
                noise = noise + (part.work(count) if isinstance(part, TwoSidedGeometric) else part.work)
        counts = query.groups * query.dimension + query.cells + query.follow_up_cells
        people = Operations(steps=400.0, passes=(200.0 + 6.0 * len(query.names)) * rows, sorts=8.0 * sorting(rows))
        tables = len(query.with_cells) + 2.0
        looked_up = sum(sorting(rows, len(column.cuts) + 2) for column in query.with_cells)
        pairs = len(query.pairs.places) if query.pairs is not None and pairs_in_one_pass(query) else 0
        by_itself = Operations(steps=40.0, passes=4.0 * query.groups)
        sums = query.dimension * by_itself + (query.dimension - pairs) * Operations(passes=24.0 * rows)
        sums = sums + pairs * Operations(passes=24.0 * min(rows, SMALLEST_COMPILED) + 6.0 * rows)
        if query.rows is not None:
            people = people + Operations(
                steps=200.0, passes=(40.0 + 6.0 * len(query.names)) * rows, sorts=4.0 * sorting(rows)
            )
            sums = sums + query.dimension * Operations(steps=30.0, passes=20.0 * rows)
        cells = Operations(steps=60.0 * tables, passes=30.0 * tables * rows, sorts=looked_up + 4.0 * sorting(rows))
        if self.design is not None and query.weighting is not None:
            people = people + weighting_work(query.weighting, self.design, rows)
        return noise + people + sums + cells + Operations(steps=0.5 * counts, passes=30.0 * counts)

    def compute(self, rows: Parts[AdmittedTable]) -> DescriptionRelease:
        """Draw the noise, map every person, sum and count, add and release."""
        noise = [z for part in self.noise for z in part.draw()]
        of_cells = _draws(self.cells, self.query.cells)
        of_follow_up = _draws(self.follow_up, self.query.follow_up_cells)
        totals = rows.total(self.totals)
        sums, cells, follow_up = np.split(totals, np.cumsum([len(noise), len(of_cells)]))
        return DescriptionRelease(
            sums=_added(noise, sums),
            sums_sd=self.sds[0],
            cells=_added(of_cells, cells),
            cells_sd=self.sds[1],
            follow_up=_added(of_follow_up, follow_up),
            follow_up_sd=self.sds[2],
            records=self.records,
            events=self.events,
        )

    def totals(self, table: AdmittedTable) -> IntArray:
        """Return the sums, the counts of cells and those of follow-up of a table, one after the other."""
        people = people_of(self.query, table, self.design)
        found = sums_of(self.query, people), cells_of(self.query, people), follow_up_of(self.query, people)
        return np.concatenate(found)


def _draws(noise: CountNoise | None, count: int) -> list[int]:
    if noise is None:
        return []
    return noise.draws(count) if isinstance(noise, TwoSidedGeometric) else list(noise.draw())


def _added(noise: list[int], counts: IntArray) -> tuple[int, ...]:
    return tuple(z + count for z, count in zip(noise, counts.tolist(), strict=True))


def prepare(query: DescriptionQuery, site_facts: SiteFacts) -> PreparedDescription:
    """Fix the noise, or refuse what the proof does not cover."""
    _check(query, site_facts)
    weighting = query.weighting
    relation, costs = site_facts.relation, query.costs
    scale = UNITS if query.is_weighted else 1
    noise = _noise_of_sums(query, relation)
    with_cells = len(query.with_cells)
    cells = _noise_of_counts(query, "cells", query.cells, cells_sensitivity(with_cells, relation), scale)
    moved = cells_sensitivity(1 if query.follow_up is None else query.follow_up.counts_of_person, relation)
    follow_up = _noise_of_counts(query, "follow_up", query.follow_up_cells, moved, scale)
    return PreparedDescription(
        needs=query.names,
        events=tuple(_event(query, part, cost) for part, cost in costs.items()),
        ahead=query.ahead or query.followed_by or (),
        query=query,
        noise=noise,
        cells=cells,
        follow_up=follow_up,
        sds=(_sd(noise[0], UNITS) if noise else 0.0, _sd(cells, scale), _sd(follow_up, scale)),
        records=site_facts.records if size_is_public(query, site_facts) or _all_in_cells(query, site_facts) else None,
        design=None if weighting is None else weighting_design(weighting, site_facts.schema),
    )


def _event(query: DescriptionQuery, part: str, cost: Fraction) -> PrivacyEvent:
    if query.delta:
        ran = MechanismName.GAUSSIAN_DESCRIPTION if part == "box" else MechanismName.GAUSSIAN_HISTOGRAM
        return PrivacyEvent(ran=ran, epsilon=query.epsilon, delta=query.delta, mu_squared=cost)
    return PrivacyEvent(ran=MechanismName.DESCRIPTION if part == "box" else MechanismName.HISTOGRAM, epsilon=cost)


def _noise_of_sums(query: DescriptionQuery, relation: Relation) -> tuple[BoxNoise | RoundedNormal, ...]:
    if not query.dimension:
        return ()
    cost = query.costs["box"]
    if query.delta:
        sd = sqrt_up(square_sensitivity(query, relation) / cost)
        return (RoundedNormal(dimension=query.groups * query.dimension, sd=sd, grid=Fraction(1)),)
    rate = cost / box_sensitivity(relation)
    return tuple(BoxNoise(dimension=query.dimension, rate=rate) for _ in range(query.groups))


def _noise_of_counts(query: DescriptionQuery, part: str, size: int, people: int, scale: int) -> CountNoise | None:
    if not size:
        return None
    cost = query.costs[part]
    if query.delta:
        return RoundedNormal(dimension=size, sd=sqrt_up(people / cost), grid=Fraction(1))
    return TwoSidedGeometric(rate=cost / (people * scale))


def _sd(noise: BoxNoise | CountNoise | None, scale: int) -> float:
    """Return the standard deviation of the noise of one number in people, ``scale`` units of which are one."""
    if noise is None:
        return 0.0
    if isinstance(noise, RoundedNormal):
        return float(noise.sd) / scale
    if isinstance(noise, BoxNoise):
        return float(box_variance(noise.dimension, float(noise.rate)) ** 0.5) / scale
    return float(noise.variance**0.5) / scale


def _check(query: DescriptionQuery, site_facts: SiteFacts) -> None:
    """Refuse a query that does not fit what the site declares."""
    schema = site_facts.schema
    for column in query.columns:
        _check_column(column, schema, inside=query.is_of_fit)
    for name in query.besides or ():
        _declared(schema, name)
    if query.at_risk is not None and not isinstance(_declared(schema, query.at_risk.time), Duration):
        raise SiteError(f"this site's schema declares no duration {query.at_risk.time!r}")
    for name, levels in zip(query.grouping, query.levels_of_groups, strict=True):
        if levels_of(_declared(schema, name)) != levels:
            raise SiteError(f"this site's schema declares other levels of {name!r} than the query has groups")
    if query.weights is not None:
        weight = _declared(schema, query.weights)
        if not isinstance(weight, Weight) or weight.max != query.largest_weight:
            raise SiteError(f"this site's schema declares no weights {query.weights!r} with that largest value")
    if query.columns and query.leading == 0 and not (query.is_of_fit or size_is_public(query, site_facts)):
        raise MechanismError("the number of people that count is not public here: counted must be true")
    if query.follow_up is not None:
        _check_follow_up(query, site_facts)
    if query.first is not None and site_facts.unit is None:
        raise SiteError("the query is about the first rows of people with several; this site's people have one each")
    if query.rows is not None and (site_facts.unit is None or query.rows.most != site_facts.most_rows):
        raise SiteError(f"this site uses {site_facts.most_rows} rows of a person at most, not {query.rows.most}")


def size_is_public(query: DescriptionQuery, site_facts: SiteFacts) -> bool:
    """Return whether the number of people that count is the public number of records: all of them, in one group."""
    everybody = query.by is None and not query.is_weighted and not query.complete
    return everybody and site_facts.relation is Relation.REPLACE_ONE and site_facts.unit is None


def _all_in_cells(query: DescriptionQuery, site_facts: SiteFacts) -> bool:
    """Return whether a query asks for cells of follow-up only, which all records are in, and their number is public.

    That is so with groups as well: whoever belongs to none is in the cell "incomplete".
    """
    plain = not query.columns and not query.is_weighted
    return plain and site_facts.relation is Relation.REPLACE_ONE and site_facts.unit is None


def _check_column(column: DescribedColumn, schema: Schema, *, inside: bool) -> None:
    """Refuse another column than the declared one; a range may lie ``inside`` that one in a query of a fit."""
    declared = _declared(schema, column.name)
    if levels_of(declared) != column.levels:
        raise SiteError(f"this site's schema declares other levels of {column.name!r} than the query")
    if isinstance(declared, NumericColumn) and not column.levels:
        bounds, asked = (declared.lower, declared.upper), (column.lower, column.upper)
        if asked != bounds and not (inside and bounds[0] <= asked[0] and asked[1] <= bounds[1]):
            raise SiteError(f"this site's schema declares other bounds of {column.name!r} than the query")


def _check_follow_up(query: DescriptionQuery, site_facts: SiteFacts) -> None:
    asked = query.follow_up
    if asked is None:
        return
    time, event = _declared(site_facts.schema, asked.time), _declared(site_facts.schema, asked.event)
    start = time if asked.start is None else _declared(site_facts.schema, asked.start)
    levels = levels_of(event)
    known = levels == asked.causes + 1 if asked.level is None else asked.level < levels
    if not (isinstance(time, Duration) and isinstance(start, Duration) and known):
        raise SiteError(f"this site's schema declares another time {asked.time!r} or event {asked.event!r}")
    if asked.ends[-1] > time.horizon:
        raise MechanismError(f"times must end at {time.horizon:g} at most, the horizon of {asked.time!r}")


def _declared(schema: Schema, name: str) -> Column:
    column = schema.get(name)
    if column is None:
        raise SchemaError(f"this site's schema declares no column {name!r}", columns=(name,))
    return column


def levels_of(column: Column) -> int:
    """Return the number of levels of a column, 2 of a binary one; 0 where it holds numbers."""
    if isinstance(column, Categorical):
        return len(column.levels)
    return 2 if isinstance(column, Binary) else 0


STEPS: Final = 512
"""Of the search for the largest difference of the features of a number."""

STEEPEST: Final = 6
"""No smaller than the slope of what is searched."""


def box_sensitivity(relation: Relation) -> int:
    """Return how far one person moves the sums in the sum over groups of maximum norms, in units."""
    return UNITS * relation.persons_changed // 2


def square_sensitivity(query: DescriptionQuery, relation: Relation) -> Fraction:
    r"""Return the square of how far one person moves the sums in the Euclidean norm, in units.

    A block is at most :math:`\sqrt{d} / 2` long. Under add-or-remove-one that is all; a person who changes the group,
    or ceases to count, moves two blocks at most: :math:`\sqrt{d / 2}`. Within a group squares of differences add up
    over columns (`column_square`), and over groups of numbers of rows, of which two change by 1, and the number of
    rows. What rounding adds is at most a unit in each of the ``d`` sums.
    """
    dimension = Fraction(query.dimension)
    if relation is Relation.ADD_OR_REMOVE_ONE:
        square = dimension / 4
    else:
        within = sum((column_square(each, complete=query.complete) for each in query.columns), Fraction(0))
        within += 0 if query.at_risk is None else len(query.at_risk.after)
        within += 0 if query.rows is None else min(2, len(query.rows.ends)) + 1
        square = max(within, dimension / 2 if query.groups > 1 else dimension / 4)
    return (UNITS * sqrt_up(square) + sqrt_up(dimension)) ** 2


def column_square(column: DescribedColumn, *, complete: bool) -> Fraction:
    """Return the largest square of the distance of the features of two people of one group in one column.

    Another level moves two features by 1, or one where the other level has none of its own; another number those of
    `number_square`, or the number alone by 1. A cell that is missing moves the count of missing cells by 1, and every
    feature of a value by 1/2.
    """
    alone = column.levels or column.values == 1
    among = min(Fraction(2), Fraction(column.values)) if alone else number_square(column.centre)
    counted = column.features(complete=complete) > column.values
    left_out = Fraction(column.values, 4)
    return max(among, left_out + 1 if counted else left_out)


@remembered(1024)
def number_square(centre: float) -> Fraction:
    r"""Return an upper bound of :math:`\max_{x, y} (x - y)^2 + (u(x) - u(y))^2`, at most 0.012 above it.

    ``x`` and ``y`` are in [0, 1] and :math:`u(x) = (x - c)^2 / \max(c, 1 - c)^2`. By symmetry let :math:`c \le 1/2`.
    One of the two may then be taken as 1: if :math:`x > y` and :math:`u(x) \ge u(y)`, both terms grow with ``x``; if
    :math:`x > y` and :math:`u(x) < u(y)`, both grow as ``y`` falls to 0, and the pair (1, 1 - x) has the same first
    term and, as :math:`1 - c \ge c`, no smaller a second one. What is left is a function of one number whose slope is
    at most :math:`2 + 4 \cdot 2 \cdot \max_w w (1 - w^2) < 6`, evaluated exactly at ``STEPS`` + 1 places. The centre is
    first rounded to a multiple of 1 / ``UNITS``, so that the work is the same for all: as
    :math:`|du / dc| \le 2 / (1 - c)^2 \le 8`, a centre that is off by ``h`` changes the value by at most 16 ``h``.
    """
    near = Fraction(round(min(centre, 1.0 - centre) * UNITS), UNITS)
    far = 1 - near
    largest = max(
        (1 - y) ** 2 + (1 - ((y - near) / far) ** 2) ** 2 for y in (Fraction(i, STEPS) for i in range(STEPS + 1))
    )
    return largest + Fraction(STEEPEST, 2 * STEPS) + Fraction(16, 2 * UNITS)


def cells_sensitivity(columns: int, relation: Relation) -> int:
    """Return how many people one person is in counts of the cells of so many columns, in the L1 norm.

    It is also the square of the Euclidean norm: each of these counts moves by 1.
    """
    return columns * relation.persons_changed
