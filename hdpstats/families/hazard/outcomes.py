r"""Public spells with every outcome of follow-up: the event in each interval, or censoring after each.

There are ``2 q`` outcomes. With ``K_c`` the probability that a person would be followed for exactly ``c`` intervals
(see below), ``G_s = K_s + ... + K_q`` and ``S_s`` survival,

.. math:: P(\text{event in } s) = G_s S_{s-1} p_s, \qquad P(\text{censored after } c) = K_c S_c.

**Censoring.** How long would people be followed if nothing happened to them? ``K_c`` is the probability that a person
would be followed for exactly ``c`` intervals. A public person who was censored after ``c`` intervals shows ``K_c = 1``.
Who had the event in ``s`` would have been followed for ``s`` intervals at least; beyond, ``K`` is the product-limit
estimate of censoring given that (Kaplan and Meier 1958, with events before censorings of the same interval), so that on
average over people ``K`` is that estimate itself (Efron 1967). Where follow-up ends for everybody at the horizon, ``K_q
= 1``.
"""

from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.families.hazard.spells import CappedSpells
from hdpstats.families.outcomes import OutcomeDistribution, Outcomes
from hdpstats.losses import LINKS
from hdpstats.losses.base import LikelihoodTerms


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
        survive, event = self._terms(theta, people)
        return OutcomeDistribution(
            probability=self._probability(survive.value, event.value, people),
            score=-self._stacked(survive.score, event.score, people),
        )

    def chances_of(self, theta: FloatArray, people: slice) -> FloatArray:
        """Return the probabilities of events and censorings."""
        survive, event = self._terms(theta, people)
        return self._probability(survive.value, event.value, people)

    def shortened(self, theta: FloatArray, chances: FloatArray, people: slice, *, clip: float) -> FloatArray:
        r"""Return the mean of gradients none longer than ``clip``, from numbers of people and intervals alone.

        With :math:`F_c = \sum_{s \le c} c_s A_s` and :math:`t_c = \sum_{s \le c} c_s` the gradient is ``w`` times
        :math:`(F_{s-1} - e_s A_s,\, (t_{s-1} - e_s) z)` after an event in ``s`` and :math:`(F_c,\, t_c z)` after
        censoring: squared lengths follow from :math:`F_{s-1}'A_s`, and the mean is a sum of the rows :math:`(A_s, z)`.
        """
        spells, everywhere = self.spells, slice(0, len(self.spells.A))
        q, Z, w = len(spells.A), spells.Z[people], spells.weights[people, None]
        eta = spells.predictor(theta, people, everywhere, 0)
        c, e = spells.loss.scores(eta, spells.log_caps(people, everywhere, 0))
        c = c * self._at_risk(people)
        gram = spells.A @ spells.A.T
        inner, own = c @ np.triu(gram, 1), np.diag(gram)
        slope, square = np.cumsum(c, axis=1), np.cumsum(c * (2.0 * inner + c * own), axis=1)
        slope_before, square_before = (_one_later(each) for each in (slope, square))
        z_square = np.einsum("bp,bp->b", Z, Z)[:, None]
        of_event = square_before + e * (e * own - 2.0 * inner) + (slope_before - e) ** 2 * z_square
        of_end = square + slope**2 * z_square
        failing, ending = (
            chance * w * (clip / np.maximum(w * np.sqrt(np.maximum(length, 0.0)), clip))
            for chance, length in ((chances[:, :q], of_event), (chances[:, q:], of_end))
        )
        later = np.column_stack([failing[:, 1:], np.zeros(len(failing))]) + ending
        by = c * np.cumsum(later[:, ::-1], axis=1)[:, ::-1] - e * failing
        return np.column_stack([by @ spells.A, by.sum(axis=1)[:, None] * Z])

    def _terms(self, theta: FloatArray, people: slice) -> tuple[LikelihoodTerms, LikelihoodTerms]:
        """Return the likelihood's terms of surviving an interval and of the event in it."""
        eta = self.spells.predictor(theta, people, slice(0, len(self.spells.A)), 0)
        link = LINKS[self.spells.loss.name]
        return link.survive(eta), link.event(eta)

    def _probability(self, survived: FloatArray, event: FloatArray, people: slice) -> FloatArray:
        """Return the probabilities (b, 2 q) from minus the logarithms of those in intervals (b, q)."""
        at_risk = self._at_risk(people)
        lost = np.cumsum(survived * at_risk, axis=1)
        failing = self.reached[people] * np.exp(-_one_later(lost) - event) * at_risk
        return np.column_stack([failing, self.followed[people] * np.exp(-lost)])

    def _at_risk(self, people: slice) -> FloatArray:
        intervals = np.arange(1, len(self.spells.A) + 1)
        return np.asarray(intervals > self.spells.entry[people, None], dtype=np.float64)

    def _stacked(self, survived: FloatArray, event: FloatArray, people: slice) -> FloatArray:
        """Return sums of slopes times rows for each outcome (b, 2 q, D) from the slopes of intervals (b, q)."""
        A, Z = self.spells.A, self.spells.Z[people]
        survived = survived * self._at_risk(people)
        total = np.cumsum(survived, axis=1)
        slope = np.concatenate([total - survived + event, total], axis=1)
        q, e = A.shape
        rows = np.empty((len(Z), 2 * q, e + Z.shape[1]))
        np.cumsum(survived[:, :, None] * A, axis=1, out=rows[:, q:, :e])
        np.subtract(rows[:, q:, :e], (survived - event)[:, :, None] * A, out=rows[:, :q, :e])
        np.multiply(slope[:, :, None], Z[:, None, :], out=rows[:, :, e:])
        return rows


def _one_later(sums: FloatArray) -> FloatArray:
    """Return sums up to each interval (b, q) as those before it."""
    return np.column_stack([np.zeros(len(sums)), sums[:, :-1]])


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
