"""What a hazard fit reads and what it returns: spells and baseline features in, coefficients out."""

from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray, IntArray


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
