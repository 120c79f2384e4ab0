r"""Algorithms 3 and 4 of Nguyen and Hui (2017): one draw from a tempered posterior, by a preconditioned Langevin chain.

The target of Algorithm 3, with losses capped at v by ``C_v(l) = v tanh(l / v)`` and a normal prior, has the density

.. math:: \pi(f) \propto \exp\Big[-\frac{\epsilon}{2v}\Big\{\frac{\sigma}{2}\|f\|^2 + \sum_i C_v(\ell_i(f))\Big\}\Big],

which is epsilon-private under replace-one: one person moves the braces by less than v, and the normalising constant by
as much. Algorithm 4 (pSGLD: Li, Chen, Carlson and Carin 2016) is meant to sample from it.
"""

from typing import Final

import numpy as np

from hdpstats._base.compiled import compiled, compiled_reordered
from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.validation import integer, real
from hdpstats.papers.nguyen_hui.perturbation import Patients, fit
from hdpstats.papers.trials import positive, seeded

MOMENTUM: Final = 0.99
"""The paper's ``mu``."""

DAMPING: Final = 1e-5
"""The paper's ``lambda``."""

PRIOR: Final = 1e-2
"""``sigma epsilon / 2v``, the paper's choice: the precision of the prior after tempering."""

MOST_STEPS: Final = 10_000_000
BLOCK: Final = 2_000
"""Steps whose random numbers are drawn at a time."""

_SAFE: Final = 600.0
"""Up to here exponentials do not overflow."""

_FLAT: Final = 37.0
"""Beyond it ``log(1 + e^x)`` is ``max(x, 0)`` in floating point."""


def psgld(
    patients: Patients,
    *,
    epsilon: float,
    seed: int,
    steps: int,
    corrected: bool = False,
    step_size: float = 1.0,
    decay: float = 0.51,
    batch: int = 200,
    start: FloatArray | None = None,
    keep: int = 1,
) -> FloatArray:
    r"""Run Algorithm 4. NOT private: seeded, and a chain of finite length has no privacy guarantee at all.

    With :math:`\bar g` the gradient of :math:`-\log\pi / n` at a random batch, its running mean square ``V``,
    ``G = 1 / (lambda + sqrt V)`` and step sizes :math:`\epsilon_t = ct^{-\tau}`, step t is

    .. math:: f \leftarrow f - a\,\epsilon_t\,G\,n\bar g + N(0, \epsilon_t G),

    with c = 1, tau = 0.51 and a = 1 as printed. Langevin dynamics need a = 1/2: with a = 1 and small steps the
    stationary distribution is :math:`\pi^2`, half the temperature, which costs twice epsilon.

    The step sizes as printed are far too long besides. As G is about ``1 / sd(gbar)``, a step moves by about
    :math:`n\epsilon_t` because of the batch alone, and the variance of that is :math:`a^2 \epsilon_t n^2 sd(\bar g)`
    times the variance of the injected noise: hundreds, still, after 250 epochs of 8,000 people. The chain then follows
    the noise of its batches, not the target. A constant step with the ratio well below 1 (tau = 0, c a few millionths
    for 8,000 people) reaches the target in a few thousand steps.

    Parameters
    ----------
    epsilon : number
        The privacy that one exact draw from the target has.
    seed : int
    steps : int
        The length of the chain; ``n`` steps are an epoch of the paper.
    corrected : bool
        Whether a = 1/2.
    step_size, decay : number
        ``c`` and ``tau``; as printed 1 and 0.51.
    batch : int
        People drawn in each step, independently of one another.
    start : (e + p,), optional
        Where the chain begins; as printed 0.
    keep : int
        Every how many steps the state is kept.

    Returns
    -------
    (steps // keep, e + p) float64
        The kept states.
    """
    n, D = patients.people, patients.dimension
    steps = integer(steps, name="steps", lower=1, upper=MOST_STEPS)
    keep = integer(keep, name="keep", lower=1, upper=steps)
    batch = integer(batch, name="batch", lower=1, upper=n)
    rng = seeded(seed)
    factor = positive(step_size, "step_size")
    sizes = factor * np.arange(1, steps + 1) ** -real(decay, name="decay", lower=0.0)
    drift = 0.5 if corrected else 1.0
    state = np.zeros(D) if start is None else np.array(start, dtype=np.float64)
    if state.shape != (D,):
        raise ArgumentError(
            f"start must hold {D} numbers: the baseline's coefficients, then the others", argument="start"
        )
    square, path = np.zeros(D), np.empty((steps, D))
    for first in range(0, steps, BLOCK):
        part = slice(first, min(first + BLOCK, steps))
        people = rng.integers(0, n, (part.stop - first, batch))
        noise = np.sqrt(sizes[part, None]) * rng.standard_normal((part.stop - first, D))
        model = (patients.data.A, patients.data.Z, patients.data.exit, patients.data.event)
        _walk(*model, temperature(epsilon, n), bound(n), state, square, people, noise, drift * sizes[part], path[part])
    return np.ascontiguousarray(path[keep - 1 :: keep])


def bound(people: int) -> float:
    """Return the paper's cap ``v = 2 log n`` on the loss of one person."""
    return float(2.0 * np.log(people))


def temperature(epsilon: float, people: int) -> float:
    """Return ``epsilon / 2v``, the factor of the log posterior."""
    return positive(epsilon, "epsilon") / (2.0 * bound(people))


def target_covariance(patients: Patients, *, epsilon: float) -> FloatArray:
    r"""Return the covariance (D, D) of the normal distribution that the target of Algorithm 3 approaches. NOT private.

    :math:`\{(\epsilon/2v)\,I + 0.01\}^{-1}` with the information ``I`` of the unregularised fit. Its standard errors
    are :math:`\sqrt{2v/\epsilon}` times those of maximum likelihood, whatever n is: 6 times at epsilon = 1, n = 10^4.
    """
    precision = temperature(epsilon, patients.people) * fit(patients).information
    return np.asarray(np.linalg.inv(precision + PRIOR * np.eye(patients.dimension)))


@compiled
def _walk(
    A: FloatArray,
    X: FloatArray,
    last: IntArray,
    event: IntArray,
    tempering: float,
    cap: float,
    state: FloatArray,
    square: FloatArray,
    people: IntArray,
    noise: FloatArray,
    drifts: FloatArray,
    path: FloatArray,
) -> None:
    """Move the state by a step for every row of ``people``, and write where it was into ``path``."""
    n, batch = len(X), people.shape[1]
    for t in range(len(people)):
        gradient = batch_gradient(A, X, last, event, state, people[t], cap)
        for j in range(len(state)):
            mean = PRIOR * state[j] / n + tempering * gradient[j] / batch
            square[j] = MOMENTUM * square[j] + (1.0 - MOMENTUM) * mean * mean
            scale = 1.0 / (DAMPING + np.sqrt(square[j]))
            state[j] += np.sqrt(scale) * noise[t, j] - drifts[t] * scale * n * mean
        path[t] = state


@compiled_reordered
def batch_gradient(
    A: FloatArray,
    X: FloatArray,
    last: IntArray,
    event: IntArray,
    f: FloatArray,
    people: IntArray,
    cap: float,
) -> FloatArray:
    """Return the sum (D,) of the gradients of the capped losses of these people."""
    q, e = A.shape
    base, factors, hazards, mass = np.zeros(q), np.empty(q), np.empty(q), np.zeros(q)
    top = -np.inf
    for s in range(q):
        for j in range(e):
            base[s] += A[s, j] * f[j]
        top = max(top, base[s])
        factors[s] = np.exp(min(base[s], _SAFE))
    total = np.zeros(len(f))
    for i in people:
        end = last[i] - 1
        eta = 0.0
        for j in range(X.shape[1]):
            eta += X[i, j] * f[e + j]
        loss = -event[i] * (base[end] + eta)
        if max(top, top + eta, eta) < _SAFE and last[i] * np.log1p(np.exp(top + eta)) < _SAFE:
            loss += _survive(factors, np.exp(eta), last[i], hazards)
        else:
            loss += _survive_anywhere(base, eta, last[i], hazards)
        kept = 1.0 - np.tanh(loss / cap) ** 2
        residual = 0.0
        for s in range(last[i]):
            mass[s] += kept * hazards[s]
            residual += hazards[s]
        mass[end] -= kept * event[i]
        residual = kept * (residual - event[i])
        for j in range(X.shape[1]):
            total[e + j] += residual * X[i, j]
    for s in range(q):
        for j in range(e):
            total[j] += mass[s] * A[s, j]
    return total


@compiled_reordered
def _survive(factors: FloatArray, factor: float, last: int, hazards: FloatArray) -> float:
    """Write the hazards of the first intervals, and return the sum of ``log(1 + odds)``: no product overflows here."""
    product = 1.0
    for s in range(last):
        odds = factors[s] * factor
        hazards[s] = odds / (1.0 + odds)
        product *= 1.0 + odds
    return float(np.log(product))


@compiled
def _survive_anywhere(base: FloatArray, eta: float, last: int, hazards: FloatArray) -> float:
    """Do the same for coefficients of any size."""
    total = 0.0
    for s in range(last):
        linear = base[s] + eta
        if abs(linear) > _FLAT:
            hazards[s] = 1.0 if linear > 0.0 else 0.0
            total += max(linear, 0.0)
        else:
            odds = np.exp(linear)
            hazards[s] = odds / (1.0 + odds)
            total += np.log1p(odds)
    return total
