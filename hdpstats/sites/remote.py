"""A site in another process or on another machine, behind HTTPS."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import Any, Self, final

import pandas as pd

from hdpstats._base import canonical
from hdpstats._base.errors import ArgumentError, SiteError
from hdpstats._base.validation import integer
from hdpstats.mechanisms.json_codec import query_from_json, release_from_json
from hdpstats.records.query import LedgerEntry, Query, Release
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.sites.attempts import warn_if_charged_again
from hdpstats.sites.forms import Facts, public_to_dict
from hdpstats.sites.http_client import Certificate, HttpClient, Token, open_client
from hdpstats.sites.quote import Quote
from hdpstats.sites.share import Share
from hdpstats.sites.site import Site
from hdpstats.sites.tables import MOST_PUBLIC
from hdpstats.sites.terms import Terms


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
        The longest time in seconds to wait for an answer.

    Raises
    ------
    ArgumentError
        The URL is not https, a file cannot be read, or the extra ``sites`` is not installed.
    SiteError
        The site cannot be reached, or refuses; where it is not the site that ``ca`` vouches for, nothing was sent.
    """
    wire = open_client(url, token=token, ca=ca, cert=cert, timeout=timeout)
    try:
        return RemoteSite(wire)
    except BaseException:
        wire.close()
        raise


@final
class RemoteSite(Site):
    """Private rows that another process holds. Made by `connect`.

    What crosses are queries, releases, public rows and public facts. The same query again costs nothing, so a call
    that was cut off may be repeated.
    """

    def __init__(self, wire: HttpClient) -> None:
        self._wire = wire
        self._public: dict[str, PublicTable] = {}
        answer = self._wire.ask("GET", "/v1/facts")
        with _reading():
            self._facts = Facts.from_dict(answer["facts"])
            self._analyst = str(answer["analyst"])
            self._permissions = {name: _listed(names) for name, names in answer["permissions"].items()}

    @property
    def address(self) -> str:
        """The URL of the custodian's service."""
        return self._wire.address

    @property
    def schema(self) -> Schema:
        """The custodian's schema, as it was when the connection was made."""
        return self._facts.schema

    @property
    def records(self) -> int:
        """The public number of people; see `Site.records`."""
        return self._facts.records

    @property
    def terms(self) -> Terms:
        """Who is protected; see `Site.terms`."""
        return self._facts.terms

    @property
    def facts(self) -> Facts:
        """All public facts about the site."""
        return self._facts

    @property
    def analyst(self) -> str:
        """Who the site takes you for."""
        return self._analyst

    @property
    def permissions(self) -> Mapping[str, tuple[str, ...] | None]:
        """The mechanisms, models and columns that you may ask for; None where all are."""
        return dict(self._permissions)

    def quote(self, query: Query) -> Quote:
        """Return what a query would read and cost; nothing is charged."""
        fields = self._wire.ask("POST", "/v1/cost", _canonical(query))
        with _reading():
            return Quote.from_dict(fields)

    def account(self) -> Share:
        """Return your own part of the site's ledger."""
        fields = self._wire.ask("GET", "/v1/ledger")
        with _reading():
            return Share.from_dict(fields)

    def dummy(self, rows: int = 100, *, seed: int = 0) -> pd.DataFrame:
        """Return invented rows that the site draws from its schema alone, to try code with before money is spent.

        They have the declared columns (and that of the unit), every value equally likely: nothing about the people.
        """
        count = integer(rows, name="rows", lower=1, upper=10_000)
        number = integer(seed, name="seed", lower=0, upper=10**9)
        fields = self._wire.ask("GET", f"/v1/dummy?rows={count}&seed={number}")
        with _reading():
            return pd.DataFrame({str(name): listed for name, listed in fields["columns"].items()})

    def put_public(self, table: PublicTable) -> None:
        """Hand over public rows for later queries; see `Site.put_public`."""
        if not isinstance(table, PublicTable):
            raise ArgumentError("table must be a public table, as study.public is", argument="table")
        if table.schema.sha256 != self.schema.sha256:
            raise SiteError("the public rows were checked against another schema than this site's")
        if table.sha256 in self._public:
            return
        self._wire.ask("PUT", "/v1/public", canonical.dumps(public_to_dict(table)))
        self._public = dict([*self._public.items(), (table.sha256, table)][-MOST_PUBLIC:])

    def answer(self, query: Query) -> Release:
        """Answer a query; see `Site.answer`.

        Public rows that were handed over and that the site no longer has (it was started anew, or you handed over
        others) are sent once more.
        """
        asked = _canonical(query)
        try:
            fields = self._wire.ask("POST", "/v1/answer", asked)
        except SiteError as error:
            table = self._public.pop(query.public_sha256 or "", None)
            if table is None or error.facts.get("code") != "site":
                raise
            self.put_public(table)
            fields = self._wire.ask("POST", "/v1/answer", asked)
        with _reading():
            entry = LedgerEntry.from_dict(fields["entry"])
            release = release_from_json(fields["release"]).at(entry)
        warn_if_charged_again(entry)
        return release

    def close(self) -> None:
        """Close the connections."""
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        facts = self._facts
        return (
            f"<remote site: {self._wire.address}, data set {facts.dataset!r}, {len(facts.schema)} declared columns; "
            f"{facts.terms}>"
        )


def _canonical(query: Query) -> str:
    """Return the text of a query as its reader would write it, which is the only one that sites read."""
    return query_from_json(query.to_json()).to_json()


def _listed(names: Any) -> tuple[str, ...] | None:
    return None if names is None else tuple(str(name) for name in names)


@contextmanager
def _reading() -> Iterator[None]:
    """Take what a site sent and hdpstats cannot read for the site's mistake, a `SiteError`."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError):
        raise SiteError("the site's response cannot be read; do versions of hdpstats differ?") from None
