r"""A k-d tree that finds the neighbours of a row in all sets of a nest at once, exactly.

Points are halved by rank in the coordinate in which they are widest, until at most `LEAF` stand together. Every node
keeps the box around its points and the first set that has one of them; a search goes to the nearer child first
(Friedman, Bentley and Finkel 1977).

**No margin.** The distance of a row from a box is computed by the operations of the definition
(`hdpstats.solvers.nearest.squared_distances`), in its order, from the gap between the row and the nearer side of the
box, or 0. In every coordinate each point of the box is as far from the row or farther, and rounding is monotone:
differences, squares and sums of numbers that are no less are no less when they are rounded. So no *computed* distance
of a point is below that of its box, and a box is left out where that is above the best distance so far. Boxes at the
same distance are searched: one of their points may come first.

**Nests.** The best of a set is no worse than that of a smaller one. A point of set ``s`` therefore improves the sets
``s``, ``s + 1``, ... up to the first that has something better, and a node whose first set is ``s`` is left out where
it is too far for that set.

**Work.** How many boxes a row leaves out depends on where it lies. It goes through at most all ``2^(depth + 1) - 1``
nodes and all points, and compares each point with at most all sets: that is what ``full`` does, with the same answer.

References
----------
Friedman, Bentley and Finkel (1977), *An algorithm for finding best matches in logarithmic expected time*.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.solvers.compiling import compiled

LEAF = 16
"""Points that stand together at most."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Tree:
    """Points (m, p) in the order of 2^depth leaves, their places and sets (m,), and the nodes from the root down.

    The children of node i are 2 i + 1 and 2 i + 2. ``low`` and ``high`` (nodes, p) are the sides of its box, ``first``
    (nodes,) is the first set that has a point in it.
    """

    points: FloatArray
    place: IntArray
    sets: IntArray
    low: FloatArray
    high: FloatArray
    first: IntArray
    depth: int


def tree_of(points: FloatArray, sizes: Sequence[int]) -> Tree:
    """Return the tree of points (m, p), one or more; the first ``sizes`` of them are the sets, the last one is m."""
    points, m = np.ascontiguousarray(points), len(points)
    depth = (-(-m // LEAF) - 1).bit_length()
    order = np.arange(m)
    _halve(points, order, depth)
    starts = (m * np.arange(2**depth)) >> depth
    placed, sets = points[order], np.repeat(np.arange(len(sizes)), np.diff(sizes, prepend=0))[order]
    return Tree(
        points=placed,
        place=order,
        sets=sets,
        low=_nodes(np.minimum, placed, starts),
        high=_nodes(np.maximum, placed, starts),
        first=_nodes(np.minimum, sets, starts),
        depth=depth,
    )


def _nodes(extreme: np.ufunc, values: Any, starts: IntArray) -> Any:
    """Return the least or greatest values of all nodes, those of points being given by leaf."""
    levels = [extreme.reduceat(values, starts)]
    while len(levels[-1]) > 1:
        levels.append(extreme(levels[-1][::2], levels[-1][1::2]))
    return np.concatenate(levels[::-1])


@compiled
def _halve(points: FloatArray, order: IntArray, depth: int) -> None:
    """Reorder so that part i of 2^depth stands from ``i m >> depth`` on, at every depth so far."""
    m, p = points.shape
    for level in range(depth):
        for i in range(1 << level):
            start, stop = i * m >> level, (i + 1) * m >> level
            widest, width = 0, 0.0
            for j in range(p):
                low = high = points[order[start], j]
                for t in range(start, stop):
                    low, high = min(low, points[order[t], j]), max(high, points[order[t], j])
                if high - low > width:
                    widest, width = j, high - low
            if width > 0.0:
                _select(points[:, widest], order, start, stop - 1, (2 * i + 1) * m >> level + 1)


@compiled
def _select(values: FloatArray, order: IntArray, start: int, last: int, rank: int) -> None:
    """Reorder from ``start`` to ``last`` so that no value before ``rank`` is above one from it on (Hoare 1961)."""
    while start < last:
        pivot, i, j = values[order[(start + last) // 2]], start, last
        while i <= j:
            while values[order[i]] < pivot:
                i += 1
            while values[order[j]] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i, j = i + 1, j - 1
        if rank <= j:
            last = j
        elif rank >= i:
            start = i
        else:
            return


@compiled
def _gap(rows: FloatArray, i: int, low: FloatArray, high: FloatArray, node: int) -> float:
    """Return the squared distance of a row from a box, by the operations of the definition."""
    total = 0.0
    for j in range(rows.shape[1]):
        gap = max(max(low[node, j] - rows[i, j], rows[i, j] - high[node, j]), 0.0)
        total += gap * gap
    return total


@compiled
def _squared(rows: FloatArray, i: int, points: FloatArray, t: int) -> float:
    """Return the squared distance of a row from a point: the definition."""
    total = 0.0
    for j in range(rows.shape[1]):
        gap = rows[i, j] - points[t, j]
        total += gap * gap
    return total


@compiled
def search(
    rows: FloatArray,
    points: FloatArray, place: IntArray, sets: IntArray,
    low: FloatArray, high: FloatArray, first: IntArray, depth: int,
    full: bool, where: IntArray, squared: FloatArray,
) -> None:  # fmt: skip
    """Write places and squared distances (K, b) of the neighbours of rows (b, p).

    With ``full`` nothing is left out. The other arguments are the fields of a `Tree`.
    """
    m, K, last = len(points), len(where), (1 << depth) - 1
    best, found = np.empty(K), np.empty(K, dtype=np.int64)
    node, far = np.zeros(depth + 2, dtype=np.int64), np.zeros(depth + 2)
    for i in range(len(rows)):
        for k in range(K):
            best[k], found[k] = np.inf, 0
        node[0], far[0], waiting = 0, 0.0, 1
        while waiting:
            waiting -= 1
            here = node[waiting]
            if far[waiting] > best[first[here]] and not full:
                continue
            if here < last:
                left = 2 * here + 1
                one, other = _gap(rows, i, low, high, left), _gap(rows, i, low, high, left + 1)
                near = 0 if one <= other else 1
                node[waiting], far[waiting] = left + 1 - near, max(one, other)
                node[waiting + 1], far[waiting + 1] = left + near, min(one, other)
                waiting += 2
                continue
            for t in range((here - last) * m >> depth, (here - last + 1) * m >> depth):
                apart, k = _squared(rows, i, points, t), sets[t]
                while k < K:
                    if apart < best[k] or (apart == best[k] and place[t] < found[k]):
                        best[k], found[k] = apart, place[t]
                    elif not full:
                        break
                    k += 1
        for k in range(K):
            where[k, i], squared[k, i] = found[k], best[k]
