r"""A noisy number of people: two-sided geometric noise, pure epsilon.

Under ``add_or_remove_one`` the number ``n`` of people is protected like anything else about them, and a mechanism may
use it for a choice (a radius, a ridge, a lattice) only after it was released. The release is

.. math:: \min\{\max(n + z, 1), N\}, \qquad P[z] \propto e^{-\epsilon |z|},

``N`` being the declared largest number, exact in integers (`hdpstats.noise.geometric`).

**Sensitivity.** One person more or less is one more or less in ``n``, whatever the rows: without a unit every row is a
person, with one all rows of the same name are (`hdpstats.schema.coerce.persons`), rows that name nobody are nobody's,
and the added person's name is nobody else's.

**Guarantee.** ``P[n + z = m] / P[n + 1 + z = m] = exp(-epsilon (|m - n| - |m - n - 1|))``, between ``exp(-epsilon)``
and ``exp(epsilon)``, both attained: epsilon-DP (Ghosh, Roughgarden and Sundararajan 2012). The cut is post-processing
by public bounds.
"""

from dataclasses import dataclass
from typing import final

from hdpstats._base.errors import MechanismError
from hdpstats.mechanisms.base import Prepared, SiteFacts
from hdpstats.mechanisms.count.query import CountQuery, CountRelease
from hdpstats.noise.geometric import TwoSidedGeometric
from hdpstats.privacy.accountant import MechanismName, PrivacyEvent
from hdpstats.privacy.relation import Relation
from hdpstats.schema.table import AdmittedTable


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedCount(Prepared):
    """A count with its noise fixed; ``most`` is the declared largest number."""

    noise: TwoSidedGeometric
    most: int

    def compute(self, table: AdmittedTable) -> CountRelease:
        """Draw the noise, count, cut and release."""
        noisy = self.noise.draw() + number_of_people(table)
        return CountRelease(
            count=min(max(noisy, 1), self.most),
            noise_sd=self.noise.variance**0.5,
            most=self.most,
            events=self.events,
        )


def prepare(query: CountQuery, site_facts: SiteFacts) -> PreparedCount:
    """Fix the noise of a count, or refuse where the number is public."""
    if site_facts.relation is not Relation.ADD_OR_REMOVE_ONE:
        raise MechanismError(
            "the number of people is public under replace_one, or declared: read it without noise, as site.records"
        )
    return PreparedCount(
        needs=(),  # who is whose is known without any column
        events=(PrivacyEvent(ran=MechanismName.COUNT, epsilon=query.epsilon),),
        ahead=query.ahead,
        noise=TwoSidedGeometric(rate=query.epsilon),
        most=site_facts.records,
    )


def number_of_people(table: AdmittedTable) -> int:
    """Return how many people there are: as private as their rows."""
    return table.rows if table.persons is None else int(table.persons.max(initial=-1)) + 1
