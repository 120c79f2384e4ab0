r"""The certificate's last resort: the same minimiser in growing precision, until the bound holds.

Queries are accepted only where float arithmetic surely reaches the accuracy that they need
(`hdpstats.solvers.accelerated`). This module is for declarations that are false: more people than ``n_max``, so that
the work for which the query was accepted does not suffice. The guarantee must hold *surely* even then. So Newton's
method continues on numbers of 2, 4, 8, ... times the precision (mpmath), where the gradient's error shrinks with the
precision while the iteration converges from anywhere: the step is damped by log(1 + s)/s, ``s`` being the step's
largest effect on a linear predictor, which decreases every generalised self-concordant function (Sun and Tran-Dinh
2019, theorem 2); should it overshoot nevertheless it is halved, and it is lengthened while the objective, convex, still
decreases along it. So the objective decreases with every step but those, few, that halve the least gradient so far: the
iteration cannot go round where a gradient has kinks.

Precision belongs to a context, and every refinement has a context of its own: mpmath's global one is shared by all
threads. Constants (pi, log 2) are kept by mpmath for all contexts in two variables that are not written at once; they
are computed here, when the module is loaded, to more digits than are ever asked for.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import final

import numpy as np
from mpmath import MPContext, mpf
from mpmath.libmp import ln2_fixed, pi_fixed

from hdpstats._base.typing import FloatArray
from hdpstats.solvers.newton import newton_step
from hdpstats.solvers.objective import Objective

Gradient = Callable[[list[mpf]], list[mpf]]

DIGITS = 106
"""Bits of the first refinement: twice binary64."""

MOST_DIGITS = 2**14
"""Bits to which constants are computed beforehand."""

ln2_fixed(MOST_DIGITS)
pi_fixed(MOST_DIGITS)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ExactSolution:
    """A point as exact rationals, and a certified bound on its distance from the exact minimiser."""

    theta: tuple[Fraction, ...]
    radius: Fraction


def refine(
    objective: Objective, *, start: FloatArray, radius: Fraction, linear: Sequence[Fraction] | None = None
) -> ExactSolution:
    """Return a point certified to lie within ``radius`` of the minimiser.

    ``linear`` is the perturbation as exact numbers, where doubles may not hold it; the objective's own by default.
    """
    exact = [Fraction(value) for value in objective.linear.tolist()] if linear is None else list(linear)
    numbers = MPContext()
    numbers.prec = DIGITS
    theta = [numbers.mpf(float(value)) for value in start]
    while True:
        gradient = partial(_gradient, numbers, objective, [_number(numbers, value) for value in exact])
        theta, reached = _newton(numbers, objective, gradient, theta, radius)
        if reached <= radius:
            return ExactSolution(theta=tuple(_rational(value) for value in theta), radius=reached)
        numbers.prec *= 2


def _newton(
    numbers: MPContext, objective: Objective, gradient_at: Gradient, theta: list[mpf], radius: Fraction
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


def _step(objective: Objective, theta: list[mpf], gradient: list[mpf], norm: mpf) -> tuple[list[mpf], float]:
    """Return Newton's step, its direction computed in doubles, and its damping."""
    point = np.array([float(value) for value in theta])
    unit = np.array([float(value / norm) for value in gradient])
    with np.errstate(all="ignore"):
        direction = newton_step(objective.hessian(point), unit)
    effect = float(norm) * objective.effect(direction)
    return [norm * float(d) for d in direction], math.log1p(effect) / effect if effect > 1e-12 else 1.0


def _norm(numbers: MPContext, vector: list[mpf]) -> mpf:
    return numbers.sqrt(sum((value * value for value in vector), numbers.mpf(0)))


def _gradient(numbers: MPContext, objective: Objective, linear: list[mpf], theta: list[mpf]) -> list[mpf]:
    return [
        t + float(r) * (value - float(c)) + b
        for t, r, value, c, b in zip(
            objective.exact_loss_gradient(numbers, theta), objective.ridge, theta, objective.centre, linear, strict=True
        )
    ]


def _gradient_error(numbers: MPContext, objective: Objective, theta: list[mpf]) -> mpf:
    """Bound the rounding of `_gradient`: every operation errs by 2^-precision relatively."""
    size = float(_norm(numbers, theta))
    sizes = float(np.linalg.norm(objective.ridge)) * (size + float(np.linalg.norm(objective.centre)))
    sizes += float(np.linalg.norm(objective.linear))
    return numbers.mpf(2) ** (4 - numbers.prec) * numbers.mpf(objective.exact_sizes(size) + (len(theta) + 8) * sizes)


def _number(numbers: MPContext, value: Fraction) -> mpf:
    return numbers.mpf(value.numerator) / value.denominator


def _rational(value: mpf) -> Fraction:
    if not value.context.isfinite(value):
        raise ArithmeticError("NaN and infinities certify nothing")
    sign, mantissa, exponent, _ = value._mpf_
    number = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return -number if sign else number
