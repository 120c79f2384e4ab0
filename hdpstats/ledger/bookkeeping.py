"""One transaction on a ledger: read the chain, open an account, grant a cap, add a charge, add a release; verify.

Whoever writes takes the chain from `Transaction.holding`, which locks first and reads afterwards, so that what is
compared with the total is what is true until the transaction is committed by its caller.
"""

import os
import uuid
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Self, final

from sqlalchemy import Connection, bindparam, select

from hdpstats import __version__
from hdpstats._base import canonical
from hdpstats._base.errors import LedgerError, Superseded
from hdpstats.ledger.analysts import Quota, over_quota, without_cap
from hdpstats.ledger.chain import Chain, share_id
from hdpstats.ledger.leases import Holder, read_lease, write_lease
from hdpstats.ledger.location import locate
from hdpstats.ledger.records import (
    Account,
    Charge,
    Entry,
    Lease,
    Request,
    StoredRelease,
    Verification,
    check_terms,
    checked_sha256,
    exhausted,
    in_words,
    insufficient,
)
from hdpstats.ledger.store import ENTRY, Store, lock_ledger, read_accounts, read_entries, write_account, write_entry
from hdpstats.privacy.balance import Balance
from hdpstats.privacy.budget import NOTHING, Budget, Spend

_RELEASED = select(ENTRY).where(ENTRY.c.kind == "release", ENTRY.c.request_id == bindparam("request_id"))


def _now() -> str:
    """Return the time in UTC to the minute: a finer time would show how long a computation took."""
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


@final
@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction on a ledger: its connection, and the chain with what was written in it.

    A dataset and a version, where a method takes them, are those that its entries name.
    """

    connection: Connection
    chain: Chain

    @classmethod
    def holding(cls, connection: Connection, known: Chain) -> Self:
        """Lock the ledger until the transaction ends, and continue a copy of the chain up to its last entry."""
        lock_ledger(connection)
        return cls(connection, continue_chain(connection, known.copy()))

    def append(
        self,
        kind: str,
        dataset: str,
        version: int,
        request_id: str,
        *,
        analyst: str = "",
        attempt: int = 0,
        amount: Spend | Budget = NOTHING,
        body: str = "{}",
    ) -> None:
        """Write the next entry, and follow it in the chain."""
        entry = self.chain.next_entry(
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
        write_entry(self.connection, entry)
        self.chain.follow([entry])

    def open_account(
        self, asked: Account, version: int, same_people_as: str | None = None, floor_asked: bool = True
    ) -> None:
        """Open an account, divided if it is asked to be, unless another process just did, on whatever terms.

        With ``same_people_as`` the dataset becomes a further name of an account that exists.
        """
        chain, first = self.chain, None
        if asked.dataset in chain.names:
            return
        if same_people_as is not None:
            if same_people_as not in chain.names:
                held = ", ".join(map(repr, chain.names)) or "none"
                raise LedgerError(
                    f"same_people_as must be a dataset of this ledger, not {same_people_as!r}; its datasets: {held}"
                )
            first = chain.names[same_people_as]
            check_terms(chain.accounts[first], asked, floor_asked=floor_asked)
        least = asked.floor if first is None else chain.accounts[first].floor
        terms = {"relation": asked.relation, "unit": asked.unit, "floor": asdict(least), "same_people_as": first}
        write_account(self.connection, asked, same_people_as=first, opened_at=_now())
        identity = canonical.sha256({"open": asked.dataset})
        body = canonical.dumps({"package": f"hdpstats {__version__}", "unique": uuid.uuid4().hex, **terms})
        self.append("open", asked.dataset, version, identity, amount=asked.balance.total, body=body)
        if first is None and asked.balance.gaussian is not None:
            self._divide(asked.dataset, version, "", asked.balance.gaussian)

    def _divide(self, dataset: str, version: int, analyst: str, part: Budget) -> None:
        """Set a part of an account, or of an analyst's cap, aside for Gaussian releases."""
        whole = {"divide": self.chain.names[dataset], **({"analyst": analyst} if analyst else {})}
        identity = canonical.sha256({**whole, "after": self.chain.head})
        self.append("divide", dataset, version, identity, amount=part, analyst=analyst)

    def _allow(
        self, kind: str, dataset: str, version: int, analyst: str, *, amount: Spend | Budget = NOTHING, body: str = "{}"
    ) -> None:
        """Write what an analyst may have from now on: a cap or a quota."""
        identity = canonical.sha256({kind: dataset, "analyst": analyst, "after": self.chain.head})
        self.append(kind, dataset, version, identity, amount=amount, body=body, analyst=analyst)

    def grant(self, dataset: str, version: int, analyst: str, cap: Budget) -> Balance:
        """Give an analyst a first or another cap, unless he has that cap already."""
        key = (self.chain.names[dataset], analyst)
        before = self.chain.caps.get(key)
        if before is None or before.total != cap:
            self.chain.with_cap(dataset, analyst, cap)
            self._allow("grant", dataset, version, analyst, amount=cap)
        return self.chain.caps[key]

    def limit(self, dataset: str, version: int, analyst: str, charges: int | None, size: int | None) -> Quota:
        """Limit what an analyst may cause, unless the limits are those already."""
        before = self.chain.quota(dataset, analyst)
        quota = before.replaced(charges, size)
        if quota != before:
            self._allow("quota", dataset, version, analyst, body=canonical.dumps(asdict(quota)))
        return quota

    def _check_affordable(
        self, request: Request, cost: Spend, ahead: Spend, *, analyst: str = "", asker: str = ""
    ) -> None:
        """Divide the account, or the cap, for a cost where it must be; refuse what it does not afford.

        What lies ahead must be affordable besides, in the division that the cost makes, or else in one that would be
        made for it. Of that one nothing is written: only a Gaussian charge divides an account, and for what it was
        asked itself. Without an analyst it is the account of everybody; an asker is not shown how much of it is left.
        """
        name = request.dataset
        if analyst:
            usage, quota = self.chain.usage_of(name, analyst), self.chain.quota(name, analyst)
            if not usage.admits(quota, len(request.body)):
                raise over_quota(name, usage, quota, analyst)
        before = self.chain.balance(name, analyst)
        if before is None:
            if self.chain.capped(name):
                raise without_cap(name, cost, analyst)
            return
        together = cost + ahead
        if cost.asked is not None:
            together = replace(together, asked=cost.asked)
        balance = before.divided_for(together)
        if not balance.affords(together):
            raise exhausted(name, together) if asker else insufficient(name, before, together, analyst)
        if cost.mu_squared > 0 and before.gaussian is None and balance.gaussian is not None:
            self._divide(name, request.version, analyst, balance.gaussian)

    def charge(
        self,
        request: Request,
        cost: Spend,
        ahead: Spend,
        holder: Holder,
        analyst: str = "",
        over: Lease | None = None,
    ) -> Charge | Lease:
        """Charge a request, once as long as its computation lives: return the charge, or another holder's lease.

        What lies ahead must be affordable too; it is not charged. A request without a release whose holder has ended,
        as ``over`` says, is charged again: its next draw is another one. An analyst pays out of his cap for every
        charge of what he receives, also for those that were made for somebody else.
        """
        charge, again = self.chain.charges.get(request.id), False
        if charge is not None and charge.cost != cost:
            where = "" if analyst else f", in entry {charge.entry},"
            raise LedgerError(
                f"the request was charged {in_words(charge.cost)} before{where} and cannot cost {in_words(cost)} now; "
                "ask for another replicate"
            )
        if charge is not None and request.id not in self.chain.released:
            lease = read_lease(self.connection, charge)
            if lease is None or lease.holder != holder.name:
                if lease not in (None, over):
                    return lease
                again = True
        new = charge is None or again
        owed = 0 if charge is None or not analyst else charge.attempt - self.chain.paid(request.id, analyst)
        if charge is not None and owed > 0:
            self._check_affordable(request, cost.times(owed + new), ahead, analyst=analyst)
            self._share(charge, analyst, owed)
        if charge is not None and not new:
            return charge
        if analyst:
            self._check_affordable(request, cost, ahead, analyst=analyst)
        return self._new_charge(request, cost, ahead, holder, analyst)

    def _new_charge(self, request: Request, cost: Spend, ahead: Spend, holder: Holder, analyst: str) -> Charge:
        """Charge a request for the first time, or anew, and let the holder compute it."""
        before = self.chain.charges.get(request.id)
        attempt = 1 if before is None else before.attempt + 1
        self._check_affordable(request, cost, ahead, asker=analyst)
        place = (request.dataset, request.version, request.id)
        self.append("charge", *place, attempt=attempt, amount=cost, body=request.body, analyst=analyst)
        write_lease(self.connection, self.chain.charges[request.id], holder)
        return self.chain.charges[request.id]

    def _share(self, charge: Charge, analyst: str, owed: int) -> None:
        """Charge an analyst's cap for so many charges of a request that were made to the total for somebody else."""
        place = (charge.dataset, charge.version, share_id(charge.request_id, analyst))
        amount, body = charge.cost.times(owed), canonical.dumps({"request": charge.request_id})
        self.append("share", *place, attempt=charge.attempt, amount=amount, body=body, analyst=analyst)

    def record(self, charge: Charge, release_json: str, analyst: str = "") -> StoredRelease:
        """Record the release of a charge, or return the one that is recorded for it.

        Only the latest charge of a request has one: who computes under an earlier one, because he was thought to have
        ended, comes too late.
        """
        latest = self.chain.charges.get(charge.request_id)
        if latest is not None and latest != charge and latest.attempt > charge.attempt:
            raise Superseded(
                f"the request {charge.request_id[:12]} was charged again in entry {latest.entry}, because its "
                "computation was thought to have ended; the release of the earlier charge is not recorded. Ask for the "
                "stored one",
                entry=latest.entry,
            )
        if latest != charge:
            raise LedgerError(
                f"the request {charge.request_id[:12]} was never charged to this ledger, so its release cannot "
                "be recorded; charge it first",
            )
        stored = self.find(charge.request_id, analyst)
        if stored is not None:
            return stored
        place = (charge.dataset, charge.version, charge.request_id)
        self.append("release", *place, attempt=charge.attempt, body=release_json)
        return self._stored(charge, release_json, self.chain.head, analyst)

    def find(self, request_id: str, analyst: str = "") -> StoredRelease | None:
        """Return the recorded release of a request, if there is one and the analyst, if any, has paid for it.

        Its entry is checked again: the chain may have been read long ago, and the row altered since.
        """
        chain = self.chain
        if request_id not in chain.released or (analyst and not chain.has_paid(request_id, analyst)):
            return None
        entry = Entry(**self.connection.execute(_RELEASED, {"request_id": request_id}).mappings().one())
        chain.check_known(entry)
        return self._stored(chain.charges[request_id], entry.body, entry.hash, analyst)

    def _stored(self, charge: Charge, release_json: str, head: str, analyst: str) -> StoredRelease:
        """Return what may be handed out: to an analyst with its place in his own part of the ledger."""
        own = self.chain.held.get((charge.request_id, analyst))
        return StoredRelease(
            request_id=charge.request_id,
            release_json=release_json,
            entry=charge.entry if own is None else own.number,
            attempt=charge.attempt if own is None else own.attempt,
            head=head if own is None else own.head,
            at=charge.at if own is None else own.at,
            charged=charge.cost,
            account=self.chain.account(charge.dataset).id,
        )


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
