"""Outcomes of two arms of people who are weighted by their chance of treatment: a noisy table of weighted cells.

Two-sided geometric noise on the total weight in each cell, arm by outcome. Guarantee: pure epsilon. Source: overlap
weights of Li, Morgan and Zaslavsky (2018); the noise after Ghosh, Roughgarden and Sundararajan (2012).
Use: `hdpstats.models.treatment_effect`. Proof: `hdpstats.mechanisms.treatment_effect.site`.

* ``estimate``: Means by arm from noisy cells, and the errors of effects by stacked estimating equations.
* ``site``: A noisy table of weights by arm and outcome, pure epsilon.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, final

from hdpstats._base.errors import MechanismError
from hdpstats.records.codec import LEFT_OUT
from hdpstats.records.overlap_weights import OverlapWeights
from hdpstats.records.query import ChargedQuery, ChargedRelease, check_pure

ARMS: Final = 2
BINARY, NUMBER = 2, 3
"""Cells of an arm: of a binary outcome its two values; of a number, or of a mean, three shares: see the site."""


def cells_of_arm(*, binary: bool, most_rows: int | None) -> int:
    """Return how many cells an arm has: 2 of an outcome that is 0 or 1, 3 of a number or of a mean of several."""
    return BINARY if binary and (most_rows is None or most_rows == 1) else NUMBER


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TreatmentEffectQuery(ChargedQuery):
    """Add up weights of people by arm and outcome.

    Attributes
    ----------
    weighting : OverlapWeights
        How people are weighted; the response of its formula is the treatment.
    outcome : str
        The column of the outcome.
    lower, upper : float
        Its declared bounds; 0 and 1 of a binary one.
    cells : int
        The cells of an arm: 2 of a binary outcome, 3 of a number and of a binary outcome's means over several rows.
    most_rows : int or None
        Of people with several rows the most of which the outcome is averaged; None, which JSON leaves out, where a
        person has one row.
    """

    kind: ClassVar[str] = "treatment_effect/1"
    weighting: OverlapWeights
    outcome: str
    lower: float = 0.0
    upper: float = 1.0
    cells: int = BINARY
    most_rows: Annotated[int | None, LEFT_OUT] = None

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that are read."""
        return tuple(dict.fromkeys((*self.weighting.columns, self.outcome)))

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self, "a treatment effect")
        if self.cells not in (BINARY, NUMBER):
            raise MechanismError("an arm has 2 cells of a binary outcome, or 3 of a number")
        if self.cells == BINARY and (self.lower, self.upper) != (0.0, 1.0):
            raise MechanismError("a binary outcome has the bounds 0 and 1")
        if self.most_rows is not None and self.most_rows < 1:
            raise MechanismError("most_rows must be 1 or more, or be left out where a person has one row")
        if self.cells < cells_of_arm(binary=True, most_rows=self.most_rows):
            raise MechanismError("an arm has 3 cells where an outcome is a mean over several rows")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TreatmentEffectRelease(ChargedRelease):
    """Noisy total weights in units of 2^-20; some may be below 0. All but ``weights`` is a public constant.

    Attributes
    ----------
    weights : tuple of int
        By arm, the untreated first, and cell.
    noise_sd : float
        The standard deviation of the noise in each, in people.
    """

    kind: ClassVar[str] = "treatment_effect/1"
    weights: tuple[int, ...]
    noise_sd: float
