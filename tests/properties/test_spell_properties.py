"""Properties of the total map to spells: what a sensitivity of one person may lean on, whatever the rows hold."""

import warnings

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from hdpstats.records.model import TimeGrid
from hdpstats.schema.columns import Categorical, Continuous, Duration
from hdpstats.schema.schema import Schema
from hdpstats.schema.spells import spells, spells_of
from hdpstats.schema.table import PrivateTable
from tests.examples import examples
from tests.properties.test_total_maps import CELLS, objects

GRID = TimeGrid((1.0, 2.0, 3.5, 5.0, 8.0))
TIMES = st.one_of(st.sampled_from([0.0, 1.0, 2.0, 3.5, 5.0, 8.0]), st.floats(-3, 12), st.floats(allow_nan=False))
EVENTS = st.sampled_from([0, 0, 1, 2, -1])
ROWS = st.lists(st.tuples(TIMES, TIMES, EVENTS, st.booleans(), st.integers(-1, 3)), max_size=14)
ROWS_WITH_NAN = st.lists(
    st.tuples(TIMES | st.just(np.nan), TIMES | st.just(np.nan), EVENTS, st.booleans(), st.integers(-1, 3)), max_size=14
)
MOST = st.sampled_from([None, 1, 2, 3])


def mapped(rows, *, late_entry, most):
    start, stop, event, beyond, person = (np.array([row[place] for row in rows]) for place in range(5))
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        return spells(
            start=start.astype(float) if late_entry else None,
            stop=stop.astype(float),
            event=event.astype(np.int64),
            beyond=beyond.astype(bool),
            person=person.astype(np.int64),
            grid=GRID,
            most_rows=most,
        )


def listed(found):
    fields = (found.row, found.person, found.entry, found.exit, found.cause)
    return list(zip(*(field.tolist() for field in fields), strict=True))


def plainly(rows, *, late_entry, most):
    """Return what the documented rule says, interval by interval."""
    result = []
    for person in range(4):
        own = []
        for place, (start, stop, event, beyond, whose) in enumerate(rows):
            begin, end = (min(max(time, 0.0), 8.0) for time in (start if late_entry else 0.0, stop))
            if whose == person and (end > begin or not late_entry):
                cause = 0 if beyond or stop > 8.0 else max(event, 0)
                last = max(int(GRID.interval_of(end)), 0 if late_entry else 1)
                own.append((begin, end, cause, place, int(GRID.interval_of(begin)), last))
        own.sort()
        ends = min((last for *_, cause, _, _, last in own if cause > 0), default=99)
        named = next((cause for *_, cause, _, _, last in own if cause > 0 and last == ends), 0)
        taken, kept = 0, []
        for *_, place, first, last in own:
            at_risk = range(max(first, taken) + 1, min(last, ends) + 1)
            taken = max(taken, last)
            if at_risk:
                kept.append((place, person, at_risk[0] - 1, at_risk[-1], named if at_risk[-1] == ends else 0))
        result += kept[:most]
    return result


@given(rows=ROWS, late_entry=st.booleans(), most=MOST)
@examples(500)
def test_spells_are_what_the_rule_says(rows, late_entry, most):
    assert listed(mapped(rows, late_entry=late_entry, most=most)) == plainly(rows, late_entry=late_entry, most=most)


def check_what_a_sensitivity_leans_on(found, *, most):
    assert bool(((found.entry >= 0) & (found.entry < found.exit) & (found.exit <= GRID.intervals)).all())
    assert found.person.tolist() == sorted(found.person.tolist())
    for person in set(found.person.tolist()):
        own = found.person == person
        entry, exit_, cause = found.entry[own], found.exit[own], found.cause[own]
        assert bool((entry[1:] >= exit_[:-1]).all()), "at most one spell per interval, in the order of time"
        assert bool((cause[:-1] == 0).all()), "at most one event, on the last spell"
        assert most is None or own.sum() <= most


@given(rows=ROWS_WITH_NAN, late_entry=st.booleans(), most=MOST)
@examples(300)
def test_a_person_has_one_spell_per_interval_and_one_event_on_the_last(rows, late_entry, most):
    check_what_a_sensitivity_leans_on(mapped(rows, late_entry=late_entry, most=most), most=most)


@given(rows=ROWS, late_entry=st.booleans())
@examples(200)
def test_rows_of_one_person_each_are_mapped_like_people_of_one_row(rows, late_entry):
    apart = [(*row[:4], place) for place, row in enumerate(rows)]
    numbered = mapped(apart, late_entry=late_entry, most=1)
    start, stop, event, beyond = (np.array([row[place] for row in rows]) for place in range(4))
    alone = spells(
        start=start.astype(float) if late_entry else None,
        stop=stop.astype(float),
        event=event.astype(np.int64),
        beyond=beyond.astype(bool),
        grid=GRID,
        most_rows=1,
    )
    assert (listed(numbered), numbered.people) == (listed(alone), alone.people)


@given(rows=ROWS, most=MOST, order=st.randoms(use_true_random=False))
@examples(300)
def test_the_order_of_rows_plays_no_part_where_a_persons_rows_differ(rows, most, order):
    distinct = list({(*np.clip(row[:2], 0.0, 8.0), row[2], row[4]): row for row in rows}.values())
    other = distinct.copy()
    order.shuffle(other)

    def said(rows):
        found = listed(mapped(rows, late_entry=True, most=most))
        return [(person, entry, exit_, cause) for _, person, entry, exit_, cause in found]

    here, there = (listed(mapped(each, late_entry=True, most=most)) for each in (distinct, other))
    assert said(distinct) == said(other)
    for one, two in zip(here, there, strict=True):
        first, second = distinct[one[0]], other[two[0]]
        assert (*np.clip(first[:2], 0.0, 8.0), first[4]) == (*np.clip(second[:2], 0.0, 8.0), second[4])


SCHEMA = Schema(
    entered=Duration(8, missing=0),
    left=Duration(8, complete=True),
    status=Categorical(["0", "1", "2"], complete=True),
    mark=Continuous(0, 1e9, complete=True),
)
PEOPLE = st.lists(st.lists(st.tuples(TIMES, TIMES, st.sampled_from([0, 1, 2])), max_size=3), max_size=4)
NAMES = st.one_of(st.sampled_from(["z", "new", 99, 1.5, True, None, float("nan"), " ", b"1", pd.NaT, pd.NA]))


def spells_by_mark(cells):
    """Return for each spell the mark of its row and what it says, for rows (id, start, stop, event, mark)."""
    columns = ("id", "entered", "left", "status", "mark")
    frame = pd.DataFrame({name: objects([row[place] for row in cells]) for place, name in enumerate(columns)})
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        table = PrivateTable.from_frame(frame, SCHEMA, unit="id").admit(SCHEMA)
        found = spells_of(table, start="entered", stop="left", event="status", grid=GRID, most_rows=2)
    check_what_a_sensitivity_leans_on(found, most=2)
    marks = table.numeric["mark"][found.row].tolist()
    return {(mark, *spell[2:]) for mark, spell in zip(marks, listed(found), strict=True)}


@given(people=PEOPLE, data=st.data())
@examples(300)
def test_exchanging_one_person_for_any_other_changes_no_other_persons_spells(people, data):
    """The neighbour may have any rows at any places, any cells in them, and any name, or none."""
    others = [
        (f"person {place}", *row, 1000 * place + step)
        for place, rows in enumerate(people)
        for step, row in enumerate(rows)
    ]
    alone = spells_by_mark(others)
    for _ in range(2):
        name = data.draw(NAMES)
        cells = others.copy()
        for start, stop, event in data.draw(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=4)):
            cells.insert(data.draw(st.integers(0, len(cells))), (name, start, stop, event, 10**8))
        assert {spell for spell in spells_by_mark(cells) if spell[0] != 10**8} == alone
