r"""What a link of a discrete-time hazard must know: the likelihood's terms of one interval, and capped losses.

With ``p = link^-1(eta)`` an interval that is survived adds ``-log(1 - p)`` to minus the log-likelihood, an interval
with the event ``-log p``.

The derivative of ``-log(1 - p)`` has no small bound once 200 intervals are added. The capped losses saturate: with a
cap ``h > 0``

.. math::
    \text{survived:}\; \ell' = c(\eta) = h\,\frac{u}{\sqrt{1 + u^2}}, \qquad
    \text{event:}\; \ell' = -e(\eta) = -\frac{c(\eta)}{o(\eta)}, \qquad o = \frac{p}{1 - p},

where ``u = g(eta) / h`` and ``g`` is the link's scale, such as the odds ``o`` or the cumulative hazard.

*Bounded*: ``0 <= c <= h`` and ``0 <= e <= 1``. *Convex*: ``c`` increases and ``e`` decreases in ``eta``.
*Fisher-consistent, whatever the cap*: an interval ends with an event with probability ``p``, and
``(1 - p) c - p e = 0``. The cap costs efficiency where hazards come near it, never consistency: unlike a likelihood
whose survival term alone is cut off, it has no bias beyond the cap.

Each link is a class of `hdpstats.losses.hazard_links`, with its constants and their proofs. They use
``z = 2 / (3 sqrt 3) < 0.385``, the maximum of ``x (1 - x^2)`` on [0, 1].

References
----------
Nguyen and Hui (2017), Differentially private regression for discrete-time survival analysis, section 3.
Tutz and Schmid (2016), *Modeling Discrete Time-to-Event Data*, chapter 3.
"""

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.typing import FloatArray

STEEPEST = Fraction(385, 1000)
"""Above ``2 / (3 sqrt 3)``, the maximum of ``x (1 - x^2)`` on [0, 1]."""

FARTHEST = 700.0
"""Size to which logarithms are clipped, so that no exponential overflows; beyond, the losses are saturated."""

LARGEST_EXPONENT = 600.0
"""Log hazards of the likelihood are cut here: sums and products of 10^40 numbers of e^600 do not overflow."""


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
        Whether the capped losses have values in closed form, `capped_values`.
    ulps : float
        Bound on the error of computed scores (relative to ``h`` and 1), in units of 2^-53, for exact arguments.
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
    ulps: ClassVar[float]
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
        """Return ``c = h u / sqrt(1 + u^2)`` and ``e = 1 / sqrt(1 + u^2)`` elementwise, where the scale is the odds."""
        return saturate(self.log_scale(self.near(eta)) - log_cap, log_cap)

    def cells(self, eta: FloatArray, log_cap: FloatArray) -> CappedTerms:
        """Return scores and curvatures elementwise."""
        near = self.near(eta)
        (c, e), slope = saturate(self.log_scale(near) - log_cap, log_cap), self.elasticity(near)
        return CappedTerms(
            survived=c,
            event=e,
            survived_curvature=np.asarray(c * e * e * slope),
            event_curvature=np.asarray(e * (1.0 - e * e) * slope),
        )

    def capped_values(self, eta: FloatArray, log_cap: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the capped losses of surviving and of the event, where they are `valued`."""
        raise NotImplementedError(f"the capped losses of the {self.name} link have no values in closed form")

    @abstractmethod
    def exact_scores(self, numbers: MPContext, eta: mpf, log_cap: mpf) -> tuple[mpf, mpf]:
        """Return ``c`` and ``e`` in the numbers of a context."""

    @property
    def steepness(self) -> float:
        """How steeply scores (over ``h``, or 1) can change with the predictors of hazard and cap together."""
        return max(float(self.survived_smoothness), float(self.event_smoothness)) + 1.0

    def caps(self, eta: FloatArray, margin: float) -> FloatArray:
        """Return ``log h = d + log g(eta)``, kept in the range for which constants and floats are proved."""
        lowest = np.log(self.smallest_cap) if self.smallest_cap > 0.0 else -FARTHEST
        return np.clip(self.log_scale(eta) + margin, lowest, FARTHEST)


def saturate(log_ratio: FloatArray, log_cap: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ``h u / sqrt(1 + u^2)`` and ``1 / sqrt(1 + u^2)`` from ``log u`` and ``log h``."""
    u = np.exp(np.clip(log_ratio, -FARTHEST / 4.0, FARTHEST / 4.0))
    s = 1.0 / np.sqrt(1.0 + u * u)
    return np.exp(log_cap) * (u * s), s
