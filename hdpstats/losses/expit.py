r"""The logistic function minus an outcome, element by element, the same bits for an element wherever it stands.

With :math:`e = \exp(-|\eta|)` the function is :math:`1 / (1 + e)` for :math:`\eta \ge 0`, else :math:`e / (1 + e)`.

**The exponential.** :math:`-|\eta|`, no less than -700, is :math:`k \log 2 + r` with an integer ``k`` and
:math:`|r| \le .3466`; ``log 2`` is split in two so that ``k`` times its first part is exact (Cody and Waite 1980), and
``r`` errs by less than ``u``. :math:`\exp(r)` is ``1 + r + r^2 q(r)`` with Taylor's terms up to ``r^13 / 13!``: the
rest is below 5e-18, rounding below 2 u. So is that of ``exp``; values are off by 4 u and the difference by 5 u,
u = 2^-53.

Sums and products only: the compiled loop and numpy do the same operations in the same order, and agree bit for bit.
No library decides what an element becomes, so it is the same on every machine.

References
----------
W. Cody, W. Waite (1980), Software manual for the elementary functions.
"""

import math

import numpy as np

from hdpstats._base.compiled import ROUNDER, ROUNDER_BITS, SMALLEST_COMPILED, bits_of, compiled, double_of
from hdpstats._base.typing import FloatArray

LOG2_E = 1.4426950408889634
LOG2_HIGH, LOG2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
FARTHEST = 700.0
TERMS = tuple(1.0 / math.factorial(k) for k in range(13, 1, -1))
BIAS = 1023 - ROUNDER_BITS
(C13, C12, C11, C10, C9, C8, C7, C6, C5, C4, C3, C2) = TERMS


def logistic_residual(eta: FloatArray, y: FloatArray) -> FloatArray:
    """Return ``1 / (1 + e^-eta) - y`` elementwise; a predictor that is not a number counts as -700.

    >>> logistic_residual(np.array([0.0, 1000.0, -1000.0]), np.array([1.0, 0.0, 1.0])).round(3).tolist()
    [-0.5, 1.0, -1.0]
    """
    eta, y = np.broadcast_arrays(eta, y)
    if eta.size >= SMALLEST_COMPILED and eta.dtype == y.dtype == np.float64:
        out = np.empty(eta.shape)
        residuals(np.ascontiguousarray(eta).reshape(-1), np.ascontiguousarray(y).reshape(-1), out.reshape(-1))
        return out
    near = np.minimum(np.fmax(np.asarray(eta, dtype=np.float64), -FARTHEST), FARTHEST)
    x = -np.abs(near)
    shifted = x * LOG2_E + ROUNDER
    k = shifted - ROUNDER
    r = (x - k * LOG2_HIGH) - k * LOG2_LOW
    q = np.full(r.shape, C13)
    for term in TERMS[1:]:
        q = q * r + term
    power = ((shifted.view(np.int64) + BIAS) << 52).view(np.float64)
    e = power + power * (q * r * r + r)
    return np.asarray(np.where(near >= 0.0, 1.0, e) / (1.0 + e) - y)


@compiled
def residuals(eta: FloatArray, y: FloatArray, out: FloatArray) -> None:
    """Write `logistic_residual` of doubles into ``out``, which may be ``eta``."""
    for i in range(len(eta)):
        near = eta[i]
        near = near if near > -FARTHEST else -FARTHEST
        near = near if near < FARTHEST else FARTHEST
        x = -abs(near)
        shifted = x * LOG2_E + ROUNDER
        k = shifted - ROUNDER
        r = (x - k * LOG2_HIGH) - k * LOG2_LOW
        q = C13
        q = q * r + C12
        q = q * r + C11
        q = q * r + C10
        q = q * r + C9
        q = q * r + C8
        q = q * r + C7
        q = q * r + C6
        q = q * r + C5
        q = q * r + C4
        q = q * r + C3
        q = q * r + C2
        power = double_of((bits_of(shifted) + BIAS) << 52)
        e = power + power * (q * r * r + r)
        out[i] = (1.0 if near >= 0.0 else e) / (1.0 + e) - y[i]
