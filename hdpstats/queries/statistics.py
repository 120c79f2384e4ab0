"""The query of noisy sums of sufficient statistics, and its release."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import rational, text
from hdpstats.privacy.event import PrivacyEvent
from hdpstats.queries.base import LedgerEntry, Query, Release

UNITS = 2**20
"""A statistic, or a block's estimate, is rounded to so many steps of its declared interval."""


def check_pure(epsilon: Fraction, delta: Fraction) -> None:
    """Refuse prices that the proofs of exponential families do not know."""
    if not (epsilon > 0 and delta == 0 and epsilon.denominator <= 10**30):
        raise MechanismError(
            "exponential families need epsilon > 0 of at most 30 digits, and are pure: delta must be 0"
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class StatisticsQuery(Query):
    """Sum over people the sufficient statistics of a family, of a column between its declared bounds.

    Attributes
    ----------
    column : str
        A continuous or binary column of the schema, whose bounds are those of the statistics.
    family : str
        A name of `hdpstats.losses.families.FAMILIES`.
    """

    kind: ClassVar[str] = "statistics/1"
    column: str
    family: str
    epsilon: Fraction
    schema_sha256: str
    delta: Fraction = Fraction(0)
    public_sha256: str | None = None
    replicate: int = 1

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self.epsilon, self.delta)

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON values."""
        return {
            "column": self.column,
            "family": self.family,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "schema_sha256": self.schema_sha256,
            "public_sha256": self.public_sha256,
            "replicate": self.replicate,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "StatisticsQuery":
        """Read what `to_dict` wrote."""
        return cls(
            column=text(fields["column"], name="column"),
            family=text(fields["family"], name="family"),
            epsilon=rational(fields["epsilon"], name="epsilon"),
            delta=rational(fields["delta"], name="delta"),
            schema_sha256=str(fields["schema_sha256"]),
            public_sha256=fields["public_sha256"],
            replicate=int(fields["replicate"]),
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class StatisticsRelease(Release):
    """Noisy sums of statistics, in 2^-20 of the length of each one's interval, from its lower end.

    Attributes
    ----------
    units : tuple of int
        The d noisy sums; some may lie beyond what people could add up to.
    noise_rate : float
        The noise ``z`` has probability proportional to ``exp(-noise_rate max_j |z_j|)``.
    records : int
        The public number of people.
    events : tuple of PrivacyEvent
        What ran.
    entry : LedgerEntry or None
        Where the ledger keeps it; None for a release read back from JSON.
    """

    kind: ClassVar[str] = "statistics/1"
    units: tuple[int, ...]
    noise_rate: float
    records: int
    events: tuple[PrivacyEvent, ...]
    entry: LedgerEntry | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the release as JSON values."""
        return {
            "units": list(self.units),
            "noise_rate": self.noise_rate,
            "records": self.records,
            "events": [event.to_dict() for event in self.events],
        }

    def at(self, entry: LedgerEntry) -> "StatisticsRelease":
        """Return the release with its place in the ledger."""
        return replace(self, entry=entry)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "StatisticsRelease":
        """Read what `to_dict` wrote."""
        return cls(
            units=tuple(int(number) for number in fields["units"]),
            noise_rate=float(fields["noise_rate"]),
            records=int(fields["records"]),
            events=tuple(PrivacyEvent.from_dict(event) for event in fields["events"]),
        )
