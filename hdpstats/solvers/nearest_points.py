r"""Exact nearest neighbours among points of the unit cube, for all of a nest of sets in one pass.

**Definition.** The squared distance of a row from a point is the sum over coordinates, first to last, of squared
differences in doubles (`squared_distances`). The neighbour of a row is the point with the least such number, the first
one of those that share it. It depends on that row alone, to the last bit, whatever is searched along with it.

Approximate distances only propose: what lies within anything that rounding can explain of the best is compared by the
definition, which alone decides.

*Few dimensions*: a compiled k-d tree that computes all distances by the definition (`hdpstats.solvers.searches`).

*Many dimensions*: products of matrices in single precision. With rows and points centred, :math:`|q| \le B_q`,
:math:`|e| \le B`, the computed :math:`\tfrac12 |e|^2 - q \cdot e` is off by at most
:math:`2^{-24} (p + 8) (B_q B + B^2)`, in whatever order a library adds (Higham 2002, chapter 3: p products of rounded
factors, p sums, one subtraction); all points within twice that of the least are compared by the definition.

*Tiles*: large searches in at most 16 dimensions cut the points into tiles and leave out those whose box is too far
away. With coordinates rounded to single precision, a gap between a row and a box is at most
:math:`|q_j - e_j| + 2^{-24} (|q_j| + |e_j|)` before it is rounded, for every point of the tile, so by the triangle
inequality half the computed squared distance of the box exceeds :math:`\tfrac12 |q - e|^2` by at most
:math:`2^{-25} (p + 8) (B_q + B)^2`. A tile is left out if half its squared distance exceeds :math:`\tfrac12 |q|^2` and
the least product by more than the sum of twice the error of products and twice that of boxes: each of its points is
then farther than one that has been seen, also by the definition.

*Work*: each search has a bound that follows from the numbers of rows, points, coordinates and sets, and reaches it in a
rehearsal (`hdpstats._base.rehearsal`), with the same answer. Products compare at most all pairs by the definition, a
row at many points with all of a block at once: a row as far from very many points costs little more than another.

*Nests*: sets :math:`E_1 \subset E_2 \subset \ldots` all begin one list of points, which is gone through once.

References
----------
Higham (2002), *Accuracy and Stability of Numerical Algorithms*.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from hdpstats._base.compiled import compiled
from hdpstats._base.rehearsal import full_length
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.work import Operations, sorting
from hdpstats.solvers import searches

BLOCK = 65_536
"""Rows that are answered at a time."""

NUMBERS = 2**25
"""Coordinates of rows that are held at a time."""

TREE_DIMENSION, TREE_PAIRS = 7, 5 * 10**7
"""Up to that dimension and from that many pairs of rows and points on, a tree is made: before compiled code is loaded,
products are done with fewer."""

SORTED_POINTS = 2**16
"""Points from which rows are searched cell by cell of a grid, so that one row after the other meets the same part of a
tree that is too large for the cache."""

ROWS_OF_PRODUCT, POINTS_OF_PRODUCT = 512, 2048
PAIRS = 2**20

MANY = 16
"""Where one in so many pairs is to be compared by the definition, all of them are, without a list of them."""

COMPILED_DIMENSION, COMPILED_PAIRS = 16, 2 * 10**9
"""Up to that dimension and from that many pairs of rows and points on, points are cut into tiles."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Nearest:
    """Neighbours of some rows in K nested sets: places in the list of points, and squared distances, both (K, rows)."""

    place: IntArray
    squared: FloatArray


def squared_distances(rows: FloatArray, points: FloatArray) -> FloatArray:
    """Return squared distances of rows (..., p) from points (..., p): the definition, coordinate after coordinate."""
    total = np.zeros(np.broadcast_shapes(rows.shape[:-1], points.shape[:-1]))
    for j in range(rows.shape[-1]):
        gap = rows[..., j] - points[..., j]
        total += gap * gap
    return total


def nearest(rows: FloatArray, points: FloatArray) -> IntArray:
    """Return the place (n,) of the nearest of ``points`` (m, p) for each of ``rows`` (n, p), all in the unit cube."""
    places = [block.place[0] for block in nested_nearest(rows, points, [len(points)])]
    return np.concatenate(places) if places else np.zeros(0, dtype=np.int64)


def nested_nearest(rows: FloatArray, points: FloatArray, sizes: Sequence[int]) -> Iterator[Nearest]:
    """Yield the neighbours of blocks of ``rows`` (n, p) among the first ``sizes`` of ``points`` (m, p), for all sizes.

    Parameters
    ----------
    rows, points
        In the unit cube; at least one point.
    sizes
        Increasing from 1 or more; the last one is m.
    """
    search = search_among(points, sizes, rows=len(rows))
    for part in blocks(len(rows), dimension=rows.shape[1]):
        yield search.answer(rows[part])


class Search(Protocol):
    """Points that can be searched for the neighbours of any rows."""

    def answer(self, rows: FloatArray) -> Nearest:
        """Return the neighbours of some rows (b, p), at most `BLOCK` of them."""
        ...


def search_among(points: FloatArray, sizes: Sequence[int], *, rows: int) -> Search:
    """Return the search among points (m, p) that is the fastest for so many rows, about; all find the same.

    Where the number of rows is private, give the one that is declared: which search is made can be seen from the time.
    """
    return _kind(len(points), rows=rows, dimension=points.shape[1])(points, sizes)


def _kind(points: int, *, rows: int, dimension: int) -> "type[_Tree | _Tiles | _Products]":
    if dimension <= TREE_DIMENSION and rows * points >= TREE_PAIRS:
        return _Tree
    if dimension <= COMPILED_DIMENSION and rows * points >= COMPILED_PAIRS:
        return _Tiles
    return _Products


def search_work(points: int, sizes: Sequence[int], *, rows: int, declared: int, dimension: int) -> Operations:
    """Return what the neighbours of so many rows take at most; ``declared`` as ``rows`` of `search_among`.

    All pairs are compared, in all coordinates; a product of single precision comes before, or the nodes of a tree.
    """
    p, pairs, K = dimension, float(rows) * points, len(sizes)
    nodes = Operations(sorts=2.0 * sorting(points), passes=40.0 * (p + 1.0) * points, steps=400.0)
    ordered = Operations(steps=60.0 * (K + 1.0), passes=(20.0 * K + 40.0 + 6.0 * p) * rows, sorts=2.0 * sorting(rows))
    kind = _kind(points, rows=declared, dimension=p)
    if kind is _Tree:
        return nodes + ordered + Operations(products=pairs * (3.0 * p + 6.0 * K + 80.0))
    if kind is _Tiles:
        return nodes + ordered + Operations(products=pairs * (5.0 * p + 12.0))
    parts = (rows / ROWS_OF_PRODUCT + 1.0) * (points / POINTS_OF_PRODUCT + K + 1.0)
    listed = Operations(sorts=sorting(pairs / MANY, PAIRS))
    compared = Operations(steps=parts * (60.0 + 6.0 * p), passes=pairs * (4.0 * p + 8.0), squares=pairs * (p + 1.0))
    return nodes + ordered + listed + compared


def load_search(points: int, *, rows: int, dimension: int) -> None:
    """Load the compiled code of `search_among`, or compile it: of the search that it returns for so many."""
    kind = _kind(points, rows=rows, dimension=dimension)
    if kind is not _Products:
        few = np.linspace(0.0, 1.0, 4)[:, None] * np.ones(dimension)
        kind(few, [2, 4]).answer(few)


def blocks(rows: int, *, dimension: int) -> list[slice]:
    """Return the blocks of at most `BLOCK` rows each, and at most `NUMBERS` coordinates."""
    size = max(1, min(BLOCK, NUMBERS // max(dimension, 1)))
    return [slice(start, start + size) for start in range(0, rows, size)]


@final
class _Tree:
    """A tree over all points, each of whose nodes knows the first set that has one of its points."""

    def __init__(self, points: FloatArray, sizes: Sequence[int]) -> None:
        self._tree, self._sets = searches.tree_of(points[: sizes[-1]], sizes), len(sizes)

    def answer(self, rows: FloatArray) -> Nearest:
        """Return the neighbours of some rows."""
        if len(self._tree.points) < SORTED_POINTS:
            return self._search(rows)
        p = rows.shape[1]
        side = int(BLOCK ** (1.0 / max(p, 1)))
        order = np.argsort((rows * side).astype(np.int64) @ side ** np.arange(p))
        in_order = self._search(rows[order])
        answer = Nearest(place=np.empty_like(in_order.place), squared=np.empty_like(in_order.squared))
        answer.place[:, order], answer.squared[:, order] = in_order.place, in_order.squared
        return answer

    def _search(self, rows: FloatArray) -> Nearest:
        own, shape = self._tree, (self._sets, len(rows))
        answer = Nearest(place=np.empty(shape, dtype=np.int64), squared=np.empty(shape))
        leaves, nodes = (own.points, own.place, own.sets), (own.low, own.high, own.first, own.depth)
        searches.search(np.ascontiguousarray(rows), *leaves, *nodes, full_length(), answer.place, answer.squared)
        return answer


@final
class _Products:
    def __init__(self, points: FloatArray, sizes: Sequence[int]) -> None:
        self._points, self._sizes = points, sizes
        self._centre = points.mean(axis=0)
        centred = points - self._centre
        halves = 0.5 * np.einsum("ij,ij->i", centred, centred)
        self.factors = np.ascontiguousarray(np.vstack([-centred.T, halves]), dtype=np.float32)
        self._reach = float(np.sqrt(2.0 * halves.max()))
        self._scores = np.empty(ROWS_OF_PRODUCT * POINTS_OF_PRODUCT, dtype=np.float32)

    def answer(self, rows: FloatArray) -> Nearest:
        """Return the neighbours of some rows."""
        parts = [self._answer(rows[start : start + ROWS_OF_PRODUCT]) for start in range(0, len(rows), ROWS_OF_PRODUCT)]
        return Nearest(
            place=np.concatenate([part.place for part in parts], axis=1),
            squared=np.concatenate([part.squared for part in parts], axis=1),
        )

    def _answer(self, rows: FloatArray) -> Nearest:
        """Go through the points once; the best so far is final for a size when all its points have been seen."""
        single, slack = self.single(rows)
        least = np.full(len(rows), np.inf, dtype=np.float32)
        best = Nearest(place=np.zeros((1, len(rows)), dtype=np.int64), squared=np.full((1, len(rows)), np.inf))
        place = np.empty((len(self._sizes), len(rows)), dtype=np.int64)
        squared = np.empty((len(self._sizes), len(rows)))
        start = 0
        for number, size in enumerate(self._sizes):
            while start < size:
                stop = min(start + POINTS_OF_PRODUCT, size)
                scores = self._scores[: len(rows) * (stop - start)].reshape(len(rows), -1)
                np.matmul(single, self.factors[:, start:stop], out=scores)
                lowest = scores.min(axis=1)
                near = np.flatnonzero((lowest <= least + slack) | full_length())
                np.minimum(least, lowest, out=least)
                close = scores[near] <= (least + slack)[near, None]
                if MANY * np.count_nonzero(close) > close.size or full_length():
                    self.improve_by_all(rows, near, slice(start, stop), best)
                else:
                    row, column = np.nonzero(close)
                    self.improve(rows, near[row], column + start, best)
                start = stop
            place[number], squared[number] = best.place[0], best.squared[0]
        return Nearest(place=place, squared=squared)

    def single(self, rows: FloatArray) -> tuple[searches.SingleArray, searches.SingleArray]:
        """Return the other factors of products, centred rows and a one (b, p + 1), and `slack`."""
        centred = rows - self._centre
        single = np.ones((len(rows), rows.shape[1] + 1), dtype=np.float32)
        single[:, :-1] = centred
        return single, self.slack(centred)

    def slack(self, centred: FloatArray) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
        """Return twice the error of a product, for each row, rounded upwards."""
        p, reach = centred.shape[1], self._reach
        length = np.sqrt(np.einsum("ij,ij->i", centred, centred))
        error = 2.0**-24 * (p + 8) * (length * reach + reach**2) + 2.0**-50 * (p + 8) * (length + reach) ** 2
        slack = 2.0 * error + 2.0**-23 * (0.5 * reach**2 + length * reach) + 1e-30
        return np.asarray(np.nextafter(slack.astype(np.float32), np.float32(np.inf)))

    def reach_of_boxes(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return half the squares of centred rows, and more than the error of a box, both (b,)."""
        centred = rows - self._centre
        half = 0.5 * np.einsum("ij,ij->i", centred, centred)
        return half, 2.0**-24 * (rows.shape[1] + 8) * (np.sqrt(2.0 * half) + self._reach) ** 2

    def improve_by_all(self, rows: FloatArray, near: IntArray, points: slice, best: Nearest) -> None:
        """Compare some of the rows with all of some later points, by the definition."""
        if not len(near):
            return
        squared = squared_distances(rows[near, None], self._points[None, points])
        first = squared.argmin(axis=1)
        squared = squared[np.arange(len(near)), first]
        better = squared < best.squared[0, near]
        chosen = near[better]
        best.place[0, chosen], best.squared[0, chosen] = points.start + first[better], squared[better]

    def improve(self, rows: FloatArray, row: IntArray, point: IntArray, best: Nearest) -> None:
        """Compare pairs of a row and a later point with the best so far, by the definition."""
        for start in range(0, len(row), PAIRS):
            r, e = row[start : start + PAIRS], point[start : start + PAIRS]
            squared = squared_distances(rows[r], self._points[e])
            order = np.lexsort((e, squared, r))
            r, e, squared = r[order], e[order], squared[order]
            leads = np.append(True, r[1:] != r[:-1]) if len(r) else np.zeros(0, dtype=np.bool_)
            r, e, squared = r[leads], e[leads], squared[leads]
            better = squared < best.squared[0, r]
            best.place[0, r[better]], best.squared[0, r[better]] = e[better], squared[better]


@final
class _Tiles:
    """Products with tiles of points, from which boxes too far away are left out; each set adds tiles of its own."""

    def __init__(self, points: FloatArray, sizes: Sequence[int]) -> None:
        self._products, self._points = _Products(points, sizes), np.ascontiguousarray(points)
        factors, starts = self._products.factors, (0, *sizes[:-1])
        self._parts = [searches.tiles_of(factors[:, a:b], a) for a, b in zip(starts, sizes, strict=True)]
        self._improve = searches.kernel(points.shape[1])

    def answer(self, rows: FloatArray) -> Nearest:
        """Return the neighbours of some rows, which go through the tiles orthant by orthant."""
        single, slack = self._products.single(rows)
        order = np.argsort((single[:, :-1] > 0) @ (1 << np.arange(rows.shape[1])))
        rows, single = np.ascontiguousarray(rows[order]), np.ascontiguousarray(single[order, :-1])
        half, wide = self._products.reach_of_boxes(rows)
        least, best = np.full(len(rows), np.inf), np.full(len(rows), np.inf)
        where = np.zeros(len(rows), dtype=np.int64)
        shape = (len(self._parts), len(rows))
        answer = Nearest(place=np.empty(shape, dtype=np.int64), squared=np.empty(shape))
        for number, part in enumerate(self._parts):
            boxes = (part.factors, part.low, part.high, part.place)
            answers = (least, best, where)
            self._improve(single, half, slack[order] + wide, rows, *boxes, self._points, full_length(), *answers)
            answer.place[number, order], answer.squared[number, order] = where, best
        return answer


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
    coordinates, left, squared = np.ascontiguousarray(points.T), np.full(len(points), np.inf), np.empty(len(points))
    for number in range(count):
        order[number] = place
        _approach(coordinates, place, left, squared)
        place = int(left.argmax())
        radius[number] = left[place]
    return order, np.sqrt(radius)


@compiled
def _approach(coordinates: FloatArray, place: int, left: FloatArray, squared: FloatArray) -> None:
    """Lower ``left`` (m,) to the squared distances of points (p, m) from one of them; overwrite ``squared`` (m,)."""
    squared[:] = 0.0
    for j in range(len(coordinates)):
        here = coordinates[j, place]
        for i in range(len(squared)):
            gap = coordinates[j, i] - here
            squared[i] += gap * gap
    for i in range(len(left)):
        left[i] = min(left[i], squared[i])


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
