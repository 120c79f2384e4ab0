"""The canonical basis of a model's column space: what a query asks about, however the formula was written.

Two formulas are the same model where the columns of one are linear combinations of those of the other: another order
of terms, another reference level, another centre or unit of a column, other contrasts. A query is about one basis of
that space, and a user's coefficients follow from the fitted ones by a linear map.

**Columns as polynomials.** An *atom* is what is not taken apart: a column, a function such as ``log(age)`` as it is
written, a comparison, one column of a spline, or the indicator of one level of a category. A column of a design is a
polynomial in atoms with fractions for coefficients, so nothing is rounded: ``scale(age, mean=50, sd=10)`` is
``age / 10 - 5``. Three rules hold: the indicators of a category's levels add up to 1, by which that of the first level
is written as 1 less the others; an indicator times itself is itself; indicators of two levels of one category exclude
each other. Columns whose polynomials are equal are the same function of a row. (``log(2 * x)`` and ``log(x) + log(2)``
are too, which these rules do not tell: they are two questions.)

**What is chosen.** The polynomials are brought to reduced echelon form. Where every row of that form is a single
product of atoms the space is the span of these products, which do not depend on the formula: they are written out in
alphabetical order by degree, categories with the first declared level as the reference, powers as ``poly`` with the
constants of the schema, which is well conditioned. In other spaces (``scale(x, mean=1, sd=2):g`` without ``x`` and
``g``) the formula's own columns stay, with the terms in order; columns that depend linearly on each other, and designs
too large to be taken apart, stay as they are.

**Why it is right.** What is written (`right_sides`) is a proposal: the canonical formula is compiled, its columns are
written as polynomials, and a matrix ``L`` of fractions with ``X_canonical = X_user L`` is solved for without rounding.
It exists and is invertible exactly where the spaces of polynomials are the same. Then ``X_canonical beta = X_user (L
beta)``: the formula has the coefficients ``L beta`` for the same linear predictor, and a sum of losses of linear
predictors has its minimum at both.

**Why it is private.** Formula and schema are public, no row takes part, and a site proves its bounds for the formula of
the query, as it does for any other. What the user sees is a linear map of what was released.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from itertools import groupby
from math import prod
from typing import Final, TypeVar, final

import numpy as np

from hdpstats._base.caching import remembered
from hdpstats._base.errors import FormulaError
from hdpstats._base.typing import FloatArray
from hdpstats.formulas.bases import expand, with_knots
from hdpstats.formulas.compiler import compile_terms
from hdpstats.formulas.design import Design, DesignColumn, Level, reference_matrix
from hdpstats.formulas.expressions import (
    Expression,
    Factor,
    Number,
    Operation,
    Piecewise,
    Splines,
    Variable,
    bounds_of,
    written,
)
from hdpstats.formulas.lexer import literal, quoted, tokenize
from hdpstats.formulas.operations import LARGEST_EXPONENT, Interval, refusal
from hdpstats.formulas.parser import ParsedFormula, read_right_side
from hdpstats.schema.columns import Categorical
from hdpstats.schema.schema import Schema

MOST_MONOMIALS: Final = 4000
"""A design whose columns have more summands in all is not taken apart."""

_COMPLEMENTS: Final = {"<=": ">", "<": ">=", "!=": "=="}
_COMPARISONS: Final = (">", ">=", "==")


class TooLargeError(Exception):
    """A polynomial has too many summands to be written out."""


@final
@dataclass(frozen=True, slots=True, order=True)
class Atom:
    """What is not taken apart.

    Attributes
    ----------
    text : str
        How it is written in a formula, inside ``I( )`` where it stands in parentheses; its identity.
    block : str
        The factor of several columns that it belongs to: a category's name or a spline; empty for a number.
    index, size : int
        Which column of the block it is, from 1, and how many there are, that of a reference level aside.
    once : bool
        Whether it is 0 or 1, hence equal to its square.
    """

    text: str
    block: str = ""
    index: int = 0
    size: int = 0
    once: bool = False


Monomial = tuple[tuple[Atom, int], ...]
"""Atoms with their powers, in order."""
Polynomial = Mapping[Monomial, Fraction]

ONE: dict[Monomial, Fraction] = {(): Fraction(1)}


def times(a: Monomial, b: Monomial) -> Monomial | None:
    """Return the product of two monomials; None where it is 0."""
    powers = dict(a)
    for atom, power in b:
        powers[atom] = 1 if atom.once else powers.get(atom, 0) + power
    levels = [atom.block for atom in powers if atom.once and atom.block]
    return None if len(set(levels)) < len(levels) else tuple(sorted(powers.items()))


def add(a: Polynomial, b: Polynomial, factor: Fraction = ONE[()]) -> Polynomial:
    """Return ``a + factor b``."""
    total = dict(a)
    for monomial, value in b.items():
        total[monomial] = total.get(monomial, Fraction(0)) + factor * value
    return {monomial: value for monomial, value in total.items() if value}


def multiply(a: Polynomial, b: Polynomial) -> Polynomial:
    """Return ``a b``; raise `TooLargeError` where it has too many summands."""
    if len(a) * len(b) > MOST_MONOMIALS:
        raise TooLargeError
    product: dict[Monomial, Fraction] = {}
    for one, left in a.items():
        for other, right in b.items():
            both = times(one, other)
            if both is not None:
                product[both] = product.get(both, Fraction(0)) + left * right
    return {monomial: value for monomial, value in product.items() if value}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What is needed to write the columns of designs on one schema as polynomials.

    Attributes
    ----------
    schema : Schema
        The declared columns.
    splines : mapping of Piecewise to Atom
        What a curve is as an atom.
    """

    schema: Schema
    splines: Mapping[Piecewise, Atom]

    def of(self, design: Design) -> list[Polynomial]:
        """Return the columns of a design; raise `TooLargeError` where they have too many summands."""
        polynomials, size = [], 0
        for column in design.columns:
            polynomials.append(self._column(column))
            size += len(polynomials[-1])
            if size > MOST_MONOMIALS:
                raise TooLargeError
        return polynomials

    def _column(self, column: DesignColumn) -> Polynomial:
        levels = map(self._indicator, column.levels)
        return reduce(multiply, (*map(self._expression, column.expressions), *levels), ONE)

    def _indicator(self, level: Level) -> Polynomial:
        level_polynomial = self._level(level.column, level.code)
        return add(ONE, level_polynomial, Fraction(-1)) if level.negated else level_polynomial

    def _level(self, name: str, code: int) -> Polynomial:
        declared = self.schema[name]
        levels = declared.levels if isinstance(declared, Categorical) else ("0", "1")

        def atom(place: int) -> Atom:
            if not isinstance(declared, Categorical):  # 0 or 1, read as a category
                return Atom(quoted(name), once=True)
            text = f"({quoted(name)} == {literal(levels[place])})"
            return Atom(text, quoted(name), place, len(levels) - 1, once=True)

        if code:
            return _single(atom(code))
        return ONE | {((atom(place), 1),): Fraction(-1) for place in range(1, len(levels))}

    def _expression(self, expression: Expression) -> Polynomial:
        if isinstance(expression, Number):
            return {(): Fraction(expression.value)} if expression.value else {}
        if isinstance(expression, Variable):
            return _single(Atom(quoted(expression.name), once=self.schema[expression.name].kind == "binary"))
        if isinstance(expression, Piecewise):
            return _single(self.splines[expression])
        return self._operation(expression)

    def _operation(self, operation: Operation) -> Polynomial:
        rule, (first, *rest) = operation.rule, operation.operands
        if rule == "I":
            return self._expression(first)
        if rule in ("+", "-"):
            sign = Fraction(1 if rule == "+" else -1)
            return add(self._expression(first), self._expression(rest[0]), sign)
        if rule == "negative":
            return add({}, self._expression(first), Fraction(-1))
        if rule == "*":
            return multiply(self._expression(first), self._expression(rest[0]))
        if rule.startswith("^"):
            return reduce(multiply, [self._expression(first)] * int(rule[1:]))
        if rule == "/" and isinstance(rest[0], Number):
            return add({}, self._expression(first), 1 / Fraction(rest[0].value))
        if rule == "==" and isinstance(first, Variable) and self.schema[first.name].kind == "binary":
            other = self._expression(rest[0])
            if other in ({}, ONE):
                one = self._expression(first)
                return one if other else add(ONE, one, Fraction(-1))
        if rule in _COMPLEMENTS:
            whole = Operation(rule=_COMPLEMENTS[rule], operands=operation.operands, source="")
            return add(ONE, self._operation(whole), Fraction(-1))
        return _single(_atom(operation))


def _atom(operation: Operation) -> Atom:
    return Atom(written(operation), once=operation.rule in _COMPARISONS)


def _single(atom: Atom) -> Polynomial:
    return {((atom, 1),): Fraction(1)}


_Key = tuple[tuple[str, ...], tuple[str, ...]]
"""The atoms of a product that are numbers, and the factors of several columns that the others belong to."""


def right_sides(rows: Sequence[Polynomial]) -> Iterator[str]:
    """Yield right sides whose columns may span a space, best first, given the rows of its reduced echelon form.

    Whole factors, powers as ``poly``; each product alone. None where the space is no span of products.
    """
    if any(len(row) > 1 for row in rows):
        return
    products = frozenset(monomial for row in rows for monomial in row)
    for factors, powers in ((True, True), (True, False), (False, False)):
        terms = _terms(products, factors=factors, powers=powers)
        if terms is not None:
            listed = sorted(terms, key=lambda term: (len(term), term))
            yield " + ".join(["1" if () in products else "0", *(":".join(term) for term in listed)])


def _terms(products: frozenset[Monomial], *, factors: bool, powers: bool) -> set[tuple[str, ...]] | None:
    """Return the factors' texts of all terms; None where the products are not whole splines, or have high powers."""
    terms: set[tuple[str, ...]] = set()
    ordered = sorted((monomial for monomial in products if monomial), key=_key)
    for (numbers, blocks), group in groupby(ordered, key=_key):
        members = list(group)
        exponents = {tuple(power for atom, power in monomial if not atom.block) for monomial in members}
        indices = {tuple(atom.index for atom, _ in monomial if atom.block) for monomial in members}
        once = len(exponents) * len(indices) == len(members)
        whole = once and len(indices) == prod(atom.size for atom, _ in members[0] if atom.block)
        high = max((max(powers_of, default=1) for powers_of in exponents), default=1)
        if high > LARGEST_EXPONENT or (not whole and any(atom.block and not atom.once for atom, _ in members[0])):
            return None
        degrees = tuple(max(column) for column in zip(*exponents, strict=True))
        together = powers and once and len(exponents) == prod(degrees)
        if whole and factors and (together or high == 1):
            terms.add(tuple(sorted([*map(_power_basis, numbers, degrees), *blocks])))
            continue
        for member in members:
            kept = [] if not (whole and factors) else list(blocks)
            alone = [_alone(atom, power) for atom, power in member if not (kept and atom.block)]
            terms.add(tuple(sorted([*alone, *kept])))
    return terms


def _key(monomial: Monomial) -> _Key:
    return (
        tuple(atom.text for atom, _ in monomial if not atom.block),
        tuple(atom.block for atom, _ in monomial if atom.block),
    )


def _power_basis(text: str, degree: int) -> str:
    return f"poly({text}, {degree})" if degree > 1 else _number(text)


def _number(text: str) -> str:
    """Return a number's atom as a factor: arithmetic stands inside ``I( )``, and what is no column times 1.

    So a comparison is a number, which is not coded as a category.
    """
    return f"I(1 * {text})" if text.startswith("(") else text


def _alone(atom: Atom, power: int) -> str:
    """Return a single atom, or a power of it, as a factor."""
    if atom.block:
        return f"I{atom.text}"
    return f"I({atom.text}^{power})" if power > 1 else _number(atom.text)


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CanonicalDesign:
    """The design that a query is about.

    Attributes
    ----------
    design : Design
        The canonical columns, or the user's own where there are no others.
    to_terms : (p, p) float64
        ``L``: the user's coefficients are ``L`` times those of ``design``.
    """

    design: Design
    to_terms: FloatArray


@remembered(256)
def canonical_design(design: Design, schema: Schema) -> CanonicalDesign:
    """Return the canonical design of a model, and the map to the coefficients of its formula.

    Parameters
    ----------
    design : Design
        The columns of the formula.
    schema : Schema
        The declared columns.

    Examples
    --------
    >>> from hdpstats.formulas.compiler import compile_design
    >>> from hdpstats.schema.columns import Binary, Continuous
    >>> schema = Schema(dead=Binary(), age=Continuous(20, 90))
    >>> found = canonical_design(compile_design("dead ~ scale(age, mean=50, sd=10)", schema), schema)
    >>> found.design.canonical, found.to_terms.tolist()
    ('dead ~ 1 + age', [[1.0, 50.0], [0.0, 10.0]])
    """
    as_written = CanonicalDesign(design=design, to_terms=np.eye(len(design.columns)))
    try:
        columns = Columns(schema=schema, splines=_splines(design))
        reduced = _Reduced.of(columns.of(design))
        if reduced is None:
            return as_written
        for right in right_sides([row for row, _ in reduced.rows.values()]):
            canonical = _compiled(right, design, schema, columns, reduced)
            if canonical is not None:
                return canonical
        return _compiled(_in_order(design), design, schema, columns, reduced) or as_written
    except TooLargeError:
        pass
    return as_written


def read_columns(right: str, design: Design, schema: Schema) -> Design | None:
    """Return a right side with the outcome of a design; None where it reads other columns, or cannot be read."""
    try:
        terms, intercept = read_right_side(tokenize(right))
        parsed = ParsedFormula(text=right, left=None, terms=terms, intercept=intercept)
        made = compile_terms(parsed, schema)
    except FormulaError:
        return None
    outcome = [name for name in design.needs if name not in made.needs]
    needs = (*outcome, *made.needs)
    if len(made.columns) != len(design.columns) or set(needs) != set(design.needs):
        return None
    text = f"{design.canonical.partition('~')[0]}~ {right}"
    return replace(made, formula=text, canonical=text, response=design.response, needs=needs)


def _compiled(
    right: str, design: Design, schema: Schema, columns: Columns, reduced: "_Reduced"
) -> CanonicalDesign | None:
    """Return the design of a right side if its columns span the same space."""
    made = read_columns(right, design, schema)
    if made is None:
        return None
    both = Columns(schema=schema, splines={**columns.splines, **_splines(made)})
    polynomials = both.of(made)
    if _Reduced.of(polynomials) is None:
        return None
    to_terms = np.zeros((len(polynomials), len(polynomials)))
    for place, column in enumerate(polynomials):
        coordinates = reduced.coordinates(column)
        if coordinates is None:
            return None
        for position, value in coordinates.items():
            to_terms[position, place] = float(value)
    return CanonicalDesign(design=made, to_terms=to_terms)


Combination = Mapping[int, Fraction]
"""A combination of columns: the coefficient of each by its place, where it is not 0."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Reduced:
    """Polynomials in reduced echelon form: by its leading monomial each row, and which combination of them it is."""

    rows: Mapping[Monomial, tuple[dict[Monomial, Fraction], dict[int, Fraction]]]

    @classmethod
    def of(cls, columns: Sequence[Polynomial]) -> "_Reduced | None":
        """Return the form of some columns; None where they depend linearly on each other."""
        rows: dict[Monomial, tuple[dict[Monomial, Fraction], dict[int, Fraction]]] = {}
        for place, column in enumerate(columns):
            row, parts = _rest(column, rows)
            parts = {**parts, place: Fraction(1)}
            if not row:
                return None
            leading = min(row, key=lambda monomial: (-sum(power for _, power in monomial), monomial))
            scale = 1 / row[leading]
            row, parts = _scaled(row, scale), _scaled(parts, scale)
            for row_before, combined in rows.values():
                if leading in row_before:
                    factor = row_before[leading]
                    _subtract(row_before, factor, row)
                    _subtract(combined, factor, parts)
            rows[leading] = (row, parts)
        return cls(rows=rows)

    def coordinates(self, column: Polynomial) -> Combination | None:
        """Return a column's coordinates in the columns that were reduced; None where it is not in their space."""
        rest, parts = _rest(column, self.rows)
        return None if rest else _scaled(parts, Fraction(-1))


def _rest(
    column: Polynomial, rows: Mapping[Monomial, tuple[Polynomial, Combination]]
) -> tuple[dict[Monomial, Fraction], dict[int, Fraction]]:
    """Return a column less what the rows explain of it, and the combination that was added."""
    rest: dict[Monomial, Fraction] = dict(column)
    parts: dict[int, Fraction] = {}
    for leading in [monomial for monomial in column if monomial in rows]:
        row, combination = rows[leading]
        factor = column[leading]
        _subtract(rest, factor, row)
        _subtract(parts, factor, combination)
    return rest, parts


_Place = TypeVar("_Place")


def _subtract(terms: dict[_Place, Fraction], factor: Fraction, other: Mapping[_Place, Fraction]) -> None:
    """Take a multiple of some terms from others."""
    for place, value in other.items():
        left = terms.get(place, Fraction(0)) - factor * value
        if left:
            terms[place] = left
        else:
            terms.pop(place, None)


def _scaled(terms: Mapping[_Place, Fraction], factor: Fraction) -> dict[_Place, Fraction]:
    return {place: factor * value for place, value in terms.items()}


def _splines(design: Design) -> dict[Piecewise, Atom]:
    """Return every curve of a design as an atom; its spline has all knots written out."""
    terms, _ = read_right_side(tokenize(design.canonical.partition("~")[2]))
    boxes, atoms = dict(design.boxes), {}
    for factor in {factor for term in terms for factor in term.factors if isinstance(factor, Splines)}:
        columns = expand(factor, bounds_of(factor.operand, boxes))
        curves = [column for column in columns if isinstance(column, Piecewise)]
        text = with_knots(factor, bounds_of(factor.operand, boxes))
        for place, curve in enumerate(curves, start=1):
            atoms[curve] = Atom(f"{text}[{place}]", text, place, len(curves))
    return atoms


def _in_order(design: Design) -> str:
    """Return the right side of a design with its terms in order."""
    terms, intercept = read_right_side(tokenize(design.canonical.partition("~")[2]))
    boxes = dict(design.boxes)
    texts = [[_written_out(factor, boxes) for factor in term.factors] for term in terms]
    listed = sorted((len(factors), ":".join(factors)) for factors in texts)
    return " + ".join(["1" if intercept else "0", *(text for _, text in listed)])


def _written_out(factor: Factor, boxes: Mapping[str, Interval]) -> str:
    """Return a factor as a formula has it, a spline with all its knots."""
    return with_knots(factor, bounds_of(factor.operand, boxes)) if isinstance(factor, Splines) else factor.source


DEPENDENT: Final = 1e-12
"""The smallest singular value, over the largest, of columns of length 1 that do not depend linearly on each other."""

IN_A_CELL: Final = 16
"""Rows among the reference rows in which each column must not be 0, for these to tell dependence."""


def check_independent(design: Design, schema: Schema) -> None:
    """Refuse a design whose columns depend linearly on each other whatever the rows are.

    ``glm`` leaves such a column out, which depends on the order of terms. Here a fit would be charged and could report
    none of the columns that depend on each other. Rows that are spread evenly over the schema tell it
    (`hdpstats.formulas.design.reference_rows`); where a column is 0 in almost all of them, as in rare cells of
    interactions, they do not, and nothing is refused.

    Raises
    ------
    FormulaError
        If columns depend on each other, with their names.
    """
    X = reference_matrix(design, schema)
    if X.shape[1] < 2 or np.count_nonzero(X, axis=0).min(initial=IN_A_CELL) < IN_A_CELL or 2 * X.shape[1] > len(X):
        return
    _, sizes, axes = np.linalg.svd(X / np.linalg.norm(X, axis=0), full_matrices=False)
    if sizes[-1] > DEPENDENT * sizes[0]:
        return
    shares = np.abs(axes[sizes <= DEPENDENT * sizes[0]]).max(axis=0)
    names = [name for name, share in zip(design.names, shares, strict=True) if share > 1e-6]
    raise refusal(
        ", ".join(names),
        "these columns depend linearly on each other whatever the rows are",
        "leave out a term, such as the plain column beside its spline or polynomial",
    )
