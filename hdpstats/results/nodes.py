"""What is known at a place of a tree of results."""

from dataclasses import dataclass
from typing import Any, final

from hdpstats._base.typing import FloatArray
from hdpstats.records.estimate import Estimate
from hdpstats.results.estimates import estimate_from_dict, estimate_to_dict, numbers_from_list, numbers_to_list


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Node:
    """A group of results, or a result.

    Attributes
    ----------
    path : tuple of str
        The names from the top to this place.
    estimate : Estimate
        What is estimated there.
    members : int
        How many stand right under it; 0 for a result.
    weights : tuple of (p,) float64
        The weight of each member in each term.
    tau, scatter : (p,) float64
        The standard deviation between members, and Cochran's Q of the members as if there were none; NaN for a result.
    degrees : int
        Of freedom that ``scatter`` has: members less one.
    """

    path: tuple[str, ...]
    estimate: Estimate
    members: int
    weights: tuple[FloatArray, ...]
    tau: FloatArray
    scatter: FloatArray
    degrees: int

    @property
    def level(self) -> int:
        """How far below the top."""
        return len(self.path) - 1

    def to_dict(self) -> dict[str, Any]:
        """Return the place as JSON values."""
        return {
            "path": list(self.path),
            "estimate": estimate_to_dict(self.estimate),
            "members": self.members,
            "weights": [numbers_to_list(weight) for weight in self.weights],
            "tau": numbers_to_list(self.tau),
            "scatter": numbers_to_list(self.scatter),
            "degrees": self.degrees,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Node":
        """Read what `to_dict` wrote."""
        estimate = estimate_from_dict(fields["estimate"])
        if estimate is None:
            raise ValueError("a place has an estimate")
        return cls(
            path=tuple(str(name) for name in fields["path"]),
            estimate=estimate,
            members=int(fields["members"]),
            weights=tuple(numbers_from_list(weight, (-1,)) for weight in fields["weights"]),
            tau=numbers_from_list(fields["tau"], (-1,)),
            scatter=numbers_from_list(fields["scatter"], (-1,)),
            degrees=int(fields["degrees"]),
        )
