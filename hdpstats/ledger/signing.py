"""Signatures: releases and heads of a ledger that anybody can check who has the site's public key.

A site may hold an Ed25519 key (Josefsson and Liusvaara 2017, RFC 8032; the extra ``sites``). Every release that it
hands out is then signed, together with its request and its place in the ledger, so that a release that was altered, or
that another site made, is recognised without the ledger. A *signed head* says how many entries and charges the ledger
had at some time and what the hash of the last one was. Whoever has one recognises later whether the ledger, or an
export of it, still goes on from there.

**What is signed** is the canonical JSON of a statement that begins with its format, so that no signature of one kind
passes for another. Ed25519 is deterministic: a release that is handed out again has the same signature.

**Rotation.** A site signs everything that it hands out with its present key, stored releases too. Results keep the
signature of their time, which names its key; whoever checks keeps the public keys of before. A key that was stolen is
replaced, and what it signed is compared with the ledger: signatures prove who made a release, the ledger what was
charged. A key that was lost is replaced. A site without a key signs nothing, and its results say so.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, final

from hdpstats._base.errors import ArgumentError, LedgerError
from hdpstats._base.new_files import check_new
from hdpstats.ledger.chain import digest
from hdpstats.ledger.records import checked_sha256
from hdpstats.records import codec
from hdpstats.records.codec import Record
from hdpstats.records.query import LedgerEntry, Query, Release, Signature

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

RELEASE: Final = "hdpstats signed release 1"
HEAD: Final = "hdpstats signed head 1"


class SignatureError(LedgerError):
    """A release, a head or a ledger is not what a key signed.

    The fact ``reason`` is ``"unsigned"``, ``"other key"``, ``"forged"``, ``"other account"``, ``"cut off"``,
    ``"rolled back"``, ``"rewritten"`` or ``"gap"``.
    """


def _failed(reason: str, message: str) -> SignatureError:
    return SignatureError(message, reason=reason)


def _cryptography() -> Any:
    """Return the module of Ed25519 keys and that of their files, which are an extra."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        message = "signatures need cryptography: pip install '.[sites]' in a clone of hdpstats"
        raise ArgumentError(message, argument="key") from None
    return ed25519, serialization


def _id(raw: bytes) -> str:
    """Return what a key is called: the beginning of the SHA-256 of its public half."""
    return hashlib.sha256(raw).hexdigest()[:16]


def _message(statement: Mapping[str, Any]) -> bytes:
    return codec.dumps(dict(statement)).encode()


@final
class VerifyingKey:
    """The public key of a site: checks what it signed.

    Examples
    --------
    >>> from hdpstats.ledger import SigningKey, VerifyingKey
    >>> key = SigningKey.generate()
    >>> VerifyingKey.read(key.public_pem) == key.public
    True
    """

    def __init__(self, key: "Ed25519PublicKey") -> None:
        self._key, self._raw = key, key.public_bytes_raw()

    @classmethod
    def read(cls, source: "str | Path | VerifyingKey") -> "VerifyingKey":
        """Return the key of a file STEM.pub, or of its text (PEM).

        Raises
        ------
        ArgumentError
            It holds no Ed25519 public key.
        """
        if isinstance(source, VerifyingKey):
            return source
        ed25519, serialization = _cryptography()
        try:
            written = source.encode() if "-----BEGIN" in str(source) else Path(source).read_bytes()  # type: ignore[union-attr]
            key = serialization.load_pem_public_key(written)
        except (OSError, ValueError, TypeError, AttributeError):
            key = None
        if not isinstance(key, ed25519.Ed25519PublicKey):
            raise ArgumentError(
                "key must be a file STEM.pub that `hdpstats site signing-key STEM` wrote, or its text", argument="key"
            )
        return cls(key)

    @property
    def id(self) -> str:
        """What the key is called in signatures: 16 hexadecimal digits."""
        return _id(self._raw)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VerifyingKey) and self._raw == other._raw

    def __hash__(self) -> int:
        return hash(self._raw)

    def __repr__(self) -> str:
        return f"<public key {self.id}>"

    def check(self, statement: Mapping[str, Any], *, key: str, value: str, what: str) -> None:
        """Refuse a statement that this key did not sign.

        Raises
        ------
        SignatureError
            ``reason`` is "other key" or "forged".
        """
        from cryptography.exceptions import InvalidSignature

        if key != self.id:
            raise _failed(
                "other key",
                f"{what} is signed with the key {key}, not with {self.id}: ask the custodian whether the key was "
                "rotated, and for the public key of that time",
            )
        try:
            self._key.verify(bytes.fromhex(value), _message(statement))
        except (InvalidSignature, ValueError):
            raise _failed(
                "forged",
                f"{what} is not what the key {self.id} signed: it was altered, or made by somebody else",
            ) from None


@final
class SigningKey:
    """The private key of a site; `write` and `read` keep it in a file for its owner alone."""

    def __init__(self, key: "Ed25519PrivateKey") -> None:
        self._key = key

    @classmethod
    def generate(cls) -> Self:
        """Return a new key, from the entropy of the operating system."""
        ed25519, _ = _cryptography()
        return cls(ed25519.Ed25519PrivateKey.generate())

    @classmethod
    def read(cls, source: "str | Path | SigningKey") -> "SigningKey":
        """Return the key of a file STEM.key.

        Raises
        ------
        ArgumentError
            It holds no Ed25519 private key.
        """
        if isinstance(source, SigningKey):
            return source
        ed25519, serialization = _cryptography()
        try:
            key = serialization.load_pem_private_key(Path(source).read_bytes(), password=None)
        except (OSError, ValueError, TypeError):
            key = None
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise ArgumentError(
                "signing_key must be a file STEM.key that `hdpstats site signing-key STEM` wrote",
                argument="signing_key",
            )
        return cls(key)

    def write(self, stem: str | Path) -> tuple[Path, Path]:
        """Write ``stem.key``, readable by its owner only, and ``stem.pub``; neither may exist."""
        _, serialization = _cryptography()
        private, public = Path(f"{stem}.key"), Path(f"{stem}.pub")
        secret = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        try:
            check_new(public, name="key")
            with os.fdopen(os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(secret)
            with public.open("x", encoding="ascii") as shown:
                shown.write(self.public_pem)
        except OSError as error:
            message = f"the key cannot be written: {error.strerror}: {error.filename}"
            raise ArgumentError(message, argument="key") from None
        return private, public

    @property
    def public(self) -> VerifyingKey:
        """The public key."""
        return VerifyingKey(self._key.public_key())

    @property
    def public_pem(self) -> str:
        """The public key as text (PEM), for everybody who checks."""
        _, serialization = _cryptography()
        return str(
            self._key.public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
            .decode()
        )

    def __repr__(self) -> str:
        return f"<private key {self.public.id}>"

    def sign(self, statement: Mapping[str, Any]) -> str:
        """Return the signature of a statement, in hexadecimal digits."""
        return self._key.sign(_message(statement)).hex()

    def signed(self, release: Release, *, request: str, query: Query) -> Release:
        """Return a release whose place in the ledger carries a signature of it, its query and its place."""
        entry = release.entry
        if entry is None:
            raise LedgerError("a release without a place in the ledger is not signed")
        asked = codec.sha256(codec.loads(query.question()))
        value = self.sign(_of_release(release, entry, request=request, query=asked))
        return release.at(
            entry.with_signature(Signature(key=self.public.id, request=request, query=asked, value=value))
        )


def _of_release(release: Release, entry: LedgerEntry, *, request: str, query: str) -> dict[str, Any]:
    """Return the statement that is signed of a release: all of its place but whether it was stored before."""
    place = {name: value for name, value in entry.to_dict().items() if name not in ("stored", "signature")}
    return {"format": RELEASE, "request": request, "query": query, "release": release.sha256, "entry": place}


def check_release(release: Release, keys: Sequence[VerifyingKey], *, query: Query | None = None) -> None:
    """Refuse a release that none of these keys signed, or that does not answer a query.

    Raises
    ------
    SignatureError
        ``reason`` is "unsigned", "other key" or "forged".
    """
    if not keys:
        raise ArgumentError("keys must name at least one public key", argument="keys")
    entry = release.entry
    signature = None if entry is None else entry.signature
    if entry is None or signature is None:
        raise _failed(
            "unsigned",
            "the release has no signature: its site holds no key, or the signature was taken away; compare the release "
            "with the custodian's ledger",
        )
    what = f"the release in entry {entry.number} of data set {entry.dataset!r}"
    key = next((each for each in keys if each.id == signature.key), keys[0])
    key.check(
        _of_release(release, entry, request=signature.request, query=signature.query),
        key=signature.key,
        value=signature.value,
        what=what,
    )
    if query is not None and codec.sha256(codec.loads(query.question())) != signature.query:
        raise _failed("forged", f"{what} answers another query than the one that it is shown with")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SignedHead(Record):
    """What a ledger was at some time: its entries and charges, and the hash of the last entry, signed.

    Attributes
    ----------
    dataset, account : str
        The data set and the identity of its account.
    entries : int
        The number of entries of the whole file.
    charges : int
        The number of charges of this account.
    head : str
        The hash of the last entry.
    key, value : str
        The key that signed it, and the signature.
    """

    dataset: str
    account: str
    entries: int
    charges: int
    head: str
    key: str = ""
    value: str = ""

    @property
    def statement(self) -> dict[str, Any]:
        """What is signed."""
        fields = {name: value for name, value in self.to_dict().items() if name not in ("key", "value")}
        return {"format": HEAD, **fields}

    def signed(self, key: SigningKey) -> "SignedHead":
        """Return it with the signature of a key."""
        return SignedHead.from_dict({**self.to_dict(), "key": key.public.id, "value": key.sign(self.statement)})

    def check(self, key: VerifyingKey) -> None:
        """Refuse a head that a key did not sign; raises `SignatureError`."""
        if not self.value:
            raise _failed("unsigned", "the head has no signature; ask the custodian for a signed one")
        key.check(self.statement, key=self.key, value=self.value, what=f"the head of data set {self.dataset!r}")

    def write(self, path: str | Path) -> None:
        """Write it to a file of one line (JSON)."""
        text = json.dumps({"format": HEAD, **self.to_dict()}) + "\n"
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise LedgerError(f"the head cannot be written to {path}: {error.strerror}; name another file") from None

    @classmethod
    def read(cls, source: "str | Path | SignedHead") -> "SignedHead":
        """Return the head in a file that `write` wrote.

        Raises
        ------
        ArgumentError
            The file holds no signed head.
        """
        if isinstance(source, SignedHead):
            return source
        try:
            fields = json.loads(Path(source).read_text(encoding="utf-8"))
            if fields.pop("format") == HEAD:
                return cls.from_dict(fields)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, ArgumentError):
            pass
        raise ArgumentError(
            f"head: {str(source)[:200]} holds no signed head, as `hdpstats ledger head` writes it", argument="head"
        )


def check_goes_on(
    noted: SignedHead, *, hashes: Sequence[str], charges: Sequence[int], account: str, place: str
) -> None:
    """Refuse a ledger that does not go on from a head that was noted.

    Parameters
    ----------
    noted
        The head.
    hashes
        The hashes of all entries of the ledger.
    charges
        The numbers of the entries that charge the account.
    account
        The identity of the account.
    place
        What the ledger is called in messages.

    Raises
    ------
    SignatureError
        ``reason`` is "other account", "cut off", "rolled back", "rewritten" or "gap".
    """
    if account != noted.account:
        raise _failed("other account", f"{place} has another account of data set {noted.dataset!r} than the head is of")
    if len(hashes) < noted.entries:
        raise _failed(
            "cut off",
            f"{place} has {len(hashes)} entries, and had {noted.entries} when the head was noted: its end was cut off, "
            "or an older copy was restored. Restore a copy that goes on from the head, or count the total as spent",
        )
    if hashes[noted.entries - 1] != noted.head:
        raise _failed(
            "rolled back",
            f"{place} has another entry {noted.entries} than when the head was noted: an older copy was restored and "
            "continued, or the entries were rewritten. Restore a copy that goes on from the head, or count the total "
            "as spent",
        )
    counted = sum(number <= noted.entries for number in charges)
    if counted != noted.charges:
        raise _failed(
            "gap",
            f"{place} has {counted} charges up to entry {noted.entries}, where the head counts {noted.charges}: "
            "charges are missing",
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ExportCheck:
    """What is known of an export that verifies; printing it says so.

    Attributes
    ----------
    entries : int
        Its entries.
    others : int
        Entries of the file that the export does not have: of other data sets, or left out.
    head : SignedHead or None
        The head that it goes on from.
    signed : bool
        Whether that was signed with the key that was given.
    """

    entries: int
    others: int
    head: SignedHead | None
    signed: bool

    def __str__(self) -> str:
        said = [f"{self.entries} entries of the export verify"]
        if self.others:
            said.append(f"{self.others} more of the same ledger are not in it: of other data sets, or left out")
        if self.head is not None:
            signed = "" if self.signed else " (whose signature was not checked: give the key)"
            said.append(f"it goes on from the head{signed}, and no charge up to entry {self.head.entries} is missing")
        if self.others and (self.head is None or self.entries + self.others > self.head.entries):
            said.append("only a head of the ledger's end shows that none is missing after that")
        return "; ".join(said)


def check_export(path: str | Path, *, head: SignedHead | None = None, key: VerifyingKey | None = None) -> ExportCheck:
    """Verify an exported ledger (JSON), with a head that was noted by anybody.

    Every entry must have the hash of its fields, and entries that follow one another must be linked. With a head the
    export must go on from it, and have as many charges as the head counts. An export has no entries of other data sets
    in the same ledger, only their hashes: a charge that was left out looks like one of these, but for the head's count.
    Totals and sums in the export are the exporter's words.

    Raises
    ------
    SignatureError
        ``reason`` is "rewritten", "gap", "cut off", "rolled back", "other account", "unsigned", "other key", "forged".
    ArgumentError
        The file is no export.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        entries, hashes = document["entries"], document["hashes"]
        numbers = [int(entry["seq"]) for entry in entries]
        charges = [number for number, entry in zip(numbers, entries, strict=True) if entry["kind"] == "charge"]
        account, last = str(document["account"]), checked_sha256(document["head"], name="head")
        known = [checked_sha256(each, name="hash") for each in hashes]
    except (OSError, ValueError, TypeError, KeyError, ArgumentError):
        message = f"{path} must be an export of a ledger as JSON, of this version (`hdpstats ledger export`)"
        raise ArgumentError(message, argument="file") from None
    place = f"the export {path}"
    if numbers != sorted(set(numbers)) or (numbers and not 1 <= numbers[0] <= numbers[-1] <= len(known)):
        raise _failed("gap", f"{place} has entries out of order, or more than its chain")
    for number, entry in zip(numbers, entries, strict=True):
        before = known[number - 2] if number > 1 else "0" * 64
        if digest(entry) != entry["hash"] or entry["hash"] != known[number - 1] or entry["previous_hash"] != before:
            raise _failed("rewritten", f"entry {number} of {place} was altered, or an entry beside it is missing")
    if (known[-1] if known else "0" * 64) != last:
        raise _failed("cut off", f"the end of {place} is missing: its last entry is not its head")
    if head is not None:
        if key is not None:
            head.check(key)
        check_goes_on(head, hashes=known, charges=charges, account=account, place=place)
    return ExportCheck(
        entries=len(entries), others=len(known) - len(entries), head=head, signed=head is not None and key is not None
    )
