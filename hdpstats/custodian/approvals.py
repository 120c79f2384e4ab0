"""Who approved a request file, and when: written down durably before anything is charged.

An approval is one line of JSON in ``site.approvals.jsonl`` beside the other state. It is for

* one request, as the custodian was shown it: a dry run shows the hash of all that is listed here (`Approval.sha256`),
  and who approves gives it again. What changed after it was looked at is not approved, be it the file or the settings;
* one analyst, one data set and one version of it in one account: the same file after an update, or for other data of
  the same people, needs another one;
* the settings that decide what is answered, as they were then (`decided_by`): who is protected, under which declared
  numbers, which rows, their schema, and what the analyst may ask and receive. The same request under others is asked
  otherwise or of others, and needs another one. What changes only when an answer leaves, what a computer is given to do
  or what is written to a log may change afterwards, and so may keys: they show who asks and who answers;
* what the request may cost in all (``epsilon``, ``delta``), which every later query is held to before it is charged
  (`hdpstats.custodian.answering`);
* so many charges that each of its queries has in vain (``vain``, by the SHA-256 of a query), be it that an answer was
  interrupted between its charge and its release, or that others were charged: what goes on then is charged once more,
  and who receives the release is charged all of them, and so more than his request says. Further ones need another
  approval. What a query does not need, as it was only being computed, is no other query's.

It stays. To take one back, delete its line while nothing is answered. A last line that was not written to its end, as
the power was cut, approves nothing, and the next one is written in its place.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, final

from hdpstats import __version__
from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import text
from hdpstats.custodian.files import StateError, append_to, check_state, held_alone, read_lines
from hdpstats.custodian.settings import SiteSettings
from hdpstats.exchange import RequestFile
from hdpstats.ledger import Ledger
from hdpstats.ledger.location import locate
from hdpstats.records import codec
from hdpstats.sites import Site

REQUIRED: Final = "required"

_EARLIER: Final = ("again", "besides")
"""Entries of approvals that earlier states of this package wrote."""


class NotApproved(ArgumentError):  # noqa: N818  (what a caller needs to know of it)
    """Nobody approved a request, or what it would be charged now, and somebody must. Nothing was charged."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Approval:
    """Who approved a request of an analyst, for which data, settings and cost, and when (UTC)."""

    request: str
    analyst: str
    account: str
    version: int
    epsilon: str
    delta: str
    by: str
    at: str
    dataset: str = ""
    vain: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what is no approval."""
        texts = self.request, self.analyst, self.account, self.dataset, self.by, self.at
        if type(self.version) is not int or any(not isinstance(each, str) for each in texts):
            raise TypeError("no approval")
        if not isinstance(self.settings, dict) or any(not isinstance(each, str) for each in self.settings.values()):
            raise TypeError("no approval")
        if not isinstance(self.vain, dict) or any(type(each) is not int for each in self.vain.values()):
            raise TypeError("no approval")

    @property
    def sha256(self) -> str:
        """The hash of all that is approved, by this version of hdpstats: a dry run shows it, who approves names it."""
        approved = {name: value for name, value in asdict(self).items() if name not in ("by", "at")}
        return codec.sha256({"format": "hdpstats approval 1", "hdpstats": __version__, **approved})

    def covers(self, vain: Mapping[str, int]) -> bool:
        """Whether it was given with as many charges in vain of each of these queries."""
        return all(self.vain.get(query, 0) >= number for query, number in vain.items())


def decided_by(settings: SiteSettings, site: Site, analyst: str) -> dict[str, str]:
    """Return the settings that decide what a request of an analyst is answered, by name and in words.

    They are public facts and the custodian's own words. ``people`` is the public number of people: where the number of
    rows is private it is the declared one.
    """
    terms, permissions = site.terms, settings.analysts[analyst]
    cap, rows = permissions.cap, settings.rows
    allowed = permissions.to_dict()
    return {
        "relation": terms.relation.value,
        "unit": "none" if terms.unit is None else repr(terms.unit),
        "max_rows_per_unit": str(terms.most_rows),
        "n_max": "none" if terms.n_max is None else str(terms.n_max),
        "row_order": terms.row_order,
        "people": str(site.records),
        "schema": site.schema.sha256,
        "rows": str(settings.data) if rows is None else f"{locate(rows.url).render_as_string()}: {rows.sql}",
        **{
            name: "all" if listed is None else ", ".join(map(_name, listed)) or "none"
            for name, listed in allowed.items()
        },
        "may receive": "no cap" if cap is None else f"epsilon {cap.epsilon}, delta {cap.delta}",
    }


def _name(name: str) -> str:
    """Return a name in a list; in double quotes, which none has, where it could pass for another list."""
    return f'"{name}"' if "," in name or name in ("all", "none") else name


def approval_of(
    settings: SiteSettings, site: Site, sha256: str, analyst: str, *, as_then: bool = False
) -> Approval | None:
    """Return the approval of a request, the latest one; None where nobody approved it.

    It is for as many charges in vain of each query as any of its approvals says.

    ``as_then`` takes the latest that was given under other settings of the same data: it approves nothing now.

    Raises
    ------
    StateError
        Others may write the file of approvals, or it cannot be read.
    """
    place = settings.approvals
    check_state(place)
    try:
        approvals = [_read(line) for line in read_lines(place)]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        raise StateError(
            f"state: {place}, with the approvals, cannot be read; restore it, or delete what is no whole line of it",
            argument="state",
        ) from None
    held = site.held
    if held is None:
        return None
    wanted = sha256, analyst, held.account, held.dataset, held.version
    found = [
        each for each in approvals if (each.request, each.analyst, each.account, each.dataset, each.version) == wanted
    ]
    decided = decided_by(settings, site, analyst) if found else {}
    if as_then:
        return next((each for each in reversed(found) if each.settings != decided), None)
    found = [each for each in found if each.settings == decided]
    if not found:
        return None
    vain = dict[str, int]()
    for query, number in (pair for each in found for pair in each.vain.items()):
        vain[query] = max(number, vain.get(query, 0))
    return replace(found[-1], vain=vain)


def _read(line: str) -> Approval:
    """Return the approval of a line; what was once counted over queries in it counts for none."""
    return Approval(**{name: value for name, value in json.loads(line).items() if name not in _EARLIER})


def proposed(
    settings: SiteSettings,
    ledger: Ledger,
    site: Site,
    request: RequestFile,
    analyst: str,
    *,
    vain: Mapping[str, int],
) -> Approval:
    """Return what an approval of a request would be now: nobody's, and of no time."""
    most = request.question.most
    return Approval(
        request=request.sha256,
        analyst=analyst,
        account=ledger.identity,
        version=ledger.version,
        epsilon=str(most.epsilon),
        delta=str(most.delta),
        by="",
        at="",
        dataset=ledger.dataset,
        vain=vain,
        settings=decided_by(settings, site, analyst),
    )


def record(settings: SiteSettings, site: Site, asked: Approval, *, by: str, sha256: str) -> Approval:
    """Record durably that somebody approves what is `proposed`; an approval that is there already stays as it is.

    Raises
    ------
    ArgumentError
        ``by`` is no name on one line, or ``sha256`` is not that of what is proposed. Nothing was charged.
    StateError
        It cannot be written. Nothing was charged.
    """
    name = text(by, name="approve", longest=200)
    if not name.isprintable():
        raise ArgumentError("approve must be a name of printable characters on one line", argument="approve")
    if sha256 != asked.sha256:
        raise ArgumentError(
            "sha256 must be that of an approval, all 64 digits, as --dry-run shows it: this file, the data, the "
            "settings or what was charged in vain is not what was looked at. Nothing was approved, and nothing charged",
            argument="sha256",
        )
    with held_alone(settings.approvals, flags=os.O_APPEND) as number:
        known = approval_of(settings, site, asked.request, asked.analyst)
        if known is not None and known.covers(asked.vain):
            return known
        made = replace(asked, by=name, at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        written = {name: value for name, value in asdict(made).items() if name != "vain" or value}
        try:
            append_to(number, settings.approvals, json.dumps(written) + "\n")
        except OSError as error:
            raise StateError(
                f"state: the approval cannot be kept in {settings.approvals}: {error.strerror}; nothing was charged",
                argument="state",
            ) from None
    return made


def changed_since(settings: SiteSettings, site: Site, approval: Approval) -> str:
    """Return the settings that an approval was not given under, with what they were then, in words."""
    now = decided_by(settings, site, approval.analyst)
    names = [name for name in {**now, **approval.settings} if now.get(name) != approval.settings.get(name)]
    return ", ".join(f"{name} (then {approval.settings.get(name, 'not written down')})" for name in names)


def needed_approval(settings: SiteSettings, site: Site, asked: RequestFile, analyst: str) -> Approval | None:
    """Return the approval of a request that somebody must approve; None where nobody need.

    Raises
    ------
    NotApproved
        Somebody must, and nobody did.
    """
    if settings.requests.approval != REQUIRED:
        return None
    approval = approval_of(settings, site, asked.sha256, analyst)
    before = None if approval is not None else approval_of(settings, site, asked.sha256, analyst, as_then=True)
    if before is not None:
        raise NotApproved(
            f"approve must be given anew (--approve NAME --sha256 HEX): {before.by} approved this request at "
            f"{before.at} under other settings; changed since: {changed_since(settings, site, before)}. See --dry-run. "
            "Nothing was charged",
            argument="approve",
        )
    if approval is None:
        raise NotApproved(
            "approve must name who approves this request (--approve NAME --sha256 HEX), since the settings say "
            "`requests: approval: required`; see what it asks with --dry-run. Nothing was charged",
            argument="approve",
        )
    return approval
