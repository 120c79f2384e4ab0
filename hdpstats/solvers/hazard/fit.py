"""Newton's method for hazards, with the step capped."""

import math
from typing import Final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice
from hdpstats.losses import LINKS
from hdpstats.solvers.hazard.likelihood import METHODS, Derivatives, HazardData, HazardFit, Likelihood
from hdpstats.solvers.newton import newton_step

LARGEST_CHANGE: Final = 2.0
"""How far one step may move any linear predictor."""

TOLERANCE: Final = 1e-12
"""A step that promises a decrease below half of this (in units of the log-likelihood) is the last one."""

CONTRACTION: Final = 1e-7
"""So is a step whose promise is this fraction of the one before, if the next would be below `INVISIBLE`."""

INVISIBLE: Final = 1e-20
"""Twice a decrease that moves the estimate by 1e-10 of its standard error."""

ROUGH: Final = 0.1
"""The tolerance of a fit that only starts another one."""

LARGEST_ITERATION: Final = 100
"""Newton steps after which the ascent is given up."""

SAMPLING: Final = 20
"""One of so many spells is in the sample whose fit starts that of all."""

SMALLEST_SAMPLE: Final = 1_000
"""Spells below which no sample is taken."""


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
    (undamped, the method diverges on ordinary data). Never raises on finite data: where the likelihood has no maximum
    the last iterate is returned with ``converged=False``. Intervals in which nobody is at risk carry no information;
    coefficients that only such intervals could tell stay where they started.

    Parameters
    ----------
    data : HazardData
        Spells, baseline features, weights, offsets.
    link : {"logit", "cloglog", "probit"}
        How hazard and linear predictor are connected.
    ridge, centre : (e + p,) float64, optional
        Diagonal ridge on the scale of the sum, not negative (default 0), and where it pulls to (default 0).
    start : (e + p,) float64, optional
        First iterate; by default a constant hazard, improved on a sample of the spells where they are many.
    method : {"auto", "direct", "tabulated"}
        How the sums over person-intervals are made: term by term, or from tables of their running sums whose
        cost does not depend on the number of intervals. Both are exact to rounding; "auto" takes the faster.

    Returns
    -------
    HazardFit

    Raises
    ------
    ArgumentError
        If the link or the method is not one of those named.
    """
    chosen, method = choice(link, name="link", options=tuple(LINKS)), choice(method, name="method", options=METHODS)
    likelihood = Likelihood(data, LINKS[chosen], method=method)
    D = data.A.shape[1] + data.Z.shape[1]
    penalty = np.zeros(D) if ridge is None else np.asarray(ridge, dtype=np.float64)
    target = np.zeros(D) if centre is None else np.asarray(centre, dtype=np.float64)
    with np.errstate(all="ignore"):
        first = _start(likelihood, penalty, target) if start is None else np.asarray(start, dtype=np.float64)
        return _ascend(likelihood, penalty, target, first, tolerance=TOLERANCE)


def _ascend(
    likelihood: Likelihood, ridge: FloatArray, centre: FloatArray, theta: FloatArray, *, tolerance: float
) -> HazardFit:
    def penalised(here: Derivatives, theta: FloatArray) -> float:
        return here.value + 0.5 * float(ridge @ (theta - centre) ** 2)

    a, eta = likelihood.predictors(theta)
    here, converged, iteration, before = likelihood.derivatives(a, eta), False, 0, math.nan
    for iteration in range(1, LARGEST_ITERATION + 1):  # noqa: B007
        gradient = here.gradient + ridge * (theta - centre)
        step = np.nan_to_num(newton_step(here.hessian + np.diag(ridge), gradient))
        decrease = float(gradient @ step)
        along_a, along_eta = likelihood.directions(step)
        change = _largest_change(along_a, along_eta)
        if not math.isfinite(change):
            break
        if decrease <= tolerance or (decrease <= CONTRACTION * before and decrease**3 <= INVISIBLE * before**2):
            theta, converged = theta - step, change < 0.1
            value = here.value - float(here.gradient @ step) + 0.5 * float(step @ here.hessian @ step)
            here = Derivatives(value=value, gradient=here.gradient, hessian=here.hessian)
            break
        length = min(1.0, LARGEST_CHANGE / change) if change > 0.0 else 1.0
        bound = penalised(here, theta) + 1e-13 * abs(here.value)
        while True:
            candidate = theta - length * step
            there = likelihood.derivatives(a - length * along_a, eta - length * along_eta)
            if penalised(there, candidate) <= bound or length < 1e-9:
                break
            length *= 0.5
        before = decrease if length == 1.0 else math.nan
        theta, here = candidate, there
        a, eta = a - length * along_a, eta - length * along_eta
    return HazardFit(
        theta=theta,
        information=here.hessian,
        deviance=2.0 * here.value,
        log_likelihood=-here.value,
        iterations=iteration,
        converged=converged,
    )


def _largest_change(along_a: FloatArray, along_eta: FloatArray) -> float:
    """Return a bound on how far a whole step moves any linear predictor."""
    lowest = float(np.min(along_a) + np.min(along_eta, initial=0.0))
    highest = float(np.max(along_a) + np.max(along_eta, initial=0.0))
    return max(-lowest, highest)


def _start(likelihood: Likelihood, ridge: FloatArray, centre: FloatArray) -> FloatArray:
    """Return a first iterate: the fit of a sample, or a constant hazard as nearly as the baseline can have it."""
    data = likelihood.data
    if data.spells >= SAMPLING * SMALLEST_SAMPLE:
        sample, share = likelihood.sample(SAMPLING), ridge / SAMPLING
        return _ascend(sample, share, centre, _start(sample, share, centre), tolerance=ROUGH).theta
    time = float(data.weights @ (data.exit - data.entry))
    events = float(data.weights @ ((data.event == 1) & (data.exit > data.entry)))
    p = np.array([(events + 0.5) / (time + 1.0)])
    level = float(likelihood.link.predictor(p)[0]) - (float(np.mean(data.offset)) if data.spells else 0.0)
    alpha, *_ = np.linalg.lstsq(data.A, np.full(data.intervals, level), rcond=None)
    return np.concatenate([alpha, np.zeros(data.Z.shape[1])])
