r"""What every mechanism offers a site: a check without rows and a computation with them; rows on which it costs most.

Several mechanisms add integers over people with one row each, and exact noise: counts in public cells, and choices by
cost. They differ only in the public map from a row to integers. What they share, with its proof, is here.

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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

import numpy as np

from hdpstats._base.compiled import Loops
from hdpstats._base.errors import MechanismError, SiteError
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats._base.work import Operations
from hdpstats.formulas import Design, compile_design
from hdpstats.formulas.compiler import compile_survival
from hdpstats.losses.families import Family, Interval
from hdpstats.noise.discrete import TwoSidedGeometric
from hdpstats.privacy.budget import PrivacyEvent, Spend
from hdpstats.records.estimate import Estimates
from hdpstats.records.model import TimeGrid
from hdpstats.records.query import Query, Release, TableRelease
from hdpstats.schema.datasets import FollowUpColumns, costly_frame
from hdpstats.schema.partitions import Parts
from hdpstats.schema.schema import Schema
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import AdmittedTable, PrivateTable


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared(ABC):
    """A query whose every constant is fixed: what is left is to charge the ledger and to compute.

    Attributes
    ----------
    needs : tuple of str
        The columns that will be read.
    events : tuple of PrivacyEvent
        What will have run.
    ahead : tuple of Spend
        What later rounds of the same fit, or later queries of the same request, will cost, charge by charge.
    key : bytes or None
        The key by which people are marked, where the computation needs to know who is who; None where not.
    """

    needs: tuple[str, ...]
    events: tuple[PrivacyEvent, ...]
    ahead: tuple[Spend, ...] = ()
    key: bytes | None = None

    @property
    def whole(self) -> bool:
        """Whether the computation needs all rows at once: it is no sum over partitions."""
        return False

    @abstractmethod
    def work(self, rows: int) -> Operations:
        """Return what `compute` takes at most, from a table of so many rows: a function of public facts."""

    @property
    def loops(self) -> frozenset[Loops]:
        """The kinds of compiled loops that the computation may run, whatever the rows: all, where it is not known."""
        return frozenset(Loops)

    @property
    def loads(self) -> tuple[Callable[[], None], ...]:
        """What loads compiled code that this computation needs and others do not; called before anything is charged."""
        return ()

    @abstractmethod
    def compute(self, rows: Parts[AdmittedTable]) -> Release:
        """Compute the release from the admitted rows. Only a site calls this, after it charged its ledger.

        What it releases is the same for any partitions of the same rows.
        """


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DistributionTask:
    """What is asked of one site in a fit of a distribution: all of it public.

    Attributes
    ----------
    family, column, ranges : Family, str, sequence of (float, float)
        The family, its column, and the declared interval of each parameter.
    guess, public : (d,) float64, int
        Parameters to plan with, and the number of public values that they rest on: 0 for the middle of the ranges.
    unit : str or None
        The column that names people.
    records, people : int
        How many people there are at the site, and at all sites together.
    epsilon, schema_sha256, replicate
        See `Query`.
    """

    family: Family
    column: str
    ranges: Sequence[Interval]
    guess: FloatArray
    public: int
    unit: str | None
    records: int
    people: int
    epsilon: Fraction
    schema_sha256: str
    replicate: int


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DistributionMethod:
    """How a mechanism fits the parameters of a distribution.

    Attributes
    ----------
    words : callable
        From the releases of the sites to what the fit is called.
    ask : callable
        From the options of the mechanism and a `DistributionTask` to the query of a site.
    read : callable
        From the family, the queries and the releases of the sites, and by name ``people`` (numbers with the standard
        deviations of their noise), ``ranges`` and ``sha256``, to `Estimates`.
    check : callable
        Takes the declared order of a site's rows and the column that names people; raises MechanismError where the
        mechanism has no proof for them.
    expected : callable
        From a query, parameters and the public facts about a site to what it would release but for the noise, were
        those the parameters of its people: what a plan reads.
    """

    words: Callable[[Sequence[Any]], str]
    ask: Callable[[Any, DistributionTask], Query]
    read: Callable[..., Estimates]
    expected: Callable[[Any, FloatArray, SiteFacts], Release]
    check: Callable[[str, str | None], None] = lambda _order, _unit: None


def costly_table(query: Query, site_facts: SiteFacts, *, rows: int) -> PrivateTable:
    """Return so many invented rows of a site's schema that cost a query as much as any rows of that number could.

    It is a table like that of private rows: with what `hdpstats.mechanisms.registry.prepare` returned for the query,
    ``prepared.compute(table.admit(prepared.needs, key=prepared.key))`` does the work, under
    `hdpstats._base.rehearsal.rehearsing` the most that it may be. For people of several rows let ``rows`` be a multiple
    of `SiteFacts.most_rows`.

    Parameters
    ----------
    query
        A query that `prepare` accepted.
    site_facts
        The public facts about the site.
    rows
        How many rows, from 1; with a unit, all rows of all people.
    """
    frame = costly_frame(
        site_facts.schema,
        rows=rows,
        unit=site_facts.unit,
        most_rows=site_facts.most_rows,
        follow_up=follow_up_of(query, site_facts.schema),
    )
    return PrivateTable.from_frame(frame, site_facts.schema, unit=site_facts.unit)


def follow_up_of(query: Query, schema: Schema) -> FollowUpColumns | None:
    """Return the survival outcome that a query is about; None where it is about none."""
    about: Any = getattr(query, "model", query)
    grid = getattr(about, "grid", None)
    if not isinstance(grid, TimeGrid):
        return None
    design = compile_survival(about.formula, schema)
    return FollowUpColumns(start=design.start, stop=design.stop, event=design.event, grid=grid)


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

    @abstractmethod
    def counting_work(self, rows: int) -> Operations:
        """Return what `counts` takes at most."""

    def work(self, rows: int) -> Operations:
        """Return what the noise, the counts and their sums take at most."""
        added = Operations(steps=40.0 + 0.5 * self.cells, passes=12.0 * rows + 20.0 * self.cells)
        return self.noise.work(self.cells) + self.counting_work(rows) + added

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
