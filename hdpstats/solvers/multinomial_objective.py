"""The penalised, perturbed sum of multinomial losses: several linear predictors, coefficients level by level.

``theta`` has shape (M D,), M levels besides the reference.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.losses.multinomial import exact_residuals, probabilities, residuals, values
from hdpstats.solvers.kernels import added_over_pieces, grid_sum, row_products
from hdpstats.solvers.objective import UNIT, SumObjective, integer_bits


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MultinomialObjective(SumObjective):
    """The function to minimise. ``X`` (n, D); ``y`` (n,) from 0 to ``others``; ``weights`` (n,)."""

    others: int
    X: FloatArray
    y: IntArray
    weights: FloatArray

    def __post_init__(self) -> None:
        """Choose the grid of the summands from their largest possible size."""
        summand = float(np.max(np.max(np.abs(self.X), axis=1, initial=0.0) * self.weights, initial=0.0))
        object.__setattr__(self, "grid_bits", integer_bits(len(self.y), summand))

    @property
    def mass(self) -> float:
        """The sum of the weights."""
        return float(np.sum(self.weights))

    def predictor(self, theta: FloatArray) -> FloatArray:
        """Return the linear predictors (n, M), each row's from that row alone."""
        return self._predictor(theta, slice(None))

    def _predictor(self, theta: FloatArray, rows: slice) -> FloatArray:
        return np.stack([row_products(self.X, part, rows) for part in theta.reshape(self.others, -1)]).T

    def value(self, theta: FloatArray) -> float:
        """Return the objective to float accuracy."""
        loss = float(self.weights @ values(self.predictor(theta), self.y))
        return float(loss + self.penalty(theta) + self.linear @ theta)

    def loss_gradient(self, theta: FloatArray) -> IntArray:
        """Return the gradient (M D,) of the sum of losses on the grid."""

        def of_piece(piece: slice) -> IntArray:
            left = self.weights[piece, None] * residuals(self._predictor(theta, piece), self.y[piece])
            return np.concatenate([grid_sum(self.X, column, piece, bits=self.grid_bits) for column in left.T])

        return added_over_pieces(len(self.y), of_piece)

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (M D, M D), ridge included."""
        p, D = probabilities(self.predictor(theta)), self.X.shape[1]
        whole = np.diag(self.ridge)
        for a in range(self.others):
            for b in range(a, self.others):
                bent = self.weights * p[:, a] * ((a == b) - p[:, b])
                block = (self.X.T * bent) @ self.X
                whole[a * D : (a + 1) * D, b * D : (b + 1) * D] += block
                if a != b:
                    whole[b * D : (b + 1) * D, a * D : (a + 1) * D] += block
        return whole

    def gradient_error(self, theta: FloatArray) -> float:
        r"""Return a bound on the Euclidean distance between `gradient` and the true gradient at ``theta``.

        Predictors err by at most ``g ||x|| ||theta_k||``, in the L2 norm over levels by ``g ||x|| ||theta||`` (g as in
        `LinearObjective`); the Hessian of the loss has eigenvalues of at most 1/2, so probabilities follow by half of
        that, and err by ``(M + 16) u`` of their own; the products add ``3 u`` of a size of at most 1.5.
        """
        g = 1.01 * (self.X.shape[1] + 2) * UNIT
        norms = np.sqrt(np.einsum("ij,ij->i", self.X, self.X))
        size = float(np.linalg.norm(theta))
        per_row = self.weights * norms * (0.5 * g * norms * size + (self.others + 24.0) * UNIT)
        return self.summed_error(theta, per_row, steepest=1.5 * float(np.sum(self.weights * norms)))

    def effect(self, direction: FloatArray) -> float:
        """Return the largest change of linear predictors along a direction, summed over levels."""
        moves = np.abs(self.X @ direction.reshape(self.others, -1).T)
        return float(np.max(np.sum(moves, axis=1), initial=0.0))

    def exact_loss_gradient(self, numbers: MPContext, theta: list[mpf]) -> list[mpf]:
        """Return the gradient of the sum of losses in the numbers of a context."""
        D = self.X.shape[1]
        parts = [theta[k * D : (k + 1) * D] for k in range(self.others)]
        total = [numbers.mpf(0)] * len(theta)
        for x, y, weight in zip(self.X.tolist(), self.y.tolist(), self.weights.tolist(), strict=True):
            eta = [sum((a * b for a, b in zip(x, part, strict=True)), numbers.mpf(0)) for part in parts]
            left = [weight * value for value in exact_residuals(numbers, eta, y)]
            total = [t + left[place // D] * x[place % D] for place, t in enumerate(total)]
        return total

    def exact_sizes(self, size: float) -> float:
        """Return what relative rounding errors of `exact_loss_gradient` multiply, where ``||theta|| = size``."""
        (n, D), norms = self.X.shape, np.linalg.norm(self.X, axis=1)
        return float((n + D + self.others + 8) * np.sum(self.weights * norms * (norms * size + 2.0 + self.others)))
