r"""The links of a discrete-time hazard, one class each: see `hdpstats.losses.hazard`.

=======  =====================  ==========================================
logit    1 / (1 + e^-eta)       coefficients are log odds ratios
cloglog  1 - exp(-e^eta)        coefficients are log hazard ratios
probit   Phi(eta)
=======  =====================  ==========================================
"""

import math
from fractions import Fraction
from typing import final

import numpy as np
from mpmath import MPContext, mpf
from scipy.special import erfcx, expit, log_ndtr, logit, ndtr, ndtri

from hdpstats._base.typing import FloatArray
from hdpstats.losses.hazard import (
    FARTHEST,
    LARGEST_EXPONENT,
    STEEPEST,
    CappedTerms,
    HazardLink,
    LikelihoodTerms,
    saturate,
)


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

    def event(self, eta: FloatArray) -> LikelihoodTerms:
        """Return ``log(1 + e^-eta)``, ``p - 1`` and ``p (1 - p)``."""
        return self.survive(-eta).mirrored()

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

    def event(self, eta: FloatArray) -> LikelihoodTerms:
        """Return ``-log Phi(eta)`` and its derivatives, by symmetry."""
        return self.survive(-eta).mirrored()

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
    with np.errstate(over="ignore"):
        return np.asarray(positive / np.expm1(np.minimum(positive, FARTHEST)), dtype=np.float64)


def _asinh_exp(x: FloatArray) -> FloatArray:
    """Return ``asinh(e^x)``: for large ``x`` it is ``x + log 2``."""
    small = np.exp(-np.abs(x))
    return np.where(x > 0.0, x + np.log1p(np.sqrt(1.0 + small * small)), np.arcsinh(small))
