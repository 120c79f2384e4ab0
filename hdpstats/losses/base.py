"""What a loss of a linear predictor, and a link of hazards, must know about itself, and how users name a loss.

A user names a `LossOption` (`hdp.losses.Huber`), in the outcome's own unit. A query and a solver use a `PredictorLoss`
(`hdpstats.losses.located.HuberLoss`), with all its numbers, on the scale of the linear predictor.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self, final

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
    scaled_curvature : float
        ``sup |eta| l''``: a relative error of ``eta`` changes the score by no more than so many times it. It is finite
        as losses are linear beyond some predictor or saturate.
    outcomes : tuple of str
        The kinds of column that ``y`` may be declared as: the constants hold for their values and for no others.
        Empty where the outcome is ``Surv(time, event)``.
    located : bool
        Whether ``y`` and ``eta`` are on one scale: then both are shifted and scaled to a range of length 1.
    of_residuals : bool
        Whether what public rows tell of `over` depends on their residuals alone, which raked rows keep.
    coupled : bool
        Whether ``l'' <= |l'| (1 - |l'|)`` and the sign of ``l'`` is fixed by ``y``: what
        `hdpstats.privacy.sensitivity` needs.
    robust : bool
        Whether standard errors take ``l''`` and ``l'^2`` from outcomes of public rows, not from a model.
    modelled : bool
        Whether `typical` is what a model says, or a bound on the safe side, so that standard errors may rest on it.
    bounds_variance : bool
        Whether the variance of an outcome in `typical` and ``meat`` is no model's, but the largest in its range.
    link : str
        The link as R calls it: what makes a linear predictor of the outcome's mean.
    counts : str
        Which distribution of the whole numbers from 0 the loss is minus the log-likelihood of, in words; empty where it
        is none of counts. Then ``|l'''| <= l''``, the loss of a count of 0 rises with ``eta``, that of another count is
        least at a finite one, and the outcomes of a `ListedLoss` are counts.
    by_residuals : bool
        Whether the outcomes that a public person might have are told by the public people's residuals. Of a
        `ListedLoss` they are listed, of any other loss not told at all.
    in_one_loop : bool
        Whether scores of rows are summed by a loop of their own, the logistic one.
    raked : bool
        Whether intervals over public rows that are raked to a description cover, as was measured (`over`).
    meat : float or None
        A bound on ``E l'^2 / E l''`` where the model holds; None where there is none.
    functions : float
        For how many exponentials a value, a score or a curvature takes the time at most.
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
    scaled_curvature: float
    located: bool = False
    of_residuals: bool = False
    coupled: bool = False
    robust: bool = True
    modelled: bool = False
    bounds_variance: bool = False
    link: str = "identity"
    counts: str = ""
    by_residuals: bool = False
    in_one_loop: bool = False
    raked: bool = False
    meat: float | None = None
    functions: float = 4.0
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
        return cls(
            **{each.name: given[each.name] for each in fields(cls) if each.init and each.name in given}
            if is_dataclass(cls)
            else {}
        )

    @staticmethod
    def mean(eta: FloatArray) -> FloatArray:
        """Return what linear predictors say about the outcome: the inverse link. The predictor itself by default."""
        return np.asarray(eta, dtype=np.float64)

    def broadened(self, residuals: FloatArray) -> "PredictorLoss | None":  # noqa: ARG002
        """Return the loss whose curvature public rows with such residuals determine; None where it is this one."""
        return None

    def with_width(self, width: float | None) -> "PredictorLoss":  # noqa: ARG002
        """Return the loss whose curvature is that of a window of another half-width: itself where it has no window."""
        return self

    def kept(self, eta: FloatArray) -> FloatArray:
        """Return the share of the likelihood's information at predictors that saturation leaves: 1 where none does."""
        return np.ones_like(eta)

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

    def over_residuals(self, eta: FloatArray, *, own: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `over` of a loss of residuals alone: those of the rows as they were, which keep theirs."""
        ones = np.ones_like(eta)
        return ones * self.curvature(own, y), ones * self.score(own, y) ** 2

    @abstractmethod
    def typical(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return expectations of ``l''`` and ``l'^2`` over outcomes at linear predictors, see `modelled`.

        Where no model says them they are those of outcomes spread evenly over their range: good for planning only.
        """


class ListedLoss(PredictorLoss, ABC):
    """The loss of a likelihood of few outcomes, which can be listed."""

    @property
    @abstractmethod
    def listed(self) -> FloatArray:
        """All outcomes (K,) that a person might have."""

    @abstractmethod
    def chances(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the probabilities (b, K) of the `listed` outcomes at predictors (b, 1), and slopes of logarithms."""


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


FARTHEST = 700.0
"""Size to which logarithms are clipped, so that no exponential overflows; beyond, the losses are saturated."""


class LikelihoodTerms(NamedTuple):
    """A term of minus the log-likelihood with its first and second derivative in the linear predictor, of one shape."""

    value: FloatArray
    score: FloatArray
    curvature: FloatArray

    def mirrored(self) -> "LikelihoodTerms":
        """Return the terms of ``f(-eta)`` from those of ``f`` at ``-eta``."""
        return LikelihoodTerms(self.value, -self.score, self.curvature)


class CappedTerms(NamedTuple):
    """Derivatives of the capped losses, elementwise: scores ``c``, ``e`` and curvatures ``c'``, ``-e'``, all >= 0."""

    survived: FloatArray
    event: FloatArray
    survived_curvature: FloatArray
    event_curvature: FloatArray


class HazardLink(ABC):
    """A link with the likelihood's losses and the capped ones.

    Attributes
    ----------
    name : str
        What users and queries call it.
    exponentiated, scale : str
        What tables call the exponential of a coefficient, and the coefficients.
    hazard_ratios : str
        How its coefficients are related to the log hazard ratios of continuous time.
    linear_event : bool
        Whether an event adds the term of a survived interval minus ``eta``.
    survived_smoothness, event_smoothness : Fraction
        ``sup c' / h`` and ``sup -e'``.
    coupled : bool
        Whether ``c' = c (1 - (c/h)^2)`` and ``-e' = e (1 - e^2)``.
    valued : bool
        Whether the capped losses have values in closed form: those of a `ValuedLink`.
    functions : float
        For how many exponentials a score, a curvature and a cap take the time at most, together.
    ulps, event_ulps : float
        Bounds on the errors of computed scores, survived (relative to ``h``, given the computed cap) and of events
        (relative to 1), in units of 2^-53, where ``u`` and ``h`` are computed as `hdpstats.losses.hazard_links` says,
        or predictors are rounded to doubles.
    smallest_cap : float
        Caps below it are raised to it.
    multiplicative : bool
        Whether the scale is ``e^eta`` and caps are not raised, so that hazards over caps are products of factors.
    cumulative : bool
        Whether a survived interval adds ``e^eta``, so that sums of the likelihood over intervals are in closed form.
        Where a scale is multiplicative and not this, it is the odds.
    analytic : float
        The term of a survived interval has no singularity within this distance from the real line.
    """

    name: ClassVar[str]
    exponentiated: ClassVar[str] = "exponential"
    scale: ClassVar[str]
    hazard_ratios: ClassVar[str]
    linear_event: ClassVar[bool] = False
    survived_smoothness: ClassVar[Fraction]
    event_smoothness: ClassVar[Fraction]
    coupled: ClassVar[bool] = False
    valued: ClassVar[bool] = False
    functions: ClassVar[float]
    ulps: ClassVar[float]
    event_ulps: ClassVar[float]
    smallest_cap: ClassVar[float] = 0.0
    multiplicative: ClassVar[bool] = False
    cumulative: ClassVar[bool] = False
    analytic: ClassVar[float]

    @abstractmethod
    def survive(self, eta: FloatArray) -> LikelihoodTerms:
        """Return ``-log(1 - p)`` and its derivatives, without overflow for any finite ``eta``; 0 at ``eta = -1e9``."""

    @abstractmethod
    def event(self, eta: FloatArray) -> LikelihoodTerms:
        """Return ``-log p`` and its derivatives, without overflow for any finite ``eta``."""

    @abstractmethod
    def self_concordance(self, eta: FloatArray) -> float:
        """Return a bound on ``|l'''| / l''`` of both terms within 1 of the linear predictors."""

    def inverse(self, eta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return hazards ``p``, ``1 - p`` without cancellation and the slope ``dp/deta``, elementwise."""
        survived = self.survive(eta)
        rest = np.exp(-survived.value)
        return -np.expm1(-survived.value), rest, survived.score * rest

    def log_scale(self, eta: FloatArray) -> FloatArray:
        """Return ``log g(eta)`` elementwise, of a slope of 1 or more: ``eta``, where no link says otherwise."""
        return eta

    def at_scale(self, scale: float) -> float:
        """Return the linear predictor at which ``g`` is a number above 0: the inverse of `log_scale`."""
        return math.log(scale)

    @abstractmethod
    def hazard(self, eta: FloatArray) -> FloatArray:
        """Return the probability ``p`` of an event elementwise."""

    @abstractmethod
    def predictor(self, hazard: FloatArray) -> FloatArray:
        """Return the linear predictor of hazards strictly between 0 and 1, the inverse of `hazard`."""

    def near(self, eta: FloatArray) -> FloatArray:
        """Return the predictors at which capped losses are computed, elementwise."""
        return eta

    def elasticity(self, eta: FloatArray) -> FloatArray | float:  # noqa: ARG002
        """Return ``o' / o``: the slope of the log odds."""
        return 1.0

    def scores(self, eta: FloatArray, log_cap: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``c = h u / sqrt(1 + u^2)`` and ``e = c / o`` elementwise."""
        return self.saturated(bounded_exp(self.log_scale(self.near(eta)) - log_cap), np.exp(log_cap))

    def saturated(self, u: FloatArray, h: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``c`` and ``e = 1 / sqrt(1 + u^2)`` from ratios and caps, where the scale is the odds."""
        s = 1.0 / np.sqrt(1.0 + u * u)
        return h * (u * s), s

    def cells(self, eta: FloatArray, log_cap: FloatArray) -> CappedTerms:
        """Return scores and curvatures elementwise."""
        (c, e), slope = self.scores(eta, log_cap), self.elasticity(self.near(eta))
        return CappedTerms(
            survived=c,
            event=e,
            survived_curvature=np.asarray(c * e * e * slope),
            event_curvature=np.asarray(e * (1.0 - e * e) * slope),
        )

    @abstractmethod
    def exact_scores(self, numbers: MPContext, eta: mpf, log_cap: mpf) -> tuple[mpf, mpf]:
        """Return ``c`` and ``e`` in the numbers of a context."""

    def caps(self, eta: FloatArray, margin: float) -> FloatArray:
        """Return ``log h = d + log g(eta)``, kept in the range for which constants and floats are proved."""
        lowest = np.log(self.smallest_cap) if self.smallest_cap > 0.0 else -FARTHEST
        return np.clip(self.log_scale(eta) + margin, lowest, FARTHEST)


def bounded_exp(log_ratio: FloatArray) -> FloatArray:
    """Return ``e^x``, ``x`` cut to a quarter of `FARTHEST` in size: squares do not overflow."""
    return np.asarray(np.exp(np.clip(log_ratio, -FARTHEST / 4.0, FARTHEST / 4.0)))


class ValuedLink(HazardLink, ABC):
    """A link whose capped losses have values in closed form."""

    valued = True

    @abstractmethod
    def capped_values(self, eta: FloatArray, log_cap: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the capped losses of surviving and of the event."""
