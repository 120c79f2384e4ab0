r"""The noise of a release as a perturbation of the private score, wherever it entered.

The released point solves ``s(theta) + Lambda (theta - c) + b = 0`` for some ``b``. Noise in the objective is ``b``
itself; noise ``v`` on the minimiser is, linearised, :math:`b = -(H + \Lambda) v`. Where both are added, as objective
perturbation smooths what it computed, their covariances add up. A draw with density
:math:`\propto \exp(-s F)` of an objective ``F`` is its minimiser with normal noise of covariance
:math:`(H + \Lambda)^{-1} / s`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.noise.distributions import NoiseDistribution, NormalDistribution


class ScoreNoise(ABC):
    """The distribution of ``b`` (D,), given the Hessian ``H`` of the private losses."""

    @abstractmethod
    def covariance(self, H: FloatArray) -> FloatArray:
        """Return the covariance of ``b`` (D, D)."""

    @abstractmethod
    def draw(self, rng: draws.Generator, H: FloatArray) -> FloatArray:
        """Return one draw of ``b`` for each of a stack of Hessians (B, D, D), shape (B, D)."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class InObjective(ScoreNoise):
    """Noise of a distribution that entered the objective."""

    distribution: NoiseDistribution | NormalDistribution

    def covariance(self, H: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the distribution's covariance."""
        return np.diag(self.distribution.variance)

    def draw(self, rng: draws.Generator, H: FloatArray) -> FloatArray:
        """Return draws of the distribution."""
        return draws.perturbation(rng, self.distribution, count=len(H))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class OnMinimiser(ScoreNoise):
    """Noise of a distribution that was added to the minimiser under a ridge."""

    distribution: NoiseDistribution | NormalDistribution
    ridge: float

    def covariance(self, H: FloatArray) -> FloatArray:
        """Return ``(H + Lambda) V (H + Lambda)``."""
        bent = H + self.ridge * np.eye(len(H))
        return np.asarray(bent @ np.diag(self.distribution.variance) @ bent)

    def draw(self, rng: draws.Generator, H: FloatArray) -> FloatArray:
        """Return ``-(H + Lambda) v``."""
        noise = draws.perturbation(rng, self.distribution, count=len(H))
        return np.asarray(-np.einsum("bij,bj->bi", H, noise) - self.ridge * noise)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Smoothed(ScoreNoise):
    """Noise in the objective, and on the minimiser further noise that does not depend on it.

    Draws of the further noise come from a generator of their own: those of everything else stay as they are without it.
    """

    inside: InObjective
    after: OnMinimiser

    def covariance(self, H: FloatArray) -> FloatArray:
        """Return the sum of both covariances."""
        return self.inside.covariance(H) + self.after.covariance(H)

    def draw(self, rng: draws.Generator, H: FloatArray) -> FloatArray:
        """Return the sum of independent draws."""
        (own,) = rng.spawn(1)
        return self.inside.draw(rng, H) + self.after.draw(own, H)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Tempered(ScoreNoise):
    """A draw at a temperature ``s`` in place of the minimiser under a ridge."""

    temperature: float
    ridge: float

    def covariance(self, H: FloatArray) -> FloatArray:
        """Return ``(H + Lambda) / s``."""
        return np.asarray((H + self.ridge * np.eye(len(H))) / self.temperature)

    def draw(self, rng: draws.Generator, H: FloatArray) -> FloatArray:
        """Return normal draws."""
        return draws.normals(rng, (H + self.ridge * np.eye(H.shape[-1])) / self.temperature)
