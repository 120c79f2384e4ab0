"""Random bits from the operating system, and nothing else.

Every bit that protects a release is read from the kernel's generator (`os.urandom`) when it is first used. There is no
seed and no generator of our own. When the kernel cannot deliver, the error of `os.urandom` propagates; there is no
second source.

**One charge, one draw.** A proof about a mechanism speaks of one draw of its noise. Were the noise drawn anew when a
computation that was interrupted or failed is done again, the release would be the first draw that did not fail, or the
fastest of several, and no proof covers that. So the bits of one charged request are those of one `Draw`: while it is in
use, what the operating system delivered is kept in order, and a computation that begins again meets the same bits. The
release is then a function of the rows and of one random sequence, whenever and however often it is computed. A draw
lives in the memory of one process, for as long as its request has no release.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import final

from hdpstats._base.errors import ArgumentError


def system_bytes(count: int) -> bytes:
    """Return bytes of the operating system's generator: the one place where entropy is read."""
    return os.urandom(count)


@final
class Draw:
    """The random bytes of one charged request: read once, and the same ones in the same order ever after.

    Where a thread computes under a draw (`drawing`) nobody else may: a lock of the caller's keeps others waiting. The
    bytes are as secret as the noise that is made of them.
    """

    __slots__ = ("_kept", "_place", "_process")

    def __init__(self) -> None:
        self._process = os.getpid()
        self._kept = bytearray()
        self._place = 0

    def read(self, count: int) -> bytes:
        """Return the next bytes, from memory where they were read before; in a forked process nothing."""
        if not self.is_here():
            raise RuntimeError("a draw belongs to the process that began it")
        end = self._place + count
        if end > len(self._kept):
            self._kept += system_bytes(end - len(self._kept))
        found = bytes(self._kept[self._place : end])
        self._place = end
        return found

    def is_here(self) -> bool:
        """Whether this process began the draw: a fork of it must not use the same bytes."""
        return self._process == os.getpid()

    def begin(self) -> None:
        """Go back to the first byte."""
        self._place = 0

    def __repr__(self) -> str:
        return "<draw>"


_CURRENT: ContextVar[Draw | None] = ContextVar("the draw that bits come from", default=None)


@contextmanager
def drawing(draw: Draw) -> Iterator[None]:
    """Let all bits that this thread uses come from one draw, beginning with its first."""
    draw.begin()
    token = _CURRENT.set(draw)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def bits(count: int) -> int:
    """Return an integer uniform on {0, ..., 2^count - 1}."""
    size = (count + 7) >> 3
    draw = _CURRENT.get()
    read = system_bytes(size) if draw is None else draw.read(size)
    return int.from_bytes(read, "little") >> (-count & 7)


def below(bound: int) -> int:
    """Return an integer uniform on {0, ..., bound - 1}, by rejection: exact for every bound >= 1."""
    if bound < 1:
        raise ArgumentError(f"bound must be at least 1, not {bound}", argument="bound")
    length = (bound - 1).bit_length()
    while True:
        value = bits(length)
        if value < bound:
            return value
