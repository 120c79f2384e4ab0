"""What every query and every release has."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self, TypeVar, final

from hdpstats._base import canonical
from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import rational
from hdpstats.privacy.budget import Spend
from hdpstats.privacy.event import PrivacyEvent
from hdpstats.records.ahead import LARGEST_AMOUNT, check_ahead, listed


class Query(ABC):
    """A question to a site: plain public data, with its price written on it.

    Attributes
    ----------
    kind : str
        Which mechanism answers.
    epsilon, delta : Fraction
        What the answer costs each person; the site charges it before it looks at a row.
    replicate : int
        1, or the number of a further independent answer to the same question (each is charged).
    schema_sha256 : str
        The schema that the asker believes in; a site with another schema refuses.
    public_sha256 : str or None
        The public frame that the geometry came from.
    """

    kind: ClassVar[str]
    epsilon: Fraction
    delta: Fraction
    replicate: int
    schema_sha256: str
    public_sha256: str | None

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON values; fractions are strings, so nothing is rounded."""

    def to_json(self) -> str:
        """Return the canonical JSON text."""
        return canonical.dumps({"kind": self.kind} | self.to_dict())


@dataclass(frozen=True, kw_only=True, slots=True)
class ChargedQuery(Query, ABC):
    """A query that a site answers and charges by itself."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    schema_sha256: str
    public_sha256: str | None
    replicate: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON values."""
        return {
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "schema_sha256": self.schema_sha256,
            "public_sha256": self.public_sha256,
            "replicate": self.replicate,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class PurchaseQuery(ChargedQuery, ABC):
    """One query of a purchase that consists of several.

    Attributes
    ----------
    ahead : tuple of Spend
        What later questions of the same purchase cost, an epsilon each: refused now if they could not be charged then.
    """

    ahead: tuple[Spend, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON values."""
        return ChargedQuery.to_dict(self) | {"ahead": [str(each.epsilon) for each in self.ahead]}


def charged_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a `ChargedQuery` from JSON values."""
    return {
        "epsilon": rational(fields["epsilon"], name="epsilon"),
        "delta": rational(fields["delta"], name="delta"),
        "schema_sha256": str(fields["schema_sha256"]),
        "public_sha256": fields["public_sha256"],
        "replicate": int(fields["replicate"]),
    }


def purchase_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a `PurchaseQuery` from JSON values."""
    return charged_fields(fields) | {"ahead": tuple(Spend(rational(each, name="ahead")) for each in listed(fields))}


def check_pure(query: Query, what: str) -> None:
    """Refuse a query whose price is no pure epsilon above 0, or whose later questions' prices are none."""
    check_epsilon(query)
    if not (query.epsilon > 0 and query.delta == 0 and query.epsilon.denominator <= 10**30):
        raise MechanismError(f"{what} needs epsilon > 0 of at most 30 digits, and is pure: delta must be 0")
    if isinstance(query, PurchaseQuery):
        check_ahead(query.ahead, pure=True)


def check_epsilon(query: Query) -> None:
    """Refuse an epsilon that no account affords."""
    if query.epsilon > LARGEST_AMOUNT:
        raise MechanismError(f"epsilon must be at most {LARGEST_AMOUNT}, as much as an account may have; ask for less")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerEntry:
    """Where a release stands in the custodian's ledger: data set, version, entry number, head of the chain.

    To an analyst of a site, number and head are of his own part of the ledger (`hdpstats.ledger.analysts`).

    Attributes
    ----------
    dataset, version : str, int
        The data.
    number, head : int, str
        The number of the charge, and the head of the chain of entries up to the release.
    attempt : int
        How often the request was charged: more than once where a process that computed it ended before.
    account : str
        The identity of the ledger's account: who has releases of one account has releases of the same people. Empty
        where it is not known.
    charged : Spend or None
        What each of its charges was: what the release costs, rounded up to the grain of charges and at least the
        account's floor (`hdpstats.privacy.charging`).
    """

    dataset: str
    version: int
    number: int
    head: str
    attempt: int = 1
    account: str = ""
    charged: Spend | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as JSON values."""
        return {
            "dataset": self.dataset,
            "version": self.version,
            "number": self.number,
            "head": self.head,
            "attempt": self.attempt,
            "account": self.account,
            "charged": None if self.charged is None else self.charged.to_dict(),
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(
            dataset=str(fields["dataset"]),
            version=int(fields["version"]),
            number=int(fields["number"]),
            head=str(fields["head"]),
            attempt=int(fields["attempt"]),
            account=str(fields["account"]),
            charged=None if fields["charged"] is None else Spend.from_dict(fields["charged"]),
        )


class Release(ABC):
    """An answer that left a site: noisy numbers, the events that made them, the ledger entry; nothing else.

    The JSON of a release is what the ledger stores; the entry says where, and is not a part of it.
    """

    kind: ClassVar[str]
    events: tuple[PrivacyEvent, ...]
    entry: LedgerEntry | None

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the release as JSON values."""

    @abstractmethod
    def at(self, entry: LedgerEntry) -> Self:
        """Return the release with its place in the ledger."""

    def to_json(self) -> str:
        """Return the canonical JSON text."""
        return canonical.dumps({"kind": self.kind} | self.to_dict())

    @property
    def sha256(self) -> str:
        """The SHA-256 of the release: the seed of everything that is later drawn from it."""
        return canonical.sha256({"kind": self.kind} | self.to_dict())


_R = TypeVar("_R", bound=Release)


def placed(release: _R, entry: dict[str, Any] | None) -> _R:
    """Return a release with the place that was written beside it."""
    return release if entry is None else release.at(LedgerEntry.from_dict(entry))


def of_kind(release: Release, kind: type[_R]) -> _R:
    """Return a release of the kind that answers a query, or raise MechanismError where it is another one."""
    if not isinstance(release, kind):
        raise MechanismError("the site answered with a release of another kind")
    return release


@dataclass(frozen=True, kw_only=True, slots=True)
class ChargedRelease(Release, ABC):
    """The answer to a `ChargedQuery`.

    Attributes
    ----------
    events : tuple of PrivacyEvent
        What ran.
    entry : LedgerEntry or None
        Where the ledger keeps it; None for a release read back from JSON.
    """

    events: tuple[PrivacyEvent, ...]
    entry: LedgerEntry | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the release as JSON values."""
        return {"events": [event.to_dict() for event in self.events]}

    def at(self, entry: LedgerEntry) -> Self:
        """Return the release with its place in the ledger."""
        return replace(self, entry=entry)


def events_in(fields: dict[str, Any]) -> tuple[PrivacyEvent, ...]:
    """Return the events of a `ChargedRelease` from JSON values."""
    return tuple(PrivacyEvent.from_dict(event) for event in fields["events"])
