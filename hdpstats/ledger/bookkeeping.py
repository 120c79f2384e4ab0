"""What happens inside one transaction: read the chain, open an account, add a charge, add a release.

Each function takes the connection of a transaction that its caller commits. Writers lock first and read
afterwards, so that what they compare with the total is what is true until they commit.
"""

from datetime import UTC, datetime

from sqlalchemy import Connection, select

from hdpstats import __version__
from hdpstats._base import canonical
from hdpstats._base.errors import InsufficientBudget, LedgerError
from hdpstats.ledger.chain import Chain
from hdpstats.ledger.records import Account, Charge, Request, StoredRelease, in_words
from hdpstats.ledger.store import ENTRY, lock_accounts, read_accounts, read_entries, write_account, write_entry
from hdpstats.privacy.balance import Balance
from hdpstats.privacy.budget import Budget, Spend


def _now() -> str:
    """Return the time in UTC to the minute: a finer time would tell how long a computation took."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")


def read_chain(connection: Connection) -> Chain:
    """Read all entries from the first, check each of them, and check the account table against them."""
    chain = Chain().follow(read_entries(connection))
    chain.check_accounts(read_accounts(connection))
    return chain


def continue_chain(connection: Connection, known: Chain) -> Chain:
    """Read the entries after those already known, check them, and check that the known ones still stand."""
    entries = read_entries(connection, first=max(len(known.hashes), 1))
    if known.hashes:
        last = next(entries, None)
        if last is None or last.hash != known.head:
            raise LedgerError(
                f"the ledger no longer holds entry {len(known.hashes)} as it was read before: the file was "
                "replaced or cut off while in use; restore it from a copy that verifies, and open it again",
                entry=len(known.hashes),
            )
    return known.copy().follow(entries)


def open_account(connection: Connection, known: Chain, account: Account, version: int) -> None:
    """Open an account, divided if it is asked to be, unless another process just did, on whatever terms."""
    lock_accounts(connection)
    chain = continue_chain(connection, known)
    if account.dataset in chain.accounts:
        return
    at, total, part = _now(), account.balance.total, account.balance.gaussian
    terms = {"relation": account.relation, "unit": account.unit}
    entry = chain.next_entry(
        kind="open",
        dataset=account.dataset,
        version=version,
        request_id=canonical.sha256({"open": account.dataset}),
        epsilon=str(total.epsilon),
        delta=str(total.delta),
        mu_squared="0",
        body=canonical.dumps({"package": f"hdpstats {__version__}", **terms}),
        at=at,
    )
    write_account(connection, account, opened_at=at)
    write_entry(connection, entry)
    if part is not None:
        _divide(connection, chain.follow([entry]), account.dataset, version, part)


def _divide(connection: Connection, chain: Chain, dataset: str, version: int, part: Budget) -> None:
    """Set a part of an account aside for Gaussian releases, once and for all, and follow it in the chain."""
    entry = chain.next_entry(
        kind="divide",
        dataset=dataset,
        version=version,
        request_id=canonical.sha256({"divide": dataset}),
        epsilon=str(part.epsilon),
        delta=str(part.delta),
        mu_squared="0",
        body="{}",
        at=_now(),
    )
    write_entry(connection, entry)
    chain.follow([entry])


def add_charge(connection: Connection, known: Chain, request: Request, cost: Spend, ahead: Spend) -> Charge:
    """Charge a request once: return its charge if it has one, else compare with what is left and insert it.

    What lies ahead must be affordable too; it is not charged.
    """
    lock_accounts(connection)
    chain = continue_chain(connection, known)
    charge = chain.charges.get(request.id)
    if charge is not None:
        if charge.cost != cost:
            raise LedgerError(
                f"the request was charged {in_words(charge.cost)} before, in entry {charge.entry}, and cannot "
                f"cost {in_words(cost)} now; ask for another replicate",
                entry=charge.entry,
            )
        return charge
    before = chain.accounts[request.dataset].balance
    balance = before.divided_for(cost + ahead)
    if not balance.affords(cost + ahead):
        raise insufficient(request.dataset, before, cost + ahead)
    if before.gaussian is None and balance.gaussian is not None:
        _divide(connection, chain, request.dataset, request.version, balance.gaussian)
    entry = chain.next_entry(
        kind="charge",
        dataset=request.dataset,
        version=request.version,
        request_id=request.id,
        epsilon=str(cost.epsilon),
        delta=str(cost.delta),
        mu_squared=str(cost.mu_squared),
        body=request.body,
        at=_now(),
    )
    write_entry(connection, entry)
    return chain.follow([entry]).charges[request.id]


def insufficient(dataset: str, balance: Balance, cost: Spend) -> InsufficientBudget:
    """Return the refusal of a cost: what it is, what is left for its kind, and what to do."""
    total, part = balance.total, balance.gaussian
    if cost.mu_squared == 0 or part is None:
        left = f"{in_words(balance.remaining)} left of {in_words(total)}"
    else:
        left = f"{in_words(balance.gaussian_spent)} of the {in_words(part)} for Gaussian noise spent"
    asked = "" if cost.asked is None else f" to keep {in_words(cost.asked)}"
    remedy = "ask for less, or use a release that was paid for"
    if cost.mu_squared and total.delta == 0:
        remedy = "ask for a mechanism with a pure guarantee, since Gaussian noise needs an account with a delta"
    elif cost.mu_squared == 0 and part is not None:
        left += f", as {in_words(part)} are set aside for Gaussian noise"
    return InsufficientBudget(
        f"the release would cost {in_words(cost)}{asked}; dataset {dataset!r} has {left}. Nothing was charged: "
        f"{remedy}",
        requested=cost,
        remaining=balance.remaining,
        total=total,
    )


def add_release(connection: Connection, known: Chain, charge: Charge, release_json: str) -> StoredRelease:
    """Record the release of a charge, or return the one that is recorded: the first writer wins."""
    lock_accounts(connection)
    chain = continue_chain(connection, known)
    if chain.charges.get(charge.request_id) != charge:
        raise LedgerError(
            f"the request {charge.request_id[:12]} was never charged to this ledger, so its release cannot "
            "be recorded; charge it first",
        )
    stored = find_release(connection, chain, charge.request_id)
    if stored is not None:
        return stored
    entry = chain.next_entry(
        kind="release",
        dataset=charge.dataset,
        version=charge.version,
        request_id=charge.request_id,
        epsilon="0",
        delta="0",
        mu_squared="0",
        body=release_json,
        at=_now(),
    )
    write_entry(connection, entry)
    return StoredRelease(request_id=charge.request_id, release_json=release_json, entry=charge.entry, head=entry.hash)


def find_release(connection: Connection, chain: Chain, request_id: str) -> StoredRelease | None:
    """Return the recorded release of a request, if there is one."""
    if request_id not in chain.released:
        return None
    query = select(ENTRY.c.body, ENTRY.c.hash).where(ENTRY.c.kind == "release", ENTRY.c.request_id == request_id)
    body, head = connection.execute(query).one()
    return StoredRelease(request_id=request_id, release_json=body, entry=chain.charges[request_id].entry, head=head)
