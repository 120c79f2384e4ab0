"""Sums and counts of a description in people, with draws of their noise: post-processing of a release."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.mechanisms.description import UNITS, DescribedColumn, DescriptionQuery, DescriptionRelease
from hdpstats.noise.distributions import NoiseDistribution, NormalDistribution
from hdpstats.privacy.sensitivity import BoxNorm

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
        return np.asarray(0.5 + self.sums[:, last - column.values : last] / self.observed(place)[:, None])


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
    shape, scale = (query.groups, query.dimension), UNITS if query.weights is not None else 1
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
