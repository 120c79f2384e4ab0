r"""Public spells with every outcome of follow-up: the event in each interval, or censoring after each.

There are ``2 q`` outcomes. With ``K_c`` the probability that a person would be followed for exactly ``c`` intervals
(`hdpstats.public.censoring`), ``G_s = K_s + ... + K_q`` and ``S_s`` survival,

.. math:: P(\text{event in } s) = G_s S_{s-1} p_s, \qquad P(\text{censored after } c) = K_c S_c.
"""

from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.losses import LINKS
from hdpstats.public.censoring import without_censoring
from hdpstats.public.outcomes import OutcomeDistribution, Outcomes
from hdpstats.solvers import CappedSpells


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
