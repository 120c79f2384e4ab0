r"""Outcomes of least squares: what the model predicts for a public person, plus a residual of any of them.

See `hdpstats.protocols.outcomes`. Under coefficients ``theta`` person ``i`` might have each of
:math:`x_i'\theta + r_k`, cut to the declared range, all alike likely: residuals are taken to be distributed as the
public ones whatever the covariates. They are shifted to a mean of 0, as those of private people have at
the truth: without clipping the expectation of a score is 0 there whatever the shape of their law, and with it only the
clipped part rests on that. So this is for least squares; quantiles need densities, which depend on covariates.

The score of a location family needs no density. With ordered residuals the sum over ``k`` of
:math:`g_k\{1 / (r_k - r_{k-1}) - 1 / (r_{k+1} - r_k)\}` is, by summation by parts, that of the slopes of ``g`` between
neighbours, which are bounded however close these are.
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.losses import BoundedSquares
from hdpstats.protocols.outcomes import Law, Outcomes

NODES = 200
"""The most residuals that are listed: quantiles, where there are more."""

APART = 1e-9
"""Residuals nearer to each other than this are moved apart."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ResidualOutcomes(Outcomes):
    """Rows ``X`` (n, D), outcomes ``X theta + offset + residual``; ``weights`` (Mallows times case weights) (n,)."""

    loss: BoundedSquares
    X: FloatArray
    weights: FloatArray
    offset: FloatArray
    residuals: FloatArray
    theta: FloatArray

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
        """The number of residuals."""
        return len(self.residuals)

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.X.shape[1])

    def at(self, theta: FloatArray) -> "ResidualOutcomes":
        """Return the outcomes under other coefficients."""
        return replace(self, theta=theta)

    def gradients(self, theta: FloatArray, people: slice) -> FloatArray:
        """Return ``w l'(eta; y) x`` for every outcome."""
        X, shift = self.X[people], self.offset[people]
        y = (X @ self.theta + shift)[:, None] + self.residuals
        slopes = self.loss.score((X @ theta + shift)[:, None], np.clip(y, self.loss.lower, self.loss.upper))
        return np.asarray((self.weights[people, None] * slopes)[:, :, None] * X[:, None, :])

    def law(self, theta: FloatArray, people: slice) -> Law:  # noqa: ARG002
        """Return equal probabilities, and the scores of a location family."""
        X, gaps = self.X[people], 1.0 / np.diff(self.residuals)
        score = np.concatenate([[0.0], gaps]) - np.concatenate([gaps, [0.0]])
        return Law(
            probability=np.full((len(X), self.size), 1.0 / self.size),
            score=np.asarray(score[None, :, None] * X[:, None, :]),
        )


def centred_residuals(residuals: FloatArray) -> FloatArray:
    """Return at most `NODES` residuals in order, shifted so that their mean is 0."""
    nodes = np.sort(residuals)
    if len(nodes) > NODES:
        nodes = np.quantile(nodes, (np.arange(NODES) + 0.5) / NODES)
    nodes = np.maximum.accumulate(nodes + APART * np.arange(len(nodes)))
    return np.asarray(nodes - np.mean(nodes))
