"""Private rows in partitions: sums of their losses, gradients and Hessians, added exactly.

What rows in memory give is given here of rows that are read again at each pass. A row's
part of a gradient is rounded to a grid that public bounds fix, its part of a Hessian to one that the number of all rows
fixes with them (`hdpstats.solvers.objective.RowBounds`), and integers are added: gradients and Hessians are those of
all rows in one table, to the last bit, and so is the point that a minimisation reaches by them. Only for numbers that
steer a search where the first one fails (`mass`, the bound of `sum_error`) partitions may matter in a last digit;
the certified accuracy holds for any of them.

Neither the ridge nor the perturbation leaves this process: a worker is sent coefficients, and returns integers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter, methodcaller
from typing import Any, Protocol, TypeVar, final

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.typing import ExactArray, FloatArray, IntArray
from hdpstats.records.sandwich import SandwichPart
from hdpstats.schema.partitions import Parts
from hdpstats.solvers.objective import BoundedRows, RowBounds, Rows, SumError, score_bits

T = TypeVar("T")
B = TypeVar("B", bound=BoundedRows)


class ReadOnce(Protocol):
    """Rows of a partition that give gradients as their `BoundedRows` do, in one pass over stored cells."""

    def loss_gradient(self, theta: FloatArray, rest: FloatArray | None = None) -> ExactArray:
        """Return the gradient (D,) of the sum of losses on the grid of all rows."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class PartedRows(Rows):
    """The rows of all partitions; ``bounds`` are those of a row, with the number of all rows.

    ``read_once`` gives the same gradients in less time; None where nothing does.
    """

    parts: Parts[BoundedRows]
    bounds: RowBounds
    read_once: Parts[ReadOnce] | None = None

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.parts.rows

    @property
    def dimension(self) -> int:
        """The number of coefficients."""
        return self._first.dimension

    @property
    def grid_bits(self) -> int:
        """The grid of all rows, which is that of each partition too."""
        return score_bits(self.bounds.summand)

    @property
    def mass(self) -> float:
        """The sum of the weights."""
        return float(self.parts.total(attrgetter("mass")))

    def loss_gradient(self, theta: FloatArray, rest: FloatArray | None = None) -> ExactArray:
        """Return the gradient (D,) of the sum of losses on the grid."""
        rows: Parts[Any] = self.parts if self.read_once is None else self.read_once
        return rows.total(methodcaller("loss_gradient", theta, rest))

    def curvature(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (D, D) of the sum of losses."""
        sums: IntArray = self.parts.total(partial(_hessian, theta))
        return self._first.hessian_of(sums)

    @property
    def _first(self) -> BoundedRows:
        """The rows of the first partition, for what is public in them."""
        return next(self.parts.here())

    def rough_curvature(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian of the losses of the first rows, as if they were all, where there are many more."""
        rough = self._first.rough_rows
        if self.bounds.rows < 2 * rough:
            return self.curvature(theta)
        taken, sums = 0, []
        for part in self.parts.here():
            sums.append(part.loss_hessian(theta, rows=min(rough - taken, part.summands)))
            taken += part.summands
            if taken >= rough:
                break
        return np.asarray(part.hessian_of(sum(sums[1:], sums[0])) * (self.bounds.rows / rough))

    def sum_error(self, theta: FloatArray) -> SumError:
        """Return what the gradient is off at most: the sum of those of partitions, each converted by itself."""
        return SumError(summands=float(self.parts.total(partial(_error, theta))), steepest=0.0)

    def effect(self, direction: FloatArray) -> float:
        """Return the largest change of a linear predictor along a direction (D,)."""
        return float(max(self.parts.map(methodcaller("effect", direction))))

    def exact_loss_gradient(self, numbers: MPContext, theta: list[mpf]) -> list[mpf]:
        """Return the gradient of the sum of losses in the numbers of a context; read in this process."""
        total = [numbers.mpf(0)] * len(theta)
        for part in self.parts.here():
            total = [t + own for t, own in zip(total, part.exact_loss_gradient(numbers, theta), strict=True)]
        return total

    def exact_sizes(self, size: float) -> float:
        """Return what relative rounding errors of `exact_loss_gradient` multiply, where ``||theta|| = size``.

        The sum of what the partitions have, each of which counts all rows as its own.
        """
        return float(self.parts.total(methodcaller("exact_sizes", size))) * (1.0 + 2.0**-20)

    def scores(self, theta: FloatArray) -> FloatArray:
        """Return the gradient of each person's weighted loss (people, D)."""
        return np.concatenate([people.scores(theta) for people in self.parts.here()])

    def losses(self, theta: FloatArray) -> FloatArray:
        """Return each person's weighted loss (people,)."""
        return np.concatenate([people.losses(theta) for people in self.parts.here()])

    def stacked_hessian(self, theta: FloatArray, *, grid: float) -> ExactArray:
        """Return the exact sum of the people's stacked Hessians, each rounded to multiples of ``grid``."""
        return self.parts.total(methodcaller("stacked_hessian", theta, grid=grid))

    def stacked_sandwich(
        self, theta: FloatArray, part: SandwichPart, *, grids: tuple[float, float]
    ) -> tuple[ExactArray, ExactArray]:
        """Return the exact sums of the people's cut Hessians and squared scores, in steps of grids."""
        both: ExactArray = self.parts.total(partial(_sandwich, theta, part, grids))
        hessian, scores = both
        return hessian, scores


def _hessian(theta: FloatArray, part: BoundedRows) -> IntArray:
    return part.loss_hessian(theta, rows=part.summands)


def _sandwich(theta: FloatArray, asked: SandwichPart, grids: tuple[float, float], part: BoundedRows) -> ExactArray:
    return np.stack(part.stacked_sandwich(theta, asked, grids=grids))


def _error(theta: FloatArray, part: BoundedRows) -> float:
    return part.sum_error(theta).beside(0.0)


def _on_one_grid(bounds: RowBounds, rows: BoundedRows) -> BoundedRows:
    """Return the rows of one partition on the grid of all rows."""
    return replace(rows, bounds=bounds)


def people_in_parts(
    rows: Parts[T],
    bounds: RowBounds,
    read_once: Callable[[RowBounds, T], ReadOnce] | None,
    parts: Parts[B],
) -> Rows:
    """Return the people of all partitions of private rows, of which ``parts`` are the rows of each.

    ``bounds`` are those of a row. ``read_once``, from them with the number of all rows and from a partition, gives
    gradients in less time.
    """
    whole = replace(bounds, rows=rows.rows)
    once = None if read_once is None else rows.each(partial(read_once, whole))
    return PartedRows(parts=parts.each(partial(_on_one_grid, whole)), bounds=whole, read_once=once)
