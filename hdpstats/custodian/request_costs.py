"""What the queries of a request file cost in all, over every exchange in which it came.

At one site a request makes the same queries whenever it comes. At several sites later queries may depend on what the
other sites released, and files of theirs that are forged, or changed between exchanges, make further ones. So each
query is written down durably before it is charged: one line of JSON in ``site.request-costs.jsonl`` beside the other
state, with the request, the analyst, the account, the data set and its version, the terms that the site holds it under
(by which a ledger knows a release too), and the query's cost by its proof. All of them together never cost more than
the request says (`hdpstats.exchange.questions.Question.most`), whoever carries it and however often; what is charged is
each of these costs rounded up, to the ledger's floor at least. A request that was used up so is written anew, with
another ``replicate``.

A line is on the disk as a whole before its query is charged (`hdpstats.custodian.files.append_to` returns). So a last
line that was not written to its end, as the power was cut, is of a query that was not charged then: it counts for
nothing, and the next one is written in its place.

What was refused before it was charged is taken back: refusals let the file grow for nobody. But a query that rests on
files of other sites is met by no dry run: where it waits, as others were charged in vain for it, it has a line of its
own (``waits``), which costs the request nothing. A query that was released to its analyst before is written down as
``free``: each such query once, with the request that asked it first, and of each request, at each version of the data,
one at least. So a copy of a request that asks the same adds one line at a version. A request that was charged or
answered is known to be an old one at another version of the data, or under other terms, until it is charged there: what
it has there for nothing makes it no new one. So is a query, by its own text, whatever request asks it.
Only the lines of a request or a query are read as JSON; of the others is seen that they are whole.

Who answers holds the lock of `hdpstats.custodian.answering.taking_turns`.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Final, final

from hdpstats._base.errors import MechanismError
from hdpstats.custodian.files import StateError, append_line, check_state, without_torn_end
from hdpstats.custodian.settings import Limits, SiteSettings
from hdpstats.exchange.questions import Question
from hdpstats.ledger import KnownQuery, Ledger
from hdpstats.ledger.analysts import Quota
from hdpstats.privacy.budget import NOTHING, Budget, Spend, covers
from hdpstats.privacy.composition import Balance
from hdpstats.records.query import Query
from hdpstats.sites.site import SiteTerms

CARRIED_AGAIN: Final = 2
"""How often what a carrier brings is charged once more without an approval, as its process ended before its release."""

OTHER_DATA: Final = "for other data, at another version of them or under other terms"
"""Where a request was charged that is an old one here."""

UNLESS_RELEASED: Final = ", unless all of it was released here"
"""When an old request does not wait."""

_NAMES: Final = ("request", "analyst", "account")
_ASKED: Final = ("request", "analyst")
_DATA: Final = ("account", "dataset", "version", "terms")
_WHOLE: Final = re.compile(rb'(?:\{"request": "[0-9a-f]{64}", "analyst": "[^\n]*"\}\n)*+')
_AMOUNTS: Final = ("epsilon", "delta", "mu_squared")
_FREE, _WAITS = "free", "waits"


@final
class RequestCosts:
    """What one request of an analyst has cost at one version of a data set, under the terms of a site.

    Parameters
    ----------
    settings, ledger
        Of the site.
    request
        The SHA-256 of the request.
    analyst
        Whose it is.
    most
        What its queries may cost in all.
    terms
        Who is protected, and under which declared numbers.

    Attributes
    ----------
    only_of_other_data : bool
        Whether the request was charged or answered before elsewhere, but not charged to this account at this version of
        this data set under these terms: it is an old one here, whatever of it was had here for nothing.

    Raises
    ------
    StateError
        Others may write the file, or it cannot be read.
    """

    def __init__(
        self, settings: SiteSettings, ledger: Ledger, request: str, analyst: str, *, most: Budget, terms: SiteTerms
    ) -> None:
        self._place, self._most = settings.request_costs, most
        self._whose = dict(zip(_ASKED, (request, analyst), strict=True))
        of_account = ledger.identity, ledger.dataset, ledger.version, str(terms)
        self._data = dict(zip(_DATA, of_account, strict=True))
        self._content = _content(self._place)
        self._answered, waiting = _lines_of(self._content, self._whose, self._place)
        here = [each for each in self._answered if self._of_this_data(each)]
        self._costs, self._waiting = (
            {str(each["query"]): _cost(each) for each in lines} for lines in (here, filter(self._of_this_data, waiting))
        )
        self.only_of_other_data = len(here) < len(self._answered) and all(_FREE in each for each in here)
        self._written: tuple[str, int, int] | None = None

    @property
    def queries(self) -> Mapping[str, Spend]:
        """What each of its queries costs by its proof, by the SHA-256 of a query: those that wait, too."""
        return {**self._waiting, **self._costs}

    def in_vain(self, charges: Mapping[str, int], *queries: Query) -> dict[str, int]:
        """Return how many charges of its queries, and of further ones, have no release, of all (`Ledger.in_vain`)."""
        names = {*self.queries, *map(query_sha256, queries)}
        return {name: number for name, number in charges.items() if name in names}

    def is_old(self, query: Query) -> bool:
        """Whether a query of the analyst, of any request, was charged or answered before, but not at these data."""
        lines = self._of_query(query_sha256(query))
        return bool(lines) and not any(map(self._of_this_data, lines))

    def add(self, query: Query, cost: Spend, *, charged: bool) -> None:
        """Count a query, once; durably where it is about to be charged.

        One that was released before is written down where nothing says that it was charged, or that its request was
        answered, at these data.

        Raises
        ------
        MechanismError
            The request would cost more than it says. Nothing was charged.
        StateError
            It cannot be written. Nothing was charged.
        """
        name = query_sha256(query)
        if name in self._costs:
            return
        costs = {**self._costs, name: cost}
        if charged and not covers(self._most, sum(costs.values(), NOTHING)):
            raise MechanismError(
                "the question would cost more than its request says, with what it was charged before; nothing was "
                "charged now. Where files of other sites changed since, ask anew with another replicate"
            )
        if charged:
            self._write(name, cost)
        elif not self._costs or not any(map(self._of_this_data, self._of_query(name))):
            self._write(name, cost, mark=_FREE)
        self._costs = costs

    def wait(self, query: Query, cost: Spend) -> None:
        """Write down a query that is not charged before somebody approves it, so that a dry run knows of it.

        Raises
        ------
        StateError
            It cannot be written.
        """
        name = query_sha256(query)
        if name not in self.queries:
            self._write(name, cost, mark=_WAITS)
            self._waiting = {**self._waiting, name: cost}

    def take_back(self, query: Query) -> None:
        """Forget a query that was counted last, and was not charged; where that cannot be written, it stays."""
        name = query_sha256(query)
        if self._written is None or self._written[0] != name:
            return
        _, before, after = self._written
        with suppress(OSError), self._place.open("r+b") as file:
            if os.fstat(file.fileno()).st_size == after:
                file.truncate(before)
                self._costs = {each: cost for each, cost in self._costs.items() if each != name}
        self._written = None

    def _write(self, name: str, cost: Spend, *, mark: str = "") -> None:
        amounts = {each: str(getattr(cost, each)) for each in _AMOUNTS}
        marked = {mark: "true"} if mark else {}
        line = json.dumps({**self._whose, **self._data, "query": name, **amounts, **marked}) + "\n"
        try:
            before = append_line(self._place, line)
            self._written = name, before, self._place.stat().st_size
        except OSError as error:
            raise StateError(
                f"state: what a request costs cannot be kept in {self._place}: {error.strerror}; nothing was charged",
                argument="state",
            ) from None

    def _of_this_data(self, line: Mapping[str, str]) -> bool:
        return {name: line.get(name, self._data[name]) for name in _DATA} == self._data

    def _of_query(self, name: str) -> list[Mapping[str, str]]:
        """Return the lines of a query of the analyst that was charged or free, whatever request asked it."""
        wanted = name, self._whose["analyst"]
        found = _lines_with(self._content, name, self._place)
        return [each for each in found if (each["query"], each["analyst"]) == wanted and _WAITS not in each]


def was_charged(settings: SiteSettings, ledger: Ledger, request: str, analyst: str) -> bool:
    """Whether a query of a request, by its SHA-256, was charged to its analyst, at any version, terms or account.

    Of the account of ``ledger`` that says which ones were. Of another account each query counts that was written down
    to be charged, although a process may have ended between the two.

    Raises
    ------
    LedgerError
        The costs (`StateError`) or the ledger cannot be read.
    """
    place, here, elsewhere = settings.request_costs, set[str](), False
    answered, _ = _lines_of(_content(place), dict(zip(_ASKED, (request, analyst), strict=True)), place)
    for line in answered:
        if line["account"] == ledger.identity:
            here.add(line["query"])
        else:
            elsewhere = elsewhere or _FREE not in line
    return elsewhere or bool(here and here & ledger.charged_queries(analyst))


def left_to_account(cost: Spend, ahead: Spend, second: Spend, *, shared: bool) -> Spend:
    """Return what the account must afford before a query is charged, with all that follows.

    Parameters
    ----------
    cost, ahead, second
        What the query is charged, what it says that lies ahead of it, and what a second question is (`owed_second`),
        each charge rounded up to the floor.
    shared
        Whether the query was released to somebody else: then the account is not charged for it. What follows it is
        taken to be new, as nothing tells that does not rest on what was released; once no second question is owed, the
        account is asked when that is.
    """
    if not shared:
        return cost + ahead + second
    return NOTHING if second == NOTHING else ahead + second


def owed_second(asked: Question, answered: Iterable[Query], expected: tuple[Spend, ...] | None) -> tuple[Spend, ...]:
    """Return what each charge of the second of two questions costs by its proof; nothing once the first ended.

    That is what a rehearsal ``expected``; where there was none, the question is taken to make one charge.
    """
    if asked.second is None or not asked.owes_second(answered):
        return ()
    return (Spend(asked.second),) if expected is None else expected


def affords_all(
    ledger: Ledger,
    charged: Spend,
    analyst: str,
    *,
    of_account: Spend,
    besides: Spend = NOTHING,
    caps: Mapping[str, Balance] | None = None,
) -> bool:
    """Whether a charge, with all that its question is charged afterwards, could be made now.

    Parameters
    ----------
    ledger
        The account.
    charged
        What the query that comes next is charged, what it says that lies ahead of it, and what a second question is
        (`owed_second`): each charge is at least the floor.
    analyst
        Whose it is.
    of_account
        What of it the account must afford: less where the query was released to somebody else, and is charged to the
        analyst's cap alone (`left_to_account`).
    besides
        What the analyst's cap is charged besides: charges in vain that were made for others (`Ledger.in_vain`).
    caps
        The caps of analysts; by default those of the account.
    """
    if of_account != NOTHING and not ledger.affords(of_account):
        return False
    known = ledger.caps if caps is None else caps
    if not known or analyst not in known:
        return not known
    whole = charged + besides
    return known[analyst].divided_for(whole).affords(whole)


def affords_quota(left: Quota, later: int, limits: Limits) -> bool:
    """Whether an analyst's limits let a query be charged, with the ``later`` charges of its question.

    Neither a later query nor a release has a length that is known: each is taken to have at most the length of a query.
    """
    few = left.charges is None or left.charges >= 1 + later
    return few and (not later or left.bytes is None or left.bytes >= (1 + 2 * later) * limits.query)


def known_queries(settings: SiteSettings) -> tuple[KnownQuery, ...]:
    """Return what was written down of all requests, which a ledger has charges of, for a backup to be compared with.

    Raises
    ------
    StateError
        Others may write the file, or it cannot be read.
    """
    place = settings.request_costs
    lines = _parsed(_content(place), place)
    return tuple(
        KnownQuery(sha256=str(each["query"]), account=str(each["account"]), source=str(place)) for each in lines
    )


def query_sha256(query: Query) -> str:
    """Return what a query is called in the files of a site's state: the SHA-256 of its text."""
    return hashlib.sha256(query.question().encode()).hexdigest()


def _content(place: Path) -> bytes:
    """Return the whole lines of the file, none where there is none."""
    check_state(place)
    try:
        content = without_torn_end(place.read_bytes())
    except FileNotFoundError:
        return b""
    except OSError:
        raise _unreadable(place) from None
    if content and not content.endswith(b"\n"):  # as an editor left it
        content += b"\n"
    if not _WHOLE.fullmatch(content):
        _parsed(content, place)
    return content


def _lines_with(content: bytes, text: str, place: Path) -> list[Mapping[str, str]]:
    """Return the lines that hold a text."""
    needle, found = text.encode(), list[bytes]()
    at = content.find(needle)
    while at >= 0:
        end = content.index(b"\n", at)
        found.append(content[content.rfind(b"\n", 0, at) + 1 : end + 1])
        at = content.find(needle, end)
    return _parsed(b"".join(found), place)


def _lines_of(
    content: bytes, whose: Mapping[str, str], place: Path
) -> tuple[list[Mapping[str, str]], list[Mapping[str, str]]]:
    """Return the lines of a request's queries that were charged or free, whatever the data, and of those that wait."""
    found = _lines_with(content, whose["request"], place)
    lines = [each for each in found if {name: each[name] for name in _ASKED} == whose]
    return [each for each in lines if _WAITS not in each], [each for each in lines if _WAITS in each]


def _parsed(content: bytes, place: Path) -> list[Mapping[str, str]]:
    try:
        lines = [json.loads(line) for line in content.decode().splitlines()]
        for each in lines:
            _cost(each)
            [each[name] for name in ("query", "version", *_NAMES)]
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
        raise _unreadable(place) from None
    return lines


def _unreadable(place: Path) -> StateError:
    return StateError(
        f"state: {place}, with the costs of requests, cannot be read; restore it, or delete what is no whole line of "
        "it",
        argument="state",
    )


def _cost(fields: Mapping[str, str]) -> Spend:
    epsilon, delta, mu_squared = (Fraction(fields[name]) for name in _AMOUNTS)
    return Spend(epsilon, delta, mu_squared)
