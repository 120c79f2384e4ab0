r"""Standard errors of fits by clipped scores: sampling of private and of public people, and noise.

`hdpstats.protocols.matching` says what the error of the private estimate is made of. The pooled estimate
:math:`\theta_{pub} + W (u - \theta_{pub})` errs by ``W`` times that and :math:`(1 - W)` times the error of the public
fit, the difference between the sources included. With normal noise the errors are taken to be normal; after one round
with pure noise their law is drawn, as the noise has heavier tails. All of it is post-processing of released and public
numbers. Where several sites answered, each noise is drawn by itself, with the weight of its site.
"""

from collections.abc import Sequence

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.inference.estimate import ErrorLaw, Estimate
from hdpstats.inference.sandwich import DRAWS, Estimates, public_only
from hdpstats.mechanisms.knorm import NoiseLaw, NormalLaw
from hdpstats.privacy.sensitivity import BallNorm
from hdpstats.protocols.matching import Matched
from hdpstats.protocols.moments import PublicFit
from hdpstats.queries.gradient import GradientRelease

ASSUMED = "Estimates and standard errors take private people to be distributed as the public ones"
ALIKE = f"{ASSUMED} in their covariates."
ALIKE_IN_FOLLOW_UP = f"{ASSUMED} in their covariates and in how long they are followed."
FOLLOWED_TO_HORIZON = f"{ASSUMED} in their covariates, and all of them to be followed to the horizon."
"""What the estimates rest on."""


def estimates(
    found: Matched,
    fit: PublicFit,
    releases: Sequence[GradientRelease],
    *,
    seed: str,
    T: FloatArray,
    terms: tuple[str, ...],
    note: str,
) -> Estimates:
    """Return the public-only, private-only and pooled estimates after the last round.

    ``releases`` are the last ones of the sites, in the order of ``found.weights``; ``seed`` is the SHA-256 of what was
    released; ``T`` (p, D) maps whitened coefficients to those that ``terms`` (p) name; ``note`` says what the estimates
    rest on.
    """
    D, W = len(fit.theta), found.weight
    identity = np.eye(D)
    apart = (identity - W) @ (fit.covariance + found.between) @ (identity - W).T
    parts = {
        "private only": (found.private, T @ found.response, np.zeros((D, D))),
        "pooled": (found.pooled, T @ W @ found.response, apart),
    }
    made = {
        label: Estimate(
            label=label,
            terms=terms,
            values=T @ theta,
            sampling=response @ found.sampling @ response.T + T @ others @ T.T,
            privacy=response @ (found.noise * identity + found.counting) @ response.T,
            law=_law(found, releases, seed=seed, response=response, others=T @ others @ T.T),
            note=note,
        )
        for label, (theta, response, others) in parts.items()
    }
    return Estimates(
        public_only=public_only(fit, T, terms=terms), private_only=made["private only"], pooled=made["pooled"]
    )


def _law(
    found: Matched, releases: Sequence[GradientRelease], *, seed: str, response: FloatArray, others: FloatArray
) -> ErrorLaw | None:
    """Return the law of the errors where a site's noise is not normal; None stands for the normal law."""
    if all(release.is_gaussian for release in releases):
        return None
    rng = draws.generator(seed)
    sampled = draws.normal(rng, found.sampling + found.counting, DRAWS)
    for weight, release in zip(found.weights, releases, strict=True):
        sampled += weight * draws.perturbation(rng, _noise(release), count=DRAWS)
    return ErrorLaw.of_draws(sampled @ response.T + draws.normal(rng, others, DRAWS))


def _noise(release: GradientRelease) -> NoiseLaw | NormalLaw:
    """Return the law of a round's noise."""
    if release.is_gaussian:
        return NormalLaw(dimension=len(release.total), sd=release.noise_sd)
    return NoiseLaw(norm=BallNorm(), dimension=len(release.total), rate=release.noise_rate)
