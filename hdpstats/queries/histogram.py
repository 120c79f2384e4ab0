"""The query of a noisy histogram on a public grid, and its release."""

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import rational
from hdpstats.privacy.event import PrivacyEvent
from hdpstats.queries.base import LedgerEntry, Query, Release

MOST_CELLS = 2**20


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """How a column is divided: at ``cuts`` that increase, or into the ``levels`` of a categorical column.

    A number belongs to the class of as many cuts as it reaches.
    """

    name: str
    cuts: tuple[float, ...] = ()
    levels: int | None = None

    def __post_init__(self) -> None:
        """Refuse an axis that does not divide."""
        if self.levels is not None and (self.cuts or not 1 <= self.levels <= MOST_CELLS):
            raise MechanismError("an axis has cuts, or a number of levels")
        if not all(math.isfinite(cut) for cut in self.cuts) or any(a >= b for a, b in itertools.pairwise(self.cuts)):
            raise MechanismError(f"the cuts of {self.name!r} must be finite numbers that increase")

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.cuts) + 1 if self.levels is None else self.levels

    def to_list(self) -> list[Any]:
        """Return the axis as JSON values."""
        return [self.name, list(self.cuts), self.levels]

    @classmethod
    def from_list(cls, fields: Any) -> "Axis":
        """Read what `to_list` wrote."""
        name, cuts, levels = fields
        return cls(
            name=str(name), cuts=tuple(float(cut) for cut in cuts), levels=None if levels is None else int(levels)
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HistogramQuery(Query):
    """Count people by the cell of a grid that they fall into: everything about the grid is public.

    Cells are numbered with the last axis fastest.
    """

    kind: ClassVar[str] = "histogram/1"
    axes: tuple[Axis, ...]
    epsilon: Fraction
    schema_sha256: str
    delta: Fraction = Fraction(0)
    public_sha256: str | None = None
    replicate: int = 1

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        if not (self.epsilon > 0 and self.delta == 0 and self.epsilon.denominator <= 10**30):
            raise MechanismError("a histogram needs epsilon > 0 of at most 30 digits, and is pure: delta must be 0")
        if not self.axes or len({axis.name for axis in self.axes}) < len(self.axes):
            raise MechanismError("a histogram needs one axis or more, each of another column")
        if self.cells > MOST_CELLS:
            raise MechanismError(f"a histogram has at most {MOST_CELLS} cells, not {self.cells}")

    @property
    def cells(self) -> int:
        """All cells."""
        return math.prod(axis.classes for axis in self.axes)

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON values."""
        return {
            "axes": [axis.to_list() for axis in self.axes],
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "schema_sha256": self.schema_sha256,
            "public_sha256": self.public_sha256,
            "replicate": self.replicate,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "HistogramQuery":
        """Read what `to_dict` wrote."""
        return cls(
            axes=tuple(Axis.from_list(axis) for axis in fields["axes"]),
            epsilon=rational(fields["epsilon"], name="epsilon"),
            delta=rational(fields["delta"], name="delta"),
            schema_sha256=str(fields["schema_sha256"]),
            public_sha256=fields["public_sha256"],
            replicate=int(fields["replicate"]),
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HistogramRelease(Release):
    """Noisy counts of cells; some may be below 0. Everything but ``counts`` is a public constant.

    Attributes
    ----------
    counts : tuple of int
        The noisy number of people in each cell, in the order of the query.
    noise_variance : float
        The variance of the noise in each cell.
    events : tuple of PrivacyEvent
        What ran.
    entry : LedgerEntry or None
        Where the ledger keeps it; None for a release read back from JSON.
    """

    kind: ClassVar[str] = "histogram/1"
    counts: tuple[int, ...]
    noise_variance: float
    events: tuple[PrivacyEvent, ...]
    entry: LedgerEntry | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the release as JSON values."""
        return {
            "counts": list(self.counts),
            "noise_variance": self.noise_variance,
            "events": [event.to_dict() for event in self.events],
        }

    def at(self, entry: LedgerEntry) -> "HistogramRelease":
        """Return the release with its place in the ledger."""
        return replace(self, entry=entry)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "HistogramRelease":
        """Read what `to_dict` wrote."""
        return cls(
            counts=tuple(int(count) for count in fields["counts"]),
            noise_variance=float(fields["noise_variance"]),
            events=tuple(PrivacyEvent.from_dict(event) for event in fields["events"]),
        )
