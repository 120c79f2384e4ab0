"""Notes, and bars of progress: after a second on a terminal or in a notebook, silence elsewhere.

They are for work whose length is public only: how many steps a solver takes on private rows depends on these.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from hdpstats._base.no_warnings import silence

T = TypeVar("T")


def progress(items: Iterable[T], *, total: int | None = None, label: str = "") -> Iterator[T]:
    """Iterate over items; a bar shows where there is somebody to see it and the work takes more than a second."""
    bar = _bar()
    return iter(items if bar is None else bar(items, total=total, desc=label, delay=1.0, leave=False))


_WORDED: Final[ContextVar[Callable[[str], str]]] = ContextVar("how notes are worded", default=str)


@contextmanager
def notes_worded(by: Callable[[str], str]) -> Iterator[None]:
    """Let notes be worded by a function, as for users of another language."""
    token = _WORDED.set(by)
    try:
        yield
    finally:
        _WORDED.reset(token)


def note(words: str) -> None:
    """Tell the user of something on standard error, where there is one; never of private rows."""
    if sys.stderr is not None:
        sys.stderr.write(f"hdpstats: {_WORDED.get()(words)}\n")
        sys.stderr.flush()


def _bar() -> Callable[..., Any] | None:
    """Return tqdm's bar for this place: a widget or text in a notebook, text on a terminal, None elsewhere.

    tqdm chooses when it is imported, and takes any process with ipykernel in it for a notebook, also a Jupyter kernel
    for R: so it is imported once it is known that a notebook asks. Without ipywidgets its bar there is text.
    """
    if in_notebook():
        with silence():  # that ipywidgets is not installed
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
