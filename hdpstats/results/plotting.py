"""Coefficients with their intervals, as a plot."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from hdpstats.display.plots import COLOURS, GREY, axes_of
from hdpstats.records.estimate import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS: Final = ("o", "s", "^", "D")
_NARROW: Final = 8.0
_WIDE: Final = 1000.0
"""Axes of ratios that reach less far have ticks of even spacing; those that reach farther, powers of ten alone."""


def plot_coefficients(
    estimates: Sequence[Estimate], places: Sequence[int], *, label: str, exponentiate: bool, ax: "Axes | None" = None
) -> "Axes":
    """Draw 95 % intervals of the coefficients at some places, one colour per estimate, the first estimate on top.

    The intercept is left out where there are other coefficients: it is on another scale.
    """
    terms = estimates[0].terms
    shown = [place for place in places if terms[place] != "Intercept"] or list(range(len(terms)))
    axes = axes_of(ax, width=7.0, height=1.2 + 0.28 * max(len(shown) * len(estimates), 3))
    scale = np.exp if exponentiate else np.asarray
    step = 0.6 / len(estimates)
    styles = zip(COLOURS, _MARKERS, strict=False)
    for rank, (estimate, (colour, marker)) in enumerate(zip(estimates, styles, strict=False)):
        limits = estimate.conf_int(0.05).to_numpy()[shown]
        value = scale(estimate.values[shown])
        reach = np.abs(scale(limits).T - value)
        height = np.arange(len(shown)) + step * (rank - (len(estimates) - 1) / 2.0)
        axes.errorbar(
            value, height, xerr=reach, fmt=marker, color=colour, markersize=5, capsize=2, label=estimate.label
        )
    axes.axvline(1.0 if exponentiate else 0.0, color=GREY, linewidth=0.8, zorder=0)
    if exponentiate:
        ratio_axis(axes)
    axes.set_yticks(range(len(shown)), [terms[place] for place in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlabel(f"{label} (95% interval)")
    if len(estimates) > 1:
        axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(estimates))
    return axes


def ratio_axis(axes: "Axes") -> None:
    """Make the horizontal axis logarithmic, with plain numbers at round places."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    narrow, wide = high < _NARROW * low, high > _WIDE * low
    round_places = (
        MaxNLocator(nbins=6, steps=[1, 2.5, 5, 10]) if narrow else LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0))
    )
    axes.xaxis.set_major_locator(round_places)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}")
