"""Copies of a ledger, what makes one usable again, and a ledger whose charges are lost.

**A backup** is a ledger in a SQLite file of its own, whatever database it was copied from. It is read in one
transaction, so that it is a state that the ledger had, also while a site charges to it; and it is verified whole.

**To restore** a copy is to forget every charge that was made since: the people in the data would be asked for more than
was agreed. So a copy is restored only if it has every entry that a *head* known from elsewhere says there was
(``heads:`` of a site, a signed head, one noted from a result). A copy that is older than a known head, and one of which
nothing is known elsewhere, are restored in one way only: what its accounts have left counts as spent. What was released
before can be handed out again; nothing new is released.

**What a head shows.** That nothing before it is missing, never that nothing was charged after it. A head that was
rewritten after every charge (`KnownHead.is_last`) is the last one of a ledger with one account: to others sites charge
that have heads of their own. Of any other head only its custodian can know that it is the last, since the site was
stopped before it was noted, for instance. He says so (``nothing_since``), and is not believed where something
contradicts him: the copy goes on after the newest head that he names, or lacks a release that was handed out
(`KnownHead` of its place) or a query that a site had written down to charge. A release of an account that the copy
lacks contradicts him as well: the account may have been opened since, and would be opened again with nothing spent.

**What counts as spent** is written as ordinary charges, of which no release was recorded, for the whole remainder of
every account of the file. The entries of copy and charges are written in one transaction: at no moment is there a
ledger with something left.

*Why that is enough.* Let the total of an account be (e, d). Before the loss every charge was affordable, so that all
releases together kept (e, d), those included whose charges are lost (`hdpstats.privacy.composition`). Afterwards no
charge is possible, and without a charge nothing is computed: the sequence of releases is the one that there was.
"""

import os
import uuid
from collections.abc import Collection, Iterator, Sequence
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
from hdpstats.ledger.store import LEDGER, METADATA, Store, read_entries
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

    ``is_last`` says that whoever kept it kept a new one after every charge, as a site does (``heads:``): to the account
    of ``dataset``, where that is named. Where ``account`` is the identity of an account, it is not looked for in copies
    without that account: of these it shows only that the account is of another ledger, or was opened later.

    Raises
    ------
    ArgumentError
        The hash is none.
    """

    head: str
    entries: int | None = None
    source: str = "what was given"
    is_last: bool = False
    account: str = ""
    dataset: str = ""

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
class KnownQuery:
    """A query that a site wrote down before it charged it: the SHA-256 of its question, the account, and where.

    The charge may have been refused afterwards: so this shows that one is possible, not that it was made.
    """

    sha256: str
    account: str
    source: str


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
    beside = [each for each in (Path(f"{place}{end}") for end in ("-journal", "-wal", "-shm")) if os.path.lexists(each)]
    if beside:  # the database would take it for its own
        raise LedgerError(f"there is something at {beside[0]} already, beside the backup: name another file")
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
    queries: Sequence[KnownQuery] = (),
    nothing_since: bool = False,
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
    queries
        What a site wrote down to charge, with which ``nothing_since`` is compared.
    nothing_since
        Whether the custodian states that nothing was charged after the newest head, where none is the last by itself
        (`KnownHead.is_last`): the site was stopped when it was noted.
    count_as_spent
        Whether a backup may be restored that lacks entries, or of which nothing is known: everything that its accounts
        have left counts as spent then.

    Raises
    ------
    LedgerError
        The backup does not verify; there is a ledger at the place; or, where ``count_as_spent`` is false, the backup is
        older than a known head, no head is known, or none that is the last one, nor does the custodian state it, or
        what he states cannot be. Nothing is written then.

    Examples
    --------
    >>> import tempfile
    >>> from hdpstats.ledger import Ledger
    >>> folder = Path(tempfile.mkdtemp())
    >>> ledger = Ledger(folder / "ledger.db", dataset="trial", epsilon=3, create=True)
    >>> _ = back_up(folder / "ledger.db", folder / "monday.backup")
    >>> head = KnownHead(head=ledger.head)
    >>> made = restore(folder / "monday.backup", folder / "again.db", known=[head], nothing_since=True)
    >>> made.verification.entries
    1
    """
    source = Store(backup, create=False)
    chain = source.read(lambda connection: read_chain(connection, whole=True))
    accounts = ("", *_accounts(chain))
    others: list[KnownHead | KnownQuery] = [head for head in known if head.account not in accounts]
    known = [head for head in known if head.account in accounts]
    spend = count_as_spent and not _is_whole(chain, known)
    if not spend:
        _check_known(chain, known, backup=source.place)
        if not _shows_end(chain, known):
            asked = source.read(_questions) if queries else frozenset()
            _check_last(chain, known, queries, asked, stated=nothing_since, backup=source.place)
            others += _of_other_ledgers(chain, queries)
        _check_accounts(chain, others, backup=source.place)
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


def _is_whole(chain: Chain, known: Sequence[KnownHead]) -> bool:
    """Whether a copy has every entry that is known, and the last head among them."""
    return _shows_end(chain, known) and all(head.is_on(chain) for head in known)


def _shows_end(chain: Chain, known: Sequence[KnownHead]) -> bool:
    """Whether a head shows that nothing was charged after it: a site's, unless there are accounts of others."""
    return any(head.is_last and _names(chain) <= _names(chain, head.dataset) for head in known)


def _names(chain: Chain, dataset: str = "") -> set[str]:
    """Return the first names of accounts: of that of a data set, or of all."""
    return {first for name, first in chain.names.items() if dataset in ("", name)}


def _check_known(chain: Chain, known: Sequence[KnownHead], *, backup: str) -> None:
    """Refuse a copy that lacks what is known, or of which nothing is."""
    if not known:
        raise LedgerError(
            f"nothing shows that the backup {backup} is the newest: name what knows the ledger's last entry, --site "
            "SITE.YAML (where the settings keep the head) or --head (a signed head, or a hash from a result). If "
            "nothing does, --count-as-spent restores it with nothing left",
            entries=len(chain.hashes),
        )
    missing = [head for head in known if not head.is_on(chain)]
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


def _check_last(
    chain: Chain,
    known: Sequence[KnownHead],
    queries: Sequence[KnownQuery],
    asked: Collection[tuple[str, str]],
    *,
    stated: bool,
    backup: str,
) -> None:
    """Refuse a copy after whose newest known entry something may have been charged."""
    number, source = max((_number(head, chain), head.source) for head in known)
    entries, own = len(chain.hashes), "if you cannot know it, --count-as-spent restores the backup with nothing left"
    if not stated or not number:
        raise LedgerError(
            f"the backup {backup} has what is known from {source}: nothing before it is missing. That does not show "
            "that nothing was charged after it: a place that the site rewrites after every charge would (--site "
            "SITE.YAML, with heads: there), if the ledger has no account but that of the site. If you know that "
            "nothing was charged after a head of the whole ledger (hdpstats ledger head), as all sites were stopped "
            f"before that head was noted, name it and say --nothing-since; {own}",
            entries=entries,
        )
    if number < entries:
        raise LedgerError(
            f"something was charged or changed after entry {number}, known from {source}: the backup {backup} itself "
            f"goes on to entry {entries}. So that head is not the last one: name a newer one; {own}",
            entries=entries,
        )
    accounts = _accounts(chain)
    lost = [each for each in queries if each.account in accounts and (each.account, each.sha256) not in asked]
    if lost:
        raise LedgerError(
            f"{lost[0].source} has {len(lost)} queries that were to be charged and that the backup {backup} lacks: "
            "they were refused then, or charged after it. Look for a newer backup, and in the site's log of that time; "
            f"{own}",
            entries=entries,
        )


def _of_other_ledgers(chain: Chain, queries: Sequence[KnownQuery]) -> list[KnownQuery]:
    """Return the queries of a site if no account of theirs is in a copy; some may be of accounts of other ledgers."""
    return [] if any(each.account in _accounts(chain) for each in queries) else list(queries)


def _check_accounts(chain: Chain, others: Sequence[KnownHead | KnownQuery], *, backup: str) -> None:
    """Refuse a copy that may be older than an account: what was charged to it would be forgotten with it."""
    if others:
        raise LedgerError(
            f"{min(each.source for each in others)} is of an account that the backup {backup} does not have: of "
            "another ledger, or opened after the backup was made. Look for a newer backup; leave out what is of other "
            "ledgers",
            entries=len(chain.hashes),
        )


def _accounts(chain: Chain) -> set[str]:
    return {account.id for account in chain.accounts.values()}


def _number(head: KnownHead, chain: Chain) -> int:
    """Return which entry a head on a chain is; 0 for one of an analyst's own part, which does not say so."""
    if head.entries is not None:
        return head.entries
    return 1 + list(chain.hashes).index(head.head) if head.head in chain.hashes else 0


def _questions(connection: Connection) -> frozenset[tuple[str, str]]:
    """Return the account and the SHA-256 of the question of every charge."""
    chain = read_chain(connection, whole=True)
    charges = (entry for entry in read_entries(connection) if entry.kind == "charge")
    return frozenset(
        (chain.account(entry.dataset).id, codec.sha256(codec.loads(entry.body)["query"])) for entry in charges
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
