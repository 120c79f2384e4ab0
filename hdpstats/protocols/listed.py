r"""Outcomes of public people that can be counted: numbers up to a declared largest one, and levels.

See `hdpstats.protocols.outcomes`. *Counts* are Poisson with mean :math:`m = e^\eta`, those above the largest being
counted as it: :math:`P(y) = m^y e^{-m} / y!` below, :math:`P(N \ge Y)` at ``Y``. The score of the
logarithm is :math:`(y - m) x` below and :math:`m\,P(N = Y - 1) / P(N \ge Y)\, x` at ``Y``.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import gammainc, gammaln

from hdpstats._base.typing import FloatArray
from hdpstats.losses import PoissonLoss
from hdpstats.losses.multinomial import probabilities
from hdpstats.protocols.outcomes import Law, Outcomes

LARGEST_MEAN = 1e6
"""Means of counts are cut at it: what is listed is far below."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CountOutcomes(Outcomes):
    """Rows ``X`` (n, D) with counts 0..Y; ``weights`` (Mallows times case weights) and ``offset`` (n,)."""

    loss: PoissonLoss
    X: FloatArray
    weights: FloatArray
    offset: FloatArray

    @property
    def people(self) -> int:
        """The number of rows."""
        return len(self.X)

    @property
    def whole(self) -> int:
        """The number of rows."""
        return len(self.X)

    @property
    def size(self) -> int:
        """``Y + 1``."""
        return int(self.loss.upper) + 1

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.X.shape[1])

    def gradients(self, theta: FloatArray, people: slice) -> FloatArray:
        """Return ``w l'(eta; y) x`` for every count."""
        eta = (self.X[people] @ theta + self.offset[people])[:, None]
        slopes = self.loss.score(eta, np.arange(self.size, dtype=np.float64)[None, :])
        return np.asarray((self.weights[people, None] * slopes)[:, :, None] * self.X[people, None, :])

    def law(self, theta: FloatArray, people: slice) -> Law:
        """Return Poisson probabilities with everything above the largest count at it, and their scores."""
        eta = np.minimum(self.X[people] @ theta + self.offset[people], np.log(LARGEST_MEAN))[:, None]
        y, mean = np.arange(self.size, dtype=np.float64)[None, :], np.exp(eta)
        p = np.exp(y * eta - mean - gammaln(y + 1.0))
        before = p[:, -2]
        p[:, -1] = gammainc(self.size - 1.0, mean[:, 0])  # P(N >= Y), the regularised lower incomplete gamma function
        slopes = y - mean
        slopes[:, -1] = mean[:, 0] * before / np.maximum(p[:, -1], 1e-300)
        return Law(probability=p, score=np.asarray(slopes[:, :, None] * self.X[people, None, :]))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LevelOutcomes(Outcomes):
    """Rows ``X`` (n, D) with one of ``others + 1`` levels; ``weights`` (Mallows times case weights) (n,)."""

    others: int
    X: FloatArray
    weights: FloatArray

    @property
    def people(self) -> int:
        """The number of rows."""
        return len(self.X)

    @property
    def whole(self) -> int:
        """The number of rows."""
        return len(self.X)

    @property
    def size(self) -> int:
        """The number of levels."""
        return self.others + 1

    @property
    def dimension(self) -> int:
        """``others D``."""
        return self.others * int(self.X.shape[1])

    def gradients(self, theta: FloatArray, people: slice) -> FloatArray:
        """Return ``w (p - e_y) (x) x`` for every level."""
        return np.asarray(self.weights[people, None, None] * self._residuals(theta, people))

    def law(self, theta: FloatArray, people: slice) -> Law:
        """Return the probabilities of the levels and their scores ``(e_y - p) (x) x``."""
        p = self._probabilities(theta, people)
        return Law(probability=np.column_stack([1.0 - p.sum(axis=1), p]), score=-self._residuals(theta, people))

    def _probabilities(self, theta: FloatArray, people: slice) -> FloatArray:
        return probabilities(self.X[people] @ theta.reshape(self.others, -1).T)

    def _residuals(self, theta: FloatArray, people: slice) -> FloatArray:
        """Return ``(p - e_y) (x) x`` for every level (b, K, others D)."""
        p, X = self._probabilities(theta, people), self.X[people]
        hit = np.eye(self.size)[:, 1:]
        left = p[:, None, :] - hit[None, :, :]
        return np.asarray((left[:, :, :, None] * X[:, None, None, :]).reshape(len(X), self.size, -1))
