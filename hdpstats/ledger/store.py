"""The database of a ledger: its tables, durable transactions, errors that say what to do.

The code is SQLAlchemy Core; what differs between databases is at the end of this module. A SQLite file is set to
write-ahead logging with a full flush at every commit, and a transaction that will write takes the write lock when it
begins. For a PostgreSQL server the same is set at the beginning of such a transaction: its commit is flushed,
and neither a writer that waits nor one that stopped holds up the others for more than a minute. Writers then lock
the one row of the table ``ledger`` and read afterwards, each statement seeing what was committed before it (READ
COMMITTED); readers see one state of the database (REPEATABLE READ). A role that may SELECT and INSERT everywhere and
UPDATE the tables ``ledger`` and ``lease`` can do all that a ledger needs, and cannot alter an entry.

Connections live for one transaction, so that a forked or spawned worker never
shares one. A ledger in memory lasts as long as one connection that does nothing else, so that an interrupt, after which
SQLAlchemy closes the connection in use, does not end it; it refuses to work in another process.
"""

import errno
import os
import sqlite3
import threading
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from shutil import disk_usage
from tempfile import TemporaryFile
from typing import Any, Final, TypeVar, final, get_type_hints

from sqlalchemy import (
    URL,
    CheckConstraint,
    Column,
    Connection,
    Dialect,
    Engine,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    create_engine,
    event,
    false,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool, StaticPool
from sqlalchemy.schema import CreateTable

from hdpstats._base.errors import LedgerError, NothingCharged
from hdpstats.ledger.location import allocate, check_one_name, check_place, file_of, in_memory, locate, patience, shown
from hdpstats.ledger.records import AccountTerms, Entry, Lease

T = TypeVar("T")

METADATA = MetaData()

FORMAT = "hdpstats-ledger-6"
"""What this module writes and reads; a change of the tables or of what is hashed is a new format."""

LEDGER = Table("ledger", METADATA, Column("format", Text, primary_key=True))

ACCOUNT = Table(
    "account",
    METADATA,
    Column("dataset", Text, primary_key=True),
    Column("epsilon", Text, nullable=False),
    Column("delta", Text, nullable=False),
    Column("relation", Text, nullable=False),
    Column("unit", Text, nullable=True),
    Column("same_people_as", Text, ForeignKey("account.dataset"), nullable=True),
    Column("opened_at", Text, nullable=False),
)


def _columns(record: type) -> list[Column[Any]]:
    """Return a column for each field of a record, which is written and read as a whole."""
    kinds = {int: Integer, str: Text}
    return [
        Column(name, kinds[kind], nullable=False, autoincrement=False) for name, kind in get_type_hints(record).items()
    ]


ENTRY = Table(
    "entry",
    METADATA,
    *_columns(Entry),
    PrimaryKeyConstraint("seq"),
    ForeignKeyConstraint(["dataset"], [ACCOUNT.c.dataset]),
    UniqueConstraint("kind", "request_id", "attempt"),
    CheckConstraint("kind IN ('open', 'grant', 'quota', 'divide', 'charge', 'share', 'release', 'checkpoint')"),
)

CHECKPOINT = Table(
    "checkpoint", METADATA, Column("entry", Integer, primary_key=True, autoincrement=False), Column("state", Text)
)
"""What entries say up to a checkpoint since the one before (`hdpstats.ledger.chain`): the entry has its hash."""

LEASE = Table("lease", METADATA, *_columns(Lease), PrimaryKeyConstraint("request_id", "attempt"))
"""Who computes which charge (`hdpstats.ledger.leases`): no part of the chain, as it says nothing of what was spent."""

_LATER = select(ENTRY).where(ENTRY.c.seq >= bindparam("first")).order_by(ENTRY.c.seq)
_CHECKPOINTS = (
    select(ENTRY, CHECKPOINT.c.state).join(CHECKPOINT, ENTRY.c.seq == CHECKPOINT.c.entry).order_by(ENTRY.c.seq)
)
_ACCOUNTS, _FORMAT = select(ACCOUNT), select(LEDGER.c.format)
_LOCKED = _FORMAT.with_for_update()
_TERMS = ("epsilon", "delta", "relation", "unit", "same_people_as")
_OURS = set(METADATA.tables)
_ATTEMPTS = 50
ROOM: Final = 2**24
"""Bytes that are more than a release takes, but for counts at most of the public points that a query may have."""
REST: Final = 2**20
"""Bytes beside it, for what is written until then: charges, and signs of life of computations."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CREATION = 0x6864707374617473
"""What PostgreSQL calls the lock on the creation of the tables, of which two at once would fail."""
_REMEDIES = {
    "not a database": "it is damaged or no ledger; restore it from a copy that verifies, or name another file",
    "malformed": "it is damaged; restore it from a copy that verifies",
    "no such column": "its tables are not those of a ledger; name another file",
    "readonly": "it is read-only; give yourself write permission to it and its directory, or use a copy",
    "unable to open": "check the name and the permissions of its directory",
    "locked": "another process has been writing for a minute; repeat the call",
    "lock timeout": "another process has been writing for a minute; repeat the call",
    "read-only transaction": "the server is a copy that cannot be charged; name the one it follows",
    "permission denied": "ask its administrator for SELECT and INSERT on its tables and UPDATE on ledger and lease",
    "connection": "check that the server runs, and repeat the call: what was charged is not charged again",
    "disk is full": "free some space on its disk and repeat the call",
}


class _Compiled(dict[tuple[Any, ...], Any]):
    """Statements that were compiled for SQLite, by all but their dialect: each is compiled once in a process.

    SQLAlchemy's own cache is an engine's, which is a ledger's here.
    """

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        return super().get(key[1:], default)

    def __setitem__(self, key: tuple[Any, ...], statement: Any) -> None:
        super().__setitem__(key[1:], statement)


_COMPILED = _Compiled()
_DEFINITIONS: dict[str, list[str]] = {}


def _definitions(dialect: Dialect) -> list[str]:
    """Return the statements that create the tables, which are compiled once for each kind of database."""
    if dialect.name not in _DEFINITIONS:
        tables = METADATA.sorted_tables
        _DEFINITIONS[dialect.name] = [str(CreateTable(table).compile(dialect=dialect)) for table in tables]
    return _DEFINITIONS[dialect.name]


def read_entries(connection: Connection, *, first: int = 1) -> Iterator[Entry]:
    """Yield the stored entries in order, beginning with number ``first``."""
    return (Entry(**row) for row in connection.execute(_LATER, {"first": first}).mappings())


def read_charges(connection: Connection, datasets: Iterable[str], *, after: int, analyst: str = "") -> Iterator[Entry]:
    """Yield the charges of datasets after an entry, in order; with an analyst his own, and what was shared with him."""
    kinds = (
        ENTRY.c.kind.in_(("charge", "share")) & (ENTRY.c.analyst == analyst) if analyst else ENTRY.c.kind == "charge"
    )
    charges = select(ENTRY).where(ENTRY.c.seq > after, ENTRY.c.dataset.in_(list(datasets)), kinds).order_by(ENTRY.c.seq)
    return (Entry(**row) for row in connection.execute(charges).mappings())


def read_charge(connection: Connection, request_id: str, attempt: int) -> Entry | None:
    """Return one charge of a request, None where there is none."""
    same = (ENTRY.c.kind == "charge", ENTRY.c.request_id == request_id, ENTRY.c.attempt == attempt)
    row = connection.execute(select(ENTRY).where(*same)).mappings().one_or_none()
    return None if row is None else Entry(**row)


def read_checkpoints(connection: Connection) -> Iterator[tuple[Entry, str]]:
    """Yield the entry and the text of every checkpoint in order."""
    for row in connection.execute(_CHECKPOINTS).mappings():
        yield Entry(**{name: value for name, value in row.items() if name != "state"}), row["state"]


def read_accounts(connection: Connection) -> dict[str, AccountTerms]:
    """Return the terms of every dataset, as the account table has them."""
    rows = connection.execute(_ACCOUNTS).mappings()
    return {row["dataset"]: {name: row[name] for name in _TERMS} for row in rows}


def lock_ledger(connection: Connection) -> None:
    """Hold the ledger until the transaction ends: the chain of entries runs through all of its accounts.

    Where the database has no row locks (SQLite), the transaction holds the file already.
    """
    connection.execute(_LOCKED).all()


@final
class Store:
    """Transactions on the database of a ledger.

    Parameters
    ----------
    path_or_url
        Where it is, as `locate` reads it.
    create
        Whether the tables may be created where the database is empty.

    Raises
    ------
    LedgerError
        If the place cannot hold a ledger, or whenever the database refuses.
    """

    def __init__(self, path_or_url: str | os.PathLike[str] | None, *, create: bool) -> None:
        url = locate(path_or_url)
        check_place(url, create=create)
        self.place, self._file = shown(url), file_of(url)
        if create and self._file is not None and not self._file.exists():
            _create_for_owner(self._file)
        self._create = create
        self._memory = in_memory(url)
        self.key = uuid.uuid4().hex if self._memory else str(self._file.resolve() if self._file else self.place)
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._engine = self._connectable(url)
        transact = self.write if create else self.read
        transact(self._prepare)

    @property
    def in_memory(self) -> bool:
        """Whether the ledger ends with this process."""
        return self._memory

    def _connectable(self, url: URL) -> Engine:
        # One connection serves a ledger in memory, whose transactions wait for one another; a file is opened anew each
        # time, so that a file that was removed or replaced is noticed.
        options: dict[str, Any] = {"poolclass": StaticPool if self._memory else NullPool, "hide_parameters": True}
        options["connect_args"] = patience(url)
        if url.get_backend_name() == "sqlite":
            options["connect_args"] = {"timeout": 60, "check_same_thread": False}
            options["execution_options"] = {"compiled_cache": _COMPILED}
        if self._memory:
            url = self._memory_of_its_own()
        elif self._file is not None and not url.query:  # it is there by now; where it is moved, none is made anew
            url = URL.create("sqlite", database=self._file.as_uri(), query={"mode": "rw", "uri": "true"})
        try:
            engine = create_engine(url, **options)
        except (NoSuchModuleError, ImportError, TypeError) as error:
            raise LedgerError(
                f"the ledger {self.place} needs a database driver: {error}; install it or name a file"
            ) from None
        if engine.dialect.name == "sqlite":
            create = self._create
            event.listen(engine, "connect", lambda raw, _: _on_connect(raw, create=create))
            event.listen(engine, "begin", _on_sqlite_begin)
            event.listen(engine, "invalidate", _on_sqlite_invalidate)
        if engine.dialect.name == "postgresql":
            event.listen(engine, "begin", _on_postgresql_begin)
        weakref.finalize(self, engine.dispose)
        return engine

    def _memory_of_its_own(self) -> URL:
        """Return the URL of a new database in memory, and hold it open until this store is collected."""
        name = f"file:/hdpstats-{uuid.uuid4().hex}"
        anchor = sqlite3.connect(f"{name}?vfs=memdb", uri=True, check_same_thread=False)
        weakref.finalize(self, anchor.close)
        return URL.create("sqlite", database=name, query={"vfs": "memdb", "uri": "true"})

    def write(self, work: Callable[[Connection], T]) -> T:
        """Return ``work(connection)`` done in one transaction, durable when this returns, or not done at all.

        Two writers that took the same number for their entries cannot both commit: the second starts over.
        """
        for _ in range(_ATTEMPTS):
            try:
                with self._transaction(writes=True) as connection:
                    return work(connection)
            except IntegrityError:
                continue
        raise LedgerError(f"the ledger {self.place} is too busy; repeat the call")

    def read(self, work: Callable[[Connection], T]) -> T:
        """Return ``work(connection)`` on one consistent state of the database."""
        with self._transaction(writes=False) as connection:
            return work(connection)

    def check_usable(self) -> None:
        """Read the ledger's format, and look whether its disk has room for a release; nothing is written.

        Raises
        ------
        LedgerError
            The database does not answer or is no ledger, or its disk is full.
        """
        self.read(lambda connection: connection.execute(_FORMAT).one())
        if self._file is not None:
            folder = self._file.resolve().parent
            if self._has_no_room(folder):
                raise self._full(os.strerror(errno.ENOSPC))

    def _has_no_room(self, folder: Path) -> bool:
        disk = disk_usage(folder)
        return bool(disk.total) and disk.free < ROOM + REST  # some disks without a limit have a size of 0

    def _full(self, reason: str) -> NothingCharged:
        return NothingCharged(
            f"the disk of the ledger {self.place} has no room for a release ({reason}), so that nothing is charged: "
            f"free {ROOM + REST >> 20} MB there and repeat the call"
        )

    def room(self) -> ExitStack:
        """Return what holds `ROOM` bytes of the disk that a ledger's file is on, until it is closed.

        The bytes are those of a file without a name. They are taken while nobody writes to the ledger: so nobody who
        charges to it takes those that a release had, where they are given back within the transaction that writes it.
        Of a ledger in memory or at a server nothing is held.

        Raises
        ------
        NothingCharged
            The disk has no such room, and `REST` besides.
        """
        with ExitStack() as held:
            if self._file is not None:
                self.write(partial(self._hold, held, self._file.resolve().parent))
            return held.pop_all()

    def _hold(self, held: ExitStack, folder: Path, _: Connection) -> None:
        """Take the room; a disk that has less is left as it is, as even a try would take all of it for a moment."""
        full = os.strerror(errno.ENOSPC)
        if not self._has_no_room(folder):
            try:
                file = held.enter_context(TemporaryFile(dir=folder))  # noqa: SIM115 — closed with `held`
                held.callback(_give_back, file.fileno(), os.getpid())
                allocate(file.fileno(), ROOM)
            except OSError as error:
                if error.errno not in _FULL:  # whatever else it is, who charges is told
                    return
                full = error.strerror or full
            else:
                return
        raise self._full(full)

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Connection]:
        if self._memory and os.getpid() != self._process:
            raise LedgerError(
                "a ledger in memory belongs to the process that opened it, since a copy would spend the same "
                "budget again; give the ledger a file"
            )
        if self._file is not None:
            if not self._file.exists():
                raise LedgerError(
                    f"the ledger {self.place} is no longer there: its file was moved or removed while it was open, and "
                    "nothing was charged; put it back, or open it where it is now"
                )
            check_one_name(self._file)
        options: dict[str, Any] = {"writes": writes}
        if self._engine.dialect.name != "sqlite":  # a reader sees one state, a writer what is true under its locks
            options["isolation_level"] = "READ COMMITTED" if writes else "REPEATABLE READ"
        try:
            with (
                self._lock if self._memory else nullcontext(),
                self._engine.connect().execution_options(**options) as connection,
                connection.begin(),
            ):
                yield connection
        except IntegrityError:
            raise
        except (SQLAlchemyError, ImportError) as error:
            raise self._explained(error) from None

    def _explained(self, error: Exception) -> LedgerError:
        """Say what to do; never what was being written, which may be a release that was not recorded yet."""
        origin = error.orig if isinstance(error, DBAPIError) else error
        reason = (str(origin).splitlines() or [type(origin).__name__])[0]
        remedies = (remedy for symptom, remedy in _REMEDIES.items() if symptom in reason)
        remedy = next(remedies, "a request that was charged is not charged again when the call is repeated")
        return LedgerError(f"the ledger {self.place} cannot be used ({reason}): {remedy}")

    def _foreign(self, other_format: str) -> LedgerError:
        return LedgerError(
            f"the ledger {self.place} was written in another format ({other_format}, not {FORMAT!r}): read it with the "
            "version of hdpstats that wrote it, or name another file"
        )

    def _prepare(self, connection: Connection) -> None:
        """Create the tables in an empty database; refuse one that holds something else or cannot be written."""
        if self._create and connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_CREATION})")
        tables = set() if self._memory else set(inspect(connection).get_table_names())  # one in memory is new
        if not tables >= _OURS:
            if tables >= {ACCOUNT.name, ENTRY.name}:
                raise self._foreign("an unknown one")
            if tables:
                raise LedgerError(f"{self.place} is a database but no ledger; name a ledger or a new file")
            if not self._create:
                raise LedgerError(
                    f"{self.place} is empty, and no ledger. If one was there, it is lost: restore its newest backup "
                    "(hdpstats ledger restore), since a new one would start from zero. If the account is new: hdpstats "
                    "ledger open"
                )
            for definition in _definitions(connection.dialect):
                connection.exec_driver_sql(definition)
            connection.execute(insert(LEDGER).values(format=FORMAT))
            return
        formats = connection.execute(_FORMAT).scalars().all()
        if formats != [FORMAT]:
            raise self._foreign(", ".join(map(repr, formats)) or "none")
        if self._create:
            # Changes no row, but fails where rows cannot be changed.
            connection.execute(update(LEDGER).where(false()).values(format=LEDGER.c.format))


def _give_back(number: int, process: int) -> None:
    """Give the room of a file back, also where a process that was forked meanwhile has the file open as well."""
    if os.getpid() == process:
        os.ftruncate(number, 0)


def _create_for_owner(path: Path) -> None:
    """Create an empty file that its owner alone may read and write; SQLite gives its log the same permissions."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise LedgerError(f"the ledger {path} cannot be created ({error.strerror}); check its directory") from None


def _on_connect(raw: Any, *, create: bool) -> None:
    """Make a new SQLite connection durable; a database that is no ledger keeps its journal mode.

    A flush of macOS alone does not survive a power loss; elsewhere ``fullfsync`` changes nothing.
    """
    raw.isolation_level = None
    flushed = ("synchronous=FULL", "fullfsync=ON", "checkpoint_fullfsync=ON")
    for pragma in ("busy_timeout=60000", *flushed, "foreign_keys=ON"):
        raw.execute(f"PRAGMA {pragma}")
    tables = {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables >= _OURS or (create and not tables):
        _write_ahead(raw)


def _write_ahead(raw: Any) -> None:
    """Set a file to write-ahead logging. While another process does so, SQLite refuses at once; a writer waits."""
    for left in reversed(range(_ATTEMPTS)):
        try:
            raw.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or not left:
                raise
            raw.execute("BEGIN IMMEDIATE")
            raw.execute("ROLLBACK")
        else:
            return


def _on_sqlite_begin(connection: Connection) -> None:
    """Begin a SQLite transaction, with the write lock where it will write."""
    mode = "IMMEDIATE" if connection.get_execution_options().get("writes") else "DEFERRED"
    connection.exec_driver_sql(f"BEGIN {mode}")


def _on_sqlite_invalidate(raw: Any, *_: Any) -> None:
    """End the transaction of a connection that an interrupt left, which would hold the file until it is collected."""
    with suppress(sqlite3.Error):
        raw.rollback()


def _on_postgresql_begin(connection: Connection) -> None:
    """Set what holds until a PostgreSQL transaction that will write ends, whatever the server's configuration."""
    if connection.get_execution_options().get("writes"):
        connection.exec_driver_sql(
            "SELECT set_config('lock_timeout', '60s', true),"
            " set_config('idle_in_transaction_session_timeout', '60s', true),"
            " CASE current_setting('synchronous_commit')"
            " WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END"
        )
