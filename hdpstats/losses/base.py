"""What a loss of a linear predictor must know about itself, and how users name one.

A user names a `LossOption` (`hdp.losses.Huber`), in the outcome's own unit. A query and a solver use a `PredictorLoss`
(`hdpstats.losses.located.HuberLoss`), with all its numbers, on the scale of the linear predictor.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import ClassVar, Self, final

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.typing import FloatArray

Table = tuple[tuple[float, ...], ...]
"""Rows of numbers that stand for somebody's own score: see `hdpstats.losses.own`."""


class PredictorLoss(ABC):
    """A convex loss function ``l(eta; y)`` of the linear predictor ``eta = x'theta + offset``.

    The derivative ``l'`` is continuous and piecewise smooth; `curvature` is the second one where there is one.

    Attributes
    ----------
    name : str
        The word a query uses.
    exponentiated : str
        What tables call the exponential of a coefficient.
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
        `hdpstats.privacy.sensitivity` needs.
    robust : bool
        Whether standard errors take ``l''`` and ``l'^2`` from outcomes of public rows, not from a model.
    modelled : bool
        Whether `typical` is what a model says, or a bound on the safe side, so that standard errors may rest on it.
    link : str
        The link as R calls it: what makes a linear predictor of the outcome's mean.
    counts : str
        Which distribution of the whole numbers from 0 the loss is minus the log-likelihood of, in words; empty where it
        is none of counts. Then ``|l'''| <= l''``, the loss of a count of 0 rises with ``eta``, that of another count is
        least at a finite one, and `listed` and `chances` are those of counts.
    raked : bool
        Whether intervals over public rows that are raked to a description cover, as was measured (`over`).
    meat : float or None
        A bound on ``E l'^2 / E l''`` where the model holds; None where there is none.
    ulps : float
        `score` errs by at most ``ulps * 2^-53 * lipschitz`` for exact ``eta``.
    magnitude : float
        `value` errs by at most ``64 * 2^-53 (lipschitz |eta| + magnitude)``.
    at_zero : float
        A bound on how far ``l(0; y)`` is above the infimum of ``l(.; y)``; infinite where there is none.
    parameters : tuple of str
        The fields that a query's parameters are, in its order.
    classical : str
        What its fit to public rows is called.
    regression : str
        What a regression by it is called in a sentence.
    source : str
        What a methods section cites for it; empty where textbooks do.
    """

    name: str
    exponentiated: str = "exponential"
    outcomes: tuple[str, ...]
    lipschitz: Fraction
    smoothness: Fraction
    located: bool = False
    coupled: bool = False
    robust: bool = True
    modelled: bool = False
    link: str = "identity"
    counts: str = ""
    raked: bool = False
    meat: float | None = None
    ulps: float = 8.0
    magnitude: float = 2.0
    at_zero: float
    parameters: ClassVar[tuple[str, ...]] = ()
    classical: ClassVar[str] = "maximum likelihood"
    regression: ClassVar[str]
    source: ClassVar[str] = ""

    @classmethod
    def made(cls, parameters: tuple[float, ...], table: Table, *, lower: float, upper: float) -> Self:
        """Return the loss of a query, for outcomes within [lower, upper]; ArgumentError where its numbers are none."""
        given = {"lower": lower, "upper": upper, "table": table} | dict(zip(cls.parameters, parameters, strict=True))
        return cls(**{each.name: given[each.name] for each in fields(cls) if each.init} if is_dataclass(cls) else {})

    @staticmethod
    def mean(eta: FloatArray) -> FloatArray:
        """Return what linear predictors say about the outcome: the inverse link. The predictor itself by default."""
        return np.asarray(eta, dtype=np.float64)

    def broadened(self, residuals: FloatArray) -> "PredictorLoss | None":  # noqa: ARG002
        """Return the loss whose curvature public rows with such residuals determine; None where it is this one."""
        return None

    @property
    def listed(self) -> FloatArray:
        """All outcomes (K,) that a person might have; for likelihoods of few outcomes."""
        raise NotImplementedError(f"the outcomes of the {self.name} loss are not listed")

    def chances(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the probabilities (b, K) of the `listed` outcomes at predictors (b, 1), and slopes of logarithms."""
        raise NotImplementedError(f"the outcomes of the {self.name} loss are not listed")

    @property
    def plain(self) -> "PredictorLoss":
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

    def over(self, eta: FloatArray, *, own: FloatArray, y: FloatArray | None) -> tuple[FloatArray, FloatArray]:  # noqa: ARG002
        """Return ``l''`` and ``l'^2`` of rows that were moved, at their predictors (B, n).

        ``own`` (n,) are the predictors of the rows as they were, ``y`` (n,) their outcomes, None where not public. By
        default what a model says, `typical`.
        """
        return self.typical(eta)

    @abstractmethod
    def typical(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return expectations of ``l''`` and ``l'^2`` over outcomes at linear predictors, see `modelled`.

        Where no model says them they are those of outcomes spread evenly over their range: good for planning only.
        """


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OutcomeFacts:
    """What is public about an outcome when the numbers of a loss are chosen.

    Attributes
    ----------
    lower, upper : float
        The outcome's declared range, on the scale of the linear predictor.
    scale, shift : float
        The outcome in its own unit is ``scale`` times that, plus ``shift``.
    binary : bool
        Whether the outcome takes its two bounds only.
    seen : (n,) float64
        Outcomes of public rows.
    residuals : (n,) float64 or None
        Residuals of public rows about their least-squares fit; None where there are too few rows.
    rows : int
        How many rows must be public and complete for residuals.
    records, coefficients : int
        How many private records there are, where that is public (else public rows), and coefficients.
    """

    lower: float
    upper: float
    scale: float = 1.0
    shift: float = 0.0
    binary: bool = False
    seen: FloatArray
    residuals: FloatArray | None
    rows: int
    records: int
    coefficients: int


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LossNumbers:
    """All numbers of a loss.

    Attributes
    ----------
    parameters, table
        What a query says of the loss, in the outcome's unit.
    words : str
        The loss, for the summary; empty where the model's name says it all.
    label : str
        The name that results keep, one of `hdpstats.losses.MEANS`; the loss's own where it is empty.
    exponentiated : str
        What tables call the exponential of a coefficient; what the loss says where it is empty.
    """

    parameters: tuple[float, ...] = ()
    table: Table = ()
    words: str = ""
    label: str = ""
    exponentiated: str = ""


class LossOption(ABC):
    """A loss as a user names it.

    Attributes
    ----------
    loss : str
        The word a query uses: a key of `hdpstats.losses.BY_NAME`, or "multinomial".
    title : str
        What users write, ``hdp.losses.<title>``.
    """

    __slots__ = ()
    loss: ClassVar[str]
    title: ClassVar[str]

    def numbers(self, facts: OutcomeFacts) -> LossNumbers:  # noqa: ARG002
        """Return all numbers of the loss, none by default; ArgumentError where one must be given or is out of range."""
        return LossNumbers()


def three_digits(number: float) -> float:
    """Return a number with three digits: what a summary shows is what a query says."""
    return float(f"{number:.3g}")


def exponential(eta: FloatArray) -> FloatArray:
    """Return ``e^eta``, infinite where that overflows, without a warning."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(eta), dtype=np.float64)
