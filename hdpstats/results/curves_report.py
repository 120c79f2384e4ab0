"""What survival curves show of themselves: medians, restricted means, the test, the guarantee."""

from typing import TYPE_CHECKING

import numpy as np

from hdpstats.display import Block, Report, columns, named_values, p_value
from hdpstats.results.summary import guarantee_badges, guarantee_details, guarantee_rows

if TYPE_CHECKING:
    from hdpstats.results.survival_curves import SurvivalCurves

SUPPRESSED = "N/A: too few people for the noise, so that the number would say nothing."
COMPLETE = "Curves are of people who are complete in {columns} too, as the description is."
STATED = (
    "Curves are stated at the ends of {intervals} public intervals; limits hold at each end by itself and count "
    "sampling and privacy noise. In between nothing was counted."
)
COUNTS = "Counts have noise of standard deviation {sd:.1f} each; people are noisy numbers."
EXACT = "Kaplan-Meier estimates of public rows, followed to {end:g}, without noise."


def report(curves: "SurvivalCurves", alpha: float) -> Report:
    """Return the report of curves."""
    private = curves.guarantee is not None
    blocks = [named_values(_head(curves)), _groups(curves, alpha)]
    if len(curves.groups) > 1:
        blocks.append(_comparison(curves, alpha))
    if curves.guarantee is not None:
        rows = guarantee_rows(curves.guarantee, [each for _, each in curves.releases])
        blocks.append(named_values(rows, title="Privacy"))
    return Report(
        title="Survival curves, differentially private" if private else "Survival curves of public rows",
        heading="Survival curves",
        blocks=blocks,
        notes=_notes(curves),
        badges=guarantee_badges(curves.guarantee),
        ending=guarantee_details(curves.guarantee),
    )


def time(value: float) -> str:
    """Return a time as text.

    >>> time(365.25), time(float("inf")), time(float("nan"))
    ('365.2', 'not reached', 'N/A')
    """
    if np.isnan(value):
        return "N/A"
    return "not reached" if np.isinf(value) else f"{value:.4g}"


def _head(curves: "SurvivalCurves") -> list[tuple[str, str]]:
    rows = [("Formula:", curves.formula)]
    rows += [("Time in:", curves.unit_of_time)] if curves.unit_of_time else []
    rows += [("Weights:", curves.weights)] if curves.weights else []
    rows += [("Times:", "at the ends of intervals")] if curves.recorded == "at_ends" else []
    rows += [("Complete in:", ", ".join(curves.complete_in))] if curves.complete_in else []
    rows += [("Sites:", ", ".join(curves.sites))] if len(curves.sites) > 1 else []
    return rows + [("No answer:", f"{site}: {reason}") for site, reason in curves.missing]


def _groups(curves: "SurvivalCurves", alpha: float) -> Block:
    median, mean = curves.median(alpha), curves.restricted_mean(alpha=alpha)
    events = [curve.events(curves.times).sum() for curve in curves.curves()]
    rows = []
    for of_median, of_mean, happened in zip(median.to_dict("records"), mean.to_dict("records"), events, strict=True):
        limits = [f"[{time(each['conf_low'])}, {time(each['conf_high'])}]" for each in (of_median, of_mean)]
        known = bool(np.isfinite(of_median["people"]))
        counts = [f"{of_median['people']:.0f}", f"{happened:.0f}"] if known else ["N/A", "N/A"]
        rows.append([*counts, time(of_median["estimate"]), limits[0], time(of_mean["estimate"]), limits[1]])
    names = [str(label) if label is not None else "all" for label in curves.groups]
    level, end = f"{1.0 - alpha:.0%} limits", f"mean to {mean['time'].iloc[0]:g}"
    return columns(["people", "events", "median", level, end, level], names, rows, title="By group")


def _comparison(curves: "SurvivalCurves", alpha: float) -> Block:
    apart = curves.restricted_mean(alpha=alpha, differences=True)
    rows = [
        [time(each["estimate"]), f"[{time(each['conf_low'])}, {time(each['conf_high'])}]", _p(each["p_value"])]
        for each in apart.to_dict("records")
    ]
    names = [f"mean: {name}" for name in apart["contrast"]]
    known = sum(curve.known for curve in curves.curves()) > 1
    test = curves.logrank_test() if known else None
    rows.append(["", "", "N/A"] if test is None else [f"{test.statistic:.2f} on {test.df} df", "", _p(test.p_value)])
    return columns(["", f"{1.0 - alpha:.0%} limits", "p"], [*names, _name_of_test(curves)], rows, title="Comparison")


def _name_of_test(curves: "SurvivalCurves") -> str:
    return f"log-rank by {' and '.join(curves.strata)}" if curves.strata else "log-rank"


def _p(value: float) -> str:
    return "N/A" if np.isnan(value) else p_value(value)


def _notes(curves: "SurvivalCurves") -> list[str]:
    if curves.guarantee is None:
        return [EXACT.format(end=curves.asked.ends[-1])]
    sd = float(np.sqrt(sum(release.follow_up_sd**2 for _, release in curves.releases)))
    notes = [STATED.format(intervals=len(curves.asked.ends)), COUNTS.format(sd=sd)]
    notes += [COMPLETE.format(columns=", ".join(curves.complete_in))] if curves.complete_in else []
    return notes if all(curve.known for curve in curves.curves()) else [*notes, SUPPRESSED]
