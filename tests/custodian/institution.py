"""A small institution: an authority, certificates, keys, settings, and sites in processes of their own."""

import contextlib
import datetime
import ipaddress
import os
import re
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from unittest import mock

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

import hdpstats.api as hdp
from hdpstats.custodian import issue, write_keys
from hdpstats.sites import remote
from tests import forked
from tests.waiting import LONG, until

EVERYTHING = {"mechanisms": "all", "models": "all"}
DAY = datetime.timedelta(days=1)
PATIENT = {"grid": 0.005, "factor": 1, "requests": 10**9, "overruns": 10**9}
"""Slots that many quick requests of one test fit in; a machine under load stops nobody."""


class Authority:
    """Signs certificates; files go to a folder."""

    def __init__(self, folder, name="authority"):
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._builder(self.name, self.key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.certificate = made.sign(self.key, hashes.SHA256())
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def _builder(self, subject, public):
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .add_extension(
                x509.KeyUsage(True, False, False, False, False, True, True, False, False)
                if subject == self.name
                else x509.KeyUsage(True, False, False, False, False, False, False, False, False),
                critical=True,
            )
        )

    def revoke(self, path, *certificates, days=1.0):
        """Write the list of the certificates (files) that were taken back, good for so many days."""
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateRevocationListBuilder().issuer_name(self.name).last_update(now - 2 * DAY)
        builder = builder.next_update(now + days * DAY)
        for each in certificates:
            serial = x509.load_pem_x509_certificate(each.read_bytes()).serial_number
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now - DAY).build()
            )
        made = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
        ).sign(self.key, hashes.SHA256())
        new = path.with_name(f"{path.name}.new")
        new.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        new.replace(path)
        return path

    def certify(self, name):
        """Return the files of a certificate for loopback and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        hosts = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        made = (
            self._builder(subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
            .add_extension(x509.ExtendedKeyUsage(both), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        paths = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        paths[1].chmod(0o600)
        return paths


def open_account(settings, folder):
    """Open the account of settings that name its terms, as `hdpstats ledger open` does."""
    terms = dict(settings["ledger"])
    place = terms.pop("place")
    if "epsilon" in terms:
        amounts = {key: Fraction(str(terms[key])) for key in ("epsilon", "delta") if key in terms}
        unit = settings.get("persons", {}).get("unit")
        hdp.Ledger(place if "://" in place else folder / place, unit=unit, **terms | amounts)


def held_port():
    """Return a socket that is bound to a free port and does not listen: it keeps the port for a site that is down.

    The system gives the port to nobody else. A site may listen there, as both sockets allow the address to be reused.
    """
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held


@dataclass
class Running:
    """A site's process, where it listens, and its files."""

    process: subprocess.Popen
    url: str
    port: int
    settings: Path
    log: Path
    ledger: Path
    first: str | None

    def kill(self):
        """End the process as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)

    def stop(self):
        """End the process as an administrator would."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()

    def account(self):
        """Open the ledger's file from here."""
        return hdp.Ledger.open_existing(self.ledger)


class Institution:
    """Everything that a custodian of one or more sites has."""

    def __init__(self, folder):
        self.folder = folder
        self.authority = Authority(folder)
        self.site_files = self.authority.certify("site")
        self.ann_files = self.authority.certify("ann")
        self.secret, self.public_key = write_keys(folder / "tokens")
        self._stack, self._ports = contextlib.ExitStack(), {}

    def token(self, analyst="ann", *, audience="trial", hours=1.0, key=None, certificate=...):
        """Return a token, bound to ann's certificate unless another one is given, or None."""
        bound = self.ann_files[0] if certificate is ... else certificate
        return issue(key or self.secret, analyst=analyst, audience=audience, hours=hours, certificate=bound)

    def connect(self, running, **options):
        """Connect as ann, with a new token for each request, unless stated otherwise."""
        usual = {"token": self.token, "ca": self.authority.path, "cert": self.ann_files}
        with mock.patch.object(remote, "LONGEST_CONNECT", LONG):
            return hdp.connect(running.url, **{**usual, **options})

    def write(self, name, frame, schema, **entries):
        """Write data, dictionary and settings of a site, open its account, and return the settings' path."""
        if name not in self._ports:
            self._ports[name] = self._stack.enter_context(held_port())
        place = self.folder / name
        place.mkdir(mode=0o700, exist_ok=True)
        frame.to_parquet(place / "rows.parquet")
        (place / "rows.parquet").chmod(0o600)
        schema.to_yaml(place / "dictionary.yaml")
        settings = {
            "format": "hdpstats site",
            "version": 1,
            "data": "rows.parquet",
            "schema": "dictionary.yaml",
            "ledger": {"place": "ledger.db", "dataset": "trial", "epsilon": 1000, "delta": 1e-3},
            "listen": {"host": "127.0.0.1", "port": self._ports[name].getsockname()[1]},
            "tls": {
                "certificate": str(self.site_files[0]),
                "key": str(self.site_files[1]),
                "clients": str(self.authority.path),
            },
            "tokens": {"audience": "trial", "key": str(self.public_key)},
            "analysts": {"ann": EVERYTHING},
            "timing": PATIENT,
        }
        path = place / "site.yaml"
        settings |= entries
        settings["limits"] = {"seconds": LONG} | entries.get("limits", {})
        path.write_text(yaml.safe_dump(settings, sort_keys=False))
        path.chmod(0o600)
        open_account(settings, place)
        return path

    def start(self, settings, **options):
        """Start a site in a process of its own and wait until it listens."""
        running = self.launch(settings, **options)
        self.wait(running)
        return running

    def launch(self, settings, *, files=None, first=None):
        """Start a site in a process of its own, which may open so many files, and runs a line of code first."""
        log = settings.with_name("site.log")
        limited = [] if files is None else ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"]
        module = ["-m", "hdpstats.cli"]
        if first is not None:
            module = ["-c", f"{first}\nimport sys\nfrom hdpstats.cli import main\nsys.exit(main())"]
        with log.open("ab") as stream:
            process = forked.Popen(
                [*limited, sys.executable, *module, "site", "serve", str(settings)],
                stderr=stream,
                stdout=stream,
                env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )
        place = yaml.safe_load(settings.read_text())["ledger"]["place"]
        running = Running(process, "", 0, settings, log, settings.parent / place, first)
        self._stack.callback(running.stop)
        return running

    def restart(self, running):
        """Start a site that ended once more, where it listened before."""
        running.log.unlink()
        return self.start(running.settings, first=running.first)

    def wait(self, running):
        """Wait until a site listens, which its log says."""

        def found():
            return re.findall(r"running on https://[^:]+:(\d+)", running.log.read_text())

        until(lambda: found() or running.process.poll() is not None, running.log.read_text, pause=0.02)
        if not found():
            raise RuntimeError(f"the site did not start: {running.log.read_text()}")
        running.port = int(found()[-1])
        running.url = f"https://127.0.0.1:{running.port}"

    def close(self):
        """Stop all sites."""
        self._stack.close()
