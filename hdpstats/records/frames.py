"""Data frames of public facts as JSON values: column by column, with the type of each."""

from typing import Annotated, Any

import numpy as np
import pandas as pd

from hdpstats.records.codec import WrittenBy


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
