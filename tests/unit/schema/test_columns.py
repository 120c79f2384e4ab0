import copy
import math
from dataclasses import FrozenInstanceError, fields
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from hdpstats._base.errors import ArgumentError, HdpError, SchemaError
from hdpstats.schema.columns import (
    KINDS,
    Binary,
    Categorical,
    Column,
    Continuous,
    Duration,
    NumericColumn,
    Offset,
    Weight,
)

EXAMPLES = [
    Continuous(20, 90),
    Continuous(0, 40, missing=1),
    Binary(),
    Binary(missing=1),
    Categorical(["<=20", "20-50", ">50"]),
    Categorical(["a", "b"], other="b"),
    Duration(horizon=2557, unit="days"),
    Duration(2557),
    Duration(2557, missing=0),
    Weight(max=5),
    Offset(-2, 2),
]


@pytest.mark.parametrize(
    ("column", "lower", "upper", "missing"),
    [
        (Continuous(20, 90), 20.0, 90.0, 55.0),
        (Continuous(0, 40, missing=1), 0.0, 40.0, 1.0),
        (Continuous(Decimal("0.1"), Fraction(1, 2), missing=np.int8(0) + 0.25), 0.1, 0.5, 0.25),
        (Binary(), 0.0, 1.0, 0.0),
        (Binary(missing=1), 0.0, 1.0, 1.0),
        (Duration(horizon=2557, unit="days"), 0.0, 2557.0, 2557.0),
        (Duration(2557, missing=0), 0.0, 2557.0, 0.0),
        (Weight(max=5), 0.0, 5.0, 1.0),
        (Weight(0.5), 0.0, 0.5, 0.5),
        (Weight(5, missing=0), 0.0, 5.0, 0.0),
        (Offset(-2, 2), -2.0, 2.0, 0.0),
        (Offset(1, 2), 1.0, 2.0, 1.0),
        (Offset(-2, -1), -2.0, -1.0, -1.0),
        (Offset(-2, 2, missing=1), -2.0, 2.0, 1.0),
    ],
)
def test_numeric_columns_state_their_bounds_and_missing_value(column, lower, upper, missing):
    assert isinstance(column, NumericColumn)
    assert (column.lower, column.upper, column.missing) == (lower, upper, missing)
    assert [type(value) for value in (column.lower, column.upper, column.missing)] == [float] * 3


@pytest.mark.parametrize("kind", [Continuous, Offset])
@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        (90, 20),
        (1, 1),
        (math.nan, 1),
        (0, math.nan),
        (-math.inf, 0),
        (0, math.inf),
        (0, 1e300),
        (-1.1e12, 0),
        (0, 5e-324),
        (1.0, math.nextafter(1.0, 2.0)),
        ("0", 1),
        (0, None),
        (False, True),
        (0, 1j),
        ([0], 1),
        (0, np.array([1.0, 2.0])),
        (Decimal("NaN"), 1),
    ],
)
def test_bounds_that_cannot_hold_are_refused(kind, lower, upper):
    with pytest.raises((SchemaError, ArgumentError), match=r"lower|upper|bounds"):
        kind(lower, upper)


def test_equal_and_reversed_bounds_are_told_apart_from_close_ones():
    for lower, upper in ((1, 1), (0, 0), (2, 1)):
        with pytest.raises(SchemaError, match="lower must be below upper"):
            Continuous(lower, upper)
    with pytest.raises(SchemaError, match="too close"):
        Continuous(1.0, math.nextafter(1.0, 2.0))


@pytest.mark.parametrize("horizon", [0, -1, math.nan, math.inf, True, "30", None, 1e13, 5e-324])
def test_horizons_that_cannot_hold_are_refused(horizon):
    with pytest.raises(ArgumentError, match="horizon"):
        Duration(horizon)


@pytest.mark.parametrize("most", [0, -1, math.nan, math.inf, True, "5", None, 1e300])
def test_largest_weights_that_cannot_hold_are_refused(most):
    with pytest.raises(ArgumentError, match="max"):
        Weight(most)


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Continuous(0, 1, missing=2),
        lambda: Continuous(0, 1, missing=math.nan),
        lambda: Binary(missing=0.5),
        lambda: Binary(missing=2),
        lambda: Binary(missing=True),
        lambda: Duration(10, missing=11),
        lambda: Weight(2, missing=-1),
        lambda: Offset(-1, 1, missing=5),
    ],
)
def test_missing_values_outside_the_bounds_are_refused(declare):
    with pytest.raises(ArgumentError, match="missing"):
        declare()


@pytest.mark.parametrize("unit", ["", 3, "x" * 101])
def test_units_are_short_texts(unit):
    with pytest.raises(ArgumentError, match="unit"):
        Duration(10, unit)


@pytest.mark.parametrize(
    "levels",
    [
        [],
        ["a"],
        ["a", "b", "a"],
        [1, "1"],
        [True, "True"],
        ["a", ""],
        ["a", None],
        ["a", 1.5],
        ["a", math.nan],
        ["a", b"b"],
        ["a", ["b"]],
        ["a", "\ud800"],
        ["a", "x" * 1001],
        "ab",
        b"ab",
        {"a": 1, "b": 2},
        None,
        3,
        [str(level) for level in range(1001)],
        (str(level) for level in iter(int, 1)),
    ],
)
def test_levels_that_cannot_hold_are_refused(levels):
    with pytest.raises((SchemaError, ArgumentError), match="level"):
        Categorical(levels)


def test_levels_are_kept_as_texts_with_the_reference_first():
    column = Categorical([2, np.int64(1), True, np.str_("a"), " a", "é", "e\u0301"])
    assert column.levels == ("2", "1", "True", "a", " a", "é", "e\u0301")
    assert column.other == "2"
    assert all(type(level) is str for level in column.levels)
    assert Categorical(np.array(["x", "y"]), other="y").other == "y"
    assert len(Categorical([str(level) for level in range(1000)]).levels) == 1000


@pytest.mark.parametrize("other", ["c", "A", 1])
def test_other_is_one_of_the_levels(other):
    with pytest.raises(SchemaError, match="other"):
        Categorical(["a", "b"], other=other)


@pytest.mark.parametrize("column", EXAMPLES, ids=repr)
def test_plain_data_round_trip(column):
    entry = column.to_dict()
    assert entry["kind"] == column.kind
    assert Column.from_dict(entry) == column
    assert hash(Column.from_dict(entry)) == hash(column)


def test_every_kind_is_in_the_table_of_kinds():
    assert {column.kind for column in EXAMPLES} == set(KINDS)
    assert all(type(column) is KINDS[column.kind] for column in EXAMPLES)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({}, "kind must be one of"),
        ({"kind": "ordinal"}, "kind must be one of"),
        ({"kind": ["binary"]}, "kind must be one of"),
        ("binary", "declared by entries"),
        ({"kind": "binary", "levels": ["a", "b"]}, "levels"),
        ({"kind": "binary", "mising": 0}, "mising"),
        ({"kind": "binary", 3: 0}, "binary"),
        ({"kind": "continuous", "lower": 0}, "upper"),
        ({"kind": "continuous", "lower": 0, "upper": "1"}, "upper"),
        ({"kind": "continuous", "lower": 3, "upper": 1}, "lower"),
        ({"kind": "categorical"}, "levels"),
        ({"kind": "categorical", "levels": [True, False]}, "quotes"),
        ({"kind": "categorical", "levels": [1, 2]}, "quotes"),
        ({"kind": "categorical", "levels": "ab"}, "quotes"),
        ({"kind": "weight", "max": 1, "lower": 0}, "lower"),
    ],
)
def test_plain_data_that_declares_no_column_is_refused(entry, reason):
    with pytest.raises(HdpError, match=reason):
        Column.from_dict(entry)


@pytest.mark.parametrize("column", EXAMPLES, ids=repr)
def test_columns_are_immutable_values(column):
    for field in fields(column):
        with pytest.raises(FrozenInstanceError):
            setattr(column, field.name, 3)
    assert not hasattr(column, "__dict__")
    assert copy.deepcopy(column) == column


def test_kinds_with_the_same_bounds_are_different_columns():
    assert Continuous(-2, 2) != Offset(-2, 2)


def test_admit_of_each_kind():
    cells = pd.Series([1, 0, "1", 0.5, 7, -7, None, "x", math.inf, -math.inf], dtype=object)
    assert Continuous(0, 5).admit(cells).tolist() == [1, 0, 1, 0.5, 5, 0, 2.5, 2.5, 5, 0]
    assert Binary().admit(cells).tolist() == [1, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    assert Binary(missing=1).admit(cells).tolist() == [1, 0, 1, 0, 0, 0, 1, 1, 0, 0]
    assert Duration(5).admit(cells).tolist() == [1, 0, 1, 0.5, 5, 0, 5, 5, 5, 0]
    assert Weight(5).admit(cells).tolist() == [1, 0, 1, 0.5, 5, 0, 1, 1, 5, 0]
    assert Offset(-2, 2).admit(cells).tolist() == [1, 0, 1, 0.5, 2, -2, 0, 0, 2, -2]
    assert Categorical(["0", "1", "x"], other="1").admit(cells).tolist() == [1, 0, 1, 1, 1, 1, 1, 2, 1, 1]


HOSTILE_TIMES = [
    (-3, 0.0, False),
    (-math.inf, 0.0, False),
    (-0.0, 0.0, False),
    (0, 0.0, False),
    (5e-324, 5e-324, False),
    (Decimal("2.5"), 2.5, False),
    ("2.5", 2.5, False),
    (" 5 ", 5.0, False),
    (5, 5.0, False),
    (math.nextafter(5.0, 6.0), 5.0, True),
    ("5.1", 5.0, True),
    ("1e400", 5.0, True),
    (Decimal("1e999999"), 5.0, True),
    (10**400, 5.0, True),
    (math.inf, 5.0, True),
    (math.nan, 4.0, False),
    (None, 4.0, False),
    (pd.NaT, 4.0, False),
    ("", 4.0, False),
    ("soon", 4.0, False),
    (pd.Timestamp("2020-01-01"), 4.0, False),
    (pd.Timedelta(days=9), 4.0, False),
    (np.datetime64("2020"), 4.0, False),
    (1j, 4.0, False),
    ([9.0], 4.0, False),
    (True, 1.0, False),
]


def test_times_of_every_sort_are_a_time_up_to_the_horizon_and_whether_it_was_beyond():
    column = Duration(5, missing=4)
    cells = pd.Series([cell for cell, _, _ in HOSTILE_TIMES], dtype=object)
    assert column.admit(cells).tolist() == [admitted for _, admitted, _ in HOSTILE_TIMES]
    assert column.beyond(cells).tolist() == [beyond for _, _, beyond in HOSTILE_TIMES]
    for cell, _, beyond in HOSTILE_TIMES:
        alone = np.empty(1, dtype=object)
        alone[0] = cell
        assert column.beyond(pd.Series(alone, dtype=object)).tolist() == [beyond]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (pd.Series([4, 5, 6]), [False, False, True]),
        (pd.Series([4, None, 6], dtype="Int64"), [False, False, True]),
        (pd.Series([4.0, None, 6.0]).astype("float64[pyarrow]"), [False, False, True]),
        (pd.Series([4.0, math.nan, math.inf]), [False, False, True]),
        (pd.Series(["4", "6", None], dtype="string"), [False, True, False]),
        (pd.Series(pd.to_timedelta([1, 9], unit="D")), [False, False]),
        (pd.Series([], dtype=float), []),
    ],
)
def test_beyond_is_read_from_typed_columns_too(cells, expected):
    found = Duration(5).beyond(cells)
    assert (found.dtype, found.tolist()) == (np.bool_, expected)
