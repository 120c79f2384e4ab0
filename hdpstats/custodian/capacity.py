r"""What a computation takes of a site, and what one analyst may take of it.

**Time.** How long a private computation takes at most follows from public facts and from its speed on invented rows.
The service runs the computation on invented rows of the declared shape, every loop at its full length
(`hdpstats.sites.LocalSite.rehearsal`), and takes the time. Nothing is charged, no private row is read, and the time
depends on the query, the schema, the terms and the machine only.

With ``N`` declared rows, ``n`` rows are invented: all ``N`` where that is quick and they fit in memory. From ``n`` it
goes on to no more than ``n sqrt(LONGEST_REHEARSAL / t(n))``, so that a time that grows as the square of rows stays
within `LONGEST_REHEARSAL`, and no further once the answer is known to take longer than the custodian allows. Where
``n < N``, the time ``t(n)`` is carried on to ``N`` as

.. math:: t(N) = m \, t(n) \, (N / n)^b, \qquad b = \min\{\max\{1, \log_4 (t(n) / t(n / 4))\}, 2\},

with a margin ``m`` = 1.5 for what grows faster beyond ``n``, such as rows that no longer fit in the processor's cache.

**Parts of analysts**: computing slots, requests under way, bytes in memory, bodies of bounded length. Each analyst has
parts of his own, which others cannot use up. An analyst who waits for his own part is in no queue of others: in that of
all together he stands once for each of his own computing slots, so that others go first in turn.
"""

import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, final

import anyio.to_thread
from anyio import CapacityLimiter
from starlette.requests import ClientDisconnect, Request

from hdpstats._base.validation import rational
from hdpstats.custodian.settings import Limits
from hdpstats.records import codec
from hdpstats.records.query import Query
from hdpstats.sites.forms import RequestRefused

MOST_SHAPES = 256
"""Predictions that are kept for one analyst: the latest used ones."""

MOST_CELLS = 2_000_000
"""Cells that are invented at most for one rehearsal."""

FIRST = 1024
"""Rows of a first rehearsal, which also compiles what is compiled."""

LONGEST_REHEARSAL = 5.0
"""Seconds that a rehearsal of more than `FIRST` rows may take: else fewer rows are invented than are declared."""

BRIEF = 1.0
"""Seconds below which a rehearsal is run twice, and the shorter time counts: the longer one met other work."""

MARGIN = 1.5
"""By how much a time that was carried on to more rows is multiplied."""

IDLE: Final = frozenset({"replicate", "ahead"})
"""Entries of a query that no computation depends on; as the next two, of the query itself, not of what is within."""

AMOUNTS: Final = frozenset({"epsilon", "delta", "mu_squared", "cost"})
"""Entries whose order of magnitude decides the work (the ridge, the size of the noise), and whose digits do not."""

PLACES: Final = frozenset({"theta", "coefficients", "candidates"})
"""Entries where a loss is evaluated: their number decides the work."""


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


def shape_of(query: Query) -> str:
    """Return a name of everything in a query that decides how much work it is.

    Every entry counts, but for `IDLE` ones; of `AMOUNTS` the power of two, of `PLACES` the number. Entries within
    others count as they are: a name there may be that of a column.
    """
    outlines = {name: _outline(name, value) for name, value in query.to_dict().items() if name not in IDLE}
    return codec.sha256([query.kind, outlines])


def _outline(name: str, value: Any) -> Any:
    if name in AMOUNTS and isinstance(value, str):
        amount = rational(value, name=name)
        return amount.numerator.bit_length() - amount.denominator.bit_length()
    return _number(value) if name in PLACES else value


def _number(value: Any) -> Any:
    return [len(value), _number(value[0]) if value else 0] if isinstance(value, list) else 0


def carried_on(times: tuple[float, float], rows: int, *, to: int) -> float:
    """Return the time of ``to`` rows from those of a quarter of ``rows`` and of ``rows``; see the module.

    >>> carried_on((1.0, 4.0), 1000, to=2000), carried_on((1.0, 16.0), 1000, to=2000)
    (12.0, 96.0)
    """
    quarter, whole = times
    power = min(max(math.log(max(whole, 1e-9) / max(quarter, 1e-9), 4), 1.0), 2.0)
    return float(MARGIN * whole * (to / rows) ** power)


def predict(
    rehearsal: Callable[[int], Callable[[], None]],
    rows: int,
    *,
    each: int,
    most: int,
    clock: Clock,
    too_long: Callable[[float], bool],
) -> float:
    """Return how many seconds a computation on so many rows takes, or fewer, which are too long already.

    Parameters
    ----------
    rehearsal
        Invents so many rows, and returns the computation on them.
    rows
        The declared number of rows.
    each
        The rows of one person: people are invented whole.
    most
        The largest number of rows that may be invented.
    clock
        The clock.
    too_long
        Whether an answer whose computation takes so many seconds is refused: if so, no more rows are invented.
    """

    def whole_people(number: int) -> int:
        return max(min(number, rows, most) // each * each, each)

    def timed(run: Callable[[], None]) -> float:
        begun = clock.now()
        run()
        return clock.now() - begun

    def shortest(number: int) -> float:
        run = rehearsal(number)
        first = timed(run)
        return first if first > BRIEF else min(first, timed(run))

    def more(number: int, time: float) -> int:
        return whole_people(int(number * math.sqrt(max(LONGEST_REHEARSAL / max(time, 1e-9), 1.0))))

    invented = whole_people(FIRST)
    rehearsal(invented)()  # compiles, and fills what is remembered
    time = shortest(invented)
    while not too_long(time) and (next_ := more(invented, time)) >= min(2 * invented, whole_people(rows)) > invented:
        invented, time = next_, max(time, shortest(next_))
    if invented == rows or too_long(time):
        return time
    fewer = whole_people(max(invented // 4, 1))
    quarter = time / 4.0 if fewer >= invented else shortest(fewer)
    return carried_on((quarter, time), invented, to=rows)


@final
class Predictions:
    """What was found by shape of query: seconds, or the code with which a rehearsal failed.

    Of each analyst the latest used ones are kept, apart from others', so that nobody's questions push out another's;
    and of each one prediction is found at a time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._finding: dict[str, threading.Lock] = {}
        self._of: dict[str, OrderedDict[str, float | str]] = {}

    def of(self, analyst: str, query: Query, find: Callable[[], float]) -> float:
        """Return the seconds of a query, found anew where they are not known; of one analyst one at a time.

        Raises
        ------
        RequestRefused
            As ``find`` raised it for this shape. Any other error of ``find`` is not remembered.
        """
        shape = shape_of(query)
        with self._lock:
            finding = self._finding.setdefault(analyst, threading.Lock())
        found = self._known(analyst, shape)
        if found is None:
            with finding:
                found = self._known(analyst, shape)  # another request of his may have found it meanwhile
                if found is None:
                    try:
                        found = find()
                    except RequestRefused as refusal:
                        found = refusal.code
                    self._keep(analyst, shape, found)
        if isinstance(found, str):
            raise RequestRefused(found)
        return found

    def _known(self, analyst: str, shape: str) -> float | str | None:
        with self._lock:
            of = self._of.setdefault(analyst, OrderedDict())
            if shape in of:
                of.move_to_end(shape)
            return of.get(shape)

    def _keep(self, analyst: str, shape: str, found: float | str) -> None:
        with self._lock:
            of = self._of[analyst]
            of[shape] = found
            if len(of) > MOST_SHAPES:
                of.popitem(last=False)


T = TypeVar("T")

BUSY: Final = 1.0
"""Seconds after which a request that found no room may be sent again."""

READING_EACH = 2
"""Threads of one analyst that do not compute answers: costs, invented rows, his part of the ledger."""

READING = 8
"""Such threads of all together."""


class ByteCount(Protocol):
    """Counts bytes of a request, and refuses those that are too many; never what must be handed out ``always``."""

    def __call__(self, size: int, *, always: bool = False) -> None:
        """Count so many further bytes."""


@final
class Bytes:
    """Bytes of bodies and responses under way, in all and of each analyst."""

    def __init__(self, limits: Limits) -> None:
        self._most, self._most_each = limits.bytes, limits.bytes_each
        self._held: Counter[str] = Counter()
        self._total = 0

    @property
    def total(self) -> int:
        """The bytes of all together, without those that are counted ``always``: they take nothing from others."""
        return self._total

    @contextmanager
    def holding(self, analyst: str) -> Iterator["ByteCount"]:
        """Give a function that counts further bytes of a request, until the request ends.

        Raises
        ------
        RequestRefused
            By that function, unless it is called with ``always``: there are too many under way, of the analyst or of
            all.
        """
        held = common = 0

        def hold(size: int, *, always: bool = False) -> None:
            nonlocal held, common
            if not (always or self._fits(analyst, size)):
                raise RequestRefused("busy", wait=BUSY)
            held += size
            self._held[analyst] += size
            if not always:
                common += size
                self._total += size

        try:
            yield hold
        finally:
            self._held[analyst] -= held
            self._total -= common
            if not self._held[analyst]:
                del self._held[analyst]

    def _fits(self, analyst: str, size: int) -> bool:
        return self.total + size <= self._most and self._held[analyst] + size <= self._most_each


@final
class Capacity:
    """The computing slots, threads and bytes of a site; to be used from its event loop alone."""

    def __init__(self, limits: Limits, analysts: Iterable[str]) -> None:
        self._computing, self._most_computing_each = CapacityLimiter(limits.computing), limits.computing_each
        self._reading, self._parsing = CapacityLimiter(READING), CapacityLimiter(1)
        self._computing_each: dict[str, CapacityLimiter] = {}
        self._reading_each: dict[str, CapacityLimiter] = {}
        self.renew(analysts)
        self._requests: Counter[str] = Counter()
        self._most_requests = limits.requests_each
        self.bytes = Bytes(limits)

    def renew(self, analysts: Iterable[str]) -> None:
        """Give further analysts parts of their own; those who have some keep them."""
        for name in analysts:
            self._computing_each.setdefault(name, CapacityLimiter(self._most_computing_each))
            self._reading_each.setdefault(name, CapacityLimiter(READING_EACH))

    @contextmanager
    def request(self, analyst: str) -> Iterator[None]:
        """Count a request of an analyst while it is under way; refuse one too many."""
        if self._requests[analyst] >= self._most_requests:
            raise RequestRefused("busy", wait=BUSY)
        self._requests[analyst] += 1
        try:
            yield
        finally:
            self._requests[analyst] -= 1

    @asynccontextmanager
    async def computing(self, analyst: str) -> AsyncIterator[None]:
        """Hold a computing slot: one of the analyst's own first, and then one of all."""
        async with self._computing_each[analyst], self._computing:
            yield

    async def compute(self, analyst: str, task: Callable[[], T]) -> T:
        """Return what a task computes in a thread, which a computing slot is held for."""
        async with self.computing(analyst):
            return await run(task)

    async def read(self, analyst: str, task: Callable[[], T]) -> T:
        """Return what a task that answers no query computes in a thread; such tasks take no computing slot."""
        async with self._reading_each[analyst], self._reading:
            return await run(task)

    async def parse(self, analyst: str, task: Callable[[], T]) -> T:
        """Return what a task reads from a long body; one at a time, since that takes several times its bytes."""
        async with self._reading_each[analyst], self._parsing:
            return await run(task)


async def run(task: Callable[[], T]) -> T:
    """Return what a task computes in a thread; how many there are at once is bounded elsewhere."""
    return await anyio.to_thread.run_sync(task, limiter=CapacityLimiter(1))


async def body(request: Request, *, longest: int, hold: ByteCount) -> bytes:
    """Return the body of a request, or refuse one that is too long or too slow.

    An announced length that is too long is refused at once; what arrives is counted in any case, and ``hold`` is called
    with the length of every part, which it may refuse.
    """
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced[:20]) > longest:
        raise RequestRefused("too-large", limit=longest)
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > longest:
                raise RequestRefused("too-large", limit=longest)
            hold(len(part))
            parts.append(part)
    except ClientDisconnect:
        raise RequestRefused("malformed") from None
    return b"".join(parts)
