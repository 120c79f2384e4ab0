r"""What noisy sums of clipped scores say of private people, linearised: estimates, and what they err by.

With the notation of `hdpstats.mechanisms.clipped_newton.matching`, the estimate that solves
:math:`M(\theta) = \bar G` is linearised at coefficients :math:`\theta`:
:math:`u = \theta - A^{-1}\{\bar G - M(\theta)\}`. Its error is about :math:`A^{-1}` times independent parts, the sign
aside:

* *sampling of private people*, covariance :math:`\sum_q S_q\,\mathrm{cov}(\bar g_q)`, :math:`S_q = \sum w_j^2 n_j`;
* *sampling of public people*, covariance :math:`\mathrm{cov}\{\sum_q N_q m_q(X; \theta)\} / n_{pub}`, whatever the
  number of sites, as all are compared with the same public people: zero for scores without bias at the truth, else what
  an expectation over few people costs. At the truth, which is ``d`` away from the estimate, it is larger by that of
  :math:`\sum_q N_q A_{q,x} d`, averaged over the errors ``d`` of the pooled estimate: much where one round was asked at
  the public fit, little where the last round was asked near the truth;
* *noise*, covariance :math:`\sum_j w_j^2 \sigma_j^2\, I`: each site adds its own. Where :math:`n_j` is itself a noisy
  number with variance :math:`s_j^2`, :math:`\sum_j w_j^2 s_j^2\, E\,m_q\, E\,m_q'`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.mechanisms.clipped_newton.expectations import Expected, between_people, response_of
from hdpstats.mechanisms.clipped_newton.raked import RakedSite
from hdpstats.mechanisms.score_sums import SiteAnswers


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PrivateEstimate:
    """What private people say, at one site or at several, linearised: it errs by ``response`` times independent parts.

    Attributes
    ----------
    theta : (D,) float64
        The estimate, in whitened coordinates.
    response : (D, D) float64
        ``A^-1``: how it moves with the averaged sum.
    scores : (D, D) float64
        Covariance of the averaged sum by sampling of private people.
    public : (D, D) float64
        Covariance of what it is compared with, by sampling of public people: an error that all sites share.
    noise : float
        Variance of the averaged sum's noise in each coordinate.
    counting : (D, D) float64
        Covariance of what it is compared with, by the noise of the numbers of people.
    """

    theta: FloatArray
    response: FloatArray
    scores: FloatArray
    public: FloatArray
    noise: float
    counting: FloatArray

    @property
    def sampling(self) -> FloatArray:
        """Covariance of the averaged sum by sampling of private and public people."""
        return self.scores + self.public

    @property
    def by_sampling(self) -> FloatArray:
        """Covariance of the estimate's error by sampling."""
        return np.asarray(self.response @ self.sampling @ self.response.T)

    @property
    def by_noise(self) -> FloatArray:
        """Covariance of the estimate's error by noise."""
        return np.asarray(self.response @ (self.noise * np.eye(len(self.theta)) + self.counting) @ self.response.T)

    @property
    def covariance(self) -> FloatArray:
        """``V``: covariance of the estimate's error."""
        return self.by_sampling + self.by_noise


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SitePart:
    """A site, its weight, and the expectations of one score under the coefficients of the moment."""

    site: SiteAnswers
    weight: float
    at: Expected
    raked: RakedSite | None = None
    apart: FloatArray | None = None

    @property
    def people(self) -> float:
        """The number of people, or with case weights of a described cohort their total."""
        return people_at(self.site, self.raked)


def people_at(site: SiteAnswers, raked: RakedSite | None) -> float:
    """Return the number of people at a site, or with case weights of a described cohort their total."""
    return site.people if raked is None or raked.total is None else raked.total


def information_of(parts: Sequence[SitePart]) -> float:
    """Return ``sum w n``: the information of sites, but for that of one person."""
    return sum(part.weight * part.people for part in parts)


def linearised(theta: FloatArray, parts: Sequence[SitePart], *, whole: int) -> PrivateEstimate:
    """Return ``u`` and what its error is made of, from the weighted sum over sites."""
    D = len(theta)
    away, A, scores, counting = np.zeros(D), np.zeros((D, D)), np.zeros((D, D)), np.zeros((D, D))
    noise, public, moved = 0.0, [], []
    for part in parts:
        w, site, at = part.weight, part.site, part.at
        away += w * (site.total - part.people * at.mean)
        A += w * part.people * at.information
        scores += w * w * part.people * at.covariance
        counting += (w * site.records_sd) ** 2 * np.outer(at.mean, at.mean)
        noise += w * w * site.noise
        if part.apart is None:
            public.append(w * part.people * at.given)
        else:
            moved.append(w * part.people * part.apart)
    response = response_of(A)
    return PrivateEstimate(
        theta=theta - response @ away,
        response=response,
        scores=scores,
        public=public_covariance(public, moved, whole=whole, dimension=D),
        noise=noise,
        counting=counting,
    )


def public_covariance(
    given: Sequence[FloatArray], moved: Sequence[FloatArray], *, whole: int, dimension: int
) -> FloatArray:
    """Return the covariance (D, D) of expectations: over public people (people, D), and over draws of raked ones."""
    covariance = np.zeros((dimension, dimension))
    if given:
        covariance += between_people(_sum(given), whole=whole) / whole
    if moved:
        sets = min(len(each) for each in moved)
        together = _sum([each[:sets] for each in moved])
        covariance += together.T @ together / sets
    return covariance


def _sum(parts: Sequence[FloatArray]) -> FloatArray:
    total = np.zeros_like(parts[0])
    for part in parts:
        total += part
    return total
