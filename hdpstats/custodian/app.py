"""What a site answers over HTTP.

====== ===================== ==============================================================================
GET    ``/v1/facts``         schema, terms, number of people, data set; the asker's name, and limits
GET    ``/v1/dummy``         invented rows
PUT    ``/v1/public``        public rows for later queries
POST   ``/v1/cost``          what a query would read and cost
POST   ``/v1/received``      the release of a query that was charged to the asker before; charges nothing
POST   ``/v1/answer``        the release of a query, charged before a row is touched
GET    ``/v1/ledger``        the asker's own part of the ledger
====== ===================== ==============================================================================

A response is a release, a public fact, or ``{"error": code}`` with a code of `hdpstats.sites.messages`; where waiting
helps, ``Retry-After`` says how many seconds. A query is read from its canonical text and from no other: keys that are
unknown, given twice or out of order are refused.

**Nobody's request holds the others up.** While Python reads or writes a JSON text, all threads of the process wait. So
what is read is short (`hdpstats.custodian.settings.Limits`) and has few parts (`hdpstats.records.codec.bounded`);
public rows are arrays of numbers that no parser goes over (`hdpstats.sites.messages.public_to_bytes`), and queries that
name them are prepared by operations on arrays, beside which other threads run; of the ledger only what was written
since is gone over; and long responses are written column by column, in a thread of the analyst's own.

**The log** has one line for each request, whatever became of it (`Logged`).
"""

import json
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Final, final

import anyio.to_thread
import numpy as np
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hdpstats import __version__ as VERSION  # noqa: N812
from hdpstats._base.caching import forget
from hdpstats._base.errors import HdpError, SiteError
from hdpstats._base.work import Prices
from hdpstats.custodian import log
from hdpstats.custodian.capacity import ByteCount, Capacity, Clock, body
from hdpstats.custodian.credentials import TokenVerifier, Unauthenticated
from hdpstats.custodian.health import State
from hdpstats.custodian.http_connection import FINGERPRINT
from hdpstats.custodian.permissions import Permissions
from hdpstats.custodian.prices import measured
from hdpstats.custodian.settings import SiteSettings
from hdpstats.custodian.timing import Overruns, Rates, Slots
from hdpstats.ledger import Ledger
from hdpstats.mechanisms.registry import query_from_json
from hdpstats.privacy.budget import total
from hdpstats.records import codec, recipe
from hdpstats.records.query import Query, Release
from hdpstats.schema.datasets import cells, shares
from hdpstats.sites import LocalSite
from hdpstats.sites.messages import CODES, AnalystAccount, Facts, RequestRefused, code_of, public_from_bytes

Handler = Callable[[Request], Awaitable[Response]]
MOST_DUMMY = 10_000
MOST_DUMMY_CELLS = 1_000_000
LARGEST_SEED = 10**9
NOTED: Final = "hdpstats.noted"
"""Where a request's scope holds what the log will say of it."""


def application(
    site: LocalSite,
    settings: SiteSettings,
    clock: Clock = Clock(),  # noqa: B008  (frozen)
    prices: Prices | None = None,
    state: State | None = None,
) -> "Logged":
    """Return the application of a site; who asks is identified first at every address, and each request is logged.

    ``prices`` of operations are those of this machine where none are given; ``state`` counts requests.
    """
    service = Service(site, settings, clock, measured() if prices is None else prices)
    handlers = (
        ("GET", "/v1/facts", service.show_facts),
        ("GET", "/v1/dummy", service.invent),
        ("PUT", "/v1/public", service.take_public),
        ("POST", "/v1/cost", service.cost),
        ("POST", "/v1/received", service.show_received),
        ("POST", "/v1/answer", service.answer),
        ("GET", "/v1/ledger", service.show_share),
    )
    # Handlers read their requests themselves, from canonical text: FastAPI finds no parameter and parses no body.
    routes: list[BaseRoute] = [
        Route(path, Endpoint(service, handler), methods=[method]) for method, path, handler in handlers
    ]
    raised = (Unauthenticated, RequestRefused, HdpError, HTTPException, Exception)
    answering = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        routes=routes,
        redirect_slashes=False,
        exception_handlers=dict.fromkeys(raised, _refuse),
    )
    names = {path: path.removeprefix("/v1/") for _, path, _ in handlers}
    return Logged(answering, service=service, names=names, data_version=site.ledger.version, clock=clock, state=state)


@final
class Service:
    """What happens with each request: identity, permission, and then the site."""

    def __init__(self, site: LocalSite, settings: SiteSettings, clock: Clock, prices: Prices) -> None:
        self._site = site
        self._rates = Rates(settings.timing.requests, clock)
        self._slots = Slots(site, settings.timing, prices=prices, overruns=Overruns(settings.overruns), clock=clock)
        self._analysts: Mapping[str, Permissions] = settings.analysts
        self._limits = settings.limits
        self._tokens = TokenVerifier(settings.service.identities)
        self._capacity = Capacity(settings.limits, settings.analysts)
        self._facts = site.facts
        self._facts_json = _written(self._facts.to_dict())

    @property
    def ledger(self) -> Ledger:
        """The account of the site."""
        return self._site.ledger

    def renew(self, analysts: Mapping[str, Permissions], tokens: TokenVerifier) -> None:
        """Take other permissions and tokens from the next request on; to be called from the event loop."""
        self._capacity.renew(analysts)
        self._analysts, self._tokens = analysts, tokens

    def at_work(self) -> AbstractContextManager[None]:
        """Run a block in which the process works for its custodian: no overrun beside it is counted."""
        return self._slots.request("")  # no analyst has this name

    def _permissions(self, analyst: str) -> Permissions:
        permissions = self._analysts.get(analyst)
        if permissions is None:
            raise RequestRefused("unknown-analyst")
        return permissions

    @contextmanager
    def admitted(self, analyst: str) -> Iterator[ByteCount]:
        """Count a request of an analyst, and give what counts its bytes, until its response was read."""
        if not self._rates.allow(analyst):
            raise RequestRefused("too-many", wait=self._rates.seconds(analyst))
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
        request.state.analyst = request.scope[NOTED]["analyst"] = analyst
        self._permissions(analyst)

    async def show_facts(self, request: Request) -> Response:
        """Show the public facts, and to the asker what is permitted, and how many bytes he may send."""
        analyst = request.state.analyst
        who = {
            "analyst": analyst,
            "permissions": self._permissions(analyst).to_dict(),
            "longest": {"query": self._limits.query, "public": self._limits.public},
            "package": VERSION,
        }
        return _json(b'{"facts":' + self._facts_json + b"," + _written(who)[1:])

    async def invent(self, request: Request) -> Response:
        """Draw dummy rows."""
        rows, seed = _numbers(request, rows=MOST_DUMMY, seed=LARGEST_SEED)
        most = MOST_DUMMY_CELLS // (len(self._facts.schema) + 1)
        if rows > most:
            raise RequestRefused("too-large", limit=most)

        def written() -> bytes:
            columns = dummy_columns(self._facts, rows=rows, seed=seed)
            return b'{"columns":{' + b",".join(_written({name: column})[1:-1] for name, column in columns) + b"}}"

        return _json(await self._capacity.read(request.state.analyst, written))

    async def take_public(self, request: Request) -> Response:
        """Keep public rows."""
        content, analyst = await self._body(request, longest=self._limits.public), request.state.analyst

        def take() -> str:
            try:
                table = public_from_bytes(content, schema=self._facts.schema, unit=self._facts.terms.unit)
            except ValueError:
                raise RequestRefused("malformed") from None
            self._site.put_public(table, analyst=analyst, most_bytes=self._limits.kept_each)
            return table.sha256

        sha256 = await self._capacity.parse(analyst, take)
        request.scope[NOTED]["sha256"] = sha256
        return _json(_written({"sha256": sha256}))

    async def cost(self, request: Request) -> Response:
        """Say what a query would cost."""

        def quoted(query: Query, analyst: str) -> dict[str, Any]:
            quote = self._site.quote(query, analyst=analyst)
            return replace(quote, seconds=self._slots.seconds(query, analyst=analyst)).to_dict()

        return _json(await self._about_query(request, self._capacity.read, quoted))

    async def answer(self, request: Request) -> Response:
        """Let the site answer a query."""

        def answered(query: Query, analyst: str) -> dict[str, Any]:
            release, request.state.in_slot = self._slots.answer(query, analyst=analyst)
            return _handed_out(release, request.scope[NOTED])

        return _json(await self._about_query(request, self._capacity.compute, answered))

    async def show_received(self, request: Request) -> Response:
        """Show a release that the asker has received; nothing is charged, and no row read."""

        def received(query: Query, analyst: str) -> dict[str, Any]:
            release = self._site.received(query, analyst=analyst)
            if release is None:
                raise RequestRefused("not-received")
            return _handed_out(release, request.scope[NOTED])

        return _json(await self._about_query(request, self._capacity.read, received))

    async def show_share(self, request: Request) -> Response:
        """Show the asker's own part of the ledger."""
        analyst = request.state.analyst
        account = lambda: _written(AnalystAccount.of(analyst, self._site.ledger).to_dict())  # noqa: E731
        return _json(await self._capacity.read(analyst, account))

    async def quiet(self, request: Request) -> None:
        """Wait until new answers to the asker have left; such an answer has waited for itself."""
        if not getattr(request.state, "in_slot", False):
            await self._slots.quiet(request.state.analyst)

    async def _about_query(
        self,
        request: Request,
        run: Callable[[str, Callable[[], bytes]], Awaitable[bytes]],
        task: Callable[[Query, str], dict[str, Any]],
    ) -> bytes:
        """Return what a task says of the query in a body, read, permitted and written in the task's thread."""
        content, analyst = await self._body(request, longest=self._limits.query), request.state.analyst

        def answer() -> bytes:
            query = read_query(content)
            request.scope[NOTED]["kind"] = query.kind
            if not self._permissions(analyst).allow(query, self._site.columns(query, analyst=analyst)):
                raise RequestRefused("forbidden")
            return _written(task(query, analyst))

        return await run(analyst, answer)

    async def _body(self, request: Request, *, longest: int) -> bytes:
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


@final
class Logged:
    """An application that leaves one line in the log for each request, whatever became of it.

    The line has the address (``request``), the ``kind`` of query, the ``analyst``, the ``status``, how long the client
    waited as one of `CLASSES` (``took``), and the versions of the package and of the data. A release has its cost and
    its entry in the ledger, a refusal its code and why. It has no cell, and nothing that a client wrote, but for the
    beginning of an address that there is not. A new answer leaves at its slot, so that how long the client waited
    says nothing more than the prediction does.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        service: "Service",
        names: Mapping[str, str],
        data_version: int,
        clock: Clock,
        state: State | None = None,
    ) -> None:
        self.service, self._state = service, state
        self._app, self._names, self._clock = app, names, clock
        self._versions = {"version": VERSION, "data_version": data_version}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; what is raised after the answer goes no further, not into a server's log either."""
        noted = scope[NOTED] = {"kind": None, "analyst": None}
        begun, status, took = self._clock.now(), None, None

        async def sending(message: Message) -> None:
            nonlocal status, took
            if message["type"] == "http.response.start":
                status, took = message["status"], class_of(self._clock.now() - begun)
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception as error:
            noted.setdefault("why", log.cause(error))
        finally:  # also where the service ends before the answer
            name = self._names.get(scope["path"], scope["path"][:100])
            log.write(request=name, **noted, status=status, took=took, **self._versions)
            if self._state is not None:
                self._state.count(self._names.get(scope["path"], "other"), status)


CLASSES: Final = (0.1, 1.0, 10.0, 100.0)
"""Seconds below which a client waited."""


def class_of(seconds: float) -> str:
    """Return the class of a duration.

    >>> class_of(0.02), class_of(0.1), class_of(250)
    ('under 0.1 s', 'under 1 s', '100 s or more')
    """
    above = [limit for limit in CLASSES if seconds < limit]
    return f"under {above[0]:g} s" if above else f"{CLASSES[-1]:g} s or more"


def dummy_columns(facts: Facts, *, rows: int, seed: int) -> Iterator[tuple[str, list[Any]]]:
    """Yield columns of invented rows: every declared value equally likely, columns independent of each other.

    A function of the schema, the terms and the arguments: it has never seen a row. With a unit, persons have one to
    ``max_rows_per_unit`` rows each.
    """
    unit, most = facts.terms.unit, min(facts.terms.most_rows, 10)
    for name in dict.fromkeys([*facts.schema, *([] if unit is None else [unit])]):
        if name == unit:
            several = 1 + (most * shares(f"dummy {seed}", rows)).astype(np.int64)
            yield name, [f"person-{person + 1}" for person in np.repeat(np.arange(rows), several)[:rows]]
        else:
            yield name, cells(facts.schema[name], f"dummy {seed} {name}", rows).tolist()


def read_query(content: bytes) -> Query:
    """Read a query from its canonical text, or refuse."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise RequestRefused("malformed") from None
    excess = codec.excess(text)
    if excess is not None:
        raise RequestRefused("too-large", limit=excess[-1])
    try:
        query = query_from_json(text)
        same = query.to_json() == text
    except (SiteError, ValueError, RecursionError):
        raise RequestRefused("malformed") from None
    if not same:
        raise RequestRefused("malformed")
    if not recipe.is_known(query.recipe):
        raise RequestRefused("unknown-recipe", limit=recipe.CURRENT)
    return query


def _handed_out(release: Release, noted: dict[str, Any]) -> dict[str, Any]:
    """Return a release as JSON values, and note for the log that it leaves."""
    entry = None if release.entry is None else release.entry.to_dict()
    noted |= {"cost": str(total(release.events)), "entry": entry}
    return {"release": release.to_json(), "entry": entry}


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


def _written(fields: dict[str, Any]) -> bytes:
    """Return a JSON object, with keys in their order: that of the schema's columns is kept."""
    return json.dumps(fields, allow_nan=False, separators=(",", ":")).encode()


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json", headers={"cache-control": "no-store"})


async def _refuse(request: Request, error: Exception) -> Response:
    """Turn whatever was raised into a code, and note for the log why.

    The connection ends, with what is still under way on it.
    """
    numbers: dict[str, float] = {}
    headers = {"cache-control": "no-store", "connection": "close"}
    match error:
        case Unauthenticated():
            code, why = "unauthenticated", str(error)
        case RequestRefused():
            code, why, numbers = error.code, "", error.numbers
            if error.wait is not None:
                headers["retry-after"] = str(max(math.ceil(error.wait), 1))
        case HdpError():
            code, why = code_of(error), log.cause(error)
        case HTTPException():
            code, why = "not-found", f"status {error.status_code}"
        case _:
            code, why = "failed", log.cause(error)
    request.scope[NOTED] |= {"refused": code, "why": why}
    content = codec.dumps({"error": code} | numbers)
    return Response(content, status_code=CODES[code].status, media_type="application/json", headers=headers)
