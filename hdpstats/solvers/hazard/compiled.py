r"""The direct kernel of the logit link, compiled: one division per person and interval and no exponential.

``e^{a_s + eta_i} = E_s w_i``, so a pass needs q + m exponentials. The logarithms of a spell's terms are one logarithm
of their product, unless that overflows. Loops run over slices from 0 and may reorder their sums, so that the processor
works on several intervals at once.
"""

import math
from collections.abc import Callable
from typing import Any, final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.losses.hazard import LARGEST_EXPONENT
from hdpstats.solvers import compiling
from hdpstats.solvers.hazard.kernel import IntervalSums, Kernel, SpellSums, Survived

REORDER = {"reassoc", "contract", "nsz"}
"""What the compiler may do with sums; infinities and NaN keep their meaning."""


def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a loop that may reorder its sums."""
    return compiling.compiled(loop, fastmath=REORDER)


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
