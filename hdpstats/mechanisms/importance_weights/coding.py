r"""How the columns of a density ratio are coded, from public rows and declarations.

With an intercept, columns are centred at their public means, and numbers are divided by two public standard deviations,
as balanced zeros and ones are by nature (Gelman 2008): a shift in a continuous column is then corrected as that of a
level is. Numbers beyond 2.5 standard deviations are weighted down in both samples. Without an intercept the coding is
that of Ji and Elkan (2013), columns over the largest size that the schema allows: it leaves most of a shift in a
continuous column. A column that is constant in public rows changes no weight and is left out.

**The box** bounds every column on its own.
Formula and schema alone distinguish two kinds of columns. Indicators of the levels of one category (or of one
combination of categories) exclude each other: at most one of them is 1. All other columns, those that say that a row
has not a level among them, may take any values within their bounds, whatever the others do.

References
----------
Z. Ji, C. Elkan (2013), Differential privacy based on importance weighting.
A. Gelman (2008), Scaling regression inputs by dividing by two standard deviations.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.formulas.design import Design, DesignColumn, whitened_matrix
from hdpstats.mechanisms.importance_weights import ColumnBox
from hdpstats.records.geometry import LARGEST, Geometry, WeightedRows, at_radius, from_public, whiten

REACH = 1.25
"""Coded size, 2.5 standard deviations, beyond which a number is weighted down."""

MOST_ROWS = 5_000
"""About so many public rows are what predictions rest on."""

FEWEST_ROWS = 40
"""Public rows needed for whitening."""

MOST_WHITENED = 100
"""Columns beyond which whitening is not tried: a query would hold more than 10,000 numbers of it."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Extent:
    r"""How large coded rows are, whatever the person: sums over columns by their type.

    With a row ``x`` (a one first where there is an intercept), its weight ``w``, ``t`` in [0, w] and ``t'`` in [0, w']:

    Attributes
    ----------
    leverage : float
        ``sup w ||x||^2``.
    diameter : float
        ``sup ||t x - t' x'||``.
    """

    leverage: float
    diameter: float


def boxed(box: ColumnBox, X: FloatArray) -> WeightedRows:
    """Return the coded rows of design columns ``X`` (n, d) and their weights: each row from itself alone."""
    u = np.empty_like(X)
    weights = np.ones(len(X))
    bounds = zip(box.location, box.scale, box.lower, box.upper, strict=True)
    with np.errstate(all="ignore"):
        for j, (location, scale, lower, upper) in enumerate(bounds):
            column = np.clip((X[:, j] - location) / scale, -LARGEST, LARGEST)
            weights = np.where(column > upper, np.minimum(weights, upper / column), weights)
            weights = np.where(column < lower, np.minimum(weights, lower / column), weights)
            u[:, j] = column
    return WeightedRows(X=np.column_stack([np.ones(len(X)), u]) if box.intercept else u, weights=weights)


def extent(box: ColumnBox, columns: Sequence[DesignColumn]) -> Extent:
    r"""Return the extent of coded rows of design columns, in doubles.

    **Leverage.** Of a category with coded indicators ``e`` (the row of a level, or that of none of them) the square is
    at most :math:`N = \max \|e\|^2`; of a number ``u`` with ``w u <= upper`` and ``u <= u_max`` the product ``w u^2``
    is at most ``min(upper, u_max) u_max``, and likewise below 0. With ``w <= 1`` and the intercept they add up.

    **Diameter.** In a numeric column ``t u`` and ``t' u'`` lie within the box: at most its side apart. For the
    intercept and the categories, :math:`(t - t')^2 + \sum \|t e - t' e'\|^2` is convex in ``(t, t')`` on the unit
    square, so a corner is largest: at (1, 1) it is :math:`\sum \max \|e - e'\|^2`, 2 per category with columns of zeros
    and ones, and at (1, 0) it is :math:`1 + \sum N`. Without weights, intercept and centring, for ``m`` categories
    and ``k`` columns in [0, 1], the diameter is :math:`\sqrt{2 m + k}`: not the length :math:`\sqrt{m + k}` of the
    longest row, which two rows with different levels exceed.
    """
    apart, alone, leverage, sides = 0.0, 0.0, 0.0, 0.0
    for members in _categories(columns):
        codes = _patterns(box, members)
        between = codes[:, None, :] - codes[None, :, :]
        apart += float(np.max(np.sum(between**2, axis=-1)))
        longest = float(np.max(np.sum(codes**2, axis=-1)))
        alone, leverage = alone + longest, leverage + longest
    for j in _numbers(columns):
        low, high = ((bound - box.location[j]) / box.scale[j] for bound in (columns[j].lower, columns[j].upper))
        leverage += max(_side(high, box.upper[j]), _side(-low, -box.lower[j]))
        sides += (box.upper[j] - box.lower[j]) ** 2
    one = float(box.intercept)
    return Extent(leverage=one + leverage, diameter=float(np.sqrt(max(apart, one + alone) + sides)))


def _side(largest: float, bound: float) -> float:
    """Return ``sup w u^2`` over ``0 <= u <= largest`` with ``w u <= bound`` and ``w <= 1``."""
    return min(bound, largest) * largest if largest > 0.0 else 0.0


def _patterns(box: ColumnBox, members: Sequence[int]) -> FloatArray:
    """Return the coded values (levels + 1, columns) of a category: one level each, and none of them."""
    location, scale = (np.array([values[j] for j in members]) for values in (box.location, box.scale))
    return np.asarray((np.vstack([np.eye(len(members)), np.zeros(len(members))]) - location) / scale)


def _categories(columns: Sequence[DesignColumn]) -> Iterable[list[int]]:
    """Return the places of columns that exclude each other: different combinations of levels of the same columns."""
    groups: dict[tuple[str, ...], list[int]] = {}
    seen: set[tuple[tuple[str, int], ...]] = set()
    for j, column in enumerate(columns):
        combination = tuple(sorted((level.column, level.code) for level in column.levels))
        if is_indicator(column):
            again = (f"{j}",) if combination in seen else ()
            groups.setdefault((*(name for name, _ in combination), *again), []).append(j)
            seen.add(combination)
    return groups.values()


def _numbers(columns: Sequence[DesignColumn]) -> list[int]:
    return [j for j, column in enumerate(columns) if not is_indicator(column)]


def is_indicator(column: DesignColumn) -> bool:
    """Return whether a column says that a row has a level, or a combination of levels, and nothing else.

    One that says that a row has *not* a level, as ``I(g == "a")[False]``, does not exclude others of its kind: it is a
    number in [0, 1].
    """
    named = [level.column for level in column.levels]
    plain = bool(named) and not any(level.negated for level in column.levels)
    return plain and not column.expressions and len(set(named)) == len(named)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicSample:
    """Public rows of a one-sided formula.

    ``columns`` and ``constant`` name the design's columns that vary in public rows and that do not, ``X`` (n, d) holds
    those that do.
    """

    design: Design
    columns: tuple[str, ...]
    constant: tuple[str, ...]
    X: FloatArray

    @property
    def places(self) -> list[int]:
        """The places of the columns in the design."""
        return [self.design.names.index(name) for name in self.columns]


def public_sample(X: FloatArray, design: Design) -> PublicSample:
    """Return the columns of public design rows (n, p), intercept included, that vary."""
    first = int(design.intercept)
    varies = [j for j in range(first, X.shape[1]) if len(X) and float(np.ptp(X[:, j])) > 0.0]
    names = design.names
    return PublicSample(
        design=design,
        columns=tuple(names[j] for j in varies),
        constant=tuple(name for j, name in enumerate(names) if j >= first and j not in varies),
        X=np.ascontiguousarray(X[:, varies]),
    )


def box_of(sample: PublicSample) -> ColumnBox:
    """Return the box of public rows; see the module."""
    sides = [
        _bounds_of(sample.design.columns[place], values, centred=sample.design.intercept)
        for place, values in zip(sample.places, sample.X.T, strict=True)
    ]
    location, scale, lower, upper = (tuple(values) for values in zip(*sides, strict=True))
    return ColumnBox(location=location, scale=scale, lower=lower, upper=upper, intercept=sample.design.intercept)


def _bounds_of(column: DesignColumn, values: FloatArray, *, centred: bool) -> tuple[float, float, float, float]:
    """Return location, scale, lower and upper bound of one column. Zeros and ones keep their scale."""
    levels = is_indicator(column) or (
        (column.lower, column.upper) == (0.0, 1.0) and bool(np.isin(values, (0.0, 1.0)).all())
    )
    m = float(np.mean(values)) if centred else 0.0
    s, bound = 1.0, np.inf
    if centred and not levels:
        s, bound = 2.0 * _spread(values, column.upper - column.lower), REACH
    elif not centred:
        s = max(-column.lower, column.upper)
    lower, upper = ((value - m) / s for value in (column.lower, column.upper))
    return m, s, max(min(lower, 0.0), -bound), min(max(upper, 0.0), bound)


def _spread(values: FloatArray, width: float) -> float:
    """Return the standard deviation, with one row more that is spread over the declared bounds."""
    return float(np.sqrt((len(values) * np.var(values) + width**2 / 12.0) / (len(values) + 1)))


def geometries_of(sample: PublicSample) -> Iterator[Geometry]:
    """Yield public whitenings of different radius, where there are rows enough for any."""
    n, d = sample.X.shape
    if not sample.design.intercept or n < FEWEST_ROWS or d > MOST_WHITENED:
        return
    columns = [sample.design.columns[place] for place in sample.places]
    X = np.column_stack([np.ones(n), sample.X])

    lower, upper = [column.lower for column in columns], [column.upper for column in columns]
    unit = from_public(X, lower=lower, upper=upper, intercept=True, radius=1.0)
    lengths = np.linalg.norm(whiten(unit, X[:: max(1, n // MOST_ROWS)]).X[:, 1:], axis=1)
    middle = max(float(np.median(lengths)), 1e-3)
    for factor in (0.5, 0.7, 1.0, 1.4, 2.0):
        radius = middle * factor
        yield at_radius(unit, radius)


def coded_rows(coding: ColumnBox | Geometry, X: FloatArray, *, by_columns: bool = False) -> WeightedRows:
    """Return coded rows from the columns of the model (n, d); whitened ones are kept ``by_columns`` if asked."""
    if isinstance(coding, ColumnBox):
        return boxed(coding, X)
    rows = np.column_stack([np.ones(len(X)), X]) if coding.intercept else X
    return whitened_matrix(coding, rows) if by_columns else whiten(coding, rows)


def prior_of(coding: ColumnBox | Geometry, box: ColumnBox) -> FloatArray:
    """Return the covariance (D, D) of coefficients of a coding whose counterparts in the box are independent.

    The coefficients of a geometry are those of the box in other units, ``beta = (A S)'^-1 beta_box`` with ``S`` the
    box's scale. The intercept has none: it changes no weight.
    """
    first, d = int(coding.intercept), len(coding.location)
    prior = np.zeros((first + d, first + d))
    if isinstance(coding, ColumnBox):
        prior[first:, first:] = np.eye(d)
        return prior
    inverse = np.linalg.inv(coding.arrays()[1] * np.array(box.scale))
    prior[first:, first:] = inverse.T @ inverse
    return prior
