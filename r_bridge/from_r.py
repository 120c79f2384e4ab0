"""R to Python: values, and calls of R functions.

The content of a cell never raises: only the types of columns do, by the column's name.

========================== ==================================================================================
R                          Python
========================== ==================================================================================
NULL                       None
a vector of length 1       bool, int, float, str; NaN for NA
other vectors              Series, with an index where there are names
logical, integer           bool, int64; boolean, Int64 where there is NA
double                     float64; NA and NaN are both NaN, of different bits, and `to_r` restores each
character                  str (pandas 2: object), missing for NA
factor, ordered            Categorical
Date, POSIXct              datetime64, POSIXct with its time zone (UTC where it has none)
difftime                   float64, in its own units; functions of the R package convert it to the schema's
integer64 (bit64)          Int64
data.frame, tibble         DataFrame; character row names become the index
Surv, also in a data.frame columns ``time, status`` or ``start, stop, status``; in a frame ``name.time, ...``
matrix                     ndarray; DataFrame where rows and columns have names
list                       dict where it has names, list otherwise; a data frame in it twice is the same DataFrame
formula, call, symbol      its text
function                   a Python function that runs it
objects of the R package   the Python objects of which they are the R form
========================== ==================================================================================

What pandas has no type for (units, classes, storage) is kept in ``attrs``, and `to_r` restores it.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd
import rpy2.rinterface as ri

from hdpstats.api import ArgumentError
from r_bridge import handles
from r_bridge.guard import guarded
from r_bridge.session import LANGUAGE, helper, quoted, start
from r_bridge.to_r import to_r
from r_bridge.vectors import (
    NA_INTEGER,
    NA_INTEGER64,
    Plain,
    attribute,
    cells_of,
    classes,
    from_counts,
    from_r_doubles,
    from_r_strings,
    read_attributes,
)

_ATOMIC = (ri.BoolSexpVector, ri.IntSexpVector, ri.FloatSexpVector, ri.StrSexpVector)
_FRAMES = (["tbl_df", "tbl", "data.frame"], ["data.frame"])
_AS_NUMBERS = {"numeric", "integer", "double", "character", "logical", "AsIs", "noquote", "difftime", "hms"}
_AS_NUMBERS |= {"labelled", "haven_labelled", "haven_labelled_spss", "vctrs_vctr"}
"""Classes of vectors that mean what their cells say."""

TEXT = "str" if int(pd.__version__.split(".")[0]) >= 3 else "object"


def from_r(value: Any) -> Any:
    """Return the Python form of an R object; the module says which.

    Raises
    ------
    ArgumentError
        If the object or one of its columns has a type without an equivalent; the message names the column.
    """
    start()
    return _value(value, "the value", {})


def call(function: Any, /, *arguments: object, **named: object) -> Any:
    """Call an R function with Python values, and return what it returns as a Python value.

    Parameters
    ----------
    function
        The name of a function (also ``"package::name"``), R code that defines one, or an R function.
    *arguments, **named
        Values that `to_r` takes.

    Raises
    ------
    RError
        If R raises an error.
    KeyboardInterrupt
        If R was interrupted.

    Examples
    --------
    >>> call("paste", "a", "b", sep="-")
    'a-b'
    """
    start()
    if isinstance(function, str):
        evaluate = helper("function(code) eval(str2lang(code), globalenv())")
        function = guarded(evaluate, ri.StrSexpVector([function]))
    return from_r(guarded(function, *map(to_r, arguments), **{key: to_r(value) for key, value in named.items()}))


def _value(value: Any, name: str, seen: dict[int, pd.DataFrame]) -> Any:
    """Return the Python form; ``seen`` are data frames by their places in R's memory, so that one stays one."""
    kinds = classes(value)
    for fits, convert in _FORMS:
        if fits(value, kinds):
            return convert(value, name, seen)
    raise ArgumentError(f"{name} is an R {_type(value)}, which Python has no equivalent for")


def _code(value: Any, _name: str, _seen: dict[int, pd.DataFrame]) -> str:
    return " ".join(helper("function(x) deparse(x, width.cutoff = 500L)")(quoted(value)))


def _shared_frame(value: Any, _name: str, seen: dict[int, pd.DataFrame]) -> pd.DataFrame:
    if value.rid not in seen:
        seen[value.rid] = _frame(value)
    return seen[value.rid]


def _object(value: Any, name: str, seen: dict[int, pd.DataFrame]) -> Any:
    fields = dict(_named(value, name))
    return handles.object_from_r(classes(value), lambda key: _value(fields[key], key, seen))


def _type(value: Any) -> str:
    """Return R's name for the type of an object."""
    return str(helper("typeof")(quoted(value))[0])


def _named(value: Any, name: str) -> list[tuple[str, Any]]:
    names = attribute(value, "names")
    listed = [] if names is None else from_r_strings(names)
    if len(listed) != len(value) or not all(listed):
        raise ArgumentError(f"{name} has elements without names; name them all")
    twice = sorted(str(listed_name) for listed_name, count in Counter(listed).items() if count > 1)
    if twice:
        raise ArgumentError(f"{name} has two elements {twice[0]!r}; rename one", column=twice[0])
    return [(str(key), item) for key, item in zip(listed, value, strict=True)]


def _list(value: Any, name: str, seen: dict[int, pd.DataFrame]) -> dict[str, Any] | list[Any]:
    if attribute(value, "names") is None:
        return [_value(item, name, seen) for item in value]
    return {key: _value(item, key, seen) for key, item in _named(value, name)}


def _vector(value: Any, name: str, _seen: dict[int, pd.DataFrame]) -> Any:
    if attribute(value, "dim") is not None:
        return _matrix(value, name)
    if len(value) == 1 and not classes(value) and attribute(value, "names") is None:
        return _scalar(value)
    names = attribute(value, "names")
    cells, kept = _column(value, name)
    series = pd.Series(cells, index=None if names is None else pd.Index(from_r_strings(names)))
    if kept is not None:
        series.attrs["r_column"] = kept
    return series


def _scalar(value: Any) -> bool | int | float | str:
    if isinstance(value, ri.StrSexpVector):
        text = from_r_strings(value)[0]
        return float("nan") if text is None else text
    number = value.memoryview()[0]
    if isinstance(value, ri.FloatSexpVector):
        return float(number)
    if number == NA_INTEGER:
        return float("nan")
    return bool(number) if isinstance(value, ri.BoolSexpVector) else int(number)


def _matrix(value: Any, name: str) -> Any:
    shape = tuple(attribute(value, "dim"))
    cells, _ = _column(value, name)
    array = np.asarray(cells).reshape(shape, order="F")
    names = attribute(value, "dimnames")
    if len(shape) != 2 or names is None or any(isinstance(part, type(ri.NULL)) for part in names):
        return array
    rows, columns = (from_r_strings(part) for part in names)
    frame = pd.DataFrame(array, index=rows, columns=columns)
    frame.attrs["r_class"] = ["matrix"]
    return frame


def _frame(value: Any) -> pd.DataFrame:
    """Return a data frame; what its columns cannot express is kept in ``attrs``."""
    cells: dict[str, Any] = {}
    kept: dict[str, Plain] = {}
    survival: dict[str, Plain] = {}
    for name, column in _named(value, "a data frame") if len(value) else []:
        if "Surv" in classes(column):
            parts = _survival(column)
            survival[name] = {"columns": list(parts), "attributes": parts.attrs["r_surv"]}
            new = {f"{name}.{part}": parts[part].to_numpy() for part in parts}
        else:
            converted, special = _column(column, name)
            new = {name: converted}
            kept |= {} if special is None else {name: special}
        twice = sorted(set(new) & set(cells))
        if twice:
            raise ArgumentError(f"the data frame has two columns {twice[0]!r}; rename one", column=twice[0])
        cells |= new
    frame = pd.DataFrame(cells, index=_index(value), copy=False)
    kinds = classes(value)
    notes = {"r_class": kinds if kinds in _FRAMES else ["data.frame"], "r_columns": kept, "r_surv": survival}
    frame.attrs |= {key: note for key, note in notes.items() if note and note != ["data.frame"]}
    return frame


def _index(value: Any) -> Any:
    rows = int(helper("function(x) .row_names_info(x, 1L)")(value)[0])
    if rows <= 0:
        return pd.RangeIndex(-rows)
    names = helper("function(x) attr(x, 'row.names')")(value)
    return from_r_strings(names) if isinstance(names, ri.StrSexpVector) else cells_of(names)


def _survival(value: Any) -> pd.DataFrame:
    """Return the columns of a ``Surv`` object."""
    columns = from_r_strings(attribute(value, "dimnames")[1])
    array = cells_of(value).reshape(tuple(attribute(value, "dim")), order="F")
    frame = pd.DataFrame(from_r_doubles(array), columns=columns)
    frame.attrs["r_surv"] = read_attributes(value, without=("dimnames",))
    return frame


def _column(column: Any, name: str) -> tuple[Any, Plain | None]:
    """Return the cells of a column, and what pandas has no type for."""
    kinds = classes(column)
    _check_type(column, name, kinds)
    kind_known = next((kind for kind in _KINDS if kind in kinds), None)
    if kinds in (["factor"], ["ordered", "factor"]) and {"class", "levels"} == set(column.list_attrs()) - {"names"}:
        return _factor(column), None
    if kind_known is not None:
        read, without = _KINDS[kind_known]
        return read(column), _kept(column, kind_known, without=without)
    special = set(column.list_attrs()) - {"names", "dim", "dimnames"}
    return _plain_cells(column), _kept(column, "plain", without=("dimnames",)) if special else None


def _check_type(column: Any, name: str, kinds: list[str]) -> None:
    if isinstance(column, ri.ListSexpVector):
        what = "a data frame" if "data.frame" in kinds else "a POSIXlt time" if "POSIXlt" in kinds else "a list"
        remedy = "as.POSIXct() makes it a vector" if "POSIXlt" in kinds else "make it a vector, or drop it"
    elif attribute(column, "dim") is not None and name != "the value" and len(attribute(column, "dim")) > 1:
        what, remedy = "a matrix", "give its columns names of their own, or drop it"
    elif not isinstance(column, _ATOMIC):
        what, remedy = f"of type {_type(column)}", "make it numbers or text, or drop it"
    elif set(kinds) <= _AS_NUMBERS or _KINDS.keys() & set(kinds):
        return
    else:
        what, remedy = f"of class {kinds[0]!r}", "make it numbers, text, a factor or a date"
    raise ArgumentError(f"column {name!r} is {what}, which a table here cannot hold: {remedy}", column=name)


def _kept(column: Any, kind: str, *, without: tuple[str, ...] = ()) -> Plain:
    storage = "integer" if isinstance(column, ri.IntSexpVector) else "double"
    return {"kind": kind, "storage": storage, "attributes": read_attributes(column, without=without)}


def _plain_cells(column: Any) -> Any:
    if isinstance(column, ri.StrSexpVector):
        return pd.Series(from_r_strings(column), dtype=TEXT).array
    cells = cells_of(column)
    if isinstance(column, ri.FloatSexpVector):
        return from_r_doubles(cells)
    missing = cells == NA_INTEGER
    if isinstance(column, ri.BoolSexpVector):
        truths = (cells != 0) & ~missing
        return pd.arrays.BooleanArray(truths, missing) if missing.any() else truths
    whole = cells.astype(np.int64)
    return pd.arrays.IntegerArray(np.where(missing, 0, whole), missing) if missing.any() else whole


def _factor(column: Any) -> Any:
    levels = attribute(column, "levels")
    codes, distinct = pd.factorize(np.array([] if levels is None else from_r_strings(levels), dtype=object))
    places = cells_of(column).astype(np.int64) - 1
    declared = (places >= 0) & (places < len(codes))  # a level for NA is a missing value in pandas
    codes = np.append(codes, -1)[np.where(declared, places, -1)]
    return pd.Categorical.from_codes(
        codes, categories=pd.Index(distinct, dtype=TEXT), ordered="ordered" in classes(column)
    )


def _numbers(column: Any) -> Any:
    cells = cells_of(column)
    if isinstance(column, ri.FloatSexpVector):
        return from_r_doubles(cells)
    return np.where(cells == NA_INTEGER, np.nan, cells.astype(np.float64))


def _dates(column: Any) -> Any:
    return from_counts(_numbers(column), seconds=86_400.0)


def _integers64(column: Any) -> Any:
    cells = cells_of(column).view(np.int64)
    missing = cells == NA_INTEGER64
    return pd.arrays.IntegerArray(np.where(missing, 0, cells), missing)


def _instants(column: Any) -> Any:
    zone = attribute(column, "tzone")
    cells = pd.Series(from_counts(_numbers(column), seconds=1.0)).dt.tz_localize("UTC")
    name = "UTC" if zone is None else str(zone[0])
    try:
        return cells.dt.tz_convert(name or "UTC").array
    except (KeyError, ValueError, OSError):  # a zone that Python's own table of zones does not have
        return cells.array


_KINDS: Final[dict[str, tuple[Callable[[Any], Any], tuple[str, ...]]]] = {
    "factor": (_factor, ("levels",)),
    "Date": (_dates, ()),
    "POSIXct": (_instants, ()),
    "integer64": (_integers64, ()),
}
"""The classes of columns that pandas has a type for: how cells are read, and which attributes these have already."""

_FORMS: Final[
    tuple[tuple[Callable[[Any, list[str]], bool], Callable[[Any, str, dict[int, pd.DataFrame]], Any]], ...]
] = (
    (lambda value, _: isinstance(value, type(ri.NULL)), lambda *_: None),
    (lambda value, kinds: "formula" in kinds or isinstance(value, LANGUAGE), _code),
    (lambda _, kinds: "data.frame" in kinds, _shared_frame),
    (lambda _, kinds: handles.is_object(kinds), _object),
    (lambda _, kinds: "Surv" in kinds, lambda value, *_: _survival(value)),
    (lambda _, kinds: "dp_vcov" in kinds, lambda value, name, _: _matrix(helper("unclass")(value), name)),
    (lambda value, _: isinstance(value, ri.ListSexpVector), _list),
    (lambda value, _: isinstance(value, _ATOMIC), _vector),
    (lambda value, _: isinstance(value, ri.SexpClosure), lambda value, *_: partial(call, value)),
)
"""How objects of R become values, by their type and classes; the first that fits. A function raises R's errors."""
