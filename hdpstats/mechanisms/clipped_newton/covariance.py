r"""Standard errors of fits by clipped scores: sampling of private and of public people, and noise.

`hdpstats.mechanisms.clipped_newton.estimate` says what the error of the private estimate is made of. The pooled
estimate
:math:`\theta_{pub} + W (u - \theta_{pub})` errs by ``W`` times that and :math:`(1 - W)` times the error of the public
fit, the difference between the sources included. With normal noise the errors are taken to be normal; after one round
with pure noise their distribution is drawn, as the noise has heavier tails. All of it is post-processing of released
and public numbers. Where several sites answered, each noise is drawn by itself, with the weight of its site.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.inference.across_sites import Heterogeneity, heterogeneity
from hdpstats.inference.sandwich import DRAWS, Estimates, SiteEstimate, public_only
from hdpstats.mechanisms.clipped_newton.estimate import Matched, PrivateEstimate
from hdpstats.mechanisms.clipped_newton.query import ClippedNewtonRelease
from hdpstats.noise.distributions import NoiseDistribution, NormalDistribution
from hdpstats.privacy.sensitivity import BallNorm
from hdpstats.public.moments import PublicFit
from hdpstats.records.estimate import ErrorDistribution, Estimate

ASSUMED = "Estimates and standard errors take private people to be distributed as the public ones"
ALIKE = f"{ASSUMED} in their covariates."
ALIKE_IN_FOLLOW_UP = f"{ASSUMED} in their covariates and in how long they are followed."
FOLLOWED_TO_HORIZON = f"{ASSUMED} in their covariates, and all of them to be followed to the horizon."
"""What the estimates rest on."""

Noises = Sequence[tuple[float, NoiseDistribution | NormalDistribution]]
"""Weights of sums with the distributions of the noise in them."""


def estimates(
    found: Matched,
    fit: PublicFit,
    releases: Sequence[ClippedNewtonRelease],
    *,
    T: FloatArray,
    terms: tuple[str, ...],
    note: str,
) -> Estimates:
    """Return the public-only, private-only and pooled estimates after the last round, and each site's own.

    ``releases`` are the last ones of the sites, in the order of ``found.sites``; ``T`` (p, D) maps whitened
    coefficients to those that ``terms`` (p) name; ``note`` says what the estimates rest on.
    """
    W, several = found.weight, len(releases) > 1
    apart = (np.eye(len(W)) - W) @ (fit.covariance + found.between) @ (np.eye(len(W)) - W).T
    distributions = [_noise(release, site) for release, site in zip(releases, found.sites, strict=True)]
    noises = list(zip(found.weights, distributions, strict=True))
    page = _Page(T=T, terms=terms, note=note, seeds=tuple(release.sha256 for release in releases))
    private = page.estimate("private only", found.private.theta, found.private, noises)
    own = [
        page.estimate("private only", site.theta, site, [(1.0, distribution)])
        for site, distribution in zip(found.sites, distributions, strict=True)
    ]
    return Estimates(
        public_only=public_only(fit, T, terms=terms),
        private_only=private,
        pooled=page.estimate("pooled", found.pooled, found.private, noises, weight=W, others=apart),
        sites=tuple(
            SiteEstimate(estimate=each, weight=share)
            for each, share in zip(own if several else [private], found.shares, strict=True)
        ),
        heterogeneity=_heterogeneity(found.sites, distributions, page) if several else None,
    )


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Page:
    """How estimates are written down: the coefficients' names and coordinates, a note, the seeds of draws."""

    T: FloatArray
    terms: tuple[str, ...]
    note: str
    seeds: tuple[str, ...]

    def estimate(
        self,
        label: str,
        theta: FloatArray,
        source: PrivateEstimate,
        noises: Noises,
        *,
        weight: FloatArray | None = None,
        others: FloatArray | None = None,
    ) -> Estimate:
        """Return an estimate that errs by ``weight`` times the error of ``source``, and by an error of its own."""
        D, T = len(theta), self.T
        response = T @ source.response if weight is None else T @ weight @ source.response
        rest = np.zeros((len(T), len(T))) if others is None else T @ others @ T.T
        return Estimate(
            label=label,
            terms=self.terms,
            values=T @ theta,
            sampling=response @ source.sampling @ response.T + rest,
            privacy=response @ (source.noise * np.eye(D) + source.counting) @ response.T,
            distribution=self._distribution(source, noises, response=response, others=rest),
            note=self.note,
        )

    def _distribution(
        self, source: PrivateEstimate, noises: Noises, *, response: FloatArray, others: FloatArray
    ) -> ErrorDistribution | None:
        """Return the distribution of the errors where a site's noise is not normal, None where it is."""
        if all(isinstance(distribution, NormalDistribution) for _, distribution in noises):
            return None
        rng = draws.generator(*self.seeds)
        sampled = draws.normal(rng, source.sampling + source.counting, DRAWS)
        for weight, distribution in noises:
            sampled += weight * draws.perturbation(rng, distribution, count=DRAWS)
        return ErrorDistribution.of_draws(sampled @ response.T + draws.normal(rng, others, DRAWS))


def _heterogeneity(
    sites: Sequence[PrivateEstimate], distributions: Sequence[NoiseDistribution | NormalDistribution], page: _Page
) -> Heterogeneity:
    """Return whether the sites agree: what public people err by, they err by alike, so that it cancels."""
    rng = draws.generator(*page.seeds)
    errors, variances = [], []
    for site, distribution in zip(sites, distributions, strict=True):
        own = site.scores + site.counting
        errors.append(
            (draws.normal(rng, own, DRAWS) + draws.perturbation(rng, distribution, count=DRAWS)) @ site.response.T
        )
        variances.append(site.response @ (own + site.noise * np.eye(len(own))) @ site.response.T)
    return heterogeneity(np.array([site.theta for site in sites]), variances, np.array(errors), T=page.T)


def _noise(release: ClippedNewtonRelease, site: PrivateEstimate) -> NoiseDistribution | NormalDistribution:
    """Return the distribution of the noise in a site's averaged sum."""
    if release.is_gaussian:
        return NormalDistribution(dimension=len(release.total), sd=site.noise**0.5)
    return NoiseDistribution(norm=BallNorm(), dimension=len(release.total), rate=release.noise_rate)
