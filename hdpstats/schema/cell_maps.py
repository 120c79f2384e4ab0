"""Total maps from the cells of a private column to numbers within bounds and to codes of levels; what is missing.

A cell of a private table may hold anything. The maps here return a value for every cell, the value depends
on that cell alone, and nothing is raised, warned or logged. So one odd cell cannot change the reading of
another, even where it changed the type of the whole column: the float column ``[1.5, 2.0]`` and the object
column ``[1.5, 2.0, "x"]`` give the same numbers for their first two cells.

**Whole numbers of 2^53 or more have no text**, so that they name neither a person nor a level. With one missing cell
pandas makes a column of floats of a column of integers, and floats do not tell such numbers apart: ids of 17 digits
would merge people. So they have no text in columns of integers, of floats and of Python objects alike, and a missing
cell changes no other one. (As measurements they are read: a number is the nearest float in any column.) They keep their
text in columns whose type holds whole numbers beside missing cells: pandas' nullable integers (``Int64``), Arrow's
integers, and texts.

**Missing means left out.** A cell that holds no value of its kind is missing, and a row with a missing cell among the
columns of a model contributes nothing to it, as R's ``na.omit`` has it. Only what a schema declares
(`hdpstats.schema.columns`) fills cells in. Numbers are cut to the declared bounds (`within_bounds`, and `within` in
loops that pass over rows once).

Only cells whose type is exactly a builtin, numpy, ``decimal`` or ``fractions`` type are read; any other
object is missing, and none of its methods is called (types are recognised by identity, which no class can
override).

Cells are those of a pandas series, or of an Arrow array as Parquet files are read into: in one chunk, and with no copy
of doubles none of which is null.

Arrow, which holds columns of tables from Parquet, does not check that text is valid UTF-8 when it reads a file, and
raises when such a cell becomes a Python string; it also raises for dates that Python cannot hold. Either would disclose
a single cell. So text is read as bytes and decoded here, and types that hold neither numbers nor text are not read at
all.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, final

import numpy as np
import pandas as pd

from hdpstats._base.compiled import compiled
from hdpstats._base.typing import BoolArray, FloatArray, IntArray

_TRUTH = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
_SIGNED = (np.int8, np.int16, np.int32, np.int64, np.intc, np.longlong)
_UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64, np.uintc, np.ulonglong)
_INTEGERS = (int, *_SIGNED, *_UNSIGNED)
_FLOATS = (float, np.float16, np.float32, np.float64, np.longdouble, Decimal, Fraction)
_COMPLEX = (complex, np.complex64, np.complex128, np.clongdouble)
_TRUTH_VALUES = (bool, np.bool_)
_TEXTS = (str, np.str_)
_MASKED = (pd.arrays.IntegerArray, pd.arrays.FloatingArray, pd.arrays.BooleanArray)
_NUMERIC = "biuf"  # numpy's kinds of truth values, integers and floats
_EXACT = 2**53
"""Whole numbers below it, in size, are the same in a column of integers and in one of floats, and no other is."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Cells:
    """The cells of a column after its total map.

    Attributes
    ----------
    values : float64 or int64 array (n,)
        Numbers within the bounds, or codes of declared levels; where a cell is missing, the lower bound or 0, which
        stand for nothing.
    missing : bool array (n,)
        Which cells are missing.
    """

    values: Any
    missing: BoolArray

    def __repr__(self) -> str:
        return "<admitted cells>"


def _number_in_text(cell: str) -> float:
    if "_" in cell:
        return math.nan
    truth = _TRUTH.get(cell)
    return float(cell) if truth is None else truth


def _text_of_integer(cell: Any) -> str | None:
    whole = int(cell)
    return str(whole) if -_EXACT < whole < _EXACT else None


def _text_of_float(cell: Any) -> str | None:
    value = float(cell)
    if not math.isfinite(value):
        return None
    return _text_of_integer(value) if value.is_integer() else repr(value)


def _number_in_complex(cell: Any) -> float:
    """Return the real part where there is no imaginary one: one complex cell makes a column of floats complex."""
    return float(cell.real) if cell.imag == 0.0 else math.nan


def _text_of_complex(cell: Any) -> str | None:
    return _text_of_float(_number_in_complex(cell))


def _by_identity(*groups: tuple[tuple[type, ...], Callable[[Any], Any]]) -> dict[int, Callable[[Any], Any]]:
    return {id(kind): read for kinds, read in groups for kind in kinds}


_READ_NUMBER: dict[int, Callable[[Any], float]] = _by_identity(
    (_TRUTH_VALUES + _INTEGERS + _FLOATS, float), (_TEXTS, _number_in_text), (_COMPLEX, _number_in_complex)
)
_READ_TEXT: dict[int, Callable[[Any], str | None]] = _by_identity(
    (_TRUTH_VALUES + _TEXTS, str),
    (_INTEGERS, _text_of_integer),
    (_FLOATS, _text_of_float),
    (_COMPLEX, _text_of_complex),
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
    and ``False``. NaN, infinities and whole numbers of 2^53 or more in size have no text (see the module, also for the
    columns in which they have one).

    >>> text("3"), text(3), text(3.0), text(0.5), text(None), text(2**53)
    ('3', '3', '3', '0.5', None, None)
    """
    read = _READ_TEXT.get(id(type(cell)))
    if read is None:
        return None
    try:
        return read(cell)
    except (OverflowError, ValueError):
        return None


def _dense(cells: Any) -> Any:
    if not isinstance(cells, pd.Series) or not isinstance(cells.dtype, pd.SparseDtype):
        return cells
    dense = cells.to_numpy()
    return pd.Series(dense, dtype=dense.dtype)  # the type is stated: pandas would infer it from the cells


def _is_arrow(cells: Any) -> bool:
    if not isinstance(cells, pd.Series):
        return True
    kind = cells.dtype
    return isinstance(kind, pd.ArrowDtype) or (isinstance(kind, pd.StringDtype) and kind.storage != "python")


def _distinct(cells: Any) -> tuple[Sequence[object], IntArray]:
    """Return cells as Python objects, and for each row the position of its cell among them (-1: missing).

    Whole numbers of types that hold missing cells beside them are returned as their texts. Columns of dates and other
    types that hold neither numbers nor text are not read at all.
    """
    if _is_arrow(cells):
        return _arrow_distinct(_arrow_column(cells))
    values = cells.array
    if isinstance(values, pd.Categorical):
        categories = values.categories
        distinct, positions = _distinct(pd.Series(categories, dtype=categories.dtype))
        return distinct, np.append(positions, -1)[values.codes]
    if isinstance(cells.dtype, np.dtype) and cells.dtype.kind in _NUMERIC:
        levels, inverse = np.unique(cells.to_numpy(), return_inverse=True)
        return levels.tolist(), inverse.astype(np.int64)
    if isinstance(values, pd.arrays.IntegerArray):
        kind: Any = values.dtype
        levels, inverse = np.unique(values.to_numpy(dtype=kind.numpy_dtype, na_value=0), return_inverse=True)
        return [str(cell) for cell in levels.tolist()], np.where(values.isna(), -1, inverse)
    readable = isinstance(cells.dtype, np.dtype) and cells.dtype.kind in "Oc"
    if readable or isinstance(values, (*_MASKED, pd.arrays.StringArray)):
        return cells.to_numpy(dtype=object).tolist(), np.arange(len(cells), dtype=np.int64)
    return [], np.full(len(cells), -1, dtype=np.int64)


def _typed_numbers(cells: Any) -> FloatArray | None:
    if _is_arrow(cells):
        return _arrow_numbers(_arrow_column(cells))
    if isinstance(cells.dtype, np.dtype) and cells.dtype.kind in _NUMERIC:
        return np.array(cells.to_numpy(), dtype=np.float64)
    if isinstance(cells.array, _MASKED):
        return np.array(cells.to_numpy(dtype=np.float64, na_value=np.nan))
    return None


def joined(columns: "Sequence[pd.Series[Any]]") -> "pd.Series[Any]":
    """Return the cells of several columns, one column after another, each of them read as in its own.

    Where types differ, pandas looks for one that holds all cells, and a column of whole numbers becomes one of floats
    since another one lacks a cell. Here such columns become Python objects that are read as the cells were.

    >>> ids = joined([pd.Series([2**53 + 1], dtype="Int64"), pd.Series([1.5, None])])
    >>> texts(ids)
    ['9007199254740993', '1.5', None]
    """
    if all(column.dtype == columns[0].dtype for column in columns):
        return pd.concat(columns, ignore_index=True)
    return pd.Series(np.concatenate([_objects(column) for column in columns]), dtype=object)


def _objects(cells: Any) -> Any:
    distinct, positions = _distinct(_dense(cells))
    return np.fromiter([*distinct, None], dtype=object, count=len(distinct) + 1)[positions]


def numbers(cells: Any) -> FloatArray:
    """Return the number in each cell as float64, NaN where there is none (see `number`).

    Of an Arrow array of doubles it is a view, which is not to be written to.
    """
    if not isinstance(cells, pd.Series) and str(cells.type) == "double":
        return np.asarray(cells.to_numpy(zero_copy_only=False))
    cells = _dense(cells)
    with np.errstate(all="ignore"):
        doubles = _typed_numbers(cells)
        if doubles is not None:
            return doubles
        distinct, positions = _distinct(cells)
        read = [number(cell) for cell in distinct]
    return np.array([*read, math.nan], dtype=np.float64)[positions]


def distinct_texts(cells: Any) -> tuple[list[str | None], IntArray]:
    """Return the distinct texts of cells, None at the end, and for each cell the position of its own."""
    distinct, positions = _distinct(_dense(cells))
    with np.errstate(all="ignore"):
        return [*(text(cell) for cell in distinct), None], positions


def texts(cells: Any) -> list[str | None]:
    """Return the text of each cell, None where there is none (see `text`)."""
    read, positions = distinct_texts(cells)
    return [read[position] for position in positions]


def too_large(cells: Any) -> BoolArray:
    """Return which cells hold a whole number so large that it has no text in this column (see the module)."""
    read, positions = distinct_texts(cells)
    sizes = np.abs(numbers(cells))
    without_text = np.array([read_text is None for read_text in read])[positions]
    return np.asarray(without_text & (sizes >= _EXACT) & (sizes < math.inf))


def codes(cells: Any, *, levels: Sequence[str], other: str | None = None, blank: str | None = None) -> IntArray:
    """Return the position of each cell's text among the levels, and -1 where it has none among them.

    A text that is not there takes the place of the level ``other``, where there is one; a cell without a text, or with
    nothing but blanks, that of ``blank``.
    """
    position = {level: code for code, level in enumerate(levels)}
    unknown, absent = (-1 if level is None else position[level] for level in (other, blank))
    read, positions = distinct_texts(cells)
    numbered = [
        position[level] if level in position else unknown if level is not None and level.strip() else absent
        for level in read
    ]
    return np.array(numbered, dtype=np.int64)[positions]


def within_bounds(numbers: FloatArray, *, lower: float, upper: float, fill: float | None) -> Cells:
    """Return numbers (n,) cut to bounds; one that is NaN is missing, or takes the declared number ``fill``."""
    absent = np.isnan(numbers)
    values = np.where(absent, lower if fill is None else fill, numbers)
    np.clip(values, lower, upper, out=values)
    values += 0.0  # turns -0.0 into 0.0
    return Cells(values=values, missing=absent if fill is None else np.zeros_like(absent))


@compiled
def clipped(number: float, lower: float, upper: float) -> float:
    """Return a number within bounds, the lower one for NaN (comparisons with it are false), and 0 for -0."""
    above = number if number > lower else lower
    return (above if above < upper else upper) + 0.0


@compiled
def within(number: float, lower: float, upper: float, fill: float, two_valued: bool) -> float:
    """Return a number within bounds, ``fill`` where it is none, and 0 for -0; without a branch."""
    inside: float = clipped(fill if is_none(number, two_valued) else number, lower, upper)
    return inside


@compiled
def is_none(number: float, two_valued: bool) -> bool:
    """Return whether a cell holds no number of its column."""
    return (number != number) | (two_valued & (number != 0.0) & (number != 1.0))


def _arrow_column(cells: Any) -> Any:
    """Return the cells of a series or an Arrow array as one Arrow array."""
    import pyarrow as pa

    column = pa.array(cells.array) if isinstance(cells, pd.Series) else cells
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return pa.array([], column.type) if column.num_chunks == 0 else pa.concat_arrays(column.chunks)


def _decode(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


def _arrow_numbers(column: Any) -> FloatArray | None:
    """Return the numbers of a column of integers, floats or truth values (NaN: null), else None."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return None
    floats = column.cast(pa.float64(), safe=False)
    return np.asarray(floats.to_numpy(zero_copy_only=False), dtype=np.float64)


def _arrow_distinct(column: Any) -> tuple[list[object], IntArray]:
    """Return cells as Python objects, and for each row the position of its cell among them (-1: missing).

    Whole numbers are returned as their texts. Text that is no valid UTF-8 becomes None, and every cell of a type that
    is neither text nor number is missing.
    """
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        distinct, places = _arrow_distinct(column.dictionary)
        return distinct, np.append(places, -1)[_positions(column.indices)]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        encoded = column.cast(pa.large_binary()).dictionary_encode()
        return [_decode(cell) for cell in encoded.dictionary.to_pylist()], _positions(encoded.indices)
    if pa.types.is_integer(kind):
        encoded = column.dictionary_encode()
        return [str(cell) for cell in encoded.dictionary.to_pylist()], _positions(encoded.indices)
    readable = pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind)
    if not readable:
        return [], np.full(len(column), -1, dtype=np.int64)
    return column.to_pylist(), np.arange(len(column), dtype=np.int64)


def _positions(indices: Any) -> IntArray:
    """Return places in a dictionary, -1 where there is none."""
    return np.asarray(indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False))
