"""From a person's rows to integers: total maps, person by person, and exact sums of what they give.

What is summed and counted, and how far one person moves it, is in `hdpstats.mechanisms.description.site`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.mechanisms.description.query import UNITS, DescribedColumn, DescriptionQuery
from hdpstats.mechanisms.description.spans import spans_of
from hdpstats.mechanisms.description.units import in_units, number_in_units, square_in_units
from hdpstats.schema.table import AdmittedTable


@final
@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class DescribedPeople:
    """One row per person, by columns; everything here is private.

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
    """

    cells: dict[str, FloatArray | IntArray]
    missing: dict[str, BoolArray]
    group: IntArray
    weights: FloatArray
    beyond: BoolArray

    def __repr__(self) -> str:
        return "<people>"


def people_of(query: DescriptionQuery, table: AdmittedTable) -> DescribedPeople:
    """Return the row of each person that is described, and what it counts for: a total map, person by person."""
    complete = np.ones(table.rows, dtype=np.bool_)
    for name in query.names:
        complete &= ~table.missing[name]
    rows = _first_rows(table, complete)
    values = {name: (table.numeric if name in table.numeric else table.codes)[name][rows] for name in query.names}
    missing = {name: table.missing[name][rows] for name in query.names}
    group = np.zeros(len(rows), dtype=np.int64)
    for name, levels in zip(query.grouping, query.levels_of_groups, strict=True):
        group = group * levels + values[name].astype(np.int64)
    out = np.zeros(len(rows), dtype=np.bool_)
    for name in (*query.extra, *query.grouping):
        out |= missing[name]
    if query.complete:
        out |= ~complete[rows]
    weights = np.ones(len(rows))
    if query.weights is not None:
        weights = np.clip(values[query.weights] / query.largest_weight, 0.0, 1.0)
    asked = query.follow_up
    beyond = np.zeros(len(rows), dtype=np.bool_) if asked is None else table.beyond[asked.time][rows]
    if asked is not None and asked.start is not None and table.persons is not None:
        joined = spans_of(table, start=asked.start, time=asked.time, event=asked.event, level=asked.level)
        values |= {asked.start: joined.start, asked.time: joined.stop, asked.event: joined.event}
        missing |= dict.fromkeys(asked.names, joined.absent)
        beyond = joined.beyond
    return DescribedPeople(
        cells=values, missing=missing, group=np.where(out, query.groups, group), weights=weights, beyond=beyond
    )


def _first_rows(table: AdmittedTable, complete: BoolArray) -> IntArray:
    """Return one row of each person: the first complete one, else the first; rows that name nobody are left out."""
    if table.persons is None:
        return np.arange(table.rows)
    order = np.lexsort((np.arange(table.rows), ~complete, table.persons))
    persons = table.persons[order]
    first = np.diff(persons, prepend=-1) > 0
    return np.asarray(order[first])


def features_of(query: DescriptionQuery, people: DescribedPeople) -> Iterator[IntArray]:
    """Return the features of the people (n,) in units, one after the other, in the order of a block."""
    weights = people.weights
    if query.leading:
        yield in_units(weights / 2)
    if query.leading == 2:
        yield in_units(weights**2 / 2)
    for column in query.columns:
        missing, value = people.missing[column.name], people.cells[column.name]
        if column.counts_missing(complete=query.complete):
            yield in_units(weights * np.where(missing, 0.5, -0.5))
        yield from _of_value(column, value, missing, weights)
    if query.at_risk is not None:
        followed, missing = people.cells[query.at_risk.time], people.missing[query.at_risk.time]
        for time in query.at_risk.after:
            yield in_units(weights * np.where(missing, 0.0, np.where(followed > time, 0.5, -0.5)))


def _of_value(
    column: DescribedColumn, value: FloatArray | IntArray, missing: BoolArray, weights: FloatArray
) -> Iterator[IntArray]:
    """Return the centred, weighted features (n,) of values in units, 0 where a cell is missing."""
    if column.levels:
        for level in range(column.levels - 1):
            yield in_units(weights * np.where(missing, 0.0, np.where(value == level, 0.5, -0.5)))
    else:
        cells, bounds = (value.astype(np.float64, copy=False), missing, weights), (column.lower, column.upper)
        yield number_in_units(*cells, bounds=bounds)
        if column.squares is None:
            yield square_in_units(*cells, bounds=bounds, centre=column.centre, far=column.far)


def sums_of(query: DescriptionQuery, people: DescribedPeople) -> IntArray:
    """Return the sums of all features in units, group by group: exact, in any order."""
    sums = np.zeros((query.groups, query.dimension), dtype=np.int64)
    if query.dimension:
        for place, feature in enumerate(features_of(query, people)):
            sums[:, place] = totals(people.group, feature, query.groups + 1)[:-1]
    return sums.ravel()


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
    if query.weights is None:
        return np.ones(len(people.group), dtype=np.int64)
    return np.asarray(np.floor(people.weights * UNITS + 0.5), dtype=np.int64)


def totals(place: IntArray, amounts: IntArray, size: int) -> IntArray:
    """Return the sums of amounts by place: exact, as every partial sum is a whole number below 2^53."""
    if size == 2:
        first = int(np.where(place == 0, amounts, 0).sum())
        return np.array([first, int(amounts.sum()) - first])
    return np.asarray(np.bincount(place, weights=amounts, minlength=size)).astype(np.int64)
