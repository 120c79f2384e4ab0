"""What releases of noisy counts have in common."""

from abc import ABC
from dataclasses import dataclass

from hdpstats.records.query import ChargedRelease


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRelease(ChargedRelease, ABC):
    """Noisy numbers of people; some may be below 0. Everything but ``counts`` is a public constant.

    Attributes
    ----------
    counts : tuple of int
        One for each cell of a table, or for each public point, in the order of the query.
    noise_variance : float
        The variance of the noise in each.
    """

    counts: tuple[int, ...]
    noise_variance: float
