r"""Public people with every outcome that each of them might have.

A noisy sum of clipped scores estimates ``n E{g(X, Y)}`` over private people. What that is at coefficients ``theta`` can
be computed from public covariates without public outcomes: for each public person all outcomes are listed, with their
probabilities under the model. Clipped scores have no mean of zero, and need none: the expectation is taken of the same
clipped scores, so that solving "sum = expectation" for ``theta`` is consistent whatever the clip.

*Outcomes of a likelihood*: 0 and 1, or counts up to the largest; the loss says how likely they are
(`PredictorLoss.listed`).

*Residuals*: under coefficients ``theta`` person ``i`` might have each of :math:`x_i'\theta + r_k`, cut to the declared
range, all alike likely: residuals are taken to be distributed as the public ones whatever the covariates. They are
shifted to a mean of 0, as those of private people have at the truth: without clipping the expectation of a score is 0
there whatever the shape of their distribution, and with it only the clipped part rests on that. So this is for least
squares; quantiles need densities, which depend on covariates. The score of a location family needs no density. With
ordered residuals the sum over ``k`` of :math:`g_k\{1 / (r_k - r_{k-1}) - 1 / (r_{k+1} - r_k)\}` is, by summation by
parts, that of the slopes of ``g`` between neighbours, which are bounded however close these are.

*Survival*: the event in each interval, or censoring after each: ``2 q`` outcomes. With ``K_c`` the probability that a
person would be followed for exactly ``c`` intervals, ``G_s = K_s + ... + K_q`` and ``S_s`` survival,

.. math:: P(\text{event in } s) = G_s S_{s-1} p_s, \qquad P(\text{censored after } c) = K_c S_c.

A public person who was censored after ``c`` intervals shows ``K_c = 1``. Who had the event in ``s`` would have been
followed for ``s`` intervals at least; beyond, ``K`` is the product-limit estimate of censoring given that (Kaplan and
Meier 1958, with events before censorings of the same interval), so that on average over people ``K`` is that estimate
itself (Efron 1967). Where follow-up ends for everybody at the horizon, ``K_q = 1``.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.losses import LINKS, BoundedSquares, PredictorLoss
from hdpstats.losses.multinomial import probabilities
from hdpstats.public.moments import whitened_designs
from hdpstats.public.raking import RakedPeople
from hdpstats.records.geometry import Geometry
from hdpstats.solvers import CappedSpells

NUMBERS = 2_000_000
"""Numbers that an array over people, outcomes and coefficients may hold at a time."""

NODES = 200
"""The most residuals that are listed: quantiles, where there are more."""

APART = 1e-9
"""Residuals nearer to each other than this are moved apart."""


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

        What `hdpstats.mechanisms.person_loss.base.People.scores` returns for a private person with that record.
        """

    @abstractmethod
    def distribution(self, theta: FloatArray, people: slice) -> OutcomeDistribution:
        """Return the probabilities of the outcomes under ``theta``."""

    def at(self, theta: FloatArray) -> "Outcomes":  # noqa: ARG002
        """Return the outcomes that people might have under coefficients: the same ones, but for those on a line."""
        return self

    @property
    def counted(self) -> FloatArray:
        """The share of each person in expectations (people,)."""
        return np.full(self.people, 1.0 / self.whole) if self.share is None else self.share

    def blocks(self) -> Iterator[slice]:
        """Yield slices of people."""
        step = max(1, NUMBERS // (self.size * self.dimension))
        for start in range(0, self.people, step):
            yield slice(start, min(start + step, self.people))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SurvivalOutcomes(Outcomes):
    """Spells of one cause, one of each person, with an event in interval 1..q or censoring after interval 1..q.

    Attributes
    ----------
    spells : CappedSpells
        The people's covariates, entries, weights and offsets with the loss and its caps, none of which ends follow-up.
    followed : (n, q) float64
        ``K``: the probability that a person would be followed for exactly so many intervals.
    whole : int
        The number of people with those who are never at risk: entry and exit lie in one interval.
    at_risk : (B, q) float64 or None
        The shares at risk when intervals begin, of B sets of people one after the other, where follow-up is as
        described: then ``followed`` follows from it at each theta.
    """

    spells: CappedSpells
    followed: FloatArray
    whole: int
    share: FloatArray | None = None
    at_risk: FloatArray | None = None
    reached: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        """Sum up who is followed for at least so many intervals."""
        object.__setattr__(self, "reached", np.cumsum(self.followed[:, ::-1], axis=1)[:, ::-1])

    def at(self, theta: FloatArray) -> "SurvivalOutcomes":
        """Return the same people, followed so that the shares at risk are those that are known."""
        if self.at_risk is None:
            return self
        everywhere = slice(0, len(self.spells.A))
        eta = self.spells.predictor(theta, slice(0, self.people), everywhere, 0)
        lost = LINKS[self.spells.loss.name].survive(eta).value
        survived = np.exp(lost - np.cumsum(lost, axis=1)).reshape(len(self.at_risk), -1, len(self.spells.A))
        share = (self.counted * self.spells.weights).reshape(len(self.at_risk), -1)
        surviving = np.einsum("bn,bns->bs", share / share.sum(axis=1, keepdims=True), survived)
        reached = without_censoring(self.at_risk, surviving)
        followed = reached - np.column_stack([reached[:, 1:], np.zeros(len(reached))])
        return replace(self, followed=np.repeat(followed, survived.shape[1], axis=0))

    @property
    def people(self) -> int:
        """The number of people."""
        return len(self.followed)

    @property
    def size(self) -> int:
        """``2 q``."""
        return 2 * len(self.spells.A)

    @property
    def dimension(self) -> int:
        """D."""
        return self.spells.block

    def gradients(self, theta: FloatArray, people: slice) -> FloatArray:
        """Return ``w (sum c_s x^s - e x^t)`` and, without an event, ``w sum c_s x^s``."""
        spells, everywhere = self.spells, slice(0, len(self.spells.A))
        eta = spells.predictor(theta, people, everywhere, 0)
        c, e = spells.loss.scores(eta, spells.log_caps(people, everywhere, 0))
        return np.asarray(spells.weights[people, None, None] * self._stacked(c, -e, people))

    def distribution(self, theta: FloatArray, people: slice) -> OutcomeDistribution:
        """Return the probabilities of events and censorings; their scores are those of the likelihood, uncapped."""
        everywhere = slice(0, len(self.spells.A))
        eta = self.spells.predictor(theta, people, everywhere, 0)
        survive, event = LINKS[self.spells.loss.name].survive(eta), LINKS[self.spells.loss.name].event(eta)
        at_risk = self._at_risk(people)
        lost = np.cumsum(survive.value * at_risk, axis=1)
        before = np.column_stack([np.zeros(len(lost)), lost[:, :-1]])
        failing = self.reached[people] * np.exp(-before - event.value) * at_risk
        ending = self.followed[people] * np.exp(-lost)
        return OutcomeDistribution(
            probability=np.column_stack([failing, ending]),
            score=-self._stacked(survive.score, event.score, people),
        )

    def _at_risk(self, people: slice) -> FloatArray:
        intervals = np.arange(1, len(self.spells.A) + 1)
        return np.asarray(intervals > self.spells.entry[people, None], dtype=np.float64)

    def _stacked(self, survived: FloatArray, event: FloatArray, people: slice) -> FloatArray:
        """Return sums of slopes times rows for each outcome (b, 2 q, D) from the slopes of intervals (b, q)."""
        A, Z = self.spells.A, self.spells.Z[people]
        survived = survived * self._at_risk(people)
        total = np.cumsum(survived, axis=1)
        baseline = np.cumsum(survived[:, :, None] * A, axis=1)
        slope = np.concatenate([total - survived + event, total], axis=1)
        features = np.concatenate([baseline - (survived - event)[:, :, None] * A, baseline], axis=1)
        return np.concatenate([features, slope[:, :, None] * Z[:, None, :]], axis=2)


LEAST_REACHED = 0.02
"""The least probability of reaching an interval without censoring."""


def without_censoring(at_risk: FloatArray, surviving: FloatArray) -> FloatArray:
    """Return the probability of being followed up to each interval (B, q).

    From the shares at risk there and the mean probabilities of surviving what is before.
    """
    share = at_risk / np.maximum(surviving, 1e-12)
    return np.asarray(np.minimum.accumulate(np.clip(share, LEAST_REACHED, 1.0), axis=1))


def followed_to_horizon(entry: IntArray, intervals: int) -> FloatArray:
    """Return ``K`` (n, q) where nobody is censored before the horizon."""
    out = np.zeros((len(entry), intervals))
    out[:, -1] = 1.0
    return out


def followed_as_public(*, entry: IntArray, last: IntArray, event: IntArray, intervals: int) -> FloatArray:
    """Return ``K`` (n, q) from public follow-up: seen where it was seen, the product-limit estimate beyond an event.

    ``entry`` and ``last``: at risk in intervals ``entry + 1 .. last``; ``event``: above 0 where the last interval ends
    with the event. In the last interval everybody's follow-up ends.

    >>> K = followed_as_public(
    ...     entry=np.array([0, 0, 0]), last=np.array([1, 2, 2]), event=np.array([1, 0, 0]), intervals=3
    ... )
    >>> K.tolist()
    [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    """
    happened = event > 0
    s = np.arange(1, intervals + 1)
    stays = (s > entry[:, None]) & (s <= (last - happened)[:, None])
    at_risk = np.sum(stays, axis=0)
    leaving = np.bincount(last[~happened & (last > entry)] - 1, minlength=intervals)
    rate = np.divide(leaving, at_risk, out=np.zeros(intervals), where=at_risk > 0)
    rate[-1] = 1.0
    out = np.zeros((len(entry), intervals))
    out[np.flatnonzero(~happened), last[~happened] - 1] = 1.0
    for i in np.flatnonzero(happened).tolist():
        first = int(last[i]) - 1
        remain = np.concatenate([[1.0], np.cumprod(1.0 - rate[first:-1])])
        out[i, first:] = remain * rate[first:]
    return out


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


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PredictorOutcomes(RowOutcomes, ABC):
    """Rows with one linear predictor, to which ``offset`` (n,) is added."""

    loss: PredictorLoss
    offset: FloatArray

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.X.shape[1])

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

    def _predictor(self, theta: FloatArray, people: slice) -> FloatArray:
        return np.asarray((self.X[people] @ theta + self.offset[people])[:, None])


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ListedOutcomes(PredictorOutcomes):
    """The outcomes that the loss lists: 0 and 1, or counts 0..Y."""

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

    loss: BoundedSquares
    residuals: FloatArray
    theta: FloatArray

    @property
    def size(self) -> int:
        """The number of residuals."""
        return len(self.residuals)

    def at(self, theta: FloatArray) -> "ResidualOutcomes":
        """Return the outcomes under other coefficients."""
        return replace(self, theta=theta)

    def values(self, people: slice) -> FloatArray:
        """Return predictions plus residuals, cut to the declared range."""
        return np.clip(self._predictor(self.theta, people) + self.residuals, self.loss.lower, self.loss.upper)

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


def raked_outcomes(
    outcomes: Outcomes, people: RakedPeople, geometry: Geometry, *, case_weights: FloatArray, starts: FloatArray
) -> Outcomes:
    """Return the outcomes of raked public people (B n,), set by set, whose shares are 1 in each set.

    Parameters
    ----------
    outcomes
        Those of the public people as they are.
    people
        The raked ones.
    geometry, case_weights
        The geometry of the outcomes, and the public people's case weights (n,).
    starts
        Where intervals begin (q,), if follow-up is to be as described; empty where it is that of public people.
    """
    z, mallows = whitened_designs(geometry, people.X)
    B, n, _ = z.shape
    share, weights = people.weights.ravel(), (case_weights * mallows).ravel()
    if isinstance(outcomes, SurvivalOutcomes):
        spells = outcomes.spells
        return SurvivalOutcomes(
            spells=replace(
                spells,
                Z=z.reshape(B * n, -1),
                entry=np.tile(spells.entry, B),
                last=np.tile(spells.last, B),
                cause=np.tile(spells.cause, B),
                weights=weights,
                offset=np.tile(spells.offset, B),
            ),
            followed=np.tile(outcomes.followed, (B, 1)),
            whole=B * n,
            share=share,
            at_risk=people.at_risk_at(starts) if starts.size and people.times.size else None,
        )
    if isinstance(outcomes, ListedOutcomes):
        ones = np.ones((B * n, int(geometry.intercept)))
        X = np.column_stack([ones, z.reshape(B * n, -1)])
        return replace(outcomes, X=X, weights=weights, offset=np.tile(outcomes.offset, B), share=share)
    raise TypeError("only binary outcomes, counts and survival are raked")


def some_sets(outcomes: Outcomes, sets: slice, *, size: int) -> Outcomes:
    """Return some of the sets of ``size`` raked people each."""
    people = slice(sets.start * size, sets.stop * size)
    share = None if outcomes.share is None else outcomes.share[people]
    if isinstance(outcomes, SurvivalOutcomes):
        return replace(
            outcomes,
            spells=outcomes.spells.take(people),
            followed=outcomes.followed[people],
            whole=len(outcomes.followed[people]),
            share=share,
            at_risk=None if outcomes.at_risk is None else outcomes.at_risk[sets],
        )
    if isinstance(outcomes, ListedOutcomes):
        rows = {name: getattr(outcomes, name)[people] for name in ("X", "weights", "offset")}
        return replace(outcomes, **rows, share=share)
    raise TypeError("only binary outcomes, counts and survival are raked")


def centred_residuals(residuals: FloatArray) -> FloatArray:
    """Return at most `NODES` residuals in order, shifted so that their mean is 0."""
    nodes = np.sort(residuals)
    if len(nodes) > NODES:
        nodes = np.quantile(nodes, (np.arange(NODES) + 0.5) / NODES)
    nodes = np.maximum.accumulate(nodes + APART * np.arange(len(nodes)))
    return np.asarray(nodes - np.mean(nodes))
