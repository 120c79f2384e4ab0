"""A hazard model over time, as tables: hazards, survival, incidence, medians; and its check on public rows."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats._base.validation import real
from hdpstats.formulas.compiler import compile_survival
from hdpstats.public.check import PublicCheck, check
from hdpstats.public.follow_up import FollowUp
from hdpstats.records.model import TimeGrid
from hdpstats.results.curves import CurveWithLimits, HazardCurves
from hdpstats.results.facts import DesignRows, Fitted, HazardFacts, ModelFacts, check_identified, read_rows
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import check_frame

TIMES: Final = 12
"""The most times at which Brier scores are computed."""
SHOWN: Final = 3
"""The most times at which calibration is tabulated."""


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


def curves_at_zero(fit: Fitted) -> HazardCurves:
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
    happened = numeric[design.event] if design.level is None else numeric[design.event] == design.level
    time, cause = _outcome(numeric[design.stop], happened, hazard.grid)
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


def _outcome(stop: FloatArray, event: FloatArray | BoolArray, grid: TimeGrid) -> tuple[FloatArray, IntArray]:
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
