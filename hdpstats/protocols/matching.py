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

**Matching.** With expectations over public people and all their outcomes (`hdpstats.protocols.expectations`), for each
distinct average ``q`` (sites that missed the later rounds have another one than the others),
:math:`N_q = \sum w_j n_j` over its sites,

.. math:: m_q(x; \theta) = E_\theta\{\bar g_q(x, Y) \mid x\}, \qquad M(\theta) = \sum_q N_q\,E\,m_q(X; \theta), \qquad
          A = -\frac{\partial M}{\partial\theta} = -\sum_q N_q\,E\{\bar g_q\, \nabla\log p_\theta(Y \mid X)'\},

the private estimate solves :math:`M(\theta) = \bar G`. Clipping biases scores, and the same clipping is in ``M``: the
estimate is consistent whatever the clip, as far as private people, at all sites, are distributed as the public ones.
Its error is about :math:`A^{-1}` times independent parts (the sign aside):

* *sampling of private people*, covariance :math:`\sum_q S_q\,\mathrm{cov}(\bar g_q)`, :math:`S_q = \sum w_j^2 n_j`;
* *sampling of public people*, covariance :math:`\mathrm{cov}\{\sum_q N_q m_q(X; \theta)\} / n_{pub}`, whatever the
  number of sites, as all are compared with the same public people: zero for scores without bias at the truth, else what
  an expectation over few people costs;
* *noise*, covariance :math:`\sum_j w_j^2 \sigma_j^2\, I`: each site adds its own. Where :math:`n_j` is itself a noisy
  number with variance :math:`s_j^2`, :math:`\sum_j w_j^2 s_j^2\, E\,m_q\, E\,m_q'`.

It is pooled with the public fit as two studies are: with :math:`u = \theta - A^{-1}\{\bar G - M(\theta)\}` the private
estimate linearised at :math:`\theta`, ``V`` its covariance and ``V_pub`` that of the public fit,
:math:`\theta = \theta_{pub} + W (u - \theta_{pub})` with :math:`W = (V_{pub} + T)(V_{pub} + T + V)^{-1}`;
``T``, what separates the sources, is estimated (`hdpstats.protocols.pooling`). Iterated to a fixed point this is Gauss
and Newton's method for the nonlinear problem; the public fit keeps it where the expectations exist, however large the
noise is.

References
----------
H. Künsch, L. Stefanski, R. Carroll (1989), Conditionally unbiased bounded-influence estimation in general regression
models. L. P. Hansen (1982), Large sample properties of generalized method of moments estimators.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.protocols.expectations import between_people, expected
from hdpstats.protocols.moments import PublicFit
from hdpstats.protocols.outcomes import Outcomes
from hdpstats.protocols.pooling import between_covariance

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
class Matched:
    """The estimates after some rounds, in whitened coordinates, with what their errors are made of.

    Attributes
    ----------
    pooled, private : (D,) float64
        The pooled estimate, and the one from private people alone.
    weight : (D, D) float64
        ``W``.
    between : (D, D) float64
        ``T``: what separates the sources.
    response : (D, D) float64
        ``A^-1``: how the private estimate moves with the averaged sum.
    sampling : (D, D) float64
        Covariance of the averaged sum by sampling of private and public people.
    noise : float
        Variance of the averaged sum's noise in each coordinate.
    counting : (D, D) float64
        Covariance of what the averaged sum is compared with, by the noise of the numbers of people.
    weights : tuple of float
        ``w``: one per site, the largest 1.
    """

    pooled: FloatArray
    private: FloatArray
    weight: FloatArray
    between: FloatArray
    response: FloatArray
    sampling: FloatArray
    noise: float
    counting: FloatArray
    weights: tuple[float, ...]


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Average:
    """An average ``q`` of rounds, and its sites: ``N``, ``S`` and ``sum w^2 s^2`` of the module."""

    asked: Sequence[tuple[FloatArray, float]]
    people: float
    squares: float
    counting: float


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Comparison:
    """What the combined sum is compared with: ``M`` (D,), ``A`` (D, D), and its covariances (D, D)."""

    mean: FloatArray
    information: FloatArray
    sampling: FloatArray
    counting: FloatArray


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
    identity = np.eye(len(fit.theta))
    at_fit = expected(outcomes, fit.theta, asked=[(fit.theta, 1.0)], clip=clip)
    weights = site_weights(
        people=[site.people for site in sites],
        noise=[site.noise for site in sites],
        variance=float(np.trace(at_fit.covariance)) / len(identity),
    )
    averages = _averages(sites, weights)
    total = np.asarray(sum(w * site.total for w, site in zip(weights, sites, strict=True)))
    noise = sum(w * w * site.noise for w, site in zip(weights, sites, strict=True))
    theta, between = max((site.answers for site in sites), key=len)[-1].theta, np.zeros_like(identity)
    for iteration in range(ITERATIONS):
        at = _compared(outcomes, theta, averages, clip=clip)
        A = at.information
        response = np.linalg.inv(A + WEAK * (np.trace(A) / len(A)) * identity)
        private = theta - response @ (total - at.mean)
        covariance = response @ (at.sampling + noise * identity + at.counting) @ response.T
        if iteration < SETTLED:
            between = between_covariance(private - fit.theta, covariance + fit.covariance, parts=fit.parts)
        apart = fit.covariance + between
        weight = apart @ np.linalg.inv(apart + covariance)
        pooled = fit.theta + weight @ (private - fit.theta)
        step = pooled - theta
        largest = float(np.max(np.abs(step)))
        theta = theta + step * min(1.0, LONGEST / max(largest, LONGEST))
        if iteration >= SETTLED and largest < TOLERANCE:
            break
    return Matched(
        pooled=pooled,
        private=private,
        weight=weight,
        between=between,
        response=response,
        sampling=at.sampling,
        noise=noise,
        counting=at.counting,
        weights=weights,
    )


def _averages(sites: Sequence[SiteAnswers], weights: Sequence[float]) -> list[_Average]:
    """Return the distinct averages of rounds, each with the sums over its sites."""
    groups: dict[tuple[tuple[bytes, float], ...], list[tuple[SiteAnswers, float]]] = {}
    for site, w in zip(sites, weights, strict=True):
        key = tuple((theta.tobytes(), round(share, ALIKE)) for theta, share in site.asked)
        groups.setdefault(key, []).append((site, w))
    return [
        _Average(
            asked=group[0][0].asked,
            people=sum(w * site.people for site, w in group),
            squares=sum(w * w * site.people for site, w in group),
            counting=sum((w * site.records_sd) ** 2 for site, w in group),
        )
        for group in groups.values()
    ]


def _compared(outcomes: Outcomes, theta: FloatArray, averages: Sequence[_Average], *, clip: float) -> _Comparison:
    """Return what the sum of all sites is compared with under ``theta``."""
    D = len(theta)
    mean, information, sampling, counting = np.zeros(D), np.zeros((D, D)), np.zeros((D, D)), np.zeros((D, D))
    given = np.zeros((outcomes.people, D))
    for each in averages:
        at = expected(outcomes, theta, asked=each.asked, clip=clip)
        mean += each.people * at.mean
        information += each.people * at.information
        sampling += each.squares * at.covariance
        counting += each.counting * np.outer(at.mean, at.mean)
        given += each.people * at.given
    sampling += between_people(given, whole=outcomes.whole) / outcomes.whole
    return _Comparison(mean=mean, information=information, sampling=sampling, counting=counting)
