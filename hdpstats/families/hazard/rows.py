"""Spells of a hazard model: a penalised, perturbed sum of capped losses with a predictor for each interval at risk."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.typing import ExactArray, FloatArray, IntArray
from hdpstats._base.work import Operations
from hdpstats.families.hazard.spells import CappedSpells, scores_work
from hdpstats.losses import HazardLink
from hdpstats.solvers.kernels import (
    PIECE,
    TOGETHER,
    added_over_pieces,
    added_work,
    grid_sum,
    predictor_error,
    score_sum,
)
from hdpstats.solvers.objective import ROUGH, UNIT, ObjectiveWork, RowBounds, SumObjective, integer_bits, score_bits


def spells_work(rows: int, *, p: int, q: int, e: int, causes: int, functions: float) -> ObjectiveWork:
    """Return the work of a `HazardObjective` of so many spells, with p covariates, q intervals and e features."""
    D, pieces = causes * (e + p), rows // PIECE + 1.0
    scores = scores_work(rows, p=p, q=q, e=e, causes=causes, functions=functions, most=PIECE)
    sums = added_work(rows, D, functions=0.0)
    cross = causes * (e + p) * added_work(rows, p, functions=0.0)
    blocks = Operations(steps=40.0 * causes + 20.0, passes=4.0 * D**2, squares=float(causes) * q * e**2)
    return ObjectiveWork(
        dimension=D,
        gradient=scores + sums + Operations(steps=40.0 * pieces),
        hessian=scores + cross + blocks + Operations(steps=40.0 * pieces * (1.0 + causes * (e + p))),
        error=Operations(steps=80.0, passes=(p + 30.0) * rows),
    )


def spell_error(
    loss: HazardLink, block: int, *, total: float, intervals: int, sizes: FloatArray | float
) -> FloatArray | float:
    r"""Return what spells with one event, whose caps add up to ``total``, are off at most over their weight and length.

    Let u = 2^-53, and ``x = (A_s, z)`` be a row of ``block`` numbers with ``||A_s|| <= 1`` and the length
    ``sqrt(1 + ||z||^2)``. ``sizes`` bounds the sum of the sizes of all that a predictor and a cap are made of.

    *A score* of a cell is a function of ``eta`` with the slope ``k h`` at most, or ``k`` for an event
    (`HazardLink.survived_smoothness`). Predictors, and with the logit and the cloglog link logarithms of ``u``, are
    compensated: besides a last rounding of ``eta``, which `HazardLink.ulps` counts, they are off by
    ``delta = predictor_error(block + 8)``: that of ``A_s'alpha`` and that of ``z'beta + o`` add up to that of ``block``
    products at most, and at most five additions of lesser parts, which are below 2^-23 of the sizes, are rounded.
    Cutting exponents changes no difference of scores by more than e^-170 (`hdpstats.solvers.kernels`). So a score is
    off by ``k delta + ulps u``, relative to ``h`` or 1, however long coefficients are.

    *Sums*: of the scores, each times a feature, of ``q`` intervals at most in which they are not 0, the last one that
    of an event if there is one. Adding zeros, of intervals in which the spell is not at risk, is exact. No term is in
    more than ``q - 1`` other additions, and as the terms of 8 intervals are added first (`kernels.TOGETHER`), in no
    more than 7, those of ``q / 8 + 2`` groups less one, and that of an event: ``q / 8 + 9``. Each errs by ``u`` times
    its part of the sum of the sizes. Three products, by a feature, by ``z`` and by the weight, and what is of the
    second order add 5 u; a product by a power of two is exact.
    """
    off, sums = predictor_error(block + 8, sizes), min(intervals - 1.0, intervals / TOGETHER + 9.0) + 5.0
    survived = float(loss.survived_smoothness) * off + (loss.ulps + sums) * UNIT
    return total * survived + float(loss.event_smoothness) * off + (loss.event_ulps + sums) * UNIT


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HazardObjective(SumObjective):
    """The function to minimise, D = causes (e + p)."""

    spells: CappedSpells

    bounds: RowBounds | None = None

    def __post_init__(self) -> None:
        """Choose the grid of the summands from their largest possible size."""
        spells = self.spells
        if self.bounds is None:
            length = np.maximum(np.max(np.abs(spells.Z), axis=1, initial=0.0), 1.0)
            summand = (spells.total + 1.0) * float(np.max(spells.most * length, initial=0.0))
            square = 4.0 * (spells.total + 1.0) * float(np.max(spells.most * length**2, initial=1e-300))
            bounds = RowBounds(summand=summand, root=math.sqrt(square), rows=len(spells.Z))
            object.__setattr__(self, "bounds", bounds)
        object.__setattr__(self, "grid_bits", score_bits(self._known.summand))

    @property
    def _known(self) -> RowBounds:
        if self.bounds is None:
            raise ValueError("an objective knows its bounds once it is made")
        return self.bounds

    @property
    def mass(self) -> float:
        """The sum of the weights."""
        return float(np.sum(self.spells.weights))

    def loss_gradient(self, theta: FloatArray, rest: FloatArray | None = None) -> ExactArray:
        """Return the gradient (D,) of the sum of losses on the grid."""
        spells, coefficients = self.spells, self.spells.coefficients(theta, rest)

        def of_piece(part: slice) -> ExactArray:
            return score_sum(spells.scores_at(coefficients, part), spells.weights[part], bits=self.grid_bits)

        return added_over_pieces(len(spells.Z), of_piece)

    @property
    def rows(self) -> int:
        """The number of spells."""
        return len(self.spells.Z)

    @property
    def rough_rows(self) -> int:
        """The spells of a rough Hessian: a sixteenth of all, where that is more than `ROUGH` over 4."""
        return max(ROUGH // 4, max(self._known.rows, self.rows) // 16)

    @property
    def curvature_bits(self) -> int:
        """Bits after the point of `loss_hessian`."""
        return integer_bits(max(self._known.rows, len(self.spells.Z)), self._known.root**2)

    def loss_hessian(self, theta: FloatArray, *, rows: int) -> IntArray:
        """Return what `hessian_of` makes the Hessian of the losses of the first spells of, exactly added.

        In units of 2^-`curvature_bits`, for each cause: the curvatures of all intervals (q,), those times features and
        covariates (e, p), and those times products of covariates (p, p).
        """
        spells, bits = self.spells, self.curvature_bits
        coefficients = spells.coefficients(theta)

        def of_piece(part: slice) -> IntArray:
            parts = []
            for of in coefficients:
                found, intervals = spells.curvature_sums(of, part, bits=bits)
                cross = [grid_sum(spells.Z, each, part, bits=bits) for each in found[:-1]]
                squares = [grid_sum(spells.Z, found[-1] * z, part, bits=bits) for z in spells.Z[part].T]
                parts += [intervals, *cross, *squares]
            return np.concatenate(parts)

        return added_over_pieces(rows, of_piece)

    def hessian_of(self, sums: IntArray) -> FloatArray:
        """Return the Hessian (D, D) of a sum of losses from `loss_hessian`; blocks of different causes are zero."""
        spells, (q, e), p = self.spells, self.spells.A.shape, self.spells.Z.shape[1]
        out = np.zeros((len(self.ridge), len(self.ridge)))
        for cause, part in enumerate(
            np.ldexp(sums.astype(np.float64), -self.curvature_bits).reshape(spells.causes, -1)
        ):
            i, j, k = cause * spells.block, cause * spells.block + e, (cause + 1) * spells.block
            cross = part[q : q + e * p].reshape(e, p)
            out[i:j, i:j] = spells.A.T @ (part[:q, None] * spells.A)
            out[i:j, j:k], out[j:k, i:j] = cross, cross.T
            out[j:k, j:k] = part[q + e * p :].reshape(p, p)
        return out

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (D, D), ridge included; blocks of different causes are zero."""
        return self.hessian_of(self.loss_hessian(theta, rows=len(self.spells.Z))) + np.diag(self.ridge)

    def rough_hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian of the first `rough_rows` spells, as if they were all, where there are many more."""
        m, rough = self.rows, self.rough_rows
        if m < 2 * rough:
            return self.hessian(theta)
        return self.hessian_of(self.loss_hessian(theta, rows=rough)) * (m / rough) + np.diag(self.ridge)

    def gradient_error(self, theta: FloatArray) -> float:
        r"""Return a bound on the Euclidean distance between `gradient` and the true gradient at ``theta``.

        See `spell_error` for the scores of a spell, whose caps over all intervals and causes, times what
        `CappedSpells.weighed` left of its weight, add up to at most ``H``, and which ends in one event at most; for the
        rest see `SumObjective.summed_error`.
        """
        spells = self.spells
        norms = np.sqrt(1.0 + np.einsum("ij,ij->i", spells.Z, spells.Z))
        slopes = float(np.max(np.linalg.norm(spells.cap_slopes, axis=1), initial=0.0))
        level = float(np.max(np.abs(spells.cap_baseline), initial=0.0)) + abs(spells.margin) + 1.0
        sizes = norms * (float(np.linalg.norm(theta)) + slopes) + 2.0 * np.abs(spells.offset) + level
        longest = int(np.max(spells.last - spells.entry, initial=0))
        lengths = spells.most * norms
        error = spell_error(spells.loss, spells.block, total=spells.total, intervals=longest, sizes=sizes)
        return self.summed_error(theta, lengths * error, steepest=(spells.total + 1.0) * float(np.sum(lengths)))

    def effect(self, direction: FloatArray) -> float:
        """Return (a bound on) the largest change of a linear predictor along a direction (D,)."""
        spells, e, largest = self.spells, self.spells.A.shape[1], 0.0
        for cause in range(spells.causes):
            part = direction[cause * spells.block : (cause + 1) * spells.block]
            baseline = float(np.max(np.abs(spells.A @ part[:e]), initial=0.0))
            largest = max(largest, baseline + float(np.max(np.abs(spells.Z @ part[e:]), initial=0.0)))
        return largest

    def exact_loss_gradient(self, numbers: MPContext, theta: list[mpf]) -> list[mpf]:
        """Return the gradient of the sum of losses in the numbers of a context."""
        spells, e, block = self.spells, self.spells.A.shape[1], self.spells.block
        A, rows = spells.A.tolist(), spells.Z.tolist()
        total = [numbers.mpf(0)] * len(theta)
        for i, z in enumerate(rows):
            offset, weight = numbers.mpf(float(spells.offset[i])), numbers.mpf(float(spells.weights[i]))
            log_caps = [spells.exact_log_caps(numbers, i, cause) for cause in range(spells.causes)]
            for cause in range(spells.causes):
                alpha = theta[cause * block : cause * block + e]
                beta = theta[cause * block + e : (cause + 1) * block]
                level = sum((a * b for a, b in zip(z, beta, strict=True)), offset)
                slope = numbers.mpf(0)
                for s in range(int(spells.entry[i]), int(spells.last[i])):
                    eta = sum((a * b for a, b in zip(A[s], alpha, strict=True)), level)
                    c, event = spells.loss.exact_scores(numbers, eta, log_caps[cause][s])
                    ends = s + 1 == spells.last[i] and spells.cause[i] == cause + 1
                    score = weight * (-event if ends else c)
                    slope += score
                    for j, a in enumerate(A[s]):
                        total[cause * block + j] += score * a
                for j, value in enumerate(z):
                    total[cause * block + e + j] += slope * value
        return total

    def exact_sizes(self, size: float) -> float:
        """Return what relative rounding errors of `exact_loss_gradient` multiply, where ``||theta|| = size``.

        The number of spells is that of the whole sum, see `LinearObjective.exact_sizes`.
        """
        spells = self.spells
        m, q = max(self._known.rows, len(spells.Z)), len(spells.A)
        norms = np.sqrt(1.0 + np.einsum("ij,ij->i", spells.Z, spells.Z))
        level = float(np.max(np.abs(spells.cap_baseline), initial=0.0)) + abs(spells.margin) + 800.0
        slopes = float(np.max(np.linalg.norm(spells.cap_slopes, axis=1), initial=0.0))
        sizes = spells.most * norms * (norms * (size + slopes) + np.abs(spells.offset) + level)
        return float((m * q + len(self.ridge) + 8) * 8.0 * (spells.total + 1.0) * spells.causes * np.sum(sizes))
