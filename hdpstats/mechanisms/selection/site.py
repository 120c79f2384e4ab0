r"""A private choice among public candidates: how many public points to use, or which coefficients; pure epsilon.

Each candidate has an integer cost, a sum over private people and a public penalty, and permute-and-flip
(`hdpstats.noise.permute_and_flip`) prefers the cheap: rate :math:`\epsilon / R`, where ``R`` bounds the change of any
difference of two costs between neighbours.

**Sizes of a nested support.** A person costs the distance to the nearest point, at most ``reach``, in integer parts
:math:`0, \ldots, U = 2^{20}` of it. The first points of an order are nested, so for each person the distances fall from
each size to the next, exactly in doubles too, as all are the least of the same numbers; rounding keeps the order.
Hence :math:`f_i - f_j \in [0, U]` for :math:`i < j`. Adding or removing a person changes a difference of costs by at
most ``U``; replacing one, by the difference of two numbers in :math:`[0, U]`, at most ``U`` again: :math:`R = U`
under either relation, half of what a bound on each cost alone would give.

**Coefficients.** The loss of a logistic model, :math:`\log(1 + e^{\eta}) - y \eta`, of a person under each candidate,
in integer parts of ``reach``; a person costs each candidate its excess over the candidate that fits that person best,
at most ``U``. Excesses are in :math:`[0, U]`, their differences in :math:`[-U, U]`: :math:`R = U` (add-or-remove-one)
and :math:`2 U` (replace-one). To subtract a person's best, the same number from all candidates, changes no choice.

All numbers are functions of the row alone, to the last bit, and integers are added: the sums are exact in any order.

References
----------
Wang et al. (2018), section 5, suggest to choose the size by a private mechanism; the sensitivity that its algorithm 2
    states for its own criterion does not hold (``vignettes/explanation/hybrid-weights.md``).
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.errors import MechanismError, SiteError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.formulas import Design, compile_design
from hdpstats.mechanisms.base import Prepared, SiteFacts
from hdpstats.mechanisms.distance.query import UNITS
from hdpstats.mechanisms.distance.site import in_units
from hdpstats.mechanisms.neighbours.site import Landscape, landscape_of
from hdpstats.mechanisms.person_loss.base import sensitivity_factor
from hdpstats.mechanisms.selection.query import LossSelectionQuery, SelectionQuery, SelectionRelease
from hdpstats.noise.permute_and_flip import permute_and_flip
from hdpstats.privacy.event import MechanismName, PrivacyEvent
from hdpstats.schema.table import AdmittedTable
from hdpstats.solvers.kernels import row_products

MOST_LOSS = 2.0**30
"""In units of ``reach``: larger losses count as this, so that integers hold them."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedSelection(Prepared):
    """A choice among sizes with everything public fixed; ``penalties`` in integer units."""

    query: SelectionQuery
    landscape: Landscape
    penalties: tuple[int, ...]
    rate: Fraction

    def compute(self, table: AdmittedTable) -> SelectionRelease:
        """Sum the costs, choose and release."""
        totals = distance_units(self.query, self.landscape, table).tolist()
        costs = [total + penalty for total, penalty in zip(totals, self.penalties, strict=True)]
        return SelectionRelease(choice=permute_and_flip(costs, self.rate), events=self.events)


def distance_units(query: SelectionQuery, landscape: Landscape, table: AdmittedTable) -> IntArray:
    """Return the sum over rows of the distance to the nearest of the first points, for each size (K,), in units."""
    totals = np.zeros(len(query.sizes), dtype=np.int64)
    for block in landscape.neighbours(table, query.sizes):
        totals += in_units(block.squared, query.reach).sum(axis=1)
    return totals


def prepare(query: SelectionQuery, site_facts: SiteFacts) -> PreparedSelection:
    """Find the public points and fix the rate."""
    return PreparedSelection(
        needs=query.space.names,
        events=(PrivacyEvent(ran=MechanismName.SELECTION, epsilon=query.epsilon),),
        ahead=query.ahead,
        query=query,
        landscape=landscape_of(query.space, query.order, query.public_sha256, site_facts),
        penalties=tuple(round(Fraction(value) / Fraction(query.reach) * UNITS) for value in query.penalties),
        rate=query.epsilon / UNITS,
    )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedLossSelection(Prepared):
    """A choice among coefficients with everything public fixed."""

    query: LossSelectionQuery
    design: Design
    rate: Fraction

    def compute(self, table: AdmittedTable) -> SelectionRelease:
        """Sum the costs, choose and release."""
        costs = excess_units(self.query, self.design, table).sum(axis=1).tolist()
        return SelectionRelease(choice=permute_and_flip(costs, self.rate), events=self.events)


def excess_units(query: LossSelectionQuery, design: Design, table: AdmittedTable) -> IntArray:
    """Return how much more than the best candidate each one (K,) costs each row (n,), in units from 0 to `UNITS`."""
    X, y = design.matrix(table), table.numeric[design.response]
    eta = np.stack([row_products(X, np.array(candidate)) for candidate in query.candidates])
    losses = np.floor(np.minimum(_loss(eta, y) / query.reach, MOST_LOSS) * UNITS).astype(np.int64)
    return np.asarray(np.minimum(losses - losses.min(axis=0), UNITS))


def _loss(eta: FloatArray, y: FloatArray) -> FloatArray:
    """Return the logistic loss; linear predictors are finite, as columns and coefficients are bounded."""
    return np.asarray(np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta))) - y * eta)


def prepare_loss(query: LossSelectionQuery, site_facts: SiteFacts) -> PreparedLossSelection:
    """Read the formula and fix the rate."""
    if site_facts.unit is not None:
        raise SiteError("this site's people have several rows each; a choice by loss is for people with one row")
    design = compile_design(query.formula, site_facts.schema)
    if site_facts.schema[design.response].kind != "binary":
        raise MechanismError(f"a choice by loss needs a binary outcome; {design.response!r} is none")
    if len(query.candidates[0]) != len(design.columns):
        raise SiteError(f"the formula has {len(design.columns)} columns, the candidates {len(query.candidates[0])}")
    return PreparedLossSelection(
        needs=design.needs,
        events=(PrivacyEvent(ran=MechanismName.SELECTION, epsilon=query.epsilon),),
        ahead=query.ahead,
        query=query,
        design=design,
        rate=query.epsilon / (UNITS * sensitivity_factor(site_facts.relation)),
    )
