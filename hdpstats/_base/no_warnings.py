"""Computations on rows that give no warning.

Texts of warnings may quote what they met, and that they come may depend on it. The filters of `warnings` belong to the
process, and whoever saves and restores them in one thread takes away what another has set: one filter that asks in
which thread it is serves all, and stays. Only a filter that another thread puts in front of it while a computation runs
comes before it, or one that was put there before and that another thread, which had saved it, restores meanwhile.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, cast, final

import numpy as np

_SILENT: ContextVar[bool] = ContextVar("whether warnings are ignored", default=False)


@final
class _Silent:
    """Stands in `warnings.filters` where a compiled regular expression may: it matches in computations on rows."""

    pattern = "(?!)"
    """What a copy of the filter by its regular expression matches: nothing."""

    @staticmethod
    def match(_text: str) -> bool:
        return _SILENT.get()


_FILTER: Final = ("ignore", _Silent, Warning, None, 0)


def _put_first() -> None:
    """Put the filter before all others, once."""
    filters = cast(list[Any], warnings.filters)
    if filters[:1] != [_FILTER]:
        filters[:] = [_FILTER, *(each for each in filters if each != _FILTER)]


_put_first()  # now: what another thread saves before the first computation, and restores within it, has the filter


@contextmanager
def silence() -> Iterator[None]:
    """Let a computation give no warning, in this thread and in those that inherit its context; others are as before."""
    _put_first()
    token = _SILENT.set(True)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _SILENT.reset(token)
