r"""How far private people are from public points: a sum of distances with exact noise, pure epsilon.

Each private person adds the distance from the public point that the person is counted at, at most ``reach``, rounded
down to an integer number of :math:`2^{-20}` ``reach``; the integer sum is released with two-sided geometric noise. The
distance is that of the row as the schema admits it, not of its image in the public range: who lies outside is far.

**Sensitivity.** A person's number is from 0 to :math:`2^{20}`, whatever the row: adding, removing and replacing a
person move the sum by at most :math:`2^{20}`, all attained.

**Guarantee.** Rate :math:`\epsilon / 2^{20}` is epsilon-DP under either relation.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.mechanisms.base import Prepared, SiteFacts
from hdpstats.mechanisms.distance.query import UNITS, DistanceQuery, DistanceRelease
from hdpstats.mechanisms.neighbours.site import Landscape, landscape_of
from hdpstats.noise.geometric import TwoSidedGeometric
from hdpstats.privacy.event import MechanismName, PrivacyEvent
from hdpstats.schema.table import AdmittedTable


def in_units(squared: FloatArray, reach: float) -> IntArray:
    """Return distances in integer parts of ``reach``, from 0 to `UNITS`: never more for a smaller square."""
    return np.asarray(np.floor(np.minimum(np.sqrt(squared) / reach, 1.0) * UNITS), dtype=np.int64)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedDistance(Prepared):
    """A sum of distances with its noise fixed."""

    query: DistanceQuery
    landscape: Landscape
    noise: TwoSidedGeometric

    def compute(self, table: AdmittedTable) -> DistanceRelease:
        """Draw the noise, sum, add and release."""
        noise = self.noise.draw()
        units = in_units(self.landscape.squared_distances(table), self.query.reach)
        return DistanceRelease(units=noise + int(units.sum()), noise_sd=self.noise.variance**0.5, events=self.events)


def prepare(query: DistanceQuery, site_facts: SiteFacts) -> PreparedDistance:
    """Find the public points and fix the noise."""
    return PreparedDistance(
        needs=query.space.names,
        events=(PrivacyEvent(ran=MechanismName.DISTANCE, epsilon=query.epsilon),),
        query=query,
        landscape=landscape_of(query.space, query.support, query.public_sha256, site_facts),
        noise=TwoSidedGeometric(rate=query.epsilon / UNITS),
    )
