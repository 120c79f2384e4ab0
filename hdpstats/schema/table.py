"""The private rows: held, mapped through the schema, and shown to nobody."""

import hmac
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, TypeVar, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import forgets_rows
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.records import codec
from hdpstats.schema.columns import Column, Duration, NumericColumn
from hdpstats.schema.partitions import InMemory, Parts
from hdpstats.schema.persons import among_first, first_rows, marks_of, means_of, persons_of, places_of
from hdpstats.schema.schema import Schema, check_frame, check_names, select, select_unit

if TYPE_CHECKING:
    from hdpstats.schema.stored_columns import StoredColumns

_T = TypeVar("_T")
_U = TypeVar("_U")
_V = TypeVar("_V")


@final
@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class AdmittedTable(Parts["AdmittedTable"]):
    """Cells after the total map of the schema: numbers within bounds and codes of declared levels.

    It is a partition of private rows, and a sequence of one partition.

    Attributes
    ----------
    numeric : mapping of str to float64 array
        One number per row for every numeric column; its lower bound where the cell is missing.
    codes : mapping of str to int64 array
        One code per row for every categorical column, 0 for the reference level and where the cell is missing.
    rows : int
        The number of rows.
    missing : mapping of str to bool array
        Which cells of private columns are missing. Public rows are complete in all their columns, and have none.
    beyond : mapping of str to bool array
        For every duration, where the cell was beyond the horizon: there the number is the horizon, and what happened
        then was not observed.
    persons : int64 array, optional
        Whose row it is, from 0, and -1 where the cell names nobody; None where every row is a person.
    places : int64 array, optional
        The place of each row among those of its person (`hdpstats.schema.persons.places_of`), all columns counted:
        where more are there than are used, the first complete ones are. None where every row is a person.
    marks : int64 array, optional
        A keyed hash of the text that names the row's person, and -1 where it names nobody; None where no key was given.
    stored : StoredColumns, optional
        Numeric columns of a file before their map (`hdpstats.schema.stored_columns`), for loops that map cells.
    """

    numeric: Mapping[str, FloatArray]
    codes: Mapping[str, IntArray]
    rows: int
    missing: Mapping[str, BoolArray] = field(default_factory=dict)
    beyond: Mapping[str, BoolArray] = field(default_factory=dict)
    persons: IntArray | None = None
    places: IntArray | None = None
    marks: IntArray | None = None
    stored: "StoredColumns | None" = None

    @property
    def complete(self) -> BoolArray:
        """Which rows (n,) have no missing cell in any of these columns: only they count."""
        return ~self.lacking(but=())

    def lacking(self, *, but: Sequence[str]) -> BoolArray:
        """Return which rows (n,) have a missing cell in any of these columns ``but`` the named ones."""
        lacking = np.zeros(self.rows, dtype=np.bool_)
        if self.stored is not None:
            self.stored.mark_missing(lacking, but=but)
        for name in self.missing:
            if name not in but and (self.stored is None or name not in self.stored):
                lacking |= self.missing[name]
        return lacking

    def used(self, *, most_rows: int) -> "AdmittedTable":
        """Return the first ``most_rows`` rows of each person, a person's together; rows of nobody are left out.

        Complete ones come first, so that who has one counts.
        """
        if self.persons is None or self.places is None:
            return self
        order = np.lexsort((self.places, ~self.complete, self.persons))
        order = order[self.persons[order] >= 0]
        begins = np.flatnonzero(np.diff(self.persons[order], prepend=-1))
        place = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
        return self._of(order[place < most_rows])

    def first_complete(self) -> "AdmittedTable":
        """Return one row of each person, the first complete one, else the first (`hdpstats.schema.persons`)."""
        return self if self.persons is None else self._of(first_rows(self.persons, self.complete))

    def averaged(self, outcome: str, *, most_rows: int) -> "AdmittedTable":
        """Return one row of each person, the first that is complete but for an outcome, which is the person's mean.

        The mean is over the rows that have it, ``most_rows`` at most (`hdpstats.schema.persons.among_first`); it is
        missing where none has. A total map, person by person.
        """
        if self.persons is None or self.places is None:
            return self
        found = self._of(first_rows(self.persons, ~self.lacking(but=(outcome,))))
        there = among_first(self.persons, self.places, ~self.missing[outcome], most_rows=most_rows)
        means = means_of(self.persons, self.numeric[outcome], there)
        lacking = np.isnan(means)
        numbers = np.where(lacking, found.numeric[outcome], means)
        return replace(
            found,
            numeric=MappingProxyType({**found.numeric, outcome: numbers}),
            missing=MappingProxyType({**found.missing, outcome: lacking}),
        )

    def _of(self, rows: IntArray) -> "AdmittedTable":
        """Return some of the rows, of a table that names persons."""

        def picked(part: IntArray | None) -> IntArray | None:
            return None if part is None else part[rows]

        def of(arrays: Mapping[str, Any]) -> Mapping[str, Any]:
            return MappingProxyType({name: values[rows] for name, values in arrays.items()})

        return AdmittedTable(
            numeric=of(self.numeric),
            codes=of(self.codes),
            rows=len(rows),
            missing=of(self.missing),
            beyond=of(self.beyond),
            persons=picked(self.persons),
            places=picked(self.places),
            marks=picked(self.marks),
        )

    def map(self, find: Callable[["AdmittedTable"], _U]) -> list[_U]:
        """Return what a function returns of this table."""
        return [find(self)]

    def each(self, make: Callable[["AdmittedTable"], _U]) -> InMemory[_U]:
        """Return what ``make`` makes of this table, once."""
        return InMemory(make(self), rows=self.rows)

    def as_one(self, make: Callable[["AdmittedTable"], _U], join: Callable[[Parts[_U]], _V]) -> _U:  # noqa: ARG002
        """Return what ``make`` makes of this table."""
        return make(self)

    def here(self) -> Iterator["AdmittedTable"]:
        """Return this table."""
        return iter([self])

    def gathered(self, join: Callable[[list["AdmittedTable"]], "AdmittedTable"]) -> "AdmittedTable":  # noqa: ARG002
        """Return this table."""
        return self

    def __repr__(self) -> str:
        return f"<admitted table: {len(self.numeric)} numeric and {len(self.codes)} categorical columns>"


def joined(tables: Sequence[AdmittedTable]) -> AdmittedTable:
    """Return the rows of tables with the same columns in one table, people left out."""

    def of(arrays: str) -> Mapping[str, Any]:
        parts: Sequence[Mapping[str, Any]] = [getattr(table, arrays) for table in tables]
        return MappingProxyType({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})

    return AdmittedTable(
        numeric=of("numeric"),
        codes=of("codes"),
        rows=sum(table.rows for table in tables),
        missing=of("missing"),
        beyond=of("beyond"),
    )


def marks_key(schema_sha256: str) -> bytes:
    """Return the key under which people of a schema are marked: the same for every query, so that marks are kept."""
    return bytes.fromhex(schema_sha256)


@final
@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class _Mapped:
    """A column after the map of the schema, read-only: values, which are missing, and which beyond the horizon."""

    mapped: Any
    missing: BoolArray
    numeric: bool
    beyond: BoolArray | None


def mapped(cells: "pd.Series[Any]", column: Column) -> _Mapped:
    """Return a column after the map of the schema."""
    beyond = column.beyond(cells) if isinstance(column, Duration) else None
    admitted = column.admit(cells)
    return _Mapped(
        mapped=_read_only(admitted.values),
        missing=_read_only(admitted.missing),
        numeric=isinstance(column, NumericColumn),
        beyond=None if beyond is None else _read_only(beyond),
    )


def admitted(
    columns: Mapping[str, _Mapped],
    *,
    rows: int,
    persons: IntArray | None = None,
    places: IntArray | None = None,
    marks: IntArray | None = None,
) -> AdmittedTable:
    """Return mapped columns as a table, with the persons, places and marks of its rows."""
    return AdmittedTable(
        numeric=MappingProxyType({name: column.mapped for name, column in columns.items() if column.numeric}),
        codes=MappingProxyType({name: column.mapped for name, column in columns.items() if not column.numeric}),
        rows=rows,
        missing=MappingProxyType({name: column.missing for name, column in columns.items()}),
        beyond=MappingProxyType({name: column.beyond for name, column in columns.items() if column.beyond is not None}),
        persons=persons,
        places=places,
        marks=marks,
    )


def _places(persons: IntArray, marks: IntArray, columns: Sequence[_Mapped]) -> IntArray:
    """Return the place of each row among those of its person, by marks and mapped columns."""
    cells = [(each.mapped, each.missing) for each in columns]
    beyond = [(each.beyond.astype(np.int64), each.missing) for each in columns if each.beyond is not None]
    return places_of(persons, marks, [*cells, *beyond])


def _read_only_of(find: Callable[..., IntArray], *cells: Any) -> IntArray:
    integers: IntArray = _read_only(find(*cells))
    return integers


def _read_only(values: Any) -> Any:
    values.flags.writeable = False
    return values


class PrivateRows(ABC):
    """Private rows as a site holds them: what leaves them is what `admit` returns, to a mechanism.

    They show neither cells nor their number, and cannot be copied or pickled.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The declared columns."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of rows, valid or not. Public under ``replace_one`` and without a unit only."""

    @abstractmethod
    def admit(self, names: Iterable[str], *, key: bytes | None = None) -> Parts[AdmittedTable]:
        """Map the named columns through the schema, and with a ``key`` mark whose row each is."""

    @abstractmethod
    def check_whole(self, columns: int, *, rows: int) -> None:
        """Refuse to read so many columns of so many rows at once where the rows are not in memory.

        ``rows`` is the public or declared number of rows.

        Raises
        ------
        MechanismError
            They may take more memory than is allowed.
        """

    def load(self, load: Callable[[], None]) -> None:
        """Load compiled code with ``load``, which raises where it cannot be, wherever rows are read."""
        load()

    @abstractmethod
    def check_unchanged(self) -> None:
        """Refuse to read rows of other files than those that were opened; no cell is looked at.

        Raises
        ------
        SiteError
            A file has changed, or is not there any more.
        """

    @abstractmethod
    def read(self) -> None:
        """Read all declared columns now."""

    @abstractmethod
    def fingerprint(self, key: bytes) -> str:
        """Return a keyed hash (HMAC-SHA-256) of all that mechanisms read, in the order of rows, and of the schema."""

    def __getstate__(self) -> NoReturn:
        raise TypeError("a private table cannot be copied or pickled; register the frame where it is needed")

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        self.__getstate__()


@final
class PrivateTable(PrivateRows):
    """Private rows in memory: a copy of the declared columns of a data frame, without index and attributes.

    Made by `from_frame`. It shows neither cells nor their number, and cannot be copied or pickled: what
    leaves it is what `admit` returns, to a mechanism.

    How long it takes to map a column depends on what its cells hold: one odd cell can make a column of numbers one of
    objects. So each column is mapped once, and kept; a site maps all of them before its first answer
    (`read`), and the time of no answer depends on what cells hold.
    """

    __slots__ = ("_cells", "_kept", "_lock", "_rows", "_schema", "_unit")

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
        self._kept: dict[str | bytes | None, Any] = {}
        self._lock = threading.Lock()

    @classmethod
    @forgets_rows
    def from_frame(cls, frame: pd.DataFrame, schema: Schema, *, unit: str | None = None) -> "PrivateTable":
        """Register private rows. Reads the labels of columns only, never at cells or their types.

        Parameters
        ----------
        frame : DataFrame
            One row per person, or with ``unit`` several. Columns that the schema does not declare are left out.
        schema : Schema
            The declared columns, each of which the frame must have exactly once.
        unit : str, optional
            The column that names the person, read by `hdpstats.schema.persons.persons_of`. The schema need not declare
            it.

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
        >>> from hdpstats.schema.columns import Continuous
        >>> frame = pd.DataFrame({"age": [35, 120, None]})
        >>> table = PrivateTable.from_frame(frame, Schema(age=Continuous(20, 90)))
        >>> table
        <private table: 1 declared columns>
        >>> admitted = table.admit(["age"])
        >>> admitted.numeric["age"], admitted.complete
        (array([35., 90., 20.]), array([ True,  True, False]))
        """
        plain = check_frame(frame, name="private")
        cells = select(plain, schema)
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
        columns = {name: self._column(name) for name in listed}
        unit, persons, places, marks = self._unit, None, None, None
        if unit is not None:
            persons = self._once(None, partial(_read_only_of, persons_of, unit))
            every = [self._column(each) for each in sorted(self._schema)]
            known = marks_key(self._schema.sha256)
            own = self._once(known, partial(_read_only_of, marks_of, unit, known))
            places = self._once(b"", partial(_read_only_of, _places, persons, own, every))
            marks = None if key is None else self._once(key, partial(_read_only_of, marks_of, unit, key))
        return admitted(columns, rows=self._rows, persons=persons, places=places, marks=marks)

    def _column(self, name: str) -> _Mapped:
        """Return a column after the map of the schema, which is made once."""
        return self._once(name, partial(mapped, self._cells[name], self._schema[name]))

    def check_whole(self, columns: int, *, rows: int) -> None:
        """Refuse nothing: the rows are in memory."""

    def check_unchanged(self) -> None:
        """Refuse nothing: the rows are in memory."""

    def read(self) -> None:
        """Map all declared columns now, who is who, and the marks of `marks_key`, so that no later `admit` has to.

        An answer with another key, as none of the package has, would read the cells that name people.
        """
        self.admit(self._schema, key=marks_key(self._schema.sha256))

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed hash (HMAC-SHA-256) of all that mechanisms read, in the order of rows, and of the schema.

        That is every admitted number or code, which cells are missing or beyond a horizon, and whose row each is.
        Whoever holds the rows notices by it that they changed. Without the key it shows nothing; with it, a table that
        somebody guesses can be compared. It needs no memory besides what is kept.
        """
        table = self.admit(self._schema, key=marks_key(self._schema.sha256))
        people = {
            name: numbers
            for name, numbers in (("persons", table.persons), ("marks", table.marks))  # places follow from the rows
            if numbers is not None
        }
        digest = hmac.new(key, self._schema.sha256.encode(), "sha256")
        for arrays in (table.numeric, table.codes, table.missing, table.beyond, people):
            for name in sorted(arrays):
                digest.update(codec.dumps([name, str(arrays[name].dtype), self._rows]).encode())
                digest.update(np.ascontiguousarray(arrays[name]).data)
        return digest.hexdigest()

    def _once(self, what: str | bytes | None, find: Callable[[], _T]) -> _T:
        """Return what was found before under a name, else find it."""
        with self._lock:
            if what not in self._kept:
                self._kept[what] = find()
            result: _T = self._kept[what]
            return result

    def __repr__(self) -> str:
        if not hasattr(self, "_unit"):  # the last that the constructor sets
            return "<private table: not complete>"
        return f"<private table: {len(self._cells)} declared columns>"
