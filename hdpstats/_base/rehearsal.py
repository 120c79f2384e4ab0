"""Whether loops over records may stop early, or do all the work that they could ever need.

The time of a computation must not depend on its rows. Its work is therefore bounded by public facts, and a
service measures that bound on invented rows: it *rehearses* the computation with every loop at its full length, and
answers real requests no earlier than such a rehearsal ends. A loop that ends as soon as it has converged asks
`full_length` first.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_FULL: ContextVar[bool] = ContextVar("whether loops go on to their full length", default=False)


def full_length() -> bool:
    """Whether loops must make all the steps that they may."""
    return _FULL.get()


@contextmanager
def rehearsing() -> Iterator[None]:
    """Let all loops in this thread go on to their full length, on invented rows."""
    token = _FULL.set(True)
    try:
        yield
    finally:
        _FULL.reset(token)
