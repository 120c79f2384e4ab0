"""A discrete-time hazard model, and how much one person may weigh in it."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats.records.geometry import Geometry
from hdpstats.records.limits import MOST_CAUSES, MOST_FEATURES, check_size
from hdpstats.records.model.base import QueryModel, check_columns
from hdpstats.records.timegrid import TimeGrid

LONGEST_BASELINE_ROW = 1.0 + 2.0**-40
"""Bound on the norm of a row of baseline features: 1, up to rounding."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HazardCap:
    r"""How much one person's loss may weigh in each interval: public, and a function of the own covariates only.

    The loss of interval ``s`` of a person with whitened covariates ``z`` saturates at

    .. math:: h_s(z) = e^{d}\,g(\gamma_{ks} + \delta_k'z + o),

    ``g`` being the link's scale (the odds for logit and probit, the cumulative hazard for cloglog), ``k`` the cause and
    ``o`` the offset. Follow-up ends before the sum of the caps, over intervals and causes, passes ``total``.

    Attributes
    ----------
    total : float
        ``H``: the largest sum of caps of one person.
    margin : float
        ``d``: the logarithm of the cap over the hazard that public rows predict; 0 for a flat cap.
    baseline : tuple of tuple of float
        ``gamma`` (causes, q), on the scale of the linear predictor.
    slopes : tuple of tuple of float
        ``delta`` (causes, p); zero for a flat cap.
    """

    total: float
    margin: float
    baseline: tuple[tuple[float, ...], ...]
    slopes: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        """Refuse numbers beyond which caps are not exact to their last digits."""
        numbers = [value for row in (*self.baseline, *self.slopes) for value in row]
        if not (1.0 <= self.total <= 1e4 and -20.0 <= self.margin <= 20.0):
            raise MechanismError("a hazard cap needs a total in [1, 1e4] and a margin in [-20, 20]")
        if not all(math.isfinite(value) and abs(value) <= 1e6 for value in numbers):
            raise MechanismError("a hazard cap needs finite baseline and slopes of size at most 1e6")
        if len(self.baseline) != len(self.slopes):
            raise MechanismError("a hazard cap needs as many baselines as slopes: one of each per cause")

    @property
    def is_flat(self) -> bool:
        """Whether the cap is the same in every interval and for everybody with the same offset."""
        levels = {value for row in self.baseline for value in row}
        return len(levels) == 1 and not any(value for row in self.slopes for value in row)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HazardModel(QueryModel):
    """A discrete-time hazard model, one set of coefficients per cause, baseline first: ``theta`` (causes (e + p),).

    Attributes
    ----------
    link : str
        A name of `hdpstats.losses.LINKS`.
    grid : TimeGrid
        The intervals.
    baseline : tuple of tuple of float
        Baseline features ``A`` (q, e), every row of norm at most 1; at most a million numbers
        (`hdpstats.records.limits`).
    geometry : Geometry
        Of the covariates, with an intercept, which stands for the baseline.
    cap : HazardCap
        How much one person may weigh.
    """

    kind: ClassVar[str] = "hazard"
    formula: str
    link: str
    grid: TimeGrid
    baseline: tuple[tuple[float, ...], ...]
    geometry: Geometry
    cap: HazardCap
    weights: str | None = None
    offset: str | None = None

    def __post_init__(self) -> None:
        """Refuse a model that contradicts itself, or is too large."""
        check_size("causes", len(self.cap.baseline), MOST_CAUSES, remedy="name fewer levels of the event")
        features = sum(len(row) for row in self.baseline)
        check_size("baseline features in all", features, MOST_FEATURES, remedy="take fewer intervals or knots")
        check_columns(self.weights, self.offset)
        q, p = self.grid.intervals, len(self.geometry.location)
        widths = {len(row) for row in self.baseline}
        if len(self.baseline) != q or len(widths) != 1 or widths == {0}:
            raise MechanismError(f"the baseline must be a table with a row for each of the {q} intervals")
        if not all(math.hypot(*row) <= LONGEST_BASELINE_ROW for row in self.baseline):
            raise MechanismError("the baseline's rows must be finite and have a norm of at most 1")
        if any(len(row) != q for row in self.cap.baseline) or any(len(row) != p for row in self.cap.slopes):
            raise MechanismError("the hazard cap must have a level for every interval and a slope for every covariate")
        if not self.geometry.intercept:
            raise MechanismError("the geometry of a hazard model must have an intercept: it stands for the baseline")

    @property
    def causes(self) -> int:
        """The number of causes."""
        return len(self.cap.baseline)

    @property
    def block(self) -> int:
        """``e + p``: the coefficients of one cause."""
        return len(self.baseline[0]) + len(self.geometry.location)

    @property
    def dimension(self) -> int:
        """The number of coefficients of all causes."""
        return self.causes * self.block
