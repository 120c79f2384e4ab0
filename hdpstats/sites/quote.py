"""What a query would read and cost: known before it is asked, from the query and public facts alone."""

from dataclasses import dataclass
from typing import final

from hdpstats.privacy.budget import Spend
from hdpstats.records.codec import Record


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Quote(Record):
    """The columns and the price of one query.

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
        How long after its charge a remote site hands the answer out; None from a site in this process, which answers
        when it has computed.
    """

    columns: tuple[str, ...]
    cost: Spend
    ahead: Spend
    seconds: float | None = None
