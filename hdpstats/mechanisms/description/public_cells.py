"""The public cells in which people are counted: groups, and intervals of follow-up.

Their noise, with its proof, is that of the counts of `hdpstats.mechanisms.description.site`: Kaplan-Meier curves of
private people are read from it (`hdpstats.inference.life_tables`).
"""

import itertools
import math
from dataclasses import dataclass
from typing import Annotated, Final, final

from hdpstats._base.errors import MechanismError
from hdpstats.records.codec import LEFT_OUT, Record

MOST_GROUPS: Final = 1000


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FollowUpCells(Record):
    """A survival outcome, counted in public intervals.

    Attributes
    ----------
    time, event : str
        The columns.
    causes : int
        The kinds of event.
    ends : tuple of float
        The ends of the intervals ``(0, ends[0]], (ends[0], ends[1]], ...``.
    start : str or None
        The column of the time at which follow-up begins; None where that is 0 for all.
    level : int or None
        The one code of the event's column that is an event, where others count as censored; None where all but 0 are.
    """

    time: str
    event: str
    causes: int
    ends: tuple[float, ...]
    start: Annotated[str | None, LEFT_OUT] = None
    level: Annotated[int | None, LEFT_OUT] = None

    def __post_init__(self) -> None:
        """Refuse intervals that are none."""
        if not 1 <= self.causes <= MOST_GROUPS:
            raise MechanismError(f"an event has 1 to {MOST_GROUPS} causes")
        if self.level is not None and (self.causes != 1 or self.level < 0):
            raise MechanismError("one level of the event is one cause, and counted from 0")
        known = all(math.isfinite(end) for end in self.ends) and self.ends
        if not known or any(a >= b for a, b in itertools.pairwise((0.0, *self.ends))):
            raise MechanismError("times must be finite numbers above 0 that increase")

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read."""
        return (self.time, self.event, *((self.start,) if self.start else ()))

    @property
    def exits(self) -> int:
        """The cells of a group for ends of follow-up: events of each cause and censorings by interval, then the rest.

        The rest stayed on.
        """
        return (self.causes + 1) * len(self.ends) + 1

    @property
    def cells(self) -> int:
        """The cells of a group: those for ends of follow-up, then one per interval for beginnings after time 0."""
        return self.exits + (len(self.ends) if self.start else 0)

    @property
    def counts_of_person(self) -> int:
        """In how many cells one person is at most: one, or with beginnings two."""
        return 2 if self.start else 1


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CrossedColumn(Record):
    """A further column of which the levels divide the groups.

    Attributes
    ----------
    name : str
        The column.
    levels : int
        The number of its levels.
    """

    name: str
    levels: int

    def __post_init__(self) -> None:
        """Refuse a column without levels."""
        if not 2 <= self.levels <= MOST_GROUPS:
            raise MechanismError(f"{self.name!r} must have 2 to {MOST_GROUPS} levels")
