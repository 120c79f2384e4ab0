"""The door to matplotlib, an optional dependency, and the colours of every plot."""

from typing import Any, Final

from hdpstats._base.errors import HdpError

COLOURS: Final = ("#000000", "#0072B2", "#D55E00", "#009E73")
"""Colours that colour-blind readers tell apart (Okabe and Ito 2008)."""


def pyplot() -> Any:
    """Return ``matplotlib.pyplot``, or raise an error that names the extra."""
    try:
        from matplotlib import pyplot as module
    except ImportError:
        raise HdpError("plots need matplotlib: pip install 'hdpstats[plot]'") from None
    return module
