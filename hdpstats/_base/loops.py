r"""Loops over rows or repetitions: how they are compiled, whether they may stop early or warn, how far they are.

**Full length.** The time of a computation must not depend on its rows. Its work is therefore bounded by public facts,
and a service counts that bound (`hdpstats._base.work`) and answers no earlier. To check the count, a computation is
*rehearsed* on invented rows with every loop at its full length: a loop that ends as soon as it has converged asks
`full_length` first.

**Warnings.** Their texts may quote what they met, and that they come may depend on it. So computations on rows give
none (`silence`). The filters of `warnings` belong to the process, and whoever saves and restores them in one thread
takes away what another has set: one filter that asks in which thread it is serves all, and stays. Only a filter that
another thread puts in front of it while a computation runs comes before it, or one that was put there before and that
another thread, which had saved it, restores meanwhile.

**Progress.** A bar after a second on a terminal or in a notebook, silence elsewhere. It is for work whose length is
public only: how many steps a solver takes on private rows depends on these.

**Compiled.** What a loop computes for a row must depend on that row alone, to the last bit. So loops are compiled
without permission to reorder, contract or approximate: in any lane of a vector, and in what is left over after the last
full vector, each operation is that of IEEE 754, as numpy's are.

**A matrix times columns** (`products`): sums stay in registers, rows are lanes of vectors. What is computed of a row is
:math:`(\cdots((0 + a_{k0} c_0) + a_{k1} c_1) + \cdots) + a_{k,d-1} c_{d-1}`, each product and each sum rounded by
itself (nothing is fused or reordered), in whatever lane the row is: the numbers of `numpy`, to the last bit, and of a
row that depend on that row alone. A processor with narrower vectors takes two or four of its own for one of these, with
the same numbers.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar, cast, final

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from hdpstats._base.typing import FloatArray

T = TypeVar("T")
_FULL: ContextVar[bool] = ContextVar("whether loops go on to their full length", default=False)
_SILENT: ContextVar[bool] = ContextVar("whether warnings are ignored", default=False)


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
        kept = made._cache._cache_file
        kept._source_stamp = (kept._source_stamp, numba.__version__, _state(Path(__file__)), *_used_by(loop))
        kept.save = _saving(kept)
        _FOLDERS.add(Path(made._cache.cache_path).resolve())
    except (RuntimeError, AttributeError):  # no place to keep code, or a numba that keeps it otherwise
        made = numba.njit(**options)(loop)
    return cast("Callable[..., Any]", made)


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
    return compiled(loop, fastmath={"reassoc", "contract", "nsz"})


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread of ours: where others compute beside, they share the processors already."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        yield
    finally:
        numba.set_num_threads(before)


def several_threads() -> bool:
    """Return whether more than one thread of ours may compute."""
    return bool(numba.get_num_threads() > 1)


ROUNDER = 1.5 * 2.0**52
"""Added to a number of at most 2^51 it leaves the nearest integer (ties to even) in the last bits of the sum."""

ROUNDER_BITS = int(np.float64(ROUNDER).view(np.int64))
"""Less the bits of that sum, as an integer, they are that integer."""

SMALLEST_COMPILED = 512
"""Rows from which compiled loops are used: below, numpy is done before compiled code is loaded."""


@intrinsic  # type: ignore[untyped-decorator]
def bits_of(_typing: Any, number: Any) -> Any:  # noqa: ARG001
    """Return the 64 bits of a double as an integer, inside a compiled loop."""

    def generated(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return builder.bitcast(given[0], ir.IntType(64))

    return types.int64(types.float64), generated


@intrinsic  # type: ignore[untyped-decorator]
def double_of(_typing: Any, bits: Any) -> Any:  # noqa: ARG001
    """Return the double that has 64 bits, inside a compiled loop."""

    def generated(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return builder.bitcast(given[0], ir.DoubleType())

    return types.float64(types.int64), generated


VECTOR = 8
"""Doubles of a vector."""

LANES = 2 * VECTOR
"""Rows that are handled at a time: tiles must be a multiple of it."""

AT_ONCE = 5
"""Rows of the matrix that are handled at a time: ten sums, which hide each other's latency."""

INTEGER, DOUBLE = ir.IntType(64), ir.DoubleType()
DOUBLES = ir.VectorType(DOUBLE, VECTOR)


@intrinsic  # type: ignore[untyped-decorator]
def double_at(_typing: Any, address: Any, place: Any) -> Any:  # noqa: ARG001
    """Return the double at a place of an array that is given by its address, inside a compiled loop."""

    def generated(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return builder.load(builder.gep(builder.inttoptr(given[0], DOUBLE.as_pointer()), [given[1]]))

    return types.float64(types.int64, types.int64), generated


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(_typing: Any, address: Any) -> Any:  # noqa: ARG001
    """Prefetch what is at an address into the second cache, if anything is there; inside a compiled loop."""

    def generated(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        short = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), short, short, short])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        place = builder.inttoptr(given[0], ir.IntType(8).as_pointer())
        builder.call(fetch, [place, *(ir.Constant(short, number) for number in (0, 2, 1))])  # to read, level 2, data
        return context.get_dummy_value()

    return types.void(types.int64), generated


def _sums(count: int) -> Callable[..., None]:
    """Return a loop over ``d`` columns that adds ``count`` rows of the matrix for `LANES` rows.

    Its arguments are addresses: of the first row of the matrix (rows of ``d`` numbers), of the first of these rows in
    the first column, of the place for their first sum; and ``d`` and how many rows a tile has.
    """

    @intrinsic  # type: ignore[untyped-decorator]
    def sums(_typing: Any, matrix: Any, columns: Any, out: Any, d: Any, rows: Any) -> Any:  # noqa: ARG001
        def generated(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
            pointers = [builder.inttoptr(address, DOUBLE.as_pointer()) for address in given[:3]]
            _generate(builder, *pointers, *given[3:], count=count)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5), generated

    compiled_sums: Callable[..., None] = sums
    return compiled_sums


def _generate(builder: Any, matrix: Any, columns: Any, out: Any, d: Any, rows: Any, *, count: int) -> None:
    before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    zero, one = ir.Constant(DOUBLES, [0.0] * VECTOR), ir.Constant(INTEGER, 1)
    lines = [builder.gep(matrix, [builder.mul(d, ir.Constant(INTEGER, k))]) for k in range(count)]
    builder.branch(loop)
    builder.position_at_end(loop)
    j = builder.phi(INTEGER)
    j.add_incoming(ir.Constant(INTEGER, 0), before)
    halves = [[builder.phi(DOUBLES) for _ in range(2)] for _ in range(count)]
    start = builder.gep(columns, [builder.mul(j, rows)])
    numbers = [_vector_at(builder, start, half) for half in range(2)]
    for line, sums in zip(lines, halves, strict=True):
        factor = _everywhere(builder, builder.load(builder.gep(line, [j])))
        for number, total in zip(numbers, sums, strict=True):
            total.add_incoming(zero, before)
            total.add_incoming(builder.fadd(total, builder.fmul(number, factor)), loop)
    following = builder.add(j, one)
    j.add_incoming(following, loop)
    builder.cbranch(builder.icmp_signed("<", following, d), loop, after)
    builder.position_at_end(after)
    for k, sums in enumerate(halves):
        place = builder.gep(out, [builder.mul(rows, ir.Constant(INTEGER, k))])
        for half, total in enumerate(sums):
            last = total.incomings[1][0]
            builder.store(last, _pointer(builder, place, half)).align = 8


def _pointer(builder: Any, start: Any, half: int) -> Any:
    return builder.bitcast(builder.gep(start, [ir.Constant(INTEGER, half * VECTOR)]), DOUBLES.as_pointer())


def _vector_at(builder: Any, start: Any, half: int) -> Any:
    vector = builder.load(_pointer(builder, start, half))
    vector.align = 8
    return vector


def _everywhere(builder: Any, number: Any) -> Any:
    nothing, index = ir.Constant(DOUBLES, ir.Undefined), ir.IntType(32)
    first = builder.insert_element(nothing, number, ir.Constant(index, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(index, VECTOR), [0] * VECTOR))


_several, _single = _sums(AT_ONCE), _sums(1)


@compiled
def products(matrix: FloatArray, columns: FloatArray, out: FloatArray) -> None:
    """Write a matrix (k, d) times columns (d, rows), d >= 1, of a tile of a multiple of `LANES` rows; C order all."""
    k, d = matrix.shape
    rows = columns.shape[1]
    for i in range(0, rows, LANES):
        first = 0
        while first < k:
            start = matrix.ctypes.data + 8 * first * d
            to = out.ctypes.data + 8 * (first * rows + i)
            if first + AT_ONCE <= k:
                _several(start, columns.ctypes.data + 8 * i, to, d, rows)
                first += AT_ONCE
            else:
                _single(start, columns.ctypes.data + 8 * i, to, d, rows)
                first += 1
