"""From the words of one factor, such as ``log(x + 1)`` or ``C(size)``, to an expression.

::

    factor   = name | "C" "(" name ["," "Treatment" "(" text ")"] ")" | "I" "(" name "==" text ")" | cut | call | basis
    cut      = "cut" "(" sum "," numbers ("," setting)* ")"
    compared = sum [("==" | "!=" | "<" | "<=" | ">" | ">=") sum]
    sum      = product (("+" | "-") product)*
    product  = signed (("*" | "/") signed)*
    signed   = ["-" | "+"] power
    power    = primary [("^" | "**") 1…4]
    primary  = number | name | call | "(" compared ")"
    call     = function "(" sum ")" | "I" "(" compared ")" | ("pmax" | "pmin") "(" sum "," sum ")"
             | "scale" "(" sum "," "mean" "=" number "," "sd" "=" number ")"
    basis    = ("bs" | "ns" | "rcs" | "poly") "(" sum ("," setting)* ")"
    setting  = [name "="] (number | "[" number ("," number)* "]")

One side of a comparison is a number, known before any row is read. What the grammar cannot say cannot be asked: there
are no attributes, no subscripts, no texts but names of levels, and no functions but those of
`hdpstats.formulas.operations`.
"""

from collections.abc import Callable

from hdpstats.formulas.bases import CENTRE, FIRST, REMEDIES, SETTINGS, SPREAD, basis_of
from hdpstats.formulas.expressions import Basis, Cut, Expression, Factor, Number, Operation, Variable, columns_of
from hdpstats.formulas.levels import (
    CATEGORICAL,
    ROLES,
    read_categories,
    read_cut,
    read_level_is,
    read_relevel,
    read_role,
)
from hdpstats.formulas.lexer import COMPARISONS, Cursor, read_number, read_settings
from hdpstats.formulas.operations import FUNCTIONS, LARGEST_EXPONENT, PAIRED, function_refusal, refusal

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""What a comparison becomes where its sides change places."""

_EXPONENTS = tuple(str(exponent) for exponent in range(1, LARGEST_EXPONENT + 1))
_SCALE_REMEDY = "write scale(x, mean=50, sd=10), with numbers from public rows or the literature"


def read_factor(cursor: Cursor) -> Factor:
    """Read a factor, which begins with a name.

    Raises
    ------
    FormulaError
        If the tokens do not follow the grammar; the error names the first piece that does not.
    """
    name = cursor.peek()
    if cursor.peek(1).operator != "(":
        return Variable(name=cursor.next().text, source=name.spelled)
    if name.text in ROLES:
        return read_role(cursor)
    if name.text in CATEGORICAL:
        return read_categories(cursor)
    if name.text == "relevel":
        return read_relevel(cursor)
    level = read_level_is(cursor)
    if level is not None:
        return level
    expression = _cut(cursor) if name.text == "cut" else _basis(cursor) if name.text in SETTINGS else _call(cursor)
    if not any(columns_of(expression)):
        raise refusal(expression.source, "it has no column in it", "leave it out; the intercept is written 1")
    return expression


def read_exponent(cursor: Cursor) -> int:
    """Read the whole number from 1 to 4 that may follow ``^`` or ``**``."""
    token = cursor.next()
    if token.kind != "number" or token.text not in _EXPONENTS:
        remedy = f"write a whole number from 1 to {LARGEST_EXPONENT} after ^"
        raise refusal(f"^{token.spelled}", "such a power is not read", remedy)
    if cursor.peek().operator in ("^", "**"):
        raise refusal("^", "a power of a power is ambiguous", "use parentheses")
    return int(token.text)


def _column(cursor: Cursor) -> Variable:
    token = cursor.next()
    return Variable(name=token.text, source=token.spelled)


def _cut(cursor: Cursor) -> Cut:
    start = cursor.position
    cursor.next()
    cursor.take("(")
    return read_cut(cursor, _sum(cursor), start)


def _call(cursor: Cursor) -> Operation:
    start = cursor.position
    name = cursor.next().text
    if name in (*CATEGORICAL, "relevel", "cut"):
        raise refusal(f"{name}()", "a level is not a number", f"write {name}( ) on its own, as in a:C(b)")
    if name in ROLES:
        raise refusal(f"{name}()", "it is no part of a term", f"add {name}(column) to the terms by +")
    if name in SETTINGS:
        raise refusal(f"{name}()", "it makes several columns", f"write {name}( ) on its own, as in a:{name}( )")
    if name != "scale" and name not in FUNCTIONS and name not in PAIRED:
        raise function_refusal(name)
    cursor.take("(")
    argument = _comparison(cursor) if name == "I" else _sum(cursor)
    if name == "scale":
        return _scale(cursor, argument, start)
    if name in PAIRED:
        if not cursor.take(","):
            raise refusal(f"{name}()", "it takes two expressions", f"write {name}(x, 50)")
        operands = (argument, _sum(cursor))
        _close(cursor)
        return Operation(rule=name, operands=operands, source=cursor.spelled_since(start))
    if cursor.peek().operator == ",":
        raise refusal(f"{name}()", "it takes one expression and no parameter", f"write {name}(x)")
    _close(cursor)
    return Operation(rule=name, operands=(argument,), source=cursor.spelled_since(start))


def _scale(cursor: Cursor, argument: Expression, start: int) -> Operation:
    settings = read_settings(cursor, start=start, names=CENTRE + SPREAD, remedy=_SCALE_REMEDY)
    centre, spread = settings.number(*CENTRE), settings.number(*SPREAD)
    if centre is None or spread is None:
        raise settings.refusal("without both numbers it would learn them from private rows")
    if not spread > 0.0:
        raise settings.refusal("sd must be above 0")
    source = settings.source
    centred = Operation(rule="-", operands=(argument, Number(value=centre, source=f"{centre:g}")), source=source)
    return Operation(rule="/", operands=(centred, Number(value=spread, source=f"{spread:g}")), source=source)


def _basis(cursor: Cursor) -> Basis:
    start = cursor.position
    function = cursor.next().text
    cursor.take("(")
    argument = _sum(cursor)
    names, remedy = SETTINGS[function], REMEDIES[function]
    settings = read_settings(cursor, start=start, names=names, first=FIRST[function], remedy=remedy)
    return basis_of(function, argument, settings)


def _comparison(cursor: Cursor) -> Expression:
    """Read a sum, or its comparison with a number, which is 1 where it holds and else 0."""
    start = cursor.position
    left = _sum(cursor)
    rule = cursor.take(*COMPARISONS)
    if not rule:
        return left
    if cursor.peek().kind == "text":
        reason = "a level is not a number"
        raise refusal(cursor.peek().spelled, reason, 'write I(x == "level") on its own, as in a:I(b == "level")')
    right = _sum(cursor)
    source = cursor.spelled_since(start)
    if cursor.peek().operator in COMPARISONS:
        raise refusal(source, "a comparison has two sides", "multiply two of them: I((x > 1) * (x < 2))")
    if _constant(left) is not None:
        left, right, rule = right, left, MIRRORED.get(rule, rule)
    end = _constant(right)
    if end is None or _constant(left) is not None:
        raise refusal(source, "it compares with something else than one number", "write x > 50, or x - z > 0")
    return Operation(rule=rule, operands=(left, Number(value=end, source=f"{end:g}")), source=source)


def _constant(side: Expression) -> float | None:
    """Return the number that one side of a comparison is, if it is one."""
    if isinstance(side, Number):
        return side.value
    if isinstance(side, Operation) and side.rule == "negative" and isinstance(side.operands[0], Number):
        return -side.operands[0].value
    return None


def _sum(cursor: Cursor) -> Expression:
    return _from_the_left(cursor, _product, "+", "-")


def _product(cursor: Cursor) -> Expression:
    return _from_the_left(cursor, _signed, "*", "/")


def _from_the_left(cursor: Cursor, read: Callable[[Cursor], Expression], *operators: str) -> Expression:
    """Read operands that the operators join, from the left to the right."""
    start = cursor.position
    left = read(cursor)
    while sign := cursor.take(*operators):
        operands = (left, read(cursor))
        left = Operation(rule=sign, operands=operands, source=cursor.spelled_since(start))
    return left


def _signed(cursor: Cursor) -> Expression:
    start = cursor.position
    sign = cursor.take("+", "-")
    operand = _power(cursor)
    if sign != "-":
        return operand
    return Operation(rule="negative", operands=(operand,), source=cursor.spelled_since(start))


def _power(cursor: Cursor) -> Expression:
    start = cursor.position
    base = _primary(cursor)
    if not cursor.take("^", "**"):
        return base
    exponent = read_exponent(cursor)
    return Operation(rule=f"^{exponent}", operands=(base,), source=cursor.spelled_since(start))


def _primary(cursor: Cursor) -> Expression:
    kind = cursor.peek().kind
    if kind == "number":
        return _number(cursor)
    if kind == "name":
        return _call(cursor) if cursor.peek(1).operator == "(" else _column(cursor)
    if not cursor.take("("):
        raise cursor.misplaced("write a column, a number or parentheses there")
    inner = _comparison(cursor)
    _close(cursor)
    return inner


def _number(cursor: Cursor) -> Number:
    spelled = cursor.peek().spelled
    return Number(value=read_number(cursor), source=spelled)


def _close(cursor: Cursor) -> None:
    if not cursor.take(")"):
        raise cursor.misplaced("write ) or an operator there")
