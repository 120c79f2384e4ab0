"""From the text of linear constraints, ``"size[T.>50] - size[T.20-50] = 0, age = 0.1"``, to a matrix and values.

formulaic reads the algebra. As for formulas (`hdpstats.formulas.parser`) it is handed placeholders, numbers and
operators, never the user's text: a name such as ``bs(age, df=4)[1]`` holds signs that mean something else in algebra.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray

_NUMBER: Final = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_LONGEST_SHOWN: Final = 40
_LONGEST: Final = 10_000


def read_constraints(text: str, names: Sequence[str]) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Return the matrix ``L`` (k, p), the values ``q`` (k,) and the texts of constraints ``L beta = q``.

    Constraints are separated by commas; without ``=`` one says that its sum is 0.

    Parameters
    ----------
    text : str
        The constraints: names of coefficients, numbers, ``+ - * / ( ) =``.
    names : sequence of str
        What the coefficients are called.

    Raises
    ------
    ArgumentError
        If it cannot be read, names no coefficient, or has two ``=`` in one constraint.

    Examples
    --------
    >>> L, q, texts = read_constraints("size[T.b] - size[T.a] = 0, age = 0.1", ["size[T.a]", "size[T.b]", "age"])
    >>> L.tolist(), q.tolist(), texts
    ([[-1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [0.0, 0.1], ('size[T.b] - size[T.a] = 0', 'age = 0.1'))
    """
    from formulaic.errors import FormulaicError  # which takes long to load
    from formulaic.utils.constraints import LinearConstraints

    if len(text) > _LONGEST:
        raise _unreadable(text, f"it has more than {_LONGEST} characters")
    parts = _split(_tokens(text, names))
    placeholders = [f"v{place}" for place in range(len(names))]
    rows, values = [], []
    for tokens, own in parts:
        if not tokens:
            raise _unreadable(text, "a constraint is empty")
        if tokens.count("=") > 1:
            raise _unreadable(own, "it has two =; write two constraints, separated by a comma")
        try:
            found = LinearConstraints.from_spec(_difference(tokens), variable_names=placeholders)
        except (FormulaicError, RuntimeError, KeyError, ValueError, ZeroDivisionError, TypeError):
            raise _unreadable(own, "it is no sum of coefficients times numbers") from None
        row = np.asarray(found.constraint_matrix, dtype=np.float64)
        if row.shape != (1, len(names)) or not row.any() or not np.isfinite(row).all():
            raise _unreadable(own, "it names no coefficient that would remain")
        rows.append(row[0])
        values.append(float(found.constraint_values[0]))
    return np.array(rows), np.array(values), tuple(own for _, own in parts)


def _difference(tokens: Sequence[str]) -> str:
    """Return left minus right, as formulaic reads no sign after ``=``."""
    left, equals, right = " ".join(tokens).partition("=")
    return f"( {left} ) - ( {right} )" if equals else left


def _tokens(text: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the text in pieces, each with what formulaic is given for it; spaces stand for nothing."""
    places = {name: f"v{place}" for place, name in enumerate(names)}
    longest = sorted(places, key=len, reverse=True)
    known = "|".join(re.escape(name) + (r"(?!\w)" if re.match(r"\w", name[-1]) else "") for name in longest)
    pattern = re.compile(rf"(?P<name>{known})|(?P<number>{_NUMBER})|(?P<sign>[-+*/()=,])|(?P<space>\s+)")
    tokens, at = [], 0
    while at < len(text):
        match = pattern.match(text, at)
        if match is None:
            raise _unknown(text[at:], names)
        piece = match.group()
        given = {"name": places.get(piece, ""), "number": _plain(piece), "sign": piece, "space": ""}
        tokens.append((piece, given[str(match.lastgroup)]))
        at = match.end()
    return tokens


def _plain(number: str) -> str:
    """Return a number without an exponent, which formulaic does not read."""
    try:
        return np.format_float_positional(float(number), trim="-")
    except ValueError:
        return ""


def _split(tokens: Sequence[tuple[str, str]]) -> list[tuple[list[str], str]]:
    """Return the tokens and the text of each constraint."""
    parts: list[tuple[list[str], str]] = [([], "")]
    for piece, given in tokens:
        if given == ",":
            parts.append(([], ""))
        else:
            given_so_far, text = parts[-1]
            parts[-1] = ([*given_so_far, given] if given else given_so_far, text + piece)
    return [(given, text.strip()) for given, text in parts]


def _unknown(rest: str, names: Sequence[str]) -> ArgumentError:
    word = re.split(r"[\s=,]", rest, maxsplit=1)[0]
    close = [name for name in names if name.startswith(word)] or get_close_matches(word, list(names), n=1)
    listed = ", ".join(names[:20])
    remedy = f"did you mean {' or '.join(close[:20])}?" if close else f"the coefficients are {listed}"
    return ArgumentError(
        f"constraints: there is no coefficient {word[:_LONGEST_SHOWN]!r}; {remedy}", argument="r_matrix"
    )


def _unreadable(text: str, reason: str) -> ArgumentError:
    shown = text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."
    return ArgumentError(
        f"constraints: {shown!r} cannot be read: {reason}; write for example 'a - b = 0, c = 0'", argument="r_matrix"
    )
