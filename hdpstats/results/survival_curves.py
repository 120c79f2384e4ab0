"""Survival curves of groups of private people, from one noisy table of events, beside those of public rows.

Their log-rank test, with hazard ratios beside it, is an object that shows itself as well.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, final

import numpy as np
import pandas as pd
from scipy.special import ndtr

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice, real
from hdpstats.display import Report, Reported, columns, named_values, p_equals, p_value, stated
from hdpstats.inference.log_rank import Score, log_hazard_ratios
from hdpstats.mechanisms.description import DescriptionQuery, DescriptionRelease
from hdpstats.mechanisms.description.blocks import numbers_of
from hdpstats.mechanisms.description.moments import is_known, life_tables
from hdpstats.mechanisms.description.public_cells import FollowUpCells
from hdpstats.privacy.budget import Guarantee
from hdpstats.records.codec import LEFT_OUT
from hdpstats.records.estimate import normal_quantile
from hdpstats.records.query import LedgerEntry, Release
from hdpstats.records.saved import Saved
from hdpstats.results import curve_tables, reporting, survival_plots
from hdpstats.results.adjustment import Adjustment
from hdpstats.results.group_curves import GroupCurve, PrivateCurve, PublicCurves
from hdpstats.results.labels import groups_called
from hdpstats.results.tables import cost_columns, frame_of
from hdpstats.schema.schema import Schema, group_labels, labels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOTES: Final = {
    (True, False): "The variance of the score counts sampling and privacy noise; the score is compared with a normal "
    "distribution.",
    (True, True): "The variance of the score counts sampling, the estimation of the weights and privacy noise; the "
    "score is compared with a normal distribution.",
    (False, False): "Public rows: the exact test, without noise.",
    (False, True): "Weighted public rows: the robust test of Lin and Wei, which counts the estimation of the weights.",
}
"""What the test rests on, of private people or not, who are weighted or not."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class LogRankTest(Reported):
    """A test that all groups have the same hazards. `SurvivalCurves.logrank_test` makes one.

    Attributes
    ----------
    groups : tuple of str
        The groups that were compared.
    left_out : tuple of str
        Groups that are too small for the noise, and strata in which a group is.
    method : str
        "logrank" or "peto".
    strata : tuple of str
        The columns of strata.
    result : Score
        Statistic, degrees of freedom, p-value, observed and expected events.
    log_hazard_ratios : (G - 1,) float64
        Of each group against the first one.
    covariance : (G - 1, G - 1) float64
        Their covariance.
    private : bool
        Whether there is noise.
    called : mapping of str to str
        What a page calls the groups, where a column of theirs has a label.
    weighted : bool
        Whether people are weighted by their chance of treatment.
    """

    groups: tuple[str, ...]
    left_out: tuple[str, ...]
    method: str
    strata: tuple[str, ...]
    result: Score
    log_hazard_ratios: FloatArray
    covariance: FloatArray
    private: bool
    called: Mapping[str, str] = field(default_factory=dict)
    weighted: bool = False

    @property
    def statistic(self) -> float:
        """The chi-square statistic."""
        return self.result.statistic

    @property
    def df(self) -> int:
        """Its degrees of freedom."""
        return self.result.df

    @property
    def p_value(self) -> float:
        """The probability of a larger statistic under equal hazards."""
        return self.result.p_value

    @property
    def power_kept(self) -> float:
        """The share of the information that noise leaves: the mean over groups of sampling over all variance."""
        sampling, noise = np.diag(self.result.sampling), np.diag(self.result.noise)
        return float(np.mean(sampling / (sampling + noise)))

    @property
    def table(self) -> pd.DataFrame:
        """Observed and expected events, weighted as the test weighs them: group, observed, expected, std_error."""
        error = np.sqrt(np.diag(self.result.sampling + self.result.noise))
        rows = zip(self.groups, self.result.observed, self.result.expected, error, strict=True)
        return frame_of(list(rows), texts=("group",), numbers=("observed", "expected", "std_error"))

    def hazard_ratios(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the hazard ratio of each group against the first one, where hazards are proportional.

        Columns: contrast, estimate, std_error (of its logarithm), conf_low, conf_high. NaN where the noise leaves none.
        """
        z, beta, error = normal_quantile(alpha), self.log_hazard_ratios, np.sqrt(np.diag(self.covariance))
        names = [f"{group} / {self.groups[0]}" for group in self.groups[1:]]
        rows = zip(names, np.exp(beta), error, np.exp(beta - z * error), np.exp(beta + z * error), strict=True)
        return frame_of(list(rows), texts=("contrast",), numbers=("estimate", "std_error", "conf_low", "conf_high"))

    def tidy(self) -> pd.DataFrame:
        """Return one row: method, statistic, df, p_value."""
        return pd.DataFrame(
            {"method": [self.method], "statistic": [self.statistic], "df": [self.df], "p_value": [self.p_value]}
        )

    def glance(self) -> pd.DataFrame:
        """Return the row of `tidy`."""
        return self.tidy()

    def _report(self, alpha: float = 0.05) -> Report:
        name = "Log-rank test" if self.method == "logrank" else "Peto-Peto test"
        by = f", stratified by {' and '.join(self.strata)}" if self.strata else ""
        head = [
            ("Chi-square:", f"{stated(self.statistic, 2)} on {self.df} degrees of freedom"),
            ("p:", "N/A" if np.isnan(self.p_value) else p_value(self.p_value)),
        ]
        if self.private:
            head.append(("Information kept:", f"{self.power_kept:.0%} in spite of the noise"))
        if self.left_out:
            reason = "too few people for the noise" if self.private else "no people"
            head.append(("Left out:", f"{', '.join(self.left_out)}: {reason}"))
        table, ratios = self.table, self.hazard_ratios(alpha)
        shown = [[f"{row.observed:.1f}", f"{row.expected:.1f}", f"{row.std_error:.1f}"] for row in table.itertuples()]
        limits = (
            f"[{stated(low, 3)}, {stated(high, 3)}]" for low, high in ratios[["conf_low", "conf_high"]].to_numpy()
        )
        of_ratios = [[stated(value, 3), each] for value, each in zip(ratios["estimate"], limits, strict=True)]
        called = [self.called.get(group, group) for group in self.groups]
        compared = [f"{group} / {called[0]}" for group in called[1:]]
        of_events, headers = ["observed", "expected", "std error"], ["hazard ratio", f"{1.0 - alpha:.0%} limits"]
        last = "If hazards are proportional"
        return Report(
            title=f"{name}{by}",
            blocks=[
                named_values(head),
                columns(of_events, list(self.groups), shown, title="Events", only="text"),
                columns(headers, list(ratios["contrast"]), of_ratios, title=last, only="text"),
                columns(of_events, called, shown, title="Events", only="page"),
                columns(headers, compared, of_ratios, title=last, only="page"),
            ],
            notes=[NOTES[self.private, self.weighted]],
        )

    def __repr__(self) -> str:
        return f"<{self.method} test: chi-square {self.statistic:.3g} on {self.df}, {p_equals(self.p_value)}>"


TIDY: Final = ("group", "cause", "time", "estimate", "std_error", "conf_low", "conf_high", "at_risk", "events")
EVENT_FREE: Final = "(event-free)"
"""The cause under which the event-free probability stands where there are several causes."""
SOURCES = ("private", "public")
WITHIN: Final = {"within": True, "at_ends": False}
"""Whether people leave and come within intervals, by where in them times are recorded."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class SurvivalCurves(Reported, Saved):
    """Survival curves by group. ``hdpf.survfit(...).fit(epsilon)`` makes them, or ``.fit_public()``.

    Private curves are read from a noisy table of events and censorings in public intervals
    (`hdpstats.inference.life_tables`), and are stated at the ends of these intervals; within an interval the hazard is
    taken as constant, in tables and figures alike. Those of public rows are Kaplan-Meier's.

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
        The public rows by the same groups; None of private people who are weighted by their chance of treatment, which
        public people's treatment does not follow.
    adjusted : Adjustment or None
        How people are weighted by their chance of treatment.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> import hdpstats.formula.api as hdpf
    >>> schema = hdp.Schema(time=hdp.Duration(2557, unit="days"), event=hdp.Binary(), hormon=hdp.Binary())
    >>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
    >>> curves = hdpf.survfit("Surv(time, event) ~ hormon", study).fit_public()
    >>> curves
    <survival curves of Surv(time, event) ~ hormon: public rows>
    >>> curves.median()["estimate"].tolist()
    [1528.0, 2018.0]
    >>> curves.logrank_test()
    <logrank test: chi-square 8.56 on 1, p = 0.003>
    >>> curves.logrank_test().hazard_ratios()["estimate"].round(2).tolist()
    [0.69]
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
    adjusted: Annotated[Adjustment | None, LEFT_OUT] = None
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
    def before(self) -> tuple[Release, ...]:
        """The releases of the propensity model that people are weighted by; none without one."""
        return () if self.adjusted is None else self.adjusted.before

    def methods_text(self) -> str:
        """Return a paragraph for a paper: what was estimated, how people were weighted, what was protected."""
        return reporting.curves_methods(self)

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
        if self.public is None and self.adjusted is not None:
            raise ArgumentError(
                "source must be 'private': public people's treatment does not follow the private propensity model; "
                "fit_public() with a weighting of their own has their curves",
                argument="source",
            )
        if self.public is None:
            raise ArgumentError("source='public' needs public rows with these columns", argument="source")
        return self.public.curves()

    def _private(self, site: str | None) -> Sequence[GroupCurve]:
        if not self.releases:
            raise ArgumentError("source='private' needs private people: call fit(epsilon)", argument="source")
        if site is not None:
            choice(site, name="site", options=self.sites)
        errors = None if self.adjusted is None else self.adjusted.errors
        if errors is not None and site is not None and len(self.releases) > 1:
            raise ArgumentError(
                "site must be left out: errors of people weighted by their chance of treatment are of all sites "
                "together",
                argument="site",
            )
        releases = [each for name, each in self.releases if site in (None, name)]
        query = self.queries[0][1]
        return [
            PrivateCurve(
                table=replace(table, errors=errors, group=group),
                weight=query.largest_weight,
                known=is_known(table, self.asked),
            )
            for group, table in enumerate(life_tables(numbers_of(query, releases, 0), within=WITHIN[self.recorded]))
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
            One site of several that answered; not with public people, who are at no site.

        Raises
        ------
        ArgumentError
            If there is no such site, or no such people.
        """
        alpha = 1.0 - real(conf_level, name="conf_level", lower=0.001, upper=0.999)
        return self._rows(self.times, alpha, source, site, counts=True)

    def glance(self) -> pd.DataFrame:
        """Return one row: groups, intervals, people and events (noisy where private), epsilon, delta.

        Groups that are too small for their noise are not in the numbers.
        """
        known = [curve for curve in self.curves() if curve.known]
        return pd.DataFrame(
            {
                "groups": [len(self.groups)],
                "intervals": [len(self.times)],
                "people": [float(sum(curve.people for curve in known))],
                "events": [float(sum(curve.events(self.times).sum() for curve in known))],
                **cost_columns(self.guarantee),
            }
        )

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
        medians = self.quantile(0.5, alpha, source=source).drop(columns="prob")
        people = [curve.people if curve.known else np.nan for curve in self.curves(source)]
        medians.insert(1, "people", people)
        return medians

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
        means = [curve.restricted_mean(upto) for curve in self.curves(source)]
        names = ("time", "estimate", "std_error", "conf_low", "conf_high")
        if not differences:
            rows = [
                (label, upto, mean, error, max(mean - z * error, 0.0), min(mean + z * error, upto))
                if np.isfinite(mean) else (label, upto, *[np.nan] * 4)
                for label, (mean, error) in zip(self.groups, means, strict=True)
            ]  # fmt: skip
            return frame_of(rows, texts=("group",), numbers=names)
        check_groups(self.groups)
        first, *others = zip(self.groups, means, self.curves(source), strict=True)
        contrasts = []
        for label, (mean, error), curve in others:
            shared = curve.shared_by_means(first[2], upto)
            apart, whole = mean - first[1][0], float(np.sqrt(max(error**2 + first[1][1] ** 2 - 2.0 * shared, 0.0)))
            p = float(2.0 * ndtr(-abs(apart / whole))) if whole > 0.0 else np.nan
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
        check_groups(self.groups)
        by = self.strata if strata is None else (strata,) if isinstance(strata, str) else tuple(strata)
        names, within, table = _by_stratum(self, list(self.curves(source)), by)
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
            result=score(chosen, peto=kind == "peto", beta=None).scaled(scale),
            log_hazard_ratios=beta,
            covariance=covariance,
            private=private,
            called=groups_called([name for name in self.grouping if name not in by], self.schema),
            weighted=self.adjusted is not None,
        )

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
            is not counted), conf_low, conf_high (of the difference). It states no guarantee: it rests on all releases
            of the curves, of the model and of what is averaged over together.
        """
        return curve_tables.compare(self, result, over, alpha=alpha)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        ci: bool = True,
        at_risk: bool = True,
        median: bool = True,
        p: bool = True,
        public: bool = False,
        labels: Sequence[str] | None = None,
        time_unit: str | None = None,
    ) -> "Axes":
        """Draw the probability that nothing has happened, by group, with pointwise 95 % bands (sampling and noise).

        Private curves have points with limits at the ends of intervals, at which people were counted. Between the ends
        the line and its band are those of `at`: the hazard is taken as constant within each interval. Curves of public
        rows are steps, with a step at each event.

        Parameters
        ----------
        ax
            Where to draw; by default a new figure. More than seven groups have a panel each, in a figure of their own:
            the first of them is returned, and its ``figure`` has all.
        ci
            Whether limits are drawn.
        at_risk
            Whether numbers at risk stand below the axis; those of private people are noisy.
        median
            Whether medians that are reached are marked, where the curve is one half.
        p
            Whether the log-rank test's p-value is shown, where groups are compared.
        public
            Whether the curves of public rows stand beside private ones, dashed.
        labels
            Texts for the groups.
        time_unit
            "days", "weeks", "months" or "years"; by default the longest of which the axis has two.
        """
        return survival_plots.plot_curves(
            self,
            ax,
            ci=ci,
            at_risk=at_risk,
            median=median,
            p=p,
            public=public,
            labels=labels,
            time_unit=time_unit,
        )

    def plot_incidence(
        self,
        ax: "Axes | None" = None,
        *,
        causes: str | Sequence[str] | None = None,
        ci: bool = True,
        at_risk: bool = True,
        labels: Sequence[str] | None = None,
        time_unit: str | None = None,
    ) -> "Axes":
        """Draw the cumulative incidence of causes, by default all of them; see `plot`.

        Groups have colours and causes kinds of lines; in one group causes have colours.
        """
        return survival_plots.plot_incidence(
            self, ax, causes=causes, ci=ci, at_risk=at_risk, labels=labels, time_unit=time_unit
        )

    def levels(self, name: str) -> tuple[str, ...]:
        """Return the labels of a grouping column's levels."""
        return labels_of(self.schema, name)

    def disclosure(self, form: str | None = None, *, statements: Mapping[str, Any] | None = None) -> Any:
        """Return the privacy record for an output checker, or a form: see `hdpstats.results.Result.disclosure`."""
        if form is None:
            return reporting.curves_disclosure(self)
        return reporting.filled_form(
            form,
            statements,
            what=f"the survival curves of {self.formula}",
            guarantee=self.guarantee,
            schema=self.schema,
            releases=[*self.before, *(release for _, release in self.releases)],
            formula=self.formula,
        )

    def _report(self, alpha: float = 0.05) -> Report:
        return curve_tables.report(self, alpha)

    def __repr__(self) -> str:
        cost = "public rows" if self.guarantee is None else str(self.guarantee)
        return f"<survival curves of {self.formula}: {cost}>"


def _by_stratum(
    curves: SurvivalCurves, found: Sequence[GroupCurve], by: tuple[str, ...]
) -> tuple[list[str], list[str], list[list[GroupCurve]]]:
    """Return what groups and strata are called, and the curves: a row for each stratum."""
    for each in by:
        choice(each, name="strata", options=curves.grouping)
    others = [name for name in curves.grouping if name not in by]
    if not others:
        raise ArgumentError("groups to compare are needed besides strata: write arm + strata(sex)", argument="strata")
    sizes = [len(curves.levels(name)) for name in curves.grouping]
    order = [curves.grouping.index(name) for name in (*by, *others)]
    within = list(itertools.product(*(curves.levels(name) for name in by)))
    places = np.arange(len(found)).reshape(sizes).transpose(order).reshape(len(within), -1)
    names = [str(label) for label in group_labels(others, curves.schema)]
    strata = [", ".join(f"{name}={label}" for name, label in zip(by, each, strict=True)) for each in within]
    return names, strata, [[found[place] for place in row] for row in places.tolist()]


def check_groups(groups: Sequence[str | None]) -> None:
    """Refuse to compare where there is one group."""
    if len(groups) < 2:
        raise ArgumentError("groups to compare are needed: write a column on the right of ~", argument="formula")


def _listed(values: float | Iterable[float]) -> list[float]:
    if isinstance(values, str | bytes):
        raise ArgumentError(f"times and shares must be numbers, not {values!r}", argument="times")
    return list(values) if isinstance(values, Iterable) else [values]
