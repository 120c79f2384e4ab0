r"""What a strongly convex objective must offer to be minimised with a certificate.

.. math:: F(\theta) = \sum_i \ell_i(\theta) + \tfrac12 (\theta - c)'\Lambda(\theta - c) + b'\theta.

The gradient of the sum is accumulated in integers: every summand is rounded to a grid so fine that 2^62 holds any
total, and integer sums are exact. The computed gradient therefore does not depend on the order of the rows,
and its distance from the true gradient has the bound of `Objective.gradient_error`, which holds for every
``theta``.
"""

import math
from abc import ABC, abstractmethod

from mpmath import MPContext, mpf

from hdpstats._base.typing import FloatArray

UNIT = 2.0**-53
"""Unit roundoff of binary64."""


def integer_bits(rows: int, summand: float) -> int:
    """Return ``k`` such that ``rows`` numbers of at most ``summand``, as multiples of 2^-k, add up below 2^62."""
    return 61 - math.ceil(math.log2(max(1, rows) * max(summand, 1.0)))


class Objective(ABC):
    """The function to minimise.

    Attributes
    ----------
    ridge, centre, linear : (D,) float64
        The diagonal of ``Lambda``, ``c`` and ``b``.
    """

    ridge: FloatArray
    centre: FloatArray
    linear: FloatArray

    @property
    @abstractmethod
    def mass(self) -> float:
        """The size of a typical value of the objective, for telling progress from rounding."""

    @abstractmethod
    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return the gradient (D,)."""

    @abstractmethod
    def gradient_error(self, theta: FloatArray) -> float:
        """Return a bound on the Euclidean distance between `gradient` and the true gradient at ``theta``."""

    @abstractmethod
    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (D, D), ridge included, to float accuracy."""

    @abstractmethod
    def effect(self, direction: FloatArray) -> float:
        """Return the largest change of a linear predictor along a direction (D,)."""

    @abstractmethod
    def exact_loss_gradient(self, numbers: MPContext, theta: list[mpf]) -> list[mpf]:
        """Return the gradient of the sum of losses in the numbers of a context."""

    @abstractmethod
    def exact_sizes(self, size: float) -> float:
        """Return what relative rounding errors of `exact_loss_gradient` multiply, where ``||theta|| = size``."""
