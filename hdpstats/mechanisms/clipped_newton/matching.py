r"""Noisy sums of clipped scores matched with their expectations over public people, at one site or at several.

Sites :math:`j` with :math:`n_j` people were asked in rounds :math:`t` at public coefficients :math:`\theta_t`, the same
for all of them, and answered by :math:`G_{jt} = \sum_i g_t(X_i, Y_i) + b_{jt}`, ``b_jt`` noise of variance
:math:`\sigma_{jt}^2` in each coordinate. Within a site the rounds that it answered are averaged with shares
:math:`q_{jt}` that sum to 1: the averaged sum :math:`\bar G_j` of :math:`\bar g_j = \sum_t q_{jt} g_t` has noise of
variance :math:`\sigma_j^2 = \sum_t q_{jt}^2 \sigma_{jt}^2`.

**The average of the rounds.** A sum is asked for beside the truth :math:`\theta`, and how scores change between the
two, public people tell. Where private people have the information :math:`H (I + E)` in place of ``H``, a sum at
:math:`\theta_t` leads to an estimate :math:`e_t` that is off by :math:`-E (\theta_t - \theta)`, and an average of sums
to one that is off by as much for the average of the places. ``E`` is not known: its numbers are taken for independent,
with mean 0 and variance :math:`m^2 / D`, ``m`` = :data:`MISSED`, so that about ``m`` of a distance is hidden along each
coordinate; where rounds show more, by the regression of the :math:`e_t` on the :math:`\theta_t` along a coordinate
``k`` less :data:`SURELY` standard errors by noise, that is :math:`m_k`. Between rounds ``E`` may differ by the share
``m``. With the variance :math:`v_{tk}` of what the noise of a round's sum adds to a coordinate, an average errs by

.. math:: \sum_t q_t^2 (v_{tk} + m^2 m_k^2 \Delta_{tk}^2) + m_k^2 \Big(\sum_t q_t \Delta_{tk}\Big)^2, \qquad
    \Delta_t = \theta_t - e_t,

as the average of the estimates stands for the truth. The shares make the sum over coordinates the least, each in units
of the variance :math:`1 / \sum_t v_{tk}^{-1}` of its noise in an average by noise alone. With few people or a small
epsilon they are as :math:`1 / v_t`, and nothing of the budget is lost on rounds that were asked far off. With many
people it is the average whose estimate is where its sums were asked: where public people have half the information of
private ones, rounds go from one side of it to the other. Of :math:`\sum_t |q_t| |\theta_t - \bar e|`, averaged over
sites by information, less what noise makes of it, the share ``m`` counts as an error where it is more than what was
foreseen.

*Before a sum is asked for* distances are not known: the first round is asked ``d_1`` = .2 units from the truth along
each coordinate, each later one at the estimate of those before,

.. math:: d_t = m \sum_{s < t} q_s d_s \Big/ \sum_{s < t} q_s, \qquad q_t \propto 1 / \{v_t + (m d_t)^2\},

``v_t`` that of a slope with the mean information, and :math:`m \sum_t q_t d_t` is the standard deviation of what is
hidden, as if all rounds hid a part of the same sign: a part of the allowance for the clip. For 300,000 people and
logistic slopes it is half of the sampling error; an average by noise alone hides twice that error, however many people
there are.

**Sites.** They are combined as :math:`\bar G = \sum_j w_j \bar G_j`. A person's averaged score has about the covariance
``c I`` in whitened coordinates and the information ``a I``, whatever the site, so that a site alone would estimate with
variance :math:`v_j / (n_j a)^2`, :math:`v_j = n_j c + \sigma_j^2`, and all of them together with

.. math:: \sum_j w_j^2 v_j \Big/ \Big(a \sum_j w_j n_j\Big)^2 \;\ge\; 1 \Big/ \sum_j \frac{(n_j a)^2}{v_j},

by the inequality of Cauchy and Schwarz, with equality where

.. math:: w_j \propto \frac{n_j}{n_j c + \sigma_j^2}:

what estimates of each site, averaged by inverse variance, would reach, but without a nonlinear problem at each site,
which a small one could not solve. *Sums must not be added as they are:* with all weights 1 a site of few people, or one
that spends little, adds the whole of its noise, :math:`\sigma_j^2`, and hardly any information, and the sum is worse
than without it. The largest weight is 1. ``c`` is the mean eigenvalue of the covariance of one clipped score at the
public fit: weights are functions of public facts (declared or noisy numbers of people, variances of noise), never of a
sum, whose noise they would chase.

**Matching.** With expectations over public people and all their outcomes
(`hdpstats.mechanisms.clipped_newton.expectations`), for each distinct average ``q`` (sites that missed the later rounds
have another one than the others), :math:`N_q = \sum w_j n_j` over its sites,

.. math:: m_q(x; \theta) = E_\theta\{\bar g_q(x, Y) \mid x\}, \qquad M(\theta) = \sum_q N_q\,E\,m_q(X; \theta), \qquad
          A = -\frac{\partial M}{\partial\theta} = -\sum_q N_q\,E\{\bar g_q\, \nabla\log p_\theta(Y \mid X)'\},

the private estimate solves :math:`M(\theta) = \bar G`. Clipping biases scores, and the same clipping is in ``M``: the
estimate is consistent whatever the clip, as far as private people, at all sites, are distributed as the public ones.

It is pooled with the public fit: with :math:`u = \theta - A^{-1}\{\bar G - M(\theta)\}` the private estimate
linearised at :math:`\theta`, :math:`\theta = \theta_{pub} + K (u - \theta_{pub})`, with ``K`` as
`hdpstats.inference.pooling` has it. Iterated to a fixed point this is Gauss and Newton's method for the nonlinear
problem; the public fit keeps it where the expectations exist, however large the noise is.

**Errors.** The error of :math:`u` is about :math:`A^{-1}` times independent parts, the sign aside:

* *sampling of private people*, covariance :math:`\sum_q S_q\,\mathrm{cov}(\bar g_q)`, :math:`S_q = \sum w_j^2 n_j`;
* *sampling of public people*, covariance :math:`\mathrm{cov}\{\sum_q N_q m_q(X; \theta)\} / n_{pub}`, whatever the
  number of sites, as all are compared with the same public people: zero for scores without bias at the truth, else what
  an expectation over few people costs. At the truth, which is ``d`` away from the estimate, it is larger by that of
  :math:`\sum_q N_q A_{q,x} d`, averaged over the errors ``d`` of the pooled estimate: much where one round was asked at
  the public fit, little where the last round was asked near the truth;
* *noise*, covariance :math:`\sum_j w_j^2 \sigma_j^2\, I`: each site adds its own. Where :math:`n_j` is itself a noisy
  number with variance :math:`s_j^2`, :math:`\sum_j w_j^2 s_j^2\, E\,m_q\, E\,m_q'`.

References
----------
H. Künsch, L. Stefanski, R. Carroll (1989), Conditionally unbiased bounded-influence estimation in general regression
models. L. P. Hansen (1982), Large sample properties of generalized method of moments estimators.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.families.outcomes import Outcomes
from hdpstats.inference.pooling import Pooling, pool
from hdpstats.mechanisms.clipped_newton.expectations import (
    Expected,
    RakedSite,
    between_people,
    expected,
    response_of,
    root_of,
    spread_of_slopes,
)
from hdpstats.mechanisms.score_sums import SiteAnswers, site_weights
from hdpstats.public.moments import PublicFit

MISSED = 0.2
"""The share of a distance that is not seen where private people are described by averages, about."""

SURELY = 2.0
"""So many standard errors of the share that rounds show to be missed are taken off it."""

TINY = 1e-300


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Averaging:
    """How the sums of rounds are averaged.

    Attributes
    ----------
    costs : tuple of float
        The shares of the rounds in what they cost, 1 in sum.
    noise : float
        What the noise of all sites that are asked is said to add to the variance of a slope in an average by these.
    first : float
        How far from the truth the first round is asked, along each coordinate.
    slopes : (p,) int64
        The coordinates whose errors are foreseen.

    Examples
    --------
    >>> for noise in (1.0, 1e-12):
    ...     averaging = Averaging(costs=(0.1, 0.3, 0.6), noise=noise, first=0.2, slopes=np.arange(2))
    ...     print([round(each, 3) for each in averaging.planned], round(averaging.hidden, 4))
    [0.1, 0.3, 0.6] 0.0083
    [0.002, 0.05, 0.948] 0.0022
    >>> [round(each, 3) for each in replace(averaging, noise=1.0).raised]
    [10.0, 2.5, 1.0]
    """

    costs: tuple[float, ...]
    noise: float
    first: float
    slopes: IntArray

    @property
    def planned(self) -> tuple[float, ...]:
        """The shares before a sum is asked for, 1 in sum."""
        weights = self._foreseen[0]
        return tuple(weight / sum(weights) for weight in weights)

    @property
    def raised(self) -> tuple[float, ...]:
        """The variance of the noise in the planned average of the first rounds, over that of all by what they cost."""
        shares = self.planned
        return tuple((np.cumsum(np.square(shares) / self.costs) / np.cumsum(shares) ** 2).tolist())

    @property
    def hidden(self) -> float:
        """The standard deviation of what distances are then said to hide of a coordinate."""
        return MISSED * float(np.dot(self.planned, self._foreseen[1]))

    @property
    def _foreseen(self) -> tuple[list[float], list[float]]:
        """The weights of the rounds, and how far from the truth each is asked."""
        weights: list[float] = []
        distances: list[float] = []
        for cost in self.costs:
            distances.append(MISSED * float(np.average(distances, weights=weights)) if distances else self.first)
            weights.append(1.0 / (self.noise / cost + (MISSED * distances[-1]) ** 2))
        return weights, distances


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RoundEstimates:
    """The first rounds of a fit.

    Attributes
    ----------
    places, ends : (t, D) float64
        Where each round was asked, and the estimate that its sums lead to.
    noise : (t, D) float64
        What its noise adds to the variance of that estimate.

    Examples
    --------
    Public people who have half the information send the rounds from one side to the other. With much noise that is
    not seen:

    >>> places, ends = np.array([[0.3], [-0.3], [0.27]]), np.array([[-0.3], [0.27], [-0.25]])
    >>> costs = np.array([[0.1], [0.3], [0.6]])
    >>> for noise in (1e-6, 1.0):
    ...     estimates = RoundEstimates(places=places, ends=ends, noise=noise / costs)
    ...     print(estimates.missed.round(2).tolist(), estimates.shares.round(2).tolist())
    [0.91] [0.21, 0.49, 0.3]
    [0.2] [0.1, 0.3, 0.6]
    """

    places: FloatArray
    ends: FloatArray
    noise: FloatArray

    def first(self, rounds: int) -> "RoundEstimates":
        """Return the first of these rounds."""
        return RoundEstimates(places=self.places[:rounds], ends=self.ends[:rounds], noise=self.noise[:rounds])

    @property
    def missed(self) -> FloatArray:
        """Which share of a distance is missed along each coordinate (D,), at least `MISSED`.

        It is the slope of ends on places, by inverse variances of noise. A place has the noise of the rounds before,
        which makes for a slope of -1 where noise is as large as distances: then its standard error is large, too.
        """
        precisions = 1.0 / np.maximum(self.noise, TINY)
        x, y = (each - np.average(each, axis=0, weights=precisions) for each in (self.places, self.ends))
        squares = np.maximum(np.sum(precisions * x**2, axis=0), TINY)
        slopes = np.abs(np.sum(precisions * x * y, axis=0)) / squares
        return np.asarray(np.maximum(MISSED, slopes - SURELY / np.sqrt(squares)))

    @property
    def shares(self) -> FloatArray:
        """The shares (t,) of the rounds in their average, 1 in sum."""
        units = np.sqrt(np.sum(1.0 / np.maximum(self.noise, TINY), axis=0))
        apart = self.missed * (self.places - self.ends) * units
        errors = np.diag(np.sum(self.noise * units**2 + (MISSED * apart) ** 2, axis=1)) + apart @ apart.T
        found = np.linalg.solve(errors, np.ones(len(apart)))
        return np.asarray(found / np.sum(found))

    @property
    def distances(self) -> tuple[FloatArray, FloatArray]:
        """How far from their average's estimate rounds were asked, on average (D,), and its variance by noise (D,)."""
        shares = self.shares
        return np.abs(shares) @ np.abs(self.places - shares @ self.ends), shares**2 @ self.noise


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
    described : (sets, D) float64, or None
        By how much what it is compared with differs between draws of people who were described, 0 on average. Draws
        of two sites are of the same public people, and of averages of their own.
    allowance : (D, D) float64, or None
        Covariance of a further error of the estimate, which all sites share
        (`hdpstats.mechanisms.clipped_newton.clip`): a part of privacy.
    """

    theta: FloatArray
    response: FloatArray
    scores: FloatArray
    public: FloatArray
    noise: float
    counting: FloatArray
    described: FloatArray | None = None
    allowance: FloatArray | None = None

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
        """Covariance of the estimate's error by noise and by clipping."""
        of_sums = self.noise * np.eye(len(self.theta)) + self.counting
        found = np.asarray(self.response @ of_sums @ self.response.T)
        return found if self.allowance is None else found + self.allowance

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


def linearised(
    theta: FloatArray, parts: Sequence[SitePart], *, whole: int, allowance: FloatArray | None = None
) -> PrivateEstimate:
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
        described=_sum(moved) if moved else None,
        allowance=allowance,
    )


def public_covariance(
    given: Sequence[FloatArray], moved: Sequence[FloatArray], *, whole: int, dimension: int
) -> FloatArray:
    """Return the covariance (D, D) of expectations: over public people (people, D), and over draws of raked ones."""
    covariance = np.zeros((dimension, dimension))
    if given:
        covariance += between_people(_sum(given), whole=whole) / whole
    if moved:
        together = _sum(moved)
        covariance += together.T @ together / len(together)
    return covariance


def _sum(parts: Sequence[FloatArray]) -> FloatArray:
    """Return the sum of parts, of as many rows as the shortest has."""
    rows = min(len(part) for part in parts)
    total = np.zeros_like(parts[0][:rows])
    for part in parts:
        total += part[:rows]
    return total


ITERATIONS = 30
SETTLED = 4
"""Iterations in which the scales of what separates the sources are drawn anew; then they stay."""

LONGEST = 1.5
"""The largest change of a coefficient in one iteration."""

TOLERANCE = 1e-9
DIGITS = 9
"""Digits to which the shares of rounds are compared: sites that agree in them have one average."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Matched:
    """The estimates after some rounds, in whitened coordinates.

    Attributes
    ----------
    pooled : (D,) float64
        The pooled estimate.
    pooling : Pooling
        What it is made of.
    private : PrivateEstimate
        The estimate from private people alone, at all sites.
    sites : tuple of PrivateEstimate
        Each site's own, linearised where that of all sites is.
    weights, shares : tuple of float
        Each site's ``w``, the largest 1, and its share ``w n`` of the information, 1 in sum.
    """

    pooled: FloatArray
    pooling: Pooling
    private: PrivateEstimate
    sites: tuple[PrivateEstimate, ...]
    weights: tuple[float, ...]
    shares: tuple[float, ...]


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Settled:
    """Where the fixed point is: the coefficients, the sites' expectations there, their weights, both estimates."""

    place: FloatArray
    parts: tuple[SitePart, ...]
    weights: tuple[float, ...]
    private: PrivateEstimate
    pooling: Pooling


def settled(
    outcomes: Outcomes,
    fit: PublicFit,
    sites: Sequence[SiteAnswers],
    *,
    clip: float,
    raked: Sequence[RakedSite | None] = (),
    allowance: FloatArray | None = None,
    averaging: Averaging | None = None,
) -> Settled:
    """Return where the estimates settle after one round or more, starting from where the last one was asked.

    ``raked`` are the people that sums of the sites are compared with, where these were described; None, or nothing,
    stands for the public ones. ``allowance``: see `PrivateEstimate`. Without an ``averaging`` the answers keep their
    weights.
    """
    cohorts = list(raked) or [None] * len(sites)
    weights = weights_of(outcomes, fit, sites, clip=clip, raked=cohorts)
    theta, scales = max((site.answers for site in sites), key=len)[-1].theta, None
    if averaging is not None and len(averaging.costs) > 1:
        sites, beside = _averaged(outcomes, theta, sites, weights, clip=clip, raked=cohorts, averaging=averaging)
        allowance = np.diag(beside) if allowance is None else allowance + np.diag(beside)
    apart = _apart(cohorts, [site.asked for site in sites], theta, clip=clip)
    kept: dict[Hashable, FloatArray] = {}
    for iteration in range(ITERATIONS):
        place = theta
        parts = parts_of(outcomes, place, sites, weights, clip=clip, raked=cohorts, apart=apart, kept=kept)
        private = linearised(place, parts, whole=outcomes.whole, allowance=allowance)
        pooling = pool(private.theta, private.covariance, fit, scales=scales)
        scales = None if iteration < SETTLED - 1 else pooling.scales
        step = pooling.point - place
        largest = float(np.max(np.abs(step)))
        if iteration >= SETTLED and largest < TOLERANCE:
            break
        theta = place + step * min(1.0, LONGEST / max(largest, LONGEST))
    return Settled(place=place, parts=tuple(parts), weights=weights, private=private, pooling=pooling)


def _averaged(
    outcomes: Outcomes,
    theta: FloatArray,
    sites: Sequence[SiteAnswers],
    weights: Sequence[float],
    *,
    clip: float,
    raked: Sequence[RakedSite | None],
    averaging: Averaging,
) -> tuple[list[SiteAnswers], FloatArray]:
    """Return sites whose rounds are averaged by noise and by how far each was asked from where it leads.

    Each round leads from ``theta`` to an estimate of its own, by the sums of all sites that answered it. Beside the
    sites: the variance (D,) of what their distances hide, beyond what was foreseen.
    """
    of_rounds, D = [], len(theta)
    for t in range(max(len(site.answers) for site in sites)):
        there = [j for j, site in enumerate(sites) if len(site.answers) > t]
        alone = [replace(sites[j], answers=[sites[j].answers[t]]) for j in there]
        people, w = [raked[j] for j in there], [weights[j] for j in there]
        parts = parts_of(outcomes, theta, alone, w, clip=clip, raked=people)
        end = linearised(theta, parts, whole=outcomes.whole)
        noise = end.noise * np.sum(end.response**2, axis=1)
        of_rounds.append((alone[0].answers[0].theta, end.theta, noise))
    places, ends, noises = (np.array(each) for each in zip(*of_rounds, strict=True))
    estimates = RoundEstimates(places=places, ends=ends, noise=noises)
    found, distances, by_noise, whole = [], np.zeros(D), np.zeros(D), 0.0
    for site, weight, cohort in zip(sites, weights, raked, strict=True):
        here = estimates.first(len(site.answers))
        answers = [replace(each, weight=share) for each, share in zip(site.answers, here.shares.tolist(), strict=True)]
        found.append(replace(site, answers=answers))
        information, (distance, variance) = weight * people_at(site, cohort), here.distances
        distances, by_noise = distances + information * distance, by_noise + information * variance
        whole += information
    beside = MISSED**2 * ((distances / whole) ** 2 - by_noise / whole)
    beside[averaging.slopes] -= averaging.hidden**2
    return found, np.maximum(beside, 0.0)


def match(
    outcomes: Outcomes,
    fit: PublicFit,
    sites: Sequence[SiteAnswers],
    *,
    clip: float,
    raked: Sequence[RakedSite | None] = (),
    allowance: FloatArray | None = None,
    averaging: Averaging | None = None,
) -> Matched:
    """Return the estimates after the last round: see `settled`, whose arguments these are."""
    found = settled(outcomes, fit, sites, clip=clip, raked=raked, allowance=allowance, averaging=averaging)
    place, pooling = found.place, found.pooling
    parts, unknown = at_a_distance(outcomes, place, found.parts, root=root_of(pooling.covariance), clip=clip)

    def read(some: Sequence[SitePart]) -> PrivateEstimate:
        return widened(linearised(place, some, whole=outcomes.whole, allowance=found.private.allowance), some, unknown)

    return Matched(
        pooled=pooling.point,
        pooling=pooling,
        private=read(parts),
        sites=tuple(read([replace(part, weight=1.0)]) for part in parts),
        weights=found.weights,
        shares=tuple(information_of([part]) / information_of(parts) for part in parts),
    )


def at_a_distance(
    outcomes: Outcomes, theta: FloatArray, parts: Sequence[SitePart], *, root: FloatArray, clip: float
) -> tuple[tuple[SitePart, ...], FloatArray]:
    """Return what expectations err by where the truth is not at ``theta``, but as far as a covariance says.

    ``root`` (D, D) is its root. Of described people it is in the parts that are returned; of public ones it is a
    covariance (D, D) by sampling, for one private person.
    """
    asked, alike = [part.site.asked for part in parts], [part for part in parts if part.raked is None]
    apart = _apart([part.raked for part in parts], asked, theta, clip=clip, root=root)
    unknown = _of_distance(outcomes, theta, alike, root=root, clip=clip) if alike else np.zeros_like(root)
    return tuple(replace(part, apart=each) for part, each in zip(parts, apart, strict=True)), unknown


def _of_distance(
    outcomes: Outcomes, theta: FloatArray, parts: Sequence[SitePart], *, root: FloatArray, clip: float
) -> FloatArray:
    """Return the covariance by sampling of public people, for one private one, that errors of ``theta`` hide (D, D)."""
    places: dict[bytes, FloatArray] = {}
    shares: dict[bytes, float] = {}
    for part in parts:
        for at, share in part.site.asked:
            key = at.tobytes()
            places[key], shares[key] = at, shares.get(key, 0.0) + share * information_of([part]) / information_of(parts)
    asked = [(places[key], share) for key, share in shares.items()]
    return spread_of_slopes(outcomes, theta, asked=asked, root=root, clip=clip) / outcomes.whole


def widened(private: PrivateEstimate, parts: Sequence[SitePart], unknown: FloatArray) -> PrivateEstimate:
    """Return the estimate with what public people's sampling adds where the truth is not at the estimate."""
    information = information_of([part for part in parts if part.raked is None])
    return replace(private, public=private.public + information**2 * unknown)


def _apart(
    cohorts: Sequence[RakedSite | None],
    asked: Sequence[Sequence[tuple[FloatArray, float]]],
    theta: FloatArray,
    *,
    clip: float,
    root: FloatArray | None = None,
) -> list[FloatArray | None]:
    """Return by how much expectations over each site's raked people differ between draws: see `RakedSite`."""
    return [
        None if cohort is None else cohort.deviations(theta, asked=places, clip=clip, root=root)
        for cohort, places in zip(cohorts, asked, strict=True)
    ]


def weights_of(
    outcomes: Outcomes,
    fit: PublicFit,
    sites: Sequence[SiteAnswers],
    *,
    clip: float,
    raked: Sequence[RakedSite | None],
) -> tuple[float, ...]:
    """Return the weights of sites' sums, the largest 1: functions of public facts."""
    at_fit = expected(outcomes, fit.theta, asked=[(fit.theta, 1.0)], clip=clip)
    return site_weights(
        people=[people_at(site, cohort) for site, cohort in zip(sites, raked, strict=True)],
        noise=[site.noise for site in sites],
        variance=float(np.trace(at_fit.covariance)) / len(fit.theta),
    )


def parts_of(
    outcomes: Outcomes,
    theta: FloatArray,
    sites: Sequence[SiteAnswers],
    weights: Sequence[float],
    *,
    clip: float,
    raked: Sequence[RakedSite | None],
    apart: Sequence[FloatArray | None] = (),
    kept: dict[Hashable, FloatArray] | None = None,
) -> list[SitePart]:
    """Return each site with its expectations under ``theta``, computed once for each distinct average of rounds.

    ``apart`` is by how much those of described people differ between draws, where that is known already.
    """
    found: dict[tuple[tuple[bytes, float], ...], Expected] = {}
    moved, parts = list(apart) or [None] * len(sites), []
    for j, (site, weight, cohort, deviations) in enumerate(zip(sites, weights, raked, moved, strict=True)):
        if cohort is not None:
            at = expected(cohort.outcomes, theta, asked=site.asked, clip=clip, kept=kept, key=j)
            parts.append(SitePart(site=site, weight=weight, at=at, raked=cohort, apart=deviations))
            continue
        average = tuple((at.tobytes(), round(share, DIGITS)) for at, share in site.asked)
        if average not in found:
            found[average] = expected(outcomes, theta, asked=site.asked, clip=clip, kept=kept, key=average)
        parts.append(SitePart(site=site, weight=weight, at=found[average]))
    return parts
