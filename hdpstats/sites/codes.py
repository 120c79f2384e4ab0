"""The fixed words of a remote site's refusals: all that a response says where it does not answer.

Whatever an error inside a site says stays there, in the custodian's log.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, final

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
            "charged: ask for less, or use a release that was paid for; site.account() says what you have received",
        ),
        "quota": Refusal(
            409,
            QuotaExceeded,
            "you have caused as many charges, or have as much stored, as the custodian allows, and nothing was "
            "charged; use a release that was paid for, or ask the custodian for more",
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
