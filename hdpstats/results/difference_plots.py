"""Plots of standardised differences between groups, or between private and public people."""

import textwrap
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats.results.plots import COLOURS, GREY, MARKERS, axes_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NEGLIGIBLE: Final = 0.1
"""Standardised differences below it are called negligible (Austin 2009)."""
_LABEL: Final = 48
"""The longest line of an axis label, in characters, that a figure of 6.4 inches with long tick labels has room for."""


def plot_balance(table: pd.DataFrame, *, ax: "Axes | None") -> "Axes":
    """Draw differences and their limits, a line per feature, of `hdpstats.results.WeightedSample.balance`."""
    if table.empty:
        raise ArgumentError("there is no column whose public values differ: nothing to balance", argument="self")
    features = table.rename(columns={"feature": "variable"}).assign(level=None, group=None)
    return plot_differences(features, by=None, label="private (estimated) minus public mean", ax=ax)


def plot_differences(table: pd.DataFrame, *, by: str | None, label: str, ax: "Axes | None") -> "Axes":
    """Draw standardised differences with limits, a line per variable or level and a colour per group."""
    table = table.dropna(subset="difference")
    if table.empty:
        raise ArgumentError("no mean or share is clear of its noise: there is no difference to draw", argument="self")
    names = [
        f"{variable} = {level}" if isinstance(level, str) else str(variable)
        for variable, level in zip(table["variable"], table["level"], strict=True)
    ]
    lines = list(dict.fromkeys(names))
    groups = list(dict.fromkeys(table["group"]))
    axes = axes_of(ax, width=6.4, height=1.4 + 0.28 * max(len(lines), 3))
    axes.axvspan(-NEGLIGIBLE, NEGLIGIBLE, color=GREY, alpha=0.15, linewidth=0)
    axes.axvline(0.0, color=GREY, linewidth=0.8, zorder=0)
    shift = 0.5 / max(len(groups), 1)
    for place, (group, colour) in enumerate(zip(groups, [*COLOURS[1:], COLOURS[0]] * len(groups), strict=False)):
        own = (table["group"].isna() if group is None else table["group"] == group).to_numpy()
        at = [
            lines.index(name) + shift * (place - (len(groups) - 1) / 2)
            for name, keep in zip(names, own, strict=True)
            if keep
        ]
        part = table[own]
        reach = np.nan_to_num([part["difference"] - part["conf_low"], part["conf_high"] - part["difference"]])
        axes.errorbar(
            part["difference"], at, xerr=reach, fmt=MARKERS[place % len(MARKERS)], color=colour, markersize=5,
            capsize=2, linewidth=1, label=None if group is None else f"{by} = {group}",
        )  # fmt: skip
    axes.set_yticks(range(len(lines)), lines)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_xlabel("\n".join(textwrap.wrap(f"standardised difference {label} (95% interval)", _LABEL)))
    axes.spines[["top", "right"]].set_visible(False)
    if len(groups) > 1:
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return axes
