r"""Survival read from a noisy table of events and censorings: post-processing.

In the interval ``j`` of one group :math:`D_{jk}` events of cause ``k`` and :math:`C_j` censorings are counted, and
where follow-up may begin late :math:`E_j` people who begin in it; ``R`` people stayed on beyond the last one. Every
count has independent noise of variance :math:`\sigma^2`.

**At risk.** When the interval ``j`` begins, :math:`Y_j = R + \sum_{i \ge j} (D_i + C_i - E_i)` people are at risk,
without late beginnings made decreasing by isotonic regression, weighted by the noise's precision. Exposed are
:math:`Y^*_j = Y_j - (C_j - E_j) / 2` (the actuarial estimate: who leaves or comes does so half-way), at least
:math:`Y_j / 2`; or :math:`Y_j` where times are recorded in whole units and people leave or come at the ends.

**Survival.** :math:`h_j = D_j / Y^*_j`, where negative events are kept: to set them to 0 cell by cell biases survival.
:math:`H_t = \sum_{j \le t} -\log(1 - h_j)` (:math:`h_j` itself where that is negative) is made increasing by isotonic
regression, weighted by precision so that intervals in which hardly anybody is left do not move the others, and is at
least 0, and :math:`S = e^{-H}`. **Incidence** of cause ``k`` is
:math:`F_{kt} = \sum_{j \le t} S_{j-1} h_{jk}` (Aalen and Johansen), made increasing as well.

**Variances** rest on smoothed hazards ``r``. With ``m`` moving averages of seven intervals of events over those of
exposure, :math:`r_j = m_j + w (h_j - m_j)`, where
:math:`w = (1 - J / \sum_j (D_j - m_j Y^*_j)^2 / (m_j Y^*_j + \sigma^2))_+` (James and Stein): the counts' own hazards
where these differ by more than chance and noise explain, as where a hazard is steep, else the smooth ones. With ``L``
the derivative of what is estimated by the cells, by the chain rule through :math:`D` and :math:`Y^*`,

.. math:: \operatorname{cov} = \text{sampling} + \sigma^2 L L',

where sampling is Greenwood's :math:`\sum_{j \le t} r_j / ((1 - r_j) Y^*_j)` for ``H``, and its multinomial counterpart
for ``F``. No draws are needed.

**Stated** are numbers at the ends of intervals, up to the first interval in which people at risk are fewer than
`FEWEST_AT_RISK` standard deviations of their noise.

**Limits** of survival are the union of :math:`H \pm z s` and :math:`H \exp(\pm z s / \max(H, s))`: the first is
right where noise dominates, the second one where few events do. The upper limit is at least that of the same counts
with one more person exposed in each interval: with few people left :math:`D_j / Y^*_j` says too little of how large
survival may be (as in Clopper and Pearson's limits). Where people at risk are fewer than `FAINT` standard deviations of
their noise, something tends to be stated because noise added to them, which makes survival too large: the lower limit
is at most that of counts with `TAKEN_OFF` standard deviations fewer. Limits of incidence are the union of
:math:`F \pm z s` and :math:`F \exp(\pm z s / \max(F, s))`.

**Between the ends** ``a`` and ``b`` of an interval the hazard is taken as constant (`survival_at`, `incidence_at`):
with :math:`u = (t - a) / (b - a)`

.. math::

    S_t = S_a (S_b / S_a)^u, \qquad F_{kt} = F_{ka} + \frac{S_a - S_t}{S_a - S_b} (F_{kb} - F_{ka}).

Limits of ``H`` and ``F`` are joined in the same way, and then widened, because a hazard that changes within the
interval bends the true curve away from the joined one. Let :math:`m_j` be the mean slope of ``H`` (or of ``F``) in the
interval and :math:`d` the larger of its distances from those of the two neighbouring intervals. A slope that stays
within :math:`m_j \pm d` leaves the joined curve by at most :math:`d \min(t - a, b - t)`. Limits are widened by that,
but never beyond what holds whatever the hazard is: between ``a`` and ``b``, survival is at most that at ``a`` and at
least that at ``b``, and so are its limits. In the first interval, in which a hazard may begin far above what it is
later (deaths in an operation), the widening on the side to which the change to the second interval points is
:math:`d (b - t)`, upwards in the ratio of the limit at ``b`` to the value there: enough for every hazard that falls, or
rises, in the first two intervals. With one interval alone the limits are those that hold whatever the hazard is.

**Quantiles** are times at which this curve reaches a level. They have as limits ends of intervals: the last one at
which survival's lower limit is above the level, and the first one at which the upper limit is at most that. So they
hold whatever survival does in between. **Restricted means** are the area under the curve; that the hazard may change
within intervals their error does not count.

References
----------
J. Berkson, R. P. Gage (1950), Calculation of survival rates for cancer. M. Greenwood (1926), The natural duration of
cancer. W. James, C. Stein (1961), Estimation with quadratic loss. O. O. Aalen, S. Johansen (1978), An empirical
transition matrix for non-homogeneous Markov chains. M. P. Fay, E. H. Brittain, M. A. Proschan (2013), Pointwise
confidence intervals for a survival distribution with small samples or heavy censoring.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, final

import numpy as np
import scipy

from hdpstats._base.remembered import remembered
from hdpstats._base.typing import BoolArray, FloatArray, IntArray

WINDOW: Final = 7
"""Intervals of the moving averages that variances rest on."""
MOST_RATE: Final = 0.95
"""No share of people who fail in an interval is taken above it."""
SMOOTHED_RATE: Final = 0.9
"""Nor a smoothed one above this."""
FAINT, TAKEN_OFF = 5.0, 0.7
"""With fewer people at risk than FAINT such deviations the lower limit takes TAKEN_OFF of them off."""
FEWEST_AT_RISK: Final = 2.0
"""With fewer people at risk than so many standard deviations of their noise, nothing is stated from there on."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class LifeTable:
    """The noisy table of one group.

    Attributes
    ----------
    cuts : (J + 1,) float64
        0 and the ends of the intervals.
    events : (J, K) float64
        Events of each cause.
    censored : (J,) float64
        Censorings.
    stayed : float
        People who stayed on.
    entered : (J,) float64 or None
        People who begin in an interval; None where all begin at time 0.
    sd : float
        The standard deviation of the noise in each count.
    half : float
        The part of an interval for which who is censored in it is not exposed, and who begins in it is: one half, or 0
        where people leave and come at its end.
    besides : (J,) float64 or float
        People who are taken as exposed in each interval besides.
    """

    cuts: FloatArray
    events: FloatArray
    censored: FloatArray
    stayed: float
    entered: FloatArray | None
    sd: float
    half: float = 0.5
    besides: FloatArray | float = 0.0

    @property
    def intervals(self) -> int:
        """The number of intervals."""
        return len(self.censored)

    @cached_property
    def counted(self) -> FloatArray:
        """People at risk when each interval begins, and who stayed on (J + 1,), as the counts have them."""
        left = self.events.sum(axis=1) + self.censored - (0.0 if self.entered is None else self.entered)
        return np.asarray(np.append(self.stayed + np.cumsum(left[::-1])[::-1], self.stayed))

    @cached_property
    def at_risk(self) -> FloatArray:
        """The same, at least 0, and decreasing where nobody begins late (J + 1,)."""
        found = self.counted
        if self.entered is None:
            found = scipy.optimize.isotonic_regression(found, weights=1.0 / self._cells_behind, increasing=False).x
        return np.asarray(np.maximum(found, 0.0))

    @property
    def _cells_behind(self) -> FloatArray:
        """The number of counts that each number of people at risk is the sum of (J + 1,)."""
        J, K = self.events.shape
        return np.asarray(1.0 + np.arange(J, -1.0, -1.0) * (K + 1 + (self.entered is not None)))

    @property
    def at_risk_sd(self) -> FloatArray:
        """The standard deviation of the noise of people at risk (J + 1,)."""
        return np.asarray(self.sd * np.sqrt(self._cells_behind))

    @property
    def added_by_noise(self) -> FloatArray:
        """People (J,) that noise may have added where they are few for it, so that something is stated at all."""
        Y, sd = self.at_risk[:-1], self.at_risk_sd[:-1]
        return np.asarray(np.where(FAINT * sd > Y, np.minimum(TAKEN_OFF * sd, Y / 3.0), 0.0))

    @cached_property
    def stated(self) -> BoolArray:
        """At which cuts (J + 1,) anything is stated: where people at risk before are clear of their noise."""
        return np.append(True, clear_of_noise(self.at_risk[:-1], self.at_risk_sd[:-1]))

    @property
    def last(self) -> int:
        """The place of the last cut at which anything is stated."""
        return int(self.stated.sum()) - 1

    @cached_property
    def exposed(self) -> FloatArray:
        """People exposed in each interval (J,)."""
        Y = np.maximum(self.at_risk[:-1], max(1.0, 2.0 * self.sd))
        change = self.censored - (0.0 if self.entered is None else self.entered)
        return np.asarray(np.maximum(Y - self.half * change, Y / 2.0) + self.besides)

    @cached_property
    def spent(self) -> FloatArray:
        """The time that people spend in each interval (J,), in its lengths, if they leave at a constant rate."""
        Y = np.maximum(self.at_risk[:-1], 1.0)
        leaving = self.events.sum(axis=1) + 2.0 * self.half * self.censored
        p = np.clip(leaving / Y, -0.5, MOST_RATE)
        part = np.divide(p, -np.log1p(-p), out=np.ones_like(p), where=np.abs(p) > 1e-9)
        came = 0.0 if self.entered is None else np.maximum(self.half * self.entered, -Y * part / 2.0)
        return np.asarray(Y * part + came)

    @cached_property
    def rates(self) -> FloatArray:
        """Smoothed hazards of each cause (J, K), positive: less so where the counts differ by more than chance."""
        found = smoothed_rates(self.events, self.exposed, self.sd)
        total = found.sum(axis=1, keepdims=True)
        return np.asarray(found * np.minimum(1.0, SMOOTHED_RATE / total))

    @cached_property
    def cumulated(self) -> FloatArray:
        """``H`` at the cuts (J + 1,), from 0."""
        h = self.events.sum(axis=1) / self.exposed
        steps = np.where(h > 0.0, -np.log1p(-np.clip(h, 0.0, MOST_RATE)), h)
        precision = 1.0 / np.diag(self.cumulated_covariance)[1:]
        return np.append(
            0.0, np.maximum(scipy.optimize.isotonic_regression(np.cumsum(steps), weights=precision).x, 0.0)
        )

    @cached_property
    def cumulated_covariance(self) -> FloatArray:
        """The covariance of ``H`` at the cuts (J + 1, J + 1), sampling and noise together."""
        return self.cumulated_sampling + self.cumulated_noise

    @cached_property
    def cumulated_sampling(self) -> FloatArray:
        """The part of it that is sampling."""
        r = self.rates.sum(axis=1)
        greenwood = np.append(0.0, np.cumsum(r / ((1.0 - r) * self.exposed)))
        at = np.arange(self.intervals + 1)
        return np.asarray(greenwood[np.minimum(at[:, None], at)])

    @cached_property
    def cumulated_noise(self) -> FloatArray:
        """The part of it that is noise."""
        J, K = self.events.shape
        r = self.rates.sum(axis=1)
        past = np.arange(J) < np.arange(J + 1)[:, None]
        by_event = past / (self.exposed * (1.0 - r))
        L = self.derivative(np.repeat(by_event, K, axis=1), -by_event * r)
        return self.sd**2 * L @ L.T

    def derivative(self, by_events: FloatArray, by_exposed: FloatArray) -> FloatArray:
        """Return derivatives (m, cells) by the cells, from those by events (m, J K) and by exposures (m, J)."""
        J, K = self.events.shape
        through = by_exposed @ exposed_by_cells(J, K, self.half, late=self.entered is not None)
        through[:, : J * K] += by_events
        return np.asarray(through)

    def incidence(self, cause: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return ``F`` of a cause at the cuts (J + 1,), its sampling covariance and that of the noise."""
        J, K = self.events.shape
        h = self.events / self.exposed[:, None]
        stay = 1.0 - np.clip(h.sum(axis=1), -0.5, MOST_RATE)
        before = np.append(1.0, np.cumprod(stay)[:-1])
        steps = np.cumsum(before * h[:, cause])

        r, total = self.rates, self.rates.sum(axis=1)
        before = np.append(1.0, np.cumprod(1.0 - total)[:-1])
        smooth = np.append(0.0, np.cumsum(before * r[:, cause]))
        past = np.arange(J) < np.arange(J + 1)[:, None]
        later = past * (smooth[:, None] - smooth[1:]) / (1.0 - total)
        by_rate = np.repeat(-later[:, :, None], K, axis=2)
        by_rate[:, :, cause] += past * before
        mean = (by_rate * r).sum(axis=2)
        sampling = np.einsum("ajk,bjk,jk->ab", by_rate, by_rate, r / self.exposed[:, None])
        sampling -= np.einsum("aj,bj,j->ab", mean, mean, 1.0 / self.exposed)
        by_events = (by_rate / self.exposed[:, None]).reshape(J + 1, J * K)
        L = self.derivative(by_events, -mean / self.exposed)
        noise = self.sd**2 * L @ L.T
        precision = 1.0 / np.maximum(np.diag(sampling + noise)[1:], np.finfo(float).tiny)
        found = np.clip(scipy.optimize.isotonic_regression(steps, weights=precision).x, 0.0, 1.0)
        return np.append(0.0, found), sampling, noise


@remembered(128)
def exposed_by_cells(intervals: int, causes: int, half: float = 0.5, *, late: bool) -> FloatArray:
    """Return the derivatives of exposures by the cells (J, cells): events, censorings, who stayed, beginnings."""
    upto = np.tri(intervals).T
    own = half * np.eye(intervals)
    parts = [np.repeat(upto, causes, axis=1), upto - own, np.ones((intervals, 1))]
    found = np.hstack([*parts, own - upto] if late else parts)
    found.flags.writeable = False
    return found


def clear_of_noise(at_risk: FloatArray, sd: FloatArray) -> BoolArray:
    """Return in which intervals (J,) enough people are at risk for the noise: up to the first one without."""
    return np.asarray(np.logical_and.accumulate(at_risk >= np.maximum(1.0, FEWEST_AT_RISK * sd)))


def smoothed_rates(events: FloatArray, exposed: FloatArray, sd: float) -> FloatArray:
    """Return rates (J, K), positive: moving averages, or the counts' own where they differ by more than chance."""
    least = 1.0 / exposed.sum() / events.shape[1]
    smooth = np.maximum(moving_average(events) / moving_average(exposed)[:, None], least)
    expected = smooth * exposed[:, None]
    apart = float(np.sum((events - expected) ** 2 / (expected + sd**2)))
    weight = max(0.0, 1.0 - events.size / apart) if apart > 0.0 else 0.0
    return np.asarray(np.maximum(smooth + weight * (events / exposed[:, None] - smooth), least))


def moving_average(values: FloatArray) -> FloatArray:
    """Return means of seven neighbours (J,) or (J, K); the first and the last value continue beyond the ends."""
    half = WINDOW // 2
    wide = np.pad(values, [(half, half)] + [(0, 0)] * (values.ndim - 1), mode="edge")
    total = np.cumsum(np.concatenate([np.zeros_like(wide[:1]), wide]), axis=0)
    return np.asarray((total[WINDOW:] - total[:-WINDOW]) / WINDOW)


STEEPEST: Final = 5.0
"""The largest exponent of the limits on the logarithmic scale."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """A curve with its standard errors and limits, of one length."""

    value: FloatArray
    std_error: FloatArray
    low: FloatArray
    high: FloatArray


def survival(table: LifeTable, z: float) -> Band:
    """Return survival with limits at a normal quantile."""
    H, s = table.cumulated, np.sqrt(np.diag(table.cumulated_covariance))
    more, fewer = replace(table, besides=1.0), replace(table, besides=-table.added_by_noise)
    shift = [np.sqrt(np.diag(each.cumulated_covariance)) for each in (more, fewer)]
    low = np.exp(-np.maximum(limits_of(H, s, z)[1], limits_of(fewer.cumulated, shift[1], z)[1]))
    high = np.exp(-np.minimum(limits_of(H, s, z)[0], limits_of(more.cumulated, shift[0], z)[0]))
    S = np.exp(-H)
    return Band(S, S * s, np.minimum.accumulate(low), np.minimum.accumulate(high))


def limits_of(value: FloatArray, s: FloatArray, z: float) -> tuple[FloatArray, FloatArray]:
    """Return limits of a positive number: the union of those on its own scale and on the logarithmic one."""
    base = np.maximum(value, s)
    w = np.minimum(np.divide(z * s, base, out=np.zeros_like(s), where=base > 0.0), STEEPEST)
    low = np.maximum(np.minimum(value - z * s, base * np.exp(-w)), 0.0)
    return low, np.maximum(value + z * s, base * np.exp(w))


def incidence(table: LifeTable, cause: int, z: float) -> Band:
    """Return the incidence of a cause with limits at a normal quantile."""
    F, sampling, noise = table.incidence(cause)
    s = np.sqrt(np.maximum(np.diag(sampling + noise), 0.0))
    low, high = limits_of(F, s, z)
    return Band(F, s, low, np.minimum(high, 1.0))


def survival_at(table: LifeTable, times: FloatArray, z: float) -> Band:
    """Return survival at any times, hazards constant within intervals; NaN later than the last end that is stated.

    At the ends of intervals it is `survival`. The module says what limits in between hold for.
    """
    band, u = survival(table, z), _passed(table.cuts, times)
    lowest, highest = (-np.log(np.maximum(part, np.finfo(float).tiny)) for part in (band.high, band.low))
    H, s, least, most = _between(table.cumulated, lowest, highest, table.cumulated_covariance, table, times, u)
    S = np.exp(-H)
    return Band(S, S * s, np.exp(-most), np.exp(-least))


def incidence_at(table: LifeTable, cause: int, times: FloatArray, z: float) -> Band:
    """Return the incidence of a cause at any times, hazards constant within intervals; see `survival_at`."""
    F, sampling, noise = table.incidence(cause)
    band, u = incidence(table, cause, z), _passed(table.cuts, times)
    rise = np.diff(table.cumulated)[_interval(table.cuts, times)]
    flat = rise < 1e-8
    share = np.where(flat, u, np.expm1(-rise * u) / np.where(flat, -1.0, np.expm1(-rise)))
    limits = np.maximum.accumulate(band.low), np.maximum.accumulate(band.high)
    return Band(*_between(F, *limits, sampling + noise, table, times, share))


def _interval(cuts: FloatArray, times: FloatArray) -> IntArray:
    """Return the numbers of the intervals in which times are; an end of an interval is in it."""
    return np.clip(np.searchsorted(cuts, times, side="left") - 1, 0, len(cuts) - 2).astype(np.int64)


def _passed(cuts: FloatArray, times: FloatArray) -> FloatArray:
    """Return which part of its interval has passed at each time, from 0 to 1."""
    place = _interval(cuts, times)
    return np.asarray(np.clip((times - cuts[place]) / np.diff(cuts)[place], 0.0, 1.0))


def _between(
    value: FloatArray,
    low: FloatArray,
    high: FloatArray,
    covariance: FloatArray,
    table: LifeTable,
    times: FloatArray,
    share: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return what increases and is known at the cuts at times (m,): value, standard error, and limits with the bend.

    ``share`` (m,) is the part of an interval's increase that has happened at each time.
    """
    cuts, place = table.cuts, _interval(table.cuts, times)
    after = place + 1

    def joined(known: FloatArray) -> FloatArray:
        return np.asarray(known[place] + share * (known[after] - known[place]))

    own, late, both = covariance[place, place], covariance[after, after], covariance[place, after]
    variance = (1.0 - share) ** 2 * own + share**2 * late + 2.0 * share * (1.0 - share) * both
    below, above = _bends(value, high, cuts, table.last, times)
    parts = (
        joined(value),
        np.sqrt(np.maximum(variance, 0.0)),
        np.maximum(joined(low) - below, low[place]),
        np.minimum(joined(high) + above, high[after]),
    )
    at_end = np.isin(times, cuts)
    limits = np.where(at_end, joined(low), parts[2]), np.where(at_end, joined(high), parts[3])
    found = (np.where(times <= cuts[table.last], part, np.nan) for part in (*parts[:2], *limits))
    value, error, least, most = found
    return value, error, least, most


def _bends(
    value: FloatArray, high: FloatArray, cuts: FloatArray, last: int, times: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return how far below and above the joined curve a true one may be (m,), as slopes of neighbours show."""
    slope = np.diff(value[: last + 1]) / np.diff(cuts[: last + 1])
    change = np.diff(slope)
    if not len(change):
        return np.full(len(times), np.inf), np.full(len(times), np.inf)
    apart = np.abs(change)
    most = np.maximum(np.append(apart[0], apart), np.append(apart, apart[-1]))
    place = np.minimum(_interval(cuts, times), last - 1)
    since, until = times - cuts[place], cuts[place + 1] - times
    near, first = np.minimum(since, until), place == 0
    if change[0] > 0.0:
        return most[place] * np.where(first, until, near), most[place] * near
    stretch = high[1] / value[1] if value[1] > 0.0 else 1.0
    return most[place] * near, most[place] * np.where(first, until * stretch, near)


def crossing_of(S: FloatArray, cuts: FloatArray, level: float) -> float:
    """Return when survival reaches a level, ``H`` linear between the cuts; infinity where it does not."""
    H = -np.log(np.maximum(S, np.finfo(float).tiny))
    target = -np.log(level)
    if H[-1] < target:
        return float(np.inf)
    place = int(np.searchsorted(H, target, side="left"))
    if place == 0:
        return 0.0
    part = (target - H[place - 1]) / max(H[place] - H[place - 1], np.finfo(float).tiny)
    return float(cuts[place - 1] + part * (cuts[place] - cuts[place - 1]))


def limits_of_crossing(band: Band, cuts: FloatArray, level: float) -> tuple[float, float]:
    """Return the ends of intervals between which survival reaches a level; infinity where it may not."""
    above, below = np.flatnonzero(band.low > level), np.flatnonzero(band.high <= level)
    low = float(np.inf) if len(above) == len(cuts) else float(cuts[above[-1]] if len(above) else 0.0)
    return low, float(cuts[below[0]]) if len(below) else float(np.inf)


def restricted_mean(table: LifeTable, upto: float) -> tuple[float, float]:
    r"""Return the mean time without an event up to a time, and its standard error.

    The area under :math:`e^{-H}` with ``H`` linear between the cuts. Its derivative by ``H`` at the ends of a piece of
    length ``w`` is :math:`-w S / 2`.
    """
    cuts, H = table.cuts, table.cumulated
    inside = cuts < upto
    at = np.append(cuts[inside], upto)
    known = np.interp(at, cuts, H)
    S, width = np.exp(-known), np.diff(at)
    steps = np.diff(known)
    flat = steps < 1e-8
    area = np.where(flat, S[:-1], (S[:-1] - S[1:]) / np.where(flat, 1.0, steps)) * width
    half = (np.append(0.0, width) + np.append(width, 0.0)) / 2.0 * S
    gradient = np.zeros(len(cuts))
    gradient[: len(at) - 1] = half[:-1]
    last = len(at) - 1
    part = (upto - cuts[last - 1]) / (cuts[last] - cuts[last - 1])
    gradient[last - 1] += (1.0 - part) * half[-1]
    gradient[last] += part * half[-1]
    variance = float(gradient @ table.cumulated_covariance @ gradient)
    return float(area.sum()), float(np.sqrt(max(variance, 0.0)))
