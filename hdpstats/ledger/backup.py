"""Copies of a ledger, what makes one usable again, and a ledger whose charges are lost.

**A backup** is a ledger in a SQLite file of its own, whatever database it was copied from. It is read in one
transaction, so that it is a state that the ledger had, also while a site charges to it; and it is verified whole.

**To restore** a copy is to forget every charge that was made since: the people in the data would be asked for more than
was agreed. So a copy is restored only if it has every entry that a *head* known from elsewhere says there was
(``heads:`` of a site, a signed head, one noted from a result). A copy that is older than a known head, and one of which
nothing is known elsewhere, are restored in one way only: what its accounts have left counts as spent. What was released
before can be handed out again; nothing new is released.

**What counts as spent** is written as ordinary charges, of which no release was recorded, for the whole remainder of
every account of the file. The entries of copy and charges are written in one transaction: at no moment is there a
ledger with something left.

*Why that is enough.* Let the total of an account be (e, d). Before the loss every charge was affordable, so that all
releases together kept (e, d), those included whose charges are lost (`hdpstats.privacy.composition`). Afterwards no
charge is possible, and without a charge nothing is computed: the sequence of releases is the one that there was.
"""

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from sqlalchemy import Connection, insert, select

from hdpstats._base.errors import ArgumentError, LedgerError
from hdpstats.ledger.bookkeeping import Transaction, read_chain
from hdpstats.ledger.chain import Chain
from hdpstats.ledger.leases import own_holder
from hdpstats.ledger.location import file_of, locate
from hdpstats.ledger.records import Account, Request, Verification, check_terms, checked_sha256
from hdpstats.ledger.store import LEDGER, METADATA, Store
from hdpstats.privacy.budget import NOTHING
from hdpstats.records import codec

UNKNOWN_CHARGES: Final = "charges that are lost"
"""The kind of the request that counts what is left of an account as spent, as histories show it."""

_ROWS: Final = 1000
"""Rows that are copied at once."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHead:
    """What is known from elsewhere of a ledger: the hash of an entry, its number where that is known, and from where.

    Raises
    ------
    ArgumentError
        The hash is none.
    """

    head: str
    entries: int | None = None
    source: str = "what was given"

    def __post_init__(self) -> None:
        """Validate the hash."""
        object.__setattr__(self, "head", checked_sha256(self.head, name="head"))

    def is_on(self, chain: Chain) -> bool:
        """Whether a chain has the entry, or an analyst's own part of it has."""
        if self.entries is None:
            return self.head in chain.hashes or self.head in chain.heads
        return self.entries <= len(chain.hashes) and chain.hashes[self.entries - 1] == self.head


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What was restored: the ledger as it is now, and how many charges count everything left as spent."""

    verification: Verification
    counted_as_spent: int

    def __str__(self) -> str:
        if not self.counted_as_spent:
            return str(self.verification)
        return f"{self.verification}; what its accounts had left counts as spent"


def back_up(path_or_url: str | os.PathLike[str], out: str | os.PathLike[str]) -> Verification:
    """Copy a whole ledger, with all its data sets, into a new file, and verify the copy.

    The ledger may be charged meanwhile. The file is a ledger of SQLite that its owner alone may read; it is never
    charged where it is: `restore` makes it usable.

    Parameters
    ----------
    path_or_url
        The ledger's file or database URL.
    out
        The file to write, which must not exist.

    Returns
    -------
    Verification
        Of the copy.

    Raises
    ------
    LedgerError
        The ledger cannot be read or does not verify, or the copy cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from hdpstats.ledger import Ledger
    >>> folder = Path(tempfile.mkdtemp())
    >>> ledger = Ledger(folder / "ledger.db", dataset="trial", epsilon=3, create=True)
    >>> back_up(folder / "ledger.db", folder / "monday.backup").head == ledger.head
    True
    """
    place = Path(out).absolute()
    source = Store(path_or_url, create=False)
    try:
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        raise LedgerError(
            f"there is something at {place} already, and no backup replaces another: name a new file"
        ) from None
    except OSError as error:
        raise LedgerError(
            f"the backup {place} cannot be written ({error.strerror}); where its directory is missing, create it first"
        ) from None
    try:
        copy = Store(place, create=True)
        chain = source.read(lambda connection: copy.write(lambda target: _copied(connection, target)))
        _flush(place)
    except BaseException:
        for end in ("", "-wal", "-shm"):
            with suppress(OSError):
                Path(f"{place}{end}").unlink()
        raise
    return chain.verification()


def restore(
    backup: str | os.PathLike[str],
    path_or_url: str | os.PathLike[str],
    *,
    known: Sequence[KnownHead] = (),
    count_as_spent: bool = False,
) -> Restored:
    """Make a ledger of a backup where there is none, if it has every entry that is known.

    Parameters
    ----------
    backup
        The file that `back_up` wrote, or any copy of a ledger.
    path_or_url
        Where the ledger shall be: a file that does not exist, or a database without tables.
    known
        Heads that were kept elsewhere. All must be on the chain of the backup.
    count_as_spent
        Whether a backup may be restored that lacks entries, or of which nothing is known: everything that its accounts
        have left counts as spent then.

    Raises
    ------
    LedgerError
        The backup does not verify; it is older than a known head, or no head is known, and ``count_as_spent`` is false;
        or there is a ledger at the place. Nothing is written then.

    Examples
    --------
    >>> import tempfile
    >>> from hdpstats.ledger import Ledger
    >>> folder = Path(tempfile.mkdtemp())
    >>> ledger = Ledger(folder / "ledger.db", dataset="trial", epsilon=3, create=True)
    >>> _ = back_up(folder / "ledger.db", folder / "monday.backup")
    >>> head = KnownHead(head=ledger.head)
    >>> restore(folder / "monday.backup", folder / "again.db", known=[head]).verification.entries
    1
    """
    source = Store(backup, create=False)
    chain = source.read(lambda connection: read_chain(connection, whole=True))
    spend = _must_count(chain, known, count_as_spent=count_as_spent, backup=source.place)
    target = _vacant(path_or_url)

    def written(connection: Connection, into: Connection) -> tuple[Chain, int]:
        copied = _copied(connection, into)
        return copied, _spend_all(into, copied) if spend else 0

    made, counted = source.read(lambda connection: target.write(lambda into: written(connection, into)))
    _flush(file_of(locate(path_or_url)))
    return Restored(verification=made.verification(), counted_as_spent=counted)


def count_as_spent(path_or_url: str | os.PathLike[str], *, account: Account | None = None) -> Restored:
    """Count everything that the accounts of a ledger have left as spent: its charges are lost, in part or all.

    Where the ledger or the data set does not exist, it is opened with the terms of ``account``, and nothing left, in
    one transaction.

    Raises
    ------
    LedgerError
        There is no such ledger and no account is given; it has other terms; or it cannot be written.
    """
    store = Store(path_or_url, create=account is not None)

    def written(connection: Connection) -> tuple[Chain, int]:
        chain = read_chain(connection)
        if account is not None:
            transaction = Transaction(connection=connection, chain=chain, dataset=account.dataset, version=1)
            transaction.open_account(account)
            check_terms(chain.account(account.dataset), account, floor_asked=False)
        return chain, _spend_all(connection, chain)

    chain, counted = store.write(written)
    return Restored(verification=chain.verification(), counted_as_spent=counted)


def _spend_all(connection: Connection, chain: Chain) -> int:
    """Charge all accounts what they have left, and return by how many charges."""
    counted = 0
    for name in list(chain.accounts):
        transaction = Transaction(connection=connection, chain=chain, dataset=name, version=1)
        for amount in chain.accounts[name].left():
            request = Request(
                dataset=name,
                version=1,
                schema_sha256="0" * 64,
                public_sha256=None,
                query_json=codec.dumps({"kind": UNKNOWN_CHARGES, "unique": uuid.uuid4().hex}),
                terms="what is left counts as spent, as charges of this account are lost",
            )
            transaction.charge(request, amount, NOTHING, own_holder())
            counted += 1
    return counted


def _must_count(chain: Chain, known: Sequence[KnownHead], *, count_as_spent: bool, backup: str) -> bool:
    """Return whether what is left of a copy must count as spent, or raise where that was not permitted."""
    missing = [head for head in known if not head.is_on(chain)]
    if known and not missing:
        return False
    if count_as_spent:
        return True
    if missing:
        which = "; ".join(
            f"entry {head.entries or '?'} with the hash {head.head[:16]}..., known from {head.source}"
            for head in missing
        )
        raise LedgerError(
            f"the backup {backup} has {len(chain.hashes)} entries, and lacks {which}: it is older than the ledger was, "
            "and would grant again what was charged since. Restore the newest copy that has it. If there is none, "
            "charges are lost: --count-as-spent restores it with nothing left",
            entries=len(chain.hashes),
        )
    raise LedgerError(
        f"nothing shows that the backup {backup} is the newest: name what knows the ledger's last entry, --site "
        "SITE.YAML (where the settings keep the head) or --head (a signed head, or a hash from a result). If nothing "
        "does, --count-as-spent restores it with nothing left",
        entries=len(chain.hashes),
    )


def _vacant(path_or_url: str | os.PathLike[str]) -> Store:
    """Return a place without a ledger, its tables made; nothing is replaced."""
    path = file_of(locate(path_or_url))
    if locate(path_or_url).get_backend_name() == "sqlite" and path is None:
        raise ArgumentError("place must be a file or a server's database", argument="place")
    store = Store(path_or_url, create=True)
    if store.read(lambda connection: read_chain(connection).hashes):
        raise LedgerError(
            f"there is a ledger at {store.place} already, and a restored one replaces none: stop the site, move that "
            "one away (keep it: it may have charges that the backup lacks), and restore again"
        )
    return store


def _copied(source: Connection, target: Connection) -> Chain:
    """Copy all tables of a ledger, check all entries of the copy, and return its chain."""
    for table in METADATA.sorted_tables:
        if table is LEDGER:  # the format, which is written where the tables are made
            continue
        for rows in _parts(source, table):
            target.execute(insert(table), rows)
    return read_chain(target, whole=True)


def _parts(source: Connection, table: object) -> Iterator[list[dict[str, object]]]:
    options = {"stream_results": True, "yield_per": _ROWS}
    for part in source.execute(select(table), execution_options=options).mappings().partitions():  # type: ignore[call-overload]
        yield [dict(row) for row in part]


def _flush(path: Path | None) -> None:
    """Have a new file on the disk, and its name in its folder; a server sees to its own."""
    if path is None:
        return
    for place in (path, path.parent):
        number = os.open(place, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
