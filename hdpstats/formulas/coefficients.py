"""Coefficients by their names: as R has them, and in linear constraints.

**In R.** ``Intercept`` is ``(Intercept)``, ``size[T.>50]`` is ``size>50``, ``ns(age, df=4)[2]`` is ``ns(age, df =
4)2``. The factors of a term stand in the order in which the formula first names them, which Python's need not.

**Constraints**, such as ``"size[T.>50] - size[T.20-50] = 0, age = 0.1"``, become a matrix and values. formulaic reads
the algebra. As for formulas (`hdpstats.formulas.parser`) it is handed placeholders, numbers and operators, never the
user's text: a name such as ``bs(age, df=4)[1]`` holds signs that mean something else in algebra.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.formulas.coding import Category, boxes_of, dummy_coded, is_comparison, reading_of
from hdpstats.formulas.compiler import compile_terms, covariates_of
from hdpstats.formulas.expressions import Factor, Variable
from hdpstats.formulas.lexer import tokenize
from hdpstats.formulas.parser import ParsedFormula, Term, parse, parse_survival, read_algebra
from hdpstats.schema.columns import Binary
from hdpstats.schema.schema import Schema

_PLAIN: Final = re.compile(r"`((?:[^\W\d_]|\.(?!\d))[\w.]*)`")
_SPELLING: Final = (
    (re.compile(r"(?<=\w)=(?=[^=])"), " = "),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"\[([^\[\]]*)\]"), r"c(\1)"),
)
_SURVIVAL: Final = re.compile(r"\s*(survival::)?Surv\s*\(")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixColumn:
    """A column of a design in R.

    Attributes
    ----------
    name : str
        Its name in R.
    term : int
        The number of the term it belongs to, 0 for the intercept.
    place : tuple of int
        Where it stands among the term's columns, the last number first: R lets the factor that the formula names first
        change fastest, Python the one that the term names first.
    """

    name: str
    term: int
    place: tuple[int, ...] = ()


def parsed(formula: str, schema: Schema) -> ParsedFormula:
    """Return a formula whose outcome is a column or ``Surv(…)``; ``.`` stands for the schema's other columns."""
    if _SURVIVAL.match(formula):
        return parse_survival(formula, covariates_of(schema, times=False))
    return parse(formula, covariates_of(schema))


def columns_in_r(formula: str, schema: Schema) -> dict[str, MatrixColumn]:
    """Return the columns of a formula's design by their names in Python, in Python's order."""
    whole = parsed(formula, schema)
    by_name: dict[str, MatrixColumn] = {}
    if whole.intercept:
        by_name["Intercept"] = MatrixColumn(name="(Intercept)", term=0)
    others = [name for name in covariates_of(schema) if whole.left is None or name not in whole.left.columns]
    _, variables = read_algebra(tokenize(formula.partition("~")[2]), others)
    columns, contrasts = compile_terms(whole, schema).columns, _contrasts(whole, schema)
    for number, (term, labels) in enumerate(zip(whole.terms, contrasts, strict=True), start=1):
        names = [column.name for column in columns if column.term == term.source]
        by_name |= _columns_of_term(names, term, number, labels, variables)
    return by_name


def _columns_of_term(
    names: Sequence[str], term: Term, number: int, labels: Mapping[Factor, str], variables: Sequence[Factor]
) -> dict[str, MatrixColumn]:
    """Return the columns of a term: its factors stand in the order of the formula's variables, as in R."""
    order = sorted(range(len(term.factors)), key=lambda place: variables.index(term.factors[place]))
    split = [_suffixes(name, term) for name in names]
    distinct = [list(dict.fromkeys(suffixes_of)) for suffixes_of in zip(*split, strict=True)]
    columns: dict[str, MatrixColumn] = {}
    for name, suffixes in zip(names, split, strict=True):
        parts = [_part_in_r(factor, suffix, labels) for factor, suffix in zip(term.factors, suffixes, strict=True)]
        place = tuple(distinct[factor].index(suffixes[factor]) for factor in reversed(order))
        columns[name] = MatrixColumn(name=":".join(parts[factor] for factor in order), term=number, place=place)
    return columns


def _contrasts(whole: ParsedFormula, schema: Schema) -> list[dict[Factor, str]]:
    """Return, for each term, the binary columns of texts, numbers here, that R codes by a contrast: the text of 1."""
    boxes = dict(boxes_of(whole, schema))
    factors = {factor for term in whole.terms for factor in term.factors}
    categories = {factor for factor in factors if isinstance(reading_of(factor, schema, boxes), Category)}
    labels = {factor: second for factor in factors - categories if (second := _second_value(factor, schema))}
    coded = dummy_coded(
        [term.factors for term in whole.terms],
        categorical=lambda factor: factor in categories or factor in labels,
        intercept=whole.intercept,
    )
    return [{factor: label for factor, label in labels.items() if factor not in dummies} for dummies in coded]


def _second_value(factor: Factor, schema: Schema) -> str:
    """Return the text of 1 of a binary column that is read as a number; "" for anything else."""
    column = schema[factor.name] if isinstance(factor, Variable) else None
    return column.labels[1] if isinstance(column, Binary) and column.labels is not None else ""


def _suffixes(name: str, term: Term) -> list[str]:
    """Return what follows each factor's text in the name of a column: ``[T.level]``, ``[2]``, or nothing."""
    pieces: list[str] = []
    for place, factor in enumerate(term.factors):
        after = f":{term.factors[place + 1].source}" if place + 1 < len(term.factors) else ""
        suffix, name = _suffix(name.removeprefix(factor.source), after)
        pieces.append(suffix)
    return pieces


def _part_in_r(factor: Factor, suffix: str, labels: Mapping[Factor, str]) -> str:
    """Return a factor as R writes it, followed by its level or by the number of its column."""
    level = _level(suffix) if suffix else labels.get(factor, "")
    return in_r(factor.source) + (level.upper() if is_comparison(factor) else level)


def in_r(source: str) -> str:
    """Return a factor as R writes it.

    >>> in_r("bs(age, knots=[40, 60])"), in_r("I(age**2)"), in_r("`größe`"), in_r("`a b`")
    ('bs(age, knots = c(40, 60))', 'I(age^2)', 'größe', '`a b`')
    """
    text = _PLAIN.sub(r"\1", source)
    for pattern, written in _SPELLING:
        text = pattern.sub(written, text)
    return text


def _suffix(rest: str, after: str) -> tuple[str, str]:
    """Return what follows a factor's text in brackets, if anything, and what follows the colon behind it."""
    if not after:
        return rest, ""
    if not rest.startswith("["):
        return "", rest[1:]
    end = rest.index(f"]{after}") + 1
    return rest[:end], rest[end + 1 :]


def _level(suffix: str) -> str:
    """Return the level of ``[T.level]``, or what else stands in brackets."""
    return suffix.removeprefix("[").removesuffix("]").removeprefix("T.")


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
    for tokens, constraint in parts:
        if not tokens:
            raise _unreadable(text, "a constraint is empty")
        if tokens.count("=") > 1:
            raise _unreadable(constraint, "it has two =; write two constraints, separated by a comma")
        try:
            constraints = LinearConstraints.from_spec(_difference(tokens), variable_names=placeholders)
        except (FormulaicError, RuntimeError, KeyError, ValueError, ZeroDivisionError, TypeError):
            raise _unreadable(constraint, "it is no sum of coefficients times numbers") from None
        row = np.asarray(constraints.constraint_matrix, dtype=np.float64)
        if row.shape != (1, len(names)) or not row.any() or not np.isfinite(row).all():
            raise _unreadable(constraint, "it names no coefficient that would remain")
        rows.append(row[0])
        values.append(float(constraints.constraint_values[0]))
    return np.array(rows), np.array(values), tuple(constraint for _, constraint in parts)


def _difference(tokens: Sequence[str]) -> str:
    """Return left minus right, as formulaic reads no sign after ``=``."""
    left, equals, right = " ".join(tokens).partition("=")
    return f"( {left} ) - ( {right} )" if equals else left


def _tokens(text: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the text in pieces, each with what formulaic is given for it; spaces stand for nothing."""
    places = {name: f"v{place}" for place, name in enumerate(names)}
    longest = sorted(places, key=len, reverse=True)
    alternatives = "|".join(re.escape(name) + (r"(?!\w)" if re.match(r"\w", name[-1]) else "") for name in longest)
    pattern = re.compile(rf"(?P<name>{alternatives})|(?P<number>{_NUMBER})|(?P<sign>[-+*/()=,])|(?P<space>\s+)")
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
