r"""The public geometry of a design: how a row becomes a bounded row.

A row ``x`` of the design (without the intercept) becomes :math:`z = A (x - m)` and is weighted by

.. math:: w(z) = \min\{1,\; R / \|z\|,\; L / (1 + \|z\|^2)\},

so that :math:`w \|z\| \le R` (radius) and :math:`w (1 + \|z\|^2) \le L` (leverage): long rows are weighted down
as in a Mallows M-estimator (a function of the covariates only, hence consistent), never clipped and never
dropped.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, final

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats.records.codec import Record


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
        numbers = np.array([*self.location, *(value for row in self.whitening for value in row), self.leverage])
        if len(self.whitening) != d or any(len(row) != d for row in self.whitening):
            raise MechanismError(f"the whitening matrix must be {d} x {d}, as the location has {d} numbers")
        if not (np.all(np.isfinite(numbers)) and np.all(np.abs(numbers) < 1e15)):
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
