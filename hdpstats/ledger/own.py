"""An analyst's own part of a ledger: what he has caused and stored, and a chain of the releases that he received.

Caps rest on analysts learning nothing from each other, and the ledger's numbers and hashes tell when others asked. So
an analyst is shown numbers and heads of a chain of his own: his charges in an account are numbered 1, 2, ..., and with
each release that he has paid for goes the hash of that number, of the release, and of the hash before. It begins with
the account's id and his name, and is a function of what he asked and received alone. Whoever keeps such a head can have
it looked up (`hdpstats.ledger.Ledger.verify`), as it follows from the entries of the file.
"""

from dataclasses import dataclass, replace
from typing import final

from hdpstats._base import canonical


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How much one analyst may cause in an account; ``None`` for no limit.

    Attributes
    ----------
    charges : int or None
        Charges, also of what was charged for others before.
    bytes : int or None
        Of requests and releases that are stored for him. A release is not cut off in the middle: he is refused from the
        first one on that goes beyond.
    """

    charges: int | None = None
    bytes: int | None = None

    def replaced(self, charges: int | None, size: int | None) -> "Quota":
        """Return the quota with other limits, where any are given."""
        return Quota(charges=self.charges if charges is None else charges, bytes=self.bytes if size is None else size)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What one analyst has caused in an account: the number of charges, the bytes stored, and his latest head."""

    head: str
    charges: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, account: str, analyst: str) -> "Own":
        """Return the part of an analyst who has asked nothing."""
        return cls(head=canonical.sha256({"account": account, "analyst": analyst}))

    def admits(self, quota: Quota, size: int) -> bool:
        """Whether a quota allows one more charge of a request of some bytes."""
        return (quota.charges is None or self.charges < quota.charges) and (
            quota.bytes is None or self.bytes + size <= quota.bytes
        )

    def charged(self, size: int) -> "Own":
        """Return the part after one more charge."""
        return replace(self, charges=self.charges + 1, bytes=self.bytes + size)

    def stored(self, size: int) -> "Own":
        """Return the part after a release was stored."""
        return replace(self, bytes=self.bytes + size)

    def received(self, place: "Place", request_id: str, release: str) -> "Own":
        """Return the part after a release, named by its SHA-256, could be handed out."""
        link = {"before": self.head, "number": place.number, "request": request_id, "release": release}
        return replace(self, head=canonical.sha256(link))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an analyst has a request: the number of his latest charge of it, how many he paid, the head of its release.

    The head is empty as long as there is no release.
    """

    number: int
    attempt: int
    head: str = ""
