r"""Strongly convex objectives that are minimised with a certificate: penalised sums of the losses of rows.

.. math:: F(\theta) = \sum_i \ell_i(\theta) + \tfrac12 (\theta - c)'\Lambda(\theta - c) + b'\theta.

The gradient of the sum is accumulated in integers: every summand is rounded to a multiple of 2^-50 of the largest that
there may be, however many there are, and integer sums are exact. The computed gradient therefore does not depend on the
order of the rows, and its distance from the true gradient has the bound of `Penalised.gradient_error`, which holds for
every ``theta``. Where a method keeps its points as unevaluated sums of two doubles the gradient is that at the sum.

`Rows` are what a family of models makes of people (`hdpstats.families`); one `Penalised` objective serves all of them.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import ExactArray, FloatArray, IntArray
from hdpstats._base.work import Operations
from hdpstats.records.sandwich import SandwichPart

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
    def gradient(self, theta: FloatArray, rest: FloatArray | None = None) -> FloatArray:
        """Return the gradient (D,) at ``theta + rest``, an unevaluated sum with ``|rest| <= 2^-53 |theta|``."""

    @abstractmethod
    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (D, D), ridge included, to float accuracy."""

    def gradient_error(self, theta: FloatArray) -> float:  # noqa: ARG002
        """Return a bound on the Euclidean distance between `gradient` and the true gradient; 0 where none is known."""
        return 0.0

    def first_length(self, step: FloatArray) -> float:  # noqa: ARG002
        """Return the part of a Newton step that is tried first, at most 1."""
        return 1.0


class SumError(NamedTuple):
    """What the gradient of a sum of losses is off at most, but for what is rounded when the sum is converted.

    Attributes
    ----------
    summands : float
        The sum of what the summands are off, rounding to the grid included.
    steepest : float
        A bound on the sum of the summands' lengths.
    """

    summands: float
    steepest: float

    @classmethod
    def of(cls, per_row: FloatArray, *, dimension: int, grid_bits: int, steepest: float) -> "SumError":
        """Return the error of a sum whose summands (n,) are off by so much; rounding to the grid adds half a cell."""
        cells: float = 0.5 * len(per_row) * math.sqrt(dimension) * math.ldexp(1.0, -grid_bits)
        return cls(summands=float(np.sum(per_row)) + cells, steepest=steepest)

    def beside(self, sizes: float) -> float:
        """Return a bound on the error of a gradient; ``sizes`` are the lengths of ridge and perturbation in it.

        The sum of losses is converted and two numbers are added to it: three roundings (`SUMS`). The ridge is
        multiplied by two differences besides: five, for which 8 u are counted, as for the perturbation.
        """
        rounded = 8.0 * sizes + SUMS * self.steepest
        return (self.summands + UNIT * rounded) * (1.0 + 2.0**-20)


class Rows(ABC):
    """Rows of a model with their weighted losses: private people, public rows and weighted samples alike.

    Private rows are whitened and weighted, each by itself, and one person may have several. A sum of their losses can
    be formed, and what single people contribute to it; nothing else.
    """

    @property
    @abstractmethod
    def count(self) -> int:
        """How many people there are: of private ones never public but through noise, unless the relation says so."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """D, the number of coefficients."""

    @property
    @abstractmethod
    def grid_bits(self) -> int:
        """Gradients are sums of summands that are rounded to multiples of 2^-grid_bits."""

    @property
    @abstractmethod
    def mass(self) -> float:
        """The sum of the weights."""

    @abstractmethod
    def loss_gradient(self, theta: FloatArray, rest: FloatArray | None = None) -> ExactArray:
        """Return the gradient (D,) of the sum of losses in units of 2^-grid_bits, each summand rounded to it."""

    @abstractmethod
    def curvature(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (D, D) of the sum of losses, to float accuracy."""

    def rough_curvature(self, theta: FloatArray) -> FloatArray:
        """Return a matrix near it in less time, where there is one."""
        return self.curvature(theta)

    @abstractmethod
    def sum_error(self, theta: FloatArray) -> SumError:
        """Return what `loss_gradient` is off at most at ``theta``, or with any rest."""

    @abstractmethod
    def effect(self, direction: FloatArray) -> float:
        """Return the largest change of a linear predictor along a direction (D,)."""

    @abstractmethod
    def exact_loss_gradient(self, numbers: MPContext, theta: list[mpf]) -> list[mpf]:
        """Return the gradient of the sum of losses in the numbers of a context."""

    @abstractmethod
    def exact_sizes(self, size: float) -> float:
        """Return what relative rounding errors of `exact_loss_gradient` multiply, where ``||theta|| = size``."""

    @abstractmethod
    def scores(self, theta: FloatArray) -> FloatArray:
        """Return the gradient of each person's weighted loss (people, D)."""

    def cut_scores(self, theta: FloatArray, cut: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return `scores` (people, D) cut by a function of vectors (k, D), each by itself.

        A person's score is cut as a whole. Of regressions of people with several rows each row's is cut, and then
        multiplied by ``w(n)`` (`hdpstats.families.several_rows`).
        """
        return cut(self.scores(theta))

    @abstractmethod
    def losses(self, theta: FloatArray) -> FloatArray:
        """Return each person's weighted loss (people,), from that person alone, to the last bit.

        Only where the loss says that losses have values.
        """

    @abstractmethod
    def stacked_hessian(self, theta: FloatArray, *, grid: float) -> ExactArray:
        """Return the sum of the people's Hessians, stacked, each rounded to multiples of ``grid`` before it is added.

        The upper triangle, off-diagonal entries multiplied by the square root of two (D (D + 1) / 2,).
        """

    def stacked_sandwich(
        self,
        theta: FloatArray,  # noqa: ARG002
        part: SandwichPart,  # noqa: ARG002
        *,
        grids: tuple[float, float],  # noqa: ARG002
    ) -> tuple[ExactArray, ExactArray]:
        """Return the sums of the people's Hessians and squared scores, stacked, each person's cut to a norm.

        They are rounded to multiples of ``grids`` before they are added. Only where the loss releases them.
        """
        raise MechanismError("this family releases no sums of Hessians and squared scores")

    def penalised(
        self, *, ridge: FloatArray, centre: FloatArray | None = None, linear: FloatArray | None = None
    ) -> "Penalised":
        """Return the penalised, perturbed sum of losses; all arguments (D,), centre and perturbation 0 by default."""
        zeros = np.zeros(len(ridge))
        return Penalised(
            rows=self,
            ridge=ridge,
            centre=zeros if centre is None else centre,
            linear=zeros if linear is None else linear,
        )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class BoundedRows(Rows, ABC):
    """Rows whose contributions may have public bounds: sums over parts of them are then on a grid that no row moves.

    Attributes
    ----------
    bounds : RowBounds or None
        The bounds; None where the rows are read to find them.
    """

    bounds: RowBounds | None = None

    @property
    @abstractmethod
    def summands(self) -> int:
        """The number of rows, or spells, that gradients are sums over."""

    @property
    @abstractmethod
    def rough_rows(self) -> int:
        """How many of them a rough Hessian is of."""

    @abstractmethod
    def loss_hessian(self, theta: FloatArray, *, rows: int) -> IntArray:
        """Return what `hessian_of` makes the Hessian of the losses of the first rows of, exactly added."""

    @abstractmethod
    def hessian_of(self, sums: IntArray) -> FloatArray:
        """Return the Hessian (D, D) of a sum of losses from `loss_hessian`."""

    def curvature(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (D, D) of the sum of losses."""
        return self.hessian_of(self.loss_hessian(theta, rows=self.summands))

    def rough_curvature(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian of the first `rough_rows`, as if they were all, where there are many more."""
        rough = self.rough_rows
        if self.summands < 2 * rough:
            return self.curvature(theta)
        return np.asarray(self.hessian_of(self.loss_hessian(theta, rows=rough)) * (self.summands / rough))


@final
@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class Penalised(SmoothObjective):
    """A strongly convex sum of the losses of rows, whose minimiser can be certified.

    Attributes
    ----------
    rows : Rows
        Whose losses are summed.
    ridge, centre, linear : (D,) float64
        The diagonal of ``Lambda``, ``c`` and ``b``.
    """

    rows: Rows
    ridge: FloatArray
    centre: FloatArray
    linear: FloatArray

    @property
    def mass(self) -> float:
        """The sum of the weights."""
        return self.rows.mass

    def gradient(self, theta: FloatArray, rest: FloatArray | None = None) -> FloatArray:
        """Return the gradient (D,): an exact integer sum of rounded summands, plus ridge and perturbation.

        The sum becomes the nearest double.
        """
        total = np.ldexp(self.rows.loss_gradient(theta, rest).astype(np.float64), -self.rows.grid_bits)
        step = theta - self.centre
        return np.asarray(total + self.ridge * (step if rest is None else step + rest) + self.linear)

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (D, D), ridge included."""
        return np.asarray(self.rows.curvature(theta) + np.diag(self.ridge))

    def rough_hessian(self, theta: FloatArray) -> FloatArray:
        """Return a matrix near the Hessian (D, D) in less time, where there is one: good for a first step."""
        return np.asarray(self.rows.rough_curvature(theta) + np.diag(self.ridge))

    def gradient_error(self, theta: FloatArray) -> float:
        """Return a bound on the distance between `gradient` and the true gradient at ``theta``, or with any rest."""
        sizes = float(np.linalg.norm(self.ridge * (np.abs(theta) + np.abs(self.centre))))
        return self.rows.sum_error(theta).beside(sizes + float(np.linalg.norm(self.linear)))

    def penalty(self, theta: FloatArray) -> float:
        """Return the value of the ridge."""
        step = theta - self.centre
        return 0.5 * float(step @ (self.ridge * step))
