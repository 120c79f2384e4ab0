"""What an account in a ledger says: its terms, what was spent and by whom, its history, and whether it verifies."""

import os
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, final

import pandas as pd
from sqlalchemy import Connection

from hdpstats.display import details, notes, page, section
from hdpstats.ledger.analysts import Quota
from hdpstats.ledger.bookkeeping import Transaction, verify_store
from hdpstats.ledger.chain import Chain, damaged
from hdpstats.ledger.export import (
    ChargeLine,
    account_html,
    account_table,
    caps_html,
    caps_table,
    charges_html,
    history_frame,
    write_export,
)
from hdpstats.ledger.leases import read_lease
from hdpstats.ledger.records import Account, Entry, Lease, StoredRelease, Verification, checked_analyst, named_analyst
from hdpstats.ledger.store import Store, read_charge, read_charges, read_entries
from hdpstats.privacy.budget import NOTHING, Budget, Spend
from hdpstats.privacy.charging import Balance, Floor
from hdpstats.records import codec

T = TypeVar("T")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Lines:
    """What a history shows of charges, and the number of the entry up to which they were read."""

    lines: Sequence[ChargeLine] = ()
    read: int = 0


class AccountReader(ABC):
    """One account in a ledger, read: what `Ledger` has besides opening, granting and charging.

    ``_lines`` has what histories showed before, by analyst, and "" for all of them.
    """

    _store: Store
    _lines: dict[str, _Lines]
    _chain: Chain
    _dataset: str
    _version: int

    @property
    def dataset(self) -> str:
        """The name of the dataset."""
        return self._dataset

    @property
    def version(self) -> int:
        """The revision of the data that requests are made for."""
        return self._version

    @property
    def identity(self) -> str:
        """The identity of the account, drawn at random when it was opened: no other has it, in whatever ledger."""
        return self._opened().id

    @property
    def place(self) -> tuple[str, str]:
        """What only ledger objects on one account in one file or database have in common; no password."""
        return self._store.key, self._chain.account(self._dataset).id

    def shares_account_with(self, other: "AccountReader") -> bool:
        """Whether a charge to the one is a charge to the other: the same people, in the same ledger."""
        return self._latest().account(self._dataset).id == other._latest().account(other._dataset).id

    @property
    def relation(self) -> str:
        """The neighbouring relation under which costs are counted."""
        return self._opened().relation

    @property
    def unit(self) -> str | None:
        """The column that names the person, ``None`` where every row is a person."""
        return self._opened().unit

    @property
    def budget(self) -> Budget:
        """The total."""
        return self.balance.total

    @property
    def balance(self) -> Balance:
        """The account in full: the total, its division, the sums charged, and what they leave for either kind."""
        return self._account().balance

    @property
    def floor(self) -> Floor:
        """The least that one release is charged."""
        return self._opened().floor

    def charged(self, cost: Spend) -> Spend:
        """Return what a release of some cost is charged: rounded up, and at least the floor.

        >>> from fractions import Fraction
        >>> from hdpstats.ledger import Ledger
        >>> Ledger(None, dataset="trial", epsilon=3.0).charged(Spend(Fraction(1, 3))).epsilon
        Fraction(166666667, 500000000)
        """
        return self.floor.charged(cost)

    @property
    def spent(self) -> Spend:
        """An (epsilon, delta) that holds for everything charged so far, under any version and name of the dataset.

        The sum of the epsilons and deltas of releases without Gaussian noise, and from the first Gaussian one on the
        whole part that is set aside for these: it holds whenever an analyst stops, also because of what he saw.
        """
        return self.balance.spent

    @property
    def remaining(self) -> Spend:
        """What further releases without Gaussian noise may cost together.

        A divided account may afford Gaussian releases besides: they may together reach the part set aside for them
        (``balance.gaussian_remaining`` as a squared mu), which counts as spent from the first of them on.
        """
        return self.balance.remaining

    def affords(self, cost: Spend, analyst: str | None = None) -> bool:
        """Whether a cost could be charged now; for the rounds of a fit, their sum before the first is asked.

        The cost is taken as that of one charge. With an analyst, whether his cap affords it too.

        >>> from hdpstats.ledger import Ledger
        >>> Ledger(None, dataset="trial", epsilon=3.0).affords(Spend(4.0))
        False
        """
        chain = self._latest()
        cost = cost if cost == NOTHING else chain.account(self._dataset).floor.charged(cost)
        balances = [chain.account(self._dataset).balance]
        caps = chain.capped(self._dataset)
        if analyst is not None and caps:
            if checked_analyst(analyst) not in caps:
                return False
            balances.append(caps[analyst])
        return all(balance.divided_for(cost).affords(cost) for balance in balances)

    @property
    def caps(self) -> dict[str, Balance]:
        """The caps of analysts by name: how much each may receive in all, and what he has received."""
        return self._latest().capped(self._dataset)

    def quota(self, analyst: str) -> Quota:
        """Return the limits of an analyst; None in it where there is none."""
        return self._latest().part(self._dataset, checked_analyst(analyst)).quota

    def spent_by(self, analyst: str) -> Spend:
        """Return what an analyst has received: an (epsilon, delta) that holds for it if he has a cap.

        Without a cap it is the plain sums of epsilon, delta and ``mu_squared``.
        """
        chain, name = self._latest(), checked_analyst(analyst)
        cap = chain.balance(self._dataset, name)
        return chain.part(self._dataset, name).received if cap is None else cap.spent

    @property
    def head(self) -> str:
        """The hash of the last entry in the file. Noted elsewhere, it makes a later truncation visible."""
        return self._latest().head

    def _latest(self) -> Chain:
        return self._read(lambda transaction: transaction.chain)

    def _account(self) -> Account:
        return self._latest().account(self._dataset)

    def _opened(self) -> Account:
        """Return the account as it was last read: for its terms, which never change."""
        return self._chain.account(self._dataset)

    def _read(self, work: Callable[[Transaction], T]) -> T:
        """Return what is found in one state of the ledger, its chain continued."""

        def found(connection: Connection) -> tuple[Chain, T]:
            transaction = Transaction.reading(connection, self._chain, self._dataset, self._version)
            return transaction.chain, work(transaction)

        self._chain, result = self._store.read(found)
        return result

    def lease(self, request_id: str) -> Lease | None:
        """Return who computes a charged request; None where it was never charged, or has its release."""

        def latest(found: Transaction) -> Lease | None:
            charge = None if request_id in found.chain.released else found.chain.charges.get(request_id)
            return None if charge is None else read_lease(found.connection, charge)

        return self._read(latest)

    def stored(self, request_id: str, analyst: str | None = None) -> StoredRelease | None:
        """Return the recorded release of a request, for free, or ``None`` if there is none yet.

        With an analyst, ``None`` also while it was not charged to his cap: `charge` it to him and ask again.
        """
        name = named_analyst(analyst)
        return self._read(lambda found: found.find(request_id, name))

    def history(self, analyst: str | None = None) -> pd.DataFrame:
        """Return one row per charge of this dataset under any of its names, in order; public facts only.

        With an analyst: one row per release that his cap was charged for, also those charged for others before. Its
        number and date are then those of his own charge, as he is shown them: 1 is his first one.

        Columns: ``entry`` (number in the file), ``at`` (UTC, to the minute), ``dataset`` and ``version``, ``analyst``
        (for whom, if anybody was named), ``mechanism`` and ``model`` (the query's kind and formula, if any),
        ``epsilon`` and ``delta`` (of releases without Gaussian noise), ``mu`` (of those with), ``released`` (whether a
        release was recorded for this charge: not for one whose process ended before), ``request`` (first 12 digits of
        its identity).

        Each charge that is shown was read and compared with its hash in the chain, and their number is that of the
        chain. Other entries are not followed again (`verify` does); of the charges only what came since this object
        showed them last is read: it takes no longer because of what others asked.
        """
        name = named_analyst(analyst)

        def shown(found: Transaction) -> pd.DataFrame:
            lines = self._lines[name] = self._continued(self._lines.get(name, _Lines()), found, name)
            return history_frame(lines.lines, found.chain, analyst=name)

        return self._read(shown)

    def _continued(self, known: "_Lines", found: Transaction, analyst: str) -> "_Lines":
        """Return the lines of all charges, those that are known and what was written since."""
        chain, first = found.chain, found.chain.names[self._dataset]
        names, lines = [name for name, each in chain.names.items() if each == first], list(known.lines)
        for entry in read_charges(found.connection, names, after=known.read, analyst=analyst):
            chain.check_known(entry)
            shared = None
            if entry.kind == "share":
                shared = read_charge(found.connection, codec.loads(entry.body)["request"], entry.attempt)
                if shared is None:
                    raise damaged(entry.seq, "what it shares is missing")
                chain.check_known(shared)
            lines.append(ChargeLine.of(entry, shared or entry))
        if len(lines) != chain.charges_of(self._dataset, analyst):
            raise damaged(len(chain.hashes), "charges before it are missing")
        return _Lines(lines=lines, read=len(chain.hashes))

    def _entries(self) -> tuple[Chain, list[Entry]]:
        """Return the entries of this dataset's account, none of which is shown unless the whole file verifies."""
        name = self._latest().names[self._dataset]

        def read(connection: Connection) -> tuple[Chain, list[Entry]]:
            chain, entries = Chain(), []
            for entry in read_entries(connection):
                chain.follow([entry])
                if chain.names[entry.dataset] == name:
                    entries.append(entry)
            return chain, entries

        return self._store.read(read)

    def verify(self, head: str | None = None) -> Verification:
        """Recompute every hash and every sum of the whole file, in time proportional to its entries.

        Parameters
        ----------
        head
            A hash noted earlier, from `head` or from a result; it must still be on the chain. Without it a
            file whose end was cut off, or that was rewritten from the beginning, cannot be recognised.

        Raises
        ------
        LedgerError
            If anything is damaged; the message and the fact ``entry`` say where.
        """
        self._latest()
        return verify_store(self._store, head)

    def verify_after(self, entry: int) -> Verification:
        """Return the hashes of all entries, where that of an entry is known from elsewhere and compared with them.

        Entries before a checkpoint that the known entry is not before are taken from it (`hdpstats.ledger.chain` says
        why that is enough to notice a ledger that was replaced); all others are followed.

        Parameters
        ----------
        entry
            The number of the entry whose hash is known.

        Raises
        ------
        LedgerError
            As `verify`, for entries that are followed.
        """
        chain = self._latest()
        return chain.verification() if chain.resumed <= entry else self.verify()

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write this dataset's entries to ``path``: JSON with totals, terms and head, or CSV, by suffix.

        Raises
        ------
        ArgumentError
            If the suffix is neither ``.json`` nor ``.csv``.
        LedgerError
            If the file cannot be written.
        """
        chain, entries = self._entries()
        write_export(Path(path), dataset=self._dataset, chain=chain, entries=entries)

    def __repr__(self) -> str:
        return f"Ledger({self._store.place!r}, dataset={self._dataset!r}, version={self._version})"

    def __str__(self) -> str:
        chain = self._latest()
        account, first = chain.account(self._dataset), chain.names[self._dataset]
        charges = sum(chain.names[charge.dataset] == first for charge in chain.charges.values())
        same = "" if first == self._dataset else f", same people as {first!r}"
        title = f"Ledger of dataset {self._dataset!r}, version {self._version}{same}, in {self._store.place}"
        noun = "charge" if charges == 1 else "charges"
        unit = "" if account.unit is None else f", unit {account.unit!r}"
        tables = account_table(account.balance) + caps_table(chain.capped(self._dataset))
        return f"{title}\n{tables}\n{charges} {noun}, relation {account.relation}{unit}"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        unit = [f"unit {self.unit!r}"] if self.unit else []
        charges = self.history()
        title = "1 charge" if len(charges) == 1 else f"{len(charges)} charges"
        parts = [self.as_html(), details(title, charges_html(charges)), notes([f"kept in {self._store.place}"])]
        terms = [f"version {self._version}", f"relation {self.relation}", *unit]
        return page(f"Ledger of dataset {self._dataset!r}", *parts, badges=terms)

    def as_html(self) -> str:
        """Return bars of what is spent, and the caps of analysts, as HTML."""
        return account_html(self.balance) + caps_html(self.caps)


_OPEN: Final = 5
"""Of how many accounts the bars are shown without a click."""


def accounts_html(ledgers: Mapping[str, AccountReader], *, elsewhere: int = 0) -> str:
    """Return the bars of every account; ``elsewhere`` sites keep theirs themselves."""
    accounts = "".join(section(f"Privacy spent at {name}", ledger.as_html()) for name, ledger in ledgers.items())
    shown = accounts if len(ledgers) <= _OPEN else details(f"Privacy spent at {len(ledgers)} sites", accounts)
    return shown + notes([elsewhere_words(elsewhere)] if elsewhere else [])


def elsewhere_words(count: int) -> str:
    """Say that so many sites keep their accounts themselves."""
    keep = "site keeps its account itself" if count == 1 else "sites keep their accounts themselves"
    return f"{count} {keep}: study.sites[name].account() asks for your part."
