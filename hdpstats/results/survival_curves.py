"""Survival curves of groups of private people, from one noisy table of events, beside those of public rows."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, final

import numpy as np
import pandas as pd
from scipy.special import ndtr

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice, real
from hdpstats.display import Report, Reported
from hdpstats.mechanisms.description.blocks import numbers_of
from hdpstats.mechanisms.description.cells import FollowUpCells
from hdpstats.mechanisms.description.follow_up import is_known, life_tables
from hdpstats.mechanisms.description.query import DescriptionQuery, DescriptionRelease
from hdpstats.privacy.accountant import Guarantee
from hdpstats.public.log_rank import log_hazard_ratios
from hdpstats.records.query import LedgerEntry
from hdpstats.results import curve_comparison, curves_report, disclosure
from hdpstats.results.curve_figures import CurveFigures
from hdpstats.results.description_tables import frame_of, labels_of
from hdpstats.results.group_curves import GroupCurve, PrivateCurve
from hdpstats.results.log_rank_test import LogRankTest
from hdpstats.results.public_curves import PublicCurves
from hdpstats.results.serialization import Saved
from hdpstats.results.tables import normal_quantile
from hdpstats.schema.schema import Schema

TIDY = ("group", "cause", "time", "estimate", "std_error", "conf_low", "conf_high", "at_risk", "events")
EVENT_FREE = "(event-free)"
"""The cause under which the event-free probability stands where there are several causes."""
SOURCES = ("private", "public")
HALVES: Final = {"within": 0.5, "at_ends": 0.0}
"""The part of an interval that censored people are not exposed for, by where in it times are recorded."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class SurvivalCurves(CurveFigures, Reported, Saved):
    """Survival curves by group. ``hdpf.survfit(...).fit(epsilon)`` makes them, or ``.fit_public()``.

    Private curves are read from a noisy table of events and censorings in public intervals
    (`hdpstats.inference.life_tables`), and are stated at the ends of these intervals. Those of public rows are
    Kaplan-Meier's.

    Attributes
    ----------
    formula : str
        What was asked for.
    schema : Schema
        The declared columns.
    asked : FollowUpCells
        Columns and intervals.
    grouping : tuple of str
        The columns whose levels are the groups.
    strata : tuple of str
        Those of them within whose levels the test compares the others.
    weights : str or None
        The column of case weights.
    recorded : str
        Where times lie: "within" intervals, or "at_ends" of them.
    complete_in : tuple of str
        Further columns in which people are complete, as in the description whose table was used.
    queries, releases : tuple of (str, DescriptionQuery) and of (str, DescriptionRelease)
        What each site was asked and what it answered; empty for public rows alone.
    missing : tuple of (str, str)
        The sites that did not answer, and why.
    guarantee : Guarantee or None
        What is guaranteed to every person; None for public rows alone.
    public : PublicCurves or None
        The public rows by the same groups.
    """

    _format: ClassVar[int] = 1
    _what: ClassVar[str] = "survival curves"

    formula: str
    schema: Schema
    asked: FollowUpCells
    grouping: tuple[str, ...]
    strata: tuple[str, ...]
    weights: str | None
    recorded: str
    complete_in: tuple[str, ...]
    queries: tuple[tuple[str, DescriptionQuery], ...]
    releases: tuple[tuple[str, DescriptionRelease], ...]
    missing: tuple[tuple[str, str], ...]
    guarantee: Guarantee | None
    public: PublicCurves | None
    _read: dict[tuple[str, str | None], Sequence[GroupCurve]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse releases that are not those of the queries, and curves of nobody."""
        if [name for name, _ in self.queries] != [name for name, _ in self.releases]:
            raise ArgumentError("queries and releases must be of the same sites", argument="releases")
        if not self.releases and self.public is None:
            raise ArgumentError("survival curves need releases or public rows", argument="public")

    @property
    def source(self) -> str:
        """Whose curves are shown unless a method is told otherwise: "private", or "public" where nothing was asked."""
        return SOURCES[0] if self.releases else SOURCES[1]

    @property
    def groups(self) -> tuple[str | None, ...]:
        """The groups' labels; one None without grouping columns."""
        return group_labels(self.grouping, self.schema)

    @property
    def causes(self) -> tuple[str, ...]:
        """The labels of events."""
        labels, level = labels_of(self.schema, self.asked.event), self.asked.level
        return labels[1:] if level is None else (labels[level],)

    @property
    def times(self) -> FloatArray:
        """The ends of the intervals, at which private numbers are stated."""
        return np.array(self.asked.ends)

    @property
    def unit_of_time(self) -> str | None:
        """The declared unit of the times."""
        return getattr(self.schema[self.asked.time], "unit", None)

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that answered."""
        return tuple(name for name, _ in self.releases)

    @property
    def ledger_entries(self) -> tuple[LedgerEntry, ...]:
        """Where the custodians' ledgers keep the releases."""
        return tuple(release.entry for _, release in self.releases if release.entry is not None)

    def curves(self, source: str | None = None, site: str | None = None) -> Sequence[GroupCurve]:
        """Return the curve of each group: of "private" people, of one site's, or of "public" rows."""
        kind = choice(source or self.source, name="source", options=SOURCES)
        if site is not None and kind == "public":
            raise ArgumentError("site must be left out where source is 'public'", argument="site")
        key = (kind, site)
        if key not in self._read:
            self._read[key] = self._public() if kind == "public" else self._private(site)
        return self._read[key]

    def _public(self) -> Sequence[GroupCurve]:
        if self.public is None:
            raise ArgumentError("source='public' needs public rows with these columns", argument="source")
        return self.public.curves()

    def _private(self, site: str | None) -> Sequence[GroupCurve]:
        if not self.releases:
            raise ArgumentError("source='private' needs private people: call fit(epsilon)", argument="source")
        if site is not None:
            choice(site, name="site", options=self.sites)
        releases = [each for name, each in self.releases if site in (None, name)]
        query = self.queries[0][1]
        return [
            PrivateCurve(table=table, weight=query.largest_weight, known=is_known(table, self.asked))
            for table in life_tables(numbers_of(query, releases, 0), half=HALVES[self.recorded])
        ]

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
            One site of several.
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
        asked = np.array([real(each, name="times", lower=0.0, upper=self.asked.ends[-1]) for each in _listed(times)])
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
        end = self.asked.ends[-1]
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
        self._check_groups()
        first, *others = zip(self.groups, found, strict=True)
        contrasts = []
        for label, (mean, error) in others:
            apart, whole = mean - first[1][0], float(np.hypot(error, first[1][1]))
            p = two_sided(apart / whole) if whole > 0.0 else np.nan
            contrasts.append((f"{label} - {first[0]}", upto, apart, whole, apart - z * whole, apart + z * whole, p))
        return frame_of(contrasts, texts=("contrast",), numbers=(*names, "p_value"))

    def logrank_test(
        self, method: str = "logrank", *, strata: str | Sequence[str] | None = None, source: str | None = None
    ) -> LogRankTest:
        """Return the test that all groups have the same hazards, with hazard ratios beside it.

        The variance of private people's score counts sampling and noise (`hdpstats.inference.log_rank`). Groups that
        are too small for the noise are left out.

        Parameters
        ----------
        method
            ``"logrank"``, or ``"peto"``, which weighs early differences more.
        strata
            Grouping columns within whose levels the others are compared; by default those of ``strata()`` in the
            formula, and ``[]`` for none. A stratum in which a group is too small for the noise is left out.
        source
            "private" or "public" people.

        Raises
        ------
        ArgumentError
            If fewer than two groups are left.
        """
        kind = choice(method, name="method", options=("logrank", "peto"))
        self._check_groups()
        by = self.strata if strata is None else (strata,) if isinstance(strata, str) else tuple(strata)
        names, within, table = self._by_stratum(list(self.curves(source)), by)
        known = np.array([[curve.known for curve in row] for row in table])
        kept = np.flatnonzero(known.any(axis=0))
        private = (source or self.source) == "private"
        full = np.flatnonzero(known[:, kept].all(axis=1) | (not private))
        if len(kept) < 2 or not len(full):
            enough = "that are large enough for the noise" if private else "with people"
            raise ArgumentError(f"logrank_test needs two groups {enough}", argument="self")
        chosen = [[table[row][place] for place in kept] for row in full]
        score, scale = type(chosen[0][0]).score, chosen[0][0].weight
        beta, covariance = log_hazard_ratios(lambda b: score(chosen, peto=False, beta=b), len(kept))
        without = [names[place] for place in range(len(names)) if place not in kept]
        return LogRankTest(
            groups=tuple(names[place] for place in kept),
            left_out=(*without, *(within[row] for row in range(len(within)) if row not in full)),
            method=kind,
            strata=by,
            result=score(chosen, peto=kind == "peto", beta=None).scaled(scale).test(),
            log_hazard_ratios=beta,
            covariance=covariance,
            private=private,
        )

    def _by_stratum(
        self, curves: Sequence[GroupCurve], by: tuple[str, ...]
    ) -> tuple[list[str], list[str], list[list[GroupCurve]]]:
        """Return what groups and strata are called, and the curves: a row for each stratum."""
        for each in by:
            choice(each, name="strata", options=self.grouping)
        others = [name for name in self.grouping if name not in by]
        if not others:
            raise ArgumentError(
                "groups to compare are needed besides strata: write arm + strata(sex)", argument="strata"
            )
        sizes = [len(self.levels(name)) for name in self.grouping]
        order = [self.grouping.index(name) for name in (*by, *others)]
        within = list(itertools.product(*(self.levels(name) for name in by)))
        places = np.arange(len(curves)).reshape(sizes).transpose(order).reshape(len(within), -1)
        names = [str(label) for label in group_labels(others, self.schema)]
        strata = [", ".join(f"{name}={label}" for name, label in zip(by, each, strict=True)) for each in within]
        return names, strata, [[curves[place] for place in row] for row in places.tolist()]

    def compare(self, result: object, over: object = "public", alpha: float = 0.05) -> pd.DataFrame:
        """Return a hazard model's survival, averaged over people, against these curves.

        Parameters
        ----------
        result
            The result of a hazard model.
        over
            People distributed as those of the curves, with the model's covariates and the grouping columns: a
            description of the private people, to which the public rows of the fit are raked; a frame; a weighted
            sample; or "public", the public rows of the fit as they are. Each group's curve is compared with the mean
            prediction for its rows.
        alpha
            One minus the level of the limits.

        Returns
        -------
        DataFrame
            Columns group, time, estimate (of the curve), model, difference, std_error (of the curve: the model's error
            is not counted), conf_low, conf_high (of the difference).
        """
        return curve_comparison.compare(self, result, over, alpha=alpha)

    def levels(self, name: str) -> tuple[str, ...]:
        """Return the labels of a grouping column's levels."""
        return labels_of(self.schema, name)

    def _check_groups(self) -> None:
        if len(self.groups) < 2:
            raise ArgumentError("groups to compare are needed: write a column on the right of ~", argument="formula")

    def disclosure(self) -> dict[str, Any]:
        """Return the privacy record for an output checker, as JSON values: see `hdpstats.results.Result.disclosure`."""
        return disclosure.curves_disclosure(self)

    def _report(self, alpha: float = 0.05) -> Report:
        return curves_report.report(self, alpha)

    def __repr__(self) -> str:
        cost = "public rows" if self.guarantee is None else str(self.guarantee)
        return f"<survival curves of {self.formula}: {cost}>"


def group_labels(grouping: Sequence[str], schema: Schema) -> tuple[str | None, ...]:
    """Return the labels of the combinations of levels: ``"arm=A, sex=1"``, of one column the levels themselves."""
    labels = [labels_of(schema, name) for name in grouping]
    if len(labels) < 2:
        return labels[0] if labels else (None,)
    return tuple(
        ", ".join(f"{name}={label}" for name, label in zip(grouping, each, strict=True))
        for each in itertools.product(*labels)
    )


def two_sided(z: float) -> float:
    """Return the probability of a normal number farther from 0."""
    return float(2.0 * ndtr(-abs(z)))


def _listed(values: float | Iterable[float]) -> list[float]:
    if isinstance(values, str | bytes):
        raise ArgumentError(f"times and shares must be numbers, not {values!r}", argument="times")
    return list(values) if isinstance(values, Iterable) else [values]
