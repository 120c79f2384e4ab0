"""A noisy histogram on a public grid.

Guarantee: pure epsilon. Source: Lei (2011). Use: models of few columns without any public record.
Proof: `hdpstats.mechanisms.histogram.site`.

* ``estimate``: The grid of a noisy histogram, and weights from its counts, or from those of nearest points.
* ``site``: A noisy histogram on a public grid (Lei 2011), pure epsilon.
"""

import math
import operator
from dataclasses import dataclass
from typing import ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import check_size, integer
from hdpstats.records.limits import MOST_CELLS
from hdpstats.records.query import ChargedQuery, MechanismOptions, TableRelease, check_pure


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PerturbedHistogram(MechanismOptions):
    """Noisy counts of the cells of a public grid, to whose centres the model is fitted (Lei 2011), pure.

    It uses no public record: the baseline for what they add. For few columns only; a grid that would be too fine for
    the number of people is refused before anything is charged.

    Parameters
    ----------
    bins
        Classes of each numeric column between its declared bounds; by default as many as balance what a cell hides and
        what the noise of more cells adds.

    Examples
    --------
    >>> PerturbedHistogram(bins=10)
    PerturbedHistogram(bins=10)
    """

    bins: int | None = None

    def __post_init__(self) -> None:
        """Validate the options."""
        if self.bins is not None:
            integer(self.bins, name="bins", lower=2, upper=10**4)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """How a column is divided: at ``cuts`` that increase, or into the ``levels`` of a categorical column.

    A number belongs to the class of as many cuts as it reaches.
    """

    name: str
    cuts: tuple[float, ...] = ()
    levels: int | None = None

    def __post_init__(self) -> None:
        """Refuse an axis that does not divide."""
        if self.levels is not None and (self.cuts or not 1 <= self.levels <= MOST_CELLS):
            raise MechanismError("an axis has cuts, or a number of levels")
        if not all(map(math.isfinite, self.cuts)) or any(map(operator.ge, self.cuts, self.cuts[1:])):
            raise MechanismError(f"the cuts of {self.name!r} must be finite numbers that increase")

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.cuts) + 1 if self.levels is None else self.levels


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HistogramQuery(ChargedQuery):
    """Count people by the cell of a grid that they fall into: everything about the grid is public.

    Cells are numbered with the last axis fastest; there are at most 2^18 (`hdpstats.records.limits`).
    """

    kind: ClassVar[str] = "histogram/1"
    axes: tuple[Axis, ...]
    public_sha256: str | None = None

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self, "a histogram")
        if not self.axes or len({axis.name for axis in self.axes}) < len(self.axes):
            raise MechanismError("a histogram needs one axis or more, each of another column")
        check_size("cells of a histogram", self.cells, MOST_CELLS, remedy="take fewer axes, or fewer cuts")

    @property
    def cells(self) -> int:
        """All cells."""
        return math.prod(axis.classes for axis in self.axes)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HistogramRelease(TableRelease):
    """The noisy counts of the cells of a grid."""

    kind: ClassVar[str] = "histogram/1"
