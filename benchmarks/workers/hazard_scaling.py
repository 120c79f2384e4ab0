"""How the time of a fit grows with the number of intervals, beside numpy's exponential; and the peak of it all."""

import json
import sys
from time import process_time

import numpy as np

from benchmarks.spells import drawn
from benchmarks.workers.hdpstats_hazard import fit, prepare
from benchmarks.workers.measure import peak_memory

BLOCK = 100_000


def exponentials(count: int) -> float:
    """Return the CPU seconds of numpy's exponential of ``count`` numbers, in blocks that stay in the cache."""
    x, y = np.linspace(-9.0, -1.0, BLOCK), np.empty(BLOCK)
    start = process_time()
    for _ in range(count // BLOCK):
        np.exp(x, out=y)
    return process_time() - start


if __name__ == "__main__":
    people, intervals, repeats = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    fit(prepare(drawn(30_000, 200)))  # all code is loaded
    data, seconds, peak = prepare(drawn(people, intervals)), [], 0.0
    for _ in range(repeats):
        start = process_time()
        fit(data)
        seconds.append(process_time() - start)
        peak = peak or peak_memory()
    record = {
        "seconds": float(np.median(seconds)),
        "peak_mb": peak,
        "person_intervals": data.person_intervals,
        "exponentials": exponentials(800_000_000),
    }
    sys.stdout.write(json.dumps(record) + "\n")
