r"""Logistic scores of rows that are read once: one pass from stored cells to integers, with no copy of the design.

Rows in files are read again at each pass, so that a whitened copy would be written to memory to be read once. Here a
tile of `TILE` rows is mapped to declared bounds (`hdpstats.schema.stored_columns`), centred, whitened, weighted, and
its scores are added, while it is in the nearest cache. The operations are those of `Design.by_columns`, `whitened_rows`
and `logistic_sum`, in their order, on each row by itself: the sums are the same integers, and so is everything that is
proved about them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.compiled import compiled
from hdpstats._base.errors import MechanismError
from hdpstats._base.intrinsics import ROUNDER, ROUNDER_BITS, bits_of, double_at, prefetch
from hdpstats._base.products import products
from hdpstats._base.typing import BoolArray, ExactArray, FloatArray, IntArray
from hdpstats.formulas.design import Design, plain_column
from hdpstats.losses.logistic import residuals
from hdpstats.records.geometry import LARGEST, Geometry, Source
from hdpstats.schema.cell_maps import clipped, is_none, within
from hdpstats.schema.columns import NumericColumn
from hdpstats.schema.stored_columns import addresses_of, plain
from hdpstats.schema.table import AdmittedTable
from hdpstats.solvers.kernels import SUMMED, add_product, coefficient_parts, exact_total

TILE = 256
"""Rows that are handled at a time."""

LINE = 8
"""Doubles in a line of a cache."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class Maps:
    """How numbers become the columns (d,) of a design without its intercept.

    Attributes
    ----------
    names : tuple of str
        The columns of a file that they are; empty where they are computed.
    limits : float64 array (d, 5)
        Bounds and fill of the map of stored numbers, and the bounds of the column of the design.
    flags : bool array (d, 2)
        Whether the column has two values, and whether a cell without a number leaves its row out.
    """

    names: tuple[str, ...]
    limits: FloatArray
    flags: BoolArray


def _maps(columns: Mapping[str, NumericColumn], design: Design) -> Maps:
    """Return how columns of a file become those of a design: as they are, where each of them is a numeric column."""
    plain = [(plain_column(each), each) for each in design.columns[int(design.intercept) :]]
    stored = [(columns[name], each) for name, each in plain if name is not None and name in columns]
    if len(stored) < len(plain):  # terms of several columns, or of levels: all are computed
        names: list[str] = []
        limits = [(each.lower, each.upper, each.lower, each.lower, each.upper) for _, each in plain]
        flags = [(False, False)] * len(plain)
    else:
        names = [str(name) for name, _ in plain]
        limits = [(of.lower, of.upper, of.fill, each.lower, each.upper) for of, each in stored]
        flags = [(of.two_valued, of.missing is None) for of, _ in stored]
    return Maps(
        names=tuple(names),
        limits=np.array(limits, dtype=np.float64).reshape(-1, 5),
        flags=np.array(flags, dtype=np.bool_).reshape(-1, 2),
    )


@final
@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class StoredRows:
    """The rows of one partition, whose covariates are mapped and whitened anew at each pass.

    Attributes
    ----------
    addresses : int64 array (d,)
        For each column of the design but the intercept where its values (n,) are, as they are stored or computed.
    held : object
        What has these values.
    maps : Maps
        How they become the columns of the design.
    y : float64 array (n,)
        Outcomes.
    weights, offset : float64 array (n,) or (`TILE`,)
        Case weights and offsets; those of a tile where they are the same for all tiles.
    lacking : bool array (n,)
        Which rows have a missing cell in columns that are no sources.
    geometry : Geometry
        The whitening and the weights of rows.
    bits : int
        Scores are rounded to multiples of 2^-bits.
    """

    addresses: IntArray
    held: object
    maps: Maps
    y: FloatArray
    weights: FloatArray
    offset: FloatArray
    lacking: BoolArray
    geometry: Geometry
    bits: int

    def loss_gradient(self, theta: FloatArray, rest: FloatArray | None = None) -> ExactArray:
        """Return the gradient (D,) of the sum of losses on the grid."""
        m, A = self.geometry.arrays()
        total = np.zeros((len(self.y) // SUMMED + 1, len(theta)), dtype=np.int64)
        sizes = np.array([self.geometry.radius, self.geometry.leverage, np.ldexp(1.0, self.bits)])
        add_scores(
            self.addresses, self.maps.limits, self.maps.flags, m, A, sizes, int(self.geometry.intercept),
            *map(plain, (self.y, self.weights, self.offset)), self.lacking, coefficient_parts(theta, rest), total,
        )  # fmt: skip
        return exact_total(total)


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
    if table.stored is None:
        raise MechanismError("rows that are read once are those of files")
    maps = table.stored.declared.once(_maps, design)
    computed = [] if maps.names else list(map(plain, design.by_columns(table)[int(design.intercept) :]))
    return StoredRows(
        addresses=table.stored.addresses(maps.names) if maps.names else addresses_of(computed),
        held=(table.stored, computed),
        maps=maps,
        y=y,
        weights=weights,
        offset=offset,
        lacking=table.lacking(but=maps.names),
        geometry=geometry,
        bits=bits,
    )


def everywhere(number: float) -> FloatArray:
    """Return the weights or offsets of a tile that are the same in every row of all tiles."""
    return np.full(TILE, number)


def without_covariates(numbers: FloatArray) -> StoredRows:
    """Return rows without a covariate, whose outcomes are numbers (n,): for loading the loop."""
    geometry = Geometry(location=(), whitening=(), radius=1.0, leverage=1.0, intercept=True, source=Source.SCHEMA_BOX)
    maps = Maps(names=(), limits=np.zeros((0, 5)), flags=np.zeros((0, 2), dtype=np.bool_))
    return StoredRows(
        addresses=addresses_of([]), held=None, maps=maps, y=numbers, weights=numbers, offset=numbers,
        lacking=np.zeros(len(numbers), dtype=np.bool_), geometry=geometry, bits=0,
    )  # fmt: skip


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
    lacking: BoolArray,
    parts: FloatArray,
    total: IntArray,
) -> None:
    """Add the rounded scores of `SUMMED` rows after the other to the rows of ``total`` (k, D)."""
    d, known = len(addresses), float(first)
    radius, leverage, scale = sizes
    centred, z, ones = np.zeros((d, TILE)), np.empty((d, TILE)), np.ones(TILE)
    counted, square, own = np.empty(TILE), np.empty(TILE), np.empty(TILE)
    eta, rest = np.empty(TILE), np.empty(TILE)
    for start in range(0, len(y), TILE):
        rows, sums = min(TILE, len(y) - start), total[start // SUMMED]
        of_weights, of_offset = start % len(weights), start % len(offset)
        for i in range(rows):
            counted[i] = 0.0 if lacking[start + i] else weights[of_weights + i]
            square[i] = 0.0
        for j in range(d):
            address = addresses[j] + 8 * start
            for i in range(0, TILE, LINE):
                prefetch(address + 8 * (TILE + i))
            centre(address, limits[j], flags[j, 0], flags[j, 1], m[j], centred[j, :rows], counted[:rows])
        if d > 0:
            products(A, centred, z)
        begin(offset[of_offset : of_offset + rows], parts[:, :first], eta, rest)
        add_sizes(z, parts[:, first:], square[:rows], eta[:rows], rest[:rows])
        for i in range(rows):
            eta[i] += rest[i]
        residuals(eta[:rows], y[start : start + rows], own[:rows])
        for i in range(rows):
            positive = max(square[i], 1e-200)
            weight = min(1.0, min(radius / np.sqrt(positive), leverage / (known + positive)))
            own[i] = ((weight * counted[i]) * own[i]) * scale
        if first:
            sums[0] += rounded_sum(ones[:rows], own[:rows])
        for k in range(d):
            sums[first + k] += rounded_sum(z[k, :rows], own[:rows])


@compiled
def cut(number: float) -> float:
    """Return a whitened number cut to what it may be."""
    return min(max(number, -LARGEST), LARGEST)


@compiled
def begin(offset: FloatArray, intercept: FloatArray, eta: FloatArray, rest: FloatArray) -> None:
    """Begin the two sums of predictors with offsets, and with the intercept where there is one: (3, 0) or (3, 1)."""
    for i in range(len(offset)):
        eta[i], rest[i] = offset[i], 0.0
    for j in range(intercept.shape[1]):
        for i in range(len(offset)):
            eta[i], rest[i] = add_product(eta[i], rest[i], 1.0, intercept[0, j], intercept[1, j], intercept[2, j])


@compiled
def add_sizes(z: FloatArray, parts: FloatArray, square: FloatArray, eta: FloatArray, rest: FloatArray) -> None:
    """Cut columns; add their squares and products with coefficients, one column after the other, to those of rows."""
    theta, leading, tail = parts[0], parts[1], parts[2]
    k = 0
    while k + 2 <= len(z):
        c0, c1, t0, t1 = z[k], z[k + 1], theta[k], theta[k + 1]
        a0, a1, b0, b1 = leading[k], leading[k + 1], tail[k], tail[k + 1]
        for i in range(len(eta)):
            v0, v1 = cut(c0[i]), cut(c1[i])
            c0[i], c1[i] = v0, v1
            square[i] = (square[i] + v0 * v0) + v1 * v1
            total, left = add_product(eta[i], rest[i], v0, t0, a0, b0)
            eta[i], rest[i] = add_product(total, left, v1, t1, a1, b1)
        k += 2
    while k < len(z):
        c0, t0, a0, b0 = z[k], theta[k], leading[k], tail[k]
        for i in range(len(eta)):
            v0 = cut(c0[i])
            c0[i] = v0
            square[i] += v0 * v0
            eta[i], rest[i] = add_product(eta[i], rest[i], v0, t0, a0, b0)
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
            to[i] = clipped(number, lower, upper) - location
            counted[i] = 0.0 if is_none(number, False) else counted[i]
    else:
        for i in range(len(to)):
            number = double_at(address, i)
            counted[i] = 0.0 if is_none(number, two_valued) & left_out else counted[i]
            to[i] = min(max(within(number, lower, upper, fill, two_valued), low), high) - location
