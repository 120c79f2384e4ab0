"""From the words of one factor, such as ``log(x + 1)`` or ``C(size)``, to an expression.

::

    factor   = name | "C" "(" name ")" | call | basis
    sum      = product (("+" | "-") product)*
    product  = signed (("*" | "/") signed)*
    signed   = ["-" | "+"] power
    power    = primary [("^" | "**") 1…4]
    primary  = number | name | call | "(" sum ")"
    call     = function "(" sum ")"
             | "scale" "(" sum "," "mean" "=" number "," "sd" "=" number ")"
    basis    = ("bs" | "ns" | "poly") "(" sum ("," setting)* ")"
    setting  = [name "="] (number | "[" number ("," number)* "]")

What the grammar cannot say cannot be asked: there are no attributes, subscripts, texts, comparisons, and no
functions but those of `hdpstats.formulas.operations`.
"""

from hdpstats.formulas.bases import CENTRE, REMEDIES, SETTINGS, SPREAD, basis_of
from hdpstats.formulas.expressions import Basis, Categories, Expression, Factor, Number, Operation, Variable, columns_of
from hdpstats.formulas.lexer import Cursor, read_number, read_settings
from hdpstats.formulas.operations import FUNCTIONS, LARGEST_EXPONENT
from hdpstats.formulas.refusals import function_refusal, refusal

_CATEGORICAL = ("C", "factor")
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
        return _column(cursor)
    if name.text in _CATEGORICAL:
        return _categories(cursor)
    expression = _basis(cursor) if name.text in SETTINGS else _call(cursor)
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


def _categories(cursor: Cursor) -> Categories:
    start = cursor.position
    function, _, column = cursor.next().text, cursor.next(), cursor.next()
    if column.kind != "name" or cursor.peek().operator not in (")", ","):
        raise refusal(f"{function}()", "only a column of the schema has levels", f"write {function}(column)")
    if cursor.next().operator == ",":
        remedy = f"write {function}({column.spelled}); the first declared level is the reference"
        raise refusal(f"{function}({column.spelled}, ...)", "levels come from the schema", remedy)
    return Categories(name=column.text, source=cursor.spelled_since(start))


def _call(cursor: Cursor) -> Operation:
    start = cursor.position
    name = cursor.next().text
    if name in _CATEGORICAL:
        raise refusal(f"{name}()", "a level is not a number", f"write {name}(column) on its own, as in a:C(b)")
    if name in SETTINGS:
        raise refusal(f"{name}()", "it makes several columns", f"write {name}( ) on its own, as in a:{name}( )")
    if name != "scale" and name not in FUNCTIONS:
        raise function_refusal(name)
    cursor.take("(")
    argument = _sum(cursor)
    if name == "scale":
        return _scale(cursor, argument, start)
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
    first = "degree" if function == "poly" else "df"
    names, remedy = SETTINGS[function], REMEDIES[function]
    return basis_of(function, argument, read_settings(cursor, start=start, names=names, first=first, remedy=remedy))


def _sum(cursor: Cursor) -> Expression:
    start = cursor.position
    left = _product(cursor)
    while sign := cursor.take("+", "-"):
        operands = (left, _product(cursor))
        left = Operation(rule=sign, operands=operands, source=cursor.spelled_since(start))
    return left


def _product(cursor: Cursor) -> Expression:
    start = cursor.position
    left = _signed(cursor)
    while sign := cursor.take("*", "/"):
        operands = (left, _signed(cursor))
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
    inner = _sum(cursor)
    _close(cursor)
    return inner


def _number(cursor: Cursor) -> Number:
    spelled = cursor.peek().spelled
    return Number(value=read_number(cursor), source=spelled)


def _close(cursor: Cursor) -> None:
    if not cursor.take(")"):
        raise cursor.misplaced("write ) or an operator there")
