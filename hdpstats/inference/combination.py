r"""The private estimate of several sites, pooled with the public fit: point estimates and their weights.

Site ``j`` has the unshrunk estimate :math:`u_j` with the predicted covariance :math:`V_j = H_j^{-1} (J_j + N_j)
H_j^{-1}`: sampling :math:`J_j`, and the noise :math:`N_j` that is known to have been added. Given that all sites
estimate the same coefficients and err independently, the linear unbiased combination of least variance is that by
inverse variances (Hedges and Olkin 1985),

.. math:: u = \sum_j W_j u_j, \quad W_j = V V_j^{-1}, \quad V = \Bigl(\sum_j V_j^{-1}\Bigr)^{-1},

a fixed-effect meta-analysis of all coefficients at once. Meta-analyses of private estimates without public rows or
known noise weigh sites by their sizes or not at all (the baseline of Ji et al. 2014). The weights are computed from
public facts (numbers of people, epsilons, public rows) and from releases, never from a private count.

:math:`H_j, J_j` are evaluated at one common point, the current estimate: a small site's moments at its own noisy
estimate would be correlated with that estimate, and its weight with its error. With the public fit ``u`` is pooled as
one site's estimate is (`hdpstats.inference.sandwich`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference import across_sites
from hdpstats.inference.information import Information
from hdpstats.inference.parts import Part
from hdpstats.protocols.moments import Moments, PublicFit
from hdpstats.protocols.pooling import between_covariance

STEPS = 3
"""How often moments are computed anew at the last pooled point."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Known:
    """A site's part with what is known of its curvature."""

    part: Part
    information: Information


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Combined:
    """Point estimates in whitened coordinates, and what they were computed with.

    ``at``, ``unshrunk``, ``variances`` and ``shares`` (``W_j``) are of each site; ``private`` is ``u``; ``pooled`` is
    ``theta_pub + weight (u - theta_pub)``, the sources being ``between`` apart.
    """

    at: tuple[Moments, ...]
    unshrunk: tuple[FloatArray, ...]
    variances: tuple[FloatArray, ...]
    shares: tuple[FloatArray, ...]
    private: FloatArray
    pooled: FloatArray
    weight: FloatArray
    between: FloatArray


def shares(variances: Sequence[FloatArray]) -> tuple[FloatArray, ...]:
    """Return ``W_j = V V_j^-1`` (D, D): they add up to the identity, which one site has to the last bit."""
    if len(variances) == 1:
        return (np.eye(len(variances[0])),)
    return tuple(across_sites.shares(np.array(variances)))


def scalar_weight(share: FloatArray) -> float:
    """Return ``tr(W_j) / D``: a site's weight, averaged over directions.

    The eigenvalues of ``W_j`` are in [0, 1], as ``V_j^-1 <= V^-1``; so is the weight, and all sites' add up to 1.
    """
    return float(np.trace(share)) / len(share)


def weighted(shares: Sequence[FloatArray], values: Sequence[FloatArray]) -> FloatArray:
    """Return ``sum_j W_j v_j`` of vectors (D,) or of stacks (B, D)."""
    return np.asarray(sum(value @ share.T for share, value in zip(shares, values, strict=True)))


def combine_points(sites: Sequence[Known], fit: PublicFit | None) -> Combined:
    """Unshrink, combine and pool, three times where there is a public fit, each time with new moments."""
    found = _at(sites, fit, _start(sites))
    for _ in range(STEPS - 1 if fit is not None else 0):
        found = _at(sites, fit, found.pooled)
    return found


def _start(sites: Sequence[Known]) -> FloatArray:
    """Return the released points, weighted with moments at the first site's centre."""
    centre = sites[0].part.centre
    variances = [each.part.variance(each.information.at(centre)) for each in sites]
    return weighted(shares(variances), [each.part.theta for each in sites])


def _at(sites: Sequence[Known], fit: PublicFit | None, point: FloatArray) -> Combined:
    """Return the estimates with moments at a point (D,)."""
    at = tuple(each.information.at(point) for each in sites)
    unshrunk = tuple(each.part.unshrunk(moments.H) for each, moments in zip(sites, at, strict=True))
    variances = tuple(each.part.variance(moments) for each, moments in zip(sites, at, strict=True))
    W = shares(variances)
    u = pooled = weighted(W, unshrunk)
    weight, between = np.eye(len(u)), np.zeros((len(u), len(u)))
    if fit is not None:
        own = np.asarray(sum(share @ each @ share.T for share, each in zip(W, variances, strict=True)))
        covariance = own + fit.covariance
        between = between_covariance(u - fit.theta, covariance, parts=fit.parts)
        weight = (fit.covariance + between) @ np.linalg.inv(covariance + between)
        pooled = fit.theta + weight @ (u - fit.theta)
    return Combined(
        at=at,
        unshrunk=unshrunk,
        variances=variances,
        shares=W,
        private=u,
        pooled=pooled,
        weight=weight,
        between=between,
    )
