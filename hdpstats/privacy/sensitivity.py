"""How far one person can move a query: a number that never travels without its norm and its relation.

The relation says who is a neighbour of whom.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar, final

from hdpstats._base.errors import MechanismError


class Relation(StrEnum):
    """Neighbouring relation between two sets of private records, one record per person: all rows of that person.

    ``REPLACE_ONE``: one person's record is replaced by another; the number of records is the same and
    public. The relation of the five papers that the package implements.

    ``ADD_OR_REMOVE_ONE``: one person's record is added or taken away; the number of records is private.
    """

    REPLACE_ONE = "replace_one"
    ADD_OR_REMOVE_ONE = "add_or_remove_one"

    @property
    def persons_changed(self) -> int:
        """By how many persons' records neighbours differ: 2 where one is replaced, 1 where one is added or removed.

        What one person alone moves a sum by, in any norm, times this number bounds its change between neighbours
        (triangle inequality).
        """
        return 2 if self is Relation.REPLACE_ONE else 1

    def between(self, unit: str, *, most_rows: int = 1) -> str:
        """Say the relation in plain words for a kind of unit with one record, or with several rows that count as one.

        >>> Relation.ADD_OR_REMOVE_ONE.between("patient", most_rows=5)
        'data sets are neighbours when all rows of one patient are added or taken away; their number is not public'
        """
        if most_rows == 1:
            what, verb = f"one {unit}'s record", "is"
        else:
            what, verb = f"all rows of one {unit}", "are"
        if self is Relation.REPLACE_ONE:
            other = "any other" if most_rows == 1 else f"those of any other {unit}"
            size = "their size is public" if most_rows == 1 else "how many rows these are is protected too"
            return f"data sets are neighbours when {what} {verb} exchanged for {other}; {size}"
        return f"data sets are neighbours when {what} {verb} added or taken away; their number is not public"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class BallNorm:
    """The Euclidean norm divided by a radius: ``K(v) = ||v|| / radius``. The L2 norm has radius 1."""

    kind: ClassVar[str] = "ball"
    radius: Fraction = Fraction(1)

    @property
    def longest(self) -> float:
        """The Euclidean length of the longest vector of the unit ball."""
        return float(self.radius)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CylinderNorm:
    """``K(t, v) = max(|t|, ||v|| / radius)``: its unit ball is a cylinder around the first coordinate.

    It is the convex hull of the gradients ``s (1, z)`` with ``|s| <= 1`` and ``||z|| <= radius`` of a
    linear predictor with an intercept, hence the smallest norm ball that holds them (Awan and Slavkovic
    2021: among K-norm mechanisms the hull is optimal).
    """

    kind: ClassVar[str] = "cylinder"
    radius: Fraction

    @property
    def longest(self) -> float:
        """The Euclidean length of the longest vector of the unit ball."""
        return math.hypot(1.0, float(self.radius))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class BoxNorm:
    """``K(b) = max_j |b_j| / radii_j``: its unit ball is a box.

    For vectors whose coordinates are bounded one by one and may take all combinations of their bounds, such as
    differences between rows of many zeros and ones.
    """

    kind: ClassVar[str] = "box"
    radii: tuple[Fraction, ...]

    @property
    def longest(self) -> float:
        """The Euclidean length of the longest vector of the unit ball."""
        return math.hypot(*(float(radius) for radius in self.radii))


Norm = BallNorm | CylinderNorm | BoxNorm


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Sensitivity:
    """The largest change ``sup K(q(D) - q(D'))`` of a query over neighbouring data sets."""

    value: Fraction
    norm: Norm
    relation: Relation

    def __post_init__(self) -> None:
        """Refuse a sensitivity that is not positive: a query that nobody moves needs no noise."""
        if not self.value > 0:
            raise MechanismError(f"a sensitivity must be above 0, not {self.value}")
