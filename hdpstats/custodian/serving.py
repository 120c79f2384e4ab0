"""The process of a site."""

import asyncio
import ctypes
import logging
import resource
import signal
import sys
import warnings
from functools import partial
from typing import Any

import uvicorn

from hdpstats.custodian.app import application, sealed
from hdpstats.custodian.holding import held
from hdpstats.custodian.journal import LOGGER, Line
from hdpstats.custodian.opening import open_site
from hdpstats.custodian.settings import Settings
from hdpstats.custodian.transport import Guarded, Loop, tls_context

IDLE = 60
"""Seconds that a connection may be idle."""

_PR_SET_DUMPABLE = 4


def serve(settings: Settings) -> None:
    """Open the site and answer until the process is told to end (SIGINT, SIGTERM).

    The log goes to standard error, one JSON line an event.
    """
    keep_to_itself()
    context = tls_context(settings.tls)
    site = open_site(settings)
    limits = settings.limits
    config = uvicorn.Config(
        partial(sealed, application(site, settings)),
        host=settings.host,
        port=settings.port,
        http=partial(Guarded, seconds=limits.seconds),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        interface="asgi3",
        ssl_context_factory=lambda *_: context,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=30,
    )
    signal.signal(signal.SIGTERM, _end)  # which uvicorn, when it has ended, sends to this process again
    with held(settings.ledger["place"]), asyncio.Runner(loop_factory=partial(Loop, limits.seconds)) as runner:
        runner.run(uvicorn.Server(config).serve())


def _end(*_: Any) -> None:
    raise SystemExit(0)


def keep_to_itself() -> None:
    """Leave nothing of this process's memory on disk, in a debugger of the same user, or in its log."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    warnings.simplefilter("ignore")  # the text of a warning may quote what it met
    _log_to(sys.stderr)


def _log_to(stream: Any) -> None:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Line())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    LOGGER.setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.INFO)
