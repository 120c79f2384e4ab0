"""Private rows in partitions on the workers of a Dask cluster.

**Workers must be alike.** The same partition must give the same integers on every worker: the exponentials and
logarithms of numpy differ in the last bit between processors with other features, and between versions, and another
version of this package may map cells otherwise. Where people may be added or removed, one row more moves other rows to
other workers. So `environment` of every worker is compared with that of this process when a client is given, and again
by each task: a worker may join later.
"""

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import numpy as np

from hdpstats import __version__
from hdpstats._base.errors import ArgumentError
from hdpstats.schema.partitions import Engine, in_this_process

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
            "engine= takes a Dask client, and Dask is not installed: pip install 'hdpstats[scale]'", argument="engine"
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
        found = list(client.run(environment).values())
    except Exception:  # the package is absent there, or a worker is lost
        found = [{}]
    other = sorted({name for each in found for name in here if each.get(name) != here[name]})
    if other:
        raise ArgumentError(
            f"engine: the cluster's workers differ from this process in {', '.join(other)}, so that the same rows may "
            "give other sums there; use workers with the same packages, on machines with the same processor",
            argument="engine",
        )
