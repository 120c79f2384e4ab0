r"""Coefficients from noisy sums of clipped scores: moments matched over public people, pooled with the public fit.

Sites :math:`j` with :math:`n_j` people were asked in rounds :math:`t` at public coefficients :math:`\theta_t`, the same
for all of them, and answered by :math:`G_{jt} = \sum_i g_t(X_i, Y_i) + b_{jt}`, ``b_jt`` noise of variance
:math:`\sigma_{jt}^2` in each coordinate. Within a site the rounds are averaged with shares
:math:`q_{jt} \propto 1/\sigma_{jt}^2`, so that no budget is lost on rounds whose coefficients were still far off: the
averaged sum :math:`\bar G_j` of :math:`\bar g_j = \sum_t q_{jt} g_t` has noise of variance
:math:`\sigma_j^2 = 1 / \sum_t \sigma_{jt}^{-2}`.

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
have another one than the others),
:math:`N_q = \sum w_j n_j` over its sites,

.. math:: m_q(x; \theta) = E_\theta\{\bar g_q(x, Y) \mid x\}, \qquad M(\theta) = \sum_q N_q\,E\,m_q(X; \theta), \qquad
          A = -\frac{\partial M}{\partial\theta} = -\sum_q N_q\,E\{\bar g_q\, \nabla\log p_\theta(Y \mid X)'\},

the private estimate solves :math:`M(\theta) = \bar G`. Clipping biases scores, and the same clipping is in ``M``: the
estimate is consistent whatever the clip, as far as private people, at all sites, are distributed as the public ones.
Its error is about :math:`A^{-1}` times independent parts (the sign aside):

* *sampling of private people*, covariance :math:`\sum_q S_q\,\mathrm{cov}(\bar g_q)`, :math:`S_q = \sum w_j^2 n_j`;
* *sampling of public people*, covariance :math:`\mathrm{cov}\{\sum_q N_q m_q(X; \theta)\} / n_{pub}`, whatever the
  number of sites, as all are compared with the same public people: zero for scores without bias at the truth, else what
  an expectation over few people costs. At the truth, which is ``d`` away from the estimate, it is larger by that of
  :math:`\sum_q N_q A_{q,x} d`, averaged over the errors ``d`` of the pooled estimate: much where one round was asked at
  the public fit, little where the last round was asked near the truth;
* *noise*, covariance :math:`\sum_j w_j^2 \sigma_j^2\, I`: each site adds its own. Where :math:`n_j` is itself a noisy
  number with variance :math:`s_j^2`, :math:`\sum_j w_j^2 s_j^2\, E\,m_q\, E\,m_q'`.

It is pooled with the public fit as two studies are: with :math:`u = \theta - A^{-1}\{\bar G - M(\theta)\}` the private
estimate linearised at :math:`\theta`, ``V`` its covariance and ``V_pub`` that of the public fit, :math:`\theta =
\theta_{pub} + W (u - \theta_{pub})` with :math:`W = (V_{pub} + T)(V_{pub} + T + V)^{-1}`; ``T``, what separates the
sources, is estimated (`hdpstats.inference.combination`). Iterated to a fixed point this is Gauss and Newton's method
for the nonlinear problem; the public fit keeps it where the expectations exist, however large the noise is.

References
----------
H. Künsch, L. Stefanski, R. Carroll (1989), Conditionally unbiased bounded-influence estimation in general regression
models. L. P. Hansen (1982), Large sample properties of generalized method of moments estimators.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference.combination import between_covariance
from hdpstats.mechanisms.clipped_newton.expectations import Expected, between_people, expected, spread_of_slopes
from hdpstats.public.moments import PublicFit
from hdpstats.public.outcomes import Outcomes

ITERATIONS = 30
SETTLED = 4
"""Iterations in which the variance between sources is estimated anew; then it stays."""

LONGEST = 1.5
"""The largest change of a coefficient in one iteration."""

TOLERANCE = 1e-9
WEAK = 1e-7
"""Information added in every direction, relative to the mean: where nobody is followed there is none."""

ALIKE = 9
"""Digits to which the shares of rounds are compared: sites that agree in them have one average."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Answer:
    """One round: where it was asked (D,), the noisy sum (D,), the standard deviation of its noise."""

    theta: FloatArray
    total: FloatArray
    noise_sd: float


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SiteAnswers:
    """One site: its number of people, the standard deviation of the noise in that number, its rounds in their order."""

    records: int
    records_sd: float
    answers: Sequence[Answer]

    @property
    def people(self) -> float:
        """The number of people, at least 1."""
        return float(max(self.records, 1))

    @property
    def noise(self) -> float:
        """Variance of the averaged sum's noise in each coordinate."""
        return 1.0 / sum(self._precisions)

    @property
    def asked(self) -> list[tuple[FloatArray, float]]:
        """Where the site was asked, with the shares of the rounds in the average."""
        whole = sum(self._precisions)
        return [(each.theta, part / whole) for each, part in zip(self.answers, self._precisions, strict=True)]

    @property
    def total(self) -> FloatArray:
        """The averaged sum (D,)."""
        sums = (share * each.total for (_, share), each in zip(self.asked, self.answers, strict=True))
        return np.asarray(sum(sums))

    @property
    def _precisions(self) -> list[float]:
        return [each.noise_sd**-2.0 for each in self.answers]


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
    def covariance(self) -> FloatArray:
        """``V``: covariance of the estimate's error."""
        inside = self.sampling + self.noise * np.eye(len(self.theta)) + self.counting
        return np.asarray(self.response @ inside @ self.response.T)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Matched:
    """The estimates after some rounds, in whitened coordinates.

    Attributes
    ----------
    pooled : (D,) float64
        The pooled estimate.
    weight : (D, D) float64
        ``W``.
    between : (D, D) float64
        ``T``: what separates the sources.
    private : PrivateEstimate
        The estimate from private people alone, at all sites.
    sites : tuple of PrivateEstimate
        Each site's own, linearised where that of all sites is.
    weights, shares : tuple of float
        Each site's ``w``, the largest 1, and its share ``w n`` of the information, 1 in sum.
    """

    pooled: FloatArray
    weight: FloatArray
    between: FloatArray
    private: PrivateEstimate
    sites: tuple[PrivateEstimate, ...]
    weights: tuple[float, ...]
    shares: tuple[float, ...]


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Part:
    """A site, its weight, and the expectations of one score under the coefficients of the moment."""

    site: SiteAnswers
    weight: float
    at: Expected


def site_weights(*, people: Sequence[float], noise: Sequence[float], variance: float) -> tuple[float, ...]:
    """Return the weights of sites' sums, the largest 1.

    ``people`` are their numbers of people, ``noise`` the variances of their noise in each coordinate, ``variance`` that
    of one person's clipped score in each coordinate.

    >>> site_weights(people=[1000, 1000, 100], noise=[0.0, 1000.0, 700.0], variance=1.0)
    (1.0, 0.5, 0.125)
    """
    weights = [n / (n * variance + square) for n, square in zip(people, noise, strict=True)]
    return tuple(weight / max(weights) for weight in weights)


def match(outcomes: Outcomes, fit: PublicFit, sites: Sequence[SiteAnswers], *, clip: float) -> Matched:
    """Return the estimates after one round or more, starting from where the last one was asked."""
    at_fit = expected(outcomes, fit.theta, asked=[(fit.theta, 1.0)], clip=clip)
    weights = site_weights(
        people=[site.people for site in sites],
        noise=[site.noise for site in sites],
        variance=float(np.trace(at_fit.covariance)) / len(fit.theta),
    )
    theta, between = max((site.answers for site in sites), key=len)[-1].theta, np.zeros_like(fit.covariance)
    for iteration in range(ITERATIONS):
        place = theta
        parts = _parts(outcomes, place, sites, weights, clip=clip)
        private = _linearised(place, parts, whole=outcomes.whole)
        covariance = private.covariance
        if iteration < SETTLED:
            between = between_covariance(private.theta - fit.theta, covariance + fit.covariance, parts=fit.parts)
        apart = fit.covariance + between
        weight = apart @ np.linalg.inv(apart + covariance)
        pooled = fit.theta + weight @ (private.theta - fit.theta)
        step = pooled - place
        largest = float(np.max(np.abs(step)))
        if iteration >= SETTLED and largest < TOLERANCE:
            break
        theta = place + step * min(1.0, LONGEST / max(largest, LONGEST))
    rest, own = np.eye(len(weight)) - weight, [replace(part, weight=1.0) for part in parts]
    error = weight @ covariance @ weight.T + rest @ apart @ rest.T
    unknown = _of_distance(outcomes, place, parts, covariance=error, clip=clip)
    return Matched(
        pooled=pooled,
        weight=weight,
        between=between,
        private=_widened(private, parts, unknown),
        sites=tuple(_widened(_linearised(place, [part], whole=outcomes.whole), [part], unknown) for part in own),
        weights=weights,
        shares=tuple(_information([part]) / _information(parts) for part in parts),
    )


def _information(parts: Sequence[_Part]) -> float:
    """Return ``sum w n``: the information of sites, but for that of one person."""
    return sum(part.weight * part.site.people for part in parts)


def _of_distance(
    outcomes: Outcomes, theta: FloatArray, parts: Sequence[_Part], *, covariance: FloatArray, clip: float
) -> FloatArray:
    """Return the covariance by sampling of public people, for one private one, that errors of ``theta`` hide (D, D)."""
    places: dict[bytes, FloatArray] = {}
    shares: dict[bytes, float] = {}
    for part in parts:
        for at, share in part.site.asked:
            key = at.tobytes()
            places[key], shares[key] = at, shares.get(key, 0.0) + share * _information([part]) / _information(parts)
    asked = [(places[key], share) for key, share in shares.items()]
    return spread_of_slopes(outcomes, theta, asked=asked, root=root_of(covariance), clip=clip) / outcomes.whole


def _widened(private: PrivateEstimate, parts: Sequence[_Part], unknown: FloatArray) -> PrivateEstimate:
    """Return the estimate with what public people's sampling adds where the truth is not at the estimate."""
    return replace(private, public=private.public + _information(parts) ** 2 * unknown)


def _parts(
    outcomes: Outcomes, theta: FloatArray, sites: Sequence[SiteAnswers], weights: Sequence[float], *, clip: float
) -> list[_Part]:
    """Return each site with its expectations under ``theta``, computed once for each distinct average of rounds."""
    found: dict[tuple[tuple[bytes, float], ...], Expected] = {}
    parts = []
    for site, weight in zip(sites, weights, strict=True):
        average = tuple((at.tobytes(), round(share, ALIKE)) for at, share in site.asked)
        if average not in found:
            found[average] = expected(outcomes, theta, asked=site.asked, clip=clip)
        parts.append(_Part(site=site, weight=weight, at=found[average]))
    return parts


def _linearised(theta: FloatArray, parts: Sequence[_Part], *, whole: int) -> PrivateEstimate:
    """Return ``u`` and what its error is made of, from the weighted sum over sites."""
    D = len(theta)
    away, A, scores, counting = np.zeros(D), np.zeros((D, D)), np.zeros((D, D)), np.zeros((D, D))
    given, noise = np.zeros_like(parts[0].at.given), 0.0
    for part in parts:
        w, site, at = part.weight, part.site, part.at
        away += w * (site.total - site.people * at.mean)
        A += w * site.people * at.information
        scores += w * w * site.people * at.covariance
        counting += (w * site.records_sd) ** 2 * np.outer(at.mean, at.mean)
        given += w * site.people * at.given
        noise += w * w * site.noise
    response = response_of(A)
    return PrivateEstimate(
        theta=theta - response @ away,
        response=response,
        scores=scores,
        public=between_people(given, whole=whole) / whole,
        noise=noise,
        counting=counting,
    )


def response_of(A: FloatArray) -> FloatArray:
    """Return ``A^-1`` (D, D), with little information added in every direction."""
    return np.linalg.inv(A + WEAK * (np.trace(A) / len(A)) * np.eye(len(A)))


def root_of(covariance: FloatArray) -> FloatArray:
    """Return the symmetric root (D, D) of a covariance, of which rounding may have made an eigenvalue negative."""
    eigenvalues, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(eigenvalues, 0.0)) @ vectors.T)
