"""Numbers of a description as tables: in tidy form, as standardised differences, as a paper's first table.

A `PublicCohort` has the public rows described as the private ones are, without noise.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.typing import FloatArray
from hdpstats.display import Report, Reported
from hdpstats.display import columns as report_columns
from hdpstats.mechanisms.description import DescriptionQuery, RowsOfPerson
from hdpstats.mechanisms.description.blocks import DescribedNumbers, expected_numbers, public_people
from hdpstats.mechanisms.description.correlations import correlations_of
from hdpstats.mechanisms.description.estimate import PROBABILITIES, Statistic, read
from hdpstats.mechanisms.description.moments import follow_up_table
from hdpstats.records.averages import NUMBER_OF_ROWS, CentredColumn
from hdpstats.records.codec import Record
from hdpstats.records.saved import Frame
from hdpstats.results.tables import frame_of
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema, labels_of

TIDY: Final = ("group", "variable", "level", "statistic", "estimate", "std_error", "conf_low", "conf_high")
BALANCE: Final = ("group", "variable", "level", "difference", "std_error", "conf_low", "conf_high")
NOT_AVAILABLE: Final = "N/A"


def groups_of(query: DescriptionQuery, schema: Schema) -> tuple[str | None, ...]:
    """Return the groups' labels; one None where there are none."""
    return (None,) if query.by is None else labels_of(schema, query.by)


def tidy_frame(statistics: Sequence[Statistic], query: DescriptionQuery, schema: Schema) -> pd.DataFrame:
    """Return a row per statistic, with labels in place of numbers, and the part of the error that is noise."""
    groups, rows = groups_of(query, schema), []
    for each in statistics:
        name = None if each.column < 0 else query.columns[each.column].name
        level = None if each.level is None or name is None else labels_of(schema, name)[each.level]
        if each.column < 0 and each.level is not None and query.rows is not None:
            name, level = NUMBER_OF_ROWS, numbers_in_words(query.rows)[each.level]
        rows.append((groups[each.group], name, level, each.name, each.estimate, each.std_error, each.low, each.high,
                     each.noise))  # fmt: skip
    return frame_of(rows, texts=TIDY[:4], numbers=(*TIDY[4:], "noise"))


def numbers_in_words(rows: RowsOfPerson) -> tuple[str, ...]:
    """Return what the groups of numbers of rows are called.

    >>> numbers_in_words(RowsOfPerson(most=6, ends=(1, 2, 4)))
    ('1', '2', '3-4', '5-6')
    """
    bounds = itertools.pairwise((0, *rows.ends, rows.most))
    return tuple(str(last) if last == before + 1 else f"{before + 1}-{last}" for before, last in bounds)


def sums_frame(numbers: DescribedNumbers, schema: Schema) -> pd.DataFrame:
    """Return the noisy sums of centred features, in people, as released."""
    query = numbers.query
    groups, rows = groups_of(query, schema), []
    names: list[tuple[str | None, str | None, str]] = [(None, None, "people"), (None, None, "squared weights")]
    names = names[: query.leading]
    for column in query.columns:
        if column.counts_missing(complete=query.complete):
            names.append((column.name, None, "missing"))
        levels = labels_of(schema, column.name)[:-1]
        names += [(column.name, level, "level") for level in levels]
        names += [] if levels else [(column.name, None, "value"), (column.name, None, "square")]
    if query.pairs is not None:
        paired = [_of_pair(each, schema) for each in query.pairs.columns]
        products = [(*paired[j], *paired[k]) for j, k in query.pairs.places]
        names += [(" and ".join(filter(None, each)), None, "product") for each in products]
    if query.rows is not None:
        names += [(NUMBER_OF_ROWS, words, "level") for words in numbers_in_words(query.rows)[:-1]]
        names.append((NUMBER_OF_ROWS, None, "value"))
    for group, sums in zip(groups, numbers.sums, strict=True):
        rows += [(group, *name, total, numbers.sds[0]) for name, total in zip(names, sums.tolist(), strict=True)]
    return frame_of(rows, texts=("group", "variable", "level", "feature"), numbers=("total", "noise_sd"))


def _of_pair(column: CentredColumn, schema: Schema) -> tuple[str, str | None]:
    return column.name, None if column.level is None else labels_of(schema, column.name)[column.level]


CORRELATIONS: Final = ("variable", "level", "other", "other_level", "estimate", "std_error", "conf_low", "conf_high")


def correlations_frame(numbers: DescribedNumbers, schema: Schema, *, alpha: float = 0.05) -> pd.DataFrame:
    """Return a row per pair of columns, or of levels, with the part of the error that is noise."""
    rows = [
        (*_of_pair(each.first, schema), *_of_pair(each.second, schema), each.estimate, each.std_error, each.low,
         each.high, each.noise)
        for each in correlations_of(numbers, alpha=alpha)
    ]  # fmt: skip
    return frame_of(rows, texts=CORRELATIONS[:4], numbers=(*CORRELATIONS[4:], "noise"))


def follow_up_frame(numbers: DescribedNumbers, schema: Schema) -> pd.DataFrame | None:
    """Return noisy events, censorings and people at risk of each group and interval.

    They are NaN where a group is too small for the noise.
    """
    query, asked, counts = numbers.query, numbers.query.follow_up, follow_up_table(numbers)
    if asked is None or counts is None:
        return None
    causes = labels_of(schema, asked.event)[1:]
    after, rows = (0.0, *asked.ends[:-1]), []
    for place, group in enumerate(groups_of(query, schema)):
        known = counts.known[place]
        for j, (start, end) in enumerate(zip(after, asked.ends, strict=True)):
            numbers_of_interval = [*counts.events[place, j], counts.censored[place, j], counts.at_risk[place, j]]
            shown = numbers_of_interval if known else [np.nan] * len(numbers_of_interval)
            rows.append((group, start, end, *shown, counts.sd, counts.at_risk_sd[j]))
    events = ["events"] if len(causes) == 1 else [f"events: {cause}" for cause in causes]
    columns = ["after", "until", *events, "censored", "at_risk", "noise_sd", "at_risk_noise_sd"]
    return frame_of(rows, texts=("group",), numbers=columns)


def differences(one: pd.DataFrame, other: pd.DataFrame, *, z: float) -> pd.DataFrame:
    r"""Return standardised differences, ``one`` less ``other``, a row per group, variable and level.

    Of means :math:`(m_1 - m_2) / \sqrt{(s_1^2 + s_2^2) / 2}`, of shares the same with :math:`s^2 = p (1 - p)` (Austin
    2009); with one standard deviation where the other is not available. Standard errors count those of both means or
    shares.
    """
    left, right = _centres(one), _centres(other)
    rows = []
    for key, (estimate, error, spread) in left.items():
        if key in right:
            reference, other_error, other_spread = right[key]
            known = [each for each in (spread, other_spread) if np.isfinite(each)]
            unit = float(np.sqrt(np.mean(np.square(known)))) if known else 0.0
            difference = (estimate - reference) / unit if unit > 0 else np.nan
            whole = float(np.hypot(error, np.nan_to_num(other_error))) / unit if unit > 0 else np.nan
            rows.append((*key, difference, whole, difference - z * whole, difference + z * whole))
    return frame_of(rows, texts=BALANCE[:3], numbers=BALANCE[3:])


def _centres(frame: pd.DataFrame) -> dict[tuple[Any, ...], tuple[float, float, float]]:
    """Return means and shares, their standard errors, and the standard deviation of one person's value."""
    rows = frame.to_dict("records")
    spreads = {(row["group"], row["variable"]): row["estimate"] for row in rows if row["statistic"] == "sd"}
    centres = {}
    for row in rows:
        if row["statistic"] in ("mean", "share"):
            p = row["estimate"]
            own = float(np.sqrt(max(p * (1.0 - p), 0.0))) if np.isfinite(p) else np.nan
            spread = own if row["statistic"] == "share" else spreads[row["group"], row["variable"]]
            centres[row["group"], row["variable"], row["level"]] = (p, row["std_error"], spread)
    return centres


INDENT: Final = "\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FirstRow:
    """A line of a first table: its name and its cells.

    ``key`` has the variable and the level that its standardised difference is of; None where there is none.
    """

    name: str
    cells: tuple[str, ...]
    key: tuple[str, str | None] | None = None


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class FirstTable(Reported):
    """A paper's first table. `hdpstats.describe.description.Description.first_table` makes one.

    ``print`` shows it; ``summary()`` has ``as_latex()``, ``as_html()`` and ``as_csv()``; `to_docx` and `to_csv` write
    files.

    Attributes
    ----------
    headers : tuple of str
        The headers of columns.
    rows : tuple of FirstRow
        The lines.
    notes : tuple of str
        What a reader must know.
    """

    headers: tuple[str, ...]
    rows: tuple[FirstRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the lines."""
        return [row.name for row in self.rows]

    @property
    def cells(self) -> list[list[str]]:
        """The cells, line by line."""
        return [list(row.cells) for row in self.rows]

    def with_differences(self, differences: Sequence[Mapping[tuple[str, str | None], float]]) -> "FirstTable":
        """Return the table with a column of standardised differences after each pair of columns."""
        headers = [name for k in range(len(differences)) for name in (*self.headers[2 * k : 2 * k + 2], "SMD")]
        rows = [
            replace(
                row,
                cells=tuple(
                    cell
                    for k, own in enumerate(differences)
                    for cell in (
                        *row.cells[2 * k : 2 * k + 2],
                        _difference(np.nan if row.key is None else own.get(row.key, np.nan)),
                    )
                ),
            )
            for row in self.rows
        ]
        return replace(self, headers=tuple(headers), rows=tuple(rows))

    def to_docx(self, path: str | PathLike[str]) -> None:
        """Write the table to a Word file. Needs ``pip install python-docx``."""
        self.summary().to_docx(path)

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write the cells as they are shown to a CSV file, in UTF-8, with a line of headers."""
        rows = [[name, *cells] for name, cells in zip(self.names, self.cells, strict=True)]
        pd.DataFrame(rows, columns=["", *self.headers]).to_csv(path, index=False)

    def _report(self, alpha: float = 0.05) -> Report:  # noqa: ARG002
        block = report_columns(self.headers, self.names, self.cells)
        return Report(title="Characteristics of the cohort", blocks=[block], notes=self.notes)

    def __repr__(self) -> str:
        return f"<first table: {', '.join(self.headers)}>"


def _difference(value: float) -> str:
    return f"{value:+.2f}" if np.isfinite(value) else ""


def first_table(
    columns: Sequence[tuple[str, pd.DataFrame]],
    query: DescriptionQuery,
    schema: Schema,
    labels: Mapping[str, str] | None = None,
) -> FirstTable:
    """Return the rows of a first table, a column of cells for each frame of one group, in tidy form.

    ``labels`` are what columns and levels are called, before the labels of the schema.
    """
    known = {**schema.labels, **(labels or {})}
    lookups = [_lookup(frame) for _, frame in columns]
    rows = [FirstRow(name="n", cells=tuple(_number(each.get((None, None, "n")), 0) for each in lookups))]
    rows += [] if query.rows is None else _rows_of_people(query.rows, lookups)
    for column in query.columns:
        name, shown = column.name, known.get(column.name, column.name)
        levels = labels_of(schema, name)
        if levels:
            if len(levels) > 2:
                rows.append(FirstRow(name=shown, cells=("",) * len(lookups)))
            for level in levels[1:] if len(levels) == 2 else levels:
                words = known.get(level, level)
                line = f"{INDENT}{words}" if len(levels) > 2 else f"{shown} = {words}"
                cells = tuple(_percent(each.get((name, level, "share"))) for each in lookups)
                rows.append(FirstRow(name=line, cells=cells, key=(name, level)))
        else:
            places = _decimals(column.upper - column.lower)
            cells = tuple(_mean(each, name, places) for each in lookups)
            rows.append(FirstRow(name=f"{shown}, mean (SD)", cells=cells, key=(name, None)))
            if column.cuts:
                cells = tuple(_median(each, name, places) for each in lookups)
                rows.append(FirstRow(name=f"{INDENT}median [q1, q3]", cells=cells))
        if column.counts_missing(complete=query.complete):
            cells = tuple(_percent(each.get((name, None, "missing"))) for each in lookups)
            rows.append(FirstRow(name=f"{INDENT}missing", cells=cells))
    return FirstTable(headers=tuple(name for name, _ in columns), rows=tuple(rows))


def _rows_of_people(how: RowsOfPerson, lookups: Sequence[dict[Any, dict[str, float]]]) -> list[FirstRow]:
    """Return the number of rows, and shares of people who have so many."""
    whole = FirstRow(name="rows", cells=tuple(_number(each.get((None, None, "rows")), 0) for each in lookups))
    if not how.ends:
        return [whole]
    title = FirstRow(name="rows of a person", cells=("",) * len(lookups))
    shares = [
        FirstRow(
            name=f"{INDENT}{words}",
            cells=tuple(_percent(each.get((NUMBER_OF_ROWS, words, "share"))) for each in lookups),
            key=(NUMBER_OF_ROWS, words),
        )
        for words in numbers_in_words(how)
    ]
    return [whole, title, *shares]


def _lookup(frame: pd.DataFrame) -> dict[Any, dict[str, float]]:
    rows = {}
    for row in frame.to_dict("records"):
        key = (_none(row["variable"]), _none(row["level"]), row["statistic"])
        rows[key] = {str(name): value for name, value in row.items()}
    return rows


def _none(value: object) -> object:
    return value if isinstance(value, str) else None


def _decimals(reach: float) -> int:
    return int(np.clip(2 - np.floor(np.log10(reach)), 0, 4))


def _half(row: dict[str, float], scale: float = 1.0) -> float:
    return (row["conf_high"] - row["conf_low"]) / 2.0 * scale


def _number(row: dict[str, float] | None, decimals: int) -> str:
    if row is None or not np.isfinite(row["estimate"]):
        return NOT_AVAILABLE
    half = _half(row)
    return f"{row['estimate']:.{decimals}f}" + (f" ± {half:.{decimals}f}" if half > 0 else "")


def _percent(row: dict[str, float] | None) -> str:
    if row is None or not np.isfinite(row["estimate"]):
        return NOT_AVAILABLE
    half = _half(row, 100.0)
    return f"{100.0 * row['estimate']:.1f}%" + (f" ± {half:.1f}" if np.isfinite(half) and half > 0 else "")


def _mean(lookup: dict[Any, dict[str, float]], name: str, decimals: int) -> str:
    row, spread = lookup.get((name, None, "mean")), lookup.get((name, None, "sd"))
    if row is None or spread is None or not np.isfinite(row["estimate"]):
        return NOT_AVAILABLE
    deviation = spread["estimate"]
    shown = f"{deviation:.{decimals}f}" if np.isfinite(deviation) else NOT_AVAILABLE
    return f"{_number(row, decimals)} ({shown})"


def _median(lookup: dict[Any, dict[str, float]], name: str, decimals: int) -> str:
    quartiles = [lookup.get((name, None, each), {}).get("estimate", np.nan) for each in ("median", "q1", "q3")]
    if not np.isfinite(quartiles).all():
        return NOT_AVAILABLE
    middle, low, high = (f"{each:.{decimals}f}" for each in quartiles)
    return f"{middle} [{low}, {high}]"


def weighted_quantile(values: FloatArray, weights: FloatArray, p: float) -> float:
    """Return the smallest value at which a distribution function reaches ``p``: type 1 in R's numbering."""
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    return float(values[order][min(int(np.searchsorted(share, p - 1e-12)), len(values) - 1)])


NO_SEED = "0" * 64
"""Nothing is drawn where there is no noise."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicCohort(Record):
    """The public rows described as the private ones are.

    Attributes
    ----------
    frame : DataFrame
        In tidy form, numbers within the declared bounds; standard errors are those of sampling, and there are no
        limits. Columns that public rows lack are left out.
    kurtosis : tuple of (str, float)
        Of each column of numbers, over all groups: what the sampling error of a standard deviation rests on.
    """

    frame: Frame
    kurtosis: tuple[tuple[str, float], ...]


def public_cohort(query: DescriptionQuery, schema: Schema, public: PublicTable | None) -> PublicCohort | None:
    """Return the description of public rows; None where there are none, or they lack the groups."""
    if public is None or (query.by is not None and query.by not in public.names):
        return None
    columns = tuple(each for each in query.columns if each.name in public.names)
    known = query.weights in public.names
    if not columns:
        return None
    weights = (query.weights, query.largest_weight) if known else (None, 1.0)
    own = replace(
        query, columns=columns, pairs=None, follow_up=None, weights=weights[0], largest_weight=weights[1], counted=True
    )
    own = own if public.persons is not None else replace(own, rows=None)
    people = public_people(own, schema, public)
    kurtosis = tuple(
        (each.name, _kurtosis(np.asarray(people.cells[each.name], dtype=float)[~people.missing[each.name]]))
        for each in columns
        if not each.levels
    )
    numbers = expected_numbers(own, people, records=float(len(people.group)), sds=[np.zeros(3)], public=False)
    frame = tidy_frame(read(numbers, seed=NO_SEED, kurtosis=dict(kurtosis)), own, schema)[list(TIDY)]
    groups = groups_of(own, schema)
    exact = []
    for row in frame.itertuples(index=False):
        estimate = row.estimate
        if row.statistic in PROBABILITIES:
            group = groups.index(row.group if isinstance(row.group, str) else None)
            there = (people.group == group) & ~people.missing[str(row.variable)]
            values = np.asarray(people.cells[str(row.variable)], dtype=float)[there]
            kept = people.weights[there]
            known = kept.sum() > 0
            estimate = weighted_quantile(values, kept, PROBABILITIES[str(row.statistic)]) if known else np.nan
        exact.append(estimate)
    return PublicCohort(frame=frame.assign(estimate=pd.Series(exact, dtype=float)), kurtosis=kurtosis)


def _kurtosis(values: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]") -> float:
    centred = values - values.mean() if len(values) else values
    square = float(np.mean(centred**2)) if len(values) else 0.0
    return float(np.mean(centred**4) / square**2) if square > 0 else 3.0
