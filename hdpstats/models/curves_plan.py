"""What survival curves would find at each epsilon: predicted standard errors, and what is left of a test's power."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import pandas as pd

from hdpstats.display import Report, Reported, columns
from hdpstats.inference.log_rank import noisy_score
from hdpstats.mechanisms.description import DescriptionQuery
from hdpstats.mechanisms.description.moments import is_known, life_tables
from hdpstats.models.description_plan import assumption_of, planned_numbers
from hdpstats.results.description_tables import frame_of, group_labels
from hdpstats.results.survival_curves import HALVES
from hdpstats.sites import Study


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class CurvesPlan(Reported):
    """Predicted standard errors of survival curves. Nothing was spent and no private row was read.

    Attributes
    ----------
    frame : DataFrame
        Columns ``epsilon, group, time, expected, std_error, noise`` (the part of the standard error that is noise),
        ``suppressed`` (whether N/A would be shown).
    tests : DataFrame
        Columns ``epsilon, intervals, noise_sd`` (of each count), ``information`` (the share of the log-rank test's
        information that noise leaves; NaN with one group).
    records : int
        The number of private people planned for.
    formula : str
        What would be asked for.
    assumption : str
        What the prediction rests on.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> import hdpstats.formula.api as hdpf
    >>> schema = hdp.Schema(time=hdp.Duration(2557, unit="days"), event=hdp.Binary(), hormon=hdp.Binary())
    >>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
    >>> plan = hdpf.survfit("Surv(time, event) ~ hormon", study, times=[365, 1826]).plan(epsilon=1, n=5000)
    >>> plan.tests["information"].round(2).tolist()
    [0.98]
    """

    frame: pd.DataFrame
    tests: pd.DataFrame
    records: int
    formula: str
    assumption: str

    def _report(self, alpha: float = 0.05) -> Report:  # noqa: ARG002
        frame, blocks = self.frame, []
        tests = [
            [f"{row['intervals']:.0f}", f"{row['noise_sd']:.1f}", _share(row["information"])]
            for row in self.tests.to_dict("records")
        ]
        names = [f"epsilon = {epsilon:.3g}" for epsilon in self.tests["epsilon"]]
        blocks.append(columns(["intervals", "noise SD of a count", "log-rank information kept"], names, tests))
        last = frame.groupby(["epsilon", "group"], sort=False, dropna=False).tail(1)
        rows = [
            [
                f"{row['expected']:.3f}",
                *(["N/A"] * 2 if row["suppressed"] else [f"{row[k]:.4f}" for k in ("std_error", "noise")]),
            ]
            for row in last.to_dict("records")
        ]
        stubs = [f"epsilon = {row['epsilon']:.3g} {row['group'] or ''}".strip() for row in last.to_dict("records")]
        end = f"{frame['time'].max():g}"
        blocks.append(columns([f"survival at {end}", "std error", "of it noise"], stubs, rows))
        return Report(
            title=f"Predicted standard errors of {self.formula}, {self.records} private people; nothing is spent",
            heading="Predicted standard errors",
            blocks=blocks,
            notes=[self.assumption],
            badges=["nothing is spent", f"{self.records} private people"],
        )

    def __repr__(self) -> str:
        return str(self)


def _share(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.0%}"


def plan_curves(
    study: Study, queries: Mapping[float, DescriptionQuery], people: Mapping[str, int], *, formula: str, recorded: str
) -> CurvesPlan:
    """Return the plan of curves that would be asked for, by epsilon."""
    records, rows, tests = sum(people.values()), [], []
    for epsilon, query in queries.items():
        numbers = planned_numbers(study, dict.fromkeys(people, query), people)
        tables, asked = life_tables(numbers, half=HALVES[recorded]), query.follow_up
        if asked is None:
            continue
        for label, table in zip(group_labels(query.grouping, study.schema), tables, strict=True):
            S, hidden = np.exp(-table.cumulated[1:]), ~table.stated[1:] | (not is_known(table, asked))
            total = np.sqrt(np.diag(table.cumulated_covariance))[1:] * S
            noise = np.sqrt(np.diag(table.cumulated_noise))[1:] * S
            rows += [
                (label, epsilon, *each)
                for each in zip(
                    asked.ends, S, np.where(hidden, np.nan, total), noise, hidden.astype(float), strict=True
                )
            ]
        information = np.nan
        if len(tables) > 1:
            score = noisy_score([tables])
            kept = np.diag(score.sampling) / np.maximum(np.diag(score.variance), 1e-12)
            information = float(kept.mean())
        tests.append((epsilon, float(len(asked.ends)), float(numbers.sds[2]), information))
    names = ("epsilon", "time", "expected", "std_error", "noise", "suppressed")
    frame = frame_of(rows, texts=("group",), numbers=names)
    frame = frame.assign(suppressed=frame["suppressed"] > 0)
    return CurvesPlan(
        frame=frame[["epsilon", "group", *names[1:]]],
        tests=pd.DataFrame(tests, columns=["epsilon", "intervals", "noise_sd", "information"]),
        records=records,
        formula=formula,
        assumption=assumption_of(study),
    )
