"""Loops over records or repetitions: whether they may stop early, and how far they are.

**Full length.** The time of a computation must not depend on its rows. Its work is therefore bounded by public facts,
and a service measures that bound on invented rows: it *rehearses* the computation with every loop at its full length,
and answers real requests no earlier than such a rehearsal ends. A loop that ends as soon as it has converged asks
`full_length` first.

**Progress.** A bar after a second on a terminal or in a notebook, silence elsewhere. It is for work whose length is
public only: how many steps a solver takes on private rows depends on these.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
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


def progress(items: Iterable[T], *, total: int | None = None, label: str = "") -> Iterator[T]:
    """Iterate over items; a bar shows where there is somebody to see it and the work takes more than a second."""
    bar = _bar()
    return iter(items if bar is None else bar(items, total=total, desc=label, delay=1.0, leave=False))


def _bar() -> Callable[..., Any] | None:
    """Return tqdm's bar for this place: a widget or text in a notebook, text on a terminal, None elsewhere.

    tqdm chooses when it is imported, and takes any process with ipykernel in it for a notebook, also a Jupyter kernel
    for R: so it is imported once it is known that a notebook asks. Without ipywidgets its bar there is text.
    """
    if in_notebook():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that ipywidgets is not installed
            from tqdm.auto import tqdm as bar
    elif sys.stderr is not None and sys.stderr.isatty():
        from tqdm import tqdm as bar
    else:
        return None
    made: Callable[..., Any] = bar
    return made


def in_notebook() -> bool:
    """Whether this is IPython in a Jupyter kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None
