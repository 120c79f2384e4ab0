"""What a file holds that its schema does not expect: a check for the custodian, who holds the rows.

Private rows are mapped into the schema without error or warning, so a file that is coded otherwise than declared gives
a wrong table with a small standard error and no word. `check` reads the file as the map does and says, column by
column, what the map makes of it: empty cells, cells that are no value of the declared kind, labels that no level
declares, numbers that are cut at the bounds; and what the likely cause is (`hdpstats.schema.advice`).

**It reads private rows and adds no noise.** It is for the person who holds them. Nothing of it goes to a ledger, a log
or a release; it cannot be saved.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, Final, NoReturn, SupportsIndex, final
from weakref import WeakValueDictionary

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError, forgets_rows
from hdpstats._base.validation import text
from hdpstats.display import Report, Reported, columns, named_values
from hdpstats.schema import cell_maps
from hdpstats.schema.advice import NOT_TOLD_APART, READ_AS_TEXT, TOO_LARGE, Findings, Spelling, advice, shown
from hdpstats.schema.columns import Binary, Categorical, Column, NumericColumn
from hdpstats.schema.parquet import files_of, rows_in, state_of
from hdpstats.schema.persons import persons_of
from hdpstats.schema.schema import Schema, check_frame, check_unique, locate, select_unit

_TITLE = "Check of private rows against their schema: for the custodian only"
_HEADERS = ("kind", "type in file", "empty", "not of kind", "below", "above")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnCheck:
    """What one column of the file holds.

    Attributes
    ----------
    name, kind : str
        The declared column.
    dtype : str
        The type of the column in the file.
    rows : int
        The number of cells.
    missing : int
        Empty cells: missing in the file, or text of blanks only.
    spellings : tuple of (str, int)
        Cells that hold something which is no value of the declared kind, as they are spelled, with their number, the
        most frequent first. In a categorical column these are the labels that no level declares.
    below, above : int
        Numbers that are cut at the lower and at the upper bound.
    labelled : bool
        Whether its values are declared labels: then its spellings are labels that are not declared.
    """

    name: str
    kind: str
    dtype: str
    rows: int
    missing: int
    spellings: tuple[tuple[str, int], ...]
    below: int
    above: int
    labelled: bool
    _column: Column = field(repr=False, compare=False)
    _found: Findings = field(repr=False, compare=False)

    @property
    def advice(self) -> tuple[str, ...]:
        """What is likely to be wrong, and what to do; worked out when it is asked for."""
        return advice(self._column, self._found)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a check of private rows cannot be copied or pickled: it is for the screen of who holds them")

    @property
    def unreadable(self) -> int:
        """The number of cells that hold no value of the declared kind and are not empty."""
        return sum(number for _, number in self.spellings)

    @property
    def missing_share(self) -> float:
        """The share of cells without a value of the declared kind."""
        return (self.missing + self.unreadable) / max(self.rows, 1)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PersonsCheck:
    """Who has which rows.

    Attributes
    ----------
    unit : str
        The column that names the person.
    persons, repeated, most : int
        How many people there are, how many of them have several rows, and the most rows of one of them.
    nameless : int
        Rows that name nobody, which contribute nothing.
    too_large : int
        How many of them hold a whole number of 2^53 or more in a column where it has no text.
    rounded : int
        How many different people have a whole number of 2^53 or more for a name, where floats hold all of these and
        they are `MANY_ROUNDED` or more; else 0. Of numbers that never were floats about half are such, or fewer.
    """

    unit: str
    persons: int
    repeated: int
    most: int
    nameless: int
    too_large: int
    rounded: int

    @property
    def advice(self) -> tuple[str, ...]:
        """What is wrong with the column that names the person, and what to do."""
        rows = "1 row" if self.too_large == 1 else f"{self.too_large} rows"
        sentences = [f"{rows} {NOT_TOLD_APART} that these rows name nobody: {READ_AS_TEXT}"] * (self.too_large > 0)
        if self.rounded:
            sentences.append(
                f"its {self.rounded} different whole numbers of 2^53 or more are all such as floats hold, so that they "
                f"were probably rounded before they became what they are, and people were merged: {READ_AS_TEXT}"
            )
        return tuple(f"{self.unit!r}: {words}" for words in sentences)

    def __str__(self) -> str:
        return (
            f"{self.persons} different people in {self.unit!r}, {self.repeated} of them with several rows, at most "
            f"{self.most}; {self.nameless} rows name nobody and contribute nothing"
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class RowsCheck(Reported):
    """What `check` found, exact and without noise: for the person who holds the rows.

    Attributes
    ----------
    rows : int
        The number of rows.
    columns : tuple of ColumnCheck
        The declared columns that the file has.
    absent : tuple of str
        Declared columns that it lacks.
    undeclared : tuple of str
        Columns that are not declared: nothing reads them.
    persons : PersonsCheck or None
        Who has which rows, where a column names the person.
    """

    rows: int
    columns: tuple[ColumnCheck, ...]
    absent: tuple[str, ...]
    undeclared: tuple[str, ...]
    persons: PersonsCheck | None

    @property
    def advice(self) -> tuple[str, ...]:
        """What is likely to be wrong in the file, and what to do; nothing where all is as declared."""
        near = {_plain(label): label for label in self.undeclared}
        lacking = [
            f"{name!r} is declared, and the file has no such column: add it, or take it out of the schema"
            if _plain(name) not in near
            else f"{name!r} is declared, and the file has {near[_plain(name)]!r}: spell its name as declared"
            for name in self.absent
        ]
        people = () if self.persons is None else self.persons.advice
        return (*lacking, *people, *(f"{column.name!r}: {words}" for column in self.columns for words in column.advice))

    def tidy(self) -> pd.DataFrame:
        """Return a row per declared column of the file.

        Columns: ``column, kind, dtype, rows, missing, unreadable, below, above, spellings`` (the most frequent ones of
        what is no value of the kind) and ``advice``.
        """
        return pd.DataFrame(
            {
                "column": [column.name for column in self.columns],
                "kind": [column.kind for column in self.columns],
                "dtype": [column.dtype for column in self.columns],
                "rows": np.array([column.rows for column in self.columns], dtype=np.int64),
                "missing": np.array([column.missing for column in self.columns], dtype=np.int64),
                "unreadable": np.array([column.unreadable for column in self.columns], dtype=np.int64),
                "below": np.array([column.below for column in self.columns], dtype=np.int64),
                "above": np.array([column.above for column in self.columns], dtype=np.int64),
                "spellings": [", ".join(_spelled(column.spellings)) for column in self.columns],
                "advice": ["; ".join(column.advice) for column in self.columns],
            }
        )

    def _report(self, alpha: float = 0.05) -> Report:  # noqa: ARG002  (no interval: the numbers are exact)
        names = [column.name for column in self.columns]
        cells = [
            (column.kind, column.dtype, *map(str, (column.missing, column.unreadable, column.below, column.above)))
            for column in self.columns
        ]
        blocks = [named_values(self._head()), columns(_HEADERS, names, cells, aligns="lllr")]
        spellings = [
            (f"{column.name}:", ", ".join(_spelled(column.spellings))) for column in self.columns if column.spellings
        ]
        if spellings:
            blocks.append(named_values(spellings, title="Cells that hold no value of their kind"))
        sentences = [f"{number}. {words}" for number, words in enumerate(self.advice, start=1)]
        return Report(
            title=_TITLE,
            blocks=blocks,
            notes=sentences or ["Every cell that is not empty is a value of its declared kind."],
            badges=[f"{len(sentences)} remarks"],
        )

    def _head(self) -> list[tuple[str, str]]:
        rows = [("Rows:", str(self.rows)), ("Columns:", f"{len(self.columns)} declared ones")]
        if self.undeclared:
            names = ", ".join(repr(spelling)[1:-1] for spelling in self.undeclared)
            rows.append(("Not declared:", f"{names}: nothing reads them"))
        return rows if self.persons is None else [*rows, ("People:", str(self.persons))]

    def __repr__(self) -> str:
        return f"<check of private rows: {len(self.columns)} columns, {len(self.advice)} remarks>"

    def __getstate__(self) -> NoReturn:
        raise TypeError("a check of private rows cannot be copied or pickled: it is for the screen of who holds them")

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        self.__getstate__()


def _plain(name: str) -> str:
    """Return a name without blanks, in small letters."""
    return "".join(name.split()).casefold()


_SHOWN = 8
"""Spellings of one column that are shown; the others are counted."""


def _spelled(spellings: Sequence[tuple[str, int]]) -> list[str]:
    more = len(spellings) - _SHOWN
    return [f"{spelling} ({number})" for spelling, number in spellings[:_SHOWN]] + [f"{more} more"] * (more > 0)


FILES: Final = (str, PathLike, list, tuple)
Checkable = pd.DataFrame | str | PathLike[str] | Sequence[str | PathLike[str]]


@forgets_rows
def check(frame: Checkable, schema: Schema, *, unit: str | None = None) -> RowsCheck:
    """Compare the rows of a file with their schema, exactly and without noise: for the custodian who holds them.

    Run it before rows are served or analysed, and when the file or the schema changes. What it shows is private: it is
    for the screen of the person who holds the rows, and goes to no ledger, log or release.

    Parameters
    ----------
    frame : pandas.DataFrame, path, or list of paths
        The private rows, loaded as they will be served: all columns of a CSV file as texts
        (``pd.read_csv(path, dtype=str, keep_default_na=False, skip_blank_lines=False)``). Or Parquet files, as
        ``Study(private=)`` takes them: one, a folder, a pattern or a list. They are read into memory, all of them.
    schema : Schema
        What is declared.
    unit : str, optional
        The column that names the person, where people have several rows.

    Returns
    -------
    RowsCheck
        ``print`` shows a table and what to do; ``tidy()`` is a frame, ``advice`` the remarks alone.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument has a wrong type, no file has that name or can be read, several columns have a declared name, or
        the unit's column is absent. No cell is a reason.

    Examples
    --------
    >>> from hdpstats.schema.columns import Binary, Categorical
    >>> schema = Schema(arm=Categorical(["Placebo", "Drug"]), event=Binary())
    >>> found = check(pd.DataFrame({"arm": ["Placebo", "drug", "Drug"], "event": [1, 2, 1]}), schema)
    >>> for words in found.advice:
    ...     print(words)
    'arm': the label 'drug' (1 cell) is not declared, 'Drug' is, and differs in case: spell it as declared
    'event': it is coded 1 and 2, not 0 and 1: recode the file, or declare labels=("1", "2"), the label of 0 first
    """
    files = [] if isinstance(frame, pd.DataFrame) or not isinstance(frame, FILES) else files_of(frame, name="frame")
    states = {_file(path) for path in files}
    loaded = [rows_in(path, name="frame") for path in files]
    plain = check_frame(pd.concat(loaded, ignore_index=True) if loaded else frame, name="frame")
    if not isinstance(schema, Schema):
        raise ArgumentError("schema must be an hdp.Schema", argument="schema")
    places = locate(plain, schema)
    check_unique(places)
    if isinstance(frame, pd.DataFrame):
        _CHECKED[id(frame)] = frame
    _CHECKED_FILES.update(states)
    named = None if unit is None else select_unit(plain, text(unit, name="unit", longest=100), whose="private")
    return RowsCheck(
        rows=len(plain),
        columns=tuple(
            _column(name, schema[name], plain.iloc[:, positions[0]]) for name, positions in places.items() if positions
        ),
        absent=tuple(name for name, positions in places.items() if not positions),
        undeclared=tuple(str(label) for label in plain.columns if label not in places and label != unit),
        persons=None if unit is None or named is None else _persons(unit, named),
    )


_CHECKED: WeakValueDictionary[int, pd.DataFrame] = WeakValueDictionary()


_CHECKED_FILES: set[tuple[str, tuple[int, ...]]] = set()
"""Files by their names and states: one that was written anew is another."""


def _file(path: Path) -> tuple[str, tuple[int, ...]]:
    return str(path.resolve()), state_of(path)


def was_checked(rows: object) -> bool:
    """Return whether `check` was run in this process on this very frame, or on files as they are now.

    No cell is looked at.
    """
    if not isinstance(rows, FILES):
        return _CHECKED.get(id(rows)) is rows
    try:
        return all(_file(path) in _CHECKED_FILES for path in files_of(rows, name="private"))
    except (ArgumentError, OSError):  # files that went away since they were opened
        return False


def _column(name: str, column: Column, cells: "pd.Series[Any]") -> ColumnCheck:
    numbers, below, above = np.array([]), 0, 0
    if isinstance(column, NumericColumn):
        numbers = column.numbers(cells)
        without = np.flatnonzero(np.isnan(numbers))
        numbers = numbers[~np.isnan(numbers)]
        below, above = int((numbers < column.lower).sum()), int((numbers > column.upper).sum())
    else:
        levels = column.levels if isinstance(column, Categorical) else ()
        without = np.flatnonzero(cell_maps.codes(cells, levels=levels) < 0)
    empty, spellings = _without_value(cells.iloc[without])
    return ColumnCheck(
        name=name,
        kind=column.kind,
        dtype=repr(str(cells.dtype))[1:-1],
        rows=len(cells),
        missing=empty,
        spellings=tuple((shown(spelling), number) for spelling, number in spellings.most_common()),
        below=below,
        above=above,
        labelled=isinstance(column, Categorical) or (isinstance(column, Binary) and column.labels is not None),
        _column=column,
        _found=Findings(empty=empty, spellings=spellings, numbers=numbers),
    )


def _without_value(cells: "pd.Series[Any]") -> tuple[int, Counter[Spelling]]:
    """Return how many cells are empty, and the others by their text, or by their type where they have none."""
    empty, spellings = 0, Counter[Spelling]()
    large = cell_maps.too_large(cells)
    is_number = pd.api.types.is_numeric_dtype(cells.dtype)  # then a NaN, as Arrow has it besides null, is empty too
    for place, (word, absent) in enumerate(zip(cell_maps.texts(cells), _absent(cells), strict=True)):
        if large[place]:
            spellings[TOO_LARGE] += 1
        elif absent or (word is None and is_number) or (word is not None and not word.strip()):
            empty += 1
        else:
            kind = type(cells.array[place]).__name__ if cells.dtype == object else str(cells.dtype)
            spellings[Spelling(kind, is_type=True) if word is None else Spelling(word)] += 1
    return empty, spellings


def _absent(cells: "pd.Series[Any]") -> list[bool]:
    """Return which cells are missing in the file; a cell that cannot be asked, as a signalling NaN, is not."""
    try:
        return [bool(cell) for cell in cells.isna()]
    except ArithmeticError:
        return [False] if len(cells) == 1 else [_absent(cells.iloc[[place]])[0] for place in range(len(cells))]


MANY_ROUNDED = 20
"""Different whole numbers from which it is no chance that floats hold all of them."""
_WHOLE = re.compile(r"-?\d{16,20}(\.0)?|-?\d(\.\d+)?e\+1\d")
"""Texts of whole numbers, as columns of integers and of floats become text."""


def _rounded(cells: "pd.Series[Any]") -> int:
    """Return how many different texts are whole numbers of 2^53 or more, where floats hold all of many; else 0."""
    whole = [Fraction(text) for text in set(cell_maps.texts(cells)) if text is not None and _WHOLE.fullmatch(text)]
    large = [number for number in whole if abs(number) >= 2**53]
    return len(large) if len(large) >= MANY_ROUNDED and all(float(number) == number for number in large) else 0


def _persons(unit: str, cells: "pd.Series[Any]") -> PersonsCheck:
    whose = persons_of(cells)
    rows = np.bincount(whose[whose >= 0])
    return PersonsCheck(
        unit=unit,
        persons=len(rows),
        repeated=int((rows > 1).sum()),
        most=int(rows.max(initial=0)),
        nameless=int((whose < 0).sum()),
        too_large=int(cell_maps.too_large(cells).sum()),
        rounded=_rounded(cells),
    )
