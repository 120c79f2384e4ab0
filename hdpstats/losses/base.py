"""What a loss of a linear predictor must know about itself."""

from abc import ABC, abstractmethod
from fractions import Fraction

import mpmath

from hdpstats._base.typing import FloatArray


class Loss(ABC):
    """A convex contrast function ``l(eta; y)`` of the linear predictor ``eta = x'theta + offset``.

    Attributes
    ----------
    name : str
        The word a query uses.
    lipschitz : Fraction
        ``sup |l'|``: bounds one record's score by ``lipschitz * ||x||``.
    smoothness : Fraction
        ``sup l''``: bounds one record's Hessian by ``smoothness * x x'``.
    outcome : str
        The kind of column that ``y`` must be declared as: the constants hold for its values and for no others.
    coupled : bool
        Whether ``l'' <= |l'| (1 - |l'|)`` and the sign of ``l'`` is fixed by ``y``: what
        `hdpstats.privacy.coupled` needs.
    """

    name: str
    outcome: str
    lipschitz: Fraction
    smoothness: Fraction
    coupled: bool

    @abstractmethod
    def value(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``l(eta; y)`` elementwise."""

    @abstractmethod
    def mean(self, eta: FloatArray) -> FloatArray:
        """Return the outcome's mean at linear predictors elementwise: what predictions report."""

    @abstractmethod
    def score(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``dl/deta`` elementwise, with absolute error at most 8 units of 2^-53 for exact ``eta``."""

    @abstractmethod
    def exact_score(self, eta: mpmath.mpf, y: float) -> mpmath.mpf:
        """Return ``dl/deta`` at mpmath's present precision, with an error of a few units in its last place."""

    @abstractmethod
    def curvature(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``d2l/deta2`` elementwise."""
