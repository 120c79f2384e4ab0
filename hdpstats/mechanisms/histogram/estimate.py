r"""The grid of a noisy histogram, and weights from its counts, or from those of nearest points.

Lei's perturbed histogram uses private records alone, on a grid from the schema. Every column is cut into classes of
equal width between its declared bounds; the noisy number of people in each cell is released once, and the centres of
cells with these weights stand for the people. It is the baseline for what public records add: it needs none, and the
number of cells grows with every column.

**Grid.** How many classes a numeric column gets is public, and follows from second moments, on which every fit rests.
In units of the variance :math:`R^2 / 12` of an even spread over the range ``R``, centres of ``b`` classes add :math:`1
/ b^2` to the variance of a column (Sheppard 1898). What the noise of ``m`` cells with variance ``v`` leaves in empty
cells once counts are projected neighbourhood by neighbourhood is of the order of :math:`\sqrt{m v}` people, who are
spread over the whole range, and adds :math:`\sqrt{m v} / n`. ``b`` minimises the sum: with ``k`` numeric columns and
``c`` cells for one class each, near :math:`b^{2 + k/2} = 4 n / (k \sqrt{c v})`. Where more than a tenth is left, the
histogram is refused: little would be learned from it. (Noise moves a mean far less, as positive and negative parts
cancel; classes that suit means are too many for fits.)

**Weights.** Each public row has an equal share of the weight of its cell. A cell ``k`` holds a true count :math:`c_k`
of private people and :math:`r_k` public rows, at least one. Released are :math:`\tilde c_k = c_k + z_k` with two-sided
geometric ``z``; the weight of a public row of the cell is :math:`w_k / r_k` with ``w`` a projection of :math:`\tilde
c`.

**Errors.** Private people are a sample of ``n`` (of a Poisson number where ``n`` is protected), so the counts are
multinomial; within a cell the public rows are a sample of what the private people are there. For residuals with mean
:math:`\bar\rho_k` and covariance :math:`S_k` among the public rows of a cell, :math:`\sum_i w_i \rho_i` has the
covariance

.. math:: \sum_k w_k \bar\rho_k \bar\rho_k' - \tfrac1n \big(\textstyle\sum_k w_k \bar\rho_k\big)
          \big(\sum_k w_k \bar\rho_k\big)' + \sum_k w_k^2 S_k / r_k
          \;+\; \mathrm{var}(z) \sum_k \bar\rho_k \bar\rho_k',

the last term being the privacy noise, exact where nothing is projected. That public rows of a cell differ from private
people of the same cell is a bias of the order of the size of cells, which no standard error counts.

Where counts of neighbouring points were added up, a cell holds as many independent noises, and its noise has so many
times the variance.

Draws repeat the whole way: counts given the weights, noise, projection, and the public rows of each cell by a bootstrap
of :math:`r_k - 1` rows out of :math:`r_k`, which gives the variance :math:`S_k / r_k` whatever the number of rows (Rao
and Wu 1988). The choice of a subset of public rows is not repeated: it is taken as given.

**Projections** on a simplex make counts weights that are no longer negative. The Euclidean one (`project`) is the
nearest point of :math:`\{w \ge 0, \sum_k w_k = n\}` (Held, Wolfe and Crowder 1974; Duchi et al. 2008). With many nearly
empty cells it is biased: what noise puts into empty cells is taken from full ones, wherever these are. `project_nested`
keeps that within neighbourhoods. Cells stand in an order in which neighbours are close, and are halved again and again.
Each half gets its noisy sum, corrected by its share of what the two halves lack of their common total (the
least-squares correction: the variance of a noisy sum is proportional to the number of its cells; Hay et al. 2010), and
cut to between 0 and that total. So the totals of large regions, whose relative noise is small, remain unbiased, and
only cells near each other exchange what noise has added. Both are post-processing.

References
----------
Lei (2011), Differentially private M-estimators. Sheppard (1898), On the calculation of the most probable values of
frequency-constants for data arranged according to equidistant divisions of a scale.
Rao and Wu (1988), Resampling inference with complex survey data.
Held, Wolfe and Crowder (1974), Validation of subgradient optimization.
Duchi, Shalev-Shwartz, Singer and Chandra (2008), Efficient projections onto the l1-ball.
Hay, Rastogi, Miklau and Suciu (2010), Boosting the accuracy of differentially private histograms through consistency.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError, MechanismError, SchemaError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.validation import choice, integer
from hdpstats.inference.draws import Generator, generator
from hdpstats.inference.weighted_moments import WeightDistribution
from hdpstats.mechanisms.histogram import Axis
from hdpstats.noise.discrete import TwoSidedGeometric
from hdpstats.records.codec import Record
from hdpstats.records.limits import MOST_CELLS
from hdpstats.schema.columns import Binary, Categorical, NumericColumn
from hdpstats.schema.schema import Schema

USELESS = 0.1
"""Predicted error, in parts of the variance of an even spread over a column's range, above which it is refused."""

MOST_BINS = 64


def axes_of(
    schema: Schema, columns: tuple[str, ...], *, people: int, rate: Fraction, bins: int | None
) -> tuple[Axis, ...]:
    """Return the grid: a given number of classes for numeric columns, or the one whose predicted error is least."""
    unknown = [name for name in columns if name not in schema]
    if not columns or unknown:
        raise SchemaError(f"columns must be declared in the schema, not {unknown or 'missing'}", columns=tuple(unknown))
    if bins is not None:
        return _grid(schema, columns, integer(bins, name="bins", lower=2, upper=10**4))
    variance = TwoSidedGeometric(rate=rate).variance
    numeric = sum(_is_cut(schema, name) for name in columns)
    fixed = math.prod(axis.classes for axis in _grid(schema, columns, 1))
    errors = {b: _error(numeric, b, fixed * b**numeric, variance=variance, people=people) for b in range(2, MOST_BINS)}
    affordable = {b: error for b, error in errors.items() if fixed * b**numeric <= MOST_CELLS}
    best = min(affordable, key=affordable.__getitem__, default=None)
    if best is None or affordable[best] > USELESS:
        found = "no grid is coarse enough" if best is None else f"the best has {best} classes per numeric column and an"
        found += "" if best is None else f" error of about {affordable[best]:.2g} of the variance of an even spread"
        raise MechanismError(
            f"a histogram of {len(columns)} columns says too little about {people} people at this epsilon: {found}, "
            f"more than {USELESS}; take fewer columns, bins=, or mechanism 'objective' or 'output'",
            available=("objective", "output"),
        )
    return _grid(schema, columns, best)


def _error(numeric: int, bins: int, cells: int, *, variance: float, people: int) -> float:
    return (1.0 / bins**2 if numeric else 0.0) + math.sqrt(cells * variance) / max(people, 1)


def places(axes: tuple[Axis, ...]) -> FloatArray:
    """Return the cells (m, axes), the last axis fastest, as points of the unit cube."""
    shape = tuple(axis.classes for axis in axes)
    return np.asarray((np.indices(shape).reshape(len(shape), -1).T + 0.5) / shape)


def _is_cut(schema: Schema, name: str) -> bool:
    return isinstance(schema[name], NumericColumn) and not isinstance(schema[name], Binary)


def _grid(schema: Schema, columns: tuple[str, ...], bins: int) -> tuple[Axis, ...]:
    axes: list[Axis] = []
    for name in columns:
        column = schema[name]
        if isinstance(column, Categorical):
            axes.append(Axis(name=name, levels=len(column.levels)))
        elif isinstance(column, Binary):
            axes.append(Axis(name=name, cuts=(0.5,)))
        elif isinstance(column, NumericColumn):
            axes.append(Axis(name=name, cuts=tuple(np.linspace(column.lower, column.upper, bins + 1)[1:-1].tolist())))
    return tuple(axes)


def centres(schema: Schema, axes: tuple[Axis, ...]) -> pd.DataFrame:
    """Return a row for each cell, the last axis fastest: the middle of its classes, or its levels."""
    values: list[list[object]] = []
    for axis in axes:
        column = schema[axis.name]
        if isinstance(column, Categorical):
            values.append(list(column.levels))
        elif isinstance(column, Binary):
            values.append([0.0, 1.0])
        elif isinstance(column, NumericColumn):
            edges = (column.lower, *axis.cuts, column.upper)
            values.append([(a + b) / 2.0 for a, b in itertools.pairwise(edges)])
    grid = pd.MultiIndex.from_product(values, names=[axis.name for axis in axes]).to_frame(index=False)
    for axis in axes:
        column = schema[axis.name]
        if isinstance(column, Categorical):
            grid[axis.name] = pd.Categorical(grid[axis.name], categories=list(column.levels))
    return grid


PROJECTIONS = ("simplex", "clip", "none")

BATCH = 2**22
"""Numbers drawn at a time."""

KEPT = 4 * 10**7
"""Numbers that are kept for the next analysis: 320 MB, the 400 draws of 100 000 rows. More are drawn anew each time."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HistogramWeights(WeightDistribution, Record):
    """Noisy counts, and how they became weights.

    Attributes
    ----------
    counts : (m,) int64
        The noisy counts of the cells.
    rate : Fraction
        The rate of their two-sided geometric noise.
    cell : (n,) int64
        The cell of each public row; every cell has one or more.
    records : int or None
        The number of private people where it is public; else None, and the noisy counts' own sum takes its place.
    projection : str
        ``"simplex"``, ``"clip"`` (negative counts become 0, the others keep their proportions) or ``"none"``.
    seed : str
        The SHA-256 of the release.
    order : (m,) int64 or None
        The cells in an order in which neighbours are close: the simplex projection halves it. None: one simplex for
        all.
    noises : (m,) int64 or None
        The number of independent noises in each count; None: one in each.
    """

    kind: ClassVar[str] = "histogram"
    counts: IntArray
    rate: Fraction
    cell: IntArray
    records: int | None
    projection: str
    seed: str
    order: IntArray | None = None
    noises: IntArray | None = None
    _rows: IntArray = field(init=False, repr=False)
    _weights: FloatArray = field(init=False, repr=False)
    _kept: dict[int, FloatArray] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Check the parts, and compute the weights once."""
        choice(self.projection, name="projection", options=PROJECTIONS)
        m = len(self.counts)
        rows = np.bincount(self.cell, minlength=m)
        if not m or len(rows) != m or not rows.all():
            raise ArgumentError("cell must give each cell a public row", argument="cell")
        if self.order is not None and not np.array_equal(np.sort(self.order), np.arange(m)):
            raise ArgumentError("order must name every cell once", argument="order")
        object.__setattr__(self, "_rows", rows)
        noisy = self.counts.astype(np.float64)[None, :]
        object.__setattr__(self, "_weights", self._projected(noisy, self.projection)[0])

    @property
    def weights(self) -> FloatArray:
        """The weight of each public row (n,)."""
        return np.asarray((self._weights / self._rows)[self.cell])

    @property
    def cell_weights(self) -> FloatArray:
        """The weight of each cell (m,): the estimated number of private people in it."""
        return self._weights.copy()

    @property
    def total_sd(self) -> float:
        """The standard deviation of the noise in the sum of all counts."""
        noises = len(self.counts) if self.noises is None else int(self.noises.sum())
        return float(np.sqrt(noises * TwoSidedGeometric(rate=self.rate).variance))

    @property
    def linear(self) -> bool:
        """Whether nothing was projected."""
        return self.projection == "none"

    def covariance(self, residuals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the covariance (k, k) of weighted sums of residuals (n, k): of sampling, and of the noise."""
        people, rows = self._people(), self._rows[:, None]
        means = self._sums(residuals) / rows
        whole = means.T @ people
        between = (means * people[:, None]).T @ means - np.outer(whole, whole) / max(people.sum(), 1.0)
        inner = residuals - means[self.cell]
        factor = np.where(self._rows > 1, people**2 / (self._rows * np.maximum(self._rows - 1, 1)), 0.0)
        within = (inner * factor[self.cell][:, None]).T @ inner
        noise = TwoSidedGeometric(rate=self.rate).variance * (means * self._noises()[:, None]).T @ means
        return np.asarray(between + within), np.asarray(noise)

    def draws(self, number: int) -> FloatArray:
        """Return weights (number, n) drawn from the whole pipeline, from a generator that the release seeds."""
        found, start = np.empty((number, len(self.cell))), 0
        for batch in self._batches(number):
            found[start : start + len(batch)] = batch
            start += len(batch)
        return found

    def drawn_sums(self, residuals: FloatArray, number: int) -> FloatArray:
        """Return weighted sums (number, k) for each of the `draws`, which are kept unless they are more than `KEPT`."""
        if number * len(self.cell) > KEPT:
            return np.concatenate([batch @ residuals for batch in self._batches(number)])
        if number not in self._kept:
            self._kept[number] = self.draws(number)
        return self._kept[number] @ residuals

    def _batches(self, number: int) -> Iterator[FloatArray]:
        rng = generator(self.seed)
        size = max(1, BATCH // len(self.cell))
        for start in range(0, number, size):
            yield self._draw(rng, min(size, number - start))

    def _draw(self, rng: Generator, number: int) -> FloatArray:
        people = self._people()
        if self.records is None:
            counts = rng.poisson(people, (number, len(people)))
        else:
            counts = rng.multinomial(self.records, people / people.sum(), number)
        odds = -np.expm1(-float(self.rate))
        noises, shape = self._noises(), (number, len(people))
        noisy = counts + rng.negative_binomial(noises, odds, shape) - rng.negative_binomial(noises, odds, shape)
        cells = self._projected(noisy.astype(np.float64), self.projection)
        if len(people) == len(self.cell):
            return np.asarray(cells[:, self.cell])
        return np.asarray((cells / np.maximum(self._rows - 1, 1))[:, self.cell] * self._resampled(rng, number))

    def _resampled(self, rng: Generator, number: int) -> FloatArray:
        """Return how often each row (number, n) is among the rows of its cell that a bootstrap draws."""
        n, by_cell = len(self.cell), np.argsort(self.cell, kind="stable")
        drawn = np.maximum(self._rows - 1, 1)
        first, size = (np.repeat(each, drawn) for each in (np.cumsum(self._rows) - self._rows, self._rows))
        places = first + (rng.random((number, len(size))) * size).astype(np.int64)
        places += n * np.arange(number)[:, None]
        times = np.empty((number, n))
        times[:, by_cell] = np.bincount(places.ravel(), minlength=number * n).reshape(number, n)
        return times

    def _noises(self) -> IntArray:
        return np.ones(len(self.counts), dtype=np.int64) if self.noises is None else self.noises

    def _people(self) -> FloatArray:
        """Return the estimated numbers of private people in the cells (m,), none below 0, not all 0."""
        if self.projection == "none":
            found = self._projected(self.counts.astype(np.float64)[None, :], "simplex")[0]
        else:
            found = self._weights
        return found if found.any() else np.full(len(found), 1.0 / len(found))

    def _projected(self, noisy: FloatArray, projection: str) -> FloatArray:
        """Return the weights of cells (B, m) from noisy counts (B, m)."""
        if projection == "none":
            return noisy
        known = np.maximum(noisy.sum(axis=1), 1.0) if self.records is None else np.full(len(noisy), self.records * 1.0)
        if projection == "simplex":
            return project(noisy, known) if self.order is None else project_nested(noisy, known, self.order)
        positive = np.maximum(noisy, 0.0)
        sums = positive.sum(axis=1, keepdims=True)
        even = np.full_like(positive, 1.0 / positive.shape[1])
        shares = np.divide(positive, sums, out=even, where=sums > 0)
        return np.asarray(shares * known[:, None])

    def _sums(self, residuals: FloatArray) -> FloatArray:
        m = len(self._rows)
        return np.stack([np.bincount(self.cell, column, minlength=m) for column in residuals.T], axis=1)


def project(counts: FloatArray, total: FloatArray) -> FloatArray:
    """Return the points (B, m) of the simplices of totals (B,), at least 0, that are nearest to counts (B, m).

    >>> project(np.array([[3.0, 1.0, -2.0]]), np.array([3.0])).tolist()
    [[2.5, 0.5, 0.0]]
    """
    ordered = -np.sort(-counts, axis=1)
    places = np.arange(1, counts.shape[1] + 1)
    excess = (np.cumsum(ordered, axis=1) - total[:, None]) / places
    kept = np.maximum((ordered > excess).sum(axis=1), 1)
    return np.asarray(np.maximum(counts - excess[np.arange(len(counts)), kept - 1][:, None], 0.0))


def project_nested(counts: FloatArray, total: FloatArray, order: IntArray) -> FloatArray:
    """Return weights (B, m) of sums ``total`` (B,) from counts (B, m), halving the ``order`` (m,) of cells.

    >>> project_nested(np.array([[9.0, 1.0, -4.0, 4.0]]), np.array([10.0]), np.arange(4)).tolist()
    [[9.0, 1.0, 0.0, 0.0]]
    """
    m = counts.shape[1]
    before = np.concatenate([np.zeros((len(counts), 1)), np.cumsum(counts[:, order], axis=1)], axis=1)
    bounds, sums = np.array([0, m]), total[:, None]
    while len(bounds) <= m:
        start, stop = bounds[:-1], bounds[1:]
        middle = (start + stop + 1) // 2
        left, right = before[:, middle] - before[:, start], before[:, stop] - before[:, middle]
        lacking = (sums - left - right) * ((middle - start) / (stop - start))
        first = np.clip(left + lacking, 0.0, sums)
        whole = np.stack([first, sums - first], axis=2).reshape(len(counts), -1)
        edges = np.append(np.stack([start, middle], axis=1).ravel(), m)
        some = np.diff(edges) > 0
        bounds, sums = np.append(edges[:-1][some], m), whole[:, some]
    weights = np.empty_like(sums)
    weights[:, order] = sums
    return weights
