"""What every model of a query has."""

from abc import ABC, abstractmethod
from typing import ClassVar

from hdpstats._base.errors import MechanismError
from hdpstats.records.codec import Record
from hdpstats.records.geometry import Geometry


class QueryModel(Record, ABC):
    """A model as a site reads it: a formula with everything public that turns a person's record into a loss.

    Attributes
    ----------
    kind : str
        "regression", "hazard" or "multinomial".
    formula : str
        The formula, read again by the site against its own schema.
    geometry : Geometry
        How covariates are whitened and weighted.
    weights, offset : str or None
        Columns of the schema with case weights and offsets.
    """

    kind: ClassVar[str]
    formula: str
    geometry: Geometry
    weights: str | None
    offset: str | None

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The number of coefficients."""


def check_columns(weights: object, offset: object) -> None:
    """Refuse what is no name of a column."""
    if not all(name is None or isinstance(name, str) for name in (weights, offset)):
        raise MechanismError("weights and offset must be names of columns, or None")
