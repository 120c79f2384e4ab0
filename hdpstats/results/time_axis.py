"""The axis of time of survival plots: a unit that fits, round ticks, and the numbers at risk below."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.time_units import DAYS, ROUNDED, known_unit
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice
from hdpstats.results.plots import is_narrow, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENOUGH: Final = 2.0
"""A longer unit is shown where the axis has so many of it."""
MOST_TICKS: Final = 8
FEWEST: Final = 2
"""Steps to the end: where so many are left, those are chosen that reach it."""
APART: Final = 0.6
"""The end has a tick of its own where it is so many steps from the last round time."""
UNIT: Final = re.compile(r"\s*[(\[,]\s*(?:in )?(?P<unit>[a-z]+)\s*[)\]]?$", re.IGNORECASE)
"""The unit at the end of a label, which an axis says by itself."""
STEPS: Final = (1.0, 2.0, 5.0)
CALENDAR: Final = {
    "months": (1.0, 2.0, 3.0, 6.0, 12.0, 24.0, 60.0, 120.0),
    "years": (0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 50.0),
}
"""Steps of units that are not counted in tens."""
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
    label : str or None
        What the time is called.
    """

    end: float
    unit: str | None
    length: float
    most: int = MOST_TICKS
    label: str | None = None

    @property
    def ticks(self) -> FloatArray:
        """Round times from 0, in the declared unit; one that is at the end up to the rounding of a horizon is there."""
        return np.minimum(self.round_times * self.length, self.end)

    @property
    def round_times(self) -> FloatArray:
        """The ticks in the unit that is shown."""
        end = self.end / self.length
        steps = [step for step in CALENDAR.get(self.unit or "", ()) if 2.0 * step * (1.0 - ROUNDED) <= end]
        if not steps:
            size = 10.0 ** np.floor(np.log10(end / self.most))
            steps = [step * size * scale for scale in (1.0, 10.0) for step in STEPS]
        fitting = [step for step in steps if end / step <= self.most + 1e-6] or steps[-1:]
        even = [
            step for step in fitting if round(end / step) >= FEWEST and abs(end / step - round(end / step)) < ROUNDED
        ]
        step = (even or fitting)[0]
        found = np.arange(0.0, end * (1.0 + ROUNDED), step)
        return np.append(found, end) if end - found[-1] > APART * step else found

    @property
    def labels(self) -> list[str]:
        """What the ticks are called."""
        return [f"{time:.6g}" if time < 1 or time.is_integer() else f"{time:.3g}" for time in self.round_times.tolist()]

    @property
    def title(self) -> str:
        """What the axis is called."""
        name = self.label or "time"
        found = UNIT.search(name)
        if found and (known_unit(found["unit"]) or found["unit"] == self.unit):
            name = name[: found.start()]
        return f"{name} ({self.unit})" if self.unit else name

    def draw(self, axes: "Axes") -> None:
        """Label the axis and limit it."""
        axes.set_xlim(0.0, self.end)
        axes.set_xticks(self.ticks, self.labels)
        axes.set_xlabel(self.title)
        if is_narrow(axes):
            axes.tick_params(labelsize="small")
            axes.xaxis.label.set_fontsize("small")
            axes.yaxis.label.set_fontsize("small")


def time_axis(
    end: float, declared: str | None, shown: str | None = None, *, most: int = MOST_TICKS, label: str | None = None
) -> TimeAxis:
    """Return the axis up to a time in a declared unit; without a wish the longest unit of which it has two.

    ``most`` is the largest number of ticks: `ticks_of` a figure. ``label`` is what the time is called, with
    its declared unit or without one.

    >>> time_axis(2557, "days").title, time_axis(2557, "days").labels
    ('time (years)', ['0', '1', '2', '3', '4', '5', '6', '7'])
    >>> time_axis(1826, "days").labels[-1], float(time_axis(1826, "days").ticks[-1])
    ('5', 1826.0)
    >>> time_axis(3500, "days", label="Survival (days)").title, time_axis(3500, "days").labels[-2:]
    ('Survival (years)', ['8', '9.58'])
    >>> time_axis(9, "years").labels, time_axis(9, "years", most=4).labels
    (['0', '3', '6', '9'], ['0', '3', '6', '9'])
    >>> time_axis(40, "days").unit, time_axis(12.0, "hours").title, time_axis(5, None).title
    ('weeks', 'time (hours)', 'time')
    """
    own = known_unit(declared)
    if shown is not None:
        wanted = choice(shown, name="time_unit", options=tuple(DAYS))
        if own is None:
            raise ArgumentError(
                f"time_unit needs times declared in {', '.join(DAYS)}: hdp.Duration(horizon, unit='days')",
                argument="time_unit",
            )
        return TimeAxis(end=end, unit=wanted, length=DAYS[wanted] / DAYS[own], most=most, label=label)
    if own is None:
        return TimeAxis(end=end, unit=declared, length=1.0, most=most, label=label)
    fitting = [unit for unit in DAYS if DAYS[unit] >= DAYS[own] and end * DAYS[own] >= ENOUGH * DAYS[unit]] or [own]
    return TimeAxis(end=end, unit=fitting[-1], length=DAYS[fitting[-1]] / DAYS[own], most=most, label=label)


def ticks_of(axes: "Axes") -> int:
    """Return how many ticks axes have room for, with numbers at risk below."""
    return int(np.clip(width_of(axes) / TICK, 3, MOST_TICKS))


def draw_at_risk(
    axes: "Axes", axis: TimeAxis, rows: Sequence[tuple[str, str, FloatArray]], *, noisy: bool, weighted: bool = False
) -> None:
    """Write numbers, or weights, at risk below the axis: label, colour and numbers at the ticks, a row per group."""
    title = f"{'Weight' if weighted else 'Number'} at risk{' (noisy)' if noisy else ''}"
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
