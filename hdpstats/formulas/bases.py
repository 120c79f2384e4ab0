"""How ``bs``, ``ns``, ``rcs`` and ``poly`` become columns, with declared knots and constants.

R and patsy take knots, boundaries and orthogonal polynomials from the rows at hand. Here they are written in the
formula. Knots that a user leaves out are quantiles of public rows, which `hdpstats.formulas.knots` writes into the
formula. Without public rows they follow from the schema's bounds: boundary knots are those bounds,
others are equally spaced. ``poly`` without constants maps the bounds to -1 and 1.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.formulas.expressions import Basis, Expression, Number, Operation, Piecewise, Powers, Splines, written
from hdpstats.formulas.lexer import CallSettings
from hdpstats.formulas.operations import LARGEST_EXPONENT, Interval, refusal
from hdpstats.formulas.splines import b_splines, natural_splines, restricted_splines

MOST_KNOTS = 30
LARGEST_DEGREE = 5
CLOSEST = 1e-6
"""Knots, boundary knots among them, are at least this part of the distance of the boundary knots apart."""

CENTRE = ("mean", "center")
SPREAD = ("sd", "scale")
_SHARED = ("df", "knots", "lower", "upper", "Boundary.knots")
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "bs": (*_SHARED, "degree"),
    "ns": _SHARED,
    "rcs": ("nk", "knots"),
    "poly": ("degree", *CENTRE, *SPREAD),
}
"""The settings of each function."""
FIRST: Mapping[str, tuple[str, ...]] = {"bs": ("df",), "ns": ("df",), "rcs": ("nk", "knots"), "poly": ("degree",)}
"""What a first setting without a name is: a number, and a list where that may stand there."""
REMEDIES: Mapping[str, str] = {
    "bs": "write bs(x, knots=[40, 60]) or bs(x, df=5), with numbers from public rows or the literature",
    "ns": "write ns(x, knots=[40, 60]) or ns(x, df=3), with numbers from public rows or the literature",
    "rcs": "write rcs(x, 4), how many knots, or rcs(x, [35, 50, 65]), with numbers from public rows or the literature",
    "poly": "write poly(x, 2) or poly(x, 2, center=50, scale=10), with numbers from public rows or the literature",
}
"""How each function is called."""


def basis_of(function: str, operand: Expression, settings: CallSettings) -> Basis:
    """Return the basis that a call asks for.

    Raises
    ------
    FormulaError
        If settings are missing, contradict each other or cannot hold.
    """
    return _powers(operand, settings) if function == "poly" else _splines(function, operand, settings)


def expand(basis: Basis, image: Interval) -> tuple[Expression, ...]:
    """Return the columns of a basis, given the bounds of its operand.

    ``bs`` and ``ns`` are R's, with as many columns as ``df`` says. ``rcs`` is that of Harrell's rms: the operand, and
    a column for each knot but two. ``poly`` has the powers of the scaled operand;
    with the intercept they span what R's orthogonal polynomials span.

    Raises
    ------
    FormulaError
        If the bounds are equal; if a knot does not lie between them and the boundary knots; if the schema admits
        values beyond the boundary knots of ``bs``, whose polynomials would leave [0, 1].

    Examples
    --------
    >>> from hdpstats.formulas.expressions import Variable
    >>> age = Variable(name="age", source="age")
    >>> basis = Powers(operand=age, degree=2, centre=50.0, spread=10.0, source="poly(age, 2, center=50, scale=10)")
    >>> [column.rule for column in expand(basis, Interval(20.0, 90.0))]
    ['/', '^2']
    """
    if not image.lower < image.upper:
        raise refusal(basis.source, f"{basis.operand.source} can be nothing but {image.lower:g}", "leave it out")
    return _power_columns(basis, image) if isinstance(basis, Powers) else _spline_columns(basis, image)


def with_knots(basis: Splines, image: Interval) -> str:
    """Return the call of a spline with all its knots written out, given the bounds of its operand.

    >>> from hdpstats.formulas.expressions import Variable
    >>> age = Variable(name="age", source="age")
    >>> call = "ns(age, df=2)"
    >>> basis = Splines(function="ns", operand=age, degree=3, knots=1, lower=None, upper=None, source=call, call=call)
    >>> with_knots(basis, Interval(0.0, 8.0))
    'ns(age, knots=[4.0], lower=0.0, upper=8.0)'
    """
    lower, upper = _ends(basis, image)
    knots = _interior(basis, image, lower, upper)
    if basis.function == "rcs":
        return f"rcs({written(basis.operand)}, knots=[{', '.join(map(repr, knots))}])"
    degree = f", degree={basis.degree}" if basis.function == "bs" else ""
    inside = f"knots=[{', '.join(map(repr, knots))}]" if knots else f"df={basis.degree if degree else 1}"
    return f"{basis.function}({written(basis.operand)}, {inside}, lower={lower!r}, upper={upper!r}{degree})"


def _powers(operand: Expression, settings: CallSettings) -> Powers:
    degree = settings.whole("degree", lower=1, upper=LARGEST_EXPONENT)
    centre, spread = settings.number(*CENTRE), settings.number(*SPREAD)
    if degree is None:
        raise settings.refusal("its degree is missing")
    if (centre is None) != (spread is None):
        raise settings.refusal("it needs both constants, or none for the middle and half the width of the bounds")
    if spread is not None and not spread > 0.0:
        raise settings.refusal("scale must be above 0")
    return Powers(operand=operand, degree=degree, centre=centre, spread=spread, source=settings.source)


def _splines(function: str, operand: Expression, settings: CallSettings) -> Splines:
    degree = settings.whole("degree", lower=1, upper=LARGEST_DEGREE) or 3
    lower, upper = _boundary(settings)
    return Splines(
        function=function,
        operand=operand,
        degree=degree,
        knots=_all_knots(settings) if function == "rcs" else _knots(settings, fewest=degree if function == "bs" else 1),
        lower=lower,
        upper=upper,
        source=_named(settings),
        call=settings.source,
    )


def _named(settings: CallSettings) -> str:
    """Return the call without ``lower=`` and ``upper=``, and without ``knots=`` where it says how many there are."""
    counted = "df" in settings.given or "nk" in settings.given
    return settings.without("lower", "upper", *(("knots",) if counted else ()))


def _knots(settings: CallSettings, *, fewest: int) -> tuple[float, ...] | int:
    """Return the interior knots, or how many there are; without knots there are ``fewest`` columns."""
    df, knots = settings.whole("df", lower=fewest, upper=fewest + MOST_KNOTS), settings.numbers("knots")
    if knots is None:
        if df is None:
            raise settings.refusal("it needs its interior knots or df, the number of its columns")
        return df - fewest
    if df is not None and df != fewest + len(knots):
        raise settings.refusal(f"df={df} means {df - fewest} interior knots, and it has {len(knots)}")
    if len(knots) > MOST_KNOTS:
        raise settings.refusal(f"it has {len(knots)} knots, and at most {MOST_KNOTS} are read")
    return knots


def _all_knots(settings: CallSettings) -> tuple[float, ...] | int:
    """Return the knots of ``rcs``, or how many there are."""
    count, knots = settings.whole("nk", lower=3, upper=MOST_KNOTS), settings.numbers("knots")
    if knots is None:
        if count is None:
            raise settings.refusal("it needs its knots, or how many there are")
        return count
    if not 3 <= len(knots) <= MOST_KNOTS or count not in (None, len(knots)):
        raise settings.refusal(f"it has {len(knots)} knots, and must have {count or f'3 to {MOST_KNOTS}'}")
    return knots


def knot_shares(function: str, count: int) -> FloatArray:
    """Return of which shares of people the knots are quantiles (count,).

    Those of ``bs`` and ``ns`` cut people into equal parts, as R does. Those of ``rcs`` are evenly spaced between
    Harrell's outermost ones: .10 and .90 of three knots, .05 and .95 of four to six, .025 and .975 of more (Harrell
    2015, *Regression Modeling Strategies*, table 2.3).

    >>> knot_shares("ns", 3).tolist(), knot_shares("rcs", 4).round(2).tolist()
    ([0.25, 0.5, 0.75], [0.05, 0.35, 0.65, 0.95])
    """
    if function != "rcs":
        return np.linspace(0.0, 1.0, count + 2)[1:-1]
    outermost = 0.1 if count <= 3 else 0.05 if count <= 6 else 0.025
    return np.linspace(outermost, 1.0 - outermost, count)


def knots_apart(
    quantiles: Sequence[float], values: Sequence[float], *, ends: Interval, fewest: float = 0.0
) -> tuple[float, ...]:
    """Return knots at quantiles, and others in the place of those that coincide or are not between boundary knots.

    Where many people share a value, several quantiles are one, or lie at a boundary knot. Those that are distinct and
    between the boundary knots stay. In the place of the others are values that people have. Where quantiles lie at a
    boundary knot, one is the nearest value to it, as in R's ``Hmisc::rcspline.eval``. Others are added one by one, each
    where it has the most people on both sides: with a people between it and the knot or boundary knot before, and b
    between it and the next (half of those at the value itself to each side), it has the largest harmonic mean
    :math:`2 a b / (a + b)`, and is the smallest of several.

    Parameters
    ----------
    quantiles : sequence of float
        The quantiles, as many as knots are wanted.
    values : sequence of float
        The values of people within the boundary knots, rounded as the quantiles are.
    ends : Interval
        The boundary knots.
    fewest : float
        The least a and b of a knot that is added, and the least number of people below it and above it in all.

    Returns
    -------
    tuple of float
        The knots, increasing; fewer than quantiles if there are too few different values.

    Examples
    --------
    >>> zeros = [0.0] * 90 + [float(value) for value in range(1, 11)]
    >>> knots_apart([0.0, 0.0], zeros, ends=Interval(0.0, 10.0))
    (1.0, 5.0)
    """
    gap = CLOSEST * (ends.upper - ends.lower)
    knots = list[float]()
    for quantile in sorted(quantiles):
        if quantile - (knots[-1] if knots else ends.lower) >= gap and ends.upper - quantile >= gap:
            knots.append(quantile)
    places, people = np.unique(np.asarray(values, dtype=np.float64), return_counts=True)
    lost = (min(quantiles) - ends.lower < gap, ends.upper - max(quantiles) < gap)
    sides = [side for side, at_end in zip(("lower", "upper"), lost, strict=True) if at_end]
    for side in (*sides, *[None] * len(quantiles)):
        if len(knots) < len(quantiles):
            knots = sorted([*knots, *_another(knots, places, people, ends=ends, fewest=fewest, side=side)])
    return tuple(knots)


def _another(
    knots: Sequence[float], places: FloatArray, people: IntArray, *, ends: Interval, fewest: float, side: str | None
) -> list[float]:
    """Return the value that is added to knots: the nearest to a boundary knot, or the best one; none if none is left.

    ``places`` (m,) are the distinct values, and ``people`` (m,) how many have each.
    """
    fixed = np.array([ends.lower, *knots, ends.upper])
    upto = np.concatenate([[0], np.cumsum(people)])
    part = np.searchsorted(fixed[1:-1], places, side="left")
    before = upto[np.searchsorted(places, fixed[:-1], side="right")][part]
    after = upto[np.searchsorted(places, fixed[1:], side="left")][part]
    below, above = upto[:-1] - before + people / 2.0, after - upto[1:] + people / 2.0
    distance = np.minimum(places - fixed[part], fixed[part + 1] - places)
    people_beside = np.min([below, above, upto[:-1], upto[-1] - upto[1:]], axis=0)
    free = (distance >= CLOSEST * (ends.upper - ends.lower)) & (people_beside >= fewest)
    if side is not None:
        outer = places[free & (part == (0 if side == "lower" else len(knots)))]
        return [float(place) for place in (outer[:1] if side == "lower" else outer[-1:])]
    if not free.any():
        return []
    mean = np.zeros(len(places))
    mean[free] = 2.0 * below[free] * above[free] / (below[free] + above[free])
    return [float(places[int(np.argmax(mean))])]


def _boundary(settings: CallSettings) -> tuple[float | None, float | None]:
    lower, upper, both = settings.number("lower"), settings.number("upper"), settings.numbers("Boundary.knots")
    if both is None:
        return lower, upper
    if len(both) != 2 or lower is not None or upper is not None:
        raise settings.refusal("Boundary.knots are two numbers, and stand for lower and upper")
    return both[0], both[1]


def _power_columns(basis: Powers, image: Interval) -> tuple[Expression, ...]:
    middle, half = image.lower + (image.upper - image.lower) / 2.0, (image.upper - image.lower) / 2.0
    centre = _number(middle if basis.centre is None else basis.centre)
    spread = _number(half if basis.spread is None else basis.spread)
    centred = Operation(rule="-", operands=(basis.operand, centre), source=basis.source)
    scaled = Operation(rule="/", operands=(centred, spread), source=basis.source)
    higher = (
        Operation(rule=f"^{degree}", operands=(scaled,), source=basis.source) for degree in range(2, basis.degree + 1)
    )
    return (scaled, *higher)


def _spline_columns(basis: Splines, image: Interval) -> tuple[Expression, ...]:
    lower, upper = _ends(basis, image)
    if not lower < upper:
        raise refusal(basis.source, f"its boundary knots are {lower:g} and {upper:g}", "give lower below upper")
    if basis.function == "bs" and not lower <= image.lower <= image.upper <= upper:
        beyond = image.lower if image.lower < lower else image.upper
        reason = f"the schema lets {basis.operand.source} be {beyond:.6g}, beyond the boundary knots"
        raise refusal(basis.source, reason, "leave out lower and upper, declare narrower bounds, or write ns")
    knots = _interior(basis, image, lower, upper)
    if basis.function == "rcs":
        curves = restricted_splines(knots)
        return (basis.operand, *(Piecewise(pieces=each, operand=basis.operand, source=basis.source) for each in curves))
    if basis.function == "bs":
        columns = b_splines(knots, lower=lower, upper=upper, degree=basis.degree)
    else:
        columns = natural_splines(knots, lower=lower, upper=upper)
    return tuple(Piecewise(pieces=pieces, operand=basis.operand, source=basis.source) for pieces in columns)


def _ends(basis: Splines, image: Interval) -> tuple[float, float]:
    """Return the boundary knots."""
    return (
        image.lower if basis.lower is None else basis.lower,
        image.upper if basis.upper is None else basis.upper,
    )


def _interior(basis: Splines, image: Interval, lower: float, upper: float) -> tuple[float, ...]:
    """Return the interior knots, all of those of ``rcs``: they increase between boundary knots and between bounds."""
    knots = basis.knots
    if isinstance(knots, int):
        knots = tuple((lower + (upper - lower) * knot_shares(basis.function, knots)).tolist())
    least, most = max(lower, image.lower), min(upper, image.upper)
    for knot in knots:
        if not least < knot < most:
            reason = f"the knot {knot:.6g} does not lie between {least:.6g} and {most:.6g}"
            raise refusal(basis.source, reason, "choose knots between the declared bounds and the boundary knots")
    if not all(b - a >= CLOSEST * (upper - lower) for a, b in pairwise((lower, *knots, upper))):
        raise refusal(basis.source, "its knots do not increase, or are too close together", "move them apart")
    return knots


def _number(value: float) -> Number:
    return Number(value=value, source=f"{value:g}")
