"""Forest plots: estimates of one parameter from several sources, one under the other, with their intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.display import number
from hdpstats.display.plots import COLOURS, GREY, axes_of
from hdpstats.records.estimate import Estimate
from hdpstats.results.plotting import ratio_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INDENT: Final = "   "
_HALF_DIAMOND: Final = 0.3


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Row:
    """A line of a forest plot: a source (a square) or a group of sources (a diamond), indented by its depth."""

    label: str
    depth: int
    estimate: Estimate
    is_group: bool


def plot(
    rows: Sequence[Row], place: int, *, label: str, exponentiate: bool = False, ax: "Axes | None" = None
) -> "Axes":
    """Draw 95 % intervals of the coefficient at a place, a row each, the first on top, its numbers beside it.

    The area of a square is in proportion to the precision. A grey line marks the first row's estimate.
    """
    axes = axes_of(ax, width=7.0, height=1.0 + 0.3 * max(len(rows), 3))
    scale = np.exp if exponentiate else np.asarray
    limits = np.array([row.estimate.conf_int(0.05).to_numpy()[place] for row in rows])
    values = np.array([row.estimate.values[place] for row in rows])
    sizes = _sizes(np.array([float(row.estimate.bse.iloc[place]) for row in rows]))
    for height, (row, value, (low, high), size) in enumerate(
        zip(rows, scale(values), scale(limits), sizes, strict=True)
    ):
        if row.is_group:
            corners = [(low, height), (value, height - _HALF_DIAMOND), (high, height), (value, height + _HALF_DIAMOND)]
            axes.fill(*zip(*corners, strict=True), color=COLOURS[1 if row.depth else 2], linewidth=0)
        else:
            axes.plot([low, high], [height, height], color=COLOURS[0], linewidth=1.2)
            axes.plot(value, height, "s", color=COLOURS[0], markersize=size)
        words = f"{number(value, 3)} [{number(low, 3)}, {number(high, 3)}]"
        axes.text(1.02, height, words, transform=axes.get_yaxis_transform(), va="center", fontsize="small")
    axes.axvline(float(scale(values)[0]), color=GREY, linewidth=0.8, linestyle=":", zorder=0)
    if exponentiate:
        axes.axvline(1.0, color=GREY, linewidth=0.8, zorder=0)
        ratio_axis(axes)
    axes.set_yticks(range(len(rows)), [_INDENT * row.depth + row.label for row in rows], ha="left")
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(f"{label} (95% interval)")
    _left_labels(axes)
    return axes


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
