"""How ``bs``, ``ns`` and ``poly`` become columns, with declared knots and constants.

R and patsy take knots, boundaries and orthogonal polynomials from the rows at hand. Here they are written in the
formula, or follow from the schema's bounds: boundary knots are those bounds, ``df`` without knots means knots equally
spaced between them, and ``poly`` without constants maps them to -1 and 1.
"""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from hdpstats.formulas.expressions import Basis, Expression, Number, Operation, Piecewise, Powers, Splines, written
from hdpstats.formulas.lexer import CallSettings
from hdpstats.formulas.operations import LARGEST_EXPONENT, Interval, refusal
from hdpstats.formulas.splines import b_splines, natural_splines

MOST_KNOTS = 30
LARGEST_DEGREE = 5
_CLOSEST = 1e-6

CENTRE = ("mean", "center")
SPREAD = ("sd", "scale")
_SHARED = ("df", "knots", "lower", "upper", "Boundary.knots")
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "bs": (*_SHARED, "degree"),
    "ns": _SHARED,
    "poly": ("degree", *CENTRE, *SPREAD),
}
"""The settings of each function; a first number without a name is ``df``, for ``poly`` the ``degree``."""
REMEDIES: Mapping[str, str] = {
    "bs": "write bs(x, knots=[40, 60]) or bs(x, df=5), with numbers from public rows or the literature",
    "ns": "write ns(x, knots=[40, 60]) or ns(x, df=3), with numbers from public rows or the literature",
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

    ``bs`` and ``ns`` are R's, with as many columns as ``df`` says. ``poly`` has the powers of the scaled operand;
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
    >>> basis = Splines(function="ns", operand=age, degree=3, knots=1, lower=None, upper=None, source="ns(age, df=2)")
    >>> with_knots(basis, Interval(0.0, 8.0))
    'ns(age, knots=[4.0], lower=0.0, upper=8.0)'
    """
    lower, upper = _ends(basis, image)
    knots = _interior(basis, image, lower, upper)
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
        knots=_knots(settings, fewest=degree if function == "bs" else 1),
        lower=lower,
        upper=upper,
        source=settings.source,
    )


def _knots(settings: CallSettings, *, fewest: int) -> tuple[float, ...] | int:
    """Return the interior knots, or how many there are; without knots there are ``fewest`` columns."""
    df, knots = settings.whole("df", lower=fewest, upper=fewest + MOST_KNOTS), settings.numbers("knots")
    if knots is None and df is not None:
        return df - fewest
    if knots is None or df is not None:
        raise settings.refusal("it needs either its interior knots or df, the number of its columns")
    if len(knots) > MOST_KNOTS:
        raise settings.refusal(f"it has {len(knots)} knots, and at most {MOST_KNOTS} are read")
    return knots


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
    """Return the interior knots, which increase between the boundary knots and between the bounds."""
    knots = basis.knots
    if isinstance(knots, int):
        knots = tuple(np.linspace(lower, upper, knots + 2)[1:-1].tolist())
    least, most = max(lower, image.lower), min(upper, image.upper)
    for knot in knots:
        if not least < knot < most:
            reason = f"the knot {knot:.6g} does not lie between {least:.6g} and {most:.6g}"
            raise refusal(basis.source, reason, "choose knots between the declared bounds and the boundary knots")
    if not all(b - a >= _CLOSEST * (upper - lower) for a, b in pairwise((lower, *knots, upper))):
        raise refusal(basis.source, "its knots do not increase, or are too close together", "move them apart")
    return knots


def _number(value: float) -> Number:
    return Number(value=value, source=f"{value:g}")
