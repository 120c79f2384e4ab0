"""What is publicly known about a weighted public sample."""

from dataclasses import asdict, dataclass
from typing import Any, final

from hdpstats._base.validation import integer, text


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SampleFacts:
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

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as JSON values."""
        return asdict(self) | {"columns": list(self.columns), "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, entries: dict[str, Any]) -> "SampleFacts":
        """Read what `to_dict` wrote."""
        records = entries["records"]
        return cls(
            method=text(entries["method"], name="method"),
            columns=tuple(text(name, name="columns") for name in entries["columns"]),
            formula=None if entries["formula"] is None else text(entries["formula"], name="formula"),
            records=None if records is None else integer(records, name="records", lower=0, upper=10**15),
            public_rows=integer(entries["public_rows"], name="public_rows", lower=0, upper=10**15),
            notes=tuple(text(note, name="notes") for note in entries["notes"]),
        )
