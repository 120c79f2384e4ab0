"""What the person who decides must see of a site, in a terminal: budgets, analysts, requests, releases, late answers.

It reads the settings, the ledger, what the service keeps in its state, and request files; no private row. What it shows
is the custodian's alone: who asked for what, and what was spent by whom.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pandas as pd

from hdpstats._base.errors import HdpError
from hdpstats._base.validation import printable
from hdpstats.custodian.approvals import REQUIRED, Approval, approval_of, changed_since, decided_by
from hdpstats.custodian.files import check_file
from hdpstats.custodian.kept_head import caps_of, open_account
from hdpstats.custodian.previewing import PreviewSite
from hdpstats.custodian.request_costs import CARRIED_AGAIN, OTHER_DATA, UNLESS_RELEASED, RequestCosts
from hdpstats.custodian.serving import disclosure
from hdpstats.custodian.settings import SiteSettings
from hdpstats.custodian.timing import Overruns
from hdpstats.exchange import RequestFile
from hdpstats.exchange.files import read_bytes
from hdpstats.ledger import Ledger
from hdpstats.ledger.backup import UNKNOWN_CHARGES
from hdpstats.ledger.export import account_table
from hdpstats.privacy.budget import Budget, Spend, decimal

WORDS: Final[Mapping[str, str]] = {
    "objective": "fitted {model} by objective perturbation",
    "output": "fitted {model} by output perturbation",
    "clipped_newton": "took a step of the fit of {model}, from clipped scores",
    "public_hessian": "took a step of the fit of {model}, with public curvature",
    "exponential": "fitted {model} by the exponential mechanism",
    "histogram": "counted people in cells",
    "statistics": "fitted {model} from noisy sums",
    "subsample": "fitted {model} from blocks of people",
    "count": "counted the people that a fit would use",
    "description": "received averages, shares or tables of people",
    "evaluation": "received how well a fit of {model} does",
    "importance_weights": "weighted public rows by {model}",
    "treatment_effect": "received outcomes by treatment, weighted",
    "neighbours": "weighted public rows by the people near them",
    "selection": "chose among public candidates",
    "loss_selection": "chose among fits of {model}",
    "distance": "compared private people with public rows",
    "curve": "received the performance curve of {model}",
    UNKNOWN_CHARGES: "nothing was released: what was left counts as spent, as charges of the ledger were lost",
}
"""What was released, by the kind of query."""

_SAYS_REQUEST: Final = re.compile(rb'"format"\s{0,10}:\s{0,10}"hdpstats request')

SHOWN: Final = 50
"""The latest charges that are shown."""


def overview(settings: SiteSettings, *, requests: Path | None = None, everything: bool = False) -> str:
    """Say how a site stands.

    Parameters
    ----------
    settings
        Of the site.
    requests
        A folder with request files, of which those that nobody approved are shown.
    everything
        Whether all charges are shown, or the latest `SHOWN`.

    Raises
    ------
    ArgumentError, LedgerError
        The ledger or the state cannot be read.
    """
    ledger = open_account(settings)
    history = ledger.history()
    parts = [
        f"Data set {ledger.dataset!r}, version {ledger.version}",
        _titled("Budget", account_table(ledger.balance)),
        _titled("Analysts", _analysts(settings, ledger)),
        *([] if requests is None else [_titled("Requests", _requests(settings, ledger, requests))]),
        _titled("Released", _released(history, everything=everything)),
        _titled("Answers that took longer than predicted", _late(settings)),
        _titled("Disclosure", _disclosed(settings)),
    ]
    return "\n\n".join(parts)


def _titled(title: str, text: str) -> str:
    return f"{title}\n{'-' * len(title)}\n{text}"


def _analysts(settings: SiteSettings, ledger: Ledger) -> str:
    stopped, caps = ledger.stopped(caps_of(settings)), ledger.caps
    rows = []
    for name, permissions in settings.analysts.items():
        balance, own, total = caps.get(name), ledger.history(name), permissions.cap
        if total is None and balance is not None:  # of an earlier version of the settings, or granted by hand
            total = balance.total
        rows.append(
            {
                "analyst": name,
                "may receive": "no cap" if total is None else _amount(total),
                "received": _amount(ledger.spent_by(name)),
                "charges": str(len(own)),
                "last": "never" if own.empty else f"{own['at'].iloc[-1]:%Y-%m-%d}",
            }
        )
    lines = [_table(rows)]
    lines += [f"{name} may ask for {permissions}" for name, permissions in settings.analysts.items()]
    lines += [f"{name} is stopped: {why}" for name, why in stopped.items()]
    lines += [f"{name} has a cap and is not in the settings" for name in caps if name not in settings.analysts]
    return "\n".join(lines)


def _table(rows: list[dict[str, str]]) -> str:
    return pd.DataFrame(rows).to_string(index=False)


def _amount(amount: Budget | Spend) -> str:
    delta = f", delta {decimal(amount.delta)}" if amount.delta else ""
    return f"epsilon {decimal(amount.epsilon)}{delta}"


def _requests(settings: SiteSettings, ledger: Ledger, folder: Path) -> str:
    """Return lines for each request file of a folder and of those in it: what it asks, and who approved it.

    What cannot be printed is written out: the files are strangers'.
    """
    sites: dict[str, PreviewSite] = {}
    for name in settings.analysts:
        people = next(iter(sites.values())).records if sites else None
        sites[name] = PreviewSite(settings, ledger, analyst=name, records=people)
    lines = [
        f"an approval for {name} is for these settings: "
        + "; ".join(f"{each} {value}" for each, value in decided_by(settings, site, name).items())
        for name, site in sites.items()
    ]
    found = list(_lines_of_requests(settings, sites, folder)) or [f"no request file in {folder}"]
    return "\n".join(map(printable, [*lines, *found]))


def _lines_of_requests(settings: SiteSettings, sites: Mapping[str, PreviewSite], folder: Path) -> Iterator[str]:
    needed = settings.requests.approval == REQUIRED
    watched = _waiting(settings)
    vain = {name: site.ledger.in_vain(str(site.terms)) for name, site in sites.items()}
    for path in sorted(folder.rglob("*.json")):
        if not _is_request(path):
            continue
        found = repr(str(path.relative_to(folder)))  # in quotes: no name passes for an approval
        try:
            asked = RequestFile.read(path)
        except HdpError as error:
            yield f"{found}: {error}"
            continue
        by, good, old, often = [], False, False, False
        for name, site in sites.items():
            most, terms = asked.question.most, site.terms
            costs = RequestCosts(settings, site.ledger, asked.sha256, name, most=most, terms=terms)
            approval = approval_of(settings, site, asked.sha256, name)
            before = approval_of(settings, site, asked.sha256, name, as_then=True)
            charges = costs.in_vain(vain[name])
            covered = approval is not None and approval.covers(charges)
            used_up = sum(charges.values()) > (0 if needed else CARRIED_AGAIN) and not covered
            old, often = old or costs.only_of_other_data, often or used_up
            if approval is not None:
                since = "; a charge since has no release: it is computed now, or was in vain"
                by.append(f"{_approved(approval)}{since if used_up else ''}")
                good = good or not used_up
            elif before is not None:
                changed = changed_since(settings, site, before)
                by.append(f"{_approved(before)} under other settings; changed since: {changed}")
        waits = [] if good else _waits(by, needed=needed, old=old, often=often)
        yield f"{found} ({asked.sha256[:12]}): {'; '.join([*by, *waits])}"
        yield from (
            f"    at the last look of a watched folder it waited, from {name}: {why}"
            for (sha256, name), why in watched.items()
            if sha256 == asked.sha256
        )
        yield f"    {asked.question}; may spend {asked.question.spending_in_words}"
        public = "none" if asked.public_sha256 is None else f"those with SHA-256 {asked.public_sha256}"
        yield f"    schema {asked.schema_sha256}; public rows: {public}"


def _waiting(settings: SiteSettings) -> dict[tuple[str, str], str]:
    """Return why requests of analysts waited at the last look of a watched folder; nothing where nothing tells."""
    try:
        check_file(settings.waiting, name="state")
        kept = json.loads(settings.waiting.read_bytes())
        return {(str(each["request"]), str(each["analyst"])): str(each["why"]) for each in kept}
    except (OSError, HdpError, ValueError, TypeError, LookupError, RecursionError):
        return {}


def _waits(by: list[str], *, needed: bool, old: bool, often: bool) -> list[str]:
    """Say whether a request waits that nobody approved, or not as it is now."""
    if needed:
        return ["then it waits for approval" if often else "waits for approval"]
    why = " and ".join([OTHER_DATA + UNLESS_RELEASED] * old + ["in vain too often"] * often)
    nobody = [] if by else ["approved by nobody, which is not required"]
    return nobody + ([f"in a folder it waits for approval, as it was charged {why}"] if why else [])


def _is_request(path: Path) -> bool:
    """Whether a file says that it is a request; it is not parsed for that, and a pipe or a device is none."""
    try:
        content = read_bytes(path, name="request")
    except HdpError:
        return False
    return _SAYS_REQUEST.search(content) is not None


def _approved(approval: Approval) -> str:
    return f"approved by {approval.by} on {approval.at.partition('T')[0]} for {approval.analyst}"


def _released(history: pd.DataFrame, *, everything: bool) -> str:
    if history.empty:
        return "nothing yet"
    shown = history if everything else history.tail(SHOWN)
    lines = [in_words(row) for row in shown.to_dict(orient="records")]
    left = len(history) - len(shown)
    return "\n".join([*([f"({left} earlier ones: --all shows them)"] if left else []), *lines])


def in_words(row: Mapping[Any, Any]) -> str:
    """Say what a charge was for, from a row of `hdpstats.ledger.Ledger.history`."""
    kind = str(row["mechanism"]).partition("/")[0]
    model = row["model"] if isinstance(row["model"], str) else "a model"
    what = WORDS.get(kind, f"received {kind} of {{model}}").format(model=model)
    nobody = "" if kind == UNKNOWN_CHARGES else "the custodian"
    who = row["analyst"] if isinstance(row["analyst"], str) else nobody
    cost = [f"{name} {row[name]:.6g}" for name in ("epsilon", "delta", "mu") if row[name]]
    unreleased = "" if row["released"] or kind == UNKNOWN_CHARGES else "; no release was recorded"
    return f"{row['at']:%Y-%m-%d}  {f'{who} {what}'.strip()}: {', '.join(cost)} (entry {row['entry']}){unreleased}"


def _late(settings: SiteSettings) -> str:
    if not settings.overruns.exists():
        return f"none was counted (there is no {settings.overruns})"
    most, found = settings.timing.overruns, Overruns.counted(settings.overruns)
    counted = {name: found.get(name, 0) for name in settings.analysts}
    lines = [
        f"{name}: {number} of {most}"
        + (
            f"; stopped: find out why (the log says which), then hdpstats site resume {settings.file} --analyst {name}"
            if number >= most
            else ""
        )
        for name, number in counted.items()
        if number
    ]
    return "\n".join(lines) or "none"


def _disclosed(settings: SiteSettings) -> str:
    missing = disclosure(settings, "nist").missing
    said = f"not stated yet in the settings (disclosure:): {', '.join(missing)}" if missing else "everything is stated"
    return f"{said}; the forms: hdpstats site disclosure {settings.file} --form nist"
