"""What releases of noisy counts have in common."""

from abc import ABC
from dataclasses import dataclass
from typing import Any, Self

from hdpstats.records.query import ChargedRelease, events_in


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRelease(ChargedRelease, ABC):
    """Noisy numbers of people; some may be below 0. Everything but ``counts`` is a public constant.

    Attributes
    ----------
    counts : tuple of int
        One for each cell of a table, or for each public point, in the order of the query.
    noise_variance : float
        The variance of the noise in each.
    """

    counts: tuple[int, ...]
    noise_variance: float

    def to_dict(self) -> dict[str, Any]:
        """Return the release as JSON values."""
        return {"counts": list(self.counts), "noise_variance": self.noise_variance} | ChargedRelease.to_dict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(
            counts=tuple(int(count) for count in fields["counts"]),
            noise_variance=float(fields["noise_variance"]),
            events=events_in(fields),
        )
