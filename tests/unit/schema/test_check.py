"""The custodian's check names what a file has that its schema does not expect, and says what to do."""

import copy
import datetime
import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.schema.check as check_module

ROWS = 60
SCHEMA = hdp.Schema(
    age=hdp.Continuous(20, 90),
    sex=hdp.Binary(labels=("female", "male")),
    event=hdp.Binary(),
    arm=hdp.Categorical(["Placebo", "Drug"]),
    bmi=hdp.Continuous(10, 60),
    older=hdp.Continuous(18, 110),
    time=hdp.Duration(2000, unit="days"),
)


def right(**other):
    """Return rows that are as declared, but for the columns that are given."""
    rng = np.random.default_rng(0)
    columns = {
        "age": rng.integers(20, 91, ROWS),
        "sex": rng.choice(["female", "male"], ROWS),
        "event": rng.integers(0, 2, ROWS),
        "arm": rng.choice(["Placebo", "Drug"], ROWS),
        "bmi": rng.uniform(15, 45, ROWS).round(1),
        "older": np.arange(ROWS) + 30,
        "time": rng.uniform(0, 3000, ROWS).round(),
    }
    return pd.DataFrame(columns | other)


def days(text):
    return [f"{text}{1 + row % 28:02d}" for row in range(ROWS)]


RIGHT = right()
WRONG = {
    "heights in metres among centimetres": (
        {"bmi": [*np.linspace(15, 45, ROWS - 4), 0.22, 0.25, 0.31, 0.4]},
        {"bmi": ["4 of 60 numbers, such as 0.22, would be like the others if multiplied by 100"]},
    ),
    "99 for a missing age, which the bounds admit": (
        {"older": [*np.linspace(20, 70, ROWS - 5), *[99] * 5]},
        {
            "older": [
                "the number 99 is in 5 cells, apart from all others (the next one is 70)",
                "leave such cells empty",
            ]
        },
    ),
    "an outcome coded 1 and 2": (
        {"event": RIGHT["event"] + 1},
        {"event": ["it is coded 1 and 2, not 0 and 1", 'declare labels=("1", "2")']},
    ),
    "labels in lower case": (
        {"arm": RIGHT["arm"].str.lower()},
        {"arm": ["the label 'drug' (", "'Drug' is, and differs in case: spell it as declared"]},
    ),
    "labels with blanks": (
        {"arm": RIGHT["arm"] + " "},
        {"arm": ["the label 'Placebo ' (", "'Placebo' is, and differs in blanks: spell it as declared"]},
    ),
    "age in months": (
        {"age": RIGHT["age"] * 12},
        {"age": ["lie above the bound 90", "divided by 12", "is it months where years are declared?"]},
    ),
    "height in metres": (
        {"age": RIGHT["age"] / 100},
        {"age": ["lie below the bound 20", "multiplied by 100"]},
    ),
    "a decimal comma": (
        {"bmi": RIGHT["bmi"].map(lambda value: f"{value}".replace(".", ","))},
        {"bmi": ["a decimal comma: load the file with decimal=','"]},
    ),
    "text where 0 and 1 are declared": (
        {"event": np.where(RIGHT["event"] == 1, "M", "F")},
        {"event": ["it is coded 'F' and 'M', not 0 and 1", 'declare labels=("F", "M")']},
    ),
    "other labels of 0 and 1": (
        {"sex": RIGHT["sex"].str.upper()},
        {"sex": ["the label 'MALE' (", "'male' is, and differs in case"]},
    ),
    "dates as text": (
        {"time": days("2021-03-")},
        {"time": ["such as '2021-03-01'", "dates, which are no numbers: store the days since a fixed date"]},
    ),
    "dates in the German form": ({"time": [f"{row % 28 + 1}.3.2021" for row in range(ROWS)]}, {"time": ["dates"]}),
    "dates": (
        {"time": pd.to_datetime(days("2021-03-"))},
        {"time": [f"{ROWS} cells, such as <datetime64", "dates, which are no numbers"]},
    ),
    "dates as objects": (
        {"time": pd.Series([datetime.date(2021, 3, 1)] * ROWS, dtype=object)},
        {"time": [f"{ROWS} cells, such as <date>", "dates, which are no numbers"]},
    ),
    "a number that stands for missing": (
        {"bmi": RIGHT["bmi"].where(RIGHT.index % 6 > 0, 999)},
        {"bmi": ["the number 999 is in 10 cells", "if it stands for missing, leave such cells empty"]},
    ),
    "a word that stands for missing": (
        {"arm": RIGHT["arm"].where(RIGHT.index > 3, "NA"), "bmi": RIGHT["bmi"].astype(str).where(RIGHT.index > 3, ".")},
        {
            "arm": ["4 cells, such as 'NA', hold marks of a missing cell"],
            "bmi": ["such as '.'", "leave such cells empty"],
        },
    ),
    "a level that is not declared": (
        {"arm": RIGHT["arm"].where(RIGHT.index > 1, "Surgery")},
        {"arm": ["1 label that no level declares (2 cells), such as 'Surgery', are read as missing"]},
    ),
    "texts in a column of numbers": ({"bmi": ["high"] * ROWS}, {"bmi": ["such as 'high', hold no number"]}),
    "several codes where 0 and 1 are declared": (
        {"event": RIGHT.index % 3},
        {"event": ["20 cells, such as '2', are neither 0 nor 1"]},
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_file_is_named_in_words_that_say_what_to_do(what):
    columns, expected = WRONG[what]
    found = hdp.check(right(**columns), SCHEMA)
    assert {each.name for each in found.columns if each.advice} == set(expected)
    for column in found.columns:
        words = "; ".join(column.advice)
        assert all(part in words for part in expected.get(column.name, [])), words
    text = " ".join(found.summary().as_text().split())
    assert all(" ".join(each.split()) in text for each in found.advice)


def test_a_code_for_missing_is_not_taken_for_a_number_in_another_unit():
    found = hdp.check(pd.DataFrame({"grade": [1, 2, 3, 2, 2] * 10 + [99] * 5}), hdp.Schema(grade=hdp.Continuous(1, 4)))
    (only,) = found.columns[0].advice
    assert only.startswith("the number 99 is in 5 cells")


def test_heights_in_metres_among_centimetres_are_named():
    heights = [150.0 + place for place in range(30)]
    found = hdp.check(
        pd.DataFrame({" height": [*heights, 1.5, 1.6, 1.7]}), hdp.Schema({" height": hdp.Continuous(120, 220)})
    )
    words = "; ".join(found.columns[0].advice)
    assert "3 of 33 numbers, such as 1.5, would be like the others if multiplied by 100" in words


def test_a_right_file_leaves_nothing_to_say():
    found = hdp.check(RIGHT, SCHEMA)
    assert found.advice == ()
    assert "Every cell that is not empty" in str(found)
    assert found.tidy()[["missing", "unreadable", "below"]].to_numpy().sum() == 0
    assert found.tidy()["above"].gt(0).tolist() == [False] * 6 + [True]  # censored at the horizon


@pytest.mark.parametrize("text", ["01", "1.0"])
def test_the_same_number_in_another_form_is_no_declared_level(text):
    schema = hdp.Schema(stage=hdp.Categorical(["1", "2"]))
    (words,) = hdp.check(pd.DataFrame({"stage": ["2", text]}), schema).advice
    assert f"the label '{text}' (1 cell) is not declared, '1' is, and is the same number" in words


def test_labels_that_differ_in_a_digit_are_not_taken_for_each_other():
    schema = hdp.Schema(stage=hdp.Categorical(["stage 1", "stage 2"]))
    (words,) = hdp.check(pd.DataFrame({"stage": ["stage 3"]}), schema).advice
    assert "1 label that no level declares" in words


def test_undeclared_labels_that_have_a_level_of_their_own_are_named_too():
    schema = hdp.Schema(arm=hdp.Categorical(["Placebo", "Drug"], other="Drug"))
    (words,) = hdp.check(pd.DataFrame({"arm": ["Surgery", "Drug"]}), schema).advice
    assert "take the level 'Drug' (other=)" in words


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        (hdp.Continuous(0, 9, complete=True), [1.0, None, 3.0]),
        (hdp.Binary(complete=True), ["1", "yes", "0"]),
        (hdp.Categorical(["a", "b"], complete=True), ["a", "b", "c"]),
    ],
)
def test_a_column_that_is_declared_complete_and_is_not_is_named(column, cells):
    found = hdp.check(pd.DataFrame({"x": cells}), hdp.Schema(x=column))
    assert any("declared complete=True, and 1 cell hold no value" in words for words in found.advice)
    assert found.columns[0].missing_share == pytest.approx(1 / 3)
    complete = hdp.check(pd.DataFrame({"x": cells[:1]}), hdp.Schema(x=column))
    assert complete.advice == ()


def test_people_are_counted_where_a_column_names_them():
    frame = RIGHT.iloc[:6].assign(pid=[1, "1", 2.0, None, " ", 3])
    found = hdp.check(frame, SCHEMA, unit="pid")
    assert (found.persons.persons, found.persons.repeated) == (3, 1)
    assert (found.persons.most, found.persons.nameless) == (2, 2)
    assert found.undeclared == ()
    assert "3 different people in 'pid', 1 of them with several rows" in " ".join(str(found).split())


IDS = [12345678901234567 + row for row in range(ROWS)]


@pytest.mark.parametrize("ids", [IDS, [*IDS[:-1], None]])
def test_ids_that_one_missing_cell_would_merge_are_named_with_the_remedy(ids):
    found = hdp.check(RIGHT.assign(pid=ids), SCHEMA, unit="pid")
    assert (found.persons.persons, found.persons.too_large) == (0, ROWS - (None in ids))
    (words,) = found.advice
    assert words.startswith(
        f"'pid': {ROWS - (None in ids)} rows hold whole numbers of 2^53 or more in a column that one"
    )
    assert all(each in words for each in ("name nobody", "dtype=str", "cast(id as text)", "too late"))
    assert "read_sql(..., dtype_backend" not in words
    assert "dtype_backend" in str(found)
    for remedied in (pd.array(ids, dtype="Int64"), [None if each is None else str(each) for each in ids]):
        right = hdp.check(RIGHT.assign(pid=remedied), SCHEMA, unit="pid")
        assert (right.persons.persons, right.persons.too_large, right.advice) == (ROWS - (None in ids), 0, ())


def test_levels_that_one_missing_cell_would_merge_are_named_with_the_remedy():
    schema = hdp.Schema(code=hdp.Categorical([str(IDS[0]), "1"]), flag=hdp.Binary(labels=("1", str(IDS[0]))))
    codes = pd.Series([IDS[0], IDS[1], 1])
    found = hdp.check(pd.DataFrame({"code": codes, "flag": codes}), schema)
    assert [words.partition(" hold")[0] for words in found.advice] == ["'code': 2 cells", "'flag': 2 cells"]
    assert all("read as missing" in words and "dtype=str" in words for words in found.advice)
    assert [(each.missing, each.unreadable) for each in found.columns] == [(0, 2)] * 2
    text = hdp.check(pd.DataFrame({"code": codes.astype("Int64"), "flag": codes.astype("Int64")}), schema)
    assert [each.unreadable for each in text.columns] == [1, 1]


@pytest.mark.parametrize(
    "convert", [pd.Series.convert_dtypes, lambda ids: ids.astype("Int64"), lambda ids: ids.map(str)]
)
def test_ids_that_were_floats_before_are_named(convert):
    found = hdp.check(RIGHT.assign(pid=convert(pd.Series([*IDS[:-1], 1.0]))), SCHEMA, unit="pid")
    (words,) = found.advice
    assert found.persons.rounded == found.persons.persons - 1 < ROWS - 1
    assert f"its {found.persons.rounded} different whole numbers of 2^53 or more are all such as floats hold" in words
    few = hdp.check(RIGHT.assign(pid=convert(pd.Series([float(IDS[0])] * ROWS))), SCHEMA, unit="pid")
    assert few.advice == ()


def test_a_name_that_differs_in_blanks_or_case_is_shown_beside_the_declared_one():
    found = hdp.check(right().rename(columns={"age": " Age", "arm": "treatment"}), SCHEMA)
    assert "'age' is declared, and the file has ' Age': spell its name as declared" in found.advice
    assert "'arm' is declared, and the file has no such column: add it, or take it out of the schema" in found.advice


def test_a_study_reminds_of_the_check_until_it_was_run_on_its_rows():
    rows = right()
    with_rows = {"private": rows, "schema": SCHEMA, "budget": hdp.Budget(epsilon=1)}
    assert "Check of rows" in hdp.Study(**with_rows)._repr_html_()
    hdp.check(right(), SCHEMA)
    assert "Check of rows" in hdp.Study(**with_rows)._repr_html_()
    hdp.check(rows, SCHEMA)
    assert "Check of rows" not in hdp.Study(**with_rows)._repr_html_()
    assert "Check of rows" not in hdp.Study(public=rows, schema=SCHEMA)._repr_html_()


def test_files_are_checked_and_a_study_of_them_knows(tmp_path):
    for name, rows in (("a", right()), ("b", right(arm=["drug"] * ROWS))):
        rows.to_parquet(tmp_path / f"{name}.parquet")
    one, two = tmp_path / "a.parquet", tmp_path / "b.parquet"
    for source in (one, str(tmp_path), [one, two]):
        budget = {"schema": SCHEMA, "budget": hdp.Budget(epsilon=1)}
        private = {"hospital": source} if isinstance(source, list) else source
        assert "Check of rows" in hdp.Study(private=private, **budget)._repr_html_()
        found = hdp.check(source, SCHEMA)
        assert found.rows == ROWS * (1 if source == one else 2)
        assert any("'drug'" in words for words in found.advice) == (source != one)
        assert "Check of rows" not in hdp.Study(private=private, **budget)._repr_html_()
        for path, rows in ((one, right()), (two, right(arm=["drug"] * ROWS))):  # written anew: another file
            rows.assign(older=1.0).to_parquet(path)
        assert "Check of rows" in hdp.Study(private=private, **budget)._repr_html_()
    for wrong in ("nowhere.parquet", []):
        with pytest.raises(hdp.ArgumentError, match="frame must name Parquet files"):
            hdp.check(wrong, SCHEMA)
    (tmp_path / "no.parquet").write_text("no Parquet")
    with pytest.raises(hdp.ArgumentError, match="frame is not a Parquet file"):
        hdp.check(tmp_path / "no.parquet", SCHEMA)


def test_columns_that_are_not_there_or_not_declared_are_named():
    found = hdp.check(RIGHT.rename(columns={"age": "years"}), SCHEMA)
    assert (found.absent, found.undeclared) == (("age",), ("years",))
    assert "'age' is declared, and the file has no such column" in found.advice[0]
    assert "years: nothing reads them" in str(found)


class Evil:
    """A cell whose methods raise."""

    def __getattribute__(self, name):
        if name in {"__class__", "__dict__"}:
            return object.__getattribute__(self, name)
        raise RuntimeError(name)


def objects(*cells):
    """Return cells as they are; pandas 2 calls their methods where it is given a list."""
    values = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        values[place] = cell
    return pd.Series(values)


@pytest.mark.parametrize(
    "cells",
    [
        objects(None, b"\xff", 10**400, [1], Evil(), np.float64("nan"), "\ud800", complex(1, 2)),
        pd.Series([Decimal("sNaN"), Decimal("NaN"), Decimal(1), "x", None], dtype=object),
        pd.Series([], dtype=object),
        pd.Series([], dtype="float64"),
        pd.Series(["a", None], dtype="string[pyarrow]"),
        pd.Series([1, None], dtype="Int64"),
        pd.Series([1.0, float("nan"), None], dtype="double[pyarrow]"),
        pd.Series([True, None], dtype="boolean"),
        pd.Series(["Drug", "drug", None], dtype="category"),
        pd.Series([0.0, 1.0], dtype=pd.SparseDtype("float64")),
        pd.Series([pd.Timedelta(1, "D"), None]),
    ],
)
@pytest.mark.parametrize("column", [SCHEMA["age"], SCHEMA["event"], SCHEMA["arm"], SCHEMA["sex"], SCHEMA["time"]])
def test_every_file_can_be_checked(cells, column):
    found = hdp.check(pd.DataFrame({"x": cells}), hdp.Schema(x=column))
    (each,) = found.columns
    admitted = column.admit(cells)
    assert each.rows == len(cells)
    assert each.missing + each.unreadable == admitted.missing.sum()
    assert str(found)
    assert found._repr_html_()
    assert found.summary().as_latex()


def test_an_arrow_nan_is_an_empty_cell():
    frame = pd.DataFrame({"x": pd.Series([1.0, float("nan"), None], dtype="double[pyarrow]")})
    assert hdp.check(frame, hdp.Schema(x=hdp.Continuous(0, 9))).columns[0].missing == 2


def test_spellings_cannot_break_the_page():
    found = hdp.check(pd.DataFrame({"arm": ["<b>Drug</b>"]}), hdp.Schema(arm=SCHEMA["arm"]))
    assert "<b>" not in found._repr_html_()
    assert "<b>" not in found.summary().as_html()


@pytest.mark.parametrize("column", [SCHEMA["arm"], SCHEMA["event"], SCHEMA["age"]])
def test_a_text_in_brackets_is_escaped_as_any_other(column):
    found = hdp.check(pd.DataFrame({"x": ["<\x1b[2Jdate>", "<b>", "<c>"]}), hdp.Schema(x=column))
    assert "'<\\x1b[2Jdate>' (1)" in str(found)
    assert not any("\x1b" in text for text in (str(found), *found.advice, *found.tidy()["spellings"]))
    assert "dates" not in " ".join(found.advice)


def test_advice_is_worked_out_when_it_is_asked_for_and_for_frequent_labels_only(monkeypatch):
    asked = []
    monkeypatch.setattr(check_module, "advice", lambda *arguments: asked.append(arguments) or ())
    found = hdp.check(RIGHT, SCHEMA)
    assert found.columns
    assert not asked
    assert found.advice == ()
    assert len(asked) == len(found.columns)
    monkeypatch.undo()
    labels = [f"{place}a" for place in range(300)]
    many = hdp.check(pd.DataFrame({"x": [label.upper() for label in labels]}), hdp.Schema(x=hdp.Categorical(labels)))
    assert sum("differs in case" in words for words in many.advice) == 50
    assert "250 labels that no level declares" in many.advice[-1]


def test_it_is_neither_copied_nor_saved_and_shows_no_cell_as_an_object():
    found = hdp.check(right(arm="Surgery"), SCHEMA)
    for save in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            save(found)
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            save(found.columns[0])
    assert "Surgery" not in repr(found)
    assert not hasattr(found, "to_json")


@pytest.mark.parametrize(
    ("frame", "schema", "options", "error", "word"),
    [
        (RIGHT.to_dict(), SCHEMA, {}, hdp.ArgumentError, "frame"),
        (RIGHT, SCHEMA.to_dict(), {}, hdp.ArgumentError, "schema"),
        (RIGHT, SCHEMA, {"unit": "pid"}, hdp.SchemaError, "pid"),
        (RIGHT, SCHEMA, {"unit": 1}, hdp.ArgumentError, "unit"),
        (pd.concat([RIGHT, RIGHT[["age"]]], axis=1), SCHEMA, {}, hdp.SchemaError, "age"),
    ],
)
def test_wrong_arguments_are_refused(frame, schema, options, error, word):
    with pytest.raises(error, match=word):
        hdp.check(frame, schema, **options)
