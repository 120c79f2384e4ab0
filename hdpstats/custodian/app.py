"""What a site answers over HTTP.

====== ===================== ==============================================================================
GET    ``/v1/facts``         schema, terms, number of people, data set; the asker's name
GET    ``/v1/dummy``         invented rows
PUT    ``/v1/public``        public rows for later queries
POST   ``/v1/cost``          what a query would read and cost
POST   ``/v1/answer``        the release of a query, charged before a row is touched
POST   ``/v1/recorded``      the release of a query that the asker has received; nothing is charged or computed
GET    ``/v1/ledger``        the asker's own part of the ledger
====== ===================== ==============================================================================

A response is a release, a public fact, or ``{"error": code}`` with a code of `hdpstats.sites.forms`. A query is read
from its canonical text and from no other: keys that are unknown, given twice or out of order are refused.
"""

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, final

import anyio.to_thread
import numpy as np
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from hdpstats._base.errors import HdpError, SiteError
from hdpstats._base.remembered import forget
from hdpstats._base.work import Prices
from hdpstats.custodian import journal
from hdpstats.custodian.capacity import ByteCount, Capacity, Clock, body
from hdpstats.custodian.credentials import TokenVerifier, Unauthenticated
from hdpstats.custodian.exchange import FINGERPRINT
from hdpstats.custodian.prices import measured
from hdpstats.custodian.settings import SiteSettings
from hdpstats.custodian.slots import Overruns, Rates, Slots
from hdpstats.mechanisms.registry import query_from_json
from hdpstats.privacy.budget import total
from hdpstats.records import codec
from hdpstats.records.query import Query, Release
from hdpstats.schema.datasets import cells, shares
from hdpstats.sites import LocalSite
from hdpstats.sites.forms import CODES, AnalystAccount, Facts, Quote, RequestRefused, code_of, public_from_dict

Handler = Callable[[Request], Awaitable[Response]]
MOST_DUMMY = 10_000
LARGEST_SEED = 10**9


def application(
    site: LocalSite,
    settings: SiteSettings,
    clock: Clock = Clock(),  # noqa: B008  (frozen)
    prices: Prices | None = None,
) -> FastAPI:
    """Return the application of a site; who asks is identified first at every address.

    ``prices`` of operations are those of this machine where none are given.
    """
    service = Service(site, settings, clock, measured() if prices is None else prices)
    handlers = (
        ("GET", "/v1/facts", service.show_facts),
        ("GET", "/v1/dummy", service.invent),
        ("PUT", "/v1/public", service.take_public),
        ("POST", "/v1/cost", service.cost),
        ("POST", "/v1/answer", service.answer),
        ("POST", "/v1/recorded", service.show_recorded),
        ("GET", "/v1/ledger", service.show_share),
    )
    # Handlers read their requests themselves, from canonical text: FastAPI finds no parameter and parses no body.
    routes: list[BaseRoute] = [
        Route(path, Endpoint(service, handler), methods=[method]) for method, path, handler in handlers
    ]
    raised = (Unauthenticated, RequestRefused, HdpError, HTTPException, Exception)
    return FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        routes=routes,
        redirect_slashes=False,
        exception_handlers=dict.fromkeys(raised, _refuse),
    )


@final
class Service:
    """What happens with each request: identity, permission, and then the site."""

    def __init__(self, site: LocalSite, settings: SiteSettings, clock: Clock, prices: Prices) -> None:
        self._site = site
        self._rates = Rates(settings.timing.requests, clock)
        self._slots = Slots(site, settings.timing, prices=prices, overruns=Overruns(settings.overruns), clock=clock)
        self._analysts = settings.analysts
        self._limits = settings.limits
        self._tokens = TokenVerifier(settings.identities)
        self._capacity = Capacity(settings.limits, settings.analysts)
        self._facts = Facts(
            schema=site.schema,
            terms=site.terms,
            records=site.records,
            dataset=site.ledger.dataset,
            version=site.ledger.version,
        )

    @contextmanager
    def admitted(self, analyst: str) -> Iterator[ByteCount]:
        """Count a request of an analyst, and give what counts its bytes, until its response was read."""
        if not self._rates.allow(analyst):
            raise RequestRefused("too-many")
        try:
            with (
                self._capacity.request(analyst),
                self._slots.request(analyst),
                self._capacity.bytes.holding(analyst) as hold,
            ):
                yield hold
        finally:
            forget()

    async def identify(self, request: Request) -> None:
        """Note who asks, or refuse before the body is read."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthenticated("no token")
        fingerprint = request.scope.get(FINGERPRINT)
        analyst = self._tokens.remembered(token, fingerprint)
        if analyst is None:
            analyst = await anyio.to_thread.run_sync(self._tokens.verify, token, fingerprint)
        request.state.analyst = analyst
        if analyst not in self._analysts:
            raise RequestRefused("unknown-analyst")

    async def show_facts(self, request: Request) -> Response:
        """Show the public facts, and to the asker what is permitted."""
        analyst = request.state.analyst
        permissions = self._analysts[analyst].to_dict()
        return _json({"facts": self._facts.to_dict(), "analyst": analyst, "permissions": permissions})

    async def invent(self, request: Request) -> Response:
        """Draw dummy rows."""
        rows, seed = _numbers(request, rows=MOST_DUMMY, seed=LARGEST_SEED)
        analyst = request.state.analyst
        columns = await self._capacity.read(analyst, lambda: dummy_columns(self._facts, rows=rows, seed=seed))
        return _json({"columns": columns})

    async def take_public(self, request: Request) -> Response:
        """Keep public rows."""
        text, analyst = await self._body(request, longest=self._limits.public), request.state.analyst

        def take() -> str:
            table = public_from_dict(_object(text), schema=self._facts.schema, unit=self._facts.terms.unit)
            self._site.put_public(table, analyst=analyst, most_bytes=self._limits.kept_each)
            return table.sha256

        sha256 = await self._capacity.parse(analyst, take)
        journal.write(analyst=analyst, endpoint="public", sha256=sha256)
        return _json({"sha256": sha256})

    async def cost(self, request: Request) -> Response:
        """Say what a query would cost."""
        text, analyst = await self._body(request, longest=self._limits.query), request.state.analyst

        def quoted() -> Quote:
            query = self._permitted(text, analyst)
            quote = self._site.quote(query, analyst=analyst)
            return replace(quote, seconds=self._slots.seconds(query, analyst=analyst))

        quote = await self._capacity.read(analyst, quoted)
        return _json(quote.to_dict())

    async def answer(self, request: Request) -> Response:
        """Let the site answer a query."""
        text, analyst = await self._body(request, longest=self._limits.query), request.state.analyst
        found, request.state.in_slot = await self._capacity.compute(analyst, lambda: self._answered(text, analyst))
        return _json(found)

    async def show_recorded(self, request: Request) -> Response:
        """Show what the ledger has of a query that was charged to the asker."""
        text, analyst = await self._body(request, longest=self._limits.query), request.state.analyst
        return _json(await self._capacity.read(analyst, lambda: self._recorded(text, analyst)))

    async def show_share(self, request: Request) -> Response:
        """Show the asker's own part of the ledger."""
        analyst = request.state.analyst
        share = await self._capacity.read(analyst, lambda: AnalystAccount.of(analyst, self._site.ledger))
        return _json(share.to_dict())

    async def quiet(self, request: Request) -> None:
        """Wait until new answers to the asker have left; such an answer has waited for itself."""
        if not getattr(request.state, "in_slot", False):
            await self._slots.quiet(request.state.analyst)

    def _answered(self, text: str, analyst: str) -> tuple[dict[str, Any], bool]:
        """Return an answer, and whether it left at a slot."""
        query = self._permitted(text, analyst)
        release, in_slot = self._slots.answer(query, analyst=analyst)
        return _handed_out("answer", query, release, analyst), in_slot

    def _recorded(self, text: str, analyst: str) -> dict[str, Any]:
        """Return what was received of a query, and whether it was charged; never more than the asker's own part."""
        query = self._permitted(text, analyst)
        found = self._site.received(query, analyst=analyst)
        if found.release is None:
            return {"release": None, "entry": None, "charged": found.charged}
        return _handed_out("recorded", query, found.release, analyst) | {"charged": found.charged}

    def _permitted(self, text: str, analyst: str) -> Query:
        query = read_query(text)
        if not self._analysts[analyst].allow(query, self._site.columns(query, analyst=analyst)):
            raise RequestRefused("forbidden")
        return query

    async def _body(self, request: Request, *, longest: int) -> str:
        return await body(request, longest=longest, hold=request.state.hold)


@final
class Endpoint:
    """A handler as an ASGI application: who asks is identified first, and counted until he has read the response."""

    def __init__(self, service: Service, handler: Handler) -> None:
        self._service = service
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        await self._service.identify(request)
        try:
            with self._service.admitted(request.state.analyst) as request.state.hold:
                response = await self._handler(request)
                # A new answer was charged: it is handed out. One that was received before may be asked for again.
                request.state.hold(len(response.body), always=getattr(request.state, "in_slot", False))
                await self._service.quiet(request)
                await response(scope, receive, send)
        except Exception:  # a refusal, which is sent once it may be
            await self._service.quiet(request)
            raise


def dummy_columns(facts: Facts, *, rows: int, seed: int) -> dict[str, list[Any]]:
    """Return columns of invented rows: every declared value equally likely, columns independent of each other.

    A function of the schema, the terms and the arguments: it has never seen a row. With a unit, persons have one to
    ``max_rows_per_unit`` rows each.
    """
    columns = {name: cells(column, f"dummy {seed} {name}", rows).tolist() for name, column in facts.schema.items()}
    unit, most = facts.terms.unit, min(facts.terms.most_rows, 10)
    if unit is not None:
        several = 1 + (most * shares(f"dummy {seed}", rows)).astype(np.int64)
        columns[unit] = [f"person-{person + 1}" for person in np.repeat(np.arange(rows), several)[:rows]]
    return columns


def read_query(text: str) -> Query:
    """Read a query from its canonical text, or refuse."""
    try:
        query = query_from_json(text)
        same = query.to_json() == text
    except (SiteError, ValueError, RecursionError):
        raise RequestRefused("malformed") from None
    if not same:
        raise RequestRefused("malformed")
    return query


def _handed_out(endpoint: str, query: Query, release: Release, analyst: str) -> dict[str, Any]:
    """Return a release as JSON values, and write to the log that it leaves."""
    entry = None if release.entry is None else release.entry.to_dict()
    journal.write(
        analyst=analyst, endpoint=endpoint, mechanism=query.kind, cost=str(total(release.events)), entry=entry
    )
    return {"release": release.to_json(), "entry": entry}


def _object(text: str) -> dict[str, Any]:
    try:
        fields = codec.loads(text)
    except (ValueError, RecursionError):
        raise RequestRefused("malformed") from None
    if not isinstance(fields, dict):
        raise RequestRefused("malformed")
    return fields


def _numbers(request: Request, **largest: int) -> list[int]:
    """Return whole numbers from a URL's query, each given once and no other."""
    given = request.query_params
    shaped = sorted(given.keys()) == sorted(largest) and len(given.multi_items()) == len(largest)
    if not (shaped and all(given[name].isdecimal() and len(given[name]) < 11 for name in largest)):
        raise RequestRefused("malformed")
    numbers = [int(given[name]) for name in largest]
    if any(number > most for number, most in zip(numbers, largest.values(), strict=True)):
        raise RequestRefused("too-large")
    return numbers


def _json(fields: dict[str, Any]) -> Response:
    content = json.dumps(fields, allow_nan=False)  # with keys in their order: that of the schema's columns is kept
    return Response(content, media_type="application/json", headers={"cache-control": "no-store"})


async def _refuse(request: Request, error: Exception) -> Response:
    """Turn whatever was raised into a code, and write to the log why.

    The connection ends, with what is still under way on it.
    """
    numbers: dict[str, float] = {}
    match error:
        case Unauthenticated():
            code, why = "unauthenticated", str(error)
        case RequestRefused():
            code, why, numbers = error.code, "", error.numbers
        case HdpError():
            code, why = code_of(error), journal.cause(error)
        case HTTPException():
            code, why = "not-found", f"status {error.status_code}"
        case _:
            code, why = "failed", journal.cause(error)
    journal.write(analyst=getattr(request.state, "analyst", None), path=request.url.path[:100], refused=code, why=why)
    return Response(
        codec.dumps({"error": code} | numbers),
        status_code=CODES[code].status,
        media_type="application/json",
        headers={"cache-control": "no-store", "connection": "close"},
    )


async def errors_logged(app: Any, scope: Any, receive: Any, send: Any) -> None:
    """Run an application; what it raises after it has answered goes no further, not into a server's log either."""
    try:
        await app(scope, receive, send)
    except Exception as error:
        journal.write(failed=journal.cause(error))
