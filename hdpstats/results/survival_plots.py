"""Figures of survival curves and of hazard models: lines with bands, medians, the test, the numbers at risk below.

A line is the curve that the tables have: at every time its height is what `SurvivalCurves.at` or `predict_survival`
gives.
"""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice
from hdpstats.display import p_equals
from hdpstats.inference.life_tables import Band
from hdpstats.records.estimate import normal_quantile
from hdpstats.results.facts import HazardFacts
from hdpstats.results.group_curves import FINE, GroupCurve
from hdpstats.results.hazard_curves import CurveWithLimits, HazardCurves, check_one_row, open_curves, read_times
from hdpstats.results.labels import group_names
from hdpstats.results.plots import (
    COLOURS,
    GREY,
    MOST_PANELS,
    SIZE,
    axes_of,
    ink,
    is_narrow,
    legend_above,
    name_panel,
    palette,
    panels,
)
from hdpstats.results.time_axis import TimeAxis, draw_at_risk, ticks_of, time_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hdpstats.results.result import Result
    from hdpstats.results.survival_curves import SurvivalCurves


def plot_survival(
    fit: "Result",
    frame: pd.DataFrame | None,
    *,
    labels: Sequence[str] | None,
    ci: bool,
    at_risk: "SurvivalCurves | None" = None,
    time_unit: str | None = None,
    ax: "Axes | None",
) -> "Axes":
    """Draw survival curves with bands; see `hdpstats.results.Result.plot_survival`."""
    opened = open_curves(fit, frame)
    names = _names_of_rows(opened, labels)
    rows = [] if at_risk is None else list(zip(at_risk.groups, at_risk.curves(), strict=True))
    apart = len(names) > len(COLOURS)
    parts = panels(ax, len(names), apart=apart, below=ROW * (len(rows) + bool(rows)), what="rows")
    horizon = opened.facts.grid.horizon
    times = np.union1d(np.linspace(0.0, horizon, FINE + 1), read_times(None, opened.facts))
    curve = opened.survival(times, alpha=0.05 if ci else None)
    for place, name in enumerate(names):
        axes, colour = (parts[place], palette()[0]) if apart else (parts[0], palette()[place])
        joined(axes, times, [part[place] for part in curve], colour=colour, label=name)
    missed = opened.facts.missed_courses(max(fit.facts.records or 0, fit.facts.public_rows or 0)) is not None
    for place, axes in enumerate(parts):
        axes.set(ylim=(0.0, 1.02), ylabel="event-free probability" if _is_first(axes) or not apart else "")
        _finish(axes, fit, opened.facts, frame, legend=len(names) > 1 and not apart, time_unit=time_unit)
        if apart:
            name_panel(axes, names[place])
        if ci and missed:
            axes.annotate(
                MISSED, (0.0, 0.0), (4.0, 4.0), xycoords="axes fraction", textcoords="offset points",
                fontsize="x-small", color=GREY,
            )  # fmt: skip
        if at_risk is not None:
            axis = _axis_of(fit, opened.facts, axes, time_unit)
            groups = zip(_names(at_risk, None), rows, strict=True)
            lines = [(name, ink(), each.at_risk(axis.ticks)) for name, (_, each) in groups]
            draw_at_risk(axes, axis, lines, noisy=at_risk.source == "private", weighted=at_risk.adjusted is not None)
    return parts[0]


def _is_first(axes: "Axes") -> bool:
    """Return whether axes are at the left of a figure's panels."""
    place = axes.get_subplotspec()
    return place is None or place.is_first_col()


def plot_hazard(
    fit: "Result", at: pd.DataFrame | None, *, ci: bool, time_unit: str | None, ax: "Axes | None"
) -> "Axes":
    """Draw the hazard of each interval with bands; see `hdpstats.results.Result.plot_hazard`."""
    check_one_row(at)
    opened = open_curves(fit, at)
    axes = axes_of(ax, **SIZE)
    curve = opened.hazard(alpha=0.05 if ci else None)
    edges = np.array((0.0, *opened.facts.grid.cuts))
    for place, cause in enumerate(opened.facts.causes):
        parts = [_closed(part[0, :, place]) for part in curve]
        steps(axes, edges, parts, colour=palette()[place % len(COLOURS)], label=cause)
    axes.set(ylim=(0.0, _top(curve)), ylabel="hazard per interval")
    return _finish(axes, fit, opened.facts, at, legend=len(opened.facts.causes) > 1, time_unit=time_unit)


def _names_of_rows(opened: HazardCurves, labels: Sequence[str] | None) -> list[str]:
    rows = len(opened.rows.index)
    if not 1 <= rows <= MOST_PANELS:
        raise ArgumentError(f"frame must have 1 to {MOST_PANELS} rows to draw, not {rows}", argument="frame")
    names = [str(label) for label in (opened.rows.index if labels is None else labels)]
    if isinstance(labels, str) or len(names) != rows:
        raise ArgumentError(f"labels must be a list of {rows} texts, one per row", argument="labels")
    return names


def steps(
    axes: "Axes", at: FloatArray, curve: Sequence[FloatArray], *, colour: str, label: str, line: str = "-"
) -> None:
    """Draw a step function with its band, where it has one."""
    value, low, high = curve
    axes.step(at, value, where="post", color=colour, linewidth=1.8, label=label, linestyle=line)
    if np.isfinite(low[1:]).any():
        axes.fill_between(at, low, high, step="post", color=colour, alpha=0.15, linewidth=0)


def joined(
    axes: "Axes", at: FloatArray, curve: Sequence[FloatArray], *, colour: str, label: str, line: str = "-"
) -> None:
    """Draw a curve without steps with its band, where it has one."""
    value, low, high = curve
    axes.plot(at, value, color=colour, linewidth=1.8, label=label, linestyle=line)
    if np.isfinite(low[1:]).any():
        axes.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)


def _closed(values: FloatArray) -> FloatArray:
    """Return values per interval with the last repeated, so that steps reach the horizon."""
    return np.append(values, values[-1])


def _top(curve: CurveWithLimits) -> float:
    """Return where the axis of hazards ends: above all bands, except where they would flatten the curves."""
    values, limits = (part[np.isfinite(part)] for part in (curve.value, curve.high))
    largest = float(np.max(values, initial=0.0))
    return 1.08 * min(float(np.max(limits, initial=largest)), 4.0 * largest) or 1.0


def _finish(
    axes: "Axes", fit: "Result", hazard: HazardFacts, frame: pd.DataFrame | None, *, legend: bool, time_unit: str | None
) -> "Axes":
    """Label the axis of time, and say at which covariates the curves are where the user did not."""
    _axis_of(fit, hazard, axes, time_unit).draw(axes)
    axes.spines[["top", "right"]].set_visible(False)
    if frame is None:
        where = "all covariates 0" if hazard.typical is None else "typical covariates"
        axes.set_title(f"at {where}", loc="left", fontsize="medium", color=GREY)
    if legend:
        legend_above(axes, 1.0 if frame is not None else 1.08)
    return axes


def _axis_of(fit: "Result", hazard: HazardFacts, axes: "Axes", time_unit: str | None) -> TimeAxis:
    label = fit.schema[hazard.stop].label
    return time_axis(hazard.grid.horizon, hazard.unit_of_time, time_unit, most=ticks_of(axes), label=label)


MISSED: Final = "limits: if the baseline follows the hazard, see summary()"
LINES: Final = ("-", "--", ":", "-.")
ROW: Final = 0.18
"""Inches of a row of numbers at risk."""
BEYOND: Final = 1.02
"""The axis reaches so far beyond the last end of an interval that what is stated there is seen."""
LONGEST_AT_RISK: Final = 32
"""Letters of a name before numbers at risk."""
HIDDEN: Final = "N/A: too few people for the noise"


def _names(curves: "SurvivalCurves", labels: Sequence[str] | None) -> list[str]:
    groups = curves.groups
    if labels is None:
        return group_names(curves.grouping, curves.schema)
    if isinstance(labels, str) or len(labels) != len(groups):
        raise ArgumentError(f"labels must be a list of {len(groups)} texts, one per group", argument="labels")
    return [str(each) for each in labels]


def _names_at_risk(curves: "SurvivalCurves", names: Sequence[str]) -> list[str]:
    """Return what stands before numbers at risk: the names, or where these are long the levels."""
    if max(len(name) for name in names) <= LONGEST_AT_RISK:
        return list(names)
    levels = ["all" if group is None else str(group) for group in curves.groups]
    return [textwrap.shorten(level, LONGEST_AT_RISK, placeholder="\N{HORIZONTAL ELLIPSIS}") for level in levels]


def _axis(curves: "SurvivalCurves", axes: "Axes", time_unit: str | None) -> TimeAxis:
    label = curves.schema[curves.asked.time].label
    return time_axis(curves.asked.ends[-1], curves.unit_of_time, time_unit, most=ticks_of(axes), label=label)


def _draw(
    axes: "Axes",
    curve: GroupCurve,
    band_at: Callable[[FloatArray], Band],
    colour: str,
    label: str,
    *,
    ci: bool,
    line: str = "-",
) -> None:
    """Draw a curve: exact ones as steps, others as a line, with points and bars at the ends of intervals."""
    times, ends = curve.drawn_at, curve.ends
    band = band_at(times)
    unknown = np.full_like(band.value, np.nan)
    parts = [band.value, band.low, band.high] if ci else [band.value, unknown, unknown]
    if not len(ends):
        times, parts = np.append(times, BEYOND * times[-1]), [np.append(part, part[-1]) for part in parts]
        steps(axes, times, parts, colour=colour, label=label, line=line)
        return
    joined(axes, times, parts, colour=colour, label=label, line=line)
    counted = band_at(ends)
    reach = np.maximum([counted.value - counted.low, counted.high - counted.value], 0.0) if ci else None
    axes.errorbar(ends, counted.value, yerr=reach, fmt="o", markersize=3, color=colour, linewidth=0.9, capsize=2)


def _medians(curves: "SurvivalCurves", axes: "Axes", shown: Sequence[int], colours: Sequence[str]) -> None:
    medians = curves.median()["estimate"].to_numpy()[list(shown)]
    reached = np.isfinite(medians)
    if reached.any():
        axes.plot([0.0, medians[reached].max()], [0.5, 0.5], color=GREY, linewidth=0.8, linestyle=":", zorder=0)
    for time, colour in zip(medians, colours, strict=False):
        if np.isfinite(time):
            axes.plot([time, time], [0.0, 0.5], color=colour, linewidth=0.8, linestyle=":", zorder=0)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class _Panel:
    """A panel: its axes, and the places, names and colours of the groups in it."""

    axes: "Axes"
    groups: Sequence[int]
    names: Sequence[str]
    colours: Sequence[str]
    alone: bool


def _panels(names: Sequence[str], ax: "Axes | None", *, at_risk: bool, lines: int = 0) -> list[_Panel]:
    """Return one panel for all groups, or one for each where there are more lines than colours.

    ``lines`` is their number where a group has several.
    """
    apart = len(names) > 1 and max(len(names), lines) > len(COLOURS)
    below = 0.6 * at_risk if apart else ROW * (len(names) + 1) * at_risk
    if not apart and max(len(name) for name in names) > LONGEST_AT_RISK:
        below += ROW * len(names)  # the legend has a line or more for each
    made = panels(ax, len(names), apart=apart, below=below)
    if not apart:
        return [_Panel(axes=made[0], groups=range(len(names)), names=names, colours=palette(), alone=True)]
    return [
        _Panel(axes=axes, groups=[place], names=[name], colours=palette()[:1], alone=False)
        for place, (axes, name) in enumerate(zip(made, names, strict=True))
    ]


def _close(
    curves: "SurvivalCurves", panel: _Panel, time_unit: str | None, *, ylabel: str, at_risk: bool, legend: bool
) -> None:
    axes, shown = panel.axes, [curves.curves()[place] for place in panel.groups]
    axis = _axis(curves, axes, time_unit)
    axis.draw(axes)
    axes.set_xlim(0.0, BEYOND * axis.end)
    axes.set_ylabel(ylabel if panel.alone or _is_first(axes) else "")
    axes.spines[["top", "right"]].set_visible(False)
    if at_risk:
        names = _names_at_risk(curves, panel.names) if panel.alone else [""]
        rows = [
            (name, colour, curve.at_risk(axis.ticks))
            for name, colour, curve in zip(names, panel.colours, shown, strict=False)
        ]
        draw_at_risk(axes, axis, rows, noisy=curves.source == "private", weighted=curves.adjusted is not None)
    if not any(curve.known for curve in shown):
        axes.text(0.5, 0.5, HIDDEN, transform=axes.transAxes, ha="center", va="center", fontsize="small", wrap=True)
    if legend:
        legend_above(axes)
    if not panel.alone:
        name_panel(axes, panel.names[0])


def plot_curves(
    curves: "SurvivalCurves",
    ax: "Axes | None",
    *,
    ci: bool,
    at_risk: bool,
    median: bool,
    p: bool,
    public: bool,
    labels: Sequence[str] | None,
    time_unit: str | None,
) -> "Axes":
    """Draw survival by group; see `hdpstats.results.SurvivalCurves.plot`."""
    names, groups = _names(curves, labels), curves.curves()
    made = _panels(names, ax, at_risk=at_risk)
    for panel in made:
        for name, colour, place in zip(panel.names, panel.colours, panel.groups, strict=False):
            if groups[place].known:
                band_at = partial(groups[place].survival, z=normal_quantile(0.05))
                _draw(panel.axes, groups[place], band_at, colour, name, ci=ci)
        if public and curves.source == "private":
            _public(curves, panel)
        panel.axes.set_ylim(0.0, 1.02)
        if median:
            _medians(curves, panel.axes, panel.groups, panel.colours)
        legend = panel.alone and (len(names) > 1 or public)
        _close(curves, panel, time_unit, ylabel="event-free probability", at_risk=at_risk, legend=legend)
    if p and sum(curve.known for curve in groups) > 1:
        _write_p(made[0], f"log-rank {p_equals(curves.logrank_test().p_value)}")
    return made[0].axes


def _public(curves: "SurvivalCurves", panel: _Panel) -> None:
    """Draw the curves of public rows, dashed."""
    found = curves.curves("public")
    for rank, (colour, place) in enumerate(zip(panel.colours, panel.groups, strict=False)):
        times = found[place].drawn_at
        panel.axes.step(
            times, found[place].survival(times, 1.0).value, where="post", color=colour, linewidth=1.0, linestyle="--",
            label="_" if rank else "public",
        )  # fmt: skip


def _write_p(panel: _Panel, words: str) -> None:
    """Write a p-value in the corner of a panel, or above several."""
    axes = panel.axes
    figure = axes.get_figure(root=True)
    if not panel.alone and figure is not None:
        figure.suptitle(words, fontsize="small", x=0.01, ha="left")
        return
    ground = {"facecolor": axes.get_facecolor(), "edgecolor": "none", "pad": 1.0}
    axes.annotate(
        words, (0.0, 0.0), (5.0, 5.0), xycoords="axes fraction", textcoords="offset points",
        fontsize="x-small" if is_narrow(axes) else "small", bbox=ground,
    )  # fmt: skip


def plot_incidence(
    curves: "SurvivalCurves",
    ax: "Axes | None",
    *,
    causes: str | Sequence[str] | None,
    ci: bool,
    at_risk: bool,
    labels: Sequence[str] | None,
    time_unit: str | None,
) -> "Axes":
    """Draw the cumulative incidence of causes by group; see `hdpstats.results.SurvivalCurves.plot_incidence`."""
    shown = list(curves.causes) if causes is None else [causes] if isinstance(causes, str) else list(causes)
    for each in shown:
        choice(each, name="causes", options=curves.causes)
    names, groups = _names(curves, labels), curves.curves()
    made, top = _panels(names, ax, at_risk=at_risk, lines=len(names) * len(shown)), 0.0
    by_cause = len(names) == 1 or not made[0].alone
    for panel in made:
        for name, colour, place in zip(panel.names, panel.colours, panel.groups, strict=False):
            for rank, cause in enumerate(shown if groups[place].known else ()):
                band_at = partial(groups[place].incidence, curves.causes.index(cause), z=normal_quantile(0.05))
                band = band_at(groups[place].drawn_at)
                words = [name] if len(shown) == 1 else [cause] if by_cause else [name, cause]
                own = palette()[rank % len(COLOURS)] if by_cause else colour
                line = LINES[rank // len(COLOURS) % len(LINES) if by_cause else rank % len(LINES)]
                _draw(panel.axes, groups[place], band_at, own, ", ".join(words), ci=ci, line=line)
                limits = band.high[np.isfinite(band.high)] if ci else band.value[:0]
                values = np.concatenate([limits, band.value[np.isfinite(band.value)]])
                top = max(top, float(np.max(values, initial=0.0)))
    for panel in made:
        panel.axes.set_ylim(0.0, min(1.02, max(1.08 * top, 0.05)))
        legend = len(shown) > 1 if by_cause else len(names) * len(shown) > 1
        in_axes = legend and panel.alone
        _close(curves, panel, time_unit, ylabel="cumulative incidence", at_risk=at_risk, legend=in_axes)
    drawn = next((panel.axes for panel in made if panel.axes.get_legend_handles_labels()[1]), None)
    figure = None if drawn is None else drawn.get_figure(root=True)
    if drawn is not None and figure is not None and not made[0].alone and len(shown) > 1:
        handles = drawn.get_legend_handles_labels()
        figure.legend(*handles, loc="outside upper left", frameon=False, ncols=len(shown), fontsize="small")
    return made[0].axes
