"""How a fitted model does on private people: a noisy table of risk group and outcome.

Two-sided geometric noise on every cell of the table; concordance, Brier score and calibration are computed from it.
Guarantee: pure epsilon. Source: this package; the noise after Ghosh, Roughgarden and Sundararajan (2012).
Use: check a released model on the private records (`model.evaluate(result, epsilon=...)`).
Proof: `hdpstats.mechanisms.evaluation.site`.

* ``estimate``: How a model does, from a noisy table of risk groups and outcomes: concordance, Brier scores,
  calibration.
* ``site``: How a fitted model does on private people: a noisy table of risk group and outcome, pure epsilon.
"""

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import check_size
from hdpstats.records.limits import MOST_CAUSES
from hdpstats.records.model import HazardModel, RegressionModel, TimeGrid
from hdpstats.records.query import ChargedQuery, TableRelease, check_pure

MOST_GROUPS = 10
MOST_BINS = 12


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationQuery(ChargedQuery):
    """Count people by risk group and by what happened to them.

    The risk group of a person is the number of ``cuts`` that their linear predictor reaches. What happened is, for a
    binary outcome, 0 or 1. For survival it is an event of a cause in a bin of intervals, or censoring after so many
    whole bins; after all of them, the person reached the horizon.

    Attributes
    ----------
    formula : str
        The formula, read again by the site against its own schema.
    coefficients : tuple of float
        Of the design's columns; for a survival formula of the covariates' columns alone.
    offset : str or None
        A column of the schema that is added to the linear predictor.
    cuts : tuple of float
        Where groups meet, increasing.
    grid : TimeGrid or None
        The intervals of a survival formula; None for a binary outcome.
    ends : tuple of int
        The intervals that end a bin, increasing up to the last one; empty for a binary outcome.
    causes : int
        The number of causes; 1 for a binary outcome.
    """

    kind: ClassVar[str] = "evaluation/1"
    formula: str
    coefficients: tuple[float, ...]
    offset: str | None
    cuts: tuple[float, ...]
    grid: TimeGrid | None
    ends: tuple[int, ...]
    causes: int

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self, "an evaluation")
        numbers = (*self.coefficients, *self.cuts)
        if not (self.coefficients and all(math.isfinite(value) and abs(value) < 1e12 for value in numbers)):
            raise MechanismError("coefficients and cuts must be finite numbers below 1e12, one coefficient or more")
        if not 1 <= len(self.cuts) < MOST_GROUPS or not _increasing(self.cuts):
            raise MechanismError(f"risk groups must be 2 to {MOST_GROUPS}, with cuts that increase")
        check_size("causes", self.causes, MOST_CAUSES, remedy="name fewer levels of the event")
        if not self.causes >= 1:
            raise MechanismError(f"there must be 1 to {MOST_CAUSES} causes")
        if self.grid is None:
            if self.ends or self.causes != 1:
                raise MechanismError("a binary outcome has no bins of time and one cause")
        elif not (
            1 <= len(self.ends) <= MOST_BINS
            and _increasing((0, *self.ends))
            and self.ends[-1] == self.grid.intervals
            and all(isinstance(end, int) for end in self.ends)
        ):
            raise MechanismError(f"1 to {MOST_BINS} bins must end at increasing intervals, the last one at the horizon")

    @property
    def family(self) -> str:
        """The family of the model whose coefficients these are: a logistic regression, or a hazard."""
        return RegressionModel.kind if self.grid is None else HazardModel.kind

    @property
    def groups(self) -> int:
        """The number of risk groups."""
        return len(self.cuts) + 1

    @property
    def width(self) -> int:
        """The cells of one group: for survival events by cause and bin, then censorings by bins completed."""
        return 2 if self.grid is None else self.causes * len(self.ends) + len(self.ends) + 1

    @property
    def cells(self) -> int:
        """All cells, group by group."""
        return self.groups * self.width


def _increasing(values: tuple[float, ...]) -> bool:
    return all(a < b for a, b in itertools.pairwise(values))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationRelease(TableRelease):
    """The noisy counts by risk group and by what happened."""

    kind: ClassVar[str] = "evaluation/1"
