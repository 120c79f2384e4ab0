"""The records of a ledger: what is asked, what was charged, what was handed out, what is written in the file.

At the end what the ledger says when it refuses: whose amount, what is left of it, and what to do.
"""

import math
import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import final

from hdpstats._base.errors import ArgumentError, InsufficientBudget, LedgerError
from hdpstats._base.validation import choice, integer, text
from hdpstats.privacy.budget import Budget, Spend, decimal, release_replicate, rounded_down
from hdpstats.privacy.composition import MU_SQUARED_GRAIN, Balance, Floor, agreed
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records import codec
from hdpstats.records.codec import Record
from hdpstats.records.query import LedgerEntry

LARGEST_VERSION = 10**6
_LARGEST = 10**15
"""What is larger is not written in digits."""
AccountTerms = dict[str, str | None]
"""A row of the table of accounts but for its name and date: the total, whom it protects, the first name of the same
people."""
_LEAST_GAUSSIAN = Spend(Fraction(0), mu_squared=MU_SQUARED_GRAIN)
_SHA256 = re.compile(r"[0-9a-f]{64}")


def checked_sha256(value: object, *, name: str) -> str:
    """Return ``value`` in lower case if it is the hexadecimal form of a SHA-256."""
    digest = value.lower() if isinstance(value, str) else ""
    if not _SHA256.fullmatch(digest):
        raise ArgumentError(f"{name} must be a SHA-256 of 64 hexadecimal digits", argument=name)
    return digest


def _checked_name(value: object, *, name: str, longest: int) -> str:
    checked = text(value, name=name, longest=longest)
    if not checked.isprintable():
        raise ArgumentError(f"{name} must be a name of printable characters on one line", argument=name)
    return checked


def checked_dataset(value: object, *, name: str = "dataset") -> str:
    """Return the name of a dataset: 1 to 200 printable characters."""
    return _checked_name(value, name=name, longest=200)


def checked_analyst(value: object) -> str:
    """Return the name of an analyst, as a token or the custodian spells it: 1 to 255 printable characters."""
    return _checked_name(value, name="analyst", longest=255)


def named_analyst(analyst: object) -> str:
    """Return the name of an analyst, empty where nobody is named."""
    return "" if analyst is None else checked_analyst(analyst)


def in_words(amount: Spend | Budget) -> str:
    """Write an amount with every digit of its floats, so that 0.1 + 0.2 is seen to differ from 0.3."""
    epsilon, delta = (_in_digits(part) for part in (amount.epsilon, amount.delta))
    pair = f"epsilon = {epsilon}, delta = {delta}"
    if isinstance(amount, Budget) or amount.mu_squared == 0:
        return f"({pair})"
    mu = f"mu = {math.sqrt(amount.mu_squared):.6g}" if amount.mu_squared <= _LARGEST else f"mu above {_LARGEST:g}"
    return f"({mu})" if amount == Spend(Fraction(0), mu_squared=amount.mu_squared) else f"({pair}, {mu})"


def _in_digits(part: Fraction) -> str:
    if part > _LARGEST:
        return f"more than {_LARGEST:g}"
    return str(part.numerator) if part.denominator == 1 else repr(float(part))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What identifies a release: two requests with the same `id` are one request and are charged once.

    A request never depends on private rows. The dataset is named, not hashed: the hash of a table would
    show anybody who can guess the table that the guess is right.

    Parameters
    ----------
    dataset, version
        The custodian's name for the data, and the number of the data's revision.
    schema_sha256
        SHA-256 of the declared schema.
    public_sha256
        SHA-256 of the public frame that the query refers to; ``None`` without public rows.
    query_json
        The query as JSON text; kept in canonical form, so that spacing and the order of keys do not matter.
    terms
        The terms that the site holds the rows under, in its own words: who is protected, and what is declared about the
        number of people and of their rows. The same query under other terms is another request.
    replicate
        1, 2, …: a new replicate is a new draw of the noise and a new charge.

    Raises
    ------
    ArgumentError
        If a field has the wrong form.
    """

    dataset: str
    version: int
    schema_sha256: str
    public_sha256: str | None
    query_json: str
    terms: str
    replicate: int = 1
    body: str = field(init=False, repr=False)
    id: str = field(init=False)

    def __post_init__(self) -> None:
        """Validate the fields, write the query in canonical form, and derive the identity."""
        public = self.public_sha256
        try:
            query = codec.loads(self.query_json)
            query_json = codec.dumps(query)
        except (TypeError, ValueError, RecursionError):
            raise ArgumentError("query_json must be the JSON text of a query", argument="query_json") from None
        fields = {
            "dataset": checked_dataset(self.dataset),
            "version": integer(self.version, name="version", lower=1, upper=LARGEST_VERSION),
            "schema_sha256": checked_sha256(self.schema_sha256, name="schema_sha256"),
            "public_sha256": None if public is None else checked_sha256(public, name="public_sha256"),
            "terms": text(self.terms, name="terms", longest=2000),
            "replicate": release_replicate(self.replicate),
        }
        identity = {**fields, "query": query}
        derived = {"query_json": query_json, "body": codec.dumps(identity), "id": codec.sha256(identity)}
        for name, value in {**fields, **derived}.items():
            object.__setattr__(self, name, value)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """A cost that is durably recorded: the permission to compute the release of one request, once.

    ``entry`` is the number of the charge in the ledger, as `Ledger.history` shows it. ``attempt`` is 1, or the number
    of a further charge of the same request after a process that computed it ended without a release. ``analyst`` is who
    it was charged for, if anybody was named, and ``at`` when, in UTC to the minute.
    """

    request_id: str
    dataset: str
    version: int
    cost: Spend
    entry: int
    attempt: int = 1
    analyst: str = ""
    at: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Who computes a charged request that has no release yet.

    Attributes
    ----------
    request_id, attempt : str, int
        The charge.
    holder : str
        The one computation that may record its release.
    process : str
        The process that it runs in (`hdpstats.ledger.leases.this_process`).
    beats : int
        How often the holder said that it is still at work.
    """

    request_id: str
    attempt: int
    holder: str
    process: str
    beats: int = 0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRelease:
    """A release that is durably recorded and may be handed out, any number of times.

    ``place`` says where: the number of its charge, how often its request was charged up to then, when, and the hash of
    its own entry, a point of the chain that `Ledger.verify` can be asked about later. Handed out to an analyst, all
    four are of his own part of the ledger (`hdpstats.ledger.analysts`).
    """

    release_json: str
    place: LedgerEntry


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A ledger file that verifies: the number of its entries, the hash of the last one, its datasets, all hashes."""

    entries: int
    head: str
    datasets: tuple[str, ...]
    hashes: tuple[str, ...] = field(repr=False)

    def __str__(self) -> str:
        noun = "entry verifies" if self.entries == 1 else "entries verify"
        return f"{self.entries} {noun}; head {self.head}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The terms of a dataset's account, and what was charged under any version and any name of it.

    ``dataset`` is its first name.
    ``unit`` is the column that names the person where people have several rows; None where every row is a person.
    ``floor`` is the least that one release is charged.
    ``id`` is the hash of the entry that opened it: no two accounts have the same, in whatever ledgers they are.
    """

    dataset: str
    relation: str
    unit: str | None
    balance: Balance
    floor: Floor
    id: str = ""

    @classmethod
    def agreed(
        cls,
        *,
        dataset: object,
        total: Budget,
        relation: object,
        unit: object,
        gaussian: Budget | None = None,
        floor: object = None,
    ) -> "Account":
        """Return the account that a custodian opens on terms, of which nothing is spent; raises an `ArgumentError`."""
        whole = agreed(total, name="the total")
        return cls(
            dataset=checked_dataset(dataset),
            relation=choice(relation, name="relation", options=[member.value for member in Relation]),
            unit=None if unit is None else text(unit, name="unit", longest=100),
            balance=Balance(total=whole, gaussian=None if gaussian is None else agreed(gaussian, name="gaussian")),
            floor=Floor.of(whole, floor),
        )

    def terms(self, *, same_people_as: str | None) -> AccountTerms:
        """Return the terms as the table of accounts has them for this name, or for a further name of ``dataset``."""
        total = self.balance.total
        return {
            "epsilon": str(total.epsilon),
            "delta": str(total.delta),
            "relation": self.relation,
            "unit": self.unit,
            "same_people_as": same_people_as,
        }

    def left(self) -> tuple[Spend, ...]:
        """Return the charges, one for each kind of noise, after which no further one is afforded; none before them."""
        balance, floor, rest = self.balance, self.floor, self.balance.remaining
        plain = (Spend(rest.epsilon, rest.delta),) if rest.epsilon >= floor.epsilon else ()
        divided = (balance.plus(plain[0]) if plain else balance).divided_for(_LEAST_GAUSSIAN)
        mu_squared = rounded_down(divided.gaussian_remaining, MU_SQUARED_GRAIN)
        return plain + ((Spend(Fraction(0), mu_squared=mu_squared),) if mu_squared >= floor.mu_squared else ())

    def agrees_with(self, other: "Account") -> bool:
        """Whether it has the same total, relation, unit and floor."""
        mine, theirs = (
            (account.balance.total, account.relation, account.unit, account.floor) for account in (self, other)
        )
        return mine == theirs


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Opening(Record):
    """What an entry that opens an account says besides its total: the body of the entry.

    ``unique`` is drawn anew for each, so that no two accounts have the same hash. ``same_people_as`` is the first name
    of an account of which this is a further name.
    """

    package: str
    unique: str
    relation: str
    unit: str | None
    floor: Floor
    same_people_as: str | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of the append-only table, exactly as it is stored; amounts are fractions written as text.

    ``analyst`` is empty where the entry concerns nobody in particular. ``attempt`` numbers the charges of a request,
    and says of a release which of them it belongs to, of a share up to which of them the analyst is charged; it is 0
    elsewhere.
    """

    seq: int
    kind: str
    dataset: str
    version: int
    analyst: str = ""
    request_id: str
    attempt: int = 0
    epsilon: str = "0"
    delta: str = "0"
    mu_squared: str = "0"
    body: str = "{}"
    at: str
    previous_hash: str
    hash: str


def insufficient(dataset: str, cost: Spend, balance: Balance | None, analyst: str = "") -> InsufficientBudget:
    """Return the refusal of a cost: what it is, what is left for its kind, and what to do.

    Without a balance the total refuses an analyst, who is not shown what others have spent.
    """
    asked = "" if cost.asked is None else f" to keep {in_words(cost.asked)}"
    remedy = "ask for less, or use a release that was charged before"
    if balance is None:
        left = f"dataset {dataset!r} does not afford it to all analysts together"
    else:
        whose = f"the cap of analyst {analyst!r} on dataset {dataset!r}" if analyst else f"dataset {dataset!r}"
        left = f"{whose} has {_left(balance, cost)}"
        if cost.mu_squared and balance.total.delta == 0:
            remedy = "ask for a mechanism with a pure guarantee, since Gaussian noise needs an account with a delta"
        if analyst:
            remedy += ", or ask the custodian for a larger cap"
    return InsufficientBudget(
        f"the release would cost {in_words(cost)}{asked}; {left}. Nothing was charged for it: {remedy}",
        requested=cost,
        remaining=None if balance is None else balance.remaining,
        total=None if balance is None else balance.total,
        analyst=analyst or None,
    )


def _left(balance: Balance, cost: Spend) -> str:
    """Say what is left for the kind of a cost."""
    part = balance.gaussian
    if cost.mu_squared and part is not None:
        used, most = math.sqrt(balance.charged.mu_squared), math.sqrt(balance.gaussian_affordable)
        return f"mu = {used:.6g} used of the {most:.6g} that {in_words(part)}, set aside for Gaussian noise, affords"
    aside = "" if part is None else f", as {in_words(part)} are set aside for Gaussian noise"
    return f"{in_words(balance.remaining)} left of {in_words(balance.total)}{aside}"


def check_terms(opened: Account, asked: Account, *, floor_asked: bool = True) -> None:
    """Refuse to open an account on other terms than those it has."""
    total, asked_total = opened.balance.total, asked.balance.total
    if (total, opened.relation, opened.unit) != (asked_total, asked.relation, asked.unit):
        raise LedgerError(
            f"the account of dataset {opened.dataset!r} was opened with a total of {in_words(total)}, "
            f"relation {opened.relation!r} and unit {opened.unit!r}, not {in_words(asked_total)}, {asked.relation!r} "
            f"and {asked.unit!r}; these are agreed once: open the ledger on its first terms"
        )
    if floor_asked and opened.floor != asked.floor:
        raise LedgerError(
            f"the account of dataset {opened.dataset!r} was opened with a floor of epsilon = "
            f"{decimal(opened.floor.epsilon)} per release, not {decimal(asked.floor.epsilon)}; it is agreed once: open "
            "the ledger without floor="
        )
    part, asked_part = opened.balance.gaussian, asked.balance.gaussian
    if asked_part not in (None, part):
        divided = "is not divided" if part is None else f"has {in_words(part)} set aside for Gaussian noise"
        raise LedgerError(
            f"the account of dataset {opened.dataset!r} {divided}; it cannot be divided anew: open the ledger "
            "without gaussian="
        )
