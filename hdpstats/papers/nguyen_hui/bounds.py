r"""The bounds that Nguyen and Hui (2017) calibrate their noise with, and what the bound on the determinant should be.

One person with covariates in the unit ball has the rows ``x^s = (A_s; x)``, ``||x^s||^2 <= ||A_s||^2 + 1``. In the
density of a perturbed minimiser stands the determinant of the Hessian, of which one person's part is
:math:`\sum_s h_s(1-h_s)\,x^s x^{s\prime}` with :math:`h(1-h) \le 1/4`. The eigenvalue of its term s is therefore at
most ``||x^s||^2 / 4``. The proof of Theorem 4.4 takes ``||x^s|| / 4``, the norm for the squared norm, which is too
small wherever ``||x^s|| > 1``, and so always, as the first baseline feature is 1.
"""

from typing import Final

import numpy as np
from scipy.optimize import brentq

from hdpstats._base.typing import FloatArray

RIDGES: Final = (1e-9, 1e12)
"""Where a ridge is looked for, sum scale."""


def gradient_sensitivity(baseline: FloatArray) -> float:
    r"""Return Lemma 4.2's bound on how far replacing one person moves the gradient, whatever the coefficients.

    :math:`\sum_s \sqrt{\|A_s\|^2 + 4} + \max_s \sqrt{4\|A_s\|^2 + 4}` for covariates in the unit ball. The lemma is
    right. Its bound grows with the number of intervals, because it lets every interval contribute its worst.

    Parameters
    ----------
    baseline : (q, e) float64
        Baseline features, a row per interval.
    """
    squares = np.sum(baseline**2, axis=1)
    return float(np.sum(np.sqrt(squares + 4.0)) + np.sqrt(4.0 * np.max(squares) + 4.0))


def determinant_bound(baseline: FloatArray, ridge: float, *, corrected: bool) -> float:
    r"""Return the bound on the log-ratio of the determinants of two neighbours.

    :math:`2\sum_s \log(1 + r_s / 4\rho)` for a ridge :math:`\rho` in the scale of sums, with
    :math:`r_s = \|A_s\|^2 + 1` when corrected, and with its square root as printed.
    """
    reach = np.sum(baseline**2, axis=1) + 1.0
    reach = reach if corrected else np.sqrt(reach)
    return float(2.0 * np.sum(np.log1p(reach / (4.0 * ridge))))


def determinant_bound_tight(baseline: FloatArray, ridge: float) -> float:
    r"""Return the least bound of this kind that holds: :math:`\log\det\{I + \frac{1}{4\rho}\sum_s x^s x^{s\prime}\}`.

    Adding a person multiplies the determinant by at most the exponential of this: no term of the Hessian exceeds
    :math:`x^s x^{s\prime}/4` in Loewner's order, and other people only enlarge the matrix that is inverted. Removing
    one multiplies it by at most 1. All rows of one person share ``x``, whose length alone matters, so ``x^s`` may be
    taken as ``(A_s; 1)``. One person alone, at coefficients 0, attains the bound.
    """
    rows = np.column_stack([baseline, np.ones(len(baseline))])
    return float(np.linalg.slogdet(np.eye(rows.shape[1]) + rows.T @ rows / (4.0 * ridge))[1])


def smallest_ridge(baseline: FloatArray, bound: float, *, corrected: bool) -> float:
    """Return the ridge, in the scale of sums, at which `determinant_bound` is ``bound``."""

    def excess(exponent: float) -> float:
        return determinant_bound(baseline, float(np.exp(exponent)), corrected=corrected) - bound

    return float(np.exp(brentq(excess, *np.log(RIDGES), xtol=1e-12)))
