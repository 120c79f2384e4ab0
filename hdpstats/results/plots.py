"""Plots of results: coefficients, weights, calibration, and standardised differences of groups or of people."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice
from hdpstats.display import number
from hdpstats.inference import weighted_moments
from hdpstats.public.follow_up import PublicCheck
from hdpstats.records.estimate import Estimate
from hdpstats.results.facts import ModelFacts
from hdpstats.results.sites import SiteContribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours that colour-blind readers can distinguish (Okabe and Ito 2008), in the order in which lines take them."""
GREY: Final = "#767676"
"""The colour of lines that carry no estimate."""

MARKERS: Final = ("o", "s", "^", "D")
NARROW: Final = 3.6
"""Axes that are less wide, in inches, have smaller letters."""
LETTER, HANDLE = 0.08, 0.55
"""Inches of a letter in a legend, and of the line before it."""
_NARROW: Final = 8.0
_WIDE: Final = 1000.0
"""Axes of ratios that reach less far have ticks of even spacing; those that reach farther, powers of ten alone."""
_INDENT: Final = "   "
_HALF_DIAMOND: Final = 0.3
_LINE: Final = 0.28
"""Inches of an interval, or of a line of a label, in a figure of coefficients."""
_ACROSS: Final = 4
"""A figure has no more panels beside each other."""
_LONGEST: Final = 36
"""The longest line of a label at the left, in characters."""
SIZE: Final = {"width": 6.4, "height": 4.0}
_DRAWN: Final = ("predicted", "observed", "conf_low", "conf_high")
_WHOLE: Final = 100.0
"""Times from here on are written without decimals."""


def pyplot() -> Any:
    """Return ``matplotlib.pyplot``, or raise an error that names the extra."""
    try:
        from matplotlib import pyplot as module
    except ImportError:
        raise HdpError("plots need matplotlib: pip install matplotlib") from None
    return module


def palette() -> list[str]:
    """Return the colours of series; on dark figures the light ones come first, and white is there for black."""
    return [COLOURS[place] for place in (5, 4, 2, 3, 1, 0)] + [ink()] if _is_dark() else list(COLOURS)


def ink() -> str:
    """Return the colour of what is no series of several: sites, numbers, texts."""
    return "#ffffff" if _is_dark() else "#000000"


def axes_of(ax: "Axes | None", *, width: float, height: float) -> "Axes":
    """Return the given axes, or those of a new figure of a size in inches."""
    module = pyplot()
    from matplotlib.axes import Axes

    if ax is None:
        ground = module.rcParams["figure.facecolor"] if _is_dark() else "white"
        fresh: Axes = module.figure(figsize=(width, height), layout="constrained", facecolor=ground).add_subplot()
        return fresh
    if not isinstance(ax, Axes):
        raise ArgumentError(f"ax must be matplotlib Axes, not {type(ax).__name__}", argument="ax")
    return ax


MOST_PANELS: Final = 30
"""A figure has no more panels."""


def panels(ax: "Axes | None", count: int, *, apart: bool, below: float = 0.0, what: str = "groups") -> list["Axes"]:
    """Return axes for so many lines: one for all of them, or ``apart`` a panel for each.

    ``below`` is the height in inches that each needs below its axis; ``what`` are the lines, for errors.

    Raises
    ------
    ArgumentError
        If there are too many lines, or axes were given where each has a panel.
    """
    if not apart:
        return [axes_of(ax, width=SIZE["width"], height=SIZE["height"] + below)]
    if ax is not None:
        raise ArgumentError(
            f"ax is one panel, and more than {len(COLOURS)} lines have one for each of {count} {what}: leave it out",
            argument="ax",
        )
    if count > MOST_PANELS:
        raise ArgumentError(f"a figure shows up to {MOST_PANELS} {what}, not {count}", argument="self")
    across = min(math.ceil(math.sqrt(count)), _ACROSS)
    down = math.ceil(count / across)
    module = pyplot()
    ground = module.rcParams["figure.facecolor"] if _is_dark() else "white"
    figure = module.figure(figsize=(2.6 * across, (1.9 + below) * down), layout="constrained", facecolor=ground)
    made = figure.subplots(down, across, sharey=True, squeeze=False).ravel()
    for empty in made[count:]:
        empty.remove()
    return list(made[:count])


def name_panel(axes: "Axes", name: str) -> None:
    """Write a panel's name above it."""
    axes.set_title(_wrapped(name), loc="left", fontsize="small")


def _is_dark() -> bool:
    """Return whether the style in use writes in a light colour."""
    from matplotlib import rcParams
    from matplotlib.colors import to_rgb

    return sum(to_rgb(rcParams["text.color"])) > sum(to_rgb(GREY))


def width_of(axes: "Axes") -> float:
    """Return the width of axes in inches, before labels take some of it."""
    figure = axes.get_figure(root=True)
    return figure.get_figwidth() * axes.get_position().width if figure else 0.0


def is_narrow(axes: "Axes") -> bool:
    """Return whether axes are about a column of a journal wide."""
    return width_of(axes) < NARROW


def legend_above(axes: "Axes", above: float = 1.0) -> None:
    """Put the legend above the axes, in as many columns as the figure is wide; names that are wider are wrapped."""
    handles, texts = axes.get_legend_handles_labels()
    if not texts:
        return
    narrow = is_narrow(axes)
    width = width_of(axes) / (0.85 if narrow else 1.0)
    letters = max(int((width - HANDLE) / LETTER), 12)
    shown = ["\n".join(textwrap.wrap(str(text), letters, break_on_hyphens=False)) or str(text) for text in texts]
    longest = max(len(line) for text in shown for line in text.splitlines())
    fits = int(width / (LETTER * longest + HANDLE))
    axes.legend(
        handles, shown,
        frameon=False, loc="lower left", bbox_to_anchor=(0.0, above), borderaxespad=0.2, ncols=max(fits, 1),
        fontsize="x-small" if narrow else "small", columnspacing=1.2, labelspacing=0.3,
    )  # fmt: skip


def plot_coefficients(
    estimates: Sequence[Estimate],
    places: Sequence[int],
    *,
    label: str,
    exponentiate: bool,
    names: Mapping[str, str] | None = None,
    factors: FloatArray | None = None,
    numbers: bool = False,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw 95 % intervals of the coefficients at some places, one colour per estimate, the first estimate on top.

    The intercept is left out where there are other coefficients: it is on another scale. ``names`` are shown in the
    place of terms, ``factors`` (p,) multiply the coefficients, ``numbers`` are written beside the intervals.
    """
    terms, given = estimates[0].terms, names or {}
    shown = [place for place in places if not is_intercept(terms[place])] or list(places)
    texts = [_wrapped(given.get(terms[place], terms[place])) for place in shown]
    lines = max(len(estimates), *(text.count("\n") + 1 for text in texts))
    axes = axes_of(ax, width=7.0, height=1.2 + _LINE * max(len(shown) * lines, 3))
    scale = np.exp if exponentiate else np.asarray
    factor = np.ones(len(terms)) if factors is None else factors
    step = (0.84 if numbers else 0.6) / len(estimates)
    styles = zip(palette(), MARKERS, strict=False)
    for rank, (estimate, (colour, marker)) in enumerate(zip(estimates, styles, strict=False)):
        limits = scale(estimate.conf_int(0.05).to_numpy()[shown] * factor[shown, None])
        value = scale(estimate.params.to_numpy()[shown] * factor[shown])
        reach = np.abs(limits.T - value)
        height = np.arange(len(shown)) + step * (rank - (len(estimates) - 1) / 2.0)
        axes.errorbar(
            value, height, xerr=reach, fmt=marker, color=colour, markersize=5, capsize=2, label=estimate.label
        )
        if numbers:
            for at, middle, (low, high) in zip(height, value, limits, strict=True):
                _beside(axes, at, middle, low, high, colour=colour)
    axes.axvline(1.0 if exponentiate else 0.0, color=GREY, linewidth=0.8, zorder=0)
    if exponentiate:
        ratio_axis(axes)
    axes.set_yticks(range(len(shown)), texts)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlabel(f"{label} (95% interval)")
    if len(estimates) > 1:
        axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(estimates))
    return axes


def is_intercept(term: str) -> bool:
    """Return whether a coefficient is the intercept of a model, or that of one level of a categorical outcome."""
    return term == "Intercept" or term.endswith(":Intercept")


def _wrapped(text: str) -> str:
    """Return the label of a line in lines that leave the figure room for what is drawn."""
    return "\n".join(textwrap.wrap(text, _LONGEST, break_on_hyphens=False)) or text


def _beside(axes: "Axes", height: float, value: float, low: float, high: float, *, colour: str | None = None) -> None:
    """Write an estimate and its limits at the right of a plot."""
    limits = "" if math.isnan(low) else f" [{number(low, 3)}, {number(high, 3)}]"
    words = "not estimable" if math.isnan(value) else f"{number(value, 3)}{limits}"
    axes.text(
        1.02,
        height,
        words,
        transform=axes.get_yaxis_transform(),
        va="center",
        fontsize="small",
        color=colour or ink(),
    )


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
    axes.xaxis.set_major_formatter(lambda value, _: np.format_float_positional(value, precision=12, trim="-"))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ForestRow:
    """A line of a forest plot: a source (a square) or a group of sources (a diamond), indented by its depth."""

    label: str
    depth: int
    estimate: Estimate
    is_group: bool


def plot_forest(
    rows: Sequence[ForestRow], place: int, *, label: str, exponentiate: bool = False, ax: "Axes | None" = None
) -> "Axes":
    """Draw 95 % intervals of the coefficient at a place, a row each, the first on top, its numbers beside it.

    The area of a square is in proportion to the precision. A grey line marks the first row's estimate.
    """
    axes, colours = axes_of(ax, width=7.0, height=1.0 + 0.3 * max(len(rows), 3)), palette()
    scale = np.exp if exponentiate else np.asarray
    limits = np.array([row.estimate.conf_int(0.05).to_numpy()[place] for row in rows])
    values = np.array([row.estimate.params.iloc[place] for row in rows])
    sizes = _sizes(np.array([float(row.estimate.bse.iloc[place]) for row in rows]))
    for height, (row, value, (low, high), size) in enumerate(
        zip(rows, scale(values), scale(limits), sizes, strict=True)
    ):
        if row.is_group:
            corners = [(low, height), (value, height - _HALF_DIAMOND), (high, height), (value, height + _HALF_DIAMOND)]
            axes.fill(*zip(*corners, strict=True), color=colours[0 if row.depth else 1], linewidth=0)
        else:
            axes.plot([low, high], [height, height], color=ink(), linewidth=1.2)
            axes.plot(value, height, "s", color=ink(), markersize=size)
        _beside(axes, height, value, low, high)
    axes.axvline(float(scale(values)[0]), color=GREY, linewidth=0.8, linestyle=":", zorder=0)
    if exponentiate:
        axes.axvline(1.0, color=GREY, linewidth=0.8, zorder=0)
        ratio_axis(axes)
    axes.set_yticks(range(len(rows)), [_INDENT * row.depth + row.label for row in rows], ha="left")
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(f"{label} (95% interval)")
    _left_labels(axes)
    return axes


def forest_of_sites(sites: Sequence[SiteContribution], together: Sequence[Estimate]) -> list[ForestRow]:
    """Return the lines of a forest plot: combined estimates, then the sites' own."""
    own = [
        ForestRow(label=site.site, depth=1, estimate=site.estimate, is_group=False) for site in sites if site.estimate
    ]
    if not own:
        raise ArgumentError("plot_sites needs a fit to several sites, which have estimates of their own")
    return [*(ForestRow(label=each.label, depth=0, estimate=each, is_group=True) for each in reversed(together)), *own]


def _sizes(errors: FloatArray) -> FloatArray:
    """Return the sides of squares, from 3 to 9 points."""
    precision = 1.0 / np.maximum(errors, 1e-12)
    return np.asarray(np.clip(9.0 * precision / precision.max(), 3.0, 9.0))


def _left_labels(axes: "Axes") -> None:
    """Let labels begin at one place, so that what is indented is seen to be."""
    longest = max(len(text.get_text()) for text in axes.get_yticklabels())
    axes.tick_params(axis="y", length=0, pad=6.0 * longest + 6.0)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)


def plot_calibration(*, facts: ModelFacts, check: PublicCheck | None, cause: str | None, ax: "Axes | None") -> "Axes":
    """Draw observed against predicted incidence; see `hdpstats.results.Result.plot_calibration`."""
    if facts.hazard is None:
        raise ArgumentError(
            f"plot_calibration checks hazard models on public rows; this is a {facts.model} model: "
            "model.evaluate(result, epsilon=...).plot_calibration() draws calibration among the private rows, and "
            "predict(frame) gives what to compare with public outcomes",
            argument="self",
        )
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
    for colour, marker, time in zip(palette(), MARKERS, np.unique(times), strict=False):
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


def plot_weights(weights: FloatArray, *, ax: "Axes | None") -> "Axes":
    """Draw the distribution of weights in multiples of their mean, with the effective size in words."""
    relative = weights / np.mean(weights)
    axes = axes_of(ax, width=6.4, height=3.6)
    axes.hist(relative, bins=min(60, max(10, len(weights) // 10)), color=palette()[0], alpha=0.85)
    axes.axvline(1.0, color=GREY, linewidth=0.8)
    axes.set(xlabel="weight over mean weight", ylabel="public rows")
    axes.spines[["top", "right"]].set_visible(False)
    size = weighted_moments.effective_size(weights)
    axes.set_title(f"effective size {size:.0f} of {len(weights)} public rows", fontsize=10)
    return axes


def plot_love(table: pd.DataFrame, *, labels: Mapping[str, str], ax: "Axes | None") -> "Axes":
    """Draw standardised differences before and after weighting with limits, a line per variable or level.

    ``table`` has the columns sample, variable, level, difference, conf_low and conf_high.
    """
    table = table.dropna(subset="difference")
    if table.empty:
        raise ArgumentError("no mean or share is clear of its noise: there is no difference to draw", argument="self")
    shown = {name: labels.get(str(name), str(name)) for name in table["variable"]}
    names = [
        f"{shown[variable]} = {level}" if isinstance(level, str) else shown[variable]
        for variable, level in zip(table["variable"], table["level"], strict=True)
    ]
    lines = list(dict.fromkeys(names))
    axes = axes_of(ax, width=6.4, height=1.4 + 0.3 * max(len(lines), 3))
    axes.axvspan(-NEGLIGIBLE, NEGLIGIBLE, color=GREY, alpha=0.15, linewidth=0)
    axes.axvline(0.0, color=GREY, linewidth=0.8, zorder=0)
    first, second, *_ = palette()
    samples = list(dict.fromkeys(table["sample"]))
    for place, (sample, colour, marker) in enumerate(zip(samples, (first, second), ("o", "s"), strict=False)):
        own = (table["sample"] == sample).to_numpy()
        part = table[own]
        at = [lines.index(name) + 0.24 * (place - 0.5) for name, keep in zip(names, own, strict=True) if keep]
        reach = np.array([part["difference"] - part["conf_low"], part["conf_high"] - part["difference"]])
        axes.errorbar(
            part["difference"], at, xerr=reach, fmt=marker, color=colour, markersize=5, capsize=2, linewidth=1,
            label=sample,
        )  # fmt: skip
    axes.set_yticks(range(len(lines)), [_wrapped(line) for line in lines])
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_xlabel("standardised difference between arms (95% limits)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return axes


def plot_overlap(table: pd.DataFrame, *, treatment: str, ax: "Axes | None") -> "Axes":
    """Draw the distribution of the chance of treatment in both arms, and the weight of an arm.

    ``table`` has the columns after, until, one for each arm, and weighted.
    """
    axes = axes_of(ax, width=6.4, height=3.8)
    untreated, treated = [name for name in table if name not in ("after", "until", "weighted")]
    ends = np.append(table["after"].to_numpy(), table["until"].iloc[-1])
    first, second, *_ = palette()
    for name, colour, style in ((untreated, first, "-"), (treated, second, "--")):
        share = table[name].to_numpy()
        axes.stairs(share / share.sum(), ends, color=colour, linestyle=style, linewidth=1.6,
                    label=f"{treatment} = {name}")  # fmt: skip
    axes.stairs(table["weighted"].to_numpy(), ends, fill=True, color=GREY, alpha=0.3, label="after weighting")
    axes.set(xlabel="chance of treatment", ylabel="share of people", xlim=(0.0, 1.0))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return axes


def plot_effects(table: pd.DataFrame, *, outcome: str, binary: bool, ax: "Axes | None") -> "Axes":
    """Draw the means of two arms, and below them their difference, with intervals.

    ``table`` has the columns effect, estimate, conf_low and conf_high, means first and the difference third.
    """
    axes = axes_of(ax, width=6.4, height=2.4)
    first, second, *_ = palette()
    for height, row in enumerate(table.head(3).to_dict("records")):
        colour = first if height < 2 else second
        value, low, high = row["estimate"], row["conf_low"], row["conf_high"]
        reach = np.nan_to_num([[value - low], [high - value]])
        axes.errorbar([value], [height], xerr=reach, fmt="o", color=colour, markersize=6, capsize=3, linewidth=1.4)
        _beside(axes, float(height), value, low, high, colour=colour)
    axes.axvline(0.0, color=GREY, linewidth=0.8, zorder=0)
    axes.axhline(1.5, color=GREY, linewidth=0.5)
    axes.set_yticks(range(3), [_wrapped(str(name)) for name in table["effect"].head(3)])
    axes.set_ylim(2.6, -0.6)
    axes.set_xlabel(f"{'risk' if binary else 'mean'} of {outcome} (95% interval)")
    axes.spines[["top", "right"]].set_visible(False)
    return axes


NEGLIGIBLE: Final = 0.1
"""Standardised differences below it are called negligible (Austin 2009)."""
_LABEL: Final = 48
"""The longest line of an axis label, in characters, that a figure of 6.4 inches with long tick labels has room for."""


def plot_balance(table: pd.DataFrame, *, ax: "Axes | None", labels: Mapping[str, str] | None = None) -> "Axes":
    """Draw differences and their limits, a line per feature, of `hdpstats.results.WeightedSample.balance`.

    ``labels`` are those of the features.
    """
    if table.empty:
        raise ArgumentError("there is no column whose public values differ: nothing to balance", argument="self")
    features = table.rename(columns={"feature": "variable"}).assign(level=None, group=None)
    return plot_differences(features, by=None, label="private (estimated) minus public mean", ax=ax, labels=labels)


def plot_differences(
    table: pd.DataFrame, *, by: str | None, label: str, ax: "Axes | None", labels: Mapping[str, str] | None = None
) -> "Axes":
    """Draw standardised differences with limits, a line per variable or level and a colour per group.

    ``labels`` are those of the variables.
    """
    known = labels or {}
    table = table.dropna(subset="difference")
    if table.empty:
        raise ArgumentError("no mean or share is clear of its noise: there is no difference to draw", argument="self")
    names = [
        f"{known.get(variable, variable)} = {level}" if isinstance(level, str) else str(known.get(variable, variable))
        for variable, level in zip(table["variable"], table["level"], strict=True)
    ]
    lines = list(dict.fromkeys(names))
    groups = list(dict.fromkeys(table["group"]))
    more = sum(len(_wrapped(line).splitlines()) - 1 for line in lines)
    above = 0.2 * len(groups) if len(groups) > 1 else 0.0
    axes = axes_of(ax, width=6.4, height=1.4 + 0.28 * max(len(lines), 3) + 0.15 * more + above)
    axes.axvspan(-NEGLIGIBLE, NEGLIGIBLE, color=GREY, alpha=0.15, linewidth=0)
    axes.axvline(0.0, color=GREY, linewidth=0.8, zorder=0)
    shift = 0.5 / max(len(groups), 1)
    for place, (group, colour) in enumerate(zip(groups, palette() * len(groups), strict=False)):
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
    axes.set_yticks(range(len(lines)), [_wrapped(line) for line in lines])
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_xlabel("\n".join(textwrap.wrap(f"standardised difference {label} (95% interval)", _LABEL)))
    axes.spines[["top", "right"]].set_visible(False)
    if len(groups) > 1:
        legend_above(axes)
    return axes
