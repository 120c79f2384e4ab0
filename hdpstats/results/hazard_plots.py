"""Figures of hazard models: survival and hazards as steps with bands."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.results.curves import CurveWithLimits, HazardCurves
from hdpstats.results.facts import HazardFacts
from hdpstats.results.fitted import Fitted
from hdpstats.results.plots import COLOURS, GREY, SIZE, axes_of, legend_above, palette
from hdpstats.results.survival import check_one_row, open_curves, read_times
from hdpstats.results.time_axis import draw_at_risk, ticks_of, time_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hdpstats.results.survival_curves import SurvivalCurves


def plot_survival(
    fit: Fitted,
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
    names = _names(opened, labels)
    rows = [] if at_risk is None else list(zip(at_risk.groups, at_risk.curves(), strict=True))
    axes = axes_of(ax, width=SIZE["width"], height=SIZE["height"] + 0.18 * (len(rows) + bool(rows)))
    times = read_times(None, opened.facts)
    curve = opened.survival(times, alpha=0.05 if ci else None)
    for name, colour, place in zip(names, palette(), range(len(names)), strict=False):
        steps(axes, times, [part[place] for part in curve], colour=colour, label=name)
    axes.set(ylim=(0.0, 1.02), ylabel="event-free probability")
    _finish(axes, opened.facts, frame, legend=len(names) > 1, time_unit=time_unit)
    if at_risk is not None:
        axis = time_axis(opened.facts.grid.horizon, opened.facts.unit_of_time, time_unit, most=ticks_of(axes))
        ink = palette()[0]
        lines = [("all" if label is None else label, ink, each.at_risk(axis.ticks)) for label, each in rows]
        draw_at_risk(axes, axis, lines, noisy=at_risk.source == "private")
    return axes


def plot_hazard(fit: Fitted, at: pd.DataFrame | None, *, ci: bool, time_unit: str | None, ax: "Axes | None") -> "Axes":
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
    return _finish(axes, opened.facts, at, legend=len(opened.facts.causes) > 1, time_unit=time_unit)


def _names(opened: HazardCurves, labels: Sequence[str] | None) -> list[str]:
    rows = len(opened.rows.index)
    if not 1 <= rows <= len(COLOURS):
        raise ArgumentError(f"frame must have 1 to {len(COLOURS)} rows to draw, not {rows}", argument="frame")
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


def _closed(values: FloatArray) -> FloatArray:
    """Return values per interval with the last repeated, so that steps reach the horizon."""
    return np.append(values, values[-1])


def _top(curve: CurveWithLimits) -> float:
    """Return where the axis of hazards ends: above all bands, except where they would flatten the curves."""
    largest = float(np.nanmax(curve.value))
    band = float(np.nanmax(curve.high)) if np.isfinite(curve.high).any() else largest
    return 1.08 * min(band, 4.0 * largest)


def _finish(
    axes: "Axes", hazard: HazardFacts, frame: pd.DataFrame | None, *, legend: bool, time_unit: str | None = None
) -> "Axes":
    """Label the axis of time, and say at which covariates the curves are where the user did not."""
    time_axis(hazard.grid.horizon, hazard.unit_of_time, time_unit, most=ticks_of(axes)).draw(axes)
    axes.spines[["top", "right"]].set_visible(False)
    if frame is None:
        where = "all covariates 0" if hazard.typical is None else "typical covariates"
        axes.set_title(f"at {where}", loc="left", fontsize="medium", color=GREY)
    if legend:
        legend_above(axes, 1.0 if frame is not None else 1.08)
    return axes
