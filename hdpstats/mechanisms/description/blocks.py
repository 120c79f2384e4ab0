"""The noisy sums of a group in people, with draws of their noise taken away: post-processing of a release."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.mechanisms.description.query import UNITS, DescriptionQuery, DescriptionRelease
from hdpstats.noise.distributions import NoiseDistribution, NormalDistribution
from hdpstats.privacy.sensitivity import BoxNorm

DRAWS: Final = 1000


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
        if column.features(complete=self.query.complete) == column.values:
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


def blocks_of(query: DescriptionQuery, releases: Sequence[DescriptionRelease], count: int = DRAWS) -> list[GroupSums]:
    """Return the blocks of all groups, at the sites of these releases together; the same each time."""
    rng = draws.generator(*(release.sha256 for release in releases))
    shape = (query.groups, query.dimension)
    known = [release.records for release in releases]
    sums, noise = np.zeros(shape), np.zeros((query.groups, count, query.dimension))
    for release in releases:
        sums = sums + np.array(release.sums, dtype=np.float64).reshape(shape) / UNITS
        for group in range(query.groups):
            noise[group] += draws.perturbation(rng, noise_of(query, release.sums_sd), count=count)
    sd = float(np.sqrt(sum(release.sums_sd**2 for release in releases)))
    records = None if None in known else float(sum(each or 0 for each in known))
    return [
        GroupSums(sums=np.vstack([row, row - drawn]), sd=sd, records=records, query=query)
        for row, drawn in zip(sums, noise, strict=True)
    ]


def noise_of(query: DescriptionQuery, sd: float) -> NoiseDistribution | NormalDistribution:
    """Return the distribution of the noise of a group's sums, in people."""
    d = query.dimension
    if query.delta:
        return NormalDistribution(dimension=d, sd=sd)
    return NoiseDistribution(
        norm=BoxNorm(radii=(Fraction(1),) * d), dimension=d, rate=float(np.sqrt((d + 1) * (d + 2) / 3.0)) / sd
    )
