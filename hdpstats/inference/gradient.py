r"""Standard errors of fits by clipped scores: sampling of private and of public people, and noise.

`hdpstats.protocols.matching` says what the error of the private estimate is made of. The pooled estimate
:math:`\theta_{pub} + W (u - \theta_{pub})` errs by ``W`` times that and :math:`(1 - W)` times the error of the public
fit, the difference between the sources included. With normal noise the errors are taken to be normal; after one round
with pure noise their law is drawn, as the noise has heavier tails. All of it is post-processing of released and public
numbers.
"""

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.inference.estimate import ErrorLaw, Estimate
from hdpstats.inference.sandwich import DRAWS, Estimates, public_only
from hdpstats.mechanisms.knorm import NoiseLaw
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
    release: GradientRelease,
    *,
    T: FloatArray,
    terms: tuple[str, ...],
    note: str,
) -> Estimates:
    """Return the public-only, private-only and pooled estimates after the last round.

    ``release`` is that round's; ``T`` (p, D) maps whitened coefficients to those that ``terms`` (p) name; ``note`` says
    what the estimates rest on.
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
            law=_law(found, release, response=response, others=T @ others @ T.T),
            note=note,
        )
        for label, (theta, response, others) in parts.items()
    }
    return Estimates(
        public_only=public_only(fit, T, terms=terms), private_only=made["private only"], pooled=made["pooled"]
    )


def _law(found: Matched, release: GradientRelease, *, response: FloatArray, others: FloatArray) -> ErrorLaw | None:
    """Return the law of the errors where the noise is not normal; None stands for the normal law."""
    if release.is_gaussian:
        return None
    rng = draws.generator(release.sha256)
    law = NoiseLaw(norm=BallNorm(), dimension=len(release.total), rate=release.noise_rate)
    sampled = draws.normal(rng, found.sampling + found.counting, DRAWS) + draws.perturbation(rng, law, count=DRAWS)
    return ErrorLaw.of_draws(sampled @ response.T + draws.normal(rng, others, DRAWS))
