"""Loops over rows: how they are compiled, and where compiled code is kept.

What a loop computes for a row must depend on that row alone, to the last bit. So loops are compiled without permission
to reorder, contract or approximate: in any lane of a vector, and in what is left over after the last full vector, each
operation is that of IEEE 754, as numpy's are.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar, cast, final

import numba

from hdpstats._base.progress import note

Given = TypeVar("Given")
Made = TypeVar("Made")

SMALLEST_COMPILED = 4096
"""Rows from which compiled loops are used: below, numpy is done before compiled code is loaded, see `loaded`."""

COMPILING: Final = (
    "compiling loops over rows, 3 to 20 seconds, only once on this machine; `hdpstats warm-up` does it beforehand"
)

_REORDERED: Final = {"reassoc", "contract", "nsz"}
"""What may be done to sums over public rows."""

_SAID: Final[list[bool]] = []


@final
class Loops(Enum):
    """Kinds of compiled loops over private rows (`hdpstats.mechanisms.loading`)."""

    REGRESSIONS = "whitened rows, predictors, and their exact sums"
    SCORES = "scores of each person, cut to a length"
    HAZARDS = "spells"
    DESCRIPTIONS = "features of people"
    SUMS = "sums of numbers of people"
    PAIRS = "sums of products of pairs of columns"


_FOLDERS: Final[set[Path]] = set()
"""Where code of the loops compiled so far is kept."""


def compiled(loop: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile a loop, once per machine where there is a place to keep compiled code, else once per process.

    Without options nothing is reordered or fused: numbers are those of numpy to the last bit. Code that was kept is
    used while the file of the loop, those of the loops that it calls, the constants that it names, this file, which
    says how code is compiled, and numba's version are as they were.
    Processes that compile it for different types at once keep their code in different files.
    """
    options = {"nogil": True, "error_model": "numpy"} | options
    try:
        made = numba.njit(cache=True, **options)(loop)
        made._cache.load_overload = _saying(made._cache.load_overload)
        kept = made._cache._cache_file
        kept._source_stamp = (kept._source_stamp, numba.__version__, _state(Path(__file__)), *_used_by(loop))
        kept.save = _saving(kept)
        _FOLDERS.add(Path(made._cache.cache_path).resolve())
    except (RuntimeError, AttributeError):  # no place to keep code, or a numba that keeps it otherwise
        made = numba.njit(**options)(loop)
    return cast("Callable[..., Any]", made)


def loaded(loop: Callable[..., Any]) -> bool:
    """Return whether code of a loop is loaded: then it is used for few rows too, which numpy takes longer for."""
    return bool(getattr(loop, "overloads", None))


def _saying(load: Callable[..., Any]) -> Callable[..., Any]:
    """Return what loads kept code, and says once in a process where there is none that it will take seconds now."""

    def load_or_say(*given: object) -> Any:
        found = load(*given)
        if found is None and not _SAID:
            _SAID.append(True)
            note(COMPILING)
        return found

    return load_or_say


def _used_by(loop: Callable[..., Any]) -> Iterator[object]:
    """Give the states of what is compiled into a loop from elsewhere: numba looks at the loop's own file only."""
    for name in loop.__code__.co_names:
        used: Any = loop.__globals__.get(name)
        if isinstance(used, int | float | str):
            yield name, used
        elif hasattr(used, "_cache"):
            yield name, used._cache._cache_file._source_stamp
        elif hasattr(used, "_defn"):
            yield name, _state(Path(used._defn.__code__.co_filename))


def _state(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_mtime_ns, status.st_size


def kept_code() -> Iterator[Path]:
    """Give the folders outside this package in which compiled code is kept: numba executes what it finds there."""
    package = Path(__file__).resolve().parents[1]
    yield from (folder for folder in sorted(_FOLDERS) if not folder.is_relative_to(package))


def _saving(kept: Any) -> Callable[..., None]:
    """Return what keeps code, in a file that is named after the types and the state of the sources that it is for.

    numba numbers the files of a loop by an index that it has read, without a lock. So two processes may take the same
    number for different types, and the index that is left would name the other's code, of older sources even.
    """
    save, pattern = kept.save, kept._data_name_pattern

    def keep(key: object, *rest: object) -> None:
        mark = sha256(repr((kept._source_stamp, key)).encode()).hexdigest()[:16]
        kept._data_name_pattern = pattern.replace("{number", f"{mark}.{{number")  # one thread at a time compiles
        save(key, *rest)

    return keep


def compiled_reordered(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a loop over public rows, which may reorder its sums; infinities and NaN keep their meaning."""
    return compiled(loop, fastmath=_REORDERED)


def inlined_reordered(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Compile what loops over public rows call, as a part of each of them, and as they are.

    As a function of its own it would be there twice, optimised apart, with sums in other orders; which one is called
    depends on whether a process compiled the loop or read kept code, and numbers would differ in their last bits.
    """
    return compiled(loop, fastmath=_REORDERED, inline="always")


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread of ours: where others compute beside, they share the processors already."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        yield
    finally:
        numba.set_num_threads(before)


def in_threads(work: Callable[[Given], Made], items: Sequence[Given]) -> list[Made]:
    """Return what ``work`` makes of each item, in their order, by as many threads as numba is set to.

    Threads inherit the context of the caller: how numpy treats overflow, and whether work is rehearsed.
    """
    threads = min(numba.get_num_threads(), len(items)) if len(items) > 1 else 1  # asking numba starts its threads
    if threads < 2:
        return [work(item) for item in items]
    contexts = [copy_context() for _ in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda context, item: context.run(work, item), contexts, items))


def several_threads() -> bool:
    """Return whether more than one thread of ours may compute."""
    return bool(numba.get_num_threads() > 1)
