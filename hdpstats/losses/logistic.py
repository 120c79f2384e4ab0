r"""The logistic loss: minus the Bernoulli log-likelihood in the linear predictor; and its residuals.

**Residuals.** The logistic function minus an outcome, element by element, the same bits for an element wherever it
stands. With :math:`e = \exp(-|\eta|)` the function is :math:`1 / (1 + e)` for :math:`\eta \ge 0`, else
:math:`e / (1 + e)`.

**The exponential.** :math:`-|\eta|`, no less than -700, is :math:`k \log 2 + r` with an integer ``k`` and
:math:`|r| \le .3466`; ``log 2`` is split in two so that ``k`` times its first part is exact (Cody and Waite 1980), and
``r`` errs by less than ``u``. :math:`\exp(r)` is ``1 + r + r^2 q(r)`` with Taylor's terms up to ``r^13 / 13!``: the
rest is below 5e-18, rounding below 2 u. So is that of ``exp``; values are off by 4 u and the difference by 5 u,
u = 2^-53.

The residuals are sums and products only: the compiled loop and numpy do the same operations in the same order, and
agree bit for bit. No library decides what an element becomes, so it is the same on every machine.

References
----------
W. Cody, W. Waite (1980), Software manual for the elementary functions.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
from mpmath import MPContext, mpf
from scipy.special import expit

from hdpstats._base.compiled import SMALLEST_COMPILED, compiled, loaded
from hdpstats._base.intrinsics import ROUNDER, ROUNDER_BITS, bits_of, double_of
from hdpstats._base.typing import FloatArray
from hdpstats.losses.base import ListedLoss, LossOption

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
    eta, y = np.asarray(eta), np.asarray(y)
    if eta.shape != y.shape:
        shape = np.broadcast_shapes(eta.shape, y.shape)
        eta, y = np.broadcast_to(eta, shape), np.broadcast_to(y, shape)
    if (eta.size >= SMALLEST_COMPILED or loaded(residuals)) and eta.dtype == y.dtype == np.float64:
        out = np.empty(eta.shape)
        residuals(writable(eta).reshape(-1), writable(y).reshape(-1), out.reshape(-1))
        return out
    near = np.minimum(np.fmax(np.asarray(eta, dtype=np.float64), -FARTHEST), FARTHEST)
    x = -np.abs(near)
    shifted = x * LOG2_E + ROUNDER
    k = shifted - ROUNDER
    r = (x - k * LOG2_HIGH) - k * LOG2_LOW
    q = np.full(r.shape, C13)
    for term in TERMS[1:]:
        q *= r
        q += term
    power = ((shifted.view(np.int64) + BIAS) << 52).view(np.float64)
    e = power + power * (q * r * r + r)
    return np.asarray(np.where(near >= 0.0, 1.0, e) / (1.0 + e) - y)


def writable(numbers: FloatArray) -> FloatArray:
    """Return an array of the one type that loops are compiled for: outcomes of a table cannot be written to."""
    flags = numbers.flags
    if type(numbers) is np.ndarray and numbers.dtype == np.float64 and flags.c_contiguous and flags.writeable:
        return numbers
    return np.require(numbers, np.float64, ["C", "W"])


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


@final
class LogisticLoss(ListedLoss):
    r"""``l(eta; y) = log(1 + e^eta) - y eta`` for ``y`` in {0, 1}.

    With ``p = 1 / (1 + e^-eta)`` the score is ``p - y`` and the curvature ``p (1 - p)``.

    Constants. ``|p - y| <= 1`` and ``p (1 - p) <= 1/4``. *Coupled*: for ``y = 1`` the score is ``-(1 - p)``, always
    negative, and for ``y = 0`` it is ``p``, always positive; in both cases ``l'' = |l'| (1 - |l'|)``.
    ``|eta| p (1 - p)`` is largest where ``eta tanh(eta / 2) = 1``, at 1.5434: ``(eta^2 - 1) / (4 eta) < .2239``.

    References
    ----------
    McCullagh and Nelder (1989), *Generalized Linear Models*, chapter 4.

    Examples
    --------
    >>> import numpy as np
    >>> float(LogisticLoss().score(np.array([0.0]), np.array([1.0]))[0])
    -0.5
    """

    name = "logistic"
    functions = 3.0
    regression = "Logistic regression"
    exponentiated = "odds ratio"
    outcomes = ("binary",)
    link = "logit"
    lipschitz = Fraction(1)
    smoothness = Fraction(1, 4)
    scaled_curvature = 0.2239
    coupled = True
    robust = False
    modelled = True
    in_one_loop = True
    raked = True
    meat = 1.0
    at_zero = 0.694

    @staticmethod
    def mean(eta: FloatArray) -> FloatArray:
        """Return ``p``."""
        return np.asarray(expit(eta), dtype=np.float64)

    @property
    def listed(self) -> FloatArray:
        """0 and 1."""
        return np.array([0.0, 1.0])

    def chances(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``1 - p`` and ``p`` with slopes ``-p`` and ``1 - p``."""
        p = self.mean(eta)
        return np.concatenate([1.0 - p, p], axis=1), np.concatenate([-p, 1.0 - p], axis=1)

    def value(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``log(1 + e^eta) - y eta``."""
        return np.logaddexp(0.0, eta) - y * eta

    def score(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``p - y``."""
        return logistic_residual(eta, y)

    def exact_score(self, numbers: MPContext, eta: mpf, y: float) -> mpf:
        """Return ``p - y``."""
        return 1 / (1 + numbers.exp(-eta)) - y

    def curvature(self, eta: FloatArray, y: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return ``p (1 - p)``."""
        p = expit(eta)
        return np.asarray(p * (1.0 - p), dtype=np.float64)

    def typical(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``p (1 - p)`` twice: the Bernoulli variance."""
        p = expit(eta)
        variance = np.asarray(p * (1.0 - p), dtype=np.float64)
        return variance, variance

    def over(self, eta: FloatArray, *, own: FloatArray, y: FloatArray | None) -> tuple[FloatArray, FloatArray]:  # noqa: ARG002
        """Return `typical` of rows that were moved: in a compiled loop, as they are many."""
        p = logistic_residual(eta, np.zeros(1))
        variance = np.asarray(p * (1.0 - p), dtype=np.float64)
        return variance, variance


@final
@dataclass(frozen=True, slots=True)
class Logistic(LossOption):
    """Minus the Bernoulli log-likelihood: what `hdpf.logit` fits."""

    loss = "logistic"
    title = "Logistic"
