"""The logistic loss: minus the Bernoulli log-likelihood in the linear predictor."""

from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
from mpmath import MPContext, mpf
from scipy.special import expit

from hdpstats._base.typing import FloatArray
from hdpstats.losses.base import LossOption, PredictorLoss
from hdpstats.losses.expit import logistic_residual


@final
class LogisticLoss(PredictorLoss):
    r"""``l(eta; y) = log(1 + e^eta) - y eta`` for ``y`` in {0, 1}.

    With ``p = 1 / (1 + e^-eta)`` the score is ``p - y`` and the curvature ``p (1 - p)``.

    Constants. ``|p - y| <= 1`` and ``p (1 - p) <= 1/4``. *Coupled*: for ``y = 1`` the score is ``-(1 - p)``, always
    negative, and for ``y = 0`` it is ``p``, always positive; in both cases ``l'' = |l'| (1 - |l'|)``.

    References
    ----------
    McCullagh and Nelder (1989), *Generalized Linear Models*, chapter 4.

    Examples
    --------
    >>> import numpy as np
    >>> float(LogisticLoss().score(np.array([0.0]), np.array([1.0]))[0])
    -0.5
    """

    name = "logistic"
    exponentiated = "odds ratio"
    outcomes = ("binary",)
    lipschitz = Fraction(1)
    smoothness = Fraction(1, 4)
    coupled = True
    robust = False
    modelled = True
    raked = True
    meat = 1.0
    at_zero = 0.694

    @staticmethod
    def mean(eta: FloatArray) -> FloatArray:
        """Return ``p``."""
        return np.asarray(expit(eta), dtype=np.float64)

    @property
    def listed(self) -> FloatArray:
        """0 and 1."""
        return np.array([0.0, 1.0])

    def chances(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``1 - p`` and ``p`` with slopes ``-p`` and ``1 - p``."""
        p = self.mean(eta)
        return np.concatenate([1.0 - p, p], axis=1), np.concatenate([-p, 1.0 - p], axis=1)

    def value(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``log(1 + e^eta) - y eta``."""
        return np.logaddexp(0.0, eta) - y * eta

    def score(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``p - y``."""
        return logistic_residual(eta, y)

    def exact_score(self, numbers: MPContext, eta: mpf, y: float) -> mpf:
        """Return ``p - y``."""
        return 1 / (1 + numbers.exp(-eta)) - y

    def curvature(self, eta: FloatArray, y: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return ``p (1 - p)``."""
        p = expit(eta)
        return np.asarray(p * (1.0 - p), dtype=np.float64)

    def typical(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``p (1 - p)`` twice: the Bernoulli variance."""
        p = expit(eta)
        variance = np.asarray(p * (1.0 - p), dtype=np.float64)
        return variance, variance


@final
@dataclass(frozen=True, slots=True)
class Logistic(LossOption):
    """Minus the Bernoulli log-likelihood: what `hdpf.logit` fits."""

    loss = "logistic"
    title = "Logistic"
