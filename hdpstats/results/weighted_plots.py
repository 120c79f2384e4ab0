"""The weights of a weighted public sample, and what they correct, as plots."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.data.columns import Categorical
from hdpstats.data.schema import Schema
from hdpstats.display.plots import COLOURS, GREY, axes_of
from hdpstats.inference import weighted_moments
from hdpstats.inference.weights import WeightLaw

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


def plot_balance(
    law: WeightLaw, rows: pd.DataFrame, schema: Schema, columns: Sequence[str], *, ax: "Axes | None"
) -> "Axes":
    """Draw weighted minus unweighted means of columns in standard deviations of the public rows, with 95 % limits."""
    listed = list(_features(rows, schema, columns))
    if not listed:
        raise ArgumentError("there is no column whose public values differ: nothing to balance", argument="self")
    names = [name for name, _ in listed]
    values = np.column_stack([feature for _, feature in listed])
    spread = np.std(values, axis=0)
    means = weighted_moments.weighted_means(law, values)
    shift = (means.estimates - values.mean(axis=0)) / spread
    error = np.sqrt(np.maximum(np.diag(means.sampling) + np.diag(means.privacy), 0.0)) / spread
    axes = axes_of(ax, width=6.4, height=1.2 + 0.26 * max(len(names), 3))
    places = np.arange(len(names))
    axes.errorbar(shift, places, xerr=1.96 * error, fmt="o", color=COLOURS[1], markersize=5, capsize=2)
    axes.axvline(0.0, color=GREY, linewidth=0.8, zorder=0)
    axes.set_yticks(places, names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("private (estimated) minus public mean, in public standard deviations (95% interval)")
    return axes


def _features(rows: pd.DataFrame, schema: Schema, columns: Sequence[str]) -> Iterator[tuple[str, FloatArray]]:
    for name in columns:
        column = schema[name]
        if isinstance(column, Categorical):
            for level in column.levels:
                yield from _varying(f"{name} = {level}", np.asarray(rows[name] == level, dtype=np.float64))
        else:
            yield from _varying(name, rows[name].to_numpy(dtype=np.float64))


def _varying(name: str, feature: FloatArray) -> Iterator[tuple[str, FloatArray]]:
    if np.std(feature) > 0:
        yield name, feature
