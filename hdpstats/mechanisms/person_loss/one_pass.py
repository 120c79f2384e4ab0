r"""Logistic scores of rows that are read once: one pass from stored cells to integers, with no copy of the design.

Rows in files are read again at each pass, so that a whitened copy would be written to memory to be read once. Here a
tile of `TILE` rows is mapped to declared bounds (`hdpstats.schema.stored`), centred, whitened, weighted, and its scores
are added, while it is in the nearest cache. The operations are those of `Design.by_columns`, `whitened_rows` and
`logistic_sum`, in their order, on each row by itself: the sums are the same integers, and so is everything that is
proved about them.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.loops import ROUNDER, ROUNDER_BITS, bits_of, compiled, double_at, products
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.formulas.design import Design, plain_column
from hdpstats.losses.logistic import residuals
from hdpstats.records.geometry import LARGEST, Geometry, Source
from hdpstats.schema.stored import is_none, within
from hdpstats.schema.table import AdmittedTable

TILE = 256
"""Rows that are handled at a time."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class StoredRows:
    """The rows of one partition, whose covariates are mapped and whitened anew at each pass.

    Attributes
    ----------
    sources : tuple of float64 array
        For each column of the design but the intercept its values (n,) as they are stored or computed.
    limits : float64 array (d, 5)
        Bounds and fill of the map of stored numbers, and the bounds of the column of the design.
    flags : bool array (d, 2)
        Whether the column has two values, and whether a cell without a number leaves its row out.
    y, weights, offset : float64 array (n,)
        Outcomes, case weights and offsets.
    present : bool array (n,)
        Which rows have no missing cell in columns that are no sources.
    geometry : Geometry
        The whitening and the weights of rows.
    bits : int
        Scores are rounded to multiples of 2^-bits.
    """

    sources: tuple[FloatArray, ...]
    limits: FloatArray
    flags: BoolArray
    y: FloatArray
    weights: FloatArray
    offset: FloatArray
    present: BoolArray
    geometry: Geometry
    bits: int

    def loss_gradient(self, theta: FloatArray) -> IntArray:
        """Return the gradient (D,) of the sum of losses on the grid."""
        m, A = self.geometry.arrays()
        total = np.zeros(len(theta), dtype=np.int64)
        sizes = np.array([self.geometry.radius, self.geometry.leverage, np.ldexp(1.0, self.bits)])
        addresses = np.array([each.__array_interface__["data"][0] for each in self.sources], dtype=np.int64)
        add_scores(
            addresses, self.limits, self.flags, m, A, sizes, int(self.geometry.intercept),
            *map(_plain, (self.y, self.weights, self.offset)), self.present, np.asarray(theta, np.float64), total,
        )  # fmt: skip
        return total


def stored_rows(
    design: Design,
    geometry: Geometry,
    table: AdmittedTable,
    *,
    y: FloatArray,
    weights: FloatArray,
    offset: FloatArray,
    bits: int,
) -> StoredRows:
    """Return the rows of a table; where all columns of the design are columns of a file nothing is mapped yet."""
    columns = design.columns[int(geometry.intercept) :]
    names = [plain_column(column) for column in columns]
    stored = [table.stored[name] for name in names if name is not None and name in table.stored]
    if len(stored) < len(names):  # terms of several columns, or of levels: all are computed
        computed, names = design.by_columns(table)[int(geometry.intercept) :], []
        limits = [(each.lower, each.upper, each.lower, each.lower, each.upper) for each in columns]
        sources, flags = tuple(computed), np.zeros((len(columns), 2), dtype=np.bool_)
    else:
        cells = [(each.column.lower, each.column.upper, each.fill) for each in stored]
        limits = [(*cell, each.lower, each.upper) for cell, each in zip(cells, columns, strict=True)]
        sources = tuple(each.numbers for each in stored)
        flags = np.array([(each.column.two_valued, each.left_out) for each in stored], dtype=np.bool_)
    present = np.ones(table.rows, dtype=np.bool_)
    for name in set(table.missing).difference(names):
        present &= ~table.missing[name]
    return StoredRows(
        sources=tuple(map(_plain, sources)),
        limits=np.reshape(limits, (-1, 5)),
        flags=flags.reshape(-1, 2),
        y=y,
        weights=weights,
        offset=offset,
        present=present,
        geometry=geometry,
        bits=bits,
    )


def without_covariates(numbers: FloatArray) -> StoredRows:
    """Return rows without a covariate, whose outcomes are numbers (n,): for loading the loop."""
    geometry = Geometry(location=(), whitening=(), radius=1.0, leverage=1.0, intercept=True, source=Source.SCHEMA_BOX)
    return StoredRows(
        sources=(), limits=np.zeros((0, 5)), flags=np.zeros((0, 2), dtype=np.bool_), y=numbers, weights=numbers,
        offset=numbers, present=np.zeros(len(numbers), dtype=np.bool_), geometry=geometry, bits=0,
    )  # fmt: skip


def _plain(numbers: FloatArray) -> FloatArray:
    found = np.ascontiguousarray(numbers, dtype=np.float64).view()
    found.flags.writeable = False
    return found


@compiled
def add_scores(
    addresses: IntArray,
    limits: FloatArray,
    flags: BoolArray,
    m: FloatArray,
    A: FloatArray,
    sizes: FloatArray,
    first: int,
    y: FloatArray,
    weights: FloatArray,
    offset: FloatArray,
    present: BoolArray,
    theta: FloatArray,
    total: IntArray,
) -> None:
    """Add the rounded scores of all rows to ``total`` (D,)."""
    d, known = len(addresses), float(first)
    radius, leverage, scale = sizes
    centred, z, ones = np.zeros((d, TILE)), np.empty((d, TILE)), np.ones(TILE)
    counted, square, eta, own = np.empty(TILE), np.empty(TILE), np.empty(TILE), np.empty(TILE)
    at_zero = 0.0 + theta[0] if first else 0.0
    for start in range(0, len(y), TILE):
        rows = min(TILE, len(y) - start)
        for i in range(rows):
            counted[i] = weights[start + i] if present[start + i] else 0.0
            square[i] = 0.0
        for j in range(d):
            address = addresses[j] + 8 * start
            centre(address, limits[j], flags[j, 0], flags[j, 1], m[j], centred[j, :rows], counted[:rows])
        if d > 0:
            products(A, centred, z)
        for i in range(rows):
            eta[i] = at_zero
        add_sizes(z, theta[first:], square[:rows], eta[:rows])
        for i in range(rows):
            eta[i] += offset[start + i]
        residuals(eta[:rows], y[start : start + rows], own[:rows])
        for i in range(rows):
            positive = max(square[i], 1e-200)
            weight = min(1.0, min(radius / np.sqrt(positive), leverage / (known + positive)))
            own[i] = ((weight * counted[i]) * own[i]) * scale
        if first:
            total[0] += rounded_sum(ones[:rows], own[:rows])
        for k in range(d):
            total[first + k] += rounded_sum(z[k, :rows], own[:rows])


@compiled
def cut(number: float) -> float:
    """Return a whitened number cut to what it may be."""
    return min(max(number, -LARGEST), LARGEST)


@compiled
def add_sizes(z: FloatArray, theta: FloatArray, square: FloatArray, eta: FloatArray) -> None:
    """Cut columns; add their squares and products with coefficients, one column after the other, to those of rows."""
    k = 0
    while k + 4 <= len(z):
        c0, c1, c2, c3 = z[k], z[k + 1], z[k + 2], z[k + 3]
        t0, t1, t2, t3 = theta[k], theta[k + 1], theta[k + 2], theta[k + 3]
        for i in range(len(eta)):
            v0, v1, v2, v3 = cut(c0[i]), cut(c1[i]), cut(c2[i]), cut(c3[i])
            c0[i], c1[i], c2[i], c3[i] = v0, v1, v2, v3
            square[i] = (((square[i] + v0 * v0) + v1 * v1) + v2 * v2) + v3 * v3
            eta[i] = (((eta[i] + v0 * t0) + v1 * t1) + v2 * t2) + v3 * t3
        k += 4
    while k < len(z):
        c0, t0 = z[k], theta[k]
        for i in range(len(eta)):
            v0 = cut(c0[i])
            c0[i] = v0
            square[i] += v0 * v0
            eta[i] += v0 * t0
        k += 1


@compiled
def rounded_sum(column: FloatArray, own: FloatArray) -> np.int64:
    """Return the exact sum of products, each rounded to an integer."""
    added = np.int64(0)
    for i in range(len(own)):
        added += bits_of(column[i] * own[i] + ROUNDER) - ROUNDER_BITS
    return added


@compiled
def centre(
    address: int,
    limits: FloatArray,
    two_valued: bool,
    left_out: bool,
    location: float,
    to: FloatArray,
    counted: FloatArray,
) -> None:
    """Write the values of a column less its location, and 0 to ``counted`` where the cell leaves its row out.

    The first branch is a faster one, with the same numbers, for columns that nothing fills in and whose bounds the
    design does not narrow: a cell without a number is mapped to the lower bound, as comparisons with it are false.
    """
    lower, upper, fill, low, high = limits
    if left_out and not two_valued and fill == lower and low <= lower and upper <= high:
        for i in range(len(to)):
            number = double_at(address, i)
            above = number if number > lower else lower
            to[i] = ((above if above < upper else upper) + 0.0) - location
        for i in range(len(to)):
            if is_none(double_at(address, i), False):
                counted[i] = 0.0
    else:
        for i in range(len(to)):
            number = double_at(address, i)
            counted[i] = 0.0 if is_none(number, two_valued) & left_out else counted[i]
            to[i] = min(max(within(number, lower, upper, fill, two_valued), low), high) - location
