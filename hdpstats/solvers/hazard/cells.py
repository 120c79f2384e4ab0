"""The direct kernel in numpy, for any link: one term per person and interval, a block of spells at a time."""

from typing import final

import numpy as np
from scipy.sparse import csr_array

from hdpstats._base.typing import FloatArray
from hdpstats.losses import HazardLink
from hdpstats.solvers.hazard.kernel import IntervalSums, Kernel, SpellSums, Survived

CELLS = 1 << 17
"""Person-intervals that numpy handles at a time: keeps temporaries in cache and memory flat."""


@final
class CellKernel(Kernel):
    """Evaluates the link at every person-interval of a block, held as a sparse matrix of spells by intervals."""

    def __init__(self, link: HazardLink, A: FloatArray, a: FloatArray, survived: Survived) -> None:
        self._link, self._A, self._a, self._survived = link, A, a, survived
        self._value = 0.0
        self._score, self._curvature = np.zeros(len(a)), np.zeros(len(a))

    def spells(self, rows: slice) -> SpellSums:
        """Return the sums of a block's spells, made in parts of about `CELLS` person-intervals."""
        block, step = self._survived.part(rows), max(1, CELLS // len(self._a))
        parts = [self._part(block.part(slice(k, k + step))) for k in range(0, len(block.eta), step)]
        score, curvature, cross = zip(*parts, strict=True)
        return SpellSums(np.concatenate(score), np.concatenate(curvature), np.sum(cross, axis=0))

    def _part(self, block: Survived) -> SpellSums:
        lengths = block.last - block.entry
        ends = np.concatenate([[0], np.cumsum(lengths)])
        column = np.arange(ends[-1]) + np.repeat(block.entry - ends[:-1], lengths)
        terms = self._link.survive(self._a[column] + np.repeat(block.eta, lengths))
        shape = (len(lengths), len(self._a))
        value, score, curvature = (csr_array((each, column, ends), shape=shape) for each in terms)
        w, ones = block.weights, np.ones(len(self._a))
        self._value += float(w @ (value @ ones))
        self._score += score.T @ w
        self._curvature += curvature.T @ w
        wZ = block.Z * w[:, None]
        wide = self._A.shape[1] > wZ.shape[1]  # the cheaper way round
        cross = (curvature.T @ wZ).T @ self._A if wide else wZ.T @ (curvature @ self._A)
        return SpellSums(w * (score @ ones), w * (curvature @ ones), cross)

    def intervals(self) -> IntervalSums:
        """Return the interval sums of all blocks so far."""
        return IntervalSums(self._value, self._score, self._curvature)
