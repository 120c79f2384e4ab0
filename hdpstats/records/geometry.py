r"""How a row becomes a bounded row of a design, or a point among public ones: geometry that is public.

**Of a design.** A row ``x`` of the design (without the intercept) becomes :math:`z = A (x - m)` and is weighted by

.. math:: w(z) = \min\{1,\; R / \|z\|,\; L / (1 + \|z\|^2)\},

so that :math:`w \|z\| \le R` (radius) and :math:`w (1 + \|z\|^2) \le L` (leverage): long rows are weighted down
as in a Mallows M-estimator (a function of the covariates only, hence consistent), never clipped and never
dropped.

**Of points.** Columns are scaled to [0, 1] by public ranges, levels are at distance 1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, final

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import check_size
from hdpstats.records.codec import Record
from hdpstats.records.limits import MOST_COORDINATES, MOST_POINTS


class Source(StrEnum):
    """Where a geometry came from."""

    PUBLIC_ROWS = "public rows"
    SCHEMA_BOX = "the schema's bounds"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Geometry(Record):
    """Location ``m`` (d,), whitening ``A`` (d, d), radius ``R``, leverage ``L``; whether there is an intercept."""

    kind: ClassVar[str] = "geometry"
    location: tuple[float, ...]
    whitening: tuple[tuple[float, ...], ...]
    radius: float
    leverage: float
    intercept: bool
    source: Source

    def __post_init__(self) -> None:
        """Refuse shapes that do not fit and numbers that are not finite."""
        d = len(self.location)
        if len(self.whitening) != d or any(len(row) != d for row in self.whitening):
            raise MechanismError(f"the whitening matrix must be {d} x {d}, as the location has {d} numbers")
        sizes = np.abs(np.concatenate([*map(np.ravel, self.arrays()), [self.leverage]]))
        if not np.all(sizes < 1e15):
            raise MechanismError("the geometry must hold finite numbers below 1e15")
        if not (1e-6 <= self.radius <= 1e6 and 1e-12 <= self.leverage <= 1e13):
            raise MechanismError(
                f"the radius must be in [1e-6, 1e6] and the leverage in [1e-12, 1e13], not {self.radius:g} and "
                f"{self.leverage:g}: beyond, weights are not exact to their last digits"
            )

    @property
    def dimension(self) -> int:
        """``D``: the number of coefficients, intercept included."""
        return len(self.location) + int(self.intercept)

    @property
    def length(self) -> float:
        """A bound on ``w ||x||``, the length of a row times its weight: the smaller root of ``i + R^2`` and of ``L``.

        For ``w <= 1``, ``w ||z|| <= R`` and ``w ||x||^2 <= L``; ``i`` is 1 with an intercept, else 0.
        """
        return math.sqrt(min(float(self.intercept) + self.radius**2, self.leverage))

    def arrays(self) -> tuple[FloatArray, FloatArray]:
        """Return location (d,) and whitening (d, d) as arrays."""
        d = len(self.location)
        return np.array(self.location, dtype=float), np.array(self.whitening, dtype=float).reshape(d, d)

    def to_raw(self) -> FloatArray:
        """Return the matrix ``T`` (D, D) with ``beta = T theta``: from whitened to design coefficients."""
        m, A = self.arrays()
        T = np.zeros((self.dimension, self.dimension))
        first = int(self.intercept)
        T[first:, first:] = A.T
        if self.intercept:
            T[0, 0] = 1.0
            T[0, 1:] = -(A @ m)
        return T


LARGEST = 1e50
"""Bound on the size of a whitened number. Numbers of the order of the radius are far below it."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class WeightedRows:
    """Whitened rows ``X`` (n, D), intercept first, and their weights (n,) in (0, 1]."""

    X: FloatArray
    weights: FloatArray


def whiten(geometry: Geometry, X: FloatArray) -> WeightedRows:
    """Return ``(1, A (x - m))`` and the Mallows weights of design rows ``X`` (n, D).

    Elementwise arithmetic only: the result for a row depends on that row alone, not on its position. Whitened numbers
    are clipped to `LARGEST` in size, so that squares, norms and their products with weights stay finite.
    """
    m, A = geometry.arrays()
    first = int(geometry.intercept)
    z = np.zeros((len(m), len(X)))  # column by column: every operation is on numbers that stand together
    products = np.empty_like(z)
    for j, location in enumerate(m):
        z += np.multiply(A[:, j, None], X[:, first + j] - location, out=products)
    np.clip(z, -LARGEST, LARGEST, out=z)
    square = np.zeros(len(X))
    for column in z:
        square += column * column
    rows = np.ones((len(X), first + len(m)))
    rows[:, first:] = z.T
    return WeightedRows(X=rows, weights=mallows_weights(square, geometry))


def mallows_weights(square: FloatArray, geometry: Geometry) -> FloatArray:
    """Return ``min(1, R / ||z||, L / (i + ||z||^2))`` from squared norms (n,); ``i`` is 1 with an intercept, else 0."""
    return weights_within(square, intercept=geometry.intercept, radius=geometry.radius, leverage=geometry.leverage)


def weights_within(
    square: FloatArray, *, intercept: bool, radius: FloatArray | float, leverage: FloatArray | float
) -> FloatArray:
    """Return the same for a radius and a leverage, or (k, n) for k of each, of shape (k, 1)."""
    positive = np.maximum(square, 1e-200)
    weights: FloatArray = np.asarray(leverage / (float(intercept) + positive))
    np.minimum(radius / np.sqrt(positive, out=positive), weights, out=weights)
    return np.minimum(1.0, weights, out=weights)


def from_box(
    lower: Sequence[float], upper: Sequence[float], *, intercept: bool, row_norm: float | None = None
) -> Geometry:
    """Return the geometry of the schema's box: columns centred at the middle and scaled to [-1, 1].

    Without an intercept the columns are only scaled. The radius is ``row_norm`` where it is declared (a bound
    on the scaled row norm that most rows keep; longer rows are weighted down), else the norm of the box's
    corner. The leverage is that of a row on the radius.
    """
    low, high = np.array(lower, dtype=float), np.array(upper, dtype=float)
    middle = (low + high) / 2.0 if intercept else np.zeros(len(low))
    reach = np.maximum(np.abs(low - middle), np.abs(high - middle))
    scale = np.where(reach > 0, reach, 1.0)
    corner = math.sqrt(float(np.sum((reach / scale) ** 2)))
    radius = float(row_norm if row_norm is not None else max(corner, 1.0))
    return Geometry(
        location=tuple(middle.tolist()),
        whitening=tuple(tuple(row) for row in np.diag(1.0 / scale).tolist()),
        radius=radius,
        leverage=float(intercept) + radius**2,
        intercept=intercept,
        source=Source.SCHEMA_BOX,
    )


DIGITS = 32
"""Binary digits of numbers in a query that follow from public rows: sums on two processors differ beyond the 40th."""


def on_grid(values: FloatArray) -> FloatArray:
    """Return numbers of the order of 1 as multiples of ``2^-32``.

    >>> on_grid(np.array([0.1 + 0.2])) == on_grid(np.array([0.3]))
    array([ True])
    """
    return np.asarray(np.ldexp(np.rint(np.ldexp(values, DIGITS)), -DIGITS) + 0.0)


def _in_binary_digits(values: FloatArray) -> FloatArray:
    """Return numbers with 32 binary digits each."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(on_grid(mantissa), exponent))


FLAT = 1e-9
"""A column varies if it does by more than this share of the declared spread."""


def from_public(
    X: FloatArray, *, lower: Sequence[float], upper: Sequence[float], intercept: bool, radius: float
) -> Geometry:
    """Return the geometry that whitens public design rows ``X`` (n, D; intercept first).

    Columns are scaled by their public standard deviation, with one pseudo-row spread over the declared box; a column
    in which all public rows agree by that of an even spread over the box, and as uncorrelated with others. The
    correlation matrix is shrunk (`ledoit_wolf`) and inverted: ``A = C^(-1/2) S^(-1)``. Without an intercept nothing is
    centred. Rows beyond the radius keep the weight ``R / ||z||`` until the leverage ``1 + 2 R^2`` binds: less weight is
    lost than with ``(R / ||z||)^2``, while the Hessian stays bounded. Location and whitening are rounded to `DIGITS`
    binary digits: a query is the same on processors that add in another order.
    """
    n = len(X)
    columns = X[:, int(intercept) :]
    spread = (np.array(upper) - np.array(lower)) ** 2 / 12.0
    location = columns.mean(axis=0) if intercept else np.zeros(columns.shape[1])
    centred = columns - location
    scale = np.sqrt((n * np.mean(centred**2, axis=0) + spread) / (n + 1))
    constant = ~np.any(np.abs(centred) > FLAT * np.sqrt(spread), axis=0)
    scale = np.where(constant, np.sqrt(spread), scale)
    scale = _in_binary_digits(np.where(scale > 0, scale, 1.0))
    correlation = ledoit_wolf(centred / scale)
    correlation[constant] = correlation[:, constant] = 0.0
    correlation[constant, constant] = 1.0
    eigenvalues, vectors = np.linalg.eigh(correlation)
    floor = 1e-6 * float(np.max(eigenvalues, initial=0.0)) or 1.0  # 1 where every column is constant
    root = (vectors / np.sqrt(np.maximum(eigenvalues, floor))) @ vectors.T
    step = 4.0 ** np.floor(np.log2(np.max(np.abs(root), initial=1.0)))  # rounding errors grow with small eigenvalues
    root = on_grid(root / step) * step
    return Geometry(
        location=tuple((on_grid(location / scale) * scale).tolist()),
        whitening=tuple(tuple(row) for row in (root / scale).tolist()),
        radius=radius,
        leverage=leverage_at(radius, intercept=intercept),
        intercept=intercept,
        source=Source.PUBLIC_ROWS,
    )


def at_radius(geometry: Geometry, radius: float) -> Geometry:
    """Return a public geometry with another radius, and its leverage."""
    return replace(geometry, radius=radius, leverage=leverage_at(radius, intercept=geometry.intercept))


def leverage_at(radius: float, *, intercept: bool) -> float:
    """Return the leverage of a public geometry: twice a row's squared length on the radius, plus the intercept's."""
    return float(intercept) + 2.0 * radius**2


def ledoit_wolf(centred: FloatArray) -> FloatArray:
    """Return the shrunken second-moment matrix of centred rows (n, d) (Ledoit and Wolf 2004, lemma 3.3).

    >>> import numpy as np
    >>> ledoit_wolf(np.array([[1.0, 0.0], [-1.0, 0.0]])).round(3).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    n, d = centred.shape
    if d == 0:
        return np.zeros((0, 0))
    sample = centred.T @ centred / n
    level = float(np.trace(sample)) / d
    distance = float(np.sum((sample - level * np.eye(d)) ** 2))
    noise = float(np.sum(np.sum(centred**2, axis=1) ** 2)) / n**2 - float(np.sum(sample**2)) / n
    shrinkage = min(1.0, max(0.0, noise / distance)) if distance > 0 else 1.0
    return np.asarray((1.0 - shrinkage) * sample + shrinkage * level * np.eye(d))


MOST_LEVELS = 1000
LARGEST_BOUND = 1e12
LARGEST_REACH = 1e6
LARGEST_ROW = 2**40


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PointColumn:
    """One column of a point.

    A numeric column is clipped to [``lower``, ``upper``], the public range, and scaled to [0, 1]. A categorical column
    of ``levels`` levels becomes indicators divided by the square root of 2, so that two different levels are at
    distance 1, as the ends of a range are (Wang et al. 2018).

    Attributes
    ----------
    name : str
        A column of the schema.
    lower, upper : float
        The range of a numeric column; 0 and 1 for a categorical one.
    levels : int or None
        The number of levels that the schema declares; None for a numeric column.
    """

    name: str
    lower: float = 0.0
    upper: float = 1.0
    levels: int | None = None

    def __post_init__(self) -> None:
        """Refuse a range without length, and levels without number."""
        if not (abs(self.lower) <= LARGEST_BOUND and abs(self.upper) <= LARGEST_BOUND and self.lower < self.upper):
            raise MechanismError(f"the range of {self.name!r} must be finite and increase")
        if self.levels is not None and not 1 <= self.levels <= MOST_LEVELS:
            raise MechanismError(f"{self.name!r} must have 1 to {MOST_LEVELS} levels")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PointSpace:
    """The columns of a point, in order: at most 2000 coordinates. Without any, all rows are one point."""

    columns: tuple[PointColumn, ...]

    def __post_init__(self) -> None:
        """Refuse a column that comes twice, and too many coordinates."""
        remedy = "name fewer columns, or columns with fewer levels"
        check_size("coordinates of a point", self.dimension, MOST_COORDINATES, remedy=remedy)
        if len(set(self.names)) < len(self.columns):
            raise MechanismError("each column can be part of a point once")

    @property
    def names(self) -> tuple[str, ...]:
        """The columns by name."""
        return tuple(column.name for column in self.columns)

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return sum(1 if column.levels is None else column.levels for column in self.columns)


def check_support(support: tuple[int, ...] | None, public_sha256: str | None) -> None:
    """Refuse rows of a public table that are none or are named twice, and those of no table; None stands for all."""
    if support is not None:
        check_size("public points", len(support), MOST_POINTS, remedy="name fewer rows of the public table")
    if support is not None and (
        not support or len(set(support)) < len(support) or not (min(support) >= 0 and max(support) <= LARGEST_ROW)
    ):
        raise MechanismError(f"the public points must be 1 to {MOST_POINTS} different rows of the public table")
    if public_sha256 is None:
        raise MechanismError("nearest public points need a public table: public_sha256 must name it")


def check_reach(reach: float) -> None:
    """Refuse a longest distance, or a largest difference of losses, that is none."""
    if not 1e-12 <= reach <= LARGEST_REACH:
        raise MechanismError("reach, the most that one person counts, must be between 1e-12 and 1e6")
