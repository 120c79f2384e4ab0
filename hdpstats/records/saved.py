"""Results as versioned JSON, exact to the last bit (never pickle), and their large values: data frames, drawn errors.

A float is written in its shortest exact decimal form, NaN as null, a fraction as a string (`hdpstats.records.codec`). A
frame is written column by column, with the type of each. Draws are what tests and intervals of any contrast need.
"""

import base64
import binascii
import json
import zlib
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import shown
from hdpstats.records import codec
from hdpstats.records.codec import WrittenBy, from_dict, to_dict


def frame_to_dict(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the number of rows, and each column as numbers, whole numbers, texts (or null) or levels with codes."""
    return {"rows": len(frame), "columns": {str(name): _cells(frame[name]) for name in frame}}


def frame_from_dict(entries: Any) -> pd.DataFrame:
    """Read what `frame_to_dict` wrote; ValueError, TypeError or KeyError when it is something else, if only in type."""
    rows, columns = _exactly(entries, "rows", "columns")
    read = {name: _column(cells) for name, cells in columns.items()}
    if type(rows) is not int or any(len(cells) != rows for cells in read.values()):
        raise ValueError("every column must have a cell for each row")
    return pd.DataFrame(read, index=pd.RangeIndex(rows))


Frame = Annotated[pd.DataFrame, WrittenBy(frame_to_dict, frame_from_dict)]
"""A data frame as a field of a record."""


def _cells(column: "pd.Series[Any]") -> dict[str, Any]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return {"type": "levels", "levels": column.cat.categories.tolist(), "cells": column.cat.codes.tolist()}
    if column.dtype.kind == "f":
        return {"type": "numbers", "cells": [None if np.isnan(cell) else cell for cell in column.tolist()]}
    return {"type": "whole numbers" if column.dtype.kind == "i" else "texts", "cells": column.tolist()}


def _exactly(entries: Any, *keys: str) -> list[Any]:
    if set(entries) != set(keys):
        raise ValueError(f"there must be {', '.join(keys)}, and nothing else")
    return [entries[key] for key in keys]


def _column(entries: Any) -> Any:
    if entries["type"] == "levels":
        _, levels, codes = _exactly(entries, "type", "levels", "cells")
        categories: Any = _all(levels, str)
        return pd.Categorical.from_codes(np.array(_all(codes, int), dtype=np.int64), categories=categories)
    kind, cells = _exactly(entries, "type", "cells")
    if kind == "numbers":
        numbers = [np.nan if cell is None else cell for cell in _all(cells, float, int, type(None))]
        return np.array(numbers, dtype=np.float64)
    if kind == "whole numbers":
        return np.array(_all(cells, int), dtype=np.int64)
    if kind == "texts":
        return pd.Series(_all(cells, str, type(None)), dtype=object)
    raise ValueError("a column is of numbers, whole numbers, texts or levels")


def _all(cells: Any, *types: type) -> list[Any]:
    """Return a list of cells that are exactly of these types: True is no whole number."""
    if not isinstance(cells, list) or any(type(cell) not in types for cell in cells):
        raise ValueError("every cell must have the type of its column")
    return cells


_LITTLE_ENDIAN = np.dtype("<f4")
_LEVEL = 6
"""Of compression: a higher one takes longer and gains nothing on random numbers."""
_LARGEST = 2**28
"""Bytes of draws that are read, whatever a file says."""


def _decompressed(content: bytes, size: int) -> bytes:
    """Return so many bytes, and read no more than these."""
    if not 0 <= size <= _LARGEST:
        raise ValueError("there are more numbers than are read")
    reader = zlib.decompressobj()
    content_read = reader.decompress(content, size + 1)
    if len(content_read) != size or not reader.eof or reader.unused_data:
        raise ValueError("there are not as many numbers as the shape says")
    return content_read


@final
@dataclass(frozen=True, slots=True, eq=False)
class ErrorDraws:
    """Draws of the errors of coefficients, a row each, in single precision: 24 bits are far below their own noise.

    As JSON they are the numbers' bytes, little-endian: the first bytes of all numbers row by row, then the second ones
    and so on, compressed by zlib, in base 64. A file keeps them exactly.

    Examples
    --------
    >>> drawn = ErrorDraws.of(np.array([[1.0, 2.0]]))
    >>> ErrorDraws.from_dict(drawn.to_dict()).exact.tolist()
    [[1.0, 2.0]]
    """

    values: NDArray[np.float32]

    @property
    def exact(self) -> FloatArray:
        """The draws in double precision (B, p)."""
        return np.asarray(self.values, dtype=np.float64)

    @classmethod
    def of(cls, draws: FloatArray) -> "ErrorDraws":
        """Round draws (B, p)."""
        with np.errstate(over="ignore"):
            return cls(np.asarray(draws, dtype=np.float32))

    def through(self, L: FloatArray) -> FloatArray:
        """Return draws (B, k) of the errors of ``L beta``, for ``L`` (k, p); NaN where an error it uses is."""
        used = (L != 0.0).any(axis=0)
        return np.asarray(self.values[:, used].astype(np.float64) @ L[:, used].T)

    def to_dict(self) -> dict[str, Any]:
        """Return the draws as JSON values."""
        content = self.values.astype(_LITTLE_ENDIAN).tobytes()
        planes = np.frombuffer(content, dtype=np.uint8).reshape(-1, _LITTLE_ENDIAN.itemsize).T.tobytes()
        return {
            "shape": list(self.values.shape),
            "float32": base64.b64encode(zlib.compress(planes, _LEVEL)).decode("ascii"),
        }

    @classmethod
    def from_dict(cls, entries: dict[str, Any]) -> "ErrorDraws":
        """Read what `to_dict` wrote."""
        try:
            rows, columns = entries["shape"]
            size = int(rows) * int(columns) * _LITTLE_ENDIAN.itemsize
            planes = _decompressed(base64.b64decode(entries["float32"], validate=True), size)
            content = np.frombuffer(planes, dtype=np.uint8).reshape(_LITTLE_ENDIAN.itemsize, -1).T.tobytes()
            numbers = np.frombuffer(content, dtype=_LITTLE_ENDIAN).reshape(rows, columns)
        except (KeyError, TypeError, ValueError, binascii.Error, zlib.error):
            raise ArgumentError("draws must be a shape and as many numbers in base 64", argument="draws") from None
        return cls(numbers.astype(np.float32))


_NOT_READ = (HdpError, KeyError, TypeError, ValueError, AttributeError, RecursionError)


class Saved:
    """A record that is kept as JSON text, in a file or handed on: with the version of its format."""

    __slots__ = ()
    _format: ClassVar[int]
    _what: ClassVar[str]
    """What a file holds, for messages: "a result"."""

    @classmethod
    def _shortened(cls, entries: dict[str, Any]) -> dict[str, Any]:
        """Return what is written of the entries of a record."""
        return entries

    @classmethod
    def _completed(cls, entries: dict[str, Any]) -> dict[str, Any]:
        """Return the entries of a record from what `_shortened` left of them."""
        return entries

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """Return the JSON text, and write it to a file where a path is given. Nothing is rounded."""
        entries = self._shortened(to_dict(self))
        text = json.dumps({"format": self._format} | entries, allow_nan=False, separators=(",", ":"))
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    @classmethod
    def from_json(cls, path_or_text: str | PathLike[str]) -> Self:
        """Read what `to_json` wrote, from a file or from the text itself.

        Raises
        ------
        ArgumentError
            If there is no such file, or the text is something else, or of a format that this version does not read.
        """
        text = _text_of(path_or_text)
        try:
            written, record = _read(cls, text)
        except _NOT_READ:
            raise ArgumentError(
                f"this is not {cls._what} that hdpstats wrote{_elsewhere(cls, text)}", argument="path_or_text"
            ) from None
        if record is None:
            raise ArgumentError(
                f"this is not {cls._what} that this version of hdpstats reads: it reads format {cls._format}, not "
                f"{shown(written)}{_elsewhere(cls, text)}; read it with the version that wrote it, installed in an "
                "environment of its own, and keep tables as CSV; or make it anew: a query that this version writes as "
                "before costs nothing, any other is charged",
                argument="path_or_text",
            )
        return record


_Record = TypeVar("_Record", bound=Saved)


def _read(kind: type[_Record], text: str) -> tuple[Any, _Record | None]:
    """Return the format of a text, and the record where that is the format of this version."""
    document = codec.loads(text)
    written = document.pop("format")
    return written, from_dict(kind, kind._completed(document)) if written == kind._format else None


def _elsewhere(asked: type[Saved], text: str) -> str:
    """Return words for what else a text holds, and how that is read; nothing where it is nothing known."""
    kinds = {kind.__name__: kind for kind in Saved.__subclasses__()}  # of a class with slots the last one made
    for name, kind in kinds.items():
        if name != asked.__name__:
            with suppress(*_NOT_READ):
                if _read(kind, text)[1] is not None:
                    return f"; it is {kind._what}: hdp.{name}.from_json reads it"
    return ""


def _text_of(path_or_text: str | PathLike[str]) -> str:
    """Return JSON text as it is, or the content of the file of that name."""
    if isinstance(path_or_text, str) and path_or_text.lstrip().startswith("{"):
        return path_or_text
    path = Path(path_or_text)
    if not path.is_file():
        raise ArgumentError(f"there is no file {str(path)!r}", argument="path_or_text")
    return path.read_text(encoding="utf-8")
