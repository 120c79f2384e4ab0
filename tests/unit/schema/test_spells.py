"""Rows become spells at risk: what is counted where, row by row."""

import math
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest

from hdpstats.records.model import TimeGrid
from hdpstats.schema.columns import Binary, Categorical, Duration
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.schema.spells import spells, spells_of
from hdpstats.schema.table import PrivateTable

GRID = TimeGrid((10.0, 20.0, 30.0, 40.0))
FIELDS = ("row", "person", "entry", "exit", "cause")


def found(rows, *, person=None, most_rows=None):
    """Return (row, entry, exit, cause) of the spells of rows (start, stop, event), of one person by default."""
    start, stop, event = (np.array([row[place] for row in rows], dtype=float) for place in range(3))
    whose = np.zeros(len(rows), dtype=np.int64) if person is None else np.array(person, dtype=np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = spells(
            start=start,
            stop=stop,
            event=event,
            beyond=np.zeros(len(rows), dtype=bool),
            person=whose,
            grid=GRID,
            most_rows=most_rows,
        )
    return list(zip(*(getattr(result, name).tolist() for name in ("row", "entry", "exit", "cause")), strict=True))


@pytest.mark.parametrize(
    ("stop", "event", "exit_", "cause"),
    [
        (-5.0, 1, 1, 1),
        (0.0, 0, 1, 0),
        (5e-324, 1, 1, 1),
        (10.0, 1, 1, 1),
        (math.nextafter(10.0, 11.0), 1, 2, 1),
        (25.0, 0, 3, 0),
        (40.0, 2, 4, 2),
        (math.nextafter(40.0, 41.0), 1, 4, 0),
        (math.inf, 1, 4, 0),
        (25.0, -1, 3, 0),
        (math.nan, 1, 1, 1),
        (25.0, math.nan, 3, 0),
    ],
)
def test_a_row_without_start_is_at_risk_from_the_first_interval(stop, event, exit_, cause):
    for person in (None, np.array([0])):
        result = spells(
            stop=np.array([stop]), event=np.array([event]), beyond=np.array([False]), grid=GRID, person=person
        )
        assert [getattr(result, name).tolist() for name in FIELDS] == [[0], [0], [0], [exit_], [cause]]
        assert result.people == 1


def test_an_event_beyond_the_horizon_does_not_count_though_its_clipped_time_is_the_horizon():
    result = spells(stop=np.full(2, 40.0), event=np.ones(2), beyond=np.array([True, False]), grid=GRID, most_rows=1)
    assert (result.exit.tolist(), result.cause.tolist()) == ([4, 4], [0, 1])


@pytest.mark.parametrize(
    ("start", "stop", "spell"),
    [
        (0, 25, (0, 3)),
        (-7, 25, (0, 3)),
        (10, 25, (1, 3)),
        (10.5, 25, (2, 3)),
        (21, 25, None),
        (25, 25, None),
        (25, 5, None),
        (0, 0, None),
        (-2, -1, None),
        (35, 99, None),
        (30, 99, (3, 4)),
        (99, 100, None),
        (99, 50, None),
        (math.nan, 25, None),
        (5, math.nan, None),
        (-math.inf, math.inf, (0, 4)),
    ],
)
def test_a_late_entrant_is_at_risk_from_the_first_interval_that_begins_after_entry(start, stop, spell):
    expected = [] if spell is None else [(0, *spell, 1 if stop <= 40 else 0)]
    assert found([(start, stop, 1)]) == expected
    assert found([(start, stop, 1)], person=[3]) == expected


def test_an_interval_belongs_to_the_earlier_spell_that_reaches_into_it():
    assert found([(0, 12, 0), (12, 30, 1)]) == [(0, 0, 2, 0), (1, 2, 3, 1)]
    assert found([(12, 30, 1), (0, 12, 0)]) == [(1, 0, 2, 0), (0, 2, 3, 1)]
    assert found([(0, 25, 0), (5, 40, 0)]) == [(0, 0, 3, 0), (1, 3, 4, 0)]
    assert found([(0, 40, 0), (5, 25, 0)]) == [(0, 0, 4, 0)]
    assert found([(0, 10, 0), (30, 40, 0)]) == [(0, 0, 1, 0), (1, 3, 4, 0)]


def test_an_event_hands_over_to_the_row_that_its_interval_belongs_to():
    assert found([(0, 12, 0), (12, 18, 1)]) == [(0, 0, 2, 1)]
    assert found([(0, 12, 0), (12, 14, 0), (14, 18, 2)]) == [(0, 0, 2, 2)]
    assert found([(0, 10, 0), (12, 18, 1)]) == [(0, 0, 1, 0)], "not at risk in the second interval"


def test_the_first_event_ends_the_follow_up():
    assert found([(0, 15, 1), (15, 40, 1)]) == [(0, 0, 2, 1)]
    assert found([(0, 40, 0), (5, 15, 1)]) == [(0, 0, 2, 1)]
    assert found([(0, 15, 1), (0, 15, 1), (2, 13, 1)]) == [(0, 0, 2, 1)]
    assert found([(0, 12, 2), (12, 15, 1), (30, 40, 1)]) == [(0, 0, 2, 2)], "the cause of the earlier row"
    assert found([(0, 10, 0), (10, 35, 1), (35, 39, 1)]) == [(0, 0, 1, 0), (1, 1, 4, 1)]


def test_the_earliest_spells_are_kept():
    rows = [(20, 30, 0), (30, 40, 1), (10, 20, 0), (0, 10, 0), (5, 5, 1)]
    everything = [(3, 0, 1, 0), (2, 1, 2, 0), (0, 2, 3, 0), (1, 3, 4, 1)]
    for most in range(1, 6):
        assert found(rows, most_rows=most) == everything[:most]


def test_rows_of_several_people_are_kept_apart():
    rows = [(10, 20, 1), (0, 10, 0), (0, 40, 0), (0, 10, 1), (10, 20, 0)]
    person = np.array([2, 2, 0, -1, 1])
    result = spells(
        start=np.array([row[0] for row in rows], dtype=float),
        stop=np.array([row[1] for row in rows], dtype=float),
        event=np.array([row[2] for row in rows]),
        beyond=np.zeros(5, dtype=bool),
        person=person,
        grid=GRID,
        most_rows=2,
    )
    assert result.people == 3
    assert [getattr(result, name).tolist() for name in FIELDS] == [
        [2, 4, 1, 0],
        [0, 1, 2, 2],
        [0, 1, 0, 1],
        [4, 2, 1, 2],
        [0, 0, 0, 1],
    ]


def test_nobody_and_no_rows_give_no_spells():
    for person, people in ((np.array([-1, -1]), 0), (np.array([-1, 4]), 5)):
        stop = np.array([5.0, 0.0])
        result = spells(start=np.zeros(2), stop=stop, event=stop, beyond=stop < 0, person=person, grid=GRID)
        assert (result.row.size, result.people) == (0, people)
    empty = np.empty(0)
    for person in (None, np.empty(0, dtype=np.int64)):
        for start in (None, empty):
            result = spells(
                start=start, stop=empty, event=empty, beyond=empty > 0, person=person, grid=GRID, most_rows=3
            )
            assert (result.row.size, result.people) == (0, 0)
            assert {getattr(result, name).dtype for name in FIELDS} == {np.dtype(np.int64)}


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize("order", ["sorted", "reversed", "shuffled", "equal"])
def test_a_person_with_a_million_rows_is_one_person_in_seconds(order):
    m = 10**6
    rng = np.random.default_rng(0)
    start = np.linspace(0.0, 39.0, m)
    start = {"sorted": start, "reversed": start[::-1], "shuffled": rng.permutation(start), "equal": start * 0.0}[order]
    rows = {
        "start": start,
        "stop": start + 1.0,
        "event": (start > 35.0) * 1.0,
        "beyond": np.zeros(m, dtype=bool),
        "person": np.zeros(m, dtype=np.int64),
    }
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = spells(**rows, grid=GRID, most_rows=12)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.row.size <= GRID.intervals
    assert result.exit[-1] == (1 if order == "equal" else 4)
    assert result.people == 1
    assert peak < 300 * m, "bytes per row"


def test_spells_show_nothing():
    result = spells(stop=np.ones(3), event=np.ones(3), beyond=np.zeros(3, dtype=bool), grid=GRID)
    assert repr(result) == str(result) == "<spells at risk>"


SCHEMA = Schema(
    entered=Duration(40, missing=0),
    left=Duration(40, "months"),
    died=Binary(),
    status=Categorical(["alive", "relapse", "death"]),
)
FRAME = pd.DataFrame(
    {
        "id": ["b", "a", "a", None],
        "entered": [0.0, 20.0, math.nan, 0.0],
        "left": [50.0, 35.0, 20.0, 30.0],
        "died": [1, 1, 0, 1],
        "status": ["death", "death", "alive", "relapse"],
    }
)


def of(table, **columns):
    names = {"start": "entered", "stop": "left", "event": "died", "grid": GRID, "most_rows": None} | columns
    result = spells_of(table, **names)
    return list(zip(*(getattr(result, name).tolist() for name in FIELDS), strict=True))


def test_spells_of_a_private_table():
    table = PrivateTable.from_frame(FRAME, SCHEMA, unit="id").admit(SCHEMA)
    assert of(table) == [(0, 0, 0, 4, 0), (2, 1, 0, 2, 0), (1, 1, 2, 4, 1)]
    assert of(table, event="status") == [(0, 0, 0, 4, 0), (2, 1, 0, 2, 0), (1, 1, 2, 4, 2)]
    assert of(table, most_rows=1) == [(0, 0, 0, 4, 0), (2, 1, 0, 2, 0)]
    alone = PrivateTable.from_frame(FRAME, SCHEMA).admit(SCHEMA)
    assert of(alone, start=None) == [(0, 0, 0, 4, 0), (1, 1, 0, 4, 1), (2, 2, 0, 2, 0), (3, 3, 0, 3, 1)]


def test_raw_and_admitted_public_rows_have_the_same_spells():
    public = PublicTable.from_frame(FRAME.dropna().assign(left=[50.0, 35.0], entered=[-3.0, 20.0]), SCHEMA, unit="id")
    raw, admitted = public.raw(SCHEMA), public.admitted(SCHEMA)
    assert raw.numeric["left"].tolist() == [50.0, 35.0]
    assert of(raw) == of(admitted) == [(0, 0, 0, 4, 0), (1, 1, 2, 4, 1)]
