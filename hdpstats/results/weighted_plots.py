"""The weights of a weighted public sample, and what they correct, as plots."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.display.plots import COLOURS, GREY, axes_of
from hdpstats.inference import weighted_moments

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_weights(weights: FloatArray, *, ax: "Axes | None") -> "Axes":
    """Draw the distribution of weights in multiples of their mean, with the effective size in words."""
    relative = weights / np.mean(weights)
    axes = axes_of(ax, width=6.4, height=3.6)
    axes.hist(relative, bins=min(60, max(10, len(weights) // 10)), color=COLOURS[1], alpha=0.85)
    axes.axvline(1.0, color=GREY, linewidth=0.8)
    axes.set(xlabel="weight over mean weight", ylabel="public rows")
    size = weighted_moments.effective_size(weights)
    axes.set_title(f"effective size {size:.0f} of {len(weights)} public rows", fontsize=10)
    return axes


def plot_balance(table: pd.DataFrame, *, ax: "Axes | None") -> "Axes":
    """Draw a table of `hdpstats.results.weighted_balance`: differences and their limits, a line per feature."""
    if table.empty:
        raise ArgumentError("there is no column whose public values differ: nothing to balance", argument="self")
    axes = axes_of(ax, width=6.4, height=1.2 + 0.26 * max(len(table), 3))
    places = np.arange(len(table))
    half = (table["conf_high"] - table["conf_low"]) / 2.0
    axes.errorbar(table["difference"], places, xerr=half, fmt="o", color=COLOURS[1], markersize=5, capsize=2)
    axes.axvline(0.0, color=GREY, linewidth=0.8, zorder=0)
    axes.set_yticks(places, table["feature"])
    axes.set_ylim(len(table) - 0.5, -0.5)
    axes.set_xlabel("private (estimated) minus public mean, in public standard deviations (95% interval)")
    return axes
