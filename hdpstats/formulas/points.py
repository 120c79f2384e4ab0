"""From rows to points of the unit cube: columns scaled by public ranges, row by row and for any cell.

A private row is clipped to the range of the public rows, so that it lies where they do; a level that no public row has
is a coordinate in which it differs from all of them alike. Every operation is elementwise: a row's point depends on
that row alone, to the last bit.
"""

from collections.abc import Iterable

import numpy as np

from hdpstats._base.errors import SchemaError, SiteError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.records.geometry import LARGEST_REACH, PointColumn, PointSpace
from hdpstats.schema.columns import Categorical, NumericColumn
from hdpstats.schema.schema import Schema, check_names
from hdpstats.schema.table import AdmittedTable

_LEVEL = 2.0**-0.5


def embed(space: PointSpace, table: AdmittedTable, *, part: slice = slice(None), clip: bool = True) -> FloatArray:
    """Return the points (n, p) of a part of the rows, in [0, 1] in every coordinate.

    Without ``clip``: where they would lie else.
    """
    rows = len(range(table.rows)[part])
    points = np.zeros((rows, space.dimension))
    place = 0
    for column in space.columns:
        if column.levels is None:
            values = table.numeric[column.name][part]
            inside = np.clip(values, column.lower, column.upper) if clip else values
            points[:, place] = (inside - column.lower) / (column.upper - column.lower)
            place += 1
        else:
            points[np.arange(rows), place + table.codes[column.name][part]] = _LEVEL
            place += column.levels
    return points


def reach_of(space: PointSpace, schema: Schema) -> float:
    """Return a bound on the distance of any row, not clipped to the public ranges, from any public point.

    It is cut at what a query can ask for, where the schema's bounds are that much wider than the public rows'.
    """
    squares = 0.0
    for column in space.columns:
        declared, width = schema[column.name], column.upper - column.lower
        if column.levels is None and isinstance(declared, NumericColumn):
            lower, upper = min(declared.lower, column.lower), max(declared.upper, column.upper)
            squares += ((upper - lower) / width) ** 2
        else:
            squares += 1.0
    return min(float(np.sqrt(max(squares, 1.0))) * (1.0 + 2.0**-40), LARGEST_REACH)


def check_space(space: PointSpace, schema: Schema) -> None:
    """Refuse a space whose columns the schema does not declare as it says."""
    for column in space.columns:
        if column.name not in schema:
            raise SiteError(f"{column.name!r} is not declared in this site's schema")
        declared = schema[column.name]
        levels = len(declared.levels) if isinstance(declared, Categorical) else None
        if levels != column.levels or not isinstance(declared, Categorical | NumericColumn):
            raise SiteError(f"{column.name!r} is declared otherwise in this site's schema")


def space_of(names: Iterable[str], schema: Schema, public: AdmittedTable) -> tuple[PointSpace, tuple[str, ...]]:
    """Return the space that public rows span, and the columns left out as all public rows are the same in them.

    Raises
    ------
    SchemaError
        If there is no public row, or a column is not declared.
    """
    listed = check_names(schema, names)
    if not public.rows:
        raise SchemaError("no public row is complete in the columns; fill them, or name fewer columns", columns=listed)
    columns: list[PointColumn] = []
    for name in listed:
        declared = schema[name]
        if isinstance(declared, Categorical):
            if np.ptp(public.codes[name]):
                columns.append(PointColumn(name=name, levels=len(declared.levels)))
        else:
            lower, upper = float(public.numeric[name].min()), float(public.numeric[name].max())
            if lower < upper:
                columns.append(PointColumn(name=name, lower=lower, upper=upper))
    space = PointSpace(columns=tuple(columns))
    return space, tuple(name for name in listed if name not in space.names)


def distinct(points: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the first rows of the different points (m,), in order, and which of these each row is (n,).

    >>> distinct(np.array([[0.5], [0.0], [0.5]]))[0].tolist()
    [0, 1]
    """
    if not points.shape[1]:
        return np.zeros(min(len(points), 1), dtype=np.int64), np.zeros(len(points), dtype=np.int64)
    _, first, inverse = np.unique(points, axis=0, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.sort(first), rank[inverse.reshape(-1)]
