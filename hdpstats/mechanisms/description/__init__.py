"""A description of the cohort: by group, numbers of people, shares, moments, quartiles and follow-up.

Box noise on sums of centred features, one box for each group, and two-sided geometric noise on counts of public cells;
normal noise for both where a delta is given and it is smaller. Guarantee: pure epsilon, or (epsilon, delta). Source:
Hardt and Talwar (2010), Woodruff (1952). Use: a paper's first table, and the moments of complete cases that fits need
to know. Proof: `hdpstats.mechanisms.description.site`.

* ``blocks``: Sums and counts of a description in people, with draws of their noise: as released, or as expected.
* ``correlations``: Correlations of a described cohort, from averages of products: post-processing of released
  numbers.
* ``estimate``: From noisy sums and counts to statistics with their errors: post-processing of released and public
  numbers.
* ``moments``: From a description to averages over the people of a fit, and to life tables: post-processing of
  released numbers.
* ``one_pass``: Sums of the features of columns as files hold them: one pass from stored cells to integers.
* ``people``: From a person's rows to integers: total maps, person by person, and exact sums of what they give.
* ``public_cells``: The public cells in which people are counted: groups, and intervals of follow-up.
* ``request``: The public constants of a description: centres, the cells of quartiles, and the intervals of follow-up.
* ``site``: A description of the cohort: box noise on centred features of groups, geometric noise on counts of cells.
"""

import itertools
import math
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Final, final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import check_size
from hdpstats.mechanisms.description.public_cells import MOST_GROUPS, CrossedColumn, FollowUpCells
from hdpstats.privacy.budget import EPSILON_GRAIN
from hdpstats.privacy.composition import MU_SQUARED_GRAIN, shared, square_of
from hdpstats.records.averages import CentredColumn
from hdpstats.records.codec import LEFT_OUT, Record
from hdpstats.records.limits import MOST_CELLS, Ahead, check_ahead
from hdpstats.records.overlap_weights import OverlapWeights
from hdpstats.records.query import ChargedQuery, ChargedRelease, check_epsilon

UNITS: Final = 2**20
"""A feature, and the largest case weight, are rounded to so many steps; an even number, so that 1/2 is exact."""

SHARES: Final = {"box": 3, "cells": 2, "follow_up": 2}
"""What the parts of a description cost, in proportion."""

MOST_COLUMNS: Final = 500
MOST_SUMS: Final = 20_000
"""Noisy sums of a description: groups times features."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DescribedColumn(Record):
    """A column as a description sees it. Every entry is a public constant.

    Attributes
    ----------
    name : str
        The column.
    levels : int
        The number of its levels, 2 for a binary column; 0 where it holds numbers.
    lower, upper : float
        The bounds that its numbers are cut to: those that the schema declares, or narrower ones in a query of a fit.
    centre : float
        The place, in parts of the range from ``lower``, about which squares are taken.
    complete : bool
        Whether no cell can be missing, by what the schema declares: then missing cells are not counted.
    cuts : tuple of float
        Where the cells of the quartiles meet: cell ``a`` holds the numbers in ``(cuts[a - 1], cuts[a]]``. None where no
        quartiles are asked for.
    whole : bool
        Whether public rows hold whole numbers only: then the ends of a cell are the whole numbers in it.
    squares : bool or None
        False where squares of its numbers are not summed: those of 0 and 1, whose mean says all.
    """

    name: str
    levels: int = 0
    lower: float = 0.0
    upper: float = 1.0
    centre: float = 0.5
    complete: bool = False
    cuts: tuple[float, ...] = ()
    whole: bool = False
    squares: Annotated[bool | None, LEFT_OUT] = None

    def __post_init__(self) -> None:
        """Refuse a column that contradicts itself."""
        if self.squares is not None and (self.squares or self.levels or (self.lower, self.upper) != (0.0, 1.0)):
            raise MechanismError(f"squares of {self.name!r} must be left out, or be false where it holds 0 and 1")
        if self.levels and (self.cuts or not 2 <= self.levels <= MOST_GROUPS):
            raise MechanismError(f"{self.name!r} must have 2 to {MOST_GROUPS} levels, or cuts")
        if not (math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower < self.upper):
            raise MechanismError(f"the bounds of {self.name!r} must be finite numbers that increase")
        if not 0.0 <= self.centre <= 1.0:
            raise MechanismError(f"the centre of {self.name!r} must be a place in its range, from 0 to 1")
        if not all(map(math.isfinite, self.cuts)) or any(map(operator.ge, self.cuts, self.cuts[1:])):
            raise MechanismError(f"the cuts of {self.name!r} must be finite numbers that increase")

    @property
    def far(self) -> float:
        """The largest distance of a place in the range from the centre."""
        return max(self.centre, 1.0 - self.centre)

    @property
    def values(self) -> int:
        """The number of its features that describe values: value and square, or all levels but the last."""
        return self.levels - 1 if self.levels else 2 if self.squares is None else 1

    def counts_missing(self, *, complete: bool) -> bool:
        """Whether its missing cells are counted: not where none can be, nor where only complete rows count."""
        return not (complete or self.complete)

    def features(self, *, complete: bool) -> int:
        """Return the number of its features, of which the first counts missing cells where these are counted."""
        return self.values + self.counts_missing(complete=complete)

    def cells(self, *, complete: bool) -> int:
        """Return the number of its cells, of which the last is for missing cells where these are counted."""
        return len(self.cuts) + 1 + self.counts_missing(complete=complete) if self.cuts else 0


def number_of_pairs(columns: Sequence[CentredColumn]) -> int:
    """Return how many pairs of columns are of different names, without forming them.

    >>> number_of_pairs([CentredColumn(name=name, centre=0.0, unit=1.0) for name in ("a", "a", "b")])
    2
    """
    of_names = Counter(each.name for each in columns).values()
    return (len(columns) ** 2 - sum(number**2 for number in of_names)) // 2


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DescribedPairs(Record):
    r"""Products of all pairs of some columns that are of different names, in their order. Public constants.

    A person has the factors :math:`t_j` of `CentredColumn`, cut to :math:`\pm r`, and of a pair the feature
    :math:`t_j t_k / 2 c`, cut to :math:`\pm 1/2`.

    Attributes
    ----------
    columns : tuple of CentredColumn
        Two or more; each is a column of the query, or a level of one.
    reach, largest : float
        ``r`` and ``c``.
    """

    columns: tuple[CentredColumn, ...]
    reach: float
    largest: float

    def __post_init__(self) -> None:
        """Refuse what has no pairs, and bounds that are none."""
        keys = [(each.name, each.level) for each in self.columns]
        pairs = number_of_pairs(self.columns)
        check_size("pairs", pairs, MOST_SUMS, remedy="describe fewer columns, or columns with fewer levels")
        if len(set(keys)) < len(keys) or not pairs:
            raise MechanismError("pairs need two columns or more, each once, of two names at least")
        if not all(math.isfinite(each) and 1e-6 <= each <= 1e6 for each in (self.reach, self.largest)):
            raise MechanismError("reach and largest of pairs must be numbers in [1e-6, 1e6]")

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """The places of the columns of each pair."""
        pairs = itertools.combinations(range(len(self.columns)), 2)
        return tuple((j, k) for j, k in pairs if self.columns[j].name != self.columns[k].name)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class AtRisk(Record):
    """Who is followed up beyond public times.

    Attributes
    ----------
    time : str
        The column of the end of follow-up.
    after : tuple of float
        The times.
    """

    time: str
    after: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse times that do not increase."""
        known = all(math.isfinite(time) for time in self.after) and self.after
        if not known or any(a >= b for a, b in itertools.pairwise((0.0, *self.after))):
            raise MechanismError("times at risk must be finite numbers above 0 that increase")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RowsOfPerson(Record):
    """That people's numbers of rows are described, of people with several; which rows of theirs are described.

    Attributes
    ----------
    most : int
        The most rows of a person that are used.
    ends : tuple of int
        The largest number of rows of each group of people but the last, whose is ``most``.
    correlation : float or None
        In a query of a fit ``r``: columns are described of all of a person's complete rows that are used, each of
        ``n`` of them counting ``1 / (1 + (n - 1) r)``. None where they are described of one row.
    """

    most: int
    ends: tuple[int, ...]
    correlation: float | None = None

    def __post_init__(self) -> None:
        """Refuse numbers of rows that do not increase, and what is no correlation."""
        if any(a >= b for a, b in itertools.pairwise((0, *self.ends, self.most))):
            raise MechanismError("numbers of rows must increase from 1 to below the most that are used")
        if self.correlation is not None and not 0.0 <= self.correlation <= 1.0:
            raise MechanismError("correlation must be a number from 0 to 1")

    @property
    def dimension(self) -> int:
        """The number of sums: one for each group of people but the last, and that of the numbers of rows."""
        return len(self.ends) + 1

    @property
    def lighter(self) -> bool:
        """Whether people who have fewer rows count less."""
        return self.correlation is not None and self.correlation < 1.0


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DescriptionQuery(ChargedQuery):
    """Describe columns by group.

    Attributes
    ----------
    columns : tuple of DescribedColumn
        What is described.
    by : str or None
        The column whose levels are the groups.
    groups : int
        How many groups there are; 1 without ``by``.
    complete : bool
        Whether only people count who are complete in all columns of the query.
    counted : bool
        Whether the number of people that count, or the total of their weights, is released with noise: not where it is
        the public number of records.
    weights : str or None
        The column of case weights.
    largest_weight : float
        Their declared bound; 1 without them.
    follow_up : FollowUpCells or None
        The survival outcome that is counted.
    crossed : tuple of CrossedColumn or None
        Further columns of groups: these are then the combinations of levels, of which the last column's change first.
    besides : tuple of str or None
        In a query of a fit, and in the first of two by group: columns that are not described, but that a row must be
        complete in to count.
    at_risk : AtRisk or None
        In a query of a fit: the times after which shares of people at risk are asked for.
    pairs : DescribedPairs or None
        Of which pairs of columns products are summed: only where everybody who counts has all cells.
    ahead : tuple of Spend or None
        In a query of a fit: what the fit will be charged besides, charge by charge. It is not charged now, but refused
        now if it could not be charged later. The number of people who count is then asked for by itself.
    weighting : OverlapWeights or None
        How people are weighted by their chance of treatment, in place of a column of case weights.
    followed_by : tuple of Spend or None
        In the first of two queries by group: what the second will be charged, which is refused now if it could not be
        charged then.
    rows : RowsOfPerson or None
        How many rows people have who have several; None where that is not described.
    first : tuple of str or None
        Of people with several rows the columns in which the row must be complete that is described, the first such one:
        those of a propensity model. None for all columns of the query.
    """

    kind: ClassVar[str] = "description/1"
    columns: tuple[DescribedColumn, ...] = ()
    by: str | None = None
    groups: int = 1
    complete: bool = False
    counted: bool = True
    weights: str | None = None
    largest_weight: float = 1.0
    follow_up: FollowUpCells | None = None
    public_sha256: str | None = None
    crossed: Annotated[tuple[CrossedColumn, ...] | None, LEFT_OUT] = None
    besides: Annotated[tuple[str, ...] | None, LEFT_OUT] = None
    at_risk: Annotated[AtRisk | None, LEFT_OUT] = None
    pairs: Annotated[DescribedPairs | None, LEFT_OUT] = None
    ahead: Annotated[Ahead | None, LEFT_OUT] = None
    weighting: Annotated[OverlapWeights | None, LEFT_OUT] = None
    followed_by: Annotated[Ahead | None, LEFT_OUT] = None
    rows: Annotated[RowsOfPerson | None, LEFT_OUT] = None
    first: Annotated[tuple[str, ...] | None, LEFT_OUT] = None

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself, or is too large."""
        check_epsilon(self)
        if self.rows is not None:
            self._check_rows(self.rows)
        if self.first is not None and not (self.complete and self.rows is None and {*self.first} <= {*self.names}):
            raise MechanismError("first must name columns of the query, of complete people, without numbers of rows")
        if self.is_of_fit and (self.by or self.follow_up or self.cells or not self.complete):
            raise MechanismError("a query of a fit describes complete people together, without cells and follow-up")
        self._check_request()
        self._check_weighting()
        few = max(self.epsilon.denominator, self.delta.denominator) <= 10**30
        if not (self.epsilon > 0 and 0 <= self.delta < 1 and few):
            raise MechanismError("a description needs epsilon > 0 and a delta from 0 to below 1, of at most 30 digits")
        if self.delta and (self.is_weighted or self.pairs is not None):
            raise MechanismError("a description of weighted people, or with pairs, is pure: delta must be 0")
        names = self.names
        if len(set(names)) < len(names) or not (self.columns or self.follow_up):
            raise MechanismError("a description needs columns, each of another name, and none of them the groups'")
        if not (self.by is None or self.groups >= 2) or (self.by is None and self.groups != 1):
            raise MechanismError("groups must be the levels of the column by, two or more")
        if self.crossed is not None and not (self.by and self.crossed and self.groups % self._crossings == 0):
            raise MechanismError("crossed must name columns beside by, and groups count the combinations of levels")
        self._check_pairs()
        if not (math.isfinite(self.largest_weight) and self.largest_weight > 0):
            raise MechanismError("largest_weight must be above 0")
        if self.weights is None and self.largest_weight != 1.0:
            raise MechanismError("largest_weight must be 1 without weights")
        check_size("columns", len(self.columns), MOST_COLUMNS, remedy="describe fewer at once")
        check_size("groups", self.groups, MOST_GROUPS, remedy="take a column with fewer levels")
        check_size("noisy sums", self.groups * self.dimension, MOST_SUMS, remedy="describe fewer columns or groups")
        check_size("cells", self.cells + self.follow_up_cells, MOST_CELLS, remedy="take fewer columns or times")

    def _check_request(self) -> None:
        """Refuse what only some requests ask, of which the query is one part."""
        if self.besides is not None and not (self.is_of_fit or (self.followed_by is not None and self.complete)):
            raise MechanismError("besides is of queries of complete people which say what lies ahead, or follows")
        if self.at_risk is not None and not self.is_of_fit:
            raise MechanismError("at_risk is of queries of a fit, which say what lies ahead")
        check_ahead(self.ahead or ())
        check_ahead(self.followed_by or ())
        if self.followed_by is not None and self.is_of_fit:
            raise MechanismError("a query of a fit says by ahead what follows")

    def _check_weighting(self) -> None:
        if self.weighting is None:
            return
        if self.weights is not None or self.is_of_fit or not self.complete:
            raise MechanismError("a weighting by propensity is of complete people, without case weights, in no fit")
        if self.pairs is not None or self.rows is not None:
            raise MechanismError("a description of people weighted by overlap has neither pairs nor numbers of rows")

    def _check_rows(self, rows: RowsOfPerson) -> None:
        averaged = rows.correlation is not None
        if averaged != self.is_of_fit:
            raise MechanismError("only the query of a fit describes all rows of a person, and it says how they count")
        if not self.columns or self.at_risk is not None or (self.weights is not None and not averaged):
            raise MechanismError("numbers of rows are described beside columns, without weights and times at risk")
        if averaged and (self.delta or self.pairs is not None):
            raise MechanismError("a description of all rows of a person is pure and without pairs: delta must be 0")

    def _check_pairs(self) -> None:
        described = {each.name: each for each in self.columns}
        for each in () if self.pairs is None else self.pairs.columns:
            column = described.get(each.name)
            if (
                column is None
                or (each.level is None) != (column.levels == 0)
                or (each.level or 0) > column.levels - 1 > 0
            ):
                raise MechanismError(f"pairs must be of described columns, or levels of them, and {each.name!r} is not")
            if column.counts_missing(complete=self.complete):
                raise MechanismError(f"pairs need complete people, and cells of {each.name!r} may be missing")

    @property
    def is_of_fit(self) -> bool:
        """Whether it is the query of a fit, which asks for the number of people by itself."""
        return self.ahead is not None

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that are read."""
        outcome = () if self.follow_up is None else self.follow_up.names
        followed = () if self.at_risk is None else (self.at_risk.time,)
        described = (*(each.name for each in self.columns), *outcome, *self.grouping, *self.extra)
        return (*described, *followed, *(self.besides or ()))

    @property
    def grouping(self) -> tuple[str, ...]:
        """The columns of which the levels are the groups."""
        return (*((self.by,) if self.by else ()), *(each.name for each in self.crossed or ()))

    @property
    def levels_of_groups(self) -> tuple[int, ...]:
        """The number of levels of each of them."""
        first = (self.groups // self._crossings,) if self.by else ()
        return (*first, *(each.levels for each in self.crossed or ()))

    @property
    def _crossings(self) -> int:
        return math.prod(each.levels for each in self.crossed or ())

    @property
    def is_weighted(self) -> bool:
        """Whether people are weighted, by a column or by their chance of treatment."""
        return self.weights is not None or self.weighting is not None

    @property
    def extra(self) -> tuple[str, ...]:
        """The columns of weights that are not read for something else."""
        if self.weighting is None:
            return () if self.weights is None else (self.weights,)
        outcome = () if self.follow_up is None else self.follow_up.names
        read = {*(each.name for each in self.columns), *outcome, *self.grouping}
        return tuple(name for name in self.weighting.columns if name not in read)

    @property
    def leading(self) -> int:
        """How many sums of a group stand before those of its columns: of people, of weights and their squares, or none.

        People are counted once; with weights, the first is their total, the second that of their squares. Where people
        with fewer rows count less, the first is the total of what they count.
        """
        if not self.columns:
            return 0
        lighter = self.rows is not None and self.rows.lighter
        return 2 if self.is_weighted else int(self.counted or lighter)

    @property
    def dimension(self) -> int:
        """The number of sums of one group."""
        return self.first_number + (0 if self.rows is None else self.rows.dimension)

    @property
    def first_time(self) -> int:
        """Where the features of times at risk begin among the sums of a group; those of pairs come after them."""
        return self.leading + sum(each.features(complete=self.complete) for each in self.columns)

    @property
    def first_pair(self) -> int:
        """Where the features of pairs begin among the sums of a group; those of numbers of rows come after them."""
        return self.first_time + (0 if self.at_risk is None else len(self.at_risk.after))

    @property
    def first_number(self) -> int:
        """Where the features of numbers of rows begin among the sums of a group."""
        return self.first_pair + (0 if self.pairs is None else len(self.pairs.places))

    @property
    def first_features(self) -> tuple[int, ...]:
        """Where the features of each column begin among the sums of a group."""
        widths = [each.features(complete=self.complete) for each in self.columns]
        return tuple(itertools.accumulate(widths, initial=self.leading))[:-1]

    @property
    def with_cells(self) -> tuple[DescribedColumn, ...]:
        """The columns that have cells."""
        return tuple(each for each in self.columns if each.cuts)

    @property
    def first_cells(self) -> tuple[int, ...]:
        """Where the cells of each column that has some begin among those of a group, and how many these are."""
        return tuple(itertools.accumulate((each.cells(complete=self.complete) for each in self.with_cells), initial=0))

    @property
    def cells(self) -> int:
        """All cells of quartiles."""
        return self.groups * self.first_cells[-1]

    @property
    def follow_up_cells(self) -> int:
        """All cells of follow-up; the last one is for people of whom group, time or event is missing."""
        return 0 if self.follow_up is None else self.groups * self.follow_up.cells + 1

    @property
    def costs(self) -> Mapping[str, Fraction]:
        """What each part costs, by its name in `SHARES`: an epsilon, or where there is a delta a ``mu_squared``."""
        sizes = {"box": self.dimension, "cells": self.cells, "follow_up": self.follow_up_cells}
        return costs_of(self.epsilon, self.delta, tuple(name for name, size in sizes.items() if size))


def costs_of(epsilon: Fraction, delta: Fraction, parts: tuple[str, ...]) -> Mapping[str, Fraction]:
    """Return what the parts of a description cost; together they keep epsilon and delta.

    Without a delta they are epsilons that sum to the query's. With one they are squares of parameters of Gaussian
    differential privacy, whose sum implies the pair.

    >>> {name: str(cost) for name, cost in costs_of(Fraction(1), Fraction(0), ("box", "cells")).items()}
    {'box': '3/5', 'cells': '2/5'}
    """
    weights = [SHARES[name] for name in parts]
    if delta == 0:
        amounts = shared(epsilon, weights, EPSILON_GRAIN)
    else:
        amounts = shared(square_of(epsilon, delta), weights, MU_SQUARED_GRAIN)
    if min(amounts) <= 0:
        raise MechanismError("epsilon is too small to be divided among the parts of a description; ask for more")
    return dict(zip(parts, amounts, strict=True))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DescriptionRelease(ChargedRelease):
    """Noisy sums and counts of groups. Everything but ``sums``, ``cells`` and ``follow_up`` is a public constant.

    Attributes
    ----------
    sums : tuple of int
        The noisy sums of features, group by group, in 2^-20.
    sums_sd : float
        The standard deviation of the noise in each, in people (of the largest weight); 0 where there are none.
    cells : tuple of int
        The noisy counts of cells, group by group and column by column; with weights in 2^-20 of the largest one.
    cells_sd : float
        The standard deviation of the noise in each, in people.
    follow_up : tuple of int
        The noisy counts of the cells of follow-up, in the same unit.
    follow_up_sd : float
        The standard deviation of the noise in each, in people.
    records : int or None
        The number of people where it is public and all of them count, or all are in cells of follow-up and nothing else
        was asked; None where it is protected.
    """

    kind: ClassVar[str] = "description/1"
    sums: tuple[int, ...]
    sums_sd: float
    cells: tuple[int, ...]
    cells_sd: float
    follow_up: tuple[int, ...]
    follow_up_sd: float
    records: int | None
