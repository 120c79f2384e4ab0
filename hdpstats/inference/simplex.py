r"""From noisy counts of cells to weights that are no longer negative: projections on a simplex.

The Euclidean projection (`project`) is the nearest point of :math:`\{w \ge 0, \sum_k w_k = n\}` (Held, Wolfe and
Crowder 1974; Duchi et al. 2008). With many nearly empty cells it is biased: what noise puts into empty cells is taken
from full ones, wherever these are.

`project_nested` keeps that within neighbourhoods. Cells stand in an order in which neighbours are close, and are halved
again and again. Each half gets its noisy sum, corrected by its share of what the two halves lack of their common total
(the least-squares correction: the variance of a noisy sum is proportional to the number of its cells; Hay et al. 2010),
and cut to between 0 and that total. So the totals of large regions, whose relative noise is small, remain unbiased, and
only cells near each other exchange what noise has added. Both are post-processing.

References
----------
Held, Wolfe and Crowder (1974), Validation of subgradient optimization.
Duchi, Shalev-Shwartz, Singer and Chandra (2008), Efficient projections onto the l1-ball.
Hay, Rastogi, Miklau and Suciu (2010), Boosting the accuracy of differentially private histograms through consistency.
"""

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray


def project(counts: FloatArray, total: FloatArray) -> FloatArray:
    """Return the points (B, m) of the simplices of totals (B,), at least 0, that are nearest to counts (B, m).

    >>> project(np.array([[3.0, 1.0, -2.0]]), np.array([3.0])).tolist()
    [[2.5, 0.5, 0.0]]
    """
    ordered = -np.sort(-counts, axis=1)
    places = np.arange(1, counts.shape[1] + 1)
    excess = (np.cumsum(ordered, axis=1) - total[:, None]) / places
    kept = np.maximum((ordered > excess).sum(axis=1), 1)
    return np.asarray(np.maximum(counts - excess[np.arange(len(counts)), kept - 1][:, None], 0.0))


def project_nested(counts: FloatArray, total: FloatArray, order: IntArray) -> FloatArray:
    """Return weights (B, m) of sums ``total`` (B,) from counts (B, m), halving the ``order`` (m,) of cells.

    >>> project_nested(np.array([[9.0, 1.0, -4.0, 4.0]]), np.array([10.0]), np.arange(4)).tolist()
    [[9.0, 1.0, 0.0, 0.0]]
    """
    m = counts.shape[1]
    before = np.concatenate([np.zeros((len(counts), 1)), np.cumsum(counts[:, order], axis=1)], axis=1)
    bounds, sums = np.array([0, m]), total[:, None]
    while len(bounds) <= m:
        start, stop = bounds[:-1], bounds[1:]
        middle = (start + stop + 1) // 2
        left, right = before[:, middle] - before[:, start], before[:, stop] - before[:, middle]
        lacking = (sums - left - right) * ((middle - start) / (stop - start))
        first = np.clip(left + lacking, 0.0, sums)
        whole = np.stack([first, sums - first], axis=2).reshape(len(counts), -1)
        edges = np.append(np.stack([start, middle], axis=1).ravel(), m)
        some = np.diff(edges) > 0
        bounds, sums = np.append(edges[:-1][some], m), whole[:, some]
    weights = np.empty_like(sums)
    weights[:, order] = sums
    return weights
