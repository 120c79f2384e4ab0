r"""The direct kernel of the logit link, compiled: one division per person and interval and no exponential.

``e^{a_s + eta_i} = E_s w_i``, so a pass needs q + m exponentials. The logarithms of a
spell's terms are one logarithm of their product, taken before it can overflow.
"""

import math
from typing import final

import numba
import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.solvers.hazard.kernel import Block, IntervalSums, Kernel, SpellSums
from hdpstats.solvers.hazard.links import LARGEST_EXPONENT

LARGEST_LOG_PRODUCT = 690.0
"""Products of ``1 + e^eta`` stay below e^690."""

REORDER = {"reassoc", "contract", "nsz"}
"""Sums may be reordered, which lets them run in parallel lanes; infinities and NaN keep their meaning."""


@final
class CompiledLogit(Kernel):
    """Loops over the survived intervals of every spell."""

    def __init__(self, A: FloatArray, a: FloatArray) -> None:
        self._A, self._a = A, a
        self._features = np.ascontiguousarray(A.T)
        self._highest = float(np.max(a))
        self._odds = np.exp(a - self._highest)
        self._value = 0.0
        self._score, self._curvature = np.zeros(len(a)), np.zeros(len(a))

    def spells(self, block: Block) -> SpellSums:
        """Return the sums of a block's spells."""
        (b, p), e = block.Z.shape, self._A.shape[1]
        score, curvature = np.empty(b), np.empty(b)
        wide = e > p  # the cheaper way round: V'Z, (q, p), or V A, (b, e)
        cross = np.zeros((p, len(self._a))) if wide else np.zeros((b, e))
        self._value += _logit_pass(
            self._odds, self._a, self._highest, self._features,
            block.Z, block.entry, block.last, block.weights, block.eta,
            score, curvature, cross, self._score, self._curvature, wide,
        )  # fmt: skip
        return SpellSums(score, curvature, cross @ self._A if wide else block.Z.T @ cross)

    def intervals(self) -> IntervalSums:
        """Return the interval sums of all blocks so far."""
        return IntervalSums(self._value, self._score, self._curvature)


@numba.njit(nogil=True, cache=True, fastmath=REORDER)  # type: ignore[untyped-decorator]
def _logit_pass(
    odds: FloatArray, a: FloatArray, highest: float, features: FloatArray,
    Z: FloatArray, entry: IntArray, last: IntArray, weights: FloatArray, eta: FloatArray,
    score: FloatArray, curvature: FloatArray, cross: FloatArray,
    by_interval_score: FloatArray, by_interval_curvature: FloatArray, wide: bool,
) -> float:  # fmt: skip
    """Fill ``score``, ``curvature`` and ``cross``, add to the interval sums, return minus the log-likelihood."""
    v = np.empty(len(a))
    value = 0.0
    for i in range(len(eta)):
        low, high, weight = entry[i], last[i], weights[i]
        largest = eta[i] + highest
        if largest <= LARGEST_EXPONENT:
            w = math.exp(largest)
            total, p_sum, v_sum = 0.0, 0.0, 0.0
            stretch = min(high - low, max(1, int(LARGEST_LOG_PRODUCT / math.log1p(w)))) if w > 1.0 else 512
            for start in range(low, high, max(1, stretch)):
                product = 1.0
                for s in range(start, min(start + stretch, high)):
                    u = odds[s] * w
                    c = 1.0 + u
                    r = 1.0 / c
                    p = u * r
                    pr = p * r
                    product *= c
                    p_sum += p
                    v_sum += pr
                    v[s] = weight * pr
                    by_interval_score[s] += weight * p
                    by_interval_curvature[s] += weight * pr
                total += math.log(product)
        else:
            total, p_sum, v_sum = 0.0, 0.0, 0.0
            for s in range(low, high):
                x = a[s] + eta[i]
                smaller = math.exp(-abs(x))
                r = 1.0 / (1.0 + smaller)
                p = r if x >= 0.0 else smaller * r
                pr = smaller * r * r
                total += math.log1p(smaller) + max(x, 0.0)
                p_sum += p
                v_sum += pr
                v[s] = weight * pr
                by_interval_score[s] += weight * p
                by_interval_curvature[s] += weight * pr
        value += weight * total
        score[i] = weight * p_sum
        curvature[i] = weight * v_sum
        if wide:
            for j in range(Z.shape[1]):
                z = Z[i, j]
                for s in range(low, high):
                    cross[j, s] += z * v[s]
        else:
            for k in range(len(features)):
                dot = 0.0
                for s in range(low, high):
                    dot += features[k, s] * v[s]
                cross[i, k] = dot
    return value
