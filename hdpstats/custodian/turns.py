"""Who computes when: private computations in their slots, which may run together, and rehearsals, each of them alone.

A rehearsal beside a private computation would be slower, and the seconds that it finds are quoted: a response would
depend on private rows. It would also make the private computation slower, so that one analyst's questions make the
answers of another overrun. So a rehearsal begins when no slot is under way, and no slot begins before it has ended.

Turns are taken in the order in which they were asked for. An analyst waits for one rehearsal at a time
(`hdpstats.custodian.prediction.Predictions`), so that those of others come in between.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import final


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
