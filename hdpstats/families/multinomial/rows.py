"""Rows of a multinomial regression: losses with a predictor for each level beside the reference, exactly added.

``theta`` has shape (M D,), coefficients level by level.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.typing import ExactArray, FloatArray, IntArray
from hdpstats.families.base import added_by_person, added_in_grid_steps, cut_and_summed, number_of_people, summed
from hdpstats.losses.multinomial import (
    exact_residuals,
    probabilities,
    residuals,
    residuals_of_pairs,
    spread_bound,
    values,
)
from hdpstats.solvers.kernels import (
    added_over_pieces,
    coefficient_parts,
    compensated_pairs,
    predictor_error,
    row_products,
    score_sum,
)
from hdpstats.solvers.objective import ROUGH, UNIT, Rows, SumError, score_bits


def several_error(others: int, D: int, *, sizes: FloatArray | float) -> FloatArray | float:
    """Return what a row's multinomial score, times a unit weight and a unit row, is off at most.

    ``sizes`` bound ``||x|| ||theta||``; see `MultinomialRows.sum_error`.
    """
    return 0.5 * predictor_error(D, sizes) + (spread_bound(others) + others + 24.0) * UNIT


@final
@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class MultinomialRows(Rows):
    """Rows ``X`` (n, D), outcomes ``y`` (n,) from 0 to ``others``, total weights (n,).

    ``person`` (n,) says whose each row is, from 0, those of a person together; None where every row is a person.
    ``counts`` (n,) is what the number of a person's rows makes of each, a factor of ``weights``; None stands for 1.
    """

    others: int
    X: FloatArray
    y: IntArray
    weights: FloatArray
    person: IntArray | None = None
    counts: FloatArray | None = None

    @property
    def count(self) -> int:
        """The number of people."""
        return number_of_people(self.person, rows=len(self.y))

    @property
    def dimension(self) -> int:
        """M D."""
        return int(self.others * self.X.shape[1])

    @cached_property
    def grid_bits(self) -> int:
        """The grid of the summands follows from their largest possible size."""
        return score_bits(float(np.max(np.max(np.abs(self.X), axis=1, initial=0.0) * self.weights, initial=0.0)))

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
        """Return the sum of losses to float accuracy."""
        return float(self.weights @ values(self.predictor(theta), self.y))

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

    def curvature(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (M D, M D) of the sum of losses."""
        return self._loss_hessian(theta, slice(None))

    def rough_curvature(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian of the losses of the first rows, as if they were all, where there are many more."""
        rough = max(ROUGH, len(self.y) // 16)
        if len(self.y) < 2 * rough:
            return self.curvature(theta)
        return self._loss_hessian(theta, slice(0, rough)) * (len(self.y) / rough)

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

    def sum_error(self, theta: FloatArray) -> SumError:
        r"""Return what the computed gradient of the sum of losses is off at most at ``theta``.

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
        steepest = 1.5 * float(np.sum(self.weights * norms))
        return SumError.of(per_row, dimension=len(theta), grid_bits=self.grid_bits, steepest=steepest)

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

    def scores(self, theta: FloatArray) -> FloatArray:
        """Return the gradient of each person's weighted loss (people, M D)."""
        of_rows = self._scores_of_rows(theta)
        return of_rows if self.person is None else summed(self.person, of_rows, people=self.count)

    def cut_scores(self, theta: FloatArray, cut: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return people's scores, cut row by row; see `Rows.cut_scores`."""
        return cut_and_summed(self.person, self.counts, self._scores_of_rows(theta), cut, people=self.count)

    def _scores_of_rows(self, theta: FloatArray) -> FloatArray:
        left = self.weights[:, None] * residuals(self.predictor(theta), self.y)
        return np.concatenate([self.X.T * column for column in left.T]).T

    def losses(self, theta: FloatArray) -> FloatArray:
        """Return each person's weighted loss (people,)."""
        of_rows = np.asarray(self.weights * values(self.predictor(theta), self.y))
        return of_rows if self.person is None else summed(self.person, of_rows[:, None], people=self.count)[:, 0]

    def stacked_hessian(self, theta: FloatArray, *, grid: float) -> ExactArray:
        """Return the exact integer sum of the people's stacked contributions, each rounded to multiples of ``grid``."""
        D = self.X.shape[1]

        def of_rows(part: slice, i: IntArray, j: IntArray, factor: FloatArray) -> FloatArray:
            p, X = probabilities(self._predictor(theta, part)), self.X[part]
            curvature = p[:, i // D] * ((i // D == j // D) - p[:, j // D]) * self.weights[part, None]
            return np.asarray(curvature * X[:, i % D] * X[:, j % D] * factor)

        if self.person is not None:
            return added_by_person(self.person, self.others * D, grid=grid, of_rows=of_rows)
        return added_in_grid_steps(len(self.y), self.others * D, grid=grid, of_people=of_rows)
