"""The axis of time of survival plots: a unit that fits, round ticks, and the numbers at risk below."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice
from hdpstats.results.plots import is_narrow, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

YEAR: Final = 365.25
DAYS: Final = {"days": 1.0, "weeks": 7.0, "months": YEAR / 12.0, "years": YEAR}
"""The units that are known, in days."""
ENOUGH: Final = 2.0
"""A longer unit is shown where the axis has so many of it."""
MOST_TICKS: Final = 8
ROUNDED: Final = 2e-3
"""How far beyond the end a tick may be, as a share of it: 5 years are 1826.25 days, a horizon has 1826 or 1825."""
STEPS: Final = (1.0, 2.0, 3.0, 5.0, 6.0)
MONTHS: Final = (1.0, 2.0, 3.0, 6.0, 12.0, 24.0, 60.0, 120.0)
TICK: Final = 0.5
"""Inches of a tick with numbers at risk below, and of its part of what is at the left of axes."""
LINE, NARROW_LINE = 13.0, 11.0
"""Points from one row of numbers at risk to the next."""
BELOW, NARROW_BELOW = 44.0, 36.0
"""Points from the axis to the first row."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TimeAxis:
    """An axis of time.

    Attributes
    ----------
    end : float
        Where it ends, in the declared unit.
    unit : str or None
        The unit that is shown; None where none is known.
    length : float
        Its length in the declared unit.
    most : int
        The most ticks.
    """

    end: float
    unit: str | None
    length: float
    most: int = MOST_TICKS

    @property
    def ticks(self) -> FloatArray:
        """Round times from 0, in the declared unit; one that is at the end up to the rounding of a horizon is there."""
        return np.minimum(self.round_times * self.length, self.end)

    @property
    def round_times(self) -> FloatArray:
        """The ticks in the unit that is shown."""
        end = self.end / self.length
        if self.unit == "months":
            step = next((step for step in MONTHS if end / step <= self.most + 1e-6), MONTHS[-1])
        else:
            size = 10.0 ** np.floor(np.log10(end / self.most))
            steps = [step * size * scale for scale in (1.0, 10.0) for step in STEPS]
            step = next(step for step in steps if end / step <= self.most + 1e-6)
        return np.arange(0.0, end * (1.0 + ROUNDED), step)

    @property
    def labels(self) -> list[str]:
        """What the ticks are called."""
        return [f"{time:.6g}" for time in self.round_times]

    @property
    def title(self) -> str:
        """What the axis is called."""
        return f"time ({self.unit})" if self.unit else "time"

    def draw(self, axes: "Axes") -> None:
        """Label the axis and limit it."""
        axes.set_xlim(0.0, self.end)
        axes.set_xticks(self.ticks, self.labels)
        axes.set_xlabel(self.title)
        if is_narrow(axes):
            axes.tick_params(labelsize="small")
            axes.xaxis.label.set_fontsize("small")
            axes.yaxis.label.set_fontsize("small")


def time_axis(end: float, declared: str | None, shown: str | None = None, *, most: int = MOST_TICKS) -> TimeAxis:
    """Return the axis up to a time in a declared unit; without a wish the longest unit of which it has two.

    ``most`` is the largest number of ticks: `ticks_of` a figure.

    >>> time_axis(2557, "days").title, time_axis(2557, "days").labels
    ('time (years)', ['0', '1', '2', '3', '4', '5', '6', '7'])
    >>> time_axis(1826, "days").labels[-1], float(time_axis(1826, "days").ticks[-1])
    ('5', 1826.0)
    >>> time_axis(40, "days").unit, time_axis(12.0, "hours").title, time_axis(5, None).title
    ('weeks', 'time (hours)', 'time')
    """
    own = None if declared is None else _known(declared)
    if shown is not None:
        wanted = choice(shown, name="time_unit", options=tuple(DAYS))
        if own is None:
            raise ArgumentError(
                f"time_unit needs times declared in {', '.join(DAYS)}: hdp.Duration(horizon, unit='days')",
                argument="time_unit",
            )
        return TimeAxis(end=end, unit=wanted, length=DAYS[wanted] / DAYS[own], most=most)
    if own is None:
        return TimeAxis(end=end, unit=declared, length=1.0, most=most)
    fitting = [unit for unit in DAYS if DAYS[unit] >= DAYS[own] and end * DAYS[own] >= ENOUGH * DAYS[unit]] or [own]
    return TimeAxis(end=end, unit=fitting[-1], length=DAYS[fitting[-1]] / DAYS[own], most=most)


def ticks_of(axes: "Axes") -> int:
    """Return how many ticks axes have room for, with numbers at risk below."""
    return int(np.clip(width_of(axes) / TICK, 3, MOST_TICKS))


def _known(unit: str) -> str | None:
    """Return a unit's name in plural, where it is one that is known."""
    name = unit.strip().lower().rstrip("s") + "s"
    return name if name in DAYS else None


def draw_at_risk(axes: "Axes", axis: TimeAxis, rows: Sequence[tuple[str, str, FloatArray]], *, noisy: bool) -> None:
    """Write numbers at risk below the axis: label, colour and numbers at the ticks, a row per group."""
    title = "Number at risk (noisy)" if noisy else "Number at risk"
    size, below, line = ("x-small", NARROW_BELOW, NARROW_LINE) if is_narrow(axes) else ("small", BELOW, LINE)
    at: dict[str, Any] = {
        "xycoords": ("axes fraction", "axes fraction"),
        "textcoords": "offset points",
        "annotation_clip": False,
    }
    axes.annotate(title, (0.0, 0.0), (0.0, -below), ha="left", va="center", fontsize=size, **at)
    for place, (label, colour, numbers) in enumerate(rows, start=1):
        down = -below - place * line
        axes.annotate(label, (0.0, 0.0), (-24.0, down), ha="right", va="center", color=colour, fontsize=size, **at)
        for time, number in zip(axis.ticks, numbers, strict=True):
            text = "N/A" if np.isnan(number) else f"{max(number, 0.0):.0f}"
            axes.annotate(
                text, (time, 0.0), (0.0, down), xycoords=("data", "axes fraction"), textcoords="offset points",
                ha="center", va="center", fontsize=size, annotation_clip=False,
            )  # fmt: skip
