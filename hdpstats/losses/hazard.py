r"""Links of a discrete-time hazard, a class each, with the losses of one interval: the likelihood's, and capped ones.

With ``p = link^-1(eta)`` an interval that is survived adds ``-log(1 - p)`` to minus the log-likelihood, an interval
with the event ``-log p``.

The derivative of ``-log(1 - p)`` has no small bound once 200 intervals are added. The capped losses saturate: with a
cap ``h > 0``

.. math::
    \text{survived:}\; \ell' = c(\eta) = h\,\frac{u}{\sqrt{1 + u^2}}, \qquad
    \text{event:}\; \ell' = -e(\eta) = -\frac{c(\eta)}{o(\eta)}, \qquad o = \frac{p}{1 - p},

where ``u = g(eta) / h`` and ``g`` is the link's scale: the odds ``o`` for logit and probit, the cumulative hazard
``e^eta`` for cloglog.

*Bounded*: ``0 <= c <= h`` and ``0 <= e <= 1``. *Convex*: ``c`` increases and ``e`` decreases in ``eta``.
*Fisher-consistent, whatever the cap*: an interval ends with an event with probability ``p``, and
``(1 - p) c - p e = 0``. The cap costs efficiency where hazards come near it, never consistency: unlike a likelihood
whose survival term alone is cut off, it has no bias beyond the cap.

For the logit link ``u = e^eta / h``, ``e = 1 / sqrt(1 + u^2)``, and the losses are ``h asinh(u)`` and
``asinh(1 / u)``.

Constants (``z = 2 / (3 sqrt 3) < 0.385`` is the maximum of ``x (1 - x^2)`` on [0, 1]):

* *logit*: ``c' = c (1 - (c/h)^2) <= z h`` and ``-e' = e (1 - e^2) <= z``: score and curvature are coupled, which
  `hdpstats.privacy.hazard` uses.
* *cloglog*: ``c' <= z h`` as for logit. With ``m = e^eta``, ``e = psi(m) / sqrt(1 + u^2)`` and ``psi = m / (e^m - 1)``,
  ``-e' = e {m / (1 - e^-m) - 1} + e u^2 / (1 + u^2)``. The second part is at most ``z`` as ``psi <= 1``. The first is
  at most ``psi (m / (1 - e^-m) - 1)``. For ``m <= 2`` that is at most 1/2, because
  ``m / (1 - e^-m) - 1 <= m/2 + m^2/12`` and ``psi <= 1 / (1 + m/2 + m^2/6)``; in general it is
  ``{(m/2) / sinh(m/2)}^2 - psi``, at most .724 - .157 on [2, 3] and .497 beyond, both
  terms decreasing. So ``-e' <= 1``.
* *probit*: ``o'/o = f / (F (1 - F)) <= |eta| + 2 sqrt(2/pi)`` (Mills' ratio grows with a slope below 1), and
  ``F(-|eta|) <= exp(-eta^2 / 2) / 2`` gives ``|eta| <= sqrt(2 |log o|)``. As ``log o = log h + log u``, for caps in
  [1e-9, 1e9] both ``c'/h`` and ``-e'`` are at most ``z {sqrt(2 * 20.73) + 1.6} + .61 <= 4``, the last number bounding
  ``sqrt(2 |log u|) u / (1 + u^2)^1.5`` and ``sqrt(2 |log u|) u^2 / (1 + u^2)^1.5``.

References
----------
Nguyen and Hui (2017), Differentially private regression for discrete-time survival analysis, section 3.
Tutz and Schmid (2016), *Modeling Discrete Time-to-Event Data*, chapter 3.
"""

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar, NamedTuple, final

import numpy as np
from mpmath import MPContext, mpf
from scipy.special import erfcx, expit, log_ndtr, logit, ndtr, ndtri

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

    @abstractmethod
    def survive(self, eta: FloatArray) -> LikelihoodTerms:
        """Return ``-log(1 - p)`` and its derivatives, without overflow for any finite ``eta``; 0 at ``eta = -1e9``."""

    def event(self, eta: FloatArray) -> LikelihoodTerms:
        """Return ``-log p`` and its derivatives, without overflow for any finite ``eta``; here of a symmetric link."""
        return self.survive(-eta).mirrored()

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


@final
class LogitLink(HazardLink):
    """Logit link: ``p = 1 / (1 + e^-eta)``, scale ``e^eta``; coefficients are log odds ratios."""

    name = "logit"
    exponentiated = "odds ratio"
    scale = "log odds ratios"
    hazard_ratios = (
        "those of the logit link are log odds ratios, nearly the same where the hazards of intervals are small"
    )
    linear_event = True
    survived_smoothness = STEEPEST
    event_smoothness = STEEPEST
    coupled = True
    valued = True
    multiplicative = True
    ulps = 64.0

    def survive(self, eta: FloatArray) -> LikelihoodTerms:
        """Return ``log(1 + e^eta)``, ``p`` and ``p (1 - p)``."""
        smaller = np.exp(-np.abs(eta))
        p = np.where(eta >= 0.0, 1.0, smaller) / (1.0 + smaller)
        curvature = smaller / np.square(1.0 + smaller)
        return LikelihoodTerms(np.log1p(smaller) + np.maximum(eta, 0.0), p, curvature)

    def self_concordance(self, eta: FloatArray) -> float:  # noqa: ARG002
        """Return 1: ``l''' = l'' (1 - 2 p)``."""
        return 1.0

    def hazard(self, eta: FloatArray) -> FloatArray:
        """Return ``1 / (1 + e^-eta)``."""
        return np.asarray(expit(eta), dtype=np.float64)

    def predictor(self, hazard: FloatArray) -> FloatArray:
        """Return the log odds."""
        return np.asarray(logit(hazard), dtype=np.float64)

    def capped_values(self, eta: FloatArray, log_cap: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the capped losses ``h asinh(u)`` and ``asinh(1 / u)`` with ``u = e^eta / h``."""
        log_u = eta - log_cap
        return np.exp(log_cap) * _asinh_exp(log_u), _asinh_exp(-log_u)

    def exact_scores(self, numbers: MPContext, eta: mpf, log_cap: mpf) -> tuple[mpf, mpf]:
        """Return ``c`` and ``e``."""
        u = numbers.exp(eta - log_cap)
        e = 1 / numbers.sqrt(1 + u * u)
        return numbers.exp(log_cap) * u * e, e


@final
class CloglogLink(HazardLink):
    """Complementary log-log link: ``p = 1 - exp(-e^eta)``, scale ``e^eta``; coefficients are log hazard ratios.

    The likelihood's log hazards are cut at 600.
    """

    name = "cloglog"
    exponentiated = "hazard ratio"
    scale = "log hazard ratios"
    hazard_ratios = "those of the cloglog link are the same (Prentice and Gloeckler 1978)"
    survived_smoothness = STEEPEST
    event_smoothness = Fraction(1)
    ulps = 256.0
    multiplicative = True
    cumulative = True

    def survive(self, eta: FloatArray) -> LikelihoodTerms:
        """Return ``e^eta``, which is its own derivative."""
        hazard = np.exp(np.minimum(eta, LARGEST_EXPONENT))
        return LikelihoodTerms(hazard, hazard, hazard)

    def event(self, eta: FloatArray) -> LikelihoodTerms:
        r"""Return ``-log(1 - e^-u)``, ``-g`` and ``g (g + u - 1)`` with ``u = e^eta`` and ``g = u / (e^u - 1)``.

        For small ``u`` the terms cancel, so their series is used: ``-log(1 - e^-u) = -eta + u/2 - ...`` and
        ``g + u - 1 = u/2 + u^2/12 - u^4/720 + u^6/30240 - ...``.
        """
        u = np.exp(np.clip(eta, -LARGEST_EXPONENT, LARGEST_EXPONENT))
        tame = np.clip(u, 1e-20, LARGEST_EXPONENT)
        g = np.where(u < 1e-20, 1.0, tame / np.expm1(tame))
        v = np.minimum(u, 0.1)
        excess = np.where(u < 0.1, v / 2 + v**2 / 12 - v**4 / 720 + v**6 / 30240, g + u - 1.0)
        value = np.where(u < 1.0, -np.log(-np.expm1(-tame)), -np.log1p(-np.exp(-np.maximum(tame, 0.5))))
        return LikelihoodTerms(np.where(u < 1e-16, -eta, value), -g, g * excess)

    def self_concordance(self, eta: FloatArray) -> float:
        """Return ``max(1, u)`` at the largest ``u = e^eta``: for an event ``l''' / l''`` is between ``1 - u`` and 1."""
        return max(1.0, float(np.exp(np.minimum(np.max(eta, initial=-FARTHEST) + 1.0, FARTHEST))))

    def hazard(self, eta: FloatArray) -> FloatArray:
        """Return ``1 - exp(-e^eta)``."""
        return np.asarray(-np.expm1(-np.exp(np.minimum(eta, FARTHEST))), dtype=np.float64)

    def predictor(self, hazard: FloatArray) -> FloatArray:
        """Return ``log(-log(1 - p))``."""
        return np.asarray(np.log(-np.log1p(-hazard)), dtype=np.float64)

    def scores(self, eta: FloatArray, log_cap: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``c`` and ``e = psi(m) / sqrt(1 + u^2)``."""
        c, s = saturate(eta - log_cap, log_cap)
        return c, _psi(np.exp(np.clip(eta, -FARTHEST, FARTHEST / 4.0))) * s

    def cells(self, eta: FloatArray, log_cap: FloatArray) -> CappedTerms:
        """Return scores and curvatures."""
        c, s = saturate(eta - log_cap, log_cap)
        m = np.exp(np.clip(eta, -FARTHEST, FARTHEST / 4.0))
        e = _psi(m) * s
        slope = np.where(m > 1e-8, m / -np.expm1(-np.maximum(m, 1e-8)) - 1.0, 0.5 * m)
        return CappedTerms(survived=c, event=e, survived_curvature=c * s * s, event_curvature=e * (slope + 1.0 - s * s))

    def exact_scores(self, numbers: MPContext, eta: mpf, log_cap: mpf) -> tuple[mpf, mpf]:
        """Return ``c`` and ``e``; beyond ``eta = 50`` the latter is 0, as ``psi < exp(-10^21)`` there."""
        u = numbers.exp(eta - log_cap)
        s = 1 / numbers.sqrt(1 + u * u)
        m = numbers.exp(min(eta, numbers.mpf(50)))
        return numbers.exp(log_cap) * u * s, m / numbers.expm1(m) * s if eta < 50 else numbers.mpf(0)


@final
class ProbitLink(HazardLink):
    """Probit link: ``p = F(eta)`` with the standard normal distribution ``F``, scale ``p / (1 - p)``."""

    name = "probit"
    scale = "shifts on the normal scale"
    hazard_ratios = "those of the probit link are on another scale"
    survived_smoothness = Fraction(4)
    event_smoothness = Fraction(4)
    ulps = 8192.0
    smallest_cap = 1e-9

    def survive(self, eta: FloatArray) -> LikelihoodTerms:
        r"""Return ``-log Phi(-eta)``, ``m`` and ``m (m - eta)``, where ``m = phi(eta) / Phi(-eta)`` (Mills' ratio).

        ``m - eta`` cancels for large ``eta``; there ``m (m - eta) = 1 - 1/eta^2 + 6/eta^4 - ...``.
        """
        mills = math.sqrt(2.0 / math.pi) / erfcx(np.maximum(eta, -37.0) / math.sqrt(2.0))
        mills = np.where(eta < -37.0, 0.0, mills)
        far = np.maximum(np.abs(eta), 200.0) ** -2.0
        curvature = np.where(eta > 200.0, 1.0 - far + 6.0 * far**2, mills * (mills - eta))
        return LikelihoodTerms(-log_ndtr(-eta), mills, curvature)

    def self_concordance(self, eta: FloatArray) -> float:
        """Return ``3 + |eta|`` at the farthest ``eta``: ``|l'''| / l''`` is about ``|eta|`` where the term is small."""
        return 3.0 + float(np.max(np.abs(eta), initial=0.0))

    def log_scale(self, eta: FloatArray) -> FloatArray:
        """Return the log odds ``log F(eta) - log F(-eta)``."""
        return np.asarray(log_ndtr(eta) - log_ndtr(-eta), dtype=np.float64)

    def at_scale(self, scale: float) -> float:
        """Return the normal quantile of the probability whose odds are ``scale``."""
        return float(self.predictor(np.array(scale / (1.0 + scale))))

    def hazard(self, eta: FloatArray) -> FloatArray:
        """Return ``F(eta)``."""
        return np.asarray(ndtr(eta), dtype=np.float64)

    def predictor(self, hazard: FloatArray) -> FloatArray:
        """Return the normal quantile."""
        return np.asarray(ndtri(hazard), dtype=np.float64)

    def near(self, eta: FloatArray) -> FloatArray:
        """Return predictors cut to [-35, 35]."""
        return np.clip(eta, -35.0, 35.0)

    def elasticity(self, eta: FloatArray) -> FloatArray:
        """Return ``f / (F (1 - F))``."""
        return np.asarray(np.exp(-0.5 * eta * eta - 0.5 * np.log(2.0 * np.pi) - log_ndtr(eta) - log_ndtr(-eta)))

    def exact_scores(self, numbers: MPContext, eta: mpf, log_cap: mpf) -> tuple[mpf, mpf]:
        """Return ``c`` and ``e``; beyond ``|eta| = 35`` the value there, as `scores`."""
        near = min(max(eta, numbers.mpf(-35)), numbers.mpf(35))
        u = numbers.ncdf(near) / numbers.ncdf(-near) * numbers.exp(-log_cap)
        e = 1 / numbers.sqrt(1 + u * u)
        return numbers.exp(log_cap) * u * e, e


def _psi(m: FloatArray) -> FloatArray:
    """Return ``m / (e^m - 1)``, 1 at 0."""
    positive = np.maximum(m, 1e-300)
    return np.asarray(positive / np.expm1(np.minimum(positive, FARTHEST)), dtype=np.float64)


def _asinh_exp(x: FloatArray) -> FloatArray:
    """Return ``asinh(e^x)``: for large ``x`` it is ``x + log 2``."""
    small = np.exp(-np.abs(x))
    return np.where(x > 0.0, x + np.log1p(np.sqrt(1.0 + small * small)), np.arcsinh(small))
