"""Numbers between numpy and R, copied whole, and the bit patterns that stand for missing values in R."""

from typing import Any, Final

import numpy as np
import rpy2.rinterface as ri

NA_INTEGER: Final = -(2**31)
NA_INTEGER64: Final = -(2**63)
NA_BITS: Final = 0x7FF00000000007A2
QUIET_NA: Final = NA_BITS | 0x0008000000000000
"""NA with which arithmetic raises no alarm; NA to R as well."""

NAN_BITS: Final = 0x7FF8000000000000
NAN_FROM_R: Final = 0x7FF80000000007A3
"""What R's NaN becomes in Python, where any other NaN stands for a missing value and becomes NA."""

_LOW: Final = 0xFFFFFFFF
"""R tells NA from NaN by the lower half of the bits."""


def cells_of(vector: Any) -> Any:
    """Return a copy of a vector of numbers or truth values, column by column where it is a matrix."""
    return np.array(vector.memoryview()).ravel(order="F")


def integers(cells: Any) -> Any:
    """Return an integer vector of R from numbers that fit."""
    buffer: Any = np.ascontiguousarray(cells, dtype=np.int32)
    return ri.IntSexpVector.from_memoryview(memoryview(buffer))


def doubles(cells: Any) -> Any:
    """Return a double vector of R, bit by bit."""
    buffer: Any = np.ascontiguousarray(cells, dtype=np.float64)
    return ri.FloatSexpVector.from_memoryview(memoryview(buffer))


def from_r_doubles(cells: Any) -> Any:
    """Return R's doubles with `QUIET_NA` for NA and `NAN_FROM_R` for NaN, both of which are NaN to numpy."""
    missing = np.isnan(cells)
    if missing.any():
        bits = cells.view(np.int64)
        bits[missing] = np.where((bits[missing] & _LOW) == NA_BITS & _LOW, QUIET_NA, NAN_FROM_R)
    return cells


def to_r_doubles(cells: Any) -> Any:
    """Return a double vector of R in which NaN is NA, but where R said NaN."""
    cells = np.ascontiguousarray(cells, dtype=np.float64)
    missing = np.isnan(cells)
    if missing.any():
        bits = cells.view(np.int64).copy()
        bits[missing] = np.where(bits[missing] == NAN_FROM_R, NAN_BITS, NA_BITS)
        cells = bits.view(np.float64)
    return doubles(cells)
