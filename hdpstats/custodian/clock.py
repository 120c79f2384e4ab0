r"""When a service answers: at fixed instants, which public facts decide.

A private computation with a slot of ``seconds`` is handed out at ``begun + k * seconds``, where ``k`` is the smallest
whole number such that the computation has ended by then. The slot is a function of public facts
(`hdpstats.custodian.prediction`), so as long as ``k = 1`` the instant is one too. Where the machine is under load ``k``
may be 2 or more: an *overrun*, which is logged and counted (`hdpstats.custodian.overruns`). From time an analyst with
``m`` overruns has learned which answers overran and by how many slots, and nothing else.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Clock:
    """A clock that never goes back, and a way to wait; tests have their own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def wait_until(self, instant: float) -> None:
        """Return at an instant, or at once where it is over."""
        while (left := instant - self.now()) > 0:
            self.sleep(left)


def on_grid(seconds: float, *, grid: float) -> float:
    """Return the smallest multiple of a step that is at least so long, and at least one step.

    >>> on_grid(0.12, grid=0.05), on_grid(0.0, grid=0.05)
    (0.15000000000000002, 0.05)
    """
    return grid * max(math.ceil(seconds / grid), 1)


def slots_until(elapsed: float, *, seconds: float) -> int:
    """Return how many slots of a length have begun after so long: the number of the one that comes next.

    >>> slots_until(0.0, seconds=0.1), slots_until(0.1, seconds=0.1), slots_until(0.11, seconds=0.1)
    (1, 1, 2)
    """
    return max(math.ceil(elapsed / seconds), 1)


@contextmanager
def paced(clock: Clock, seconds: float, *, late: Callable[[int], None]) -> Iterator[None]:
    """Leave the block at a slot only, however it ends.

    Parameters
    ----------
    clock
        What says when that is.
    seconds
        The length of a slot.
    late
        Called with the number of slots where it was more than one, at the end of the last of them.
    """
    begun = clock.now()
    try:
        yield
    finally:
        slots = slots_until(clock.now() - begun, seconds=seconds)
        clock.wait_until(begun + slots * seconds)
        if slots > 1:
            late(slots)


@final
@dataclass(frozen=True, slots=True)
class Bucket:
    """How many requests may come at once, at an instant: it fills up again with time."""

    left: float
    at: float

    def filled(self, now: float, *, most: int) -> "Bucket":
        """Return what it is later, where it takes a minute to fill up from nothing."""
        return Bucket(min(self.left + (now - self.at) * most / 60.0, float(most)), now)


@final
class Rates:
    """Requests per minute, of each name of its own: a minute's requests may come at once (a token bucket)."""

    def __init__(self, most: int, clock: Clock) -> None:
        self._most, self._clock = most, clock
        self._lock = threading.Lock()
        self._buckets: dict[str, Bucket] = {}

    def allow(self, name: str) -> bool:
        """Whether one more request is within the limit; it is counted if so."""
        with self._lock:
            now = self._clock.now()
            bucket = self._buckets.get(name, Bucket(float(self._most), now)).filled(now, most=self._most)
            allowed = bucket.left >= 1.0
            self._buckets[name] = Bucket(bucket.left - 1.0, now) if allowed else bucket
            return allowed
