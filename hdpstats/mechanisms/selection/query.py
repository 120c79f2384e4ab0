"""The queries of a private choice among public candidates: by distance, or by loss; and their release."""

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats.records.limits import MOST_CANDIDATES, check_size
from hdpstats.records.points import PointSpace, check_reach, check_support
from hdpstats.records.query import ChargedRelease, PurchaseQuery, check_pure

LARGEST = 1e9


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionQuery(PurchaseQuery):
    """Choose how many of the first public points of an order to use: near the private people, but few.

    The cost of a size is the sum over private people of the distance to the nearest of so many points, at most
    ``reach`` each, plus a public penalty; the less, the likelier it is chosen.

    Attributes
    ----------
    space : PointSpace
        Where rows lie.
    order : tuple of int
        Rows of the public table, of those complete in the space's columns, at most 2^20; the candidates are its
        beginnings.
    sizes : tuple of int
        Their lengths, increasing up to all of ``order``; 2 to 100 (`hdpstats.records.limits`).
    reach : float
        The longest distance that counts.
    penalties : tuple of float
        What is added for each size, in units of distance.
    """

    kind: ClassVar[str] = "selection/1"
    space: PointSpace
    order: tuple[int, ...]
    sizes: tuple[int, ...]
    reach: float
    penalties: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self, "a choice")
        check_reach(self.reach)
        check_support(self.order, self.public_sha256)
        sizes = (0, *self.sizes)
        check_size("sizes to choose from", len(self.sizes), MOST_CANDIDATES, remedy="leave some out")
        if len(self.sizes) < 2 or any(a >= b for a, b in itertools.pairwise(sizes)):
            raise MechanismError(f"there must be 2 to {MOST_CANDIDATES} sizes, which increase from 1 or more")
        if self.sizes[-1] != len(self.order):
            raise MechanismError("the largest size must be all points of the order")
        if len(self.penalties) != len(self.sizes) or not all(abs(value) <= LARGEST for value in self.penalties):
            raise MechanismError(f"each size needs a penalty, at most {LARGEST:g}")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LossSelectionQuery(PurchaseQuery):
    """Choose among public coefficients of a logistic model the ones that fit private people best.

    The cost of a candidate is the sum over private people of how much larger its loss is than that of the candidate
    that fits the person best, at most ``reach`` each.

    Attributes
    ----------
    formula : str
        A formula with a binary outcome, read again by the site against its own schema.
    candidates : tuple of tuples of float
        Coefficients of the design's columns; 2 to 100 (`hdpstats.records.limits`).
    reach : float
        The largest difference of losses that counts.
    """

    kind: ClassVar[str] = "loss_selection/1"
    formula: str
    candidates: tuple[tuple[float, ...], ...]
    reach: float
    public_sha256: str | None = None

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self, "a choice")
        check_reach(self.reach)
        check_size("candidates", len(self.candidates), MOST_CANDIDATES, remedy="leave some out")
        if len(self.candidates) < 2:
            raise MechanismError(f"there must be 2 to {MOST_CANDIDATES} candidates")
        lengths = {len(candidate) for candidate in self.candidates}
        values = [value for candidate in self.candidates for value in candidate]
        if len(lengths) != 1 or not values or not all(math.isfinite(v) and abs(v) < LARGEST for v in values):
            raise MechanismError("all candidates must have the same number of finite coefficients")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionRelease(ChargedRelease):
    """The place of the chosen candidate, from 0.

    Attributes
    ----------
    choice : int
        Its place.
    """

    kind: ClassVar[str] = "selection/1"
    choice: int
