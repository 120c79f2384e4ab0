"""Ctrl-C stops what runs, be it R or Python, whichever of them started the other.

R looks at its flag ``R_interrupts_pending``, Python at its own. Where Python started R, signals arrive in Python: a
thread that hears of them through `signal.set_wakeup_fd` raises R's flag while R runs. Where R started Python, signals
arrive in R (RStudio raises the flag without one): a thread watches the flag and interrupts Python while Python runs.
"""

import _thread
import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

from rpy2.rinterface_lib import openrlib

from r_bridge import session

_EVERY = 0.05
"""Seconds between two looks at R's flag."""


@final
class _Listener:
    """A thread that raises R's flag when Python receives SIGINT, while somebody wants it."""

    def __init__(self) -> None:
        self._read, self.write = os.pipe()
        os.set_blocking(self.write, False)
        self._busy = threading.Lock()
        self.depth = 0
        threading.Thread(target=self._listen, name="r_bridge-interrupts", daemon=True).start()

    def _listen(self) -> None:
        while True:
            select.select([self._read], [], [])
            with self._busy:
                received = os.read(self._read, 1)
                if self.depth and received[0] == signal.SIGINT:
                    openrlib.rlib.R_interrupts_pending = 1

    def settle(self) -> None:
        """Return when no signal is on its way, with R's flag down."""
        while select.select([self._read], [], [], 0)[0]:
            threading.Event().wait(0.001)
        with self._busy:
            openrlib.rlib.R_interrupts_pending = 0


_listener: _Listener | None = None


@contextmanager
def in_r() -> Iterator[None]:
    """While this lasts, Ctrl-C reaches R. On leaving, R's flag is down."""
    global _listener
    if session.hosted() or threading.current_thread() is not threading.main_thread():
        yield
        return
    if _listener is None:
        _listener = _Listener()
    before = signal.set_wakeup_fd(_listener.write, warn_on_full_buffer=False)
    _listener.depth += 1
    try:
        yield
    finally:
        _listener.depth -= 1
        if _listener.depth == 0:
            _listener.settle()
        signal.set_wakeup_fd(before)


@contextmanager
def in_python() -> Iterator[None]:
    """While this lasts, an interrupt of R interrupts Python too."""
    if not session.hosted():
        yield
        return
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_EVERY):
            if openrlib.rlib.R_interrupts_pending:
                openrlib.rlib.R_interrupts_pending = 0
                _thread.interrupt_main()

    watcher = threading.Thread(target=watch, name="r_bridge-interrupts", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def taken() -> None:
    """Lower R's flag: Python has taken the interrupt, and R is told by the reply."""
    if _listener is not None:
        _listener.settle()
    openrlib.rlib.R_interrupts_pending = 0
