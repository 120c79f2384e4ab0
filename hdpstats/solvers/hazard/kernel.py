"""What every kernel computes: sums over the intervals that spells survive."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from hdpstats._base.typing import FloatArray, IntArray


class Survived(NamedTuple):
    """Spells and their survived intervals ``entry + 1, ..., last``: ``Z`` (m, p), the others (m,)."""

    Z: FloatArray
    entry: IntArray
    last: IntArray
    weights: FloatArray
    eta: FloatArray

    def part(self, rows: slice) -> "Survived":
        """Return some of the spells."""
        return Survived(self.Z[rows], self.entry[rows], self.last[rows], self.weights[rows], self.eta[rows])


class SpellSums(NamedTuple):
    """Weighted sums over the survived intervals of b spells.

    ``score`` and ``curvature`` (b,) of each spell; ``cross`` (p, e), the sum over spells and intervals of
    ``curvature z A_s'``.
    """

    score: FloatArray
    curvature: FloatArray
    cross: FloatArray


class IntervalSums(NamedTuple):
    """Weighted sums over all spells: minus the log-likelihood, and score and curvature (q,) of each interval."""

    value: float
    score: FloatArray
    curvature: FloatArray


class Kernel(ABC):
    """One pass over spells at given linear predictors: every block once, then the intervals."""

    @abstractmethod
    def spells(self, rows: slice) -> SpellSums:
        """Return the sums of a block of spells, and remember its part of the interval sums."""

    @abstractmethod
    def intervals(self) -> IntervalSums:
        """Return the interval sums of all blocks so far."""
