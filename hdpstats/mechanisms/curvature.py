r"""A noisy Hessian at released coefficients: the price of standard errors without public rows.

The query is the upper triangle of :math:`\sum_i \nabla^2\ell_i(\theta)` with off-diagonal entries multiplied by the
square root of two, so that its Euclidean norm is the Frobenius norm of the matrix.

Guarantee: epsilon-DP. One person contributes a positive semidefinite matrix of trace, hence Frobenius norm, at most
``B`` (`PersonLoss.trace`). For two such matrices ``||H - H'||_F^2 = ||H||^2 + ||H'||^2 - 2 tr(H H') <= 2 B^2``: the
sensitivity is ``sqrt(2) B`` where a person is replaced (attained by orthogonal rows) and ``B`` where one is added or
removed. Every person's contribution is rounded to a grid *before* integers are added, so the sum is exact and rounding
adds at most ``sqrt(k)`` grid steps for ``k`` entries. ``theta`` is already released, hence public (adaptive
composition).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from hdpstats._base.typing import FloatArray
from hdpstats.mechanisms.person_loss.base import People, PersonLoss
from hdpstats.noise.ball import BallNoise
from hdpstats.noise.lattice import lift, power_of_two_below, round_down, sqrt_up
from hdpstats.privacy.relation import Relation
from hdpstats.privacy.sensitivity import BallNorm, Sensitivity

FINENESS = Fraction(1, 2**24)
"""Grid of the Hessian's entries relative to the sensitivity: leaves room for 2^38 records in 64-bit integers."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HessianCalibration:
    """Public constants: sensitivity, lattice distribution, lattice step, standard deviation of each stacked entry."""

    sensitivity: Sensitivity
    noise: BallNoise
    grid: Fraction
    noise_sd: float


def calibrate(person_loss: PersonLoss, *, epsilon: Fraction, relation: Relation) -> HessianCalibration:
    """Return the constants of a Hessian release that costs ``epsilon``."""
    D = person_loss.dimension
    entries = D * (D + 1) // 2
    grid = power_of_two_below(person_loss.trace) * FINENESS
    root = sqrt_up(Fraction(2)) if relation is Relation.REPLACE_ONE else 1
    value = root * person_loss.trace + grid * sqrt_up(Fraction(entries))
    rate = round_down(epsilon * grid / value, 90)
    return HessianCalibration(
        sensitivity=Sensitivity(value=value, norm=BallNorm(), relation=relation),
        noise=BallNoise(dimension=entries, rate=rate),
        grid=grid,
        noise_sd=math.sqrt(entries + 1.0) * float(grid / rate),
    )


def noisy_hessian(calibration: HessianCalibration, people: People, *, theta: FloatArray) -> tuple[float, ...]:
    """Return the stacked noisy Hessian at ``theta``, entries (i, j) with i <= j, row by row."""
    noise = calibration.noise.draw()
    total = people.stacked_hessian(theta, grid=float(calibration.grid))
    integers = [int(t) + n for t, n in zip(total.tolist(), noise, strict=True)]
    return tuple(lift(integers, calibration.grid).tolist())
