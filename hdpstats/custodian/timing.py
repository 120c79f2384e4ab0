r"""Answers that leave at fixed slots, whatever private rows and noise make of the computation.

From an analyst's request to the answer:

1. what he has received before is handed out at once: he learns nothing new from it;
2. the seconds of the answer are predicted, from counts of what is done at most (`hdpstats.custodian.prices`), and
   multiplied by a factor for what else the machine does, and rounded up to a grid; where they exceed the limit, the
   query is refused;
3. a place for one more overrun is made sure of, and the query is prepared and charged; at the next step of the grid
   its slot begins;
4. the private computation runs in the slot. What it found, or that it failed, stays with its thread until the slot is
   over (`Departure`). Only then is it recorded in the ledger;
5. at the next step of the grid the answer is sent, and its place among computations given to the next one.

What was computed for another analyst before is prepared, charged and sent at the same instants, with nothing in its
slot. If the other computation is still under way, the wait for its record is in the slot, which begins at the step
after a place for an overrun was made sure of, mostly one step after the request. So that somebody asked the same shows
only in these cases:

* a record takes longer than a step of the grid;
* the two charges, which are entries of two kinds, take different numbers of steps;
* the other request came just before this one, and preparation and charge take longer than a step, or the record ends
  later than a slot and a step after this request;
* the other request came just before this one, and another process of the site computes for it.

From before the charge until the answer leaves, no response to the analyst begins (`Slots.quiet`): how fast a site
answers his other requests would show when the computation ends, and his part of the ledger what is recorded. What is
sent to him without this wait: a refusal of who asks (401) and of an address that there is not (404), the refusal of a
request that is no HTTP, ``100 Continue``, the handshakes of TLS, and the rest of a long response that began before.

The slot of a private computation ends at ``begun + k * seconds``, where ``k`` is the smallest whole number such that
the computation has ended by then. Its length is a function of public facts, so as long as ``k = 1`` the instant is one
too. Where the machine is under load ``k`` may be 2 or more: an *overrun*, which is logged. It is counted (`Overruns`)
unless a request of another analyst was under way while it was computed, whatever he asked for: his work may be why, and
nobody is to be stopped for that. From time an analyst with ``m`` overruns has learned of private rows which answers
overran and by how many slots, and nothing else.

Nothing is computed to find what an answer costs: the count of its operations takes as long as its preparation. So a
question about costs keeps no answer of anybody waiting. Computations in their slots may run together, each with one
thread.

How often an analyst's answers took longer than predicted is kept in a file (``site.overruns.db`` for ``site.yaml``, in
the folder ``state`` of the settings), so that a new start forgets nothing, and not in the ledger, whose entries
analysts can ask for. Where that file cannot be written, as the disk is full, nothing is charged.
Counts stay until the custodian acts: `hdpstats site resume SITE.YAML --analyst NAME`.
"""

import asyncio
import math
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Final, final

from hdpstats._base.compiled import one_thread
from hdpstats._base.errors import ArgumentError
from hdpstats._base.work import Operations, Prices
from hdpstats.custodian import log
from hdpstats.custodian.capacity import Clock
from hdpstats.custodian.files import StateError
from hdpstats.custodian.prices import predicted
from hdpstats.custodian.settings import Timing
from hdpstats.records.query import Query, Release
from hdpstats.sites import LocalSite
from hdpstats.sites.messages import RequestRefused


def on_grid(seconds: float, *, grid: float) -> float:
    """Return the smallest multiple of a step that is at least so long, and at least one step.

    >>> on_grid(0.12, grid=0.05), on_grid(0.0, grid=0.05)
    (0.15000000000000002, 0.05)
    """
    return grid * max(math.ceil(seconds / grid), 1)


LATER: Final = 2.0
"""How many times ``timing: longest`` a later query of a request file may take.

How long it takes rests on releases; before the first charge it is looked at with what is known then.
"""


def slot_of(work: Operations, timing: Timing, prices: Prices, *, later: bool = False) -> float:
    """Return how many seconds the slot of an answer is that takes so much work, ``later`` after another (`LATER`).

    Raises
    ------
    RequestRefused
        It is longer than the custodian allows.
    """
    slot, limit = on_grid(timing.factor * predicted(work, prices), grid=timing.grid), timing.longest
    if later:
        limit *= LATER
    if slot > limit:
        raise RequestRefused("too-long", seconds=round(slot, 3), limit=limit)
    return slot


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
    begun
        The instant from which its steps are counted: before anything that may wait for what is done for others.
    seconds
        The length of a slot.
    grid
        The step of the grid. A charge, and a record, that take less show in no instant.
    under_way, analyst
        What else is under way, and whose this answer is.
    meanwhile
        Whether the same was under way already, for somebody else: the record is then waited for, in the slot.
    late
        Called where a computation took more than one slot, at the end of the last of them: with their number, and
        whether a request of another analyst was under way beside the computation.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        begun: float,
        seconds: float,
        grid: float,
        under_way: "UnderWay",
        analyst: str,
        meanwhile: bool,
        late: Callable[[int, bool], None],
    ) -> None:
        self._clock, self._seconds, self._grid, self._late = clock, seconds, grid, late
        self._under_way, self._analyst, self._meanwhile = under_way, analyst, meanwhile
        self._begun, self._end = begun, -math.inf
        self._earliest = self._step_after(begun)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Run a private computation, which was charged, in its slot: leave the block at its end, however it ends."""
        begun = self._step_after(self._begun)
        beside = self._under_way.computing(self._analyst)
        try:
            with one_thread(), beside as shared:
                yield
        finally:
            slots = self._end_slot(begun)
            if slots > 1:
                self._late(slots, bool(shared))

    def leave(self) -> None:
        """Return when the answer leaves.

        What had been computed before has a slot with nothing in it, which begins after the same work.
        """
        if self._end < self._begun:
            self._end_slot(self._earliest if self._meanwhile else self._step_after(self._begun))
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
class UnderWay:
    """The requests of each analyst, the private computations and the new answers that are under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[str] = Counter()
        self._computing: list[tuple[str, list[str]]] = []  # whose, and which others had a request beside it
        self._answers: dict[Future[None], tuple[str, str]] = {}  # of whom, and the text of the query

    @contextmanager
    def request(self, analyst: str) -> Iterator[None]:
        """Run the block, in which work is done for an analyst: beside it, computations for others may take longer."""
        with self._lock:
            self._requests[analyst] += 1
            for other, beside in self._computing:
                if other != analyst:
                    beside.append(analyst)
        try:
            yield
        finally:
            with self._lock:
                self._requests[analyst] -= 1
                if not self._requests[analyst]:
                    del self._requests[analyst]

    @contextmanager
    def computing(self, analyst: str) -> Iterator[list[str]]:
        """Run the block, a private computation; give a list of the other analysts with requests beside it."""
        with self._lock:
            entry = analyst, [other for other in self._requests if other != analyst]
            self._computing.append(entry)
        try:
            yield entry[1]
        finally:
            with self._lock:
                self._computing = [each for each in self._computing if each is not entry]

    @contextmanager
    def answer(self, analyst: str, query: str) -> Iterator[bool]:
        """Run the block, from before the charge of a new answer until it leaves.

        It is given whether an answer to the same query is under way already.
        """
        left: Future[None] = Future()
        left.set_running_or_notify_cancel()  # from now on nobody who waits for it can cancel it
        with self._lock:
            meanwhile = any(text == query for _, text in self._answers.values())
            self._answers[left] = analyst, query
        try:
            yield meanwhile
        finally:
            with self._lock:
                del self._answers[left]
            left.set_result(None)

    def answers(self, analyst: str) -> list[Future[None]]:
        """Return when each of an analyst's new answers that are under way leaves."""
        with self._lock:
            return [left for left, (name, _) in self._answers.items() if name == analyst]


_TABLE = "CREATE TABLE IF NOT EXISTS overruns (analyst TEXT PRIMARY KEY, number INTEGER NOT NULL)"
_ADD = "INSERT INTO overruns VALUES (?, 1) ON CONFLICT (analyst) DO UPDATE SET number = number + 1"
_TAKE_BACK = "UPDATE overruns SET number = number - 1 WHERE analyst = ?"


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

    @staticmethod
    def counted(path: Path) -> dict[str, int]:
        """Return the numbers of all analysts, and leave the file as it is.

        Where a process ended while it wrote, SQLite takes back what it had written of its count: that alone writes.

        Raises
        ------
        StateError
            The file cannot be read.
        """
        try:
            try:
                return _rows(path, "ro")
            except sqlite3.OperationalError:
                return _rows(path, "rw")
        except sqlite3.Error as error:
            raise StateError(
                f"state: overruns are counted in {path}, which cannot be read ({error}): give this process permission "
                "to read it",
                argument="state",
            ) from None

    def of(self, analyst: str) -> int:
        """Return an analyst's number."""
        with self._connected() as connection:
            row = connection.execute("SELECT number FROM overruns WHERE analyst = ?", (analyst,)).fetchone()
        return 0 if row is None else int(row[0])

    def countable(self, analyst: str) -> int:
        """Return an analyst's number, when one more was counted and taken back: the disk has room for it.

        What changes nothing at all SQLite does not write.

        Raises
        ------
        StateError
            It cannot be written.
        """
        try:
            with self._connected() as connection:
                connection.execute("BEGIN IMMEDIATE")
                for statement in (_ADD, _TAKE_BACK):
                    connection.execute(statement, (analyst,))
                connection.execute("COMMIT")
            return self.of(analyst)
        except sqlite3.Error as error:
            raise StateError(
                f"state: overruns cannot be counted in {self._path} ({error}), and nothing was charged: give this "
                "process write permission to its folder, and space"
            ) from None

    def add(self, analyst: str) -> None:
        """Count one; durable when this returns."""
        with self._connected() as connection:
            connection.execute(_ADD, (analyst,))

    def clear(self, analyst: str) -> int:
        """Forget an analyst's overruns, and return how many there were."""
        with self._connected() as connection:  # in one statement: none that is counted meanwhile is forgotten unseen
            row = connection.execute("DELETE FROM overruns WHERE analyst = ? RETURNING number", (analyst,)).fetchone()
        return 0 if row is None else int(row[0])

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=60.0, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=EXTRA")
            yield connection


def _rows(path: Path, mode: str) -> dict[str, int]:
    """Return the numbers in a file that is opened in a mode of SQLite's; none before its table is made."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=60.0)) as connection:
        if connection.execute("SELECT name FROM sqlite_master WHERE name = 'overruns'").fetchone() is None:
            return {}
        return dict(connection.execute("SELECT analyst, number FROM overruns"))


@final
class Slots:
    """Predicts what an answer takes, and lets it leave at a slot."""

    def __init__(self, site: LocalSite, timing: Timing, *, prices: Prices, overruns: Overruns, clock: Clock) -> None:
        self._site, self._timing, self._overruns, self._clock = site, timing, overruns, clock
        self._prices, self._under_way = prices, UnderWay()

    def request(self, analyst: str) -> AbstractContextManager[None]:
        """Run a block in which work is done for an analyst."""
        return self._under_way.request(analyst)

    def seconds(self, query: Query, *, analyst: str, later: bool = False) -> float:
        """Return how long the slot of a query is, a function of public facts; an answer takes at least two steps more.

        Whether it comes ``later``, after another answer to its request, is for `slot_of`.

        Raises
        ------
        RequestRefused
            It is longer than the custodian allows.
        HdpError
            The query is refused, as `hdpstats.sites.LocalSite.answer` would before it charges.
        """
        return slot_of(self._site.work(query, analyst=analyst), self._timing, self._prices, later=later)

    def answer(
        self, query: Query, *, analyst: str, in_vain: int | None = None, later: bool = False
    ) -> tuple[Release, bool]:
        """Return a release, and whether it left at a slot: at once where the analyst has received it before.

        With ``in_vain``, nothing is charged where more charges of the query have no release; ``later`` is as in
        `seconds`.

        Raises
        ------
        RequestRefused
            The analyst is stopped, or the answer would take too long. Nothing was charged.
        HdpError
            The site refuses, also where an overrun could not be counted; or the computation failed, which is known at
            its slot.
        """
        release = self._site.received(query, analyst=analyst)
        if release is not None:
            return release, False
        seconds = self.seconds(query, analyst=analyst, later=later)
        begun = self._clock.now()  # before the file of overruns is waited for, which others may be writing
        if self._overruns.countable(analyst) >= self._timing.overruns:
            raise RequestRefused("stopped")

        def late(slots: int, shared: bool) -> None:
            """Count an overrun, unless a request of another analyst was under way, which may have been why.

            Where it cannot be counted after all, the log says so: the answer was charged, and is not lost for that.
            """
            counted = not shared
            if counted:
                try:
                    self._overruns.add(analyst)
                except sqlite3.Error as error:
                    counted = False
                    log.write(failed=f"an overrun was not counted: {error}", analyst=analyst)
            log.write(analyst=analyst, overrun=query.kind, predicted=seconds, slots=slots, counted=counted)

        with self._under_way.answer(analyst, query.to_json()) as meanwhile:
            departure = Departure(
                self._clock,
                begun=begun,
                seconds=seconds,
                grid=self._timing.grid,
                under_way=self._under_way,
                analyst=analyst,
                meanwhile=meanwhile,
                late=late,
            )
            release = self._site.answer(query, analyst=analyst, pace=departure.computing, in_vain=in_vain)
            departure.leave()
        return release, True

    async def quiet(self, analyst: str) -> None:
        """Return when the new answers to an analyst that are under way have left."""
        for ended in self._under_way.answers(analyst):
            await asyncio.wrap_future(ended)
