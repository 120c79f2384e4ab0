"""Survival curves as tables, by time, by share and as means; and the report that they show of themselves.

`compare` puts a model's survival, averaged over people, beside the curves of the people themselves.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
from scipy.special import ndtr

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.validation import choice, real
from hdpstats.display import Block, Report, columns, named_values, p_value
from hdpstats.records.estimate import normal_quantile
from hdpstats.results.curves import hazard_facts
from hdpstats.results.description_tables import frame_of
from hdpstats.results.group_curves import GroupCurve
from hdpstats.results.population import population
from hdpstats.results.result import Result
from hdpstats.results.summary import guarantee_badges, guarantee_details, guarantee_rows
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema

if TYPE_CHECKING:
    from hdpstats.results.survival_curves import SurvivalCurves

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

        Private people were counted at the ends of intervals only. In between the hazard is taken as constant within an
        interval, as in figures, and limits allow for hazards that change as much within it as they do between it and
        its neighbours (`hdpstats.inference.life_tables`). ``at_risk`` is at the time itself, linear in between.
        """
        asked = np.array([real(each, name="times", lower=0.0, upper=float(self.times[-1])) for each in _listed(times)])
        alpha = 1.0 - real(conf_level, name="conf_level", lower=0.001, upper=0.999)
        return self._rows(asked, alpha, source, None, counts=False)

    def drawn(self, cause: str | None = None, *, source: str | None = None) -> pd.DataFrame:
        """Return the curves of `plot`, or of `plot_incidence`, for other software that draws.

        Columns: group (None without groups), time, estimate, conf_low, conf_high (95 %), joined. Where ``joined`` is
        true the curve goes through its rows in straight lines, which are close to each other; else it is one of steps,
        held from each time to the next. The numbers are those of `at`. Groups that are not shown have no rows.

        Parameters
        ----------
        cause
            The cause whose incidence is wanted; by default the event-free probability is.
        source
            "private" or "public" people.

        Raises
        ------
        ArgumentError
            If there is no such cause, or no such people.
        """
        z, rows = normal_quantile(0.05), list[tuple[Any, ...]]()
        place = None if cause is None else self.causes.index(choice(cause, name="cause", options=self.causes))
        for label, curve in zip(self.groups, self.curves(source), strict=True):
            if curve.known:
                times, joined = curve.drawn_at, len(curve.ends) > 0
                band = curve.survival(times, z) if place is None else curve.incidence(place, times, z)
                numbers = zip(times, band.value, band.low, band.high, strict=True)
                rows += [(label, *each, float(joined)) for each in numbers]
        names = ("time", "estimate", "conf_low", "conf_high", "joined")
        return frame_of(rows, texts=("group",), numbers=names).astype({"joined": bool})

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

        Infinity says that it is not reached. Private people's estimate is where the curve of `at` and of figures
        reaches the share, hazards constant within intervals; the limits are ends of intervals, and hold whatever
        survival does in between. Public times are those of R's ``quantile``.
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

        Of private people the curve is that of `at` and of figures, with constant hazards within intervals, which the
        error does not count: ask for more ends where a hazard changes within an interval.

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
            p = float(2.0 * ndtr(-abs(apart / whole))) if whole > 0.0 else np.nan
            contrasts.append((f"{label} - {first[0]}", upto, apart, whole, apart - z * whole, apart + z * whole, p))
        return frame_of(contrasts, texts=("contrast",), numbers=(*names, "p_value"))


def check_groups(groups: Sequence[str | None]) -> None:
    """Refuse to compare where there is one group."""
    if len(groups) < 2:
        raise ArgumentError("groups to compare are needed: write a column on the right of ~", argument="formula")


def _listed(values: float | Iterable[float]) -> list[float]:
    if isinstance(values, str | bytes):
        raise ArgumentError(f"times and shares must be numbers, not {values!r}", argument="times")
    return list(values) if isinstance(values, Iterable) else [values]


SUPPRESSED = "N/A: too few people for the noise, so that the number would say nothing."
COMPLETE = "Curves are of people who are complete in {columns} too, as the description is."
STATED = (
    "Curves are stated at the ends of {intervals} public intervals; limits hold at each end by itself and count "
    "sampling and privacy noise. In between nothing was counted: the hazard is taken as constant within an interval."
)
COUNTS = "Counts have noise of standard deviation {sd:.1f} each; people are noisy numbers."
EXACT = "Kaplan-Meier estimates of public rows, followed to {end:g}, without noise."


def report(curves: "SurvivalCurves", alpha: float) -> Report:
    """Return the report of curves."""
    private = curves.guarantee is not None
    blocks = [named_values(_head(curves)), _groups(curves, alpha)]
    if len(curves.groups) > 1:
        blocks.append(_comparison(curves, alpha))
    if curves.guarantee is not None:
        rows = guarantee_rows(curves.guarantee, [each for _, each in curves.releases])
        blocks.append(named_values(rows, title="Privacy"))
    return Report(
        title="Survival curves, differentially private" if private else "Survival curves of public rows",
        heading="Survival curves",
        blocks=blocks,
        notes=_notes(curves),
        badges=guarantee_badges(curves.guarantee),
        ending=guarantee_details(curves.guarantee),
    )


def time(value: float) -> str:
    """Return a time as text.

    >>> time(365.25), time(float("inf")), time(float("nan"))
    ('365.2', 'not reached', 'N/A')
    """
    if np.isnan(value):
        return "N/A"
    return "not reached" if np.isinf(value) else f"{value:.4g}"


def _head(curves: "SurvivalCurves") -> list[tuple[str, str]]:
    rows = [("Formula:", curves.formula)]
    rows += [("Time in:", curves.unit_of_time)] if curves.unit_of_time else []
    rows += [("Weights:", curves.weights)] if curves.weights else []
    rows += [("Times:", "at the ends of intervals")] if curves.recorded == "at_ends" else []
    rows += [("Complete in:", ", ".join(curves.complete_in))] if curves.complete_in else []
    rows += [("Sites:", ", ".join(curves.sites))] if len(curves.sites) > 1 else []
    return rows + [("No answer:", f"{site}: {reason}") for site, reason in curves.missing]


def _groups(curves: "SurvivalCurves", alpha: float) -> Block:
    median, mean = curves.median(alpha), curves.restricted_mean(alpha=alpha)
    events = [curve.events(curves.times).sum() for curve in curves.curves()]
    rows = []
    for of_median, of_mean, happened in zip(median.to_dict("records"), mean.to_dict("records"), events, strict=True):
        limits = [f"[{time(each['conf_low'])}, {time(each['conf_high'])}]" for each in (of_median, of_mean)]
        known = bool(np.isfinite(of_median["people"]))
        counts = [f"{of_median['people']:.0f}", f"{happened:.0f}"] if known else ["N/A", "N/A"]
        rows.append([*counts, time(of_median["estimate"]), limits[0], time(of_mean["estimate"]), limits[1]])
    names = [str(label) if label is not None else "all" for label in curves.groups]
    level, end = f"{1.0 - alpha:.0%} limits", f"mean to {mean['time'].iloc[0]:g}"
    return columns(["people", "events", "median", level, end, level], names, rows, title="By group")


def _comparison(curves: "SurvivalCurves", alpha: float) -> Block:
    apart = curves.restricted_mean(alpha=alpha, differences=True)
    rows = [
        [time(each["estimate"]), f"[{time(each['conf_low'])}, {time(each['conf_high'])}]", _p(each["p_value"])]
        for each in apart.to_dict("records")
    ]
    names = [f"mean: {name}" for name in apart["contrast"]]
    known = sum(curve.known for curve in curves.curves()) > 1
    test = curves.logrank_test() if known else None
    rows.append(["", "", "N/A"] if test is None else [f"{test.statistic:.2f} on {test.df} df", "", _p(test.p_value)])
    names.append(f"log-rank by {' and '.join(curves.strata)}" if curves.strata else "log-rank")
    return columns(["", f"{1.0 - alpha:.0%} limits", "p"], names, rows, title="Comparison")


def _p(value: float) -> str:
    return "N/A" if np.isnan(value) else p_value(value)


def _notes(curves: "SurvivalCurves") -> list[str]:
    if curves.guarantee is None:
        return [EXACT.format(end=curves.asked.ends[-1])]
    sd = float(np.sqrt(sum(release.follow_up_sd**2 for _, release in curves.releases)))
    notes = [STATED.format(intervals=len(curves.asked.ends)), COUNTS.format(sd=sd)]
    notes += [COMPLETE.format(columns=", ".join(curves.complete_in))] if curves.complete_in else []
    return notes if all(curve.known for curve in curves.curves()) else [*notes, SUPPRESSED]


NUMBERS = ("time", "estimate", "model", "difference", "std_error", "conf_low", "conf_high")


def compare(curves: "SurvivalCurves", result: object, over: object, *, alpha: float) -> pd.DataFrame:
    """Return the comparison; see `hdpstats.results.SurvivalCurves.compare`."""
    if not isinstance(result, Result):
        raise ArgumentError(f"result must be that of a hazard model, not {type(result).__name__}", argument="result")
    horizon, z = hazard_facts(result.facts).grid.horizon, normal_quantile(alpha)
    people = population(result, result.public_rows, over)
    frame, weights = people.frame.reset_index(drop=True), people.weights
    lacking = [name for name in curves.grouping if name not in frame]
    if lacking:
        raise ArgumentError(f"over must have the curves' groups as columns: {', '.join(lacking)}", argument="over")
    times = curves.times[curves.times <= horizon]
    if not len(times):
        raise ArgumentError("the model's last interval ends before the first end of the curves", argument="result")
    group, predicted = _same_groups(curves, frame), _predicted(result, frame, times)
    rows: list[tuple[Any, ...]] = []
    for place, (label, curve) in enumerate(zip(curves.groups, curves.curves(), strict=True)):
        own = (group == place) & np.isfinite(predicted).all(axis=1) & (weights > 0.0)
        model = weights[own] @ predicted[own] / weights[own].sum() if own.any() else np.full(len(times), np.nan)
        band = curve.survival(times, z)
        apart = band.value - model
        numbers = (times, band.value, model, apart, band.std_error, apart - z * band.std_error)
        rows += [(label, *each) for each in zip(*numbers, apart + z * band.std_error, strict=True)]
    return frame_of(rows, texts=("group",), numbers=NUMBERS)


def _same_groups(curves: "SurvivalCurves", frame: pd.DataFrame) -> IntArray:
    """Return the group of each row; -1 where it lacks a cell."""
    place = np.zeros(len(frame), dtype=np.int64)
    if not curves.grouping:
        return place
    table = PublicTable.from_frame(frame, Schema({name: curves.schema[name] for name in curves.grouping}))
    known = table.complete(curves.grouping)
    for name in curves.grouping:
        codes = table.codes[name] if name in table.codes else np.nan_to_num(table.numbers[name]).astype(np.int64)
        place = place * len(curves.levels(name)) + codes
    return np.where(known, place, -1)


def _predicted(result: Result, frame: pd.DataFrame, times: FloatArray) -> FloatArray:
    """Return predicted survival (n, T)."""
    found = result.predict_survival(frame, times.tolist(), ci=False)
    return found["survival"].to_numpy(dtype=float).reshape(len(frame), len(times))
