"""The files of a new site: settings with every key explained, keys and certificates for a trial run, a service's unit.

`write_site` writes a folder that ``hdpstats site serve`` can be started from after two commands. The authority that it
makes signs certificates that expire soon, and its key lies beside them: an institution has an authority of its own. No
file is replaced.

Without rows the site holds invented ones (`hdpstats.schema.schema.Schema.synthetic`), so that everything can be tried
before anything private is on the machine.
"""

import datetime
import grp
import ipaddress
import json
import os
import pwd
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final, final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import integer
from hdpstats.custodian.credentials import write_keys
from hdpstats.ledger import SigningKey
from hdpstats.ledger.location import password_in
from hdpstats.ledger.records import checked_analyst, checked_dataset
from hdpstats.schema.columns import Binary, Categorical, Continuous, Duration
from hdpstats.schema.schema import Schema

INVENTED: Final = 1000
"""How many invented rows a site without data holds."""

SETTINGS: Final = Template("""\
# Settings of a site of hdpstats. What is not listed is denied. A line that begins with "#" and a key is the default:
# take the "#" away to change it. Paths are relative to this file. After a change: hdpstats site check SITE.YAML, then
# SIGHUP (analysts, tls, tokens, disclosure, requests) or a restart (all else; the service says which).
format: hdpstats site
version: 1

# The private rows: a file of Parquet or CSV, or a folder of Parquet files. Its owner's alone (chmod 600).
data: $data
# Instead of data a database and a query of yours, which names its order (ORDER BY).
#rows:
#  url: postgresql://reader@localhost/registry   # or duckdb:///FILE, sqlite:///FILE; without the password
#  password_variable: HDPSTATS_ROWS_PASSWORD     # the environment variable that has it
#  sql: SELECT age, size, event FROM patients ORDER BY patient
# What each column may hold, from the study's protocol, never read from the rows.
schema: $schema

# Who is protected. Left out: each row is a person, the number of rows is public, and rows stand in an order that may
# have been made from their values.
#persons:
#  unit: patient              # the column that names the person, where people have several rows; then also:
#  max_rows_per_unit: 6       # rows of a person that count
#  n_max: 5000                # a number of people that is never exceeded
#  row_order: arbitrary       # where the order of rows was not made from their values

# The account of privacy spent: a file on a local disk or a database. `hdpstats ledger open` makes it, once.
ledger:
  place: $ledger
  dataset: $dataset
#  version: 1                 # raise it when the rows change; what was spent stays spent
#  password_variable: HDPSTATS_LEDGER_PASSWORD    # the environment variable with the password of a database's URL
#  same_people_as: other      # another data set of the ledger with the same people: one account
#  epsilon: 3                 # terms that the account must have; what is left out is not compared
#  delta: 1e-6
#  gaussian: {epsilon: 1, delta: 1e-6}
#  relation: replace_one      # or add_or_remove_one

# Where the number and hash of the ledger's last entry are kept too: on ANOTHER disk, and in other backups than the
# ledger. An older copy of the ledger is noticed by it. `hdpstats site note` writes it first.
heads:
  file: $heads
#  database: postgresql://heads.example/heads     # instead, or besides
#  password_variable: HDPSTATS_HEADS_PASSWORD
#  head: 0000000000000000000000000000000000000000000000000000000000000000    # one that you noted, and its entry
#  entries: 1

# What the service itself writes besides the ledger: counts of late answers, a keyed hash of the rows, approvals.
state: $state

# Where clients connect. It needs tls and tokens. Leave all three out where requests come as files only.
listen:
  host: $host
  port: $port
tls:
  certificate: site.pem       # of the site, from your institution's authority; here from a trial one
  key: site.key
  clients: ca.pem             # the authority that analysts' certificates must come from
#  passphrase: site.passphrase    # a file with the passphrase of the key
#  crl: revoked.pem           # the authority's list of certificates that it took back; read again when it changes
tokens:
  audience: $dataset          # the site's own name in tokens
  key: tokens.pub             # checks tokens of `hdpstats site token --key tokens.key`; or, instead of a key:
#  issuer: https://login.example    # an OpenID Connect issuer
#  jwks: https://login.example/keys # the address of its keys, where the issuer is not to be asked for it
#  ca: issuer-ca.pem          # the authority of the issuer's certificate
#  claim: sub                 # the claim that names the analyst
#  bound: true                # whether a token is good only with the client certificate that it names

# Who may ask for what, and receive how much in all. Mechanisms, models and columns are lists, or the word all.
analysts:
$analysts
#  bob: {mechanisms: [objective], models: [regression], columns: [age], epsilon: 1, delta: 0}

# The key that releases are signed with.
signing:
  key: signing.key
# How request files are answered: hdpstats site answer, hdpstats site watch.
#requests:
#  approval: none             # required: somebody approves each by name before it is charged
#  keys: {}                   # by analyst, files of public keys that requests are signed with
#  unsigned: refused          # admitted: requests without a signature, of analysts without a key

# Without a token, for this machine alone: /live, /ready, /version, /metrics (Prometheus).
health:
  host: 127.0.0.1
  port: $health
# A log file, which may be rotated; else standard error. One line of JSON an event, never a cell.
#log: {file: /var/log/hdpstats/site.log}

# What was seen in the rows and is served all the same: hdpstats site check SITE.YAML --rows says what to write.
#acknowledged:
#  undeclared_levels: []      # columns with labels that the schema does not declare
#  missing_share: {}          # by column, the largest share of empty cells, such as {nodes: 0.3}
#  cut_share: {}              # by column, the largest share of cells cut at the bounds

# What forms say that only you know: hdpstats site disclosure SITE.YAML.
#disclosure:
#  name: null                 # what the releases are called
#  description: null          # what they are
#  purpose: null              # what they are for
#  curators: []               # the institutions that are responsible
#  region: null               # which region the data are from
#  sector: null               # such as Healthcare
#  product: null              # what is published
#  published: null            # when the first release was published, 2026-11-28
#  other_releases: null       # whatever else was published of the same people
#  security: null             # how the rows are protected
#  access: null               # who may ask, who reads the log, who sees the rows
#  minimisation: null         # which columns are held and why, and when rows are deleted
#  updates: null              # whether rows are added or changed later
#  served: null               # whether analysts ask over the network only
#  authors: []                # who filled in the form
#  sources: null              # links to papers

# What one client can take of the site. In all, and ..._each for one analyst.
#limits:
#  query: 1000000             # bytes of a query
#  public: 16000000           # bytes of public rows
#  kept_each: 256000000       # bytes of public rows that are kept of one analyst
#  bytes: 256000000           # bytes under way
#  bytes_each: 64000000
#  requests_each: 64          # requests under way
#  charges_each: 10000        # charges that one analyst may cause in the ledger, in all
#  stored_each: 1000000000    # bytes that the ledger may store for one analyst, in all
#  seconds: 15.0              # how long a head, a body and a handshake may take to arrive
#  computing: 2               # answers that are computed at once
#  computing_each: 1
#  connections: 512           # open connections
#  connections_each: 64
#  handshakes: 256            # connections that have not finished their handshake
#  handshakes_each: 64
#  drain: 90.0                # seconds that requests under way have when the service is told to end
#  analysis: 600.0            # seconds of a processor that the analysis of a request file may take

# When answers leave, so that no time depends on private rows.
#timing:
#  grid: 0.05                 # seconds of a step
#  factor: 3.0                # by how much a slot is longer than predicted
#  longest: 600.0             # seconds; a query with a longer slot is refused (later ones of a request file: twice)
#  overruns: 3                # late answers after which an analyst is stopped (hdpstats site resume)
#  requests: 60               # requests a minute of one analyst
""")

UNIT: Final = Template("""\
# cp $folder/hdpstats.service /etc/systemd/system/ && systemctl enable --now hdpstats
[Unit]
Description=Differentially private statistics of $dataset (hdpstats)
Wants=network-online.target
After=network-online.target $after

[Service]
Type=notify
User=$user
ExecStart=$command site serve $folder/site.yaml
ExecReload=/bin/kill -HUP $$MAINPID
Restart=on-failure
RestartSec=10
# Rows are read before the service listens, however long that takes; it then finishes what is under way
# (limits: drain in the settings) before it ends.
TimeoutStartSec=infinity
TimeoutStopSec=105
# It reads its settings and rows, and writes these folders alone.
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths=$writes
PrivateTmp=yes
PrivateDevices=yes
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictSUIDSGID=yes
LockPersonality=yes
LimitCORE=0
LimitNOFILE=4096
UMask=0077
# Loops over rows are compiled once, into a folder of the service's own.
Environment=NUMBA_CACHE_DIR=$state/compiled OMP_NUM_THREADS=1

[Install]
WantedBy=multi-user.target
""")

CONTAINER: Final = Template("""\
# docker build -f $folder/Containerfile -t hdpstats-site .        (in a clone of hdpstats)
# docker run --read-only --tmpfs /tmp --stop-timeout 105 -p $port:$port --user $uid:$gid \\
#   -v $folder:$folder:ro -v $state:$state -v $heads_folder:$heads_folder hdpstats-site
# The rows are mounted read-only as well, with --volume, where they are not in $folder.
FROM python:3.12-slim
COPY . /src
RUN pip install --no-cache-dir '/src[sites]' && rm -rf /src
ENV NUMBA_CACHE_DIR=$state/compiled OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
USER $uid:$gid
STOPSIGNAL SIGTERM
EXPOSE $port
# Quicker than the command, which loads the whole package; in Kubernetes an exec probe of the same words.
HEALTHCHECK --interval=30s --timeout=15s --start-period=10m CMD ["python", "-c", "$probe"]
CMD ["hdpstats", "site", "serve", "$folder/site.yaml"]
""")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What was written, and the commands that come next; printing it says so."""

    folder: Path
    steps: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        lines = [f"{self.folder} has the files of a site. Read site.yaml, then:"]
        for command, what in self.steps:
            lines += [f"  # {what}", f"  {command}"]
        return "\n".join(lines)


def write_site(
    folder: str | Path,
    *,
    dataset: str,
    analysts: Sequence[str] = ("ann",),
    data: str | Path | None = None,
    schema: str | Path | None = None,
    ledger: str | None = None,
    heads: str | Path | None = None,
    state: str | Path | None = None,
    host: str = "127.0.0.1",
    port: int = 8443,
    user: str = "hdpstats",
    days: int = 90,
) -> Written:
    """Write the files of a new site into a folder.

    Parameters
    ----------
    folder
        Where settings, keys and certificates go; it is made, for its owner alone, where it does not exist.
    dataset
        The custodian's name for the data.
    analysts
        Who may ask; each gets a certificate and a cap of epsilon = 1, to be changed in the settings.
    data, schema
        The private rows and their dictionary; without both, invented rows of an example's dictionary.
    ledger
        A file or a database URL without a password; ``ledger.db`` in the state's folder by default.
    heads
        The file that keeps the ledger's head, on another disk; in the folder ``heads`` by default.
    state
        The folder that the service writes to; the folder ``state`` by default.
    host, port
        Where the site listens; the port above it is for health.
    user
        The user of the service. Run by root, keys are made readable to its group, and the folders that it writes its,
        unless there was something in them: those are given to it by hand.
    days
        How long the certificates last.

    Raises
    ------
    ArgumentError
        An argument is none, a file exists already, or one cannot be written.
    """
    name, names = checked_dataset(dataset), [checked_analyst(each) for each in analysts]
    place = Path(folder).absolute()
    number = integer(port, name="port", lower=1, upper=65534)
    lasting = integer(days, name="days", lower=1, upper=3650)
    if (data is None) != (schema is None):
        raise ArgumentError(
            "data and schema belong together: a schema is declared from the protocol, never read from the rows; leave "
            "both out for invented rows",
            argument="schema",
        )
    if ledger is not None and password_in(ledger):
        raise ArgumentError("ledger must be a URL without a password: see password_variable", argument="ledger")
    for each in names:
        if not each.isidentifier():
            raise ArgumentError(
                "analyst must be a word of letters and digits: a file has that name", argument="analyst"
            )
    kept = Path(state).absolute() if state is not None else place / "state"
    head = Path(heads).absolute() if heads is not None else place / "heads" / f"{name}.head"
    account = str(kept / "ledger.db") if ledger is None else ledger
    try:
        new = frozenset(each for each in (place, kept, head.parent) if not each.exists() or not any(each.iterdir()))
        for made in (place, kept, head.parent):
            made.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_rows(place, data, schema)
        _write_certificates(place, host=host, analysts=names, days=lasting)
        write_keys(place / "tokens")
        SigningKey.generate().write(str(place / "signing"))
        known = _user(user)
        words = {
            "dataset": json.dumps(name),
            "data": json.dumps(str(Path(data).absolute()) if data is not None else "rows.parquet"),
            "schema": json.dumps(str(Path(schema).absolute()) if schema is not None else "dictionary.yaml"),
            "ledger": json.dumps(account),
            "heads": json.dumps(str(head)),
            "state": json.dumps(str(kept)),
            "host": json.dumps(host),
            "port": str(number),
            "health": str(number + 1),
            "analysts": "\n".join(f"  {each}: {{mechanisms: all, models: all, epsilon: 1}}" for each in names),
        }
        _write(place / "site.yaml", SETTINGS.substitute(words), mode=0o644)
        words |= {
            "dataset": name,
            "folder": str(place),
            "user": user,
            "uid": str(known[0]),
            "gid": str(known[1]),
            "state": str(kept),
            "heads_folder": str(head.parent),
            "command": _command(),
            "probe": f"from urllib.request import urlopen; urlopen('http://127.0.0.1:{number + 1}/ready', timeout=12)",
            "after": "postgresql.service" if "://" in account else "",
            "writes": " ".join(dict.fromkeys([str(kept), str(head.parent)])),
        }
        _write(place / "hdpstats.service", UNIT.substitute(words), mode=0o644)
        _write(place / "Containerfile", CONTAINER.substitute(words), mode=0o644)
        _hand_over(place, (kept, head.parent), known, new=new)
    except FileExistsError as error:
        raise ArgumentError(
            f"there is {error.filename} already, and no file is replaced: name another folder, or remove it",
            argument="folder",
        ) from None
    except OSError as error:
        raise ArgumentError(
            f"{error.filename or place} cannot be written: {error.strerror}", argument="folder"
        ) from None
    settings, where = place / "site.yaml", account
    first = names[0]
    return Written(
        folder=place,
        steps=(
            (f"hdpstats ledger open {where} --dataset {name} --epsilon 3", "the total of all releases, agreed once"),
            (f"hdpstats site check {settings} --rows", "are the rows as the dictionary says? for your screen alone"),
            (f"hdpstats site note {settings}", "keep the ledger's head at the second place"),
            (f"hdpstats site serve {settings}", "until it is told to end; in another terminal:"),
            (f"hdpstats site health {settings}", "is it ready?"),
            (
                f"hdpstats site token --key {place / 'tokens.key'} --analyst {first} --audience {name} "
                f"--certificate {place / f'{first}.pem'}",
                f"what {first} needs besides {first}.pem, {first}.key and ca.pem",
            ),
        ),
    )


EXAMPLE: Final = {
    "age": Continuous(20, 90),
    "sex": Categorical(["female", "male"]),
    "nodes": Continuous(0, 40),
    "treated": Binary(),
    "time": Duration(1825, unit="days"),
    "died": Binary(),
}
"""The columns of invented rows."""


def _write_rows(place: Path, data: str | Path | None, schema: str | Path | None) -> None:
    if data is None or schema is None:
        example = Schema(EXAMPLE)
        for name in ("dictionary.yaml", "rows.parquet"):
            if (place / name).exists():
                raise FileExistsError(17, "", str(place / name))
        example.to_yaml(place / "dictionary.yaml")
        example.synthetic(INVENTED).to_parquet(place / "rows.parquet")
        (place / "rows.parquet").chmod(0o600)
        return
    for name, path in (("data", data), ("schema", schema)):
        if not Path(path).exists():
            raise ArgumentError(f"{name}: there is no {path}", argument=name)


def _write(path: Path, content: str | bytes, *, mode: int) -> None:
    """Write a new file with a mode."""
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(number, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)


def _write_certificates(place: Path, *, host: str, analysts: Sequence[str], days: int) -> None:
    """Write an authority, the site's certificate and one for each analyst, with their keys."""
    authority = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hdpstats trial authority")])
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    made = (
        _certificate(issuer, issuer, authority.public_key(), authority, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(authority, hashes.SHA256())
    )
    _write_pair(place / "ca", made, authority)
    for name in ("site", *analysts):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        kind = ExtendedKeyUsageOID.SERVER_AUTH if name == "site" else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            _certificate(issuer, subject, key.public_key(), authority, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([kind]), critical=False)
        )
        if name == "site":
            builder = builder.add_extension(x509.SubjectAlternativeName(_hosts(host)), critical=False)
        _write_pair(place / name, builder.sign(authority, hashes.SHA256()), key)


def _certificate(
    issuer: x509.Name,
    subject: x509.Name,
    public: ec.EllipticCurvePublicKey,
    authority: ec.EllipticCurvePrivateKey,
    days: int,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
    )


def _hosts(host: str) -> list[x509.GeneralName]:
    """Return the names that the site's certificate is good for: the host, and this machine."""
    names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return names if host == "localhost" else [x509.DNSName(host), *names]
    own = x509.DNSName(os.uname().nodename)
    if address.is_unspecified:
        return [own, *names]
    return names if address.is_loopback and address.version == 4 else [x509.IPAddress(address), *names]


def _write_pair(stem: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write(stem.with_suffix(".key"), secret, mode=0o600)
    _write(stem.with_suffix(".pem"), certificate.public_bytes(serialization.Encoding.PEM), mode=0o644)


def _user(name: str) -> tuple[int, int]:
    """Return the numbers of a user and of the group with his name; those of this process where there is no such one."""
    with suppress(KeyError):
        found = pwd.getpwnam(name)
        group = found.pw_gid
        with suppress(KeyError):
            group = grp.getgrnam(name).gr_gid
        return found.pw_uid, group
    return os.geteuid(), os.getegid()


def _hand_over(place: Path, written: tuple[Path, ...], known: tuple[int, int], *, new: frozenset[Path]) -> None:
    """Run by root: let the service's group read its keys and rows, and give the service the folders that it writes.

    A folder that had something in it before stays whose it was: it may be the system's, such as ``/var/lib``.
    """
    user, group = known
    if os.geteuid() != 0 or user == 0:
        return
    if place in new:
        place.chmod(0o750)
        os.chown(place, 0, group)
    for path in (place / "site.key", place / "signing.key", place / "rows.parquet"):
        if path.exists():
            os.chown(path, 0, group)
            path.chmod(0o640)
    for folder in new.intersection(written):
        os.chown(folder, user, group)


def _command() -> str:
    """Return the command of this installation."""
    beside = Path(sys.executable).with_name("hdpstats")
    if beside.exists():
        return str(beside)
    return shutil.which("hdpstats") or f"{sys.executable} -m hdpstats.cli"
