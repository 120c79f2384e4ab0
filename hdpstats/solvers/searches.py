r"""Two compiled searches for nearest points: by tiles of points, and by a k-d tree, each exact.

**Tiles.** Tiles of points that stand together, and a compiled search that leaves out those too far away.

A tile has a box around its points. Half the squared distance of a row from the box is at most that from any of its
points, so tiles whose box is farther than a point already seen are left out. The others are compared by products in
single precision, many points at once, and what products do not decide is compared by the definition in doubles.

**Work.** A row goes at most through all tiles, twice, and compares each of their points once by the definition: that is
what ``full`` does, with the same answer.

The compiled loop of `numba` is made for one dimension at a time, as it is fast only where the number of coordinates is
known when it is compiled. It takes some seconds to compile, so it is for large searches. The distance of the
definition is compiled without permission to contract or reorder: it is that of numpy to the last bit.

**Tree.** A k-d tree that finds the neighbours of a row in all sets of a nest at once, exactly.

Points are halved by rank in the coordinate in which they are widest, until at most `LEAF` stand together. Every node
keeps the box around its points and the first set that has one of them; a search goes to the nearer child first
(Friedman, Bentley and Finkel 1977).

**No margin.** The distance of a row from a box is computed by the operations of the definition
(`hdpstats.solvers.nearest_points.squared_distances`), in its order, from the gap between the row and the nearer side of
the box, or 0. In every coordinate each point of the box is as far from the row or farther, and rounding is monotone:
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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import numba
import numpy as np
import numpy.typing as npt

from hdpstats._base.compiled import compiled
from hdpstats._base.typing import FloatArray, IntArray

SingleArray = npt.NDArray[np.float32]

LANES, ROWS = 128, 16
"""Points of a tile, and rows that go through the tiles together, so that tiles stay in the cache."""

FAR = np.float32(1e30)
"""Halved square of points that fill up a tile, and distance of tiles that have been seen."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Tiles:
    """Factors (T, p + 1, `LANES`) of products, boxes (p, T) around the tiles, and places (T, `LANES`) of points."""

    factors: SingleArray
    low: SingleArray
    high: SingleArray
    place: IntArray


def tiles_of(factors: SingleArray, start: int) -> Tiles:
    """Return tiles of points ``start``, ``start + 1``, ..., given minus their coordinates and half their squares.

    Parts are halved in the coordinate in which they are widest, at whole tiles; so only the last tile is filled up,
    with points far away.
    """
    order, parts = [], [np.arange(factors.shape[1])]
    while parts:
        part = parts.pop()
        if len(part) <= LANES:
            order.append(part)
            continue
        placed = factors[:-1, part]
        half = LANES * ((-(-len(part) // LANES) + 1) // 2)
        widest = int(np.ptp(placed, axis=1).argmax())
        halved = part[np.argpartition(placed[widest], half)]
        parts += [halved[half:], halved[:half]]
    whole = np.concatenate(order)
    filled = np.pad(whole, (0, -len(whole) % LANES), mode="edge")
    tiled = factors[:, filled]
    tiled[-1, len(whole) :] = FAR
    tiled = np.ascontiguousarray(tiled).reshape(len(factors), -1, LANES)
    return Tiles(
        factors=np.ascontiguousarray(tiled.transpose(1, 0, 2)),
        low=np.ascontiguousarray(-tiled[:-1].max(axis=2)),
        high=np.ascontiguousarray(-tiled[:-1].min(axis=2)),
        place=start + filled.reshape(-1, LANES),
    )


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def _squared(row: Any, point: Any) -> Any:
    """Return the squared distance of the definition: no flag lets the compiler fuse or reorder its sums."""
    total = 0.0
    for j in range(len(row)):
        gap = row[j] - point[j]
        total += gap * gap
    return total


RELAXED = {"contract", "nnan", "nsz"}
"""What the compiler may do to single precision: fuse products and sums; there is nothing undefined in them."""


def _scores(p: int) -> Callable[..., Any]:
    @numba.njit(nogil=True, fastmath=RELAXED)  # type: ignore[untyped-decorator]
    def scores(row: Any, tile: Any, lane: Any) -> Any:
        """Write the products of a row with a tile into ``lane``, and return the least."""
        for k in range(LANES):
            score = tile[p, k]
            for j in range(p):
                score += row[j] * tile[j, k]
            lane[k] = score
        least = lane[0]
        for k in range(LANES):
            least = lane[k] if lane[k] < least else least
        return least

    compiled: Callable[..., Any] = scores
    return compiled


def _boxes(p: int) -> Callable[..., Any]:
    @numba.njit(nogil=True, fastmath=RELAXED)  # type: ignore[untyped-decorator]
    def boxes(row: Any, low: Any, high: Any, bound: Any) -> Any:
        """Write half the squared distances of a row from all boxes into ``bound``, and return the least."""
        for t in range(len(bound)):
            total = np.float32(0.0)
            for j in range(p):
                gap = max(max(low[j, t] - row[j], row[j] - high[j, t]), np.float32(0.0))
                total += gap * gap
            bound[t] = np.float32(0.5) * total
        least = bound[0]
        for t in range(len(bound)):
            least = bound[t] if bound[t] < least else least
        return least

    compiled: Callable[..., Any] = boxes
    return compiled


def _decide(scores: Callable[..., Any]) -> Callable[..., Any]:
    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def decide(
        single: Any, row: Any, factors: Any, place: Any, points: Any, most: Any, full: Any,
        lane: Any, best: Any, where: Any,
    ) -> Any:  # fmt: skip
        """Return the better of the nearest point so far and the points of a tile whose products are not above most."""
        scores(single, factors, lane)
        for k in range(LANES):
            if full or lane[k] <= most:
                squared = _squared(row, points[place[k]])
                if squared < best or (squared == best and place[k] < where):
                    best, where = squared, place[k]
        return best, where

    compiled: Callable[..., Any] = decide
    return compiled


@cache
def kernel(p: int) -> Callable[..., None]:
    """Return a function that improves the neighbours of rows by the points of some tiles.

    Its arguments: centred rows (b, p) in single precision, half their squares (b,), slacks (b,), rows (b, p); factors,
    low, high and place of `Tiles`; all points (m, p); whether nothing is left out; and what it improves: the least
    product so far (b,), the squared distance (b,) and the place (b,) of the nearest point so far, the first one of
    those that share it.
    """
    scores, boxes = _scores(p), _boxes(p)
    decide = _decide(scores)

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def improve(
        single: Any, half: Any, slack: Any, rows: Any,
        factors: Any, low: Any, high: Any, place: Any, points: Any, full: Any,
        least: Any, best: Any, where: Any,
    ) -> None:  # fmt: skip
        number = len(factors)
        bound, score = np.empty((ROWS, number), np.float32), np.empty((ROWS, number), np.float32)
        seen, count, limit = np.empty((ROWS, number), np.int64), np.empty(ROWS, np.int64), np.empty(ROWS)
        lane = np.empty(LANES, np.float32)
        for start in range(0, len(rows), ROWS):
            width = min(ROWS, len(rows) - start)
            for r in range(width):
                i = start + r
                closest, first = boxes(single[i], low, high, bound[r]), 0
                while bound[r, first] != closest:
                    first += 1
                score[r, 0], seen[r, 0], count[r] = scores(single[i], factors[first], lane), first, 1
                bound[r, first] = FAR
                least[i] = min(least[i], score[r, 0])
                limit[r] = half[i] + least[i] + slack[i]
            for t in range(number):
                for r in range(width):
                    if bound[r, t] <= limit[r] or (full and bound[r, t] < FAR):
                        i = start + r
                        lowest = scores(single[i], factors[t], lane)
                        score[r, count[r]], seen[r, count[r]] = lowest, t
                        count[r] += 1
                        if lowest < least[i]:
                            least[i] = lowest
                            limit[r] = half[i] + least[i] + slack[i]
            for r in range(width):
                i = start + r
                most = least[i] + slack[i]
                for c in range(count[r]):
                    if full or score[r, c] <= most:
                        t = seen[r, c]
                        best[i], where[i] = decide(
                            single[i], rows[i], factors[t], place[t], points, most, full, lane, best[i], where[i]
                        )

    compiled: Callable[..., None] = improve
    return compiled


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
def _squared_at(rows: FloatArray, i: int, points: FloatArray, t: int) -> float:
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
    best, nearest = np.empty(K), np.empty(K, dtype=np.int64)
    node, far = np.zeros(depth + 2, dtype=np.int64), np.zeros(depth + 2)
    for i in range(len(rows)):
        for k in range(K):
            best[k], nearest[k] = np.inf, 0
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
                apart, k = _squared_at(rows, i, points, t), sets[t]
                while k < K:
                    if apart < best[k] or (apart == best[k] and place[t] < nearest[k]):
                        best[k], nearest[k] = apart, place[t]
                    elif not full:
                        break
                    k += 1
        for k in range(K):
            where[k, i], squared[k, i] = nearest[k], best[k]
