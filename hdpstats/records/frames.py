"""Data frames of public facts as JSON values: column by column, with the type of each."""

from collections.abc import Callable
from typing import Annotated, Any, Final

import numpy as np
import pandas as pd

from hdpstats.records.codec import Stored


def frame_to_dict(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the number of rows, and each column as numbers, whole numbers, texts or levels with codes."""
    return {"rows": len(frame), "columns": {str(name): _cells(frame[name]) for name in frame}}


def frame_from_dict(entries: Any) -> pd.DataFrame:
    """Read what `frame_to_dict` wrote; ValueError, TypeError or KeyError when it is something else."""
    columns = {str(name): _column(**cells) for name, cells in entries["columns"].items()}
    if type(entries["rows"]) is not int or any(len(cells) != entries["rows"] for cells in columns.values()):
        raise ValueError("every column must have a cell for each row")
    return pd.DataFrame(columns, index=pd.RangeIndex(entries["rows"]))


Frame = Annotated[pd.DataFrame, Stored(frame_to_dict, frame_from_dict)]
"""A data frame as a field of a record."""


def _cells(column: "pd.Series[Any]") -> dict[str, Any]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return {"type": "levels", "levels": column.cat.categories.tolist(), "cells": column.cat.codes.tolist()}
    if column.dtype.kind == "f":
        return {"type": "numbers", "cells": [None if np.isnan(cell) else cell for cell in column.tolist()]}
    return {"type": "whole numbers" if column.dtype.kind == "i" else "texts", "cells": column.tolist()}


def _numbers(cells: list[Any]) -> Any:
    return np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)


_TYPES: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "numbers": _numbers,
    "whole numbers": lambda cells: np.array(cells, dtype=np.int64),
    "texts": lambda cells: pd.Series(cells, dtype=object),
}


def _column(*, type: str, cells: list[Any], levels: Any = None) -> Any:  # noqa: A002  (the JSON key)
    if levels is None:
        return _TYPES[type](cells)
    return pd.Categorical.from_codes(np.array(cells, dtype=np.int64), categories=levels)
