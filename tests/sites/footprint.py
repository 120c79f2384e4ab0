"""How many bytes a process has allocated and not freed: here, or in another process when it gets a signal.

Its resident size would tell less: memory that was freed stays with the process, more or less of it as chance has it.
"""

import ctypes
import gc
import os
import signal
import sys
from pathlib import Path

from tests.waiting import until

SMALL_BLOCK = 64
"""About so many bytes has one of Python's small blocks, which are counted and not measured."""


class _Malloc(ctypes.Structure):
    """What `mallinfo2` of the C library returns."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd")]
    _fields_ += [(name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


def in_use() -> int:
    """Return the bytes in use in this process."""
    gc.collect()
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = _Malloc
    found = ask()
    return found.uordblks + found.hblkhd + SMALL_BLOCK * sys.getallocatedblocks()


def tell_when_asked(path: str) -> None:
    """Write the bytes in use to a file whenever this process gets a signal."""

    def tell(*_: object) -> None:
        new = Path(f"{path}.new")
        new.write_text(str(in_use()))
        new.replace(path)

    signal.signal(signal.SIGUSR1, tell)


def in_use_of(process: int, path: Path) -> int:
    """Return the bytes in use in another process, which tells when asked."""
    path.unlink(missing_ok=True)
    os.kill(process, signal.SIGUSR1)
    until(path.exists, "the size of another process")
    return int(path.read_text())
