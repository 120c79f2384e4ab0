"""Who approved a request file, and when: written down durably before anything is charged.

An approval is one line of JSON in ``site.approvals.jsonl`` beside the other state. It is for

* one request, by the SHA-256 that the custodian was shown and gives again: a file that was exchanged after it was
  looked at is not approved;
* one analyst, one data set and one version of it in one account: the same file after an update, or for other data of
  the same people, needs another one;
* what the request may cost in all (``epsilon``, ``delta``), which every later query is held to before it is charged
  (`hdpstats.custodian.answering`);
* so many charges made in vain (``again``), of answers that were interrupted between their charge and their release:
  what goes on then is charged once more, and needs another approval.

It stays. To take one back, delete its line while nothing is answered.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, final

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import text
from hdpstats.custodian.files import append_to, check_file
from hdpstats.custodian.request_costs import StateError
from hdpstats.custodian.settings import SiteSettings
from hdpstats.exchange import RequestFile
from hdpstats.ledger import Ledger

REQUIRED: Final = "required"


class NotApproved(ArgumentError):  # noqa: N818  (what a caller needs to know of it)
    """Nobody approved a request, or what it would be charged now, and somebody must. Nothing was charged."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Approval:
    """Who approved a request of an analyst, for which data and which cost, and when (UTC)."""

    request: str
    analyst: str
    account: str
    version: int
    epsilon: str
    delta: str
    again: int
    by: str
    at: str
    dataset: str = ""

    def __post_init__(self) -> None:
        """Refuse what is no approval."""
        numbers = self.version, self.again
        texts = self.request, self.analyst, self.account, self.dataset, self.by, self.at
        if any(type(number) is not int for number in numbers) or any(not isinstance(each, str) for each in texts):
            raise TypeError("no approval")


def approval_of(settings: SiteSettings, ledger: Ledger, sha256: str, analyst: str) -> Approval | None:
    """Return the approval of a request, the one that covers most charges in vain; None where nobody approved it.

    Raises
    ------
    ArgumentError
        Others may write the file of approvals, or it cannot be read.
    """
    place = settings.approvals
    check_file(place, name="approvals")
    try:
        content = place.read_text(encoding="utf-8")
        approvals = [Approval(**json.loads(line)) for line in content.splitlines()]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, RecursionError):
        raise StateError(
            f"state: {place}, with the approvals, cannot be read; restore it, or delete what is no whole line of it",
            argument="state",
        ) from None
    wanted = sha256, analyst, ledger.identity, ledger.dataset, ledger.version
    found = [
        each for each in approvals if (each.request, each.analyst, each.account, each.dataset, each.version) == wanted
    ]
    return max(found, key=lambda each: each.again, default=None)


def record(
    settings: SiteSettings, ledger: Ledger, request: RequestFile, analyst: str, *, by: str, sha256: str, again: int
) -> Approval:
    """Record durably that somebody approves a request; an approval that is there already stays as it is.

    Raises
    ------
    ArgumentError
        ``by`` is no name on one line, or ``sha256`` is not that of the request; or it cannot be written. Nothing was
        charged.
    """
    name = text(by, name="approve", longest=200)
    if not name.isprintable():
        raise ArgumentError("approve must be a name of printable characters on one line", argument="approve")
    if sha256 != request.sha256:
        raise ArgumentError(
            "sha256 must be that of the request, all 64 digits, as --dry-run shows it: this file is not the one that "
            "was looked at. Nothing was approved, and nothing charged",
            argument="sha256",
        )
    most = request.question.most
    with _alone(settings.approvals) as number:
        known = approval_of(settings, ledger, sha256, analyst)
        if known is not None and known.again >= again:
            return known
        made = Approval(
            request=request.sha256,
            analyst=analyst,
            account=ledger.identity,
            version=ledger.version,
            epsilon=str(most.epsilon),
            delta=str(most.delta),
            again=again,
            by=name,
            at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            dataset=ledger.dataset,
        )
        try:
            append_to(number, settings.approvals, json.dumps(asdict(made)) + "\n")
        except OSError as error:
            raise ArgumentError(
                f"state: the approval cannot be kept in {settings.approvals}: {error.strerror}; nothing was charged",
                argument="state",
            ) from None
    return made


@contextmanager
def _alone(path: Path) -> Iterator[int]:
    """Give the number of the open file, which no other process approves in meanwhile."""
    check_file(path, name="approvals")
    try:
        number = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ArgumentError(
            f"state: the approval cannot be kept in {path}: {error.strerror}; nothing was charged", argument="state"
        ) from None
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield number
    finally:
        os.close(number)


def charges_approved(settings: SiteSettings, ledger: Ledger, asked: RequestFile, analyst: str) -> int | None:
    """Return how many charges in vain were approved with a request; None where nobody need approve it.

    Raises
    ------
    NotApproved
        Somebody must, and nobody did.
    """
    if settings.requests.approval != REQUIRED:
        return None
    approval = approval_of(settings, ledger, asked.sha256, analyst)
    if approval is None:
        raise NotApproved(
            "approve must name who approves this request (--approve NAME --sha256 HEX), since the settings say "
            "`requests: approval: required`; see what it asks with --dry-run. Nothing was charged",
            argument="approve",
        )
    return approval.again
