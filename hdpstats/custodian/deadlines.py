"""How long a client may take for what: a handshake, the head of a request, its body, the reading of a response."""

import asyncio
from typing import Final, Protocol, final

IDLE: Final = 60.0
"""Seconds that a connection may be idle between requests."""


class Deadlines(Protocol):
    """Moments of the event loop's clock at which patience ends."""

    def begin(self, what: str) -> float:
        """Return the moment until which something that begins now may take."""

    def until(self, what: str, moment: float) -> asyncio.Timeout:
        """Return a context that is left with a `TimeoutError` at a moment."""


@final
class Patience:
    """The deadlines of a site: so many seconds for everything, and for an idle connection `IDLE`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def begin(self, what: str) -> float:
        """Return the moment until which something that begins now may take."""
        return asyncio.get_running_loop().time() + (IDLE if what == "idle" else self._seconds)

    def until(self, what: str, moment: float) -> asyncio.Timeout:  # noqa: ARG002  (told for tests, which end it by name)
        """Return a context that is left with a `TimeoutError` at a moment."""
        return asyncio.timeout_at(moment)
