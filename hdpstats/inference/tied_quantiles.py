r"""Errors of a private quantile of one outcome with ties, such as a count: through the distribution function.

A count's distribution function has steps, and no density that an error could be divided by. The released point
``theta`` solves

.. math:: n\{\hat F_h(\theta) - q\} + \Lambda(\theta - c) + b = 0,

``F_h`` being the distribution function of the outcome plus uniform noise on [-h, h]. So its level is known,

.. math:: F_h(\theta) = q - \{\Lambda(\theta - c) + b\} / n + s, \qquad s \sim N(0,\, q(1 - q)/n),

with the distribution of the noise ``b``. How far it is from there to the level ``q`` is read from the distribution
function ``G_h`` of public rows: drawn is the ``x`` with :math:`G_h(x) - G_h(\theta)` equal to what is left. The
quantile that R calls type 1, the least ``xi`` with :math:`F(\xi) \ge q`, is within ``h`` of every ``x`` with
:math:`F_h(x) = q`: at :math:`\xi + h` all outcomes up to ``xi`` count whole, so that ``F_h`` is at least ``q``, and at
:math:`\xi - h` only smaller ones count. The error of a draw is that of ``x``, made larger by ``h``: an interval of the
level 95 % holds what 95 % of the draws allow.

Everything is post-processing of a release and of public rows; what is assumed of these is the shape of the distribution
function near the quantile, and no more.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.inference.combination import ReleasedPoint
from hdpstats.inference.sandwich import DRAWS
from hdpstats.losses import SmoothedQuantile
from hdpstats.public.fit import WhitenedPublic
from hdpstats.public.likelihood import is_tied
from hdpstats.records.estimate import ErrorDistribution, Estimate, Estimates

TIED: Final = (
    "The outcome has ties: the interval is for the least value that a share q of private people or more do not exceed, "
    "as quantile(type = 1) in R. It takes outcomes near it to be distributed as in public rows."
)


AS_CONTINUOUS: Final = (
    "The outcome has ties: with case weights, an offset or several sites intervals take it for continuous, and need "
    "not hold its quantile."
)


def has_steps(public: WhitenedPublic) -> bool:
    """Return whether a fit is of a quantile without covariates, of an outcome that is tied in public rows."""
    y, loss = public.y, public.loss
    if not isinstance(loss, SmoothedQuantile) or y is None or not public.geometry.intercept or public.dimension > 1:
        return False
    return is_tied(y)


def is_plain(public: WhitenedPublic) -> bool:
    """Return whether everybody counts alike, without an offset."""
    return not public.offset.any() and bool(np.all(public.weights == 1.0))


def as_continuous(found: Estimates) -> Estimates:
    """Return estimates of a quantile of ties with a note that their errors take the outcome for continuous."""

    def noted(each: Estimate) -> Estimate:
        return replace(each, note=AS_CONTINUOUS if each.note is None else f"{each.note} {AS_CONTINUOUS}")

    return replace(
        found,
        private_only=noted(found.private_only),
        pooled=None if found.pooled is None else noted(found.pooled),
    )


def tied_quantile(found: Estimates, part: ReleasedPoint, public: WhitenedPublic, *, T: FloatArray) -> Estimates:
    """Return the estimates of a quantile without covariates with errors read through the distribution function.

    Parameters
    ----------
    found
        The estimates, whose points stay.
    part
        What one site was asked and answered; one coefficient, the intercept.
    public
        Public rows, for which `has_steps`.
    T
        From the scale of the loss to the outcome's unit (1, 1).
    """
    loss, y = public.loss, public.y
    if not isinstance(loss, SmoothedQuantile) or y is None:
        return found
    drawn, h = T[0, 0] * _drawn(part, loss, y), abs(T[0, 0]) * loss.h
    noise = _share_of_noise(part, loss)

    def with_errors(estimate: Estimate) -> Estimate:
        away = drawn - estimate.values[0]
        error = (away + np.where(away < 0.0, -h, h))[:, None]
        whole = float(np.mean(error**2))
        return replace(
            estimate,
            sampling=np.array([[whole * (1.0 - noise)]]),
            privacy=np.array([[whole * noise]]),
            distribution=ErrorDistribution.of_draws(error),
            note=TIED,
        )

    return replace(
        found,
        private_only=with_errors(found.private_only),
        pooled=None if found.pooled is None else with_errors(found.pooled),
        sites=tuple(replace(each, estimate=with_errors(each.estimate)) for each in found.sites),
    )


def _drawn(part: ReleasedPoint, loss: SmoothedQuantile, y: FloatArray) -> FloatArray:
    """Return the points (B,) that draws of the level put at ``q``."""
    rng, n = draws.generator(part.release.sha256, "tied"), max(part.records, 1)
    theta = float(part.theta[0])
    records = np.maximum(1.0 + part.records_sd / n * rng.standard_normal(DRAWS), 0.05) * n
    noise = part.noise.draw(rng, np.full((DRAWS, 1, 1), n / (2.0 * loss.h)))[:, 0]
    score = np.sqrt(loss.q * (1.0 - loss.q) / records) * rng.standard_normal(DRAWS)
    left = (part.ridge * (theta - float(part.centre[0])) + noise) / records - score
    knots = np.unique(np.concatenate([y - loss.h, y + loss.h, [theta]]))
    share = np.mean(loss.score(knots[:, None], y[None, :]), axis=1) + loss.q
    wanted = share[np.searchsorted(knots, theta)] + left
    return _first_at(share, knots, wanted)


def _first_at(share: FloatArray, knots: FloatArray, wanted: FloatArray) -> FloatArray:
    """Return the first points at which a piecewise linear, increasing function reaches levels (B,)."""
    place = np.clip(np.searchsorted(share, wanted - 1e-12), 1, len(knots) - 1)
    rise = share[place] - share[place - 1]
    part = np.clip(np.divide(wanted - share[place - 1], rise, out=np.zeros_like(wanted), where=rise > 0), 0.0, 1.0)
    return np.asarray(knots[place - 1] + part * (knots[place] - knots[place - 1]))


def _share_of_noise(part: ReleasedPoint, loss: SmoothedQuantile) -> float:
    """Return the share of privacy noise in the variance of the level."""
    noise = float(part.noise.covariance(np.full((1, 1), max(part.records, 1) / (2.0 * loss.h)))[0, 0])
    return noise / (noise + max(part.records, 1) * loss.q * (1.0 - loss.q))
