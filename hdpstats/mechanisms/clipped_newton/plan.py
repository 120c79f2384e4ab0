r"""What an estimate from noisy sums will err by, before a sum is asked for.

At the public fit, taken for the truth, everything that `hdpstats.mechanisms.clipped_newton.estimate` says about errors
is known: the response, the sampling of private people, the noise. What is not is where the rounds will be asked. Scores
at a distance ``d`` from the truth have the mean :math:`m(x) \approx A_x d`, which differs between people, so that the
expectation over few public people errs, with covariance :math:`\mathrm{cov}(A_x d)\, N^2 / n_{pub}`. The first round is
asked at the public fit, ``d`` having its covariance; each later one at the pooled estimate of those before it, whose
covariance is found by the same formula, round by round. Distances of different rounds are taken to be perfectly
correlated, the worst case.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats.mechanisms.clipped_newton.estimate import PrivateEstimate
from hdpstats.mechanisms.clipped_newton.expectations import (
    between_people,
    expected,
    response_of,
    root_of,
    spread_of_slopes,
)
from hdpstats.mechanisms.score_sums import site_weights
from hdpstats.public.moments import PublicFit
from hdpstats.public.outcomes import Outcomes


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


def predicted_estimate(
    outcomes: Outcomes, fit: PublicFit, sites: Sequence[SiteSums], *, shares: Sequence[float], clip: float
) -> PrivateEstimate:
    """Return what the private estimate after all rounds will err by; ``shares``, 1 in sum, are those of the rounds."""
    at = expected(outcomes, fit.theta, asked=[(fit.theta, 1.0)], clip=clip)
    people = [float(max(site.records, 1)) for site in sites]
    noises = [site.noise_sd**2 for site in sites]
    weights = site_weights(people=people, noise=noises, variance=float(np.trace(at.covariance)) / len(fit.theta))
    whole = sum(w * n for w, n in zip(weights, people, strict=True))
    counting = sum((w * site.records_sd) ** 2 for w, site in zip(weights, sites, strict=True))
    noise = sum(w * w * square for w, square in zip(weights, noises, strict=True))
    response = response_of(whole * at.information)
    known = between_people(at.given, whole=outcomes.whole)
    root, done, covariance = np.zeros_like(fit.covariance), 0.0, fit.covariance
    for share in shares:
        root, done = root + share * root_of(covariance), done + share
        spread = spread_of_slopes(outcomes, fit.theta, asked=[(fit.theta, 1.0)], root=root / done, clip=clip)
        found = PrivateEstimate(
            theta=fit.theta,
            response=response,
            scores=sum(w * w * n for w, n in zip(weights, people, strict=True)) * at.covariance,
            public=whole**2 / outcomes.whole * (known + spread),
            noise=noise / done,
            counting=counting * np.outer(at.mean, at.mean),
        )
        covariance = np.linalg.inv(np.linalg.inv(found.covariance) + np.linalg.inv(fit.covariance))
    return found
