"""The hash chain: every entry names the hash of the one before it, and the sums follow from the entries.

The hash of an entry is the SHA-256 of the canonical JSON of all its other fields. Changing, removing or
inserting an entry breaks the chain from there on. Somebody who can write the file can also rewrite the whole
chain, or cut off its end: that is found by comparing with a head that was noted elsewhere, which is why every
release carries one.
"""

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any, Self, final

from hdpstats._base import canonical
from hdpstats._base.errors import ArgumentError, LedgerError
from hdpstats._base.validation import rational
from hdpstats.ledger.records import Account, Charge, Entry
from hdpstats.privacy.balance import Balance
from hdpstats.privacy.budget import NOTHING, Budget, Spend

GENESIS = "0" * 64


def damaged(seq: int, reason: str) -> LedgerError:
    """Return the error that says which entry of a ledger does not verify."""
    return LedgerError(
        f"the ledger does not verify at entry {seq}: {reason}; nothing can be charged to it. "
        "Restore the file from a copy that verifies",
        entry=seq,
    )


def digest(fields: dict[str, Any]) -> str:
    """Return the hash of an entry from its fields (``hash`` itself is left out)."""
    return canonical.sha256({name: value for name, value in fields.items() if name != "hash"})


@final
class Chain:
    """What the entries read so far say: hashes in order, accounts, charges, and which requests were released.

    Entries are followed one by one, from the first, and each is checked against those before it.
    """

    def __init__(self) -> None:
        self.hashes: list[str] = []
        self.accounts: dict[str, Account] = {}
        self.charges: dict[str, Charge] = {}
        self.released: set[str] = set()

    @property
    def head(self) -> str:
        """The hash of the last entry."""
        return self.hashes[-1] if self.hashes else GENESIS

    def copy(self) -> Self:
        """Return a chain that can be continued without changing this one."""
        other = type(self)()
        other.hashes, other.accounts = self.hashes.copy(), self.accounts.copy()
        other.charges, other.released = self.charges.copy(), self.released.copy()
        return other

    def next_entry(self, **fields: Any) -> Entry:
        """Return the entry that continues the chain with the given fields, number and hash filled in."""
        fields = {**fields, "seq": len(self.hashes) + 1, "previous_hash": self.head}
        return Entry(**fields, hash=digest(fields))

    def follow(self, entries: Iterable[Entry]) -> Self:
        """Continue the chain with entries in order. Raises a `LedgerError` at the first that does not verify."""
        for entry in entries:
            self._follow(entry)
        return self

    def _follow(self, entry: Entry) -> None:
        expected = len(self.hashes) + 1
        if entry.seq != expected:
            raise damaged(expected, "it is missing or out of order")
        try:
            intact = entry.hash == digest(asdict(entry))
        except (TypeError, ValueError):
            intact = False
        if not intact:
            raise damaged(expected, "its contents were altered")
        if entry.previous_hash != self.head:
            raise damaged(expected, "it does not follow the entry before it")
        try:
            amount = Spend(
                rational(entry.epsilon, name="epsilon"),
                rational(entry.delta, name="delta"),
                rational(entry.mu_squared, name="mu_squared"),
            )
            self._record(entry, amount)
        except (ArgumentError, KeyError, TypeError, ValueError):
            raise damaged(expected, "its contents make no sense") from None
        self.hashes.append(entry.hash)

    def _record(self, entry: Entry, amount: Spend) -> None:
        match entry.kind:
            case "open" if entry.dataset not in self.accounts:
                balance = Balance(total=Budget(amount.epsilon, amount.delta))
                opened = canonical.loads(entry.body)
                unit = None if opened["unit"] is None else str(opened["unit"])
                self.accounts[entry.dataset] = Account(
                    dataset=entry.dataset, relation=str(opened["relation"]), unit=unit, balance=balance
                )
            case "divide" if entry.dataset in self.accounts:
                self._record_division(entry, Budget(amount.epsilon, amount.delta))
            case "charge" if entry.dataset in self.accounts and entry.request_id not in self.charges:
                self._record_charge(entry, amount)
            case "release" if entry.request_id in self.charges and entry.request_id not in self.released:
                self.released.add(entry.request_id)
            case _:
                raise damaged(entry.seq, f"an entry {entry.kind!r} cannot stand here")

    def _record_division(self, entry: Entry, part: Budget) -> None:
        account = self.accounts[entry.dataset]
        if account.balance.gaussian is not None:
            raise damaged(entry.seq, "the account was divided before")
        self.accounts[entry.dataset] = replace(account, balance=replace(account.balance, gaussian=part))

    def _record_charge(self, entry: Entry, amount: Spend) -> None:
        account = self.accounts[entry.dataset]
        if canonical.sha256(canonical.loads(entry.body)) != entry.request_id:
            raise damaged(entry.seq, "its request is another than its identity says")
        if amount == NOTHING or not account.balance.affords(amount):
            raise damaged(entry.seq, "its cost is nothing or exceeds what was left")
        self.accounts[entry.dataset] = replace(account, balance=account.balance.plus(amount))
        self.charges[entry.request_id] = Charge(
            request_id=entry.request_id,
            dataset=entry.dataset,
            version=entry.version,
            cost=amount,
            entry=entry.seq,
        )

    def check_accounts(self, stored: dict[str, tuple[str, str, str, str | None]]) -> None:
        """Compare the accounts with the rows of the account table: (epsilon, delta, relation, unit) by dataset."""
        totals = {name: account.balance.total for name, account in self.accounts.items()}
        followed = {
            name: (str(totals[name].epsilon), str(totals[name].delta), account.relation, account.unit)
            for name, account in self.accounts.items()
        }
        for name in sorted(followed.keys() | stored.keys()):
            if followed.get(name) != stored.get(name):
                raise LedgerError(
                    f"the ledger does not verify: the account of dataset {name!r} differs from the entry that "
                    "opened it; nothing can be charged to it. Restore the file from a copy that verifies",
                    dataset=name,
                )
