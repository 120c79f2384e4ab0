"""Requests that come as files, and their answers.

`Exchange` opens the site as the service does (files, account, kept heads, caps, the check of the rows), asks it the
question of a request by the analyst's own code, and keeps each query that the site answered with its release. So one
exchange is enough where a question takes several queries. Each query is checked, charged and computed as the service
does it: the analyst's permissions and caps, predicted times and slots, one charge and one draw. What was answered
before is handed out again for nothing, and gives the same file.

**What leaves** is a release file (`hdpstats.exchange.release_file`): the hash of the request, public facts, and the
queries with their releases. Where the analyst's code stops after a release (the next query is not permitted, or the
budget ends), what was released is in the ledger, and the same request goes on from there.

**What is approved is what is charged.** A request file is read once; its bytes are what is hashed, approved, asked and
answered. The costs of its queries by their proofs, those that depend on what was released before as well, are added up
before each charge, over all exchanges in which the request came (`hdpstats.custodian.request_costs`), and never exceed
what the request says in all (`hdpstats.exchange.questions.Question.most`), which is what
`hdpstats.custodian.previewing` shows and an approval is for. What the analyst's cap is charged besides, as others were
charged in vain for a query, is charged under an approval that says how often alone. Where queries of a request were
charged and have no release, as a process ended, it is charged further only under an approval that was given since;
where nobody need approve, as often as it comes from its custodian, and with `CARRIED_AGAIN` such charges of all its
queries at most where a carrier or a folder brings it: a carrier could end the process each time, with other files of
other sites, and a query that takes more memory than there is does. Every charge without a release counts: a process
that goes on under its own, which charges nothing, needs the approval too. How often a query was charged in vain is
looked at before its charge and compared within it: what others are charged meanwhile on the same ledger is covered by
nothing. What is brought so and was charged or answered for other data, at another version of them alone, or under
other terms (``n_max``, ``max_rows_per_unit``), is not charged at these before somebody approves it: old files come
again. What other requests of its analyst, or fits over a network, were charged at these makes it no new one.

Processes that answer files for one site take turns (``site.answering.lock`` beside the other state). What a carrier or
a folder brings and ended `ENDED` processes that answered it, or that read it in a folder, is refused, so that those
started anew come to the others; in each round of a folder they look at the requests of analysts first for whom none
ended for a day (`kept_for_last`).
"""

import json
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, final

import pandas as pd

from hdpstats._base.errors import ArgumentError, ChargedMeanwhile, HdpError, LedgerError, SiteError
from hdpstats._base.new_files import check_new, new_file
from hdpstats._base.work import Prices
from hdpstats.custodian import log
from hdpstats.custodian.analysis_time import AnalysisTime
from hdpstats.custodian.app import read_query
from hdpstats.custodian.approvals import Approval, NotApproved, approval_of, needed_approval
from hdpstats.custodian.capacity import Clock
from hdpstats.custodian.files import StateError, held_alone, write_durably
from hdpstats.custodian.kept_head import open_account
from hdpstats.custodian.previewing import PreviewSite, check_approved, check_public, considered, recorded
from hdpstats.custodian.prices import measured
from hdpstats.custodian.request_costs import (
    CARRIED_AGAIN,
    OTHER_DATA,
    RequestCosts,
    affords_all,
    affords_quota,
    left_to_account,
    owed_second,
    query_sha256,
    was_charged,
)
from hdpstats.custodian.senders import sender_of
from hdpstats.custodian.serving import open_site, read_rows
from hdpstats.custodian.settings import SiteSettings
from hdpstats.custodian.timing import Overruns, Slots
from hdpstats.exchange import ReleaseFile, RequestFile, RequestName
from hdpstats.exchange.files import read_bytes
from hdpstats.exchange.longest_text import longest_text
from hdpstats.exchange.questions import Question
from hdpstats.exchange.release_file import CHARGED, CHARGED_BEFORE, QUERY_CHARGED, refusal_json
from hdpstats.exchange.weighted_people import CountingSite
from hdpstats.ledger import Ledger, SignatureError, SigningKey
from hdpstats.privacy.budget import Spend, total
from hdpstats.records.query import Query, Release
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.sites import LocalSite, Site
from hdpstats.sites.asking import StillToCome
from hdpstats.sites.messages import CODES, NUMBERS, RequestRefused
from hdpstats.sites.site import HeldData, SiteTerms


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Chargeable:
    """What a request may be charged now.

    Attributes
    ----------
    again : int or None
        How many charges in vain all of its queries may have together without an approval; None for any number.
    approval : Approval or None
        Who approved how many of each query, those that others made among them.
    waits : str
        Why nothing is charged before somebody approves it; empty where something may be.
    old : str
        Why no query is charged that was charged at other data alone; empty where one may be.
    """

    again: int | None
    approval: Approval | None
    waits: str = ""
    old: str = ""

    def covers(self, vain: Mapping[str, int]) -> bool:
        """Whether somebody approved so many charges in vain, by the SHA-256 of a query."""
        return self.approval is not None and self.approval.covers(vain)


REFUSED_BEFORE: Final = (
    "approve must name who approves this request (hdpstats site approve): it was refused before, and its refusal lies "
    "in the outbox. What is charged now would be charged without anybody asking anew. Nothing was charged now. Its "
    "author asks anew by writing the file again, with a time later than the refusal's, or by another replicate"
)
"""What is said of a request that a folder brought, refused, and brings again."""


@final
class AnsweringSite(CountingSite):
    """A site as one analyst sees it, which keeps what it answered.

    The analyst's own code asks it, so it shows what every `Site` shows, and neither rows nor the ledger.
    """

    def __init__(
        self,
        site: LocalSite,
        settings: SiteSettings,
        *,
        analyst: str,
        slots: Slots,
        costs: RequestCosts,
        chargeable: Chargeable,
        question: Question,
        joint: bool,
    ) -> None:
        self.time = AnalysisTime(settings.limits.analysis)
        self._site, self._limits, self._slots, self._analyst = site, settings.limits, slots, analyst
        self._permissions = settings.analysts[analyst]
        self._costs, self._chargeable, self._question, self._joint = costs, chargeable, question, joint
        self.answers: dict[str, tuple[Query, Release]] = {}
        self.refusal: BaseException | None = None
        self._later: RequestRefused | None = None
        self._second: tuple[Spend, ...] | None = None

    @property
    def schema(self) -> Schema:
        """The custodian's schema."""
        return self._site.schema

    @property
    def records(self) -> int:
        """The public number of people."""
        return self._site.records

    @property
    def terms(self) -> SiteTerms:
        """Who is protected."""
        return self._site.terms

    @property
    def held(self) -> HeldData:
        """Which data this is."""
        with self.time.paused():
            return self._site.held

    def put_public(self, table: PublicTable) -> None:
        """Keep public rows for the analyst's queries."""
        self._check_public(table)
        with self.time.paused():
            self._site.put_public(table, analyst=self._analyst, most_bytes=self._limits.kept_each)

    def check_permitted(self, query: Query, columns: Collection[str]) -> None:
        """Refuse what the analyst may not ask; where it is too large or takes too long, nothing is charged before."""
        try:
            with self.time.paused():
                self._check_allowed(query, columns)
        except RequestRefused as refused:
            self.refusal = _refusal(refused.code, **refused.numbers)
            raise self.refusal from None
        self.check_later(query)

    def check_later(self, query: Query) -> None:
        """Charge nothing from now on where a later query is predicted to take too long, or may be too large."""
        with self.time.paused():
            try:
                self._check_size(longest_text(query))
                self._slots.seconds(query, analyst=self._analyst, later=bool(self.answers))
            except RequestRefused as refused:  # what was answered before is handed out all the same
                self._later = refused

    def _check_size(self, length: int) -> None:
        if length > self._limits.query:
            raise RequestRefused("too-large", limit=self._limits.query)

    def _check_allowed(self, query: Query, columns: Collection[str]) -> None:
        if not self._permissions.allow(query, columns):
            raise RequestRefused("forbidden")

    def expect(self, costs: tuple[Spend, ...]) -> None:
        """Take what each charge of the second of two questions costs."""
        self._second = costs

    def received(self, query: Query) -> Release | None:
        """Return what the analyst has received of a query."""
        with self.time.paused():
            return self._site.received(query, analyst=self._analyst)

    def answer(self, query: Query) -> Release:
        """Answer as the service does, and keep the answer as the ledger has it from now on."""
        try:
            with self.time.paused():  # until it is kept: what was charged leaves, whenever the time is over
                release = self._answered(query)
                self.answers[query.to_json()] = query, release
        except RequestRefused as refused:
            self.refusal = _refusal(refused.code, **refused.numbers)
            raise self.refusal from None
        except BaseException as error:
            if query.to_json() not in self.answers:  # else the time was over afterwards
                self.refusal = error
            raise
        return release

    def _answered(self, query: Query) -> Release:
        written = query.to_json().encode()
        self._check_size(len(written))
        asked = read_query(written)
        self._check_allowed(asked, self._site.columns(asked, analyst=self._analyst))
        release = self._site.received(asked, analyst=self._analyst)
        if release is None:
            self._charge(asked)
            release = self._site.received(asked, analyst=self._analyst)
        if release is None:
            raise SiteError("the ledger does not have what was released; see hdpstats ledger verify")
        self._costs.add(asked, total(release.events), charged=False)
        return release

    def _charge(self, query: Query) -> None:
        """Have a query charged and computed, at no more charges in vain than were looked at before."""
        while True:
            in_vain = self._check_approved(query)
            try:
                self._slots.answer(query, analyst=self._analyst, in_vain=in_vain, later=bool(self.answers))
            except ChargedMeanwhile:  # over a network
                self._take_back(query)
                continue
            except Exception:
                self._take_back(query)
                raise
            return

    def _check_approved(self, query: Query) -> int:
        """Refuse what would go beyond what the request says, and what was approved, before it is charged.

        Return how many charges of the query have no release then.
        """
        if self._later is not None:
            raise self._later
        allowed, analyst = self._chargeable, self._analyst
        waits = allowed.waits or (allowed.old if allowed.old and self._costs.is_old(query) else "")
        if waits:
            raise NotApproved(waits, argument="approve")
        in_vain, others = self._check_in_vain(query)
        shared = self._site.received(query) is not None
        answered = [each for each, _ in self.answers.values()]
        ledger, owed = self._site.ledger, owed_second(self._question, answered, self._second)
        if self._question.second is not None:
            quote, second = self._site.quote(query, analyst=analyst), ledger.floor.charged_together(owed)
            charged = quote.cost + quote.ahead + second
            of_account = left_to_account(quote.cost, quote.ahead, second, shared=shared)
            if not affords_all(ledger, charged, analyst, of_account=of_account, besides=quote.cost.times(others)):
                raise _refusal("insufficient-budget")
        later = self._site.charges_ahead(query, analyst=analyst) + len(owed)
        if not affords_quota(ledger.left(analyst), later, self._limits):
            raise _refusal("quota")
        self._costs.add(query, self._site.cost(query, analyst=analyst), charged=True)
        return in_vain

    def _check_in_vain(self, query: Query) -> tuple[int, int]:
        """Refuse a query where more charges of the request are in vain than were approved, or need no approval.

        What others were charged in vain for the query always does. Return how many charges of it are in vain, and how
        many of them were made for others.
        """
        allowed, ledger, terms, name = self._chargeable, self._site.ledger, str(self._site.terms), query_sha256(query)
        vain = self._costs.in_vain(ledger.in_vain(terms), query)
        others = ledger.in_vain(terms, self._analyst).get(name, 0)
        number = vain.get(name, 0)
        why, every = "", sum(vain.values())
        if allowed.again is not None and every > allowed.again and not allowed.covers(vain):
            why = (
                f"approve must be given anew: {every} charges of its queries have no release; an answer is computed by "
                "another process, or was interrupted, and going on may make one more. See --dry-run. Nothing was "
                "charged for it now"
            )
        elif others and not allowed.covers({name: number}):
            why = (
                f"approve must be given for what the analyst is charged besides (--approve NAME --sha256 HEX): others "
                f"were charged {others} times in vain for a query of this request, and who receives it is charged as "
                "much too, more than the request says. See --dry-run. Nothing was charged for it now"
            )
        if not why:
            return number, others
        if self._joint and number:
            self._costs.wait(query, self._site.cost(query, analyst=self._analyst))
        raise NotApproved(why, argument="approve", computed=True)

    def _take_back(self, query: Query) -> None:
        """Forget the cost of a query that was refused, where nothing of it was charged to the analyst."""
        with suppress(HdpError):
            ledger, terms, name = self._site.ledger, str(self._site.terms), query_sha256(query)
            charged = ledger.in_vain(terms).get(name, 0) > ledger.in_vain(terms, self._analyst).get(name, 0)
            if not charged and self._site.received(query, analyst=self._analyst) is None:
                self._costs.take_back(query)


FIRST_CHARGED: Final = (
    "The propensity model of this request was charged before, stays charged, and leaves with no answer to it: ask for "
    "it alone (a request `propensity` of the same formula, epsilon and replicate), which costs nothing"
)
"""What is said where the second part of a request is refused after the first was charged."""


def _with_charges(refusal: BaseException, question: Question, site: "AnsweringSite") -> BaseException:
    """Return a refusal, which says where the request has answers in this exchange that it was charged for them.

    It says of a first question what that leaves. What earlier exchanges were charged `answer` says, and a watched
    folder in its refusals.
    """
    asked = [query for query, _ in site.answers.values()]
    if not isinstance(refusal, HdpError) or not asked:
        return refusal
    first_alone = question.second is not None and not question.owes_second(asked)
    return _charged(refusal, FIRST_CHARGED if first_alone else _said_of_charges(question))


def _said_of_charges(question: Question | None) -> str:
    """Return what is said of a request that was charged; ``question`` is None where the request cannot be read."""
    return QUERY_CHARGED if question is not None and question.second is None else CHARGED_BEFORE


def _charged(refusal: HdpError, words: str) -> HdpError:
    """Return a refusal of a request that was charged, which says so once."""
    if CHARGED in refusal.facts:
        return refusal
    return type(refusal)(f"{refusal}. {words}", **refusal.facts | {CHARGED: True})


def _with_earlier_charges(
    refusal: HdpError, settings: SiteSettings, sha256: str, analyst: str | None, question: Question | None
) -> HdpError:
    """Return a refusal of a request, by its SHA-256, which says whether the request was charged in whatever exchange.

    That is so before the site is opened, too, and where nothing says whose the request is: it may be any analyst's of
    the settings then. A fault of the site's own ledger or state refuses nothing, and stays as it is; so does each
    refusal where these do not tell.
    """
    names, charged = settings.analysts if analyst is None else [analyst], False
    if not is_of_site(refusal):
        with suppress(HdpError):
            ledger = open_account(settings)
            charged = any(was_charged(settings, ledger, sha256, name) for name in names)
    return _charged(refusal, _said_of_charges(question)) if charged else refusal


def is_of_site(error: HdpError) -> bool:
    """Whether the site's ledger or another file of its state cannot be used now, which is no fault of a request."""
    return isinstance(error, LedgerError) and not isinstance(error, SignatureError)


def comes_again(error: HdpError) -> bool:
    """Whether an error refuses no request: somebody may approve it, or the site can answer later."""
    return is_of_site(error) or isinstance(error, NotApproved)


def _fault(error: BaseException | None) -> Exception | None:
    """Return the fault of the site that an error is: of its state, its system or its memory; None where it is none."""
    if isinstance(error, OSError):  # what a request asks opens no file of its own
        return StateError(f"state: the system fails ({log.cause(error)})", argument="state")
    return error if isinstance(error, MemoryError) or (isinstance(error, HdpError) and is_of_site(error)) else None


def _refusal(code: str, **numbers: float) -> HdpError:
    refusal = CODES[code]
    added = "".join(f"; {name}: {number:g}" for name, number in numbers.items())
    return refusal.error(refusal.message + added, code=code, **numbers)


ENDED: Final = 5
"""How often processes may end, or the site lack memory, for what a carrier or a folder brings, before it is refused."""

_REMEMBERED: Final = 10_000
"""Of how many requests the ends of processes are remembered, of those that ended some and those that ended five."""
"""Of how many requests that is known: of those answered since, those that ended fewer processes, and the refused."""

_DAY: Final = 24 * 3600.0


@contextmanager
def taking_turns(settings: SiteSettings, sha256: str, analyst: str, *, most: float) -> Iterator[None]:
    """Run a block that no other process runs for the same site; it is open to others when this process ends.

    A folder's request is read, answered and written down in it, and so is what leaves for it: its SHA-256 is known
    before (`RequestName`).

    Raises
    ------
    SiteError
        What `counting_ends` raises.
    StateError
        The file of the lock cannot be used.
    """
    with held_alone(settings.answering), counting_ends(settings, sha256, analyst, most=most):
        yield


@contextmanager
def counting_ends(settings: SiteSettings, sha256: str, analyst: str, *, most: float) -> Iterator[None]:
    """Run a block for a request of an analyst under the lock of `taking_turns`.

    ``site.ends.json`` says how often a process ended in the block for the request, and when one began last: one that
    takes more memory than there is must not end each process that is started anew, and so keep the requests of others.
    A `MemoryError` that leaves the block counts as such an end. An answer or a refusal sets the count to 0, and leaves
    the time of the last end for a day; a request that waits, or a failure of the site, changes neither.

    Raises
    ------
    SiteError
        That was ``most`` times since the request was last answered or refused: its code is "ended". Nothing was charged
        now.
    """
    request, begun = f"{analyst} {sha256}", _begun(settings.ends)
    ended, at = begun.get(request, (0, 0.0))
    if ended >= most:
        raise SiteError(
            f"{ended} processes of the site ended, or had not enough memory, while they read or answered this "
            "request: it may take more memory than there is. Nothing was charged now; its custodian can have it "
            "answered (hdpstats site answer)",
            code="ended",
        )
    others = {each: kept for each, kept in begun.items() if each != request}
    under_way, answered, after = others | {request: (ended + 1, time.time())}, others | {request: (0, at)}, begun
    _keep(settings.ends, under_way)
    try:
        yield
        after = answered
    except MemoryError:
        after = under_way
        raise
    except HdpError as error:
        if not comes_again(error):
            after = answered
        raise
    finally:
        _keep(settings.ends, after)


def kept_for_last(settings: SiteSettings) -> dict[str, float]:
    """Return the analysts for whose requests processes ended within a day, or answer now, and when the last one began.

    So it is whether or not these requests were answered since.

    Others come before them within each round of `hdpstats.custodian.watching.Watch`, and of them the one first whose
    last one is longest ago. So requests of others keep nobody's for good, and one that ends each process lets those
    started anew come to the others first.
    """
    begun, now, last = _begun(settings.ends), time.time(), dict[str, float]()
    for request, (_, at) in begun.items():
        if abs(now - at) < _DAY:
            analyst = request.rpartition(" ")[0]
            last[analyst] = max(at, last.get(analyst, at))
    return last


def _begun(place: Path) -> dict[str, tuple[int, float]]:
    """Return how often processes ended for each request, and when one began last that did, as their file says.

    One that is under way counts among them.
    """
    try:
        counts = json.loads(place.read_bytes())
        return {str(request): (int(count), float(at)) for request, (count, at) in counts.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):  # none was, or it was not written whole
        return {}


def _keep(place: Path, begun: Mapping[str, tuple[int, float]]) -> None:
    """Keep the latest of them: those that ended few processes, or were answered since, take no place of the refused.

    What was answered since is kept for a day. Where there is no room on the disk, nothing is remembered.
    """
    now, kept = time.time(), list[tuple[str, tuple[int, float]]]()
    answered = [each for each in begun.items() if not each[1][0] and abs(now - each[1][1]) < _DAY]
    few = [each for each in begun.items() if 0 < each[1][0] < ENDED]
    refused = [each for each in begun.items() if each[1][0] >= ENDED]
    for group in (answered, few, refused):
        kept += group[-_REMEMBERED:]
    with suppress(OSError):
        write_durably(place, json.dumps(dict(kept)))


Beside = Callable[[Site], Mapping[str, Site]]
"""Gives a site its place among others: all of them by name."""


class FewerAnswers(SiteError):  # noqa: N818  (what a caller needs to know of it)
    """An analysis did not come to its end, and the file of an earlier one has more of its answers: that one stays."""


@final
class Exchange:
    """A site that was opened to answer requests that come as files.

    Parameters
    ----------
    settings
        Of the site.
    prices, clock
        Those of this machine.

    Attributes
    ----------
    ended : set of (str, str)
        The requests, by their SHA-256 and analyst, that were answered to their end here.

    Raises
    ------
    ArgumentError, SchemaError, LedgerError
        What the settings name cannot be used (`hdpstats.custodian.serving.open_site`).
    """

    def __init__(
        self,
        settings: SiteSettings,
        *,
        prices: Prices | None = None,
        clock: Clock = Clock(),  # noqa: B008  (frozen)
    ) -> None:
        self.settings, self._site = settings, open_site(settings)
        self._key = None if settings.signing.key is None else SigningKey.read(settings.signing.key)
        self.ended = set[tuple[str, str]]()
        self._slots = Slots(
            self._site,
            settings.timing,
            prices=measured() if prices is None else prices,
            overruns=Overruns(settings.overruns),
            clock=clock,
        )

    @property
    def ledger(self) -> Ledger:
        """The account of the site."""
        return self._site.ledger

    def approval(self, sha256: str, analyst: str) -> Approval | None:
        """Return who approved a request of an analyst for what this site is now; None where nobody did."""
        return approval_of(self.settings, self._site, sha256, analyst)

    def was_charged(self, sha256: str, analyst: str) -> bool:
        """Whether a query of a request was charged, in whatever exchange.

        Raises
        ------
        LedgerError
            Its costs (`StateError`) or the ledger cannot be read.
        """
        return was_charged(self.settings, self.ledger, sha256, analyst)

    def refusal(self, sha256: str, analyst: str, code: str, facts: Mapping[str, object]) -> str:
        """Return the text of a file that says why a request was refused, signed where the site holds a key.

        It has the code, the public ones of the facts, and whether a query of the request was charged.

        Raises
        ------
        LedgerError
            What `was_charged` raises.
        """
        public = {name: fact for name, fact in facts.items() if name in (*NUMBERS, CHARGED)}
        if self.was_charged(sha256, analyst):
            public[CHARGED] = True
        return refusal_json(sha256, code, public, key=self._key)

    def facts(self, asked: RequestFile) -> ReleaseFile:
        """Return a file without answers, for a request that several sites answer: the public facts about this one."""
        return self._file(asked, {})

    def answer(
        self,
        asked: RequestFile,
        *,
        analyst: str,
        public: pd.DataFrame | None = None,
        beside: Beside | None = None,
        quorum: int | None = None,
        carried: bool = False,
        refused: bool = False,
        before: Callable[[], int | None] = lambda: None,
    ) -> ReleaseFile:
        """Answer a request of an analyst; the same request again gives the same file, for nothing.

        Parameters
        ----------
        asked, analyst, public
            As in `answer`.
        carried
            Whether a folder brings it, and not its custodian, who knows what comes again and why. Then whoever read it
            has the turn (`taking_turns`). What comes with ``beside`` is brought by a carrier.
        refused
            Whether what is carried was refused before: it is charged if somebody approved it, before or since.
        beside, quorum
            Where several sites are asked: what gives this site its place among them, and how many must answer. The
            analyst's code stops where it needs what the others have not released yet.
        before
            Returns how many answers the file has that the new one would replace, where there is one.

        Raises
        ------
        LedgerError
            The ledger or another file of the site's state (`StateError`) cannot be used now.
        MemoryError
            The site has not enough memory now, outside of the analyst's own code and of the private computation.
        FewerAnswers
            Its time was over, or its code failed, before it had asked for all that the earlier file has.
        ArgumentError
            Nobody approved it, and somebody must; or what it says cannot be asked. Nothing was charged.
        HdpError
            What the site raises; what was charged before stays charged, and the same request goes on from there.
        """
        brought = carried or beside is not None
        turn = taking_turns(self.settings, asked.sha256, analyst, most=ENDED if brought else math.inf)
        with nullcontext() if carried else turn:
            most, terms = asked.question.most, self._site.terms
            costs = RequestCosts(self.settings, self.ledger, asked.sha256, analyst, most=most, terms=terms)
            answering = AnsweringSite(
                self._site,
                self.settings,
                analyst=analyst,
                slots=self._slots,
                costs=costs,
                question=asked.question,
                joint=beside is not None,
                chargeable=self._chargeable(asked, analyst, costs, carried=brought, refused=refused),
            )
            sites, stopped = answering if beside is None else beside(answering), ""
            try:
                with self._slots.request(analyst), asked.in_its_recipe():
                    answering.time.run(partial(self._ask, asked, sites, public, quorum))
            except Exception as error:
                fault = _fault(answering.refusal)  # whatever the code made of it, as that too few sites answered
                if fault is None and not isinstance(error, MemoryError):  # the code's own is as any failure of it
                    fault = _fault(error)
                if fault is not None:
                    raise _with_charges(fault, asked.question, answering) from None
                stopped = self._stopped(error, asked, answering)
            if answering.refusal is not None:  # which a study of several sites goes on without
                refusal = _fault(answering.refusal) or answering.refusal
                raise _with_charges(refusal, asked.question, answering)
        if stopped and len(answering.answers) < (before() or 0):
            raise FewerAnswers(f"{stopped}. The file of an earlier answer to this request has more, and stays as it is")
        if not stopped:
            self.ended.add((asked.sha256, analyst))
        entries = [None if each.entry is None else each.entry.to_dict() for _, each in answering.answers.values()]
        log.write(request="file", sha256=asked.sha256, analyst=analyst, entries=entries)
        return self._file(asked, answering.answers)

    def _stopped(self, error: Exception, asked: RequestFile, answering: AnsweringSite) -> str:
        """Return why the analyst's own code stopped, where what was released leaves all the same.

        Where that is what other sites have not answered yet, the file may have no answer: the site is asked again.

        Raises
        ------
        HdpError
            Nothing was released, and nothing is still to come; or the site refused what would be next.
        """
        if isinstance(error, StillToCome):
            if isinstance(answering.refusal, HdpError):
                raise _with_charges(answering.refusal, asked.question, answering) from None
            return str(error)
        if isinstance(error, HdpError):
            too_long = error.facts.get("code") == "too-long"
            if not answering.answers or (too_long and answering.refusal is not None):
                raise _with_charges(
                    error, asked.question, answering
                ) from None  # else reading the release file raises the same: it is about what was released
            if too_long:  # whether more would be asked is not known
                log.write(request="file", sha256=asked.sha256, ended=str(error), answers=len(answering.answers))
            return str(error)
        if answering.refusal is not None or not answering.answers:
            raise SiteError(
                f"the question cannot be asked: its code fails ({log.cause(error)}). What was charged stays "
                "charged, and is handed out to the same request"
            ) from None
        stopped = f"its code, after answers: {log.cause(error)}"
        log.write(request="file", sha256=asked.sha256, failed=stopped)
        return stopped

    def _ask(
        self, asked: RequestFile, sites: Site | Mapping[str, Site], public: pd.DataFrame | None, quorum: int | None
    ) -> None:
        """Ask what a request asks, by the analyst's own code."""
        study = asked.study(sites, public, quorum=quorum)
        check_public(self.settings.limits, study.public)
        asked.question.ask(study)

    def _chargeable(
        self, asked: RequestFile, analyst: str, costs: RequestCosts, *, carried: bool, refused: bool
    ) -> Chargeable:
        """Return what a request may be charged.

        What a carrier brings may be old: where it was refused before, or charged or answered for another account, at
        another version of the data or under other terms, and not charged at these, somebody approves that it is.
        """
        needed = needed_approval(self.settings, self._site, asked, analyst)
        approval = self.approval(asked.sha256, analyst) if needed is None else needed
        if needed is not None or not carried:
            return Chargeable(again=None if needed is None else 0, approval=approval)
        if approval is not None:
            return Chargeable(again=CARRIED_AGAIN, approval=approval)
        old = (
            f"approve must name who approves this request for version {self.ledger.version} of the data, "
            f"{self._site.terms}: it, or a query of it, was charged {OTHER_DATA}, and an old file may have come again "
            "(hdpstats site approve). Nothing was charged now. To ask anew without an approval, its author gives it "
            "another replicate"
        )
        waits = old if costs.only_of_other_data else REFUSED_BEFORE if refused else ""
        return Chargeable(again=CARRIED_AGAIN, approval=None, waits=waits, old=old)

    def _file(self, asked: RequestFile, answers: Mapping[str, tuple[Query, Release]]) -> ReleaseFile:
        made = ReleaseFile(request_sha256=asked.sha256, facts=self._site.facts, answers=tuple(answers.values()))
        return made if self._key is None else made.signed(self._key)


def answer(
    settings: SiteSettings,
    request: Path,
    out: Path,
    *,
    analyst: str | None = None,
    by: str | None = None,
    sha256: str | None = None,
    public: Path | None = None,
    prices: Prices | None = None,
    clock: Clock = Clock(),  # noqa: B008  (frozen)
) -> ReleaseFile:
    """Answer a request file, and write the release file.

    The same request again gives the same file, for nothing.

    Parameters
    ----------
    settings
        Of the site.
    request, out
        The two files.
    analyst
        Who sent the request, as the settings call the analyst; may be left out where it is signed, or there is one.
    by, sha256
        Who approves the request, and what: all digits of the approval's SHA-256 that the dry run showed.
    public
        A file of the public rows, where the request names them without having them.
    prices, clock
        Those of this machine.

    Raises
    ------
    ArgumentError, SchemaError, LedgerError
        A file, or the settings, cannot be used. Nothing was charged now.
    HdpError
        What the site raises; what was charged before stays charged, and the same request goes on from there. Each
        refusal of a request that was charged, in whatever exchange, has the fact ``charged_before`` and says so.
    """
    if (by is None) != (sha256 is None):
        raise ArgumentError(
            "approve and sha256 must be given together: who approves, and the SHA-256 of what was looked at "
            "(--dry-run shows it)",
            argument="sha256" if sha256 is None else "approve",
        )
    content = read_bytes(request, name="request")
    named, who, asked = RequestName.of(content), analyst, None
    try:
        asked = RequestFile.from_bytes(content, place=request)
        del content  # which may be long
        who = sender_of(settings, asked, analyst)
        rows = None if public is None else read_rows(public)
        asked.public_table(settings.dictionary, settings.persons.unit, rows)
        ledger = open_account(settings)
        held = HeldData(dataset=ledger.dataset, version=ledger.version, account=ledger.identity)
        same = partial(_is_earlier, asked=asked, site=PreviewSite(settings, ledger, analyst=who))
        check_new(out, same=same, ending="; nothing was charged")
        if by is not None and sha256 is not None:
            recorded(settings, considered(settings, asked, who, public), by=by, sha256=sha256)
        else:
            check_approved(settings, asked, who)  # before a row is read
        exchange = Exchange(settings, prices=prices, clock=clock)
        before = partial(ReleaseFile.answers_at, out, request=asked.sha256, held=held)
        made = exchange.answer(asked, analyst=who, public=rows, before=before)
    except HdpError as refusal:
        question = None if asked is None else asked.question
        raise _with_earlier_charges(refusal, settings, named.sha256, who, question) from None
    try:
        with new_file(out, same=same) as place:
            write_durably(place, made.to_json() + "\n")
    except ArgumentError as error:
        raise ArgumentError(f"{error}; answer the same request again, which costs nothing", argument="out") from None
    return made


def _is_earlier(place: Path, *, asked: RequestFile, site: PreviewSite) -> bool:
    """Whether a file is an earlier answer of the site to a request of its analyst: another's has other numbers."""
    if not ReleaseFile.is_at(place, request=asked.sha256, held=site.held):
        return False
    try:
        received = [(site.received(query), release) for query, release in ReleaseFile.read(place).answers]
    except HdpError:
        return False
    return all(own is not None and own.entry == release.entry for own, release in received)
