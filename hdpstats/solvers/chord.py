r"""Newton's method with Hessians that are kept for several steps, down to a public length of the gradient.

A step needs a gradient, which is certified, and a matrix, which need not be. The matrix of the first steps may be a
rough one (`Objective.rough_hessian`), and one near the minimiser serves until steps shrink too slowly: the gradient
falls by a factor of the order of the distance at which it was computed, several times, for a fraction of the work of
new Hessians.

Nothing here is trusted: a point counts where its computed gradient is no longer than ``near``, which certifies it
whatever led to it (`hdpstats.solvers.accelerated.Work`). Where a step does not shorten the gradient the method ends,
and another goes on. The work is bounded by `CHORD`.
"""

import numpy as np

from hdpstats._base.loops import full_length
from hdpstats._base.typing import FloatArray
from hdpstats.solvers.newton import WorkBudget, newton_step
from hdpstats.solvers.objective import Objective

CHORD = WorkBudget(hessians=6, gradients=24)
"""What is done at most: the first two Hessians are rough."""

SLOW = 0.1
"""A step that leaves more than this share of the gradient asks for a new Hessian."""

FAILED = 0.9
"""A step that leaves more than this ends the method."""

FARTHEST = 1e100
"""Predictors of whitened rows at points that are no longer do not overflow, so that bounds of rounding hold there.

Where they overflow a predictor may be no number, which losses take for one: the gradient would be short by chance."""


def approach(objective: Objective, *, start: FloatArray, near: float) -> tuple[FloatArray, bool]:
    """Return the last point whose gradient was shorter than those before, and whether it is no longer than ``near``.

    A rehearsal does all the work that may be done.
    """
    theta, gradient = start, objective.gradient(start)
    size, hessians, gradients, slow = float(np.linalg.norm(gradient)), 0, 1, True
    matrix = np.diag(objective.ridge)
    while not size <= near and gradients < CHORD.gradients:
        if slow and hessians < CHORD.hessians:
            matrix = objective.rough_hessian(theta) if hessians < 2 else objective.hessian(theta)
            hessians += 1
        candidate = theta - newton_step(matrix, gradient)
        if not float(np.linalg.norm(candidate)) <= FARTHEST:
            break
        moved = objective.gradient(candidate)
        gradients += 1
        left = float(np.linalg.norm(moved))
        if not left <= FAILED * size:
            break
        slow = hessians < 2 or left > SLOW * size
        theta, gradient, size = candidate, moved, left
    if full_length():
        _do_the_rest(objective, theta, gradient, hessians=hessians, gradients=gradients)
    return theta, size <= near


def _do_the_rest(
    objective: Objective, theta: FloatArray, gradient: FloatArray, *, hessians: int, gradients: int
) -> None:
    """Do the work that is left, for a rehearsal: its results are not used."""
    for k in range(hessians, CHORD.hessians):
        newton_step(objective.rough_hessian(theta) if k < 2 else objective.hessian(theta), gradient)
    for _ in range(gradients, CHORD.gradients):
        newton_step(np.diag(objective.ridge), gradient)
        objective.gradient(theta)
