r"""Somebody's own loss, as a table of its scores: a site receives numbers, never code.

The asker evaluates the score on a public grid: ``N`` equally spaced places from ``start`` on, ``step`` apart, and ``K``
equally spaced outcomes over the declared range. A place is a predictor, or, with a tilt of 1, a predictor less the
outcome: a loss of residuals is the same in all rows then. The site's loss is the bilinear interpolation of that table
in place and outcome, constant beyond the grid (the loss goes on linearly there).

Constants, all of them computed from the table by the site itself, in exact arithmetic:

* a row that nowhere falls interpolates to a score that nowhere falls, and so do mixtures of two rows: the loss is
  convex, with a Lipschitz score; a table with a falling row is refused;
* interpolated numbers lie between the nodes: ``|l'| <= max |node|``;
* slopes are mixtures of the slopes between nodes: ``l'' <= max (node' - node) / step``.

So nobody needs to trust what the table was said to be: a wrong declaration changes what is estimated, never what is
guaranteed.
"""

import itertools
import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.losses.base import PredictorLoss, Table

PLACES = 257
"""``N``: nodes of the grid of predictors or residuals."""

OUTCOMES = 33
"""``K``: nodes of the grid of outcomes; 2 for a binary one."""

MOST_NODES = 100_000
LARGEST = 1e9


@final
@dataclass(frozen=True, kw_only=True)
class Tabulated(PredictorLoss):
    """A table of scores (K, N): a row per outcome, a column per predictor or, where ``tilt`` is 1, per residual.

    Examples
    --------
    >>> loss = Tabulated.made((-1.0, 1.0, 0.0), ((-1.0, 0.0, 1.0), (-2.0, -1.0, 0.0)), lower=0.0, upper=1.0)
    >>> loss.lipschitz, loss.smoothness
    (Fraction(2, 1), Fraction(1, 1))
    >>> float(loss.score(np.array([0.5]), np.array([0.5]))[0])
    0.0
    """

    name = "own"
    parameters = ("start", "step", "tilt")
    classical = "M-estimation"
    outcomes = ("continuous", "binary")
    lower: float
    upper: float
    start: float
    step: float
    tilt: float
    table: Table
    lipschitz: Fraction = field(init=False)
    smoothness: Fraction = field(init=False)

    def __post_init__(self) -> None:
        """Refuse a table that is none, and compute the constants."""
        _check(self.table, start=self.start, step=self.step, tilt=self.tilt)
        rows = [[Fraction(value) for value in row] for row in self.table]
        rises = [after - before for row in rows for before, after in itertools.pairwise(row)]
        if min(rises) < 0:
            raise MechanismError("a row of the table of scores falls: the loss is not convex in the linear predictor")
        if max(rises) == 0:
            raise MechanismError("the table of scores is constant in the linear predictor: there is nothing to fit")
        object.__setattr__(self, "lipschitz", max(abs(value) for row in rows for value in row))
        object.__setattr__(self, "smoothness", max(rises) / Fraction(self.step))

    @cached_property
    def _nodes(self) -> FloatArray:
        return np.array(self.table)

    @cached_property
    def _integrals(self) -> FloatArray:
        """The loss at the nodes (K, N), 0 at the first place."""
        sums = np.cumsum(0.5 * (self._nodes[:, 1:] + self._nodes[:, :-1]), axis=1) * self.step
        return np.column_stack([np.zeros(len(sums)), sums])

    @property
    def _reach(self) -> float:
        return self.step * (len(self.table[0]) - 1)

    @property
    def _size(self) -> float:
        """The largest number that an outcome or a place of the grid is."""
        return max(abs(self.lower), abs(self.upper)) + abs(self.start) + self._reach

    @property
    def ulps(self) -> float:  # type: ignore[override]
        """``16 + 8 sup l'' size / sup |l'|``: a place within the grid errs by a few ``u`` of its size."""
        return 16.0 + 8.0 * float(self.smoothness) * self._size / float(self.lipschitz)

    @property
    def magnitude(self) -> float:  # type: ignore[override]
        """The size of the integrals, which are sums of N terms."""
        return 2.0 + (1.0 + len(self.table[0]) / 16.0) * float(self.lipschitz) * self._size

    @property
    def at_zero(self) -> float:  # type: ignore[override]
        """Where no row of scores keeps one sign, every mixture of rows is least on the grid; else there is no bound."""
        crosses = all(row[0] <= 0.0 <= row[-1] for row in self.table)
        return float(self.lipschitz) * self._size if crosses else math.inf

    def _outcome(self, y: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return each outcome's row, and the share of the next one: the floats are what the loss is defined by."""
        place = np.clip((y - self.lower) / (self.upper - self.lower), 0.0, 1.0) * (len(self.table) - 1)
        row = np.minimum(place.astype(np.int64), len(self.table) - 2)
        return row, place - row

    def _place(self, eta: FloatArray, y: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return each place's cell and how far it is into the cell."""
        last = len(self.table[0]) - 1
        place = np.clip(((eta - self.tilt * y) - self.start) / self.step, 0.0, float(last))
        cell = np.minimum(place.astype(np.int64), last - 1)
        return cell, place - cell

    def _mixed(self, numbers: FloatArray, y: FloatArray, column: IntArray) -> FloatArray:
        """Return numbers (K, N) at columns, mixed over the two rows of each outcome."""
        row, share = self._outcome(y)
        return np.asarray((1.0 - share) * numbers[row, column] + share * numbers[row + 1, column])

    def score(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the interpolated table."""
        eta, y = np.broadcast_arrays(eta, y)
        cell, part = self._place(eta, y)
        return (1.0 - part) * self._mixed(self._nodes, y, cell) + part * self._mixed(self._nodes, y, cell + 1)

    def exact_score(self, numbers: MPContext, eta: mpf, y: float) -> mpf:
        """Return the interpolated table; the outcome's share is the float that `score` uses."""
        rows, shares = self._outcome(np.array([y]))
        row, share = int(rows[0]), numbers.mpf(float(shares[0]))
        last = len(self.table[0]) - 1
        place = min(max((eta - self.tilt * y - self.start) / self.step, numbers.mpf(0)), numbers.mpf(last))
        cell = min(int(numbers.floor(place)), last - 1)
        low, high = (
            (1 - share) * self.table[row][column] + share * self.table[row + 1][column] for column in (cell, cell + 1)
        )
        part = place - cell
        return (1 - part) * low + part * high

    def curvature(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the slope of the cell, 0 beyond the grid."""
        eta, y = np.broadcast_arrays(eta, y)
        cell, _ = self._place(eta, y)
        slope = (self._mixed(self._nodes, y, cell + 1) - self._mixed(self._nodes, y, cell)) / self.step
        place = eta - self.tilt * y
        inside = (place >= self.start) & (place <= self.start + self._reach)
        return np.asarray(np.where(inside, slope, 0.0))

    def value(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the integral of the score from the first place on."""
        eta, y = np.broadcast_arrays(eta, y)
        cell, part = self._place(eta, y)
        low, high = self._mixed(self._nodes, y, cell), self._mixed(self._nodes, y, cell + 1)
        inside = self._mixed(self._integrals, y, cell) + self.step * part * (low + 0.5 * part * (high - low))
        place = eta - self.tilt * y
        beyond = place - np.clip(place, self.start, self.start + self._reach)
        return np.asarray(inside + beyond * np.where(beyond > 0.0, high, low))

    def typical(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return averages over outcomes spread evenly over the range."""
        grid, wide = np.linspace(self.lower, self.upper, len(self.table)), eta[:, None]
        return self.curvature(wide, grid).mean(axis=1), (self.score(wide, grid) ** 2).mean(axis=1)


def _check(table: Table, *, start: float, step: float, tilt: float) -> None:
    """Refuse a table that is not a finite one with two rows and two columns at least."""
    widths = {len(row) for row in table}
    if len(table) < 2 or len(widths) != 1 or min(widths) < 2 or len(table) * min(widths) > MOST_NODES:
        raise MechanismError(f"a table of scores needs 2 rows and 2 columns or more, {MOST_NODES} numbers at most")
    if not (abs(start) <= LARGEST and 1e-9 <= step <= LARGEST and tilt in (0.0, 1.0)):
        raise MechanismError(
            "the grid of a table of scores must start within 1e9 of 0, have a step in [1e-9, 1e9] and a tilt of 0 or 1"
        )
    if not all(abs(value) <= LARGEST for row in table for value in row):
        raise MechanismError("a table of scores must hold finite numbers of at most 1e9 in size")
