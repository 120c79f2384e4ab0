"""What is publicly known about a fitted model."""

from dataclasses import asdict, dataclass, fields
from typing import Any, final

from hdpstats._base.validation import choice, integer, text
from hdpstats.losses import BY_NAME


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFacts:
    """Public facts about a model and its fit.

    Attributes
    ----------
    model : str
        The model's name: "Logit".
    formula : str
        The formula.
    response : str
        The outcome's column.
    method : str
        How it was fitted, in words.
    records : int or None
        The number of private records, public under ``replace_one``; None where none was used.
    public_rows : int or None
        The number of complete public rows used; None where none was.
    weights, offset : str or None
        The columns with case weights and offsets.
    loss : str
        The loss that was minimised, a name of `hdpstats.losses.BY_NAME`: gives predictions their mean.
    exponentiated : str
        What the exponential of a coefficient is: "odds ratio".
    """

    model: str
    formula: str
    response: str
    method: str
    records: int | None
    public_rows: int | None
    weights: str | None
    offset: str | None
    loss: str
    exponentiated: str

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, entries: dict[str, Any]) -> "ModelFacts":
        """Read what `to_dict` wrote."""
        read: dict[str, Any] = {}
        for declared in fields(cls):
            value = entries[declared.name]
            if value is None and declared.name in ("records", "public_rows", "weights", "offset"):
                read[declared.name] = None
            elif declared.name in ("records", "public_rows"):
                read[declared.name] = integer(value, name=declared.name, lower=0, upper=10**15)
            elif declared.name == "loss":
                read[declared.name] = choice(value, name="loss", options=BY_NAME)
            else:
                read[declared.name] = text(value, name=declared.name)
        return cls(**read)
