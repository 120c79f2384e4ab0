"""What every kernel computes: the sums over the survived intervals of a block of spells."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from hdpstats._base.typing import FloatArray, IntArray


class Block(NamedTuple):
    """Consecutive spells: survived intervals ``entry + 1, ..., last``, shapes (b, p) and (b,)."""

    Z: FloatArray
    entry: IntArray
    last: IntArray
    weights: FloatArray
    eta: FloatArray

    def part(self, rows: slice) -> "Block":
        """Return some of the spells."""
        return Block(self.Z[rows], self.entry[rows], self.last[rows], self.weights[rows], self.eta[rows])


class SpellSums(NamedTuple):
    """Weighted sums over each spell's survived intervals.

    ``score`` and ``curvature`` (b,) of the terms; ``cross`` (p, e) is the sum over spells and intervals of
    ``curvature z A_s'``.
    """

    score: FloatArray
    curvature: FloatArray
    cross: FloatArray


class IntervalSums(NamedTuple):
    """Sums over all spells at risk: minus the log-likelihood, and score and curvature (q,) by interval."""

    value: float
    score: FloatArray
    curvature: FloatArray


class Kernel(ABC):
    """One pass over the data at given linear predictors: blocks in, interval sums at the end."""

    @abstractmethod
    def spells(self, block: Block) -> SpellSums:
        """Return the sums of a block's spells, and remember its part of the interval sums."""

    @abstractmethod
    def intervals(self) -> IntervalSums:
        """Return the interval sums of all blocks so far."""
