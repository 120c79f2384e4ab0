r"""Exact nearest neighbours among points of the unit cube, for all of a nest of sets in one pass.

**Definition.** The squared distance of a row from a point is the sum over coordinates, first to last, of squared
differences in doubles (`squared_distances`). The neighbour of a row is the point with the least such number, the first
one of those that share it. It depends on that row alone, to the last bit, whatever is searched along with it.

Searches only propose: a proposal is final where its lead exceeds anything that rounding can explain, and is compared by
the definition otherwise. What decides is never an approximate distance.

*Few dimensions*: scipy's k-d tree, nearest few at once. It bounds the squared distance of a box by adding and
subtracting numbers of at most p along its path, at most :math:`\log_2 m + 2 p + 1` deep (half of a box's points are cut
off at each step, except where they share a coordinate, twice for each), so every point that it does not return is at
least as far as the last returned one, less :math:`2^{-40} (p + 1)` (`MARGIN`), which also covers the roundings of both
squared distances. Rows whose first and last proposals are closer than that are asked again with more proposals.

*Many dimensions*: products of matrices in single precision. With rows and points centred, :math:`|q| \le B_q`,
:math:`|e| \le B`, the computed :math:`\tfrac12 |e|^2 - q \cdot e` is off by at most
:math:`2^{-24} (p + 8) (B_q B + B^2)`, in whatever order a library adds (Higham 2002, chapter 3: p products of rounded
factors, p sums, one subtraction); all points within twice that of the least are compared by the definition.

*Tiles*: large searches in at most 16 dimensions cut the points into tiles and leave out those whose box is too far
away (`hdpstats.solvers.tiles`). With coordinates rounded to single precision, a gap between a row and a box is at most
:math:`|q_j - e_j| + 2^{-24} (|q_j| + |e_j|)` before it is rounded, for every point of the tile, so by the triangle
inequality half the computed squared distance of the box exceeds :math:`\tfrac12 |q - e|^2` by at most
:math:`2^{-25} (p + 8) (B_q + B)^2`. A tile is left out if half its squared distance exceeds :math:`\tfrac12 |q|^2` and
the least product by more than the sum of twice the error of products and twice that of boxes: each of its points is
then farther than one that has been seen, also by the definition.

*Nests*: for sets :math:`E_1 \subset E_2 \subset \ldots`, all of which begin one list of points, the neighbour in the
smaller set is the first of the nearest few that belongs to it. Only rows none of whose proposals belongs to it are
asked again, in a smaller tree; products run over the list once.

References
----------
Higham (2002), *Accuracy and Stability of Numerical Algorithms*.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.spatial import cKDTree

from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.solvers import tiles

BLOCK = 65_536
"""Rows that are answered at a time."""

MARGIN = 2.0**-40
"""Of squared distances, times p + 1: larger than all roundings of a k-d tree."""

TREE_DIMENSION = 7
"""Up to here trees are faster than products for all but a few points."""

FEWEST_IN_TREE = 64
PROPOSALS = 8
MOST_PROPOSALS = 128
LEVEL = 0.6
"""Trees are made for sets whose sizes differ by at least this factor."""

ROWS_OF_PRODUCT, POINTS_OF_PRODUCT = 512, 2048
PAIRS = 2**20

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
    blocks = [block.place[0] for block in nested_nearest(rows, points, [len(points)])]
    return np.concatenate(blocks) if blocks else np.zeros(0, dtype=np.int64)


def nested_nearest(rows: FloatArray, points: FloatArray, sizes: Sequence[int]) -> Iterator[Nearest]:
    """Yield the neighbours of blocks of ``rows`` (n, p) among the first ``sizes`` of ``points`` (m, p), for all sizes.

    Parameters
    ----------
    rows, points
        In the unit cube; at least one point.
    sizes
        Increasing from 1 or more; the last one is m.
    """
    search: _Trees | _Products | _Tiles
    if rows.shape[1] <= TREE_DIMENSION and len(points) >= FEWEST_IN_TREE:
        search = _Trees(points, sizes)
    elif rows.shape[1] <= COMPILED_DIMENSION and len(rows) * len(points) >= COMPILED_PAIRS:
        search = _Tiles(points, sizes)
    else:
        search = _Products(points, sizes)
    for start in range(0, len(rows), BLOCK):
        yield search.answer(rows[start : start + BLOCK])


def _first(rows: FloatArray, points: FloatArray, places: IntArray) -> tuple[IntArray, FloatArray]:
    """Return proposals (b, k) in the order of the definition, and their squared distances."""
    places = np.sort(places, axis=1)
    squared = squared_distances(rows[:, None, :], points[places])
    order = np.argsort(squared, axis=1, kind="stable")
    return np.take_along_axis(places, order, 1), np.take_along_axis(squared, order, 1)


@final
class _Chain:
    """Answers (K, b) in a row's order: each holds from the set where it begins until an earlier answer of the row."""

    def __init__(self, sets: int, rows: int) -> None:
        self._begins = np.full((sets, rows), np.iinfo(np.int64).max)
        self._place: list[IntArray] = []
        self._squared: list[FloatArray] = []
        self._length = 0

    def add(self, number: IntArray, row: IntArray, place: IntArray, squared: FloatArray) -> None:
        """Add answers, of each row from larger sets down to smaller ones."""
        self._begins[number, row] = np.arange(self._length, self._length + len(row))
        self._place.append(place)
        self._squared.append(squared)
        self._length += len(row)

    def whole(self) -> Nearest:
        """Return the answers of all rows in all sets."""
        answer = np.minimum.accumulate(self._begins, axis=0, out=self._begins)
        place, squared = np.concatenate(self._place), np.concatenate(self._squared)
        return Nearest(place=place.take(answer), squared=squared.take(answer))


@final
class _Trees:
    def __init__(self, points: FloatArray, sizes: Sequence[int]) -> None:
        self._points, self._sizes = points, np.array(sizes, dtype=np.int64)
        self._margin = MARGIN * (points.shape[1] + 1)
        self._trees: dict[int, cKDTree] = {}
        self._level = _levels(self._sizes)
        self._first_set = np.repeat(np.arange(len(sizes)), np.diff(self._sizes, prepend=0))

    def answer(self, rows: FloatArray) -> Nearest:
        """Return the neighbours of some rows, from the largest set down to the smallest."""
        chain = _Chain(len(self._sizes), len(rows))
        unanswered = np.full(len(rows), len(self._sizes))
        while np.any(unanswered):
            level = int(np.max(self._level[unanswered - 1], where=unanswered > 0, initial=0))
            asked = np.flatnonzero((unanswered > 0) & (self._level[unanswered - 1] == level))
            self._ask(rows, asked, level, unanswered, chain)
        return chain.whole()

    def _ask(self, rows: FloatArray, asked: IntArray, level: int, unanswered: IntArray, chain: _Chain) -> None:
        """Answer the largest unanswered size of the asked rows, and smaller ones as far as the same proposals tell."""
        size = int(self._sizes[level])
        proposals = PROPOSALS if len(self._sizes) > 1 else 2
        while asked.size and proposals < min(size, MOST_PROPOSALS):
            places, distances, certain = self._propose(rows[asked], size, proposals)
            begins = np.where(certain, self._first_set[places], len(self._sizes))
            earlier = np.minimum.accumulate(np.column_stack([unanswered[asked], begins]), axis=1)
            row, answer = np.nonzero(begins < earlier[:, :-1])
            chain.add(begins[row, answer], asked[row], places[row, answer], distances[row, answer])
            asked_again = asked[earlier[:, -1] == unanswered[asked]]
            unanswered[asked] = earlier[:, -1]
            asked, proposals = asked_again, proposals * 4
        if asked.size:
            self._compare_all(rows, asked, unanswered, chain)

    def _propose(self, rows: FloatArray, size: int, proposals: int) -> tuple[IntArray, FloatArray, BoolArray]:
        """Return proposals (b, k) in order, their squared distances, and which precede all that were not proposed."""
        if size not in self._trees:
            self._trees[size] = cKDTree(self._points[:size])
        distances, found = self._trees[size].query(rows, k=proposals)
        frontier = distances[:, -1:] ** 2 - self._margin
        places = found.astype(np.int64, copy=False)
        squared = squared_distances(rows[:, None, :], self._points[places])
        unsorted = np.flatnonzero(np.any(squared[:, 1:] <= squared[:, :-1], axis=1))
        places[unsorted], squared[unsorted] = _first(rows[unsorted], self._points, places[unsorted])
        return places, squared, squared < frontier

    def _compare_all(self, rows: FloatArray, asked: IntArray, unanswered: IntArray, chain: _Chain) -> None:
        """Answer all sizes by the definition alone: for few points, and for crowds at one distance."""
        width = max(1, PAIRS // len(self._points))
        top = int(unanswered[asked].max())
        for start in range(0, len(asked), width):
            some = asked[start : start + width]
            distances = squared_distances(rows[some][:, None, :], self._points[None, : self._sizes[top - 1]])
            for number in range(top - 1, -1, -1):
                told = np.flatnonzero(unanswered[some] > number)
                place = distances[told, : self._sizes[number]].argmin(axis=1)
                chain.add(np.full(len(told), number), some[told], place, distances[told, place])
        unanswered[asked] = 0


def _levels(sizes: IntArray) -> IntArray:
    """Return for each size the size whose tree it is searched in: itself, or a larger one that is not much larger."""
    level, top = np.empty(len(sizes), dtype=np.int64), len(sizes) - 1
    for number in range(len(sizes) - 1, -1, -1):
        top = number if sizes[number] < LEVEL * sizes[top] else top
        level[number] = top
    return level


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
                near = np.flatnonzero(lowest <= least + slack)
                np.minimum(least, lowest, out=least)
                row, column = np.nonzero(scores[near] <= (least + slack)[near, None])
                self.improve(rows, near[row], column + start, best)
                start = stop
            place[number], squared[number] = best.place[0], best.squared[0]
        return Nearest(place=place, squared=squared)

    def single(self, rows: FloatArray) -> tuple[tiles.SingleArray, tiles.SingleArray]:
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
        self._parts = [tiles.tiles_of(factors[:, a:b], a) for a, b in zip(starts, sizes, strict=True)]
        self._improve = tiles.kernel(points.shape[1])

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
            self._improve(single, half, slack[order] + wide, rows, *boxes, self._points, least, best, where)
            answer.place[number, order], answer.squared[number, order] = where, best
        return answer
