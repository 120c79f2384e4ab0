"""The query of a noisy number of private people for each of a set of public points, and its release."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import rational
from hdpstats.privacy.budget import NOTHING, Spend
from hdpstats.privacy.event import PrivacyEvent
from hdpstats.queries.base import LedgerEntry, Query, Release
from hdpstats.queries.points import PointSpace

MOST_POINTS = 10**7
LARGEST_ROW = 2**40


def check_support(support: tuple[int, ...], *, most: int = MOST_POINTS) -> None:
    """Refuse rows of a public table that are none, or that are named twice."""
    if (
        not 1 <= len(support) <= most
        or len(set(support)) < len(support)
        or not (min(support) >= 0 and max(support) <= LARGEST_ROW)
    ):
        raise MechanismError(f"the public points must be 1 to {most} different rows of the public table")


def check_pure(epsilon: Fraction, delta: Fraction, what: str) -> None:
    """Refuse a price that is no pure epsilon above 0."""
    if not (epsilon > 0 and delta == 0 and epsilon.denominator <= 10**30):
        raise MechanismError(f"{what} needs epsilon > 0 of at most 30 digits, and is pure: delta must be 0")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class NeighboursQuery(Query):
    """Count for each public point the private people to whom it is the nearest.

    Attributes
    ----------
    space : PointSpace
        Where rows lie.
    support : tuple of int or None
        The rows of the public table that are the points, of those that are complete in the space's columns; of points
        at the same distance the one named first counts. None: all different points, in the order of first rows.
    ahead : Spend
        What later questions of the same purchase cost: refused now if it could not be charged then.
    """

    kind: ClassVar[str] = "neighbours/1"
    space: PointSpace
    support: tuple[int, ...] | None
    epsilon: Fraction
    schema_sha256: str
    public_sha256: str | None
    delta: Fraction = Fraction(0)
    ahead: Spend = NOTHING
    replicate: int = 1

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self.epsilon, self.delta, "a histogram")
        if self.support is not None:
            check_support(self.support)
        if self.public_sha256 is None:
            raise MechanismError("nearest public points need a public table: public_sha256 must name it")

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON values."""
        return {
            "space": self.space.to_list(),
            "support": None if self.support is None else list(self.support),
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "schema_sha256": self.schema_sha256,
            "public_sha256": self.public_sha256,
            "ahead": str(self.ahead.epsilon),
            "replicate": self.replicate,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "NeighboursQuery":
        """Read what `to_dict` wrote."""
        support = fields["support"]
        return cls(
            space=PointSpace.from_list(fields["space"]),
            support=None if support is None else tuple(int(row) for row in support),
            epsilon=rational(fields["epsilon"], name="epsilon"),
            delta=rational(fields["delta"], name="delta"),
            schema_sha256=str(fields["schema_sha256"]),
            public_sha256=fields["public_sha256"],
            ahead=Spend(rational(fields["ahead"], name="ahead")),
            replicate=int(fields["replicate"]),
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class NeighboursRelease(Release):
    """Noisy counts of public points; some may be below 0. Everything but ``counts`` is a public constant.

    Attributes
    ----------
    counts : tuple of int
        The noisy number of people of each point, in the order of the query.
    noise_variance : float
        The variance of the noise in each.
    events : tuple of PrivacyEvent
        What ran.
    entry : LedgerEntry or None
        Where the ledger keeps it; None for a release read back from JSON.
    """

    kind: ClassVar[str] = "neighbours/1"
    counts: tuple[int, ...]
    noise_variance: float
    events: tuple[PrivacyEvent, ...]
    entry: LedgerEntry | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the release as JSON values."""
        return {
            "counts": list(self.counts),
            "noise_variance": self.noise_variance,
            "events": [event.to_dict() for event in self.events],
        }

    def at(self, entry: LedgerEntry) -> "NeighboursRelease":
        """Return the release with its place in the ledger."""
        return replace(self, entry=entry)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "NeighboursRelease":
        """Read what `to_dict` wrote."""
        return cls(
            counts=tuple(int(count) for count in fields["counts"]),
            noise_variance=float(fields["noise_variance"]),
            events=tuple(PrivacyEvent.from_dict(event) for event in fields["events"]),
        )
