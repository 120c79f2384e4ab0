"""Connections of a site: which are admitted (in all, of one certificate, without a finished handshake), TLS handshakes.

Each admitted connection is answered by an `Exchange`.
"""

import asyncio
import ipaddress
import resource
import socket
from collections import Counter
from collections.abc import Sequence
from typing import Final, final

from hdpstats._base.errors import ArgumentError
from hdpstats.custodian import log
from hdpstats.custodian.credentials import Certificates, thumbprint
from hdpstats.custodian.http_connection import READ, App, Deadlines, Exchange
from hdpstats.custodian.settings import Limits

RESERVE = 128
"""File descriptors that connections never take: for the ledger, the rows, and whatever else the process opens."""


@final
class Admission:
    """Counts connections; to be used from one event loop alone."""

    def __init__(self, limits: Limits, most: int) -> None:
        self._limits, self._most = limits, most
        self._connections = 0
        self._handshakes: Counter[str] = Counter()
        self._admitted: Counter[str | None] = Counter()

    @property
    def handshakes(self) -> int:
        """Connections that have not finished their handshake."""
        return self._handshakes.total()

    @property
    def connections(self) -> int:
        """All connections."""
        return self._connections

    def arrive(self, host: str) -> bool:
        """Whether a connection from an address may begin its handshake; then it counts until `leave`."""
        network = network_of(host)
        if (
            self._connections >= self._most
            or self.handshakes >= self._limits.handshakes
            or self._handshakes[network] >= self._limits.handshakes_each
        ):
            return False
        self._connections += 1
        self._handshakes[network] += 1
        return True

    def end_handshake(self, host: str) -> None:
        """Count a handshake as ended, well or badly."""
        network = network_of(host)
        self._handshakes[network] -= 1
        if not self._handshakes[network]:
            del self._handshakes[network]

    def admit(self, fingerprint: str | None) -> bool:
        """Whether the certificate of a connection may have one more; then it counts until `dismiss`."""
        if self._admitted[fingerprint] >= self._limits.connections_each:
            return False
        self._admitted[fingerprint] += 1
        return True

    def dismiss(self, fingerprint: str | None) -> None:
        """Count a connection of a certificate as ended."""
        self._admitted[fingerprint] -= 1
        if not self._admitted[fingerprint]:
            del self._admitted[fingerprint]

    def leave(self) -> None:
        """Count a connection that arrived as ended."""
        self._connections -= 1


def network_of(host: str) -> str:
    """Return what counts as one address: an address of IPv4, a network of 64 bits of IPv6.

    >>> network_of("192.0.2.7"), network_of("2001:db8::7"), network_of("::ffff:192.0.2.7")
    ('192.0.2.7', '2001:db8::/64', '192.0.2.7')
    """
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((int(address), 64), strict=False))


def descriptors(limits: Limits) -> int:
    """Return how many connections there may be at once, having raised the limit of open files as far as is permitted.

    Raises
    ------
    ArgumentError
        The process may not open the files that it needs besides.
    """
    wanted = limits.connections + RESERVE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    permitted = wanted if soft == resource.RLIM_INFINITY else soft
    if permitted < RESERVE + 2:
        raise ArgumentError(
            f"the process may open {soft} files, and needs {RESERVE + 2} or more: raise that limit (LimitNOFILE)",
            argument="limits",
        )
    return min(limits.connections, permitted - RESERVE)


BACKLOG: Final = 1024
PAUSE: Final = 1.0
"""Seconds until a site that cannot accept a connection tries again."""


@final
class Listener:
    """Takes connections from sockets and lets an application answer."""

    def __init__(
        self, app: App, *, certificates: Certificates, admission: Admission, deadlines: Deadlines, drain: float
    ) -> None:
        self._app, self._certificates = app, certificates
        self._admission, self._deadlines, self._drain = admission, deadlines, drain
        self._connections: dict[asyncio.Task[None], Exchange | None] = {}

    @property
    def admission(self) -> Admission:
        """What counts connections."""
        return self._admission

    async def serve(self, sockets: Sequence[socket.socket], ended: asyncio.Event) -> int:
        """Answer until an event, then finish the requests under way; return how many did not finish in time."""
        late = 0
        accepting = [asyncio.create_task(self._accept(listening)) for listening in sockets]
        try:
            await ended.wait()
        finally:
            for task in accepting:
                task.cancel()
            await asyncio.wait(accepting)
            for listening in sockets:
                listening.close()
            late = await self._finish()
        return late

    def renew(self, certificates: Certificates) -> None:
        """Take other certificates from the next handshake on; to be called from the event loop.

        Connections end, those at work after the request that is under way: each client shows its certificate anew.
        """
        self._certificates = certificates
        self._end_connections()

    def _end_connections(self) -> None:
        for task, exchange in self._connections.items():
            if exchange is None or exchange.idle:
                task.cancel()
            else:
                exchange.ending = True

    async def _finish(self) -> int:
        self._end_connections()
        if not self._connections:
            return 0
        _, late = await asyncio.wait(self._connections, timeout=self._drain)
        for task in late:
            task.cancel()
        return len(late)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listening)
            except OSError as error:
                log.write(failed=f"no connection can be accepted: {error.strerror}")
                await asyncio.sleep(PAUSE)
                continue
            if not self._admission.arrive(address[0]):
                connection.close()
                continue
            task = asyncio.create_task(self._connection(connection, address[0]))
            self._connections[task] = None
            task.add_done_callback(self._connections.pop)

    async def _connection(self, connection: socket.socket, host: str) -> None:
        try:
            try:
                streams = await self._handshake(connection)
            finally:
                self._admission.end_handshake(host)
            if streams is not None:
                await self._exchange(*streams)
        finally:
            self._admission.leave()

    async def _handshake(self, connection: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=READ, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        moment = self._deadlines.begin("handshake")
        try:
            async with self._deadlines.until("handshake", moment):
                transport, _ = await loop.connect_accepted_socket(
                    lambda: protocol,
                    connection,
                    ssl=self._certificates.context(),
                    ssl_handshake_timeout=3600.0,  # the deadline above is the one that counts
                )
        except (TimeoutError, OSError):
            return None
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        transport.set_write_buffer_limits(
            high=1, low=0
        )  # so that a part of a response is read before the next one is written
        return reader, writer

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = writer.get_extra_info("ssl_object")
        der = channel.getpeercert(binary_form=True)
        fingerprint = None if der is None else thumbprint(der)
        if not self._admission.admit(fingerprint):
            writer.transport.abort()
            return
        exchange = Exchange(
            reader,
            writer,
            app=self._app,
            deadlines=self._deadlines,
            fingerprint=fingerprint,
            allowed=lambda: self._certificates.allow(der),
        )
        task = asyncio.current_task()
        if task in self._connections:
            self._connections[task] = exchange
        try:
            await exchange.serve()
            await self._close(writer)
        finally:
            writer.transport.abort()
            self._admission.dismiss(fingerprint)

    async def _close(self, writer: asyncio.StreamWriter) -> None:
        """Send what is left to be sent, as long as the client reads it."""
        writer.close()
        try:
            async with self._deadlines.until("close", self._deadlines.begin("close")):
                await writer.wait_closed()
        except (TimeoutError, OSError):
            return


def sockets_at(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen at every address of a host.

    Raises
    ------
    OSError
        The name is unknown, or the address in use or not this machine's.
    """
    bound: list[socket.socket] = []
    places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    try:
        for family, address in dict.fromkeys((place[0], place[4]) for place in places):
            listening = socket.socket(family, socket.SOCK_STREAM)
            bound.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
            listening.setblocking(False)
    except OSError:
        for listening in bound:
            listening.close()
        raise
    return bound
