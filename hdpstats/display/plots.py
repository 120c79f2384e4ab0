"""Access to matplotlib, an optional dependency, and the colours of every plot."""

from typing import TYPE_CHECKING, Any, Final

from hdpstats._base.errors import ArgumentError, HdpError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS: Final = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Colours that colour-blind readers can distinguish (Okabe and Ito 2008)."""
GREY: Final = "#767676"
"""The colour of lines that carry no estimate."""


def pyplot() -> Any:
    """Return ``matplotlib.pyplot``, or raise an error that names the extra."""
    try:
        from matplotlib import pyplot as module
    except ImportError:
        raise HdpError("plots need matplotlib: pip install 'hdpstats[plot]'") from None
    return module


def axes_of(ax: "Axes | None", *, width: float, height: float) -> "Axes":
    """Return the given axes, or those of a new figure of a size in inches."""
    module = pyplot()
    from matplotlib.axes import Axes

    if ax is None:
        fresh: Axes = module.figure(figsize=(width, height), layout="constrained", facecolor="white").add_subplot()
        return fresh
    if not isinstance(ax, Axes):
        raise ArgumentError(f"ax must be matplotlib Axes, not {type(ax).__name__}", argument="ax")
    return ax
