r"""Rows of a regression: losses of one linear predictor, exactly added.

:math:`w_i\,\ell(x_i'\theta + o_i;\, y_i)` for each row.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.typing import ExactArray, FloatArray, IntArray
from hdpstats._base.work import Operations
from hdpstats.families.base import added_by_person, cut_and_summed, number_of_people, summed
from hdpstats.losses import PredictorLoss
from hdpstats.records.sandwich import SandwichPart
from hdpstats.solvers.kernels import (
    PIECE,
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
    square_sums,
)
from hdpstats.solvers.objective import ROUGH, UNIT, BoundedRows, ObjectiveWork, SumError, score_bits

NUMBERS_AT_ONCE = 2**15
"""Numbers of rows whose products are formed at a time: few enough for cache."""


def linear_work(
    rows: int,
    D: int,
    *,
    functions: float,
    by_columns: bool = True,
    in_one_loop: bool = False,
    bounded: bool = True,
) -> ObjectiveWork:
    """Return the work of a `RegressionRows` of so many rows.

    Parameters
    ----------
    functions
        For how many exponentials a loss, its derivative or its curvature takes the time at most.
    by_columns
        Whether rows are kept column by column: with enough of them compiled loops read them.
    in_one_loop
        Whether the loss is the logistic one.
    bounded
        Whether sums are exact, by `RegressionRows.bounds`.
    """
    return ObjectiveWork(
        dimension=D,
        gradient=added_work(rows, D, functions=functions, by_columns=by_columns, in_one_loop=in_one_loop),
        hessian=curvature_work(rows, D, functions=functions, by_columns=by_columns, exact=bounded),
        error=Operations(steps=60.0, passes=(D + 20.0) * rows),
    )


def row_error(loss: PredictorLoss, D: int, *, sizes: FloatArray | float) -> FloatArray | float:
    """Return what a row's score, times a unit weight and a unit row, is off at most (`RegressionRows.sum_error`).

    ``sizes`` bound ``||x|| ||theta|| + |o|``.
    """
    units = loss.scaled_curvature + (loss.ulps + 3.0) * float(loss.lipschitz)
    return float(loss.smoothness) * predictor_error(D, sizes) + units * UNIT * (1.0 + 2.0**-20)


@final
@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class RegressionRows(BoundedRows):
    """Rows with one linear predictor. Shapes: ``X`` (n, D); ``y``, ``weights``, ``offset`` (n,).

    Gradients are exact sums of rounded contributions, and with ``bounds`` Hessians are: neither the order of rows (but
    for `rough_curvature`), nor the number of threads, nor how rows are kept (`hdpstats.solvers.kernels`) changes a bit.
    Private rows are within their declared bounds.

    ``person`` (n,) says whose each row is, from 0, those of a person together; None where every row is a person.
    ``counts`` (n,) is what the number of a person's rows makes of each, a factor of ``weights``; None stands for 1.
    """

    loss: PredictorLoss
    X: FloatArray
    y: FloatArray
    weights: FloatArray
    offset: FloatArray
    person: IntArray | None = None
    counts: FloatArray | None = None

    @classmethod
    def of(
        cls,
        loss: PredictorLoss,
        X: FloatArray,
        y: FloatArray,
        *,
        weights: FloatArray | None = None,
        offset: FloatArray | None = None,
    ) -> "RegressionRows":
        """Return rows whose contributions are not bounded beforehand; weights are 1 and offsets 0 by default."""
        n = len(X)
        return cls(
            loss=loss,
            X=X,
            y=y,
            weights=np.ones(n) if weights is None else weights,
            offset=np.zeros(n) if offset is None else offset,
        )

    @property
    def count(self) -> int:
        """The number of people."""
        return number_of_people(self.person, rows=len(self.y))

    @property
    def dimension(self) -> int:
        """The number of columns."""
        return int(self.X.shape[1])

    @cached_property
    def grid_bits(self) -> int:
        """The grid of the summands follows from their largest possible size."""
        if self.bounds is None:
            largest = np.max(np.abs(self.X), axis=1, initial=0.0)
            summand = float(self.loss.lipschitz) * float(np.max(largest * self.weights, initial=0.0))
        else:
            summand = self.bounds.summand
        return score_bits(summand)

    @property
    def mass(self) -> float:
        """The sum of the weights."""
        return float(np.sum(self.weights))

    def predictor(self, theta: FloatArray) -> FloatArray:
        """Return ``X theta + offset`` (n,)."""
        return self.X @ theta + self.offset

    def value(self, theta: FloatArray) -> float:
        """Return the sum of losses to float accuracy."""
        return float(self.weights @ self.loss.value(self.predictor(theta), self.y))

    def loss_gradient(self, theta: FloatArray, rest: FloatArray | None = None) -> ExactArray:
        """Return the gradient (D,) of the sum of losses on the grid."""
        rows, parts = (self.X, self.y, self.weights, self.offset), coefficient_parts(theta, rest)

        def of_logistic(piece: slice) -> ExactArray:
            return logistic_sum(*rows, parts, piece, bits=self.grid_bits)

        def of_piece(piece: slice) -> ExactArray:
            score = self.loss.score(compensated(self.X, parts, self.offset, piece), self.y[piece])
            return score_sum(self.X, self.weights[piece] * score, piece, bits=self.grid_bits)

        if self.loss.in_one_loop:
            return added_over_pieces(len(self.y), of_logistic, at_once=PIECES_AT_ONCE)
        return added_over_pieces(len(self.y), of_piece)

    @property
    def summands(self) -> int:
        """The number of rows."""
        return len(self.y)

    @property
    def rough_rows(self) -> int:
        """The rows of a rough Hessian."""
        return ROUGH

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

    def curvature(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (D, D) of the sum of losses."""
        if self.bounds is not None:
            return super().curvature(theta)
        curvature = self.weights * self.loss.curvature(self.predictor(theta), self.y)
        return np.asarray(self.X.T @ (curvature[:, None] * self.X))

    def rough_curvature(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian of the first `ROUGH` rows, as if they were all, where there are many more."""
        return self.curvature(theta) if self.bounds is None else super().rough_curvature(theta)

    def sum_error(self, theta: FloatArray) -> SumError:
        r"""Return what the computed gradient of the sum of losses is off at most at ``theta``.

        Let u = 2^-53, m = sup |l'|, k = sup l'', c = sup |eta| l''. The computed linear predictor is
        ``eta (1 + tau) + delta'`` with ``|tau| <= u`` and ``delta'`` bounded by `predictor_error` of
        ``||x|| ||theta|| + |o|``. From ``eta`` to ``eta (1 + tau)`` the score changes by an integral of ``l''`` over a
        range of length ``u |eta|``, in which ``|eta|`` is at most ``1 + 2 u`` times each number: by at most
        ``(1 + 2 u) u c``, whatever ``eta`` is. By ``delta'`` it changes by ``k delta'``. Its own error is ``ulps`` u m
        (`PredictorLoss.score`), that of two products 3 u m. So a row contributes at most `row_error`,
        ``w ||x|| (k delta' + (c + (ulps + 3) m) u)``; for the rest see `SumError`.
        """
        sizes = self._norms * float(np.linalg.norm(theta)) + np.abs(self.offset)
        per_row = self.weights * self._norms * row_error(self.loss, self.X.shape[1], sizes=sizes)
        steepest = float(self.loss.lipschitz) * float(np.sum(self.weights * self._norms))
        return SumError.of(per_row, dimension=len(theta), grid_bits=self.grid_bits, steepest=steepest)

    @cached_property
    def _norms(self) -> FloatArray:
        """The lengths of rows (n,)."""
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", self.X, self.X)))

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

        They are those of `sum_error` at another precision. The number of rows is that of the whole sum, which
        `bounds` may name: what parts of it return adds up to a bound for the whole.
        """
        n, D = self.X.shape
        n = n if self.bounds is None else max(self.bounds.rows, n)
        norms = np.linalg.norm(self.X, axis=1)
        m, k = float(self.loss.lipschitz), float(self.loss.smoothness)
        sizes = k * (norms * size + np.abs(self.offset)) + (self.loss.ulps + 3.0) * m
        return float((n + D + 8) * np.sum(self.weights * norms * sizes))

    def scores(self, theta: FloatArray) -> FloatArray:
        """Return the gradient of each person's weighted loss (people, D)."""
        of_rows = self._scores_of_rows(theta)
        return of_rows if self.person is None else summed(self.person, of_rows, people=self.count)

    def cut_scores(self, theta: FloatArray, cut: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return people's scores, cut row by row; see `Rows.cut_scores`."""
        return cut_and_summed(self.person, self.counts, self._scores_of_rows(theta), cut, people=self.count)

    def _scores_of_rows(self, theta: FloatArray) -> FloatArray:
        eta = row_products(self.X, theta) + self.offset
        return np.asarray((self.weights * self.loss.score(eta, self.y))[:, None] * self.X)

    def losses(self, theta: FloatArray) -> FloatArray:
        """Return each person's weighted loss (people,)."""
        of_rows = np.asarray(self.weights * self.loss.value(row_products(self.X, theta) + self.offset, self.y))
        return of_rows if self.person is None else summed(self.person, of_rows[:, None], people=self.count)[:, 0]

    def stacked_hessian(self, theta: FloatArray, *, grid: float) -> ExactArray:
        """Return the exact integer sum of the people's stacked contributions, each rounded to multiples of ``grid``.

        Curvatures are cut to [0, sup l'']: differences of neighbouring scores that are large would be off by more.
        """
        steepest = float(self.loss.smoothness)

        def curvatures(X: FloatArray, part: slice) -> FloatArray:
            eta = row_products(X, theta) + self.offset[part]
            return np.asarray(self.weights[part] * np.clip(self.loss.curvature(eta, self.y[part]), 0.0, steepest))

        def of_rows(part: slice, i: IntArray, j: IntArray, factor: FloatArray) -> FloatArray:
            X = self.X[part]
            return products(X, i, j, numbers=curvatures(X, part), factor=factor)

        if self.person is not None:
            return added_by_person(self.person, self.X.shape[1], grid=grid, of_rows=of_rows)
        (total,) = added_squares(self.X, lambda X, part: (curvatures(X, part),), grids=(grid,))
        return total

    def stacked_sandwich(
        self, theta: FloatArray, part: SandwichPart, *, grids: tuple[float, float]
    ) -> tuple[ExactArray, ExactArray]:
        """Return the exact sums of stacked Hessians and squared scores, each person's cut to a norm, in grid steps.

        Of people with one row both are a number times ``x x'``, whose norm is that number times the squared length of
        the row. The number is cut; curvatures are cut to [0, sup l''] first. Of people with several rows see
        `_sandwich_of_people`.
        """
        if self.person is not None:
            return self._sandwich_of_people(self.person, theta, part, grids=grids)
        windowed = self.loss.with_width(part.width)
        steepest = float(windowed.smoothness)

        def numbers(X: FloatArray, rows: slice) -> tuple[FloatArray, FloatArray]:
            eta, y, weights = row_products(X, theta) + self.offset[rows], self.y[rows], self.weights[rows]
            curvatures = weights * np.clip(windowed.curvature(eta, y), 0.0, steepest)
            squares, lengths = np.asarray((weights * self.loss.score(eta, y)) ** 2), squared_lengths(X)
            return (
                cut_numbers(curvatures, lengths, bound=part.curvature),
                cut_numbers(squares, lengths, bound=part.scores),
            )

        hessians, scores = added_squares(self.X, numbers, grids=grids)
        return hessians, scores

    def _sandwich_of_people(
        self, person: IntArray, theta: FloatArray, part: SandwichPart, *, grids: tuple[float, float]
    ) -> tuple[ExactArray, ExactArray]:
        """Return `stacked_sandwich` of people with several rows.

        A person's Hessian is the sum of those of the rows, multiplied by what makes its trace at most the bound: it is
        positive semidefinite, so that its norm is no larger than its trace. The score is the sum of those of the rows,
        and its square is cut to its norm, the squared length of the score.
        """
        D, windowed = self.dimension, self.loss.with_width(part.width)
        curved = np.clip(windowed.curvature(row_products(self.X, theta) + self.offset, self.y), 0.0, None)
        curved = self.weights * np.minimum(curved, float(windowed.smoothness))
        traces = np.bincount(person, weights=curved * squared_lengths(self.X), minlength=self.count)
        curved = curved * np.minimum(1.0, part.curvature / np.maximum(traces, 1e-150))[person]
        scores = self.scores(theta)
        factors = cut_numbers(np.ones(self.count), squared_lengths(scores), bound=part.scores)

        def of_rows(some: slice, i: IntArray, j: IntArray, factor: FloatArray) -> FloatArray:
            return products(self.X[some], i, j, numbers=curved[some], factor=factor)

        (squares,) = added_squares(scores, lambda _, some: (factors[some],), grids=grids[1:])
        return added_by_person(person, D, grid=grids[0], of_rows=of_rows), squares


def added_squares(
    X: FloatArray, numbers: Callable[[FloatArray, slice], Sequence[FloatArray]], *, grids: Sequence[float]
) -> list[ExactArray]:
    """Return exact integer sums over rows of numbers times ``x x'``, stacked, each row's entries rounded first.

    ``numbers`` returns, for some rows and their places, one array (rows,) for each of the sums; a sum's entries are
    rounded to multiples of its grid. They are those of `products`, to the last bit. Rounded entries are integers below
    2^26, and their sums over a piece are exact in any order.
    """
    D = X.shape[1]
    size = max(1, min(PIECE, NUMBERS_AT_ONCE // D))
    diagonal, other = (np.array([factor / grid for grid in grids])[:, None] for factor in (1.0, math.sqrt(2.0)))

    def of_piece(piece: slice) -> ExactArray:
        total = np.zeros((len(grids), D * (D + 1) // 2), dtype=np.int64)
        for start in range(piece.start, piece.stop, size):
            rows = slice(start, min(start + size, piece.stop))
            own = np.stack(numbers(X[rows], rows))
            total += square_sums(X, own * diagonal, own * other, rows)
        exact: ExactArray = total.astype(object)
        return exact

    return list(added_over_pieces(len(X), of_piece))


def products(X: FloatArray, i: IntArray, j: IntArray, *, numbers: FloatArray, factor: FloatArray) -> FloatArray:
    """Return entries ``(i, j)`` of numbers (n,) times ``x x'`` times factors (k,), (n, k): in memory entry by entry."""
    columns = np.ascontiguousarray(X.T)
    return np.asarray((columns[i] * columns[j] * (numbers * factor[:, None])).T)


def squared_lengths(X: FloatArray) -> FloatArray:
    """Return ``||x||^2`` of rows (n,), each from its own row alone to the last bit: column by column."""
    total = np.zeros(len(X))
    for column in X.T:
        total += column * column
    return total


def cut_numbers(numbers: FloatArray, lengths: FloatArray, *, bound: float) -> FloatArray:
    """Return numbers ``a >= 0`` cut so that ``a x x'`` has a norm of at most ``bound``; ``lengths`` are ``||x||^2``."""
    return np.asarray(np.minimum(numbers, bound / np.maximum(lengths, 1e-150)))


def whose(rows: RegressionRows) -> IntArray:
    """Return whose each row is (n,): each its own person where rows say nothing else."""
    return np.arange(len(rows.y)) if rows.person is None else rows.person
