"""Passes over private rows in Parquet files: seconds, memory, and what pyarrow alone takes to read the same columns.

The command line is: folder, covariates, fits, workers of a Dask cluster (0 for this process alone). Seconds are those
of this process's processor, on a cluster elapsed ones.
"""

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import pyarrow as pa
from pyarrow import parquet

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from benchmarks.workers.hazard import resident
from benchmarks.workers.measure import peak_memory
from benchmarks.workers.private_passes import PUBLIC, people
from hdpstats.schema.parquet import BATCH, BUFFER
from hdpstats.schema.partitions import ReadInParts


class Passes:
    """The seconds of passes over all partitions, by what they add up."""

    def __init__(self, clock: Callable[[], float]) -> None:
        plain: Callable[..., Any] = ReadInParts.total
        self.seconds: dict[str, list[float]] = {}

        def total(rows: Any, count: Callable[..., Any]) -> Any:
            name = getattr(count.func if isinstance(count, partial) else count, "__qualname__", None)
            name = name or str(count.__reduce__()[1][0])  # what a methodcaller calls
            start = clock()
            found = plain(rows, count)
            self.seconds.setdefault(name, []).append(clock() - start)
            return found

        ReadInParts.total = total  # type: ignore[method-assign]


def alone(folder: Path, columns: list[str], clock: Callable[[], float], size: int, **options: Any) -> float:
    """Return the seconds that pyarrow takes to read columns of all files, batch after batch."""
    start = clock()
    for path in sorted(folder.glob("*.parquet")):
        with parquet.ParquetFile(path, **options) as file:
            for _ in file.iter_batches(size, columns=columns, use_threads=False):
                pass
    return clock() - start


def main() -> None:
    """Print medians of passes and of reading alone, which alternate."""
    folder, (p, fits, workers) = Path(sys.argv[1]), (int(number) for number in sys.argv[2:5])
    pa.set_cpu_count(1)
    columns = {f"x{j}": hdp.Continuous(-3, 3) for j in range(p)}
    clock = perf_counter if workers else process_time
    read, passes, before = [], Passes(clock), resident()
    with ExitStack() as stack:
        client = None
        if workers:
            from distributed import Client, LocalCluster

            cluster = LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
            )
            client = stack.enter_context(Client(stack.enter_context(cluster)))
        study = hdp.Study(
            private=str(folder),
            public=people("logit", PUBLIC, p, 2),
            schema=hdp.Schema(columns | {"y": hdp.Binary()}),
            budget=hdp.Budget(epsilon=10_000),
            engine=client,
        )
        for k in range(fits + 1):
            hdpf.logit(f"y ~ {' + '.join(columns)}", data=study).fit(epsilon=1, replicate=k + 1, describe=True)
            if k == 0:
                passes.seconds.clear()  # the first loads code
            read.append(alone(folder, [*columns, "y"], clock, BATCH, pre_buffer=False, buffer_size=BUFFER))
        peak = peak_memory()
        by_default = [alone(folder, [*columns, "y"], clock, 2**16) for _ in range(fits + 1)]  # holds whole row groups
    record = {
        "passes": {name: median(each) for name, each in passes.seconds.items()},
        "count": sum(map(len, passes.seconds.values())) / fits,
        "pyarrow": median(read),
        "defaults": median(by_default),
        "added": peak - before,
        "peak": peak,
        "versions": {name: version(name) for name in ("hdpstats", "numpy", "numba", "pyarrow", "distributed")},
    }
    sys.stdout.write(json.dumps(record) + "\n")


def write(folder: Path, rows: int, p: int, *, files: int) -> None:
    """Write rows of covariates and an outcome to files, as pandas writes them by default."""
    for number in range(files):
        size = rows * (number + 1) // files - rows * number // files
        people("logit", size, p, 100 + number).to_parquet(folder / f"{number:03}.parquet", row_group_size=2**20)


if __name__ == "__main__":
    main()
