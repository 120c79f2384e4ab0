"""Numbers as files hold them, which are mapped to declared bounds where they are read.

A column of a Parquet file is a column of doubles, or is made one cell by cell (`hdpstats.schema.cell_maps.numbers`).
The map of a numeric column is then arithmetic of a double alone: which cells are missing, a number that fills them, and
a cut to the bounds. A loop that passes over rows once may do that on the way (`hdpstats.families.regression.one_pass`);
whatever else reads the column finds it mapped when it asks (`columns_of`). The numbers are those of
`hdpstats.schema.columns.NumericColumn.admit`, to the last bit.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, final

import numpy as np

from hdpstats._base.compiled import compiled
from hdpstats._base.intrinsics import double_at
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.schema.cell_maps import is_none, within
from hdpstats.schema.columns import Column, NumericColumn
from hdpstats.schema.table import AdmittedTable

S = TypeVar("S")
T = TypeVar("T")


@final
@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Stored:
    """A numeric column as it is stored: doubles (n,), one after the other, not to be written to; and its map."""

    numbers: FloatArray
    column: NumericColumn

    @property
    def left_out(self) -> bool:
        """Whether a cell without a number is missing, not filled in."""
        return self.column.missing is None

    @cached_property
    def values(self) -> FloatArray:
        """The numbers within the bounds (n,)."""
        values, column = np.empty(len(self.numbers)), self.column
        clip_numbers(self.numbers, column.lower, column.upper, column.fill, column.two_valued, values)
        return values

    @cached_property
    def missing(self) -> BoolArray:
        """Which cells are missing (n,)."""
        lacking = np.zeros(len(self.numbers), dtype=np.bool_)
        if self.left_out:
            mark_missing(addresses_of([self.numbers]), np.array([self.column.two_valued]), lacking)
        return lacking


@final
class Declared:
    """The columns that are read of a source, in the order of their declarations, for all of its partitions."""

    __slots__ = ("_found", "columns", "durations", "numbers", "others")

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.columns = columns
        self.numbers = {name: column for name, column in columns.items() if isinstance(column, NumericColumn)}
        self.others = {name: column for name, column in columns.items() if name not in self.numbers}
        self.durations = {name: column for name, column in self.numbers.items() if column.kind == "duration"}
        self._found: dict[object, tuple[object, Any]] = {}

    def once(self, find: Callable[[Mapping[str, NumericColumn], S], T], given: S) -> T:
        """Return what ``find`` returns of the declared numeric columns and of ``given``, found once for this source."""
        key = find, id(given)
        if key not in self._found:
            self._found[key] = given, find(self.numbers, given)  # kept too: another object would get its identity
        result: T = self._found[key][1]
        return result


@final
class StoredColumns:
    """The numeric columns of a partition as they are stored."""

    __slots__ = ("_made", "_numbers", "declared")

    def __init__(self, declared: Declared, numbers: Mapping[str, FloatArray]) -> None:
        self.declared, self._numbers = declared, numbers
        self._made: dict[str, Stored] = {}

    def __getitem__(self, name: str) -> Stored:
        """Return a column."""
        if name not in self._made:
            self._made[name] = Stored(numbers=self._numbers[name], column=self.declared.numbers[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is a column of that name."""
        return name in self._numbers

    def __repr__(self) -> str:
        return f"<{len(self._numbers)} private columns>"

    def addresses(self, names: Sequence[str]) -> IntArray:
        """Return where the doubles of columns are in memory (k,); they stay there as long as this object is kept."""
        return addresses_of([self._numbers[name] for name in names])

    def mark_missing(self, lacking: BoolArray, *, but: Sequence[str]) -> None:
        """Mark the rows (n,) that have a missing cell in one of these columns ``but`` the named ones."""
        left_out, two_valued = self.declared.once(_left_out, but)
        mark_missing(self.addresses(left_out), two_valued, lacking)


def _left_out(columns: Mapping[str, NumericColumn], but: Sequence[str]) -> tuple[list[str], BoolArray]:
    """Return the columns whose missing cells leave rows out, and which of them have two values."""
    names = [name for name, column in columns.items() if column.missing is None and name not in but]
    return names, np.array([columns[name].two_valued for name in names], dtype=np.bool_)


def columns_of(declared: Declared, cells: Callable[[str], Any], *, rows: int) -> AdmittedTable:
    """Return columns as a table whose values are mapped when they are asked for; ``cells`` returns those of a column.

    What they are does not depend on when, or whether, they are asked for.
    """
    stored = StoredColumns(
        declared, {name: plain(column.stored(cells(name))) for name, column in declared.numbers.items()}
    )
    others = LazyMapping(declared.others, lambda name: declared.others[name].admit(cells(name)))
    return AdmittedTable(
        numeric=LazyMapping(declared.numbers, lambda name: stored[name].values),
        codes=LazyMapping(declared.others, lambda name: others[name].values),
        rows=rows,
        missing=LazyMapping(declared.columns, lambda name: (stored if name in stored else others)[name].missing),
        beyond=LazyMapping(declared.durations, lambda name: _beyond(stored[name])),
        stored=stored,
    )


@final
class LazyMapping(Mapping[str, T], Generic[T]):
    """What a function returns of names, found when it is first asked for."""

    __slots__ = ("_find", "_found", "_names")

    def __init__(self, names: Mapping[str, object], find: Callable[[str], T]) -> None:
        self._names, self._find, self._found = names, find, dict[str, T]()

    def __getitem__(self, name: str) -> T:
        """Return what the function returns of a name."""
        if name not in self._found:
            if name not in self._names:
                raise KeyError(name)
            self._found[name] = self._find(name)
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        """Return whether it is one of the names."""
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._names)

    def __repr__(self) -> str:
        return f"<{len(self)} private columns>"


def plain(numbers: FloatArray) -> FloatArray:
    """Return doubles one after the other that cannot be written to: one type of array, for which loops are compiled."""
    flags = numbers.flags
    if numbers.dtype == np.float64 and flags.c_contiguous and not flags.writeable:
        return numbers
    plain = np.ascontiguousarray(numbers, dtype=np.float64).view()
    plain.flags.writeable = False
    return plain


def _beyond(stored: Stored) -> BoolArray:
    return np.asarray(stored.numbers > stored.column.upper)


@compiled
def clip_numbers(
    numbers: FloatArray, lower: float, upper: float, fill: float, two_valued: bool, values: FloatArray
) -> None:
    """Write numbers within bounds, ``fill`` where there is none; the bounds are the only numbers with two values."""
    for i in range(len(values)):
        values[i] = within(numbers[i], lower, upper, fill, two_valued)


@compiled
def address(numbers: FloatArray) -> int:
    """Return where doubles are in memory."""
    position: int = numbers.ctypes.data
    return position


def addresses_of(arrays: Iterable[FloatArray]) -> IntArray:
    """Return where arrays of doubles are in memory (k,): good as long as they are kept."""
    return np.array([address(array) for array in arrays], dtype=np.int64)


@compiled
def mark_missing(addresses: IntArray, two_valued: BoolArray, lacking: BoolArray) -> None:
    """Mark the rows that have, in one of the columns at addresses, a cell that holds no number of its column."""
    for j in range(len(addresses)):
        first = addresses[j]
        if two_valued[j]:
            for i in range(len(lacking)):
                lacking[i] |= is_none(double_at(first, i), True)
        else:
            for i in range(len(lacking)):
                lacking[i] |= is_none(double_at(first, i), False)
