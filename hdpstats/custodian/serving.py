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

from hdpstats._base.errors import ArgumentError
from hdpstats.custodian import journal
from hdpstats.custodian.admission import Admission, descriptors
from hdpstats.custodian.app import application, sealed
from hdpstats.custodian.certificates import Certificates
from hdpstats.custodian.deadlines import Patience
from hdpstats.custodian.holding import held
from hdpstats.custodian.journal import LOGGER, Line
from hdpstats.custodian.listening import Listener, sockets_at
from hdpstats.custodian.opening import open_site
from hdpstats.custodian.settings import Settings

_PR_SET_DUMPABLE = 4


def serve(settings: Settings) -> None:
    """Open the site and answer until the process is told to end (SIGINT, SIGTERM).

    The log goes to standard error, one JSON line an event.
    """
    keep_to_itself()
    limits = settings.limits
    most = descriptors(limits)
    certificates = Certificates(settings.tls)
    listener = Listener(
        partial(sealed, application(open_site(settings), settings)),
        certificates=certificates,
        admission=Admission(limits, most),
        deadlines=Patience(limits.seconds),
    )
    with held(settings.ledger["place"]):
        asyncio.run(_listen(listener, settings, most))


async def _listen(listener: Listener, settings: Settings, most: int) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.set_exception_handler(_log_failure)
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, ended.set)
    try:
        sockets = sockets_at(settings.host, settings.port)
    except OSError as error:
        message = f"listen: the site cannot listen at {settings.host}, port {settings.port}: {error.strerror}"
        raise ArgumentError(message, argument="listen") from None
    port = sockets[0].getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    journal.write(event=f"running on https://{host}:{port}", connections=most)
    await listener.serve(sockets, ended)
    journal.write(event="ended")


def _log_failure(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Write what nobody caught to the log, without its text, which may quote what it met."""
    error = context.get("exception")
    journal.write(failed="in the event loop" if error is None else journal.cause(error))


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
