"""How long people would be followed if nothing happened to them.

``K_c`` is the probability that a person would be followed for exactly ``c`` intervals. A public person who was censored
after ``c`` intervals shows ``K_c = 1``. Who had the event in ``s`` would have been followed for ``s`` intervals at
least; beyond, ``K`` is the product-limit estimate of censoring given that (Kaplan and Meier 1958, with events before
censorings of the same interval), so that on average over people ``K`` is that estimate itself (Efron 1967). Where
follow-up ends for everybody at the horizon, ``K_q = 1``.
"""

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray

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
