"""Where a row lies among public points: columns scaled to [0, 1] by public ranges, levels at distance 1."""

from dataclasses import dataclass
from typing import final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import check_size
from hdpstats.records.limits import MOST_COORDINATES, MOST_POINTS

MOST_LEVELS = 1000
LARGEST = 1e12
LARGEST_REACH = 1e6
LARGEST_ROW = 2**40


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PointColumn:
    """One column of a point.

    A numeric column is clipped to [``lower``, ``upper``], the public range, and scaled to [0, 1]. A categorical column
    of ``levels`` levels becomes indicators divided by the square root of 2, so that two different levels are at
    distance 1, as the ends of a range are (Wang et al. 2018).

    Attributes
    ----------
    name : str
        A column of the schema.
    lower, upper : float
        The range of a numeric column; 0 and 1 for a categorical one.
    levels : int or None
        The number of levels that the schema declares; None for a numeric column.
    """

    name: str
    lower: float = 0.0
    upper: float = 1.0
    levels: int | None = None

    def __post_init__(self) -> None:
        """Refuse a range without length, and levels without number."""
        if not (abs(self.lower) <= LARGEST and abs(self.upper) <= LARGEST and self.lower < self.upper):
            raise MechanismError(f"the range of {self.name!r} must be finite and increase")
        if self.levels is not None and not 1 <= self.levels <= MOST_LEVELS:
            raise MechanismError(f"{self.name!r} must have 1 to {MOST_LEVELS} levels")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PointSpace:
    """The columns of a point, in order: at most 2000 coordinates. Without any, all rows are one point."""

    columns: tuple[PointColumn, ...]

    def __post_init__(self) -> None:
        """Refuse a column that comes twice, and too many coordinates."""
        remedy = "name fewer columns, or columns with fewer levels"
        check_size("coordinates of a point", self.dimension, MOST_COORDINATES, remedy=remedy)
        if len(set(self.names)) < len(self.columns):
            raise MechanismError("each column can be part of a point once")

    @property
    def names(self) -> tuple[str, ...]:
        """The columns by name."""
        return tuple(column.name for column in self.columns)

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return sum(1 if column.levels is None else column.levels for column in self.columns)


def check_support(support: tuple[int, ...] | None, public_sha256: str | None) -> None:
    """Refuse rows of a public table that are none or are named twice, and those of no table; None stands for all."""
    if support is not None:
        check_size("public points", len(support), MOST_POINTS, remedy="name fewer rows of the public table")
    if support is not None and (
        not support or len(set(support)) < len(support) or not (min(support) >= 0 and max(support) <= LARGEST_ROW)
    ):
        raise MechanismError(f"the public points must be 1 to {MOST_POINTS} different rows of the public table")
    if public_sha256 is None:
        raise MechanismError("nearest public points need a public table: public_sha256 must name it")


def check_reach(reach: float) -> None:
    """Refuse a longest distance, or a largest difference of losses, that is none."""
    if not 1e-12 <= reach <= LARGEST_REACH:
        raise MechanismError("reach, the most that one person counts, must be between 1e-12 and 1e6")
