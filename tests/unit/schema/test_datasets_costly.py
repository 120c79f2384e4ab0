"""Invented rows are as costly as any: as many spells as rows of people allow, at risk in every interval."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdpstats.records.model import TimeGrid
from hdpstats.schema.columns import Binary, Categorical, Continuous, Duration, Offset, Weight
from hdpstats.schema.datasets import FollowUpColumns, costly_frame
from hdpstats.schema.schema import Schema
from hdpstats.schema.spells import Spells, spells_of
from hdpstats.schema.table import PrivateTable
from tests.examples import examples

Q = 6
SCHEMA = Schema(
    start=Duration(Q, missing=0),
    stop=Duration(Q),
    event=Binary(),
    cause=Categorical(["none", "one", "two"]),
    x=Continuous(-50, 50),
    w=Weight(max=3),
    o=Offset(-1, 1),
)
GRID = TimeGrid((0.5, 2.0, 2.5, 3.0, 5.0, 6.0))


def spells_in(
    frame: pd.DataFrame, *, most_rows: int, long: bool, event: str = "event", grid: TimeGrid = GRID
) -> Spells:
    table = PrivateTable.from_frame(frame, SCHEMA, unit="person" if most_rows > 1 else None)
    start = "start" if long else None
    admitted = table.admit(["start", "stop", event])
    return spells_of(admitted, start=start, stop="stop", event=event, grid=grid, most_rows=most_rows)


def at_risk(found: Spells) -> int:
    return int((found.exit - found.entry).sum())


@pytest.mark.parametrize("event", ["event", "cause"])
@pytest.mark.parametrize(("most_rows", "long"), [(1, False), (1, True), (2, True), (4, True), (6, True), (9, True)])
def test_everybody_is_at_risk_in_all_intervals_in_as_many_spells_as_there_may_be(
    event: str, most_rows: int, long: bool
) -> None:
    people = 20
    outcome = FollowUpColumns(start="start" if long else None, stop="stop", event=event, grid=GRID)
    unit = "person" if most_rows > 1 else None
    frame = costly_frame(SCHEMA, rows=people * most_rows, unit=unit, most_rows=most_rows, follow_up=outcome)
    found = spells_in(frame, most_rows=most_rows, long=long, event=event)
    assert found.people == people
    assert len(found.row) == people * min(most_rows, Q)
    assert at_risk(found) == people * Q
    assert int((found.cause > 0).sum()) == people
    assert event == "event" or {1, 2} <= set(found.cause.tolist())


@examples(200)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_no_rows_of_as_many_people_have_more_spells_intervals_or_events(seed: int, most_rows: int) -> None:
    rng, people = np.random.default_rng(seed), 7
    rows = people * most_rows
    private = pd.DataFrame(
        {
            "start": rng.choice([0.0, 1.0, 2.0, 3.3, 7.0, np.nan], rows),
            "stop": rng.choice([0.0, 0.1, 2.0, 2.6, 4.0, 6.0, 99.0], rows),
            "event": rng.integers(0, 2, rows).astype(float),
            "cause": "none",
            "x": 0.0,
            "w": 1.0,
            "o": 0.0,
            "person": rng.integers(0, people, rows),
        }
    )
    outcome = FollowUpColumns(start="start", stop="stop", event="event", grid=GRID)
    invented = costly_frame(SCHEMA, rows=rows, unit="person", most_rows=most_rows, follow_up=outcome)
    of_private, of_invented = (spells_in(each, most_rows=max(most_rows, 2), long=True) for each in (private, invented))
    assert len(of_private.row) <= len(of_invented.row)
    assert at_risk(of_private) <= at_risk(of_invented)
    assert (of_private.cause > 0).sum() <= (of_invented.cause > 0).sum()


def test_intervals_beyond_the_horizon_of_the_schema_are_reached_by_nobody() -> None:
    grid = TimeGrid((2.0, 4.0, 8.0, 16.0))
    outcome = FollowUpColumns(start="start", stop="stop", event="event", grid=grid)
    frame = costly_frame(SCHEMA, rows=30, unit="person", most_rows=3, follow_up=outcome)
    found = spells_in(frame, most_rows=3, long=True, grid=grid)
    assert len(found.row) == 30
    assert at_risk(found) == 10 * 3


def test_cells_are_declared_values_spread_over_their_range_and_always_the_same() -> None:
    frame = costly_frame(SCHEMA, rows=2000)
    pd.testing.assert_frame_equal(frame, costly_frame(SCHEMA, rows=2000))
    assert list(frame) == list(SCHEMA)
    assert set(frame["cause"]) == {"none", "one", "two"}
    assert set(frame["event"]) == {0.0, 1.0}
    assert frame["x"].between(-50, 50).all()
    assert frame["x"].quantile([0.1, 0.9]).tolist() == pytest.approx([-40, 40], abs=5)
    assert abs(frame["x"].corr(frame["w"])) < 0.1
    assert not frame["x"].is_monotonic_increasing
    assert frame["w"].between(0, 3).all()
