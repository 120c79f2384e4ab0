r"""Who was at risk when: the exact counts of public rows, and what follows from them.

At each distinct time :math:`t_j` there are :math:`n_j` people at risk and :math:`d_{kj}` events of cause ``k``. Numbers
equal those of R's survival: ``survfit`` (limits on the logarithmic scale), its ``rmean`` and ``quantile``.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.records.codec import Record

_ROUNDING: Final = 1e-12
"""A risk set smaller than this share of what it was is empty: weights do not add up exactly."""
_TIE: Final = 1.5e-8
"""Survival that is so close to a level has reached it."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class RiskSets(Record):
    """Public people at risk.

    Attributes
    ----------
    times : (T,) float64
        Distinct times, increasing.
    at_risk : (T,) float64
        The weight of people at risk then.
    left : (T,) float64
        Of those whose follow-up ends then.
    events : (T, K) float64
        Of those it ends for by each cause.
    """

    times: FloatArray
    at_risk: FloatArray
    left: FloatArray
    events: FloatArray

    @cached_property
    def curves(self) -> "StepCurves":
        """The product-limit curves."""
        return product_limit(self)

    @cached_property
    def greenwood(self) -> FloatArray:
        """Greenwood's sums (T,): the variance of the logarithm of survival, infinite where nobody is left."""
        failed: FloatArray = self.events.sum(axis=1)
        remain = self.at_risk - failed
        some = (failed > 0) & (remain > _ROUNDING * self.at_risk)
        terms = ratio(failed, self.at_risk * remain, where=some, other=0.0)
        gone = (failed > 0) & ~some
        return np.asarray(np.cumsum(np.where(gone, np.inf, terms)))

    def at_risk_at(self, times: FloatArray) -> FloatArray:
        """Return the weight of people at risk at other times (m,): 0 after the last one."""
        place = np.searchsorted(self.times, times, side="left")
        return np.append(self.at_risk, 0.0)[place]

    def events_upto(self, times: FloatArray) -> FloatArray:
        """Return events of each cause up to other times (m, K)."""
        K = self.events.shape[1]
        total = np.concatenate([np.zeros((1, K)), np.cumsum(self.events, axis=0)])
        return np.asarray(total[np.searchsorted(self.times, times, side="right")])

    def restricted_mean(self, upto: float) -> tuple[float, float]:
        r"""Return the area under survival up to a time, and its standard error.

        The variance is :math:`\sum_{t_j \le t} A_j^2 d_j / (n_j (n_j - d_j))` with :math:`A_j` the area after
        :math:`t_j`.
        """
        inside = self.times < upto
        at = np.concatenate([[0.0], self.times[inside], [upto]])
        S = np.append(1.0, self.curves.survival[inside])
        areas = S * np.diff(at)
        after = np.cumsum(areas[::-1])[::-1][1:]
        steps = np.diff(np.append(0.0, self.greenwood[inside]))
        steps = np.where(np.isfinite(steps), steps, 0.0)
        return float(areas.sum()), float(np.sqrt(np.sum(after**2 * steps)))


def first_below(times: FloatArray, curve: FloatArray, level: float) -> float:
    """Return when a step curve first is at most a level, half-way along a piece that equals it; else infinity.

    As R's ``quantile`` of survival curves has it.
    """
    known = np.isfinite(curve)
    times, curve = times[known], curve[known]
    falls = np.flatnonzero(np.diff(curve, prepend=1.0) < 0.0)
    reached = np.flatnonzero(curve[falls] <= level + _TIE)
    if len(reached) == 0:
        return float(np.inf)
    first = falls[reached[0]]
    if abs(curve[first] - level) > _TIE:
        return float(times[first])
    following = falls[reached[0] + 1] if reached[0] + 1 < len(falls) else len(times) - 1
    return float((times[first] + times[following]) / 2.0)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StepCurves:
    """Product-limit curves at the distinct times of follow-up; constant in between.

    Attributes
    ----------
    times : (T,) float64
        Distinct times, increasing.
    survival : (T,) float64
        The Kaplan-Meier estimate of the probability that nothing has happened by then.
    uncensored : (T,) float64
        The same of censoring, whose risk sets leave out the events of the same time.
    incidence, std_error : (T, K) float64
        The Aalen-Johansen estimate of each cause's cumulative incidence, and its standard error.
    """

    times: FloatArray
    survival: FloatArray
    uncensored: FloatArray
    incidence: FloatArray
    std_error: FloatArray

    def at(self, values: FloatArray, times: FloatArray, *, start: float, before: bool = False) -> FloatArray:
        """Return a curve (T, ...) at other times, or just before them; ``start`` up to the first time."""
        place = np.searchsorted(self.times, times, side="left" if before else "right")
        known = np.concatenate([np.full((1, *values.shape[1:]), start), values])
        return np.asarray(known[place])


def product_limit(sets: RiskSets) -> StepCurves:
    r"""Return the product-limit estimates of event-free survival and of each cause's incidence.

    With :math:`d_{kj}` events of cause ``k`` among :math:`n_j` at risk at the j-th time, :math:`d_j = \sum_k d_{kj}`,
    :math:`S_j = \prod_{i \le j} (1 - d_i / n_i)` and :math:`F_{kj} = \sum_{i \le j} S_{i-1} d_{ki} / n_i`. The variance
    of :math:`F_{kj}` is Greenwood's,

    .. math::

        \sum_{i \le j} \Bigl\{ (F_{kj} - F_{ki})^2 \frac{d_i}{n_i (n_i - d_i)}
            + S_{i-1}^2 \frac{d_{ki} (n_i - d_{ki})}{n_i^3}
            - 2 (F_{kj} - F_{ki}) S_{i-1} \frac{d_{ki}}{n_i^2} \Bigr\},

    which with one cause is that of survival (Marubini and Valsecchi 1995, section 10.3). A time at which everybody left
    fails has no part in it, as in R's ``survfit``.
    """
    at_risk, d = sets.at_risk, sets.events
    failed: FloatArray = d.sum(axis=1)
    remain = np.where(at_risk - failed > _ROUNDING * at_risk, at_risk - failed, 0.0).astype(np.float64)
    survival = np.cumprod(ratio(remain, at_risk, where=failed > 0, other=1.0)).astype(np.float64)
    before = np.concatenate([[1.0], survival[:-1]])[:, None]
    some = failed[:, None] > 0
    rate = ratio(d, at_risk[:, None], where=some, other=0.0)
    F: FloatArray = np.cumsum(before * rate, axis=0)
    greenwood = ratio(failed, at_risk * remain, where=(failed > 0) & (remain > 0), other=0.0)[:, None]
    shared = before * ratio(rate, at_risk[:, None], where=some, other=0.0)
    variance = F**2 * np.cumsum(greenwood, axis=0) - 2.0 * F * np.cumsum(greenwood * F + shared, axis=0)
    variance += np.cumsum(greenwood * F**2 + before * shared * (1.0 - rate) + 2.0 * F * shared, axis=0)
    censored = sets.left - failed
    stay = ratio(remain - censored, remain, where=(censored > 0) & (remain > 0), other=1.0)
    return StepCurves(
        times=sets.times,
        survival=survival,
        uncensored=np.cumprod(stay).astype(np.float64),
        incidence=F,
        std_error=np.sqrt(np.maximum(variance, 0.0)),
    )


def ratio(above: FloatArray | BoolArray, below: FloatArray, *, where: BoolArray, other: float) -> FloatArray:
    """Return quotients where they are wanted, another number elsewhere."""
    shape = np.broadcast_shapes(above.shape, below.shape)
    filled: FloatArray = np.divide(above, below, out=np.full(shape, other), where=np.broadcast_to(where, shape))
    return filled
