"""The private rows: held, admitted through the schema, and shown to nobody."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NoReturn, SupportsIndex, final

import pandas as pd

from hdpstats._base.errors import ArgumentError, SchemaError
from hdpstats._base.forgetting import forgets_rows
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.data import coerce
from hdpstats.data.columns import Categorical, Duration, NumericColumn
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
    beyond : mapping of str to bool array
        For every duration, where the cell was beyond the horizon: there the number is the horizon, and what happened
        then was not observed.
    persons : int64 array, optional
        Whose row it is, from 0, and -1 where the cell names nobody; None where every row is a person.
    marks : int64 array, optional
        A keyed hash of the text that names the row's person, and -1 where it names nobody; None where no key was given.
    """

    numeric: Mapping[str, FloatArray]
    codes: Mapping[str, IntArray]
    rows: int
    beyond: Mapping[str, BoolArray] = field(default_factory=dict)
    persons: IntArray | None = None
    marks: IntArray | None = None

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


def _copy(cells: "pd.Series[Any]") -> "pd.Series[Any]":
    return pd.Series(cells.array, dtype=cells.dtype, copy=True)


def _select(plain: pd.DataFrame, schema: Schema) -> dict[str, "pd.Series[Any]"]:
    """Return copies of the declared columns of a private frame, looking at labels only."""
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
    return {name: _copy(plain.iloc[:, place]) for name, (place,) in places.items()}


def select_unit(plain: pd.DataFrame, unit: str, *, whose: str) -> "pd.Series[Any]":
    """Return a copy of the column that names the person, which the schema need not declare."""
    places = locate(plain, [unit])
    check_unique(places)
    if not places[unit]:
        raise SchemaError(f"the {whose} rows lack the column {unit!r} that names the person (unit=)", columns=(unit,))
    return _copy(plain.iloc[:, places[unit][0]])


def _admit(cells: Mapping[str, "pd.Series[Any]"], schema: Schema, rows: int, persons: IntArray | None) -> AdmittedTable:
    numeric: dict[str, FloatArray] = {}
    codes: dict[str, IntArray] = {}
    beyond: dict[str, BoolArray] = {}
    for name, series in cells.items():
        column = schema[name]
        if isinstance(column, NumericColumn):
            numeric[name] = column.admit(series)
        elif isinstance(column, Categorical):
            codes[name] = column.admit(series)
        if isinstance(column, Duration):
            beyond[name] = column.beyond(series)
    return AdmittedTable(
        numeric=MappingProxyType(numeric),
        codes=MappingProxyType(codes),
        rows=rows,
        beyond=MappingProxyType(beyond),
        persons=persons,
    )


@final
class PrivateTable:
    """Private rows in memory: a copy of the declared columns of a data frame, without index and attributes.

    Made by `from_frame`. It shows neither cells nor their number, and cannot be copied or pickled: what
    leaves it is what `admit` returns, to a mechanism.
    """

    __slots__ = ("_cells", "_rows", "_schema", "_unit")

    def __init__(
        self,
        *,
        cells: Mapping[str, "pd.Series[Any]"],
        schema: Schema,
        rows: int,
        unit: "pd.Series[Any] | None",
    ) -> None:
        self._cells = dict(cells)
        self._schema = schema
        self._rows = rows
        self._unit = unit

    @classmethod
    @forgets_rows
    def from_frame(cls, frame: pd.DataFrame, schema: Schema, *, unit: str | None = None) -> "PrivateTable":
        """Register private rows. Looks at the labels of columns only, never at cells or their types.

        Parameters
        ----------
        frame : DataFrame
            One row per person, or with ``unit`` several. Columns that the schema does not declare are left out.
        schema : Schema
            The declared columns, each of which the frame must have exactly once.
        unit : str, optional
            The column that names the person, read by `hdpstats.data.coerce.persons`. The schema need not declare it.

        Raises
        ------
        ArgumentError
            If ``frame`` is no DataFrame.
        SchemaError
            If a declared column or that of the unit is absent or present several times.

        Notes
        -----
        However many people there are, all of them are kept: a cut to the first so many would exchange one person for
        another where one is added, and cost a guarantee under ``add_or_remove_one`` twice as much.

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
        plain = check_frame(frame, name="private")
        cells = _select(plain, schema)
        named = None if unit is None else select_unit(plain, unit, whose="private")
        return cls(cells=cells, schema=schema, rows=len(plain), unit=named)

    @property
    def schema(self) -> Schema:
        """The declared columns."""
        return self._schema

    @property
    def rows(self) -> int:
        """The number of rows, valid or not. Public under ``replace_one`` and without a unit only."""
        return self._rows

    def admit(self, names: Iterable[str], *, key: bytes | None = None) -> AdmittedTable:
        """Map the named columns through the schema, and with a ``key`` mark whose row each is.

        Undeclared names are a `SchemaError`. Without a unit there are no marks.
        """
        listed = check_names(self._schema, names)
        table = _admit({name: self._cells[name] for name in listed}, self._schema, self._rows, self._persons())
        return table if key is None or self._unit is None else replace(table, marks=coerce.marks(self._unit, key))

    def _persons(self) -> IntArray | None:
        return None if self._unit is None else coerce.persons(self._unit)

    def __repr__(self) -> str:
        if not hasattr(self, "_unit"):  # the last that the constructor sets
            return "<private table: not complete>"
        return f"<private table: {len(self._cells)} declared columns>"

    def __getstate__(self) -> NoReturn:
        raise TypeError("a private table cannot be copied or pickled; register the frame where it is needed")

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        self.__getstate__()
