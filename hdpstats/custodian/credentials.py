"""Who asks whom: the site's certificate, clients' certificates, and signed tokens (JWT) of analysts.

The authority of clients' certificates publishes a list of those that it took back. Tokens are signed by a key of the
custodian's own or by an OpenID Connect issuer. A token may name the client certificate that it belongs to (RFC 8705,
``cnf: {"x5t#S256": ...}``): stolen without the certificate's key it is of no use.

References ---------- Cooper et al. (2008), Internet X.509 public key infrastructure certificate and certificate
revocation list (CRL) profile, RFC 5280. Jones, Bradley and Sakimura (2015), JSON Web Token, RFC 7519. Campbell,
Bradley, Sakimura and Lodderstedt (2020), OAuth 2.0 mutual-TLS client authentication and certificate-bound access
tokens, RFC 8705.
"""

import base64
import hashlib
import os
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, final

import httpx
import jwt
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from hdpstats._base.errors import ArgumentError
from hdpstats._base.new_files import check_new
from hdpstats._base.validation import real, text
from hdpstats.custodian import log
from hdpstats.custodian.files import check_file
from hdpstats.custodian.settings import Identities, Tls

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
        self._tls, self._now, self._passphrase = tls, now, _passphrase(tls)
        self._lock = threading.Lock()
        self._lists: Sequence[x509.CertificateRevocationList] = ()
        self._stamp: Stamp | None = None
        if tls.crl is not None:
            self._stamp, self._lists = _stamp(tls.crl), _lists(tls)
            if not all(self._is_valid(revoked) for revoked in self._lists):
                raise ArgumentError(
                    f"tls: crl: the list of revoked certificates {tls.crl} has expired, or is of the future; fetch the "
                    "authority's newest one",
                    argument="tls",
                )
        self._context = _context(tls, self._passphrase)

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
        lists = [revoked for revoked in self._lists if revoked.issuer == certificate.issuer]
        return bool(lists) and all(
            self._is_valid(revoked)
            and revoked.get_revoked_certificate_by_serial_number(certificate.serial_number) is None
            for revoked in lists
        )

    def _is_valid(self, revoked: x509.CertificateRevocationList) -> bool:
        until = revoked.next_update_utc
        return revoked.last_update_utc <= self._now() and (until is None or self._now() <= until)

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
                lists, context = _lists(self._tls), _context(self._tls, self._passphrase)
            except ArgumentError as error:
                log.write(failed=log.cause(error))
                return
            self._lists, self._context = lists, context
            log.write(revoked=sum(len(revoked) for revoked in lists), read=str(path))


def _stamp(path: Path) -> Stamp:
    """Return what changes with a file."""
    try:
        status = path.stat()
    except OSError:
        raise _unreadable(path) from None
    return status.st_mtime_ns, status.st_size, status.st_ino


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
        lists = tuple(x509.load_pem_x509_crl(part.lstrip() + end) for part in parts)
        signed = all(any(_is_by(revoked, authority) for authority in authorities) for revoked in lists)
    except (OSError, ValueError, TypeError, InvalidSignature):
        raise _unreadable(path) from None
    if not (lists and signed):
        raise _unreadable(path)
    return lists


def _is_by(revoked: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    return revoked.issuer == authority.subject and revoked.is_signature_valid(authority.public_key())  # type: ignore[arg-type]


def _passphrase(tls: Tls) -> bytes:
    """Return the passphrase of the site's key; nothing where its key has none."""
    if tls.passphrase is None:
        return b""
    try:
        first, *_ = [*tls.passphrase.read_bytes().splitlines(), b""]
    except OSError as error:
        raise ArgumentError(
            f"tls: passphrase: {tls.passphrase} cannot be read ({error.strerror})", argument="tls"
        ) from None
    return first


SOON = timedelta(days=30)
"""How long before a certificate expires the custodian is told."""


def expiring(tls: Tls, now: Callable[[], datetime] = _now) -> tuple[str, ...]:
    """Return a sentence for each certificate, of a site or of clients' authorities, that expired or soon will."""
    sentences = []
    for name, path in (("certificate", tls.certificate), ("clients", tls.clients)):
        for certificate in x509.load_pem_x509_certificates(path.read_bytes()):
            until, since = certificate.not_valid_after_utc, certificate.not_valid_before_utc
            whose = f"tls: {name}: the certificate of {certificate.subject.rfc4514_string()} in {path}"
            if until <= now():
                sentences.append(f"{whose} expired on {until:%Y-%m-%d}: nobody can connect with it; renew it")
            elif since > now():
                sentences.append(
                    f"{whose} is not valid before {since:%Y-%m-%d %H:%M} UTC: look at this machine's clock"
                )
            elif until <= now() + SOON:
                sentences.append(f"{whose} expires on {until:%Y-%m-%d}; renew it, and send the service SIGHUP")
    return tuple(sentences)


def _context(tls: Tls, passphrase: bytes) -> ssl.SSLContext:
    """Return the context of a server that talks to clients with a certificate of the named authority only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED

    def asked() -> bytes:
        if not passphrase:  # else OpenSSL would ask on the console, at every reading
            raise ArgumentError(
                f"tls: key: {tls.key} is encrypted: name a file with its passphrase, tls: {{passphrase: FILE}}",
                argument="tls",
            )
        return passphrase

    try:
        context.load_cert_chain(tls.certificate, tls.key, password=asked)
        context.load_verify_locations(tls.clients)
        if tls.crl is not None:
            context.load_verify_locations(tls.crl)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    except (OSError, ssl.SSLError):
        message = (
            "tls: certificate and key must belong together, passphrase be that of the key, and clients be certificates "
            "of authorities, in PEM"
        )
        raise ArgumentError(message, argument="tls") from None
    return context


LEEWAY = 10
"""Seconds that the clocks of an issuer and of a site may differ."""

SIGNATURES = ["ES256", "ES384", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA"]
"""Signatures of issuers that are accepted: with public keys only, so that no key of a site can forge a token."""

FRESH = 300.0
"""Seconds between two readings of an issuer's keys, unless a token names a key that is not known."""

SOONEST = 5.0
"""Seconds between two readings of an issuer's keys, whatever tokens name."""

LONGEST_READ = 5.0
"""Seconds within which an issuer must answer."""

MOST_REMEMBERED = 256
"""Tokens whose signatures are remembered: the latest ones."""


class Unauthenticated(Exception):  # noqa: N818  (not an error of the package: it never leaves the service)
    """A token is not accepted; the argument says why, for the custodian's log only."""


def write_keys(stem: str | Path) -> tuple[Path, Path]:
    """Make a key for tokens and write it to ``stem.key`` (readable by its owner only) and ``stem.pub``."""
    private, public = Path(f"{stem}.key"), Path(f"{stem}.pub")
    key = ec.generate_private_key(ec.SECP256R1())
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    shown = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    try:
        check_new(public, name="key")
        with os.fdopen(os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secret)
        with public.open("xb") as file:
            file.write(shown)
    except OSError as error:
        raise ArgumentError(f"the key cannot be written: {error.strerror}: {error.filename}", argument="key") from None
    return private, public


def issue(key: str | Path, *, analyst: str, audience: str, hours: float, certificate: str | Path | None) -> str:
    """Return a token of an analyst, signed by a key of `write_keys` (ES256), good with a certificate of his only.

    Without a certificate it is good with any, at sites whose settings have ``bound: false``.
    """
    check_file(Path(key), name="key", private=True)
    now = datetime.now(UTC)
    claims: dict[str, Any] = {
        "sub": text(analyst, name="analyst", longest=100),
        "aud": text(audience, name="audience", longest=200),
        "iat": now,
        "exp": now + timedelta(hours=real(hours, name="hours", lower=0.0, open_lower=True, upper=24.0 * 366)),
    }
    if certificate is not None:
        claims["cnf"] = {"x5t#S256": _of_file(Path(certificate))}
    return jwt.encode(claims, _private_key(Path(key)), algorithm="ES256")


def _private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError):
        key = None
    if not (isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1)):
        raise ArgumentError("key must be a file STEM.key that `hdpstats site key STEM` wrote", argument="key")
    return key


def _of_file(path: Path) -> str:
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        raise ArgumentError("certificate must be a file with a certificate (PEM)", argument="certificate") from None
    return thumbprint(certificate.public_bytes(serialization.Encoding.DER))


def thumbprint(der: bytes) -> str:
    """Return the SHA-256 of a certificate as tokens have it (base64url without padding)."""
    return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()


@final
@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """A token whose signature was verified.

    Attributes
    ----------
    key, signer : object, str or None
        The public key, and its name at the issuer.
    since, until : float
        From when to when it is accepted without being verified anew.
    certificate : object
        The SHA-256 of the client certificate that it is bound to, None where to none.
    name : object
        What its claim says that names the analyst.
    """

    key: Any
    signer: str | None
    since: float
    until: float
    certificate: Any
    name: Any


@final
class TokenVerifier:
    """Reads tokens and returns who asks.

    A signature is verified once as long as its token does not expire, the clock is not set back, and the issuer's keys
    are not read again; the certificate that a token is bound to is compared every time. Tokens themselves are not kept,
    but their SHA-256.
    """

    def __init__(self, identities: Identities) -> None:
        self._identities = identities
        self._own = None if identities.key is None else _public_key(identities.key)
        self._keys: dict[str | None, Any] = {}
        self._read_at = -FRESH
        self._lock = threading.Lock()
        self._verified: dict[bytes, VerifiedToken] = {}

    def remembered(self, token: str, fingerprint: str | None) -> str | None:
        """Return the name of the analyst where nothing has to be read or verified; None where `verify` must be asked.

        Raises
        ------
        Unauthenticated
            The token is for another certificate.
        """
        verified = self._verified.get(_digest(token))
        if verified is None or not verified.since <= time.time() < verified.until:
            return None
        if self._own is None and (self._is_old() or self._keys.get(verified.signer) is not verified.key):
            return None
        return self._named(verified, fingerprint)

    def verify(self, token: str, fingerprint: str | None) -> str:
        """Return the name of the analyst.

        Raises
        ------
        Unauthenticated
            The token is not accepted.
        """
        own_key, now = self._own is not None, time.time()
        try:
            signer = None if own_key else jwt.get_unverified_header(token).get("kid")
            key = self._own or self._key_of(signer)
            claims = jwt.decode(
                token,
                key=key,
                algorithms=["ES256"] if own_key else SIGNATURES,
                audience=self._identities.audience,
                issuer=self._identities.issuer,
                leeway=LEEWAY,
                options={"require": ["exp", "iat", "aud", *([] if own_key else ["iss"])]},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise Unauthenticated(type(error).__name__) from None
        if self._identities.claim == "email" and claims.get("email_verified") is not True:
            raise Unauthenticated("an address that the issuer did not verify")
        bound = claims.get("cnf")
        verified = VerifiedToken(
            key=key,
            signer=signer,
            since=now,
            until=int(claims["exp"]) + LEEWAY,
            certificate=None if bound is None else (bound.get("x5t#S256") if isinstance(bound, dict) else None) or "",
            name=claims.get(self._identities.claim),
        )
        name = self._named(verified, fingerprint)
        with self._lock:
            self._verified = dict([*self._verified.items(), (_digest(token), verified)][-MOST_REMEMBERED:])
        return name

    def _named(self, verified: VerifiedToken, fingerprint: str | None) -> str:
        if self._identities.bound if verified.certificate is None else verified.certificate != fingerprint:
            raise Unauthenticated("for another certificate")
        if not isinstance(verified.name, str):
            raise Unauthenticated("without a name")
        return verified.name

    def _is_old(self) -> bool:
        return time.monotonic() - self._read_at > FRESH

    def _key_of(self, name: str | None) -> Any:
        """Return the issuer's key of a name, reading the keys again where it is new."""
        with self._lock:
            age = time.monotonic() - self._read_at
            if self._is_old() or (name not in self._keys and age > SOONEST):
                self._read_at = time.monotonic()
                self._keys = self._read() or self._keys
            if name not in self._keys:
                raise Unauthenticated("signed by an unknown key")
            return self._keys[name]

    def _read(self) -> dict[str | None, Any]:
        """Return the issuer's keys by name; none where they cannot be read."""
        try:
            context = ssl.create_default_context(cafile=self._identities.ca)
            key_set = jwt.PyJWKSet.from_dict(_get(self._identities.jwks or self._place(context), context))
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, TypeError, AttributeError, jwt.PyJWTError):
            return {}
        return {key.key_id: key.key for key in key_set.keys if key.public_key_use in (None, "sig")}

    def _place(self, context: ssl.SSLContext) -> str:
        """Return where an issuer says that its keys are (OpenID Connect Discovery 1.0, section 4)."""
        issuer = str(self._identities.issuer)
        document = _get(f"{issuer.rstrip('/')}/.well-known/openid-configuration", context)
        place = str(document.get("jwks_uri"))
        if document.get("issuer") != issuer or not place.startswith("https://"):
            raise ValueError("the document is another issuer's, or its keys are not behind https")
        return place


def _get(url: str, context: ssl.SSLContext) -> Any:
    return httpx.get(url, verify=context, timeout=LONGEST_READ).raise_for_status().json()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _public_key(path: Path) -> ec.EllipticCurvePublicKey:
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except (OSError, ValueError):
        raise ArgumentError("key must be a public key (PEM), as `hdpstats site key` writes", argument="key") from None
    if not (isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)):
        raise ArgumentError("key must be a key of the curve P-256 (ES256)", argument="key")
    return key
