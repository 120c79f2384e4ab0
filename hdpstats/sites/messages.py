"""What a site shows and is shown: its public facts, the cost of a query, an account, public rows, refusals.

A refusal has one of the fixed codes at the end of this module: they are all that a response says where it does not
answer. Whatever an error inside a site says stays there, in the custodian's log.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Final, Self, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import (
    ArgumentError,
    BudgetError,
    FormulaError,
    HdpError,
    InsufficientBudget,
    LedgerError,
    MechanismError,
    QuotaExceeded,
    SchemaError,
    SiteError,
)
from hdpstats.ledger import Ledger
from hdpstats.privacy.budget import Spend
from hdpstats.records import codec
from hdpstats.records.codec import Record, WrittenBy
from hdpstats.schema.columns import Binary, Categorical, Column
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.sites.site import SiteTerms

FORMAT = 4
"""The number of this format; a site and an asker with different ones do not talk."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Facts(Record):
    """The public facts about a site.

    Attributes
    ----------
    schema : Schema
        What the custodian declares about the columns.
    terms : SiteTerms
        Who is protected.
    records : int
        The public number of people, else the declared one.
    dataset, version : str, int
        The custodian's name of the data, and their revision.
    account : str
        The identity of the account that answers are charged to; every release has it too.
    format : int
        The number of the format in which a site and an asker talk.

    Raises
    ------
    SiteError
        If the format is not this one.
    """

    schema: Schema
    terms: SiteTerms
    records: int
    dataset: str
    version: int
    account: str
    format: int = FORMAT

    def __post_init__(self) -> None:
        """Refuse another format."""
        check_format(self.format)


def check_format(number: object) -> None:
    """Refuse to talk to a site with another number of the format than this one."""
    if type(number) is not int:
        raise SiteError("the site's response cannot be read; is the URL that of a site of hdpstats?")
    if number != FORMAT:
        older = (
            "the site is the older one: ask its custodian to" if number < FORMAT else "this package is the older one:"
        )
        raise SiteError(
            f"the site talks in format {number} of hdpstats, and this package in format {FORMAT}; {older} install the "
            "newer version"
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Quote(Record):
    """The columns and the cost of one query.

    Attributes
    ----------
    columns : tuple of str
        The declared columns that the answer would be computed from, in alphabetical order.
    cost : Spend
        What the answer is charged, at least the floor of the account; nothing where the same query was answered before,
        which a quote does not look up.
    ahead : Spend
        What later rounds of the same fit will be charged, which must be affordable too.
    seconds : float or None
        The length of the slot in which a remote site computes the answer; None from a site in this process, which
        answers when it has computed.
    """

    columns: tuple[str, ...]
    cost: Spend
    ahead: Spend
    seconds: float | None = None


def _columns(history: pd.DataFrame) -> dict[str, list[Any]]:
    return {str(name): [_plain(cell) for cell in history[name].tolist()] for name in history}


def _plain(cell: Any) -> Any:
    if isinstance(cell, pd.Timestamp):
        return cell.isoformat()
    return None if cell is pd.NA or (isinstance(cell, float) and math.isnan(cell)) else cell


def _history(columns: Mapping[str, Any]) -> pd.DataFrame:
    frame = pd.DataFrame({str(name): listed for name, listed in columns.items()})
    return frame.assign(at=pd.to_datetime(frame["at"], utc=True).astype("datetime64[s, UTC]"))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AnalystAccount(Record):
    """What one analyst has received from a site, and may still receive.

    Attributes
    ----------
    spent : Spend
        What the releases that he received amount to; it may show what others had spent, see below.
    remaining : Spend or None
        What further releases without Gaussian noise may amount to under his cap; None where nobody has a cap. The total
        of all analysts together may leave less.
    history : DataFrame
        One row per release that he was charged for, as `hdpstats.ledger.Ledger.history` has it; numbers and dates are
        of his own charges. Nothing in it depends on what others asked, but for releases that were charged more than
        once (`hdpstats.ledger.analysts`).

    Notes
    -----
    What he has received before his first cap with Gaussian noise is charged to the part that the whole account has set
    aside (`hdpstats.ledger.analysts`). That part depends on what others had spent before it was set aside, unless the
    custodian declared it. So ``spent`` and ``remaining`` then show him how much that was. To avoid this, grant caps
    before the first release, or open the ledger with ``gaussian=``.
    """

    spent: Spend
    remaining: Spend | None
    history: Annotated[pd.DataFrame, WrittenBy(_columns, _history)]

    @classmethod
    def of(cls, analyst: str, ledger: Ledger) -> Self:
        """Return an analyst's part of a ledger."""
        cap = ledger.caps.get(analyst)
        return cls(
            spent=ledger.spent_by(analyst),
            remaining=None if cap is None else cap.remaining,
            history=ledger.history(analyst),
        )

    def __str__(self) -> str:
        left = "no cap" if self.remaining is None else f"left {self.remaining}"
        noun = "release" if len(self.history) == 1 else "releases"
        return f"{len(self.history)} {noun}; spent {self.spent}; {left}"


LONGEST_HEADER: Final = 1_000_000
"""Bytes of the first line of public rows: names of columns, and hashes."""

NUMBERS_AS: Final = np.dtype("<f8")
CODES_AS: Final = np.dtype("<i4")
PERSONS_AS: Final = np.dtype("<i8")


def public_to_bytes(table: PublicTable) -> bytes:
    """Return public rows as bytes: one line of JSON, and then the columns one after the other.

    The line has the SHA-256 of the rows and that of the schema they were checked against, the number of rows, the names
    of the columns in their order, and whether rows name persons. Each column is an array of as many cells as there are
    rows, little-endian: of numbers 64-bit floats, NaN where one is missing; of levels (and of labels of 0 and 1) 32-bit
    positions among the levels of the schema, -1 where one is missing; last the persons, 64-bit numbers.

    What a reader needs follows from the line, and is as long as the bytes are: nothing is compressed, nothing expands,
    and no parser goes over the cells.
    """
    persons = table.raw(()).persons
    header = {
        "schema_sha256": table.schema.sha256,
        "sha256": table.sha256,
        "rows": table.rows,
        "columns": list(table.names),
        "persons": persons is not None,
    }
    parts = [f"{codec.dumps(header)}\n".encode()]
    for name in table.names:
        labels = _labels(table.schema[name])
        if labels is None:
            parts.append(table.numbers[name].astype(NUMBERS_AS).tobytes())
        else:
            codes = table.codes[name] if name in table.codes else np.nan_to_num(table.numbers[name], nan=-1.0)
            parts.append(codes.astype(CODES_AS).tobytes())
    if persons is not None:
        parts.append(persons.astype(PERSONS_AS).tobytes())
    return b"".join(parts)


def public_from_bytes(content: bytes, *, schema: Schema, unit: str | None) -> PublicTable:
    """Read what `public_to_bytes` wrote and check it as any public rows.

    The rows must have the SHA-256 that they are said to have: what was put is what queries will name.

    Raises
    ------
    ValueError
        The first line is not such a line: what was sent are no public rows.
    SiteError
        The line does not fit the schema, or the cells are not those that it speaks of.
    SchemaError
        A cell is not one that public rows may have.
    """
    fields, start = _header(content)
    names, rows = fields["columns"], fields["rows"]
    if fields["schema_sha256"] != schema.sha256:
        raise SiteError("the public rows were checked against another schema than this site's")
    whole = type(rows) is int and rows >= 0 and type(fields["persons"]) is bool
    if not whole or not isinstance(names, list) or not all(isinstance(name, str) and name in schema for name in names):
        raise SiteError("public rows must have declared columns only, a number of rows, and persons or none")
    kinds: list[np.dtype[Any]] = [NUMBERS_AS if _labels(schema[name]) is None else CODES_AS for name in names]
    kinds += [PERSONS_AS] if fields["persons"] else []
    if len(set(names)) < len(names) or not kinds or len(content) - start != rows * sum(kind.itemsize for kind in kinds):
        raise SiteError("public rows must have each column once, with one cell for each row")
    arrays: list[Any] = []
    for kind in kinds:
        arrays.append(np.frombuffer(content, dtype=kind, count=rows, offset=start).astype(kind.newbyteorder("=")))
        start += rows * kind.itemsize
    frame = pd.DataFrame(
        {name: _cells(schema[name], array) for name, array in zip(names, arrays, strict=False)}, index=range(rows)
    )
    if unit is not None and fields["persons"] and unit not in frame:
        if not ((arrays[-1] >= 0) & (arrays[-1] < rows)).all():
            raise SiteError("persons must be whole numbers below that of the rows")
        frame[unit] = arrays[-1]
    table = PublicTable.from_frame(frame, schema, (), unit=unit if fields["persons"] else None)
    if table.sha256 != fields["sha256"]:
        raise SiteError("the public rows do not have the SHA-256 that they are said to have")
    return table


def _header(content: bytes) -> tuple[dict[str, Any], int]:
    """Return the fields of the first line of public rows, and where their cells begin."""
    end = content.find(b"\n", 0, LONGEST_HEADER)
    fields = codec.loads(codec.bounded(content[: max(end, 0)].decode()))
    if not isinstance(fields, dict) or set(fields) != {"schema_sha256", "sha256", "rows", "columns", "persons"}:
        raise ValueError("public rows must begin with a line that has their columns, persons, number and hashes")
    return fields, end + 1


def _labels(column: Column) -> tuple[str, ...] | None:
    """Return the texts that a column's cells are positions in, or None where they are numbers."""
    return column.levels if isinstance(column, Categorical) else column.labels if isinstance(column, Binary) else None


def _cells(column: Column, cells: Any) -> Any:
    labels = _labels(column)
    if labels is None:
        return cells
    if not ((cells >= -1) & (cells < len(labels))).all():
        raise SiteError("a cell of levels must be a position among them, or -1")
    return pd.Categorical.from_codes(cells, categories=pd.Index(labels))


@final
@dataclass(frozen=True, slots=True)
class Refusal:
    """How a refusal looks: the status of the response, the error that the asker meets, and what that says."""

    status: int
    error: type[HdpError]
    message: str


CODES: Final[Mapping[str, Refusal]] = MappingProxyType(
    {
        "unauthenticated": Refusal(
            401,
            SiteError,
            "the site does not accept the token: it is missing, expired, forged, or meant for another site or "
            "certificate; ask the custodian for a new one",
        ),
        "unknown-analyst": Refusal(
            403,
            SiteError,
            "the site's settings list no analyst of the token's name; ask the custodian to be entered",
        ),
        "forbidden": Refusal(
            403,
            SiteError,
            "the custodian does not permit this query to you, and nothing was charged for it; site.permissions says "
            "which mechanisms, models and columns you may ask for",
        ),
        "not-found": Refusal(404, SiteError, "the site has no such address; is the URL that of a site of hdpstats?"),
        "malformed": Refusal(
            400, SiteError, "the site cannot read the request, and nothing was charged; do versions of hdpstats differ?"
        ),
        "unknown-recipe": Refusal(
            422,
            SiteError,
            "the query is of a recipe that the site's version of hdpstats does not know, and nothing was charged; ask "
            "with a version that the site knows, or ask the custodian to update",
        ),
        "not-received": Refusal(
            404, SiteError, "you have not received an answer to this query from the site; nothing was charged"
        ),
        "too-slow": Refusal(408, SiteError, "the request did not arrive in time, and nothing was charged; repeat it"),
        "too-large": Refusal(
            413,
            SiteError,
            "the request is longer than the site accepts, or asks for more, and nothing was charged for it; send, or "
            "ask for, fewer rows or a smaller model, or ask the custodian for a larger limit",
        ),
        "no-length": Refusal(
            411,
            SiteError,
            "the request does not say how long its body is, and nothing was charged; a proxy on the way to the site "
            "must pass Content-Length on",
        ),
        "busy": Refusal(
            503,
            SiteError,
            "the site has as many requests or bytes of yours, or of all analysts, under way as it takes, and nothing "
            "was charged; wait for your other requests, and repeat this one",
        ),
        "too-many": Refusal(
            429,
            SiteError,
            "you sent more requests in a minute than the custodian allows, and nothing was charged; repeat it in a "
            "minute",
        ),
        "too-long": Refusal(
            422,
            MechanismError,
            "the answer would take longer than the custodian allows, and nothing was charged for it; ask for a smaller "
            "model",
        ),
        "stopped": Refusal(
            403,
            SiteError,
            "several of your answers took longer than predicted, and the site answers new queries of yours only after "
            "its custodian has looked into it (hdpstats site resume); nothing was charged for this one",
        ),
        "insufficient-budget": Refusal(
            409,
            InsufficientBudget,
            "the site's ledger refuses: the release would cost more than is left, in all or to you. Nothing was "
            "charged for it: ask for less, or use a release charged before; site.account() says what you have received",
        ),
        "quota": Refusal(
            409,
            QuotaExceeded,
            "what you ask for takes more charges, or more to store, than the custodian allows you, and nothing was "
            "charged for it; use a release that was charged before, or ask the custodian for more",
        ),
        "budget": Refusal(
            409, BudgetError, "the query costs more privacy than the site allows at once, and nothing was charged"
        ),
        "mechanism": Refusal(
            422, MechanismError, "no proof covers this query at this site, and nothing was charged; ask another one"
        ),
        "formula": Refusal(
            422, FormulaError, "the site cannot read the formula under its schema, and nothing was charged"
        ),
        "schema": Refusal(422, SchemaError, "what was sent does not fit the site's schema, and nothing was charged"),
        "argument": Refusal(422, ArgumentError, "the site does not accept a value of the query; nothing was charged"),
        "site": Refusal(
            422,
            SiteError,
            "the site refused the query, or could not complete it (then the budget stays charged, and the same query "
            "may be sent again); was it written for the site's schema and people?",
        ),
        "ended": Refusal(
            422,
            SiteError,
            "processes of the site ended, or had not enough memory, while they read or answered this request, which "
            "may take more memory than there is; the site refuses it until its custodian has it answered (hdpstats "
            "site answer). Ask for a smaller model, or with fewer public rows, or ask the custodian",
        ),
        "ledger": Refusal(
            503,
            LedgerError,
            "the site's ledger cannot be used now: repeat the call later, or ask the custodian, whose log says why; a "
            "query that was charged is not charged again",
        ),
        "failed": Refusal(
            500,
            SiteError,
            "the site failed; the custodian's log says where. A charge is not made again for the same query",
        ),
    }
)
"""Every refusal by its code."""


_OF_CLASSES = ("insufficient-budget", "quota", "budget", "mechanism", "formula", "schema", "argument", "site", "ledger")
_OWN: Final = {CODES[code].error: code for code in _OF_CLASSES}
"""The codes of errors of the package by their classes."""

NUMBERS: Final = ("seconds", "limit")
"""Public numbers that may come with a refusal: what was predicted, and what the custodian allows."""


def code_of(error: HdpError) -> str:
    """Return the code of an error: that of its own class, or of the nearest class above it."""
    return next((_OWN[kind] for kind in type(error).__mro__ if kind in _OWN), "failed")


class RequestRefused(Exception):  # noqa: N818  (a code, not an error)
    """A request is refused with a code, and public numbers that go with it.

    ``wait`` are the seconds after which the same request may be sent again, where waiting helps.
    """

    def __init__(self, code: str, *, wait: float | None = None, **numbers: float) -> None:
        super().__init__(code)
        self.code, self.wait, self.numbers = code, wait, numbers
