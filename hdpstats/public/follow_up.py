r"""Follow-up of public rows: product-limit estimates, and how a survival model does on these rows.

Follow-up of row ``i`` ends at :math:`t_i` with cause 1, ..., K or, by censoring, with 0; it begins at its entry or
at 0. Events of a time come before censorings of the same time, as everywhere in survival analysis.

`PublicCheck` is one record of concordance, Brier scores and calibration.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Final, final

import numpy as np
import pandas as pd
from scipy.special import ndtri

from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.public.risk_sets import RiskSets, StepCurves, product_limit, ratio
from hdpstats.records.codec import NAN_IS_NULL, Record
from hdpstats.records.saved import Frame


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FollowUp:
    """How long public rows were observed, and what happened then.

    Attributes
    ----------
    time : (n,) float64
        The end of follow-up.
    cause : (n,) int64
        0 for censoring, else the number of the cause, from 1.
    causes : int
        K: how many causes there are.
    entry : (n,) float64 or None
        The beginning of follow-up, below ``time``; None where it is 0.
    weights : (n,) float64 or None
        Case weights; None stands for 1.
    person : (n,) int64 or None
        Whose row it is, from 0, where a person may have several; None where every row is a person.
    """

    time: FloatArray
    cause: IntArray
    causes: int
    entry: FloatArray | None = None
    weights: FloatArray | None = None
    person: IntArray | None = None

    @property
    def case_weights(self) -> FloatArray:
        """The weights, 1 where none are given."""
        return np.ones(len(self.time)) if self.weights is None else self.weights

    def take(self, rows: BoolArray) -> "FollowUp":
        """Return some of the rows."""
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        kept: dict[str, Any] = {name: each[rows] for name, each in parts.items() if isinstance(each, np.ndarray)}
        return replace(self, **kept)


def kaplan_meier(rows: FollowUp) -> StepCurves:
    """Return the product-limit estimates of rows: see `hdpstats.public.risk_sets.product_limit`."""
    return product_limit(risk_sets(rows))


def risk_sets(rows: FollowUp, *, beginnings: bool = False) -> RiskSets:
    """Return who is at risk and who leaves, at the distinct times of ends; on request also at those of beginnings."""
    known = rows.time if rows.entry is None or not beginnings else np.append(rows.time, rows.entry[rows.entry > 0.0])
    times = np.unique(known)
    place = np.searchsorted(times, rows.time)
    w, T = rows.case_weights, len(times)

    def total(places: IntArray, weights: FloatArray, size: int) -> FloatArray:
        return np.asarray(np.bincount(places, weights, minlength=size), dtype=np.float64)

    left = total(place, w, T)
    began = np.zeros(T + 1)
    if rows.entry is not None:
        began = total(np.searchsorted(times, rows.entry, side="right"), w, T + 1)
    at_risk: FloatArray = np.cumsum(left[::-1])[::-1] - np.cumsum(began[:0:-1])[::-1]
    by_cause = [total(place, w * (rows.cause == cause), T) for cause in range(1, rows.causes + 1)]
    return RiskSets(times=times, at_risk=at_risk, left=left, events=np.column_stack(by_cause))


def reaches(rows: FollowUp, times: FloatArray) -> BoolArray:
    """Return at which times (T,) somebody is still followed, or everybody was seen to fail.

    Beyond, an estimate would rest on the last person followed, whose event would stand for all who were censored.
    """
    end = rows.time.max(initial=-np.inf)
    return np.asarray((times <= end) | bool(np.all(rows.cause > 0)))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Concordance:
    """Harrell's concordance of a score with follow-up.

    Attributes
    ----------
    value : float
        The share of usable pairs in which the row with the higher score has the earlier event; ties of the score count
        half. NaN without a usable pair.
    std_error : float
        Its standard error by the infinitesimal jackknife, over persons.
    pairs : float
        The weight of the usable pairs.
    """

    value: Annotated[float, NAN_IS_NULL]
    std_error: Annotated[float, NAN_IS_NULL]
    pairs: float


def concordance(rows: FollowUp, score: FloatArray, *, cause: int = 1) -> Concordance:
    """Return the concordance of a score (higher: earlier) with the events of one cause; others count as censoring.

    A pair is usable if one row has its event while the other is still under observation, or is censored at that very
    time; two events at one time are not ordered (as in ``survival::concordance`` of R). The number of operations grows
    as ``n log n``.

    References
    ----------
    Harrell, F. E., Lee, K. L. and Mark, D. B. (1996). Multivariable prognostic models. Statistics in Medicine 15.

    Examples
    --------
    >>> rows = FollowUp(time=np.array([1.0, 2, 3, 4]), cause=np.array([1, 0, 1, 1]), causes=1)
    >>> concordance(rows, np.array([4.0, 3, 1, 2])).value
    0.75
    """
    w = rows.case_weights
    event = rows.cause == cause
    times, place = np.unique(rows.time, return_inverse=True)
    stop = 2 * place + ~event
    start = np.zeros_like(stop) if rows.entry is None else np.searchsorted(times, rows.entry, side="right")
    ranks, rank = np.unique(score, return_inverse=True)

    def weigh(keys: IntArray, of: BoolArray, limits: IntArray) -> FloatArray:
        """Return for each row the weight of others with a key below its limit: score below, at most its own, any."""
        ends = (rank, rank + 1, np.full_like(rank, len(ranks)))
        return np.stack([_dominated(keys[of], rank[of], w[of], limits, end) for end in ends])

    everybody = np.ones(len(w), dtype=bool)
    as_event = event * (weigh(start, everybody, place + 1) - weigh(stop, everybody, stop + 1))
    as_other = weigh(stop, event, stop) - weigh(stop, event, 2 * start)
    earned = (as_event[0] + as_event[1]) / 2.0
    credit = earned + as_other[2] - (as_other[0] + as_other[1]) / 2.0
    pairs = float(w @ as_event[2])
    if not pairs > 0.0:
        return Concordance(value=np.nan, std_error=np.nan, pairs=0.0)
    value = float(w @ earned) / pairs
    influence = w * (credit - value * (as_event[2] + as_other[2])) / pairs
    if rows.person is not None:
        influence = np.bincount(rows.person, influence)
    return Concordance(value=value, std_error=float(np.sqrt(np.sum(influence**2))), pairs=pairs)


def _dominated(first: IntArray, second: IntArray, w: FloatArray, a: IntArray, b: IntArray) -> FloatArray:
    """Return for each pair of limits the sum of ``w`` where ``first < a`` and ``second < b``; all are at least 0.

    A wavelet matrix: rows in the order of ``first``, split by the binary digits of ``second`` from the highest on, so
    that the rows below a limit stay in one piece that is narrowed digit by digit. Where one of the limits leaves out
    nobody, or everybody, it takes no part.
    """
    if not len(first) or np.max(a, initial=0) <= np.min(first) or np.max(b, initial=0) <= np.min(second):
        return np.zeros(len(a))
    if np.min(a, initial=np.max(first) + 1) > np.max(first):
        return _below(second, w, b)
    if np.min(b, initial=np.max(second) + 1) > np.max(second):
        return _below(first, w, a)
    order = np.argsort(first, kind="stable")
    low, high = np.zeros(len(a), dtype=np.int64), np.searchsorted(first[order], a)
    second, w, total = second[order], w[order], np.zeros(len(a))
    largest = max(int(b.max(initial=0)), int(second.max(initial=0)))
    for digit in reversed(range(largest.bit_length())):
        zero = (second >> digit) & 1 == 0
        count = np.concatenate([[0], np.cumsum(zero)])
        weight = np.concatenate([[0.0], np.cumsum(w * zero)])
        above = (b >> digit) & 1 == 1
        total += np.where(above, weight[high] - weight[low], 0.0)
        low, high = (np.where(above, count[-1] + end - count[end], count[end]) for end in (low, high))
        split = np.concatenate([np.flatnonzero(zero), np.flatnonzero(~zero)])
        second, w = second[split], w[split]
    return total


def _below(keys: IntArray, w: FloatArray, limits: IntArray) -> FloatArray:
    """Return for each limit the sum of ``w`` where a key is below it; all are at least 0."""
    total = np.concatenate([[0.0], np.cumsum(np.bincount(keys, w))])
    return np.asarray(total[np.minimum(limits, len(total) - 1)])


def brier_scores(rows: FollowUp, incidence: FloatArray, times: FloatArray, *, cause: int = 1) -> FloatArray:
    r"""Return the Brier score at each time, weighted by the inverse probability of not being censored, shape (T,).

    With predicted incidence :math:`\pi_i(t)` and the Kaplan-Meier estimate G of the distribution of censoring,

    .. math::

        \frac{1}{\sum w_i} \sum_i w_i \Bigl\{
            \frac{(1[\text{cause}_i = k] - \pi_i(t))^2 \, 1[t_i \le t, \text{any event}]}{G(t_i-)}
            + \frac{\pi_i(t)^2 \, 1[\text{event-free at } t]}{G(t-)} \Bigr\}

    (Graf et al. 1999; with several causes Schoop et al. 2011). Who is censored exactly at ``t`` is known to be
    event-free then, which matters where follow-up ends for all at one horizon. NaN where the rows do not reach.

    Parameters
    ----------
    rows : FollowUp
        Rows that enter at 0.
    incidence : (n, T) float64
        Predicted incidence of the cause at the times.
    times : (T,) float64
        Times.
    cause : int
        The number of the cause.
    """
    w = rows.case_weights
    curves = kaplan_meier(rows)
    own = curves.at(curves.uncensored, rows.time, start=1.0, before=True)
    then = curves.at(curves.uncensored, times, start=1.0, before=True)
    failed = (rows.time[:, None] <= times) & (rows.cause[:, None] > 0)
    free = (rows.time[:, None] > times) | ((rows.time[:, None] == times) & (rows.cause[:, None] == 0))
    known = ratio(failed, own[:, None], where=failed, other=0.0) + ratio(free, then, where=free, other=0.0)
    error = (failed & (rows.cause[:, None] == cause)) - incidence
    score = w @ (known * error**2) / w.sum()
    return np.where(reaches(rows, times), score, np.nan)


def integrated_brier(times: FloatArray, scores: FloatArray) -> tuple[float, float]:
    """Return the mean over time of Brier scores up to the last that is known, and that time.

    The trapezium rule from time 0, where every prediction is right; NaN where no score is known.
    """
    known = np.isfinite(scores)
    if not known.any():
        return np.nan, np.nan
    t, b = np.concatenate([[0.0], times[known]]), np.concatenate([[0.0], scores[known]])
    return float(np.sum(np.diff(t) * (b[1:] + b[:-1]) / 2.0) / t[-1]), float(t[-1])


GROUPS: Final = 5
"""Groups of predicted risk."""
_SCORES: Final = {"cause": "object"} | dict.fromkeys(("time", "brier", "reference"), "float64")
_CALIBRATION: Final = {"cause": "object", "time": "float64", "group": "int64", "rows": "int64"} | dict.fromkeys(
    ("predicted", "observed", "conf_low", "conf_high"), "float64"
)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicCheck(Record):
    """What public rows say about a survival model; those rows took part in the fit, which flatters it a little.

    Attributes
    ----------
    rows : int
        How many public rows were used.
    causes : tuple of str
        The causes, one where risks do not compete.
    concordance : tuple of Concordance
        One per cause: how the linear predictor orders the events.
    scores : DataFrame
        Columns cause, time, brier, reference: the Brier score of the model, and that of one curve for everybody.
    calibration : DataFrame
        Columns cause, time, group, rows, predicted, observed, conf_low, conf_high: in each group of predicted risk, the
        mean prediction, and the product-limit estimate with 95 % limits.
    """

    rows: int
    causes: tuple[str, ...]
    concordance: tuple[Concordance, ...]
    scores: Frame
    calibration: Frame

    def integrated(self) -> pd.DataFrame:
        """Return integrated Brier scores by cause: columns brier, reference, until (the last time in the integral)."""
        scores = {}
        for cause in self.causes:
            part = self.scores[self.scores["cause"] == cause]
            times = part["time"].to_numpy(dtype=float)
            brier, until = integrated_brier(times, part["brier"].to_numpy(dtype=float))
            reference, _ = integrated_brier(times, part["reference"].to_numpy(dtype=float))
            scores[cause] = (brier, reference, until)
        return pd.DataFrame.from_dict(scores, orient="index", columns=["brier", "reference", "until"])


def check(
    rows: FollowUp,
    score: FloatArray,
    *,
    causes: Sequence[str],
    times: FloatArray,
    incidence: FloatArray,
    shown: Sequence[int],
) -> PublicCheck:
    """Check predictions on public rows.

    Parameters
    ----------
    rows : FollowUp
        What happened.
    score : (n, K) float64
        Linear predictors by cause.
    causes : sequence of str
        The names of the K causes.
    times : (T,) float64
        When to compare; none where a row's covariates may change later, so that no curve belongs to it.
    incidence : (n, T, K) float64
        Predicted cumulative incidence.
    shown : sequence of int
        The places among ``times`` at which to tabulate calibration.
    """
    places = range(len(causes))
    scores = [_scores(rows, name, k, times, incidence[:, :, k]) for k, name in zip(places, causes, strict=True)]
    tables = [
        calibration(rows, incidence[:, place, k], time=float(times[place]), cause=k + 1).assign(cause=causes[k])
        for k in places
        for place in shown
    ]
    return PublicCheck(
        rows=len(rows.time),
        causes=tuple(causes),
        concordance=tuple(concordance(rows, score[:, k], cause=k + 1) for k in places),
        scores=_frame(scores, _SCORES),
        calibration=_frame(tables, _CALIBRATION),
    )


def calibration(rows: FollowUp, incidence: FloatArray, *, time: float, cause: int = 1) -> pd.DataFrame:
    """Return predicted and observed incidence at a time in groups of equal size of predicted risk (n,).

    Columns time, group (from 1, the lowest risk), rows, predicted, observed, conf_low, conf_high. The limits are those
    of ``log(-log(1 - F))``; NaN where a group's rows do not reach the time. Equal predictions share a group.
    """
    inner = np.quantile(incidence, np.arange(1, GROUPS) / GROUPS) if len(incidence) else np.zeros(GROUPS - 1)
    group = np.searchsorted(inner, incidence, side="right")
    at, z = np.array([time]), -float(ndtri(0.025))
    groups = []
    for number in np.unique(group):
        part = rows.take(group == number)
        curves = kaplan_meier(part)
        observed, error = (
            float(curves.at(values[:, cause - 1], at, start=0.0)[0]) for values in (curves.incidence, curves.std_error)
        )
        if not reaches(part, at)[0]:
            observed = error = np.nan
        low, high = _limits(observed, error, z)
        predicted = float(np.average(incidence[group == number], weights=part.case_weights))
        groups.append((time, int(number) + 1, len(part.time), predicted, observed, low, high))
    columns = [name for name in _CALIBRATION if name != "cause"]
    return pd.DataFrame(groups, columns=columns)


def _limits(incidence: float, error: float, z: float) -> tuple[float, float]:
    rest = np.log1p(-min(incidence, 1.0)) if incidence < 1.0 else -np.inf
    if not -np.inf < rest < 0.0:
        return np.nan, np.nan
    with np.errstate(over="ignore"):  # an infinite factor is a limit of 0 or 1
        factor = np.exp(z * error / (1.0 - incidence) / -rest)
        return float(-np.expm1(rest / factor)), float(-np.expm1(rest * factor))


def _scores(rows: FollowUp, name: str, k: int, times: FloatArray, incidence: FloatArray) -> pd.DataFrame:
    curves = kaplan_meier(rows)
    everybody = np.broadcast_to(curves.at(curves.incidence[:, k], times, start=0.0), incidence.shape)
    return pd.DataFrame(
        {
            "cause": name,
            "time": times,
            "brier": brier_scores(rows, incidence, times, cause=k + 1),
            "reference": brier_scores(rows, everybody, times, cause=k + 1),
        }
    )


def _frame(parts: Sequence[pd.DataFrame], kinds: dict[str, str]) -> pd.DataFrame:
    """Return tables one below the other with the types of their columns, however many rows there are."""
    columns = {name: [value for part in parts for value in part[name].tolist()] for name in kinds}
    return pd.DataFrame({name: pd.Series(values, dtype=kinds[name]) for name, values in columns.items()})
