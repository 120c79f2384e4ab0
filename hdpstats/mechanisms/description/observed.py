"""Counts of a survival outcome: from people to cells of groups and public intervals, exactly.

What is counted, and how far one person moves it, is in `hdpstats.mechanisms.description.site`.
"""

import numpy as np

from hdpstats._base.typing import IntArray
from hdpstats.mechanisms.description.people import DescribedPeople, in_counts, totals
from hdpstats.mechanisms.description.query import DescriptionQuery
from hdpstats.mechanisms.description.spans import causes_of


def follow_up_of(query: DescriptionQuery, people: DescribedPeople) -> IntArray:
    """Return the counts of the cells of follow-up, group by group; of a group interval by interval.

    An interval has a cell for each cause and one for censorings; "stayed on" follows, then with a start a cell per
    interval for people who begin in it, and "incomplete" after all groups. Who begins at time 0 is in no cell of
    beginnings. Who is censored at the end of the last interval was at risk until then, and stayed on. Who begins at
    that end or later, or ends no later than at the beginning, is incomplete.
    """
    asked = query.follow_up
    if asked is None:
        return np.zeros(0, dtype=np.int64)
    intervals, width = len(asked.ends), asked.causes + 1
    ends = np.array(asked.ends)
    time, event = people.cells[asked.time], causes_of(people.cells[asked.event].astype(np.int64), asked.level)
    interval = np.searchsorted(ends, time, side="left")
    happened = np.where(event > 0, event - 1, asked.causes)
    stayed = (interval >= intervals) | people.beyond | ((time == ends[-1]) & (event == 0))
    cell = np.where(stayed, intervals * width, np.minimum(interval, intervals - 1) * width + happened)
    lacking = people.missing[asked.time] | people.missing[asked.event] | (people.group == query.groups)
    begins = np.zeros(len(cell), dtype=np.int64)
    if asked.start is not None:
        start = people.cells[asked.start]
        begins = np.where(start > 0.0, np.searchsorted(ends, start, side="left") + 1, 0)
        lacking |= people.missing[asked.start] | (start >= time) | (start >= ends[-1])
    amounts, incomplete = in_counts(query, people), query.groups * asked.cells
    counts = totals(np.where(lacking, incomplete, people.group * asked.cells + cell), amounts, query.follow_up_cells)
    entering = ~lacking & (begins > 0)
    entry = people.group * asked.cells + asked.exits + begins - 1
    return counts + totals(np.where(entering, entry, incomplete), amounts * entering, query.follow_up_cells)
