"""The hash chain: every entry names the hash of the one before it, and the sums follow from the entries.

The hash of an entry is the SHA-256 of the canonical JSON of all its other fields. Changing, removing or
inserting an entry breaks the chain from there on. Somebody who can write the file can also rewrite the whole
chain, or cut off its end: that is found by comparing with a head that was noted elsewhere, which is why every
release carries one.

**Checkpoints.** After every thousand entries or so an entry of the kind ``checkpoint`` is written. It names the SHA-256
of what the entries since the last one say, and of the sums up to here, and the hash of the checkpoint before; the text
itself is in a table beside. So a long ledger is opened without following all of it: the texts are read, compared with
the hashes that the chain has of them, and the entries after the last checkpoint are followed. Entries before it are not
read then: one that was altered is noticed when it is used (a release that is handed out is compared with its hash), and
by `Ledger.verify`, which follows every entry and computes every checkpoint again.

What a checkpoint says is what its writer wrote: somebody who can write the file could append one with smaller sums,
as he could rewrite the chain. A head that was noted later covers a checkpoint, as the hash of the checkpoint's entry is
on the way to it. So whoever compares with a noted head takes no checkpoint after it, but follows everything
(`hdpstats.custodian.kept_head.check_heads`).
"""

import hashlib
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, Final, Self, final, overload

from hdpstats._base.caching import remembered
from hdpstats._base.errors import ArgumentError, CapTooSmall, LedgerError
from hdpstats._base.validation import rational
from hdpstats.ledger.analysts import OwnCharge, OwnPart, Quota, capped, disagreeing
from hdpstats.ledger.records import Account, AccountTerms, Charge, Entry, Opening, Verification
from hdpstats.privacy.budget import NOTHING, Budget, Spend
from hdpstats.privacy.composition import Balance, agreed
from hdpstats.records import codec

GENESIS = "0" * 64
BY_SETTINGS = "settings"
"""What an entry says of a cap or a quota that the settings of a site set."""
EVERY: Final = 1000
"""After how many entries a checkpoint is due."""
_FIELDS: Final = tuple(field.name for field in fields(Entry) if field.name != "hash")
_values = attrgetter(*_FIELDS)
_SENSELESS: Final = (ArgumentError, KeyError, TypeError, ValueError, IndexError)
"""What reading fields that make no sense raises."""


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


def _hash_of(entry: Entry) -> str:
    return digest(dict(zip(_FIELDS, _values(entry), strict=True)))


def _is_intact(entry: Entry) -> bool:
    """Whether an entry has the hash of its other fields."""
    try:
        return entry.hash == _hash_of(entry)
    except (TypeError, ValueError):
        return False


def _text_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@remembered(1024)
def _spend(epsilon: str, delta: str, mu_squared: str) -> Spend:
    """Return an amount from its texts; most charges of a ledger cost the same as others."""
    return Spend(
        rational(epsilon, name="epsilon"), rational(delta, name="delta"), rational(mu_squared, name="mu_squared")
    )


def _texts(amount: Spend) -> list[str]:
    return [str(amount.epsilon), str(amount.delta), str(amount.mu_squared)]


def _agreed(entry: Entry, amount: Spend) -> Budget:
    """Return an amount that a custodian set, if it has as few digits as such amounts have."""
    given = Budget(amount.epsilon, amount.delta)
    if given != agreed(given, name="amount"):
        raise damaged(entry.seq, "its amount is none that a custodian can set")
    return given


@final
class Hashes(Sequence[str]):
    """The hashes of entries in order. A copy shares those up to the last checkpoint."""

    def __init__(self, settled: Sequence[str] = (), recent: Iterable[str] = ()) -> None:
        self._settled, self.recent = settled, list(recent)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._settled) + len(self.recent)

    def __iter__(self) -> Iterator[str]:
        """Return them in order."""
        yield from self._settled
        yield from self.recent

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        """Return one or several."""
        if isinstance(place, slice):
            return [self[position] for position in range(*place.indices(len(self)))]
        before = len(self._settled)
        index = place + len(self) if place < 0 else place
        if not 0 <= index < len(self):
            raise IndexError("there is no such entry")
        return self._settled[index] if index < before else self.recent[index - before]

    def copy(self) -> "Hashes":
        """Return hashes that can be continued without changing these."""
        return Hashes(self._settled, self.recent)

    def settled(self) -> "Hashes":
        """Return the same hashes, all of them shared by copies."""
        return Hashes([*self._settled, *self.recent])


@final
class Chain:
    """What the entries read so far say: hashes in order, accounts, charges, and which requests were released.

    ``names`` leads from every name of a dataset to the first name of the same people, under which ``accounts``,
    ``caps`` and ``parts`` have what belongs to them; the latter two by analyst. ``held`` says to whom which request was
    charged, in order, and which number it has in his own part. ``released`` has the SHA-256 of releases. ``declared``
    has the caps and quotas (kind, dataset, analyst) that the settings of a site set last, and nobody by hand since.
    Entries are followed one by one, and each is checked against those before it. ``checkpoint`` is the hash of the last
    checkpoint, and ``resumed`` the number of the one whose text was taken instead of the entries up to it; 0 where all
    were followed.

    The first mapping of ``held``, ``charges`` and ``released`` has what came since the last checkpoint; copies share
    the second.
    """

    def __init__(self) -> None:
        self.hashes = Hashes()
        self.names: dict[str, str] = {}
        self.accounts: dict[str, Account] = {}
        self.caps: dict[tuple[str, str], Balance] = {}
        self.parts: dict[tuple[str, str], OwnPart] = {}
        self.declared: set[tuple[str, str, str]] = set()
        self.held: ChainMap[str, Mapping[str, OwnCharge]] = ChainMap({}, {})
        self.charges: ChainMap[str, Charge] = ChainMap({}, {})
        self.released: ChainMap[str, str] = ChainMap({}, {})
        self.checkpoint = ""
        self.resumed = 0

    @property
    def head(self) -> str:
        """The hash of the last entry."""
        return self.hashes[-1] if self.hashes else GENESIS

    def copy(self) -> Self:
        """Return a chain that can be continued without changing this one."""
        other = type(self)()
        immutable = (str, int)
        vars(other).update(
            {name: value if isinstance(value, immutable) else value.copy() for name, value in vars(self).items()}
        )
        return other

    @property
    def heads(self) -> set[str]:
        """The heads of analysts' own parts after each release that could be handed out to them."""
        return {charge.head for held in self.held.values() for charge in held.values() if charge.head}

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether so many entries were written since the last checkpoint that another one is to be."""
        return len(self.hashes.recent) >= EVERY

    def since_checkpoint(self) -> str:
        """Return what entries say since the last checkpoint, and the sums up to here, as canonical JSON.

        Names, accounts, caps, parts and what is declared are few and written in full; of hashes, charges and releases,
        the new ones.
        """
        charges = [
            [
                charge.request_id,
                charge.dataset,
                charge.version,
                _texts(charge.cost),
                charge.entry,
                charge.attempt,
                charge.analyst,
                charge.at,
            ]
            for charge in self.charges.maps[0].values()
        ]
        held = [
            [
                request,
                [
                    [analyst, charge.number, charge.attempt, charge.head, charge.at]
                    for analyst, charge in charges.items()
                ],
            ]
            for request, charges in self.held.maps[0].items()
        ]
        return codec.dumps(
            {
                "hashes": self.hashes.recent,
                "names": list(self.names.items()),
                "accounts": [[name, codec.to_dict(account)] for name, account in self.accounts.items()],
                "caps": [[*key, codec.to_dict(cap)] for key, cap in self.caps.items()],
                "parts": [[*key, codec.to_dict(part)] for key, part in self.parts.items()],
                "declared": sorted(self.declared),
                "charges": charges,
                "released": list(self.released.maps[0].items()),
                "held": held,
            }
        )

    def _settle_all(self) -> None:
        """Let copies share everything so far."""
        self.hashes = self.hashes.settled()
        self.held = ChainMap({}, {**self.held.maps[1], **self.held.maps[0]})
        self.charges = ChainMap({}, {**self.charges.maps[1], **self.charges.maps[0]})
        self.released = ChainMap({}, {**self.released.maps[1], **self.released.maps[0]})

    def checkpoint_body(self, state: str) -> str:
        """Return the body of a checkpoint's entry for a text of `since_checkpoint`."""
        return codec.dumps({"state": _text_hash(state), "before": self.checkpoint})

    @classmethod
    def resume(cls, checkpoints: Iterable[tuple[Entry, str]]) -> Self:
        """Return the chain up to the last of all its checkpoints, each given by its entry and its text.

        Raises
        ------
        LedgerError
            If one is altered, missing, or another than its entry says.
        """
        self, hashes = cls(), list[str]()
        state: dict[str, Any] = {}
        for entry, written in checkpoints:
            is_next = entry.kind == "checkpoint" and entry.body == self.checkpoint_body(written)
            if not (is_next and _is_intact(entry)):
                raise damaged(entry.seq, "its checkpoint was altered, or is not the one that follows")
            try:
                state = codec.loads(written)
                hashes += state["hashes"]
                self._take_new(state)
                if (entry.seq, entry.previous_hash) != (len(hashes) + 1, hashes[-1]):
                    raise damaged(entry.seq, "it does not follow the entry before it")
            except _SENSELESS:
                raise damaged(entry.seq, "its checkpoint makes no sense") from None
            hashes.append(entry.hash)
            self.checkpoint, self.resumed = entry.hash, entry.seq
        if state:
            self.hashes = Hashes(hashes)
            try:
                self._take_sums(state)
            except _SENSELESS:
                raise damaged(self.resumed, "its checkpoint makes no sense") from None
        return self

    def _take_new(self, state: Mapping[str, Any]) -> None:
        """Take the charges and releases that a text of `since_checkpoint` has."""
        charges, released, held = self.charges.maps[1], self.released.maps[1], self.held.maps[1]
        for request, dataset, version, cost, number, attempt, analyst, at in state["charges"]:
            charges[request] = Charge(
                request_id=request,
                dataset=dataset,
                version=version,
                cost=_spend(*cost),
                entry=number,
                attempt=attempt,
                analyst=analyst,
                at=at,
            )
        released.update(state["released"])
        for request, owners in state["held"]:
            held[request] = {
                analyst: OwnCharge(number=number, attempt=attempt, head=head, at=at)
                for analyst, number, attempt, head, at in owners
            }

    def _take_sums(self, state: Mapping[str, Any]) -> None:
        """Take the accounts, caps and parts that a text of `since_checkpoint` has."""
        self.names = dict(state["names"])
        self.accounts = {name: codec.from_dict(Account, account) for name, account in state["accounts"]}
        self.declared = {(kind, name, analyst) for kind, name, analyst in state["declared"]}
        self.caps = {(name, analyst): codec.from_dict(Balance, balance) for name, analyst, balance in state["caps"]}
        self.parts = {(name, analyst): codec.from_dict(OwnPart, part) for name, analyst, part in state["parts"]}

    def verification(self) -> Verification:
        """Return what is said of a chain that verifies."""
        return Verification(
            entries=len(self.hashes), head=self.head, datasets=tuple(sorted(self.names)), hashes=tuple(self.hashes)
        )

    def account(self, dataset: str) -> Account:
        """Return the account of a dataset under any of its names."""
        return self.accounts[self.names[dataset]]

    def is_used_up(self) -> bool:
        """Whether no account affords any further charge."""
        return not any(account.left() for account in self.accounts.values())

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

    def charges_of(self, dataset: str, analyst: str = "") -> int:
        """Return how many charges an account has, or were made to an analyst in it, shares included."""
        if analyst:
            return self.part(dataset, analyst).charges
        first = self.names[dataset]
        return sum(charge.attempt for charge in self.charges.values() if self.names[charge.dataset] == first)

    def own_charge(self, request_id: str, analyst: str) -> OwnCharge | None:
        """Return where an analyst has a request, None where it was not charged to him."""
        return self.held.get(request_id, {}).get(analyst)

    def charged_to(self, request_id: str, analyst: str) -> int:
        """Return how many charges of a request count against an analyst's cap."""
        charge = self.own_charge(request_id, analyst)
        return 0 if charge is None else charge.attempt

    def is_charged_to(self, request_id: str, analyst: str) -> bool:
        """Whether every charge of a request counts against an analyst's cap."""
        return self.charged_to(request_id, analyst) >= self.charges[request_id].attempt

    def next_entry(self, **fields: Any) -> Entry:
        """Return the entry that continues the chain with the given fields, number and hash filled in."""
        entry = Entry(**fields, seq=len(self.hashes) + 1, previous_hash=self.head, hash="")
        return replace(entry, hash=_hash_of(entry))

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
            except _SENSELESS:
                raise damaged(expected, "its contents make no sense") from None
            self.hashes.recent.append(entry.hash)
            if entry.kind == "checkpoint":
                self.checkpoint = entry.hash
                self._settle_all()
        return self

    def check_known(self, entry: Entry) -> None:
        """Raise a `LedgerError` unless an entry that is read once more is the one that the chain followed."""
        if not (entry.hash in self.hashes[entry.seq - 1 : entry.seq] and _is_intact(entry)):
            raise damaged(entry.seq, "its contents were altered")

    def _record(self, entry: Entry) -> None:
        amount = _spend(entry.epsilon, entry.delta, entry.mu_squared)
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
                stopped = fields.pop("stopped", None) is True or None
                part, quota = self.part(entry.dataset, entry.analyst), Quota.from_dict(fields)
                self.parts[self.names[entry.dataset], entry.analyst] = replace(part, quota=quota, stopped=stopped)
            case "divide" if entry.dataset in self.names:
                self._record_division(entry, _agreed(entry, amount))
            case "charge" if entry.dataset in self.names and entry.request_id not in self.released:
                self._record_charge(entry, amount)
            case "share" if entry.dataset in self.names and entry.analyst:
                self._record_share(entry, amount)
            case "release" if entry.request_id in self.charges and entry.request_id not in self.released:
                self._record_release(entry)
            case "checkpoint" if entry.dataset in self.names and amount == NOTHING:
                if entry.body != self.checkpoint_body(self.since_checkpoint()):
                    raise damaged(entry.seq, "its checkpoint says something else than the entries before it")
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

    def quota_by_hand(self, dataset: str, analyst: str, limits: Quota) -> bool:
        """Whether an analyst's quota was set by hand, and stays where the settings of a site say another one."""
        return not self.is_declared("quota", dataset, analyst) and self.part(dataset, analyst).quota not in (
            Quota(),
            limits,
        )

    def stopped(self, dataset: str, caps: Mapping[str, Budget]) -> dict[str, str]:
        """Return the analysts whose caps, as the settings of a site have them, cover less than they received, and why.

        Raises
        ------
        LedgerError
            An analyst was granted another cap by hand.
        """
        too_small = {}
        for analyst, cap in caps.items():
            before = self.balance(dataset, analyst)
            if before is not None and before.total != cap and not self.is_declared("grant", dataset, analyst):
                raise disagreeing(dataset, analyst, before.total, cap)
            try:
                self.with_cap(dataset, analyst, cap)
            except CapTooSmall as error:
                too_small[analyst] = str(error)
        return too_small

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

    def _hold(self, request_id: str, analyst: str, charge: OwnCharge) -> None:
        self.held[request_id] = {**self.held.get(request_id, {}), analyst: charge}

    def _hand_out(self, dataset: str, analyst: str, request_id: str) -> None:
        """Note in an analyst's own part that the release of a request is his."""
        key, charge = (self.names[dataset], analyst), self.held[request_id][analyst]
        part = self.parts[key].handed_out(charge, request_id, self.released[request_id])
        self.parts[key] = part
        self._hold(request_id, analyst, replace(charge, head=part.head))

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
        if _text_hash(entry.body) != entry.request_id and codec.sha256(codec.loads(entry.body)) != entry.request_id:
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
