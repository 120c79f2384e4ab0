"""Asking the sites of a study, in rounds.

In one round of a fit the sites are asked at the same time (`ask`), and those that fail are named. Sites in this process
compute one after the other on the calling thread, the others on threads of their own meanwhile. A site that does not
answer does not hold up a fit for longer than the study's ``deadline``; what it may have charged stays charged, and the
same query is answered from its records once it is back.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import final

from hdpstats._base.errors import HdpError, SiteError
from hdpstats._base.progress import progress
from hdpstats.records.query import Query, Release
from hdpstats.sites.local import LocalSite
from hdpstats.sites.recipes import NotReceived, answer, is_looking, noted, received
from hdpstats.sites.study import Study


@final
class StillToCome(SiteError):  # noqa: N818  (what a caller needs to know of it)
    """A site was not asked this yet, and will be: nobody goes on without it."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Missing:
    """A site that did not answer in a round, and why, in words that do not depend on its records."""

    site: str
    round: int
    reason: str


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """The releases of one round by site, in the order of the study, and the sites that gave none."""

    releases: Mapping[str, Release]
    missing: tuple[Missing, ...]


def ask(study: Study, queries: Mapping[str, Query], *, round: int = 1, besides: int = 0) -> Answered:  # noqa: A002
    """Ask the sites of a study, each its own query, and wait for their releases.

    Parameters
    ----------
    study
        Whose sites, deadline and quorum.
    queries
        What each site is asked, by its name; sites without a query are left alone.
    round
        The number of the round, for what is said about sites that do not answer.
    besides
        How many sites take part without being asked in this round: they count towards the quorum.

    Raises
    ------
    HdpError
        Where the study has one site: whatever that site raises. Else where fewer sites than the quorum answered: a
        SiteError, or the error that all of them agree in (`InsufficientBudget` where no ledger affords the query). The
        releases of the others are in their ledgers, and the same call gets them again for nothing. SiteError where two
        sites charge one account, as one site behind two addresses does. `StillToCome` where a site raises that, once
        all were asked.
    """
    asked = {name: query for name, query in queries.items() if name in study.sites}
    if is_looking():
        return _received(study, asked, round)
    if len(study.sites) == 1:
        return Answered(releases={name: answer(study.sites[name], query) for name, query in asked.items()}, missing=())
    outcomes = _together(study, asked)
    for outcome in outcomes.values():
        if isinstance(outcome, StillToCome):
            raise outcome
    ordered = [name for name in study.sites if name in asked]
    failed = {name: outcome for name in ordered if isinstance(outcome := outcomes[name], HdpError)}
    releases = {name: outcome for name in ordered if isinstance(outcome := outcomes[name], Release)}
    if len(releases) + besides < study.quorum:
        raise _too_few(study, failed, answered=len(releases) + besides)
    _check_apart(releases)
    missing = (Missing(site=name, round=round, reason=str(error)) for name, error in failed.items())
    return Answered(releases={name: noted(release) for name, release in releases.items()}, missing=tuple(missing))


def _received(study: Study, asked: Mapping[str, Query], number: int) -> Answered:
    """Return what sites have of their queries, where at least one of them has it; nobody is charged."""
    found = {name: received(study.sites[name], query) for name, query in asked.items()}
    releases = {name: release for name, release in found.items() if release is not None}
    if asked and not releases:
        raise NotReceived
    missing = (Missing(site=name, round=number, reason="not asked yet") for name in found if name not in releases)
    return Answered(releases=releases, missing=tuple(missing))


def _check_apart(releases: Mapping[str, Release]) -> None:
    """Refuse two sites that charge one account: the same people would count twice, as if there were others.

    Accounts are distinguished by their identities, whatever sites and data sets are called and whatever was asked of
    them.
    """
    given: dict[str, str] = {}
    for name, release in releases.items():
        account = "" if release.entry is None else release.entry.account
        other = given.setdefault(account, name) if account else name
        if other != name:
            raise SiteError(
                f"{other!r} and {name!r} charge the same account of the same ledger: they are one site under two "
                "names, or have the same people; leave one of them out, study.at(...), and the rest is had again for "
                "nothing"
            )


def _together(study: Study, asked: Mapping[str, Query]) -> dict[str, Release | HdpError]:
    """Return what became of every query: a release or an error of the package; any other error is raised."""
    begun = time.monotonic()
    arrived: SimpleQueue[tuple[str, Release | Exception]] = SimpleQueue()

    def work(name: str) -> None:
        try:
            arrived.put((name, study.sites[name].answer(asked[name])))
        except Exception as error:  # one that is no HdpError is raised on the calling thread
            arrived.put((name, error))

    here = [name for name in asked if isinstance(study.sites[name], LocalSite)]
    away = [name for name in asked if name not in here]
    for name in away:  # daemons: a site that hangs must not keep the interpreter from ending
        threading.Thread(target=work, args=(name,), name=f"hdpstats site {name}", daemon=True).start()
    outcomes: dict[str, Release | Exception] = {}
    for name in progress([*here, *away], label="sites"):
        if name in here:
            work(name)
        try:
            who, outcome = arrived.get(timeout=_left(study.deadline, begun))
        except Empty:
            break
        outcomes[who] = outcome
    return {name: _known(outcomes.get(name) or _late(study.deadline)) for name in asked}


def _left(deadline: float | None, begun: float) -> float | None:
    """Return the seconds that are left of a round; None where there is no end."""
    return None if deadline is None else max(begun + deadline - time.monotonic(), 0.0)


def _late(deadline: float | None) -> SiteError:
    return SiteError(f"no answer within {deadline:g} seconds; what it charged stays charged")


def _known(outcome: Release | Exception) -> Release | HdpError:
    if isinstance(outcome, Release | HdpError):
        return outcome
    raise outcome


def _too_few(study: Study, failed: Mapping[str, HdpError], *, answered: int) -> HdpError:
    """Return the error of a round that too few sites answered."""
    kinds = {type(error) for error in failed.values()}
    reasons = "; ".join(f"{name}: {error}" for name, error in failed.items())
    needed = f"{answered} of {len(study.sites)} sites answered, and the study needs {study.quorum}"
    remedy = "releases that were given stay in the ledgers: the same fit gets them again for nothing"
    kind = kinds.pop() if len(kinds) == 1 else SiteError
    return kind(f"{needed} ({reasons}); {remedy}")
