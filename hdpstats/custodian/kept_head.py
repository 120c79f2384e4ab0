"""The account of a site: one that exists, on the terms that the settings name, with its head kept elsewhere.

**The head.** A ledger proves that nothing before its last entry was altered, and cannot prove that its end is there. So
a site keeps the number and the hash of its last entry at a second place, and rewrites them durably after every charge
and release, before the answer leaves. At its start, and before every charge, it compares: the entry that was kept must
still be on the chain. It so notices a ledger that was deleted, or restored from an older copy, and charges nothing to
it. Who can rewrite both places is not noticed; they belong on different disks, and in different backups. Where the
place of the head has no room for it, that is noticed before the charge too: the next head is written into a file that
has its room on the disk already (``FILE.spare``), a row of a database is changed and changed back.

**The file is held open.** A ledger's connections live for one transaction. When the last connection to a SQLite file
closes, SQLite merges its log (the file ``-wal``) into the file and deletes it: with one analyst at work that would be
after every transaction, with several times the flushes that a durable commit needs. So a site holds one more
connection, which does nothing but that merging, once a second. A commit is durable as before: it returns when its pages
are in the log, and the log on the disk (``synchronous=FULL``); a copy of the file without its log lacks the last
second.
"""

import fcntl
import json
import os
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, Self, final

from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, event, insert, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from hdpstats._base.errors import ArgumentError, LedgerError
from hdpstats._base.validation import integer
from hdpstats.custodian import log
from hdpstats.custodian.files import closed_to_others, files_of_database
from hdpstats.custodian.settings import SiteSettings
from hdpstats.ledger import KnownHead, Ledger
from hdpstats.ledger.analysts import Quota
from hdpstats.ledger.location import allocate, file_of, locate, patience, shown
from hdpstats.ledger.records import Verification, checked_sha256
from hdpstats.privacy.budget import Budget
from hdpstats.privacy.composition import agreed

FORMAT = "hdpstats head 1"
MOST_ENTRIES = 2**31 - 1


@final
@dataclass(frozen=True, slots=True)
class Head:
    """The number of a ledger's entries and the hash of the last one."""

    entries: int
    head: str

    @classmethod
    def of(cls, hashes: Sequence[str]) -> Self:
        """Return the head of a chain from the hashes of its entries, in order."""
        return cls(len(hashes), hashes[-1])

    def is_on(self, hashes: Sequence[str]) -> bool:
        """Whether it is an entry of a chain."""
        return self.entries <= len(hashes) and hashes[self.entries - 1] == self.head

    def precedes(self, hashes: Sequence[str]) -> bool:
        """Whether it is an entry of a chain, and not the last one."""
        return self.is_on(hashes) and self.entries < len(hashes)


class HeadStore(ABC):
    """A place where a head is kept; its ``name`` says where, without a password."""

    name: str

    @abstractmethod
    def read(self) -> Head | None:
        """Return the head that is kept, None where there is none yet."""

    @abstractmethod
    def prepare(self) -> None:
        """Make sure that the next head can be kept, or raise a `LedgerError`."""

    @abstractmethod
    def write(self, hashes: Sequence[str]) -> Head:
        """Keep the head of a chain, durably, if an earlier entry of it is kept, or nothing; return what is kept now.

        ``hashes`` are those of all its entries, in order. What is kept may be a later entry, or of another chain.
        """

    @abstractmethod
    def replace(self, hashes: Sequence[str]) -> None:
        """Keep the head of a chain, durably, whatever is kept: for a ledger that has nothing left (`note`).

        Raises
        ------
        LedgerError
            It cannot be kept.
        """


@final
class HeadInSettings(HeadStore):
    """A head that the custodian wrote into the settings; it stays what it is."""

    def __init__(self, head: Head) -> None:
        self._head, self.name = head, "the settings"

    def read(self) -> Head | None:
        """Return the head."""
        return self._head

    def prepare(self) -> None:
        """Do nothing: no other head is kept here."""

    def write(self, hashes: Sequence[str]) -> Head:
        """Change nothing: settings are the custodian's own words."""
        return Head.of(hashes)

    def replace(self, hashes: Sequence[str]) -> None:
        """Refuse unless the head is on the chain: the custodian must write another one."""
        if not self._head.is_on(hashes):
            head = Head.of(hashes)
            raise LedgerError(
                f"heads: the settings name a head that is not on the ledger's chain; write there 'head: {head.head}' "
                f"and 'entries: {head.entries}', or leave both out"
            )


@final
class HeadInFile(HeadStore):
    """A head in a file of one line, replaced as a whole; processes that share it wait for each other.

    The next head is written into a second file, which is flushed and takes the place of the first one. Before a charge
    this second file is there and has its room, so that a disk which is full by then does not matter.
    """

    def __init__(self, path: Path) -> None:
        self._path, self.name = path, str(path)
        self._spare = spare_of(path)

    def read(self) -> Head | None:
        """Return the head."""
        try:
            fields = json.loads(self._path.read_text(encoding="utf-8"))
            return checked(fields if fields["format"] == FORMAT else {})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, ArgumentError):
            raise LedgerError(f"the head kept in {self._path} cannot be read; restore the file") from None

    def prepare(self) -> None:
        """Have room on the disk for the next head."""
        try:
            with self._held() as folder:
                self._opened_spare(folder).close()
        except OSError as error:
            raise LedgerError(
                f"the next head could not be kept in {self._path} ({error.strerror}): give this process write "
                "permission to its directory, and space"
            ) from None

    def write(self, hashes: Sequence[str]) -> Head:
        """Keep the head of a chain."""
        return self._written(hashes, whatever=False)

    def replace(self, hashes: Sequence[str]) -> None:
        """Keep the head of a chain, whatever is in the file."""
        self._written(hashes, whatever=True)

    def _written(self, hashes: Sequence[str], *, whatever: bool) -> Head:
        head = Head.of(hashes)
        text = json.dumps({"format": FORMAT, "entries": head.entries, "head": head.head}) + "\n"
        try:
            with self._held() as folder:
                known = None if whatever else self.read()
                if not (known is None or known.precedes(hashes)):
                    return known
                with self._opened_spare(folder) as file:
                    file.write(text.encode())
                    file.truncate()
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(self._spare.name, self._path.name, src_dir_fd=folder, dst_dir_fd=folder)
                os.fsync(folder)
                with suppress(OSError):  # in the room of the head before; what fails is said by `prepare`
                    self._opened_spare(folder).close()
                return head
        except OSError as error:
            raise LedgerError(
                f"the head cannot be kept in {self._path} ({error.strerror}): give this process write permission to "
                "its directory, and space; what was charged stays charged, and is not charged again"
            ) from None

    @contextmanager
    def _held(self) -> Iterator[int]:
        """Hold the folder against other processes, which wait."""
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield folder
        finally:
            os.close(folder)

    def _opened_spare(self, folder: int) -> BinaryIO:
        """Open the second file, for its owner alone, with room for a head."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.fdopen(os.open(self._spare.name, flags, 0o600, dir_fd=folder), "r+b")
        try:
            allocate(file.fileno(), ROOM)
        except BaseException:
            file.close()
            raise
        return file


def spare_of(path: Path) -> Path:
    """Return the second file of a head that is kept in a file."""
    return path.with_name(f"{path.name}.spare")


ROOM: Final = 256
"""Bytes that are more than a head takes."""


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
    """A head in a table ``hdpstats_head`` of a database, a row for each data set.

    In a file of SQLite's a commit returns when its rows and the end of its journal are on the disk
    (``synchronous=EXTRA``): a journal that a loss of power brings back would undo the commit, and the head with it.
    """

    def __init__(self, url: str, dataset: str) -> None:
        place = locate(url)
        self._dataset, self.name = dataset, shown(place)
        self._durable = place.get_backend_name() == "postgresql"
        self._engine = create_engine(place, poolclass=NullPool, hide_parameters=True, connect_args=patience(place))
        self._is_file = self._engine.dialect.name == "sqlite"
        if self._is_file:
            event.listen(self._engine, "connect", _flushed)

    def read(self) -> Head | None:
        """Return the head."""
        try:
            with self._engine.connect() as connection:
                if not self._engine.dialect.has_table(connection, _HEADS.name):
                    return None
                rows = connection.execute(select(_HEADS).where(_HEADS.c.dataset == self._dataset)).mappings().all()
        except SQLAlchemyError as error:
            raise self._failed("the head cannot be read from", error) from None
        return checked(rows[0]) if rows else None

    def prepare(self) -> None:
        """Change the row and change it back, in one transaction: there is room, and this process has the permission.

        What changes nothing at all SQLite does not write.
        """
        try:
            with self._engine.begin() as connection:
                if self._engine.dialect.has_table(connection, _HEADS.name):
                    row = _HEADS.c.dataset == self._dataset
                    for change in (1, -1):
                        connection.execute(update(_HEADS).where(row).values(entries=_HEADS.c.entries + change))
        except SQLAlchemyError as error:
            raise self._failed("the next head could not be kept in", error) from None

    def write(self, hashes: Sequence[str]) -> Head:
        """Keep the head of a chain, in one transaction that is flushed when it ends."""
        return self._written(hashes, whatever=False)

    def replace(self, hashes: Sequence[str]) -> None:
        """Keep the head of a chain, whatever is in the row."""
        self._written(hashes, whatever=True)

    def _written(self, hashes: Sequence[str], *, whatever: bool) -> Head:
        head = Head.of(hashes)
        values: dict[str, Any] = {"entries": head.entries, "head": head.head}
        row = _HEADS.c.dataset == self._dataset
        try:
            with self._engine.begin() as connection:
                if self._durable:
                    connection.exec_driver_sql("SET LOCAL synchronous_commit TO on")
                if not self._engine.dialect.has_table(connection, _HEADS.name):
                    _METADATA.create_all(connection)
                # Changes nothing, but locks the row, or in SQLite the file, before it is read.
                if not connection.execute(update(_HEADS).where(row).values(entries=_HEADS.c.entries)).rowcount:
                    connection.execute(insert(_HEADS).values(dataset=self._dataset, **values))
                    return head
                known = checked(connection.execute(select(_HEADS).where(row)).mappings().one())
                if not (whatever or known.precedes(hashes)):
                    return known
                connection.execute(update(_HEADS).where(row).values(**values))
                return head
        except SQLAlchemyError as error:
            after = "; what was charged stays charged, and is not charged again"
            raise self._failed("the head cannot be kept in", error, after=after) from None

    def _failed(self, what: str, error: SQLAlchemyError, *, after: str = "") -> LedgerError:
        reason = (str(getattr(error, "orig", None) or error).splitlines() or [type(error).__name__])[0]
        remedy = (
            "give this process write permission to its directory, and space"
            if self._is_file
            else "check that its server runs, has space, and lets this process write there"
        )
        return LedgerError(f"{what} {self.name} ({reason}): {remedy}{after}")


def _flushed(raw: Any, _: object) -> None:
    """Have each commit of a connection to a SQLite file on the disk when it returns; on macOS past the disk's cache."""
    for pragma in ("synchronous=EXTRA", "fullfsync=ON"):
        raw.execute(f"PRAGMA {pragma}")


def checked(fields: Any) -> Head:
    """Return a head from named values, or raise an `ArgumentError`."""
    return Head(
        entries=integer(fields["entries"], name="entries", lower=1, upper=MOST_ENTRIES),
        head=checked_sha256(fields["head"], name="head"),
    )


def check_heads(ledger: Ledger, head_stores: Sequence[HeadStore], *, remedy: str) -> Verification:
    """Check that a ledger goes on where every kept head left off.

    Entries before a checkpoint that every kept head covers are not read; `Ledger.verify` reads all.

    Raises
    ------
    LedgerError
        Nothing is kept at a place, or the ledger is older than what is kept there, or another one.
    """
    heads = {store: store.read() for store in head_stores}
    verification = ledger.verify_after(
        min((kept.entries for kept in heads.values() if kept is not None), default=MOST_ENTRIES)
    )
    for store, kept in heads.items():
        if kept is None:
            raise LedgerError(
                f"no head is kept in {store.name} yet, or it was deleted: compare the ledger with a head that you "
                f"know (hdpstats ledger verify --head), and then have its own kept there: {remedy}"
            )
        check_kept(kept, verification.hashes, store)
    return verification


def comparison(head_stores: Sequence[HeadStore]) -> Callable[[Sequence[str]], None]:
    """Read every kept head, and return what compares them with a chain that is read afterwards.

    Where the next head cannot be kept, a `LedgerError` is raised: nothing is charged then.
    """
    heads = [(store.read(), store) for store in head_stores]
    for store in head_stores:
        store.prepare()

    def compare(hashes: Sequence[str]) -> None:
        for kept, store in heads:
            check_kept(kept, hashes, store)

    return compare


def check_kept(kept: Head | None, hashes: Sequence[str], store: HeadStore) -> None:
    """Raise a `LedgerError` unless a kept head, if there is one, is on a chain that was read after it."""
    if kept is None or kept.is_on(hashes):
        return
    doubt = " (or `entries` is wrong there)" if isinstance(store, HeadInSettings) else ""
    raise LedgerError(
        f"the ledger has {len(hashes)} entries, and entry {kept.entries} with the hash {kept.head}, which is kept in "
        f"{store.name}, is not among them{doubt}: it is an older copy, or another ledger, and would grant again what "
        "was charged since. Restore the newest backup that has this entry (hdpstats ledger restore BACKUP PLACE --site "
        "SITE.YAML). If there is none, what was charged since is unknown: count what is left as spent (hdpstats ledger "
        "lost PLACE, then hdpstats site note SITE.YAML --after-loss)",
        entries=len(hashes),
        kept=kept.entries,
    )


def open_account(settings: SiteSettings) -> Ledger:
    """Open the account, which must exist, and compare its terms with those of the settings; nothing is written.

    Raises
    ------
    LedgerError
        There is no such account, it does not verify, or its terms are not those of the settings.
    """
    terms, dataset = settings.ledger, settings.ledger.dataset
    path = file_of(locate(terms.place))
    if path is not None and not path.exists():
        raise LedgerError(
            f"there is no ledger {path}. If it was there before, it is lost or elsewhere: restore its newest backup "
            f"(hdpstats ledger restore BACKUP {path} --site SITE.YAML), since a new one would start from zero; without "
            f"a backup: hdpstats ledger lost {path} --dataset {dataset} --epsilon … . If the account is new: hdpstats "
            f"ledger open {path} --dataset {dataset} --epsilon …"
        )
    ledger, same = Ledger.open_existing(terms.place, dataset=dataset, version=terms.version), terms.same_people_as
    if same is not None and not ledger.shares_account_with(Ledger.open_existing(terms.place, dataset=same)):
        raise LedgerError(f"dataset {dataset!r} does not share the account of {same!r}, as the settings say")
    budget, part = ledger.budget, terms.gaussian
    delta = budget.delta if terms.delta is None else terms.delta
    total = agreed(Budget(terms.epsilon or budget.epsilon, delta), name="the total")
    compared = {
        "epsilon": (budget.epsilon, total.epsilon),
        "delta": (budget.delta, total.delta),
        "gaussian": (ledger.balance.gaussian, part and agreed(Budget(part.epsilon, part.delta), name="gaussian")),
        "relation": (ledger.relation, terms.relation),
    }
    for name, (own, said) in compared.items():
        if getattr(terms, name) is not None and own != said:
            raise LedgerError(
                f"the account of dataset {dataset!r} has {name} {own}, and the settings say {said}; terms are "
                "agreed once: leave them out of the settings, or name the account that has them"
            )
    return ledger


def head_stores(settings: SiteSettings) -> tuple[HeadStore, ...]:
    """Return the places where the settings have the head kept."""
    heads, dataset = settings.heads, settings.ledger.dataset
    stores: list[HeadStore] = []
    if heads.file is not None:
        stores.append(HeadInFile(heads.file))
    if heads.database is not None:
        stores.append(HeadInDatabase(heads.database, dataset))
    if heads.head is not None:
        stores.append(HeadInSettings(Head(heads.entries, heads.head)))
    return tuple(stores)


def account_for_serving(settings: SiteSettings, opened: Ledger | None = None) -> Ledger:
    """Open the account unless it is, compare it with kept heads, grant caps and quotas, and keep the head from now on.

    Raises
    ------
    ArgumentError, LedgerError
        As `open_account` and `check_heads`; or the ledger's file cannot be closed to others.
    """
    ledger, places = open_account(settings) if opened is None else opened, head_stores(settings)
    _close(settings)
    verification = check_heads(ledger, places, remedy="hdpstats site note SITE.YAML")
    kept = ", ".join(place.name for place in places) or "nowhere else: a ledger that is restored is not noticed"
    log.write(
        ledger=ledger.dataset,
        entries=verification.entries,
        head=verification.head,
        spent=str(ledger.spent),
        head_kept_in=kept,
    )
    keep_head(ledger, places, verification.hashes)
    ledger.watch(partial(keep_head, ledger, places), check=partial(comparison, places))
    declare(settings, ledger)
    return ledger


def limits_of(settings: SiteSettings) -> Quota:
    """Return what each analyst may cause, as the settings say."""
    return Quota(charges=settings.limits.charges_each, bytes=settings.limits.stored_each)


def declare(settings: SiteSettings, ledger: Ledger) -> None:
    """Grant analysts what the settings say, and write to the log who is stopped, and whose quota was set by hand.

    Raises
    ------
    LedgerError
        As `hdpstats.ledger.Ledger.declare`.
    """
    most = limits_of(settings)
    stopped = ledger.declare(caps_of(settings), most_charges=most.charges, most_bytes=most.bytes)
    for analyst in settings.analysts:
        quota = ledger.quota(analyst)
        if analyst in stopped:
            log.write(stopped=analyst, why=stopped[analyst])
        elif quota != most:
            log.write(quota_of=analyst, charges=quota.charges, bytes=quota.bytes, set_by="hdpstats ledger grant")


def caps_of(settings: SiteSettings) -> dict[str, Budget | None]:
    """Return the caps of the analysts of settings."""
    return {analyst: permissions.cap for analyst, permissions in settings.analysts.items()}


def keep_head(ledger: Ledger, places: Sequence[HeadStore], hashes: Sequence[str]) -> None:
    """Keep the head of a ledger's chain, given by the hashes of its entries, at every place.

    Raises
    ------
    LedgerError
        It cannot be kept; or one is kept already that is not on the ledger's chain. Where several processes charge at
        once a later entry may be kept first: it is on the chain.
    """
    for place in places:
        kept = place.write(hashes)
        if not kept.is_on(hashes):
            check_kept(kept, ledger.verify_after(kept.entries).hashes, place)


def check_usable(settings: SiteSettings, ledger: Ledger) -> None:
    """Look whether a request could be charged now; nothing is written, and no entry is read.

    Raises
    ------
    LedgerError
        The ledger or a place of its head does not answer, or no head is kept there any more, or a disk is full.
    """
    ledger.check_usable()
    for store in head_stores(settings):
        if store.read() is None:
            raise LedgerError(
                f"no head is kept in {store.name} any more: nothing is charged. Find out who deleted it, compare the "
                "ledger with a head that you know (hdpstats ledger verify --head), then: hdpstats site note SITE.YAML"
            )


def compare_heads(settings: SiteSettings, ledger: Ledger) -> None:
    """Compare a ledger with every head that is kept; where none is kept yet nothing is said.

    Raises
    ------
    LedgerError
        The ledger is older than what is kept, or another one.
    """
    kept = {store: head for store in head_stores(settings) if (head := store.read()) is not None}
    if kept:
        hashes = ledger.verify_after(min(head.entries for head in kept.values())).hashes
        for store, head in kept.items():
            check_kept(head, hashes, store)


def known_heads(settings: SiteSettings) -> tuple[KnownHead, ...]:
    """Return what the places of the settings keep of the ledger, for a backup to be compared with.

    A head in the settings themselves, which stays what it is, shows nothing where the one that went on with the ledger
    is gone: a backup may have the one and lack what was charged since.
    """
    stores = head_stores(settings)
    going_on = [store for store in stores if not isinstance(store, HeadInSettings)]
    if going_on and all(store.read() is None for store in going_on):
        return ()
    kept = {store: store.read() for store in stores}
    return tuple(
        KnownHead(
            head=head.head,
            entries=head.entries,
            source=store.name,
            is_last=store in going_on,
            dataset=settings.ledger.dataset,
        )
        for store, head in kept.items()
        if head is not None
    )


def note(settings: SiteSettings, *, after_loss: bool = False) -> Head:
    """Have the present head of a ledger kept where none is kept yet; refuse one that is older than what is kept.

    Parameters
    ----------
    after_loss
        Whether a head that is not on the ledger's chain is replaced: its charges are lost. This is done only where no
        account of the ledger has anything left, so that nothing can be charged a second time.

    Raises
    ------
    LedgerError
        The ledger is older than what is kept, or has something left; or the head cannot be kept.
    """
    ledger, places = open_account(settings), head_stores(settings)
    if after_loss:
        if not ledger.is_used_up():
            raise LedgerError(
                "the ledger has something left, and a head that it lacks is not replaced: restore the newest backup "
                "(hdpstats ledger restore), or count what is left as spent: hdpstats ledger lost"
            )
        hashes = ledger.verify().hashes
        for place in places:
            place.replace(hashes)
        return Head.of(hashes)
    verification = check_heads(ledger, [place for place in places if place.read() is not None], remedy="")
    keep_head(ledger, places, verification.hashes)
    return Head.of(verification.hashes)


def _close(settings: SiteSettings) -> None:
    """Take others' permissions to the ledger's file away, and say so: releases are in it, and what was spent."""
    path = file_of(locate(settings.ledger.place))
    for each in () if path is None else files_of_database(path):
        if closed_to_others(each):
            log.write(closed_to_others=str(each), was="readable or writable by others than its owner")


SECONDS = 1.0
"""How long an entry may be in the log only."""


@contextmanager
def held_open(place: str | Path) -> Iterator[None]:
    """Hold a ledger's file open, if it is in one; the ledger must exist."""
    path = file_of(locate(place))
    if path is None:
        yield
        return
    ended = threading.Event()
    with closing(sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("SELECT format FROM ledger").fetchall()  # before a first statement nothing is open
        merging = threading.Thread(target=_merge, args=(connection, ended), name="ledger", daemon=True)
        merging.start()
        try:
            yield
        finally:
            ended.set()
            merging.join()


def _merge(connection: sqlite3.Connection, ended: threading.Event) -> None:
    """Merge the log into the file within a second after others wrote; what fails (a full disk) is tried again."""
    merged = None
    while not ended.wait(SECONDS):
        with suppress(sqlite3.Error):
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            if version != merged:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                merged = version
