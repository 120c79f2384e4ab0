"""What operations take on this machine: measured once in a process, before anybody asks, on invented numbers.

Each price (`hdpstats._base.work`) is that of the loops that answers run, on arrays that are larger than a processor's
nearer caches: of `REPEATS` times of the processor the shortest, as a longer one met other work. All kinds are measured
in turn, so that the times of one are apart and a short burst of other work meets one of them. Prices depend on the
machine alone; the seconds of an answer are `MARGIN` times what its operations cost, and `OVERHEAD`.
"""

import math
import time
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import Final

import numpy as np

from hdpstats._base.compiled import one_thread
from hdpstats._base.typing import FloatArray
from hdpstats._base.work import Operations, Prices, sorting
from hdpstats.mechanisms.loading import load
from hdpstats.noise.discrete import TwoSidedGeometric
from hdpstats.solvers.kernels import COMPENSATED, coefficient_parts, compensated, grid_sum

REPEATS: Final = 3
"""How often each kind is measured."""

MARGIN: Final = 1.5
"""By how much an answer is taken to be longer than its operations, for what is counted roughly."""

OVERHEAD: Final = 0.005
"""Seconds of an answer besides."""


def predicted(work: Operations, prices: Prices) -> float:
    """Return the seconds that so many operations take at most."""
    return OVERHEAD + MARGIN * work.seconds(prices)


@cache
def measured() -> Prices:
    """Return the prices of this machine; it takes about a second, once in a process."""
    load()
    long, medium = _numbers(2**20), _numbers(2**17)
    short, rows = _numbers(8), _numbers(2**18).reshape(8, -1).T
    square, matrix, draws = _numbers(100 * 100).reshape(100, 100), _numbers(16 * 2**12).reshape(16, -1), 500
    parts = coefficient_parts(short)
    symmetric, noise = square + square.T, TwoSidedGeometric(rate=Fraction(1, 2**20))
    tasks: dict[str, tuple[float, Callable[[], object]]] = {
        "steps": (5000.0, lambda: [np.rint(short[:4] * 2.0).astype(np.int64).sum(axis=0) for _ in range(1000)]),
        "passes": (3.0 * long.size, lambda: np.where(long < 0.5, long * long, long)),
        "functions": (2.0 * medium.size, lambda: np.log1p(np.exp(medium))),
        "products": (
            (COMPENSATED + 1.0) * rows.size,
            lambda: (compensated(rows, parts, rows[:, 0]), grid_sum(rows, rows[:, 0], bits=20)),
        ),
        "squares": (matrix.size * 16.0, lambda: matrix @ matrix.T),
        "cubes": (100.0**3, lambda: np.linalg.eigh(symmetric)),
        "sorts": (sorting(medium.size), lambda: np.lexsort((medium, medium))),
        "draws": (float(draws), lambda: [noise.draw() for _ in range(draws)]),
    }
    shortest = dict.fromkeys(tasks, math.inf)
    with one_thread():
        for _, task in tasks.values():  # what is done once only is not measured
            task()
        for _ in range(REPEATS):
            for kind, (_, task) in tasks.items():
                shortest[kind] = min(shortest[kind], _seconds(task))
    return MappingProxyType({kind: shortest[kind] / count for kind, (count, _) in tasks.items()})


def _seconds(task: Callable[[], object]) -> float:
    """Return how long the processor works on a task; other processes count for what they take of its caches only."""
    begun = time.process_time()
    task()
    return time.process_time() - begun


def _numbers(count: int) -> FloatArray:
    """Return numbers between 0 and 1 without apparent order."""
    return np.asarray(np.modf(np.arange(1.0, count + 1.0) * 0.6180339887498949)[0])
