"""Loops at their full length, on invented rows.

The time of a computation must not depend on its rows. Its work is therefore bounded by public facts, and a service
counts that bound (`hdpstats._base.work`) and answers no earlier. To check the count, a computation is *rehearsed* on
invented rows with every loop at its full length: a loop that ends as soon as it has converged asks `full_length` first.
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
