"""Private rows in partitions, in this process or on a Dask cluster: what a mechanism computes of each, and exact sums.

A mechanism is given the rows that it needs as `Parts`: one table in memory (`hdpstats.schema.table.AdmittedTable` is a
sequence of one), or row groups of Parquet files (`hdpstats.schema.parquet`), which are read when they are asked for and
not kept. It asks for ``rows.total(f)``: ``f`` of every partition in integers, added. A person's integers depend on that
person's rows and on public constants alone, and integers are added exactly: the sum is the same number for any
partitions, in any order, wherever they are read.

An engine says where: in this process, or on the workers of a Dask client (`engine_of`), which schedules,
retries what a lost worker had, and moves nothing but functions and sums. A worker draws no noise and charges nothing,
so that its end costs time and nothing else. Sums before noise, and the coefficients that a fit tries, pass through the
cluster: it is the custodian's own, and whoever may read its messages may read the rows.

**Workers must be alike.** The same partition must give the same integers on every worker: the exponentials and
logarithms of numpy differ in the last bit between processors with other features, and between versions, and another
version of this package may map cells otherwise. Where people may be added or removed, one row more moves other rows to
other workers. So `environment` of every worker is compared with that of this process when a client is given, and again
by each task: a worker may join later.
"""

import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial, reduce
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from operator import add
from typing import Any, Final, Generic, TypeVar, final

import numpy as np

from hdpstats import __version__
from hdpstats._base.errors import ArgumentError, SiteError
from hdpstats._base.no_warnings import silence

S = TypeVar("S")
T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")

Engine = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""From a function and sources of rows to what the function returns of each source, in their order."""


class Parts(ABC, Generic[T]):
    """Something of each partition of private rows, in the order of the rows; at least one.

    Attributes
    ----------
    rows : int
        The number of rows in all partitions.
    """

    __slots__ = ()

    rows: int

    @abstractmethod
    def map(self, find: Callable[[T], U]) -> list[U]:
        """Return what a function returns of each partition, in the order of the rows."""

    @abstractmethod
    def each(self, make: Callable[[T], U]) -> "Parts[U]":
        """Return what ``make`` makes of each partition: made once in memory, anew at each use where rows are read."""

    @abstractmethod
    def as_one(self, make: Callable[[T], U], join: Callable[["Parts[U]"], V]) -> U | V:
        """Return what ``make`` makes of the only partition; where rows are in several, what ``join`` makes of theirs.

        Which of them it is depends on how the rows are held, not on what is in them.
        """

    @abstractmethod
    def here(self) -> Iterator[T]:
        """Return the partitions one by one, read in this process as they are asked for."""

    @abstractmethod
    def gathered(self, join: Callable[[list[T]], T]) -> T:
        """Return all partitions joined in the memory of this process: for what cannot be added over partitions."""

    def total(self, count: Callable[[T], U]) -> U:
        """Return the sum of what ``count`` returns of each partition: integers, or arrays of them, added exactly."""
        return reduce(add, self.map(count))


@final
class InMemory(Parts[T]):
    """What was made of the only partition.

    Examples
    --------
    >>> InMemory([3, 4], rows=2).each(sum).total(lambda number: 10 * number)
    70
    """

    __slots__ = ("_made", "rows")

    def __init__(self, made: T, *, rows: int) -> None:
        self._made, self.rows = made, rows

    def map(self, find: Callable[[T], U]) -> list[U]:
        """Return what a function returns of it."""
        return [find(self._made)]

    def each(self, make: Callable[[T], U]) -> "InMemory[U]":
        """Return what ``make`` makes of it."""
        return InMemory(make(self._made), rows=self.rows)

    def as_one(self, make: Callable[[T], U], join: Callable[[Parts[U]], V]) -> U:  # noqa: ARG002
        """Return what ``make`` makes of it."""
        return make(self._made)

    def here(self) -> Iterator[T]:
        """Return it."""
        return iter([self._made])

    def gathered(self, join: Callable[[list[T]], T]) -> T:  # noqa: ARG002
        """Return it."""
        return self._made

    def __repr__(self) -> str:
        return "<one partition of private rows>"


@final
class ReadInParts(Parts[T]):
    """What is made of partitions each time that they are read: nothing of them is kept.

    Parameters
    ----------
    sources : sequence
        Where rows are, each of one or several partitions: what an engine hands to a worker.
    load : callable
        From a source to an iterator over its partitions, at least one for all sources together.
    rows : int
        The number of rows in all.
    engine : Engine
        Where sources are read.

    Examples
    --------
    >>> parts = ReadInParts([range(2), range(2, 5)], load=iter, rows=5, engine=in_this_process)
    >>> parts.map(lambda number: -number), parts.total(lambda number: number)
    ([0, -1, -2, -3, -4], 10)
    """

    __slots__ = ("_engine", "_load", "_sources", "rows")

    def __init__(self, sources: Sequence[S], *, load: Callable[[S], Iterator[T]], rows: int, engine: Engine) -> None:
        self._sources, self._load, self._engine = tuple(sources), load, engine
        self.rows = rows

    def map(self, find: Callable[[T], U]) -> list[U]:
        """Return what a function returns of each partition."""
        return [result for of_source in self._run(partial(_mapped, self._load, find)) for result in of_source]

    def total(self, count: Callable[[T], U]) -> U:
        """Return the exact sum; what is added where a source is read is not sent one by one."""
        sums: Iterator[U] = (result[0] for result in self._run(partial(_added, self._load, count)) if result)
        return reduce(add, sums)

    def each(self, make: Callable[[T], U]) -> "ReadInParts[U]":
        """Return what ``make`` makes of each partition, anew at each use."""
        load: Callable[[Any], Iterator[U]] = partial(_made, self._load, make)
        return ReadInParts(self._sources, load=load, rows=self.rows, engine=self._engine)

    def as_one(self, make: Callable[[T], U], join: Callable[[Parts[U]], V]) -> V:
        """Return what ``join`` makes of what ``make`` makes of each partition."""
        return join(self.each(make))

    def here(self) -> Iterator[T]:
        """Return the partitions one by one; the others are not read."""
        return chain.from_iterable(map(self._load, self._sources))

    def gathered(self, join: Callable[[list[T]], T]) -> T:
        """Return all partitions joined; they are read in this process, whatever the engine: rows are not sent."""
        return join(list(self.here()))

    def _run(self, work: Callable[[Any], list[Any]]) -> Iterator[list[Any]]:
        for results in self._engine(partial(_without_words, work), self._sources):
            if results is None:
                raise SiteError("a partition of the private rows could not be read")
            yield results

    def __repr__(self) -> str:
        return "<private rows in partitions>"


def _made(load: Callable[[Any], Iterator[T]], make: Callable[[T], U], source: object) -> Iterator[U]:
    return map(make, load(source))


def _mapped(load: Callable[[Any], Iterator[T]], find: Callable[[T], U], source: object) -> list[U]:
    return list(map(find, load(source)))


def _added(load: Callable[[Any], Iterator[T]], count: Callable[[T], Any], source: object) -> list[Any]:
    """Return the sum over a source in a list, empty where the source has no partition."""
    total: list[Any] = []
    for part in load(source):
        total = [total[0] + count(part)] if total else [count(part)]
        del part  # its memory is free for the next one
    return total


def _without_words(work: Callable[[Any], list[Any]], source: object) -> list[Any] | None:
    """Return what was computed of a source, None where that failed: an error or a warning may quote a cell."""
    try:
        with silence():
            return work(source)
    except Exception:
        return None


def in_this_process(work: Callable[[Any], Any], sources: Sequence[Any]) -> Iterable[Any]:
    """Read one source after the other: an engine."""
    return map(work, sources)


PACKAGES: Final = ("numpy", "pandas", "pyarrow", "numba", "llvmlite")
"""What reads and maps cells and computes with them, besides this package."""


@cache
def environment() -> Mapping[str, str]:
    """Return what the last bits of a computation may depend on: versions, the processor's features, the C library."""
    features = np.show_config(mode="dicts")["SIMD Extensions"]
    return {
        "hdpstats": __version__,
        "Python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "processor": f"{platform.machine()} {features}",
        "C library": " ".join(platform.libc_ver()),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def on_cluster(client: Any, work: Callable[[Any], Any], sources: Sequence[Any]) -> Iterable[Any]:
    """Read each source as a task of a Dask client: with the client given, an engine.

    A task whose worker was lost is run again by Dask, on another one; more often than Dask allows is a failure. So is a
    task on a worker that is not like this process.
    """
    tasks = client.map(partial(_alone, environment(), work), sources, pure=False)
    try:
        return list(client.gather(tasks))
    except Exception:  # a lost worker more than Dask retries, a lost cluster: their words may hold addresses
        return [None]
    finally:
        client.cancel(tasks, force=True)


def _alone(expected: Mapping[str, str], work: Callable[[Any], Any], source: object) -> Any:
    """Compute on a worker of a cluster, which shares its processors with others; None where the worker is not alike."""
    from hdpstats._base.compiled import one_thread  # numba, which other work with partitions does without

    if environment() != expected:
        return None
    with one_thread():
        return work(source)


def run_on_workers(engine: Engine, work: Callable[[], object]) -> bool:
    """Run something on every worker that an engine has now, and return whether it ended everywhere without an error."""
    if not isinstance(engine, partial):  # this process
        return True
    (client,) = engine.args
    try:
        client.run(work)
    except Exception:  # whatever it is: its words may hold addresses
        return False
    return True


def engine_of(engine: object) -> Engine:
    """Return an engine: this process for None or ``"pyarrow"``, a cluster for a Dask client.

    Raises
    ------
    ArgumentError
        It is neither, Dask is not installed, or a worker is not like this process.
    """
    if engine is None or engine == "pyarrow":
        return in_this_process
    try:
        from distributed import Client
    except ImportError:
        raise ArgumentError(
            "engine= takes a Dask client, and Dask is not installed: pip install dask distributed pyarrow",
            argument="engine",
        ) from None
    if not isinstance(engine, Client) or engine.asynchronous:
        raise ArgumentError(
            "engine must be None, 'pyarrow' (this process) or a distributed.Client that is not asynchronous, not "
            f"{type(engine).__name__}",
            argument="engine",
        )
    _check_alike(engine)
    return partial(on_cluster, engine)


def _check_alike(client: Any) -> None:
    """Refuse a cluster with a worker whose environment differs, or on which this package cannot be run."""
    here = environment()
    try:
        environments = list(client.run(environment).values())
    except Exception:  # the package is absent there, or a worker is lost
        environments = [{}]
    other = sorted({name for environment in environments for name in here if environment.get(name) != here[name]})
    if other:
        raise ArgumentError(
            f"engine: the cluster's workers differ from this process in {', '.join(other)}, so that the same rows may "
            "give other sums there; use workers with the same packages, on machines with the same processor",
            argument="engine",
        )
