r"""Coefficients from noisy sums of clipped scores: moments matched over public people, pooled with the public fit.

Rounds :math:`t` were asked at public coefficients :math:`\theta_t` and answered by
:math:`G_t = \sum_i g_t(X_i, Y_i) + b_t`, ``b_t`` noise of variance :math:`\sigma_t^2` in each coordinate. They are
averaged with weights :math:`w_t \propto 1/\sigma_t^2`, :math:`\bar g = \sum_t w_t g_t`, so that no budget is lost on
rounds whose coefficients were still far off. With expectations over public people and all their outcomes
(`hdpstats.protocols.outcomes`),

.. math:: m(x; \theta) = E_\theta\{\bar g(x, Y) \mid x\}, \qquad M(\theta) = n\,E\,m(X; \theta), \qquad
          A = -\frac{\partial M}{\partial\theta} = -n\,E\{\bar g\, \nabla\log p_\theta(Y \mid X)'\},

the private estimate solves :math:`M(\theta) = \bar G`. Clipping biases scores, and the same clipping is in ``M``: the
estimate is consistent whatever the clip, as far as private people are distributed as the public ones. Its error is
about :math:`A^{-1}` times three independent parts (the sign aside):

* *sampling of private people*, covariance :math:`n\,\mathrm{cov}(\bar g)`;
* *sampling of public people*, covariance :math:`(n^2 / n_{pub})\,\mathrm{cov}\{m(X; \theta)\}`: zero for scores without
  bias at the truth, else what an expectation over few people costs;
* *noise*, covariance :math:`I / \sum_t \sigma_t^{-2}`, and where ``n`` is itself a noisy number with variance
  :math:`\sigma_n^2`, :math:`\sigma_n^2\, E\,m\, E\,m'`.

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
from hdpstats.mechanisms.gradient import clipped
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


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Answer:
    """One round: where it was asked (D,), the noisy sum (D,), the standard deviation of its noise."""

    theta: FloatArray
    total: FloatArray
    noise_sd: float


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Expected:
    """Expectations of one person's averaged clipped score under coefficients.

    Attributes
    ----------
    mean : (D,) float64
        ``E g``.
    information : (D, D) float64
        ``-E g (grad log p)'``.
    covariance : (D, D) float64
        ``cov(g)`` over people and outcomes.
    between : (D, D) float64
        ``cov m(X)`` over people: the part of it that outcomes do not explain.
    """

    mean: FloatArray
    information: FloatArray
    covariance: FloatArray
    between: FloatArray


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
        Covariance of what the averaged sum is compared with, by the noise of the number of people.
    """

    pooled: FloatArray
    private: FloatArray
    weight: FloatArray
    between: FloatArray
    response: FloatArray
    sampling: FloatArray
    noise: float
    counting: FloatArray


def expected(
    outcomes: Outcomes, theta: FloatArray, *, asked: Sequence[tuple[FloatArray, float]], clip: float
) -> Expected:
    """Return the expectations under ``theta`` of scores at other coefficients, averaged with weights that sum to 1."""
    D, n, outcomes = outcomes.dimension, outcomes.whole, outcomes.at(theta)
    mean, information, square, between = np.zeros(D), np.zeros((D, D)), np.zeros((D, D)), np.zeros((D, D))
    for people in outcomes.blocks():
        law = outcomes.law(theta, people)
        g = np.zeros_like(law.score)
        for at, share in asked:
            g += share * clipped(outcomes.gradients(at, people).reshape(-1, D), clip).reshape(g.shape)
        likely = law.probability[:, :, None] * g
        of_people = likely.sum(axis=1)
        mean += of_people.sum(axis=0)
        between += of_people.T @ of_people
        flat = likely.reshape(-1, D)
        information -= flat.T @ law.score.reshape(-1, D)
        square += flat.T @ g.reshape(-1, D)
    mean /= n
    outer = np.outer(mean, mean)
    return Expected(
        mean=mean,
        information=information / n,
        covariance=square / n - outer,
        between=(between - n * outer) / max(n - 1, 1),
    )


def match(
    outcomes: Outcomes,
    fit: PublicFit,
    answers: Sequence[Answer],
    *,
    clip: float,
    records: int,
    records_sd: float = 0.0,
) -> Matched:
    """Return the estimates after one round or more, starting from where the last one was asked.

    ``records`` is the number of private people, ``records_sd`` the standard deviation of its noise.
    """
    precision = np.array([each.noise_sd**-2.0 for each in answers])
    shares = precision / precision.sum()
    asked = [(each.theta, float(share)) for each, share in zip(answers, shares, strict=True)]
    total = sum((share * each.total for each, share in zip(answers, shares, strict=True)), np.zeros(len(fit.theta)))
    theta, noise = answers[-1].theta, float(1.0 / precision.sum())
    n, identity = float(max(records, 1)), np.eye(len(fit.theta))
    between = np.zeros_like(identity)
    for iteration in range(ITERATIONS):
        at = expected(outcomes, theta, asked=asked, clip=clip)
        A = n * at.information
        response = np.linalg.inv(A + WEAK * (np.trace(A) / len(A)) * identity)
        sampling = n * at.covariance + n * n / outcomes.whole * at.between
        private = theta - response @ (total - n * at.mean)
        counting = records_sd**2 * np.outer(at.mean, at.mean)
        covariance = response @ (sampling + noise * identity + counting) @ response.T
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
        sampling=sampling,
        noise=noise,
        counting=counting,
    )


def score_quantile(outcomes: Outcomes, theta: FloatArray, *, level: float) -> float:
    """Return a quantile of the length of a person's score at ``theta`` under ``theta``, over public people."""
    sizes, shares = [], []
    for people in outcomes.blocks():
        sizes.append(np.linalg.norm(outcomes.gradients(theta, people), axis=2).ravel())
        shares.append(outcomes.law(theta, people).probability.ravel())
    size, share = np.concatenate(sizes), np.concatenate(shares)
    order = np.argsort(size, kind="stable")
    below = np.cumsum(share[order])
    return float(size[order][min(int(np.searchsorted(below, level * below[-1])), len(size) - 1)])
