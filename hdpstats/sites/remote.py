"""A site in another process or on another machine: HTTPS with certificates, and one request with its answer."""

import re
import ssl
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Self, final

import pandas as pd

from hdpstats._base.errors import ArgumentError, HdpError, SiteError
from hdpstats._base.progress import progress
from hdpstats._base.validation import integer, real, text
from hdpstats.mechanisms.registry import is_listed, query_from_json, release_from_json
from hdpstats.records import codec
from hdpstats.records.query import LedgerEntry, Query, Release
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.schema.synthetic import mark
from hdpstats.sites.local import MOST_PUBLIC
from hdpstats.sites.messages import CODES, NUMBERS, AnalystAccount, Facts, Quote, check_format, public_to_bytes
from hdpstats.sites.single_draw import warn_if_charged_again
from hdpstats.sites.site import HeldData, Site, SiteTerms

if TYPE_CHECKING:
    import httpx

Token = str | Callable[[], str]
Certificate = tuple[str | PathLike[str], str | PathLike[str]]
LONGEST_CONNECT = 10.0
"""The longest time in seconds to wait for a connection."""


def _context(ca: str | PathLike[str] | None, cert: Certificate | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError):
        raise ArgumentError(f"ca must be a file of certificates (PEM), not {str(ca)!r}", argument="ca") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert is not None:
        try:
            context.load_cert_chain(*cert)
        except (OSError, ssl.SSLError, TypeError):
            message = "cert must name two files (PEM): your certificate and its key"
            raise ArgumentError(message, argument="cert") from None
    return context


@final
class HttpClient:
    """Connections to one site, which are kept for later requests; the arguments are those of `connect`.

    Nothing is sent before the first request. A proxy is used where the environment names one: ``HTTPS_PROXY``,
    ``ALL_PROXY``, ``NO_PROXY``.
    """

    def __init__(
        self, url: str, *, token: Token, ca: str | PathLike[str] | None, cert: Certificate | None, timeout: float
    ) -> None:
        self.address = text(url, name="url", longest=2000).rstrip("/")
        if not self.address.startswith("https://"):
            raise ArgumentError("url must begin with 'https://': tokens and releases are sent encrypted only")
        if not (isinstance(token, str) or callable(token)):
            raise ArgumentError("token must be a text, or a function that returns one", argument="token")
        try:
            import httpx
        except ImportError:
            message = "remote sites need httpx: pip install httpx"
            raise ArgumentError(message, argument="url") from None
        try:
            host = httpx.URL(self.address).host
        except httpx.InvalidURL:
            host = ""
        if not host:
            raise ArgumentError("url must name a host: https://host:port", argument="url")
        longest = real(timeout, name="timeout", lower=0.0, open_lower=True)
        self._token, self._longest = token, longest
        self._client = httpx.Client(
            verify=_context(ca, cert),
            timeout=httpx.Timeout(longest, connect=min(longest, LONGEST_CONNECT)),
            limits=httpx.Limits(max_connections=16, keepalive_expiry=20.0),
        )

    def ask(self, method: str, path: str, body: str | bytes | None = None) -> dict[str, Any]:
        """Send a request and return the JSON object of the response, or raise the error that its code stands for.

        Where the site has no room for the request now, and nothing was charged (`WAITED_FOR`), it is sent again after
        the seconds that the site says, until the timeout is over; a bar shows that it waits (`progress`).
        """
        response = self._sent(method, path, body)
        if _seconds(response) is not None:

            def attempts() -> Iterator[None]:
                nonlocal response
                ends = time.monotonic() + self._longest
                while (left := _seconds(response)) is not None and time.monotonic() + left <= ends:
                    for _ in range(left):
                        time.sleep(1.0)
                        yield
                    response = self._sent(method, path, body)

            for _ in progress(attempts(), label=f"waiting for {self.address}, which is busy"):
                pass
        fields = _object(response.text)
        if response.status_code == 200 and fields is not None:
            return fields
        raise _refusal(response.status_code, fields)

    def _sent(self, method: str, path: str, body: str | bytes | None) -> "httpx.Response":
        import httpx

        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        headers = {"authorization": f"Bearer {_word(self._token)}", "content-type": kind}
        try:
            return self._client.request(method, f"{self.address}{path}", headers=headers, content=body)
        except httpx.TimeoutException:
            raise SiteError(f"the site {self.address} did not answer in time; {_AGAIN}") from None
        except httpx.RemoteProtocolError:  # its text quotes what was sent
            raise SiteError(
                f"the site {self.address} cannot be reached (it broke off, or sent what is no answer); {_AGAIN}"
            ) from None
        except httpx.HTTPError as error:
            raise SiteError(f"the site {self.address} cannot be reached ({_reason(error)}); {_AGAIN}") from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


_WORD = re.compile("[!-~]{1,16000}")
_AGAIN = "the same query may be sent again, and is not charged twice"


def _word(token: Token) -> str:
    word = token if isinstance(token, str) else token()
    if not (isinstance(word, str) and _WORD.fullmatch(word)):
        raise ArgumentError(
            "token must be one word of printable ASCII characters, as it was handed out", argument="token"
        )
    return word


def _object(content: str) -> dict[str, Any] | None:
    try:
        fields = codec.loads(content)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


WAITED_FOR: Final = frozenset({"busy", "too-many"})
"""Refusals that pass: nothing was charged, and there is room later."""


def _seconds(response: "httpx.Response") -> int | None:
    """Return after how many seconds a request may be sent again; None where it was answered or waiting is of no use."""
    said = response.headers.get("retry-after", "")
    if response.is_success or not (said.isdecimal() and len(said) < 6):
        return None
    code = (_object(response.text) or {}).get("error")
    return max(int(said), 1) if code in WAITED_FOR else None


def _reason(error: Exception) -> str:
    """Return the first line of what the transport says: about certificates, names and connections."""
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def _refusal(status: int, fields: dict[str, Any] | None) -> HdpError:
    body = fields or {}
    code = str(body.get("error"))
    refusal = CODES.get(code)
    if refusal is None:
        return SiteError(f"the site cannot answer now (status {status}); {_AGAIN}")
    numbers = {name: body[name] for name in NUMBERS if _is_a_size(body.get(name))}
    added = "".join(f"; {name}: {number:g}" for name, number in numbers.items())
    return refusal.error(refusal.message + added, code=code, **numbers)


def _is_a_size(said: object) -> bool:
    """Whether what a site said is a number that a message can name."""
    return isinstance(said, int | float) and 0 <= said < 1e18


def connect(
    url: str,
    *,
    token: Token,
    ca: str | PathLike[str] | None = None,
    cert: Certificate | None = None,
    timeout: float = 600.0,
) -> "RemoteSite":
    """Connect to a custodian's service and return the site, which a `Study` takes as its private records.

    Parameters
    ----------
    url
        ``https://host:port``.
    token
        Who asks: the token that the custodian or an identity provider gave, or a function that returns one, which is
        called for every request.
    ca
        The file of the certificate that the site's own must be signed by; the system's authorities by default.
    cert
        The files of your certificate and of its key.
    timeout
        The longest time in seconds to wait for an answer, and for a site that is busy: a request that it has no room
        for now is sent again when the site says, and nothing is charged meanwhile.

    Raises
    ------
    ArgumentError
        The URL is not https, a file cannot be read, or the extra ``sites`` is not installed.
    SiteError
        The site cannot be reached, or refuses; where its certificate is not signed by ``ca``, nothing was sent.

    Examples
    --------
    A study of two hospitals, each with a service of its own::

        leiden = hdp.connect("https://leiden.example:8443", token=token, ca="leiden.pem")
        delft = hdp.connect("https://delft.example:8443", token=token, ca="delft.pem")
        study = hdp.Study(private={"leiden": leiden, "delft": delft}, public=public)

    Nothing is sent without encryption:

    >>> connect("http://leiden.example", token="secret")
    Traceback (most recent call last):
        ...
    hdpstats._base.errors.ArgumentError: url must begin with 'https://': tokens and releases are sent encrypted only
    """
    client = HttpClient(url, token=token, ca=ca, cert=cert, timeout=timeout)
    try:
        return RemoteSite(client)
    except BaseException:
        client.close()
        raise


@final
class RemoteSite(Site):
    """Private rows that another process holds. Made by `connect`.

    Only queries, releases, public rows and public facts are sent. The same query again costs nothing, so a call
    that was cut off may be repeated.
    """

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self._public: dict[str, PublicTable] = {}
        answer = self._client.ask("GET", "/v1/facts")
        with _reading():
            check_format(answer["facts"]["format"])
            self._facts = Facts.from_dict(answer["facts"])
            self._analyst, self._package = str(answer["analyst"]), str(answer.get("package", "unknown"))
            self._permissions = {name: _listed(names) for name, names in answer["permissions"].items()}
            self._longest = {str(name): int(size) for name, size in answer.get("longest", {}).items()}

    @property
    def address(self) -> str:
        """The URL of the custodian's service."""
        return self._client.address

    @property
    def place(self) -> str:
        """The same, in words."""
        return f"at {self.address}"

    def is_same_as(self, other: Site) -> bool:
        """Whether both have one address."""
        return isinstance(other, RemoteSite) and self.address == other.address

    @property
    def schema(self) -> Schema:
        """The custodian's schema, as it was when the connection was made."""
        return self._facts.schema

    @property
    def records(self) -> int:
        """The public number of people; see `Site.records`."""
        return self._facts.records

    @property
    def terms(self) -> SiteTerms:
        """Who is protected; see `Site.terms`."""
        return self._facts.terms

    @property
    def held(self) -> HeldData:
        """Which data the site holds; see `Site.held`."""
        facts = self._facts
        return HeldData(dataset=facts.dataset, version=facts.version, account=facts.account)

    @property
    def facts(self) -> Facts:
        """All public facts about the site."""
        return self._facts

    @property
    def analyst(self) -> str:
        """Your name, as the site read it from your token."""
        return self._analyst

    @property
    def package(self) -> str:
        """The version of hdpstats that the site runs; one that talks in another format was refused by `connect`."""
        return self._package

    @property
    def permissions(self) -> Mapping[str, tuple[str, ...] | None]:
        """The mechanisms, models and columns that you may ask for; None where all are."""
        return dict(self._permissions)

    def quote(self, query: Query) -> Quote:
        """Return what a query would read and cost; nothing is charged."""
        fields = self._client.ask("POST", "/v1/cost", self._written(query))
        with _reading():
            return Quote.from_dict(fields)

    def check_permitted(self, query: Query, columns: Collection[str]) -> None:
        """Refuse a query that the site did not permit when it was connected, or would not read.

        See `Site.check_permitted`.
        """
        self._written(query)
        if not is_listed(query, columns, self._permissions):
            raise CODES["forbidden"].error(CODES["forbidden"].message, code="forbidden")

    def account(self) -> AnalystAccount:
        """Return your own part of the site's ledger."""
        fields = self._client.ask("GET", "/v1/ledger")
        with _reading():
            return AnalystAccount.from_dict(fields)

    def dummy(self, rows: int = 100, *, seed: int = 0) -> pd.DataFrame:
        """Return invented rows that the site draws from its schema alone, to try code with before anything is charged.

        They have the declared columns (and that of the unit), every value equally likely: nothing about the people.
        They are marked as invented, like those of `hdpstats.schema.schema.Schema.synthetic`.
        """
        count = integer(rows, name="rows", lower=1, upper=10_000)
        number = integer(seed, name="seed", lower=0, upper=10**9)
        fields = self._client.ask("GET", f"/v1/dummy?rows={count}&seed={number}")
        with _reading():
            return mark(pd.DataFrame({str(name): listed for name, listed in fields["columns"].items()}))

    def put_public(self, table: PublicTable) -> None:
        """Hand over public rows for later queries; see `Site.put_public`.

        They travel as plain arrays (`hdpstats.sites.messages.public_to_bytes`), whatever file they were read from.
        """
        self._check_public(table)
        if table.sha256 in self._public:
            return
        content = public_to_bytes(table)
        size = f"the table of {table.rows} public rows and {len(table.names)} columns"
        self._check_length("public", len(content), lambda: size)
        self._client.ask("PUT", "/v1/public", content)
        self._public = dict([*self._public.items(), (table.sha256, table)][-MOST_PUBLIC:])

    def received(self, query: Query) -> Release | None:
        """Return what you have received of a query; see `Site.received`."""
        try:
            fields = self._client.ask("POST", "/v1/received", self._written(query))
        except SiteError as error:
            if error.facts.get("code") in ("not-received", "not-found"):  # an older site knows no such address
                return None
            raise
        with _reading():
            return _release(fields)

    def answer(self, query: Query) -> Release:
        """Answer a query; see `Site.answer`.

        Public rows that were handed over and that the site no longer has (it was started anew, or you handed over
        others) are sent once more.
        """
        asked = self._written(query)
        try:
            fields = self._client.ask("POST", "/v1/answer", asked)
        except SiteError as error:
            table = self._public.pop(query.public_sha256 or "", None)
            if table is None or error.facts.get("code") != "site":
                raise
            self.put_public(table)
            fields = self._client.ask("POST", "/v1/answer", asked)
        with _reading():
            release = _release(fields)
        if release.entry is not None:
            warn_if_charged_again(release.entry)
        return release

    def _written(self, query: Query) -> str:
        """Return the text of a query, or refuse one that the site would not read."""
        text = _canonical(query)
        excess = codec.excess(text)
        if excess is not None:
            parts, number, most = excess
            raise _too_large(f"{_described(text)} has {number} {parts}, and sites read {most} at most", limit=most)
        self._check_length("query", len(text.encode()), lambda: _described(text))
        return text

    def _check_length(self, kind: str, size: int, what: Callable[[], str]) -> None:
        """Refuse what is longer than the site said that it accepts; an older site says nothing."""
        longest = self._longest.get(kind, size)
        if size > longest:
            raise _too_large(
                f"{what()} has {size} bytes, and the site accepts {longest} at most (`limits: {kind}` of its "
                "custodian's settings)",
                limit=longest,
            )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        facts = self._facts
        return (
            f"<remote site: {self._client.address}, data set {facts.dataset!r}, {len(facts.schema)} declared columns; "
            f"{facts.terms}>"
        )


def _canonical(query: Query) -> str:
    """Return the text of a query as its reader would write it, which is the only one that sites read."""
    return query_from_json(query.to_json()).to_json()


def _described(text: str) -> str:
    """Return what a query is called where it is too large, with the field that takes most of its text."""
    part, names = codec.loads(text), []
    while isinstance(part, dict):
        name, part = max(part.items(), key=lambda each: len(codec.dumps(each[1])))
        names.append(str(name))
    return f"the query, whose longest part is {'.'.join(names)},"


def _too_large(what: str, *, limit: int) -> HdpError:
    """Return the refusal of what is not sent, as it is too large."""
    return CODES["too-large"].error(
        f"{what}: nothing was sent, and nothing is charged for it. Take fewer columns, levels or terms, as a model "
        "states a number for each pair of its columns, or fewer public rows",
        code="too-large",
        limit=limit,
    )


def _release(fields: Mapping[str, Any]) -> Release:
    return release_from_json(fields["release"]).at(LedgerEntry.from_dict(fields["entry"]))


def _listed(names: Any) -> tuple[str, ...] | None:
    return None if names is None else tuple(str(name) for name in names)


@contextmanager
def _reading() -> Iterator[None]:
    """Take what a site sent and hdpstats cannot read for the site's mistake, a `SiteError`."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise SiteError("the site's response cannot be read; do versions of hdpstats differ?") from None
