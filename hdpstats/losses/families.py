r"""Exponential families: sufficient statistics, mean parameters, maximum likelihood, its bias and its information.

A family has densities :math:`h(x) \exp(\eta(\theta)' T(x) - \alpha(\theta))`. Its maximum likelihood estimate is a
function of the mean of :math:`T` alone: :math:`\hat\theta = g(\bar T)`, ``g`` being the inverse of the mean map
:math:`\tau(\theta) = E_\theta T(X)`. Everything is computed for a whole stack of means at once, and is total: where the
estimate does not exist the formulas give a number beyond every declared range, or NaN.

Values are taken between declared bounds; that is what makes :math:`T` bounded. The likelihood is that of the
distribution without bounds: where it puts more than a little mass beyond them the estimate is biased.

References
----------
Brown (1986), Fundamentals of statistical exponential families. Cox and Snell (1968), A general definition of residuals
(the bias of order 1/n). Minka (2002), Estimating a gamma distribution.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, final

import numpy as np
from scipy.special import digamma, polygamma

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray

Interval = tuple[float, float]

_NEWTON_STEPS = 8
_FLATTEST, _STEEPEST = 1e-9, 1e3


@dataclass(frozen=True, kw_only=True, slots=True)
class Family(ABC):
    """A family of distributions of a number between declared bounds.

    Attributes
    ----------
    lower, upper : float
        The declared bounds of the number.
    name : str
        What users call the family.
    parameters : tuple of str
        The names of the d parameters.
    """

    lower: float
    upper: float
    name: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]]
    least: ClassVar[float] = -np.inf
    most: ClassVar[float] = np.inf
    exceeds: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse bounds that the family's values never have."""
        beyond = self.lower <= self.least if self.exceeds else self.lower < self.least
        if beyond or self.upper > self.most:
            left, right = ("above" if self.exceeds else "from"), ("" if np.isinf(self.most) else f" to {self.most:g}")
            raise ArgumentError(
                f"family {self.name!r} is for numbers {left} {self.least:g}{right}; the column is declared from "
                f"{self.lower:g} to {self.upper:g}: declare other bounds, or choose another family",
                argument="family",
            )

    @property
    @abstractmethod
    def box(self) -> tuple[Interval, ...]:
        """The interval of each statistic, of numbers between the bounds."""

    @abstractmethod
    def statistics(self, x: FloatArray) -> FloatArray:
        """Return ``T`` (n, d) of numbers (n,)."""

    @abstractmethod
    def mean(self, theta: FloatArray) -> FloatArray:
        """Return ``tau(theta)`` (d,)."""

    @abstractmethod
    def solve(self, tau: FloatArray) -> FloatArray:
        """Return the maximum likelihood estimates (k, d) that belong to means of statistics (k, d)."""

    @abstractmethod
    def bias(self, theta: FloatArray) -> FloatArray:
        """Return ``b_1`` (k, d): the estimate from t values has bias ``b_1(theta) / t`` up to smaller terms."""

    @abstractmethod
    def information(self, theta: FloatArray) -> FloatArray:
        """Return the Fisher information (d, d) of one value."""

    @abstractmethod
    def slope(self, theta: FloatArray) -> FloatArray:
        """Return the derivative (d, d) of ``tau``, rows being statistics."""

    @abstractmethod
    def ranges(self) -> tuple[Interval | None, ...]:
        """Return the interval in which each parameter must be, given the bounds; None where they do not limit it."""


class _OneNumber(Family):
    """A family whose one statistic is the number itself."""

    __slots__ = ()

    @property
    def box(self) -> tuple[Interval, ...]:
        """The bounds."""
        return ((self.lower, self.upper),)

    def statistics(self, x: FloatArray) -> FloatArray:
        """Return the numbers."""
        return x[:, None]


class _Mean(_OneNumber):
    """A family whose one parameter is its mean."""

    __slots__ = ()

    def mean(self, theta: FloatArray) -> FloatArray:
        """Return the parameter."""
        return theta

    def solve(self, tau: FloatArray) -> FloatArray:
        """Return the mean."""
        return tau

    def bias(self, theta: FloatArray) -> FloatArray:
        """Return 0: a mean is unbiased."""
        return np.zeros_like(theta)

    def slope(self, theta: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return 1."""
        return np.ones((1, 1))

    def ranges(self) -> tuple[Interval | None, ...]:
        """Return the bounds."""
        return ((self.lower, self.upper),)


@final
class BernoulliFamily(_Mean):
    """A number that is 1 with a probability, and else 0."""

    __slots__ = ()
    name = "bernoulli"
    parameters = ("probability",)
    least = 0.0
    most = 1.0

    def information(self, theta: FloatArray) -> FloatArray:
        """Return ``1 / (p (1 - p))``."""
        return np.array([[1.0 / (theta[0] * (1.0 - theta[0]))]])


@final
class PoissonFamily(_Mean):
    """A count with a mean."""

    __slots__ = ()
    name = "poisson"
    parameters = ("mean",)
    least = 0.0

    def information(self, theta: FloatArray) -> FloatArray:
        """Return ``1 / mean``."""
        return np.array([[1.0 / theta[0]]])


@final
class ExponentialTimeFamily(_OneNumber):
    """A time with a rate: mean ``1 / rate``. The bias of the estimate is ``rate / (t - 1)``."""

    __slots__ = ()
    name = "exponential"
    parameters = ("rate",)
    least = 0.0

    def mean(self, theta: FloatArray) -> FloatArray:
        """Return ``1 / rate``."""
        return 1.0 / theta

    def solve(self, tau: FloatArray) -> FloatArray:
        """Return one over the mean; infinite where that is not above 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / np.maximum(tau, 0.0))

    def bias(self, theta: FloatArray) -> FloatArray:
        """Return the rate."""
        return theta

    def information(self, theta: FloatArray) -> FloatArray:
        """Return ``1 / rate^2``."""
        return np.array([[1.0 / theta[0] ** 2]])

    def slope(self, theta: FloatArray) -> FloatArray:
        """Return ``-1 / rate^2``."""
        return np.array([[-1.0 / theta[0] ** 2]])

    def ranges(self) -> tuple[Interval | None, ...]:
        """Return nothing: a bound of 0 does not limit rates."""
        return (None,)


@final
class NormalFamily(Family):
    """A number with a mean and a standard deviation; statistics ``u`` and ``u^2``, ``u`` in [-1, 1] by the bounds."""

    __slots__ = ()
    name = "normal"
    parameters = ("mean", "sd")

    @property
    def _half(self) -> float:
        return (self.upper - self.lower) / 2.0

    @property
    def _middle(self) -> float:
        return self.lower + self._half

    @property
    def box(self) -> tuple[Interval, ...]:
        """The intervals of ``u`` and of its square."""
        return ((-1.0, 1.0), (0.0, 1.0))

    def statistics(self, x: FloatArray) -> FloatArray:
        """Return ``(u, u^2)``."""
        u = (x - self._middle) / self._half
        return np.column_stack([u, u * u])

    def mean(self, theta: FloatArray) -> FloatArray:
        """Return ``(m, m^2 + s^2)`` on the scale of ``u``."""
        m, s = (theta[0] - self._middle) / self._half, theta[1] / self._half
        return np.array([m, m * m + s * s])

    def solve(self, tau: FloatArray) -> FloatArray:
        """Return mean and standard deviation; 0 where the variance would be negative."""
        spread = np.sqrt(np.maximum(tau[:, 1] - tau[:, 0] ** 2, 0.0))
        return np.column_stack([self._middle + self._half * tau[:, 0], self._half * spread])

    def bias(self, theta: FloatArray) -> FloatArray:
        """Return ``(0, -3 s / 4)``."""
        return np.column_stack([np.zeros(len(theta)), -0.75 * theta[:, 1]])

    def information(self, theta: FloatArray) -> FloatArray:
        """Return ``diag(1, 2) / s^2``."""
        return np.asarray(np.diag([1.0, 2.0]) / theta[1] ** 2)

    def slope(self, theta: FloatArray) -> FloatArray:
        """Return the derivative of ``(m, m^2 + s^2)``."""
        m, s = (theta[0] - self._middle) / self._half, theta[1] / self._half
        return np.array([[1.0, 0.0], [2.0 * m, 2.0 * s]]) / self._half

    def ranges(self) -> tuple[Interval | None, ...]:
        """Return the bounds for the mean, and half their distance for the standard deviation."""
        return ((self.lower, self.upper), (self._half * 1e-3, self._half))


@final
class GammaFamily(Family):
    """A positive number with a shape ``a`` and a rate ``r``: mean ``a / r``, variance ``a / r^2``."""

    __slots__ = ()
    name = "gamma"
    parameters = ("shape", "rate")
    least = 0.0
    exceeds = True

    @property
    def box(self) -> tuple[Interval, ...]:
        """The bounds and their logarithms."""
        return ((self.lower, self.upper), (float(np.log(self.lower)), float(np.log(self.upper))))

    def statistics(self, x: FloatArray) -> FloatArray:
        """Return the numbers and their logarithms."""
        return np.column_stack([x, np.log(x)])

    def mean(self, theta: FloatArray) -> FloatArray:
        """Return ``(a / r, digamma(a) - log r)``."""
        return np.array([theta[0] / theta[1], digamma(theta[0]) - np.log(theta[1])])

    def solve(self, tau: FloatArray) -> FloatArray:
        """Return shapes with ``log a - digamma(a) = log mean - mean log`` by Newton's method, and rates."""
        mean = np.maximum(tau[:, 0], self.lower)
        gap = np.clip(np.log(mean) - tau[:, 1], _FLATTEST, _STEEPEST)
        shape = (3.0 - gap + np.sqrt((gap - 3.0) ** 2 + 24.0 * gap)) / (12.0 * gap)
        for _ in range(_NEWTON_STEPS):
            wrong = np.log(shape) - digamma(shape) - gap
            shape = 1.0 / (1.0 / shape + wrong / (shape**2 * (1.0 / shape - polygamma(1, shape))))
        return np.asarray(np.column_stack([shape, shape / mean]), dtype=np.float64)

    def bias(self, theta: FloatArray) -> FloatArray:
        r"""Return the bias by way of the canonical parameters ``(a, -r)``, with ``A = log Gamma(a) - a log r``.

        :math:`b^i = -\tfrac12 \sum_{jkl} A^{ij} A^{kl} A_{jkl}` (Cox and Snell 1968), upper indices being the inverse.
        """
        a, r = theta[:, 0], theta[:, 1]
        free = a * polygamma(1, a) - 1.0
        v1 = a / free * polygamma(2, a) + polygamma(1, a) / free
        v2 = (-2.0 + 2.0 * a * polygamma(1, a)) / (r * free)
        first = -0.5 * (a * v1 - r * v2) / free
        second = -0.5 * (-r * v1 + polygamma(1, a) * r**2 * v2) / free
        return np.column_stack([first, -second])

    def information(self, theta: FloatArray) -> FloatArray:
        """Return the information in shape and rate."""
        a, r = theta
        return np.array([[polygamma(1, a), -1.0 / r], [-1.0 / r, a / r**2]], dtype=np.float64)

    def slope(self, theta: FloatArray) -> FloatArray:
        """Return the derivative of ``(a / r, digamma(a) - log r)``."""
        a, r = theta
        return np.array([[1.0 / r, -a / r**2], [polygamma(1, a), -1.0 / r]])

    def ranges(self) -> tuple[Interval | None, ...]:
        """Return nothing: bounds do not limit shapes and rates."""
        return (None, None)


FAMILIES: Mapping[str, type[Family]] = MappingProxyType(
    {
        family.name: family
        for family in (
            BernoulliFamily,
            PoissonFamily,
            NormalFamily,
            ExponentialTimeFamily,
            GammaFamily,
        )
    }
)
"""The families by name."""


def corrected(family: Family, tau: FloatArray, counts: FloatArray) -> FloatArray:
    """Return bias-corrected estimates (k, d) from means (k, d) of ``counts`` (k,) values each.

    Where there is no estimate, or no value, the numbers are NaN or infinite, without a warning.
    """
    with np.errstate(all="ignore"):
        natural = family.solve(tau)
        return np.asarray(natural - family.bias(natural) / counts[:, None])
