r"""The direct kernel of the complementary log-log link, in closed form.

Surviving an interval adds ``e^{a_s + eta} = E_s w``, so the sum over a spell's intervals is ``w`` times a difference of
running sums of ``E_s``, and the sum over the people at risk is ``E_s`` times a difference of running sums of ``w``:
no term per person and interval. The differences are exact to the rounding of the running sums, so intervals in which
nobody is at risk must not enter them (`NEVER`).
"""

from typing import Final, final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.losses.hazard import LARGEST_EXPONENT
from hdpstats.solvers.hazard.kernel import IntervalSums, Kernel, SpellSums, Survived

NEVER: Final = -1e9
"""The baseline of an interval in which nobody is at risk: its hazard is 0 under every link."""


@final
class CumulativeHazards(Kernel):
    """Running sums of hazards over intervals, and of relative hazards over spells."""

    def __init__(self, A: FloatArray, a: FloatArray, survived: Survived) -> None:
        self._survived = survived
        self._highest = float(np.max(a))
        self._hazards = np.exp(a - self._highest)
        self._sums = np.zeros((len(a) + 1, 1 + A.shape[1]))
        np.cumsum(self._hazards[:, None] * np.column_stack([np.ones(len(a)), A]), axis=0, out=self._sums[1:])
        self._by_last, self._by_entry = np.zeros(len(a) + 1), np.zeros(len(a) + 1)

    def spells(self, rows: slice) -> SpellSums:
        """Return the sums of a block's spells."""
        Z, entry, last, weights, eta = self._survived.part(rows)
        relative = weights * np.exp(np.minimum(eta + self._highest, LARGEST_EXPONENT))
        self._by_last += np.bincount(last, relative, len(self._by_last))
        self._by_entry += np.bincount(entry, relative, len(self._by_entry))
        sums = (self._sums[last] - self._sums[entry]) * relative[:, None]
        return SpellSums(sums[:, 0], sums[:, 0], Z.T @ sums[:, 1:])

    def intervals(self) -> IntervalSums:
        """Return the interval sums of all blocks so far."""
        at_risk = np.cumsum((self._by_last - self._by_entry)[::-1])[::-1][1:]
        total = self._hazards * at_risk
        return IntervalSums(float(np.sum(total)), total, total)
