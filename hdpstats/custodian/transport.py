"""What stands between a socket and the application: certificates, deadlines, sizes."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, final

from starlette.requests import ClientDisconnect, Request
from uvicorn.protocols.http.h11_impl import H11Protocol

from hdpstats._base.errors import ArgumentError
from hdpstats.custodian.capacity import Hold
from hdpstats.custodian.refusing import Unacceptable
from hdpstats.custodian.settings import Tls
from hdpstats.custodian.tokens import thumbprint

FINGERPRINT = "hdpstats.certificate"
"""Where a request's scope holds the SHA-256 of the client's certificate."""

App = Callable[[Any, Any, Any], Awaitable[None]]


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return the context of a server that talks to clients with a certificate of the named authority only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(tls.certificate, tls.key)
        context.load_verify_locations(tls.clients)
    except (OSError, ssl.SSLError):
        message = "tls: certificate and key must belong together, and clients be certificates of authorities, in PEM"
        raise ArgumentError(message, argument="tls") from None
    return context


@final
class Guarded(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with a deadline for the head of a request and the client's certificate.

    The deadline runs from the connection's beginning and from the first byte after a response; while nothing has come,
    uvicorn's own one for idle connections runs.
    """

    def __init__(self, *arguments: Any, seconds: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._seconds = seconds
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note the client's certificate, and start the clock."""
        super().connection_made(transport)
        channel = transport.get_extra_info("ssl_object")
        der = None if channel is None else channel.getpeercert(binary_form=True)
        self.app: Any = partial(_with_certificate, self.app, None if der is None else thumbprint(der))
        self._deadline = self.loop.call_later(self._seconds, self._cut)

    def data_received(self, data: bytes) -> None:
        """Read, and see whether the head of a request is still incomplete."""
        super().data_received(data)
        if not self._waits() and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        elif self._waits() and self._deadline is None:
            self._deadline = self.loop.call_later(self._seconds, self._cut)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        super().connection_lost(exc)

    def _waits(self) -> bool:
        return str(self.conn.their_state) == "IDLE"

    def _cut(self) -> None:
        self._deadline = None
        if self._waits() and not self.transport.is_closing():
            self.transport.abort()


async def _with_certificate(app: App, fingerprint: str | None, scope: Any, receive: Any, send: Any) -> None:
    scope[FINGERPRINT] = fingerprint
    await app(scope, receive, send)


@final
class Loop(asyncio.SelectorEventLoop):
    """An event loop whose servers give a TLS handshake so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._handshake = seconds

    async def create_server(self, *arguments: Any, **options: Any) -> asyncio.Server:
        """Create a server; see `asyncio.loop.create_server`."""
        if options.get("ssl") is not None:
            options = {"ssl_handshake_timeout": self._handshake} | options
        return await super().create_server(*arguments, **options)


async def body(request: Request, *, longest: int, seconds: float, hold: Hold) -> str:
    """Return the body of a request as text, or refuse one that is too long, too slow or no UTF-8.

    A length that is announced is believed where it is too long; what arrives is counted in any case, and ``hold`` is
    told of every part, which it may refuse.
    """
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced[:20]) > longest:
        raise Unacceptable("too-large")
    parts, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size > longest:
                    raise Unacceptable("too-large")
                hold(len(part))
                parts.append(part)
    except TimeoutError:
        raise Unacceptable("too-slow") from None
    except ClientDisconnect:
        raise Unacceptable("malformed") from None
    try:
        return b"".join(parts).decode("utf-8")
    except UnicodeDecodeError:
        raise Unacceptable("malformed") from None
