"""Right sides of formulas whose columns may span a given space: products of whole factors, or sums of products.

What is written here is a proposal: `hdpstats.formulas.column_space` compiles it and checks without rounding that its
columns span the same.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import groupby
from math import prod

from hdpstats.formulas.monomials import Atom, Monomial, Polynomial, exactly
from hdpstats.formulas.operations import LARGEST_EXPONENT

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
