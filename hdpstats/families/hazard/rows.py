"""Spells of a hazard model: capped losses with a predictor for each interval at risk, exactly added."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import BoolArray, ExactArray, FloatArray, IntArray
from hdpstats._base.work import Operations
from hdpstats.families.base import NUMBERS
from hdpstats.families.hazard.spells import CappedSpells, scores_work
from hdpstats.losses import HazardLink, ValuedLink
from hdpstats.losses.base import CappedTerms
from hdpstats.solvers.kernels import (
    PIECE,
    TOGETHER,
    added_over_pieces,
    added_work,
    grid_sum,
    predictor_error,
    row_products,
    score_sum,
)
from hdpstats.solvers.objective import (
    ROUGH,
    UNIT,
    BoundedRows,
    ObjectiveWork,
    RowBounds,
    SumError,
    integer_bits,
    score_bits,
)


def spells_work(rows: int, *, p: int, q: int, e: int, causes: int, functions: float) -> ObjectiveWork:
    """Return the work of a `HazardRows` of so many spells, with p covariates, q intervals and e features."""
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
@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class HazardRows(BoundedRows):
    """Spells: scores, losses and curvatures of each person from that person's spells alone. D = causes (e + p).

    ``person`` (m,) says whose each spell is, 0 to ``number`` - 1.
    """

    spells: CappedSpells
    person: IntArray
    number: int

    @property
    def count(self) -> int:
        """The number of people."""
        return self.number

    @property
    def dimension(self) -> int:
        """``causes (e + p)``."""
        return self.spells.causes * self.spells.block

    @cached_property
    def grid_bits(self) -> int:
        """The grid of the summands follows from their largest possible size."""
        return score_bits(self.known_bounds.summand)

    @cached_property
    def known_bounds(self) -> RowBounds:
        """What spells contribute at most, from the spells themselves where it is not known beforehand."""
        if self.bounds is not None:
            return self.bounds
        spells = self.spells
        length = np.maximum(np.max(np.abs(spells.Z), axis=1, initial=0.0), 1.0)
        summand = (spells.total + 1.0) * float(np.max(spells.most * length, initial=0.0))
        square = 4.0 * (spells.total + 1.0) * float(np.max(spells.most * length**2, initial=1e-300))
        return RowBounds(summand=summand, root=math.sqrt(square), rows=len(spells.Z))

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
    def summands(self) -> int:
        """The number of spells."""
        return len(self.spells.Z)

    @property
    def rough_rows(self) -> int:
        """The spells of a rough Hessian: a sixteenth of all, where that is more than `ROUGH` over 4."""
        return max(ROUGH // 4, max(self.known_bounds.rows, self.summands) // 16)

    @property
    def curvature_bits(self) -> int:
        """Bits after the point of `loss_hessian`."""
        return integer_bits(max(self.known_bounds.rows, len(self.spells.Z)), self.known_bounds.root**2)

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
        out = np.zeros((self.dimension, self.dimension))
        for cause, part in enumerate(
            np.ldexp(sums.astype(np.float64), -self.curvature_bits).reshape(spells.causes, -1)
        ):
            i, j, k = cause * spells.block, cause * spells.block + e, (cause + 1) * spells.block
            cross = part[q : q + e * p].reshape(e, p)
            out[i:j, i:j] = spells.A.T @ (part[:q, None] * spells.A)
            out[i:j, j:k], out[j:k, i:j] = cross, cross.T
            out[j:k, j:k] = part[q + e * p :].reshape(p, p)
        return out

    def sum_error(self, theta: FloatArray) -> SumError:
        r"""Return what the computed gradient of the sum of losses is off at most at ``theta``.

        See `spell_error` for the scores of a spell, whose caps over all intervals and causes, times what
        `CappedSpells.weighed` left of its weight, add up to at most ``H``, and which ends in one event at most; for the
        rest see `SumError`.
        """
        spells = self.spells
        norms = np.sqrt(1.0 + np.einsum("ij,ij->i", spells.Z, spells.Z))
        slopes = float(np.max(np.linalg.norm(spells.cap_slopes, axis=1), initial=0.0))
        level = float(np.max(np.abs(spells.cap_baseline), initial=0.0)) + abs(spells.margin) + 1.0
        sizes = norms * (float(np.linalg.norm(theta)) + slopes) + 2.0 * np.abs(spells.offset) + level
        longest = int(np.max(spells.last - spells.entry, initial=0))
        lengths = spells.most * norms
        error = spell_error(spells.loss, spells.block, total=spells.total, intervals=longest, sizes=sizes)
        steepest = (spells.total + 1.0) * float(np.sum(lengths))
        return SumError.of(lengths * error, dimension=len(theta), grid_bits=self.grid_bits, steepest=steepest)

    def effect(self, direction: FloatArray) -> float:
        """Return (a bound on) the largest change of a linear predictor along a direction (D,)."""
        spells, e, largest = self.spells, self.spells.A.shape[1], 0.0
        for cause in range(spells.causes):
            part = direction[cause * spells.block : (cause + 1) * spells.block]
            baseline = float(np.max(np.abs(spells.A @ part[:e]), initial=0.0))
            largest = max(largest, baseline + float(np.max(np.abs(spells.Z @ part[e:]), initial=0.0)))
        return largest

    def exact_loss_gradient(self, numbers: MPContext, theta: list[mpf]) -> list[mpf]:
        """Return the gradient of the sum of losses in the numbers of a context: of the losses with computed caps."""
        spells, e, block = self.spells, self.spells.A.shape[1], self.spells.block
        A, rows = spells.A.tolist(), spells.Z.tolist()
        total = [numbers.mpf(0)] * len(theta)
        for i, z in enumerate(rows):
            offset, weight = numbers.mpf(float(spells.offset[i])), numbers.mpf(float(spells.weights[i]))
            caps = [spells.exact_caps(numbers, i, cause) for cause in range(spells.causes)]
            for cause in range(spells.causes):
                alpha = theta[cause * block : cause * block + e]
                beta = theta[cause * block + e : (cause + 1) * block]
                level = sum((a * b for a, b in zip(z, beta, strict=True)), offset)
                slope = numbers.mpf(0)
                for s in range(int(spells.entry[i]), int(spells.last[i])):
                    eta = sum((a * b for a, b in zip(A[s], alpha, strict=True)), level)
                    log_cap, k = caps[cause][s]
                    c, event = spells.loss.exact_scores(numbers, eta, log_cap)
                    ends = s + 1 == spells.last[i] and spells.cause[i] == cause + 1
                    score = weight * (-event if ends else c * k)
                    slope += score
                    for j, a in enumerate(A[s]):
                        total[cause * block + j] += score * a
                for j, value in enumerate(z):
                    total[cause * block + e + j] += slope * value
        return total

    def exact_sizes(self, size: float) -> float:
        """Return what relative rounding errors of `exact_loss_gradient` multiply, where ``||theta|| = size``.

        The number of spells is that of the whole sum, as in `RegressionRows.exact_sizes`.
        """
        spells = self.spells
        m, q = max(self.known_bounds.rows, len(spells.Z)), len(spells.A)
        norms = np.sqrt(1.0 + np.einsum("ij,ij->i", spells.Z, spells.Z))
        level = float(np.max(np.abs(spells.cap_baseline), initial=0.0)) + abs(spells.margin) + 800.0
        slopes = float(np.max(np.linalg.norm(spells.cap_slopes, axis=1), initial=0.0))
        sizes = spells.most * norms * (norms * (size + slopes) + np.abs(spells.offset) + level)
        return float((m * q + self.dimension + 8) * 8.0 * (spells.total + 1.0) * spells.causes * np.sum(sizes))

    def scores(self, theta: FloatArray) -> FloatArray:
        """Return the gradient of each person's weighted loss (people, D), from that person's spells alone.

        To the last bit: sums run over intervals and features in their order, one elementwise operation at a time. A
        matrix product would depend on where in the table a person stands.
        """
        whole = self.spells
        of_spells = whole.scores(theta).T
        added = [np.bincount(self.person, weights=each * whole.weights, minlength=self.number) for each in of_spells]
        return np.asarray(np.stack(added).T, dtype=np.float64)  # of nobody they are integers

    def _periods(self, theta: FloatArray, cause: int) -> Iterator[tuple[int, IntArray, CappedTerms, BoolArray]]:
        """Yield every interval (0-based) with the spells at risk in it, their losses and whether each ends in an event.

        The losses are those of a cause (0-based).
        """
        for s, here, eta, log_cap, ends in self._places(theta, cause):
            yield s, here, self.spells.loss.cells(eta, log_cap), ends

    def _places(
        self, theta: FloatArray, cause: int
    ) -> Iterator[tuple[int, IntArray, FloatArray, FloatArray, BoolArray]]:
        """Yield every interval (0-based) with the spells at risk in it, predictors, log caps and ends in events."""
        whole, e = self.spells, self.spells.A.shape[1]
        part = theta[cause * whole.block : (cause + 1) * whole.block]
        level = row_products(whole.Z, part[e:]) + whole.offset
        caps = row_products(whole.Z, whole.cap_slopes[cause]) + whole.offset
        for s, baseline in enumerate(row_products(whole.A, part[:e]).tolist()):
            here = np.flatnonzero((whole.entry <= s) & (s < whole.last))
            log_cap = whole.loss.caps(whole.cap_baseline[cause, s] + caps[here], whole.margin)
            ends = (whole.last[here] == s + 1) & (whole.cause[here] == cause + 1)
            yield s, here, baseline + level[here], log_cap, ends

    def losses(self, theta: FloatArray) -> FloatArray:
        """Return each person's weighted loss (people,), for the logit link."""
        whole, link = self.spells, self.spells.loss
        if not isinstance(link, ValuedLink):
            raise MechanismError(f"the capped losses of the {link.name} link have no values in closed form")
        of_spells = np.zeros(len(whole.Z))
        for cause in range(whole.causes):
            for _, here, eta, log_cap, ends in self._places(theta, cause):
                survived, event = link.capped_values(eta, log_cap)
                of_spells[here] += np.where(ends, event, survived)
        out = np.zeros(self.number)
        np.add.at(out, self.person, whole.weights * of_spells)
        return out

    def stacked_hessian(self, theta: FloatArray, *, grid: float) -> ExactArray:
        """Return the stacked sum of the people's Hessians, each rounded to multiples of ``grid`` before it is added.

        What is rounded depends on the own person alone, to the last bit: see `scores`.
        """
        (i, j), D = np.triu_indices(len(theta)), len(theta)
        factor = np.where(i == j, 1.0, math.sqrt(2.0)) / grid
        total, size = np.zeros(len(i), dtype=object), max(1, NUMBERS // D**2)
        for first in range(0, self.number, size):
            start, stop = np.searchsorted(self.person, [first, first + size]).tolist()
            matrices = np.zeros((min(size, self.number - first), D, D))
            for begin in range(start, stop, size):
                part = slice(begin, min(begin + size, stop))
                some = replace(self, spells=self.spells.take(part), person=self.person[part])
                np.add.at(matrices, some.person - first, some._hessians(theta))
            total += np.rint(matrices[:, i, j] * factor).astype(np.int64).sum(axis=0).astype(object)
        return total

    def _hessians(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian of each spell's weighted loss (m, D, D)."""
        Z, e, block = self.spells.Z, self.spells.A.shape[1], self.spells.block
        out = np.zeros((len(Z), len(theta), len(theta)))
        for cause in range(self.spells.causes):
            plain, first, second = self._curvature_moments(theta, cause)
            i, j, k = cause * block, cause * block + e, (cause + 1) * block
            cross = first[:, :, None] * Z[:, None, :]
            out[:, i:j, i:j] = second
            out[:, i:j, j:k] = cross
            out[:, j:k, i:j] = np.swapaxes(cross, 1, 2)
            out[:, j:k, j:k] = plain[:, None, None] * (Z[:, :, None] * Z[:, None, :])
        return out

    def _curvature_moments(self, theta: FloatArray, cause: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return every spell's weighted sums of the curvatures times 1, ``A_s`` and ``A_s A_s'``."""
        whole, (m, e) = self.spells, (len(self.spells.Z), self.spells.A.shape[1])
        plain, first, second = np.zeros(m), np.zeros((m, e)), np.zeros((m, e, e))
        for s, here, cells, ends in self._periods(theta, cause):
            curvature = whole.weights[here] * np.where(ends, cells.event_curvature, cells.survived_curvature)
            plain[here] += curvature
            features = [(j, feature) for j, feature in enumerate(whole.A[s].tolist()) if feature]
            for j, feature in features:
                first[here, j] += feature * curvature
                for k, other in features:
                    second[here, j, k] += feature * other * curvature
        return plain, first, second
