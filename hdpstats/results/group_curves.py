"""The survival of one group, read from a noisy table of private people or from public rows: one form for both."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.inference.life_tables import LifeTable
from hdpstats.inference.log_rank import noisy_score
from hdpstats.inference.survival_bands import (
    Band,
    crossing_of,
    incidence,
    limits_of_crossing,
    restricted_mean,
    survival,
    survival_between,
)
from hdpstats.public.log_rank import Score, exact_score
from hdpstats.public.risk_sets import RiskSets, first_below


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
    def last(self) -> float:
        """The last time at which anything is stated."""

    @abstractmethod
    def stated(self, times: FloatArray) -> BoolArray:
        """Return at which times (m,) numbers have limits."""

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

    @staticmethod
    @abstractmethod
    def score(strata: "Sequence[Sequence[GroupCurve]]", *, peto: bool, beta: FloatArray | None) -> Score:
        """Return the log-rank score of the groups of each stratum."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateCurve(GroupCurve):
    """A group of private people: numbers are stated at the ends of public intervals.

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
        """0 and the ends of intervals."""
        return self.table.cuts

    @property
    def last(self) -> float:
        """The end of the last interval with enough people at risk for the noise."""
        return float(self.table.cuts[self.table.stated][-1])

    def stated(self, times: FloatArray) -> BoolArray:
        """Return which times are ends of intervals with enough people at risk."""
        return np.isin(times, self.table.cuts[self.table.stated])

    def survival(self, times: FloatArray, z: float) -> Band:
        """Return survival; between the ends of intervals without limits, its logarithm linear."""
        band = survival(self.table, z)
        return self._at(times, band, survival_between(band.value, self.table.cuts, times))

    def incidence(self, cause: int, times: FloatArray, z: float) -> Band:
        """Return the incidence of a cause; between the ends of intervals without limits, and linear."""
        band = incidence(self.table, cause, z)
        return self._at(times, band, np.interp(times, self.table.cuts, band.value))

    def _at(self, times: FloatArray, band: Band, value: FloatArray) -> Band:
        place = np.minimum(np.searchsorted(self.table.cuts, times), self.table.intervals)
        stated, inside = self.stated(times) & self.known, (times <= self.last) & self.known
        parts = (np.where(stated, part[place], np.nan) for part in (band.std_error, band.low, band.high))
        return Band(np.where(inside, value, np.nan), *parts)

    def at_risk(self, times: FloatArray) -> FloatArray:
        """Return people at risk, linear between the ends of intervals."""
        found = np.interp(times, self.table.cuts, self.table.at_risk, right=np.nan) * self.weight
        return np.where(self.known, found, np.nan)

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
        band, upto = survival(self.table, z), int(self.table.stated.sum())
        cuts, parts = self.table.cuts[:upto], (band.value, band.std_error, band.low, band.high)
        stated = Band(*(part[:upto] for part in parts))
        return crossing_of(stated.value, cuts, level), *limits_of_crossing(stated, cuts, level)

    def restricted_mean(self, upto: float) -> tuple[float, float]:
        """Return the mean time without an event up to a time; NaN where that is later than anything stated."""
        return restricted_mean(self.table, upto) if self.known and upto <= self.last else (np.nan, np.nan)

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
    """

    sets: RiskSets
    size: float
    known: bool
    weight: float = 1.0

    @property
    def people(self) -> float:
        """The number of people."""
        return self.size

    @property
    def drawn_at(self) -> FloatArray:
        """0 and all times of events and censorings."""
        return np.append(0.0, self.sets.times)

    @property
    def last(self) -> float:
        """Infinity: restricted means go as far as R's do."""
        return float(np.inf)

    def stated(self, times: FloatArray) -> BoolArray:
        """Return that all numbers have limits."""
        return np.ones(len(times), dtype=np.bool_)

    @cached_property
    def _error_of_logarithm(self) -> FloatArray:
        return np.sqrt(self.sets.greenwood)

    def survival(self, times: FloatArray, z: float) -> Band:
        """Return the Kaplan-Meier estimate with Greenwood's error, and limits on the logarithmic scale."""
        curves = self.sets.curves
        S = curves.at(curves.survival, times, start=1.0)
        return self._band(times, S, curves.at(self._error_of_logarithm, times, start=0.0), z)

    def incidence(self, cause: int, times: FloatArray, z: float) -> Band:
        """Return the Aalen-Johansen estimate of a cause, and limits on the logarithmic scale."""
        curves = self.sets.curves
        F = curves.at(curves.incidence[:, cause], times, start=0.0)
        error = curves.at(curves.std_error[:, cause], times, start=0.0)
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
        found = self.sets.at_risk_at(times)
        return np.where(times <= 0.0, self.sets.at_risk[0], found)

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
        return self.sets.restricted_mean(upto) if self.known else (np.nan, np.nan)

    @staticmethod
    def score(strata: Sequence[Sequence[GroupCurve]], *, peto: bool, beta: FloatArray | None) -> Score:
        """Return the exact score."""
        sets = [[each.sets for each in groups if isinstance(each, PublicCurve)] for groups in strata]
        return exact_score(sets, peto=peto, beta=beta)
