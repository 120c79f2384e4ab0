"""What is known about the curvature of the private likelihood: from public rows, or from a Hessian that was bought."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.mechanisms.curvature import unstack
from hdpstats.protocols.moments import Moments, PublicSide
from hdpstats.queries import PointRelease

CLEAR = 3.0
"""Smallest trusted eigenvalue of the noisy Hessian, in standard deviations of the noise along one direction."""


class Information(ABC):
    """Hessian and score covariance of the private records in whitened coordinates, with their uncertainty."""

    @abstractmethod
    def at(self, theta: FloatArray) -> Moments:
        """Return the best guess at coefficients ``theta`` (D,)."""

    @abstractmethod
    def draw(self, rng: draws.Generator, *, theta: FloatArray, count: int) -> Moments:
        """Return draws (count, D, D) of what the truth might be."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicInformation(Information):
    """Model-based moments over public rows; drawn by the Bayesian bootstrap of those rows.

    Right as far as private covariates are distributed as the public ones.
    """

    public: PublicSide
    records: int

    def at(self, theta: FloatArray) -> Moments:
        """Return the moments over public rows."""
        return self.public.moments(theta, records=self.records)

    def draw(self, rng: draws.Generator, *, theta: FloatArray, count: int) -> Moments:
        """Return the moments under ``count`` random weightings of the public rows."""
        rows = draws.dirichlet(rng, self.public.people, count)
        return self.public.moments(theta, records=self.records, row_weights=rows)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class BoughtInformation(Information):
    """The released Hessian ``H + N``, whatever the coefficients; drawn by adding noise of the same law again.

    ``J <= meat H``, and ``J = meat H`` is conservative. For a likelihood's loss ``meat`` is the largest case weight,
    as Mallows weights are at most 1.
    """

    H: FloatArray
    noise_sd: float
    meat: float

    def at(self, theta: FloatArray) -> Moments:  # noqa: ARG002
        """Return the released Hessian."""
        return Moments(H=self.H, J=self.meat * self.H)

    def draw(self, rng: draws.Generator, *, theta: FloatArray, count: int) -> Moments:  # noqa: ARG002
        """Return Hessians with fresh noise, eigenvalues kept above a tenth of the smallest released one."""
        noise = draws.symmetric(rng, len(self.H), sd=self.noise_sd, count=count)
        eigenvalues, vectors = np.linalg.eigh(self.H + noise)
        kept = np.maximum(eigenvalues, 0.1 * float(np.linalg.eigvalsh(self.H)[0]))
        H = np.einsum("bij,bj,bkj->bik", vectors, kept, vectors)
        return Moments(H=H, J=self.meat * H)


def is_clear(H: FloatArray, *, noise_sd: float) -> bool:
    """Return whether a Hessian's smallest eigenvalue stands clear of noise of ``noise_sd`` along each direction."""
    return float(np.linalg.eigvalsh(H)[0]) > CLEAR * noise_sd


def bought(release: PointRelease, *, meat: float) -> BoughtInformation | None:
    """Return the information of a released Hessian, or None where there is none or noise drowns it."""
    if release.hessian is None:
        return None
    H = unstack(np.array(release.hessian), len(release.theta))
    if not is_clear(H, noise_sd=release.hessian_noise_sd):
        return None
    return BoughtInformation(H=H, noise_sd=release.hessian_noise_sd, meat=meat)
