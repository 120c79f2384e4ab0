"""Sums of the features of columns in one pass: from cells as files hold them, or from values in memory, to integers.

The operations are those of the map of a column (`hdpstats.schema.stored_columns`) and of its features
(`hdpstats.mechanisms.description.people`), on each cell by itself: the same integers are added, and nothing is kept of
them. Values in memory were mapped before; the map leaves them as they are.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from hdpstats._base.compiled import compiled
from hdpstats._base.intrinsics import ROUNDER, ROUNDER_BITS, bits_of, double_at
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.mechanisms.description import UNITS, DescribedColumn, DescribedPairs
from hdpstats.schema.cell_maps import is_none, within
from hdpstats.schema.columns import NumericColumn
from hdpstats.schema.stored_columns import StoredColumns, addresses_of, plain


def sums_of_stored(
    stored: StoredColumns, columns: tuple[DescribedColumn, ...], weights: FloatArray
) -> dict[str, IntArray]:
    """Return the sums (2,) of the features of number and square of columns of numbers as they are stored, in units.

    They are the integers of their values added; people of weight 0, also such as do not count, add 0.
    """
    names, limits, flags = stored.declared.once(_limits, columns)
    sums = np.zeros((len(names), 2), dtype=np.int64)
    add_stored(stored.addresses(names), limits, flags, np.require(weights, None, ["C", "W"]), sums)
    return dict(zip(names, sums, strict=True))


def sums_of_mapped(
    values: Mapping[str, FloatArray | IntArray], columns: tuple[DescribedColumn, ...], weights: FloatArray
) -> dict[str, IntArray]:
    """Return the sums (2,) of the features of number and square of columns of numbers in memory, in units.

    They are the integers of their values added. Whoever misses one of these cells must have the weight 0, and adds 0.
    """
    described = [each for each in columns if not each.levels]
    numbers = [plain(np.asarray(values[each.name], dtype=np.float64)) for each in described]
    limits = [
        (-np.inf, np.inf, 0.0, each.lower, float(each.upper) - float(each.lower), each.centre, each.far)
        for each in described
    ]
    sums = np.zeros((len(described), 2), dtype=np.int64)
    add_stored(
        addresses_of(numbers),
        np.array(limits, dtype=np.float64).reshape(-1, 7),
        np.tile([False, True], (len(described), 1)),
        np.require(weights, np.float64, ["C", "W"]),
        sums,
    )
    return dict(zip([each.name for each in described], sums, strict=True))


def _limits(
    declared: Mapping[str, NumericColumn], columns: tuple[DescribedColumn, ...]
) -> tuple[list[str], FloatArray, BoolArray]:
    """Return the columns that are described by numbers, and constants of `add_stored` for each."""
    found = [(each, declared[each.name]) for each in columns if each.name in declared and not each.levels]
    limits = [
        (of.lower, of.upper, of.fill, each.lower, float(each.upper) - float(each.lower), each.centre, each.far)
        for each, of in found
    ]
    flags = [(of.two_valued, of.missing is None) for _, of in found]
    return (
        [each.name for each, _ in found],
        np.array(limits, dtype=np.float64).reshape(-1, 7),
        np.array(flags, dtype=np.bool_).reshape(-1, 2),
    )


@compiled
def add_stored(addresses: IntArray, limits: FloatArray, flags: BoolArray, weights: FloatArray, sums: IntArray) -> None:
    """Add the features of number and square to ``sums`` (k, 2); to divide by 1/2 is to multiply by 2."""
    for j in range(len(addresses)):
        lower, upper, fill, low, width, centre, far = limits[j]
        two_valued, left_out = flags[j]
        places, squares = np.int64(0), np.int64(0)
        if far == 0.5 and not two_valued and left_out:
            for i in range(len(weights)):
                number = double_at(addresses[j], i)
                place = _place(within(number, lower, upper, fill, False), low, width)
                weight = 0.0 if is_none(number, False) else weights[i]
                places += whole(weight * (place - 0.5))
                squares += whole(weight * (_square((place - centre) * 2.0) - 0.5))
        else:
            for i in range(len(weights)):
                number = double_at(addresses[j], i)
                place = _place(within(number, lower, upper, fill, two_valued), low, width)
                weight = 0.0 if is_none(number, two_valued) & left_out else weights[i]
                places += whole(weight * (place - 0.5))
                squares += whole(weight * (_square((place - centre) / far) - 0.5))
        sums[j, 0] += places
        sums[j, 1] += squares


def sums_of_pairs(values: Mapping[str, FloatArray | IntArray], pairs: DescribedPairs, weights: FloatArray) -> IntArray:
    """Return the sums of the features of pairs in units: the integers of people (n,) added, 0 of people of weight 0."""
    columns = pairs.columns
    numbers = [
        plain(np.asarray(values[of.name] if of.level is None else values[of.name] == of.level, dtype=np.float64))
        for of in columns
    ]
    sums = np.zeros(len(pairs.places), dtype=np.int64)
    add_pairs(
        addresses_of(numbers),
        np.array([(of.centre, of.unit) for of in columns], dtype=np.float64),
        pairs.reach,
        np.array(pairs.places, dtype=np.int64),
        2.0 * pairs.largest,
        np.require(weights, np.float64, ["C", "W"]),
        np.empty((len(columns), _TOGETHER)),
        sums,
    )
    return sums


_TOGETHER = 256
"""People whose factors stay in the processor's cache until all of their pairs are added."""


@compiled
def add_pairs(
    addresses: IntArray,
    units: FloatArray,
    reach: float,
    places: IntArray,
    scale: float,
    weights: FloatArray,
    factors: FloatArray,
    sums: IntArray,
) -> None:
    """Add the features of pairs of columns to ``sums``; centres and units are ``units`` (k, 2)."""
    for start in range(0, len(weights), _TOGETHER):
        weight = weights[start : start + _TOGETHER]
        for k in range(len(addresses)):
            centre, unit = units[k]
            for i in range(len(weight)):
                factors[k, i] = min(max((double_at(addresses[k], start + i) - centre) / unit, -reach), reach)
        for place in range(len(places)):
            first, second, total = factors[places[place, 0]], factors[places[place, 1]], np.int64(0)
            for i in range(len(weight)):
                total += whole(weight[i] * min(max(first[i] * second[i] / scale, -0.5), 0.5))
            sums[place] += total


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
