r"""Lei's perturbed histogram: private records alone, on a grid from the schema.

Every column is cut into classes of equal width between its declared bounds; the noisy number of people in each cell is
released once, and the centres of cells with these weights stand for the people. It is the baseline for what public
records add: it needs none, and the number of cells grows with every column.

How many classes a numeric column gets is public, and follows from second moments, on which every fit rests. In units
of the variance :math:`R^2 / 12` of an even spread over the range ``R``, centres of ``b`` classes add :math:`1 / b^2` to
the variance of a column (Sheppard 1898). What the noise of ``m`` cells with variance ``v`` leaves in empty cells once
counts are projected neighbourhood by neighbourhood is of the order of :math:`\sqrt{m v}` people, who are spread over
the whole range, and adds :math:`\sqrt{m v} / n`. ``b`` minimises the sum: with ``k`` numeric columns and ``c`` cells
for one class each, near :math:`b^{2 + k/2} = 4 n / (k \sqrt{c v})`. Where more than a tenth is left, the histogram is
refused: little would be learned from it. (Noise moves a mean far less, as positive and negative parts cancel; classes
that suit means are too many for fits.)

References
----------
Lei (2011), Differentially private M-estimators. Sheppard (1898), On the calculation of the most probable values of
frequency-constants for data arranged according to equidistant divisions of a scale.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd

from hdpstats._base.errors import MechanismError, SchemaError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import integer
from hdpstats.mechanisms.histogram import Axis
from hdpstats.noise.discrete import TwoSidedGeometric
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
