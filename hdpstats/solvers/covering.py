"""Orders of points: one whose every beginning covers the points well, and one in which neighbours stand together."""

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.solvers.nearest import squared_distances


def farthest_first(points: FloatArray, count: int) -> tuple[IntArray, FloatArray]:
    """Return the places (count,) of points (m, p) by farthest-first traversal, and how far the rest is each time.

    The first is the point nearest to the median of all, each next one the point farthest from those chosen, the first
    of several. For each k the first k leave no point farther away than ``radius[k - 1]`` (count,), which is at most
    twice what any k points could do (Gonzalez 1985).

    >>> farthest_first(np.array([[0.0], [0.4], [0.5], [1.0]]), 3)[0].tolist()
    [1, 3, 0]
    """
    order, radius = np.empty(count, dtype=np.int64), np.empty(count)
    place = int(squared_distances(points, np.median(points, axis=0)).argmin())
    left = np.full(len(points), np.inf)
    for number in range(count):
        order[number] = place
        np.minimum(left, squared_distances(points, points[place]), out=left)
        place = int(left.argmax())
        radius[number] = left[place]
    return order, np.sqrt(radius)


def halving_order(points: FloatArray) -> IntArray:
    """Return an order (m,) of points (m, p) each half, quarter, ... of which lies together.

    Each part is sorted by the coordinate in which it is widest and halved, the first half being the larger: the leaves
    of a balanced k-d tree (Bentley 1975).

    >>> halving_order(np.array([[0.9, 0.0], [0.0, 0.1], [1.0, 0.0], [0.1, 0.0]])).tolist()
    [1, 3, 0, 2]
    """
    m, p = points.shape
    order, bounds = np.arange(m), np.array([0, m])
    while p and len(bounds) <= m:
        sizes = np.diff(bounds)
        part = np.repeat(np.arange(len(sizes)), sizes)
        placed = points[order]
        width = np.maximum.reduceat(placed, bounds[:-1]) - np.minimum.reduceat(placed, bounds[:-1])
        order = order[np.lexsort((order, placed[np.arange(m), width.argmax(axis=1)[part]], part))]
        middle = (bounds[:-1] + bounds[1:] + 1) // 2
        bounds = np.unique(np.concatenate([bounds, middle]))
    return order
