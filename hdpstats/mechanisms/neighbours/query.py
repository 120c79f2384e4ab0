"""The query of a noisy number of private people for each of a set of public points, and its release."""

from dataclasses import dataclass
from typing import ClassVar, final

from hdpstats.records.points import PointSpace, check_support
from hdpstats.records.query import PurchaseQuery, check_pure
from hdpstats.records.table import TableRelease


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class NeighboursQuery(PurchaseQuery):
    """Count for each public point the private people to whom it is the nearest.

    Attributes
    ----------
    space : PointSpace
        Where rows lie.
    support : tuple of int or None
        The rows of the public table that are the points, of those that are complete in the space's columns; of points
        at the same distance the one named first counts. None: all different points, in the order of first rows. There
        are at most 2^20, and 2^27 numbers in them (`hdpstats.records.limits`).
    """

    kind: ClassVar[str] = "neighbours/1"
    space: PointSpace
    support: tuple[int, ...] | None

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self, "a histogram")
        check_support(self.support, self.public_sha256)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class NeighboursRelease(TableRelease):
    """For each public point the noisy number of private people to whom it is the nearest."""

    kind: ClassVar[str] = "neighbours/1"
