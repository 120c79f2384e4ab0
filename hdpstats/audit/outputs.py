"""What outputs on neighbouring data sets show: a lower bound on epsilon, and whether anything but numbers differs.

**Lower bound.** Outputs of a mechanism on two neighbouring data sets bound its epsilon from below, with confidence.

**Skeleton.** What a caller can observe of a fit, apart from the noisy numbers, is the same on neighbours. No
statistics: names, shapes, types, warnings, log lines, printed text and exceptions are compared exactly. It is the test
that catches levels taken from data, dropped rows, convergence flags and errors that disclose data.
"""

import contextlib
import dataclasses
import io
import logging
import math
import warnings
from collections.abc import Callable
from functools import partial
from logging.handlers import BufferingHandler
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import betaincinv

from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import real

NOISY = "number"
"""What stands for a float in a skeleton: floats may differ between neighbours, nothing else may."""


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
    forward = log_ratio(hits, len(one), other, len(two), alpha / 2.0, delta)
    backward = log_ratio(other, len(two), hits, len(one), alpha / 2.0, delta)
    return max(forward, backward)


def log_ratio(k: int, n: int, j: int, m: int, alpha: float, delta: float = 0.0) -> float:
    """Return a lower bound of log((p - delta) / q) at level ``alpha``, from k of n hits with p and j of m with q."""
    lower = (float(betaincinv(k, n - k + 1, alpha / 2.0)) if k else 0.0) - delta
    upper = float(betaincinv(j + 1, m - j, 1.0 - alpha / 2.0)) if j < m else 1.0
    return math.log(lower / upper) if lower > 0 else -math.inf


def score_between(outputs: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the difference of distances to two points (n,): for norm-shaped noise a monotone likelihood ratio."""
    difference: Any = np.linalg.norm(outputs - second, axis=1) - np.linalg.norm(outputs - first, axis=1)
    return np.asarray(difference, dtype=float)


@final
@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """Everything a caller sees of one call."""

    result: Any
    exception: tuple[str, ...] | None
    warned: tuple[tuple[str, str], ...]
    printed: str
    logged: tuple[tuple[str, str, str], ...]


def skeleton(value: Any, *, numbers: bool = False) -> Any:
    """Return the shape of a value: every float replaced by a mark, NaN and infinity kept apart, text kept.

    With ``numbers`` every float stays, to its last bit.
    """
    inner = partial(skeleton, numbers=numbers)
    if isinstance(value, float | np.floating):
        return (float(value).hex() if numbers else NOISY) if np.isfinite(value) else str(value)
    if isinstance(value, np.ndarray):
        is_marked = value.dtype.kind == "f" and not numbers
        return (
            "array",
            value.shape,
            str(value.dtype),
            np.isfinite(value).tolist() if is_marked else inner(value.tolist()),
        )
    if isinstance(value, pd.Series):
        return ("series", str(value.name), str(value.dtype), list(map(str, value.index)), inner(value.to_numpy()))
    if isinstance(value, pd.DataFrame):
        return ("frame", [inner(value.iloc[:, place]) for place in range(value.shape[1])])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: inner(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): inner(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [inner(item) for item in value]
    return repr(value)


def observe(call: Callable[[], Any], *, numbers: bool = False) -> Observation:
    """Run a call and return all that can be seen of it; with ``numbers`` the floats too, to the last bit.

    What numba logs while it compiles is left out: it says whether this process has compiled a loop before, and depends
    on the types of arguments only.
    """
    printed, keep = io.StringIO(), BufferingHandler(capacity=10**9)
    root = logging.getLogger()
    level, result, exception = root.level, None, None
    root.addHandler(keep)
    root.setLevel(logging.NOTSET)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            warnings.simplefilter("always")
            try:
                result = skeleton(call(), numbers=numbers)
            except Exception as error:
                exception = (type(error).__name__, str(error), repr(error.__cause__), repr(error.__context__))
    finally:
        root.removeHandler(keep)
        root.setLevel(level)
    logged = [
        (record.name, record.levelname, record.getMessage())
        for record in keep.buffer
        if not record.name.startswith("numba.")
    ]
    warned = tuple((warning.category.__name__, str(warning.message)) for warning in caught)
    return Observation(
        result=result, exception=exception, warned=warned, printed=printed.getvalue(), logged=tuple(logged)
    )
