"""Python to R, exact and NA-safe; `from_r` has the table of types. What is missing in Python is NA in R."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import singledispatch
from os import PathLike, fspath
from typing import Any, Final

import numpy as np
import pandas as pd
import rpy2.rinterface as ri

from hdpstats.api import ArgumentError
from r_bridge import handles
from r_bridge.session import helper, r_function, start
from r_bridge.vectors import (
    NA_INTEGER,
    NA_INTEGER64,
    Plain,
    doubles,
    integers,
    to_r_doubles,
    to_r_strings,
    to_seconds,
    with_attributes,
    write_attributes,
)


def to_r(value: object) -> Any:
    """Return the R form of a Python value: a `rpy2.rinterface.Sexp`.

    Raises
    ------
    ArgumentError
        If the value, or one of its columns, has no equivalent in R; the message names the column.
    """
    start()
    return _form(value)


@singledispatch
def _form(value: object) -> Any:
    """Return the R form of a value, by its type: `_TYPES` has those that R knows."""
    raise ArgumentError(f"R has no equivalent for a Python {type(value).__name__}")


def _object(value: object) -> Any:
    kinds, contents = handles.form(value)
    return with_attributes(to_r(contents), {"class": ri.StrSexpVector(kinds)})


def named_list(elements: dict[str, Any]) -> Any:
    """Return an R list of R objects with names."""
    return with_attributes(ri.ListSexpVector(list(elements.values())), {"names": to_r_strings(elements)})


def _listed(values: Sequence[Any]) -> Any:
    """Return a vector where all elements are texts, truth values or numbers, else a list."""
    kinds = {type(value) for value in values}
    if values and (kinds == {str} or kinds == {bool} or kinds <= {int, float}):
        return _plain(pd.Series(values), "a list")
    return ri.ListSexpVector([to_r(value) for value in values])


def matrix(table: pd.DataFrame, kind: str | None = None) -> Any:
    """Return an R matrix with the names of rows and columns, and with an S3 class of that name."""
    names = ri.ListSexpVector([to_r_strings(map(str, table.index)), to_r_strings(map(str, table.columns))])
    classed = {} if kind is None else {"class": to_r_strings([kind, "matrix", "array"])}
    return with_attributes(_array(table.to_numpy()), {"dimnames": names, **classed})


def _array(value: Any) -> Any:
    vector = _plain(pd.Series(value.ravel(order="F")), "an array")
    if value.ndim == 1:
        return vector
    return with_attributes(vector, {"dim": ri.IntSexpVector(list(value.shape))})


def _series(series: "pd.Series[Any]") -> Any:
    vector = _column(series, "the series", series.attrs.get("r_column"))
    if isinstance(series.index, pd.RangeIndex):
        return vector
    return with_attributes(vector, {"names": to_r_strings(map(str, series.index))})


def frame(table: pd.DataFrame) -> Any:
    """Return a data frame, or a tibble where it was one; columns that came from a ``Surv`` are one again."""
    if not all(isinstance(name, str) for name in table.columns) or not table.columns.is_unique:
        raise ArgumentError("the names of columns must be texts, each another one: rename them first", argument="frame")
    if table.attrs.get("r_class") == ["matrix"]:
        return matrix(table)
    if isinstance(table.index, pd.MultiIndex):
        raise ArgumentError("R has no index of several levels: call reset_index() first", argument="frame")
    kept, surv = table.attrs.get("r_columns", {}), table.attrs.get("r_surv", {})
    columns: dict[str, Any] = {}
    absorbed: dict[str, str] = {}
    if "r_surv" in table.attrs and not all(isinstance(entry, dict) and "columns" in entry for entry in surv.values()):
        return _survival(table, surv)
    for name, entry in surv.items():
        parts = [f"{name}.{part}" for part in entry["columns"]]
        if name not in table and set(parts) <= set(table.columns):
            absorbed |= dict.fromkeys(parts, name)
    for name in table.columns:
        owner = absorbed.get(name)
        if owner is None:
            columns[name] = _column(table[name], name, kept.get(name))
        elif owner not in columns:
            entry = surv[owner]
            times = table[[f"{owner}.{part}" for part in entry["columns"]]].set_axis(entry["columns"], axis=1)
            columns[owner] = _survival(times, entry["attributes"])
    kinds = ri.StrSexpVector(table.attrs.get("r_class", ["data.frame"]))
    return r_function("as_frame")(named_list(columns), _row_names(table.index), kinds)


def _row_names(index: "pd.Index[Any]") -> Any:
    if isinstance(index, pd.RangeIndex) or not index.is_unique or index.hasnans:
        return integers([NA_INTEGER, -len(index)])
    if pd.api.types.is_integer_dtype(index.dtype):
        return _plain(pd.Series(index.to_numpy()), "the index")
    return to_r_strings(map(str, index))


def _survival(parts: pd.DataFrame, attributes: Plain) -> Any:
    vector = matrix(parts.reset_index(drop=True))
    names = ri.ListSexpVector([ri.NULL, to_r_strings(map(str, parts.columns))])
    return with_attributes(vector, {"dimnames": names} | write_attributes(attributes))


def _column(series: "pd.Series[Any]", name: str, kept: Plain | None) -> Any:
    """Return a column, with what pandas had no type for where it still fits."""
    vector, kind = None, None if kept is None else kept["kind"]
    clock = pd.api.types.is_datetime64_any_dtype(series.dtype)
    if kept is None:
        return _plain(series, name)
    if kind == "integer64" and pd.api.types.is_integer_dtype(series.dtype):
        vector = _integer64(series)
    elif kind in ("Date", "POSIXct") and clock:
        counts = to_seconds(series) / (86_400.0 if kind == "Date" else 1.0)
        vector = _integers(pd.Series(counts)) if kept["storage"] == "integer" else to_r_doubles(counts)
    elif kind == "factor" and isinstance(series.dtype, pd.CategoricalDtype):
        vector = _factor(series, name)
    elif kind == "plain" and not clock:
        vector = _plain(series, name)
    return _plain(series, name) if vector is None else with_attributes(vector, write_attributes(kept["attributes"]))


def _plain(series: "pd.Series[Any]", name: str) -> Any:
    """Return a column by its dtype alone: `_COLUMNS` has those that are told by it, others are told by their cells."""
    return next((convert for fits, convert in _COLUMNS if fits(series.dtype)), _objects)(series, name)


def _instants(series: "pd.Series[Any]", _name: str) -> Any:
    zone = "UTC" if series.dt.tz is None else str(series.dt.tz)
    stamp = {"class": ri.StrSexpVector(["POSIXct", "POSIXt"]), "tzone": ri.StrSexpVector([zone])}
    return with_attributes(to_r_doubles(to_seconds(series)), stamp)


def _spans(series: "pd.Series[Any]", _name: str) -> Any:
    span = {"class": ri.StrSexpVector(["difftime"]), "units": ri.StrSexpVector(["secs"])}
    seconds = series.dt.total_seconds().to_numpy(dtype=np.float64, na_value=np.nan)
    return with_attributes(to_r_doubles(seconds), span)


def _arrow(series: "pd.Series[Any]", name: str) -> Any:
    return _objects(series.astype(object), name)


def _days(series: "pd.Series[Any]", _name: str) -> Any:
    days = to_seconds(pd.to_datetime(series)) / 86_400.0
    return with_attributes(to_r_doubles(days), {"class": ri.StrSexpVector(["Date"])})


def _objects(series: "pd.Series[Any]", name: str) -> Any:
    """Return a column of Python objects that are all of one kind."""
    kind = pd.api.types.infer_dtype(series, skipna=True)
    if kind == "integer" and not series.dropna().between(-(2**63), 2**63 - 1).all():
        kind = "huge integer"
    if kind not in _CELLS:
        raise ArgumentError(
            f"column {name!r} holds Python objects of kind {kind!r}, which R has no vector for: make them numbers or "
            "texts",
            column=name,
        )
    return _CELLS[kind](series, name)


def _texts(series: "pd.Series[Any]", name: str) -> Any:
    cells = series.tolist()
    for place in np.flatnonzero(series.isna().to_numpy()):
        cells[place] = None
    return to_r_strings(cells, name=name)


def _truths(series: "pd.Series[Any]", _name: str) -> Any:
    return ri.baseenv["as.logical"](_integers(series))


def _doubles(series: "pd.Series[Any]", _name: str) -> Any:
    return to_r_doubles(series.to_numpy(dtype=np.float64, na_value=np.nan))


def _factor(series: "pd.Series[Any]", _name: str) -> Any:
    levels = to_r_strings(str(level) for level in series.cat.categories)
    codes = series.cat.codes.to_numpy().astype(np.int32) + 1
    codes[codes == 0] = NA_INTEGER
    kind = ["ordered", "factor"] if series.cat.ordered else ["factor"]
    return with_attributes(integers(codes), {"levels": levels, "class": ri.StrSexpVector(kind)})


def _integers(series: "pd.Series[Any]") -> Any:
    """Return an integer vector from numbers that fit into one, or truth values."""
    missing = series.isna().to_numpy()
    if not missing.any():
        return integers(series.to_numpy())
    return integers(np.where(missing, NA_INTEGER, series.to_numpy(dtype=np.float64, na_value=np.nan)))


def _whole(series: "pd.Series[Any]", name: str) -> Any:
    """Return an integer vector; where R's integers do not reach, doubles; where those are not exact, bit64's class."""
    lowest, highest = (int(series.min()), int(series.max())) if series.notna().any() else (0, 0)
    most = max(-lowest, highest)
    if most < 2**31:
        return _integers(series)
    if most <= 2**53:
        return to_r_doubles(series.to_numpy(dtype=np.float64, na_value=np.nan))
    if most < 2**63 and helper("function() requireNamespace('bit64', quietly = TRUE)")()[0]:
        return with_attributes(_integer64(series), {"class": ri.StrSexpVector(["integer64"])})
    raise ArgumentError(
        f"column {name!r} has whole numbers beyond 2^53, for which R needs its package bit64 (up to 2^63)", column=name
    )


def _integer64(series: "pd.Series[Any]") -> Any:
    missing = series.isna().to_numpy()
    cells = np.where(missing, NA_INTEGER64, series.fillna(0).to_numpy(dtype=np.int64))
    return doubles(cells.view(np.float64))


def _as(dtype: Any) -> Callable[["pd.Series[Any]", str], Any]:
    """Return the conversion by way of another dtype, which a type or a function of a column makes."""
    make = dtype if callable(dtype) else (lambda series: series.where(series.notna(), None).astype(dtype))
    return lambda series, name: _plain(make(series), name)


_types = pd.api.types
_COLUMNS: Final[tuple[tuple[Callable[[Any], bool], Callable[["pd.Series[Any]", str], Any]], ...]] = (
    (lambda dtype: isinstance(dtype, pd.CategoricalDtype), _factor),
    (_types.is_bool_dtype, _truths),
    (_types.is_integer_dtype, _whole),
    (_types.is_float_dtype, _doubles),
    (lambda dtype: isinstance(dtype, pd.ArrowDtype) and not _types.is_string_dtype(dtype), _arrow),
    (_types.is_datetime64_any_dtype, _instants),
    (_types.is_timedelta64_dtype, _spans),
    (lambda dtype: _types.is_string_dtype(dtype) and not _types.is_object_dtype(dtype), _texts),
)
"""How columns become vectors, by their dtype; the first that fits."""

_CELLS: Final[dict[str, Callable[["pd.Series[Any]", str], Any]]] = {
    **dict.fromkeys(("string", "empty"), _texts),
    "boolean": _as("boolean"),
    "integer": _as("Int64"),
    **dict.fromkeys(
        ("floating", "mixed-integer-float", "decimal"),
        _as(lambda series: pd.to_numeric(series.where(series.notna(), np.nan))),
    ),
    "date": _days,
    **dict.fromkeys(("datetime", "datetime64"), _as(pd.to_datetime)),
    **dict.fromkeys(("timedelta", "timedelta64"), _as(pd.to_timedelta)),
}
"""How columns of Python objects become vectors, by what pandas says of all their cells."""

_TYPES: Final[dict[type, Callable[[Any], Any]]] = {
    type(None): lambda _: ri.NULL,
    ri.Sexp: lambda value: value,
    **dict.fromkeys((type(pd.NA), type(pd.NaT)), lambda _: ri.BoolSexpVector([ri.NA_Logical])),
    **dict.fromkeys((bool, np.bool_), lambda value: ri.BoolSexpVector([bool(value)])),
    **dict.fromkeys((int, float, np.integer, np.floating), lambda value: _plain(pd.Series([value]), "a number")),
    Fraction: lambda value: ri.FloatSexpVector([float(value)]),
    **dict.fromkeys((str, PathLike), lambda value: to_r_strings([str(fspath(value))])),
    datetime.date: lambda value: _plain(pd.Series([value], dtype=object), "a time"),
    **dict.fromkeys(
        (datetime.datetime, datetime.timedelta, np.datetime64, np.timedelta64),
        lambda value: _plain(pd.Series([value]), "a time"),
    ),
    handles.Matrix: lambda value: matrix(value.table, value.kind),
    pd.DataFrame: frame,
    pd.Series: _series,
    pd.Index: lambda value: _series(pd.Series(value)),
    np.ndarray: _array,
    Mapping: lambda value: named_list({str(key): to_r(item) for key, item in value.items()}),
    **dict.fromkeys((list, tuple), _listed),
    **dict.fromkeys(handles.FORMS, _object),
}
"""How values become R objects, by their type."""

for _kind, _convert in _TYPES.items():
    _form.register(_kind, _convert)
