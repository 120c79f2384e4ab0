"""One person's loss as a mechanism sees it: constants with proofs, and the private rows that it is summed over."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.compiled import Loops
from hdpstats._base.errors import MechanismError, SiteError
from hdpstats._base.typing import ExactArray, FloatArray, IntArray
from hdpstats._base.work import Operations, sorting
from hdpstats.families.overlap_weights import weighting_work, weights_of
from hdpstats.families.several_rows import row_weights, total_weight
from hdpstats.formulas import Design
from hdpstats.privacy.sensitivity import BallNorm, Norm, Relation
from hdpstats.records.model import AnyModel
from hdpstats.schema.columns import NumericColumn
from hdpstats.schema.partitions import Parts
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import AdmittedTable, joined
from hdpstats.solvers.objective import ObjectiveWork, Rows

ROUNDING = 1 + Fraction(1, 2**40)
"""Inflation of a person's size: weights and rows are doubles, each within a few 2^-53 of its formula."""

NUMBERS = 2**20
"""Numbers of Hessians that are held at a time, however many people there are and however many rows one brings."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LossWork:
    """What people's losses take at most, of a number of rows.

    Attributes
    ----------
    read : Operations
        From an admitted table to the people.
    sums : ObjectiveWork
        Their objective.
    scores, losses, stacked : Operations
        `Rows.scores`, `Rows.losses`, `Rows.stacked_hessian`, each once.
    sandwich : Operations
        `Rows.stacked_sandwich`, where the loss releases it.
    """

    read: Operations
    sums: ObjectiveWork
    scores: Operations
    losses: Operations
    stacked: Operations
    sandwich: Operations = field(default_factory=Operations)


class PersonLoss(ABC):
    """The loss of one person in whitened coordinates, with its constants; case weights are counted in all of them.

    Attributes
    ----------
    dimension : int
        D.
    norm : Norm
        The norm ``K`` in which gradients are measured.
    gradient_bound : Fraction
        ``sup K(gradient)`` of one person.
    euclidean_bound : Fraction
        ``sup ||gradient||_2`` of one person.
    trace : Fraction
        Bound on the trace of one person's Hessian, hence on its Frobenius norm, and where a gradient has kinks on its
        Lipschitz constant: between kinks it follows the Hessians.
    rank : int
        Bound on the dimension of a space that holds the gradients of one person at all coefficients.
    fixed_sign : bool
        Whether the record fixes a vector that a person's gradients are nonnegative multiples of, whatever the
        coefficients.
    valued : bool
        Whether `Rows.losses` gives values: not every loss has a closed form beside that of its derivative.
    releases_sandwich : bool
        Whether `Rows.stacked_sandwich` gives cut Hessians and squared scores.
    needs : tuple of str
        The columns of the schema that are read.
    """

    @property
    @abstractmethod
    def dimension(self) -> int:
        """D."""

    @property
    def norm(self) -> Norm:
        """``K``: the Euclidean norm, where it is no other."""
        return BallNorm()

    @property
    @abstractmethod
    def gradient_bound(self) -> Fraction:
        """``sup K(gradient)``."""

    @property
    @abstractmethod
    def euclidean_bound(self) -> Fraction:
        """``sup ||gradient||_2``."""

    @property
    @abstractmethod
    def trace(self) -> Fraction:
        """``sup tr Hessian``."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """The dimension of a person's gradients."""

    @property
    def fixed_sign(self) -> bool:
        """Whether gradients are nonnegative multiples of a vector that the record fixes."""
        return False

    @property
    def total_of_cut(self) -> Fraction:
        """How much longer than a cut vector `Rows.cut_scores` of a person may be at most, rounding included.

        1 where a person's score is cut as a whole; ``W`` where it is the sum of cut scores of rows.
        """
        return Fraction(1)

    @property
    def charges_determinant(self) -> bool:
        """Whether the determinant is charged for as a matter of course."""
        return False

    @property
    def releases_sandwich(self) -> bool:
        """Whether people's cut Hessians and squared scores are summed: no, where nothing else is said."""
        return False

    @property
    @abstractmethod
    def valued(self) -> bool:
        """Whether people's losses have values."""

    @property
    @abstractmethod
    def needs(self) -> tuple[str, ...]:
        """The columns that are read."""

    @property
    def loops(self) -> frozenset[Loops]:
        """The kinds of compiled loops that `Rows.penalised` of people may run."""
        return frozenset({Loops.REGRESSIONS})

    @abstractmethod
    def noise_rate(self, epsilon: Fraction, *, ridge: Fraction, cell: Fraction, relation: Relation) -> Fraction:
        """Return the largest certified rate ``rho`` of objective noise ``exp(-rho K(b))``, rounded down.

        The privacy loss, determinant included and ``rho cell`` added, is at most ``epsilon``.

        Raises
        ------
        MechanismError
            If the determinant alone costs more.
        """

    @abstractmethod
    def jacobian(self, ridge: Fraction) -> Fraction:
        """Return a bound on ``log det(I + H / ridge)`` over one person's Hessian ``H``, rounded up."""

    @abstractmethod
    def largest_loss(self, centre: FloatArray) -> float:
        """Return how far one person's loss at ``centre`` (D,) can be above its infimum; infinite where that is unknown.

        A bound: the work of a minimisation rests on it.
        """

    @abstractmethod
    def rounding(self, size: float, *, people: int) -> float:
        """Return a bound on the float error of a sum of gradients at all coefficients of norm ``size`` at most.

        Up to a hundredth of it, which whoever asks adds.
        """

    def curvature(self, people: int) -> float:
        """Return a Lipschitz constant of the gradient of the sum of so many people's losses, kinks included."""
        return people * float(self.trace)

    def slope(self, people: int) -> float:
        """Return a bound on the length of the gradient of the sum of so many people's losses."""
        return people * float(self.euclidean_bound)

    def counted(self, people: int) -> int:
        """Return what `Rows.count` is for so many private people."""
        return people

    @abstractmethod
    def loss_rounding(self, size: float) -> float:
        """Return a bound on the float error of one person's loss at coefficients of norm ``size``."""

    @abstractmethod
    def work(self, rows: int) -> LossWork:
        """Return what people take at most, in tables of so many rows."""

    @abstractmethod
    def people(self, table: AdmittedTable) -> Rows:
        """Return the private people of an admitted table: a total map, each person by itself."""

    @property
    def in_parts(self) -> bool:
        """Whether `people_of` reads partitions one by one, again at each pass."""
        return False

    def people_of(self, rows: Parts[AdmittedTable]) -> Rows:
        """Return the private people of all partitions: here of all rows in memory."""
        return self.people(rows.gathered(joined))


@dataclass(frozen=True, kw_only=True, slots=True)
class DeclaredLoss(PersonLoss, ABC):
    """The loss of a model with the declared bound of its case weights.

    ``propensity`` is the design of the model's weighting by propensity, where it has one and rows are read.
    """

    model: AnyModel
    largest_weight: float
    propensity: Design | None = None

    @property
    def dimension(self) -> int:
        """The number of coefficients."""
        return self.model.dimension

    @property
    def half(self) -> Fraction:
        """The largest weight, rounding included."""
        return Fraction(self.largest_weight) * ROUNDING

    def case_weights(self, table: AdmittedTable) -> FloatArray:
        """Return the case weights (n,) of rows, or what their chance of treatment makes them weigh: from 0 to 1."""
        weighting = self.model.overlap
        if weighting is None:
            return numbers_of(table, self.model.weights, otherwise=1.0)
        if self.propensity is None:
            raise MechanismError("a loss without the design of its weighting reads no rows")
        return weights_of(weighting, self.propensity, table)

    def with_needs_of_weights(self, needs: Sequence[str]) -> tuple[str, ...]:
        """Return columns of a design with those of case weights and offset, and what a weighting reads besides."""
        extra = [name for name in (self.model.weights, self.model.offset) if name is not None]
        weighting = () if self.model.overlap is None else self.model.overlap.columns
        return tuple(dict.fromkeys((*needs, *extra, *weighting)))

    def weighting_work(self, rows: int) -> Operations:
        """Return what the weights by propensity of so many rows take at most."""
        weighting = self.model.overlap
        if weighting is None or self.propensity is None:
            return Operations()
        return weighting_work(weighting, self.propensity, rows)


@dataclass(frozen=True, kw_only=True, slots=True)
class RowLoss(DeclaredLoss, ABC):
    """The loss of a person with rows of a design; ``design`` may be None where only constants are asked.

    ``most_rows`` is the largest number of rows of a person that are used (`hdpstats.families.several_rows`).
    """

    design: Design | None = None
    most_rows: int = 1

    @property
    def half(self) -> Fraction:
        """The largest weight of a person, rounding included: ``W`` times that of a case."""
        return Fraction(self.largest_weight) * ROUNDING * self.total_of_cut

    @property
    def total_of_cut(self) -> Fraction:
        """``W`` with the rounding of weights ``w(n)`` and of sums over so many rows; 1 of people with one row."""
        return Fraction(1) if self.most_rows == 1 else self.total * (1 + self.most_rows * Fraction(1, 2**48))

    @property
    def total(self) -> Fraction:
        """``W``: the largest sum of the weights of a person's rows, case weights aside."""
        return total_weight(self.most_rows, self.model.several_rows)

    def row_weights(self, table: AdmittedTable) -> FloatArray:
        """Return the case weight of each row times what its person's number of rows makes of it; 0 if incomplete.

        Of people who are weighted by their chance of treatment it is that weight.
        """
        weights, counts = self.case_weights(table) * table.complete, self.counts(table)
        return weights if counts is None else weights * counts

    def counts(self, table: AdmittedTable) -> FloatArray | None:
        """Return ``w(n)`` of each row, 0 of incomplete ones; None where every row is a person."""
        if table.persons is None or self.model.several_rows is None:
            return None
        return row_weights(table.persons, table.complete, self.model.several_rows)

    @property
    def valued(self) -> bool:
        """Losses have values in closed form."""
        return True

    @property
    def needs(self) -> tuple[str, ...]:
        """The design's columns, case weights and offsets, and what a weighting by propensity reads besides."""
        return self.with_needs_of_weights(self.read.needs)

    @property
    def read(self) -> Design:
        """The design, of rows that are read."""
        if self.design is None:
            raise MechanismError("a loss without a design reads no rows")
        return self.design


def added_in_grid_steps(
    people: int,
    dimension: int,
    *,
    grid: float,
    of_people: Callable[[slice, IntArray, IntArray, FloatArray], FloatArray],
) -> ExactArray:
    """Return the exact integer sum of stacked Hessians, each person's rounded to multiples of ``grid`` first.

    ``of_people`` returns those of a slice of people in grid steps, for the places ``i``, ``j`` of the upper triangle
    and the factors of its entries. So many people are taken at a time that they have about `NUMBERS` entries. Nothing
    is cut here: steps are below 2^26 by the range of bounds that a grid is made of (`hdpstats.mechanisms.minimiser`).
    """
    i, j = np.triu_indices(dimension)
    factor = np.where(i == j, 1.0, math.sqrt(2.0)) / grid
    total, size = np.zeros(len(i), dtype=object), max(1, NUMBERS // len(i))
    for start in range(0, people, size):
        steps = np.rint(of_people(slice(start, start + size), i, j, factor)).astype(np.int64)
        total += steps.sum(axis=0).astype(object)  # of at most 2^20 numbers, each below 2^26
    return total


def summed(person: IntArray, of_rows: FloatArray, *, people: int) -> FloatArray:
    """Return the sums (people, D) of what rows contribute (n, D), each person's in the order of the rows."""
    added = [np.bincount(person, weights=column, minlength=people) for column in of_rows.T]
    return np.asarray(np.stack(added).T, dtype=np.float64)  # of nobody they are integers


def cut_and_summed(
    person: IntArray | None,
    counts: FloatArray | None,
    of_rows: FloatArray,
    cut: Callable[[FloatArray], FloatArray],
    *,
    people: int,
) -> FloatArray:
    """Return `Rows.cut_scores` (people, D) from the scores of rows (n, D), weights ``counts`` (n,) included."""
    if person is None:
        return cut(of_rows)
    own = np.ones(len(person)) if counts is None else counts
    one = of_rows / np.where(own > 0.0, own, 1.0)[:, None]  # of a row that counts nothing the score is 0
    return summed(person, own[:, None] * cut(one), people=people)


def number_of_people(person: IntArray | None, *, rows: int) -> int:
    """Return how many people there are, from whose each row is; None: every row is a person."""
    return rows if person is None else int(person.max(initial=-1)) + 1


def added_by_person(
    person: IntArray,
    dimension: int,
    *,
    grid: float,
    of_rows: Callable[[slice, IntArray, IntArray, FloatArray], FloatArray],
) -> ExactArray:
    """Return `added_in_grid_steps` of people whose rows (n,) stand together, from what rows contribute."""
    people = number_of_people(person, rows=len(person))

    def of_people(part: slice, i: IntArray, j: IntArray, factor: FloatArray) -> FloatArray:
        start, stop = np.searchsorted(person, [part.start, part.stop]).tolist()
        step, out = part.stop - part.start, np.zeros((min(part.stop, people) - part.start, len(i)))
        for first in range(start, stop, step):
            some = slice(first, min(first + step, stop))
            np.add.at(out, person[some] - part.start, of_rows(some, i, j, factor))
        return out

    return added_in_grid_steps(people, dimension, grid=grid, of_people=of_people)


def several_work(of_rows: LossWork, rows: int, D: int, *, columns: int) -> LossWork:
    """Return what the losses of people with several rows take at most: rows are put together, and added by person."""
    together = Operations(steps=60.0 + 12.0 * columns, passes=(6.0 * columns + 50.0) * rows, sorts=6.0 * sorting(rows))
    return LossWork(
        read=of_rows.read + together,
        sums=of_rows.sums,
        scores=of_rows.scores + Operations(steps=10.0 * D, passes=10.0 * rows * D),
        losses=of_rows.losses + Operations(steps=10.0, passes=10.0 * rows),
        stacked=of_rows.stacked + Operations(steps=400.0, passes=40.0 * rows * D**2),
        sandwich=of_rows.sandwich + Operations(steps=900.0, passes=90.0 * rows * D**2 + 100.0 * rows),
    )


def averaging_work(rows: int) -> Operations:
    """Return what `AdmittedTable.averaged` takes of so many rows at most."""
    return Operations(steps=400.0, passes=160.0 * rows, sorts=10.0 * sorting(rows))


def stacking_work(rows: int, D: int) -> Operations:
    """Return what `added_in_grid_steps` takes at most: products of columns for each entry of the Hessians."""
    numbers = 0.5 * D * (D + 1.0) * rows
    return Operations(steps=60.0 * (numbers / NUMBERS + 2.0), passes=30.0 * numbers)


def numbers_of(table: AdmittedTable, name: str | None, *, otherwise: float) -> FloatArray:
    """Return a column of a table, or the same number for every row where there is no column."""
    return table.numeric[name] if name is not None else np.full(table.rows, otherwise)


def declared_bound(schema: Schema, name: str | None, *, kind: str, default: float) -> float:
    """Return the declared bound of a weight's or an offset's size."""
    if name is None:
        return default
    column = schema.get(name)
    if not isinstance(column, NumericColumn) or column.kind != kind:
        raise SiteError(f"{name!r} is not declared as a column of kind {kind} in this site's schema")
    return max(abs(column.lower), abs(column.upper))
