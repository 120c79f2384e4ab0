"""A hazard model over time, as tables: hazards, survival, incidence, medians; and its check on public rows."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.validation import real
from hdpstats.formulas.compiler import compile_survival
from hdpstats.public.check import PublicCheck, check
from hdpstats.public.follow_up import FollowUp
from hdpstats.records.timegrid import TimeGrid
from hdpstats.results import curves
from hdpstats.results.curves import Coefficients, CurveWithLimits
from hdpstats.results.facts import HazardFacts, ModelFacts
from hdpstats.results.fitted import DesignRows, Fitted, check_identified, read_rows
from hdpstats.results.tables import normal_quantile
from hdpstats.schema.public import PublicTable
from hdpstats.schema.table import check_frame

_BLOCK = 2**22
"""The most numbers that a gradient may hold at a time."""
TIMES: Final = 12
"""The most times at which Brier scores are computed."""
SHOWN: Final = 3
"""The most times at which calibration is tabulated."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HazardCurves:
    """A hazard model at some rows: what every table and plot of this module is made from.

    Attributes
    ----------
    facts : HazardFacts
        The time axis and the causes.
    model : Coefficients
        The coefficients by cause.
    rows : DesignRows
        Where the curves are asked for.
    """

    facts: HazardFacts
    model: Coefficients
    rows: DesignRows

    @property
    def score(self) -> FloatArray:
        """The part of the linear predictors that does not depend on time, of the complete rows (m, K)."""
        own = self.model.theta[:, self.model.features.shape[1] :]
        return np.asarray(self.rows.X @ own.T + self.rows.offset[:, None])

    def hazard(self, *, alpha: float | None) -> CurveWithLimits:
        """Return hazards (n, q, K); no limits where ``alpha`` is None."""
        return self._of(curves.hazard, alpha)

    def survival(self, times: FloatArray, *, alpha: float | None) -> CurveWithLimits:
        """Return survival at times (n, T)."""
        return self._of(partial(curves.survival, places=self._completed(times)), alpha)

    def incidence(self, times: FloatArray, cause: int, *, alpha: float | None) -> CurveWithLimits:
        """Return the cumulative incidence of one cause at times (n, T)."""
        return self._of(partial(curves.incidence, places=self._completed(times), cause=cause), alpha)

    def _completed(self, times: FloatArray) -> IntArray:
        """Return how many intervals have ended at each time."""
        return np.searchsorted(np.array(self.facts.grid.cuts), times, side="right").astype(np.int64)

    def _of(self, curve_of: Callable[..., CurveWithLimits], alpha: float | None) -> CurveWithLimits:
        """Evaluate a curve in blocks of rows, so that memory stays bounded."""
        z = None if alpha is None else normal_quantile(alpha)
        X, offset = self.rows.X, self.rows.offset
        step = max(_BLOCK // (self.facts.grid.intervals * max(self.model.theta.size, 1)), 1)
        parts = [
            curve_of(self.model, X[first : first + step], offset[first : first + step], z=z)
            for first in range(0, max(len(X), 1), step)
        ]
        return CurveWithLimits(*(self.rows.spread(np.concatenate(part)) for part in zip(*parts, strict=True)))


def _at(fit: Fitted, rows: DesignRows) -> HazardCurves:
    """Return a fitted model at rows of covariates."""
    values = np.asarray(fit.estimate.params.to_numpy(), dtype=np.float64)
    covariance = fit.estimate.sampling + fit.estimate.privacy
    return curves_at(hazard_facts(fit.facts), values, rows, covariance=covariance)


def hazard_facts(facts: ModelFacts) -> HazardFacts:
    """Return the time axis of a model, or refuse one that has none."""
    if facts.hazard is None:
        raise ArgumentError(
            f"hazards and survival belong to hazard models; this is a {facts.model} model: use predict(frame)",
            argument="model",
        )
    return facts.hazard


def open_curves(fit: Fitted, frame: pd.DataFrame | None) -> HazardCurves:
    """Return the model at public rows, or at its typical covariates (zeros where none are known) without offset."""
    facts = hazard_facts(fit.facts)
    check_identified(fit.estimate)
    design = compile_survival(fit.facts.formula, fit.schema)
    if frame is None:
        return _at(fit, _one_row(facts.typical or (0.0,) * len(design.names)))
    rows = read_rows(fit, frame, design.covariates)
    return _at(fit, DesignRows(X=rows.X[:, 1:], offset=rows.offset, complete=rows.complete, index=rows.index))


def curves_at(
    hazard: HazardFacts, values: FloatArray, rows: DesignRows, *, covariance: FloatArray | None = None
) -> HazardCurves:
    """Return the model with coefficients (K (e + p),) at rows of covariates; without a covariance it has no limits."""
    model = Coefficients(
        link=hazard.link,
        features=hazard.features,
        theta=values.reshape(len(hazard.causes), -1),
        covariance=np.full((values.size, values.size), np.nan) if covariance is None else covariance,
    )
    return HazardCurves(facts=hazard, model=model, rows=rows)


def _one_row(values: Sequence[float]) -> DesignRows:
    X = np.array(values, dtype=np.float64)[None, :]
    return DesignRows(X=X, offset=np.zeros(1), complete=np.ones(1, dtype=bool), index=pd.Index(["typical"]))


def baseline_hazard(fit: Fitted, at: pd.DataFrame | None, *, alpha: float) -> pd.DataFrame:
    """Return the hazard of each interval at one row; see `hdpstats.results.Result.baseline_hazard`."""
    check_one_row(at)
    if at is None:
        facts = hazard_facts(fit.facts)
        check_identified(fit.estimate)
        zeros = (0.0,) * (len(fit.estimate.terms) // len(facts.causes) - len(facts.baseline_names))
        opened = _at(fit, _one_row(zeros))
    else:
        opened = open_curves(fit, at)
    return _hazard_table(opened, alpha=alpha).drop(columns="row")


def predict_hazard(fit: Fitted, frame: pd.DataFrame, *, ci: bool, alpha: float) -> pd.DataFrame:
    """Return hazards by row and interval; see `hdpstats.results.Result.predict_hazard`."""
    return _hazard_table(open_curves(fit, frame), alpha=alpha if ci else None)


def predict_survival(
    fit: Fitted, frame: pd.DataFrame, times: float | Iterable[float] | None, *, ci: bool, alpha: float
) -> pd.DataFrame:
    """Return survival by row and time; see `hdpstats.results.Result.predict_survival`."""
    opened = open_curves(fit, frame)
    at = read_times(times, opened.facts)
    curve = opened.survival(at, alpha=alpha if ci else None)
    n, T = curve.value.shape
    return _table({"row": opened.rows.index.repeat(T), "time": np.tile(at, n)}, "survival", curve, ci=ci)


def predict_incidence(
    fit: Fitted, frame: pd.DataFrame, times: float | Iterable[float] | None, *, ci: bool, alpha: float
) -> pd.DataFrame:
    """Return cumulative incidence by row, cause and time; see `hdpstats.results.Result.predict_incidence`."""
    opened = open_curves(fit, frame)
    at = read_times(times, opened.facts)
    causes = opened.facts.causes
    found = [opened.incidence(at, k, alpha=alpha if ci else None) for k in range(len(causes))]
    curve = CurveWithLimits(*(np.stack(part, axis=1) for part in zip(*found, strict=True)))
    n, K, T = curve.value.shape
    keys = {
        "row": opened.rows.index.repeat(K * T),
        **_cause_column(causes, before=n, after=T),
        "time": np.tile(at, n * K),
    }
    return _table(keys, "incidence", curve, ci=ci)


def predict_median(fit: Fitted, frame: pd.DataFrame, *, alpha: float) -> pd.DataFrame:
    """Return median survival times; see `hdpstats.results.Result.predict_median`."""
    opened = open_curves(fit, frame)
    cuts = np.array(opened.facts.grid.cuts)
    curve = opened.survival(cuts, alpha=alpha)
    value, low, high = (curves.crossing(part, cuts, level=0.5) for part in curve)
    return pd.DataFrame({"median": value, "conf_low": low, "conf_high": high}, index=opened.rows.index)


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


def _hazard_table(opened: HazardCurves, *, alpha: float | None) -> pd.DataFrame:
    curve = opened.hazard(alpha=alpha)
    grid, causes = opened.facts.grid, opened.facts.causes
    n, q, K = curve.value.shape
    keys = {
        "row": opened.rows.index.repeat(K * q),
        "interval": np.tile(np.arange(1, q + 1), n * K),
        "start": np.tile(grid.starts, n * K),
        "stop": np.tile(np.array(grid.cuts), n * K),
        **_cause_column(causes, before=n, after=q),
    }
    turned = CurveWithLimits(*(part.transpose(0, 2, 1) for part in curve))
    return _table(keys, "hazard", turned, ci=alpha is not None)


def _cause_column(causes: Sequence[str], *, before: int, after: int) -> dict[str, object]:
    """Return a column that names the cause where there are several."""
    return {"cause": np.tile(np.repeat(np.array(causes, dtype=object), after), before)} if len(causes) > 1 else {}


def _table(keys: dict[str, object], name: str, curve: CurveWithLimits, *, ci: bool) -> pd.DataFrame:
    limits = {"conf_low": curve.low.ravel(), "conf_high": curve.high.ravel()} if ci else {}
    return pd.DataFrame({**keys, name: curve.value.ravel(), **limits})


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DeferredCheck:
    """A check on public rows that is computed when it is first asked for, as most fits never show it.

    A copy has what was found, and no way back to the rows.

    Attributes
    ----------
    compute : callable
        Returns the check, or None where there is none.
    """

    compute: Callable[[], PublicCheck | None]

    @cached_property
    def found(self) -> PublicCheck | None:
        """The check."""
        return self.compute()

    @classmethod
    def of(cls, check: PublicCheck | None) -> "DeferredCheck":
        """Return what gives a known check."""
        return cls(compute=lambda: check)

    def to_dict(self) -> dict[str, Any]:
        """Return the check as JSON values."""
        return {"check": None if self.found is None else self.found.to_dict()}

    @classmethod
    def from_dict(cls, entries: dict[str, Any]) -> "DeferredCheck":
        """Read what `to_dict` wrote."""
        return cls.of(None if entries["check"] is None else PublicCheck.from_dict(entries["check"]))

    def __reduce__(self) -> tuple[Any, ...]:
        return DeferredCheck.of, (self.found,)


NOT_CHECKED: Final = DeferredCheck.of(None)


def check_public(*, facts: ModelFacts, values: FloatArray, public: PublicTable) -> PublicCheck | None:
    """Return how a hazard model does on complete public rows with outcomes.

    Concordance compares the linear predictor of the covariates with the times. Brier scores and calibration compare
    predicted incidence at up to 12 and 3 ends of intervals; they are left out where the formula has entry times, since
    covariates may then change and no curve belongs to a row. Times beyond the horizon are censored there. Rows whose
    follow-up ends before it begins play no part.

    Parameters
    ----------
    facts : ModelFacts
        Facts of a hazard model.
    values : (K (e + p),) float64
        The coefficients to check, in the order of an estimate's terms.
    public : PublicTable
        Public rows.

    Returns
    -------
    PublicCheck or None
        None where the rows have no outcome, none is complete, or a coefficient is not identified.
    """
    hazard = hazard_facts(facts)
    design = compile_survival(facts.formula, public.schema)
    extra = [name for name in (facts.weights, facts.offset) if name is not None]
    needs = [*design.needs, *extra]
    if np.isnan(values).any() or not set(needs) <= set(public.names):
        return None
    table = public.raw(needs)
    X = design.covariates.evaluate_unclipped(table)[:, 1:]
    offset = table.numeric[facts.offset] if facts.offset else np.zeros(len(X))
    numeric = {**table.numeric, **{name: codes.astype(np.float64) for name, codes in table.codes.items()}}
    time, cause = _outcome(numeric[design.stop], numeric[design.event], hazard.grid)
    entry = None if design.start is None else np.maximum(numeric[design.start], 0.0)
    weights = numeric[facts.weights] if facts.weights else None
    keep = np.ones(len(X), dtype=bool) if entry is None else entry < time
    keep &= True if weights is None else weights > 0.0
    if not keep.any():
        return None
    rows = FollowUp(
        time=time, cause=cause, causes=len(hazard.causes), entry=entry, weights=weights, person=table.persons
    )
    at = DesignRows(X=X[keep], offset=offset[keep], complete=keep[keep], index=pd.RangeIndex(int(keep.sum())))
    return _compare(curves_at(hazard, values, at), rows.take(keep), plain=entry is None)


def _outcome(stop: FloatArray, event: FloatArray, grid: TimeGrid) -> tuple[FloatArray, IntArray]:
    """Return times and causes up to the horizon, where all who are left are censored."""
    cause = np.where(stop > grid.horizon, 0, event).astype(np.int64)
    return np.clip(stop, 0.0, grid.horizon), cause


def _compare(opened: HazardCurves, rows: FollowUp, *, plain: bool) -> PublicCheck:
    """Check the curves of rows; only how their linear predictors order the events where ``plain`` is false."""
    places = spread_out(opened.facts.grid.intervals, TIMES) if plain else np.zeros(0, dtype=np.int64)
    times = np.array(opened.facts.grid.cuts)[places]
    causes = opened.facts.causes
    return check(
        rows,
        opened.score,
        causes=causes,
        times=times,
        incidence=np.stack([opened.incidence(times, k, alpha=None).value for k in range(len(causes))], axis=2),
        shown=spread_out(len(times), SHOWN).tolist(),
    )


def spread_out(size: int, most: int) -> IntArray:
    """Return up to ``most`` of the places 0 to ``size - 1``, evenly, with the last."""
    count = min(most, size)
    return np.array([-(-size * number // count) - 1 for number in range(1, count + 1)], dtype=np.int64)
