"""The right-hand side of a formula as Wilkinson algebra over numbered placeholders.

``age + C(size)*log(x) - 1`` becomes ``1 + v0 + v1 * v2 - 1`` with the factors ``age``, ``C(size)``,
``log(x)``. What comes out holds nothing but ``1``, placeholders, operators and parentheses, is well formed,
and expands to a bounded number of terms.
"""

from collections.abc import Sequence
from typing import final

from hdpstats.formulas.expressions import Factor
from hdpstats.formulas.grammar import read_exponent, read_factor
from hdpstats.formulas.lexer import END, Cursor, Token
from hdpstats.formulas.refusals import refusal

MOST_PRODUCTS = 2000


def read_algebra(tokens: Sequence[Token]) -> tuple[str, tuple[Factor, ...]]:
    """Return the algebra over placeholders ``v0, v1, …`` and the factors they stand for.

    Factors that mean the same, such as ``C(x)`` and ``factor(x)``, share a placeholder.

    Raises
    ------
    FormulaError
        If the tokens are no formula, or could expand to more than 2000 products.
    """
    return _Reader(tokens).read()


@final
class _Reader:
    """A recursive-descent reader; each method returns a text and a bound on the number of its terms."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._cursor = Cursor(tokens)
        self._placeholders: dict[Factor, int] = {}

    def read(self) -> tuple[str, tuple[Factor, ...]]:
        if self._cursor.peek() is END:
            return "1", ()
        text, _ = self._sum(top=True)
        if self._cursor.peek() is not END:
            raise self._cursor.misplaced("write + between terms")
        return text, tuple(self._placeholders)

    def _sum(self, *, top: bool) -> tuple[str, int]:
        sign = self._cursor.take("+", "-") or "+"
        if sign == "-" and self._cursor.peek().kind != "number":
            raise refusal("-", "there is no term to take away from", "write - after the terms")
        text, size = ("1", 1) if top else ("", 0)
        while sign:
            if self._cursor.peek().kind == "number":
                sign, summand, more = self._intercept(sign, top=top)
            else:
                summand, more = self._product()
            text = f"{text} {sign} {summand}" if text else summand
            size += more
            sign = self._cursor.take("+", "-")
        return text, size

    def _intercept(self, sign: str, *, top: bool) -> tuple[str, str, int]:
        number = self._cursor.next().text
        alone = self._cursor.peek() is END or self._cursor.peek().operator in ("+", "-")
        if number not in ("0", "1") or not alone or not top:
            reason = "the only numbers between terms are 1 and 0, alone and outside parentheses, for the intercept"
            raise refusal(number, reason, "write arithmetic inside I( ), such as I(2 * x)")
        if number == "0":
            sign = "-" if sign == "+" else "+"
        return sign, "1", 1

    def _product(self) -> tuple[str, int]:
        text, size = self._power()
        while operator := self._cursor.take("*", "/", ":"):
            right, more = self._power()
            text = f"{text} {operator} {right}"
            size = size * more if operator == ":" else size + more + size * more
            _check_size(size)
        return text, size

    def _power(self) -> tuple[str, int]:
        text, size = self._atom()
        if not self._cursor.take("^", "**"):
            return text, size
        exponent = read_exponent(self._cursor)
        _check_size(size**exponent)
        return f"{text}**{exponent}", size**exponent

    def _atom(self) -> tuple[str, int]:
        if self._cursor.take("("):
            text, size = self._sum(top=False)
            if not self._cursor.take(")"):
                raise self._cursor.misplaced("write + between terms")
            return f"({text})", size
        if self._cursor.peek().kind != "name":
            raise self._cursor.misplaced("write a column, a function of columns or parentheses there")
        factor = read_factor(self._cursor)
        return f"v{self._placeholders.setdefault(factor, len(self._placeholders))}", 1


def _check_size(size: int) -> None:
    if size > MOST_PRODUCTS:
        raise refusal("formula", f"it expands to up to {size} terms", "write out the terms that you need")
