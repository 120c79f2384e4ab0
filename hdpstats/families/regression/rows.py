r"""Rows of a regression: a penalised, perturbed sum of losses of one linear predictor, exactly added.

:math:`w_i\,\ell(x_i'\theta + o_i;\, y_i)` for each row.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.typing import ExactArray, FloatArray, IntArray
from hdpstats._base.work import Operations
from hdpstats.losses import LogisticLoss, PredictorLoss
from hdpstats.solvers.kernels import (
    PIECES_AT_ONCE,
    added_over_pieces,
    added_work,
    coefficient_parts,
    compensated,
    curvature_sum,
    curvature_work,
    logistic_sum,
    predictor_error,
    root_bits,
    row_products,
    score_sum,
)
from hdpstats.solvers.objective import ROUGH, UNIT, ObjectiveWork, RowBounds, SumObjective, score_bits


def linear_work(
    rows: int,
    D: int,
    *,
    functions: float,
    by_columns: bool = True,
    in_one_loop: bool = False,
    bounded: bool = True,
) -> ObjectiveWork:
    """Return the work of a `LinearObjective` of so many rows.

    Parameters
    ----------
    functions
        For how many exponentials a loss, its derivative or its curvature takes the time at most.
    by_columns
        Whether rows are kept column by column: with enough of them compiled loops read them.
    in_one_loop
        Whether the loss is the logistic one.
    bounded
        Whether sums are exact, by `LinearObjective.bounds`.
    """
    return ObjectiveWork(
        dimension=D,
        gradient=added_work(rows, D, functions=functions, by_columns=by_columns, in_one_loop=in_one_loop),
        hessian=curvature_work(rows, D, functions=functions, by_columns=by_columns, exact=bounded),
        error=Operations(steps=60.0, passes=(D + 20.0) * rows),
    )


def row_error(loss: PredictorLoss, D: int, *, sizes: FloatArray | float) -> FloatArray | float:
    """Return what a row's score, times a unit weight and a unit row, is off at most (`LinearObjective.gradient_error`).

    ``sizes`` bound ``||x|| ||theta|| + |o|``.
    """
    units = loss.scaled_curvature + (loss.ulps + 3.0) * float(loss.lipschitz)
    return float(loss.smoothness) * predictor_error(D, sizes) + units * UNIT * (1.0 + 2.0**-20)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LinearObjective(SumObjective):
    """The function to minimise. Shapes: ``X`` (n, D); ``y``, ``weights``, ``offset`` (n,).

    Gradients are exact sums of rounded contributions, and with ``bounds`` Hessians are: neither the order of rows (but
    for `rough_hessian`), nor the number of threads, nor how rows are kept (`hdpstats.solvers.kernels`) changes a bit.
    """

    loss: PredictorLoss
    X: FloatArray
    y: FloatArray
    weights: FloatArray
    offset: FloatArray
    bounds: RowBounds | None = None
    rough_rows: ClassVar[int] = ROUGH

    def __post_init__(self) -> None:
        """Choose the grid of the summands from their largest possible size."""
        if self.bounds is None:
            largest = np.max(np.abs(self.X), axis=1, initial=0.0)
            summand = float(self.loss.lipschitz) * float(np.max(largest * self.weights, initial=0.0))
        else:
            summand = self.bounds.summand
        object.__setattr__(self, "grid_bits", score_bits(summand))

    @property
    def mass(self) -> float:
        """The sum of the weights."""
        return float(np.sum(self.weights))

    def predictor(self, theta: FloatArray) -> FloatArray:
        """Return ``X theta + offset`` (n,)."""
        return self.X @ theta + self.offset

    def value(self, theta: FloatArray) -> float:
        """Return ``F(theta)`` to float accuracy."""
        loss = float(self.weights @ self.loss.value(self.predictor(theta), self.y))
        return float(loss + self.penalty(theta) + self.linear @ theta)

    def loss_gradient(self, theta: FloatArray, rest: FloatArray | None = None) -> ExactArray:
        """Return the gradient (D,) of the sum of losses on the grid."""
        rows, parts = (self.X, self.y, self.weights, self.offset), coefficient_parts(theta, rest)

        def of_logistic(piece: slice) -> ExactArray:
            return logistic_sum(*rows, parts, piece, bits=self.grid_bits)

        def of_piece(piece: slice) -> ExactArray:
            score = self.loss.score(compensated(self.X, parts, self.offset, piece), self.y[piece])
            return score_sum(self.X, self.weights[piece] * score, piece, bits=self.grid_bits)

        if isinstance(self.loss, LogisticLoss):
            return added_over_pieces(len(self.y), of_logistic, at_once=PIECES_AT_ONCE)
        return added_over_pieces(len(self.y), of_piece)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.y)

    @property
    def curvature_bits(self) -> int:
        """Half of the bits after the point of `loss_hessian`."""
        if self.bounds is None:
            return 0
        return root_bits(self.bounds.root, rows=max(self.bounds.rows, len(self.y)))

    def loss_hessian(self, theta: FloatArray, *, rows: int) -> IntArray:
        """Return the Hessian (D, D) of the losses of the first rows in units of 2^-(2 `curvature_bits`), exactly added.

        Only with ``bounds``. Curvatures are cut to what they may be.
        """
        steepest, bits = float(self.loss.smoothness), self.curvature_bits

        def of_piece(piece: slice) -> IntArray:
            curvature = self.loss.curvature(row_products(self.X, theta, piece) + self.offset[piece], self.y[piece])
            weighted = np.clip(curvature, 0.0, steepest) * self.weights[piece]
            return curvature_sum(self.X, weighted, piece, bits=bits)

        return added_over_pieces(rows, of_piece)

    def hessian_of(self, sums: IntArray) -> FloatArray:
        """Return the Hessian (D, D) of a sum of losses from `loss_hessian`."""
        return np.asarray(np.ldexp(sums.astype(np.float64), -2 * self.curvature_bits))

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (D, D), ridge included."""
        if self.bounds is not None:
            return self.hessian_of(self.loss_hessian(theta, rows=len(self.y))) + np.diag(self.ridge)
        curvature = self.weights * self.loss.curvature(self.predictor(theta), self.y)
        hessian: FloatArray = self.X.T @ (curvature[:, None] * self.X) + np.diag(self.ridge)
        return hessian

    def rough_hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian of the first `ROUGH` rows, as if they were all, where there are many more."""
        if self.bounds is None or len(self.y) < 2 * ROUGH:
            return self.hessian(theta)
        return self.hessian_of(self.loss_hessian(theta, rows=ROUGH)) * (len(self.y) / ROUGH) + np.diag(self.ridge)

    def gradient_error(self, theta: FloatArray) -> float:
        r"""Return a bound on the Euclidean distance between `gradient` and the true gradient at ``theta``.

        Let u = 2^-53, m = sup |l'|, k = sup l'', c = sup |eta| l''. The computed linear predictor is
        ``eta (1 + tau) + delta'`` with ``|tau| <= u`` and ``delta'`` bounded by `predictor_error` of
        ``||x|| ||theta|| + |o|``. From ``eta`` to ``eta (1 + tau)`` the score changes by an integral of ``l''`` over a
        range of length ``u |eta|``, in which ``|eta|`` is at most ``1 + 2 u`` times each number: by at most
        ``(1 + 2 u) u c``, whatever ``eta`` is. By ``delta'`` it changes by ``k delta'``. Its own error is ``ulps`` u m
        (`PredictorLoss.score`), that of two products 3 u m. So a row contributes at most `row_error`,
        ``w ||x|| (k delta' + (c + (ulps + 3) m) u)``; for the rest see `SumObjective.summed_error`.
        """
        norms = np.sqrt(np.einsum("ij,ij->i", self.X, self.X))
        sizes = norms * float(np.linalg.norm(theta)) + np.abs(self.offset)
        per_row = self.weights * norms * row_error(self.loss, self.X.shape[1], sizes=sizes)
        steepest = float(self.loss.lipschitz) * float(np.sum(self.weights * norms))
        return self.summed_error(theta, per_row, steepest=steepest)

    def effect(self, direction: FloatArray) -> float:
        """Return the largest change of a linear predictor along a direction (D,)."""
        return float(np.max(np.abs(self.X @ direction), initial=0.0))

    def exact_loss_gradient(self, numbers: MPContext, theta: list[mpf]) -> list[mpf]:
        """Return the gradient of the sum of losses in the numbers of a context."""
        total = [numbers.mpf(0)] * len(theta)
        rows = zip(self.X.tolist(), self.y.tolist(), self.weights.tolist(), self.offset.tolist(), strict=True)
        for x, y, weight, offset in rows:
            eta = sum((a * b for a, b in zip(x, theta, strict=True)), numbers.mpf(offset))
            residual = weight * self.loss.exact_score(numbers, eta, y)
            total = [t + residual * a for t, a in zip(total, x, strict=True)]
        return total

    def exact_sizes(self, size: float) -> float:
        """Return what relative rounding errors of `exact_loss_gradient` multiply, where ``||theta|| = size``.

        They are those of `gradient_error` at another precision. The number of rows is that of the whole sum, which
        `bounds` may name: what parts of it return adds up to a bound for the whole.
        """
        n, D = self.X.shape
        n = n if self.bounds is None else max(self.bounds.rows, n)
        norms = np.linalg.norm(self.X, axis=1)
        m, k = float(self.loss.lipschitz), float(self.loss.smoothness)
        sizes = k * (norms * size + np.abs(self.offset)) + (self.loss.ulps + 3.0) * m
        return float((n + D + 8) * np.sum(self.weights * norms * sizes))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TwoSampleObjective(SumObjective):
    """The sum of losses of two samples, each on the grid of its own: the rows of one may weigh far more.

    ``samples`` have neither ridge nor perturbation.
    """

    samples: tuple[LinearObjective, LinearObjective]

    def __post_init__(self) -> None:
        """Take the finer one of two grids: what is rounded to the other is on it."""
        object.__setattr__(self, "grid_bits", max(each.grid_bits for each in self.samples))

    @property
    def mass(self) -> float:
        """The sum of the weights."""
        return sum(each.mass for each in self.samples)

    def loss_gradient(self, theta: FloatArray, rest: FloatArray | None = None) -> ExactArray:
        """Return the gradient (D,) of the sum of losses on the finer grid."""
        one, two = (each.loss_gradient(theta, rest) * 2 ** (self.grid_bits - each.grid_bits) for each in self.samples)
        return np.asarray(one + two)

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (D, D), ridge included."""
        one, two = (each.hessian(theta) for each in self.samples)
        return np.asarray(one + two + np.diag(self.ridge))

    def gradient_error(self, theta: FloatArray) -> float:
        """Return a bound on the distance between `gradient` and the true gradient: the sum of those of the samples.

        Those have no ridge and no perturbation, whose part of `SumObjective.summed_error` is added here.
        """
        own = self.summed_error(theta, np.zeros(0), steepest=0.0)
        return sum((each.gradient_error(theta) for each in self.samples), own) * (1.0 + 2.0**-20)

    def effect(self, direction: FloatArray) -> float:
        """Return the largest change of a linear predictor along a direction (D,)."""
        return max(each.effect(direction) for each in self.samples)

    def exact_loss_gradient(self, numbers: MPContext, theta: list[mpf]) -> list[mpf]:
        """Return the gradient of the sum of losses in the numbers of a context."""
        one, two = (each.exact_loss_gradient(numbers, theta) for each in self.samples)
        return [a + b for a, b in zip(one, two, strict=True)]

    def exact_sizes(self, size: float) -> float:
        """Return what relative rounding errors of `exact_loss_gradient` multiply, with the sum of the two."""
        return 2.0 * sum(each.exact_sizes(size) for each in self.samples)


def ridge_objective(
    loss: PredictorLoss,
    X: FloatArray,
    y: FloatArray,
    *,
    ridge: float | FloatArray = 0.0,
    weights: FloatArray | None = None,
    offset: FloatArray | None = None,
) -> LinearObjective:
    """Return the objective without perturbation whose ridge, a number or (D,), pulls to 0; weights are 1 by default."""
    n, D = X.shape
    return LinearObjective(
        loss=loss,
        X=X,
        y=y,
        weights=np.ones(n) if weights is None else weights,
        offset=np.zeros(n) if offset is None else offset,
        ridge=np.broadcast_to(np.asarray(ridge, dtype=np.float64), (D,)),
        centre=np.zeros(D),
        linear=np.zeros(D),
    )
