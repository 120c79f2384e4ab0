"""The map of doubles to declared bounds, in one pass."""

from hdpstats._base.compiled import compiled
from hdpstats._base.typing import BoolArray, FloatArray


@compiled
def clip_numbers(
    numbers: FloatArray, lower: float, upper: float, fill: float, two_valued: bool, values: FloatArray
) -> None:
    """Write numbers within bounds, ``fill`` where there is none; the bounds are the only numbers with two values."""
    for i in range(len(values)):
        values[i] = within(numbers[i], lower, upper, fill, two_valued)


@compiled
def mark_missing(numbers: FloatArray, two_valued: bool, lacking: BoolArray) -> None:
    """Mark the rows whose cell holds no number of its column."""
    if two_valued:
        for i in range(len(lacking)):
            lacking[i] |= is_none(numbers[i], True)
    else:
        for i in range(len(lacking)):
            lacking[i] |= is_none(numbers[i], False)


@compiled
def within(number: float, lower: float, upper: float, fill: float, two_valued: bool) -> float:
    """Return a number within bounds, ``fill`` where it is none, and 0 for -0; without a branch."""
    known = fill if is_none(number, two_valued) else number
    above = known if known > lower else lower
    return (above if above < upper else upper) + 0.0


@compiled
def is_none(number: float, two_valued: bool) -> bool:
    """Return whether a cell holds no number of its column."""
    return (number != number) | (two_valued & (number != 0.0) & (number != 1.0))
