"""What a site answered to a request, as a file, and how it is read.

``format``    ``"hdpstats release 1"``
``hdpstats``  the version that answered
``request``   the SHA-256 of the request
``facts``     the public facts about the site (`hdpstats.sites.messages.Facts`)
``columns``   the schema's columns in their order
``answers``   each query that the site answered, with its release and the release's place in the ledger
``sha256``    that of all the rest but the signature: a file that was damaged is noticed
``signature`` left out, or the ``key`` of the site and the ``value`` of its signature of the hash, after `SIGNED`

Only the signature shows who answered: it covers the request, the facts (such as the number of people, which standard
errors rest on) and all answers, so that no signed release can be moved to another file.

Reading asks the question of the request again, of a site that knows these answers and nothing else: the code is that of
``fit``, so the result is the one that ``fit`` returns when it finds the same releases in the ledger.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self, final

import pandas as pd

from hdpstats import __version__
from hdpstats._base.errors import ArgumentError, HdpError, SiteError
from hdpstats._base.validation import shown
from hdpstats.exchange.files import FileSignature, Place, fields_in, other_version, read_bytes
from hdpstats.exchange.questions import UNREADABLE
from hdpstats.exchange.request_file import RequestFile
from hdpstats.ledger.signing import SignatureError, SigningKey, VerifyingKey, check_release
from hdpstats.mechanisms.registry import query_from_json, release_from_json
from hdpstats.records import codec
from hdpstats.records.query import LedgerEntry, Query, Release
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.sites import Site
from hdpstats.sites.asking import StillToCome
from hdpstats.sites.messages import CODES, Facts
from hdpstats.sites.site import HeldData, SiteTerms

FORMAT: Final = "hdpstats release 1"
SIGNED: Final = "hdpstats signed release file 1"
REFUSAL: Final = "hdpstats refusal 1"
SIGNED_REFUSAL: Final = "hdpstats signed refusal 1"
LONGEST_REFUSAL: Final = 1000
CHARGED: Final = "charged_before"
"""A field of a refusal, true: a query of its request was charged, then or before. It is left out where none was."""

Answers = tuple[tuple[Query, Release], ...]


@final
@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class ReleaseFile:
    """The answers of a site to one request.

    Attributes
    ----------
    request_sha256 : str
        Which request was answered.
    facts : Facts
        The public facts about the site.
    answers : tuple of (Query, Release)
        What it answered, in order; releases have their places in the ledger.
    version : str
        The version of hdpstats that answered.
    signature : FileSignature or None
        Who answered, where the site holds a key.
    """

    request_sha256: str
    facts: Facts
    answers: Answers
    version: str = __version__
    signature: FileSignature | None = None

    def to_json(self) -> str:
        """Return the canonical JSON text."""
        fields = self._fields()
        whole = {**fields, "sha256": codec.sha256(fields)}
        if self.signature is not None:
            whole["signature"] = self.signature.to_dict()
        return codec.dumps(whole)

    @property
    def statement(self) -> dict[str, str]:
        """What is signed."""
        return {"format": SIGNED, "sha256": codec.sha256(self._fields())}

    def signed(self, key: SigningKey | Place) -> Self:
        """Return the file with the signature of a private key, or of its file."""
        private = SigningKey.read(key)  # type: ignore[arg-type]
        return replace(self, signature=FileSignature(key=private.public.id, value=private.sign(self.statement)))

    def check_signature(self, key: VerifyingKey) -> None:
        """Refuse a file that a key did not sign, as a whole or in one of its releases.

        Raises
        ------
        SignatureError
            ``reason`` is "unsigned", "other key" or "forged".
        """
        if self.signature is None:
            raise SignatureError(
                "the release file has no signature: its site holds no key, or the signature was taken away",
                reason="unsigned",
            )
        key.check(self.statement, key=self.signature.key, value=self.signature.value, what="the release file")
        for query, each in self.answers:
            check_release(each, [key], query=query)

    def _fields(self) -> dict[str, Any]:
        """Return all but the hash and the signature."""
        return {
            "format": FORMAT,
            "hdpstats": self.version,
            "request": self.request_sha256,
            "facts": self.facts.to_dict(),
            "columns": list(self.facts.schema),  # in their order, which sorted keys would lose
            "answers": [
                {
                    "query": codec.loads(query.to_json()),
                    "release": codec.loads(release.to_json()),
                    "entry": None if release.entry is None else release.entry.to_dict(),
                }
                for query, release in self.answers
            ],
        }

    @classmethod
    def read(cls, path: Place) -> "ReleaseFile":
        """Read a file that a site wrote.

        Raises
        ------
        ArgumentError
            There is no such file, it is something else or was altered, or is of another format.
        """
        return cls.from_bytes(read_bytes(path, name="release"), place=path)

    @classmethod
    def is_at(cls, path: Place, *, request: str, held: HeldData) -> bool:
        """Whether a file is the release file of a request, by its SHA-256, of one version of one data set."""
        return cls.answers_at(path, request=request, held=held) is not None

    @classmethod
    def answers_at(cls, path: Place, *, request: str, held: HeldData | None, folder: int | None = None) -> int | None:
        """Return how many answers the file has that `is_at` asks about, in an open folder; None where it is none.

        Without ``held`` it may be of any data.
        """
        try:
            found = cls.from_bytes(read_bytes(path, name="release", folder=folder), place=path)
        except HdpError:
            return None
        same = found.request_sha256 == request and held in (None, found.site().held)
        return len(found.answers) if same else None

    @classmethod
    def from_bytes(cls, content: bytes, *, place: Place = "release") -> "ReleaseFile":
        """Read the bytes of a file; see `read`."""
        if _is_refusal(content):
            raise ArgumentError(
                f"release: {shown(str(place))} is a refusal and no release file; hdp.read_result says what it is for",
                argument="release",
            )
        fields, text = fields_in(content, name="release", format=FORMAT, place=place)
        try:
            signature = fields.pop("signature", None)
            whole = fields.pop("sha256") == codec.sha256(fields)
            facts, schema = fields["facts"], fields["facts"]["schema"]
            ordered = {**schema, "columns": {name: schema["columns"][name] for name in fields["columns"]}}
            read = cls(
                request_sha256=str(fields["request"]),
                facts=Facts.from_dict({**facts, "schema": ordered}),
                answers=tuple(_answer(each) for each in fields["answers"]),
                version=str(fields["hdpstats"]),
                signature=None if signature is None else FileSignature(**signature),
            )
            whole = whole and read.to_json() == text
        except (HdpError, *UNREADABLE):
            whole = False
        if not whole:
            raise ArgumentError(
                f"release: {shown(str(place))} is not a release file as a site wrote it; it was altered, or is not "
                f"whole: ask the custodian for it again, which costs nothing{other_version(fields)}",
                argument="release",
            )
        return read

    def site(
        self, *, otherwise: str | None = None, differs: str | None = None, awaited: bool = False
    ) -> "RecordedSite":
        """Return a site that gives these answers, and no other.

        Parameters
        ----------
        otherwise
            What it says where it has no answer.
        differs
            What it says there while it has answers that nobody asked for.
        awaited
            Whether it will have an answer there (`StillToCome`).
        """
        return RecordedSite(self, otherwise=otherwise, differs=differs, awaited=awaited)


def refusal_json(request_sha256: str, code: str, facts: Mapping[str, object], *, key: SigningKey | None = None) -> str:
    """Return the canonical text of a file that says why a request was refused: a code of the service, public facts.

    With the private key of the site it is signed: the field ``signature`` is as in a release file.
    """
    fields = {"format": REFUSAL, "request": request_sha256, "error": code, **facts}
    if key is None:
        return codec.dumps(fields)
    signature = FileSignature(key=key.public.id, value=key.sign(_refused(fields)))
    return codec.dumps({**fields, "signature": signature.to_dict()})


def _refused(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return what is signed of a refusal."""
    return {"format": SIGNED_REFUSAL, "sha256": codec.sha256(fields)}


QUERY_CHARGED: Final = (
    "But a query of this request was charged, and stays charged: what was released of it, the same request gets for "
    "nothing at the same version of the data and under the same terms, once the rest may be answered"
)
"""What is said of a refusal of a request that was charged."""

CHARGED_BEFORE: Final = (
    f"{QUERY_CHARGED}. The propensity model of weighted people is had alone there, by a request `propensity` of the "
    "same formula, epsilon and replicate, which costs nothing"
)
"""The same, where the request asks about weighted people or may do so."""


def _is_refusal(content: bytes) -> bool:
    return len(content) <= LONGEST_REFUSAL and REFUSAL.encode() in content


def _check_answered(content: bytes, request_sha256: str, key: VerifyingKey | None) -> None:
    """Raise what a refusal says, where a file is one and no release; that of another request says nothing of this.

    With a key, one that was not signed with it says nothing either.
    """
    if not _is_refusal(content):
        return
    fields, _ = fields_in(content, name="release", format=REFUSAL, place="the refusal")
    signature = fields.pop("signature", None)
    if key is not None:
        _check_refusal(fields, signature, key)
    if fields.get("request") != request_sha256:
        raise ArgumentError(
            f"release: it is the refusal of another request ({shown(str(fields.get('request'))[:12])}) than this one "
            f"({request_sha256[:12]})",
            argument="release",
        )
    refusal = CODES.get(str(fields.get("error")))
    if refusal is not None:
        before = f". {CHARGED_BEFORE}" if fields.get(CHARGED) is True else ""
        raise refusal.error(f"{refusal.message}{before}", code=str(fields["error"]))


def _check_refusal(fields: Mapping[str, Any], signature: Any, key: VerifyingKey) -> None:
    """Refuse a refusal that a key did not sign."""
    try:
        signed = FileSignature(**signature)
    except (HdpError, *UNREADABLE):
        raise SignatureError(
            "the file is a refusal without a signature, so that nothing shows that the site wrote it: whoever carried "
            "it may have put it in the place of a release. Its site holds no key, or wrote it with an older version of "
            "hdpstats, or the signature was taken away: ask the custodian what the site answered. Without key= it is "
            "read as it is",
            reason="unsigned",
        ) from None
    key.check(_refused(fields), key=signed.key, value=signed.value, what="the refusal")


def _answer(fields: Mapping[str, Any]) -> tuple[Query, Release]:
    entry, query = fields["entry"], query_from_json(codec.dumps(fields["query"]))
    release = release_from_json(codec.dumps(fields["release"]))
    return query, release if entry is None else release.at(LedgerEntry.from_dict(entry))


@final
class RecordedSite(Site):
    """A site that gives the answers of a release file: nothing is charged, and nothing else is answered."""

    def __init__(
        self,
        release_file: ReleaseFile,
        *,
        otherwise: str | None = None,
        differs: str | None = None,
        awaited: bool = False,
    ) -> None:
        self._file, self._otherwise, self._differs, self._awaited = release_file, otherwise, differs, awaited
        self._answers = {query.question(): release for query, release in release_file.answers}
        self._used: set[str] = set()

    @property
    def lacks(self) -> bool:
        """Whether it was asked what it has no answer to."""
        return bool(self._used - self._answers.keys())

    @property
    def unused(self) -> int:
        """How many of its answers nobody asked for."""
        return len(self._answers.keys() - self._used)

    @property
    def schema(self) -> Schema:
        """The custodian's schema."""
        return self._file.facts.schema

    @property
    def records(self) -> int:
        """The public number of people."""
        return self._file.facts.records

    @property
    def terms(self) -> SiteTerms:
        """Who is protected."""
        return self._file.facts.terms

    @property
    def place(self) -> str:
        """Where the records are, in words."""
        return "at a site that answered by a file"

    @property
    def held(self) -> HeldData:
        """Which data the site holds."""
        facts = self._file.facts
        return HeldData(dataset=facts.dataset, version=facts.version, account=facts.account)

    def put_public(self, table: PublicTable) -> None:
        """Check that the rows are for this schema; recorded answers need none."""
        self._check_public(table)

    def received(self, query: Query) -> Release | None:
        """Return the recorded release of a query; None where the site was not asked it."""
        return self._answers.get(query.question())

    def answer(self, query: Query) -> Release:
        """Return the recorded release of a query.

        Raises
        ------
        StillToCome, SiteError
            The site was not asked it, yet or ever.
        """
        release = self.received(query)
        self._used.add(query.question())
        if release is None and self._awaited:
            raise StillToCome("it has not been asked this yet")
        if release is None:
            raise SiteError(
                (self._differs if self.unused else None)
                or self._otherwise
                or "the release file has no answer to what this request asks: the site did not complete it, or the "
                f"file is of another version of hdpstats (it was answered with {self._file.version}, and this is "
                f"{__version__}). Have the same request answered again: what was charged is not charged again"
            )
        return release


JOINT: Final = (
    "these sites cannot be combined: at several sites this question asks each of them something that depends on what "
    "the others released, which takes joint rounds, and one file of each does not have these answers. Read each file "
    "by itself, and combine the results with hdp.aggregate"
)

Releases = Place | Sequence[Place] | Mapping[str, Place]


def read_result(
    release: Releases,
    request: Place | RequestFile,
    *,
    public: pd.DataFrame | None = None,
    key: Place | Mapping[str, Place] | None = None,
) -> Any:
    """Read a site's answer to a request file, and return its result: spends nothing.

    It is the result that ``fit`` of the same model returns afterwards on the same ledger.

    Parameters
    ----------
    release
        The file that the custodian sent; of several sites a list of theirs, or a dictionary by the sites' names. They
        are combined as the ordinary call at these sites combines them: descriptions, curves and distributions always,
        unless people are weighted by a propensity model. A fit may ask each site something that depends on what others
        released. Where it does, no such file has the answer, and an error says so: read each by itself, and combine the
        results with `hdpstats.api.aggregate`.
    request
        The request, or its file.
    public
        The public rows, where the request names them without having them.
    key
        The site's public key (``STEM.pub`` of ``hdpstats site signing-key``): then the file, and every release in it,
        must be signed with it; so must a refusal. Without it, nothing shows that it was the site that wrote the file.
        Of several sites a dictionary by their names.

    Returns
    -------
    Result, Description, Balance, SurvivalCurves, Propensity or TreatmentEffect
        What the function that the request names returns.

    Raises
    ------
    ArgumentError, SiteError, SchemaError
        The file is no release file, was altered, answers another request, or does not have all answers or has others.
    LedgerError
        The file, be it a refusal, or a release in it has no signature by the key.

    Examples
    --------
    After ``hdpstats site answer site.yaml request.json --out release.json``::

        fit = hdp.read_result("release.json", "request.json", key="site.pub")
        print(fit.summary())
    """
    asked = request if isinstance(request, RequestFile) else RequestFile.read(request)
    several = isinstance(release, Mapping | list | tuple)
    files = _named(release)
    keys = key if isinstance(key, Mapping) else dict.fromkeys(files, key)
    if not files or set(keys) != set(files):
        raise ArgumentError("key must have one for each site, by the names of the release files", argument="key")
    sites = {name: _answered(place, asked, keys[name]).site() for name, place in files.items()}
    study = asked.study(sites if several else next(iter(sites.values())), public)
    try:
        with asked.in_its_recipe():
            result = asked.question.ask(study)
    except HdpError:
        if len(sites) > 1 and any(site.lacks for site in sites.values()):
            raise SiteError(JOINT) from None
        raise
    if any(site.lacks for site in sites.values()):  # which a study of several leaves out
        raise SiteError(JOINT)
    if any(site.unused for site in sites.values()):
        raise SiteError("the release file has answers that its request does not ask for; ask the custodian for it anew")
    return result


def _named(release: Releases) -> dict[str, Place]:
    """Return release files by the names of their sites."""
    if isinstance(release, Mapping):
        return dict(release)
    if isinstance(release, list | tuple):
        return {f"site {number}": each for number, each in enumerate(release, start=1)}
    return {"": release}  # type: ignore[dict-item]


def _answered(place: Place, asked: RequestFile, key: Place | None) -> ReleaseFile:
    """Return the release file at a place, which answers a request and is signed with a key."""
    content, verifying = read_bytes(place, name="release"), None if key is None else VerifyingKey.read(key)  # type: ignore[arg-type]
    _check_answered(content, asked.sha256, verifying)
    answered = ReleaseFile.from_bytes(content, place=place)
    if answered.request_sha256 != asked.sha256:
        raise ArgumentError(
            f"release: {shown(str(place))} answers another request ({shown(answered.request_sha256[:12])}) than this "
            f"one ({asked.sha256[:12]}); give the request that was sent",
            argument="release",
        )
    if verifying is not None:
        answered.check_signature(verifying)
    return answered
