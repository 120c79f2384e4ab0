"""The query of a noisy mean of estimates from disjoint blocks of people, and its release."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import choice, text
from hdpstats.records.limits import MOST_BLOCKS, check_size
from hdpstats.records.query import ChargedQuery, ChargedRelease, charged_fields, check_pure, events_in


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SubsampleQuery(ChargedQuery):
    """Estimate the parameters of a family in ``blocks`` disjoint blocks of rows, project each estimate, and average.

    Attributes
    ----------
    column, family
        As in `hdpstats.mechanisms.statistics.query.StatisticsQuery`.
    box : tuple of (float, float)
        The public interval of each parameter, on which the estimates of blocks are projected.
    blocks : int
        ``k``, at most 2^17 (`hdpstats.records.limits`).
    by : {"rows", "persons"}
        What makes the blocks. ``"rows"``: row ``i`` of ``n`` belongs to block ``floor(i k / n)``, which a site allows
        only where its custodian declared that the order of rows was not made from their values. ``"persons"``: a hash
        of the name of the person, for sites with a unit.
    """

    kind: ClassVar[str] = "subsample/1"
    column: str
    family: str
    box: tuple[tuple[float, float], ...]
    blocks: int
    public_sha256: str | None = None
    by: str = "rows"

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self, "an estimate of a family")
        choice(self.by, name="by", options=("rows", "persons"))
        check_size("blocks", self.blocks, MOST_BLOCKS, remedy="take fewer: noise falls with their number, bias rises")
        if not self.blocks >= 1:
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
        } | ChargedQuery.to_dict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "SubsampleQuery":
        """Read what `to_dict` wrote."""
        return cls(
            column=text(fields["column"], name="column"),
            family=text(fields["family"], name="family"),
            box=tuple((float(low), float(high)) for low, high in fields["box"]),
            blocks=int(fields["blocks"]),
            by=str(fields["by"]),
            **charged_fields(fields),
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SubsampleRelease(ChargedRelease):
    """Noisy sums of the blocks' estimates, in 2^-20 of the length of each parameter's interval, from its lower end.

    Attributes
    ----------
    units : tuple of int
        The d noisy sums over blocks; some may lie beyond what blocks could add up to.
    noise_rate : float
        The noise ``z`` has probability proportional to ``exp(-noise_rate max_j |z_j|)``.
    records, blocks : int
        The public number of people, and of blocks.
    """

    kind: ClassVar[str] = "subsample/1"
    units: tuple[int, ...]
    noise_rate: float
    records: int
    blocks: int

    def to_dict(self) -> dict[str, Any]:
        """Return the release as JSON values."""
        return {
            "units": list(self.units),
            "noise_rate": self.noise_rate,
            "records": self.records,
            "blocks": self.blocks,
        } | ChargedRelease.to_dict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "SubsampleRelease":
        """Read what `to_dict` wrote."""
        return cls(
            units=tuple(int(number) for number in fields["units"]),
            noise_rate=float(fields["noise_rate"]),
            records=int(fields["records"]),
            blocks=int(fields["blocks"]),
            events=events_in(fields),
        )
