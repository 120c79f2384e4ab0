r"""A matrix times columns, in a compiled loop: sums stay in registers, rows are lanes of vectors.

What is computed of a row is :math:`(\cdots((0 + a_{k0} c_0) + a_{k1} c_1) + \cdots) + a_{k,d-1} c_{d-1}`, each product
and each sum rounded by itself (nothing is fused or reordered), in whatever lane the row is: the numbers of `numpy`, to
the last bit, and of a row that depend on that row alone. A processor with narrower vectors takes two or four of its own
for one of these, with the same numbers.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from hdpstats._base.compiled import compiled
from hdpstats._base.typing import FloatArray

VECTOR = 8
"""Doubles of a vector."""

LANES = 2 * VECTOR
"""Rows that are handled at a time: tiles must be a multiple of it."""

AT_ONCE = 5
"""Rows of the matrix that are handled at a time: ten sums, which hide each other's latency."""

INTEGER, DOUBLE = ir.IntType(64), ir.DoubleType()
DOUBLES = ir.VectorType(DOUBLE, VECTOR)


def _sums(count: int) -> Callable[..., None]:
    """Return a loop over ``d`` columns that adds ``count`` rows of the matrix for `LANES` rows.

    Its arguments are addresses: of the first row of the matrix (rows of ``d`` numbers), of the first of these rows in
    the first column, of the place for their first sum; and ``d`` and how many rows a tile has.
    """

    @intrinsic  # type: ignore[untyped-decorator]
    def sums(_typing: Any, matrix: Any, columns: Any, out: Any, d: Any, rows: Any) -> Any:  # noqa: ARG001
        def generated(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
            pointers = [builder.inttoptr(address, DOUBLE.as_pointer()) for address in given[:3]]
            _generate(builder, *pointers, *given[3:], count=count)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5), generated

    compiled_sums: Callable[..., None] = sums
    return compiled_sums


def _generate(builder: Any, matrix: Any, columns: Any, out: Any, d: Any, rows: Any, *, count: int) -> None:
    before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    zero, one = ir.Constant(DOUBLES, [0.0] * VECTOR), ir.Constant(INTEGER, 1)
    lines = [builder.gep(matrix, [builder.mul(d, ir.Constant(INTEGER, k))]) for k in range(count)]
    builder.branch(loop)
    builder.position_at_end(loop)
    j = builder.phi(INTEGER)
    j.add_incoming(ir.Constant(INTEGER, 0), before)
    halves = [[builder.phi(DOUBLES) for _ in range(2)] for _ in range(count)]
    start = builder.gep(columns, [builder.mul(j, rows)])
    numbers = [_vector_at(builder, start, half) for half in range(2)]
    for line, sums in zip(lines, halves, strict=True):
        factor = _everywhere(builder, builder.load(builder.gep(line, [j])))
        for number, total in zip(numbers, sums, strict=True):
            total.add_incoming(zero, before)
            total.add_incoming(builder.fadd(total, builder.fmul(number, factor)), loop)
    following = builder.add(j, one)
    j.add_incoming(following, loop)
    builder.cbranch(builder.icmp_signed("<", following, d), loop, after)
    builder.position_at_end(after)
    for k, sums in enumerate(halves):
        place = builder.gep(out, [builder.mul(rows, ir.Constant(INTEGER, k))])
        for half, total in enumerate(sums):
            last = total.incomings[1][0]
            builder.store(last, _pointer(builder, place, half)).align = 8


def _pointer(builder: Any, start: Any, half: int) -> Any:
    return builder.bitcast(builder.gep(start, [ir.Constant(INTEGER, half * VECTOR)]), DOUBLES.as_pointer())


def _vector_at(builder: Any, start: Any, half: int) -> Any:
    vector = builder.load(_pointer(builder, start, half))
    vector.align = 8
    return vector


def _everywhere(builder: Any, number: Any) -> Any:
    nothing, index = ir.Constant(DOUBLES, ir.Undefined), ir.IntType(32)
    first = builder.insert_element(nothing, number, ir.Constant(index, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(index, VECTOR), [0] * VECTOR))


_several, _single = _sums(AT_ONCE), _sums(1)


@compiled
def products(matrix: FloatArray, columns: FloatArray, out: FloatArray) -> None:
    """Write a matrix (k, d) times columns (d, rows), d >= 1, of a tile of a multiple of `LANES` rows; C order all."""
    k, d = matrix.shape
    rows = columns.shape[1]
    for i in range(0, rows, LANES):
        first = 0
        while first < k:
            start = matrix.ctypes.data + 8 * first * d
            to = out.ctypes.data + 8 * (first * rows + i)
            if first + AT_ONCE <= k:
                _several(start, columns.ctypes.data + 8 * i, to, d, rows)
                first += AT_ONCE
            else:
                _single(start, columns.ctypes.data + 8 * i, to, d, rows)
                first += 1
