"""The numbers of survival curves as tables: by time, by share, and as means."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.special import ndtr

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import real
from hdpstats.results.description_tables import frame_of
from hdpstats.results.group_curves import GroupCurve
from hdpstats.results.tables import normal_quantile

TIDY: Final = ("group", "cause", "time", "estimate", "std_error", "conf_low", "conf_high", "at_risk", "events")
EVENT_FREE: Final = "(event-free)"
"""The cause under which the event-free probability stands where there are several causes."""


class CurveTables(ABC):
    """Curves by group whose numbers are given as tables."""

    __slots__ = ()

    @property
    @abstractmethod
    def groups(self) -> tuple[str | None, ...]:
        """The groups' labels; one None without grouping columns."""

    @property
    @abstractmethod
    def causes(self) -> tuple[str, ...]:
        """The labels of events."""

    @property
    @abstractmethod
    def times(self) -> FloatArray:
        """The ends of the intervals, at which private numbers are stated."""

    @abstractmethod
    def curves(self, source: str | None = None, site: str | None = None) -> Sequence[GroupCurve]:
        """Return the curve of each group: of "private" people, of one site's, or of "public" rows."""

    def tidy(self, conf_level: float = 0.95, *, source: str | None = None, site: str | None = None) -> pd.DataFrame:
        """Return a row per group and end of an interval.

        Columns: group (None without groups), time, estimate (the probability that nothing has happened by then),
        std_error, conf_low, conf_high, at_risk (people at risk when the interval begins), events (in the interval).
        With several causes there are rows for each ``cause``, whose estimate is its cumulative incidence, and for
        ``"(event-free)"``. Groups that are too small for their noise have NaN, and so have times at which too few
        people are at risk for it.

        Parameters
        ----------
        conf_level
            The level of the limits, which hold at each time by itself and count sampling and noise.
        source
            "private" or "public" people.
        site
            One site of several that answered; not with public people, who are at no site.

        Raises
        ------
        ArgumentError
            If there is no such site, or no such people.
        """
        alpha = 1.0 - real(conf_level, name="conf_level", lower=0.001, upper=0.999)
        return self._rows(self.times, alpha, source, site, counts=True)

    def at(
        self, times: float | Iterable[float], conf_level: float = 0.95, *, source: str | None = None
    ) -> pd.DataFrame:
        """Return the rows of `tidy` at any times up to the end of the last interval, without events.

        Limits and standard errors of private people are at ends of intervals only: in between nothing was counted. The
        estimate there takes the logarithm of survival as linear; ``at_risk`` is at the time itself, linear as well.
        """
        asked = np.array([real(each, name="times", lower=0.0, upper=float(self.times[-1])) for each in _listed(times)])
        alpha = 1.0 - real(conf_level, name="conf_level", lower=0.001, upper=0.999)
        return self._rows(asked, alpha, source, None, counts=False)

    def _rows(
        self, times: FloatArray, alpha: float, source: str | None, site: str | None, *, counts: bool
    ) -> pd.DataFrame:
        z, several = normal_quantile(alpha), len(self.causes) > 1
        before = np.append(0.0, times[:-1]) if counts else times
        rows: list[tuple[Any, ...]] = []
        for label, curve in zip(self.groups, self.curves(source, site), strict=True):
            at_risk = curve.at_risk(before)
            events = curve.events(times) if counts else np.full((len(times), len(self.causes)), np.nan)
            parts = [(EVENT_FREE, curve.survival(times, z), events.sum(axis=1))]
            if several:
                own = [(name, curve.incidence(k, times, z), events[:, k]) for k, name in enumerate(self.causes)]
                parts = [*own, *parts]
            for cause, band, happened in parts:
                numbers = zip(times, band.value, band.std_error, band.low, band.high, at_risk, happened, strict=True)
                rows += [(label, cause, *each) for each in numbers]
        frame = frame_of(rows, texts=TIDY[:2], numbers=TIDY[2:])
        left_out = ([] if several else ["cause"]) + ([] if counts else ["events"])
        return frame.drop(columns=left_out)

    def quantile(
        self, probs: float | Iterable[float] = (0.25, 0.5, 0.75), alpha: float = 0.05, *, source: str | None = None
    ) -> pd.DataFrame:
        """Return the times by which shares of people have had an event: group, prob, estimate, conf_low, conf_high.

        Infinity says that it is not reached. Between ends of intervals the logarithm of private survival is taken as
        linear for the estimate; the limits are ends of intervals, and hold whatever survival does in between. Public
        times are those of R's ``quantile``.
        """
        z = normal_quantile(alpha)
        shares = [real(each, name="probs", lower=1e-6, upper=1.0 - 1e-6) for each in _listed(probs)]
        rows = [
            (label, share, *curve.reaches(1.0 - share, z))
            for label, curve in zip(self.groups, self.curves(source), strict=True)
            for share in shares
        ]
        return frame_of(rows, texts=("group",), numbers=("prob", "estimate", "conf_low", "conf_high"))

    def median(self, alpha: float = 0.05, *, source: str | None = None) -> pd.DataFrame:
        """Return the median time of each group: group, people, estimate, conf_low, conf_high; see `quantile`."""
        found = self.quantile(0.5, alpha, source=source).drop(columns="prob")
        people = [curve.people if curve.known else np.nan for curve in self.curves(source)]
        found.insert(1, "people", people)
        return found

    def restricted_mean(
        self, upto: float | None = None, alpha: float = 0.05, *, differences: bool = False, source: str | None = None
    ) -> pd.DataFrame:
        """Return the mean time without an event up to a time: the area under the curve.

        Of private people the logarithm of survival is taken as linear within intervals, which the error does not count:
        ask for more ends where a curve bends.

        Parameters
        ----------
        upto
            The time, by default the last end at which all groups' curves are stated.
        alpha
            One minus the level of the limits.
        differences
            Whether differences of groups from the first one are returned, with a p-value.
        source
            "private" or "public" people.

        Returns
        -------
        DataFrame
            Columns group, time, estimate, std_error, conf_low, conf_high; of differences contrast in place of group,
            and p_value.
        """
        end = float(self.times[-1])
        last = min([end, *(curve.last for curve in self.curves(source) if curve.known)])
        upto = last if upto is None else real(upto, name="upto", lower=0.0, upper=end, open_lower=True)
        z = normal_quantile(alpha)
        found = [curve.restricted_mean(upto) for curve in self.curves(source)]
        names = ("time", "estimate", "std_error", "conf_low", "conf_high")
        if not differences:
            rows = [
                (label, upto, mean, error, max(mean - z * error, 0.0), min(mean + z * error, upto))
                if np.isfinite(mean) else (label, upto, *[np.nan] * 4)
                for label, (mean, error) in zip(self.groups, found, strict=True)
            ]  # fmt: skip
            return frame_of(rows, texts=("group",), numbers=names)
        check_groups(self.groups)
        first, *others = zip(self.groups, found, strict=True)
        contrasts = []
        for label, (mean, error) in others:
            apart, whole = mean - first[1][0], float(np.hypot(error, first[1][1]))
            p = _two_sided(apart / whole) if whole > 0.0 else np.nan
            contrasts.append((f"{label} - {first[0]}", upto, apart, whole, apart - z * whole, apart + z * whole, p))
        return frame_of(contrasts, texts=("contrast",), numbers=(*names, "p_value"))


def check_groups(groups: Sequence[str | None]) -> None:
    """Refuse to compare where there is one group."""
    if len(groups) < 2:
        raise ArgumentError("groups to compare are needed: write a column on the right of ~", argument="formula")


def _two_sided(z: float) -> float:
    """Return the probability of a normal number farther from 0."""
    return float(2.0 * ndtr(-abs(z)))


def _listed(values: float | Iterable[float]) -> list[float]:
    if isinstance(values, str | bytes):
        raise ArgumentError(f"times and shares must be numbers, not {values!r}", argument="times")
    return list(values) if isinstance(values, Iterable) else [values]
