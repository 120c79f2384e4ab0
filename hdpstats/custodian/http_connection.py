"""One connection: requests in HTTP/1.1 and their responses, each part of them with a deadline.

The grammar of HTTP is h11's, which neither reads nor writes. A body is read when the application asks for the next part
of it, and a response is written as fast as the client reads it: what waits in this process is bounded by buffers of a
few hundred kilobytes for each connection.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, final
from urllib.parse import unquote

import h11

from hdpstats import __version__ as VERSION  # noqa: N812
from hdpstats.custodian import log
from hdpstats.records import codec
from hdpstats.sites.messages import CODES, RequestRefused

IDLE: Final = 60.0
"""Seconds that a connection may be idle between requests."""


@final
class Deadlines:
    """Moments of the event loop's clock until which a client may take: so many seconds, `IDLE` between requests."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def begin(self, what: str) -> float:
        """Return the moment until which something that begins now may take."""
        return asyncio.get_running_loop().time() + (IDLE if what == "idle" else self._seconds)

    def until(self, what: str, moment: float) -> asyncio.Timeout:  # noqa: ARG002  (tests end it by name)
        """Return a context that is left with a `TimeoutError` at a moment."""
        return asyncio.timeout_at(moment)


Message = MutableMapping[str, Any]
App = Callable[[Any, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]

FINGERPRINT: Final = "hdpstats.certificate"
"""Where a request's scope holds the SHA-256 of the client's certificate."""

READ: Final = 65_536
"""Bytes that are read at once."""

WRITTEN: Final = 1_000_000
"""Bytes of a response that have a deadline together."""


@final
class Exchange:
    """Answers the requests of one connection, one after the other, until the client or a deadline ends it.

    Parameters
    ----------
    reader, writer
        The connection, its handshake done.
    app
        The application (ASGI 3).
    deadlines
        How long the client may take.
    fingerprint
        The SHA-256 of the client's certificate.
    allowed
        Asked at every request: whether that certificate may still be used.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        app: App,
        deadlines: Deadlines,
        fingerprint: str | None,
        allowed: Callable[[], bool],
    ) -> None:
        self._reader, self._writer = reader, writer
        self._app, self._deadlines = app, deadlines
        self._fingerprint, self._allowed = fingerprint, allowed
        self._http = h11.Connection(h11.SERVER)
        self._body_until: float | None = None
        self._start = b""
        self._head_only = self._body_read = self._gone = False
        self.idle = True
        self.ending = False

    async def serve(self) -> None:
        """Answer requests; return when there is no further one."""
        what = "head"  # of a connection that has just begun, within the time of a head
        while not self.ending:
            try:
                request = await self._head(what)
            except h11.RemoteProtocolError:
                await self._refuse("malformed")
                return
            except (TimeoutError, OSError):
                return
            if request is None:
                return
            self.idle = False
            await self._answer(request)
            if self._gone or not self._is_done():
                return
            self._http.start_next_cycle()
            what, self.idle = "idle", True
            await asyncio.sleep(0)  # requests that were sent ahead wait for what others sent meanwhile

    async def _head(self, what: str) -> h11.Request | None:
        moment = self._deadlines.begin(what)
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                return event
            if event is not h11.NEED_DATA:
                return None
            async with self._deadlines.until(what, moment):
                part = await self._reader.read(READ)
            self._http.receive_data(part)
            if what == "idle":
                what, moment = "head", self._deadlines.begin("head")

    async def _answer(self, request: h11.Request) -> None:
        self._body_until, self._start, self._body_read = None, b"", False
        self._head_only = request.method == b"HEAD"
        if not self._allowed():
            await self._refuse("unauthenticated", "the certificate was revoked, or the list of revoked ones expired")
            return
        if any(name == b"transfer-encoding" for name, _ in request.headers):  # a body in any number of parts
            await self._refuse("no-length")
            return
        await self._app(self._scope(request), self._receive, self._send)
        if self._http.our_state is h11.SEND_RESPONSE:
            await self._refuse("failed")

    def _scope(self, request: h11.Request) -> dict[str, Any]:
        path, _, query = request.target.partition(b"?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": request.http_version.decode("ascii"),
            "method": request.method.decode("ascii"),
            "scheme": "https",
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers],
            "client": self._writer.get_extra_info("peername")[:2],
            "server": self._writer.get_extra_info("sockname")[:2],
            FINGERPRINT: self._fingerprint,
        }

    async def _receive(self) -> Message:
        """Return the next part of the body.

        Raises
        ------
        RequestRefused
            The body takes too long.
        """
        if self._body_read or self._gone:
            return {"type": "http.disconnect"}
        if self._http.they_are_waiting_for_100_continue:
            await self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
        if self._body_until is None:
            self._body_until = self._deadlines.begin("body")
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                async with self._deadlines.until("body", self._body_until):
                    part = await self._reader.read(READ)
                self._http.receive_data(part)
        except TimeoutError:
            raise RequestRefused("too-slow") from None
        except (OSError, h11.RemoteProtocolError):
            return {"type": "http.disconnect"}
        if isinstance(event, h11.Data):
            return {"type": "http.request", "body": bytes(event.data), "more_body": True}
        self._body_read = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message: Message) -> None:
        """Write a part of the response; where the client is gone, or does not read, it is dropped."""
        if self._gone:
            return
        if message["type"] == "http.response.start":
            response = h11.Response(status_code=message["status"], headers=list(message["headers"]))
            self._start = self._http.send(response) or b""
            return
        text = b"" if self._head_only else message.get("body", b"")
        parts = [self._start, self._http.send(h11.Data(data=text)) or b""]
        if not message.get("more_body", False):
            parts.append(self._http.send(h11.EndOfMessage()) or b"")
        self._start = b""
        await self._write(b"".join(parts))

    async def _write(self, content: bytes) -> None:
        try:
            for first in range(0, len(content), WRITTEN):
                self._writer.write(content[first : first + WRITTEN])
                async with self._deadlines.until("write", self._deadlines.begin("write")):
                    await self._writer.drain()
        except (TimeoutError, OSError):  # a deadline that has passed, or a client that is gone
            self._gone = True
            self._writer.transport.abort()

    async def _refuse(self, code: str, why: str = "") -> None:
        """Answer with a code and end, where the application has not answered and will not, and write to the log why."""
        log.write(request=None, status=CODES[code].status, refused=code, why=why, version=VERSION)
        content = codec.dumps({"error": code}).encode()
        fields = {"content-type": "application/json", "content-length": str(len(content)), "connection": "close"}
        response = h11.Response(status_code=CODES[code].status, headers=list(fields.items()))
        try:
            parts = [self._http.send(event) for event in (response, h11.Data(data=content), h11.EndOfMessage())]
        except h11.LocalProtocolError:  # a response was under way already
            return
        await self._write(b"".join(part or b"" for part in parts))

    def _is_done(self) -> bool:
        """Whether request and response have ended, so that another request may follow."""
        try:
            while self._http.their_state is h11.SEND_BODY:
                if self._http.next_event() in (h11.NEED_DATA, h11.PAUSED):
                    return False
        except h11.RemoteProtocolError:
            return False
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
