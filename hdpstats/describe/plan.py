"""What a description, or survival curves, would find at each epsilon: predicted errors, and what is suppressed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
import pandas as pd

from hdpstats.describe.adjusting import Adjusting
from hdpstats.describe.tables import NO_SEED, correlations_frame, public_cohort, tidy_frame
from hdpstats.display import Report, Reported, columns
from hdpstats.inference import draws
from hdpstats.inference.log_rank import noisy_score
from hdpstats.mechanisms.description import DescriptionQuery
from hdpstats.mechanisms.description.blocks import DRAWS, DescribedNumbers, expected_numbers, noise_of, public_people
from hdpstats.mechanisms.description.estimate import read
from hdpstats.mechanisms.description.moments import is_known, life_tables
from hdpstats.mechanisms.description.site import prepare
from hdpstats.privacy.budget import total
from hdpstats.results.labels import groups_called
from hdpstats.results.survival_curves import WITHIN
from hdpstats.results.tables import frame_of
from hdpstats.schema.schema import group_labels
from hdpstats.sites import Study
from hdpstats.sites.study import site_facts_of

AT_PUBLIC = "Predicted from public rows: private people are taken to be distributed as they are."
AT_SCHEMA = "Without public rows the prediction takes people as spread evenly over what the schema declares."
MUCH_NOISE = 2.0
"""Noise above so many times the sampling error is said to dominate."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class DescriptionPlan(Reported):
    """Predicted standard errors of a description. Nothing was spent and no private row was read.

    Attributes
    ----------
    frame : DataFrame
        Columns ``epsilon, group, variable, level, statistic, expected, std_error, noise`` (the part of the standard
        error that is noise; NaN of quartiles), ``suppressed`` (whether N/A would be shown).
    records : int
        The number of private people planned for.
    normal : dict of float to bool
        At which epsilons normal noise would be taken.
    assumption : str
        What the prediction rests on.
    aside : dict of float to str
        At which epsilons the release would divide an account, and what that sets aside, in words (`set_aside`).
    labels : mapping of str to str
        What a page calls the columns that have labels in the schema.
    by : str or None
        What a page calls the column of the groups.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True))
    >>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
    >>> plan = hdp.describe(study, ["age"]).plan(epsilon=[0.1, 1], n=5000)
    >>> plan.frame["suppressed"].tolist().count(True)
    0
    """

    frame: pd.DataFrame
    records: int
    normal: dict[float, bool]
    assumption: str
    aside: dict[float, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    by: str | None = None

    @property
    def table(self) -> pd.DataFrame:
        """Predicted standard errors, a row per number and a column per epsilon; NaN where a number would be N/A."""
        keys = ["group", "variable", "level", "statistic"]
        listed = self.frame.assign(**{key: self.frame[key].fillna("") for key in keys})
        wide = listed.pivot_table(index=keys, columns="epsilon", values="std_error", sort=False, dropna=False)
        wide.columns = pd.Index([f"epsilon={value:.3g}" for value in wide.columns])
        return wide

    @property
    def verdicts(self) -> dict[float, str]:
        """Which columns and groups would be suppressed at each epsilon, in words."""
        return {epsilon: _verdict(part) for epsilon, part in self.frame.groupby("epsilon")}  # type: ignore[misc]

    def _report(self, alpha: float = 0.05) -> Report:  # noqa: ARG002
        frame = _shown(self.frame)
        epsilons = sorted(set(frame["epsilon"]))
        first = frame[frame["epsilon"] == epsilons[0]]
        names = [_name(row) for row in first.to_dict("records")]
        shown = [_shown_name(row, self.labels, self.by) for row in first.to_dict("records")]
        cells = {e: frame.loc[frame["epsilon"] == e, "std_error"].to_numpy(dtype=float) for e in epsilons}
        rows = [[_cell(cells[e][k]) for e in epsilons] for k in range(len(names))]
        headers = [f"epsilon = {e:.3g}" for e in epsilons]
        said = [f"epsilon = {epsilon:.3g}: {words}." for epsilon, words in self.verdicts.items()]
        said += _aside(self.aside)
        return Report(
            title=f"Predicted standard errors, {self.records} private people; nothing is spent",
            heading="Predicted standard errors",
            blocks=[columns(headers, names, rows, only="text"), columns(headers, shown, rows, only="page")],
            notes=[*said, self.assumption],
            badges=["nothing is spent", f"{self.records} private people"],
        )

    def __repr__(self) -> str:
        return str(self)


def plan_description(
    study: Study,
    queries: Mapping[float, Mapping[str, DescriptionQuery]],
    people: Mapping[str, int],
) -> DescriptionPlan:
    """Return the plan of descriptions that would be asked for, by epsilon and site."""
    records, frames, normal = sum(people.values()), [], {}
    aside = {epsilon: set_aside(study, asked, people) for epsilon, asked in queries.items()}
    for epsilon, asked in queries.items():
        numbers = planned_numbers(study, asked, people)
        query = numbers.query
        cohort = public_cohort(query, study.schema, study.public)
        kurtosis = {} if cohort is None else dict(cohort.kurtosis)
        estimates = tidy_frame(read(numbers, seed=NO_SEED, kurtosis=kurtosis), query, study.schema)
        frames.append(estimates.assign(epsilon=epsilon))
        pairs = correlations_frame(noised(numbers), study.schema)
        words = pairs["variable"].str.cat(pairs["other"], sep=", ")
        pairs = pairs.assign(variable=words, group=None, statistic="correlation", epsilon=epsilon)
        frames += [pairs[[*estimates.columns, "epsilon"]]] if len(pairs) else []
        normal[epsilon] = bool(query.delta)
    frame = pd.concat(frames, ignore_index=True)
    frame = frame.assign(expected=frame["estimate"], suppressed=frame["std_error"].isna())
    names = ["epsilon", "group", "variable", "level", "statistic", "expected", "std_error", "noise", "suppressed"]
    return DescriptionPlan(
        frame=frame[names],
        records=records,
        normal=normal,
        assumption=assumption_of(study),
        aside={epsilon: words for epsilon, words in aside.items() if words},
        labels=study.schema.labels,
        by=None if (by := _asked(queries).by) is None else study.schema.label(by),
    )


def noised(numbers: DescribedNumbers) -> DescribedNumbers:
    """Return expected numbers with draws of the noise that they would have: the same draws every time."""
    query = numbers.query
    if query.pairs is None:
        return numbers
    noise = draws.perturbation(draws.nodes(), noise_of(query, float(numbers.sds[0])), count=DRAWS)
    return replace(numbers, noise=noise[None])


def _asked(queries: Mapping[float, Mapping[str, DescriptionQuery]]) -> DescriptionQuery:
    """Return one of the queries, which are all of the same groups."""
    return next(iter(next(iter(queries.values())).values()))


def planned_numbers(study: Study, asked: Mapping[str, DescriptionQuery], people: Mapping[str, int]) -> DescribedNumbers:
    """Return what sites with so many people each are expected to answer, with its noise."""
    query = next(iter(asked.values()))
    sds = [np.array(prepare(each, site_facts_of(study, people[name])).sds) for name, each in asked.items()]
    stand_ins = public_people(query, study.schema, study.public)
    records = float(sum(people.values()))
    return expected_numbers(query, stand_ins, records=records, sds=sds, public=not query.counted)


def set_aside(study: Study, asked: Mapping[str, DescriptionQuery], people: Mapping[str, int]) -> str:
    """Say what releases with normal noise would set aside of accounts that are not divided yet; empty where nothing.

    It is what the charge would do (`hdpstats.privacy.composition.Balance.divided_for`), from what accounts at hand have
    now; of an account elsewhere the rule is said.
    """
    if not any(query.delta for query in asked.values()):
        return ""
    parts: dict[str, None] = {}
    for name, query in asked.items():
        ledger = study.ledgers.get(name)
        if ledger is None:
            parts["an account that is not divided yet sets aside what this keeps and half of what is left besides"] = (
                None
            )
            continue
        cost = ledger.charged(total(prepare(query, site_facts_of(study, people[name])).events))
        before, after = ledger.balance, ledger.balance.divided_for(cost)
        if before.gaussian is None and after.gaussian is not None:
            of = f" at {name}" if len(asked) > 1 else ""
            parts[f"the account{of} sets aside {after.gaussian} of the {before.remaining} that are left"] = None
    if not parts:
        return ""
    said = "normal noise is smaller, and the first release with it divides the account"
    return f"{said}: {'; '.join(parts)}, which then count as spent"


def _aside(words: Mapping[float, str]) -> list[str]:
    return [f"epsilon = {epsilon:.3g}: {each}." for epsilon, each in words.items()]


def assumption_of(study: Study) -> str:
    """Return what a plan of a description rests on."""
    return AT_SCHEMA if study.public is None else AT_PUBLIC


def _name(row: Mapping[str, object]) -> str:
    parts = [row[key] for key in ("group", "variable", "level", "statistic")]
    return " ".join(str(part) for part in parts if isinstance(part, str))


def _shown_name(row: Mapping[str, object], labels: Mapping[str, str], by: str | None) -> str:
    """Return the same for a page: the group by its column, the column by its label, then level and statistic."""
    group, variable = row["group"], row["variable"]
    parts = [f"{by} = {group}"] if isinstance(group, str) else []
    parts += [labels.get(variable, variable)] if isinstance(variable, str) else []
    parts += [" ".join(str(row[key]) for key in ("level", "statistic") if isinstance(row[key], str))]
    return ", ".join(parts)


def _cell(value: float) -> str:
    return "N/A" if np.isnan(value) else f"{value:.4g}"


def _verdict(part: pd.DataFrame) -> str:
    """Say which groups and columns would be N/A, and where noise dominates."""
    own = part[part["statistic"] != "n"]
    said: dict[str, list[str]] = {}
    for group in dict.fromkeys(own["group"]):
        of_group = own[own["group"].isna() if group is None else own["group"] == group]
        lost = of_group[of_group["suppressed"]]
        if len(lost):
            what = "everything" if len(lost) == len(of_group) else _listed(lost)
            said.setdefault(what, []).append("" if group is None else str(group))
    suppressed = [f"{what} of {', '.join(groups)}" if any(groups) else what for what, groups in said.items()]
    words = "N/A would be " + "; ".join(suppressed) if suppressed else "no number is suppressed"
    sampling = np.sqrt(np.maximum(own["std_error"] ** 2 - own["noise"] ** 2, 0.0))
    noisy = own[(own["noise"] > MUCH_NOISE * sampling) & ~own["suppressed"]]
    if len(noisy):
        words += f"; noise is more than twice the sampling error in {len(noisy)} of {len(own)} numbers"
    return words


def _listed(lost: pd.DataFrame) -> str:
    """Return columns with their statistics, such as ``age (q1, median)``."""
    statistics_of: dict[str, dict[str, None]] = {}
    for variable, statistic in zip(lost["variable"], lost["statistic"], strict=True):
        statistics_of.setdefault(str(variable), {})[str(statistic)] = None
    return ", ".join(f"{variable} ({', '.join(statistics)})" for variable, statistics in statistics_of.items())


def _shown(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without the first of two levels, which says the same as the second."""
    levels = frame.groupby(["variable", "statistic"], dropna=False)["level"].transform("nunique")
    first = frame.groupby(["variable", "statistic"], dropna=False)["level"].transform("first")
    return frame[~((levels == 2) & (frame["level"] == first))]


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class CurvesPlan(Reported):
    """Predicted standard errors of survival curves. Nothing was spent and no private row was read.

    Attributes
    ----------
    frame : DataFrame
        Columns ``epsilon, group, time, expected, std_error, noise`` (the part of the standard error that is noise),
        ``suppressed`` (whether N/A would be shown).
    tests : DataFrame
        Columns ``epsilon, intervals, noise_sd`` (of each count), ``information`` (the share of the log-rank test's
        information that noise leaves; NaN with one group).
    records : int
        The number of private people planned for.
    formula : str
        What would be asked for.
    assumption : str
        What the prediction rests on.
    aside : dict of float to str
        As in `DescriptionPlan`.
    called : mapping of str to str
        What a page calls the groups, where a column of theirs has a label.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> import hdpstats.formula.api as hdpf
    >>> schema = hdp.Schema(time=hdp.Duration(2557, unit="days"), event=hdp.Binary(), hormon=hdp.Binary())
    >>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
    >>> plan = hdpf.survfit("Surv(time, event) ~ hormon", study, times=[365, 1826]).plan(epsilon=1, n=5000)
    >>> plan.tests["information"].round(2).tolist()
    [0.98]
    """

    frame: pd.DataFrame
    tests: pd.DataFrame
    records: int
    formula: str
    assumption: str
    aside: dict[float, str] = field(default_factory=dict)
    called: Mapping[str, str] = field(default_factory=dict)

    def _report(self, alpha: float = 0.05) -> Report:  # noqa: ARG002
        frame, blocks = self.frame, []
        tests = [
            [f"{row['intervals']:.0f}", f"{row['noise_sd']:.1f}", _share(row["information"])]
            for row in self.tests.to_dict("records")
        ]
        names = [f"epsilon = {epsilon:.3g}" for epsilon in self.tests["epsilon"]]
        blocks.append(columns(["intervals", "noise SD of a count", "log-rank information kept"], names, tests))
        last = frame.groupby(["epsilon", "group"], sort=False, dropna=False).tail(1)
        rows = [
            [
                f"{row['expected']:.3f}",
                *(["N/A"] * 2 if row["suppressed"] else [f"{row[k]:.4f}" for k in ("std_error", "noise")]),
            ]
            for row in last.to_dict("records")
        ]
        stubs = [f"epsilon = {row['epsilon']:.3g} {row['group'] or ''}".strip() for row in last.to_dict("records")]
        shown = [
            f"epsilon = {row['epsilon']:.3g}, {self.called[row['group']]}" if row["group"] in self.called else stub
            for row, stub in zip(last.to_dict("records"), stubs, strict=True)
        ]
        end = f"{frame['time'].max():g}"
        headers = [f"survival at {end}", "std error", "of it noise"]
        blocks += [columns(headers, stubs, rows, only="text"), columns(headers, shown, rows, only="page")]
        return Report(
            title=f"Predicted standard errors of {self.formula}, {self.records} private people; nothing is spent",
            heading="Predicted standard errors",
            blocks=blocks,
            notes=[*_aside(self.aside), self.assumption],
            badges=["nothing is spent", f"{self.records} private people"],
        )

    def __repr__(self) -> str:
        return str(self)


def _share(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.0%}"


def plan_curves(
    study: Study,
    queries: Mapping[float, DescriptionQuery],
    people: Mapping[str, int],
    *,
    formula: str,
    recorded: str,
    adjusting: Adjusting | None = None,
) -> CurvesPlan:
    """Return the plan of curves that would be asked for, by epsilon; ``adjusting`` where people are weighted."""
    records, rows, tests = sum(people.values()), [], []
    aside = {epsilon: set_aside(study, dict.fromkeys(people, query), people) for epsilon, query in queries.items()}
    for epsilon, query in queries.items():
        numbers = planned_numbers(study, dict.fromkeys(people, query), people)
        asked = query.follow_up
        if asked is None:
            continue
        if adjusting is None:
            tables = life_tables(numbers, within=WITHIN[recorded])
        else:
            tables = adjusting.expected_tables(numbers, records=records, recorded=recorded)
        for label, table in zip(group_labels(query.grouping, study.schema), tables, strict=True):
            S, hidden = np.exp(-table.cumulated[1:]), ~table.stated[1:] | (not is_known(table, asked))
            total = np.sqrt(np.diag(table.cumulated_covariance))[1:] * S
            before = table.covariance_with(table) - table.covariance_with(table, noise=False)
            noise = np.sqrt(np.maximum(np.diag(table.cumulated_noise + before), 0.0))[1:] * S
            rows += [
                (label, epsilon, *each)
                for each in zip(
                    asked.ends, S, np.where(hidden, np.nan, total), noise, hidden.astype(float), strict=True
                )
            ]
        information = np.nan
        if len(tables) > 1:
            score = noisy_score([tables])
            kept = np.diag(score.sampling) / np.maximum(np.diag(score.variance), 1e-12)
            information = float(kept.mean())
        tests.append((epsilon, float(len(asked.ends)), float(numbers.sds[2]), information))
    names = ("epsilon", "time", "expected", "std_error", "noise", "suppressed")
    frame = frame_of(rows, texts=("group",), numbers=names)
    frame = frame.assign(suppressed=frame["suppressed"] > 0)
    return CurvesPlan(
        frame=frame[["epsilon", "group", *names[1:]]],
        tests=pd.DataFrame(tests, columns=["epsilon", "intervals", "noise_sd", "information"]),
        records=records,
        formula=formula,
        assumption=assumption_of(study),
        aside={epsilon: words for epsilon, words in aside.items() if words},
        called=groups_called(next(iter(queries.values())).grouping, study.schema),
    )
