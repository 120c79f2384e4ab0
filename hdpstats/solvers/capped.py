r"""The objective of a discrete-time hazard model with capped losses, never expanded to person-period rows.

A spell at risk in intervals ``entry + 1 .. last`` contributes, for every cause ``k``,

.. math:: \omega_i \Big\{\sum_s \ell_s(\eta_{iks})\Big\}, \qquad \eta_{iks} = A_s'\alpha_k + z_i'\beta_k + o_i,

with the survived loss in every interval but, where the spell ends in an event of cause ``k``, the event's loss in the
last (`hdpstats.losses.hazard`). ``theta`` stacks ``(alpha_k, beta_k)`` over causes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.loops import full_length
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.losses import HazardLink
from hdpstats.solvers.kernels import grid_sum, row_products
from hdpstats.solvers.objective import UNIT, SumObjective, integer_bits

CELLS = 400_000
"""Spells times intervals that are handled at a time."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class CappedSpells:
    """Spells with everything about them that is not a coefficient.

    Attributes
    ----------
    loss : HazardLink
        The link's capped losses.
    A : (q, e) float64
        Baseline features, rows of norm at most 1 up to rounding.
    Z : (m, p) float64
        Covariates.
    entry, last : (m,) int64
        At risk in intervals ``entry + 1 .. last``; nowhere where they are equal.
    cause : (m,) int64
        0, or the cause of the event in interval ``last``.
    weights, offset : (m,) float64
        The whole weight of a spell, and its offset.
    cap_baseline, cap_slopes : (causes, q), (causes, p) float64
        The linear predictor at which caps are taken.
    margin, total : float
        ``d`` and the bound ``H`` on a spell's sum of caps.
    """

    loss: HazardLink
    A: FloatArray
    Z: FloatArray
    entry: IntArray
    last: IntArray
    cause: IntArray
    weights: FloatArray
    offset: FloatArray
    cap_baseline: FloatArray
    cap_slopes: FloatArray
    margin: float
    total: float

    @property
    def causes(self) -> int:
        """The number of causes."""
        return len(self.cap_baseline)

    @property
    def block(self) -> int:
        """``e + p``."""
        return int(self.A.shape[1] + self.Z.shape[1])

    def log_caps(self, spells: slice, intervals: slice, cause: int) -> FloatArray:
        """Return ``log h`` of a block of spells and intervals for a cause (0-based), each of its own spell alone."""
        level = row_products(self.Z[spells], self.cap_slopes[cause]) + self.offset[spells]
        return self.loss.caps(self.cap_baseline[cause, intervals] + level[:, None], self.margin)

    def predictor(self, theta: FloatArray, spells: slice, intervals: slice, cause: int) -> FloatArray:
        """Return ``eta`` of a block of spells and intervals for a cause (0-based)."""
        e, first = self.A.shape[1], cause * self.block
        alpha, beta = theta[first : first + e], theta[first + e : first + self.block]
        return np.asarray((self.A[intervals] @ alpha) + (self.Z[spells] @ beta + self.offset[spells])[:, None])

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """Yield blocks of spells with all intervals: the work on a spell does not depend on its follow-up."""
        size, whole = max(1, CELLS // len(self.A)), slice(0, len(self.A))
        for start in range(0, len(self.Z), size):
            yield slice(start, min(start + size, len(self.Z))), whole

    def at_risk(self, spells: slice, intervals: slice) -> FloatArray:
        """Return 1.0 where a spell is at risk, else 0.0."""
        s = np.arange(intervals.start, intervals.stop) + 1
        inside = (s > self.entry[spells, None]) & (s <= self.last[spells, None])
        return np.asarray(inside, dtype=np.float64)

    def events(self, spells: slice, intervals: slice, cause: int) -> tuple[IntArray, IntArray]:
        """Return the places of the events of a cause (0-based) in a block."""
        cause_here = (self.cause[spells] == cause + 1) & (self.last[spells] > self.entry[spells])
        rows = np.flatnonzero(cause_here)
        return rows, self.last[spells][rows] - 1 - intervals.start

    def ended(self, person: IntArray, *, several: bool = True) -> "CappedSpells":
        """Return the spells with follow-up ended before a person's sum of caps, over all causes, passes ``total``.

        ``person`` (m,) names the person of each spell; the spells of one stand together in the order of time. The sum
        of a person is formed from that person's spells alone, to the last bit. ``several`` says whether a person may
        have more than one: a public fact, that decides how much is computed. In a rehearsal nobody's follow-up ends, as
        what comes after takes the longest then.
        """
        before = np.zeros(len(self.Z))
        whole, fits = self._cap_sums(before=before)
        if several:
            rank = _rank(person)
            order = np.argsort(rank, kind="stable")
            later = np.split(order, np.flatnonzero(np.diff(rank[order])) + 1)[1:]
            for places in later:  # the second spells of everybody, then the third ones
                before[places] = before[places - 1] + whole[places - 1]
            fits = self._cap_sums(before=before)[1]
        last = self.last if full_length() else self.entry + fits
        return replace(self, last=last, cause=np.where(last == self.last, self.cause, 0))

    def _cap_sums(self, *, before: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return each spell's sum of caps (m,), and how many of its intervals fit under ``total`` after ``before``."""
        sums, fits = np.zeros(len(before)), np.zeros(len(before), dtype=np.int64)
        for part, intervals in self.blocks():
            at_risk = self.at_risk(part, intervals)
            caps = np.zeros_like(at_risk)
            for cause in range(self.causes):
                caps += np.exp(self.log_caps(part, intervals, cause))
            running = np.cumsum(caps * at_risk, axis=1)
            fits[part] = np.sum(at_risk * (before[part, None] + running <= self.total), axis=1)
            sums[part] = running[:, -1]
        return sums, fits

    def scores(self, theta: FloatArray) -> FloatArray:
        """Return the gradient of every spell's unweighted loss (m, causes (e + p))."""
        e = self.A.shape[1]
        out = np.zeros((len(self.Z), self.causes * self.block))
        for spells, intervals in self.blocks():
            for cause in range(self.causes):
                eta = self.predictor(theta, spells, intervals, cause)
                c, event = self.loss.scores(eta, self.log_caps(spells, intervals, cause))
                score = c * self.at_risk(spells, intervals)
                where = self.events(spells, intervals, cause)
                score[where] = -event[where]
                first = cause * self.block
                out[spells, first : first + e] = score @ self.A[intervals]
                out[spells, first + e : first + self.block] = score.sum(axis=1)[:, None] * self.Z[spells]
        return out

    def add_outer(self, matrices: FloatArray, weights: FloatArray, spells: slice, intervals: slice, cause: int) -> None:
        """Add ``sum_s weights_is x^s x^s'`` of a block (b, s) to the cause's block of matrices (b, D, D)."""
        A, Z = self.A[intervals], self.Z[spells]
        b, e = len(Z), A.shape[1]
        i, j, k = cause * self.block, cause * self.block + e, (cause + 1) * self.block
        cross = (weights @ A)[:, :, None] * Z[:, None, :]
        squares = (A[:, :, None] * A[:, None, :]).reshape(len(A), e * e)
        matrices[:, i:j, i:j] += (weights @ squares).reshape(b, e, e)
        matrices[:, i:j, j:k] += cross
        matrices[:, j:k, i:j] += np.swapaxes(cross, 1, 2)
        matrices[:, j:k, j:k] += weights.sum(axis=1)[:, None, None] * (Z[:, :, None] * Z[:, None, :])

    def add_sum(self, matrix: FloatArray, weights: FloatArray, spells: slice, intervals: slice, cause: int) -> None:
        """Add ``sum_is weights_is x_is x_is'`` of a block (b, s) to the cause's block of a matrix (D, D)."""
        A, Z = self.A[intervals], self.Z[spells]
        e, i = A.shape[1], cause * self.block
        cross = A.T @ (weights.T @ Z)
        matrix[i : i + e, i : i + e] += A.T @ (weights.sum(axis=0)[:, None] * A)
        matrix[i : i + e, i + e : i + self.block] += cross
        matrix[i + e : i + self.block, i : i + e] += cross.T
        matrix[i + e : i + self.block, i + e : i + self.block] += Z.T @ (weights.sum(axis=1)[:, None] * Z)

    def take(self, kept: BoolArray | slice) -> "CappedSpells":
        """Return some of the spells."""
        rows = {name: getattr(self, name)[kept] for name in ("Z", "entry", "last", "cause", "weights", "offset")}
        return replace(self, **rows)

    def curvature(self, theta: FloatArray, spells: slice, intervals: slice, cause: int) -> FloatArray:
        """Return the weighted curvature of a block of spells and intervals for a cause (0-based)."""
        eta = self.predictor(theta, spells, intervals, cause)
        cells = self.loss.cells(eta, self.log_caps(spells, intervals, cause))
        curvature = cells.survived_curvature * self.at_risk(spells, intervals)
        where = self.events(spells, intervals, cause)
        curvature[where] = cells.event_curvature[where]
        curvature *= self.weights[spells, None]
        return np.asarray(curvature)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HazardObjective(SumObjective):
    """The function to minimise, D = causes (e + p)."""

    spells: CappedSpells

    def __post_init__(self) -> None:
        """Choose the grid of the summands from their largest possible size."""
        spells = self.spells
        length = np.maximum(np.max(np.abs(spells.Z), axis=1, initial=0.0), 1.0)
        summand = (spells.total + 1.0) * float(np.max(spells.weights * length, initial=0.0))
        object.__setattr__(self, "grid_bits", integer_bits(len(spells.Z), summand))

    @property
    def mass(self) -> float:
        """The sum of the weights."""
        return float(np.sum(self.spells.weights))

    def loss_gradient(self, theta: FloatArray) -> IntArray:
        """Return the gradient (D,) of the sum of losses on the grid."""
        return grid_sum(self.spells.scores(theta), self.spells.weights, bits=self.grid_bits)

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (D, D), ridge included; blocks of different causes are zero."""
        spells = self.spells
        out = np.diag(self.ridge).astype(np.float64)
        for part, intervals in spells.blocks():
            for cause in range(spells.causes):
                curvature = spells.curvature(theta, part, intervals, cause)
                spells.add_sum(out, curvature, part, intervals, cause)
        return out

    def gradient_error(self, theta: FloatArray) -> float:
        r"""Return a bound on the Euclidean distance between `gradient` and the true gradient at ``theta``.

        Let u = 2^-53, g = 1.01 (D + 8) u, ``r`` the link's `ulps` and ``k`` its largest smoothness. The predictor of a
        cell errs by at most ``g (||x|| ||theta|| + |o|)``, that of its cap by
        ``g (||z|| ||delta|| + |gamma| + |o| + |d| + 1)``. Scores have slopes of at most ``k h`` in the first and ``h``
        in the second (``k`` and 1 for an event), and an error of ``r u`` of that size on top. A spell's caps
        add up to at most ``H``, so its score errs by ``(H + 1) ||x|| ((k + 1) (...) + (r + q + 8) u)``; for the rest
        see `SumObjective.summed_error`.
        """
        spells = self.spells
        D, q = len(theta), len(spells.A)
        g = 1.01 * (D + 8) * UNIT
        square = 1.0 + np.einsum("ij,ij->i", spells.Z, spells.Z)
        norms = np.sqrt(square)
        size = float(np.linalg.norm(theta))
        slopes = float(np.max(np.linalg.norm(spells.cap_slopes, axis=1), initial=0.0))
        level = float(np.max(np.abs(spells.cap_baseline), initial=0.0)) + abs(spells.margin) + 1.0
        predictor = g * (norms * (size + slopes) + 2.0 * np.abs(spells.offset) + level)
        largest = (spells.total + 1.0) * spells.causes
        slope = spells.loss.steepness * predictor
        per_spell = largest * spells.weights * norms * (slope + (spells.loss.ulps + q + 8) * UNIT)
        return self.summed_error(theta, per_spell, steepest=largest * float(np.sum(spells.weights * norms)))

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
            log_caps = [
                spells.log_caps(slice(i, i + 1), slice(0, len(A)), cause)[0].tolist() for cause in range(spells.causes)
            ]
            for cause in range(spells.causes):
                alpha = theta[cause * block : cause * block + e]
                beta = theta[cause * block + e : (cause + 1) * block]
                level = sum((a * b for a, b in zip(z, beta, strict=True)), offset)
                slope = numbers.mpf(0)
                for s in range(int(spells.entry[i]), int(spells.last[i])):
                    eta = sum((a * b for a, b in zip(A[s], alpha, strict=True)), level)
                    c, event = spells.loss.exact_scores(numbers, eta, numbers.mpf(log_caps[cause][s]))
                    ends = s + 1 == spells.last[i] and spells.cause[i] == cause + 1
                    score = weight * (-event if ends else c)
                    slope += score
                    for j, a in enumerate(A[s]):
                        total[cause * block + j] += score * a
                for j, value in enumerate(z):
                    total[cause * block + e + j] += slope * value
        return total

    def exact_sizes(self, size: float) -> float:
        """Return what relative rounding errors of `exact_loss_gradient` multiply, where ``||theta|| = size``."""
        spells = self.spells
        m, q = len(spells.Z), len(spells.A)
        norms = np.sqrt(1.0 + np.einsum("ij,ij->i", spells.Z, spells.Z))
        level = float(np.max(np.abs(spells.cap_baseline), initial=0.0)) + abs(spells.margin) + 800.0
        slopes = float(np.max(np.linalg.norm(spells.cap_slopes, axis=1), initial=0.0))
        sizes = spells.weights * norms * (norms * (size + slopes) + np.abs(spells.offset) + level)
        return float((m * q + len(self.ridge) + 8) * 8.0 * (spells.total + 1.0) * spells.causes * np.sum(sizes))


def _rank(person: IntArray) -> IntArray:
    """Return the place of each spell among those of its person, from 0; a person's spells stand together."""
    m = len(person)
    first = np.flatnonzero(np.concatenate([[True], person[1:] != person[:-1]])) if m else np.zeros(0, dtype=np.int64)
    return np.asarray(np.arange(m) - np.repeat(first, np.diff(np.append(first, m))), dtype=np.int64)
