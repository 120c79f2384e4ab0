"""What a site shows and is shown: its public facts, the cost of a query, an account, public rows, refusals.

A refusal has one of the fixed codes at the end of this module: they are all that a response says where it does not
answer. Whatever an error inside a site says stays there, in the custodian's log.
"""

import math
from collections.abc import Mapping, Sequence
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
from hdpstats.records.codec import Record, WrittenBy
from hdpstats.schema.columns import Binary, NumericColumn
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
        if self.format != FORMAT:
            raise SiteError("the site speaks another version of hdpstats' format; both sides need the same one")


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


def cells(column: "pd.Series[Any]") -> list[float | str | None]:
    """Return the cells of a column of numbers or of levels as JSON values: None where one is missing."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        levels = [*column.cat.categories.tolist(), None]
        return [levels[code] for code in column.cat.codes.tolist()]
    return [None if isinstance(cell, float) and math.isnan(cell) else cell for cell in column.tolist()]


def public_to_dict(table: PublicTable) -> dict[str, Any]:
    """Return public rows as JSON values, with their SHA-256 and that of the schema they were checked against."""
    frame = table.frame()
    persons = table.raw(()).persons
    return {
        "schema_sha256": table.schema.sha256,
        "sha256": table.sha256,
        "rows": table.rows,
        "columns": {name: cells(frame[name]) for name in table.names},
        "persons": None if persons is None else persons.tolist(),
    }


def public_from_dict(fields: Mapping[str, Any], *, schema: Schema, unit: str | None) -> PublicTable:
    """Read what `public_to_dict` wrote and check it as any public rows, or raise a `SiteError`.

    The rows must have the SHA-256 that they are said to have: what was put is what queries will name.
    """
    if set(fields) != {"schema_sha256", "sha256", "rows", "columns", "persons"}:
        raise SiteError("public rows must come with exactly their columns, persons, number and hashes")
    columns, rows, persons = fields["columns"], fields["rows"], fields["persons"]
    if fields["schema_sha256"] != schema.sha256:
        raise SiteError("the public rows were checked against another schema than this site's")
    if not isinstance(columns, dict) or not set(columns) <= set(schema) or not isinstance(rows, int):
        raise SiteError("public rows must have declared columns only, and a number of rows")
    if not all(_is_column(schema, name, listed, rows) for name, listed in columns.items()):
        raise SiteError("a public column must be a list of a number or a level for each row, null where it is missing")
    frame = pd.DataFrame({name: pd.Series(listed, dtype=object) for name, listed in columns.items()}, index=range(rows))
    if unit is not None and persons is not None and unit not in frame:
        if not _are_whole(persons, rows):
            raise SiteError("persons must be a list of a whole number for each row")
        frame[unit] = np.array(persons, dtype=np.int64)
    table = PublicTable.from_frame(frame, schema, (), unit=None if persons is None else unit)
    if table.sha256 != fields["sha256"]:
        raise SiteError("the public rows do not have the SHA-256 that they are said to have")
    return table


def _is_column(schema: Schema, name: str, listed: object, rows: int) -> bool:
    column = schema[name]
    labelled = isinstance(column, Binary) and column.labels is not None
    kind = float if isinstance(column, NumericColumn) and not labelled else str
    return (
        isinstance(listed, list) and len(listed) == rows and all(cell is None or type(cell) is kind for cell in listed)
    )


def _are_whole(persons: object, rows: int) -> bool:
    whole = isinstance(persons, Sequence) and len(persons) == rows and all(type(each) is int for each in persons)
    return whole and all(0 <= each < max(rows, 1) for each in persons)  # type: ignore[attr-defined]


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
            "the custodian does not permit this query to you, and nothing was charged; site.permissions says which "
            "mechanisms, models and columns you may ask for",
        ),
        "not-found": Refusal(404, SiteError, "the site has no such address; is the URL that of a site of hdpstats?"),
        "malformed": Refusal(
            400, SiteError, "the site cannot read the request, and nothing was charged; do versions of hdpstats differ?"
        ),
        "too-slow": Refusal(408, SiteError, "the request did not arrive in time, and nothing was charged; repeat it"),
        "too-large": Refusal(
            413, SiteError, "the request is longer than the site accepts, and nothing was charged; send fewer rows"
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
            "the answer would take longer than the custodian allows, and nothing was charged; ask for a smaller model",
        ),
        "stopped": Refusal(
            403,
            SiteError,
            "several of your answers took longer than predicted, and the site answers new queries of yours only after "
            "its custodian has looked into it (hdpstats site resume); nothing was charged",
        ),
        "insufficient-budget": Refusal(
            409,
            InsufficientBudget,
            "the site's ledger refuses: the release would cost more than is left, in all or to you. Nothing was "
            "charged: ask for less, or use a release charged before; site.account() says what you have received",
        ),
        "quota": Refusal(
            409,
            QuotaExceeded,
            "you have caused as many charges, or have as much stored, as the custodian allows, and nothing was "
            "charged; use a release that was charged before, or ask the custodian for more",
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
        "ledger": Refusal(
            503, LedgerError, "the site's ledger cannot be used; a query that was charged is not charged again"
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
    """A request is refused with a code, and public numbers that go with it."""

    def __init__(self, code: str, **numbers: float) -> None:
        super().__init__(code)
        self.code, self.numbers = code, numbers
