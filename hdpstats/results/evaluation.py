"""How a fitted model does on private people, from one noisy table, and on public rows, when that is first asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats._base.validation import real
from hdpstats.display import Report, Reported, columns, named_values, stated
from hdpstats.formulas.compiler import compile_survival
from hdpstats.mechanisms.evaluation import EvaluationQuery, EvaluationRelease
from hdpstats.mechanisms.evaluation.estimate import (
    Measured,
    NoisyTable,
    brier,
    concordance,
    incidence,
    limits,
    measure,
    monotone,
    observed_over_expected,
)
from hdpstats.privacy.budget import Guarantee
from hdpstats.public.follow_up import FollowUp, PublicCheck, check, integrated_brier
from hdpstats.records.estimate import normal_quantile
from hdpstats.records.model import TimeGrid
from hdpstats.records.query import LedgerEntry
from hdpstats.results.facts import DesignRows, ModelFacts
from hdpstats.results.hazard_curves import HazardCurves, curves_at, hazard_facts
from hdpstats.results.plots import draw_calibration
from hdpstats.results.summary import guarantee_badges, guarantee_details, guarantee_rows, limit_headers, privacy_blocks
from hdpstats.results.tables import cost_columns
from hdpstats.schema.public import PublicTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TIMES: Final = 12
"""The most times at which Brier scores are computed."""
SHOWN: Final = 3
"""The most times at which calibration is tabulated."""
KNOWN: Final = 0.5
"""Scores of a time are shown where this share of the risk groups stands clear of its noise up to it."""
OPTIMISM = "The private records took part in the fit, which makes the model look a little better."
REPRESENTATIVE = (
    "Predictions of a risk group are those of the public people in it; ties within a group draw concordance to 1/2."
)
NOT_CLEAR = (
    "Risk groups without all their numbers (N/A): {groups}. Their counts of people{when}, some {sd:.1f} of noise in "
    "each cell, are not twice their noise{by}. Fewer groups= or a larger epsilon would show them."
)
AT_RISK, BY_LAST = " at risk", " by the last time"
"""What `NOT_CLEAR` says besides of outcomes in time."""
NEGATIVE = "Noise may make counts of the table negative; they are left as they are, so that sums have no bias."


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Evaluation(Reported):
    """Discrimination and calibration of a model on private records, with errors that count sampling and noise.

    What is computed from the release is post-processing of released and public numbers.

    Attributes
    ----------
    facts : ModelFacts
        The model that was evaluated.
    causes : tuple of str
        The causes, or the binary outcome.
    place : int
        Which of them is evaluated: `cause`.
    fitted : Guarantee or None
        What the fit of the model guarantees; None where it used public rows alone.
    predicted : (G, B) float64
        Mean predicted incidence in each group at the end of each bin.
    query, release : EvaluationQuery, EvaluationRelease
        What was asked, and what the site answered.
    guarantee : Guarantee
        What the evaluation guarantees, together with the fit unless that was of other people.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> import hdpstats.formula.api as hdpf
    >>> schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True), event=hdp.Binary(complete=True))
    >>> study = hdp.Study(
    ...     private=hdp.datasets.load_rotterdam(), public=hdp.datasets.load_gbsg(), schema=schema,
    ...     budget=hdp.Budget(epsilon=2),
    ... )
    >>> model = hdpf.logit("event ~ age", study)
    >>> evaluation = model.evaluate(model.fit_public(), epsilon=1)
    >>> 0.4 < evaluation.concordance < 0.5, evaluation.in_sample
    (True, False)
    """

    facts: ModelFacts
    causes: tuple[str, ...]
    place: int
    fitted: Guarantee | None
    predicted: FloatArray
    query: EvaluationQuery
    release: EvaluationRelease
    guarantee: Guarantee

    @property
    def in_sample(self) -> bool:
        """Whether the model was fitted to private records that these may be."""
        return self.fitted is not None and self.guarantee.parts is not None

    @property
    def cause(self) -> str:
        """The cause, or the binary outcome."""
        return self.causes[self.place]

    @cached_property
    def _noisy(self) -> NoisyTable:
        return NoisyTable.of(self.query, self.release)

    @cached_property
    def _order(self) -> Measured:
        return measure(self._noisy, partial(concordance, cause=self.place))

    @property
    def concordance(self) -> float:
        """Concordance between risk groups."""
        return float(self._order.value)

    @property
    def concordance_error(self) -> float:
        """Its standard error."""
        return float(self._order.std_error)

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Scores by time: time (for survival), brier, std_error, reference, ratio, ratio_error.

        The reference is the score of one curve for everybody, the ratio that of observed over expected incidence. NaN
        where what is left is not clear of the noise.
        """
        noisy, k = self._noisy, self.place
        known = noisy.is_clear.mean(axis=0) >= KNOWN
        score = measure(noisy, partial(brier, predicted=self.predicted, cause=k))
        one = np.broadcast_to(monotone(incidence(noisy.cells.pooled, k)), self.predicted.shape)
        ratio = measure(noisy, partial(observed_over_expected, predicted=self.predicted, cause=k))
        columns = {
            "brier": score.value,
            "std_error": score.std_error,
            "reference": brier(noisy.cells, one, k),
            "ratio": ratio.value,
            "ratio_error": ratio.std_error,
        }
        times = times_of(self.query)
        frame = pd.DataFrame({name: np.where(known, values, np.nan) for name, values in columns.items()})
        if times is not None:
            frame.insert(0, "time", times)
        return frame

    @cached_property
    def groups(self) -> pd.DataFrame:
        """Calibration: time (for survival), group (1: lowest risk), rows (noisy), predicted, observed, std_error.

        NaN where a group's counts are not clear of the noise.
        """
        noisy, predicted, times = self._noisy, self.predicted, times_of(self.query)
        observed, size = measure(noisy, partial(incidence, cause=self.place)), noisy.cells.size
        places, groups = spread_out(predicted.shape[1], SHOWN), len(predicted)
        when = {} if times is None else {"time": np.repeat(times[places], groups)}
        return pd.DataFrame(
            {
                **when,
                "group": np.tile(np.arange(1, groups + 1), len(places)),
                "rows": np.tile(np.rint(size).astype(np.int64), len(places)),
                "predicted": predicted[:, places].T.ravel(),
                "observed": np.where(noisy.is_clear, monotone(observed.value), np.nan)[:, places].T.ravel(),
                "std_error": np.where(noisy.is_clear, observed.std_error, np.nan)[:, places].T.ravel(),
            }
        )

    @property
    def table(self) -> pd.DataFrame:
        """The noisy counts as released, with what they count: group, outcome, after and until for survival, count."""
        times = times_of(self.query)
        if times is None:
            names: list[tuple[object, ...]] = [("0",), ("1",)]
        else:
            after, until = [0.0, *times.tolist()], [*times.tolist(), float(times[-1])]
            names = [(cause, a, b) for cause in self.causes for a, b in zip(after, times.tolist(), strict=False)]
            names += [("censored" if a < b else "horizon", a, b) for a, b in zip(after, until, strict=True)]
        rows = [(group, *name) for group in range(1, self.query.groups + 1) for name in names]
        headers = ["group", "outcome", *([] if times is None else ["after", "until"])]
        return pd.DataFrame(rows, columns=headers).assign(count=list(self.release.counts))

    @property
    def ledger_entry(self) -> LedgerEntry | None:
        """Where the custodian's ledger keeps the release."""
        return self.release.entry

    def calibration(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return `groups` with limits of level ``1 - alpha`` of the observed incidence: conf_low, conf_high."""
        level = real(alpha, name="alpha", lower=0.001, upper=0.999)
        observed, error = (self.groups[name].to_numpy(dtype=float) for name in ("observed", "std_error"))
        low, high = limits(observed, error, alpha=level)
        return self.groups.assign(conf_low=low, conf_high=high)

    def tidy(self, conf_level: float = 0.95) -> pd.DataFrame:
        """Return a row per measure: measure, time (for survival), estimate, std_error, conf_low, conf_high.

        Measures are concordance, which has no time, and at each time brier, and observed_over_expected where it is
        known; limits are those of the normal distribution, of a level in [0.001, 0.999].
        """
        z = normal_quantile(1.0 - real(conf_level, name="conf_level", lower=0.001, upper=0.999))
        scores, place = self.scores, ["time"] if "time" in self.scores else []
        order = {"measure": ["concordance"], "estimate": [self.concordance], "std_error": [self.concordance_error]}
        brier = scores[[*place, "brier", "std_error"]].rename(columns={"brier": "estimate"})
        ratio = scores[[*place, "ratio", "ratio_error"]].rename(
            columns={"ratio": "estimate", "ratio_error": "std_error"}
        )
        parts = [pd.DataFrame(order), brier.assign(measure="brier"), ratio.assign(measure="observed_over_expected")]
        found = pd.concat(parts, ignore_index=True)[["measure", *place, "estimate", "std_error"]]
        half = z * found["std_error"]
        return found.assign(conf_low=found["estimate"] - half, conf_high=found["estimate"] + half)

    def glance(self) -> pd.DataFrame:
        """Return one row: model, outcome, concordance, concordance_error, groups (of risk), epsilon, delta."""
        return pd.DataFrame(
            {
                "model": [self.facts.model],
                "outcome": [self.cause],
                "concordance": [self.concordance],
                "concordance_error": [self.concordance_error],
                "groups": [self.query.groups],
                **cost_columns(self.guarantee),
            }
        )

    def plot_calibration(self, ax: "Axes | None" = None) -> "Axes":
        """Draw observed against predicted incidence in risk groups with 95 % limits, one line per time."""
        of = f" of {self.cause}" if self.query.causes > 1 else ""
        return draw_calibration(self.calibration(), facts=self.facts, of=of, source="private rows", ax=ax)

    def _report(self, alpha: float = 0.05) -> Report:
        title = f"{self.facts.model} evaluated on private records"
        model = [("Model:", self.facts.model), ("Formula:", self.facts.formula), ("Outcome:", self.cause)]
        findings, calibration, given = self._findings(), self._last_calibration(alpha), [self.release]
        return Report(
            title=f"{title}, differentially private",
            heading=title,
            blocks=[
                named_values(model, only="text"),
                named_values(findings, only="text"),
                named_values([*model, *findings], only="page"),
                columns(*calibration, title="Calibration"),
                *privacy_blocks(guarantee_rows(self.guarantee, given), self.guarantee, given),
            ],
            notes=[*self._notes_on_fit(), REPRESENTATIVE, NEGATIVE, *self._not_clear()],
            badges=guarantee_badges(self.guarantee),
            ending=guarantee_details(self.guarantee),
        )

    def _not_clear(self) -> list[str]:
        """Say which groups have no numbers, and why; nothing where all have them."""
        unknown = np.flatnonzero(~self._noisy.is_clear[:, -1])
        if not len(unknown):
            return []
        groups = ", ".join(str(group + 1) for group in unknown)
        when, by = ("", "") if self.query.grid is None else (AT_RISK, BY_LAST)
        return [NOT_CLEAR.format(groups=groups, sd=self._noisy.noise_variance**0.5, when=when, by=by)]

    def _notes_on_fit(self) -> list[str]:
        """Say what it means that the model was fitted to private records; nothing where it was not."""
        if self.fitted is None:
            return []
        if self.guarantee.parts:
            return [OPTIMISM]
        of = f"{self.fitted} ({self.fitted.relation.value})"
        return [f"The model was fitted to private records of other people, who are guaranteed {of} by that fit."]

    def _findings(self) -> list[tuple[str, str]]:
        groups = self.query.groups
        rows = [
            ("Concordance:", f"{_with_error(self.concordance, self.concordance_error)} between {groups} risk groups")
        ]
        known = self.scores.dropna(subset=["brier"])
        if known.empty:
            return [*rows, ("Brier score:", "not clear of the noise")]
        last = known.iloc[-1]
        if "time" in known:
            times = known["time"].to_numpy(dtype=float)
            score, until = integrated_brier(times, known["brier"].to_numpy(dtype=float))
            reference, _ = integrated_brier(times, known["reference"].to_numpy(dtype=float))
            rows.append(
                ("Brier score:", f"{score:.3f} on average up to {self._at(until)}; {reference:.3f} for one curve")
            )
        else:
            error = float(last["std_error"])
            rows.append(("Brier score:", f"{_with_error(last['brier'], error)}; {last['reference']:.3f} for one share"))
        when = f" by {self._at(float(last['time']))}" if "time" in known else ""
        return [*rows, ("Observed / expected:", f"{_with_error(last['ratio'], last['ratio_error'])}{when}")]

    def _last_calibration(self, alpha: float) -> tuple[list[str], list[str], list[list[str]]]:
        """Return the headers, the names of the rows and the cells of the calibration at the last time."""
        shown = self.calibration(alpha)
        if "time" in shown:
            shown = shown[shown["time"] == shown["time"].max()]
        names = ("predicted", "observed", "std_error", "conf_low", "conf_high")
        rows = [
            [str(row["rows"]), *(stated(float(row[name]), 3) for name in names)] for row in shown.to_dict("records")
        ]
        headers = ["people", "predicted", "observed", "std err", *limit_headers(alpha)]
        return headers, [f"risk group {group}" for group in shown["group"]], rows

    def _at(self, time: float) -> str:
        unit = self.facts.hazard.unit_of_time if self.facts.hazard is not None else None
        return f"{time:.6g} {unit}" if unit else f"{time:.6g}"

    def __repr__(self) -> str:
        return f"<evaluation of {self.facts.model}: concordance {self.concordance:.3f}, {self.guarantee}>"


def _with_error(value: float, error: float) -> str:
    return f"{value:.3f} (standard error {error:.3f})" if np.isfinite(value) else "not clear of the noise"


def times_of(query: EvaluationQuery) -> FloatArray | None:
    """Return where bins of time end (B,), or None for a binary outcome."""
    return None if query.grid is None else np.array(query.grid.cuts)[np.array(query.ends) - 1]


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
