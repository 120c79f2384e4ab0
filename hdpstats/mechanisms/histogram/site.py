r"""A noisy histogram on a public grid (Lei 2011), pure epsilon.

Every private person without a missing cell falls into exactly one cell; the release is the noisy number of people in
each. Sensitivity and guarantee are those of counts in `hdpstats.mechanisms.base`. The map to a cell is total
and row by row: the schema clips, a number belongs to the class of as many cuts as it reaches.

References
----------
Lei (2011), Differentially private M-estimators.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.errors import SiteError
from hdpstats._base.typing import IntArray
from hdpstats._base.work import Operations, sorting
from hdpstats.mechanisms.base import PreparedCounts, check_one_row, counted, noise_of_counts
from hdpstats.mechanisms.histogram import HistogramQuery, HistogramRelease
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.schema.columns import Categorical
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import AdmittedTable


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedHistogram(PreparedCounts):
    """A histogram with its noise fixed."""

    release = HistogramRelease
    query: HistogramQuery

    def counting_work(self, rows: int) -> Operations:
        """Return what the cells of so many rows take at most."""
        cuts = [len(axis.cuts) for axis in self.query.axes]
        looked_up = sum(sorting(rows, each + 2) for each in cuts)
        return Operations(steps=20.0 * len(cuts) + sum(cuts), passes=6.0 * rows * len(cuts), sorts=looked_up)

    def counts(self, table: AdmittedTable) -> IntArray:
        """Return the number of people in each cell, those with a missing cell left out."""
        return counted(cells_of(self.query, table), table.complete, self.cells)


def prepare(query: HistogramQuery, site_facts: SiteFacts) -> PreparedHistogram:
    """Fix the noise of a histogram, or refuse what the proof does not cover."""
    check_one_row(site_facts, "a histogram counts people")
    for axis in query.axes:
        column = site_facts.schema.get(axis.name)
        if column is None:
            raise SiteError(f"this site's schema declares no column {axis.name!r}")
        if (len(column.levels) if isinstance(column, Categorical) else None) != axis.levels:
            raise SiteError(f"the axis of {axis.name!r} does not fit what this site's schema declares")
    return PreparedHistogram(
        needs=tuple(axis.name for axis in query.axes),
        events=(PrivacyEvent(ran=MechanismName.HISTOGRAM, epsilon=query.epsilon),),
        cells=query.cells,
        noise=noise_of_counts(query.epsilon, site_facts),
        query=query,
    )


def cells_of(query: HistogramQuery, table: AdmittedTable) -> IntArray:
    """Return the cell of each person (n,) as if complete: a total map, row by row."""
    cells = np.zeros(table.rows, dtype=np.int64)
    for axis in query.axes:
        if axis.levels is None:
            place = np.searchsorted(np.array(axis.cuts), table.numeric[axis.name], side="right")
        else:
            place = table.codes[axis.name]
        cells = cells * axis.classes + place
    return cells
