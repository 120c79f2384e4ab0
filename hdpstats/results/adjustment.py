"""How results of weighted people were adjusted: what they rest on besides their own releases, and how they err."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from hdpstats.display import percent
from hdpstats.inference.life_tables import HazardErrors
from hdpstats.records.codec import Record
from hdpstats.records.query import Release


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Imbalance(Record):
    """How much imbalance the noise of a propensity model is expected to leave in a column of its design.

    Attributes
    ----------
    name : str
        The column.
    difference : float
        The root mean square of the standardised difference of the weighted arms, in standard deviations.
    """

    name: str
    difference: float


def largest_imbalance(imbalance: Sequence[Imbalance]) -> str:
    """Return the three columns with the most imbalance left, in words."""
    worst = sorted(imbalance, key=lambda each: -each.difference)[:3]
    left = ", ".join(f"{each.name} {each.difference:.3f}" for each in worst)
    return f"{left} standard deviations (root mean square, expected from the noise)"


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Adjustment(Record):
    """How results of people weighted by their chance of treatment were adjusted.

    Attributes
    ----------
    formula : str
        That of the propensity model.
    before : tuple of Release
        The releases of the propensity model.
    errors : HazardErrors or None
        Of curves the errors of the hazards but for the noise of counts; None of other results, and of public rows
        alone.
    imbalance : tuple of Imbalance
        What the noise of the propensity is expected to leave.
    effective_share : float or None
        Kish's effective size over the number of people, predicted among raked public people; None of public rows alone.
    public_rows : int
        The public rows that errors rest on.
    """

    formula: str
    before: tuple[Release, ...]
    errors: HazardErrors | None
    imbalance: tuple[Imbalance, ...]
    effective_share: float | None
    public_rows: int

    @property
    def head(self) -> list[tuple[str, str]]:
        """Names and values for the head of a report."""
        rows = [("Propensity model:", self.formula), ("Weights:", "overlap")]
        if self.effective_share is not None:
            rows.append(("Effective size:", f"{percent(self.effective_share)} of all people, predicted"))
        return rows + ([("Imbalance left:", largest_imbalance(self.imbalance))] if self.imbalance else [])
