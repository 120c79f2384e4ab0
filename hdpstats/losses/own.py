r"""Somebody's own loss, as a table of its scores: a site receives numbers, never code.

The functions that a user gives (`Loss`) are checked against what is declared of them and called on a public grid by the
asker, before anything is charged: ``N`` equally spaced places from ``start`` on, ``step`` apart, and ``K`` equally
spaced outcomes over the declared range. A place is a predictor, or, with a tilt of 1, a predictor less the outcome: a
loss of residuals is the same in all rows then. The site's loss is the bilinear interpolation of that table in place and
outcome, constant beyond the grid (the loss goes on linearly there).

Constants, all of them computed from the table by the site itself, in exact arithmetic:

* a row that nowhere falls interpolates to a score that nowhere falls, and so do mixtures of two rows: the loss is
  convex, with a Lipschitz score; a table with a falling row is refused;
* interpolated numbers lie between the nodes: ``|l'| <= max |node|``;
* slopes are mixtures of the slopes between nodes: ``l'' <= max (node' - node) / step``, and 0 beyond the grid, where
  ``|eta|`` exceeds the largest place and, with a tilt, the largest outcome.

So nobody needs to trust what the table was said to be: a wrong declaration changes what is estimated, never what is
guaranteed.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.errors import ArgumentError, MechanismError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.validation import choice, real, text
from hdpstats.losses.base import LossNumbers, LossOption, OutcomeFacts, PredictorLoss, Table, exponential
from hdpstats.losses.logistic import LogisticLoss

PLACES, OUTCOMES = 257, 33
"""``N`` nodes of the grid of predictors or residuals, and ``K`` of outcomes; 2 for a binary one."""

MOST_NODES, LARGEST = 100_000, 1e9

SMALLEST = 1e-30
"""What the largest score and the largest slope of a loss must be at least."""


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
    classical = regression = "M-estimation"
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
        if min(self.lipschitz, self.smoothness) < SMALLEST:
            raise MechanismError(
                f"the largest score of a table, and its largest slope, must be {SMALLEST:g} or more: rescale the loss"
            )

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

    functions = 24.0

    @cached_property
    def raked(self) -> bool:  # type: ignore[override]
        """Whether scores depend on residuals alone, whatever the outcome: raked rows keep theirs then."""
        apart = np.max(np.abs(self._nodes - self._nodes[0]))
        return bool(self.tilt == 1.0 and apart <= SLACK * float(self.lipschitz))

    @property
    def of_residuals(self) -> bool:  # type: ignore[override]
        """Where raked rows are used at all."""
        return self.raked

    @property
    def scaled_curvature(self) -> float:  # type: ignore[override]
        """``sup l''`` times the largest place of the grid and, with a tilt, outcome."""
        place = max(abs(self.start), abs(self.start + self._reach))
        return float(self.smoothness) * (place + self.tilt * max(abs(self.lower), abs(self.upper))) * (1.0 + 2.0**-40)

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
        low, high = ((1 - share) * self.table[row][k] + share * self.table[row + 1][k] for k in (cell, cell + 1))
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

    def over(self, eta: FloatArray, *, own: FloatArray, y: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Return those of the rows as they were, which keep their residuals; only where these are all that counts."""
        return self.typical(eta) if y is None or not self.raked else self.over_residuals(eta, own=own, y=y)

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


Function = Callable[[Any, Any], Any]


class OwnLink(NamedTuple):
    """What ``eta`` says about the outcome, and what tables call the exponential of a coefficient."""

    mean: Callable[[FloatArray], FloatArray]
    exponentiated: str


OWN_LINKS = {
    "identity": OwnLink(mean=PredictorLoss.mean, exponentiated="exponential"),
    "log": OwnLink(mean=exponential, exponentiated="ratio of means"),
    "logit": OwnLink(mean=LogisticLoss.mean, exponentiated="odds ratio"),
}
"""The links that somebody's own loss may have."""

FINER = 4
"""How much finer the grid of the checks is than that of the table."""
SLACK = 1e-6
"""By how much, relatively, rounding may exceed declared bounds."""
BLURRED = 0.05
"""Interpolation may miss the score by this share of the declared bound."""
MOST_ROWS = 200
"""Public outcomes that are checked, beside those of the grid."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Loss(LossOption):
    """Your own loss ``l(eta, y)`` of a linear predictor and an outcome, convex in ``eta``.

    Parameters
    ----------
    value, score
        ``l`` and its derivative in ``eta``: functions of two arrays of one shape that return a third.
    curvature
        The second derivative, where you want it checked too.
    lipschitz, smoothness
        Your bounds on ``|score|`` and on its slope, from 1e-30 to 1e9.
    predictor, residual
        One of the two: the range of ``eta``, or of ``eta - y`` (best where the loss is one of residuals), on which the
        score is tabulated; beyond it the loss goes on linearly. Public, and wide enough for the truth.
    link
        What ``eta`` says about the outcome, for `predict`: ``"identity"``, ``"log"`` or ``"logit"``.
    name
        What messages and tables call it.

    Notes
    -----
    Checked before anything is spent, on a grid of predictors and declared outcomes and at the outcomes of public rows:
    that numbers are finite, that the score never falls (convexity), is the derivative of the value and keeps its
    bounds. The guarantee of a release does not rest on these checks.

    Examples
    --------
    >>> smooth = Loss(
    ...     value=lambda eta, y: np.logaddexp(eta - y, y - eta), score=lambda eta, y: np.tanh(eta - y),
    ...     lipschitz=1.0, smoothness=1.0, residual=(-10.0, 10.0), name="log-cosh",
    ... )
    >>> smooth.tabulate(lower=0.0, upper=10.0, outcomes=np.array([3.3])).name
    'own'
    """

    loss = "own"
    title = "Loss"
    value: Function
    score: Function
    lipschitz: float
    smoothness: float
    predictor: tuple[float, float] | None = None
    residual: tuple[float, float] | None = None
    curvature: Function | None = None
    link: str = "identity"
    name: str = "own"

    def __post_init__(self) -> None:
        """Check the declaration itself."""
        functions = {"value": self.value, "score": self.score, "curvature": self.curvature}
        for name, function in functions.items():
            if not callable(function) and not (name == "curvature" and function is None):
                raise ArgumentError(f"{name} must be a function of eta and y, not {function!r}", argument=name)
        real(self.lipschitz, name="lipschitz", lower=SMALLEST, upper=LARGEST)
        real(self.smoothness, name="smoothness", lower=SMALLEST, upper=LARGEST)
        choice(self.link, name="link", options=OWN_LINKS)
        text(self.name, name="name", longest=100)
        if (self.predictor is None) == (self.residual is None):
            raise ArgumentError(
                "give predictor=(low, high) or residual=(low, high), one of the two", argument="predictor"
            )
        self._range()

    def _range(self) -> tuple[float, float]:
        """Return the range of the table's places."""
        name, given = ("residual", self.residual) if self.predictor is None else ("predictor", self.predictor)
        try:
            low, high = (real(each, name=name, lower=-LARGEST, upper=LARGEST) for each in given or ())
        except (TypeError, ValueError):
            low, high = 0.0, 0.0
        if not low < high:
            raise ArgumentError(f"{name} must be a range (lower, upper), not {given!r}", argument=name)
        return low, high

    def numbers(self, facts: OutcomeFacts) -> LossNumbers:
        """Return the table that stands for the functions, after checking them (`tabulate`)."""
        table = self.tabulate(lower=facts.lower, upper=facts.upper, outcomes=facts.seen, binary=facts.binary)
        return LossNumbers(
            parameters=(table.start, table.step, table.tilt),
            table=table.table,
            words=f"own loss {self.name!r}, tabulated",
            label=f"own ({self.link} link)",
            exponentiated=OWN_LINKS[self.link].exponentiated,
        )

    def tabulate(self, *, lower: float, upper: float, outcomes: FloatArray, binary: bool = False) -> Tabulated:
        """Check the functions and return the table that stands for them.

        Parameters
        ----------
        lower, upper
            The outcome's declared range.
        outcomes
            Outcomes of public rows (any number), to be checked as well.
        binary
            Whether the outcome takes the two bounds only.

        Raises
        ------
        ArgumentError
            Which function does not do what is declared, where, and what would help.
        """
        (start, stop), tilt = self._range(), float(self.predictor is None)
        nodes = np.linspace(lower, upper, 2 if binary else OUTCOMES)
        some = np.unique(outcomes)[:: max(1, len(np.unique(outcomes)) // MOST_ROWS)]
        seen = np.concatenate([nodes, some])
        fine = np.linspace(start, stop, FINER * (PLACES - 1) + 1)[:, None] + tilt * seen[None, :]
        scores = self._called("score", self.score, fine, seen)
        self._check_scores(scores, fine, seen)
        self._check_values(scores, fine, seen)
        self._check_curvature(scores, fine, seen)
        table = np.maximum.accumulate(scores[::FINER, : len(nodes)], axis=0).T
        rows = tuple(map(tuple, table.tolist()))
        made = Tabulated.made((start, (stop - start) / (PLACES - 1), tilt), rows, lower=lower, upper=upper)
        self._check_blur(made, scores, fine, seen)
        return made

    def _called(self, name: str, function: Function, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return a function's numbers at predictors (E, Y) and outcomes (Y,), or say by name what is wrong."""
        wide = [np.ascontiguousarray(each).ravel() for each in np.broadcast_arrays(eta, y[None, :])]
        try:
            with np.errstate(all="ignore"):
                numbers = np.asarray(function(*(each.copy() for each in wide)), dtype=np.float64)
        except Exception as error:
            raise self._wrong(name, f"raised {type(error).__name__}: {error}") from error
        if numbers.shape != wide[0].shape:
            raise self._wrong(name, f"returned an array of shape {numbers.shape} for two of shape {wide[0].shape}")
        strange = ~(np.abs(numbers) <= LARGEST)
        if strange.any():
            place = int(np.flatnonzero(strange)[0])
            raise self._wrong(name, f"is {numbers[place]} at eta = {wide[0][place]:.6g}, y = {wide[1][place]:.6g}")
        return numbers.reshape(eta.shape)

    def _check_scores(self, scores: FloatArray, eta: FloatArray, y: FloatArray) -> None:
        steps, width = np.diff(scores, axis=0), float(eta[1, 0] - eta[0, 0])
        margin = SLACK * self.lipschitz
        self._check_none(steps < -margin, "score", "falls: the loss is not convex in eta", eta, y)
        beyond = np.abs(scores) > self.lipschitz + margin
        self._check_none(beyond, "score", f"is larger than lipschitz = {self.lipschitz:g}", eta, y)
        steep = steps > self.smoothness * width * (1.0 + SLACK) + margin
        self._check_none(steep, "score", f"rises faster than smoothness = {self.smoothness:g}", eta, y)

    def _check_values(self, scores: FloatArray, eta: FloatArray, y: FloatArray) -> None:
        """Check that values rise between neighbours by no less than the first slope and no more than the last."""
        values, width = self._called("value", self.value, eta, y), float(eta[1, 0] - eta[0, 0])
        rises = np.diff(values, axis=0)
        margin = SLACK * self.lipschitz * width + 1e-12 * np.maximum(np.abs(values[1:]), np.abs(values[:-1]))
        off = (rises < scores[:-1] * width - margin) | (rises > scores[1:] * width + margin)
        self._check_none(off, "score", "is not the derivative of value", eta, y)

    def _check_curvature(self, scores: FloatArray, eta: FloatArray, y: FloatArray) -> None:
        """Between neighbours the score rises by about the curvature in the middle; kinks may be in a few cells."""
        if self.curvature is None:
            return
        width = float(eta[1, 0] - eta[0, 0])
        curvature = self._called("curvature", self.curvature, 0.5 * (eta[1:] + eta[:-1]), y)
        outside = (curvature < -SLACK * self.smoothness) | (curvature > self.smoothness * (1.0 + SLACK))
        self._check_none(outside, "curvature", f"is not within 0 and smoothness = {self.smoothness:g}", eta, y)
        off = np.abs(curvature * width - np.diff(scores, axis=0)) > 0.05 * self.smoothness * width
        if off.mean() > 0.05:
            self._check_none(off, "curvature", "is not the derivative of score", eta, y)

    def _check_blur(self, table: Tabulated, scores: FloatArray, eta: FloatArray, y: FloatArray) -> None:
        missed = np.abs(table.score(eta, y[None, :]) - scores) > BLURRED * self.lipschitz
        what = (
            f"changes too fast for a table of {PLACES} places and {len(table.table)} outcomes; give residual= where it "
            "is a loss of residuals, a narrower range, or a smoother loss: it"
        )
        self._check_none(missed, "score", f"{what} is missed", eta, y)

    def _check_none(self, wrong: Any, name: str, what: str, eta: FloatArray, y: FloatArray) -> None:
        """Refuse, with the first place (row, column) of predictors and outcomes where something is wrong."""
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            raise self._wrong(name, f"{what} at eta = {eta[i, j]:.6g}, y = {y[j]:.6g}")

    def _wrong(self, function: str, what: str) -> ArgumentError:
        return ArgumentError(
            f"the {function} of the loss {self.name!r} {what}; correct the function, or what is declared of it",
            argument=function,
            loss=self.name,
        )
