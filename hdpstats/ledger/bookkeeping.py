"""What happens inside one transaction: read the chain, open an account, grant a cap, add a charge, add a release.

Each function takes the connection of a transaction that its caller commits. Writers take the chain from `held_chain`,
which locks first and reads afterwards, so that what they compare with the total is what is true until they commit.
"""

import uuid
from dataclasses import asdict, replace
from datetime import UTC, datetime

from sqlalchemy import Connection, bindparam, select

from hdpstats import __version__
from hdpstats._base import canonical
from hdpstats._base.errors import LedgerError, Superseded
from hdpstats.ledger.chain import Chain, share_id
from hdpstats.ledger.leases import Holder, read_lease, write_lease
from hdpstats.ledger.own import Quota
from hdpstats.ledger.records import Account, Charge, Entry, Lease, Request, StoredRelease, in_words
from hdpstats.ledger.refusals import check_terms, exhausted, insufficient, over_quota, without_cap
from hdpstats.ledger.store import ENTRY, lock_ledger, read_accounts, read_entries, write_account, write_entry
from hdpstats.privacy.balance import Balance
from hdpstats.privacy.budget import NOTHING, Budget, Spend

_RELEASED = select(ENTRY).where(ENTRY.c.kind == "release", ENTRY.c.request_id == bindparam("request_id"))


def _now() -> str:
    """Return the time in UTC to the minute: a finer time would tell how long a computation took."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")


def read_chain(connection: Connection) -> Chain:
    """Read all entries from the first, check each of them, and check the account table against them."""
    chain = Chain().follow(read_entries(connection))
    chain.check_accounts(read_accounts(connection))
    return chain


def continue_chain(connection: Connection, known: Chain) -> Chain:
    """Read the entries after those already known, check them, and check that the known ones still stand.

    Where there are none, the known chain itself is returned.
    """
    entries = read_entries(connection, first=max(len(known.hashes), 1))
    if known.hashes:
        last = next(entries, None)
        if last is None or last.hash != known.head:
            raise LedgerError(
                f"the ledger no longer holds entry {len(known.hashes)} as it was read before: the file was "
                "replaced or cut off while in use; restore it from a copy that verifies, and open it again",
                entry=len(known.hashes),
            )
    later = list(entries)
    return known.copy().follow(later) if later else known


def held_chain(connection: Connection, known: Chain) -> Chain:
    """Lock the ledger until the transaction ends, and continue a copy of the chain up to its last entry."""
    lock_ledger(connection)
    return continue_chain(connection, known.copy())


def _append(
    connection: Connection,
    chain: Chain,
    kind: str,
    *,
    dataset: str,
    version: int,
    request_id: str,
    attempt: int = 0,
    amount: Spend | Budget = NOTHING,
    body: str = "{}",
    analyst: str = "",
) -> None:
    """Write the next entry, and follow it in the chain."""
    entry = chain.next_entry(
        kind=kind,
        dataset=dataset,
        version=version,
        analyst=analyst,
        request_id=request_id,
        attempt=attempt,
        epsilon=str(amount.epsilon),
        delta=str(amount.delta),
        mu_squared="0" if isinstance(amount, Budget) else str(amount.mu_squared),
        body=body,
        at=_now(),
    )
    write_entry(connection, entry)
    chain.follow([entry])


def open_account(
    connection: Connection,
    chain: Chain,
    asked: Account,
    version: int,
    same_people_as: str | None = None,
    floor_asked: bool = True,
) -> None:
    """Open an account, divided if it is asked to be, unless another process just did, on whatever terms.

    With ``same_people_as`` the dataset becomes a further name of an account that exists.
    """
    if asked.dataset in chain.names:
        return
    first = None
    if same_people_as is not None:
        if same_people_as not in chain.names:
            held = ", ".join(map(repr, chain.names)) or "none"
            raise LedgerError(
                f"same_people_as must be a dataset of this ledger, not {same_people_as!r}; its datasets: {held}"
            )
        first = chain.names[same_people_as]
        check_terms(chain.accounts[first], asked, floor_asked=floor_asked)
    least = asked.floor if first is None else chain.accounts[first].floor
    floor = {"epsilon": least.epsilon, "mu_squared": least.mu_squared}
    terms = {"relation": asked.relation, "unit": asked.unit, "floor": floor, "same_people_as": first}
    write_account(connection, asked, same_people_as=first, opened_at=_now())
    _append(
        connection,
        chain,
        "open",
        dataset=asked.dataset,
        version=version,
        request_id=canonical.sha256({"open": asked.dataset}),
        amount=asked.balance.total,
        body=canonical.dumps({"package": f"hdpstats {__version__}", "unique": uuid.uuid4().hex, **terms}),
    )
    if first is None and asked.balance.gaussian is not None:
        _divide(connection, chain, asked.dataset, version, "", asked.balance.gaussian)


def _divide(connection: Connection, chain: Chain, dataset: str, version: int, analyst: str, part: Budget) -> None:
    """Set a part of an account, or of an analyst's cap, aside for Gaussian releases."""
    whole = {"divide": chain.names[dataset], **({"analyst": analyst} if analyst else {})}
    request_id = canonical.sha256({**whole, "after": chain.head})
    _append(
        connection,
        chain,
        "divide",
        dataset=dataset,
        version=version,
        request_id=request_id,
        amount=part,
        analyst=analyst,
    )


def add_grant(connection: Connection, chain: Chain, dataset: str, version: int, analyst: str, cap: Budget) -> Balance:
    """Give an analyst a first or another cap, unless he has that cap already."""
    key = (chain.names[dataset], analyst)
    before = chain.caps.get(key)
    if before is not None and before.total == cap:
        return before
    chain.with_cap(dataset, analyst, cap)
    _append(
        connection,
        chain,
        "grant",
        dataset=dataset,
        version=version,
        request_id=canonical.sha256({"grant": dataset, "analyst": analyst, "after": chain.head}),
        amount=cap,
        analyst=analyst,
    )
    return chain.caps[key]


def add_quota(
    connection: Connection,
    chain: Chain,
    dataset: str,
    version: int,
    analyst: str,
    charges: int | None,
    size: int | None,
) -> Quota:
    """Limit what an analyst may cause, unless the limits are those already."""
    before = chain.quota(dataset, analyst)
    quota = before.replaced(charges, size)
    if quota != before:
        _append(
            connection,
            chain,
            "quota",
            dataset=dataset,
            version=version,
            request_id=canonical.sha256({"quota": dataset, "analyst": analyst, "after": chain.head}),
            body=canonical.dumps(asdict(quota)),
            analyst=analyst,
        )
    return quota


def _make_room(
    connection: Connection,
    chain: Chain,
    request: Request,
    cost: Spend,
    ahead: Spend,
    analyst: str = "",
    asker: str = "",
) -> None:
    """Divide the account, or the cap, for a cost where it must be; refuse what it does not afford.

    What lies ahead must be affordable besides, in the division that the cost makes, or else in one that would be made
    for it. Of that one nothing is written: only a Gaussian charge divides an account, and for what it was asked itself.
    Without an analyst it is the account of everybody, of which an asker is not told how much is left.
    """
    if analyst:
        own, quota = chain.own_part(request.dataset, analyst), chain.quota(request.dataset, analyst)
        if not own.admits(quota, len(request.body)):
            raise over_quota(request.dataset, own, quota, analyst)
    before = chain.balance(request.dataset, analyst)
    if before is None:
        if chain.capped(request.dataset):
            raise without_cap(request.dataset, cost, analyst)
        return
    together = cost + ahead
    if cost.asked is not None:
        together = replace(together, asked=cost.asked)
    balance = before.divided_for(together)
    if not balance.affords(together):
        name = request.dataset
        raise exhausted(name, together) if asker else insufficient(name, before, together, analyst)
    if cost.mu_squared > 0 and before.gaussian is None and balance.gaussian is not None:
        _divide(connection, chain, request.dataset, request.version, analyst, balance.gaussian)


def add_charge(
    connection: Connection,
    chain: Chain,
    request: Request,
    cost: Spend,
    ahead: Spend,
    holder: Holder,
    analyst: str = "",
    over: Lease | None = None,
) -> Charge | Lease:
    """Charge a request, once as long as its computation lives: return the charge, or the lease of another holder.

    What lies ahead must be affordable too; it is not charged. A request without a release whose holder has ended, as
    ``over`` says, is charged again: its next draw is another one. An analyst pays out of his cap for every charge of
    what he receives, also for those that were made for somebody else.
    """
    charge, again = chain.charges.get(request.id), False
    if charge is not None and charge.cost != cost:
        where = "" if analyst else f", in entry {charge.entry},"
        raise LedgerError(
            f"the request was charged {in_words(charge.cost)} before{where} and cannot cost {in_words(cost)} now; ask "
            "for another replicate"
        )
    if charge is not None and request.id not in chain.released:
        lease = read_lease(connection, charge)
        if lease is None or lease.holder != holder.name:
            if lease not in (None, over):
                return lease
            again = True
    new = charge is None or again
    owed = 0 if charge is None or not analyst else charge.attempt - chain.paid(request.id, analyst)
    if charge is not None and owed > 0:
        _make_room(connection, chain, request, cost.times(owed + new), ahead, analyst)
        _share(connection, chain, charge, analyst, owed)
    if charge is not None and not new:
        return charge
    if analyst:
        _make_room(connection, chain, request, cost, ahead, analyst)
    return _new_charge(connection, chain, request, cost, ahead, holder, analyst)


def _new_charge(
    connection: Connection, chain: Chain, request: Request, cost: Spend, ahead: Spend, holder: Holder, analyst: str
) -> Charge:
    """Charge a request for the first time, or anew, and let the holder compute it."""
    before = chain.charges.get(request.id)
    _make_room(connection, chain, request, cost, ahead, asker=analyst)
    _append(
        connection,
        chain,
        "charge",
        dataset=request.dataset,
        version=request.version,
        request_id=request.id,
        attempt=1 if before is None else before.attempt + 1,
        amount=cost,
        body=request.body,
        analyst=analyst,
    )
    write_lease(connection, chain.charges[request.id], holder)
    return chain.charges[request.id]


def _share(connection: Connection, chain: Chain, charge: Charge, analyst: str, owed: int) -> None:
    """Charge an analyst's cap for so many charges of a request that were made to the total for somebody else."""
    _append(
        connection,
        chain,
        "share",
        dataset=charge.dataset,
        version=charge.version,
        request_id=share_id(charge.request_id, analyst),
        attempt=charge.attempt,
        amount=charge.cost.times(owed),
        body=canonical.dumps({"request": charge.request_id}),
        analyst=analyst,
    )


def add_release(
    connection: Connection, chain: Chain, charge: Charge, release_json: str, analyst: str = ""
) -> StoredRelease:
    """Record the release of a charge, or return the one that is recorded for it.

    Only the latest charge of a request has one: who computes under an earlier one, because he was thought to have
    ended, comes too late.
    """
    latest = chain.charges.get(charge.request_id)
    if latest is not None and latest != charge and latest.attempt > charge.attempt:
        raise Superseded(
            f"the request {charge.request_id[:12]} was charged again in entry {latest.entry}, because its computation "
            "was thought to have ended; the release of the earlier charge is not recorded. Ask for the stored one",
            entry=latest.entry,
        )
    if latest != charge:
        raise LedgerError(
            f"the request {charge.request_id[:12]} was never charged to this ledger, so its release cannot "
            "be recorded; charge it first",
        )
    stored = find_release(connection, chain, charge.request_id, analyst)
    if stored is not None:
        return stored
    _append(
        connection,
        chain,
        "release",
        dataset=charge.dataset,
        version=charge.version,
        request_id=charge.request_id,
        attempt=charge.attempt,
        body=release_json,
    )
    return _stored(chain, charge, release_json, chain.head, analyst)


def find_release(connection: Connection, chain: Chain, request_id: str, analyst: str = "") -> StoredRelease | None:
    """Return the recorded release of a request, if there is one and the analyst, if any, has paid for it.

    Its entry is checked again: the chain may have been read long ago, and the row altered since.
    """
    if request_id not in chain.released or (analyst and not chain.has_paid(request_id, analyst)):
        return None
    entry = Entry(**connection.execute(_RELEASED, {"request_id": request_id}).mappings().one())
    chain.check_known(entry)
    return _stored(chain, chain.charges[request_id], entry.body, entry.hash, analyst)


def _stored(chain: Chain, charge: Charge, release_json: str, head: str, analyst: str) -> StoredRelease:
    """Return what may be handed out: to an analyst with its place in his own part of the ledger."""
    own = chain.held.get((charge.request_id, analyst))
    return StoredRelease(
        request_id=charge.request_id,
        release_json=release_json,
        entry=charge.entry if own is None else own.number,
        attempt=charge.attempt if own is None else own.attempt,
        head=head if own is None else own.head,
        charged=charge.cost,
        account=chain.account(charge.dataset).id,
    )
