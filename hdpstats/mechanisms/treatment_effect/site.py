r"""Weights of people by arm and outcome: a noisy table, pure epsilon.

**What is added.** A person with the weight ``w`` (`hdpstats.families.overlap_weights`: from 0 to :math:`2^{20}`
units, a function of that person's row and of public coefficients) is in the row of the table that is the own arm.

* Binary outcome: ``w`` is added to the cell of the outcome.
* Number, or mean of a binary outcome over several rows, with the place ``y`` in the range, cut to [0, 1]: ``w`` is
  shared out in the proportions
  :math:`(1 - y)^2 : 2 y (1 - y) : y^2`, which are 1 in sum. The totals ``A, B, C`` of an arm then tell its total weight
  :math:`A + B + C`, its weighted mean place :math:`(B / 2 + C) / (A + B + C)` and its weighted mean square
  :math:`C / (A + B + C)`, for no more noise than two cells have. The second and the third share are rounded down to
  units, and the first is what is left: it is at least 0, as :math:`w (2 y (1 - y) + y^2) \le w` and a whole number that
  exceeds ``w`` by less than one does not exceed it.

*Missing means left out:* a person who lacks the outcome, the treatment or a covariate adds nothing.

**People with several rows.** Arm, covariates and so the weight are those of the person's first row that is complete in
the treatment and the covariates; the outcome is the mean of the person's outcomes, over those rows that have one,
``most_rows`` of them at most (`hdpstats.schema.persons.among_first`). Of a binary outcome that mean ``y`` lies in
[0, 1] and is shared out as a number is: so the variance of people's means is told too, however many rows private people
have. All of it is a total map of that person's rows and their order, at public coefficients. Who has no such row, or no
outcome in any, adds nothing. Rows that name nobody are nobody's.

**Sensitivity** in the L1 norm: :math:`2^{20}` units under add-or-remove-one, :math:`2^{21}` under replace-one. *Proof.*
What a person adds is a vector of whole numbers from 0 on, whose sum is at most ``w`` and so at most :math:`2^{20}`.
Adding or removing a person adds or takes away one of them; replacing a person takes one away and adds another, whether
or not the arm, the outcome or the weight changes. It says nothing of how many rows these come from, so that it
holds for whole people with all of their rows. QED. Both are attained as weights come to 1. (The pair of ``w`` and
``w y`` in each arm, which tells the same, would move by twice as much.)

**Noise** is two-sided geometric in each cell, at the rate epsilon over that (`hdpstats.noise.discrete`).
*Guarantee:* pure epsilon, for coefficients that are public when the query is asked. They come from releases of the
same people: what these cost is added to it by sequential composition (`hdpstats.privacy.budget.Guarantee.resting_on`).

References
----------
A. Ghosh, T. Roughgarden, M. Sundararajan (2012), Universally utility-maximizing privacy mechanisms.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.compiled import Loops
from hdpstats._base.errors import MechanismError, SchemaError, SiteError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.work import Operations
from hdpstats.families.base import averaging_work
from hdpstats.families.overlap_weights import UNITS, units, weighting_design, weighting_work, weights_of
from hdpstats.formulas import Design
from hdpstats.mechanisms.base import Prepared, added
from hdpstats.mechanisms.treatment_effect import (
    ARMS,
    BINARY,
    TreatmentEffectQuery,
    TreatmentEffectRelease,
    cells_of_arm,
)
from hdpstats.noise.discrete import TwoSidedGeometric
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.privacy.sensitivity import Relation
from hdpstats.schema.columns import Binary, Continuous
from hdpstats.schema.partitions import Parts
from hdpstats.schema.schema import Schema
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import AdmittedTable


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedTreatmentEffect(Prepared):
    """A table of weights with its design and its noise fixed."""

    query: TreatmentEffectQuery
    design: Design
    noise: TwoSidedGeometric

    @property
    def loops(self) -> frozenset[Loops]:
        """Those over rows of a regression."""
        return frozenset({Loops.REGRESSIONS})

    @property
    def cells(self) -> int:
        """All cells."""
        return ARMS * self.query.cells

    @property
    def noise_sd(self) -> float:
        """The standard deviation of the noise of a cell, in people."""
        return float(self.noise.variance**0.5) / UNITS

    def work(self, rows: int) -> Operations:
        """Return what the noise, the weights and the sums take at most."""
        sums = Operations(steps=300.0, passes=80.0 * rows)
        if self.query.most_rows is not None:
            sums = sums + averaging_work(rows)
        return self.noise.work(self.cells) + weighting_work(self.query.weighting, self.design, rows) + sums

    def compute(self, rows: Parts[AdmittedTable]) -> TreatmentEffectRelease:
        """Draw the noise, weigh, add and release."""
        noise = self.noise.draws(self.cells)
        weights = added(noise, rows.total(self.totals))
        return TreatmentEffectRelease(weights=weights, noise_sd=self.noise_sd, events=self.events)

    def totals(self, table: AdmittedTable) -> IntArray:
        """Return the total weight of each cell, in units: exact, in any order."""
        return totals_of(self.query, self.design, table)


def prepare(query: TreatmentEffectQuery, site_facts: SiteFacts) -> PreparedTreatmentEffect:
    """Fix the noise, or refuse what the proof does not cover."""
    _check_rows(query, site_facts)
    design = weighting_design(query.weighting, site_facts.schema)
    _check_outcome(query, design, site_facts.schema)
    return PreparedTreatmentEffect(
        needs=query.names,
        events=(PrivacyEvent(ran=MechanismName.WEIGHTED_CELLS, epsilon=query.epsilon),),
        query=query,
        design=design,
        noise=TwoSidedGeometric(rate=query.epsilon / sensitivity(site_facts.relation)),
    )


def sensitivity(relation: Relation) -> int:
    """Return how far one person moves the table in the L1 norm, in units."""
    return UNITS * relation.persons_changed


def _check_rows(query: TreatmentEffectQuery, site_facts: SiteFacts) -> None:
    """Refuse a query that takes people's rows otherwise than the site: with several an outcome is their mean."""
    used = None if site_facts.unit is None else site_facts.most_rows
    if query.most_rows != used:
        ours, theirs = (
            "one row" if each is None else f"a mean over {each} rows at most" for each in (used, query.most_rows)
        )
        raise SiteError(f"this site takes {ours} of a person, and the query {theirs}")


def _check_outcome(query: TreatmentEffectQuery, design: Design, schema: Schema) -> None:
    column = schema.get(query.outcome)
    if column is None:
        raise SchemaError(f"this site's schema declares no column {query.outcome!r}", columns=(query.outcome,))
    if query.outcome in design.needs:
        raise MechanismError("the outcome must be another column than the treatment and the covariates")
    if not isinstance(column, Binary | Continuous) or (column.lower, column.upper) != (query.lower, query.upper):
        raise SiteError(f"this site's schema declares {query.outcome!r} otherwise than the query")
    if query.cells != cells_of_arm(binary=isinstance(column, Binary), most_rows=query.most_rows):
        raise SiteError(f"an arm has other cells than this site's schema and rows of a person give {query.outcome!r}")


def shares_of(query: TreatmentEffectQuery, weights: IntArray, outcome: FloatArray) -> IntArray:
    """Return what each person adds to the cells of the own arm (cells, n), in units: ``weights`` in sum."""
    if query.cells == BINARY:
        happened = np.floor(weights * np.clip(outcome, 0.0, 1.0)).astype(np.int64)
        return np.stack([weights - happened, happened])
    place = np.clip((outcome - query.lower) / (query.upper - query.lower), 0.0, 1.0)
    high = np.floor(weights * place**2).astype(np.int64)
    middle = np.floor(weights * (2.0 * place * (1.0 - place))).astype(np.int64)
    return np.stack([np.maximum(weights - middle - high, 0), middle, high])


def totals_of(query: TreatmentEffectQuery, design: Design, table: AdmittedTable) -> IntArray:
    """Return the total weights (arms x cells,) of the people of a table, the untreated first."""
    table = table.averaged(query.outcome, most_rows=query.most_rows or 1)
    weights, treated = units(weights_of(query.weighting, design, table)), table.numeric[design.response] == 1.0
    shares = shares_of(query, np.where(table.complete, weights, 0), table.numeric[query.outcome])
    return np.concatenate([np.where(treated == arm, shares, 0).sum(axis=1) for arm in (False, True)])
