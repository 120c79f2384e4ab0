"""``site.yaml``: everything a custodian decides about a site, in one file.

::

    format: hdpstats site
    version: 1
    data: rotterdam.parquet            # or .csv, or rows: a database; paths are relative to this file
    schema: dictionary.yaml
    persons: {row_order: arbitrary}    # where it is so: the order of rows was not made from their values
    ledger: {place: ledger.db, dataset: rotterdam}    # `hdpstats ledger open` makes it, with its total
    heads: {file: /srv/other-disk/rotterdam.head}     # `hdpstats site note` writes it first
    state: /var/lib/hdpstats                          # what the service itself writes
    disclosure: {curators: [Erasmus MC], purpose: research, region: Netherlands}    # what forms say besides
    listen: {host: 127.0.0.1, port: 8443}
    tls: {certificate: site.pem, key: site.key, clients: analysts-ca.pem}
    tokens: {audience: rotterdam, key: tokens.pub}
    analysts:
      ann: {mechanisms: [objective], models: [regression], columns: [age, event3], epsilon: 1}
      bob: {mechanisms: all, models: all, epsilon: 2, delta: 1e-6}
    health: {host: 127.0.0.1, port: 9443}             # without a token: alive, ready, metrics of public facts
    log: {file: /var/log/hdpstats/site.log}           # which may be rotated; else standard error
    acknowledged: {undeclared_levels: [size], missing_share: {nodes: 0.3}, cut_share: {age: 0.5}}  # site check --rows

Instead of ``data`` a database may be named: ``rows: {url: 'postgresql://…', sql: 'SELECT … ORDER BY …'}``, see
`hdpstats.custodian.queried_rows`.

What may be left out: ``health`` and ``log``; ``heads``, ``persons``, ``acknowledged``, ``limits`` and ``timing``, whose
entries are those of
`Heads`, `Acknowledged`, `Limits` and `Timing`; ``disclosure``, whose entries are those of
`hdpstats.ledger.Statements`; ``signing: {key: FILE}``, without which releases are not signed; ``requests``, whose
entries are those of `Requests`; and ``state``. Where requests come as files only, ``listen``, ``tls`` and ``tokens``
are left out, all three.

**What the service writes.** The settings, and all that they name but the ledger and its heads, are read only: they may
be root's. What the service writes besides is in the folder ``state``: how many answers of each analyst took longer than
predicted (``site.overruns.db`` for ``site.yaml``), and the hash of the rows (``site.cells.json``, and its key
``site.cells.key`` where the ledger is in a database), who approved which request file (``site.approvals.jsonl``),
what each was charged (``site.request-costs.jsonl``), which ended processes (``site.ends.json``), which wait in a
watched folder (``site.waiting.json``), and which file of each such folder was read last (``site.turns.json``).
Without ``state`` it is the folder that systemd makes for the service (``StateDirectory=``, which sets
``STATE_DIRECTORY``), and where there is none, the folder of the settings. What was kept beside the settings
before is moved from there when the service starts.
"""

import ipaddress
import os
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, Self, final

from pydantic import BeforeValidator, Field, InstanceOf, PrivateAttr, ValidationInfo, model_validator

from hdpstats._base.errors import ArgumentError
from hdpstats.custodian.files import check_file
from hdpstats.custodian.permissions import Permissions
from hdpstats.custodian.queried_rows import QueriedRows
from hdpstats.custodian.settings_sections import (
    Amount,
    File,
    Name,
    Section,
    Text,
    existing,
    in_folder,
    read_yaml,
    trusted,
    with_password,
)
from hdpstats.ledger.disclosure import Statements
from hdpstats.ledger.location import password_in
from hdpstats.ledger.records import checked_sha256
from hdpstats.schema.parquet import files_of
from hdpstats.schema.schema import Schema

Sha256 = Annotated[str, BeforeValidator(lambda value: checked_sha256(value, name="it"))]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Count = Annotated[int, Field(ge=1, le=10**12)]
CountOrNone = Annotated[int, Field(ge=0, le=10**15)]


def _statements(value: Any) -> Statements:
    """Return the statements for forms."""
    try:
        return Statements.read(value)
    except ArgumentError as error:
        raise ValueError(str(error).removeprefix("statements: ").removeprefix("statements ")) from None


def _place(value: object, info: ValidationInfo) -> str | Path:
    """Return a database URL, with its password, or a file that need not exist."""
    if isinstance(value, str) and "://" in value:
        return with_password(value, info.data.get("password_variable"))
    return in_folder(value, info)


def _data(value: object, info: ValidationInfo) -> Path:
    """Return a file, or a folder of Parquet files."""
    path = in_folder(value, info)
    if not os.path.isdir(path):  # False where nobody gets as far: `existing` says so
        return existing(value, info)
    files_of(path, name="data")
    return path


def _loopback(value: object) -> object:
    """Return an address that only this machine reaches."""
    try:
        local = ipaddress.ip_address(str(value)).is_loopback
    except ValueError:
        local = False
    if not local:
        raise ValueError("must be 127.0.0.1 or ::1: what is said there needs no token, and is for this machine alone")
    return value


def _files(value: object, info: ValidationInfo) -> tuple[Path, ...]:
    """Return the files of a name, or of a list of them."""
    listed = value if isinstance(value, list) else [value]
    if not listed:
        raise ValueError("must name a file, or a list of files")
    return tuple(existing(each, info) for each in listed)


def _url(value: object, info: ValidationInfo) -> str:
    if not (isinstance(value, str) and "://" in value):
        raise ValueError("must be a URL, such as postgresql://…")
    return with_password(value, info.data.get("password_variable"))


def _dictionary(value: object, info: ValidationInfo) -> Schema:
    return Schema.from_yaml(trusted(value, info, name="schema"))


def _check_declared(columns: Collection[str], schema: Schema, *, name: str) -> None:
    strange = sorted(set(columns) - set(schema))
    if strange:
        raise ValueError(f"{name} must be declared columns; unknown: {', '.join(map(repr, strange))}")


@final
class Listen(Section):
    """The address that a site listens at; port 0 takes one that is free."""

    host: Annotated[Text, Field(max_length=255)]
    port: Annotated[int, Field(ge=0, le=65535)]


@final
class Tls(Section):
    """The site's certificate and key, and the authority that clients' certificates must come from: files in PEM.

    With ``crl``, the authority's list of the certificates that it took back, which is read again when its file changes;
    nobody gets in with one of them, nor with any once the list has expired. ``passphrase`` is a file whose first line
    is the passphrase of an encrypted key: it is read when the service starts, or reads its settings again, and nobody
    is ever asked for it.
    """

    certificate: File
    key: File
    passphrase: File | None = None
    clients: File
    crl: File | None = None


@final
class Health(Section):
    """A local address at which anybody on this machine may ask whether the site is well (`hdpstats.custodian.health`).

    The host is one of this machine's own addresses that nobody outside reaches: ``127.0.0.1`` or ``::1``. Port 0 takes
    one that is free.
    """

    host: Annotated[Text, BeforeValidator(_loopback)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)]


@final
class Log(Section):
    """Where the log goes: standard error, or a file, which is opened anew when somebody moved it (rotation)."""

    file: Annotated[Path | None, BeforeValidator(in_folder)] = None


@final
class Signing(Section):
    """The key that releases are signed with: a file of `hdpstats site signing-key`, read when the service starts.

    Without it releases have no signature (`hdpstats.ledger.signing`).
    """

    key: File | None = None


@final
class Requests(Section):
    """How requests that come as files are answered (`hdpstats.custodian.answering`).

    Attributes
    ----------
    approval : {"none", "required"}
        Whether somebody must approve each request, by name, before anything is charged for it. It says nothing of the
        service over a network, which answers whoever has a token.
    keys : mapping of str to tuple of Path
        By analyst the public keys that requests are signed with: a file of `hdpstats site signing-key`, or a list.
    unsigned : {"refused", "admitted"}
        Whether requests without a signature are answered, of analysts without a key; the custodian then says who sent
        each.
    """

    approval: Literal["none", "required"] = "none"
    keys: dict[Name, Annotated[tuple[Path, ...], BeforeValidator(_files)]] = Field(default_factory=dict)
    unsigned: Literal["refused", "admitted"] = "refused"


@final
class Heads(Section):
    """Where the head of the ledger is kept as well (`hdpstats.custodian.kept_head`).

    Attributes
    ----------
    file, database : Path, str, each or None
        A file, on another disk than the ledger's, and the URL of a database, another one than the ledger's; both are
        rewritten after every charge and release.
    head, entries : str or None, int
        A head that the custodian noted, and the number of its entry: exactly as many as the ledger had then.
    """

    password_variable: Name | None = None
    file: Annotated[Path | None, BeforeValidator(in_folder)] = None
    database: Annotated[str | None, BeforeValidator(_url)] = None
    head: Sha256 | None = None
    entries: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.model_fields_set and not self.model_fields_set & {"file", "database", "head"}:
            raise ValueError("must name a file, a database, or a head and its entries")
        if (self.head is None) != (self.entries == 0):
            raise ValueError("must have head and entries together, as the log has them")
        return self


@final
class LedgerPart(Section):
    """The part of an account that is set aside for Gaussian releases."""

    epsilon: Amount
    delta: Amount = Fraction(0)


@final
class LedgerEntries(Section):
    """Where the account is, and which terms it must have.

    Attributes
    ----------
    place : str or Path
        A file, or the URL of a database, with the password of ``password_variable``.
    dataset, version, same_people_as
        As in `hdpstats.ledger.Ledger`.
    epsilon, delta, gaussian, relation
        Terms that must be the account's own; what is left out is not compared.
    """

    password_variable: Name | None = None
    place: Annotated[str | Path, BeforeValidator(_place)]
    dataset: Name
    version: Annotated[int, Field(ge=1)] = 1
    same_people_as: Name | None = None
    epsilon: Amount | None = None
    delta: Amount | None = None
    gaussian: LedgerPart | None = None
    relation: Name | None = None


@final
class Persons(Section):
    """What `hdpstats.sites.LocalSite` is given about people, which checks it."""

    unit: Any = None
    max_rows_per_unit: Any = None
    n_max: Any = None
    row_order: Any = None


@final
class Acknowledged(Section):
    """What the custodian has seen in the rows and serves all the same (`hdpstats.custodian.serving`).

    Attributes
    ----------
    undeclared_levels : list of str
        Columns that may hold labels which the schema does not declare, or, where binary, cells that are neither value.
    missing_share, cut_share : mapping of str to float, each
        By column, the largest share of cells without a value (of others `MOST_MISSING`, and 0 where the schema declares
        ``complete: true``), and of cells cut at the bounds (of others `MOST_CUT`).
    """

    undeclared_levels: list[Name] = Field(default_factory=list)
    missing_share: dict[Name, Share] = Field(default_factory=dict)
    cut_share: dict[Name, Share] = Field(default_factory=dict)


@final
class Identities(Section):
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

    audience: Text
    key: File | None = None
    issuer: Text | None = None
    jwks: Text | None = None
    ca: File | None = None
    claim: Text = "sub"
    bound: bool = True

    @model_validator(mode="after")
    def _either(self) -> Self:
        if (self.key is None) == (self.issuer is None) or (self.key is not None and self.jwks is not None):
            raise ValueError("must have either a key, or an issuer (and jwks, the URL of its keys, where it has none)")
        name = "issuer" if self.jwks is None else "jwks"
        if self.key is None and not str(getattr(self, name)).startswith("https://"):
            raise ValueError(f"{name} must begin with 'https://'")
        return self


@final
class Limits(Section):
    """What clients can take of a site; ``…_each`` is for one analyst, so that nobody takes what others need.

    Attributes
    ----------
    query, public : int
        Longest bodies in bytes, of queries and of public rows. While a query is read, all answers wait: 80 milliseconds
        at most for 1 MB.
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
    analysis : float
        Seconds of a processor that the analysis of a request file may take at the site
        (`hdpstats.custodian.analysis_time`).
    handshakes, handshakes_each : int
        Connections at once that have not finished their TLS handshake; the second is for one address (of IPv6: one
        network of 64 bits). Further ones are closed.
    drain : float
        Seconds that requests under way have when the service is told to end. An answer that leaves later is lost: it
        stays charged, and the same query is charged once more afterwards. So it should be as long as the longest slot.
    """

    query: Count = 1_000_000
    public: Count = 16_000_000
    kept_each: Count = 256_000_000
    bytes: Count = 256_000_000
    bytes_each: Count = 64_000_000
    requests_each: Count = 64
    charges_each: CountOrNone = 10_000
    stored_each: CountOrNone = 1_000_000_000
    seconds: Annotated[float, Field(ge=0.1, le=3600.0)] = 15.0
    computing: Count = 2
    computing_each: Count = 1
    connections: Annotated[int, Field(ge=2, le=100_000)] = 512
    connections_each: Count = 64
    handshakes: Count = 256
    handshakes_each: Count = 64
    drain: Annotated[float, Field(ge=0.0, le=7 * 86400.0)] = 90.0
    analysis: Annotated[float, Field(ge=0.1, le=7 * 86400.0)] = 600.0

    @model_validator(mode="after")
    def _arrive(self) -> Self:
        if not max(self.query, self.public) <= self.bytes_each <= self.bytes:
            raise ValueError("must have query and public at most bytes_each, and that at most bytes: none could arrive")
        return self


@final
class Timing(Section):
    """When answers leave, so that no time depends on private rows (`hdpstats.custodian.timing`).

    Attributes
    ----------
    grid : float
        Seconds: slots are multiples of it. A new answer takes steps more for its charge, and for its record.
    factor : float
        By how much the slot of an answer is longer than its computation was predicted to take on a quiet machine, for
        other computations at the same time.
    longest : float
        Seconds: a query whose slot is longer is refused before it is charged. Later queries of a request file may take
        twice that: how long they take rests on what was released.
    overruns : int
        After so many answers of an analyst that took longer than their slot he is stopped, until the custodian acts.
    requests : int
        Requests per minute of one analyst.
    """

    grid: Annotated[float, Field(ge=0.001, le=60.0)] = 0.05
    factor: Annotated[float, Field(ge=1.0, le=1000.0)] = 3.0
    longest: Annotated[float, Field(ge=0.001, le=7 * 86400.0)] = 600.0
    overruns: Count = 3
    requests: Count = 60


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceEntries:
    """The sections that a service over a network needs, and a site that is asked by files does not."""

    listen: Listen
    tls: Tls
    identities: Identities


@final
class SiteSettings(Section):
    """A site as its custodian declares it.

    Attributes
    ----------
    data : Path or None
        Files of private rows, one of Parquet or CSV, or a folder of Parquet files (``*.parquet``), one after another by
        their names.
    rows : QueriedRows or None
        A database and a query, instead of ``data``.
    dictionary : Schema
        The data dictionary, ``schema`` in the file.
    ledger : LedgerEntries
        Where the account is, which must exist, and the data set's name in it; terms, as `hdpstats.ledger.Ledger` has
        them, must be the account's own. The password of a database is in the environment variable that
        ``password_variable`` names, or where PostgreSQL's own library looks for it.
    heads : Heads
        Where its head is kept as well.
    state : Path or None
        The folder of what the service writes; see the module.
    persons : Persons
        ``unit``, ``max_rows_per_unit``, ``n_max`` and ``row_order`` as in `hdpstats.sites.LocalSite`, where they apply.
    acknowledged : Acknowledged
        What was seen in the rows and is served all the same.
    disclosure : Statements
        What only the custodian knows, for the forms that `hdpstats site disclosure` fills in.
    signing : Signing
        The key that releases are signed with.
    requests : Requests
        How request files are answered.
    health : Health or None
        Where to ask whether the site is well, without a token.
    log : Log
        Where the log goes.
    listen : Listen or None
        Where to listen. This, ``tls`` and ``tokens`` are left out where requests come as files only.
    tls : Tls or None
        Certificates.
    identities : Identities or None
        Whose ``tokens``.
    analysts : mapping of str to Permissions
        Who may ask for what, and receive how much in all, under the total: everybody has such a cap, or nobody. Nobody
        else may ask for anything.
    limits : Limits
        What one client can take.
    timing : Timing
        When answers leave.
    """

    format: Literal["hdpstats site"]
    version: Literal[1]
    data: Annotated[Path | None, BeforeValidator(_data)] = None
    rows: QueriedRows | None = None
    dictionary: Annotated[InstanceOf[Schema], BeforeValidator(_dictionary)] = Field(alias="schema")
    ledger: LedgerEntries
    listen: Listen | None = None
    tls: Tls | None = None
    identities: Identities | None = Field(alias="tokens", default=None)
    analysts: dict[Annotated[str, Field(min_length=1, max_length=100)], Permissions]
    heads: Heads = Heads()
    state: Annotated[Path | None, BeforeValidator(in_folder)] = None
    persons: Persons = Persons()
    acknowledged: Acknowledged = Acknowledged()
    disclosure: Annotated[InstanceOf[Statements], BeforeValidator(_statements)] = Statements()
    signing: Signing = Signing()
    health: Health | None = None
    log: Log = Log()
    requests: Requests = Requests()
    limits: Limits = Limits()
    timing: Timing = Timing()
    _file: Path = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Note where the settings are."""
        self._file = Path(context).absolute()

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if (self.data is None) == (self.rows is None):
            raise ValueError("either data must name files of the private rows, or rows a database and a query")
        for name, permissions in self.analysts.items():
            _check_declared(permissions.columns or (), self.dictionary, name=f"analysts: {name}: columns")
        unknown = sorted(set(self.requests.keys) - set(self.analysts))
        if unknown:
            raise ValueError(f"requests: keys must be of analysts; unknown: {', '.join(map(repr, unknown))}")
        for entry in Acknowledged.model_fields:
            _check_declared(getattr(self.acknowledged, entry), self.dictionary, name=f"acknowledged: {entry}")
        missing = [name for name, part in self._served().items() if part is None]
        if 0 < len(missing) < len(self._served()):
            raise ValueError(
                f"{', '.join(missing)} is missing: listen, tls and tokens are for the service over a network; give all "
                "three, or none where requests come as files only"
            )
        without = [name for name, permissions in self.analysts.items() if permissions.cap is None]
        if without and len(without) < len(self.analysts):
            raise ValueError(
                f"analysts: either each has an epsilon, a cap, or none has; without one is {', '.join(sorted(without))}"
            )
        return self

    @classmethod
    def from_yaml(cls, path: str | PathLike[str]) -> Self:
        """Read a settings file.

        Raises
        ------
        ArgumentError, SchemaError
            An entry is missing, unknown or of the wrong type; a file that it names does not exist.
        """
        place = Path(path)
        entries = read_yaml(place)
        settings = cls.read(entries, name="the settings", file=place)
        urls = [entries["ledger"]["place"], entries.get("heads", {}).get("database", "")]
        urls += [entries["rows"]["url"]] if settings.rows is not None else []
        check_file(place, name="settings", private=any(password_in(str(url)) for url in urls))
        return settings

    @property
    def file(self) -> Path:
        """The file that the settings were read from, by the name that was given for it."""
        return self._file

    def _served(self) -> dict[str, Section | None]:
        return {"listen": self.listen, "tls": self.tls, "tokens": self.identities}

    @property
    def serves(self) -> bool:
        """Whether there is a service over a network."""
        return self.listen is not None

    @property
    def service(self) -> ServiceEntries:
        """What the service needs.

        Raises
        ------
        ArgumentError
            The settings are those of a site that is asked by files only.
        """
        if self.listen is None or self.tls is None or self.identities is None:
            raise ArgumentError(
                "listen, tls and tokens are not in the settings, which are those of a site that is asked by files "
                "(hdpstats site answer): write them to serve it over a network",
                argument="listen",
            )
        return ServiceEntries(listen=self.listen, tls=self.tls, identities=self.identities)

    @property
    def overruns(self) -> Path:
        """The file that counts answers that took longer than predicted."""
        return self._kept(".overruns.db")

    @property
    def cells(self) -> Path:
        """The file with keyed hashes of the rows by version of the data set."""
        return self._kept(".cells.json")

    @property
    def approvals(self) -> Path:
        """The file that says who approved which request, and when."""
        return self._kept(".approvals.jsonl")

    @property
    def request_costs(self) -> Path:
        """The file that says what each request file was charged."""
        return self._kept(".request-costs.jsonl")

    @property
    def waiting(self) -> Path:
        """The file that says which requests a watched folder waited with at its last look, and why."""
        return self._kept(".waiting.json")

    @property
    def turns(self) -> Path:
        """The file that says which file of each watched folder was read last."""
        return self._kept(".turns.json")

    @property
    def ends(self) -> Path:
        """The file that says how often processes ended while they answered each request file."""
        return self._kept(".ends.json")

    @property
    def answering(self) -> Path:
        """The file that a process locks while it answers a request file."""
        return self._kept(".answering.lock")

    @property
    def carried_log(self) -> Path:
        """The log of requests that a carrier brings (`hdpstats.engines`)."""
        return self._kept(".carried.log")

    @property
    def beside(self) -> tuple[tuple[Path, Path], ...]:
        """Where each file of the state was kept before, beside the settings, and where it is kept now."""
        ends = (".overruns.db", ".cells.key", ".cells.json")  # no hash comes without its key
        return tuple((self._file.resolve().with_suffix(end), self._kept(end)) for end in ends)

    def _kept(self, end: str) -> Path:
        given = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
        folder = self.state or (Path(given) if given else self._file.resolve().parent)
        return folder / self._file.resolve().with_suffix(end).name

    def needs_restart(self, other: "SiteSettings") -> tuple[str, ...]:
        """Return the entries in which other settings differ, and which are read once, by their names in a file.

        Analysts, certificates and whose tokens are accepted may change while a service runs.
        """
        changing = {"analysts", "tls", "identities", "disclosure", "requests"}
        fields = [
            (name, field.alias or name) for name, field in type(self).model_fields.items() if name not in changing
        ]
        changed = [shown for name, shown in fields if getattr(self, name) != getattr(other, name)]
        return tuple(changed) if changed or self.cells == other.cells else ("state",)
