"""What a request file asks and would cost, in words, for the custodian who decides; no noise is drawn.

The analyst's own code is run on a site that knows public facts and what the ledger holds; it stops at the first query
that has no release yet. Queries that rest on files of other sites it does not meet: of them it says what was charged in
vain, once they were charged, or waited for an approval (`hdpstats.custodian.request_costs`). Of private rows it takes
at most their number, and that where it is public (`number_of_rows`). Everything that a file says is shown with
characters that cannot be printed written out, on lines of this module's own: no request can forge a line, move the
cursor or hide what it costs.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, final

from hdpstats import __version__
from hdpstats._base.errors import ArgumentError, HdpError, LedgerError, forgets_rows
from hdpstats._base.validation import printable
from hdpstats._base.work import Operations, Prices
from hdpstats.custodian import approvals, log
from hdpstats.custodian.analysis_time import AnalysisTime
from hdpstats.custodian.approvals import REQUIRED, Approval, approval_of, changed_since, decided_by
from hdpstats.custodian.kept_head import caps_of, limits_of, open_account
from hdpstats.custodian.permissions import Permissions
from hdpstats.custodian.prices import measured
from hdpstats.custodian.request_costs import (
    CARRIED_AGAIN,
    OTHER_DATA,
    UNLESS_RELEASED,
    RequestCosts,
    affords_all,
    affords_quota,
    left_to_account,
    owed_second,
    query_sha256,
)
from hdpstats.custodian.senders import sender_of
from hdpstats.custodian.serving import files_of_rows, private_rows, read_rows
from hdpstats.custodian.settings import Limits, SiteSettings
from hdpstats.custodian.timing import slot_of
from hdpstats.exchange import RequestFile
from hdpstats.exchange.longest_text import longest_text
from hdpstats.exchange.weighted_people import CountingSite
from hdpstats.ledger import Ledger
from hdpstats.mechanisms.registry import check_kind, columns_of, prepare, release_from_json
from hdpstats.privacy.budget import NOTHING, Spend, decimal, total
from hdpstats.privacy.composition import Balance
from hdpstats.records.query import Query, Release
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.sites.local import request_of, work_of
from hdpstats.sites.messages import CODES, RequestRefused, public_to_bytes
from hdpstats.sites.site import HeldData, SiteTerms

LONGEST_ERROR: Final = 500


class _Met(BaseException):
    """The first query that the ledger has no answer to."""

    def __init__(self, query: Query) -> None:
        super().__init__()
        self.query = query


@final
class PreviewSite(CountingSite):
    """A site without rows: it knows its public facts and what the ledger holds, and answers nothing new.

    Where the number of people is that of the rows, they are counted once somebody asks for it, unless ``records`` says
    it.
    """

    def __init__(self, settings: SiteSettings, ledger: Ledger, *, analyst: str, records: int | None = None) -> None:
        declared = settings.persons.model_dump(exclude_unset=True)
        self._terms = SiteTerms.declared(
            relation=ledger.relation,
            unit=declared.get("unit"),
            max_rows_per_unit=declared.get("max_rows_per_unit"),
            n_max=declared.get("n_max"),
            row_order=declared.get("row_order", "undeclared"),
        )
        self.time = AnalysisTime(settings.limits.analysis)
        self._schema, self.ledger, self._analyst = settings.dictionary, ledger, analyst
        self._caps = caps_of(settings)
        self._settings, self._records = settings, records if self._terms.n_max is None else self._terms.n_max
        self._public: dict[str, PublicTable] = {}
        self._limits = settings.limits
        self.permissions: Permissions = settings.analysts[analyst]
        self.columns: set[str] = set()
        self._fitted: list[tuple[Query, bool]] = []
        self.forbidden = self._too_large = False
        self.answered: list[Query] = []
        self.second: tuple[Spend, ...] | None = None

    @property
    def schema(self) -> Schema:
        """The custodian's schema."""
        return self._schema

    @property
    def records(self) -> int:
        """The public number of people."""
        return self.count()

    def count(self) -> int:
        """Return the public number of people; where it is that of the rows, they are read for it, once."""
        if self._records is None:
            with self.time.paused():
                self._records = number_of_rows(self._settings)
        return self._records

    @property
    def terms(self) -> SiteTerms:
        """Who is protected."""
        return self._terms

    @property
    def held(self) -> HeldData:
        """Which data this is."""
        ledger = self.ledger
        with self.time.paused():
            return HeldData(dataset=ledger.dataset, version=ledger.version, account=ledger.identity)

    def put_public(self, table: PublicTable) -> None:
        """Keep public rows."""
        self._check_public(table)
        self._public[table.sha256] = table

    def check_permitted(self, query: Query, columns: Collection[str]) -> None:
        """Note which columns a fit will need, and whether it is permitted."""
        self._note(query, columns)
        self.check_later(query)

    def check_later(self, query: Query) -> None:
        """Note whether a later query may be too long, and what work it is."""
        self._fitted.append((query, bool(self.answered)))
        self._too_large = self._too_large or longest_text(query) > self._limits.query

    def _note(self, query: Query, columns: Collection[str]) -> None:
        self.columns |= set(columns)
        self.forbidden = self.forbidden or not self.permissions.allow(query, columns)

    def expect(self, costs: tuple[Spend, ...]) -> None:
        """Take what each charge of the second of two questions costs."""
        self.second = costs

    def received(self, query: Query) -> Release | None:
        """Return what the analyst has received of a query."""
        check_kind(query)
        with self.time.paused():
            stored = self.ledger.stored(self._id(query), self._analyst)
        return None if stored is None else release_from_json(stored.release_json).at(stored.place)

    def answer(self, query: Query) -> Release:
        """Return what the ledger holds, or stop at what it does not."""
        check_kind(query)
        length = len(query.to_json().encode())
        self._note(query, columns_of(query, self._facts))
        self._too_large = self._too_large or length > self._limits.query
        with self.time.paused():
            stored = self.ledger.stored(self._id(query), self._analyst)
        if self._too_large and (stored is None or length > self._limits.query):
            raise CODES["too-large"].error(CODES["too-large"].message)
        if stored is None:
            raise _Met(query)
        self.answered.append(query)
        return release_from_json(stored.release_json).at(stored.place)

    def is_shared(self, query: Query) -> bool:
        """Whether it was released to somebody else: then the analyst's cap is charged, and the total is not."""
        return self.ledger.stored(self._id(query)) is not None

    def caps(self) -> tuple[Mapping[str, Balance], str]:
        """Return the caps of analysts when the site is opened under these settings, and why it refuses, or nothing."""
        ledger = self.ledger
        try:
            return ledger.caps_under(self._caps), ledger.stopped(self._caps).get(self._analyst, "")
        except LedgerError as error:
            return ledger.caps, str(error)

    def _id(self, query: Query) -> str:
        ledger = self.ledger
        return request_of(query, dataset=ledger.dataset, version=ledger.version, terms=self._terms).id

    @property
    def _facts(self) -> SiteFacts:
        terms = self._terms
        return SiteFacts(
            schema=self._schema,
            relation=terms.relation,
            records=self.records,
            unit=terms.unit,
            most_rows=terms.most_rows,
            public=self._public,
            row_order=terms.row_order,
        )

    def charges_ahead(self, query: Query) -> int:
        """Return how many charges of the same fit follow a query."""
        return len(prepare(query, self._facts).ahead)

    def works(self, query: Query) -> Iterator[tuple[Operations, bool]]:
        """Yield the work of a query, and of those that fits said they would ask (`hdpstats.sites.LocalSite.work`).

        With each goes whether it comes after an answer, and so may take longer (`hdpstats.custodian.timing.slot_of`).
        """
        for each, later in ((query, bool(self.answered)), *self._fitted):
            yield work_of(prepare(each, self._facts), self.records * self._terms.most_rows), later

    def quote(self, query: Query) -> tuple[Spend, Spend]:
        """Return what a query would be charged, and what lies ahead of it (`hdpstats.sites.LocalSite.quote`)."""
        prepared, ledger = prepare(query, self._facts), self.ledger
        return ledger.charged(total(prepared.events)), ledger.floor.charged_together(prepared.ahead)


def check_approved(settings: SiteSettings, asked: RequestFile, analyst: str) -> None:
    """Refuse a request that somebody must approve and nobody did, before a row is read.

    Whether an approval is for the site as it is now is seen once its rows are counted, where that is the number of
    people.

    Raises
    ------
    hdpstats.custodian.approvals.NotApproved
        Nothing was charged.
    """
    if settings.requests.approval == REQUIRED:
        site = PreviewSite(settings, open_account(settings), analyst=analyst)
        approvals.needed_approval(settings, site, asked, analyst)


def check_public(limits: Limits, table: PublicTable | None) -> None:
    """Refuse more public rows than a site takes of an analyst, before anything is charged."""
    size = 0 if table is None else len(public_to_bytes(table))
    if size > limits.public:
        raise CODES["too-large"].error(CODES["too-large"].message, code="too-large", limit=limits.public)


@forgets_rows
def number_of_rows(settings: SiteSettings) -> int:
    """Return the number of private rows, which is public where it is asked for.

    Parquet files state it. Others are read as the site itself reads them: no other way of counting agrees with that
    whatever cells hold. Other readers of CSV have other limits, and a database that counts may count rows that it
    leaves out when it converts their cells.

    Raises
    ------
    ArgumentError
        The site cannot read them.
    """
    if settings.data is None or settings.data.suffix.lower() == ".csv":
        return len(private_rows(settings))
    from pyarrow.parquet import read_metadata

    number = 0
    for file in files_of_rows(settings):
        try:
            number += read_metadata(file).num_rows
        except (OSError, ValueError):
            raise ArgumentError(f"data: {file} cannot be read", argument="data") from None
    return number


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """What a request would do at a site now.

    Attributes
    ----------
    request : RequestFile
        What was read.
    analyst : str
        Who sent it.
    site : PreviewSite
        What was asked of it.
    met : Query or None
        The first query that would be charged.
    public : str
        The public rows, in words.
    problem : str
        Why it would be refused, empty where no reason is known.
    costs : RequestCosts
        What its queries cost that were charged, or wait for an approval: at several sites also those that rest on
        files of the others, which a dry run does not meet.
    vain : mapping of str to int
        How many charges of each of its queries have no release, by the SHA-256 of the query: one is computed now, or
        was interrupted before the release was recorded.
    besides : mapping of str to int
        How many of them were made for others, so that the analyst is charged them too.
    """

    request: RequestFile
    analyst: str
    site: PreviewSite
    met: Query | None
    public: str
    problem: str
    costs: RequestCosts
    vain: Mapping[str, int]
    besides: Mapping[str, int]

    @property
    def owed(self) -> tuple[Spend, ...]:
        """What each charge of the second of two questions costs by its proof, where all of that is to be asked yet."""
        return owed_second(self.request.question, self.site.answered, self.site.second)

    def cost(self) -> tuple[Spend, Spend]:
        """Return what the first query is charged and what lies ahead of it, or nothing where none is asked."""
        return (NOTHING, NOTHING) if self.met is None else self.site.quote(self.met)


def looked_at(
    settings: SiteSettings, request: Path, *, analyst: str | None = None, public: Path | None = None
) -> Preview:
    """Return what a request file would do now.

    Raises
    ------
    HdpError
        The request cannot be read, or is not for this site.
    """
    asked = RequestFile.read(request)
    name = sender_of(settings, asked, analyst)
    return considered(settings, asked, name, None if public is None else public)


def considered(settings: SiteSettings, asked: RequestFile, analyst: str, public: Path | None = None) -> Preview:
    """Return what a request of an analyst would do now; see `looked_at`."""
    frame = None if public is None else read_rows(public)
    site = PreviewSite(settings, open_account(settings), analyst=analyst)
    site.count()  # before the analyst's code runs
    study = asked.study(site, frame)
    rows = study.public
    met, problem = None, ""
    try:
        check_public(settings.limits, rows)
        with asked.in_its_recipe():
            site.time.run(partial(asked.question.ask, study))
    except _Met as found:
        met = found.query
    except HdpError as error:
        problem = str(error)
    except Exception as error:  # of code that met a value of another kind than it was written for
        problem = f"its code fails: {log.cause(error)}"
    costs = RequestCosts(settings, site.ledger, asked.sha256, analyst, most=asked.question.most, terms=site.terms)
    queries, terms = [*site.answered, *([] if met is None else [met])], str(site.terms)
    return Preview(
        request=asked,
        analyst=analyst,
        site=site,
        met=met,
        public="none" if rows is None else f"{rows.rows}, of columns {', '.join(rows.names)}; SHA-256 {rows.sha256}",
        problem=problem,
        costs=costs,
        vain=costs.in_vain(site.ledger.in_vain(terms), *queries),
        besides=costs.in_vain(site.ledger.in_vain(terms, analyst), *queries),
    )


def preview(
    settings: SiteSettings,
    request: Path,
    *,
    analyst: str | None = None,
    public: Path | None = None,
    prices: Prices | None = None,
) -> str:
    """Say in words what a request asks and would cost; no noise is drawn, and nothing written.

    Parameters
    ----------
    settings
        Of the site.
    request, analyst, public
        As in `hdpstats.custodian.answering.answer`.
    prices
        Those of this machine, by which it says what would take too long.

    Raises
    ------
    HdpError
        The request cannot be read, or is not for this site.
    """
    return in_words(settings, looked_at(settings, request, analyst=analyst, public=public), prices)


def in_words(settings: SiteSettings, found: Preview, prices: Prices | None = None) -> str:
    """Say in words what was looked at; see `preview`."""
    asked, site, name = found.request, found.site, found.analyst
    signed = f"signed with the key {asked.signature.key}" if asked.signature is not None else "who did not sign it"
    other = "" if asked.version == __version__ else f"; this is {__version__}, which may ask otherwise"
    lines = [
        f"request {asked.sha256}, written with hdpstats {asked.version}{other}",
        f"from {name}, {signed}; of data set {site.ledger.dataset!r}, version {site.ledger.version}; {site.terms}",
        f"asks for {asked.question}",
        f"may spend {asked.question.spending_in_words}",
        *filter(None, [asked.question.parts_in_words]),
        f"public rows: {found.public}",
        f"reads of each person: {', '.join(sorted(site.columns)) or 'nothing'}",
        *_costs(found),
        *_costs_of_others(found),
        *_beyond_limits(settings, found, prices),
        _left(site, name),
        f"not permitted to {name}: it would be refused" if site.forbidden else f"permitted to {name}",
        *_approved(settings, found, approval_of(settings, site, asked.sha256, name)),
        *([f"would be refused: {found.problem[:LONGEST_ERROR]}"] if found.problem else []),
        "of private rows at most their number was taken, where it is public; nothing was charged",
    ]
    return "\n".join(map(printable, lines))


def approve(
    settings: SiteSettings,
    request: Path,
    *,
    by: str,
    sha256: str,
    analyst: str | None = None,
    public: Path | None = None,
) -> Approval:
    """Record that somebody approves a request file, and all that `preview` showed of it, by the SHA-256 that it showed.

    Raises
    ------
    ArgumentError
        It is something else than that, or the approval cannot be kept. Nothing was charged.
    """
    found = looked_at(settings, request, analyst=analyst, public=public)
    return recorded(settings, found, by=by, sha256=sha256)


def recorded(settings: SiteSettings, found: Preview, *, by: str, sha256: str) -> Approval:
    """Record that somebody approves a request as it was looked at; see `approve`."""
    return approvals.record(settings, found.site, proposed(settings, found), by=by, sha256=sha256)


def proposed(settings: SiteSettings, found: Preview) -> Approval:
    """Return what an approval of a request would be, as it was looked at; see `hdpstats.custodian.approvals`."""
    return approvals.proposed(
        settings,
        found.site.ledger,
        found.site,
        found.request,
        found.analyst,
        vain=found.vain,
    )


def _costs(found: Preview) -> list[str]:
    site, stored = found.site, len(found.site.answered)
    before = [f"{stored} of its queries were answered before, and cost nothing now"] if stored else []
    if found.met is None:
        return [*before, "would cost nothing now"] if stored and not found.problem else before
    try:
        cost, ahead = found.cost()
    except HdpError as error:
        return [*before, f"would be refused: {str(error)[:LONGEST_ERROR]}"]
    kind = found.met.kind.partition("/")[0]
    second = site.ledger.floor.charged_together(found.owed)
    later = f"; its later queries {ahead}" if ahead.epsilon or ahead.mu_squared else ""
    later += "" if second == NOTHING else f"; the second part {second}"
    lines = [*before, f"would be charged {cost} for the first query ({kind}){later}"]
    name, shared = query_sha256(found.met), site.is_shared(found.met)
    again, besides = found.vain.get(name, 0), cost.times(found.besides.get(name, 0))
    if again and not shared:
        lines.append(
            f"of charges for this query {again} have no release: it is being computed, or was interrupted; then it is "
            "charged once more, and these count for the analyst's cap too"
        )
    if shared:
        lines.append(
            "the first query was released to another analyst: the analyst's cap is charged, the account is not"
        )
    if besides.epsilon or besides.mu_squared:
        lines.append(f"the analyst's cap is charged {besides} besides, for charges of it that were made for others")
    most, floor = found.request.question.most, site.ledger.floor.epsilon
    lines.append(
        f"in all it may cost {most}; each charge is at least epsilon {decimal(floor)}, and rounded up to the account's "
        "digits"
    )
    together = cost + ahead
    caps, stopped = site.caps()
    if stopped:  # which is said with what is left
        return lines
    of_account = left_to_account(cost, ahead, second, shared=shared)
    if not affords_all(
        site.ledger, together + second, found.analyst, of_account=of_account, besides=besides, caps=caps
    ):
        lines.append("would be refused: more than is left, in all or to the analyst")
        return lines
    if together.mu_squared:
        after = site.ledger.balance.divided_for(together).plus(together)
        lines.append(
            f"has Gaussian noise, for which a part of the account is set aside: {after.spent} of it would count as "
            f"spent, and {after.remaining} be left for other noise"
        )
    return lines


def _costs_of_others(found: Preview) -> list[str]:
    """Say what was charged in vain for other queries than the first: they rest on files of other sites, or did."""
    met = [*found.site.answered, *([] if found.met is None else [found.met])]
    names = set(found.vain) - set(map(query_sha256, met))
    if not names:
        return []
    charged, queries = found.site.ledger.charged, found.costs.queries
    besides = sum((charged(queries[name]).times(found.besides.get(name, 0)) for name in names), NOTHING)
    more = f"; the analyst's cap is charged {besides} besides, for those made for others" if besides != NOTHING else ""
    return [
        f"of charges for other queries of it, as with files of other sites, {sum(found.vain[name] for name in names)} "
        "have no release: a query of them that is asked again, and has none, is charged once more, and these count for "
        f"the analyst's cap too{more}"
    ]


def _beyond_limits(settings: SiteSettings, found: Preview, prices: Prices | None) -> list[str]:
    """Say whether the first query would be refused for limits of charges, bytes or time, of itself or later ones."""
    met, site = found.met, found.site
    if met is None:
        return []
    lines = []
    left = site.ledger.left(found.analyst, limits_of(settings))
    try:
        if not affords_quota(left, site.charges_ahead(met) + len(found.owed), settings.limits):
            lines.append("would be refused: more charges, or more to store, than limits: charges_each, stored_each")
        for work, later in site.works(met):
            slot_of(work, settings.timing, measured() if prices is None else prices, later=later)
    except RequestRefused as refused:
        seconds, most = refused.numbers["seconds"], refused.numbers["limit"]
        lines.append(f"would be refused: it would take {seconds:g} seconds, more than timing: longest allows, {most:g}")
    except HdpError:  # which is said with the costs, or met once the first query is answered
        pass
    return lines


def _left(site: PreviewSite, analyst: str) -> str:
    caps, stopped = site.caps()
    left, balance = f"the account has {site.ledger.remaining} left", caps.get(analyst)
    if stopped:
        return f"{left}; would be refused: {stopped[:LONGEST_ERROR]}"
    return left if balance is None else f"{left}, of which {analyst} may receive {balance.remaining}"


def _approved(settings: SiteSettings, found: Preview, approval: Approval | None) -> list[str]:
    """Say who approved a request, or how, and under which settings."""
    asked_for, site = proposed(settings, found), found.site
    sha256 = asked_for.sha256
    how = f"--approve NAME --sha256 {sha256}"
    decided = [f"{name} {value}" for name, value in decided_by(settings, site, found.analyst).items()]
    lines = [f"an approval is for this request under these settings: {'; '.join(decided)}; its SHA-256: {sha256}"]
    before = approval_of(settings, site, found.request.sha256, found.analyst, as_then=True)
    if approval is not None and not approval.covers(asked_for.vain):
        return [
            *lines,
            f"approved by {approval.by} at {approval.at}, before a charge was in vain: {how} approves it anew",
        ]
    if approval is not None:
        return [*lines, f"approved by {approval.by} at {approval.at}"]
    if before is not None:
        changed = changed_since(settings, site, before)
        lines.append(f"approved by {before.by} at {before.at} under other settings; changed since: {changed}")
    if settings.requests.approval == REQUIRED:
        return [*lines, f"not approved yet: {how} approves it, and nothing is charged before"]
    costs, again = found.costs, sum(found.vain.values())
    if found.besides:
        return [*lines, f"not approved by anybody: it costs the analyst more than it says, and waits until {how}"]
    old = costs.only_of_other_data or (found.met is not None and costs.is_old(found.met))
    if old or (found.met is not None and again > CARRIED_AGAIN):
        why = OTHER_DATA if old else f"{again} times in vain"
        waits = f"not approved by anybody: it was charged {why}, and waits in a folder until {how} approves it"
        return [*lines, waits if found.met is not None else waits + UNLESS_RELEASED]
    return [*lines, "not approved by anybody, which the settings do not require"]
