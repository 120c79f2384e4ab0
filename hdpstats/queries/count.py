"""The query of a noisy number of people, and its release."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

from hdpstats._base.validation import rational
from hdpstats.privacy.budget import NOTHING, Budget, Spend
from hdpstats.queries.base import ChargedQuery, ChargedRelease, charged_fields, check_pure, events_in


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CountQuery(ChargedQuery):
    """Count the people, where their number is protected.

    Attributes
    ----------
    ahead : Spend
        What the fit that asks will cost besides. It is not charged, but refused now if it could not be charged later,
        so that nobody pays for a number alone.
    """

    kind: ClassVar[str] = "count/1"
    public_sha256: str | None = None
    ahead: Spend = NOTHING

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self, "a count")

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON values."""
        asked = self.ahead.asked
        return {
            "ahead": [str(self.ahead.epsilon), str(self.ahead.delta), str(self.ahead.mu_squared)],
            "ahead_asked": None if asked is None else [str(asked.epsilon), str(asked.delta)],
        } | ChargedQuery.to_dict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "CountQuery":
        """Read what `to_dict` wrote."""
        epsilon, delta, mu_squared = _rationals(fields["ahead"])
        asked = fields["ahead_asked"]
        return cls(
            ahead=Spend(epsilon, delta, mu_squared, None if asked is None else Budget(*_rationals(asked))),
            **charged_fields(fields),
        )


def _rationals(texts: Any) -> list[Fraction]:
    return [rational(text, name="ahead") for text in texts]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CountRelease(ChargedRelease):
    """A noisy number of people. Everything but ``count`` is a public constant.

    Attributes
    ----------
    count : int
        The noisy number, cut to 1 to ``most``.
    noise_sd : float
        Standard deviation of the noise, before the cut.
    most : int
        The declared largest number.
    """

    kind: ClassVar[str] = "count/1"
    count: int
    noise_sd: float
    most: int

    def to_dict(self) -> dict[str, Any]:
        """Return the release as JSON values."""
        return {
            "count": self.count,
            "noise_sd": self.noise_sd,
            "most": self.most,
        } | ChargedRelease.to_dict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "CountRelease":
        """Read what `to_dict` wrote."""
        return cls(
            count=int(fields["count"]),
            noise_sd=float(fields["noise_sd"]),
            most=int(fields["most"]),
            events=events_in(fields),
        )
