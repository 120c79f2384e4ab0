"""People who are invented for values that no public row has.

A level without a public row, or a column in which all public rows agree, gives no curvature, and private
rows with another value would be weighted down to nothing by a whitening that knows no spread. So a share of the public
rows is listed once more with each value that is lacking. These *invented* people count where spread and curvature of
covariates are asked for, and never in a fit to public rows: they had no outcome.

The share is that of a 0/1 column whose variance is that of an even spread over its bounds, 1/12: 9 %. Nobody knows how
many private people have the value: in draws of curvature all people who were invented for one value are taken to be
more or fewer together, by a factor with an exponential distribution of mean 1 (as if they were one person of a Bayesian
bootstrap). Where the share was described it is raked to what was released (`hdpstats.raking.raking`).

All of this follows from schema and public rows, so that queries that rest on it stay functions of public facts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.schema.columns import Binary, Categorical, NumericColumn
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import AdmittedTable

SHARE: Final = 0.5 - (0.25 - 1.0 / 12.0) ** 0.5
"""Of a 0/1 column with variance 1/12."""

FLAT: Final = 1e-10
"""Whitened rows vary along a direction if their mean square is above this share of the largest."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Completed:
    """Public rows followed by invented ones: the ``table``, of which row each is a copy, and for which value (from 1).

    ``source`` and ``invented`` are (n + m,); ``invented`` is 0 for the n public rows.
    """

    table: AdmittedTable
    source: IntArray
    invented: IntArray


def completed(rows: AdmittedTable, schema: Schema, covariates: Sequence[str]) -> Completed | None:
    """Return public rows with people invented for the values that they lack; None where they lack none."""
    count = max(1, round(rows.rows * SHARE / (1.0 - SHARE)))
    copied = np.linspace(0, rows.rows - 1, count).astype(np.int64)
    values = [(name, np.broadcast_to(value, count)) for name, value in _lacking(rows, schema, covariates, count)]
    if not values or not rows.rows:
        return None
    source = np.concatenate([np.arange(rows.rows), *([copied] * len(values))])
    numeric = {name: column[source] for name, column in rows.numeric.items()}
    codes = {name: column[source] for name, column in rows.codes.items()}
    for place, (name, value) in enumerate(values):
        where = slice(rows.rows + place * count, rows.rows + (place + 1) * count)
        if name in codes:
            codes[name][where] = value
        else:
            numeric[name][where] = value
    table = replace(
        rows,
        numeric=numeric,
        codes=codes,
        rows=len(source),
        beyond={name: column[source] for name, column in rows.beyond.items()},
        persons=None,
    )
    invented = np.repeat(np.arange(len(values) + 1), [rows.rows, *([count] * len(values))])
    return Completed(table=table, source=source, invented=invented)


def _lacking(
    rows: AdmittedTable, schema: Schema, covariates: Sequence[str], count: int
) -> Iterator[tuple[str, FloatArray | int]]:
    """Yield columns with values that no row has: a level, or numbers spread evenly over the bounds (count,)."""
    for name in dict.fromkeys(covariates):
        column = schema[name]
        if isinstance(column, Categorical):
            seen = np.bincount(rows.codes[name], minlength=len(column.levels))
            yield from ((name, level) for level in np.flatnonzero(seen == 0).tolist())
        elif len(numbers := np.unique(rows.numeric[name][:])) == 1:
            if isinstance(column, Binary):
                yield name, np.array(1.0 - numbers[0])
            elif isinstance(column, NumericColumn) and column.upper > column.lower:
                yield name, column.lower + (column.upper - column.lower) * (np.arange(count) + 0.5) / count


def unknown_directions(X: FloatArray) -> FloatArray | None:
    """Return orthonormal directions (D, k) along which whitened rows (n, D) do not vary at all; None without any."""
    sizes, vectors = np.linalg.eigh(X.T @ X / max(len(X), 1))
    flat = vectors[:, sizes <= FLAT * max(float(sizes[-1]), 1e-300)] if len(sizes) else vectors
    return np.asarray(flat) if flat.shape[1] else None
