"""From rows to numbers: the columns of a design with their bounds, and points of the unit cube.

**A design** is fixed by a formula and a schema. No row takes part in making it, and the value of a row in it
depends on that row alone: not on other rows, not on its place. `reference_matrix` gives the design of a population that
is made of declarations alone, for planning where there are no public rows.

**Points**, between which distances are measured, have columns scaled by public ranges. A private row is clipped to the
range of the public rows, so that it lies where they do; a level that no public row has is a coordinate in which it
differs from all of them alike. Every operation is elementwise: a row's point depends on that row alone, to the last
bit.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.errors import SchemaError, SiteError
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.formulas.expressions import Expression, Role, Variable, bounded_values_of, values_of
from hdpstats.formulas.operations import Interval
from hdpstats.records.geometry import LARGEST_REACH, Geometry, PointColumn, PointSpace, from_box, from_public
from hdpstats.schema.columns import Categorical, NumericColumn
from hdpstats.schema.schema import Schema, check_names
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
        return next((each.name for each in self.roles if each.role == role), None)

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
    products: dict[tuple[Expression, ...], FloatArray | float] = {}
    for column in design.columns:
        name = plain_column(column)
        if name is not None:
            yield numeric[name]
            continue
        if column.expressions not in products:
            products[column.expressions] = _product(evaluate(each, numeric) for each in column.expressions)
        left[column.expressions] -= 1
        kept = left[column.expressions]
        values = products[column.expressions] if kept else products.pop(column.expressions)
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


def reference_matrix(design: Design, schema: Schema) -> FloatArray:
    """Return the design (1024, p) of rows spread evenly over the schema: independent columns, uniform within bounds.

    A quasi-random (Sobol) grid, the same every time. It assumes what nobody knows, and plans say so.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from scipy.stats import qmc

        points = qmc.Sobol(len(design.needs), scramble=False).random(ROWS)
    numeric: dict[str, FloatArray] = {}
    codes = {}
    for name, u in zip(design.needs, points.T, strict=True):
        column = schema[name]
        if isinstance(column, Categorical):
            codes[name] = np.minimum((u * len(column.levels)).astype(np.int64), len(column.levels) - 1)
        elif isinstance(column, NumericColumn) and column.kind == "binary":
            numeric[name] = (u >= 0.5).astype(float)
        elif isinstance(column, NumericColumn):
            numeric[name] = column.lower + u * (column.upper - column.lower)
    return design.matrix(AdmittedTable(numeric=numeric, codes=codes, rows=ROWS))


_LEVEL = 2.0**-0.5


def embed(space: PointSpace, table: AdmittedTable, *, part: slice = slice(None), clip: bool = True) -> FloatArray:
    """Return the points (n, p) of a part of the rows, in [0, 1] in every coordinate.

    Without ``clip``: where they would lie else.
    """
    rows = len(range(table.rows)[part])
    points = np.zeros((rows, space.dimension))
    place = 0
    for column in space.columns:
        if column.levels is None:
            values = table.numeric[column.name][part]
            inside = np.clip(values, column.lower, column.upper) if clip else values
            points[:, place] = (inside - column.lower) / (column.upper - column.lower)
            place += 1
        else:
            points[np.arange(rows), place + table.codes[column.name][part]] = _LEVEL
            place += column.levels
    return points


def reach_of(space: PointSpace, schema: Schema) -> float:
    """Return a bound on the distance of any row, not clipped to the public ranges, from any public point.

    It is cut at what a query can ask for, where the schema's bounds are that much wider than the public rows'.
    """
    squares = 0.0
    for column in space.columns:
        declared, width = schema[column.name], column.upper - column.lower
        if column.levels is None and isinstance(declared, NumericColumn):
            lower, upper = min(declared.lower, column.lower), max(declared.upper, column.upper)
            squares += ((upper - lower) / width) ** 2
        else:
            squares += 1.0
    return min(float(np.sqrt(max(squares, 1.0))) * (1.0 + 2.0**-40), LARGEST_REACH)


def check_space(space: PointSpace, schema: Schema) -> None:
    """Refuse a space whose columns the schema does not declare as it says."""
    for column in space.columns:
        if column.name not in schema:
            raise SiteError(f"{column.name!r} is not declared in this site's schema")
        declared = schema[column.name]
        levels = len(declared.levels) if isinstance(declared, Categorical) else None
        if levels != column.levels or not isinstance(declared, Categorical | NumericColumn):
            raise SiteError(f"{column.name!r} is declared otherwise in this site's schema")


def space_of(names: Iterable[str], schema: Schema, public: AdmittedTable) -> tuple[PointSpace, tuple[str, ...]]:
    """Return the space that public rows span, and the columns left out as all public rows are the same in them.

    Raises
    ------
    SchemaError
        If there is no public row, or a column is not declared.
    """
    listed = check_names(schema, names)
    if not public.rows:
        raise SchemaError("no public row is complete in the columns; fill them, or name fewer columns", columns=listed)
    columns: list[PointColumn] = []
    for name in listed:
        declared = schema[name]
        if isinstance(declared, Categorical):
            if np.ptp(public.codes[name]):
                columns.append(PointColumn(name=name, levels=len(declared.levels)))
        else:
            lower, upper = float(public.numeric[name].min()), float(public.numeric[name].max())
            if lower < upper:
                columns.append(PointColumn(name=name, lower=lower, upper=upper))
    space = PointSpace(columns=tuple(columns))
    return space, tuple(name for name in listed if name not in space.names)


def distinct(points: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the first rows of the different points (m,), in order, and which of these each row is (n,).

    >>> distinct(np.array([[0.5], [0.0], [0.5]]))[0].tolist()
    [0, 1]
    """
    if not points.shape[1]:
        return np.zeros(min(len(points), 1), dtype=np.int64), np.zeros(len(points), dtype=np.int64)
    _, first, inverse = np.unique(points, axis=0, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.sort(first), rank[inverse.reshape(-1)]
