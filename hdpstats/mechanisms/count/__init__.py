"""A noisy number of people.

Two-sided geometric noise of scale 1/epsilon on a count. Guarantee: pure epsilon. Source: Ghosh, Roughgarden and
Sundararajan (2012). Use: where one person may be added or removed, so that the number of people is private.
Proof: `hdpstats.mechanisms.count.site`.

* ``site``: A noisy number of people: two-sided geometric noise, pure epsilon.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats.records.codec import LEFT_OUT
from hdpstats.records.limits import Ahead, check_ahead
from hdpstats.records.query import ChargedQuery, ChargedRelease, check_pure


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CountQuery(ChargedQuery):
    """Count the people, or those whose rows are complete in some columns, where that number is protected.

    Attributes
    ----------
    columns : tuple of str or None
        The columns, sorted, that a row must be complete in; None where all rows count.
    apart : str or None
        One of the columns, of people with several rows, that another row of the person may have than the one that is
        complete in the others: an outcome that is averaged. None, which JSON leaves out, where there is none.
    ahead : tuple of Spend
        What the fit that asks will be charged besides, charge by charge. It is not charged now, but refused now if it
        could not be charged later, so that no account is charged for a number alone. Gaussian noise says what it was
        asked to keep (`hdpstats.records.limits`). Nothing is set aside for it before it is charged itself.
    """

    kind: ClassVar[str] = "count/1"
    public_sha256: str | None = None
    columns: Annotated[tuple[str, ...] | None, LEFT_OUT] = None
    apart: Annotated[str | None, LEFT_OUT] = None
    ahead: Ahead = ()

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self, "a count")
        if self.columns is not None and list(self.columns) != sorted(set(self.columns)):
            raise MechanismError("a count names the columns of complete rows once, in alphabetical order")
        if self.apart is not None and self.apart not in (self.columns or ()):
            raise MechanismError("apart must be one of the columns of a count")
        check_ahead(self.ahead)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CountRelease(ChargedRelease):
    """A noisy number of people. Everything but ``count`` is a public constant.

    Attributes
    ----------
    count : int
        The noisy number, cut to 1 to ``most``.
    noise_sd : float
        Standard deviation of the noise, before the cut.
    most : int
        The public or declared largest number.
    columns : tuple of str or None
        As in the query: the columns that rows are complete in.
    """

    kind: ClassVar[str] = "count/1"
    count: int
    noise_sd: float
    most: int
    columns: Annotated[tuple[str, ...] | None, LEFT_OUT] = None
