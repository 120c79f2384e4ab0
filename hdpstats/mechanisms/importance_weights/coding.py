r"""How the columns of a density ratio are coded, from public rows and declarations.

With an intercept, columns are centred at their public means, and numbers are divided by two public standard deviations,
as balanced zeros and ones are by nature (Gelman 2008): a shift in a continuous column is then corrected as that of a
level is. Numbers beyond 2.5 standard deviations are weighted down in both samples. Without an intercept the coding is
that of Ji and Elkan (2013), columns over the largest size that the schema allows: it leaves most of a shift in a
continuous column. A column that is constant in public rows changes no weight and is left out.

References
----------
Z. Ji, C. Elkan (2013), Differential privacy based on importance weighting.
A. Gelman (2008), Scaling regression inputs by dividing by two standard deviations.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.formulas.design import Design, DesignColumn
from hdpstats.formulas.geometry import Rows, at_radius, from_public, whiten
from hdpstats.mechanisms.importance_weights.box import boxed, is_indicator
from hdpstats.mechanisms.importance_weights.query import Box
from hdpstats.records.geometry import Geometry

REACH = 1.25
"""Coded size, 2.5 standard deviations, beyond which a number is weighted down."""

MOST_ROWS = 5_000
"""About so many public rows are what predictions rest on."""

FEWEST_ROWS = 40
"""Public rows needed for whitening."""

MOST_WHITENED = 100
"""Columns beyond which whitening is not tried: a query would hold more than 10,000 numbers of it."""


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


def box_of(sample: PublicSample) -> Box:
    """Return the box of public rows; see the module."""
    sides = [
        _side(sample.design.columns[place], values, centred=sample.design.intercept)
        for place, values in zip(sample.places, sample.X.T, strict=True)
    ]
    location, scale, lower, upper = (tuple(values) for values in zip(*sides, strict=True))
    return Box(location=location, scale=scale, lower=lower, upper=upper, intercept=sample.design.intercept)


def _side(column: DesignColumn, values: FloatArray, *, centred: bool) -> tuple[float, float, float, float]:
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


def coded_rows(coding: Box | Geometry, X: FloatArray) -> Rows:
    """Return coded public rows from the columns of the model (n, d)."""
    if isinstance(coding, Box):
        return boxed(coding, X)
    return whiten(coding, np.column_stack([np.ones(len(X)), X]) if coding.intercept else X)


def prior_of(coding: Box | Geometry, box: Box) -> FloatArray:
    """Return the covariance (D, D) of coefficients of a coding whose counterparts in the box are independent.

    The coefficients of a geometry are those of the box in other units, ``beta = (A S)'^-1 beta_box`` with ``S`` the
    box's scale. The intercept has none: it changes no weight.
    """
    first, d = int(coding.intercept), len(coding.location)
    prior = np.zeros((first + d, first + d))
    if isinstance(coding, Box):
        prior[first:, first:] = np.eye(d)
        return prior
    inverse = np.linalg.inv(coding.arrays()[1] * np.array(box.scale))
    prior[first:, first:] = inverse.T @ inverse
    return prior
