"""Requests that come as files: what one would cost, who approved it, and its answer.

`answer` opens the site as the service does (files, account, kept heads, caps, the check of the rows), asks it the
question of the request by the analyst's own code, and records each query that the site answered with its release. So
one exchange is enough where a question takes several queries. Each query is checked, charged and computed as the
service does it: the analyst's permissions and caps, predicted times and slots, one charge and one draw. What was
answered before is handed out again for nothing, and gives the same file.

**What leaves** is a release file (`hdpstats.exchange.release_file`): the hash of the request, public facts, and the
queries with their releases. Where the analyst's code stops after a release (the next query is not permitted, or the
budget ends), what was released is in the ledger, and the same request goes on from there.

**Approval** is recorded before anything is charged, in ``site.approvals.jsonl`` beside the other state: the SHA-256 of
the request, the analyst, who approved it and when. An approval is for that request and that analyst, and stays.

`preview` reads no row and draws no noise: it opens the account and the settings alone.
"""

import csv
import json
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, final

import pandas as pd

from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats._base.validation import text
from hdpstats._base.work import Prices
from hdpstats.custodian import log
from hdpstats.custodian.app import read_query
from hdpstats.custodian.capacity import Clock
from hdpstats.custodian.files import check_file, write_durably
from hdpstats.custodian.kept_head import open_account
from hdpstats.custodian.permissions import Permissions
from hdpstats.custodian.prices import measured
from hdpstats.custodian.queried_rows import number_of_queried_rows
from hdpstats.custodian.serving import files_of_rows, open_site, read_rows
from hdpstats.custodian.settings import SiteSettings
from hdpstats.custodian.timing import Overruns, Slots
from hdpstats.exchange import ReleaseFile, RequestFile
from hdpstats.ledger import Ledger
from hdpstats.mechanisms.registry import check_kind, columns_of, prepare, release_from_json
from hdpstats.privacy.budget import Spend, total
from hdpstats.records.query import Query, Release
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.sites import LocalSite, Site
from hdpstats.sites.local import request_of
from hdpstats.sites.messages import CODES, Facts, RequestRefused, public_to_bytes
from hdpstats.sites.site import HeldData, SiteTerms

REQUIRED: Final = "required"


class NotApproved(ArgumentError):  # noqa: N818  (what a caller needs to know of it)
    """Nobody approved a request, and the settings ask for it."""


@final
class AnsweringSite(Site):
    """A site as one analyst sees it, which keeps what it answered.

    The analyst's own code asks it, so it shows what every `Site` shows, and neither rows nor the ledger.
    """

    def __init__(self, site: LocalSite, settings: SiteSettings, *, analyst: str, slots: Slots) -> None:
        self._site, self._limits, self._slots, self._analyst = site, settings.limits, slots, analyst
        self._permissions = settings.analysts[analyst]
        self.answers: dict[str, tuple[Query, Release]] = {}
        self.refusal: BaseException | None = None

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
        return self._site.held

    def put_public(self, table: PublicTable) -> None:
        """Keep public rows for the analyst's queries, as many as he may send to the service."""
        self._check_public(table)
        if len(public_to_bytes(table)) > self._limits.public:
            raise _refusal("too-large", limit=self._limits.public)
        self._site.put_public(table, analyst=self._analyst, most_bytes=self._limits.kept_each)

    def check_permitted(self, query: Query, columns: Collection[str]) -> None:
        """Refuse what the analyst may not ask."""
        if not self._permissions.allow(query, columns):
            raise _refusal("forbidden")

    def answer(self, query: Query) -> Release:
        """Answer as the service does, and keep the answer as the ledger has it from now on."""
        try:
            release = self._answered(query)
        except RequestRefused as refused:
            self.refusal = _refusal(refused.code, **refused.numbers)
            raise self.refusal from None
        except BaseException as error:
            self.refusal = error
            raise
        self.answers[query.to_json()] = query, release
        return release

    def _answered(self, query: Query) -> Release:
        written = query.to_json().encode()
        if len(written) > self._limits.query:
            raise RequestRefused("too-large", limit=self._limits.query)
        asked = read_query(written)
        self.check_permitted(asked, self._site.columns(asked, analyst=self._analyst))
        release, _ = self._slots.answer(asked, analyst=self._analyst)
        return self._site.received(asked, analyst=self._analyst) or release


def _refusal(code: str, **numbers: float) -> HdpError:
    refusal = CODES[code]
    added = "".join(f"; {name}: {number:g}" for name, number in numbers.items())
    return refusal.error(refusal.message + added, code=code, **numbers)


def checked_name(settings: SiteSettings, analyst: str | None) -> str:
    """Return the analyst whose permissions and cap apply: the one that is named, or the only one."""
    if analyst is None and len(settings.analysts) == 1:
        return next(iter(settings.analysts))
    if analyst not in settings.analysts:
        names = ", ".join(map(repr, settings.analysts))
        raise ArgumentError(f"analyst must be one of the settings, {names}: who sent the request", argument="analyst")
    return str(analyst)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Approval:
    """Who approved a request of an analyst, and when (UTC)."""

    request: str
    analyst: str
    by: str
    at: str


def approval_of(settings: SiteSettings, request: RequestFile, analyst: str) -> Approval | None:
    """Return the approval of a request, None where nobody approved it.

    Raises
    ------
    ArgumentError
        Others may write the file of approvals, or it cannot be read.
    """
    place = settings.approvals
    check_file(place, name="approvals")
    try:
        lines = place.read_text(encoding="utf-8").splitlines()
        approvals = [Approval(**json.loads(line)) for line in lines]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        raise ArgumentError(
            f"state: {place}, with the approvals, cannot be read; restore it", argument="state"
        ) from None
    wanted = (request.sha256, analyst)
    return next((each for each in approvals if (each.request, each.analyst) == wanted), None)


def approve(settings: SiteSettings, request: RequestFile, analyst: str, by: str) -> Approval:
    """Record durably that somebody approves a request; an approval that is there already stays as it is."""
    name = text(by, name="approve", longest=200)
    known = approval_of(settings, request, analyst)
    if known is not None:
        return known
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    made = Approval(request=request.sha256, analyst=analyst, by=name, at=at)
    fields = {"request": made.request, "analyst": made.analyst, "by": made.by, "at": made.at}
    try:
        number = os.open(settings.approvals, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(number, (json.dumps(fields) + "\n").encode())
            os.fsync(number)
        finally:
            os.close(number)
    except OSError as error:
        raise ArgumentError(
            f"state: the approval cannot be kept in {settings.approvals}: {error.strerror}; nothing was charged",
            argument="state",
        ) from None
    return made


def check_approved(settings: SiteSettings, request: RequestFile, analyst: str) -> None:
    """Refuse a request that nobody approved, where the settings ask for it.

    Raises
    ------
    NotApproved
        Nothing was charged.
    """
    if settings.requests.approval == REQUIRED and approval_of(settings, request, analyst) is None:
        raise NotApproved(
            "approve must name who approves this request (--approve NAME), since the settings say `requests: approval: "
            "required`; see what it asks with --dry-run. Nothing was charged",
            argument="approve",
        )


Beside = Callable[[Site], Mapping[str, Site]]
"""Gives a site its place among others: all of them by name."""


@final
class OpenSite:
    """A site that answers request files as long as its process lasts.

    Raises
    ------
    ArgumentError, SchemaError, LedgerError
        See `hdpstats.custodian.serving.open_site`. Nothing was charged.
    """

    def __init__(
        self,
        settings: SiteSettings,
        *,
        prices: Prices | None = None,
        clock: Clock = Clock(),  # noqa: B008  (frozen)
    ) -> None:
        self._settings, self._site = settings, open_site(settings)
        self._slots = Slots(
            self._site,
            settings.timing,
            prices=measured() if prices is None else prices,
            overruns=Overruns(settings.overruns),
            clock=clock,
        )

    @property
    def facts(self) -> Facts:
        """The public facts about the site."""
        return self._site.facts

    def answer(
        self,
        asked: RequestFile,
        *,
        analyst: str,
        public: pd.DataFrame | None = None,
        beside: Beside | None = None,
        quorum: int | None = None,
    ) -> ReleaseFile:
        """Answer a request by an analyst of the settings.

        Parameters
        ----------
        asked, analyst, public
            As in `answer`.
        beside, quorum
            Where several sites are asked: what gives this site its place among them, and how many must answer. The
            analyst's code stops where it needs what the others have not released yet.

        Raises
        ------
        HdpError
            As `answer`.
        """
        answering = AnsweringSite(self._site, self._settings, analyst=analyst, slots=self._slots)
        try:
            with self._slots.request(analyst):
                sites = answering if beside is None else beside(answering)
                asked.question.ask(asked.study(sites, public, quorum=quorum))
        except HdpError:
            if answering.refusal is None and not answering.answers:
                raise  # else reading the release file raises the same: it is about what was released
        if answering.refusal is not None:  # among several sites, a fit may go on without it
            raise answering.refusal
        entries = [None if each.entry is None else each.entry.to_dict() for _, each in answering.answers.values()]
        log.write(request="file", sha256=asked.sha256, analyst=analyst, entries=entries)
        return ReleaseFile(request_sha256=asked.sha256, facts=self.facts, answers=tuple(answering.answers.values()))


def answer(
    settings: SiteSettings,
    request: Path,
    out: Path,
    *,
    analyst: str | None = None,
    by: str | None = None,
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
        Who sent the request, as the settings call the analyst; may be left out where there is one.
    by
        Who approves the request.
    public
        A file of the public rows, where the request names them without having them.
    prices, clock
        Those of this machine.

    Raises
    ------
    ArgumentError, SchemaError, LedgerError
        A file, or the settings, cannot be used. Nothing was charged.
    HdpError
        What the site raises; what was charged before stays charged, and the same request goes on from there.
    """
    asked, name = RequestFile.read(request), checked_name(settings, analyst)
    rows = None if public is None else read_rows(public)
    asked.public_table(settings.dictionary, settings.persons.unit, rows)
    if not os.access(out.absolute().parent, os.W_OK):
        raise ArgumentError(
            f"out: this process cannot write in the folder of {out}; nothing was charged", argument="out"
        )
    if by is not None:
        approve(settings, asked, name, by)
    check_approved(settings, asked, name)
    made = OpenSite(settings, prices=prices, clock=clock).answer(asked, analyst=name, public=rows)
    try:
        write_durably(out, made.to_json() + "\n")
    except OSError as error:
        raise ArgumentError(
            f"out: {out} cannot be written: {error.strerror}; answer the same request again, which costs nothing",
            argument="out",
        ) from None
    return made


class _Met(BaseException):
    """The first query that the ledger has no answer to."""

    def __init__(self, query: Query) -> None:
        super().__init__()
        self.query = query


@final
class PreviewSite(Site):
    """A site without rows: it knows its public facts and what the ledger holds, and answers nothing new."""

    def __init__(self, settings: SiteSettings, ledger: Ledger, *, analyst: str) -> None:
        declared = settings.persons.model_dump(exclude_unset=True)
        self._terms = SiteTerms.declared(
            relation=ledger.relation,
            unit=declared.get("unit"),
            max_rows_per_unit=declared.get("max_rows_per_unit"),
            n_max=declared.get("n_max"),
            row_order=declared.get("row_order", "undeclared"),
        )
        self._schema, self._ledger, self._analyst = settings.dictionary, ledger, analyst
        self._records = number_of_rows(settings) if self._terms.n_max is None else self._terms.n_max
        self._public: dict[str, PublicTable] = {}
        self._permissions: Permissions = settings.analysts[analyst]
        self.columns: set[str] = set()
        self.forbidden = False
        self.stored = 0

    @property
    def schema(self) -> Schema:
        """The custodian's schema."""
        return self._schema

    @property
    def records(self) -> int:
        """The public number of people."""
        return self._records

    @property
    def terms(self) -> SiteTerms:
        """Who is protected."""
        return self._terms

    @property
    def held(self) -> HeldData:
        """Which data this is."""
        ledger = self._ledger
        return HeldData(dataset=ledger.dataset, version=ledger.version, account=ledger.identity)

    def put_public(self, table: PublicTable) -> None:
        """Keep public rows."""
        self._check_public(table)
        self._public[table.sha256] = table

    def check_permitted(self, query: Query, columns: Collection[str]) -> None:
        """Note which columns a fit will need, and whether it is permitted."""
        self.columns |= set(columns)
        self.forbidden = self.forbidden or not self._permissions.allow(query, columns)

    def answer(self, query: Query) -> Release:
        """Return what the ledger holds, or stop at what it does not."""
        check_kind(query)
        self.check_permitted(query, columns_of(query, self._facts))
        asked = request_of(query, dataset=self._ledger.dataset, version=self._ledger.version, terms=self._terms)
        stored = self._ledger.stored(asked.id, self._analyst)
        if stored is None:
            raise _Met(query)
        self.stored += 1
        return release_from_json(stored.release_json).at(stored.place)

    @property
    def _facts(self) -> SiteFacts:
        terms = self._terms
        return SiteFacts(
            schema=self._schema,
            relation=terms.relation,
            records=self._records,
            unit=terms.unit,
            most_rows=terms.most_rows,
            public=self._public,
            row_order=terms.row_order,
        )

    def quote(self, query: Query) -> tuple[Spend, Spend]:
        """Return what a query would be charged, and what lies ahead of it (`hdpstats.sites.LocalSite.quote`)."""
        prepared, ledger = prepare(query, self._facts), self._ledger
        return ledger.charged(total(prepared.events)), ledger.floor.charged_together(prepared.ahead)


def number_of_rows(settings: SiteSettings) -> int:
    """Return the number of private rows, which is public where it is asked for, without reading a cell's value.

    Of Parquet the files say it, of a query the database; of CSV the lines are counted.
    """
    if settings.rows is not None:
        return number_of_queried_rows(settings.rows, settings.file.resolve().parent)
    number = 0
    for file in files_of_rows(settings):
        try:
            if file.suffix.lower() == ".csv":
                with file.open(encoding="utf-8-sig", newline="") as lines:
                    number += max(sum(1 for _ in csv.reader(lines)) - 1, 0)
            else:
                from pyarrow.parquet import read_metadata

                number += read_metadata(file).num_rows
        except (OSError, ValueError, csv.Error):
            raise ArgumentError(f"data: {file} cannot be read", argument="data") from None
    return number


def preview(settings: SiteSettings, request: Path, *, analyst: str | None = None, public: Path | None = None) -> str:
    """Say in words what a request asks and would cost; no row is read, no noise drawn, and nothing written.

    Raises
    ------
    HdpError
        The request cannot be read, or is not for this site.
    """
    asked, name = RequestFile.read(request), checked_name(settings, analyst)
    frame = None if public is None else read_rows(public)
    ledger = open_account(settings)
    site = PreviewSite(settings, ledger, analyst=name)
    study = asked.study(site, frame)
    met, problem = None, None
    try:
        asked.question.ask(study)
    except _Met as found:
        met = found.query
    except HdpError as error:
        problem = str(error)
    approval = approval_of(settings, asked, name)
    cap = settings.analysts[name].cap
    balance = ledger.caps.get(name)
    left = f"the account has {ledger.remaining} left"
    if balance is not None:
        left += f", of which {name} may receive {balance.remaining}"
    elif cap is not None:
        left += f", of which {name} may receive epsilon {float(cap.epsilon):g}, delta {float(cap.delta):g}"
    rows = study.public
    lines = [
        f"request {asked.sha256}, written with hdpstats {asked.version}",
        f"from {name}, of data set {ledger.dataset!r}, version {ledger.version}; {site.terms}",
        f"asks for {asked.question}",
        f"may spend {asked.question.spending_in_words}",
        f"public rows: {'none' if rows is None else f'{rows.rows}, of columns ' + ', '.join(rows.names)}",
        f"reads of each person: {', '.join(sorted(site.columns)) or 'nothing'}",
        *_costs(site, asked, met),
        left,
        f"not permitted to {name}: it would be refused" if site.forbidden else f"permitted to {name}",
        _approved(settings, approval),
        *([f"would be refused: {problem}"] if problem is not None else []),
        "no row was read, nothing was charged",
    ]
    return "\n".join(lines)


def _costs(site: PreviewSite, asked: RequestFile, met: Query | None) -> list[str]:
    before = [f"{site.stored} of its queries were answered before, and cost nothing now"] if site.stored else []
    if met is None:
        return [*before, "would cost nothing now"] if site.stored else []
    try:
        cost, ahead = site.quote(met)
    except HdpError as error:
        return [*before, f"would be refused: {error}"]
    kind = met.kind.partition("/")[0]
    later = f"; its later queries {ahead}" if ahead.epsilon or ahead.mu_squared else ""
    most = f"in all it may cost epsilon {asked.question.epsilon:g}, rounded up to what the account charges at least"
    return [*before, f"would be charged {cost} for the first query ({kind}){later}", most]


def _approved(settings: SiteSettings, approval: Approval | None) -> str:
    if approval is not None:
        return f"approved by {approval.by} at {approval.at}"
    if settings.requests.approval == REQUIRED:
        return "not approved yet: --approve NAME approves it, and nothing is charged before"
    return "not approved by anybody, which the settings do not require"
