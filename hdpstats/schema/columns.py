"""Kinds of column: what the custodian declares about a column before any cell is read.

A declaration fixes everything that would otherwise be learned from private rows: bounds, levels, the horizon, and what
becomes of a missing cell. Each kind has one total map, ``admit``, from cells to numbers within the bounds or to codes
of declared levels, and to which cells are *missing* (see `hdpstats.schema.cell_maps`).

**Missing means left out**, as `hdpstats.schema.cell_maps` says. A schema fills cells in by name only:
``missing=<value>``, ``missing_level="unknown"``, and ``other=`` for labels that are not declared. ``complete=True``
declares that the column has no missing cell, so that nothing is spent on how many rows are complete; a cell that is
missing all the same is left out like any other, and no number says so.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import islice
from types import MappingProxyType
from typing import Any, ClassVar, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import SchemaError
from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats._base.validation import integer, real, text, truth
from hdpstats.records.codec import Json
from hdpstats.schema import cell_maps
from hdpstats.schema.cell_maps import Cells, within_bounds

__all__ = [
    "KINDS",
    "Binary",
    "Categorical",
    "Column",
    "Continuous",
    "Duration",
    "NumericColumn",
    "Offset",
    "Weight",
    "column_of",
]

LARGEST_BOUND = 1e12
_NARROWEST = 1e-12
SHORTEST = _NARROWEST**2
"""The shortest horizon, and the smallest largest weight."""


class Column(ABC):
    """A declared column. ``kind`` names it in a data dictionary.

    Attributes
    ----------
    complete : bool
        Whether it is declared that no cell is missing.
    label : str or None
        What tables, figures and pages call the column. It declares nothing about cells: columns with other labels are
        equal, and no hash, query or ledger has it.
    """

    __slots__ = ()
    kind: ClassVar[str]
    complete: bool
    label: str | None

    @abstractmethod
    def admit(self, cells: "pd.Series[Any]") -> Cells:
        """Map every cell to a declared value, or find it missing. Never raises or warns; each cell on its own."""

    @property
    @abstractmethod
    def leaves_out(self) -> bool:
        """Whether rows may be left out because of this column: it is not declared complete, nor every cell filled."""

    @final
    def to_dict(self) -> dict[str, Json]:
        """Return the declaration as plain data, with the label where there is one."""
        entry = self.declaration()
        return entry if self.label is None else {**entry, "label": self.label}

    @final
    def declaration(self) -> dict[str, Json]:
        """Return what is declared about cells, without the label."""
        entry: dict[str, Json] = {"kind": self.kind}
        for declared in fields(self):  # type: ignore[arg-type]  # every kind is a dataclass
            if declared.init and declared.name != "label":
                value = getattr(self, declared.name)
                entry[declared.name] = list(value) if isinstance(value, tuple) else value
        return entry


class NumericColumn(Column):
    """A column of numbers in [``lower``, ``upper``].

    Attributes
    ----------
    lower, upper : float
        The bounds.
    missing : float or None
        The number that fills a missing cell in; None where its row is left out.
    two_valued : bool
        Whether the bounds, 0 and 1, are its only numbers.
    """

    __slots__ = ()
    two_valued: ClassVar[bool] = False
    lower: float
    upper: float
    missing: float | None

    @property
    def leaves_out(self) -> bool:
        """Whether rows may be left out because of this column."""
        return not self.complete and self.missing is None

    @property
    def fill(self) -> float:
        """The number that stands in a missing cell: what is declared, else the lower bound, for nothing."""
        return self.lower if self.missing is None else self.missing

    @final
    def admit(self, cells: "pd.Series[Any]") -> Cells:
        """Return the numbers clipped to the bounds; what is none is missing, or takes the declared value."""
        return within_bounds(self.numbers(cells), lower=self.lower, upper=self.upper, fill=self.missing)

    def numbers(self, cells: "pd.Series[Any]") -> FloatArray:
        """Return the number in each cell, not clipped, and NaN where there is none of this kind."""
        return cell_maps.numbers(cells)

    def stored(self, cells: Any) -> FloatArray:
        """Return the doubles in the cells of a file, which are not to be written to; `numbers` are made of each."""
        return self.numbers(cells)


LABEL: Final[Any] = field(default=None, compare=False, repr=False)
"""The field of a column's label, which has no part in comparisons."""
LONGEST_LABEL: Final = 200


def label_of(label: object) -> str | None:
    """Return the label of a column after checking that it is a line of text that prints."""
    if label is None:
        return None
    words = text(label, name="label", longest=LONGEST_LABEL)
    if words != words.strip() or not words.isprintable():
        raise SchemaError(
            f"label must be a line of text without blanks around it, not {words!r}: it names the column in tables"
        )
    return words


def set_fields(column: Column, **values: object) -> None:
    """Set fields of a frozen declaration, in its constructor."""
    for name, value in values.items():
        object.__setattr__(column, name, value)


def interval(lower: object, upper: object) -> tuple[float, float]:
    """Return declared bounds, or raise where they cannot hold."""
    low = real(lower, name="lower", lower=-LARGEST_BOUND, upper=LARGEST_BOUND)
    high = real(upper, name="upper", lower=-LARGEST_BOUND, upper=LARGEST_BOUND)
    if not low < high:
        raise SchemaError(f"lower must be below upper, not {low:g} and {high:g}", lower=low, upper=high)
    if not high - low >= _NARROWEST * max(abs(low), abs(high), _NARROWEST):
        raise SchemaError(
            f"the bounds {low!r} and {high!r} are too close to compute with; shift or rescale the column",
            lower=low,
            upper=high,
        )
    return low, high


def filled_in(value: object, lower: float, upper: float, *, complete: object) -> dict[str, Any]:
    """Return what is declared about missing cells of a numeric column."""
    declared = is_complete(complete, filled=value is not None, by="missing")
    return {"missing": None if value is None else real(value, name="missing", lower=lower, upper=upper), **declared}


def is_complete(complete: object, *, filled: bool, by: str) -> dict[str, Any]:
    """Return whether a column is declared complete, or raise where it is declared to be filled in as well."""
    declared = truth(complete, name="complete")
    if declared and filled:
        raise SchemaError(f"complete=True says that no cell is missing, {by}= what fills one in; give one of them")
    return {"complete": declared}


MOST_LEVELS = 1000
LONGEST_LEVEL = 1000


@final
@dataclass(frozen=True, slots=True, init=False)
class Continuous(NumericColumn):
    """A measurement between two declared bounds.

    Parameters
    ----------
    lower, upper : number
        Bounds in the column's unit; values beyond them are clipped.
    missing : number, optional
        The number that fills a missing private cell in. Without it the row is left out of whatever reads this column.
    complete : bool
        Whether it is declared that the column has no missing cell.
    label : str, optional
        What tables, figures and pages call the column (`hdpstats.schema.columns.label_of`).

    Raises
    ------
    ArgumentError
        If a bound is not a finite number of at most 1e12 in size, or ``missing`` lies outside the bounds.
    SchemaError
        If the bounds are equal, reversed or too close to compute with.

    Examples
    --------
    >>> found = Continuous(20, 90).admit(pd.Series([35, 120, None]))
    >>> found.values, found.missing
    (array([35., 90., 20.]), array([False, False,  True]))
    >>> Continuous(20, 90, missing=55).admit(pd.Series([35, 120, None])).values
    array([35., 90., 55.])
    """

    kind: ClassVar[str] = "continuous"
    lower: float
    upper: float
    missing: float | None
    complete: bool
    label: str | None = LABEL

    def __init__(
        self, lower: object, upper: object, *, missing: object = None, complete: object = False, label: object = None
    ) -> None:
        low, high = interval(lower, upper)
        set_fields(
            self, lower=low, upper=high, **filled_in(missing, low, high, complete=complete), label=label_of(label)
        )


@final
@dataclass(frozen=True, slots=True, init=False)
class Binary(NumericColumn):
    """A column of zeros and ones: 1, true and the text "1" are 1; 0, false and the text "0" are 0.

    Any other cell is missing. With ``labels`` the first of two texts is 0, the second 1, and any other cell is missing;
    numbers count by their text, so that a column coded 1 and 2 is declared by ``Binary(labels=("1", "2"))``.

    Parameters
    ----------
    labels : pair of str, optional
        The texts of 0 and of 1, code point by code point: nothing is trimmed or case-folded.
    missing : 0 or 1, optional
        The number that fills a missing private cell in. Without it the row is left out of whatever reads this column.
    complete : bool
        Whether it is declared that the column has no missing cell.
    label : str, optional
        What tables, figures and pages call the column (`hdpstats.schema.columns.label_of`).

    Examples
    --------
    >>> found = Binary().admit(pd.Series([1, 0, "1", 2, None], dtype=object))
    >>> found.values, found.missing
    (array([1., 0., 1., 0., 0.]), array([False, False, False,  True,  True]))
    >>> Binary(labels=("no", "yes")).admit(pd.Series(["yes", "no", "Yes"])).missing
    array([False, False,  True])
    """

    kind: ClassVar[str] = "binary"
    two_valued: ClassVar[bool] = True
    labels: tuple[str, str] | None
    missing: float | None
    complete: bool
    label: str | None = LABEL
    lower: float = field(init=False, repr=False)
    upper: float = field(init=False, repr=False)

    def __init__(
        self, *, labels: object = None, missing: object = None, complete: object = False, label: object = None
    ) -> None:
        value = None if missing is None else integer(missing, name="missing", lower=0, upper=1)
        filled = filled_in(value, 0.0, 1.0, complete=complete)
        set_fields(
            self,
            labels=None if labels is None else _labels(labels),
            **filled,
            label=label_of(label),
            lower=0.0,
            upper=1.0,
        )

    def numbers(self, cells: "pd.Series[Any]") -> FloatArray:
        """Return 0 or 1 for each cell, and NaN where it holds neither."""
        if self.labels is None:
            values = cell_maps.numbers(cells)
            return np.where((values == 0.0) | (values == 1.0), values, np.nan)
        level_codes = cell_maps.codes(cells, levels=self.labels)
        return np.where(level_codes < 0, np.nan, level_codes.astype(np.float64))

    def stored(self, cells: Any) -> FloatArray:
        """Return the doubles in the cells of a file, also where they are neither 0 nor 1."""
        return cell_maps.numbers(cells) if self.labels is None else self.numbers(cells)


@final
@dataclass(frozen=True, slots=True, init=False)
class Duration(NumericColumn):
    """A time since the start of follow-up, between 0 and the declared horizon.

    What a private cell becomes: a number in [0, horizon] itself; a negative one 0; a longer one (infinity too) the
    horizon, and `beyond` is true there, so that a survival model takes it as censored at the horizon whatever the
    event; NaN, None, dates and text that is no number are missing. Survival models take a time of 0 as one in the first
    interval, and a row that stops no later than it starts as no follow-up at all.

    Parameters
    ----------
    horizon : number
        The longest follow-up that is analysed, positive. Public rows may go beyond it; they are cut there as well.
    unit : str, optional
        The unit of time, for tables and axes.
    missing : number, optional
        The time that fills a missing private cell in. Without it the row is left out of whatever reads this column.
    complete : bool
        Whether it is declared that the column has no missing cell.
    label : str, optional
        What tables, figures and pages call the column (`hdpstats.schema.columns.label_of`).

    Examples
    --------
    >>> found = Duration(horizon=2557, unit="days").admit(pd.Series([365.0, 4000.0, -1.0, None]))
    >>> found.values, found.missing
    (array([ 365., 2557.,    0.,    0.]), array([False, False, False,  True]))
    """

    kind: ClassVar[str] = "duration"
    horizon: float
    unit: str | None
    missing: float | None
    complete: bool
    label: str | None = LABEL
    lower: float = field(init=False, repr=False)
    upper: float = field(init=False, repr=False)

    def __init__(
        self,
        horizon: object,
        unit: object = None,
        *,
        missing: object = None,
        complete: object = False,
        label: object = None,
    ) -> None:
        end = real(horizon, name="horizon", lower=SHORTEST, upper=LARGEST_BOUND)
        name = None if unit is None else text(unit, name="unit", longest=100)
        set_fields(
            self,
            horizon=end,
            unit=name,
            **filled_in(missing, 0.0, end, complete=complete),
            label=label_of(label),
            lower=0.0,
            upper=end,
        )

    def beyond(self, cells: "pd.Series[Any]") -> BoolArray:
        """Return where a cell holds a number beyond the horizon; each cell on its own, without raising or warning."""
        return np.asarray(cell_maps.numbers(cells) > self.horizon)


@final
@dataclass(frozen=True, slots=True, init=False)
class Weight(NumericColumn):
    """A case weight between 0 and a declared maximum.

    Parameters
    ----------
    max : number
        The largest weight that one person can have, positive; larger weights are clipped to it.
    missing : number, optional
        The weight that fills a missing private cell in. Without it the row is left out of whatever reads this column.
    complete : bool
        Whether it is declared that the column has no missing cell.
    label : str, optional
        What tables, figures and pages call the column (`hdpstats.schema.columns.label_of`).

    Examples
    --------
    >>> Weight(max=5, missing=1).admit(pd.Series([0.5, 7.0, -1.0, None])).values
    array([0.5, 5. , 0. , 1. ])
    """

    kind: ClassVar[str] = "weight"
    max: float
    missing: float | None
    complete: bool
    label: str | None = LABEL
    lower: float = field(init=False, repr=False)
    upper: float = field(init=False, repr=False)

    def __init__(
        self,
        max: object,  # noqa: A002  (the contract's name)
        *,
        missing: object = None,
        complete: object = False,
        label: object = None,
    ) -> None:
        most = real(max, name="max", lower=SHORTEST, upper=LARGEST_BOUND)
        set_fields(
            self,
            max=most,
            **filled_in(missing, 0.0, most, complete=complete),
            label=label_of(label),
            lower=0.0,
            upper=most,
        )


@final
@dataclass(frozen=True, slots=True, init=False)
class Offset(NumericColumn):
    """A known term of the linear predictor, between two declared bounds.

    Parameters
    ----------
    lower, upper : number
        Bounds on the scale of the linear predictor; values beyond them are clipped.
    missing : number, optional
        The number that fills a missing private cell in. Without it the row is left out of whatever reads this column.
    complete : bool
        Whether it is declared that the column has no missing cell.
    label : str, optional
        What tables, figures and pages call the column (`hdpstats.schema.columns.label_of`).

    Examples
    --------
    >>> Offset(-2, 2, missing=0).admit(pd.Series([0.3, -5.0, None])).values
    array([ 0.3, -2. ,  0. ])
    """

    kind: ClassVar[str] = "offset"
    lower: float
    upper: float
    missing: float | None
    complete: bool
    label: str | None = LABEL

    def __init__(
        self, lower: object, upper: object, *, missing: object = None, complete: object = False, label: object = None
    ) -> None:
        low, high = interval(lower, upper)
        set_fields(
            self, lower=low, upper=high, **filled_in(missing, low, high, complete=complete), label=label_of(label)
        )


def _level(value: object) -> str:
    readable = isinstance(value, str | int | np.str_ | np.integer | np.bool_)
    if not readable:
        raise SchemaError(f"a level must be text, not {type(value).__name__}; write it in quotes")
    level = text(str(value), name="a level", longest=LONGEST_LEVEL)
    if any("\ud800" <= character <= "\udfff" for character in level):
        raise SchemaError("a level must be text that can be encoded (it holds a lone surrogate)")
    return level


def _levels(values: object) -> tuple[str, ...]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise SchemaError("levels must be a list of texts, the reference level first")
    levels = tuple(_level(value) for value in islice(values, MOST_LEVELS + 1))
    if not 2 <= len(levels) <= MOST_LEVELS:
        raise SchemaError(f"a categorical column needs 2 to {MOST_LEVELS} levels", most=MOST_LEVELS)
    repeated = sorted({level for level in levels if levels.count(level) > 1})
    if repeated:
        raise SchemaError(
            f"each level is declared once, as text (1 and '1' are the same); repeated: {repeated}",
            repeated=tuple(repeated),
        )
    return levels


def _labels(values: object) -> tuple[str, str]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise SchemaError('labels must be the texts of 0 and of 1, such as labels=("no", "yes")')
    labels = tuple(_level(value) for value in islice(values, 3))
    if len(labels) != 2 or labels[0] == labels[1]:
        raise SchemaError('labels must be two different texts, that of 0 first, such as labels=("no", "yes")')
    return labels[0], labels[1]


@final
@dataclass(frozen=True, slots=True, init=False)
class Categorical(Column):
    """A column of declared levels, the first of which is the reference.

    A cell belongs to a level when its text is the same, code point by code point: nothing is trimmed,
    case-folded or normalised. The numbers 3 and 3.0 have the text "3". The categories that a pandas
    categorical column carries of its own play no part. Every other cell is missing, unless the schema says which level
    it takes: ``other`` for a label that is not declared, ``missing_level`` for a cell without a text or with a blank
    one.

    Parameters
    ----------
    levels : list of str
        2 to 1000 different texts; whole numbers and truth values are taken as their text.
    other : str, optional
        The level that a label takes which is not declared.
    missing_level : str, optional
        The level that a cell without a label takes; it is added as the last one where it is not declared.
    complete : bool
        Whether it is declared that the column has no missing cell.
    label : str, optional
        What tables, figures and pages call the column (`hdpstats.schema.columns.label_of`).

    Raises
    ------
    SchemaError
        If levels are repeated, too few or too many, or ``other`` is not one of them.

    Examples
    --------
    >>> cells = pd.Series([">50", "20-50", "huge", None])
    >>> found = Categorical(["<=20", "20-50", ">50"]).admit(cells)
    >>> found.values, found.missing
    (array([2, 1, 0, 0]), array([False, False,  True,  True]))
    >>> size = Categorical(["<=20", "20-50", ">50"], other=">50", missing_level="unknown")
    >>> size.levels, size.admit(cells).values
    (('<=20', '20-50', '>50', 'unknown'), array([2, 1, 2, 3]))
    """

    kind: ClassVar[str] = "categorical"
    levels: tuple[str, ...]
    other: str | None
    missing_level: str | None
    complete: bool
    label: str | None = LABEL

    def __init__(
        self,
        levels: object,
        *,
        other: object = None,
        missing_level: object = None,
        complete: object = False,
        label: object = None,
    ) -> None:
        declared = _levels(levels)
        blank = None if missing_level is None else _level(missing_level)
        if blank is not None and blank not in declared:
            declared = _levels([*declared, blank])
        fallback = None if other is None else _level(other)
        if fallback is not None and fallback not in declared:
            raise SchemaError(f"other must be one of the levels, not {fallback!r}", other=fallback, levels=declared)
        present = is_complete(complete, filled=blank is not None, by="missing_level")
        set_fields(self, levels=declared, other=fallback, missing_level=blank, **present, label=label_of(label))

    @property
    def leaves_out(self) -> bool:
        """Whether rows may be left out because of this column."""
        return not self.complete and (self.other is None or self.missing_level is None)

    def admit(self, cells: "pd.Series[Any]") -> Cells:
        """Return the code of each cell's level (0: the reference), and which cells have none."""
        level_codes = cell_maps.codes(cells, levels=self.levels, other=self.other, blank=self.missing_level)
        return Cells(values=np.maximum(level_codes, 0), missing=level_codes < 0)


KINDS: Mapping[str, Callable[..., Column]] = MappingProxyType(
    {column.kind: column for column in (Continuous, Binary, Categorical, Duration, Weight, Offset)}
)
"""The kinds of column by name."""
_signature = cache(inspect.signature)  # each kind's is read once


def column_of(entry: Mapping[str, object]) -> Column:
    """Read a declaration that `Column.to_dict` wrote or a custodian typed; unknown entries are refused.

    Levels must be text here: YAML reads an unquoted ``no`` as false and ``010`` as eight.
    """
    if not isinstance(entry, Mapping):
        raise SchemaError("a column is declared by entries such as 'kind: binary'")
    arguments = dict(entry)
    name = str(arguments.pop("kind", None))
    kind = KINDS.get(name)
    if kind is None:
        raise SchemaError(f"kind must be one of {', '.join(KINDS)}", kinds=tuple(KINDS))
    for argument in ("levels", "labels"):
        texts = arguments.get(argument) or []
        if not isinstance(texts, list | tuple) or not all(isinstance(label, str) for label in texts):
            raise SchemaError(f"{argument} must be a list of texts; put each one in quotes")
    try:
        _signature(kind).bind(**arguments)
    except TypeError as error:
        raise SchemaError(f"a {name} column cannot be read: {error}") from None
    return kind(**arguments)
