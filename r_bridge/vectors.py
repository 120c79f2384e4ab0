"""Vectors between R and numpy: numbers, texts, times and attributes.

Numbers are copied whole. R's ``writeBin`` and ``readBin`` turn a character vector into bytes that end with a zero, and
back: ten times faster than element by element, and total, since bytes that are no UTF-8 are replaced, where rpy2 would
raise. R counts seconds or days since 1970 in doubles, pandas counts ticks in integers.

Attributes that pandas has no type for are kept as plain data in ``DataFrame.attrs``, and `write_attributes` restores
them. They are plain because pandas copies and compares them and writes them to Parquet as JSON; R's own serialisation
could carry code.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import pandas as pd
import rpy2.rinterface as ri
from rpy2.rinterface_lib import openrlib

from hdpstats.api import ArgumentError
from r_bridge.session import helper, r_function

Plain = dict[str, Any]
"""The plain form of an R object: its type, its values and their names."""

NA_INTEGER: Final = -(2**31)
NA_INTEGER64: Final = -(2**63)
NA_BITS: Final = 0x7FF00000000007A2
QUIET_NA: Final = NA_BITS | 0x0008000000000000
"""NA with which arithmetic raises no floating-point exception; NA to R as well."""

NAN_BITS: Final = 0x7FF8000000000000
NAN_FROM_R: Final = 0x7FF80000000007A3
"""What R's NaN becomes in Python, where any other NaN is a missing value and becomes NA."""

_LOW: Final = 0xFFFFFFFF
"""R distinguishes NA from NaN by the lower half of the bits."""

_CHUNK: Final = 100_000
_EXACT_NANOSECONDS: Final = 9.2e9
_LARGEST_TIME: Final = 9.2e12
"""Seconds from 1970 that 64 bits of nanoseconds, and of microseconds, can hold."""


def cells_of(vector: Any) -> Any:
    """Return a copy of a vector of numbers or truth values, column by column where it is a matrix."""
    return np.array(vector.memoryview()).ravel(order="F")


def integers(cells: Any) -> Any:
    """Return an integer vector of R from numbers that fit."""
    buffer: Any = np.ascontiguousarray(cells, dtype=np.int32)
    return ri.IntSexpVector.from_memoryview(memoryview(buffer))


def doubles(cells: Any) -> Any:
    """Return a double vector of R, bit by bit."""
    buffer: Any = np.ascontiguousarray(cells, dtype=np.float64)
    return ri.FloatSexpVector.from_memoryview(memoryview(buffer))


def from_r_doubles(cells: Any) -> Any:
    """Return R's doubles with `QUIET_NA` for NA and `NAN_FROM_R` for NaN, both of which are NaN to numpy."""
    missing = np.isnan(cells)
    if missing.any():
        bits = cells.view(np.int64)
        bits[missing] = np.where((bits[missing] & _LOW) == NA_BITS & _LOW, QUIET_NA, NAN_FROM_R)
    return cells


def to_r_doubles(cells: Any) -> Any:
    """Return a double vector of R in which NaN is NA, except where R had NaN."""
    cells = np.ascontiguousarray(cells, dtype=np.float64)
    missing = np.isnan(cells)
    if missing.any():
        bits = cells.view(np.int64).copy()
        bits[missing] = np.where(bits[missing] == NAN_FROM_R, NAN_BITS, NA_BITS)
        cells = bits.view(np.float64)
    return doubles(cells)


def raw_bytes(vector: Any) -> bytes:
    """Return the bytes of a raw vector."""
    return bytes(openrlib.ffi.buffer(openrlib.rlib.RAW(vector.__sexp__._cdata), len(vector)))


def from_r_strings(vector: Any) -> list[str | None]:
    """Return a character vector's elements, None for NA."""
    texts: list[str | None] = []
    for first in range(0, len(vector), _CHUNK):
        size = min(_CHUNK, len(vector) - first)
        whole = size == len(vector)
        part = vector if whole else r_function("part_of")(vector, integers([first + 1]), integers([size]))
        texts += raw_bytes(r_function("text_bytes")(part)).decode(errors="replace").split("\0")[:-1]
    for place in np.flatnonzero(cells_of(helper("is.na")(vector))):
        texts[place] = None
    return texts


def to_r_strings(texts: Iterable[str | None], *, name: str = "a text") -> Any:
    """Return a character vector; None becomes NA.

    Raises
    ------
    ArgumentError
        If a text has a zero character, which R cannot hold.
    """
    listed = list(texts)
    joined = "".join([f"{'' if text is None else text}\0" for text in listed])
    if joined.count("\0") != len(listed):
        raise ArgumentError(f"{name} holds a zero character, which R cannot", argument=name)
    encoded = joined.encode(errors="replace")
    raw = ri.ByteSexpVector.from_memoryview(memoryview(encoded))
    vector = r_function("texts_of")(raw, integers([len(listed)]), ri.BoolSexpVector([encoded.isascii()]))
    missing = np.flatnonzero([text is None for text in listed])
    return r_function("set_missing")(vector, integers(missing + 1)) if len(missing) else vector


def text(vector: Any) -> str:
    """Return the only element of a character vector; NA is empty."""
    return from_r_strings(vector)[0] or ""


def fields(named: Any) -> dict[str, Any]:
    """Return the elements of a named R list."""
    return dict(zip(map(str, from_r_strings(named.do_slot("names"))), named, strict=True)) if len(named) else {}


def from_counts(counts: Any, *, seconds: float) -> Any:
    """Return times from counts of units of so many seconds since 1970; those beyond the range are missing.

    To the microsecond, or to the nanosecond where a double says more than microseconds and the years allow.
    """
    with np.errstate(all="ignore"):
        elapsed = counts * seconds
        finite = np.abs(elapsed) < _LARGEST_TIME  # NaN and infinity are not
    elapsed = np.where(finite, elapsed, 0.0)
    whole = np.floor(elapsed)
    times = _ticks(whole, elapsed - whole, 10**6)
    exact = bool((whole + (times.astype(np.int64) % 10**6) / 1e6 == elapsed).all())
    if not exact and bool((np.abs(elapsed) < _EXACT_NANOSECONDS).all()):
        times = _ticks(whole, elapsed - whole, 10**9)
    times[~finite] = np.datetime64("NaT")
    return times


def _ticks(whole: Any, part: Any, per_second: int) -> Any:
    counts = whole.astype(np.int64) * per_second + np.round(part * per_second).astype(np.int64)
    return counts.astype("datetime64[us]" if per_second == 10**6 else "datetime64[ns]")


def to_seconds(times: "pd.Series[Any]") -> Any:
    """Return seconds since 1970, NaN where missing; exact where doubles allow."""
    plain = times if times.dt.tz is None else times.dt.tz_convert("UTC").dt.tz_localize(None)
    cells = plain.to_numpy()
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[np.datetime_data(cells.dtype)[0]]
    ticks = cells.astype(np.int64)
    return np.where(np.isnat(cells), math.nan, ticks // per_second + (ticks % per_second) / per_second)


def attribute(vector: Any, name: str) -> Any:
    """Return an attribute of an R object, or None."""
    try:
        return vector.do_slot(name)
    except LookupError:
        return None


def classes(vector: Any) -> list[str]:
    """Return the S3 class of an R object, empty for none."""
    return [str(word) for word in attribute(vector, "class") or ()]


def with_attributes(vector: Any, attributes: dict[str, Any]) -> Any:
    """Return an R vector with further attributes, set by R itself, which marks it as an object where it has a class."""
    if not attributes:
        return vector
    values = ri.ListSexpVector(list(attributes.values()))
    return r_function("set_attributes")(vector, ri.StrSexpVector(list(attributes)), values)


def read_attributes(vector: Any, *, without: tuple[str, ...] = ()) -> Plain:
    """Return the attributes of an R object that have a plain form, except those with an entry per row."""
    names = [name for name in vector.list_attrs() if name not in ("names", "row.names", "dim", *without)]
    plain = {str(name): _to_plain(vector.do_slot(name)) for name in names}
    return {name: item for name, item in plain.items() if item is not None}


def write_attributes(attributes: Plain) -> dict[str, Any]:
    """Return R objects from what `read_attributes` returned."""
    return {name: _from_plain(plain) for name, plain in attributes.items()}


_NUMBERS: Final = {"logical": ri.BoolSexpVector, "integer": ri.IntSexpVector, "double": ri.FloatSexpVector}


def _to_plain(value: Any) -> Plain | None:
    kind, values = next((kind for kind, vector in _NUMBERS.items() if isinstance(value, vector)), None), None
    if kind is not None:
        values = cells_of(value).tolist()
    elif isinstance(value, ri.StrSexpVector):
        kind, values = "character", from_r_strings(value)
    elif isinstance(value, ri.ListSexpVector):
        items = [_to_plain(item) for item in value]
        kind, values = "list", None if None in items else items
    names = attribute(value, "names")
    listed = None if names is None else from_r_strings(names)
    return None if values is None else {"type": kind, "values": values, "names": listed}


_VECTORS: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "list": lambda values: ri.ListSexpVector([_from_plain(item) for item in values]),
    "character": to_r_strings,
    "double": doubles,
    "integer": integers,
    "logical": lambda values: ri.baseenv["as.logical"](integers(values)),
}


def _from_plain(plain: Plain) -> Any:
    vector, names = _VECTORS[plain["type"]](plain["values"]), plain["names"]
    return vector if names is None else with_attributes(vector, {"names": to_r_strings(names)})
