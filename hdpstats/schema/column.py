"""What all kinds of column have in common: the map of cells, missing ones, and bounds."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import SchemaError
from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats._base.validation import real, text, truth
from hdpstats.records.codec import Json
from hdpstats.schema import coerce

LARGEST_BOUND = 1e12
_NARROWEST = 1e-12
SHORTEST = _NARROWEST**2
"""The shortest horizon, and the smallest largest weight."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Cells:
    """The cells of a column after its total map.

    Attributes
    ----------
    values : float64 or int64 array (n,)
        Numbers within the bounds, or codes of declared levels; where a cell is missing, the lower bound or 0, which
        stand for nothing.
    missing : bool array (n,)
        Which cells are missing.
    """

    values: Any
    missing: BoolArray

    def __repr__(self) -> str:
        return "<admitted cells>"


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
        return self._admitted(self.numbers(cells))

    def numbers(self, cells: "pd.Series[Any]") -> FloatArray:
        """Return the number in each cell, not clipped, and NaN where there is none of this kind."""
        return coerce.numbers(cells)

    def stored(self, cells: Any) -> FloatArray:
        """Return the doubles in the cells of a file, which are not to be written to; `numbers` are made of each."""
        return self.numbers(cells)

    def _admitted(self, numbers: FloatArray) -> Cells:
        absent = np.isnan(numbers)
        values = np.where(absent, self.fill, numbers)
        np.clip(values, self.lower, self.upper, out=values)
        values += 0.0  # turns -0.0 into 0.0
        return Cells(
            values=values,
            missing=absent if self.missing is None else np.zeros_like(absent),
        )


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
