r"""Passes over rows, in numpy or compiled: predictors, exact sums of scores and of curvatures, sums over spells.

Private rows ``X`` (n, D) are kept column by column: ``X.T`` is contiguous. A pass goes through them in pieces that stay
in cache, and within a piece through one column after the other, so that neighbouring rows are lanes of a vector. What
is computed of a row is computed by the same operations in the same order in every lane, and depends on that row alone,
to the last bit (`hdpstats._base.compiled`). What is added over rows is integers, exactly: sums do not depend on the
order of rows, on where pieces begin, or on how many threads share them. Few rows are gone through by numpy where
compiled code is not loaded yet; all versions agree bit for bit, and which one runs is a matter of time only.

**Predictors** :math:`\eta_i = o_i + \sum_j x_{ij} (t_j + s_j)` of the gradients that certify a point are compensated
(`compensated`). Coefficients are unevaluated sums of two doubles with :math:`|s_j| \le u |t_j|`, u = 2^-53. Let ``h``
and ``a`` be the first 26 bits of ``x`` and ``t``, and ``b`` the rounded ``(t - a) + s``. The products ``h a`` are exact
and are added without loss (Knuth's sum of two numbers gives the rounded sum and what is missing); everything else is
added in a second sum, which is smaller by a factor of 2^24:

.. math:: x (t + s) = h a + h (t - a + s) + (x - h)(t + s), \qquad
          \text{second sum:} \; \sum_j \big\{r_j + (h_j b_j + (x_j - h_j) t_j)\big\},

``r_j`` being what the j-th sum misses. The predictor is the rounded sum of both.

*Its error.* Let :math:`T = |o| + \sum_j |x_j t_j|`. As :math:`|x - h| < 2^{-25} |x|`, :math:`|t - a| < 2^{-25} |t|`,
the j-th summand of the second sum in braces, without ``r_j``, errs by at most :math:`3.01 \cdot 2^{-24} u |x_j t_j|`:
a unit of 2^-25 u each for ``b``, for ``(x - h) s``, which is left out, and for the two products, and two for their sum.
As :math:`|r_j| \le 1.01 u T`, the 2 D additions of the second sum err by at most
:math:`1.02 (D + 1) u (2^{-24} + D u) T`. Together that is below

.. math:: \delta = 1.05\,(D + 4)\,2^{-77}\,T \qquad (D \le 2^{20}),

and the last rounding adds ``u`` times the size of the result: the computed number is
:math:`\eta (1 + \tau) + \delta'` with :math:`|\tau| \le u`, :math:`|\delta'| \le (1 + u) \delta`.

*Underflow*. A product below 2^-1022 errs by up to 2^-1075. Where ``x`` or ``t`` is below 2^-1022, ``x - h`` or
``t - a`` may be no smaller than itself, but is below 2^-1047, so that the bound above fails by ``u 2^-1045`` times the
other factor. For numbers of at most 2^400 all of this is below 2^-690, so that 2^-600 is added to ``T``
(`predictor_error`).

No operation is fused, and none needs to be: bits and time are the same with and without fused multiply-add.

**Scores.** Each ``r_i x_ij`` is rounded to a multiple of 2^-bits. These integers are at most 2^50
(`hdpstats.solvers.objective.score_bits`), however many rows there are: a 64-bit integer adds those of `SUMMED` rows,
and Python's integers, which have no largest one, add these sums (`exact_total`).

*No score whatever contributes more than its bound.* The bits of what is rounded are an integer, those of infinities and
of what is not a number too, and whatever is beyond 2^50 steps becomes 2^50 (`in_steps`, `_score_sum`). Nothing ever is:
whitened rows are at most `hdpstats.records.geometry.LARGEST`, 1e50, points at most `hdpstats.solvers.newton.FARTHEST`,
1e100, so that predictors are finite, and at finite predictors scores are within their bounds:

* logistic ones are a quotient in [0, 1] less ``y``, also of what is not a number, which counts as -700
  (`logistic_residual`), so that the loops that add them (`logistic_sum`, `hdpstats.families.regression.one_pass`) round
  nothing that is larger;
* others of one predictor are differences of cut numbers, or such as exponents of cut ones make (`PredictorLoss.score`);
* multinomial ones are shares of a sum whose terms are at most 1, less 0 or 1
  (`hdpstats.losses.multinomial.residuals_of_pairs`);
* those of spells are caps times a number in [0, 1], and such a number: exponents are cut (**Spells**).

**Logistic scores** (`logistic_sum`) are those of `compensated`, `logistic_residual` and `grid_sum`, one after the
other for `BLOCK` rows at a time, so that rows are read from memory once and in long runs.

**Curvatures.** :math:`\sum_i c_i x_i x_i'` is needed for the steps of Newton's method only, which any positive definite
matrix near it would do. So each :math:`\sqrt{c_i}\,x_{ij}` is rounded to a multiple of 2^-bits, at most `ROOT_BITS`
bits; the products of these are integers of at most 2^36, sums of `PIECE` of them of at most 2^48, and a matrix product
in doubles (BLAS) adds them without any rounding, in any order. Sums of more than 2^26 rows might pass
2^62: roots of such tables are rounded to fewer bits (`root_bits`), 15 for 2^31 rows.

**Spells.** Their sums over intervals are compiled where the scale of the link and the cap are products. Where
``g(eta) = e^eta`` (`HazardLink.multiplicative`) the ratio of hazard to cap is a number of the interval times one of the
spell, and so is the cap:

.. math:: u_{is} = E_s W_i, \quad h_{is} = G_s K_i, \qquad E_s = e^{A_s'\alpha - \gamma_s - d - r}, \; W_i =
          e^{z_i'(\beta - \delta) + r}, \; G_s = e^{\gamma_s + d}, \; K_i = e^{z_i'\delta + o_i},

``r`` being the middle of the exponents of ``E``: a cell costs a root and a quotient, and no exponential. Spells are the
lanes of vectors, and all intervals are gone through in their order, whatever a spell's follow-up: sums of a spell
depend on that spell alone, to the last bit (`hdpstats._base.compiled`), and the time they take on none.

*Caps* are functions of one's own row, whatever the coefficients: :math:`\gamma_s + d` and :math:`z_i'\delta + o_i` are
computed as doubles, and what they add up to exactly is the logarithm of the cap.

*Exponents* of ``E`` and ``W`` may be far larger than their sum. So both are unevaluated sums of two doubles:
compensated products, plus or minus doubles, which are added without loss (`two_sums`); what is rounded are sums of the
lesser parts, which are below 2^-23 of the sizes of all. The rounded sum ``x`` of the two parts leaves a rest ``y`` of
at most :math:`2^{-53} |x|`: the factor is :math:`e^x (1 + y)`, which errs by the exponential and two roundings, as
``y^2`` is below 2^-86, however large coefficients are (`exponential`).

*Extremes.* The exponents of ``E`` are at most `SPAN` in size, else there are no factors; so are those of ``G``. The
exponent of ``W`` is cut to twice `SPAN`, where ``u`` is beyond e^170 or below e^-170 in every interval: the score is
``h`` or 0 up to e^-170 of ``h`` either way, and that of an event 0 or 1 up to e^-170 of 1 or of ``h``. That of ``K`` is
cut to `FARTHEST` less `SPAN`: beyond, ``h`` is above e^360 in every interval, and there is none in which such a spell
is at risk, or below e^-360, which changes no score by more. So no spell needs an exception.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, final

import numba
import numpy as np

from hdpstats._base.compiled import SMALLEST_COMPILED, compiled, in_threads, loaded
from hdpstats._base.intrinsics import ROUNDER, ROUNDER_BITS, bits_of, double_of
from hdpstats._base.typing import ExactArray, FloatArray, IntArray
from hdpstats._base.work import Operations
from hdpstats.losses.logistic import logistic_residual, residuals, writable

PIECE = 4096
"""Rows that are handled at a time."""

PIECES_AT_ONCE = 4
"""Pieces that are handled at a time where nothing is written for a row."""

BLOCK = 1024
"""Rows of a piece whose scores are computed at a time: so many that memory is read in long runs, few enough for cache.
"""

SUMMED = 4096
"""Rows whose integers, of at most 2^50 each, are added up in 64 bits: no fewer than a piece, a multiple of blocks."""

MOST_STEPS = 1 << 50
"""What a row contributes to a coordinate of a sum of scores is at most so many steps of the grid."""

LOWEST, ALL_STEPS = ROUNDER_BITS - MOST_STEPS, 2 * MOST_STEPS
"""The bits of minus `MOST_STEPS`, rounded by `ROUNDER`, and how many steps there are from there to `MOST_STEPS`."""

HEAD = -(1 << 27)
"""The mask that leaves of a double its first 26 bits."""

TINY = 2.0**-600
"""Stands for underflow in the error of a predictor."""

STRIDED = 4.0
"""For how many numbers that stand together one takes the time that stands far from the next one."""

ROOT_BITS = 18
"""Rounded roots of curvatures times rows are integers of at most so many bits."""

ALL = slice(None)

Pair = tuple[FloatArray, FloatArray]
"""Numbers as unevaluated sums of two doubles."""

Sums = TypeVar("Sums", IntArray, ExactArray)

SMALLEST_THREAD = 1 << 16
"""Rows from which another thread takes part, as many as numba is set to."""


def added_over_pieces(rows: int, of_piece: Callable[[slice], Sums], *, at_once: int = 1) -> Sums:
    """Return the sum of integers over all pieces of rows; as it is exact, any number of threads may share the pieces.

    Threads inherit the context of the caller: how numpy treats overflow, and whether work is rehearsed.
    """
    size = at_once * PIECE
    pieces = [slice(start, min(start + size, rows)) for start in range(0, max(rows, 1), size)]
    most = rows // SMALLEST_THREAD
    threads = min(numba.get_num_threads(), most, len(pieces)) if most >= 2 else 1  # asking numba starts its threads

    def added(parts: Sequence[Sums]) -> Sums:
        return np.asarray(np.sum(parts, axis=0))

    if threads < 2:
        return added([of_piece(piece) for piece in pieces])

    return added(in_threads(lambda share: added([of_piece(piece) for piece in pieces[share::threads]]), range(threads)))


def exact_total(sums: IntArray) -> ExactArray:
    """Return the sum (D,) of sums (k, D) over at most `SUMMED` rows each, in integers that nothing overflows."""
    total: ExactArray = sums.astype(object).sum(axis=0)
    return total


def predictor_error(D: int, sizes: FloatArray | float) -> FloatArray | float:
    """Return what a compensated predictor is off besides its last rounding, for ``|o| + sum |x_j t_j|``: ``delta``.

    The sizes may be ``|o| + ||x|| ||t||``, all up to relative errors of ``D u``.
    """
    return 1.06 * (D + 4.0) * 2.0**-77 * (sizes + TINY)


def heads(numbers: FloatArray) -> FloatArray:
    """Return the first 26 bits of numbers."""
    return np.asarray((np.ascontiguousarray(numbers, dtype=np.float64).view(np.int64) & HEAD).view(np.float64))


def coefficient_parts(theta: FloatArray, rest: FloatArray | None = None) -> FloatArray:
    """Return coefficients as compensated products need them (3, D): ``t``, its head ``a``, and ``b = (t - a) + s``."""
    theta = np.asarray(theta, dtype=np.float64)
    leading = heads(theta)
    left = theta - leading
    return np.stack([theta, leading, left if rest is None else left + rest])


def compensated(X: FloatArray, parts: FloatArray, offset: FloatArray, rows: slice = ALL) -> FloatArray:
    """Return ``X (theta + rest) + offset`` of some rows of all arrays, each row's number from that row alone.

    ``parts`` are those of `coefficient_parts`.
    """
    own, rest = compensated_pairs(X, parts, offset, rows)
    return np.asarray(own + rest)


def compensated_pairs(
    X: FloatArray, parts: FloatArray, offset: FloatArray, rows: slice = ALL
) -> tuple[FloatArray, FloatArray]:
    """Return `compensated` as an unevaluated sum of two numbers."""
    start, end, _ = rows.indices(len(X))
    if by_column(X):
        columns = X.T
    elif end - start >= SMALLEST_COMPILED or loaded(_compensated):
        columns, start, end = writable(X[rows].T), 0, end - start
    else:
        return _pairs(X[rows], parts, offset[rows])
    own, rest = np.array(offset[rows], dtype=np.float64), np.zeros(end - start)
    _compensated(columns, start, writable(parts), own, rest)
    return own, rest


def _pairs(X: FloatArray, parts: FloatArray, offset: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return what `add_products` computes, by numpy: the same operations in the same order."""
    own, rest = np.array(offset, dtype=np.float64), np.zeros(len(X))
    for column, theta, leading, tail in zip(writable(X.T), *parts, strict=True):
        h = heads(column)
        own, missing = two_sums(own, h * leading)
        rest += missing + (h * tail + (column - h) * theta)
    return own, rest


def row_products(X: FloatArray, theta: FloatArray, rows: slice = ALL) -> FloatArray:
    """Return ``X theta`` of some rows, each row's number depending on that row alone, which BLAS does not ensure."""
    start, end, _ = rows.indices(len(X))
    out = np.zeros(end - start)
    if by_column(X):
        _products(X.T, start, np.ascontiguousarray(theta, dtype=np.float64), out)
        return out
    for column, coefficient in zip(X[rows].T, theta, strict=True):
        out += column * coefficient
    return out


def grid_sum(X: FloatArray, residual: FloatArray, rows: slice = ALL, *, bits: int) -> IntArray:
    """Return the exact sum (D,) over some rows of ``residual_i x_i``, each summand rounded to a multiple of 2^-bits.

    ``residual`` is that of these rows.
    """
    scaled = residual * math.ldexp(1.0, bits)
    if by_column(X):
        total = np.zeros(X.shape[1], dtype=np.int64)
        _score_sum(X.T, rows.indices(len(X))[0], scaled, total)
        return total
    some = X[rows]
    pieces = range(0, max(len(some), 1), PIECE)
    sums = [np.add.reduce(in_steps(some[k : k + PIECE] * scaled[k : k + PIECE, None])) for k in pieces]
    return np.asarray(sums[0] if len(sums) == 1 else np.add.reduce(sums))


def in_steps(numbers: FloatArray) -> IntArray:
    """Return numbers rounded to integers, ties to even: a total map; the numbers are overwritten.

    What is larger than `MOST_STEPS` in size, or is not a number, becomes `MOST_STEPS`.
    """
    numbers += ROUNDER
    steps = numbers.view(np.int64)
    steps -= LOWEST
    above = steps.view(np.uint64)  # what is below 0 is large here
    np.minimum(above, ALL_STEPS, out=above)
    steps -= MOST_STEPS
    return steps


def square_sums(X: FloatArray, diagonal: FloatArray, other: FloatArray, rows: slice = ALL) -> IntArray:
    """Return exact sums over some rows of numbers times ``x x'``, stacked (k, D (D + 1) / 2), each entry rounded first.

    ``diagonal`` and ``other`` (k, rows) are what entries on the diagonal and others of these rows are multiplied by.
    What comes of it is at most 2^50, and rounded to whole numbers.
    """
    D = X.shape[1]
    total = np.zeros((len(diagonal), D * (D + 1) // 2), dtype=np.int64)
    if by_column(X):
        _square_sums(X.T, rows.indices(len(X))[0], diagonal, other, total)
        return total
    columns, place = np.ascontiguousarray(X[rows].T), 0
    steps = np.empty_like(columns)
    for i in range(D):
        pairs, rounded, stop = columns[i] * columns[i:], steps[: D - i], place + D - i
        for k in range(len(total)):
            np.multiply(pairs[0], diagonal[k], out=rounded[0])
            np.multiply(pairs[1:], other[k], out=rounded[1:])
            total[k, place:stop] = np.rint(rounded, out=rounded).sum(axis=1)
        place = stop
    return total


def logistic_sum(
    X: FloatArray,
    y: FloatArray,
    weights: FloatArray,
    offset: FloatArray,
    parts: FloatArray,
    rows: slice = ALL,
    *,
    bits: int,
) -> ExactArray:
    """Return the exact sum (D,) of weighted logistic scores of some rows of all arrays, in multiples of 2^-bits.

    ``parts`` are those of `coefficient_parts`.
    """
    if by_column(X) or loaded(_logistic_sum):
        numbers, scale = (y[rows], weights[rows], offset[rows]), math.ldexp(1.0, bits)
        columns, start = (X.T, rows.indices(len(X))[0]) if by_column(X) else (writable(X[rows].T), 0)
        total = np.zeros((len(numbers[0]) // SUMMED + 1, X.shape[1]), dtype=np.int64)
        _logistic_sum(columns, start, *map(writable, (*numbers, parts)), scale, total)
        return exact_total(total)
    residual = weights[rows] * logistic_residual(compensated(X, parts, offset, rows), y[rows])
    return score_sum(X, residual, rows, bits=bits)


def score_sum(X: FloatArray, residual: FloatArray, rows: slice = ALL, *, bits: int) -> ExactArray:
    """Return `grid_sum` of any number of rows whose integers are at most 2^50, in integers that nothing overflows."""
    start, end, step = rows.indices(len(X))
    if end - start <= SUMMED:
        return grid_sum(X, residual, rows, bits=bits).astype(object)
    sums = [
        grid_sum(X, residual[k - start : k - start + SUMMED], slice(k, min(k + SUMMED, end), step), bits=bits)
        for k in range(start, end, SUMMED)
    ]
    return exact_total(np.stack(sums))


def curvature_sum(X: FloatArray, curvature: FloatArray, rows: slice = ALL, *, bits: int) -> IntArray:
    """Return the exact sum (D, D) of ``c_i x_i x_i'`` over at most `PIECE` rows in units of 2^-(2 bits), ``c_i >= 0``.

    Roots are rounded to multiples of 2^-bits; ``curvature`` is that of these rows.
    """
    scaled = np.sqrt(curvature) * math.ldexp(1.0, bits)
    if by_column(X):
        rounded = np.empty((X.shape[1], len(scaled)))
        _rounded_products(X.T, rows.indices(len(X))[0], scaled, rounded)
    else:
        rounded = np.rint(X[rows].T * scaled)
    return np.asarray((rounded @ rounded.T).astype(np.int64))


def root_bits(largest: float, *, rows: int) -> int:
    """Return the bits after the point of roots of curvatures times rows that are at most ``largest``.

    They are the same for all parts of a table with so many rows, whose products add up to at most 2^62.
    """
    in_all = min(ROOT_BITS, (62 - max(rows - 1, 0).bit_length()) // 2)
    return in_all - max(math.frexp(largest)[1], -900)


def product_work(rows: int, D: int, *, by_columns: bool = True) -> Operations:
    """Return what `row_products` of all rows takes at most."""
    if by_columns and rows >= SMALLEST_COMPILED:
        return Operations(steps=10.0, products=float(rows) * D, passes=rows)
    return Operations(steps=4.0 * D + 10.0, passes=(2.0 if by_columns else STRIDED) * rows * D)


COMPENSATED = 2.0
"""For how many products with an addition a compensated one takes the time at most."""


def compensated_work(rows: int, D: int, *, by_columns: bool = True) -> Operations:
    """Return what `compensated` of all rows takes at most."""
    if by_columns and rows >= SMALLEST_COMPILED:
        return Operations(steps=20.0, products=COMPENSATED * rows * D, passes=2.0 * rows)
    steps = (60.0 + 20.0 * D) * (rows // PIECE + 1.0)
    return Operations(steps=steps, passes=(20.0 if by_columns else 20.0 + STRIDED) * rows * D)


def added_work(
    rows: int, D: int, *, functions: float, by_columns: bool = True, in_one_loop: bool = False
) -> Operations:
    """Return what the sum over all rows of their residuals times them takes at most, from the rows and coefficients.

    ``functions``: for how many exponentials a residual takes the time, unless one compiled loop does all that is done
    for a row, as `logistic_sum`.
    """
    pieces = rows // PIECE + 1.0
    if by_columns and rows >= SMALLEST_COMPILED:
        residuals, copies = (1.0, 2.0) if in_one_loop else (functions, 8.0)
        around = Operations(
            steps=60.0 * pieces, functions=residuals * rows, products=float(rows) * D, passes=copies * rows
        )
    else:
        steps, summands = (60.0 + 4.0 * D) * pieces, (5.0 if by_columns else STRIDED) * rows * D
        around = Operations(steps=steps, functions=functions * rows, passes=8.0 * rows + summands)
    return around + Operations(passes=D * pieces) + compensated_work(rows, D, by_columns=by_columns)


def curvature_work(rows: int, D: int, *, functions: float, by_columns: bool = True, exact: bool = True) -> Operations:
    """Return what the sum over all rows of curvatures times their squares (D, D) takes at most."""
    pieces = rows // PIECE + 1.0
    predictors = product_work(rows, D, by_columns=by_columns)
    rounded = (4.0 if by_columns else STRIDED) * rows * D
    sums = rounded + 10.0 * rows + 4.0 * D**2 * (pieces if exact else 1.0)
    squares = float(rows) * D**2
    return predictors + Operations(steps=80.0 * pieces, passes=sums, functions=functions * rows, squares=squares)


def by_column(X: FloatArray) -> bool:
    """Whether rows are kept column by column, and are so many that compiled code is worth loading."""
    return len(X) >= SMALLEST_COMPILED and X.T.flags.c_contiguous and X.dtype == np.float64


@compiled
def _products(columns: FloatArray, start: int, theta: FloatArray, out: FloatArray) -> None:
    for j in range(len(columns)):
        coefficient, column = theta[j], columns[j, start : start + len(out)]
        for i in range(len(out)):
            out[i] += column[i] * coefficient


@compiled
def _score_sum(columns: FloatArray, start: int, scaled: FloatArray, total: IntArray) -> None:
    for j in range(len(columns)):
        column, added = columns[j, start : start + len(scaled)], np.int64(0)
        for i in range(len(scaled)):
            above = bits_of(column[i] * scaled[i] + ROUNDER) - LOWEST
            added += (above if 0 <= above <= ALL_STEPS else ALL_STEPS) - MOST_STEPS
        total[j] = added


@compiled
def two_sum(a: float, b: float) -> tuple[float, float]:
    """Return the rounded sum and what is missing, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@compiled
def add_product(
    own: float, rest: float, x: float, coefficient: float, leading: float, tail: float
) -> tuple[float, float]:
    """Return the two sums of a predictor with one product more."""
    h = double_of(bits_of(x) & HEAD)
    total, missing = two_sum(own, h * leading)
    return total, rest + (missing + (h * tail + (x - h) * coefficient))


@compiled
def add_products(columns: FloatArray, start: int, parts: FloatArray, own: FloatArray, rest: FloatArray) -> None:
    """Add the products of rows from ``start`` on with coefficients (3, D) to the two sums of their predictors."""
    theta, leading, tail = parts[0], parts[1], parts[2]
    j, d, end = 0, len(columns), start + len(own)
    while j + 4 <= d:
        c0, c1 = columns[j, start:end], columns[j + 1, start:end]
        c2, c3 = columns[j + 2, start:end], columns[j + 3, start:end]
        t0, t1, t2, t3 = theta[j], theta[j + 1], theta[j + 2], theta[j + 3]
        a0, a1, a2, a3 = leading[j], leading[j + 1], leading[j + 2], leading[j + 3]
        b0, b1, b2, b3 = tail[j], tail[j + 1], tail[j + 2], tail[j + 3]
        for i in range(len(own)):
            total, left = add_product(own[i], rest[i], c0[i], t0, a0, b0)
            total, left = add_product(total, left, c1[i], t1, a1, b1)
            total, left = add_product(total, left, c2[i], t2, a2, b2)
            own[i], rest[i] = add_product(total, left, c3[i], t3, a3, b3)
        j += 4
    while j < d:
        c0, t0, a0, b0 = columns[j, start:end], theta[j], leading[j], tail[j]
        for i in range(len(own)):
            own[i], rest[i] = add_product(own[i], rest[i], c0[i], t0, a0, b0)
        j += 1


@compiled
def _compensated(columns: FloatArray, start: int, parts: FloatArray, own: FloatArray, rest: FloatArray) -> None:
    for first in range(0, len(own), BLOCK):
        last = min(first + BLOCK, len(own))
        add_products(columns, start + first, parts, own[first:last], rest[first:last])


@compiled
def _logistic_sum(
    columns: FloatArray,
    start: int,
    y: FloatArray,
    weights: FloatArray,
    offset: FloatArray,
    parts: FloatArray,
    scale: float,
    total: IntArray,
) -> None:
    d, numbers, lesser, scores = len(columns), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    for first in range(0, len(y), BLOCK):
        last, sums = min(first + BLOCK, len(y)), total[first // SUMMED]
        own, rest, low, high = numbers[: last - first], lesser[: last - first], start + first, start + last
        known, weight = offset[first:last], weights[first:last]
        for i in range(len(own)):
            own[i] = known[i]
            rest[i] = 0.0
        add_products(columns, low, parts, own, rest)
        for i in range(len(own)):
            own[i] += rest[i]
        residuals(own, y[first:last], scores[: len(own)])  # another array: in place the loop has no vectors
        for i in range(len(own)):
            own[i] = (weight[i] * scores[i]) * scale
        for j in range(d):
            column, added = columns[j, low:high], np.int64(0)
            for i in range(len(own)):
                added += bits_of(column[i] * own[i] + ROUNDER) - ROUNDER_BITS
            sums[j] += added


@compiled
def _square_sums(columns: FloatArray, start: int, diagonal: FloatArray, other: FloatArray, total: IntArray) -> None:
    d, rows = len(columns), diagonal.shape[1]
    for first in range(0, rows, BLOCK):
        last, place = min(first + BLOCK, rows), 0
        low, high = start + first, start + last
        for i in range(d):
            one = columns[i, low:high]
            for j in range(i, d):
                two = columns[j, low:high]
                for k in range(len(total)):
                    scaled, added = diagonal[k, first:last] if i == j else other[k, first:last], np.int64(0)
                    for row in range(len(one)):
                        added += bits_of((one[row] * two[row]) * scaled[row] + ROUNDER) - ROUNDER_BITS
                    total[k, place] += added
                place += 1


@compiled
def _rounded_products(columns: FloatArray, start: int, scaled: FloatArray, out: FloatArray) -> None:
    for j in range(len(columns)):
        column, rounded = columns[j, start : start + len(scaled)], out[j]
        for i in range(len(scaled)):
            rounded[i] = (column[i] * scaled[i] + ROUNDER) - ROUNDER


SPAN = 170.0
"""Size of the exponents of factors of intervals."""

STEEPEST = 1e150
"""Ratios of hazard to cap are cut here: their squares do not overflow, and the score is the cap."""

TOGETHER = 8
"""Intervals whose terms are added up before they are added to those of others: fewer roundings for each term."""

LANES = 256
"""Spells that are handled at a time."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Factors:
    """Factors of hazards over caps and of caps of some spells and one cause.

    Attributes
    ----------
    E, G : (q,) float64
        ``E_s`` and ``G_s``.
    W, K, level, caps : (b,) float64
        ``W_i``, ``K_i``, ``z_i'beta + o_i`` and ``z_i'delta + o_i``.
    """

    E: FloatArray
    G: FloatArray
    W: FloatArray
    K: FloatArray
    level: FloatArray
    caps: FloatArray

    def at(self, places: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return ratios and caps of each spell in one interval (b,), cut where nobody at risk has them."""
        return np.minimum(self.E[places] * self.W, STEEPEST), np.minimum(self.G[places] * self.K, STEEPEST)


def two_sums(a: FloatArray, b: FloatArray) -> Pair:
    """Return rounded sums elementwise and what is missing, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


LARGEST_REST = 2.0**-40
"""The rest of an exponent that is not cut is smaller."""


def exponential(exponents: Pair, largest: float) -> FloatArray:
    """Return ``e^(x + y)`` of unevaluated sums, those beyond a size of at most `FARTHEST` cut to it."""
    x, y = two_sums(*exponents)
    return np.asarray(
        np.exp(np.clip(x, -largest, largest)) * (1.0 + np.clip(y, -LARGEST_REST, LARGEST_REST)), dtype=np.float64
    )


@compiled
def to_ratios(own: FloatArray, rest: FloatArray, caps: FloatArray, middle: float, ratios: FloatArray) -> None:
    """Set the exponents of ``W`` (b,), cut, from ``z_i'beta + o_i`` in two parts; ``rest`` becomes what they miss."""
    for i in range(len(own)):
        apart, missing = two_sum(own[i], -caps[i])
        shifted, lost = two_sum(apart, middle)
        exponent, left = two_sum(shifted, rest[i] + (missing + lost))
        ratios[i] = min(max(exponent, -2.0 * SPAN), 2.0 * SPAN)
        rest[i] = min(max(left, -LARGEST_REST), LARGEST_REST)


@compiled
def add_scores(
    E: FloatArray,
    G: FloatArray,
    A: FloatArray,
    W: FloatArray,
    K: FloatArray,
    entry: IntArray,
    last: IntArray,
    out: FloatArray,
) -> None:
    """Set ``out`` (e + 1, b): sums over the intervals at risk of ``c A_sj`` for every feature, and of ``c``.

    Those of `TOGETHER` intervals are added up first.
    """
    e, size, some = A.shape[1], np.empty(LANES), np.empty((A.shape[1] + 1, LANES))
    for start in range(0, len(W), LANES):
        end = min(start + LANES, len(W))
        w, k, begins, ends = W[start:end], K[start:end], entry[start:end], last[start:end]
        for j in range(e + 1):
            row = out[j, start:end]
            for i in range(len(w)):
                row[i] = 0.0
        for first in range(0, len(E), TOGETHER):
            some[:] = 0.0
            for s in range(first, min(first + TOGETHER, len(E))):
                ratio, cap, total = E[s], G[s], some[e]
                for i in range(len(w)):
                    u = min(ratio * w[i], STEEPEST)
                    c = cap * k[i] * (u / np.sqrt(1.0 + u * u))
                    size[i] = c if begins[i] <= s and s < ends[i] else 0.0
                    total[i] += size[i]
                for j in range(e):
                    feature, row = A[s, j], some[j]
                    for i in range(len(w)):
                        row[i] += feature * size[i]
            for j in range(e + 1):
                row, of_some = out[j, start:end], some[j]
                for i in range(len(w)):
                    row[i] += of_some[i]


@compiled
def add_curvatures(
    E: FloatArray,
    G: FloatArray,
    A: FloatArray,
    W: FloatArray,
    K: FloatArray,
    entry: IntArray,
    last: IntArray,
    out: FloatArray,
    intervals: IntArray,
) -> None:
    """Set ``out`` as `add_scores` does, for curvatures ``c / (1 + u^2)``, and add them, rounded, to ``intervals`` (q,).

    They are rounded to integers: ``K`` holds what scales them.
    """
    e, size = A.shape[1], np.empty(LANES)
    for start in range(0, len(W), LANES):
        end = min(start + LANES, len(W))
        w, k, begins, ends = W[start:end], K[start:end], entry[start:end], last[start:end]
        for j in range(e + 1):
            row = out[j, start:end]
            for i in range(len(w)):
                row[i] = 0.0
        total = out[e, start:end]
        for s in range(len(E)):
            ratio, cap, added = E[s], G[s], np.int64(0)
            for i in range(len(w)):
                u = min(ratio * w[i], STEEPEST)
                ratio_to_one = u / np.sqrt(1.0 + u * u)
                c = cap * k[i] * (ratio_to_one / (1.0 + u * u))
                size[i] = c if begins[i] <= s and s < ends[i] else 0.0
                total[i] += size[i]
                added += bits_of(size[i] + ROUNDER) - ROUNDER_BITS
            intervals[s] += added
            for j in range(e):
                feature, row = A[s, j], out[j, start:end]
                for i in range(len(w)):
                    row[i] += feature * size[i]


@compiled
def add_caps(
    G: FloatArray,
    K: FloatArray,
    entry: IntArray,
    last: IntArray,
    before: FloatArray,
    most: float,
    sums: FloatArray,
    fits: IntArray,
) -> None:
    """Set each spell's sum of caps (m,) and how many intervals fit under ``most`` after ``before``.

    ``G`` (causes, q) and ``K`` (causes, m) are the factors of the caps.
    """
    caps = np.empty(LANES)
    for start in range(0, len(entry), LANES):
        end = min(start + LANES, len(entry))
        begins, ends, already = entry[start:end], last[start:end], before[start:end]
        running, fit = sums[start:end], fits[start:end]
        for i in range(len(begins)):
            running[i] = 0.0
            fit[i] = 0
        for s in range(G.shape[1]):
            for i in range(len(begins)):
                caps[i] = 0.0
            for cause in range(len(G)):
                factor, k = G[cause, s], K[cause, start:end]
                for i in range(len(begins)):
                    caps[i] += factor * k[i]
            for i in range(len(begins)):
                inside = begins[i] <= s and s < ends[i]
                running[i] += caps[i] if inside else 0.0
                fit[i] += 1 if inside and already[i] + running[i] <= most else 0
