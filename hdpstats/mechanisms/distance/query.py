"""The query of how far private people are from public points, and its release."""

from dataclasses import dataclass
from typing import ClassVar, final

from hdpstats.records.points import PointSpace, check_reach, check_support
from hdpstats.records.query import ChargedQuery, ChargedRelease, check_pure

UNITS = 2**20
"""A distance is rounded to so many steps of the longest one that counts."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DistanceQuery(ChargedQuery):
    """Sum over private people the distance from the public point that each is counted at, at most ``reach``.

    Attributes
    ----------
    space, support
        As in `hdpstats.mechanisms.neighbours.query.NeighboursQuery`.
    reach : float
        The longest distance that counts.
    """

    kind: ClassVar[str] = "distance/1"
    space: PointSpace
    support: tuple[int, ...] | None
    reach: float

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self, "a distance")
        check_reach(self.reach)
        check_support(self.support, self.public_sha256)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DistanceRelease(ChargedRelease):
    """A noisy sum of distances, in 2^-20 of the query's ``reach``.

    Attributes
    ----------
    units : int
        The noisy sum.
    noise_sd : float
        The standard deviation of its noise, in the same units.
    """

    kind: ClassVar[str] = "distance/1"
    units: int
    noise_sd: float
