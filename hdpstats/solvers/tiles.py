"""The least product of each row with each tile of points, in single precision, without storing the products.

A compiled loop of `numba`, made for one dimension at a time, as it is fast only where the number of coordinates is
known when it is compiled. It takes some seconds to compile, so it pays for large searches.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

SingleArray = npt.NDArray[np.float32]

LANES, ROWS, CHUNKS = 64, 2, 16
"""Points that are compared at once, rows that share them, and how often in a tile: of 1024 points."""

TILE = LANES * CHUNKS
FAR = np.float32(1e30)
"""Halved square of points that fill up a tile."""


def tiles_of(factors: SingleArray) -> SingleArray:
    """Return factors (p + 1, m) as tiles (T, `CHUNKS`, p + 1, `LANES`), the last one filled up with points far away."""
    p, m = factors.shape[0] - 1, factors.shape[1]
    number = -(-m // TILE)
    whole = np.zeros((p + 1, number * TILE), dtype=np.float32)
    whole[p] = FAR
    whole[:, :m] = factors
    return np.ascontiguousarray(whole.reshape(p + 1, number, CHUNKS, LANES).transpose(1, 2, 0, 3))


@cache
def kernel(p: int) -> Callable[[SingleArray, SingleArray, SingleArray], None]:
    """Return a function of rows (b, p), b even, tiles (T, `CHUNKS`, p + 1, `LANES`) and the least products (T, b)."""

    @numba.njit(nogil=True, fastmath={"contract"})  # type: ignore[untyped-decorator]
    def lowest(rows: Any, tiles: Any, found: Any) -> None:
        lane = np.empty((ROWS, LANES), np.float32)
        for t in range(tiles.shape[0]):
            for i in range(0, rows.shape[0], ROWS):
                lane[:] = FAR
                for c in range(CHUNKS):
                    part = tiles[t, c]
                    for k in range(LANES):
                        for r in range(ROWS):
                            score = part[p, k]
                            for j in range(p):
                                score += rows[i + r, j] * part[j, k]
                            lane[r, k] = score if score < lane[r, k] else lane[r, k]
                for r in range(ROWS):
                    best = lane[r, 0]
                    for k in range(LANES):
                        best = lane[r, k] if lane[r, k] < best else best
                    found[t, i + r] = best

    compiled: Callable[[SingleArray, SingleArray, SingleArray], None] = lowest
    return compiled
