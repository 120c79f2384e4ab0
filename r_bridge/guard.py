"""Calls into R whose errors, warnings and interrupts arrive in Python as what they are.

**Interrupts.** Ctrl-C stops what runs, be it R or Python, whichever of them started the other. R looks at its flag
``R_interrupts_pending``, Python at its own. Where Python started R, signals arrive in Python: a thread that is notified
by `signal.set_wakeup_fd` raises R's flag while R runs, and Python itself does nothing about them, since it would raise
KeyboardInterrupt inside one of R's callbacks, where it is lost. A flag that is raised between R's look at it and a
wait, as of ``Sys.sleep``, would be seen after the wait only, which no signal ends: so R is told to wait in short
pieces, and looks at its flag after each. Where R started Python, signals arrive in R (RStudio raises the flag without
one): a thread watches the flag and interrupts Python while Python runs. R does not look at its flag while Python runs,
so that no conversion is cut short.

That thread ends with each call of Python. R forks (``parallel::mclapply``) without notice to Python, while its thread
holds Python's lock; a thread that waits for the lock at that moment leaves its request for it to the forked process, in
which it does not exist, and Python there passes the lock to nobody and waits forever. Where Python started R, the lock
is free while R runs, and `r_bridge.session.hold_lock_across_forks` is for forks.
"""

import _thread
import ctypes
import os
import platform
import re
import select
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, final

import rpy2.rinterface as ri
from rpy2.rinterface_lib import openrlib
from rpy2.situation import get_r_home, get_rlib_path

import hdpstats.api as hdp
from hdpstats.api import HdpError
from r_bridge import session
from r_bridge.session import quoted, r_function, start
from r_bridge.vectors import fields, from_r_strings, text

_EVERY = 0.05
"""Seconds between two looks at R's flag."""


@final
class _Listener:
    """A thread that raises R's flag when Python receives SIGINT, while R is what runs."""

    def __init__(self) -> None:
        self._read, self.write = os.pipe()
        os.set_blocking(self.write, False)
        self._busy = threading.Lock()
        self.r_runs = False
        self.received = 0  # how many signals Python has seen
        self.interrupted = False  # whether Python was interrupted since it was called by R
        _wait_in_pieces()
        threading.Thread(target=self._listen, name="r_bridge-interrupts", daemon=True).start()

    def _listen(self) -> None:
        while True:
            select.select([self._read], [], [])
            with self._busy:
                received = os.read(self._read, 1)
                if self.r_runs and received[0] == signal.SIGINT:
                    openrlib.rlib.R_interrupts_pending = 1

    def clear_flag(self, r_runs: bool) -> bool:
        """Clear R's flag once no signal is on its way, say what runs from now on, and return whether the flag was up.

        It was up where R has not seen a signal.
        """
        while select.select([self._read], [], [], 0)[0]:
            time.sleep(0.001)
        with self._busy:
            unseen = bool(openrlib.rlib.R_interrupts_pending)
            openrlib.rlib.R_interrupts_pending = 0
            self.r_runs = r_runs
        return unseen


@final
class _Watcher:
    """A thread that interrupts Python when R's flag is up; it exists while Python is what runs, called by R.

    It has ended, and no longer waits for Python's lock, when `watch` returns.
    """

    def __init__(self) -> None:
        self._ended: threading.Event | None = None
        self._thread: threading.Thread | None = None
        self.changes = False  # whether a thread is being started or ended: an interrupt is left to R's flag meanwhile
        self.interrupted = False  # whether Python was interrupted since it was called by R

    @property
    def watches(self) -> bool:
        """Whether Python is what runs."""
        return self._thread is not None

    def watch(self, python_runs: bool) -> None:
        """Say whether Python runs from now on."""
        self.changes = True
        try:
            if python_runs and not self.watches:
                self._ended = threading.Event()
                self._thread = threading.Thread(
                    target=_watch, args=(self._ended,), name="r_bridge-interrupts", daemon=True
                )
                self._thread.start()
            elif not python_runs and self._thread is not None and self._ended is not None:
                self._ended.set()
                self._thread.join()
                self._thread = self._ended = None
        finally:
            self.changes = False


def _watch(ended: threading.Event) -> None:
    while not ended.wait(_EVERY):
        if openrlib.rlib.R_interrupts_pending:
            _thread.interrupt_main()


_listener = cache(_Listener)
_watcher = cache(_Watcher)


@cache
def _variable(name: str) -> ctypes.c_int:
    """Return a variable of R's that rpy2 does not know."""
    home = get_r_home() or ""
    library = Path(get_rlib_path(home, platform.system()))
    return ctypes.c_int.in_dll(ctypes.CDLL(str(library)), name)


def _suspended() -> ctypes.c_int:
    """Return the variable that keeps R from looking at its flag."""
    return _variable("R_interrupts_suspended")


def _wait_in_pieces() -> None:
    """Let R look at its flag every so often while it waits; a package may have asked for shorter pieces."""
    microseconds = _variable("R_wait_usec")
    if microseconds.value <= 0:
        microseconds.value = int(1e6 * _EVERY)


@contextmanager
def suspending() -> Iterator[None]:
    """While this lasts, R does not look at its flag, unless it allows interrupts itself."""
    before = _suspended().value
    try:
        _suspended().value = 1
        yield
    finally:
        _suspended().value = before


@contextmanager
def in_r() -> Iterator[None]:
    """While this lasts, Ctrl-C interrupts R where R allows it.

    Raises
    ------
    KeyboardInterrupt
        On leaving, where a signal came so late that R did not see it.
    """
    with suspending(), _watching(False) if session.hosted() else _listening():
        yield


@contextmanager
def in_python() -> Iterator[None]:
    """While this lasts, Ctrl-C interrupts Python, which R has called."""
    with suspending(), _watching(True) if session.hosted() else _not_listening():
        yield


@contextmanager
def _listening() -> Iterator[None]:
    listener = _listener()
    before = listener.r_runs
    listener.clear_flag(before)  # what Python has acted on is not for R
    wakeup = signal.set_wakeup_fd(listener.write, warn_on_full_buffer=False)
    handler = signal.getsignal(signal.SIGINT)
    try:
        listener.r_runs = True
        signal.signal(signal.SIGINT, _on_signal)
        yield
    finally:
        seen, unseen = listener.received, listener.clear_flag(True)
        signal.set_wakeup_fd(wakeup)
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler if handler is None else handler)
        finally:
            unseen = listener.clear_flag(before) or unseen
        if unseen or listener.received != seen:
            raise KeyboardInterrupt


@contextmanager
def _not_listening() -> Iterator[None]:
    listener = _listener()
    if not listener.r_runs:  # R was started by other means than `in_r`: signals interrupt Python all the time
        yield
        return
    try:
        seen, unseen = listener.received, listener.clear_flag(False)
        if unseen or listener.received != seen:  # R has called Python before it looked at its flag
            raise KeyboardInterrupt
        yield
    finally:
        listener.r_runs = True  # first, and by no call: from here on nothing is raised
        interrupted, listener.interrupted = listener.interrupted, False
        # An exception is lost where an object's end or a callback of R's is what it interrupts, and is another one
        # where what it interrupts, as an import, reports every exception as its own.
        if listener.clear_flag(True) or interrupted:
            raise KeyboardInterrupt


def _on_signal(_signal: int, _frame: FrameType | None) -> None:
    """Interrupt Python where it runs, called by R; where R runs the listener has raised R's flag."""
    listener = _listener()
    listener.received += 1
    if not listener.r_runs:
        listener.interrupted = True
        raise KeyboardInterrupt


def on_signal_in_r_session(_signal: int, frame: FrameType | None) -> None:
    """Do what Python does about SIGINT in an R session: raise KeyboardInterrupt, if it is Python's to act.

    R and Python both get a signal (from the watcher, from reticulate, by R's flag). R acts where it has done so already
    and cleared its flag, and during the change from one to the other, where an exception would be lost.
    """
    watcher = _watcher()
    in_transition = watcher.changes or (not watcher.watches and _called_by_rpy2(frame))
    if openrlib.rlib.R_interrupts_pending and not in_transition:
        openrlib.rlib.R_interrupts_pending = 0
        watcher.interrupted |= watcher.watches
        raise KeyboardInterrupt


def _called_by_rpy2(frame: FrameType | None) -> bool:
    while frame is not None:
        if "rpy2" in Path(frame.f_code.co_filename).parts:
            return True
        frame = frame.f_back
    return False


@contextmanager
def _watching(python_runs: bool) -> Iterator[None]:
    watcher = _watcher()
    before = watcher.watches
    called = python_runs and not before
    if called:
        watcher.interrupted = False
    watcher.watch(python_runs)
    try:
        yield
    finally:
        watcher.changes = True  # first, and by no call: from here on nothing is raised before the thread has ended
        watcher.watch(before)
        if called and watcher.interrupted:
            watcher.interrupted = False
            # See `_not_listening`: what arrives here may be another exception, or none. An interrupt that Python code
            # has handled itself is raised too: R cannot tell.
            raise KeyboardInterrupt


class RError(RuntimeError):
    """An error of R: its message, and the condition's ``classes``, most special first."""

    def __init__(self, message: str, *, classes: tuple[str, ...]) -> None:
        super().__init__(message)
        self.classes = classes


class RWarning(UserWarning):
    """A warning of R."""


def guarded(function: Any, /, *arguments: Any, **named: Any) -> Any:
    """Call an R function with R objects and return the R object that it returns; calls and symbols stay what they are.

    Raises
    ------
    RError
        If R raises an error; where the condition is that of an error of `hdpstats`, that one.
    KeyboardInterrupt
        If R was interrupted.
    """
    start()
    with in_r():
        reply = r_function("guarded")(
            function, *map(quoted, arguments), **{name: quoted(value) for name, value in named.items()}
        )
    parts = fields(reply)
    for message in from_r_strings(parts["warned"]):
        warnings.warn(str(message), RWarning, stacklevel=2)
    if "interrupt" in parts:
        raise KeyboardInterrupt
    if "message" in parts:
        kinds = tuple(map(str, from_r_strings(parts["classes"])))
        raise exception_of(text(parts["message"]), kinds, parts["fields"])
    return parts["value"]


@cache
def sourced(path: Path) -> Any:
    """Return the R environment of the functions in an R file, or in the R files of a directory."""
    return guarded(r_function("sourced"), ri.StrSexpVector([str(path)]))


def exception_of(message: str, classes: tuple[str, ...], facts: Any) -> Exception:
    """Return the Python exception for an R condition: an error of `hdpstats` if R's class is that of one."""
    kind = next((ERRORS[name] for name in classes if name in ERRORS), None)
    if kind is None:
        return RError(message, classes=classes)
    return kind(message, **{key: fact[0] for key, fact in fields(facts).items()})


def condition_class(kind: type) -> str:
    """Return the R class for a Python class of errors.

    >>> condition_class(hdp.InsufficientBudget), condition_class(hdp.HdpError)
    ('dp_insufficient_budget', 'dp_error')
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__.removeprefix("Hdp")).lower()
    return f"dp_{words}"


def _errors(kind: type[HdpError]) -> Iterator[type[HdpError]]:
    """Yield a class of errors and all that derive from it."""
    yield kind
    for derived in kind.__subclasses__():
        yield from _errors(derived)


ERRORS = {condition_class(kind): kind for kind in _errors(HdpError) if kind.__name__ in hdp.__all__}
"""The errors of `hdpstats` by their R classes."""
