"""Tiles of points that stand together, and a compiled search that leaves out those too far away.

A tile has a box around its points. Half the squared distance of a row from the box is at most that from any of its
points, so tiles whose box is farther than a point already seen are left out. The others are compared by products in
single precision, many points at once, and what products cannot tell is compared by the definition in doubles.

**Work.** A row goes at most through all tiles, twice, and compares each of their points once by the definition: that is
what ``full`` does, with the same answer.

The compiled loop of `numba` is made for one dimension at a time, as it is fast only where the number of coordinates is
known when it is compiled. It takes some seconds to compile, so it pays for large searches. The distance of the
definition is compiled without permission to contract or reorder: it is that of numpy to the last bit.

References
----------
Friedman, Bentley and Finkel (1977), *An algorithm for finding best matches in logarithmic expected time*.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import numba
import numpy as np
import numpy.typing as npt

from hdpstats._base.typing import IntArray

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
