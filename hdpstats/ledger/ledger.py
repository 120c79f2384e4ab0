"""The ledger of a dataset: charge, compute, record the release, hand it out."""

import os
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar, final

import pandas as pd
from sqlalchemy import Connection

from hdpstats._base.errors import ArgumentError, LedgerError
from hdpstats._base.validation import choice, exact, integer, text
from hdpstats.display import details, notes, page
from hdpstats.ledger.bookkeeping import (
    add_charge,
    add_grant,
    add_quota,
    add_release,
    continue_chain,
    find_release,
    held_chain,
    open_account,
    read_chain,
)
from hdpstats.ledger.chain import Chain
from hdpstats.ledger.export import account_table, caps_table, history_frame, outlined, write_export
from hdpstats.ledger.leases import Holder, add_beat, own_holder, read_lease
from hdpstats.ledger.location import locate
from hdpstats.ledger.own import Quota
from hdpstats.ledger.page import account_html, caps_html, charges_html
from hdpstats.ledger.records import (
    LARGEST_VERSION,
    Account,
    Charge,
    Entry,
    Lease,
    Request,
    StoredRelease,
    Verification,
    checked_analyst,
    checked_dataset,
)
from hdpstats.ledger.refusals import check_terms
from hdpstats.ledger.store import Store, read_entries
from hdpstats.ledger.verification import verify_store
from hdpstats.privacy.balance import Balance
from hdpstats.privacy.budget import NOTHING, Budget, Spend
from hdpstats.privacy.charging import Floor, agreed
from hdpstats.privacy.relation import Relation

Number = int | float | Fraction | Decimal
T = TypeVar("T")


@final
class Ledger:
    """The account of the privacy spent on a dataset: durable, exact, append-only, tamper-evident.

    A release is charged before private rows are touched, and recorded before it is handed out. A charge is
    never refunded, and pays for one draw of the noise. An identical request returns the recorded release for free.
    Amounts are exact fractions, and what they amount to never exceeds the total, whatever the number of processes that
    charge at once, and although each request may be chosen after seeing the releases before it.

    Releases without Gaussian noise cost an epsilon and a delta, which add up (Dwork et al. 2006). Releases with
    Gaussian noise cost a ``mu`` whose squares add up, and amount together to far less than the sum of their epsilons
    (Dong et al. 2022). An account that takes both kinds is divided once, before the first Gaussian release
    (`hdpstats.privacy.balance` says why): a part of epsilon and delta is set aside for Gaussian ones. Declare it
    with ``gaussian=``; else the first Gaussian release sets aside what it was asked to keep and half of what is left
    besides. An account whose delta is 0 refuses Gaussian releases.

    What is charged is a multiple of 10^-9 in epsilon (10^-30 in delta, 10^-18 in ``mu`` squared), rounded up, and not
    less than the account's ``floor``: so the account remains readable whatever it was asked. Totals, caps and parts are
    rounded down to these multiples.

    A release belongs to a dataset and version, never to a hash of the data: data that changed get a new
    ``version``, which inherits what was spent, because the people in it may be the same. So does another dataset with
    the same people in it, which is opened with ``same_people_as``: it is a further name of the same account.

    The total covers everybody who receives releases together. Under it, `grant` limits what one analyst may receive.

    Parameters
    ----------
    path_or_url
        A file on a local disk (created if it does not exist; not a network share, where SQLite's write-ahead
        log does not work), a database URL such as ``postgresql://user@host/ledgers``, or ``None`` for a ledger that
        lasts as long as this process.
    dataset
        The custodian's name for the data. One file may hold the accounts of several datasets.
    same_people_as
        Another dataset in the same file whose account this one shares: its total, its terms, what was spent, and the
        caps of its analysts.
    version
        The number of the data's revision.
    epsilon, delta
        The total that all releases from the dataset may cost together.
    gaussian
        The part of the total, an epsilon and a delta, that is set aside for releases with Gaussian noise.
    relation
        Under which neighbouring relation the costs are counted: ``"replace_one"`` or ``"add_or_remove_one"``.
    unit
        The column that names the person where people have several rows, ``None`` where every row is a person. Costs
        of one row and costs of all rows of a person are different things, which an account does not add up.
    floor
        The least epsilon that one release is charged, 0.0001 by default (the total where that is less); one with
        Gaussian noise is charged the same part of what the account affords (`hdpstats.privacy.charging`).

    Raises
    ------
    ArgumentError
        If an argument has a wrong type or value.
    LedgerError
        If the file cannot be opened or does not verify, or the account was opened with other terms.

    Examples
    --------
    >>> ledger = Ledger(None, dataset="trial", epsilon=3.0)
    >>> print(ledger)
    Ledger of dataset 'trial', version 1, in memory
                   epsilon        delta
    total                3            0
    spent                0            0
    remaining            3            0
    0 charges, relation replace_one
    """

    _watcher: Callable[[int, str], None] | None = None

    def __init__(
        self,
        path_or_url: str | os.PathLike[str] | None,
        *,
        dataset: str,
        version: int = 1,
        epsilon: Number,
        delta: Number = 0,
        gaussian: Budget | None = None,
        relation: str = "replace_one",
        unit: str | None = None,
        same_people_as: str | None = None,
        floor: Number | None = None,
    ) -> None:
        if not (gaussian is None or isinstance(gaussian, Budget)):
            raise ArgumentError("gaussian must be a Budget, the part for Gaussian noise, or None", argument="gaussian")
        total = agreed(Budget(exact(epsilon, name="epsilon"), exact(delta, name="delta")), name="the total")
        account = Account(
            dataset=checked_dataset(dataset),
            relation=choice(relation, name="relation", options=[each.value for each in Relation]),
            unit=None if unit is None else text(unit, name="unit", longest=100),
            balance=Balance(total=total, gaussian=None if gaussian is None else agreed(gaussian, name="gaussian")),
            floor=Floor.of(total, floor),
        )
        same = None if same_people_as is None else checked_dataset(same_people_as, name="same_people_as")
        self._dataset = account.dataset
        self._version = integer(version, name="version", lower=1, upper=LARGEST_VERSION)
        self._store = Store(locate(path_or_url), create=True)
        self._store.write(self._store.prepare)
        self._chain = self._store.read(read_chain)
        if self._dataset not in self._chain.names:
            opening = partial(open_account, same_people_as=same, floor_asked=floor is not None)
            self._write(partial(opening, asked=account, version=self._version))
        check_terms(self._account(), account, floor_asked=floor is not None)
        names = self._chain.names
        if same is not None and names.get(same) != names[self._dataset]:
            raise LedgerError(
                f"dataset {self._dataset!r} has an account of its own, which cannot be joined to that of {same!r} now; "
                "open it without same_people_as="
            )

    @classmethod
    def open_existing(
        cls, path_or_url: str | os.PathLike[str], *, dataset: str | None = None, version: int = 1
    ) -> Self:
        """Open an account that exists, on its own terms; opening it changes nothing.

        Parameters
        ----------
        path_or_url
            The ledger's file or database URL. A read-only copy will do.
        dataset
            Which account; may be left out where there is only one.
        version
            The revision of the data that requests will be made for.

        Raises
        ------
        LedgerError
            If there is no such ledger or account, or the ledger does not verify.
        ArgumentError
            If the ledger holds several datasets and none is named.
        """
        self = cls.__new__(cls)
        self._version = integer(version, name="version", lower=1, upper=LARGEST_VERSION)
        self._store = Store(locate(path_or_url), create=False)
        self._store.read(self._store.prepare)
        self._chain = self._store.read(read_chain)
        self._dataset = self._only_dataset() if dataset is None else checked_dataset(dataset)
        if self._dataset not in self._chain.names:
            held = ", ".join(map(repr, self._chain.names)) or "none"
            raise LedgerError(f"the ledger {self._store.place} has no dataset {self._dataset!r}; its datasets: {held}")
        return self

    def _only_dataset(self) -> str:
        if len(self._chain.names) != 1:
            held = ", ".join(map(repr, self._chain.names)) or "none"
            raise ArgumentError(
                f"dataset must be named where a ledger does not hold exactly one; its datasets: {held}",
                argument="dataset",
            )
        return next(iter(self._chain.names))

    @property
    def dataset(self) -> str:
        """The name of the dataset."""
        return self._dataset

    @property
    def version(self) -> int:
        """The revision of the data that requests are made for."""
        return self._version

    @property
    def place(self) -> tuple[str, str]:
        """What only ledger objects on one account in one file or database have in common; no password."""
        return self._store.key, self._chain.account(self._dataset).id

    def shares_account_with(self, other: "Ledger") -> bool:
        """Whether a charge to the one is a charge to the other: the same people, in the same ledger."""
        return self._latest().account(self._dataset).id == other._latest().account(other._dataset).id

    @property
    def relation(self) -> str:
        """The neighbouring relation under which costs are counted."""
        return self._account().relation

    @property
    def unit(self) -> str | None:
        """The column that names the person, ``None`` where every row is a person."""
        return self._account().unit

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
        return self._chain.account(self._dataset).floor

    def charged(self, cost: Spend) -> Spend:
        """Return what a release of some cost is charged: rounded up, and at least the floor.

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

    def grant(
        self,
        analyst: str,
        *,
        epsilon: Number,
        delta: Number = 0,
        most_charges: int | None = None,
        most_bytes: int | None = None,
    ) -> Balance:
        """Let an analyst receive releases of so much in all, and return his account under that cap.

        A cap is no part of the total that is kept for him: the total covers all analysts together, and caps may add up
        to more. Once anybody has a cap, an analyst without one is refused. Granting the same cap again changes nothing;
        granting another replaces it. What he has received counts, also from before the first grant.

        A cap is counted like the total: it is divided before its first Gaussian release, and a cap whose delta is 0
        takes none. From that release on the part set aside is fixed: a larger cap leaves more for other releases, and
        one that does not cover that part is refused (`hdpstats.ledger.caps` says why).

        Parameters
        ----------
        analyst
            His name, as `charge` will be told it.
        epsilon, delta
            What all that he receives may amount to.
        most_charges, most_bytes
            His quota, as in `limit`; as before where they are left out.

        Raises
        ------
        ArgumentError
            If a value is none of an amount, or does not cover what the analyst has received.
        LedgerError
            If the ledger is damaged or cannot be written.

        Examples
        --------
        >>> ledger = Ledger(None, dataset="trial", epsilon=3.0)
        >>> print(ledger.grant("ana", epsilon=1.0).remaining)
        epsilon = 1, delta = 0
        """
        cap = agreed(Budget(exact(epsilon, name="epsilon"), exact(delta, name="delta")), name="the cap")
        name, (charges, size) = checked_analyst(analyst), _quota(most_charges, most_bytes)

        def granted(connection: Connection, chain: Chain) -> Balance:
            add_quota(connection, chain, self._dataset, self._version, name, charges, size)
            return add_grant(connection, chain, self._dataset, self._version, name, cap)

        return self._write(granted)

    def limit(self, analyst: str, *, most_charges: int | None = None, most_bytes: int | None = None) -> Quota:
        """Limit how many charges an analyst may cause in this account, and how much he may have stored.

        It is no matter of privacy: everybody reads and verifies all entries, so that one who asks without end slows
        down the others. What he has caused counts, also from before. A request beyond the limit is refused before
        anything is charged (`QuotaExceeded`); what he has paid for he still receives.

        Parameters
        ----------
        analyst
            His name, as `charge` will be told it.
        most_charges
            How many charges he may cause, those of what was charged for others before included; 0 stops him. As before
            by default, and at first without limit.
        most_bytes
            How many bytes of requests and releases may be stored for him; the last release may go beyond.

        Returns
        -------
        Quota
            His limits now.
        """
        charges, size = _quota(most_charges, most_bytes)
        writing = partial(add_quota, dataset=self._dataset, version=self._version, analyst=checked_analyst(analyst))
        return self._write(partial(writing, charges=charges, size=size))

    def quota(self, analyst: str) -> Quota:
        """Return the limits of an analyst; None in it where there is none."""
        return self._latest().quota(self._dataset, checked_analyst(analyst))

    def spent_by(self, analyst: str) -> Spend:
        """Return what an analyst has received: an (epsilon, delta) that holds for it if he has a cap.

        Without a cap it is the plain sums of epsilon, delta and ``mu_squared``.
        """
        chain, name = self._latest(), checked_analyst(analyst)
        cap = chain.balance(self._dataset, name)
        return chain.received.get((chain.names[self._dataset], name), NOTHING) if cap is None else cap.spent

    @property
    def head(self) -> str:
        """The hash of the last entry in the file. Noted elsewhere, it makes a later truncation visible."""
        return self._latest().head

    def _latest(self) -> Chain:
        self._read(lambda _connection, _chain: None)
        return self._chain

    def _read(self, work: Callable[[Connection, Chain], T]) -> T:
        """Return what is found in one state of the ledger, its chain continued."""

        def transaction(connection: Connection) -> tuple[Chain, T]:
            chain = continue_chain(connection, self._chain)
            return chain, work(connection, chain)

        self._chain, found = self._store.read(transaction)
        return found

    def _write(self, work: Callable[[Connection, Chain], T]) -> T:
        """Return what was written in one transaction that holds the ledger, its chain continued."""

        def transaction(connection: Connection) -> tuple[Chain, T]:
            chain = held_chain(connection, self._chain)
            return chain, work(connection, chain)

        chain, written = self._store.write(transaction)
        self._chain = chain
        if self._watcher is not None:
            self._watcher(len(chain.hashes), chain.head)
        return written

    def watch(self, watcher: Callable[[int, str], None]) -> None:
        """Have a function told the number of entries and the head after all that this object writes.

        It is called when the entries are durable and before anything is made of them; what it raises is raised.
        """
        self._watcher = watcher

    def _account(self) -> Account:
        return self._latest().account(self._dataset)

    def charge(
        self,
        request: Request,
        cost: Spend,
        ahead: Sequence[Spend] = (),
        analyst: str | None = None,
        *,
        holder: Holder | None = None,
        over: Lease | None = None,
    ) -> Charge | Lease:
        """Charge a request; durable when this returns, and the permission to compute its release **once**.

        A request is charged once as long as the computation that it was charged for lives: the same holder receives
        the same charge again, and goes on with the noise that it has drawn; everybody else receives the *lease* of the
        holder, and waits for the stored release (`hdpstats.ledger.leases`). Where the holder is given up, the request
        is charged again (``over=``), and the new charge has a draw of its own.

        An analyst pays for a request out of his cap as well: once for each of its charges. If it was charged for
        somebody else before, his cap is charged and the total is not; ask `stored` again then, before anything is
        computed. The custodian's own requests name no analyst and have no cap.

        Parameters
        ----------
        request
            What is asked, for this ledger's dataset and version.
        cost
            What its release costs; `charged` says what is charged for it.
        ahead
            What the later rounds of the same fit will cost, one by one. It is not charged, but must be left after this
            charge, so that no fit ends half paid for.
        analyst
            Who will receive the release.
        holder
            The computation that will record the release; by default this process stands for one.
        over
            The lease of a holder that is given up: as long as it is still the latest one, the request is charged again.

        Raises
        ------
        InsufficientBudget
            If cost and what lies ahead exceed what is left for their kind, of the total or of the analyst's cap;
            nothing is charged. Facts: requested, remaining, total, and analyst if it is the cap that refuses. An
            analyst whom the total refuses is not told what is left of it: remaining and total are then None.
        QuotaExceeded
            If the analyst has caused as much as `limit` allows him; nothing is charged.
        ArgumentError
            If the request is for another dataset or version, or the cost is nothing.
        LedgerError
            If the ledger is damaged or cannot be written.
        """
        if (request.dataset, request.version) != (self._dataset, self._version):
            raise ArgumentError(
                f"request is for dataset {request.dataset!r}, version {request.version}; the ledger was opened "
                f"for {self._dataset!r}, version {self._version}",
                argument="request",
            )
        if cost == NOTHING:
            raise ArgumentError("cost must be above 0: a release that costs nothing needs no ledger", argument="cost")
        name = "" if analyst is None else checked_analyst(analyst)
        held_by, price, later = holder or own_holder(), self.charged(cost), self.floor.charged_together(ahead)
        return self._write(
            lambda connection, chain: add_charge(connection, chain, request, price, later, held_by, name, over)
        )

    def lease(self, request_id: str) -> Lease | None:
        """Return who computes a charged request; None where it was never charged, or has its release."""

        def latest(connection: Connection, chain: Chain) -> Lease | None:
            charge = None if request_id in chain.released else chain.charges.get(request_id)
            return None if charge is None else read_lease(connection, charge)

        return self._read(latest)

    def beat(self, charge: Charge) -> None:
        """Say that the computation of a charge is at work; see `hdpstats.ledger.leases`."""
        self._store.write(partial(add_beat, charge=charge))

    def persist(self, charge: Charge, release_json: str, analyst: str | None = None) -> StoredRelease:
        """Record the release of a charge and return what may be handed out.

        Only the latest charge of a request can have a release, and only one: of a holder that was given up nothing is
        recorded. For an analyst who has paid for it, its place is that in his own part of the ledger.

        Raises
        ------
        Superseded
            If the request was charged again since; the release given here is lost.
        LedgerError
            If the charge is not in this ledger, or the ledger is damaged or cannot be written.
        """
        if not isinstance(release_json, str):
            raise ArgumentError("release_json must be JSON text", argument="release_json")
        name = "" if analyst is None else checked_analyst(analyst)
        return self._write(partial(add_release, charge=charge, release_json=release_json, analyst=name))

    def stored(self, request_id: str, analyst: str | None = None) -> StoredRelease | None:
        """Return the recorded release of a request, for free, or ``None`` if there is none yet.

        With an analyst, ``None`` also while he has not paid for it out of his cap: `charge` it to him and ask again.
        """
        name = "" if analyst is None else checked_analyst(analyst)
        return self._read(partial(find_release, request_id=request_id, analyst=name))

    def history(self, analyst: str | None = None) -> pd.DataFrame:
        """Return one row per charge of this dataset under any of its names, in order; public facts only.

        With an analyst: one row per release that his cap was charged for, also those charged for others before. Its
        number and date are then those of his own charge, as he is shown them: 1 is his first one.

        Columns: ``entry`` (number in the file), ``at`` (UTC, to the minute), ``dataset`` and ``version``, ``analyst``
        (for whom, if anybody was named), ``mechanism`` and
        ``model`` (the query's kind and formula, if any), ``epsilon`` and ``delta`` (of releases without Gaussian
        noise), ``mu`` (of those with), ``released`` (whether a release was recorded for this charge: not for one whose
        process ended before), ``request`` (first 12 digits of its identity).
        """
        name = "" if analyst is None else checked_analyst(analyst)
        return history_frame(self._entries(outlined)[1], analyst=name)

    def _entries(self, kept: Callable[[Entry], Entry] = lambda entry: entry) -> tuple[Chain, list[Entry]]:
        """Return the entries of this dataset's account, none of which is shown unless the whole file verifies.

        ``kept`` says what of each of them is kept: the file may hold much more than is to be shown.
        """
        name = self._latest().names[self._dataset]

        def read(connection: Connection) -> tuple[Chain, list[Entry]]:
            chain, entries = Chain(), []
            for entry in read_entries(connection):
                chain.follow([entry])
                if chain.names[entry.dataset] == name:
                    entries.append(kept(entry))
            return chain, entries

        return self._store.read(read)

    def verify(self, head: str | None = None) -> Verification:
        """Recompute every hash and every sum of the whole file.

        Parameters
        ----------
        head
            A hash noted earlier, from `head` or from a result; it must still be on the chain. Without it a
            file whose end was cut off, or that was rewritten from the beginning, cannot be told.

        Raises
        ------
        LedgerError
            If anything is damaged; the message and the fact ``entry`` say where.
        """
        self._latest()
        return verify_store(self._store, head)

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
        terms = [
            f"version {self._version}",
            f"relation {self.relation}",
            *([f"unit {self.unit!r}"] if self.unit else []),
        ]
        charges = self.history()
        title = "1 charge" if len(charges) == 1 else f"{len(charges)} charges"
        history = details(title, charges_html(charges))
        place = notes([f"kept in {self._store.place}"])
        return page(f"Ledger of dataset {self._dataset!r}", self.as_html(), history, place, badges=terms)

    def as_html(self) -> str:
        """Return bars of what is spent, and the caps of analysts, as HTML."""
        return account_html(self.balance) + caps_html(self.caps)


def _quota(most_charges: int | None, most_bytes: int | None) -> tuple[int | None, int | None]:
    charges = None if most_charges is None else integer(most_charges, name="most_charges", lower=0, upper=10**9)
    size = None if most_bytes is None else integer(most_bytes, name="most_bytes", lower=0, upper=10**15)
    return charges, size
