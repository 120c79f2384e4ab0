"""How a fitted model does on private people: tables, plots and text made from one noisy table."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
import pandas as pd

from hdpstats._base.validation import real
from hdpstats.display import EscapedSummary, grid, notes, number, page, pairs, section, summary, table
from hdpstats.mechanisms.evaluation.estimate import limits
from hdpstats.mechanisms.evaluation.query import EvaluationQuery, EvaluationRelease
from hdpstats.privacy.guarantee import Guarantee
from hdpstats.public.discrimination import integrated_brier
from hdpstats.records.query import LedgerEntry
from hdpstats.results.facts import ModelFacts
from hdpstats.results.page import plain, promise, signs
from hdpstats.results.summary import promise_rows
from hdpstats.results.survival_plots import draw_calibration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OPTIMISM = "The private records took part in the fit, which flatters the model a little."
REPRESENTATIVE = (
    "Predictions of a risk group are those of the public people in it; ties within a group draw concordance to 1/2."
)
NEGATIVE = "Noise may make counts of the table negative; they are left as they are, so that sums have no bias."


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Evaluation:
    """Discrimination and calibration of a model on private records, with errors that count sampling and noise.

    Attributes
    ----------
    facts : ModelFacts
        The model that was evaluated.
    cause : str
        The cause, or the binary outcome.
    in_sample : bool
        Whether the model was fitted to private records, of which these may be.
    concordance, concordance_error : float
        Concordance between risk groups and its standard error.
    scores : DataFrame
        Columns time (for survival), brier, std_error, reference (of one curve for everybody), ratio (observed over
        expected incidence), ratio_error. NaN where noise drowns what is left.
    groups : DataFrame
        Columns time (for survival), group (1 has the lowest risk), rows (noisy), predicted, observed, std_error.
    table : DataFrame
        The noisy counts as released: group, then cause, after and until for survival (censorings have no cause), or
        outcome; count.
    query, release, guarantee
        What was asked, what the site answered, what it promises.
    """

    facts: ModelFacts
    cause: str
    in_sample: bool
    concordance: float
    concordance_error: float
    scores: pd.DataFrame
    groups: pd.DataFrame
    table: pd.DataFrame
    query: EvaluationQuery
    release: EvaluationRelease
    guarantee: Guarantee

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

    def plot_calibration(self, ax: "Axes | None" = None) -> "Axes":
        """Draw observed against predicted incidence in risk groups with 95 % limits, one line per time."""
        of = f" of {self.cause}" if self.query.causes > 1 else ""
        return draw_calibration(self.calibration(), facts=self.facts, of=of, source="private rows", ax=ax)

    def summary(self, alpha: float = 0.05) -> EscapedSummary:
        """Return the results, the calibration at the last time, and the privacy block, as statsmodels' `Summary`."""
        headers, stubs, rows = self._last_calibration(alpha)
        tables = [
            pairs(self._evaluated()),
            pairs(self._findings()),
            table(rows, headers=headers, stubs=stubs),
            pairs(promise_rows(self.guarantee, [self.release])),
        ]
        title = f"{self.facts.model} evaluated on private records, differentially private"
        return summary(title, tables, self._notes())

    def _evaluated(self) -> list[tuple[str, str]]:
        return [("Model:", self.facts.model), ("Formula:", self.facts.formula), ("Outcome:", self.cause)]

    def _notes(self) -> list[str]:
        return [*([OPTIMISM] if self.in_sample else []), REPRESENTATIVE, NEGATIVE]

    def _findings(self) -> list[tuple[str, str]]:
        groups = self.query.groups
        rows = [
            ("Concordance:", f"{_with_error(self.concordance, self.concordance_error)} between {groups} risk groups")
        ]
        known = self.scores.dropna(subset=["brier"])
        if known.empty:
            return [*rows, ("Brier score:", "drowned by the noise")]
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
            [str(row["rows"]), *(number(float(row[name]), 3) for name in names)] for row in shown.to_dict("records")
        ]
        headers = ["people", "predicted", "observed", "std err", f"[{alpha / 2:.6g}", f"{1 - alpha / 2:.6g}]"]
        return headers, [f"risk group {group}" for group in shown["group"]], rows

    def _at(self, time: float) -> str:
        unit = self.facts.hazard.unit_of_time if self.facts.hazard is not None else None
        return f"{time:.6g} {unit}" if unit else f"{time:.6g}"

    def __str__(self) -> str:
        return str(self.summary().as_text())

    def __repr__(self) -> str:
        return f"<evaluation of {self.facts.model}: concordance {self.concordance:.3f}, {self.guarantee}>"

    def _repr_html_(self) -> str:
        headers, stubs, rows = self._last_calibration(0.05)
        cells = [[stub, *row] for stub, row in zip(stubs, rows, strict=True)]
        return page(
            f"{self.facts.model} evaluated on private records",
            plain([*self._evaluated(), *self._findings()]),
            section("Calibration", grid(["", *headers], cells, aligns="lr")),
            section("Privacy", plain(promise_rows(self.guarantee, [self.release]))),
            notes(self._notes()),
            promise(self.guarantee),
            badges=signs(self.guarantee),
        )


def _with_error(value: float, error: float) -> str:
    return f"{value:.3f} (standard error {error:.3f})" if np.isfinite(value) else "drowned by the noise"
