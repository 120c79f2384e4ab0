import math
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdpstats._base.errors import ArgumentError, HdpWarning, SchemaError
from hdpstats.schema.columns import Binary, Categorical, Continuous, Duration
from hdpstats.schema.dictionary import round_outward
from hdpstats.schema.schema import Schema


@pytest.mark.parametrize(
    ("value", "down", "up"),
    [
        (0.0, 0.0, 0.0),
        (21.0, 21.0, 21.0),
        (2659.0, 2600.0, 2700.0),
        (99.9, 99.0, 100.0),
        (-3.14159, -3.2, -3.1),
        (0.00123, 0.0012, 0.0013),
        (1e-300, 1e-300, 1e-300),
        (123456789012.0, 120000000000.0, 130000000000.0),
    ],
)
def test_rounding_outward_to_two_significant_digits(value, down, up):
    assert round_outward(value, rounding=ROUND_FLOOR) == down
    assert round_outward(value, rounding=ROUND_CEILING) == up


@given(value=st.floats(-1e12, 1e12))
def test_rounding_never_goes_inward_nor_far(value):
    with localcontext() as context:
        context.prec = 1  # another's arithmetic context plays no part
        down, up = round_outward(value, rounding=ROUND_FLOOR), round_outward(value, rounding=ROUND_CEILING)
    assert down <= value <= up
    assert up - down <= 0.1 * abs(value) + 5e-324


def derived(cells):
    return Schema.from_public(pd.DataFrame({"a": cells}))["a"]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([23, 58, 81], Continuous(23, 81)),
        ([1.26, math.nan, 123.4], Continuous(1.2, 130)),
        ([-0.5, 0.0], Continuous(-0.5, 0)),
        ([1960, 1994, 1971], Continuous(1960, 1994)),
        ([1960.4, 1993.6], Continuous(1960, 1994)),
        ([99_990.0, 100_010.0], Continuous(99_990, 100_010)),
        ([1, 2, 2, None], Binary(labels=("1", "2"))),
        ([*range(20, 40), 30], Continuous(20, 39)),
        ([0, 2], Continuous(0, 2)),
        ([0, 1, 1], Binary()),
        ([0.0, 1.0, math.nan], Binary()),
        ([True, False], Binary()),
        (pd.Series([True, None, False], dtype=object), Binary()),
        (pd.Series([True, None, False], dtype="boolean"), Binary()),
        (pd.Series([0, 5, None], dtype="Int64"), Continuous(0, 5)),
        (pd.Series([1, 2.5, Decimal("3")], dtype=object), Continuous(1, 3)),
        (pd.Series([0.0, 5.0]).astype("Sparse[float]"), Continuous(0, 5)),
        (["b", "a", None, "b"], Categorical(["a", "b"])),
        (pd.Series(["b", "a"], dtype=object), Categorical(["a", "b"])),
        (pd.Series(["0", "1"]), Categorical(["0", "1"])),
        (pd.Categorical(["x", "y"], categories=["y", "x", "unused"]), Categorical(["x", "y"])),
        (pd.Categorical([3, 1, 3]), Categorical(["1", "3"])),
    ],
    ids=repr,
)
def test_declarations_derived_from_public_rows(cells, expected):
    assert derived(cells) == expected


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ([5, 5], "constant"),
        ([1, 1], "constant"),
        ([True, True], "constant"),
        (["a", "a", None], "constant"),
        ([None, None], "no value"),
        ([math.nan, math.nan], "no value"),
        ([], "no value"),
        ([1.0, math.inf], "infinite"),
        ([0.0, 1e300], "upper"),
        (pd.Series([1, "a"], dtype=object), "mixes"),
        (pd.Series([(1,), (2,)], dtype=object), "something other"),
        ([1j, 2j], "something other"),
        ([*(str(level) for level in range(1001)), "0"], "1000 levels"),
        (["", "a"], "level"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_columns_that_declare_nothing_are_refused_by_name(cells, reason):
    with pytest.raises(SchemaError, match=rf"public column 'a'.*{reason}.*declare it.*drop it") as caught:
        derived(cells)
    assert caught.value.column == "a"


DATES = ["2020-01-01", "2021-03-01"]


@pytest.mark.parametrize(
    ("name", "cells", "reason"),
    [
        ("row", list(range(7, 37)), "names people or rows"),
        ("a", [f"P-{place}" for place in range(30)], "names people or rows"),
        ("Patient_ID", [int(place**1.5 * 10) for place in range(30)], "names people or rows"),
        ("id", [str(place**2) for place in range(30)], "names people or rows"),
        ("a", pd.to_datetime(DATES), "dates"),
        ("a", pd.Categorical(pd.to_datetime(DATES)), "dates"),
        ("a", DATES, "dates"),
        ("a", ["1.2.1960", None, "31.12.61"], "dates"),
        ("a", pd.Series([date(2020, 1, 1), None], dtype=object), "dates"),
    ],
)
def test_what_names_people_or_is_a_date_is_left_out_with_a_warning(name, cells, reason):
    frame = pd.DataFrame({name: cells, "x": np.arange(len(cells)) % 2})
    with pytest.warns(HdpWarning, match=rf"left out of the schema: {name}: it .*{reason}"):
        schema = Schema.from_public(frame)
    assert list(schema) == ["x"]


def test_measurements_are_kept_although_all_differ():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"crp": rng.lognormal(size=50), "platelets": rng.permutation(np.arange(50) * 7 + 100)})
    assert list(Schema.from_public(frame)) == ["crp", "platelets"]


def test_what_is_taken_for_granted_is_said(capsys):
    frame = pd.DataFrame({"status": [1, 2] * 20, "stage": [1, 2, 3, 4] * 10, "age": range(30, 110, 2)})
    Schema.from_public(frame)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "hdpstats: assumed of public rows:",
        "  status: 1 is taken for 0 (no), 2 for 1 (yes); the other way round it is Binary(labels=('2', '1'))",
        "  stage: 1, 2, 3, 4 are taken for measurements; if they are codes declare Categorical([...])",
    ]
    Schema.from_public(frame, status=Binary(labels=("1", "2")), stage=Categorical(["1", "2", "3", "4"]))
    assert capsys.readouterr().err == ""


def test_declared_columns_are_taken_as_they_are():
    public = pd.DataFrame({"time": ["x", "x"], "age": [20, 60]}, index=[7, 7])
    schema = Schema.from_public(public, time=Duration(30), event=Binary())
    assert schema == Schema(time=Duration(30), age=Continuous(20, 60), event=Binary())
    assert list(schema) == ["time", "age", "event"]


def test_frames_that_cannot_be_read_are_refused():
    for frame in (None, [[1]], {"a": [1, 2]}, np.eye(2), "public.csv"):
        with pytest.raises(SchemaError, match="DataFrame"):
            Schema.from_public(frame)
    with pytest.raises(SchemaError, match="same name"):
        Schema.from_public(pd.DataFrame([[0, 1], [1, 0]], columns=["a", "a"]))
    with pytest.raises(ArgumentError, match="column name"):
        Schema.from_public(pd.DataFrame([[0, 1], [1, 0]]))
