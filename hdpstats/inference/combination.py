r"""The private estimate of several sites, pooled with the public fit: point estimates and their weights.

Site ``j`` has the unshrunk estimate :math:`u_j` with the predicted covariance :math:`V_j = H_j^{-1} (J_j + N_j)
H_j^{-1}`: sampling :math:`J_j`, and the noise :math:`N_j` that is known to have been added. Given that all sites
estimate the same coefficients and err independently, the linear unbiased combination of least variance is that by
inverse variances (Hedges and Olkin 1985),

.. math:: u = \sum_j W_j u_j, \quad W_j = V V_j^{-1}, \quad V = \Bigl(\sum_j V_j^{-1}\Bigr)^{-1},

a fixed-effect meta-analysis of all coefficients at once. The weights are computed from public facts (numbers of people,
epsilons, public rows) and from releases, never from a private count. The baseline of Ji et al. (2014) weighs sites in
proportion to their numbers of records, though noise has a variance that falls with the square of these and of epsilon.

:math:`H_j, J_j` are evaluated at one common point, the current estimate: a small site's moments at its own noisy
estimate would be correlated with that estimate, and its weight with its error. With the public fit ``u`` is pooled as
one site's estimate is (`hdpstats.inference.pooling`).

**Locations.** The curvature of a location's loss, such as a quantile's, is the density of outcomes near the predictor.
Where private coefficients are not the public ones, public outcomes tell it under one of two suppositions:

* private outcomes lie about their own predictor as public ones about theirs: then it is that at the public fit;
* private outcomes are distributed as the public ones: then it is the curvature at the released points, between the
  public fit and ``u``. Farther on public outcomes end, and the inverse of a tiny curvature would lead farther yet.

Which one holds is not known. So their mean is taken, and errors are drawn half of the time from either: what
unshrinking would miss by is counted.

**Where curvature is evaluated.** The pooled point is an estimate. Where it is far off, as that of a rare category, the
curvature there may be much smaller or larger than at the truth, and errors would follow the error of the estimate. So
moments are averaged over `PLACES` points that stand for where the truth may be: the pooled point plus normal draws of
covariance

.. math:: C = \{V^{-1} + (V_{pub} + a^2 I)^{-1} + P\}^{-1},

``V`` that of the private estimate, ``a`` the scale of differences (`hdpstats.inference.pooling.SCALE`), and ``P`` the
precision of a weak prior, `WEAK` along each whitened direction: that of Gelman et al. (2008), who give a coefficient of
a column of unit spread the scale 2.5 / 2. The prior bounds how far the draws go where nothing is known; no estimate is
shrunk by it. The draws are the same for every release, and symmetric: the symmetric root of ``C`` times points of which
every coordinate has each stratum of the normal distribution once. Errors are drawn with the moments of each of these
points in turn.

**How the ridge is taken out.** The ridge may have pulled far, as where public people are treated by the opposite rule
and epsilon is small. Curvature varies on the way: that at its end is not by how much scores change. Where curvature
does not depend on outcomes, or hardly as that of counts, the mean of it on the way is,

.. math:: s(\hat\theta_j) - s(\theta_0) = \bar H_j (\hat\theta_j - \theta_0), \qquad
          \bar H_j = \int_0^1 H_j\{\theta_0 + t (\hat\theta_j - \theta_0)\} dt, \qquad
          u_j = \hat\theta_j + \bar H_j^{-1} \Lambda (\hat\theta_j - c),

with :math:`u_j - \theta_0 = -\bar H_j^{-1} (S + b)` exactly. :math:`\bar H_j` is averaged over the points that stand
for :math:`\theta_0`, and computed by two nodes each (`NODES`). With the curvature at the pooled point in its place an
estimate that was too far found little curvature there, and went farther: 95 % intervals covered .89 of the coefficients
at epsilon .15 with 4,000 people and opposite rules, and errors were three times as large (now .95, 200 data sets).
For losses of a location, and for hazards, where coefficients also change who stays at risk, the curvature at the pooled
point is taken as before. Sites are weighed with the curvature at the common point in all models, for the reason above.

**Bias.** Scores are not linear, so that :math:`\bar H_j` varies with the error that it is divided by. With ``s''`` the
derivative of the curvature, and :math:`m_j = -(H_j + \Lambda)^{-1} \Lambda (\theta_0 - c)` what the ridge pulls,
:math:`u_j` has the bias of second order

.. math:: -\tfrac12 \bar H_j^{-1} s''(\theta_0 + \tfrac23 m_j)[C_j], \qquad
          C_j = \{H_j(\theta_0 + m_j) + \Lambda\}^{-1} (J_j + N_j) \bar H_j^{-1},

as maximum likelihood has in small samples (Cox and Snell 1968), noise and ridge included: of :math:`C_j` the symmetric
part counts. It is of the order of one over the number of people and small beside the error of one site, whose estimate
is left as it is. But errors of many sites average out and their biases do not: with several sites it is taken off,
where curvature does not depend on outcomes, so that :math:`s''` is known from public rows. Derivatives are differences
over one standard deviation along each principal direction of :math:`C_j`: where errors are large scores flatten, and a
derivative would overstate. It is taken off at the last point: where moments are computed meanwhile, a shift of that
order changes them by little.

**Curvature of other outcomes.** Where curvature is that of outcomes, as a quantile's is the density of residuals, no
model says that of private people: covariates are described, outcomes are not. Trials of one disease have densities
that differ by a third. What was pulled is taken out with the wrong curvature then, and the released pull is known:

.. math:: (\tilde H^{-1} - H^{-1}) \Lambda (\hat\theta_j - c) \approx -H^{-1/2} E v, \qquad
          v = H^{-1/2} \Lambda (\hat\theta_j - c), \qquad \tilde H = H^{1/2} (I + E) H^{1/2}.

``E`` is taken to be a symmetric random matrix, its diagonal with the standard deviation :data:`OTHER_CURVATURE`, the
others with that over the root of two, so that no direction is distinguished. The error has the covariance

.. math:: \tfrac12 \kappa^2 H^{-1/2} (|v|^2 I + v v') H^{-1/2},

and is a part of the covariance due to privacy. ``E`` is the same at all sites, as they share the public outcomes; each
has its own pull. Errors of two sites have the covariance :math:`\tfrac12 \kappa^2 H_i^{-1/2} (v_i' v_j I + v_j v_i')
H_j^{-1/2}`. Where sums of private people's Hessians are released ``E`` counts as far as public rows do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np
from scipy.special import ndtri

from hdpstats._base.caching import remembered
from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.inference.information import Information, ScoreNoise
from hdpstats.inference.pooling import SCALE, Pooling, pool, pooled_point, symmetric_root
from hdpstats.public.moments import Moments, PublicFit, PublicSide
from hdpstats.records.averages import CohortMoments
from hdpstats.records.query import PointQuery, PointRelease

MOST_STEPS = 16
"""The largest number of steps to the point at which moments are computed."""

NEAR = 0.01
"""A step is short whose square, in variances of the pooled point, is at most this, averaged over coordinates."""

PLACES = 4
"""Points that stand for where the truth may be: an even number, as they lie in pairs on both sides."""

NODES = (0.5 - 0.5 / 3.0**0.5, 0.5 + 0.5 / 3.0**0.5)
"""Where curvature is evaluated on the way from a released point to a place: Gauss and Legendre's rule of two points."""

AT_CHANGE = 2.0 / 3.0
"""A share of the way: the mean curvature changes with the released point by half of what the curvature there does."""

OTHER_CURVATURE: Final = 0.45
"""``kappa``: by how much curvature that public outcomes tell may be off along a direction, relatively.

Of medians of log survival times in Rotterdam, with GBSG's patients as public people, it is off by half along some
directions. With 30,000 people and epsilon 1 intervals of one coefficient covered .52 without this part and cover .85
with it, all six .95 on average (800 fits).
"""

WEAK = 1.25
"""Standard deviation of the prior of these points along a whitened direction, in units of the loss's scale."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ReleasedPoint:
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
    meat : float or None
        A bound on the score's covariance over a released Hessian that is this site's own; None for the model's.
    records : int
        How many people the site has who count, as far as is publicly known.
    records_sd : float
        The standard deviation of the noise in that number; 0 where it is public.
    cohort : CohortMoments or None
        What was released about these people; None where it is taken that they are distributed as the public ones.
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
    records_sd: float = 0.0
    cohort: CohortMoments | None = None
    meat: float | None = None

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

    def variance(self, at: Moments, *, secant: FloatArray | None = None) -> FloatArray:
        """Return the covariance ``H^-1 (J + N) H^-1`` (D, D) of the unshrunk coefficients.

        ``H`` is the mean Hessian on the way to the truth where one is given, else that of the moments ``at`` it.
        """
        inverse = np.linalg.inv(at.H if secant is None else secant)
        return np.asarray(inverse @ (at.J + self.noise.covariance(at.H)) @ inverse)


def unshrink(theta: FloatArray, *, centre: FloatArray, ridge: float, H: FloatArray) -> FloatArray:
    """Return ``theta + H^-1 Lambda (theta - c)``."""
    return theta + np.linalg.solve(H, ridge * (theta - centre))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class InformedPoint:
    """A site's part with what is known of its curvature."""

    part: ReleasedPoint
    information: Information

    def between(self, place: FloatArray) -> tuple[FloatArray, ...]:
        """Return points (D,) the mean of whose Hessians says how scores change from the released point to a place (D,).

        Where that is not known of the information it is the place itself.
        """
        if not self.information.along_the_way:
            return (place,)
        theta = self.part.theta
        return tuple(theta + share * (place - theta) for share in NODES)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pulls:
    """What was pulled at each of k sites, and is taken out with curvature of other outcomes.

    ``roots`` (k, D, D) are ``H^-1/2``, ``pulled`` (k, D) are ``kappa v``, 0 where curvature is not of outcomes.
    """

    roots: FloatArray
    pulled: FloatArray

    @classmethod
    def of(cls, sites: Sequence[InformedPoint], hessians: Sequence[FloatArray]) -> "Pulls":
        """Return them with the Hessian (D, D) that each site's pull was taken out with.

        LinAlgError where that is not positive definite.
        """
        parts = np.array([OTHER_CURVATURE * each.information.of_outcomes for each in sites])
        if not parts.any():
            return cls(
                roots=np.zeros((len(sites), *hessians[0].shape)), pulled=np.zeros((len(sites), len(hessians[0])))
            )
        roots = np.array([_inverse_root(H) for H in hessians])
        scores = np.array([each.part.ridge * (each.part.theta - each.part.centre) for each in sites])
        return cls(roots=roots, pulled=parts[:, None] * np.einsum("jab,jb->ja", roots, scores))

    @property
    def covariances(self) -> FloatArray:
        """The covariance (k, D, D) of what is missed at each site."""
        square = np.sum(self.pulled**2, axis=1)[:, None, None]
        moved = np.einsum("jab,jb->ja", self.roots, self.pulled)
        return np.asarray(0.5 * (square * self.roots @ self.roots + moved[:, :, None] * moved[:, None, :]))

    def covariance(self, shares: Sequence[FloatArray] | FloatArray) -> FloatArray:
        """Return the covariance (D, D) of what an average with weights (D, D) of each site misses."""
        if not self.pulled.any():
            return np.zeros_like(self.roots[0])
        whole = np.tensordot(np.asarray(shares) @ self.roots, self.pulled, axes=(0, 0))
        one, other = (each.reshape(len(whole), -1) for each in (whole, np.swapaxes(whole, 1, 2)))
        return np.asarray(0.5 * (one + other) @ one.T)

    def draw(self, rng: draws.Generator, count: int) -> FloatArray:
        """Return draws (k, count, D) of what is missed at each site.

        Of ``E`` only what it does to the pulls is drawn.
        """
        if not self.pulled.any():
            return np.zeros((len(self.pulled), count, self.pulled.shape[1]))
        Q = np.linalg.qr(self.pulled.T)[0]
        A = rng.standard_normal((count, len(Q), Q.shape[1]))
        within = Q.T @ A
        E = 0.5 * Q @ (within + np.swapaxes(within, 1, 2)) + (A - Q @ within) / 2.0**0.5
        moved = np.transpose(E @ (self.pulled @ Q).T, (2, 1, 0))
        return np.asarray(-np.swapaxes(self.roots @ moved, 1, 2))


def _inverse_root(H: FloatArray) -> FloatArray:
    """Return the symmetric ``H^-1/2`` (D, D)."""
    sizes, axes = np.linalg.eigh(H)
    if not sizes[0] > 0.0:
        raise np.linalg.LinAlgError("curvature is not positive definite")
    return np.asarray((axes / np.sqrt(sizes)) @ axes.T)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Combined:
    """Point estimates in whitened coordinates, and what they were computed with.

    Of each site: ``at`` are moments at the places, ``secants`` the mean Hessians on the way there, with which the ridge
    was taken out, ``variances`` the covariances by the moments at the places, which sites are weighed by, ``along``
    those by the mean Hessians, which the errors have, and ``shares`` are ``W_j``. ``private`` is ``u``; ``pooled`` is
    that of ``pooling``, or ``u`` without a public fit; ``places`` are where curvature is drawn, as often at each;
    ``allowance`` (D, D) is the covariance of an error that all sites share; ``pulls`` are what curvature of other
    outcomes is taken out of, at each site.
    """

    at: tuple[Moments, ...]
    secants: tuple[FloatArray, ...]
    unshrunk: tuple[FloatArray, ...]
    variances: tuple[FloatArray, ...]
    along: tuple[FloatArray, ...]
    shares: FloatArray
    private: FloatArray
    pooled: FloatArray
    places: tuple[FloatArray, ...]
    pooling: Pooling | None
    allowance: FloatArray
    pulls: Pulls

    @property
    def covariance(self) -> FloatArray:
        """The covariance (D, D) of ``u``."""
        pairs = zip(self.shares, self.along, strict=True)
        own = sum(share @ each @ share.T for share, each in pairs)
        return np.asarray(self.allowance + self.pulls.covariance(self.shares) + own)


def shares(covariances: Sequence[FloatArray] | FloatArray) -> FloatArray:
    """Return the weights ``W`` (k, p, p) of estimates with covariances (k, p, p): they add up to the identity.

    That of a single estimate is the identity to the last bit.

    Examples
    --------
    >>> shares(np.array([[[1.0]], [[3.0]]])).ravel().round(6).tolist()
    [0.75, 0.25]
    """
    if len(covariances) == 1:
        return np.eye(len(covariances[0]))[None]
    precision = np.linalg.inv(covariances)
    return np.asarray(np.linalg.solve(precision.sum(axis=0), precision))


def scalar_weight(share: FloatArray) -> float:
    """Return ``tr(W_j) / D``: a site's weight, averaged over directions.

    The eigenvalues of ``W_j`` are in [0, 1], as ``V_j^-1 <= V^-1``; so is the weight, and all sites' add up to 1.
    """
    return float(np.trace(share)) / len(share)


def weighted(shares: Sequence[FloatArray] | FloatArray, values: Sequence[FloatArray]) -> FloatArray:
    """Return ``sum_j W_j v_j`` of vectors (D,) or of stacks (B, D)."""
    return np.asarray(sum(value @ share.T for share, value in zip(shares, values, strict=True)))


def combine_points(
    sites: Sequence[InformedPoint], fit: PublicFit | None, *, allowance: FloatArray | None = None
) -> Combined:
    """Unshrink, combine and pool, mostly three times where there is a public fit, each time with new moments.

    Where little is known, a point at which there is much curvature may lead to a far one at which there is little, and
    that back to the first. So from the second step on half of each step is made, until a step is short.

    Moments of a location's loss are the means of those at the public fit and at the released points. ``allowance``
    (D, D) is the covariance of an error that all sites share (`hdpstats.public.row_weights`): none averages out.
    """
    point = _start(sites)
    common = np.zeros((len(point), len(point))) if allowance is None else allowance
    if fit is None:
        return _unbiased(sites, _at(sites, [point], common), point)
    if any(each.information.located for each in sites):
        places = (fit.theta, point)
        combined = _at(sites, places, common)
        pooling = pool(combined.private, combined.covariance, fit)
        return replace(combined, pooled=pooling.point, pooling=pooling, places=places)
    for step in range(MOST_STEPS):
        combined = _at(sites, [point], common)
        moved = pooled_point(combined.private, combined.covariance, fit) - point
        point = point + (0.5 * moved if step else moved)
        if step and moved @ _precision(combined.covariance, fit) @ moved <= NEAR * len(moved):
            break
    apart = likely(combined.covariance, fit)
    combined = _unbiased(sites, _at(sites, tuple(point + apart), common), point)
    pooling = pool(combined.private, combined.covariance, fit)
    return replace(combined, pooled=pooling.point, pooling=pooling, places=tuple(pooling.point + apart))


def likely(covariance: FloatArray, fit: PublicFit) -> FloatArray:
    """Return how far points (k, D) lie from a pooled one that stand for where the truth may be.

    ``covariance`` (D, D) is that of the private estimate.
    """
    D = len(covariance)
    sizes, axes = np.linalg.eigh(_precision(covariance, fit) + (WEAK * fit.unit) ** -2.0 * np.eye(D))
    return np.asarray(_strata(D) @ (axes / np.sqrt(sizes)) @ axes.T)


def _precision(covariance: FloatArray, fit: PublicFit) -> FloatArray:
    """Return the precision (D, D) of a pooled point, where differences are of the scale expected beforehand."""
    public = np.linalg.inv(fit.error + (SCALE * fit.unit) ** 2 * np.eye(len(covariance)))
    return np.asarray(np.linalg.inv(covariance) + public)


@remembered(8)
def _strata(dimension: int) -> FloatArray:
    """Return standard normal points (`PLACES`, D) of which each coordinate takes every stratum, in opposite pairs.

    Their mean is 0 and the second moment of each coordinate is 1.
    """
    half = PLACES // 2
    rng = draws.nodes()
    sizes = ndtri(0.5 + 0.5 * draws.latin_hypercube(rng, dimension, half)).T
    found = np.where(rng.random((half, dimension)) < 0.5, -sizes, sizes)
    return np.asarray(np.concatenate([found, -found]) / np.sqrt(np.mean(sizes**2, axis=0)))


def _start(sites: Sequence[InformedPoint]) -> FloatArray:
    """Return the released points, weighted with moments at the first site's centre."""
    centre = sites[0].part.centre
    variances = [each.part.variance(each.information.at(centre)) for each in sites]
    return weighted(shares(variances), [each.part.theta for each in sites])


def _at(sites: Sequence[InformedPoint], places: Sequence[FloatArray], allowance: FloatArray) -> Combined:
    """Return the estimates with the mean of moments at some points (D,), not pooled."""
    at = tuple(each.information.over(places) for each in sites)
    secants = tuple(_secant(each, places, moments) for each, moments in zip(sites, at, strict=True))
    unshrunk = tuple(each.part.unshrunk(H) for each, H in zip(sites, secants, strict=True))
    pulls = Pulls.of(sites, secants)
    variances = tuple(
        each.part.variance(moments) + more for each, moments, more in zip(sites, at, pulls.covariances, strict=True)
    )
    along = tuple(each.part.variance(moments, secant=H) for each, moments, H in zip(sites, at, secants, strict=True))
    W = shares(variances)
    u = weighted(W, unshrunk)
    return Combined(
        at=at,
        secants=secants,
        unshrunk=unshrunk,
        variances=variances,
        along=along,
        shares=W,
        private=u,
        pooled=u,
        places=(u,),
        pooling=None,
        allowance=allowance,
        pulls=pulls,
    )


def missed(H: FloatArray, pull: FloatArray) -> FloatArray:
    """Return the covariance (D, D) of what curvature of other outcomes misses of a pull.

    ``pull`` (D, D) are second moments of the ridge times how far coefficients are from its centre. LinAlgError where
    the curvature ``H`` is not positive definite.
    """
    root = np.linalg.inv(np.linalg.cholesky(H))  # any root does, as E distinguishes no direction
    V = root @ pull @ root.T
    return np.asarray(0.5 * OTHER_CURVATURE**2 * root.T @ (np.trace(V) * np.eye(len(V)) + V) @ root)


def common(shares: Sequence[FloatArray] | FloatArray, covariances: Sequence[FloatArray]) -> FloatArray:
    """Return the covariance (D, D) of an average of errors that go together as far as they can, from those at sites."""
    if not any(each.any() for each in covariances):
        return np.zeros_like(covariances[0])
    whole = sum(share @ symmetric_root(each) for share, each in zip(shares, covariances, strict=True))
    return np.asarray(whole @ np.transpose(whole))


def _secant(site: InformedPoint, places: Sequence[FloatArray], at: Moments) -> FloatArray:
    """Return the mean Hessian (D, D) between the released point and some places (D,), of which ``at`` are moments."""
    if not site.information.along_the_way:
        return at.H
    return site.information.hessian_over([point for place in places for point in site.between(place)])


def _unbiased(sites: Sequence[InformedPoint], found: Combined, point: FloatArray) -> Combined:
    """Return estimates with moments at a point (D,) without the biases of several sites."""
    if len(sites) == 1:
        return found
    biases = [bias(each, at, point=point) for each, at in zip(sites, found.at, strict=True)]
    unshrunk = tuple(u - each for u, each in zip(found.unshrunk, biases, strict=True))
    u = weighted(found.shares, unshrunk)
    return replace(found, unshrunk=unshrunk, private=u, pooled=u, places=(u,))


def bias(site: InformedPoint, at: Moments, *, point: FloatArray) -> FloatArray:
    """Return the bias of a site's unshrunk estimate (D,), for moments ``at`` a point (D,); 0 where it is not known."""
    part, information = site.part, site.information
    if not information.canonical:
        return np.zeros_like(point)
    identity = np.eye(len(point))
    pulled = -np.linalg.solve(at.H + part.ridge * identity, part.ridge * (point - part.centre))
    way = information.hessian_over([point + share * pulled for share in NODES])
    there = information.hessian_over([point + pulled]) + part.ridge * identity
    C = np.linalg.inv(there) @ (at.J + part.noise.covariance(at.H)) @ np.linalg.inv(way)
    sizes, directions = np.linalg.eigh(0.5 * (C + C.T))
    steps = (directions * np.sqrt(np.maximum(sizes, 0.0))).T
    change = information.hessian_change(point + AT_CHANGE * pulled, steps)
    return np.asarray(-0.25 * np.linalg.solve(way, change))
