"""What the programs that fit hazards have in common: CPU seconds, the memory a fit adds, one line of JSON."""

import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks.spells import Spells
from benchmarks.workers.measure import peak_memory


def resident() -> float:
    """Return the memory that this process now holds, in MB; its peak begins anew."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


def main(*, prepare: Callable[[Spells], Any], fit: Callable[[Any], np.ndarray], packages: list[str]) -> None:
    """Fit ``prepare(spells)`` as often as asked and print coefficients, CPU seconds and added memory.

    The command line is: data file (.npz with the fields of Spells), number of fits. Half of the people are fitted
    first, so that all code is loaded. Seconds are those of the fit alone; the memory is that of ``prepare`` and the
    first fit together.
    """
    path, repeats = sys.argv[1], int(sys.argv[2])
    with np.load(path) as file:
        spells = Spells(*(file[name] for name in Spells._fields))
    fit(prepare(Spells(spells.A, spells.Z[::2], spells.exit[::2], spells.event[::2])))
    before = resident()
    prepared, seconds, added, coefficients = prepare(spells), [], 0.0, np.empty(0)
    for _ in range(repeats):
        start = process_time()
        coefficients = fit(prepared)
        seconds.append(process_time() - start)
        added = added or peak_memory() - before
    record = {
        "coefficients": np.asarray(coefficients, dtype=float).tolist(),
        "seconds": float(np.median(seconds)),
        "added_mb": added,
        "versions": {package: version(package) for package in packages},
    }
    sys.stdout.write(json.dumps(record) + "\n")
