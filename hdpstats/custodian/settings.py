"""``site.yaml``: everything a custodian decides about a site, in one file.

::

    format: hdpstats site
    version: 1
    data: rotterdam.parquet            # or .csv; paths are relative to this file
    schema: dictionary.yaml
    persons: {row_order: arbitrary}    # where it is so: the order of rows was not made from their values
    ledger: {place: ledger.db, dataset: rotterdam}    # `hdpstats ledger open` makes it, with its total
    heads: {file: /srv/other-disk/rotterdam.head}     # `hdpstats site note` writes it first
    listen: {host: 127.0.0.1, port: 8443}
    tls: {certificate: site.pem, key: site.key, clients: analysts-ca.pem}
    tokens: {audience: rotterdam, key: tokens.pub}
    analysts:
      ann: {mechanisms: [objective], models: [regression], columns: [age, event3], epsilon: 1}
      bob: {mechanisms: all, models: all, epsilon: 2, delta: 1e-6}

    acknowledged: {undeclared_levels: [size], missing_share: {nodes: 0.3}}    # after `hdpstats site check --rows`

What may be left out: ``heads``, ``persons``, ``acknowledged``, ``limits`` and ``timing``, whose entries are those of
`Heads`, `Acknowledged`, `Limits` and `Timing`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, final

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import integer, text
from hdpstats.custodian import reading
from hdpstats.custodian.permissions import Permissions
from hdpstats.custodian.reading import known, section
from hdpstats.ledger.location import password_in
from hdpstats.ledger.records import checked_sha256
from hdpstats.privacy.budget import Budget
from hdpstats.schema.schema import Schema

FORMAT = "hdpstats site"
VERSION = 1
_NEEDED = {"format", "version", "data", "schema", "ledger", "listen", "tls", "tokens", "analysts"}
_OPTIONAL = {"heads", "persons", "acknowledged", "limits", "timing"}
_LEDGER = {"version", "epsilon", "delta", "gaussian", "relation", "same_people_as", "password_variable"}


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Tls:
    """The site's certificate and key, and the authority that clients' certificates must come from: files in PEM.

    With ``crl``, the authority's list of the certificates that it took back, which is read again when its file changes;
    nobody gets in with one of them, nor with any once the list has expired.
    """

    certificate: Path
    key: Path
    clients: Path
    crl: Path | None = None


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Heads:
    """Where the head of the ledger is kept as well (`hdpstats.custodian.heads`).

    Attributes
    ----------
    file, database : Path, str, each or None
        A file, on another disk than the ledger's, and the URL of a database, another one than the ledger's; both are
        rewritten after every charge and release.
    head, entries : str or None, int
        A head that the custodian noted, and the number of entries at that time.
    """

    file: Path | None = None
    database: str | None = None
    head: str | None = None
    entries: int = 0


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Acknowledged:
    """What the custodian has seen in the rows and serves all the same (`hdpstats.custodian.curation`).

    Attributes
    ----------
    undeclared_levels : set of str
        Columns that may hold labels which the schema does not declare.
    missing_share : mapping of str to float
        The largest share of cells without a value, by column; that of others is `MOST_MISSING`, and 0 where the schema
        declares ``complete: true``.
    """

    undeclared_levels: frozenset[str] = frozenset()
    missing_share: Mapping[str, float] = field(default_factory=dict)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Identities:
    """Whose tokens a site accepts.

    Attributes
    ----------
    audience : str
        The site's own name in tokens: one for another site is refused.
    key : Path or None
        The public key (PEM) of tokens that `hdpstats site token` made.
    issuer, jwks, ca : str, str, Path, each or None
        An OpenID Connect issuer; the URL of its keys, where it is not to be asked for it; and the authority that the
        issuer's certificate comes from.
    claim : str
        The claim that names the analyst. Where it is ``email``, ``email_verified`` must be true.
    bound : bool
        Whether a token must name the client certificate that it is used with (RFC 8705), as by default; where it names
        one, that is always checked.
    """

    audience: str
    key: Path | None = None
    issuer: str | None = None
    jwks: str | None = None
    ca: Path | None = None
    claim: str = "sub"
    bound: bool = True


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What clients can take of a site; ``…_each`` is for one analyst, so that nobody takes what others need.

    Attributes
    ----------
    query, public : int
        Longest bodies in bytes, of queries and of public rows.
    kept_each : int
        Bytes of memory for the public rows that the site keeps of one analyst: the latest tables.
    bytes, bytes_each : int
        Bytes of bodies under way at once, and of responses that were not read yet.
    requests_each : int
        Requests under way at once.
    charges_each, stored_each : int
        Charges that one analyst may cause in the ledger, and bytes of requests and releases that it may store for him,
        in all (`hdpstats.ledger.Ledger.limit`).
    seconds : float
        How long the head of a request may take to arrive, its body, and a TLS handshake, each; and each megabyte of a
        response to be read.
    computing, computing_each : int
        Answers that are computed at once; others wait.
    connections, connections_each : int
        Connections at once; the second is for one client certificate. Further ones are closed.
    handshakes, handshakes_each : int
        Connections at once that have not finished their TLS handshake; the second is for one address (of IPv6: one
        network of 64 bits). Further ones are closed.
    """

    query: int = 4_000_000
    public: int = 16_000_000
    kept_each: int = 256_000_000
    bytes: int = 256_000_000
    bytes_each: int = 64_000_000
    requests_each: int = 64
    charges_each: int = 10_000
    stored_each: int = 1_000_000_000
    seconds: float = 15.0
    computing: int = 2
    computing_each: int = 1
    connections: int = 512
    connections_each: int = 64
    handshakes: int = 256
    handshakes_each: int = 64


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """When answers leave, so that no time depends on private rows (`hdpstats.custodian.slots`).

    Attributes
    ----------
    grid : float
        Seconds: answers leave at multiples of it, one at least.
    factor : float
        By how much the slot of an answer is longer than its computation was predicted to take on a quiet machine, for
        other computations at the same time.
    longest : float
        Seconds: a query whose slot is longer is refused before it is charged.
    overruns : int
        After so many answers of an analyst that took longer than their slot he is stopped, until the custodian acts.
    requests : int
        Requests per minute of one analyst.
    """

    grid: float = 0.05
    factor: float = 3.0
    longest: float = 600.0
    overruns: int = 3
    requests: int = 60


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SiteSettings:
    """A site as its custodian declares it.

    Attributes
    ----------
    data : Path
        The private rows: Parquet, or CSV.
    schema : Schema
        The data dictionary.
    ledger : mapping
        Where the account is, which must exist, and the data set's name in it; terms, as `hdpstats.ledger.Ledger` has
        them, must be the account's own. The password of a database is in the environment variable that
        ``password_variable`` names, or where PostgreSQL's own library looks for it.
    heads : Heads
        Where its head is kept as well.
    persons : mapping
        ``unit``, ``max_rows_per_unit``, ``n_max`` and ``row_order`` as in `hdpstats.sites.LocalSite`, where they apply.
    acknowledged : Acknowledged
        What was seen in the rows and is served all the same.
    host, port : str, int
        Where to listen.
    tls : Tls
        Certificates.
    identities : Identities
        Tokens.
    analysts : mapping of str to Permissions
        Who may ask for what; nobody else may ask for anything.
    caps : mapping of str to Budget
        What each of them may receive in all, under the total: everybody has a cap, or nobody.
    limits : Limits
        What one client can take.
    timing : Timing
        When answers leave.
    overruns : Path
        The file that counts answers that took longer than predicted, beside the settings.
    cells : Path
        The file with keyed hashes of the rows by version of the data set, beside the settings.
    """

    data: Path
    schema: Schema
    ledger: Mapping[str, Any]
    heads: Heads
    persons: Mapping[str, Any]
    acknowledged: Acknowledged
    host: str
    port: int
    tls: Tls
    identities: Identities
    analysts: Mapping[str, Permissions]
    caps: Mapping[str, Budget]
    limits: Limits
    timing: Timing
    overruns: Path
    cells: Path

    @classmethod
    def from_yaml(cls, path: str | PathLike[str]) -> "SiteSettings":
        """Read a settings file.

        Raises
        ------
        ArgumentError, SchemaError
            An entry is missing, unknown or of the wrong type; a file that it names does not exist.
        """
        place = Path(path)
        found = known(reading.read_yaml(place), name="the settings", needed=_NEEDED, allowed=_OPTIONAL)
        if (found["format"], found["version"]) != (FORMAT, VERSION):
            raise ArgumentError(f"the settings must say 'format: {FORMAT}' and 'version: {VERSION}'")
        folder = place.resolve().parent
        schema = Schema.from_yaml(_file(found["schema"], folder, name="schema"))
        listen = known(found["listen"], name="listen", needed={"host", "port"})
        permissions, caps = _analysts(found["analysts"], schema)
        ledger, heads = _ledger(found["ledger"], folder), _heads(found.get("heads", {}), folder)
        reading.check_trusted(place, name="settings")
        databases = (found["ledger"]["place"], found.get("heads", {}).get("database", ""))
        if any(password_in(str(each)) for each in databases):
            reading.check_secret(place, name="settings")
        return cls(
            data=_file(found["data"], folder, name="data"),
            schema=schema,
            ledger=ledger,
            heads=heads,
            persons=known(
                found.get("persons", {}),
                name="persons",
                allowed={"unit", "max_rows_per_unit", "n_max", "row_order"},
            ),
            acknowledged=_acknowledged(found.get("acknowledged", {}), schema),
            host=text(listen["host"], name="host", longest=255),
            port=integer(listen["port"], name="port", lower=0, upper=65535),
            tls=_tls(found["tls"], folder),
            identities=_identities(found["tokens"], folder),
            analysts=permissions,
            caps=caps,
            limits=_limits(found.get("limits", {})),
            timing=Timing(**reading.numbers(found.get("timing", {}), _TIMING, name="timing")),
            overruns=place.resolve().with_suffix(".overruns.db"),
            cells=place.resolve().with_suffix(".cells.json"),
        )


def _file(value: object, folder: Path, *, name: str) -> Path:
    path = folder / text(value, name=name, longest=4000)
    if not path.is_file():
        raise ArgumentError(f"{name} must be a file; there is none at {path}", argument=name)
    return path


def _analysts(entries: object, schema: Schema) -> tuple[dict[str, Permissions], dict[str, Budget]]:
    permissions: dict[str, Permissions] = {}
    caps: dict[str, Budget] = {}
    for name, declared in section(entries, name="analysts").items():
        analyst, label = text(name, name="an analyst", longest=100), f"the entries of {name!r}"
        found = section(declared, name=label)
        cap = {key: found.pop(key) for key in ("epsilon", "delta") if key in found}
        permissions[analyst] = Permissions.from_dict(found, name=label, declared=schema.keys())
        if cap:
            caps[analyst] = reading.budget(cap, name=f"the cap of {name!r}")
    if caps and set(caps) != set(permissions):
        missing = ", ".join(sorted(set(permissions) - set(caps)))
        message = f"analysts: either each has an epsilon, a cap, or none has; without one is {missing}"
        raise ArgumentError(message, argument="analysts")
    return permissions, caps


def _ledger(entries: object, folder: Path) -> dict[str, Any]:
    found = known(entries, name="ledger", needed={"place", "dataset"}, allowed=_LEDGER)
    place, variable = text(found["place"], name="place", longest=4000), found.pop("password_variable", None)
    found["place"] = reading.with_password(place, variable, name="ledger") if "://" in place else folder / place
    if "gaussian" in found:
        found["gaussian"] = reading.budget(found["gaussian"], name="gaussian")
    return found | {
        key: reading.amount(found[key], name=f"ledger: {key}") for key in ("epsilon", "delta") if key in found
    }


def _heads(entries: object, folder: Path) -> Heads:
    found = known(entries, name="heads", allowed={"file", "database", "password_variable", "head", "entries"})
    if found and not found.keys() & {"file", "database", "head"}:
        raise ArgumentError("heads must name a file, a database, or a head and its entries", argument="heads")
    if ("head" in found) != ("entries" in found):
        raise ArgumentError("heads: head and entries belong together, as the log has them", argument="heads")
    if "file" in found:
        found["file"] = folder / text(found["file"], name="heads: file", longest=4000)
    variable = found.pop("password_variable", None)
    if "database" in found:
        url = text(found["database"], name="heads: database", longest=4000)
        if "://" not in url:
            raise ArgumentError("heads: database must be a URL, such as postgresql://…", argument="heads")
        found["database"] = reading.with_password(url, variable, name="heads")
    if "head" in found:
        found["head"] = checked_sha256(found["head"], name="heads: head")
        found["entries"] = integer(found["entries"], name="heads: entries", lower=1, upper=2**31 - 1)
    return Heads(**found)


def _acknowledged(entries: object, schema: Schema) -> Acknowledged:
    name = "acknowledged"
    found = known(entries, name=name, allowed={"undeclared_levels", "missing_share"})
    columns = reading.words(found.get("undeclared_levels", []), name=f"{name}: undeclared_levels")
    shares = dict.fromkeys(schema, (0.0, 1.0))
    strange = sorted(set(columns) - set(schema))
    if strange:
        message = f"{name}: undeclared_levels must be declared columns; unknown: {', '.join(map(repr, strange))}"
        raise ArgumentError(message, argument=name)
    return Acknowledged(
        undeclared_levels=frozenset(columns),
        missing_share=reading.numbers(found.get("missing_share", {}), shares, name=f"{name}: missing_share"),
    )


def _tls(entries: object, folder: Path) -> Tls:
    found = known(entries, name="tls", needed={"certificate", "key", "clients"}, allowed={"crl"})
    return Tls(**{name: _file(value, folder, name=name) for name, value in found.items()})


def _identities(entries: object, folder: Path) -> Identities:
    optional = {"key", "issuer", "jwks", "ca", "claim", "bound"}
    found = known(entries, name="tokens", needed={"audience"}, allowed=optional)
    if ("key" in found) == ("issuer" in found) or ("key" in found and "jwks" in found):
        message = "tokens must have either a key, or an issuer (and jwks, the URL of its keys, where it publishes none)"
        raise ArgumentError(message, argument="tokens")
    place = "jwks" if "jwks" in found else "issuer"
    if place in found and not text(found[place], name=place, longest=4000).startswith("https://"):
        raise ArgumentError(f"{place} must begin with 'https://'", argument=place)
    if not isinstance(found.get("bound", False), bool):
        raise ArgumentError("bound must be true or false", argument="bound")
    for name in set(found) - {"bound"}:
        text(found[name], name=name, longest=4000)
    return Identities(
        **found | {name: _file(found[name], folder, name=name) for name in ("key", "ca") if name in found}
    )


_LIMITS = {
    "query": (1000, 10**9),
    "public": (1000, 10**9),
    "kept_each": (1000, 10**12),
    "bytes": (1000, 10**12),
    "bytes_each": (1000, 10**12),
    "requests_each": (1, 10**6),
    "charges_each": (0, 10**9),
    "stored_each": (0, 10**15),
    "computing": (1, 1000),
    "computing_each": (1, 1000),
    "connections": (2, 100_000),
    "connections_each": (1, 100_000),
    "handshakes": (1, 100_000),
    "handshakes_each": (1, 100_000),
    "seconds": (0.1, 3600.0),
}
"""The least and the largest value of each limit; a whole number, unless they are floats."""

_TIMING = {
    "grid": (0.001, 60.0),
    "factor": (1.0, 1000.0),
    "longest": (0.001, 7 * 86400.0),
    "overruns": (1, 10**9),
    "requests": (1, 10**9),
}
"""The same for when answers leave."""


def _limits(entries: object) -> Limits:
    limits = Limits(**reading.numbers(entries, _LIMITS, name="limits"))
    for name in ("query", "public"):
        if getattr(limits, name) > limits.bytes_each or limits.bytes_each > limits.bytes:
            message = f"limits: {name} must be at most bytes_each, and that at most bytes: none could arrive otherwise"
            raise ArgumentError(message, argument="limits")
    return limits
