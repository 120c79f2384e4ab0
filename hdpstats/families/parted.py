"""Private people in partitions: sums of their losses, gradients and Hessians, added exactly.

What `People` in memory give is given here of people who are read again at each pass. A person's
part of a gradient is rounded to a grid that public bounds fix, its part of a Hessian to one that the number of all rows
fixes with them (`hdpstats.solvers.objective.RowBounds`), and integers are added: gradients and Hessians are those of
all rows in one table, to the last bit, and so is the point that a minimisation reaches by them. Only for numbers that
steer a search where the first one fails (`mass`, the bound of `gradient_error`) partitions may matter in a last digit;
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
from hdpstats.families.base import People
from hdpstats.families.hazard.rows import HazardObjective
from hdpstats.families.regression.rows import LinearObjective
from hdpstats.schema.partitions import Parts
from hdpstats.solvers.objective import UNIT, RowBounds, SumObjective, score_bits

T = TypeVar("T")


BoundedObjective = LinearObjective | HazardObjective
"""Sums of losses whose contributions have public bounds, so that they are added on a grid that no row moves."""


class BoundedPeople(Protocol):
    """People with such a sum."""

    def objective(self, *, ridge: FloatArray, centre: FloatArray, linear: FloatArray) -> BoundedObjective:
        """Return the sum of losses."""


class ReadOnce(Protocol):
    """Rows of a partition that give gradients as their `BoundedObjective` does, in one pass over stored cells."""

    def loss_gradient(self, theta: FloatArray, rest: FloatArray | None = None) -> ExactArray:
        """Return the gradient (D,) of the sum of losses on the grid of all rows."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class PartedPeople(People):
    """The people of all partitions; ``bounds`` are those of a row, with the number of all rows.

    ``read_once`` gives the same gradients in less time; None where nothing does.
    """

    parts: Parts[People]
    bounds: RowBounds
    read_once: Parts[ReadOnce] | None = None

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.parts.rows

    def objective(self, *, ridge: FloatArray, centre: FloatArray, linear: FloatArray) -> "PartedObjective":
        """Return the penalised, perturbed sum of losses."""
        parts = self.parts.each(partial(_losses_of, self.bounds, len(centre)))
        return PartedObjective(
            parts=parts, bounds=self.bounds, read_once=self.read_once, ridge=ridge, centre=centre, linear=linear
        )

    def scores(self, theta: FloatArray) -> FloatArray:
        """Return the gradient of each person's weighted loss (people, D)."""
        return np.concatenate([people.scores(theta) for people in self.parts.here()])

    def losses(self, theta: FloatArray) -> FloatArray:
        """Return each person's weighted loss (people,)."""
        return np.concatenate([people.losses(theta) for people in self.parts.here()])

    def stacked_hessian(self, theta: FloatArray, *, grid: float) -> ExactArray:
        """Return the exact sum of the people's stacked Hessians, each rounded to multiples of ``grid``."""
        return self.parts.total(methodcaller("stacked_hessian", theta, grid=grid))


def _losses_of(bounds: RowBounds, dimension: int, people: BoundedPeople) -> BoundedObjective:
    """Return the sum of the losses of one partition on the grid of all rows, without ridge and perturbation."""
    zeros = np.zeros(dimension)
    return replace(people.objective(ridge=zeros, centre=zeros, linear=zeros), bounds=bounds)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PartedObjective(SumObjective):
    """The function to minimise: a sum over partitions; ``bounds.rows`` is the number of all rows."""

    parts: Parts[BoundedObjective]
    bounds: RowBounds
    read_once: Parts[ReadOnce] | None = None

    def __post_init__(self) -> None:
        """Choose the grid of all rows, which the objective of each partition chooses too."""
        object.__setattr__(self, "grid_bits", score_bits(self.bounds.summand))

    @property
    def mass(self) -> float:
        """The sum of the weights."""
        return float(self.parts.total(attrgetter("mass")))

    def loss_gradient(self, theta: FloatArray, rest: FloatArray | None = None) -> ExactArray:
        """Return the gradient (D,) of the sum of losses on the grid."""
        rows: Parts[Any] = self.parts if self.read_once is None else self.read_once
        return rows.total(methodcaller("loss_gradient", theta, rest))

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (D, D), ridge included."""
        sums: IntArray = self.parts.total(partial(_hessian, theta))
        return self._first.hessian_of(sums) + np.diag(self.ridge)

    @property
    def _first(self) -> BoundedObjective:
        """The objective of the first partition, for what is public in it."""
        return next(self.parts.here())

    def rough_hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian of the first rows, as if they were all, where there are many more."""
        rough = self._first.rough_rows
        if self.bounds.rows < 2 * rough:
            return self.hessian(theta)
        taken, sums = 0, []
        for part in self.parts.here():
            sums.append(part.loss_hessian(theta, rows=min(rough - taken, part.rows)))
            taken += part.rows
            if taken >= rough:
                break
        return part.hessian_of(sum(sums[1:], sums[0])) * (self.bounds.rows / rough) + np.diag(self.ridge)

    def gradient_error(self, theta: FloatArray) -> float:
        """Return a bound on the distance between `gradient` and the true gradient: the sum of those of partitions.

        Those have no ridge and no perturbation, whose part of `SumObjective.summed_error` is added here.
        """
        sizes = float(np.linalg.norm(self.ridge * (np.abs(theta) + np.abs(self.centre))))
        sizes += float(np.linalg.norm(self.linear))
        return float(self.parts.total(methodcaller("gradient_error", theta)) + 8.0 * UNIT * sizes) * (1.0 + 2.0**-20)

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

        The sum of what the partitions' objectives have, each of which counts all rows as its own.
        """
        return float(self.parts.total(methodcaller("exact_sizes", size))) * (1.0 + 2.0**-20)


def _hessian(theta: FloatArray, part: BoundedObjective) -> IntArray:
    return part.loss_hessian(theta, rows=part.rows)


def people_in_parts(
    rows: Parts[T],
    bounds: RowBounds,
    read_once: Callable[[RowBounds, T], ReadOnce] | None,
    parts: Parts[People],
) -> People:
    """Return the people of all partitions of private rows, of which ``parts`` are the people of each.

    ``bounds`` are those of a row. ``read_once``, from them with the number of all rows and from a partition, gives
    gradients in less time.
    """
    whole = replace(bounds, rows=rows.rows)
    once = None if read_once is None else rows.each(partial(read_once, whole))
    return PartedPeople(parts=parts, bounds=whole, read_once=once)
