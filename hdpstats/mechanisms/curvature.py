r"""A noisy Hessian at released coefficients: the price of standard errors without public rows.

The query is the upper triangle of :math:`\sum_i w_i\,\ell''(x_i'\theta + o_i; y_i)\, x_i x_i'` with
off-diagonal entries multiplied by the square root of two, so that its Euclidean norm is the Frobenius norm of
the matrix.

Guarantee: epsilon-DP under replace-one. One record contributes a positive semidefinite matrix of rank one and
norm at most ``B = w_max sup l'' leverage``. For two such matrices ``||H - H'||_F^2 = ||H||^2 + ||H'||^2 - 2
tr(H H') <= 2 B^2``: the sensitivity is ``sqrt(2) B`` (attained by orthogonal rows). Every record's contribution
is rounded to a grid *before* integers are added, so the sum is exact and rounding adds at most ``sqrt(k)`` grid
steps for ``k`` entries. ``theta`` is already released, hence public (adaptive composition).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.losses import Loss
from hdpstats.mechanisms.rows import PrivateRows
from hdpstats.noise.ball import BallNoise
from hdpstats.noise.lattice import lift, power_of_two_below, round_down, sqrt_up
from hdpstats.privacy.relation import Relation
from hdpstats.privacy.sensitivity import BallNorm, Sensitivity
from hdpstats.queries.geometry import Geometry
from hdpstats.solvers.kernels import BLOCK, row_products

FINENESS = Fraction(1, 2**24)
"""Grid of the Hessian's entries relative to the sensitivity: leaves room for 2^38 records in 64-bit integers."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HessianCalibration:
    """Public constants: sensitivity, lattice law, lattice step, standard deviation of each stacked entry."""

    sensitivity: Sensitivity
    noise: BallNoise
    grid: Fraction
    noise_sd: float


def calibrate(geometry: Geometry, loss: Loss, *, epsilon: Fraction, weight: float) -> HessianCalibration:
    """Return the constants of a Hessian release that costs ``epsilon``."""
    largest = Fraction(weight) * loss.smoothness * Fraction(geometry.leverage) * (1 + Fraction(1, 2**40))
    D = geometry.dimension
    entries = D * (D + 1) // 2
    grid = power_of_two_below(largest) * FINENESS
    value = sqrt_up(Fraction(2)) * largest + grid * sqrt_up(Fraction(entries))
    rate = round_down(epsilon * grid / value, 90)
    return HessianCalibration(
        sensitivity=Sensitivity(value=value, norm=BallNorm(), relation=Relation.REPLACE_ONE),
        noise=BallNoise(dimension=entries, rate=rate),
        grid=grid,
        noise_sd=math.sqrt(entries + 1.0) * float(grid / rate),
    )


def noisy_hessian(
    calibration: HessianCalibration, loss: Loss, rows: PrivateRows, *, theta: FloatArray
) -> tuple[float, ...]:
    """Return the stacked noisy Hessian at ``theta``, entries (i, j) with i <= j, row by row."""
    noise = calibration.noise.draw()
    total = stacked_hessian(loss, rows, theta=theta, grid=float(calibration.grid))
    integers = [int(t) + n for t, n in zip(total.tolist(), noise, strict=True)]
    return tuple(lift(integers, calibration.grid).tolist())


def stacked_hessian(loss: Loss, rows: PrivateRows, *, theta: FloatArray, grid: float) -> IntArray:
    """Return the exact integer sum of the records' stacked contributions, each rounded to multiples of ``grid``."""
    D = rows.X.shape[1]
    i, j = np.triu_indices(D)
    factor = np.where(i == j, 1.0, math.sqrt(2.0)) / grid
    total = np.zeros(len(i), dtype=np.int64)
    for start in range(0, len(rows.y), BLOCK):
        part = slice(start, start + BLOCK)
        X = rows.X[part]
        eta = row_products(X, theta) + rows.offset[part]
        curvature = rows.weights[part] * loss.curvature(eta, rows.y[part])
        total += np.rint(X[:, i] * X[:, j] * (curvature[:, None] * factor)).astype(np.int64).sum(axis=0)
    return total


def unstack(stacked: FloatArray, dimension: int) -> FloatArray:
    """Return the symmetric matrix (D, D) of a stacked Hessian."""
    i, j = np.triu_indices(dimension)
    matrix = np.zeros((dimension, dimension))
    matrix[i, j] = stacked / np.where(i == j, 1.0, math.sqrt(2.0))
    return matrix + np.triu(matrix, 1).T
