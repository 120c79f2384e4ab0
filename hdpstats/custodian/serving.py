"""The process of a site: from settings to a site that holds the rows, and from there to a service."""

import asyncio
import ctypes
import logging
import resource
import signal
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from hdpstats._base.errors import ArgumentError, forgets_rows
from hdpstats.custodian import journal
from hdpstats.custodian.account import account_for_serving, head_stores, held_open, open_account
from hdpstats.custodian.app import application, errors_logged
from hdpstats.custodian.credentials import Certificates, TokenVerifier
from hdpstats.custodian.curation import check_acknowledged, check_version
from hdpstats.custodian.exchange import Deadlines
from hdpstats.custodian.journal import LOGGER, JsonLine
from hdpstats.custodian.listening import Admission, Listener, descriptors, sockets_at
from hdpstats.custodian.reading import check_secret, check_trusted
from hdpstats.custodian.settings import SiteSettings
from hdpstats.ledger import Ledger
from hdpstats.schema.check import RowsCheck, check
from hdpstats.sites import LocalSite

MORE_ROWS = (
    "the data have more rows than n_max * max_rows_per_unit: computations take longer than predicted, and their time "
    "may depend on the person with too many rows; before you serve, keep at most max_rows_per_unit rows of each person"
)
"""What the custodian's log says of such a table; analysts are never shown it."""


def open_site(settings: SiteSettings) -> LocalSite:
    """Open the ledger, read the rows, and return the site that holds both, ready to serve.

    Of more rows than are declared it writes a line to the custodian's log.

    Raises
    ------
    ArgumentError, SchemaError, LedgerError
        What the settings name cannot be opened, may be read or written by others than its owner, or contradicts itself.
        No message quotes a cell.
    """
    check_files(settings)
    site, found = _site(settings, open_account(settings))
    check_acknowledged(found, settings)
    del found  # it holds the numbers of the file, which are read again
    check_version(site, settings, note=False)
    account_for_serving(settings, site.ledger)
    site.read()
    check_version(site, settings, note=True)
    if not site.has_declared_rows():
        journal.LOGGER.warning(MORE_ROWS)
    return site


@forgets_rows
def _site(settings: SiteSettings, ledger: Ledger) -> tuple[LocalSite, RowsCheck]:
    rows = read_rows(settings.data)
    site = LocalSite(rows, schema=settings.dictionary, ledger=ledger, **settings.persons.model_dump(exclude_unset=True))
    return site, check(rows, settings.dictionary, unit=site.unit)


def check_files(settings: SiteSettings) -> None:
    """Refuse secrets that others may read, and files that others may write and the site relies on."""
    tls = settings.tls
    for name, path in (("data", settings.data), ("tls: key", tls.key)):
        check_secret(path, name=name)
    trusted = {"tls: certificate": tls.certificate, "tls: clients": tls.clients, "tls: crl": tls.crl}
    for name, each in {**trusted, "tokens: key": settings.identities.key}.items():
        if each is not None:
            check_trusted(each, name=name)


def read_rows(path: Path) -> pd.DataFrame:
    """Read private rows as they are stored: Parquet in its own types, CSV as texts, which the schema maps.

    An empty cell of a CSV file is missing; any other text, ``NA`` too, is what it says.
    """
    try:
        if path.suffix.lower() == ".csv":
            return pd.read_csv(path, dtype=str, keep_default_na=False, na_values=[""])
        return pd.read_parquet(path, dtype_backend="pyarrow")
    except ImportError:
        raise ArgumentError("reading Parquet needs pyarrow: pip install 'hdpstats[scale]'", argument="data") from None
    except (ValueError, OSError):
        raise ArgumentError(f"data {path} cannot be read as Parquet or CSV", argument="data") from None


def described(settings: SiteSettings, show: Callable[[RowsCheck], None] | None = None) -> str:
    """Open everything that the settings name, and say what the site would serve and to whom; nothing is written.

    ``show`` is called with the check of the rows, before they are refused.
    """
    Certificates(settings.tls)
    TokenVerifier(settings.identities)
    check_files(settings)
    site, found = _site(settings, open_account(settings))
    if show is not None:
        show(found)
    check_acknowledged(found, settings)
    check_version(site, settings, note=False)
    lines = [
        f"https://{settings.listen.host}:{settings.listen.port}",
        f"{site}, {site.records} people",
        *(f"{name} may ask for {permissions}" for name, permissions in settings.analysts.items()),
        str(site.ledger),
        f"head kept in {', '.join(place.name for place in head_stores(settings)) or 'no other place'}",
    ]
    return "\n".join(lines)


_PR_SET_DUMPABLE = 4


def serve(settings: SiteSettings) -> None:
    """Open the site and answer until the process receives SIGINT or SIGTERM.

    The log goes to standard error, one JSON line an event.
    """
    protect_process()
    limits = settings.limits
    most = descriptors(limits)
    certificates = Certificates(settings.tls)
    listener = Listener(
        partial(errors_logged, application(open_site(settings), settings)),
        certificates=certificates,
        admission=Admission(limits, most),
        deadlines=Deadlines(limits.seconds),
    )
    with held_open(settings.ledger.place):
        asyncio.run(_listen(listener, settings, most))


async def _listen(listener: Listener, settings: SiteSettings, most: int) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.set_exception_handler(_log_failure)
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, ended.set)
    host, port = settings.listen.host, settings.listen.port
    try:
        sockets = sockets_at(host, port)
    except OSError as error:
        message = f"listen: the site cannot listen at {host}, port {port}: {error.strerror}"
        raise ArgumentError(message, argument="listen") from None
    port = sockets[0].getsockname()[1]
    host = f"[{host}]" if ":" in host else host
    journal.write(event=f"running on https://{host}:{port}", connections=most)
    await listener.serve(sockets, ended)
    journal.write(event="ended")


def _log_failure(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Write what nobody caught to the log, without its text, which may quote what it met."""
    error = context.get("exception")
    journal.write(failed="in the event loop" if error is None else journal.cause(error))


def protect_process() -> None:
    """Leave nothing of this process's memory on disk, in a debugger of the same user, or in its log."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    warnings.simplefilter("ignore")  # the text of a warning may quote what it met
    _log_to(sys.stderr)


def _log_to(stream: Any) -> None:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLine())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    LOGGER.setLevel(logging.INFO)
