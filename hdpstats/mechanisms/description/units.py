"""Features of people as whole numbers: what each adds to a sum, computed of that person alone, to the last bit.

A number ``x`` of a column with the bounds ``l`` and ``u`` has the place ``p = (x - l) / (u - l)``, cut to [0, 1], with
the feature ``p - 1/2``, and the square ``((p - c) / far)^2``, cut to [0, 1], with the feature of that less 1/2. Times a
weight in [0, 1], and 0 where the cell is missing, they are at most 1/2 in size, and are rounded to multiples of 2^-20.

From `SMALLEST_COMPILED` people on a compiled loop does the operations of numpy, in their order: the same integers.
"""

from typing import Any

import numpy as np

from hdpstats._base.compiled import ROUNDER, ROUNDER_BITS, SMALLEST_COMPILED, bits_of, compiled
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.mechanisms.description.query import UNITS


def in_units(values: FloatArray) -> IntArray:
    """Return features (n,) between -1/2 and 1/2 as whole numbers of 2^-20."""
    return np.asarray(np.floor(np.clip(values, -0.5, 0.5) * UNITS + 0.5), dtype=np.int64)


def number_in_units(
    value: FloatArray, missing: BoolArray, weights: FloatArray, *, bounds: tuple[float, float]
) -> IntArray:
    """Return the features of places (n,) of numbers between bounds, in units."""
    lower, upper = map(float, bounds)
    if len(value) < SMALLEST_COMPILED:
        place = np.clip((value - lower) / (upper - lower), 0.0, 1.0)
        return in_units(weights * np.where(missing, 0.0, place - 0.5))
    units = np.empty(len(value), dtype=np.int64)
    _places(*_plain(value, missing, weights), lower, upper - lower, units)
    return units


def square_in_units(
    value: FloatArray,
    missing: BoolArray,
    weights: FloatArray,
    *,
    bounds: tuple[float, float],
    centre: float,
    far: float,
) -> IntArray:
    """Return the features of squared distances (n,) of places from a centre, in units."""
    lower, upper = map(float, bounds)
    if len(value) < SMALLEST_COMPILED:
        place = np.clip((value - lower) / (upper - lower), 0.0, 1.0)
        square = np.clip(((place - float(centre)) / float(far)) ** 2, 0.0, 1.0)
        return in_units(weights * np.where(missing, 0.0, square - 0.5))
    units = np.empty(len(value), dtype=np.int64)
    _squares(*_plain(value, missing, weights), lower, upper - lower, float(centre), float(far), units)
    return units


def _plain(value: FloatArray, missing: BoolArray, weights: FloatArray) -> tuple[FloatArray, BoolArray, FloatArray]:
    """Return arrays of the one type that loops are compiled for."""
    return (
        np.require(value, np.float64, ["C", "W"]),
        np.require(missing, np.bool_, ["C", "W"]),
        np.require(weights, np.float64, ["C", "W"]),
    )


@compiled
def _unit(feature: float, missing: bool, weight: float) -> Any:
    left = weight * (0.0 if missing else feature)
    left = min(max(left, -0.5), 0.5)
    return bits_of(np.floor(left * UNITS + 0.5) + ROUNDER) - ROUNDER_BITS


@compiled
def _places(
    value: FloatArray, missing: BoolArray, weights: FloatArray, lower: float, width: float, units: IntArray
) -> None:
    for i in range(len(units)):
        place = min(max((value[i] - lower) / width, 0.0), 1.0)
        units[i] = _unit(place - 0.5, missing[i], weights[i])


@compiled
def _squares(
    value: FloatArray,
    missing: BoolArray,
    weights: FloatArray,
    lower: float,
    width: float,
    centre: float,
    far: float,
    units: IntArray,
) -> None:
    for i in range(len(units)):
        place = min(max((value[i] - lower) / width, 0.0), 1.0)
        distance = (place - centre) / far
        units[i] = _unit(min(max(distance * distance, 0.0), 1.0) - 0.5, missing[i], weights[i])
