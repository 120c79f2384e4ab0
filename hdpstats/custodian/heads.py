"""The head of a ledger, kept elsewhere: a ledger that was deleted, or restored from an older copy, is noticed.

A ledger proves that nothing before its last entry was altered, and cannot prove that its end is there. So a site keeps
the number and the hash of its last entry at a second place, and rewrites them durably after every charge and release,
before the answer leaves. At its start it compares: the entry that was kept must still be on the chain. Who can rewrite
both places is not noticed; they belong on different disks, and in different backups.
"""

import fcntl
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, insert, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from hdpstats._base.errors import ArgumentError, LedgerError
from hdpstats._base.validation import integer
from hdpstats.custodian.reading import write_durably
from hdpstats.ledger import Ledger
from hdpstats.ledger.location import locate, shown
from hdpstats.ledger.records import checked_sha256

FORMAT = "hdpstats head 1"
MOST_ENTRIES = 2**31 - 1


@final
@dataclass(frozen=True, slots=True)
class Head:
    """The number of a ledger's entries and the hash of the last one."""

    entries: int
    head: str


class HeadStore(ABC):
    """A place where a head is kept.

    Attributes
    ----------
    name : str
        The place, in words without a password.
    """

    name: str

    @abstractmethod
    def read(self) -> Head | None:
        """Return the head that is kept, None where there is none yet."""

    @abstractmethod
    def write(self, head: Head) -> Head:
        """Keep a head, durably, unless one of as many entries is kept; return what is kept now.

        Another one than was to be kept is not right for that: the caller looks it up on the chain (`check_kept`).
        """


@final
class HeadInSettings(HeadStore):
    """A head that the custodian wrote into the settings; it stays what it is."""

    def __init__(self, head: Head) -> None:
        self._head, self.name = head, "the settings"

    def read(self) -> Head | None:
        """Return the head."""
        return self._head

    def write(self, head: Head) -> Head:
        """Change nothing: settings are the custodian's own words, and compared when a site starts."""
        return head


@final
class HeadInFile(HeadStore):
    """A head in a file of one line, replaced as a whole; processes that share it wait for each other."""

    def __init__(self, path: Path) -> None:
        self._path, self.name = path, str(path)

    def read(self) -> Head | None:
        """Return the head."""
        try:
            fields = json.loads(self._path.read_text(encoding="utf-8"))
            return checked(fields if fields["format"] == FORMAT else {})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, ArgumentError):
            raise LedgerError(f"the head kept in {self._path} cannot be read; restore the file") from None

    def write(self, head: Head) -> Head:
        """Keep a head: written to a second file, flushed, and renamed."""
        text = json.dumps({"format": FORMAT, "entries": head.entries, "head": head.head}) + "\n"
        try:
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX)
                known = self.read()
                if known is not None and known.entries >= head.entries:
                    return known
                write_durably(self._path, text)
                return head
            finally:
                os.close(folder)
        except OSError as error:
            raise LedgerError(
                f"the head cannot be kept in {self._path} ({error.strerror}): give this process write permission to "
                "its directory, and space; what was charged stays charged, and is not charged again"
            ) from None


_METADATA = MetaData()
_HEADS = Table(
    "hdpstats_head",
    _METADATA,
    Column("dataset", String(200), primary_key=True),
    Column("entries", Integer, nullable=False),
    Column("head", String(64), nullable=False),
)


@final
class HeadInDatabase(HeadStore):
    """A head in a table ``hdpstats_head`` of a database, a row for each data set."""

    def __init__(self, url: str, dataset: str) -> None:
        place = locate(url)
        self._dataset, self.name = dataset, shown(place)
        self._durable = place.get_backend_name() == "postgresql"
        self._engine = create_engine(place, poolclass=NullPool, hide_parameters=True)

    def read(self) -> Head | None:
        """Return the head."""
        try:
            with self._engine.connect() as connection:
                if not self._engine.dialect.has_table(connection, _HEADS.name):
                    return None
                found = connection.execute(select(_HEADS).where(_HEADS.c.dataset == self._dataset)).mappings().all()
        except SQLAlchemyError as error:
            raise self._failed(error) from None
        return checked(found[0]) if found else None

    def write(self, head: Head) -> Head:
        """Keep a head, in one transaction that is flushed when it ends."""
        values: dict[str, Any] = {"entries": head.entries, "head": head.head}
        row = _HEADS.c.dataset == self._dataset
        try:
            with self._engine.begin() as connection:
                if self._durable:
                    connection.exec_driver_sql("SET LOCAL synchronous_commit TO on")
                if not self._engine.dialect.has_table(connection, _HEADS.name):
                    _METADATA.create_all(connection)
                if connection.execute(select(_HEADS.c.entries).where(row)).scalars().all():
                    connection.execute(update(_HEADS).where(row, _HEADS.c.entries < head.entries).values(**values))
                else:
                    connection.execute(insert(_HEADS).values(dataset=self._dataset, **values))
                kept = connection.execute(select(_HEADS).where(row)).mappings().one()
        except SQLAlchemyError as error:
            raise self._failed(error) from None
        return checked(kept)

    def _failed(self, error: SQLAlchemyError) -> LedgerError:
        reason = (str(getattr(error, "orig", None) or error).splitlines() or [type(error).__name__])[0]
        return LedgerError(
            f"the place {self.name} where the head is kept cannot be used ({reason}): check that its server runs; "
            "what was charged stays charged, and is not charged again"
        )


def checked(fields: Any) -> Head:
    """Return a head from named values, or raise an `ArgumentError`."""
    return Head(
        entries=integer(fields["entries"], name="entries", lower=1, upper=MOST_ENTRIES),
        head=checked_sha256(fields["head"], name="head"),
    )


def check_heads(ledger: Ledger, head_stores: Sequence[HeadStore], *, remedy: str) -> Head:
    """Return the head of a ledger that goes on where every kept head left off.

    Raises
    ------
    LedgerError
        Nothing is kept at a place, or the ledger is older than what is kept there, or another one.
    """
    for store in head_stores:
        kept = store.read()
        if kept is None:
            raise LedgerError(
                f"no head is kept in {store.name} yet, or it was deleted: compare the ledger with a head that you "
                f"know (hdpstats ledger verify --head), and then have its own kept there: {remedy}"
            )
        check_kept(ledger, kept, store)
    found = ledger.verify()
    return Head(entries=found.entries, head=found.head)


def check_kept(ledger: Ledger, kept: Head, store: HeadStore) -> None:
    """Raise a `LedgerError` unless a kept head is on the chain of a ledger."""
    found = ledger.verify()
    try:
        ledger.verify(kept.head)
    except LedgerError:
        raise _rolled_back(found.entries, kept, store) from None
    if found.entries < kept.entries:
        raise _rolled_back(found.entries, kept, store)


def _rolled_back(entries: int, kept: Head, store: HeadStore) -> LedgerError:
    return LedgerError(
        f"the ledger has {entries} entries, and entry {kept.entries} with the hash {kept.head}, which is kept in "
        f"{store.name}, is not among them: it is an older copy, or another ledger, and would grant again what was "
        "charged since. Restore the newest copy that has this entry (hdpstats ledger verify --head). If there is none, "
        "what was charged since is unknown: count the whole total as spent",
        entries=entries,
        kept=kept.entries,
    )
