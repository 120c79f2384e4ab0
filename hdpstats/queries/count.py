"""The query of a noisy number of people, and its release."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import rational
from hdpstats.privacy.budget import NOTHING, Budget, Spend
from hdpstats.privacy.event import PrivacyEvent
from hdpstats.queries.base import LedgerEntry, Query, Release


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CountQuery(Query):
    """Count the people, where their number is protected.

    Attributes
    ----------
    ahead : Spend
        What the fit that asks will cost besides. It is not charged, but refused now if it could not be charged later,
        so that nobody pays for a number alone.
    """

    kind: ClassVar[str] = "count/1"
    epsilon: Fraction
    schema_sha256: str
    delta: Fraction = Fraction(0)
    public_sha256: str | None = None
    ahead: Spend = NOTHING
    replicate: int = 1

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        if not self.epsilon > 0:
            raise MechanismError("a count needs epsilon > 0")
        if self.epsilon.denominator > 10**30:
            raise MechanismError("epsilon must be a fraction of at most 30 digits")
        if self.delta != 0:
            raise MechanismError("a count is pure: delta must be 0")

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON values."""
        asked = self.ahead.asked
        return {
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "schema_sha256": self.schema_sha256,
            "public_sha256": self.public_sha256,
            "ahead": [str(self.ahead.epsilon), str(self.ahead.delta), str(self.ahead.mu_squared)],
            "ahead_asked": None if asked is None else [str(asked.epsilon), str(asked.delta)],
            "replicate": self.replicate,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "CountQuery":
        """Read what `to_dict` wrote."""
        ahead, asked = _rationals(fields["ahead"]), fields["ahead_asked"]
        epsilon, delta, mu_squared = ahead
        return cls(
            epsilon=rational(fields["epsilon"], name="epsilon"),
            delta=rational(fields["delta"], name="delta"),
            schema_sha256=str(fields["schema_sha256"]),
            public_sha256=fields["public_sha256"],
            ahead=Spend(epsilon, delta, mu_squared, None if asked is None else Budget(*_rationals(asked))),
            replicate=int(fields["replicate"]),
        )


def _rationals(texts: Any) -> list[Fraction]:
    return [rational(text, name="ahead") for text in texts]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CountRelease(Release):
    """A noisy number of people. Everything but ``count`` is a public constant.

    Attributes
    ----------
    count : int
        The noisy number, cut to 1 to ``most``.
    noise_sd : float
        Standard deviation of the noise, before the cut.
    most : int
        The declared largest number.
    events : tuple of PrivacyEvent
        What ran.
    entry : LedgerEntry or None
        Where the ledger keeps it; None for a release read back from JSON.
    """

    kind: ClassVar[str] = "count/1"
    count: int
    noise_sd: float
    most: int
    events: tuple[PrivacyEvent, ...]
    entry: LedgerEntry | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the release as JSON values."""
        return {
            "count": self.count,
            "noise_sd": self.noise_sd,
            "most": self.most,
            "events": [event.to_dict() for event in self.events],
        }

    def at(self, entry: LedgerEntry) -> "CountRelease":
        """Return the release with its place in the ledger."""
        return replace(self, entry=entry)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "CountRelease":
        """Read what `to_dict` wrote."""
        return cls(
            count=int(fields["count"]),
            noise_sd=float(fields["noise_sd"]),
            most=int(fields["most"]),
            events=tuple(PrivacyEvent.from_dict(event) for event in fields["events"]),
        )
