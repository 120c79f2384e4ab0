"""A plan as a plot: predicted standard errors against epsilon."""

import math
from typing import TYPE_CHECKING

import pandas as pd

from hdpstats.display.plots import COLOURS, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ACROSS = 3
"""Panels in a row."""


def plot_plan(frame: pd.DataFrame) -> "Figure":
    """Draw one panel per coefficient: what a fit would report, the private rows alone, the public rows alone.

    The intercept is left out where there are other coefficients.
    """
    terms = [term for term in frame["term"].unique() if term != "Intercept"] or ["Intercept"]
    across, down = min(ACROSS, len(terms)), math.ceil(len(terms) / ACROSS)
    figure, panels = pyplot().subplots(
        down, across, figsize=(3.0 * across, 0.6 + 2.3 * down), sharex=True, squeeze=False, layout="constrained"
    )
    for panel, term in zip(panels.flat, terms, strict=False):
        _draw(panel, frame[frame["term"] == term].sort_values("epsilon"))
        panel.set(title=term, xscale="log")
        panel.xaxis.set_major_formatter("{x:g}")
    for panel in panels.flat[len(terms) :]:
        panel.set_axis_off()
    figure.supxlabel("epsilon (log scale)")
    figure.supylabel("predicted standard error")
    figure.legend(*panels.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    made: Figure = figure
    return made


def _draw(panel: "Axes", part: pd.DataFrame) -> None:
    """Draw the curves of one coefficient; the vertical axis ends where the private rows alone stop mattering."""
    black, blue, vermilion = COLOURS[:3]
    public = float(part["public_only"].iloc[0])
    known = not math.isnan(public)
    if known:
        panel.axhline(public, color=black, linestyle=":", label="public only")
    panel.plot(part["epsilon"], part["private_only"], color=blue, linestyle="--", label="private only")
    panel.plot(part["epsilon"], part["std_error"], color=vermilion, linewidth=2, label="reported")
    panel.set_ylim(0.0, 1.7 * public if known else 1.1 * float(part["private_only"].max()))
