"""The report that survival curves show of themselves, and a model's survival, averaged over people, beside them."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.display import Block, Report, columns, named_values, p_value, stated
from hdpstats.mechanisms.description.blocks import FEWEST
from hdpstats.records.estimate import normal_quantile
from hdpstats.results.hazard_curves import hazard_facts
from hdpstats.results.labels import group_names
from hdpstats.results.population import population
from hdpstats.results.result import Result
from hdpstats.results.summary import guarantee_badges, guarantee_details, guarantee_rows, privacy_blocks
from hdpstats.results.tables import frame_of
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema

if TYPE_CHECKING:
    from hdpstats.results.survival_curves import SurvivalCurves

SUPPRESSED = (
    "N/A, in tables NaN: too few people for the noise{groups}. Nothing is stated of a group whose noisy number is "
    "below {least:.0f}, {fewest:g} standard deviations of its noise: ask for fewer intervals or groups, or for more "
    "epsilon."
)
COMPLETE = "Curves are of people who are complete in {columns} too, as the description is."
STATED = (
    "Curves are stated at the ends of {intervals} public intervals; limits hold at each end by itself and count "
    "sampling and privacy noise. In between nothing was counted: the hazard is taken as constant within an interval."
)
WEIGHTED = (
    "People are weighted by overlap weights, and numbers of people are their weights: curves and their comparison are "
    "about people whose treatment was in doubt. Errors count the estimation of the propensity model and its noise."
)
WEIGHTED_PUBLIC = (
    "Rows are weighted by overlap weights; errors are robust ones that count the estimation of the propensity model."
)
COUNTS = "Counts have noise of standard deviation {sd:.1f} each; people are noisy numbers."
EXACT = "Kaplan-Meier estimates of public rows, followed to {end:g}, without noise."


def report(curves: "SurvivalCurves", alpha: float) -> Report:
    """Return the report of curves."""
    private = curves.guarantee is not None
    blocks = [named_values(_head(curves)), _groups(curves, alpha)]
    if len(curves.causes) > 1:
        blocks.append(_incidences(curves, alpha))
    if len(curves.groups) > 1:
        blocks.append(_comparison(curves, alpha))
    if curves.guarantee is not None:
        given = [each for _, each in curves.releases]
        before = curves.before
        rows = guarantee_rows(curves.guarantee, given, before)
        blocks += privacy_blocks(rows, curves.guarantee, given, before)
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
    rows += [] if curves.adjusted is None else curves.adjusted.head
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
    own = [str(label) if label is not None else "all" for label in curves.groups]
    labelled = any(name in curves.schema.labels for name in curves.grouping)
    names = group_names(curves.grouping, curves.schema) if labelled else own
    level, end = f"{1.0 - alpha:.0%} limits", f"mean to {mean['time'].iloc[0]:g}"
    return columns(["people", "events", "median", level, end, level], names, rows, title="By group")


def _incidences(curves: "SurvivalCurves", alpha: float) -> Block:
    """Return the incidence of each cause at the last time at which it is stated."""
    table = curves.tidy(1.0 - alpha)
    names, rows = [], []
    called = dict(zip(curves.groups, group_names(curves.grouping, curves.schema), strict=True))
    for group in curves.groups:
        of_group = table[table["group"].isna() if group is None else table["group"] == group]
        for cause in curves.causes:
            own = of_group[of_group["cause"] == cause]
            known = own[np.isfinite(own["estimate"])]
            names.append(cause if group is None else f"{called[group]}: {cause}")
            if known.empty:
                rows.append(["N/A"] * 4)
                continue
            last = known.iloc[-1]
            limits = f"[{stated(last['conf_low'], 3)}, {stated(last['conf_high'], 3)}]"
            rows.append([f"{own['events'].sum():.0f}", f"{last['time']:g}", f"{last['estimate']:.3f}", limits])
    headers = ["events", "at", "incidence", f"{1.0 - alpha:.0%} limits"]
    return columns(headers, names, rows, title="Incidence of causes")


def _comparison(curves: "SurvivalCurves", alpha: float) -> Block:
    apart = curves.restricted_mean(alpha=alpha, differences=True)
    rows = [
        [time(each["estimate"]), f"[{time(each['conf_low'])}, {time(each['conf_high'])}]", _p(each["p_value"])]
        for each in apart.to_dict("records")
    ]
    names = [f"mean: {name}" for name in apart["contrast"]]
    known = sum(curve.known for curve in curves.curves()) > 1
    test = curves.logrank_test() if known else None
    if test is None or np.isnan(test.statistic):
        rows.append(["", "", "N/A"])
    else:
        rows.append([f"{test.statistic:.2f} on {test.df} df", "", _p(test.p_value)])
    names.append(f"log-rank by {' and '.join(curves.strata)}" if curves.strata else "log-rank")
    return columns(["", f"{1.0 - alpha:.0%} limits", "p"], names, rows, title="Comparison")


def _p(value: float) -> str:
    return "N/A" if np.isnan(value) else p_value(value)


def _notes(curves: "SurvivalCurves") -> list[str]:
    if curves.guarantee is None:
        return [EXACT.format(end=curves.asked.ends[-1]), *([WEIGHTED_PUBLIC] if curves.adjusted else [])]
    sd = float(np.sqrt(sum(release.follow_up_sd**2 for _, release in curves.releases)))
    notes = [STATED.format(intervals=len(curves.asked.ends)), COUNTS.format(sd=sd)]
    notes += [WEIGHTED] if curves.adjusted else []
    notes += [COMPLETE.format(columns=", ".join(curves.complete_in))] if curves.complete_in else []
    names = group_names(curves.grouping, curves.schema)
    unknown = [name for name, curve in zip(names, curves.curves(), strict=True) if not curve.known]
    if not unknown:
        return notes
    groups = f" where {'; '.join(unknown)}" if len(curves.groups) > 1 else ""
    least = FEWEST * sd * float(np.sqrt(curves.asked.exits)) * curves.curves()[0].weight
    return [*notes, SUPPRESSED.format(groups=groups, least=least, fewest=FEWEST)]


NUMBERS = ("time", "estimate", "model", "difference", "std_error", "conf_low", "conf_high")


def compare(curves: "SurvivalCurves", result: object, over: object, *, alpha: float) -> pd.DataFrame:
    """Return the comparison; see `hdpstats.results.SurvivalCurves.compare`."""
    if not isinstance(result, Result):
        raise ArgumentError(f"result must be that of a hazard model, not {type(result).__name__}", argument="result")
    if curves.adjusted is not None:
        raise ArgumentError(
            "compare needs curves of people as they are, and these are of weighted people: leave weighting out",
            argument="self",
        )
    horizon, z = hazard_facts(result.facts).grid.horizon, normal_quantile(alpha)
    people = population(result, result.public_rows, over)
    frame, weights = people.frame.reset_index(drop=True), people.weights
    lacking = [name for name in curves.grouping if name not in frame]
    if lacking:
        raise ArgumentError(f"over must have the curves' groups as columns: {', '.join(lacking)}", argument="over")
    times = curves.times[curves.times <= horizon]
    if not len(times):
        raise ArgumentError("the model's last interval ends before the first end of the curves", argument="result")
    group, predicted = _same_groups(curves, frame), _predicted(result, frame, times)
    rows: list[tuple[Any, ...]] = []
    for place, (label, curve) in enumerate(zip(curves.groups, curves.curves(), strict=True)):
        own = (group == place) & np.isfinite(predicted).all(axis=1) & (weights > 0.0)
        model = weights[own] @ predicted[own] / weights[own].sum() if own.any() else np.full(len(times), np.nan)
        band = curve.survival(times, z)
        apart = band.value - model
        numbers = (times, band.value, model, apart, band.std_error, apart - z * band.std_error)
        rows += [(label, *each) for each in zip(*numbers, apart + z * band.std_error, strict=True)]
    return frame_of(rows, texts=("group",), numbers=NUMBERS)


def _same_groups(curves: "SurvivalCurves", frame: pd.DataFrame) -> IntArray:
    """Return the group of each row; -1 where it lacks a cell."""
    place = np.zeros(len(frame), dtype=np.int64)
    if not curves.grouping:
        return place
    table = PublicTable.from_frame(frame, Schema({name: curves.schema[name] for name in curves.grouping}))
    known = table.complete(curves.grouping)
    for name in curves.grouping:
        codes = table.codes[name] if name in table.codes else np.nan_to_num(table.numbers[name]).astype(np.int64)
        place = place * len(curves.levels(name)) + codes
    return np.where(known, place, -1)


def _predicted(result: Result, frame: pd.DataFrame, times: FloatArray) -> FloatArray:
    """Return predicted survival (n, T)."""
    predictions = result.predict_survival(frame, times.tolist(), ci=False)
    return predictions["survival"].to_numpy(dtype=float).reshape(len(frame), len(times))
