"""The settings of a call in a formula, ``mean=50, sd=10`` or ``knots=[40, 60]``: numbers, known in advance."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import final

from hdpstats._base.errors import FormulaError
from hdpstats.formulas.intervals import LARGEST
from hdpstats.formulas.lexer import Cursor
from hdpstats.formulas.refusals import refusal

_CLOSING = {"(": ")", "[": "]"}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings that a call gives.

    Attributes
    ----------
    given : mapping of str to tuple of float
        One or several numbers per setting.
    source : str
        The text of the call.
    remedy : str
        How such a call is written.
    """

    given: Mapping[str, tuple[float, ...]]
    source: str
    remedy: str

    def refusal(self, reason: str) -> FormulaError:
        """Return the error that the call cannot be meant so."""
        return refusal(self.source, reason, self.remedy)

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """Return the numbers of a setting; None if it is not given."""
        return self.given.get(name)

    def number(self, *names: str) -> float | None:
        """Return the number of a setting that goes by one of several names; None if it is not given.

        Raises
        ------
        FormulaError
            If two of the names are given, or several numbers.
        """
        given = [name for name in names if name in self.given]
        if len(given) > 1:
            raise self.refusal(f"{given[0]} and {given[1]} are the same setting")
        if given and len(self.given[given[0]]) > 1:
            raise self.refusal(f"{given[0]} is one number")
        return self.given[given[0]][0] if given else None

    def whole(self, name: str, *, lower: int, upper: int) -> int | None:
        """Return the whole number of a setting; None if it is not given.

        Raises
        ------
        FormulaError
            If it is not a whole number from ``lower`` to ``upper``.
        """
        value = self.number(name)
        if value is None:
            return None
        if not value.is_integer() or not lower <= value <= upper:
            raise self.refusal(f"{name} must be a whole number from {lower} to {upper}")
        return int(value)


def read_settings(cursor: Cursor, *, start: int, names: Collection[str], first: str = "", remedy: str) -> Settings:
    """Read ``, name=number`` or ``, name=[number, …]`` as often as it comes, and the parenthesis that closes the call.

    Lists may stand in ``[ ]``, in ``( )`` or, as in R, in ``c( )``.

    Parameters
    ----------
    start : int
        The position of the cursor where the call began.
    names : collection of str
        The settings of the function.
    first : str
        What the first number is where it has no name, as in ``bs(x, 4)``; empty if it needs one.
    remedy : str
        How a call is written.

    Raises
    ------
    FormulaError
        If a setting is unknown, given twice, or anything but numbers.
    """
    given: dict[str, tuple[float, ...]] = {}
    while cursor.take(","):
        unnamed = first and not given and cursor.peek().kind == "number"
        name = first if unnamed else _name(cursor, names, remedy)
        if name in given:
            raise refusal(f"{name}=", "it is given twice", remedy)
        given[name] = _numbers(cursor, name, remedy)
    if not cursor.take(")"):
        raise cursor.misplaced("write ) or an operator there")
    return Settings(given=MappingProxyType(given), source=cursor.spelled_since(start), remedy=remedy)


def read_number(cursor: Cursor) -> float:
    """Read an unsigned number of at most 1e150."""
    token = cursor.next()
    value = float(token.text)
    if not value <= LARGEST:
        raise refusal(token.text, "the number is too large", f"numbers go up to {LARGEST:g}")
    return value


def _name(cursor: Cursor, names: Collection[str], remedy: str) -> str:
    token = cursor.next()
    if token.kind != "name" or token.text not in names or not cursor.take("="):
        raise refusal(token.spelled, "the function has no such setting", remedy)
    return token.text


def _numbers(cursor: Cursor, name: str, remedy: str) -> tuple[float, ...]:
    """Read one number or a list of them."""
    start = cursor.position
    if (cursor.peek().text, cursor.peek(1).operator) == ("c", "("):
        cursor.next()
    closing = _CLOSING.get(cursor.take("(", "["), "")
    numbers = [_signed(cursor, start, name, remedy)]
    while closing and cursor.take(","):
        numbers.append(_signed(cursor, start, name, remedy))
    if (closing and not cursor.take(closing)) or cursor.peek().operator not in (",", ")"):
        raise _not_known(cursor, start, name, remedy)
    return tuple(numbers)


def _signed(cursor: Cursor, start: int, name: str, remedy: str) -> float:
    sign = -1.0 if cursor.take("-") else 1.0
    if cursor.peek().kind != "number":
        raise _not_known(cursor, start, name, remedy)
    return sign * read_number(cursor)


def _not_known(cursor: Cursor, start: int, name: str, remedy: str) -> FormulaError:
    cursor.next()
    reason = "a setting is made of numbers that are known before any row is read"
    return refusal(f"{name}={cursor.spelled_since(start).rstrip()}", reason, remedy)
