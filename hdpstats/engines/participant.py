"""A site that takes part in exchanges: it answers a request file, or says in fixed words that it does not.

What it does for a request is what ``hdpstats site answer`` does (`hdpstats.custodian.answering`): the custodian's
settings, permissions, caps, approval and ledger, one charge and one draw. The same exchange again gives the same bytes
for nothing, whoever repeats it.

**What leaves** is a `Reply`: the bytes of a release file, or the name of a refusal. Whatever goes wrong inside has one
name, and its cause is in the custodian's log alone: a file of its own (``site.carried.log`` in the folder of the
state), which no carrier reads. Where it is the site's own (its ledger or another file of its state cannot be used now,
its system fails, it lacks memory, outside of the analyst's own code and of the private computation), the name is
``unavailable``: the same request can be asked again.

**When it leaves.** New answers leave at slots (`hdpstats.custodian.timing`). Opening the site reads the rows, and how
long that takes depends on them: so every reply waits for a multiple of ``grid`` seconds since its task arrived. Choose
one that opening never takes as long as.
"""

import contextlib
import json
import logging
import math
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, final

from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats._base.work import Prices
from hdpstats.custodian import log
from hdpstats.custodian.answering import Exchange, is_of_site
from hdpstats.custodian.approvals import NotApproved
from hdpstats.custodian.capacity import Clock
from hdpstats.custodian.files import StateError, check_file
from hdpstats.custodian.previewing import check_approved
from hdpstats.custodian.senders import sender_of
from hdpstats.custodian.serving import protect_memory
from hdpstats.custodian.settings import SiteSettings
from hdpstats.engines.asked_sites import AskedSites
from hdpstats.engines.collecting import ANSWER, FACTS, REFUSALS, Reply, several_of, written
from hdpstats.exchange import ReleaseFile, RequestFile, SeveralSites
from hdpstats.exchange.files import Unreadable
from hdpstats.sites import Site
from hdpstats.sites.messages import code_of

GRID: Final = 10.0
"""Seconds."""

_SITE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
"""Names of sites that may stand in the name of a file."""


@final
class _Refused(Exception):  # noqa: N818  (no error: what the site says)
    """A refusal by name, and its cause for the custodian's log."""

    def __init__(self, refusal: str, why: HdpError | None = None) -> None:
        super().__init__(refusal)
        self.refusal, self.why = refusal, why


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Participation:
    """What a custodian says about taking part: a JSON file with these entries.

    Attributes
    ----------
    settings : Path
        The site's settings (``site.yaml``); ``{site}`` in the name stands for the name that the carrier has for it.
    grid : float
        Replies wait for a multiple of so many seconds.
    unsigned : bool
        Whether jobs that nobody signed are answered, to the only analyst of the settings: for a simulator.
    """

    settings: Path
    grid: float = GRID
    unsigned: bool = False

    @classmethod
    def read(cls, path: Path, *, site: str) -> Self:
        """Read the file.

        Raises
        ------
        ArgumentError
            Others may write it, or it is none.
        """
        check_file(path, name="participation")
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            settings, grid = str(fields.pop("settings")), float(fields.pop("grid", GRID))
            unsigned = fields.pop("unsigned", False)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            fields, grid, settings, unsigned = {"": 0}, math.nan, "", False
        if "{site}" in settings and not _SITE.fullmatch(site):
            raise ArgumentError(
                f"participation: {path} has {{site}} in the name of a file, and the carrier's name of this site has "
                "other signs than letters, digits and _ . -, or none: name the file itself",
                argument="participation",
            )
        if fields or not 0.01 <= grid <= 86400.0 or not isinstance(unsigned, bool):
            raise ArgumentError(
                f"participation: {path} must be JSON with settings (a file), and may have grid (seconds) and unsigned "
                "(true or false), nothing else",
                argument="participation",
            )
        return cls(settings=path.resolve().parent / settings.replace("{site}", site), grid=grid, unsigned=unsigned)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class _Open:
    """A site that is open for one request.

    Attributes
    ----------
    exchange : Exchange
        The site.
    asked : RequestFile
        The request.
    analyst : str
        Who asks.
    sites : tuple of str
        Whom he asks.
    """

    exchange: Exchange
    asked: RequestFile
    analyst: str
    sites: tuple[str, ...]


@final
class Participant:
    """A site's side of the exchanges of one request.

    Parameters
    ----------
    name
        What the carrier calls the site.
    participation
        The custodian's file.
    request
        The request's file, as the carrier brought it.
    sites
        The file of whom it is for (`hdpstats.engines.asked_sites`), as the carrier brought it.
    signers
        Who signed both, as the carrier has verified; empty where nobody did.
    prices, clock
        Those of this machine.
    """

    def __init__(
        self,
        *,
        name: str,
        participation: Path,
        request: Path,
        sites: Path,
        signers: frozenset[str],
        prices: Prices | None = None,
        clock: Clock = Clock(),  # noqa: B008  (frozen)
    ) -> None:
        self._name, self._participation, self._request, self._signers = name, participation, request, signers
        self._sites, self._prices, self._clock = sites, prices, clock
        self._open: _Open | None = None

    def reply(self, task: str, content: Mapping[str, Any]) -> Reply:
        """Answer one exchange; raises nothing, and says nothing of what happened inside but a refusal's name."""
        begun, grid = self._clock.now(), GRID
        try:
            grid = self._declared().grid
            made = Reply(release=written(self._answered(task, content)))
        except _Refused as refused:
            self._log(refusal=refused.refusal, **({} if refused.why is None else {"why": log.cause(refused.why)}))
            made = Reply(refusal=refused.refusal)
        except Exception as error:  # nothing of it may leave
            self._log(refusal="unavailable", why=log.cause(error))
            made = Reply(refusal="unavailable")
        steps = math.ceil((self._clock.now() - begun) / grid)
        self._clock.wait_until(begun + max(steps, 1) * grid)
        return made

    def _declared(self) -> Participation:
        return Participation.read(self._participation, site=self._name)

    def _log(self, **facts: object) -> None:
        with contextlib.suppress(Exception):
            log.write(request="carried", site=self._name, **facts)

    def _answered(self, task: str, content: Mapping[str, Any]) -> ReleaseFile:
        if task not in (FACTS, ANSWER):
            raise _Refused("request")
        opened = self._opened()
        if task == FACTS:
            return opened.exchange.facts(opened.asked)
        try:
            several = several_of(content)
            several.check_quorum()
        except HdpError as error:
            raise _Refused("others", error) from None
        if several.asked != opened.sites or self._name not in several.releases or self._name in several.left:
            raise _Refused("others")
        if threading.current_thread() is not threading.main_thread() and not self._declared().unsigned:
            raise StateError(
                "limits: analysis holds in the main thread of a process alone, and the carrier asks in another one: "
                "nothing was charged now; have it send the task to the client's own loop",
                argument="limits: analysis",
            )
        return self._asked(opened, several)

    def _opened(self) -> _Open:
        if self._open is not None:
            return self._open
        declared = self._declared()
        settings = SiteSettings.from_yaml(declared.settings)
        try:
            asked = RequestFile.read(self._request)
            asked.public_table(settings.dictionary, settings.persons.unit)
        except Unreadable:  # now
            raise
        except HdpError as error:
            raise _Refused("request", error) from None
        analyst = self._analyst(settings, declared, asked)
        sites = self._named(asked)
        self._check_approved(settings, asked, analyst)
        exchange = Exchange(settings, prices=self._prices, clock=self._clock)
        self._open = _Open(exchange=exchange, asked=asked, analyst=analyst, sites=sites)
        return self._open

    def _named(self, asked: RequestFile) -> tuple[str, ...]:
        """Return the names of the sites that a request is for, of which this is one."""
        try:
            said = AskedSites.read(self._sites)
        except Unreadable:  # now
            raise
        except HdpError as error:
            raise _Refused("not-asked", error) from None
        if said.request_sha256 != asked.sha256 or self._name not in said.names:
            raise _Refused("not-asked")
        return said.names

    def _check_approved(self, settings: SiteSettings, asked: RequestFile, analyst: str) -> None:
        try:
            check_approved(settings, asked, analyst)
        except NotApproved as error:
            raise _Refused("not-approved", error) from None

    def _analyst(self, settings: SiteSettings, declared: Participation, asked: RequestFile) -> str:
        """Return who asks: who signed the job; a request that is signed itself must be the same analyst's.

        An analyst whose key the settings name signs requests too: who issues the carrier's certificates is then not
        believed.
        """
        unsigned = not self._signers and declared.unsigned
        names = set(settings.analysts) if unsigned else self._signers & set(settings.analysts)
        if len(names) != 1 or not (unsigned or len(self._signers) == 1):
            raise _Refused("unknown-analyst")
        name = next(iter(names))
        if asked.signature is None and name not in settings.requests.keys:
            return name
        try:
            return sender_of(settings, asked, name)
        except StateError:  # of a key that cannot be read now
            raise
        except HdpError as error:
            raise _Refused("unknown-analyst", error) from None

    def _asked(self, opened: _Open, several: SeveralSites) -> ReleaseFile:
        def beside(own: Site) -> Mapping[str, Site]:
            try:
                return several.sites({self._name: own})
            except HdpError as error:
                if is_of_site(error):
                    raise
                raise _Refused("others", error) from None

        try:
            return opened.exchange.answer(
                opened.asked, analyst=opened.analyst, beside=beside, quorum=several.quorum_of_study()
            )
        except NotApproved as error:
            raise _Refused("not-approved", error) from None
        except HdpError as error:
            if is_of_site(error):
                raise
            code = str(error.facts.get("code") or code_of(error))
            raise _Refused(code if code in REFUSALS else "refused", error) from None


def keep_apart(participation: Path, *, site: str) -> None:
    """Keep what a carrier's process could show of the site to the custodian: call it once, before anything else.

    The custodian's log goes to a file of its own and nowhere else; where the settings cannot be read there is none.
    Memory is written to no disk.
    """
    protect_memory()
    logger = log.LOGGER
    logger.propagate = False
    for handler in logger.handlers:
        handler.close()
    logger.handlers[:] = [logging.NullHandler()]
    with contextlib.suppress(HdpError, OSError):
        settings = SiteSettings.from_yaml(Participation.read(participation, site=site).settings)
        settings.carried_log.touch(mode=0o600)
        check_file(settings.carried_log, name="state", private=True)
        handler = logging.FileHandler(settings.carried_log, encoding="utf-8")
        handler.setFormatter(log.JsonLine())
        logger.handlers[:] = [handler]
        logger.setLevel(logging.INFO)
