r"""Algorithms 1 and 2 of Nguyen and Hui (2017): output and objective perturbation of a discrete-time regression.

Both regularise the mean loss with ``Lambda ||f||^2 / 2``, that is the sum with the ridge ``n Lambda``. `prepare`
makes survival data as section 6.1 does; `theorem_4_4_counterexample` gives two data sets on which theorem 4.4 fails.

**What the bound on the determinant should be.** One person with covariates in the unit ball has the rows
``x^s = (A_s; x)``, ``||x^s||^2 <= ||A_s||^2 + 1``. In the density of a perturbed minimiser stands the determinant of
the Hessian, of which one person's part is :math:`\sum_s h_s(1-h_s)\,x^s x^{s\prime}` with :math:`h(1-h) \le 1/4`. The
eigenvalue of its term s is therefore at most ``||x^s||^2 / 4``. The proof of Theorem 4.4 takes ``||x^s|| / 4``, the
norm for the squared norm, which is too small wherever ``||x^s|| > 1``, and so always, as the first baseline feature is
1.
"""

from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import integer, real
from hdpstats.families.hazard.likelihood import HazardData, HazardFit, fit_hazard
from hdpstats.formulas.outcome import spline
from hdpstats.inference.draws import Generator
from hdpstats.papers.trials import MOST_DRAWS, ball_noise, positive, seeded
from hdpstats.records.model import MOST_INTERVALS, TimeGrid

MOST_KNOTS: Final = 20


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Patients:
    """A survival study in discrete time.

    Attributes
    ----------
    covariates : tuple of str
        Their names.
    data : HazardData
        ``A`` (q, e): a natural cubic spline at ``s/q``. ``Z`` (n, p): centred covariates, every row in the unit ball.
        ``exit`` and ``event`` (n,): the last interval at risk, and whether the event happened in it.
    """

    covariates: tuple[str, ...]
    data: HazardData

    @property
    def people(self) -> int:
        """``n``."""
        return self.data.spells

    @property
    def dimension(self) -> int:
        """``e + p``: the number of coefficients, the baseline's first."""
        return int(self.data.A.shape[1]) + len(self.covariates)


def prepare(
    frame: pd.DataFrame, *, time: str, event: str, covariates: list[str], intervals: int = 200, knots: int = 3
) -> Patients:
    """Prepare a study as the paper does. NOT private: scales and the length of follow-up are learned from the rows.

    Times are divided by the longest and cut into intervals, ``ceil(q t / max t)``. Covariates are divided by their
    range, centred, and divided by the largest norm of a row. (The paper says that they are "normalised to have zero
    mean and fitted inside the unit sphere". Of the readings tried, the division by the range agrees best with its
    figure 3.)

    Parameters
    ----------
    frame : DataFrame
        One row per person, complete.
    time, event : str
        Columns with the length of follow-up and, as 0 or 1, whether it ended with the event.
    covariates : list of str
        Columns with numbers.
    intervals, knots : int
        ``q`` and ``e``.

    Raises
    ------
    ArgumentError
        If a cell is no finite number, an event neither 0 nor 1, no time positive, or a covariate constant.
    """
    q = integer(intervals, name="intervals", lower=2, upper=MOST_INTERVALS)
    e = integer(knots, name="knots", lower=3, upper=MOST_KNOTS)
    cells = frame[[*covariates, time, event]].to_numpy(dtype=np.float64)
    X, times, happened = cells[:, :-2], cells[:, -2], cells[:, -1]
    if not np.all(np.isfinite(cells)) or not np.max(times, initial=0.0) > 0.0 or np.any(np.ptp(X, axis=0) == 0.0):
        raise ArgumentError(
            "frame must hold finite numbers, a positive time and covariates that vary; drop incomplete rows first",
            argument="frame",
        )
    if not np.all((happened == 0.0) | (happened == 1.0)):
        raise ArgumentError(f"column {event!r} must hold 0 and 1", argument="event")
    scaled = X / np.ptp(X, axis=0)
    scaled -= scaled.mean(axis=0)
    grid = TimeGrid(tuple(float(cut) for cut in range(1, q + 1)))
    data = HazardData(
        A=spline(grid, df=e),
        Z=scaled / np.max(np.linalg.norm(scaled, axis=1)),
        entry=np.zeros(len(X), dtype=np.int64),
        exit=np.maximum(grid.interval_of(np.ceil(q * times / np.max(times))), 1),
        event=happened.astype(np.int64),
        weights=np.ones(len(X)),
        offset=np.zeros(len(X)),
    )
    return Patients(covariates=tuple(covariates), data=data)


def fit(
    patients: Patients,
    *,
    link: str = "logit",
    ridge: float = 0.0,
    linear: FloatArray | None = None,
    start: FloatArray | None = None,
) -> HazardFit:
    r"""Find the minimiser (e + p,) of :math:`\sum_i \ell_i(f) + \frac{\rho}{2}\|f\|^2 + b'f`. NOT private: exact.

    Parameters
    ----------
    link : str
        A name of `hdpstats.losses.LINKS`; the paper's algorithms take the logit.
    ridge : number
        ``rho``, in the scale of sums: ``n`` times the paper's ``Lambda``. Positive where there is a linear term.
    linear : (e + p,), optional
        ``b``.
    start : (e + p,), optional
        Where Newton's method begins.
    """
    penalty = np.full(patients.dimension, ridge) if ridge > 0.0 else None
    centre = None if linear is None else -linear / ridge  # completes the square
    return fit_hazard(patients.data, link, ridge=penalty, centre=centre, start=start)


def relative_error(estimates: FloatArray, truth: FloatArray) -> FloatArray:
    """Return ``||f - f*|| / ||f*||`` (...) of estimates (..., D). NOT private: ``f*`` is exact.

    Its mean is the paper's MRE (equation 9).
    """
    return np.asarray(np.linalg.norm(estimates - truth, axis=-1) / np.linalg.norm(truth))


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


def output_perturbation(
    patients: Patients, *, epsilon: float, regularisation: float, seed: int, draws: int = 1
) -> FloatArray:
    """Draw from Algorithm 1, extended output perturbation. NOT private: seeded noise in floating point, many draws.

    The regularised fit plus a vector with density proportional to ``exp(-epsilon ||b|| / t)``, where
    ``t = gradient_sensitivity / (n Lambda)``.

    Parameters
    ----------
    epsilon : number
        What one draw would cost if its noise were secret and exact.
    regularisation : number
        The paper's ``Lambda``.
    seed : int
    draws : int

    Returns
    -------
    (draws, e + p) float64
    """
    epsilon, regularisation, rng, draws = _check(epsilon, regularisation, seed, draws)
    ridge = patients.people * regularisation
    scale = gradient_sensitivity(patients.data.A) / ridge / epsilon
    return fit(patients, ridge=ridge).theta + ball_noise(rng, scale, draws, patients.dimension)


def objective_perturbation(
    patients: Patients, *, epsilon: float, regularisation: float, seed: int, draws: int = 1, corrected: bool = False
) -> FloatArray:
    """Draw from Algorithm 2, extended objective perturbation. NOT private: seeded, and Theorem 4.4 is wrong as printed.

    What the bound on the determinant leaves of epsilon, at least half of it, is spent on a linear term with density
    proportional to ``exp(-epsilon' ||b|| / t)``, ``t = gradient_sensitivity``; where ``Lambda`` is too small for that,
    a further ridge ``Delta`` is added.

    Parameters
    ----------
    epsilon : number
        What one draw would cost if the theorem held and its noise were secret and exact.
    regularisation : number
        The paper's ``Lambda``.
    seed : int
    draws : int
    corrected : bool
        Whether the bound on the determinant takes the squared norm of a row, as it must, or the norm, as printed.

    Returns
    -------
    (draws, e + p) float64
    """
    epsilon, regularisation, rng, draws = _check(epsilon, regularisation, seed, draws)
    ridge = patients.people * regularisation
    left = epsilon - determinant_bound(patients.data.A, ridge, corrected=corrected)
    if left < epsilon / 2.0:
        ridge = smallest_ridge(patients.data.A, epsilon / 2.0, corrected=corrected)
        left = epsilon / 2.0
    noise = ball_noise(rng, gradient_sensitivity(patients.data.A) / left, draws, patients.dimension)
    start = fit(patients, ridge=ridge).theta
    return np.array([fit(patients, ridge=ridge, linear=b, start=start).theta for b in noise])


def _check(epsilon: float, regularisation: float, seed: int, draws: int) -> tuple[float, float, Generator, int]:
    """Return the arguments of both algorithms, checked, and the generator."""
    return (
        positive(epsilon, "epsilon"),
        positive(regularisation, "regularisation"),
        seeded(seed),
        integer(draws, name="draws", lower=1, upper=MOST_DRAWS),
    )


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
    have enough to spare and the printed bound holds. For a time axis in months or days it does not hold.

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
