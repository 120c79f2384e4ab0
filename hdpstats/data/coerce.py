"""Total maps from the cells of a column to numbers and to level codes.

A cell of a private table may hold anything. The maps here return a value for every cell, the value depends
on that cell alone, and nothing is raised, warned or logged. So one odd cell cannot change the reading of
another, even where it changed the type of the whole column: the float column ``[1.5, 2.0]`` and the object
column ``[1.5, 2.0, "x"]`` give the same numbers for their first two cells.

Only cells whose type is exactly a builtin, numpy, ``decimal`` or ``fractions`` type are read; any other
object is missing, and none of its methods is called (types are recognised by identity, which no class can
override).
"""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from hdpstats._base.typing import FloatArray, IntArray

_TRUTH = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
_INTEGERS = (int, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
_FLOATS = (float, np.float16, np.float32, np.float64, np.longdouble, Decimal, Fraction)
_TRUTH_VALUES = (bool, np.bool_)
_TEXTS = (str, np.str_)
_LONGEST_INTEGER = 64
"""Bits of the longest whole number that is read as the text of a level."""


def _number_in_text(cell: str) -> float:
    if "_" in cell:
        return math.nan
    truth = _TRUTH.get(cell)
    return float(cell) if truth is None else truth


def _text_of_integer(cell: Any) -> str | None:
    whole = int(cell)
    return str(whole) if whole.bit_length() <= _LONGEST_INTEGER else None


def _text_of_float(cell: Any) -> str | None:
    value = float(cell)
    if not math.isfinite(value):
        return None
    return _text_of_integer(value) if value.is_integer() else repr(value)


def _by_identity(*groups: tuple[tuple[type, ...], Callable[[Any], Any]]) -> dict[int, Callable[[Any], Any]]:
    return {id(kind): read for kinds, read in groups for kind in kinds}


_READ_NUMBER: dict[int, Callable[[Any], float]] = _by_identity(
    (_TRUTH_VALUES + _INTEGERS + _FLOATS, float), (_TEXTS, _number_in_text)
)
_READ_TEXT: dict[int, Callable[[Any], str | None]] = _by_identity(
    (_TRUTH_VALUES + _TEXTS, str), (_INTEGERS, _text_of_integer), (_FLOATS, _text_of_float)
)


def number(cell: object) -> float:
    """Return the number that a cell holds, NaN when it holds none, an infinity when it is out of range.

    Truth values are 1 and 0. Text is read as Python reads a float (blanks around it are ignored), without
    underscores; ``True``, ``TRUE``, ``true`` and their opposites are 1 and 0 in text too.

    >>> number(" 4.5 "), number(True), number("x"), number(10**400)
    (4.5, 1.0, nan, inf)
    """
    read = _READ_NUMBER.get(id(type(cell)))
    if read is None:
        return math.nan
    try:
        return read(cell)
    except OverflowError:  # a whole number or a fraction beyond the largest float
        return math.inf if cell > 0 else -math.inf  # type: ignore[operator]
    except ValueError:  # text that is no number, a signalling NaN
        return math.nan


def text(cell: object) -> str | None:
    """Return the text of a cell, or None when it has none.

    Text is kept code point by code point (never normalised or trimmed). Whole numbers are written without a
    decimal point, whatever their type, other numbers in their shortest decimal form, truth values as ``True``
    and ``False``. NaN, infinities and whole numbers beyond 64 bits have no text.

    >>> text("3"), text(3), text(3.0), text(0.5), text(None)
    ('3', '3', '3', '0.5', None)
    """
    read = _READ_TEXT.get(id(type(cell)))
    if read is None:
        return None
    try:
        return read(cell)
    except (OverflowError, ValueError):
        return None


def _dense(cells: "pd.Series[Any]") -> "pd.Series[Any]":
    values = cells.array
    return pd.Series(values.to_dense()) if isinstance(values, pd.arrays.SparseArray) else cells


def _distinct(cells: "pd.Series[Any]") -> tuple[Sequence[object], IntArray]:
    """Return cells as Python objects, and for each row the position of its cell among them (-1: missing)."""
    values = cells.array
    if isinstance(values, pd.Categorical):
        return values.categories.to_numpy(dtype=object).tolist(), values.codes.astype(np.int64)
    if isinstance(cells.dtype, pd.StringDtype):
        positions, uniques = pd.factorize(values)
        return uniques.to_numpy(dtype=object).tolist(), positions.astype(np.int64)
    if isinstance(cells.dtype, np.dtype) and cells.dtype.kind in "biuf":
        levels, inverse = np.unique(cells.to_numpy(), return_inverse=True)
        return levels.tolist(), inverse.astype(np.int64)
    return cells.to_numpy(dtype=object).tolist(), np.arange(len(cells), dtype=np.int64)


def numbers(cells: "pd.Series[Any]") -> FloatArray:
    """Return the number in each cell as float64, NaN where there is none (see `number`)."""
    cells = _dense(cells)
    with np.errstate(all="ignore"):
        if isinstance(cells.dtype, np.dtype) and cells.dtype.kind in "biuf":
            return np.array(cells.to_numpy(), dtype=np.float64)
        if getattr(cells.dtype, "kind", "O") in "biuf" and not isinstance(cells.dtype, pd.CategoricalDtype):
            return np.array(cells.to_numpy(dtype=np.float64, na_value=np.nan))
        distinct, positions = _distinct(cells)
        read = [number(cell) for cell in distinct]
    return np.array([*read, math.nan], dtype=np.float64)[positions]


def texts(cells: "pd.Series[Any]") -> list[str | None]:
    """Return the text of each cell, None where there is none (see `text`)."""
    distinct, positions = _distinct(_dense(cells))
    with np.errstate(all="ignore"):
        read = [text(cell) for cell in distinct]
    read.append(None)
    return [read[position] for position in positions]


def bounded(cells: "pd.Series[Any]", *, lower: float, upper: float, missing: float) -> FloatArray:
    """Return the numbers in the cells, clipped to [lower, upper], with ``missing`` where there is none."""
    values = numbers(cells)
    with np.errstate(all="ignore"):
        filled = np.where(np.isnan(values), missing, values)
        return np.clip(filled, lower, upper) + 0.0  # adding zero turns -0.0 into 0.0


def binary(cells: "pd.Series[Any]", *, missing: float) -> FloatArray:
    """Return 1 where a cell equals 1, ``missing`` where it holds no number, and 0 elsewhere."""
    values = numbers(cells)
    return np.where(np.isnan(values), missing, np.where(values == 1.0, 1.0, 0.0))


def codes(cells: "pd.Series[Any]", *, levels: Sequence[str], other: str) -> IntArray:
    """Return the position of each cell's text among the levels, that of ``other`` where it is not there."""
    position = {level: code for code, level in enumerate(levels)}
    fallback = position[other]
    distinct, positions = _distinct(_dense(cells))
    with np.errstate(all="ignore"):
        read = [text(cell) for cell in distinct]
    found = [fallback if level is None else position.get(level, fallback) for level in read]
    return np.array([*found, fallback], dtype=np.int64)[positions]
