"""What an analyst asks a site for, as a file: canonical JSON without a private row.

``format``         ``"hdpstats request 1"``
``hdpstats``       the version that wrote it
``question``       kind, what, options and spending (`hdpstats.exchange.questions.Question`)
``schema_sha256``  the schema that the question was written for
``public``         null, or the public rows: their SHA-256, and either their ``columns`` (cells in order; null where one
                   is missing) and ``persons`` (numbers, or null), or no such keys where they are sent otherwise
``signature``      left out, or the ``key`` of its author and the ``value`` of the signature (Ed25519)

The SHA-256 of the canonical text without the signature names the request; a release file has it, and it is what is
signed, after the words `SIGNED`.
"""

import hashlib
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Self, final

import numpy as np
import pandas as pd

from hdpstats import __version__
from hdpstats._base.errors import ArgumentError, HdpError, SiteError, forgets_rows
from hdpstats._base.new_files import write_new
from hdpstats._base.validation import shown, truth
from hdpstats.exchange.files import FileSignature, Place, fields_in, other_version, read_bytes
from hdpstats.exchange.questions import KINDS, UNREADABLE, Question
from hdpstats.exchange.weighted_people import OfWeightedPeople
from hdpstats.ledger.records import checked_sha256
from hdpstats.ledger.signing import SignatureError, SigningKey, VerifyingKey
from hdpstats.records import codec, recipe
from hdpstats.schema.columns import NumericColumn
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.sites import Site, Study
from hdpstats.sites.study import checked_study

FORMAT: Final = "hdpstats request 1"
SIGNED: Final = "hdpstats signed request 1"
_SIGNATURE: Final = re.compile(rb',"signature":\{"key":"([0-9a-f]{16})","value":"([0-9a-f]{128})"\}\}\n?\Z')
"""The end of a request that is signed: the other keys come before this one."""
_END: Final = 300
"""Bytes that have it."""
_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RequestName:
    """What a request is called, and who signed it.

    Attributes
    ----------
    sha256 : str
        That of all but its signature.
    signature : FileSignature or None
        Whose request it is, where its author signed it.
    """

    sha256: str
    signature: FileSignature | None

    @classmethod
    def of(cls, content: bytes) -> "RequestName":
        """Return the name of the request that some bytes are, if they are one, without reading them.

        It takes no memory in proportion to them.
        """
        tail = max(len(content) - _END, 0)
        found = _SIGNATURE.search(content, tail)
        end = found.start() if found else len(content) - content.endswith(b"\n")
        hashed = hashlib.sha256(memoryview(content)[:end])
        if found is None:
            return cls(sha256=hashed.hexdigest(), signature=None)
        hashed.update(b"}")
        key, value = (part.decode() for part in found.groups())
        return cls(sha256=hashed.hexdigest(), signature=FileSignature(key=key, value=value))

    @property
    def statement(self) -> dict[str, str]:
        """What is signed."""
        return {"format": SIGNED, "request": self.sha256}

    def check_signature(self, key: VerifyingKey) -> None:
        """Refuse a request that a key did not sign.

        Raises
        ------
        SignatureError
            ``reason`` is "unsigned", "other key" or "forged".
        """
        if self.signature is None:
            raise SignatureError("the request has no signature", reason="unsigned")
        key.check(self.statement, key=self.signature.key, value=self.signature.value, what="the request")


@final
@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RequestFile:
    """A request: made by `request`, or read from a file.

    Attributes
    ----------
    question : Question
        What is asked.
    schema_sha256 : str
        The schema that it was written for.
    public_sha256 : str or None
        The public rows, None where there are none.
    columns, persons
        The public rows where they are attached.
    version : str
        The version of hdpstats that wrote it.
    recipe : int or None
        The recipe that queries are made by; None for the first.
    signature : FileSignature or None
        Whose request it is, where its author signed it.

    Raises
    ------
    ArgumentError
        A field is none of a request.
    """

    question: Question
    schema_sha256: str
    public_sha256: str | None
    columns: dict[str, list[Any]] | None = None
    persons: list[int] | None = None
    version: str = __version__
    recipe: int | None = field(default_factory=recipe.written)
    signature: FileSignature | None = None
    _sha256: list[str] = field(init=False, default_factory=list, compare=False)

    def __post_init__(self) -> None:
        """Refuse what no request has."""
        checked_sha256(self.schema_sha256, name="schema_sha256")
        if self.public_sha256 is not None:
            checked_sha256(self.public_sha256, name="public: sha256")
        if not isinstance(self.version, str) or not _VERSION.fullmatch(self.version):
            raise ArgumentError("hdpstats must be a version, such as 1.2.0", argument="hdpstats")

    def to_json(self) -> str:
        """Return the canonical JSON text."""
        fields = self._fields()
        if self.signature is not None:
            fields["signature"] = self.signature.to_dict()
        return codec.dumps(fields)

    def _fields(self) -> dict[str, Any]:
        """Return what is asked, without the signature."""
        question = self.question
        public: dict[str, Any] | None = None
        if self.public_sha256 is not None:
            public = {"sha256": self.public_sha256}
            if self.columns is not None:
                public |= {"columns": self.columns, "persons": self.persons}
        return {
            "format": FORMAT,
            "hdpstats": self.version,
            "question": {
                "kind": question.kind,
                "what": question.what,
                "options": dict(question.options),
                "spending": dict(question.spending),
            },
            "schema_sha256": self.schema_sha256,
            "public": public,
            **({} if self.recipe is None else {"recipe": self.recipe}),
        }

    def in_its_recipe(self) -> AbstractContextManager[None]:
        """Make queries by the recipe of the request, or an older one under which its call was charged before."""
        return recipe.using(self.recipe or 1)

    @property
    def sha256(self) -> str:
        """The name of the request: that of all but its signature. It is computed once: of 60 MB in a second."""
        if not self._sha256:
            self._sha256.append(hashlib.sha256(codec.dumps(self._fields()).encode()).hexdigest())
        return self._sha256[0]

    @property
    def name(self) -> RequestName:
        """What it is called, and who signed it."""
        return RequestName(sha256=self.sha256, signature=self.signature)

    def check_signature(self, key: VerifyingKey) -> None:
        """Refuse a request that a key did not sign; see `RequestName.check_signature`."""
        self.name.check_signature(key)

    def signed(self, key: SigningKey | Place) -> Self:
        """Return the request with the signature of a private key, or of its file."""
        private = SigningKey.read(key)  # type: ignore[arg-type]
        return replace(self, signature=FileSignature(key=private.public.id, value=private.sign(self.name.statement)))

    def write(self, path: Place) -> None:
        """Write the file as a whole, for whom the process lets read its files (its umask).

        Raises
        ------
        ArgumentError
            It cannot be written, or something else is there than a file of this request.
        """
        write_new(path, self.to_json() + "\n", name="path", same=partial(RequestFile.is_at, sha256=self.sha256))

    @classmethod
    def read(cls, path: Place) -> "RequestFile":
        """Read a file that `write` wrote.

        Raises
        ------
        ArgumentError
            There is no such file, it is something else, or it is of a format that this version does not read.
        SiteError
            Its queries would be made by a recipe that this version does not know. Nothing was charged.
        """
        return cls.from_bytes(read_bytes(path, name="request"), place=path)

    @classmethod
    def is_at(cls, path: Place, sha256: str) -> bool:
        """Whether a file is a request with a SHA-256."""
        try:
            return cls.read(path).sha256 == sha256
        except HdpError:
            return False

    @classmethod
    def from_bytes(cls, content: bytes, *, place: Place = "request") -> "RequestFile":
        """Read the bytes of a file; see `read`."""
        fields, text = fields_in(content, name="request", format=FORMAT, place=place)
        try:
            question, public, signature = fields["question"], fields["public"], fields.get("signature")
            read = cls(
                question=Question(**question),
                schema_sha256=fields["schema_sha256"],
                public_sha256=None if public is None else public["sha256"],
                columns=None if public is None else public.get("columns"),
                persons=None if public is None else public.get("persons"),
                version=fields["hdpstats"],
                recipe=fields.get("recipe"),
                signature=None if signature is None else FileSignature(**signature),
            )
            same = read.to_json() == text
        except HdpError:
            raise
        except UNREADABLE:
            same = False
        if not same:
            raise ArgumentError(
                f"request: {shown(str(place))} is not a request as hdpstats writes it; it was altered, or is not "
                f"whole: ask its author for it again{other_version(fields)}",
                argument="request",
            )
        recipe.check_known(read.recipe)
        return read

    def public_table(self, schema: Schema, unit: str | None, public: pd.DataFrame | None = None) -> PublicTable | None:
        """Return the public rows: those that are attached, or those that were sent otherwise and are named.

        Raises
        ------
        SiteError, SchemaError
            The request is for another schema, or the rows are not those that it names.
        """
        if self.schema_sha256 != schema.sha256:
            raise SiteError(
                "the request was written for another schema than this site's; its author needs the schema from the "
                "custodian, and writes the request anew. Nothing was charged"
            )
        if self.public_sha256 is None:
            if public is not None:
                raise ArgumentError("public must be left out: the request has no public rows", argument="public")
            return None
        if public is None and self.columns is None:
            raise ArgumentError(
                "public must be given: the request names its public rows by their hash, and does not have them",
                argument="public",
            )
        frame, persons = (public, unit) if public is not None else self._frame(schema, unit)
        try:
            table = PublicTable.from_frame(frame, schema, (), unit=persons)
        except HdpError:
            raise
        except UNREADABLE:
            raise SiteError("the public rows of the request cannot be read; ask its author for it again") from None
        if table.sha256 != self.public_sha256:
            raise SiteError("the public rows do not have the SHA-256 that the request says that they have")
        return table

    def _frame(self, schema: Schema, unit: str | None) -> tuple[pd.DataFrame, str | None]:
        try:
            columns = {str(name): cells for name, cells in (self.columns or {}).items()}
            strange = [name for name in columns if name not in schema]
            if strange or (self.persons is not None and unit is None):
                what = f"a column {shown(strange[0])}" if strange else "whose row each is"
                raise SiteError(f"the public rows of the request have {what}, which the schema does not declare")
            frame = pd.DataFrame({name: _cells(schema, name, cells) for name, cells in columns.items()})
            if unit is not None and self.persons is not None and unit not in frame:
                frame[unit] = np.asarray(self.persons, dtype=np.int64)
        except UNREADABLE:
            raise SiteError("the public rows of the request cannot be read; ask its author for it again") from None
        return frame, unit if self.persons is not None else None

    def study(
        self, site: Site | Mapping[str, Site], public: pd.DataFrame | None = None, *, quorum: int | None = None
    ) -> Study:
        """Return the study that the question is asked of: one site, or several by name, and the public rows."""
        one = site if isinstance(site, Site) else next(iter(site.values()))
        table = self.public_table(one.schema, one.unit, public)
        if table is None:
            return Study(private=site, quorum=quorum)
        frame = table.frame()
        if table.persons is not None and one.unit is not None and one.unit not in frame:
            frame[one.unit] = table.persons
        return Study(private=site, public=frame, quorum=quorum)

    def __repr__(self) -> str:
        rows = "no public rows" if self.public_sha256 is None else f"public rows {self.public_sha256[:12]}"
        return f"<request {self.sha256[:12]}: {self.question}; {self.question.spending_in_words}; {rows}>"


def _cells(schema: Schema, name: str, cells: object) -> Any:
    if not isinstance(cells, list) or not all(cell is None or isinstance(cell, str | int | float) for cell in cells):
        raise TypeError("no cells")
    if isinstance(schema[name], NumericColumn) and not any(isinstance(cell, str) for cell in cells):
        return np.asarray([np.nan if cell is None else cell for cell in cells], dtype=np.float64)
    return pd.Series(cells, dtype=object)


@forgets_rows
def request(
    model: str,
    formula: str | list[str],
    data: Study,
    *,
    epsilon: float,
    attach_public: bool = True,
    path: Place | None = None,
    key: Place | SigningKey | None = None,
    **options: Any,
) -> RequestFile:
    """Write down what is asked of a site, for its custodian to answer: spends nothing, and needs no private row.

    Parameters
    ----------
    model
        ``"logit"``, ``"linear"``, ``"quantile"``, ``"poisson"``, ``"multinomial"``, ``"hazard"``, ``"distribution"``,
        ``"survfit"``, ``"describe"``, ``"propensity"`` or ``"treatment_effect"``.
    formula
        What the function of that name takes: a formula; of a description the names of columns.
    data
        A study with the site's schema, and the public rows if there are any. It needs no private rows:
        ``hdp.Study(public=public, schema=schema)``.
    epsilon
        What the answer may cost each person. A treatment effect takes ``propensity_formula`` and
        ``propensity_epsilon`` besides, for the propensity model that is fitted first; ``"logit"``, ``"linear"``,
        ``"poisson"``, ``"hazard"``, ``"survfit"`` and ``"describe"`` may, and are then of people weighted by it.
        A propensity model that was released before costs nothing.
    attach_public
        Whether the public rows are in the file; else it names them by their SHA-256, and whoever answers it, and
        whoever reads the answer, gives the same rows.
    path
        Where the file is written: a new place, or that of an earlier file of the same request.
    key
        The author's private key (``STEM.key`` of ``hdpstats site signing-key``), which signs the request: sites whose
        settings name the public key know so who asks.
    options
        What the function and its ``fit`` or ``release`` take besides, as texts, numbers, true, false or lists.

    Raises
    ------
    ArgumentError, FormulaError, SchemaError
        The question cannot be asked: no site would answer it.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(age=hdp.Continuous(20, 90), event3=hdp.Binary())
    >>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
    >>> asked = hdp.request("logit", "event3 ~ age", study, epsilon=1)
    >>> asked.question
    Question(kind='logit', what='event3 ~ age', options={}, spending={'epsilon': 1})
    """
    study = checked_study(data)
    known = KINDS[model].options if isinstance(model, str) and model in KINDS else frozenset[str]()
    given = {name: _plain(value) for name, value in options.items()}
    question = Question(
        kind=model,
        what=_plain(formula),
        options={name: value for name, value in given.items() if name in known},
        spending={"epsilon": _plain(epsilon)} | {name: value for name, value in given.items() if name not in known},
    )
    opened = question.open(study)
    if isinstance(opened, OfWeightedPeople):
        opened.check()
    table = study.public
    columns = persons = None
    if table is not None and truth(attach_public, name="attach_public"):
        frame = table.frame().astype(object)
        columns = {str(name): frame[name].where(frame[name].notna(), None).tolist() for name in frame}
        persons = None if table.persons is None else table.persons.tolist()
    asked = RequestFile(
        question=question,
        schema_sha256=study.schema.sha256,
        public_sha256=None if table is None else table.sha256,
        columns=columns,
        persons=persons,
    )
    if columns is not None:
        asked.public_table(study.schema, study.unit)
    if key is not None:
        asked = asked.signed(key)
    if path is not None:
        asked.write(path)
    return asked


def _plain(value: Any) -> Any:
    """Return tuples and arrays as lists, numbers of NumPy as Python's, and whole ones as integers: R has 1.0."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
