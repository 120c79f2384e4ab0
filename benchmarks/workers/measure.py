"""What every competitor's program does: time its fits, read its memory, print one line of JSON."""

import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np


def peak_memory() -> float:
    """Return the largest resident memory of this process so far, in MB.

    Read from Linux's ``VmHWM``: ``ru_maxrss`` of a fresh process starts at the peak of the one that
    started it.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) / 1024
    raise OSError("this system does not report VmHWM in /proc/self/status")


def main(*, prepare: Callable[..., Any], fit: Callable[..., Any], packages: list[str]) -> None:
    """Run ``fit(prepare(data, **options))`` as often as asked and print coefficients, seconds and memory.

    The command line is: data file (.npz with X, y, X_public, y_public), number of fits, options as JSON.
    Imports, reading and ``prepare`` are not timed. The peak is that of the process up to the end of the
    first fit.
    """
    path, repeats, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    with np.load(path) as file:
        prepared = prepare({name: file[name] for name in file.files}, **options)
    coefficients, seconds, peaks = [], [], []
    for _ in range(repeats):
        start = perf_counter()
        estimate = fit(prepared)
        seconds.append(perf_counter() - start)
        peaks.append(peak_memory())
        coefficients.append(np.asarray(estimate, dtype=float).tolist())
    record = {
        "coefficients": coefficients,
        "seconds": seconds,
        "peak_mb": peaks[0],
        "versions": {package: version(package) for package in packages},
    }
    sys.stdout.write(json.dumps(record) + "\n")
