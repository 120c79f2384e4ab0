r"""What standard errors a fit would have: computed before anything is spent.

Closed forms at public coefficients. For a point that a site would release (objective perturbation) the sandwich of
`hdpstats.inference.sandwich`: the private estimate has covariance ``H^-1 (J + B) H^-1``; estimates of several sites are
averaged by inverse variance. For noisy sums of clipped scores the covariance of
`hdpstats.mechanisms.clipped_newton.estimate`, ``A^-1 (sampling + noise) A^-1``, at all sites together. Either is pooled
with the public fit by inverse variance (sources assumed alike, ``T = 0``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference.combination import shares
from hdpstats.inference.noise import ScoreNoise
from hdpstats.mechanisms.clipped_newton.estimate import PrivateEstimate
from hdpstats.public.moments import PublicFit, PublicSide


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PredictedCovariance:
    """Covariance of a private estimate in whitened coordinates, in two parts (D, D): sampling and privacy noise."""

    sampling: FloatArray
    privacy: FloatArray

    @property
    def covariance(self) -> FloatArray:
        """Their sum."""
        return self.sampling + self.privacy


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PredictedErrors:
    """Predicted standard errors per coefficient (p,), in the design's coordinates.

    ``reported``: of what a fit would report; ``sampling``, ``privacy``: the private-only estimate's two parts;
    ``public``: of the public fit, or None.
    """

    reported: FloatArray
    sampling: FloatArray
    privacy: FloatArray
    public: FloatArray | None

    @property
    def against_public(self) -> float:
        """Variance of what would be reported over that of the public fit, averaged over coefficients; 1 without one."""
        return 1.0 if self.public is None else float(np.mean((self.reported / self.public) ** 2))


def of_point(public: PublicSide, *, noise: ScoreNoise, records: int) -> PredictedCovariance:
    """Return what a site's estimate errs by: a released point of ``records`` people with some noise."""
    at = public.moments(public.centre, records=max(records, 1))
    inverse = np.linalg.inv(at.H)
    return PredictedCovariance(sampling=inverse @ at.J @ inverse, privacy=inverse @ noise.covariance(at.H) @ inverse)


def of_sums(private: PrivateEstimate) -> PredictedCovariance:
    """Return what an estimate from noisy sums errs by."""
    R, identity = private.response, np.eye(len(private.theta))
    return PredictedCovariance(
        sampling=R @ private.sampling @ R.T, privacy=R @ (private.noise * identity + private.counting) @ R.T
    )


def averaged(sites: Sequence[PredictedCovariance]) -> PredictedCovariance:
    """Return what the average of the sites' estimates by inverse variance errs by."""
    weights = shares([site.covariance for site in sites])
    pairs = list(zip(weights, sites, strict=True))
    return PredictedCovariance(
        sampling=np.asarray(sum(W @ site.sampling @ W.T for W, site in pairs)),
        privacy=np.asarray(sum(W @ site.privacy @ W.T for W, site in pairs)),
    )


def predicted_errors(private: PredictedCovariance, fit: PublicFit | None, *, T: FloatArray) -> PredictedErrors:
    """Return predicted standard errors, in the coordinates that ``T`` (p, D) maps whitened coefficients to."""
    total, public = private.covariance, None
    if fit is not None:
        public = _errors(T, fit.covariance)
        total = np.linalg.inv(np.linalg.inv(total) + np.linalg.inv(fit.covariance))
    return PredictedErrors(
        reported=_errors(T, total),
        sampling=_errors(T, private.sampling),
        privacy=_errors(T, private.privacy),
        public=public,
    )


def _errors(T: FloatArray, covariance: FloatArray) -> FloatArray:
    return np.sqrt(np.diag(T @ covariance @ T.T))
