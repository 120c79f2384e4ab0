"""R forks (``parallel::mclapply``) where Python started R, beside threads of Python such as a notebook's.

While R runs it does not hold Python's lock. A thread that holds it at the moment of a fork is not in the forked
process, where nobody gives the lock back, and R's next word to the console waits for it for ever. So the thread that
runs R takes the lock before it forks, and Python does before and after it what it does for `os.fork`. Forks that hold
the lock already are Python's own, and are left alone.

The three functions are compiled: a Python function would give the lock back when it returns, before the fork.
"""

import ctypes
from functools import cache
from typing import Any

import numba

_UNLOCKED = 1
"""What `PyGILState_Ensure` returns where the lock was not held."""


@cache
def take_the_lock_for_forks() -> tuple[Any, ...]:
    """Let forks by the calling thread, which runs R, hold Python's lock.

    Returns what must live as long as the process, and does for as long as this function is there.
    """
    libc, api = ctypes.CDLL(None), ctypes.pythonapi
    whole, size, pointer = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p
    thread, initialized = _plain(libc.pthread_self, size), _plain(api.Py_IsInitialized, whole)
    held, take, give = (
        _plain(api.PyGILState_Check, whole),
        _plain(api.PyGILState_Ensure, whole),
        _plain(api.PyGILState_Release, None, whole),
    )
    prepare, resume, begin = (
        _plain(function, None)
        for function in (api.PyOS_BeforeFork, api.PyOS_AfterFork_Parent, api.PyOS_AfterFork_Child)
    )
    put, length = _plain(libc.memset, size, size, whole, size), _plain(libc.strlen, size, size)
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


def _plain(function: Any, result: Any, *arguments: Any) -> Any:
    """Return a C function that is called without taking or giving back Python's lock."""
    return ctypes.CFUNCTYPE(result, *arguments)(ctypes.cast(function, ctypes.c_void_p).value or 0)
