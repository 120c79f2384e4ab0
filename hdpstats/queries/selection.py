"""The queries of a private choice among public candidates: by distance, or by loss; and their release."""

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import rational
from hdpstats.privacy.budget import NOTHING, Spend
from hdpstats.privacy.event import PrivacyEvent
from hdpstats.queries.base import LedgerEntry, Query, Release
from hdpstats.queries.distance import check_reach
from hdpstats.queries.neighbours import check_pure, check_support
from hdpstats.queries.points import PointSpace

MOST_CANDIDATES = 100
MOST_ORDERED = 10**6
LARGEST = 1e9


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionQuery(Query):
    """Choose how many of the first public points of an order to use: near the private people, but few.

    The cost of a size is the sum over private people of the distance to the nearest of so many points, at most
    ``reach`` each, plus a public penalty; the less, the likelier it is chosen.

    Attributes
    ----------
    space : PointSpace
        Where rows lie.
    order : tuple of int
        Rows of the public table, of those complete in the space's columns; the candidates are its beginnings.
    sizes : tuple of int
        Their lengths, increasing up to all of ``order``.
    reach : float
        The longest distance that counts.
    penalties : tuple of float
        What is added for each size, in units of distance.
    ahead : Spend
        What later questions of the same purchase cost: refused now if it could not be charged then.
    """

    kind: ClassVar[str] = "selection/1"
    space: PointSpace
    order: tuple[int, ...]
    sizes: tuple[int, ...]
    reach: float
    penalties: tuple[float, ...]
    epsilon: Fraction
    schema_sha256: str
    public_sha256: str | None
    delta: Fraction = Fraction(0)
    ahead: Spend = NOTHING
    replicate: int = 1

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self.epsilon, self.delta, "a choice")
        check_reach(self.reach)
        check_support(self.order, most=MOST_ORDERED)
        sizes = (0, *self.sizes)
        if not 2 <= len(self.sizes) <= MOST_CANDIDATES or any(a >= b for a, b in itertools.pairwise(sizes)):
            raise MechanismError(f"there must be 2 to {MOST_CANDIDATES} sizes, which increase from 1 or more")
        if self.sizes[-1] != len(self.order):
            raise MechanismError("the largest size must be all points of the order")
        if len(self.penalties) != len(self.sizes) or not all(abs(value) <= LARGEST for value in self.penalties):
            raise MechanismError(f"each size needs a penalty, at most {LARGEST:g}")
        if self.public_sha256 is None:
            raise MechanismError("nearest public points need a public table: public_sha256 must name it")

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON values."""
        return {
            "space": self.space.to_list(),
            "order": list(self.order),
            "sizes": list(self.sizes),
            "reach": self.reach,
            "penalties": list(self.penalties),
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "schema_sha256": self.schema_sha256,
            "public_sha256": self.public_sha256,
            "ahead": str(self.ahead.epsilon),
            "replicate": self.replicate,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "SelectionQuery":
        """Read what `to_dict` wrote."""
        return cls(
            space=PointSpace.from_list(fields["space"]),
            order=tuple(int(row) for row in fields["order"]),
            sizes=tuple(int(size) for size in fields["sizes"]),
            reach=float(fields["reach"]),
            penalties=tuple(float(value) for value in fields["penalties"]),
            epsilon=rational(fields["epsilon"], name="epsilon"),
            delta=rational(fields["delta"], name="delta"),
            schema_sha256=str(fields["schema_sha256"]),
            public_sha256=fields["public_sha256"],
            ahead=Spend(rational(fields["ahead"], name="ahead")),
            replicate=int(fields["replicate"]),
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LossSelectionQuery(Query):
    """Choose among public coefficients of a logistic model the ones that fit private people best.

    The cost of a candidate is the sum over private people of how much larger its loss is than that of the candidate
    that fits the person best, at most ``reach`` each.

    Attributes
    ----------
    formula : str
        A formula with a binary outcome, read again by the site against its own schema.
    candidates : tuple of tuples of float
        Coefficients of the design's columns.
    reach : float
        The largest difference of losses that counts.
    ahead : Spend
        What later questions of the same purchase cost: refused now if it could not be charged then.
    """

    kind: ClassVar[str] = "loss-selection/1"
    formula: str
    candidates: tuple[tuple[float, ...], ...]
    reach: float
    epsilon: Fraction
    schema_sha256: str
    public_sha256: str | None = None
    delta: Fraction = Fraction(0)
    ahead: Spend = NOTHING
    replicate: int = 1

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self.epsilon, self.delta, "a choice")
        check_reach(self.reach)
        if not 2 <= len(self.candidates) <= MOST_CANDIDATES:
            raise MechanismError(f"there must be 2 to {MOST_CANDIDATES} candidates")
        lengths = {len(candidate) for candidate in self.candidates}
        values = [value for candidate in self.candidates for value in candidate]
        if len(lengths) != 1 or not values or not all(math.isfinite(v) and abs(v) < LARGEST for v in values):
            raise MechanismError("all candidates must have the same number of finite coefficients")

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON values."""
        return {
            "formula": self.formula,
            "candidates": [list(candidate) for candidate in self.candidates],
            "reach": self.reach,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "schema_sha256": self.schema_sha256,
            "public_sha256": self.public_sha256,
            "ahead": str(self.ahead.epsilon),
            "replicate": self.replicate,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "LossSelectionQuery":
        """Read what `to_dict` wrote."""
        return cls(
            formula=str(fields["formula"]),
            candidates=tuple(tuple(float(value) for value in candidate) for candidate in fields["candidates"]),
            reach=float(fields["reach"]),
            epsilon=rational(fields["epsilon"], name="epsilon"),
            delta=rational(fields["delta"], name="delta"),
            schema_sha256=str(fields["schema_sha256"]),
            public_sha256=fields["public_sha256"],
            ahead=Spend(rational(fields["ahead"], name="ahead")),
            replicate=int(fields["replicate"]),
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionRelease(Release):
    """The place of the chosen candidate, from 0.

    Attributes
    ----------
    choice : int
        Its place.
    events : tuple of PrivacyEvent
        What ran.
    entry : LedgerEntry or None
        Where the ledger keeps it; None for a release read back from JSON.
    """

    kind: ClassVar[str] = "selection/1"
    choice: int
    events: tuple[PrivacyEvent, ...]
    entry: LedgerEntry | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the release as JSON values."""
        return {"choice": self.choice, "events": [event.to_dict() for event in self.events]}

    def at(self, entry: LedgerEntry) -> "SelectionRelease":
        """Return the release with its place in the ledger."""
        return replace(self, entry=entry)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "SelectionRelease":
        """Read what `to_dict` wrote."""
        return cls(
            choice=int(fields["choice"]),
            events=tuple(PrivacyEvent.from_dict(event) for event in fields["events"]),
        )
