"""Subsample and aggregate: a noisy mean of estimates from disjoint blocks of people.

Guarantee: pure epsilon, one person replaced. Source: Smith (2008); Chen and Sung, algorithm 1, corrected. Use: to
compare with `hdpstats.mechanisms.statistics`, which needs less noise. Proof: `hdpstats.mechanisms.subsample.site`.

* ``site``: Subsample and aggregate (Smith 2008; Chen and Sung, algorithm 1, corrected): pure epsilon, replace-one.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import check_size, choice, integer, real, text
from hdpstats.records.limits import MOST_BLOCKS
from hdpstats.records.query import ChargedQuery, ChargedRelease, MechanismOptions, check_pure


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SubsampleAggregate(MechanismOptions):
    """The mean of estimates from disjoint blocks of people, with noise (Chen and Sung, algorithm 1, corrected), pure.

    Blocks are runs of rows where whoever holds the rows declared that their order was not made from values
    (``Study(row_order="arbitrary")``, or a site's own declaration). Where people are named instead
    (``Study(unit=..., max_rows_per_unit=1)``) a hash of the name makes the blocks, whatever the order, with twice the
    noise. Otherwise the site refuses.

    For `hdpf.distribution`. `SufficientStatistics` needs less noise; this asks nothing of an estimate but that it can
    be projected on a public box. Noise and bias vanish beside the sampling error only where epsilon is large against
    the sixth root of one over the number of people.

    Parameters
    ----------
    blocks
        How many; by default the number of least predicted error, with 25 rows each or more.
    window
        With 25 public rows or more, estimates of blocks are projected on a window around the public estimate, so many
        standard errors of a block's distance from it wide on each side; less noise than on the whole ranges. None for
        the whole ranges.

    Examples
    --------
    >>> SubsampleAggregate(blocks=40)
    SubsampleAggregate(blocks=40, window=5.0)
    """

    blocks: int | None = None
    window: float | None = 5.0

    def __post_init__(self) -> None:
        """Validate the options."""
        if self.blocks is not None:
            integer(self.blocks, name="blocks", lower=1, upper=2**20)
        if self.window is not None:
            real(self.window, name="window", lower=1.0, upper=100.0)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SubsampleQuery(ChargedQuery):
    """Estimate the parameters of a family in ``blocks`` disjoint blocks of rows, project each estimate, and average.

    Attributes
    ----------
    column, family
        As in `hdpstats.mechanisms.statistics.StatisticsQuery`.
    box : tuple of (float, float)
        The public interval of each parameter, on which the estimates of blocks are projected.
    blocks : int
        ``k``, at most 2^17 (`hdpstats.records.limits`).
    by : {"rows", "persons"}
        What makes the blocks. ``"rows"``: row ``i`` of ``n`` belongs to block ``floor(i k / n)``, which a site allows
        only where its custodian declared that the order of rows was not made from their values. ``"persons"``: a hash
        of the name of the person, for sites with a unit.
    """

    kind: ClassVar[str] = "subsample/1"
    column: str
    family: str
    box: tuple[tuple[float, float], ...]
    blocks: int
    public_sha256: str | None = None
    by: str = "rows"

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self, "an estimate of a family")
        text(self.column, name="column")
        text(self.family, name="family")
        choice(self.by, name="by", options=("rows", "persons"))
        check_size("blocks", self.blocks, MOST_BLOCKS, remedy="take fewer: noise falls with their number, bias rises")
        if not self.blocks >= 1:
            raise MechanismError(f"blocks must be from 1 to {MOST_BLOCKS}, not {self.blocks}")
        if not self.box or not all(1e-12 <= high - low <= 1e12 and math.isfinite(low) for low, high in self.box):
            raise MechanismError("box must have an interval of length 1e-12 to 1e12 for each parameter")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SubsampleRelease(ChargedRelease):
    """Noisy sums of the blocks' estimates, in 2^-20 of the length of each parameter's interval, from its lower end.

    Attributes
    ----------
    units : tuple of int
        The d noisy sums over blocks; some may lie beyond what blocks could add up to.
    noise_rate : float
        The noise ``z`` has probability proportional to ``exp(-noise_rate max_j |z_j|)``.
    records, blocks : int
        The public number of people, and of blocks.
    """

    kind: ClassVar[str] = "subsample/1"
    units: tuple[int, ...]
    noise_rate: float
    records: int
    blocks: int
