"""From a person's rows to integers: total maps, person by person, and exact sums of what they give.

What is summed and counted, and how far one person moves it, is in `hdpstats.mechanisms.description.site`.

**Features** are whole numbers: what a person adds to a sum, computed of that person alone, to the last bit. A number
``x`` of a column with the bounds ``l`` and ``u`` has the place ``p = (x - l) / (u - l)``, cut to [0, 1], with the
feature ``p - 1/2``, and the square ``((p - c) / far)^2``, cut to [0, 1], with the feature of that less 1/2. Times a
weight in [0, 1], and 0 where the cell is missing, they are at most 1/2 in size, and are rounded to multiples of 2^-20.

**Rows of a person.** In the query of a fit to people with several rows what a person adds is the weighted sum, over the
person's complete rows that are used, of what these rows would add: weights are at most 1 together, so that it is at
most 1/2 in size as well. It is rounded again, person by person.

From `SMALLEST_COMPILED` people on a compiled loop does the operations of numpy, in their order: the same integers.

**Follow-up.** Several rows of a person become one span (`spans_of`), and people are counted by group and public
interval (`follow_up_of`).
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np

from hdpstats._base.compiled import SMALLEST_COMPILED, compiled
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.families.overlap_weights import weights_of
from hdpstats.families.several_rows import row_weights, total_weight
from hdpstats.formulas import Design
from hdpstats.mechanisms.description import UNITS, DescribedColumn, DescriptionQuery, RowsOfPerson
from hdpstats.mechanisms.description.one_pass import sums_of_mapped, sums_of_pairs, sums_of_stored, whole
from hdpstats.schema.persons import first_rows
from hdpstats.schema.stored_columns import StoredColumns
from hdpstats.schema.table import AdmittedTable


def in_units(values: FloatArray) -> IntArray:
    """Return features (n,) between -1/2 and 1/2 as whole numbers of 2^-20."""
    return np.asarray(np.floor(np.clip(values, -0.5, 0.5) * UNITS + 0.5), dtype=np.int64)


def number_in_units(
    value: FloatArray, missing: BoolArray, weights: FloatArray, *, bounds: tuple[float, float]
) -> IntArray:
    """Return the features of places (n,) of numbers between bounds, in units."""
    lower, upper = map(float, bounds)
    if len(value) < SMALLEST_COMPILED:
        place = np.clip((value - lower) / (upper - lower), 0.0, 1.0)
        return in_units(weights * np.where(missing, 0.0, place - 0.5))
    units = np.empty(len(value), dtype=np.int64)
    _places(*_plain(value, missing, weights), lower, upper - lower, units)
    return units


def square_in_units(
    value: FloatArray,
    missing: BoolArray,
    weights: FloatArray,
    *,
    bounds: tuple[float, float],
    centre: float,
    far: float,
) -> IntArray:
    """Return the features of squared distances (n,) of places from a centre, in units."""
    lower, upper = map(float, bounds)
    if len(value) < SMALLEST_COMPILED:
        place = np.clip((value - lower) / (upper - lower), 0.0, 1.0)
        square = np.clip(((place - float(centre)) / float(far)) ** 2, 0.0, 1.0)
        return in_units(weights * np.where(missing, 0.0, square - 0.5))
    units = np.empty(len(value), dtype=np.int64)
    _squares(*_plain(value, missing, weights), lower, upper - lower, float(centre), float(far), units)
    return units


def _plain(value: FloatArray, missing: BoolArray, weights: FloatArray) -> tuple[FloatArray, BoolArray, FloatArray]:
    """Return arrays of the one type that loops are compiled for."""
    return (
        np.require(value, np.float64, ["C", "W"]),
        np.require(missing, np.bool_, ["C", "W"]),
        np.require(weights, np.float64, ["C", "W"]),
    )


@compiled
def _unit(feature: float, missing: bool, weight: float) -> Any:
    left = weight * (0.0 if missing else feature)
    return whole(min(max(left, -0.5), 0.5))


@compiled
def _places(
    value: FloatArray, missing: BoolArray, weights: FloatArray, lower: float, width: float, units: IntArray
) -> None:
    for i in range(len(units)):
        place = min(max((value[i] - lower) / width, 0.0), 1.0)
        units[i] = _unit(place - 0.5, missing[i], weights[i])


@compiled
def _squares(
    value: FloatArray,
    missing: BoolArray,
    weights: FloatArray,
    lower: float,
    width: float,
    centre: float,
    far: float,
    units: IntArray,
) -> None:
    for i in range(len(units)):
        place = min(max((value[i] - lower) / width, 0.0), 1.0)
        distance = (place - centre) / far
        units[i] = _unit(min(max(distance * distance, 0.0), 1.0) - 0.5, missing[i], weights[i])


@final
@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class Spans:
    """One span of follow-up per person, in the order of persons; everything here is private.

    Attributes
    ----------
    start, stop : (n,) float64
        When it begins and ends.
    event : (n,) int64
        What ended it: 0 for nothing, k for an event of cause k.
    beyond : (n,) bool
        Whether it reaches beyond the horizon.
    absent : (n,) bool
        Who has no row that says anything.
    """

    start: FloatArray
    stop: FloatArray
    event: IntArray
    beyond: BoolArray
    absent: BoolArray

    def __repr__(self) -> str:
        return "<spans>"


def causes_of(codes: IntArray, level: int | None) -> IntArray:
    """Return the cause of each end of follow-up, 0 for none: the code itself, or 1 where one level is the event."""
    return codes if level is None else (codes == level).astype(np.int64)


def spans_of(table: AdmittedTable, *, start: str, time: str, event: str, level: int | None = None) -> Spans:
    """Return the span of each person who has a row, ordered as `people_of` orders them.

    A row counts if it has start, stop and event and stops after it starts. A span begins with the earliest start. It
    ends with the earliest event (of two at one time, that of the smaller code), else with the latest stop; an event
    beyond the horizon is none. Where one ``level`` is the event, others are none. Gaps between rows count as
    followed. A person's span depends on that person's rows alone.
    """
    persons = np.zeros(0, dtype=np.int64) if table.persons is None else table.persons
    begin, end = table.numeric[start], table.numeric[time]
    happened: Any = table.numeric[event] if event in table.numeric else table.codes[event]
    late = table.beyond[time]
    code = np.where(late, 0, causes_of(np.asarray(happened).astype(np.int64), level))
    named, whose = np.unique(persons[persons >= 0], return_inverse=True)
    n = len(named)
    place = np.full(len(persons), n, dtype=np.int64)
    place[persons >= 0] = whose
    lacking = table.missing[start] | table.missing[time] | table.missing[event]
    place = np.where(lacking | (begin >= end), n, place)

    first, last, ended = np.full(n + 1, np.inf), np.full(n + 1, -np.inf), np.full(n + 1, np.inf)
    stays = np.zeros(n + 1, dtype=np.bool_)
    np.minimum.at(first, place, begin)
    np.maximum.at(last, place, end)
    np.logical_or.at(stays, place, late)
    np.minimum.at(ended, np.where(code > 0, place, n), end)
    at_end = (code > 0) & (place < n) & (end == ended[place])
    cause = np.full(n + 1, np.iinfo(np.int64).max)
    np.minimum.at(cause, np.where(at_end, place, n), np.where(at_end, code, 0))
    failed = np.isfinite(ended[:-1])
    absent = ~np.isfinite(first[:-1])
    return Spans(
        start=np.where(absent, 0.0, first[:-1]),
        stop=np.where(absent, 0.0, np.where(failed, ended[:-1], last[:-1])),
        event=np.where(failed, cause[:-1] if level is None else level, 0 if level is None else -1),
        beyond=stays[:-1] & ~failed,
        absent=absent,
    )


@final
@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class PeoplesRows:
    """Which rows are whose, where all rows of a person are described; everything here is private.

    Attributes
    ----------
    person : int64 array (rows,)
        Whose each row is, from 0.
    weights : float64 array (rows,)
        What each row counts: from 0 to 1, those of a person 1 together at most.
    """

    person: IntArray
    weights: FloatArray

    def __repr__(self) -> str:
        return "<rows of people>"

    def added(self, units: IntArray, *, people: int) -> IntArray:
        """Return what people (n,) add, in units, from what their rows would."""
        sums = np.bincount(self.person, weights=self.weights * units, minlength=people)
        return in_units(sums / UNITS)


@final
@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class DescribedPeople:
    """One row per person, by columns; everything here is private.

    Where all rows of a person are described, ``cells`` and ``missing`` are of ``rows`` in place of people.

    Attributes
    ----------
    cells : dict of str to array (n,)
        Numbers within bounds, or codes of levels.
    missing : dict of str to bool array (n,)
        Which cells are missing.
    group : int64 array (n,)
        The group, and the number of groups for people who do not count.
    weights : float64 array (n,)
        From 0 to 1.
    beyond : bool array (n,)
        Who was followed up beyond the horizon.
    stored : StoredColumns, optional
        Numeric columns of a file before their map, where a person is a row.
    rows : PeoplesRows, optional
        Whose the rows of cells are; None where a person has one.
    number : int64 array (n,), optional
        How many rows of a person are used, and complete where only such rows count.
    """

    cells: Mapping[str, FloatArray | IntArray]
    missing: Mapping[str, BoolArray]
    group: IntArray
    weights: FloatArray
    beyond: BoolArray
    stored: StoredColumns | None = None
    rows: PeoplesRows | None = None
    number: IntArray | None = None

    def __repr__(self) -> str:
        return "<people>"


def people_of(query: DescriptionQuery, table: AdmittedTable, design: Design | None = None) -> DescribedPeople:
    """Return the row of each person that is described, and what it counts for: a total map, person by person.

    ``design`` is that of the query's weighting, where it has one: of people with several rows the weight is that of
    the row that is described.
    """
    if query.rows is not None and query.rows.correlation is not None:
        return _with_all_rows(query, query.rows, query.rows.correlation, table)
    asked, number = query.follow_up, None
    values: Mapping[str, FloatArray | IntArray] = ChainMap(cast("Any", table.numeric), cast("Any", table.codes))
    missing, complete = table.missing, table.complete
    rows: IntArray | slice = slice(None)
    beyond = np.zeros(table.rows, dtype=np.bool_) if asked is None else table.beyond[asked.time]
    if table.persons is not None:
        others = () if query.first is None else tuple(name for name in query.names if name not in query.first)
        rows = first_rows(table.persons, ~table.lacking(but=others))
        if query.rows is not None:
            number = _numbers_of_rows(table, most=query.rows.most, counts=complete if query.complete else None)
        values = {name: values[name][rows] for name in query.names}
        missing = {name: missing[name][rows] for name in query.names}
        complete, beyond = complete[rows], beyond[rows]
    group = np.zeros(len(complete), dtype=np.int64)
    for name, levels in zip(query.grouping, query.levels_of_groups, strict=True):
        group = group * levels + values[name].astype(np.int64)
    out = np.zeros(len(complete), dtype=np.bool_)
    for name in (*query.extra, *query.grouping):
        out |= missing[name]
    if query.complete:
        out |= ~complete
    weights = np.ones(len(complete))
    if query.weights is not None:
        weights = np.clip(values[query.weights] / query.largest_weight, 0.0, 1.0)
    if query.weighting is not None and design is not None:
        weights = np.where(out, 0.0, weights_of(query.weighting, design, table)[rows])
    if asked is not None and asked.start is not None and table.persons is not None:
        joined = spans_of(table, start=asked.start, time=asked.time, event=asked.event, level=asked.level)
        values = {**values, asked.start: joined.start, asked.time: joined.stop, asked.event: joined.event}
        missing = {**missing, **dict.fromkeys(asked.names, joined.absent)}
        beyond = joined.beyond
    return DescribedPeople(
        cells=values,
        missing=missing,
        group=np.where(out, query.groups, group),
        weights=weights,
        beyond=beyond,
        stored=table.stored if table.persons is None else None,
        number=number,
    )


def _numbers_of_rows(table: AdmittedTable, *, most: int, counts: BoolArray | None) -> IntArray:
    """Return how many rows of each person are used, in the order of `first_rows`; only those that count, if said."""
    persons = np.zeros(0, dtype=np.int64) if table.persons is None else table.persons
    named, whose = np.unique(persons[persons >= 0], return_inverse=True)
    weights = None if counts is None else counts[persons >= 0].astype(np.float64)
    return np.minimum(np.bincount(whose, weights=weights, minlength=len(named)), most).astype(np.int64)


def _with_all_rows(
    query: DescriptionQuery, how: RowsOfPerson, correlation: float, table: AdmittedTable
) -> DescribedPeople:
    """Return people with all of their complete rows that are used, each of ``n`` with ``w(n) / W``."""
    table = table.used(most_rows=how.most)
    persons = np.zeros(0, dtype=np.int64) if table.persons is None else table.persons
    complete, person = table.complete, np.unique(persons, return_inverse=True)[1].astype(np.int64)
    people = int(person.max(initial=-1)) + 1
    case = np.ones(table.rows)
    if query.weights is not None:
        case = np.clip(table.numeric[query.weights] / query.largest_weight, 0.0, 1.0)
    weights = case * row_weights(person, complete, correlation) / float(total_weight(how.most, correlation))
    number = np.bincount(person[complete], minlength=people).astype(np.int64)
    return DescribedPeople(
        cells=ChainMap(cast("Any", table.numeric), cast("Any", table.codes)),
        missing=table.missing,
        group=np.where(number > 0, 0, query.groups),
        weights=np.minimum(np.bincount(person, weights=weights, minlength=people), 1.0),
        beyond=np.zeros(people, dtype=np.bool_),
        rows=PeoplesRows(person=person, weights=weights),
        number=number,
    )


def features_of(query: DescriptionQuery, people: DescribedPeople) -> Iterator[IntArray]:
    """Return the features of the people (n,) in units, one after the other, in the order of a block."""
    yield from _of_people(query, people)
    for column in query.columns:
        if column.counts_missing(complete=query.complete):
            yield from _of_missing(column, people)
        yield from _of_value(column, people)
    yield from _of_times(query, people)
    yield from _of_pairs(query, people)
    yield from _of_rows(query, people)


def _of_people(query: DescriptionQuery, people: DescribedPeople) -> Iterator[IntArray]:
    if query.leading:
        yield in_units(people.weights / 2)
    if query.leading == 2:
        yield in_units(people.weights**2 / 2)


def _of_rows(query: DescriptionQuery, people: DescribedPeople) -> Iterator[IntArray]:
    """Return of each group of numbers of rows but the last whether people are in it; then their numbers of rows."""
    how, number = query.rows, people.number
    if how is None or number is None:
        return
    group = np.searchsorted(np.array(how.ends), number, side="left")
    for place in range(len(how.ends)):
        yield in_units(people.weights * np.where(group == place, 0.5, -0.5))
    yield in_units(np.where(number > 0, number / how.most - 0.5, 0.0))


def _of_missing(column: DescribedColumn, people: DescribedPeople) -> Iterator[IntArray]:
    yield in_units(people.weights * np.where(people.missing[column.name], 0.5, -0.5))


def _of_times(query: DescriptionQuery, people: DescribedPeople) -> Iterator[IntArray]:
    if query.at_risk is not None:
        followed, missing = people.cells[query.at_risk.time], people.missing[query.at_risk.time]
        for time in query.at_risk.after:
            yield in_units(people.weights * np.where(missing, 0.0, np.where(followed > time, 0.5, -0.5)))


def _of_pairs(query: DescriptionQuery, people: DescribedPeople) -> Iterator[IntArray]:
    """Return the weighted products (n,) of pairs in units: everybody who counts has all of their cells."""
    if query.pairs is not None:
        pairs, weights = query.pairs, people.weights
        factors = [each.of(people.cells[each.name], reach=pairs.reach) for each in pairs.columns]
        for j, k in pairs.places:
            yield in_units(weights * np.clip(factors[j] * factors[k] / (2.0 * pairs.largest), -0.5, 0.5))


def _of_value(column: DescribedColumn, people: DescribedPeople) -> Iterator[IntArray]:
    """Return the centred, weighted features (n,) of values in units, 0 where a cell is missing."""
    missing, value = people.missing[column.name], people.cells[column.name]
    weights = people.weights if people.rows is None else np.ones(len(missing))

    def of_people(units: IntArray) -> IntArray:
        return units if people.rows is None else people.rows.added(units, people=len(people.group))

    if column.levels:
        for level in range(column.levels - 1):
            yield of_people(in_units(weights * np.where(missing, 0.0, np.where(value == level, 0.5, -0.5))))
    else:
        cells, bounds = (value.astype(np.float64, copy=False), missing, weights), (column.lower, column.upper)
        yield of_people(number_in_units(*cells, bounds=bounds))
        if column.squares is None:
            yield of_people(square_in_units(*cells, bounds=bounds, centre=column.centre, far=column.far))


def sums_in_one_pass(query: DescriptionQuery) -> bool:
    """Return whether numbers in memory are summed in one pass: who counts misses no cell, and all are in one group."""
    return query.complete and query.groups == 1 and query.follow_up is None and query.rows is None


def pairs_in_one_pass(query: DescriptionQuery) -> bool:
    """Return whether pairs are summed in one pass where there are enough people: all have one row, in one group."""
    return query.groups == 1 and query.rows is None


def sums_of(query: DescriptionQuery, people: DescribedPeople) -> IntArray:
    """Return the sums of all features in units, group by group: exact, in any order."""

    def added(features: Iterator[IntArray]) -> list[IntArray]:
        return [totals(people.group, feature, query.groups + 1)[:-1] for feature in features]

    in_one_pass: Mapping[str, IntArray] = {}
    counted = np.where(people.group == 0, people.weights, 0.0)
    if query.groups == 1:
        if people.stored is not None:
            in_one_pass = sums_of_stored(people.stored, query.columns, counted)
        elif sums_in_one_pass(query) and len(counted) >= SMALLEST_COMPILED:
            in_one_pass = sums_of_mapped(people.cells, query.columns, counted)
    sums = added(_of_people(query, people))
    for column in query.columns:
        if column.counts_missing(complete=query.complete):
            sums += added(_of_missing(column, people))
        if column.name in in_one_pass:
            sums += list(in_one_pass[column.name][: column.values, None])
        else:
            sums += added(_of_value(column, people))
    sums += added(_of_times(query, people))
    if query.pairs is not None and pairs_in_one_pass(query) and len(counted) >= SMALLEST_COMPILED:
        sums += list(sums_of_pairs(people.cells, query.pairs, counted)[:, None])
    else:
        sums += added(_of_pairs(query, people))
    sums += added(_of_rows(query, people))
    return np.array(sums, dtype=np.int64).T.ravel()


def cells_of(query: DescriptionQuery, people: DescribedPeople) -> IntArray:
    """Return the counts of the cells of quartiles, group by group and column by column."""
    firsts = query.first_cells
    counts = np.zeros((query.groups, firsts[-1]), dtype=np.int64)
    for column, first in zip(query.with_cells, firsts[:-1], strict=True):
        width = column.cells(complete=query.complete)
        cell = np.searchsorted(np.array(column.cuts), people.cells[column.name], side="left")
        cell = np.where(people.missing[column.name], len(column.cuts) + 1, cell)  # where that is no cell: left out
        group = np.where(cell < width, people.group, query.groups)
        place = group * width + np.where(cell < width, cell, 0)
        found = totals(place, in_counts(query, people), (query.groups + 1) * width)
        counts[:, first : first + width] = found.reshape(-1, width)[:-1]
    return counts.ravel()


def in_counts(query: DescriptionQuery, people: DescribedPeople) -> IntArray:
    """Return what each person (n,) counts for in a cell: 1, or with weights their units."""
    if not query.is_weighted:
        return np.ones(len(people.group), dtype=np.int64)
    return np.asarray(np.floor(people.weights * UNITS + 0.5), dtype=np.int64)


def totals(place: IntArray, amounts: IntArray, size: int) -> IntArray:
    """Return the sums of amounts by place: exact, as every partial sum is a whole number below 2^53."""
    if size == 2:
        first = int(np.where(place == 0, amounts, 0).sum())
        return np.array([first, int(amounts.sum()) - first])
    return np.asarray(np.bincount(place, weights=amounts, minlength=size)).astype(np.int64)


def follow_up_of(query: DescriptionQuery, people: DescribedPeople) -> IntArray:
    """Return the counts of the cells of follow-up, group by group; of a group interval by interval.

    An interval has a cell for each cause and one for censorings; "stayed on" follows, then with a start a cell per
    interval for people who begin in it, and "incomplete" after all groups. Who begins at time 0 is in no cell of
    beginnings. Who is censored at the end of the last interval was at risk until then, and stayed on. Who begins at
    that end or later, or ends no later than at the beginning, is incomplete.
    """
    asked = query.follow_up
    if asked is None:
        return np.zeros(0, dtype=np.int64)
    intervals, width = len(asked.ends), asked.causes + 1
    ends = np.array(asked.ends)
    time, event = people.cells[asked.time], causes_of(people.cells[asked.event].astype(np.int64), asked.level)
    interval = np.searchsorted(ends, time, side="left")
    happened = np.where(event > 0, event - 1, asked.causes)
    stayed = (interval >= intervals) | people.beyond | ((time == ends[-1]) & (event == 0))
    cell = np.where(stayed, intervals * width, np.minimum(interval, intervals - 1) * width + happened)
    lacking = people.missing[asked.time] | people.missing[asked.event] | (people.group == query.groups)
    begins = np.zeros(len(cell), dtype=np.int64)
    if asked.start is not None:
        start = people.cells[asked.start]
        begins = np.where(start > 0.0, np.searchsorted(ends, start, side="left") + 1, 0)
        lacking |= people.missing[asked.start] | (start >= time) | (start >= ends[-1])
    amounts, incomplete = in_counts(query, people), query.groups * asked.cells
    counts = totals(np.where(lacking, incomplete, people.group * asked.cells + cell), amounts, query.follow_up_cells)
    entering = ~lacking & (begins > 0)
    entry = people.group * asked.cells + asked.exits + begins - 1
    return counts + totals(np.where(entering, entry, incomplete), amounts * entering, query.follow_up_cells)
