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
    Continuous,
    Duration,
    NumericColumn,
    Offset,
    Weight,
    column_of,
)

EXAMPLES = [
    Continuous(20, 90),
    Continuous(0, 40, missing=1),
    Continuous(0, 40, complete=True),
    Binary(),
    Binary(missing=1),
    Binary(labels=("no", "yes"), complete=True),
    Categorical(["<=20", "20-50", ">50"]),
    Categorical(["a", "b"], other="b"),
    Categorical(["a", "b"], missing_level="unknown"),
    Categorical(["a", "b"], other="a", missing_level="b"),
    Categorical(["a", "b"], complete=True),
    Duration(horizon=2557, unit="days"),
    Duration(2557),
    Duration(2557, missing=0),
    Weight(max=5),
    Offset(-2, 2),
]


@pytest.mark.parametrize(
    ("column", "lower", "upper", "missing"),
    [
        (Continuous(20, 90), 20.0, 90.0, None),
        (Continuous(0, 40, missing=1), 0.0, 40.0, 1.0),
        (Continuous(Decimal("0.1"), Fraction(1, 2), missing=np.int8(0) + 0.25), 0.1, 0.5, 0.25),
        (Binary(), 0.0, 1.0, None),
        (Binary(missing=1), 0.0, 1.0, 1.0),
        (Duration(horizon=2557, unit="days"), 0.0, 2557.0, None),
        (Duration(2557, missing=0), 0.0, 2557.0, 0.0),
        (Weight(max=5), 0.0, 5.0, None),
        (Weight(5, missing=0), 0.0, 5.0, 0.0),
        (Offset(-2, 2), -2.0, 2.0, None),
        (Offset(-2, 2, missing=1), -2.0, 2.0, 1.0),
    ],
)
def test_numeric_columns_state_their_bounds_and_missing_value(column, lower, upper, missing):
    assert isinstance(column, NumericColumn)
    assert (column.lower, column.upper, column.missing) == (lower, upper, missing)
    assert [type(value) for value in (column.lower, column.upper)] == [float] * 2
    assert missing is None or type(column.missing) is float
    assert column.leaves_out == (missing is None)


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
    assert column.other is None
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
    assert column_of(entry) == column
    assert hash(column_of(entry)) == hash(column)


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
        column_of(entry)


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
    assert Continuous(0, 5, missing=2).admit(cells).values.tolist() == [1, 0, 1, 0.5, 5, 0, 2, 2, 5, 0]
    assert Binary(missing=0).admit(cells).values.tolist() == [1, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    assert Binary(missing=1).admit(cells).values.tolist() == [1, 0, 1, 1, 1, 1, 1, 1, 1, 1]
    assert Duration(5, missing=4).admit(cells).values.tolist() == [1, 0, 1, 0.5, 5, 0, 4, 4, 5, 0]
    assert Weight(5, missing=1).admit(cells).values.tolist() == [1, 0, 1, 0.5, 5, 0, 1, 1, 5, 0]
    assert Offset(-2, 2, missing=0).admit(cells).values.tolist() == [1, 0, 1, 0.5, 2, -2, 0, 0, 2, -2]
    column = Categorical(["0", "1", "x"], other="1", missing_level="0")
    assert column.admit(cells).values.tolist() == [1, 0, 1, 1, 1, 1, 0, 2, 0, 0]


ODD = [1, 0, True, False, "1", "0", "True", "no", "No", "no ", "yes", 2, 0.5, -1, None, math.nan, "", " ", "x", pd.NaT]
"""Cells of a column that is 0 and 1, or no and yes, up to mistakes."""


def present(column, cells=ODD):
    """Return the cells that count, with the values that they are counted by."""
    found = column.admit(pd.Series(cells, dtype=object))
    assert found.values.shape == found.missing.shape == (len(cells),)
    kept = zip(cells, found.values.tolist(), found.missing.tolist(), strict=True)
    return [(cell, value) for cell, value, missing in kept if not missing]


@pytest.mark.parametrize("complete", [True, False])
def test_a_binary_column_is_0_and_1_and_nothing_else(complete):
    assert present(Binary(complete=complete)) == [
        (1, 1.0), (0, 0.0), (True, 1.0), (False, 0.0), ("1", 1.0), ("0", 0.0), ("True", 1.0)
    ]  # fmt: skip
    labelled = Binary(labels=("no", "yes"), complete=complete)
    assert present(labelled) == [("no", 0.0), ("yes", 1.0)]
    assert present(Binary(labels=(1, 2), complete=complete)) == [(1, 0.0), ("1", 0.0), (2, 1.0)]


def test_labels_that_are_numbers_read_numbers_whatever_the_type_of_the_column():
    column = Binary(labels=("1", "2"))
    for dtype in ("int64", "float64", "Int64", "object", "category"):
        found = column.admit(pd.Series([1, 2, 0], dtype=dtype))
        assert (found.values.tolist(), found.missing.tolist()) == ([0.0, 1.0, 0.0], [False, False, True])


def test_an_undeclared_label_is_missing_unless_other_takes_it():
    cells = ["a", "A", "b ", None, "", "  ", math.nan, pd.NaT, 3]
    assert present(Categorical(["a", "b"]), cells) == [("a", 0)]
    assert present(Categorical(["a", "b"], other="b"), cells) == [("a", 0), ("A", 1), ("b ", 1), (3, 1)]
    added = Categorical(["a", "b"], missing_level="unknown")
    assert added.levels == ("a", "b", "unknown")
    assert [value for _, value in present(added, cells)] == [0, 2, 2, 2, 2, 2]
    both = Categorical(["a", "b"], other="b", missing_level="unknown")
    assert [value for _, value in present(both, cells)] == [0, 1, 1, 2, 2, 2, 2, 2, 1]
    assert (added.leaves_out, both.leaves_out) == (True, False)


def test_a_blank_text_that_is_declared_is_a_level():
    assert present(Categorical(["a", " "]), ["a", " ", ""]) == [("a", 0), (" ", 1)]


@pytest.mark.parametrize(
    ("kind", "arguments"), [(Continuous, (0, 9)), (Duration, (9,)), (Weight, (9,)), (Offset, (0, 9))]
)
def test_what_holds_no_number_is_missing_and_its_value_lies_within_the_bounds(kind, arguments):
    cells = [3, "4", None, math.nan, "", "x", "3,5", pd.Timestamp("2020-01-01"), np.datetime64("2020"), [3.0]]
    for declared in ({}, {"complete": True}):
        column = kind(*arguments, **declared)
        assert present(column, cells) == [(3, 3.0), ("4", 4.0)]
        assert set(column.admit(pd.Series(cells, dtype=object)).values[2:].tolist()) == {0.0}
        assert column.leaves_out == (not declared)
    assert len(present(kind(*arguments, missing=2), cells)) == len(cells)


def test_a_column_is_declared_complete_or_filled_not_both():
    for declare in (lambda: Binary(missing=0, complete=True), lambda: Continuous(0, 1, missing=0, complete=True)):
        with pytest.raises(SchemaError, match="give one of them"):
            declare()
    with pytest.raises(SchemaError, match="give one of them"):
        Categorical(["a", "b"], missing_level="b", complete=True)
    with pytest.raises(ArgumentError, match="complete must be True or False"):
        Binary(complete="yes")


@pytest.mark.parametrize("labels", ["ab", ("a",), ("a", "a"), ("a", "b", "c"), ("a", None), 3, ("", "b")])
def test_labels_are_two_different_texts(labels):
    with pytest.raises((SchemaError, ArgumentError), match=r"labels|level"):
        Binary(labels=labels)


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
    assert column.admit(cells).values.tolist() == [admitted for _, admitted, _ in HOSTILE_TIMES]
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
