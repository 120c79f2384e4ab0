r"""How a model does, from a noisy table of risk groups and outcomes: concordance, Brier scores, calibration.

The table has, for risk groups g (the highest risk last), the number :math:`d_{gkb}` of events of cause k in bin b of
time and the number :math:`z_{gc}` of people who were censored after c whole bins; :math:`z_{gB}` reached the horizon. A
bin has :math:`m_b` intervals of the model, and who is censored in an interval counts as at risk in all of it, as in
the model. Where nothing else is known about places within a bin they are taken as uniform: of those with c = b - 1 the
part :math:`\varphi_b = (m_b - 1) / (2 m_b)` was at risk in bin b. So

.. math:: n_{gb} = \sum_{j \ge b, k} d_{gkj} + \sum_{c \ge b} z_{gc} + \varphi_b z_{g,b-1}

and incidence is the product-limit estimate of Aalen and Johansen (1978), the actuarial one where bins are wide.

**Noise.** Each cell has independent noise of mean zero and known variance ``v``, so it may be below 0. Cells are used
as they are: raising each to 0 would add about one person to every empty cell. Sums are then without bias, and so are
numerator and denominator of the concordance, whose products multiply different cells. What must increase in time, or
lie in [0, 1], is made so at the end. Standard errors are those of the delta method with the variance
:math:`T_c + v` of a cell of ``T_c`` people: sampling (multinomial, as every statistic here is the same for a multiple
of the table) and noise together.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.mechanisms.evaluation import EvaluationQuery, EvaluationRelease
from hdpstats.public.risk_sets import ratio
from hdpstats.records.estimate import normal_quantile

STEP = 1e-3
"""Step of the numerical derivatives, in people."""

FEWEST = 5.0
"""At-risk sets below so many people, or below twice the standard deviation of their noise, are left out."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EventTable:
    """A table, or a stack of tables: ``events`` (..., G, K, B) and ``left`` (..., G, B + 1), ``spans`` (B,)."""

    events: FloatArray
    left: FloatArray
    spans: FloatArray

    @property
    def gone(self) -> FloatArray:
        """Events of any cause (..., G, B)."""
        return np.asarray(self.events.sum(axis=-2))

    @property
    def later(self) -> FloatArray:
        """Events of any cause in a bin or later (..., G, B)."""
        return _from_here(self.gone)

    @property
    def stayed(self) -> FloatArray:
        """People who were not censored before so many bins were completed (..., G, B + 1)."""
        return _from_here(self.left)

    @property
    def part(self) -> FloatArray:
        """``phi`` (B,)."""
        return np.asarray((self.spans - 1.0) / (2.0 * self.spans))

    @property
    def at_risk(self) -> FloatArray:
        """``n`` (..., G, B)."""
        return np.asarray(self.later + self.stayed[..., 1:] + self.part * self.left[..., :-1])

    @property
    def size(self) -> FloatArray:
        """All people (..., G)."""
        return np.asarray(self.gone.sum(axis=-1) + self.left.sum(axis=-1))

    @property
    def pooled(self) -> "EventTable":
        """The table of everybody, one group."""
        return EventTable(
            events=self.events.sum(axis=-3, keepdims=True),
            left=self.left.sum(axis=-2, keepdims=True),
            spans=self.spans,
        )


def _from_here(counts: FloatArray) -> FloatArray:
    return np.asarray(np.cumsum(counts[..., ::-1], axis=-1)[..., ::-1])


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NoisyTable:
    """The noisy counts (cells,) of a release with what is known about them."""

    query: EvaluationQuery
    counts: FloatArray
    noise_variance: float

    @classmethod
    def of(cls, query: EvaluationQuery, release: EvaluationRelease) -> "NoisyTable":
        """Return the table of a release."""
        counts = np.array(release.counts, dtype=np.float64)
        return cls(query=query, counts=counts, noise_variance=release.noise_variance)

    def unfold(self, counts: FloatArray) -> EventTable:
        """Return counts (..., cells) as a table."""
        query, bins = self.query, max(1, len(self.query.ends))
        table = counts.reshape(*counts.shape[:-1], query.groups, query.width)
        if query.grid is None:
            left = np.concatenate([np.zeros_like(table[..., :1]), table[..., :1]], axis=-1)
            return EventTable(events=table[..., None, 1:], left=left, spans=np.ones(1))
        events = table[..., : query.causes * bins].reshape(*table.shape[:-1], query.causes, bins)
        spans = np.diff(np.array((0, *query.ends))).astype(np.float64)
        return EventTable(events=events, left=table[..., query.causes * bins :], spans=spans)

    @property
    def cells(self) -> EventTable:
        """The noisy table."""
        return self.unfold(self.counts)

    @property
    def is_clear(self) -> BoolArray:
        """Whether the at-risk sets of a group up to a bin stand clear of their noise (G, B)."""
        cells = self.cells
        bins, causes = len(cells.spans), cells.events.shape[-2]
        rest = np.arange(bins, 0, -1)
        sd = np.sqrt(self.noise_variance * ((causes + 1) * rest + cells.part**2))
        above = cells.at_risk >= np.maximum(FEWEST, 2.0 * sd)
        return np.asarray(np.logical_and.accumulate(above, axis=-1), dtype=np.bool_)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Measured:
    """A statistic and its standard error, sampling and noise together: two arrays of one shape."""

    value: FloatArray
    std_error: FloatArray


def measure(table: NoisyTable, statistic: Callable[[EventTable], FloatArray]) -> Measured:
    """Return a statistic of the table with its standard error by the delta method."""
    steps = STEP * np.eye(len(table.counts))
    up, down = (statistic(table.unfold(table.counts + sign * steps)) for sign in (1.0, -1.0))
    square = ((up - down) / (2.0 * STEP)) ** 2
    sampling = np.maximum(np.tensordot(table.counts, square, axes=(0, 0)), 0.0)
    variance = sampling + table.noise_variance * square.sum(axis=0)
    return Measured(value=statistic(table.cells), std_error=np.sqrt(variance))


def incidence(cells: EventTable, cause: int) -> FloatArray:
    """Return the cumulative incidence of a cause at the end of each bin (..., G, B)."""
    rate = cells.events / np.maximum(cells.at_risk, 1.0)[..., None, :]
    survive = 1.0 - rate.sum(axis=-2)
    before = np.concatenate([np.ones_like(survive[..., :1]), np.cumprod(survive, axis=-1)[..., :-1]], axis=-1)
    return np.asarray(np.cumsum(before * rate[..., cause, :], axis=-1))


def concordance(cells: EventTable, cause: int) -> FloatArray:
    """Return Harrell's concordance between groups (...,): ties of the group count half.

    A pair is usable if one has the event while the other is still followed; a censoring or an event of another cause in
    the same bin counts with the probability of being no earlier. Two events of the cause in one bin are not ordered;
    such pairs are alike in risk, so that few wide bins give a little more (0.01 with 3 bins where 12 give 0.65).
    """
    event = cells.events[..., cause, :]
    after = cells.later - cells.gone + cells.stayed[..., 1:] + cells.part * cells.left[..., :-1]
    after = after + (1.0 - cells.part) * (cells.gone - event)
    below = np.cumsum(after, axis=-2) - after / 2.0
    pairs = np.sum(event * after.sum(axis=-2, keepdims=True), axis=(-2, -1))
    return np.asarray(np.sum(event * below, axis=(-2, -1)) / np.where(np.abs(pairs) > 1.0, pairs, np.nan))


def brier(cells: EventTable, predicted: FloatArray, cause: int) -> FloatArray:
    """Return the Brier score of predicted incidence (..., G, B) at the end of each bin (..., B).

    Weighted by the inverse probability of not being censored (Graf et al. 1999; with several causes Schoop et al.
    2011), which is estimated from everybody; a group's prediction stands for that of each person in it.
    """
    uncensored, at_event = _uncensored(cells.pooled)
    own = np.cumsum(cells.events[..., cause, :] / at_event, axis=-1)
    other = np.cumsum(cells.gone / at_event, axis=-1) - own
    free = (cells.later - cells.gone + cells.stayed[..., 1:]) / uncensored
    score = own * (1.0 - predicted) ** 2 + (other + free) * predicted**2
    return np.asarray(score.sum(axis=-2) / np.maximum(cells.size.sum(axis=-1), 1.0)[..., None])


def _uncensored(everybody: EventTable) -> tuple[FloatArray, FloatArray]:
    """Return the probabilities of not being censored before the end of a bin, and before an event in it (..., 1, B).

    Censoring after ``b - 1`` whole bins follows an event in bin b with probability ``phi``, and an event in bin b
    follows such a censoring with probability ``(m + 1) / (2 m)``.
    """
    left = everybody.left[..., :-1]
    exposed = everybody.stayed[..., :-1] + everybody.later - everybody.part * everybody.gone
    stay = np.clip(1.0 - left / np.maximum(exposed, 1.0), 1e-3, 1.0)
    through: FloatArray = np.asarray(np.cumprod(stay, axis=-1), dtype=np.float64)
    return through, np.asarray(through / stay**everybody.part)


def observed_over_expected(cells: EventTable, predicted: FloatArray, cause: int) -> FloatArray:
    """Return observed over expected incidence of everybody at the end of each bin (..., B)."""
    size = cells.size[..., None]
    expected = np.sum(size * predicted, axis=-2) / np.maximum(np.sum(size, axis=-2), 1.0)
    return ratio(incidence(cells.pooled, cause)[..., 0, :], expected, where=expected > 0.0, other=np.nan)


def monotone(values: FloatArray) -> FloatArray:
    """Return values (..., B) made increasing, by the mean of both envelopes, and cut to [0, 1]."""
    above = np.maximum.accumulate(values, axis=-1)
    below = np.minimum.accumulate(values[..., ::-1], axis=-1)[..., ::-1]
    return np.clip((above + below) / 2.0, 0.0, 1.0)


def limits(incidence: FloatArray, std_error: FloatArray, *, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return confidence limits of incidence ``F``: those of ``log(-log(1 - F))``, or near 0 and 1 plain ones, cut."""
    half = normal_quantile(alpha) * std_error
    inner = (half < incidence) & (half < 1.0 - incidence)
    rest = np.log1p(-np.where(inner, incidence, 0.5))
    factor = np.exp(half / np.where(inner, 1.0 - incidence, 0.5) / -rest)
    low = np.where(inner, -np.expm1(rest / factor), np.clip(incidence - half, 0.0, 1.0))
    high = np.where(inner, -np.expm1(rest * factor), np.clip(incidence + half, 0.0, 1.0))
    return low, high
