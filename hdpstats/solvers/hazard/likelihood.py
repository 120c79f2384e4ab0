"""Minus the log-likelihood of a discrete-time hazard with its derivatives, by the kernel that suits the data."""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.losses import HazardLink
from hdpstats.solvers.hazard.kernels import NEVER, CellKernel, CompiledLogit, CumulativeHazards, Kernel, Survived
from hdpstats.solvers.hazard.tabulated import TabulatedKernel, table_size


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

    def by_exit(self) -> "HazardData":
        """Return the spells in the order of their last intervals."""
        order = np.argsort(self.exit.astype(np.uint16), kind="stable")
        names = ("Z", "entry", "exit", "event", "weights", "offset")
        return HazardData(A=self.A, **{name: np.take(getattr(self, name), order, axis=0) for name in names})

    def part(self, rows: slice) -> "HazardData":
        """Return some of the spells."""
        names = ("Z", "entry", "exit", "event", "weights", "offset")
        return HazardData(A=self.A, **{name: getattr(self, name)[rows] for name in names})


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HazardFit:
    """A maximum of the (penalised) likelihood, or where the ascent ended.

    Attributes
    ----------
    theta : (e + p,) float64
        ``alpha``, then ``beta``.
    information : (e + p, e + p) float64
        Observed information of the likelihood at ``theta``, without the ridge.
    deviance, log_likelihood : float
        ``-2 log L`` and ``log L``, weighted, without the ridge.
    iterations : int
        Newton steps.
    converged : bool
        False if the ascent did not end at a maximum: a likelihood without a maximum (separation; an indicator of an
        interval without events), or too many steps.
    """

    theta: FloatArray
    information: FloatArray
    deviance: float
    log_likelihood: float
    iterations: int
    converged: bool


METHODS: Final = ("auto", "direct", "tabulated")

BLOCK: Final = 4096
"""Spells that are handled at a time; BLAS multiplies matrices of this size without starting threads."""

COMPILED_CELLS: Final = 200_000
"""Person-intervals from which the compiled kernel is used: below, numpy is done before compiled code is loaded."""

TABLES_PAY: Final = {"logit": 16.0, "probit": 1.0, "cloglog": math.inf}
"""Person-intervals for every number of a table from which making the table pays."""

SORTED_FROM: Final = 2_000
"""Intervals from which spells are sorted by the last one: neighbours then share a part of a large table."""

LARGEST_TABLE: Final = 20_000_000
"""Numbers in a table; wider ranges of the linear predictor go to the direct kernels."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Derivatives:
    """Minus the log-likelihood with gradient (D,) and Hessian (D, D)."""

    value: float
    gradient: FloatArray
    hessian: FloatArray


class Sums(NamedTuple):
    """Score and curvature of intervals or of spells."""

    score: FloatArray
    curvature: FloatArray


@final
class Likelihood:
    """Evaluates at linear predictors: ``a`` (q,) of the intervals and ``eta`` (m,) of the spells, offsets included."""

    def __init__(self, data: HazardData, link: HazardLink, *, method: str, compiled: bool = False) -> None:
        if SORTED_FROM <= data.intervals <= data.spells and method != "direct" and link.name != "cloglog":
            data = data.by_exit()
        self.data, self.link, self._method = data, link, method
        self._cells = data.person_intervals
        self.compiled = compiled or self._cells >= COMPILED_CELLS
        self._at_risk = _at_risk(data)
        happened = (data.event == 1) & (data.exit > data.entry)
        self._event_weights = data.weights * happened
        self._event_sums = np.zeros(data.intervals)
        np.add.at(self._event_sums, data.exit[happened] - 1, data.weights[happened])
        self._happened = np.flatnonzero(happened)
        self._last = data.exit if link.linear_event else data.exit - happened

    def sample(self, step: int) -> "Likelihood":
        """Return the likelihood of every ``step``-th spell."""
        part = self.data.part(slice(None, None, step))
        return Likelihood(part, self.link, method="auto", compiled=self.compiled)

    def predictors(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``a`` and ``eta`` at ``theta``."""
        e = self.data.A.shape[1]
        a = np.where(self._at_risk, self.data.A @ theta[:e], NEVER)
        return a, self.data.Z @ theta[e:] + self.data.offset

    def directions(self, step: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return how ``a`` and ``eta`` move along a step of ``theta``."""
        e = self.data.A.shape[1]
        return np.where(self._at_risk, self.data.A @ step[:e], 0.0), self.data.Z @ step[e:]

    def derivatives(self, a: FloatArray, eta: FloatArray) -> Derivatives:
        """Return value, gradient and Hessian."""
        data, e, p = self.data, self.data.A.shape[1], self.data.Z.shape[1]
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
        if self._tabulates(survived.eta):
            return TabulatedKernel(self.link, self.data.A, a, survived)
        if self.link.name == "cloglog":
            return CumulativeHazards(self.data.A, a, survived)
        if self.link.name == "logit" and self.compiled:
            return CompiledLogit(self.data.A, a, survived)
        return CellKernel(self.link, self.data.A, a, survived)

    def _tabulates(self, eta: FloatArray) -> bool:
        if self._method == "direct" or not len(eta):
            return False
        size = table_size(self.data.A, eta) if np.isfinite(np.ptp(eta)) else LARGEST_TABLE + 1
        if self._method == "tabulated":
            return size <= LARGEST_TABLE
        pays = self._cells >= TABLES_PAY[self.link.name] * size
        return pays and self.compiled and size <= LARGEST_TABLE


def _at_risk(data: HazardData) -> BoolArray:
    """Return for every interval (q,) whether anybody is at risk in it."""
    q: int = data.intervals
    full: IntArray = np.flatnonzero(data.exit > data.entry)
    change = np.bincount(data.entry[full], minlength=q + 1) - np.bincount(data.exit[full], minlength=q + 1)
    return np.asarray(np.cumsum(change)[:q] > 0)
