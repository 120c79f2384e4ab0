"""A statistical lower bound on epsilon from outputs of a mechanism on two neighbouring data sets."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import real


def epsilon_lower_bound(
    scores: npt.ArrayLike, other_scores: npt.ArrayLike, *, alpha: float = 1e-3, delta: float = 0.0
) -> float:
    """Return a value that epsilon exceeds with confidence ``1 - alpha``, from scores of outputs on D and on D'.

    A threshold on the score is chosen on the first 30 % of the outputs; the remaining ones certify it with
    Clopper-Pearson intervals (Ding et al. 2018; Gilbert and McMillan 2018). A correct mechanism is contradicted
    with probability at most ``alpha``.

    Parameters
    ----------
    scores, other_scores
        One number per output, large where D is more likely than D' (any function of an output will do).
    """
    alpha = real(alpha, name="alpha", lower=0.0, upper=0.5, open_lower=True)
    one, two = np.asarray(scores, dtype=float), np.asarray(other_scores, dtype=float)
    best, direction, threshold = -math.inf, 1.0, 0.0
    train = int(0.3 * min(len(one), len(two)))
    levels = np.append(np.linspace(0.005, 0.995, 200), [0.998, 0.9995, 1.0])
    for sign in (1.0, -1.0):
        for cut in np.unique(np.quantile(sign * np.concatenate([one[:train], two[:train]]), levels)):
            bound = _bound(sign * one[:train], sign * two[:train], cut, alpha, delta)
            if bound > best:
                best, direction, threshold = bound, sign, float(cut)
    return _bound(direction * one[train:], direction * two[train:], threshold, alpha, delta)


def _bound(one: FloatArray, two: FloatArray, cut: float, alpha: float, delta: float) -> float:
    """Bound epsilon from the event that a score reaches the cut, in whichever direction the ratio is larger."""
    hits, other = int(np.sum(one >= cut)), int(np.sum(two >= cut))
    forward = _log_ratio(hits, len(one), other, len(two), alpha / 2.0, delta)
    backward = _log_ratio(other, len(two), hits, len(one), alpha / 2.0, delta)
    return max(forward, backward)


def _log_ratio(k: int, n: int, j: int, m: int, alpha: float, delta: float) -> float:
    lower = (float(betaincinv(k, n - k + 1, alpha / 2.0)) if k else 0.0) - delta
    upper = float(betaincinv(j + 1, m - j, 1.0 - alpha / 2.0)) if j < m else 1.0
    return math.log(lower / upper) if lower > 0 else -math.inf


def score_between(outputs: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the difference of distances to two points (n,): for norm-shaped noise a monotone likelihood ratio."""
    difference: Any = np.linalg.norm(outputs - second, axis=1) - np.linalg.norm(outputs - first, axis=1)
    return np.asarray(difference, dtype=float)
