r"""Strongly convex objectives that are minimised with a certificate: what they offer.

.. math:: F(\theta) = \sum_i \ell_i(\theta) + \tfrac12 (\theta - c)'\Lambda(\theta - c) + b'\theta.

The gradient of the sum is accumulated in integers: every summand is rounded to a multiple of 2^-50 of the largest that
there may be, however many there are, and integer sums are exact. The computed gradient therefore does not depend on the
order of the rows, and its distance from the true gradient has the bound of `Objective.gradient_error`, which holds for
every ``theta``. Where a method keeps its points as unevaluated sums of two doubles the gradient is that at the sum.

The sums of losses themselves are those of the families of models (`hdpstats.families`).
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import final

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.typing import ExactArray, FloatArray
from hdpstats._base.work import Operations

UNIT = 2.0**-53
"""Unit roundoff of binary64."""

SUMS = 4.0
"""In units of 2^-53, what the conversion of a sum of losses' gradients and two additions to it err by, of its size."""

ROUGH = 1 << 16
"""Rows of a rough Hessian."""


LEAST_SUMMAND = 2.0**-100
"""Summands of scores that are never larger are rounded as if they were."""


def score_bits(summand: float) -> int:
    """Return the ``k`` such that numbers of at most ``summand`` are at most 2^50 multiples of 2^-k.

    The rounded ones add up exactly whatever their number is (`hdpstats.solvers.kernels.exact_total`).
    """
    return 50 - math.ceil(math.log2(max(summand, LEAST_SUMMAND)))


def rounded_cells(rows: int, D: int, *, summand: float) -> float:
    """Return a bound on the length (D,) of what rounding to multiples of 2^-`score_bits` does to a sum over rows."""
    return 0.5 * rows * math.sqrt(D) * math.ldexp(1.0, -score_bits(summand))


def integer_bits(rows: int, summand: float) -> int:
    """Return ``k`` such that ``rows`` numbers of at most ``summand``, as multiples of 2^-k, add up below 2^62.

    Each of them is at most 2^50 such multiples. For sums in 64 bits, of which no error need be small.
    """
    return 61 - math.ceil(math.log2(max(2048, rows) * max(summand, 1.0)))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RowBounds:
    """What is known beforehand of what rows contribute; where it is not, the rows are read to find it.

    Attributes
    ----------
    summand : float
        The largest size of a coordinate of a row's gradient.
    root : float
        The largest size of a coordinate of a row times the root of its weighted curvature.
    rows : int
        The number of rows in all, where the rows at hand are some of them: sums of curvatures over parts on one grid
        can be added.
    """

    summand: float
    root: float
    rows: int = 0


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectiveWork:
    """What a gradient (D,), a Hessian and a bound on the error of a gradient take at most, each.

    Attributes
    ----------
    dimension : int
        D.
    gradient, hessian, error : Operations
        Of one of them.
    """

    dimension: int
    gradient: Operations
    hessian: Operations
    error: Operations

    @property
    def step(self) -> Operations:
        """What Newton's step and `secant` take, the Hessian being known."""
        D = self.dimension
        return Operations(steps=80.0, passes=14.0 * D**2, cubes=float(D) ** 3)

    def of(self, *, gradients: float, hessians: float, errors: float, steps: float) -> Operations:
        """Return what so many of them and Newton's steps take; for every gradient there are a few short operations."""
        around = Operations(steps=80.0, passes=16.0 * self.dimension)
        return gradients * (self.gradient + around) + hessians * self.hessian + errors * self.error + steps * self.step


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
    def gradient(self, theta: FloatArray, rest: FloatArray | None = None) -> FloatArray:
        """Return the gradient (D,) at ``theta + rest``, an unevaluated sum with ``|rest| <= 2^-53 |theta|``."""

    def rough_hessian(self, theta: FloatArray) -> FloatArray:
        """Return a matrix near the Hessian (D, D) in less time, where there is one: good for a first step."""
        return self.hessian(theta)

    @abstractmethod
    def gradient_error(self, theta: FloatArray) -> float:
        """Return a bound on the distance between `gradient` and the true gradient at ``theta``, or with any rest."""

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
    def loss_gradient(self, theta: FloatArray, rest: FloatArray | None = None) -> ExactArray:
        """Return the gradient (D,) of the sum of losses in units of 2^-grid_bits, each summand rounded to it."""

    def gradient(self, theta: FloatArray, rest: FloatArray | None = None) -> FloatArray:
        """Return the gradient (D,): an exact integer sum of rounded summands, plus ridge and perturbation.

        The sum becomes the nearest double.
        """
        total = np.ldexp(self.loss_gradient(theta, rest).astype(np.float64), -self.grid_bits)
        step = theta - self.centre
        return np.asarray(total + self.ridge * (step if rest is None else step + rest) + self.linear)

    def penalty(self, theta: FloatArray) -> float:
        """Return the value of the ridge."""
        step = theta - self.centre
        return 0.5 * float(step @ (self.ridge * step))

    def summed_error(self, theta: FloatArray, per_row: FloatArray, *, steepest: float) -> float:
        """Return a bound on the error of `gradient` from those of the summands (n,).

        ``steepest`` bounds the sum of their lengths. Rounding to the grid adds half a cell in each coordinate. The sum
        of losses is converted and two numbers are added to it: three roundings (`SUMS`). The ridge is multiplied by two
        differences besides: five, for which 8 u are counted, as for the perturbation.
        """
        cells: float = 0.5 * len(per_row) * math.sqrt(len(theta)) * math.ldexp(1.0, -self.grid_bits)
        sizes = float(np.linalg.norm(self.ridge * (np.abs(theta) + np.abs(self.centre))))
        rounded = 8.0 * (sizes + float(np.linalg.norm(self.linear))) + SUMS * steepest
        return (float(np.sum(per_row)) + cells + UNIT * rounded) * (1.0 + 2.0**-20)
