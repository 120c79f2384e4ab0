"""What one analyst may take of a site.

Analysts have parts: computing slots, requests under way, bytes in memory, bodies of bounded length. Each analyst has
parts of his own, which others cannot use up. An analyst who waits for his own part is in no queue of others: in that of
all together he stands once for each of his own computing slots, so that others go first in turn.
"""

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar, final

import anyio.to_thread
from anyio import CapacityLimiter
from starlette.requests import ClientDisconnect, Request

from hdpstats.custodian.settings import Limits
from hdpstats.sites.messages import RequestRefused


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
