r"""Noisy sums of sufficient statistics (Chen and Sung, algorithm 3, corrected): pure epsilon, replace-one.

Person ``i`` has ``d`` statistics :math:`T(x_i)` of a column that the schema clips to its declared bounds, so that
:math:`T_j` lies in a public interval of length :math:`\Lambda_j`. Each is rounded to an integer number of
:math:`2^{-20} \Lambda_j` from the interval's lower end, between 0 and :math:`2^{20}` whatever the row; integers are
added, exactly and in any order; and the sums are released with integer noise

.. math:: P[z] \propto e^{-\rho \max_j |z_j|}, \qquad \rho = \epsilon / 2^{20}

(`hdpstats.noise.knorm`). For a mean over ``n`` people that is noise of scale :math:`\Lambda_T / (n \epsilon)`: the mean
of the means of blocks, which the printed algorithm forms, is the mean, so that the number of blocks does not enter.

**Sensitivity.** Replacing a person moves each of the d integer sums by at most :math:`2^{20}`, whatever the others do:
the differences lie in a box. :math:`2^{20}` in the maximum norm, attained by a person at one end of every interval
replaced by one at the other end.

A person with a missing cell adds 0 to every sum, as one at the lower end of every interval does.

**Guarantee.** The exponents of an output under neighbours differ by at most :math:`\rho 2^{20} = \epsilon` (triangle
inequality): epsilon-DP for the whole vector, not per coordinate. Independent Laplace noise of that scale in each
coordinate would be :math:`d \epsilon`-DP. With the scale that it needs its variance is :math:`2 d^2`, that of the box
:math:`(d + 1)(d + 2) / 3`, in units of the square of :math:`\Lambda_j / (n \epsilon)`.

Sums are divided by ``n`` afterwards, which must be public: the relation is replace-one.

References
----------
W.-N. Chen, J. Sung, Differentially private parameter estimation from distributed sources. M. Hardt, K. Talwar (2010),
On the geometry of differential privacy.
"""

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from hdpstats._base.errors import MechanismError, SchemaError, SiteError
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats._base.work import Operations
from hdpstats.losses.families import FAMILIES, Family
from hdpstats.mechanisms.base import DistributionMethod, DistributionTask, Prepared
from hdpstats.mechanisms.statistics import (
    UNITS,
    StatisticsQuery,
    StatisticsRelease,
    SufficientStatistics,
    in_units,
)
from hdpstats.mechanisms.statistics.estimate import from_statistics
from hdpstats.noise.knorm import BoxNoise
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.privacy.sensitivity import Relation
from hdpstats.schema.columns import Binary, Continuous
from hdpstats.schema.partitions import Parts
from hdpstats.schema.schema import Schema
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import AdmittedTable


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedStatistics(Prepared):
    """Sums of statistics with their noise fixed; ``records`` is the public number of people."""

    query: StatisticsQuery
    family: Family
    noise: BoxNoise
    records: int

    def work(self, rows: int) -> Operations:
        """Return what the statistics of so many rows take at most."""
        d = len(self.family.parameters)
        return self.noise.work + statistics_work(rows, d) + Operations(steps=60.0 + 10.0 * d)

    def compute(self, rows: Parts[AdmittedTable]) -> StatisticsRelease:
        """Draw the noise, sum, add and release."""
        noise = self.noise.draw()
        sums = rows.total(self.sums)
        return StatisticsRelease(
            units=tuple(z + total for z, total in zip(noise, sums.tolist(), strict=True)),
            noise_rate=float(self.noise.rate),
            records=self.records,
            events=self.events,
        )

    def sums(self, table: AdmittedTable) -> IntArray:
        """Return the d sums of a table, in units."""
        return np.array(sums_of_statistics(self.family, table.numeric[self.query.column], table.complete))


def prepare(query: StatisticsQuery, site_facts: SiteFacts) -> PreparedStatistics:
    """Fix the noise, or refuse what the proof does not cover."""
    family = family_at(query.family, query.column, site_facts)
    noise = BoxNoise(dimension=len(family.parameters), rate=query.epsilon / UNITS)
    return PreparedStatistics(
        needs=(query.column,),
        events=(PrivacyEvent(ran=MechanismName.STATISTICS, epsilon=query.epsilon),),
        query=query,
        family=family,
        noise=noise,
        records=site_facts.records,
    )


def family_at(name: str, column: str, site_facts: SiteFacts, *, named: bool = False) -> Family:
    """Return the family of a column at a site of one row per person whose number is public, or refuse.

    ``named`` allows people who are named by a unit, of one row each.
    """
    if site_facts.unit is not None and not (named and site_facts.most_rows == 1):
        raise SiteError("this site's people have several rows each; a family describes people with one row")
    if site_facts.relation is not Relation.REPLACE_ONE:
        raise MechanismError(
            "means of an exponential family divide by the number of people, which add_or_remove_one protects: declare "
            "the relation replace_one",
            relation=site_facts.relation.value,
        )
    return family_of(name, column, site_facts.schema)


def family_of(name: str, column: str, schema: Schema) -> Family:
    """Return the family of a declared column, between its bounds."""
    declared, family = schema.get(column), FAMILIES.get(name)
    if family is None:
        raise MechanismError(f"family must be one of {', '.join(FAMILIES)}, not {name!r}", available=tuple(FAMILIES))
    if not isinstance(declared, Continuous | Binary):
        raise SchemaError(
            f"{column!r} must be a column that the schema declares as Continuous(lower, upper) or Binary()",
            columns=(column,),
        )
    return family(lower=declared.lower, upper=declared.upper)


def statistics_work(rows: int, d: int) -> Operations:
    """Return what d statistics of each of so many rows, in units, take at most."""
    return Operations(steps=60.0, passes=20.0 * (d + 1.0) * rows, functions=4.0 * d * rows)


def sums_of_statistics(family: Family, x: FloatArray, complete: BoolArray) -> list[int]:
    """Return the d sums of rounded statistics of complete rows' numbers, between the bounds: exact, in any order."""
    units = in_units(family.statistics(x), family.box) * complete[:, None]
    return [int(total) for total in units.sum(axis=0)]


def _ask(_: SufficientStatistics, task: DistributionTask) -> StatisticsQuery:
    return StatisticsQuery(
        column=task.column,
        family=task.family.name,
        epsilon=task.epsilon,
        schema_sha256=task.schema_sha256,
        replicate=task.replicate,
    )


def _expected(query: StatisticsQuery, place: FloatArray, site_facts: SiteFacts) -> StatisticsRelease:
    """Return what a site would release but for the noise, where parameters are a place (d,)."""
    prepared = prepare(query, site_facts)
    lower, upper = np.array(prepared.family.box).T
    share = (prepared.family.mean(place) - lower) / (upper - lower)
    return StatisticsRelease(
        units=tuple(np.rint(prepared.records * share * UNITS).astype(np.int64).tolist()),
        noise_rate=float(prepared.noise.rate),
        records=prepared.records,
        events=prepared.events,
    )


METHOD: Final = DistributionMethod(
    words=lambda _: "noisy sufficient statistics (Chen and Sung, algorithm 3)",
    ask=_ask,
    read=from_statistics,
    expected=_expected,
)
"""How noisy sufficient statistics fit a distribution."""
