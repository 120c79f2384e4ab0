"""Where a ledger is kept: a path, a URL or memory, checked before anything is opened."""

import errno
import os
import re
from contextlib import suppress
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError as UrlError

from hdpstats._base.errors import ArgumentError, LedgerError

MEMORY = URL.create("sqlite")
MOUNTS = Path("/proc/self/mountinfo")
"""The mounts that this process sees (Linux)."""


def locate(path_or_url: str | os.PathLike[str] | None) -> URL:
    """Return the database URL of a ledger; a path becomes an absolute path to a SQLite file.

    ``None`` and ``":memory:"`` mean memory. Text that contains ``://`` is a URL; PostgreSQL is reached through psycopg
    where the URL names no other driver.
    """
    if path_or_url is None or path_or_url in ("", ":memory:"):
        return MEMORY
    if not isinstance(path_or_url, str | os.PathLike):
        raise ArgumentError("path_or_url must be a path, a database URL or None", argument="path_or_url")
    place = os.fspath(path_or_url)
    if "://" not in place:
        return URL.create("sqlite", database=str(Path(place).expanduser().absolute()))
    try:
        url = make_url(place)
    except (UrlError, ValueError):
        raise ArgumentError("path_or_url is not a database URL", argument="path_or_url") from None
    if url.drivername == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() != "sqlite":
        return url
    if url.database in (None, "", ":memory:"):
        return MEMORY
    if str(url.database).startswith("file:"):
        return url
    return url.set(database=str(Path(str(url.database)).absolute()))


def password_in(place: str) -> bool:
    """Whether a database URL has a password in it."""
    try:
        url = locate(place) if "://" in place else MEMORY
    except ArgumentError:
        return False
    return url.password is not None or any("password" in name for name in url.query)


def in_memory(url: URL) -> bool:
    """Whether the ledger would vanish with this process."""
    named = str(url.database or ":memory:")
    return url.get_backend_name() == "sqlite" and (":memory:" in named or url.query.get("mode") == "memory")


def file_of(url: URL) -> Path | None:
    """Return the SQLite file of a URL, or ``None`` where there is none to look at."""
    plain = url.get_backend_name() == "sqlite" and url.database and not url.database.startswith("file:")
    return Path(str(url.database)) if plain else None


def shown(url: URL) -> str:
    """Name the place in messages and tables, without a password."""
    if in_memory(url):
        return "memory"
    if url.get_backend_name() != "sqlite":
        where = {name: url.query[name] for name in ("host", "port") if name in url.query}
        url = url.set(query=where)
    return str(file_of(url) or url.render_as_string(hide_password=True))


def patience(url: URL) -> dict[str, int]:
    """Return the option for how many seconds a server may take to answer, where the URL does not say so itself."""
    limited = url.drivername != "postgresql+psycopg" or "connect_timeout" in url.query
    return {} if limited else {"connect_timeout": 30}


def allocate(number: int, size: int) -> None:
    """Give an open file its room on the disk, or raise an OSError; a file that has it stays as it is."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(number, 0, size)
    elif os.fstat(number).st_size < size:  # macOS
        if os.pwrite(number, bytes(size), 0) < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(number)


def check_place(url: URL, *, create: bool) -> None:
    """Refuse a place that cannot hold a ledger; with ``create`` the file may be missing but must be writable.

    A file whose write permission was taken away counts as read-only even for a superuser.
    """
    path = file_of(url)
    if path is None:
        return
    if path.is_dir():
        raise LedgerError(f"the ledger {path} is a directory; name a file in it")
    if not path.parent.is_dir():
        raise LedgerError(f"the directory {path.parent} of the ledger does not exist; create it first")
    if not path.exists():
        if not create:
            raise LedgerError(f"there is no ledger {path}; check the name")
    elif not path.is_file():
        raise LedgerError(f"the ledger {path} is not an ordinary file; name another")
    elif create and not (path.stat().st_mode & 0o222 and os.access(path, os.W_OK)):
        raise LedgerError(f"the ledger {path} is read-only and cannot be charged; give yourself write permission")


def check_one_name(path: Path) -> None:
    """Refuse a file that has, or is, a second name: SQLite's log goes by the name, and two would not see each other."""
    with suppress(FileNotFoundError):
        if path.stat().st_nlink > 1:
            raise LedgerError(
                f"the ledger {path} has another name (a hard link), under which it could be charged a second time; "
                "remove the other name, or use a symbolic link"
            )
    with suppress(OSError):
        if os.fsencode(path.resolve()) in mount_points(MOUNTS.read_bytes()):
            raise LedgerError(
                f"the ledger {path} is mounted as a single file, and could be charged a second time under the name "
                "that it has elsewhere; mount its directory instead"
            )


def mount_points(mounts: bytes) -> set[bytes]:
    """Return where something is mounted, as ``/proc/self/mountinfo`` says it; it writes blanks as octal numbers."""
    places = (line.split(b" ")[4] for line in mounts.splitlines())
    return {re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8)]), place) for place in places}
