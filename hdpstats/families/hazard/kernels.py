r"""Kernels: sums over the intervals that spells survive, by person and interval, from tables, or in closed form.

`CellKernel`, in numpy, is for any link: one term per person and interval, a block of spells at a time.

`TabulatedKernel`, compiled, is for any link: the cost of a spell does not depend on how many intervals it lasts.
For a fixed baseline the sum over intervals ``F_t(eta) = sum_{s <= t} f(a_s + eta)`` is a smooth function of one number,
whether ``f`` is the term of a survived interval or one of its derivatives. Its singularities lie at least d away from
the real line (`HazardLink.analytic`), so in cells of half-width h a polynomial through `NODES` Chebyshev points misses
it by the order of ``rho^-NODES`` with ``rho = d/h + sqrt(1 + d^2/h^2)`` (Trefethen 2013, theorem 8.2). Where h is d /
5.6 or less that is below 3e-13 of its size and in sums over many spells at the level of rounding. A spell needs
``F_last - F_entry`` at its ``eta``. Sums over spells go the other way: interval s needs ``sum_i w_i f(a_s + eta_i)``
over those at risk. Interpolation turns it into a sum over nodes, weighted by the spells' moments in the Chebyshev
polynomials, which are collected by last interval and summed from the last interval back.

`CumulativeHazards` is for the complementary log-log link, in closed form. Surviving an interval adds
``e^{a_s + eta} = E_s w``, so the sum over a spell's intervals is ``w`` times a difference of running sums of ``E_s``,
and the sum over the people at risk is ``E_s`` times a difference of running sums of ``w``: no term per person and
interval. The differences are exact to the rounding of the running sums, so intervals in which nobody is at risk must
not enter them (`NEVER`).

References
----------
Trefethen (2013), *Approximation Theory and Approximation Practice*, chapters 3 and 8.
"""

import math
from abc import ABC, abstractmethod
from typing import Final, NamedTuple, final

import numpy as np
from scipy.sparse import csr_array

from hdpstats._base.compiled import compiled_reordered, inlined_reordered
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.losses import HazardLink
from hdpstats.losses.hazard_links import LARGEST_EXPONENT


class Survived(NamedTuple):
    """Spells and their survived intervals ``entry + 1, ..., last``: ``Z`` (m, p), the others (m,)."""

    Z: FloatArray
    entry: IntArray
    last: IntArray
    weights: FloatArray
    eta: FloatArray

    def part(self, rows: slice) -> "Survived":
        """Return some of the spells."""
        return Survived(self.Z[rows], self.entry[rows], self.last[rows], self.weights[rows], self.eta[rows])


class SpellSums(NamedTuple):
    """Weighted sums over the survived intervals of b spells.

    ``score`` and ``curvature`` (b,) of each spell; ``cross`` (p, e), the sum over spells and intervals of
    ``curvature z A_s'``.
    """

    score: FloatArray
    curvature: FloatArray
    cross: FloatArray


class IntervalSums(NamedTuple):
    """Weighted sums over all spells: minus the log-likelihood, and score and curvature (q,) of each interval."""

    value: float
    score: FloatArray
    curvature: FloatArray


class Kernel(ABC):
    """One pass over spells at given linear predictors: every block once, then the intervals."""

    @abstractmethod
    def spells(self, rows: slice) -> SpellSums:
        """Return the sums of a block of spells, and remember its part of the interval sums."""

    @abstractmethod
    def intervals(self) -> IntervalSums:
        """Return the interval sums of all blocks so far."""


CELLS = 1 << 17
"""Person-intervals that numpy handles at a time: keeps temporaries in cache and memory flat."""


@final
class CellKernel(Kernel):
    """Evaluates the link at every person-interval of a block, held as a sparse matrix of spells by intervals."""

    def __init__(self, link: HazardLink, A: FloatArray, a: FloatArray, survived: Survived) -> None:
        self._link, self._A, self._a, self._survived = link, A, a, survived
        self._value = 0.0
        self._score, self._curvature = np.zeros(len(a)), np.zeros(len(a))

    def spells(self, rows: slice) -> SpellSums:
        """Return the sums of a block's spells, made in parts of about `CELLS` person-intervals."""
        block, step = self._survived.part(rows), max(1, CELLS // len(self._a))
        parts = [self._part(block.part(slice(k, k + step))) for k in range(0, len(block.eta), step)]
        score, curvature, cross = zip(*parts, strict=True)
        return SpellSums(np.concatenate(score), np.concatenate(curvature), np.sum(cross, axis=0))

    def _part(self, block: Survived) -> SpellSums:
        lengths = block.last - block.entry
        ends = np.concatenate([[0], np.cumsum(lengths)])
        column = np.arange(ends[-1]) + np.repeat(block.entry - ends[:-1], lengths)
        terms = self._link.survive(self._a[column] + np.repeat(block.eta, lengths))
        shape = (len(lengths), len(self._a))
        value, score, curvature = (csr_array((each, column, ends), shape=shape) for each in terms)
        w, ones = block.weights, np.ones(len(self._a))
        self._value += float(w @ (value @ ones))
        self._score += score.T @ w
        self._curvature += curvature.T @ w
        wZ = block.Z * w[:, None]
        wide = self._A.shape[1] > wZ.shape[1]  # the cheaper way round
        cross = (curvature.T @ wZ).T @ self._A if wide else wZ.T @ (curvature @ self._A)
        return SpellSums(w * (score @ ones), w * (curvature @ ones), cross)

    def intervals(self) -> IntervalSums:
        """Return the interval sums of all blocks so far."""
        return IntervalSums(self._value, self._score, self._curvature)


NODES: Final = 12
"""Chebyshev points of a cell."""

WIDTH: Final = 1.0
"""Largest width of a cell, on the scale of the linear predictor."""

FAR: Final = 2.8
"""Singularities that are nearer to the real line make cells narrower in proportion."""

PART: Final = 64
"""Intervals whose terms are computed at a time."""

_ANGLES: Final = (np.arange(NODES) + 0.5) * math.pi / NODES
_FACTORS: Final = np.where(np.arange(NODES) == 0, 1.0, 2.0) / NODES
_TO_COEFFICIENTS: Final = _FACTORS[:, None] * np.cos(np.outer(np.arange(NODES), _ANGLES))
"""(k, j): what the value at point j adds to the coefficient of the k-th Chebyshev polynomial."""


@final
class TabulatedKernel(Kernel):
    """Tables of score, curvature and curvature times features by last interval and cell; moments of the spells."""

    def __init__(self, link: HazardLink, A: FloatArray, a: FloatArray, survived: Survived) -> None:
        q, cells = len(A), _cells(link, survived.eta)
        self._survived = survived
        self._lowest = float(np.min(survived.eta))
        self._width = max(float(np.ptp(survived.eta)) / cells, 1e-300)
        nodes = self._lowest + self._width * (np.arange(cells)[:, None] + (np.cos(_ANGLES) + 1.0) / 2.0)
        self._terms = np.empty((3, q, nodes.size))
        for start in range(0, q, PART):
            rows = slice(start, start + PART)
            self._terms[:, rows] = link.survive(a[rows, None] + nodes.ravel())
        self._table = _table(A, *self._terms[1:].reshape(2, q, cells, NODES))

    def spells(self, rows: slice) -> SpellSums:
        """Return the sums of a block's spells."""
        Z, entry, last, weights, eta = self._survived.part(rows)
        sums = np.zeros((len(eta), self._table.shape[2] - 1))
        _look_up(self._table, entry, last, weights, (eta - self._lowest) / self._width, sums)
        return SpellSums(sums[:, 0], sums[:, 1], Z.T @ sums[:, 2:])

    def intervals(self) -> IntervalSums:
        """Return the interval sums of all blocks so far."""
        at_risk = np.cumsum(self._table[:0:-1, :, 0], axis=0)[::-1] @ _TO_COEFFICIENTS
        at_risk = at_risk.reshape(len(at_risk), -1)
        value, score, curvature = (np.einsum("sj,sj->s", at_risk, each) for each in self._terms)
        return IntervalSums(float(np.sum(value)), score, curvature)


def table_size(link: HazardLink, A: FloatArray, eta: FloatArray) -> int:
    """Return how many numbers the table holds."""
    return int((len(A) + 1) * _cells(link, eta) * (3 + A.shape[1]) * NODES)


def _cells(link: HazardLink, eta: FloatArray) -> int:
    """Return into how many cells the range of linear predictors is cut."""
    return max(1, math.ceil(float(np.ptp(eta)) / (WIDTH * min(1.0, link.analytic / FAR))))


def _table(A: FloatArray, score: FloatArray, curvature: FloatArray) -> FloatArray:
    """Return Chebyshev coefficients (q + 1, cells, 2 + e, NODES) of the running sums of terms (q, cells, NODES).

    A last row, (q + 1, cells, 1, NODES), is left for the moments of the spells: it is used together with the others.
    """
    q, cells, _ = score.shape
    table = np.empty((q + 1, cells, 3 + A.shape[1], NODES))
    terms = ((each.reshape(-1, NODES) @ _TO_COEFFICIENTS.T).reshape(each.shape) for each in (score, curvature))
    _accumulate(table, A, *terms)
    return table


@compiled_reordered
def _accumulate(table: FloatArray, A: FloatArray, score: FloatArray, curvature: FloatArray) -> None:
    table[0] = 0.0
    for s in range(len(A)):
        for cell in range(table.shape[1]):
            before, after, v = table[s, cell], table[s + 1, cell], curvature[s, cell]
            for k in range(NODES):
                after[0, k] = 0.0
                after[1, k] = before[1, k] + score[s, cell, k]
                after[2, k] = before[2, k] + v[k]
            for j in range(A.shape[1]):
                for k in range(NODES):
                    after[3 + j, k] = before[3 + j, k] + A[s, j] * v[k]


@compiled_reordered
def _look_up(
    table: FloatArray, entry: IntArray, last: IntArray, weights: FloatArray, places: FloatArray, sums: FloatArray
) -> None:
    """Fill ``sums`` (b, 2 + e), zero before, and add every spell to the moments; ``places`` (b,) count cells."""
    T = np.empty(NODES)
    for i in range(len(places)):
        cell = min(max(int(places[i]), 0), table.shape[1] - 1)
        x = 2.0 * (places[i] - cell) - 1.0
        T[0] = 1.0
        T[1] = x
        for k in range(2, NODES):
            T[k] = 2.0 * x * T[k - 1] - T[k - 2]
        _add(table[last[i], cell], T, weights[i], sums[i])
        if entry[i] > 0:
            _add(table[entry[i], cell], T, -weights[i], sums[i])


@inlined_reordered
def _add(rows: FloatArray, T: FloatArray, weight: float, sums: FloatArray) -> None:
    """Add to a spell's sums (2 + e,) what the table's rows (3 + e, NODES) give; add the spell to the moments."""
    for k in range(NODES):
        rows[0, k] += weight * T[k]
    for j in range(len(sums)):
        total = 0.0
        for k in range(NODES):
            total += rows[1 + j, k] * T[k]
        sums[j] += weight * total


NEVER: Final = -1e9
"""The baseline of an interval in which nobody is at risk: its hazard is 0 under every link."""


@final
class CumulativeHazards(Kernel):
    """Running sums of hazards over intervals, and of relative hazards over spells."""

    def __init__(self, link: HazardLink, A: FloatArray, a: FloatArray, survived: Survived) -> None:  # noqa: ARG002
        self._survived = survived
        self._highest = float(np.max(a))
        self._hazards = np.exp(a - self._highest)
        self._sums = np.zeros((len(a) + 1, 1 + A.shape[1]))
        np.cumsum(self._hazards[:, None] * np.column_stack([np.ones(len(a)), A]), axis=0, out=self._sums[1:])
        self._by_last, self._by_entry = np.zeros(len(a) + 1), np.zeros(len(a) + 1)

    def spells(self, rows: slice) -> SpellSums:
        """Return the sums of a block's spells."""
        Z, entry, last, weights, eta = self._survived.part(rows)
        relative = weights * np.exp(np.minimum(eta + self._highest, LARGEST_EXPONENT))
        self._by_last += np.bincount(last, relative, len(self._by_last))
        self._by_entry += np.bincount(entry, relative, len(self._by_entry))
        sums = (self._sums[last] - self._sums[entry]) * relative[:, None]
        return SpellSums(sums[:, 0], sums[:, 0], Z.T @ sums[:, 1:])

    def intervals(self) -> IntervalSums:
        """Return the interval sums of all blocks so far."""
        at_risk = np.cumsum((self._by_last - self._by_entry)[::-1])[::-1][1:]
        total = self._hazards * at_risk
        return IntervalSums(float(np.sum(total)), total, total)
