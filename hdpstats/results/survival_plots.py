"""Survival, hazards and calibration as plots."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice
from hdpstats.display.plots import COLOURS, GREY, axes_of
from hdpstats.public.check import PublicCheck
from hdpstats.results.curves import Curve
from hdpstats.results.facts import HazardFacts, ModelFacts
from hdpstats.results.survival import Fitted, HazardCurves, check_one_row, open_curves, read_times

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE = {"width": 6.4, "height": 4.0}
_MARKERS = ("o", "s", "^", "D")
_DRAWN = ("predicted", "observed", "conf_low", "conf_high")
_WHOLE = 100.0
"""Times from here on are written without decimals."""


def plot_survival(
    fit: Fitted, frame: pd.DataFrame | None, *, labels: Sequence[str] | None, ci: bool, ax: "Axes | None"
) -> "Axes":
    """Draw survival curves with bands; see `hdpstats.results.Result.plot_survival`."""
    opened = open_curves(fit, frame)
    names = _names(opened, labels)
    axes = axes_of(ax, **_SIZE)
    times = read_times(None, opened.facts)
    curve = opened.survival(times, alpha=0.05 if ci else None)
    for name, colour, place in zip(names, COLOURS, range(len(names)), strict=False):
        _steps(axes, times, (curve.value[place], curve.low[place], curve.high[place]), colour=colour, label=name)
    axes.set(ylim=(0.0, 1.02), ylabel="event-free probability")
    return _finish(axes, opened.facts, frame, legend=len(names) > 1)


def plot_hazard(fit: Fitted, at: pd.DataFrame | None, *, ci: bool, ax: "Axes | None") -> "Axes":
    """Draw the hazard of each interval with bands; see `hdpstats.results.Result.plot_hazard`."""
    check_one_row(at)
    opened = open_curves(fit, at)
    axes = axes_of(ax, **_SIZE)
    curve = opened.hazard(alpha=0.05 if ci else None)
    edges = np.array((0.0, *opened.facts.grid.cuts))
    for place, cause in enumerate(opened.facts.causes):
        parts = [_closed(part[0, :, place]) for part in (curve.value, curve.low, curve.high)]
        _steps(axes, edges, parts, colour=COLOURS[place % len(COLOURS)], label=cause)
    axes.set(ylim=(0.0, _top(curve)), ylabel="hazard per interval")
    return _finish(axes, opened.facts, at, legend=len(opened.facts.causes) > 1)


def plot_calibration(*, facts: ModelFacts, check: PublicCheck | None, cause: str | None, ax: "Axes | None") -> "Axes":
    """Draw observed against predicted incidence; see `hdpstats.results.Result.plot_calibration`."""
    if check is None or check.calibration.empty:
        raise ArgumentError(
            "calibration needs public rows with outcomes that enter at time 0, which this fit did not have",
            argument="self",
        )
    shown = choice(check.causes[0] if cause is None else cause, name="cause", options=check.causes)
    table = check.calibration[check.calibration["cause"] == shown]
    of = f" of {shown}" if len(check.causes) > 1 else ""
    return draw_calibration(table, facts=facts, of=of, source="public rows", ax=ax)


def draw_calibration(
    calibration: pd.DataFrame, *, facts: ModelFacts, of: str, source: str, ax: "Axes | None"
) -> "Axes":
    """Draw observed against predicted incidence with limits, one line per time where there are times."""
    table = calibration.dropna(subset="observed")
    axes = axes_of(ax, width=4.8, height=4.8)
    unit = f" {facts.hazard.unit_of_time}" if facts.hazard is not None and facts.hazard.unit_of_time else ""
    times = table["time"].to_numpy(dtype=float) if "time" in table else np.zeros(len(table))
    for colour, marker, time in zip(COLOURS, _MARKERS, np.unique(times), strict=False):
        part = table[times == time]
        predicted, observed, low, high = (part[name].to_numpy() for name in _DRAWN)
        reach = np.nan_to_num([observed - low, high - observed])
        axes.errorbar(
            predicted, observed, yerr=reach, fmt=f"{marker}-", color=colour, markersize=5, linewidth=1, capsize=2,
            label=f"{time:.6g}{unit}" if time < _WHOLE else f"{time:.0f}{unit}",
        )  # fmt: skip
    end = 1.05 * float(np.nanmax(table[list(_DRAWN)].to_numpy(), initial=0.05))
    axes.axline((0.0, 0.0), slope=1.0, color=GREY, linewidth=0.8, zorder=0)
    axes.set(
        xlim=(0.0, end), ylim=(0.0, end), aspect="equal",
        xlabel=f"predicted incidence{of}", ylabel=f"observed incidence{of} ({source}, 95% interval)",
    )  # fmt: skip
    axes.spines[["top", "right"]].set_visible(False)
    if "time" in table:
        axes.legend(frameon=False, loc="upper left", title="up to")
    return axes


def _names(opened: HazardCurves, labels: Sequence[str] | None) -> list[str]:
    rows = len(opened.rows.index)
    if not 1 <= rows <= len(COLOURS):
        raise ArgumentError(f"frame must have 1 to {len(COLOURS)} rows to draw, not {rows}", argument="frame")
    names = [str(label) for label in (opened.rows.index if labels is None else labels)]
    if isinstance(labels, str) or len(names) != rows:
        raise ArgumentError(f"labels must be a list of {rows} texts, one per row", argument="labels")
    return names


def _steps(axes: "Axes", at: FloatArray, curve: Sequence[FloatArray], *, colour: str, label: str) -> None:
    """Draw a step function with its band, where it has one."""
    value, low, high = curve
    axes.step(at, value, where="post", color=colour, linewidth=1.8, label=label)
    if np.isfinite(low[1:]).any():
        axes.fill_between(at, low, high, step="post", color=colour, alpha=0.15, linewidth=0)


def _closed(values: FloatArray) -> FloatArray:
    """Return values per interval with the last repeated, so that steps reach the horizon."""
    return np.append(values, values[-1])


def _top(curve: Curve) -> float:
    """Return where the axis of hazards ends: above all bands, except where they would flatten the curves."""
    largest = float(np.nanmax(curve.value))
    band = float(np.nanmax(curve.high)) if np.isfinite(curve.high).any() else largest
    return 1.08 * min(band, 4.0 * largest)


def _finish(axes: "Axes", hazard: HazardFacts, frame: pd.DataFrame | None, *, legend: bool) -> "Axes":
    """Label the axis of time, and say at which covariates the curves are where the user did not."""
    unit = f" ({hazard.unit_of_time})" if hazard.unit_of_time else ""
    axes.set(xlim=(0.0, hazard.grid.horizon), xlabel=f"time{unit}")
    axes.spines[["top", "right"]].set_visible(False)
    if frame is None:
        where = "all covariates 0" if hazard.typical is None else "typical covariates"
        axes.set_title(f"at {where}", loc="left", fontsize="medium", color=GREY)
    if legend:
        axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0 if frame is not None else 1.05))
    return axes
