r"""Integers added over people with one row each, and exact noise: counts in public cells, and choices by cost.

Several mechanisms differ only in the public map from a row to integers. What they share, with its proof, is here.

**Counts.** A public total map sends each private person to exactly one of a public number of cells; the release is the
number of people in each cell plus independent two-sided geometric noise, exact in integers
(`hdpstats.noise.discrete`). *Sensitivity*, in the L1 norm: adding or removing a person changes one cell by 1,
replacing one takes 1 from one cell and adds 1 to another: 1 and 2, both attained. *Guarantee*: with rate :math:`\rho`
the probabilities of a table under neighbours differ by at most :math:`\exp(\rho \|c - c'\|_1)`, so that
:math:`\rho = \epsilon / 2` (replace-one) or :math:`\epsilon` (add-or-remove-one) is epsilon-DP, and no smaller noise of
this kind is (Ghosh, Roughgarden and Sundararajan 2012).

**Choices.** Each candidate has an integer cost, a sum over private people and a public penalty, and permute-and-flip
(`hdpstats.noise.discrete`) prefers the cheap: rate :math:`\epsilon / R` is epsilon-DP, where ``R`` bounds the
change of any difference of two costs between neighbours.

**Missing cells.** A person whose row has a missing cell is in no cell and adds no cost. A table without one person's
one, and costs of 0, are what neighbours under add-or-remove-one have, and less than a replaced person moves.

The map of a row depends on that row and on public constants alone, to the last bit, and integers are added: sums are
exact in any order.

References
----------
Ghosh, Roughgarden and Sundararajan (2012), Universally utility-maximizing privacy mechanisms.
McKenna and Sheldon (2020), Permute-and-flip: a new mechanism for differentially private selection.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hdpstats._base.errors import MechanismError, SiteError
from hdpstats._base.typing import BoolArray, IntArray
from hdpstats.formulas import Design, compile_design
from hdpstats.mechanisms.base import Prepared, SiteFacts
from hdpstats.noise.discrete import TwoSidedGeometric
from hdpstats.records.query import TableRelease
from hdpstats.schema.partitions import Parts
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import AdmittedTable


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedCounts(Prepared, ABC):
    """Numbers of people in a public number of cells, with their noise fixed.

    Attributes
    ----------
    release : type
        The release that holds them.
    cells : int
        The number of cells.
    noise : TwoSidedGeometric
        Of each count: `noise_of_counts`.
    """

    release: ClassVar[type[TableRelease]]
    cells: int
    noise: TwoSidedGeometric

    @abstractmethod
    def counts(self, table: AdmittedTable) -> IntArray:
        """Return the number of people in each cell (cells,)."""

    def compute(self, rows: Parts[AdmittedTable]) -> TableRelease:
        """Draw the noise, count, add and release."""
        noise = self.noise.draws(self.cells)
        counts = added(noise, rows.total(self.counts))
        return self.release(counts=counts, noise_variance=self.noise.variance, events=self.events)


def counted(places: IntArray, complete: BoolArray, cells: int) -> IntArray:
    """Return the number of complete rows (cells,) in each cell, from the cell and the completeness of each row (n,).

    >>> counted(np.array([1, 0, 1]), np.array([True, True, False]), 2)
    array([1, 1])
    """
    return np.bincount(np.where(complete, places, cells), minlength=cells + 1)[:cells]


def noise_of_counts(epsilon: Fraction, site_facts: SiteFacts) -> TwoSidedGeometric:
    """Return the noise of each count under a site's relation."""
    return TwoSidedGeometric(rate=epsilon / site_facts.relation.persons_changed)


def added(noise: Sequence[int], totals: Iterable[int]) -> tuple[int, ...]:
    """Return noise plus integer totals, one by one."""
    return tuple(z + int(total) for z, total in zip(noise, totals, strict=True))


def check_one_row(site_facts: SiteFacts, why: str) -> None:
    """Refuse a site whose people have several rows: the proofs here count rows."""
    if site_facts.unit is not None:
        raise SiteError(f"this site's people have several rows each; {why} with one row")


def binary_design(formula: str, schema: Schema, *, coefficients: int, what: str) -> Design:
    """Return the design of a formula with a binary outcome, which as many coefficients fit."""
    design = compile_design(formula, schema)
    if schema[design.response].kind != "binary":
        raise MechanismError(f"{what} needs a binary outcome; {design.response!r} is none in this site's schema")
    check_columns(len(design.columns), coefficients)
    return design


def check_columns(columns: int, coefficients: int) -> None:
    """Refuse coefficients that a formula's columns do not fit."""
    if columns != coefficients:
        raise SiteError(f"the formula has {columns} columns, and the query {coefficients} coefficients")
