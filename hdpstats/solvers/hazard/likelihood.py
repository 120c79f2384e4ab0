"""Minus the log-likelihood of a discrete-time hazard with its derivatives, by the kernel that suits the data."""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.losses import HazardLink
from hdpstats.solvers.hazard.cells import CellKernel
from hdpstats.solvers.hazard.compiled import CompiledLogit
from hdpstats.solvers.hazard.cumulative import NEVER, CumulativeHazards
from hdpstats.solvers.hazard.data import HazardData
from hdpstats.solvers.hazard.kernel import Kernel, Survived
from hdpstats.solvers.hazard.tabulated import TabulatedKernel, table_size

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
