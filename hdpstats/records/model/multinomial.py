"""A multinomial logistic regression."""

from dataclasses import dataclass
from typing import ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats.records.geometry import Geometry
from hdpstats.records.model.base import QueryModel, check_columns


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class MultinomialModel(QueryModel):
    """A multinomial logistic regression, coefficients level by level: ``theta`` (others D,).

    Attributes
    ----------
    others : int
        How many levels the outcome has beside the reference.
    """

    kind: ClassVar[str] = "multinomial"
    formula: str
    others: int
    geometry: Geometry
    weights: str | None = None
    offset: str | None = None

    def __post_init__(self) -> None:
        """Refuse a model without levels, of a size that nobody can solve, or with an offset."""
        check_columns(self.weights, self.offset)
        if not 1 <= self.others <= 100 or self.offset is not None:
            raise MechanismError("a multinomial model has 2 to 101 levels and no offset")

    @property
    def dimension(self) -> int:
        """The number of coefficients of all levels."""
        return self.others * self.geometry.dimension
