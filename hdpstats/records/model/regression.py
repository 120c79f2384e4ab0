"""A model of one linear predictor and one outcome."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats.records.geometry import Geometry
from hdpstats.records.model.base import QueryModel, check_columns


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RegressionModel(QueryModel):
    """A loss of one linear predictor and one outcome.

    Attributes
    ----------
    loss : str
        A name of `hdpstats.losses.BY_NAME`.
    parameters : tuple of float
        The loss's numbers, in units of the outcome as it is declared.
    table : tuple of tuple of float
        The scores of somebody's own loss (`hdpstats.losses.tabulated`); empty for all others.
    """

    kind: ClassVar[str] = "regression"
    formula: str
    loss: str
    geometry: Geometry
    weights: str | None = None
    offset: str | None = None
    parameters: tuple[float, ...] = ()
    table: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        """Refuse names that are none, and numbers that are not finite."""
        check_columns(self.weights, self.offset)
        if not all(math.isfinite(value) for row in (self.parameters, *self.table) for value in row):
            raise MechanismError("the parameters of a loss must be finite numbers")

    @property
    def dimension(self) -> int:
        """The number of coefficients, intercept included."""
        return self.geometry.dimension
