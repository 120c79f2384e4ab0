"""From the text of a formula to its terms.

formulaic expands Wilkinson's algebra (``a*b``, ``(a + b)^2``, ``a/b``, ``- a:b``), and does nothing else: it
is handed a text of placeholders, ``1 + v0 * v1``, never the user's. Its ``Formula`` would evaluate parts of a
left-hand side while parsing. What the placeholders stand for is read by `hdpstats.formulas.grammar`.

``age + C(size)*log(x) - 1`` becomes ``1 + v0 + v1 * v2 - 1`` with the factors ``age``, ``C(size)``,
``log(x)``. What comes out holds nothing but ``1``, placeholders, operators and parentheses, is well formed,
and expands to a bounded number of terms.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from hdpstats._base.errors import FormulaError
from hdpstats.formulas.expressions import Factor, Role, Variable, called, columns_of
from hdpstats.formulas.grammar import read_exponent, read_factor
from hdpstats.formulas.lexer import BAR, END, Cursor, Token, quoted, spell, tokenize
from hdpstats.formulas.operations import refusal

MOST_PRODUCTS = 2000
BASELINE = "the baseline hazard is the intercept of this model"


def read_algebra(tokens: Sequence[Token], others: Sequence[str] = ()) -> tuple[str, tuple[Factor, ...]]:
    """Return the algebra over placeholders ``v0, v1, …`` and the factors they stand for.

    Factors that mean the same, such as ``C(x)`` and ``factor(x)``, share a placeholder. ``.`` stands for the sum of
    some ``others``.

    Raises
    ------
    FormulaError
        If the tokens are no formula, or could expand to more than 2000 products.
    """
    reader = _Reader(tokens, others)
    if reader.cursor.peek() is END:
        return "1", ()
    text, _ = reader.sum(top=True)
    if reader.cursor.peek() is not END:
        raise reader.cursor.misplaced("write + between terms")
    return text, tuple(reader.placeholders)


@final
class _Reader:
    """A recursive-descent reader; each method returns a text and a bound on the number of its terms."""

    def __init__(self, tokens: Sequence[Token], others: Sequence[str]) -> None:
        self.cursor = Cursor(tokens)
        self._others = others
        self.placeholders: dict[Factor, int] = {}

    def sum(self, *, top: bool) -> tuple[str, int]:
        sign = self.cursor.take("+", "-") or "+"
        if sign == "-" and self.cursor.peek().kind != "number":
            raise refusal("-", "there is no term to take away from", "write - after the terms")
        text, size = ("1", 1) if top else ("", 0)
        while sign:
            if self.cursor.peek().kind == "number":
                sign, summand, more = self._intercept(sign, top=top)
            else:
                summand, more = self._product()
            text = f"{text} {sign} {summand}" if text else summand
            size += more
            sign = self.cursor.take("+", "-")
        return text, size

    def _intercept(self, sign: str, *, top: bool) -> tuple[str, str, int]:
        number = self.cursor.next().text
        if self.cursor.peek().text == "|":
            raise refusal(f"({number} | ...)", "random effects are not fitted", BAR)
        alone = self.cursor.peek() is END or self.cursor.peek().operator in ("+", "-")
        if number not in ("0", "1") or not alone or not top:
            reason = "the only numbers between terms are 1 and 0, alone and outside parentheses, for the intercept"
            raise refusal(number, reason, "write arithmetic inside I( ), such as I(2 * x)")
        if number == "0":
            sign = "-" if sign == "+" else "+"
        return sign, "1", 1

    def _product(self) -> tuple[str, int]:
        text, size = self._power()
        while operator := self.cursor.take("*", "/", ":"):
            right, more = self._power()
            text = f"{text} {operator} {right}"
            size = size * more if operator == ":" else size + more + size * more
            _check_size(size)
        return text, size

    def _power(self) -> tuple[str, int]:
        if self.cursor.take("("):
            text, size = self.sum(top=False)
            if not self.cursor.take(")"):
                raise self.cursor.misplaced("write + between terms")
            text = f"({text})"
        elif self.cursor.peek().kind == "dot" and self._others:
            self.cursor.next()
            factors = [Variable(name=name, source=quoted(name)) for name in self._others]
            text, size = f"({' + '.join(map(self._placeholder, factors))})", len(factors)
        elif self.cursor.peek().kind == "name":
            text, size = self._placeholder(read_factor(self.cursor)), 1
        else:
            raise self.cursor.misplaced("write a column, a function of columns or parentheses there")
        if not self.cursor.take("^", "**"):
            return text, size
        exponent = read_exponent(self.cursor)
        _check_size(size**exponent)
        return f"{text}**{exponent}", size**exponent

    def _placeholder(self, factor: Factor) -> str:
        return f"v{self.placeholders.setdefault(factor, len(self.placeholders))}"


def _check_size(size: int) -> None:
    if size > MOST_PRODUCTS:
        raise refusal("formula", f"it expands to up to {size} terms", "write out the terms that you need")


MOST_TERMS = 200


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A product of factors.

    Attributes
    ----------
    factors : tuple of Factor
        The factors in the order in which the formula first multiplies them.
    """

    factors: tuple[Factor, ...]

    @property
    def source(self) -> str:
        """The term as it is written, ``a:log(b)``."""
        return ":".join(factor.source for factor in self.factors)

    @property
    def call(self) -> str:
        """The term with all knots of its splines."""
        return ":".join(map(called, self.factors))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LeftSide:
    """What stands on the left of ``~``: a bare column, or a function of columns.

    Attributes
    ----------
    source : str
        The text with canonical spacing.
    function : str
        The function's name; empty for a bare column.
    columns : tuple of str
        The columns it names.
    level : str
        The level of the last column that counts as an event, as in ``Surv(time, status == 2)``; empty without one.
    """

    source: str
    function: str
    columns: tuple[str, ...]
    level: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedFormula:
    """A formula, read but not yet compared with a schema.

    Attributes
    ----------
    text : str
        The formula as given.
    left : LeftSide or None
        The outcome; None in a one-sided formula.
    terms : tuple of Term
        The terms without the intercept, sorted by degree as R sorts them.
    intercept : bool
        Whether the model has an intercept.
    roles : tuple of Role
        Columns that are no terms: offset, strata and cluster.
    """

    text: str
    left: LeftSide | None
    terms: tuple[Term, ...]
    intercept: bool
    roles: tuple[Role, ...] = ()

    @property
    def response(self) -> str:
        """The outcome's column; empty in a one-sided formula."""
        return "" if self.left is None else self.left.columns[-1]

    @property
    def canonical(self) -> str:
        """The formula with every term written out and canonical spacing: two spellings of one model agree."""
        terms = ["1" if self.intercept else "0", *(term.call for term in self.terms)]
        outcome = "" if self.left is None else f"{self.left.source} "
        return f"{outcome}~ {' + '.join(terms)}"


def plain_outcome(left: LeftSide | None) -> LeftSide:
    """Return the left side if it is a bare column."""
    if left is None:
        raise refusal("~", "the outcome is missing", 'write it on the left: "y ~ x"')
    if left.function:
        raise _no_plain_outcome(left.source)
    return left


def _no_plain_outcome(source: str) -> FormulaError:
    remedy = "write the bare name of a column of the schema on the left of ~"
    if source.startswith("Surv("):
        remedy += (
            "; times are modelled by hazard (dp_hazard in R) with this formula, and their curves are those of survfit "
            "(dp_survfit)"
        )
    return refusal(source, "this model needs a plain outcome column", remedy)


def parse(
    text: object, columns: Sequence[str] = (), *, outcome: Callable[[LeftSide], LeftSide] | None = plain_outcome
) -> ParsedFormula:
    """Read a formula such as ``"y ~ age + log1p(nodes) * C(size)"``.

    R's spellings are read too: ``(a + b)^2``, ``I(x^2)``, ``factor(x)``, ``scale(x, center=50, scale=10)``.
    Names that are no plain words stand in backticks. Nothing is evaluated. The work is bounded: at most 2000
    characters, 250 operators, powers up to 4, parentheses 20 deep, 200 terms. A ``.`` stands for those of ``columns``
    that the left side does not name. ``outcome`` returns the left side that a model reads, or refuses it; with None
    there must be none.

    Raises
    ------
    FormulaError
        If the text is not such a formula, with the facts ``term`` (the offending piece), ``reason`` and
        ``remedy``.

    Examples
    --------
    >>> formula = parse("y ~ a*b - 1")
    >>> [term.source for term in formula.terms], formula.response, formula.intercept
    (['a', 'b', 'a:b'], 'y', False)
    """
    if type(text) is not str:
        raise refusal(type(text).__name__, "a formula is a text", 'write it as "y ~ x + z"')
    tokens = tokenize(text)
    tildes = [index for index, token in enumerate(tokens) if token.operator == "~"]
    if len(tildes) != 1:
        reason = f"it must stand once in a formula, not {len(tildes)} times"
        remedy = (
            'write it before the terms: "~ x + z"' if outcome is None else 'write it between outcome and terms: "y ~ x"'
        )
        raise refusal("~", reason, remedy)
    left = None
    if outcome is not None:
        left = outcome(read_left_side(tokens[: tildes[0]]))
    elif tildes[0] > 0:
        raise no_outcome(spell(tokens[: tildes[0]]))
    others = [name for name in columns if left is None or name not in left.columns]
    whole, intercept = read_right_side(tokens[tildes[0] + 1 :], others)
    terms, roles = _apart(whole)
    if left is not None:
        _check_outcome_is_apart(left, terms)
    if not terms and not intercept:
        raise refusal(spell(tokens), "no term is left", "keep the intercept, as in y ~ 1")
    return ParsedFormula(text=text, left=left, terms=terms, intercept=intercept, roles=roles)


def parse_survival(text: object, columns: Sequence[str] = (), *, intercept: str = BASELINE) -> ParsedFormula:
    """Read a formula such as ``"Surv(time, event) ~ age"`` or ``"Surv(start, stop, event) ~ age"``.

    The right side is read as by `parse`; ``intercept`` says why the intercept cannot be taken away.

    Raises
    ------
    FormulaError
        If the text is not such a formula, or takes the intercept away.

    Examples
    --------
    >>> formula = parse_survival("Surv( start,stop, event) ~ a*b")
    >>> formula.left.columns, formula.canonical
    (('start', 'stop', 'event'), 'Surv(start, stop, event) ~ 1 + a + b + a:b')
    """
    parsed = parse(text, columns, outcome=survival_outcome)
    if not parsed.intercept:
        raise refusal("~ 0", intercept, "leave out 0 and - 1")
    return parsed


def parse_one_sided(text: object, columns: Sequence[str] = ()) -> ParsedFormula:
    """Read a formula without an outcome, such as ``"~ age + C(grade) + size"``; the right side as `parse` does.

    Raises
    ------
    FormulaError
        If the text is not such a formula, or has an outcome.

    Examples
    --------
    >>> parse_one_sided("~ age*grade").canonical
    '~ 1 + age + grade + age:grade'
    """
    return parse(text, columns, outcome=None)


def _apart(terms: Sequence[Term]) -> tuple[tuple[Term, ...], tuple[Role, ...]]:
    """Return the terms, and what beside them has a role of its own."""
    roles = []
    for term in terms:
        for factor in term.factors:
            if isinstance(factor, Role):
                if len(term.factors) > 1:
                    raise refusal(term.source, f"{factor.role} is no part of a term", f"add {factor.source} by +")
                roles.append(factor)
    for role in ("offset", "cluster"):
        several = [column_role for column_role in roles if column_role.role == role]
        if len(several) > 1:
            remedy = "declare their sum as one column" if role == "offset" else "name the column of the study's unit"
            raise refusal(several[1].source, f"a formula has one {role}", remedy)
    return tuple(term for term in terms if not isinstance(term.factors[0], Role)), tuple(roles)


def read_left_side(tokens: Sequence[Token]) -> LeftSide:
    """Return the left side, ``y`` or ``function(a, b)``, whatever the function."""
    source = spell(tokens)
    if not tokens:
        raise refusal("~", "the outcome is missing", 'write it on the left: "y ~ x"')
    kinds = [token.kind if token.kind == "name" else token.text for token in tokens]
    names = tuple(token.text for token in tokens if token.kind == "name")
    if kinds == ["name"]:
        return LeftSide(source=source, function="", columns=names)
    level = ""
    if len(tokens) > 3 and tokens[-3].operator == "==" and tokens[-2].kind in ("text", "number"):
        level, kinds = tokens[-2].text, [*kinds[:-3], kinds[-1]]
    arguments = ["name", *[",", "name"] * (len(names) - 2)]
    if len(names) > 1 and kinds == ["name", "(", *arguments, ")"]:
        return LeftSide(source=source, function=names[0], columns=names[1:], level=level)
    remedy = (
        "write y ~ x, or Surv(time, event) ~ x in a survival model, with bare names of columns; an outcome that is "
        "computed, such as a comparison, is added to the rows as a column and declared"
    )
    raise refusal(source, "the left side is neither a column nor a function of columns", remedy)


def no_outcome(source: str) -> FormulaError:
    """Return the error that a one-sided formula has a left side."""
    return refusal(source, "this formula has no outcome", 'write nothing on the left: "~ age + C(grade)"')


def survival_outcome(left: LeftSide | None) -> LeftSide:
    """Return the left side if it is ``Surv(time, event)`` or ``Surv(start, stop, event)`` with different columns."""
    if left is None:
        raise _no_survival_outcome("~")
    if left.function != "Surv" or len(left.columns) not in (2, 3):
        raise _no_survival_outcome(left.source)
    if len(set(left.columns)) < len(left.columns):
        raise refusal(left.source, "it names a column twice", "give times and event columns of their own")
    return left


def read_right_side(tokens: Sequence[Token], others: Sequence[str] = ()) -> tuple[tuple[Term, ...], bool]:
    """Return the terms of the right side, sorted by degree, and whether there is an intercept."""
    algebra, factors = read_algebra(tokens, others)
    expanded = [
        tuple(factors[int(factor.removeprefix("v"))] for factor in product if factor != "1")
        for product in _expand(algebra)
    ]
    terms = tuple(Term(factors=product) for product in expanded if product)
    if len(terms) > MOST_TERMS:
        raise refusal("formula", f"it has {len(terms)} terms", f"at most {MOST_TERMS} are read")
    return terms, len(terms) < len(expanded)


def _expand(algebra: str) -> list[tuple[str, ...]]:
    """Return the products by increasing degree: those of a sum of factors, else formulaic's.

    It fails on some empty sets, such as ``(v0 - v0)/v1``.

    >>> _expand("1 + v0 + v1 + v0"), _expand("1 + v0 + v1:v0 + v2 - 1")
    ([('1',), ('v0',), ('v1',)], [('v0',), ('v2',), ('v1', 'v0')])
    """
    summands = algebra.split(" + ")
    if all(summand.removeprefix("v").isdecimal() for summand in summands):
        return [(summand,) for summand in dict.fromkeys(summands)]
    from formulaic import Formula  # which takes long to load
    from formulaic.parser import DefaultFormulaParser

    try:
        matrix = Formula(algebra, _parser=DefaultFormulaParser(include_intercept=False), _ordering="degree")
        return [tuple(factor.expr for factor in product.factors) for product in matrix]
    except Exception:  # whatever a parser of other people raises is about the formula
        raise refusal("formula", "its terms cannot be worked out", "write out the terms that you need") from None


def _no_survival_outcome(source: str) -> FormulaError:
    remedy = "write Surv(time, event) or Surv(start, stop, event) with bare names of columns"
    return refusal(source, "this is no time with its event", remedy)


def _check_outcome_is_apart(left: LeftSide, terms: Sequence[Term]) -> None:
    for term in terms:
        for factor in term.factors:
            if not set(left.columns).isdisjoint(columns_of(factor)):
                raise refusal(factor.source, "the outcome cannot explain itself", "leave it out of the right side")
