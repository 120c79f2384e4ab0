r"""The minimiser of a strongly convex objective on a lattice inside a box, certified by its gradient.

At a lattice point ``k`` of a box ``|k_j| <= K_j`` write ``a_j >= 0`` for the slope into the box where ``k_j`` lies on
its boundary and the objective rises from there, and 0 elsewhere. By convexity, for other points at distances ``t``,

.. math:: F(k + t) - F(k) \ge \sum_j a_j |t_j| + \tfrac{\lambda}{2} \|t\|^2 - v, \qquad v = \sum_j (|g_j| - a_j)\,w_j,

``g`` being the gradient and ``w`` the widths of the box: ``v`` says what the point lacks to be the minimiser.

Projected gradient steps converge to the minimiser from anywhere (Nesterov 2004, section 2.2.3). Newton steps in the
coordinates that are free are taken where they halve ``v``.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.solvers.newton import minimise, newton_step
from hdpstats.solvers.objective import Objective


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """The lattice points ``(origin + k) grid`` with ``|k_j| <= steps_j``, (D,) each; ``grid`` is a power of two."""

    origin: tuple[int, ...]
    steps: tuple[int, ...]
    grid: float

    @property
    def corner(self) -> FloatArray:
        """The largest ``k`` (D,)."""
        return np.array(self.steps, dtype=np.float64)

    def at(self, k: FloatArray) -> FloatArray:
        """Return coefficients (D,): exact while integers stay below 2^53."""
        return np.asarray((np.array(self.origin, dtype=np.float64) + k) * self.grid)

    def nearest(self, theta: FloatArray) -> FloatArray:
        """Return the lattice point ``k`` (D,) nearest to coefficients."""
        places = np.rint(theta / self.grid - np.array(self.origin, dtype=np.float64))
        return np.asarray(np.clip(places, -self.corner, self.corner))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LatticeMinimum:
    """A lattice point ``k`` with the slopes ``a`` into the box there, (D,) each."""

    k: tuple[int, ...]
    slopes: tuple[float, ...]


def lattice_minimum(objective: Objective, box: Box, *, smoothness: float, lacking: float) -> LatticeMinimum:
    """Return a lattice point that lacks at most ``lacking``, float errors included.

    Parameters
    ----------
    objective
        The function, its ridge the same in all coordinates.
    box
        The lattice.
    smoothness
        A bound on the largest eigenvalue of its Hessian.
    lacking
        Above what the lattice and float arithmetic can reach: ``smoothness sqrt(D) grid`` and `gradient_error`, times
        the sum of the widths, several times over.
    """
    lower, upper = box.at(-box.corner), box.at(box.corner)
    theta = np.clip(minimise(objective, start=0.5 * (lower + upper)).theta, lower, upper)
    theta = np.where(np.isfinite(theta), theta, 0.5 * (lower + upper))
    best = np.inf
    while True:
        k = box.nearest(theta)
        slopes, lack = _lack(objective, box, k)
        if lack <= lacking:
            return LatticeMinimum(k=tuple(int(value) for value in k), slopes=tuple(slopes.tolist()))
        gradient = objective.gradient(theta)
        free = ~(((theta <= lower) & (gradient > 0.0)) | ((theta >= upper) & (gradient < 0.0)))
        best = min(best, lack)
        tried = np.asarray(np.clip(theta - _free_step(objective, theta, gradient, free), lower, upper))
        if _lack(objective, box, box.nearest(tried))[1] <= 0.5 * best:
            theta = tried
        else:
            theta = np.clip(theta - gradient / smoothness, lower, upper)


def _lack(objective: Objective, box: Box, k: FloatArray) -> tuple[FloatArray, float]:
    """Return the slopes into the box at a lattice point, and what it lacks, float errors included."""
    theta = box.at(k)
    gradient, error = objective.gradient(theta), objective.gradient_error(theta)
    inwards = np.where(k <= -box.corner, gradient, np.where(k >= box.corner, -gradient, 0.0))
    slopes = np.asarray(np.maximum(inwards, 0.0))
    widths = 2.0 * box.corner * box.grid
    return slopes, float((np.abs(gradient) - slopes + error) @ widths) * (1.0 + 2.0**-20)


def _free_step(objective: Objective, theta: FloatArray, gradient: FloatArray, free: BoolArray) -> FloatArray:
    """Return Newton's step in the free coordinates, 0 in the others."""
    step, places = np.zeros_like(theta), np.flatnonzero(free)
    if len(places):
        step[places] = newton_step(objective.hessian(theta)[np.ix_(places, places)], gradient[places])
    return step
