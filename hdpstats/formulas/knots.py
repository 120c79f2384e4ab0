"""Knots that a formula leaves out: quantiles of public rows, written into the formula before anything else reads it.

``ns(age, df=3)`` becomes ``ns(age, df=3, knots=[48.0, 59.0], lower=21.0, upper=80.0)``. So the model that the ledger
records has its knots in it, a site needs no public rows to build the columns, and a result that is read from a file has
the columns that it was fitted with. The name of the factor, and of its coefficients, stays as it was written.

Which knots they are: `missing_knots`. Knots that are given stay as they are. Without public
rows a formula stays as it is too: knots are equally spaced between the bounds then.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from hdpstats._base.errors import FormulaError
from hdpstats._base.typing import FloatArray
from hdpstats.formulas.bases import CLOSEST, knot_shares, knots_apart
from hdpstats.formulas.expressions import Splines, bounds_of, columns_of, values_of
from hdpstats.formulas.grammar import read_factor
from hdpstats.formulas.lexer import Cursor, Token, spell, tokenize
from hdpstats.formulas.operations import Interval, refusal
from hdpstats.formulas.parser import parse
from hdpstats.schema.columns import NumericColumn
from hdpstats.schema.public import PublicTable

PARTS: Final = 1000
"""Knots are rounded to a power of ten that is at most this part of the range."""
FINER: Final = 6
"""They have so many digits more where rounding would move a knot by more than `MOVED`."""
MOVED: Final = 0.05
"""The largest part of its distance from the next quantile or boundary knot by which rounding may move a knot."""

FUNCTIONS: Final = ("bs", "ns", "rcs")


def with_public_knots(formula: str, public: PublicTable | None) -> str:
    """Return a formula in which every spline has its knots.

    Parameters
    ----------
    formula : str
        The formula. One that cannot be read is returned as it is: whoever compiles it says why.
    public : PublicTable or None
        The public rows; without them, or without a complete one, the formula is returned as it is.

    Raises
    ------
    FormulaError
        If public rows have fewer different values than a spline needs.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(event3=hdp.Binary(), age=hdp.Continuous(20, 90))
    >>> rows = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema).public
    >>> with_public_knots("event3 ~ ns(age, df=3)", rows)
    'event3 ~ ns(age, df=3, knots=[48.0, 59.0], lower=21.0, upper=80.0)'
    """
    if public is None or type(formula) is not str or not any(f"{function}(" in formula for function in FUNCTIONS):
        return formula
    try:
        tokens = tokenize(formula)
        splines = [(_closing(tokens, place), _spline(tokens, place)) for place in _calls(tokens)]
    except FormulaError:
        return formula
    try:
        added = {end: _settings(spline, public) for end, spline in splines if spline is not None}
    except FormulaError:
        if tokens[0].operator != "~":
            parse(formula, outcome=lambda left: left)  # what is wrong with the formula itself comes first
        raise
    if not any(added.values()):
        return formula
    pieces: list[Token] = []
    for place, token in enumerate(tokens):
        pieces += [*(tokenize(added[place]) if place in added else ()), token]
    return spell(pieces)


def without_public_knots(formula: str) -> str:
    """Return a formula in which every spline has the name of its coefficients: what `with_public_knots` added is gone.

    >>> without_public_knots("event3 ~ ns(age, df=3, knots=[48.0, 59.0], lower=21.0, upper=80.0) + nodes")
    'event3 ~ ns(age, df=3) + nodes'
    """
    if not any(f"{function}(" in formula for function in FUNCTIONS):
        return formula
    tokens, pieces, place = tokenize(formula), list[Token](), 0
    begin = set(_calls(tokens))
    while place < len(tokens):
        spline = _spline(tokens, place) if place in begin else None
        pieces += [tokens[place]] if spline is None else tokenize(spline.source)
        place = place + 1 if spline is None else _closing(tokens, place) + 1
    return spell(pieces)


def _calls(tokens: Sequence[Token]) -> list[int]:
    """Return where calls of splines begin."""
    names = [token.kind == "name" and token.text in FUNCTIONS for token in tokens]
    return [place for place, token in enumerate(tokens[1:]) if names[place] and token.operator == "("]


def _closing(tokens: Sequence[Token], start: int) -> int:
    """Return the place of the parenthesis that closes a call."""
    depth = np.cumsum([{"(": 1, ")": -1}.get(token.operator, 0) for token in tokens[start + 1 :]])
    return start + 1 + int(np.argmax(depth == 0))


def _spline(tokens: Sequence[Token], start: int) -> Splines | None:
    """Return the spline of a call."""
    factor = read_factor(Cursor(tokens[start : _closing(tokens, start) + 1]))
    return factor if isinstance(factor, Splines) else None


def _settings(spline: Splines, public: PublicTable) -> str:
    """Return the settings that a spline lacks, as they are added to its call; empty where nothing can be added."""
    names, schema = tuple(dict.fromkeys(columns_of(spline.operand))), public.schema
    columns = {name: schema[name] for name in names if name in public.numbers}
    boxes = {name: Interval(of.lower, of.upper) for name, of in columns.items() if isinstance(of, NumericColumn)}
    if len(boxes) < len(names) or not public.complete(names).any():
        return ""
    image = bounds_of(spline.operand, boxes)
    values = np.clip(values_of(spline.operand, public.admitted(names).numeric), image.lower, image.upper)
    knots, (lower, upper) = missing_knots(spline, np.asarray(values), image)
    settings = [f"{name}={value!r}" for name, value in (("lower", lower), ("upper", upper)) if value is not None]
    return "".join(f", {setting}" for setting in [*([f"knots={list(knots)!r}"] if knots else []), *settings])


Ends = tuple[float | None, float | None]


def missing_knots(spline: Splines, values: FloatArray, image: Interval) -> tuple[tuple[float, ...], Ends]:
    """Return the knots, and the boundary knots, that a spline lacks, from values (n,) of its operand.

    * ``ns`` and ``bs`` with ``df``: as many interior knots as R takes, at equal shares of people.
    * ``ns`` has its boundary knots at the smallest and the largest value, and is linear beyond: where the schema admits
      values that nobody has, a curve between the bounds would rest on no one. Where a knot that is given lies at one of
      them or beyond, that boundary knot is the bound. Boundary knots of ``bs``, whose polynomials cannot go on as
      lines, are the bounds.
    * ``rcs(x, k)``: at Harrell's quantiles.

    Numbers are rounded to about a thousandth of the range, or finer where quantiles are close together. Values that
    many people share can make several quantiles one, or put them at a boundary knot: the others stay then, and each of
    these is replaced by a value with as many people as possible between it and its neighbours
    (`hdpstats.formulas.bases.knots_apart`).

    Raises
    ------
    FormulaError
        If there are fewer different values than the knots need.
    """
    ends: Ends = (None, None)
    if not image.lower < image.upper:
        return (), ends
    digits = -math.floor(math.log10((values.max() - values.min() or image.upper - image.lower) / PARTS))
    if spline.function == "ns":
        ends = _boundary_knots(spline, values, image, digits)
    if not isinstance(spline.knots, int) or spline.knots == 0:
        return (), ends
    lowest = [end for end in (image.lower, spline.lower, ends[0]) if end is not None]
    highest = [end for end in (image.upper, spline.upper, ends[1]) if end is not None]
    least, most = max(lowest), min(highest)
    people = values[(values >= least) & (values <= most)]
    shares = knot_shares(spline.function, spline.knots)
    knots = _quantiles(shares, people, least, most, digits) if len(people) and least < most else ()
    if len(knots) == spline.knots:
        return knots, ends
    gap = CLOSEST * (most - least)
    places = np.unique(people)
    far = len(np.unique(np.floor(places / gap))) if gap > 0.0 else len(places)
    close = f", {far} of them at least {gap:,.3g} apart as knots must be" if far < len(places) else ""
    raise refusal(
        spline.source,
        f"public rows have {len(places)} different values of {spline.operand.source}{close}, too few for its knots",
        "ask for fewer, declare bounds that are closer to the values, or write knots=",
    )


def _boundary_knots(spline: Splines, values: FloatArray, image: Interval, digits: int) -> Ends:
    """Return the boundary knots that ``ns`` lacks: about the extreme values, or bounds where given knots need them."""
    smallest, largest = (
        max(round(values.min().item(), digits), image.lower),
        min(round(values.max().item(), digits), image.upper),
    )
    least = smallest if spline.lower is None else spline.lower
    most = largest if spline.upper is None else spline.upper
    given = spline.knots if isinstance(spline.knots, tuple) else ()
    for _ in range(2 if given else 0):  # wider boundary knots take knots that are farther from them
        gap = CLOSEST * (most - least)
        if spline.lower is None and min(given) - least < gap:
            least = image.lower
        if spline.upper is None and most - max(given) < gap:
            most = image.upper
    return (least if spline.lower is None else None, most if spline.upper is None else None)


def _quantiles(shares: FloatArray, people: FloatArray, least: float, most: float, digits: int) -> tuple[float, ...]:
    """Return knots at quantiles of people between boundary knots; fewer if people have too few different values.

    They are rounded to more digits where rounding would make some of them one, as those near 0 of a column with a long
    tail, or move them to a boundary knot.
    """
    found = np.quantile(people, shares, method="inverted_cdf").tolist()
    gaps = np.diff(np.unique([least, *found, most]))
    for finer in range(digits, digits + FINER + 1):
        knots = tuple(round(quantile, finer) for quantile in found)
        if np.max(np.abs(np.subtract(knots, found))) <= MOVED * gaps.min():
            break
    if all(b - a >= CLOSEST * (most - least) for a, b in pairwise((least, *knots, most))):
        return knots
    places, counts = np.unique(people, return_counts=True)
    rounded = np.repeat([round(place, finer) for place in places.tolist()], counts).tolist()
    return knots_apart(knots, rounded, ends=Interval(least, most))
