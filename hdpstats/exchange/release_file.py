"""What a site answered to a request, as a file, and how it is read.

``format``    ``"hdpstats release 1"``
``hdpstats``  the version that answered
``request``   the SHA-256 of the request
``facts``     the public facts about the site (`hdpstats.sites.messages.Facts`)
``columns``   the schema's columns in their order
``answers``   each query that the site answered, with its release and the release's place in the ledger
``sha256``    that of all the rest: a file that was damaged is noticed. Only a signature shows who answered

Reading asks the question of the request again, of a site that knows these answers and nothing else: the code is that of
``fit``, so the result is the one that ``fit`` returns when it finds the same releases in the ledger.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import pandas as pd

from hdpstats import __version__
from hdpstats._base.errors import ArgumentError, HdpError, SiteError
from hdpstats.exchange.request_file import UNREADABLE, Place, RequestFile, read_json
from hdpstats.ledger.signing import VerifyingKey, check_release
from hdpstats.mechanisms.registry import query_from_json, release_from_json
from hdpstats.records import codec
from hdpstats.records.query import LedgerEntry, Query, Release
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.sites import Site
from hdpstats.sites.messages import Facts
from hdpstats.sites.site import HeldData, SiteTerms

FORMAT: Final = "hdpstats release 1"

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
    """

    request_sha256: str
    facts: Facts
    answers: Answers
    version: str = __version__

    def to_json(self) -> str:
        """Return the canonical JSON text."""
        fields = {
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
        return codec.dumps({**fields, "sha256": codec.sha256(fields)})

    @classmethod
    def read(cls, path: Place) -> "ReleaseFile":
        """Read a file that a site wrote.

        Raises
        ------
        ArgumentError
            There is no such file, it is something else or was altered, or is of another format.
        """
        fields, content = read_json(path, name="release", format=FORMAT)
        try:
            whole = fields.pop("sha256") == codec.sha256(fields)
            facts, schema = fields["facts"], fields["facts"]["schema"]
            ordered = {**schema, "columns": {name: schema["columns"][name] for name in fields["columns"]}}
            read = cls(
                request_sha256=str(fields["request"]),
                facts=Facts.from_dict({**facts, "schema": ordered}),
                answers=tuple(_answer(each) for each in fields["answers"]),
                version=str(fields["hdpstats"]),
            )
            whole = whole and read.to_json() == content
        except (HdpError, *UNREADABLE):
            whole = False
        if not whole:
            raise ArgumentError(
                f"release: {path} is not a release file as a site wrote it; it was altered, or is not whole: ask the "
                "custodian for it again, which costs nothing",
                argument="release",
            )
        return read

    def site(self, *, otherwise: str | None = None) -> "RecordedSite":
        """Return a site that gives these answers, and no other; ``otherwise`` is what it says where it has none."""
        return RecordedSite(self, otherwise=otherwise)


def _answer(fields: Mapping[str, Any]) -> tuple[Query, Release]:
    entry, query = fields["entry"], query_from_json(codec.dumps(fields["query"]))
    release = release_from_json(codec.dumps(fields["release"]))
    return query, release if entry is None else release.at(LedgerEntry.from_dict(entry))


@final
class RecordedSite(Site):
    """A site that gives the answers of a release file: nothing is charged, and nothing else is answered."""

    def __init__(self, release_file: ReleaseFile, *, otherwise: str | None = None) -> None:
        self._file, self._otherwise = release_file, otherwise
        self._answers = {query.to_json(): release for query, release in release_file.answers}

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

    def answer(self, query: Query) -> Release:
        """Return the recorded release of a query.

        Raises
        ------
        SiteError
            The site was not asked it.
        """
        release = self._answers.get(query.to_json())
        if release is None:
            raise SiteError(
                self._otherwise
                or "the release file has no answer to what this request asks: the site did not complete it, or the "
                f"file is of another version of hdpstats (it was answered with {self._file.version}, and this is "
                f"{__version__}). Have the same request answered again: what was charged is not charged again"
            )
        return release


def read_result(
    release: Place, request: Place | RequestFile, *, public: pd.DataFrame | None = None, key: Place | None = None
) -> Any:
    """Read a site's answer to a request file, and return its result: spends nothing.

    It is the result that ``fit`` of the same model returns afterwards on the same ledger.

    Parameters
    ----------
    release
        The file that the custodian sent.
    request
        The request, or its file.
    public
        The public rows, where the request names them without having them.
    key
        The site's public key (``STEM.pub`` of ``hdpstats site signing-key``): then every release must be signed with
        it. Without it, nothing shows that it was the site that wrote the file.

    Returns
    -------
    Result, Description, SurvivalCurves, Propensity or TreatmentEffect
        What the function that the request names returns.

    Raises
    ------
    ArgumentError, SiteError, SchemaError
        The file is no release file, was altered, answers another request, or does not have all answers.
    LedgerError
        A release has no signature by the key.

    Examples
    --------
    After ``hdpstats site answer site.yaml request.json --out release.json``::

        fit = hdp.read_result("release.json", "request.json")
        print(fit.summary())
    """
    asked = request if isinstance(request, RequestFile) else RequestFile.read(request)
    answered = ReleaseFile.read(release)
    if answered.request_sha256 != asked.sha256:
        raise ArgumentError(
            f"release: {Path(release)} answers another request ({answered.request_sha256[:12]}) than this one "
            f"({asked.sha256[:12]}); give the request that was sent",
            argument="release",
        )
    if key is not None:
        keys = [VerifyingKey.read(Path(key))]
        for query, each in answered.answers:
            check_release(each, keys, query=query)
    return asked.question.ask(asked.study(answered.site(), public))
