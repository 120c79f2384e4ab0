"""The private rows: held, admitted through the schema, and shown to nobody."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn, SupportsIndex, final

import pandas as pd

from hdpstats._base.errors import ArgumentError, SchemaError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.data.columns import Categorical, NumericColumn
from hdpstats.data.schema import Schema


@final
@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class AdmittedTable:
    """Cells after the total map of the schema: numbers within bounds and codes of declared levels.

    Attributes
    ----------
    numeric : mapping of str to float64 array
        One number per row for every numeric column.
    codes : mapping of str to int64 array
        One code per row for every categorical column, 0 for the reference level.
    rows : int
        The number of rows.
    """

    numeric: Mapping[str, FloatArray]
    codes: Mapping[str, IntArray]
    rows: int

    def __repr__(self) -> str:
        return f"<admitted table: {len(self.numeric)} numeric and {len(self.codes)} categorical columns>"


def check_names(schema: Schema, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names without repetition, in order, after checking that the schema declares each."""
    listed = tuple(dict.fromkeys(names))
    unknown = [name for name in listed if name not in schema]
    if unknown:
        raise SchemaError(
            f"not declared: {', '.join(map(repr, unknown))}; the schema declares {', '.join(schema)}",
            columns=tuple(unknown),
        )
    return listed


def locate(frame: pd.DataFrame, names: Iterable[str]) -> dict[str, list[int]]:
    """Return the positions of the columns that each name labels, an empty list where it labels none."""
    places: dict[str, list[int]] = {name: [] for name in names}
    for place, label in enumerate(frame.columns):
        if isinstance(label, str) and label in places:
            places[label].append(place)
    return places


def check_frame(frame: object, *, name: str) -> pd.DataFrame:
    """Return a plain DataFrame over the same cells, or raise if the argument is none."""
    if not isinstance(frame, pd.DataFrame):
        raise ArgumentError(f"{name} must be a pandas DataFrame, not {type(frame).__name__}", argument=name)
    return pd.DataFrame(frame)


def check_unique(places: Mapping[str, list[int]]) -> None:
    """Raise if a declared name labels several columns."""
    repeated = [name for name, found in places.items() if len(found) > 1]
    if repeated:
        raise SchemaError(
            f"several columns are called {', '.join(map(repr, repeated))}; keep one of each",
            columns=tuple(repeated),
        )


def _select(frame: object, schema: Schema) -> tuple[dict[str, "pd.Series[Any]"], int]:
    """Return the declared columns of a private frame and its number of rows, looking at labels only."""
    plain = check_frame(frame, name="private")
    places = locate(plain, schema)
    missing = [name for name, found in places.items() if not found]
    if missing:
        folded = {label.strip().casefold() for label in plain.columns if isinstance(label, str)}
        near = [name for name in missing if name.casefold() in folded]
        hint = f" ({', '.join(map(repr, near))} up to case or blanks: rename)" if near else ""
        raise SchemaError(
            f"the private rows lack declared columns: {', '.join(map(repr, missing))}{hint}; "
            "add them, or leave them out of the schema",
            columns=tuple(missing),
        )
    check_unique(places)
    return {name: plain.iloc[:, place] for name, (place,) in places.items()}, len(plain)


def _admit(cells: Mapping[str, "pd.Series[Any]"], schema: Schema, rows: int) -> AdmittedTable:
    numeric: dict[str, FloatArray] = {}
    codes: dict[str, IntArray] = {}
    for name, series in cells.items():
        column = schema[name]
        if isinstance(column, NumericColumn):
            numeric[name] = column.admit(series)
        elif isinstance(column, Categorical):
            codes[name] = column.admit(series)
    return AdmittedTable(numeric=MappingProxyType(numeric), codes=MappingProxyType(codes), rows=rows)


@final
class PrivateTable:
    """Private rows in memory: a copy of the declared columns of a data frame, without index and attributes.

    Made by `from_frame`. It shows neither cells nor their number, and cannot be copied or pickled: what
    leaves it is what `admit` returns, to a mechanism.
    """

    __slots__ = ("_cells", "_rows", "_schema")

    def __init__(self, *, cells: Mapping[str, "pd.Series[Any]"], schema: Schema, rows: int) -> None:
        self._cells = dict(cells)
        self._schema = schema
        self._rows = rows

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, schema: Schema) -> "PrivateTable":
        """Register private rows. Looks at the labels of columns only, never at cells or their types.

        Parameters
        ----------
        frame : DataFrame
            One row per record. Columns that the schema does not declare are left out.
        schema : Schema
            The declared columns, each of which the frame must have exactly once.

        Raises
        ------
        ArgumentError
            If ``frame`` is no DataFrame.
        SchemaError
            If a declared column is absent or present several times.

        Examples
        --------
        >>> from hdpstats.data.columns import Continuous
        >>> frame = pd.DataFrame({"age": [35, 120, None]})
        >>> table = PrivateTable.from_frame(frame, Schema(age=Continuous(20, 90)))
        >>> table
        <private table: 1 declared columns>
        >>> table.admit(["age"]).numeric["age"]
        array([35., 90., 55.])
        """
        cells, rows = _select(frame, schema)
        copies = {name: pd.Series(series.array, dtype=series.dtype, copy=True) for name, series in cells.items()}
        return cls(cells=copies, schema=schema, rows=rows)

    @property
    def schema(self) -> Schema:
        """The declared columns."""
        return self._schema

    @property
    def rows(self) -> int:
        """The number of records, valid or not. Public under ``replace_one`` only."""
        return self._rows

    def admit(self, names: Iterable[str]) -> AdmittedTable:
        """Map the named columns through the schema. Undeclared names are a `SchemaError`."""
        listed = check_names(self._schema, names)
        return _admit({name: self._cells[name] for name in listed}, self._schema, self._rows)

    def __repr__(self) -> str:
        return f"<private table: {len(self._cells)} declared columns>"

    def __getstate__(self) -> NoReturn:
        raise TypeError("a private table cannot be copied or pickled; register the frame where it is needed")

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        self.__getstate__()
