"""One transaction on a ledger: read the chain, open an account, grant a cap, add a charge, add a release; verify.

Whoever writes takes the chain from `Transaction.writing`, which locks first and reads afterwards, so that what is
compared with the total is what is true until the transaction is committed by its caller.
"""

import gc
import os
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self, final

from sqlalchemy import Connection, bindparam, insert, select

from hdpstats import __version__
from hdpstats._base.errors import ChargedMeanwhile, LedgerError, Superseded
from hdpstats.ledger.analysts import Quota, over_quota, without_cap
from hdpstats.ledger.chain import BY_SETTINGS, Chain, share_id
from hdpstats.ledger.leases import Holder, read_lease, write_lease
from hdpstats.ledger.records import (
    Account,
    Charge,
    Entry,
    Lease,
    Opening,
    Request,
    StoredRelease,
    Verification,
    check_terms,
    checked_sha256,
    in_words,
    insufficient,
)
from hdpstats.ledger.store import (
    ACCOUNT,
    CHECKPOINT,
    ENTRY,
    Store,
    lock_ledger,
    read_accounts,
    read_checkpoints,
    read_entries,
)
from hdpstats.privacy.budget import NOTHING, Budget, Spend
from hdpstats.privacy.composition import Balance
from hdpstats.records import codec
from hdpstats.records.query import LedgerEntry

_RELEASED = select(ENTRY).where(ENTRY.c.kind == "release", ENTRY.c.request_id == bindparam("request_id"))


def _now() -> str:
    """Return the time in UTC to the minute: a finer time would show how long a computation took."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Run the block without Python's search for cycles of objects that nobody has.

    All that checkpoints say is kept, and has none: to search it again and again takes 40 % of the time.
    """
    searches = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searches:
            gc.enable()


def read_chain(connection: Connection, *, whole: bool = False) -> Chain:
    """Read the checkpoints and the entries after the last one, or all entries from the first, and check each of them.

    The account table is checked against them.
    """
    with _nothing_collected():
        resumed = Chain.resume(read_checkpoints(connection))
    chain = Chain() if whole else resumed
    chain.follow(read_entries(connection, first=len(chain.hashes) + 1))
    chain.check_accounts(read_accounts(connection))
    return chain


def continue_chain(connection: Connection, followed: Chain) -> Chain:
    """Read the entries after those already known, check them, and check that the known ones still stand.

    Where there are none, the known chain itself is returned.
    """
    entries = read_entries(connection, first=max(len(followed.hashes), 1))
    if followed.hashes:
        last = next(entries, None)
        if last is None or last.hash != followed.head:
            raise LedgerError(
                f"the ledger no longer holds entry {len(followed.hashes)} as it was read before: the file was "
                "replaced or cut off while in use; restore it from a copy that verifies, and open it again",
                entry=len(followed.hashes),
            )
    later = list(entries)
    return followed.copy().follow(later) if later else followed


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One transaction on a ledger: its connection, the chain with what was written in it, and what entries name."""

    connection: Connection
    chain: Chain
    dataset: str
    version: int

    @classmethod
    def reading(cls, connection: Connection, followed: Chain, dataset: str, version: int) -> Self:
        """Continue the chain up to the ledger's last entry."""
        chain = continue_chain(connection, followed)
        return cls(connection=connection, chain=chain, dataset=dataset, version=version)

    @classmethod
    def writing(cls, connection: Connection, followed: Chain, dataset: str, version: int) -> Self:
        """Lock the ledger until the transaction ends, and continue a copy of the chain up to its last entry."""
        lock_ledger(connection)
        transaction = cls.reading(connection, followed, dataset, version)
        return replace(transaction, chain=followed.copy()) if transaction.chain is followed else transaction

    def append(self, kind: str, request_id: str, amount: Spend | Budget = NOTHING, **fields: Any) -> str:
        """Write the next entry, follow it in the chain, and return its hash.

        Fields that are left out are those of every entry. After it a checkpoint may be written.
        """
        amounts = {name: str(getattr(amount, name, 0)) for name in ("epsilon", "delta", "mu_squared")}
        common = {"dataset": self.dataset, "version": self.version, "at": _now(), **amounts}
        entry = self.chain.next_entry(**{**common, "kind": kind, "request_id": request_id, **fields})
        self.connection.execute(insert(ENTRY), asdict(entry))
        self.chain.follow([entry])
        if self.chain.is_checkpoint_due:
            self._set_checkpoint()
        return entry.hash

    def _set_checkpoint(self) -> None:
        """Write what later openings read instead of the entries so far."""
        number, state = len(self.chain.hashes) + 1, self.chain.since_checkpoint()
        self.connection.execute(insert(CHECKPOINT).values(entry=number, state=state))
        identity = codec.sha256({"checkpoint": number, "after": self.chain.head})
        self.append("checkpoint", identity, body=self.chain.checkpoint_body(state))

    def open_account(self, asked: Account, same_people_as: str | None = None, floor_asked: bool = True) -> bool:
        """Open an account, divided if it is asked to be, unless another process just did, on whatever terms.

        With ``same_people_as`` the dataset becomes a further name of an account that exists. Return whether this
        opened an account of its own.
        """
        chain, account, first = self.chain, asked, None
        if asked.dataset in chain.names:
            return False
        if same_people_as is not None:
            if same_people_as not in chain.names:
                held = ", ".join(map(repr, chain.names)) or "none"
                raise LedgerError(
                    f"same_people_as must be a dataset of this ledger, not {same_people_as!r}; its datasets: {held}"
                )
            account = chain.account(same_people_as)
            first = account.dataset
            check_terms(account, asked, floor_asked=floor_asked)
        opening = Opening(
            package=f"hdpstats {__version__}",
            unique=uuid.uuid4().hex,
            relation=asked.relation,
            unit=asked.unit,
            floor=account.floor,
            same_people_as=first,
        )
        terms = asked.terms(same_people_as=first)
        self.connection.execute(insert(ACCOUNT).values(dataset=asked.dataset, opened_at=_now(), **terms))
        identity, body = codec.sha256({"open": asked.dataset}), codec.dumps(opening.to_dict())
        self.append("open", identity, asked.balance.total, body=body)
        if first is None and asked.balance.gaussian is not None:
            self._divide("", asked.balance.gaussian)
        return first is None

    def _divide(self, analyst: str, part: Budget) -> None:
        """Set a part of an account, or of an analyst's cap, aside for Gaussian releases."""
        whole = {"divide": self.chain.names[self.dataset], **({"analyst": analyst} if analyst else {})}
        self.append("divide", codec.sha256({**whole, "after": self.chain.head}), part, analyst=analyst)

    def grant(self, analyst: str, cap: Budget) -> Balance:
        """Give an analyst a first or another cap, unless he has that cap already."""
        before = self.chain.balance(self.dataset, analyst)
        if before is None or before.total != cap:
            self._grant(analyst, cap)
        return self.chain.capped(self.dataset)[analyst]

    def limit(self, analyst: str, limits: Quota) -> Quota:
        """Limit what an analyst may cause, unless the limits were set by hand already. Who is stopped stays so."""
        part = self.chain.part(self.dataset, analyst)
        quota, declared = part.quota.replaced(limits), self.chain.is_declared("quota", self.dataset, analyst)
        if quota != part.quota or (declared and limits != Quota()):
            self._limit(analyst, quota, stopped=part.stopped)
        return quota

    def declare(self, analysts: Collection[str], caps: Mapping[str, Budget], limits: Quota) -> dict[str, str]:
        """Give analysts what the settings of a site say, and return those who are stopped, and why.

        It is written that the settings say so, also of what was so before: from then on they may change it. A quota
        that was set by hand stays, unless it is what the settings say; whether an analyst is stopped is written beside.
        """
        chain, stopped = self.chain, self.chain.stopped(self.dataset, caps)
        for analyst in analysts:
            cap, before = caps.get(analyst), chain.balance(self.dataset, analyst)
            is_declared = (
                before is not None and before.total == cap and chain.is_declared("grant", self.dataset, analyst)
            )
            if cap is not None and analyst not in stopped and not is_declared:
                self._grant(analyst, cap, by=BY_SETTINGS)
            part, stop = chain.part(self.dataset, analyst), analyst in stopped or None
            of_settings = chain.is_declared("quota", self.dataset, analyst)
            by_hand = chain.quota_by_hand(self.dataset, analyst, limits)
            quota = part.quota if by_hand else limits
            if (quota, stop) != (part.quota, part.stopped) or not (of_settings or by_hand):
                self._limit(analyst, quota, stopped=stop, by=None if by_hand else BY_SETTINGS)
        return stopped

    def _grant(self, analyst: str, cap: Budget, **fields: str) -> None:
        self.chain.with_cap(self.dataset, analyst, cap)
        self._allow("grant", analyst, cap, fields)

    def _limit(self, analyst: str, quota: Quota, **fields: str | bool | None) -> None:
        said = {name: value for name, value in fields.items() if value is not None}
        self._allow("quota", analyst, NOTHING, quota.to_dict() | said)

    def _allow(self, kind: str, analyst: str, amount: Spend | Budget, fields: Mapping[str, Any]) -> None:
        """Write what an analyst may have from now on: a cap or a quota."""
        identity = codec.sha256({kind: self.dataset, "analyst": analyst, "after": self.chain.head})
        self.append(kind, identity, amount, analyst=analyst, body=codec.dumps(fields))

    def _check_affordable(
        self, request: Request, cost: Spend, ahead: Spend, *, analyst: str = "", asker: str = "", later: int = 0
    ) -> None:
        """Divide the account, or the cap, for a cost where it must be; refuse what it does not afford.

        What lies ahead must be affordable besides, in the division that the cost makes, or else in one that would be
        made for it. Of that one nothing is written: only a Gaussian charge divides an account, and for what it was
        asked itself. Without an analyst it is the account of everybody; an asker is not shown how much of it is left.
        """
        if analyst:
            part = self.chain.part(self.dataset, analyst)
            if not part.admits(len(request.body), later=later):
                raise over_quota(self.dataset, part, analyst, later=later)
        before = self.chain.balance(self.dataset, analyst)
        if before is None:
            if self.chain.capped(self.dataset):
                raise without_cap(self.dataset, cost, analyst)
            return
        together = cost + ahead
        if cost.asked is not None:
            together = replace(together, asked=cost.asked)
        balance = before.divided_for(together)
        if not balance.affords(together):
            raise insufficient(self.dataset, together, None if asker else before, analyst)
        if cost.mu_squared > 0 and before.gaussian is None and balance.gaussian is not None:
            self._divide(analyst, balance.gaussian)

    def charge(
        self,
        request: Request,
        cost: Spend,
        ahead: Spend,
        holder: Holder,
        analyst: str = "",
        over: Lease | None = None,
        *,
        later: int = 0,
        in_vain: int | None = None,
    ) -> Charge | Lease:
        """Charge a request, once as long as its computation lives: return the charge, or another holder's lease.

        What lies ahead must be affordable too, and so many ``later`` charges be within the analyst's limit; it is not
        charged. A request without a release whose holder has ended,
        as ``over`` says, is charged again: its next draw is another one. An analyst's cap is charged for every
        charge of what he receives, also for those that were made for somebody else: of these are no more than were
        ``in_vain`` when the caller looked, or nothing is charged.
        """
        charge, new = self.chain.charges.get(request.id), True
        attempt = 0 if charge is None else charge.attempt
        if in_vain is not None and attempt - (request.id in self.chain.released) > in_vain:
            raise ChargedMeanwhile("the request was charged by somebody else meanwhile; nothing was charged now")
        if charge is not None:
            if charge.cost != cost:
                where = "" if analyst else f", in entry {charge.entry},"
                raise LedgerError(
                    f"the request was charged {in_words(charge.cost)} before{where} and cannot cost {in_words(cost)} "
                    "now; ask for another replicate"
                )
            new = False
            if request.id not in self.chain.released:
                lease = read_lease(self.connection, charge)
                new = lease is None or lease.holder != holder.name
                if new and lease is not None and lease != over:
                    return lease
            owed = attempt - self.chain.charged_to(request.id, analyst) if analyst else 0
            if owed > 0:
                self._check_affordable(request, cost.times(owed + new), ahead, analyst=analyst, later=later)
                self._share(charge, analyst, owed)
            if not new:
                return charge
        if analyst:
            self._check_affordable(request, cost, ahead, analyst=analyst, later=later)
        self._check_affordable(request, cost, ahead, asker=analyst)
        self.append("charge", request.id, cost, attempt=attempt + 1, body=request.body, analyst=analyst)
        charge = self.chain.charges[request.id]
        write_lease(self.connection, charge, holder)
        return charge

    def _share(self, charge: Charge, analyst: str, owed: int) -> None:
        """Charge an analyst's cap for so many charges of a request that were made to the total for somebody else."""
        identity, body = share_id(charge.request_id, analyst), codec.dumps({"request": charge.request_id})
        self.append("share", identity, charge.cost.times(owed), attempt=charge.attempt, body=body, analyst=analyst)

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
        place: dict[str, Any] = {"dataset": charge.dataset, "version": charge.version, "attempt": charge.attempt}
        head = self.append("release", charge.request_id, body=release_json, **place)
        return self._stored(charge, release_json, head, analyst)

    def find(self, request_id: str, analyst: str = "") -> StoredRelease | None:
        """Return the recorded release of a request, if there is one and it was charged to the analyst, if any.

        Its entry is checked again: the chain may have been read long ago, and the row altered since.
        """
        chain = self.chain
        if request_id not in chain.released or (analyst and not chain.is_charged_to(request_id, analyst)):
            return None
        entry = Entry(**self.connection.execute(_RELEASED, {"request_id": request_id}).mappings().one())
        chain.check_known(entry)
        return self._stored(chain.charges[request_id], entry.body, entry.hash, analyst)

    def _stored(self, charge: Charge, release_json: str, head: str, analyst: str) -> StoredRelease:
        """Return what may be handed out: to an analyst with its place in his own part of the ledger."""
        of_analyst = self.chain.own_charge(charge.request_id, analyst)
        place = LedgerEntry(
            dataset=charge.dataset,
            version=charge.version,
            number=charge.entry,
            head=head,
            attempt=charge.attempt,
            account=self.chain.account(charge.dataset).id,
            charged=charge.cost,
            stored=charge.at,
        )
        if of_analyst is not None:
            place = replace(
                place, number=of_analyst.number, head=of_analyst.head, attempt=of_analyst.attempt, stored=of_analyst.at
            )
        return StoredRelease(release_json=release_json, place=place)


def verify_store(store: Store, head: str | None = None) -> Verification:
    """Recompute the chain and the sums; with ``head``, check that it is on the chain or on an analyst's own."""
    noted = None if head is None else checked_sha256(head, name="head")
    chain = store.read(partial(read_chain, whole=True))
    if noted is not None and noted not in chain.hashes and noted not in chain.heads:
        raise LedgerError(
            f"the head {noted} is not on the chain of the ledger {store.place}: entries were cut off or "
            "rewritten after it was noted; restore the file from a copy that verifies against it",
            head=noted,
        )
    return chain.verification()


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
    return verify_store(Store(path_or_url, create=False), head)
