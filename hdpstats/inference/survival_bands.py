r"""Survival, incidence, quantiles and restricted means with limits, from a noisy life table: post-processing.

The table, ``H`` with its covariance, and ``F``: `hdpstats.inference.life_tables`.

**Limits** of survival are the union of :math:`H \pm z s` and :math:`H \exp(\pm z s / \max(H, s))`: the first is
right where noise dominates, the second one where few events do. The upper limit is at least that of the same counts
with one more person exposed in each interval: with few people left :math:`D_j / Y^*_j` says too little of how large
survival may be (as in Clopper and Pearson's limits). Where people at risk are fewer than `FAINT` standard deviations of
their noise, something tends to be stated because noise added to them, which makes survival too large: the lower limit
is at most that of counts with `TAKEN_OFF` standard deviations fewer. Limits of incidence are the union of
:math:`F \pm z s` and :math:`F \exp(\pm z s / \max(F, s))`.

**Quantiles** have as limits ends of intervals: the last one at which survival's lower limit is above the level, and the
first one at which the upper limit is at most that. So they hold whatever survival does in between. Restricted means
take ``H`` as linear there, which their error does not count.

Between the ends nothing was counted: where a number is needed there, ``H`` is taken as linear.

References
----------
M. P. Fay, E. H. Brittain, M. A. Proschan (2013), Pointwise confidence intervals for a survival distribution with small
samples or heavy censoring.
"""

from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference.life_tables import LifeTable

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


def survival_between(S: FloatArray, cuts: FloatArray, times: FloatArray) -> FloatArray:
    """Return survival between the cuts, where ``H`` is linear."""
    with np.errstate(divide="ignore"):
        H = -np.log(np.maximum(S, np.finfo(float).tiny))
    return np.asarray(np.exp(-np.interp(times, cuts, H)))


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
