"""The site's certificate, the authority of clients' certificates, and the list of those that it took back.

References
----------
Cooper et al. (2008), Internet X.509 public key infrastructure certificate and certificate revocation list (CRL)
    profile, RFC 5280.
"""

import ssl
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import final

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from hdpstats._base.errors import ArgumentError
from hdpstats.custodian import journal
from hdpstats.custodian.settings import Tls

Stamp = tuple[int, int, int]


def _now() -> datetime:
    return datetime.now(UTC)


@final
class Certificates:
    """What TLS needs, with the list of revoked certificates read again whenever its file changes.

    A certificate is compared with the list at the handshake, by OpenSSL, and at every request after it: a connection
    that is open when the list changes is no way around it. A list that has expired lets nobody in. A file that cannot
    be read (half of it was written) leaves the list before it in force, until that expires.
    """

    def __init__(self, tls: Tls, now: Callable[[], datetime] = _now) -> None:
        self._tls, self._now = tls, now
        self._lock = threading.Lock()
        self._lists: Sequence[x509.CertificateRevocationList] = ()
        self._stamp: Stamp | None = None
        if tls.crl is not None:
            self._stamp, self._lists = _stamp(tls.crl), _lists(tls)
            if not all(self._is_valid(each) for each in self._lists):
                raise ArgumentError(
                    f"tls: crl: the list of revoked certificates {tls.crl} has expired, or is of the future; fetch the "
                    "authority's newest one",
                    argument="tls",
                )
        self._context = _context(tls)

    def context(self) -> ssl.SSLContext:
        """Return the context of the next handshake."""
        self._refresh()
        return self._context

    def allow(self, der: bytes | None) -> bool:
        """Whether a certificate may be used now; without a list each may that the handshake took."""
        if self._tls.crl is None:
            return True
        self._refresh()
        if der is None:
            return False
        certificate = x509.load_der_x509_certificate(der)
        lists = [each for each in self._lists if each.issuer == certificate.issuer]
        return bool(lists) and all(
            self._is_valid(each) and each.get_revoked_certificate_by_serial_number(certificate.serial_number) is None
            for each in lists
        )

    def _is_valid(self, each: x509.CertificateRevocationList) -> bool:
        until = each.next_update_utc
        return each.last_update_utc <= self._now() and (until is None or self._now() <= until)

    def _refresh(self) -> None:
        path = self._tls.crl
        if path is None:
            return
        with self._lock:
            try:
                stamp = _stamp(path)
                if stamp == self._stamp:
                    return
                self._stamp = stamp
                lists, context = _lists(self._tls), _context(self._tls)
            except ArgumentError as error:
                journal.write(failed=journal.cause(error))
                return
            self._lists, self._context = lists, context
            journal.write(revoked=sum(len(each) for each in lists), read=str(path))


def _stamp(path: Path) -> Stamp:
    """Return what changes with a file."""
    try:
        found = path.stat()
    except OSError:
        raise _unreadable(path) from None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _unreadable(path: Path) -> ArgumentError:
    return ArgumentError(
        f"tls: crl: {path} must hold lists of revoked certificates (PEM), signed by the authorities of tls: clients",
        argument="tls",
    )


def _lists(tls: Tls) -> tuple[x509.CertificateRevocationList, ...]:
    path = tls.crl or Path()
    end = b"-----END X509 CRL-----"
    try:
        authorities = x509.load_pem_x509_certificates(tls.clients.read_bytes())
        parts = path.read_bytes().split(end)[:-1]
        found = tuple(x509.load_pem_x509_crl(part.lstrip() + end) for part in parts)
        signed = all(any(_is_by(each, authority) for authority in authorities) for each in found)
    except (OSError, ValueError, TypeError, InvalidSignature):
        raise _unreadable(path) from None
    if not (found and signed):
        raise _unreadable(path)
    return found


def _is_by(found: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    return found.issuer == authority.subject and found.is_signature_valid(authority.public_key())  # type: ignore[arg-type]


def _context(tls: Tls) -> ssl.SSLContext:
    """Return the context of a server that talks to clients with a certificate of the named authority only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(tls.certificate, tls.key)
        context.load_verify_locations(tls.clients)
        if tls.crl is not None:
            context.load_verify_locations(tls.crl)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    except (OSError, ssl.SSLError):
        message = "tls: certificate and key must belong together, and clients be certificates of authorities, in PEM"
        raise ArgumentError(message, argument="tls") from None
    return context
