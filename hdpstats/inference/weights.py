r"""How the weights of public rows came about: what every standard error of a weighted analysis rests on.

A weighted analysis solves :math:`\sum_i w_i\, \psi(x_i; \theta) = 0` over the public rows. To first order its error is

.. math:: \hat\theta - \theta \approx A^{-1} \sum_i w_i\, \psi(x_i; \theta),
    \qquad A = -\sum_i w_i\, \dot\psi(x_i; \theta)

(Huber 1967), so whoever knows the covariance of weighted sums :math:`\sum_i w_i r_i` for public residuals ``r`` knows
the standard error of every mean, quantile and regression. A `WeightDistribution` knows it: the private people are a
sample, noise was added for privacy, and the sum counts both. Where weights are projected on a simplex or a subset was
selected, the sum is not linear in the noise; then the whole way from people to weights is drawn anew (`draws`), and the
analysis is repeated on each draw: a parametric bootstrap.

References
----------
Huber (1967), The behavior of maximum likelihood estimates under nonstandard conditions.
Efron and Tibshirani (1993), *An Introduction to the Bootstrap*, chapter 6.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from hdpstats._base.typing import FloatArray


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

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the distribution as JSON values, `kind` not among them."""
