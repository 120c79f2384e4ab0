"""What is known at a place of a tree of results."""

from dataclasses import dataclass
from typing import final

from hdpstats._base.typing import FloatArray
from hdpstats.records.estimate import Estimate


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
