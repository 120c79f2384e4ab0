"""The query of how far private people are from public points, and its release."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

from hdpstats.records.points import PointSpace, check_reach, check_support
from hdpstats.records.query import ChargedQuery, ChargedRelease, charged_fields, check_pure, events_in

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

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON values."""
        return {
            "space": self.space.to_list(),
            "support": None if self.support is None else list(self.support),
            "reach": self.reach,
        } | ChargedQuery.to_dict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "DistanceQuery":
        """Read what `to_dict` wrote."""
        support = fields["support"]
        return cls(
            space=PointSpace.from_list(fields["space"]),
            support=None if support is None else tuple(int(row) for row in support),
            reach=float(fields["reach"]),
            **charged_fields(fields),
        )


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

    def to_dict(self) -> dict[str, Any]:
        """Return the release as JSON values."""
        return {
            "units": self.units,
            "noise_sd": self.noise_sd,
        } | ChargedRelease.to_dict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "DistanceRelease":
        """Read what `to_dict` wrote."""
        return cls(
            units=int(fields["units"]),
            noise_sd=float(fields["noise_sd"]),
            events=events_in(fields),
        )
