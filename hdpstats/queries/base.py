"""What every query and every release has."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self, final

from hdpstats._base import canonical
from hdpstats.privacy.event import PrivacyEvent


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


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerEntry:
    """Where a release stands in the custodian's ledger: data set, version, entry number, head of the chain."""

    dataset: str
    version: int
    number: int
    head: str

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as JSON values."""
        return {"dataset": self.dataset, "version": self.version, "number": self.number, "head": self.head}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(
            dataset=str(fields["dataset"]),
            version=int(fields["version"]),
            number=int(fields["number"]),
            head=str(fields["head"]),
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
