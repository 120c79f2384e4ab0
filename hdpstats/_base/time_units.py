"""Units of time that are known, and the steps of calendars in them.

Curves and figures in other units than the schema's have the axis of `hdpstats.results.time_axis`.
"""

from typing import Final

YEAR: Final = 365.25
DAYS: Final = {"days": 1.0, "weeks": 7.0, "months": YEAR / 12.0, "years": YEAR}
"""The units that are known, in days."""
CALENDAR: Final = (1.0, 7.0, 14.0, *(months * DAYS["months"] for months in (1, 3, 6, 12, 24, 60, 120)))
"""Steps that readers expect, in days: a day, one or two weeks, a month, a quarter, half a year, years."""
ROUNDED: Final = 2e-3
"""How far a horizon may be from a round time, as a share of it: 5 years are 1826.25 days, a horizon may have 1825."""


def known_unit(unit: str | None) -> str | None:
    """Return a unit's name in plural, where it is one that is known.

    >>> known_unit("Day"), known_unit("hours"), known_unit(None)
    ('days', None, None)
    """
    if unit is None:
        return None
    name = unit.strip().lower().rstrip("s") + "s"
    return name if name in DAYS else None
