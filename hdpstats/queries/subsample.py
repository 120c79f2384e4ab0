"""The query of a noisy mean of estimates from disjoint blocks of people, and its release."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import choice, rational, text
from hdpstats.privacy.event import PrivacyEvent
from hdpstats.queries.base import LedgerEntry, Query, Release
from hdpstats.queries.statistics import check_pure

MOST_BLOCKS = 2**20


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SubsampleQuery(Query):
    """Estimate the parameters of a family in ``blocks`` disjoint blocks of rows, project each estimate, and average.

    Attributes
    ----------
    column, family
        As in `hdpstats.queries.statistics.StatisticsQuery`.
    box : tuple of (float, float)
        The public interval of each parameter, on which the estimates of blocks are projected.
    blocks : int
        ``k``.
    by : {"rows", "persons"}
        What makes the blocks. ``"rows"``: row ``i`` of ``n`` belongs to block ``floor(i k / n)``; whoever asks declares
        by it that the order of rows was not made from their values. ``"persons"``: a keyed hash of who it is.
    """

    kind: ClassVar[str] = "subsample/1"
    column: str
    family: str
    box: tuple[tuple[float, float], ...]
    blocks: int
    epsilon: Fraction
    schema_sha256: str
    delta: Fraction = Fraction(0)
    public_sha256: str | None = None
    by: str = "rows"
    replicate: int = 1

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self.epsilon, self.delta)
        choice(self.by, name="by", options=("rows", "persons"))
        if not 1 <= self.blocks <= MOST_BLOCKS:
            raise MechanismError(f"blocks must be from 1 to {MOST_BLOCKS}, not {self.blocks}")
        if not self.box or not all(1e-12 <= high - low <= 1e12 and math.isfinite(low) for low, high in self.box):
            raise MechanismError("box must have an interval of length 1e-12 to 1e12 for each parameter")

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON values."""
        return {
            "column": self.column,
            "family": self.family,
            "box": [list(interval) for interval in self.box],
            "blocks": self.blocks,
            "by": self.by,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "schema_sha256": self.schema_sha256,
            "public_sha256": self.public_sha256,
            "replicate": self.replicate,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "SubsampleQuery":
        """Read what `to_dict` wrote."""
        return cls(
            column=text(fields["column"], name="column"),
            family=text(fields["family"], name="family"),
            box=tuple((float(low), float(high)) for low, high in fields["box"]),
            blocks=int(fields["blocks"]),
            by=str(fields["by"]),
            epsilon=rational(fields["epsilon"], name="epsilon"),
            delta=rational(fields["delta"], name="delta"),
            schema_sha256=str(fields["schema_sha256"]),
            public_sha256=fields["public_sha256"],
            replicate=int(fields["replicate"]),
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SubsampleRelease(Release):
    """Noisy sums of the blocks' estimates, in 2^-20 of the length of each parameter's interval, from its lower end.

    Attributes
    ----------
    units : tuple of int
        The d noisy sums over blocks; some may lie beyond what blocks could add up to.
    noise_rate : float
        The noise ``z`` has probability proportional to ``exp(-noise_rate max_j |z_j|)``.
    records, blocks : int
        The public number of people, and of blocks.
    events : tuple of PrivacyEvent
        What ran.
    entry : LedgerEntry or None
        Where the ledger keeps it; None for a release read back from JSON.
    """

    kind: ClassVar[str] = "subsample/1"
    units: tuple[int, ...]
    noise_rate: float
    records: int
    blocks: int
    events: tuple[PrivacyEvent, ...]
    entry: LedgerEntry | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the release as JSON values."""
        return {
            "units": list(self.units),
            "noise_rate": self.noise_rate,
            "records": self.records,
            "blocks": self.blocks,
            "events": [event.to_dict() for event in self.events],
        }

    def at(self, entry: LedgerEntry) -> "SubsampleRelease":
        """Return the release with its place in the ledger."""
        return replace(self, entry=entry)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "SubsampleRelease":
        """Read what `to_dict` wrote."""
        return cls(
            units=tuple(int(number) for number in fields["units"]),
            noise_rate=float(fields["noise_rate"]),
            records=int(fields["records"]),
            blocks=int(fields["blocks"]),
            events=tuple(PrivacyEvent.from_dict(event) for event in fields["events"]),
        )
