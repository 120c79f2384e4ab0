"""The one R of this process: started inside Python, or the one that started Python; and forks by it.

R forks (``parallel::mclapply``) beside threads of Python such as a notebook's. While R runs, which Python started, it
does not hold Python's lock. A thread that holds it at the moment of a fork does not exist in the forked process, where
nobody releases the lock, and R's next write to the console waits for it forever. So the thread that runs R takes the
lock before it forks, and Python does before and after it what it does for `os.fork`. Forks that hold the lock already
are Python's own, and nothing is done for them.
"""

import ctypes
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numba
import rpy2.rinterface as ri
from rpy2.rinterface_lib import callbacks, embedded, openrlib

from hdpstats.api import HdpError

OPTIONS = ("rpy2", "--quiet", "--no-save", "--no-restore", "--no-init-file", "--no-site-file")
"""How R is started: it neither reads nor writes a workspace, a history or a profile."""

LANGUAGE = (ri.LangSexpVector, ri.SexpSymbol)
"""Objects that R would evaluate."""

R_CODE = Path(__file__).parent / "R"
"""The R code of the bridge, and the source of the R package."""

_UNLOCKED = 1
"""What `PyGILState_Ensure` returns where the lock was not held."""

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
            _restore_library_path(libraries)
            callbacks.consolewrite_warnerror = lambda text: sys.stderr.write(text)  # where Python writes its own
            helper("function() if (!l10n_info()$`UTF-8`) Sys.setlocale('LC_CTYPE', 'C.UTF-8')")()
            _limit_stack()
        _thread = threading.get_ident()
    elif threading.get_ident() != _thread:
        raise HdpError("R must be used on the thread that started it: it is not made for others")


def adopt(on_interrupt: Callable[[int, FrameType | None], None]) -> None:
    """Use the R that started this Python. rpy2 would replace its handler of Ctrl-C, so that is restored.

    ``on_interrupt`` is what Python does about SIGINT.
    """
    global _thread, _hosted
    if _thread is None:
        get, put = ctypes.pythonapi.PyOS_getsig, ctypes.pythonapi.PyOS_setsig
        get.restype = put.restype = ctypes.c_void_p
        get.argtypes, put.argtypes = [ctypes.c_int], [ctypes.c_int, ctypes.c_void_p]
        handler = get(signal.SIGINT)
        ri.initr()
        signal.signal(signal.SIGINT, on_interrupt)
        put(signal.SIGINT, handler)
        _thread, _hosted = threading.get_ident(), True


def hosted() -> bool:
    """Whether R started this Python, and not the other way round."""
    return _hosted


@cache
def helper(code: str) -> Any:
    """Return the R function that ``code`` defines; evaluated once."""
    start()
    return ri.baseenv["eval"](ri.parse(code), ri.baseenv[".BaseNamespaceEnv"])


@cache
def r_function(name: str) -> Any:
    """Return the R function of that name in ``R/bridge.R``."""
    return _bridge()[name]


@cache
def _bridge() -> Any:
    load = "function(file) { found <- new.env(parent = .BaseNamespaceEnv); sys.source(file, found); found }"
    return helper(load)(ri.StrSexpVector([str(R_CODE / "bridge.R")]))


def quoted(value: Any) -> Any:
    """Return an R object as it can stand among the arguments of a call.

    rpy2 writes arguments into a call that R evaluates: a call or a symbol there would be run or looked up, so it is
    wrapped into ``quote()``. Everything else is returned as it is.
    """
    return r_function("quoted")(ri.ListSexpVector([value])) if isinstance(value, LANGUAGE) else value


def _restore_library_path(libraries: str | None) -> None:
    """Undo the change of ``LD_LIBRARY_PATH`` that rpy2 exports.

    R is loaded already, and a Python that is started from here and has a libpython of its own would load the system's.
    """
    if libraries is None:
        os.environ.pop("LD_LIBRARY_PATH", None)
    else:
        os.environ["LD_LIBRARY_PATH"] = libraries


def _limit_stack() -> None:
    """Let R notice an endless recursion: rpy2 disables the check, and the process would end without a message."""
    size, _ = resource.getrlimit(resource.RLIMIT_STACK)
    if size != resource.RLIM_INFINITY:
        openrlib.rlib.R_CStackLimit = int(0.95 * size)


@cache
def hold_lock_across_forks() -> tuple[Any, ...]:
    """Let forks by the calling thread, which runs R, hold Python's lock.

    The three functions are compiled: a Python function would release the lock when it returns, before the fork. Returns
    what must live as long as the process; the cache of this function keeps it.
    """
    libc, api = ctypes.CDLL(None), ctypes.pythonapi
    whole, size, pointer = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p
    thread, initialized = _unlocked(libc.pthread_self, size), _unlocked(api.Py_IsInitialized, whole)
    held, take = _unlocked(api.PyGILState_Check, whole), _unlocked(api.PyGILState_Ensure, whole)
    give = _unlocked(api.PyGILState_Release, None, whole)
    prepare, resume, begin = (
        _unlocked(function, None)
        for function in (api.PyOS_BeforeFork, api.PyOS_AfterFork_Parent, api.PyOS_AfterFork_Child)
    )
    put, length = _unlocked(libc.memset, size, size, whole, size), _unlocked(libc.strlen, size, size)
    mark = ctypes.create_string_buffer(2)  # a text of one character where the lock was taken for a fork, else of none
    place, runs_r = ctypes.addressof(mark), thread()

    def before() -> None:
        if thread() == runs_r and initialized() != 0 and held() == 0:
            take()
            prepare()
            put(place, 1, 1)

    def parent() -> None:
        if length(place) != 0:
            put(place, 0, 1)
            resume()
            give(_UNLOCKED)

    def child() -> None:
        if length(place) != 0:
            put(place, 0, 1)
            begin()
            give(_UNLOCKED)

    handlers = [numba.cfunc("void()")(each) for each in (before, parent, child)]
    libc.__register_atfork(*(pointer(each.address) for each in handlers), None)
    return mark, *handlers


def _unlocked(function: Any, result: Any, *arguments: Any) -> Any:
    """Return a C function that is called without taking or releasing Python's lock."""
    return ctypes.CFUNCTYPE(result, *arguments)(ctypes.cast(function, ctypes.c_void_p).value or 0)
