r"""What a strongly convex objective must offer to be minimised with a certificate.

.. math:: F(\theta) = \sum_i \ell_i(\theta) + \tfrac12 (\theta - c)'\Lambda(\theta - c) + b'\theta.

The gradient of the sum is accumulated in integers: every summand is rounded to a grid so fine that 2^62 holds any
total, and integer sums are exact. The computed gradient therefore does not depend on the order of the rows,
and its distance from the true gradient has the bound of `Objective.gradient_error`, which holds for every
``theta``.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.typing import FloatArray, IntArray

UNIT = 2.0**-53
"""Unit roundoff of binary64."""


def integer_bits(rows: int, summand: float) -> int:
    """Return ``k`` such that ``rows`` numbers of at most ``summand``, as multiples of 2^-k, add up below 2^62."""
    return 61 - math.ceil(math.log2(max(1, rows) * max(summand, 1.0)))


class SmoothObjective(ABC):
    """A function that Newton's method can minimise.

    Attributes
    ----------
    ridge, centre : (D,) float64
        The diagonal of ``Lambda`` and ``c``.
    """

    ridge: FloatArray
    centre: FloatArray

    @property
    @abstractmethod
    def mass(self) -> float:
        """The size of a typical value of the objective, for telling progress from rounding."""

    @abstractmethod
    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return the gradient (D,)."""

    @abstractmethod
    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (D, D), ridge included, to float accuracy."""

    def gradient_error(self, theta: FloatArray) -> float:  # noqa: ARG002
        """Return a bound on the Euclidean distance between `gradient` and the true gradient; 0 where none is known."""
        return 0.0

    def first_length(self, step: FloatArray) -> float:  # noqa: ARG002
        """Return the part of a Newton step that is tried first, at most 1."""
        return 1.0


class Objective(SmoothObjective):
    """A strongly convex sum whose minimiser can be certified; ``linear`` (D,) is ``b``."""

    linear: FloatArray

    @abstractmethod
    def gradient_error(self, theta: FloatArray) -> float:
        """Return a bound on the Euclidean distance between `gradient` and the true gradient at ``theta``."""

    @abstractmethod
    def effect(self, direction: FloatArray) -> float:
        """Return the largest change of a linear predictor along a direction (D,)."""

    @abstractmethod
    def exact_loss_gradient(self, numbers: MPContext, theta: list[mpf]) -> list[mpf]:
        """Return the gradient of the sum of losses in the numbers of a context."""

    @abstractmethod
    def exact_sizes(self, size: float) -> float:
        """Return what relative rounding errors of `exact_loss_gradient` multiply, where ``||theta|| = size``."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SumObjective(Objective):
    """An objective whose losses are summed on a grid of 2^-grid_bits; ``ridge``, ``centre``, ``linear`` are (D,)."""

    ridge: FloatArray
    centre: FloatArray
    linear: FloatArray
    grid_bits: int = field(init=False)

    @abstractmethod
    def loss_gradient(self, theta: FloatArray) -> IntArray:
        """Return the gradient (D,) of the sum of losses in units of 2^-grid_bits, each summand rounded to it."""

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return the gradient (D,): an exact integer sum of rounded summands, plus ridge and perturbation."""
        total = np.ldexp(self.loss_gradient(theta).astype(np.float64), -self.grid_bits)
        return np.asarray(total + self.ridge * (theta - self.centre) + self.linear)

    def penalty(self, theta: FloatArray) -> float:
        """Return the value of the ridge."""
        step = theta - self.centre
        return 0.5 * float(step @ (self.ridge * step))

    def summed_error(self, theta: FloatArray, per_row: FloatArray, *, steepest: float) -> float:
        """Return a bound on the error of `gradient` from those of the summands (n,).

        ``steepest`` bounds the sum of their lengths. Rounding to the grid adds half a cell in each coordinate, the sums
        of three numbers 8 u times their sizes.
        """
        cells: float = 0.5 * len(per_row) * math.sqrt(len(theta)) * math.ldexp(1.0, -self.grid_bits)
        sizes = float(np.linalg.norm(self.ridge * (np.abs(theta) + np.abs(self.centre))))
        sizes += float(np.linalg.norm(self.linear)) + steepest
        return (float(np.sum(per_row)) + cells + 8.0 * UNIT * sizes) * (1.0 + 2.0**-20)
