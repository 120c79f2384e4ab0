r"""Splines with given knots, B-splines, natural and restricted cubic ones, as piecewise polynomials in Bernstein form.

On a piece [a, b] with :math:`u = (x - a) / (b - a)` a polynomial of degree d is
:math:`\sum_j c_j \binom{d}{j} u^j (1 - u)^{d - j}`. Its *blossom* is the symmetric function
:math:`f(u_1, \dots, u_d)`, linear in each argument, with :math:`f(u, \dots, u) = p(u)`; on another interval
[u, v] its coefficients are :math:`c_j = f(u, \dots, u, v, \dots, v)` with v taken j times (de Casteljau; Ramshaw 1989,
*Blossoms are polar forms*). Values, restrictions and derivatives all come from that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats._base.work import Operations, sorting
from hdpstats.formulas.operations import Interval

_PARTS = 16


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """A continuous function that is a polynomial between breaks; beyond them the outer ones go on, or lines.

    Attributes
    ----------
    breaks : tuple of float
        The P + 1 ends of the pieces, increasing.
    coefficients : tuple of tuple of float
        The d + 1 Bernstein coefficients of each piece.
    slopes : (float, float), optional
        The slopes of the lines before the first break and after the last one.
    """

    breaks: tuple[float, ...]
    coefficients: tuple[tuple[float, ...], ...]
    slopes: tuple[float, float] | None = None


def values(pieces: Pieces, x: FloatArray) -> FloatArray:
    """Return the function at each x (n,), each on its own; not finite where x is not.

    >>> hat = Pieces(breaks=(0.0, 1.0, 3.0), coefficients=((0.0, 1.0), (1.0, 0.0)))
    >>> values(hat, np.array([0.0, 0.5, 1.0, 2.0, 3.0])).tolist()
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if pieces.slopes is None:
        return _polynomials(pieces, x)
    before, after = pieces.slopes
    with np.errstate(all="ignore"):
        inside = np.clip(x, pieces.breaks[0], pieces.breaks[-1])
        return _polynomials(pieces, inside) + before * np.minimum(x - inside, 0.0) + after * np.maximum(x - inside, 0.0)


def evaluation_work(pieces: Pieces, rows: int) -> Operations:
    """Return what `values` of so many rows and `image` take at most."""
    places, order = len(pieces.coefficients), len(pieces.coefficients[0])
    points = 2.0 * rows + (_PARTS + 1.0) * places * order
    of_curve = Operations(passes=(2.0 * order**2 + 10.0) * points, sorts=sorting(points, places))
    return of_curve + Operations(steps=60.0 + 6.0 * order**2 + 4.0 * places * order)


def image(pieces: Pieces, x: Interval) -> Interval:
    """Return an interval that holds the values of the function on another one.

    Where ``0 <= u <= 1`` the Bernstein polynomials are not negative and sum to 1, so that a value lies between the
    least and the greatest coefficient. Every piece is cut into 16 parts first, which brings these to within a few
    thousandths of the extremes.

    >>> image(Pieces(breaks=(0.0, 1.0, 3.0), coefficients=((0.0, 1.0), (1.0, 0.0))), Interval(0.5, 2.5))
    Interval(lower=0.25, upper=1.0)
    """
    ends = values(pieces, np.array([x.lower, x.upper]))
    core = x
    if pieces.slopes is not None:
        core = Interval(max(x.lower, pieces.breaks[0]), min(x.upper, pieces.breaks[-1]))
    hull = np.append(ends, _hull(pieces, core) if core.lower < core.upper else [])
    return Interval(float(hull.min()), float(hull.max()))


def b_splines(knots: Sequence[float], *, lower: float, upper: float, degree: int) -> tuple[Pieces, ...]:
    """Return the B-splines of a degree but the first: the columns of R's ``splines::bs``.

    All of them are not negative, and with the first one they sum to 1 between the boundaries; beyond these the
    polynomials go on.

    Parameters
    ----------
    knots : sequence of float
        Interior knots, increasing strictly between the boundaries.
    lower, upper : float
        The boundary knots.
    degree : int
        At least 1.

    Examples
    --------
    >>> [values(column, np.array([0.0, 0.5, 1.0])).tolist() for column in b_splines([], lower=0, upper=1, degree=2)]
    [[0.0, 0.5, 0.0], [0.0, 0.25, 1.0]]
    """
    breaks = (lower, *knots, upper)
    return _columns(breaks, _bernstein(breaks, degree)[:, :, 1:])


def natural_splines(knots: Sequence[float], *, lower: float, upper: float) -> tuple[Pieces, ...]:
    r"""Return natural cubic splines: the columns of R's ``splines::ns``, linear beyond the boundaries.

    They are the cubic B-splines ``B`` but the first, times the columns of an orthogonal matrix Q that are
    orthogonal to the second derivatives of B at both boundaries. R takes Q from the QR decomposition of those
    derivatives by Householder reflections, and so does this.

    Parameters
    ----------
    knots : sequence of float
        Interior knots, increasing strictly between the boundaries; there is one column more than knots.
    lower, upper : float
        The boundary knots.

    Examples
    --------
    >>> (line,) = natural_splines([], lower=0, upper=2)
    >>> values(line, np.array([0.0, 1.0, 2.0, 4.0])).round(4).tolist()
    [0.0, 0.4009, 0.8018, 1.6036]
    """
    breaks = (lower, *knots, upper)
    coefficients = _bernstein(breaks, 3)[:, :, 1:]
    first, last = coefficients[0], coefficients[-1]
    curvatures = np.stack([first[0] - 2 * first[1] + first[2], last[1] - 2 * last[2] + last[3]])
    free = coefficients @ _complement(curvatures)
    before = 3 * (free[0, 1] - free[0, 0]) / (breaks[1] - lower)
    after = 3 * (free[-1, 3] - free[-1, 2]) / (upper - breaks[-2])
    columns = _columns(breaks, free)
    slopes = zip(before.tolist(), after.tolist(), strict=True)
    return tuple(replace(column, slopes=pair) for column, pair in zip(columns, slopes, strict=True))


def restricted_splines(knots: Sequence[float]) -> tuple[Pieces, ...]:
    r"""Return Harrell's restricted cubic splines but their first column, x: 0 before the first knot, lines at the end.

    With knots :math:`t_1 < \dots < t_k` the column j, 1 to k - 2, is

    .. math:: \frac{(x - t_j)_+^3 - (x - t_{k-1})_+^3 \frac{t_k - t_j}{t_k - t_{k-1}}
              + (x - t_k)_+^3 \frac{t_{k-1} - t_j}{t_k - t_{k-1}}}{(t_k - t_1)^2},

    as that of R's ``rms::rcs`` (Harrell 2015, *Regression Modeling Strategies*, 2.4.5). With x and a constant they
    span what natural splines with these knots span.

    Parameters
    ----------
    knots : sequence of float
        At least 3, increasing strictly.

    Examples
    --------
    >>> (curve,) = restricted_splines([0.0, 1.0, 2.0])
    >>> values(curve, np.array([-1.0, 1.0, 2.0, 4.0])).tolist()
    [0.0, 0.25, 1.5, 4.5]
    """
    t = np.array(knots)
    a, b, last, width = t[:-1], t[1:], t[-1] - t[-2], (t[-1] - t[0]) ** 2
    blossoms = [[(a - u) ** (3 - j) * (b - u) ** j * (a >= u) for j in range(4)] for u in t[:-1]]
    found = []
    for place in range(len(t) - 2):
        own, before = np.array(blossoms[place]), np.array(blossoms[-1])
        of_pieces = (own - before * (t[-1] - t[place]) / last).T / width
        slope = 3.0 * (of_pieces[-1, 3] - of_pieces[-1, 2]) / last
        (column,) = _columns(t.tolist(), of_pieces[:, :, None])
        found.append(replace(column, slopes=(0.0, float(slope))))
    return tuple(found)


def _polynomials(pieces: Pieces, x: FloatArray) -> FloatArray:
    """Return the polynomial of the piece of each x."""
    breaks, coefficients = np.array(pieces.breaks), np.array(pieces.coefficients)
    place = np.searchsorted(breaks[1:-1], x, side="right")
    with np.errstate(all="ignore"):
        u = (x - breaks[place]) / (breaks[place + 1] - breaks[place])
        return _blossom(coefficients.T[:, place], [u] * (coefficients.shape[1] - 1))


def _hull(pieces: Pieces, x: Interval) -> FloatArray:
    """Return the Bernstein coefficients on the parts of an interval."""
    breaks, coefficients = np.array(pieces.breaks), np.array(pieces.coefficients)
    cuts = np.unique(np.linspace(breaks[:-1], breaks[1:], _PARTS + 1))
    ends = np.array([x.lower, *cuts[(x.lower < cuts) & (cuts < x.upper)], x.upper])
    place = np.searchsorted(breaks[1:-1], ends[:-1], side="right")
    start, width = breaks[place], breaks[place + 1] - breaks[place]
    return _restricted(coefficients.T[:, place], (ends[:-1] - start) / width, (ends[1:] - start) / width).ravel()


def _columns(breaks: Sequence[float], coefficients: FloatArray) -> tuple[Pieces, ...]:
    """Return a function per column of coefficients (P, d + 1, columns)."""
    return tuple(
        Pieces(breaks=tuple(float(place) for place in breaks), coefficients=tuple(map(tuple, column.tolist())))
        for column in np.moveaxis(coefficients, 2, 0)
    )


def _bernstein(breaks: Sequence[float], degree: int) -> FloatArray:
    """Return the coefficients (P, d + 1, P + d) of all B-splines, by de Boor's recursion with blossom arguments."""
    places = np.array([*[breaks[0]] * degree, *breaks, *[breaks[-1]] * degree])
    pieces = len(breaks) - 1
    coefficients = np.zeros((pieces, degree + 1, pieces + degree))
    for piece in range(pieces):
        a, b = breaks[piece], breaks[piece + 1]
        for j in range(degree + 1):
            arguments = [a] * (degree - j) + [b] * j
            coefficients[piece, j, piece : piece + degree + 1] = _de_boor(places, piece + degree, arguments)
    return coefficients


def _de_boor(places: FloatArray, span: int, arguments: Sequence[float]) -> FloatArray:
    """Return the blossoms of the B-splines that differ from zero between ``places[span]`` and ``places[span + 1]``."""
    weights = np.ones(1)
    for level, x in enumerate(arguments, start=1):
        left, right = places[span + 1 - level : span + 1], places[span + 1 : span + 1 + level]
        share = (x - left) / (right - left)
        weights = np.append(weights * (1 - share), 0.0) + np.append(0.0, weights * share)
    return weights


def _complement(rows: FloatArray) -> FloatArray:
    """Return the columns (m, m - k) after the k-th of the Q of Householder's QR decomposition of rows (k, m)."""
    size = rows.shape[1]
    Q = np.eye(size)
    for place in range(len(rows)):
        column = np.zeros(size)
        column[place:] = (rows[place] @ Q)[place:]
        mirror = column / math.copysign(float(np.linalg.norm(column)), float(column[place]))
        mirror[place] += 1.0
        Q = Q - np.outer(Q @ mirror, mirror) / mirror[place]
    return Q[:, len(rows) :]


def _blossom(coefficients: FloatArray, arguments: Sequence[FloatArray]) -> FloatArray:
    """Return the blossoms of polynomials (d + 1, n) at d arguments (n,)."""
    for u in arguments:
        coefficients = coefficients[:-1] * (1.0 - u) + coefficients[1:] * u
    return np.asarray(coefficients[0])


def _restricted(coefficients: FloatArray, u: FloatArray, v: FloatArray) -> FloatArray:
    """Return the coefficients (d + 1, n) of polynomials (d + 1, n) on the intervals from u to v (n,)."""
    degree = len(coefficients) - 1
    return np.stack([_blossom(coefficients, [u] * (degree - j) + [v] * j) for j in range(degree + 1)])
