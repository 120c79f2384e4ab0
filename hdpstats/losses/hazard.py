r"""Losses of one interval of a discrete-time hazard model, capped: bounded however high the predicted hazard.

The likelihood of an interval that is survived, ``-log(1 - p)``, has a derivative that no small number bounds once 200
intervals are added. Each loss here saturates: with a cap ``h > 0``

.. math::
    \text{survived:}\; \ell' = c(\eta) = h\,\frac{u}{\sqrt{1 + u^2}}, \qquad
    \text{event:}\; \ell' = -e(\eta) = -\frac{c(\eta)}{o(\eta)}, \qquad o = \frac{p}{1 - p},

where ``u = g(eta) / h`` and ``g`` is the link's scale: the odds ``o`` for logit and probit, the cumulative hazard
``e^eta`` for cloglog.

*Bounded*: ``0 <= c <= h`` and ``0 <= e <= 1``.
*Convex*: ``c`` increases and ``e`` decreases in ``eta``.
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
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
from mpmath import MPContext, mpf
from scipy.special import expit, log_ndtr, logit, ndtr, ndtri

from hdpstats._base.typing import FloatArray

STEEPEST = Fraction(385, 1000)
"""Above ``2 / (3 sqrt 3)``, the maximum of ``x (1 - x^2)`` on [0, 1]."""

FARTHEST = 700.0
"""Size to which logarithms are clipped, so that no exponential overflows; beyond, the losses are saturated."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Cells:
    """Derivatives of the capped losses, elementwise: scores ``c``, ``e`` and curvatures ``c'``, ``-e'``, all >= 0."""

    survived: FloatArray
    event: FloatArray
    survived_curvature: FloatArray
    event_curvature: FloatArray


class HazardLoss(ABC):
    """The capped losses of one link.

    Attributes
    ----------
    name : str
        The link: "logit", "cloglog" or "probit".
    survived_smoothness, event_smoothness : Fraction
        ``sup c' / h`` and ``sup -e'``.
    coupled : bool
        Whether ``c' = c (1 - (c/h)^2)`` and ``-e' = e (1 - e^2)``.
    ulps : float
        Bound on the error of computed scores (relative to ``h`` and 1), in units of 2^-53, for exact arguments.
    smallest_cap : float
        Caps below it are raised to it.
    """

    name: str
    survived_smoothness: Fraction
    event_smoothness: Fraction
    coupled: bool
    ulps: float
    smallest_cap: float

    @abstractmethod
    def log_scale(self, eta: FloatArray) -> FloatArray:
        """Return ``log g(eta)`` elementwise."""

    @abstractmethod
    def hazard(self, eta: FloatArray) -> FloatArray:
        """Return the probability ``p`` of an event elementwise."""

    @abstractmethod
    def predictor(self, hazard: FloatArray) -> FloatArray:
        """Return the linear predictor of hazards strictly between 0 and 1, the inverse of `hazard`."""

    @abstractmethod
    def scores(self, eta: FloatArray, log_cap: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``c`` and ``e`` elementwise."""

    @abstractmethod
    def cells(self, eta: FloatArray, log_cap: FloatArray) -> Cells:
        """Return scores and curvatures elementwise."""

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


@final
class LogitHazard(HazardLoss):
    """Logit link: ``p = 1 / (1 + e^-eta)``, scale ``e^eta``.

    Examples
    --------
    >>> import numpy as np
    >>> c, e = LogitHazard().scores(np.log([0.1]), np.log([0.1]))  # odds at the cap: both shrink by sqrt(2)
    >>> c.round(4).tolist(), e.round(4).tolist()
    ([0.0707], [0.7071])
    """

    name = "logit"
    survived_smoothness = STEEPEST
    event_smoothness = STEEPEST
    coupled = True
    ulps = 64.0
    smallest_cap = 0.0

    def log_scale(self, eta: FloatArray) -> FloatArray:
        """Return ``eta``: the log odds."""
        return eta

    def hazard(self, eta: FloatArray) -> FloatArray:
        """Return ``1 / (1 + e^-eta)``."""
        return np.asarray(expit(eta), dtype=np.float64)

    def predictor(self, hazard: FloatArray) -> FloatArray:
        """Return the log odds."""
        return np.asarray(logit(hazard), dtype=np.float64)

    def scores(self, eta: FloatArray, log_cap: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``h u / sqrt(1 + u^2)`` and ``1 / sqrt(1 + u^2)``."""
        return _saturate(eta - log_cap, log_cap)

    def cells(self, eta: FloatArray, log_cap: FloatArray) -> Cells:
        """Return scores and curvatures."""
        c, e = _saturate(eta - log_cap, log_cap)
        return Cells(survived=c, event=e, survived_curvature=c * e * e, event_curvature=e * (1.0 - e * e))

    def exact_scores(self, numbers: MPContext, eta: mpf, log_cap: mpf) -> tuple[mpf, mpf]:
        """Return ``c`` and ``e``."""
        u = numbers.exp(eta - log_cap)
        e = 1 / numbers.sqrt(1 + u * u)
        return numbers.exp(log_cap) * u * e, e


@final
class CloglogHazard(HazardLoss):
    """Complementary log-log link: ``p = 1 - exp(-e^eta)``, scale ``e^eta``; coefficients are log hazard ratios."""

    name = "cloglog"
    survived_smoothness = STEEPEST
    event_smoothness = Fraction(1)
    coupled = False
    ulps = 256.0
    smallest_cap = 0.0

    def log_scale(self, eta: FloatArray) -> FloatArray:
        """Return ``eta``: the log cumulative hazard of the interval."""
        return eta

    def hazard(self, eta: FloatArray) -> FloatArray:
        """Return ``1 - exp(-e^eta)``."""
        return np.asarray(-np.expm1(-np.exp(np.minimum(eta, FARTHEST))), dtype=np.float64)

    def predictor(self, hazard: FloatArray) -> FloatArray:
        """Return ``log(-log(1 - p))``."""
        return np.asarray(np.log(-np.log1p(-hazard)), dtype=np.float64)

    def scores(self, eta: FloatArray, log_cap: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``c`` and ``e = psi(m) / sqrt(1 + u^2)``."""
        c, s = _saturate(eta - log_cap, log_cap)
        return c, _psi(np.exp(np.clip(eta, -FARTHEST, FARTHEST / 4.0))) * s

    def cells(self, eta: FloatArray, log_cap: FloatArray) -> Cells:
        """Return scores and curvatures."""
        c, s = _saturate(eta - log_cap, log_cap)
        m = np.exp(np.clip(eta, -FARTHEST, FARTHEST / 4.0))
        e = _psi(m) * s
        slope = np.where(m > 1e-8, m / -np.expm1(-np.maximum(m, 1e-8)) - 1.0, 0.5 * m)
        return Cells(survived=c, event=e, survived_curvature=c * s * s, event_curvature=e * (slope + 1.0 - s * s))

    def exact_scores(self, numbers: MPContext, eta: mpf, log_cap: mpf) -> tuple[mpf, mpf]:
        """Return ``c`` and ``e``; beyond ``eta = 50`` the latter is 0, as ``psi < exp(-10^21)`` there."""
        u = numbers.exp(eta - log_cap)
        s = 1 / numbers.sqrt(1 + u * u)
        m = numbers.exp(min(eta, numbers.mpf(50)))
        return numbers.exp(log_cap) * u * s, m / numbers.expm1(m) * s if eta < 50 else numbers.mpf(0)


@final
class ProbitHazard(HazardLoss):
    """Probit link: ``p = F(eta)`` with the standard normal distribution ``F``, scale ``p / (1 - p)``."""

    name = "probit"
    survived_smoothness = Fraction(4)
    event_smoothness = Fraction(4)
    coupled = False
    ulps = 8192.0
    smallest_cap = 1e-9

    def log_scale(self, eta: FloatArray) -> FloatArray:
        """Return the log odds ``log F(eta) - log F(-eta)``."""
        return np.asarray(log_ndtr(eta) - log_ndtr(-eta), dtype=np.float64)

    def hazard(self, eta: FloatArray) -> FloatArray:
        """Return ``F(eta)``."""
        return np.asarray(ndtr(eta), dtype=np.float64)

    def predictor(self, hazard: FloatArray) -> FloatArray:
        """Return the normal quantile."""
        return np.asarray(ndtri(hazard), dtype=np.float64)

    def scores(self, eta: FloatArray, log_cap: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``h u / sqrt(1 + u^2)`` and ``1 / sqrt(1 + u^2)``."""
        return _saturate(self.log_scale(np.clip(eta, -35.0, 35.0)) - log_cap, log_cap)

    def cells(self, eta: FloatArray, log_cap: FloatArray) -> Cells:
        """Return scores and curvatures."""
        near = np.clip(eta, -35.0, 35.0)
        c, e = _saturate(self.log_scale(near) - log_cap, log_cap)
        elasticity = np.exp(-0.5 * near * near - 0.5 * np.log(2.0 * np.pi) - log_ndtr(near) - log_ndtr(-near))
        return Cells(
            survived=c,
            event=e,
            survived_curvature=c * e * e * elasticity,
            event_curvature=e * (1.0 - e * e) * elasticity,
        )

    def exact_scores(self, numbers: MPContext, eta: mpf, log_cap: mpf) -> tuple[mpf, mpf]:
        """Return ``c`` and ``e``; beyond ``|eta| = 35`` the value there, as `scores`."""
        near = min(max(eta, numbers.mpf(-35)), numbers.mpf(35))
        u = numbers.ncdf(near) / numbers.ncdf(-near) * numbers.exp(-log_cap)
        e = 1 / numbers.sqrt(1 + u * u)
        return numbers.exp(log_cap) * u * e, e


def _saturate(log_ratio: FloatArray, log_cap: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ``h u / sqrt(1 + u^2)`` and ``1 / sqrt(1 + u^2)`` from ``log u`` and ``log h``."""
    u = np.exp(np.clip(log_ratio, -FARTHEST / 4.0, FARTHEST / 4.0))
    s = 1.0 / np.sqrt(1.0 + u * u)
    return np.exp(log_cap) * (u * s), s


def logit_losses(eta: FloatArray, log_cap: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the capped losses of the logit link, ``h asinh(u)`` and ``asinh(1 / u)`` with ``u = e^eta / h``."""
    log_u = eta - log_cap
    return np.exp(log_cap) * _asinh_exp(log_u), _asinh_exp(-log_u)


def _asinh_exp(x: FloatArray) -> FloatArray:
    """Return ``asinh(e^x)``: for large ``x`` it is ``x + log 2``."""
    small = np.exp(-np.abs(x))
    return np.where(x > 0.0, x + np.log1p(np.sqrt(1.0 + small * small)), np.arcsinh(small))


def _psi(m: FloatArray) -> FloatArray:
    """Return ``m / (e^m - 1)``, 1 at 0."""
    positive = np.maximum(m, 1e-300)
    with np.errstate(over="ignore"):
        return np.asarray(positive / np.expm1(np.minimum(positive, FARTHEST)), dtype=np.float64)


HAZARDS: dict[str, HazardLoss] = {loss.name: loss for loss in (LogitHazard(), CloglogHazard(), ProbitHazard())}
"""The links a query may name."""
