"""What compiled loops do that has no word in Python: bits of numbers, numbers at addresses, prefetching, rounding."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

ROUNDER = 1.5 * 2.0**52
"""Added to a number of at most 2^51 it leaves the nearest integer (ties to even) in the last bits of the sum."""

ROUNDER_BITS = int(np.float64(ROUNDER).view(np.int64))
"""Less the bits of that sum, as an integer, they are that integer."""


@intrinsic  # type: ignore[untyped-decorator]
def bits_of(_typing: Any, number: Any) -> Any:  # noqa: ARG001
    """Return the 64 bits of a double as an integer, inside a compiled loop."""

    def generated(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return builder.bitcast(given[0], ir.IntType(64))

    return types.int64(types.float64), generated


@intrinsic  # type: ignore[untyped-decorator]
def double_of(_typing: Any, bits: Any) -> Any:  # noqa: ARG001
    """Return the double that has 64 bits, inside a compiled loop."""

    def generated(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return builder.bitcast(given[0], ir.DoubleType())

    return types.float64(types.int64), generated


@intrinsic  # type: ignore[untyped-decorator]
def double_at(_typing: Any, address: Any, place: Any) -> Any:  # noqa: ARG001
    """Return the double at a place of an array that is given by its address, inside a compiled loop."""

    def generated(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return builder.load(builder.gep(builder.inttoptr(given[0], ir.DoubleType().as_pointer()), [given[1]]))

    return types.float64(types.int64, types.int64), generated


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(_typing: Any, address: Any) -> Any:  # noqa: ARG001
    """Prefetch what is at an address into the second cache, if anything is there; inside a compiled loop."""

    def generated(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        short = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), short, short, short])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        place = builder.inttoptr(given[0], ir.IntType(8).as_pointer())
        builder.call(fetch, [place, *(ir.Constant(short, number) for number in (0, 2, 1))])  # to read, level 2, data
        return context.get_dummy_value()

    return types.void(types.int64), generated
