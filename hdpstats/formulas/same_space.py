r"""Whether the columns of two formulas span the same functions of a row, where algebra alone does not tell it.

`hdpstats.formulas.column_space` writes most spellings of a model as one formula, without rounding. What it does not
take apart (``ns(40 - k, df=3)`` beside ``ns(k, df=3)``, a product of functions, a design that is too large) is compared
here by values. At points spread evenly over what the schema admits, and again so that every piece between knots and
thresholds has its share, the columns of the one must be combinations of those of the other to 1e-9 of their size.
Formulas with different knots or thresholds have different spaces.

Formulas and schema are public, and no row takes part. The answer is not exact. It never changes what is asked of a
site without being said: it makes that a fit is refused before a charge, or that a user who asks for it is given a
linear map of an earlier release.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from hdpstats._base.loops import silence
from hdpstats._base.typing import FloatArray
from hdpstats.formulas.column_space import CanonicalDesign, read_columns
from hdpstats.formulas.design import Design
from hdpstats.formulas.expressions import Expression, Number, Operation, Piecewise, Variable, written
from hdpstats.formulas.monomials import COMPARED, Columns, TooLargeError
from hdpstats.schema.columns import Categorical, NumericColumn
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import AdmittedTable

MOST_COLUMNS: Final = 300
"""Designs of more columns are not compared: there are too few points to tell."""

_LOG_POINTS: Final = 11
_CLOSE: Final = 1e-9


def asked_as(right: str, asked: CanonicalDesign, schema: Schema) -> CanonicalDesign | None:
    """Return the design of a right side, and the map from its coefficients to those of a model with the same columns.

    Parameters
    ----------
    right : str
        The right side of another formula, as a query has it.
    asked : CanonicalDesign
        The columns that the model itself asks about.
    schema : Schema
        The declared columns.

    Returns
    -------
    CanonicalDesign or None
        None where the right side cannot be read, reads other columns of the schema, or spans another space.

    Examples
    --------
    >>> from hdpstats.formulas.column_space import canonical_design
    >>> from hdpstats.formulas.compiler import compile_design
    >>> from hdpstats.schema.columns import Binary, Continuous
    >>> schema = Schema(dead=Binary(), age=Continuous(20, 90))
    >>> own = canonical_design(compile_design("dead ~ log(age)", schema), schema)
    >>> found = asked_as("1 + I(log(age)*2)", own, schema)
    >>> found.to_terms.round(9).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    made = read_columns(right, asked.design, schema)
    if made is None or not 0 < len(made.columns) <= MOST_COLUMNS:
        return None
    if not _same_breaks(_breaks(made, schema), _breaks(asked.design, schema), schema):
        return None
    L = _coordinates(asked.design, made, schema)
    return None if L is None else CanonicalDesign(design=made, to_terms=asked.to_terms @ L)


def _coordinates(own: Design, other: Design, schema: Schema) -> FloatArray | None:
    """Return ``L`` with ``X_other = X_own L`` at all points, invertible; None without one."""
    table = _points(own, schema)
    X, Z = own.matrix(table), other.matrix(table)
    by_own, by_other = (np.linalg.norm(each, axis=0) for each in (X, Z))
    if not (by_own.all() and by_other.all()):
        return None
    X, Z = X / by_own, Z / by_other
    if min(np.linalg.matrix_rank(X), np.linalg.matrix_rank(Z)) < len(by_own):
        return None
    L = np.linalg.lstsq(X, Z, rcond=None)[0]
    if np.abs(X @ L - Z).max() > _CLOSE * np.abs(Z).max():
        return None
    return np.asarray(L * by_other / by_own[:, None])


Breaks = Mapping[str, tuple[float, ...]]
"""Knots and thresholds by column; of what is no function of one column the text, with none."""


def _breaks(design: Design, schema: Schema) -> Breaks:
    """Return where a column of the design has a jump, a kink or another polynomial."""
    columns = Columns(schema=schema, splines={})
    found: dict[str, set[float]] = {}
    for expression in {each for column in design.columns for each in column.expressions}:
        for part in _parts(expression):
            operand, places = _broken(part)
            if operand is None:
                continue
            try:
                affine = columns.affine(operand)
            except (TooLargeError, KeyError):
                affine = None
            if affine is None:
                found.setdefault(written(part), set())
            else:
                own = found.setdefault(affine.variable.name, set())
                own |= {(place - float(affine.constant)) / float(affine.slope) for place in places}
    return {name: tuple(sorted(values)) for name, values in found.items()}


def _broken(part: Expression) -> tuple[Expression | None, tuple[float, ...]]:
    """Return the expression in which a function is in pieces, and where; None where it is in one piece."""
    if isinstance(part, Piecewise):
        return part.operand, part.pieces.breaks
    if isinstance(part, Operation) and part.rule in COMPARED:
        return Operation(rule="-", operands=part.operands, source=part.source), (0.0,)
    if isinstance(part, Operation) and part.rule == "abs":
        return part.operands[0], (0.0,)
    return None, ()


def _parts(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all that it is made of."""
    yield expression
    if not isinstance(expression, Variable | Number):
        for operand in expression.operands:
            yield from _parts(operand)


def _same_breaks(a: Breaks, b: Breaks, schema: Schema) -> bool:
    """Whether two designs are in the same pieces; breaks at the ends of the declared range, or beyond, do not count."""

    def inside(breaks: Breaks) -> dict[str, FloatArray]:
        kept = {}
        for name, values in breaks.items():
            column = schema.get(name)
            if not isinstance(column, NumericColumn):
                kept[name] = np.zeros(0)
                continue
            margin = _CLOSE * (column.upper - column.lower)
            distinct = [value for value in values if column.lower + margin < value < column.upper - margin]
            if distinct:
                kept[name] = (np.array(distinct) - column.lower) / (column.upper - column.lower)
        return kept

    one, other = inside(a), inside(b)
    return one.keys() == other.keys() and all(
        np.allclose(_merged(one[name])[:, None], _merged(other[name])[:, None], rtol=0.0, atol=_CLOSE)
        if len(_merged(one[name])) == len(_merged(other[name]))
        else False
        for name in one
    )


def _merged(values: FloatArray) -> FloatArray:
    """Return increasing values without those that are as good as the one before."""
    return values[np.diff(values, prepend=-np.inf) > _CLOSE] if len(values) else values


def _points(design: Design, schema: Schema) -> AdmittedTable:
    """Return points (4096) of what the schema admits: quasi-random ones, evenly, then evenly over all pieces."""
    with silence():
        from scipy.stats import qmc

        points = qmc.Sobol(len(design.needs), scramble=False).random(2**_LOG_POINTS)
    breaks, rows = _breaks(design, schema), 2 * len(points)
    numeric: dict[str, FloatArray] = {}
    codes = {}
    for name, u in zip(design.needs, points.T, strict=True):
        column = schema[name]
        if isinstance(column, Categorical):
            codes[name] = np.tile(np.minimum((u * len(column.levels)).astype(np.int64), len(column.levels) - 1), 2)
        elif isinstance(column, NumericColumn):
            lower, upper = column.lower, column.upper
            inner = [value for value in breaks.get(name, ()) if lower < value < upper]
            ends = np.array([lower, *inner, upper])
            by_piece = np.interp(u * (len(ends) - 1), np.arange(len(ends)), ends)
            values = np.concatenate([lower + u * (upper - lower), by_piece])
            numeric[name] = (values >= 0.5).astype(float) if column.kind == "binary" else values
    return AdmittedTable(numeric=numeric, codes=codes, rows=rows)
