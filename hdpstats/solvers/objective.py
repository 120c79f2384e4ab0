r"""A weighted, penalised, linearly perturbed sum of losses, with a gradient whose error is known.

.. math:: F(\theta) = \sum_i w_i\,\ell(x_i'\theta + o_i;\, y_i) + \tfrac12 (\theta - c)'\Lambda(\theta - c) + b'\theta,
          \qquad \Lambda = \mathrm{diag}(\lambda_1, \dots, \lambda_D).

The gradient of the sum is accumulated in integers: every summand is rounded to a grid so fine that 2^62 holds any
total, and integer sums are exact. The computed gradient therefore does not depend on the order of the rows,
and its distance from the true gradient has the bound of `Objective.gradient_error`, which holds for every
``theta``.
"""

import math
from dataclasses import dataclass, field
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.losses import Loss
from hdpstats.solvers.kernels import grid_sum, row_products

UNIT = 2.0**-53
"""Unit roundoff of binary64."""


def integer_bits(rows: int, summand: float) -> int:
    """Return ``k`` such that ``rows`` numbers of at most ``summand``, as multiples of 2^-k, add up below 2^62."""
    return 61 - math.ceil(math.log2(max(1, rows) * max(summand, 1.0)))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Objective:
    """The function to minimise. Shapes: ``X`` (n, D); ``y``, ``weights``, ``offset`` (n,); the rest (D,).

    ``grid_bits`` is derived: summands are rounded to multiples of 2^-grid_bits, which 64-bit integers can add.
    """

    loss: Loss
    X: FloatArray
    y: FloatArray
    weights: FloatArray
    offset: FloatArray
    ridge: FloatArray
    centre: FloatArray
    linear: FloatArray
    grid_bits: int = field(init=False)

    def __post_init__(self) -> None:
        """Choose the grid of the summands from their largest possible size."""
        steepest = float(self.loss.lipschitz)
        summand = float(np.max(np.max(np.abs(self.X), axis=1, initial=0.0) * self.weights, initial=0.0))
        object.__setattr__(self, "grid_bits", integer_bits(len(self.y), steepest * summand))

    def predictor(self, theta: FloatArray) -> FloatArray:
        """Return ``X theta + offset`` (n,)."""
        return self.X @ theta + self.offset

    def value(self, theta: FloatArray) -> float:
        """Return ``F(theta)`` (to float accuracy; used for step lengths only)."""
        loss = float(self.weights @ self.loss.value(self.predictor(theta), self.y))
        step = theta - self.centre
        quadratic = 0.5 * float(step @ (self.ridge * step))
        return float(loss + quadratic + self.linear @ theta)

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return the gradient (D,): an exact integer sum of rounded summands, plus ridge and perturbation."""
        eta = row_products(self.X, theta) + self.offset
        total = grid_sum(self.X, self.weights * self.loss.score(eta, self.y), bits=self.grid_bits)
        return np.ldexp(total.astype(np.float64), -self.grid_bits) + self.ridge * (theta - self.centre) + self.linear

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (D, D), ridge included."""
        curvature = self.weights * self.loss.curvature(self.predictor(theta), self.y)
        hessian: FloatArray = self.X.T @ (curvature[:, None] * self.X) + np.diag(self.ridge)
        return hessian

    def gradient_error(self, theta: FloatArray) -> float:
        r"""Return a bound on the Euclidean distance between `gradient` and the true gradient at ``theta``.

        Let u = 2^-53, g = 2 (D + 2) u (above Higham's gamma_{D+2}), m = sup |l'|, k = sup l''. The linear predictor has
        error at most g (||x|| ||theta|| + |o|) in any order of summation (Higham 2002, section 3.1); the score adds
        8 u (`Loss.score`), the two products 3 u m. So a row contributes at most
        ``w ||x|| (k g (||x|| ||theta|| + |o|) + 11 u m)`` plus half a grid cell in each coordinate. Ridge,
        perturbation and the final sum of three numbers add 8 u times their sizes.
        """
        n, D = self.X.shape
        m, k = float(self.loss.lipschitz), float(self.loss.smoothness)
        g = 2.0 * (D + 2) * UNIT
        norms = np.sqrt(np.einsum("ij,ij->i", self.X, self.X))
        size = float(np.linalg.norm(theta))
        per_row = self.weights * norms * (k * g * (norms * size + np.abs(self.offset)) + 11.0 * UNIT * m)
        cells: float = 0.5 * n * math.sqrt(D) * math.ldexp(1.0, -self.grid_bits)
        sizes = float(np.linalg.norm(self.ridge * (np.abs(theta) + np.abs(self.centre))))
        sizes += float(np.linalg.norm(self.linear)) + m * float(np.sum(self.weights * norms))
        return (float(np.sum(per_row)) + cells + 8.0 * UNIT * sizes) * (1.0 + 2.0**-20)
