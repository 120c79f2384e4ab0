r"""The certificate's last resort: the same minimiser in growing precision, until the bound holds.

Float arithmetic meets the accuracy that the mechanisms ask for in every run that was ever seen. The proof,
however, must hold *surely*. So when the float certificate is too large, Newton's method continues on numbers of
2, 4, 8, ... times the precision (mpmath), where the gradient's error shrinks with the precision while the
iteration converges from anywhere: the step is damped by log(1 + s)/s, ``s`` being the step's largest effect on a
linear predictor, which decreases every generalised self-concordant function (Sun and Tran-Dinh 2019, theorem 2);
should it overshoot nevertheless it is halved, and it is lengthened while the objective, convex, still decreases along
it. So the objective decreases with every step but those, few, that halve the least gradient so far: the iteration
cannot go round where a gradient has kinks.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import final

import mpmath
import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.solvers.newton import newton_step
from hdpstats.solvers.objective import Objective

Gradient = Callable[[list[mpmath.mpf]], list[mpmath.mpf]]

DIGITS = 106
"""Bits of the first refinement: twice binary64."""


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
    bits = DIGITS
    theta = [mpmath.mpf(float(value)) for value in start]
    while True:
        with mpmath.workprec(bits):
            gradient = partial(_gradient, objective, [_number(value) for value in exact])
            theta, reached = _newton(objective, gradient, theta, radius, bits)
            if reached <= radius:
                return ExactSolution(theta=tuple(_rational(value) for value in theta), radius=reached)
        bits *= 2


def _newton(
    objective: Objective, gradient_at: Gradient, theta: list[mpmath.mpf], radius: Fraction, bits: int
) -> tuple[list[mpmath.mpf], Fraction]:
    """Iterate until the certificate holds or the gradient cannot be told from its rounding at the present precision."""
    weakest = float(np.min(objective.ridge))
    gradient = gradient_at(theta)
    least = _norm(gradient)
    while True:
        norm, error = _norm(gradient), _gradient_error(objective, theta, bits)
        least = min(least, norm)
        reached = _rational((norm + error) / mpmath.mpf(weakest) * (1 + mpmath.mpf(2) ** -40))
        if reached <= radius or norm <= error:
            return theta, reached
        step, length = _step(objective, theta, gradient, norm)
        theta, gradient = _descend(gradient_at, theta, step, least, length)


def _descend(
    gradient_at: Gradient, theta: list[mpmath.mpf], step: list[mpmath.mpf], least: mpmath.mpf, length: float
) -> tuple[list[mpmath.mpf], list[mpmath.mpf]]:
    """Return the next point and its gradient: the damped step, halved while it overshoots, else lengthened.

    A step that overshoots is taken where it halves ``least``, the least norm of a gradient so far. It is doubled, up to
    the full one, while that leads downhill.
    """

    def reach(length: float) -> tuple[list[mpmath.mpf], list[mpmath.mpf], mpmath.mpf]:
        point = [value - length * change for value, change in zip(theta, step, strict=True)]
        gradient = gradient_at(point)
        return point, gradient, sum(g * change for g, change in zip(gradient, step, strict=True))

    point, gradient, ahead = reach(length)
    while ahead < 0 and _norm(gradient) > least / 2:
        length *= 0.5
        point, gradient, ahead = reach(length)
    while length < 1.0 and ahead > 0:
        length = min(1.0, 2.0 * length)
        further, there, ahead = reach(length)
        if ahead > 0:
            point, gradient = further, there
    return point, gradient


def _step(
    objective: Objective, theta: list[mpmath.mpf], gradient: list[mpmath.mpf], norm: mpmath.mpf
) -> tuple[list[mpmath.mpf], float]:
    """Return Newton's step, its direction computed in doubles, and its damping."""
    point = np.array([float(value) for value in theta])
    unit = np.array([float(value / norm) for value in gradient])
    with np.errstate(all="ignore"):
        direction = newton_step(objective.hessian(point), unit)
    effect = float(norm) * objective.effect(direction)
    return [norm * float(d) for d in direction], math.log1p(effect) / effect if effect > 1e-12 else 1.0


def _norm(vector: list[mpmath.mpf]) -> mpmath.mpf:
    return mpmath.sqrt(sum((value * value for value in vector), mpmath.mpf(0)))


def _gradient(objective: Objective, linear: list[mpmath.mpf], theta: list[mpmath.mpf]) -> list[mpmath.mpf]:
    return [
        t + float(r) * (value - float(c)) + b
        for t, r, value, c, b in zip(
            objective.exact_loss_gradient(theta), objective.ridge, theta, objective.centre, linear, strict=True
        )
    ]


def _gradient_error(objective: Objective, theta: list[mpmath.mpf], bits: int) -> mpmath.mpf:
    """Bound the rounding of `_gradient`: every operation errs by 2^-bits relatively."""
    size = float(mpmath.sqrt(sum(value * value for value in theta))) if theta else 0.0
    sizes = float(np.linalg.norm(objective.ridge)) * (size + float(np.linalg.norm(objective.centre)))
    sizes += float(np.linalg.norm(objective.linear))
    return mpmath.mpf(2) ** (4 - bits) * mpmath.mpf(objective.exact_sizes(size) + (len(theta) + 8) * sizes)


def _number(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def _rational(value: mpmath.mpf) -> Fraction:
    if not mpmath.isfinite(value):
        raise ArithmeticError("NaN and infinities certify nothing")
    sign, mantissa, exponent, _ = mpmath.mpf(value)._mpf_
    number = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return -number if sign else number
