"""The ledger of a dataset: charge, compute, record the release, hand it out; and what it says of the account."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar, final

import pandas as pd
from sqlalchemy import Connection

from hdpstats._base.errors import ArgumentError, LedgerError, NothingCharged
from hdpstats._base.progress import note
from hdpstats._base.validation import exact, integer, truth
from hdpstats.display import details, notes, page
from hdpstats.ledger.analysts import Quota
from hdpstats.ledger.bookkeeping import Transaction, read_chain, verify_store
from hdpstats.ledger.chain import Chain, damaged
from hdpstats.ledger.disclosure import Disclosure, Facts, Statements, disclose
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
from hdpstats.ledger.leases import Holder, add_beat, own_holder, read_lease
from hdpstats.ledger.records import (
    LARGEST_VERSION,
    Account,
    Charge,
    Entry,
    Lease,
    Request,
    StoredRelease,
    Verification,
    check_terms,
    checked_analyst,
    checked_dataset,
    named_analyst,
)
from hdpstats.ledger.signing import SignedHead, SigningKey, VerifyingKey, check_goes_on
from hdpstats.ledger.store import Store, read_charge, read_charges, read_entries
from hdpstats.privacy.budget import NOTHING, Budget, Spend
from hdpstats.privacy.composition import Balance, Floor, agreed
from hdpstats.records import codec

Number = int | float | Fraction | Decimal
T = TypeVar("T")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Lines:
    """What a history shows of charges, and the number of the entry up to which they were read."""

    lines: Sequence[ChargeLine] = ()
    read: int = 0


@final
class Ledger:
    """The account of the privacy spent on a dataset: durable, exact, append-only, tamper-evident.

    A release is charged before private rows are touched, and recorded before it is handed out. A charge is
    never refunded, and is for one draw of the noise. An identical request returns the recorded release for free.
    Amounts are exact fractions, and what they amount to never exceeds the total, whatever the number of processes that
    charge at once, and although each request may be chosen after seeing the releases before it.

    Releases without Gaussian noise cost an epsilon and a delta, which add up (Dwork et al. 2006). Releases with
    Gaussian noise cost a ``mu`` whose squares add up, and amount together to far less than the sum of their epsilons
    (Dong et al. 2022). An account that takes both kinds is divided once, before the first Gaussian release
    (`hdpstats.privacy.composition` says why): a part of epsilon and delta is set aside for Gaussian ones. Declare it
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
        Gaussian noise is charged the same part of what the account affords (`hdpstats.privacy.composition`).
    create
        What happens where the file, or the dataset in it, does not exist. By default a new account is opened, of which
        nothing is spent, and one line on standard error says so: a path or a name with a mistake in it, or a file that
        was moved, would else go unnoticed. True opens it without a word; False refuses, and opens only what exists.
        Nothing is said of a ledger in memory.

    Raises
    ------
    ArgumentError
        If an argument has a wrong type or value.
    LedgerError
        If the file cannot be opened or does not verify, the account was opened with other terms, or ``create=False``
        and there is no such account.

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

    _store: Store
    _lines: dict[str, _Lines]
    _chain: Chain
    _dataset: str
    _version: int
    _watcher: Callable[[Sequence[str]], None] | None = None
    _check: Callable[[], Callable[[Sequence[str]], None]] | None = None

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
        create: bool | None = None,
    ) -> None:
        may_create = create is None or truth(create, name="create")
        if not (gaussian is None or isinstance(gaussian, Budget)):
            raise ArgumentError("gaussian must be a Budget, the part for Gaussian noise, or None", argument="gaussian")
        account = Account.agreed(
            dataset=dataset,
            total=Budget(exact(epsilon, name="epsilon"), exact(delta, name="delta")),
            relation=relation,
            unit=unit,
            gaussian=gaussian,
            floor=floor,
        )
        same = None if same_people_as is None else checked_dataset(same_people_as, name="same_people_as")
        self._dataset = account.dataset
        self._version = integer(version, name="version", lower=1, upper=LARGEST_VERSION)
        self._store, self._lines = Store(path_or_url, create=may_create), {}
        self._chain = self._store.read(read_chain)
        if self._dataset not in self._chain.names:
            if not may_create:
                raise _no_dataset(self._store, self._dataset, self._chain)
            new = self._write(lambda opening: opening.open_account(account, same, floor is not None))
            if new and create is None and not self._store.in_memory:
                note(self._opening_words(account.balance.total))
        check_terms(self._opened(), account, floor_asked=floor is not None)
        names = self._chain.names
        if same is not None and names.get(same) != names[self._dataset]:
            raise LedgerError(
                f"dataset {self._dataset!r} has an account of its own, which cannot be joined to that of {same!r} now; "
                "open it without same_people_as="
            )

    def _opening_words(self, total: Budget) -> str:
        """Say that a new account was opened, and what else its ledger holds."""
        others = ", ".join(repr(name) for name in self._chain.names if name != self._dataset)
        beside = f" beside {others}" if others else ""
        return (
            f"opened a new account for dataset {self._dataset!r}{beside} in {self._store.place}, with a total of "
            f"{total} of which nothing is spent; create=False opens only accounts that exist"
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
        self._store, self._lines = Store(path_or_url, create=False), {}
        self._chain = self._store.read(read_chain)
        names = list(self._chain.names)
        held = ", ".join(map(repr, names)) or "none"
        if dataset is None and len(names) != 1:
            raise ArgumentError(
                f"dataset must be named where a ledger does not hold exactly one; its datasets: {held}",
                argument="dataset",
            )
        self._dataset = names[0] if dataset is None else checked_dataset(dataset)
        if self._dataset not in names:
            raise _no_dataset(self._store, self._dataset, self._chain)
        return self

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
        one that does not cover that part is refused (`hdpstats.ledger.analysts` says why).

        Parameters
        ----------
        analyst
            His name, as `charge` is given it.
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
        name, limits = checked_analyst(analyst), Quota(charges=most_charges, bytes=most_bytes)

        def granted(transaction: Transaction) -> Balance:
            transaction.limit(name, limits)
            return transaction.grant(name, cap)

        return self._write(granted)

    def limit(self, analyst: str, *, most_charges: int | None = None, most_bytes: int | None = None) -> Quota:
        """Limit how many charges an analyst may cause in this account, and how much he may have stored.

        It is no matter of privacy: everybody reads and verifies all entries, so that one who asks without end slows
        down the others. What he has caused counts, also from before. A request beyond the limit is refused before
        anything is charged (`QuotaExceeded`); what has been charged to him he still receives. Whom the settings of a
        site stop (`declare`) no limit resumes.

        Parameters
        ----------
        analyst
            His name, as `charge` is given it.
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
        name, limits = checked_analyst(analyst), Quota(charges=most_charges, bytes=most_bytes)
        return self._write(lambda writing: writing.limit(name, limits))

    def declare(
        self, caps: Mapping[str, Budget | None], *, most_charges: int | None = None, most_bytes: int | None = None
    ) -> dict[str, str]:
        """Grant and limit what the settings of a site say, for all of their analysts in one transaction.

        Settings may change what they granted before. What `grant` granted since is not replaced: where it differs, all
        is refused. A cap that does not cover what its analyst has received is not granted; the analyst is stopped until
        the settings grant enough. A limit that `limit` or `grant` set stays as it is, also while he is stopped.

        Parameters
        ----------
        caps
            By analyst; None without one.
        most_charges, most_bytes
            As in `limit`, for each of them.

        Returns
        -------
        dict of str to str
            Who is stopped, and why.

        Raises
        ------
        LedgerError
            If an analyst was granted another cap by hand, or the ledger is damaged or cannot be written.

        Examples
        --------
        >>> ledger = Ledger(None, dataset="trial", epsilon=3.0)
        >>> ledger.declare({"ana": Budget(epsilon=1.0)})
        {}
        >>> print(ledger.caps["ana"].total.epsilon)
        1
        """
        limits, granted = Quota(charges=most_charges, bytes=most_bytes), _agreed(caps)
        return self._write(lambda writing: writing.declare(caps, granted, limits))

    def _write(self, work: Callable[[Transaction], T], *, checked: bool = True) -> T:
        """Return what was written in one transaction that holds the ledger, its chain continued."""
        compare = self._check if checked else None
        refuse = None if compare is None else _unwritten(compare)

        def written(connection: Connection) -> tuple[Chain, T]:
            transaction = Transaction.writing(connection, self._chain, self._dataset, self._version)
            if refuse is not None:
                _unwritten(partial(refuse, transaction.chain.hashes))
            return transaction.chain, work(transaction)

        chain, result = self._store.write(written)
        self._chain = chain
        if self._watcher is not None:
            self._watcher(chain.hashes)
        return result

    def stopped(self, caps: Mapping[str, Budget | None]) -> dict[str, str]:
        """Return whom `declare` would stop, and why, or raise what it would raise; nothing is written."""
        return self._latest().stopped(self._dataset, _agreed(caps))

    def caps_under(self, caps: Mapping[str, Budget | None]) -> dict[str, Balance]:
        """Return the caps of analysts as `declare` would leave them, or raise what it would; nothing is written.

        Who would be stopped keeps the cap before.
        """
        chain, granted = self._latest(), _agreed(caps)
        found, stopped = chain.capped(self._dataset), chain.stopped(self._dataset, granted)
        changed = {
            name: chain.with_cap(self._dataset, name, cap)
            for name, cap in granted.items()
            if name not in stopped and (name not in found or found[name].total != cap)
        }
        return found | changed

    def watch(
        self,
        watcher: Callable[[Sequence[str]], None],
        *,
        check: Callable[[], Callable[[Sequence[str]], None]] | None = None,
    ) -> None:
        """Have a function called with the hashes of all entries, in order, after all that this object writes.

        This happens when the entries are durable and before anything is made of them; what it raises is raised.
        ``check`` is called before anything is charged, granted or limited, while others may still write; what it
        returns is called with the hashes of the entries so far once no other process writes. Where either raises,
        nothing is written (`NothingCharged`). A release is recorded without it: it was charged, and would else be lost.
        """
        self._watcher, self._check = watcher, check

    def charge(
        self,
        request: Request,
        cost: Spend,
        ahead: Sequence[Spend] = (),
        analyst: str | None = None,
        *,
        holder: Holder | None = None,
        over: Lease | None = None,
        in_vain: int | None = None,
    ) -> Charge | Lease:
        """Charge a request; durable when this returns, and the permission to compute its release **once**.

        A request is charged once as long as the computation that it was charged for lives: the same holder receives
        the same charge again, and goes on with the noise that it has drawn; everybody else receives the *lease* of the
        holder, and waits for the stored release (`hdpstats.ledger.leases`). Where the holder is given up, the request
        is charged again (``over=``), and the new charge has a draw of its own.

        A request is charged to an analyst's cap as well: once for each of its charges. If it was charged for
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
            charge, and so many charges within what `limit` allows the analyst, so that no fit ends half charged.
        analyst
            Who will receive the release.
        holder
            The computation that will record the release; by default this process stands for one.
        over
            The lease of a holder that is given up: as long as it is still the latest one, the request is charged again.
        in_vain
            How many of its charges may have no release, as the caller has seen; None for any number.

        Raises
        ------
        InsufficientBudget
            If cost and what lies ahead exceed what is left for their kind, of the total or of the analyst's cap;
            nothing is charged. Facts: requested, remaining, total, and analyst if it is the cap that refuses. An
            analyst whom the total refuses is not shown what is left of it: remaining and total are then None.
        QuotaExceeded
            If the analyst has caused as much as `limit` allows him; nothing is charged.
        ArgumentError
            If the request is for another dataset or version, or the cost is nothing.
        LedgerError
            If the ledger is damaged or cannot be written; `NothingCharged` where what `watch` was given refuses, and
            `ChargedMeanwhile` where more than ``in_vain`` of its charges have no release.
        """
        if (request.dataset, request.version) != (self._dataset, self._version):
            raise ArgumentError(
                f"request is for dataset {request.dataset!r}, version {request.version}; the ledger was opened "
                f"for {self._dataset!r}, version {self._version}",
                argument="request",
            )
        if cost == NOTHING:
            raise ArgumentError("cost must be above 0: a release that costs nothing needs no ledger", argument="cost")
        name = named_analyst(analyst)
        held_by, price, later = holder or own_holder(), self.charged(cost), self.floor.charged_together(ahead)
        return self._write(
            partial(
                Transaction.charge,
                request=request,
                cost=price,
                ahead=later,
                holder=held_by,
                analyst=name,
                over=over,
                later=len(ahead),
                in_vain=in_vain,
            )
        )

    def room(self) -> ExitStack:
        """Return what holds room on the ledger's disk for a release, until it is closed: `persist` does, and writes.

        Taken before `charge`: a disk that is full is then noticed before anything is charged, and one that fills
        meanwhile does not matter. Where the ledger is at a server, that is for its administrator.

        Raises
        ------
        NothingCharged
            The disk has no such room.
        """
        return self._store.room()

    def check_usable(self) -> None:
        """Look whether the ledger answers and its disk has room for a release, without reading an entry.

        Raises
        ------
        LedgerError
            The database does not answer or is no ledger, or its disk is full.
        """
        self._store.check_usable()

    def beat(self, charge: Charge) -> None:
        """Say that the computation of a charge is at work; see `hdpstats.ledger.leases`."""
        self._store.write(partial(add_beat, charge=charge))

    def persist(
        self, charge: Charge, release_json: str, analyst: str | None = None, room: ExitStack | None = None
    ) -> StoredRelease:
        """Record the release of a charge and return what may be handed out.

        The ``room`` that is held for it is given back when nobody else can write to this ledger any more.

        Only the latest charge of a request can have a release, and only one: of a holder that was given up nothing is
        recorded. For an analyst to whom it was charged, its place is that in his own part of the ledger.

        Raises
        ------
        Superseded
            If the request was charged again since; the release given here is lost.
        LedgerError
            If the charge is not in this ledger, or the ledger is damaged or cannot be written.
        """
        if not isinstance(release_json, str):
            raise ArgumentError("release_json must be JSON text", argument="release_json")
        name = named_analyst(analyst)

        def recorded(writing: Transaction) -> StoredRelease:
            if room is not None:
                room.close()
            return writing.record(charge=charge, release_json=release_json, analyst=name)

        return self._write(recorded, checked=False)

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

    def shares_account_with(self, other: "Ledger") -> bool:
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

    def affords(self, cost: Spend, analyst: str | None = None, *, caps: Mapping[str, Balance] | None = None) -> bool:
        """Whether a cost could be charged now; for the rounds of a fit, their sum before the first is asked.

        The cost is taken as that of one charge. With an analyst, whether his cap affords it too: that of the ledger,
        or among ``caps`` (`caps_under`).

        >>> from hdpstats.ledger import Ledger
        >>> Ledger(None, dataset="trial", epsilon=3.0).affords(Spend(4.0))
        False
        """
        chain = self._latest()
        cost = cost if cost == NOTHING else chain.account(self._dataset).floor.charged(cost)
        balances = [chain.account(self._dataset).balance]
        caps = chain.capped(self._dataset) if caps is None else caps
        if analyst is not None and caps:
            if checked_analyst(analyst) not in caps:
                return False
            balances.append(caps[analyst])
        return all(balance.divided_for(cost).affords(cost) for balance in balances)

    def is_used_up(self) -> bool:
        """Whether no account of the whole file affords any further charge.

        >>> from hdpstats.ledger import Ledger
        >>> Ledger(None, dataset="trial", epsilon=3.0).is_used_up()
        False
        """
        return self._latest().is_used_up()

    @property
    def caps(self) -> dict[str, Balance]:
        """The caps of analysts by name: how much each may receive in all, and what he has received."""
        return self._latest().capped(self._dataset)

    def quota(self, analyst: str) -> Quota:
        """Return the limits of an analyst; None in it where there is none."""
        return self._latest().part(self._dataset, checked_analyst(analyst)).quota

    def left(self, analyst: str, limits: Quota | None = None) -> Quota:
        """Return what an analyst may still cause, None in it where there is no limit; or could, under some limits.

        Limits are those of a site's settings, which are not those of the account before it is opened with them
        (`declare`).
        """
        chain, name = self._latest(), checked_analyst(analyst)
        part = chain.part(self._dataset, name)
        as_it_is = limits is None or chain.quota_by_hand(self._dataset, name, limits)
        return part.left(part.quota if as_it_is or limits is None else limits)

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

        def read(connection: Connection) -> tuple[Chain, T]:
            transaction = Transaction.reading(connection, self._chain, self._dataset, self._version)
            return transaction.chain, work(transaction)

        self._chain, result = self._store.read(read)
        return result

    def lease(self, request_id: str) -> Lease | None:
        """Return who computes a charged request; None where it was never charged, or has its release."""

        def latest(transaction: Transaction) -> Lease | None:
            charge = None if request_id in transaction.chain.released else transaction.chain.charges.get(request_id)
            return None if charge is None else read_lease(transaction.connection, charge)

        return self._read(latest)

    def in_vain(self, terms: str, analyst: str | None = None) -> dict[str, int]:
        """Return how many charges have no release, by the SHA-256 of the query's text, of this version of the data set.

        One is computed now, or its process ended before. Whoever receives the release is charged for all of them
        (`hdpstats.sites.single_draw`). With an analyst: those that were made for others alone, which he is charged when
        he receives it; they count for his cap, and not for the total once more.

        ``terms`` are those of a site, in its words (`hdpstats.ledger.Request`); queries without such charges are left
        out.
        """
        name = named_analyst(analyst)

        def found(transaction: Transaction) -> dict[str, int]:
            chain, numbers = transaction.chain, dict[str, int]()
            for request_id, charge in chain.charges.items():
                number = charge.attempt - (request_id in chain.released)
                number -= chain.charged_to(request_id, name) if name else 0
                entry = read_charge(transaction.connection, request_id, charge.attempt) if number > 0 else None
                if entry is None or (entry.dataset, entry.version) != (self._dataset, self._version):
                    continue
                chain.check_known(entry)
                body = codec.loads(entry.body)
                if body["terms"] == terms:
                    numbers[codec.sha256(body["query"])] = number
            return numbers

        return self._read(found)

    def stored(self, request_id: str, analyst: str | None = None) -> StoredRelease | None:
        """Return the recorded release of a request, for free, or ``None`` if there is none yet.

        With an analyst, ``None`` also while it was not charged to his cap: `charge` it to him and ask again.
        """
        name = named_analyst(analyst)
        return self._read(lambda transaction: transaction.find(request_id, name))

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

        def shown(transaction: Transaction) -> pd.DataFrame:
            return history_frame(self._charges(transaction, name), transaction.chain, analyst=name)

        return self._read(shown)

    def charged_queries(self, analyst: str) -> frozenset[str]:
        """Return the SHA-256 of the text of each query that an analyst was charged for, at any version of the data set.

        Charges without a release count, too. Of the charges only those are read that came since this object showed
        them last, as in `history`.
        """
        name = named_analyst(analyst)
        return self._read(lambda transaction: frozenset(line.query for line in self._charges(transaction, name)))

    def _charges(self, transaction: Transaction, analyst: str) -> Sequence[ChargeLine]:
        """Return all charges of this dataset under any of its names, or those of an analyst."""
        found = self._continued(self._lines.get(analyst, _Lines()), transaction, analyst)
        self._lines[analyst] = found
        return found.lines

    def _continued(self, shown_before: "_Lines", transaction: Transaction, analyst: str) -> "_Lines":
        """Return the lines of all charges, those that are known and what was written since."""
        chain, first = transaction.chain, transaction.chain.names[self._dataset]
        names, lines = [name for name, account in chain.names.items() if account == first], list(shown_before.lines)
        for entry in read_charges(transaction.connection, names, after=shown_before.read, analyst=analyst):
            chain.check_known(entry)
            shared = None
            if entry.kind == "share":
                shared = read_charge(transaction.connection, codec.loads(entry.body)["request"], entry.attempt)
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

    def verify(
        self, head: str | Path | SignedHead | None = None, *, key: VerifyingKey | str | Path | None = None
    ) -> Verification:
        """Recompute every hash and every sum of the whole file, in time proportional to its entries.

        Parameters
        ----------
        head
            A hash noted earlier, from `head` or from a result; it must still be on the chain. Without it a
            file whose end was cut off, or that was rewritten from the beginning, cannot be recognised. A `SignedHead`,
            or its file, tells these apart.
        key
            The public key that a signed head must be signed with, or its file.

        Raises
        ------
        LedgerError
            If anything is damaged; the message and the fact ``entry`` say where.
        """
        chain = self._latest()
        if head is None or (isinstance(head, str) and not Path(head).is_file()):
            if key is not None:
                message = "key checks a signed head: give its file as head (`hdpstats ledger head` writes it)"
                raise ArgumentError(message, argument="key")
            return verify_store(self._store, head)
        noted = SignedHead.read(head)
        if key is not None:
            noted.check(VerifyingKey.read(key))
        verification = verify_store(self._store)
        check_goes_on(
            noted,
            hashes=verification.hashes,
            charges=[entry.seq for entry in self._entries()[1] if entry.kind == "charge"],
            account=chain.account(self._dataset).id,
            place=f"the ledger {self._store.place}",
        )
        return verification

    def signed_head(self, key: SigningKey | str | Path | None = None) -> SignedHead:
        """Return what the ledger is now: its entries, the charges of this account, its head, signed with a key.

        Kept by somebody else, it shows later whether this ledger, or an export of it, was cut off, rolled back to an
        older copy or rewritten (`verify`, ``hdpstats ledger verify --head``).

        Parameters
        ----------
        key
            The site's private key, or its file; None for a head without a signature.
        """
        chain = self._latest()
        head = SignedHead(
            dataset=self._dataset,
            account=chain.account(self._dataset).id,
            entries=len(chain.hashes),
            charges=chain.charges_of(self._dataset, ""),
            head=chain.head,
        )
        return head if key is None else head.signed(SigningKey.read(key))

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

    def disclosure(self, form: str = "text", *, statements: Statements | Mapping[str, Any] | None = None) -> Disclosure:
        """Return a form on the privacy of this data set, filled in from the ledger: every release, totals, mechanisms.

        Like `verify` it follows every entry of the file.

        Parameters
        ----------
        form
            ``"nist"``: the points of NIST SP 800-226; ``"registry"``: an entry of the registry of deployments that
            OpenDP keeps; ``"text"``: sentences for a paper, an ethics application, an output check.
        statements
            What only the custodian knows, by the names of `hdpstats.ledger.Statements`. What is left out says *not
            stated* in the form, and ``missing`` names it.

        Raises
        ------
        ArgumentError
            If there is no such form or statement.
        LedgerError
            If anything is damaged.

        Examples
        --------
        >>> from hdpstats.ledger import Ledger
        >>> ledger = Ledger(None, dataset="trial", epsilon=3.0)
        >>> form = ledger.disclosure("nist", statements={"security": "On one server."})
        >>> print(form.points[16].topic, "-", form.points[16].answer)
        Security of the rows - On one server.
        >>> form.missing
        ('other_releases', 'curators', 'served', 'access', 'minimisation')
        """
        given = Statements.read(statements)
        chain, entries = self._entries()
        return disclose(Facts.of_account(self._dataset, chain, entries), form, given)

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


def _no_dataset(store: Store, dataset: str, chain: Chain) -> LedgerError:
    held = ", ".join(map(repr, chain.names)) or "none"
    return LedgerError(f"the ledger {store.place} has no dataset {dataset!r}; its datasets: {held}")


def _agreed(caps: Mapping[str, Budget | None]) -> dict[str, Budget]:
    """Return the caps among these, in the digits that caps have."""
    return {checked_analyst(name): agreed(cap, name="the cap") for name, cap in caps.items() if cap is not None}


def _unwritten(check: Callable[[], T]) -> T:
    """Return what a check returns that is made before anything is written; say so of its refusal."""
    try:
        return check()
    except LedgerError as error:
        raise NothingCharged(str(error), **error.facts) from None
