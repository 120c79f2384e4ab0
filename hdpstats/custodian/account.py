"""The account of a site: one that exists, on the terms that the settings name, with its head kept elsewhere."""

from collections.abc import Sequence
from functools import partial

from hdpstats._base.errors import LedgerError
from hdpstats.custodian import journal
from hdpstats.custodian.files import closed_to_others
from hdpstats.custodian.heads import Head, Keeper, KeptInDatabase, KeptInFile, KeptInSettings, check_heads, check_kept
from hdpstats.custodian.settings import Settings
from hdpstats.ledger import Ledger
from hdpstats.ledger.location import file_of, locate
from hdpstats.privacy.budget import Budget
from hdpstats.privacy.charging import agreed


def open_account(settings: Settings) -> Ledger:
    """Open the account, which must exist, and compare its terms with those of the settings; nothing is written.

    Raises
    ------
    LedgerError
        There is no such account, it does not verify, or its terms are not those of the settings.
    """
    declared = dict(settings.ledger)
    place, dataset, version = declared.pop("place"), declared.pop("dataset"), declared.pop("version", 1)
    path = file_of(locate(place))
    if path is not None and not path.exists():
        raise LedgerError(
            f"there is no ledger {path}. If it was there before, it is lost or elsewhere: restore its newest copy, "
            "since a new one would start from zero. If the account is new: hdpstats ledger open "
            f"{path} --dataset {dataset} --epsilon …"
        )
    ledger = Ledger.open_existing(place, dataset=dataset, version=version)
    same = declared.pop("same_people_as", None)
    if same is not None and not ledger.shares_account_with(Ledger.open_existing(place, dataset=same)):
        raise LedgerError(f"dataset {dataset!r} does not share the account of {same!r}, as the settings say")
    own = {
        "epsilon": ledger.budget.epsilon,
        "delta": ledger.budget.delta,
        "gaussian": ledger.balance.gaussian,
        "relation": ledger.relation,
    }
    if "epsilon" in declared:
        total = agreed(Budget(declared["epsilon"], declared.get("delta", ledger.budget.delta)), name="the total")
        declared |= {name: getattr(total, name) for name in ("epsilon", "delta") if name in declared}
    if declared.get("gaussian") is not None:
        declared["gaussian"] = agreed(declared["gaussian"], name="gaussian")
    for name, value in declared.items():
        if value != own[name]:
            raise LedgerError(
                f"the account of dataset {dataset!r} has {name} {own[name]}, and the settings say {value}; terms are "
                "agreed once: leave them out of the settings, or name the account that has them"
            )
    return ledger


def keepers(settings: Settings) -> tuple[Keeper, ...]:
    """Return the places where the settings have the head kept."""
    heads, dataset = settings.heads, settings.ledger["dataset"]
    found: list[Keeper] = []
    if heads.file is not None:
        found.append(KeptInFile(heads.file))
    if heads.database is not None:
        found.append(KeptInDatabase(heads.database, dataset))
    if heads.head is not None:
        found.append(KeptInSettings(Head(heads.entries, heads.head)))
    return tuple(found)


def account_for_serving(settings: Settings) -> Ledger:
    """Open the account, compare it with the kept heads, grant caps and quotas, and keep the head from now on.

    Raises
    ------
    ArgumentError, LedgerError
        As `open_account` and `hdpstats.custodian.heads.check_heads`; or the ledger's file cannot be closed to others.
    """
    ledger, places = open_account(settings), keepers(settings)
    _close(settings)
    head = check_heads(ledger, places, remedy="hdpstats site note SITE.YAML")
    kept = ", ".join(place.name for place in places) or "nowhere else: a ledger that is restored is not noticed"
    journal.write(
        ledger=ledger.dataset, entries=head.entries, head=head.head, spent=str(ledger.spent), head_kept_in=kept
    )
    keep(ledger, places, head.entries, head.head)
    ledger.watch(partial(keep, ledger, places))
    for analyst in settings.analysts:
        ledger.limit(analyst, most_charges=settings.limits.charges_each, most_bytes=settings.limits.stored_each)
    for analyst, cap in settings.caps.items():
        ledger.grant(analyst, epsilon=cap.epsilon, delta=cap.delta)
    return ledger


def keep(ledger: Ledger, places: Sequence[Keeper], entries: int, head: str) -> None:
    """Keep a head at every place.

    Raises
    ------
    LedgerError
        It cannot be kept; or one of as many or more entries is kept already that is not on the ledger's chain. Where
        several processes charge at once a later entry may be kept first: it is on the chain.
    """
    new = Head(entries, head)
    for place in places:
        kept = place.write(new)
        if kept != new:
            check_kept(ledger, kept, place)


def note(settings: Settings) -> Head:
    """Have the present head of a ledger kept where none is kept yet; refuse one that is older than what is kept."""
    ledger, places = open_account(settings), keepers(settings)
    head = check_heads(ledger, [place for place in places if place.read() is not None], remedy="")
    keep(ledger, places, head.entries, head.head)
    return head


def _close(settings: Settings) -> None:
    """Take others' permissions to the ledger's file away, and say so: releases are in it, and what was spent."""
    path = file_of(locate(settings.ledger["place"]))
    for each in () if path is None else (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        if closed_to_others(each):
            journal.write(closed_to_others=str(each), was="readable or writable by others than its owner")
