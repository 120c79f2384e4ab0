"""Newton's method for hazards, with the step capped; every kernel serves it."""

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice
from hdpstats.solvers.hazard.cells import CellKernel
from hdpstats.solvers.hazard.compiled import CompiledLogit
from hdpstats.solvers.hazard.data import HazardData, HazardFit
from hdpstats.solvers.hazard.kernel import Block, Kernel
from hdpstats.solvers.hazard.links import LINKS, Link
from hdpstats.solvers.newton import newton_step

BLOCK: Final = 8192
"""Spells that are handled at a time."""

COMPILED_CELLS: Final = 200_000
"""Person-intervals from which the compiled kernel is used: below, numpy is done before a compiler has been loaded."""

LARGEST_CHANGE: Final = 2.0
"""How far one step may move any linear predictor."""

TOLERANCE: Final = 1e-12
"""A step that promises less decrease than half of this (in units of the log-likelihood) is the last one."""

LARGEST_ITERATION: Final = 100
"""Newton steps after which the ascent is given up."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """Minus the log-likelihood with gradient (D,) and Hessian (D, D)."""

    value: float
    gradient: FloatArray
    hessian: FloatArray


def evaluate(data: HazardData, link: Link, *, a: FloatArray, eta: FloatArray, kernel: Kernel) -> Pass:
    """Return minus the log-likelihood and its derivatives at baseline ``a`` (q,) and spell predictors ``eta`` (m,)."""
    (q, e), p = data.A.shape, data.Z.shape[1]
    slopes, curved, cross = np.zeros(p), np.zeros((p, p)), np.zeros((p, e))
    value, score, curvature = 0.0, np.zeros(q), np.zeros(q)
    for start in range(0, data.spells, BLOCK):
        rows = slice(start, start + BLOCK)
        Z, w, entry = data.Z[rows], data.weights[rows], data.entry[rows]
        ends = np.flatnonzero((data.event[rows] == 1) & (data.exit[rows] > entry))
        last = data.exit[rows].copy()
        last[ends] -= 1
        sums = kernel.spells(Block(Z, entry, last, w, eta[rows]))
        s = last[ends]  # the event's interval, counted from 0
        terms = link.event(a[s] + eta[rows][ends])
        value += float(w[ends] @ terms.value)
        event_score, event_curvature = w[ends] * terms.score, w[ends] * terms.curvature
        score += np.bincount(s, event_score, q)
        curvature += np.bincount(s, event_curvature, q)
        sums.score[ends] += event_score
        sums.curvature[ends] += event_curvature
        slopes += Z.T @ sums.score
        curved += Z.T @ (Z * sums.curvature[:, None])
        cross += sums.cross + Z[ends].T @ (event_curvature[:, None] * data.A[s])
    survived = kernel.intervals()
    score += survived.score
    curvature += survived.curvature
    baseline = data.A.T @ (data.A * curvature[:, None])
    return Pass(
        value=value + survived.value,
        gradient=np.concatenate([data.A.T @ score, slopes]),
        hessian=np.block([[baseline, cross.T], [cross, curved]]),
    )


def fit_hazard(
    data: HazardData,
    link: str,
    *,
    ridge: FloatArray | None = None,
    centre: FloatArray | None = None,
    start: FloatArray | None = None,
    method: str = "auto",
) -> HazardFit:
    r"""Maximise the log-likelihood of a discrete-time hazard, minus ``sum_j ridge_j (theta_j - centre_j)^2 / 2``.

    The same maximum as a binary regression with a row per person and interval, which is never formed.

    Newton's method; a step is shortened until no linear predictor moves by more than 2 and the objective does not rise
    (undamped, the method diverges on ordinary data). Never raises on finite data: where the likelihood has
    no maximum the last iterate is returned with ``converged=False``.

    Parameters
    ----------
    data : HazardData
        Spells, baseline features, weights, offsets.
    link : {"logit", "cloglog", "probit"}
        How hazard and linear predictor are connected.
    ridge, centre : (e + p,) float64, optional
        Diagonal ridge on the scale of the sum, not negative (default 0), and where it pulls to (default 0).
    start : (e + p,) float64, optional
        First iterate; by default the fit of the baseline alone.
    method : {"auto", "direct"}
        How the sums over person-intervals are made.

    Returns
    -------
    HazardFit

    Raises
    ------
    ArgumentError
        If the link or the method is not one of those named.
    """
    chosen = LINKS[choice(link, name="link", options=tuple(LINKS))]
    choice(method, name="method", options=("auto", "direct"))
    D = data.A.shape[1] + data.Z.shape[1]
    penalty = np.zeros(D) if ridge is None else np.asarray(ridge, dtype=np.float64)
    target = np.zeros(D) if centre is None else np.asarray(centre, dtype=np.float64)
    theta = _start(data, chosen) if start is None else np.asarray(start, dtype=np.float64)
    with np.errstate(all="ignore"):
        return _ascend(data, chosen, penalty, target, theta)


def _kernel(data: HazardData, link: Link, a: FloatArray, cells: int) -> Kernel:
    if link.name == "logit" and cells >= COMPILED_CELLS:
        return CompiledLogit(data.A, a)
    return CellKernel(link, data.A, a)


def _ascend(data: HazardData, link: Link, ridge: FloatArray, centre: FloatArray, theta: FloatArray) -> HazardFit:
    e, cells = data.A.shape[1], data.person_intervals

    def at(a: FloatArray, eta: FloatArray) -> Pass:
        return evaluate(data, link, a=a, eta=eta, kernel=_kernel(data, link, a, cells))

    def penalised(here: Pass, theta: FloatArray) -> float:
        return here.value + 0.5 * float(ridge @ (theta - centre) ** 2)

    a, eta = data.A @ theta[:e], data.Z @ theta[e:] + data.offset
    here, converged, iteration = at(a, eta), False, 0
    for iteration in range(1, LARGEST_ITERATION + 1):  # noqa: B007
        gradient = here.gradient + ridge * (theta - centre)
        step = np.nan_to_num(newton_step(here.hessian + np.diag(ridge), gradient))
        decrease = float(gradient @ step)
        along_a, along_eta = data.A @ step[:e], data.Z @ step[e:]
        change = _largest_change(along_a, along_eta)
        if decrease <= TOLERANCE:
            theta, converged = theta - step, change < 1e-2
            here = Pass(value=here.value - 0.5 * decrease, gradient=here.gradient, hessian=here.hessian)
            break
        length = min(1.0, LARGEST_CHANGE / change) if change > 0 else 1.0
        value = penalised(here, theta)
        while True:
            candidate = theta - length * step
            there = at(a - length * along_a, eta - length * along_eta)
            if penalised(there, candidate) <= value + 1e-13 * abs(value) or length < 1e-9:
                break
            length *= 0.5
        theta, here = candidate, there
        a, eta = a - length * along_a, eta - length * along_eta
    log_likelihood = -here.value
    return HazardFit(
        theta=theta,
        information=here.hessian,
        deviance=-2.0 * log_likelihood,
        log_likelihood=log_likelihood,
        iterations=iteration,
        converged=converged,
    )


def _largest_change(along_a: FloatArray, along_eta: FloatArray) -> float:
    """Return a bound on how far a whole step moves any linear predictor."""
    lowest = float(np.min(along_a) + np.min(along_eta, initial=0.0))
    highest = float(np.max(along_a) + np.max(along_eta, initial=0.0))
    return max(-lowest, highest)


def _start(data: HazardData, link: Link) -> FloatArray:
    """Return the constant hazard of all person-intervals, as nearly as the baseline can have it, and no slopes."""
    time = float(data.weights @ (data.exit - data.entry))
    events = float(np.sum(data.weights[data.happened]))
    p = np.array([(events + 0.5) / (time + 1.0)])
    level = float(link.predictor(p)[0]) - float(np.mean(data.offset)) if data.spells else 0.0
    alpha, *_ = np.linalg.lstsq(data.A, np.full(data.intervals, level), rcond=None)
    return np.concatenate([alpha, np.zeros(data.Z.shape[1])])
