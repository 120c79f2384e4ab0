"""A listener in this process, whose deadlines pass when a test says so."""

import asyncio
import contextlib
import socket
import ssl
import threading

from hdpstats.custodian.credentials import Certificates
from hdpstats.custodian.listening import Admission, Listener, sockets_at
from hdpstats.custodian.settings import Limits, Tls

LONG = 60.0
"""Seconds after which a test that waits for something has failed."""


class NamedDeadlines:
    """Deadlines that pass when a test ends them by name."""

    def __init__(self):
        self.changed, self.waiting = threading.Condition(), []

    def begin(self, what):
        return 0.0

    @contextlib.asynccontextmanager
    async def until(self, what, moment):
        async with asyncio.timeout(None) as timeout:
            self._note(self.waiting.append, (what, timeout))
            try:
                yield
            finally:
                self._note(self.waiting.remove, (what, timeout))

    def _note(self, change, each):
        with self.changed:
            change(each)
            self.changed.notify_all()

    def count(self, what):
        return sum(name == what for name, _ in self.waiting)

    def wait(self, **counts):
        """Wait until so many clients are waited for, by what for."""
        with self.changed:
            assert self.changed.wait_for(
                lambda: all(self.count(what) == count for what, count in counts.items()), LONG
            ), [name for name, _ in self.waiting]

    def end(self, loop, what):
        """Let the deadlines of what is waited for now pass."""

        def end():
            for name, timeout in list(self.waiting):
                if name == what:
                    timeout.reschedule(loop.time())

        loop.call_soon_threadsafe(end)


class Server:
    """Serves an application on loopback."""

    def __init__(self, institution, app, *, crl=None, **limits):
        self.institution = institution
        tls = Tls(
            certificate=institution.site_files[0],
            key=institution.site_files[1],
            clients=institution.authority.path,
            crl=crl,
        )
        self.limits = Limits(**limits)
        self.deadlines, self.admission = NamedDeadlines(), Admission(self.limits, self.limits.connections)
        self._listener = Listener(
            app, certificates=Certificates(tls), admission=self.admission, deadlines=self.deadlines, drain=LONG
        )
        self._sockets = sockets_at("127.0.0.1", 0)
        with contextlib.suppress(OSError):  # a machine, or a container, may have no IPv6
            self._sockets += sockets_at("::1", 0)
        self.port, *self.port6 = (each.getsockname()[1] for each in self._sockets)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self):
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._listener.serve(self._sockets, self._ended)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(LONG)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(LONG)
        assert not self._thread.is_alive()

    def end(self, what):
        self.deadlines.end(self._loop, what)

    def plain(self, address="127.0.0.1"):
        """Connect from an address of this machine, and say nothing."""
        place = ("::1", *self.port6) if ":" in address else ("127.0.0.1", self.port)
        return socket.create_connection(place, timeout=LONG, source_address=(address, 0))

    def secure(self, address="127.0.0.1", files=None):
        """Connect, and finish the handshake."""
        context = ssl.create_default_context(cafile=self.institution.authority.path)
        context.load_cert_chain(*(files or self.institution.ann_files))
        plain = self.plain(address)
        try:
            return context.wrap_socket(plain, server_hostname="127.0.0.1")
        except BaseException:
            plain.close()
            raise


def everything(stream):
    """Return what still comes until the other side closes."""
    parts = []
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while part := stream.recv(65536):
            parts.append(part)
    return b"".join(parts)


def response(stream):
    """Return the status and the body of one response."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        part = stream.recv(1)
        if not part:
            return None, head
        head += part
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    content = bytearray()
    while len(content) < length and (part := stream.recv(min(length - len(content), 65536))):
        content += part
    return int(head.split()[1]), bytes(content)
