"""One site's part in a fit: what it was asked and answered, and what is publicly known of it."""

from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference.noise import ScoreNoise
from hdpstats.public.moments import Moments, PublicSide
from hdpstats.records.point import PointQuery, PointRelease


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Part:
    """A released point of one site and the public facts that it is read with.

    The sites of a fit share whitened coordinates and the public fit. Ridge, radius and noise are each site's own, as
    they follow from its number of people and its epsilon.

    Attributes
    ----------
    query, release
        What was asked and answered.
    noise : ScoreNoise
        The noise of the release.
    public : PublicSide or None
        The public side at the query's radius and cap.
    records : int
        How many people the site has, as far as is publicly known.
    curvature : float
        A guess of the curvature that one person has along a direction. Sites are weighed with it where nothing better
        is known; nothing else depends on it.
    """

    query: PointQuery
    release: PointRelease
    noise: ScoreNoise
    public: PublicSide | None
    records: int
    curvature: float

    @property
    def theta(self) -> FloatArray:
        """The released coefficients (D,)."""
        return np.array(self.release.theta)

    @property
    def centre(self) -> FloatArray:
        """Where the ridge pulled to (D,)."""
        return np.array(self.query.centre)

    @property
    def ridge(self) -> float:
        """The ridge."""
        return float(self.query.ridge)

    def unshrunk(self, H: FloatArray) -> FloatArray:
        """Return the released coefficients without the ridge's pull, for a Hessian ``H`` (D, D)."""
        return unshrink(self.theta, centre=self.centre, ridge=self.ridge, H=H)

    def variance(self, at: Moments) -> FloatArray:
        """Return the covariance ``H^-1 (J + N) H^-1`` (D, D) of the unshrunk coefficients."""
        inverse = np.linalg.inv(at.H)
        return np.asarray(inverse @ (at.J + self.noise.covariance(at.H)) @ inverse)


def unshrink(theta: FloatArray, *, centre: FloatArray, ridge: float, H: FloatArray) -> FloatArray:
    """Return ``theta + H^-1 Lambda (theta - c)``."""
    return theta + np.linalg.solve(H, ridge * (theta - centre))
