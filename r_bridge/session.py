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
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import rpy2.rinterface as ri
from llvmlite import binding, ir
from rpy2.rinterface_lib import callbacks, embedded, openrlib
from rpy2.situation import get_r_home

from hdpstats.api import HdpError

OPTIONS = ("rpy2", "--quiet", "--no-save", "--no-restore", "--no-init-file", "--no-site-file")
"""How R is started: it neither reads nor writes a workspace, a history or a profile."""

LANGUAGE = (ri.LangSexpVector, ri.SexpSymbol)
"""Objects that R would evaluate."""

R_CODE = Path(__file__).parent / "R"
"""The R code of the bridge, and the source of the R package."""

SET_BY_THE_SCRIPT = ("R_ARCH", "R_DOC_DIR", "R_INCLUDE_DIR", "R_PAPERSIZE", "R_SHARE_DIR")
"""Variables that R's start script sets, and that R in this process does not set for itself."""

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
            ri.initr(interactive=False)
            callbacks.consolewrite_warnerror = lambda text: sys.stderr.write(text)  # where Python writes its own
            helper("function() if (!l10n_info()$`UTF-8`) Sys.setlocale('LC_CTYPE', 'C.UTF-8')")()
            _limit_stack()
        _thread = threading.get_ident()
    elif threading.get_ident() != _thread:
        raise HdpError("R must be used on the thread that started it: it is not made for others")


def _set_by_the_script() -> tuple[tuple[str, str], ...]:
    """Return the names and values that R's start script sets: rpy2 starts another R for them."""
    script = os.path.join(get_r_home() or "", "bin", "R")
    said = subprocess.run([script, "CMD", "env"], capture_output=True, text=True, check=False)  # noqa: S603
    pairs = [line.split("=", 1) for line in said.stdout.splitlines() if "=" in line]
    return tuple((name, value) for name, value in pairs if name in SET_BY_THE_SCRIPT)


ri._getrenvvars = _set_by_the_script


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


def _limit_stack() -> None:
    """Let R notice an endless recursion: rpy2 disables the check, and the process would end without a message."""
    size, _ = resource.getrlimit(resource.RLIMIT_STACK)
    if size != resource.RLIM_INFINITY:
        openrlib.rlib.R_CStackLimit = int(0.95 * size)


@cache
def hold_lock_across_forks() -> binding.ExecutionEngine:
    """Let forks by the calling thread, which runs R, hold Python's lock.

    The three functions are machine code: a Python function would release the lock when it returns, before the fork.
    Returns what must live as long as the process; the cache of this function keeps it.
    """
    libc = ctypes.CDLL(None)
    libc.pthread_self.restype = ctypes.c_size_t
    code = _around_forks(libc.pthread_self())
    for function in code.functions:
        if function.is_declaration:
            library = ctypes.pythonapi if function.name.startswith("Py") else libc
            binding.add_symbol(function.name, ctypes.cast(getattr(library, function.name), ctypes.c_void_p).value)
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(str(code)), machine)
    engine.finalize_object()
    libc.__register_atfork(*(ctypes.c_void_p(engine.get_function_address(name)) for name in HANDLERS), None)
    return engine


HANDLERS = ("before_a_fork", "after_it_in_the_parent", "after_it_in_the_child")


def _around_forks(thread: int) -> ir.Module:
    """Return the code of the three functions: of a fork by that thread, where it does not hold Python's lock."""
    module, whole, nothing = ir.Module(), ir.IntType(32), ir.VoidType()

    def function(name: str, result: ir.Type = nothing, *arguments: ir.Type) -> ir.Function:
        return ir.Function(module, ir.FunctionType(result, arguments), name)

    taken = ir.GlobalVariable(module, whole, "lock_taken")
    taken.initializer = whole(0)
    size = ir.IntType(8 * ctypes.sizeof(ctypes.c_size_t))
    running, initialized = function("pthread_self", size), function("Py_IsInitialized", whole)
    held, take = function("PyGILState_Check", whole), function("PyGILState_Ensure", whole)
    give, prepare = function("PyGILState_Release", nothing, whole), function("PyOS_BeforeFork")
    before, parent, child = (ir.IRBuilder(function(name).append_basic_block()) for name in HANDLERS)
    with (
        before.if_then(before.icmp_unsigned("==", before.call(running, ()), size(thread))),
        before.if_then(before.icmp_signed("!=", before.call(initialized, ()), whole(0))),
        before.if_then(before.icmp_signed("==", before.call(held, ()), whole(0))),
    ):
        before.call(take, ())
        before.call(prepare, ())
        before.store(whole(1), taken)
    for build, resume in ((parent, "PyOS_AfterFork_Parent"), (child, "PyOS_AfterFork_Child")):
        with build.if_then(build.icmp_signed("!=", build.load(taken), whole(0))):
            build.store(whole(0), taken)
            build.call(function(resume), ())
            build.call(give, (whole(_UNLOCKED),))
    for build in (before, parent, child):
        build.ret_void()
    return module
