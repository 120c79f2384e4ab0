"""Factors that are categories, or have a part beside the terms: ``C(x, …)``, ``relevel(…)``, ``cut(…)``, ``offset(x)``.

Levels and ends of intervals are written in the formula or come from the schema: nothing is learned from rows.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from hdpstats._base.errors import FormulaError
from hdpstats.formulas.expressions import Categories, Cut, Expression, LevelIs, Number, Operation, Role
from hdpstats.formulas.lexer import Cursor, read_number
from hdpstats.formulas.operations import Interval, refusal

CATEGORICAL = ("C", "factor", "as.factor")
ROLES = ("offset", "strata", "cluster")
MOST_BREAKS = 50

T = TypeVar("T")

_TRUE, _FALSE = ("TRUE", "True", "T"), ("FALSE", "False", "F")
_CUT_REMEDY = (
    "write cut(x, c(0, 50, 60, 100)), with the ends of all intervals, of which the outer ones may be -Inf and Inf"
)
_ANY_CONTRAST = "contrasts of any kind follow from its coefficients, by t_test and at no cost"


def read_categories(cursor: Cursor) -> Categories:
    """Read ``C(x)``, ``factor(x)``, ``C(x, Treatment("b"))``."""
    start = cursor.position
    function, _, column = cursor.next().text, cursor.next(), cursor.next()
    if column.kind != "name" or cursor.peek().operator not in (")", ","):
        raise refusal(f"{function}()", "only a column of the schema has levels", f"write {function}(column)")
    reference = ""
    if cursor.take(","):
        if cursor.peek().text not in ("Treatment", "contr.treatment"):
            raise _levels_come_from_the_schema(function, column.spelled, cursor.peek().text)
        reference = _treatment(cursor, column.spelled)
    if not cursor.take(")"):
        raise cursor.misplaced("write )")
    return Categories(name=column.text, reference=reference, source=cursor.spelled_since(start))


def _levels_come_from_the_schema(function: str, column: str, setting: str) -> FormulaError:
    shown = f"{function}({column}, ...)"
    if setting in ("Sum", "Helmert", "Diff", "Poly", "contr.sum", "contr.helmert", "contr.poly"):
        return refusal(shown, f"{setting} is no coding that is read", f"write {function}({column}); {_ANY_CONTRAST}")
    remedy = f'write {function}({column}), or C({column}, Treatment("level")) for another reference level'
    return refusal(shown, "levels come from the schema", remedy)


def read_relevel(cursor: Cursor) -> Categories:
    """Read R's ``relevel(x, ref="b")``, also with ``factor(x)`` in it."""
    start = cursor.position
    remedy = 'write relevel(x, ref="level")'
    cursor.next()
    cursor.take("(")
    inner = cursor.peek()
    column = read_categories(cursor).name if inner.text in CATEGORICAL else cursor.next().text
    if inner.kind != "name" or not cursor.take(","):
        raise refusal("relevel()", "it needs a column and its level", remedy)
    if cursor.peek().text == "ref" and cursor.peek(1).operator == "=":
        cursor.next(), cursor.next()
    reference = _level(cursor, "relevel()", remedy)
    if not cursor.take(")"):
        raise refusal("relevel()", "it needs a column and its level", remedy)
    return Categories(name=column, reference=reference, source=cursor.spelled_since(start))


def _treatment(cursor: Cursor, column: str) -> str:
    """Read ``Treatment("b")`` and return the level; without one the first."""
    function = cursor.next().text
    remedy = f'write C({column}, Treatment("level"))'
    if not cursor.take("("):
        return ""
    if cursor.take(")"):
        return ""
    if cursor.peek().text == "reference" and cursor.peek(1).operator == "=":
        cursor.next(), cursor.next()
    if function != "Treatment":
        raise refusal(f"{function}()", "levels are named, not counted", remedy)
    level = _level(cursor, function, remedy)
    if not cursor.take(")"):
        raise refusal(f"{function}()", "it has one level", remedy)
    return level


def _level(cursor: Cursor, piece: str, remedy: str) -> str:
    token = cursor.next()
    if token.kind not in ("text", "number"):
        raise refusal(piece, "the level is a text in quotes", remedy)
    return token.text


def read_level_is(cursor: Cursor) -> LevelIs | None:
    """Read ``I(x == "b")`` if that is what comes, and nothing else."""
    ahead = [cursor.peek(place) for place in range(6)]
    if ahead[0].text != "I" or ahead[2].kind != "name" or ahead[4].kind != "text":
        return None
    if ahead[3].operator == "!=" and ahead[5].operator == ")":
        same = f"I({ahead[2].spelled} == {ahead[4].spelled})"
        raise refusal(f"I({ahead[2].spelled} != {ahead[4].spelled})", "it is one less its opposite", f"write {same}")
    if ahead[3].operator != "==" or ahead[5].operator != ")":
        return None
    start = cursor.position
    for _ in range(6):
        cursor.next()
    return LevelIs(name=ahead[2].text, level=ahead[4].text, source=cursor.spelled_since(start))


def read_role(cursor: Cursor) -> Role:
    """Read ``offset(x)``, ``strata(x)`` or ``cluster(x)``."""
    start = cursor.position
    role, _, column = cursor.next().text, cursor.next(), cursor.next()
    if column.kind != "name" or not cursor.take(")"):
        remedy = f"declare what stands there as a column of its own, and write {role}(column)"
        raise refusal(
            f"{role}()", "it takes the name of one column, whose bounds or levels the schema declares", remedy
        )
    return Role(role=role, name=column.text, source=cursor.spelled_since(start))


def read_cut(cursor: Cursor, operand: Expression, start: int) -> Cut:
    """Read the rest of ``cut(x, c(0, 50, 60), right=TRUE, include.lowest=FALSE, labels=c("young", "old"))``."""
    breaks: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
    flags = {"right": True, "include.lowest": False}
    while cursor.take(","):
        name = "breaks"
        if cursor.peek().kind == "name" and cursor.peek(1).operator == "=":
            name = cursor.next().text
            cursor.take("=")
        if name == "breaks" and not breaks:
            breaks = _breaks(cursor)
        elif name in flags:
            flags[name] = _truth(cursor)
        elif name == "labels" and not labels:
            labels = _labels(cursor)
        else:
            raise refusal(f"{name}=", "the function has no such setting, or it is given twice", _CUT_REMEDY)
    if not cursor.take(")"):
        raise cursor.misplaced("write ) there")
    source = cursor.spelled_since(start)
    if len(breaks) < 3 or any(a == b for a, b in itertools.pairwise(breaks)):
        reason = "it needs the ends of at least two intervals, each once: a number of intervals would be cut by rows"
        raise refusal(source, reason, _CUT_REMEDY)
    if labels and (len(labels) != len(breaks) - 1 or len(set(labels)) < len(labels)):
        raise refusal(source, f"it has {len(breaks) - 1} intervals and {len(labels)} labels", "give each its own label")
    return Cut(
        operand=operand,
        breaks=breaks,
        right=flags["right"],
        lowest=flags["include.lowest"],
        labels=labels,
        source=source,
    )


def _breaks(cursor: Cursor) -> tuple[float, ...]:
    numbers = sorted(_listed(cursor, _break, "a number"))
    if len(numbers) > MOST_BREAKS:
        raise refusal("cut()", f"it has {len(numbers)} breaks", f"at most {MOST_BREAKS} are read")
    return tuple(numbers)


def _break(cursor: Cursor) -> float | None:
    sign = -1.0 if cursor.take("-") else 1.0
    if cursor.peek().kind == "number":
        return sign * read_number(cursor)
    return sign * math.inf if cursor.next().text in ("Inf", "inf") else None


def _labels(cursor: Cursor) -> tuple[str, ...]:
    return tuple(_listed(cursor, lambda at: at.next().text if at.peek().kind == "text" else None, "a text in quotes"))


def _listed(cursor: Cursor, read: Callable[[Cursor], T | None], what: str) -> list[T]:
    """Read a list in ``c( )``, ``( )`` or ``[ ]``."""
    if (cursor.peek().text, cursor.peek(1).operator) == ("c", "("):
        cursor.next()
    closing = {"(": ")", "[": "]"}.get(cursor.take("(", "["), "")
    values: list[T] = []
    while closing and (not values or cursor.take(",")):
        value = read(cursor)
        if value is None:
            break
        values.append(value)
    if not closing or not cursor.take(closing):
        raise refusal("cut()", f"a list there has {what} between commas, in c( )", _CUT_REMEDY)
    return values


def _truth(cursor: Cursor) -> bool:
    word = cursor.next().text
    if word not in _TRUE + _FALSE:
        raise refusal("cut()", "its switches are TRUE or FALSE", _CUT_REMEDY)
    return word in _TRUE


def interval_names(cut: Cut) -> tuple[str, ...]:
    """Return the names that R's ``cut`` gives the intervals: ends with three digits, or more where they would agree.

    >>> age = Number(value=0.0, source="age")
    >>> interval_names(Cut(operand=age, breaks=(0, 50, 1000), right=True, lowest=True, labels=(), source=""))
    ('[0,50]', '(50,1e+03]')
    """
    if cut.labels:
        return cut.labels
    written: Sequence[str] = ()
    for digits in range(3, 13):
        written = [_end(value, digits) for value in cut.breaks]
        if all(a != b for a, b in itertools.pairwise(written)):
            break
    opening, closing = ("(", "]") if cut.right else ("[", ")")
    names = [f"{opening}{a},{b}{closing}" for a, b in itertools.pairwise(written)]
    if cut.lowest and cut.right:
        names[0] = f"[{names[0][1:]}"
    elif cut.lowest:
        names[-1] = f"{names[-1][:-1]}]"
    return tuple(names)


def _end(value: float, digits: int) -> str:
    """Return a number as R's ``formatC`` writes it; infinity has a blank in place of its sign."""
    return f"{value:.{digits}g}" if math.isfinite(value) else (" Inf" if value > 0 else "-Inf")


def interval_indicators(cut: Cut, image: Interval) -> tuple[Expression, ...]:
    """Return the indicator of every interval, given the bounds of what is cut: differences of comparisons with ends.

    Raises
    ------
    FormulaError
        If the schema admits a value in none of the intervals, which R would make missing.
    """
    first, last = cut.breaks[0], cut.breaks[-1]
    below = image.lower < first or (cut.right and not cut.lowest and image.lower == first)
    above = image.upper > last or (not cut.right and not cut.lowest and image.upper == last)
    if below or above:
        beyond = image.lower if below else image.upper
        reason = f"the schema lets {cut.operand.source} be {beyond:.6g}, which lies in none of its intervals"
        raise refusal(cut.source, reason, "add -Inf and Inf, or include.lowest=TRUE where it is an end")
    rule = ">" if cut.right else ">="
    above_end = [
        Operation(rule=rule, operands=(cut.operand, Number(value=end, source=f"{end:g}")), source=cut.source)
        for end in cut.breaks[1:-1]
    ]
    one = Number(value=1.0, source="1")
    steps: list[Expression] = [one, *above_end]
    inner = [
        Operation(rule="-", operands=(before, after), source=cut.source) for before, after in itertools.pairwise(steps)
    ]
    return (*inner, above_end[-1])
