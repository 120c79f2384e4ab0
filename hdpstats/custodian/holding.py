"""The file of a ledger, held open while a site serves.

A ledger's connections live for one transaction. When the last connection to a SQLite file closes, SQLite merges its log
(the file ``-wal``) into the file and deletes it: with one analyst at work that would be after every transaction, with
several times the flushes that a durable commit needs. So a site holds one more connection, which does nothing but that
merging, once a second. A commit is durable as before: it returns when its pages are in the log, and the log on the disk
(``synchronous=FULL``); a copy of the file without its log lacks the last second.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from hdpstats.ledger.location import file_of, locate

SECONDS = 1.0
"""How long an entry may be in the log only."""


@contextmanager
def held(place: str) -> Iterator[None]:
    """Hold a ledger's file open, if it is in one; the ledger must exist."""
    path = file_of(locate(place))
    if path is None:
        yield
        return
    ended = threading.Event()
    with closing(sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("SELECT format FROM ledger").fetchall()  # before a first statement nothing is open
        keeper = threading.Thread(target=_merge, args=(connection, ended), name="ledger", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            ended.set()
            keeper.join()


def _merge(connection: sqlite3.Connection, ended: threading.Event) -> None:
    """Merge the log into the file within a second after others wrote; what fails (a full disk) is tried again."""
    merged = None
    while not ended.wait(SECONDS):
        with suppress(sqlite3.Error):
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            if version != merged:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                merged = version
