"""How often an analyst's answers took longer than predicted: kept in a file, so that a new start forgets nothing.

The file lies beside the settings (``site.overruns.db`` for ``site.yaml``), not in the ledger, whose entries analysts
can ask for. Counts stay until the custodian acts: `hdpstats site resume SITE.YAML --analyst NAME`.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import final

from hdpstats._base.errors import ArgumentError

_TABLE = "CREATE TABLE IF NOT EXISTS overruns (analyst TEXT PRIMARY KEY, number INTEGER NOT NULL)"
_ADD = "INSERT INTO overruns VALUES (?, 1) ON CONFLICT (analyst) DO UPDATE SET number = number + 1"


@final
class Overruns:
    """The overruns of each analyst since the custodian last looked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.touch(mode=0o600)
            with self._connected() as connection:
                connection.execute(_TABLE)
        except (OSError, sqlite3.Error):
            message = f"overruns are counted in {path}, which cannot be written: let the site write beside its settings"
            raise ArgumentError(message, argument="settings") from None

    def of(self, analyst: str) -> int:
        """Return an analyst's number."""
        with self._connected() as connection:
            row = connection.execute("SELECT number FROM overruns WHERE analyst = ?", (analyst,)).fetchone()
        return 0 if row is None else int(row[0])

    def add(self, analyst: str) -> None:
        """Count one; durable when this returns."""
        with self._connected() as connection:
            connection.execute(_ADD, (analyst,))

    def clear(self, analyst: str) -> int:
        """Forget an analyst's overruns, and return how many there were."""
        number = self.of(analyst)
        with self._connected() as connection:
            connection.execute("DELETE FROM overruns WHERE analyst = ?", (analyst,))
        return number

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=60.0, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=FULL")
            yield connection
