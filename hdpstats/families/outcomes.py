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

*Several rows of a person*: each row has its own outcomes, and counts ``w(n)`` (`hdpstats.families.several_rows`). The
expectation of a person's sum needs no more. Its covariance does: a row's clipped score differs from its expectation by
``C^(1/2) t`` times the row, ``C`` (M, M) being the covariance of what multiplies the row under the model, and ``t`` the
standardised residuals of the public fit, adjusted for few people (`hdpstats.families.regression.clustered`). So clipped
scores of a person go together as public residuals do.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self, final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
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
    def several(self) -> bool:
        """Whether outcomes are those of rows, of which people have several."""
        return False

    def together(self, of_rows: FloatArray) -> FloatArray:
        """Return the sums (people, ...) of what rows contribute (rows, ...), times what they count."""
        return of_rows

    def deviations(self, g: FloatArray, chances: FloatArray, people: slice) -> FloatArray:  # noqa: ARG002
        """Return by what (b, D) averaged scores ``g`` (b, K, D) of rows differ from expectations, of several."""
        return np.zeros((len(g), self.dimension))

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

    @property
    def shares_of_people(self) -> FloatArray:
        """The share of each person in expectations (people,), whatever a row counts."""
        return self.counted

    def blocks(self) -> Iterator[slice]:
        """Yield slices of people."""
        step = max(1, NUMBERS // (self.size * self.dimension))
        for start in range(0, self.people, step):
            yield slice(start, min(start + step, self.people))


NODES, FEW_NODES = 200, 40
"""The most residuals that are listed: quantiles, where there are more; and where people are only compared."""

APART = 1e-9
"""Residuals nearer to each other than this are moved apart."""


LEAST = 1e-300
"""Squared lengths below this are taken for it."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OutcomesOfRows:
    """Whose rows are, those of a person together, ``counts`` what each counts, and ``t`` its standardised residuals.

    Shapes: ``person``, ``counts`` (n,); ``t`` (n, M), one for each predictor. ``weights`` of `RowOutcomes` are without
    ``counts``.
    """

    person: IntArray
    counts: FloatArray
    t: FloatArray

    @property
    def begins(self) -> IntArray:
        """The first row of each person."""
        return np.flatnonzero(np.diff(self.person, prepend=-1))

    @property
    def people(self) -> int:
        """The number of people."""
        return len(self.begins)

    def repeated(self, sets: int) -> "OutcomesOfRows":
        """Return the rows of so many sets of the same people, one after the other."""
        person = self.person + (int(self.person.max(initial=-1)) + 1) * np.arange(sets)[:, None]
        return OutcomesOfRows(person=person.ravel(), counts=np.tile(self.counts, sets), t=np.tile(self.t, (sets, 1)))

    def some(self, rows: slice) -> "OutcomesOfRows":
        """Return some of the rows, all of each person."""
        return OutcomesOfRows(person=self.person[rows], counts=self.counts[rows], t=self.t[rows])


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RowOutcomes(Outcomes, ABC):
    """Rows ``X`` (n, D); ``weights`` (Mallows times case weights) (n,); of people with several, how these count."""

    X: FloatArray
    weights: FloatArray
    share: FloatArray | None = None
    rows: "OutcomesOfRows | None" = None

    @property
    def people(self) -> int:
        """The number of rows."""
        return len(self.X)

    @property
    def whole(self) -> int:
        """The number of people: of rows, where each is a person."""
        return len(self.X) if self.rows is None else self.rows.people

    @property
    def several(self) -> bool:
        """Whether people have several rows."""
        return self.rows is not None

    @property
    def counted(self) -> FloatArray:
        """The share of each person in expectations, times what a row counts (n,)."""
        share = np.full(self.people, 1.0 / self.whole) if self.share is None else self.share
        return share if self.rows is None else self.rows.counts * share

    @property
    def shares_of_people(self) -> FloatArray:
        """The share of each person in expectations, whatever a row counts."""
        share = np.full(self.people, 1.0 / self.whole) if self.share is None else self.share
        return share if self.rows is None else share[self.rows.begins]

    def together(self, of_rows: FloatArray) -> FloatArray:
        """Return the sums over each person's rows, times what they count."""
        if self.rows is None:
            return of_rows
        counts = self.rows.counts.reshape(-1, *[1] * (of_rows.ndim - 1))
        return np.asarray(np.add.reduceat(counts * of_rows, self.rows.begins, axis=0))

    def deviations(self, g: FloatArray, chances: FloatArray, people: slice) -> FloatArray:
        """Return by what averaged scores of rows differ from expectations, as public residuals do."""
        if self.rows is None:
            return np.zeros((len(g), self.dimension))
        X = self.X[people]
        f = g.reshape(*g.shape[:2], -1, X.shape[1]) @ X[:, None, :, None]
        f = f[:, :, :, 0] / np.maximum(np.einsum("bd,bd->b", X, X), LEAST)[:, None, None]
        f = f - (chances[:, None, :] @ f)
        sizes, vectors = np.linalg.eigh(np.swapaxes(f, 1, 2) @ (chances[:, :, None] * f))
        along = np.einsum("bmk,bm->bk", vectors, self.rows.t[people]) * np.sqrt(np.maximum(sizes, 0.0))
        size = np.einsum("bmk,bk->bm", vectors, along)
        return np.asarray((size[:, :, None] * X[:, None, :]).reshape(len(X), -1))

    def raked(
        self,
        people: WhitenedPeople,
        *,
        weights: FloatArray,
        share: FloatArray,
        at_risk: FloatArray | None,  # noqa: ARG002
    ) -> Self:
        """Return the outcomes of raked people (B n,), set by set."""
        rows = None if self.rows is None else self.rows.repeated(len(people.X))
        if rows is not None:
            weights = weights / rows.counts
        return replace(self, X=people.X.reshape(-1, people.X.shape[2]), weights=weights, share=share, rows=rows)

    def some(self, people: slice, sets: slice) -> Self:  # noqa: ARG002
        """Return some of the raked people."""
        share = None if self.share is None else self.share[people]
        rows = None if self.rows is None else self.rows.some(people)
        return replace(self, X=self.X[people], weights=self.weights[people], share=share, rows=rows)


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
