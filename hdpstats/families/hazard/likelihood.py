"""Minus the log-likelihood of a discrete-time hazard by the kernel that suits the data, and its minimum."""

from dataclasses import dataclass, fields
from typing import Final, NamedTuple, final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats._base.validation import choice
from hdpstats.families.hazard.kernels import (
    NEVER,
    CellKernel,
    CumulativeHazards,
    Kernel,
    Survived,
    TabulatedKernel,
    table_size,
)
from hdpstats.losses import LINKS, HazardLink
from hdpstats.solvers.newton import AMPLE, newton, newton_step
from hdpstats.solvers.objective import SmoothObjective


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HazardData:
    r"""Spells of people at risk in intervals 1 to q; nothing is ever expanded to a row per interval.

    The linear predictor of spell i in interval s is ``A_s' alpha + z_i' beta + o_i``. The spell is at risk in the
    intervals ``entry + 1, ..., exit`` and, where ``event`` is 1, ends with the event in interval ``exit``. A spell with
    ``entry == exit`` contributes nothing.

    Attributes
    ----------
    A : (q, e) float64
        Baseline features of the intervals.
    Z : (m, p) float64
        Covariates of the spells, without an intercept.
    entry, exit, event : (m,) int64
        ``0 <= entry <= exit <= q``; ``event`` is 0 or 1.
    weights, offset : (m,) float64
        Case weights, not negative; ``o_i``.

    Raises
    ------
    ArgumentError
        If shapes do not fit or a number is out of its range.
    """

    A: FloatArray
    Z: FloatArray
    entry: IntArray
    exit: IntArray
    event: IntArray
    weights: FloatArray
    offset: FloatArray

    def __post_init__(self) -> None:
        """Store contiguous arrays and refuse what the kernels cannot index."""
        for name in ("A", "Z", "weights", "offset"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.float64))
        for name in ("entry", "exit", "event"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.int64))
        if self.A.ndim != 2 or self.Z.ndim != 2:
            raise ArgumentError("A and Z must be matrices: a row per interval, a row per spell", argument="A, Z")
        for name in ("entry", "exit", "event", "weights", "offset"):
            if getattr(self, name).shape != (len(self.Z),):
                raise ArgumentError(f"{name} must have one number per spell ({len(self.Z)})", argument=name)
        if not np.all((self.entry >= 0) & (self.entry <= self.exit) & (self.exit <= len(self.A))):
            raise ArgumentError("entry and exit must satisfy 0 <= entry <= exit <= q", argument="entry, exit")
        if not np.all((self.event == 0) | (self.event == 1)):
            raise ArgumentError("event must be 0 or 1", argument="event")

    @property
    def intervals(self) -> int:
        """``q``: how many intervals there are."""
        return len(self.A)

    @property
    def spells(self) -> int:
        """``m``: how many spells there are."""
        return len(self.Z)

    @property
    def person_intervals(self) -> int:
        """How many rows the expanded table would have."""
        return int(np.sum(self.exit - self.entry))

    def take(self, rows: slice | IntArray) -> "HazardData":
        """Return some of the spells, in an order."""
        return HazardData(A=self.A, **{each.name: getattr(self, each.name)[rows] for each in fields(self)[1:]})


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HazardFit:
    r"""A maximum of the (penalised) likelihood, or where the iteration ended.

    **Convergence.** Let ``|l'''| <= M l''`` for all terms (`HazardLink.self_concordance`), and let Newton's step ``v``
    move linear predictors by at most ``s``. Along the step the objective falls at first with the slope ``-v'Hv``, and
    its curvature is at least ``v'Hv exp(-M s t)`` after a share ``t`` of it. So where ``M s < 1`` the slope is 0 before
    ``t = -log(1 - M s) / (M s)``: there is a minimum along the step. Terms that fall for ever have slopes of at least
    ``l'' / M``, so that ``v'Hv <= M s v'Hv`` and ``M s >= 1`` for a step along them, however light their tails are.

    Attributes
    ----------
    theta : (e + p,) float64
        ``alpha``, then ``beta``.
    reached : Derivatives
        What was computed last, at the point from which the last step led to ``theta``.
    log_likelihood : float
        ``log L``, weighted, without the ridge.
    self_concordance : float
        ``M``, of the terms of people at risk where predictors differ by at most 1 from those reached.
    converged : bool
        Whether the bound proves that the iteration ended at a maximum. It does not where there is none (separation; an
        indicator of an interval without events) or after too many steps; nor, with the complementary log-log link,
        where the linear predictors of some people differ much, as ``M`` is of the order of the largest hazard.
    """

    theta: FloatArray
    reached: "Derivatives"
    log_likelihood: float
    self_concordance: float
    converged: bool

    @property
    def information(self) -> FloatArray:
        """Observed information of the likelihood (e + p, e + p), without the ridge."""
        return self.reached.hessian

    @property
    def deviance(self) -> float:
        """``-2 log L``."""
        return -2.0 * self.log_likelihood


BLOCK: Final = 4096
"""Spells that are handled at a time; BLAS multiplies matrices of this size without starting threads."""

COMPILED_CELLS: Final = 200_000
"""Person-intervals from which compiled tables are used, where they have no more numbers than there are of these: below,
numpy is done before compiled code is loaded."""

SORTED_FROM: Final = 2_000
"""Intervals from which spells are sorted by the last one: neighbours then share a part of a large table."""

LARGEST_TABLE: Final = 20_000_000
"""Numbers in a table; wider ranges of the linear predictor are summed term by term."""

LARGEST_CHANGE: Final = 2.0
"""How far one step may move any linear predictor: whole steps diverge on ordinary data."""

TOLERANCE: Final = 1e-12
"""A step with an expected decrease below this (in units of the log-likelihood) is the last one."""

ROUGH: Final = 0.1
"""The tolerance of a fit that only starts another one."""

SMALL_STEP: Final = 0.1
"""A maximum was reached where ``M s`` of the last step is smaller: see `HazardFit`."""

SAMPLING: Final = 20
"""One of so many spells is in the sample whose fit starts that of all."""

SMALLEST_SAMPLE: Final = 1_000
"""Spells below which no sample is taken."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Derivatives:
    """Minus the log-likelihood at ``theta`` with gradient (D,) and Hessian (D, D), all without the ridge."""

    theta: FloatArray
    value: float
    gradient: FloatArray
    hessian: FloatArray


class Sums(NamedTuple):
    """Score and curvature of intervals or of spells."""

    score: FloatArray
    curvature: FloatArray


@final
class Likelihood(SmoothObjective):
    """Minus the log-likelihood plus ``sum_j ridge_j (theta_j - centre_j)^2 / 2``, to float accuracy.

    Value, gradient and Hessian come from one pass over the spells; those of the last point are kept.
    """

    def __init__(
        self,
        data: HazardData,
        link: HazardLink,
        *,
        ridge: FloatArray | None = None,
        centre: FloatArray | None = None,
        compiled: bool = False,
    ) -> None:
        if SORTED_FROM <= data.intervals <= data.spells and not link.cumulative:
            data = data.take(np.argsort(data.exit.astype(np.uint16), kind="stable"))
        D = data.A.shape[1] + data.Z.shape[1]
        self.data, self.link = data, link
        self.ridge = np.zeros(D) if ridge is None else np.asarray(ridge, dtype=np.float64)
        self.centre = np.zeros(D) if centre is None else np.asarray(centre, dtype=np.float64)
        self._cells = data.person_intervals
        self._compiled = compiled or self._cells >= COMPILED_CELLS
        self._at_risk = _at_risk(data)
        happened = (data.event == 1) & (data.exit > data.entry)
        self._event_weights = data.weights * happened
        self._event_sums = np.zeros(data.intervals)
        np.add.at(self._event_sums, data.exit[happened] - 1, data.weights[happened])
        self._happened = np.flatnonzero(happened)
        self._last = data.exit if link.linear_event else data.exit - happened
        self._here: Derivatives | None = None

    @property
    def mass(self) -> float:
        """0: what decrease is visible is a matter of the log-likelihood's own unit."""
        return 0.0

    @property
    def last(self) -> Derivatives | None:
        """What was computed last."""
        return self._here

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return the gradient (D,), ridge included."""
        return self.at(theta).gradient + self.ridge * (theta - self.centre)

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (D, D), ridge included."""
        return self.at(theta).hessian + np.diag(self.ridge)

    def first_length(self, step: FloatArray) -> float:
        """Return the part of a step that moves no linear predictor by more than `LARGEST_CHANGE`."""
        return min(1.0, LARGEST_CHANGE / max(self.effect(step), LARGEST_CHANGE))

    def sample(self) -> "Likelihood":
        """Return the likelihood of one in `SAMPLING` spells."""
        part, share = self.data.take(slice(None, None, SAMPLING)), self.ridge / SAMPLING
        return Likelihood(part, self.link, ridge=share, centre=self.centre, compiled=self._compiled)

    def effect(self, step: FloatArray) -> float:
        """Return a bound on how far a step of ``theta`` moves any linear predictor of somebody at risk."""
        e = self.data.A.shape[1]
        along_a, along_eta = np.where(self._at_risk, self.data.A @ step[:e], 0.0), self.data.Z @ step[e:]
        lowest = float(np.min(along_a) + np.min(along_eta, initial=0.0))
        highest = float(np.max(along_a) + np.max(along_eta, initial=0.0))
        return max(-lowest, highest)

    def self_concordance(self, theta: FloatArray) -> float:
        """Return ``M`` of the terms of people at risk, where predictors differ by at most 1 from those at ``theta``."""
        e = self.data.A.shape[1]
        counted = (self.data.exit > self.data.entry) & (self.data.weights > 0.0)
        a, eta = (self.data.A @ theta[:e])[self._at_risk], (self.data.Z @ theta[e:] + self.data.offset)[counted]
        ends = [limit(a) + limit(eta) for limit in (np.min, np.max)] if len(a) and len(eta) else []
        return self.link.self_concordance(np.array(ends))

    def at(self, theta: FloatArray) -> Derivatives:
        """Return value, gradient and Hessian at ``theta``, without the ridge."""
        if self._here is None or not np.array_equal(self._here.theta, theta):
            self._here = self._derivatives(theta)
        return self._here

    def _derivatives(self, theta: FloatArray) -> Derivatives:
        data, e, p = self.data, self.data.A.shape[1], self.data.Z.shape[1]
        a, eta = np.where(self._at_risk, data.A @ theta[:e], NEVER), data.Z @ theta[e:] + data.offset
        kernel = self._kernel(a, Survived(data.Z, data.entry, self._last, data.weights, eta))
        value, by_interval, by_spell = self._events(a, eta)
        slopes, curved, cross = np.zeros(p), np.zeros((p, p)), np.zeros((p, e))
        for start in range(0, data.spells, BLOCK):
            rows = slice(start, start + BLOCK)
            Z, sums = data.Z[rows], kernel.spells(rows)
            score, curvature = sums.score + by_spell.score[rows], sums.curvature
            cross += sums.cross
            if not self.link.linear_event:
                curvature = curvature + by_spell.curvature[rows]
                cross += (Z * by_spell.curvature[rows, None]).T @ data.A[data.exit[rows] - 1]
            slopes += Z.T @ score
            curved += Z.T @ (Z * curvature[:, None])
        survived = kernel.intervals()
        score, curvature = survived.score + by_interval.score, survived.curvature + by_interval.curvature
        baseline = data.A.T @ (data.A * curvature[:, None])
        return Derivatives(
            theta=theta,
            value=value + survived.value,
            gradient=np.concatenate([data.A.T @ score, slopes]),
            hessian=np.block([[baseline, cross.T], [cross, curved]]),
        )

    def _events(self, a: FloatArray, eta: FloatArray) -> tuple[float, Sums, Sums]:
        """Return what events add: the value; score and curvature by interval (q,); the same by spell (m,)."""
        if self.link.linear_event:
            value = -float(self._event_sums @ a) - float(self._event_weights @ eta)
            zero = np.zeros(len(a))
            return value, Sums(-self._event_sums, zero), Sums(-self._event_weights, zero)
        i, s = self._happened, self.data.exit[self._happened] - 1
        terms, w = self.link.event(a[s] + eta[i]), self.data.weights[i]
        added = Sums(np.zeros(len(eta)), np.zeros(len(eta)))
        added.score[i], added.curvature[i] = w * terms.score, w * terms.curvature
        by_interval = Sums(np.zeros(len(a)), np.zeros(len(a)))
        np.add.at(by_interval.score, s, added.score[i])
        np.add.at(by_interval.curvature, s, added.curvature[i])
        return float(w @ terms.value), by_interval, added

    def _kernel(self, a: FloatArray, survived: Survived) -> Kernel:
        if self.link.cumulative:
            return CumulativeHazards(self.link, self.data.A, a, survived)
        return (TabulatedKernel if self._tabulates(survived.eta) else CellKernel)(self.link, self.data.A, a, survived)

    def _tabulates(self, eta: FloatArray) -> bool:
        if not (self._compiled and len(eta) and np.isfinite(np.ptp(eta))):
            return False
        return table_size(self.link, self.data.A, eta) <= min(self._cells, LARGEST_TABLE)


def _at_risk(data: HazardData) -> BoolArray:
    """Return for every interval (q,) whether anybody is at risk in it."""
    q: int = data.intervals
    full: IntArray = np.flatnonzero(data.exit > data.entry)
    change = np.bincount(data.entry[full], minlength=q + 1) - np.bincount(data.exit[full], minlength=q + 1)
    return np.asarray(np.cumsum(change)[:q] > 0)


def fit_hazard(
    data: HazardData,
    link: str,
    *,
    ridge: FloatArray | None = None,
    centre: FloatArray | None = None,
    start: FloatArray | None = None,
) -> HazardFit:
    r"""Maximise the log-likelihood of a discrete-time hazard, minus ``sum_j ridge_j (theta_j - centre_j)^2 / 2``.

    The same maximum as a binary regression with a row per person and interval, which is never formed, by the Newton
    method of all fits (`hdpstats.solvers.newton`). Never raises on finite data: where the likelihood has no maximum
    the last iterate is returned with ``converged=False``. Intervals in which nobody is at risk carry no information;
    coefficients that only such intervals could determine stay where they started.

    Parameters
    ----------
    data : HazardData
        Spells, baseline features, weights, offsets.
    link : str
        A name of `hdpstats.losses.LINKS`: how hazard and linear predictor are connected.
    ridge, centre : (e + p,) float64, optional
        Diagonal ridge on the scale of the sum, not negative (default 0), and where it pulls to (default 0).
    start : (e + p,) float64, optional
        First iterate; by default a constant hazard, improved on a sample of the spells where they are many.

    Raises
    ------
    ArgumentError
        If the link is not one of those named.
    """
    known = LINKS[choice(link, name="link", options=tuple(LINKS))]
    likelihood = Likelihood(data, known, ridge=ridge, centre=centre)
    with np.errstate(all="ignore"):
        first = _start(likelihood) if start is None else np.asarray(start, dtype=np.float64)
        here = likelihood.at(newton(likelihood, start=first, budget=AMPLE, tolerance=TOLERANCE))
        step = _last_step(likelihood, here)
        effect = likelihood.effect(step)
        step = step if effect < np.inf else np.zeros_like(step)
        bound = likelihood.self_concordance(here.theta)
        value = here.value - float(here.gradient @ step) + 0.5 * float(step @ here.hessian @ step)
    return HazardFit(
        theta=here.theta - step,
        reached=here,
        log_likelihood=-value,
        self_concordance=bound,
        converged=effect * bound < SMALL_STEP,
    )


def _last_step(likelihood: Likelihood, here: Derivatives) -> FloatArray:
    """Return the step from where the iteration ended, to the minimum up to rounding; nothing is computed there."""
    gradient = likelihood.gradient(here.theta)
    return np.asarray(np.nan_to_num(newton_step(likelihood.hessian(here.theta), gradient)))


def _start(likelihood: Likelihood) -> FloatArray:
    """Return a first iterate: the fit of a sample, or a constant hazard as nearly as the baseline can have it."""
    data = likelihood.data
    if data.spells >= SAMPLING * SMALLEST_SAMPLE:
        sample = likelihood.sample()
        here = sample.at(newton(sample, start=_start(sample), budget=AMPLE, tolerance=ROUGH))
        return here.theta - _last_step(sample, here)
    time = float(data.weights @ (data.exit - data.entry))
    events = float(data.weights @ ((data.event == 1) & (data.exit > data.entry)))
    p = np.array([(events + 0.5) / (time + 1.0)])
    level = float(likelihood.link.predictor(p)[0]) - (float(np.mean(data.offset)) if data.spells else 0.0)
    alpha, *_ = np.linalg.lstsq(data.A, np.full(data.intervals, level), rcond=None)
    return np.concatenate([alpha, np.zeros(data.Z.shape[1])])
