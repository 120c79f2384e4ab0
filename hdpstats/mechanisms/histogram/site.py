r"""A noisy histogram on a public grid (Lei 2011), pure epsilon.

Every private person falls into exactly one cell; the release is the number of people in each cell plus independent
two-sided geometric noise, exact in integers (`hdpstats.noise.geometric`). The map to a cell is total and row by row:
the schema clips and fills, a number belongs to the class of as many cuts as it reaches.

**Sensitivity.** In the L1 norm: adding or removing a person changes one cell by 1, replacing a person takes 1 from one
cell and adds 1 to another: 1 and 2.

**Guarantee.** With rate :math:`\rho` the probabilities of a table under neighbours differ by at most
:math:`\exp(\rho \|c - c'\|_1)`: :math:`\rho = \epsilon / 2` (replace-one) or :math:`\epsilon` (add-or-remove-one).

References
----------
Lei (2011), Differentially private M-estimators.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.errors import SiteError
from hdpstats._base.typing import IntArray
from hdpstats.mechanisms.base import Prepared, SiteFacts
from hdpstats.mechanisms.histogram.query import HistogramQuery, HistogramRelease
from hdpstats.mechanisms.person_loss.base import sensitivity_factor
from hdpstats.noise.geometric import TwoSidedGeometric
from hdpstats.privacy.event import MechanismName, PrivacyEvent
from hdpstats.schema.columns import Categorical
from hdpstats.schema.table import AdmittedTable


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedHistogram(Prepared):
    """A histogram with its noise fixed."""

    query: HistogramQuery
    noise: TwoSidedGeometric

    def compute(self, table: AdmittedTable) -> HistogramRelease:
        """Draw the noise, count, add and release."""
        noise = self.noise.draws(self.query.cells)
        counts = np.bincount(cells_of(self.query, table), minlength=self.query.cells)
        return HistogramRelease(
            counts=tuple(int(count) + z for count, z in zip(counts.tolist(), noise, strict=True)),
            noise_variance=self.noise.variance,
            events=self.events,
        )


def prepare(query: HistogramQuery, site_facts: SiteFacts) -> PreparedHistogram:
    """Fix the noise of a histogram, or refuse what the proof does not cover."""
    if site_facts.unit is not None:
        raise SiteError("this site's people have several rows each; a histogram counts people with one row")
    for axis in query.axes:
        column = site_facts.schema.get(axis.name)
        if column is None:
            raise SiteError(f"this site's schema declares no column {axis.name!r}")
        if (len(column.levels) if isinstance(column, Categorical) else None) != axis.levels:
            raise SiteError(f"the axis of {axis.name!r} does not fit what this site's schema declares")
    rate = query.epsilon / sensitivity_factor(site_facts.relation)
    return PreparedHistogram(
        needs=tuple(axis.name for axis in query.axes),
        events=(PrivacyEvent(ran=MechanismName.HISTOGRAM, epsilon=query.epsilon),),
        query=query,
        noise=TwoSidedGeometric(rate=Fraction(rate)),
    )


def cells_of(query: HistogramQuery, table: AdmittedTable) -> IntArray:
    """Return the cell of each person (n,): a total map, row by row."""
    cells = np.zeros(table.rows, dtype=np.int64)
    for axis in query.axes:
        if axis.levels is None:
            place = np.searchsorted(np.array(axis.cuts), table.numeric[axis.name], side="right")
        else:
            place = table.codes[axis.name]
        cells = cells * axis.classes + place
    return cells
