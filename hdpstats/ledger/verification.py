"""Verification of a whole ledger file: every hash, every sum, and a head that was noted elsewhere."""

import os

from hdpstats._base.errors import LedgerError
from hdpstats.ledger.bookkeeping import read_chain
from hdpstats.ledger.location import locate
from hdpstats.ledger.records import Verification, checked_sha256
from hdpstats.ledger.store import Store


def verify_store(store: Store, head: str | None = None) -> Verification:
    """Recompute the chain and the sums; with ``head``, check that it is on the chain or on an analyst's own."""
    noted = None if head is None else checked_sha256(head, name="head")
    chain = store.read(read_chain)
    if noted is not None and noted not in chain.hashes and noted not in chain.heads:
        raise LedgerError(
            f"the head {noted} is not on the chain of the ledger {store.place}: entries were cut off or "
            "rewritten after it was noted; restore the file from a copy that verifies against it",
            head=noted,
        )
    return Verification(entries=len(chain.hashes), head=chain.head, datasets=tuple(sorted(chain.names)))


def verify_file(path_or_url: str | os.PathLike[str], head: str | None = None) -> Verification:
    """Verify a ledger that exists, with all its datasets; never creates or changes anything.

    Parameters
    ----------
    path_or_url
        The ledger's file or database URL.
    head
        A hash noted earlier, from `Ledger.head` or from a result.

    Raises
    ------
    LedgerError
        If there is no such ledger or it does not verify; the message says at which entry.
    """
    store = Store(locate(path_or_url), create=False)
    store.read(store.prepare)
    return verify_store(store, head)
