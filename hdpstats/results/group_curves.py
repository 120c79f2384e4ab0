"""The survival of one group, read from a noisy table of private people or from public rows: one form for both.

`public_curves` are those of the public rows, by the same groups: exact, without noise.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference.life_tables import (
    Band,
    LifeTable,
    crossing_of,
    incidence_at,
    limits_of_crossing,
    restricted_mean,
    shared_by_means,
    survival,
    survival_at,
)
from hdpstats.inference.log_rank import Score, exact_score, noisy_score, weighted_score
from hdpstats.mechanisms.description.people import causes_of
from hdpstats.mechanisms.description.public_cells import FollowUpCells
from hdpstats.public.follow_up import FollowUp, risk_sets
from hdpstats.public.risk_sets import RiskSets, first_below
from hdpstats.public.weighted_curves import ArmSets, WeightedRows
from hdpstats.records.codec import LEFT_OUT, Record
from hdpstats.schema.columns import Categorical
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema

FINE: Final = 400
"""Pieces of a drawn curve."""


class GroupCurve(ABC):
    """The survival of one group.

    Attributes
    ----------
    known : bool
        Whether the group is large enough for its noise.
    weight : float
        What one person of its counts stands for: the largest weight, or 1.
    """

    known: bool
    weight: float

    @property
    @abstractmethod
    def people(self) -> float:
        """The number of people, or the total of their weights."""

    @property
    @abstractmethod
    def drawn_at(self) -> FloatArray:
        """The times at which a figure has a point, from 0."""

    @property
    @abstractmethod
    def ends(self) -> FloatArray:
        """The ends of intervals at which people were counted and anything is stated; none of exact curves, of steps."""

    @property
    @abstractmethod
    def last(self) -> float:
        """The last time at which anything is stated."""

    @abstractmethod
    def survival(self, times: FloatArray, z: float) -> Band:
        """Return survival at times (m,) with limits at a normal quantile."""

    @abstractmethod
    def incidence(self, cause: int, times: FloatArray, z: float) -> Band:
        """Return the incidence of a cause at times (m,) with limits at a normal quantile."""

    @abstractmethod
    def at_risk(self, times: FloatArray) -> FloatArray:
        """Return people at risk at times (m,)."""

    @abstractmethod
    def events(self, times: FloatArray) -> FloatArray:
        """Return events of each cause after the time before and up to each time (m, K)."""

    @abstractmethod
    def reaches(self, level: float, z: float) -> tuple[float, float, float]:
        """Return when survival reaches a level, and limits; infinity where it does not."""

    @abstractmethod
    def restricted_mean(self, upto: float) -> tuple[float, float]:
        """Return the mean time without an event up to a time, and its standard error."""

    def shared_by_means(self, other: "GroupCurve", upto: float) -> float:  # noqa: ARG002
        """Return the covariance of restricted means with another group's: 0 but for weighted people."""
        return 0.0

    @staticmethod
    @abstractmethod
    def score(strata: "Sequence[Sequence[GroupCurve]]", *, peto: bool, beta: FloatArray | None) -> Score:
        """Return the log-rank score of the groups of each stratum."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateCurve(GroupCurve):
    """A group of private people, counted at the ends of public intervals; hazards are constant within them.

    Attributes
    ----------
    table : LifeTable
        The noisy table, in people of the largest weight.
    weight : float
        That weight; 1 without weights.
    """

    table: LifeTable
    weight: float
    known: bool

    @property
    def people(self) -> float:
        """The noisy number of people."""
        exits = float(self.table.events.sum() + self.table.censored.sum()) + self.table.stayed
        return max(exits, 0.0) * self.weight

    @property
    def drawn_at(self) -> FloatArray:
        """Times close to each other, and the ends of intervals, up to the last one that is stated."""
        return np.union1d(np.linspace(0.0, self.last, FINE + 1), self.table.cuts[self.table.stated])

    @property
    def ends(self) -> FloatArray:
        """The ends of intervals with enough people at risk for the noise."""
        return self.table.cuts[self.table.stated][1:]

    @property
    def last(self) -> float:
        """The end of the last of these intervals."""
        return float(self.table.cuts[self.table.last])

    def survival(self, times: FloatArray, z: float) -> Band:
        """Return survival, hazards constant within intervals."""
        return self._known(survival_at(self.table, times, z))

    def incidence(self, cause: int, times: FloatArray, z: float) -> Band:
        """Return the incidence of a cause, hazards constant within intervals."""
        return self._known(incidence_at(self.table, cause, times, z))

    def _known(self, band: Band) -> Band:
        parts = (band.value, band.std_error, band.low, band.high)
        return band if self.known else Band(*(np.full_like(part, np.nan) for part in parts))

    def at_risk(self, times: FloatArray) -> FloatArray:
        """Return people at risk, linear between the ends of intervals."""
        numbers = np.interp(times, self.table.cuts, self.table.at_risk, right=np.nan) * self.weight
        return np.where(self.known, numbers, np.nan)

    def events(self, times: FloatArray) -> FloatArray:
        """Return events; times must be ends of intervals that increase."""
        K = self.table.events.shape[1]
        total = np.concatenate([np.zeros((1, K)), np.cumsum(self.table.events, axis=0)])
        upto = total[np.searchsorted(self.table.cuts, times)] * self.weight
        return np.where(self.known, np.diff(upto, axis=0, prepend=0.0), np.nan)

    def reaches(self, level: float, z: float) -> tuple[float, float, float]:
        """Return when survival reaches a level, and ends of intervals between which it does."""
        if not self.known:
            return np.nan, np.nan, np.nan
        band, upto = survival(self.table, z), self.table.last + 1
        cuts, parts = self.table.cuts[:upto], (band.value, band.std_error, band.low, band.high)
        stated = Band(*(part[:upto] for part in parts))
        return crossing_of(stated.value, cuts, level), *limits_of_crossing(stated, cuts, level)

    def restricted_mean(self, upto: float) -> tuple[float, float]:
        """Return the mean time without an event up to a time; NaN where that is later than anything stated."""
        return restricted_mean(self.table, upto) if self.known and upto <= self.last else (np.nan, np.nan)

    def shared_by_means(self, other: GroupCurve, upto: float) -> float:
        """Return the covariance of restricted means with another group's, which the weights' coefficients make."""
        both = isinstance(other, PrivateCurve) and min(self.last, other.last) >= upto
        return shared_by_means(self.table, other.table, upto) if both and isinstance(other, PrivateCurve) else 0.0

    @staticmethod
    def score(strata: Sequence[Sequence[GroupCurve]], *, peto: bool, beta: FloatArray | None) -> Score:
        """Return the score of noisy tables."""
        tables = [[each.table for each in groups if isinstance(each, PrivateCurve)] for groups in strata]
        return noisy_score(tables, peto=peto, beta=beta)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class PublicCurve(GroupCurve):
    """A group of public rows: exact, at every time.

    Attributes
    ----------
    sets : RiskSets
        Who was at risk when.
    size : float
        The number of people, or the total of their weights.
    weighted : ArmSets or None
        Of rows that are weighted by their chance of treatment: what their errors follow from.
    """

    sets: RiskSets
    size: float
    known: bool
    weight: float = 1.0
    weighted: ArmSets | None = None

    @property
    def people(self) -> float:
        """The number of people, or the total of their weights."""
        return self.size

    @property
    def drawn_at(self) -> FloatArray:
        """0 and all times of events and censorings."""
        return np.append(0.0, self.sets.times)

    @property
    def ends(self) -> FloatArray:
        """None: the curve is one of steps."""
        return np.zeros(0)

    @property
    def last(self) -> float:
        """Infinity: restricted means go as far as R's do."""
        return float(np.inf)

    @cached_property
    def _error_of_logarithm(self) -> FloatArray:
        return np.sqrt(self.sets.greenwood) if self.weighted is None else self.weighted.errors(self.sets.times)

    def survival(self, times: FloatArray, z: float) -> Band:
        """Return the Kaplan-Meier estimate with Greenwood's error, and limits on the logarithmic scale."""
        curves = self.sets.curves
        S = curves.at(curves.survival, times, start=1.0)
        return self._band(times, S, curves.at(self._error_of_logarithm, times, start=0.0), z)

    def incidence(self, cause: int, times: FloatArray, z: float) -> Band:
        """Return the Aalen-Johansen estimate of a cause, and limits on the logarithmic scale."""
        curves = self.sets.curves
        F = curves.at(curves.incidence[:, cause], times, start=0.0)
        known = curves.std_error[:, cause] if self.weighted is None else self.weighted.errors(self.sets.times, cause)
        error = curves.at(known, times, start=0.0)
        return self._band(times, F, np.divide(error, F, out=np.zeros_like(F), where=F > 0.0), z)

    def _band(self, times: FloatArray, value: FloatArray, relative: FloatArray, z: float) -> Band:
        inside = (times <= self.sets.times.max(initial=0.0)) & self.known
        with np.errstate(invalid="ignore", over="ignore"):
            reach = np.exp(z * np.where(np.isfinite(relative) & (value > 0.0), relative, np.nan))
            parts = value, value * relative, value / reach, np.minimum(value * reach, 1.0)
        return Band(*(np.where(inside, part, np.nan) for part in parts))

    def at_risk(self, times: FloatArray) -> FloatArray:
        """Return people at risk."""
        if len(self.sets.times) == 0:
            return np.zeros(len(times))
        numbers = self.sets.at_risk_at(times)
        return np.where(times <= 0.0, self.sets.at_risk[0], numbers)

    def events(self, times: FloatArray) -> FloatArray:
        """Return events."""
        return np.asarray(np.diff(self.sets.events_upto(times), axis=0, prepend=0.0))

    def reaches(self, level: float, z: float) -> tuple[float, float, float]:
        """Return when the steps reach a level, and when those of the limits do, as R's ``quantile``."""
        if not self.known:
            return np.nan, np.nan, np.nan
        band = self.survival(self.sets.times, z)
        one, low, high = (first_below(self.sets.times, part, level) for part in (band.value, band.low, band.high))
        return one, low, high

    def restricted_mean(self, upto: float) -> tuple[float, float]:
        """Return the area under the steps."""
        if not self.known:
            return np.nan, np.nan
        mean, error = self.sets.restricted_mean(upto)
        return mean, error if self.weighted is None else self.shared_by_means(self, upto) ** 0.5

    def shared_by_means(self, other: GroupCurve, upto: float) -> float:
        """Return the covariance of restricted means with another group's, which the weights' coefficients make."""
        if self.weighted is None or not isinstance(other, PublicCurve) or other.weighted is None:
            return 0.0
        return self.weighted.rows.covariance(self.weighted.of_mean(upto), other.weighted.of_mean(upto))

    @staticmethod
    def score(strata: Sequence[Sequence[GroupCurve]], *, peto: bool, beta: FloatArray | None) -> Score:
        """Return the exact score."""
        arms = [each.weighted for groups in strata for each in groups if isinstance(each, PublicCurve)]
        if all(each is not None for each in arms):
            return weighted_score([each for each in arms if each is not None], peto=peto, beta=beta)
        sets = [[each.sets for each in groups if isinstance(each, PublicCurve)] for groups in strata]
        return exact_score(sets, peto=peto, beta=beta)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicCurves(Record):
    """Public people at risk by group, to the end of the last interval, where those who are left are censored.

    Attributes
    ----------
    groups : tuple of RiskSets
        One for each group.
    people : tuple of float
        The number of rows of each group, or the total of their weights.
    weighted : WeightedRows or None
        The rows, where they are weighted by their chance of treatment.
    """

    groups: tuple[RiskSets, ...]
    people: tuple[float, ...]
    weighted: Annotated[WeightedRows | None, LEFT_OUT] = None

    def curves(self) -> list[PublicCurve]:
        """Return the curve of each group."""
        arms = (None,) * len(self.groups) if self.weighted is None else self.weighted.arms
        return [
            PublicCurve(sets=sets, size=size, known=size > 0.0, weighted=arm)
            for sets, size, arm in zip(self.groups, self.people, arms, strict=True)
        ]

    @classmethod
    def of_weighted(cls, rows: WeightedRows) -> "PublicCurves":
        """Return the curves of rows that are weighted by their chance of treatment."""
        people = tuple(float(rows.weights[rows.own(arm)].sum()) for arm in (0, 1))
        return cls(groups=tuple(arm.sets for arm in rows.arms), people=people, weighted=rows)


def public_curves(
    asked: FollowUpCells,
    grouping: tuple[str, ...],
    weights: str | None,
    schema: Schema,
    public: PublicTable | None,
    besides: tuple[str, ...] = (),
) -> PublicCurves | None:
    """Return the public rows that are complete in all columns; None where there are none, or they lack a column.

    They are complete in the columns ``besides`` as well.

    Of a person with several rows the first one counts, or with beginnings of follow-up each row from its own.
    """
    needs = (*asked.names, *grouping, *((weights,) if weights else ()), *besides)
    if public is None or not set(needs) <= set(public.names):
        return None
    table = public.raw(needs)
    columns: dict[str, Any] = {**table.codes, **table.numeric}
    group = np.zeros(table.rows, dtype=np.int64)
    sizes = [_levels(schema, name) for name in grouping]
    for name, size in zip(grouping, sizes, strict=True):
        group = group * size + columns[name].astype(np.int64)
    end, time = asked.ends[-1], columns[asked.time]
    rows = FollowUp(
        time=np.minimum(time, end),
        cause=np.where(time > end, 0, causes_of(columns[asked.event].astype(np.int64), asked.level)),
        causes=asked.causes,
        entry=None if asked.start is None else np.maximum(columns[asked.start], 0.0),
        weights=columns[weights] if weights else None,
    )
    keep = np.ones(table.rows, dtype=np.bool_) if rows.entry is None else rows.entry < rows.time
    if table.persons is not None and asked.start is None:
        first = np.unique(table.persons, return_index=True)[1]
        keep &= np.isin(np.arange(table.rows), first)
    rows_of_groups = [rows.take(keep & (group == number)) for number in range(int(np.prod(sizes, initial=1)))]
    return PublicCurves(
        groups=tuple(risk_sets(each, beginnings=True) for each in rows_of_groups),
        people=tuple(float(each.case_weights.sum()) for each in rows_of_groups),
    )


def _levels(schema: Schema, name: str) -> int:
    column = schema[name]
    return len(column.levels) if isinstance(column, Categorical) else 2
