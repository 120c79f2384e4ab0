"""The hash chain: every entry names the hash of the one before it, and the sums follow from the entries.

The hash of an entry is the SHA-256 of the canonical JSON of all its other fields. Changing, removing or
inserting an entry breaks the chain from there on. Somebody who can write the file can also rewrite the whole
chain, or cut off its end: that is found by comparing with a head that was noted elsewhere, which is why every
release carries one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, Self, final

from hdpstats._base.errors import ArgumentError, CapTooSmall, LedgerError
from hdpstats._base.validation import rational
from hdpstats.ledger.analysts import OwnCharge, OwnPart, Quota, capped, disagreeing
from hdpstats.ledger.records import Account, AccountTerms, Charge, Entry, Opening
from hdpstats.privacy.budget import NOTHING, Budget, Spend
from hdpstats.privacy.charging import Balance, agreed
from hdpstats.records import codec

GENESIS = "0" * 64
BY_SETTINGS = "settings"
"""What an entry says of a cap or a quota that the settings of a site set."""


def damaged(seq: int, reason: str) -> LedgerError:
    """Return the error that says which entry of a ledger does not verify."""
    return LedgerError(
        f"the ledger does not verify at entry {seq}: {reason}; nothing can be charged to it. "
        "Restore the file from a copy that verifies",
        entry=seq,
    )


def share_id(request_id: str, analyst: str) -> str:
    """Return the identity of the fact that an analyst receives what was charged for somebody else."""
    return codec.sha256({"share": request_id, "analyst": analyst})


def digest(fields: dict[str, Any]) -> str:
    """Return the hash of an entry from its fields (``hash`` itself is left out)."""
    return codec.sha256({name: value for name, value in fields.items() if name != "hash"})


def _is_intact(entry: Entry) -> bool:
    """Whether an entry has the hash of its other fields."""
    try:
        return entry.hash == digest(asdict(entry))
    except (TypeError, ValueError):
        return False


def _agreed(entry: Entry, amount: Spend) -> Budget:
    """Return an amount that a custodian set, if it has as few digits as such amounts have."""
    given = Budget(amount.epsilon, amount.delta)
    if given != agreed(given, name="amount"):
        raise damaged(entry.seq, "its amount is none that a custodian can set")
    return given


@final
class Chain:
    """What the entries read so far say: hashes in order, accounts, charges, and which requests were released.

    ``names`` leads from every name of a dataset to the first name of the same people, under which ``accounts``,
    ``caps`` and ``parts`` have what belongs to them; the latter two by analyst. ``held`` says to whom which request was
    charged, in order, and which number it has in his own part; ``heads`` are those of such parts. ``released`` has the
    SHA-256 of releases. ``declared`` has the caps and quotas (kind, dataset, analyst) that the settings of a site set
    last, and nobody by hand since. Entries are followed one by one, from the first, and each is checked against those
    before it.
    """

    def __init__(self) -> None:
        self.hashes: list[str] = []
        self.names: dict[str, str] = {}
        self.accounts: dict[str, Account] = {}
        self.caps: dict[tuple[str, str], Balance] = {}
        self.parts: dict[tuple[str, str], OwnPart] = {}
        self.held: dict[str, Mapping[str, OwnCharge]] = {}
        self.heads: set[str] = set()
        self.charges: dict[str, Charge] = {}
        self.released: dict[str, str] = {}
        self.declared: set[tuple[str, str, str]] = set()

    @property
    def head(self) -> str:
        """The hash of the last entry."""
        return self.hashes[-1] if self.hashes else GENESIS

    def copy(self) -> Self:
        """Return a chain that can be continued without changing this one."""
        other = type(self)()
        vars(other).update({name: value.copy() for name, value in vars(self).items()})
        return other

    def account(self, dataset: str) -> Account:
        """Return the account of a dataset under any of its names."""
        return self.accounts[self.names[dataset]]

    def balance(self, dataset: str, analyst: str = "") -> Balance | None:
        """Return what a dataset may be charged; with an analyst, what he may receive, None without a cap."""
        return self.caps.get((self.names[dataset], analyst)) if analyst else self.account(dataset).balance

    def capped(self, dataset: str) -> dict[str, Balance]:
        """Return the caps on a dataset by analyst, in the order of their first grants."""
        return {analyst: cap for (name, analyst), cap in self.caps.items() if name == self.names[dataset]}

    def part(self, dataset: str, analyst: str) -> OwnPart:
        """Return an analyst's own part of the account of a dataset."""
        name = self.names[dataset]
        return self.parts.get((name, analyst)) or OwnPart.of(self.accounts[name].id, analyst)

    def own_charge(self, request_id: str, analyst: str) -> OwnCharge | None:
        """Return where an analyst has a request, None where it was not charged to him."""
        return self.held.get(request_id, {}).get(analyst)

    def charged_to(self, request_id: str, analyst: str) -> int:
        """Return how many charges of a request count against an analyst's cap."""
        own = self.own_charge(request_id, analyst)
        return 0 if own is None else own.attempt

    def is_charged_to(self, request_id: str, analyst: str) -> bool:
        """Whether every charge of a request counts against an analyst's cap."""
        return self.charged_to(request_id, analyst) >= self.charges[request_id].attempt

    def next_entry(self, **fields: Any) -> Entry:
        """Return the entry that continues the chain with the given fields, number and hash filled in."""
        entry = Entry(**fields, seq=len(self.hashes) + 1, previous_hash=self.head, hash="")
        return replace(entry, hash=digest(asdict(entry)))

    def follow(self, entries: Iterable[Entry]) -> Self:
        """Continue the chain with entries in order. Raises a `LedgerError` at the first that does not verify."""
        for entry in entries:
            expected = len(self.hashes) + 1
            if entry.seq != expected:
                raise damaged(expected, "it is missing or out of order")
            if not _is_intact(entry):
                raise damaged(expected, "its contents were altered")
            if entry.previous_hash != self.head:
                raise damaged(expected, "it does not follow the entry before it")
            try:
                self._record(entry)
            except (ArgumentError, KeyError, TypeError, ValueError):
                raise damaged(expected, "its contents make no sense") from None
            self.hashes.append(entry.hash)
        return self

    def check_known(self, entry: Entry) -> None:
        """Raise a `LedgerError` unless an entry that is read once more is the one that the chain followed."""
        if not (entry.hash in self.hashes[entry.seq - 1 : entry.seq] and _is_intact(entry)):
            raise damaged(entry.seq, "its contents were altered")

    def _record(self, entry: Entry) -> None:
        amount = Spend(
            rational(entry.epsilon, name="epsilon"),
            rational(entry.delta, name="delta"),
            rational(entry.mu_squared, name="mu_squared"),
        )
        match entry.kind:
            case "open" if entry.dataset not in self.names:
                self._record_name(entry, _agreed(entry, amount))
            case "grant" if entry.dataset in self.names and entry.analyst:
                cap = self.with_cap(entry.dataset, entry.analyst, _agreed(entry, amount))
                self._settle(entry, entry.analyst, cap)
                self._note_origin(entry, codec.loads(entry.body))
            case "quota" if entry.dataset in self.names and entry.analyst:
                fields = codec.loads(entry.body)
                self._note_origin(entry, fields)
                part, quota = self.part(entry.dataset, entry.analyst), Quota.from_dict(fields)
                self.parts[self.names[entry.dataset], entry.analyst] = replace(part, quota=quota)
            case "divide" if entry.dataset in self.names:
                self._record_division(entry, _agreed(entry, amount))
            case "charge" if entry.dataset in self.names and entry.request_id not in self.released:
                self._record_charge(entry, amount)
            case "share" if entry.dataset in self.names and entry.analyst:
                self._record_share(entry, amount)
            case "release" if entry.request_id in self.charges and entry.request_id not in self.released:
                self._record_release(entry)
            case _:
                raise damaged(entry.seq, f"an entry {entry.kind!r} cannot stand here")
        if entry.attempt and entry.kind not in ("charge", "share", "release"):
            raise damaged(entry.seq, "it is no charge, and has the number of one")

    def _note_origin(self, entry: Entry, fields: dict[str, Any]) -> None:
        """Note whether the settings of a site set a cap or a quota; takes this out of what else the entry says."""
        self.declared.discard(key := (entry.kind, self.names[entry.dataset], entry.analyst))
        if fields.pop("by", None) == BY_SETTINGS:
            self.declared.add(key)

    def is_declared(self, kind: str, dataset: str, analyst: str) -> bool:
        """Whether the settings of a site set an analyst's cap (``grant``) or quota last."""
        return (kind, self.names[dataset], analyst) in self.declared

    def stopped(self, dataset: str, caps: Mapping[str, Budget]) -> dict[str, str]:
        """Return the analysts whose caps, as the settings of a site have them, cover less than they received, and why.

        Raises
        ------
        LedgerError
            An analyst was granted another cap by hand.
        """
        found = {}
        for analyst, cap in caps.items():
            before = self.balance(dataset, analyst)
            if before is not None and before.total != cap and not self.is_declared("grant", dataset, analyst):
                raise disagreeing(dataset, analyst, before.total, cap)
            try:
                self.with_cap(dataset, analyst, cap)
            except CapTooSmall as error:
                found[analyst] = str(error)
        return found

    def _record_name(self, entry: Entry, total: Budget) -> None:
        opening = Opening.from_dict(codec.loads(entry.body))
        account = Account(
            dataset=entry.dataset,
            relation=opening.relation,
            unit=opening.unit,
            balance=Balance(total=total),
            floor=opening.floor,
            id=entry.hash,
        )
        first = opening.same_people_as
        if first is None:
            self.accounts[entry.dataset] = account
        elif not account.agrees_with(self.accounts[first]):
            raise damaged(entry.seq, "its terms are not those of the same people's account")
        self.names[entry.dataset] = entry.dataset if first is None else first

    def with_cap(self, dataset: str, analyst: str, total: Budget) -> Balance:
        """Return the account of an analyst under a first or another cap, or raise an ArgumentError."""
        received, before = self.part(dataset, analyst).received, self.balance(dataset, analyst)
        return capped(total, received, before=before, account=self.account(dataset).balance)

    def _settle(self, entry: Entry, analyst: str, balance: Balance) -> None:
        name = self.names[entry.dataset]
        if analyst:
            self.caps[name, analyst] = balance
        else:
            self.accounts[name] = replace(self.accounts[name], balance=balance)

    def _record_division(self, entry: Entry, part: Budget) -> None:
        balance = self.balance(entry.dataset, entry.analyst)
        if balance is None or balance.gaussian is not None:
            raise damaged(entry.seq, "there is nothing to divide, or it was divided before")
        self._settle(entry, entry.analyst, replace(balance, gaussian=part))

    def _pay(self, entry: Entry, analyst: str, amount: Spend) -> None:
        balance = self.balance(entry.dataset, analyst)
        if balance is not None:
            if not balance.affords(amount):
                whose = " of the analyst's cap" if analyst else ""
                raise damaged(entry.seq, f"its cost exceeds what was left{whose}")
            self._settle(entry, analyst, balance.plus(amount))
        elif self.capped(entry.dataset):
            raise damaged(entry.seq, "its analyst has no cap, where others have")

    def _receive(self, entry: Entry, request_id: str, amount: Spend, *, charged: int) -> None:
        """Charge a request to the cap of an entry's analyst, so many charges of it in all."""
        analyst, size = entry.analyst, len(entry.body)
        part = self.part(entry.dataset, analyst)
        if not part.admits(size):
            raise damaged(entry.seq, "its analyst has caused as much as his quota allows")
        self._pay(entry, analyst, amount)
        part = part.charged(amount, size)
        self.parts[self.names[entry.dataset], analyst] = part
        self._hold(request_id, analyst, OwnCharge(number=part.charges, attempt=charged, at=entry.at))
        if request_id in self.released:
            self._hand_out(entry.dataset, analyst, request_id)

    def _hold(self, request_id: str, analyst: str, own: OwnCharge) -> None:
        self.held[request_id] = {**self.held.get(request_id, {}), analyst: own}

    def _hand_out(self, dataset: str, analyst: str, request_id: str) -> None:
        """Note in an analyst's own part that the release of a request is his."""
        key, own = (self.names[dataset], analyst), self.held[request_id][analyst]
        part = self.parts[key].handed_out(own, request_id, self.released[request_id])
        self.parts[key] = part
        self._hold(request_id, analyst, replace(own, head=part.head))
        self.heads.add(part.head)

    def _record_share(self, entry: Entry, amount: Spend) -> None:
        charge = self.charges[codec.loads(entry.body)["request"]]
        owed = charge.attempt - self.charged_to(charge.request_id, entry.analyst)
        if owed <= 0:
            raise damaged(entry.seq, "its request was charged to its analyst before")
        terms = (charge.dataset, charge.version, charge.attempt, charge.cost.times(owed))
        same = terms == (entry.dataset, entry.version, entry.attempt, amount)
        if not same or entry.request_id != share_id(charge.request_id, entry.analyst):
            raise damaged(entry.seq, "it shares something else than what was charged")
        self._receive(entry, charge.request_id, amount, charged=charge.attempt)

    def _record_charge(self, entry: Entry, amount: Spend) -> None:
        if codec.sha256(codec.loads(entry.body)) != entry.request_id:
            raise damaged(entry.seq, "its request is another than its identity says")
        if amount == NOTHING:
            raise damaged(entry.seq, "its cost is nothing")
        before = self.charges.get(entry.request_id)
        if entry.attempt != (1 if before is None else before.attempt + 1):
            raise damaged(entry.seq, "it is not the next charge of its request")
        if before is not None and before.cost != amount:
            raise damaged(entry.seq, "its cost is another than that of its request before")
        if not self.account(entry.dataset).floor.admits(amount):
            raise damaged(entry.seq, "its cost is none that the account charges")
        self._pay(entry, "", amount)
        if entry.analyst:
            if before is not None and self.charged_to(entry.request_id, entry.analyst) < before.attempt:
                raise damaged(entry.seq, "the charges before were not charged to its analyst")
            self._receive(entry, entry.request_id, amount, charged=entry.attempt)
        self.charges[entry.request_id] = Charge(
            request_id=entry.request_id,
            dataset=entry.dataset,
            version=entry.version,
            cost=amount,
            entry=entry.seq,
            attempt=entry.attempt,
            analyst=entry.analyst,
            at=entry.at,
        )

    def _record_release(self, entry: Entry) -> None:
        charge = self.charges[entry.request_id]
        if entry.attempt != charge.attempt:
            raise damaged(entry.seq, "its charge is not the latest one of its request")
        self.released[entry.request_id] = codec.sha256(entry.body)
        if charge.analyst:
            key = (self.names[entry.dataset], charge.analyst)
            part = self.parts[key]
            self.parts[key] = replace(part, bytes=part.bytes + len(entry.body))
        for analyst in self.held.get(entry.request_id, ()):
            if self.is_charged_to(entry.request_id, analyst):
                self._hand_out(entry.dataset, analyst, entry.request_id)

    def check_accounts(self, stored: Mapping[str, AccountTerms]) -> None:
        """Compare the terms of every dataset with the rows of the account table."""
        followed = {
            name: self.accounts[first].terms(same_people_as=None if name == first else first)
            for name, first in self.names.items()
        }
        for name in sorted(followed.keys() | stored.keys()):
            if followed.get(name) != stored.get(name):
                raise LedgerError(
                    f"the ledger does not verify: the account of dataset {name!r} differs from the entry that "
                    "opened it; nothing can be charged to it. Restore the file from a copy that verifies",
                    dataset=name,
                )
