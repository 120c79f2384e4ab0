"""The query of a noisy number of people, and its release."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

from hdpstats._base.validation import rational
from hdpstats.privacy.budget import Budget, Spend
from hdpstats.records.ahead import check_ahead, listed
from hdpstats.records.query import ChargedQuery, ChargedRelease, charged_fields, check_pure, events_in


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CountQuery(ChargedQuery):
    """Count the people, where their number is protected.

    Attributes
    ----------
    ahead : tuple of Spend
        What the fit that asks will be charged besides, charge by charge. It is not charged now, but refused now if it
        could not be charged later, so that nobody pays for a number alone. Gaussian noise says what it was asked to
        keep (`hdpstats.records.ahead`). Nothing is set aside for it before it is charged itself.
    """

    kind: ClassVar[str] = "count/1"
    public_sha256: str | None = None
    ahead: tuple[Spend, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self, "a count")
        check_ahead(self.ahead)

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON values."""
        return {"ahead": [_to_list(each) for each in self.ahead]} | ChargedQuery.to_dict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "CountQuery":
        """Read what `to_dict` wrote."""
        return cls(ahead=tuple(map(_from_list, listed(fields))), **charged_fields(fields))


def _to_list(cost: Spend) -> list[Any]:
    asked = None if cost.asked is None else [str(cost.asked.epsilon), str(cost.asked.delta)]
    return [str(cost.epsilon), str(cost.delta), str(cost.mu_squared), asked]


def _from_list(fields: Any) -> Spend:
    *amounts, asked = fields
    epsilon, delta, mu_squared = _rationals(amounts)
    return Spend(epsilon, delta, mu_squared, None if asked is None else Budget(*_rationals(asked)))


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
