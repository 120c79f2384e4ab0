r"""Public people with every outcome that each of them might have.

A noisy sum of clipped scores estimates ``n E{g(X, Y)}`` over private people. What that is at coefficients ``theta`` can
be computed from public covariates without public outcomes: for each public person all outcomes are listed, with their
probabilities under the model. Clipped scores have no mean of zero, and need none: the expectation is taken of the same
clipped scores, so that solving "sum = expectation" for ``theta`` is consistent whatever the clip.

The outcomes of regressions are here, of follow-up in `hdpstats.families.hazard.outcomes`, of raked people in
`hdpstats.mechanisms.clipped_newton.expectations`.

*Outcomes of a likelihood*: 0 and 1, or counts up to the largest; the loss says how likely they are
(`ListedLoss.listed`).

*Residuals*: under coefficients ``theta`` person ``i`` might have each of :math:`x_i'\theta + r_k`, all alike likely:
residuals are taken to be distributed as the public ones whatever the covariates. (Outcomes of private people lie within
the declared range. To cut these sums to it would move their mean off the prediction, on which least squares of the
outcomes as they are declared has it.) They are shifted to a mean of 0, as those of private people have at the truth:
without clipping the expectation of a score is 0 there whatever the shape of their distribution, and with it only the
clipped part rests on that. So this is for least squares; quantiles need densities, which depend on covariates. The
score of a location family needs no density. With ordered residuals the sum over ``k`` of
:math:`g_k\{1 / (r_k - r_{k-1}) - 1 / (r_{k+1} - r_k)\}` is, by summation by parts, that of the slopes of ``g`` between
neighbours, which are bounded however close these are.

*Levels* of a multinomial regression: each of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self, final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.losses import ListedLoss, PredictorLoss
from hdpstats.losses.multinomial import probabilities
from hdpstats.raking.people import WhitenedPeople

NUMBERS = 2_000_000
"""Numbers that an array over people, outcomes and coefficients may hold at a time."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OutcomeDistribution:
    """Outcomes (b, K) of a block of people: ``probability``, and the ``score`` (b, K, D) of its logarithm."""

    probability: FloatArray
    score: FloatArray


class Outcomes(ABC):
    """Public people with all their outcomes.

    Attributes
    ----------
    people, size, dimension : int
        How many people, outcomes of each, and coefficients there are.
    whole : int
        How many people there are with those who contribute nothing, whatever happens to them.
    share : (people,) float64 or None
        The weights of the people, where they are raked; None where everybody counts alike.
    """

    share: FloatArray | None

    @property
    def fixed(self) -> bool:
        """Whether `at` changes the probabilities of outcomes alone."""
        return True

    @property
    @abstractmethod
    def people(self) -> int:
        """The number of people."""

    @property
    @abstractmethod
    def whole(self) -> int:
        """The number of people with those who contribute nothing."""

    @property
    @abstractmethod
    def size(self) -> int:
        """``K``: outcomes of each person."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """D."""

    @abstractmethod
    def gradients(self, theta: FloatArray, people: slice) -> FloatArray:
        """Return the gradient of a person's weighted loss at ``theta`` under each outcome (b, K, D).

        What `hdpstats.solvers.objective.Rows.scores` returns for a private person with that record.
        """

    @abstractmethod
    def distribution(self, theta: FloatArray, people: slice) -> OutcomeDistribution:
        """Return the probabilities of the outcomes under ``theta``."""

    def chances_of(self, theta: FloatArray, people: slice) -> FloatArray:
        """Return the probabilities (b, K) of the outcomes under ``theta``, without their scores."""
        return self.distribution(theta, people).probability

    def shortened(self, theta: FloatArray, chances: FloatArray, people: slice, *, clip: float) -> FloatArray:
        """Return the mean (b, D), by probabilities (b, K), of gradients at ``theta`` none longer than ``clip``."""
        gradients = self.gradients(theta, people)
        length = np.linalg.norm(gradients, axis=2)
        return np.asarray(np.einsum("bk,bkd->bd", chances * (clip / np.maximum(length, clip)), gradients))

    def at(self, theta: FloatArray) -> "Outcomes":  # noqa: ARG002
        """Return the outcomes that people might have under coefficients: the same ones, but for those on a line."""
        return self

    def coarse(self) -> "Outcomes":
        """Return the people with fewer outcomes each, where these are numbers: enough to tell sets of people apart."""
        return self

    @abstractmethod
    def raked(
        self, people: WhitenedPeople, *, weights: FloatArray, share: FloatArray, at_risk: FloatArray | None
    ) -> "Outcomes":
        """Return the outcomes of raked people (B n,), set by set, with their weights and shares.

        ``at_risk`` (B, q) are shares at risk when intervals begin, where follow-up is as described.
        """

    @abstractmethod
    def some(self, people: slice, sets: slice) -> "Outcomes":
        """Return some of the raked people, those of whole sets."""

    @property
    def counted(self) -> FloatArray:
        """The share of each person in expectations (people,)."""
        return np.full(self.people, 1.0 / self.whole) if self.share is None else self.share

    def blocks(self) -> Iterator[slice]:
        """Yield slices of people."""
        step = max(1, NUMBERS // (self.size * self.dimension))
        for start in range(0, self.people, step):
            yield slice(start, min(start + step, self.people))


NODES, FEW_NODES = 200, 40
"""The most residuals that are listed: quantiles, where there are more; and where people are only compared."""

APART = 1e-9
"""Residuals nearer to each other than this are moved apart."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RowOutcomes(Outcomes, ABC):
    """Rows ``X`` (n, D); ``weights`` (Mallows times case weights) (n,)."""

    X: FloatArray
    weights: FloatArray
    share: FloatArray | None = None

    @property
    def people(self) -> int:
        """The number of rows."""
        return len(self.X)

    @property
    def whole(self) -> int:
        """The number of rows."""
        return len(self.X)

    def raked(
        self,
        people: WhitenedPeople,
        *,
        weights: FloatArray,
        share: FloatArray,
        at_risk: FloatArray | None,  # noqa: ARG002
    ) -> Self:
        """Return the outcomes of raked people (B n,), set by set."""
        return replace(self, X=people.X.reshape(-1, people.X.shape[2]), weights=weights, share=share)

    def some(self, people: slice, sets: slice) -> Self:  # noqa: ARG002
        """Return some of the raked people."""
        share = None if self.share is None else self.share[people]
        return replace(self, X=self.X[people], weights=self.weights[people], share=share)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PredictorOutcomes(RowOutcomes, ABC):
    """Rows with one linear predictor, to which ``offset`` (n,) is added."""

    loss: PredictorLoss
    offset: FloatArray

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.X.shape[1])

    def raked(
        self, people: WhitenedPeople, *, weights: FloatArray, share: FloatArray, at_risk: FloatArray | None
    ) -> Self:
        """Return the outcomes of raked people (B n,), set by set."""
        found = RowOutcomes.raked(self, people, weights=weights, share=share, at_risk=at_risk)
        return replace(found, offset=np.tile(self.offset, len(people.X)))

    def some(self, people: slice, sets: slice) -> Self:
        """Return some of the raked people."""
        return replace(RowOutcomes.some(self, people, sets), offset=self.offset[people])

    @abstractmethod
    def values(self, people: slice) -> FloatArray:
        """Return the outcomes (b, K), or (1, K) where they are the same for everybody."""

    @abstractmethod
    def chances(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return at predictors (b, 1) the probabilities (b, K) and the slopes of their logarithms (b, K) or (1, K)."""

    def gradients(self, theta: FloatArray, people: slice) -> FloatArray:
        """Return ``w l'(eta; y) x`` for every outcome."""
        slopes = self.loss.score(self._predictor(theta, people), self.values(people))
        return np.asarray((self.weights[people, None] * slopes)[:, :, None] * self.X[people, None, :])

    def distribution(self, theta: FloatArray, people: slice) -> OutcomeDistribution:
        """Return the probabilities of the outcomes and their scores, slopes times rows."""
        probability, slopes = self.chances(self._predictor(theta, people))
        return OutcomeDistribution(
            probability=probability, score=np.asarray(slopes[:, :, None] * self.X[people, None, :])
        )

    def chances_of(self, theta: FloatArray, people: slice) -> FloatArray:
        """Return the probabilities of the outcomes."""
        return self.chances(self._predictor(theta, people))[0]

    def shortened(self, theta: FloatArray, chances: FloatArray, people: slice, *, clip: float) -> FloatArray:
        """Return the mean of gradients none longer than ``clip``: slopes are shortened, and times the row."""
        X = self.X[people]
        slopes = self.weights[people, None] * self.loss.score(self._predictor(theta, people), self.values(people))
        length = np.abs(slopes) * np.sqrt(np.einsum("bd,bd->b", X, X))[:, None]
        mean = np.sum(chances * slopes * (clip / np.maximum(length, clip)), axis=1)
        return np.asarray(mean[:, None] * X)

    def _predictor(self, theta: FloatArray, people: slice) -> FloatArray:
        return np.asarray((self.X[people] @ theta + self.offset[people])[:, None])


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ListedOutcomes(PredictorOutcomes):
    """The outcomes that the loss lists: 0 and 1, or counts 0..Y."""

    loss: ListedLoss

    @property
    def size(self) -> int:
        """The number of outcomes."""
        return len(self.loss.listed)

    def values(self, people: slice) -> FloatArray:  # noqa: ARG002
        """Return the outcomes."""
        return self.loss.listed[None, :]

    def chances(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what the loss says."""
        return self.loss.chances(eta)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ResidualOutcomes(PredictorOutcomes):
    """Outcomes ``X theta + offset + residual``."""

    residuals: FloatArray
    theta: FloatArray

    @property
    def size(self) -> int:
        """The number of residuals."""
        return len(self.residuals)

    @property
    def fixed(self) -> bool:
        """Outcomes are predictions plus residuals."""
        return False

    def at(self, theta: FloatArray) -> "ResidualOutcomes":
        """Return the outcomes under other coefficients."""
        return replace(self, theta=theta)

    def coarse(self) -> "ResidualOutcomes":
        """Return the people with `FEW_NODES` residuals."""
        return replace(self, residuals=centred_residuals(self.residuals, most=FEW_NODES))

    def values(self, people: slice) -> FloatArray:
        """Return predictions plus residuals."""
        return self._predictor(self.theta, people) + self.residuals

    def chances(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return equal probabilities, and the slopes of a location family."""
        gaps = 1.0 / np.diff(self.residuals)
        slopes = np.concatenate([[0.0], gaps]) - np.concatenate([gaps, [0.0]])
        return np.full((len(eta), self.size), 1.0 / self.size), slopes[None, :]


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LevelOutcomes(RowOutcomes):
    """Rows with one of ``others + 1`` levels."""

    others: int

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

    def distribution(self, theta: FloatArray, people: slice) -> OutcomeDistribution:
        """Return the probabilities of the levels and their scores ``(e_y - p) (x) x``."""
        p = self._probabilities(theta, people)
        return OutcomeDistribution(
            probability=np.column_stack([1.0 - p.sum(axis=1), p]), score=-self._residuals(theta, people)
        )

    def _probabilities(self, theta: FloatArray, people: slice) -> FloatArray:
        return probabilities(self.X[people] @ theta.reshape(self.others, -1).T)

    def _residuals(self, theta: FloatArray, people: slice) -> FloatArray:
        """Return ``(p - e_y) (x) x`` for every level (b, K, others D)."""
        p, X = self._probabilities(theta, people), self.X[people]
        hit = np.eye(self.size)[:, 1:]
        left = p[:, None, :] - hit[None, :, :]
        return np.asarray((left[:, :, :, None] * X[:, None, None, :]).reshape(len(X), self.size, -1))


def centred_residuals(residuals: FloatArray, *, most: int = NODES) -> FloatArray:
    """Return at most so many residuals in order, shifted so that their mean is 0."""
    nodes = np.sort(residuals)
    if len(nodes) > most:
        nodes = np.quantile(nodes, (np.arange(most) + 0.5) / most)
    nodes = np.maximum.accumulate(nodes + APART * np.arange(len(nodes)))
    return np.asarray(nodes - np.mean(nodes))
