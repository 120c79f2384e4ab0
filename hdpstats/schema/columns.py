"""Kinds of column: what the custodian declares about a column before any cell is read.

A declaration fixes everything that would otherwise be learned from private rows: bounds, levels, the horizon,
and the value that a missing entry takes. Each kind has one total map, ``admit``, from cells to numbers within
the bounds or to codes of declared levels (see `hdpstats.schema.coerce`).
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from itertools import islice
from types import MappingProxyType
from typing import Any, ClassVar, final

import numpy as np
import pandas as pd

from hdpstats._base.canonical import Json
from hdpstats._base.errors import SchemaError
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats._base.validation import integer, real, text
from hdpstats.schema import coerce

LARGEST_BOUND = 1e12
MOST_LEVELS = 1000
LONGEST_LEVEL = 1000
_NARROWEST = 1e-12
_SHORTEST = _NARROWEST**2


class Column(ABC):
    """A declared column. ``kind`` names it in a data dictionary."""

    __slots__ = ()
    kind: ClassVar[str]

    @abstractmethod
    def admit(self, cells: "pd.Series[Any]") -> FloatArray | IntArray:
        """Map every cell to a declared value. Never raises or warns, and maps each cell on its own."""

    @final
    def to_dict(self) -> dict[str, Json]:
        """Return the declaration as plain data."""
        entry: dict[str, Json] = {"kind": self.kind}
        for declared in fields(self):  # type: ignore[arg-type]  # every kind is a dataclass
            if declared.init:
                value = getattr(self, declared.name)
                entry[declared.name] = list(value) if isinstance(value, tuple) else value
        return entry

    @final
    @staticmethod
    def from_dict(entry: Mapping[str, object]) -> "Column":
        """Read a declaration that `to_dict` wrote or a custodian typed; unknown entries are refused.

        Levels must be text here: YAML reads an unquoted ``no`` as false and ``010`` as eight.
        """
        if not isinstance(entry, Mapping):
            raise SchemaError("a column is declared by entries such as 'kind: binary'")
        arguments = dict(entry)
        name = str(arguments.pop("kind", None))
        kind = KINDS.get(name)
        if kind is None:
            raise SchemaError(f"kind must be one of {', '.join(KINDS)}", kinds=tuple(KINDS))
        levels = arguments.get("levels", [])
        if not isinstance(levels, list | tuple) or not all(isinstance(level, str) for level in levels):
            raise SchemaError("levels must be a list of texts; put each level in quotes")
        try:
            inspect.signature(kind).bind(**arguments)
        except TypeError as error:
            raise SchemaError(f"a {name} column cannot be read: {error}") from None
        return kind(**arguments)


class NumericColumn(Column):
    """A column of numbers in [``lower``, ``upper``]; a private entry that is no number takes ``missing``."""

    __slots__ = ()
    lower: float
    upper: float
    missing: float

    def admit(self, cells: "pd.Series[Any]") -> FloatArray:
        """Return the numbers clipped to the bounds, each cell on its own; what is no number takes ``missing``."""
        return coerce.bounded(cells, lower=self.lower, upper=self.upper, missing=self.missing)


def _set(column: Column, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(column, name, value)


def _interval(lower: object, upper: object) -> tuple[float, float]:
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


def _missing(value: object, default: float, lower: float, upper: float) -> float:
    return default if value is None else real(value, name="missing", lower=lower, upper=upper)


@final
@dataclass(frozen=True, slots=True, init=False)
class Continuous(NumericColumn):
    """A measurement between two declared bounds.

    Parameters
    ----------
    lower, upper : number
        Bounds in the column's unit; values beyond them are clipped.
    missing : number, optional
        The value that a missing private entry takes; the midpoint of the bounds by default.

    Raises
    ------
    ArgumentError
        If a bound is not a finite number of at most 1e12 in size, or ``missing`` lies outside the bounds.
    SchemaError
        If the bounds are equal, reversed or too close to compute with.

    Examples
    --------
    >>> Continuous(20, 90).admit(pd.Series([35, 120, None]))
    array([35., 90., 55.])
    """

    kind: ClassVar[str] = "continuous"
    lower: float
    upper: float
    missing: float

    def __init__(self, lower: object, upper: object, *, missing: object = None) -> None:
        low, high = _interval(lower, upper)
        _set(self, lower=low, upper=high, missing=_missing(missing, low + (high - low) / 2, low, high))


@final
@dataclass(frozen=True, slots=True, init=False)
class Binary(NumericColumn):
    """A column of zeros and ones: 1, true and the text "1" are 1, every other number is 0.

    Parameters
    ----------
    missing : 0 or 1
        The value that a private entry takes when it holds no number.

    Examples
    --------
    >>> Binary().admit(pd.Series([1, 0, "1", 2, None], dtype=object))
    array([1., 0., 1., 0., 0.])
    """

    kind: ClassVar[str] = "binary"
    missing: float
    lower: float = field(init=False, repr=False)
    upper: float = field(init=False, repr=False)

    def __init__(self, *, missing: object = 0) -> None:
        _set(self, missing=float(integer(missing, name="missing", lower=0, upper=1)), lower=0.0, upper=1.0)

    def admit(self, cells: "pd.Series[Any]") -> FloatArray:
        """Return 1 where a cell equals 1, ``missing`` where it holds no number, 0 elsewhere."""
        return coerce.binary(cells, missing=self.missing)


@final
@dataclass(frozen=True, slots=True, init=False)
class Duration(NumericColumn):
    """A time since the start of follow-up, between 0 and the declared horizon.

    What a private cell becomes: a number in [0, horizon] itself; a negative one 0; a longer one (infinity too) the
    horizon, and `beyond` is true there, so that a survival model takes it as censored at the horizon whatever the
    event; NaN, None, dates and text that is no number ``missing``, which is a time like any other: with an event, the
    event counts at ``missing``. Survival models take a time of 0 as one in the first interval, and a row that stops
    no later than it starts as no follow-up at all.

    Parameters
    ----------
    horizon : number
        The longest follow-up that is analysed, positive. Public rows may go beyond it; they are cut there as well.
    unit : str, optional
        The unit of time, for tables and axes.
    missing : number, optional
        The time that a missing private entry takes; the horizon by default (for entry times, give 0).

    Examples
    --------
    >>> Duration(horizon=2557, unit="days").admit(pd.Series([365.0, 4000.0, -1.0, None]))
    array([ 365., 2557.,    0., 2557.])
    """

    kind: ClassVar[str] = "duration"
    horizon: float
    unit: str | None
    missing: float
    lower: float = field(init=False, repr=False)
    upper: float = field(init=False, repr=False)

    def __init__(self, horizon: object, unit: object = None, *, missing: object = None) -> None:
        end = real(horizon, name="horizon", lower=_SHORTEST, upper=LARGEST_BOUND)
        name = None if unit is None else text(unit, name="unit", longest=100)
        _set(self, horizon=end, unit=name, missing=_missing(missing, end, 0.0, end), lower=0.0, upper=end)

    def beyond(self, cells: "pd.Series[Any]") -> BoolArray:
        """Return where a cell holds a number beyond the horizon; each cell on its own, without raising or warning."""
        return np.asarray(coerce.numbers(cells) > self.horizon)


@final
@dataclass(frozen=True, slots=True, init=False)
class Weight(NumericColumn):
    """A case weight between 0 and a declared maximum.

    Parameters
    ----------
    max : number
        The largest weight that one person can have, positive; larger weights are clipped to it.
    missing : number, optional
        The weight that a missing private entry takes; 1 by default, or ``max`` where that is smaller.

    Examples
    --------
    >>> Weight(max=5).admit(pd.Series([0.5, 7.0, -1.0, None]))
    array([0.5, 5. , 0. , 1. ])
    """

    kind: ClassVar[str] = "weight"
    max: float
    missing: float
    lower: float = field(init=False, repr=False)
    upper: float = field(init=False, repr=False)

    def __init__(self, max: object, *, missing: object = None) -> None:  # noqa: A002  (the contract's name)
        most = real(max, name="max", lower=_SHORTEST, upper=LARGEST_BOUND)
        default = 1.0 if most > 1.0 else most
        _set(self, max=most, missing=_missing(missing, default, 0.0, most), lower=0.0, upper=most)


@final
@dataclass(frozen=True, slots=True, init=False)
class Offset(NumericColumn):
    """A known term of the linear predictor, between two declared bounds.

    Parameters
    ----------
    lower, upper : number
        Bounds on the scale of the linear predictor; values beyond them are clipped.
    missing : number, optional
        The value that a missing private entry takes; 0 by default, or the bound nearest to 0.

    Examples
    --------
    >>> Offset(-2, 2).admit(pd.Series([0.3, -5.0, None]))
    array([ 0.3, -2. ,  0. ])
    """

    kind: ClassVar[str] = "offset"
    lower: float
    upper: float
    missing: float

    def __init__(self, lower: object, upper: object, *, missing: object = None) -> None:
        low, high = _interval(lower, upper)
        nearest = low if low > 0.0 else min(high, 0.0)
        _set(self, lower=low, upper=high, missing=_missing(missing, nearest, low, high))


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


@final
@dataclass(frozen=True, slots=True, init=False)
class Categorical(Column):
    """A column of declared levels, the first of which is the reference.

    A cell belongs to a level when its text is the same, code point by code point: nothing is trimmed,
    case-folded or normalised. The numbers 3 and 3.0 have the text "3". The categories that a pandas
    categorical column carries of its own play no part.

    Parameters
    ----------
    levels : list of str
        2 to 1000 different texts; whole numbers and truth values are taken as their text.
    other : str, optional
        The level that an unknown or missing private cell takes; the reference by default.

    Raises
    ------
    SchemaError
        If levels are repeated, too few or too many, or ``other`` is not one of them.

    Examples
    --------
    >>> size = Categorical(["<=20", "20-50", ">50"])
    >>> size.admit(pd.Series([">50", "20-50", "unknown", None]))
    array([2, 1, 0, 0])
    """

    kind: ClassVar[str] = "categorical"
    levels: tuple[str, ...]
    other: str

    def __init__(self, levels: object, *, other: object = None) -> None:
        declared = _levels(levels)
        fallback = declared[0] if other is None else _level(other)
        if fallback not in declared:
            raise SchemaError(f"other must be one of the levels, not {fallback!r}", other=fallback, levels=declared)
        _set(self, levels=declared, other=fallback)

    def admit(self, cells: "pd.Series[Any]") -> IntArray:
        """Return the code of each cell's level (0: the reference), that of ``other`` where it is none."""
        return coerce.codes(cells, levels=self.levels, other=self.other)


KINDS: Mapping[str, Callable[..., Column]] = MappingProxyType(
    {column.kind: column for column in (Continuous, Binary, Categorical, Duration, Weight, Offset)}
)
"""The kinds of column by name."""
