"""The words of a formula: text to tokens, with every limit on size checked before anything reads them.

`read_settings` reads the settings of a call, ``mean=50, sd=10`` or ``knots=[40, 60]``: numbers, known in advance.
"""

import keyword
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import final

from hdpstats._base.errors import FormulaError
from hdpstats.formulas.operations import LARGEST, refusal

LONGEST_FORMULA = 2000
MOST_OPERATORS = 250
DEEPEST_PARENTHESES = 20

_PLAIN = r"[A-Za-z_]\w*(?:\.[A-Za-z0-9]\w*)*"
_TOKEN = re.compile(
    rf"""(?P<blank>[ \t\r\n]+|(?:survival|splines|stats|base|rms)::)
    |(?P<quoted>`[^`\x00-\x1f\x7f]{{1,200}}`)
    |(?P<patsy>Q\([ ]*(?:"[^"\x00-\x1f\x7f]{{1,200}}"|'[^'\x00-\x1f\x7f]{{1,200}}')[ ]*\))
    |(?P<text>"[^"\x00-\x1f\x7f]{{0,200}}"|'[^'\x00-\x1f\x7f]{{0,200}}')
    |(?P<foreign>::)
    |(?P<dot>\.(?![\w.]))
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<name>{_PLAIN})
    |(?P<operator>\*\*|==|!=|<=|>=|[-+*/^:~(),=\[\]<>])""",
    re.VERBOSE | re.ASCII,
)
_FOREIGN = re.compile(r"""[0-9][\w.]*|%[^%]{0,20}%|\.[\w.]*|"[^"]*"|'[^']*'|[!-~]|[^ -~]+""", re.ASCII)

_ALPHABET = "a formula is made of column names, numbers, + - * / : ^ and parentheses"
COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")
BAR = (
    "join the terms by +; people with several rows are declared by the study, Study(unit=, max_rows_per_unit=), and a "
    "fit allows for their correlation; curves by group are survfit of Surv(time, event) ~ group, a description by "
    "group describe(..., by=)"
)
"""What there is in the place of ``(1 | id)`` and of ``~ age | arm``."""
_REMEDIES = {
    ":": "write the bare name of the function; survival::, splines::, rms::, stats:: and base:: are read",
    "|": BAR,
    "%": "write a:b for an interaction",
    "$": "write the bare name of the column",
    '"': "close the quotes around one level",
    "'": "close the quotes around one level",
    "`": "close the backticks around one column name",
    "[": "a formula has no subscripts; declare the column that you need",
    "]": "a formula has no subscripts; declare the column that you need",
    "{": "write arithmetic inside I( )",
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A word of a formula.

    Attributes
    ----------
    kind : str
        ``"name"``, ``"number"``, ``"text"``, ``"operator"``, ``"dot"`` for all other columns, or ``"foreign"`` for what
        no formula holds.
    text : str
        The name without backticks, the digits, the text without quotes, or the operator; ``^`` stands for itself.
    spelled : str
        How the word is written back: names that are not plain words keep their backticks.
    """

    kind: str
    text: str
    spelled: str

    @property
    def operator(self) -> str:
        """The operator, and an empty text for everything else."""
        return self.text if self.kind == "operator" else ""


END = Token(kind="operator", text="end of the formula", spelled="end of the formula")


def tokenize(text: str) -> tuple[Token, ...]:
    """Return the words of a formula; what is no word becomes a foreign token, which no rule takes.

    Raises
    ------
    FormulaError
        If the text is longer than 2000 characters, has more than 250 operators, or has parentheses that are
        not balanced or more than 20 deep.
    """
    if len(text) > LONGEST_FORMULA:
        raise refusal(
            "formula",
            f"it has {len(text)} characters",
            f"at most {LONGEST_FORMULA} are read; give fewer terms",
        )
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position) or _FOREIGN.match(text, position)
        if match is None:
            raise refusal("formula", "it cannot be read", "write it as y ~ x + z")
        position = match.end()
        if match.lastgroup != "blank":
            tokens.append(_token(match.lastgroup or "foreign", match.group()))
    _check_size(tokens)
    return tuple(tokens)


def quoted(name: str) -> str:
    """Return the name of a column as a formula has it: in backticks unless it is a plain word.

    >>> quoted("age"), quoted("age at entry")
    ('age', '`age at entry`')
    """
    plain = re.fullmatch(_PLAIN, name, re.ASCII) and not keyword.iskeyword(name)
    return name if plain else f"`{name}`"


def literal(value: str) -> str:
    """Return a text as a formula has it, in quotes.

    >>> print(literal("Lev+5FU"), literal('5" or more'))
    "Lev+5FU" '5" or more'
    """
    return f"'{value}'" if '"' in value else f'"{value}"'


def spell(tokens: Sequence[Token]) -> str:
    """Return the text of some tokens with canonical spacing: ``I(x^2 + 1)``, ``scale(x, mean=3, sd=2)``."""
    pieces: list[str] = []
    after_operand = False
    for token in tokens:
        binary = after_operand and token.operator in ("+", "-", "*", "/", "~", *COMPARISONS)
        pieces.append(f" {token.text} " if binary else ", " if token.operator == "," else token.spelled)
        after_operand = token.operator in ("", ")", "]")
    return "".join(pieces)


@final
class Cursor:
    """A place in a sequence of tokens, which readers move forward."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self.position = 0

    def peek(self, ahead: int = 0) -> Token:
        """Return the next token, or a later one, without moving; `END` after the last one."""
        place = self.position + ahead
        return self._tokens[place] if place < len(self._tokens) else END

    def next(self) -> Token:
        """Return the next token and move past it."""
        self.position += 1
        return self._tokens[self.position - 1] if self.position <= len(self._tokens) else END

    def take(self, *operators: str) -> str:
        """Move past the next token if it is one of the operators, and return it, else an empty text."""
        return self.next().text if self.peek().operator in operators else ""

    def spelled_since(self, start: int) -> str:
        """Return the canonical text of the tokens from a position up to here."""
        return spell(self.tokens_since(start))

    def tokens_since(self, start: int) -> tuple[Token, ...]:
        """Return the tokens from a position up to here."""
        return tuple(self._tokens[start : self.position])

    def misplaced(self, remedy: str) -> FormulaError:
        """Return the error that the next token cannot stand here; a foreign one can stand nowhere."""
        token = self.peek()
        if token.kind == "foreign" or token.operator in ("[", "]"):
            return _foreign(token.text)
        if token.operator in COMPARISONS:
            return refusal(token.spelled, "a comparison is no term", "write it inside I( ), as in I(age > 50)")
        if token.kind == "text":
            remedy = 'write I(x == "level") or C(x, Treatment("level")); column names stand bare or in backticks'
            return refusal(token.spelled, "a text is the name of a level, not of a column", remedy)
        if token.kind == "dot":
            return refusal(".", "it stands for all other columns, and only as a term", "name the columns one by one")
        before = self._tokens[self.position - 1].spelled if self.position else "~"
        return refusal(token.spelled, f"it cannot follow {before}", remedy)


def _token(kind: str, written: str) -> Token:
    if kind == "text":
        inside = written[1:-1]
        as_kind = "text" if inside.isprintable() else "foreign"
        return Token(kind=as_kind, text=inside, spelled=literal(inside))
    if kind in ("quoted", "patsy"):
        name = written[1:-1] if kind == "quoted" else written[2:-1].strip()[1:-1]
        if not name.isprintable():
            return Token(kind="foreign", text=written, spelled=written)
        return Token(kind="name", text=name, spelled=quoted(name))
    if kind == "name" and keyword.iskeyword(written):
        return Token(kind="foreign", text=written, spelled=written)
    return Token(kind=kind, text=written, spelled=written)


def _foreign(piece: str) -> FormulaError:
    if not piece.isascii() or not piece.isprintable():
        remedy = "use plain letters, and backticks around a column name with other letters"
        return refusal(ascii(piece)[1:-1], "a formula is written in plain ASCII", remedy)
    if keyword.iskeyword(piece):
        return refusal(piece, "it is a word of Python, not of a formula", f"a column of that name is `{piece}`")
    if piece[0].isdigit():
        return refusal(piece, "it is neither a number nor a name", "write numbers as 2, 0.5 or 1e3")
    if piece[0] == "." and len(piece) > 1:
        return refusal(piece, "a name has no such part", "put a column name with odd characters in backticks")
    return refusal(piece, "it has no meaning in a formula", _REMEDIES.get(piece[0], _ALPHABET))


def _check_size(tokens: Sequence[Token]) -> None:
    operators = sum(token.operator in ("+", "-", "*", "**", "/", "^", ":") for token in tokens)
    if operators > MOST_OPERATORS:
        raise refusal("formula", f"it has {operators} operators", f"at most {MOST_OPERATORS} are read")
    depth = 0
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.operator, 0)
        if depth < 0:
            raise refusal(")", "it closes a parenthesis that was not opened", "remove it")
        if depth > DEEPEST_PARENTHESES:
            raise refusal("(", f"parentheses are more than {DEEPEST_PARENTHESES} deep", "write the terms out")
    if depth:
        raise refusal("(", "a parenthesis is not closed", "add )")


_CLOSING = {"(": ")", "[": "]"}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CallSettings:
    """The settings that a call gives.

    Attributes
    ----------
    given : mapping of str to tuple of float
        One or several numbers per setting.
    source : str
        The text of the call.
    remedy : str
        How such a call is written.
    tokens : tuple of Token
        The words of the call.
    places : mapping of str to range
        Where each setting that has a name stands among the words, with the comma before it.
    """

    given: Mapping[str, tuple[float, ...]]
    source: str
    remedy: str
    tokens: tuple[Token, ...]
    places: Mapping[str, range]

    def without(self, *names: str) -> str:
        """Return the text of the call without some of its settings; one that has no name in the call stays."""
        dropped = {place for name in names for place in self.places.get(name, ())}
        return spell([token for place, token in enumerate(self.tokens) if place not in dropped])

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


def read_settings(
    cursor: Cursor, *, start: int, names: Collection[str], first: Sequence[str] = (), remedy: str
) -> CallSettings:
    """Read ``, name=number`` or ``, name=[number, …]`` as often as it comes, and the parenthesis that closes the call.

    Lists may stand in ``[ ]``, in ``( )`` or, as in R, in ``c( )``.

    Parameters
    ----------
    start : int
        The position of the cursor where the call began.
    names : collection of str
        The settings of the function.
    first : sequence of str
        What the first setting is where it has no name: a number, as in ``bs(x, 4)``, and a list, as in
        ``rcs(x, c(40, 50, 60))``. Where they are fewer such a setting needs a name.
    remedy : str
        How a call is written.

    Raises
    ------
    FormulaError
        If a setting is unknown, given twice, or anything but numbers.
    """
    given: dict[str, tuple[float, ...]] = {}
    places: dict[str, range] = {}
    while cursor.take(","):
        begin = cursor.position - 1 - start
        unnamed = _unnamed(cursor, () if given else first)
        name = unnamed or _name(cursor, names, remedy)
        if name in given:
            raise refusal(f"{name}=", "it is given twice", remedy)
        given[name] = _numbers(cursor, name, remedy)
        if not unnamed:
            places[name] = range(begin, cursor.position - start)
    if not cursor.take(")"):
        raise cursor.misplaced("write ) or an operator there")
    return CallSettings(
        given=MappingProxyType(given),
        source=cursor.spelled_since(start),
        remedy=remedy,
        tokens=cursor.tokens_since(start),
        places=MappingProxyType(places),
    )


def read_number(cursor: Cursor) -> float:
    """Read an unsigned number of at most 1e150."""
    token = cursor.next()
    value = float(token.text)
    if not value <= LARGEST:
        raise refusal(token.text, "the number is too large", f"numbers go up to {LARGEST:g}")
    return value


def _unnamed(cursor: Cursor, first: Sequence[str]) -> str:
    """Return what a setting without a name is; empty where it has one."""
    token = cursor.peek()
    is_list = token.operator in _CLOSING or (token.text, cursor.peek(1).operator) == ("c", "(")
    place = 1 if is_list else 0
    return first[place] if (is_list or token.kind == "number") and place < len(first) else ""


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
