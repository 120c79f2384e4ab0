import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from hdpstats._base.errors import ArgumentError, SchemaError
from hdpstats.schema.columns import Binary, Categorical, Continuous, Duration
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema

SCHEMA = Schema(age=Continuous(20, 90), grade=Categorical(["1", "2", "3"]), event=Binary())


def frame(**changes):
    columns = {"age": [35.0, 95.0, math.nan, 50.0], "grade": [1, 3, 2, None], "event": [1, 0, 1, 0], "id": list("abcd")}
    return pd.DataFrame({**columns, **changes})


def table(**changes):
    return PublicTable.from_frame(frame(**changes), SCHEMA)


def test_rows_that_are_incomplete_in_the_named_columns_are_dropped():
    public = table()
    assert public.rows == 4
    raw, admitted = public.raw(["age", "event"]), public.admitted(["age", "event"])
    assert raw.rows == admitted.rows == 3
    assert raw.numeric["age"].tolist() == [35.0, 95.0, 50.0]
    assert admitted.numeric["age"].tolist() == [35.0, 90.0, 50.0]
    assert raw.numeric["event"].tolist() == admitted.numeric["event"].tolist() == [1.0, 0.0, 0.0]
    everything = public.admitted(SCHEMA)
    assert everything.rows == 2
    assert everything.codes["grade"].tolist() == [0, 2]
    assert public.admitted(["event"]).rows == 4
    assert public.raw([]).rows == 4


def test_numbers_in_text_and_exact_numbers_are_numbers():
    public = table(age=pd.Series(["35", " 4.5 ", Decimal("50"), None], dtype=object))
    assert public.raw(["age"]).numeric["age"].tolist() == [35.0, 4.5, 50.0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"grade": ["1", "4", "2", None]}, r"'grade', row 1: '4' is not a declared level.*'1', '2', '3'"),
        ({"grade": ["1", "", "2", None]}, r"'grade', row 1: '' is not a declared level"),
        ({"grade": pd.Series([["1"], "1", "2", None], dtype=object)}, r"'grade', row 0: \['1'\]"),
        ({"age": ["35", "old", "36", None]}, r"'age', row 1: 'old' is no number"),
        ({"age": ["35", "", "36", None]}, r"'age', row 1: '' is no number"),
        ({"age": ["35", "x" * 200, "36", None]}, r"'age', row 1: 'x{50,56}\.\.\. is no number"),
        ({"age": pd.date_range("2020-01-01", periods=4)}, r"'age', row 0: Timestamp"),
        ({"age": [1j, 2j, 3j, 4j]}, r"'age', row 0:.* is no number"),
        ({"age": [35.0, math.inf, 36.0, math.nan]}, r"'age', row 1: .*inf.* is infinite"),
        ({"event": [0, 1, 2, 0]}, r"'event', row 2: .*2.* is neither 0 nor 1"),
        ({"event": [0.0, math.nan, 1.0, 0.5]}, r"'event', row 3: .*0.5.* is neither 0 nor 1"),
    ],
)
def test_what_the_schema_does_not_allow_is_named(changes, reason):
    with pytest.raises(SchemaError, match=f"public column {reason}"):
        table(**changes)


def test_absent_columns():
    incomplete = frame().drop(columns="event")
    with pytest.raises(SchemaError, match=r"public rows lack columns: 'event'"):
        PublicTable.from_frame(incomplete, SCHEMA)
    public = PublicTable.from_frame(incomplete, SCHEMA, required=["age", "grade"])
    assert public.names == ("age", "grade")
    assert public.admitted(["age"]).rows == 3
    with pytest.raises(SchemaError, match="public rows lack columns: 'event'"):
        public.raw(["event"])
    with pytest.raises(SchemaError, match=r"'event' \(is it 'Event'\?\)"):
        PublicTable.from_frame(frame().rename(columns={"event": "Event"}), SCHEMA)
    with pytest.raises(SchemaError, match="not declared: 'id'"):
        PublicTable.from_frame(frame(), SCHEMA, required=["id"])
    with pytest.raises(SchemaError, match="not declared: 'id'"):
        table().raw(["id"])


def test_frames_that_cannot_be_read_are_refused():
    for public in (None, [[1]], {"age": [1]}, np.eye(2)):
        with pytest.raises(ArgumentError, match="public must be a pandas DataFrame"):
            PublicTable.from_frame(public, SCHEMA)
    twice = pd.concat([frame(), frame()[["age"]]], axis=1)
    with pytest.raises(SchemaError, match="several columns are called 'age'"):
        PublicTable.from_frame(twice, SCHEMA)


def test_no_rows_are_no_error():
    public = PublicTable.from_frame(frame().iloc[:0], SCHEMA)
    assert public.rows == public.admitted(SCHEMA).rows == 0


def test_the_hash_names_values_and_their_order():
    expected = table().sha256
    assert len(expected) == 64
    same = [
        frame(event=[1.0, 0.0, 1.0, 0.0]),
        frame(event=pd.Series([True, False, True, False])),
        frame(event=pd.Series([1, 0, 1, 0], dtype="Int8")),
        frame(event=["1", "0", "1", "0"]),
        frame(age=pd.Series([35, 95, None, 50], dtype="Int64")),
        frame(grade=["1", "3", "2", None]),
        frame(grade=pd.Categorical(["1", "3", "2", None], categories=["3", "2", "1", "unused"])),
        frame(id=[0, 0, 0, 0]),
        frame()[["id", "event", "grade", "age"]],
        frame().set_index(pd.Index([3, 3, 3, 3])),
    ]
    assert {PublicTable.from_frame(public, SCHEMA).sha256 for public in same} == {expected}
    different = [
        frame(age=[35.0, 95.0, math.nan, 50.0000001]),
        frame(age=[35.0, 95.0, 0.0, 50.0]),
        frame(grade=["1", "3", "2", "1"]),
        frame(event=[1, 0, 1, 1]),
        frame().iloc[::-1],
        frame().iloc[:3],
    ]
    found = {PublicTable.from_frame(public, SCHEMA).sha256 for public in different}
    assert len(found) == len(different)
    assert expected not in found


def test_the_hash_does_not_depend_on_the_schemas_levels_or_bounds():
    other = Schema(age=Continuous(0, 100), grade=Categorical(["3", "2", "1", "0"]), event=Binary())
    assert PublicTable.from_frame(frame(), other).sha256 == table().sha256
    assert PublicTable.from_frame(frame(age=[-0.0] * 4), SCHEMA).sha256 == table(age=[0.0] * 4).sha256


def test_later_changes_of_the_frame_change_nothing():
    changing = frame()
    public = PublicTable.from_frame(changing, SCHEMA)
    changing["age"] = 20.0
    assert public.raw(["age"]).numeric["age"].tolist() == [35.0, 95.0, 50.0]
    public.raw(["age"]).numeric["age"][:] = 0.0
    assert public.raw(["age"]).numeric["age"].tolist() == [35.0, 95.0, 50.0]


def test_text_of_a_public_table():
    assert repr(table()) == "<public table: 3 declared columns, 4 rows>"


def test_the_hash_holds_the_names_of_the_columns():
    schema = Schema(a=Continuous(0, 9), b=Continuous(0, 9), c=Continuous(0, 9))
    frames = [
        pd.DataFrame({"a": [1, 2]}),
        pd.DataFrame({"b": [1, 2]}),
        pd.DataFrame({"a": [1, 2], "b": [3, 4]}),
        pd.DataFrame({"a": [1, 2], "c": [3, 4]}),
        pd.DataFrame({"a": [3, 4], "b": [1, 2]}),
        pd.DataFrame({"a": [1, 2, 3, 4]}),
    ]
    assert len({PublicTable.from_frame(public, schema, required=[]).sha256 for public in frames}) == len(frames)


LONG = Schema(time=Duration(10), event=Binary())


def long_form(**changes):
    columns = {"id": [7, 3, 7, 5], "time": [5.0, math.nan, 12.0, 10.0], "event": [0, 1, 1, 1]}
    return pd.DataFrame({**columns, **changes})


def test_public_times_are_kept_and_marked_beyond_the_horizon():
    public = PublicTable.from_frame(long_form(), LONG)
    for rows, times in ((public.raw(LONG), [5.0, 12.0, 10.0]), (public.admitted(LONG), [5.0, 10.0, 10.0])):
        assert rows.numeric["time"].tolist() == times
        assert {name: cells.tolist() for name, cells in rows.beyond.items()} == {"time": [False, True, False]}
        assert rows.persons is None
    assert dict(public.raw(["event"]).beyond) == {}


def test_public_people_are_numbered_in_the_rows_that_are_left():
    public = PublicTable.from_frame(long_form(), LONG, unit="id")
    assert public.raw(["event"]).persons.tolist() == [0, 1, 0, 2]
    assert public.raw(LONG).persons.tolist() == public.admitted(LONG).persons.tolist() == [0, 0, 1]
    without = PublicTable.from_frame(long_form().drop(columns="id"), LONG, unit="id")
    assert without.raw(LONG).persons is None


LARGE = [12345678901234567, 12345678901234568, 12345678901234567, 12345678901234569]


@pytest.mark.parametrize("cells", [LARGE, [*LARGE[:3], None]])
def test_public_ids_and_levels_that_one_missing_cell_would_merge_are_an_error(cells):
    remedy = r"row 0: .* is a whole number of 2\^53 or more, .* read the column from its source as text or as 'Int64'"
    with pytest.raises(SchemaError, match=f"public column 'id', {remedy}"):
        PublicTable.from_frame(long_form(id=pd.Series(cells)), LONG, unit="id")
    schema = Schema(code=Categorical([str(each) for each in sorted(set(LARGE))]))
    with pytest.raises(SchemaError, match=f"public column 'code', {remedy}"):
        PublicTable.from_frame(pd.DataFrame({"code": pd.Series(cells)}), schema)
    kept = pd.DataFrame({"code": pd.array(LARGE, dtype="Int64")})
    assert PublicTable.from_frame(kept, schema).codes["code"].tolist() == [0, 1, 0, 2]
    assert PublicTable.from_frame(long_form(id=kept["code"]), LONG, unit="id").persons.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize("nobody", [None, math.nan, " ", pd.Timestamp("2020-01-01"), 10**400])
def test_public_rows_that_name_nobody_are_an_error(nobody):
    cells = pd.Series([7, nobody, 7, 5], dtype=object)
    with pytest.raises(SchemaError, match=r"public column 'id', row 1: .* names no person; .* leave the column 'id'"):
        PublicTable.from_frame(long_form(id=cells), LONG, unit="id")
    assert PublicTable.from_frame(long_form(id=cells), LONG).rows == 4
    twice = pd.concat([long_form(), long_form()[["id"]]], axis=1)
    with pytest.raises(SchemaError, match="several columns are called 'id'"):
        PublicTable.from_frame(twice, LONG, unit="id")


def test_the_hash_knows_who_is_who_and_no_name():
    def sha256(cells, unit="id"):
        return PublicTable.from_frame(long_form(id=cells), LONG, unit=unit).sha256

    assert sha256([7, 3, 7, 5]) == sha256(["x", "b", "x", "a"]) == sha256([1.0, 2.0, 1.0, 0.0])
    found = {sha256([7, 3, 7, 5]), sha256([7, 3, 5, 7]), sha256([7, 3, 1, 5]), sha256([7, 3, 7, 5], None)}
    assert len(found) == 4
    assert sha256([7, 3, 7, 5], None) == PublicTable.from_frame(long_form().drop(columns="id"), LONG, unit="id").sha256


CODED = Schema(
    sex=Categorical(["F", "M"], missing_level="unknown"),
    dead=Binary(labels=("no", "yes")),
    age=Continuous(0, 9, missing=1),
)


def coded_frame(**changes):
    columns = {"sex": ["M", None, " "], "dead": ["yes", "no", None], "age": [3.0, math.nan, 5.0]}
    return pd.DataFrame({**columns, **changes})


def test_labels_that_are_not_declared_take_the_level_that_other_names():
    schema = Schema(grade=Categorical(["1", "2", "rest"], other="rest"))
    public = PublicTable.from_frame(pd.DataFrame({"grade": ["1", "4", None, "2", "rest"]}), schema)
    assert public.codes["grade"].tolist() == [0, 2, -1, 1, 2]
    admitted = schema["grade"].admit(pd.Series(["1", "4", None, "2", "rest"]))
    assert np.where(admitted.missing, -1, admitted.values).tolist() == public.codes["grade"].tolist()


def test_public_cells_take_the_declared_level_but_no_declared_number():
    public = PublicTable.from_frame(coded_frame(), CODED)
    assert public.codes["sex"].tolist() == [1, 2, 2]
    assert public.numbers["dead"].tolist()[:2] == [1.0, 0.0]
    assert public.complete(CODED).tolist() == [True, False, False]
    assert public.admitted(["sex", "dead"]).numeric["dead"].tolist() == [1.0, 0.0]
    again = PublicTable.from_frame(public.frame(), CODED)
    assert again.sha256 == public.sha256


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"dead": ["Yes", "no", "no"]}, "neither 'no' nor 'yes'"), ({"sex": ["f", "M", "M"]}, "not a declared level")],
)
def test_public_labels_are_the_declared_ones(changes, reason):
    with pytest.raises(SchemaError, match=reason):
        PublicTable.from_frame(coded_frame(**changes), CODED)
