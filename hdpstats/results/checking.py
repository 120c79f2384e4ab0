"""A survival model on the public rows of its fit: discrimination, accuracy and calibration."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.formulas.compiler import compile_survival
from hdpstats.public.check import PublicCheck, check
from hdpstats.public.follow_up import FollowUp
from hdpstats.records.timegrid import TimeGrid
from hdpstats.results.facts import ModelFacts
from hdpstats.results.fitted import DesignRows
from hdpstats.results.survival import HazardCurves, curves_at, hazard_facts
from hdpstats.schema.public import PublicTable

TIMES: Final = 12
"""The most times at which Brier scores are computed."""
SHOWN: Final = 3
"""The most times at which calibration is tabulated."""


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


def _compare(curves: HazardCurves, rows: FollowUp, *, plain: bool) -> PublicCheck:
    """Check the curves of rows; only how their linear predictors order the events where ``plain`` is false."""
    places = spread_out(curves.facts.grid.intervals, TIMES) if plain else np.zeros(0, dtype=np.int64)
    times = np.array(curves.facts.grid.cuts)[places]
    causes = curves.facts.causes
    return check(
        rows,
        curves.score,
        causes=causes,
        times=times,
        incidence=np.stack([curves.incidence(times, k, alpha=None).value for k in range(len(causes))], axis=2),
        shown=spread_out(len(times), SHOWN).tolist(),
    )


def spread_out(size: int, most: int) -> IntArray:
    """Return up to ``most`` of the places 0 to ``size - 1``, evenly, with the last."""
    count = min(most, size)
    return np.array([-(-size * number // count) - 1 for number in range(1, count + 1)], dtype=np.int64)
