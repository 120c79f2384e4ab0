r"""Survival read from a noisy table of events and censorings: post-processing.

In the interval ``j`` of one group :math:`D_{jk}` events of cause ``k`` and :math:`C_j` censorings are counted, and
where follow-up may begin late :math:`E_j` people who begin in it; ``R`` people stayed on beyond the last one. Every
count has independent noise of variance :math:`\sigma^2`.

**At risk.** When the interval ``j`` begins, :math:`Y_j = R + \sum_{i \ge j} (D_i + C_i - E_i)` people are at risk,
without late beginnings made decreasing by isotonic regression, weighted by the noise's precision. Exposed are
:math:`Y^*_j = Y_j - \varphi_j C_j + \chi_j E_j`, at least :math:`Y_j / 2`. Who is censored when the part ``u`` of the
interval has passed misses the events of the rest of it: :math:`\varphi_j` is the mean of :math:`(1 - e^{-(\Lambda -
\Lambda(u))}) / (1 - e^{-\Lambda})` over those who are, :math:`\Lambda(u)` being the hazard of the interval up to there,
and :math:`\chi_j` the same of those who begin. The actuarial estimate takes one half. Here hazard, censorings and
beginnings change linearly within the interval, with the slope that the neighbouring intervals show, the less the more
it may be chance and noise (`missed`; the covariance takes these parts as known). Where times are recorded in whole
units and people leave or come at the ends, both are 0.

**What the table cannot say** is when in an interval people left. Let ``d`` be the larger distance of an interval's
hazard per time, or number of censorings per time, from those of its neighbours. Shapes within an interval that stay
within ``d`` of their means move :math:`\varphi_j` by at most a quarter of the sum of both ``d`` over their means, and
by one half at most; in the first interval, in which a hazard may begin far above what it is later, its ``d`` counts
twice. This times :math:`C_j` moves what is estimated by up to ``B``, summed over intervals (`unknown_exposure`). Limits
hold for every error of estimation of that size: the multiple of the standard error ``s`` is the quantile of :math:`|N(B
/ s, 1)|` in place of that of :math:`|N(0, 1)|` (Armstrong and Kolesar). With the number of intervals that is taken by
default this changes hardly anything; with a few it widens limits, the more people leave in one interval and the more
hazards change.

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

**Weighted people.** Counts of people who are weighted by their chance of treatment are sums of weights, and neither
Greenwood's variance nor its counterpart holds. Their tables have the covariance of the errors of hazards from stacked
equations (`HazardErrors`, `hdpstats.inference.weighted_hazards`) in its place: of ``H`` it is multiplied by
:math:`1 / (1 - r_j)` on both sides, of ``F`` by the derivatives by :math:`h_{jk}`.

**Stated** are numbers at the ends of intervals, up to the first interval in which people at risk are fewer than
`FEWEST_AT_RISK` standard deviations of their noise.

**Limits** of survival are, with ``z`` that quantile, the union of :math:`H \pm z s` and :math:`H \exp(\pm z s / \max(H,
s))`: the first is right where noise dominates, the second one where few events do. The upper limit is at least that of
the same counts with one more person exposed in each interval: with few people left :math:`D_j / Y^*_j` says too little
of how large survival may be (as in Clopper and Pearson's limits). Where people at risk are fewer than `FAINT` standard
deviations of their noise, something tends to be stated because noise added to them, which makes survival too large: the
lower limit is at most that of counts with `TAKEN_OFF` standard deviations fewer. Limits of incidence are the union of
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
later (deaths in an operation), the widening on the side to which the change to the second interval points is :math:`d
(b - t)`, and upwards the limit is the one at ``b`` less what the second interval's hazard adds from ``t`` to ``b``:
enough for every hazard that falls, or rises, in the first two intervals. With one interval alone the limits are those
that hold whatever the hazard is.

**Quantiles** are times at which this curve reaches a level. They have as limits ends of intervals: the last one at
which survival's lower limit is above the level, and the first one at which the upper limit is at most that. So they
hold whatever survival does in between. **Restricted means** are the area under the curve; that the hazard may change
within intervals their error does not count.

References
----------
J. Berkson, R. P. Gage (1950), Calculation of survival rates for cancer. M. Greenwood (1926), The natural duration of
cancer. W. James, C. Stein (1961), Estimation with quadratic loss. O. O. Aalen, S. Johansen (1978), An empirical
transition matrix for non-homogeneous Markov chains. M. P. Fay, E. H. Brittain, M. A. Proschan (2013), Pointwise
confidence intervals for a survival distribution with small samples or heavy censoring. T. B. Armstrong, M. Kolesar
(2018), Optimal inference in a class of regression models.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, final

import numpy as np
import scipy

from hdpstats._base.caching import remembered
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.records.codec import Record

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
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HazardErrors(Record):
    """The errors of the hazards of weighted groups, but for the noise of the counts: covariances.

    Attributes
    ----------
    whole : (G J K, G J K) float64
        By group, interval and cause: sampling, and the noise of the coefficients that weights follow from.
    sampling : (G J K, G J K) float64
        The part of it that is sampling.
    """

    whole: FloatArray
    sampling: FloatArray

    def block(self, first: int, second: int, size: int, *, noise: bool = True) -> FloatArray:
        """Return the covariance (size, size) of the hazards of two groups; without noise that of sampling."""
        part = self.whole if noise else self.sampling
        return part[first * size : (first + 1) * size, second * size : (second + 1) * size]


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
    within : bool
        Whether people leave and come anywhere in an interval; else at its end.
    besides : (J,) float64 or float
        People who are taken as exposed in each interval besides.
    errors : HazardErrors or None
        Of people who are weighted by their chance of treatment: the errors of the hazards of all groups.
    group : int
        Which of them this is.
    """

    cuts: FloatArray
    events: FloatArray
    censored: FloatArray
    stayed: float
    entered: FloatArray | None
    sd: float
    within: bool = True
    besides: FloatArray | float = 0.0
    errors: HazardErrors | None = None
    group: int = 0

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
        numbers = self.counted
        if self.entered is None:
            numbers = scipy.optimize.isotonic_regression(numbers, weights=1.0 / self._cells_behind, increasing=False).x
        return np.asarray(np.maximum(numbers, 0.0))

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
        Y = self._present
        left, came = self.missed
        change = left * self.censored - (0.0 if self.entered is None else came * self.entered)
        return np.asarray(np.maximum(Y - change, Y / 2.0) + self.besides)

    @property
    def _present(self) -> FloatArray:
        return np.maximum(self.at_risk[:-1], max(1.0, 2.0 * self.sd))

    @cached_property
    def missed(self) -> tuple[FloatArray, FloatArray]:
        """What censored people miss of an interval's hazard (J,), and what people see of it who begin in it (J,)."""
        J, total = self.intervals, self.events.sum(axis=1)
        if not self.within:
            return np.zeros(J), np.zeros(J)
        left, came, Y = np.full(J, 0.5), np.full(J, 0.5), self._present
        noise = self.sd**2
        counts = np.maximum(total, 0.0) + noise
        leaving = slopes_within(self.censored, self.cuts, np.maximum(self.censored, 0.0) + noise)
        coming = None
        if self.entered is not None:
            coming = slopes_within(self.entered, self.cuts, np.maximum(self.entered, 0.0) + noise)
        for _ in range(ROUNDS):
            change = left * self.censored - (0.0 if self.entered is None else came * self.entered)
            exposed = np.maximum(Y - change, Y / 2.0)
            hazard = -np.log1p(-np.clip(total / exposed, 0.0, MOST_RATE))
            course = slopes_within(hazard, self.cuts, counts / exposed**2)
            left = rest_of_hazard(hazard, course, leaving)
            came = came if coming is None else rest_of_hazard(hazard, course, coming)
        return left, came

    @cached_property
    def unknown_exposure(self) -> FloatArray:
        """By how many people exposures may be off (J,), as nobody knows when in an interval people leave and come."""
        if not self.within:
            return np.zeros(self.intervals)
        hazard = relative_change(self.events.sum(axis=1) / self.exposed, self.cuts)
        hazard[0] *= 2.0
        parts = [self.censored] if self.entered is None else [self.censored, self.entered]
        apart = [np.minimum((hazard + relative_change(each, self.cuts)) / 4.0, 0.5) for each in parts]
        return np.asarray(sum(d * np.maximum(each, 0.0) for d, each in zip(apart, parts, strict=True)))

    @cached_property
    def spent(self) -> FloatArray:
        """The time that people spend in each interval (J,), in its lengths, if they leave at a constant rate."""
        Y = np.maximum(self.at_risk[:-1], 1.0)
        leaving = self.events.sum(axis=1) + self.within * self.censored
        p = np.clip(leaving / Y, -0.5, MOST_RATE)
        part = np.divide(p, -np.log1p(-p), out=np.ones_like(p), where=np.abs(p) > 1e-9)
        came = 0.0 if self.entered is None else np.maximum(self.within * self.entered / 2.0, -Y * part / 2.0)
        return np.asarray(Y * part + came)

    @cached_property
    def rates(self) -> FloatArray:
        """Smoothed hazards of each cause (J, K), positive: less so where the counts differ by more than chance."""
        smoothed = smoothed_rates(self.events, self.exposed, self.sd)
        total = smoothed.sum(axis=1, keepdims=True)
        return np.asarray(smoothed * np.minimum(1.0, SMOOTHED_RATE / total))

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
        """The part of it that is sampling; of weighted people with the noise of what their weights follow from."""
        if self.errors is not None:
            return self.covariance_with(self)
        r = self.rates.sum(axis=1)
        greenwood = np.append(0.0, np.cumsum(r / ((1.0 - r) * self.exposed)))
        at = np.arange(self.intervals + 1)
        return np.asarray(greenwood[np.minimum(at[:, None], at)])

    @property
    def cumulated_by_hazards(self) -> FloatArray:
        """The derivatives of ``H`` at the cuts by the hazards (J + 1, J K)."""
        J, K = self.events.shape
        past = np.arange(J) < np.arange(J + 1)[:, None]
        return np.asarray(np.repeat(past / (1.0 - self.rates.sum(axis=1)), K, axis=1))

    def covariance_with(self, other: "LifeTable", *, noise: bool = True) -> FloatArray:
        """Return the covariance (J + 1, J + 1) of ``H`` with that of another group but for the noise of counts.

        It is 0 between groups of people who are not weighted by their chance of treatment.
        """
        J, K = self.events.shape
        if self.errors is None:
            return np.zeros((J + 1, J + 1))
        between = self.errors.block(self.group, other.group, J * K, noise=noise)
        return np.asarray(self.cumulated_by_hazards @ between @ other.cumulated_by_hazards.T)

    @cached_property
    def cumulated_noise(self) -> FloatArray:
        """The part of it that is noise."""
        J, K = self.events.shape
        r = self.rates.sum(axis=1)
        past = np.arange(J) < np.arange(J + 1)[:, None]
        by_event = past / (self.exposed * (1.0 - r))
        L = self.derivative(np.repeat(by_event, K, axis=1), -by_event * r)
        return self.sd**2 * L @ L.T

    @cached_property
    def cumulated_unknown(self) -> FloatArray:
        """By how much ``H`` at the cuts (J + 1,) may be off where exposures are off by as much as they may be."""
        r = self.rates.sum(axis=1)
        return np.append(0.0, np.cumsum(r / ((1.0 - r) * self.exposed) * self.unknown_exposure))

    def derivative(
        self, by_events: FloatArray, by_exposed: FloatArray, missed: tuple[FloatArray, FloatArray] | None = None
    ) -> FloatArray:
        """Return derivatives (m, cells) by the cells, from those by events (m, J K) and by exposures (m, J).

        ``missed`` are parts of intervals for which censored people are not exposed, and late ones are; by default those
        of exposures.
        """
        J, K = self.events.shape
        left, came = self.missed if missed is None else missed
        through = by_exposed @ at_risk_by_cells(J, K, late=self.entered is not None)
        through[:, : J * K] += by_events
        through[:, J * K : J * K + J] -= by_exposed * left
        if self.entered is not None:
            through[:, -J:] += by_exposed * came
        return np.asarray(through)

    def incidence(self, cause: int) -> "Incidence":
        """Return ``F`` of a cause at the cuts."""
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
        if self.errors is None:
            sampling = np.einsum("ajk,bjk,jk->ab", by_rate, by_rate, r / self.exposed[:, None])
            sampling -= np.einsum("aj,bj,j->ab", mean, mean, 1.0 / self.exposed)
        else:
            by_hazards = by_rate.reshape(J + 1, J * K)
            sampling = by_hazards @ self.errors.block(self.group, self.group, J * K) @ by_hazards.T
        by_events = (by_rate / self.exposed[:, None]).reshape(J + 1, J * K)
        by_exposed = -mean / self.exposed
        L = self.derivative(by_events, by_exposed)
        covariance = sampling + self.sd**2 * L @ L.T
        precision = 1.0 / np.maximum(np.diag(covariance)[1:], np.finfo(float).tiny)
        monotone = np.clip(scipy.optimize.isotonic_regression(steps, weights=precision).x, 0.0, 1.0)
        return Incidence(
            value=np.append(0.0, monotone), covariance=covariance, unknown=np.abs(by_exposed) @ self.unknown_exposure
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Incidence:
    """The incidence of a cause at the cuts (J + 1,), its covariance, and by how much it may be off for exposures."""

    value: FloatArray
    covariance: FloatArray
    unknown: FloatArray


@remembered(128)
def at_risk_by_cells(intervals: int, causes: int, *, late: bool) -> FloatArray:
    """Return derivatives of people at risk by the cells (J, cells): events, censorings, who stayed, beginnings."""
    upto = np.tri(intervals).T
    parts = [np.repeat(upto, causes, axis=1), upto, np.ones((intervals, 1))]
    matrix = np.hstack([*parts, -upto] if late else parts)
    matrix.flags.writeable = False
    return matrix


ROUNDS: Final = 3
"""How often exposures and hazards are computed from each other: they agree to three digits then."""
PLACES: Final = (np.arange(16) + 0.5) / 16
"""Parts of an interval over which means are taken."""


def slopes_within(amounts: FloatArray, cuts: FloatArray, variances: FloatArray) -> FloatArray:
    """Return how an amount per time changes within each interval (J,), over its mean there: from neighbours' means.

    A slope ``b`` of variance ``v``, from the variances of amounts (J,), counts by :math:`b^2 / (b^2 + v)`. It is at
    most 2, where the amount is 0 at one end.
    """
    J, width = len(amounts), np.diff(cuts)
    if J < 2:
        return np.zeros(J)
    rate = np.maximum(amounts, 0.0) / width
    by_rates = np.asarray(np.gradient(np.eye(J), cuts[:-1] + width / 2.0, axis=0)) * width[:, None]
    change, chance = by_rates @ rate, by_rates**2 @ (variances / width**2)
    square = change**2 + chance
    change *= np.divide(change**2, square, out=np.zeros(J), where=square > 0.0)
    return np.clip(np.divide(change, rate, out=np.zeros(J), where=rate > 0.0), -2.0, 2.0)


def relative_change(amounts: FloatArray, cuts: FloatArray) -> FloatArray:
    """Return the larger distance of an amount per time from those of neighbours (J,), over its own: at most 2."""
    rate = np.maximum(amounts, 0.0) / np.diff(cuts)
    apart = larger_of_neighbours(np.abs(np.diff(rate))) if len(rate) > 1 else np.full(1, np.inf)
    return np.minimum(np.divide(apart, rate, out=np.full_like(rate, 2.0), where=rate > 0.0), 2.0)


def larger_of_neighbours(apart: FloatArray) -> FloatArray:
    """Return the larger of what each of ``J`` intervals has on its two sides (J,), from what is between them (J - 1,).

    Arrays may have further axes before.
    """
    sides = np.concatenate([apart[..., :1], apart], axis=-1), np.concatenate([apart, apart[..., -1:]], axis=-1)
    return np.asarray(np.maximum(*sides))


def rest_of_hazard(hazard: FloatArray, course: FloatArray, leaving: FloatArray) -> FloatArray:
    """Return the mean part of an interval's risk that is still to come (J,) for people who leave, or begin, in it.

    ``course`` and ``leaving`` say how the hazard, and their number, change within it (`slopes_within`).
    """
    u, total = PLACES, np.maximum(hazard, 1e-9)[:, None]
    passed = u + course[:, None] * (u**2 - u) / 2.0
    rest = np.expm1(-total * (1.0 - passed)) / np.expm1(-total)
    return np.asarray(np.mean((1.0 + leaving[:, None] * (u - 0.5)) * rest, axis=1))


def multiple_of_error(z: float, off: FloatArray) -> FloatArray:
    r"""Return the quantile of :math:`|N(b, 1)|` (m,) at the level at which that of :math:`|N(0, 1)|` is ``z``.

    An interval of so many standard errors on both sides holds what an estimate misses by up to ``b`` of them.

    Examples
    --------
    >>> multiple_of_error(1.96, np.array([0.0, 0.25, 1.0, 10.0])).round(2).tolist()
    [1.96, 2.02, 2.65, 11.64]
    """
    level = 1.0 - 2.0 * scipy.special.ndtr(-z)
    near = np.minimum(off, FAR)
    multiple = np.sqrt(scipy.special.chndtrix(level, 1.0, near**2))
    return np.asarray(np.where(off > FAR, off + scipy.special.ndtri(level), multiple))


FAR: Final = 4.0
"""From here on one side of the distribution is beyond 0 with a probability below 1e-6."""


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
    more, fewer = replace(table, besides=1.0), replace(table, besides=-table.added_by_noise)
    limits = []
    for each in (table, more, fewer):
        s = np.sqrt(np.diag(each.cumulated_covariance))
        limits.append(limits_of(each.cumulated, s, z, each.cumulated_unknown))
    low = np.exp(-np.maximum(limits[0][1], limits[2][1]))
    high = np.exp(-np.minimum(limits[0][0], limits[1][0]))
    S, s = np.exp(-table.cumulated), np.sqrt(np.diag(table.cumulated_covariance))
    return Band(S, S * s, np.minimum.accumulate(low), np.minimum.accumulate(high))


def limits_of(value: FloatArray, s: FloatArray, z: float, unknown: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return limits of a positive number: the union of those on its own scale and on the logarithmic one.

    Its estimate may be off by what is unknown, besides its standard error.
    """
    off = np.divide(unknown, s, out=np.zeros_like(s), where=s > 0.0)
    reach, base = multiple_of_error(z, off) * s, np.maximum(value, s)
    w = np.minimum(np.divide(reach, base, out=np.zeros_like(s), where=base > 0.0), STEEPEST)
    low = np.maximum(np.minimum(value - reach, base * np.exp(-w)), 0.0)
    return low, np.maximum(value + reach, base * np.exp(w))


def incidence(table: LifeTable, cause: int, z: float) -> Band:
    """Return the incidence of a cause with limits at a normal quantile."""
    estimated = table.incidence(cause)
    s = np.sqrt(np.maximum(np.diag(estimated.covariance), 0.0))
    low, high = limits_of(estimated.value, s, z, estimated.unknown)
    return Band(estimated.value, s, low, np.minimum(high, 1.0))


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
    estimated = table.incidence(cause)
    band, u = incidence(table, cause, z), _passed(table.cuts, times)
    rise = np.diff(table.cumulated)[_interval(table.cuts, times)]
    flat = rise < 1e-8
    share = np.where(flat, u, np.expm1(-rise * u) / np.where(flat, -1.0, np.expm1(-rise)))
    limits = np.maximum.accumulate(band.low), np.maximum.accumulate(band.high)
    return Band(*_between(estimated.value, *limits, estimated.covariance, table, times, share))


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
    stated = slice(table.last + 1)
    below, above = bends(value[stated], high[stated], cuts[stated], times)
    parts = (
        joined(value),
        np.sqrt(np.maximum(variance, 0.0)),
        np.maximum(joined(low) - below, low[place]),
        np.minimum(joined(high) + above, high[after]),
    )
    at_end = np.isin(times, cuts)
    limits = np.where(at_end, joined(low), parts[2]), np.where(at_end, joined(high), parts[3])
    within_table = (np.where(times <= cuts[table.last], part, np.nan) for part in (*parts[:2], *limits))
    value, error, least, most = within_table
    return value, error, least, most


def bends(value: FloatArray, high: FloatArray, cuts: FloatArray, times: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how far below and above joined curves true ones may be (..., m), as slopes of neighbours show.

    Parameters
    ----------
    value, high
        What increases (..., J + 1) at the cuts, and its upper limits.
    cuts
        The ends of intervals (J + 1,), from 0.
    times
        Times (m,).
    """
    slope = np.diff(value) / np.diff(cuts)
    change = np.diff(slope)
    if not change.shape[-1]:
        unknown = np.full((*value.shape[:-1], len(times)), np.inf)
        return unknown, unknown
    place = np.minimum(_interval(cuts, times), slope.shape[-1] - 1)
    most = larger_of_neighbours(np.abs(change))[..., place]
    since, until = times - cuts[place], cuts[place + 1] - times
    near, first, rises = np.minimum(since, until), place == 0, change[..., :1] > 0.0
    above = (high[..., 1:2] - value[..., 1:2]) / cuts[1]
    return most * np.where(first & rises, until, near), np.where(first & ~rises, (most + above) * until, most * near)


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
    """Return the mean time without an event up to a time, and its standard error."""
    area, gradient = area_under(table, upto)
    variance = float(gradient @ table.cumulated_covariance @ gradient)
    return area, float(np.sqrt(max(variance, 0.0)))


def shared_by_means(table: LifeTable, other: LifeTable, upto: float) -> float:
    """Return the covariance of the restricted means of two groups: 0 but for weighted people."""
    if table.errors is None:
        return 0.0
    return float(area_under(table, upto)[1] @ table.covariance_with(other) @ area_under(other, upto)[1])


def area_under(table: LifeTable, upto: float) -> tuple[float, FloatArray]:
    r"""Return the mean time without an event up to a time, and its derivatives by ``H`` at the cuts (J + 1,).

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
    return float(area.sum()), gradient
