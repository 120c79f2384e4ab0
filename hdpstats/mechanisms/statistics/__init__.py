"""Noisy sums of the sufficient statistics of an exponential family.

Guarantee: pure epsilon, one person replaced. Source: Chen and Sung, algorithm 3, corrected. Use: parameters of one
column's distribution (`hdpf.distribution`). Proof: `hdpstats.mechanisms.statistics.site`.

* ``estimate``: Parameters of an exponential family with their uncertainty, from released sums of statistics or of
  estimates.
* ``site``: Noisy sums of sufficient statistics (Chen and Sung, algorithm 3, corrected): pure epsilon, replace-one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.validation import text
from hdpstats.losses.families import Interval
from hdpstats.records.query import ChargedQuery, ChargedRelease, MechanismOptions, check_pure

UNITS = 2**20
"""A statistic, or a block's estimate, is rounded to so many steps of its declared interval."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SufficientStatistics(MechanismOptions):
    """Noisy sums of the sufficient statistics of an exponential family (Chen and Sung, algorithm 3, corrected), pure.

    The noise falls with the number of people, whatever the parameters: the choice for all families of
    `hdpf.distribution`.
    """


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class StatisticsQuery(ChargedQuery):
    """Sum over people the sufficient statistics of a family, of a column between its declared bounds.

    Attributes
    ----------
    column : str
        A continuous or binary column of the schema, whose bounds are those of the statistics.
    family : str
        A name of `hdpstats.losses.families.FAMILIES`.
    """

    kind: ClassVar[str] = "statistics/1"
    column: str
    family: str
    public_sha256: str | None = None

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self, "an estimate of a family")
        text(self.column, name="column")
        text(self.family, name="family")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class StatisticsRelease(ChargedRelease):
    """Noisy sums of statistics, in 2^-20 of the length of each one's interval, from its lower end.

    Attributes
    ----------
    units : tuple of int
        The d noisy sums; some may lie beyond what people could add up to.
    noise_rate : float
        The noise ``z`` has probability proportional to ``exp(-noise_rate max_j |z_j|)``.
    records : int
        The public number of people.
    """

    kind: ClassVar[str] = "statistics/1"
    units: tuple[int, ...]
    noise_rate: float
    records: int


def in_units(values: FloatArray, box: Sequence[Interval]) -> IntArray:
    """Return values (n, d) in 2^-20 of their intervals, from 0 to `UNITS` whatever they are; NaN is in the middle."""
    lower, upper = np.array(box, dtype=np.float64).T
    with np.errstate(all="ignore"):
        place = (values - lower) / (upper - lower)
    place = np.clip(np.where(np.isnan(place), 0.5, place), 0.0, 1.0)
    return np.asarray(np.floor(place * UNITS + 0.5), dtype=np.int64)


def out_of_units(units: Sequence[int], box: Sequence[Interval], *, count: int) -> FloatArray:
    """Return the means (d,) that sums of so many rounded values stand for."""
    lower, upper = np.array(box, dtype=np.float64).T
    return np.asarray(lower + (upper - lower) * (np.array([float(each) for each in units]) / (UNITS * count)))
