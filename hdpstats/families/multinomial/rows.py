"""Rows of a multinomial regression: a penalised, perturbed sum of losses with a predictor for each other level.

``theta`` has shape (M D,), coefficients level by level.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.typing import ExactArray, FloatArray, IntArray
from hdpstats.losses.multinomial import exact_residuals, probabilities, residuals_of_pairs, spread_bound, values
from hdpstats.solvers.kernels import (
    added_over_pieces,
    coefficient_parts,
    compensated_pairs,
    predictor_error,
    row_products,
    score_sum,
)
from hdpstats.solvers.objective import ROUGH, UNIT, SumObjective, score_bits


def several_error(others: int, D: int, *, sizes: FloatArray | float) -> FloatArray | float:
    """Return what a row's multinomial score, times a unit weight and a unit row, is off at most.

    ``sizes`` bound ``||x|| ||theta||``; see `MultinomialObjective.gradient_error`.
    """
    return 0.5 * predictor_error(D, sizes) + (spread_bound(others) + others + 24.0) * UNIT


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
        object.__setattr__(self, "grid_bits", score_bits(summand))

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

    def loss_gradient(self, theta: FloatArray, rest: FloatArray | None = None) -> ExactArray:
        """Return the gradient (M D,) of the sum of losses on the grid."""
        none = np.zeros(len(self.y))
        each = np.split(coefficient_parts(theta, rest), self.others, axis=1)

        def of_piece(piece: slice) -> ExactArray:
            pairs = [compensated_pairs(self.X, parts, none, piece) for parts in each]
            own, rest = (np.stack(numbers).T for numbers in zip(*pairs, strict=True))
            left = self.weights[piece, None] * residuals_of_pairs(own, rest, self.y[piece])
            return np.concatenate([score_sum(self.X, column, piece, bits=self.grid_bits) for column in left.T])

        return added_over_pieces(len(self.y), of_piece)

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (M D, M D), ridge included."""
        return self._loss_hessian(theta, slice(None)) + np.diag(self.ridge)

    def rough_hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian of the first rows, as if they were all, where there are many more."""
        rough = max(ROUGH, len(self.y) // 16)
        if len(self.y) < 2 * rough:
            return self.hessian(theta)
        return self._loss_hessian(theta, slice(0, rough)) * (len(self.y) / rough) + np.diag(self.ridge)

    def _loss_hessian(self, theta: FloatArray, rows: slice) -> FloatArray:
        """Return the Hessian (M D, M D) of the losses of some rows."""
        X, weights = self.X[rows], self.weights[rows]
        p, D = probabilities(self._predictor(theta, rows)), X.shape[1]
        whole = np.zeros((len(theta), len(theta)))
        for a in range(self.others):
            for b in range(a, self.others):
                weighted = weights * p[:, a] * ((a == b) - p[:, b])
                block = (X.T * weighted) @ X
                whole[a * D : (a + 1) * D, b * D : (b + 1) * D] += block
                if a != b:
                    whole[b * D : (b + 1) * D, a * D : (a + 1) * D] += block
        return whole

    def gradient_error(self, theta: FloatArray) -> float:
        r"""Return a bound on the Euclidean distance between `gradient` and the true gradient at ``theta``.

        Predictors, as unevaluated sums, err by `predictor_error` of ``||x|| ||theta_k||``, in the L2 norm over levels
        by that of ``||x|| ||theta||``; the Hessian of the loss has eigenvalues of at most 1/2, so probabilities follow
        by half of that, and err by ``(2 B + M + 16) u`` of their own (`hdpstats.losses.multinomial`); the products add
        ``3 u`` of a size of at most 1.5.
        """
        norms = np.sqrt(np.einsum("ij,ij->i", self.X, self.X))
        per_row = (
            self.weights
            * norms
            * several_error(self.others, self.X.shape[1], sizes=norms * float(np.linalg.norm(theta)))
        )
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
