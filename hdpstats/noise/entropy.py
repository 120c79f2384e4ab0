"""Random bits from the operating system, and nothing else.

Every bit that protects a release is read from the kernel's generator (`os.urandom`) at the moment it is used.
There is no seed, no state and no buffer: nothing that two threads, a parent and its forked child (also one
forked behind Python's back, as R's ``mclapply`` does), or a restored snapshot of this process could use
twice. One read costs about half a microsecond, as much as keeping a buffer safe would. When the kernel cannot
deliver, the error of `os.urandom` propagates; there is no second source.
"""

import os

from hdpstats._base.errors import ArgumentError


def bits(count: int) -> int:
    """Return an integer uniform on {0, ..., 2^count - 1}."""
    return int.from_bytes(os.urandom((count + 7) >> 3), "little") >> (-count & 7)


def below(bound: int) -> int:
    """Return an integer uniform on {0, ..., bound - 1}, by rejection: exact for every bound >= 1."""
    if bound < 1:
        raise ArgumentError(f"bound must be at least 1, not {bound}", argument="bound")
    length = (bound - 1).bit_length()
    while True:
        value = bits(length)
        if value < bound:
            return value
