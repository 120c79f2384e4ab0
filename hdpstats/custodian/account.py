"""The account of a site: one that exists, on the terms that the settings name, with its head kept elsewhere.

**The file is held open.** A ledger's connections live for one transaction. When the last connection to a SQLite file
closes, SQLite merges its log (the file ``-wal``) into the file and deletes it: with one analyst at work that would be
after every transaction, with several times the flushes that a durable commit needs. So a site holds one more
connection, which does nothing but that merging, once a second. A commit is durable as before: it returns when its pages
are in the log, and the log on the disk (``synchronous=FULL``); a copy of the file without its log lacks the last
second.
"""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial

from hdpstats._base.errors import LedgerError
from hdpstats.custodian import journal
from hdpstats.custodian.heads import (
    Head,
    HeadInDatabase,
    HeadInFile,
    HeadInSettings,
    HeadStore,
    check_heads,
    check_kept,
)
from hdpstats.custodian.reading import closed_to_others
from hdpstats.custodian.settings import SiteSettings
from hdpstats.ledger import Ledger
from hdpstats.ledger.location import file_of, locate
from hdpstats.privacy.budget import Budget
from hdpstats.privacy.charging import agreed


def open_account(settings: SiteSettings) -> Ledger:
    """Open the account, which must exist, and compare its terms with those of the settings; nothing is written.

    Raises
    ------
    LedgerError
        There is no such account, it does not verify, or its terms are not those of the settings.
    """
    declared = dict(settings.ledger)
    place, dataset, version = declared.pop("place"), declared.pop("dataset"), declared.pop("version", 1)
    path = file_of(locate(place))
    if path is not None and not path.exists():
        raise LedgerError(
            f"there is no ledger {path}. If it was there before, it is lost or elsewhere: restore its newest copy, "
            "since a new one would start from zero. If the account is new: hdpstats ledger open "
            f"{path} --dataset {dataset} --epsilon …"
        )
    ledger = Ledger.open_existing(place, dataset=dataset, version=version)
    same = declared.pop("same_people_as", None)
    if same is not None and not ledger.shares_account_with(Ledger.open_existing(place, dataset=same)):
        raise LedgerError(f"dataset {dataset!r} does not share the account of {same!r}, as the settings say")
    own = {
        "epsilon": ledger.budget.epsilon,
        "delta": ledger.budget.delta,
        "gaussian": ledger.balance.gaussian,
        "relation": ledger.relation,
    }
    if "epsilon" in declared:
        total = agreed(Budget(declared["epsilon"], declared.get("delta", ledger.budget.delta)), name="the total")
        declared |= {name: getattr(total, name) for name in ("epsilon", "delta") if name in declared}
    if declared.get("gaussian") is not None:
        declared["gaussian"] = agreed(declared["gaussian"], name="gaussian")
    for name, value in declared.items():
        if value != own[name]:
            raise LedgerError(
                f"the account of dataset {dataset!r} has {name} {own[name]}, and the settings say {value}; terms are "
                "agreed once: leave them out of the settings, or name the account that has them"
            )
    return ledger


def head_stores(settings: SiteSettings) -> tuple[HeadStore, ...]:
    """Return the places where the settings have the head kept."""
    heads, dataset = settings.heads, settings.ledger["dataset"]
    found: list[HeadStore] = []
    if heads.file is not None:
        found.append(HeadInFile(heads.file))
    if heads.database is not None:
        found.append(HeadInDatabase(heads.database, dataset))
    if heads.head is not None:
        found.append(HeadInSettings(Head(heads.entries, heads.head)))
    return tuple(found)


def account_for_serving(settings: SiteSettings) -> Ledger:
    """Open the account, compare it with the kept heads, grant caps and quotas, and keep the head from now on.

    Raises
    ------
    ArgumentError, LedgerError
        As `open_account` and `hdpstats.custodian.heads.check_heads`; or the ledger's file cannot be closed to others.
    """
    ledger, places = open_account(settings), head_stores(settings)
    _close(settings)
    head = check_heads(ledger, places, remedy="hdpstats site note SITE.YAML")
    kept = ", ".join(place.name for place in places) or "nowhere else: a ledger that is restored is not noticed"
    journal.write(
        ledger=ledger.dataset, entries=head.entries, head=head.head, spent=str(ledger.spent), head_kept_in=kept
    )
    keep_head(ledger, places, head.entries, head.head)
    ledger.watch(partial(keep_head, ledger, places))
    for analyst in settings.analysts:
        ledger.limit(analyst, most_charges=settings.limits.charges_each, most_bytes=settings.limits.stored_each)
    for analyst, cap in settings.caps.items():
        ledger.grant(analyst, epsilon=cap.epsilon, delta=cap.delta)
    return ledger


def keep_head(ledger: Ledger, places: Sequence[HeadStore], entries: int, head: str) -> None:
    """Keep a head at every place.

    Raises
    ------
    LedgerError
        It cannot be kept; or one of as many or more entries is kept already that is not on the ledger's chain. Where
        several processes charge at once a later entry may be kept first: it is on the chain.
    """
    new = Head(entries, head)
    for place in places:
        kept = place.write(new)
        if kept != new:
            check_kept(ledger, kept, place)


def note(settings: SiteSettings) -> Head:
    """Have the present head of a ledger kept where none is kept yet; refuse one that is older than what is kept."""
    ledger, places = open_account(settings), head_stores(settings)
    head = check_heads(ledger, [place for place in places if place.read() is not None], remedy="")
    keep_head(ledger, places, head.entries, head.head)
    return head


def _close(settings: SiteSettings) -> None:
    """Take others' permissions to the ledger's file away, and say so: releases are in it, and what was spent."""
    path = file_of(locate(settings.ledger["place"]))
    for each in () if path is None else (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        if closed_to_others(each):
            journal.write(closed_to_others=str(each), was="readable or writable by others than its owner")


SECONDS = 1.0
"""How long an entry may be in the log only."""


@contextmanager
def held_open(place: str) -> Iterator[None]:
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
