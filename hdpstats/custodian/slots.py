r"""Answers that leave at fixed slots, whatever private rows and noise make of the computation.

From an analyst's request to the answer:

1. what he has received before is handed out at once: he learns nothing new from it;
2. the seconds of the answer are predicted (`hdpstats.custodian.capacity`), and multiplied by a factor for what else
   the machine does, and rounded up to a grid; where they exceed the limit, the query is refused;
3. the query is prepared and charged; when no rehearsal is under way, at the next step of the grid, its slot begins;
4. the private computation runs in the slot. What it found, or that it failed, stays with its thread until the slot is
   over (`Departure`). Only then is it recorded in the ledger;
5. at the next step of the grid the answer is sent, and its place among computations given to the next one.

What was computed for another analyst before is prepared, charged and sent at the same instants, with nothing in its
slot. If the other computation is still under way, the wait for its record is in the slot, which begins one step after
the request. So that somebody asked the same shows only where a record takes longer than a step of the grid; where the
charges, which are entries of two kinds, take different numbers of steps; and, if he asked so shortly before, where
preparation and charge take longer than a step, where the record ends later than a slot and a step after the request, as
the other request came just before this one or waited for a rehearsal, where another process of the site computes for
him, or where he asks meanwhile for the seconds of a query that is rehearsed: a rehearsal waits for the other
computation's slot, and not for his empty one, which is asked for after it. (If it waited for his, and the other
computation waited for the rehearsal, none would ever begin.)

From before the charge until the answer leaves, no response to the analyst begins (`Slots.quiet`): how fast a site
answers his other requests would show when the computation ends, and his part of the ledger what is recorded. What is
sent to him without this wait: a refusal of who asks (401) and of an address that there is not (404), the refusal of a
request that is no HTTP, ``100 Continue``, the handshakes of TLS, and the rest of a long response that began before.

The slot of a private computation ends at ``begun + k * seconds``, where ``k`` is the smallest whole number such that
the computation has ended by then. Its length is a function of public facts (`hdpstats.custodian.capacity`), so as long
as ``k = 1`` the instant is one too. Where the machine is under load ``k`` may be 2 or more: an *overrun*, which is
logged and counted (`Overruns`). From time an analyst with ``m`` overruns has learned of private rows which answers
overran and by how many slots, and nothing else.

Private computations in their slots may run together, and rehearsals each of them alone (`Turns`). A rehearsal beside a
private computation would be slower, and the seconds that it finds are quoted: a response would depend on private rows.
It would also make the private computation slower, so that one analyst's questions make the answers of another overrun.
So a rehearsal begins when no slot is under way, and no slot begins before it has ended. A request that is refused, or
that waits for a computation elsewhere, has no slot. One with nothing in it keeps rehearsals waiting as well, so that
these do not show that it is empty, but is no reason why another analyst's answer overruns. Either computes with one
thread: a rehearsal that had all processors to itself would tell nothing of answers that share them. Turns are taken
in the order in which they were asked for. An analyst waits for one rehearsal at a time
(`hdpstats.custodian.capacity.Predictions`), so that those of others come in between.

How often an analyst's answers took longer than predicted is kept in a file (``site.overruns.db`` for ``site.yaml``, in
the folder ``state`` of the settings), so that a new start forgets nothing, and not in the ledger, whose entries
analysts can ask for.
Counts stay until the custodian acts: `hdpstats site resume SITE.YAML --analyst NAME`.
"""

import asyncio
import math
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from pathlib import Path
from typing import final

from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats._base.loops import one_thread
from hdpstats.custodian import journal
from hdpstats.custodian.capacity import MOST_CELLS, Clock, Predictions, predict
from hdpstats.custodian.settings import Timing
from hdpstats.records.query import Query, Release
from hdpstats.sites import LocalSite
from hdpstats.sites.forms import RequestRefused, code_of


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


@final
class Departure:
    """The instants of one answer, from before its charge: when its slot begins and ends, and when it leaves.

    Parameters
    ----------
    clock
        What says when that is.
    seconds
        The length of a slot.
    grid
        The step of the grid. A charge, and a record, that take less show in no instant.
    turns, analyst
        The slots that are under way, and whose this one is.
    meanwhile
        Whether the same was under way already, for somebody else: the record is then waited for, in the slot.
    late
        Called where a computation took more than one slot, at the end of the last of them: with their number, and
        whether another analyst computed meanwhile.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        seconds: float,
        grid: float,
        turns: "Turns",
        analyst: str,
        meanwhile: bool,
        late: Callable[[int, bool], None],
    ) -> None:
        self._clock, self._seconds, self._grid, self._late = clock, seconds, grid, late
        self._turns, self._analyst, self._meanwhile = turns, analyst, meanwhile
        self._begun, self._end = clock.now(), -math.inf

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Run a private computation, which was charged, in its slot: leave the block at its end, however it ends."""
        with self._turns.slot(self._analyst) as slot:
            begun = self._step_after(self._begun)
            try:
                yield
            finally:
                slots = self._end_slot(begun)
                if slots > 1:
                    self._late(slots, slot.shared)

    def leave(self) -> None:
        """Return when the answer leaves.

        What had been computed before has a slot with nothing in it, which begins after the same work and the same wait.
        """
        if self._end < self._begun:
            with self._turns.slot(self._analyst, empty=True):
                self._end_slot(self._begun + self._grid if self._meanwhile else self._step_after(self._begun))
        self._clock.wait_until(self._step_after(self._end))

    def _end_slot(self, begun: float) -> int:
        slots = slots_until(self._clock.now() - begun, seconds=self._seconds)
        self._end = begun + slots * self._seconds
        self._clock.wait_until(self._end)
        return slots

    def _step_after(self, instant: float) -> float:
        return instant + on_grid(self._clock.now() - instant, grid=self._grid)


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

    def seconds(self, name: str) -> float:
        """Return after how many seconds the next request is within the limit."""
        with self._lock:
            left, at = self._buckets.get(name, (self._most, self._clock.now()))
            return max((1.0 - left) * 60.0 / self._most + at - self._clock.now(), 0.0)


@final
class Slot:
    """A slot: whose it is, whether nothing is computed in it, and whether another analyst computed meanwhile."""

    def __init__(self, analyst: str, *, empty: bool) -> None:
        self.analyst, self.empty = analyst, empty
        self.shared = False


@final
class Turns:
    """The slots that are under way, or the one rehearsal, the queue of those that wait, and new answers under way."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()
        self._slots: set[Slot] = set()
        self._rehearsing = False
        self._answers: dict[Future[None], tuple[str, str]] = {}  # of whom, and the text of the query

    @contextmanager
    def answer(self, analyst: str, query: str) -> Iterator[bool]:
        """Run the block, from before the charge of a new answer until it leaves: no rehearsal waits for it.

        It is given whether an answer to the same query is under way already.
        """
        left: Future[None] = Future()
        left.set_running_or_notify_cancel()  # from now on nobody who waits for it can cancel it
        with self._changed:
            meanwhile = any(text == query for _, text in self._answers.values())
            self._answers[left] = analyst, query
        try:
            yield meanwhile
        finally:
            with self._changed:
                del self._answers[left]
            left.set_result(None)

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Run the block, with one thread, while no slot is under way, and no other rehearsal."""
        with self._changed:
            self._wait(lambda: not (self._rehearsing or self._slots))
            self._rehearsing = True
        try:
            with one_thread():
                yield
        finally:
            with self._changed:
                self._rehearsing = False
                self._changed.notify_all()

    @contextmanager
    def slot(self, analyst: str, *, empty: bool = False) -> Iterator[Slot]:
        """Run the block, with one thread, while no rehearsal is under way; slots may be."""
        slot = Slot(analyst, empty=empty)
        with self._changed:
            self._wait(lambda: not self._rehearsing)
            for other in self._slots:
                if other.analyst != analyst and not (other.empty or empty):
                    other.shared = slot.shared = True
            self._slots.add(slot)
            self._changed.notify_all()
        try:
            with one_thread():
                yield slot
        finally:
            with self._changed:
                self._slots.discard(slot)
                self._changed.notify_all()

    def under_way(self, analyst: str) -> list[Future[None]]:
        """Return when each of an analyst's new answers that are under way leaves."""
        with self._changed:
            return [left for left, (name, _) in self._answers.items() if name == analyst]

    def _wait(self, free: Callable[[], bool]) -> None:
        """Wait until it is this thread's turn, and the condition holds."""
        turn = object()
        self._queue.append(turn)
        try:
            self._changed.wait_for(lambda: self._queue[0] is turn and free())
        finally:
            self._queue.remove(turn)
            self._changed.notify_all()


_TABLE = "CREATE TABLE IF NOT EXISTS overruns (analyst TEXT PRIMARY KEY, number INTEGER NOT NULL)"
_ADD = "INSERT INTO overruns VALUES (?, 1) ON CONFLICT (analyst) DO UPDATE SET number = number + 1"


@final
class Overruns:
    """The overruns of each analyst since the custodian last looked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.touch(mode=0o600)
            with self._connected() as connection:
                connection.execute(_TABLE)
        except (OSError, sqlite3.Error):
            message = (
                f"state: overruns are counted in {path}, which cannot be written: name a folder of the service's own "
                "user in the settings (state: FOLDER)"
            )
            raise ArgumentError(message, argument="state") from None

    def of(self, analyst: str) -> int:
        """Return an analyst's number."""
        with self._connected() as connection:
            row = connection.execute("SELECT number FROM overruns WHERE analyst = ?", (analyst,)).fetchone()
        return 0 if row is None else int(row[0])

    def add(self, analyst: str) -> None:
        """Count one; durable when this returns."""
        with self._connected() as connection:
            connection.execute(_ADD, (analyst,))

    def clear(self, analyst: str) -> int:
        """Forget an analyst's overruns, and return how many there were."""
        number = self.of(analyst)
        with self._connected() as connection:
            connection.execute("DELETE FROM overruns WHERE analyst = ?", (analyst,))
        return number

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=60.0, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=FULL")
            yield connection


@final
class Slots:
    """Predicts what an answer takes, and lets it leave at a slot."""

    def __init__(self, site: LocalSite, timing: Timing, *, overruns: Overruns, clock: Clock) -> None:
        self._site, self._timing, self._overruns, self._clock = site, timing, overruns, clock
        self._predictions, self._turns = Predictions(), Turns()

    def seconds(self, query: Query, *, analyst: str) -> float:
        """Return how long the slot of a query is, a function of public facts; an answer takes at least two steps more.

        Raises
        ------
        RequestRefused
            It is longer than the custodian allows (by the seconds that are said or more: no rehearsal goes on once that
            is known), or the computation fails on invented rows.
        HdpError
            The query is refused, as `hdpstats.sites.LocalSite.answer` would before it charges.
        """
        slot = self._slot(self._predictions.of(analyst, query, lambda: self._predicted(query, analyst)))
        if slot > self._timing.longest:
            raise RequestRefused("too-long", seconds=round(slot, 3), limit=self._timing.longest)
        return slot

    def answer(self, query: Query, *, analyst: str) -> tuple[Release, bool]:
        """Return a release, and whether it left at a slot: at once where the analyst has received it before.

        Raises
        ------
        RequestRefused
            The analyst is stopped, or the answer would take too long. Nothing was charged.
        HdpError
            The site refuses, or the computation failed, which is known at its slot.
        """
        release = self._site.received(query, analyst=analyst).release
        if release is not None:
            return release, False
        if self._overruns.of(analyst) >= self._timing.overruns:
            raise RequestRefused("stopped")
        seconds = self.seconds(query, analyst=analyst)

        def late(slots: int, shared: bool) -> None:
            """Count an overrun, unless another analyst computed meanwhile, which may have been why."""
            if not shared:
                self._overruns.add(analyst)
            journal.write(analyst=analyst, overrun=query.kind, predicted=seconds, slots=slots, counted=not shared)

        with self._turns.answer(analyst, query.to_json()) as meanwhile:
            departure = Departure(
                self._clock,
                seconds=seconds,
                grid=self._timing.grid,
                turns=self._turns,
                analyst=analyst,
                meanwhile=meanwhile,
                late=late,
            )
            release = self._site.answer(query, analyst=analyst, pace=departure.computing)
            departure.leave()
        return release, True

    async def quiet(self, analyst: str) -> None:
        """Return when the new answers to an analyst that are under way have left."""
        for ended in self._turns.under_way(analyst):
            await asyncio.wrap_future(ended)

    def _slot(self, seconds: float) -> float:
        return on_grid(self._timing.factor * seconds, grid=self._timing.grid)

    def _predicted(self, query: Query, analyst: str) -> float:
        site = self._site
        site.quote(query, analyst=analyst)  # what is refused without a rehearsal waits for no turn
        with self._turns.rehearsal():
            try:
                return predict(
                    lambda rows: site.rehearsal(query, rows=rows, analyst=analyst),
                    site.records * site.most_rows,
                    each=site.most_rows,
                    most=MOST_CELLS // max(len(site.schema), 1),
                    clock=self._clock,
                    too_long=lambda seconds: self._slot(seconds) > self._timing.longest,
                )
            except HdpError as error:
                journal.write(analyst=analyst, rehearsal=query.kind, failed=journal.cause(error))
                raise RequestRefused(code_of(error)) from None
