"""The exchanges of one request, with a carrier between the sites and whoever collects their releases.

A carrier is a function that sends every site the same task with the same content, and returns what came back in time.
What a site sends back is a `Reply`: the bytes of a release file, or the name of a refusal (`REFUSALS`), and nothing
else. A site that refuses, sends something else or nothing is left out (`hdpstats.exchange.SeveralSites`).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, final

from hdpstats._base.errors import HdpError, SiteError
from hdpstats.exchange import ReleaseFile, RequestFile, SeveralSites
from hdpstats.exchange.several import DIFFERS, ENDS

FACTS: Final = "hdpstats_facts"
ANSWER: Final = "hdpstats_answer"
TASKS: Final = (FACTS, ANSWER)
"""The names of tasks: to state public facts, and to answer as far as can be."""

MOST_EXCHANGES: Final = 200
"""After so many exchanges a request is given up, which no mechanism needs."""

REFUSALS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "unavailable": "it could not answer; its custodian's log says why",
        "unknown-analyst": "its settings list no analyst of the name that signed the job",
        "request": "it cannot answer such a request, which is of another schema, or not whole; nothing was charged now",
        "not-asked": "the job that was signed does not name it for this request; nothing was charged now",
        "not-approved": "its custodian has not approved the request",
        "forbidden": "it does not permit this to the analyst",
        "insufficient-budget": "its ledger has not enough left for the analyst",
        "stopped": "the analyst is stopped there; its custodian knows why",
        "too-long": "the answer would take longer than it allows",
        "too-large": "the request is larger than it accepts",
        "refused": "it refuses what the request asks; its custodian's log says why",
        "others": "the files of the other sites do not belong together; nothing was charged now",
    }
)
"""What a site may say instead of answering: fixed words, none of which depends on a record."""

NO_ANSWER: Final = "no answer in time; what it charged stays charged"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What leaves a site: a release file's bytes, or the name of a refusal.

    Attributes
    ----------
    release : bytes or None
        The canonical JSON of a `ReleaseFile`, and a line's end.
    refusal : str or None
        A name of `REFUSALS`.
    """

    release: bytes | None = None
    refusal: str | None = None


Carrier = Callable[[str, Mapping[str, Any], Sequence[str]], Mapping[str, Reply]]
"""Sends a task, its content and to whom; returns the replies that came in time, by site."""


def content_of(several: SeveralSites) -> dict[str, Any]:
    """Return the content of a task: names, files as bytes, and who is left out."""
    return {
        "asked": list(several.asked),
        "releases": {name: written(release) for name, release in several.releases.items()},
        "left": dict(several.left),
    }


def several_of(content: Mapping[str, Any]) -> SeveralSites:
    """Read the content of a task.

    Raises
    ------
    HdpError
        It is none.
    """
    try:
        releases = {str(name): ReleaseFile.from_bytes(each) for name, each in dict(content["releases"]).items()}
        left = {str(name): in_fixed_words(reason) for name, reason in content["left"].items()}
        return SeveralSites(asked=tuple(map(str, content["asked"])), releases=releases, left=left)
    except HdpError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError):
        raise SiteError("the files of the other sites cannot be read") from None


_WORDS: Final = frozenset({NO_ANSWER, DIFFERS, ENDS, *REFUSALS.values()})


def in_fixed_words(reason: object) -> str:
    """Return why a site was left out, as this package says it, whatever a carrier wrote."""
    return reason if isinstance(reason, str) and reason in _WORDS else NO_ANSWER


def written(release: ReleaseFile) -> bytes:
    """Return the bytes of a release file."""
    return (release.to_json() + "\n").encode()


def collect(
    request: RequestFile, sites: Sequence[str], send: Carrier, *, known: Mapping[str, ReleaseFile] | None = None
) -> tuple[SeveralSites, Any]:
    """Ask sites, exchange by exchange, until the request is answered; return their releases and the result.

    It is answered once there is a result that lacks no answer of a site that still answers, or that no exchange adds
    to any more. Where no exchange adds anything and there is none, those that the others wait for are left out.

    Parameters
    ----------
    request, sites, send
        What is asked, of whom, and by which carrier.
    known
        Files of sites that answered the same request before: a site that is gone now is in the study all the same, with
        what it released. So the study is the one that it was, and what the others released then is theirs for nothing.

    Raises
    ------
    SiteError
        Fewer sites than more than half answer. What was released is in the ledgers.
    HdpError
        What the analyst's code raises with these releases.
    """
    several = SeveralSites(asked=tuple(sites), releases=known or {})
    several = _exchange(request, several, send, FACTS)
    for exchange in range(MOST_EXCHANGES):
        before, several = several, _exchange(request, several, send, ANSWER)
        goes_on = several.adds_to(before) or not exchange
        try:
            found, result = several.outcome(request)
        except HdpError:
            if goes_on:
                continue
            late = several.without_late(request)
            if late.left == several.left or len(late.present) < late.quorum:
                raise
            several = late
        else:
            if found.left == several.left or not goes_on:
                return found, result
    raise SiteError(f"the request was not answered in {MOST_EXCHANGES} exchanges")


def why_not(reply: Reply | None) -> str | None:
    """Return why a reply has no release, in words; None where it has one."""
    if reply is not None and reply.release is not None:
        return None
    refusal = None if reply is None else reply.refusal
    return NO_ANSWER if refusal is None else REFUSALS.get(refusal, REFUSALS["unavailable"])


def _exchange(request: RequestFile, several: SeveralSites, send: Carrier, task: str) -> SeveralSites:
    """Send one task to all sites that answer, and add what they reply."""
    present = several.present
    replies = send(task, content_of(several), present)
    releases: dict[str, ReleaseFile] = {}
    left: dict[str, str] = {}
    for name in present:
        reply = replies.get(name)
        if reply is None or reply.release is None:
            left[name] = why_not(reply) or NO_ANSWER
            continue
        with suppress(HdpError):
            found = ReleaseFile.from_bytes(reply.release)
            if found.request_sha256 == request.sha256:
                releases[name] = found
        if name not in releases:
            left[name] = REFUSALS["unavailable"]
    several = several.without(left).with_releases(releases)
    several.check_quorum()
    return several
