r"""The links of hazards, a class each: hazard, its inverse, likelihood, capped losses, constants with proof, words.

A new link is one more class: what it must say is in `hdpstats.losses.base.HazardLink`, and `hdpstats.losses` lists it.

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

The constants and their proofs use ``z = 2 / (3 sqrt 3) < 0.385``, the maximum of ``x (1 - x^2)`` on [0, 1].

**Floating point.** With ``v = 2^-53``, the relative error of an operation, exponentials (``exp``, ``expm1``) are taken
to err by at most 8 ``v`` relatively, four units in the last place (measured: less than two), and ``log_ndtr`` by 8
``v`` or 8 ``v`` of its size (measured: five). `HazardLink.ulps` bounds what computed scores are off by, in ``v``, in
proportion to ``h`` and to 1.

* *Where the scale is* ``e^eta`` scores are functions of ``u`` and ``h`` that are exponentials of sums of two doubles
  (`hdpstats.solvers.kernels`): an exponential, a rest and a product err by 10 ``v``, a product of two of them by 21
  ``v``. As ``c' <= z h``, the errors of ``u`` count ``21 z < 8.1``, and a sum, a root, a quotient and products 5:
  together ``c`` is off by less than 14 ``v h``, and so is ``1 / sqrt(1 + u^2)``, by 13 ``v``. The same holds of
  an exponential of the rounded ``eta - log h``, whose rounding is at most ``v |log u|``: ``|log u| c' <= .3183 h``.
  Nothing grows with ``eta``: that ``u`` is a sum's exponential is felt in proportion to ``u`` only.
* *The cap* itself, where it multiplies ``u / sqrt(1 + u^2)``, is a double that depends on the row alone, the same one
  at all coefficients (`hdpstats.families.hazard.spells`). It is within 17 ``v`` of ``h`` (product of two exponentials).
  So a computed score is near that of a loss ``k h asinh(u)``, or its like, with a constant ``k`` of a cell within 17
  ``v`` of 1: that is the loss that is minimised. It is as convex, and what is bounded in proportion to ``h`` is so in
  proportion to ``k h``. Sums of computed caps are at most ``H`` but for what roundings may add, which is counted
  (`hdpstats.privacy.hazard_sensitivity.UP`). Gradients in numbers of more digits have the same ``k``
  (`CappedSpells.exact_caps`). Where ``m = u h`` is a part of the score of an event, the cap counts.
* *Where it is not*, a predictor is rounded, to within ``v |eta|``: see the link.

References
----------
Nguyen and Hui (2017), Differentially private regression for discrete-time survival analysis, section 3.
Tutz and Schmid (2016), *Modeling Discrete Time-to-Event Data*, chapter 3.
"""

import math
from fractions import Fraction
from typing import final

import numpy as np
from mpmath import MPContext, mpf
from scipy.special import erfcx, expit, log_ndtr, logit, ndtr, ndtri

from hdpstats._base.typing import FloatArray
from hdpstats.losses.base import (
    FARTHEST,
    CappedTerms,
    HazardLink,
    LikelihoodTerms,
    ValuedLink,
    bounded_exp,
)

STEEPEST = Fraction(385, 1000)
"""Above ``2 / (3 sqrt 3)``, the maximum of ``x (1 - x^2)`` on [0, 1]."""

LARGEST_EXPONENT = 600.0
"""Log hazards of the likelihood are cut here: sums and products of 10^40 numbers of e^600 do not overflow."""


@final
class LogitLink(ValuedLink):
    """Logit link: ``p = 1 / (1 + e^-eta)``, scale ``e^eta``, the odds; coefficients are log odds ratios.

    With ``u = e^eta / h`` the capped losses are ``h asinh(u)`` and ``asinh(1 / u)``, and ``e = 1 / sqrt(1 + u^2)``.

    *Constants*: ``c' = c (1 - (c/h)^2) <= z h`` and ``-e' = e (1 - e^2) <= z``: score and curvature are coupled, which
    `hdpstats.privacy.hazard_sensitivity` uses.
    """

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
    multiplicative = True
    analytic = math.pi
    functions = 6.0
    ulps = 14.0
    event_ulps = 14.0

    def survive(self, eta: FloatArray) -> LikelihoodTerms:
        """Return ``log(1 + e^eta)``, ``p`` and ``p (1 - p)``."""
        smaller = np.exp(-np.abs(eta))
        p = np.where(eta >= 0.0, 1.0, smaller) / (1.0 + smaller)
        curvature = smaller / np.square(1.0 + smaller)
        return LikelihoodTerms(np.log1p(smaller) + np.maximum(eta, 0.0), p, curvature)

    def event(self, eta: FloatArray) -> LikelihoodTerms:
        """Return ``log(1 + e^-eta)``, ``p - 1`` and ``p (1 - p)``: the link is symmetric."""
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
    """Complementary log-log link: ``p = 1 - exp(-e^eta)``, scale ``e^eta``, the cumulative hazard of the interval.

    Coefficients are log hazard ratios. The likelihood's log hazards are cut at 600.

    *Constants*: ``c' = c (1 - (c/h)^2) <= z h``. With ``m = e^eta``, ``e = psi(m) / sqrt(1 + u^2)`` and
    ``psi = m / (e^m - 1)``, ``-e' = e {m / (1 - e^-m) - 1} + e u^2 / (1 + u^2)``. The second part is at most ``z`` as
    ``psi <= 1``. The first is at most ``psi (m / (1 - e^-m) - 1)``. For ``m <= 2`` that is at most 1/2, because
    ``m / (1 - e^-m) - 1 <= m/2 + m^2/12`` and ``psi <= 1 / (1 + m/2 + m^2/6)``; in general it is
    ``{(m/2) / sinh(m/2)}^2 - psi``, at most .724 - .157 on [2, 3] and .497 beyond, both terms decreasing. So
    ``-e' <= 1``.

    *Floating point*: ``m = u h`` errs by 39 ``v``, of which the cap's are 17 and ``psi`` feels ``-m psi' <= .567``; its
    quotient errs by 9 ``v``, the other factor by 13 ``v``, their product by one: less than 46 ``v``.
    """

    name = "cloglog"
    exponentiated = "hazard ratio"
    scale = "log hazard ratios"
    hazard_ratios = "those of the cloglog link are the same (Prentice and Gloeckler 1978)"
    survived_smoothness = STEEPEST
    event_smoothness = Fraction(1)
    functions = 14.0
    ulps = 14.0
    event_ulps = 48.0
    multiplicative = True
    cumulative = True
    analytic = math.inf

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
        excess = np.where(u < 0.1, v / 2 + v**2 / 12 - v**4 / 720 + v**6 / 30240, g + tame - 1.0)
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

    def saturated(self, u: FloatArray, h: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``c`` and ``e = psi(m) / sqrt(1 + u^2)`` with ``m = u h``, cut before it overflows."""
        c, s = HazardLink.saturated(self, u, h)
        return c, _psi(u * np.minimum(h, 1e150)) * s

    def cells(self, eta: FloatArray, log_cap: FloatArray) -> CappedTerms:
        """Return scores and curvatures."""
        c, s = HazardLink.saturated(self, bounded_exp(eta - log_cap), np.exp(log_cap))
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
    """Probit link: ``p = F(eta)`` with the standard normal distribution ``F``, scale ``p / (1 - p)``, the odds.

    *Constants*: ``o'/o = f / (F (1 - F)) <= |eta| + 2 sqrt(2/pi)`` (Mills' ratio grows with a slope below 1), and
    ``F(-|eta|) <= exp(-eta^2 / 2) / 2`` gives ``|eta| <= sqrt(2 |log o|)``. Caps that count are from 1e-9
    (`smallest_cap`) to ``2^40`` times the largest total, 1e4, as who is weighed by less than 2^-40 counts for nothing
    (`hdpstats.families.hazard.spells.LEAST_SHARE`): ``|log h| <= 37``. As ``log o = log h + log u``,
    ``|eta| <= sqrt(74) + |log u| / sqrt(74)``, and both ``c'/h`` and ``-e'`` are at most
    ``z {sqrt(74) + 1.6} + .3183 / sqrt(74) < 3.97``, .3183 bounding ``|log u| u / (1 + u^2)^1.5`` and
    ``|log u| u^2 / (1 + u^2)^1.5``. (Measured: 3.24.)

    *Floating point.* The rounding ``v |eta|`` of a predictor changes ``log o`` by at most
    ``v |eta| (|eta| + 1.6) <= v (2 l + 1.6 sqrt(2 l))`` with ``l = |log o| <= 37 + |log u|``; the two terms of
    ``log o``, of which one is at most ``log 2`` in size, err by ``8 v (l + 2)``, two differences by ``v (2 l + 37)``.
    Scores feel that with slopes of which ``z`` and ``.3183`` bound the products with 1 and ``|log u|``:
    ``12 (37 z + .3183) + 53 z + 1.6 (8.61 z + .04) < 201``. An exponential, a cap and what
    follows add less than 20: 221 ``v`` (measured: 78). Beyond ``|eta| = 35`` scores are those there (`near`).
    """

    name = "probit"
    scale = "shifts on the normal scale"
    hazard_ratios = "those of the probit link are on another scale"
    survived_smoothness = Fraction(4)
    event_smoothness = Fraction(4)
    functions = 50.0
    ulps = event_ulps = 256.0
    smallest_cap = 1e-9
    analytic = 2.8  # the zeros of Phi(-eta) that are nearest are at -1.916 +- 2.816 i

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
        """Return the terms of surviving at ``-eta``, mirrored: the link is symmetric."""
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
    """Return ``m / (e^m - 1)``: 1 at 0, and beyond `FARTHEST` what it is there, below 1e-300."""
    cut = np.clip(m, 1e-300, FARTHEST)
    return np.asarray(cut / np.expm1(cut), dtype=np.float64)


def _asinh_exp(x: FloatArray) -> FloatArray:
    """Return ``asinh(e^x)``: for large ``x`` it is ``x + log 2``."""
    small = np.exp(-np.abs(x))
    return np.where(x > 0.0, x + np.log1p(np.sqrt(1.0 + small * small)), np.arcsinh(small))
