r"""How long a score may be, and what the clip may do to an estimate: functions of public facts.

**What a clip does.** A person's score :math:`g` counts by :math:`f = \min(1, C / \|g\|)`. Clipped scores are compared
with what the model expects of them. Where the model is true that leaves no bias. Where it is not, people and outcomes
that count less have coefficients of their own, as with weights of rows (`hdpstats.public.row_weights`): for a binary
outcome the matched estimate is that of weights :math:`w(x)`, the sum over both outcomes of ``f`` times the size of a
residual. With the information :math:`H_{xy} = -P(y | x)\, g\, (\nabla \log p)'` of a person's outcome, the clip leaves

.. math:: A = \sum f H_{xy}, \qquad \text{moves } N = \tfrac12 \sum |f - c|\, H_{xy},

``c`` the share of the information on slopes that is left. What the estimate is off by is a normal error with covariance
:math:`(\tau u)^2 M M'`, :math:`M = (A + N)^{-1} N`. People whom public rows do not show count as there; their scores
are taken to be as long as the row, times the root mean square of public scores over the length of their rows, and
where the model does not bound residuals times :math:`(1 + d^2 |x|^2)^{1/2}`, ``d`` being 1, in hazard models 4.

**Where sums are asked for.** A sum is asked for beside the truth, and the distance hides a part of every slope, for
which the allowance is larger (`hdpstats.mechanisms.clipped_newton.matching`).

**The clip** is one of the multiples by a power of the root of two (to 8 binary digits) of the 95 % quantile of the
length of public scores, up to the longest that somebody within the schema's bounds is taken to have. It makes the
predicted mean squared error of slopes least: sampling and noise of all sites, averaged by inverse variances, and what
the clip may do. Of clips that are nearly as good (`SPARE`) the longest is taken. Noise grows with the clip, and falls
with the number of people and epsilon: so with these the clip comes to cut nobody. All sites have the same.

**Several rows of a person.** Rows are clipped, each for itself, and count ``w(n)``
(`hdpstats.mechanisms.clipped_newton.site`): above, a score is a row's, information is that of all rows of a person on
average, noise that of ``W`` clips, and the covariance of a person's score that of a row's times the ratio of their
traces without a clip.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.families.outcomes import Outcomes
from hdpstats.inference.pooling import SCALE
from hdpstats.mechanisms.clipped_newton.expectations import expected, score_quantile
from hdpstats.mechanisms.clipped_newton.matching import Averaging
from hdpstats.mechanisms.score_sums import rounded_up, site_weights
from hdpstats.public.row_weights import SPARE, Allowance, Moved, UnseenPeople, moved

LEVEL = 0.95
"""The quantile of the shortest clip."""

MOST_TIMES = 2.0**40
"""The longest clip over the shortest, at most: 81 are tried."""

NUMBERS = 400_000
"""Numbers of scores that the search looks at: those of some public people, spread evenly over the rows."""

TOGETHER = 16
"""So many of these stand one after the other."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Clipping:
    """What a search for a clip needs to know.

    Attributes
    ----------
    outcomes : Outcomes
        Public people with all their outcomes.
    theta : (D,) float64
        The public fit.
    own : (p,) int64
        The coordinates of slopes, all where there are none.
    apart : float
        ``tau u``.
    unit : float
        ``u``.
    unseen : UnseenPeople or None
        People whom public rows do not show.
    blocks : list of (d,) int64
        The coordinates that belong to a whitened row, of each predictor; of hazards those of covariates.
    first : int
        At which number of a row of ``unseen`` they begin.
    costs : tuple of float
        The shares of the rounds in what they cost together.
    grows : float
        ``d``: how residuals of unseen people grow (`hdpstats.families.spec.LossSpec.residuals_grow`).
    """

    outcomes: Outcomes
    theta: FloatArray
    own: IntArray
    apart: float
    unit: float
    unseen: UnseenPeople | None
    blocks: Sequence[IntArray]
    first: int
    costs: tuple[float, ...]
    grows: float

    def chosen(self, sites: Sequence[tuple[int, float]]) -> Fraction:
        """Return the clip for ``sites`` of so many people, with noise of so many standard deviations per unit of it."""
        clips = self._clips()
        tried = self._tried(np.array([float(each) for each in clips]))
        precision = np.zeros_like(tried.A)
        for people, sd in sites:
            n, noise = max(people, 1), (sd * tried.clips) ** 2
            spread = n * tried.J + noise[:, None, None] * np.eye(len(self.theta))
            precision += n**2 * np.swapaxes(tried.A, 1, 2) @ np.linalg.solve(spread, tried.A)
        variances = np.linalg.inv(precision)
        allowed = tried.moved.covariances(self.apart)
        errors, squares = (
            np.trace(each[:, self.own[:, None], self.own], axis1=1, axis2=2) for each in (variances, allowed)
        )
        near = errors + squares <= SPARE * np.min(errors + squares)
        return clips[int(np.flatnonzero(near)[-1])]

    def averaging(self, clip: Fraction, sites: Sequence[tuple[int, float]]) -> Averaging:
        """Return how the rounds of ``sites`` (see `chosen`) are averaged, with a clip."""
        tried = self._tried(np.array([float(clip)]))
        people, noise = [float(max(n, 1)) for n, _ in sites], [(sd * float(clip)) ** 2 for _, sd in sites]
        weights = site_weights(people=people, noise=noise, variance=float(np.trace(tried.J[0])) / len(self.theta))
        information = float(np.mean(np.diag(tried.A[0])[self.own])) * float(np.dot(weights, people))
        of_sum = float(np.dot(np.square(weights), noise))
        return Averaging(costs=self.costs, noise=of_sum / information**2, first=SCALE * self.unit, slopes=self.own)

    def allowance(self, clip: Fraction, averaging: Averaging) -> Allowance:
        """Return what a clip, and where sums are asked for, may do to an estimate."""
        found = self._tried(np.array([float(clip)])).moved.allowance(self.apart)
        beside = np.zeros(len(self.theta))
        beside[self.own] = averaging.hidden**2
        return Allowance(share=found.share, covariance=found.covariance + np.diag(beside))

    def _clips(self) -> list[Fraction]:
        """Return the clips to try, from the quantile on: it is 0 where most public people have the weight 0."""
        found: list[Fraction] = []
        longest = self._longest
        size = max(score_quantile(self.outcomes, self.theta, level=LEVEL), longest / MOST_TIMES)
        while not found or float(found[-1]) < longest:
            found.append(rounded_up(size * 2.0 ** (len(found) / 2.0)))
        return found

    @property
    def _longest(self) -> float:
        """The longest score that somebody within the schema's bounds is taken to have."""
        seen = float(np.max(np.linalg.norm(self._cells[0], axis=1)))
        if self.unseen is None:
            return seen
        return max(seen, float(np.max(self._lengths_of_unseen)))

    @cached_property
    def _cells(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Scores (m, D) of some people under every outcome, minus ``P grad log p`` of each (m, D), and ``P`` (m,)."""
        outcomes = self.outcomes.at(self.theta)
        most = max(TOGETHER, NUMBERS // (outcomes.size * outcomes.dimension))
        count = -(-min(most, outcomes.people) // TOGETHER)
        firsts = np.unique(np.linspace(0, max(outcomes.people - TOGETHER, 0), count).astype(np.int64)).tolist()
        if outcomes.people <= most:
            firsts = list(range(0, outcomes.people, TOGETHER))
        scores, slopes, chances = [], [], []
        for start in firsts:
            people = slice(start, min(start + TOGETHER, outcomes.people))
            at = outcomes.distribution(self.theta, people)
            scores.append(outcomes.gradients(self.theta, people).reshape(-1, outcomes.dimension))
            slopes.append((-at.probability[:, :, None] * at.score).reshape(-1, outcomes.dimension))
            chances.append(at.probability.ravel())
            if outcomes.several:
                counts = np.repeat(outcomes.counted[people] * outcomes.whole, outcomes.size)
                slopes[-1], chances[-1] = slopes[-1] * counts[:, None], chances[-1] * counts
        whole, of_person = sum(float(np.sum(each)) for each in chances), 1.0
        if outcomes.several:
            of_person = float(np.sum(outcomes.counted))
        return np.concatenate(scores), np.concatenate(slopes) * (of_person / whole), np.concatenate(chances) / whole

    @property
    def _of_people(self) -> float:
        """How many times the covariance of a row's score that of a person's is, without a clip and on average."""
        if not self.outcomes.several:
            return 1.0
        g, _, chances = self._cells
        mean, clip = chances @ g, 2.0 * float(np.max(np.linalg.norm(g, axis=1)))
        of_rows = float(chances @ np.sum(g**2, axis=1)) - float(mean @ mean)
        at = expected(self.outcomes, self.theta, asked=[(self.theta, 1.0)], clip=clip)
        return float(np.trace(at.covariance)) / max(of_rows, 1e-300)

    @property
    def _lengths_of_unseen(self) -> FloatArray:
        """How long scores of people are taken to be whom public rows do not show (m,); none without them."""
        if self.unseen is None:
            return np.zeros(1)
        g, _, chances = self._cells
        X = self.unseen.X
        root = np.sqrt(float(chances @ np.sum(g**2, axis=1)) / X.shape[1])  # whitened rows have that mean square length
        length = np.linalg.norm(X, axis=1)
        return np.asarray(root * length * np.hypot(1.0, self.grows * length))

    def _tried(self, clips: FloatArray) -> "_Tried":
        """Return what clips (k,) leave and move."""
        g, slopes, chances = self._cells
        length, D = np.linalg.norm(g, axis=1), g.shape[1]
        along = np.sum(g[:, self.own] * slopes[:, self.own], axis=1)
        whole = float(np.sum(along))
        A, J, N, means = np.zeros((len(clips), D, D)), np.zeros((len(clips), D, D)), np.zeros((len(clips), D, D)), []
        for k, clip in enumerate(clips.tolist()):
            f = clip / np.maximum(length, clip)
            short = f[:, None] * g
            mean = chances @ short
            c = float(f @ along) / whole if whole > 0.0 else 1.0
            A[k], J[k] = short.T @ slopes, (chances[:, None] * short).T @ short - np.outer(mean, mean)
            N[k] = (0.5 * np.abs(f - c)[:, None] * g).T @ slopes
            means.append(c)
        A, N = (0.5 * (each + np.swapaxes(each, 1, 2)) for each in (A, N))
        kept = np.array(means)
        if self.unseen is not None:
            left = clips[:, None] / np.maximum(self._lengths_of_unseen, clips[:, None])
            there = whole / len(self.own) * self.unseen.moved(left, kept)[:, self.first :, self.first :]
            for block in self.blocks:
                N[:, block[:, None], block] += there
        floor = 1e-9 * np.trace(A[-1]) * np.eye(D)
        return _Tried(clips=clips, A=A + floor, J=self._of_people * J, moved=moved(A + floor, N, shares=1.0 - kept))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Tried:
    """Clips (k,), what they leave of information ``A`` and of a score's covariance ``J`` (k, D, D), what they move."""

    clips: FloatArray
    A: FloatArray
    J: FloatArray
    moved: Moved
