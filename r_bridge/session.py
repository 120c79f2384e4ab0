"""The one R of this process: started inside Python, or the one that started Python."""

import ctypes
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from types import FrameType
from typing import Any

import rpy2.rinterface as ri
from rpy2.rinterface_lib import callbacks, embedded, openrlib

from hdpstats.api import HdpError

OPTIONS = ("rpy2", "--quiet", "--no-save", "--no-restore", "--no-init-file", "--no-site-file")
"""How R is started: it neither reads nor writes a workspace, a history or a profile."""

LANGUAGE = (ri.LangSexpVector, ri.SexpSymbol)
"""What R would evaluate."""

_thread: int | None = None
_hosted = False


def start(arguments: Sequence[str] = ()) -> None:
    """Start R inside this Python process, on the main thread; does nothing where R is there already.

    ``arguments`` are what R's ``commandArgs(trailingOnly = TRUE)`` returns.

    Raises
    ------
    HdpError
        On another thread: R is not made for them.
    """
    global _thread
    if _thread is None:
        if threading.current_thread() is not threading.main_thread():
            raise HdpError("R must be used on the main thread: it is not made for others")
        if not embedded.isinitialized():
            embedded.set_initoptions((*OPTIONS, *(["--args", *arguments] if arguments else [])))
            libraries = os.environ.get("LD_LIBRARY_PATH")
            ri.initr(interactive=False)
            _put_back(libraries)
            callbacks.consolewrite_warnerror = _write_error
            _prefer_utf8()
            _limit_stack()
        _thread = threading.get_ident()
    elif threading.get_ident() != _thread:
        raise HdpError("R must be used on the thread that started it: it is not made for others")


def adopt(on_interrupt: Callable[[int, FrameType | None], None]) -> None:
    """Use the R that started this Python. rpy2 would replace its handler of Ctrl-C, so that is put back.

    ``on_interrupt`` is what Python does about SIGINT.
    """
    global _thread, _hosted
    if _thread is None:
        handler = _signal_handler()
        ri.initr()
        signal.signal(signal.SIGINT, on_interrupt)
        _set_signal_handler(handler)
        _thread, _hosted = threading.get_ident(), True


def hosted() -> bool:
    """Whether R started this Python, and not the other way round."""
    return _hosted


@cache
def helper(code: str) -> Any:
    """Return the R function that ``code`` defines; evaluated once."""
    start()
    return ri.baseenv["eval"](ri.parse(code), ri.baseenv[".BaseNamespaceEnv"])


def quoted(value: Any) -> Any:
    """Return what stands for an R object among the arguments of a call.

    rpy2 writes arguments into a call that R evaluates: a call or a symbol there would be run or looked up, so it is
    wrapped into ``quote()``. Everything else stands for itself.
    """
    if not isinstance(value, LANGUAGE):
        return value
    return helper("function(x) as.call(list(as.name('quote'), x[[1L]]))")(ri.ListSexpVector([value]))


def _put_back(libraries: str | None) -> None:
    """Take back the ``LD_LIBRARY_PATH`` that rpy2 exports.

    R is loaded already, and a Python that is started from here and has a libpython of its own would meet the system's.
    """
    if libraries is None:
        os.environ.pop("LD_LIBRARY_PATH", None)
    else:
        os.environ["LD_LIBRARY_PATH"] = libraries


def _prefer_utf8() -> None:
    """Let R read and write UTF-8, whatever the locale of the terminal."""
    helper("function() if (!l10n_info()$`UTF-8`) Sys.setlocale('LC_CTYPE', 'C.UTF-8')")()


def _limit_stack() -> None:
    """Let R notice an endless recursion: rpy2 keeps it from looking, and the process would end without a word."""
    size, _ = resource.getrlimit(resource.RLIMIT_STACK)
    if size != resource.RLIM_INFINITY:
        openrlib.rlib.R_CStackLimit = int(0.95 * size)


def _write_error(text: str) -> None:
    """Write R's warnings and messages where Python writes its own."""
    sys.stderr.write(text)


def _signal_handler() -> int | None:
    get = ctypes.pythonapi.PyOS_getsig
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.c_int]
    handler: int | None = get(signal.SIGINT)
    return handler


def _set_signal_handler(handler: int | None) -> None:
    put = ctypes.pythonapi.PyOS_setsig
    put.restype, put.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p]
    put(signal.SIGINT, handler)
