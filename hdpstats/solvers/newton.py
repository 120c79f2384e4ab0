r"""Newton's method for a strongly convex objective, with a certified distance to the exact minimiser.

Strong convexity turns a gradient into a distance: with :math:`\lambda = \min_j \lambda_j > 0`,
:math:`\|\theta - \theta^*\| \le \|\nabla F(\theta)\| / \lambda`. The computed gradient plus its error bound
(`Penalised.gradient_error`) therefore certifies the computed solution, whatever path led to it.

How many steps the method takes depends on the rows. A private minimisation gives it a `WorkBudget`, and where that does
not suffice goes on with a method whose number of steps is public (`hdpstats.solvers.accelerated`).

**Kept Hessians.** `approach` keeps a Hessian for several steps, down to a public length of the gradient. A step needs a
gradient, which is certified, and a matrix, which need not be. The matrix of the first steps may be a rough one
(`Penalised.rough_hessian`), and one near the minimiser serves until steps shrink too slowly: the gradient falls by a
factor of the order of the distance at which it was computed, several times, for a fraction of the work of new Hessians.
What each step tells of the curvature along it is added to the matrix (`secant`): a step or two fewer at the end.

No step of it is trusted: a point counts where its computed gradient is no longer than ``near``, which certifies it
whatever led to it (`hdpstats.solvers.accelerated.Work`). Where a step does not shorten the gradient the method ends,
and another goes on. The work is bounded by `CHORD`.

**Growing precision.** `refine` is the certificate's last resort: the same minimiser, until the bound holds. Queries are
accepted only where float arithmetic surely reaches the accuracy that they need (`hdpstats.solvers.accelerated`). It is
for declarations that are false: more people than ``n_max``, so that the work for which the query was accepted does not
suffice. The guarantee must hold *surely* even then. So Newton's method continues on numbers of 2, 4, 8, ... times the
precision (mpmath). The gradient's error shrinks with the precision, and the iteration converges from anywhere:

* the step is damped by log(1 + s)/s, ``s`` being the step's largest effect on a linear predictor, which decreases every
  generalised self-concordant function (Sun and Tran-Dinh 2019, theorem 2);
* a step that overshoots nevertheless is halved;
* a step is lengthened while the objective, which is convex, still decreases along it.

So the objective decreases with every step but those, few, that halve the least gradient so far: the iteration cannot go
round where a gradient has kinks.

Every refinement has a context of its own (`hdpstats._base.precision`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import final

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.precision import numbers_of, two_sum
from hdpstats._base.rehearsal import full_length
from hdpstats._base.typing import FloatArray
from hdpstats._base.work import Operations
from hdpstats.solvers.objective import ObjectiveWork, Penalised, SmoothObjective


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class WorkBudget:
    """How much work may be done: Hessians, each with a certificate's error, and gradients after the first."""

    hessians: int
    gradients: int


AMPLE = WorkBudget(hessians=200, gradients=200 * 60)
"""For rows that are public."""

SMALL = WorkBudget(hessians=30, gradients=90)
"""For private rows: several times what ordinary fits take."""

SMALLEST_DECREASE = 1e-11
"""Expected decrease, relative to the objective's size, below which rounding hides it and the gradient decides alone."""


BISECTIONS = 12
FLAT = 0.01
"""How often a minimum along a step is bracketed more narrowly, and the share of a slope at which that is enough."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Solution:
    """A computed minimiser.

    Attributes
    ----------
    theta : (D,) float64
        Where the computation ended.
    gradient_norm : float
        A certified upper bound on the Euclidean norm of the true gradient at ``theta + rest``.
    radius : float
        A certified upper bound on ``||theta - theta*||``; infinite when some ridge is zero.
    rest : (D,) float64
        What is missing of the point at which the gradient was computed, an unevaluated sum.
    """

    theta: FloatArray
    gradient_norm: float
    radius: float
    rest: FloatArray


Point = tuple[FloatArray, FloatArray]
"""Coefficients (D,) as an unevaluated sum of two doubles: with one alone gradients come down to ``u L ||theta||``."""


def moved(point: Point, change: FloatArray) -> Point:
    """Return a point plus a change."""
    return two_sum(point[0], point[1] + change)


def minimise(objective: Penalised, *, start: FloatArray, budget: WorkBudget | None = None) -> Solution:
    """Minimise by Newton's method with backtracking, down to the floor of floating point or the end of the budget.

    Never raises on finite input: the last iterate is returned with its certificate, however large. Without a budget
    rows are taken to be public. A rehearsal does all the work of a budget.
    """
    with np.errstate(all="ignore"):
        descent = _Descent(objective, AMPLE if budget is None else budget)
        theta, rest = descent.run(start)
        if full_length() and budget is not None:
            descent.spend(theta)
        return certify(objective, theta, rest)


def minimise_work(of: ObjectiveWork, budget: WorkBudget) -> Operations:
    """Return what `minimise` takes at most: besides its budget a first gradient, one more step, and a certificate."""
    hessians, gradients = float(budget.hessians), float(budget.gradients)
    return of.of(gradients=gradients + hessians + 4.0, hessians=hessians, errors=hessians + 3.0, steps=hessians)


def newton(objective: SmoothObjective, *, start: FloatArray, budget: WorkBudget, tolerance: float) -> FloatArray:
    """Return where Newton's method ends: where a step would decrease the objective by no more than the tolerance."""
    return _Descent(objective, budget, tolerance=tolerance).run(start)[0]


def certify(objective: Penalised, theta: FloatArray, rest: FloatArray | None = None) -> Solution:
    """Return ``theta`` with certified bounds on the gradient at ``theta + rest`` and on its own distance."""
    rest = np.zeros_like(theta) if rest is None else rest
    norm = float(np.linalg.norm(objective.gradient(theta, rest))) * (1.0 + 2.0**-40)
    norm += objective.gradient_error(theta)
    weakest = float(np.min(objective.ridge, initial=math.inf))
    norm = norm if math.isfinite(norm) else math.inf
    radius = (norm / weakest + float(np.linalg.norm(rest))) * (1.0 + 2.0**-40) if weakest > 0 else math.inf
    return Solution(theta=theta, gradient_norm=norm, radius=radius, rest=rest)


class _Descent:
    """Newton steps, and the work that they have left."""

    def __init__(self, objective: SmoothObjective, budget: WorkBudget, *, tolerance: float | None = None) -> None:
        self._objective, self._tolerance = objective, tolerance
        self._hessians, self._gradients = budget.hessians, budget.gradients

    def run(self, start: FloatArray) -> Point:
        """Return where the steps end."""
        objective = self._objective
        point: Point = start, np.zeros_like(start)
        gradient = self._gradient(point)
        least = float(np.linalg.norm(gradient))
        while self._hessians and self._gradients:
            self._hessians -= 1
            step = newton_step(objective.hessian(point[0]), gradient)
            if self._tolerance is not None and 0.5 * float(gradient @ step) <= self._tolerance:
                break
            candidate, ahead = self._advance(point, step, least)
            visible = float(gradient @ step) > SMALLEST_DECREASE * max(1.0, objective.mass)
            if not visible and not np.linalg.norm(ahead) < np.linalg.norm(gradient):
                break
            point, gradient = candidate, ahead
            least = min(least, float(np.linalg.norm(gradient)))
            if self._tolerance is None and np.linalg.norm(gradient) <= objective.gradient_error(point[0]):
                break
        return point

    def _gradient(self, point: Point) -> FloatArray:
        return self._objective.gradient(*point)

    def spend(self, theta: FloatArray) -> None:
        """Do the work that is left, for nothing."""
        objective, gradient = self._objective, self._objective.gradient(theta)
        objective.gradient_error(theta)
        for _ in range(self._hessians):
            newton_step(objective.hessian(theta), gradient)
            objective.gradient_error(theta)
        for _ in range(self._gradients):
            objective.gradient(theta)

    def _advance(self, point: Point, step: FloatArray, least: float) -> tuple[Point, FloatArray]:
        """Return the next point and its gradient: the full step or, if that overshoots, the lowest point along it.

        The objective is convex, so a slope that is still downhill means a decrease. Steps that overshoot are taken
        where they halve the least gradient so far: near a minimiser they do, and as they can do so a few times only, no
        kink of the gradient makes the iteration go round. Else the step is halved, then its minimum bracketed: where a
        gradient is piecewise linear that leads to its next piece.
        """

        def at(length: float) -> tuple[Point, FloatArray, float]:
            self._gradients -= 1
            candidate = moved(point, -length * step)
            gradient = self._gradient(candidate)
            return candidate, gradient, float(gradient @ step)

        first = low = self._objective.first_length(step)
        candidate, gradient, ahead = at(low)
        while ahead < 0.0 and float(np.linalg.norm(gradient)) > 0.5 * least and low > 2.0**-40 and self._gradients:
            low *= 0.5
            candidate, gradient, ahead = at(low)
        high, flat = 2.0 * low, FLAT * ahead
        for _ in range(min(BISECTIONS, self._gradients) if low < first and ahead > 0.0 else 0):
            middle = 0.5 * (low + high)
            further, there, slope = at(middle)
            if slope < 0.0:
                high = middle
                continue
            low, candidate, gradient = middle, further, there
            if slope <= flat:
                break
        return candidate, gradient


def newton_step(hessian: FloatArray, gradient: FloatArray) -> FloatArray:
    """Return ``H^-1 g`` from scaled eigenvalues, the smallest kept above rounding: never raises on finite input.

    Diagonals that rounding made negative are not scaled: else a number overflows.
    """
    diagonal = np.diag(hessian)
    scale = 1.0 / np.sqrt(np.where(diagonal < 0.0, 1.0, np.maximum(diagonal, np.finfo(float).tiny)))
    scaled = hessian * scale[:, None] * scale[None, :]
    eigenvalues, vectors = np.linalg.eigh(scaled)
    kept = np.maximum(eigenvalues, 1e-14 * eigenvalues[-1])
    step: FloatArray = scale * (vectors @ ((vectors.T @ (scale * gradient)) / kept))
    return step


def secant(matrix: FloatArray, step: FloatArray, change: FloatArray) -> FloatArray:
    """Return the positive definite matrix near one (D, D) that maps a step to the change of the gradient (BFGS).

    It is the matrix itself where the gradient does not rise along the step.
    """
    mapped = matrix @ step
    along, rises = float(step @ mapped), float(step @ change)
    if not (along > 0.0 and rises > 0.0):
        return matrix
    return np.asarray(matrix - np.outer(mapped, mapped) / along + np.outer(change, change) / rises)


CHORD = WorkBudget(hessians=6, gradients=24)
"""What is done at most: the first two Hessians are rough."""

SLOW = 0.1
"""A step that leaves more than this share of the gradient asks for a new Hessian."""

FAILED = 0.9
"""A step that leaves more than this ends the method."""

FARTHEST = 1e100
"""Predictors of whitened rows at points that are no longer do not overflow, so that bounds of rounding hold there.

Where they overflow a predictor may be no number, which losses take for one: the gradient would be short by chance."""


def approach(objective: Penalised, *, start: FloatArray, near: float) -> tuple[FloatArray, bool]:
    """Return the last point whose gradient was shorter than those before, and whether it is no longer than ``near``.

    Gradients are those of unevaluated sums, of which the first part is returned. A rehearsal does all the work that may
    be done.
    """
    point: Point = start, np.zeros_like(start)
    gradient = objective.gradient(*point)
    size, hessians, gradients, slow = float(np.linalg.norm(gradient)), 0, 1, True
    matrix = np.diag(objective.ridge)
    while not size <= near and gradients < CHORD.gradients:
        if slow and hessians < CHORD.hessians:
            matrix = objective.rough_hessian(point[0]) if hessians < 2 else objective.hessian(point[0])
            hessians += 1
        step = -newton_step(matrix, gradient)
        candidate = moved(point, step)
        if not float(np.linalg.norm(candidate[0])) <= FARTHEST:
            break
        ahead = objective.gradient(*candidate)
        gradients += 1
        left = float(np.linalg.norm(ahead))
        if not left <= FAILED * size:
            break
        slow = hessians < 2 or left > SLOW * size
        matrix = secant(matrix, step, ahead - gradient)
        point, gradient, size = candidate, ahead, left
    if full_length():
        _do_the_rest(objective, point[0], gradient, hessians=hessians, gradients=gradients)
    return point[0], size <= near


def approach_work(of: ObjectiveWork) -> Operations:
    """Return what `approach` takes at most."""
    gradients, hessians = float(CHORD.gradients), float(CHORD.hessians)
    return of.of(gradients=gradients + 2.0, hessians=hessians, errors=0.0, steps=gradients + hessians)


def _do_the_rest(
    objective: Penalised, theta: FloatArray, gradient: FloatArray, *, hessians: int, gradients: int
) -> None:
    """Do the work that is left, for a rehearsal: its results are not used."""
    for k in range(hessians, CHORD.hessians):
        newton_step(objective.rough_hessian(theta) if k < 2 else objective.hessian(theta), gradient)
    for _ in range(gradients, CHORD.gradients):
        newton_step(np.diag(objective.ridge), gradient)
        objective.gradient(theta)


Gradient = Callable[[list[mpf]], list[mpf]]

DIGITS = 106
"""Bits of the first refinement: twice binary64."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ExactSolution:
    """A point as exact rationals, and a certified bound on its distance from the exact minimiser."""

    theta: tuple[Fraction, ...]
    radius: Fraction


def refine(
    objective: Penalised, *, start: FloatArray, radius: Fraction, linear: Sequence[Fraction] | None = None
) -> ExactSolution:
    """Return a point certified to lie within ``radius`` of the minimiser.

    ``linear`` is the perturbation as exact numbers, where doubles may not hold it; the objective's own by default.
    """
    exact = [Fraction(value) for value in objective.linear.tolist()] if linear is None else list(linear)
    numbers = numbers_of(DIGITS)
    theta = [numbers.mpf(float(value)) for value in start]
    while True:
        gradient = partial(_gradient, numbers, objective, [_number(numbers, value) for value in exact])
        theta, reached = _newton(numbers, objective, gradient, theta, radius)
        if reached <= radius:
            return ExactSolution(theta=tuple(_rational(value) for value in theta), radius=reached)
        numbers.prec *= 2


def _newton(
    numbers: MPContext, objective: Penalised, gradient_at: Gradient, theta: list[mpf], radius: Fraction
) -> tuple[list[mpf], Fraction]:
    """Iterate until the certificate holds or the gradient is no larger than its rounding at the present precision."""
    weakest = float(np.min(objective.ridge))
    gradient = gradient_at(theta)
    least = _norm(numbers, gradient)
    while True:
        norm, error = _norm(numbers, gradient), _gradient_error(numbers, objective, theta)
        least = min(least, norm)
        reached = _rational((norm + error) / numbers.mpf(weakest) * (1 + numbers.mpf(2) ** -40))
        if reached <= radius or norm <= error:
            return theta, reached
        step, length = _step(objective, theta, gradient, norm)
        theta, gradient = _descend(numbers, gradient_at, theta, step, least, length)


def _descend(
    numbers: MPContext, gradient_at: Gradient, theta: list[mpf], step: list[mpf], least: mpf, length: float
) -> tuple[list[mpf], list[mpf]]:
    """Return the next point and its gradient: the damped step, halved while it overshoots, else lengthened.

    A step that overshoots is taken where it halves ``least``, the least norm of a gradient so far. It is doubled, up to
    the full one, while that leads downhill.
    """

    def reach(length: float) -> tuple[list[mpf], list[mpf], mpf]:
        point = [value - length * change for value, change in zip(theta, step, strict=True)]
        gradient = gradient_at(point)
        return point, gradient, sum(g * change for g, change in zip(gradient, step, strict=True))

    point, gradient, ahead = reach(length)
    while ahead < 0 and _norm(numbers, gradient) > least / 2:
        length *= 0.5
        point, gradient, ahead = reach(length)
    while length < 1.0 and ahead > 0:
        length = min(1.0, 2.0 * length)
        further, there, ahead = reach(length)
        if ahead > 0:
            point, gradient = further, there
    return point, gradient


def _step(objective: Penalised, theta: list[mpf], gradient: list[mpf], norm: mpf) -> tuple[list[mpf], float]:
    """Return Newton's step, its direction computed in doubles, and its damping."""
    point = np.array([float(value) for value in theta])
    unit = np.array([float(value / norm) for value in gradient])
    with np.errstate(all="ignore"):
        direction = newton_step(objective.hessian(point), unit)
    effect = float(norm) * objective.rows.effect(direction)
    return [norm * float(d) for d in direction], math.log1p(effect) / effect if effect > 1e-12 else 1.0


def _norm(numbers: MPContext, vector: list[mpf]) -> mpf:
    return numbers.sqrt(sum((value * value for value in vector), numbers.mpf(0)))


def _gradient(numbers: MPContext, objective: Penalised, linear: list[mpf], theta: list[mpf]) -> list[mpf]:
    return [
        t + float(r) * (value - float(c)) + b
        for t, r, value, c, b in zip(
            objective.rows.exact_loss_gradient(numbers, theta),
            objective.ridge,
            theta,
            objective.centre,
            linear,
            strict=True,
        )
    ]


def _gradient_error(numbers: MPContext, objective: Penalised, theta: list[mpf]) -> mpf:
    """Bound the rounding of `_gradient`: every operation errs by 2^-precision relatively."""
    size = float(_norm(numbers, theta))
    sizes = float(np.linalg.norm(objective.ridge)) * (size + float(np.linalg.norm(objective.centre)))
    sizes += float(np.linalg.norm(objective.linear))
    return numbers.mpf(2) ** (4 - numbers.prec) * numbers.mpf(
        objective.rows.exact_sizes(size) + (len(theta) + 8) * sizes
    )


def _number(numbers: MPContext, value: Fraction) -> mpf:
    return numbers.mpf(value.numerator) / value.denominator


def _rational(value: mpf) -> Fraction:
    if not value.context.isfinite(value):
        raise ArithmeticError("NaN and infinities certify nothing")
    sign, mantissa, exponent, _ = value._mpf_
    number = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return -number if sign else number
