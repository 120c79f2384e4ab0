r"""The links of a discrete-time hazard: what an interval adds to minus the log-likelihood.

With ``p = link^-1(eta)`` an interval that is survived adds ``-log(1 - p)``, an interval with the event ``-log p``. Each
function returns the value and its first two derivatives in ``eta``, without overflow for any finite ``eta``.

=======  =====================  ==========================================
logit    1 / (1 + e^-eta)       coefficients are log odds ratios
cloglog  1 - exp(-e^eta)        coefficients are log hazard ratios
probit   Phi(eta)
=======  =====================  ==========================================

References
----------
Tutz and Schmid (2016), *Modeling Discrete Time-to-Event Data*, chapter 3.
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, final

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtri

from hdpstats._base.typing import FloatArray

LARGEST_EXPONENT = 600.0
"""Log hazards are cut here: e^600 leaves room for sums and products of 10^40 of them."""


class Terms(NamedTuple):
    """A term's value and its first and second derivative in the linear predictor, all of one shape."""

    value: FloatArray
    score: FloatArray
    curvature: FloatArray


class Link(ABC):
    """A link: ``survive`` and ``event`` with their derivatives, and the linear predictor of a probability."""

    name: ClassVar[str]
    linear_event: ClassVar[bool] = False
    """Whether an event adds the term of a survived interval minus ``eta``."""

    @abstractmethod
    def survive(self, eta: FloatArray) -> Terms:
        """Return ``-log(1 - p)`` and its derivatives."""

    @abstractmethod
    def event(self, eta: FloatArray) -> Terms:
        """Return ``-log p`` and its derivatives."""

    @abstractmethod
    def predictor(self, p: FloatArray) -> FloatArray:
        """Return ``link(p)`` for ``0 < p < 1``."""


@final
class LogitLink(Link):
    """``log(p / (1 - p))``."""

    name = "logit"
    linear_event = True

    def survive(self, eta: FloatArray) -> Terms:
        """Return ``log(1 + e^eta)``, ``p`` and ``p (1 - p)``."""
        smaller = np.exp(-np.abs(eta))
        p = np.where(eta >= 0.0, 1.0, smaller) / (1.0 + smaller)
        curvature = smaller / np.square(1.0 + smaller)
        return Terms(np.log1p(smaller) + np.maximum(eta, 0.0), p, curvature)

    def event(self, eta: FloatArray) -> Terms:
        """Return ``log(1 + e^-eta)``, ``p - 1`` and ``p (1 - p)``."""
        return _mirrored(self.survive(-eta))

    def predictor(self, p: FloatArray) -> FloatArray:
        """Return the log odds."""
        return np.log(p) - np.log1p(-p)


@final
class CloglogLink(Link):
    """``log(-log(1 - p))``, the log of the integrated hazard; cut at e^600."""

    name = "cloglog"

    def survive(self, eta: FloatArray) -> Terms:
        """Return ``e^eta``, which is its own derivative."""
        hazard = np.exp(np.minimum(eta, LARGEST_EXPONENT))
        return Terms(hazard, hazard, hazard)

    def event(self, eta: FloatArray) -> Terms:
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
        return Terms(np.where(u < 1e-16, -eta, value), -g, g * excess)

    def predictor(self, p: FloatArray) -> FloatArray:
        """Return the log of the integrated hazard."""
        return np.log(-np.log1p(-p))


@final
class ProbitLink(Link):
    """The standard normal quantile of ``p``."""

    name = "probit"

    def survive(self, eta: FloatArray) -> Terms:
        r"""Return ``-log Phi(-eta)``, ``m`` and ``m (m - eta)``, where ``m = phi(eta) / Phi(-eta)`` (Mills' ratio).

        ``m - eta`` cancels for large ``eta``; there ``m (m - eta) = 1 - 1/eta^2 + 6/eta^4 - ...``.
        """
        mills = math.sqrt(2.0 / math.pi) / erfcx(np.maximum(eta, -37.0) / math.sqrt(2.0))
        mills = np.where(eta < -37.0, 0.0, mills)
        far = np.maximum(np.abs(eta), 200.0) ** -2.0
        curvature = np.where(eta > 200.0, 1.0 - far + 6.0 * far**2, mills * (mills - eta))
        return Terms(-log_ndtr(-eta), mills, curvature)

    def event(self, eta: FloatArray) -> Terms:
        """Return ``-log Phi(eta)`` and its derivatives, by symmetry."""
        return _mirrored(self.survive(-eta))

    def predictor(self, p: FloatArray) -> FloatArray:
        """Return the normal quantile."""
        return np.asarray(ndtri(p), dtype=np.float64)


LINKS: dict[str, Link] = {link.name: link for link in (LogitLink(), CloglogLink(), ProbitLink())}
"""The links by name."""


def _mirrored(terms: Terms) -> Terms:
    """Return the terms of ``f(-eta)`` from those of ``f`` at ``-eta``."""
    return Terms(terms.value, -terms.score, terms.curvature)
