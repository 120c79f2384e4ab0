r"""Quartiles from a noisy histogram: intervals that invert those of the distribution function (Woodruff 1952).

Cells are :math:`(c_{a-1}, c_a]`; :math:`F_a` is the noisy share of people up to the end of cell ``a``, made monotone by
isotonic regression, 1 at the end. The quantile is in the first cell with :math:`F_a \ge p`, and read off linearly in
it. With :math:`s_a` the standard error of :math:`F_a` (sampling :math:`p (1 - p) / n` and noise) the interval goes from
the lower end of the first cell with :math:`F_a + z s_a \ge p` to the upper end of the first with :math:`F_a - z s_a \ge
p`.

*It covers the quantile that R's* ``quantile(type = 1)`` *defines, ties included:* :math:`Q = \min\{t: F(t) \ge p\}` is
missed on the left only if :math:`\hat F + z s < p \le F` at the end of a cell at or beyond ``Q``, and on the right only
if :math:`\hat F - z s \ge p > F` at the end of a cell before it. Ends of cells make it conservative.
"""

from dataclasses import dataclass
from typing import Final, final

import numpy as np
import scipy
from scipy.special import ndtri

from hdpstats._base.typing import FloatArray
from hdpstats.mechanisms.description import DescribedColumn
from hdpstats.mechanisms.description.expected import quartile_noise

PROBABILITIES: Final = {"q1": 0.25, "median": 0.5, "q3": 0.75}


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Quartile:
    """A quantile with its standard error and its limits, in the unit of the column."""

    estimate: float
    std_error: float
    low: float
    high: float


def ends_of(column: DescribedColumn) -> tuple[FloatArray, FloatArray]:
    """Return the lowest and the highest value of each cell (m,); whole numbers where the column has only these."""
    edges = np.array([column.lower, *column.cuts, column.upper])
    if column.whole:
        lowest = np.ceil(edges[:-1])
        return lowest, np.maximum(np.floor(edges[1:]), lowest)
    return edges[:-1], edges[1:]


def quantiles(
    column: DescribedColumn,
    counts: FloatArray,
    *,
    sd: float,
    size: float,
    records: float | None,
    missing: bool,
    alpha: float,
) -> dict[str, Quartile]:
    """Return quartiles from noisy counts of cells.

    Parameters
    ----------
    column
        The column, with the cuts.
    counts
        The noisy counts, in people (m,) or with that of missing cells (m + 1,).
    sd
        The standard deviation of the noise in each.
    size
        The effective number of people in parts of their number: 1 without weights.
    records
        The public number of people in all cells; None where it is not public.
    missing
        Whether the last cell is that of missing cells.
    alpha
        One minus the level of the intervals.
    """
    if records is not None:
        counts = counts + (records - counts.sum()) / len(counts)
    inner = counts[:-1] if missing else counts
    n = max(float(inner.sum()), 1.0)
    F = np.clip(scipy.optimize.isotonic_regression(np.cumsum(inner) / n).x, 0.0, 1.0)
    F[-1] = 1.0
    noise = quartile_noise(F, np.array(n), sd=sd, public=records is not None, cells=len(counts))
    lowest, highest = ends_of(column)
    z = -float(ndtri(alpha / 2.0))
    found = {}
    for name, p in PROBABILITIES.items():
        error = np.sqrt(p * (1.0 - p) / (n * size) + noise**2)
        error[-1] = 0.0
        below, above = F + z * error, F - z * error
        low, high = int(np.argmax(below >= p)), int(np.argmax(above >= p))
        inside = _inside(F, p, lowest, highest)
        one = _inside(F + error, p, lowest, highest), _inside(np.maximum.accumulate(F - error), p, lowest, highest)
        found[name] = Quartile(
            estimate=_whole(inside, lowest, highest) if column.whole else inside,
            std_error=float(one[1] - one[0]) / 2.0,
            low=float(lowest[low]),
            high=float(highest[high]),
        )
    return found


def _whole(place: float, lowest: FloatArray, highest: FloatArray) -> float:
    """Return the whole number of a cell that a place in it stands for: each has the same share of the cell."""
    cell = int(np.flatnonzero(lowest <= place)[-1])
    count = float(highest[cell] - lowest[cell]) + 1.0
    part = (place - float(lowest[cell])) / max(count - 1.0, 1.0)
    return float(lowest[cell] + np.clip(np.ceil(part * count) - 1.0, 0.0, count - 1.0))


def _inside(F: FloatArray, p: float, lowest: FloatArray, highest: FloatArray) -> float:
    """Return the place where a distribution function reaches ``p``, linear within a cell."""
    cell = int(np.argmax(p - 1e-12 <= F))
    before = float(F[cell - 1]) if cell else 0.0
    part = np.clip((p - before) / max(float(F[cell]) - before, 1e-9), 0.0, 1.0)
    return float(lowest[cell] + part * (highest[cell] - lowest[cell]))
