r"""What estimates from noisy sums of clipped scores will err by, before a sum is asked for.

**Where the rounds end.** A fit reports what its estimate errs by under the model, at the coefficients where the sums
lead it. With clipped scores these are not those of the ordinary fit to the same people, unless the model holds: counts
that vary more than Poisson ones, or residuals whose spread depends on covariates, have other clipped scores than the
model says. How much that moves coefficients, public outcomes tell: with :math:`\bar g` the average of the public
people's own clipped scores the rounds end near the solution :math:`\theta_*` of

.. math:: E\,m(X; \theta_*) = \bar g - \bar s,

:math:`\bar s` their mean score at the public fit without clipping, which the prior of that fit leaves (`ends_near`).
So predictions are at :math:`\theta_*`, for sums that are asked for at the public fit first and then near
:math:`\theta_*`, and :math:`\theta_* - \theta_{pub}` counts as a difference where the estimate is pooled.

**What it errs by there.** Everything that `hdpstats.mechanisms.clipped_newton.linearised` says about errors is known:
the response, the sampling of private people, the noise. Scores at a distance ``d`` from the truth have the mean
:math:`m(x) \approx A_x d`, which differs between people, so that the expectation over few public people errs, with
covariance :math:`\mathrm{cov}(A_x d)\, N^2 / n_{pub}`. The first round is asked at the public fit, ``d`` having its
covariance; each later one at the pooled estimate of those before it, whose covariance is found by the same formula,
round by round. Distances of different rounds are taken to be perfectly correlated, the worst case.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference.pooling import expected_covariance
from hdpstats.inference.sandwich import PredictedCovariance
from hdpstats.mechanisms.clipped_newton.expectations import (
    expected,
    response_of,
    root_of,
    spread_of_slopes,
)
from hdpstats.mechanisms.clipped_newton.linearised import PrivateEstimate, public_covariance
from hdpstats.mechanisms.clipped_newton.matching import LONGEST
from hdpstats.mechanisms.clipped_newton.raked import RakedSite
from hdpstats.mechanisms.person_loss.base import People
from hdpstats.mechanisms.score_sums import clipped, site_weights
from hdpstats.public.moments import PublicFit
from hdpstats.public.outcomes import Outcomes

STEPS = 8
"""The most steps towards where the rounds end."""

NEAR = 1e-2
"""A step of this length, in whitened coefficients, is the last one."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SiteSums:
    """A site that will be asked for sums.

    ``records`` people, with a standard deviation ``records_sd`` of noise in that number; ``noise_sd`` of the average of
    all rounds.
    """

    records: int
    records_sd: float
    noise_sd: float


Asked = list[tuple[FloatArray, float]]
"""Where sums are asked for (D,), with the shares of the rounds."""


def ends_near(
    outcomes: Outcomes, fit: PublicFit, people: People, *, shares: Sequence[float], clip: float
) -> tuple[FloatArray, Asked]:
    """Return the coefficients (D,) near which rounds of ``shares`` end, and where the rounds are asked.

    ``people`` are the public ones with their own outcomes, ``outcomes`` the same with all that they might have. The
    public fit is returned where no solution is found near it.
    """
    start, first = fit.theta, shares[0]
    pull = people.scores(start).mean(axis=0)
    end, asked = start, [(start, 1.0)]
    for _ in range(1 if len(shares) == 1 else 2):
        own = sum(share * clipped(people.scores(at), clip).mean(axis=0) for at, share in asked) - pull
        found = _solved(outcomes, np.asarray(own), asked=asked, start=end, clip=clip)
        if found is None:
            return start, [(start, 1.0)]
        end = found
        asked = [(start, 1.0)] if len(shares) == 1 else [(start, first), (end, 1.0 - first)]
    return end, asked


def _solved(outcomes: Outcomes, mean: FloatArray, *, asked: Asked, start: FloatArray, clip: float) -> FloatArray | None:
    """Return the coefficients (D,) whose expected clipped score is a mean (D,); None where steps do not lead there."""
    theta = start
    for _ in range(STEPS):
        at = expected(outcomes, theta, asked=asked, clip=clip)
        step = response_of(at.information) @ (at.mean - mean)
        largest = float(np.max(np.abs(step)))
        theta = theta + step * min(1.0, LONGEST / max(largest, LONGEST))
        if largest < NEAR:
            return np.asarray(theta)
    return None


def predicted_estimate(
    outcomes: Outcomes,
    fit: PublicFit,
    sites: Sequence[SiteSums],
    *,
    shares: Sequence[float],
    clip: float,
    raked: Sequence[RakedSite | None] = (),
    people: People | None = None,
) -> PrivateEstimate:
    """Return what the private estimate after all rounds will err by; ``shares``, 1 in sum, are those of the rounds.

    ``raked`` are the people that sums of sites are compared with, where these were described; ``people`` the public
    ones with their own outcomes, None where rounds are taken to end at the public fit.
    """
    cohorts = list(raked) or [None] * len(sites)
    theta, asked = fit.theta, [(fit.theta, 1.0)]
    at_fit = expected(outcomes, theta, asked=asked, clip=clip)
    if people is not None:
        theta, asked = ends_near(outcomes, fit, people, shares=shares, clip=clip)
    numbers = [
        float(max(site.records, 1)) if cohort is None or cohort.total is None else cohort.total
        for site, cohort in zip(sites, cohorts, strict=True)
    ]
    weights = site_weights(
        people=numbers,
        noise=[site.noise_sd**2 for site in sites],
        variance=float(np.trace(at_fit.covariance)) / len(theta),
    )
    D = len(theta)
    A, scores, counting, noise = np.zeros((D, D)), np.zeros((D, D)), np.zeros((D, D)), 0.0
    given, moved = [], []
    alike = at_fit if theta is fit.theta else expected(outcomes, theta, asked=asked, clip=clip)
    for site, cohort, w, n in zip(sites, cohorts, weights, numbers, strict=True):
        at = alike if cohort is None else expected(cohort.outcomes, theta, asked=asked, clip=clip)
        A += w * n * at.information
        scores += w * w * n * at.covariance
        counting += (w * site.records_sd) ** 2 * np.outer(at.mean, at.mean)
        noise += (w * site.noise_sd) ** 2
        if cohort is None:
            given.append(w * n * at.given)
        else:
            moved.append(w * n * cohort.deviations(theta, asked=asked, clip=clip))
    response = response_of(A)
    known = public_covariance(given, moved, whole=outcomes.whole, dimension=D)
    compared = next((each.outcomes for each in cohorts if each is not None), outcomes)
    whole = sum(w * n for w, n in zip(weights, numbers, strict=True))
    root, done, covariance = np.zeros_like(fit.covariance), 0.0, fit.covariance
    for share in shares:
        root, done = root + share * root_of(covariance), done + share
        spread = spread_of_slopes(compared, theta, asked=asked, root=root / done, clip=clip)
        found = PrivateEstimate(
            theta=theta,
            response=response,
            scores=scores,
            public=known + whole**2 / outcomes.whole * spread,
            noise=noise / done,
            counting=counting,
        )
        covariance = expected_covariance(found.covariance, fit, apart=theta - fit.theta)
    return found


def of_sums(private: PrivateEstimate) -> PredictedCovariance:
    """Return what an estimate from noisy sums errs by."""
    return PredictedCovariance(sampling=private.by_sampling, privacy=private.by_noise)
