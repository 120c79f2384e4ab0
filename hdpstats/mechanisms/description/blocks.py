r"""Sums and counts of a description in people, with draws of their noise: as released, or as expected.

**Expected** is, before a release, what public rows give, or rows spread over the schema. The total map of private
people (`hdpstats.mechanisms.description.people`) is applied to public rows, and what it gives is scaled to the number
of private people. Read as a release is, that gives the standard errors which a release would report at its expectation.
Columns that public rows lack, or all where there are none, are spread evenly over what the schema declares.

**Errors** have closed forms, the same for plans and for what is reported. Noise moves a sum of a group by
:math:`\sigma` people, independently (coordinates of a box are uncorrelated). With ``A`` people that count, ``O`` of
them with a cell that is there, and :math:`v \sigma^2` the variance of the noise in ``O``:

* a share or a mean, :math:`p = 1/2 + T_p / O`, has noise of variance :math:`\sigma^2 (1 + v (p - 1/2)^2) / O^2`;
* a last level, :math:`1 - \sum_l p_l` over ``m`` others: :math:`\sigma^2 (m + v (\sum_l (p_l - 1/2))^2) / O^2`;
* a share of missing cells, :math:`p = 1/2 + T_m / A`: :math:`\sigma^2 (1 + v_A (p - 1/2)^2) / A^2`;
* a standard deviation, :math:`s^2 = f^2 (1/2 + T_q / O) - (p - c)^2`: `sd_noise`, by the delta method.

``v`` is 0 where ``A`` is public and no cell is missing, 1 where it is public, 2 where it is :math:`2 T_0` and missing
cells are counted, 4 where it is :math:`2 T_0` and they are not. Sampling adds :math:`p (1 - p) / n`, :math:`s^2 / n`
and :math:`s^2 (\kappa - 1) / 4 n` of a standard deviation, with the kurtosis :math:`\kappa` of public rows (3 without
them); with weights ``n`` is Kish's effective size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np
import pandas as pd

from hdpstats._base.typing import FloatArray
from hdpstats.families.overlap_weights import weighting_design
from hdpstats.inference import draws
from hdpstats.mechanisms.description import UNITS, DescribedColumn, DescriptionQuery, DescriptionRelease
from hdpstats.mechanisms.description.people import DescribedPeople, cells_of, follow_up_of, people_of, sums_of
from hdpstats.noise.distributions import NoiseDistribution, NormalDistribution
from hdpstats.privacy.sensitivity import BoxNorm
from hdpstats.schema.columns import Categorical, Column, NumericColumn
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import PrivateTable

DRAWS: Final = 1000
FEWEST: Final = 4.0
"""So many standard deviations of noise are the fewest people of whom anything is said."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class GroupSums:
    """The sums of one group in people, and again less each draw of their noise.

    Attributes
    ----------
    sums : (B + 1, d) float64
        The sums as released, and below them the draws.
    sd : float
        The standard deviation of the noise of each.
    records : float or None
        The number of people where it is public.
    query : DescriptionQuery
        What was asked.
    """

    sums: FloatArray
    sd: float
    records: float | None
    query: DescriptionQuery

    @property
    def people(self) -> FloatArray:
        """The number of people that count, or the total of their weights in parts of the largest one (B + 1,)."""
        if self.query.leading == 0:
            return np.full(len(self.sums), float(self.records or 0))
        return np.asarray(np.maximum(2.0 * self.sums[:, 0], 1.0))

    @property
    def people_noise(self) -> float:
        """The variance of the noise of that number, in squares of ``sd``."""
        return 4.0 if self.query.leading else 0.0

    @property
    def size(self) -> FloatArray:
        """Kish's effective size in parts of `people` (B + 1,): 1 without weights."""
        if self.query.leading < 2:
            return np.ones(len(self.sums))
        squares = np.clip(2.0 * self.sums[:, 1], np.maximum(0.01 * self.people, 1.0), self.people)
        return np.asarray(self.people / squares)

    def missing(self, place: int) -> FloatArray | None:
        """Return the share of missing cells in a column (B + 1,); None where they are not counted."""
        column = self.query.columns[place]
        if not column.counts_missing(complete=self.query.complete):
            return None
        return np.asarray(0.5 + self.sums[:, self.query.first_features[place]] / self.people)

    def observed(self, place: int) -> FloatArray:
        """Return the number of people with a cell in a column (B + 1,), at least 1."""
        missing = self.missing(place)
        share = np.zeros(len(self.sums)) if missing is None else np.clip(missing, 0.0, 1.0)
        return np.asarray(np.maximum(self.people * (1.0 - share), 1.0))

    def observed_noise(self, place: int) -> float:
        """Return the variance of the noise of that number, in squares of ``sd``: as of A, or of A / 2 - T_m."""
        return self.people_noise if self.missing(place) is None else self.people_noise / 4.0 + 1.0

    def parts(self, place: int) -> FloatArray:
        """Return ``1/2 + T / O`` for each feature of the values of a column (B + 1, features)."""
        column = self.query.columns[place]
        last = self.query.first_features[place] + column.features(complete=self.query.complete)
        first = last - column.values  # noqa: PD011
        return np.asarray(0.5 + self.sums[:, first:last] / self.observed(place)[:, None])

    @property
    def of_numbers(self) -> FloatArray:
        """The shares of people whose number of rows is in each group but the last (B + 1, groups - 1)."""
        first = self.query.first_number
        last = first + (0 if self.query.rows is None else len(self.query.rows.ends))
        return np.asarray(0.5 + self.sums[:, first:last] / self.people[:, None])

    @property
    def rows(self) -> FloatArray:
        """The number of rows of people who all count alike (B + 1,)."""
        return self.rows_of(self.people)

    def rows_of(self, people: FloatArray | float) -> FloatArray:
        """Return the number of rows (B + 1,) of so many people: ``m`` times their number's halves and the last sum."""
        most = 0 if self.query.rows is None else self.query.rows.most
        return np.asarray(np.maximum(most * (self.sums[:, -1] + people / 2.0), 0.0))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DescribedNumbers:
    """Sums and counts in people: noisy ones of sites together, or expected ones.

    Attributes
    ----------
    query : DescriptionQuery
        What was asked; of several sites, of any of them.
    sums : (G, d) float64
        Sums of features.
    noise : (G, B, d) float64
        Draws of their noise; none where ``B`` is 0.
    cells, follow_up : float64 arrays
        Counts.
    sds : (3,) float64
        Standard deviations of the noise of sums, cells and follow-up.
    records : float or None
        The number of people where it is public.
    """

    query: DescriptionQuery
    sums: FloatArray
    noise: FloatArray
    cells: FloatArray
    follow_up: FloatArray
    sds: FloatArray
    records: float | None

    def group(self, group: int) -> GroupSums:
        """Return the sums of one group."""
        rows = np.vstack([self.sums[group], self.sums[group] - self.noise[group]])
        return GroupSums(sums=rows, sd=float(self.sds[0]), records=self.records, query=self.query)

    def cells_of(self, group: int, column: DescribedColumn) -> FloatArray:
        """Return the counts of a column's cells in a group."""
        place, firsts = self.query.with_cells.index(column), self.query.first_cells
        start = group * firsts[-1]
        return self.cells[start + firsts[place] : start + firsts[place + 1]]


def numbers_of(query: DescriptionQuery, releases: Sequence[DescriptionRelease], count: int = DRAWS) -> DescribedNumbers:
    """Return the numbers of releases, of several sites together; draws of their noise are the same each time."""
    rng = draws.generator(*(release.sha256 for release in releases))
    shape, scale = (query.groups, query.dimension), UNITS if query.is_weighted else 1
    noise = np.zeros((query.groups, count, query.dimension))
    for release in releases if query.dimension else ():
        for group in range(query.groups):
            noise[group] += draws.perturbation(rng, noise_of(query, release.sums_sd), count=count)
    known = [release.records for release in releases]
    squares = [np.square([each.sums_sd, each.cells_sd, each.follow_up_sd]) for each in releases]
    return DescribedNumbers(
        query=query,
        sums=_together([each.sums for each in releases]).reshape(shape) / UNITS,
        noise=noise,
        cells=_together([each.cells for each in releases]) / scale,
        follow_up=_together([each.follow_up for each in releases]) / scale,
        sds=np.sqrt(np.sum(squares, axis=0)),
        records=None if None in known else float(sum(each or 0 for each in known)),
    )


def _together(parts: Sequence[Sequence[int]]) -> FloatArray:
    return np.asarray(np.sum([np.array(part, dtype=np.float64) for part in parts], axis=0))


def noise_of(query: DescriptionQuery, sd: float) -> NoiseDistribution | NormalDistribution:
    """Return the distribution of the noise of a group's sums, in people."""
    d = query.dimension
    if query.delta:
        return NormalDistribution(dimension=d, sd=sd)
    return NoiseDistribution(
        norm=BoxNorm(radii=(Fraction(1),) * d), dimension=d, rate=float(np.sqrt((d + 1) * (d + 2) / 3.0)) / sd
    )


SPREAD = 1000
"""Rows that stand for people where there are no public ones."""


def public_people(query: DescriptionQuery, schema: Schema, public: PublicTable | None) -> DescribedPeople:
    """Return the public people of a query; columns that public rows lack are spread over what is declared."""
    known = {} if public is None else dict(public.frame().items())
    rows = SPREAD if public is None else public.rows
    frame = pd.DataFrame(
        {name: known[name] if name in known else _spread(schema[name], rows, k) for k, name in enumerate(query.names)}
    )
    declared = Schema({name: schema[name] for name in query.names})
    if public is not None and public.persons is not None:
        persons = PrivateTable.from_frame(frame.assign(_hdp_person=public.persons), declared, unit="_hdp_person")
        return people_of(query, persons.admit(query.names))
    design = None if query.weighting is None else weighting_design(query.weighting, schema)
    return people_of(query, PrivateTable.from_frame(frame, declared).admit(query.names), design)


def _spread(column: Column, rows: int, place: int) -> "pd.Series[float] | pd.Series[str]":
    """Return cells spread evenly over a column's values, in an order of its own."""
    at = (np.arange(rows) * (0.6180339887498949 + 0.0837 * place)) % 1.0
    if isinstance(column, Categorical):
        return pd.Series(np.array(column.levels, dtype=object)[(at * len(column.levels)).astype(int)])
    if isinstance(column, NumericColumn):
        levels = getattr(column, "labels", None)
        if column.kind == "binary":
            return pd.Series(np.array(levels or (0, 1), dtype=object)[(at >= 0.5).astype(int)])
        return pd.Series(column.lower + at * (column.upper - column.lower))
    return pd.Series(np.full(rows, np.nan))


def expected_numbers(
    query: DescriptionQuery, people: DescribedPeople, *, records: float, sds: Sequence[FloatArray], public: bool
) -> DescribedNumbers:
    """Return what so many people are expected to give, with the noise of the sites that are asked.

    Parameters
    ----------
    query
        What is asked.
    people
        The people that stand for the private ones.
    records
        The number of private people.
    sds
        Standard deviations of the noise of sums, cells and follow-up, for each site.
    public
        Whether their number is public and all of them count.
    """
    scale = records / max(len(people.group), 1)
    unit = UNITS if query.is_weighted else 1
    return DescribedNumbers(
        query=query,
        sums=np.asarray(sums_of(query, people).reshape(query.groups, query.dimension) * (scale / UNITS), dtype=float),
        noise=np.zeros((query.groups, 0, query.dimension)),
        cells=np.asarray(cells_of(query, people) * (scale / unit), dtype=float),
        follow_up=np.asarray(follow_up_of(query, people) * (scale / unit), dtype=float),
        sds=np.sqrt(np.sum(np.square(sds), axis=0)),
        records=records if public else None,
    )


def share_noise(p: FloatArray, observed: FloatArray, *, sd: FloatArray, counting: float, others: int = 1) -> FloatArray:
    """Return the standard deviation of the noise of shares or means in parts of the range.

    Parameters
    ----------
    p
        The share; of a last level, which follows from ``others`` ones, the sum of ``p_l - 1/2`` over them, plus 1/2.
    observed
        The people that it is a share of.
    sd
        The standard deviation of the noise of a sum, in people.
    counting
        The variance of the noise of their number, in squares of ``sd``.
    others
        How many sums it is read from.
    """
    return np.asarray(sd * np.sqrt(others + counting * (p - 0.5) ** 2) / observed)


def sd_noise(
    mean: FloatArray,
    square: FloatArray,
    spread: FloatArray,
    observed: FloatArray,
    *,
    centre: float,
    sd: FloatArray,
    counting: float,
) -> FloatArray:
    """Return the standard deviation of the noise of a standard deviation, in parts of the range.

    Parameters
    ----------
    mean, square
        The mean, and the mean square about the centre in squares of the farthest distance from it.
    spread
        The standard deviation.
    observed, sd, counting
        As for `share_noise`.
    centre
        The centre.
    """
    far2, slope = max(centre, 1.0 - centre) ** 2, 2.0 * (mean - centre)
    by_count = far2 * (square - 0.5) - slope * (mean - 0.5)
    variance = (far2**2 + slope**2 + counting * by_count**2) * (sd / observed) ** 2
    return np.asarray(np.sqrt(variance) / (2.0 * spread))


def quartile_noise(F: FloatArray, n: FloatArray, *, sd: float, public: bool, cells: int) -> FloatArray:
    r"""Return the standard deviation of the noise of cumulative shares (m,).

    With ``y`` the noisy counts of ``m`` cells, :math:`F_a = \sum_{b \le a} y_b / \sum_b y_b` has the gradient
    :math:`(1 - F_a) / n` in cells up to ``a`` and :math:`-F_a / n` in the others. Where the sum of all ``cells``, those
    of missing cells included, is public, the counts are shifted to it, which takes the mean gradient away.
    """
    m = len(F)
    a = np.arange(1, m + 1)
    square = a * (1.0 - F) ** 2 + (m - a) * F**2
    if public:
        square = square - (a - m * F) ** 2 / cells
    return np.asarray(sd * np.sqrt(np.maximum(square, 0.0)) / n)
