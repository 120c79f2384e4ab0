"""Two data sets of one person each on which Theorem 4.4 of Nguyen and Hui (2017) fails."""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit

from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import real
from hdpstats.papers.nguyen_hui.bounds import gradient_sensitivity, smallest_ridge


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Counterexample:
    """What Algorithm 2 does with the two data sets.

    Attributes
    ----------
    epsilon : float
        What Theorem 4.4 claims.
    ridge : float
        The ridge ``n (Lambda + Delta)`` that the algorithm chooses as printed.
    privacy_loss : float
        The largest log-ratio of the densities of its output on the two data sets, over all outputs.
    output : float
        Where it is attained.
    corrected_ridge, corrected_privacy_loss : float
        The same with the squared norm in the bound.
    """

    epsilon: float
    ridge: float
    privacy_loss: float
    output: float
    corrected_ridge: float
    corrected_privacy_loss: float


def theorem_4_4_counterexample(a: float, *, epsilon: float = 1.0) -> Counterexample:
    r"""Return the exact privacy loss of Algorithm 2 where one baseline feature is large. NOT private: no data at all.

    Two intervals, one baseline feature with the values ``A = (0.1, a)``, no covariate (``x = 0``, which lies in the
    unit ball). In D the only person has the event in interval 2; in D' the only person has it in interval 1. The
    coefficient f is a number, so its density under either data set is a formula:

    .. math:: p(f) \propto \exp\{-(\epsilon'/t)\,|b(f)|\}\,|b'(f)|, \qquad -b(f) = \rho f + \ell'(f),

    with the algorithm's own t, ridge :math:`\rho` and :math:`\epsilon'`; both normalising constants are that of the
    noise. The largest log-ratio over f is found on ever finer grids; nothing is simulated. The theorem and its proof
    ask nothing of the features, so one pair with a ratio above ``exp(epsilon)`` refutes them.

    Where no row is longer than 2, as for splines of up to 4 knots on a time axis of length 1, other steps of the proof
    have enough to spare and the printed bound holds. A time axis in months or days does not have that luck.

    Parameters
    ----------
    a : number
        The feature in interval 2, at least 0.1; for ``b(t) = t`` the length of the time axis in its unit.
    epsilon : number
        The privacy that is claimed.

    Examples
    --------
    >>> [round(theorem_4_4_counterexample(a).privacy_loss, 2) for a in (10, 30, 100)]
    [1.19, 2.14, 3.29]
    >>> theorem_4_4_counterexample(100).corrected_privacy_loss < 1
    True
    """
    a = real(a, name="a", lower=0.1, upper=1e6)
    epsilon = real(epsilon, name="epsilon", lower=0.0, upper=50.0, open_lower=True)
    baseline = np.array([[0.1], [a]])
    printed = smallest_ridge(baseline, epsilon / 2.0, corrected=False)
    corrected = smallest_ridge(baseline, epsilon / 2.0, corrected=True)
    output, loss = _largest_loss(baseline[:, 0], printed, epsilon / 2.0 / gradient_sensitivity(baseline))
    _, corrected_loss = _largest_loss(baseline[:, 0], corrected, epsilon / 2.0 / gradient_sensitivity(baseline))
    return Counterexample(
        epsilon=epsilon,
        ridge=printed,
        privacy_loss=loss,
        output=output,
        corrected_ridge=corrected,
        corrected_privacy_loss=corrected_loss,
    )


def _largest_loss(A: FloatArray, ridge: float, rate: float) -> tuple[float, float]:
    """Return the coefficient at which the absolute privacy loss is largest, and that loss."""
    centre, width = 0.0, 50.0
    for _ in range(12):
        f = centre + width * np.linspace(-1.0, 1.0, 20_001)
        losses = np.abs(_log_density(f, A, 2, ridge, rate) - _log_density(f, A, 1, ridge, rate))
        centre, width = float(f[np.argmax(losses)]), width / 10.0
    return centre, float(np.max(losses))


def _log_density(f: FloatArray, A: FloatArray, last: int, ridge: float, rate: float) -> FloatArray:
    """Return the log density at f, up to a constant, when the only person has the event in interval ``last``."""
    hazards = expit(f[:, None] * A[None, :last])
    event = (np.arange(1, last + 1) == last).astype(float)
    gradient = (hazards - event) @ A[:last]
    curvature = (hazards * (1.0 - hazards)) @ A[:last] ** 2
    return np.asarray(np.log(ridge + curvature) - rate * np.abs(ridge * f + gradient))
