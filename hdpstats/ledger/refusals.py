"""What a ledger says when it refuses: whose amount, what is left of it, and what to do."""

import math

from hdpstats._base.errors import InsufficientBudget, LedgerError, QuotaExceeded
from hdpstats.ledger.analysts import Quota, Usage
from hdpstats.ledger.records import Account, in_words
from hdpstats.privacy.balance import Balance
from hdpstats.privacy.budget import NOTHING, Spend, decimal


def insufficient(dataset: str, balance: Balance, cost: Spend, analyst: str = "") -> InsufficientBudget:
    """Return the refusal of a cost: what it is, what is left for its kind, and what to do."""
    total, part = balance.total, balance.gaussian
    if cost.mu_squared == 0 or part is None:
        left = f"{in_words(balance.remaining)} left of {in_words(total)}"
    else:
        used, most = math.sqrt(balance.charged.mu_squared), math.sqrt(balance.gaussian_affordable)
        left = f"mu = {used:.6g} used of the {most:.6g} that {in_words(part)}, set aside for Gaussian noise, affords"
    asked = "" if cost.asked is None else f" to keep {in_words(cost.asked)}"
    remedy = "ask for less, or use a release that was paid for"
    if cost.mu_squared and total.delta == 0:
        remedy = "ask for a mechanism with a pure guarantee, since Gaussian noise needs an account with a delta"
    elif cost.mu_squared == 0 and part is not None:
        left += f", as {in_words(part)} are set aside for Gaussian noise"
    if analyst:
        remedy += ", or ask the custodian for a larger cap"
    whose = f"the cap of analyst {analyst!r} on dataset {dataset!r}" if analyst else f"dataset {dataset!r}"
    return InsufficientBudget(
        f"the release would cost {in_words(cost)}{asked}; {whose} has {left}. Nothing was charged: {remedy}",
        requested=cost,
        remaining=balance.remaining,
        total=total,
        analyst=analyst or None,
    )


def without_cap(dataset: str, cost: Spend, analyst: str) -> InsufficientBudget:
    """Return the refusal of an analyst whom nothing was granted where others have a cap."""
    return InsufficientBudget(
        f"analyst {analyst!r} has no cap on dataset {dataset!r}, where others have one, and may receive nothing. "
        "Nothing was charged: ask the custodian to grant a cap (hdpstats ledger grant)",
        requested=cost,
        remaining=NOTHING,
        total=NOTHING,
        analyst=analyst,
    )


def exhausted(dataset: str, cost: Spend) -> InsufficientBudget:
    """Return the refusal of the total to an analyst, who is not shown what others have spent."""
    asked = "" if cost.asked is None else f" to keep {in_words(cost.asked)}"
    return InsufficientBudget(
        f"the release would cost {in_words(cost)}{asked}; dataset {dataset!r} does not afford it to all analysts "
        "together. Nothing was charged: ask for less, or use a release that was paid for",
        requested=cost,
        remaining=None,
        total=None,
        analyst=None,
    )


def over_quota(dataset: str, usage: Usage, quota: Quota, analyst: str) -> QuotaExceeded:
    """Return the refusal of an analyst who has caused as much as the custodian allows him."""
    limits = [
        f"{caused} of {most} {what}"
        for caused, most, what in (
            (usage.charges, quota.charges, "charges"),
            (usage.bytes, quota.bytes, "bytes of requests and releases"),
        )
        if most is not None
    ]
    return QuotaExceeded(
        f"analyst {analyst!r} has used {' and '.join(limits)} on dataset {dataset!r}. Nothing was charged: use a "
        "release that was paid for, or ask the custodian for more (hdpstats ledger grant --most-charges)",
        analyst=analyst,
    )


def check_terms(known: Account, asked: Account, *, floor_asked: bool = True) -> None:
    """Refuse to open an account on other terms than those it has."""
    total, asked_total = known.balance.total, asked.balance.total
    if (total, known.relation, known.unit) != (asked_total, asked.relation, asked.unit):
        raise LedgerError(
            f"the account of dataset {known.dataset!r} was opened with a total of {in_words(total)}, "
            f"relation {known.relation!r} and unit {known.unit!r}, not {in_words(asked_total)}, {asked.relation!r} "
            f"and {asked.unit!r}; these are agreed once: open the ledger on its first terms"
        )
    if floor_asked and known.floor != asked.floor:
        raise LedgerError(
            f"the account of dataset {known.dataset!r} was opened with a floor of epsilon = "
            f"{decimal(known.floor.epsilon)} per release, not {decimal(asked.floor.epsilon)}; it is agreed once: open "
            "the ledger without floor="
        )
    part, asked_part = known.balance.gaussian, asked.balance.gaussian
    if asked_part not in (None, part):
        divided = "is not divided" if part is None else f"has {in_words(part)} set aside for Gaussian noise"
        raise LedgerError(
            f"the account of dataset {known.dataset!r} {divided}; it cannot be divided anew: open the ledger "
            "without gaussian="
        )
