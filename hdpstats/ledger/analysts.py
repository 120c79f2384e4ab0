r"""One analyst in an account: the cap on what he may receive, his quota, and his own part of the ledger.

**The cap.** The total covers everybody together and is what the people in the data are guaranteed. A cap says how much
of it one analyst may see. It is counted like a total, in the same exact arithmetic (`hdpstats.privacy.composition`):
every release that he receives, computed for him or for somebody else before, is charged to his cap once. The claim, as
long as he learns nothing from other analysts (if he does, the total holds), is that of an amount which may grow: for
every strategy of his, every rule of the custodian for changing the cap that knows only what this analyst saw, every
event ``A`` of what he has received at the end, and every fixed (e, d),

.. math:: P(A,\ \text{cap} \le (e, d)) \le e^e\, Q(A,\ \text{cap} \le (e, d)) + d,

where *cap* is the largest epsilon and the largest delta that his caps ever had.

**What a grant may change.** From the first Gaussian release that he receives, the part (epsilon_G, delta_G) of his cap
that is set aside for these is fixed for good; a larger cap leaves more for other releases, and one that does not cover
that part and the rest of what he received is refused. Otherwise a cap that grows because of what was seen would spend
delta again: he uses up the part for (1, 1e-6), stops if the outcome is revealing for epsilon = 1, and is granted
epsilon = 2 if it is not; both ends reach 1e-6. Whoever received Gaussian releases before his first cap has the part
that the whole account has set aside: it was fixed before he received any, and all of them are charged to it.

*Proof.* A query belongs to a request that the analyst made himself, knowing only what he had received before. Its
release is a draw of the mechanism with noise of its own, whether it was drawn for him or earlier for another who asked
the same; so what he receives has the distribution of a sequence in which he alone is answered. Let, in that
sequence, an account with the total (e, d) refuse what would bring `Balance.spent` of his releases above (e, d), and
answer nothing from there on. Its Gaussian part is the one that his first Gaussian release found or made, which no later
grant changes. By the theorem in `hdpstats.privacy.composition` it is (e, d)-DP: a rule that changes caps is part of the
strategy, since it knows what he knows. Every cap covers what is spent under it (`capped`), so that transcripts whose
largest cap is at most (e, d) are transcripts of that account.

**What he can still infer.** Numbers, heads and dates that he is shown are of his own entries (see below).
None of what follows weakens the guarantee of people in the data. An analyst learns it about other analysts.

- *What others have spent.* What cannot be hidden from him is that the total does not afford a request which his own cap
  does. A refusal says so without amounts and is free. By asking for less and less he can learn how much the total still
  affords below what his cap leaves him, and thereby how much others have spent by then.
- *Whether somebody asked the same.* Once the total affords no charge, a request that his cap affords is
  answered if and only if it was charged for somebody before, as that costs the total nothing more. So he learns exactly
  which requests others have made, of those that he tries. Before that, it shows in the time of an answer, and a service
  that hands answers out at fixed times hides it only as long as no charge and no record takes longer than is set
  aside for it, and the other computation did not begin just before, or in another process (`hdpstats.custodian.timing`
  has the list).
- *The same, from a limit of bytes.* What was charged for somebody else before is counted with a short entry, not with
  the text of the request; and a release with him for whose charge it was computed. So the request from which on he is
  refused may depend on whether somebody had asked one of his before. A limit of charges, and a cap, count either alike.
- *The same, from a computation that was lost.* Where a process ended before it recorded a release, the request is
  charged again, and he who receives the release is charged for all of these charges. An analyst who asked once, and is
  told that his release was charged twice, learns that somebody asked before him; he is charged, numbered and counted
  accordingly.
- *What others had spent before an early Gaussian release.* A first cap that is granted to him after he received
  Gaussian releases has the part of the whole account. Where the custodian did not declare it, that part is what the
  first Gaussian release was asked to keep and half of what was then left of the total. His spent and remaining amounts
  contain it (`hdpstats.sites.messages.AnalystAccount`), and from them he can solve for what others had spent at that
  time. With a cap that was granted before his first release, or a part that the custodian declares (``gaussian=``), he
  cannot.

What the custodian publishes of the ledger (its history, its head) shows everybody what everybody asked.

**His own part of the ledger.** Caps rest on analysts learning nothing from each other, and the ledger's numbers and
hashes show when others asked. So an analyst is shown numbers and heads of a chain of his own: his charges in an account
are numbered 1, 2, ..., and with each release that has been charged to him goes the hash of that number, of the
release, and of the hash before. It begins with the account's id and his name, and is a function of what he asked and
received alone, and of how often that was charged (see above).
Whoever keeps such a head can have it looked up (`hdpstats.ledger.Ledger.verify`), as it follows from the entries of the
file.
"""

from dataclasses import asdict, dataclass, replace
from typing import Annotated, final

from hdpstats._base.errors import CapTooSmall, InsufficientBudget, LedgerError, QuotaExceeded
from hdpstats._base.validation import integer
from hdpstats.ledger.records import in_words
from hdpstats.privacy.budget import NOTHING, Budget, Spend
from hdpstats.privacy.composition import Balance
from hdpstats.records import codec
from hdpstats.records.codec import LEFT_OUT, Record


def capped(total: Budget, received: Spend, *, before: Balance | None, account: Balance) -> Balance:
    """Return the account of an analyst who has received something, under a first or another cap.

    Parameters
    ----------
    total
        The cap.
    received
        The sums of what he was charged.
    before
        His account under the cap before; None without one.
    account
        That of everybody together.

    Raises
    ------
    CapTooSmall
        If the cap does not cover what he has received.
    """
    part = None
    if received.mu_squared > 0:
        part = account.gaussian if before is None else before.gaussian
    spent = Spend(received.epsilon, received.delta) + (NOTHING if part is None else Spend(part.epsilon, part.delta))
    if spent.epsilon > total.epsilon or spent.delta > total.delta:
        aside = "" if part is None else f", of which {in_words(part)} are set aside for Gaussian noise and stay so"
        raise CapTooSmall(
            f"the cap of {in_words(total)} does not cover what the analyst has received, {in_words(spent)}{aside}; "
            "grant at least that. To stop an analyst, grant most_charges=0",
            argument="epsilon",
        )
    return Balance(total=total, charged=received, gaussian=part)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Quota(Record):
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

    def __post_init__(self) -> None:
        """Refuse what is no number of charges or bytes."""
        for name, value, most in (("most_charges", self.charges, 10**9), ("most_bytes", self.bytes, 10**15)):
            if value is not None:
                integer(value, name=name, lower=0, upper=most)

    def replaced(self, other: "Quota") -> "Quota":
        """Return the quota with the limits of another one, where that has any."""
        return replace(self, **{name: limit for name, limit in asdict(other).items() if limit is not None})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPart:
    """One analyst's own part of an account.

    Attributes
    ----------
    head : str
        His latest head.
    quota : Quota
        What he may cause.
    stopped : bool or None
        True while the settings of a site stop him, as the cap that they say covers less than he has received. His
        quota stays as it was.
    charges, bytes : int
        What he has caused: the number of charges, the bytes stored.
    received : Spend
        The sums of what he was charged.
    """

    head: str
    quota: Quota = Quota()
    charges: int = 0
    bytes: int = 0
    received: Spend = NOTHING
    stopped: Annotated[bool | None, LEFT_OUT] = None

    @classmethod
    def of(cls, account: str, analyst: str) -> "OwnPart":
        """Return that of an analyst who has asked nothing."""
        return cls(head=codec.sha256({"account": account, "analyst": analyst}))

    def left(self, quota: Quota) -> Quota:
        """Return what he may still cause under a quota."""
        return Quota(
            charges=None if quota.charges is None else max(quota.charges - self.charges, 0),
            bytes=None if quota.bytes is None else max(quota.bytes - self.bytes, 0),
        )

    def admits(self, size: int, *, later: int = 0) -> bool:
        """Whether he may cause one more charge, of a request of some bytes, and so many later ones."""
        quota = self.quota
        few = quota.charges is None or self.charges + later < quota.charges
        return few and (quota.bytes is None or self.bytes + size <= quota.bytes) and not self.stopped

    def charged(self, amount: Spend, size: int) -> "OwnPart":
        """Return it after one more charge."""
        return replace(self, charges=self.charges + 1, bytes=self.bytes + size, received=self.received + amount)

    def handed_out(self, charge: "OwnCharge", request_id: str, release: str) -> "OwnPart":
        """Return it after a release, named by its SHA-256, could be handed out."""
        link = {"before": self.head, "number": charge.number, "request": request_id, "release": release}
        return replace(self, head=codec.sha256(link))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCharge:
    """Where an analyst has a request: the number of his latest charge of it, how many charges were his, and the head.

    The head is that of its release, empty while there is none. ``at`` is when that charge was written, to the minute.
    """

    number: int
    attempt: int
    head: str = ""
    at: str = ""


def without_cap(dataset: str, cost: Spend, analyst: str) -> InsufficientBudget:
    """Return the refusal of an analyst whom nothing was granted where others have a cap."""
    return InsufficientBudget(
        f"analyst {analyst!r} has no cap on dataset {dataset!r}, where others have one, and may receive nothing. "
        "Nothing was charged now: ask the custodian to grant a cap (hdpstats ledger grant)",
        requested=cost,
        remaining=NOTHING,
        total=NOTHING,
        analyst=analyst,
    )


def disagreeing(dataset: str, analyst: str, granted: Budget, declared: Budget) -> LedgerError:
    """Return the refusal of settings that say another cap than was granted by hand since they were read last."""
    return LedgerError(
        f"analyst {analyst!r} was granted {in_words(granted)} on dataset {dataset!r} (hdpstats ledger grant), and the "
        f"settings say {in_words(declared)}: neither replaces the other by itself. Write what was granted into the "
        f"settings, or grant what they say: hdpstats ledger grant FILE --dataset {dataset} --analyst {analyst} "
        f"--epsilon {declared.epsilon} --delta {declared.delta}",
        analyst=analyst,
    )


def over_quota(dataset: str, part: OwnPart, analyst: str, *, later: int = 0) -> QuotaExceeded:
    """Return the refusal of an analyst who is stopped, or would cause more than the custodian allows him."""
    if part.stopped:
        return QuotaExceeded(
            f"analyst {analyst!r} is stopped on dataset {dataset!r}: the cap that the site's settings say covers less "
            "than was received. Nothing was charged now: use a release charged before, or ask the custodian for a "
            "larger cap in the settings",
            analyst=analyst,
        )
    words = {"charges": "charges", "bytes": "bytes of requests and releases"}
    limits = {name: limit for name, limit in asdict(part.quota).items() if limit is not None}
    used = " and ".join(f"{getattr(part, name)} of {limit} {words[name]}" for name, limit in limits.items())
    takes = f", and this request takes {later + 1} charges" if later else ""
    return QuotaExceeded(
        f"analyst {analyst!r} has used {used} on dataset {dataset!r}{takes}. Nothing was charged for it: use a release "
        "charged before, or ask the custodian for more (hdpstats ledger grant --most-charges)",
        analyst=analyst,
    )
