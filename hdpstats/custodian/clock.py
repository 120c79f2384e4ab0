r"""When a service answers: at fixed instants, which public facts decide; and what may compute at the same time.

A private computation with a slot of ``seconds`` is handed out at ``begun + k * seconds``, where ``k`` is the smallest
whole number such that the computation has ended by then. The slot is a function of public facts
(`hdpstats.custodian.prediction`), so as long as ``k = 1`` the instant is one too. Where the machine is under load ``k``
may be 2 or more: an *overrun*, which is logged and counted (`hdpstats.custodian.slots.Overruns`). From time an analyst
with ``m`` overruns has learned which answers overran and by how many slots, and nothing else.

Private computations in their slots may run together, and rehearsals each of them alone (`Turns`). A rehearsal beside a
private computation would be slower, and the seconds that it finds are quoted: a response would depend on private rows.
It would also make the private computation slower, so that one analyst's questions make the answers of another overrun.
So a rehearsal begins when no slot is under way, and no slot begins before it has ended. Turns are taken in the order in
which they were asked for. An analyst waits for one rehearsal at a time (`hdpstats.custodian.prediction.Predictions`),
so that those of others come in between.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
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
class Rates:
    """Requests per minute, of each name of its own: a minute's requests may come at once (a token bucket)."""

    def __init__(self, most: int, clock: Clock) -> None:
        self._most, self._clock = most, clock
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}  # how many may come at once, and at which instant

    def allow(self, name: str) -> bool:
        """Whether one more request is within the limit; it is counted if so."""
        with self._lock:
            now = self._clock.now()
            left, at = self._buckets.get(name, (self._most, now))
            left = min(left + (now - at) * self._most / 60.0, self._most)
            allowed = left >= 1.0
            self._buckets[name] = (left - 1.0 if allowed else left, now)
            return allowed


@final
class Slot:
    """The slot of a private computation: whose it is, whether another analyst's was under way, and when it ends."""

    def __init__(self, analyst: str) -> None:
        self.analyst = analyst
        self.shared = False
        self.ended: Future[None] = Future()
        self.ended.set_running_or_notify_cancel()  # from now on nobody who waits for it can cancel it


@final
class Turns:
    """The slots that are under way, or the one rehearsal, and the queue of those that wait."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()
        self._slots: set[Slot] = set()
        self._rehearsing = False

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Run the block while no slot is under way, and no other rehearsal."""
        with self._changed:
            self._wait(lambda: not (self._rehearsing or self._slots))
            self._rehearsing = True
        try:
            yield
        finally:
            with self._changed:
                self._rehearsing = False
                self._changed.notify_all()

    @contextmanager
    def slot(self, analyst: str) -> Iterator[Slot]:
        """Run the block while no rehearsal is under way; slots may be."""
        slot = Slot(analyst)
        with self._changed:
            self._wait(lambda: not self._rehearsing)
            for other in self._slots:
                if other.analyst != analyst:
                    other.shared = slot.shared = True
            self._slots.add(slot)
            self._changed.notify_all()
        try:
            yield slot
        finally:
            with self._changed:
                self._slots.discard(slot)
                self._changed.notify_all()
            slot.ended.set_result(None)

    def under_way(self, analyst: str) -> list[Future[None]]:
        """Return the ends of an analyst's slots that are under way."""
        with self._changed:
            return [slot.ended for slot in self._slots if slot.analyst == analyst]

    def _wait(self, free: Callable[[], bool]) -> None:
        """Wait until it is this thread's turn, and the condition holds."""
        turn = object()
        self._queue.append(turn)
        try:
            self._changed.wait_for(lambda: self._queue[0] is turn and free())
        finally:
            self._queue.remove(turn)
            self._changed.notify_all()
