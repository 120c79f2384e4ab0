"""Public rows that a site keeps for later queries, apart for everybody who handed some over."""

import threading
from collections.abc import Mapping
from typing import final

from hdpstats.schema.public import PublicTable

MOST_PUBLIC = 8
"""Public tables that a site keeps of one owner: the latest ones."""


@final
class PublicTables:
    """Public tables by owner: an analyst, or None for who holds the rows.

    What one analyst hands over never makes a table of another one go.
    """

    def __init__(self) -> None:
        self._kept: dict[str | None, dict[str, PublicTable]] = {}
        self._lock = threading.Lock()

    def put(self, table: PublicTable, owner: str | None, most_bytes: int | None = None) -> None:
        """Keep a table; of the same owner only the latest ones stay, together of at most so many bytes or alone."""
        with self._lock:
            kept = dict(self._kept.get(owner, {}))
            kept.pop(table.sha256, None)
            latest = [*kept.items(), (table.sha256, table)][-MOST_PUBLIC:]
            while most_bytes is not None and len(latest) > 1 and sum(each.nbytes for _, each in latest) > most_bytes:
                latest.pop(0)
            self._kept[owner] = dict(latest)

    def of(self, owner: str | None) -> Mapping[str, PublicTable]:
        """Return the tables that queries of an owner may name, by SHA-256: his own, and those of who holds the rows."""
        return {**self._kept.get(None, {}), **self._kept.get(owner, {})}
