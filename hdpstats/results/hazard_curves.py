r"""Curves of a discrete-time hazard model with their gradients, as arrays and as tables.

Of ``n`` rows with covariates ``X`` (n, p), baseline features ``A`` (q, e) and coefficients
:math:`\theta_k = (\alpha_k, \beta_k)` of K causes, the hazard of cause ``k`` in interval ``s`` is
:math:`p_{ks} = g^{-1}(A_s'\alpha_k + x'\beta_k + o)`, survival is :math:`S_m = \prod_{s \le m} (1 - \sum_k p_{ks})`
and the cumulative incidence of cause ``k`` is :math:`F_{km} = \sum_{s \le m} S_{s-1} p_{ks}` (the discrete form of
Aalen and Johansen 1978). With :math:`x_s = (A_s, x)`, the slope :math:`p'_{ks}` of the inverse link and
:math:`w_{ks} = p'_{ks} / (1 - \sum_j p_{js})`, the gradients are

.. math::

    \partial \log S_m / \partial \theta_j = -\sum_{s \le m} w_{js} x_s, \qquad
    \partial F_{km} / \partial \theta_j
        = \sum_{s \le m} \bigl(1[j = k] S_{s-1} p'_{ks} + w_{js} F_{ks}\bigr) x_s - F_{km} \sum_{s \le m} w_{js} x_s,

the second because what cause ``j`` takes in interval ``s`` is missing from survival in all later ones.

**Within an interval** hazards of continuous time are taken as constant. When the part :math:`u` of interval ``m + 1``
has passed, with :math:`R = 1 - \sum_k p_{k,m+1}`,

.. math::

    S = S_m R^u, \qquad F_k = F_{km} + \rho (F_{k,m+1} - F_{km}), \quad \rho = (1 - R^u) / (1 - R), \qquad
    \int_0^u S = S_m (1 - R^u) / (-\log R).

Predictions, figures, medians, standardised risks and restricted means all use this curve. Limits between ends of
intervals are the delta method on it, and then wider by what a hazard that changes within the interval may bend it, as
those of life tables are (`hdpstats.inference.life_tables`). Standardised risks and restricted means do not count that.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.validation import real
from hdpstats.formulas.compiler import compile_survival
from hdpstats.inference.life_tables import bends
from hdpstats.losses import LINKS
from hdpstats.records.estimate import normal_quantile
from hdpstats.results.facts import DesignRows, HazardFacts, ModelFacts, check_identified, read_rows
from hdpstats.schema.schema import check_frame

if TYPE_CHECKING:
    from hdpstats.results.result import Result

NEARLY_NONE: Final = 1e-6
"""With less cumulative hazard in an interval the limit for none is taken where the formula would cancel."""

_BLOCK = 2**22
"""The most numbers that a gradient may hold at a time."""


class CurveWithLimits(NamedTuple):
    """A curve of each row with its limits, NaN where they were not asked for: three arrays of one shape."""

    value: FloatArray
    low: FloatArray
    high: FloatArray


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HazardCurves:
    """A hazard model at some rows: what every table and plot of hazards and survival is made from.

    Attributes
    ----------
    facts : HazardFacts
        The time axis, the link, the baseline's features ``A`` (q, e) and the causes.
    theta : (K, e + p) float64
        Coefficients by cause, the baseline's first.
    covariance : (K (e + p), K (e + p)) float64
        Their covariance, cause by cause; NaN where unknown.
    rows : DesignRows
        Where the curves are asked for.
    """

    facts: HazardFacts
    theta: FloatArray
    covariance: FloatArray
    rows: DesignRows

    @property
    def score(self) -> FloatArray:
        """The part of the linear predictors that does not depend on time, of the complete rows (m, K)."""
        own = self.theta[:, len(self.facts.baseline_names) :]
        return np.asarray(self.rows.X @ own.T + self.rows.offset[:, None])

    def hazard(self, *, alpha: float | None) -> CurveWithLimits:
        """Return hazards (n, q, K); no limits where ``alpha`` is None."""
        return self._in_blocks(_hazard, alpha)

    def survival(self, times: FloatArray, *, alpha: float | None) -> CurveWithLimits:
        """Return survival at times (n, T)."""
        return self._in_blocks(partial(_survival, at=self.facts.grid.passed(times)), alpha)

    def incidence(self, times: FloatArray, cause: int, *, alpha: float | None) -> CurveWithLimits:
        """Return the cumulative incidence of one cause at times (n, T)."""
        return self._in_blocks(partial(_incidence, at=self.facts.grid.passed(times), cause=cause), alpha)

    def _in_blocks(self, curve_of: Callable[..., CurveWithLimits], alpha: float | None) -> CurveWithLimits:
        """Evaluate a curve in blocks of rows, so that memory stays bounded."""
        if self.rows.stratum is not None:
            return self._by_stratum(self.rows.stratum, curve_of, alpha)
        z = None if alpha is None else normal_quantile(alpha)
        X, offset = self.rows.X, self.rows.offset
        step = max(_BLOCK // (self.facts.grid.intervals * max(self.theta.size, 1)), 1)
        parts = [
            curve_of(self, X[first : first + step], offset[first : first + step], z=z)
            for first in range(0, max(len(X), 1), step)
        ]
        return CurveWithLimits(*(self.rows.spread(np.concatenate(part)) for part in zip(*parts, strict=True)))

    def _by_stratum(
        self, stratum: IntArray, curve_of: Callable[..., CurveWithLimits], alpha: float | None
    ) -> CurveWithLimits:
        """Evaluate a curve with the baseline of each row's own stratum; with no row at all that of the first."""
        rows, curves = self.rows, None
        for place in np.unique(stratum).tolist() or [0]:
            here, own = stratum == place, rows.complete.copy()
            own[rows.complete] = here
            some = replace(rows, X=rows.X[here], offset=rows.offset[here], complete=own, stratum=None)
            curve = replace(self, facts=self.facts.of_stratum(place), rows=some)._in_blocks(curve_of, alpha)
            if curves is None:
                curves = curve
            for whole, part in zip(curves, curve, strict=True):
                whole[own] = part[own]
        return CurveWithLimits(*curves) if curves is not None else self._in_blocks(curve_of, alpha)


def _hazard(model: HazardCurves, X: FloatArray, offset: FloatArray, *, z: float | None) -> CurveWithLimits:
    """Return hazards (n, q, K); limits are those of the linear predictor through the link."""
    eta, inverse = _predictor(model, X, offset), LINKS[model.facts.link].inverse
    if z is None:
        return _without_limits(inverse(eta)[0])
    features = model.facts.features
    (q, e), (n, p), K = features.shape, X.shape, len(model.theta)
    half = np.empty((n, q, K))
    for k in range(K):
        own = slice(k * (e + p), (k + 1) * (e + p))
        V = model.covariance[own, own]
        baseline = np.einsum("si,ij,sj->s", features, V[:e, :e], features)
        covariates = np.einsum("ni,ij,nj->n", X, V[e:, e:], X)
        both = X @ V[e:, :e] @ features.T
        half[:, :, k] = z * np.sqrt(np.maximum(baseline + covariates[:, None] + 2.0 * both, 0.0))
    return CurveWithLimits(*(inverse(each)[0] for each in (eta, eta - half, eta + half)))


def _survival(
    model: HazardCurves, X: FloatArray, offset: FloatArray, *, at: FloatArray, z: float | None
) -> CurveWithLimits:
    r"""Return :math:`S` (n, T) at the numbers ``at`` (T,) of intervals that have passed, of which a part counts too.

    The limits are those of :math:`\log(-\log S)` (Kalbfleisch and Prentice 2002, section 1.4) and stay within 0 and 1.
    """
    parts = CurveParts.of(model, X, offset)
    log_survival = interpolated(parts.log_survival, at)
    if z is None:
        return _without_limits(np.exp(log_survival))
    gradient = -accumulate(parts.weights, model.facts.features, X, at)
    low, high = _double_log_limits(log_survival, np.sqrt(_variance(gradient, model.covariance)), z=z)
    if (at % 1.0).any():
        ends = _survival(model, X, offset, at=_ends_around(at), z=z)
        with np.errstate(divide="ignore"):
            logs = [-np.log(part) for part in (high, low, ends.high, ends.low)]
            below, above = _bent(model, -parts.log_survival, at, *logs)
        low, high = np.exp(-above), np.exp(-below)
    return CurveWithLimits(value=np.exp(log_survival), low=low, high=high)


def _ends_around(at: FloatArray) -> FloatArray:
    """Return the ends of the intervals in which times are, and of the first one, in numbers of intervals."""
    return np.unique(np.concatenate([np.floor(at), np.ceil(at), [1.0]]))


def _bent(
    model: HazardCurves,
    known: FloatArray,
    at: FloatArray,
    low: FloatArray,
    high: FloatArray,
    lowest: FloatArray,
    highest: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return limits (n, T) of what increases, wider between ends by the bend of a hazard that changes there.

    ``known`` (n, q + 1) are its values at all ends, ``lowest`` and ``highest`` its limits at `_ends_around` the times.
    """
    cuts, ends = np.array((0.0, *model.facts.grid.cuts)), _ends_around(at)
    before, after = (np.searchsorted(ends, near(at)) for near in (np.floor, np.ceil))
    with np.errstate(invalid="ignore"):
        upper = np.stack([np.zeros(len(known)), highest[:, np.searchsorted(ends, 1.0)]], axis=1)
        below, above = bends(known, upper, cuts, np.interp(at, np.arange(len(cuts)), cuts))
        inside = (at % 1.0 > 0.0) & np.isfinite(below) & np.isfinite(above)
        least, most = np.maximum(low - below, lowest[:, before]), np.minimum(high + above, highest[:, after])
    return np.where(inside, least, low), np.where(inside, most, high)


def _incidence(
    model: HazardCurves, X: FloatArray, offset: FloatArray, *, at: FloatArray, cause: int, z: float | None
) -> CurveWithLimits:
    r"""Return :math:`F_k` (n, T) of one cause at the numbers of intervals that have passed, with limits of ``1 - F``.

    With one cause, value and limits are one minus those of `survival`.
    """
    if z is None and len(model.theta) == 1:
        hazard = LINKS[model.facts.link].hazard(_predictor(model, X, offset)[:, :, 0])
        with np.errstate(divide="ignore"):
            lost = np.cumsum(np.log1p(-hazard, out=hazard), axis=1, out=hazard)
        return _without_limits(-np.expm1(interpolated(np.pad(lost, ((0, 0), (1, 0))), at)))
    parts = CurveParts.of(model, X, offset)
    incidence = parts.incidence(cause, at)
    if z is None:
        return _without_limits(incidence)
    gradient = parts.incidence_gradient(cause, at, model.facts.features, X)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.log1p(-np.minimum(incidence, 1.0))
        error = np.sqrt(_variance(gradient, model.covariance)) / (1.0 - incidence)
    below, above = _double_log_limits(rest, error, z=z)
    low, high = 1.0 - above, 1.0 - below
    if (at % 1.0).any():
        ends = _incidence(model, X, offset, at=_ends_around(at), cause=cause, z=z)
        known = parts.incidence(cause, np.arange(model.facts.grid.intervals + 1.0))
        low, high = _bent(model, known, at, low, high, ends.low, ends.high)
    return CurveWithLimits(value=incidence, low=low, high=high)


def interpolated(known: FloatArray, at: FloatArray) -> FloatArray:
    """Return what is known (n, q + 1, ...) at the ends of intervals at numbers of intervals (T,), linear in between."""
    before = np.minimum(at.astype(np.int64), known.shape[1] - 1)
    part = at - before
    if not part.any():
        return np.asarray(known[:, before])
    after = np.minimum(before + 1, known.shape[1] - 1)
    share = part.reshape(-1, *[1] * (known.ndim - 2))
    with np.errstate(invalid="ignore"):
        joined = (1.0 - share) * known[:, before] + share * known[:, after]
    return np.asarray(np.where(share > 0.0, joined, known[:, before]))


def crossing(survival: FloatArray, cuts: FloatArray, *, level: float) -> FloatArray:
    """Return when each row of survival (n, q) at the cuts (q,) reaches a level, its logarithm linear in between.

    It is infinite where a row never does, NaN where a row has a NaN.

    Examples
    --------
    >>> crossing(np.array([[0.8, 0.4], [0.9, 0.6]]), np.array([1.0, 2.0]), level=0.5).round(3).tolist()
    [1.678, inf]
    """
    S = np.pad(survival, ((0, 0), (1, 0)), constant_values=1.0)
    knots, rows = np.append(0.0, cuts), np.arange(len(S))
    below = level >= S
    after = np.maximum(below.argmax(axis=1), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        start, end = (-np.log(S[rows, place]) for place in (after - 1, after))
        part = np.where(np.isinf(end), 0.0, (-np.log(level) - start) / (end - start))
    times = np.where(below.any(axis=1), knots[after - 1] + part * np.diff(knots)[after - 1], np.inf)
    return np.where(np.isnan(survival).any(axis=1), np.nan, times)


def _without_limits(value: FloatArray) -> CurveWithLimits:
    unknown = np.full_like(value, np.nan)
    return CurveWithLimits(value=value, low=unknown, high=unknown)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CurveParts:
    """Hazards and slopes (n, q, K), ``w`` of the module's docstring (n, q, K), ``log S`` (n, q + 1) from interval 0."""

    hazard: FloatArray
    slope: FloatArray
    weights: FloatArray
    log_survival: FloatArray

    @classmethod
    def of(cls, model: HazardCurves, X: FloatArray, offset: FloatArray) -> "CurveParts":
        """Evaluate a model; separately fitted hazards that add up to 1 or more leave no one, and are without limits."""
        p, rest, slope = LINKS[model.facts.link].inverse(_predictor(model, X, offset))
        survive = np.maximum(rest[:, :, 0] - p[:, :, 1:].sum(axis=2), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            weights = np.where(survive[:, :, None] > 0.0, slope / survive[:, :, None], np.nan)
            log_survival = np.pad(np.cumsum(np.log(survive), axis=1), ((0, 0), (1, 0)))
        return cls(hazard=p, slope=slope, weights=weights, log_survival=log_survival)

    def share(self, at: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
        """Return ``rho`` (n, T), its derivative by ``-log R``, and the numbers (T,) of the intervals that go on."""
        done = np.minimum(at.astype(np.int64), self.hazard.shape[1] - 1)
        u = at - done
        with np.errstate(divide="ignore", invalid="ignore"):
            lost = self.log_survival[:, done] - self.log_survival[:, done + 1]
            part, whole = -np.expm1(-u * lost), -np.expm1(-lost)
            rho, slope = part / whole, (u * (1.0 - part) - part * (1.0 - whole) / whole) / whole
        few, all_of_them = lost < NEARLY_NONE, ~np.isfinite(lost)
        rho = np.where(all_of_them, np.sign(u), np.where(few, u, rho))
        return rho, np.where(all_of_them, 0.0, np.where(few, u * (1.0 - u) / 2.0, slope)), done

    def incidence(self, cause: int, at: FloatArray) -> FloatArray:
        """Return the incidence of a cause (n, T) at the numbers of intervals that have passed (T,)."""
        before = np.exp(self.log_survival[:, :-1])
        known = np.pad(np.cumsum(before * self.hazard[:, :, cause], axis=1), ((0, 0), (1, 0)))
        rho, _, done = self.share(at)
        return np.asarray(known[:, done] + rho * (before * self.hazard[:, :, cause])[:, done])

    def incidence_gradient(self, cause: int, at: FloatArray, features: FloatArray, X: FloatArray) -> FloatArray:
        """Return its gradient (n, T, K, e + p)."""
        before = np.exp(self.log_survival[:, :-1])
        own = before * self.hazard[:, :, cause]
        direct = before * self.slope[:, :, cause]
        rates = self.weights * np.cumsum(own, axis=1)[:, :, None]
        rates[:, :, cause] += direct
        rho, bend, done = self.share(at)
        gradient = accumulate(rates, features, X, done.astype(np.float64))
        incidence = self.incidence(cause, at)[:, :, None, None]
        gradient -= incidence * accumulate(self.weights, features, X, done.astype(np.float64))
        going = np.where((bend > 0.0)[:, :, None], (bend * own[:, done])[:, :, None] * self.weights[:, done], 0.0)
        going[:, :, cause] += rho * direct[:, done]
        baseline = going[:, :, :, None] * features[None, done, None, :]
        gradient += np.concatenate([baseline, going[:, :, :, None] * X[:, None, None, :]], axis=3)
        return gradient

    def areas(self, at: FloatArray, width: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return areas under survival (n, T), and their derivatives by predictors (n, T, q, K).

        An interval's own piece is ``S_m (1 - R^u) / (-log R)`` of its width; a predictor also moves all later pieces.
        """
        q = self.hazard.shape[1]
        u = np.clip(at[:, None] - np.arange(q), 0.0, 1.0)
        before, lost = np.exp(self.log_survival[:, :-1]), np.diff(-self.log_survival, axis=1)
        lost = np.where(np.isnan(lost), 0.0, lost)[:, None]  # after everybody has gone
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            gone = np.where(u > 0.0, -np.expm1(-u * lost), 0.0)
            mean, slope = gone / lost, (u * (1.0 - gone) - gone / lost) / lost
        few = lost < NEARLY_NONE
        mean, slope = np.where(few, u, mean), np.where(few, -(u**2) / 2.0, np.where(np.isinf(lost), 0.0, slope))
        pieces = (before * width)[:, None] * mean
        later = pieces.sum(axis=2, keepdims=True) - np.cumsum(pieces, axis=2)
        moved = (before * width)[:, None] * slope - later
        known = np.where(u[:, :, None] > 0.0, self.weights[:, None], 0.0)
        return pieces.sum(axis=2), moved[:, :, :, None] * known


def _predictor(model: HazardCurves, X: FloatArray, offset: FloatArray) -> FloatArray:
    """Return linear predictors (n, q, K)."""
    features, e = model.facts.features, len(model.facts.baseline_names)
    baseline = features @ model.theta[:, :e].T
    return np.asarray(baseline[None] + (X @ model.theta[:, e:].T + offset[:, None])[:, None])


def accumulate(weights: FloatArray, features: FloatArray, X: FloatArray, at: FloatArray) -> FloatArray:
    """Return sums over the intervals that have passed of weights times ``(A_s, x)``, shape (n, T, K, e + p).

    Of an interval of which a part has passed that part counts.
    """

    def upto(terms: FloatArray) -> FloatArray:
        wide = [(0, 0), (1, 0)] + [(0, 0)] * (terms.ndim - 2)
        return interpolated(np.pad(np.cumsum(terms, axis=1), wide), at)

    baseline = upto(weights[:, :, :, None] * features[None, :, None, :])
    slopes = upto(weights)[:, :, :, None] * X[:, None, None, :]
    return np.concatenate([baseline, slopes], axis=3)


def _variance(gradient: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return the variances (n, T) of what has a gradient (n, T, K, e + p)."""
    flat = gradient.reshape(*gradient.shape[:2], len(covariance))
    with np.errstate(invalid="ignore", over="ignore"):
        squares: FloatArray = ((flat @ covariance) * flat).sum(axis=2)
        return np.maximum(squares, 0.0)


def _double_log_limits(log_value: FloatArray, error: FloatArray, *, z: float) -> tuple[FloatArray, FloatArray]:
    """Return limits of what has a logarithm with a standard error; a value of exactly 1 is certain."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        factor = np.exp(z * error / -log_value)
        low, high = np.exp(log_value * factor), np.exp(log_value / factor)
    return np.where(log_value == 0.0, 1.0, low), np.where(log_value == 0.0, 1.0, high)


def hazard_facts(facts: ModelFacts) -> HazardFacts:
    """Return the time axis of a model, or refuse one that has none."""
    if facts.hazard is None:
        raise ArgumentError(
            f"hazards and survival belong to hazard models; this is a {facts.model} model: use predict(frame)",
            argument="model",
        )
    return facts.hazard


def open_curves(fit: "Result", frame: pd.DataFrame | None) -> HazardCurves:
    """Return the model at public rows, or at its typical covariates (zeros where none are known) without offset."""
    facts, estimate = hazard_facts(fit.facts), fit.estimate
    check_identified(estimate)
    if frame is None and facts.strata is not None:
        raise ArgumentError(
            f"every stratum of {', '.join(facts.strata)} has a baseline of its own: give a frame that says the stratum",
            argument="frame",
        )
    if frame is None:
        covariates = len(estimate.terms) // len(facts.causes) - len(facts.baseline_names)
        X = np.array([facts.typical or (0.0,) * covariates], dtype=np.float64)
        rows = DesignRows(X=X, offset=np.zeros(1), complete=np.ones(1, dtype=bool), index=pd.Index(["typical"]))
    else:
        design = compile_survival(fit.facts.formula, fit.schema)
        rows = read_rows(fit, frame, design.covariates, strata=design.strata)
        rows = replace(rows, X=rows.X[:, 1:])
    return curves_at(facts, estimate.values, rows, covariance=estimate.sampling + estimate.privacy)


def curves_at_zero(fit: "Result") -> HazardCurves:
    """Return the model where every covariate is 0."""
    opened = open_curves(fit, None)
    return replace(opened, rows=replace(opened.rows, X=np.zeros_like(opened.rows.X)))


def curves_at(
    hazard: HazardFacts, values: FloatArray, rows: DesignRows, *, covariance: FloatArray | None = None
) -> HazardCurves:
    """Return the model with coefficients (K (e + p),) at rows of covariates; without a covariance it has no limits."""
    known = np.full((values.size, values.size), np.nan) if covariance is None else covariance
    return HazardCurves(facts=hazard, theta=values.reshape(len(hazard.causes), -1), covariance=known, rows=rows)


def check_one_row(at: pd.DataFrame | None) -> None:
    """Refuse a frame of several rows where one person's covariates are meant."""
    if at is not None and len(check_frame(at, name="at")) != 1:
        raise ArgumentError(f"at must have one row, the covariates of one person, not {len(at)}", argument="at")


def read_times(times: float | Iterable[float] | None, hazard: HazardFacts) -> FloatArray:
    """Return checked times (T,), by default 0 and the end of every interval."""
    if times is None:
        return np.array((0.0, *hazard.grid.cuts))
    if isinstance(times, str | bytes):
        raise ArgumentError(f"times must be numbers, not {times!r}", argument="times")
    listed = list(times) if isinstance(times, Iterable) else [times]
    return np.array([real(time, name="times", lower=0.0, upper=hazard.grid.horizon) for time in listed])


def hazard_table(opened: HazardCurves, *, alpha: float | None) -> pd.DataFrame:
    """Return hazards by row, interval and cause, with limits where ``alpha`` is given."""
    curve = opened.hazard(alpha=alpha)
    grid, causes = opened.facts.grid, opened.facts.causes
    n, q, K = curve.value.shape
    keys = {
        "row": opened.rows.index.repeat(K * q),
        "interval": np.tile(np.arange(1, q + 1), n * K),
        "start": np.tile(grid.starts, n * K),
        "stop": np.tile(np.array(grid.cuts), n * K),
        **cause_column(causes, before=n, after=q),
    }
    turned = CurveWithLimits(*(part.transpose(0, 2, 1) for part in curve))
    return curve_table(keys, "hazard", turned, ci=alpha is not None)


def cause_column(causes: Sequence[str], *, before: int, after: int) -> dict[str, object]:
    """Return a column that names the cause where there are several."""
    return {"cause": np.tile(np.repeat(np.array(causes, dtype=object), after), before)} if len(causes) > 1 else {}


def curve_table(keys: dict[str, object], name: str, curve: CurveWithLimits, *, ci: bool) -> pd.DataFrame:
    """Return a row per value of a curve, with limits where they were asked for, after the columns ``keys``."""
    limits = {"conf_low": curve.low.ravel(), "conf_high": curve.high.ravel()} if ci else {}
    return pd.DataFrame({**keys, name: curve.value.ravel(), **limits})
