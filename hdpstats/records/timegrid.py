"""The intervals of a discrete-time model: public cut points on the time axis."""

import itertools
import math
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray, IntArray

MOST_INTERVALS = 10_000


@final
@dataclass(frozen=True, slots=True)
class TimeGrid:
    """Intervals ``(c_{s-1}, c_s]``, ``s = 1..q``, with ``c_0 = 0``; they end at the public horizon ``c_q``.

    Attributes
    ----------
    cuts : tuple of float
        The upper ends ``c_1 < ... < c_q``, in the unit of the durations.

    Examples
    --------
    >>> grid = TimeGrid((10.0, 20.0, 30.0))
    >>> grid.interval_of([0, 0.5, 10, 10.5, 30, 99]).tolist()
    [0, 1, 1, 2, 3, 3]
    """

    cuts: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse cut points that do not increase from above 0."""
        ends = (0.0, *self.cuts)
        if not 1 <= len(self.cuts) <= MOST_INTERVALS:
            raise ArgumentError(f"intervals must be 1 to {MOST_INTERVALS} in number", argument="intervals")
        if not all(math.isfinite(end) for end in ends) or not all(a < b for a, b in itertools.pairwise(ends)):
            raise ArgumentError(
                "intervals must have finite cut points that increase from above 0", argument="intervals"
            )

    @property
    def intervals(self) -> int:
        """``q``: how many intervals there are."""
        return len(self.cuts)

    @property
    def horizon(self) -> float:
        """``c_q``: where follow-up ends."""
        return self.cuts[-1]

    @property
    def starts(self) -> FloatArray:
        """The lower ends of the intervals (q,)."""
        return np.array((0.0, *self.cuts[:-1]))

    def interval_of(self, times: npt.ArrayLike) -> IntArray:
        """Return the interval of each time: 0 up to time 0, ``q`` beyond the horizon."""
        t = np.asarray(times, dtype=np.float64)
        inside = np.minimum(np.searchsorted(np.array(self.cuts), t, side="left") + 1, self.intervals)
        return np.asarray(np.where(t > 0.0, inside, 0), dtype=np.int64)
