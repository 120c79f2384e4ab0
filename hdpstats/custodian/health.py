"""Whether a site is alive and ready, and metrics: at a local address, without a token.

=========== ============================================================================================
``/live``   200 while the process answers, also while it reads the rows and while it ends
``/ready``  200 where a request would be taken now; else 503, with what is in the way and what to do
``/version`` the package, the protocol and the ledger's format; which clients go with it
``/metrics`` the same in Prometheus' text format, with requests, connections and dates of certificates
=========== ============================================================================================

**Public facts only.** Whoever has an account on the machine, and whoever reads what a monitoring server stored, sees
these numbers. So they are a function of what was sent and of declared facts. There is no duration, no memory, no time
of the processor and no number of computations under way: each would show when a computation on private rows ends, which
answers that leave at slots hide (`hdpstats.custodian.timing`). There is no number of overruns, which depends on private
rows, and no space of the disk, of which a computation holds a part while it runs. A request is counted when its
response leaves. What was spent, by whom, and who is stopped is the custodian's alone: ``hdpstats site show``.

**Readiness** reads the ledger's format, the kept heads, and how full the disk of the ledger is, at most once a second
whoever asks; nothing is written. A database that does not answer within `PATIENCE` seconds counts as down.
"""

import json
import os
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, final

from cryptography import x509
from prometheus_client import CollectorRegistry, Counter, Gauge, Info, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from hdpstats import __version__ as VERSION  # noqa: N812
from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats.custodian import log
from hdpstats.custodian.settings import Health, SiteSettings, Tls
from hdpstats.ledger.store import FORMAT as LEDGER_FORMAT
from hdpstats.sites.messages import FORMAT

PATIENCE: Final = 5.0
"""Seconds within which the ledger must answer for the site to be ready."""

FRESH: Final = 1.0
"""Seconds for which what was found is said again."""

MOST: Final = 8
"""Requests at this address at once; further ones are closed."""

SECONDS: Final = 2.0
"""How long a request may take to arrive."""

STARTING: Final = "the site is starting: it opens the ledger and reads the rows"
ENDING: Final = "the site is ending: it finishes the requests under way, and takes no other"


@final
class State:
    """What a site says of itself, from its start to its end; used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._why: str | None = STARTING
        self._check: Callable[[], None] = lambda: None
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self._found: Future[str | None] | None = None
        self._at = 0.0
        disable_created_metrics()  # type: ignore[no-untyped-call]  # when something was counted first
        self._registry = CollectorRegistry()
        about = Info("hdpstats", "The package and what it talks in", registry=self._registry)
        about.info({key: str(value) for key, value in version().items()})
        started = Gauge("hdpstats_start_time_seconds", "When the process started (Unix time)", registry=self._registry)
        started.set(time.time())
        self._ready = Gauge("hdpstats_ready", "1 where a request would be taken now", registry=self._registry)
        self._requests = Counter(
            "hdpstats_requests", "Requests by address and status", ["request", "status"], registry=self._registry
        )
        self._connections = Gauge("hdpstats_connections", "Open connections of clients", registry=self._registry)
        self._dates = Gauge(
            "hdpstats_certificate_not_after_seconds",
            "When a certificate expires (Unix time), by its entry in the settings",
            ["file"],
            registry=self._registry,
        )
        self._restarted = Gauge(
            "hdpstats_settings_read_seconds",
            "When the settings in force were read (Unix time)",
            registry=self._registry,
        )
        self._restarted.set(time.time())

    def serve(self, check: Callable[[], None]) -> None:
        """Say from now on that the site is ready, as long as a check raises no `HdpError`."""
        with self._lock:
            self._check, self._why, self._found = check, None, None

    def end(self) -> None:
        """Say from now on that the site is not ready: it ends."""
        with self._lock:
            self._why = ENDING

    def count(self, request: str, status: int | None) -> None:
        """Count a request whose response left; without a status the site ended before."""
        self._requests.labels(request, "none" if status is None else str(status)).inc()

    def watch(self, connections: Callable[[], int]) -> None:
        """Ask a function for the number of connections."""
        self._connections.set_function(connections)

    def renew(self, tls: Tls) -> None:
        """Note when certificates expire, and that settings were read."""
        for name, path in (("certificate", tls.certificate), ("clients", tls.clients)):
            dates = [each.not_valid_after_utc for each in x509.load_pem_x509_certificates(path.read_bytes())]
            self._dates.labels(name).set(min(dates).timestamp())
        self._restarted.set(time.time())

    def obstacle(self) -> str | None:
        """Return what is in the way of a request now; None where the site is ready."""
        with self._lock:
            if self._why is not None:
                return self._why
            found = self._found
            if found is None or (found.done() and time.monotonic() - self._at > FRESH):
                found = self._found = self._threads.submit(_outcome, self._check)
                self._at = time.monotonic()
        try:
            return found.result(PATIENCE)
        except LateError:
            return f"the ledger did not answer within {PATIENCE:g} seconds: check that its server runs"

    def metrics(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        self._ready.set(self.obstacle() is None)
        return generate_latest(self._registry)


def _outcome(check: Callable[[], None]) -> str | None:
    try:
        check()
    except HdpError as error:
        return str(error)
    except Exception as error:  # whatever it is, the site is not ready
        return log.cause(error)
    return None


def version() -> Mapping[str, object]:
    """Return the package's version and what it talks in; a client goes with a site where ``protocol`` is the same."""
    return {"version": VERSION, "protocol": FORMAT, "ledger": LEDGER_FORMAT}


@final
class HealthServer:
    """Answers at the local address that the settings name, in threads of its own, until it is closed.

    Raises
    ------
    ArgumentError
        It cannot listen there.
    """

    def __init__(self, health: Health, state: State) -> None:
        try:
            self._server = _Server(health, state)
        except OSError as error:
            raise ArgumentError(
                f"health: the site cannot listen at {health.host}, port {health.port}: {error.strerror}; name a port "
                "that is free",
                argument="health",
            ) from None
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()
        log.write(event=f"health at http://{_bracketed(health.host)}:{self.port}")

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()


@final
class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 16

    def __init__(self, health: Health, state: State) -> None:
        self.state = state
        self.address_family = socket.AF_INET6 if ":" in health.host else socket.AF_INET
        self._free = threading.BoundedSemaphore(MOST)
        super().__init__((health.host, health.port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, at most `MOST` at once."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one request, whatever becomes of it."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away."""


@final
class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = SECONDS

    def do_GET(self) -> None:
        """Answer a request."""
        state = self.server.state
        match self.path.partition("?")[0]:
            case "/live":
                self._send(200, {"live": True})
            case "/ready":
                why = state.obstacle()
                self._send(
                    200 if why is None else 503, {"ready": True} if why is None else {"ready": False, "why": why}
                )
            case "/version":
                self._send(200, version())
            case "/metrics":
                self._write(200, state.metrics(), CONTENT_TYPE_PLAIN_0_0_4)
            case _:
                self._send(404, {"error": "not-found", "known": ["/live", "/ready", "/version", "/metrics"]})

    def _send(self, status: int, fields: Mapping[str, object]) -> None:
        self._write(status, json.dumps(fields).encode() + b"\n", "application/json")

    def _write(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in (
            ("content-type", kind),
            ("content-length", str(len(content))),
            ("cache-control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def version_string(self) -> str:
        """Return what the header ``Server`` says."""
        return "hdpstats"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 — the standard library's name
        """Write nothing: probes come every few seconds."""


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def ask(settings: SiteSettings, path: str) -> tuple[bool, str]:
    """Ask a running site for its health, and return whether it is well, and what it said.

    Raises
    ------
    ArgumentError
        The settings name no address for it.
    """
    health = settings.health
    if health is None or health.port == 0:
        raise ArgumentError(
            "health is not in the settings with a port of its own: write health: {host: 127.0.0.1, port: 9443}",
            argument="health",
        )
    url = f"http://{_bracketed(health.host)}:{health.port}{path}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=PATIENCE + SECONDS) as response:  # the address is one of this machine
            return True, response.read().decode().rstrip()
    except urllib.error.HTTPError as error:
        return False, error.read().decode().rstrip()
    except (OSError, ValueError) as error:
        return False, f"nothing answers at {url} ({getattr(error, 'reason', error)}): is the site running?"


def tell_systemd(*lines: str) -> None:
    """Tell systemd what becomes of the service (``Type=notify``); nothing where systemd did not start it."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    place = address.replace("@", "\0", 1) if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        try:
            channel.connect(place)
            channel.sendall("\n".join(lines).encode())
        except OSError as error:
            log.write(failed=f"systemd was not told: {error.strerror}")
