"""Sums of the features of columns as files hold them: one pass from stored cells to integers.

The operations are those of the map of a column (`hdpstats.schema.stored`) and of its features
(`hdpstats.mechanisms.description.people`), on each cell by itself: the same integers are added, and nothing is kept of
them.
"""

from typing import Any

import numpy as np

from hdpstats._base.loops import ROUNDER, ROUNDER_BITS, bits_of, compiled
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.mechanisms.description import UNITS
from hdpstats.schema.stored import Stored, is_none, within


def sums_of_stored(
    stored: Stored, weights: FloatArray, *, bounds: tuple[float, float], centre: float, far: float
) -> tuple[int, int]:
    """Return the sums of the features of number and square of a column as it is stored, in units.

    They are the integers of its values added; people of weight 0, also such as do not count, add 0.
    """
    lower, upper = map(float, bounds)
    column, sums = stored.column, np.zeros(2, dtype=np.int64)
    limits = np.array([column.lower, column.upper, stored.fill, lower, upper - lower, centre, far])
    add_stored(stored.numbers, limits, column.two_valued, stored.left_out, np.require(weights, None, ["C", "W"]), sums)
    return int(sums[0]), int(sums[1])


@compiled
def add_stored(
    numbers: FloatArray, limits: FloatArray, two_valued: bool, left_out: bool, weights: FloatArray, sums: IntArray
) -> None:
    """Add the features of number and square to ``sums`` (2,); to divide by 1/2 is to multiply by 2."""
    lower, upper, fill, low, width, centre, far = limits
    places, squares = np.int64(0), np.int64(0)
    if far == 0.5 and not two_valued and left_out:
        for i in range(len(numbers)):
            number = numbers[i]
            place = _place(within(number, lower, upper, fill, False), low, width)
            weight = 0.0 if is_none(number, False) else weights[i]
            places += whole(weight * (place - 0.5))
            squares += whole(weight * (_square((place - centre) * 2.0) - 0.5))
    else:
        for i in range(len(numbers)):
            number = numbers[i]
            place = _place(within(number, lower, upper, fill, two_valued), low, width)
            weight = 0.0 if is_none(number, two_valued) & left_out else weights[i]
            places += whole(weight * (place - 0.5))
            squares += whole(weight * (_square((place - centre) / far) - 0.5))
    sums[0] += places
    sums[1] += squares


@compiled
def _place(value: float, low: float, width: float) -> float:
    return min(max((value - low) / width, 0.0), 1.0)


@compiled
def _square(distance: float) -> float:
    return min(max(distance * distance, 0.0), 1.0)


@compiled
def whole(feature: float) -> Any:
    """Return a feature of at most 1/2 in size in units."""
    return bits_of(np.floor(feature * UNITS + 0.5) + ROUNDER) - ROUNDER_BITS
