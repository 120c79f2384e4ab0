"""How loops over rows are compiled, and the bits of doubles inside them.

What a loop computes for a row must depend on that row alone, to the last bit. So loops are compiled without permission
to reorder, contract or approximate: in any lane of a vector, and in what is left over after the last full vector, each
operation is that of IEEE 754, as numpy's are.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def compiled(loop: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile a loop, once per machine where there is a place to keep compiled code, else once per process.

    Without options nothing is reordered or fused: numbers are those of numpy to the last bit. Code that was kept is
    used while the file of the loop, those of the loops that it calls and the constants that it names are as they were.
    """
    options = {"nogil": True, "error_model": "numpy"} | options
    try:
        made = numba.njit(cache=True, **options)(loop)
        kept = made._cache._cache_file
        kept._source_stamp = (kept._source_stamp, *_used_by(loop))
    except (RuntimeError, AttributeError):  # no place to keep code, or a numba that keeps it otherwise
        made = numba.njit(**options)(loop)
    return cast("Callable[..., Any]", made)


def _used_by(loop: Callable[..., Any]) -> Iterator[object]:
    """Give the states of what is compiled into a loop from elsewhere: numba looks at the loop's own file only."""
    for name in loop.__code__.co_names:
        used: Any = loop.__globals__.get(name)
        if isinstance(used, int | float | str):
            yield name, used
        elif hasattr(used, "_cache"):
            yield name, used._cache._cache_file._source_stamp
        elif hasattr(used, "_defn"):
            file = Path(used._defn.__code__.co_filename).stat()
            yield name, file.st_mtime_ns, file.st_size


def compiled_reordered(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a loop over public rows, which may reorder its sums; infinities and NaN keep their meaning."""
    return compiled(loop, fastmath={"reassoc", "contract", "nsz"})


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread of ours: where others compute beside, they share the processors already."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        yield
    finally:
        numba.set_num_threads(before)


ROUNDER = 1.5 * 2.0**52
"""Added to a number of at most 2^51 it leaves the nearest integer (ties to even) in the last bits of the sum."""

ROUNDER_BITS = int(np.float64(ROUNDER).view(np.int64))
"""Less the bits of that sum, as an integer, they are that integer."""

SMALLEST_COMPILED = 512
"""Rows from which compiled loops are used: below, numpy is done before compiled code is loaded."""


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
