"""One validator for every argument that is a number, a name or a choice.

Comparisons are written in the positive form ``lower < x < upper``, which NaN fails, and booleans are refused
as numbers. Each function returns the value in the type the package computes with.
"""

import math
import re
from collections.abc import Collection
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Number, Rational, Real

import numpy as np

from hdpstats._base.errors import ArgumentError, MechanismError

_FRACTION = re.compile(r"-?[0-9]{1,2000}(/[0-9]{1,2000})?")


def shown(value: object) -> str:
    """Return a value as a message may quote it: of a table or a column, which may hold anybody's cells, the type."""
    plain = value is None or isinstance(value, str | Number | type)
    words = repr(value) if plain else f"of type {type(value).__name__}"
    return words if len(words) <= 60 else words[:57] + "..."


def printable(words: str) -> str:
    r"""Return a text with what cannot be printed written out: no text of others moves a cursor or forges a line.

    >>> printable("a\x1b[2Jb\nc\u202ed")
    'a\\x1b[2Jb\\nc\\u202ed'
    """
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in words)


def _refuse(name: str, value: object, expected: str) -> ArgumentError:
    return ArgumentError(f"{name} must be {expected}, not {shown(value)}", argument=name, expected=expected)


def exact(value: object, *, name: str) -> Fraction:
    """Return the exact rational a user means: 0.1 is 1/10 (floats are read through their shortest decimal form).

    Booleans, strings, NaN, infinities, complex numbers and arrays are refused.
    """
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        raise _refuse(name, value, "a number")
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, Integral):
        return Fraction(int(value))
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise _refuse(name, value, "a finite number")
        return Fraction(value)
    if isinstance(value, Real) and not hasattr(value, "__len__"):
        if not math.isfinite(value):
            raise _refuse(name, value, "a finite number")
        return Fraction(Decimal(str(value)))
    raise _refuse(name, value, "a number")


def real(
    value: object,
    *,
    name: str,
    lower: float = -math.inf,
    upper: float = math.inf,
    open_lower: bool = False,
    open_upper: bool = False,
) -> float:
    """Return a finite float within the stated interval, or raise an ArgumentError that names the argument."""
    number = float(exact(value, name=name))
    above = lower < number if open_lower else lower <= number
    below = number < upper if open_upper else number <= upper
    if not (above and below and math.isfinite(number)):
        left, right = ("(" if open_lower else "["), (")" if open_upper else "]")
        raise _refuse(name, value, f"a number in {left}{lower:g}, {upper:g}{right}")
    return number


def integer(value: object, *, name: str, lower: int, upper: int) -> int:
    """Return an int within [lower, upper]; booleans and fractional numbers are refused."""
    number = exact(value, name=name)
    if number.denominator != 1 or not lower <= number <= upper:
        raise _refuse(name, value, f"a whole number from {lower} to {upper}")
    return int(number)


def truth(value: object, *, name: str) -> bool:
    """Return a truth value, or raise an `ArgumentError` that names the argument."""
    if not isinstance(value, bool | np.bool_):
        raise _refuse(name, value, "True or False")
    return bool(value)


def text(value: object, *, name: str, longest: int = 10_000) -> str:
    """Return a non-empty string of at most ``longest`` characters."""
    if not isinstance(value, str):
        raise _refuse(name, value, "a string")
    if not 0 < len(value) <= longest:
        raise ArgumentError(f"{name} must have 1 to {longest} characters, not {len(value)}", argument=name)
    return value


def choice(value: object, *, name: str, options: Collection[str]) -> str:
    """Return ``value`` if it is one of the options."""
    if not isinstance(value, str) or value not in options:
        raise _refuse(name, value, "one of " + ", ".join(repr(option) for option in options))
    return value


def rational(value: str, *, name: str) -> Fraction:
    """Read a fraction as ``str(Fraction)`` writes it into ledgers and queries, and nothing else: no '1e999'."""
    if not (isinstance(value, str) and _FRACTION.fullmatch(value)):
        raise _refuse(name, value, "a fraction such as '1/10'")
    try:
        return Fraction(value)
    except ZeroDivisionError:
        raise _refuse(name, value, "a fraction such as '1/10'") from None


def check_size(what: str, size: int, most: int, *, remedy: str) -> None:
    """Refuse what is larger than its public limit, with the remedy.

    Parameters
    ----------
    what
        What is counted, in the plural.
    size, most
        How many there are, and how many there may be.
    remedy
        What to do instead.
    """
    if size > most:
        raise MechanismError(f"a query may have at most {most} {what}, not {size}; {remedy}", size=size, most=most)
