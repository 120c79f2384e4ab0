"""The canonical basis of a model's column space: what a query asks about, however the formula was written.

Two formulas are the same model where the columns of their designs span the same functions of a row: another order of
terms, another reference level, other constants in ``scale`` or ``poly``, another unit of ``log``. A query is about one
basis of that space, and a user's coefficients follow from the fitted ones by a linear map.

**What is chosen.** The columns are written as polynomials with exact coefficients (`hdpstats.formulas.monomials`) and
brought to reduced echelon form. Where every row of that form is a single product of atoms the space is the span of
these products, which do not depend on the formula: they are written out in alphabetical order by degree, categories
with the first declared level as the reference, powers as ``poly`` with the constants of the schema, which is well
conditioned. A space that is no span of products has the rows of that form for columns, as sums of products. Where
neither can be written (a spline in one of several summands, a number that no float holds) the formula's own columns
stay, with the terms in order; columns that depend linearly on each other, and designs too large to be taken apart, stay
as they are.

**Why it is right.** What is written (`right_sides`) is a proposal: the canonical formula is compiled, its columns are
written as polynomials, and a matrix ``L`` of fractions with ``X_canonical = X_user L`` is solved for without rounding.
It exists and is invertible exactly where the spaces are the same, for every row that a schema can admit. Then
``X_canonical beta = X_user (L beta)``: the formula has the coefficients ``L beta`` for the same linear predictor, and a
sum of losses of linear predictors has its minimum at both.

**Why it is private.** Formula and schema are public, no row takes part, and a site proves its bounds for the formula of
the query, as it does for any other. What the user sees is a linear map of what was released.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from math import prod
from typing import TypeVar, final

import numpy as np

from hdpstats._base.errors import FormulaError
from hdpstats._base.remembered import remembered
from hdpstats._base.typing import FloatArray
from hdpstats.formulas.bases import expand, with_knots
from hdpstats.formulas.compiler import compile_terms
from hdpstats.formulas.design import Design
from hdpstats.formulas.expressions import Piecewise, Splines, bounds_of
from hdpstats.formulas.lexer import tokenize
from hdpstats.formulas.monomials import Atom, Columns, Monomial, Polynomial, TooLargeError, exactly
from hdpstats.formulas.operations import LARGEST_EXPONENT, Interval
from hdpstats.formulas.parser import ParsedFormula, read_right_side
from hdpstats.schema.schema import Schema

_Key = tuple[tuple[str, ...], tuple[str, ...]]
"""The atoms of a product that are numbers, and the factors of several columns that the others belong to."""


def right_sides(rows: Sequence[Polynomial]) -> Iterator[str]:
    """Yield right sides whose columns may span a space, best first, given the rows of its reduced echelon form.

    Of a span of products: whole factors, powers as ``poly``; each product alone. Else the rows themselves.
    """
    if any(len(row) > 1 for row in rows):
        sums = _sums(rows)
        if sums is not None:
            yield " + ".join(
                ["1" if {(): Fraction(1)} in rows else "0", *sorted(sums, key=lambda each: (len(each), each))]
            )
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
        exponents = {tuple(power for atom, power in each if not atom.block) for each in members}
        indices = {tuple(atom.index for atom, _ in each if atom.block) for each in members}
        once = len(exponents) * len(indices) == len(members)
        whole = once and len(indices) == prod(atom.size for atom, _ in members[0] if atom.block)
        high = max((max(each, default=1) for each in exponents), default=1)
        if high > LARGEST_EXPONENT or (not whole and any(atom.block and not atom.once for atom, _ in members[0])):
            return None
        degrees = tuple(max(column) for column in zip(*exponents, strict=True))
        together = powers and once and len(exponents) == prod(degrees)
        if whole and factors and (together or high == 1):
            terms.add(tuple(sorted([*map(_power_basis, numbers, degrees), *blocks])))
            continue
        for each in members:
            kept = [] if not (whole and factors) else list(blocks)
            alone = [_alone(atom, power) for atom, power in each if not (kept and atom.block)]
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


def _sums(rows: Sequence[Polynomial]) -> set[str] | None:
    """Return a term for each row, or for each whole block of rows; None where one cannot be written.

    A row is a product of levels and curves, times a sum of products of numbers. Where that sum stands with all levels
    of a category it also stands by itself, in the place of the row with its highest product.
    """
    alone: dict[Monomial, str] = {}
    blocks: dict[tuple[str, tuple[str, ...]], list[tuple[Atom, ...]]] = {}
    highest: dict[str, Monomial] = {}
    for row in rows:
        shared = {tuple(atom for atom, _ in monomial if atom.block) for monomial in row}
        numbers = {tuple((a, power) for a, power in each if not a.block): value for each, value in row.items()}
        total = _sum(numbers)
        if len(shared) != 1 or total is None or any(power > 1 for each in row for atom, power in each if atom.block):
            return None
        (atoms,) = shared
        top = _ordered(numbers)[0][0]
        if atoms:
            highest[total] = top
            blocks.setdefault((total, tuple(atom.block for atom in atoms)), []).append(atoms)
        else:
            alone[top] = total
    for (total, _), members in blocks.items():
        if len(members) != prod(atom.size for atom in members[0]):
            return None
        if total and any(atom.once for atom in members[0]) and highest[total] in alone:
            alone[highest[total]] = total
    terms = {":".join([*([total] if total else []), *names]) for total, names in blocks}
    return terms | {total for total in alone.values() if total}


def _ordered(polynomial: Polynomial) -> list[tuple[Monomial, Fraction]]:
    """Return the summands, those of the highest degree first."""
    return sorted(polynomial.items(), key=lambda item: (-sum(power for _, power in item[0]), item[0]))


def _sum(polynomial: Polynomial) -> str | None:
    """Return a sum of products of numbers as a factor, empty for 1; None where a coefficient is no float."""
    if not all(map(exactly, polynomial.values())):
        return None
    if polynomial == {(): Fraction(1)}:
        return ""
    written = ""
    for monomial, value in _ordered(polynomial):
        factors = [f"{atom.text}^{power}" if power > 1 else atom.text for atom, power in monomial]
        sign = "-" if value < 0 else "+"
        size = [repr(float(abs(value)))] if abs(value) != 1 or not factors else []
        written += f" {sign} {' * '.join([*size, *factors])}"
    if len(polynomial) == 1 and not written.startswith(" - "):
        ((monomial, value),) = polynomial.items()
        if value == 1 and len(monomial) == 1:
            return _alone(*monomial[0])
    return f"I({written.removeprefix(' + ').strip()})"


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
    is_settled : bool
        Whether every other formula with these columns, of those that are polynomials in the same functions of single
        columns, has this design too.
    """

    design: Design
    to_terms: FloatArray
    is_settled: bool = False


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
    own = CanonicalDesign(design=design, to_terms=np.eye(len(design.columns)))
    try:
        columns = Columns(schema=schema, splines=_splines(design, schema))
        reduced = _Reduced.of(columns.of(design))
        if reduced is None:
            return own
        for right in right_sides([row for row, _ in reduced.rows.values()]):
            found = _compiled(right, design, schema, columns, reduced)
            if found is not None:
                written = (each for column in found.design.columns for each in column.expressions)
                return replace(found, is_settled=all(map(columns.settles, written)))
        return _compiled(_in_order(design), design, schema, columns, reduced) or own
    except TooLargeError:
        pass
    return own


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
    known = Columns(schema=schema, splines={**columns.splines, **_splines(made, schema)})
    polynomials = known.of(made)
    if _Reduced.of(polynomials) is None:
        return None
    to_terms = np.zeros((len(polynomials), len(polynomials)))
    for place, column in enumerate(polynomials):
        coordinates = reduced.coordinates(column)
        if coordinates is None:
            return None
        for own, value in coordinates.items():
            to_terms[own, place] = float(value)
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
            for known, combined in rows.values():
                if leading in known:
                    factor = known[leading]
                    _subtract(known, factor, row)
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


def _splines(design: Design, schema: Schema) -> dict[Piecewise, Atom]:
    """Return every curve of a design as an atom; its spline has all knots written out."""
    terms, _ = read_right_side(tokenize(design.canonical.partition("~")[2]))
    boxes, found = dict(design.boxes), {}
    for factor in {factor for term in terms for factor in term.factors if isinstance(factor, Splines)}:
        columns = expand(factor, bounds_of(factor.operand, boxes))
        own = _unscaled(factor, boxes, schema)
        text = with_knots(own, bounds_of(own.operand, boxes))
        for place, column in enumerate(columns, start=1):
            if isinstance(column, Piecewise):
                found[column] = Atom(f"{text}[{place}]", text, place, len(columns))
    return found


def _unscaled(factor: Splines, boxes: Mapping[str, Interval], schema: Schema) -> Splines:
    """Return a spline of ``a x + b``, ``a > 0``, as the spline of ``x`` that has the same curves, where knots allow it.

    B-splines, and the natural ones that are made of them, do not depend on the unit and the origin of what they are of.
    """
    found = Columns(schema=schema, splines={}).affine(factor.operand)
    if found is None or found.slope < 0:
        return factor
    image, box = bounds_of(factor.operand, boxes), boxes[found.variable.name]
    ends = [float(found.slope * Fraction(end) + found.constant) for end in (box.lower, box.upper)]
    if not np.allclose(ends, (image.lower, image.upper), rtol=0.0, atol=1e-12 * (image.upper - image.lower)):
        return factor
    given = [] if isinstance(factor.knots, int) else list(factor.knots)
    given += [end for end in (factor.lower, factor.upper) if end is not None]
    moved = {each: (Fraction(each) - found.constant) / found.slope for each in given}
    if not all(map(exactly, moved.values())):
        return factor
    return replace(
        factor,
        operand=found.variable,
        knots=factor.knots if isinstance(factor.knots, int) else tuple(float(moved[each]) for each in factor.knots),
        lower=None if factor.lower is None else float(moved[factor.lower]),
        upper=None if factor.upper is None else float(moved[factor.upper]),
    )


def _in_order(design: Design) -> str:
    """Return the right side of a design with its terms in order."""
    terms, intercept = read_right_side(tokenize(design.canonical.partition("~")[2]))
    listed = sorted((len(term.factors), term.source) for term in terms)
    return " + ".join(["1" if intercept else "0", *(source for _, source in listed)])
