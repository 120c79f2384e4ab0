"""What a query is about: a model of linear predictors, written down as public numbers.

A `TimeGrid` has the intervals of a discrete-time model: public cut points on the time axis.
"""

import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import numpy as np
import numpy.typing as npt

from hdpstats._base.errors import ArgumentError, MechanismError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.validation import check_size
from hdpstats.records.codec import LEFT_OUT, Record
from hdpstats.records.geometry import Geometry
from hdpstats.records.limits import MOST_CAUSES, MOST_FEATURES
from hdpstats.records.overlap_weights import OverlapWeights

MOST_INTERVALS = 10_000


@final
@dataclass(frozen=True, slots=True)
class TimeGrid:
    """Intervals ``(c_{s-1}, c_s]``, ``s = 1..q``, with ``c_0 = 0``; they end at the public horizon ``c_q``.

    Attributes
    ----------
    cuts : tuple of float
        The upper ends ``c_1 < ... < c_q``, in the unit of the durations.

    Examples
    --------
    >>> grid = TimeGrid((10.0, 20.0, 30.0))
    >>> grid.interval_of([0, 0.5, 10, 10.5, 30, 99]).tolist()
    [0, 1, 1, 2, 3, 3]
    """

    cuts: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse cut points that do not increase from above 0."""
        ends = (0.0, *self.cuts)
        if not 1 <= len(self.cuts) <= MOST_INTERVALS:
            raise ArgumentError(f"intervals must be 1 to {MOST_INTERVALS} in number", argument="intervals")
        if not all(math.isfinite(end) for end in ends) or not all(a < b for a, b in itertools.pairwise(ends)):
            raise ArgumentError(
                "intervals must have finite cut points that increase from above 0", argument="intervals"
            )

    @property
    def intervals(self) -> int:
        """``q``: how many intervals there are."""
        return len(self.cuts)

    @property
    def horizon(self) -> float:
        """``c_q``: where follow-up ends."""
        return self.cuts[-1]

    @property
    def starts(self) -> FloatArray:
        """The lower ends of the intervals (q,)."""
        return np.array((0.0, *self.cuts[:-1]))

    def passed(self, times: FloatArray) -> FloatArray:
        """Return how many intervals have passed at times (T,) up to the horizon; of the one that goes on its part.

        >>> TimeGrid(cuts=(1.0, 3.0)).passed(np.array([0.0, 0.5, 1.0, 2.0, 3.0])).tolist()
        [0.0, 0.5, 1.0, 1.5, 2.0]
        """
        return np.asarray(np.interp(times, (0.0, *self.cuts), np.arange(self.intervals + 1.0)))

    def interval_of(self, times: npt.ArrayLike) -> IntArray:
        """Return the interval of each time: 0 up to time 0, ``q`` beyond the horizon."""
        t = np.asarray(times, dtype=np.float64)
        inside = np.minimum(np.searchsorted(np.array(self.cuts), t, side="left") + 1, self.intervals)
        return np.asarray(np.where(t > 0.0, inside, 0), dtype=np.int64)


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
    def several_rows(self) -> float | None:
        """``r``; None where a person has one row, or the rows of a person do not count one by one."""
        return None

    @property
    def first_rows(self) -> bool:
        """Whether of people with several rows only the first complete one counts."""
        return False

    @property
    def averaged_rows(self) -> int | None:
        """Of how many rows of a person at most the outcome is the mean; None where it is that of a row."""
        return None

    @property
    def overlap(self) -> OverlapWeights | None:
        """How people are weighted by their chance of treatment; None where they are not."""
        return None

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The number of coefficients."""

    @property
    def cells(self) -> int:
        """How many terms a person's loss has at most: one, but for hazards."""
        return 1

    def __post_init__(self) -> None:
        """Refuse what is no name of a column."""
        if not all(name is None or isinstance(name, str) for name in (self.weights, self.offset)):
            raise MechanismError("weights and offset must be names of columns, or None")
        if self.several_rows is not None and not 0.0 <= self.several_rows <= 1.0:
            raise MechanismError("the correlation of rows of a person must be from 0 to 1")
        if self.overlap is not None and not (self.weights is None and self.several_rows is None):
            raise MechanismError("a weighting by propensity is of people with one row each, without case weights")


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
        The scores of somebody's own loss (`hdpstats.losses.own`); empty for all others.
    correlation : float or None
        ``r`` where people have several rows: each of n complete ones counts ``1 / (1 + (n - 1) r)``
        (`hdpstats.families.several_rows`). None, which JSON leaves out, where they have one.
    weighting : OverlapWeights or None
        How people are weighted by their chance of treatment; None, which JSON leaves out, where they are not.
    first : bool or None
        Whether of people with several rows only the first complete one counts, in the order of the table; None, which
        JSON leaves out, where not.
    averaged : int or None
        Of weighted people with several rows: the row is the first that is complete but for the outcome, and that is the
        mean over the rows that have it, so many at most; None, which JSON leaves out, where people have one.
    """

    kind: ClassVar[str] = "regression"
    formula: str
    loss: str
    geometry: Geometry
    weights: str | None = None
    offset: str | None = None
    parameters: tuple[float, ...] = ()
    table: tuple[tuple[float, ...], ...] = ()
    correlation: Annotated[float | None, LEFT_OUT] = None
    weighting: Annotated[OverlapWeights | None, LEFT_OUT] = None
    first: Annotated[bool | None, LEFT_OUT] = None
    averaged: Annotated[int | None, LEFT_OUT] = None

    @property
    def several_rows(self) -> float | None:
        """``r``; None where a person has one row."""
        return self.correlation

    @property
    def first_rows(self) -> bool:
        """Whether of people with several rows only the first complete one counts, but for an averaged outcome."""
        return self.first is not None or self.averaged is not None

    @property
    def averaged_rows(self) -> int | None:
        """Of how many rows of a person at most the outcome is the mean."""
        return self.averaged

    @property
    def overlap(self) -> OverlapWeights | None:
        """How people are weighted by their chance of treatment; None where they are not."""
        return self.weighting

    def __post_init__(self) -> None:
        """Refuse names that are none, and numbers that are not finite."""
        QueryModel.__post_init__(self)
        if self.first is not None and not (self.first is True and self.correlation is None and self.weighting is None):
            raise MechanismError("first must be true, of people whose rows do not count one by one, or left out")
        if self.averaged is not None and not (self.averaged >= 1 and self.weighting is not None):
            raise MechanismError("averaged must be a number of rows of people who are weighted, or left out")
        if not all(math.isfinite(value) for row in (self.parameters, *self.table) for value in row):
            raise MechanismError("the parameters of a loss must be finite numbers")

    @property
    def dimension(self) -> int:
        """The number of coefficients, intercept included."""
        return self.geometry.dimension


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class MultinomialModel(QueryModel):
    """A multinomial logistic regression, coefficients level by level: ``theta`` (others D,).

    Attributes
    ----------
    others : int
        How many levels the outcome has beside the reference.
    correlation : float or None
        ``r`` where people have several rows: each of n complete ones counts ``1 / (1 + (n - 1) r)``
        (`hdpstats.families.several_rows`). None, which JSON leaves out, where they have one.
    """

    kind: ClassVar[str] = "multinomial"
    formula: str
    others: int
    geometry: Geometry
    weights: str | None = None
    offset: str | None = None
    correlation: Annotated[float | None, LEFT_OUT] = None

    @property
    def several_rows(self) -> float | None:
        """``r``; None where a person has one row."""
        return self.correlation

    def __post_init__(self) -> None:
        """Refuse a model without levels, of a size that nobody can solve, or with an offset."""
        QueryModel.__post_init__(self)
        if not 1 <= self.others <= 100 or self.offset is not None:
            raise MechanismError("a multinomial model has 2 to 101 levels and no offset")

    @property
    def dimension(self) -> int:
        """The number of coefficients of all levels."""
        return self.others * self.geometry.dimension


LONGEST_BASELINE_ROW = 1.0 + 2.0**-40
"""Bound on the norm of a row of baseline features: 1, up to rounding."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HazardCap:
    """How much one person's loss may weigh in each interval: public, and a function of the own covariates only.

    The formula that these are the numbers of is in `hdpstats.families.hazard.caps`.

    Where the caps of a person, over all causes and all intervals from entry to the horizon, add up to more than
    ``total``, the person counts by the weight ``total`` over that sum: a function of entry and covariates. So do models
    say that have ``weighs``. In others follow-up ends before the sum passes ``total``.

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
    weighs : bool or None
        Whether people are weighed down whose caps add up to more than ``total``; None, which JSON leaves out, where
        their follow-up ends.
    """

    total: float
    margin: float
    baseline: tuple[tuple[float, ...], ...]
    slopes: tuple[tuple[float, ...], ...]
    weighs: Annotated[bool | None, LEFT_OUT] = None

    def __post_init__(self) -> None:
        """Refuse numbers beyond which caps are not exact to their last digits, and a rule that is none."""
        if not (self.weighs is None or self.weighs is True):
            raise MechanismError("weighs of a hazard cap must be true, or left out where follow-up ends")
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
        (`hdpstats.records.limits`). With strata q rows for each of them, and features of its own.
    geometry : Geometry
        Of the covariates, with an intercept, which stands for the baseline.
    cap : HazardCap
        How much one person may weigh.
    weighting : OverlapWeights or None
        How people are weighted by their chance of treatment; None, which JSON leaves out, where they are not.
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
    weighting: Annotated[OverlapWeights | None, LEFT_OUT] = None

    @property
    def overlap(self) -> OverlapWeights | None:
        """How people are weighted by their chance of treatment; None where they are not."""
        return self.weighting

    def __post_init__(self) -> None:
        """Refuse a model that contradicts itself, or is too large."""
        check_size("causes", len(self.cap.baseline), MOST_CAUSES, remedy="name fewer levels of the event")
        features = sum(len(row) for row in self.baseline)
        check_size("baseline features in all", features, MOST_FEATURES, remedy="take fewer intervals or knots")
        QueryModel.__post_init__(self)
        q, p = len(self.baseline), len(self.geometry.location)
        widths = {len(row) for row in self.baseline}
        if not q or q % self.grid.intervals or len(widths) != 1 or widths == {0}:
            raise MechanismError(
                f"the baseline must be a table with a row for each of the {self.grid.intervals} intervals, by stratum"
            )
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
    def cells(self) -> int:
        """One for each interval and cause."""
        return self.grid.intervals * self.causes

    @property
    def block(self) -> int:
        """``e + p``: the coefficients of one cause."""
        return len(self.baseline[0]) + len(self.geometry.location)

    @property
    def dimension(self) -> int:
        """The number of coefficients of all causes."""
        return self.causes * self.block


AnyModel = RegressionModel | HazardModel | MultinomialModel
"""Any of the models."""
