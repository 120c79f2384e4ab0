"""A loss that a user brings: functions, checked against what is declared of them, turned into a table of scores.

The functions are called on a public grid, in this process, before anything is charged. They never see a private row,
and never reach a site: a site is asked with the table (`hdpstats.losses.tabulated`), which binds it by constants that
it computes itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice, real, text
from hdpstats.losses.base import LossNumbers, LossOption, OutcomeFacts, PredictorLoss, exponential
from hdpstats.losses.logistic import LogisticLoss
from hdpstats.losses.tabulated import LARGEST, OUTCOMES, PLACES, Tabulated

Function = Callable[[Any, Any], Any]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class OwnLink:
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
        Your bounds on ``|score|`` and on its slope.
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
    ...     value=lambda eta, y: np.logaddexp(eta - y, y - eta),
    ...     score=lambda eta, y: np.tanh(eta - y),
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
        real(self.lipschitz, name="lipschitz", lower=0.0, upper=LARGEST, open_lower=True)
        real(self.smoothness, name="smoothness", lower=0.0, upper=LARGEST, open_lower=True)
        choice(self.link, name="link", options=OWN_LINKS)
        text(self.name, name="name", longest=100)
        if (self.predictor is None) == (self.residual is None):
            message = "give predictor=(lower, upper) or residual=(lower, upper), one of the two"
            raise ArgumentError(message, argument="predictor")
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
        fine = np.linspace(start, stop, FINER * (PLACES - 1) + 1)
        some = np.unique(outcomes)[:: max(1, len(np.unique(outcomes)) // MOST_ROWS)]
        seen = np.concatenate([nodes, some])
        fine = fine[:, None] + tilt * seen[None, :]
        scores = self._called("score", self.score, fine, seen)
        self._check_scores(scores, fine, seen)
        self._check_values(scores, fine, seen)
        self._check_curvature(scores, fine, seen)
        table = np.maximum.accumulate(scores[::FINER, : len(nodes)], axis=0).T
        made = Tabulated.made(
            (start, (stop - start) / (PLACES - 1), tilt),
            tuple(tuple(row) for row in table.tolist()),
            lower=lower,
            upper=upper,
        )
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
        bent = self._called("curvature", self.curvature, 0.5 * (eta[1:] + eta[:-1]), y)
        outside = (bent < -SLACK * self.smoothness) | (bent > self.smoothness * (1.0 + SLACK))
        self._check_none(outside, "curvature", f"is not within 0 and smoothness = {self.smoothness:g}", eta, y)
        off = np.abs(bent * width - np.diff(scores, axis=0)) > 0.05 * self.smoothness * width
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
