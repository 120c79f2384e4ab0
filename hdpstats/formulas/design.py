"""The design: which columns a model has, within which bounds, and their values in the rows of a table, also whitened.

A design is fixed by a formula and a schema. No row takes part in making it, and the value of a row in it
depends on that row alone: not on other rows, not on its place. `reference_matrix` gives the design of a population that
is made of declarations alone, for planning where there are no public rows.

**Whitened and weighted** rows are in one array that is kept column by column (`whitened_rows`). They are the same
numbers as ``whiten(geometry, design.matrix(table))``, to the last bit, without a copy of the design: the
whitening replaces the columns of the design, in pieces of rows that stay in cache. What is computed of a row depends on
that row alone: the sums over columns run in their order in every lane of a vector (`hdpstats._base.products`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.compiled import SMALLEST_COMPILED, compiled
from hdpstats._base.errors import SchemaError
from hdpstats._base.no_warnings import silence
from hdpstats._base.products import products
from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats._base.work import Operations
from hdpstats.formulas.expressions import Expression, Role, Variable, bounded_values_of, evaluation_work, values_of
from hdpstats.formulas.operations import Interval
from hdpstats.records.averages import CohortMoment, CohortMoments, MomentKind
from hdpstats.records.geometry import (
    LARGEST,
    Geometry,
    WeightedRows,
    from_box,
    from_public,
    mallows_weights,
    whiten,
)
from hdpstats.schema.columns import Categorical, NumericColumn
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import AdmittedTable


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """An indicator: 1 where a column has a certain level, 0 elsewhere.

    Attributes
    ----------
    column : str
        A categorical column of the schema, or a binary one.
    code : int
        The place of the level among the declared ones; 0 or 1 for a binary column.
    negated : bool
        Whether it is 1 everywhere else instead.
    """

    column: str
    code: int
    negated: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DesignColumn:
    """A column of the design: a product of expressions where all its levels hold, 0 elsewhere.

    Attributes
    ----------
    name : str
        ``"Intercept"``, ``"log1p(nodes)"``, ``"size[T.20-50]"``, ``"age:size[T.20-50]"``.
    lower, upper : float
        Bounds that the values keep in every row that the schema admits.
    expressions : tuple of Expression
        The numeric factors.
    levels : tuple of Level
        The categorical factors.
    term : str
        The term of the formula that the column is of, as it was written; "Intercept" for the intercept.
    """

    name: str
    lower: float
    upper: float
    expressions: tuple[Expression, ...]
    levels: tuple[Level, ...]
    term: str = "Intercept"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The columns of a model, made by `hdpstats.formulas.compiler.compile_design`.

    Attributes
    ----------
    formula : str
        The formula as given.
    canonical : str
        The formula with every term written out and canonical spacing; it has the same columns.
    response : str
        The outcome's column; empty for a one-sided formula.
    columns : tuple of DesignColumn
        The columns; the intercept, with bounds 1 and 1, comes first if there is one.
    intercept : bool
        Whether there is an intercept.
    needs : tuple of str
        The columns of the schema that the model reads, the outcome, if there is one, first.
    boxes : tuple of (str, Interval)
        The declared bounds of the numeric columns that the terms read.
    roles : tuple of Role
        Columns that are no terms: offset, strata and cluster.
    """

    formula: str
    canonical: str
    response: str
    columns: tuple[DesignColumn, ...]
    intercept: bool
    needs: tuple[str, ...]
    boxes: tuple[tuple[str, Interval], ...]
    roles: tuple[Role, ...] = ()

    def role(self, role: str) -> str | None:
        """Return the column of an offset or a cluster; None without one."""
        return next((column_role.name for column_role in self.roles if column_role.role == role), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def lower(self) -> FloatArray:
        """The lower bounds of the columns, shape (p,)."""
        return np.array([column.lower for column in self.columns], dtype=np.float64)

    @property
    def upper(self) -> FloatArray:
        """The upper bounds of the columns, shape (p,)."""
        return np.array([column.upper for column in self.columns], dtype=np.float64)

    def box(self, row_norm: float | None = None) -> Geometry:
        """Return the geometry of the declared bounds; ``row_norm`` as for `hdpstats.records.geometry.from_box`."""
        first = int(self.intercept)
        lower, upper = self.lower[first:].tolist(), self.upper[first:].tolist()
        return from_box(lower, upper, intercept=self.intercept, row_norm=row_norm)

    def whitening(self, X: FloatArray) -> Geometry:
        """Return the geometry of radius 1 that whitens public rows ``X`` (n, p) of the design."""
        first = int(self.intercept)
        lower, upper = self.lower[first:].tolist(), self.upper[first:].tolist()
        return from_public(X, lower=lower, upper=upper, intercept=self.intercept, radius=1.0)

    def matrix(self, table: AdmittedTable) -> FloatArray:
        """Return the design of admitted rows, shape (n, p), C order.

        Every entry lies within the bounds of its column. The map is total: for rows that the schema admitted
        it raises and warns of nothing, and maps each row on its own.
        """
        matrix = np.empty((table.rows, len(self.columns)))
        _fill(self, table, self._bounded, out=matrix.T)
        np.clip(matrix, self.lower, self.upper, out=matrix)
        return matrix

    def work(self, rows: int) -> Operations:
        """Return what `matrix`, or `by_columns`, of so many rows takes at most."""
        made = {column.expressions for column in self.columns}
        levels = sum(len(column.levels) for column in self.columns)
        factors = [evaluation_work(expression, rows) for product in made for expression in product]
        short = Operations(steps=4.0 + 0.2 * len(self.boxes), passes=2.0 * rows)  # of a factor: the bounds, the product
        columns = Operations(steps=20.0, passes=24.0 * rows)  # where they are written far from each other
        of_levels = Operations(steps=8.0, passes=6.0 * rows)
        whole = len(factors) * short + len(self.columns) * columns + levels * of_levels
        return sum(factors, whole + Operations(steps=50.0))

    def whitening_work(self, rows: int) -> Operations:
        """Return what `whitened_rows` takes at most."""
        d = float(len(self.columns))
        around = self.work(rows) + Operations(steps=60.0, passes=(6.0 * d + 20.0) * rows)
        if rows < SMALLEST_COMPILED:
            return around + Operations(steps=4.0 * d**2 + 8.0 * d, passes=6.0 * d**2 * rows)
        return around + Operations(products=d**2 * rows)

    def by_columns(self, table: AdmittedTable) -> FloatArray:
        """Return `matrix` transposed, shape (p, n), C order: a column after the other, with no second copy of them."""
        columns = np.empty((len(self.columns), table.rows))
        for out, column, values in zip(columns, self.columns, _columns(self, table, self._bounded), strict=True):
            np.clip(values, column.lower, column.upper, out=out)
        return columns

    def _bounded(self, expression: Expression, columns: Mapping[str, FloatArray]) -> FloatArray | float:
        return bounded_values_of(expression, columns, dict(self.boxes))[0]

    def evaluate_unclipped(self, table: AdmittedTable) -> FloatArray:
        """Return the design of public rows as they are, clipped to nothing, shape (n, p), C order.

        Raises
        ------
        SchemaError
            If a value is not finite, because a transform is not defined beyond the declared bounds.
        """
        matrix = np.empty((table.rows, len(self.columns)))
        _fill(self, table, values_of, out=matrix.T)
        for position, column in enumerate(self.columns):
            if not np.isfinite(matrix[:, position]).all():
                raise SchemaError(
                    f"{column.name} is not finite in every public row: some row lies outside the schema's "
                    "bounds or misses a value; correct those rows, or clip them to the bounds",
                    term=column.name,
                )
        return matrix


Evaluate = Callable[[Expression, Mapping[str, FloatArray]], FloatArray | float]


def _fill(design: Design, table: AdmittedTable, evaluate: Evaluate, *, out: FloatArray) -> None:
    """Write the values of the columns into the rows of ``out`` (p, n)."""
    for row, values in zip(out, _columns(design, table, evaluate), strict=True):
        row[:] = values


def _columns(design: Design, table: AdmittedTable, evaluate: Evaluate) -> Iterator[FloatArray | float]:
    """Yield the values of the columns; products of expressions are kept while other columns need them.

    What is a column of the table is that column itself: not clipped, and not to be written to.
    """
    numeric = {name: np.ascontiguousarray(table.numeric[name], dtype=np.float64) for name, _ in design.boxes}
    left = Counter(column.expressions for column in design.columns)
    made: dict[tuple[Expression, ...], FloatArray | float] = {}
    for column in design.columns:
        name = plain_column(column)
        if name is not None:
            yield numeric[name]
            continue
        if column.expressions not in made:
            made[column.expressions] = _product(evaluate(expression, numeric) for expression in column.expressions)
        left[column.expressions] -= 1
        kept = left[column.expressions]
        values = made[column.expressions] if kept else made.pop(column.expressions)
        yield np.where(_holds(column.levels, table), values, 0.0) if column.levels else values


def plain_column(column: DesignColumn) -> str | None:
    """Return the column of the schema that a column of the design is, None where it is made of columns."""
    (first, *more) = column.expressions or (None,)
    return first.name if isinstance(first, Variable) and not more and not column.levels else None


def _product(factors: Iterable[FloatArray | float]) -> FloatArray | float:
    product: FloatArray | float | None = None
    with np.errstate(all="ignore"):
        for factor in factors:
            product = factor if product is None else product * factor
    return 1.0 if product is None else product


def _holds(levels: Iterable[Level], table: AdmittedTable) -> BoolArray:
    mask = np.ones(table.rows, dtype=np.bool_)
    for level in levels:
        cells = table.codes[level.column] if level.column in table.codes else table.numeric[level.column]
        mask &= (cells == level.code) != level.negated
    return mask


ROWS = 1024


def reference_matrix(design: Design, schema: Schema, described: CohortMoments | None = None) -> FloatArray:
    """Return the design (1024, p) of rows spread evenly over the schema, or as described (`reference_rows`)."""
    return design.matrix(reference_rows(design.needs, schema, described))


def reference_rows(needs: Sequence[str], schema: Schema, described: CohortMoments | None = None) -> AdmittedTable:
    """Return 1024 rows of independent columns of a schema, uniform within bounds, or as they are described.

    Described columns have the shares of their levels, or the beta distribution within their bounds that has their mean
    and variance. A quasi-random (Sobol) grid, the same every time. It assumes what nobody knows, and plans say so.
    """
    with silence():
        from scipy.stats import qmc

        points = qmc.Sobol(len(needs), scramble=False).random(ROWS)
    return rows_at(points, needs, schema, described)


def rows_at(
    points: FloatArray, needs: Sequence[str], schema: Schema, described: CohortMoments | None = None
) -> AdmittedTable:
    """Return the rows of columns of a schema at points (n, columns) of the unit cube, which stand for its bounds.

    Columns that are described take the quantiles of a distribution with the described averages at these levels.
    """
    averages: dict[str, list[CohortMoment]] = {}
    for moment in () if described is None else described.moments:
        if moment.what is not MomentKind.AT_RISK:
            averages.setdefault(moment.variable, []).append(moment)
    numeric: dict[str, FloatArray] = {}
    codes = {}
    for name, u in zip(needs, points.T, strict=True):
        column = schema[name]
        if isinstance(column, Categorical):
            shares = _shares(averages.get(name, []), len(column.levels))
            codes[name] = np.minimum(np.searchsorted(np.cumsum(shares), u, side="right"), len(column.levels) - 1)
        elif isinstance(column, NumericColumn) and column.kind == "binary":
            numeric[name] = (u >= _shares(averages.get(name, []), 2)[0]).astype(float)
        elif isinstance(column, NumericColumn):
            numeric[name] = column.lower + _spread(u, averages.get(name, []), column) * (column.upper - column.lower)
    return AdmittedTable(numeric=numeric, codes=codes, rows=len(points))


def _shares(described: Sequence[CohortMoment], levels: int) -> FloatArray:
    """Return the shares (levels,) of all levels: the same of each, or those described, of which one follows."""
    if not described:
        return np.full(levels, 1.0 / levels)
    shares = np.full(levels, np.nan)
    shares[[moment.level for moment in described]] = np.clip([moment.value for moment in described], 0.0, 1.0)
    shares[np.isnan(shares)] = max(1.0 - float(np.nansum(shares)), 0.0)
    return np.asarray(shares / shares.sum(), dtype=np.float64)


LEAST_VARIANCE = 1e-6
"""The least variance of a described column, over the largest that its mean allows."""


def _spread(u: FloatArray, described: Sequence[CohortMoment], column: NumericColumn) -> FloatArray:
    """Return the quantiles (n,) at levels ``u`` of a column whose bounds are 0 and 1: uniform ones without a mean."""
    moments = {moment.what: moment for moment in described}
    if MomentKind.MEAN not in moments:
        return u
    width = column.upper - column.lower
    mean = float(np.clip((moments[MomentKind.MEAN].value - column.lower) / width, 1e-3, 1.0 - 1e-3))
    most, variance = mean * (1.0 - mean), 1.0 / 12.0
    if MomentKind.SQUARE in moments:
        square = moments[MomentKind.SQUARE]
        variance = square.value / width**2 - (mean - (square.centre - column.lower) / width) ** 2
    size = most / float(np.clip(variance, LEAST_VARIANCE * most, 0.9 * most)) - 1.0
    with silence():
        from scipy.stats import beta

        return np.asarray(beta.ppf(u, mean * size, (1.0 - mean) * size), dtype=np.float64)


PIECE = 128
"""Rows that are whitened at a time."""


def whitened_rows(design: Design, geometry: Geometry, table: AdmittedTable) -> WeightedRows:
    """Return the rows of an admitted table (n, D), whitened, and their Mallows weights: a total, row-wise map.

    ``X.T`` is contiguous where there are many rows: see `hdpstats.solvers.kernels`.
    """
    if table.rows < SMALLEST_COMPILED:
        return whiten(geometry, design.matrix(table))
    return _by_columns(geometry, design.by_columns(table))


def whitened_matrix(geometry: Geometry, X: FloatArray) -> WeightedRows:
    """Return ``whiten(geometry, X)`` of design rows (n, D), to the last bit, kept as `whitened_rows` does."""
    return whiten(geometry, X) if len(X) < SMALLEST_COMPILED else _by_columns(geometry, np.array(X.T, order="C"))


def _by_columns(geometry: Geometry, columns: FloatArray) -> WeightedRows:
    """Return the rows whose columns (D, n) are replaced by whitened ones."""
    m, A = geometry.arrays()
    square = np.zeros(columns.shape[1])
    slopes = columns[int(geometry.intercept) :]
    whiten_columns(slopes, m, A, square, *pieces(len(m)), slopes)
    return WeightedRows(X=columns.T, weights=mallows_weights(square, geometry))


def pieces(d: int) -> tuple[FloatArray, FloatArray]:
    """Return what `whiten_columns` writes its pieces to: numba compiles no allocation then, in half the time."""
    return np.zeros((d, PIECE)), np.empty((d, PIECE))


@compiled
def whiten_columns(
    columns: FloatArray,
    m: FloatArray,
    A: FloatArray,
    square: FloatArray,
    centred: FloatArray,
    z: FloatArray,
    out: FloatArray,
) -> None:
    """Write columns (d, n), whitened, to ``out``, which may be these columns, and add their squares (n,)."""
    d = len(columns)
    for start in range(0, len(square), PIECE):
        rows = min(PIECE, len(square) - start)
        squares = square[start : start + rows]
        for j in range(d):
            column, to, location = columns[j, start : start + rows], centred[j], m[j]
            for i in range(rows):
                to[i] = column[i] - location
        if d > 0:
            products(A, centred, z)
        for k in range(d):
            column, whitened = out[k, start : start + rows], z[k]
            for i in range(rows):
                value = min(max(whitened[i], -LARGEST), LARGEST)
                column[i] = value
                squares[i] += value * value
