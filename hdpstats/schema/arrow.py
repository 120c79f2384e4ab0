"""Cells of columns that Arrow holds, as tables from Parquet do.

Arrow does not check that text is valid UTF-8 when it reads a file, and raises when such a cell becomes a
Python string; it also raises for dates that Python cannot hold. Either would betray a single cell. So text is
read as bytes and decoded here, and types that hold neither numbers nor text are not read at all.
"""

from typing import Any

import numpy as np
from pandas.api.extensions import ExtensionArray

from hdpstats._base.typing import FloatArray, IntArray


def _column(values: ExtensionArray) -> Any:
    import pyarrow as pa

    column = pa.array(values)
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _decode(cell: bytes) -> str | None:
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return None


def numbers(values: ExtensionArray) -> FloatArray | None:
    """Return the numbers of a column of integers, floats or truth values (NaN: null), else None."""
    import pyarrow as pa

    column = _column(values)
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return None
    floats = column.cast(pa.float64(), safe=False)
    return np.array(floats.to_numpy(zero_copy_only=False), dtype=np.float64)


def distinct(values: ExtensionArray) -> tuple[list[object], IntArray]:
    """Return cells as Python objects, and for each row the position of its cell among them (-1: missing).

    Text that is no valid UTF-8 becomes None, and every cell of a type that is neither text nor number is
    missing.
    """
    import pyarrow as pa

    column = _column(values)
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        encoded = column.cast(pa.large_binary())
        encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
        encoded = encoded.dictionary_encode()
        cells: list[object] = [_decode(cell) for cell in encoded.dictionary.to_pylist()]
        return cells, encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    readable = (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )
    if not readable:
        return [], np.full(len(values), -1, dtype=np.int64)
    return column.to_pylist(), np.arange(len(values), dtype=np.int64)
