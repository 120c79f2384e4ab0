r"""The multinomial logistic loss of an outcome with several levels, the first of which is the reference.

With linear predictors :math:`\eta_1, \dots, \eta_M` of the other ``M = K - 1`` levels and :math:`\eta_0 = 0`

.. math:: \ell(\eta; y) = \log \sum_j e^{\eta_j} - \eta_y, \qquad \nabla\ell = p - e_y, \qquad
          \nabla^2\ell = \mathrm{diag}(p) - p p',

``p`` being the probabilities of the M levels.

Constants. Over all K levels :math:`\|p - e_y\|^2 = \sum_{j \ne y} p_j^2 + (1 - p_y)^2 \le 2 (1 - p_y)^2 \le 2`, so over
the M levels :math:`\|\nabla\ell\| \le \sqrt 2` (1 where M = 1). The trace of the Hessian, :math:`\sum_{j \ge 1} p_j
(1 - p_j)`, is concave in ``p`` and largest at equal :math:`p_j = \min(1/2, 1/M)`: 1/4 for M = 1, else :math:`1 - 1/M`.
The score of a row is :math:`(p - e_y) \otimes x`, its Hessian :math:`(\mathrm{diag}(p) - pp') \otimes xx'`, of rank M.

**Large predictors.** Probabilities depend on differences, which may be small where predictors are large. So predictors
come as unevaluated sums of two doubles (`residuals_of_pairs`), and :math:`d_k = \eta_k - \max_j \eta_j` over all K
levels is rounded once. Relative errors ``tau d``, ``|tau| <= u``, change ``p`` by at most :math:`2 u \sum_k p_k |d_k|`:
a derivative of ``p`` is :math:`p_k (v_k - \sum_j p_j v_j)`. That sum is the entropy of ``p`` plus the logarithm of its
largest entry, hence for given largest entry greatest where the other M are equal, and over all numbers at most
:math:`W(M / e) \le \log(1 + M / e) = B` (W is Lambert's function). What else ``d`` is off is ``5 u^2`` times sizes of
predictors, far below the error of these.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.precision import two_sum
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.losses.base import LossOption

NAME, LINK, REGRESSION = "multinomial", "logit", "Multinomial logistic regression"

ROOT_TWO = Fraction(141422, 100000)
"""Above the square root of two."""


def steepest(others: int) -> Fraction:
    """Return the bound on the length of a score for ``M`` levels beside the reference."""
    return Fraction(1) if others == 1 else ROOT_TWO


def trace_bound(others: int) -> Fraction:
    """Return the bound on the trace of a Hessian.

    >>> [str(trace_bound(others)) for others in (1, 2, 4)]
    ['1/4', '1/2', '3/4']
    """
    return Fraction(1, 4) if others == 1 else 1 - Fraction(1, others)


def spread_bound(others: int) -> float:
    """Return ``2 B``: relative errors of ``u`` in differences of predictors change probabilities by ``2 B u`` at most.

    >>> round(spread_bound(1), 3), round(spread_bound(9), 3)
    (0.627, 2.922)
    """
    return 2.0 * math.log1p(others / math.e)


def probabilities(eta: FloatArray) -> FloatArray:
    """Return the probabilities (n, M) of the levels beside the reference; in the L2 norm they err by (M + 16) u."""
    top = np.max(eta.T, axis=0, initial=0.0)
    return _shares(eta - top[:, None], -top)


def _shares(apart: FloatArray, reference: FloatArray) -> FloatArray:
    """Return probabilities from what predictors (n, M), and 0 for the reference (n,), are below the largest one.

    They are from 0 to 1 whatever finite numbers these are: no share is larger than the sum of all.
    """
    shares = np.exp(np.clip(apart, -745.0, 0.0))
    whole = np.exp(np.clip(reference, -745.0, 0.0))
    for column in shares.T:
        whole = whole + column
    return np.asarray(shares / whole[:, None])


def values(eta: FloatArray, y: IntArray) -> FloatArray:
    """Return the losses (n,) at predictors (n, M) of outcomes 0..M."""
    top = np.maximum(np.max(eta, axis=1, initial=0.0), 0.0)
    whole = np.exp(np.maximum(-top, -745.0))
    for column in eta.T:
        whole = whole + np.exp(np.maximum(column - top, -745.0))
    own = np.where(y > 0, np.take_along_axis(eta, np.maximum(y - 1, 0)[:, None], axis=1)[:, 0], 0.0)
    return np.asarray(top + np.log(whole) - own)


def residuals(eta: FloatArray, y: IntArray) -> FloatArray:
    """Return ``p - e_y`` (n, M)."""
    hit = y[:, None] == np.arange(1, eta.shape[1] + 1)
    return np.asarray(probabilities(eta) - hit)


def residuals_of_pairs(own: FloatArray, rest: FloatArray, y: IntArray) -> FloatArray:
    """Return ``p - e_y`` (n, M) at predictors that are unevaluated sums ``own + rest`` of numbers (n, M).

    The largest is that of the sums: where leading parts tie, lesser ones decide. So no exponent is above 0 by more than
    what is rounded of it, and nothing overflows. Level by level: arrays that are kept so are gone through in the order
    in which they are stored.
    """
    whole, left = two_sum(own.T, rest.T)
    top, missing = np.zeros(len(y)), np.zeros(len(y))
    for each, lesser in zip(whole, left, strict=True):
        above = (each > top) | ((each == top) & (lesser > missing))
        top, missing = np.where(above, each, top), np.where(above, lesser, missing)
    apart, lost = two_sum(whole, -top)
    p = _shares((apart + (lost + (left - missing))).T, -top - missing)
    for level, share in enumerate(p.T, start=1):
        share -= y == level
    return p


def exact_residuals(numbers: MPContext, eta: list[mpf], y: int) -> list[mpf]:
    """Return ``p - e_y`` in the numbers of a context."""
    top = max([*eta, numbers.mpf(0)])
    shares = [numbers.exp(value - top) for value in eta]
    whole = numbers.exp(-top) + sum(shares, numbers.mpf(0))
    return [share / whole - (1 if y == k + 1 else 0) for k, share in enumerate(shares)]


@final
@dataclass(frozen=True, slots=True)
class Multinomial(LossOption):
    """Minus the multinomial log-likelihood of a `Categorical` outcome, the first level of which is the reference.

    Coefficients are log odds ratios of each other level against it, named ``level:term``.
    """

    loss = "multinomial"
    title = "Multinomial"
