"""The words of a formula: text to tokens, with every limit on size checked before anything reads them."""

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from hdpstats._base.errors import FormulaError
from hdpstats.formulas.refusals import refusal

LONGEST_FORMULA = 2000
MOST_OPERATORS = 250
DEEPEST_PARENTHESES = 20

_PLAIN = r"[A-Za-z_]\w*(?:\.[A-Za-z0-9]\w*)*"
_TOKEN = re.compile(
    rf"""(?P<blank>[ \t\r\n]+)
    |(?P<quoted>`[^`\x00-\x1f\x7f]{{1,200}}`)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<name>{_PLAIN})
    |(?P<operator>\*\*|[-+*/^:~(),=\[\]])""",
    re.VERBOSE | re.ASCII,
)
_FOREIGN = re.compile(r"""[0-9][\w.]*|%[^%]{0,20}%|\.[\w.]*|"[^"]*"|'[^']*'|[!-~]|[^ -~]+""", re.ASCII)

_ALPHABET = "a formula is made of column names, numbers, + - * / : ^ and parentheses"
_REMEDIES = {
    ".": "name the columns one by one",
    "|": "a formula has one right-hand side; join the terms by +",
    "%": "write a:b for an interaction",
    "$": "write the bare name of the column",
    '"': "write column names bare, or in backticks; a formula holds no texts",
    "'": "write column names bare, or in backticks; a formula holds no texts",
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
        ``"name"``, ``"number"``, ``"operator"``, or ``"foreign"`` for what no formula holds.
    text : str
        The name without backticks, the digits, or the operator; ``^`` stands for itself.
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


def spell(tokens: Sequence[Token]) -> str:
    """Return the text of some tokens with canonical spacing: ``I(x^2 + 1)``, ``scale(x, mean=3, sd=2)``."""
    pieces: list[str] = []
    after_operand = False
    for token in tokens:
        binary = after_operand and token.operator in ("+", "-", "*", "/", "~")
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
        token = self.peek()
        self.position += 1
        return token

    def take(self, *operators: str) -> str:
        """Move past the next token if it is one of the operators, and return it, else an empty text."""
        return self.next().text if self.peek().operator in operators else ""

    def spelled_since(self, start: int) -> str:
        """Return the canonical text of the tokens from a position up to here."""
        return spell(self._tokens[start : self.position])

    def misplaced(self, remedy: str) -> FormulaError:
        """Return the error that the next token cannot stand here; a foreign one can stand nowhere."""
        token = self.peek()
        if token.kind == "foreign" or token.operator in ("[", "]"):
            return _foreign(token.text)
        before = self._tokens[self.position - 1].spelled if self.position else "~"
        return refusal(token.spelled, f"it cannot follow {before}", remedy)


def _token(kind: str, written: str) -> Token:
    if kind == "quoted":
        name = written[1:-1]
        if not name.isprintable():
            return Token(kind="foreign", text=written, spelled=written)
        plain = re.fullmatch(_PLAIN, name, re.ASCII) and not keyword.iskeyword(name)
        return Token(kind="name", text=name, spelled=name if plain else written)
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
