"""The expansion into person-period rows."""

import numpy as np
import pandas as pd
import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.records.model import TimeGrid
from hdpstats.schema.spells import person_period

CUTS = [10.0, 20.0, 30.0]


def frame(**columns: list[object]) -> pd.DataFrame:
    return pd.DataFrame(columns)


def rows(expanded: pd.DataFrame, *columns: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in expanded[list(columns)].itertuples(index=False)]


def test_a_row_for_every_interval_at_risk() -> None:
    people = frame(who=["a", "b", "c", "d"], t=[10.0, 10.5, 30.0, 31.0], d=[1, 0, 1, 1])
    assert rows(person_period(people, time="t", event="d", intervals=CUTS), "who", "interval", "d") == [
        ("a", 1, 1),
        ("b", 1, 0),
        ("b", 2, 0),
        ("c", 1, 0),
        ("c", 2, 0),
        ("c", 3, 1),
        ("d", 1, 0),
        ("d", 2, 0),
        ("d", 3, 0),
    ]


def test_a_time_of_zero_is_in_the_first_interval() -> None:
    people = frame(t=[0.0, -1.0], d=[1, 0])
    assert rows(person_period(people, time="t", event="d", intervals=CUTS), "interval", "d") == [(1, 1), (1, 0)]


def test_late_entry_begins_with_the_next_interval() -> None:
    people = frame(who=["a", "b", "c", "d"], s=[0.0, 10.0, 10.5, 12.0], t=[25.0, 25.0, 25.0, 18.0], d=[1, 1, 1, 1])
    expanded = person_period(people, start="s", time="t", event="d", intervals=CUTS)
    assert rows(expanded, "who", "interval", "d") == [
        ("a", 1, 0),
        ("a", 2, 0),
        ("a", 3, 1),
        ("b", 2, 0),
        ("b", 3, 1),
        ("c", 3, 1),
    ]


def test_a_person_has_a_row_per_interval() -> None:
    people = frame(who=["a", "b", "a"], s=[15.0, 0.0, 0.0], t=[30.0, 5.0, 15.0], d=[1, 0, 0], x=[2.0, 9.0, 1.0])
    expanded = person_period(people, start="s", time="t", event="d", unit="who", intervals=CUTS)
    assert rows(expanded, "who", "interval", "d", "x") == [
        ("a", 1, 0, 1.0),
        ("a", 2, 0, 1.0),
        ("a", 3, 1, 2.0),
        ("b", 1, 0, 9.0),
    ]
    separate = person_period(people, start="s", time="t", event="d", intervals=CUTS)
    assert len(separate) == 4  # without the unit a row enters with the first interval after its start


def test_causes_keep_their_names() -> None:
    levels = pd.CategoricalDtype(["censored", "relapse", "death"])
    people = pd.DataFrame({"t": [15.0, 5.0], "d": pd.Series(["death", "relapse"], dtype=levels)})
    expanded = person_period(people, time="t", event="d", intervals=CUTS)
    assert expanded["d"].tolist() == ["censored", "death", "relapse"]
    assert expanded["d"].dtype == levels


def test_truth_values_and_grids() -> None:
    people = frame(t=[15.0], d=[True])
    expanded = person_period(people, time="t", event="d", intervals=TimeGrid((10.0, 20.0)))
    assert rows(expanded, "interval", "d") == [(1, 0), (2, 1)]
    assert list(expanded.columns) == ["interval", "t", "d"]
    assert list(expanded.index) == [0, 1]


def test_nobody() -> None:
    people = frame(t=[15.0], d=[1]).iloc[:0]
    assert len(person_period(people, time="t", event="d", intervals=CUTS)) == 0


def test_the_number_of_rows_is_the_sum_of_the_exits() -> None:
    rng = np.random.default_rng(1)
    time, event = rng.uniform(0.0, 40.0, 500), rng.integers(0, 2, 500)
    expanded = person_period(pd.DataFrame({"t": time, "d": event}), time="t", event="d", intervals=CUTS)
    assert len(expanded) == int(np.clip(np.ceil(time / 10.0), 1, 3).sum())
    assert expanded["d"].sum() == int(event[time <= 30.0].sum())


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"time": "nothing"}, "time must be a column"),
        ({"unit": "nobody"}, "unit must be a column"),
        ({"time": "word"}, "time must have a number in every row, and 'word' has 1"),
        ({"start": "gap"}, "start must have a number in every row"),
        ({"event": "two"}, "event must be 0 or 1 or categorical"),
        ({"event": "gap"}, "event must be 0 or 1 or categorical"),
        ({"unit": "gap"}, "unit must name a person"),
        ({"unit": "large"}, "'large' names nobody in 1: .* as text or 'Int64'"),
        ({"intervals": [10.0, 5.0]}, "increase"),
    ],
)
def test_what_cannot_be_read_is_named(changes: dict[str, object], match: str) -> None:
    people = frame(t=[5.0], d=[1], word=["soon"], gap=[None], two=[2], large=[2**53])
    with pytest.raises(ArgumentError, match=match):
        person_period(people, **{"time": "t", "event": "d", "intervals": CUTS, **changes})


def test_a_column_named_interval_is_not_overwritten() -> None:
    with pytest.raises(ArgumentError, match="rename"):
        person_period(frame(t=[5.0], d=[1], interval=[3]), time="t", event="d", intervals=CUTS)
