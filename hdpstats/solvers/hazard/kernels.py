r"""Direct kernels: sums over the intervals that spells survive, by person and interval or in closed form.

`CellKernel`, in numpy, is for any link: one term per person and interval, a block of spells at a time.

`CompiledLogit`: the direct kernel of the logit link, compiled: one division per person and interval and no exponential.

``e^{a_s + eta_i} = E_s w_i``, so a pass needs q + m exponentials. The logarithms of a spell's terms are one logarithm
of their product, unless that overflows. Loops run over slices from 0 and may reorder their sums, so that the processor
works on several intervals at once.

`CumulativeHazards`: the direct kernel of the complementary log-log link, in closed form.

Surviving an interval adds ``e^{a_s + eta} = E_s w``, so the sum over a spell's intervals is ``w`` times a difference of
running sums of ``E_s``, and the sum over the people at risk is ``E_s`` times a difference of running sums of ``w``:
no term per person and interval. The differences are exact to the rounding of the running sums, so intervals in which
nobody is at risk must not enter them (`NEVER`).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, NamedTuple, final

import numpy as np
from scipy.sparse import csr_array

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.losses import HazardLink
from hdpstats.losses.hazard import LARGEST_EXPONENT
from hdpstats.solvers import kernels


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


REORDER = {"reassoc", "contract", "nsz"}
"""What the compiler may do with sums; infinities and NaN keep their meaning."""


def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a loop that may reorder its sums."""
    return kernels.compiled(loop, fastmath=REORDER)


@final
class CompiledLogit(Kernel):
    """Loops over the survived intervals of every spell."""

    def __init__(self, A: FloatArray, a: FloatArray, survived: Survived) -> None:
        self._A, self._a, self._survived = A, a, survived
        self._features = np.ascontiguousarray(A.T)
        self._value = 0.0
        self._score, self._curvature = np.zeros(len(a)), np.zeros(len(a))

    def spells(self, rows: slice) -> SpellSums:
        """Return the sums of a block's spells."""
        block = self._survived.part(rows)
        (b, p), e = block.Z.shape, self._A.shape[1]
        score, curvature = np.empty(b), np.empty(b)
        by_interval = e > p  # the cheaper way round: Z'V, (p, q), or V A, (b, e)
        cross = np.zeros((p, len(self._a)) if by_interval else (b, e))
        self._value += _logit_pass(
            self._a, self._features, block.Z, block.entry, block.last, block.weights, block.eta,
            score, curvature, cross, self._score, self._curvature, by_interval,
        )  # fmt: skip
        return SpellSums(score, curvature, cross @ self._A if by_interval else block.Z.T @ cross)

    def intervals(self) -> IntervalSums:
        """Return the interval sums of all blocks so far."""
        return IntervalSums(self._value, self._score, self._curvature)


@compiled
def _logit_pass(
    a: FloatArray, features: FloatArray,
    Z: FloatArray, entry: IntArray, last: IntArray, weights: FloatArray, eta: FloatArray,
    score: FloatArray, curvature: FloatArray, cross: FloatArray,
    interval_score: FloatArray, interval_curvature: FloatArray, by_interval: bool,
) -> float:  # fmt: skip
    """Fill ``score``, ``curvature`` and ``cross``, add to the interval sums, return minus the log-likelihood."""
    highest = np.max(a)
    odds = np.exp(a - highest)
    v = np.empty(len(a))
    value = 0.0
    for i in range(len(eta)):
        low, high = entry[i], last[i]
        if eta[i] + highest <= LARGEST_EXPONENT:
            w = math.exp(eta[i] + highest)
            terms = _survive(odds, w, weights[i], low, high, interval_score, interval_curvature, v)
        else:
            terms = _survive_extreme(a, eta[i], weights[i], low, high, interval_score, interval_curvature, v)
        value += terms[0]
        score[i] = terms[1]
        curvature[i] = terms[2]
        kept = v[low:high]
        if by_interval:
            for j in range(Z.shape[1]):
                total, z = cross[j, low:high], Z[i, j]
                for s in range(len(kept)):
                    total[s] += z * kept[s]
        else:
            for k in range(len(features)):
                feature, dot = features[k, low:high], 0.0
                for s in range(len(kept)):
                    dot += feature[s] * kept[s]
                cross[i, k] = dot
    return value


@compiled
def _survive(
    odds: FloatArray, w: float, weight: float, low: int, high: int,
    interval_score: FloatArray, interval_curvature: FloatArray, v: FloatArray,
) -> tuple[float, float, float]:  # fmt: skip
    """Return value, score and curvature of a spell's intervals ``low + 1, ..., high``, whose odds are ``odds w``.

    The curvatures are left in ``v``; ``odds`` are at most 1.
    """
    odds, v = odds[low:high], v[low:high]
    scores, curvatures = interval_score[low:high], interval_curvature[low:high]
    product, p_sum, v_sum = 1.0, 0.0, 0.0
    for k in range(len(odds)):
        u = odds[k] * w
        survived = 1.0 / (1.0 + u)
        p = weight * u * survived
        keep = p * survived
        product *= 1.0 + u
        p_sum += p
        v_sum += keep
        scores[k] += p
        curvatures[k] += keep
        v[k] = keep
    value = math.log(product)
    if product == math.inf:
        value = 0.0
        for k in range(len(odds)):
            value += math.log1p(odds[k] * w)
    return weight * value, p_sum, v_sum


@compiled
def _survive_extreme(
    a: FloatArray, eta: float, weight: float, low: int, high: int,
    interval_score: FloatArray, interval_curvature: FloatArray, v: FloatArray,
) -> tuple[float, float, float]:  # fmt: skip
    """Return the same from linear predictors ``a + eta`` whose odds could overflow: an exponential each."""
    value, p_sum, v_sum = 0.0, 0.0, 0.0
    for k in range(low, high):
        x = a[k] + eta
        smaller = math.exp(-abs(x))
        p = weight * (1.0 if x >= 0.0 else smaller) / (1.0 + smaller)
        keep = weight * smaller / (1.0 + smaller) ** 2
        value += weight * (math.log1p(smaller) + max(x, 0.0))
        p_sum += p
        v_sum += keep
        interval_score[k] += p
        interval_curvature[k] += keep
        v[k] = keep
    return value, p_sum, v_sum


NEVER: Final = -1e9
"""The baseline of an interval in which nobody is at risk: its hazard is 0 under every link."""


@final
class CumulativeHazards(Kernel):
    """Running sums of hazards over intervals, and of relative hazards over spells."""

    def __init__(self, A: FloatArray, a: FloatArray, survived: Survived) -> None:
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
