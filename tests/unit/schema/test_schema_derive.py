import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdpstats._base.errors import ArgumentError, SchemaError
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
        (pd.to_datetime(["2020-01-01", "2021-01-01"]), "something other"),
        (pd.Categorical(pd.to_datetime(["2020-01-01", "2021-01-01"])), "something other"),
        ([1j, 2j], "something other"),
        ([str(level) for level in range(1001)], "1000 levels"),
        (["", "a"], "level"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_columns_that_declare_nothing_are_refused_by_name(cells, reason):
    with pytest.raises(SchemaError, match=rf"public column 'a'.*{reason}.*declare it.*drop it") as caught:
        derived(cells)
    assert caught.value.column == "a"


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
