"""What is publicly known about a weighted public sample."""

from dataclasses import dataclass
from typing import final

from hdpstats.records.codec import Record


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SampleFacts(Record):
    """Public facts about the weights of public rows.

    Attributes
    ----------
    method : str
        How the weights were made, in words.
    columns : tuple of str
        The columns in which the weighted rows stand for the private ones; other columns follow only as far as they
        depend on these alike in both.
    formula : str or None
        The formula of a density ratio; None for counts of nearest neighbours.
    records : int or None
        The number of private records: public under ``replace_one``, noisy or declared otherwise.
    public_rows : int
        The number of weighted public rows.
    notes : tuple of str
        What a reader must know: columns left out, intervals that are too short, and why.
    """

    method: str
    columns: tuple[str, ...]
    formula: str | None
    records: int | None
    public_rows: int
    notes: tuple[str, ...] = ()
