"""Numbers as files hold them, which are mapped to declared bounds where they are read.

A column of a Parquet file is a column of doubles, or is made one cell by cell (`hdpstats.schema.coerce.numbers`). The
map of a numeric column is then arithmetic of a double alone: which cells are missing, a number that fills them, and a
cut to the bounds. A loop that passes over rows once may do that on the way
(`hdpstats.mechanisms.person_loss.one_pass`); whatever else reads the column finds it mapped when it asks
(`columns_of`). The numbers are those of `hdpstats.schema.column.NumericColumn.admit`, to the last bit.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Generic, TypeVar, final

import numpy as np

from hdpstats._base.loops import compiled
from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.schema.column import Cells, Column, NumericColumn
from hdpstats.schema.table import AdmittedTable

T = TypeVar("T")


@final
@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Stored:
    """A numeric column as it is stored: doubles (n,), one after the other, not to be written to; and its map."""

    numbers: FloatArray
    column: NumericColumn

    @property
    def fill(self) -> float:
        """The number that stands in a missing cell."""
        return self.column.lower if self.column.missing is None else self.column.missing

    @property
    def left_out(self) -> bool:
        """Whether a cell without a number is missing, not filled in."""
        return self.column.missing is None

    @cached_property
    def values(self) -> FloatArray:
        """The numbers within the bounds (n,)."""
        values, column = np.empty(len(self.numbers)), self.column
        clip_numbers(self.numbers, column.lower, column.upper, self.fill, column.two_valued, values)
        return values

    @cached_property
    def missing(self) -> BoolArray:
        """Which cells are missing (n,)."""
        lacking = np.zeros(len(self.numbers), dtype=np.bool_)
        self.mark_missing(lacking)
        return lacking

    def mark_missing(self, lacking: BoolArray) -> None:
        """Mark the rows (n,) whose cell is missing."""
        if self.left_out:
            mark_missing(self.numbers, self.column.two_valued, lacking)


def columns_of(columns: Mapping[str, Column], cells: Callable[[str], Any], *, rows: int) -> AdmittedTable:
    """Return columns as a table whose values are mapped when they are asked for; ``cells`` returns those of a column.

    What they are does not depend on when, or whether, they are asked for.
    """
    numbers = {name: each for name, each in columns.items() if isinstance(each, NumericColumn)}
    stored = {name: Stored(numbers=_plain(each.stored(cells(name))), column=each) for name, each in numbers.items()}
    codes = Asked({name: partial(each.admit, cells(name)) for name, each in columns.items() if name not in numbers})
    missing = {name: partial(getattr, each, "missing") for name, each in stored.items()}
    return AdmittedTable(
        numeric=Asked({name: partial(getattr, each, "values") for name, each in stored.items()}),
        codes=Asked({name: partial(_values, codes, name) for name in codes}),
        rows=rows,
        missing=Asked({name: missing.get(name, partial(_missing, codes, name)) for name in columns}),
        beyond=Asked({name: partial(_beyond, each) for name, each in stored.items() if each.column.kind == "duration"}),
        stored=MappingProxyType(stored),
    )


@final
class Asked(Mapping[str, T], Generic[T]):
    """What functions return, found when it is first asked for."""

    __slots__ = ("_find", "_found")

    def __init__(self, find: Mapping[str, Callable[[], T]]) -> None:
        self._find, self._found = find, dict[str, T]()

    def __getitem__(self, name: str) -> T:
        """Return what the function of a name returns."""
        if name not in self._found:
            self._found[name] = self._find[name]()
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._find)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._find)

    def __repr__(self) -> str:
        return f"<{len(self)} private columns>"


def _plain(numbers: FloatArray) -> FloatArray:
    """Return doubles one after the other that cannot be written to: one type of array, for which loops are compiled."""
    plain = np.ascontiguousarray(numbers, dtype=np.float64).view()
    plain.flags.writeable = False
    return plain


def _values(found: Mapping[str, Cells], name: str) -> Any:
    return found[name].values


def _missing(found: Mapping[str, Cells], name: str) -> BoolArray:
    return found[name].missing


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
def mark_missing(numbers: FloatArray, two_valued: bool, lacking: BoolArray) -> None:
    """Mark the rows whose cell holds no number of its column."""
    if two_valued:
        for i in range(len(lacking)):
            lacking[i] |= is_none(numbers[i], True)
    else:
        for i in range(len(lacking)):
            lacking[i] |= is_none(numbers[i], False)


@compiled
def within(number: float, lower: float, upper: float, fill: float, two_valued: bool) -> float:
    """Return a number within bounds, ``fill`` where it is none, and 0 for -0; without a branch."""
    known = fill if is_none(number, two_valued) else number
    above = known if known > lower else lower
    return (above if above < upper else upper) + 0.0


@compiled
def is_none(number: float, two_valued: bool) -> bool:
    """Return whether a cell holds no number of its column."""
    return (number != number) | (two_valued & (number != 0.0) & (number != 1.0))
