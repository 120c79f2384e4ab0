"""What a site says of costs: the price of a query before it is asked, and an analyst's own part of the ledger."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, final

import pandas as pd

from hdpstats.ledger import Ledger
from hdpstats.privacy.budget import Spend
from hdpstats.records.codec import Record, from_dict, to_dict


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
        How long after its charge a remote site hands the answer out; None from a site in this process, which answers
        when it has computed.
    """

    columns: tuple[str, ...]
    cost: Spend
    ahead: Spend
    seconds: float | None = None


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AnalystAccount:
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
        of his own charges. Nothing in it depends on what others asked.

    Notes
    -----
    What he has received before his first cap with Gaussian noise is charged to the part that the whole account has set
    aside (`hdpstats.ledger.analysts`). That part depends on what others had spent before it was set aside, unless the
    custodian declared it. So ``spent`` and ``remaining`` then show him how much that was. To avoid this, grant caps
    before the first release, or open the ledger with ``gaussian=``.
    """

    spent: Spend
    remaining: Spend | None
    history: pd.DataFrame

    @classmethod
    def of(cls, analyst: str, ledger: Ledger) -> Self:
        """Return an analyst's part of a ledger."""
        cap = ledger.caps.get(analyst)
        return cls(
            spent=ledger.spent_by(analyst),
            remaining=None if cap is None else cap.remaining,
            history=ledger.history(analyst),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the part as JSON values."""
        return {
            "spent": to_dict(self.spent),
            "remaining": None if self.remaining is None else to_dict(self.remaining),
            "history": {str(name): [_plain(cell) for cell in self.history[name].tolist()] for name in self.history},
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(
            spent=from_dict(Spend, fields["spent"]),
            remaining=None if fields["remaining"] is None else from_dict(Spend, fields["remaining"]),
            history=_history(fields["history"]),
        )

    def __str__(self) -> str:
        left = "no cap" if self.remaining is None else f"left {self.remaining}"
        noun = "release" if len(self.history) == 1 else "releases"
        return f"{len(self.history)} {noun}; spent {self.spent}; {left}"


def _plain(cell: Any) -> Any:
    if isinstance(cell, pd.Timestamp):
        return cell.isoformat()
    return None if cell is pd.NA or (isinstance(cell, float) and math.isnan(cell)) else cell


def _history(columns: Mapping[str, Any]) -> pd.DataFrame:
    frame = pd.DataFrame({str(name): listed for name, listed in columns.items()})
    return frame.assign(at=pd.to_datetime(frame["at"], utc=True).astype("datetime64[s, UTC]"))
