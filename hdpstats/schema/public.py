"""The public rows: checked with errors that name a cell, cleaned as R's ``glm`` does, and named by a hash.

**Points.** Distances are measured in the unit cube that public rows span, with columns scaled by their ranges. A
private row is clipped to the range of the public rows, so that it lies where they do; a level that no public row has is
a coordinate in which it differs from all of them alike. Every operation is elementwise: a row's point depends on that
row alone, to the last bit.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import SchemaError, SiteError
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.records import codec
from hdpstats.records.geometry import (
    LARGEST_REACH,
    PointColumn,
    PointSpace,
)
from hdpstats.schema import cell_maps
from hdpstats.schema.columns import Binary, Categorical, Column, Duration, NumericColumn
from hdpstats.schema.persons import among_first, by_appearance, first_rows, means_of, persons_of, places_of
from hdpstats.schema.schema import Schema, check_frame, check_names, check_unique, locate, select_unit
from hdpstats.schema.table import AdmittedTable

_MISSING = -1
_LONGEST_SHOWN = 60
_TOO_LARGE = (
    "is a whole number of 2^53 or more, which is not told apart from others where one missing cell makes a column of "
    "floats of this one; read the column from its source as text or as 'Int64'"
)


def _refuse_first(cells: "pd.Series[Any]", strange: BoolArray, name: str, reason: str) -> None:
    """Raise, naming the first strange cell, if there is one."""
    if not strange.any():
        return
    row = int(np.flatnonzero(strange)[0])
    shown = repr(cells.iloc[row])
    shown = shown if len(shown) <= _LONGEST_SHOWN else shown[: _LONGEST_SHOWN - 3] + "..."
    raise SchemaError(f"public column {name!r}, row {row}: {shown} {reason}", column=name, row=row)


def _read_numbers(cells: "pd.Series[Any]", column: NumericColumn, name: str) -> FloatArray:
    values = column.numbers(cells)
    strange = np.isnan(values) & ~cells.isna().to_numpy(dtype=bool)
    if isinstance(column, Binary):
        declared = "0 nor 1" if column.labels is None else " nor ".join(map(repr, column.labels))
        _refuse_first(cells, strange, name, f"is neither {declared}, as the schema declares; recode it")
    _refuse_first(cells, strange, name, "is no number; correct it or set it to NaN")
    _refuse_first(cells, np.isinf(values), name, "is infinite or too large; correct it or set it to NaN")
    return np.where(np.isnan(values), np.nan, values + 0.0)


def _read_codes(cells: "pd.Series[Any]", column: Categorical, name: str) -> IntArray:
    codes = cell_maps.codes(cells, levels=column.levels, other=column.other, blank=column.missing_level)
    present = ~cells.isna().to_numpy(dtype=bool)
    levels = ", ".join(map(repr, column.levels))
    strange = present & (codes < 0)
    _refuse_first(cells, strange & cell_maps.too_large(cells), name, _TOO_LARGE)
    _refuse_first(cells, strange, name, f"is not a declared level; the levels are {levels}")
    return codes


def _check_present(frame: pd.DataFrame, places: Mapping[str, list[int]], required: Iterable[str]) -> None:
    missing = [name for name in required if not places[name]]
    if not missing:
        return
    labels = [label for label in frame.columns if isinstance(label, str)]
    close = {name: get_close_matches(name, labels, n=1) for name in missing}
    shown = [f"{name!r} (is it {close[name][0]!r}?)" if close[name] else repr(name) for name in missing]
    raise SchemaError(f"the public rows lack columns: {', '.join(shown)}", columns=tuple(missing))


def _read_persons(plain: pd.DataFrame, unit: str | None) -> IntArray | None:
    """Return whose row each is, or None where the rows do not say: then each is a person of its own."""
    if unit is None or not locate(plain, [unit])[unit]:
        return None
    cells = select_unit(plain, unit, whose="public")
    persons = persons_of(cells)
    _refuse_first(cells, cell_maps.too_large(cells), unit, _TOO_LARGE)
    reason = f"names no person; correct it, or leave the column {unit!r} out"
    _refuse_first(cells, persons < 0, unit, reason)
    return persons


def _hash(
    numbers: Mapping[str, FloatArray], codes: Mapping[str, IntArray], schema: Schema, persons: IntArray | None
) -> str:
    digest = hashlib.sha256()
    for name in sorted([*numbers, *codes]):
        if name in numbers:
            content = numbers[name].astype("<f8").tobytes()
            digest.update(codec.dumps([name, "numbers", len(content)]).encode())
            digest.update(content)
        else:
            length, parts = _texts(codes[name], schema[name])
            digest.update(codec.dumps([name, "texts", length]).encode())
            for part in parts:
                digest.update(part)
    if persons is not None:
        digest.update(b"persons" + persons.astype("<i8").tobytes())
    return digest.hexdigest()


_PART = 2**14
"""Rows whose levels are written at once: other threads wait so long."""


def _texts(codes: IntArray, column: Column) -> tuple[int, Iterator[bytes]]:
    """Return the canonical JSON of the level of each row, null for -1: its length, and its parts."""
    levels = (*(column.levels if isinstance(column, Categorical) else ()), None)
    words = [codec.dumps(level) for level in levels]
    lengths = np.array([len(word) for word in words])[codes]  # the last one for -1

    def parts() -> Iterator[bytes]:
        yield b"["
        for first in range(0, len(codes), _PART):
            listed = ",".join([words[code] for code in codes[first : first + _PART].tolist()])
            yield f",{listed}".encode() if first else listed.encode()
        yield b"]"

    return int(lengths.sum()) + max(len(codes) - 1, 0) + 2, parts()


@final
@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class PublicTable:
    """Public rows: a copy of the declared columns of a data frame, checked against the schema.

    What the private side leaves out in silence (an unknown level, text where a number belongs) is an error here,
    since these rows may be named in messages. Cells without a value leave their row out, as R's ``glm`` does, also
    where the schema fills private ones in (``missing=``); the levels that it names for them (``missing_level=``) and
    for labels that are not declared (``other=``) they take too. Made by
    `from_frame`.

    Attributes
    ----------
    schema : Schema
        The declared columns, whether or not these rows have them.
    rows : int
        The number of rows, complete or not.
    numbers, codes : mapping of str to array (n,)
        The columns of numbers, NaN where one is missing, and those of codes of levels, -1 where one is missing.
    persons : int64 array (n,) or None
        Whose row each is; None where each is a person of its own.
    sha256 : str
        SHA-256 of the declared columns, 64 hex digits. The same values in the same order of rows have the same hash,
        whatever the types of the columns (1 and 1.0, text and pandas categorical), their order, the index and the
        undeclared columns. Where rows name persons, which rows are whose is part of it, and the names are not.
    within : float64 array (n,) or None
        Where `by_person` averaged a column: the variance of a person's own values about their mean; else None.
    """

    schema: Schema
    rows: int
    numbers: Mapping[str, FloatArray]
    codes: Mapping[str, IntArray]
    persons: IntArray | None
    sha256: str
    within: FloatArray | None = None

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        schema: Schema,
        required: Iterable[str] | None = None,
        *,
        unit: str | None = None,
    ) -> "PublicTable":
        """Check and copy public rows.

        Parameters
        ----------
        frame : DataFrame
            Rows that anybody may see. Columns that the schema does not declare are left out.
        schema : Schema
            The declared columns.
        required : iterable of str, optional
            The declared columns that the frame must have; all of them by default.
        unit : str, optional
            The column that names the person. Where the frame does not have it, each row is a person.

        Raises
        ------
        ArgumentError
            If ``frame`` is no DataFrame.
        SchemaError
            If a required column is absent, a declared one is present several times, a level is not declared,
            a numeric column holds something else than finite numbers, or a binary one than 0 and 1, or a row
            names no person.

        Examples
        --------
        >>> from hdpstats.schema.columns import Continuous
        >>> frame = pd.DataFrame({"age": [35, 95, None]})
        >>> table = PublicTable.from_frame(frame, Schema(age=Continuous(20, 90)))
        >>> table.raw(["age"]).numeric["age"], table.admitted(["age"]).numeric["age"]
        (array([35., 95.]), array([35., 90.]))
        """
        plain = check_frame(frame, name="public")
        places = locate(plain, schema)
        check_unique(places)
        _check_present(plain, places, schema if required is None else check_names(schema, required))
        numbers: dict[str, FloatArray] = {}
        codes: dict[str, IntArray] = {}
        for name, column in schema.items():
            cells = plain.iloc[:, places[name][0]] if places[name] else None
            if cells is not None and isinstance(column, NumericColumn):
                numbers[name] = _read_numbers(cells, column, name)
            elif cells is not None and isinstance(column, Categorical):
                codes[name] = _read_codes(cells, column, name)
        persons = _read_persons(plain, unit)
        sha256 = _hash(numbers, codes, schema, persons)
        return cls(numbers=numbers, codes=codes, persons=persons, sha256=sha256, schema=schema, rows=len(plain))

    @property
    def names(self) -> tuple[str, ...]:
        """The declared columns that these rows have, in the order of the schema."""
        return tuple(name for name in self.schema if name in self.numbers or name in self.codes)

    @property
    def nbytes(self) -> int:
        """The bytes of memory that the rows take."""
        persons = 0 if self.persons is None else self.persons.nbytes
        return persons + sum(values.nbytes for values in [*self.numbers.values(), *self.codes.values()])

    def complete(self, names: Iterable[str]) -> BoolArray:
        """Return which rows (n,) are complete in the named columns: those that `raw` and `admitted` return."""
        listed = check_names(self.schema, names)
        absent = [name for name in listed if name not in self.numbers and name not in self.codes]
        if absent:
            raise SchemaError(f"the public rows lack columns: {', '.join(map(repr, absent))}", columns=tuple(absent))
        keep = np.ones(self.rows, dtype=np.bool_)
        for name in listed:
            keep &= ~np.isnan(self.numbers[name]) if name in self.numbers else self.codes[name] != _MISSING
        return keep

    def by_person(self, names: Iterable[str], *, averaged: str | None = None, most_rows: int = 1) -> "PublicTable":
        """Return one row of each person: the first that is complete in the named columns, else the first one.

        An ``averaged`` column of numbers has the mean over the rows that have it, cut to its bounds, ``most_rows`` of
        them at most: the first in the order of `hdpstats.schema.persons.places_of`. Where rows name no persons, each is
        one: itself.
        """
        if self.persons is None:
            return self
        rows = first_rows(self.persons, self.complete(names))
        numbers = {name: values[rows] for name, values in self.numbers.items()}
        codes = {name: values[rows] for name, values in self.codes.items()}
        within = None
        column = None if averaged is None else self.schema[averaged]
        if averaged in numbers and isinstance(column, NumericColumn):
            places = places_of(self.persons, self.persons, self._cells())
            values = np.clip(self.numbers[averaged], column.lower, column.upper)
            counts = among_first(self.persons, places, ~np.isnan(values), most_rows=most_rows)
            means = means_of(self.persons, values, counts)
            numbers[averaged] = means
            within = means_of(self.persons, (values - means[self.persons]) ** 2, counts)
        sha256 = _hash(numbers, codes, self.schema, None)
        return PublicTable(
            numbers=numbers, codes=codes, persons=None, sha256=sha256, schema=self.schema, rows=len(rows), within=within
        )

    def frame(self) -> pd.DataFrame:
        """Return the rows, complete or not, as a new data frame of the declared columns that they have."""
        columns: dict[str, Any] = {}
        for name in self.names:
            column = self.schema[name]
            if isinstance(column, Categorical):
                columns[name] = pd.Categorical.from_codes(self.codes[name], categories=pd.Index(column.levels))
            elif isinstance(column, Binary) and column.labels is not None:
                codes = np.where(np.isnan(self.numbers[name]), _MISSING, self.numbers[name]).astype(np.int64)
                columns[name] = pd.Categorical.from_codes(codes, categories=pd.Index(column.labels))
            else:
                columns[name] = self.numbers[name].copy()
        return pd.DataFrame(columns, index=pd.RangeIndex(self.rows))

    def raw(self, names: Iterable[str]) -> AdmittedTable:
        """Return the rows that are complete in the named columns, with numbers as they are (not clipped)."""
        listed = check_names(self.schema, names)
        keep = self.complete(listed)
        numeric = {name: self.numbers[name][keep] for name in listed if name in self.numbers}
        codes = {name: self.codes[name][keep] for name in listed if name in self.codes}
        beyond: dict[str, BoolArray] = {}
        for name in numeric:
            column = self.schema[name]
            if isinstance(column, Duration):
                beyond[name] = numeric[name] > column.horizon
        return AdmittedTable(
            numeric=MappingProxyType(numeric),
            codes=MappingProxyType(codes),
            rows=int(keep.sum()),
            beyond=MappingProxyType(beyond),
            persons=None if self.persons is None else by_appearance(self.persons[keep]),
            places=None if self.persons is None else places_of(self.persons, self.persons, self._cells())[keep],
        )

    def _cells(self) -> Iterator[tuple[FloatArray | IntArray, BoolArray]]:
        """Yield the values of all columns that these rows have, with which of them are missing."""
        for name in sorted(self.names):
            values = self.numbers[name] if name in self.numbers else self.codes[name]
            yield values, np.isnan(values) if name in self.numbers else values == _MISSING

    def admitted(self, names: Iterable[str]) -> AdmittedTable:
        """Return the same rows as `raw`, with numbers clipped to the bounds of the schema."""
        rows = self.raw(names)
        numeric: dict[str, FloatArray] = {}
        for name, values in rows.numeric.items():
            column = self.schema[name]
            if isinstance(column, NumericColumn):
                numeric[name] = np.clip(values, column.lower, column.upper) + 0.0
        return replace(rows, numeric=MappingProxyType(numeric))

    def __repr__(self) -> str:
        return f"<public table: {len(self.names)} declared columns, {self.rows} rows>"


_LEVEL = 2.0**-0.5


def embed(
    space: PointSpace, table: AdmittedTable, *, part: slice | IntArray = slice(None), clip: bool = True
) -> FloatArray:
    """Return the points (n, p) of a part of the rows, in [0, 1] in every coordinate.

    Without ``clip``: where they would lie else.
    """
    rows = len(range(table.rows)[part]) if isinstance(part, slice) else len(part)
    points = np.zeros((rows, space.dimension))
    place = 0
    for column in space.columns:
        if column.levels is None:
            points[:, place] = _coordinate(column, table.numeric[column.name][part], clip=clip)
            place += 1
        else:
            points[np.arange(rows), place + table.codes[column.name][part]] = _LEVEL
            place += column.levels
    return points


def _coordinate(column: PointColumn, values: FloatArray, *, clip: bool) -> FloatArray:
    inside = np.clip(values, column.lower, column.upper) if clip else values
    return np.asarray((inside - column.lower) / (column.upper - column.lower))


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


def distinct(space: PointSpace, table: AdmittedTable) -> IntArray:
    """Return the first rows (m,) of the different points, in order.

    Rows are sorted by one column after the other, a categorical one by its codes: it takes little time and memory,
    and no other thread of Python waits for it.
    """
    columns = [
        _coordinate(column, table.numeric[column.name], clip=True)
        if column.levels is None
        else table.codes[column.name].astype(np.uint16)
        for column in space.columns
    ]
    if not columns:
        return np.arange(min(table.rows, 1))
    order = np.lexsort(columns)  # stable: of equal rows the first one stays the first
    begins = np.zeros(table.rows, dtype=np.bool_)
    begins[:1] = True
    for values in columns:
        ordered = values[order]
        begins[1:] |= ordered[1:] != ordered[:-1]
    return np.asarray(np.sort(order[begins]), dtype=np.int64)
