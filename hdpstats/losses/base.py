"""What a loss of a linear predictor must know about itself."""

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Self

from mpmath import MPContext, mpf

from hdpstats._base.typing import FloatArray

Table = tuple[tuple[float, ...], ...]
"""Rows of numbers that stand for somebody's own score: see `hdpstats.losses.tabulated`."""


class Loss(ABC):
    """A convex loss function ``l(eta; y)`` of the linear predictor ``eta = x'theta + offset``.

    The derivative ``l'`` is continuous and piecewise smooth; `curvature` is the second one where there is one.

    Attributes
    ----------
    name : str
        The word a query uses.
    lipschitz : Fraction
        ``sup |l'|``: bounds one record's score by ``lipschitz * ||x||``.
    smoothness : Fraction
        ``sup l''``: bounds one record's Hessian by ``smoothness * x x'``.
    outcomes : tuple of str
        The kinds of column that ``y`` may be declared as: the constants hold for their values and for no others.
        Empty where the outcome is ``Surv(time, event)``.
    located : bool
        Whether ``y`` and ``eta`` are on one scale: then both are shifted and scaled to a range of length 1.
    coupled : bool
        Whether ``l'' <= |l'| (1 - |l'|)`` and the sign of ``l'`` is fixed by ``y``: what
        `hdpstats.privacy.coupled` needs.
    robust : bool
        Whether standard errors take ``l''`` and ``l'^2`` from outcomes of public rows, not from a model.
    modelled : bool
        Whether `typical` is what a model says, or a bound on the safe side, so that standard errors may rest on it.
    meat : float or None
        A bound on ``E l'^2 / E l''`` where the model holds; None where there is none.
    ulps : float
        `score` errs by at most ``ulps * 2^-53 * lipschitz`` for exact ``eta``.
    magnitude : float
        `value` errs by at most ``64 * 2^-53 (lipschitz |eta| + magnitude)``.
    at_zero : float
        A bound on how far ``l(0; y)`` is above the infimum of ``l(.; y)``; infinite where there is none.
    """

    name: str
    outcomes: tuple[str, ...]
    lipschitz: Fraction
    smoothness: Fraction
    located: bool = False
    coupled: bool = False
    robust: bool = True
    modelled: bool = False
    meat: float | None = None
    ulps: float = 8.0
    magnitude: float = 2.0
    at_zero: float

    @classmethod
    def made(cls, parameters: tuple[float, ...], table: Table, *, lower: float, upper: float) -> Self:  # noqa: ARG003
        """Return the loss of a query, for outcomes within [lower, upper]; ArgumentError where its numbers are none."""
        return cls()

    @property
    def plain(self) -> "Loss":
        """The loss without caps, for public rows, which need none; itself where there are none."""
        return self

    @abstractmethod
    def value(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``l(eta; y)`` elementwise."""

    @abstractmethod
    def score(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``dl/deta`` elementwise, within `ulps` of the truth, from its own element alone."""

    @abstractmethod
    def exact_score(self, numbers: MPContext, eta: mpf, y: float) -> mpf:
        """Return ``dl/deta`` in the numbers of a context of its own, with an error of a few units in its last place."""

    @abstractmethod
    def curvature(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``d2l/deta2`` elementwise."""

    @abstractmethod
    def typical(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return expectations of ``l''`` and ``l'^2`` over outcomes at linear predictors, see `modelled`.

        Where no model says them they are those of outcomes spread evenly over their range: good for planning only.
        """
