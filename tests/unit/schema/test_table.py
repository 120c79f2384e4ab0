"""Rows 20-25, 56, 59 and 60 of the attack list: the private table as a whole."""

import copy
import logging
import math
import pickle

import numpy as np
import pandas as pd
import pytest

from hdpstats._base.errors import ArgumentError, SchemaError
from hdpstats.schema import cell_maps
from hdpstats.schema.columns import Binary, Categorical, Continuous, Duration
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import PrivateTable, marks_key

SCHEMA = Schema({"age": Continuous(20, 90), "tumour size": Categorical(["<=20", ">20"]), "event": Binary()})
CANARY = 61.0625


def frame():
    return pd.DataFrame(
        {
            "hospital": ["A", "B", "A"],
            "age": [35.0, CANARY, math.nan],
            "tumour size": [">20", "unknown", None],
            "event": [1, 0, 2],
        }
    )


def admitted_values(table):
    rows = table.admit(SCHEMA)
    return {name: values.tolist() for name, values in {**rows.numeric, **rows.codes}.items()}


EXPECTED = {"age": [35.0, CANARY, 20.0], "event": [1.0, 0.0, 0.0], "tumour size": [1, 0, 0]}


def test_named_columns_are_admitted():
    table = PrivateTable.from_frame(frame(), SCHEMA)
    assert admitted_values(table) == EXPECTED
    assert table.rows == 3
    assert table.schema is SCHEMA
    some = table.admit(iter(["event", "event"]))
    assert (list(some.numeric), list(some.codes), some.rows) == (["event"], [], 3)
    assert table.admit([]).rows == 3


def test_a_row_is_complete_in_the_columns_that_are_read():
    table = PrivateTable.from_frame(frame(), SCHEMA)
    assert {name: cells.tolist() for name, cells in table.admit(SCHEMA).missing.items()} == {
        "age": [False, False, True],
        "tumour size": [False, True, True],
        "event": [False, False, True],
    }
    for names, complete in (
        (["age"], [True, True, False]),
        (["age", "tumour size"], [True, False, False]),
        ([], [True, True, True]),
    ):
        assert table.admit(names).complete.tolist() == complete
    with pytest.raises(TypeError):
        table.admit(["age"]).missing["age"] = np.zeros(3, dtype=bool)
    with pytest.raises(ValueError, match="read-only"):
        table.admit(["age"]).missing["age"][:] = False


@pytest.mark.parametrize("private", [None, [[1]], {"age": [1]}, np.eye(3), "rows.csv", pd.Series([1])])
def test_what_is_no_frame_is_refused(private):
    with pytest.raises(ArgumentError, match="private must be a pandas DataFrame"):
        PrivateTable.from_frame(private, SCHEMA)


def test_absent_columns_are_named_and_undeclared_ones_are_not():
    renamed = frame().rename(columns={"age": " AGE ", "event": "died"})
    with pytest.raises(SchemaError, match="lack declared columns: 'age', 'event'") as caught:
        PrivateTable.from_frame(renamed, SCHEMA)
    message = str(caught.value)
    assert "'age' up to case or blanks" in message
    assert not any(word in message for word in ("AGE", "died", "hospital", "tumour"))
    assert caught.value.columns == ("age", "event")


def test_repeated_columns_are_refused_where_they_are_declared():
    twice = pd.concat([frame(), frame()[["event"]]], axis=1)
    with pytest.raises(SchemaError, match="several columns are called 'event'"):
        PrivateTable.from_frame(twice, SCHEMA)
    extra = pd.concat([frame(), frame()[["hospital"]]], axis=1)
    assert admitted_values(PrivateTable.from_frame(extra, SCHEMA)) == EXPECTED


@pytest.mark.parametrize(
    "labels", [[0, 1, 2, 3], pd.MultiIndex.from_product([["age", "event"], ["x", "y"]]), [None, 1.5, (1,), b"age"]]
)
def test_labels_that_are_no_text_are_no_declared_columns(labels):
    other = frame()
    other.columns = labels
    with pytest.raises(SchemaError, match="lack declared columns: 'age', 'tumour size', 'event'"):
        PrivateTable.from_frame(other, SCHEMA)


def test_undeclared_names_are_refused():
    table = PrivateTable.from_frame(frame(), SCHEMA)
    with pytest.raises(SchemaError, match="not declared: 'hospital'; the schema declares age, tumour size, event"):
        table.admit(["age", "hospital"])


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows_are_no_error(rows):
    table = PrivateTable.from_frame(frame().iloc[:rows], SCHEMA)
    assert table.rows == rows
    assert admitted_values(table) == {name: values[:rows] for name, values in EXPECTED.items()}


def test_the_index_and_attributes_are_left_behind():
    indexed = frame().set_index(pd.DatetimeIndex(["2020-01-01"] * 3))
    indexed.attrs["note"] = object()
    table = PrivateTable.from_frame(indexed, SCHEMA)
    assert admitted_values(table) == EXPECTED
    for cells in table._cells.values():
        assert isinstance(cells.index, pd.RangeIndex)
        assert (cells.attrs, cells.name) == ({}, None)


@pytest.mark.parametrize("name", ["object", "string", "category", "str"])
def test_the_copy_keeps_types(name):
    cells = pd.Series([">20", "<=20", None], dtype=name)
    table = PrivateTable.from_frame(
        pd.DataFrame({"tumour size": cells}), Schema({"tumour size": SCHEMA["tumour size"]})
    )
    assert table._cells["tumour size"].dtype == cells.dtype


def test_later_changes_of_the_frame_change_nothing():
    changing = frame()
    table = PrivateTable.from_frame(changing, SCHEMA)
    changing.loc[:, "age"] = 20.0
    changing["event"] = 1
    changing["tumour size"] = ">20"
    assert admitted_values(table) == EXPECTED


def test_changes_of_an_array_behind_the_frame_change_nothing():
    values = np.array([30.0, 40.0])
    table = PrivateTable.from_frame(pd.DataFrame({"age": values}, copy=False), Schema(age=Continuous(20, 90)))
    values[:] = 90.0
    assert table.admit(["age"]).numeric["age"].tolist() == [30.0, 40.0]
    with pytest.raises(ValueError, match="read-only"):
        table.admit(["age"]).numeric["age"][:] = 0.0
    assert table.admit(["age"]).numeric["age"].tolist() == [30.0, 40.0]


def test_the_frame_is_left_as_it_was():
    given = frame()
    before = pd.util.hash_pandas_object(given).tolist()
    admitted_values(PrivateTable.from_frame(given, SCHEMA))
    assert pd.util.hash_pandas_object(given).tolist() == before
    assert list(given) == list(frame())


class Meddling(pd.DataFrame):
    """A frame whose own ways of reading a column raise."""

    def __getitem__(self, key):
        raise RuntimeError("the frame's own method was called")

    @property
    def _constructor_sliced(self):
        raise RuntimeError("the frame's own method was called")


def test_methods_of_a_subclass_are_not_called():
    assert admitted_values(PrivateTable.from_frame(Meddling(frame()), SCHEMA)) == EXPECTED


@pytest.mark.parametrize(
    "leave",
    [
        copy.copy,
        copy.deepcopy,
        lambda table: table.__getstate__(),
        lambda table: table.__reduce__(),
        *(lambda table, protocol=protocol: pickle.dumps(table, protocol) for protocol in range(6)),
    ],
)
def test_a_private_table_does_not_travel(leave):
    table = PrivateTable.from_frame(frame(), SCHEMA)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        leave(table)


def test_nothing_of_the_rows_is_shown(capsys, caplog):
    with caplog.at_level(logging.DEBUG):
        table = PrivateTable.from_frame(frame(), SCHEMA)
        rows = table.admit(SCHEMA)
    assert repr(table) == str(table) == f"{table}" == "<private table: 3 declared columns>"
    assert repr(rows) == "<admitted table: 2 numeric and 1 categorical columns>"
    assert not hasattr(table, "__dict__")
    assert (capsys.readouterr(), caplog.records) == (("", ""), [])


def test_admitted_tables_are_frozen():
    rows = PrivateTable.from_frame(frame(), SCHEMA).admit(SCHEMA)
    with pytest.raises(AttributeError):
        rows.rows = 4
    with pytest.raises(TypeError):
        rows.numeric["age"] = rows.numeric["event"]


def test_one_cell_cannot_be_told_from_the_outside():
    """Replacing one record by any other changes no message, type or shape of what is returned."""
    odd_cells = [None, "x", math.inf, 10**400, b"x", [1], 1j, pd.Timestamp("2020-01-01"), pd.NA, {"a": 1}]
    for odd in odd_cells:
        neighbour = frame().astype(object)
        for name in SCHEMA:
            neighbour.at[1, name] = odd
        table = PrivateTable.from_frame(neighbour, SCHEMA)
        found = admitted_values(table)
        assert repr(table) == "<private table: 3 declared columns>"
        assert table.rows == 3
        for name, values in found.items():
            assert [values[0], values[2]] == [EXPECTED[name][0], EXPECTED[name][2]]


TIMES = Schema(time=Duration(10), entry=Duration(20, missing=0), event=Binary())


def long_form():
    return pd.DataFrame(
        {
            "patient": ["b", "a", None, "a", "c"],
            "time": [5.0, 11.0, 12.0, math.inf, math.nan],
            "entry": [11.0, 21.0, math.nan, -1.0, 0.0],
            "event": [1, 1, 0, 2, 1],
        }
    )


def test_a_table_says_what_was_beyond_the_horizon():
    rows = PrivateTable.from_frame(long_form(), TIMES).admit(["time", "event"])
    assert rows.numeric["time"].tolist() == [5.0, 10.0, 10.0, 10.0, 0.0]
    assert rows.missing["time"].tolist() == [False, False, False, False, True]
    assert {name: cells.tolist() for name, cells in rows.beyond.items()} == {"time": [False, True, True, True, False]}
    with pytest.raises(TypeError):
        rows.beyond["time"] = rows.beyond["time"]
    both = PrivateTable.from_frame(long_form(), TIMES).admit(TIMES).beyond
    assert both["entry"].tolist() == [False, True, False, False, False]


def test_a_table_says_whose_rows_are_whose():
    assert PrivateTable.from_frame(long_form(), TIMES).admit(TIMES).persons is None
    table = PrivateTable.from_frame(long_form(), TIMES, unit="patient")
    assert table.admit([]).persons.tolist() == [0, 1, -1, 1, 2]
    assert repr(table) == "<private table: 3 declared columns>"
    declared = Schema({**TIMES, "patient": Categorical(["a", "b"])})
    rows = PrivateTable.from_frame(long_form(), declared, unit="patient").admit(declared)
    assert rows.persons.tolist() == [0, 1, -1, 1, 2]
    assert rows.codes["patient"].tolist() == [1, 0, 0, 0, 0]


def test_a_table_keeps_its_own_copy_of_who_is_who():
    changing = long_form()
    table = PrivateTable.from_frame(changing, TIMES, unit="patient")
    changing["patient"] = "z"
    changing.loc[:, "patient"] = "y"
    assert table.admit([]).persons.tolist() == [0, 1, -1, 1, 2]


def test_the_column_that_names_the_person_is_there_once():
    with pytest.raises(SchemaError, match=r"private rows lack the column 'id' that names the person"):
        PrivateTable.from_frame(long_form(), TIMES, unit="id")
    twice = pd.concat([long_form(), long_form()[["patient"]]], axis=1)
    with pytest.raises(SchemaError, match="several columns are called 'patient'"):
        PrivateTable.from_frame(twice, TIMES, unit="patient")
    assert PrivateTable.from_frame(twice, TIMES).rows == 5


@pytest.mark.parametrize("odd", [None, "x", 10**400, "1" * 1000], ids=["none", "text", "huge", "long"])
def test_after_all_columns_were_read_no_answer_reads_a_cell_again(monkeypatch, odd):
    """An odd cell makes a column one of objects, which take far longer: before the first answer, not in it."""
    schema = Schema(x=Continuous(0, 9), g=Categorical(["a", "b"]), t=Duration(5))
    cells = {"x": [odd, 1.0], "g": [odd, "b"], "t": [odd, 9.0], "who": [odd, "me"]}
    frame = pd.DataFrame({name: pd.Series(each, dtype=object) for name, each in cells.items()})
    key = marks_key(schema.sha256)
    expected = PrivateTable.from_frame(frame, schema, unit="who").admit(schema, key=key)
    table = PrivateTable.from_frame(frame, schema, unit="who")
    read = []
    for name in ("number", "text"):
        plain = getattr(cell_maps, name)
        monkeypatch.setattr(cell_maps, name, lambda cell, plain=plain: read.append(cell) or plain(cell))
    table.read()
    assert read
    read.clear()
    for _ in range(2):
        found = table.admit(["x", "g", "t"])
        for name in ("x", "t"):
            np.testing.assert_array_equal(found.numeric[name], expected.numeric[name])
        np.testing.assert_array_equal(found.codes["g"], expected.codes["g"])
        np.testing.assert_array_equal(found.beyond["t"], expected.beyond["t"])
        np.testing.assert_array_equal(found.persons, expected.persons)
        assert found.marks is None
        np.testing.assert_array_equal(table.admit(["x"], key=key).marks, expected.marks)
    assert read == []
