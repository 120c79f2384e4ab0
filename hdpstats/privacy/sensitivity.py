"""How far one person can move a query: a number that never travels without its norm and its relation."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats.privacy.relation import Relation


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
