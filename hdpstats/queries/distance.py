"""The query of how far private people are from public points, and its release."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import rational
from hdpstats.privacy.event import PrivacyEvent
from hdpstats.queries.base import LedgerEntry, Query, Release
from hdpstats.queries.neighbours import check_pure, check_support
from hdpstats.queries.points import PointSpace

UNITS = 2**20
"""A distance is rounded to so many steps of the longest one that counts."""


LARGEST_REACH = 1e6


def check_reach(reach: float) -> None:
    """Refuse a longest distance that is none."""
    if not 1e-12 <= reach <= LARGEST_REACH:
        raise MechanismError("reach, the longest distance that counts, must be between 1e-12 and 1e6")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DistanceQuery(Query):
    """Sum over private people the distance from the public point that each is counted at, at most ``reach``.

    Attributes
    ----------
    space, support
        As in `hdpstats.queries.neighbours.NeighboursQuery`.
    reach : float
        The longest distance that counts.
    """

    kind: ClassVar[str] = "distance/1"
    space: PointSpace
    support: tuple[int, ...] | None
    reach: float
    epsilon: Fraction
    schema_sha256: str
    public_sha256: str | None
    delta: Fraction = Fraction(0)
    replicate: int = 1

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self.epsilon, self.delta, "a distance")
        check_reach(self.reach)
        if self.support is not None:
            check_support(self.support)
        if self.public_sha256 is None:
            raise MechanismError("nearest public points need a public table: public_sha256 must name it")

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON values."""
        return {
            "space": self.space.to_list(),
            "support": None if self.support is None else list(self.support),
            "reach": self.reach,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "schema_sha256": self.schema_sha256,
            "public_sha256": self.public_sha256,
            "replicate": self.replicate,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "DistanceQuery":
        """Read what `to_dict` wrote."""
        support = fields["support"]
        return cls(
            space=PointSpace.from_list(fields["space"]),
            support=None if support is None else tuple(int(row) for row in support),
            reach=float(fields["reach"]),
            epsilon=rational(fields["epsilon"], name="epsilon"),
            delta=rational(fields["delta"], name="delta"),
            schema_sha256=str(fields["schema_sha256"]),
            public_sha256=fields["public_sha256"],
            replicate=int(fields["replicate"]),
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DistanceRelease(Release):
    """A noisy sum of distances, in 2^-20 of the query's ``reach``.

    Attributes
    ----------
    units : int
        The noisy sum.
    noise_sd : float
        The standard deviation of its noise, in the same units.
    events : tuple of PrivacyEvent
        What ran.
    entry : LedgerEntry or None
        Where the ledger keeps it; None for a release read back from JSON.
    """

    kind: ClassVar[str] = "distance/1"
    units: int
    noise_sd: float
    events: tuple[PrivacyEvent, ...]
    entry: LedgerEntry | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the release as JSON values."""
        return {
            "units": self.units,
            "noise_sd": self.noise_sd,
            "events": [event.to_dict() for event in self.events],
        }

    def at(self, entry: LedgerEntry) -> "DistanceRelease":
        """Return the release with its place in the ledger."""
        return replace(self, entry=entry)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "DistanceRelease":
        """Read what `to_dict` wrote."""
        return cls(
            units=int(fields["units"]),
            noise_sd=float(fields["noise_sd"]),
            events=tuple(PrivacyEvent.from_dict(event) for event in fields["events"]),
        )
