r"""A noisy number of people: two-sided geometric noise, pure epsilon.

Under ``add_or_remove_one`` the number ``n`` of people is protected like anything else about them, and under either
relation the number of those whose rows are complete in the columns of a model, unless the schema declares that all are.
A mechanism may use such a number for a choice (a radius, a ridge, a lattice) only after it was released. The release is

.. math:: \min\{\max(n + z, 1), N\}, \qquad P[z] \propto e^{-\epsilon |z|},

``N`` being the declared largest number, exact in integers (`hdpstats.noise.discrete`).

**Sensitivity.** One person more or less is at most one more or less in ``n``, whatever the rows: without a unit every
row is a person, with one all rows of the same name are (`hdpstats.schema.persons.persons_of`), rows that name nobody
are nobody's, and the added person's name is nobody else's. A person counts who has a complete row, or, where one column
counts apart, a row that is complete in the others and a row with a cell of that one. So a person who
takes another's place moves the number by at most one too.

**Guarantee.** ``P[n + z = m] / P[n + 1 + z = m] = exp(-epsilon (|m - n| - |m - n - 1|))``, between ``exp(-epsilon)``
and ``exp(epsilon)``, both attained: epsilon-DP (Ghosh, Roughgarden and Sundararajan 2012). The cut is post-processing
by public bounds.
"""

from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np

from hdpstats._base.compiled import Loops
from hdpstats._base.errors import MechanismError
from hdpstats._base.work import Operations, sorting
from hdpstats.mechanisms.base import Prepared
from hdpstats.mechanisms.count import CountQuery, CountRelease
from hdpstats.noise.discrete import TwoSidedGeometric
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.privacy.sensitivity import Relation
from hdpstats.schema.partitions import Parts
from hdpstats.schema.schema import check_names
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import AdmittedTable


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedCount(Prepared):
    """A count with its noise fixed.

    ``most`` is the public or declared largest number; ``several_rows`` says whether people may have several.
    """

    noise: TwoSidedGeometric
    most: int
    columns: tuple[str, ...] | None
    several_rows: bool
    apart: str | None = None

    @property
    def loops(self) -> frozenset[Loops]:
        """Those of a fit that may follow: code that cannot be loaded is to stop it before the count is charged."""
        return frozenset({Loops.REGRESSIONS, Loops.DESCRIPTIONS if self.several_rows else Loops.SUMS})

    def work(self, rows: int) -> Operations:
        """Return what the names of so many rows, and one number of noise, take at most."""
        counting = Operations(steps=40.0, passes=(len(self.needs) + 8.0) * rows, sorts=sorting(rows))
        if self.apart is not None:
            counting = counting + Operations(steps=40.0, passes=20.0 * rows, sorts=3.0 * sorting(rows))
        return self.noise.work() + counting

    def compute(self, rows: Parts[AdmittedTable]) -> CountRelease:
        """Draw the noise, count, cut and release."""
        noisy = self.noise.draw() + rows.total(partial(number_of_people, apart=self.apart))
        return CountRelease(
            count=min(max(noisy, 1), self.most),
            noise_sd=self.noise.variance**0.5,
            most=self.most,
            columns=self.columns,
            events=self.events,
        )


def prepare(query: CountQuery, site_facts: SiteFacts) -> PreparedCount:
    """Fix the noise of a count, or refuse to charge for a number that is public."""
    needs = check_names(site_facts.schema, query.columns or ())
    if site_facts.relation is not Relation.ADD_OR_REMOVE_ONE and not site_facts.schema.leaves_out(needs):
        raise MechanismError(
            "the number of people is public under replace_one, or declared, and so is that of complete rows where the "
            "schema declares the columns complete: nothing is charged for it; read site.records"
        )
    return PreparedCount(
        needs=needs,
        events=(PrivacyEvent(ran=MechanismName.COUNT, epsilon=query.epsilon),),
        ahead=query.ahead,
        noise=TwoSidedGeometric(rate=query.epsilon),
        most=site_facts.records,
        columns=query.columns,
        several_rows=site_facts.most_rows > 1,
        apart=query.apart,
    )


def number_of_people(table: AdmittedTable, *, apart: str | None = None) -> int:
    """Return how many people have a row that is complete in the columns of a table: as private as their rows.

    The column that counts ``apart`` they have in that row or another.
    """
    if table.persons is None:
        return int(table.complete.sum())
    complete = table.complete if apart is None else ~table.lacking(but=(apart,))
    counted = np.unique(table.persons[complete & (table.persons >= 0)])
    if apart is not None:
        counted = np.intersect1d(counted, table.persons[~table.missing[apart]])
    return len(counted)
