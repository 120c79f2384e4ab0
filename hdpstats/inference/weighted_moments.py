r"""Weighted means, shares and quantiles of public rows, with standard errors that know where the weights come from.

A weighted analysis solves :math:`\sum_i w_i\, \psi(x_i; \theta) = 0` over the public rows. To first order its error is

.. math:: \hat\theta - \theta \approx A^{-1} \sum_i w_i\, \psi(x_i; \theta),
    \qquad A = -\sum_i w_i\, \dot\psi(x_i; \theta)

(Huber 1967), so whoever knows the covariance of weighted sums :math:`\sum_i w_i r_i` for public residuals ``r`` knows
the standard error of every mean, quantile and regression. A `WeightDistribution` knows it: the private people are a
sample, noise was added for privacy, and the sum counts both. Where weights are projected on a simplex or a subset was
selected, the sum is not linear in the noise; then the whole way from people to weights is drawn anew (`draws`), and the
analysis is repeated on each draw: a parametric bootstrap.

With :math:`W = \sum_i w_i` the mean is :math:`\hat\mu = \sum_i w_i f_i / W`; to first order its error is
:math:`\sum_i w_i (f_i - \hat\mu) / W`, whose covariance a `WeightDistribution` gives. A
quantile inverts the weighted distribution function, and its limits invert that function's limits (Woodruff 1952).

References
----------
Huber (1967), The behavior of maximum likelihood estimates under nonstandard conditions.
Efron and Tibshirani (1993), *An Introduction to the Bootstrap*, chapter 6.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.records.estimate import normal_quantile

DRAWS = 400
"""Draws of weights from which a covariance is taken where it is not linear in the noise."""

NUMBERS = 2**27
"""Numbers that such draws have in all: fewer draws of more rows, never below 50."""


class WeightDistribution(ABC):
    """Weights of public rows, and the distribution of their errors: everything here is released or public.

    Attributes
    ----------
    kind : str
        The word that JSON uses.
    weights : (n,) float64
        The published weights; their sum is the (estimated) number of private records. Negative only where nothing
        was projected.
    linear : bool
        Whether `covariance` holds to first order; otherwise standard errors are taken from `draws`.
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def weights(self) -> FloatArray:
        """The published weights (n,)."""

    @property
    @abstractmethod
    def linear(self) -> bool:
        """Whether `covariance` holds to first order."""

    @abstractmethod
    def covariance(self, residuals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the covariance (k, k) of ``sum_i w_i r_i`` due to sampling, and due to privacy noise.

        ``residuals`` (n, k) are centred: their weighted sum is about zero.
        """

    @abstractmethod
    def draws(self, number: int) -> FloatArray:
        """Return weights (number, n) as the whole pipeline might have given them, the same ones at every call."""

    def drawn_sums(self, residuals: FloatArray, number: int) -> FloatArray:
        """Return ``sum_i w_i r_i`` (number, k) for each of the `draws`, and residuals (n, k)."""
        return self.draws(number) @ residuals


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WeightedMeans:
    """Weighted means (k,) and the covariance (k, k) of their errors, due to sampling and to privacy noise."""

    estimates: FloatArray
    sampling: FloatArray
    privacy: FloatArray

    @property
    def std_errors(self) -> FloatArray:
        """Standard errors (k,), sampling and noise together."""
        return np.asarray(np.sqrt(np.maximum(np.diag(self.sampling) + np.diag(self.privacy), 0.0)))


class WeightedQuantile(NamedTuple):
    """A quantile with its limits; the standard error is the half-width of the limits over their normal quantile."""

    value: float
    std_error: float
    lower: float
    upper: float


def sum_covariance(distribution: WeightDistribution, residuals: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the covariance (k, k) of ``sum_i w_i r_i`` (n, k) due to sampling, and due to privacy noise.

    Where the weights are not linear in the noise the whole is taken from `DRAWS` draws of the pipeline, and the part of
    the noise is what sampling leaves of it: an estimate, which may be negative where there is next to no noise.
    """
    sampling, privacy = distribution.covariance(residuals)
    if distribution.linear:
        return sampling, privacy
    sums = distribution.drawn_sums(residuals, min(DRAWS, max(50, NUMBERS // len(residuals))))
    whole = np.atleast_2d(np.cov(sums, rowvar=False))
    return sampling, whole - sampling


def weighted_means(distribution: WeightDistribution, values: FloatArray) -> WeightedMeans:
    """Return the means of columns ``values`` (n, k)."""
    total = float(np.sum(distribution.weights))
    means = distribution.weights @ values / total
    sampling, privacy = sum_covariance(distribution, (values - means) / total)
    return WeightedMeans(estimates=means, sampling=sampling, privacy=privacy)


def weighted_quantile(
    distribution: WeightDistribution, values: FloatArray, probability: float, *, alpha: float
) -> WeightedQuantile:
    """Return the quantile of ``values`` (n,) and its limits of level ``1 - alpha``.

    The quantile is the least value whose weighted share of rows at or below it is ``probability`` or more.
    """
    order = np.argsort(values, kind="stable")
    share = np.maximum.accumulate(np.cumsum(distribution.weights[order])) / float(np.sum(distribution.weights))
    value = _inverse(values[order], share, probability)
    below = weighted_means(distribution, (values <= value).astype(np.float64)[:, None])
    z = normal_quantile(alpha)
    half = z * float(below.std_errors[0])
    lower, upper = (_inverse(values[order], share, probability + side * half) for side in (-1.0, 1.0))
    return WeightedQuantile(value=value, lower=lower, upper=upper, std_error=(upper - lower) / (2.0 * z))


def _inverse(ordered: FloatArray, share: FloatArray, probability: float) -> float:
    place = int(np.searchsorted(share, min(max(probability, 0.0), 1.0) * (1.0 - 2.0**-40), side="left"))
    return float(ordered[min(place, len(ordered) - 1)])


def effective_size(weights: FloatArray) -> float:
    """Return Kish's effective size ``(sum w)^2 / sum w^2``: equally weighted rows that would tell as much."""
    squares = float(np.sum(weights**2))
    return float(np.sum(weights)) ** 2 / squares if squares > 0 else 0.0


def overlap(weights: FloatArray) -> float:
    """Return one minus the total variation distance between the weighted public rows and the unweighted ones.

    1 where all weights are equal; near 0 where a few rows stand for everybody.
    """
    total = float(np.sum(np.maximum(weights, 0.0)))
    if not total > 0:
        return 0.0
    return float(np.minimum(np.maximum(weights, 0.0) / total, 1.0 / len(weights)).sum())


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Estimated:
    """An estimated number.

    Attributes
    ----------
    estimate : float
        The number.
    std_error : float
        Its standard error, sampling and privacy noise together.
    sampling_error : float
        What the standard error would be without privacy noise.
    """

    estimate: float
    std_error: float
    sampling_error: float

    def conf_int(self, alpha: float = 0.05) -> tuple[float, float]:
        """Return normal limits of level ``1 - alpha``; ``alpha`` in [0.001, 0.999].

        >>> Estimated(estimate=0.5, std_error=0.1, sampling_error=0.05).conf_int()[0].__round__(3)
        0.304
        """
        half = normal_quantile(alpha) * self.std_error
        return self.estimate - half, self.estimate + half
